"""What `encode` really draws: every word is tried, and the outputs are counted.

At small precision all words can be enumerated, so the law of the sampler is known exactly and must
be the one that `words()` shows. At full precision the words on both sides of every bound are tried,
and large secure samples are held against the law.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate

import numpy as np
import opendp.prelude as dp
import pytest
from helpers_channels import (
    ANY_SETS,
    BY_LEVELS,
    EXPONENTIAL,
    GEOMETRIC,
    HAAR,
    HADAMARD,
    HIERARCHY,
    HRR,
    KARY,
    OLH,
    OUE,
    PUBLISHED,
    SQUARE_WAVE,
    THERMOMETER,
    WIDE_WAVE,
    Case,
    Stream,
    all_words,
    patterns,
    planes,
    worst_odds,
)
from numpy.typing import NDArray
from scipy import stats

from sfumato.bitcolumns import BitColumns
from sfumato.channels.base import Channel, Choice
from sfumato.channels.geometric import CappedGeometricChannel, GeometricChannel
from sfumato.channels.response import KaryResponseChannel
from sfumato.channels.square_wave import SquareWaveChannel
from sfumato.exact import at_most_exp
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.distance import LineMetric
from sfumato.metrics.uniform import UniformMetric
from sfumato.randomness.bits import BitSource, SecureBits, SeededBits

# Secure draws have no seed: a comparison that must pass fails once in a million runs by accident.
# The chance that a twin, 2 % off in ε, passes by accident is computed, and must be smaller. With
# nine tests of at most three comparisons a sound sampler fails in fewer than 3 of 100,000 runs.
SIGNIFICANCE = 1e-6

SYMBOL_CASES = [
    Case("integers", GEOMETRIC),
    Case("dates", GEOMETRIC),
    Case("distance, capped", GEOMETRIC),
    Case("uniform", KARY),
    Case("uniform, optional", KARY),
    Case("uniform", SQUARE_WAVE),
    Case("uniform", WIDE_WAVE),
    Case("uniform", ANY_SETS),
    Case("integers", EXPONENTIAL),
    Case("distance, optional", EXPONENTIAL),
    Case("blocks", EXPONENTIAL),
    Case("high-low", EXPONENTIAL),
    Case("policy graph", EXPONENTIAL),
    Case("points, L2", EXPONENTIAL),
    Case("matrix", EXPONENTIAL),
]
FOR_UNIFORM = (KARY, OUE, OLH, HRR, HADAMARD, SQUARE_WAVE, WIDE_WAVE, ANY_SETS, *BY_LEVELS)
EVERY = [GEOMETRIC, THERMOMETER, PUBLISHED, EXPONENTIAL, *FOR_UNIFORM]
INTEGER_TYPES = [np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.uint64, np.int64]


def symbol_law(channel: Channel, x: int, precision: int, junk: int, dtype: type) -> list[int]:
    cells = np.full(1 << precision, x, dtype=dtype)
    source = Stream(all_words(precision, junk=junk))
    outputs = channel.encode(cells, source)
    assert len(source.left) == 0
    assert isinstance(outputs, np.ndarray)
    return np.bincount(outputs, minlength=channel.layout.count).tolist()


@pytest.mark.parametrize("precision", [9, 12, 17])
@pytest.mark.parametrize("case", SYMBOL_CASES, ids=str)
def test_symbols_over_all_words_are_the_table(case: Case, precision: int) -> None:
    """17 bits are more than the sampler's guide has, and more people than one chunk."""
    for size in (2, 3, 6) if precision == 17 else (2, 3, 5, 8, 13):
        channel = case.channel(size, Fraction(1), precision=precision)
        rows, total = channel.words()
        assert total == 1 << precision
        for x in range(channel.size):
            for junk in (0, -1):
                assert symbol_law(channel, x, precision, junk, np.int64) == rows[x]


@pytest.mark.parametrize("dtype", INTEGER_TYPES)
@pytest.mark.parametrize("case", SYMBOL_CASES, ids=str)
def test_every_integer_type_of_cells_gives_the_same_law(case: Case, dtype: type) -> None:
    channel = case.channel(7, Fraction(1), precision=10)
    rows, _ = channel.words()
    for x in range(channel.size):
        assert symbol_law(channel, x, 10, 0, dtype) == rows[x]


@pytest.mark.parametrize("dtype", INTEGER_TYPES)
@pytest.mark.parametrize("choice", EVERY, ids=str)
def test_cells_of_any_type_are_the_same_cells_on_a_large_axis(choice: Choice, dtype: type) -> None:
    """An unsigned cell less than the axis is long must not wrap around."""
    channel = choice.bind(metric_for(choice, 100))
    cells = np.arange(100).repeat(3)
    one = channel.encode(cells.astype(dtype), SeededBits(5))
    other = channel.encode(cells, SeededBits(5))
    if isinstance(one, BitColumns) and isinstance(other, BitColumns):
        one, other = one.words, other.words
    np.testing.assert_array_equal(one, other)


