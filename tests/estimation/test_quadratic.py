"""The second-order expansion of a log-likelihood against the log-likelihood itself."""

from __future__ import annotations

import numpy as np
import pytest
from helpers_decoding import (
    explicit_information,
    hump,
    humps,
    law_of,
    line,
    noiseless,
    thermometer_tally,
)
from numpy.typing import NDArray

import sfumato as sf
from sfumato.estimation.decoding import mixture as mixture_module
from sfumato.estimation.decoding import quadratic as quadratic_module
from sfumato.estimation.decoding.mixture import Mixture, SymbolMixture, mixture_of
from sfumato.estimation.decoding.quadratic import Quadratic

Floats = NDArray[np.float64]


def expanded(name: str) -> tuple[Mixture, Floats]:
    """A mixture and the law around which it is expanded, at which reports are as expected."""
    if name == "bits":
        tally = thermometer_tally(6, 800)
        return mixture_of(tally.statistic, tally.study.blocks, [0]), hump(6)
    shape = (7,) if name == "line" else (5, 4)
    law = humps(shape)
    return noiseless([line(size, 0.8) for size in shape], law, 1_000), law


@pytest.mark.parametrize("name", ["line", "plane", "bits"])
def test_it_is_exact_at_the_centre(name: str) -> None:
    mixture, law = expanded(name)
    found, mixed = Quadratic.of(mixture, law), mixture.forward(law)
    assert found.forward(law) is law
    assert found.people == pytest.approx(mixture.counts.sum())
    assert found.shape == mixture.shape
    assert found.value(law) == mixture.value(mixed)
    np.testing.assert_array_equal(found.slope(law), mixture.slope(mixed))
    changes = np.random.default_rng(1).standard_normal((3, *law.shape))
    for one, other in (
        (found.bend(changes, law), mixture.bend(changes, mixed)),
        (found.curve(changes, law), mixture.curve(changes, mixed)),
        (found.information(law, law), explicit_information(mixture, law)),
        (found.diagonal(law, law).ravel(), np.diag(explicit_information(mixture, law))),
    ):
        np.testing.assert_allclose(one, other, atol=1e-10 * np.abs(other).max())
    ordered = (True,) * law.ndim
    np.testing.assert_array_equal(found.transfer(ordered), mixture.transfer(ordered))


@pytest.mark.parametrize("name", ["line", "plane", "bits"])
def test_errors_away_from_the_centre_are_of_the_next_order(name: str) -> None:
    """With half the change, the error of the value is an eighth and that of the slope a quarter."""
    mixture, law = expanded(name)
    found = Quadratic.of(mixture, law)
    theta = np.random.default_rng(2).standard_normal(law.shape)
    values, slopes = [], []
    for step in (0.04, 0.02, 0.01):
        there = law + step * (law_of(np.log(law) + theta) - law)
        mixed = mixture.forward(there)
        values.append(found.value(there) - mixture.value(mixed))
        slopes.append(np.linalg.norm(found.slope(there) - mixture.slope(mixed)))
    assert values[0] / values[1] == pytest.approx(8, rel=0.1)
    assert slopes[0] / slopes[1] == pytest.approx(4, rel=0.1)
    assert slopes[1] / slopes[2] == pytest.approx(4, rel=0.05)


@pytest.mark.parametrize("small", [True, False])
def test_channels_that_know_their_even_information_need_no_matrix_of_outputs(
    small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Axes of a prime number of cells, where even people turn all combs evenly."""
    monkeypatch.setattr(quadratic_module, "LOOSE_CELLS", 600 if small else 0)
    axes = [sf.integers(d, 0, 4) for d in "ab"]
    study = sf.Study("combs", axes, protect=sf.Uniform(1.0), channel=sf.Comb())
    (channel,) = study.channels
    law = np.full((5, 5), 1 / 25)
    flat, matrix = law.ravel(), channel.likelihood()
    mixture = SymbolMixture.of([channel], 700 * flat @ matrix, [(5, 5)])
    found = Quadratic.of(mixture, law)
    exact = 700 * matrix / (flat @ matrix) @ matrix.T
    changes = np.random.default_rng(3).standard_normal((3, 5, 5))
    rows = changes.reshape(3, -1)
    bent = rows @ exact @ rows.T
    np.testing.assert_allclose(found.bend(changes, law), bent, atol=1e-9 * np.abs(bent).max())
    np.testing.assert_allclose(np.full(25, found.own), np.diag(exact), rtol=1e-9)
    own = flat**2 * (np.diag(exact) - 2 * exact @ flat + flat @ exact @ flat)
    np.testing.assert_allclose(found.diagonal(law, law).ravel(), own, rtol=1e-9)
    if small:
        information = found.information(law, law)
        wanted = explicit_information(mixture, law)
        np.testing.assert_allclose(information, wanted, atol=1e-9 * np.abs(wanted).max())
    else:
        assert found.matrix is None


def test_a_long_axis_of_combs_has_their_even_information(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a matrix over cells has no room; a prime number of cells, as above."""
    axis = sf.integers("a", 0, 12, protect=sf.Uniform(1.0), channel=sf.Comb())
    (channel,) = sf.Study("comb", [axis]).channels
    law = np.full(13, 1 / 13)
    mixture = SymbolMixture.of([channel], 700 * law @ channel.likelihood())
    assert mixture.even_second is None
    mixed = mixture.forward(law)
    exact = mixture.second(mixed)
    monkeypatch.setattr(mixture_module, "LOOSE_CELLS", 12)
    np.testing.assert_allclose(mixture.second(mixed), exact, atol=1e-9 * np.abs(exact).max())
    change = np.random.default_rng(4).standard_normal(13)
    bent = exact @ change
    np.testing.assert_allclose(mixture.curve(change, mixed), bent, atol=1e-9 * np.abs(bent).max())
    assert mixture.coarsened((2,)).even_second is None
