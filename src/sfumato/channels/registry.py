"""Channels by id: the built-in families, each loaded when first used, and a user's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Any

from sfumato.channels.choice import Choice
from sfumato.errors import FormatError, StudyError, near

_BUILT_IN = {
    "geometric": "geometric:Geometric",
    "thermometer": "thermometer:Thermometer",
    "kary-response": "response:KaryResponse",
    "exponential": "exponential:Exponential",
    "oue": "unary:OUE",
    "olh": "hashing:OLH",
    "hrr": "hrr:HRR",
    "square-wave": "square_wave:SquareWave",
    "optimised": "searched.optimised:Optimised",
    "extremal": "searched.extremal:Extremal",
    "matrix-response": "searched.matrix_response:MatrixResponse",
    "comb": "comb:Comb",
    "hierarchical": "trees.hierarchy:Hierarchical",
    "haar-hrr": "trees.haar:HaarHRR",
    "binary": "response:Binary",
    "hadamard": "hadamard:Hadamard",
}


class _Registry(MutableMapping[str, type[Choice]]):
    """Choices by id. Listing the ids loads nothing; looking one up imports its module."""

    def __init__(self, built_in: Mapping[str, str]) -> None:
        self._held: dict[str, type[Choice] | str] = dict(built_in)

    def __getitem__(self, kind: str) -> type[Choice]:
        held = self._held[kind]
        if isinstance(held, str):
            module, name = held.split(":")
            found: type[Choice] = getattr(import_module(f"sfumato.channels.{module}"), name)
            self._held[kind] = held = found
        return held

    def __setitem__(self, kind: str, choice: type[Choice]) -> None:
        self._held[kind] = choice

    def __delitem__(self, kind: str) -> None:
        del self._held[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, kind: object) -> bool:
        return kind in self._held


REGISTRY: MutableMapping[str, type[Choice]] = _Registry(_BUILT_IN)


def register(choice: type[Choice]) -> type[Choice]:
    """Make a channel known by its id, so that studies which name it can be saved and loaded."""
    if choice.id in REGISTRY and REGISTRY[choice.id] is not choice:
        raise StudyError(f"a channel with the id {choice.id!r} is registered already; use another")
    REGISTRY[choice.id] = choice
    return choice


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
