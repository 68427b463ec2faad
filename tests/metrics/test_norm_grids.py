"""Norms on grids, and distances over the ground through a plane."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import sfumato as sf
from sfumato.domains.reals import Reals
from sfumato.errors import StudyError
from sfumato.metrics.distance import CappedLineMetric, LineMetric
from sfumato.metrics.grids import grid_within, sum_within_norm
from sfumato.metrics.ground import LEAST_RADIUS, Ground, plane_steps
from sfumato.metrics.norm_grids import NormGridMetric
from sfumato.metrics.registry import metric_from_dict
from sfumato.metrics.stricter import is_within, uniform_within

ONE, HALF = Fraction(1), Fraction(1, 2)


@pytest.mark.parametrize("order", [Fraction(1), Fraction(2), math.inf])
@pytest.mark.parametrize("cap", [None, Fraction(3, 2)])
def test_a_norm_is_that_of_the_steps_and_never_above_it(
    order: Fraction | float, cap: Fraction | None
) -> None:
    metric = NormGridMetric(shape=(3, 4), steps=(ONE, HALF), order=order, cap=cap)
    numerators, denominator = metric.integers()
    for i, j in product(range(12), repeat=2):
        apart = [abs(i // 4 - j // 4), abs(i % 4 - j % 4) / 2]
        exact = float(np.linalg.norm(apart, ord=float(order)))
        if cap is not None:
            exact = min(exact, float(cap))
        e = metric.exact(i, j)
        assert e == Fraction(int(numerators[i, j]), denominator)
        assert exact - 2.0**-39 <= float(e) <= exact + 1e-15
    assert metric.largest() == metric.exact(0, 11)
    assert uniform_within(metric).epsilon == HALF


def test_a_norm_has_margins() -> None:
    metric = NormGridMetric(shape=(3, 4, 5), steps=(ONE, HALF, HALF), cap=Fraction(1))
    assert metric.margin([1]) == CappedLineMetric(LineMetric.equal(HALF, 4), Fraction(1))
    two = metric.margin([0, 2])
    assert isinstance(two, NormGridMetric)
    assert (two.shape, two.cap) == ((3, 5), ONE)


def test_what_is_no_norm_of_ordered_axes_is_refused() -> None:
    with pytest.raises(StudyError, match="two cells or more"):
        NormGridMetric(shape=(1, 4), steps=(ONE, ONE))
    with pytest.raises(StudyError, match="step of an axis must be positive"):
        NormGridMetric(shape=(2, 4), steps=(ONE, -ONE))
    with pytest.raises(StudyError, match="order of the norm"):
        NormGridMetric(shape=(2, 4), steps=(ONE, ONE), order=Fraction(3))
    x, y = sf.integers("x", 0, 3), sf.integers("y", 0, 3)
    with pytest.raises(StudyError, match="p = 1, 2 or inf, got p=3"):
        sf.Study("s", [sf.together([x, y], protect=sf.Lp(1, 3))])
    with pytest.raises(StudyError, match="need protect=Uniform"):
        sf.Study("s", [sf.together([x, y], protect=sf.Distance(1))])
    with pytest.raises(StudyError, match="ordered axes with equally spaced"):
        sf.Study("s", [sf.together([x, sf.categories("c", ["a", "b"])], protect=sf.Lp(1, 2))])
    optional = sf.integers("y", 0, 3, optional=True)
    with pytest.raises(StudyError, match="'y' is optional"):
        sf.Study("s", [sf.together([x, optional], protect=sf.Lp(1, 2))])
    with pytest.raises(StudyError, match="a cap holds for whole records"):
        sf.Study("s", [x, y], protect=sf.Lp(1, 2, cap=3))


@pytest.mark.parametrize("order", [Fraction(1), Fraction(2), math.inf])
def test_the_sum_of_two_lines_stays_within_the_norm(order: Fraction | float) -> None:
    """By all pairs on a small grid, and by the dual norm on any."""
    for steps in ((ONE, HALF), (Fraction(1, 7), Fraction(2)), (HALF, HALF)):
        metric = NormGridMetric(shape=(4, 5), steps=steps, order=order)
        lines = grid_within(metric, (4, 5))
        assert lines is not None
        pairs = product(range(20), repeat=2)
        assert all(lines.exact(i, j) <= metric.exact(i, j) for i, j in pairs)
        assert sum_within_norm(lines, metric)
        assert is_within(lines, metric)
        more = NormGridMetric(
            shape=(4, 5), steps=tuple(s * Fraction(99, 100) for s in steps), order=order
        )
        assert not sum_within_norm(lines, more)


def over_sphere(up: np.ndarray, right: np.ndarray, above: np.ndarray, beyond: np.ndarray) -> float:
    """Great-circle distances on the sphere of the least radius, in metres."""
    h = np.sin((above - up) / 2) ** 2
    h += np.cos(up) * np.cos(above) * np.sin((beyond - right) / 2) ** 2
    return 2 * LEAST_RADIUS * np.arcsin(np.minimum(1.0, np.sqrt(h)))


@pytest.mark.parametrize(
    "box",
    [
        (55.9, -3.3, 56.0, -3.1),
        (-10, 20, 15, 60),
        (60, -180, 89, 0),
        (-89, 10, 89, 190),
        (-1, 0, 1, 180),
    ],
)
def test_the_plane_is_never_longer_than_the_ground(box: tuple[float, ...]) -> None:
    """Random and extreme pairs of cells: a town, a country, by a pole, half of the earth."""
    south, west, north, east = box
    up, across = Reals.equal_bins(south, north, 50), Reals.equal_bins(west, east, 60)
    tall, wide = (float(step) for step in plane_steps(up, across))
    rng = np.random.default_rng(3)
    rows, columns = rng.integers(0, 50, (2, 20_000)), rng.integers(0, 60, (2, 20_000))
    corners = np.array(list(product((0, 49), (0, 49), (0, 59), (0, 59)))).T
    rows, columns = np.hstack([rows, corners[:2]]), np.hstack([columns, corners[2:]])
    plane = np.hypot(tall * (rows[0] - rows[1]), wide * (columns[0] - columns[1]))
    phi, turn = np.radians(up.numbers())[rows], np.radians(across.numbers())[columns]
    ground = over_sphere(phi[0], turn[0], phi[1], turn[1])
    assert (plane <= ground * (1 + 1e-12) + 1e-6).all()
    if north - south < 1:  # a twin that must be found out
        assert (1.01 * plane > ground * (1 + 1e-12) + 1e-6).any()


def test_in_a_town_the_plane_loses_next_to_nothing() -> None:
    town = Ground(1, "1 km")
    up, across = Reals.equal_bins(55.9, 56.0, 22), Reals.equal_bins(-3.3, -3.1, 25)
    metric = town.bind_together([up, across])
    middles = [(float(up.numbers()[r]), float(across.numbers()[c])) for r, c in ((0, 0), (21, 24))]
    assert 0.995 < metric.between(0, 549) / town.between(*middles) <= 1


def test_ground_is_read_said_and_kept() -> None:
    near = Ground(2, "2 miles", cap=5)
    assert near.describe() == "E = 2 · distance over the ground / 3.218688 km, at most 5"
    assert metric_from_dict(near.to_dict()) == near
    assert near.between((0, 0), (0, 90)) == 5
    with pytest.raises(StudyError, match="a place must be a pair"):
        near.between((0, 0, 1), (0, 90))
    with pytest.raises(StudyError, match=r"sf\.places"):
        near.bind(Reals.equal_bins(0, 1, 2), optional=False)
    with pytest.raises(StudyError, match="equal bins of latitude"):
        near.bind_together([Reals.equal_bins(0, 1, 2), Reals.from_edges([0, 1, 3, 9])])
    tiny = Ground(Fraction(1, 10**15), "1 km")
    with pytest.raises(StudyError, match="below 2"):
        tiny.bind_together([Reals.equal_bins(0, 1, 9), Reals.equal_bins(0, 1, 9)])
