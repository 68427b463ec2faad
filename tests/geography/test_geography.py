"""Places: cells of a grid, the protection of places, and answers laid out on a map."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.exact import at_most_exp
from sfumato.geography.earth import exact_places, in_space
from sfumato.metrics.words import read_metres

TOWN = sf.Grid(south=55.9, west=-3.3, north=56.0, east=-3.1, rows=4, columns=5)


def over_ground(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Metres along a meridian or a parallel of WGS 84, by summation of many short steps."""
    steps = np.linspace(0, 1, 20_001)
    way = in_space(a[0] + steps * (b[0] - a[0]), a[1] + steps * (b[1] - a[1]))
    return float(np.linalg.norm(np.diff(way, axis=0), axis=1).sum())


# Cells


def test_cells_are_counted_from_the_south_west_and_own_their_lower_borders() -> None:
    grid = sf.Grid(south=0, west=10, north=2, east=13, rows=2, columns=3)
    assert grid.labels() == ["r1c1", "r1c2", "r1c3", "r2c1", "r2c2", "r2c3"]
    assert grid.cell(0, 10) == "r1c1"
    assert grid.cell(1, 11) == "r2c2"
    assert grid.cell(2, 13) == "r2c3"  # the outermost borders are in
    assert grid.cell(0.999, 12.999) == "r1c3"
    assert [grid.cell(*grid.centre(label)) for label in grid.labels()] == grid.labels()


def test_columns_of_coordinates_become_columns_of_names() -> None:
    found = TOWN.cells([55.91, None, 55.99, math.nan], np.array([-3.29, -3.2, -3.11, -3.2]))
    assert found.to_pylist() == ["r1c1", None, "r4c5", None]
    protect = sf.Uniform(1)
    home = TOWN.axis("home", protect=protect, optional=True)
    assert sf.Study("homes", [home]).axes[0].codes(found).tolist() == [0, 20, 19, 20]


def test_borders_that_are_no_doubles_are_met_by_the_values_that_spell_them() -> None:
    grid = sf.Grid(south=25, west=-130, north=50, east=-60, rows=125, columns=350)
    rows = [f"{(250 + 2 * k) // 10}.{2 * k % 10}" for k in range(125)]
    found = grid.cells(rows, ["-130"] * 125).to_pylist()
    assert found == [f"r{k + 1}c1" for k in range(125)]
    assert grid.cells([float(row) for row in rows], [-130.0] * 125).to_pylist() == found


def test_places_outside_are_refused_by_row_or_clipped_and_never_shown() -> None:
    with pytest.raises(sf.DataError, match=r"axis 'latitude' .* \(row 2\)") as caught:
        TOWN.cells([55.95, 57.123], [-3.2, -3.2])
    assert "57.1" not in str(caught.value)
    with pytest.raises(sf.DataError, match="axis 'longitude'"):
        TOWN.cell(55.95, 12)
    assert TOWN.cell(57, 12, outside="clip") == "r4c5"
    with pytest.raises(sf.DataError, match="must both be numbers"):
        TOWN.cell(None, -3.2)
    with pytest.raises(sf.StudyError, match="outside must be"):
        TOWN.cell(55.95, -3.2, outside="drop")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"south": 57}, "south must be below north"),
        ({"north": 91}, "-90 to 90"),
        ({"west": 170, "east": -170}, "count longitudes from 0 to 360"),
        ({"west": -180, "east": 181}, "at most 360 apart"),
        ({"rows": 1}, "rows must be a whole number of at least 2, got rows=1"),
        ({"columns": 2.5}, "columns must be a whole number"),
        ({"south": "x"}, "south must be a finite number"),
    ],
)
def test_boxes_that_are_none_are_refused(change: dict[str, Any], message: str) -> None:
    box = {"south": 55, "west": -3, "north": 56, "east": -2, "rows": 2, "columns": 2}
    with pytest.raises(sf.StudyError, match=message):
        sf.Grid(**(box | change))


def test_a_grid_says_the_call_that_makes_it_and_spans_the_date_line() -> None:
    assert eval(repr(TOWN), {"Grid": sf.Grid}) == TOWN
    fiji = sf.Grid(south=-19, west=177, north=-16, east=182, rows=3, columns=5)
    assert fiji.cell(-18.1, 178.4) == "r1c2"
    assert fiji.cell(-16.5, 181) == "r3c5"


# Blocks and regions


