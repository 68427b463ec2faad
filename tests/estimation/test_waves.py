"""Waves that reports can tell: their products, their transfer and what is left out."""

from __future__ import annotations

import itertools
import math
import tracemalloc

import numpy as np
import pytest
from helpers_decoding import (
    explicit_precision,
    humps,
    line,
    point,
    thermometer_tally,
)
from numpy.typing import NDArray
from scipy.fft import dct

import sfumato as sf
from sfumato.channels.base import SymbolChannel
from sfumato.channels.comb import CombChannel
from sfumato.estimation.decoding.curvature import DenseCurvature, ReducedCurvature
from sfumato.estimation.decoding.field import Field, Strengths, cosines
from sfumato.estimation.decoding.mixture import SymbolMixture, mixture_of
from sfumato.estimation.decoding.waves import Waves, _spread, line_waves

Floats = NDArray[np.float64]


def walk(size: int, share: float = 0.2) -> Floats:
    """A step to each side with this chance, none beyond the ends: cosines are its eigenvectors."""
    steps = np.diff(np.eye(size), axis=0)
    found: Floats = np.eye(size) - share * steps.T @ steps
    return found


def basis(shape: tuple[int, ...], ordered: tuple[bool, ...]) -> Floats:
    """All waves as rows, shape (*shape, cells)."""
    found: Floats = np.ones((1, 1))
    for size, o in zip(shape, ordered, strict=True):
        found = np.kron(found, dct(np.eye(size), norm="ortho").T if o else np.eye(size))
    return found.reshape(*shape, -1)


def exact_transfer(matrix: Floats, shape: tuple[int, ...], ordered: tuple[bool, ...]) -> Floats:
    """The diagonal of Cᵀ·Q·diag(1/q̄)·Qᵀ·C over the number of cells, of the shape of the grid."""
    waves = basis(shape, ordered) @ matrix
    found: Floats = np.sum(waves**2 / matrix.mean(axis=0), axis=-1) / len(matrix)
    return found


def some(
    shape: tuple[int, ...], ordered: tuple[bool, ...], least: float = 0.3
) -> tuple[Waves, Strengths]:
    """Some of the waves of a grid, by a transfer that falls along every axis."""
    along = tuple((0.5, 2.0) if o else (0.0, 0.0) for o in ordered)
    strengths = Strengths(0.0 if all(ordered) else 1e-3, along)
    transfer = np.ones(())
    for size, o in zip(shape, ordered, strict=True):
        transfer = np.multiply.outer(transfer, 0.5 ** np.arange(size) if o else np.ones(size))
    found = Waves.told(
        strengths, transfer, 100.0, ordered, least=least, most=math.prod(shape), needed=1.0
    )
    assert found is not None
    return found, strengths


GRIDS = [
    ((12,), (True,)),
    ((7, 6), (True, True)),
    ((7, 3), (True, False)),
    ((3, 7), (False, True)),
    ((3, 4, 5), (True, False, True)),
]


@pytest.mark.parametrize(("shape", "ordered"), GRIDS)
def test_reading_and_writing_are_transposes(
    shape: tuple[int, ...], ordered: tuple[bool, ...]
) -> None:
    waves, _ = some(shape, ordered)
    assert 1 < len(waves) < math.prod(shape)
    rows = waves.all().reshape(len(waves), -1)
    np.testing.assert_allclose(rows @ rows.T, np.eye(len(waves)), atol=1e-13)
    rng = np.random.default_rng(1)
    values, coefficients = rng.random((4, *shape)), rng.random((4, len(waves)))
    np.testing.assert_allclose(waves.read(values), values.reshape(4, -1) @ rows.T, rtol=1e-12)
    np.testing.assert_allclose(
        waves.write(coefficients).reshape(4, -1), coefficients @ rows, atol=1e-13
    )


@pytest.mark.parametrize(("shape", "ordered"), GRIDS)
def test_the_precision_between_waves_is_that_of_the_prior(
    shape: tuple[int, ...], ordered: tuple[bool, ...]
) -> None:
    waves, strengths = some(shape, ordered)
    rows = waves.all().reshape(len(waves), -1)
    exact = rows @ explicit_precision(shape, strengths) @ rows.T
    np.testing.assert_allclose(np.diag(waves.precision), exact, atol=1e-12 * np.abs(exact).max())


