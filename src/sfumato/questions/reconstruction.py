"""From a strategy's noisy rows A back to the questions W = B·A, by weighted least squares.

Of all B with B·A = W the one with the smallest variance: B = W·(AᵀD⁻¹A)⁺·AᵀD⁻¹ with D the variances
of the rows. Rows without noise hold exactly: what they say is taken off first, and only what they
leave open is read from the others. Rows of infinite variance say nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from sfumato.arrays import Floats
from sfumato.errors import StudyError, TooLargeError
from sfumato.questions.lattice import Lattice
from sfumato.questions.workload import MOST_ENTRIES, MOST_GRAM_CELLS, Given, Workload, as_dense

_RANK = 1e-10  # what unit rows add to those before them, if it is less than this, is rounding
_RESIDUAL = 1e-8  # of a question's own size: what is left of it by more cannot be read
_MOST_NAMED = 5
_ENTRIES_AT_ONCE = 1 << 24


def reconstruct(W: Any, A: Any, variances: ArrayLike, *, known_total: bool = False) -> Floats:
    """The B with B·A = W whose answers have the smallest variance.

    Args:
        W: The questions: a `Workload` or a matrix.
        A: The strategy: a `Workload`, a `Lattice` or a matrix over the same cells.
        variances: Of the noise on each row of A; 0 for none, infinity for a row of no use.
        known_total: Whether the number of people is public. B then has one column more, the last,
            for that number.

    Returns:
        B, a row a question and a column a row of A.

    Raises:
        StudyError: If A cannot express some question; it is named, with what is left of it.

    Example:
        >>> import sfumato as sf
        >>> prefixes = sf.questions.Prefixes(3)
        >>> reconstruct(sf.questions.Identity(3), prefixes, [1, 1, 1]).round(3) + 0.0
        array([[ 1.,  0.,  0.],
               [-1.,  1.,  0.],
               [ 0., -1.,  1.]])
        >>> reconstruct([[0, 0, 1]], [[1, 1, 0]], [2], known_total=True).round(3)
        array([[-1.,  1.]])
    """
    return Reader.of(A, variances, known_total=known_total).matrix(W)


def total_error(W: Any, A: Any, variances: ArrayLike, *, known_total: bool = False) -> float:
    """The sum of the variances of all questions, without B where the Gram matrix will do.

    Args:
        W: The questions.
        A: The strategy.
        variances: Of the noise on each row of A.
        known_total: Whether the number of people is public.

    Raises:
        StudyError: If A cannot express some question.

    Example:
        >>> import sfumato as sf
        >>> found = total_error(sf.questions.Ranges(10), sf.questions.Identity(10), [2.0] * 10)
        >>> round(found, 9)
        440.0
    """
    return Reader.of(A, variances, known_total=known_total).total(W)


def question_variances(
    W: Any, A: Any, variances: ArrayLike, *, known_total: bool = False
) -> Floats:
    """The variance of every question, without B.

    Args:
        W: The questions.
        A: The strategy.
        variances: Of the noise on each row of A.
        known_total: Whether the number of people is public.

    Raises:
        StudyError: If A cannot express some question.

    Example:
        >>> import sfumato as sf
        >>> found = question_variances(sf.questions.Ranges(2), sf.questions.Prefixes(2), [1, 1])
        >>> found.round(9)
        array([1., 1., 2.])
    """
    return Reader.of(A, variances, known_total=known_total).variances(W)


@dataclass(frozen=True, slots=True, eq=False)
class Reader:
    """A strategy with its noise, ready to answer workloads.

    Attributes:
        basis: Orthonormal columns that span what rows of the strategy can say, those that exact
            rows say first.
        exact: How many columns are known without noise.
        spread: The square root of the covariance of what the other columns read: their estimate
            is the truth plus spread times unit noise.
        reading: What every row of the strategy adds to each column.
        cells: Number of cells.
    """

    basis: Floats
    exact: int
    spread: Floats
    reading: Floats
    cells: int

    @classmethod
    def of(cls, A: Any, variances: ArrayLike, *, known_total: bool = False) -> Reader:
        """Decompose a strategy once, for any number of workloads."""
        rows, noise = _strategy(A, variances, known_total)
        known = noise == 0.0
        of_use = np.isfinite(noise) & ~known
        exact, others = rows[known], rows[of_use]
        first = _span(exact, _lengths(exact))
        exact_pinv = np.linalg.pinv((exact / _lengths(exact)) @ first) / _lengths(exact).T
        second = _span(others - (others @ first) @ first.T, _lengths(others))
        if not len(exact) and second.shape[1] == rows.shape[1]:
            second = np.eye(rows.shape[1])  # cells themselves are the plainest basis of all
        elif len(exact):
            second, _ = np.linalg.qr(second - first @ (first.T @ second))
        # Least squares on a basis: the scaled matrix has full column rank whatever the scales.
        scales = np.sqrt(noise[of_use])
        scaled = (others @ second) / scales[:, None]
        spread, read = _least_squares(scaled)
        read /= scales
        reading = np.zeros((first.shape[1] + second.shape[1], len(rows)))
        reading[: first.shape[1], known] = exact_pinv
        reading[first.shape[1] :, of_use] = read
        # The noisy rows see exact columns too: what these add is known, and taken off.
        reading[first.shape[1] :, known] = -read @ (others @ first) @ exact_pinv
        return cls(np.hstack([first, second]), first.shape[1], spread, reading, rows.shape[1])

    def matrix(self, W: Any) -> Floats:
        """B for a workload."""
        workload = _workload(W)
        if workload.questions * self.reading.shape[1] > MOST_ENTRIES:
            raise TooLargeError(
                f"a matrix of {workload.questions:,} questions × {self.reading.shape[1]:,} rows "
                f"of the strategy is beyond the limit of {MOST_ENTRIES:,} entries; answer the "
                "questions in parts"
            )
        return np.asarray(self._checked(workload) @ (self.basis @ self.reading))

    def variances(self, W: Any) -> Floats:
        """The variance of every question."""
        return _square_sums(self._checked(W), self._half())

    def _half(self) -> Floats:
        """The square root of the covariance of cells, as far as the strategy says anything."""
        return self.basis[:, self.exact :] @ self.spread

    def total(self, W: Any) -> float:
        """The sum of all variances."""
        workload = _workload(W)
        if workload.cells != self.cells or workload.cells > MOST_GRAM_CELLS:
            return float(self.variances(workload).sum())
        gram = workload.gram()
        if self.basis.shape[1] < self.cells and not self._covers(gram):
            self._refuse(workload)
        half = self._half()
        return float(np.sum(half * (gram @ half)))

    def answers(self, W: Any, noisy: ArrayLike) -> Floats:
        """The questions, read from what the rows of the strategy said."""
        workload = self._checked(W)
        return np.asarray(workload @ (self.basis @ (self.reading @ np.asarray(noisy, dtype=float))))

    def _checked(self, W: Any) -> Workload:
        """A workload that the strategy expresses."""
        workload = _workload(W)
        if workload.cells != self.cells:
            raise StudyError(
                f"questions and strategy must be about the same cells, got {workload.cells} and "
                f"{self.cells}"
            )
        if self.basis.shape[1] < self.cells:
            self._refuse(workload)
        return workload

    def _covers(self, gram: Floats) -> bool:
        """Whether nothing is left of any question, seen by the Gram matrix; may be unsure."""
        left = gram - self.basis @ (self.basis.T @ gram)
        return float(np.trace(left)) <= (_RESIDUAL**2 / 4) * float(np.trace(gram))

    def _refuse(self, workload: Workload) -> None:
        """Refuse questions of which something is left."""
        left, size = self._left(workload)
        lost = np.flatnonzero(left > _RESIDUAL * np.maximum(size, np.finfo(float).tiny))
        if not len(lost):
            return
        worst = lost[:_MOST_NAMED]
        named = ", ".join(f"{workload.labels[int(q)]!r} (residual {left[q]:.3g})" for q in worst)
        more = f" and {len(lost) - len(worst)} more" if len(lost) > len(worst) else ""
        raise StudyError(
            f"the strategy cannot express {len(lost)} of {workload.questions} questions: "
            f"{named}{more}; add rows to the strategy that tell the cells of these apart, or leave "
            "the questions out"
        )

    def _left(self, workload: Workload) -> tuple[Floats, Floats]:
        """What is left of every question outside the basis, and its own size."""
        if workload.cells <= MOST_GRAM_CELLS:
            every = np.eye(self.cells)
            squares = _square_sums(workload, every - self.basis @ self.basis.T)
            return np.sqrt(squares), np.sqrt(_square_sums(workload, every))
        left, sizes = np.zeros(workload.questions), np.zeros(workload.questions)
        for part, rows in workload.chunks():
            sizes[part] = np.linalg.norm(rows, axis=1)
            left[part] = np.linalg.norm(rows - (rows @ self.basis) @ self.basis.T, axis=1)
        return left, sizes


def _square_sums(workload: Workload, columns: Floats) -> Floats:
    """The squared length of every row of a product, some columns at a time."""
    total = np.zeros(workload.questions)
    step = max(1, _ENTRIES_AT_ONCE // workload.questions)
    for start in range(0, columns.shape[1], step):
        part = np.asarray(workload @ columns[:, start : start + step])
        total += np.einsum("qc,qc->q", part, part)
    return total


def _workload(W: Any) -> Workload:
    """Questions as a workload."""
    if isinstance(W, Lattice):
        return Given(W.matrix())
    return W if isinstance(W, Workload) else Given(W)


def _strategy(A: Any, variances: ArrayLike, known_total: bool) -> tuple[Floats, Floats]:
    """The rows of a strategy and the variances of their noise, the total last if it is known."""
    held: Any = A.matrix() if isinstance(A, Lattice) else A
    rows = held.dense() if isinstance(held, Workload) else np.atleast_2d(as_dense(held))
    noise = np.asarray(variances, dtype=np.float64)
    if noise.shape != (len(rows),) or np.isnan(noise).any() or (noise < 0).any():
        raise StudyError(
            f"variances must be {len(rows)} numbers of at least 0, one a row of the strategy, "
            f"got shape {noise.shape}"
        )
    if known_total:
        rows = np.vstack([rows, np.ones((1, rows.shape[1]))])
        noise = np.append(noise, 0.0)
    if min(rows.shape) > MOST_GRAM_CELLS:
        raise TooLargeError(
            f"a strategy of {rows.shape[0]:,} rows over {rows.shape[1]:,} cells is beyond the "
            f"limit of {MOST_GRAM_CELLS:,} rows or cells; merge cells, or ask about fewer axes"
        )
    return rows, noise


def _least_squares(scaled: Floats) -> tuple[Floats, Floats]:
    """R⁻¹ and R⁻¹Qᵀ of a matrix of full column rank, whose rows may be of very different size."""
    if not scaled.shape[1]:
        return np.zeros((0, 0)), np.zeros((0, len(scaled)))
    # Largest rows first and pivoted columns: small rows then keep their digits.
    order = np.argsort(-np.abs(scaled).max(axis=1), kind="stable")
    q, r, columns = linalg.qr(scaled[order], mode="economic", pivoting=True)
    spread: Floats = np.zeros((len(r), len(r)))
    spread[columns] = linalg.solve_triangular(r, np.eye(len(r)))
    read = np.zeros((len(r), len(scaled)))
    read[:, order] = spread @ q.T
    return spread, read


def _lengths(rows: Floats) -> Floats:
    """The length of every row, as a column; 1 for rows of zeros."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.where(lengths > 0, lengths, 1.0)


def _span(rows: Floats, lengths: Floats) -> Floats:
    """Orthonormal columns that span the rows; what is small beside their lengths is rounding."""
    if not len(rows):
        return np.zeros((rows.shape[1], 0))
    q, r, _ = linalg.qr((rows / lengths).T, mode="economic", pivoting=True)
    return np.ascontiguousarray(q[:, np.abs(np.diag(r)) > _RANK], dtype=np.float64)
