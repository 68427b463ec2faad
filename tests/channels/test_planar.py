"""Noise on the plane: its tables, its proof, and grids too large to list."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.channels import lattice_noise
from sfumato.channels.code import Code, Tables
from sfumato.channels.lattice_noise import LatticeNoise
from sfumato.channels.odds import Findings
from sfumato.channels.planar import PlanarChannel
from sfumato.channels.planar_check import check_tables
from sfumato.channels.planar_tables import Falling, PlanarTables, class_words, planar_tables
from sfumato.errors import StudyError, TooLargeError
from sfumato.metrics.norm_grids import NormGridMetric
from sfumato.randomness.bits import SeededBits

ONE = Fraction(1)
SMALL = NormGridMetric(shape=(5, 6), steps=(ONE, Fraction(1, 2)))


def square(side: int, step: Fraction, cap: Fraction | None = None) -> PlanarChannel:
    metric = NormGridMetric(shape=(side, side), steps=(step, step), cap=cap)
    return sf.Planar().bind(metric)


def problems(tables: PlanarTables, metric: NormGridMetric = SMALL) -> list[str]:
    found = Findings()
    check_tables(metric, tables, 64, found)
    return found.problems


# The law


@pytest.mark.parametrize("order", [ONE, Fraction(2), math.inf])
def test_the_law_is_nearly_that_of_the_noise_itself(order: Fraction | float) -> None:
    """Summed over a plane much larger than the table: words differ by what the unit rounds."""
    metric = NormGridMetric(shape=(4, 5), steps=(ONE, ONE), order=order)
    law = sf.Planar().bind(metric).likelihood()
    reach = np.arange(-60, 61)
    norm = np.linalg.norm(np.stack(np.meshgrid(reach, reach)), ord=float(order), axis=0)
    weight = np.exp(-norm).T
    weight /= weight.sum()
    for cell in range(20):
        rows = np.clip(reach + cell // 5, 0, 3)
        columns = np.clip(reach + cell % 5, 0, 4)
        exact = np.zeros((4, 5))
        np.add.at(exact, (rows[:, None], columns[None, :]), weight)
        # Noise beyond the reach of e^-8 is spread a little wider.
        assert np.abs(law[cell].reshape(4, 5) - exact).max() < 2e-3


@pytest.mark.slow
def test_large_grids_are_checked_by_structure() -> None:
    for channel in (square(128, Fraction(1, 2)), square(64, Fraction(1, 4), Fraction(3))):
        found = channel.check(channel.metric)
        assert found.method == "by structure"
        assert not found.problems
        assert 0.9 < found.spent <= 1
        other = replace(channel.metric, steps=(ONE, ONE))
        assert channel.check(other).problems  # made for another metric, and not known to keep it


@pytest.mark.parametrize("cap", [None, Fraction(2)])
def test_whatever_is_changed_in_the_tables_is_found(cap: Fraction | None) -> None:
    metric = replace(SMALL, cap=cap)
    sound = planar_tables(metric, 64)
    assert problems(sound, metric) == []
    weights = list(sound.weights)
    middle = sound.classes // 3
    more, less = list(weights), list(weights)
    more[middle] += 1 << 20
    more[0] -= 1 << 20
    assert "more than its exact weight" in problems(replace(sound, weights=tuple(more)), metric)[0]
    less[middle] -= 1 << 40
    less[0] += 1 << 40
    assert problems(replace(sound, weights=tuple(less)), metric)
    poor = [*weights[: sound.classes], *[1] * 5]
    poor[-1] += (1 << 64) - sum(poor)
    told = problems(replace(sound, weights=tuple(poor)), metric)
    assert any("fewer words than it needs" in each for each in told)
    short = replace(sound, across=sound.across[:-1])
    assert any("other cells than the grid" in each for each in problems(short, metric))
    assert problems(replace(sound, scale=sound.scale // 2), metric)
    assert any("of all words" in each for each in problems(lacking_a_word(sound), metric))


def lacking_a_word(tables: PlanarTables) -> PlanarTables:
    """One word fewer in the fixed law's last row, which has some to spare."""
    return replace(tables, weights=(*tables.weights[:-1], tables.weights[-1] - 1))


