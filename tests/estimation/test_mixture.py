"""Mixtures against dense matrices and enumerated patterns."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from helpers_channels import patterns
from helpers_contract import TRIALS
from helpers_decoding import (
    explicit_information,
    hump,
    humps,
    line,
    reports,
    thermometer_tally,
)
from helpers_statistics import LIMIT
from numpy.typing import NDArray

import sfumato as sf
from sfumato.channels.comb import CombChannel
from sfumato.channels.response import KaryResponse
from sfumato.estimation.decoding import mixture as mixture_module
from sfumato.estimation.decoding.joining import Grouped, Runs
from sfumato.estimation.decoding.mixture import (
    Mixture,
    RowMixture,
    SymbolMixture,
    log_likelihood,
    mixture_of,
)

SYMBOLS = [name for name, trial in TRIALS.items() if trial.bind().layout.kind == "symbols"]


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


@pytest.mark.parametrize("groups", [(1, 1), (2, 3), (4, 2), (5, 7)])
def test_joining_places_keeps_the_law_of_joined_outputs(groups: tuple[int, int]) -> None:
    shape, beside = (11, 7), line(3, 0.9)
    axes = [sf.integers(name, 0, size - 1) for name, size in zip("xy", shape, strict=True)]
    capped = sf.Lp("0.6", 2, cap=2)
    (planar,) = sf.Study("map", [sf.together(axes, protect=capped)]).channels
    assert planar.noise.fixed.sum() > 1e-3  # the cap makes itself felt
    counts = np.random.default_rng(9).integers(0, 50, (3, 77)).astype(float)
    mixture = SymbolMixture.of([beside, planar], counts, [(3,), shape])
    coarse = mixture.coarsened((1, *groups))
    starts = [np.arange(0, m, g) for m, g in zip(shape, groups, strict=True)]
    sizes = tuple(len(each) for each in starts)
    assert coarse.shape == (3, *sizes)

    def joined(table: np.ndarray) -> np.ndarray:
        grid = np.add.reduceat(table.reshape(3, *shape), starts[0], axis=1)
        return np.add.reduceat(grid, starts[1], axis=2).reshape(3, -1)

    np.testing.assert_array_equal(coarse.counts, joined(counts))
    law = np.random.default_rng(10).dirichlet(np.ones(3 * math.prod(sizes))).reshape(3, *sizes)
    fine = law
    for axis, (size, each) in enumerate(zip(shape, starts, strict=True), start=1):
        held = np.diff(np.append(each, size))
        share = fine / held.reshape([-1 if d == axis else 1 for d in range(3)])
        fine = np.repeat(share, held, axis=axis)
    np.testing.assert_allclose(coarse.forward(law), joined(mixture.forward(fine)), rtol=1e-12)


# Several at once


def comb_grid(shape: tuple[int, ...], epsilon: float = 1.0) -> CombChannel:
    """Combs over the grid of several axes."""
    axes = [sf.integers(f"x{d}", 0, size - 1) for d, size in enumerate(shape)]
    study = sf.Study("combs", axes, protect=sf.Uniform(epsilon), channel=sf.Comb())
    (channel,) = study.channels
    assert isinstance(channel, CombChannel)
    return channel


def mixtures() -> dict[str, Mixture]:
    """Every way in which a mixture holds its channels."""
    channels = [line(5, 0.4), line(4, 0.9)]
    laws = tuple(channel.likelihood() for channel in channels)
    counts = np.random.default_rng(1).random((5, 4))
    comb = comb_grid((4, 3))
    long = comb_grid((12,))
    tally = thermometer_tally(5, 300)
    found: dict[str, Mixture] = {
        "matrices": SymbolMixture(laws, counts, ((5,), (4,))),
        "filters": SymbolMixture(tuple(channels), counts, ((5,), (4,))),
        "both": SymbolMixture((laws[0], channels[1]), counts, ((5,), (4,))),
        "block of two axes": SymbolMixture((comb,), np.ones(comb.outputs), ((4, 3),)),
        "runs": SymbolMixture((runs := Runs.of(long),), np.ones(len(runs.starts)), ((12,),)),
        "groups": SymbolMixture((Grouped(comb, (4, 3), (3, 2)),), np.ones(comb.outputs), ((2, 2),)),
        "rows": mixture_of(tally.statistic, tally.study.blocks, [0]),
    }
    return found


@pytest.mark.parametrize("name", mixtures())
def test_several_at_once_are_the_same_one_by_one(name: str) -> None:
    mixture = mixtures()[name]
    rng = np.random.default_rng(2)
    laws = rng.random((2, 3, *mixture.shape))
    values = rng.random((2, 3, *mixture.counts.shape))
    mixed, back = mixture.forward(laws), mixture.backward(values)
    assert mixed.shape == values.shape
    assert back.shape == laws.shape
    for place in np.ndindex(2, 3):
        np.testing.assert_allclose(mixed[place], mixture.forward(laws[place]), rtol=1e-13)
        np.testing.assert_allclose(back[place], mixture.backward(values[place]), rtol=1e-13)


@pytest.mark.parametrize("name", mixtures())
def test_forward_and_backward_are_the_matrix_and_its_transpose(name: str) -> None:
    mixture = mixtures()[name]
    rng = np.random.default_rng(3)
    law, values = rng.random(mixture.shape), rng.random(mixture.counts.shape)
    matrix = mixture.matrix
    assert matrix.shape == (law.size, values.size)
    np.testing.assert_allclose(mixture.forward(law).ravel(), law.ravel() @ matrix, rtol=1e-12)
    np.testing.assert_allclose(
        mixture.backward(values).ravel(), matrix @ values.ravel(), rtol=1e-12
    )


# Derivatives by p


@pytest.mark.parametrize("name", ["matrices", "filters", "both", "rows"])
def test_slope_and_curve_are_derivatives_of_the_value(name: str) -> None:
    """By central differences; expected and observed information agree at expected counts."""
    mixture = mixtures()[name]
    rng = np.random.default_rng(4)
    law = rng.dirichlet(np.ones(math.prod(mixture.shape)) * 5).reshape(mixture.shape)
    if isinstance(mixture, SymbolMixture):
        mixture = replace(mixture, counts=900 * mixture.forward(law))
    mixed = mixture.forward(law)
    one, two = 1e-3 * law * rng.standard_normal((2, *law.shape))

    def value(there: NDArray[np.float64]) -> float:
        return mixture.value(mixture.forward(there))

    slope = (value(law + one) - value(law - one)) / 2
    bend = sum(a * b * value(law + a * one + b * two) for a in (1, -1) for b in (1, -1)) / 4
    # What is neglected is of relative order 1e-3 squared.
    assert np.sum(mixture.slope(mixed) * one) == pytest.approx(slope, rel=1e-4, abs=1e-9)
    assert -np.sum(mixture.curve(one, mixed) * two) == pytest.approx(bend, rel=1e-4, abs=1e-9)
    changes = np.array([one, two])
    exact = np.einsum(
        "axy,bxy->ab" if law.ndim == 2 else "ax,bx->ab", changes, mixture.curve(changes, mixed)
    )
    np.testing.assert_allclose(mixture.bend(changes, mixed), exact, rtol=1e-10)


@pytest.mark.parametrize("name", ["matrices", "both", "rows"])
def test_information_is_that_about_the_logarithms(name: str) -> None:
    mixture = mixtures()[name]
    law = humps(mixture.shape)
    found = mixture.information(law, mixture.forward(law))
    exact = explicit_information(mixture, law)
    np.testing.assert_allclose(found, exact, atol=1e-12 * np.abs(exact).max())


def test_the_probed_diagonal_is_within_its_monte_carlo_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With F = R·Rᵀ, (R·s)² at a cell has the mean F_xx and the variance 2·(F_xx² − Σ_y R_xy⁴)."""
    monkeypatch.setattr(mixture_module, "_DIAGONAL_PROBES", 2_000)
    law = hump(40)
    mixture = reports([line(40, 0.4)], law, 5_000, seed=5)
    mixed = mixture.forward(law)
    root = (np.diag(law) - np.outer(law, law)) @ mixture.matrix * np.sqrt(mixture.weight(mixed))
    exact = np.sum(root**2, axis=1)
    stderr = np.sqrt(2 * (exact**2 - np.sum(root**4, axis=1)) / 2_000)
    off = mixture.diagonal(law, mixed) - exact
    assert np.all(np.abs(off) < (LIMIT + 1) * stderr)
    # The twin: the diagonal without centring.
    plain = law**2 * np.sum(mixture.matrix**2 * mixture.weight(mixed), axis=1)
    assert np.any(np.abs(off + exact - plain) > (LIMIT + 1) * stderr)


