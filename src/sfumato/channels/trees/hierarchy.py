"""Hierarchical histograms: the node at one random level, reported by a frequency oracle.

Guarantee:
    E(x, x') = ε for every pair, exact for the integer tables, and tight (see `levels`).

Estimator:
    Every level gives unbiased counts of its nodes; what is asked is read from all of them by
    generalised least squares, with everyone at the root: no linear unbiased reading of the nodes'
    counts has a smaller variance where people are spread evenly. In one dimension this takes time
    linear in the cells and equals the two passes of Cormode et al. 2019, §4.5, where all levels are
    known equally well. There mean consistency runs from the top with the parent's final value, its
    sum is over the siblings, and the root is pinned; the printed form needs these corrections.

References:
    Cormode et al. 2019, §4.3 to 4.5; Hay et al. 2010; Wang et al. 2019 (several axes).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from sfumato.arrays import DENSE_CELLS, Floats
from sfumato.channels.choice import Choice, Trial, uniform_trials
from sfumato.channels.every import Spread
from sfumato.channels.hashing import OLH
from sfumato.channels.hrr import HRR
from sfumato.channels.response import KaryResponse
from sfumato.channels.trees.boxes import (
    Boxes,
    BoxesChannel,
    BoxLevel,
    Oracle,
    best_oracle,
    kinds_of_level,
    nodes_of,
)
from sfumato.channels.trees.chances import (
    best_chances,
    checked_chances,
    question_energies,
    range_energies,
    settled_chances,
    words_of,
    written_chances,
)
from sfumato.channels.trees.levels import (
    LevelsChoice,
    SymbolLevels,
    checked_tuples,
    level_words,
    refuse_outputs,
)
from sfumato.channels.trees.paths import Paths
from sfumato.channels.trees.tree import Tree, grid_trees
from sfumato.channels.trees.unary_hierarchy import UnaryHierarchyChannel, unary_levels
from sfumato.errors import StudyError, TooLargeError, near, shown
from sfumato.exact import positive, whole
from sfumato.metrics.uniform import UniformMetric

ORACLES: dict[str, Choice] = {"olh": OLH(), "hrr": HRR(), "grr": KaryResponse()}
UNARY = "oue"
BEST = "best"
NAMES = (*ORACLES, UNARY, BEST)
MOST_FILLED = 1 << 24
_LEAST_SHARE = 1e-9
_NOTHING = 1e-12  # of a question's weights: no more than rounding


@dataclass(frozen=True, slots=True)
class Hierarchical(LevelsChoice):
    """Choose a hierarchical histogram; it fits `Uniform`, on axes with neighbours.

    Args:
        branching: Children of a node, 2 or more. Any number of cells will do.
        oracle: How a node is told: "olh", "hrr", "oue" (the paper's TreeOUE: the error of "olh", at
            a bit for every node), "grr" (k-ary response), or "best", which takes at each level the
            one with the smallest error there, of those whose reports are short and can be decoded.
        levels: The chance of each level, the one below the root first; by default all equal.
            "optimised" has the smallest mean variance over random ranges.
        consistency: Whether all levels are read together, by least squares; False reads the
            largest nodes that make up a question and nothing else.

    Example:
        >>> import sfumato as sf
        >>> axis = sf.integers("age", 0, 255, protect=sf.Uniform(1), channel=sf.Hierarchical())
        >>> study = sf.Study("ages", [axis])
        >>> tally = study.simulate({"age": [30] * 6_000 + [70] * 4_000}, seed=1)
        >>> answer = tally.estimate("unbiased").count({"age": (25, 60)})
        >>> answer.low < 6_000 < answer.high
        True
    """

    id: ClassVar[str] = "hierarchical"
    revision: ClassVar[int] = 2
    branching: int = 4
    oracle: str = "olh"
    levels: Any = None
    consistency: bool = True

    def __post_init__(self) -> None:
        """Check every option."""
        b = whole(self.branching)
        if b is None or b < 2:
            raise StudyError(
                "branching must be a whole number of 2 or more, got "
                f"branching={shown(self.branching)}"
            )
        object.__setattr__(self, "branching", b)
        if not isinstance(self.oracle, str) or self.oracle not in NAMES:
            named = self.oracle if isinstance(self.oracle, str) else ""
            raise StudyError(f"unknown oracle {shown(self.oracle)}: {near(named, NAMES)}")
        if not isinstance(self.consistency, bool):
            raise StudyError(
                f"consistency must be True or False, got consistency={shown(self.consistency)}"
            )
        object.__setattr__(self, "levels", checked_chances(self.levels))

    def bind_grid(
        self,
        metric: UniformMetric,
        shape: tuple[int, ...],
        ordered: tuple[bool, ...],
        *,
        precision: int = 64,
    ) -> BoxesChannel:
        """Nodes are boxes: some level on every axis, roots and single cells only without order.

        Args:
            metric: One ε for any two cells of the grid.
            shape: Cells along every axis.
            ordered: Which axes have neighbouring cells.
            precision: How many bits of a random word take part.
        """
        self._check_grid(metric, shape, ordered)
        trees = grid_trees(shape, ordered, self.branching)
        tuples = checked_tuples(trees)
        if len(shape) > 1 and math.prod(tree.runs[0] for tree in trees) > MOST_FILLED:
            filled = " × ".join(f"{tree.runs[0]:,}" for tree in trees)
            raise TooLargeError(
                f"Hierarchical on {' × '.join(f'{size:,}' for size in shape)} cells is read with "
                f"trees filled up to {filled} cells, which needs about "
                f"{math.prod(tree.runs[0] for tree in trees) * 8 * 8 / 2**30:.0f} GiB; the limit "
                f"is {MOST_FILLED:,}. Use a smaller branching, HaarHRR(), or fewer cells"
            )
        if self.oracle == UNARY:
            unary = unary_levels(metric, trees, tuples, precision)
            return UnaryHierarchyChannel(
                parts=unary, **self._common(metric, trees, shape, ordered, unary, precision)
            )
        parts = tuple(
            BoxLevel(
                levels, trees, self._inner(metric, nodes_of(trees, levels), len(shape), precision)
            )
            for levels in tuples
        )
        refuse_outputs(
            f"Hierarchical({self.oracle!r})",
            metric.size,
            sum(part.outputs for part in parts),
            'Use oracle="best", "hrr" or "grr", or HaarHRR(), or fewer cells',
        )
        return HierarchicalChannel(
            parts=parts, **self._common(metric, trees, shape, ordered, parts, precision)
        )

    def _common(
        self,
        metric: UniformMetric,
        trees: tuple[Tree, ...],
        shape: Sequence[int],
        ordered: Sequence[bool],
        parts: Sequence[Boxes],
        precision: int,
    ) -> dict[str, Any]:
        """What channels of bits and of symbols have in common, the chances of levels among it."""
        chances = settled_chances(self.levels, len(parts), level_words(trees, shape))
        if chances is None:
            spreads = {part.levels: part.spread for part in parts}
            chances = best_chances(trees, range_energies(trees, ordered), spreads)
        return {
            "metric": metric,
            "precision": precision,
            "trees": trees,
            "level_words": tuple(words_of(chances, precision)),
            "consistency": self.consistency,
        }

    def tuned(
        self,
        epsilon: int | float | str | Fraction,
        questions: ArrayLike,
        shape: Sequence[int] | None = None,
        ordered: Sequence[bool] | None = None,
    ) -> Hierarchical:
        """The same tree with the chances of levels that suit your own questions.

        Args:
            epsilon: The ε to be promised: it decides how well each level is told.
            questions: One row per question, one weight per cell, in C order of the axes.
            shape: Cells of each axis; left out, all cells are one axis.
            ordered: Which axes have neighbours; left out, all.

        Example:
            >>> import numpy as np
            >>> import sfumato as sf
            >>> halves = np.repeat(np.eye(4), 16, axis=1)  # four groups of 16 cells, nothing finer
            >>> [float(chance) > 0.99 for chance in sf.Hierarchical().tuned(1, halves).levels]
            [True, False, False]
        """
        rows = np.atleast_2d(np.asarray(questions, dtype=np.float64))
        cells = tuple(shape) if shape is not None else (rows.shape[-1],)
        if rows.ndim != 2 or rows.shape[1] != math.prod(cells) or not np.isfinite(rows).all():
            raise StudyError(
                f"questions must be rows of {math.prod(cells):,} finite weights, one per cell, got "
                f"shape {np.shape(questions)}"
            )
        order = (True,) * len(cells) if ordered is None else tuple(ordered)
        if len(order) != len(cells):
            raise StudyError(
                f"ordered must say of each of {len(cells)} axes whether it has neighbours, got "
                f"{len(order)} entries"
            )
        metric = UniformMetric(positive(epsilon, "epsilon"), math.prod(cells))
        trees = grid_trees(cells, order, self.branching)
        energies = question_energies(trees, rows.reshape(len(rows), *cells))
        total = sum(energies.values())
        if total <= _NOTHING * float(np.sum(rows**2)) / len(rows):
            raise StudyError("these questions need no tree: they ask for nobody, or for everybody")
        # No level is left out altogether: other questions must stay possible.
        energies = {levels: max(e, _LEAST_SHARE * total) for levels, e in energies.items()}
        channel = replace(self, levels=None).bind_grid(metric, cells, order)
        spreads = {part.levels: part.spread for part in channel.parts}
        return replace(self, levels=tuple(best_chances(trees, energies, spreads)))

    def options(self) -> dict[str, Any]:
        """The options that differ from their defaults."""
        found: dict[str, Any] = {}
        if self.branching != 4:
            found["branching"] = self.branching
        if self.oracle != "olh":
            found["oracle"] = self.oracle
        if self.levels is not None:
            found["levels"] = written_chances(self.levels)
        if not self.consistency:
            found["consistency"] = False
        return found

    def _inner(self, metric: UniformMetric, nodes: int, axes: int, precision: int) -> Oracle:
        """The oracle for a number of nodes."""
        here = UniformMetric(metric.epsilon, nodes)
        if self.oracle == BEST:
            return best_oracle(here, kinds_of_level(nodes, metric.size, axes), precision)
        misfit = ORACLES[self.oracle].misfit(here)
        found = None if misfit else ORACLES[self.oracle].bind(here, precision=precision)
        if not isinstance(found, Oracle):
            raise TooLargeError(
                f"oracle={self.oracle!r} cannot tell {nodes:,} nodes apart: {misfit}. Use "
                'oracle="best", "hrr" or "grr", or HaarHRR(), or fewer cells'
            )
        return found

    @classmethod
    def trials(cls) -> tuple[Trial, ...]:
        """Every oracle and branching, even and optimised levels, both readings, and grids."""
        uneven = cls(2, "hrr", levels=("1/4", "3/4"))
        return (
            *uniform_trials(cls(), (2, 6), (2, 3)),
            *uniform_trials(cls(2, "hrr"), (5,), (3, 2), (2, 3)),
            *uniform_trials(cls(3, "grr", levels="optimised"), (7,), (4, 2)),
            *uniform_trials(cls(2, BEST), (6,), (2, 4), (2, 2, 3), epsilon="2"),
            *uniform_trials(uneven, (3,)),
            *uniform_trials(cls(2, "grr", consistency=False), (5,), (3, 2), (2, 3)),
            *uniform_trials(cls(2, UNARY), (2, 4), (2, 2)),
            *uniform_trials(cls(3, UNARY, levels="optimised"), (4,), epsilon="2"),
            *uniform_trials(cls(2, UNARY, consistency=False), (3,), (2, 2)),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class HierarchicalChannel(BoxesChannel, SymbolLevels):
    """Boxes of all levels, told by oracles that send symbols."""

    id: ClassVar[str] = "hierarchical"
    parts: tuple[BoxLevel, ...]

    def _level_profiles(self, profile: Floats) -> tuple[Floats, Iterator[Floats]]:
        """Everybody sends one symbol, of one level."""
        numbers = range(len(self.parts))
        return profile.sum(axis=-1), (profile[:, self._symbols(number)] for number in numbers)

    def envelope(self) -> tuple[list[tuple[int, int]], int]:
        """Those of the levels' oracles, whose nodes all have cells, times those of the level."""
        held = [part.inner.envelope() for part in self.parts]
        common = math.lcm(*(total for _, total in held))
        found = [
            (chance * most * (common // total), chance * least * (common // total))
            for chance, (pairs, total) in zip(self.level_words, held, strict=True)
            for most, least in pairs
        ]
        return found, common << self.precision

    def all_squares(self, profile: Floats, *, upto: bool) -> Floats:
        """On one tree over the gathered cells, along the path to every cell.

        Args:
            profile: Sums by output along the last axis.
            upto: Whether rows are prefixes 0..x rather than single cells x.
        """
        if not self._has_paths:
            return super().all_squares(profile, upto=upto)
        return self._paths.squares(self.gather(profile), upto=upto)

    def all_peaks(self, *, upto: bool) -> tuple[Floats, Floats]:
        """On one tree along the path to every cell.

        Args:
            upto: Whether rows are prefixes 0..x rather than single cells x.
        """
        if not self._has_paths:
            return super().all_peaks(upto=upto)
        return self._paths.peaks(upto=upto)

    @property
    def _has_paths(self) -> bool:
        """Whether squares have a formula: not on several axes, nor for hashes of few cells."""
        evenly = self.size > DENSE_CELLS or all(part.inner.evenly for part in self.parts)
        return len(self.trees) == 1 and self.consistency and evenly

    @cached_property
    def _paths(self) -> Paths:
        """Least squares along paths; every level is read with its chance."""
        shares = zip(self.parts, self.chances, strict=True)
        spreads = [(part.inner.spread, chance) for part, chance in shares]
        return Paths(
            self.trees[0],
            self.level_precision[1:].tolist(),
            [Spread(spread.own / chance, spread.others / chance) for spread, chance in spreads],
        )

    def _readings(self, weights: Floats) -> Iterator[Floats]:
        """Each level's oracle reads its own parts, divided by the level's probability."""
        everyone, parts = self.centred_parts(weights)
        for part, chance, held in zip(self.parts, self.chances, parts, strict=True):
            yield everyone + part.inner.coefficients(held) / chance