def broken(**wrong: Any) -> PlanarTables:
    """Tables made from a law of which something is replaced, though the words still fit it."""
    falling = Falling.of(SMALL)
    twin = copy.copy(falling)
    for name, value in wrong.items():
        object.__setattr__(twin, name, value)
    noise, _ = class_words(twin, 1 << 58)
    rows = [1 << 40] * 5
    weights = [*noise.ravel().tolist(), *rows]
    weights[-1] += (1 << 64) - sum(weights)
    return PlanarTables(twin, 1 << 58, tuple(weights), planar_tables(SMALL, 64).across)


def test_each_step_of_the_proof_is_checked() -> None:
    falling = Falling.of(SMALL)
    assert problems(broken()) == []
    exponents = falling.exponents.copy()
    exponents[2, 3] += 1
    assert "exponent is not that" in problems(broken(exponents=exponents))[0]
    assert "grow faster" in problems(broken(share=ONE))[0]
    steep = tuple(2 * slope for slope in falling.slopes)
    assert "falls too fast" in problems(broken(slopes=steep))[0]
    shorter = tuple(tail * Fraction(9, 10) for tail in falling.tails)
    assert "not that of its slope" in problems(broken(tails=shorter))[0]
    assert "another metric" in problems(broken(metric=replace(SMALL, shape=(6, 5))))[0]


def test_a_stopped_reach_must_have_vanished() -> None:
    """Steps so large that the table ends within the grid: its last words must be none."""
    channel = square(80, ONE)
    assert channel.tables.falling.reach == (52, 52)
    assert not channel.check(channel.metric).problems
    first = np.array(channel.tables.weights[: channel.tables.classes]).reshape(53, 53)
    assert not first[-1].any()


def test_samplers_that_look_up_other_tables_are_found() -> None:
    channel = sf.Planar().bind(SMALL)
    twin = copy.copy(channel)
    object.__setattr__(twin, "_second", channel._first)
    assert any("equally likely" in problem for problem in twin.check(SMALL).problems)
    twin = copy.copy(channel)
    object.__setattr__(twin, "_first", channel._second)
    assert any("not that of the tables" in problem for problem in twin.check(SMALL).problems)


@pytest.mark.slow
def test_programs_stay_short() -> None:
    """A table of all displacements of 256 × 256 cells takes about half a megabyte."""
    channel = square(256, Fraction(1, 5))
    tables = Tables()
    code = Code(tables)
    code.piece(lambda: channel.device_code(code, code.cell))
    assert len(json.dumps(tables.held)) < 600_000


@pytest.mark.slow
def test_too_many_cells_are_refused_or_served_by_two_axes() -> None:
    metric = NormGridMetric(shape=(600, 600), steps=(Fraction(1, 50),) * 2)
    with pytest.raises(StudyError, match="the limit is 262,144"):
        sf.Planar().bind(metric)
    axes = [sf.integers("x", 0, 599), sf.integers("y", 0, 599)]
    study = sf.Study("wide", [sf.together(axes, protect=sf.Lp("1/50", 2))])
    assert study.channels[0].id == "product"
    assert sf.audit(study).holds
    with pytest.raises(StudyError, match="no channel can serve"):
        sf.Study("wide", [sf.together(axes, protect=sf.Lp("1/50", 2, cap=3))])
    flat = sf.Study("flat", [sf.together(axes, protect=sf.Lp(1, 1))])
    assert flat.channels[0].id == "product"


def test_steps_too_small_for_the_table_are_refused() -> None:
    metric = NormGridMetric(shape=(3, 200), steps=(Fraction(1, 10**6), ONE), order=ONE)
    with pytest.raises(StudyError, match="use fewer cells or a larger epsilon"):
        sf.Planar().bind(metric)


# In floats, where a matrix would be too large


@pytest.fixture
def by_transforms(monkeypatch: pytest.MonkeyPatch) -> tuple[LatticeNoise, Any]:
    """The same noise with a matrix, and with transforms alone."""
    channel = sf.Planar().bind(NormGridMetric(shape=(19, 23), steps=(ONE, Fraction(3, 2))))
    small = channel.noise
    assert small._small
    matrix = small.matrix()
    monkeypatch.setattr(lattice_noise, "MOST_DENSE", 0)
    return replace(small), matrix


