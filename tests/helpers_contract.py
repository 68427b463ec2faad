"""The laws that every channel keeps, as checks of one channel on the cells of one trial.

A check takes a `Subject` and raises `AssertionError` where its law is broken. `test_contract.py`
runs all of them over the trials that registered channels declare, and shows for each that a channel
with one fault does not pass.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import pytest
from helpers_channels import Stream, patterns, worst_odds
from numpy.typing import NDArray
from scipy import stats

from sfumato.arrays import BitColumns
from sfumato.channels.base import Channel, SymbolChannel, signs
from sfumato.channels.choice import OLDER, REGISTRY, Trial, choice_from_dict
from sfumato.errors import StudyError
from sfumato.exact import at_most_exp
from sfumato.metrics.cells import CellMetric, TableMetric
from sfumato.metrics.distance import AsideMetric, CappedLineMetric, LineMetric
from sfumato.metrics.labelled import BlockMetric, HighLowMetric
from sfumato.metrics.norm_grids import NormGridMetric
from sfumato.metrics.uniform import UniformMetric
from sfumato.randomness.bits import SeededBits

Floats = NDArray[np.float64]
Words = NDArray[np.uint64]
Rows = list[list[int]]

TOTAL = 1 << 64
#: Seeds are fixed, so a comparison fails by accident once in a million changes of the code.
SIGNIFICANCE = 1e-6
PEOPLE = (1 << 18) + 37  # several chunks of every sampler, the last one not full
#: Random bits of one report that are tried in all combinations.
MOST_BITS = 13


@dataclass(frozen=True)
class Subject:
    """A channel to be checked, with the trial that it comes from.

    Attributes:
        trial: What was tried.
        channel: The channel proper, behind rounding if the trial asks for it.
    """

    trial: Trial
    channel: Channel

    @classmethod
    def of(cls, trial: Trial, *, precision: int = 64) -> Subject:
        """Bind the trial."""
        return cls(trial, trial.bind(precision=precision))

    def with_fault(self, name: str, wrong: Callable[..., Any]) -> Subject:
        """The same channel with one method replaced, given the right one and its arguments."""
        twin = copy.copy(self.channel)
        right = getattr(self.channel, name)
        object.__setattr__(twin, name, lambda *given, **named: wrong(right, *given, **named))
        return Subject(self.trial, twin)

    @cached_property
    def table(self) -> tuple[Rows, int]:
        """Exact word counts at cells, and their total."""
        return self.channel.words()

    @property
    def parts(self) -> int:
        """Codes from one cell to the next: more than one behind rounding."""
        return 1 << self.trial.resolution

    @cached_property
    def rows(self) -> Rows:
        """The exact law at every code that `encode` takes; between cells it is a straight line."""
        rows, parts = self.table[0], self.parts
        found = []
        for code in range((len(rows) - 1) * parts + 1):
            cell, part = divmod(code, parts)
            above = rows[min(cell + 1, len(rows) - 1)]
            pairs = zip(rows[cell], above, strict=True)
            found.append([(parts - part) * low + part * high for low, high in pairs])
        return found

    @cached_property
    def law(self) -> Floats:
        """P(output | code), each entry rounded once."""
        total = self.table[1] * self.parts
        return np.array([[float(Fraction(word, total)) for word in row] for row in self.rows])

    @property
    def cell_law(self) -> Floats:
        """P(output | cell)."""
        return self.law[:: self.parts]

    def exact(self, a: int, b: int) -> Fraction | None:
        """E between two codes; None where it is infinite."""
        metric = self.trial.metric
        if not self.trial.resolution:
            return metric.exact(a, b)
        step = metric.exact(0, 1)
        assert step is not None
        if isinstance(metric, UniformMetric):
            return step if a != b else Fraction(0)
        line = metric.line if hasattr(metric, "line") else metric
        apart = line.equal_step * Fraction(abs(a - b), self.parts)
        return min(apart, metric.cap) if hasattr(metric, "cap") else apart

    def on_outputs(self, coefficients: Floats) -> Floats:
        """The values at every output of functions given by their coefficients."""
        if self.channel.layout.kind == "symbols":
            return coefficients
        return coefficients[..., :1] + coefficients[..., 1:] @ signs(self.channel.layout.count).T

    def every_output(self) -> Any:
        """Each output once, in the order of the columns of the law."""
        if self.channel.layout.kind == "symbols":
            return np.arange(self.channel.layout.count)
        return BitColumns.from_matrix(signs(self.channel.layout.count) > 0)

    def weights(self) -> Floats:
        """Questions that no symmetry of the cells leaves as they are: one row each."""
        size = self.channel.size
        rng = np.random.default_rng(size)
        ranges = np.tri(size)
        return np.concatenate([np.eye(size), ranges, rng.normal(size=(4, size))])

    def room(self, *arrays: Floats) -> float:
        """What rounding may do to a sum over outputs or cells of products of these arrays.

        A few hundred roundings of 2^-52 each, of the largest product there can be; inverting a
        table in floats multiplies that by its condition.
        """
        largest = math.prod(float(np.abs(array).max()) for array in arrays)
        condition = float(np.linalg.cond(self.cell_law @ self.cell_law.T)) ** 0.5
        return 2.0**-52 * 256 * self.channel.layout.features * condition * (largest + 1e-12)


# Privacy


def keeps_the_guarantee(subject: Subject) -> None:
    """No odds of any output exceed e^E, for any ordered pair of codes, decided in integers."""
    assert exceeding_pair(subject.rows, subject.exact) is None


def exceeding_pair(
    rows: Rows, exact: Callable[[int, int], Fraction | None]
) -> tuple[int, int] | None:
    """The first ordered pair whose odds exceed e^E for some output."""
    for x, y in product(range(len(rows)), repeat=2):
        e = exact(x, y)
        if x == y or e is None:
            continue
        more, less = worst_odds(rows, x, y)
        if less == 0 or not at_most_exp(Fraction(more, less), e):
            return x, y
    return None


def is_a_law(subject: Subject) -> None:
    """Word counts are whole numbers from 0, and every row has all of them."""
    rows, total = subject.table
    assert len(rows) == subject.channel.size == subject.trial.metric.size
    assert all(isinstance(word, int) and word >= 0 for row in rows for word in row)
    assert all(sum(row) == total for row in rows)


def spends_what_it_claims(subject: Subject) -> None:
    """Some pair is told apart by as much of its E as the channel and the trial declare."""
    share = Fraction(max(subject.channel.tightness, subject.trial.spends))
    pairs = [
        (x, y, e)
        for x, y in product(range(len(subject.rows)), repeat=2)
        if x != y and (e := subject.exact(x, y)) is not None
    ]
    uniform = isinstance(subject.trial.metric, UniformMetric)
    if subject.trial.resolution and not uniform:
        # Neighbouring cells keep 1 + E, so that values between keep e^E.
        step = subject.exact(0, subject.parts)
        assert step is not None
        odds = Fraction(*worst_odds(subject.rows, 0, subject.parts))
        assert odds <= 1 + step
        if odds >= 1 + share * step:
            return
    spent = (
        not at_most_exp(Fraction(*worst_odds(subject.rows, x, y)), share * e) for x, y, e in pairs
    )
    assert any(spent) or not pairs


def checks_itself(subject: Subject) -> None:
    """The channel's own check passes, pair by pair and, where it knows its structure, by that."""
    metric, channel = subject.trial.metric, subject.channel
    assert not channel.check(metric).problems
    long = copy.copy(channel)
    object.__setattr__(long, "most_ratios", 0)
    told = long.check(metric).problems
    assert all("shows no structure" in problem for problem in told)


