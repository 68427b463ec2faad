"""Every form of the curvature against the matrix written out, and against the others."""

from __future__ import annotations

import itertools
import math

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
    point,
    reports,
    thermometer_tally,
)
from helpers_statistics import LIMIT
from numpy.typing import NDArray

from sfumato.channels.geometric_noise import NoiseLine
from sfumato.estimation.decoding import curvature as curvature_module
from sfumato.estimation.decoding.curvature import (
    BandedCurvature,
    Curvature,
    DenseCurvature,
    ProductCurvature,
    ReducedCurvature,
    work_for,
)
from sfumato.estimation.decoding.field import Field, Strengths
from sfumato.estimation.decoding.mixture import Mixture, SymbolMixture, mixture_of
from sfumato.estimation.decoding.waves import Waves

Floats = NDArray[np.float64]

EPSILONS = (0.01, 0.1, 1.0, 5.0)
SIZES = (2, 3, 5, 50)
ALONG = {
    "cells": Strengths(0.7, ((0.0, 0.0),)),
    "weak cells": Strengths(1e-3, ((0.0, 0.0),)),
    "first": Strengths(0.0, ((2.0, 0.0),)),
    "second": Strengths(0.0, ((1e-3, 1e4),)),
    "ridged": Strengths(0.3, ((0.5, 4.0),)),
    "apart": Strengths(0.0, ((0.5, 4.0),), 0.3),
    "far apart": Strengths(0.0, ((0.01, 1e3),), 10.0),
}


def explicit_solution(curved: Floats, h: Floats) -> Floats:
    """H⁻¹·h for rows h, constants fixed by making the solution sum to zero where λ₀ is 0."""
    solved: Floats = np.linalg.lstsq(curved, h.reshape(len(h), -1).T, rcond=1e-14)[0].T
    return solved.reshape(h.shape)


def explicit_log_determinant(mixture: Mixture, field: Field, law: Floats) -> float:
    """Log det H − log det Λ; where λ₀ is 0, both with the precision 1 for the constants."""
    prior = explicit_precision(field.shape, field.strengths)
    if not field.strengths.cells:
        prior = prior + np.full_like(prior, 1 / law.size)
    curved = prior + explicit_information(mixture, law)
    return float(np.linalg.slogdet(curved)[1] - np.linalg.slogdet(prior)[1])


def sides(field: Field, count: int = 3) -> Floats:
    """Right-hand sides; they sum to zero where λ₀ is 0."""
    h = np.random.default_rng(7).standard_normal((count, *field.shape))
    if not field.strengths.cells:
        h -= h.mean(axis=tuple(range(1, h.ndim)), keepdims=True)
    return h


def check(found: Curvature, mixture: Mixture, field: Field, law: Floats, rtol: float) -> None:
    """The curvature solves and has the determinant of the matrix written out."""
    curved = explicit_precision(field.shape, field.strengths) + explicit_information(mixture, law)
    h = sides(field)
    solved, exact = found.solve(h), explicit_solution(curved, h)
    if not field.strengths.cells:
        # Constants change nothing.
        axes = tuple(range(1, h.ndim))
        solved = solved - solved.mean(axis=axes, keepdims=True)
        exact = exact - exact.mean(axis=axes, keepdims=True)
    np.testing.assert_allclose(solved, exact, atol=rtol * np.abs(exact).max())
    np.testing.assert_allclose(found.solve(h[1]), found.solve(h)[1], atol=1e-12 * np.abs(h).max())
    wanted = explicit_log_determinant(mixture, field, law)
    # The matrix written out has its entries to ε, and so its least eigenvalue to ε · its condition.
    prior = np.linalg.eigvalsh(explicit_precision(field.shape, field.strengths))
    least = prior[0] if field.strengths.cells else prior[1]
    slack = max(rtol, np.finfo(float).eps * float(prior[-1] / least))
    assert found.log_determinant() == pytest.approx(wanted, rel=rtol, abs=slack)