@pytest.mark.parametrize("parts", [(2, 5), (3, 2), (4, 5), (1, 1)])
def test_blocks_cut_the_map_as_equally_as_can_be(parts: tuple[int, int]) -> None:
    blocks = TOWN.blocks(1, *parts).blocks
    assert len(blocks) == parts[0] * parts[1]
    assert sorted(label for block in blocks for label in block) == sorted(TOWN.labels())
    for block in blocks:
        rows, columns = ({int(label[1:].split("c")[k]) for label in block} for k in (0, 1))
        assert sorted(block) == sorted(f"r{r}c{c}" for r, c in product(rows, columns))
        assert math.floor(4 / parts[0]) <= len(rows) <= math.ceil(4 / parts[0])
        assert math.floor(5 / parts[1]) <= len(columns) <= math.ceil(5 / parts[1])
        assert max(rows) - min(rows) == len(rows) - 1
        assert max(columns) - min(columns) == len(columns) - 1


@pytest.mark.slow
def test_the_grid_of_the_paper_is_collected_and_read_cell_by_cell() -> None:
    grid = sf.Grid(south=25, west=-130, north=50, east=-60, rows=125, columns=350)
    study = sf.Study("places", [grid.axis("place", protect=grid.blocks(1, 5, 7))])
    assert study.shape == (43_750,)
    rng = np.random.default_rng(3)
    people = grid.cells(rng.normal(37, 1, 60_000), rng.normal(-95, 1, 60_000))
    found = sf.distribution(study.simulate({"place": people}, seed=2).estimate("unbiased"))
    truth = np.bincount(people.indices.to_numpy(), minlength=grid.size) / len(people)
    # Which block a person is in is not hidden: the shares of blocks are exact.
    laid = [array.reshape(5, 25, 7, 50).sum(axis=(1, 3)) for array in (found.values, truth)]
    assert np.allclose(*laid, rtol=0, atol=1e-9)
    sure = found.stderr == 0
    assert np.allclose(found.values[sure], truth[sure], rtol=0, atol=1e-12)
    off = (found.values - truth)[~sure] / found.stderr[~sure]
    assert np.abs(off).max() < 6.5  # 1,250 cells or more, each nearly normal
    assert 0.9 < float(np.sqrt(np.mean(off**2))) < 1.1
    assert grid.heatmap(found).values.shape == (350, 125)


def test_regions_are_blocks_and_the_rest_must_be_spoken_for() -> None:
    west = TOWN.inside([(55.8, -3.4), (56.1, -3.4), (56.1, -3.21), (55.8, -3.21)])
    assert {label[-1] for label in west} == {"1", "2"}
    assert len(west) == 8
    rest = [label for label in TOWN.labels() if label not in west]
    whole = TOWN.regions(1, {"west": west, "east": rest})
    assert whole.between("r1c1", "r4c2") == 1
    assert whole.between("r1c2", "r1c3") == math.inf
    with pytest.raises(sf.StudyError, match="regions must hold every cell, got none with 'r1c3'"):
        TOWN.regions(1, {"west": west})
    together = TOWN.regions(1, {"west": west}, rest="together")
    assert together.blocks == (tuple(west), tuple(rest))
    alone = TOWN.regions(1, {"west": west}, rest="alone")
    assert len(alone.blocks) == 1 + len(rest)
    metric = alone.bind(TOWN.axis("home").domain, optional=False)
    assert metric.notes == ("unprotected: 12 of 20 cells are alone in a block",)


def test_polygons_may_have_dents() -> None:
    square = sf.Grid(south=0, west=0, north=5, east=5, rows=5, columns=5)
    # A U that opens to the north: a line from a cell in its left arm crosses four of its sides.
    corners = [(0, 0), (5, 0), (5, 1), (1, 1), (1, 4), (5, 4), (5, 5), (0, 5)]
    wanted = {f"r{row}c{column}" for row in range(1, 6) for column in range(1, 6)}
    wanted -= {f"r{row}c{column}" for row in range(2, 6) for column in range(2, 5)}
    for turned in (corners, corners[::-1], corners[3:] + corners[:3]):
        assert set(square.inside(turned)) == wanted


def test_regions_are_read_once_and_none_is_dropped() -> None:
    once = TOWN.regions(1, {"all": (label for label in TOWN.labels())})
    assert once.blocks == (tuple(TOWN.labels()),)
    # Latitude and longitude in the wrong order: dropped, the cells would be left unprotected.
    off = TOWN.inside([(-3.4, 55.8), (-3.4, 56.1), (-3.0, 56.1), (-3.0, 55.8)])
    with pytest.raises(sf.StudyError, match="region 'town' must hold a cell or more, got none"):
        TOWN.regions(1, {"town": off}, rest="alone")


