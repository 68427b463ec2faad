"""The poisoning check: reports that no population explains cannot all come from honest clients.

What honest clients can send is known: on average a mixture of the channel's rows, whatever the
population. A tally is compared with all of these mixtures at once, by tests of three kinds:

- single reports, or runs of them such as the levels that devices draw without looking at the value,
  against the least and the most that any cell sends of them (`tails`); for bits, columns, pairs of
  columns and whole reports that are the same;
- the counts of all outputs of a block against the nearest mixture (`reachable`);
- the same for two blocks together, whose noise must be independent given the values.

Guarantee:
    Every test has a p-value that is valid for any fixed population of any size, proved in `tails`
    and `reachable`. The smallest is multiplied by the number of tests (Bonferroni), which is known
    before the tally is looked at. So one check of honest reports gives an alarm with a chance of at
    most `significance`. Whoever checks again as reports come in has that chance each time.

An attack that looks like a population is not found; the result says what hides.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sfumato.arrays import DENSE_CELLS, LANES, BitColumns, Floats
from sfumato.auditing import tails
from sfumato.auditing.reachable import LUMPS, Counts, Reach, alike_share, hidden_weight
from sfumato.auditing.tails import Tail
from sfumato.auditing.verdict import BlindSpot, Check, Tested
from sfumato.channels.base import Channel, SymbolChannel
from sfumato.channels.flips import BitChannel, FlippedCode
from sfumato.checks import is_number
from sfumato.collect.block_sums import BlockSums
from sfumato.collect.statistics import BitReports, SymbolCounts
from sfumato.collect.tally import Tally
from sfumato.collect.term_sums import TermSums
from sfumato.errors import DataError, QuestionError, StudyError, shown
from sfumato.study.blocks import Block

#: The chance of an alarm, at most, if all clients are honest.
SIGNIFICANCE = 0.01

_MOST_ENTRIES = 1 << 22  # of a matrix of cells by outputs
_MOST_OUTPUTS = 1 << 18  # and cells, without a matrix
_MOST_LISTED = 1 << 20  # outputs whose least and most chances are listed by rule
_SHORT = 12  # bits of a report up to which all its patterns are counted
_STEPS, _FEWEST_STEPS = 500, 10  # of EM
_FITS = 6 + 4 * LUMPS, 6  # of one test, of a block by itself and of two
_WORK = 1 << 31  # multiplications of all tests together, roughly
_SAMPLED, _SAMPLED_BITS = 1 << 17, 1 << 25  # reports, and bits of them, that are compared whole
_MOST_SOLVED = 1 << 28  # multiplications to find what hides


def check(tally: Tally, *, significance: float = SIGNIFICANCE) -> Check:
    """Check whether some population explains the reports of a tally.

    Args:
        tally: The tally.
        significance: The chance of an alarm, at most, if all clients are honest.

    Raises:
        DataError: If there are no reports, or reports have weights.
        QuestionError: If the tally keeps sums for named questions only.
    """
    if not isinstance(tally, Tally):
        raise DataError(
            f"the check takes a tally without weights, got {type(tally).__name__}; tally the "
            "reports without weights"
        )
    if not is_number(significance) or not 0 < significance < 1:
        raise StudyError(
            f"significance must be a number between 0 and 1, got significance={shown(significance)}"
        )
    if tally.n == 0:
        raise DataError("the check needs reports, and this tally has none; collect some first")
    found = _Checking(tally)
    tests = [*found.singles(), *found.identical(), *found.pairs()]
    return Check(
        study=tally.study.name,
        fingerprint=tally.study.fingerprint,
        reports=tally.n,
        significance=float(significance),
        tests=tuple(
            Tested(axes=axes, kind=kind, p_value=min(1.0, len(tests) * p), words=words)
            for axes, kind, p, words in tests
        ),
        blind=tuple(part.blind(found.whole) for part in found.parts),
        left_out=tuple(found.left_out),
    )


#: The axes, the kind, the p-value by itself, and what was seen.
_Found = tuple[tuple[str, ...], str, float, str]


@dataclass(eq=False)
class _Part:
    """One block of the study, and its counts.

    Attributes:
        axes: Names of its axes.
        channel: Its channel.
        counts: How often each symbol came, or each bit was set.
        law: Q as a matrix with one column per entry of `counts`; None where it has no room, or the
            counts are those of single bits.
        rates: P(bit is one | cell), where the counts are those of single bits.
    """

    axes: tuple[str, ...]
    channel: Channel
    counts: Counts
    law: Floats | None = None
    rates: Floats | None = None

    @classmethod
    def of(cls, axes: tuple[str, ...], block: Block, counts: Counts, column: Any) -> _Part:
        """The block, with whole patterns in place of few bits where reports are kept."""
        channel, count = block.channel, block.channel.layout.count

        def fits(entries: int) -> bool:
            return channel.size <= DENSE_CELLS and channel.size * entries <= _MOST_ENTRIES

        if not isinstance(channel, BitChannel):
            return cls(axes, channel, counts, law=channel.likelihood() if fits(count) else None)
        if isinstance(column, BitColumns) and count <= _SHORT and fits(1 << count):
            return cls(axes, channel, _patterns(column), law=channel.likelihood())
        return cls(axes, channel, counts, rates=channel.bit_rates() if fits(count) else None)

    @property
    def factor(self) -> Floats | SymbolChannel | None:
        """Q, or the channel in its place; None where neither is to be had."""
        if self.law is not None:
            return self.law
        channel = self.channel
        fits = max(channel.size, len(self.counts)) <= _MOST_OUTPUTS
        return channel if isinstance(channel, SymbolChannel) and fits else None

    @cached_property
    def envelope(self) -> tuple[Floats, Floats] | None:
        """The least and the most chance of each symbol, where the channel has them by rule."""
        channel = self.channel
        if not isinstance(channel, SymbolChannel):
            return None
        if type(channel).envelope is SymbolChannel.envelope or len(self.counts) > _MOST_LISTED:
            return None
        pairs, total = channel.envelope()
        most, least = zip(*((most / total, least / total) for most, least in pairs), strict=True)
        return np.array(least), np.array(most)

    @property
    def independent(self) -> bool:
        """Whether there are rates of bits that are independent given the cell."""
        channel = self.channel
        known = self.rates is not None and isinstance(channel, BitChannel)
        return known and channel.bit_chances(0) is not None  # type: ignore[attr-defined]

    def blind(self, whole: bool) -> BlindSpot:
        """What hides in this block's reports.

        Args:
            whole: Whether the tally keeps reports, so that those that are the same are seen.
        """
        alike = weight = None
        if self.law is not None:
            cells, outputs = self.law.shape
            weight = hidden_weight(self.law)
            if cells * outputs * max(cells, 64) <= _MOST_SOLVED and outputs <= 1 << 12:
                alike = alike_share(self.law)
        elif self.rates is not None:
            weight = hidden_weight(np.concatenate([self.rates, 1 - self.rates], axis=1))
            if whole and self.independent:
                rarest = np.log(np.maximum(self.rates, 1 - self.rates)).sum(axis=1)
                alike = round(math.exp(float(rarest.max())), 12)
        return BlindSpot(axes=self.axes, channel=self.channel.id, alike=alike, weight=weight)


class _Checking:
    """The tests of one tally.

    Args:
        tally: The tally.
    """

    def __init__(self, tally: Tally) -> None:
        study, statistic = tally.study, tally.statistic
        if isinstance(statistic, TermSums):
            raise QuestionError(
                "this tally keeps sums for named questions only, and the check needs all counts of "
                "a block; tally the reports without naming questions"
            )
        self.statistic, self.total = statistic, tally.n
        held = statistic.columns if isinstance(statistic, BitReports) else None
        names = [axis.name for axis in study.axes]
        self.parts = [
            _Part.of(
                tuple(names[axis] for axis in block.axes),
                block,
                counts,
                None if held is None else held[place],
            )
            for place, (block, counts) in enumerate(
                zip(study.blocks, BlockSums.of(statistic).sums, strict=True)
            )
        ]
        self.left_out: list[str] = []
        self.whole = not isinstance(statistic, BlockSums)

    # One block at a time

    def singles(self) -> Iterator[_Found]:
        """The tests of each block by itself."""
        for place, part in enumerate(self.parts):
            if part.law is not None:
                tail = _frequency(part.law, part.counts, self.total)
                yield part.axes, "frequency", tail.p_value, tail.words
            elif part.envelope is not None:
                low, high = part.envelope
                tail = tails.frequencies(part.counts, self.total, low, high, _report)
                yield part.axes, "frequency", tail.p_value, tail.words
            elif part.rates is not None:
                tail = _bits(part, part.rates, self.total)
                yield part.axes, "bits", tail.p_value, tail.words
            if (place,) in self.steps:
                yield self._mixture((place,), part.counts)
            elif part.law is None and part.rates is None:
                how = "by itself" if part.envelope is None else "but for single reports"
                self.left_out.append(
                    f"{', '.join(part.axes)} {how}, as there are too many cells or kinds of reports"
                )

    # All counts against the nearest population

    def _reach(self, places: tuple[int, ...]) -> Reach | None:
        """What populations reach on some blocks; None where that is too large."""
        parts = [self.parts[place] for place in places]
        factors = [factor for part in parts if (factor := part.factor) is not None]
        outputs = math.prod(len(part.counts) for part in parts)
        cells = math.prod(part.channel.size for part in parts)
        if len(factors) < len(parts) or max(outputs, cells) > _MOST_OUTPUTS:
            return None
        return Reach(tuple(factors), tuple(part.channel.size for part in parts))

    @cached_property
    def reaches(self) -> dict[tuple[int, ...], Reach]:
        """Single blocks and pairs of blocks that can be compared."""
        blocks = range(len(self.parts))
        wanted = [*((one,) for one in blocks), *itertools.combinations(blocks, 2)]
        found = {}
        for places in wanted:
            symbols = [self.parts[place].channel.layout.kind == "symbols" for place in places]
            told = len(places) == 1 or (all(symbols) and not isinstance(self.statistic, BlockSums))
            reach = self._reach(places) if told else None
            if reach is not None:
                found[places] = reach
        return found

    @cached_property
    def steps(self) -> dict[tuple[int, ...], int]:
        """How many steps of EM each fit may take, pairs after all single blocks."""
        found: dict[tuple[int, ...], int] = {}
        left = float(_WORK)
        for size in (1, 2):
            # Several rows at once are multiplied faster than one.
            each = _FITS[0] if size == 1 else _FITS[1] / 4
            costs = {p: each * reach.cost for p, reach in self.reaches.items() if len(p) == size}
            steps = int(min(_STEPS, left / max(1.0, sum(costs.values()))))
            if steps >= _FEWEST_STEPS:
                found |= dict.fromkeys(costs, steps)
                left -= steps * sum(costs.values())
        return found

    def _mixture(self, places: tuple[int, ...], counts: Counts) -> _Found:
        evidence = self.reaches[places].evidence(counts, self.steps[places])
        axes = tuple(name for place in places for name in self.parts[place].axes)
        report = " with ".join(_report(place) for place in evidence.place)
        words = (
            f"{report} is the least like the nearest population: it came {evidence.came:,} times "
            f"in {self.total:,} reports, and {evidence.expected:,.6g} times on average there"
        )
        return axes, "mixture", evidence.p_value, words

    def pairs(self) -> Iterator[_Found]:
        """Two blocks together, whose noise is independent given the values."""
        missing = []
        for places in itertools.combinations(range(len(self.parts)), 2):
            if places in self.steps:
                counts = self.statistic.profile(list(places), [None] * len(self.parts))
                yield self._mixture(places, np.rint(counts).astype(np.int64))
            else:
                missing.append(places)
        if missing:
            some = [
                " and ".join(", ".join(self.parts[place].axes) for place in places)
                for places in missing[:3]
            ]
            more = f" and {len(missing) - 3:,} more pairs" if len(missing) > 3 else ""
            self.left_out.append(
                f"how {'; '.join(some)}{more} go together, as the tally keeps sums, some send bits "
                "or there are too many cells"
            )

    # Whole reports

    def identical(self) -> Iterator[_Found]:
        """Whole reports that are the same, over all blocks whose chances can be listed."""
        statistic = self.statistic
        if isinstance(statistic, (BlockSums, TermSums)):
            if any(part.rates is not None for part in self.parts):
                self.left_out.append("reports that are the same, as the tally keeps sums")
            return
        usable = [
            place
            for place, part in enumerate(self.parts)
            if part.law is not None or part.independent
        ]
        if len(usable) < 2 and all(self.parts[place].law is not None for place in usable):
            return  # single reports were counted already
        if isinstance(statistic, SymbolCounts):
            rows = [np.asarray(statistic.symbols[place], dtype=np.int64) for place in usable]
            people = np.asarray(statistic.people, dtype=np.int64)
        else:
            rows, people = self._sampled(statistic, usable)
        keys = np.concatenate([_bytes(row) for row in rows], axis=1)
        _, first, inverse = np.unique(
            np.ascontiguousarray(keys).view(f"V{keys.shape[1]}")[:, 0],
            return_index=True,
            return_inverse=True,
        )
        many = np.zeros(len(first), dtype=np.int64)
        np.add.at(many, inverse.reshape(-1), people)
        often = np.argsort(-many)[:1_000]
        log_most, log_sum = np.zeros(len(often)), 0.0
        for place, row in zip(usable, rows, strict=True):
            most, everything = _log_most(self.parts[place], row[first[often]])
            log_most += most
            log_sum += everything
        total = int(people.sum())
        axes = tuple(name for place in usable for name in self.parts[place].axes)
        tail = tails.identical(many[often], total, log_most, log_sum)
        yield axes, "identical", tail.p_value, tail.words

    def _sampled(self, statistic: BitReports, usable: list[int]) -> tuple[list[Any], Counts]:
        """Reports chosen at random, so that many long ones take bounded time."""
        width = sum(self.parts[place].channel.layout.features for place in usable)
        many = max(2, min(self.total, _SAMPLED, _SAMPLED_BITS // width))
        rng = np.random.Generator(np.random.PCG64(len(self.parts)))
        chosen = np.arange(self.total)
        if many < self.total:
            chosen = np.sort(rng.choice(self.total, many, replace=False))
        rows = [_chosen(statistic.columns[place], chosen) for place in usable]
        return rows, np.ones(len(chosen), dtype=np.int64)


def _frequency(law: Floats, counts: Counts, total: int) -> Tail:
    """Single reports and runs of them against the least and the most of any cell."""
    upto = np.concatenate([np.zeros((len(law), 1)), np.cumsum(law, axis=1)], axis=1)
    before = np.concatenate([[0], np.cumsum(counts)])
    spans = tails.runs(law)
    a, b = np.array(spans, dtype=np.intp).reshape(-1, 2).T
    joined = upto[:, b] - upto[:, a]

    def name(place: int) -> str:
        if place < len(counts):
            return _report(place)
        start, end = spans[place - len(counts)]
        return f"a report from {start:,} to {end - 1:,}"

    return tails.frequencies(
        np.concatenate([counts, before[b] - before[a]]),
        total,
        np.concatenate([law.min(axis=0), joined.min(axis=0)]),
        np.concatenate([law.max(axis=0), joined.max(axis=0)]),
        name,
    )


def _report(place: int) -> str:
    """A kind of report, by its number."""
    return f"report {place:,}"


def _bit(place: int) -> str:
    """A bit that is set, by its number."""
    return f"bit {place:,} as a one"


def _bits(part: _Part, rates: Floats, total: int) -> Tail:
    """Columns of bits by themselves; and together and in pairs, if they are independent."""
    low, high = rates.min(axis=0), rates.max(axis=0)
    found = [tails.frequencies(part.counts, total, low, high, _bit)]
    if part.independent:
        code = part.channel.codes() if isinstance(part.channel, FlippedCode) else None
        found.append(tails.columns(part.counts, total, rates, code))
    least = min(found, key=lambda tail: tail.p_value)
    return Tail(min(1.0, len(found) * least.p_value), least.words)


def _log_most(part: _Part, rows: Any) -> tuple[Floats, float]:
    """The logarithms of max_x P(report | x), and of a bound on their sum over all reports."""
    if part.law is not None:
        most = part.law.max(axis=0)
        places = rows if rows.ndim == 1 else rows @ (1 << np.arange(rows.shape[1]))
        with np.errstate(divide="ignore"):
            return np.log(most[places]), math.log(float(most.sum()))
    assert part.rates is not None  # noqa: S101 - one of both
    with np.errstate(divide="ignore"):
        ones, zeros = np.log(part.rates), np.log1p(-part.rates)
    # Chances of zero are rare, and as good as a very small one.
    ones, zeros = np.maximum(ones, -1e4), np.maximum(zeros, -1e4)
    logs: Floats = rows @ (ones - zeros).T + zeros.sum(axis=1)
    return logs.max(axis=1), math.log(part.channel.size)


def _patterns(column: BitColumns) -> Counts:
    """How often each pattern of a few bits came, read with bit 0 lowest."""
    rows = column.to_rows().astype(np.int64)
    places = rows[:, 0] if rows.shape[1] == 1 else rows[:, 0] + (rows[:, 1] << 8)
    return np.bincount(places, minlength=1 << column.width).astype(np.int64)


def _chosen(column: Any, people: Any) -> Any:
    """The symbols of some people, or their bits, one row each."""
    if not isinstance(column, BitColumns):
        return np.asarray(column)[people].astype(np.int64)
    found = np.empty((len(people), column.width), dtype=np.bool_)
    lanes = (people % LANES).astype(np.uint64)
    for bit, words in enumerate(column.words):
        found[:, bit] = words[people // LANES] >> lanes & np.uint64(1)
    return found


def _bytes(rows: Any) -> Any:
    """Symbols or bits as rows of bytes."""
    return np.packbits(rows, axis=1) if rows.ndim == 2 else rows[:, None].view(np.uint8)