# Geometric noise on a line


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_inverse_of_the_noise_is_tridiagonal(size: int, epsilon: float) -> None:
    channel = line(size, epsilon)
    noise = channel.noise_line()
    assert isinstance(noise, NoiseLine)
    below, own, above = noise.inverse_bands(size)
    inverse = np.diag(own) + np.diag(above[:-1], 1) + np.diag(below[:-1], -1)
    assert above[-1] == below[-1] == 0
    scale = np.abs(inverse).max()
    np.testing.assert_allclose(channel.likelihood() @ inverse, np.eye(size), atol=1e-12 * scale)
    exact = -np.linalg.slogdet(channel.likelihood())[1]
    # Its rounding errors are multiplied by the condition number.
    rounding = 1e-15 * size * np.linalg.cond(channel.likelihood())
    assert noise.log_determinant(size) == pytest.approx(exact, rel=1e-12, abs=rounding)


@pytest.mark.parametrize("size", [3, 5, 50])
def test_capped_noise_is_noise_with_a_fixed_chance_and_a_fixed_law(size: int) -> None:
    channel = line(size, 0.5, cap=0.8)
    noise = channel.noise_line()
    assert isinstance(noise, NoiseLine)
    assert noise.share < 1
    plain = line(size, 0.5)
    table = noise.share * plain.likelihood() + noise.fixed
    # The capped channel's own α differs, as its table does, by less than a word in 2^40.
    assert noise.alpha == pytest.approx(plain.noise_line().alpha, rel=1e-9)
    np.testing.assert_allclose(channel.likelihood(), table, rtol=1e-8)


@pytest.mark.parametrize("cap", [None, 0.8, 0.04])
@pytest.mark.parametrize("name", ALONG)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_bands_are_the_matrix(epsilon: float, size: int, name: str, cap: float | None) -> None:
    """Also at a law that is not the maximum, as in the midst of a fit."""
    law = hump(size)
    field = Field((size,), ALONG[name])
    for there in (law, law_of(np.random.default_rng(9).standard_normal(size))):
        mixture = reports([line(size, epsilon, cap=cap)], law, 3_000, seed=8)
        assert mixture.line is not None
        at = point(mixture, field, there)
        banded = BandedCurvature(at, mixture, mixture.line)
        check(banded, mixture, field, there, 1e-6)
        dense = DenseCurvature(at)
        h = sides(field)
        scale = np.abs(dense.solve(h)).max()
        np.testing.assert_allclose(banded.solve(h), dense.solve(h), atol=1e-6 * scale)
        assert banded.log_determinant() == pytest.approx(
            dense.log_determinant(), rel=1e-6, abs=1e-6
        )


def test_bands_are_right_for_people_in_one_place() -> None:
    """Cells that nobody is in have shares of almost nothing."""
    law = np.full(40, 1e-200)
    law[[7, 8]] = 0.5
    mixture = noiseless([line(40, 0.3)], law, 2_000)
    for strengths in (ALONG["weak cells"], ALONG["ridged"], ALONG["first"], ALONG["apart"]):
        field = Field((40,), strengths)
        assert mixture.line is not None
        banded = BandedCurvature(point(mixture, field, law), mixture, mixture.line)
        check(banded, mixture, field, law, 1e-6)


@pytest.mark.parametrize("cap", [None, 0.5])
def test_completing_the_curvature_adds_one_direction(cap: float | None) -> None:
    """H' = H + n·ppᵀ, and 1ᵀH' = λ₀·1ᵀ + n·pᵀ: constants are in the null space of H − λ₀·I."""
    law = hump(12)
    mixture = reports([line(12, 0.4, cap=cap)], law, 500, seed=10)
    for strengths in ALONG.values():
        field = Field((12,), strengths)
        at = point(mixture, field, law)
        full = explicit_precision((12,), strengths) + explicit_information(mixture, law)
        full += at.people * np.outer(law, law)
        np.testing.assert_allclose(full.sum(axis=0), strengths.cells + at.people * law, rtol=1e-9)
        assert mixture.line is not None
        forms = (BandedCurvature(at, mixture, mixture.line), DenseCurvature(at))
        for form in forms:
            rows = form._solve(np.eye(12))
            np.testing.assert_allclose(rows @ full, np.eye(12), atol=1e-7)
            assert form._log_determinant() == pytest.approx(np.linalg.slogdet(full)[1], rel=1e-9)


