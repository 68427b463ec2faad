"""Decoded estimates as files: what was decoded from a tally need not be decoded again.

The file is Parquet with one column of shares: for every decoded set of axes the distribution over
its cells, those of rivals that widen intervals, that without a prior where it has a share in the
answers, and those of fits that are nearly as good. Its metadata name the study, the tally by a
digest, and the strengths of every fit. It is of use with that tally only.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sfumato.arrays import Floats
from sfumato.checks import is_number
from sfumato.collect.parquet import (
    KEY,
    VERSION,
    open_parquet,
    read_columns,
    read_head,
    read_sums,
    write_parquet,
)
from sfumato.errors import FormatError, MismatchError
from sfumato.estimation.decoding.evidence import MOST_NEARBY
from sfumato.estimation.decoding.field import Strengths
from sfumato.estimation.decoding.state import State
from sfumato.study.study import Study

_COLUMN = "share"
_MOST_FITS = 2  # the best and its rival

States = dict[tuple[int, ...], State]


class _Kept(NamedTuple):
    """What metadata tell of a decoded population.

    Args:
        axes: The axes that were decoded together.
        shape: Number of cells of each.
        strengths: The strengths of every fit.
        beside: The share in the answers of the distribution beside the best fit.
        nearby: How many distributions by fits that are nearly as good follow.
    """

    axes: tuple[int, ...]
    shape: tuple[int, ...]
    strengths: tuple[Strengths, ...]
    beside: float
    nearby: int


def write_estimate(
    path: str | Path, study: Study, digest: str, smoothing: str, states: Mapping[Any, State]
) -> None:
    """Write decoded populations as a Parquet file.

    Args:
        path: The file.
        study: The study.
        digest: The digest of the tally that they were decoded from.
        smoothing: "auto" or "none".
        states: The populations by the axes that were decoded together.
    """
    laws = [law.ravel() for state in states.values() for law in (*state.laws, *state.nearby)]
    shares = np.concatenate([np.zeros(0), *laws])
    decoded = [
        {
            "axes": list(axes),
            "strengths": [
                {"cells": s.cells, "along": s.along, "apart": s.apart} for s in state.strengths
            ],
            "beside": state.beside,
            "nearby": len(state.nearby),
        }
        for axes, state in states.items()
    ]
    head = {
        "version": VERSION,
        "kind": "estimate",
        "study": study.fingerprint,
        "axes": [axis.name for axis in study.axes],
        "tally": digest,
        "smoothing": smoothing,
        "decoded": decoded,
        "digest": _digest(shares, decoded),
    }
    field = pa.field(_COLUMN, pa.float64(), nullable=False)
    metadata = {KEY: json.dumps(head, ensure_ascii=False).encode()}
    write_parquet(pa.table([pa.array(shares)], schema=pa.schema([field], metadata=metadata)), path)


def read_estimate(path: str | Path, study: Study, digest: str, smoothing: str) -> States:
    """Read decoded populations; those of another tally are refused.

    Args:
        path: A file that `write_estimate` wrote.
        study: The study.
        digest: The digest of the tally that answers are about.
        smoothing: "auto" or "none", which must be what they were decoded with.

    Raises:
        MismatchError: If they belong to another study or tally, or were decoded otherwise.
        FormatError: If the file is damaged.
    """
    what = repr(str(path))
    with open_parquet(path) as file:
        head = read_head(file.schema_arrow, "estimate", what)
        study.refuse_other(head["study"], what)
        if head.get("tally") != digest:
            raise MismatchError(
                f"{what} was decoded from another tally of study {study.name!r}; use it with that "
                "tally, or decode this one and save it in another file"
            )
        if head.get("smoothing") != smoothing:
            raise MismatchError(
                f"{what} was not decoded with smoothing={smoothing!r}; use the smoothing that it "
                "was decoded with, or save another estimate"
            )
        kept = _read_kept(head, study, what)
        table = read_columns(file, path, {_COLUMN: "weights"})
    shares = read_sums(table, _COLUMN, what)
    if head.get("digest") != _digest(shares, head["decoded"]):
        raise FormatError(f"{what} is damaged: its numbers were changed; save it again")
    return _split(shares, kept, what)


def _digest(shares: Floats, decoded: Any) -> str:
    """A SHA-256 of all numbers, by which damage is noticed."""
    found = hashlib.sha256(json.dumps(decoded, sort_keys=True).encode())
    found.update(shares.astype("<f8").tobytes())
    return found.hexdigest()


def _read_kept(head: dict[str, Any], study: Study, what: str) -> list[_Kept]:
    """What metadata tell of every decoded population."""
    sets = {block.axes for block in study.blocks}
    found: list[_Kept] = []
    try:
        for part in head["decoded"]:
            axes = tuple(part["axes"])
            if not axes or set(axes) != {a for held in sets if set(held) & set(axes) for a in held}:
                raise ValueError
            strengths = tuple(_read_strengths(one, len(axes)) for one in part["strengths"])
            if len(strengths) > _MOST_FITS or axes != tuple(sorted(axes)):
                raise ValueError
            share = part["beside"]
            if not is_number(share) or not 0 <= share <= 1 or (share and len(strengths) != 1):
                raise ValueError
            nearby = part["nearby"]
            if not isinstance(nearby, int) or not 0 <= nearby <= MOST_NEARBY or nearby == 1:
                raise ValueError
            shape = tuple(study.shape[axis] for axis in axes)
            found.append(_Kept(axes, shape, strengths, float(share), nearby))
        if len({kept.axes for kept in found}) < len(found):
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise FormatError(f"{what} has damaged metadata; save it again") from None
    return found


def _read_strengths(held: Any, axes: int) -> Strengths:
    """Strengths from metadata."""
    along = tuple((first, second) for first, second in held["along"])
    numbers = [held["cells"], held["apart"], *(number for pair in along for number in pair)]
    if len(along) != axes or not all(is_number(number) and number >= 0 for number in numbers):
        raise ValueError
    if held["apart"] and (axes > 1 or not any(map(any, along))):
        raise ValueError  # only the cells of a single ordered axis have terms of their own
    pairs = tuple((float(a), float(b)) for a, b in along)
    return Strengths(float(held["cells"]), pairs, float(held["apart"]))


def _split(shares: Floats, kept: list[_Kept], what: str) -> States:
    """The column of shares as distributions, each of which must sum to one."""
    states: States = {}
    start = 0
    for axes, shape, strengths, beside, nearby in kept:
        laws: list[Floats] = []
        fits = max(1, len(strengths)) + (beside > 0)
        for _ in range(fits + nearby):
            law = shares[start : start + math.prod(shape)]
            start += math.prod(shape)
            if len(law) < math.prod(shape) or not abs(float(law.sum()) - 1) < 1e-6:
                raise FormatError(f"{what} is damaged: its shares do not add up; save it again")
            laws.append(law.reshape(shape))
        states[axes] = State(tuple(laws[:fits]), strengths, beside, tuple(laws[fits:]))
    if start != len(shares):
        raise FormatError(f"{what} is damaged: it has more shares than cells; save it again")
    return states
