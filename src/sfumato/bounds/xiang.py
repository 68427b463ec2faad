"""Error bounds of Xiang et al. 2020, Theorems 2 to 5, for the thermometer under E = ε·‖x − x'‖_1.

Variances are in people²: of the estimated count of n people in a box of D axes. They hold for every
population. s = (e^ε + 1)/(e^ε − 1), ε per cell. A function named after a theorem has its printed
expression, with the constant of the proof; where that is no bound it is refused, unless you ask for
it `as_printed`. The corrected bounds have names of their own.
"""

from __future__ import annotations

import math
from typing import Any

from sfumato.bounds.scale import scale
from sfumato.checks import whole
from sfumato.errors import StudyError, shown
from sfumato.exact import positive

_MOST_AXES = 1000


def xiang_theorem_2(
    epsilon: Any, n: int, dimensions: int = 1, *, as_printed: bool = False
) -> float:
    """Theorem 2: the variance of a single cell's count, s^2D·2^−D·(1 − s^−2D)·n.

    It is refused for D ≥ 2, where it is no bound: the proof adds variances of correlated
    observations. `thermometer_variance` is the corrected bound; for D = 1 both agree.

    Args:
        epsilon: ε of one step along an axis.
        n: Number of people.
        dimensions: D, the number of axes.
        as_printed: The expression of the paper, where it is no bound too.

    Example:
        >>> round(xiang_theorem_2(1, 1000), 1)
        1841.3
    """
    return _printed(epsilon, n, dimensions, None, as_printed, "Theorem 2")


def xiang_theorem_3(
    epsilon: Any,
    n: int,
    dimensions: int = 1,
    nontrivial: int | None = None,
    *,
    as_printed: bool = False,
) -> float:
    """Theorem 3: the variance of the count of a box, s^2D·2^−D_R·(1 − s^−2D)·n.

    It is for the published code, whose last bit is noisy, and is refused for D ≥ 2, where it is no
    bound (see `xiang_theorem_2`). `thermometer_variance` is the corrected one.

    Args:
        epsilon: ε of one step along an axis.
        n: Number of people.
        dimensions: D, the number of axes.
        nontrivial: D_R, on how many axes the box is not the full axis; left out, on all.
        as_printed: The expression of the paper, where it is no bound too.

    Example:
        >>> round(xiang_theorem_3(1, 1000, nontrivial=0), 1)
        3682.7
        >>> round(xiang_theorem_3("0.5", 1, 2, as_printed=True), 1)
        69.2
    """
    return _printed(epsilon, n, dimensions, nontrivial, as_printed, "Theorem 3")


def thermometer_variance(
    epsilon: Any, n: int, *, inner: int = 1, ends: int = 0, full: int = 0, published: bool = False
) -> float:
    """The largest variance of the count of a box: Theorems 2 and 3, corrected.

    A person's second moments multiply over axes, and are largest inside the box: Π M − 1 a person,
    reached where everybody is inside. M is (s² + 1)/2 on an axis where the box touches no end,
    (s² + 3)/4 where it touches one, and 1 on a full axis. In the published code, whose last bit is
    noisy, M is (s² + 1)/2 and s².

    Args:
        epsilon: ε of one step along an axis.
        n: Number of people.
        inner: On how many axes the box touches no end.
        ends: On how many axes it touches one end.
        full: On how many axes it is the full axis.
        published: For `Thermometer(variant="published")`.

    Example:
        >>> round(thermometer_variance("0.5", 1, inner=2, published=True), 1)
        77.1
        >>> round(thermometer_variance(1, 1000)) == round(xiang_theorem_2(1, 1000))
        True
    """
    return whole(n, "n", least=1) * (_moment(epsilon, inner, ends, full, published) - 1)


def xiang_theorem_4(
    epsilon: Any,
    n: int,
    largest: float,
    dimensions: int = 1,
    nontrivial: int | None = None,
    *,
    private: bool = False,
    as_printed: bool = False,
) -> float:
    """Theorem 4: the variance of a sum of weights over a box, Δ² times that of Theorem 3.

    With private weights, which are one axis more, it is no bound, even for D = 1; with public ones
    it is as Theorem 3. `weighted_thermometer_variance` is the corrected bound.

    Args:
        epsilon: ε of one step along an axis.
        n: Number of people.
        largest: Δ, the largest weight; the least is 0.
        dimensions: D, the number of axes.
        nontrivial: D_R, on how many axes the box is not the full axis; left out, on all.
        private: Part 2, where each weight is rounded to 0 or Δ at random and reported by a noisy
            bit; else part 1.
        as_printed: The expression of the paper, where it is no bound too.

    Example:
        >>> round(xiang_theorem_4(1, 1000, 5.0) / xiang_theorem_3(1, 1000), 9)
        25.0
    """
    square = float(positive(largest, "largest")) ** 2
    if not private:
        return square * _printed(epsilon, n, dimensions, nontrivial, as_printed, "Theorem 4(1)")
    axes = whole(dimensions, "dimensions", least=1)
    if not as_printed:
        raise StudyError(
            f"Theorem 4(2) of Xiang et al. 2020 is no bound for any number of axes, got dimensions="
            f"{axes}. Use weighted_thermometer_variance(..., private=True), or as_printed=True for "
            "the paper's expression"
        )
    cut = whole(axes if nontrivial is None else nontrivial, "nontrivial", most=axes)
    return square * _printed(epsilon, n, axes + 1, cut + 1, True, "Theorem 4(2)")


