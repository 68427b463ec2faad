"""Reconstruction: from the noisy rows of a strategy A to the questions W = B·A.

Of all B with B·A = W, weighted least squares has the smallest variance (Gauss–Markov):
B = W·(AᵀD⁻¹A)⁺·AᵀD⁻¹, with D the variances of the rows. Rows without noise hold exactly: they are
solved first, and the noisy rows only determine what remains. Rows of infinite variance are ignored.
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

_RANK = 1e-10  # the part of a unit row outside the span of others that counts as rounding
_RESIDUAL = 1e-8  # relative to a question's norm: with a larger residual it cannot be read
_MOST_NAMED = 5
_ENTRIES_AT_ONCE = 1 << 24


def reconstruct(W: Any, A: Any, variances: ArrayLike, *, known_total: bool = False) -> Floats:
    """The matrix B with B·A = W whose answers have the smallest variance.

    Args:
        W: The questions: a `Workload` or a matrix.
        A: The strategy: a `Workload`, a `Lattice` or a matrix over the same cells.
        variances: The variance of the noise on each row of A: 0 for no noise, infinity for a row
            that is to be ignored.
        known_total: Whether the number of people is public. B then has one more column, the last,
            for that number.

    Returns:
        B, with one row per question and one column per row of A.

    Raises:
        StudyError: If A cannot express some question; the message names it, with its residual.

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
    """The sum of the variances of all questions, from the Gram matrix where that is possible.

    Args:
        W: The questions.
        A: The strategy.
        variances: The variance of the noise on each row of A.
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
    """The variance of each question, without computing B.

    Args:
        W: The questions.
        A: The strategy.
        variances: The variance of the noise on each row of A.
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
    """A strategy with its noise, decomposed so that it can answer any workload.

    Attributes:
        basis: Orthonormal columns that span the row space of the strategy; those that the rows
            without noise determine come first.
        exact: Number of columns that are known without noise.
        spread: A square root S of the covariance SSᵀ of the estimates of the other columns.
        reading: The weight of each row of the strategy in the estimate of each column.
        cells: Number of cells.
    """

    basis: Floats
    exact: int
    spread: Floats
    reading: Floats
    cells: int

    @classmethod
    def of(cls, A: Any, variances: ArrayLike, *, known_total: bool = False) -> Reader:
        """Decompose a strategy once, for any number of workloads.

        Args:
            A: The strategy: a `Workload`, a `Lattice` or a matrix.
            variances: The variance of the noise on each row of A.
            known_total: Whether the number of people is public.
        """
        rows, noise = _strategy(A, variances, known_total)
        known = noise == 0.0
        of_use = np.isfinite(noise) & ~known
        exact, others = rows[known], rows[of_use]
        first = _span(exact, _lengths(exact))
        exact_pinv = np.linalg.pinv((exact / _lengths(exact)) @ first) / _lengths(exact).T
        second = _span(others - (others @ first) @ first.T, _lengths(others))
        if not len(exact) and second.shape[1] == rows.shape[1]:
            second = np.eye(rows.shape[1])  # everything can be read: the cells are a basis
        elif len(exact):
            second, _ = np.linalg.qr(second - first @ (first.T @ second))
        # Least squares for the coordinates in the basis: minimise ‖D^(−1/2)(A·V·z − y)‖ over z.
        # D^(−1/2)·A·V has full column rank for all scales, and its QR gives z = R⁻¹Qᵀ D^(−1/2) y.
        scales = np.sqrt(noise[of_use])
        scaled = (others @ second) / scales[:, None]
        spread, read = _least_squares(scaled)
        read /= scales
        reading = np.zeros((first.shape[1] + second.shape[1], len(rows)))
        reading[: first.shape[1], known] = exact_pinv
        reading[first.shape[1] :, of_use] = read
        # The noisy rows also depend on the exact columns: subtract that known part.
        reading[first.shape[1] :, known] = -read @ (others @ first) @ exact_pinv
        return cls(np.hstack([first, second]), first.shape[1], spread, reading, rows.shape[1])

    def matrix(self, W: Any) -> Floats:
        """The matrix B for a workload."""
        workload = _workload(W)
        if workload.questions * self.reading.shape[1] > MOST_ENTRIES:
            raise TooLargeError(
                f"a matrix of {workload.questions:,} questions × {self.reading.shape[1]:,} rows "
                f"of the strategy is beyond the limit of {MOST_ENTRIES:,} entries; answer the "
                "questions in parts"
            )
        return np.asarray(self._checked(workload) @ (self.basis @ self.reading))

    def variances(self, W: Any) -> Floats:
        """The variance of each question."""
        return _square_sums(self._checked(W), self._half())

    def _half(self) -> Floats:
        """A square root of the covariance of the cells, within the span of the strategy."""
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
        """Answers to the questions, read from noisy rows.

        Args:
            W: The questions.
            noisy: The measured value of each row of the strategy; with `known_total`, the number
                of people last.
        """
        workload = self._checked(W)
        return np.asarray(workload @ (self.basis @ (self.reading @ np.asarray(noisy, dtype=float))))

    def _checked(self, W: Any) -> Workload:
        """The workload, refused if the strategy cannot express it."""
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
        """Whether the Gram matrix shows that all residuals are 0; if not, they must be checked."""
        left = gram - self.basis @ (self.basis.T @ gram)
        return float(np.trace(left)) <= (_RESIDUAL**2 / 4) * float(np.trace(gram))

    def _refuse(self, workload: Workload) -> None:
        """Refuse questions with a residual."""
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
        """The norm of the residual of each question outside the basis, and of the question."""
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
    """The squared norm of each row of workload·columns, in blocks of columns."""
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
    """The rows of a strategy and the variances of their noise; a known total comes last."""
    held: Any = A.matrix() if isinstance(A, Lattice) else A
    rows = held.dense() if isinstance(held, Workload) else np.atleast_2d(as_dense(held))
    noise = np.asarray(variances, dtype=np.float64)
    if noise.shape != (len(rows),) or np.isnan(noise).any() or (noise < 0).any():
        raise StudyError(
            f"variances must be {len(rows)} numbers of at least 0, one per row of the strategy, "
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
    """R⁻¹ and R⁻¹Qᵀ of a matrix of full column rank, whose rows may differ much in size."""
    if not scaled.shape[1]:
        return np.zeros((0, 0)), np.zeros((0, len(scaled)))
    # With the largest rows first and pivoted columns, QR is row-wise stable: small rows keep
    # their digits (Cox and Higham 1998).
    order = np.argsort(-np.abs(scaled).max(axis=1), kind="stable")
    q, r, columns = linalg.qr(scaled[order], mode="economic", pivoting=True)
    spread: Floats = np.zeros((len(r), len(r)))
    spread[columns] = linalg.solve_triangular(r, np.eye(len(r)))
    read = np.zeros((len(r), len(scaled)))
    read[:, order] = spread @ q.T
    return spread, read


def _lengths(rows: Floats) -> Floats:
    """The norm of each row, as a column; 1 for rows of zeros."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.where(lengths > 0, lengths, 1.0)


def _span(rows: Floats, lengths: Floats) -> Floats:
    """Orthonormal columns that span the rows, up to rounding relative to their norms."""
    if not len(rows):
        return np.zeros((rows.shape[1], 0))
    q, r, _ = linalg.qr((rows / lengths).T, mode="economic", pivoting=True)
    return np.ascontiguousarray(q[:, np.abs(np.diag(r)) > _RANK], dtype=np.float64)
