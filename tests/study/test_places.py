"""Places: two axes under one guarantee, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import DataError, StudyError

BOX = (55.9, -3.3, 56.0, -3.1)
NEAR = sf.Distance(epsilon=1, per="1 km")


def town(**changed: Any) -> sf.Study:
    given = {"bounds": BOX, "cell": "1 km", "protect": NEAR} | changed
    return sf.Study("town", [sf.places("home", **given)])


def test_places_are_two_axes_of_cells_as_large_as_wanted() -> None:
    study = town()
    assert [axis.name for axis in study.axes] == ["home_lat", "home_lon"]
    assert study.shape == (11, 12)  # 11.1 km by 12.5 km
    assert study.channels[0].id == "planar"
    told = " ".join(study.explain().split())
    assert "11 × 12 cells, each 1,011 m high" in told
    assert "in this box at most 1.3 % shorter" in told
    assert sf.Study.from_toml(study.to_toml()) == study


def test_a_dict_and_a_cap_say_the_same_box() -> None:
    sides = dict(zip(("south", "west", "north", "east"), BOX, strict=True))
    assert town(bounds=sides) == town()
    capped = town(protect=sf.Distance(1, per="1 km", cap=4))
    assert capped.guarantee.between(
        {"home_lat": 55.91, "home_lon": -3.29}, {"home_lat": 55.99, "home_lon": -3.11}
    ) == pytest.approx(4)
    assert "the odds change by at most e^4" in capped.explain()


def test_the_guarantee_is_kept_exactly_and_by_the_device() -> None:
    found = sf.audit(town(cell="2 km"))
    assert found.holds
    assert found.axes[0].spent > 0.99
    study = town()
    people = {"home_lat": 55.93, "home_lon": -3.2}
    report = study.device_program().encode(people)
    assert len(report) == 1  # 132 cells fit a byte


def test_uniform_places_are_any_two_axes() -> None:
    assert town(protect=sf.Uniform(1)).guarantee.between(
        {"home_lat": 55.91, "home_lon": -3.29}, {"home_lat": 55.99, "home_lon": -3.11}
    ) == pytest.approx(1)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"bounds": (55.9, -3.3, 90, -3.1)}, "short of the poles"),
        ({"bounds": (0, -180, 1, 180)}, "at most 180 degrees wide"),
        ({"bounds": (0, 10, 1, -10)}, "across the 180th meridian"),
        ({"bounds": (56, -3.3, 55, -3.1)}, "south must be below north"),
        ({"bounds": (1, 2, 3)}, "bounds must be south, west, north and east"),
        ({"bounds": {"south": 1}}, "bounds must be south, west, north and east"),
        ({"bounds": (1, 2, "x", 3)}, "north must be a finite number"),
        ({"bounds": (-90, -3.3, 56, -3.1)}, "short of the poles"),
        ({"bounds": (55.9, -3.3, "90.5", -3.1)}, "short of the poles"),
        ({"bounds": (0, 0, 1, 360)}, "at most 180 degrees wide"),
        ({"bounds": (55.9, 170, 56, 370)}, "both from -180 to 360 degrees"),
        ({"cell": "30 km"}, "two cells high or more, got cell=30 km"),
        ({"cell": "2 parsec"}, "cell must be a length such as '1 km'"),
        ({"protect": sf.Distance(1)}, "such as per='1 km', got per=1"),
        ({"protect": sf.Distance(1, per="7 days")}, "such as '1 km', got per='7 days'"),
        ({"protect": sf.Distance(1, per="1 km", no_answer="2 km")}, "no cell for 'no answer'"),
        ({"protect": sf.Blocks(1, [["a"]])}, "places take protect=Distance"),
        ({"protect": None}, "nothing about protection"),
    ],
)
def test_bad_places_are_refused(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(StudyError, match=told):
        town(**changed)


def test_a_name_must_not_be_blank() -> None:
    with pytest.raises(StudyError, match="a name that is not blank"):
        sf.places(" ", BOX, cell="1 km")


def test_places_out_of_bounds_are_named_by_row_and_never_shown() -> None:
    with pytest.raises(DataError, match=r"\(row 2\)") as caught:
        town().encode({"home_lat": [55.95, 57.123], "home_lon": [-3.2, -3.2]})
    assert "57.1" not in str(caught.value)
    clipped = town(outside="clip")
    assert len(clipped.encode({"home_lat": [57.123], "home_lon": [-3.2]})) == 1


def test_both_coordinates_out_of_bounds_are_named_by_row() -> None:
    for column, wrong in (("home_lat", 91.75), ("home_lat", -55.95), ("home_lon", 183.25)):
        people = {"home_lat": [55.95] * 3, "home_lon": [-3.2] * 3}
        people[column][1:] = [wrong, wrong]
        with pytest.raises(DataError, match=rf"'{column}'.*\(rows 2, 3\)") as caught:
            town().encode(people)
        assert str(wrong) not in str(caught.value)
        assert not any(isinstance(held, float) for held in caught.value.args)


@pytest.mark.parametrize(
    ("cell", "shape", "said"),
    [
        ("1 km", (11, 12), "11 × 12 cells, each 1,011 m high and, in the middle of the box, 1,038"),
        ("3 km", (4, 4), "4 × 4 cells, each 2,780 m high and, in the middle of the box, 3,113"),
        (700, (16, 18), "16 × 18 cells, each 695 m high and, in the middle of the box, 692"),
    ],
)
def test_a_cell_size_that_does_not_divide_the_box_is_rounded_and_said(
    cell: Any, shape: tuple[int, int], said: str
) -> None:
    study = town(cell=cell)
    assert study.shape == shape
    assert said in " ".join(study.explain().split())


@pytest.mark.slow
def test_people_without_a_place_are_told_apart_by_an_axis_of_their_own() -> None:
    """What the refusal of `no_answer` says to do: a third has no place and reports the middle."""
    has = sf.categories("has_home", ["yes", "no"], protect=sf.Uniform(4))
    near = sf.Distance(epsilon=4, per="1 km")
    study = sf.Study("town", [has, sf.places("home", BOX, cell="1 km", protect=near)])
    people = {
        "has_home": ["yes", "yes", "no"] * 3_000,
        "home_lat": [55.93, 55.97, 55.95] * 3_000,
        "home_lon": [-3.25, -3.15, -3.2] * 3_000,
    }
    estimate = study.simulate(people, seed=4).estimate("unbiased")
    middle = {"home_lat": (55.94, 55.96), "home_lon": (-3.22, -3.18)}
    for where, truth in (("yes", 0), ("no", 3_000)):
        found = estimate.count(has_home=where, **middle)
        assert abs(float(found) - truth) <= 4 * found.stderr
        assert found.stderr < 400


def test_a_length_on_the_ground_is_for_places_only() -> None:
    with pytest.raises(StudyError, match="per must be"):
        sf.Study("s", [sf.integers("a", 0, 9, protect=NEAR)])
    with pytest.raises(StudyError, match="is for places"):
        NEAR.between("2024-01-01", "2024-01-02")


def test_people_are_counted_near_where_they_live() -> None:
    """5,000 people in one cell, ε = 2 per km: nearly all are found within two cells of it."""
    study = town(protect=sf.Distance(epsilon=2, per="1 km"))
    people = {"home_lat": np.full(5_000, 55.95), "home_lon": np.full(5_000, -3.2)}
    tally = study.simulate(people, seed=3)
    for method in ("unbiased", "likelihood"):
        answer = tally.estimate(method=method).count(
            home_lat=(55.93, 55.97), home_lon=(-3.24, -3.16)
        )
        assert abs(float(answer) - 5_000) <= 5 * answer.stderr