def weighted_thermometer_variance(
    epsilon: Any,
    n: int,
    largest: float,
    *,
    inner: int = 1,
    ends: int = 0,
    full: int = 0,
    private: bool = False,
    published: bool = False,
) -> float:
    """The largest variance of a sum of weights over a box: Theorem 4, corrected.

    With public weights it is Δ² times `thermometer_variance`. Private weights w = u·Δ are an axis
    of two cells with second moment k + u, k = (s² − 1)/4, and (s² − 1)/2 in the published code. A
    person inside the box has the variance Δ²·(Π M·(k + u) − u²), at the u that makes it largest.

    Args:
        epsilon: ε of one step along an axis, and between weights of 0 and Δ.
        n: Number of people.
        largest: Δ, the largest weight; the least is 0.
        inner: On how many axes the box touches no end.
        ends: On how many axes it touches one end.
        full: On how many axes it is the full axis.
        private: Whether weights are private.
        published: For `Thermometer(variant="published")`.

    Example:
        >>> round(weighted_thermometer_variance(1, 1, 1.0, private=True, published=True), 2)
        7.07
        >>> round(xiang_theorem_4(1, 1, 1.0, private=True, as_printed=True), 2)
        5.23
    """
    people, square = whole(n, "n", least=1), float(positive(largest, "largest")) ** 2
    moment = _moment(epsilon, inner, ends, full, published)
    if not private:
        return people * square * (moment - 1)
    k = (_squared_scale(epsilon) - 1) / (2 if published else 4)
    u = min(1.0, moment / 2)
    return people * square * (moment * (k + u) - u**2)


def xiang_lemma_1(epsilon: Any, n: int, delta: float) -> float:
    """Lemma 1: how far an estimated percentile may be off with chance 1 − δ, s·√(2/n·ln(1/δ)).

    In shares of the people, for one threshold of one axis. The printed proof lacks a factor 2 of
    Hoeffding's inequality and takes o_1 for o_m; with both put right it is proved for δ ≤ 1/2, and
    refused beyond. The exact last bit only helps.

    Args:
        epsilon: ε of one step along the axis.
        n: Number of people.
        delta: The chance that the bound fails.

    Example:
        >>> round(xiang_lemma_1(1, 100_000, 0.05), 4)
        0.0167
    """
    return _hoeffding(epsilon, n, _at_most_half(delta, "Lemma 1"))


def xiang_theorem_5(epsilon: Any, n: int, cells: int, delta: float) -> float:
    """Theorem 5: how far the share at a quantile found by bisection may be from the one asked for.

    With chance 1 − δ, inf |p − q| over p in (F(x − 1), F(x)], x the quantile found for q, is at
    most 2s·√(2/n·ln(2·⌈log2 m⌉/δ)), in shares of the people. Bisection reads ⌈log2 m⌉ thresholds at
    most, each within Lemma 1; the paper does not say that its log m is to base 2, and rounded up.

    Args:
        epsilon: ε of one step along the axis.
        n: Number of people.
        cells: m, the cells of the axis, 2 or more.
        delta: The chance that the bound fails, at most 1/2 as in Lemma 1.

    Example:
        >>> round(xiang_theorem_5(1, 100_000, 200, 0.05), 4)
        0.0465
    """
    steps = (whole(cells, "cells", least=2) - 1).bit_length()
    return 2 * _hoeffding(epsilon, n, _at_most_half(delta, "Theorem 5") / (2 * steps))


def _printed(
    epsilon: Any, n: int, dimensions: int, nontrivial: int | None, as_printed: bool, theorem: str
) -> float:
    """s^2D·2^−D_R·(1 − s^−2D)·n, refused where it is no bound."""
    s2, people = _squared_scale(epsilon), whole(n, "n", least=1)
    axes = whole(dimensions, "dimensions", least=1, most=_MOST_AXES)
    cut = whole(axes if nontrivial is None else nontrivial, "nontrivial", most=axes)
    if axes > 1 and not as_printed:
        raise StudyError(
            f"{theorem} of Xiang et al. 2020 is a bound for one axis only, got dimensions={axes}: "
            "its proof adds variances of correlated observations. Use thermometer_variance, or "
            "as_printed=True for the paper's expression"
        )
    return people * (_power(s2, axes) - 1) / 2.0**cut


def _power(base: float, exponent: int) -> float:
    """A power, infinite beyond all doubles: then nothing is bounded."""
    try:
        return base**exponent
    except OverflowError:
        return math.inf


def _hoeffding(epsilon: Any, n: int, delta: float) -> float:
    """The bound of Lemma 1."""
    return scale(epsilon) * math.sqrt(-2 * math.log(delta) / whole(n, "n", least=1))


def _squared_scale(epsilon: Any) -> float:
    """The square of s, infinite beyond all doubles."""
    s = scale(epsilon)
    return s * s


def _moment(epsilon: Any, inner: int, ends: int, full: int, published: bool) -> float:
    """The second moment of a person inside the box: a product over axes."""
    s2 = _squared_scale(epsilon)
    given = {"inner": inner, "ends": ends, "full": full}
    free, touching, whole_axes = (
        whole(count, name, most=_MOST_AXES) for name, count in given.items()
    )
    if not free + touching + whole_axes:
        raise StudyError("a box needs an axis: inner, ends and full must not all be 0")
    if published:
        return _power((s2 + 1) / 2, free + touching) * _power(s2, whole_axes)
    return _power((s2 + 1) / 2, free) * _power((s2 + 3) / 4, touching)


def _at_most_half(delta: Any, theorem: str) -> float:
    """δ, for which Lemma 1 is proved."""
    if not isinstance(delta, (int, float)) or isinstance(delta, bool) or not 0 < delta <= 0.5:
        raise StudyError(
            f"{theorem} of Xiang et al. 2020 is proved for 0 < δ <= 1/2, got delta={shown(delta)}; "
            "use a delta of at most 0.5"
        )
    return float(delta)
