"""Context-aware channels of Acharya et al. 2020: two cells, plain, blocks, sensitive cells; TV."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from helpers_channels import TIGHT, Stream, exceeding_pair, planes, worst_odds
from numpy.typing import NDArray

import sfumato as sf
from sfumato.channels import hadamard as contexts_file
from sfumato.channels.base import Channel
from sfumato.channels.hadamard import HadamardChannel
from sfumato.channels.hadamard_blocks import matrices_of
from sfumato.channels.response import BinaryChannel, lies
from sfumato.channels.transforms import scattered
from sfumato.errors import StudyError, TooLargeError
from sfumato.exact import at_most_exp
from sfumato.metrics.cells import CellMetric, TableMetric
from sfumato.metrics.distance import LineMetric
from sfumato.metrics.labelled import BlockMetric, HighLowMetric
from sfumato.metrics.uniform import UniformMetric
from sfumato.randomness.tables import FlipTable
from sfumato.study.choose import choose_channel

Floats = NDArray[np.float64]

ONE = Fraction(1)
EPSILONS = tuple(Fraction(text) for text in ("1e-6", "1/3", "1", "5", "40"))
BLOCKS = (
    [0, 1],
    [0, 0],
    [0, 1, 2],
    [3, 3, 3],
    [0, 1, 0, 1],
    [0, 1, 0, 2, 2, 2, 2, 1, 5],
    [5, 5, 5, 5, 1, 1, 1, 2, 0, 0, 0, 7, 7, 7, 7, 7, 7, 7, 7],
)
SENSITIVE = ("00", "11", "10", "01", "000", "111", "1000", "0110", "011001", "1111000", "0000001")


def blocks(numbers: list[int], eps: Fraction = ONE) -> BlockMetric:
    return BlockMetric(eps, np.array(numbers))


def high_low(marks: str, eps: Fraction = ONE) -> HighLowMetric:
    return HighLowMetric(eps, np.array([mark == "1" for mark in marks]))


def contexts(eps: Fraction = ONE) -> list[CellMetric]:
    plain = [UniformMetric(eps, size) for size in (2, 3, 4, 7, 8, 9)]
    return [*plain, *(blocks(b, eps) for b in BLOCKS), *(high_low(s, eps) for s in SENSITIVE)]


def hadamard(metric: CellMetric, *, precision: int = 64) -> HadamardChannel:
    return sf.Hadamard().bind(metric, precision=precision)


def table_of(channel: Channel) -> Floats:
    """The law in floats, from its words and nothing else."""
    rows, total = channel.words()
    return np.array([[float(Fraction(word, total)) for word in row] for row in rows])


def name(metric: CellMetric) -> str:
    if isinstance(metric, BlockMetric):
        return f"blocks {''.join(map(str, metric.block))}"
    if isinstance(metric, HighLowMetric):
        return f"high-low {''.join('01'[int(mark)] for mark in metric.sensitive)}"
    return f"plain {metric.size}"


CONTEXTS = pytest.mark.parametrize("metric", contexts(), ids=name)


# Two cells: Theorem 2

GRID = tuple(None if text == "inf" else Fraction(text) for text in ("0", "1e-6", "1/3", "1", "4"))
ENDS = (*GRID, None)


class Pair:
    """E between two cells, 0 allowed: no statement of a study makes such a metric."""

    size = 2
    notes = ()

    def __init__(self, there: Fraction | None, back: Fraction | None) -> None:
        self.e = {(0, 1): there, (1, 0): back, (0, 0): Fraction(0), (1, 1): Fraction(0)}

    def exact(self, i: int, j: int) -> Fraction | None:
        return self.e[i, j]

    def between(self, i: int, j: int) -> float:
        return math.inf if self.e[i, j] is None else float(self.e[i, j])  # type: ignore[arg-type]

    def matrix(self) -> Floats:
        return np.array([[self.between(i, j) for j in range(2)] for i in range(2)])


def theorem_2(there: Fraction | None, back: Fraction | None) -> Floats:
    """Equation (9), with its limits: where one ε is 0, and where both are."""
    small = 0.0 if there is None else math.exp(-float(there))
    if back is None:
        return np.array([[1.0, 0.0], [small, 1 - small]])
    if there == 0 and back == 0:
        return np.full((2, 2), 0.5)
    large = math.exp(float(back))
    top = [[large - 1, 1 - small], [small * (large - 1), large * (1 - small)]]
    return np.array(top) / (large - small)


@pytest.mark.parametrize("back", ENDS, ids=str)
@pytest.mark.parametrize("there", ENDS, ids=str)
def test_two_cells_are_told_as_theorem_2_says(
    there: Fraction | None, back: Fraction | None
) -> None:
    total = 1 << 64
    first, second = lies(there, back, 64)
    rows = [[total - first, first], [second, total - second]]
    assert exceeding_pair(rows, Pair(there, back)) is None
    found = np.array(rows, dtype=object) / total
    np.testing.assert_allclose(found.astype(float), theorem_2(there, back), atol=1e-12)
    for x, y, e in ((0, 1, there), (1, 0, back)):
        if e and there != 0 and back != 0:
            assert not at_most_exp(Fraction(*worst_odds(rows, x, y)), TIGHT * e)


def test_one_word_fewer_for_a_lie_would_break_the_bound() -> None:
    total = 1 << 64
    for there, back in ((ONE, ONE), (ONE, 2 * ONE), (None, ONE), (Fraction(1, 7), Fraction(3))):
        first, second = lies(there, back, 64)
        for a, b in ((first - 1, second), (first, second - 1)):
            rows = [[total - a, a], [b, total - b]]
            if min(a, b) >= 0:
                assert exceeding_pair(rows, Pair(there, back)) is not None


@pytest.mark.parametrize("e", ["1e-28", "1e-30", "1e-300"])
def test_an_e_too_small_for_odds_above_one_is_refused(e: str) -> None:
    tiny = Fraction(e)
    assert lies(tiny, tiny, 64) == (1 << 63, 1 << 63)
    with pytest.raises(StudyError, match=f"^a table of 2.64 words is too coarse for E = {e};"):
        sf.Binary().bind(UniformMetric(tiny, 2))


def test_warner_and_mangat_are_special_cases() -> None:
    warner, mangat = (sf.Binary().bind(m) for m in (UniformMetric(ONE, 2), high_low("01")))
    kary = sf.KaryResponse().bind(UniformMetric(ONE, 2))
    assert warner.words() == kary.words()
    (_, lie), (never, _) = mangat.words()[0]
    assert never == 0
    assert lie / (1 << 64) == pytest.approx(math.exp(-1), abs=1e-15)


@pytest.mark.parametrize("precision", [3, 6, 11, 64])
def test_binary_channels_keep_any_pair_of_bounds(precision: int) -> None:
    bound = 0
    for there, back in itertools.product(ENDS[1:], repeat=2):
        metric = Pair(there, back)
        try:
            channel = sf.Binary().bind(metric, precision=precision)
        except StudyError as error:
            assert "too coarse for E = " in str(error)  # noqa: PT017
            continue
        bound += 1
        rows, total = channel.words()
        assert all(sum(row) == total for row in rows)
        assert exceeding_pair(rows, metric) is None
        table = table_of(channel)
        np.testing.assert_allclose(channel.likelihood(), table, atol=1e-15)
        w = np.array([[1.0, 0.0], [2.5, -1.0]])
        # Near E = 0 readings are huge, and so is what rounding leaves of their difference.
        slack = 1e-15 * np.abs(channel.coefficients(w)).max() * 4
        np.testing.assert_allclose(channel.coefficients(w) @ table.T, w, atol=slack)
        profile = np.array([3.0, 5.0])
        np.testing.assert_allclose(
            channel.gather(profile) @ w.T, channel.coefficients(w) @ profile, rtol=1e-9, atol=1e-12
        )
        if channel.tightness:
            assert any(
                e is not None and not at_most_exp(Fraction(*worst_odds(rows, x, y)), TIGHT * e)
                for x, y, e in ((0, 1, there), (1, 0, back))
            )
    assert bound >= 4


def test_binary_takes_two_cells_that_may_be_told_apart() -> None:
    assert "two cells, and there are 3" in str(sf.Binary().misfit(UniformMetric(ONE, 3)))
    for there, back in ((Fraction(0), ONE), (ONE, Fraction(0))):
        with pytest.raises(StudyError, match="E is 0, so that reports say nothing"):
            sf.Binary().bind(Pair(there, back))
    with pytest.raises(StudyError, match="stochastic rounding"):
        sf.Binary().bind(LineMetric.equal(ONE, 2), resolution=20)


def variance(table: Floats) -> float:
    """Of the best unbiased reading of p at p = ½: the inverse Fisher information."""
    seen = table.mean(axis=0)
    keep = seen > 0
    information = float(np.sum((table[0] - table[1])[keep] ** 2 / seen[keep]))
    return 1 / information if information > 1e-15 else math.inf


def mutual_information(table: Floats) -> float:
    """Between cell and report, both cells equally likely."""
    seen = table.mean(axis=0)
    ratio = np.divide(table, seen, out=np.ones_like(table), where=(table > 0) & (seen > 0))
    return float(np.sum(table * np.log(ratio))) / 2


def candidates(outputs: int, steps: int, there: float, back: float) -> list[Floats]:
    """All channels on a grid of chances that keep both bounds."""
    found = []
    grid = [
        np.array(c) / steps
        for c in itertools.product(range(steps + 1), repeat=outputs)
        if sum(c) == steps
    ]
    for p, q in itertools.product(grid, repeat=2):
        bounds = ((p, q, there), (q, p, back))
        if all(e == math.inf or np.all(x <= math.exp(e) * y + 1e-12) for x, y, e in bounds):
            found.append(np.stack([p, q]))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("there", "back"), [("1", "1"), ("1/2", "2"), ("1", "inf"), ("inf", "1/2"), ("3", "1/3")]
)
def test_no_other_channel_of_two_or_three_outputs_is_better(there: str, back: str) -> None:
    """Brute force, for two utilities; the best on the grid comes near, so the search does bite."""
    e = [None if text == "inf" else Fraction(text) for text in (there, back)]
    best = sf.Binary().bind(Pair(*e)).likelihood()
    bounds = [math.inf if x is None else float(x) for x in e]
    for outputs, steps in ((2, 60), (3, 20)):
        others = candidates(outputs, steps, *bounds)
        assert len(others) > 20
        least = min(variance(table) for table in others)
        most = max(mutual_information(table) for table in others)
        assert variance(best) <= least * (1 + 1e-12)
        assert mutual_information(best) >= most * (1 - 1e-12)
        if outputs == 2:
            assert least <= 1.25 * variance(best)
            assert most >= 0.8 * mutual_information(best)


# Hadamard response: the guarantee


@pytest.mark.parametrize("eps", EPSILONS, ids=str)
def test_every_finite_pair_is_hidden_exactly_and_tightly(eps: Fraction) -> None:
    for metric in contexts(eps):
        channel = hadamard(metric)
        rows, total = channel.words()
        assert all(sum(row) == total and min(row) >= 0 for row in rows)
        assert exceeding_pair(rows, metric) is None, name(metric)
        for x, y in itertools.permutations(range(metric.size), 2):
            more, less = worst_odds(rows, x, y)
            if metric.exact(x, y) is None:
                assert less == 0, "what need not be hidden is told for sure by some symbol"
            else:
                assert Fraction(more, less) == channel.worst_ratio()
                if eps < 20:
                    assert not at_most_exp(Fraction(more, less), TIGHT * eps)
                    assert channel.tightness == float(TIGHT)


def test_the_all_ones_row_would_say_nothing() -> None:
    """Row 0 for the first cell of (13): its report would be the same for both signs."""
    for metric in contexts():
        matrices = matrices_of(metric)
        inside = matrices.row[matrices.row > 0]
        assert len(inside) + len(matrices.lone) == metric.size
        assert np.all(inside <= matrices.mask[matrices.row > 0])
    assert matrices_of(UniformMetric(ONE, 3)).outputs == 4
    assert matrices_of(UniformMetric(ONE, 4)).outputs == 8


def test_rows_are_scattered_and_each_is_given_once() -> None:
    for bits in range(1, 15):
        order = 1 << bits
        found = scattered(np.arange(1, order), np.full(order - 1, order))
        assert sorted(found.tolist()) == list(range(1, order))
    largest = np.array([1, 2, (1 << 31) - 1, 1 << 30])
    held = scattered(largest, np.full(4, 1 << 31))  # no product is too large
    assert len(set(held.tolist())) == 4
    assert 0 < held.min() <= held.max() < 1 << 31


def kurtosis(rows: Floats, weights: Floats) -> float:
    """Of the reading of weights over all columns: large where it hangs on a few of them."""
    read = (weights - weights.mean()) @ rows
    return float(np.mean(read**4) / np.mean(read**2) ** 2)


@pytest.mark.parametrize("size", [100, 255, 1_000, 2_047])
def test_no_range_hangs_on_a_few_columns(size: int) -> None:
    """A normal law has 3. Rows in the paper's order have far more, so this can fail."""
    order = 1 << size.bit_length()
    ranks, columns = np.arange(1, size + 1), np.arange(order)
    scrambled = matrices_of(UniformMetric(ONE, size)).row.astype(np.int64)
    laid = [1.0 - 2.0 * (np.bitwise_count(r[:, None] & columns) & 1) for r in (scrambled, ranks)]
    for low, high in ((0, size // 2), (0, size // 4), (size // 3, size // 2)):
        weights = ((np.arange(size) >= low) & (np.arange(size) < high)).astype(float)
        ours, printed = (kurtosis(rows, weights) for rows in laid)
        assert ours < 6 < 8 < printed


@pytest.mark.slow
def test_intervals_of_wide_ranges_hold_the_truth_with_few_people_a_column() -> None:
    """400 runs: 95 % ± 4·1.1 %. The stated error hardly varies, and is the predicted one."""
    study = sf.Study("s", [sf.integers("x", 0, 999, protect=sf.Uniform(1), channel=sf.Hadamard())])
    values = np.arange(1_000)
    answers = [
        study.simulate({"x": values}, seed=seed).estimate("unbiased").count(x=(0, 510))
        for seed in range(400)
    ]
    low, high = np.array([a.uncut for a in answers]).T  # cut at n, all would hold it
    held = np.mean((low <= 511) & (high >= 511))
    assert abs(held - 0.95) < 0.044
    stated = np.array([a.stderr for a in answers])
    assert np.ptp(stated) < 0.2 * stated.mean()


def test_one_word_fewer_for_a_wrong_column_would_break_the_bound() -> None:
    channel = hadamard(blocks([0, 0, 0, 1, 1]))
    total = 1 << 64
    for flips, holds in ((channel.flips, True), (channel.flips - 1, False)):
        assert at_most_exp(Fraction(total - flips, flips), ONE) == holds


def test_cells_that_need_no_hiding_are_told_as_they_are() -> None:
    for metric in (blocks([0, 1, 2]), high_low("0000")):
        channel = hadamard(metric)
        np.testing.assert_array_equal(channel.likelihood(), np.eye(metric.size))
        cells = np.arange(metric.size)
        np.testing.assert_array_equal(channel.encode(cells, Stream(np.zeros(0, np.uint64))), cells)
        assert channel.worst_ratio() is None
        assert channel.tightness == 0
    everything = hadamard(high_low("11111"))
    assert everything.words() == hadamard(UniformMetric(ONE, 5)).words()


# The sampler


@pytest.mark.slow
@CONTEXTS
def test_symbols_over_all_words_are_the_table(metric: CellMetric) -> None:
    """Every column with every number behind the flips, each kind of flip by itself."""
    precision = 6
    channel = hadamard(metric, precision=precision)
    if not channel.matrices.hides or channel.matrices.largest > 8:
        return
    rows, total = channel.words()
    order, kinds = channel.matrices.largest, 1 + channel.matrices.covered
    people = order << (precision * kinds)
    column = np.repeat(np.arange(order, dtype=np.uint8), 1 << (precision * kinds))
    junk = column | np.uint8(0xF8 if order == 8 else 0)
    flips = [
        np.tile(plane.reshape(kinds, -1), (1, order)).ravel() for plane in planes(kinds, precision)
    ]
    for x in range(metric.size):
        source = Stream(junk.view(np.uint64), *flips)
        found = np.bincount(channel.encode(np.full(people, x), source), minlength=channel.outputs)
        assert len(source.left) == 0
        assert [int(f) * total for f in found] == [word * people for word in rows[x]]


@pytest.mark.parametrize("size", [200, 300, 70_000])
def test_columns_of_any_width_are_the_low_bits_of_a_lane(size: int) -> None:
    order = 1 << size.bit_length()
    width = 1 if order <= 256 else 2 if order <= 65_536 else 4
    every = np.arange(order, dtype=f"<u{width}")
    found = contexts_file._lanes(Stream(every.view(np.uint64)), order, order)
    np.testing.assert_array_equal(found, every)


def test_people_in_many_chunks_are_each_told_by_their_own_cell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At ε = 80 nobody lies: columns have the cell's sign, in the cell's block."""
    monkeypatch.setattr(contexts_file, "_PEOPLE_AT_ONCE", 64)
    for metric in contexts(Fraction(80)):
        channel = hadamard(metric)
        cells = np.random.default_rng(1).integers(0, metric.size, 1_001)
        outputs = channel.encode(cells.astype(np.uint8), sf.SeededBits(2))
        assert np.all(channel.likelihood()[cells, outputs] > 1e-9)
        again = channel.encode(cells, sf.SeededBits(2))
        np.testing.assert_array_equal(outputs, again)


# Reading


@CONTEXTS
def test_everybody_and_every_block_are_counted_without_error(metric: CellMetric) -> None:
    channel = hadamard(metric)
    np.testing.assert_allclose(channel.coefficients(np.ones(metric.size)), 1, atol=1e-12)
    if isinstance(metric, BlockMetric):
        for number in np.unique(metric.block):
            inside = (metric.block == number).astype(float)
            np.testing.assert_allclose(channel.second_moment(inside), inside, atol=1e-12)


def paper_reading(channel: HadamardChannel, x: int) -> Floats:
    """(15), (16) and (19), as printed: the weights of a cell alone, not centred."""
    c, matrices = 1 / channel.gain, channel.matrices
    values = np.zeros(channel.outputs)
    if matrices.row[x]:
        start = int(matrices.place[x] - matrices.row[x])
        for y in range(int(matrices.mask[x]) + 1):
            odd = (int(matrices.row[x]) & y).bit_count() & 1
            values[start + y] = -c if odd else c
    else:
        values[matrices.place[x]] = c if matrices.covered else 1.0
    return values


@CONTEXTS
def test_the_printed_reading_is_unbiased_too_and_never_surer(metric: CellMetric) -> None:
    """Summed over cells and people spread evenly; alone in a block nothing is left to centre."""
    channel, table = hadamard(metric), table_of(hadamard(metric))
    ours = printed = 0.0
    for x in range(metric.size):
        reading = paper_reading(channel, x)
        np.testing.assert_allclose(table @ reading, np.eye(metric.size)[x], atol=1e-12)
        printed += float(np.sum(table @ reading**2))
        ours += float(np.sum(channel.second_moment(np.eye(metric.size)[x])))
    assert ours <= printed * (1 + 1e-12)


# Choice, files, audits


def labels(size: int) -> list[str]:
    return [f"c{k}" for k in range(size)]


def of_labels(size: int, protect: Any, **more: Any) -> sf.Axis:
    return sf.categories("x", labels(size), protect=protect, **more)


def test_the_planner_chooses_by_context() -> None:
    names = labels(6)
    for protect, size, channel in (
        (sf.HighLow(1, names[:2]), 6, "extended"),
        (sf.HighLow(1, []), 6, "hadamard"),
        (sf.Blocks(1, [names[:2], names[2:]]), 6, "per-block"),
        (sf.HighLow(1, names[:1]), 2, "binary"),
        (sf.Blocks(1, [names[:2]]), 2, "kary-response"),  # one ε for both
        (sf.Matrix([[0, 1], [math.inf, 0]]), 2, "binary"),
        (sf.SensitiveSet(1, names[:2]), 6, "extremal"),
        (sf.Uniform(1), 2, "kary-response"),
    ):
        study = sf.Study("s", [of_labels(size, protect)])
        assert study.channels[0].id == channel
        assert sf.Study.from_toml(study.to_toml()).fingerprint == study.fingerprint
    assert choose_channel(high_low("01"))[1] == (
        "for two cells no channel with this guarantee is better"
    )


def test_hadamard_is_compared_where_it_fits() -> None:
    study = sf.Study("s", [of_labels(8, sf.Uniform(1))])
    assert "hadamard" in {row.channel for row in study.compare(1_000, methods=["unbiased"])}
    study = sf.Study("s", [of_labels(8, sf.Blocks(1, [labels(8)[:4], labels(8)[4:]]))])
    found = {row.channel: row for row in study.compare(1_000, methods=["unbiased"])}
    assert set(found) == {"per-block (kary-response)", "hadamard", "exponential"}
    assert found["per-block (kary-response)"].chosen


@pytest.mark.parametrize(
    "metric", [LineMetric.equal(ONE, 4), TableMetric(1 - np.eye(3, dtype=int), 1, 3)]
)
def test_hadamard_says_what_it_needs(metric: CellMetric) -> None:
    with pytest.raises(StudyError, match=r"needs protect=Uniform\(...\), Blocks\(...\) or HighLow"):
        sf.Hadamard().bind(metric)
    with pytest.raises(StudyError, match="stochastic rounding"):
        sf.Hadamard().bind(UniformMetric(ONE, 4), resolution=20)
    assert "up to" in str(sf.Hadamard().misfit(UniformMetric(ONE, (1 << 30) + 1)))


@pytest.mark.slow
@pytest.mark.parametrize("size", [6, 600])
@pytest.mark.parametrize("kind", ["uniform", "blocks", "high-low", "nothing"])
def test_audits_pass_pair_by_pair_and_by_structure(kind: str, size: int) -> None:
    protect = {
        "uniform": sf.Uniform(1),
        "blocks": sf.Blocks(1, [range(1), range(1, 4), range(4, size)]),
        "high-low": sf.HighLow(1, range(2, size // 2)),
        "nothing": sf.HighLow(1, []),
    }[kind]
    axis = sf.integers("a", 0, size - 1, protect=protect, channel=sf.Hadamard())
    study = sf.Study("s", [axis])
    (found,) = sf.audit(study).axes
    assert found.holds
    assert found.method == ("all pairs, exactly" if size == 6 else "by structure")
    assert found.spent == (0 if kind == "nothing" else pytest.approx(1, abs=1e-9))
    assert study.explain()


@pytest.mark.parametrize("size", [6, 600])
def test_audits_see_a_sampler_of_another_law(size: int) -> None:
    def made(protect: Any) -> tuple[sf.Study, HadamardChannel]:
        axis = sf.integers("a", 0, size - 1, protect=protect, channel=sf.Hadamard())
        study = sf.Study("s", [axis])
        (channel,) = study.channels
        assert isinstance(channel, HadamardChannel)
        return study, channel

    blocks_of = sf.Blocks(1, [range(3), range(3, size)])
    study, channel = made(blocks_of)
    object.__setattr__(channel, "_flips", FlipTable([channel.flips - 1], 64))
    assert "another chance" in sf.audit(study).axes[0].problems[0]
    study, channel = made(blocks_of)
    row = np.array(channel.matrices.row)
    row[0] = row[1]
    object.__setattr__(channel.matrices, "row", row)
    assert not sf.audit(study).holds
    study, channel = made(sf.HighLow(1, [0, 1, 2]))
    other = sf.integers("a", 0, size - 1, protect=sf.HighLow(1, [0, 1]), channel=sf.Hadamard())
    object.__setattr__(channel, "matrices", matrices_of(other.metric()))
    assert "share columns" in sf.audit(study).axes[0].problems[0]


def test_a_matrix_of_very_many_cells_is_refused() -> None:
    channel = hadamard(UniformMetric(ONE, 5_000))
    for refused in (channel.words, channel.likelihood):
        with pytest.raises(TooLargeError, match="4096 cells"):
            refused()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sf.Blocks(1, [["a", "b"], ["b", "c"]]), "'b' in blocks 1 and 2"),
        (lambda: sf.Blocks(1, [["a"], ["b", "c", "b"]]), "block 2 .* got 'b' twice"),
        (
            lambda: of_labels(3, sf.Blocks(1, [["c0", "c1"]])).metric(),
            "none of 'c2': put each into",
        ),
        (lambda: of_labels(3, sf.HighLow(1, ["c9"])).metric(), "got 'c9'"),
        (lambda: sf.Matrix([[0, -1], [1, 0]]), "0 or more, or inf, got -1 at row 1, column 2"),
        (lambda: of_labels(2, sf.Matrix([[0, 0], [1, 0]])).metric(), "must be above 0, got 0"),
        (lambda: sf.Blocks(0, [["a"]]), "epsilon must be positive"),
    ],
)
def test_what_makes_no_sense_is_named(make: Any, words: str) -> None:
    with pytest.raises(StudyError, match=words):
        make()


# Whole studies


@pytest.mark.parametrize("kind", ["uniform", "blocks", "high-low"])
def test_a_hundred_thousand_cells_are_no_trouble(kind: str) -> None:
    """Nothing of the size of cells by cells is made; people in the first cell are found."""
    size = 100_000
    protect = {
        "uniform": sf.Uniform(2),
        "blocks": sf.Blocks(2, [range(s, s + 500) for s in range(0, size, 500)]),
        "high-low": sf.HighLow(2, range(0, size, 100)),
    }[kind]
    axis = sf.integers("x", 0, size - 1, protect=protect, channel=sf.Hadamard())
    study = sf.Study("s", [axis])
    counts = np.zeros(size, dtype=np.int64)
    counts[::100] = 50
    counts[[0, 77_777]] = 30_000, 20_000
    values = np.repeat(np.arange(size), counts)
    found = sf.distribution(study.simulate({"x": values}, seed=1).estimate("unbiased"))
    off = np.abs(found.values - counts / len(values)) / np.maximum(found.stderr, 1e-9)
    assert off[0] < 5
    assert off[77_777] < 5
    plan = sf.expected_tv(study, len(values), prior=counts, population=False)
    # At least 1,000 cells' errors, hardly related, are summed: that spreads by √(π/2 − 1)/√1000,
    # 2.4 % of the mean.
    assert sf.tv_error(found, counts) == pytest.approx(plan.tv, rel=0.1)
    assert math.ceil(math.log2(study.channels[0].layout.count)) <= 18


def test_hadamard_sends_whole_records_too() -> None:
    axes = [sf.integers("a", 0, 4, protect=None), sf.integers("b", 0, 3, protect=None)]
    study = sf.Study("s", axes, protect=sf.Uniform(3), channel=sf.Hadamard())
    assert sf.audit(study).holds
    truth = np.outer(np.arange(5), np.arange(4)) * 100
    est = study.simulate_counts(truth, seed=1).estimate("unbiased")
    plan = sf.expected_tv(study, int(truth.sum()), prior=truth, population=False)
    # Twenty cells' errors are summed: that spreads by √(π/2 − 1)/√20, 17 % of the mean.
    assert sf.tv_error(est, truth) == pytest.approx(plan.tv, rel=0.7)
    assert sf.distribution(est).values.shape == (5, 4)


def test_two_labels_get_the_binary_channel() -> None:
    study = sf.Study("s", [of_labels(2, sf.HighLow(1, ["c0"]))])
    assert isinstance(study.channels[0], BinaryChannel)
    truth = {"x": ["c0"] * 1_000 + ["c1"] * 9_000}
    answer = study.simulate(truth, seed=4).estimate("unbiased").count({"x": "c0"})
    # Mangat's: only those who may lie add noise, n·q/(1 − q) with q = e^−1.
    assert answer.stderr == pytest.approx(math.sqrt(9_000 / (math.e - 1)), rel=0.02)
    assert abs(answer.value - 1_000) < 5 * answer.stderr


@pytest.mark.slow
def test_many_cells_without_order_are_decoded_whole() -> None:
    """Beyond 16,384 cells there are no neighbours to join; 17,000 cells, 170 blocks."""
    names = [f"c{k}" for k in range(17_000)]
    blocks = [names[start : start + 100] for start in range(0, len(names), 100)]
    axis = sf.categories("x", names, protect=sf.Blocks(2, blocks))
    counts = np.zeros(len(names), dtype=np.int64)
    counts[::50] = 100
    estimate = sf.Study("many", [axis]).simulate_counts(counts, seed=3).estimate("likelihood")
    some = np.random.default_rng(4).choice(len(names), 3_000, replace=False)
    answer = estimate.count({"x": {names[k] for k in some}})
    assert answer.low < counts[some].sum() < answer.high
    whole = estimate.count({"x": set(names[:5_000])})  # fifty blocks, which are not hidden
    assert whole.value == pytest.approx(10_000, rel=1e-3)
