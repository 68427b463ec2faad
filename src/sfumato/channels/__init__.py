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
from sfumato.channels.capped import CappedGeometricChannel
from sfumato.channels.exponential import Exponential, ExponentialChannel
from sfumato.channels.geometric import Geometric, GeometricChannel
from sfumato.channels.response import KaryResponse, KaryResponseChannel
from sfumato.channels.rounding import RoundedChannel
from sfumato.channels.thermometer import Thermometer, ThermometerChannel
from sfumato.errors import FormatError, StudyError, near

REGISTRY: dict[str, type[Choice]] = {}


def register(choice: type[Choice]) -> type[Choice]:
    """Make a channel known by its id, so that studies which name it can be saved and loaded."""
    known = REGISTRY.get(choice.id)
    if known is not None and known is not choice:
        raise StudyError(f"a channel with the id {choice.id!r} is registered already; use another")
    REGISTRY[choice.id] = choice
    return choice


for _choice in (Geometric, Thermometer, KaryResponse, Exponential):
    register(_choice)


def choice_to_dict(choice: Choice) -> dict[str, Any]:
    """The form a study file holds."""
    return {"kind": choice.id, **choice.options()}


def choice_from_dict(data: Mapping[str, Any]) -> Choice:
    """Read a channel choice back; unknown ids are refused."""
    options = dict(data)
    kind = options.pop("kind", None)
    if kind not in REGISTRY:
        raise FormatError(f"unknown channel {kind!r}: {near(str(kind), REGISTRY)}")
    try:
        return REGISTRY[kind](**options)
    except TypeError:
        raise FormatError(
            f"channel {kind!r} does not take these options: {', '.join(sorted(options))}"
        ) from None


__all__ = [
    "REGISTRY",
    "BitFunctional",
    "CappedGeometricChannel",
    "Channel",
    "Choice",
    "Exponential",
    "ExponentialChannel",
    "Functional",
    "Geometric",
    "GeometricChannel",
    "KaryResponse",
    "KaryResponseChannel",
    "RoundedChannel",
    "SymbolChannel",
    "SymbolFunctional",
    "Thermometer",
    "ThermometerChannel",
    "choice_from_dict",
    "choice_to_dict",
    "register",
]