def metric_for(choice: Choice, size: int) -> CellMetric:
    alike = choice in FOR_UNIFORM
    return UniformMetric(Fraction(1), size) if alike else LineMetric.equal(Fraction(1), size)


def pattern_law(channel: Channel, x: int, source: BitSource, people: int) -> list[int]:
    outputs = channel.encode(np.full(people, x), source)
    assert isinstance(outputs, BitColumns)
    assert len(outputs) == people
    return np.bincount(patterns(outputs), minlength=1 << outputs.width).tolist()


@pytest.mark.parametrize(
    ("size", "precision", "choice"),
    [
        (2, 6, THERMOMETER),
        (2, 8, THERMOMETER),
        (2, 5, PUBLISHED),
        (2, 8, PUBLISHED),
        (3, 7, THERMOMETER),
        (3, 8, THERMOMETER),
        (3, 5, PUBLISHED),
        (4, 5, THERMOMETER),
        (4, 4, PUBLISHED),
        (5, 4, THERMOMETER),
    ],
    ids=str,
)
def test_bits_over_all_planes_are_the_table(size: int, precision: int, choice: Choice) -> None:
    """Lane i is given the digits of i: each combination of all bits' random numbers once."""
    for kind in ("integers", "unequal bins"):
        channel = Case(kind, choice).channel(size, Fraction(2), precision=precision)
        width = channel.layout.count
        rows, total = channel.words()
        assert total == 1 << (precision * width)
        for x in range(size):
            assert pattern_law(channel, x, Stream(*planes(width, precision)), total) == rows[x]


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
    channel = THERMOMETER.bind(LineMetric.equal(Fraction(2), 2), precision=precision)
    rows, total = channel.words()
    (chance,) = channel.flip_words
    for x in range(2):
        source = OpenPlanes(chance, precision)
        assert pattern_law(channel, x, source, total) == rows[x]
        assert source.digit == precision
        assert source.asked[-1] < source.asked[0]


