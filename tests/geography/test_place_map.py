"""Questions about places by shape, and maps of answers."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import QuestionError, StudyError
from sfumato.geography.shapes import corners_of, inside, refuse_crossing

BOX = (55.9, -3.3, 56.0, -3.1)
CENTRE = (55.93, -3.25, 55.97, -3.15)


def homes(**beside: Any) -> sf.Study:
    protect = sf.Distance(epsilon=3, per="1 km")
    axes: list[Any] = [sf.places("home", BOX, cell="1 km", protect=protect)]
    axes += [sf.integers(name, 0, 3, protect=sf.Distance(2)) for name in beside]
    return sf.Study("homes", axes)


STUDY = homes()
TOWN = sf.PlaceMap(STUDY, "home")


@pytest.fixture(scope="module")
def people() -> dict[str, Any]:
    rng = np.random.default_rng(1)
    return {
        "home_lat": np.clip(rng.normal(55.95, 0.01, 20_000), 55.901, 55.999),
        "home_lon": np.clip(rng.normal(-3.2, 0.02, 20_000), -3.299, -3.101),
    }


@pytest.fixture(scope="module")
def estimate(people: dict[str, Any]) -> sf.Estimate:
    return STUDY.simulate(people, seed=2).estimate("unbiased")


def test_shapes_hold_the_cells_whose_middle_they_hold() -> None:
    latitudes, _ = TOWN.middles()
    assert TOWN.shape == latitudes.shape == (11, 12)
    box = TOWN.in_box(CENTRE)
    south, north = latitudes[box > 0].min(), latitudes[box > 0].max()
    assert 55.93 < south < north < 55.97
    triangle = TOWN.in_polygon([(55.9, -3.3), (56.0, -3.3), (55.9, -3.1)])
    assert triangle.sum() == pytest.approx(66, abs=6)  # half of the map
    closed = TOWN.in_polygon([(55.9, -3.3), (56.0, -3.3), (55.9, -3.1), (55.9, -3.3)])
    assert (closed == triangle).all()  # as GeoJSON writes it
    circle = TOWN.in_circle((55.95, -3.2), "3 km")
    assert circle.sum() * 1.011 * 1.038 == pytest.approx(np.pi * 9, rel=0.15)
    assert circle[5, 5] == 1
    assert circle[0, 0] == 0


def test_answers_about_shapes_are_as_good_as_they_say(
    people: dict[str, Any], estimate: sf.Estimate
) -> None:
    rows = STUDY.axes[0].domain.read(_column(people["home_lat"]), axis="", clip=False)
    columns = STUDY.axes[1].domain.read(_column(people["home_lon"]), axis="", clip=False)
    counts = np.zeros(TOWN.shape)
    np.add.at(counts, (rows, columns), 1)
    for weights, answer in (
        (
            TOWN.in_box(CENTRE),
            TOWN.box(estimate, CENTRE),
        ),
        (TOWN.in_circle((55.95, -3.2), 2500), TOWN.circle(estimate, (55.95, -3.2), 2500)),
        (
            TOWN.in_polygon([(55.91, -3.29), (55.99, -3.2), (55.91, -3.11)]),
            TOWN.polygon(estimate, [(55.91, -3.29), (55.99, -3.2), (55.91, -3.11)]),
        ),
    ):
        error = answer.values[0] - (weights * counts).sum()
        assert abs(error) <= 4 * answer.stderr[0]
        assert answer.stderr[0] < 400


def _column(values: Any) -> Any:
    from sfumato.domains.tables import columns

    return columns({"x": values}, ["x"])["x"]


def test_shapes_work_beside_other_axes(people: dict[str, Any]) -> None:
    study = homes(pets=1)
    table = {**people, "pets": np.ones(20_000, dtype=int)}
    estimate = study.simulate(table, seed=3).estimate("unbiased")
    town = sf.PlaceMap(study, "home")
    one = town.box(estimate, CENTRE)
    up, across = town.middles()
    within = (up > 55.93) & (up < 55.97) & (across > -3.25) & (across < -3.15)
    assert (town.in_box(CENTRE) == within).all()
    assert one.values[0] == pytest.approx(19_000, rel=0.1)


def test_maps_are_heat_maps_and_geojson(estimate: sf.Estimate) -> None:
    heat = TOWN.heatmap(estimate)
    assert heat.values.shape == (12, 11)  # longitude across, latitude up
    assert heat.values.sum() == pytest.approx(20_000, rel=0.02)
    found = json.loads(json.dumps(TOWN.to_geojson(heat)))
    assert len(found["features"]) == 132
    first = found["features"][0]
    assert first["id"] == "r1c1"
    assert first["geometry"]["coordinates"][0][0] == [-3.3, 55.9]
    assert first["properties"]["value"] == pytest.approx(heat.values[0, 0])
    assert found["about"]["n"] == 20_000
    turned = estimate.heatmap("home_lat", "home_lon")
    assert TOWN.to_geojson(turned)["features"] == found["features"]
    assert sf.PlaceMap.of(STUDY, turned).name == "home"
    for other in (estimate.histogram("home_lat"), estimate.count("home_lat=56..")):
        with pytest.raises(QuestionError, match="GeoJSON needs the heat map of places"):
            sf.PlaceMap.of(STUDY, other)
    with pytest.raises(QuestionError, match="GeoJSON needs the heat map of 'home'"):
        TOWN.to_geojson(estimate.histogram("home_lat"))


@pytest.mark.soak
def test_groups_of_a_large_map_have_intervals_that_hold() -> None:
    """On 130 × 130 cells, where the errors of 64 groups are those of the unbiased answers."""
    near = sf.Distance(epsilon=1, per="1 km")
    study = sf.Study("large", [sf.places("home", (0, 0, 1.17, 1.17), cell="1 km", protect=near)])
    town, rng = sf.PlaceMap(study, "home"), np.random.default_rng(6)
    assert town.shape == (130, 130)
    middles = rng.uniform(0.2, 0.97, (12, 2))[rng.integers(0, 12, 40_000)]
    at = np.clip(middles + rng.normal(0, 0.06, (40_000, 2)), 0, 1.1699)
    people = {"home_lat": at[:, 0], "home_lon": at[:, 1]}
    heat = town.heatmap(study.simulate(people, seed=7).estimate("likelihood"), bins=8)
    edges = [np.asarray(each) for each in heat.all_edges]
    truth, _, _ = np.histogram2d(at[:, 1], at[:, 0], bins=edges)
    held = (heat.low <= truth) & (truth <= heat.high)
    # At 95 % each of 64 holds; fewer than 53 would be 4.5 standard errors below.
    assert held.sum() >= 53
    middle, third = (heat.low + heat.high) / 2, (heat.high - heat.low) / 6
    assert (np.abs(truth - middle) <= third).sum() < 53  # the twin


def test_single_cells_of_a_large_map_are_refused() -> None:
    near = sf.Distance(epsilon=1, per="1 km")
    study = sf.Study("large", [sf.places("home", (0, 0, 0.6, 0.6), cell="1 km", protect=near)])
    estimate = study.empty_tally().estimate("unbiased")
    for bins in (None, 17, (16, 17)):
        with pytest.raises(QuestionError, match="the limit is 256 groups, such as bins=16"):
            sf.PlaceMap(study, "home").heatmap(estimate, bins=bins)


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        ([(55.91, -3.29), (55.99, -3.11), (55.99, -3.29), (55.91, -3.11)], "must not cross itself"),
        ([(55.91, -3.29), (55.99, -3.29), (55.91, -3.29), (55.95, -3.2)], "must not touch itself"),
        ([(55.91, -3.29), (55.99, -3.29), (56.5, -3.2)], r"must lie on the map.*56\.5"),
        ([(55.91, -3.29), (55.99, -3.29)], "three corners or more"),
        ([(55.91, -3.29), (55.99, "x"), (55.95, -3.2)], "three corners or more"),
        ([(55.9, -3.3), (55.9001, -3.3), (55.9, -3.2999)], "middle of a cell or more"),
    ],
)
def test_bad_polygons_are_refused(shape: Any, told: str) -> None:
    with pytest.raises(QuestionError, match=told):
        TOWN.in_polygon(shape)


def test_other_bad_questions_are_refused(estimate: sf.Estimate) -> None:
    with pytest.raises(QuestionError, match="swap its ends"):
        TOWN.in_box((55.97, -3.25, 55.93, -3.15))
    with pytest.raises(QuestionError, match="bounds must be south"):
        TOWN.in_box((55.97, -3.25))
    with pytest.raises(QuestionError, match="radius must be a length"):
        TOWN.in_circle((55.95, -3.2), "3 parsec")
    with pytest.raises(QuestionError, match="a place must be a pair"):
        TOWN.in_circle(55.95, "3 km")
    with pytest.raises(QuestionError, match="centre of a circle must lie on the map"):
        TOWN.in_circle((50, -3.2), "3 km")
    with pytest.raises(QuestionError, match="weights must have one entry"):
        TOWN.count(estimate, np.ones(5))
    with pytest.raises(QuestionError, match="one of this map's study"):
        sf.PlaceMap(homes(pets=1), "home").box(estimate, BOX)
    with pytest.raises(StudyError, match="no places called 'work'"):
        sf.PlaceMap(STUDY, "work")
    with pytest.raises(StudyError, match=r"make them with sf\.places"):
        sf.PlaceMap(sf.Study("s", [sf.integers("a", 0, 3, protect=sf.Uniform(1))]), "home")


def test_a_point_is_inside_by_the_crossings_to_its_east() -> None:
    star = corners_of([(0, 0), (4, 0), (4, 4), (2, 1), (0, 4)])
    refuse_crossing(star)
    y, x = np.array([2.0, 2.0, 3.5]), np.array([0.5, 3.0, 3.0])
    assert inside(star, y, x).tolist() == [True, False, True]
