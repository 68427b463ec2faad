"""Driving `encode` with scripted words: it must output what the steps of its channel say.

`Channel.steps` lists the draws of a report, with the tables from which the law is derived. Here the
words on both sides of every boundary of these tables are put in place of random ones, and what
`encode` makes of them is compared with the steps. No sample would find a single word in 2^64 that
goes elsewhere.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import LANES, BitColumns
from sfumato.auditing.paths import Path, run
from sfumato.channels.base import Channel
from sfumato.channels.flips import WORDS_AT_ONCE
from sfumato.randomness.bits import Words
from sfumato.randomness.draws import Draw, Flips, Pick

Driven = Literal["every boundary", "selected boundaries", "not driven"]

_MOST_WORK = 1 << 20  # reports per channel; one that flips many bits counts for more
_BITS_OF_ONE = 4  # bits whose flips take as long as another draw
_MOST_OUTCOMES = 1 << 12  # of one draw, up to which all its boundaries are tried
_AT_ONCE = 1 << 16  # people in one call of `encode`: no more than the chunks in which it works
_ALONE = 1 << 15  # reports to each one that is also made with one person alone, as devices do
_PATTERNS = 24  # of numbers for flips, tried at every cell
_ENDS = 32  # outcomes at either end of a large draw, and around the cell's own, that are tried
_CHEAP = 1 << 8  # boundaries are tried again until this part of the work is done, or …
_MOST_TIMES = 16  # … this often
_LEAD_BITS = 16  # the leading bits of a word that samplers look up first
_SEED = 13

#: What one report tries: in which draw, at which outcome (counted from the person's cell if it is
#: relative), whether its first number or the one below; or some number with these leading bits,
#: where `first` says that all other draws have their first outcome, and none at random.
_TARGET = np.dtype(
    [
        ("draw", "i8"),
        ("outcome", "i8"),
        ("relative", "?"),
        ("below", "u8"),
        ("lead", "i8"),
        ("first", "?"),
    ]
)


@dataclass(slots=True)
class Drive:
    """What driving `encode` found.

    Attributes:
        reports: Reports that `encode` made of scripted words.
        method: Which boundaries were tried.
        problems: What is wrong, in words.
    """

    reports: int = 0
    method: Driven = "not driven"
    problems: list[str] = field(default_factory=list)


class EncodeError(Exception):
    """`encode` does not make reports of scripted words; the message says why."""


class OtherWordsError(EncodeError):
    """`encode` asked for other random words than those foreseen."""

    def __init__(self) -> None:
        super().__init__("encode asks for other random words than its steps list")


class Script:
    """A source of given words.

    Args:
        requests: The words of each request.
    """

    secure = False

    def __init__(self, requests: Sequence[Words]) -> None:
        self._requests = iter(requests)

    def words(self, count: int) -> Words:
        """The words of the next request, if it asks for this many."""
        found = next(self._requests, None)
        if found is None or len(found) != count:
            raise OtherWordsError
        return found.copy()

    def end(self) -> None:
        """Refuse to leave words over."""
        if next(self._requests, None) is not None:
            raise OtherWordsError


def outputs_of(channel: Channel, cells: NDArray[np.int64], script: Script) -> NDArray[Any]:
    """What `encode` makes of scripted words: a symbol per person, or a row of bits.

    Args:
        channel: What is driven.
        cells: One per person.
        script: The words, all of which must be used.

    Raises:
        EncodeError: If there are no such reports.
    """
    try:
        outputs = channel.encode(cells, script)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise EncodeError(f"encode fails on scripted words ({type(error).__name__})") from error
    script.end()
    made = outputs.to_matrix() if isinstance(outputs, BitColumns) else np.asarray(outputs)
    count, bits = channel.layout.count, channel.layout.kind == "bits"
    if made.shape != ((len(cells), count) if bits else (len(cells),)):
        raise EncodeError(f"encode outputs an array of shape {made.shape} for {len(cells)} people")
    if not bits and np.any((made < 0) | (made >= count)):
        raise EncodeError(f"encode outputs symbols other than 0..{count - 1}")
    return made


def drive(channel: Channel, paths: Sequence[Path]) -> Drive:
    """Drive `encode` on both sides of the boundaries of its tables.

    With many cells or outcomes, all boundaries are tried at the first and last cells and at some
    others, and two boundaries at as many more cells as there is time for.

    Args:
        channel: What is driven.
        paths: The paths of its reports.
    """
    found = Drive(method="every boundary")
    rng = np.random.default_rng(_SEED)
    for path in paths:
        budget = _MOST_WORK // len(paths) // (1 + path.flips // _BITS_OF_ONE)
        driver = _Driver(channel, path, 1 + min(budget // _ALONE, 7), rng, found)
        targets = _targets(path, rng)
        few = max(4, budget // len(targets))
        codes = _codes(channel, few, rng, path.cells)
        # Each boundary is tried with several choices of the other draws, more where that is cheap.
        times = max(1, min(budget // _CHEAP // (len(codes) * len(targets)), _MOST_TIMES))
        cells = [np.repeat(codes, len(targets) * times)]
        tries = [np.tile(targets, len(codes) * times)]
        if found.reports <= _MOST_WORK:
            # At one end or the other every outcome shows; the last cell may lie aside from a line.
            for code in np.unique(np.unique(codes)[[0, -2 if len(codes) > 1 else 0, -1]]):
                tries.append(_leads(path))
                cells.append(np.full(len(tries[-1]), code))
        if len(codes) == few or any(_tried(draw) < draw.outcomes for draw in path.draws):
            found.method = "selected boundaries"
            more = _codes(channel, max(4, budget // 4), rng, path.cells)
            cells.append(np.repeat(more, 2))
            tries.append(targets[rng.integers(len(targets), size=len(cells[-1]))])
        driver.make(np.concatenate(cells), np.concatenate(tries))
    return found


def _tried(draw: Draw) -> int:
    """How many outcomes are tried; of flips all, by patterns of numbers for all bits together."""
    return draw.outcomes if isinstance(draw, Flips) else min(draw.outcomes, _MOST_OUTCOMES)


def _targets(path: Path, rng: np.random.Generator) -> NDArray[Any]:
    """What is tried at every cell: both sides of the boundaries of every draw, one at a time."""
    parts = []
    for place, draw in enumerate(path.draws):
        if draw.branches:  # all numbers of a path have the same outcome
            outcomes = np.zeros(1, dtype=np.int64)
        elif isinstance(draw, Flips):
            outcomes = np.arange(_PATTERNS // 2)
        else:
            outcomes = np.arange(_tried(draw))
        relative = np.zeros(len(outcomes), dtype=np.bool_)
        if _tried(draw) < draw.outcomes:
            near = np.arange(-_ENDS, _ENDS)
            some = rng.integers(draw.outcomes, size=_MOST_OUTCOMES)
            outcomes = np.concatenate([some, near % draw.outcomes, near])
            relative = np.arange(len(outcomes)) >= len(outcomes) - len(near)
        part = np.empty(2 * len(outcomes), dtype=_TARGET)
        part["draw"], part["outcome"] = place, np.repeat(outcomes, 2)
        part["relative"], part["below"] = np.repeat(relative, 2), np.arange(len(part)) % 2
        part["lead"], part["first"] = -1, False
        parts.append(part)
    return np.concatenate(parts) if parts else np.zeros(1, dtype=_TARGET)


def _leads(path: Path) -> NDArray[Any]:
    """All leading bits of the words of every table: samplers look these up before they search."""
    branches = iter(path.branches)
    parts = [np.zeros(0, dtype=_TARGET)]
    for place, draw in enumerate(path.draws):
        if not isinstance(draw, Pick):
            continue
        lead = np.arange(1 << min(draw.bits, _LEAD_BITS))
        if draw.branches:
            unread = np.uint64(draw.bits - min(draw.bits, _LEAD_BITS))
            lead = lead[draw.outcome(lead.astype(np.uint64) << unread) == next(branches)]
        part = np.zeros(len(lead), dtype=_TARGET)
        part["draw"], part["lead"] = place, lead
        parts.append(part)
    swept = np.concatenate(parts)
    if sum(not draw.branches for draw in path.draws) < 2:
        return swept
    again = swept.copy()  # another draw may hide this one, but seldom by its first outcome
    again["first"] = True
    return np.concatenate([swept, again])


def _codes(
    channel: Channel,
    most: int,
    rng: np.random.Generator,
    cells: NDArray[np.intp] | None = None,
) -> NDArray[np.int64]:
    """Cells, and places between them where values are rounded: all, or some with both ends."""
    if cells is not None:
        few = len(cells) < most
        chosen: NDArray[np.int64] = cells if few else rng.choice(cells, most)
        return chosen << channel.resolution
    places = 1 << channel.resolution
    parts = np.unique([0, 1 % places, places // 2, places - 1])
    count = (channel.size - 1) * len(parts) + 1
    if count < most:
        at = np.arange(count)
    else:
        ends = min(most, 2 * _ENDS) // 4
        at = np.concatenate(
            [np.arange(-ends, ends) % count, rng.integers(count, size=most - 2 * ends)]
        )
    codes: NDArray[np.int64] = at // len(parts) * places + parts[at % len(parts)]
    return codes


@dataclass(frozen=True, slots=True)
class _Driver:
    """Makes reports that take one path.

    Attributes:
        channel: What is driven.
        path: The branches that are taken.
        alone: How many reports are also made one person at a time, as devices do.
        rng: Chooses what is tried together.
        found: What is found is added here.
    """

    channel: Channel
    path: Path
    alone: int
    rng: np.random.Generator
    found: Drive

    def make(self, cells: NDArray[np.int64], targets: NDArray[Any]) -> None:
        """Make one report per person, many at once, and some of them one by one.

        Args:
            cells: One per person.
            targets: What each person's words try.
        """
        at_once = _AT_ONCE
        if self.path.flips:
            words = max(1, min(WORDS_AT_ONCE // self.path.flips, _AT_ONCE // LANES))
            at_once = words * (LANES - 1)
        parts = [slice(start, start + at_once) for start in range(0, len(cells), at_once)]
        alone = self.rng.integers(len(cells), size=self.alone).tolist()
        for part in [*parts, *(slice(person, person + 1) for person in alone)]:
            if self.found.problems:
                return
            people = np.arange(len(cells))[part]
            if self.path.flips:  # the last person of every full word keeps its lanes open
                full = np.arange(LANES - 1, len(people) + 1, LANES - 1)
                people = np.insert(people, full, people[full - 1])
            self.found.reports += len(people)
            self._compare(cells[people], targets[people])

    def _compare(self, cells: NDArray[np.int64], targets: NDArray[Any]) -> None:
        """What `encode` makes of scripted words must be what the steps say."""
        requests: list[Words] = []
        places, branches = itertools.count(), iter(self.path.branches)

        def follow(draw: Draw) -> Any:
            mine = targets["draw"] == next(places)
            branch = next(branches) if draw.branches else None
            numbers = self._numbers(draw, branch, cells, targets, mine)
            requests.extend(draw.spell(numbers))
            return draw.outcome(numbers) if branch is None else branch

        wanted = run(self.channel.steps(cells), follow)
        try:
            made = outputs_of(self.channel, cells, Script(requests))
        except EncodeError as error:
            self.found.problems.append(str(error))
            return
        if np.shape(wanted) != made.shape:
            self.found.problems.append("the steps of the channel do not return one output each")
            return
        wrong = (made != wanted).reshape(len(cells), -1).any(axis=1)
        if wrong.any():
            cell = int(cells[wrong.argmax()]) >> self.channel.resolution
            self.found.problems.append(
                "encode outputs something else than its law says, given scripted words: "
                f"{wrong.sum():,} of {len(cells):,} reports, one from cell {cell}"
            )

    def _numbers(
        self,
        draw: Draw,
        branch: int | None,
        cells: NDArray[np.int64],
        targets: NDArray[Any],
        mine: NDArray[np.bool_],
    ) -> Words:
        """Numbers for one draw: on the wanted side of a boundary, for others on a random one."""
        last = np.uint64((1 << draw.bits) - 1)
        if isinstance(draw, Flips):
            return self._flip_numbers(draw, targets, mine)
        some = self.rng.integers(draw.outcomes, size=len(cells))
        unread = draw.bits - min(draw.bits, _LEAD_BITS)
        swept = mine & (targets["lead"] >= 0)
        lead = np.where(swept, targets["lead"], 0).astype(np.uint64) << np.uint64(unread)
        lead |= self.rng.integers(0, 1 << unread, size=len(cells), dtype=np.uint64)
        below = np.where(mine, targets["below"], self.rng.integers(2, size=len(cells)))
        first = targets["first"] & ~mine
        some, below = np.where(first, 0, some), np.where(first, 0, below).astype(np.uint64)
        if branch is not None:  # the first number of the branch, or the last
            numbers = (draw.first(branch + below.astype(np.int64)) - below) & last
            return np.where(swept & (draw.outcome(lead) == branch), lead, numbers)
        own = np.where(targets["relative"], cells >> self.channel.resolution, 0)
        wanted = np.clip(targets["outcome"] + own, 0, draw.outcomes - 1)
        numbers = (draw.first(np.where(mine, wanted, some)) - below) & last
        return np.where(swept, lead, numbers)

    def _flip_numbers(self, draw: Flips, targets: NDArray[Any], mine: NDArray[np.bool_]) -> Words:
        """Numbers at the chance of every bit and below it, in patterns over all bits."""
        last = np.uint64((1 << draw.bits) - 1)
        shape = (len(targets), len(draw.chances))
        any_number = self.rng.integers(0, 1 << 64, size=shape, dtype=np.uint64) & last
        ends = np.array([0, last], dtype=np.uint64)[self.rng.integers(2, size=shape)]
        below = self.rng.integers(2, size=shape)
        which = self.rng.integers(4, size=shape)
        # Patterns 0 to 3: all bits at their chances, all below, and every other one below.
        pattern = np.where(mine, 2 * targets["outcome"] + targets["below"], _PATTERNS)[:, None]
        columns = np.arange(shape[1])
        below = np.select(
            [pattern == 0, pattern == 1, pattern == 2, pattern == 3],
            [0, 1, columns % 2, 1 - columns % 2],
            below,
        )
        at = (draw.chances - below.astype(np.uint64)) & last
        found: Words = np.where(
            (pattern > 3) & (which > 1), np.where(which > 2, ends, any_number), at
        )
        found[LANES - 1 :: LANES] = draw.chances
        return found