def likelihood_is_the_law(subject: Subject) -> None:
    """Products of a few chances, each rounded once or twice."""
    found = subject.channel.likelihood()
    assert found.shape == subject.cell_law.shape
    assert np.abs(found - subject.cell_law).max() <= 32 * 2.0**-53


# Encoding


def codes_of(outputs: Any) -> NDArray[np.int64]:
    """Outputs as numbers of columns of the law."""
    return patterns(outputs) if isinstance(outputs, BitColumns) else outputs.astype(np.int64)


def encodes_by_the_law(subject: Subject, people: int = PEOPLE, seed: int = 7) -> None:
    """A seeded sample of people at all codes follows the law."""
    codes = np.arange(people) % len(subject.law)
    outputs = codes_of(subject.channel.encode(codes, SeededBits(seed)))
    assert len(outputs) == people
    assert passes_for(codes, outputs, subject.law)


def passes_for(codes: NDArray[np.int64], outputs: NDArray[np.int64], law: Floats) -> bool:
    """Whether outputs may have been drawn from their codes' rows of a law, by Pearson's statistic.

    Outputs expected fewer than 25 times in a row are put together, so that the statistic has its
    limiting law.
    """
    counts = np.zeros(law.shape, dtype=np.int64)
    np.add.at(counts, (codes, outputs), 1)
    statistic, freedom = 0.0, 0
    for found, chance in zip(counts, law, strict=True):
        expected = chance * found.sum()
        often = expected >= 25
        seen, wanted = found[often], expected[often]
        if expected[~often].sum() >= 25:
            seen = np.append(seen, found[~often].sum())
            wanted = np.append(wanted, expected[~often].sum())
        if found[chance == 0].any():
            return False
        statistic += float(np.sum((seen - wanted) ** 2 / wanted))
        freedom += len(seen) - 1
    return freedom == 0 or bool(stats.chi2.sf(statistic, freedom) > SIGNIFICANCE)


