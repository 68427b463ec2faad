"""Designs of studies for the page: the study three times, errors to expect, and what is refused."""

from __future__ import annotations

import json
import math
import re
import shlex
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli import app
from sfumato.errors import SfumatoError
from sfumato.estimation.intervals import normal_quantile
from sfumato.service import designing
from sfumato.service.designing import design, example_shares

AGE = {
    "name": "age",
    "domain": {"kind": "integers", "low": 0, "high": 99},
    "protect": {"kind": "distance", "epsilon": 0.2},
    "unit": "years",
}
MODE = {
    "name": "how, mostly",
    "domain": {"kind": "categories", "labels": ["car", "on foot", "it's, well: a|b"]},
    "protect": {"kind": "uniform", "epsilon": "1/3"},
    "optional": True,
}
INCOME = {
    "name": "income",
    "domain": {"kind": "reals", "low": 0, "high": 60000.5, "bins": 12},
    "protect": {"kind": "distance", "epsilon": 1, "per": 10000, "no_answer": 20000, "cap": 4},
    "optional": True,
    "outside": "clip",
    "unit": "euros",
}
ROUNDED = {
    "name": "share",
    "domain": {"kind": "reals", "low": 0, "high": 1, "bins": 4, "rounding": "stochastic"},
    "protect": {"kind": "distance", "epsilon": 2},
}
EDGES = {
    "name": "size",
    "domain": {"kind": "reals", "edges": [0, 0.5, "5/3", 10]},
    "protect": {"kind": "uniform", "epsilon": 1},
}
DAY = {
    "name": "day",
    "domain": {"kind": "dates", "start": "2026-01-05", "end": "2026-03-01", "step": "1 week"},
    "protect": {"kind": "distance", "epsilon": 0.5, "per": "1 week"},
}
HOUR = {
    "name": "hour",
    "domain": {"kind": "times", "start": "00:00", "end": "24:00", "step": "2 hours"},
    "protect": {"kind": "uniform", "epsilon": 2},
}


def designed(*axes: dict[str, Any], people: int = 10_000, name: str = "A study") -> dict[str, Any]:
    return design({"name": name, "people": people, "axes": list(axes)})


