"""One population for all axes: a margin for each, and a table for every two that keeps them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from sfumato.arrays import Floats
from sfumato.channels.pairs import PairLevel, PairsChannel
from sfumato.estimation.pairs.bases import Basis, shapes, waves
from sfumato.estimation.pairs.joining import Groups, grouped, groups_of, joined, nearest_pairs
from sfumato.estimation.pairs.margins import Margin, margin_of
from sfumato.estimation.pairs.scores import Eye
from sfumato.estimation.pairs.tables import Table, table_of
from sfumato.study.axis import Axis

#: Functions that the log-density along an axis is a sum of, at most.
MARGIN_SHAPES = 24
#: The same for each axis of an interaction, where it is ordered and where it is not.
PAIR_SHAPES, PAIR_LABELS = 6, 16
#: Waves of an axis whose products have scores.
PAIR_WAVES = 12

#: By axis or pair of axes: what answers gain from one standard error of each of its errors.
Slopes = dict[tuple[int, ...], Floats]


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """The likeliest population.

    Attributes:
        axes: The axes.
        margins: The shares of people along each.
        tables: The shares of people over every two axes.
    """

    axes: tuple[Axis, ...]
    margins: tuple[Margin, ...]
    tables: Mapping[tuple[int, int], Table]

    def rows(self, weights: Mapping[int, Floats]) -> tuple[Floats, Slopes]:
        """Mean weights over people, and what they gain from the errors of the model.

        Args:
            weights: By axis, one row of weights per question; all have as many rows.
        """
        asked = sorted(weights)
        if len(asked) == 1:
            (axis,) = asked
            margin, rows = self.margins[axis], weights[axis]
            return rows @ margin.law, {(axis,): margin.slopes(rows)}
        if len(asked) == 2:
            return self._both((asked[0], asked[1]), weights)
        count = len(weights[asked[0]])
        found = [self._all({axis: weights[axis][row] for axis in asked}) for row in range(count)]
        slopes = {key: np.concatenate([part[key] for _, part in found]) for key in found[0][1]}
        return np.array([value for value, _ in found]), slopes

    def value(self, weights: Mapping[int, Floats]) -> float:
        """The mean weight of one question over people.

        Args:
            weights: By axis, one weight per cell.
        """
        if len(weights) > 2:
            _, table, along = self._joined(weights)
            return float(np.sum(table * reduce(np.multiply.outer, along)))
        return float(self.rows({axis: w[None] for axis, w in weights.items()})[0][0])

    def _both(self, pair: tuple[int, int], weights: Mapping[int, Floats]) -> tuple[Floats, Slopes]:
        """Questions about two axes."""
        a, b = pair
        rows, columns, table = weights[a], weights[b], self.tables[pair]
        along, across = rows * (columns @ table.law.T), columns * (rows @ table.law)
        parts = table.split(along, across)
        return along.sum(axis=1), {
            (a,): self.margins[a].slopes(parts[0]),
            (b,): self.margins[b].slopes(parts[1]),
            pair: table.product_slopes(rows, columns, parts),
        }

    def _joined(self, weights: Mapping[int, Floats]) -> tuple[list[Groups], Floats, list[Floats]]:
        """Groups of the axes asked about, their joined table, and the weights of the groups."""
        asked = sorted(weights)
        laws = [self.margins[axis].law for axis in asked]
        ordered = [self.axes[axis].domain.ordered for axis in asked]
        groups = groups_of([weights[axis] for axis in asked], laws, ordered)
        pairs = {
            (i, j): grouped(self.tables[asked[i], asked[j]].law, groups[i], groups[j])
            for i, j in itertools.combinations(range(len(asked)), 2)
        }
        table = joined(pairs, [int(g.max()) + 1 for g in groups])
        along = [
            np.bincount(g, law * weights[axis]) / np.bincount(g, law)
            for g, law, axis in zip(groups, laws, asked, strict=True)
        ]
        return groups, table, along

    def _all(self, weights: Mapping[int, Floats]) -> tuple[float, Slopes]:
        """One question about three axes or more."""
        asked = sorted(weights)
        groups, table, along = self._joined(weights)
        function = reduce(np.multiply.outer, along)
        slopes: Slopes = {}
        rows = {axis: np.zeros((1, self.axes[axis].size)) for axis in asked}
        for (i, j), part in nearest_pairs(table, function).items():
            pair = (asked[i], asked[j])
            own = self.tables[pair]
            lifted = part[groups[i][:, None], groups[j][None, :]][None]
            weighed = lifted * own.law
            parts = own.split(weighed.sum(axis=2), weighed.sum(axis=1))
            slopes[pair] = own.slopes(lifted, parts)
            rows[pair[0]] += parts[0]
            rows[pair[1]] += parts[1]
        for axis, row in rows.items():
            slopes[axis,] = self.margins[axis].slopes(row)
        return float(np.sum(table * function)), slopes


def model_of(
    axes: Sequence[Axis],
    channel: PairsChannel,
    counts: Floats,
    progress: Callable[[float], None] | None = None,
) -> Model:
    """Find the likeliest population.

    Args:
        axes: The axes of the block.
        channel: Its channel.
        counts: Reports by output.
        progress: Called with the share of the work done.
    """
    told = [waves(axis) for axis in axes]
    eyes = _eyes(channel.parts, told)
    read = [
        eye.read(counts[int(start) : int(start) + part.outputs])
        for eye, part, start in zip(eyes, channel.parts, channel.starts, strict=False)
    ]
    margins = []
    for axis, held in enumerate(axes):
        score, information = np.zeros(len(told[axis])), np.zeros((len(told[axis]),) * 2)
        for part, eye, (mean, people, wide) in zip(channel.parts, eyes, read, strict=True):
            if axis in part.axes:
                mine = np.flatnonzero(eye.places[:, 1 - part.axes.index(axis)] == 0)
                score += people / wide * mean[mine]
                information += people / wide * eye.information[np.ix_(mine, mine)]
        basis = shapes(held, MARGIN_SHAPES if held.domain.ordered else held.size)
        margins.append(margin_of(basis, told[axis].values, score, information))
    tables = {}
    bases = [_pair_basis(axis, margin) for axis, margin in zip(axes, margins, strict=True)]
    for number, (part, eye, (mean, people, wide)) in enumerate(
        zip(channel.parts, eyes, read, strict=True)
    ):
        a, b = part.axes
        both = np.flatnonzero(eye.places.min(axis=1) > 0)
        most = eye.places[both].max(axis=0)
        waves_of = (told[a].values[:, : most[0]], told[b].values[:, : most[1]])
        information = people / wide * eye.information[np.ix_(both, both)]
        tables[a, b] = table_of(
            (margins[a], margins[b]),
            (bases[a], bases[b]),
            waves_of,
            people / wide * mean[both],
            information,
        )
        if progress is not None:
            progress((number + 1) / len(channel.parts))
    return Model(tuple(axes), tuple(margins), tables)


def _eyes(parts: Sequence[PairLevel], told: Sequence[Basis]) -> list[Eye]:
    """How every pair's channel sees waves; equal ones are looked at once."""
    made: dict[tuple[object, ...], Eye] = {}
    found = []
    for part in parts:
        a, b = part.axes
        key = (id(part.inner), told[a].values.tobytes(), told[b].values.tobytes())
        if key not in made:
            both = (told[a].values, told[b].values)
            few = tuple(PAIR_WAVES if _smooth(told[k]) else PAIR_LABELS + 4 for k in (a, b))
            made[key] = Eye.of(part.inner, both, (few[0], few[1]))
        found.append(made[key])
    return found


def _smooth(basis: Basis) -> bool:
    """Whether an axis has neighbours, so that its waves come in order."""
    return float(basis.rank.max(initial=1.0)) > 1


def _pair_basis(axis: Axis, margin: Margin) -> Basis:
    """What interactions are sums of along an axis: shapes, or its most frequent labels."""
    if axis.domain.ordered:
        return shapes(axis, PAIR_SHAPES)
    return shapes(axis, min(PAIR_LABELS, axis.size - 1), np.argsort(-margin.law, kind="stable"))
