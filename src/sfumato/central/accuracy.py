"""Error bounds of central mechanisms: the theorems of Kamalaruban et al. 2020 as functions.

They are stated for answers c·q′ with |q′_i − q′_j| ≤ d(i, j); c is the scale of the noise, the
inverse of a rate. `misfit` is how far c·q′ may be from the question q, and 0 where they agree. A
bound holds for every table of n people; actual errors are often far smaller.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from sfumato.checks import is_number
from sfumato.errors import StudyError, shown

__all__ = [
    "exponential_shortfall",
    "laplace_largest_error",
    "laplace_norm_error",
    "laplace_squared_error",
    "mean_largest_error",
    "mean_norm_error",
    "mean_squared_error",
    "multiplicative_weights_chance",
    "multiplicative_weights_error",
    "multiplicative_weights_rounds",
    "small_database_error",
    "small_database_largest_error",
    "small_database_size",
    "worst_shortfall",
]


def laplace_squared_error(scales: ArrayLike, n: int, misfit: ArrayLike = 0.0) -> float:
    """Theorem 2.1: E‖Z − Qx‖₂² ≤ 2n²·‖c⊙Q′ − Q‖₂² + 4·‖c‖₂².

    The factor 2 of the paper is not needed, as the noise has mean 0: `Laplace` itself states the
    exact variance. This is the published form.

    Args:
        scales: The scale c_k of every query's noise.
        n: Number of people.
        misfit: The entries of c⊙Q′ − Q.

    Example:
        >>> round(laplace_squared_error([2.0, 1.0], 100), 9)
        20.0
    """
    return 2 * n**2 * _norm(misfit, 2) ** 2 + 4 * _norm(scales, 2) ** 2


def laplace_norm_error(scales: ArrayLike, n: int, misfit: ArrayLike = 0.0, p: float = 1) -> float:
    """Theorem 2.2: E‖Z − Qx‖_p ≤ n·‖c⊙Q′ − Q‖_p + E‖Y‖_p.

    E‖Y‖_1 is ‖c‖_1; for p = 2 it is bounded by √2·‖c‖_2, for p = ∞ by the largest c times
    1 + 1/2 + … + 1/K, which is what K equal scales have.

    Args:
        scales: The scale c_k of every query's noise.
        n: Number of people.
        misfit: The entries of c⊙Q′ − Q.
        p: Which norm: 1, 2 or infinity.

    Example:
        >>> laplace_norm_error([2.0, 1.0], 100), laplace_norm_error([2.0, 2.0], 100, p=math.inf)
        (3.0, 3.0)
    """
    c = np.abs(np.atleast_1d(np.asarray(scales, dtype=np.float64)))
    noise = {
        1: float(c.sum()),
        2: math.sqrt(2) * _norm(c, 2),
        math.inf: float(c.max()) * float((1 / np.arange(1, len(c) + 1)).sum()),
    }
    if p not in noise:
        raise StudyError(f"p must be 1, 2 or infinity, got p={p}")
    return n * _norm(misfit, p) + noise[p]


def laplace_largest_error(
    scales: ArrayLike, n: int, misfit: ArrayLike = 0.0, *, delta: float
) -> float:
    """Theorem 2.3: with chance 1 − δ, ‖Z − Qx‖_∞ ≤ n·‖c⊙Q′ − Q‖_∞ + ln(K/δ)·‖c‖_∞.

    Args:
        scales: The scale c_k of every query's noise.
        n: Number of people.
        misfit: The entries of c⊙Q′ − Q.
        delta: The chance that the bound fails.

    Example:
        >>> round(laplace_largest_error([2.0, 1.0], 100, delta=0.05), 3)
        7.378
    """
    c = np.atleast_1d(np.asarray(scales, dtype=np.float64))
    chance = _chance(delta, "delta")
    return n * _norm(misfit, math.inf) + math.log(len(c) / chance) * _norm(c, math.inf)


def mean_squared_error(scales: ArrayLike, misfit: ArrayLike = 0.0) -> float:
    """Theorem 11.1: Theorem 2.1 for averages over people.

    Args:
        scales: The scale of every average's noise.
        misfit: The entries of c⊙Q′ − Q for the worst person.
    """
    return laplace_squared_error(scales, 1, misfit)


def mean_norm_error(scales: ArrayLike, misfit: ArrayLike = 0.0, p: float = 1) -> float:
    """Theorem 11.2: Theorem 2.2 for averages over people.

    Args:
        scales: The scale of every average's noise.
        misfit: The entries of c⊙Q′ − Q for the worst person.
        p: Which norm: 1, 2 or infinity.
    """
    return laplace_norm_error(scales, 1, misfit, p)


def mean_largest_error(scales: ArrayLike, misfit: ArrayLike = 0.0, *, delta: float) -> float:
    """Theorem 11.3: Theorem 2.3 for averages over people.

    Args:
        scales: The scale of every average's noise.
        misfit: The entries of c⊙Q′ − Q for the worst person.
        delta: The chance that the bound fails.

    Example:
        >>> round(mean_largest_error([0.02], delta=0.05), 4)
        0.0599
    """
    return laplace_largest_error(scales, 1, misfit, delta=delta)


def exponential_shortfall(
    options: int, c: float, *, delta: float, best: int = 1, misfit: float = 0.0
) -> float:
    """Theorem 4: with chance 1 − δ the score of the choice is less than this below the best.

    u(x, Z) > max u′ − δ_{u,u′} − 2c·(ln(|R|/|R*|) + t), δ = e^−t. The gap between u and u′ has to
    be subtracted; the paper adds it.

    Args:
        options: |R|, how many there are to choose from.
        c: The scale: an option is chosen with chance ∝ e^(score/2c).
        delta: The chance that the bound fails.
        best: |R*|, how many share the best score.
        misfit: δ_{u,u′}, the largest difference between the scores used and those meant.

    Example:
        >>> round(exponential_shortfall(100, 2.0, delta=0.05), 2)
        30.4
    """
    return misfit + 2 * c * (math.log(options / best) - math.log(_chance(delta, "delta")))


def worst_shortfall(options: int, rate: float, *, delta: float) -> float:
    """The exact counterpart of Theorem 4 for one best option: ln((|R|−1)·(1−δ)/δ)/rate.

    Options s or more below the best have weights of at most (|R| − 1)·e^(−rate·s) together,
    against 1 for the best; with all others exactly s below, this is what happens.

    Args:
        options: How many there are to choose from.
        rate: An option is chosen with chance ∝ e^(rate·score).
        delta: The chance that the bound fails.

    Example:
        >>> round(worst_shortfall(100, 0.25, delta=0.05), 2)
        30.16
    """
    chance = _chance(delta, "delta")
    if options < 2:
        return 0.0
    return max(0.0, math.log((options - 1) * (1 - chance) / chance) / rate)


def small_database_size(questions: int, alpha: float) -> int:
    """Records k = ⌈log|Q|/α²⌉ of a small database that can answer all questions to within α·n.

    For a single question log 2 takes the place of log 1, for which nothing is promised.

    Args:
        questions: |Q|.
        alpha: The precision α.

    Example:
        >>> small_database_size(100, 0.5)
        19
    """
    if not is_number(alpha) or not 1e-9 <= alpha <= 1:
        raise StudyError(f"alpha must lie between 1e-9 and 1, got alpha={shown(alpha)}")
    return math.ceil(math.log(max(questions, 2)) / alpha**2)


def small_database_error(
    n: int,
    cells: int,
    questions: int,
    c: float,
    alpha: float,
    *,
    beta: float,
    misfit: float = 0.0,
    spread: float = 1.0,
) -> float:
    """Proposition 1: the largest error with chance 1 − β, for a given α.

    n·misfit + α·n + 2c·(log N·log|Q|/α² + log(1/β)).

    Args:
        n: Number of people.
        cells: N.
        questions: |Q|.
        c: The scale: 1/c is the largest rate that any question could have alone.
        alpha: The precision α.
        beta: The chance that the bound fails.
        misfit: max ‖q − c·q′‖_∞.
        spread: Largest difference of coefficients in a question; the paper has at most 1.

    Example:
        >>> round(small_database_error(1000, 4, 10, 1.0, 0.5, beta=0.05))
        532
    """
    logs = math.log(cells) * math.log(max(questions, 2)) / alpha**2
    return n * misfit + alpha * n * spread + 2 * c * (logs - math.log(_chance(beta, "beta")))


def small_database_largest_error(
    n: int, cells: int, questions: int, c: float, *, beta: float, misfit: float = 0.0
) -> float:
    """Theorem 6: n·misfit + (c·n²·γ)^(1/3), γ = 16·log N·log|Q| + 4·log(1/β), for the best α.

    It is meant for α = (cγ/n)^(1/3) ≤ 1, and says nothing beyond n otherwise.

    Args:
        n: Number of people.
        cells: N.
        questions: |Q|.
        c: The scale: 1/c is the largest rate that any question could have alone.
        beta: The chance that the bound fails.
        misfit: max ‖q − c·q′‖_∞.

    Example:
        >>> round(small_database_largest_error(10**6, 4, 10, 1.0, beta=0.05))
        39802
    """
    gamma = 16 * math.log(cells) * math.log(max(questions, 2)) - 4 * math.log(_chance(beta, "beta"))
    return n * misfit + math.cbrt(c * n**2 * gamma)


def multiplicative_weights_chance(questions: int, rounds: int) -> float:
    """Theorem 8: the chance 1 − 2T/|Q| with which its bound holds.

    Args:
        questions: |Q|.
        rounds: T.
    """
    return max(0.0, 1 - 2 * rounds / questions)


def multiplicative_weights_error(
    n: int,
    cells: int,
    questions: int,
    rounds: int,
    c: float,
    *,
    beta: float | None = None,
    misfit: float = 0.0,
    size: float = 1.0,
) -> float:
    """Theorem 8: 2n·√(log N/T) + 10·T·c·log|Q| + n·misfit, the largest error of MWEM.

    The published bound holds with chance 1 − 2T/|Q|. Its proof allows for an error of
    4Tc·(log|Q| + t) in a choice and of 2Tc·t in a measurement, each missed with chance e^−t; it
    takes t = log|Q|, and t = log(2T/β) gives the bound for any other chance 1 − β.

    Args:
        n: Number of people.
        cells: N.
        questions: |Q|.
        rounds: T.
        c: The scale: 1/c is the largest rate that any question could have alone.
        beta: The chance that the bound fails; left out, the published form.
        misfit: max ‖q − c·q′‖_∞.
        size: Largest absolute coefficient of a question; the paper has at most 1.

    Example:
        >>> round(multiplicative_weights_error(10**6, 1000, 100, 10, 1.0))
        1662719
        >>> round(multiplicative_weights_error(10**6, 1000, 100, 10, 1.0, beta=0.05))
        1662802
    """
    search = 2 * n * size * math.sqrt(math.log(cells) / rounds)
    if beta is None:
        return search + 10 * rounds * c * math.log(questions) + n * misfit
    missed = math.log(2 * rounds / _chance(beta, "beta"))
    return search + rounds * c * (4 * math.log(questions) + 6 * missed) + n * misfit


def multiplicative_weights_rounds(n: int, cells: int, questions: int, c: float) -> int:
    """The number of rounds T that balances both terms of Theorem 8, at least 1.

    2n·√(log N/T) = 10·T·c·log|Q| at T = (n·√log N/(5c·log|Q|))^(2/3).

    Args:
        n: Number of people.
        cells: N.
        questions: |Q|.
        c: The scale: 1/c is the largest rate that any question could have alone.

    Example:
        >>> multiplicative_weights_rounds(10**6, 1000, 100, 10.0)
        507
    """
    balance = n * math.sqrt(math.log(cells)) / (5 * c * math.log(max(questions, 2)))
    return max(1, round(math.cbrt(balance**2)))


def _norm(values: ArrayLike, p: float) -> float:
    """Entrywise p-norm."""
    return float(np.linalg.norm(np.ravel(np.asarray(values, dtype=np.float64)), p))


def _chance(value: float, what: str) -> float:
    """A chance strictly between 0 and 1."""
    if not 0 < value < 1:
        raise StudyError(f"{what} must lie between 0 and 1, got {what}={value}")
    return value