def test_transforms_are_the_matrix(by_transforms: tuple[LatticeNoise, Any]) -> None:
    noise, matrix = by_transforms
    rng = np.random.default_rng(1)
    signed, people = rng.normal(size=(3, 437)), rng.random((3, 437))
    assert np.abs(noise.expect(signed) - signed @ matrix.T).max() < 1e-12
    assert np.abs(noise.mix(people) - people @ matrix).max() < 1e-12
    # Differences of laws have negative entries, and are mixed as such.
    assert np.abs(noise.mix(signed) - signed @ matrix).max() < 1e-12


def test_chances_of_what_nobody_sends_are_never_negative(
    by_transforms: tuple[LatticeNoise, Any],
) -> None:
    """Under transforms they are rounding errors of either sign, by which decoding would divide."""
    noise, matrix = by_transforms
    law = np.zeros(437)
    law[0] = 1.0
    assert (matrix[0] < 1e-16).any()
    assert noise.mix(law).min() > 1e-13


def test_the_iteration_is_the_inverse(by_transforms: tuple[LatticeNoise, Any]) -> None:
    noise, matrix = by_transforms
    weights = np.random.default_rng(2).normal(size=(2, 437))
    found = noise.solve(weights)
    assert np.abs(found @ matrix.T - weights).max() <= 1e-9 * np.abs(found).max()
    turned = noise.solve_transposed(weights)
    assert np.abs(turned @ matrix - weights).max() <= 1e-9 * np.abs(turned).max()


def test_what_the_iteration_cannot_reach_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lattice_noise, "MOST_DENSE", 0)
    channel = square(24, Fraction(1, 20))
    with pytest.raises(TooLargeError, match="at this epsilon cannot be computed"):
        channel.coefficients(np.eye(576)[3])


def test_reports_of_a_large_map_have_the_mean_that_they_should() -> None:
    """The sum of a reading over 200,000 reports from one cell; four standard errors."""
    channel = square(64, Fraction(1, 2))
    cell = 20 * 64 + 33
    outputs = channel.encode(np.full(200_000, cell), SeededBits(5))
    weights = np.zeros((64, 64))
    weights[18:40, 30:50] = 1.0
    function = channel.functional(weights.ravel())
    values = function(outputs)
    assert abs(values.mean() - 1.0) <= 4 * values.std() / 200_000**0.5
    spread = channel.second_moment(weights.ravel())[cell]
    assert values.var() == pytest.approx(spread - 1.0, rel=0.05)


@pytest.mark.slow
def test_likelihood_answers_of_a_large_map_are_as_good_as_they_say() -> None:
    """Forty boxes on 42 × 42 cells, decoded by transforms: errors are what is stated."""
    side, people = 42, 200_000
    rng = np.random.default_rng(0)
    middles = rng.integers(4, side - 4, (12, 2))
    at = middles[rng.integers(0, 12, people)] + rng.normal(size=(people, 2))
    at = np.clip(at.round(), 0, side - 1).astype(int)
    counts = np.zeros((side, side))
    np.add.at(counts, (at[:, 0], at[:, 1]), 1)
    axes = [sf.integers("row", 0, side - 1), sf.integers("column", 0, side - 1)]
    study = sf.Study("map", [sf.together(axes, protect=sf.Lp(1, 2))])
    assert side**2 > lattice_noise.MOST_DENSE
    tally = study.simulate_counts(counts.astype(np.int64), seed=4)
    rows = np.zeros((40, side, side))
    for row in rows:
        (a, b), (c, d) = np.sort(rng.integers(0, side, (2, 2)), axis=1)
        row[a : b + 1, c : d + 1] = 1
    answers = tally.estimate(method="likelihood", smoothing="none").linear(rows.reshape(40, -1))
    errors = (answers.values - rows.reshape(40, -1) @ counts.ravel()) / answers.stderr
    assert 0.4 < float(np.sqrt(np.mean(errors**2))) < 1.6
