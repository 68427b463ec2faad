"""Multiplicative weights with the exponential mechanism: a synthetic table for many questions.

In each round the question with the worst answer is chosen and measured with noise, and the
synthetic table is reweighted towards the measurement. Everything that decides is exact: the
synthetic table is rounded to a grid before it is compared, so that every score is a whole number,
and choices and noise are drawn exactly. The tables see measurements only, never the data: whatever
the reweighting makes of them is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np

from sfumato.arrays import Floats
from sfumato.central.accuracy import multiplicative_weights_error, multiplicative_weights_rounds
from sfumato.central.exponential import Integers, alone, common_steps, dense
from sfumato.central.measurements import refuse_low_rates
from sfumato.central.mechanism import AboutQuestions, Counts, Expected, Outcome, question_answers
from sfumato.central.small_database import clipped
from sfumato.central.space import Questions, Space, in_words
from sfumato.checks import one_of
from sfumato.errors import StudyError, TooLargeError, shown
from sfumato.estimation.intervals import normal_quantile
from sfumato.exact import rational
from sfumato.questions.lattice import Lattice
from sfumato.randomness.bits import BitSource
from sfumato.randomness.exponential import choose_by_scores
from sfumato.randomness.laplace import discrete_laplace

_GRID_BITS = 12  # the synthetic table is rounded to this part of a person
_MOST_ROUNDS = 1000
_PASSES = 10  # over all measurements after each round of replay
_LAST_PASSES = 100  # after the last one
_TOLERANCE = 1.0  # scales of its noise by which a replayed measurement may be missed
_SETTLED = 1e-4  # of n people: closer than this a measurement need not be fitted

Variant = Literal["published", "replayed"]
HOW = {
    "published": "Theorem 8 of Kamalaruban et al. 2020",
    "replayed": "what any answer can be off by: the measured error will be far less",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedMWEM(AboutQuestions):
    """Questions and what each step may spend, ready for a table.

    Attributes:
        rounds: How many questions are measured.
        variant: "published" or "replayed".
        check: Share of the budget for measuring the largest error at the end.
        rate: 1/c, the largest rate that every question could have alone.
        own: The largest rate of each question alone.
        lattice: The questions, each in its own steps.
        steps: The questions in whole steps of one unit.
        unit: Size of a step.
        bits: Binary digits of a person to which the synthetic table is rounded.
    """

    rounds: int
    variant: Variant
    check: Fraction
    rate: Fraction
    own: tuple[Fraction, ...]
    lattice: Lattice
    steps: Any
    unit: Fraction
    bits: int

    @property
    def share(self) -> Fraction:
        """What each choice and each measurement may spend: (1 − check)/2T."""
        return (1 - self.check) / (2 * self.rounds)

    @property
    def choice_rate(self) -> Fraction:
        """A question is chosen with chance ∝ e^(this · whole score): half its share over c."""
        return self.share * self.rate / 2 * self.score_unit

    @property
    def check_rate(self) -> Fraction:
        """Rate of the noise on the largest whole score."""
        return self.check * self.rate * self.score_unit

    @property
    def score_unit(self) -> Fraction:
        """What a score of 1 stands for."""
        return self.unit / (1 << self.bits)

    def measurement_rate(self, question: int) -> Fraction:
        """Rate of the noise on a question, in its own steps; published: the same for all."""
        alone_ = self.rate if self.variant == "published" else self.own[question]
        return self.share * alone_ * self.lattice.units[question]

    def noise_rates(self) -> list[Fraction]:
        """The rates of all noise that may be drawn, whichever questions are chosen."""
        checks = [self.check_rate] if self.check else []
        return [*map(self.measurement_rate, range(len(self.lattice))), *checks]

    def rounded(self, synthetic: Floats) -> Integers:
        """The synthetic table on its grid, in whole parts of a person."""
        return np.rint(synthetic * (1 << self.bits)).astype(np.int64)

    def scores(self, truth: Integers, rounded: Integers) -> Integers:
        """|q(y) − q(x)| of every question in whole units: private, never to be shown.

        Args:
            truth: The questions' true answers in whole steps.
            rounded: The synthetic table on its grid.
        """
        made = np.asarray(self.steps @ rounded, dtype=np.int64)
        return np.asarray(np.abs(made - (truth << self.bits)), dtype=np.int64)

    @cached_property
    def size(self) -> float:
        """The largest absolute coefficient, by which the paper's |q| ≤ 1 is met."""
        return float(abs(self.steps).max() * self.unit)

    def expected(self) -> Expected:
        """The bound of Theorem 8, or what any answer can be off by if that is less."""
        spread = dense(self.steps.max(axis=1)) - dense(self.steps.min(axis=1))
        reach: Floats = self.n * float(self.unit) * spread.reshape(-1).astype(np.float64)
        if self.variant == "published":
            reach = np.minimum(reach, self.theorem)
        return Expected(
            labels=self.labels,
            stderr=np.full(len(reach), math.nan),
            reach=reach + self.n * self.lattice.off,
            level=self.level,
            simultaneous=True,
            how=HOW[self.variant],
        )

    @cached_property
    def theorem(self) -> float:
        """Theorem 8 at this level, with what is left of the budget beside the check."""
        return multiplicative_weights_error(
            self.n,
            self.asked.workload.cells,
            self.asked.workload.questions,
            self.rounds,
            float(1 / (self.rate * (1 - self.check))),
            beta=1 - self.level,
            size=self.size,
        )

    def run_margins(self, counts: Sequence[Counts], bits: BitSource) -> Outcome:
        """Answer from the people in each cell of the axes that are asked about.

        Args:
            counts: One histogram, that of these axes.
            bits: Where randomness comes from.
        """
        truth = np.asarray(self.steps @ counts[0], dtype=np.int64)
        table, learnt = self._table(), []
        for _ in range(self.rounds):
            scores = self.scores(truth, self.rounded(table.current))
            question = choose_by_scores(scores, self.choice_rate, bits)
            one, rate = self.lattice.select([question]), self.measurement_rate(question)
            noisy = int(one.totals(counts[0])[0]) + int(discrete_laplace(rate, 1, bits)[0])
            unit = one.units[0]
            learnt.append((question, float(noisy * unit)))
            table.learn(dense(one.steps)[0] * float(unit), learnt[-1][1], float(unit / rate))
        rounded = self.rounded(table.result())
        measured = None
        if self.check:
            worst = int(self.scores(truth, rounded).max())
            worst += int(discrete_laplace(self.check_rate, 1, bits)[0])
            measured = float(worst * self.score_unit)
        return self._outcome(rounded, learnt, measured)

    def _table(self) -> Averaged | Replayed:
        """The synthetic table before anything is learnt."""
        cells = self.asked.workload.cells
        if self.variant == "published":
            return Averaged(cells, self.n, self.rounds, self.size)
        return Replayed(cells, self.n, self.rounds)

    def check_reach(self) -> float:
        """How far above its measurement the largest error may be, with the chance `level`."""
        # P(z < −h) = α^(h+1)/(1+α), α = e^−rate
        rate = float(self.check_rate)
        steps = math.log(1 / ((1 - self.level) * (1 + math.exp(-rate)))) / rate - 1
        return max(0, math.ceil(steps)) * float(self.score_unit)

    def _outcome(
        self, rounded: Integers, learnt: list[tuple[int, float]], measured: float | None
    ) -> Outcome:
        """Answers of the synthetic table, with their intervals; nothing private comes in."""
        values = np.asarray(self.steps @ rounded) * float(self.score_unit)
        if measured is None:
            reach = self.expected().reach
        else:
            reach = max(0.0, measured + self.check_reach()) + self.n * self.lattice.off
        answers = question_answers(
            self.labels,
            values,
            np.full(len(values), math.nan),
            n=self.n,
            bounds=clipped(values, reach, self.steps, self.unit, self.n, self.lattice.off),
            level=self.level,
            method=f"mwem ({self.variant})",
            notes=(*self.asked.notes, "intervals hold for all questions at once"),
        )
        labels = self.asked.workload.labels
        details = {
            "rounds": self.rounds,
            "axes": list(self.asked.axes),
            "measured": [labels[question] for question, _ in learnt],
            "measurements": [value for _, value in learnt],
            "largest error": measured,
        }
        return Outcome(answers=answers, synthetic=rounded / float(1 << self.bits), details=details)


