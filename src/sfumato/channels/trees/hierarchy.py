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
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from sfumato.arrays import Floats
from sfumato.channels.base import with_known_total
from sfumato.channels.choice import Choice, Trial, uniform_trials
from sfumato.channels.hashing import OLH
from sfumato.channels.hrr import HRR
from sfumato.channels.response import KaryResponse
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
    BoxLevel,
    LevelsChannel,
    LevelsChoice,
    Oracle,
    best_oracle,
    checked_tuples,
    kinds_of_level,
    level_words,
    nodes_of,
    refuse_outputs,
)
from sfumato.channels.trees.tree import (
    Levels,
    Tree,
    grid_trees,
    least_grid_parts,
    least_parts,
    plain_parts,
)
from sfumato.errors import StudyError, TooLargeError, near, shown
from sfumato.exact import positive, whole
from sfumato.metrics.uniform import UniformMetric

ORACLES: dict[str, Choice] = {"olh": OLH(), "hrr": HRR(), "grr": KaryResponse()}
BEST = "best"
MOST_FILLED = 1 << 24
_LEAST_SHARE = 1e-9
_NOTHING = 1e-12  # of a question's weights: no more than rounding


@dataclass(frozen=True, slots=True)
class Hierarchical(LevelsChoice):
    """Choose a hierarchical histogram; it fits `Uniform`, on axes with neighbours.

    Args:
        branching: Children of a node, 2 or more. Any number of cells will do.
        oracle: How a node is told: "olh", "hrr", "grr" (k-ary response), or "best", which takes at
            each level the one with the smallest error there, of those whose reports can be decoded.
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
        if not isinstance(self.oracle, str) or self.oracle not in (*ORACLES, BEST):
            flat = (
                "; 'oue' is there for flat histograms only: here it would have the error of "
                "'olh', at a bit for every node"
                if self.oracle in ("oue", "OUE")
                else ""
            )
            named = self.oracle if isinstance(self.oracle, str) else ""
            raise StudyError(
                f"unknown oracle {shown(self.oracle)}: {near(named, [*ORACLES, BEST])}{flat}"
            )
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
    ) -> HierarchicalChannel:
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
        chances = settled_chances(self.levels, len(parts), level_words(trees, shape))
        if chances is None:
            spreads = {part.levels: part.spread for part in parts}
            chances = best_chances(trees, range_energies(trees, ordered), spreads)
        return HierarchicalChannel(
            metric=metric,
            precision=precision,
            trees=trees,
            parts=parts,
            level_words=tuple(words_of(chances, precision)),
            consistency=self.consistency,
        )

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
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class HierarchicalChannel(LevelsChannel):
    """Boxes of all levels, read by least squares.

    Attributes:
        trees: One per axis.
        consistency: Whether all levels are read together.
    """

    id: ClassVar[str] = "hierarchical"
    metric: UniformMetric
    precision: int = 64
    trees: tuple[Tree, ...]
    parts: tuple[BoxLevel, ...]
    level_words: tuple[int, ...]
    consistency: bool = True
    level_precision: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """How precisely a node of every level is known: its chance over σ²."""
        known = np.zeros([tree.depth + 1 for tree in self.trees])
        for part, chance in zip(self.parts, self.chances, strict=True):
            known[part.levels] = chance / part.spread
        object.__setattr__(self, "level_precision", known)

    @property
    def _row_entries(self) -> int:
        """Least squares over several axes works on whole trees, in a few copies."""
        filled = math.prod(tree.runs[0] for tree in self.trees)
        return max(self.outputs, self.size if len(self.trees) == 1 else 4 * filled)

    def node_parts(self, weights: Floats) -> tuple[Floats, dict[Levels, Floats]]:
        """c, and what is read from every box: together they are the weights at each cell.

        Args:
            weights: One row per question, one column per cell.
        """
        shape = tuple(tree.size for tree in self.trees)
        if not self.consistency:
            centre, parts = plain_parts(self.trees, weights.reshape(-1, *shape))
        elif len(shape) == 1:
            middle, found = least_parts(self.trees[0], self.level_precision[1:].tolist(), weights)
            centre, parts = middle, {(k,): part for k, part in enumerate(found, start=1)}
        else:
            grid = weights.reshape(-1, *shape)
            centre, parts = least_grid_parts(self.trees, self.level_precision, grid)
        flat = {levels: part.reshape(len(weights), -1) for levels, part in parts.items()}
        return centre.reshape(-1, 1), flat

    @property
    def linear(self) -> bool:
        """Which nodes make up a question depends on it, unless all of them are read together."""
        return self.consistency

    def gather(self, profile: Floats) -> Floats:
        """The nodes of all levels as their oracles count them, combined by least squares.

        The parts of w are b = τ·Au, where u solves a symmetric system for w; so cells get what the
        same system gives for the sum over all nodes of τ times what is gathered there.
        """
        if not self.consistency:
            raise TypeError("a reading by the largest nodes is not linear and has no transpose")
        flat = profile.reshape(-1, self.outputs)
        result = np.empty((len(flat), self.size))
        for rows in self.batches(len(flat)):
            result[rows] = self._solved(flat[rows])
        return result.reshape(*profile.shape[:-1], self.size)

    def _solved(self, profile: Floats) -> Floats:
        """Gathered cells, one row per profile."""
        everyone = profile.sum(axis=-1)
        even = everyone[:, None] / self.size
        there = np.zeros((len(profile), self.size))
        for number, (part, chance) in enumerate(zip(self.parts, self.chances, strict=True)):
            counts = part.inner.gather(profile[:, self._symbols(number)]) / chance
            known = self.level_precision[part.levels]
            there += known * part.at_cells(
                with_known_total(counts, everyone) - even * part.joined(np.ones(self.size))
            )
        _, parts = self.node_parts(there)
        finest = tuple(tree.depth for tree in self.trees)
        result: Floats = even + parts[finest] / self.level_precision[finest]
        return result

    def _readings(self, weights: Floats) -> Iterator[Floats]:
        """Each level's oracle reads its own parts, divided by the level's probability."""
        centre, parts = self.node_parts(weights)
        means = {k: part.mean(axis=-1, keepdims=True) for k, part in parts.items()}
        everyone = centre + sum(means.values())
        for part, chance in zip(self.parts, self.chances, strict=True):
            held = parts[part.levels] - means[part.levels]
            yield everyone + part.inner.coefficients(held) / chance
