"""The small database mechanism: choose, among all tables of few records, one with a small error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.arrays import Floats
from sfumato.central.accuracy import small_database_size, worst_shortfall
from sfumato.central.exponential import Integers, alone, common_steps, dense
from sfumato.central.mechanism import AboutQuestions, Counts, Expected, Outcome, question_answers
from sfumato.central.space import Questions, Space, in_words
from sfumato.errors import TooLargeError
from sfumato.estimation.intervals import normal_quantile
from sfumato.questions.lattice import Lattice
from sfumato.randomness.bits import BitSource
from sfumato.randomness.exponential import choose_by_scores

MOST_DATABASES = 10**6
_CHUNK = 1 << 22


def small_databases(cells: int, records: int) -> Integers:
    """All tables with a given number of records, as people in each cell, one table per row.

    Args:
        cells: Number of cells.
        records: Number of records.

    Example:
        >>> small_databases(2, 2).tolist()
        [[0, 2], [1, 1], [2, 0]]
    """
    tables, left = np.zeros((1, 0), dtype=np.int64), np.array([records])
    for _ in range(cells - 1):
        many = left + 1
        starts = np.repeat(np.cumsum(many) - many, many)
        here = np.arange(int(many.sum())) - starts
        tables = np.column_stack([np.repeat(tables, many, axis=0), here])
        left = np.repeat(left, many) - here
    return np.column_stack([tables, left]).astype(np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedSmallDB(AboutQuestions):
    """Questions and all small databases, ready for a table.

    Attributes:
        records: People in a small database.
        rate: A database is chosen with chance ∝ e^(−rate·largest error); None where no noise is
            needed.
        steps: The questions in whole steps.
        unit: Size of a step.
        reach: How far each answer may be from the truth.
        off: How far a coefficient of each question was rounded.
    """

    records: int
    rate: Fraction | None
    steps: Integers
    unit: Fraction
    reach: Floats
    off: Floats

    @property
    def step_rate(self) -> Fraction:
        """The rate per whole unit of `errors`."""
        return Fraction(0) if self.rate is None else self.rate * self.unit / self.records

    def expected(self) -> Expected:
        """How far each answer may be from the truth."""
        return Expected(
            labels=self.labels,
            stderr=np.full(self.asked.workload.questions, math.nan),
            reach=self.reach,
            level=self.level,
            simultaneous=True,
            how="worst case over all tables (Proposition 1 of Kamalaruban et al. 2020, sharpened)",
        )

    def errors(self, counts: Counts) -> Integers:
        """The largest error of each small database, scaled to n people: private, never shown.

        In steps of unit/records: max_q |records·q(x) − n·q(y)|.
        """
        truth = self.records * (self.steps @ counts)
        tables = small_databases(len(counts), self.records)
        found = np.empty(len(tables), dtype=np.int64)
        rows = max(1, _CHUNK // len(truth))
        for start in range(0, len(tables), rows):
            part = slice(start, start + rows)
            found[part] = np.abs(truth - self.n * (tables[part] @ self.steps.T)).max(axis=1)
        return found

    def run_margins(self, counts: Sequence[Counts], bits: BitSource) -> Outcome:
        """Answer from the people in each cell of the axes that are asked about.

        Args:
            counts: One histogram, that of these axes.
            bits: Where randomness comes from.
        """
        errors = self.errors(counts[0])
        if self.rate is None:
            chosen = int(np.argmin(errors))
        else:
            chosen = choose_by_scores(errors, -self.step_rate, bits)
        table = small_databases(len(counts[0]), self.records)[chosen]
        scale = self.n / self.records
        values = (self.steps @ table) * (float(self.unit) * scale)
        answers = question_answers(
            self.labels,
            values,
            np.full(len(values), math.nan),
            n=self.n,
            bounds=clipped(values, self.reach, self.steps, self.unit, self.n, self.off),
            level=self.level,
            method="small database",
            notes=(*self.asked.notes, "intervals hold for all questions at once"),
        )
        details = {
            "records": self.records,
            "databases": len(errors),
            "axes": list(self.asked.axes),
            "rate": None if self.rate is None else float(self.rate),
        }
        return Outcome(answers=answers, synthetic=table * scale, details=details)


@dataclass(frozen=True, eq=False)
class SmallDB:
    """SmallDB: a synthetic table of few records, chosen to answer all questions nearly right.

    Guarantee:
        d-private for d = what is spent: a table y of k records is chosen with chance
        ∝ e^(−rate·max_q |q(x) − q(y)·n/k|), drawn exactly; the largest error moves by at most the
        largest |q_i − q_j|, and the rate keeps twice that within d(i, j).

    Estimator:
        Biased towards what few records can say; intervals are worst cases that hold for all
        questions at once. The paper compares tables of different sizes; here y is scaled to n.

    Args:
        questions: In the study's own language, or a workload.
        alpha: How well a small table can answer: k = ⌈log|Q|/α²⌉ records are within α·n.
        level: Chance with which all intervals hold at once.

    Raises:
        StudyError: If alpha does not lie between 0 and 1.
        TooLargeError: On preparation, if there are more than a million small tables.

    Example:
        >>> import sfumato as sf
        >>> modes = sf.categories("mode", ["car", "bus", "bike"], protect=sf.Uniform(1))
        >>> space = sf.central.Space(sf.Study("modes", [modes]))
        >>> prepared = SmallDB("cells of mode", alpha=0.3).prepare(space, n=1000)
        >>> prepared.records, prepared.rate
        (13, Fraction(1, 2))

    References:
        Kamalaruban et al. 2020, section 3.3.
    """

    questions: Questions
    alpha: float
    _: KW_ONLY
    level: float = 0.95

    def __post_init__(self) -> None:
        """Refuse options out of range."""
        small_database_size(1, self.alpha)
        normal_quantile(self.level)

    def describe(self) -> str:
        """The mechanism in a few words."""
        return f"Small database for {in_words(self.questions)}, alpha {self.alpha:g}"

    def prepare(self, space: Space, n: int) -> PreparedSmallDB:
        """Count the small tables and find the rate.

        Args:
            space: The cells, and the distances that this release may spend.
            n: Number of people.

        Raises:
            TooLargeError: If there are more than a million small tables, with their number.
        """
        asked = space.margin(self.questions)
        cells, questions = asked.workload.cells, asked.workload.questions
        records = small_database_size(questions, self.alpha)
        databases = math.comb(cells + records - 1, records)
        if databases > MOST_DATABASES:
            raise TooLargeError(
                f"there are {_count(databases)} small databases of {records:,} records in "
                f"{cells:,} cells, more than {MOST_DATABASES:,}: use fewer cells or a larger "
                f"alpha, or central.MWEM"
            )
        lattice = Lattice.of(asked.workload)
        matrix, unit = common_steps(lattice)
        steps = dense(matrix)
        if 2 * int(np.abs(steps).max()) * n * records >= 1 << 62:
            raise TooLargeError(
                f"sums over {n:,} people do not fit whole numbers of 64 bits: use coarser weights"
            )
        names = asked.workload.labels
        rates = [rate for rate in alone(lattice, asked.edges, names, asked.names) if rate]
        rate = min(rates) / 2 if rates else None
        spread = float((steps.max(axis=1) - steps.min(axis=1)).max() * unit)
        reach = self.alpha * n * spread + n * lattice.off
        if rate is not None:
            reach = reach + worst_shortfall(databases, float(rate), delta=1 - self.level)
        return PreparedSmallDB(
            asked=asked,
            shape=space.shape,
            n=n,
            level=self.level,
            records=records,
            rate=rate,
            steps=steps,
            unit=unit,
            reach=reach,
            off=lattice.off,
        )


def clipped(
    values: Floats, reach: Floats, steps: Any, unit: Fraction, n: int, off: Floats
) -> tuple[Floats, Floats]:
    """Intervals around answers, cut to what n people can make of a question.

    Args:
        values: The answers.
        reach: Half the width of each interval.
        steps: The questions in whole steps.
        unit: Size of a step.
        n: Number of people.
        off: How far a coefficient of each question was rounded.
    """
    least, most = (dense(end).reshape(-1) for end in (steps.min(axis=1), steps.max(axis=1)))
    low, high = n * (float(unit) * least - off), n * (float(unit) * most + off)
    return np.clip(values - reach, low, high), np.clip(values + reach, low, high)


def _count(number: int) -> str:
    """A whole number of any size for a message."""
    return f"{number:,}" if number < 10**15 else f"about 10^{len(str(number)) - 1}"
