"""The commands release and ledger do what the Python calls do, and never show a person's value."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

import sfumato as sf
from sfumato import central
from sfumato.cli import app

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command in a folder with a study, people and a ledger."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "140")
    study = sf.Study(
        "commute",
        [
            sf.integers("age", 0, 19, protect=sf.Distance(0.5)),
            sf.categories("mode", ["car", "bus"], protect=sf.Uniform(1), optional=True),
        ],
    )
    study.save("commute.toml")
    rng = np.random.default_rng(5)
    modes = rng.choice(np.array(["car", "bus", None], dtype=object), 500).tolist()
    table = pa.table({"name": ["x"] * 500, "age": rng.integers(0, 20, 500), "mode": modes})
    pa.csv.write_csv(table, "people.csv")
    pq.write_table(table, "people.parquet")
    central.Ledger.create("commute.ledger", study)

    def invoke(*arguments: object, ok: bool = True, **options: Any) -> Result:
        result = CliRunner().invoke(app, [str(word) for word in arguments], **options)
        assert not ok or result.exit_code == 0, result.output
        return result

    return invoke


RELEASE = ("release", "commute.toml", "people.csv", "--ledger", "commute.ledger")
ASK = ("--ask", "age=2..4")


@pytest.mark.slow
def test_release_prints_answers_cost_and_what_is_left(run: Run) -> None:
    shown = run(*RELEASE, "--spend", "1/4", *ASK, "--ask", "age=5.., mode=car").stdout
    assert "age=2..4" in shown
    assert "95% interval" in shown
    assert "500 people of study 'commute'." in shown
    assert "Spent 1/4 of E, entry 1 of commute.ledger." in shown
    assert "Left of E: 3/4." in shown
    ledger = central.Ledger.load("commute.ledger")
    assert [entry.state for entry in ledger.entries] == ["released"]


def test_release_with_a_seed_is_the_python_call_and_warns(run: Run) -> None:
    result = run(*RELEASE, "--spend", "age=1/4", *ASK, "--seed", 3, "--json")
    document = json.loads(result.stdout)
    assert "protects nobody" in result.stderr
    study = sf.Study.load("commute.toml")
    data = central.Data(study, pa.parquet.read_table("people.parquet"))
    prepared = central.Laplace(["age=2..4"]).prepare(central.Space(study, {"age": "1/4"}), 500)
    wanted = prepared.run(data.counts(), sf.SeededBits(3)).answers
    assert document["answers"]["values"] == wanted.values.tolist()
    assert document["answers"]["stderr"] == wanted.stderr.tolist()
    assert document["secure"] is False
    assert document["remaining"] == 0.75
    assert document["spent"] == "age: 1/4 of E"


def test_release_writes_a_file_that_reads_back(run: Run) -> None:
    options = ("--workload", "ranges of age", "--strategy", "prefix", "--out", "ages.json")
    shown = run(*RELEASE, "--spend", "1/8", *options).stdout
    assert "… and 180 more; --out and --json have them all." in shown
    assert "Written to ages.json." in shown
    made = central.Release.load("ages.json")
    assert len(made) == 210
    assert made.mechanism == "Laplace noise on 'ranges of age', measured by the prefix strategy"
    again = run(*RELEASE, "--spend", "1/8", *options, ok=False)
    assert again.exit_code == 2
    assert "exists" in again.stderr
    assert len(central.Ledger.load("commute.ledger").entries) == 1  # refused before it was entered


def test_release_of_means_and_of_a_synthetic_table(run: Run) -> None:
    shown = run(*RELEASE, "--spend", "1/8", "--mean", "age").stdout
    assert "mean of age" in shown
    assert "Spent age: 1/8 of E" in shown
    options = ("--mechanism", "mwem", "--rounds", 3, "--workload", "cells of age")
    document = json.loads(run(*RELEASE, "--spend", "1/8", *options, "--json").stdout)
    assert len(document["synthetic"]) == 20
    assert document["answers"]["stderr"] == [None] * 20


@pytest.mark.slow
def test_release_plan_spends_nothing(run: Run) -> None:
    options = ("--spend", "1/4", "--workload", "ranges of age", "--plan")
    shown = run("release", "commute.toml", "people.csv", *options).stdout
    plan = central.plan(sf.Study.load("commute.toml"), ["ranges of age"], 500, "1/4")
    assert shown.index("Laplace, prefix") < shown.index("Laplace, haar")
    assert plan.caption() in shown
    document = json.loads(run("release", "commute.toml", "people.csv", *options, "--json").stdout)
    assert [option["name"] for option in document["options"]] == [option.name for option in plan]
    assert central.Ledger.load("commute.ledger").entries == ()


def test_an_overspend_is_refused_and_leaves_everything_as_it_was(run: Run) -> None:
    run(*RELEASE, "--spend", "3/4", *ASK)
    before = Path("commute.ledger").read_bytes()
    result = run(*RELEASE, "--spend", "1/2", *ASK, "--out", "a.json", ok=False)
    assert result.exit_code == 2
    assert "age has 1/4 of E left" in result.stderr
    assert Path("commute.ledger").read_bytes() == before
    assert not Path("a.json").exists()
    as_json = run(*RELEASE, "--spend", "1/2", *ASK, "--json", ok=False)
    assert "1/4 of E left" in json.loads(as_json.stdout)["error"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*RELEASE, "--spend", "1/4"), "ask something"),
        ((*RELEASE, "--spend", "1/4", *ASK, "--mean", "age"), "--mean AXIS alone"),
        ((*RELEASE[:3], "--spend", "1/4", *ASK), "entered in a ledger; name it with --ledger"),
        ((*RELEASE, "--spend", "lots", *ASK), "--spend is a share above 0 such as 1/4"),
        ((*RELEASE, "--spend", "agee=1/4", *ASK), "did you mean 'age'"),
        ((*RELEASE, "--spend", "age=1/4,age=1/8", *ASK), "each axis once"),
        ((*RELEASE, "--spend", "age=1/4,=1/8", *ASK), "age=1/4,sex=1/8"),
        ((*RELEASE, "--spend", "mode=1/4", *ASK), "spends nothing"),
        ((*RELEASE, "--spend", "1/4", "--ask", "agee=1"), "no axis 'agee'"),
        ((*RELEASE, "--spend", "1/4", *ASK, "--mechanism", "mwm"), "did you mean 'mwem'"),
        ((*RELEASE, "--spend", "1/4", *ASK, "--strategy", "prefixx"), "did you mean 'prefix'"),
        ((*RELEASE, "--spend", "1/4", *ASK, "--rounds", 3), "--rounds is for mwem only"),
        ((*RELEASE, "--spend", "1/4", "--mean", "age", "--plan"), "--plan compares mechanisms"),
        ((*RELEASE, "--spend", "1/4", *ASK, "--out", "a.csv"), "must end in .json"),
        (("release", "commute.toml", "none.csv", *RELEASE[3:], "--spend", 1, *ASK), "no file"),
        ((*RELEASE[:3], "--ledger", "none.ledger", "--spend", 1, *ASK), "there is no ledger"),
        ((*RELEASE[:3], "--ledger", "ledger.json", "--spend", 1, *ASK), "must end in .ledger"),
        (("ledger", "shw", "commute.ledger"), "did you mean 'show'"),
        (("ledger", "new", "two.ledger"), "needs a study"),
        (("ledger", "new", "commute.ledger", "commute.toml"), "already"),
        (("ledger", "new", "two.ledger", "commute.toml", "--total", "0"), "total must be positive"),
        (("ledger", "show", "people.csv"), "must end in .ledger"),
    ],
)
def test_refusals_are_one_line_and_cost_nothing(
    run: Run, arguments: tuple[object, ...], words: str
) -> None:
    result = run(*arguments, ok=False)
    assert result.exit_code == 2
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert central.Ledger.load("commute.ledger").entries == ()


def test_a_value_out_of_bounds_is_refused_by_its_row_alone(run: Run) -> None:
    Path("bad.csv").write_text("age,mode\n3,car\n4321,bus\n", encoding="utf-8")
    options = ("--ledger", "commute.ledger", "--spend", 1, *ASK)
    result = run("release", "commute.toml", "bad.csv", *options, ok=False)
    assert result.exit_code == 2
    assert "row 2" in result.stderr
    assert "4321" not in result.output
    Path("bad.csv").write_text("age,mode\n", encoding="utf-8")
    assert "at least one person" in run(
        "release", "commute.toml", "bad.csv", *options, ok=False
    ).stderr  # fmt: skip


def test_a_ledger_is_made_and_shown(run: Run) -> None:
    shown = run("ledger", "new", "two.ledger", "commute.toml", "--total", "2").stdout
    assert "Ledger of study 'commute': 2 times E may be spent in all." in shown
    assert "Written to two.ledger." in shown
    run(*RELEASE, "--spend", "1/4", *ASK)
    shown = run("ledger", "show", "commute.ledger").stdout
    assert "1. " in shown
    assert "Laplace noise on 'age=2..4'; spent age: 1/4 of E" in shown
    assert "Left of E: 3/4 for age, 1 for mode." in shown
    document = json.loads(run("ledger", "show", "commute.ledger", "--json").stdout)
    assert document["used"] == {"age": 0.25, "mode": 0}
    assert document["entries"][0]["state"] == "released"


def test_a_name_ties_the_ledger_to_one_table(run: Run) -> None:
    named = (*RELEASE, "--spend", "1/8", *ASK, "--name")
    run(*named, "spring")
    refused = run(*named, "autumn", ok=False)
    assert refused.exit_code != 0
    assert "belongs to table 'spring'" in refused.output
    assert "table 'spring'" in run("ledger", "show", "commute.ledger").stdout
    assert len(central.Ledger.load("commute.ledger").entries) == 1


def test_a_key_ties_the_ledger_to_one_table(run: Run) -> None:
    Path("secret.key").write_bytes(bytes(range(32)))
    keyed = (*RELEASE, "--spend", "1/8", *ASK, "--key", "secret.key")
    run(*keyed)
    run(*(word if word != "people.csv" else "people.parquet" for word in keyed))  # the same people
    lines = Path("people.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    Path("people.csv").write_text("".join(lines[:-1]), encoding="utf-8")
    refused = run(*keyed, ok=False)
    assert "belongs to table 'hmac-sha256:" in refused.output
    for key, words in (("none.key", "No such file"), ("people.csv", "more than 4096 bytes")):
        assert words in run(*keyed[:-1], key, ok=False).output
    assert len(central.Ledger.load("commute.ledger").entries) == 2


def test_release_draws_its_answers(run: Run) -> None:
    shown = run(*RELEASE, "--spend", "1/8", "--workload", "cells of mode", "--plot", "a.svg").stdout
    assert "Drawn in a.svg." in shown
    assert "from 500 people" in Path("a.svg").read_text()
    told = json.loads(run(*RELEASE, "--spend", "1/8", *ASK, "--plot", "b.html", "--json").stdout)
    assert told["plot"] == "b.html"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--plot", "a.bmp"), "picture"),
        (("--plot", "a.svg", "--plan"), "leave out --out and --plot"),
        (("--out", "a.json", "--plan"), "leave out --out and --plot"),
    ],
)
def test_a_picture_that_cannot_be_drawn_costs_nothing(
    run: Run, options: tuple[str, ...], said: str
) -> None:
    result = run(*RELEASE, "--spend", "1/8", *ASK, *options, ok=False)
    assert result.exit_code == 2
    assert said in result.stderr
    assert not central.Ledger.load("commute.ledger").entries


def test_a_picture_without_its_library_costs_nothing(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run(*RELEASE, "--spend", "1/8", *ASK, "--plot", "a.png", ok=False)
    assert result.exit_code == 2
    assert "needs matplotlib" in result.stderr
    assert not central.Ledger.load("commute.ledger").entries
