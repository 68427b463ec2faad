"""The parts of likelihood decoding, each against an independent oracle.

Mixtures against dense matrices and enumerated patterns, EM against closed forms and longer runs,
the field against finite differences and quadrature, error bars against enumerated people.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers_channels import patterns
from helpers_contract import TRIALS
from helpers_statistics import LIMIT
from numpy.typing import NDArray
from scipy.optimize import minimize

import sfumato as sf
from sfumato.channels.base import Channel
from sfumato.channels.geometric import Geometric
from sfumato.channels.response import KaryResponse
from sfumato.estimation.decoding import field as field_module
from sfumato.estimation.decoding import posterior as posterior_module
from sfumato.estimation.decoding.em import decode
from sfumato.estimation.decoding.evidence import Posterior, fit_by_evidence
from sfumato.estimation.decoding.field import Curvature, Field, Strengths, fit
from sfumato.estimation.decoding.mixture import (
    Mixture,
    RowMixture,
    SymbolMixture,
    log_likelihood,
    mixture_of,
    posterior_ratio,
)
from sfumato.estimation.decoding.posterior import CountPosterior, Decoder
from sfumato.estimation.intervals import Estimated, around
from sfumato.estimation.likelihood import narrower

Floats = NDArray[np.float64]

SYMBOLS = [name for name, trial in TRIALS.items() if trial.bind().layout.kind == "symbols"]


def line(size: int, epsilon: float, choice: Any = None) -> Channel:
    """The channel of an axis of integers."""
    channel = choice or Geometric()
    axis = sf.integers("x", 0, size - 1, protect=sf.Distance(epsilon), channel=channel)
    return sf.Study("parts", [axis]).channels[0]


def hump(size: int) -> Floats:
    """A law with one hump and a step."""
    law = np.exp(-(((np.arange(size) - 0.4 * size) / (0.2 * size)) ** 2)) + 0.1
    law[size // 2 :] *= 0.5
    return law / law.sum()


def reports(channels: list[Channel], law: Floats, people: int, seed: int) -> SymbolMixture:
    """A mixture of simulated outputs of people drawn from a distribution over cells."""
    clean = SymbolMixture.of(channels, np.zeros(tuple(c.likelihood().shape[1] for c in channels)))
    mixed = clean.forward(law)
    drawn = np.random.default_rng(seed).multinomial(people, (mixed / mixed.sum()).ravel())
    return replace(clean, counts=drawn.reshape(mixed.shape).astype(np.float64))


def noiseless(channels: list[Channel], law: Floats, people: int) -> SymbolMixture:
    """A mixture of expected counts of outputs, in fractions of people."""
    clean = SymbolMixture.of(channels, np.zeros(tuple(c.likelihood().shape[1] for c in channels)))
    return replace(clean, counts=people * clean.forward(law))


def thermometer_tally(size: int, people: int, epsilon: float = 1.0) -> sf.Tally:
    """A tally of bits."""
    axis = sf.integers("x", 0, size - 1, protect=sf.Distance(epsilon), channel=sf.Thermometer())
    counts = np.random.default_rng(size).multinomial(people, hump(size))
    return sf.Study("bits", [axis]).simulate_counts(counts, seed=3)


# Mixtures


@pytest.mark.parametrize("name", SYMBOLS)
def test_mixing_is_the_likelihood_and_averaging_its_transpose(name: str) -> None:
    channel = TRIALS[name].bind()
    law = channel.likelihood()
    rng = np.random.default_rng(1)
    p, v = rng.random(law.shape[0]), rng.random(law.shape[1])
    for factor in (law, channel):
        mixture = SymbolMixture((factor,), v, ((channel.size,),))
        np.testing.assert_allclose(mixture.forward(p), p @ law, rtol=1e-12)
        np.testing.assert_allclose(mixture.backward(v), law @ v, rtol=1e-12)


@pytest.mark.parametrize("epsilon", [0.01, 0.2, 3.0])
@pytest.mark.parametrize("size", [2, 3, 17, 256, 257, 300])
def test_the_filter_of_a_long_axis_is_the_dense_matrix(size: int, epsilon: float) -> None:
    channel = line(size, epsilon)
    law = channel.likelihood()
    rng = np.random.default_rng(size)
    p, v = rng.random((3, size)), rng.random((3, size))
    np.testing.assert_allclose(channel.mix(p), p @ law, rtol=1e-10)
    np.testing.assert_allclose(channel.expect(v), v @ law.T, rtol=1e-10)
    chosen = SymbolMixture.of([channel], v[0]).factors[0]
    assert isinstance(chosen, np.ndarray) == (size <= 256)


def test_axes_keep_their_places_when_one_is_filtered_and_one_is_a_matrix() -> None:
    one, two = (
        line(5, 0.4),
        KaryResponse().bind(sf.categories("c", ["a", "b", "c"], protect=sf.Uniform(1.0)).metric()),
    )
    dense = SymbolMixture((one.likelihood(), two.likelihood()), np.ones((5, 3)), ((5,), (3,)))
    mixed = SymbolMixture((one, two.likelihood()), np.ones((5, 3)), ((5,), (3,)))
    rng = np.random.default_rng(2)
    p, v = rng.random((5, 3)), rng.random((5, 3))
    full = np.kron(one.likelihood(), two.likelihood())
    np.testing.assert_allclose(dense.matrix, full, rtol=1e-14)
    for mixture in (dense, mixed):
        np.testing.assert_allclose(mixture.forward(p).ravel(), p.ravel() @ full, rtol=1e-12)
        np.testing.assert_allclose(mixture.backward(v).ravel(), full @ v.ravel(), rtol=1e-12)


@pytest.mark.parametrize("size", [2, 3, 6])
def test_rows_of_bits_have_the_enumerated_likelihood(size: int) -> None:
    tally = thermometer_tally(size, 500)
    channel = tally.study.channels[0]
    mixture = mixture_of(tally.statistic, tally.study.blocks, [0])
    assert isinstance(mixture, RowMixture)
    sent = np.bincount(patterns(tally.statistic.columns[0]), minlength=1 << channel.layout.count)
    assert len(mixture.counts) == np.count_nonzero(sent)
    law = channel.likelihood()
    rng = np.random.default_rng(size)
    a, b = rng.dirichlet(np.ones(size)), rng.dirichlet(np.ones(size))
    seen = sent > 0
    exact = [float(np.sum(sent[seen] * np.log((p @ law)[seen]))) for p in (a, b)]
    found = [log_likelihood(mixture, mixture.forward(p)) for p in (a, b)]
    # Rows are known up to a factor each, which drops out of any comparison.
    assert found[0] - found[1] == pytest.approx(exact[0] - exact[1], rel=1e-10)


def test_rows_of_bits_and_symbols_together_have_the_enumerated_likelihood() -> None:
    axes = [
        sf.integers("b", 0, 3, protect=sf.Distance(0.8), channel=sf.Thermometer()),
        sf.integers("s", 0, 2, protect=sf.Distance(0.5), channel=sf.Geometric()),
    ]
    study = sf.Study("both", axes)
    counts = np.random.default_rng(4).integers(0, 40, (4, 3))
    tally = study.simulate_counts(counts, seed=5)
    mixture = mixture_of(tally.statistic, study.blocks, [0, 1])
    bits, symbols = tally.statistic.columns
    bit_law, symbol_law = (channel.likelihood() for channel in study.channels)
    rng = np.random.default_rng(6)
    a, b = rng.dirichlet(np.ones(12)).reshape(4, 3), rng.dirichlet(np.ones(12)).reshape(4, 3)
    exact = []
    for p in (a, b):
        table = np.einsum("xz,xi,zj->ij", p, bit_law, symbol_law)
        exact.append(float(np.log(table[patterns(bits), symbols.astype(np.int64)]).sum()))
    found = [log_likelihood(mixture, mixture.forward(p)) for p in (a, b)]
    assert found[0] - found[1] == pytest.approx(exact[0] - exact[1], rel=1e-10)
    v = rng.random(len(mixture.counts))
    assert np.sum(mixture.forward(a) * v) == pytest.approx(np.sum(a * mixture.backward(v)))


def test_axes_left_out_are_summed_over() -> None:
    axes = [sf.integers(d, 0, 4, protect=sf.Distance(1.0), channel=sf.Geometric()) for d in "ab"]
    study = sf.Study("two", axes)
    counts = np.random.default_rng(7).integers(0, 50, (5, 5))
    tally = study.simulate_counts(counts, seed=8)
    both = mixture_of(tally.statistic, study.blocks, [0, 1])
    one = mixture_of(tally.statistic, study.blocks, [1])
    np.testing.assert_array_equal(one.counts, both.counts.sum(axis=0))


@pytest.mark.parametrize("groups", [(1, 1), (2, 3), (4, 1), (5, 7)])
def test_joining_cells_keeps_totals_and_the_law_of_joined_outputs(groups: tuple[int, int]) -> None:
    channels = [line(11, 0.3), line(7, 0.9)]
    mixture = reports(channels, np.outer(hump(11), hump(7)), 1_000, seed=9)
    coarse = mixture.coarsened(groups)
    sizes = tuple(-(-m // g) for m, g in zip((11, 7), groups, strict=True))
    assert coarse.shape == sizes == coarse.counts.shape
    assert coarse.counts.sum() == 1_000
    for factor in coarse.factors:
        np.testing.assert_allclose(np.asarray(factor).sum(axis=1), 1.0, rtol=1e-12)
    law = np.random.default_rng(10).dirichlet(np.ones(math.prod(sizes))).reshape(sizes)
    fine = law
    for axis, (size, group) in enumerate(zip((11, 7), groups, strict=True)):
        starts = np.arange(0, size, group)
        held = np.diff(np.append(starts, size))
        share = fine / held.reshape([-1 if d == axis else 1 for d in range(2)])
        fine = np.repeat(share, held, axis=axis)
    out = mixture.forward(fine)
    for axis, (size, group) in enumerate(zip((11, 7), groups, strict=True)):
        out = np.add.reduceat(out, np.arange(0, size, group), axis=axis)
    np.testing.assert_allclose(coarse.forward(law), out, rtol=1e-12)


# Expectation and maximisation

PROBLEMS: dict[str, Mixture] = {
    "hump": reports([line(30, 0.5)], hump(30), 20_000, seed=11),
    "spikes": reports([line(30, 0.3)], np.eye(30)[[3, 17]].mean(axis=0), 5_000, seed=12),
    "plane": reports([line(9, 0.7), line(8, 0.4)], np.outer(hump(9), hump(8)), 9_000, seed=13),
    "bits": mixture_of((t := thermometer_tally(6, 800)).statistic, t.study.blocks, [0]),
}


@pytest.mark.parametrize("accelerate", [True, False])
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_likelihood_never_falls(name: str, accelerate: bool) -> None:
    trace: list[float] = []
    found = decode(PROBLEMS[name], accelerate=accelerate, most_steps=400, trace=trace)
    assert len(trace) > 20
    # A sum of n logarithms is known to about n roundings.
    assert np.all(np.diff(trace) >= -1e-13 * abs(trace[-1]) * len(trace))
    assert trace[-1] > trace[0]
    assert found.log_likelihood == trace[-1]
    assert found.law.sum() == pytest.approx(1.0, abs=1e-12)
    assert found.law.min() >= 0


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_gap_bounds_the_distance_to_the_best_likelihood(name: str) -> None:
    """A much longer accelerated run gains no more than the short run's bound."""
    long = decode(PROBLEMS[name], tolerance=1e-14, most_steps=4_000)
    for steps in (1, 5, 20, 200):
        short = decode(PROBLEMS[name], tolerance=0.0, most_steps=steps, accelerate=False)
        assert short.steps == steps
        assert long.log_likelihood - short.log_likelihood <= short.gap
        assert short.gap < PROBLEMS[name].counts.sum() * math.prod(PROBLEMS[name].shape)
    assert long.gap < short.gap


