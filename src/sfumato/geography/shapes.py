"""Shapes on a map: polygons of latitudes and longitudes, and which points lie inside."""

from __future__ import annotations

from textwrap import shorten
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.errors import StudyError


def corners_of(polygon: Any) -> Floats:
    """Corners of a polygon, one row (latitude, longitude) each."""
    try:
        corners = np.asarray(polygon, dtype=np.float64)
    except (TypeError, ValueError):
        corners = np.full((1, 1), np.nan)
    if corners.ndim != 2 or corners.shape[1] != 2 or len(corners) < 3:
        raise StudyError(
            "polygon must be three corners or more, each (latitude, longitude) in degrees, such as "
            f"[(55.9, -3.3), (56.0, -3.3), (56.0, -3.1)], got {shorten(repr(polygon), 80)}"
        )
    bad = np.flatnonzero(~np.isfinite(corners).all(axis=1))
    if len(bad):
        raise StudyError(
            f"corners of a polygon must be finite numbers, got {polygon[bad[0]]!r} as corner "
            f"{bad[0] + 1}: correct it or leave it out"
        )
    return corners


def inside(corners: Floats, y: Floats, x: Floats) -> NDArray[np.bool_]:
    """Which points lie inside a polygon: those whose way to the east crosses its edge oddly often.

    Args:
        corners: Latitude and longitude of every corner.
        y: Latitudes of the points.
        x: Longitudes of the points.

    Example:
        >>> triangle = np.array([(0.0, 0.0), (3.0, 0.0), (3.0, 3.0)])
        >>> inside(triangle, np.array([2.5, 0.5]), np.array([0.5, 2.5])).tolist()
        [True, False]
    """
    within = np.zeros(np.shape(y), dtype=np.bool_)
    for (y0, x0), (y1, x1) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        crossed = (y0 > y) != (y1 > y)
        if crossed.any():  # then the side is not level
            within ^= crossed & (x < x0 + (y - y0) * ((x1 - x0) / (y1 - y0)))
    return within


def refuse_crossing(corners: Floats) -> None:
    """Refuse a polygon that crosses or touches itself: its inside would be a matter of taste."""
    count = len(corners)
    if len(np.unique(corners, axis=0)) < count:
        raise StudyError(
            "a polygon must not touch itself, and two of its corners are the same: name each "
            "corner once, in their order along the edge"
        )
    ahead = np.roll(corners, -1, axis=0)
    for first in range(count):
        for second in range(first + 1, count):
            if second in (first + 1, (first - 1) % count):
                continue
            if _cross(corners[first], ahead[first], corners[second], ahead[second]):
                raise StudyError(
                    f"a polygon must not cross itself, and its sides from corner {first + 1} and "
                    f"from corner {second + 1} do: name its corners in their order along the edge"
                )


def _cross(a: Floats, b: Floats, c: Floats, d: Floats) -> bool:
    """Whether two sides have a point in common."""

    def turn(p: Floats, q: Floats, r: Floats) -> float:
        return float(np.sign((q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0])))

    def between(p: Floats, q: Floats, r: Floats) -> bool:
        return bool((np.minimum(p, q) <= r).all() and (r <= np.maximum(p, q)).all())

    turns = turn(a, b, c), turn(a, b, d), turn(c, d, a), turn(c, d, b)
    if turns[0] * turns[1] < 0 and turns[2] * turns[3] < 0:
        return True
    ends = ((a, b, c), (a, b, d), (c, d, a), (c, d, b))
    return any(t == 0 and between(*end) for t, end in zip(turns, ends, strict=True))
