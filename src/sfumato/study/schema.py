"""The schema of a study: its axes and their guarantees, without channels.

Axes form *groups*, each under one guarantee: a single axis, or several axes together. E between
two records is the sum over groups. The central model uses the schema alone; a `Study` adds a
channel to every group.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import tomli_w

from sfumato.errors import StudyError, TooLargeError, shown
from sfumato.metrics.base import Metric
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.lp import Lp
from sfumato.metrics.norm_grids import NormGridMetric
from sfumato.metrics.uniform import Uniform, UniformMetric
from sfumato.study.axis import Axis, Together
from sfumato.study.guarantee import Guarantee
from sfumato.text import refuse_name

FORMAT = 1
MOST_AXES = 1_000
MOST_BYTES = 4 << 20  # of a study file


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Axes under one guarantee.

    Args:
        axes: Positions of the axes in the study; they are neighbours.
        protect: The guarantee as stated.
        metric: E between the cells of the grid of these axes, flat in C order.
    """

    axes: tuple[int, ...]
    protect: Metric
    metric: CellMetric

    def margin(self, axes: Sequence[int], shape: Sequence[int]) -> CellMetric:
        """E between the cells of some of the axes, for reports that depend on these axes only.

        Args:
            axes: Positions of the axes in the study, all in this group.
            shape: Number of cells of every axis of the study.
        """
        if tuple(axes) == self.axes:
            return self.metric
        if isinstance(self.metric, NormGridMetric):
            return self.metric.margin([self.axes.index(axis) for axis in axes])
        if not isinstance(self.metric, UniformMetric):
            raise StudyError("only Uniform and Lp over several axes have margins")
        return UniformMetric(self.metric.epsilon, math.prod(shape[axis] for axis in axes))


class Schema:
    """The name, axes and guarantees of a study.

    Args:
        name: What the study is called.
        parts: The axes, each with its guarantee; see `arrange`.

    Raises:
        StudyError: If the name is blank, two axes share a name, or a guarantee does not fit.
    """

    def __init__(self, name: str, parts: Sequence[Together]) -> None:
        if not isinstance(name, str) or not name.strip():
            raise StudyError(f"a study needs a name that is not blank, got name={shown(name)}")
        refuse_name(name, "the name of a study")
        self.name = name
        self.axes: tuple[Axis, ...] = tuple(
            replace(axis, protect=part.protect) if len(part.axes) == 1 else axis
            for part in parts
            for axis in part.axes
        )
        if len(self.axes) > MOST_AXES:
            raise TooLargeError(
                f"a study may have at most {MOST_AXES:,} axes, got {len(self.axes):,}; ask less of "
                "each person"
            )
        _refuse_twins(self.axes)
        groups, start = [], 0
        for part in parts:
            places = tuple(range(start, start + len(part.axes)))
            groups.append(Group(places, part.statement, part.metric()))
            start += len(places)
        self.groups: tuple[Group, ...] = tuple(groups)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of cells of every axis."""
        return tuple(axis.size for axis in self.axes)

    @property
    def guarantee(self) -> Guarantee:
        """E between any two records."""
        return Guarantee(self.axes, tuple((group.axes, group.metric) for group in self.groups))

    def meaning(self, channels: Sequence[dict[str, Any]] | None = None) -> dict[str, Any]:
        """Everything that affects privacy or what an answer means, as a study file holds it.

        Args:
            channels: The entries of every group's channel; left out, channels are not included.
        """
        data: dict[str, Any] = {"format": FORMAT, "name": self.name}
        axes = [axis.to_dict() for axis in self.axes]
        together = []
        for place, group in enumerate(self.groups):
            held: dict[str, Any] = {"protect": group.protect.to_dict()}
            if channels is not None:
                held["channel"] = channels[place]
            if len(group.axes) == 1:
                axes[group.axes[0]] |= held
            elif len(self.groups) == 1 and isinstance(group.protect, Uniform):
                # One ε for all axes: files have called its channel the mechanism since
                # format 1, and the name is part of fingerprints.
                data |= {{"channel": "mechanism"}.get(key, key): v for key, v in held.items()}
            else:
                together.append({"axes": [self.axes[a].name for a in group.axes], **held})
        return {**data, **({"together": together} if together else {}), "axes": axes}

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the entries of the schema; it does not depend on channels."""
        return digest(self.meaning())

    def to_toml(self) -> str:
        """The text of a study file without channels."""
        return to_toml(self.meaning(), self.fingerprint)