@dataclass(frozen=True, eq=False)
class MWEM:
    """MWEM: a synthetic table that answers many questions, learnt from few measurements.

    Guarantee:
        d-private for d = what is spent. Each of T rounds spends 1/2T of it on choosing a question
        by the exponential mechanism, with chance ∝ e^(|q(y) − q(x)|/4cT), and 1/2T on measuring it
        with discrete Laplace noise of scale 2cT, c = max |q_i − q_j|/d(i, j). Both are drawn
        exactly, from whole numbers. With `check` this holds for what the check leaves.

    Estimator:
        Biased; intervals hold for all questions at once. Without `check` they come from Theorem 8,
        which is a worst case. `check` spends a share on one measurement of the largest error, whose
        sensitivity is that of one question, and makes them far tighter.

    Args:
        questions: In the study's own language, or a workload.
        rounds: T, how many questions are measured; left out, the number that balances both terms
            of Theorem 8.
        variant: "published" is the paper's, with the correction that the update has c·q′ in both
            places, and gives the average table. "replayed" fits all measurements again in every
            round, measures each question at its own scale, and gives the last table: usually much
            better, with no theorem, so it needs a check.
        check: Share of the budget for measuring the largest error, such as "1/10".
        level: Chance with which all intervals hold at once.

    Raises:
        StudyError: If an option is out of range, or "replayed" has no check.

    Example:
        >>> import sfumato as sf
        >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
        >>> mechanism = MWEM("ranges of age", rounds=5, variant="replayed", check="1/10")
        >>> prepared = mechanism.prepare(sf.central.Space(study), n=10_000)
        >>> prepared.share, round(prepared.check_reach(), 1)
        (Fraction(9, 100), 46.1)

    References:
        Kamalaruban et al. 2020, section 3.4; Hardt, Ligett, McSherry 2012.
    """

    questions: Questions
    rounds: int | None = None
    _: KW_ONLY
    variant: Variant = "published"
    check: Fraction | float | str = 0
    level: float = 0.95

    def __post_init__(self) -> None:
        """Refuse options out of range."""
        rounds = self.rounds
        whole = isinstance(rounds, (int, np.integer)) and not isinstance(rounds, bool)
        if rounds is not None and not (whole and 1 <= rounds <= _MOST_ROUNDS):
            raise StudyError(
                f"rounds must be a whole number from 1 to {_MOST_ROUNDS}, got "
                f"rounds={shown(rounds)}"
            )
        one_of(self.variant, "variant", HOW)
        share = rational(self.check, "check")
        if not 0 <= share < 1:
            raise StudyError(
                f"check must be a share of at least 0 and below 1, got check={shown(share)}"
            )
        if self.variant == "replayed" and not share:
            raise StudyError(
                "variant='replayed' has no proved error, so it needs check, a share of the budget "
                "that measures it, such as check='1/10'"
            )
        normal_quantile(self.level)
        object.__setattr__(self, "rounds", None if rounds is None else int(rounds))
        object.__setattr__(self, "check", share)

    def describe(self) -> str:
        """The mechanism in a few words."""
        many = "" if self.rounds is None else f", {self.rounds} rounds"
        check = f", {self.check} of it to check" if self.check else ""
        return f"MWEM ({self.variant}) for {in_words(self.questions)}{many}{check}"

    def prepare(self, space: Space, n: int) -> PreparedMWEM:
        """Find c, and what each step may spend.

        Args:
            space: The cells, and the distances that this release may spend.
            n: Number of people.
        """
        asked = space.margin(self.questions)
        lattice = Lattice.of(asked.workload)
        steps, unit = common_steps(lattice)
        names = asked.workload.labels
        own = alone(lattice, asked.edges, names, asked.names)
        rates = [rate for rate in own if rate is not None]
        if not rates:
            raise StudyError(
                "none of these questions needs noise, so there is nothing to learn from noisy "
                "measurements: use central.Laplace, which answers them as they are"
            )
        rate, most = min(rates), int(abs(steps).max())
        bits = min(_GRID_BITS, 61 - (2 * most * (n + lattice.shape[1])).bit_length())
        if bits < 0:
            raise TooLargeError(
                f"sums over {n:,} people do not fit whole numbers of 64 bits: use coarser weights"
            )
        rounds = self.rounds
        if rounds is None:
            found = multiplicative_weights_rounds(
                n, lattice.shape[1], len(lattice), float(1 / rate)
            )
            rounds = min(found, len(lattice), _MOST_ROUNDS)
        prepared = PreparedMWEM(
            asked=asked,
            shape=space.shape,
            n=n,
            level=self.level,
            rounds=rounds,
            variant=self.variant,
            check=rational(self.check, "check"),
            rate=rate,
            own=tuple(max(rates) if each is None else each for each in own),
            lattice=lattice,
            steps=steps,
            unit=unit,
            bits=bits,
        )
        refuse_low_rates(prepared.noise_rates())
        return prepared


