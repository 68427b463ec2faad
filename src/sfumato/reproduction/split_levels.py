"""A hierarchy that splits ε over its levels, the baseline of Cormode et al. 2019, §4.4.

Each person reports the nodes of all h levels, each by OUE with ε/h; the paper samples one level
instead and gives it all of ε (`sf.Hierarchical(oracle="oue")`). It says of the two: "splitting
would lead to an error proportional to h², whereas sampling gives an error which is at most
proportional to h". With V(ε) = 4e^ε/(e^ε − 1)² = 1/sinh²(ε/2), a node has the variance V(ε/h) >=
h²·V(ε) by splitting, against h·V(ε) by sampling, plus what the draw of the level adds: at most 2h,
whatever ε is. So sampling is better by a factor near h for small ε, and splitting is better for
large ε, where V vanishes and the draw remains.

Guarantee:
    E = ε for every pair, by composition: levels are perturbed independently, each by E = ε/h.

Estimator:
    With b_l what is read from the nodes of level l, of mean zero, f = c + Σ_l f_l(b_l). At cell x,
    whose node at level l has b_l(x), its variance is Σ_l (V(ε/h)·|b_l|² + b_l(x)²), exact for the
    integer tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.arrays import BitColumns, Floats
from sfumato.channels.trees.boxes import Boxes
from sfumato.channels.trees.tree import Tree, least_parts, plain_parts
from sfumato.channels.unary import OUEChannel
from sfumato.metrics.uniform import UniformMetric
from sfumato.randomness.bits import BitSource


@dataclass(frozen=True, eq=False)
class SplitLevels:
    """Report every level of a tree with an equal share of ε.

    Args:
        epsilon: ε of a whole report.
        size: Number of cells.
        branching: Children of a node.
        consistency: Whether all levels are read together, by least squares; else the largest nodes
            that make up a question.
    """

    epsilon: Fraction
    size: int
    branching: int = 4
    consistency: bool = True

    @cached_property
    def tree(self) -> Tree:
        """The tree; its root is not reported."""
        return Tree.branching(self.size, self.branching)

    @cached_property
    def levels(self) -> tuple[Boxes, ...]:
        """The nodes of each level, told with ε/h."""
        share = self.epsilon / self.tree.depth
        metrics = [UniformMetric(share, self.tree.nodes(1 + k)) for k in range(self.tree.depth)]
        return tuple(
            Boxes((level,), (self.tree,), OUEChannel(metric=metric))
            for level, metric in enumerate(metrics, start=1)
        )

    def parts(self, weights: ArrayLike) -> list[Floats]:
        """What is read from every node: everyone at the root, then the nodes of each level.

        Args:
            weights: One row per question, one column per cell.
        """
        rows = np.atleast_2d(np.asarray(weights, dtype=np.float64))
        if not self.consistency:
            centre, found = plain_parts((self.tree,), rows)
            return [centre, *(found[part.levels] for part in self.levels)]
        # A node's variance is V + 1/k for k nodes, if people are spread evenly.
        spread = [part.inner.node_variance - 1 / part.inner.size for part in self.levels]
        centre, parts = least_parts(self.tree, [1 / s for s in spread], rows)
        return [centre, *parts]

    def variance(self, weights: ArrayLike) -> Floats:
        """Var(f | x), exactly: one row per question, one column per cell."""
        total: Floats = np.zeros(())
        for part, b in zip(self.levels, self.parts(weights)[1:], strict=True):
            total = total + part.at_cells(part.inner.second_moment(b) - b**2)
        return total

    def encode(self, cells: NDArray[np.int64], bits: BitSource) -> list[BitColumns]:
        """For every level the noisy bits of all its nodes.

        Args:
            cells: One cell per person.
            bits: Where randomness comes from.
        """
        told = [part.inner.encode(part.nodes(cells), bits) for part in self.levels]
        return [bits_ for bits_ in told if isinstance(bits_, BitColumns)]

    def answers(self, reports: list[BitColumns], weights: ArrayLike) -> Floats:
        """Unbiased sums of weights over people, one per question.

        Args:
            reports: As `encode` makes them.
            weights: One row per question, one column per cell.
        """
        centre, *parts = self.parts(weights)
        total: Floats = centre[:, 0] * len(reports[0])
        for part, told, b in zip(self.levels, reports, parts, strict=True):
            total = total + [part.inner.functional(row)(told).sum() for row in b]
        return total