def test_acceleration_reaches_the_same_maximum() -> None:
    mixture = reports([line(12, 1.5)], hump(12), 10_000, seed=14)
    plain = decode(mixture, tolerance=1e-12, most_steps=100_000, accelerate=False)
    fast = decode(mixture, tolerance=1e-12, most_steps=100_000)
    assert plain.converged
    assert fast.converged
    assert fast.steps < plain.steps
    np.testing.assert_allclose(fast.law, plain.law, atol=1e-9)
    assert abs(fast.log_likelihood - plain.log_likelihood) <= fast.gap + plain.gap + 1e-8


@pytest.mark.parametrize(("yes", "share"), [(700, None), (100, 0.0), (990, 1.0)])
def test_two_cells_have_the_textbook_solution(yes: int, share: float | None) -> None:
    """Randomised response: (share of yes − q)/(1 − 2q), and at the border where that is outside."""
    axis = sf.categories("c", ["no", "yes"], protect=sf.Uniform(1.2))
    channel = sf.Study("coin", [axis]).channels[0]
    q = float(channel.likelihood()[0, 1])
    mixture = SymbolMixture.of([channel], np.array([1_000.0 - yes, yes]))
    found = decode(mixture, tolerance=1e-13, most_steps=200_000)
    exact = (yes / 1_000 - q) / (1 - 2 * q) if share is None else share
    assert found.law[1] == pytest.approx(exact, abs=1e-6)


