"""The probabilities with which the levels of a tree are drawn.

The chances are rational numbers, turned into words of which each level has its own: what is drawn
is the law, and readings divide by it. They do not depend on a person's cell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.arrays import Floats
from sfumato.channels.trees.tree import Levels, Tree, level_tuples
from sfumato.errors import StudyError, near, shown
from sfumato.exact import nearest_float, rational

Chances = None | str | tuple[Fraction, ...]

OPTIMISED = "optimised"
UNIT = 1 << 16  # optimised chances are multiples of 1/UNIT
_ROUNDS = 400


def checked_chances(levels: Any) -> Chances:
    """Chances as given: none, a name, or positive rational numbers that sum to one.

    Example:
        >>> checked_chances(["1/4", 0.75])
        (Fraction(1, 4), Fraction(3, 4))
    """
    if levels is None:
        return None
    if isinstance(levels, str):
        if levels != OPTIMISED:
            raise StudyError(
                f"levels must be {OPTIMISED!r} or a list of chances, got levels={shown(levels)}: "
                f"{near(levels, [OPTIMISED])}"
            )
        return OPTIMISED
    if not isinstance(levels, Sequence) and getattr(levels, "ndim", 0) != 1:
        raise StudyError(
            f"levels must be {OPTIMISED!r} or a list of chances, one per level, got {shown(levels)}"
        )
    chances: tuple[Fraction, ...] = tuple(rational(chance, "levels") for chance in levels)
    if not chances or min(chances) <= 0:
        least = nearest_float(min(chances)) if chances else "none"
        raise StudyError(
            f"every level needs a positive chance, got {least}: without it the tree has no use "
            "for the level; use another branching, or leave levels out"
        )
    total = sum(chances, Fraction(0))
    if total != 1:
        hint = ""
        if abs(total - 1) < Fraction(1, 10**6):
            hint = '; chances are read exactly, so write thirds as "1/3"'
        raise StudyError(
            f"the chances of all levels must sum to 1, got a sum of {float(total):.9g}{hint}"
        )
    return chances


def written_chances(chances: str | Sequence[Fraction]) -> str | list[str]:
    """A name or chances as a study file holds them."""
    return chances if isinstance(chances, str) else [str(chance) for chance in chances]


def words_of(chances: Sequence[Fraction], precision: int) -> list[int]:
    """Words of each level: within one of its chance, and all words used.

    Args:
        chances: One per level; they sum to 1.
        precision: Bits of a random word.

    Example:
        >>> words_of([Fraction(1, 3)] * 3, 4)
        [6, 5, 5]
    """
    total = 1 << precision
    words = [math.floor(chance * total) for chance in chances]
    by_rest = sorted(range(len(words)), key=lambda k: (words[k] - chances[k] * total, k))
    for place in by_rest[: total - sum(words)]:
        words[place] += 1
    if min(words) < 1:
        raise StudyError(
            f"a table of 2^{precision} words is too coarse for {len(words)} levels with these "
            "chances; use larger chances, or a larger branching for fewer levels"
        )
    return words


def settled_chances(chances: Chances, count: int, what: str) -> list[Fraction] | None:
    """One chance per level where they are given or all equal; None where they must be computed.

    Args:
        chances: What the choice was given.
        count: How many levels there are.
        what: What the levels belong to, for the message.
    """
    if chances == OPTIMISED:
        return None
    if chances is None:
        return [Fraction(1, count)] * count
    if len(chances) != count:
        raise StudyError(
            f"there must be one chance per level: {count} for {what}, got {len(chances)} in levels"
        )
    return [Fraction(chance) for chance in chances]


def range_energies(trees: Sequence[Tree], ranged: Sequence[bool]) -> dict[Levels, float]:
    """What each tuple of levels adds to a random question: mean squared norm over cells.

    Along an axis with neighbours the question is a random range of the whole tree, else one cell.

    Args:
        trees: One per axis.
        ranged: Along which axes ranges are asked for; along the others, single cells.
    """
    along = []
    for tree, is_range in zip(trees, ranged, strict=True):
        norms = [_joined_norm(tree.runs[0], run, is_range) for run in tree.runs]
        steps = zip(norms, [Fraction(0), *norms], strict=False)
        along.append([float(here - above) for here, above in steps])
    result = {}
    for levels in level_tuples(trees):
        energy = 1.0
        for axis, level in zip(along, levels, strict=True):
            energy *= axis[level]
        result[levels] = energy
    return result


def question_energies(trees: Sequence[Tree], rows: Floats) -> dict[Levels, float]:
    """The same for given questions: one row per question, over the cells of all axes.

    Cells beyond the end of the axis, in a tree that is not whole, have weight zero. Means over runs
    have the squared norm Σ (sum over the run)²/(its cells), and are nested: norms need no whole
    tree.

    Args:
        trees: One per axis.
        rows: Weights: one row per question, then one axis per tree.
    """
    norms = np.zeros([tree.depth + 1 for tree in trees])
    for levels in np.ndindex(*norms.shape):
        part, cells = rows, 1
        for axis, (tree, level) in enumerate(zip(trees, levels, strict=True), start=1):
            part = tree.join(part, level, axis)
            cells *= tree.runs[level]
        norms[levels] = float(np.sum(part**2)) / cells / len(rows)
    for axis in range(norms.ndim):  # what a level adds to the one above
        norms = np.diff(norms, axis=axis, prepend=0.0)
    return {levels: max(0.0, float(norms[levels])) for levels in level_tuples(trees)}


def _joined_norm(size: int, run: int, is_range: bool) -> Fraction:
    """Mean of |E w|² over random ranges w (or single cells), E the mean over runs of cells.

    A run that the range cuts in i of L cells falls i − i²/L short of i. Over all ranges with ends
    in two runs both ends do, (L²−1)/6 on average over i (times L); within one run all its ranges.
    """
    if not is_range:
        return Fraction(1, run)
    count, length = Fraction(size, run), Fraction(run)
    apart = count * (count - 1) / 2 * length * (length**2 - 1) / 3
    within = count * (length - 1) * (length + 1) * (length + 2) / 12
    mean_length = Fraction(size + 2, 3)
    return mean_length - (apart + within) / Fraction(size * (size + 1), 2)


def best_chances(
    trees: Sequence[Tree], energies: dict[Levels, float], spreads: dict[Levels, float]
) -> list[Fraction]:
    """Chances with the smallest mean variance over random questions, under least squares.

    Args:
        trees: One per axis.
        energies: What each tuple of levels adds to a random question.
        spreads: σ² of a node, by tuple of levels.
    """
    return rounded_chances(nearest_chances(trees, energies, spreads)[0])


def nearest_chances(
    trees: Sequence[Tree],
    energies: dict[Levels, float],
    spreads: dict[Levels, float],
    known: dict[Levels, float] | None = None,
) -> tuple[list[float], float]:
    """Chances with the smallest mean squared error over random questions, and that error.

    With τ = p/σ² and n the cells of a whole node, the part of a question that levels k add to the
    levels above has variance energy/λ, λ_k = Σ_{l ≥ k} τ_l·n_l: a convex function of p, and
    p ← p·√(gradient) lowers it. Only +, ·, / and √ of doubles in a fixed order are used, which give
    the same result everywhere. What is known beforehand adds to λ.

    Args:
        trees: One per axis.
        energies: What each tuple of levels adds to a random question.
        spreads: σ² of a node, by tuple of levels.
        known: What is known of each tuple of levels before any report, per person.

    Returns:
        One chance per tuple of levels, and the mean squared error per person.
    """
    tuples = list(energies)
    before = dict.fromkeys(tuples, 0.0) if known is None else known
    gain = {}
    for levels in tuples:
        cells = 1.0
        for tree, level in zip(trees, levels, strict=True):
            cells *= tree.runs[level]
        gain[levels] = cells / spreads[levels]
    chance = dict.fromkeys(tuples, 1.0 / len(tuples))
    error = 0.0
    for _ in range(_ROUNDS):
        told = _sums({t: chance[t] * gain[t] for t in tuples}, trees, finer=True)
        whole = {t: told[t] + before[t] for t in tuples}
        error = sum(energies[t] / whole[t] for t in tuples)
        pull = _sums({t: energies[t] / whole[t] / whole[t] for t in tuples}, trees, finer=False)
        raised = [chance[t] * math.sqrt(gain[t] * pull[t]) for t in tuples]
        total = 0.0
        for value in raised:
            total += value
        chance = {t: value / total for t, value in zip(tuples, raised, strict=True)}
    return [chance[t] for t in tuples], error


def rounded_chances(chances: Sequence[float]) -> list[Fraction]:
    """Positive multiples of 2^−16 that sum to one, the largest taking what is left over."""
    units = [max(1, round(chance * UNIT)) for chance in chances]
    units[units.index(max(units))] += UNIT - sum(units)
    return [Fraction(unit, UNIT) for unit in units]


def _sums(
    values: dict[Levels, float], trees: Sequence[Tree], *, finer: bool
) -> dict[Levels, float]:
    """Over all levels at least (or at most) as fine on every axis."""
    result = {(0,) * len(trees): 0.0, **values}
    for axis, tree in enumerate(trees):
        steps = range(tree.depth - 1, -1, -1) if finer else range(1, tree.depth + 1)
        shift = 1 if finer else -1
        for step in steps:
            for levels in [t for t in result if t[axis] == step]:
                near_by = (*levels[:axis], step + shift, *levels[axis + 1 :])
                result[levels] += result[near_by]
    return result
