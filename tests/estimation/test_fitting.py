"""Fits against finite differences, a general optimiser and quadrature; what smoothness leaves."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers_decoding import (
    FIELDS,
    explicit_information,
    explicit_precision,
    hump,
    humps,
    law_of,
    line,
    noiseless,
    objective,
    problem,
    reports,
    whitened,
)
from numpy.typing import NDArray
from scipy.optimize import minimize

from sfumato.estimation.decoding import fitting as fitting_module
from sfumato.estimation.decoding.curvature import (
    BandedCurvature,
    Curvature,
    DenseCurvature,
    Point,
    ProductCurvature,
    ReducedCurvature,
)
from sfumato.estimation.decoding.field import Field, Strengths
from sfumato.estimation.decoding.fitting import Effort, Fit, fit, fit_at
from sfumato.estimation.decoding.mixture import Mixture
from sfumato.estimation.decoding.posterior import CountPosterior

Floats = NDArray[np.float64]

EXACT = Effort(gain=1e-9, waves=None)


@pytest.fixture
def exact_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many people are no reason to stop earlier than asked."""
    monkeypatch.setattr(fitting_module, "_GAIN_SHARE", 0.0)


@pytest.fixture
def shape_of_curvature(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Choose the form of the curvature: that of the problem, a matrix or products."""

    def choose(form: str) -> None:
        if form != "own":
            made: type[Any] = {"matrix": DenseCurvature, "products": ProductCurvature}[form]
            monkeypatch.setattr(fitting_module, "curvature_at", lambda at, _: made(at))

    return choose


# Steps


@pytest.mark.parametrize("name", FIELDS)
def test_the_slope_is_that_of_finite_differences(name: str) -> None:
    mixture, field = problem(name)
    theta = 0.3 * np.random.default_rng(18).standard_normal(field.shape)
    here = fitting_module._Point.at(mixture, field, theta)
    assert here.value == pytest.approx(objective(mixture, field.strengths, theta), rel=1e-12)
    slope = mixture.slope(here.mixed)
    gradient = here.law * (slope - np.sum(here.law * slope)) - field.pull(theta)
    step = 1e-5
    for place in np.ndindex(field.shape):
        unit = np.zeros(field.shape)
        unit[place] = step
        there, back = (objective(mixture, field.strengths, theta + sign * unit) for sign in (1, -1))
        # Roundings of the objective, over the step, and the neglected third derivative.
        assert gradient[place] == pytest.approx((there - back) / (2 * step), rel=1e-5, abs=1e-4)


@pytest.mark.parametrize("form", ["own", "matrix", "products"])
@pytest.mark.parametrize("name", FIELDS)
def test_every_step_of_a_fit_goes_up_and_it_ends_at_the_top(
    name: str,
    form: str,
    shape_of_curvature: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shape_of_curvature(form)
    heights: list[float] = []
    uphill = fitting_module._line_search

    def watched(*given: Any) -> Any:
        found = uphill(*given)
        if found is not None:
            heights.append(found.value)
        return found

    monkeypatch.setattr(fitting_module, "_line_search", watched)
    mixture, field = problem(name)
    found = fit(mixture, field)
    assert found.is_converged
    assert len(heights) >= 3
    assert heights == sorted(heights)
    best = minimize(
        lambda theta: -objective(mixture, field.strengths, theta.reshape(field.shape)),
        found.theta.ravel(),
        method="BFGS",
        options={"gtol": 1e-6},
    )
    # A step that gains less than 1e-3 nats ends the search; Newton's steps gain ever less.
    assert -best.fun - heights[-1] < 5e-3
    np.testing.assert_allclose(found.law, law_of(found.theta), rtol=1e-12)
    np.testing.assert_allclose(found.mixed, mixture.forward(found.law), rtol=1e-12)


def apart(one: Fit, other: Fit, mixture: Mixture) -> float:
    """The distance of two modes in posterior standard deviations."""
    curved = explicit_precision(one.law.shape, one.field.strengths)
    curved = curved + explicit_information(mixture, one.law)
    off = (one.theta - other.theta).ravel()
    return math.sqrt(off @ curved @ off)


@pytest.mark.parametrize("name", ["first", "second", "plane", "cells"])
def test_all_forms_of_the_curvature_give_the_same_fit(
    name: str, shape_of_curvature: Callable[[str], None], exact_fits: None
) -> None:
    shape = (24,) if name != "plane" else (8, 6)
    channels = [line(size, 0.5) for size in shape]
    mixture = reports(channels, humps(shape), 20_000, seed=21)
    field = Field(shape, FIELDS[name][1])
    fits, exact = [], []
    for form in ("own", "matrix", "products"):
        shape_of_curvature(form)
        fits.append(fit(mixture, field))
        exact.append(fit(mixture, field, effort=EXACT))
    own = DenseCurvature if name == "plane" else BandedCurvature
    kinds: list[type[Curvature]] = [own, DenseCurvature, ProductCurvature]
    assert [type(found.curvature) for found in fits] == kinds
    # Each stops where a step gains less than 1e-3 nats: within √(2·1e-3) posterior standard
    # deviations of the top.
    for found in fits[1:]:
        assert apart(fits[0], found, mixture) < 2 * math.sqrt(2e-3)
    # Driven to the end, they are the same.
    for found in exact[1:]:
        assert apart(exact[0], found, mixture) < 1e-3
    assert fits[1].evidence == pytest.approx(fits[0].evidence, abs=0.1)


@pytest.mark.parametrize("name", FIELDS)
def test_a_fit_from_elsewhere_ends_in_the_same_place(name: str, exact_fits: None) -> None:
    mixture, field = problem(name)
    flat = fit(mixture, field, effort=EXACT)
    start = np.random.default_rng(23).standard_normal(field.shape)
    other = fit(mixture, field, start, effort=EXACT)
    # Where the prior is weak and some cells have next to nobody, steps gain ever less for long.
    assert apart(flat, other, mixture) < (0.05 if name == "mixed" else 1e-3)
    assert other.evidence == pytest.approx(flat.evidence, abs=0.05)


def test_evidence_is_computed_only_if_asked_for() -> None:
    mixture, field = problem("first")
    assert math.isnan(fit(mixture, field, weigh=False).evidence)
    assert math.isfinite(fit(mixture, field).evidence)


def test_a_fit_whose_mode_is_known_is_that_fit() -> None:
    for name in FIELDS:
        mixture, field = problem(name)
        found = fit(mixture, field)
        again = fit_at(mixture, field, found.law)
        assert again.steps == 0
        np.testing.assert_array_equal(again.law, found.law)
        np.testing.assert_allclose(again.mixed, found.mixed, rtol=1e-12)
        h = found.law * (np.arange(found.law.size).reshape(field.shape) - 1.0)
        h -= found.law * h.sum()
        one, other = (np.sum(h * f.curvature.solve(h)) for f in (found, again))
        # The information of a grid may be that of outputs within 3 %.
        assert other == pytest.approx(one, rel=0.03)


def test_steps_that_run_out_are_not_called_converged(monkeypatch: pytest.MonkeyPatch) -> None:
    mixture = reports([line(30, 1.0)], np.eye(30)[4] + 1e-9, 100_000, seed=24)
    field = Field((30,), Strengths(1e-3, ((0.0, 0.0),)))
    assert fit(mixture, field).is_converged
    few = fitting_module.work_for(field)._replace(steps=2)
    monkeypatch.setattr(fitting_module, "work_for", lambda _: few)
    stopped = fit(mixture, field)
    assert stopped.steps == 2
    assert not stopped.is_converged


# Waves


def test_large_grids_under_smooth_priors_are_confined_to_waves() -> None:
    """Only where cells are many, the prior is smooth and the channel is not a single line."""
    smooth = Strengths(0.0, ((1.0, 0.0), (1.0, 0.0)))
    rough = Strengths(1.0, ((0.0, 0.0), (0.0, 0.0)))
    large = reports([line(20, 0.1), line(20, 0.1)], humps((20, 20)), 5_000, seed=31)
    small = reports([line(16, 0.1), line(16, 0.1)], humps((16, 16)), 5_000, seed=31)
    kinds = [
        (large, Field((20, 20), smooth), ReducedCurvature),
        (large, Field((20, 20), rough), DenseCurvature),
        (small, Field((16, 16), smooth), DenseCurvature),
        (
            reports([line(400, 0.1)], hump(400), 5_000, seed=31),
            Field((400,), Strengths(0.0, ((1.0, 0.0),))),
            BandedCurvature,
        ),
    ]
    for mixture, field, kind in kinds:
        assert isinstance(fit(mixture, field).curvature, kind)


@pytest.mark.parametrize("shape", [(18, 17), (20, 15)])
@pytest.mark.parametrize("second", [10.0, 1e3, 1e5])
def test_waves_lose_next_to_nothing(
    shape: tuple[int, int], second: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """People whose logarithms lie on a slope, so that they are steepest at the ends.

    What is left out is less than 2.5e-3 of the prior's precision in each direction.
    """
    slopes = [np.exp(-np.arange(size) / 5) for size in shape]
    law = np.multiply.outer(*slopes) / np.multiply.outer(*slopes).sum()
    mixture = reports([line(size, 0.2) for size in shape], law, 30_000, seed=34)
    field = Field(shape, Strengths(0.0, ((1e-3, second),) * 2))
    waves = fit(mixture, field)
    assert isinstance(waves.curvature, ReducedCurvature)
    monkeypatch.setattr(fitting_module, "_waves_for", lambda *_: None)
    whole = fit(mixture, field)
    assert isinstance(whole.curvature, DenseCurvature)
    assert waves.evidence == pytest.approx(whole.evidence, abs=0.5)
    rows = np.tri(shape[0])[:-1, :, None] * np.ones(shape[1])
    value, variance = CountPosterior.of(mixture, whole).moments(rows)
    off = CountPosterior.of(mixture, waves).moments(rows)[0] - value
    assert np.all(np.abs(off) < 0.3 * np.sqrt(variance))


# Evidence


@pytest.mark.parametrize("form", ["own", "matrix"])
@pytest.mark.parametrize(
    ("cells", "strengths"),
    [
        (2, Strengths(0.5, ((0.0, 0.0),))),
        (2, Strengths(0.0, ((3.0, 0.0),))),
        (3, Strengths(1.0, ((0.0, 0.0),))),
        (3, Strengths(0.0, ((0.5, 2.0),))),
    ],
)
def test_the_evidence_is_the_integral_over_all_laws(
    cells: int, strengths: Strengths, form: str, shape_of_curvature: Callable[[str], None]
) -> None:
    """By quadrature; Laplace's error falls as 1/n, so sixteen times the people leave about 1/16."""
    shape_of_curvature(form)
    errors = []
    for people in (100, 1_600):
        law = np.array([0.6, 0.4]) if cells == 2 else np.array([0.5, 0.3, 0.2])
        mixture = noiseless([line(cells, 1.5)], law, people)
        found = fit(mixture, Field((cells,), strengths), effort=EXACT)
        errors.append(found.evidence - _integrated(mixture, strengths, found.theta))
    assert abs(errors[0]) < 0.1
    if form == "own":
        assert abs(errors[1]) < abs(errors[0]) / 4
        assert abs(errors[1]) < 0.01
    else:
        # The kept information may be off by 3 % in each of so many directions.
        assert abs(errors[1]) < 0.01 + 0.015 * (cells - (strengths.cells == 0))


def _integrated(mixture: Mixture, strengths: Strengths, mode: Floats) -> float:
    """log ∫ likelihood · standard normal du, by the trapezoid rule on a cube around the top.

    θ = B·u; where λ₀ is 0, u has one dimension less, as constants change nothing.
    """
    matrix = whitened(mode.shape, strengths)
    dimensions = matrix.shape[1]
    centre = np.linalg.lstsq(matrix, mode - (0 if strengths.cells else mode.mean()), rcond=None)[0]

    def heights(u: Floats) -> Floats:
        theta = u @ matrix.T
        law = np.exp(theta - theta.max(axis=-1, keepdims=True))
        law /= law.sum(axis=-1, keepdims=True)
        found: Floats = np.log(law @ mixture.matrix) @ mixture.counts - np.sum(u * u, axis=-1) / 2
        return found

    # The narrow directions are found from the objective itself, not from the code under test.
    curved = np.array(
        [
            [
                -sum(
                    a * b * float(heights(centre + 1e-3 * (a * i + b * j)))
                    for a, b in itertools.product((1, -1), repeat=2)
                )
                / 4e-6
                for j in np.eye(dimensions)
            ]
            for i in np.eye(dimensions)
        ]
    )
    values, vectors = np.linalg.eigh(curved)
    spread = vectors / np.sqrt(values)
    # A quarter of a standard deviation: for a bell the rule is then right to many digits.
    axes = [np.linspace(-8, 8, 65)] * dimensions
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, dimensions)
    height = heights(centre + grid @ spread.T)
    top = height.max()
    volume = math.prod(a[1] - a[0] for a in axes) * abs(np.linalg.det(spread))
    total = float(np.sum(np.exp(height - top))) * volume
    return float(top) + math.log(total) - dimensions / 2 * math.log(2 * math.pi)


def test_a_point_centres_changes() -> None:
    """J·v = p·(v − Σpv) for one v or several."""
    law = humps((3, 4))
    mixture = noiseless([line(3, 1.0), line(4, 1.0)], law, 10.0)
    field = Field((3, 4), FIELDS["plane"][1])
    at = Point(mixture, field, law, mixture.forward(law))
    v = np.random.default_rng(5).standard_normal((2, 3, 4))
    flat = law.ravel()
    exact = v.reshape(2, -1) @ (np.diag(flat) - np.outer(flat, flat))
    np.testing.assert_allclose(at.centred(v).reshape(2, -1), exact, atol=1e-15)
    np.testing.assert_allclose(at.centred(v[0]).ravel(), exact[0], atol=1e-15)