@pytest.mark.parametrize(("rows", "power"), [(False, 1), (True, 2)])
def test_a_kept_second_derivative_stays_within_its_tolerance(rows: bool, power: int) -> None:
    """The weights of outputs are n/q or N/q²: near probabilities differ by 3 %, or twice that."""
    rng = np.random.default_rng(6)
    law = rng.dirichlet(np.ones(8) * 9)
    counts = rng.integers(1, 50, 8).astype(np.float64)
    matrix = line(8, 0.7).likelihood()
    mixture: Mixture = (
        RowMixture((8,), counts, matrix.T.copy())
        if rows
        else SymbolMixture((matrix,), counts, ((8,),))
    )

    def exact(there: NDArray[np.float64]) -> NDArray[np.float64]:
        return matrix * mixture.weight(there) @ matrix.T

    mixed = mixture.forward(law)
    held = mixture.second(mixed)
    np.testing.assert_allclose(held, exact(mixed), rtol=1e-12)
    near, far = (mixed * (1 + s * rng.choice([-1.0, 1.0], 8)) for s in (0.0299, 0.0301))
    assert mixture.second(near) is held
    ratio = np.linalg.eigvals(np.linalg.solve(exact(near), held)).real
    assert np.all(ratio >= 0.97**power)
    assert np.all(ratio <= 1.03**power)
    fresh = mixture.second(far)
    np.testing.assert_allclose(fresh, exact(far), rtol=1e-12)
    assert mixture.second(far) is fresh