def test_reports_as_a_law_has_them_give_that_law_back() -> None:
    law = np.array([0.5, 0.2, 0.3])
    found = decode(noiseless([line(3, 1.0)], law, 5_000), tolerance=1e-14, most_steps=100_000)
    np.testing.assert_allclose(found.law, law, atol=1e-8)
    assert found.gap < 1e-6


def test_large_grids_say_that_they_stopped_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.estimation.decoding.em._MOST_WORK", 150 * 30)
    told: list[float] = []
    found = decode(PROBLEMS["hump"], tolerance=0.0, accelerate=False, progress=told.append)
    assert found.steps == 150
    assert not found.converged
    assert told[-1] == 1.0
    assert told == sorted(told)


# The field

FIELDS = {
    "cells": ((6,), Strengths(0.7, ((0.0, 0.0),))),
    "first": ((6,), Strengths(0.0, ((2.0, 0.0),))),
    "second": ((6,), Strengths(0.0, ((0.01, 30.0),))),
    "plane": ((4, 3), Strengths(0.0, ((1.0, 2.0), (0.5, 0.0)))),
    "mixed": ((4, 3), Strengths(1e-3, ((1.0, 2.0), (0.0, 0.0)))),
}


def problem(name: str, people: int = 2_000, *, clean: bool = False) -> tuple[Mixture, Field]:
    """Reports on a small grid and a prior for it."""
    shape, strengths = FIELDS[name]
    channels = [line(size, 0.8) for size in shape]
    law = hump(shape[0]) if len(shape) == 1 else np.outer(hump(shape[0]), hump(shape[1]))
    make = noiseless(channels, law, people) if clean else reports(channels, law, people, seed=15)
    return make, Field(shape, strengths)


