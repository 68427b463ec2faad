"""The measurement of shapes: its peers do what their papers say, and its figures are right."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:  # for the benchmarks, which are tested here
    sys.path.insert(0, str(ROOT))

import sfumato as sf  # noqa: E402
from benchmarks import shape_peers, shapes  # noqa: E402
from benchmarks.shape_people import DISTANCE, HELD_OUT, SETTINGS, SHAPES, Setting  # noqa: E402
from benchmarks.shape_reading import Reading, keep, read, read_kept  # noqa: E402

SMALL = Setting("Uniform", 1.0, (16,), 4_000)


# People


def test_there_are_two_shapes_of_every_kind_and_one_of_them_is_held_out() -> None:
    kinds = [name.partition(":")[0] for name in SHAPES]
    held = [name.partition(":")[0] for name in HELD_OUT]
    assert sorted(kinds) == sorted(2 * ["smooth", "heaped", "stepped", "spiky", "sparse", "mixed"])
    assert sorted(held) == sorted(set(kinds))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("setting", [SETTINGS[0], DISTANCE[-1]], ids=str)
def test_people_and_questions_are_those_of_the_seed(shape: str, setting: Setting) -> None:
    counts, rows = setting.draw(shape, 3)
    assert counts.shape == setting.shape
    assert counts.sum() == setting.people
    assert rows.shape == (500, math.prod(setting.shape))
    assert set(np.unique(rows)) == {0.0, 1.0}
    again, _ = Setting(setting.guarantee, 7.0, setting.shape).draw(shape, 3)
    other, _ = setting.draw(shape, 4)
    assert np.array_equal(counts, again)
    assert not np.array_equal(counts, other)


# Peers


def test_one_step_of_em_is_that_of_the_formula() -> None:
    matrix = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
    counts, law = np.array([5.0, 0.0, 3.0]), np.array([0.4, 0.6])
    found = shape_peers.em(law, counts, lambda p: p @ matrix, lambda v: matrix @ v, most_steps=1)
    mixed = law @ matrix
    right = [law[x] * sum(counts * matrix[x] / mixed) / 8 for x in range(2)]
    np.testing.assert_allclose(found, right)


def test_em_finds_the_maximum_and_stops_where_it_is_told() -> None:
    """Two cells, two outputs: the share that explains the counts exactly is the likeliest."""
    matrix = np.array([[0.75, 0.25], [0.25, 0.75]])
    counts = np.array([60.0, 40.0])  # 0.6 = 0.75·0.7 + 0.25·0.3
    steps: list[float] = []

    def forward(law: np.ndarray) -> np.ndarray:
        steps.append(law[0])
        return law @ matrix

    def found(**stop: float) -> float:
        steps.clear()
        start = np.array([0.1, 0.9])
        return float(shape_peers.em(start, counts, forward, lambda v: matrix @ v, **stop)[0])

    assert found(moved=1e-12) == pytest.approx(0.7, abs=1e-9)
    long = len(steps)
    assert found(gain=1e-3) == pytest.approx(0.7, abs=0.02)
    assert len(steps) < long


def test_smoothing_keeps_a_flat_law_and_spreads_a_spike() -> None:
    smooth = shape_peers.binomial_smoothing
    np.testing.assert_allclose(smooth(np.full(5, 0.2)), 0.2)
    np.testing.assert_allclose(smooth(np.eye(5)[2]), [0, 0.25, 0.5, 0.25, 0])
    np.testing.assert_allclose(smooth(np.eye(5)[0]), [2 / 3, 0.25, 0, 0, 0])


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_the_wave_is_the_channel_of_the_library(epsilon: float) -> None:
    wave = shape_peers.Wave(20, epsilon)
    axis = sf.integers("a", 0, 19, protect=sf.Uniform(epsilon), channel=sf.SquareWave())
    matrix = sf.Study("s", [axis]).blocks[0].channel.likelihood()
    np.testing.assert_allclose([wave.forward(row) for row in np.eye(20)], matrix, atol=1e-12)
    values = np.arange(float(wave.places))
    np.testing.assert_allclose(wave.backward(values), matrix @ values)


def test_reports_of_the_wave_follow_its_law() -> None:
    """Within five standard errors of each place; the law of other people is further away."""
    wave, counts = shape_peers.Wave(6, 2.0), np.array([0, 50_000, 0, 0, 0, 30_000])
    seen = wave.reports(counts, np.random.default_rng(1))
    assert seen.sum() == 80_000
    expected, other = wave.forward(counts.astype(float)), wave.forward(counts[::-1].astype(float))
    assert np.all(np.abs(seen - expected) < 5 * np.sqrt(expected))
    assert not np.all(np.abs(seen - other) < 5 * np.sqrt(other))


def test_smoothing_helps_on_a_smooth_shape_and_hurts_on_a_spiky_one() -> None:
    setting = Setting("Uniform", 1.0, (64,), 50_000)
    ratios = {}
    for shape in ("smooth: skewed", "spiky: 20 cells"):
        counts, _ = setting.draw(shape, 1)
        found = shape_peers.square_wave(counts, 1.0, np.random.default_rng(1))
        off = {name: np.square(law - counts / counts.sum()).sum() for name, law in found.items()}
        ratios[shape] = off["SW+EMS"] / off["SW+EM"]
    assert ratios["smooth: skewed"] < 1 < ratios["spiky: 20 cells"]


def test_the_tree_is_exact_without_noise() -> None:
    """At ε = 40 only the bits of others' parts vanish; halves of kept bits remain as noise."""
    counts = np.array([0, 0, 4_000, 0, 0, 0, 0, 6_000, 0, 0, 0])
    law = shape_peers.adaptive_tree(counts, 40.0, np.random.default_rng(1))
    assert law.sum() == pytest.approx(1)
    # Groups of 2,500 people: bits of half of them, groups drawn without replacement.
    spread = math.sqrt((1.0 + 0.24) / 2_500)
    assert np.all(np.abs(law - counts / 10_000) < 5 * spread)
    assert not np.all(np.abs(law - counts[::-1] / 10_000) < 5 * spread)