def encodes_any_integers(subject: Subject) -> None:
    """Cells of any integer type are the same cells, and stay as they are; nobody gives nothing."""
    codes = np.arange(1, 200) % len(subject.law)
    expected = codes_of(subject.channel.encode(codes, SeededBits(3)))
    for dtype in (np.uint8, np.int8, np.uint16, np.int32, np.uint64):
        given = codes.astype(dtype)
        given.setflags(write=False)
        found = codes_of(subject.channel.encode(given, SeededBits(3)))
        assert np.array_equal(found, expected)
        assert len(subject.channel.encode(given[:0], SeededBits(3))) == 0


class Counting:
    """A seeded source that counts the words it gives."""

    secure = False

    def __init__(self) -> None:
        self.given, self.source = 0, SeededBits(1)

    def words(self, count: int) -> Words:
        """The next words."""
        self.given += count
        return self.source.words(count)


def one_word_decides(subject: Subject) -> bool:
    """Whether a report takes one random word: then all words can be tried by halving."""
    if subject.trial.resolution or subject.channel.layout.kind == "bits":
        return False
    given = []
    for people in (1, 1_000):
        source = Counting()
        subject.channel.encode(np.zeros(people, dtype=np.int64), source)
        given.append(source.given)
    return given == [1, 1_000]


def encodes_each_word_by_the_law(subject: Subject) -> None:
    """Exactly as many of the 2^64 words give each output as the table says."""
    assert one_word_decides(subject)
    for cell, row in enumerate(subject.table[0]):
        assert halved(subject.channel, cell) == row


