"""Distance over the ground between places, through distances in a plane that are never longer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from sfumato.domains.base import Domain
from sfumato.domains.reals import Reals
from sfumato.errors import StudyError, shown
from sfumato.exact import positive, rational, to_plain
from sfumato.metrics.base import Metric, set_fields
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.norm_grids import NormGridMetric
from sfumato.metrics.norms import GRID
from sfumato.metrics.words import Number, length_words, read_metres

#: Metres: the least radius of curvature that the ground has anywhere (WGS 84, along the meridian at
#: the equator), rounded down. On a sphere this small distances are shorter than over the ground.
LEAST_RADIUS = 6_335_439
_PI = (
    Fraction(31415926535897932384626433832795, 10**31),
    Fraction(31415926535897932384626433832796, 10**31),
)
_TERMS = 12  # of Taylor's series; odd ones are negative, so the sum is a lower bound


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Ground(Metric):
    """E = ε · distance over the ground / per, for places by latitude and longitude.

    Guarantee:
        E is stated for the ground of WGS 84. What is kept is E' <= E, of distances in a plane. With
        R the least radius of curvature of the ground, Δφ and Δλ the differences of two latitudes
        and longitudes in a box, h = sin²(Δφ/2) + cos φ·cos φ'·sin²(Δλ/2), and m the latitude of the
        box nearest to a pole:

        - A path over the ground is at least as long as its image on a sphere of radius R, since
          both radii of curvature are at least R. That is at least 2R·asin √h >= 2R·√h.
        - sin t >= t·(sin T)/T for 0 <= t <= T <= π/2, with T half of the box' height or width; so
          boxes wider than 180° are refused. Wrapping around is covered: h is that of the shorter
          way as well. And cos φ·cos φ' >= cos² m.
        - So the distance is at least √((a·Δφ)² + (b·Δλ)²) with a = R·(sin T)/T of the height, and
          b = R·cos m·(sin T)/T of the width. All factors are rounded down.

    Args:
        epsilon: E for two places that are `per` apart.
        per: Unit of distance, such as "1 km", or a number of metres.
        cap: The most E may be for any pair of places.

    Example:
        >>> near = Ground(epsilon=1, per="1 km")
        >>> round(near.between((55.95, -3.19), (55.95, -3.17)), 2)
        1.24
    """

    kind: ClassVar[str] = "ground"
    epsilon: Fraction
    per: Fraction
    cap: Fraction | None

    def __init__(self, epsilon: Number, per: Number = "1 km", *, cap: Number | None = None) -> None:
        """Read the numbers exactly."""
        set_fields(
            self,
            epsilon=positive(epsilon, "epsilon"),
            per=read_metres(per, "per"),
            cap=None if cap is None else positive(cap, "cap"),
        )

    def between(self, x: Any, y: Any) -> float:
        """E between two places, by the shortest way over a sphere of the least radius.

        Args:
            x: Latitude and longitude of one place.
            y: Those of the other.
        """
        (up, right), (above, beyond) = (_radians(place) for place in (x, y))
        h = math.sin((above - up) / 2) ** 2
        h += math.cos(up) * math.cos(above) * math.sin((beyond - right) / 2) ** 2
        e = float(self.epsilon / self.per) * 2 * LEAST_RADIUS * math.asin(min(1.0, math.sqrt(h)))
        return e if self.cap is None else min(e, float(self.cap))

    def bind(self, domain: Domain, *, optional: bool) -> CellMetric:
        """Refused: a place has two coordinates.

        Args:
            domain: What the values of the axis may be.
            optional: Whether "no answer" is one more cell, the last.
        """
        raise StudyError(
            "distance over the ground speaks about places, which have a latitude and a longitude: "
            "make both axes with sf.places(...)"
        )

    def bind_together(self, domains: Sequence[Domain]) -> NormGridMetric:
        """E' between the cells of a box of latitudes and longitudes, by their middles."""
        sides = [d for d in domains if isinstance(d, Reals) and d.spacing is not None]
        if len(domains) != 2 or len(sides) != 2:
            raise StudyError(
                "distance over the ground needs two axes, equal bins of latitude and of longitude: "
                "make them with sf.places(...)"
            )
        latitudes, longitudes = sides
        rate = self.epsilon / self.per
        plane = plane_steps(latitudes, longitudes)
        steps = tuple(Fraction(math.floor(rate * step * GRID), GRID) for step in plane)
        if min(steps) <= 0:
            raise StudyError(
                f"E between neighbouring cells is below 2^-40: raise epsilon, or make cells larger "
                f"than per={length_words(self.per)} allows"
            )
        shape = (latitudes.size, longitudes.size)
        return NormGridMetric(shape=shape, steps=steps, cap=self.cap)

    def describe(self) -> str:
        """The statement in plain words."""
        most = "" if self.cap is None else f", at most {to_plain(self.cap)}"
        e = to_plain(self.epsilon)
        return f"E = {e} · distance over the ground / {length_words(self.per)}{most}"

    def to_dict(self) -> dict[str, Any]:
        """The statement as a file holds it, exactly."""
        data = {"kind": self.kind, "epsilon": to_plain(self.epsilon), "per": to_plain(self.per)}
        return data if self.cap is None else {**data, "cap": to_plain(self.cap)}


