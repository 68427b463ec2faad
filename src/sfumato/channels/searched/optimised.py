"""The optimised channel: weighted sets of cells with a small error on given questions.

An output y is a set of cells with a weight z: P(y | x) is z, times e^ε if x is in the set. One more
output, the blank, takes what rounding leaves over. Which sets are best for a workload is found by
numerical descent (`searched/descent.py`), which no two machines repeat bit for bit: so the study
file holds the sets and weights themselves, and both ends derive the same words from them.

Guarantee:
    E(x, x') = ε for every pair, whatever the sets and weights. Words inside a set are at most e^ε
    times those outside, rounded down, and those of the blank are checked when they are counted.

Estimator:
    Weighted least squares (`channels/least_squares.py`), unbiased.

References:
    McKenna2020, whose projected gradient over all of Q is replaced by sets and weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from sfumato.arrays import Floats
from sfumato.channels.base import claimed_tightness
from sfumato.channels.choice import Trial, needs_uniform, uniform_fitted, uniform_trials
from sfumato.channels.least_squares import LeastSquaresChannel, TableChannel
from sfumato.channels.searched import descent
from sfumato.channels.searched.codec import Sets
from sfumato.channels.searched.settling import (
    OWN,
    Progress,
    SearchedChoice,
    checked_workload,
    gram_of,
    written,
)
from sfumato.errors import StudyError, shown
from sfumato.exact import exp_floor
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.uniform import UniformMetric

USUAL_OUTPUTS = 512  # four per cell, but no more than this unless asked for

_METHOD = 1  # raised when the descent changes, so that no older result is taken from the cache
_LEAST_EPSILON, _MOST_EPSILON = Fraction(1, 20), Fraction(16)  # sets are searched between these


@dataclass(frozen=True, slots=True)
class Optimised(SearchedChoice):
    """Choose a channel made for a workload; it fits `Uniform` on up to 256 cells.

    Making a study finds the sets: seconds for 64 cells, a minute or two for 256. They are kept in
    the study and its file, and in a cache on this machine (`$SFUMATO_CACHE`, by default `sfumato`
    in the user's cache folder).

    Args:
        workload: Which questions should have a small error: "ranges", "prefixes", "cells", or a
            matrix of weights, one row per question and one column per cell.
        outputs: How many sets, at least one per cell; by default four per cell, at most 512.
        table: The sets and weights, as `settled` writes them; leave it out.

    Example:
        >>> import sfumato as sf
        >>> axis = sf.integers("grade", 1, 6, protect=sf.Uniform(1), channel=sf.Optimised("cells"))
        >>> study = sf.Study("grades", [axis])
        >>> tally = study.simulate({"grade": [1] * 6_000 + [4] * 4_000}, seed=1)
        >>> answer = tally.estimate("unbiased").count({"grade": 1})
        >>> answer.low < 6_000 < answer.high
        True
        >>> sf.Study.from_toml(study.to_toml()).fingerprint == study.fingerprint
        True
    """

    id: ClassVar[str] = "optimised"
    table_type: ClassVar[type[Sets]] = Sets
    workload: str | ArrayLike = "ranges"
    outputs: int | None = None
    table: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Check what can be checked before the axis is known."""
        object.__setattr__(self, "workload", checked_workload(self.workload, self.table))
        if self.outputs is not None and (
            isinstance(self.outputs, bool)
            or not isinstance(self.outputs, int)
            or not 2 <= self.outputs <= Sets.MOST_OUTPUTS
        ):
            raise StudyError(
                f"outputs must be a whole number from 2 to {Sets.MOST_OUTPUTS}, got "
                f"outputs={shown(self.outputs)}; leave it out for four per cell"
            )
        if self.table is not None:
            Sets.from_text(self.table)

    def misfit(self, metric: CellMetric) -> str | None:
        """It needs one ε for all pairs, and not too many cells."""
        problem = (
            needs_uniform(metric)
            or self._too_large(metric.size)
            or self._other_cells(metric.size, workload=self.workload)
        )
        if problem is None and self.table is None and 0 < (self.outputs or 0) < metric.size:
            return (
                f"outputs must be at least the number of cells, {metric.size}, got "
                f"outputs={self.outputs}; leave it out for four per cell"
            )
        return problem

    def _too_large(self, size: int) -> str | None:
        """Beyond 256 cells the descent would take hours."""
        if size <= Sets.MOST_CELLS:
            return None
        return (
            f"finding its sets takes time with the cube of the cells, and {size} are more than the "
            f"limit of {Sets.MOST_CELLS}. Use Comb() for ranges of up to 2,048 cells, "
            "Hierarchical() of more, HRR() for single cells, or wider bins"
        )

    def _search_key(self, metric: CellMetric) -> Iterator[bytes]:
        """The ε as far as it matters, the number of sets and the workload."""
        epsilon, outputs, gram = self._problem(metric)
        yield f"{_METHOD} {epsilon} {outputs} {gram.shape} ".encode()
        yield np.ascontiguousarray(gram, dtype="<f8").tobytes()

    def _search(self, metric: CellMetric, progress: Progress | None) -> Sets:
        """Sets and weights by descent."""
        epsilon, outputs, gram = self._problem(metric)
        return descent.fit(gram, float(exp_floor(epsilon)), outputs, progress=progress)

    def _with_table(self, metric: CellMetric, table: str) -> Optimised:
        """This choice with its sets."""
        return Optimised(self.workload if isinstance(self.workload, str) else OWN, table=table)

    def _problem(self, metric: CellMetric) -> tuple[Fraction, int, Floats]:
        """ε as far as it matters, the number of sets, and G of the workload."""
        epsilon = metric.epsilon if isinstance(metric, UniformMetric) else _MOST_EPSILON
        count = self.outputs or min(4 * metric.size, max(USUAL_OUTPUTS, metric.size))
        within = min(max(epsilon, _LEAST_EPSILON), _MOST_EPSILON)
        return within, count, gram_of(self.workload, metric.size)

    def bind(
        self, metric: CellMetric, *, precision: int = 64, resolution: int = 0
    ) -> OptimisedChannel:
        """Find the sets if need be, and count their words.

        Args:
            metric: E between the cells.
            precision: How many bits of a random word take part.
            resolution: Bits of a value's place between two cells; 0 without stochastic rounding.
        """
        sets = Sets.from_text(self._table_for(metric, resolution))
        held = uniform_fitted(self, metric, resolution)
        return OptimisedChannel(metric=held, sets=sets, precision=precision)

    def options(self) -> dict[str, Any]:
        """The workload, and the sets once they are found."""
        found: dict[str, Any] = {"workload": written(self.workload)}
        if self.outputs is not None:
            found["outputs"] = self.outputs
        if self.table is not None:
            found["table"] = self.table
        return found

    @classmethod
    def trials(cls) -> tuple[Trial, ...]:
        """A short search; sets that nobody would choose, at several ε, and on a grid."""
        cells = np.arange(4)
        members = np.concatenate([np.eye(4) > 0, [cells > 0, cells < 2, cells % 2 > 0]])
        given = Sets(members, np.array([1.0, 2.0, 5.0, 9.0, 3.0, 1.0, 4.0])).to_text()
        return (
            *uniform_trials(cls("cells"), (3,)),
            *uniform_trials(cls(table=given), (4,), (2, 2)),
            *uniform_trials(cls(table=given), (4,), epsilon="1/10"),
            *uniform_trials(cls(table=given), (4,), epsilon="3"),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class OptimisedChannel(LeastSquaresChannel, TableChannel):
    """One symbol per set, and a last one for the blank.

    Attributes:
        sets: Which cells each output speaks for, and how often it is put out.
        low: Words of each output for cells outside its set.
        high: Words of each output for cells inside its set.
        blank: Words of the last output, one entry per cell.
    """

    id: ClassVar[str] = "optimised"
    metric: UniformMetric
    sets: Sets = field(repr=False)
    precision: int = 64
    low: tuple[int, ...] = field(init=False, repr=False)
    high: tuple[int, ...] = field(init=False, repr=False)
    blank: tuple[int, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Round to words with as little slack as keeps the blank within bounds, and try to read."""
        odds = exp_floor(min(self.metric.epsilon, _MOST_EPSILON))
        for spare in range(min(40, self.precision), 0, -1):
            found = _words(self.sets, odds, self.precision, spare)
            if found is not None:
                break
        else:
            raise StudyError(
                f"a table of 2^{self.precision} words is too coarse for {self.size} cells at "
                "this epsilon; use a larger epsilon"
            )
        for name, words in zip(("low", "high", "blank"), found, strict=True):
            object.__setattr__(self, name, words)
        self._reading  # noqa: B018 - refuses sets that do not tell all cells apart

    @property
    def tightness(self) -> float:  # type: ignore[override]
        """Cells that some set separates spend all of ε, except for rounding."""
        if self.metric.epsilon > _MOST_EPSILON:
            return 0.0
        return claimed_tightness(exp_floor(self.metric.epsilon), self.precision)

    @cached_property
    def table(self) -> tuple[tuple[int, ...], ...]:  # type: ignore[override]
        """Words inside or outside of every set, and those of the blank."""
        rows = []
        for inside, blank in zip(self.sets.members.T.tolist(), self.blank, strict=True):
            named = zip(inside, self.low, self.high, strict=True)
            rows.append((*(high if member else low for member, low, high in named), blank))
        return tuple(rows)

    def likelihood(self) -> Floats:
        """P(output | cell)."""
        low, high = (np.array(words, dtype=np.float64) for words in (self.low, self.high))
        blank = np.array(self.blank, dtype=np.float64)[:, None]
        table = np.concatenate([np.where(self.sets.members.T, high, low), blank], axis=1)
        law: Floats = table / 2.0**self.precision
        return law


def _words(
    sets: Sets, odds: Fraction, precision: int, spare: int
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] | None:
    """Words outside and inside of each set and of each cell's blank, None if that one is uneven."""
    weights = [int(weight) for weight in sets.weights]
    inside = [
        sum(w for w, member in zip(weights, row, strict=True) if member)
        for row in sets.members.T.tolist()
    ]
    most, least = max(inside), min(inside)
    # Rows differ by (odds − 1)(most − least); a blank between that/(odds − 1) and odds times as
    # much takes it up.
    whole = sum(weights) + (odds - 1) * most + (most - least)
    scale = (1 << precision) * (1 - Fraction(1, 1 << spare)) / whole
    low = [math.floor(scale * weight) for weight in weights]
    high = [math.floor(odds * words) for words in low]
    gaps = [inner - outer for inner, outer in zip(high, low, strict=True)]
    blank = []
    for row in sets.members.T.tolist():
        raised = sum(gap for gap, member in zip(gaps, row, strict=True) if member)
        blank.append((1 << precision) - sum(low) - raised)
    if min(blank) < 1 or max(blank) > odds * min(blank) or not any(gaps):
        return None
    return tuple(low), tuple(high), tuple(blank)
