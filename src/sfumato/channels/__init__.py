"""Channels: how one axis is perturbed. One family a file; the registry is open to a user's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.channels.base import (
    BitFunctional,
    Channel,
    Choice,
    Functional,
    SymbolChannel,
    SymbolFunctional,
)
from sfumato.channels.binary import Binary, BinaryChannel
from sfumato.channels.capped import CappedGeometricChannel
from sfumato.channels.comb import Comb, CombChannel
from sfumato.channels.contexts import Hadamard, HadamardChannel
from sfumato.channels.exponential import Exponential, ExponentialChannel
from sfumato.channels.extremal import Extremal, ExtremalChannel
from sfumato.channels.flipped_codes import MatrixResponseChannel
from sfumato.channels.geometric import Geometric, GeometricChannel
from sfumato.channels.haar import HaarChannel, HaarHRR
from sfumato.channels.hadamard import HRR, HRRChannel
from sfumato.channels.hashing import OLH, OLHChannel
from sfumato.channels.hierarchy import Hierarchical, HierarchicalChannel
from sfumato.channels.levels import LevelsChannel
from sfumato.channels.matrix_response import MatrixResponse
from sfumato.channels.optimised import Optimised, OptimisedChannel
from sfumato.channels.response import KaryResponse, KaryResponseChannel
from sfumato.channels.rounding import RoundedChannel
from sfumato.channels.square_wave import SquareWave, SquareWaveChannel
from sfumato.channels.thermometer import Thermometer, ThermometerChannel
from sfumato.channels.unary import OUE, OUEChannel
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


__all__ = [
    "HRR",
    "OLH",
    "OUE",
    "REGISTRY",
    "Binary",
    "BinaryChannel",
    "BitFunctional",
    "CappedGeometricChannel",
    "Channel",
    "Choice",
    "Comb",
    "CombChannel",
    "Exponential",
    "ExponentialChannel",
    "Extremal",
    "ExtremalChannel",
    "Functional",
    "Geometric",
    "GeometricChannel",
    "HRRChannel",
    "HaarChannel",
    "HaarHRR",
    "Hadamard",
    "HadamardChannel",
    "Hierarchical",
    "HierarchicalChannel",
    "KaryResponse",
    "KaryResponseChannel",
    "LevelsChannel",
    "MatrixResponse",
    "MatrixResponseChannel",
    "OLHChannel",
    "OUEChannel",
    "Optimised",
    "OptimisedChannel",
    "RoundedChannel",
    "SquareWave",
    "SquareWaveChannel",
    "SymbolChannel",
    "SymbolFunctional",
    "Thermometer",
    "ThermometerChannel",
    "choice_from_dict",
    "choice_to_dict",
    "register",
]
