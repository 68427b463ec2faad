"""What `encode` draws, beside the contract: settled words, and an independent sampler."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest
from helpers_channels import patterns
from numpy.typing import NDArray
from scipy import stats

import sfumato as sf
from sfumato.arrays import BitColumns
from sfumato.channels.base import Channel
from sfumato.metrics.distance import LineMetric
from sfumato.randomness.bits import BitSource

# Draws from elsewhere have no seed: a comparison that must pass fails once in a million runs by
# accident. The chance that a law 10 % off in ε passes by accident is computed, and is smaller.
SIGNIFICANCE = 1e-6


def pattern_law(channel: Channel, x: int, source: BitSource, people: int) -> list[int]:
    outputs = channel.encode(np.full(people, x), source)
    assert isinstance(outputs, BitColumns)
    assert len(outputs) == people
    return np.bincount(patterns(outputs), minlength=1 << outputs.width).tolist()


class OpenPlanes:
    """Planes for one column, where a sampler asks only for words with an unsettled lane.

    Lane i is given the digits of i, first digit highest. From the eighth digit on a word is asked
    for only if one of its lanes has agreed with the chance in all digits so far.
    """

    secure = False

    def __init__(self, chance: int, precision: int) -> None:
        self.chance, self.precision, self.digit = chance, precision, 0
        self.lane = np.arange(1 << precision, dtype=np.uint64).reshape(-1, 64)
        self.open = np.ones(len(self.lane), dtype=np.bool_)
        self.asked: list[int] = []

    def words(self, count: int) -> NDArray[np.uint64]:
        assert count == np.count_nonzero(self.open)
        self.asked.append(count)
        self.digit += 1
        spare = np.uint64(self.precision - self.digit)
        bits = (self.lane[self.open] >> spare) & np.uint64(1)
        if self.digit >= 8:
            agree = (self.lane >> spare) == np.uint64(self.chance) >> spare
            self.open = agree.any(axis=1)
        return np.packbits(bits.astype(bool), axis=1, bitorder="little").view(np.uint64).ravel()


@pytest.mark.parametrize("precision", [9, 12, 16])
def test_single_bit_over_all_words_when_settled_words_drop_out(precision: int) -> None:
    channel = sf.Thermometer().bind(LineMetric.equal(Fraction(2), 2), precision=precision)
    rows, total = channel.words()
    (chance,) = channel.flip_words
    for x in range(2):
        source = OpenPlanes(chance, precision)
        assert pattern_law(channel, x, source, total) == rows[x]
        assert source.digit == precision
        assert source.asked[-1] < source.asked[0]


def chi_square(counts: NDArray[np.int64], law: NDArray[np.float64]) -> tuple[float, int]:
    """Pearson's statistic and its degrees of freedom, over independent rows of counts.

    Outcomes expected fewer than 50 times in a row are put together, so that the statistic has its
    limiting law closely even at the significance used here.
    """
    statistic, freedom = 0.0, 0
    for found, chance in zip(counts, law, strict=True):
        expected = chance * found.sum()
        often = expected >= 50
        seen = np.append(found[often], found[~often].sum())
        wanted = np.append(expected[often], expected[~often].sum())
        if wanted[-1] < 50:
            seen, wanted = seen[:-1], wanted[:-1]
        statistic += float(np.sum((seen - wanted) ** 2 / wanted))
        freedom += len(seen) - 1
    return statistic, freedom


def rejects(counts: NDArray[np.int64], law: NDArray[np.float64]) -> bool:
    statistic, freedom = chi_square(counts, law)
    return bool(stats.chi2.sf(statistic, freedom) < SIGNIFICANCE)


def miss_chance(
    people: NDArray[np.int64], true: NDArray[np.float64], law: NDArray[np.float64]
) -> float:
    """The chance that samples from `true` pass for `law`: the non-central chi-square law."""
    shift, freedom = chi_square(np.rint(people[:, None] * true).astype(np.int64), law)
    limit = stats.chi2.isf(SIGNIFICANCE, freedom)
    return float(stats.ncx2.cdf(limit, freedom, shift))


@pytest.mark.slow
def test_an_independent_discrete_laplace_clamps_to_the_geometric_channel() -> None:
    """OpenDP's exact integer Laplace noise of scale 2 is e^(−|z|/2): ε = 1/2 a step."""
    dp.enable_features("contrib")
    people, size = 200_000, 10
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    noise = np.array((space >> dp.m.then_laplace(scale=2.0))([0] * people))
    cells = np.arange(people) % size
    outputs = np.clip(cells + noise, 0, size - 1)
    flat = np.bincount(cells * size + outputs, minlength=size * size).reshape(size, size)
    law = sf.Geometric().bind(LineMetric.equal(Fraction(1, 2), size)).likelihood()
    assert not rejects(flat, law)
    off = sf.Geometric().bind(LineMetric.equal(Fraction(11, 20), size)).likelihood()
    assert miss_chance(flat.sum(axis=1), law, off) < SIGNIFICANCE
    assert rejects(flat, off)
