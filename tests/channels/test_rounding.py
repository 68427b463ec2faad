"""Stochastic rounding before a channel: the law at every value between grid points, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from helpers_channels import Stream, all_words, patterns, planes, worst_odds
from numpy.typing import NDArray

import sfumato as sf
from sfumato.arrays import BitColumns
from sfumato.channels.base import Channel, signs
from sfumato.channels.choice import Choice
from sfumato.exact import at_most_exp
from sfumato.metrics.distance import LineMetric

Floats = NDArray[np.float64]

ROUNDED = [
    (sf.Geometric(), 2, 8),
    (sf.Geometric(), 4, 9),
    (sf.Geometric(), 7, 10),
    (sf.Thermometer(), 2, 6),
    (sf.Thermometer(), 3, 6),
    (sf.Thermometer(), 4, 4),
    (sf.Thermometer(variant="published"), 3, 4),
]
RESOLUTION = 3


@pytest.mark.parametrize("eps", ["0.5", "1", "2"])
@pytest.mark.parametrize(("choice", "size", "precision"), ROUNDED, ids=str)
def test_rounding_and_channel_jointly(choice: Choice, size: int, precision: int, eps: str) -> None:
    """All rounding bits with all words: the law at every fine code, and E between all of them."""
    step = Fraction(eps)
    metric = LineMetric.equal(step, size)
    channel = choice.bind(metric, precision=precision, resolution=RESOLUTION)
    rows, total = channel.words()
    parts = 1 << RESOLUTION
    laws = [joint_law(channel, code, precision) for code in range((size - 1) * parts + 1)]
    for code, law in enumerate(laws):
        point, part = divmod(code, parts)
        above = rows[min(point + 1, size - 1)]
        mixed = [(parts - part) * a + part * b for a, b in zip(rows[point], above, strict=True)]
        assert law == mixed
        assert sum(law) == parts * total
    for a in range(len(laws)):
        for b in range(len(laws)):
            if a != b:
                more, less = worst_odds(laws, a, b)
                assert at_most_exp(Fraction(more, less), step * Fraction(abs(a - b), parts))


def joint_law(channel: Channel, code: int, precision: int) -> list[int]:
    bits = channel.layout.kind == "bits"
    inner = channel.layout.count * precision if bits else precision
    people = 1 << (RESOLUTION + inner)
    # Lanes of a plane are people: the rounding changes slowest, so planes repeat whole words.
    rounding = np.repeat(all_words(RESOLUTION, junk=-1), 1 << inner)
    if bits:
        width = channel.layout.count
        repeated = [
            np.tile(plane.reshape(width, -1), (1, 1 << RESOLUTION)).ravel()
            for plane in planes(width, precision)
        ]
        outputs = channel.encode(np.full(people, code), Stream(rounding, *repeated))
        assert isinstance(outputs, BitColumns)
        return np.bincount(patterns(outputs), minlength=1 << width).tolist()
    source = Stream(rounding, np.tile(all_words(precision), 1 << RESOLUTION))
    outputs = channel.encode(np.full(people, code), source)
    assert isinstance(outputs, np.ndarray)
    return np.bincount(outputs, minlength=channel.layout.count).tolist()


def read_outputs(channel: Channel, weights: Floats) -> Floats:
    """The value of the reading at every output."""
    parts = channel.coefficients(weights)
    if channel.layout.kind == "symbols":
        return parts
    return parts[0] + signs(channel.layout.count) @ parts[1:]


def exact_mean(row: Sequence[int], total: int, values: Floats) -> float:
    """Σ P(y)·f(y) in rationals, rounded once."""
    parts = zip(row, values.tolist(), strict=True)
    return float(sum((word * Fraction(value) for word, value in parts), Fraction(0)) / total)


@pytest.mark.parametrize("choice", [sf.Geometric(), sf.Thermometer()], ids=str)
def test_behind_rounding_weights_are_read_as_straight_lines(choice: object) -> None:
    """A value between grid points has the mean of the line between their weights."""
    assert isinstance(choice, sf.Geometric | sf.Thermometer)
    metric = LineMetric.equal(Fraction(1, 2), 5)
    channel = choice.bind(metric, resolution=3)
    rows, total = channel.words()
    w = np.array([0.0, 1.0, 4.0, -2.0, 3.0])
    values = read_outputs(channel, w)
    for part in range(9):
        mixed = [(8 - part) * a + part * b for a, b in zip(rows[1], rows[2], strict=True)]
        mean = exact_mean(mixed, 8 * total, values)
        assert mean == pytest.approx(1 + 3 * part / 8, abs=1e-9)
        # What rounding adds may only be overstated, so that errors never are understated.
        square = exact_mean(mixed, 8 * total, values**2)
        read = channel.second_moment(w) - w**2 + channel.rounding_excess(w, w)
        line = (8 - part) / 8 * read[1] + part / 8 * read[2]
        assert line >= (square - mean**2) * (1 - 1e-9)
