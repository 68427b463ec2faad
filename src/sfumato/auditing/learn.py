"""The law of `encode` without its steps: boundaries are found by bisection.

This is for channels that list no steps, such as a user's own. `encode` must take its random words
as most samplers do, one per person in every request, and as many for everybody. Where the output
changes along a word is found by bisection, one word of a report after the other. A stretch of words
between two equal outputs is taken to be all alike; if it is not, the law that is found is another
than the one that the channel shows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.auditing.claims import claim_problems
from sfumato.auditing.drive import Drive, EncodeError, OtherWordsError, Script, outputs_of
from sfumato.auditing.law import law_problems, some_codes
from sfumato.channels.base import Channel
from sfumato.metrics.cells import CellMetric
from sfumato.randomness.bits import WORD_BITS, Words

_MARKS = 10  # words are compared at distances of 2^(64 − 10) to begin with
_CONTEXTS = 12  # choices of all later words, for which an earlier one is compared
_MOST_PIECES = 1 << 14  # of one word
_MOST_WORDS = 8  # of one report
_MOST_CELLS = 1 << 10
_MOST_REPORTS = 1 << 22


def drive_unlisted(channel: Channel, metric: CellMetric) -> Drive:
    """Find the law of `encode` by driving it, and compare it with the one that is shown.

    Args:
        channel: A channel without steps.
        metric: E between its cells.
    """
    found = Drive()
    try:
        learner = Learner(channel)
        rows = {}
        for code in some_codes(channel, _MOST_CELLS):
            rows[code] = learner.row(code)
            if learner.reports > _MOST_REPORTS:
                break
    except OtherWordsError:
        found.problems.append(
            "encode does not take its random words one per person, as many for everybody, in few "
            "pieces each: list its draws in `steps`, so that the audit can follow it"
        )
        return found
    except EncodeError as error:
        found.problems.append(str(error))
        return found
    found.reports = learner.reports
    found.method = "every boundary" if len(rows) >= channel.size else "selected boundaries"
    found.problems += law_problems(channel, rows)
    if found.problems:
        found.problems[0] += (
            "; if it does not compare its words with bounds, list its draws in `steps`"
        )
    found.problems += claim_problems(channel, metric, rows, ())
    return found


class Learner:
    """Finds the exact law of a channel's `encode`, cell by cell.

    Args:
        channel: A channel without steps.

    Attributes:
        reports: How many reports were made so far.

    Raises:
        OtherWordsError: If `encode` takes its words in another way.
    """

    def __init__(self, channel: Channel) -> None:
        self.reports = 0
        self._channel = channel
        self._rng = np.random.default_rng(0)
        self._later = self._rng.integers(0, 1 << 64, (_MOST_WORDS, _CONTEXTS), dtype=np.uint64)
        self._later[:, 0], self._later[:, 1] = 0, (1 << WORD_BITS) - 1
        people = np.array([0, channel.size - 1] * 8) << channel.resolution
        self._words = 0
        while True:  # as many requests as are needed to make reports
            words = self._rng.integers(0, 1 << 64, (self._words, 16), dtype=np.uint64)
            try:
                outputs_of(channel, people, Script(list(words)))
                return
            except OtherWordsError:
                if self._words == _MOST_WORDS:
                    raise
                self._words += 1

    def row(self, code: int) -> tuple[list[int], int]:
        """Words by output, and their sum, of a cell or a place between two.

        Args:
            code: As `encode` takes it.
        """
        layout = self._channel.layout
        row = [0] * (layout.count if layout.kind == "symbols" else 1 << layout.count)
        self._add(row, code, [], 1)
        return row, 1 << WORD_BITS * self._words

    def _add(self, row: list[int], code: int, known: list[int], weight: int) -> None:
        """Add all reports that begin with words of certain pieces, each by one of its words."""
        if len(known) == self._words:
            row[int(self._made(code, known, np.zeros(1, dtype=np.uint64))[0, 0])] += weight
            return
        starts = self._pieces(code, known)
        for start, end in zip(starts, [*starts[1:], 1 << WORD_BITS], strict=True):
            self._add(row, code, [*known, start], weight * (end - start))

    def _pieces(self, code: int, known: list[int]) -> list[int]:
        """The first word of every piece of the next word, in which all words do the same."""
        step = 1 << (WORD_BITS - _MARKS)
        marks = [*range(0, 1 << WORD_BITS, step), (1 << WORD_BITS) - 1]
        low = np.array(marks[:-1], dtype=np.uint64)
        high = np.array(marks[1:], dtype=np.uint64)
        made = self._made(code, known, np.array(marks, dtype=np.uint64))
        first, last = made[:-1], made[1:]
        starts = [0]
        while True:
            apart = (first != last).any(axis=1)
            near = apart & (high - low == 1)
            starts += high[near].tolist()
            split = apart & ~near
            if not split.any():
                return sorted(starts)
            if split.sum() + len(starts) > _MOST_PIECES:
                raise OtherWordsError
            low, high, first, last = low[split], high[split], first[split], last[split]
            middle = low + (high - low) // np.uint64(2)
            made = self._made(code, known, middle)
            low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
            first, last = np.concatenate([first, made]), np.concatenate([made, last])

    def _made(self, code: int, known: Sequence[int], words: Words) -> NDArray[np.int64]:
        """What is made of each word after the known ones: one column per choice of later words."""
        later = self._words - len(known) - 1
        contexts = _CONTEXTS if later > 0 else 1
        people = len(words) * contexts
        script = [np.full(people, word, dtype=np.uint64) for word in known]
        script += [np.repeat(words, contexts)] if later >= 0 else []
        script += [np.tile(row, len(words)) for row in self._later[: max(0, later)]]
        self.reports += people
        made = outputs_of(self._channel, np.full(people, code), Script(script))
        if made.ndim == 2:
            made = made.astype(np.int64) @ (1 << np.arange(made.shape[1]))
        return made.reshape(len(words), contexts)