def test_the_tree_splits_only_where_people_are() -> None:
    counts = np.zeros(64, dtype=np.int64)
    counts[40:44] = 25_000
    law = shape_peers.adaptive_tree(counts, 1.0, np.random.default_rng(1))
    empty = law[:32]
    assert np.ptp(empty) == 0
    assert law[40:44].sum() > 0.8


def test_unary_encoding_is_unbiased_with_its_stated_error() -> None:
    rng, runs = np.random.default_rng(1), 4_000
    inside = np.array([10, 0, 990])
    found = np.array([shape_peers._unary(inside, 1.0, rng) for _ in range(runs)])
    error = shape_peers._unary_error(1_000, 1.0)
    spread = found.std(axis=0, ddof=1)
    assert np.all(np.abs(found.mean(axis=0) - inside / 1_000) < 5 * spread / math.sqrt(runs))
    assert spread[1] == pytest.approx(error, rel=5 / math.sqrt(2 * runs))
    assert spread[1] != pytest.approx(1.1 * error, rel=5 / math.sqrt(2 * runs))


def test_shares_are_moved_to_the_nearest_that_are_possible() -> None:
    np.testing.assert_allclose(
        shape_peers.non_negative(np.array([0.9, 0.4, -0.3])), [0.75, 0.25, 0]
    )
    np.testing.assert_allclose(shape_peers.non_negative(np.array([0.2, 0.8])), [0.2, 0.8])


def test_plain_em_reads_the_reports_of_a_tally() -> None:
    counts, _ = SMALL.draw("smooth: two bumps", 1)
    tally = SMALL.study(sf.SquareWave()).simulate_counts(counts, seed=1)
    wave = shape_peers.Wave(16, 1.0)
    seen = tally.statistic.profile([0], [None])
    flat = np.full(16, 1 / 16)
    right = shape_peers.em(
        flat,
        np.asarray(seen, dtype=float).ravel(),
        wave.forward,
        wave.backward,
        moved=shape_peers.PLAIN_MOVED,
        most_steps=shape_peers.PLAIN_STEPS,
    )
    np.testing.assert_allclose(shape_peers.plain_em(tally), right, atol=1e-6)


# Figures


def test_a_ratio_has_the_error_of_its_pairs() -> None:
    found, error = shapes.ratio([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])
    assert (found, error) == (2.0, 0.0)
    found, error = shapes.ratio([3.0, 1.0], [2.0, 2.0])
    assert found == 1.0
    assert error == pytest.approx(math.sqrt(2) / math.sqrt(2) / 2)
    assert shapes.ratio([3.0], [2.0]) == (1.5, None)


def test_the_best_in_hindsight_is_the_best_of_those_that_ran() -> None:
    errors = {"default": [0.1], "plain EM": [3.0, 2.0], "SW+EM": [1.0, 3.0]}
    assert shapes.best_of(errors, shapes.PEERS) == "SW+EM"
    assert shapes.best_of({"plain EM": [1.0]}, shapes.PEERS) == "plain EM"


def test_coverage_is_told_for_the_worst_widths() -> None:
    widths = [float(k) for k in range(100)]
    hits = [0.0 if 20 <= k < 25 else 1.0 for k in range(100)]
    one = Reading([0.5] * 100, [shapes.REACH] * 100, hits, widths, 1.0, "likelihood")
    found = shapes.coverage([one])
    assert found == pytest.approx({"covered": 0.95, "worst tenth": 0.5, "half-width": 2.0})


def test_a_tally_that_was_kept_is_read_alike(tmp_path: Path) -> None:
    counts, rows = SMALL.draw("stepped: four plateaus", 1)
    tally = SMALL.study().simulate_counts(counts, seed=1)
    keep(tmp_path / "0", tally, counts, rows)
    here, there = read(tally, counts, rows), read_kept(tmp_path / "0")
    assert here.errors == there.errors
    assert here.reach == there.reach
    truth = rows @ counts.ravel() / counts.sum()
    assert here.hits != read(tally, counts[::-1], rows).hits
    assert here.rmse < 1e3 * truth.std()


def test_a_row_has_every_figure_and_names_its_best() -> None:
    found = shapes.row("stepped: four plateaus", SMALL, 2)
    assert found["default/best"] == pytest.approx(found["default"] / found[found["best"]])
    assert found[found["best"]] == min(found[name] for name in shapes.PEERS)
    assert found["better channel"] in shapes.CHANNELS
    near = shapes.row("stepped: four plateaus", Setting("Distance", 0.5, (16,), 4_000), 1)
    assert list(near) == list(found)
    assert (near["best"], near["comb"], near["better channel"]) == ("plain EM", None, None)


def test_rows_are_chosen_by_words() -> None:
    assert len(shapes.chosen("", quick=False)) == len(SHAPES) * len(SETTINGS)
    found = shapes.chosen("heaped Uniform 1,024", quick=False)
    assert {shape for shape, _ in found} == {"heaped: ages", "heaped: rounded decay"}
    assert {setting.shape for _, setting in found} == {(1_024,)}
    assert not shapes.chosen("no such shape", quick=True)
    tuned = {shape for shape, _ in shapes.chosen("", quick=True, tuning=True)}
    assert tuned == set(SHAPES) - set(HELD_OUT)
