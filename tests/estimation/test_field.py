"""The prior on the logarithms of shares against differences written out as matrices."""

from __future__ import annotations

import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from helpers_decoding import FIELDS, explicit_precision
from numpy.typing import NDArray
from scipy.fft import dct

from sfumato.estimation.decoding import field as field_module
from sfumato.estimation.decoding.field import (
    Field,
    Strengths,
    cosine_roughness,
    cosines,
    precision_bands,
    roughness,
    roughness_values,
)

Floats = NDArray[np.float64]

PRIORS = {
    **FIELDS,
    "two cells": ((2,), Strengths(0.0, ((3.0, 5.0),))),
    "three cells": ((3,), Strengths(0.1, ((3.0, 5.0),))),
    "long": ((50,), Strengths(0.0, ((2.0**-10, 2.0**20),))),  # exact in floating point
    "far apart": ((12,), Strengths(0.0, ((0.1, 100.0),), 10.0)),
    "cube": ((3, 2, 4), Strengths(0.0, ((1.0, 2.0), (0.3, 7.0), (0.1, 4.0)))),
    "narrow": ((1, 5), Strengths(0.2, ((1.0, 1.0), (2.0, 1.0)))),
}


@pytest.mark.parametrize("name", PRIORS)
def test_the_prior_is_the_roughness_it_says(name: str) -> None:
    """θᵀΛθ = λ₀·Σθ² + Σ (λ₁·Σ(first differences)² + λ₂·Σ(second differences)²)."""
    shape, strengths = PRIORS[name]
    strengths = replace(strengths, apart=0.0)
    field = Field(shape, strengths)
    theta = np.random.default_rng(16).standard_normal(shape)
    roughness = strengths.cells * np.sum(theta**2)
    for axis, (first, second) in enumerate(strengths.along):
        roughness += first * np.sum(np.diff(theta, 1, axis=axis) ** 2)
        roughness += second * np.sum(np.diff(theta, 2, axis=axis) ** 2)
    assert field.penalty(theta) == pytest.approx(roughness / 2, rel=1e-12)
    exact = explicit_precision(shape, strengths)
    np.testing.assert_allclose(field.matrix, exact, rtol=1e-13)
    scale = np.abs(exact).max()
    np.testing.assert_allclose(field.pull(theta).ravel(), exact @ theta.ravel(), atol=1e-13 * scale)


@pytest.mark.parametrize("apart", [1e-3, 0.5, 30.0])
def test_terms_of_cells_add_their_variance(apart: float) -> None:
    """The inverse of P, but for the constants, is that of Λ plus τ²."""
    smooth = Strengths(0.0, ((0.3, 20.0),))
    field = Field((15,), replace(smooth, apart=apart))
    level = np.full((15, 15), 1 / 15)
    alone = np.linalg.inv(explicit_precision((15,), smooth) + level)
    # The constants have the variance 1 in the first and 1 + τ² in the second.
    exact = np.linalg.inv(alone + apart * np.eye(15)) - level / (1 + apart)
    np.testing.assert_allclose(field.matrix, exact, atol=1e-12 * np.abs(exact).max())
    theta = np.random.default_rng(17).standard_normal((3, 15))
    np.testing.assert_allclose(field.pull(theta), theta @ exact, atol=1e-11 * np.abs(exact).max())
    assert field.penalty(theta[0]) == pytest.approx(theta[0] @ exact @ theta[0] / 2, rel=1e-10)


@pytest.mark.parametrize("name", [name for name, (shape, _) in PRIORS.items() if len(shape) == 1])
def test_bands_hold_the_matrix(name: str) -> None:
    shape, strengths = PRIORS[name]
    exact = explicit_precision(shape, replace(strengths, apart=0.0))  # the bands are those of Λ
    bands = Field(shape, strengths).bands
    assert bands.shape == (3, *shape)
    for k in range(3):
        np.testing.assert_allclose(bands[k, : max(shape[0] - k, 0)], np.diag(exact, k), rtol=1e-13)
        assert np.all(bands[k, max(shape[0] - k, 0) :] == 0)
    assert np.all(np.triu(exact, 3) == 0)


@pytest.mark.parametrize("name", PRIORS)
def test_the_determinant_leaves_out_the_constants_where_they_have_no_precision(name: str) -> None:
    shape, strengths = PRIORS[name]
    cells = math.prod(shape)
    with mpmath.workdps(40):
        exact = mpmath.matrix(explicit_precision(shape, strengths).tolist())
        if not strengths.cells:
            # Adding (1/m)·11ᵀ gives the constants the precision 1.
            exact += mpmath.ones(cells, cells) / cells
        wanted = float(mpmath.log(mpmath.det(exact)))
    assert Field(shape, strengths).log_determinant == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("second", [1.0, 1e3, 1e6])
