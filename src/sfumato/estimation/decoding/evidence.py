"""Choosing the strength of smoothing by evidence (marginal likelihood; MacKay1992).

Two families of priors compete (`sfumato.estimation.decoding.field`). In *smooth* ones (λ₁, λ₂ on
ordered axes) first or second differences of neighbours are small, which suits smooth populations;
they are searched by coordinate ascent in decades from fixed starts. In *rough* ones (λ₀ only) cells
vary independently, which suits spiky populations; they are searched in half decades of λ₀.

On grids whose axes are all ordered, reports may be rougher than the smooth prior explains while no
rough prior explains them much better. Then maximum likelihood without a prior, which errs in other
ways than either, has a share in the answers.

On one ordered axis no prior is rough. Where it is not too long, θ is a smooth field plus a term of
every cell's own, whose variance τ² is searched with λ₁ and λ₂. Without the terms it is smooth, with
a field that hardly varies it is as under a rough prior, and heaps or spikes on a smooth population
are in between. Where reports do not decide whether there are such terms, answers are a mean of both
kinds, weighed by their evidence. On longer axes weak smoothing was measured to be better for spiky
populations than none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import expit, softmax
from threadpoolctl import threadpool_limits

from sfumato.arrays import Floats
from sfumato.channels.base import SymbolChannel
from sfumato.estimation.decoding.curvature import LARGE, LARGEST, ReducedCurvature
from sfumato.estimation.decoding.doubt import Doubt
from sfumato.estimation.decoding.em import decode
from sfumato.estimation.decoding.field import Field, Strengths
from sfumato.estimation.decoding.fitting import (
    DENSE_CELLS,
    FULL,
    SEARCH,
    SEARCH_ALL,
    Fit,
    fit,
    is_line,
    is_weak,
)
from sfumato.estimation.decoding.joining import coarse_shape
from sfumato.estimation.decoding.mixture import (
    LOOSE_CELLS,
    Factor,
    Likelihood,
    Mixture,
    SymbolMixture,
)
from sfumato.estimation.decoding.quadratic import Quadratic

Progress = Callable[[float], None]

#: τ², the variance of the cells' own terms: none, and half decades.
_APART = (0.0, *(10.0 ** (k / 2) for k in range(-5, 7)))
_NONE = (0.0,)
_APART_PRICE = 4.0  # nats of evidence that terms of their own must gain
_HARDLY = -5.0  # nats by which the best fit of the other kind is too far behind for a share
_CELLS = tuple(10.0 ** (k / 2) for k in range(-6, 5))
_MIDDLE = 10.0**-1
_FIRST, _SECOND = (-3, 4), (0, 6)  # powers of ten of λ₁ and λ₂, on axes of up to …
_FREE_AXES = 2  # that have strengths of their own
_USUAL_CELLS = 1024  # … this many cells; ten times as many shift them by one and by three
_UNORDERED = 1e-3  # λ₀ where some axes are smooth and others unordered
_AGAINST_ROUGH = 5.0  # nats of evidence by which a rough prior must win
_RULED_OUT = 15.0  # nats by which the other family must lose, or its answers widen intervals
_UNSMOOTHED_AXES, _UNSMOOTHED_CELLS = 2, 1 << 12  # on which maximum likelihood may have a share
_HOPELESS = 1000.0  # nats by which a rough prior is so far behind that no other is tried
_NEARLY_AS_GOOD = 5.0  # nats below the best fit from which others widen intervals
MOST_NEARBY = 24  # of them
_ENOUGH = 5.0  # nats below the best at which the search for a rough prior ends
_UNFORESEEN = 5.0  # nats by which the evidence of a prior nearby may be more than is foreseen
_SEEN_ROUGH = 1.5  # standard errors of unexplained roughness from which rough priors are tried
_FAR_BEHIND, _FAR_AHEAD = -150.0, 200.0  # nats of a rough prior beyond which one prior is enough
_MANY_OUTPUTS = 2  # outputs per cell from which searches use an expansion of the log-likelihood
_MOST_EXPANDED = 1 << 33  # cells² × outputs up to which its matrix is made
_MOST_EXPANSIONS = 2
_SHORT_LINE = 1 << 12  # a line of geometric noise up to which cells may have terms of their own
_SPARSE_CELLS = 1 << 14  # beyond these, cells must not outnumber people for a rough prior
#: Strengths are chosen on at most so many groups of cells: on few first, and on more if those leave
#: a prior under which the reports can tell too many waves for a matrix …
COARSE_CELLS = (1 << 10, 1 << 12)
_FEW_CELLS = 1 << 8  # … or on so few, along one axis of many outputs
_USUAL_FITS = 26  # of a search, by which its progress is shown


class Interrupted(KeyboardInterrupt):
    """A search that was interrupted after at least one fit.

    Args:
        law: The people who reported, by the best fit so far, as a distribution over cells.
    """

    def __init__(self, law: Floats) -> None:
        super().__init__()
        self.law = law


class Beside(NamedTuple):
    """What has a share in the answers beside the best fit.

    Args:
        law: The distribution over cells.
        share: From 0 to 1.
    """

    law: Floats
    share: float


@dataclass(frozen=True, eq=False)
class Posterior:
    """The fit that gives the answers, and what else is possible.

    Args:
        mixture: The counts of outputs, and the channels.
        best: The fit with the largest evidence.
        is_ordered: Whether any axis is ordered.
        rivals: Fits that the evidence does not rule out, whose answers widen intervals: the best of
            the other family.
        beside: What has a share in the answers beside the best fit, if anything.
        nearby: The people who reported, as shares of cells, by the best fit of the search and by
            those that have nearly as much evidence; one row each, none where it stands alone.
    """

    mixture: Mixture
    best: Fit
    is_ordered: bool
    rivals: tuple[Fit, ...] = ()
    beside: Beside | None = None
    nearby: Floats | None = None

    @property
    def has_errors(self) -> bool:
        """Whether its variances hold: not under a rough prior."""
        return not self.best.field.is_rough

    @cached_property
    def doubt(self) -> Doubt | None:
        """What smoothness may leave out; None if the best prior is a rough one."""
        return None if self.best.field.is_rough else Doubt(self.mixture, self.best)


def fit_by_evidence(
    mixture: Mixture, ordered: Sequence[bool], *, progress: Progress | None = None
) -> Posterior:
    """Fit the population at the strengths with the largest evidence.

    Rough priors are tried where no axis is ordered, where they are cheap, and where a smooth prior
    leaves the reports rougher than it explains.

    Args:
        mixture: The counts of outputs, and the channels.
        ordered: For each axis, whether it may be smoothed.
        progress: Called with the share of the work done, from 0 to 1.

    Raises:
        Interrupted: If it is interrupted after the first fit.
    """
    done = _Done(progress)
    try:
        # Products of small matrices are faster with one thread than with many.
        with threadpool_limits(1):
            best = _best_of(mixture, ordered, done)
    except KeyboardInterrupt:
        if done.best is None:
            raise
        raise Interrupted(_so_far(done.best.theta, mixture, ordered)) from None
    if progress is not None:
        progress(1.0)
    return best


def _so_far(theta: Floats, mixture: Mixture, ordered: Sequence[bool]) -> Floats:
    """The people who reported, as shares, for θ of cells or of the groups that a search joins."""
    for groups in _group_sizes(mixture, ordered):
        if theta.shape != mixture.shape and theta.shape == coarse_shape(mixture.shape, groups):
            theta = _ungrouped(theta, mixture.shape, groups)
    law: Floats = np.exp(theta - theta.max())
    law /= law.sum()
    found: Floats = law * mixture.slope(mixture.forward(law)) / mixture.people
    return found


def _best_of(mixture: Mixture, ordered: Sequence[bool], done: _Done) -> Posterior:
    """The smooth fit, unless on several axes a rough one is clearly better, or neither is good."""
    if not any(ordered):
        rough = _rough_fits(mixture, len(ordered), done)
        return Posterior(mixture, max(rough, key=lambda f: f.evidence), is_ordered=False)
    smooth = _smooth_fit(mixture, ordered, done)
    alone = Posterior(mixture, smooth, is_ordered=True)
    if len(mixture.shape) == 1:
        beside = _other_kind(mixture, ordered, done)
        return replace(alone, beside=beside, nearby=_nearby(mixture, ordered, done))
    cells = math.prod(mixture.shape)
    sparse = cells > max(_SPARSE_CELLS, mixture.people)  # Laplace's method would favour rough ones
    if sparse or cells > LARGEST:
        return alone
    looks_smooth = alone.doubt is not None and alone.doubt.is_rough <= _SEEN_ROUGH
    if cells > DENSE_CELLS and looks_smooth:
        return alone
    rough = _rough_fits(mixture, len(ordered), done, smooth.evidence - _HOPELESS)
    roughest = max(rough, key=lambda f: f.evidence)
    ahead = roughest.evidence - smooth.evidence
    unclear = not looks_smooth and _FAR_BEHIND < ahead <= _FAR_AHEAD
    if unclear and all(ordered) and _may_be_unsmoothed(mixture):
        # Without extrapolation it stops earlier, which smooths a little.
        law = decode(mixture, accelerate=False).law
        return replace(alone, beside=Beside(law, 0.5 if ahead <= 0 else 1.0))
    ahead -= _AGAINST_ROUGH
    best, other = (roughest, smooth) if ahead > 0 else (smooth, roughest)
    rivals = (other,) if abs(ahead) < _RULED_OUT else ()
    return Posterior(mixture, best, is_ordered=True, rivals=rivals)


def _nearby(mixture: Mixture, ordered: Sequence[bool], done: _Done) -> Floats | None:
    """What fits of nearly the same evidence say; see `Posterior`."""
    ranked = sorted(done.tried, key=lambda one: -one.score)
    kept = [one.theta for one in ranked if one.score >= ranked[0].score - _NEARLY_AS_GOOD]
    if len(kept) < 2:
        return None
    return np.array([_so_far(theta, mixture, ordered) for theta in kept[:MOST_NEARBY]])


def _other_kind(mixture: Mixture, ordered: Sequence[bool], done: _Done) -> Beside | None:
    """The best fit of the other kind, with terms of the cells' own or without, and its share.

    Priors of both kinds are as likely beforehand, up to the price of terms. What was found on
    groups of cells has no share.
    """
    other = done.other
    if other is None or other.theta.shape != mixture.shape or other.score < _HARDLY:
        return None
    return Beside(_so_far(other.theta, mixture, ordered), float(expit(other.score)))


def _may_be_unsmoothed(mixture: Mixture) -> bool:
    """Whether maximum likelihood is cheap: two axes of few cells, with a matrix or noise for each.

    Noise may also move both at once.
    """
    if not isinstance(mixture, SymbolMixture) or len(mixture.shape) != _UNSMOOTHED_AXES:
        return False
    if len(mixture.factors) == 1:
        cheap = _moves_cells(mixture.factors[0])
    else:
        cheap = all(isinstance(factor, np.ndarray) for factor in mixture.factors)
    cells = math.prod(mixture.shape)
    return cheap and cells <= _UNSMOOTHED_CELLS and mixture.outputs < _MANY_OUTPUTS * cells


def _may_stand_apart(mixture: Mixture) -> bool:
    """Whether cells may have terms of their own: on one axis that is not too long for it."""
    (size, *others) = mixture.shape
    if is_line(mixture):
        most = _SHORT_LINE
    else:
        most = LOOSE_CELLS if isinstance(mixture, SymbolMixture) else DENSE_CELLS
    return not others and size <= most


def _score(found: Fit) -> float:
    """The evidence of a fit, less the price of terms of the cells' own.

    Trusting such terms by mistake costs more than the reverse.
    """
    return found.evidence - (_APART_PRICE if found.field.strengths.apart else 0.0)


class _Tried(NamedTuple):
    """A mode of a climb: its score, θ, and whether cells had terms of their own."""

    score: float
    theta: Floats
    is_apart: bool


class _Done:
    """Counts fits, tells their share, and remembers the best and the modes of the last climb.

    How many there will be is known only roughly. Fits with joined cells are only compared with
    each other.

    Args:
        progress: Called with the share of the work done, from 0 to 1.
    """

    def __init__(self, progress: Progress | None) -> None:
        self._progress, self._fits = progress, 0
        self.best: Fit | None = None
        self.tried: list[_Tried] = []
        self.other: _Tried | None = None

    def compare(self) -> None:
        """Keep the best fit of the other kind, its score relative to the best of all.

        A climb that starts near the best of another may have seen one kind only.
        """
        best = max(self.tried, key=lambda one: one.score)
        others = [one for one in self.tried if one.is_apart != best.is_apart]
        if others:
            other = max(others, key=lambda one: one.score)
            self.other = other._replace(score=other.score - best.score)
        elif self.other is not None and self.other.is_apart == best.is_apart:
            self.other = None

    def one(self, found: Fit) -> Fit:
        """Count a fit."""
        self._fits += 1
        best = self.best
        if best is None or best.law.shape != found.law.shape or _score(found) > _score(best):
            self.best = found
        if self._progress is not None:
            self._progress(1 - math.exp(-2 * self._fits / _USUAL_FITS))
        return found


def _smooth_fit(mixture: Mixture, ordered: Sequence[bool], done: _Done) -> Fit:
    """The fit with the best smooth prior, in which cells of one axis may have terms of their own.

    Its strengths are chosen with cells joined in groups where the grid is large.
    """
    apart = _APART if _may_stand_apart(mixture) else _NONE
    for groups in _group_sizes(mixture, ordered):
        if max(groups) == 1:
            found = _best_smooth(mixture, ordered, done, apart=apart)
            return fit(mixture, found.field, found.theta)
        assert isinstance(mixture, SymbolMixture)  # noqa: S101 - only symbols are joined
        found = _best_smooth(mixture.coarsened(groups), ordered, done, apart=apart)
        start = _ungrouped(found.theta, mixture.shape, groups)
        strengths = _finer(found.field.strengths, groups)
        field = Field(mixture.shape, strengths)
        if not is_weak(mixture, softmax(start), field, FULL):
            break
    if not strengths.is_smooth:
        return _loose_fit(mixture, strengths, start, done)
    if start.size <= LARGEST or not isinstance(mixture, SymbolMixture):
        return fit(mixture, field, start)
    return fit(mixture, field, _nearer(mixture, ordered, found, groups), weigh=False)


def _nearer(
    mixture: SymbolMixture, ordered: Sequence[bool], found: Fit, groups: Sequence[int]
) -> Floats:
    """θ of single cells from a fit with smaller groups: on the largest grids every step is dear.

    Args:
        mixture: The counts of outputs, and the channels.
        ordered: For each axis, whether it may be smoothed.
        found: The fit with large groups.
        groups: The number of cells in them.
    """
    smaller = _joined_to(LARGE, mixture.shape, ordered)
    shape = coarse_shape(mixture.shape, smaller)
    ratios = [large // small for large, small in zip(groups, smaller, strict=True)]
    field = Field(shape, _finer(found.field.strengths, ratios))
    start = _ungrouped(found.theta, shape, ratios)
    nearer = fit(mixture.coarsened(smaller), field, start, weigh=False)
    return _ungrouped(nearer.theta, mixture.shape, smaller)


def _loose_fit(mixture: Mixture, strengths: Strengths, start: Floats, done: _Done) -> Fit:
    """The best fit in which cells have terms of their own as large as those of groups, or larger.

    A term of one cell is weaker in its group. All are compared by one expansion of the
    log-likelihood.

    Args:
        mixture: The counts of outputs, and the channels; one axis.
        strengths: The strengths on single cells.
        start: θ to start from.
        done: Where fits are counted.
    """
    first = Field(mixture.shape, strengths)
    model = Quadratic.of(mixture, fit(mixture, first, start, effort=SEARCH).law)
    tried = []
    for step in range(3):
        looser = replace(strengths, apart=strengths.apart * 10.0 ** (step / 2))
        tried.append(done.one(fit(model, Field(mixture.shape, looser), start, effort=SEARCH)))
    best = max(tried, key=lambda f: f.evidence)
    return fit(mixture, best.field, best.theta)


def _ungrouped(theta: Floats, shape: Sequence[int], groups: Sequence[int]) -> Floats:
    """θ of single cells from that of groups."""
    for axis, (size, group) in enumerate(zip(shape, groups, strict=True)):
        theta = _between(theta, axis, size, group)
    return theta


def _between(theta: Floats, axis: int, size: int, group: int) -> Floats:
    """θ of single cells from that of groups along an axis, by linear interpolation."""
    if group == 1:
        return theta
    middles = np.minimum(np.arange(0, size, group) + group, size) - (group + 1) / 2
    middles[-1] = max(middles[-1], ((size - 1) // group * group + size - 1) / 2)
    found: Floats = np.apply_along_axis(
        lambda one: np.interp(np.arange(size), middles, one), axis, theta
    )
    return found


def _best_smooth(
    mixture: Mixture, ordered: Sequence[bool], done: _Done, *, apart: Sequence[float] = _NONE
) -> Fit:
    """The smooth prior of largest evidence, fitted as exactly as the comparison needs.

    Args:
        mixture: The counts of outputs, and the channels.
        ordered: For each axis, whether it may be smoothed.
        done: Where fits are counted.
        apart: The variances that the cells' own terms may have.
    """
    space = _SmoothSpace(mixture.shape, ordered, apart)
    starts = list(space.starts())
    if not _has_many_outputs(mixture):
        return max(_climb(mixture, starts, space, done), key=_score)
    best = fit(mixture, Field(mixture.shape, space.strengths(starts[0])), effort=SEARCH)
    for _ in range(_MOST_EXPANSIONS):
        seen = _climb(Quadratic.of(mixture, best.law), starts, space, done)
        found = max(seen, key=_score)
        held, best = best, fit(mixture, found.field, found.theta, effort=SEARCH)
        if best.field.strengths == held.field.strengths:
            break
        starts = [space.place(found.field.strengths)]
    return best


def _has_many_outputs(mixture: Mixture) -> bool:
    """Whether searches are faster with an expansion of the log-likelihood, which has no outputs."""
    cells, outputs = math.prod(mixture.shape), mixture.counts.size
    fits = cells**2 * outputs <= _MOST_EXPANDED or mixture.even_second is not None
    return fits and outputs >= _MANY_OUTPUTS * cells


def _rough_fits(mixture: Mixture, axes: int, done: _Done, least: float = -math.inf) -> list[Fit]:
    """Fits with rough priors: λ₀ outwards from 0.1 until the evidence rules out the rest.

    Args:
        mixture: The counts of outputs, and the channels.
        axes: Number of axes.
        done: Where fits are counted.
        least: The evidence at 0.1 from which others are tried.
    """
    seen: dict[int, Fit] = {}
    model: Likelihood = mixture

    def visit(level: int, near: int | None) -> float:
        if level not in seen:
            strengths = Strengths(_CELLS[level], ((0.0, 0.0),) * axes)
            start = None if near is None else seen[near].theta
            seen[level] = done.one(fit(model, Field(mixture.shape, strengths), start))
        return seen[level].evidence

    middle = _CELLS.index(_MIDDLE)
    top = visit(middle, None)
    if top < least:
        return [seen[middle]]
    if _has_many_outputs(mixture):
        model = Quadratic.of(mixture, seen[middle].law)
    stride = 1 if math.prod(mixture.shape) <= DENSE_CELLS else 2  # decades on large grids
    for step in (stride, -stride):
        level = middle
        while 0 <= level + step < len(_CELLS):
            value = visit(level + step, level)
            level += step
            top = max(top, value)
            if value < top - _ENOUGH:
                break
    kept = [seen[level] for level in sorted(seen) if seen[level].evidence >= top - _ENOUGH]
    if model is mixture:
        return kept
    return [fit(mixture, f.field, f.theta) for f in kept]


class _SmoothSpace:
    """The search grid of smooth priors: two coordinates per ordered axis, for λ₁ and λ₂, and τ².

    More than two ordered axes have λ₁ and λ₂ in common: there are too many combinations.

    Args:
        shape: Number of cells of every axis.
        ordered: For each axis, whether it may be smoothed.
        apart: The variances τ² that the cells' own terms may have.
    """

    def __init__(
        self, shape: Sequence[int], ordered: Sequence[bool], apart: Sequence[float] = _NONE
    ) -> None:
        self._apart = list(apart)
        self._ordered = tuple(ordered)
        self._is_tied = sum(ordered) > _FREE_AXES
        self._shifts = [
            max(0, math.ceil(math.log10(size / _USUAL_CELLS)))
            for size, o in zip(shape, ordered, strict=True)
            if o
        ]
        self._first = [
            [10.0**k for k in range(_FIRST[0], _FIRST[1] + shift + 1)] for shift in self._shifts
        ]
        self._second = [
            [0.0, *(10.0**k for k in range(_SECOND[0], _SECOND[1] + 3 * shift + 1))]
            for shift in self._shifts
        ]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of points along every coordinate."""
        pairs = [(len(f), len(s)) for f, s in zip(self._first, self._second, strict=True)]
        if self._is_tied:
            pairs = [tuple(min(column) for column in zip(*pairs, strict=True))]
        return (*(count for pair in pairs for count in pair), len(self._apart))

    def strengths(self, place: tuple[int, ...]) -> Strengths:
        """The strengths at a point of the search grid."""
        *along_axes, own = place
        levels = iter(along_axes * len(self._first) if self._is_tied else along_axes)
        pairs = iter(
            (first[next(levels)], second[next(levels)])
            for first, second in zip(self._first, self._second, strict=True)
        )
        along = tuple(next(pairs) if o else (0.0, 0.0) for o in self._ordered)
        return Strengths(0.0 if all(self._ordered) else _UNORDERED, along, self._apart[own])

    def place(self, strengths: Strengths) -> tuple[int, ...]:
        """The point of the search grid with given strengths."""
        pairs = [pair for pair, o in zip(strengths.along, self._ordered, strict=True) if o]
        levels = zip(pairs, self._first, self._second, strict=True)
        found = tuple(k for (a, b), f, s in levels for k in (f.index(a), s.index(b)))
        own = self._apart.index(strengths.apart)
        return (*(found[:2] if self._is_tied else found), own)

    def starts(self) -> Iterator[tuple[int, ...]]:
        """Starting points: mostly λ₁, mostly λ₂; large terms of the cells' own, also alone.

        There is one with both λ₁ and λ₂ where fits are expensive.
        """
        if len(self._shifts) > 1:
            yield self._start(0.1, 10.0)
            return
        yield self._start(1.0, 0.0)
        yield self._start(1e-2, 100.0)
        if len(self._apart) > 1:  # τ² of about 3, and of about 10
            yield self._start(1.0, 100.0, 7 * len(self._apart) // 12)
            yield self._start(1e3, 0.0, 8 * len(self._apart) // 12)

    def _start(self, first: float, second: float, own: int = 0) -> tuple[int, ...]:
        """The point with these strengths on axes of usual length, and shifted ones on longer."""
        found = tuple(
            level
            for shift, f, s in zip(self._shifts, self._first, self._second, strict=True)
            for level in (f.index(first) + shift, s.index(second) + 3 * shift * (second > 0))
        )
        return (*(found[:2] if self._is_tied else found), own)


def _climb(
    mixture: Likelihood, starts: list[tuple[int, ...]], space: _SmoothSpace, done: _Done
) -> list[Fit]:
    """Coordinate ascent in evidence from each start, one step at a time; all fits are kept.

    Where a rough prior is better than the start, priors that smooth too little for the grid are
    left to the rough family. Priors whose evidence is foreseen to be lower are not tried.
    """
    seen: dict[tuple[int, ...], Fit] = {}
    rival, effort = -math.inf, SEARCH
    cells = math.prod(mixture.shape)
    if DENSE_CELLS < cells <= mixture.people and not is_line(mixture):
        rough = Strengths(_MIDDLE, ((0.0, 0.0),) * len(mixture.shape))
        found = done.one(fit(mixture, Field(mixture.shape, rough), effort=SEARCH))
        rival = found.evidence
        if is_weak(mixture, found.law, Field(mixture.shape, space.strengths(starts[0]))):
            effort = SEARCH_ALL  # evidence with and without waves would not be comparable
    elif cells > mixture.people:
        effort = SEARCH_ALL  # Laplace's method would favour rough priors: nothing to compare with

    def visit(place: tuple[int, ...], near: Fit | None) -> float:
        if place not in seen:
            field = Field(mixture.shape, space.strengths(place))
            start = None
            if near is not None:
                if near.evidence < rival and is_weak(mixture, near.law, field):
                    return -math.inf
                start = near.theta
                if isinstance(near.curvature, ReducedCurvature) and field.strengths.is_smooth:
                    foreseen = near.curvature.foresee(near.theta, field.strengths)
                    if foreseen.gain < -_UNFORESEEN:
                        return -math.inf
                    start = foreseen.theta
            found = seen[place] = done.one(fit(mixture, field, start, effort=effort))
            done.tried.append(_Tried(_score(found), found.theta, field.strengths.apart > 0))
        return seen[place].evidence

    done.tried.clear()  # evidence by another expansion is not comparable
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
    done.compare()
    return [seen[place] for place in sorted(seen)]


def _shift(
    place: tuple[int, ...], axis: int, step: int, sizes: tuple[int, ...]
) -> tuple[int, ...] | None:
    """The neighbouring point of the search grid, or None at its border."""
    level = place[axis] + step
    if not 0 <= level < sizes[axis]:
        return None
    return (*place[:axis], level, *place[axis + 1 :])


def _group_sizes(mixture: Mixture, ordered: Sequence[bool]) -> list[tuple[int, ...]]:
    """How many neighbouring cells of each axis to join: what is tried first, and then.

    A line of geometric noise, and a channel over several axes with a fast expansion, are searched
    whole.
    """
    shape = mixture.shape
    whole = (1,) * len(shape)
    if not isinstance(mixture, SymbolMixture) or is_line(mixture):
        return [whole]
    if len(shape) == 1:
        few = math.prod(shape) <= DENSE_CELLS
        return [whole if few else _joined_to(_FEW_CELLS, shape, ordered)]
    if mixture.even_second is not None:
        return [whole]
    # On the largest grids no matrix has room in any case; noise on several axes has one on few.
    one = math.prod(shape) > LARGEST or any(_moves_cells(factor) for factor in mixture.factors)
    levels = COARSE_CELLS[:1] if one else COARSE_CELLS
    return list(dict.fromkeys(_joined_to(most, shape, ordered) for most in levels))


def _moves_cells(factor: Factor) -> bool:
    """Whether a block is noise on a grid of several axes."""
    return isinstance(factor, SymbolChannel) and factor.moves_cells


def _joined_to(most: int, shape: Sequence[int], ordered: Sequence[bool]) -> tuple[int, ...]:
    """How many cells of each ordered axis to join for at most so many groups, where it can be."""
    groups = [1] * len(shape)
    while math.prod(coarse_shape(shape, groups)) > most:
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
    return Strengths(coarse.cells / all_groups, along, coarse.apart)
