"""Distances on the earth: lengths with units, and places as points in space (WGS 84)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sfumato.arrays import Floats
from sfumato.errors import StudyError

_WGS84_RADIUS, _WGS84_FLATTENING = 6_378_137.0, 1 / 298.257223563
_MICROMETRES = 10**6  # coordinates in space are kept to this part of a metre
_LEAST_APART = 0.01  # metres between two places


def in_space(latitude: Floats, longitude: Floats) -> Floats:
    """Earth-centred Cartesian coordinates of places in metres (WGS 84), one row per place.

    The straight line between two of them is never longer than the path over the ground.

    Args:
        latitude: Degrees north.
        longitude: Degrees east.

    Example:
        >>> equator, pole = in_space(np.array([0.0, 90.0]), np.array([0.0, 0.0])).round(1)
        >>> float(equator[0]), float(pole[2])
        (6378137.0, 6356752.3)
    """
    phi, turn = np.radians(latitude), np.radians(longitude)
    squared = _WGS84_FLATTENING * (2 - _WGS84_FLATTENING)
    normal = _WGS84_RADIUS / np.sqrt(1 - squared * np.sin(phi) ** 2)
    flat = normal * np.cos(phi)
    place: Floats = np.stack(
        [flat * np.cos(turn), flat * np.sin(turn), normal * (1 - squared) * np.sin(phi)], axis=1
    )
    return place


def exact_places(latitude: Floats, longitude: Floats) -> list[list[Fraction]]:
    """Coordinates of places as exact numbers of metres, no two farther apart than they are.

    Args:
        latitude: Degrees north.
        longitude: Degrees east.

    Raises:
        StudyError: If two places are less than a centimetre apart.
    """
    from scipy.spatial.distance import pdist

    space = in_space(latitude, longitude)
    apart = float(pdist(space).min())
    if apart < _LEAST_APART:
        raise StudyError(
            f"cells must be at least {100 * _LEAST_APART:g} cm apart to be protected by distance, "
            f"got {1000 * apart:.2g} mm: use fewer rows or columns"
        )
    # Rounding may move two places apart by √3 units; shrinking all coordinates makes up for it.
    drawn = space * (1 - 4 / (_MICROMETRES * apart))
    units = np.rint(drawn * _MICROMETRES).astype(np.int64).tolist()
    return [[Fraction(unit, _MICROMETRES) for unit in place] for place in units]