def digest(data: Mapping[str, Any]) -> str:
    """SHA-256 of the entries as canonical JSON, in hexadecimal."""
    # Dates that a file spells as dates are none of ours: any text will do for their digest.
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def to_toml(entries: Mapping[str, Any], fingerprint: str, people: int | None = None) -> str:
    """The text of a study file.

    Args:
        entries: The entries, as returned by `Schema.meaning`.
        fingerprint: Their digest.
        people: About how many people will answer; None leaves it out.
    """
    rest = dict(entries)
    head = {"format": rest.pop("format"), "name": rest.pop("name")}
    if people is not None:
        head["people"] = people
    text = tomli_w.dumps({**head, "fingerprint": fingerprint, **rest})
    refuse_large(len(text.encode()), "the study")
    return text


def refuse_large(size: int, what: str) -> None:
    """Refuse a study file that would take too long to read.

    Args:
        size: Its length in bytes, at least.
        what: What messages call it.

    Raises:
        TooLargeError: If it is longer than `MOST_BYTES`.
    """
    if size > MOST_BYTES:
        raise TooLargeError(
            f"{what} is too large for a file: study files have at most {MOST_BYTES >> 20} MiB; use "
            "fewer labels, or a metric and a channel that need no table"
        )


def arrange(
    axes: Sequence[Axis | Together],
    *,
    protect: Metric | None = None,
    outside: Any = "refuse",
) -> tuple[Together, ...]:
    """Arrange axes in groups under one guarantee each: their own, or the one for all axes.

    Args:
        axes: Axes, and groups of them made by `together`.
        protect: One guarantee for all axes together, where they state none.
        outside: "refuse" or "clip" values out of bounds, on axes that leave it open.

    Raises:
        StudyError: If there is no axis, or two statements contradict each other.
    """
    if not isinstance(axes, Sequence) or isinstance(axes, str):
        raise StudyError(f"axes must be a list of axes, got {type(axes).__name__}")
    if not axes:
        raise StudyError(
            "a study needs at least one axis, got none: add one, such as integers(...)"
        )
    for axis in axes:
        if not isinstance(axis, Axis | Together):
            raise StudyError(
                "axes must be axes such as integers(...), or groups made by together(...), got "
                f"{type(axis).__name__}"
            )
    if outside not in ("refuse", "clip"):
        raise StudyError(f"outside must be 'refuse' or 'clip', got outside={shown(outside)}")
    parts = [axis if isinstance(axis, Together) else Together.alone(axis) for axis in axes]
    parts = [part.with_outside(outside) for part in parts]
    if protect is None:
        return tuple(parts)
    every = [axis for part in parts for axis in part.axes]
    stated = [part.axes[0].name for part in parts if part.protect is not None]
    if not isinstance(protect, Lp | Uniform):
        raise StudyError(
            f"protect={type(protect).__name__} for a whole study is not available; give each axis "
            "its own protect=..., or the study protect=Uniform(epsilon=...) or "
            "protect=Lp(epsilon=..., p=...)"
        )
    if stated:
        raise StudyError(
            f"the study states one {type(protect).__name__} guarantee for all axes, so axis "
            f"{stated[0]!r} must not state its own: remove one of the two"
        )
    if isinstance(protect, Uniform) and len(every) > 1:
        named = [part.channel for part in parts if part.channel is not None]
        if named:
            raise StudyError(
                "under one Uniform guarantee whole records go through one channel, so axis "
                f"{next(p.axes[0].name for p in parts if p.channel)!r} must not name its own: give "
                "the study channel=..."
            )
        return (Together(axes=tuple(every), protect=protect),)
    share = protect.per_axis(len(every)) if isinstance(protect, Lp) else protect
    return tuple(replace(part, protect=share) for part in parts)


def _refuse_twins(axes: Sequence[Axis]) -> None:
    """Refuse two axes with the same name."""
    seen = set()
    for axis in axes:
        if axis.name in seen:
            raise StudyError(f"two axes are called {axis.name!r}; names must differ")
        seen.add(axis.name)
