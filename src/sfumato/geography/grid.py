"""A grid of latitude and longitude: the cells of places, metrics on them, and maps of answers.

A study sees the cells of a `Grid` as labels such as "r12c7". The grid turns coordinates into these
labels, makes metrics for them (blocks, regions, distances), and lays answers out on the map again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from sfumato.arrays import Floats
from sfumato.channels.choice import Choice
from sfumato.domains.base import NO_ANSWER
from sfumato.domains.reals import Reals
from sfumato.domains.tables import columns as columns_of
from sfumato.errors import DataError, QuestionError, StudyError
from sfumato.estimation.answers import Answers
from sfumato.exact import rational, to_plain
from sfumato.geography.earth import exact_places
from sfumato.geography.place_map import ABOUT
from sfumato.geography.shapes import corners_of, inside
from sfumato.metrics.base import Metric
from sfumato.metrics.cells import refuse_large_table
from sfumato.metrics.labelled import Blocks
from sfumato.metrics.points import Points
from sfumato.metrics.words import Number, read_metres, some
from sfumato.study.axis import Axis, categories

_SIDES = ("south", "west", "north", "east")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Grid:
    """A box of the earth cut into equal rows and columns of degrees.

    Cells are called "r1c1", "r1c2" and so on: rows are counted from the south, columns from the
    west, both from 1. A place on a border belongs to the cell north or east of it. A study and its
    file hold these names and not the box, so publish the grid beside them.

    Args:
        south: Latitude of the lower edge, from -90 to 90 degrees.
        west: Longitude of the left edge. For a box across the 180th meridian count longitudes
            from 0 to 360, here and in the data.
        north: Latitude of the upper edge.
        east: Longitude of the right edge, at most 360 degrees from the left one.
        rows: Number of rows that latitudes are cut into, at least 2.
        columns: Number of columns that longitudes are cut into, at least 2.

    Raises:
        StudyError: If the box is empty or beyond the earth, or has too few rows or columns.

    Example:
        >>> import sfumato as sf
        >>> town = Grid(south=55.9, west=-3.3, north=56.0, east=-3.1, rows=8, columns=8)
        >>> town.cell(55.953, -3.188)
        'r5c5'
        >>> home = town.axis("home", protect=town.points(epsilon=1, per="1 km"))
        >>> study = sf.Study("homes", [home])
        >>> round(study.guarantee.between({"home": "r5c5"}, {"home": "r6c5"}), 3)
        1.392
    """

    south: Fraction
    west: Fraction
    north: Fraction
    east: Fraction
    rows: int
    columns: int

    def __init__(
        self,
        *,
        south: Number,
        west: Number,
        north: Number,
        east: Number,
        rows: int,
        columns: int,
    ) -> None:
        """Read the numbers exactly."""
        box = {"south": south, "west": west, "north": north, "east": east}
        for name, value in box.items():
            object.__setattr__(self, name, rational(value, name))
        for name, count in (("rows", rows), ("columns", columns)):
            if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 2:
                raise StudyError(
                    f"{name} must be a whole number of at least 2, got {name}={count!r}"
                )
            object.__setattr__(self, name, int(count))
        if not -90 <= self.south < self.north <= 90:
            raise StudyError(
                "south must be below north, both from -90 to 90 degrees, got "
                f"south={to_plain(self.south)}, north={to_plain(self.north)}"
            )
        if not (-180 <= self.west < self.east <= 360 and self.east - self.west <= 360):
            raise StudyError(
                "west must be below east, both from -180 to 360 degrees and at most 360 apart, got "
                f"west={to_plain(self.west)}, east={to_plain(self.east)}; for a box across the "
                "180th meridian count longitudes from 0 to 360, here and in the data"
            )

    def __repr__(self) -> str:
        """The call that makes this grid."""
        box = (f"{name}={to_plain(getattr(self, name))!r}" for name in _SIDES)
        return f"Grid({', '.join(box)}, rows={self.rows}, columns={self.columns})"

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.rows * self.columns

    def labels(self) -> list[str]:
        """The name of every cell, row by row from the south-west corner."""
        across = [f"c{column + 1}" for column in range(self.columns)]
        return [f"r{row + 1}{name}" for row in range(self.rows) for name in across]

    def centre(self, label: str) -> tuple[float, float]:
        """Latitude and longitude of the middle of a cell.

        Example:
            >>> Grid(south=0, west=10, north=4, east=20, rows=2, columns=2).centre("r2c1")
            (3.0, 12.5)
        """
        row, column = divmod(self._number(label), self.columns)
        return float(self.latitudes.numbers()[row]), float(self.longitudes.numbers()[column])

    def cell(
        self, latitude: Any, longitude: Any, *, outside: Literal["refuse", "clip"] = "refuse"
    ) -> str:
        """The name of the cell of one place.

        Args:
            latitude: Degrees north.
            longitude: Degrees east.
            outside: "refuse" a place outside the box, or "clip" it to the nearest cell.

        Raises:
            DataError: If the place is missing or outside the box; the message never shows it.
        """
        found = self.cells([latitude], [longitude], outside=outside)[0].as_py()
        if found is None:
            raise DataError(
                "latitude and longitude of one place must both be numbers, and one is missing: "
                "give both, or leave the place out"
            )
        return str(found)

    def cells(
        self, latitude: Any, longitude: Any, *, outside: Literal["refuse", "clip"] = "refuse"
    ) -> Any:
        """The name of the cell of every place, as an Arrow column for a study's table.

        Args:
            latitude: A column of degrees: a list, an array, or a column of a data frame.
            longitude: The same for longitudes.
            outside: "refuse" places outside the box, or "clip" them to the nearest cell.

        Returns:
            A dictionary column of names, null where either coordinate is missing.

        Raises:
            DataError: If a place is outside the box; the message names its row, never its value.
        """
        import pyarrow as pa

        if outside not in ("refuse", "clip"):
            raise StudyError(f"outside must be 'refuse' or 'clip', got outside={outside!r}")
        names = ["latitude", "longitude"]
        found = columns_of(dict(zip(names, (latitude, longitude), strict=True)), names)
        clip = outside == "clip"
        row = self.latitudes.read(found["latitude"], axis="latitude", clip=clip)
        column = self.longitudes.read(found["longitude"], axis="longitude", clip=clip)
        missing = (row < 0) | (column < 0)
        number = np.where(missing, 0, row * self.columns + column).astype(np.int32)
        indices = pa.array(number, mask=missing if missing.any() else None)
        return pa.DictionaryArray.from_arrays(indices, pa.array(self.labels()))

    def axis(
        self,
        name: str,
        *,
        protect: Metric | None = None,
        channel: Choice | None = None,
        optional: bool = False,
    ) -> Axis:
        """The cells as an axis of a study.

        Args:
            name: Name of the axis.
            protect: The metric, such as `blocks`, `regions` or `points` make.
            channel: The channel; left out, the study chooses one.
            optional: Whether people may give no answer, which is protected too.
        """
        return categories(name, self.labels(), protect=protect, channel=channel, optional=optional)

    def blocks(self, epsilon: Number, rows: int, columns: int) -> Blocks:
        """E = ε between cells of one block of the map, infinite between blocks.

        Args:
            epsilon: E within a block.
            rows: Number of parts that the rows of the grid are cut into, as equal as possible.
            columns: The same for its columns.

        References:
            Acharya et al. 2020, Table 1.

        Example:
            >>> sea = Grid(south=25, west=-130, north=50, east=-60, rows=125, columns=350)
            >>> by_state = sea.blocks(1, 5, 7)
            >>> len(by_state.blocks), by_state.between("r1c1", "r25c50")
            (35, 1.0)
        """
        for what, count, most in (("rows", rows, self.rows), ("columns", columns, self.columns)):
            if isinstance(count, bool) or not isinstance(count, int | np.integer):
                raise StudyError(f"{what} of blocks must be a whole number, got {what}={count!r}")
            if not 1 <= count <= most:
                raise StudyError(
                    f"{what} of blocks must be from 1 to the grid's {most}, got {what}={count}"
                )
        down = np.arange(self.rows) * int(rows) // self.rows
        across = np.arange(self.columns) * int(columns) // self.columns
        block = (down[:, None] * int(columns) + across).ravel()
        parts: list[list[str]] = [[] for _ in range(int(rows) * int(columns))]
        for label, number in zip(self.labels(), block.tolist(), strict=True):
            parts[number].append(label)
        return Blocks(epsilon, parts)

    def regions(
        self,
        epsilon: Number,
        regions: Mapping[str, Iterable[str]],
        *,
        rest: Literal["together", "alone"] | None = None,
    ) -> Blocks:
        """E = ε between cells of one region, infinite between regions.

        Args:
            epsilon: E within a region.
            regions: The cells of every region, by its name; `inside` finds those of a polygon.
            rest: What happens to cells in no region: "together" makes one more region of them,
                "alone" leaves each unprotected. Left out, every cell must be in a region.

        Raises:
            StudyError: If regions overlap or are empty, or cells are unknown or left over.
        """
        if not isinstance(regions, Mapping) or not regions:
            raise StudyError(
                "regions must map a name to its cells, such as {'north': grid.inside([...])}, got "
                f"{type(regions).__name__}"
            )
        if rest not in (None, "together", "alone"):
            raise StudyError(f"rest must be 'together' or 'alone', or left out, got rest={rest!r}")
        region_of: dict[str, str] = {}
        held = {name: _cells_of(name, cells) for name, cells in regions.items()}
        for name, cells in held.items():
            for label in cells:
                self._number(label)
                other = region_of.setdefault(label, name)
                if other != name:
                    raise StudyError(
                        f"regions must not overlap, got cell {label!r} in {other!r} and in "
                        f"{name!r}: take it from one of them"
                    )
        left = [label for label in self.labels() if label not in region_of]
        if left and rest is None:
            raise StudyError(
                f"regions must hold every cell, got none with {some(left)}: add them, or say "
                "rest='together' (one more region) or rest='alone' (unprotected)"
            )
        parts = [list(dict.fromkeys(cells)) for cells in held.values()]
        extra = [[label] for label in left] if rest == "alone" else [left] if left else []
        return Blocks(epsilon, parts + extra)

    def inside(self, polygon: Sequence[tuple[float, float]]) -> list[str]:
        """The cells whose centre lies inside a polygon of (latitude, longitude) corners.

        Example:
            >>> quarter = Grid(south=0, west=0, north=3, east=3, rows=3, columns=3)
            >>> quarter.inside([(0, 0), (3, 0), (3, 3)])
            ['r2c1', 'r3c1', 'r3c2']
        """
        within = inside(corners_of(polygon), *self._centres())
        return [label for label, held in zip(self.labels(), within.tolist(), strict=True) if held]

    def points(self, epsilon: Number, per: Number = "1 km") -> Points:
        """E = ε times the distance between the centres of two cells, over `per`.

        Guarantee:
            The distance is that of the straight line between the two centres through the earth
            (the WGS 84 ellipsoid), rounded down. It never exceeds the distance over the ground, so
            E is at most ε times that distance; at 100 km it is shorter by one part in 100,000, at
            1,000 km by one in 1,000. People in one cell cannot be told apart.

        Args:
            epsilon: E for two cells that are `per` apart.
            per: Unit of distance: "500 m", "1 km", "2 miles", or a number of metres.

        Raises:
            TooLargeError: If the grid has more than 2,048 cells: all pairs are kept in a table.
        """
        refuse_large_table(self.size)
        places = exact_places(*self._centres())
        return Points(epsilon, read_metres(per, "per"), at=zip(self.labels(), places, strict=True))

    def heatmap(self, answers: Answers) -> Answers:
        """Answers for every cell, laid out on the map: longitude across, latitude up.

        Args:
            answers: A histogram of the grid's axis, or `sf.distribution(estimate)`; "no answer" is
                not on the map.

        Raises:
            QuestionError: If the answers are not one for each cell of this grid.
        """
        self._check_answers(answers)
        latitudes, longitudes, bounds = self.latitudes, self.longitudes, answers.bounds

        def lay(array: Floats) -> Floats:
            return array[: self.size].reshape(self.rows, self.columns).T.copy()

        return replace(
            answers,
            values=lay(answers.values),
            stderr=lay(answers.stderr),
            centres=None if answers.centres is None else lay(answers.centres),
            room=lay(np.broadcast_to(answers.room, answers.values.shape)),
            bounds=None if bounds is None else (lay(bounds[0]), lay(bounds[1])),
            kind="heatmap",
            axes=("longitude", "latitude"),
            all_labels=(longitudes.labels(), latitudes.labels()),
            all_edges=(longitudes.edges(), latitudes.edges()),
            errors=None,
        )

    def to_geojson(self, answers: Answers) -> dict[str, Any]:
        """The cells as GeoJSON polygons, each with its answer and error, for any map program.

        What holds for all cells (level, method, number of reports, ...) is in "about".

        Raises:
            QuestionError: If the answers are not one for each cell of this grid.
        """
        self._check_answers(answers)
        numbers = {
            name: [number if np.isfinite(number) else None for number in array.tolist()]
            for name, array in (
                ("value", answers.values),
                ("stderr", answers.stderr),
                ("low", answers.low),
                ("high", answers.high),
            )
        }
        up, across = self.latitudes.edges().tolist(), self.longitudes.edges().tolist()
        features = []
        for number, label in enumerate(self.labels()):
            row, column = divmod(number, self.columns)
            (south, north), (west, east) = up[row : row + 2], across[column : column + 2]
            ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
            held = {name: values[number] for name, values in numbers.items()}
            features.append(
                {
                    "type": "Feature",
                    "id": label,
                    "geometry": {"type": "Polygon", "coordinates": [ring]},
                    "properties": {"cell": label, **held},
                }
            )
        said = answers.to_dict()
        about = {name: said[name] for name in ABOUT}
        return {"type": "FeatureCollection", "features": features, "about": about}

    @property
    def latitudes(self) -> Reals:
        """Latitudes in rows."""
        return Reals.equal_bins(self.south, self.north, self.rows)

    @property
    def longitudes(self) -> Reals:
        """Longitudes in columns."""
        return Reals.equal_bins(self.west, self.east, self.columns)

    def _centres(self) -> tuple[Floats, Floats]:
        """Latitude and longitude of every cell's centre."""
        up, across = self.latitudes.numbers(), self.longitudes.numbers()
        return np.repeat(up, self.columns), np.tile(across, self.rows)

    def _check_answers(self, answers: Answers) -> None:
        """Refuse answers that are not one per cell, with or without "no answer" at the end."""
        held = answers.all_labels[0]
        named = held[:-1] if held and held[-1] == NO_ANSWER else held
        if answers.kind != "histogram" or answers.values.ndim != 1 or list(named) != self.labels():
            raise QuestionError(
                f"a map needs one answer for each of the grid's {self.size} cells, got "
                f"{answers!r}: ask for the histogram of the grid's axis without bins, or for "
                "distribution(estimate)"
            )

    def _number(self, label: object) -> int:
        """The number of the cell with a label, row by row from the south-west corner."""
        found = re.fullmatch(r"r([1-9][0-9]{0,8})c([1-9][0-9]{0,8})", str(label))
        if found is None or int(found[1]) > self.rows or int(found[2]) > self.columns:
            raise StudyError(
                f"cells of this grid are 'r1c1' to 'r{self.rows}c{self.columns}', got {label!r}"
            )
        return (int(found[1]) - 1) * self.columns + int(found[2]) - 1


def _cells_of(name: str, cells: Any) -> list[str]:
    """The cells of one region as a list."""
    if isinstance(cells, str) or not isinstance(cells, Iterable):
        raise StudyError(f"region {name!r} must be a list of cells, got {cells!r}")
    found = list(cells)
    if not found:  # dropped in silence, its cells might be left unprotected
        raise StudyError(
            f"region {name!r} must hold a cell or more, got none: leave it out, or see that its "
            "polygon lies on the grid, with (latitude, longitude) in this order"
        )
    return found