# Matrices


@pytest.mark.parametrize("name", FIELDS)
def test_the_matrix_is_the_curvature_written_out(name: str) -> None:
    shape, strengths = FIELDS[name]
    law = humps(shape)
    mixture = reports([line(size, 0.8) for size in shape], law, 2_000, seed=15)
    field = Field(shape, strengths)
    check(DenseCurvature(point(mixture, field, law)), mixture, field, law, 1e-9)


def test_the_matrix_of_reports_of_bits_is_the_curvature_written_out() -> None:
    tally = thermometer_tally(6, 800)
    mixture = mixture_of(tally.statistic, tally.study.blocks, [0])
    field = Field((6,), ALONG["ridged"])
    check(DenseCurvature(point(mixture, field, hump(6))), mixture, field, hump(6), 1e-9)


@pytest.mark.parametrize("name", FIELDS)
def test_the_curvature_is_that_of_finite_differences_where_reports_are_as_expected(
    name: str,
) -> None:
    """With counts as the law has them, expected and observed information are the same."""
    shape, strengths = FIELDS[name]
    theta = 0.3 * np.random.default_rng(19).standard_normal(shape)
    law = law_of(theta)
    mixture = noiseless([line(size, 0.8) for size in shape], law, 2_000)
    cells, step = law.size, 1e-3
    units = [step * unit.reshape(shape) for unit in np.eye(cells)]
    numeric = np.empty((cells, cells))
    for i, j in itertools.product(range(cells), repeat=2):
        corners = [
            objective(mixture, strengths, theta + a * units[i] + b * units[j]) * a * b
            for a, b in itertools.product((1, -1), repeat=2)
        ]
        numeric[i, j] = -sum(corners) / (4 * step**2)
    exact = explicit_precision(shape, strengths) + explicit_information(mixture, law)
    # Truncation of the differences is of order step², roundings 1e-12·1e4/step².
    np.testing.assert_allclose(exact, numeric, atol=1e-3 * np.abs(exact).max())


def test_a_prior_lost_in_rounding_is_damped() -> None:
    """Ones everywhere and a prior of almost nothing: no Cholesky factor without damping."""
    matrix = np.full((5, 5), 1e20) + 1e-9 * np.eye(5)
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(matrix)
    factor, lower = curvature_module._factorised(matrix)
    assert lower
    found = np.tril(factor) @ np.tril(factor).T
    np.testing.assert_allclose(found, matrix, atol=1e-14 * 1e20)


# Waves

GRIDS: dict[str, tuple[tuple[int, ...], Strengths]] = {
    "line": ((9,), Strengths(0.0, ((2.0, 30.0),))),
    "first differences": ((9,), Strengths(0.0, ((2.0, 0.0),))),
    "ridged line": ((9,), Strengths(0.4, ((2.0, 30.0),))),
    "plane": ((6, 5), Strengths(0.0, ((1.0, 20.0), (0.5, 3.0)))),
    "labels beside": ((6, 3), Strengths(1e-3, ((1.0, 20.0), (0.0, 0.0)))),
    "labels before": ((3, 6), Strengths(1e-3, ((0.0, 0.0), (1.0, 20.0)))),
    "cube": ((3, 4, 2), Strengths(0.0, ((1.0, 2.0), (0.5, 3.0), (4.0, 0.0)))),
}


def all_waves(shape: tuple[int, ...], strengths: Strengths) -> Waves:
    """Every wave of a small grid."""
    ordered = tuple(any(along) for along in strengths.along)
    found = Waves.told(
        strengths, np.ones(shape), 1.0, ordered, least=-1.0, most=math.prod(shape), needed=1.0
    )
    assert found is not None
    assert len(found) == math.prod(shape)
    assert found.rest.size == 0
    return found