class _Table:
    """A synthetic table: n people spread over cells, evenly at first.

    Args:
        cells: Number of cells.
        n: Number of people.
        rounds: How many measurements there will be.
    """

    def __init__(self, cells: int, n: int, rounds: int) -> None:
        self.n, self.rounds, self.learnt = n, rounds, 0
        self.current: Floats = np.full(cells, n / cells)
        self._logs: Floats = np.zeros(cells)

    def _move(self, exponents: Floats) -> None:
        """y_i ∝ y_i·e^(exponent i), scaled to n people."""
        self._logs += exponents
        self._logs -= self._logs.max()
        grown = np.exp(self._logs)
        self.current = self.n * grown / grown.sum()


class Averaged(_Table):
    """The published update: one step per measurement, and the average of the tables before each.

    Kamalaruban et al. 2020, Algorithm 2, corrected: m_t measures c·q′(x), so that the step is
    c·q′_i·(m_t − c·q′(y))/2n, with c in both places; else it would depend on c. Questions beyond
    the paper's |q| ≤ 1 are scaled by their largest coefficient.

    Args:
        cells: Number of cells.
        n: Number of people.
        rounds: How many measurements there will be.
        size: The largest absolute coefficient of any question.
    """

    def __init__(self, cells: int, n: int, rounds: int, size: float) -> None:
        super().__init__(cells, n, rounds)
        self._size = size
        self._sum: Floats = np.zeros(cells)

    def learn(self, row: Floats, value: float, scale: float) -> None:
        """Take one step towards the measurement of a question.

        Args:
            row: The question's weight of every cell.
            value: What was measured.
            scale: Scale of the noise in it, which this update does not use.
        """
        self.learnt += 1
        self._sum += self.current
        away = value - float(row @ self.current)
        self._move(row * (away / (2 * self.n * self._size**2)))

    def result(self) -> Floats:
        """The average over t < T."""
        return np.asarray(self._sum / self.learnt)