@pytest.mark.parametrize(
    ("regions", "message"),
    [
        ({"a": ["r1c1"], "b": ["r1c1"]}, "'r1c1' in 'a' and in 'b'"),
        ({"a": ["r9c1"]}, "'r1c1' to 'r4c5', got 'r9c1'"),
        ({"a": "r1c1"}, "region 'a' must be a list of cells"),
        ({}, "must map a name to its cells"),
    ],
)
def test_regions_that_cannot_be_are_refused(regions: Any, message: str) -> None:
    with pytest.raises(sf.StudyError, match=message):
        TOWN.regions(1, regions, rest="together")


def test_other_slips_are_refused() -> None:
    with pytest.raises(sf.StudyError, match="rest must be"):
        TOWN.regions(1, {"a": ["r1c1"]}, rest="own")  # type: ignore[arg-type]
    with pytest.raises(sf.StudyError, match="from 1 to the grid's 4, got rows=5"):
        TOWN.blocks(1, 5, 1)
    with pytest.raises(sf.StudyError, match=r"whole number, got columns=1\.5"):
        TOWN.blocks(1, 2, 1.5)  # type: ignore[arg-type]
    with pytest.raises(sf.StudyError, match="three corners or more"):
        TOWN.inside([(0, 0), (1, 1)])
    for bad in ([("x", 0), (1, 1), (2, 2)], [(0, 0), (1, 1), (2,)], 7):
        with pytest.raises(sf.StudyError, match=r"each \(latitude, longitude\) in degrees"):
            TOWN.inside(bad)  # type: ignore[arg-type]
    with pytest.raises(sf.StudyError, match=r"finite numbers, got \(nan, 1\) as corner 2"):
        TOWN.inside([(0, 0), (math.nan, 1), (2, 2)])
    with pytest.raises(sf.StudyError, match="got 'home'"):
        TOWN.centre("home")


# Distances


def test_distances_are_never_more_than_the_way_over_the_ground_and_hardly_less() -> None:
    for box in (
        {"south": 55.9, "west": -3.3, "north": 56.0, "east": -3.1},
        {"south": -80, "west": -170, "north": 84, "east": 190},
        {"south": 0, "west": 0, "north": "0.0001", "east": "0.0001"},
    ):
        grid = sf.Grid(**box, rows=5, columns=6)  # type: ignore[arg-type]
        metric = grid.points(1, per=1).bind(grid.axis("x").domain, optional=False)
        labels = grid.labels()
        for a, b in [("r1c1", "r1c2"), ("r1c1", "r2c1"), ("r5c6", "r4c6"), ("r5c1", "r5c2")]:
            said = metric.exact(labels.index(a), labels.index(b))
            assert said is not None
            way = over_ground(grid.centre(a), grid.centre(b))
            assert said < way * (1 + 1e-9)
            if way < 100_000:
                assert said > way * (1 - 1.2e-5)


def test_rounding_never_draws_places_apart_and_would_if_nothing_made_up_for_it() -> None:
    rng = np.random.default_rng(8)
    for spread in (90.0, 1e-2, 1e-4):
        latitude, longitude = 51 + spread * rng.uniform(-0.4, 0.4, (2, 40))
        true = in_space(latitude, longitude)
        kept = exact_places(latitude, longitude)
        bare = [[Fraction(round(1e6 * x), 10**6) for x in place] for place in true.tolist()]
        # Doubles of metres from the centre of the earth are good to a few nanometres.
        assert most_drawn_apart(kept, true) < 1e-8
        assert most_drawn_apart(bare, true) > 1e-7


def test_two_places_alone_are_not_drawn_apart_however_their_rounding_falls() -> None:
    """Nothing but the least shift helps the nearest pair, and rounding may undo √3 units of it."""
    rng = np.random.default_rng(9)
    for _ in range(2_000):
        latitude, longitude = np.array([[35.0], [45.0]]) + 1e-4 * rng.uniform(-1, 1, (2, 2))
        kept = exact_places(latitude, longitude)
        assert most_drawn_apart(kept, in_space(latitude, longitude)) < 1e-8


def most_drawn_apart(places: list[list[Fraction]], true: Any) -> float:
    """By how many metres two places lie farther apart than they should, at most."""
    worst = -math.inf
    for i, j in zip(*np.triu_indices(len(places), 1), strict=True):
        squared = sum((a - b) ** 2 for a, b in zip(places[i], places[j], strict=True))
        worst = max(worst, math.sqrt(squared) - float(np.linalg.norm(true[i] - true[j])))
    return worst