@pytest.mark.parametrize("name", GRIDS)
def test_all_waves_together_are_the_whole_curvature(name: str) -> None:
    shape, strengths = GRIDS[name]
    law = humps(shape)
    mixture = reports([line(size, 0.8) for size in shape], law, 2_000, seed=11)
    field = Field(shape, strengths)
    at = point(mixture, field, law)
    check(ReducedCurvature(at, all_waves(shape, strengths)), mixture, field, law, 1e-8)


@pytest.mark.parametrize("name", GRIDS)
def test_some_waves_solve_among_their_sums(name: str) -> None:
    """H⁻¹·h becomes V·(VᵀHV)⁻¹·Vᵀ·h, with the waves as columns of V."""
    shape, strengths = GRIDS[name]
    law = humps(shape)
    mixture = reports([line(size, 0.8) for size in shape], law, 2_000, seed=12)
    field = Field(shape, strengths)
    ordered = tuple(any(along) for along in strengths.along)
    waves = Waves.told(
        strengths,
        mixture.transfer(ordered),
        50.0,
        ordered,
        least=0.05,
        most=math.prod(shape),
        needed=1.0,
    )
    assert waves is not None
    assert 1 < len(waves) < math.prod(shape)
    columns = waves.all().reshape(len(waves), -1).T
    curved = explicit_precision(shape, strengths) + explicit_information(mixture, law)
    small = columns.T @ curved @ columns
    found = ReducedCurvature(point(mixture, field, law), waves)
    h = sides(field)
    solved = np.linalg.lstsq(small, columns.T @ h.reshape(len(h), -1).T, rcond=1e-13)[0]
    exact = (columns @ solved).T.reshape(h.shape)
    if not strengths.cells:
        exact -= exact.mean(axis=tuple(range(1, h.ndim)), keepdims=True)
    got = found.solve(h)
    if not strengths.cells:
        got = got - got.mean(axis=tuple(range(1, h.ndim)), keepdims=True)
    np.testing.assert_allclose(got, exact, atol=1e-8 * np.abs(exact).max())
    prior = columns.T @ explicit_precision(shape, strengths) @ columns
    if not strengths.cells:
        level = columns.T @ np.full(law.size, law.size**-0.5)
        prior, small = prior + np.outer(level, level), small + np.outer(level, level)
    exact_determinant = np.linalg.slogdet(small)[1] - np.linalg.slogdet(prior)[1]
    wanted = exact_determinant + waves.left_out(law)
    assert found.log_determinant() == pytest.approx(wanted, rel=1e-8)


@pytest.mark.parametrize("name", GRIDS)
def test_a_foreseen_fit_is_the_maximum_of_a_quadratic(name: str) -> None:
    """With all waves: θ maximises the expansion less ½θᵀPθ, written out for both priors."""
    shape, strengths = GRIDS[name]
    law = humps(shape)
    mixture = reports([line(size, 0.8) for size in shape], law, 2_000, seed=13)
    other = Strengths(strengths.cells, tuple((3 * a, b / 5) for a, b in strengths.along))
    told = explicit_information(mixture, law)
    theta = np.random.default_rng(3).standard_normal(law.size)
    theta -= theta.mean()
    prior, new = (explicit_precision(shape, one) for one in (strengths, other))
    score = prior @ theta  # as it is at the mode

    def laplace(prior: Floats) -> tuple[float, Floats]:
        mode = np.linalg.lstsq(told + prior, told @ theta + score, rcond=1e-14)[0]
        step = mode - theta
        value = step @ score - step @ told @ step / 2 - mode @ prior @ mode / 2
        level = 0.0 if strengths.cells else np.full_like(prior, 1 / law.size)
        whole = np.linalg.slogdet(told + prior + level)[1] - np.linalg.slogdet(prior + level)[1]
        return float(value - whole / 2), mode

    (before, _), (after, mode) = laplace(prior), laplace(new)
    at = point(mixture, Field(shape, strengths), law)
    reduced = ReducedCurvature(at, all_waves(shape, strengths))
    found = reduced.foresee(theta.reshape(shape), other)
    assert found.gain == pytest.approx(after - before, rel=1e-7, abs=1e-7)
    off = found.theta.ravel() - mode
    np.testing.assert_allclose(off - off.mean(), 0, atol=1e-8 * np.abs(mode).max())
    same = reduced.foresee(theta.reshape(shape), strengths)
    assert same.gain == pytest.approx(0, abs=1e-7)