def objective(mixture: Mixture, field: Field, u: Floats) -> float:
    """Log-likelihood less ½|u|², written out with dense matrices."""
    theta = field.matrix @ u.ravel()
    law = np.exp(theta - theta.max())
    law /= law.sum()
    counts = mixture.counts.ravel()
    return float(counts @ np.log(law @ mixture.matrix)) - float(u.ravel() @ u.ravel()) / 2


@pytest.mark.parametrize("name", FIELDS)
def test_the_prior_is_the_roughness_it_says(name: str) -> None:
    """|u|² = λ₀·Σθ² + Σ (λ₁·Σ(first differences)² + λ₂·Σ(second differences)²), level apart."""
    shape, strengths = FIELDS[name]
    field = Field(shape, strengths)
    u = np.random.default_rng(16).standard_normal(shape)
    if not strengths.cells:
        u -= np.sum(u * (c := field.coordinates(np.ones(shape)))) * c / np.sum(c * c)
    theta = field.theta(u)
    penalty = strengths.cells * np.sum(theta**2)
    for axis, (first, second) in enumerate(strengths.along):
        penalty += first * np.sum(np.diff(theta, 1, axis=axis) ** 2)
        penalty += second * np.sum(np.diff(theta, 2, axis=axis) ** 2)
    assert np.sum(u * u) == pytest.approx(penalty, rel=1e-9)
    np.testing.assert_allclose(field.from_theta(theta), u, atol=1e-9)
    v = np.random.default_rng(17).standard_normal(shape)
    assert np.sum(field.theta(u) * v) == pytest.approx(np.sum(u * field.coordinates(v)))
    np.testing.assert_allclose(field.matrix @ u.ravel(), theta.ravel(), atol=1e-12)


@pytest.mark.parametrize("name", FIELDS)
def test_the_slope_is_that_of_finite_differences(name: str) -> None:
    mixture, field = problem(name)
    u = 0.3 * np.random.default_rng(18).standard_normal(field.shape)
    value, law, mixed = field_module._objective(mixture, field, u)
    assert value == pytest.approx(objective(mixture, field, u), rel=1e-12)
    multiplier = mixture.backward(posterior_ratio(mixture, mixed))
    slope = field.coordinates(law * (multiplier - mixture.counts.sum())) - u
    step = 1e-5
    for place in np.ndindex(field.shape):
        unit = np.zeros(field.shape)
        unit[place] = step
        there, back = objective(mixture, field, u + unit), objective(mixture, field, u - unit)
        # Roundings of the objective, over the step, and the neglected third derivative.
        assert slope[place] == pytest.approx((there - back) / (2 * step), rel=1e-5, abs=1e-4)


