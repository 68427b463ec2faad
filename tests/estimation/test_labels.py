"""Many labels: against the best answers there are, and the conditions for a maximum."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import sfumato as sf
from sfumato.estimation.decoding.labels import CONTRADICTED, OWN, LabelDecoder, Sizes, mean_counts

Floats = NDArray[np.float64]


def two_sizes(labels: int, error: float, seed: int) -> tuple[Floats, Floats]:
    """Counts of which a tenth are 500 and the others 20, and unbiased ones."""
    rng = np.random.default_rng(seed)
    counts = np.where(np.arange(labels) < labels // 10, 500.0, 20.0)
    return counts, counts + error * rng.standard_normal(labels)


def zipf(labels: int, people: int, error: float, seed: int) -> tuple[Floats, Floats]:
    """Counts of a Zipf law, and unbiased ones with the right sum."""
    rng = np.random.default_rng(seed)
    law = 1 / np.arange(1, labels + 1)
    counts = rng.multinomial(people, law / law.sum()).astype(np.float64)
    values = counts + error * rng.standard_normal(labels)
    return counts, values + (people - values.sum()) / labels


def test_the_weights_are_those_of_a_maximum() -> None:
    """The mean over y of likely(y, size)/Σ likely·weights is 1 where there is weight, else less.

    It is the derivative of the log-likelihood along a size, which is concave in the weights.
    """
    _, values = two_sizes(400, 100.0, seed=1)
    values = np.sort(values)
    grid = np.arange(0.0, 900.0, 30.0)
    sizes = Sizes.of(values, grid, (0.0, 1e4), 100.0)
    weights = sizes.weights(np.ones(400))
    dense = sizes.likely.toarray()
    exact = np.exp(-((values[:, None] - grid) ** 2) / 2e4) * (np.abs(values[:, None] - grid) <= 600)
    np.testing.assert_allclose(dense, exact / exact.max(axis=1, keepdims=True), atol=1e-12)
    slope = np.mean(dense / (dense @ weights)[:, None], axis=0)
    assert weights.sum() == pytest.approx(1.0)
    assert slope.max() < 1.001
    assert weights @ np.abs(slope - 1) < 1e-3
    even = np.full(len(grid), 1 / len(grid))
    assert np.mean(dense / (dense @ even)[:, None], axis=0).max() > 1.1  # these are not


def test_answers_are_nearly_as_good_as_if_the_sizes_were_known() -> None:
    """Over 8 collections of 1,000 labels, against posterior means under the true two sizes."""
    own, best, plain = [], [], []
    for seed in range(8):
        counts, values = two_sizes(1_000, 150.0, seed)
        found = mean_counts(values, np.full(1_000, 150.0**2), float(counts.sum()))
        full, empty = (np.exp(-((values - size) ** 2) / 4.5e4) for size in (500.0, 20.0))
        exact = 20 + 480 * 0.1 * full / (0.1 * full + 0.9 * empty)
        errors = [np.mean((one - counts) ** 2) for one in (found, exact, values)]
        for kept, error in zip((own, best, plain), errors, strict=True):
            kept.append(error)
        assert found.sum() == pytest.approx(counts.sum())
        assert found.min() >= 0
    assert np.mean(own) < 1.1 * np.mean(best) < 0.6 * np.mean(plain)


def test_errors_that_grow_with_counts_are_those_of_every_size() -> None:
    """Full labels have larger errors and are pulled more: the line of variances is used."""
    rng = np.random.default_rng(2)
    counts = np.where(np.arange(2_000) < 200, 500.0, 20.0)
    variance = 900 + 40 * counts
    values = counts + np.sqrt(variance) * rng.standard_normal(2_000)
    grown = mean_counts(values, 900 + 40 * values, float(counts.sum()))
    alike = mean_counts(values, np.full(2_000, 900.0), float(counts.sum()))
    assert np.mean((grown - counts) ** 2) < 0.8 * np.mean((alike - counts) ** 2)


@pytest.mark.parametrize("error", [1e-6, 1.0, 600.0])
def test_a_label_with_almost_everybody_keeps_them(error: float) -> None:
    counts = np.where(np.arange(300) == 7, 90_000.0, 10_000 / 299)
    values = counts + error * np.random.default_rng(3).standard_normal(300)
    found = mean_counts(values, np.full(300, error**2), 100_000.0)
    assert np.all(np.isfinite(found))
    assert abs(found[7] - 90_000) < 4 * error + 1e-3


def test_sums_over_labels_that_the_answers_chose_are_nearly_unbiased() -> None:
    """The 50 fullest of 500 by the answers; by unbiased counts they are far too high."""
    off, plain, inside = [], [], []
    for seed in range(20):
        counts, values = zipf(500, 20_000, 120.0, seed)
        decoder = LabelDecoder(values, np.full(500, 120.0**2), 20_000.0)
        chosen = np.argsort(-decoder.counts())[:50]
        row = np.isin(np.arange(500), chosen)[None].astype(np.float64)
        (value,), (variance,) = decoder.moments(row)
        assert value == pytest.approx(decoder.counts()[chosen].sum())
        assert variance == pytest.approx((OWN * 120) ** 2 * 50 * 0.9)
        off.append(value - row[0] @ counts)
        inside.append(abs(off[-1]) < 1.96 * np.sqrt(variance))
        fullest = np.argsort(-values)[:50]
        plain.append((values - counts)[fullest].sum())
    assert abs(np.mean(off)) < 0.15 * np.mean(plain)
    assert np.mean(inside) > 0.7


def test_sums_over_labels_chosen_otherwise_move_to_the_unbiased_ones() -> None:
    """Written out; a sum and that over all other labels add up to everybody."""
    counts, values = zipf(500, 20_000, 200.0, seed=5)
    decoder = LabelDecoder(values, np.full(500, 200.0**2), 20_000.0)
    rows = np.zeros((4, 500))
    rows[0, :100], rows[1, 3], rows[2, 200:300] = 1.0, 1.0, 1.0
    rows[3] = 1 - rows[0]
    found, variances = decoder.moments(rows)
    plain = rows @ decoder.counts()
    off, error = rows @ values - plain, 200.0 * np.sqrt(rows.sum(1) * (1 - rows.mean(1)))
    z = off / error
    assert abs(z[0]) > CONTRADICTED > abs(z[2])
    assert found[0] == pytest.approx(plain[0] + off[0] * (1 - (CONTRADICTED / z[0]) ** 4))
    np.testing.assert_allclose(found[1:3], plain[1:3])
    assert found[0] + found[3] == pytest.approx(20_000)
    assert plain[0] < found[0] < rows[0] @ counts
    assert np.all(np.isinf(variances))


def test_an_estimate_of_many_labels_is_that_of_their_unbiased_counts(tmp_path: Path) -> None:
    labels = [f"k{k}" for k in range(200)]
    study = sf.Study(
        "labels", [sf.categories("a", labels, protect=sf.Uniform(2.0), channel=sf.KaryResponse())]
    )
    counts, _ = zipf(200, 5_000, 1.0, seed=6)
    tally = study.simulate_counts(counts.astype(np.int64), seed=1)
    unbiased = tally.estimate("unbiased").histogram("a")
    estimate = tally.estimate()
    found = estimate.histogram("a")
    exact = mean_counts(unbiased.values, unbiased.stderr**2, 5_000.0)
    np.testing.assert_allclose(found.values, exact)
    assert found.method == "likelihood"
    assert np.all((found.low <= unbiased.low + 1e-6) & (found.low <= found.values))
    estimate.save(tmp_path / "decoded.parquet")
    again = tally.estimate(saved=tmp_path / "decoded.parquet").histogram("a")
    np.testing.assert_allclose(again.values, found.values)


def test_few_labels_and_those_that_are_protected_unequally_are_not_learnt_from_each_other() -> None:
    labels = [f"k{k}" for k in range(200)]
    blocks = sf.Blocks(2.0, [labels[:100], labels[100:]])
    few = sf.categories("a", labels[:50], protect=sf.Uniform(2.0), channel=sf.KaryResponse())
    parted = sf.categories("a", labels, protect=blocks, channel=sf.Hadamard())
    for axis in (few, parted):
        tally = sf.Study("labels", [axis]).simulate({"a": ["k1"] * 300 + ["k2"] * 100}, seed=1)
        assert not isinstance(tally.estimate().decoder((0,)), LabelDecoder)
