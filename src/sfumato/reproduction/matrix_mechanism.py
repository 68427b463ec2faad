"""The local matrix mechanism as published: the rows of a strategy with Laplace noise, for any E.

Xiang et al. 2020, §3: each person sends A·h_x plus noise, and the collector estimates W·c as B
times the sum of the reports. Here the rows of A lie on a lattice, and the noise is discrete Laplace
noise of unlimited range on that lattice, sampled exactly, so nothing depends on floating-point
rounding. In a study use `sfumato.MatrixResponse`: it does the same job with half the variance.

Guarantee:
    Σ_k u_k·|A_kx − A_kx'| <= E(x, x') for all pairs (Proposition 2), checked in rational numbers;
    the noise on row k has the law P(z) ∝ e^(−u_k·unit_k·|z|), z a whole number of units.

Estimator:
    W = BA with B by weighted least squares, where the number of people is known. Unbiased, with the
    exact variance n·Σ_k B_qk²·unit_k²·2α_k/(1−α_k)², α_k = e^(−u_k·unit_k) (Proposition 3, whose
    2/u_k² is the variance of noise on the reals). A row off its lattice is measured as rounded and
    B is computed for the rounded row, so rounding to a lattice causes no bias.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.arrays import Floats
from sfumato.errors import StudyError
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.edges import edges_of
from sfumato.noise.allocate import check
from sfumato.noise.search import search_gram
from sfumato.noise.strategies import Fitted, fit, rows_of, units_of
from sfumato.questions.lattice import Lattice
from sfumato.questions.lines import Identity
from sfumato.questions.reconstruction import Reader
from sfumato.questions.workload import Given, Workload
from sfumato.randomness.bits import BitSource
from sfumato.randomness.laplace import discrete_laplace


@dataclass(frozen=True, eq=False)
class MatrixMechanism:
    """Measure the rows of a strategy under any metric, and answer a workload from them.

    Args:
        metric: E between cells.
        strategy: The rows to measure: "identity", "prefix", "hierarchical", "haar", "searched", a
            workload, or a matrix of numbers with one row per measurement.
        workload: The questions, as a workload or a matrix; every cell by default.
        allocation: How the noise is shared among the rows: "exact", or the strategies of
            Kamalaruban et al. 2020, "equal", "shared" and "psa".
        granularity: The unit of the lattice for rows that do not lie on one; found from the rows
            by default.

    Raises:
        StudyError: If the rows cannot express a question; it says which, and what is left of it.
    """

    metric: CellMetric
    strategy: str | Workload | ArrayLike = "identity"
    workload: Workload | ArrayLike | None = None
    allocation: Literal["exact", "equal", "shared", "psa"] = "exact"
    granularity: Any = None
    questions: Workload = field(init=False, repr=False)
    fitted: Fitted = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Put the rows on their lattice, share out the noise, and check both."""
        size, edges = self.metric.size, edges_of(self.metric)
        asked = Identity(size) if self.workload is None else self.workload
        questions = asked if isinstance(asked, Workload) else Given(asked)
        object.__setattr__(self, "questions", questions)
        if isinstance(self.strategy, str) and self.strategy == "searched":
            fitted = search_gram(questions.gram(), edges).best
        else:
            named = isinstance(self.strategy, str)
            rows = rows_of(str(self.strategy), size) if named else self.strategy
            lattice = Lattice.of(rows, self.granularity)
            # This names the questions that the rows cannot express.
            Reader.of(lattice, np.ones(len(lattice)), known_total=True).total(questions)
            fitted = fit(lattice, questions.gram(), edges, method=self.allocation)
        if not check(fitted.lattice, edges, fitted.rates):
            raise StudyError("these rates do not keep the metric; this is a fault: report it")
        object.__setattr__(self, "fitted", fitted)

    @property
    def rates(self) -> tuple[Fraction | None, ...]:
        """1/scale of the noise on each row, exact; None where no noise is needed."""
        return self.fitted.rates

    @property
    def scales(self) -> Floats:
        """The scale s of the noise on each row, 0 where no noise is needed."""
        return 1 / self.fitted.speed

    @cached_property
    def _reader(self) -> Reader:
        """Least squares from the sums of the rows to the questions."""
        return Reader.of(self.fitted.lattice, self.fitted.noise, known_total=True)

    def encode(self, cells: ArrayLike, bits: BitSource) -> NDArray[np.int64]:
        """Measure each person's rows with noise: whole lattice steps, shape (people, rows).

        Args:
            cells: The cell of each person, numbered from 0.
            bits: The source of randomness.
        """
        held, lattice = np.asarray(cells), self.fitted.lattice
        out = np.empty((len(held), len(lattice)), dtype=np.int64)
        for k, (rate, unit) in enumerate(zip(self.rates, lattice.units, strict=True)):
            out[:, k] = lattice.row(k)[held]
            if rate is not None:
                out[:, k] += discrete_laplace(rate * unit, len(held), bits)
        return out

    def answers(self, reports: ArrayLike) -> Floats:
        """The unbiased answer to each question of the workload, from one row per report."""
        held = np.asarray(reports)
        sums = held.sum(axis=0) * units_of(self.fitted.lattice)
        return self._reader.answers(self.questions, np.append(sums, float(len(held))))

    def expected_error(self, n: int) -> Floats:
        """The exact standard error of each question from n reports, for any population."""
        return np.sqrt(n * self._reader.variances(self.questions))

    def total_error(self, n: int) -> float:
        """The expected sum of squared errors over all questions (Proposition 3), exact."""
        return n * self.fitted.error

    def published_error(self, n: int) -> float:
        """The same by the paper's formula, 2n·Σ_k s_k²·‖B_·k‖², for noise on the reals."""
        return float(2 * n * (self.fitted.squares @ self.scales**2))
