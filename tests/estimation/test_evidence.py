"""The choice of strengths: the search grid, joined cells, and what evidence prefers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from helpers_decoding import hump, humps, line, reports, thermometer_tally
from numpy.typing import NDArray

import sfumato as sf
from sfumato.estimation.decoding import evidence as evidence_module
from sfumato.estimation.decoding.curvature import ReducedCurvature
from sfumato.estimation.decoding.em import decode
from sfumato.estimation.decoding.evidence import (
    _between,
    _finer,
    _group_sizes,
    _may_be_unsmoothed,
    _SmoothSpace,
    fit_by_evidence,
)
from sfumato.estimation.decoding.field import Field, Strengths
from sfumato.estimation.decoding.fitting import SEARCH, fit
from sfumato.estimation.decoding.mixture import Mixture, SymbolMixture, mixture_of
from sfumato.estimation.decoding.posterior import CountPosterior

Floats = NDArray[np.float64]


def spikes(size: int) -> Floats:
    """Everybody in four cells."""
    law = np.zeros(size)
    law[[3, size // 2, size // 2 + 1, size - 9]] = 0.25
    return law


# What evidence prefers


def test_cells_stand_apart_only_if_people_do() -> None:
    smooth = fit_by_evidence(reports([line(40, 0.5)], hump(40), 50_000, seed=27), [True])
    spiky = fit_by_evidence(reports([line(40, 0.5)], spikes(40), 50_000, seed=28), [True])
    assert smooth.best.field.strengths.apart == 0.0
    assert spiky.best.field.strengths.apart >= 3.0
    # The field itself hardly varies.
    assert spiky.best.field.strengths.along[0][0] >= 10.0


def test_heaps_on_a_smooth_population_are_found_beside_it() -> None:
    """Ages at multiples of five are three times as frequent: neither smooth nor rough."""
    law = hump(80) * np.where(np.arange(80) % 5 == 0, 3.0, 1.0)
    mixture = reports([line(80, 1.5)], law / law.sum(), 100_000, seed=31)
    best = fit_by_evidence(mixture, [True]).best
    # A fifth of the cells is off by log 3: the variance is 0.16·1.2.
    assert 0.05 <= best.field.strengths.apart <= 1.0
    alone = [
        max(fit(mixture, Field((80,), one)).evidence for one in family)
        for family in (
            [Strengths(0.0, ((a, b),)) for a in (0.1, 1.0, 10.0) for b in (0.0, 10.0, 1e3)],
            [Strengths(10.0 ** (k / 2), ((0.0, 0.0),)) for k in range(-4, 4)],
        )
    ]
    assert best.evidence > max(alone) + 10.0


def test_a_fit_with_another_prior_is_foreseen() -> None:
    """A decade away, with most waves left out: the evidence within the slack of the search."""
    shape = (24, 24)
    mixture = reports([line(24, 0.2)] * 2, humps(shape), 50_000, seed=33)
    here = Strengths(0.0, ((0.1, 10.0), (0.1, 10.0)))
    fitted = fit(mixture, Field(shape, here), effort=SEARCH)
    assert isinstance(fitted.curvature, ReducedCurvature)
    gains = []
    for along in ((1.0, 10.0), (0.01, 10.0), (0.1, 100.0), (0.1, 1.0)):
        there = Strengths(0.0, (along, (0.1, 10.0)))
        foreseen = fitted.curvature.foresee(fitted.theta, there)
        exact = fit(mixture, Field(shape, there), fitted.theta, effort=SEARCH)
        gains.append(exact.evidence - fitted.evidence)
        assert foreseen.gain == pytest.approx(gains[-1], abs=evidence_module._UNFORESEEN)
    # Not all are so near that any guess would do.
    assert max(map(abs, gains)) > 3 * evidence_module._UNFORESEEN


def test_with_a_field_that_hardly_varies_terms_of_cells_are_a_rough_prior() -> None:
    """Both families in one: λ₀ = 1/τ²."""
    mixture = reports([line(30, 0.8)], spikes(30), 5_000, seed=32)
    rough = fit(mixture, Field((30,), Strengths(0.2, ((0.0, 0.0),))))
    both = fit(mixture, Field((30,), Strengths(0.0, ((1e7, 0.0),), 5.0)))
    np.testing.assert_allclose(both.law, rough.law, atol=1e-5)
    # The rough prior also holds the level, which changes nothing.
    assert both.evidence == pytest.approx(rough.evidence, abs=0.01)


@pytest.mark.slow
def test_long_axes_choose_the_terms_of_cells_on_groups() -> None:
    """1,024 cells of a channel with more outputs than cells."""
    size = 1_024
    law = 0.7 * hump(size)
    law[[100, 431, 880]] += 0.1
    axis = sf.integers("x", 0, size - 1, protect=sf.Uniform(2.0), channel=sf.Comb())
    counts = np.random.default_rng(33).multinomial(100_000, law)
    tally = sf.Study("long", [axis]).simulate_counts(counts, seed=34)
    mixture = mixture_of(tally.statistic, tally.study.blocks, [0])
    best = fit_by_evidence(mixture, [True]).best
    assert best.field.strengths.apart >= 0.3
    found = CountPosterior.of(mixture, best).counts
    np.testing.assert_allclose(found[[100, 431, 880]], counts[[100, 431, 880]], rtol=0.15)


def test_unordered_axes_are_never_smoothed() -> None:
    mixture = reports([line(12, 0.5)], hump(12), 20_000, seed=29)
    chosen = fit_by_evidence(mixture, [False])
    assert chosen.best.field.strengths.along == ((0.0, 0.0),)
    levels = [10.0 ** (k / 2) for k in range(-6, 5)]
    fits = [fit(mixture, Field((12,), Strengths(level, ((0.0, 0.0),)))) for level in levels]
    assert chosen.best.evidence == pytest.approx(max(f.evidence for f in fits), abs=0.01)


def test_large_grids_are_smoothed_only_if_people_are_smooth() -> None:
    """More cells than a matrix over all of them."""
    shape = (26, 25)
    channels = [line(size, 0.7) for size in shape]
    hills = [np.exp(-(((np.arange(size) - 12) / 6) ** 2)) for size in shape]
    gentle = np.multiply.outer(*hills) / np.multiply.outer(*hills).sum()
    smooth = fit_by_evidence(reports(channels, gentle, 30_000, seed=32), [True, True])
    assert not smooth.best.field.is_rough
    law = np.multiply.outer(spikes(26), spikes(25))
    spiky = fit_by_evidence(reports(channels, law, 30_000, seed=33), [True, True])
    assert spiky.best.field.is_rough


def heaps(size: int) -> Floats:
    """A hump along each axis, with heaps at multiples of five of the second."""
    law = np.multiply.outer(hump(size), hump(size) * np.where(np.arange(size) % 5 == 0, 6.0, 1.0))
    return law / law.sum()


def test_one_rough_prior_is_enough_where_it_is_hopeless() -> None:
    mixture = reports([line(12, 0.5)], hump(12), 2_000, seed=36)
    done = evidence_module._Done(None)
    several = evidence_module._rough_fits(mixture, 1, done)
    best = max(fitted.evidence for fitted in several)
    assert len(several) > 1
    assert len(evidence_module._rough_fits(mixture, 1, done, best + 1)) == 1


@pytest.mark.slow
def test_where_neither_prior_is_good_maximum_likelihood_has_a_share() -> None:
    """Heaps along one axis: neither smooth, nor is every cell on its own."""
    channels = [line(20, 0.3), line(20, 0.3)]
    mixture = reports(channels, heaps(20), 100_000, seed=34)
    chosen = fit_by_evidence(mixture, [True, True])
    assert not chosen.best.field.is_rough
    assert chosen.beside is not None
    assert chosen.beside.share == 0.5
    np.testing.assert_array_equal(chosen.beside.law, decode(mixture, accelerate=False).law)
    smooth = reports(channels, humps((20, 20)), 100_000, seed=35)
    assert fit_by_evidence(smooth, [True, True]).beside is None
    assert fit_by_evidence(mixture, [True, False]).beside is None


def test_maximum_likelihood_has_a_share_only_where_it_is_cheap() -> None:
    def cheap(*sizes: int) -> bool:
        channels = [line(size, 0.3) for size in sizes]
        counts = np.ones([channel.layout.count for channel in channels])
        return _may_be_unsmoothed(SymbolMixture.of(channels, counts))

    assert cheap(64, 64)
    assert not cheap(64, 65)
    assert not cheap(64)
    assert not cheap(8, 8, 8)
    many = sf.Study("records", [sf.integers(x, 0, 7) for x in "ab"], protect=sf.Uniform(1))
    tally = many.simulate_counts(np.ones((8, 8), dtype=np.int64), seed=1)
    assert not _may_be_unsmoothed(mixture_of(tally.statistic, many.blocks, [0]))


def test_noise_on_a_map_has_a_share_too_and_is_searched_on_few_groups_only() -> None:
    def places(*sizes: int) -> SymbolMixture:
        axes = [sf.integers(f"x{d}", 0, size - 1) for d, size in enumerate(sizes)]
        (channel,) = sf.Study("map", [sf.together(axes, protect=sf.Lp(1, 2))]).channels
        return SymbolMixture.of([channel], np.ones(channel.layout.count), [sizes])

    assert _may_be_unsmoothed(places(8, 9))
    assert not _may_be_unsmoothed(places(65, 64))
    assert not _may_be_unsmoothed(places(4, 4, 4))
    assert evidence_module._group_sizes(places(70, 70), [True, True]) == [(4, 2)]
    lines = SymbolMixture.of([line(70, 0.3)] * 2, np.ones((70, 70)))
    assert evidence_module._group_sizes(lines, [True, True]) == [(4, 2), (2, 1)]


def test_many_outputs_are_searched_by_expansion(monkeypatch: pytest.MonkeyPatch) -> None:
    """The strengths found are those found with all outputs, or as good within 2 nats."""
    tally = thermometer_tally(10, 3_000)
    mixture = mixture_of(tally.statistic, tally.study.blocks, [0])
    assert mixture.counts.size >= 2 * 10
    assert evidence_module._has_many_outputs(mixture)
    fast = fit_by_evidence(mixture, [True])
    monkeypatch.setattr(evidence_module, "_has_many_outputs", lambda _: False)
    exact = fit_by_evidence(mixture, [True])
    assert fast.best.field.is_rough == exact.best.field.is_rough
    assert fast.best.evidence == pytest.approx(exact.best.evidence, abs=2.0)
    rows = np.tri(10)[:-1]
    one, two = (CountPosterior.of(mixture, f.best).moments(rows) for f in (fast, exact))
    assert np.all(np.abs(one[0] - two[0]) < 0.5 * np.sqrt(two[1]))


def test_progress_goes_up_to_one() -> None:
    told: list[float] = []
    mixture = reports([line(30, 0.5)], hump(30), 5_000, seed=30)
    fit_by_evidence(mixture, [True], progress=told.append)
    assert told == sorted(told)
    assert len(told) > 10
    assert told[-1] == 1.0


# Joined cells


def k_ary(size: int) -> Mixture:
    """Reports of a channel on one axis that is not geometric noise."""
    axis = sf.integers("x", 0, size - 1, protect=sf.Uniform(1.0), channel=sf.KaryResponse())
    tally = sf.Study("labels", [axis]).simulate_counts(np.full(size, 3), seed=1)
    return mixture_of(tally.statistic, tally.study.blocks, [0])


def test_large_grids_choose_strengths_on_joined_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = (22, 20)
    mixture = reports([line(size, 0.5) for size in shape], humps(shape), 50_000, seed=30)
    whole = fit_by_evidence(mixture, [True, True])
    monkeypatch.setattr(evidence_module, "COARSE_CELLS", (120,))
    joined = [1, 1]
    coarsened = SymbolMixture.coarsened

    def watched(self: SymbolMixture, groups: tuple[int, ...]) -> SymbolMixture:
        joined[:] = groups
        return coarsened(self, groups)

    monkeypatch.setattr(SymbolMixture, "coarsened", watched)
    chosen = fit_by_evidence(mixture, [True, True])
    assert joined == [2, 2]
    assert chosen.best.law.shape == shape
    rows = np.tri(22)[:-1, :, None] * np.ones(20)
    value, variance = CountPosterior.of(mixture, whole.best).moments(rows)
    off = CountPosterior.of(mixture, chosen.best).moments(rows)[0] - value
    assert np.abs(off).max() < np.sqrt(variance).max()


def test_cells_are_joined_along_the_longest_ordered_axis() -> None:
    def groups(shape: tuple[int, ...], ordered: tuple[bool, ...]) -> list[tuple[int, ...]]:
        channels = [line(size, 1.0) for size in shape]
        return _group_sizes(SymbolMixture.of(channels, np.zeros(shape)), ordered)

    assert groups((32, 32), (True, True)) == [(1, 1)]
    assert groups((33, 32), (True, True)) == [(2, 1), (1, 1)]
    assert groups((64, 64), (True, True)) == [(2, 2), (1, 1)]
    assert groups((128, 128), (True, True)) == [(4, 4), (2, 2)]
    assert groups((128, 128), (False, True)) == [(1, 16), (1, 4)]
    # An unordered axis is never joined, and an ordered one keeps 4 groups.
    assert groups((1_200, 16), (False, True)) == [(1, 4)]
    # Where no matrix has room for a fit of all cells there is no second try.
    assert groups((1_000, 1_000), (True, True)) == [(32, 32)]
    # A line of geometric noise is searched whole, whatever its length.
    assert groups((5_000,), (True,)) == [(1,)]
    assert _group_sizes(k_ary(600), (True,)) == [(1,)]
    assert _group_sizes(k_ary(601), (True,)) == [(4,)]


@pytest.mark.parametrize(("size", "group"), [(12, 1), (12, 3), (13, 3), (14, 4), (9, 8)])
@pytest.mark.parametrize("axis", [0, 1])
def test_cells_between_the_middles_of_groups_are_interpolated(
    size: int, group: int, axis: int
) -> None:
    """A straight line over groups is the same line over cells, level beyond the outer middles."""
    starts = np.arange(0, size, group)
    middles = (starts + np.minimum(starts + group, size) - 1) / 2
    others = np.array([1.0, -2.0])
    given, wanted = (
        np.multiply.outer(others, 0.5 * place - 3)
        for place in (middles, np.clip(np.arange(size), middles[0], middles[-1]))
    )
    if axis == 0:
        given, wanted = given.T, wanted.T
    np.testing.assert_allclose(_between(given, axis, size, group), wanted, atol=1e-12)


@pytest.mark.parametrize("groups", [(4, 1), (2, 3), (1, 5)])
def test_finer_strengths_penalise_the_same_shape_as_much(groups: tuple[int, int]) -> None:
    """Straight lines and parabolas, whose penalties are equal but for the ends, which are counted.

    Over M groups of g cells, a line has M − 1 steps of g, and gM − 1 of one cell.
    """
    coarse = Strengths(0.3, ((0.7, 0.0), (0.2, 0.0)))
    sizes = (20, 30)
    shape = tuple(m * g for m, g in zip(sizes, groups, strict=True))
    fine = _finer(coarse, groups)
    for axis, (size, group) in enumerate(zip(sizes, groups, strict=True)):
        for power, strengths in ((1, (0.7, 0.0)), (2, (0.0, 0.9))):
            along = tuple(strengths if a == axis else (0.0, 0.0) for a in range(2))
            there = _finer(Strengths(0.0, along), groups)
            places = [group * np.arange(size), np.arange(size * group)]
            grids = []
            for place, grid in zip(places, (sizes, shape), strict=True):
                ones = [np.ones(n) for n in grid]
                ones[axis] = place.astype(np.float64) ** power
                grids.append(np.multiply.outer(*ones))
            one = Field(sizes, Strengths(0.0, along)).penalty(grids[0])
            other = Field(shape, there).penalty(grids[1])
            if power == 1:
                assert other / one == pytest.approx((size - 1 / group) / (size - 1), rel=1e-9)
            else:
                assert other / one == pytest.approx((size - 2 / group) / (size - 2), rel=1e-9)
    level = [
        Field(grid, Strengths(held.cells, ((0.0, 0.0),) * 2)).penalty(np.ones(grid))
        for grid, held in ((sizes, coarse), (shape, fine))
    ]
    assert level[0] == pytest.approx(level[1])


# The search grid


@pytest.mark.parametrize(
    ("shape", "ordered"),
    [((40,), (True,)), ((5_000,), (True,)), ((12, 2_000), (True, True)), ((9, 4), (True, False))],
)
def test_places_and_strengths_belong_together(
    shape: tuple[int, ...], ordered: tuple[bool, ...]
) -> None:
    space = _SmoothSpace(shape, ordered, (0.0, 0.1, 1.0, 10.0) if len(shape) == 1 else (0.0,))
    places = list(itertools.product(*(range(n) for n in space.sizes)))
    found = [space.strengths(place) for place in places]
    assert len(set(found)) == len(places)
    assert [space.place(strengths) for strengths in found] == places
    for strengths in found:
        assert strengths.cells == (0.0 if all(ordered) else 1e-3)
        assert [any(along) for along in strengths.along] == list(ordered)
    starts = list(space.starts())
    assert set(starts) <= set(places)
    assert len(starts) == (1 if sum(ordered) > 1 else 2 if len(shape) > 1 else 4)


def test_longer_axes_are_searched_among_stronger_smoothing() -> None:
    """A shape on ten times the cells has first differences a tenth, and ten times as many."""
    usual, longer = _SmoothSpace((1_000,), (True,)), _SmoothSpace((10_000,), (True,))
    tops = [space.strengths(tuple(n - 1 for n in space.sizes)) for space in (usual, longer)]
    assert tops[1].along[0][0] == pytest.approx(10 * tops[0].along[0][0])
    assert tops[1].along[0][1] == pytest.approx(1_000 * tops[0].along[0][1])
    for one, other in zip(usual.starts(), longer.starts(), strict=True):
        (a, b), (c, d) = usual.strengths(one).along[0], longer.strengths(other).along[0]
        assert (c, d) == pytest.approx((10 * a, 1_000 * b))
    assert math.isclose(usual.strengths((0, 0, 0)).along[0][0], 1e-3)


def test_the_largest_grids_start_from_a_fit_with_smaller_groups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Steps with all cells are dear there; no rough prior is tried, whatever reports show."""
    shape = (24, 20)
    mixture = reports([line(size, 0.5) for size in shape], humps(shape), 50_000, seed=30)
    whole = fit_by_evidence(mixture, [True, True])
    monkeypatch.setattr(evidence_module, "COARSE_CELLS", (120, 200))
    monkeypatch.setattr(evidence_module, "LARGE", 240)
    monkeypatch.setattr(evidence_module, "LARGEST", 400)
    monkeypatch.setattr(evidence_module, "_rough_fits", None)
    joined: list[tuple[int, ...]] = []
    coarsened = SymbolMixture.coarsened

    def watched(self: SymbolMixture, groups: tuple[int, ...]) -> SymbolMixture:
        joined.append(groups)
        return coarsened(self, groups)

    monkeypatch.setattr(SymbolMixture, "coarsened", watched)
    chosen = fit_by_evidence(mixture, [True, True])
    assert joined == [(2, 2), (2, 1)]
    rows = np.tri(24)[:-1, :, None] * np.ones(20)
    value, variance = CountPosterior.of(mixture, whole.best).moments(rows)
    off = CountPosterior.of(mixture, chosen.best).moments(rows)[0] - value
    assert np.abs(off).max() < np.sqrt(variance).max()