def test_what_is_foreseen_counts_the_waves_that_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shape, strengths = GRIDS["plane"]
    law = humps(shape)
    mixture = reports([line(size, 0.8) for size in shape], law, 2_000, seed=13)
    at = point(mixture, Field(shape, strengths), law)
    reduced = ReducedCurvature(at, all_waves(shape, strengths))
    other = Strengths(0.0, ((3.0, 2.0), (0.1, 9.0)))
    before = reduced.foresee(np.log(law), other).gain
    monkeypatch.setattr(
        Waves, "left_out_under", lambda _, own, *__: 6.0 if own == other else 2.0, raising=True
    )
    assert reduced.foresee(np.log(law), other).gain == pytest.approx(before - 2.0, abs=1e-9)


@pytest.mark.parametrize("name", GRIDS)
def test_waves_know_their_precision_under_another_prior(name: str) -> None:
    shape, strengths = GRIDS[name]
    law, ordered = humps(shape), tuple(any(along) for along in strengths.along)
    mixture = reports([line(size, 0.8) for size in shape], law, 2_000, seed=12)
    other = Strengths(
        0.7, tuple((3 * a + 1, b / 5) if any((a, b)) else (0, 0) for a, b in strengths.along)
    )
    transfer = mixture.transfer(ordered)
    waves = Waves.told(strengths, transfer, 50.0, ordered, least=0.05, most=law.size, needed=1.0)
    assert waves is not None
    columns = waves.all().reshape(len(waves), -1).T
    exact = columns.T @ explicit_precision(shape, other) @ columns
    np.testing.assert_allclose(waves.precision_under(other), exact, atol=1e-9 * exact.max())
    # Those of cosines are exact under first differences.
    first = Strengths(strengths.cells, tuple((a, 0.0) for a, _ in strengths.along))
    waves = Waves.told(first, transfer, 50.0, ordered, least=0.05, most=law.size, needed=1.0)
    assert waves is not None
    found = waves.left_out_under(first, 50.0 / law.size * transfer, law)
    assert found == pytest.approx(waves.left_out(law), rel=1e-9)
    assert waves.left_out_under(other, 50.0 / law.size * transfer, law) < found


# Products


