"""Channels: how one axis is perturbed. One family a file; the registry is open to a user's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.channels.base import (
    Choice,
)
from sfumato.channels.binary import Binary
from sfumato.channels.comb import Comb
from sfumato.channels.exponential import Exponential
from sfumato.channels.geometric import Geometric
from sfumato.channels.hadamard import Hadamard
from sfumato.channels.hashing import OLH
from sfumato.channels.hrr import HRR
from sfumato.channels.response import KaryResponse
from sfumato.channels.searched.extremal import Extremal
from sfumato.channels.searched.matrix_response import MatrixResponse
from sfumato.channels.searched.optimised import Optimised
from sfumato.channels.square_wave import SquareWave
from sfumato.channels.thermometer import Thermometer
from sfumato.channels.trees.haar import HaarHRR
from sfumato.channels.trees.hierarchy import Hierarchical
from sfumato.channels.unary import OUE
from sfumato.errors import FormatError, StudyError, near

REGISTRY: dict[str, type[Choice]] = {}


def register(choice: type[Choice]) -> type[Choice]:
    """Make a channel known by its id, so that studies which name it can be saved and loaded."""
    known = REGISTRY.get(choice.id)
    if known is not None and known is not choice:
        raise StudyError(f"a channel with the id {choice.id!r} is registered already; use another")
    REGISTRY[choice.id] = choice
    return choice


for _choice in (
    Geometric,
    Thermometer,
    KaryResponse,
    Exponential,
    OUE,
    OLH,
    HRR,
    SquareWave,
    Optimised,
    Extremal,
    MatrixResponse,
    Comb,
    Hierarchical,
    HaarHRR,
    Binary,
    Hadamard,
):
    register(_choice)


def choice_to_dict(choice: Choice) -> dict[str, Any]:
    """The form a study file holds; the first revision is left out."""
    revised = {} if choice.revision == 1 else {"revision": choice.revision}
    return {"kind": choice.id, **revised, **choice.options()}


def choice_from_dict(data: Mapping[str, Any]) -> Choice:
    """Read a channel choice back; unknown ids and other revisions are refused."""
    options = dict(data)
    kind = options.pop("kind", None)
    if kind not in REGISTRY:
        raise FormatError(f"unknown channel {kind!r}: {near(str(kind), REGISTRY)}")
    here = REGISTRY[kind].revision
    revision = options.pop("revision", here)
    if revision != here:
        raise FormatError(
            f"channel {kind!r} has revision {here} here, got revision={revision!r}: its reports "
            "mean something else; use the version of sfumato that the study was made with"
        )
    try:
        return REGISTRY[kind](**options)
    except TypeError:
        raise FormatError(
            f"channel {kind!r} does not take these options: {', '.join(sorted(options))}"
        ) from None