@pytest.mark.parametrize(("first", "second"), [(0.5, 0.0), (1e-3, 10.0), (2.0, 1e4)])
@pytest.mark.parametrize(("size", "modes"), [(2, 2), (3, 3), (12, 4), (12, 12), (60, 5), (200, 20)])
def test_waves_of_a_line_are_its_smoothest_eigenvectors(
    size: int, modes: int, first: float, second: float
) -> None:
    """Among few cosines, precisions are those of the line or a little more (Rayleigh and Ritz)."""
    exact = explicit_precision((size,), Strengths(0.0, ((first, second),)))
    values, waves = line_waves(size, modes, first, second)
    np.testing.assert_allclose(waves.T @ waves, np.eye(modes), atol=1e-9)
    scale = np.abs(exact).max()
    np.testing.assert_allclose(waves.T @ exact @ waves, np.diag(values), atol=1e-12 * scale)
    wanted = np.linalg.eigvalsh(exact)[:modes]
    assert np.all(values >= wanted - 1e-13 * scale)
    np.testing.assert_allclose(values, wanted, rtol=1e-3, atol=1e-12 * scale)


def test_a_straight_line_is_a_wave_under_second_differences() -> None:
    """Three waves follow it within 1e-4; as many cosines leave an eighth of its length."""
    line_ = np.linspace(-1.0, 1.0, 100)
    _, waves = line_waves(100, 3, 1e-3, 1e5)
    left, before = (
        np.linalg.norm(line_ - held @ (held.T @ line_)) / np.linalg.norm(line_)
        for held in (waves, cosines(100, np.arange(3)))
    )
    assert left < 1e-4
    assert before > 0.1


@pytest.mark.parametrize(("shape", "ordered"), GRIDS)
def test_constants_are_always_among_the_waves(
    shape: tuple[int, ...], ordered: tuple[bool, ...]
) -> None:
    waves, _ = some(shape, ordered, least=1e30)
    ones = np.ones((1, *shape))
    np.testing.assert_allclose(waves.write(waves.read(ones)), ones, rtol=1e-12)
    assert len(waves) == math.prod(s for s, o in zip(shape, ordered, strict=True) if not o)


def test_waves_are_kept_by_their_information_and_the_others_are_accounted_for() -> None:
    """By hand: 4 cells, λ₁ = 1, so that wave k has the precision 4·sin²(πk/8)."""
    transfer = np.array([1.0, 0.5, 0.06, 0.01])
    precision = 4 * np.sin(np.pi * np.arange(4) / 8) ** 2
    ratio = 20 / 4 * transfer[1:] / precision[1:]
    assert ratio[0] > 1 > 0.2 > ratio[1] > 0.1 > ratio[2]
    prior = Strengths(0.0, ((1.0, 0.0),))

    def told(least: float, most: int) -> Waves | None:
        return Waves.told(prior, transfer, 20.0, (True,), least=least, most=most, needed=0.2)

    kept = [told(least, 4) for least in (1.0, 0.1, 0.0)]
    for count, waves in enumerate(kept, start=2):
        assert waves is not None
        assert waves.places.ravel().tolist() == list(range(count))
        np.testing.assert_allclose(waves.precision, precision[:count], rtol=1e-12)
        np.testing.assert_allclose(waves.rest, ratio[count - 1 :], rtol=1e-12)
    # With too few allowed, those of least information go, unless they tell much.
    capped = told(0.0, 3)
    assert capped is not None
    assert len(capped) == 2
    assert told(0.0, 1) is None


