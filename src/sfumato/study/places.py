"""Places as two axes under one guarantee: a latitude and a longitude, and noise on the map."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.channels.choice import Choice
from sfumato.domains.reals import Reals
from sfumato.errors import StudyError, shown
from sfumato.exact import rational, to_plain
from sfumato.metrics.base import Metric
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.distance import Distance
from sfumato.metrics.ground import Ground, check_box, plane_steps
from sfumato.metrics.uniform import Uniform
from sfumato.metrics.words import Number, length_words, read_metres
from sfumato.study.axis import Axis, Outside, Together
from sfumato.text import odds

SIDES = ("south", "west", "north", "east")
#: Endings of the names of the two axes of places.
LATITUDE, LONGITUDE = "_lat", "_lon"
_MOST_RADIUS = 6_399_594  # metres: the largest radius of curvature of the ground
MEAN_RADIUS = 6_371_009  # metres; for the size of cells, which does not touch the guarantee


def places(
    name: str,
    bounds: Sequence[Number] | Mapping[str, Number],
    *,
    cell: Number,
    protect: Metric | None = None,
    channel: Choice | None = None,
    outside: Outside | None = None,
) -> Together:
    """Places in a box of the earth, hidden from those near them: two axes under one guarantee.

    A table has two columns, such as ``home_lat`` and ``home_lon``, in degrees. The box is cut into
    rows and columns of degrees whose cells come nearest to the wanted size; `explain` says how
    large they are. E is that of the middles of two cells; places in one cell cannot be told apart.

    Args:
        name: What the places are called: the axes are this name with ``_lat`` and ``_lon``.
        bounds: South, west, north and east of the box, in degrees, or a dict with these names. For
            a box across the 180th meridian count longitudes from 0 to 360, here and in the data.
        cell: The wanted height and width of a cell, such as "1 km" or a number of metres.
        protect: `Distance` with a length on the ground, such as ``Distance(1, per="1 km")``, or
            `Uniform`; None if the study states one `Uniform` guarantee for all axes.
        channel: How places are perturbed; None lets the planner choose.
        outside: What happens to places out of bounds, "refuse" or "clip"; None if the study says.

    Raises:
        StudyError: If the box is empty, reaches a pole or goes around the earth, has too few cells,
            or the guarantee is none for places.

    Example:
        >>> import sfumato as sf
        >>> home = sf.places(
        ...     "home",
        ...     (55.9, -3.3, 56.0, -3.1),
        ...     cell="500 m",
        ...     protect=sf.Distance(epsilon=1, per="1 km"),
        ... )
        >>> [axis.name for axis in home.axes], [axis.size for axis in home.axes]
        (['home_lat', 'home_lon'], [22, 25])
        >>> study = sf.Study("homes", [home])
        >>> reports = study.encode({"home_lat": [55.95, 55.97], "home_lon": [-3.19, -3.2]})
        >>> len(reports)
        2
    """
    if not isinstance(name, str) or not name.strip():
        raise StudyError(f"places need a name that is not blank, got name={shown(name)}")
    try:
        south, west, north, east = read_bounds(bounds)
        check_box(south, west, north, east)
        size = read_metres(cell, "cell")
        rows, columns = (
            _cells(side, length, size)
            for side, length in zip(
                ("high", "wide"), box_metres(south, west, north, east), strict=True
            )
        )
        statement = _ground(protect)
    except StudyError as error:
        raise StudyError(f"places {name!r}: {error}") from None
    axes = tuple(
        Axis(name=name + end, domain=Reals.equal_bins(low, high, count), outside=outside, unit="°")
        for end, low, high, count in (
            (LATITUDE, south, north, rows),
            (LONGITUDE, west, east, columns),
        )
    )
    return Together(axes=axes, protect=statement, channel=channel)


def explain_places(axes: Sequence[Axis], statement: Ground, metric: CellMetric) -> list[str]:
    """The guarantee of places in metres and in words.

    Args:
        axes: Latitude and longitude.
        statement: Their guarantee as stated.
        metric: E between their cells.
    """
    latitudes, longitudes = (axis.domain for axis in axes)
    assert isinstance(latitudes, Reals)  # noqa: S101 - the statement has bound to both
    assert isinstance(longitudes, Reals)  # noqa: S101
    rows, columns = latitudes.size, longitudes.size
    sides = box_metres(latitudes.low, longitudes.low, latitudes.high, longitudes.high)
    high, wide = sides[0] / rows, sides[1] / columns
    lines = [
        statement.describe(),
        f"Places are protected by cell: {rows} × {columns} cells, each {high:,.0f} m high and, in "
        f"the middle of the box, {wide:,.0f} m wide. Two places in one cell cannot be told apart "
        "at all, and the distance of two places is that of the middles of their cells.",
    ]
    near = min(max(1, round(float(statement.per) / high)), rows - 1)
    for gap in sorted({1, near, min(4 * near, rows - 1), rows - 1}):
        e = metric.between(0, gap * columns)
        lines.append(
            f"Two people {_rounded(gap * high)} apart: a report is at most {odds(e)} likelier from "
            "one than from the other."
        )
    across = metric.between(0, rows * columns - 1)
    lines.append(f"From corner to corner of the box: at most {odds(across)} likelier.")
    lines.append(
        "Noise is drawn in a plane, whose distances are never longer than those over the ground, "
        f"and in this box at most {100 * _shortened(latitudes, longitudes):.2g} % shorter."
    )
    if statement.cap is not None:
        lines.append(
            f"For any two people, however far apart, the odds change by at most "
            f"e^{to_plain(statement.cap)}."
        )
    return lines


def _rounded(metres: float) -> str:
    """A length for people."""
    return f"{metres / 1000:.3g} km" if metres >= 1000 else f"{metres:.3g} m"


def _shortened(latitudes: Reals, longitudes: Reals) -> float:
    """By what share distances in the plane may be shorter than over the ground."""
    rows, columns = (float(step) for step in plane_steps(latitudes, longitudes))
    tall, wide = (
        math.radians(float(side.high - side.low)) / side.bins for side in (latitudes, longitudes)
    )
    low = min(abs(float(latitudes.low)), abs(float(latitudes.high)))
    flattest = 0.0 if latitudes.low < 0 < latitudes.high else math.radians(low)
    ground = tall * _MOST_RADIUS, wide * _MOST_RADIUS * math.cos(flattest)
    return 1 - min(rows / ground[0], columns / ground[1])


def read_bounds(bounds: Any) -> tuple[Fraction, Fraction, Fraction, Fraction]:
    """South, west, north and east of a box, exactly."""
    if isinstance(bounds, Mapping) and set(bounds) == set(SIDES):
        bounds = [bounds[side] for side in SIDES]
    if not isinstance(bounds, list | tuple | np.ndarray) or len(bounds) != len(SIDES):
        raise StudyError(
            "bounds must be south, west, north and east in degrees, such as "
            f"(55.9, -3.3, 56.0, -3.1), got {shown(bounds)}"
        )
    read = [rational(value, side) for side, value in zip(SIDES, bounds, strict=True)]
    return read[0], read[1], read[2], read[3]


def box_metres(
    south: Fraction, west: Fraction, north: Fraction, east: Fraction
) -> tuple[float, float]:
    """Height of a box, and its width in the middle, in metres.

    Args:
        south: Latitude of the lower edge, in degrees.
        west: Longitude of the left edge.
        north: Latitude of the upper edge.
        east: Longitude of the right edge.
    """
    degree = math.radians(1) * MEAN_RADIUS
    middle = math.cos(math.radians(float(south + north) / 2))
    return float(north - south) * degree, float(east - west) * degree * middle


def _cells(side: str, length: float, size: Fraction) -> int:
    """How many cells come nearest to the wanted size."""
    count = round(length / float(size))
    if count < 2:
        raise StudyError(
            f"a box must be two cells {side} or more, got cell={length_words(size)} for a box that "
            f"is {length:,.0f} m {side}: use smaller cells or a larger box"
        )
    return count


def _ground(protect: Metric | None) -> Metric | None:
    """The guarantee of places: a distance is one over the ground."""
    if protect is None or isinstance(protect, Ground | Uniform):
        return protect
    if not isinstance(protect, Distance):
        raise StudyError(
            "places take protect=Distance(epsilon=..., per='1 km') or Uniform(epsilon=...), got "
            f"{type(protect).__name__}"
        )
    if protect.no_answer is not None:
        raise StudyError(
            "places have no cell for 'no answer', got "
            f"no_answer={shown(protect.no_answer)}: leave it out, ask on an axis of its own "
            "whether there is a place, and let people without one report any place, such as the "
            "middle of the box"
        )
    if not isinstance(protect.per, str):
        raise StudyError(
            "the distance of places needs a length on the ground, such as per='1 km', got "
            f"per={to_plain(protect.per)}"
        )
    return Ground(protect.epsilon, protect.per, cap=protect.cap)
