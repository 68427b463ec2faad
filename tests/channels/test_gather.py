"""Sums over a tally by transposed readings: the same numbers as reading every row by itself."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import sfumato as sf
from sfumato.channels.base import Channel
from sfumato.channels.choice import Choice
from sfumato.channels.comb import CombChannel
from sfumato.collect.statistics import BitReports, SymbolCounts
from sfumato.estimation.readings import grid_rows, product_rows
from sfumato.metrics.uniform import UniformMetric

Floats = NDArray[np.float64]

MECHANISMS: tuple[Choice, ...] = (
    sf.Comb(),
    sf.HRR(),
    sf.OLH(),
    sf.HaarHRR(),
    sf.Hierarchical(2, "best"),
    sf.Hierarchical(3, "olh", levels="optimised"),
)
GRIDS = (  # with as many steps around as cells, and with more; whole trees, and others
    ((8,), (True,)),
    ((11,), (True,)),
    ((4, 8), (True, True)),
    ((6, 3), (True, False)),
    ((5, 3), (True, True)),
    ((3, 4, 5), (True, False, True)),
)


def on_grid(choice: Choice, shape: tuple[int, ...], ordered: tuple[bool, ...]) -> Channel:
    return choice.bind_grid(UniformMetric(Fraction(1), math.prod(shape)), shape, ordered)


def name(choice: Choice) -> str:
    return f"{choice.id} {choice.options()}"


@pytest.mark.parametrize(("shape", "ordered"), GRIDS, ids=str)
def test_the_largest_nodes_are_no_linear_reading(
    shape: tuple[int, ...], ordered: tuple[bool, ...], seed: int
) -> None:
    """There is nothing to transpose, and sums are those of every row's own nodes."""
    rng = np.random.default_rng(seed)
    channel = on_grid(sf.Hierarchical(2, consistency=False), shape, ordered)
    assert not channel.linear
    with pytest.raises(TypeError, match="not linear"):
        channel.gather(np.ones(channel.layout.features))
    profile = rng.normal(size=channel.layout.features)
    ranges = np.tri(channel.size)
    np.testing.assert_allclose(
        channel.sums(profile, ranges), profile @ channel.coefficients(ranges).T, rtol=1e-9
    )
    apart = ranges @ channel.coefficients(np.eye(channel.size)) - channel.coefficients(ranges)
    assert np.abs(apart).max() > 1e-3, "else the test says nothing"


# Rows that are one row moved


def moved(channel: CombChannel, row: Floats) -> Floats:
    """A row moved around the grid to every cell."""
    grid = row.reshape(channel.shape)
    axes = tuple(range(grid.ndim))
    steps = np.ndindex(*channel.shape)
    return np.array([np.roll(grid, step, axes).ravel() for step in steps])


@pytest.mark.parametrize("shape", [(2,), (7,), (12,), (4, 8), (6, 3), (2, 2, 4)], ids=str)
def test_moved_rows_come_from_one_transform(
    shape: tuple[int, ...], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    channel = on_grid(sf.Comb(), shape, (True,) * len(shape))
    assert isinstance(channel, CombChannel)
    profile = rng.normal(size=channel.outputs)
    read = CombChannel.coefficients
    seen: list[int] = []

    def counted(self: CombChannel, weights: Floats) -> Floats:
        seen.append(weights.size // self.size)
        return read(self, weights)

    monkeypatch.setattr(CombChannel, "coefficients", counted)
    for row in (np.eye(channel.size)[0], rng.normal(size=channel.size)):
        rows = moved(channel, row)
        each = read(channel, rows)
        sums, moments = channel.products(profile, rows, rows), channel.second_moment(rows)
        assert seen == [1, 1]
        np.testing.assert_allclose(
            sums, each**2 @ profile, rtol=1e-9, atol=1e-9 * np.abs(sums).max()
        )
        np.testing.assert_allclose(moments, each**2 @ channel.likelihood().T, rtol=1e-9)
        seen.clear()


@pytest.mark.parametrize("shape", [(7,), (6, 3), (5, 3)], ids=str)
def test_rows_that_are_not_quite_moved_are_read_by_themselves(
    shape: tuple[int, ...], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    channel = on_grid(sf.Comb(), shape, (True,) * len(shape))
    assert isinstance(channel, CombChannel)
    profile = rng.normal(size=channel.outputs)
    rows = moved(channel, np.eye(channel.size)[0])
    rows[-1, 0] += 0.25
    squares = channel.coefficients(rows) ** 2
    sums = channel.products(profile, rows, rows)
    np.testing.assert_allclose(sums, squares @ profile, rtol=1e-9, atol=1e-9 * np.abs(sums).max())
    moments = channel.second_moment(rows)
    np.testing.assert_allclose(moments, squares @ channel.likelihood().T, rtol=1e-9)


# Answers


def study_of(choice: Choice) -> sf.Study:
    axes = [sf.integers("x", 0, 6), sf.integers("y", 0, 4)]
    return sf.Study("pair", axes, protect=sf.Uniform(1), channel=choice)


@pytest.mark.slow
@pytest.mark.parametrize("choice", MECHANISMS, ids=name)
@pytest.mark.parametrize("population", [False, True])
def test_many_grids_at_once_are_each_by_itself(choice: Choice, population: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    study = study_of(choice)
    people = {"x": rng.integers(0, 7, 500), "y": rng.integers(0, 5, 500)}
    tally = study.simulate(people, seed=seed)
    grids = np.concatenate([np.eye(35), np.tri(35)[::7]])
    channels = study.channels
    together = grid_rows(tally.statistic, channels, grids, population)
    single = [grid_rows(tally.statistic, channels, grid[None], population) for grid in grids]
    for found, each in zip(together, zip(*single, strict=True), strict=True):
        np.testing.assert_allclose(found, np.concatenate(each), rtol=1e-9, atol=1e-7)


@pytest.mark.parametrize("channel", [sf.OUE(), sf.HRR()], ids=name)
def test_a_tally_is_split_no_more_often_than_it_is_read_differently(
    channel: Choice, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    axes = [sf.integers(key, 0, 5, protect=sf.Uniform(1), channel=channel) for key in "xy"]
    study = sf.Study("two", axes)
    rng = np.random.default_rng(seed)
    tally = study.simulate({key: rng.integers(0, 6, 300) for key in "xy"}, seed=seed)
    splits = 0
    kind = BitReports if isinstance(tally.statistic, BitReports) else SymbolCounts
    whole = kind.profile

    def counted(self: Any, asked: Any, vectors: Any) -> Floats:
        nonlocal splits
        splits += 1
        return whole(self, asked, vectors)

    monkeypatch.setattr(kind, "profile", counted)
    rows = {0: np.eye(6)}
    product_rows(tally.statistic, study.channels, [None, None], rows, population=False)
    assert splits == 1
    held = np.array([0.0, 1, 1, 0, 0, 0])
    product_rows(tally.statistic, study.channels, [None, held], rows, population=False)
    assert splits == 1 + 3, "the condition's reading, its square, and the reading of its square"