@pytest.mark.parametrize("shape", [(30,), (9, 8)])
@pytest.mark.parametrize("least", [0.5, 0.05])
def test_left_out_waves_count_fully_where_waves_are_independent(
    shape: tuple[int, ...], least: float
) -> None:
    """Even people, first differences, channels whose eigenvectors are the waves: no approximation.

    The information about wave k is then (n/m)·s_k² with s_k the channel's eigenvalue.
    """
    factors = tuple(np.linalg.matrix_power(walk(size), 4) for size in shape)
    cells, people = math.prod(shape), 3_000.0
    mixture = SymbolMixture(factors, np.full(shape, people / cells), tuple((s,) for s in shape))
    field = Field(shape, Strengths(0.0, ((5.0, 0.0),) * len(shape)))
    ordered = (True,) * len(shape)
    transfer = mixture.transfer(ordered)
    waves = Waves.told(
        field.strengths, transfer, people, ordered, least=least, most=cells, needed=1.0
    )
    assert waves is not None
    assert len(waves) < cells
    law = np.full(shape, 1 / cells)
    left_out = waves.left_out(law)
    assert left_out == pytest.approx(np.log1p(waves.rest).sum())
    assert left_out > 0.05
    at = point(mixture, field, law)
    exact = DenseCurvature(at).log_determinant()
    found = ReducedCurvature(at, waves).log_determinant()
    assert found == pytest.approx(exact, rel=1e-9)
    assert found - left_out < exact - 0.05


def test_left_out_waves_count_by_the_density_of_people() -> None:
    """Σ_waves mean_x log(1 + m·p(x)·ratio), by quantiles of p; exact where p has few values."""
    waves, _ = some((7, 6), (True, True))
    law = np.where(np.arange(42) < 7, 5.0, 0.2).reshape(7, 6)
    law /= law.sum()
    dense = np.sort(42 * law, axis=None)
    exact = np.log1p(np.multiply.outer(dense, waves.rest)).sum(axis=1).mean()
    even = np.log1p(waves.rest).sum()
    # Of 12 groups of 3 or 4 cells each, one holds cells of both densities.
    assert waves.left_out(law) == pytest.approx(exact, rel=0.03)
    assert waves.left_out(np.full((7, 6), 1 / 42)) == pytest.approx(even)
    assert exact < 0.9 * even


# How much passes


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 3.0])
def test_the_transfer_of_a_short_axis_is_exact(epsilon: float) -> None:
    channel = line(20, epsilon)
    mixture = SymbolMixture.of([channel], np.ones(20))
    exact = exact_transfer(channel.likelihood(), (20,), (True,))
    np.testing.assert_allclose(mixture.transfer((True,)), exact, rtol=1e-9)
    assert exact[0] == pytest.approx(1.0)
    labels = exact_transfer(channel.likelihood(), (20,), (False,))
    np.testing.assert_allclose(mixture.transfer((False,)), labels, rtol=1e-9)


def test_the_transfer_of_several_blocks_is_their_product() -> None:
    channels = [line(6, 0.4), line(5, 1.0)]
    mixture = SymbolMixture.of(channels, np.ones((6, 5)))
    for ordered in ((True, True), (True, False), (False, True)):
        exact = exact_transfer(mixture.matrix, (6, 5), ordered)
        np.testing.assert_allclose(mixture.transfer(ordered), exact, rtol=1e-9)


@pytest.mark.parametrize("size", [33, 200])
def test_the_transfer_of_a_long_axis_is_exact_where_it_is_measured(size: int) -> None:
    """In between it is interpolated, so that it lies between the values around it."""
    channel = line(size, 0.2)
    found = SymbolMixture.of([channel], np.ones(size)).transfer((True,))
    exact = exact_transfer(channel.likelihood(), (size,), (True,))
    measured = _spread(size, 32)
    assert measured[0] == 0
    assert measured[-1] == size - 1
    assert 15 < len(measured) < size
    np.testing.assert_allclose(found[measured], exact[measured], rtol=1e-6)
    for low, high in itertools.pairwise(measured):
        between = found[low : high + 1]
        assert np.all(between <= max(found[low], found[high]) * (1 + 1e-9))
        assert np.all(between >= min(found[low], found[high]) * (1 - 1e-9))


def test_the_transfer_of_a_very_long_axis_takes_little_memory() -> None:
    """A few waves are measured; a matrix of all of them would take 80 GB."""
    size = 100_000
    tracemalloc.start()
    found = SymbolMixture.of([line(size, 0.01)], np.ones(size)).transfer((True,))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.shape == (size,)
    assert found[0] == pytest.approx(1.0)
    assert most < 2**29