@pytest.mark.slow
@pytest.mark.parametrize(
    "axes",
    [(AGE, MODE), (INCOME,), (ROUNDED,), (EDGES,), (DAY, HOUR)],
    ids=lambda axes: axes[0]["name"],
)
def test_the_study_is_the_same_as_a_file_in_python_and_as_a_command(
    axes: tuple[dict[str, Any], ...], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = designed(*axes)
    study = sf.Study.from_toml(found["study"])
    assert (study.fingerprint, study.people) == (found["fingerprint"], 10_000)
    held: dict[str, Any] = {}
    exec(found["python"], held)
    assert (tmp_path / "a-study.toml").read_text() == found["study"]
    assert held["study"] == study
    (tmp_path / "a-study.toml").unlink()
    words = shlex.split(found["command"])
    assert words[:3] == ["sfumato", "new", "a-study.toml"]
    assert CliRunner().invoke(app, words[1:], catch_exceptions=False).exit_code == 0
    assert (tmp_path / "a-study.toml").read_text() == found["study"]


def test_a_guarantee_is_said_in_the_words_of_the_library() -> None:
    (axis,) = designed(AGE)["axes"]
    age = sf.integers("age", 0, 99, protect=sf.Distance(0.2), unit="years")
    said = sf.Study("A study", [age], people=10_000).explain()
    flat = re.sub(r"\s+", " ", said)
    for line in (axis["guarantee"], *axis["words"], axis["reason"]):
        assert line in flat
    assert "differs by 5 years: a report is at most 2.7 times likelier" in axis["words"][1]
    assert (axis["channel"], axis["sends"]) == ("geometric", "one of 100 symbols")


@pytest.mark.parametrize("people", [1, 2, 5, 123_457])
def test_an_example_has_as_many_people_as_there_are(people: int) -> None:
    for axis in designed(AGE, MODE, people=people)["axes"]:
        example = axis["example"]
        assert sum(example["people"]) == people
        json.dumps(example, allow_nan=False)  # a few people have intervals too


def test_an_example_is_people_with_a_band_around_them() -> None:
    (axis,) = designed(MODE)["axes"]
    example = axis["example"]
    assert example["labels"] == [*MODE["domain"]["labels"], "no answer"]
    assert sum(example["people"]) == 10_000
    for low, people, high in zip(example["low"], example["people"], example["high"], strict=True):
        assert 0 <= low < people < high <= 10_000


def test_the_band_is_the_exact_error_of_unbiased_answers_where_these_are_expected() -> None:
    # Beyond a million people answers are unbiased. Their variances are estimated from a million
    # reports: Σ f² over people has a relative standard error of √(E f⁴ / (E f²)² / 10⁶) < 0.7 %
    # for the weights of k-ary response, whose two values have E f⁴ < 50 (E f²)²; four of them, and
    # half for the root.
    people = 4_000_000
    (axis,) = designed(MODE, people=people)["axes"]
    example = axis["example"]
    assert example["method"] == "unbiased"
    study = sf.Study.from_toml(designed(MODE, people=people)["study"])
    labels = [{MODE["name"]: label} for label in MODE["domain"]["labels"]]
    plan = study.expected_error(
        people,
        [*labels, {MODE["name"]: None}],
        prior={MODE["name"]: example_shares(study.axes[0])},
    )
    rows = [row for row in plan if row.kind == "asked"]
    exact = normal_quantile(0.95) * math.sqrt(np.mean([row.stderr**2 for row in rows]))
    assert example["reach"] == pytest.approx(exact, rel=0.014)
    four = designed(MODE, people=4 * people)["axes"][0]["example"]["reach"]
    assert four == pytest.approx(2 * example["reach"], rel=1e-9)


def wrong(**more: Any) -> dict[str, Any]:
    return AGE | more


@pytest.mark.parametrize(
    ("axis", "words"),
    [
        (wrong(domain={"kind": "integers", "low": 0, "high": 256}), "at most 256 cells"),
        (wrong(domain={"kind": "reals", "low": 0, "high": 1, "bins": 2**24}), "at most 256 cells"),
        (wrong(domain={"kind": "integers", "low": 9, "high": 0}), "low"),
        (wrong(domain={"kind": "nothing"}), "kind of domain is unknown"),
        (wrong(domain=[]), "needs domain of a known kind"),
        (wrong(protect={"kind": "matrix", "e": []}), "distance or uniform"),
        (wrong(protect={"kind": "distance", "epsilon": -1}), "epsilon must be positive"),
        (wrong(channel={"kind": "optimised"}), "without a channel"),
        (wrong(name=""), "the name of an axis must be a text of 1 to 100"),
        (wrong(name="a\u202eb"), "printable"),
        (wrong(name=None), "the name of an axis must be a text"),
        (wrong(unit="a, b"), "a unit must be a word"),
        (wrong(unit=7), "unit"),
        (wrong(optional="yes"), "must be true or false"),
        (wrong(more=1), "unknown entries"),
        ("age", "JSON object"),
    ],
)
def test_a_wrong_axis_is_refused_with_a_sentence(axis: Any, words: str) -> None:
    with pytest.raises(SfumatoError, match=words):
        designed(axis)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ([], "must be a JSON object"),
        ({"name": "x", "people": 1}, "name, people and axes"),
        ({"name": "x", "people": 1, "axes": [], "more": 1}, "name, people and axes"),
        ({"name": "x", "people": 0, "axes": [AGE]}, "people must be a whole number"),
        ({"name": "x", "people": 1e9, "axes": [AGE]}, "people must be a whole number"),
        ({"name": "x", "people": 10**10, "axes": [AGE]}, "at most 1,000,000,000"),
        ({"name": "x", "people": 1, "axes": []}, "1 to 6 axes"),
        ({"name": "x", "people": 1, "axes": [AGE] * 7}, "1 to 6 axes"),
        ({"name": "x", "people": 1, "axes": [AGE, AGE]}, "names must differ"),
        ({"name": "x" * 101, "people": 1, "axes": [AGE]}, "the name of the study"),
    ],
)
def test_a_wrong_design_is_refused_with_a_sentence(asked: Any, words: str) -> None:
    with pytest.raises(SfumatoError, match=words):
        design(asked)


PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
NUMBERS = PLAIN | st.sampled_from([0, 1, 9, 0.5, "1/3", "1 week", "2026-01-05", "00:00", "24:00"])
DOMAINS = st.dictionaries(
    st.sampled_from(["low", "high", "bins", "edges", "rounding", "start", "end", "step", "labels"]),
    NUMBERS | st.lists(NUMBERS, max_size=3),
    max_size=4,
)
TABLES = st.fixed_dictionaries(
    {
        "name": st.just("a") | PLAIN,
        "domain": st.builds(
            lambda held, kind: held | {"kind": kind},
            DOMAINS,
            st.sampled_from(["integers", "reals", "dates", "times", "categories"]) | PLAIN,
        ),
        "protect": st.fixed_dictionaries(
            {"kind": st.sampled_from(["distance", "uniform"]), "epsilon": NUMBERS},
            optional={"per": NUMBERS, "no_answer": NUMBERS, "cap": NUMBERS},
        ),
    },
    optional={"optional": PLAIN, "outside": PLAIN, "unit": PLAIN},
)


@pytest.mark.slow
@given(TABLES, NUMBERS)
def test_whatever_is_asked_is_designed_or_refused(table: dict[str, Any], people: Any) -> None:
    asked = json.loads(json.dumps({"name": "x", "people": people, "axes": [table]}))
    refused = ""
    try:
        assert design(asked)["axes"]
    except SfumatoError as error:
        refused = str(error)
    assert refused == "" or len(refused) > 15


def test_the_work_of_one_design_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    make = sf.Study.simulate_counts

    def counted(study: sf.Study, counts: Any, **more: Any) -> Any:
        drawn.append((study.shape, int(np.sum(counts))))
        return make(study, counts, **more)

    monkeypatch.setattr(sf.Study, "simulate_counts", counted)
    designed(AGE, HOUR, people=designing.MOST_PEOPLE)
    assert [shape for shape, _ in drawn] == [(100,), (12,)]
    assert all(n <= designing.MOST_SIMULATED for _, n in drawn)