ROUNDED = [
    (GEOMETRIC, 2, 8),
    (GEOMETRIC, 4, 9),
    (GEOMETRIC, 7, 10),
    (THERMOMETER, 2, 6),
    (THERMOMETER, 3, 6),
    (THERMOMETER, 4, 4),
    (PUBLISHED, 3, 4),
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
        return pattern_law(channel, code, Stream(rounding, *repeated), people)
    source = Stream(rounding, np.tile(all_words(precision), 1 << RESOLUTION))
    outputs = channel.encode(np.full(people, code), source)
    assert isinstance(outputs, np.ndarray)
    return np.bincount(outputs, minlength=channel.layout.count).tolist()


# Full precision: both sides of every bound


def expected_geometric(channel: Channel, x: int, word: int) -> int:
    assert isinstance(channel, GeometricChannel)
    half = channel.half_table()
    bounds = list(accumulate((*half[:0:-1], *half)))
    noise = bisect_right(bounds, word) - (channel.size - 1)
    return min(max(x + noise, 0), channel.size - 1)


def capped_weights(channel: Channel) -> tuple[int, ...]:
    assert isinstance(channel, CappedGeometricChannel)
    half = channel.half_table()
    return (*half[:0:-1], *half, *channel.fixed_table())


def expected_capped(channel: Channel, x: int, word: int) -> int:
    outcome = bisect_right(list(accumulate(capped_weights(channel))), word)
    fixed = outcome - (2 * channel.size - 1)
    noisy = min(max(x + outcome - (channel.size - 1), 0), channel.size - 1)
    return noisy if fixed < 0 else fixed


def expected_kary(channel: Channel, x: int, word: int) -> int:
    assert isinstance(channel, KaryResponseChannel)
    others = [y for y in range(channel.size) if y != x]
    which = word // channel.wrong
    return others[which] if which < len(others) else x


def expected_exponential(channel: Channel, x: int, word: int) -> int:
    rows, _ = channel.words()
    return bisect_right(list(accumulate(rows[x])), word)


def wave_bounds(channel: Channel) -> list[int]:
    assert isinstance(channel, SquareWaveChannel)
    close = [channel.near + (place < channel.spare) for place in range(channel.window)]
    return list(accumulate([*close, *[channel.far] * (channel.size - 1)]))


def expected_wave(channel: Channel, x: int, word: int) -> int:
    assert isinstance(channel, SquareWaveChannel)
    places = list(range(x, x + channel.window))
    places += [y for y in range(channel.outputs) if y not in places]
    return places[bisect_right(wave_bounds(channel), word)]


def edge_words(bounds: Sequence[int]) -> list[int]:
    near = {0, (1 << 64) - 1}
    for bound in bounds:
        near |= {bound - 1, bound, bound + 1}
    return sorted(word for word in near if 0 <= word < 1 << 64)


@pytest.mark.parametrize("eps", ["0.01", "1", "40"])
@pytest.mark.parametrize("case", SYMBOL_CASES, ids=str)
def test_words_on_both_sides_of_every_bound(case: Case, eps: str) -> None:
    for size in (2, 5, 9):
        channel = case.channel(size, Fraction(eps))
        expected = {
            "geometric": expected_geometric,
            "capped-geometric": expected_capped,
            "kary-response": expected_kary,
            "exponential": expected_exponential,
            "square-wave": expected_wave,
            "optimised": expected_exponential,
        }[channel.id]
        for x in range(channel.size):
            if isinstance(channel, GeometricChannel):
                half = channel.half_table()
                words = edge_words(list(accumulate((*half[:0:-1], *half))))
            elif isinstance(channel, CappedGeometricChannel):
                words = edge_words(list(accumulate(capped_weights(channel))))
            elif isinstance(channel, KaryResponseChannel):
                words = edge_words([k * channel.wrong for k in range(channel.size + 1)])
            elif isinstance(channel, SquareWaveChannel):
                words = edge_words(wave_bounds(channel))
            else:
                words = edge_words(list(accumulate(channel.words()[0][x])))
            drawn = channel.encode(np.full(len(words), x), Stream(np.array(words, dtype=np.uint64)))
            assert list(drawn) == [expected(channel, x, word) for word in words]


@pytest.mark.parametrize("choice", EVERY, ids=str)
def test_nobody_gives_nothing(choice: Choice) -> None:
    for dtype in INTEGER_TYPES:
        outputs = choice.bind(metric_for(choice, 4)).encode(np.zeros(0, dtype=dtype), SecureBits())
        assert len(outputs) == 0


# Full precision: large samples


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


def draw(channel: Channel, people: int) -> NDArray[np.int64]:
    """Secure draws for people spread over all cells, counted by cell and output."""
    counts = np.zeros(channel.likelihood().shape, dtype=np.int64)
    cells = np.arange(people) % channel.size
    outputs = channel.encode(cells, SecureBits())
    symbols = patterns(outputs) if isinstance(outputs, BitColumns) else outputs.astype(np.int64)
    flat = np.bincount(cells * counts.shape[1] + symbols, minlength=counts.size)
    return flat.reshape(counts.shape)


def check_sample(choice: Choice, kind: str, size: int, people: int) -> None:
    """The law at ε passes; draws at 1.02 ε do not pass for it, nor do its draws for 1.02 ε."""
    eps = Fraction(1, 2)
    right = Case(kind, choice).channel(size, eps)
    off = Case(kind, choice).channel(size, eps * Fraction(102, 100))
    drawn = draw(right, people)
    each = drawn.sum(axis=1)
    assert not rejects(drawn, right.likelihood())
    assert miss_chance(each, right.likelihood(), off.likelihood()) < SIGNIFICANCE
    assert rejects(drawn, off.likelihood())
    assert miss_chance(each, off.likelihood(), right.likelihood()) < SIGNIFICANCE
    assert rejects(draw(off, people), right.likelihood())


@pytest.mark.parametrize(
    ("choice", "kind", "size", "people"),
    [
        (GEOMETRIC, "integers", 12, 10_000_000),
        (KARY, "uniform", 6, 10_000_000),
        (THERMOMETER, "integers", 6, 4_000_000),
        (PUBLISHED, "unequal bins", 5, 4_000_000),
        (EXPONENTIAL, "integers", 8, 10_000_000),
        (OUE, "uniform", 4, 4_000_000),
        (OLH, "uniform", 6, 12_000_000),
        (HRR, "uniform", 6, 10_000_000),
        (SQUARE_WAVE, "uniform", 6, 10_000_000),
        (HAAR, "uniform", 6, 16_000_000),
        (HIERARCHY, "uniform", 6, 16_000_000),
    ],
    ids=str,
)
def test_secure_draws_follow_the_law(choice: Choice, kind: str, size: int, people: int) -> None:
    check_sample(choice, kind, size, people)


@pytest.mark.soak
@pytest.mark.parametrize("repeat", range(5))
@pytest.mark.parametrize(
    ("choice", "kind", "size"), [(GEOMETRIC, "integers", 40), (KARY, "uniform", 12)], ids=str
)
def test_more_secure_draws_follow_the_law(
    choice: Choice, kind: str, size: int, repeat: int
) -> None:
    check_sample(choice, kind, size, 30_000_000)


def test_an_independent_discrete_laplace_clamps_to_the_geometric_channel() -> None:
    """OpenDP's exact integer Laplace noise of scale 2 is e^(−|z|/2): ε = 1/2 a step."""
    dp.enable_features("contrib")
    people, size = 200_000, 10
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    noise = np.array((space >> dp.m.then_laplace(scale=2.0))([0] * people))
    cells = np.arange(people) % size
    outputs = np.clip(cells + noise, 0, size - 1)
    flat = np.bincount(cells * size + outputs, minlength=size * size).reshape(size, size)
    law = GEOMETRIC.bind(LineMetric.equal(Fraction(1, 2), size)).likelihood()
    assert not rejects(flat, law)
    off = GEOMETRIC.bind(LineMetric.equal(Fraction(11, 20), size)).likelihood()
    assert miss_chance(flat.sum(axis=1), law, off) < SIGNIFICANCE
    assert rejects(flat, off)
