"""From a study to its device program: axes, tables and code, in one canonical document."""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

from sfumato.channels.code import Code, Tables
from sfumato.device.program import FORMAT, MOST_BYTES, VERSION, Program, canonical, digest_of
from sfumato.domains.calendar import Dates, Times
from sfumato.domains.categories import Categories
from sfumato.domains.integers import Integers
from sfumato.domains.reals import Reals
from sfumato.errors import FormatError, StudyError, TooLargeError
from sfumato.study.axis import Axis

if TYPE_CHECKING:
    from sfumato.study.blocks import Block
    from sfumato.study.study import Study


def device_program(study: Study) -> Program:
    """Compile a study.

    Raises:
        StudyError: If an axis or a channel of the user's own cannot be compiled.
        TooLargeError: If the program would have more bytes than a device reads.
    """
    tables = Tables()
    blocks = [_block(study, block, tables) for block in study.blocks]
    document: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "name": study.name,
        "fingerprint": study.fingerprint,
        "most": _most(study),
        "axes": [_axis(axis) for axis in study.axes],
        "tables": tables.held,
        "blocks": blocks,
    }
    size = len(canonical(document).encode())
    if size > MOST_BYTES:
        raise TooLargeError(
            f"the device program of {study.name!r} would have {size:,} bytes; the limit is "
            f"{MOST_BYTES:,}. Use fewer cells, or a channel with shorter tables, such as Geometric "
            "or OLH"
        )
    try:
        return Program({**document, "digest": digest_of(document)})
    except FormatError as error:  # the document is sound, so it is too large for a device
        raise TooLargeError(f"study {study.name!r} is too large for devices: {error}") from None


def _most(study: Study) -> str | None:
    """The largest E between two records, exactly; None if it is unbounded."""
    parts = [group.metric.largest() for group in study.schema.groups]
    return None if None in parts else str(sum((p for p in parts if p is not None), Fraction(0)))


def _block(study: Study, block: Block, tables: Tables) -> dict[str, Any]:
    """The entries of a block."""
    code = Code(tables)
    layout = block.channel.layout
    return {
        "axes": list(block.axes),
        "sizes": [study.axes[axis].size for axis in block.axes],
        "kind": layout.kind,
        "count": layout.count,
        "code": code.piece(partial(block.channel.device_code, code, code.cell)),
    }


def _axis(axis: Axis) -> dict[str, Any]:
    """The entries of an axis."""
    shared = {"name": axis.name, "optional": axis.optional, "outside": axis.outside or "refuse"}
    return {**shared, "kind": axis.domain.kind, **_values(axis)}


def _values(axis: Axis) -> dict[str, Any]:
    """What the kind of an axis needs."""
    domain = axis.domain
    if isinstance(domain, Integers):
        return {"low": str(domain.low), "high": str(domain.high)}
    if isinstance(domain, Reals):
        return {"edges": _edges(domain), "rounding": domain.rounding_bits}
    if isinstance(domain, Categories):
        return {"labels": list(domain.names)}
    if isinstance(domain, Dates | Times):
        found = {"first": domain.first, "step": domain.step, "cells": domain.size}
        return found | ({"of_day": domain.of_day} if isinstance(domain, Times) else {})
    raise StudyError(
        f"axis {axis.name!r} is of a kind that devices do not know, {domain.kind!r}; use integers, "
        "reals, dates, times or categories"
    )


def _edges(domain: Reals) -> Any:
    """The edges of bins: by their rule where it is exact in doubles, otherwise listed."""
    if not domain.cuts:
        width = (domain.high - domain.low) / domain.bins
        below = math.lcm(domain.low.denominator, width.denominator)
        first, step = int(domain.low * below), int(width * below)
        if max(abs(first), abs(first + step * domain.bins), below) < 1 << 53:
            rule = {"first": str(first), "step": str(step), "below": str(below)}
            return rule | {"count": domain.bins}
    return [struct.pack(">d", edge).hex() for edge in domain.float_cuts().tolist()]
