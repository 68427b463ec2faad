"""Error bounds of Acharya et al. 2020, Theorems 3 and 4 and Propositions 4 and 5.

They are for Hadamard response and the distribution from which people are drawn, for every such
distribution. Distances are total variation, a share between 0 and 1. c = (e^ε + 1)/(e^ε − 1).
Theorems give orders of magnitude, whose constants are not known; propositions are bounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sfumato.bounds.scale import scale
from sfumato.checks import is_number, whole
from sfumato.errors import StudyError, shown
from sfumato.exact import positive


def acharya_theorem_3(epsilon: Any, distance: float, cells: int, sensitive: int) -> float:
    """Theorem 3: the order of the number of people needed under HighLow, s²/(α²ε²) + k/(α²ε).

    No bound but an order, for s < k/2 and ε = O(1): the constant is not known. Enough people follow
    from `acharya_proposition_4`, by `people_for_tv(..., proved=True)`.

    Args:
        epsilon: ε.
        distance: α, the wanted total variation distance.
        cells: k.
        sensitive: s, how many cells are sensitive.

    Example:
        >>> round(acharya_theorem_3(1, 0.1, 100, 10))
        20000
    """
    k, s = _sensitive(cells, sensitive)
    if 2 * s >= k:
        raise StudyError(
            f"Theorem 3 of Acharya et al. 2020 needs sensitive < cells/2, got sensitive={s} with "
            f"cells={k}. Use acharya_theorem_4(epsilon, distance, [cells]), plain local privacy"
        )
    eps, alpha = float(positive(epsilon, "epsilon")), _distance(distance)
    return s**2 / (alpha * eps) ** 2 + k / (alpha**2 * eps)


def acharya_theorem_4(epsilon: Any, distance: float, blocks: Sequence[int]) -> float:
    """Theorem 4: the order of the number of people needed under Blocks, Σ k_i²/(α²ε²).

    No bound but an order, for ε = O(1): the constant is not known. Enough people follow from
    `acharya_proposition_5`, by `people_for_tv(..., proved=True)`. One block is plain local privacy,
    equation (3).

    Args:
        epsilon: ε.
        distance: α, the wanted total variation distance.
        blocks: k_i, the cells of every block.

    Example:
        >>> round(acharya_theorem_4(1, 0.1, [50, 50]))
        500000
    """
    eps, alpha = float(positive(epsilon, "epsilon")), _distance(distance)
    return sum(k**2 for k in _blocks(blocks)) / (alpha * eps) ** 2


def acharya_proposition_4(epsilon: Any, n: int, cells: int, sensitive: int) -> float:
    """Proposition 4, (17): E d_TV ≤ c·s·√(3/n) + √(c·k/n) under HighLow.

    Args:
        epsilon: ε.
        n: Number of people.
        cells: k.
        sensitive: s, how many cells are sensitive.

    Example:
        >>> round(acharya_proposition_4(1, 1_000_000, 100, 10), 4)
        0.0522
    """
    k, s = _sensitive(cells, sensitive)
    c, people = scale(epsilon), whole(n, "n", least=1)
    return c * s * math.sqrt(3 / people) + math.sqrt(c * k / people)


def acharya_proposition_5(epsilon: Any, n: int, blocks: Sequence[int]) -> float:
    """Proposition 5, (20): E d_TV ≤ 2c·√(3·Σ k_i²/n) under Blocks.

    One block is plain local privacy.

    Args:
        epsilon: ε.
        n: Number of people.
        blocks: k_i, the cells of every block.

    Example:
        >>> round(acharya_proposition_5(1, 1_000_000, [50, 50]), 2)
        0.53
    """
    people, squares = whole(n, "n", least=1), sum(k**2 for k in _blocks(blocks))
    return 2 * scale(epsilon) * math.sqrt(3 * squares / people)


def acharya_proposition_5_squared(epsilon: Any, n: int, blocks: Sequence[int]) -> float:
    """Proposition 5: E ‖p̂ − p‖₂² ≤ 12·max k_i·c²/n under Blocks, in shares squared.

    Args:
        epsilon: ε.
        n: Number of people.
        blocks: k_i, the cells of every block.

    Example:
        >>> round(acharya_proposition_5_squared(1, 1_000_000, [50, 50]), 6)
        0.00281
    """
    return 12 * max(_blocks(blocks)) * scale(epsilon) ** 2 / whole(n, "n", least=1)


def _sensitive(cells: int, sensitive: int) -> tuple[int, int]:
    """The numbers k and s."""
    k = whole(cells, "cells", least=1)
    return k, whole(sensitive, "sensitive", most=k)


def _blocks(blocks: Sequence[int]) -> list[int]:
    """The sizes of blocks."""
    sizes = [whole(k, "blocks", least=1) for k in np.atleast_1d(np.asarray(blocks)).tolist()]
    if not sizes:
        raise StudyError("blocks must name the cells of at least one block, got none")
    return sizes


def _distance(value: Any) -> float:
    """α, a share."""
    if not is_number(value) or not 0 < value < 1:
        raise StudyError(
            f"distance must lie between 0 and 1, got distance={shown(value)}; write 0.1 for a tenth"
        )
    return float(value)