@pytest.mark.parametrize("name", FIELDS)
def test_the_curvature_is_that_of_finite_differences_where_reports_are_as_expected(
    name: str,
) -> None:
    """With counts as the law has them, expected and observed information are the same."""
    _, field = problem(name)
    u = 0.3 * np.random.default_rng(19).standard_normal(field.shape)
    theta = field.theta(u)
    law = np.exp(theta) / np.exp(theta).sum()
    mixture = noiseless([line(size, 0.8) for size in field.shape], law, 2_000)
    curvature = Curvature(mixture, field, law, mixture.forward(law))
    cells = law.size
    step = 1e-3
    units = [step * unit.reshape(field.shape) for unit in np.eye(cells)]
    numeric = np.empty((cells, cells))
    for i, j in itertools.product(range(cells), repeat=2):
        corners = [
            objective(mixture, field, u + a * units[i] + b * units[j]) * a * b
            for a, b in itertools.product((1, -1), repeat=2)
        ]
        numeric[i, j] = -sum(corners) / (4 * step**2)
    exact = np.array([curvature.times(unit / step).ravel() for unit in units])
    # Truncation of the differences is of order step², roundings 1e-12·1e4/step².
    np.testing.assert_allclose(exact, numeric, atol=1e-3 * np.abs(exact).max())
    np.testing.assert_allclose(exact, exact.T, atol=1e-9 * np.abs(exact).max())
    some = np.random.default_rng(20).standard_normal((2, *field.shape))
    solved = curvature.solve(some)
    np.testing.assert_allclose(curvature.times(solved[1]), some[1], atol=1e-8)
    sign, logarithm = np.linalg.slogdet(exact)
    assert sign == 1
    assert curvature.log_determinant() == pytest.approx(logarithm, rel=1e-9)


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("name", FIELDS)
def test_every_step_of_a_fit_goes_up_and_it_ends_at_the_top(
    name: str, dense: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(field_module, "DENSE_CELLS", 600 if dense else 0)
    heights: list[float] = []
    uphill = field_module._line_search

    def watched(*given: Any) -> Any:
        found = uphill(*given)
        if found is not None:
            heights.append(found.value)
        return found

    monkeypatch.setattr(field_module, "_line_search", watched)
    mixture, field = problem(name)
    found = fit(mixture, field)
    assert len(heights) >= 3
    assert heights == sorted(heights)
    best = minimize(
        lambda u: -objective(mixture, field, u),
        found.u.ravel(),
        method="BFGS",
        options={"gtol": 1e-6},
    )
    # A step that gains less than 1e-3 nats ends the search; Newton's steps gain ever less.
    assert -best.fun - heights[-1] < 5e-3
    np.testing.assert_allclose(found.mixed, mixture.forward(found.law), rtol=1e-12)


@pytest.mark.parametrize("name", ["first", "second", "plane", "cells"])
def test_matrices_and_products_give_the_same_fit(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = (24,) if name != "plane" else (8, 6)
    channels = [line(size, 0.5) for size in shape]
    law = hump(24) if name != "plane" else np.outer(hump(8), hump(6))
    mixture = reports(channels, law, 20_000, seed=21)
    field = Field(shape, FIELDS[name][1])
    dense = fit(mixture, field)
    assert dense.curvature.is_dense
    monkeypatch.setattr(field_module, "DENSE_CELLS", 0)
    implicit = fit(mixture, field)
    assert not implicit.curvature.is_dense
    # Both stop where a step gains less than 1e-3 nats: within √(2·1e-3) posterior standard
    # deviations of the top each.
    apart = implicit.u - dense.u
    assert math.sqrt(np.sum(apart * dense.curvature.times(apart))) < 2 * math.sqrt(2e-3)
    # With the search driven to its end, they are the same.
    monkeypatch.setattr(field_module, "_GAIN", 1e-9)
    monkeypatch.setattr(field_module, "_GAIN_SHARE", 0.0)
    np.testing.assert_allclose(
        fit(mixture, field, implicit.theta()).law,
        _with_matrices(mixture, field, monkeypatch).law,
        rtol=1e-3,
    )
    solved = implicit.curvature.solve(dense.u, tolerance=1e-10)
    there = Curvature(mixture, field, implicit.law, implicit.mixed).solve(dense.u)
    np.testing.assert_allclose(solved, there, atol=1e-6 * np.abs(there).max())


def _with_matrices(mixture: Mixture, field: Field, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The fit by matrices, also afterwards."""
    monkeypatch.setattr(field_module, "DENSE_CELLS", 600)
    return fit(mixture, field)


@pytest.mark.parametrize("name", ["first", "second", "cells"])
def test_the_probed_determinant_is_within_its_monte_carlo_error(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A probe of random signs misses the trace of L = log(I + K) with variance 2·Σ_{i≠j} L_ij²."""
    size, people = 40, 20_000
    mixture = reports([line(size, 0.4)], hump(size), people, seed=22)
    field = Field((size,), FIELDS[name][1])
    dense = fit(mixture, field)
    full = np.array([dense.curvature.times(unit) for unit in np.eye(size)])
    values, vectors = np.linalg.eigh((full + full.T) / 2)
    logarithm = (vectors * np.log(values)) @ vectors.T
    exact = float(np.trace(logarithm))
    assert dense.curvature.log_determinant() == pytest.approx(exact, rel=1e-8)
    monkeypatch.setattr(field_module, "DENSE_CELLS", 0)
    found = Curvature(mixture, field, dense.law, dense.mixed).log_determinant()
    off = logarithm - np.diag(np.diag(logarithm))
    stderr = math.sqrt(2 * float(np.sum(off**2)) / 8)  # eight probes on a grid this small
    assert 0 < abs(found - exact) < LIMIT * stderr


def test_few_products_suffice_for_the_determinant_of_a_wide_spectrum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A weak rough prior and shares over many decades: the preconditioned operator is probed.

    The probes' error is that of L = log(D^(−½)(I + K)D^(−½)); the twin divides nothing out.
    """
    size, people = 200, 1_000_000
    law = np.exp(3 * np.random.default_rng(41).standard_normal(size))
    mixture = noiseless([line(size, 5)], law / law.sum(), people)
    field = Field((size,), Strengths(1e-3, ((0.0, 0.0),)))
    monkeypatch.setattr(field_module, "DENSE_CELLS", 0)
    curvature = Curvature(mixture, field, law / law.sum(), mixture.forward(law / law.sum()))
    full = np.array([curvature.times(unit) for unit in np.eye(size)])
    exact = float(np.linalg.slogdet(full)[1])
    root = np.sqrt(curvature._diagonal)
    values, vectors = np.linalg.eigh(full / np.outer(root, root))
    logarithm = (vectors * np.log(values)) @ vectors.T
    off = logarithm - np.diag(np.diag(logarithm))
    limit = LIMIT * math.sqrt(2 * float(np.sum(off**2)) / 8)
    assert abs(curvature.log_determinant() - exact) < limit
    monkeypatch.setattr(Field, "is_rough", property(lambda _: False))
    undivided = Curvature(mixture, field, law / law.sum(), mixture.forward(law / law.sum()))
    assert undivided.log_determinant() - exact > limit


@pytest.mark.parametrize(
    ("cells", "strengths"),
    [
        (2, Strengths(0.5, ((0.0, 0.0),))),
        (2, Strengths(0.0, ((3.0, 0.0),))),
        (3, Strengths(1.0, ((0.0, 0.0),))),
        (3, Strengths(0.0, ((0.5, 2.0),))),
    ],
)
def test_the_evidence_is_the_integral_over_all_laws(cells: int, strengths: Strengths) -> None:
    """By quadrature; Laplace's error falls as 1/n, so sixteen times the people leave about 1/16."""
    errors = []
    for people in (100, 1_600):
        law = np.array([0.6, 0.4]) if cells == 2 else np.array([0.5, 0.3, 0.2])
        mixture = noiseless([line(cells, 1.5)], law, people)
        field = Field((cells,), strengths)
        found = fit(mixture, field)
        errors.append(found.evidence - _integrated(mixture, field, found.u))
    assert abs(errors[0]) < 0.1
    assert abs(errors[1]) < abs(errors[0]) / 4
    assert abs(errors[1]) < 0.01


def _integrated(mixture: Mixture, field: Field, centre: Floats) -> float:
    """log ∫ likelihood · standard normal du, by the trapezoid rule on a cube around the top."""
    cells = centre.size
    matrix = np.array([field.theta(unit) for unit in np.eye(cells)]).T
    # The narrow directions are found from the objective itself, not from the code under test.
    curved = np.array(
        [
            [
                -sum(
                    a * b * objective(mixture, field, centre + 1e-3 * (a * i + b * j))
                    for a, b in itertools.product((1, -1), repeat=2)
                )
                / 4e-6
                for j in np.eye(cells)
            ]
            for i in np.eye(cells)
        ]
    )
    values, vectors = np.linalg.eigh(curved)
    spread = vectors / np.sqrt(values)
    # A quarter of a standard deviation: for a bell the rule is then right to many digits.
    axes = [np.linspace(-8, 8, 65)] * cells
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, cells)
    u = centre + grid @ spread.T
    theta = u @ matrix.T
    law = np.exp(theta - theta.max(axis=1, keepdims=True))
    law /= law.sum(axis=1, keepdims=True)
    height = np.log(law @ mixture.matrix) @ mixture.counts - np.sum(u * u, axis=1) / 2
    top = height.max()
    volume = math.prod(a[1] - a[0] for a in axes) * abs(np.linalg.det(spread))
    total = float(np.sum(np.exp(height - top))) * volume
    return float(top) + math.log(total) - cells / 2 * math.log(2 * math.pi)


# People behind the reports


def few_people() -> tuple[SymbolMixture, Floats, list[int]]:
    """Six reports on three cells, a law that is not their maximum, and the outputs."""
    sent = [0, 0, 1, 2, 2, 2]
    counts = np.bincount(sent, minlength=3).astype(np.float64)
    return SymbolMixture.of([line(3, 0.9)], counts), np.array([0.2, 0.5, 0.3]), sent


def posterior_at(mixture: Mixture, law: Floats, field: Field) -> CountPosterior:
    """The posterior of the counts if this distribution were the fit."""
    mixed = mixture.forward(law)
    curvature = Curvature(mixture, field, law, mixed)
    u = field.from_theta(np.log(law))
    return CountPosterior.of(mixture, field_module.Fit(field, law, mixed, u, 0.0, curvature, 0))


@pytest.mark.parametrize("dense", [True, False])
def test_counts_given_the_law_are_those_of_all_ways_people_may_sit(
    dense: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mean and variance of Σ w·c over all 3⁶ ways, each with its posterior chance."""
    mixture, law, sent = few_people()
    field = Field((3,), Strengths(0.8, ((0.0, 0.0),)))
    opened = posterior_at(mixture, law, field)
    chance = law[:, None] * mixture.matrix
    chance /= chance.sum(axis=0)
    weights = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.3, -2.0, 1.7]])
    for w in weights:
        ways = list(itertools.product(range(3), repeat=len(sent)))
        share = np.array(
            [math.prod(chance[x, y] for x, y in zip(way, sent, strict=True)) for way in ways]
        )
        total = np.array([sum(w[x] for x in way) for way in ways])
        mean = float(share @ total)
        variance = float(share @ (total - mean) ** 2)
        assert share.sum() == pytest.approx(1.0)
        assert float(opened.counts @ w) == pytest.approx(mean, rel=1e-12)
        within, slope = opened._dense(w[None]) if dense else opened._one(w)
        assert np.ravel(within)[0] == pytest.approx(variance, rel=1e-12)
        for place in range(3):
            up = [
                float(posterior_at(mixture, law * np.exp(e * np.eye(3)[place]), field).counts @ w)
                for e in (1e-6, -1e-6)
            ]
            assert np.ravel(slope)[place] == pytest.approx((up[0] - up[1]) / 2e-6, abs=1e-8)


def test_the_whole_variance_is_that_of_the_posterior_by_quadrature() -> None:
    """Two cells, θ integrated out by brute force.

    Laplace puts the mean where the top is: off by the skewness, a share of a standard deviation
    that falls as 1/√n, so a quarter is left with sixteen times the people; the variance's relative
    error falls as 1/n.
    """
    off, ratio = [], []
    for people in (400, 6_400):
        mixture = noiseless([line(2, 1.0)], np.array([0.7, 0.3]), people)
        found = fit(mixture, Field((2,), Strengths(0.5, ((0.0, 0.0),))))
        value, variance = CountPosterior.of(mixture, found).moments(np.array([[1.0, 0.0]]))
        mean, spread = _count_of_two_cells(mixture, 0.5)
        off.append(abs(value[0] - mean) / math.sqrt(spread))
        ratio.append(abs(variance[0] / spread - 1))
    assert off[0] < 0.25
    assert off[1] < 0.4 * off[0]
    assert ratio[1] < 0.02


def _count_of_two_cells(mixture: SymbolMixture, strength: float) -> tuple[float, float]:
    """Mean and variance of the first cell's count over its whole posterior."""
    # θ₀ − θ₁ is normal with variance 2/λ₀; the level does not matter.
    d = np.linspace(-12, 12, 20_001)
    p = 1 / (1 + np.exp(-d))
    mixed = np.stack([p, 1 - p], axis=1) @ mixture.matrix
    height = np.log(mixed) @ mixture.counts - d**2 * strength / 4
    weight = np.exp(height - height.max())
    weight /= weight.sum()
    chance = p[:, None] * mixture.matrix[0] / mixed
    mean, within = chance @ mixture.counts, (chance * (1 - chance)) @ mixture.counts
    exact = float(weight @ mean)
    return exact, float(weight @ (within + (mean - exact) ** 2))


@pytest.mark.parametrize("name", FIELDS)
def test_people_are_conserved(name: str) -> None:
    mixture, field = problem(name)
    opened = CountPosterior.of(mixture, fit(mixture, field))
    assert opened.counts.sum() == pytest.approx(2_000, rel=1e-12)
    value, variance = opened.moments(np.ones((1, *field.shape)))
    assert value[0] == pytest.approx(2_000, rel=1e-12)
    assert variance[0] == pytest.approx(0.0, abs=1e-6)


def test_large_grids_find_the_same_variances(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few questions exactly; many from 64 draws, each variance to √(2/64) of the part sampled."""
    shape = (7, 6)
    channels = [line(size, 0.6) for size in shape]
    mixture = reports(channels, np.outer(hump(7), hump(6)), 5_000, seed=24)
    found = fit(mixture, Field(shape, FIELDS["plane"][1]))
    rng = np.random.default_rng(25)
    rows = rng.random((30, *shape)).round()
    opened = CountPosterior.of(mixture, found)
    values, exact = opened.moments(rows)
    within, _ = opened._dense(rows)
    monkeypatch.setattr(posterior_module, "DENSE_CELLS", 0)
    few_values, few = opened.moments(rows[:5])
    np.testing.assert_allclose(few_values, values[:5], rtol=1e-12)
    np.testing.assert_allclose(few, exact[:5], rtol=1e-9)
    many_values, many = opened.moments(rows)
    np.testing.assert_allclose(many_values, values, rtol=1e-12)
    between = exact - within
    assert np.all(np.abs(many - exact) < (LIMIT + 1) * math.sqrt(2 / 64) * between)
    assert np.any(np.abs(many - exact) > 0.01 * exact)


def test_intervals_are_widened_by_the_rough_fits() -> None:
    mixture = reports([line(8, 0.7)], hump(8), 3_000, seed=26)
    best = fit(mixture, Field((8,), Strengths(0.0, ((10.0, 0.0),))))
    rough = tuple(
        fit(mixture, Field((8,), Strengths(level, ((0.0, 0.0),)))) for level in (0.01, 1.0)
    )
    rows = np.tri(8)[:-1]
    value, wide = Decoder(Posterior(mixture, best, rough)).moments(rows)
    alone, variance = CountPosterior.of(mixture, best).moments(rows)
    np.testing.assert_array_equal(value, alone)
    reach = [variance]
    for other in rough:
        theirs, spread = CountPosterior.of(mixture, other).moments(rows)
        reach.append(spread + (theirs - value) ** 2)
    np.testing.assert_array_equal(wide, np.max(reach, axis=0))
    assert np.any(wide > 1.1 * variance)


def test_the_narrower_interval_is_taken_and_the_unbiased_one_keeps_its_middle() -> None:
    values, wide = np.array([10.0, 20.0, 30.0]), np.array([1.0, 9.0, math.inf])
    unbiased = Estimated.symmetric(np.array([11.0, 22.0, 36.0]), np.array([4.0, 4.0, 4.0]))
    found = narrower(values, wide, unbiased)
    np.testing.assert_array_equal(found.value, values)
    np.testing.assert_array_equal(found.variance, [1.0, 4.0, 4.0])
    np.testing.assert_array_equal(found.centre, [10.0, 22.0, 36.0])


def test_an_interval_is_extended_to_contain_the_value() -> None:
    low, high = around(np.array([30.0, 20.0]), np.array([36.0, 20.0]), np.array([4.0, 4.0]))
    np.testing.assert_array_equal([low, high], [[30.0, 16.0], [40.0, 24.0]])


def test_without_order_intervals_are_unbiased_ones() -> None:
    mixture = reports([line(8, 0.7)], hump(8), 3_000, seed=26)
    posterior = fit_by_evidence(mixture, [False])
    assert posterior.rough == ()
    assert fit_by_evidence(mixture, [True]).rough
    assert np.all(np.isinf(Decoder(posterior).moments(np.eye(8))[1]))


# Strengths


def test_smooth_people_get_smoothing_and_spiky_ones_none() -> None:
    smooth = fit_by_evidence(reports([line(40, 0.5)], hump(40), 50_000, seed=27), [True])
    law = np.zeros(40)
    law[[3, 17, 18, 31]] = 0.25
    spiky = fit_by_evidence(reports([line(40, 0.5)], law, 50_000, seed=28), [True])
    assert smooth.best.field.strengths.along != ((0.0, 0.0),)
    assert spiky.best.field.strengths.along == ((0.0, 0.0),)
    for chosen in (smooth, spiky):
        assert chosen.rough
        assert all(f.field.strengths.along == ((0.0, 0.0),) for f in chosen.rough)


def test_unordered_axes_are_never_smoothed() -> None:
    mixture = reports([line(12, 0.5)], hump(12), 20_000, seed=29)
    chosen = fit_by_evidence(mixture, [False])
    assert chosen.best.field.strengths.along == ((0.0, 0.0),)
    rough = fit_by_evidence(mixture, [True]).rough
    assert chosen.best.evidence == pytest.approx(max(f.evidence for f in rough))


def test_large_grids_choose_strengths_on_joined_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.estimation.decoding.evidence._WHOLE_CELLS", 50)
    monkeypatch.setattr("sfumato.estimation.decoding.evidence.COARSE_CELLS", 32)
    told: list[float] = []
    mixture = reports([line(61, 0.5)], hump(61), 50_000, seed=30)
    chosen = fit_by_evidence(mixture, [True], progress=told.append)
    assert chosen.best.law.shape == (61,)
    assert told[-1] == 1.0
    monkeypatch.undo()
    whole = fit_by_evidence(mixture, [True])
    off = np.abs(np.cumsum(chosen.best.law) - np.cumsum(whole.best.law)).max()
    stderr = np.sqrt(CountPosterior.of(mixture, whole.best).moments(np.tri(61))[1]).max() / 50_000
    assert off < stderr
