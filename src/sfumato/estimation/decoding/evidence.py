"""Choosing the strength of smoothing by evidence (marginal likelihood; MacKay1992).

Two families of priors are tried (`sfumato.estimation.decoding.field`). In *rough* ones (λ₀ only)
cells vary independently, which suits spiky populations; all are tried, in half decades of λ₀. In
*smooth* ones (λ₁, λ₂ on ordered axes) first or second differences of neighbours are small, which
suits smooth populations; they are searched by coordinate ascent in decades from fixed starts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from sfumato.estimation.decoding.field import DENSE_CELLS, Field, Fit, Strengths, fit
from sfumato.estimation.decoding.mixture import Mixture, SymbolMixture

Progress = Callable[[float], None]

_CELLS = tuple(10.0 ** (k / 2) for k in range(-6, 5))
_FIRST = tuple(10.0**k for k in range(-3, 5))
_SECOND = (0.0, *(10.0**k for k in range(7)))
_UNORDERED = 1e-3  # λ₀ where some axes are smooth and others unordered
_AGAINST_ROUGH = 5.0  # nats of evidence by which a rough prior must win
_DOUBT = 40.0  # nats: rough fits up to this far below the best rough one widen intervals
_ENOUGH = 5.0  # nats below the best at which the search ends where rough fits widen nothing
COARSE_CELLS = 1 << 12
_FEW_CELLS = 1 << 8
_WHOLE_CELLS = 1 << 14
_USUAL_FITS = 26  # of a search, by which its progress is shown


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """The fit that gives the answers, and the rough fits that widen their intervals.

    Args:
        mixture: The counts of outputs, and the channels.
        best: The fit with the largest evidence.
        rough: The rough fits that the evidence does not rule out; none where no axis is ordered.
    """

    mixture: Mixture
    best: Fit
    rough: tuple[Fit, ...]

    @property
    def is_rough(self) -> bool:
        """Whether the best prior is a rough one: no smoothness along any axis."""
        return not any(first or second for first, second in self.best.field.strengths.along)


def fit_by_evidence(
    mixture: Mixture, ordered: Sequence[bool], *, progress: Progress | None = None
) -> Posterior:
    """Fit the population at the strengths with the largest evidence.

    Args:
        mixture: The counts of outputs, and the channels.
        ordered: For each axis, whether it may be smoothed.
        progress: Called with the share of the work done, from 0 to 1.
    """
    cells = math.prod(mixture.shape)
    if isinstance(mixture, SymbolMixture) and any(ordered):
        if cells > _WHOLE_CELLS:
            return _search_coarsened(mixture, ordered, progress, COARSE_CELLS)
        if _is_slow_to_fit(mixture) and all(ordered):
            return _search_coarsened(mixture, ordered, progress, _FEW_CELLS)
    # Products of small matrices are faster with one thread than with many.
    with threadpool_limits(1):
        return _search(mixture, ordered, progress)


def _search(mixture: Mixture, ordered: Sequence[bool], progress: Progress | None) -> Posterior:
    """Try both families of priors."""
    done = _Done(progress)
    rough = _rough_fits(mixture, len(ordered), _DOUBT if any(ordered) else _ENOUGH, done)
    smooth: list[Fit] = []
    if any(ordered):
        space = _SmoothSpace(ordered)
        smooth = _climb(mixture, list(space.starts()), space, done)
    if progress is not None:
        progress(1.0)
    return _pick(mixture, rough, smooth)


class _Done:
    """Counts fits and tells their share; how many there will be is known only roughly.

    Args:
        progress: Called with the share of the work done, from 0 to 1.
    """

    def __init__(self, progress: Progress | None) -> None:
        self._progress, self._fits = progress, 0

    def one(self, found: Fit) -> Fit:
        """Count a fit."""
        self._fits += 1
        if self._progress is not None:
            self._progress(1 - math.exp(-2 * self._fits / _USUAL_FITS))
        return found


def _pick(mixture: Mixture, rough: list[Fit], smooth: list[Fit]) -> Posterior:
    """The fit of largest evidence, and the rough ones that evidence does not rule out."""
    roughest = max(rough, key=lambda f: f.evidence)
    best = max(smooth, key=lambda f: f.evidence, default=roughest)
    if roughest.evidence - _AGAINST_ROUGH > best.evidence:
        best = roughest
    doubtful = [f for f in rough if smooth and f.evidence >= roughest.evidence - _DOUBT]
    if math.prod(mixture.shape) > DENSE_CELLS and len(doubtful) > 1:
        doubtful = [doubtful[0], doubtful[-1]]  # where each is expensive, the two extremes
    return Posterior(mixture, best, tuple(doubtful))


def _rough_fits(mixture: Mixture, axes: int, doubt: float, done: _Done) -> list[Fit]:
    """Fits with rough priors: λ₀ outwards from 0.1 until the evidence rules out the rest.

    Args:
        mixture: The counts of outputs, and the channels.
        axes: Number of axes.
        doubt: Nats below the best fit at which others are ruled out.
        done: Counts the fits.
    """
    seen: dict[int, Fit] = {}

    def visit(level: int, near: int | None) -> float:
        if level not in seen:
            strengths = Strengths(_CELLS[level], ((0.0, 0.0),) * axes)
            start = None if near is None else seen[near].theta()
            seen[level] = done.one(fit(mixture, Field(mixture.shape, strengths), start))
        return seen[level].evidence

    middle = _CELLS.index(10.0**-1)
    top = visit(middle, None)
    stride = 1 if math.prod(mixture.shape) <= DENSE_CELLS else 2  # decades where fits are expensive
    for step in (stride, -stride):
        level = middle
        while 0 <= level + step < len(_CELLS):
            value = visit(level + step, level)
            level += step
            top = max(top, value)
            if value < top - doubt:
                break
    return [seen[level] for level in sorted(seen)]


class _SmoothSpace:
    """The search grid of smooth priors: two coordinates per ordered axis, for λ₁ and λ₂.

    Args:
        ordered: For each axis, whether it may be smoothed.
    """

    def __init__(self, ordered: Sequence[bool]) -> None:
        self._ordered = tuple(ordered)
        self.sizes = (len(_FIRST), len(_SECOND)) * sum(ordered)

    def strengths(self, place: tuple[int, ...]) -> Strengths:
        """The strengths at a point of the search grid."""
        levels = iter(place)
        along = tuple(
            (_FIRST[next(levels)], _SECOND[next(levels)]) if o else (0.0, 0.0)
            for o in self._ordered
        )
        return Strengths(0.0 if all(self._ordered) else _UNORDERED, along)

    def starts(self) -> Iterator[tuple[int, ...]]:
        """Starting points: mostly λ₁ and mostly λ₂; one with both where fits are expensive."""
        axes = sum(self._ordered)
        if axes > 1:
            yield (_FIRST.index(1e-1), _SECOND.index(10.0)) * axes
            return
        yield (_FIRST.index(1.0), 0)
        yield (_FIRST.index(1e-2), _SECOND.index(100.0))


def _climb(
    mixture: Mixture, starts: list[tuple[int, ...]], space: _SmoothSpace, done: _Done
) -> list[Fit]:
    """Coordinate ascent in evidence from each start, one step at a time; all fits are kept."""
    seen: dict[tuple[int, ...], Fit] = {}

    def visit(place: tuple[int, ...], near: Fit | None) -> float:
        if place not in seen:
            field = Field(mixture.shape, space.strengths(place))
            start = None if near is None else near.theta()
            seen[place] = done.one(fit(mixture, field, start))
        return seen[place].evidence

    for start in starts:
        here, value = start, visit(start, None)
        moved = True
        while moved:
            moved = False
            for axis in range(len(here)):
                for step in (1, -1):
                    there = _shift(here, axis, step, space.sizes)
                    while there is not None and visit(there, seen[here]) > value:
                        here, value, moved = there, seen[there].evidence, True
                        there = _shift(here, axis, step, space.sizes)
    return [seen[place] for place in sorted(seen)]


def _shift(
    place: tuple[int, ...], axis: int, step: int, sizes: tuple[int, ...]
) -> tuple[int, ...] | None:
    """The neighbouring point of the search grid, or None at its border."""
    level = place[axis] + step
    if not 0 <= level < sizes[axis]:
        return None
    return (*place[:axis], level, *place[axis + 1 :])


def _is_slow_to_fit(mixture: SymbolMixture) -> bool:
    """Whether many fits would take minutes: one long axis with a dense likelihood matrix."""
    (cells, *others), (factor, *_) = mixture.shape, mixture.factors
    return not others and cells > DENSE_CELLS and isinstance(factor, np.ndarray)


def _search_coarsened(
    mixture: SymbolMixture,
    ordered: Sequence[bool],
    progress: Progress | None,
    most: int,
) -> Posterior:
    """On large grids, choose strengths with cells joined in groups, then fit all cells once.

    No rough fit is made, so the unbiased standard error is reported.
    """
    groups = _group_sizes(mixture.shape, ordered, most)
    with threadpool_limits(1):
        held = _search(
            mixture.coarsened(groups),
            ordered,
            None if progress is None else lambda share: progress(share / 2),
        ).best
    start = held.theta()
    for axis, group in enumerate(groups):
        start = np.repeat(start, group, axis=axis)
    start = start[tuple(slice(size) for size in mixture.shape)]
    field = Field(mixture.shape, _finer(held.field.strengths, groups))
    best = fit(mixture, field, start, weigh=False)
    if progress is not None:
        progress(1.0)
    return Posterior(mixture, best, ())


def _group_sizes(shape: Sequence[int], ordered: Sequence[bool], most: int) -> tuple[int, ...]:
    """How many neighbouring cells of each ordered axis to join, for at most `most` groups."""
    groups = [1] * len(shape)
    while math.prod(-(-s // g) for s, g in zip(shape, groups, strict=True)) > most:
        sizes = [-(-s // g) if o else 0 for s, g, o in zip(shape, groups, ordered, strict=True)]
        longest = int(np.argmax(sizes))
        if sizes[longest] <= 4:
            break
        groups[longest] *= 2
    return tuple(groups)


def _finer(coarse: Strengths, groups: Sequence[int]) -> Strengths:
    """Strengths on single cells that penalise a smooth θ as much as the given ones on groups.

    For groups of g cells, steps between groups are g times, and second differences g² times, those
    between cells, and there are g times fewer of them: λ₁ is multiplied by g and λ₂ by g³. Along
    the other axes every difference occurs once per cell of a group, which divides by their number.
    """
    all_groups = math.prod(groups)
    along = tuple(
        (first * group / (all_groups / group), second * group**3 / (all_groups / group))
        for (first, second), group in zip(coarse.along, groups, strict=True)
    )
    return Strengths(coarse.cells / all_groups, along)