def test_the_transfer_of_bits_is_measured_with_the_reports_that_came() -> None:
    tally = thermometer_tally(8, 2_000)
    mixture = mixture_of(tally.statistic, tally.study.blocks, [0])
    weight = mixture.weight(mixture.forward(np.full(8, 1 / 8)))
    passed = basis((8,), (True,)) @ mixture.matrix
    exact = np.sum(passed**2 * weight, axis=1) / 8 / 2_000
    np.testing.assert_allclose(mixture.transfer((True,)), exact, rtol=1e-9)


# Combs


def combs(shape: tuple[int, ...], epsilon: float) -> CombChannel:
    """Combs over one axis or the grid of several."""
    axes = [sf.integers(f"x{d}", 0, size - 1) for d, size in enumerate(shape)]
    (channel,) = sf.Study("c", axes, protect=sf.Uniform(epsilon), channel=sf.Comb()).channels
    assert isinstance(channel, CombChannel)
    return channel


def turned_evenly(channel: CombChannel) -> Floats:
    """The chances of outputs if every turn of a comb is equally likely."""
    return np.repeat(channel.chances / channel.circle, channel.circle)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("shape", [(23,), (20,), (5, 5), (7, 7)])
def test_the_transfer_of_combs_is_exact_for_whole_turns_and_near_for_half_turns(
    shape: tuple[int, ...], epsilon: float
) -> None:
    """Cosines of an even number of half turns are eigenvectors of turning all cells.

    A cosine of k half turns, k odd, has the share (8j/π(4j² − k²))² of its square at frequency j:
    for k = 1, 0.72 on the one beside it; for k = 3, 0.26 and 0.53 on the two; then ever nearer
    0.405 and 0.405.
    """
    channel = combs(shape, epsilon)
    assert channel.moduli == shape
    found, matrix = channel.transfer(), channel.likelihood()
    passed = basis(shape, (True,) * len(shape)) @ matrix
    exact = np.sum(passed**2 / turned_evenly(channel), axis=-1) / channel.size
    whole = np.ix_(*(np.arange(0, size, 2) for size in shape))
    np.testing.assert_allclose(found[whole], exact[whole], rtol=1e-9)
    most = np.sort(channel.information)[-2]  # without the constants
    assert np.all(exact >= (2 * 0.25) ** len(shape) * found)
    assert np.all(exact <= (2 * 0.54) ** len(shape) * found + (1 - 0.7 ** len(shape)) * most)
    if shape != (20,):
        # Where all turns have a prime number of steps, even people turn all combs evenly.
        even = exact_transfer(matrix, shape, (True,) * len(shape))
        np.testing.assert_allclose(exact, even, rtol=1e-9)


@pytest.mark.parametrize("shape", [(23,), (20,), (21,), (5, 5), (7, 7)])
def test_the_even_information_of_combs_is_that_of_all_channels(shape: tuple[int, ...]) -> None:
    """By transforms, against the matrix, and where turns are even against mixing and averaging."""
    channel = combs(shape, 1.0)
    assert channel.moduli == shape
    values = np.random.default_rng(2).standard_normal((2, 3, channel.size))
    found = channel.even_information(values)
    assert found.shape == values.shape
    scale = np.abs(found).max()
    law = channel.likelihood()
    exact = values @ (law / turned_evenly(channel) @ law.T)
    np.testing.assert_allclose(found, exact, atol=1e-10 * scale)
    if shape not in [(20,), (21,)]:
        generic = SymbolChannel.even_information(channel, values)
        np.testing.assert_allclose(found, generic, atol=1e-10 * scale)


def test_the_even_information_is_near_that_of_uneven_people() -> None:
    """Under ε = 1, outputs of any people differ from those of even ones by less than a factor e."""
    channel = combs((8, 6), 1.0)
    law = humps((8, 6)).ravel()
    matrix = channel.likelihood()
    exact = matrix / (law @ matrix) @ matrix.T
    values = np.random.default_rng(3).standard_normal((50, 48))
    ratio = np.sum(values * channel.even_information(values), axis=1) / np.sum(
        values * (values @ exact), axis=1
    )
    assert np.all((math.exp(-1) < ratio) & (ratio < math.e))