class Replayed(_Table):
    """All measurements fitted again whenever there is a new one, each to within its noise.

    In the limit this is the table of largest entropy that misses no measurement by more than the
    scale of its noise, if there is one.
    """

    def __init__(self, cells: int, n: int, rounds: int) -> None:
        super().__init__(cells, n, rounds)
        self._known: list[tuple[Floats, float, float]] = []

    def learn(self, row: Floats, value: float, scale: float) -> None:
        """Add the measurement of a question, and go over all of them, the latest first.

        Args:
            row: The question's weight of every cell.
            value: What was measured.
            scale: Scale of the noise in it.
        """
        self.learnt += 1
        self._known.insert(0, (row, value, scale))
        for _ in range(_LAST_PASSES if self.learnt == self.rounds else _PASSES):
            moved = [self._fit(*known) for known in self._known]
            if not any(moved):
                break

    def _fit(self, row: Floats, value: float, scale: float) -> bool:
        """Step towards one measurement, unless it is missed by no more than its noise."""
        away, spread = value - float(row @ self.current), float(np.ptp(row))
        away = math.copysign(max(0.0, abs(away) - _TOLERANCE * scale), away)
        if not spread or abs(away) < _SETTLED * self.n * spread:
            return False
        # A step of 1/(bound on the variance of q over cells) never overshoots.
        self._move(row * (4 * away / (self.n * spread**2)))
        return True

    def result(self) -> Floats:
        """The last table."""
        return self.current
