"""Choices: channels by name and options, not yet bound to cells; and their open registry.

Built-in families are loaded when they are first used; a user's own are registered by `register`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from inspect import signature
from typing import Any, ClassVar

from sfumato.channels.base import Channel
from sfumato.domains.base import MOST_CELLS
from sfumato.errors import FormatError, StudyError, near, shown
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.uniform import UniformMetric
from sfumato.text import visible


class Choice(ABC):
    """A channel by name and options, not yet bound to an axis.

    A new one writes `misfit`, `bind` and, where it has options, `options`.
    """

    id: ClassVar[str]

    #: Goes up when the same options come to mean other reports. It is part of a study's
    #: fingerprint, so that reports made before are refused and not misread.
    revision: ClassVar[int] = 1

    #: Most cells of a grid of several axes.
    most_cells: ClassVar[int] = MOST_CELLS

    #: Whether settling it may take minutes: such a channel is compared only if asked for.
    slow: ClassVar[bool] = False

    @property
    def title(self) -> str | None:
        """What `explain` calls a channel that is made of others; None: by the channel's id."""
        return None

    @abstractmethod
    def misfit(self, metric: CellMetric) -> str | None:
        """Why this channel cannot serve the metric, or None if it can."""

    @abstractmethod
    def bind(self, metric: CellMetric, *, precision: int = 64, resolution: int = 0) -> Channel:
        """The channel for these cells.

        Args:
            metric: E between the cells.
            precision: How many bits of a random word take part.
            resolution: Bits of a value's place between two cells, where values arrive by
                stochastic rounding; 0 where they do not.
        """

    def bind_grid(
        self, metric: UniformMetric, shape: tuple[int, ...], ordered: tuple[bool, ...]
    ) -> Channel:
        """The channel for whole records: cells of the grid of all axes, flat in C order.

        Args:
            metric: One ε for any two cells of the grid.
            shape: Cells along every axis.
            ordered: Which axes have neighbours; most channels do not need to know.
        """
        return self.bind(metric)

    def settled(
        self, metric: CellMetric, *, progress: Callable[[float], None] | None = None
    ) -> Choice:
        """The choice as a study holds it, with all that another machine might find differently.

        Nearly all channels follow from their options alone, and are settled as they are.

        Args:
            metric: E between the cells.
            progress: Called with the share done, by those that search for long.
        """
        return self

    def options(self) -> dict[str, Any]:
        """Options that differ from their defaults, for files."""
        return {}

    def refuse_misfit(self, metric: CellMetric, resolution: int = 0) -> None:
        """Refuse a metric that this channel cannot serve, and stochastic rounding if it is asked.

        Args:
            metric: E between the cells.
            resolution: What `bind` was given; 0 for a channel that can round.
        """
        problem = self.misfit(metric)
        if problem is None and resolution:
            problem = "it cannot be combined with stochastic rounding"
        if problem:
            raise StudyError(f"{type(self).__name__} does not fit this axis: {problem}")

    @classmethod
    def trials(cls) -> tuple[Trial, ...]:
        """What the contract tests try this channel with: every variant, on a few cells each."""
        raise NotImplementedError(f"{cls.__name__} declares no trials")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A choice with the cells it is to be tried on, few enough to list its whole law.

    Attributes:
        choice: The channel with its options.
        metric: E between the cells.
        shape: Cells along every axis, where the channel perturbs records of several axes.
        ordered: Which of these axes have neighbours.
        resolution: Bits of a value's place between two cells, where values arrive by stochastic
            rounding.
        spends: The share of its E by which some pair must be told apart: less would be wasteful.
    """

    choice: Choice
    metric: CellMetric
    shape: tuple[int, ...] | None = None
    ordered: tuple[bool, ...] | None = None
    resolution: int = 0
    spends: float = 0.99

    def bind(self, *, precision: int = 64) -> Channel:
        """The channel proper; a grid is always bound with words of 64 bits."""
        metric, shape, ordered = self.metric, self.shape, self.ordered
        if shape is None or ordered is None or not isinstance(metric, UniformMetric):
            return self.choice.bind(metric, precision=precision, resolution=self.resolution)
        return self.choice.bind_grid(metric, shape, ordered)


def uniform_trials(
    choice: Choice, sizes: Sequence[int], *shapes: tuple[int, ...], epsilon: str = "1"
) -> tuple[Trial, ...]:
    """Trials under one ε for all pairs: single axes, then grids of ordered and other axes.

    Args:
        choice: The channel with its options.
        sizes: Cells of each single axis.
        *shapes: Cells along every axis of each grid; after the first grid, the last axis has no
            neighbours.
        epsilon: E between any two cells.
    """
    eps = Fraction(epsilon)
    single = [Trial(choice=choice, metric=UniformMetric(eps, size)) for size in sizes]
    grids = [
        Trial(
            choice=choice,
            metric=UniformMetric(eps, math.prod(shape)),
            shape=shape,
            ordered=(*[True] * (len(shape) - 1), number == 0),
        )
        for number, shape in enumerate(shapes)
    ]
    return (*single, *grids)


def needs_uniform(metric: CellMetric) -> str | None:
    """Why a channel that treats all pairs equally cannot serve a metric, or None if it can."""
    return None if isinstance(metric, UniformMetric) else "it needs protect=Uniform(...)"


def needs_grid(metric: CellMetric, shape: Sequence[int], ordered: Sequence[bool]) -> None:
    """Refuse a shape and an order that are not those of the metric's cells.

    Args:
        metric: E between the cells of the grid.
        shape: Cells along every axis.
        ordered: Which axes have neighbours.
    """
    if math.prod(shape) != metric.size or len(shape) != len(ordered) or min(shape) < 1:
        raise ValueError(f"a grid of shape {tuple(shape)} does not have {metric.size} cells")


def uniform_fitted(choice: Choice, metric: CellMetric, resolution: int) -> UniformMetric:
    """The metric, if it treats all pairs equally and the choice can serve it; refused otherwise.

    Args:
        choice: What is to be bound.
        metric: E between the cells.
        resolution: What `bind` was given; refused unless it is 0.
    """
    choice.refuse_misfit(metric, resolution)
    if not isinstance(metric, UniformMetric):
        raise StudyError(f"{type(choice).__name__} does not fit this axis: {needs_uniform(metric)}")
    return metric


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
    "per-block": "per_block:PerBlock",
    "pairs": "pairs:Pairs",
    "planar": "planar:Planar",
    "product": "product:Product",
    "stricter": "stricter:Stricter",
    "extended": "extended:Extended",
    "rakes": "rakes:Rakes",
}


#: Older revisions whose studies still load, with the law that they had.
OLDER = {
    ("exponential", 1): "older:FloatExponential",
    ("extremal", 1): "older:FloatExtremal",
}


class _Registry(MutableMapping[str, type[Choice]]):
    """Choices by id. Listing the ids loads nothing; looking one up imports its module."""

    def __init__(self, built_in: Mapping[str, str]) -> None:
        self._held: dict[str, type[Choice] | str] = dict(built_in)

    def __getitem__(self, kind: str) -> type[Choice]:
        held = self._held[kind]
        if isinstance(held, str):
            self._held[kind] = held = _loaded(held)
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


def _loaded(place: str) -> type[Choice]:
    """A choice by its module and name."""
    module, name = place.split(":")
    found: type[Choice] = getattr(import_module(f"sfumato.channels.{module}"), name)
    return found


REGISTRY: MutableMapping[str, type[Choice]] = _Registry(_BUILT_IN)


def register(choice: type[Choice]) -> type[Choice]:
    """Make a channel known by its id, so that studies which name it can be saved and loaded."""
    if choice.id in REGISTRY and REGISTRY[choice.id] is not choice:
        raise StudyError(f"a channel with the id {choice.id!r} is registered already; use another")
    REGISTRY[choice.id] = choice
    return choice


def described(choice: Choice) -> str:
    """A channel's id with its options, for people; of channels inside it, the ids.

    Example:
        >>> import sfumato as sf
        >>> described(sf.OLH(5)), described(sf.Stricter("uniform", sf.Comb()))
        ('olh (5)', 'stricter (uniform, comb)')
    """
    said: list[str] = []
    for name, value in choice.options().items():
        inside = value if isinstance(value, list) else [value]
        kinds = dict.fromkeys(str(v["kind"]) for v in inside if isinstance(v, Mapping))
        if name != "table":
            said += kinds or [" × ".join(map(str, inside))]
    return f"{choice.id} ({', '.join(said)})" if said else choice.id


def choice_to_dict(choice: Choice) -> dict[str, Any]:
    """The form a study file holds; the first revision is left out."""
    revised = {} if choice.revision == 1 else {"revision": choice.revision}
    return {"kind": choice.id, **revised, **choice.options()}


def as_saved(data: Any) -> Any:
    """Entries as a saved study means them, at any depth: channels with their revisions.

    The first revision is left out when a study is saved. So where an older law is still known, a
    saved study without a revision has that law. In a file that people write, it means the newest.
    """
    if isinstance(data, list):
        return [as_saved(held) for held in data]
    if not isinstance(data, Mapping):
        return data
    found = {name: as_saved(held) for name, held in data.items()}
    kind = found.get("kind")
    return {"revision": 1, **found} if isinstance(kind, str) and (kind, 1) in OLDER else found


def choice_from_dict(data: Mapping[str, Any]) -> Choice:
    """Read a channel choice back; unknown ids and revisions are refused."""
    options = dict(data)
    kind = options.pop("kind", None)
    if not isinstance(kind, str) or kind not in REGISTRY:
        raise FormatError(f"unknown channel {shown(kind)}: {near(str(kind), REGISTRY)}")
    found = REGISTRY[kind]
    revision = options.pop("revision", found.revision)
    if isinstance(revision, int) and (kind, revision) in OLDER:
        found = _loaded(OLDER[kind, revision])
    if revision != found.revision:
        raise FormatError(
            f"channel {kind!r} has revision {found.revision} here, got revision={shown(revision)}: "
            "its reports mean something else; use the version of sfumato that the study was made "
            "with"
        )
    try:
        return found(**options)
    except TypeError:
        takes = signature(found).parameters
        missing = [n for n, p in takes.items() if p.default is p.empty and n not in options]
        if missing and not options.keys() - takes.keys():
            raise FormatError(f"channel {kind!r} needs the option {missing[0]!r}: add it") from None
        given = ", ".join(map(visible, sorted(map(str, options))))
        taken = ", ".join(takes) or "none"
        raise FormatError(
            f"channel {kind!r} does not take these options: {given}; it takes {taken}"
        ) from None


def read_choice(given: Any, what: str) -> Choice:
    """A channel inside another: a choice, its id, or what a file holds of it.

    Args:
        given: What was given.
        what: What messages call it.
    """
    held = {"kind": given} if isinstance(given, str) else given
    if isinstance(held, Choice):
        return held
    if isinstance(held, Mapping):
        return choice_from_dict(held)
    raise StudyError(f"{what} must be a channel such as KaryResponse(), got {what}={shown(given)}")
