"""Questions as JSON: all kinds give what the library gives, in every form; others are refused."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers_service import TODAY, fresh_ids
from pyarrow import csv
from test_app import Running

import sfumato as sf
from sfumato.device.wire import Batch
from sfumato.errors import QuestionError, TooLargeError
from sfumato.estimation import groups as grouping
from sfumato.estimation.answers import Answer, Answers
from sfumato.estimation.groups import groups
from sfumato.service import asking
from sfumato.service.asking import KINDS, read_question


@cache
def trips() -> sf.Study:
    """A study with every sort of axis."""
    return sf.Study(
        "trips",
        [
            sf.integers("age", 0, 29, protect=sf.Distance(1), channel=sf.Geometric()),
            sf.categories("mode", ["bike", "bus"], protect=sf.Uniform(2), optional=True),
            sf.dates("day", "2024-01-01", "2024-01-20", protect=sf.Distance(1)),
        ],
    )


@cache
def reports() -> sf.Reports:
    people = 600
    rng = np.random.default_rng(5)
    table = {
        "age": rng.integers(5, 25, people),
        "mode": rng.choice(["bike", "bus"], people),
        "day": np.datetime64("2024-01-01") + rng.integers(0, 20, people),
    }
    return trips().encode(table, bits=sf.SeededBits(3))


def sent_reports() -> bytes:
    """All of them as one batch."""
    size, packed = trips().device_program().report_size, reports().to_bytes()
    first = len(packed) - size * len(reports())
    rows = tuple(packed[place : place + size] for place in range(first, len(packed), size))
    return Batch(trips().fingerprint, TODAY + 30, fresh_ids(len(rows)), rows).to_bytes()


@cache
def estimate(method: str) -> sf.Estimate:
    return trips().tally(reports()).estimate(method)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    made = Running(tmp_path_factory.mktemp("asking"))
    made.study, _ = made.collector.publish(trips().to_toml(), minimum=3)
    made.base = f"/v1/studies/{made.study.fingerprint}"
    with made.http:
        assert made.upload(sent_reports()).json()["accepted"] == len(reports())
        yield made


def plain(found: Answer | Answers) -> Any:
    return json.loads(json.dumps(found.to_dict()))


EST = "unbiased"
CASES: list[tuple[dict[str, Any], Any]] = [
    ({"count": "age=5..9, mode=bike"}, lambda est: est.count("age=5..9, mode=bike")),
    (
        {"fraction": "age=5..9", "where": "mode=bus", "level": 0.5},
        lambda est: est.fraction("age=5..9", where="mode=bus", level=0.5),
    ),
    ({"mean": "age", "population": True}, lambda est: est.mean("age", population=True)),
    ({"total": "age", "where": "mode=bike"}, lambda est: est.total("age", where="mode=bike")),
    ({"histogram": "mode"}, lambda est: est.histogram("mode")),
    (
        {"histogram": "age", "bins": 4, "fraction": True, "where": "mode=bus"},
        lambda est: est.histogram("age", bins=4, fraction=True, where="mode=bus"),
    ),
    ({"histogram": "age", "band": True}, lambda est: est.histogram("age").band()),
    ({"cdf": "day"}, lambda est: est.cdf("day")),
    (
        {"cdf": "age", "fraction": False, "bins": 3},
        lambda est: est.cdf("age", fraction=False, bins=3),
    ),
    (
        {"heatmap": ["age", "mode"], "bins": [3, None]},
        lambda e: e.heatmap("age", "mode", bins=(3, None)),
    ),
    ({"heatmap": ["age", "day"], "bins": 2}, lambda est: est.heatmap("age", "day", bins=2)),
    ({"quantile": "day"}, lambda est: est.quantile("day", [0.25, 0.5, 0.75])),
    ({"quantile": "day", "at": 0.5}, lambda est: est.quantile("day", 0.5)),
    ({"quantile": "age", "at": [0.1, 0.9]}, lambda est: est.quantile("age", [0.1, 0.9])),
    (
        {"groups": "mode", "of": {"mean": "age"}, "where": "day=2024-01-01..2024-01-09"},
        lambda est: groups(
            est, "mode", lambda who: est.mean("age", where=who), where="day=2024-01-01..2024-01-09"
        ),
    ),
    (
        {"groups": "age", "of": {"fraction": "mode=bike"}, "bins": 2},
        lambda est: groups(est, "age", lambda who: est.fraction("mode=bike", where=who), bins=2),
    ),
    (
        {"difference": [{"count": "age=5..9"}, {"count": "age=..9", "where": "mode=bus"}]},
        lambda est: est.count("age=5..9") - est.count("age=..9", where="mode=bus"),
    ),
    (
        {"difference": [{"mean": "age"}, {"mean": "age"}]},
        lambda est: est.mean("age") - est.mean("age"),
    ),
]


@pytest.mark.parametrize("method", ["unbiased", pytest.param("likelihood", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("asked", "given"), CASES, ids=lambda one: json.dumps(one) if isinstance(one, dict) else ""
)
def test_every_kind_gives_what_the_library_gives(
    running: Running, asked: dict[str, Any], given: Any, method: str
) -> None:
    found = running.ask(**asked, method=method)
    assert found.status_code == 200, found.text
    expected = plain(given(estimate(method)))
    assert found.json()["answer"].keys() == expected.keys()
    for name, value in found.json()["answer"].items():
        if name in ("value", "values", "stderr", "low", "high"):
            np.testing.assert_allclose(
                np.array(value, float), np.array(expected[name], float), rtol=1e-9, atol=1e-7
            )
        else:
            assert value == expected[name], name


def table_of(found: Any) -> pa.Table:
    """The table in an answer."""
    if found.headers["Content-Type"].startswith("text/csv"):
        return csv.read_csv(io.BytesIO(found.content))
    return pa.ipc.open_stream(found.content).read_all()


@pytest.mark.parametrize("form", ["csv", "arrow"])
@pytest.mark.parametrize("by", ["format", "Accept"])
def test_answers_are_tables_too(running: Running, form: str, by: str) -> None:
    kind = {"csv": "text/csv", "arrow": "application/vnd.apache.arrow.stream"}[form]
    headers = running.headers("analyst")
    for asked, _ in CASES:
        found = running.http.post(
            f"{running.base}/ask?wait=60" + (f"&format={form}" if by == "format" else ""),
            json=asked,
            headers=headers | ({"Accept": f"text/html, {kind};q=0.9"} if by == "Accept" else {}),
        )
        assert (found.status_code, found.headers["Content-Type"].partition(";")[0]) == (200, kind)
        held, table = running.ask(**asked).json()["answer"], table_of(found)
        values = np.array(held["value"] if "value" in held else held["values"], dtype=float)
        column = table.column("value").to_numpy()
        np.testing.assert_allclose(column, values.ravel(), rtol=1e-9, atol=1e-7)
        assert {"stderr", "low", "high"} < set(table.column_names)
        if "labels" in held:
            names = list(itertools.product(*held["labels"]))
            assert table.column(held["axes"][0]).to_pylist() == [
                name[0] if form == "arrow" or not name[0].isdigit() else int(name[0])
                for name in names
            ] or held["axes"] == ["day"]
        if "written" in held:
            assert str(table.column("low_written")[0]) == held["written"][1]
        assert found.headers["Sfumato-Tally"] == "1"
        assert found.headers["Sfumato-Reports"] == "600"
        assert found.headers["Sfumato-Method"] == held["method"]
        assert int(found.headers["Sfumato-Entry"]) > 0
        if form == "arrow":
            said = json.loads(table.schema.metadata[b"sfumato"])
            assert (said["tally"], said["reports"], said["question"]) == (1, 600, asked)
            assert (said["notes"], said["study"]) == (held["notes"], trips().fingerprint)


def test_only_maps_of_places_are_geojson(running: Running) -> None:
    for asked in ({"count": "age=1"}, {"heatmap": ["age", "mode"]}):
        found = running.http.post(
            f"{running.base}/ask?format=geojson", json=asked, headers=running.headers("analyst")
        )
        assert (found.status_code, found.json()["code"]) == (400, "question")
        assert "GeoJSON needs the heat map of places" in found.json()["message"]


def test_a_form_must_be_known(running: Running) -> None:
    for form in ("xml", "", "CSV"):
        found = running.http.post(
            f"{running.base}/ask?format={form}",
            json={"count": "age=1"},
            headers=running.headers("analyst"),
        )
        assert (found.status_code, found.json()["code"]) == (400, "format")


class TestRefusals:
    def test_an_answer_has_only_so_many_numbers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(asking, "MOST_NUMBERS", 60)
        est = estimate("unbiased")
        read_question({"heatmap": ["age", "mode"], "bins": [19, None]}).put(est)
        for asked in (
            {"heatmap": ["age", "mode"]},
            {"heatmap": ["age", "day"], "bins": 10},
            {"heatmap": ["age", "day"], "bins": [None, 2]},
        ):
            with pytest.raises(TooLargeError, match="bins"):
                read_question(asked).put(est)
        with pytest.raises(QuestionError, match="no axis"):
            read_question({"histogram": "agee"}).put(est)

    def test_there_are_only_so_many_groups(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(grouping, "MOST_GROUPS", 4)
        est = estimate("unbiased")
        assert len(read_question({"groups": "age", "of": {"mean": "age"}, "bins": 4}).put(est)) == 4
        with pytest.raises(TooLargeError, match="bins=4"):
            read_question({"groups": "age", "of": {"mean": "age"}}).put(est)

    def test_a_difference_of_ratios_has_no_error_that_is_known(self, running: Running) -> None:
        pair = [{"mean": "age", "where": "mode=bike"}, {"mean": "age", "where": "mode=bus"}]
        found = running.ask(difference=pair)
        assert (found.status_code, found.json()["code"]) == (400, "question")
        assert "ratio" in found.json()["message"]


def test_groups_leave_out_what_where_leaves_out() -> None:
    est = estimate("unbiased")
    asked = {"groups": "age", "of": {"count": "mode=bike"}, "where": "age=5..7"}
    found = read_question(asked).put(est)
    assert found.labels == ["5", "6", "7"]
    expected = est.histogram("age", where="age=5..7, mode=bike")
    np.testing.assert_allclose(found.values, expected.values, atol=1e-8)
    np.testing.assert_allclose(found.stderr, expected.stderr, rtol=1e-8)


def test_every_kind_is_among_the_cases() -> None:
    assert {kind for asked, _ in CASES for kind in KINDS if kind in asked} == set(KINDS)


def test_the_same_question_of_the_same_tally_has_the_same_answer_and_another_entry(
    running: Running,
) -> None:
    first, second = (running.ask(mean="age", method="likelihood") for _ in range(2))
    assert first.json()["answer"] == second.json()["answer"]
    assert second.json()["entry"] == first.json()["entry"] + 1
