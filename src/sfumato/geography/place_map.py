"""The map of a study's places: questions by box, circle and polygon, heat maps and GeoJSON."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sfumato.arrays import DENSE_CELLS, Floats
from sfumato.domains.reals import Reals
from sfumato.errors import QuestionError, StudyError, near, shown
from sfumato.estimation.answers import Answer, Answers
from sfumato.estimation.estimate import Estimate
from sfumato.geography.shapes import corners_of, inside, refuse_crossing
from sfumato.metrics.ground import Ground
from sfumato.metrics.words import Number, read_metres
from sfumato.study.places import LATITUDE, LONGITUDE, MEAN_RADIUS, read_bounds
from sfumato.study.study import Study

#: What GeoJSON says once about all cells.
ABOUT = ("axes", "unit", "question", "level", "method", "n", "notes")
_MOST_ENTRIES = 1 << 24  # of the cells of a whole study, of which a shape weighs every one
_MOST_GROUPS = 256  # on maps of more cells than have a matrix
_DECIMALS = 9  # of degrees: a tenth of a millimetre


@dataclass(frozen=True, eq=False)
class PlaceMap:
    """The places of a study as a map.

    A shape counts the cells whose middle lies in it. So people near its edge may be counted wrongly
    by up to half a cell, beside the error that an answer states.

    Args:
        study: A study with `places`.
        name: What the places are called in it.

    Raises:
        StudyError: If the study has no places of this name.

    Example:
        >>> import sfumato as sf
        >>> home = sf.places(
        ...     "home", (55.9, -3.3, 56.0, -3.1), cell="1 km", protect=sf.Distance(2, per="1 km")
        ... )
        >>> study = sf.Study("homes", [home])
        >>> people = {"home_lat": [55.95] * 9000, "home_lon": [-3.19] * 9000}
        >>> estimate = study.simulate(people, seed=1).estimate("unbiased")
        >>> town = PlaceMap(study, "home")
        >>> town.circle(estimate, (55.95, -3.19), "3 km").values.round(-1).tolist()
        [9010.0]
    """

    study: Study
    name: str
    _places: tuple[int, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Find the two axes."""
        names = [axis.name for axis in self.study.axes]
        pair = (f"{self.name}{LATITUDE}", f"{self.name}{LONGITUDE}")
        if not all(name in names for name in pair):
            known = [n.removesuffix(LATITUDE) for n in names if n.endswith(LATITUDE)]
            raise StudyError(
                f"study {self.study.name!r} has no places called {shown(self.name)}: "
                f"{near(str(self.name), known) if known else 'make them with sf.places(...)'}"
            )
        object.__setattr__(self, "_places", (names.index(pair[0]), names.index(pair[1])))
        if not all(isinstance(side, Reals) for side in self._sides()):
            raise StudyError(f"axes {pair[0]!r} and {pair[1]!r} are not those of places")

    def _sides(self) -> tuple[Any, Any]:
        """Latitudes and longitudes."""
        first, second = (self.study.axes[place].domain for place in self._places)
        return first, second

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        rows, columns = self._sides()
        return rows.size, columns.size

    def middles(self) -> tuple[Floats, Floats]:
        """Latitude and longitude of the middle of every cell, of the shape of the map."""
        up, across = (side.numbers() for side in self._sides())
        latitudes, longitudes = np.meshgrid(up, across, indexing="ij")
        return latitudes, longitudes

    # Shapes, as weights of cells

    def in_box(self, bounds: Any) -> Floats:
        """Weight 1 on every cell whose middle is in a box of south, west, north and east."""
        try:
            south, west, north, east = (float(side) for side in read_bounds(bounds))
        except StudyError as error:
            raise QuestionError(str(error)) from None
        if not (south <= north and west <= east):
            raise QuestionError(
                "a box runs from south to north and from west to east: swap its ends"
            )
        return self._polygon([(south, west), (south, east), (north, east), (north, west)], "box")

    def in_polygon(self, polygon: Any) -> Floats:
        """Weight 1 on every cell whose middle is in a polygon of (latitude, longitude) corners."""
        return self._polygon(polygon, "polygon")

    def _polygon(self, polygon: Any, what: str) -> Floats:
        """The cells of a polygon, which must not cross itself or leave the map."""
        try:
            corners = corners_of(polygon)
            if len(corners) > 3 and (corners[0] == corners[-1]).all():
                corners = corners[:-1]  # closed, as GeoJSON writes it
            refuse_crossing(corners)
        except StudyError as error:
            raise QuestionError(str(error)) from None
        self._refuse_beyond(corners, what)
        return self._weights(inside(corners, *self.middles()), what)

    def in_circle(self, centre: Any, radius: Number) -> Floats:
        """Weight 1 on every cell whose middle is within a radius of a place.

        Args:
            centre: Latitude and longitude.
            radius: Such as "2 km", or a number of metres.
        """
        try:
            reach = float(read_metres(radius, "radius"))
            ground = Ground(1, 1)
            ground.between(centre, centre)
        except StudyError as error:
            raise QuestionError(str(error)) from None
        self._refuse_beyond(np.array([centre], dtype=np.float64), "centre of a circle")
        latitudes, longitudes = self.middles()
        up, right = (math.radians(float(part)) for part in centre)
        phi, turn = np.radians(latitudes), np.radians(longitudes)
        h = np.sin((phi - up) / 2) ** 2
        h += math.cos(up) * np.cos(phi) * np.sin((turn - right) / 2) ** 2
        away = 2 * MEAN_RADIUS * np.arcsin(np.sqrt(np.minimum(h, 1.0)))
        return self._weights(away <= reach, "circle")

    def _refuse_beyond(self, corners: Floats, what: str) -> None:
        """Refuse what leaves the map."""
        up, across = self._sides()
        low = [float(up.low), float(across.low)]
        high = [float(up.high), float(across.high)]
        beyond = np.flatnonzero(((corners < low) | (corners > high)).any(axis=1))
        if len(beyond):
            raise QuestionError(
                f"a {what} must lie on the map, from ({low[0]:g}, {low[1]:g}) to ({high[0]:g}, "
                f"{high[1]:g}), got {tuple(corners[beyond[0]].tolist())}: cut it off at the edge"
            )

    def _weights(self, within: Any, what: str) -> Floats:
        """Weights of the cells, refused if there are none."""
        if not within.any():
            raise QuestionError(
                f"a {what} must hold the middle of a cell or more, got none: make it larger, or "
                "the cells smaller"
            )
        result: Floats = within.astype(np.float64)
        return result

    # Answers

    def count(self, estimate: Estimate, weights: Floats, *, level: float = 0.95) -> Answers:
        """How many people live in a shape, from weights such as `in_circle` gives.

        Args:
            estimate: The estimate of a tally of this study.
            weights: One weight per cell, of the shape of the map.
            level: Confidence level of the interval.
        """
        if estimate.study != self.study:
            raise QuestionError("the estimate must be one of this map's study, got another's")
        if np.shape(weights) != self.shape:
            raise QuestionError(
                f"weights must have one entry for each of {self.shape[0]} × {self.shape[1]} cells, "
                f"got shape {np.shape(weights)}"
            )
        shape = self.study.shape
        if math.prod(shape) > _MOST_ENTRIES:
            raise QuestionError(
                f"a shape on a study of {math.prod(shape):,} cells would need a weight for each; "
                "the limit is 16,777,216. Ask for boxes by the two axes, or keep places in a study "
                "of their own"
            )
        first, _ = self._places  # neighbours, since they share a guarantee
        before, after = math.prod(shape[:first]), math.prod(shape[first + 2 :])
        row = np.multiply.outer(np.ones(before), np.multiply.outer(weights, np.ones(after)))
        return estimate.linear(row.reshape(1, -1), level=level)

    def box(self, estimate: Estimate, bounds: Any, *, level: float = 0.95) -> Answers:
        """How many people live in a box of south, west, north and east.

        Args:
            estimate: The estimate of a tally of this study.
            bounds: The sides in degrees.
            level: Confidence level of the interval.
        """
        return self.count(estimate, self.in_box(bounds), level=level)

    def circle(
        self, estimate: Estimate, centre: Any, radius: Number, *, level: float = 0.95
    ) -> Answers:
        """How many people live within a radius of a place.

        Args:
            estimate: The estimate of a tally of this study.
            centre: Latitude and longitude.
            radius: Such as "2 km", or a number of metres.
            level: Confidence level of the interval.
        """
        return self.count(estimate, self.in_circle(centre, radius), level=level)

    def polygon(self, estimate: Estimate, polygon: Any, *, level: float = 0.95) -> Answers:
        """How many people live in a polygon of (latitude, longitude) corners.

        Args:
            estimate: The estimate of a tally of this study.
            polygon: The corners, in their order along the edge.
            level: Confidence level of the interval.
        """
        return self.count(estimate, self.in_polygon(polygon), level=level)

    def heatmap(self, estimate: Estimate, **options: Any) -> Answers:
        """How many people live in every cell: longitude across, latitude up.

        Args:
            estimate: The estimate of a tally of this study.
            **options: As `Estimate.heatmap` takes them, such as where, bins and fraction.
        """
        pair = (f"{self.name}{LONGITUDE}", f"{self.name}{LATITUDE}")
        cells, bins = math.prod(self.shape), options.get("bins")
        groups = [bins] * 2 if isinstance(bins, int) else list(bins or (None, None))
        asked = math.prod(g or n for g, n in zip(groups, self.shape[::-1], strict=False))
        if cells > DENSE_CELLS and asked > _MOST_GROUPS:
            raise QuestionError(
                f"the errors of {asked:,} groups of a map of {cells:,} cells are found one by one, "
                f"and would take hours; the limit is {_MOST_GROUPS} groups, such as bins=16"
            )
        return estimate.heatmap(*pair, **options)

    @classmethod
    def of(cls, study: Study, answers: Answer | Answers) -> PlaceMap:
        """The map that a heat map is of.

        Args:
            study: The study.
            answers: The heat map.

        Raises:
            QuestionError: If the answers are no heat map of places.
        """
        named = (axis.removesuffix(LATITUDE).removesuffix(LONGITUDE) for axis in _axes_of(answers))
        name = next(named, None)
        if name is None or set(_axes_of(answers)) != {f"{name}{LATITUDE}", f"{name}{LONGITUDE}"}:
            raise QuestionError(
                "GeoJSON needs the heat map of places, such as of 'home_lat' and 'home_lon', got "
                f"{answers!r}"
            )
        return cls(study, name)

    def to_geojson(self, answers: Answer | Answers) -> dict[str, Any]:
        """The cells of a heat map as GeoJSON polygons, each with its answer and error.

        What holds for all cells (level, method, number of reports, ...) is in "about".

        Args:
            answers: The heat map, with either axis down its side.

        Raises:
            QuestionError: If the answers are no heat map of these places.
        """
        pair = (f"{self.name}{LONGITUDE}", f"{self.name}{LATITUDE}")
        axes = _axes_of(answers)
        edges = answers.all_edges if isinstance(answers, Answers) else ()
        if (
            not isinstance(answers, Answers)
            or axes not in (pair, pair[::-1])
            or any(e is None for e in edges)
        ):
            raise QuestionError(
                f"GeoJSON needs the heat map of {self.name!r}, got {answers!r}: make it with "
                "heatmap(estimate)"
            )
        turned = axes != pair
        across, up = (
            [round(float(e), _DECIMALS) for e in np.asarray(side)]
            for side in (edges[::-1] if turned else edges)
        )
        tables = {
            "value": answers.values,
            "stderr": answers.stderr,
            "low": answers.low,
            "high": answers.high,
        }
        numbers = {name: table.T if turned else table for name, table in tables.items()}
        features = []
        for column, row in np.ndindex(*numbers["value"].shape):
            (west, east), (south, north) = across[column : column + 2], up[row : row + 2]
            ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
            held = {
                name: float(table[column, row]) if np.isfinite(table[column, row]) else None
                for name, table in numbers.items()
            }
            features.append(
                {
                    "type": "Feature",
                    "id": f"r{row + 1}c{column + 1}",
                    "geometry": {"type": "Polygon", "coordinates": [ring]},
                    "properties": held,
                }
            )
        said = answers.to_dict()
        about = {name: said[name] for name in ABOUT}
        return {"type": "FeatureCollection", "features": features, "about": about}


def _axes_of(answers: Answer | Answers) -> tuple[str, ...]:
    """The axes of a heat map; none of another answer."""
    if isinstance(answers, Answers) and answers.kind == "heatmap":
        return tuple(answers.axes)
    return ()
