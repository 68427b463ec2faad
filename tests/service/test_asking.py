"""Questions as JSON: all kinds give what the library gives, in every form; others are refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from helpers_service import TODAY, fresh_ids
from test_app import Running

import sfumato as sf
from sfumato.device.wire import Batch
from sfumato.estimation.answers import Answer, Answers
from sfumato.estimation.groups import groups
from sfumato.service.asking import KINDS


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


def test_every_kind_is_among_the_cases() -> None:
    assert {kind for asked, _ in CASES for kind in KINDS if kind in asked} == set(KINDS)


def test_the_same_question_of_the_same_tally_has_the_same_answer_and_another_entry(
    running: Running,
) -> None:
    first, second = (running.ask(mean="age", method="likelihood") for _ in range(2))
    assert first.json()["answer"] == second.json()["answer"]
    assert second.json()["entry"] == first.json()["entry"] + 1
