"""The statistical audit: reports that `encode` draws at random, compared with the law and with E.

It runs what devices run, for channels of any size, but it is no proof: a sample shows frequent
faults only. Every comparison is exact for its number of reports (binomial tails, and the bounds of
Clopper and Pearson), and all of them together reject a sound study with a stated chance at most
(Bonferroni). All events are chosen from the law, before anything is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import LANES, BitColumns, Floats
from sfumato.channels.base import Channel
from sfumato.channels.flips import BitChannel
from sfumato.errors import StudyError, TooLargeError
from sfumato.metrics.cells import CellMetric
from sfumato.randomness.bits import BitSource

SIGNIFICANCE = 1e-6
FEWEST, MOST = 1_000, 10**9

_CELLS, _FEW_CELLS = 8, 4  # from which reports are drawn: few where there are many outputs
_MANY_OUTPUTS = 1 << 18
_SEED = 13  # of the cells chosen at random; reports are drawn from the source that is given
_AT_ONCE = 1 << 17  # reports
_MOST_EVENTS = 1 << 12  # single outputs; if there are more, groups of neighbours
_QUANTILES = np.arange(1, 64) / 64
_SHARES = np.array([0.25, 0.5, 0.75, 1.0])  # of E: the outputs whose odds are at least this
_SHORT = 12  # bits of a report up to which all its patterns are counted
_MOST_BITS = 1 << 30  # drawn from one cell
_MOST_WEIGHED = 1 << 24  # entries of the likelihoods of reports from one cell
_WEIGHED_AT_ONCE = 1 << 20
_TRUSTED = 1e-12  # to which chances are known as doubles: transforms of large laws round

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleAudit:
    """What reports drawn at random showed of one axis.

    Args:
        reports: How many reports were drawn, equally many from each cell.
        cells: Labels of the cells: the pair that spends most, the ends, neighbours, and others.
        comparisons: How many frequencies and odds were compared.
        significance: The chance with which a sound study fails any comparison, at most.
        least_p: The smallest p-value of a frequency, times the number of comparisons, at most 1.
        spent_at_least: A lower confidence bound of the share of E that some pair spends.
        between: Labels of that pair; None if no pair has a finite E.
        resolution: A probability that differs from the law by less than this may go unseen.
        problems: What is wrong, in words.
    """

    reports: int
    cells: tuple[str, ...]
    comparisons: int
    significance: float
    least_p: float
    spent_at_least: float
    between: tuple[str, str] | None
    resolution: float
    problems: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.reports:
            return "no reports were drawn: the law of this channel is too large to be listed."
        words = (
            f"{self.reports:,} reports drawn at random from {len(self.cells)} cells "
            f"{'DISAGREE' if self.problems else 'agree'} with the law and with E in "
            f"{self.comparisons:,} comparisons (significance {self.significance:.1g} for all of "
            "them together)"
        )
        if self.between is not None:
            words += (
                f"; {' and '.join(self.between)} were told apart by at least "
                f"{self.spent_at_least:.2%} of E"
            )
        return (
            f"{words}. A sample is no proof: a probability that is off by less than about "
            f"{self.resolution:.1g} may go unseen."
        )


def checked_sample(sample: Any) -> int:
    """A number of reports to draw, refused if it is none."""
    whole = isinstance(sample, (int, np.integer)) and not isinstance(sample, bool)
    if not whole or not FEWEST <= sample <= MOST:
        raise StudyError(
            f"sample must be a whole number of reports from {FEWEST:,} to {MOST:,}, got "
            f"sample={sample!r}"
        )
    return int(sample)


def sample_audit(
    channel: Channel,
    metric: CellMetric,
    *,
    pair: tuple[int, int] | None,
    sample: int,
    bits: BitSource,
    significance: float,
    label: Callable[[int], str],
) -> SampleAudit:
    """Draw reports from some cells, and compare them with the law of the channel and with E.

    Args:
        channel: Its `encode` draws the reports.
        metric: E between cells, which is not taken from the channel itself.
        pair: The two cells that the exact check found to spend most of their E.
        sample: How many reports to draw.
        bits: Where randomness comes from.
        significance: The chance with which all comparisons together may reject a sound channel.
        label: Names a cell.
    """
    cells = _chosen(channel, pair)
    codes = [cell << channel.resolution for cell in cells]
    if channel.resolution:  # a value between two grid points must be rounded to either
        half = 1 << channel.resolution >> 1
        codes.append((min(cells[0], channel.size - 2) << channel.resolution) + half)
    e = np.array([[metric.between(a, b) if a != b else math.inf for b in cells] for a in cells])
    found = _Findings([label(code >> channel.resolution) for code in codes])
    drawing = _drawing(channel, codes, e, sample // len(codes))
    if drawing is not None:
        found.problems += drawing.draw(bits)
    if drawing is not None and not found.problems:
        frequencies, odds = list(drawing.frequencies()), list(drawing.odds())
        found.comparisons = sum(counts.size for _, counts, _ in frequencies)
        found.comparisons += sum(more.size for _, more, _, _ in odds)
        level = significance / max(1, found.comparisons)
        for place, counts, chances in frequencies:
            found.frequencies(place, counts, chances, drawing.each, level)
        for ends, more, less, total in odds:
            found.odds(ends, more, less, total, float(e[ends]), level)
        found.resolution = _resolution(drawing.each, level)
    return SampleAudit(
        reports=0 if drawing is None else drawing.each * len(codes),
        cells=tuple(found.labels[: len(cells)]),
        comparisons=found.comparisons,
        significance=significance,
        least_p=found.least_p,
        spent_at_least=found.spent,
        between=found.between,
        resolution=found.resolution,
        problems=tuple(found.problems),
    )


def _chosen(channel: Channel, pair: tuple[int, int] | None) -> list[int]:
    """Cells to draw from: the pair, the ends, neighbours of the pair, others; always the same."""
    size, outputs = channel.size, channel.layout.features
    first, second = pair or (0, size - 1)
    near = [first - 1, first + 1, second - 1, second + 1]
    others = np.random.Generator(np.random.PCG64(_SEED)).integers(0, size, 4 * _CELLS).tolist()
    wanted = [first, second, 0, size - 1, *near, *others]
    most = _CELLS if outputs <= _MANY_OUTPUTS else _FEW_CELLS
    return list(dict.fromkeys(cell for cell in wanted if 0 <= cell < size))[:most]


def _resolution(reports: int, level: float) -> float:
    """A difference in a probability near ½ that half of all samples would show."""
    from scipy import special

    return float(-special.ndtri(level / 2) / 2 / math.sqrt(reports))


@dataclass(slots=True)
class _Findings:
    """What comparisons have found so far, about codes with these labels."""

    labels: list[str]
    comparisons: int = 0
    least_p: float = 1.0
    spent: float = 0.0
    between: tuple[str, str] | None = None
    resolution: float = 1.0
    problems: list[str] = field(default_factory=list)

    def frequencies(
        self, place: int, counts: Counts, chances: Floats, total: int, level: float
    ) -> None:
        """Compare how often events were seen with their chances, by exact binomial tails.

        P(X >= k) is taken at the largest chance that rounding allows, P(X <= k) at the smallest.
        """
        from scipy import special

        k = counts.astype(np.float64)
        low, high = np.clip(chances - _TRUSTED, 0, 1), np.clip(chances + _TRUSTED, 0, 1)
        many = np.where(k > 0, special.betainc(np.maximum(k, 1), total - k + 1, high), 1.0)
        few = np.where(k < total, special.betaincc(k + 1, np.maximum(total - k, 1), low), 1.0)
        tails = 2 * np.minimum(many, few)
        worst = int(np.argmin(tails))
        self.least_p = min(self.least_p, float(tails[worst]) * self.comparisons)
        if tails[worst] < level:
            self.problems.append(
                f"from {self.labels[place]}, encode drew an event {int(counts[worst]):,} times in "
                f"{total:,} reports whose probability is {chances[worst]:.6g} by the law"
            )

    def odds(
        self,
        ends: tuple[int, int],
        more: Counts,
        less: Counts,
        total: int,
        e: float,
        level: float,
    ) -> None:
        """Bound log odds of events from below, and compare them with E."""
        low, high = _least(more, total, level / 2), 1 - _least(total - less, total, level / 2)
        with np.errstate(divide="ignore"):
            least = float(np.max(np.log(low) - np.log(high), initial=0.0))
        pair = self.labels[ends[0]], self.labels[ends[1]]
        if least / e > self.spent or self.between is None:
            self.spent, self.between = least / e, pair
        if least > e:
            self.problems.append(
                f"the log odds of {pair[0]} against {pair[1]} are at least {least:.6g} in the "
                f"reports drawn, more than their E of {e:.6g}"
            )


def _least(counts: Counts, total: int, level: float) -> Floats:
    """The lower bound of Clopper and Pearson for the chance of what was counted."""
    from scipy import special

    seen, place = np.unique(counts, return_inverse=True)
    k = np.maximum(seen, 1)
    bound: Floats = np.where(seen > 0, special.betaincinv(k, total - k + 1, level), 0.0)
    return bound[place]


# What is drawn and counted.

#: Codes by place, how often events were seen from there, and their chances.
_Frequencies = Iterator[tuple[int, Counts, Floats]]
#: Two cells by place, how often events were seen from either, and in how many reports.
_Odds = Iterator[tuple[tuple[int, int], Counts, Counts, int]]


class _Drawing:
    """Reports drawn from some codes: cells first, then any value between two of them.

    Args:
        channel: What draws them.
        codes: What to draw from.
        e: E between the cells, infinite from a cell to itself.
        each: Reports to draw from each code.
    """

    def __init__(self, channel: Channel, codes: Sequence[int], e: Floats, each: int) -> None:
        self.channel, self.codes, self.each = channel, codes, each
        ends = zip(*np.nonzero(np.isfinite(e)), strict=True)
        self.pairs = {(int(a), int(b)): float(e[a, b]) for a, b in ends}

    def parts(self, bits: BitSource) -> Iterator[tuple[int, Any]]:
        """The outputs that `encode` draws, some at a time, each with the place of its code."""
        for place, code in enumerate(self.codes):
            for start in range(0, self.each, _AT_ONCE):
                people = np.full(min(_AT_ONCE, self.each - start), code, dtype=np.int64)
                yield place, self.channel.encode(people, bits)

    def by_code(self, of_cell: Callable[[int], Floats]) -> Floats:
        """What is known of cells, for every code: between two cells, their mean by nearness."""
        one = 1 << self.channel.resolution
        rows = []
        for cell, rest in (divmod(code, one) for code in self.codes):
            row = of_cell(cell)
            rows.append(row if not rest else row + rest / one * (of_cell(cell + 1) - row))
        return np.array(rows)


class _Symbols(_Drawing):
    """Outputs few enough to be counted one by one: symbols, or patterns of a few bits."""

    def __init__(self, channel: Channel, codes: Sequence[int], e: Floats, each: int) -> None:
        super().__init__(channel, codes, e, each)
        laws = self.by_code(self._law)
        self.laws = np.maximum(laws, 0.0)
        self.counts = np.zeros(laws.shape, dtype=np.int64)

    def _law(self, cell: int) -> Floats:
        """The law of outputs at one cell."""
        if self.channel.layout.kind == "bits":
            row: Floats = self.channel.likelihood()[cell]
            return row
        one = np.zeros(self.channel.size)
        one[cell] = 1.0
        return self.channel.mix(one)

    def draw(self, bits: BitSource) -> Iterator[str]:
        """Draw and count all reports; say if some are no reports at all."""
        outputs = self.laws.shape[1]
        for place, part in self.parts(bits):
            symbols = part
            if isinstance(part, BitColumns):
                symbols = part.to_matrix() @ (1 << np.arange(part.width))
            symbols = np.asarray(symbols, dtype=np.int64)
            if symbols.min() < 0 or symbols.max() >= outputs:
                yield "encode drew outputs that the channel does not have"
                return
            self.counts[place] += np.bincount(symbols, minlength=outputs)

    def frequencies(self) -> _Frequencies:
        """Single outputs, outputs up to each quantile, and the outputs that tell most."""
        for place, (law, counts) in enumerate(zip(self.laws, self.counts, strict=True)):
            upto = np.cumsum(law)
            ends = np.searchsorted(upto, _QUANTILES).clip(0, len(law) - 1)
            seen = np.concatenate([_grouped(counts), np.cumsum(counts)[ends]])
            yield place, seen, np.concatenate([_grouped(law), upto[ends]])
        for ends_, chances, seen in self._telling:
            for place, row, chance in zip(ends_, seen, chances, strict=True):
                yield place, row, chance

    def odds(self) -> _Odds:
        """Single outputs, and the outputs that tell most."""
        for a, b in self.pairs:
            yield (a, b), _grouped(self.counts[a]), _grouped(self.counts[b]), self.each
        for ends, _, seen in self._telling:
            yield ends, seen[0], seen[1], self.each

    @cached_property
    def _telling(self) -> list[tuple[tuple[int, int], Floats, Counts]]:
        """For each pair, chances and counts of the outputs whose odds are at least shares of E."""
        with np.errstate(divide="ignore"):
            logs = np.log(self.laws)
        found = []
        for (a, b), e in self.pairs.items():
            reached = _reached(logs[a], logs[b], e)
            chances = [_at_least(reached, self.laws[place]) for place in (a, b)]
            counts = [_at_least(reached, self.counts[place]) for place in (a, b)]
            found.append(((a, b), np.array(chances), np.array(counts).astype(np.int64)))
        return found


class _Bits(_Drawing):
    """Reports of many bits: single bits and neighbouring bits are counted."""

    channel: BitChannel

    def __init__(self, channel: BitChannel, codes: Sequence[int], e: Floats, each: int) -> None:
        width = channel.width
        super().__init__(channel, codes, e, max(1, min(each, _MOST_BITS // width)))
        self.cells = [code >> channel.resolution for code in codes[: len(e)]]
        longest = max(width, channel.size)
        self.weighed = min(self.each, max(1, _MOST_WEIGHED // longest))
        self.at_once = max(LANES, _WEIGHED_AT_ONCE // longest // LANES * LANES)
        self.counts = np.zeros((len(codes), 2 * width - 1), dtype=np.int64)
        self.telling = np.zeros((len(codes), len(self.pairs), len(_SHARES)), dtype=np.int64)

    def draw(self, bits: BitSource) -> Iterator[str]:
        """Draw and count all reports; say if some are no reports at all."""
        left = [self.weighed] * len(self.codes)
        for place, part in self.parts(bits):
            if not isinstance(part, BitColumns) or part.width != self.channel.width:
                yield "encode drew outputs that the channel does not have"
                return
            words = np.concatenate([part.words, part.words[1:] ^ part.words[:-1]])
            self.counts[place] += np.bitwise_count(words).sum(axis=1, dtype=np.int64)
            if left[place] and self.pairs:
                self._weigh(place, part[: left[place]])
                left[place] -= min(left[place], len(part))

    def _weigh(self, place: int, part: BitColumns) -> None:
        """Count, for each pair, the reports whose odds are at least shares of E."""
        for start in range(0, len(part), self.at_once):
            some = part[start : start + self.at_once]
            with np.errstate(divide="ignore"):
                logs = np.log(self.channel.report_likelihood(some)[:, self.cells].T)
            for number, ((a, b), e) in enumerate(self.pairs.items()):
                told = _at_least(_reached(logs[a], logs[b], e), np.ones(len(some)))
                self.telling[place, number] += told.astype(np.int64)

    def frequencies(self) -> _Frequencies:
        """Bits that are one, and neighbours that differ."""
        if self.channel.bit_chances(0) is None:
            return
        for place, chances in enumerate(self.by_code(self._chances)):
            yield place, self.counts[place], chances

    def _chances(self, cell: int) -> Floats:
        """How likely each bit is one, and each differs from the next, at one cell."""
        one = self.channel.bit_chances(cell)
        assert one is not None  # noqa: S101 - asked before
        return np.concatenate([one, one[1:] + one[:-1] - 2 * one[1:] * one[:-1]])

    def odds(self) -> _Odds:
        """Bits that are one or zero, and the reports that tell most."""
        ones = self.counts[:, : self.channel.width]
        for number, (a, b) in enumerate(self.pairs):
            yield (a, b), ones[a], ones[b], self.each
            yield (a, b), self.each - ones[a], self.each - ones[b], self.each
            yield (a, b), self.telling[a, number], self.telling[b, number], self.weighed


def _drawing(channel: Channel, codes: Sequence[int], e: Floats, each: int) -> Any:
    """How the reports of a channel are drawn and counted; None if its law cannot be listed."""
    if isinstance(channel, BitChannel) and channel.width > _SHORT:
        return _Bits(channel, codes, e, each)
    try:
        return _Symbols(channel, codes, e, each)
    except TooLargeError:
        return None


def _grouped(values: NDArray[Any]) -> NDArray[Any]:
    """Sums over groups of neighbouring outputs; of one output each where they are few."""
    groups = min(len(values), _MOST_EVENTS)
    return np.add.reduceat(values, np.arange(groups) * len(values) // groups)


def _reached(more: Floats, less: Floats, e: float) -> NDArray[np.intp]:
    """How many of the shares of E the log odds of each output reach."""
    with np.errstate(invalid="ignore"):
        gap = more - less
    gap[np.isnan(gap)] = -math.inf  # impossible at both
    return np.searchsorted(_SHARES * e * (1 - 1e-6), gap, side="right")


def _at_least(reached: NDArray[np.intp], values: NDArray[Any]) -> Floats:
    """Sums of values over the outputs that reach each share of E."""
    sums = np.bincount(reached, weights=values, minlength=len(_SHARES) + 1)
    return sums[::-1].cumsum()[::-1][1:]