def plane_steps(latitudes: Reals, longitudes: Reals) -> tuple[Fraction, Fraction]:
    """Metres between neighbouring rows and columns of cells, no longer than over the ground.

    Args:
        latitudes: Rows of cells.
        longitudes: Columns of cells.

    Raises:
        StudyError: If the box reaches a pole, or is wider than half of the earth.
    """
    check_box(latitudes.low, longitudes.low, latitudes.high, longitudes.high)
    farthest = max(abs(latitudes.low), abs(latitudes.high))
    tall, wide = (
        _sine_over_angle((side.high - side.low) / 2) * (side.spacing or 0)
        for side in (latitudes, longitudes)
    )
    metres = LEAST_RADIUS * _PI[0] / 180
    return metres * tall, metres * wide * _cosine(farthest)


def check_box(south: Fraction, west: Fraction, north: Fraction, east: Fraction) -> None:
    """Refuse a box that is empty, reaches a pole, or goes around the earth.

    Args:
        south: Latitude of the lower edge, in degrees.
        west: Longitude of the left edge.
        north: Latitude of the upper edge.
        east: Longitude of the right edge.
    """
    given = f"south={to_plain(south)}, north={to_plain(north)}"
    if not south < north:
        raise StudyError(f"south must be below north, got {given}: is latitude given first?")
    if not -90 < south < north < 90:
        raise StudyError(
            f"a box of places must end short of the poles, between -90 and 90 degrees, got {given}:"
            " at a pole all longitudes meet, and no plane keeps distances"
        )
    given = f"west={to_plain(west)}, east={to_plain(east)}"
    if not -180 <= west < east <= 360:
        raise StudyError(
            f"west must be below east, both from -180 to 360 degrees, got {given}: for a box "
            "across the 180th meridian count longitudes from 0 to 360, here and in the data"
        )
    if east - west > 180:
        raise StudyError(
            f"a box of places may be at most 180 degrees wide, got {given}: around the world the "
            "shorter way between two places leaves the box; use several boxes"
        )


def _cosine(degrees: Fraction) -> Fraction:
    """The cosine of an angle from 0 to 90 degrees, rounded down."""
    square = (degrees * _PI[1] / 180) ** 2
    return _series(square, 0)


def _sine_over_angle(degrees: Fraction) -> Fraction:
    """(sin T)/T of an angle up to 90 degrees, rounded down."""
    square = (degrees * _PI[1] / 180) ** 2
    return _series(square, 1)


def _series(square: Fraction, first: int) -> Fraction:
    """Σ (−t²)^k/(2k + first)!, whose sum after a negative term is a lower bound."""
    found = term = Fraction(1)
    for k in range(1, 2 * _TERMS):
        term = -term * square / ((2 * k - 1 + first) * (2 * k + first))
        found += term
    return Fraction(math.floor(found * GRID * GRID), GRID * GRID)


def _radians(place: Any) -> tuple[float, float]:
    """Latitude and longitude of a place in radians."""
    if not isinstance(place, list | tuple | np.ndarray) or len(place) != 2:
        raise StudyError(
            f"a place must be a pair (latitude, longitude) in degrees, got {shown(place)}"
        )
    up, right = (float(rational(value, "a coordinate")) for value in place)
    return math.radians(up), math.radians(right)
