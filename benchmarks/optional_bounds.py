"""What no channel can be below where "no answer" is near: two bounds on the error of a range.

`told` follows from Σ_y max_x P(y | x) <= e^c alone, on axes of any length. `least` lists every
extreme ray of E's cone on a few cells, solves for the best channel, and proves by duality that no
other is better, up to the difference that it states.
"""

from __future__ import annotations

import math

import numpy as np

from sfumato.arrays import Floats
from sfumato.channels.searched.shares import squares, weigh

_STEPS = 3_000
_HALVINGS = 200


def ranges(size: int) -> Floats:
    """The mean of wwᵀ over all ranges w of an axis."""
    place = np.arange(size)
    low, high = np.minimum.outer(place, place), np.maximum.outer(place, place)
    found: Floats = (low + 1.0) * (size - high) / (size * (size + 1) / 2)
    return found


def told(size: int, e: float) -> float:
    """The least variance, per person, of a random range: docs/mathematics.md, "Extended channels".

    Args:
        size: How many cells.
        e: E from "no answer" to any of them.
    """
    centre = np.eye(size) - 1 / size
    power = np.sqrt(np.maximum(np.linalg.eigvalsh(centre @ ranges(size) @ centre)[1:], 0))
    low, high = 0.0, 1 / power.min()
    for _ in range(_HALVINGS):  # f_k = min(1, ρ·power_k), with Σ f_k = e^c − 1
        middle = (low + high) / 2
        over = np.minimum(1, middle * power).sum() > math.expm1(e)
        low, high = (low, middle) if over else (middle, high)
    return float(power**2 @ (1 / np.minimum(1, high * power) - 1)) / (size + 1)


def rays(size: int, step: int, e: int) -> Floats:
    """Every extreme ray of the cone of E, with "no answer" last; all of mean 1.

    Neighbours differ by e^±step, or both are the most likely cell, or both the least likely one
    where that lies 2e below. "No answer" is e below the first or e above the last.

    Args:
        size: How many cells.
        step: E between neighbours.
        e: E from "no answer" to any of them, half a multiple of the step.
    """
    lowest, rest = divmod(2 * e, step)
    if rest:
        raise ValueError(f"2·e must be a multiple of step, got e={e}, step={step}")
    down = np.arange(lowest + 1)[:, None]
    for _ in range(size - 1):
        last = down[:, -1]
        ways = ((1, last < lowest), (-1, last > 0), (0, (last == 0) | (last == lowest)))
        down = np.vstack([np.c_[down[ok], last[ok] + turn] for turn, ok in ways])
    down = down[down.min(axis=1) == 0]
    sides = [
        np.c_[np.exp(sign * step * down), np.full(len(down), math.exp(sign * e))]
        for sign in (-1, 1)
    ]
    found = np.vstack(sides)
    found /= found.mean(axis=1, keepdims=True)
    result: Floats = np.unique(np.round(found, 12), axis=0)
    return result


def least(size: int, step: int, e: int) -> tuple[float, float]:
    """The least variance, per person, of a random range: what was found, and what is proved.

    Args:
        size: How many cells.
        step: E between neighbours.
        e: E from "no answer" to any of them.
    """
    held = rays(size, step, e)
    gram = np.pad(ranges(size), (0, 1))
    found = weigh(held, gram, np.full(len(held), 1 / len(held)), _STEPS)
    beyond = max(0.0, float((squares(held, found.kernel) - held @ found.prices).max()))
    proved = found.value**2 / (float(found.prices.sum()) + beyond)
    plain = float(np.trace(gram)) / (size + 1)
    return found.value - plain, proved - plain
