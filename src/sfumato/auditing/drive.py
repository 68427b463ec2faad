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
from sfumato.auditing.paths import Path, paths_of, run
from sfumato.channels.base import Channel
from sfumato.channels.flips import WORDS_AT_ONCE
from sfumato.randomness.bits import Words
from sfumato.randomness.draws import Draw, Flips

Driven = Literal["every boundary", "selected boundaries", "not driven"]

_MOST_REPORTS = 1 << 19  # per channel
_MOST_OUTCOMES = 1 << 12  # of one draw, up to which all its boundaries are tried
_AT_ONCE = 1 << 15  # people in one call of `encode`: below the chunks in which it works
_ALONE = 8  # reports of each path that are also made one person at a time, as devices do
_PATTERNS = 24  # of numbers for flips, tried at every cell
_ENDS = 32  # outcomes at either end of a large draw, and around the cell's own, that are tried
_CHEAP = 1 << 12  # reports
_MOST_TIMES = 16
_SEED = 13

#: Which draw, which outcome (counted from the person's cell if it is relative), and whether the
#: first number of the outcome is meant or the one below.
_TARGET = np.dtype([("draw", "i8"), ("outcome", "i8"), ("relative", "?"), ("below", "u8")])


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


class _OtherWordsError(Exception):
    """A sampler asked for other words than its steps do."""


class _Script:
    """A source of given words, request by request."""

    secure = False

    def __init__(self, requests: Sequence[Words]) -> None:
        self._requests = iter(requests)

    def words(self, count: int) -> Words:
        """The next words, if this many were foreseen."""
        found = next(self._requests, None)
        if found is None or len(found) != count:
            raise _OtherWordsError
        return found.copy()

    def end(self) -> None:
        """All words must have been asked for."""
        if next(self._requests, None) is not None:
            raise _OtherWordsError


def drive(channel: Channel) -> Drive:
    """Drive `encode` on both sides of the boundaries of its tables.

    With many cells or outcomes, all boundaries are tried at the first and last cells and at some
    others, and two boundaries at as many more cells as there is time for.
    """
    if channel.steps(np.zeros(1, dtype=np.int64)) is None:
        return Drive()
    found = Drive(method="every boundary")
    rng = np.random.default_rng(_SEED)
    paths = list(paths_of(channel.steps))
    budget = _MOST_REPORTS // len(paths)
    for path in paths:
        driver = _Driver(channel, path, rng, found)
        targets = _targets(path, rng)
        few = max(4, budget // len(targets))
        codes = _codes(channel, few, rng)
        # Each boundary is tried with several choices of the other draws, more where that is cheap.
        times = min(max(1, _CHEAP // (len(codes) * len(targets))), _MOST_TIMES)
        driver.make(np.repeat(codes, len(targets) * times), np.tile(targets, len(codes) * times))
        if len(codes) == few or any(_tried(draw) < draw.outcomes for draw in path.draws):
            found.method = "selected boundaries"
            more = np.repeat(_codes(channel, budget // 4, rng), 2)
            driver.make(more, targets[rng.integers(len(targets), size=len(more))])
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
        parts.append(part)
    return np.concatenate(parts) if parts else np.zeros(1, dtype=_TARGET)


def _codes(channel: Channel, most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Cells, and places between them where values are rounded: all, or some with both ends."""
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
        rng: Chooses what is tried together.
        found: What is found is added here.
    """

    channel: Channel
    path: Path
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
        alone = self.rng.integers(len(cells), size=_ALONE).tolist()
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
        script = _Script(requests)
        try:
            outputs = self.channel.encode(cells, script)
            script.end()
        except _OtherWordsError:
            problem = "encode asks for other random words than its steps list"
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            problem = f"encode fails on scripted words ({type(error).__name__})"
        else:
            made = outputs.to_matrix() if isinstance(outputs, BitColumns) else outputs
            if np.array_equal(made, wanted):
                return
            problem = "encode outputs something else than its law says, given scripted words"
            if np.shape(made) == np.shape(wanted):
                wrong = (made != wanted).reshape(len(cells), -1).any(axis=1)
                cell = int(cells[wrong.argmax()]) >> self.channel.resolution
                problem += f": {wrong.sum():,} of {len(cells):,} reports, one from cell {cell}"
        self.found.problems.append(problem)

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
        below = np.where(mine, targets["below"], self.rng.integers(2, size=len(cells)))
        below = below.astype(np.uint64)
        if branch is not None:  # the first number of the branch, or the last
            return (draw.first(branch + below.astype(np.int64)) - below) & last
        own = np.where(targets["relative"], cells >> self.channel.resolution, 0)
        wanted = np.clip(targets["outcome"] + own, 0, draw.outcomes - 1)
        return (draw.first(np.where(mine, wanted, some)) - below) & last

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