def halved(channel: Channel, cell: int) -> list[int]:
    """How many words give each output, from both sides of every bound, found by halving."""

    def drawn(words: Sequence[int]) -> list[int]:
        cells = np.full(len(words), cell)
        return codes_of(channel.encode(cells, Stream(np.array(words, dtype=np.uint64)))).tolist()

    marks = {0, TOTAL - 1, *range(0, TOTAL, 1 << 54)}
    marks |= {1 << k for k in range(64)} | {TOTAL - 1 - (1 << k) for k in range(64)}
    words = sorted(marks)
    outputs = drawn(words)
    open_ = list(zip(words, words[1:], outputs, outputs[1:], strict=False))
    counts = [0] * channel.layout.count
    counts[outputs[-1]] += 1  # the last word; every interval counts its first, and those up to it
    while open_:
        later = []
        halves = []
        for low, high, first, last in open_:
            if first == last or high - low == 1:
                counts[first] += high - low
            else:
                halves.append((low, high, first, last))
        middles = [(low + high) // 2 for low, high, _, _ in halves]
        for (low, high, first, last), middle, at in zip(
            halves, middles, drawn(middles), strict=True
        ):
            later += [(low, middle, first, at), (middle, high, at, last)]
        open_ = later
    return counts


class Spelled:
    """A source that gives chosen bits in some places, and fixed junk in all others."""

    secure = False

    def __init__(self, junk: Words) -> None:
        self.junk, self.at = junk, 0

    def words(self, count: int) -> Words:
        """The next words."""
        found = self.junk[self.at : self.at + count].copy()
        assert len(found) == count, "a report takes more words than were foreseen"
        self.at += count
        return found


_FORESEEN = 64  # words of one report


def coarsest(kind: str) -> Subject:
    """The channel on the fewest cells it declares, with the shortest words that it binds with."""
    trials = [t for t in REGISTRY[kind].trials() if t.shape is None and not t.resolution]
    for trial in sorted(trials, key=lambda trial: trial.metric.size):
        for precision in range(3, 9):
            try:
                return Subject.of(trial, precision=precision)
            except StudyError:
                continue
    raise AssertionError(f"{kind} has no trial that is bound with short words")


def deciding_bits(subject: Subject) -> list[tuple[int, int]]:
    """Which bits of which words can change a report of one person, found by changing each.

    A bit that matters seldom may be missed; then the law that follows is wrong, and never right by
    accident. Samplers read the leading bits of words, and of packed ones the lowest.
    """
    rng = np.random.default_rng(1)
    places = [*range(9), *range(64 - subject.channel.precision, 64)]
    found: set[tuple[int, int]] = set()
    for _ in range(60):
        junk = rng.integers(0, TOTAL, _FORESEEN, dtype=np.uint64)
        for code in range(len(subject.rows)):
            source = Spelled(junk)
            output = codes_of(subject.channel.encode(np.array([code]), source))[0]
            for word, bit in product(range(source.at), places):
                if (word, bit) in found:
                    continue
                changed = junk.copy()
                changed[word] ^= np.uint64(1 << bit)
                other = codes_of(subject.channel.encode(np.array([code]), Spelled(changed)))[0]
                if other != output:
                    found.add((word, bit))
        if len(found) > MOST_BITS:
            break
    return sorted(found)


def encodes_all_bits_by_the_law(subject: Subject) -> None:
    """Every combination of the bits that decide a report: the outputs have the table's shares."""
    bits = deciding_bits(subject)
    assert len(bits) <= MOST_BITS
    junk = np.random.default_rng(2).integers(0, TOTAL, _FORESEEN, dtype=np.uint64)
    for word, bit in bits:
        junk[word] &= ~np.uint64(1 << bit)
    total = subject.table[1] * subject.parts
    for code, row in enumerate(subject.rows):
        counts = [0] * len(row)
        for number in range(1 << len(bits)):
            chosen = junk.copy()
            for place, (word, bit) in enumerate(bits):
                if number >> place & 1:
                    chosen[word] |= np.uint64(1 << bit)
            output = codes_of(subject.channel.encode(np.array([code]), Spelled(chosen)))[0]
            counts[output] += 1
        assert [count * total for count in counts] == [word << len(bits) for word in row]


# Reading


def is_unbiased(subject: Subject) -> None:
    """E[f | x] = w[x] for every question and cell, summed over the exact law."""
    w = subject.weights()
    values = subject.on_outputs(subject.channel.coefficients(w))
    # Words are within 2^-40 of the formulas that some readings divide by.
    allowed = subject.room(values) + 1e-10 * float(np.abs(w).max())
    assert np.abs(values @ subject.cell_law.T - w).max() <= allowed


def reads_many_questions_as_each(subject: Subject) -> None:
    """Questions along leading axes are read as each of them by itself."""
    many = subject.weights()[-4:].reshape(2, 2, -1)
    channel = subject.channel
    together = channel.coefficients(many)
    moments = channel.second_moment(many)
    products = channel.product_coefficients(many, many[::-1])
    assert together.shape == (2, 2, channel.layout.features)
    for place in np.ndindex(2, 2):
        each = channel.coefficients(many[place])
        assert np.abs(together[place] - each).max() <= subject.room(each)
        moment = channel.second_moment(many[place])
        assert np.abs(moments[place] - moment).max() <= subject.room(moment)
        one = channel.product_coefficients(many[place], many[::-1][place])
        assert np.abs(products[place] - one).max() <= subject.room(one)


def is_linear_where_it_says_so(subject: Subject) -> None:
    """Sums of questions are read as sums, and only then does the channel call itself linear.

    Plans sum over many questions in closed form where it does.
    """
    channel, w = subject.channel, subject.weights()
    read = channel.coefficients(w)
    apart = channel.coefficients(w[:, None] + w) - (read[:, None] + read)
    assert channel.linear == bool(np.abs(apart).max() <= subject.room(read))


def second_moments_are_the_sums(subject: Subject) -> None:
    """E[f² | x], and E[f·g | x] as `product_coefficients` reads it, summed over the exact law."""
    w = subject.weights()
    v = w[::-1]
    values = subject.on_outputs(subject.channel.coefficients(w))
    other = subject.on_outputs(subject.channel.coefficients(v))
    squares = values**2 @ subject.cell_law.T
    allowed = subject.room(values, values) + 1e-10 * float(np.abs(w).max() ** 2)
    assert np.abs(subject.channel.second_moment(w) - squares).max() <= allowed
    reading = subject.on_outputs(subject.channel.product_coefficients(w, v))
    assert np.abs((reading - values * other) @ subject.cell_law.T).max() <= allowed


def rounding_is_not_understated(subject: Subject) -> None:
    """Between cells a reading is a straight line, and its variance at most what is stated.

    What is stated is the mean of the neighbours' variance and of the most that rounding adds.
    """
    channel, w = subject.channel, subject.weights()
    values = subject.on_outputs(channel.coefficients(w))
    stated = channel.second_moment(w) - w**2 + channel.rounding_excess(w, w)
    allowed = subject.room(values, values) + 1e-10 * float(np.abs(w).max() ** 2)
    for code, law in enumerate(subject.law):
        cell, part = divmod(code, subject.parts)
        share, above = part / subject.parts, min(cell + 1, channel.size - 1)
        line = (1 - share) * w[:, cell] + share * w[:, above]
        mean = values @ law
        assert np.abs(mean - line).max() <= allowed
        variance = values**2 @ law - mean**2
        assert (
            variance <= (1 - share) * stated[:, cell] + share * stated[:, above] + allowed
        ).all()


def spreads_are_the_covariance(subject: Subject) -> None:
    """Bits: the covariance of two readings is the sum over flips, and over the own bit."""
    channel = subject.channel
    w = subject.weights()
    v = w[::-1]
    values = subject.on_outputs(channel.coefficients(w))
    other = subject.on_outputs(channel.coefficients(v))
    covariance = (values * other) @ subject.cell_law.T - w * v
    found = np.sum(channel.flip_spread(w) * channel.flip_spread(v), axis=-1)[:, None]
    for own, own_other in zip(channel.own_spread(w), channel.own_spread(v), strict=True):
        found = found + own * own_other
    allowed = subject.room(values, values) + 1e-10 * float(np.abs(w).max() ** 2)
    assert np.abs(covariance - found).max() <= allowed


def sums_agree_with_coefficients(subject: Subject) -> None:
    """Sums over a profile by transposed readings are those of the coefficients themselves."""
    channel = subject.channel
    rng = np.random.default_rng(5)
    profile = rng.normal(size=(2, channel.layout.features))
    many = subject.weights()
    read = channel.coefficients(many)
    room = subject.room(read, profile)
    if channel.linear:
        gathered = channel.gather(profile)
        assert np.abs(gathered @ many.T - profile @ read.T).max() <= room
        assert np.abs(channel.gather(profile[0]) - gathered[0]).max() <= room
    for rows in (many[:1], many):  # fewer rows than profiles, and more
        each = profile @ channel.coefficients(rows).T
        assert np.abs(channel.sums(profile, rows) - each).max() <= room
    eye = np.eye(channel.size)
    room = subject.room(read, read, profile)
    for w, v in ((many, many), (many, many[::-1]), (many, many[-1]), (eye, eye)):
        each = profile @ channel.product_coefficients(w, v).T
        assert np.abs(channel.products(profile, w, v) - each).max() <= room


def all_cells_and_prefixes_are_read_as_each(subject: Subject) -> None:
    """`all_squares` and `all_peaks` are what rows of weights, written out, have under the law."""
    channel = subject.channel
    people = np.random.default_rng(7).random((2, channel.size))
    features = subject.on_outputs(np.eye(channel.layout.features))
    profile = people @ subject.cell_law @ features.T
    for upto in (False, True):
        rows = np.tri(channel.size) if upto else np.eye(channel.size)
        moments = subject.on_outputs(channel.coefficients(rows)) ** 2 @ subject.cell_law.T
        room = subject.room(moments, people)
        found = channel.all_squares(profile, upto=upto)
        assert np.abs(found - people @ moments.T).max() <= room
        assert np.abs(channel.all_squares(profile[0], upto=upto) - found[0]).max() <= room
        top, at = channel.all_peaks(upto=upto)
        assert np.abs(top - moments.max(axis=1)).max() <= room
        # Where several cells have the largest moment, any of them will do.
        near = moments >= top[:, None] - room
        assert ((rows**2 == at[:, None]) & near).any(axis=1).all()


def means_and_mixtures_are_the_law(subject: Subject) -> None:
    """`expect` and `mix` are the law and its transpose, for one row and for several."""
    channel, law = subject.channel, subject.cell_law
    rng = np.random.default_rng(6)
    table, people = rng.normal(size=(3, law.shape[1])), rng.random((3, law.shape[0]))
    assert np.abs(channel.expect(table) - table @ law.T).max() <= subject.room(table)
    assert np.abs(channel.mix(people) - people @ law).max() <= subject.room(people)
    assert np.abs(channel.expect(table[0]) - table[0] @ law.T).max() <= subject.room(table)
    assert np.abs(channel.mix(people[0]) - people[0] @ law).max() <= subject.room(people)


def reports_are_as_likely_as_the_law(subject: Subject) -> None:
    """Each output's likelihood is its column of the law, up to a factor per report."""
    found = subject.channel.report_likelihood(subject.every_output())
    columns = subject.cell_law.T
    possible = columns.max(axis=1) > 0
    assert found.shape == columns.shape
    scaled = found[possible] / found[possible].max(axis=1, keepdims=True)
    expected = columns[possible] / columns[possible].max(axis=1, keepdims=True)
    assert np.abs(scaled - expected).max() <= 1e-10
    symbols = subject.channel.layout.kind == "symbols"
    other: Any = BitColumns(np.zeros((1, 1), dtype=np.uint64), 1) if symbols else np.zeros(1, int)
    with pytest.raises(TypeError, match="outputs of this channel"):
        subject.channel.report_likelihood(other)


def joined_runs_are_sums(subject: Subject) -> None:
    """The likelihood of a run of symbols is the sum of theirs."""
    channel = subject.channel
    assert isinstance(channel, SymbolChannel)
    starts = channel.joined()
    if starts is None:
        return
    expected = np.add.reduceat(subject.cell_law, starts, axis=1)
    assert np.abs(channel.joined_likelihood(starts) - expected).max() <= 1e-12


# Trials


def scaled(metric: CellMetric, factor: Fraction) -> CellMetric:
    """The same cells with all of E multiplied."""
    if isinstance(metric, UniformMetric):
        return UniformMetric(metric.epsilon * factor, metric.size)
    if isinstance(metric, LineMetric):
        return LineMetric([step * factor for step in metric.steps])
    if isinstance(metric, CappedLineMetric):
        line = LineMetric([step * factor for step in metric.steps])
        return CappedLineMetric(line, metric.cap * factor)
    if isinstance(metric, NormGridMetric):
        cap = None if metric.cap is None else metric.cap * factor
        return replace(metric, steps=tuple(step * factor for step in metric.steps), cap=cap)
    if isinstance(metric, AsideMetric):
        return AsideMetric(scaled(metric.line, factor), metric.aside * factor)
    if isinstance(metric, BlockMetric | HighLowMetric):
        return replace(metric, epsilon=metric.epsilon * factor)
    assert isinstance(metric, TableMetric), "say here how a metric of this kind is scaled"
    infinite = metric.numerators < 0
    numerators = np.where(infinite, -1, metric.numerators * factor.numerator)
    return TableMetric(numerators, metric.denominator * factor.denominator, metric.size)


TRIALS: dict[str, Trial] = {
    f"{kind}-{number}": trial
    for kind in REGISTRY
    for number, trial in enumerate(REGISTRY[kind].trials())
}
#: Older laws, which studies of that time still have.
TRIALS |= {
    f"{kind}-revision-{revision}-{number}": trial
    for kind, revision in OLDER
    for number, trial in enumerate(
        type(choice_from_dict({"kind": kind, "revision": revision})).trials()
    )
}

_FEW = 2


def each(names: Iterable[str] = TRIALS) -> list[Any]:
    """Trials to parametrise a test by; beyond the first two of a channel they are marked slow.

    So `make quick` still tries every channel, and `make test` all trials.

    Args:
        names: The trials; left out, all of them.
    """
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        kind = name.rpartition("-")[0]
        seen[kind] += 1
        found.append(pytest.param(name, marks=pytest.mark.slow if seen[kind] > _FEW else ()))
    return found
