"""Error bounds of Cormode et al. 2019: Fact 3, Theorems 1 and 2, equations (1) to (3).

Variances are in shares squared: of the estimated share of n people in a range of r cells among D;
multiply by n² for counts. They hold for every population. All are multiples of V_F, the variance of
a node's share by the frequency oracle.

The paper's V_F, `cormode_oracle_variance`, is that of a node which nobody is in, by people who all
report its level. It leaves out what the person's own node and the draw of a level add, and with it
every bound here fails where ε is large. With `sampled_oracle_variance` they hold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from sfumato.checks import one_of, whole
from sfumato.errors import StudyError, shown
from sfumato.exact import positive

_OWN = {"oue": 2, "hrr": 1}


def cormode_oracle_variance(epsilon: Any, n: int) -> float:
    """V_F as printed for OUE, OLH and HRR: 4e^ε/(n·(e^ε − 1)²).

    Exact for a node with nobody in it, if all n people report its level. The exact values for a
    share θ are larger by θ/n (OUE, OLH) and (1 − θ)/n (HRR), and where levels are drawn by more:
    see `sampled_oracle_variance`.

    Args:
        epsilon: ε.
        n: Number of people.

    Example:
        >>> round(1000 * cormode_oracle_variance(1, 1000), 3)
        3.683
    """
    half = min(float(positive(epsilon, "epsilon")), 700.0) / 2
    return 1 / math.sinh(half) / math.sinh(half) / whole(n, "n", least=1)


def sampled_oracle_variance(epsilon: Any, n: int, oracle: str = "oue") -> float:
    """V_F where each person draws a level: 4e^ε/(n·(e^ε − 1)²) + 2/n for OUE, + 1/n for HRR.

    The second moment of a node's reading by a person who reports its level, at its largest: 1/n is
    the person's own bit under OUE, and 1/n the draw of the level. With it the bounds of this module
    hold for `Hierarchical` and `HaarHRR`.

    Args:
        epsilon: ε.
        n: Number of people.
        oracle: "oue" or "hrr".

    Example:
        >>> round(1000 * sampled_oracle_variance(1, 1000, "hrr"), 3)
        4.683
    """
    own = _OWN[one_of(oracle, "oracle", _OWN)]
    return cormode_oracle_variance(epsilon, n) + own / n


def cormode_fact_3(length: int, branching: int) -> int:
    """Fact 3: the most nodes that make up a range, (B − 1)·(2·⌈log_B r⌉ − 1).

    It is refused for r = 1 and r = B, where it fails: B cells may lie in two nodes, and then take B
    leaves. `range_nodes` holds for all r.

    Args:
        length: r, the cells of the range.
        branching: B, the children of a node.

    Example:
        >>> cormode_fact_3(21, 2)
        9
    """
    b, r = whole(branching, "branching", least=2), whole(length, "length", least=1)
    if r in (1, b):
        raise StudyError(
            f"Fact 3 of Cormode et al. 2019 fails for ranges of 1 and of B cells, got length={r} "
            f"with branching={b}. Use range_nodes, which holds for every length"
        )
    return (b - 1) * (2 * _levels(b, r) - 1)


def range_nodes(length: int, branching: int) -> int:
    """The most nodes that make up a range, 2(B − 1)·(⌊log_B r⌋ + 1): Fact 3, corrected.

    At most B − 1 nodes at either end of each level whose nodes are no longer than the range.

    Args:
        length: r, the cells of the range.
        branching: B, the children of a node.

    Example:
        >>> range_nodes(1, 2), range_nodes(2, 2), range_nodes(21, 2)
        (2, 4, 10)
    """
    b, r = whole(branching, "branching", least=2), whole(length, "length", least=1)
    return 2 * (b - 1) * (_levels(b, r + 1))


def cormode_theorem_1(
    oracle_variance: float, length: int, branching: int, chances: Sequence[Any]
) -> float:
    """Theorem 1: the variance of a range, V_F·Σ_{l ≤ α} 2(B − 1)/p_l, α = ⌈log_B r⌉.

    It is for a hierarchy without consistency, and refused for r = 1, where it says 0.
    `hierarchy_variance` holds for every r.

    Args:
        oracle_variance: V_F.
        length: r, the cells of the range.
        branching: B, the children of a node.
        chances: p_l, that of the leaves first and the level below the root last.

    Example:
        >>> cormode_theorem_1(1.0, 9, 4, ["1/3", "1/3", "1/3"])
        36.0
    """
    b, r = whole(branching, "branching", least=2), _longer(length, 1, "Theorem 1", "length >= 2")
    p = [positive(chance, "chances") for chance in chances]
    if sum(p, Fraction(0)) > 1 + Fraction(1, 10**9):
        raise StudyError(f"the chances of levels must sum to 1 at most, got {float(sum(p)):.6g}")
    levels = _levels(b, r)
    if levels > len(p):
        raise StudyError(
            f"a tree of {len(p)} levels has at most {b ** len(p):,} cells, got length={r}; use a "
            "shorter range, or give the chance of every level"
        )
    return _variance(oracle_variance) * 2 * (b - 1) * sum(float(1 / each) for each in p[:levels])


def cormode_equation_1(oracle_variance: float, length: int, cells: int, branching: int) -> float:
    """Equation (1): Theorem 1 where levels are drawn evenly, 2(B − 1)·V_F·h·⌈log_B r⌉.

    It is for a hierarchy without consistency, and refused for r = 1, where it says 0.
    `hierarchy_variance` holds for every r.

    Args:
        oracle_variance: V_F.
        length: r, the cells of the range.
        cells: D; the height of the tree is h = ⌈log_B D⌉.
        branching: B, the children of a node.

    Example:
        >>> cormode_equation_1(1.0, 9, 64, 4)
        36.0
    """
    b, h = _tree(length, cells, branching)
    r = _longer(length, 1, "Equation (1)", "length >= 2")
    return _variance(oracle_variance) * 2 * (b - 1) * h * _levels(b, r)


def hierarchy_variance(oracle_variance: float, length: int, cells: int, branching: int) -> float:
    """The variance of a range where levels are drawn evenly: Theorem 1 and (1), corrected.

    V_F·h times the nodes of `range_nodes`, of which a tree of h levels has 2(B − 1)·h at most. It
    holds with and without consistency.

    Args:
        oracle_variance: V_F.
        length: r, the cells of the range.
        cells: D; the height of the tree is h = ⌈log_B D⌉.
        branching: B, the children of a node.

    Example:
        >>> hierarchy_variance(1.0, 1, 64, 4), hierarchy_variance(1.0, 64, 64, 4)
        (18.0, 54.0)
    """
    b, h = _tree(length, cells, branching)
    nodes = min(range_nodes(length, b), 2 * (b - 1) * h)
    return _variance(oracle_variance) * h * nodes


def cormode_theorem_2(oracle_variance: float, cells: int, branching: int) -> float:
    """Theorem 2: the mean variance over all ranges, 2(B − 1)·V_F·log_B D·log_B(3D²/(1 + 2D)).

    The paper calls it approximate, for large D: its proof subtracts an upper bound, and divides by
    D(D − 1)/2 in place of the D(D + 1)/2 ranges. Exact means are far below it.

    Args:
        oracle_variance: V_F.
        cells: D, 2 or more; log_B D is rounded up to the height of the tree.
        branching: B, the children of a node.

    Example:
        >>> round(cormode_theorem_2(1.0, 256, 4), 1)
        103.0
    """
    b, h = _tree(1, cells, branching)
    mean_levels = math.log(3 * cells**2 / (1 + 2 * cells), b)
    return _variance(oracle_variance) * 2 * (b - 1) * h * mean_levels


def cormode_equation_2(
    oracle_variance: float, length: int, cells: int, branching: int = 8
) -> float:
    """Equation (2): the variance of a range with consistency, (B + 1)/2·V_F·log_B r·log_B D.

    For B = 8 it is ½·V_F·log2 r·log2 D. It is refused for r < B, where it fails: it gives less than
    one level to a range that needs one. `hierarchy_variance` holds there too.

    Args:
        oracle_variance: V_F.
        length: r, the cells of the range.
        cells: D; log_B D is rounded up to the height of the tree.
        branching: B, the children of a node.

    Example:
        >>> round(cormode_equation_2(1.0, 8, 64), 9)
        9.0
    """
    b, h = _tree(length, cells, branching)
    r = _longer(length, b - 1, "Equation (2)", f"length >= branching={b}")
    return _variance(oracle_variance) * (b + 1) / 2 * h * math.log(r, b)


def cormode_equation_3(oracle_variance: float, cells: int) -> float:
    """Equation (3): the variance of any range by HaarHRR, ½·(log2 D)²·V_F.

    Args:
        oracle_variance: V_F; of `sampled_oracle_variance` that of "hrr".
        cells: D, 2 or more; log2 D is rounded up to the height of the tree.

    Example:
        >>> cormode_equation_3(1.0, 256)
        32.0
    """
    h = _levels(2, whole(cells, "cells", least=2))
    return _variance(oracle_variance) * h * h / 2


def _levels(b: int, r: int) -> int:
    """⌈log_B r⌉, exactly; of r + 1 it is ⌊log_B r⌋ + 1."""
    levels, reach = 0, 1
    while reach < r:
        levels, reach = levels + 1, reach * b
    return levels


def _tree(length: int, cells: int, branching: int) -> tuple[int, int]:
    """B and h, for a range that lies on the axis."""
    b, size = whole(branching, "branching", least=2), whole(cells, "cells", least=2)
    if whole(length, "length", least=1) > size:
        raise StudyError(
            f"a range cannot be longer than the axis, got length={length} with cells={size}; use a "
            "length of at most cells"
        )
    return b, _levels(b, size)


def _longer(length: int, fails: int, theorem: str, rule: str) -> int:
    """r, for which the bound holds."""
    r = whole(length, "length", least=1)
    if r <= fails:
        raise StudyError(
            f"{theorem} of Cormode et al. 2019 holds for {rule} only, got length={r}. Use "
            "hierarchy_variance, which holds for every length"
        )
    return r


def _variance(value: Any) -> float:
    """V_F, as a number."""
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not good or not 0 < value < math.inf:
        raise StudyError(
            f"oracle_variance must be positive and finite, got oracle_variance={shown(value)}; see "
            "sampled_oracle_variance"
        )
    return float(value)
