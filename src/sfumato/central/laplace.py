"""The Laplace mechanism: answers to linear questions, with the least noise that E allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from sfumato.arrays import Floats
from sfumato.central.designs import (
    BEST,
    NAMES,
    QUESTIONS,
    SEARCHED,
    Design,
    bent_design,
    best_design,
    fixed,
    refuse_bias,
    searched,
    themselves,
)
from sfumato.central.measurements import checked_weights
from sfumato.central.mechanism import AboutQuestions, Counts, Expected, Outcome, question_answers
from sfumato.central.space import Margin, Questions, Space, in_words
from sfumato.checks import one_of
from sfumato.errors import StudyError, near
from sfumato.estimation.intervals import normal_quantile
from sfumato.questions.workload import MOST_ENTRIES, Workload
from sfumato.randomness.bits import BitSource

METHODS = ("exact", "equal", "shared", "psa")


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedLaplace(AboutQuestions):
    """Questions with their noise, ready for a table.

    Attributes:
        design: What is measured, and how questions are read from it.
        shift: What is added to each answer.
        bias: The most that each answer is off by, beside its noise.
        notes: What should be known about the answers.
    """

    design: Design
    shift: Floats
    bias: Floats
    notes: tuple[str, ...] = ()

    @cached_property
    def stderr(self) -> Floats:
        """Root of the variance, plus the square of the bias where there may be one."""
        return np.sqrt(self.design.variances + self.bias**2)

    @cached_property
    def reach(self) -> Floats:
        """Half the width of each interval."""
        return self.design.reaches(self.level) + self.bias

    def expected(self) -> Expected:
        """The error of each question: exact, and the same whatever the data are."""
        return Expected(labels=self.labels, stderr=self.stderr, reach=self.reach, level=self.level)

    def run_margins(self, counts: Sequence[Counts], bits: BitSource) -> Outcome:
        """Answer from the people in each cell of the axes that are asked about.

        Args:
            counts: One histogram, that of these axes.
            bits: Where randomness comes from.
        """
        noisy = self.design.measurements.draw(counts[0], bits)
        workload, limits = self.asked.workload, None
        if workload.questions * workload.cells <= MOST_ENTRIES:
            low, high = workload.span()
            limits = (self.n * low, self.n * high)
        answers = question_answers(
            self.labels,
            self.design.answers(noisy, self.n) + self.shift,
            self.stderr,
            n=self.n,
            reach=self.reach,
            limits=limits,
            level=self.level,
            method="laplace",
            notes=self.notes,
        )
        return Outcome(answers=answers, details=self.details())

    def details(self) -> dict[str, Any]:
        """Public numbers: how much noise there is, and how near the least possible."""
        measured, found = self.design.measurements, self.design.allocation
        noisy = [rate for rate in measured.rates if rate]
        return {
            "strategy": self.design.name,
            "measurements": len(noisy),
            "allocation": None if found is None else found.method,
            "gap": None if found is None else found.gap,
            "largest bias": float(self.bias.max(initial=0.0)),
        }


@dataclass(frozen=True, eq=False)
class Laplace:
    """The Laplace mechanism: answers to linear questions with discrete Laplace noise.

    Guarantee:
        d-private for d = what is spent: noise is drawn exactly, in whole steps of a lattice, at
        rates for which Σ_k u_k·|A_ki − A_kj| ≤ d(i, j) is checked in exact arithmetic for all pairs
        of cells (Kamalaruban et al. 2020, Theorem 1).

    Estimator:
        Unbiased, unless `bias` is "optimised"; standard errors are exact and do not depend on the
        data. Intervals come from the exact law of the noise.

    Args:
        questions: In the study's own language: "age=18..30", "ranges of age", "marginal age, sex",
            a list of such, or a workload.
        strategy: What is measured: "questions" for the questions themselves; "identity", "prefix",
            "hierarchical", "haar" (combined over axes), a workload; "searched" chooses rows for
            these questions. "best", the default, takes whichever of those named has the least
            error; beyond 128 cells (256 where there are more than four questions per cell) it takes
            the questions themselves, and `plan` compares.
        allocation: How noise is shared out: "exact" for the least total variance, or "equal",
            "shared", "psa" for strategies 1 to 3 of the paper, to compare.
        weights: How much each question's variance counts; left out, all count equally.
        bias: "optimised" lets questions be slightly wrong where that saves more noise than it
            costs, with the bias counted in the error; useful where there are few people.
        level: Share of intervals that hold the truth.

    Raises:
        StudyError: If an option is unknown.

    Example:
        >>> import sfumato as sf
        >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
        >>> ranges = sf.central.Laplace("ranges of age", strategy="prefix")
        >>> prepared = ranges.prepare(sf.central.Space(study, "1/5"), n=10_000)
        >>> len(prepared.labels), round(float(prepared.stderr.max()), 1)
        (5050, 20.0)

    References:
        Kamalaruban et al. 2020, sections 3.1 and 4; Xiang et al. 2020, section 3.
    """

    questions: Questions
    strategy: str | Workload = BEST
    _: KW_ONLY
    allocation: str = "exact"
    weights: Sequence[float] | None = None
    bias: Literal["none", "optimised"] = "none"
    level: float = 0.95

    def __post_init__(self) -> None:
        """Refuse unknown options."""
        strategy = self.strategy
        if isinstance(strategy, str) and strategy not in NAMES:
            raise StudyError(f"strategy must be known, got {strategy!r}: {near(strategy, NAMES)}")
        if not isinstance(strategy, (str, Workload)):
            raise StudyError(
                f"strategy must be a name or a workload, got {type(strategy).__name__}: make rows "
                "of your own a workload, with questions.Given(matrix)"
            )
        one_of(self.allocation, "allocation", METHODS)
        refuse_bias(self.bias)
        if self.bias == "optimised" and strategy not in (BEST, QUESTIONS):
            raise StudyError(
                "bias='optimised' bends the questions themselves, so strategy must be left out"
            )
        normal_quantile(self.level)

    def describe(self) -> str:
        """The mechanism in a few words."""
        strategy = self.strategy if isinstance(self.strategy, str) else "given"
        plain = strategy in (BEST, QUESTIONS)
        by = "" if plain else f", measured by the {strategy} strategy"
        bent = ", bias optimised" if self.bias == "optimised" else ""
        return f"Laplace noise on {in_words(self.questions)}{by}{bent}"

    def prepare(self, space: Space, n: int) -> PreparedLaplace:
        """Choose the noise.

        Args:
            space: The cells, and the distances that this release may spend.
            n: Number of people.

        Raises:
            StudyError: If a question tells cells apart at distance 0, or the strategy cannot
                express it; what is wrong is named.
        """
        given, bent = isinstance(self.strategy, Workload), self.bias == "optimised"
        asked = space.margin(self.questions, whole=given, unpaid=bent)
        weights = checked_weights(self.weights, asked.workload.questions)
        design = self._design(asked, weights, n)
        design.measurements.check(n)
        shift, bias = design.bias(asked.workload, n)
        notes = asked.notes
        if bias.any():
            most = float(bias.max())
            notes = (*notes, f"answers may be off by up to {most:.3g} people beside their noise")
        return PreparedLaplace(
            design=design,
            asked=asked,
            shape=space.shape,
            n=n,
            level=self.level,
            shift=shift,
            bias=bias,
            notes=notes,
        )

    def _design(self, asked: Margin, weights: Floats, n: int) -> Design:
        """What is measured: nothing, where the answers are public."""
        if asked.free:
            return themselves(asked, weights, self.allocation)
        if self.bias == "optimised":
            return bent_design(asked, weights, n, self.allocation)
        if self.strategy == QUESTIONS:
            return themselves(asked, weights, self.allocation)
        if self.strategy == SEARCHED:
            return searched(asked, weights)
        if self.strategy == BEST:
            return best_design(asked, weights, self.allocation)
        return fixed(asked, self.strategy, weights, self.allocation)