@pytest.mark.parametrize("name", FIELDS)
def test_products_solve_with_the_matrix(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Conjugate gradients driven to their end; each product is one of the matrix."""
    monkeypatch.setattr(curvature_module, "_ANSWER_TOLERANCE", 1e-12)
    shape, strengths = FIELDS[name]
    law = humps(shape)
    mixture = reports([line(size, 0.8) for size in shape], law, 2_000, seed=15)
    field = Field(shape, strengths)
    found = ProductCurvature(point(mixture, field, law))
    curved = explicit_precision(shape, strengths) + explicit_information(mixture, law)
    h = sides(field)
    exact = explicit_solution(curved, h)
    got = found.solve(h)
    if not strengths.cells:
        axes = tuple(range(1, h.ndim))
        got = got - got.mean(axis=axes, keepdims=True)
        exact = exact - exact.mean(axis=axes, keepdims=True)
    np.testing.assert_allclose(got, exact, atol=1e-8 * np.abs(exact).max())


def test_a_newton_step_asks_for_less_accuracy_than_an_answer() -> None:
    law = hump(60)
    mixture = reports([line(60, 0.8)], law, 200_000, seed=13)
    field = Field((60,), Strengths(1e-2, ((0.0, 0.0),)))
    found = ProductCurvature(point(mixture, field, law))
    h = sides(field, 1)[0]
    curved = explicit_precision((60,), field.strengths) + explicit_information(mixture, law)
    exact = explicit_solution(curved, h[None])[0]

    def off(solved: Floats) -> float:
        """In standard deviations of the posterior, relative to the solution."""
        apart = solved - exact
        return math.sqrt(apart @ curved @ apart / (exact @ curved @ exact))

    assert off(found.solve(h)) < off(found.solve(h, exact=False))
    assert off(found.solve(h)) < 1e-2


def probed_error(full: Floats, root: Floats) -> float:
    """The standard error of eight probes of log det A.

    A probe of random signs misses the trace of L = log(D^(−½)·A·D^(−½)) with variance
    2·Σ_{i≠j} L_ij².
    """
    values, vectors = np.linalg.eigh(full / np.outer(root, root))
    logarithm = (vectors * np.log(values)) @ vectors.T
    off = logarithm - np.diag(np.diag(logarithm))
    return math.sqrt(2 * float(np.sum(off**2)) / 8)


@pytest.mark.parametrize("name", ["first", "second", "cells"])
def test_the_probed_determinant_is_within_its_monte_carlo_error(name: str) -> None:
    size, people = 40, 20_000
    law = hump(size)
    mixture = reports([line(size, 0.4)], law, people, seed=22)
    field = Field((size,), FIELDS[name][1])
    found = ProductCurvature(point(mixture, field, law))
    full = np.array([found._times(unit) for unit in np.eye(size)])
    exact = explicit_log_determinant(mixture, field, law)
    assert np.linalg.slogdet(full)[1] == pytest.approx(exact, rel=1e-6)
    stderr = probed_error(full, np.sqrt(found._diagonal))
    assert 0 < abs(found.log_determinant() - exact) < LIMIT * stderr
    # The twin: the determinant of a tenth more people.
    more = noiseless([line(size, 0.4)], law, 1.5 * people)
    assert abs(found.log_determinant() - exact) < abs(
        found.log_determinant() - explicit_log_determinant(more, field, law)
    )


def test_few_products_suffice_for_the_determinant_of_a_wide_spectrum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A weak rough prior and shares over many decades: the preconditioned operator is probed.

    The twin divides nothing out.
    """
    size, people = 200, 1_000_000
    law = np.exp(3 * np.random.default_rng(41).standard_normal(size))
    law /= law.sum()
    mixture = noiseless([line(size, 5)], law, people)
    field = Field((size,), Strengths(1e-3, ((0.0, 0.0),)))
    found = ProductCurvature(point(mixture, field, law))
    full = np.array([found._times(unit) for unit in np.eye(size)])
    exact = float(np.linalg.slogdet(full)[1])
    limit = LIMIT * probed_error(full, np.sqrt(found._diagonal))
    assert abs(found.log_determinant() - exact) < limit
    monkeypatch.setattr(Field, "is_rough", property(lambda _: False))
    undivided = ProductCurvature(point(mixture, field, law))
    assert undivided.log_determinant() - exact > limit


def test_larger_grids_get_fewer_and_rougher_products() -> None:
    def work(cells: int, rough: bool) -> tuple[float, ...]:
        along = (0.0, 0.0) if rough else (1.0, 0.0)
        return tuple(work_for(Field((cells,), Strengths(1.0, (along,)))))

    for rough in (True, False):
        small, large, largest = (work(cells, rough) for cells in (1 << 14, 1 << 18, 1 << 19))
        assert small[:2] > large[:2] > largest[:2]
        assert small[2] <= large[2] == largest[2]


def test_symbols_with_a_line_are_only_those_of_one_axis() -> None:
    assert SymbolMixture.of([line(4, 1.0)], np.ones(4)).line is not None
    assert SymbolMixture.of([line(4, 1.0), line(3, 1.0)], np.ones((4, 3))).line is None
