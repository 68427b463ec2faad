"""Whole records under one ε, and channels with options, from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from typer.testing import CliRunner, Result

import sfumato as sf
from sfumato.channels.choice import Choice
from sfumato.cli import app, designing
from sfumato.cli.commands import CommandError
from sfumato.cli.language import parse_choice, parse_protection

Run = Callable[..., Result]

AXES = ("--axis", "hour: integers 0..7", "--axis", "zone: integers 0..5")
WHOLE = ("--protect", "uniform 1")
AGE = ("--axis", "age: integers 0..9, distance 0.2")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.setenv("SFUMATO_CACHE", str(tmp_path / "cache"))

    def invoke(*arguments: object, ok: bool = True, **options: Any) -> Result:
        result = CliRunner().invoke(app, [str(word) for word in arguments], **options)
        assert not ok or result.exit_code == 0, result.output
        return result

    return invoke


def trips(channel: Choice | None = None) -> sf.Study:
    axes = [sf.integers("hour", 0, 7), sf.integers("zone", 0, 5)]
    return sf.Study("trips", axes, protect=sf.Uniform(1), channel=channel)


def people(count: int = 2_000) -> dict[str, list[int]]:
    rng = np.random.default_rng(3)
    hour = rng.binomial(7, 0.4, count)
    return {"hour": hour.tolist(), "zone": np.minimum(hour, rng.integers(0, 6, count)).tolist()}


# From the study to the answer


def test_new_writes_the_study_of_whole_records(run: Run) -> None:
    result = run("new", "trips.toml", *AXES, *WHOLE)
    assert sf.Study.load("trips.toml") == trips()
    assert result.stdout == f"{trips().explain()}\n\nWritten to trips.toml.\n"
    named = ("--channel", "hierarchical branching=2 oracle=hrr")
    run("new", "trips.toml", *AXES, *WHOLE, *named, "--force")
    assert sf.Study.load("trips.toml") == trips(sf.Hierarchical(2, "hrr"))


def test_json_shows_the_channel_above_the_axes(run: Run) -> None:
    named = ("--channel", "hierarchical branching=2")
    document = json.loads(run("new", "trips.toml", *AXES, *WHOLE, *named, "--json").stdout)
    assert document["protect"] == {"kind": "uniform", "epsilon": 1}
    assert document["channel"] == {"kind": "hierarchical", "revision": 2, "branching": 2}
    assert [(axis["protect"], axis["channel"]) for axis in document["axes"]] == [(None, None)] * 2
    told = json.loads(run("explain", "trips.toml", "--json").stdout)
    assert {k: told[k] for k in document if k != "file"} == {
        k: v for k, v in document.items() if k != "file"
    }
    chosen = json.loads(run("new", "b.toml", *AXES, *WHOLE, "--json").stdout)
    assert chosen["channel"]["kind"] == "comb"
    assert "times smaller than that of" in chosen["reason"]


def test_a_study_of_one_axis_may_state_its_guarantee_for_all(run: Run) -> None:
    run("new", "a.toml", "--axis", "hour: integers 0..7", *WHOLE, "--channel", "hrr")
    axis = sf.integers("hour", 0, 7, protect=sf.Uniform(1), channel=sf.HRR())
    assert sf.Study.load("a.toml") == sf.Study("a", [axis])


@pytest.mark.slow
def test_whole_records_go_from_people_to_answers(run: Run) -> None:
    table = people()
    pa.csv.write_csv(pa.table(table), "people.csv")
    run("new", "trips.toml", *AXES, *WHOLE)
    study = sf.Study.load("trips.toml")
    run("encode", "trips.toml", "people.csv", "--out", "reports.parquet", "--seed", 4)
    run("tally", "trips.toml", "reports.parquet", "--out", "tally.parquet")
    tally = sf.Tally.load("tally.parquet", study)
    assert tally == study.simulate(table, seed=4)

    est = tally.estimate()
    asked = ("hour=2..5, zone=0..2", "zone=4..")
    answers = json.loads(
        run("ask", "trips.toml", "tally.parquet", *asked, "--mean", "hour", "--json").stdout
    )["answers"]
    assert [a["value"] for a in answers] == pytest.approx(
        [*(est.count(q).value for q in asked), est.mean("hour").value]
    )
    shown = run("quantile", "trips.toml", "tally.parquet", "hour", "0.5").stdout
    assert str(est.quantile("hour", 0.5)) in shown
    drawn = run("histogram", "trips.toml", "tally.parquet", "zone", "--json").stdout
    assert json.loads(drawn)["values"] == pytest.approx(est.histogram("zone").values.tolist())
    run("heatmap", "trips.toml", "tally.parquet", "hour", "zone", "--plot", "map.png")
    assert Path("map.png").read_bytes().startswith(b"\x89PNG")

    simulated = ("simulate", "trips.toml", "people.csv", "--seed", 4, "--ask", asked[0], "--json")
    assert json.loads(run(*simulated).stdout)["answers"][0]["value"] == answers[0]["value"]


@pytest.mark.slow
def test_whole_records_are_audited_planned_and_compared(run: Run) -> None:
    run("new", "trips.toml", *AXES, *WHOLE)
    (row,) = json.loads(run("audit", "trips.toml", "--json").stdout)["axes"]
    assert (row["axis"], row["channel"], row["holds"]) == ("hour, zone", "comb", True)
    plan = ("plan", "trips.toml", "--people", 5_000, "--ask", "hour=2..5, zone=1..3")
    document = json.loads(run(*plan, "--want", 0.02, "--json").stdout)
    expected = trips().expected_error(5_000, "hour=2..5, zone=1..3").to_dict()
    assert document["rows"] == expected["rows"]
    (wanted,) = document["wanted"]
    assert wanted["epsilon"] == {"record": wanted["epsilon_factor"]}
    compared = ("compare", "trips.toml", "--people", 5_000, "--method", "unbiased")
    found = json.loads(run(*compared, "--json").stdout)
    assert found == trips().compare(5_000, methods=["unbiased"]).to_dict()
    assert "chosen, best" in run(*compared).stdout


def test_the_interview_offers_one_guarantee_for_whole_records(run: Run) -> None:
    protection = ["hole", "whole", "0", "1"]
    hour = ["hour", "integers", "0", "7", "n", "n"]
    zone = ["zone", "integers", "0", "5", "n", "n"]
    lines = ["trips", *protection, *hour, *zone, "", "", "y", ""]
    result = run("new", "new.toml", input="\n".join(lines))
    assert sf.Study.load("new.toml") == trips()
    assert "did you mean 'whole'?" in result.stderr
    assert "epsilon must be positive" in result.stderr
    assert "As a flag: --protect 'uniform 1'" in result.stderr
    assert "As a flag: --axis 'hour: integers 0..7'" in result.stderr


# Some axes together


def seats() -> sf.Study:
    place = [sf.integers("hour", 0, 7), sf.integers("zone", 0, 5)]
    age = sf.integers("age", 0, 9, protect=sf.Distance(0.2))
    return sf.Study("seats", [sf.together(place, protect=sf.Uniform(1), channel=sf.HRR()), age])


def test_new_puts_axes_under_one_guarantee(run: Run) -> None:
    hour, zone = AXES[:2], AXES[2:]
    together = ("--together", "hour, zone: uniform 1, channel hrr")
    run("new", "seats.toml", *hour, *AGE, *zone, *together)
    assert sf.Study.load("seats.toml") == seats()
    document = json.loads(run("explain", "seats.toml", "--json").stdout)
    assert document["protect"] is None
    assert document["together"] == [
        {
            "axes": ["hour", "zone"],
            "protect": {"kind": "uniform", "epsilon": 1},
            "channel": {"kind": "hrr", "revision": 2},
            "reason": "",
        }
    ]
    assert [axis["protect"] is None for axis in document["axes"]] == [True, True, False]


def test_mixed_groups_are_audited_planned_and_asked(run: Run) -> None:
    run("new", "seats.toml", *AXES, *AGE, "--together", "hour, zone: uniform 1, channel hrr")
    table = people() | {"age": [k % 10 for k in range(2_000)]}
    pa.csv.write_csv(pa.table(table), "people.csv")
    run("encode", "seats.toml", "people.csv", "--out", "r.parquet", "--seed", "3")
    run("tally", "seats.toml", "r.parquet", "--out", "t.parquet")
    words = ("ask", "seats.toml", "t.parquet", "hour=0..3, age=0..4", "--method", "unbiased")
    answer = json.loads(run(*words, "--json").stdout)["answers"][0]
    reports = seats().encode(table, bits=sf.SeededBits(3))
    expected = seats().tally(reports).estimate("unbiased").count("hour=0..3, age=0..4")
    assert (answer["value"], answer["stderr"]) == (expected.value, expected.stderr)
    assert json.loads(run("audit", "seats.toml", "--json").stdout)["holds"]
    planned = json.loads(run("plan", "seats.toml", "--people", "2000", "--json").stdout)
    assert planned == json.loads(json.dumps(seats().expected_error(2_000).to_dict())) | {
        "wanted": [],
        "bins": {},
    }


def test_groups_need_axes(run: Run) -> None:
    result = run("new", "a.toml", "--together", "hour, zone: uniform 1", ok=False)
    assert "--together names axes; describe every axis with --axis" in result.stderr


def test_the_interview_offers_one_guarantee_for_some_axes(run: Run) -> None:
    hour = ["hour", "y", "integers", "0", "7", "n", "n"]
    zone = ["zone", "", "integers", "0", "5", "n", "n"]
    age = ["age", "n", "integers", "0", "9", "distance", "1", "0.2", "n", "n", "automatic"]
    lines = ["seats", "some", *hour, *zone, *age, "", "1", "", "y", ""]
    result = run("new", "new.toml", input="\n".join(lines))
    assert "As a flag: --together 'hour, zone: uniform 1'" in result.stderr
    run("new", "same.toml", "--name", "seats", *AXES, *AGE, "--together", "hour, zone: uniform 1")
    assert sf.Study.load("new.toml") == sf.Study.load("same.toml")


def test_a_channel_of_the_study_serves_every_axis_that_names_none(run: Run) -> None:
    axes = ("--axis", "a: integers 0..3, uniform 1", "--axis", "b: integers 0..3, uniform 1")
    run("new", "a.toml", *axes, "--channel", "hrr")
    assert [axis.channel for axis in sf.Study.load("a.toml").axes] == [sf.HRR(), sf.HRR()]


# Channels with options


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("comb", sf.Comb()),
        ("olh g=5", sf.OLH(5)),
        ("square-wave width=3", sf.SquareWave(3)),
        ("thermometer variant=published", sf.Thermometer("published")),
        (
            "hierarchical oracle=best consistency=false levels=1/2|0.25|0.25",
            sf.Hierarchical(oracle="best", consistency=False, levels=["1/2", "1/4", "1/4"]),
        ),
        ("haar-hrr levels=optimised", sf.HaarHRR("optimised")),
        (" optimised  workload=cells outputs=20 ", sf.Optimised("cells", 20)),
    ],
)
def test_options_are_those_of_the_python_call(text: str, choice: Choice) -> None:
    assert parse_choice(text, "channel") == choice


def test_a_guarantee_is_read_exactly() -> None:
    assert parse_protection(" uniform  1/3 ") == sf.Uniform("1/3")
    for text in ("uniform", "distance 1", "uniform 1 2", ""):
        with pytest.raises(CommandError, match="'uniform EPSILON'"):
            parse_protection(text)


class Seen:
    """Stands in for the bar, and keeps what it was told."""

    def __init__(self) -> None:
        self.shares: list[float] = []

    def __call__(self, doing: str) -> Seen:
        return self

    def __enter__(self) -> Callable[..., None]:
        return lambda done, total: self.shares.append(done / total)

    def __exit__(self, *_: object) -> None:
        pass


@pytest.mark.slow
def test_a_search_for_a_channel_shows_how_far_it_is(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Seen()
    monkeypatch.setattr(designing.showing, "progress", seen)
    axis = ("--axis", "grade: integers 1..6, uniform 1, channel optimised workload=cells")
    run("new", "grades.toml", *axis)
    assert len(seen.shares) > 1
    assert seen.shares == sorted(seen.shares)
    assert sf.Study.load("grades.toml").blocks[0].choice.id == "optimised"
    seen.shares.clear()
    small = ("--axis", "a: integers 0..2", "--axis", "b: integers 0..2")
    run("new", "small.toml", *small, *WHOLE, "--channel", "optimised workload=cells")
    assert len(seen.shares) > 1
    assert sf.Study.load("small.toml").blocks[0].choice.options()["table"]


# Bad input


def one(channel: str, cells: str = "0..255") -> tuple[str, ...]:
    return ("--axis", f"a: integers {cells}, uniform 1, channel {channel}")


REFUSED: list[tuple[tuple[str, ...], list[str]]] = [
    (one("hierarchical branching=1"), ["'a'", "branching", "2 or more", "branching=1"]),
    (one("hierarchical oracle=ohl"), ["'a'", "unknown oracle 'ohl'", "did you mean 'olh'?"]),
    (one("hierarchical oracle=oue", "0..99999"), ["'a'", "131,072 bits", "Use oracle='olh'"]),
    (one("hierarchical levels=0.5|0.4"), ["'a'", "must sum to 1", "0.9"]),
    (one("hierarchical levels=0.5|0.5"), ["'a'", "one chance per level: 4", "got 2"]),
    (one("haar-hrr levels=0.5|0.6"), ["must sum to 1", "1.1"]),
    (one("optimised", "0..299"), ["'a'", "limit of 256", "Use Comb()"]),
    (one("square-wave", "0..9999"), ["'a'", "10000", "GiB", "Use Hierarchical()"]),
    (one("comb", "0..99999"), ["'a'", "GiB", "Hierarchical()"]),
    (one("hierarchical", "0..5000000"), ["'a'", "GiB", "Use fewer cells"]),
    (one("olh g=4"), ["'a'", "g must be a prime", "g=4"]),
    (one("olh h=4"), ["'a'", "no option 'h'", "'g'"]),
    (one("comb teeth=3"), ["'a'", "takes no options"]),
    (one("olh g 5"), ["write OPTION=VALUE", "'g'"]),
    (one("olh g=5 g=7"), ["'g' once"]),
    (one("rake"), ["'a'", "unknown channel 'rake'"]),
    ((*AXES, *WHOLE, "--channel", "hierarchical branching=1"), ["branching=1"]),
    ((*AXES, *WHOLE, "--channel", "hierarchical oracle=ole"), ["unknown oracle 'ole'"]),
    ((*AXES, *WHOLE, "--channel", "hierarchical levels=0.5|0.4"), ["must sum to 1"]),
    ((*AXES, *WHOLE, "--channel", "combs"), ["unknown channel 'combs'", "mean 'comb'?"]),
    ((*AXES, *WHOLE, "--channel", "geometric"), ["Geometric", "does not fit"]),
    ((*AXES, "--channel", "comb"), ["'hour'", "nothing about protection"]),
    ((*AGE, "--channel", "hrr"), ["axis 'age'", "HRR", "does not fit"]),
    ((*AXES, "--together", "hour, zone"), ["NAME, NAME: uniform EPSILON"]),
    ((*AXES, "--together", "hour: uniform 1"), ["NAME, NAME: uniform EPSILON"]),
    (
        (*AXES, "--together", "hour, zones: uniform 1"),
        ["'zones', which is not an axis", "mean 'zone'?"],
    ),
    ((*AXES, "--together", "hour, hour: uniform 1"), ["'hour' once"]),
    ((*AXES, "--together", "hour, zone: distance 1"), ["'uniform EPSILON'"]),
    ((*AXES, "--together", "hour, zone: uniform 1, channel geometric"), ["does not fit"]),
    ((*AXES[:2], *AGE, "--together", "hour, age: uniform 1"), ["'age' must not name protect"]),
    ((*AXES, "--protect", "uniform 0"), ["epsilon must be positive"]),
    ((*AXES, "--protect", "distance 1"), ["'uniform EPSILON'", "got 'distance 1'"]),
    (AXES, ["'hour'", "nothing about protection"]),
    (("--axis", "b: integers 0..3", *one("hrr"), *WHOLE), ["'a' must not state its own"]),
    (
        ("--axis", "b: integers 0..3", "--axis", "a: integers 0..3, channel hrr", *WHOLE),
        ["'a' must not name its own"],
    ),
    (
        (
            *("--axis", "a: integers 0..2999", "--axis", "b: integers 0..2999"),
            *(*WHOLE, "--channel", "comb"),
        ),
        ["3000 × 3000 cells", "GiB", "Hierarchical()"],
    ),
]


@pytest.mark.parametrize(("words", "parts"), REFUSED, ids=[" ".join(case[0]) for case in REFUSED])
def test_a_refusal_is_one_line_and_nothing_is_written(
    run: Run, tmp_path: Path, words: tuple[str, ...], parts: list[str]
) -> None:
    result = run("new", "new.toml", *words, ok=False)
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    for part in parts:
        assert part in result.stderr
    as_json = run("new", "new.toml", *words, "--json", ok=False)
    assert json.loads(as_json.stdout) == {"error": result.stderr.removeprefix("error: ").rstrip()}
    assert not list(tmp_path.glob("*.toml"))
