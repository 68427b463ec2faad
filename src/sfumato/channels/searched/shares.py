"""The shares of given output rows: the least mean square of a channel with these rows.

With P(y | x) = θ_y·q_y(x) and G = WᵀW/rows of the questions, least squares has the mean square
f = tr[G·M⁻¹], M = Σ θ_y q_y q_yᵀ. This is convex in the shares θ, under θ >= 0 and Σ θ_y q_y = 1.
It is an A-optimal design with one constraint per cell.

θ is found by mirror descent with the entropy as its distance: every share is multiplied by the
exponential of its gain, and then by e^(w·νᵀq) with the ν that restores Σ θ_y q_y = 1. Steps w are
inverse to the leverage θ_y·q_yᵀM⁻¹q_y, which bounds the curvature of f along log θ_y.

References:
    Boyd2004, §10.3, for Newton's method under equality constraints; McKenna2020 for the objective.
    The derivation is in "Extremal channel" of the documentation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.arrays import Floats

_SHARE_BITS = 10  # shares are rounded to these binary digits, so that rounding errors end there
_OFFSET = 2**0.5 - 1  # numbers are rounded at an irrational place, where none of interest lies
_FIRST_STEP, _LONGEST_STEP = 0.3, 20.0
_LEAST_LEVERAGE = 0.02
_FURTHEST = 3.0  # in the logarithm of a share, in one step
_CONVERGED, _PRICED = 1e-6, 2e-4  # gains of a step and of any row, relative to f, at the end
_LEAST_SHARE = 1e-9  # so that a row whose share has vanished can return
_NEARLY_LEVEL, _LEVEL = 1e-6, 1e-11  # how far Σ θ_y q_y may be from 1: during descent, and after


@dataclass(frozen=True, slots=True, eq=False)
class Weighed:
    """Shares of a family of rows, and what they say about other rows.

    Attributes:
        shares: θ, one per row.
        prices: λ, the multipliers of Σ θ_y q_y = 1, one per cell.
        kernel: K = M⁻¹GM⁻¹: a row with qᵀKq > λᵀq would lower f.
        leverage: θ_y·q_yᵀM⁻¹q_y, how much depends on each row; they sum to the number of cells.
        value: f.
    """

    shares: Floats
    prices: Floats
    kernel: Floats
    leverage: Floats
    value: float


def weigh(rows: Floats, gram: Floats, shares: Floats, steps: int) -> Weighed:
    """The shares of rows, from given ones, after some steps of mirror descent.

    The result is rounded before it is made level: the rounding errors of another processor are
    gone after that, but for the very rare ones that cross a boundary.

    Args:
        rows: q of mean 1, one row per output and one column per cell.
        gram: G of the workload.
        shares: The initial θ; Σ θ_y q_y should be about 1.
        steps: How many steps at most.

    Raises:
        LinAlgError: If the rows do not tell all cells apart, or cannot be made level.
    """
    even = np.ones(len(shares))
    shares = _levelled(rows, shares, even)
    spread, value = _worth(rows, gram, shares)
    length = _FIRST_STEP
    for _ in range(steps):
        gains, pace = _direction(rows, gram, shares, spread, length / value)
        moved = shares * np.exp(np.clip(pace * gains, -_FURTHEST, _FURTHEST))
        moved = np.maximum(moved, _LEAST_SHARE)
        try:
            moved = _levelled(rows, moved, pace)
            found = _worth(rows, gram, moved)
        except np.linalg.LinAlgError:
            length /= 3
            continue
        if found[1] > value * (1 + _CONVERGED / 1000):
            length /= 3
            continue
        gained = 1 - found[1] / value
        length = min(1.3 * length, _LONGEST_STEP)
        shares, (spread, value) = moved, found
        if gained < _CONVERGED and gains.max() < _PRICED * value:
            break
    shares = _levelled(rows, coarse(shares, _SHARE_BITS), even, _LEVEL)
    spread, value = _worth(rows, gram, shares)
    kernel = spread @ gram @ spread
    # At the optimum qᵀKq = λᵀq for all rows in use: the λ nearest to that, weighted by θ.
    prices = spread @ ((shares * squares(rows, kernel)) @ rows)
    return Weighed(shares, prices, kernel, shares * squares(rows, spread), value)


def level(rows: Floats, shares: Floats) -> Floats:
    """The shares nearest to these, relatively, with Σ θ_y q_y = 1.

    Each step is the change δ of least Σ (δ_y/θ_y)² with Σ δ_y q_y = 1 − Σ θ_y q_y, which is
    δ = Θ²Q·(QᵀΘ²Q)⁻¹·(1 − Qᵀθ); it is repeated where it had to stop short of zero.

    Args:
        rows: q, one row per output and one column per cell.
        shares: θ, one per output.
    """
    for _ in range(20):
        short = 1 - shares @ rows
        if np.abs(short).max() < 1e-14:
            break
        scaled = rows.T * shares**2
        change = np.linalg.lstsq(scaled @ rows, short, rcond=1e-12)[0] @ scaled
        shares = np.maximum(shares + change, shares / 10)
    return shares


def coarse(values: Floats, bits: int) -> Floats:
    """Positive numbers rounded to a few binary digits.

    Args:
        values: The numbers.
        bits: How many digits are kept.

    Example:
        >>> coarse(np.array([1.0, 0.3]), 4).tolist()
        [1.0, 0.3125]
    """
    part, exponent = np.frexp(values)
    result: Floats = np.ldexp(np.floor(np.ldexp(part, bits) + _OFFSET), exponent - bits)
    return result


def in_units(values: Floats, unit: int) -> Floats:
    """Numbers in whole units of 2^-unit, all rounded at the same irrational place.

    Args:
        values: The numbers.
        unit: How fine the units are.
    """
    result: Floats = np.floor(np.ldexp(values, unit) + _OFFSET)
    return result


def squares(rows: Floats, matrix: Floats) -> Floats:
    """qᵀAq of every row.

    Args:
        rows: q, one per row.
        matrix: A.
    """
    result: Floats = np.einsum("ij,ij->i", rows @ matrix, rows)
    return result


def _worth(rows: Floats, gram: Floats, shares: Floats) -> tuple[Floats, float]:
    """M⁻¹ and f."""
    spread = np.linalg.inv(_moments(rows, shares)).astype(np.float64)
    return spread, float(np.sum(spread * gram))


def _moments(rows: Floats, weights: Floats) -> Floats:
    """Σ w_y q_y q_yᵀ. Of a matrix and its own transpose, half of the product is computed."""
    scaled = rows * np.sqrt(weights)[:, None]
    found: Floats = scaled.T @ scaled
    return found


def _direction(
    rows: Floats, gram: Floats, shares: Floats, spread: Floats, length: float
) -> tuple[Floats, Floats]:
    """The gain qᵀKq − λᵀq of every row, and how far log θ goes for a unit of it."""
    pace = length / np.maximum(shares * squares(rows, spread), _LEAST_LEVERAGE)
    square = squares(rows, spread @ gram @ spread)
    weights = shares * pace
    prices = np.linalg.solve(_moments(rows, weights), (weights * square) @ rows)
    return square - rows @ prices, pace


def _levelled(rows: Floats, shares: Floats, pace: Floats, within: float = _NEARLY_LEVEL) -> Floats:
    """θ·e^(w·Qν) with Σ θ_y q_y = 1, by Newton's method for ν.

    Raises:
        LinAlgError: If it does not converge.
    """
    for _ in range(100):
        short = 1 - shares @ rows
        if np.abs(short).max() < within:
            return shares
        change = pace * (rows @ np.linalg.solve(_moments(rows, shares * pace), short))
        shares = shares * np.exp(change / max(1.0, float(np.abs(change).max())))
    raise np.linalg.LinAlgError("the shares of these rows cannot be made level")