def test_a_study_of_places_keeps_its_promise_to_the_last_word() -> None:
    grid = sf.Grid(south=55.9, west=-3.3, north=56.0, east=-3.1, rows=3, columns=3)
    study = sf.Study("homes", [grid.axis("home", protect=grid.points("0.5", per="2 km"))])
    again = sf.Study.from_toml(study.to_toml())
    assert again.fingerprint == study.fingerprint
    (channel,) = again.channels
    rows, total = channel.words()
    assert {sum(row) for row in rows} == {total}
    spent = 0.0
    for i, j in product(range(9), repeat=2):
        e = channel.metric.exact(i, j)
        assert e is not None
        worst = max(Fraction(a, b) for a, b in zip(rows[i], rows[j], strict=True))
        assert at_most_exp(worst, e)
        if i != j:
            spent = max(spent, math.log(worst) / float(e))
            way = over_ground(grid.centre(grid.labels()[i]), grid.centre(grid.labels()[j]))
            if i // 3 == j // 3 or i % 3 == j % 3:
                assert float(e) <= way / 4000
    assert spent > 0.5  # not for want of telling anything


def test_lengths_are_read_as_people_write_them() -> None:
    assert [read_metres(per, "per") for per in ("500 m", "km", "1/2 km", 250, "2 miles")] == [
        500,
        1000,
        500,
        250,
        Fraction("3218.688"),
    ]
    with pytest.raises(sf.StudyError, match="per must be a length such as '1 km'"):
        TOWN.points(1, per="1 week")
    with pytest.raises(sf.StudyError, match="per must be positive"):
        TOWN.points(1, per="0 km")
    with pytest.raises(sf.StudyError, match="per must be positive"):
        TOWN.points(1, per=-5)


def test_places_too_near_or_too_many_are_refused() -> None:
    tiny = sf.Grid(south=0, west=0, north="1e-8", east=1, rows=2, columns=2)
    with pytest.raises(sf.StudyError, match="at least 1 cm apart"):
        tiny.points(1)
    large = sf.Grid(south=0, west=0, north=1, east=1, rows=50, columns=50)
    with pytest.raises(sf.TooLargeError, match="at most 2048 cells"):
        large.points(1)


# Maps


@pytest.fixture(scope="module")
def estimate() -> sf.Estimate:
    home = TOWN.axis("home", protect=sf.Uniform(3), optional=True)
    study = sf.Study("homes", [home])
    people = TOWN.cells([55.91] * 2_000 + [55.99] * 500 + [None] * 100, [-3.29] * 2_600)
    return study.simulate({"home": people}, seed=5).estimate("unbiased")


def test_a_heat_map_has_longitude_across_and_latitude_up(estimate: sf.Estimate) -> None:
    plain = estimate.histogram("home")
    laid = TOWN.heatmap(plain)
    assert laid.axes == ("longitude", "latitude")
    assert laid.values.shape == laid.low.shape == (5, 4)
    for place, label in enumerate(TOWN.labels()):
        row, column = (int(part) - 1 for part in label[1:].split("c"))
        assert laid.values[column, row] == plain.values[place]
        assert laid.stderr[column, row] == plain.stderr[place]
        assert laid.low[column, row] == plain.low[place]
    assert laid.edges[0].tolist() == pytest.approx([-3.3, -3.26, -3.22, -3.18, -3.14, -3.1])
    banded = TOWN.heatmap(plain.band())
    assert banded.high[0, 3] == plain.band().high[15]
    drawn = laid.plot()
    assert drawn.axes[0].get_xlabel() == "longitude"
    assert drawn.axes[0].get_ylabel() == "latitude"


def test_geojson_has_a_closed_ring_and_an_error_for_every_cell(estimate: sf.Estimate) -> None:
    answers = estimate.histogram("home")
    found = json.loads(json.dumps(TOWN.to_geojson(answers), allow_nan=False))
    assert found["type"] == "FeatureCollection"
    assert found["about"]["n"] == 2_600
    assert [feature["id"] for feature in found["features"]] == TOWN.labels()
    for number, feature in enumerate(found["features"]):
        (ring,) = feature["geometry"]["coordinates"]
        assert ring[0] == ring[-1]
        assert len(ring) == 5
        corners = np.array(ring)
        area = np.sum(corners[:-1, 0] * corners[1:, 1] - corners[1:, 0] * corners[:-1, 1]) / 2
        assert area == pytest.approx(0.04 * 0.025)  # above zero: the corners turn to the left
        latitude, longitude = TOWN.centre(feature["id"])
        assert corners[:-1].mean(axis=0) == pytest.approx([longitude, latitude])
        assert feature["properties"]["value"] == answers.values[number]
        assert feature["properties"]["stderr"] == answers.stderr[number]


def test_other_answers_are_not_put_on_a_map(estimate: sf.Estimate) -> None:
    with pytest.raises(sf.QuestionError, match="one answer for each of the grid's 20 cells"):
        TOWN.heatmap(estimate.histogram("home", bins=4))
    with pytest.raises(sf.QuestionError, match="without bins"):
        TOWN.to_geojson(TOWN.heatmap(estimate.histogram("home")))