@pytest.mark.parametrize("shape", [(12, 9), (24, 25), (30, 2)])
def test_strong_smoothing_does_not_count_the_constants(
    shape: tuple[int, int], second: float
) -> None:
    """Their eigenvalue is a rounding error, which must not be taken for a precision."""
    field = Field(shape, Strengths(0.0, ((1e-3, second), (1e-3, second))))
    along = Strengths(0.0, ((1e-3, second),))
    one, two = (np.linalg.eigvalsh(explicit_precision((m,), along)) for m in shape)
    one[0] = two[0] = 0.0
    exact = np.sum(np.log(np.add.outer(one, two).ravel()[1:]))
    # Small eigenvalues, of about 1e-3/m², are known to 1e-15·16·λ₂.
    assert field.log_determinant == pytest.approx(exact, abs=0.1)


@pytest.mark.parametrize("name", PRIORS)
def test_standard_coordinates_make_the_prior_standard_normal(name: str) -> None:
    """BᵀΛB = I, but for the constants; B and Bᵀ are transposes.

    The smallest eigenvalue of the long prior, 4e-6, is known to a few roundings of 1.6e7.
    """
    shape, strengths = PRIORS[name]
    field = Field(shape, strengths)
    cells = math.prod(shape)
    units = np.eye(cells).reshape(cells, *shape)
    matrix = np.array([field.standardised.theta(unit).ravel() for unit in units]).T
    back = np.array([field.standardised.coordinates(unit).ravel() for unit in units])
    np.testing.assert_allclose(back, matrix, atol=1e-12 * np.abs(matrix).max())
    white = matrix.T @ explicit_precision(shape, strengths) @ matrix
    values = np.linalg.eigvalsh(white)
    kept = values if strengths.cells else values[1:]
    np.testing.assert_allclose(kept, 1.0, rtol=1e-3 if name == "long" else 1e-9)
    if not strengths.cells:
        assert values[0] == pytest.approx(0.0, abs=1e-6)


def test_long_axes_use_cosines_instead_of_eigenvectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact for first differences."""
    monkeypatch.setattr(field_module, "_LONG_AXIS", 8)
    field = Field((20, 3), Strengths(0.2, ((3.0, 0.0), (0.0, 0.0))))
    units = np.eye(60).reshape(60, 20, 3)
    matrix = np.array([field.standardised.theta(unit).ravel() for unit in units]).T
    back = np.array([field.standardised.coordinates(unit).ravel() for unit in units])
    np.testing.assert_allclose(back, matrix, atol=1e-13)
    exact = explicit_precision(field.shape, field.strengths)
    np.testing.assert_allclose(matrix.T @ exact @ matrix, np.eye(60), atol=1e-12)


@pytest.mark.parametrize("size", [2, 3, 5, 50])
@pytest.mark.parametrize(("first", "second"), [(2.0, 0.0), (0.0, 3.0), (0.7, 40.0)])
def test_eigenvectors_take_the_roughness_apart(size: int, first: float, second: float) -> None:
    exact = explicit_precision((size,), Strengths(0.0, ((first, second),)))
    values, vectors = roughness(size, first, second)
    scale = np.abs(exact).max()
    np.testing.assert_allclose((vectors * values) @ vectors.T, exact, atol=1e-12 * scale)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(size), atol=1e-12)
    found = np.sort(roughness_values(size, first, second))
    np.testing.assert_allclose(found, np.sort(values), atol=1e-12 * scale)


@pytest.mark.parametrize("size", [2, 3, 4, 7, 50])
def test_cosines_take_first_differences_apart(size: int) -> None:
    waves = cosines(size, np.arange(size))
    np.testing.assert_allclose(waves, dct(np.eye(size), norm="ortho"), atol=1e-14)
    np.testing.assert_array_equal(cosines(size, np.array([size - 1, 0])), waves[:, [-1, 0]])
    exact = waves.T @ explicit_precision((size,), Strengths(0.0, ((2.0, 0.0),))) @ waves
    np.testing.assert_allclose(np.diag(cosine_roughness(size, 2.0, 0.0)), exact, atol=1e-13)


def test_mirrored_second_differences_are_those_of_the_line_and_two_more() -> None:
    """The eigenvalues are those of a line whose ends are repeated before differences are taken."""
    size = 9
    mirrored = np.diff(np.pad(np.eye(size), ((1, 1), (0, 0)), mode="edge"), 2, axis=0)
    found = np.linalg.eigvalsh(5.0 * mirrored.T @ mirrored)
    np.testing.assert_allclose(cosine_roughness(size, 0.0, 5.0), found, atol=1e-12 * 80)


def test_a_prior_is_rough_if_only_cells_have_strength() -> None:
    assert Field((3, 4), Strengths(1.0, ((0.0, 0.0), (0.0, 0.0)))).is_rough
    assert not Field((3, 4), Strengths(1.0, ((0.0, 0.0), (0.0, 1.0)))).is_rough
    assert precision_bands(5, 0.0, 0.0).any() == np.False_
