"""Integer tables of the comb channel: the combs, how often each is drawn, and words per turn."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import StudyError

MOST_SYMBOLS = 1 << 21
_WEIGHT_BITS = 40


def moduli_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Steps around each axis: its cells, or the next power of two where turns would be many."""
    if math.lcm(*shape) <= 2 * max(shape):
        return shape
    return tuple(1 << (size - 1).bit_length() for size in shape)


def too_many(shape: tuple[int, ...]) -> str | None:
    """Why a grid has too many combs and turns, or None if it has not."""
    around = moduli_of(shape)
    symbols = math.prod(around) // 2 * math.lcm(*around)
    if symbols <= MOST_SYMBOLS:
        return None
    cells = " × ".join(map(str, shape))
    return (
        f"{cells} cells have about {symbols:,} combs and turns ({symbols * 64 / 2**30:.2g} GiB to "
        f"decode); the limit is {MOST_SYMBOLS:,}. Hierarchical() takes more cells"
    )


def all_teeth(moduli: tuple[int, ...]) -> NDArray[np.int64]:
    """All frequencies but zero, one of every pair k and −k."""
    grid = np.indices(moduli).reshape(len(moduli), -1).T
    mirrored = np.ravel_multi_index(tuple((-grid % moduli).T), moduli)
    keep = np.arange(len(grid)) <= mirrored
    keep[0] = False
    result: NDArray[np.int64] = grid[keep].astype(np.int64)
    return result


def comb_weights(
    teeth: NDArray[np.int64], moduli: tuple[int, ...], ordered: tuple[bool, ...]
) -> list[int]:
    """How often each comb is drawn, in integers: 1/k along ordered axes, 2 where it has no teeth.

    Along an axis without order all frequencies weigh the same, and none at all as much as √m.

    Args:
        teeth: Teeth along every axis, one row per comb.
        moduli: Steps around each axis.
        ordered: Which axes have neighbours.
    """
    weights = np.full(len(teeth), 1 << _WEIGHT_BITS, dtype=np.int64)
    for number, modulus, is_ordered in zip(teeth.T, moduli, ordered, strict=True):
        if is_ordered:
            folded = np.minimum(number, modulus - number)
            weights = np.where(number == 0, 2 * weights, weights // np.maximum(folded, 1))
        else:
            weights = np.where(number == 0, math.isqrt(modulus) * weights, weights)
    return [max(1, int(weight)) for weight in weights]


def turn_words(odds: Fraction, tooth: int, circle: int, precision: int) -> list[int]:
    """Words for each distance of the phase beyond the turn: near ones up to `odds` times far ones.

    Far words are rounded up and near ones down; the few that are left go to one far distance.

    Args:
        odds: The largest ratio of two distances.
        tooth: How many distances are near.
        circle: How many distances there are.
        precision: Bits of a random word.
    """
    total = 1 << precision
    far = math.ceil(total / (odds * tooth + circle - tooth))
    near = (total - (circle - tooth) * far) // tooth
    rest = total - (circle - tooth) * far - tooth * near
    if near <= far + rest:
        raise StudyError(
            f"a table of 2^{precision} words is too coarse for {circle} turns at this epsilon; "
            "use a larger epsilon"
        )
    return [*itertools.repeat(near, tooth), far + rest, *itertools.repeat(far, circle - tooth - 1)]
