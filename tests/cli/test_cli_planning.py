"""The commands plan and compare say what the Python calls say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import sfumato as sf
from sfumato.cli import app

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "140")

    def invoke(*arguments: object, ok: bool = True, **options: Any) -> Result:
        result = CliRunner().invoke(app, [str(word) for word in arguments], **options)
        assert not ok or result.exit_code == 0, result.output
        return result

    return invoke


@pytest.fixture
def study(tmp_path: Path) -> sf.Study:
    made = sf.Study(
        "commute",
        [
            sf.integers("age", 0, 9, protect=sf.Distance(0.8), unit="years"),
            sf.reals("income", 0, 100, bins=8, protect=sf.Distance(1, per=10)),
        ],
    )
    made.save(tmp_path / "commute.toml")
    return made


PLAN = ("plan", "commute.toml", "--people", 5_000)


@pytest.mark.slow
def test_plan_prints_the_table_of_the_plan(run: Run, study: sf.Study) -> None:
    shown = run(*PLAN, "--ask", "age=2..4", "--level", 0.9).stdout
    plan = study.expected_error(5_000, ["age=2..4"], level=0.9)
    for row in plan:
        line = next(line for line in shown.splitlines() if line.strip().startswith(row.question))
        assert [cell for cell in plan.cells(row) if cell and cell not in line] == []
    assert "people spread evenly; errors are exact" in shown


@pytest.mark.slow
def test_plan_as_json_is_the_plan(run: Run, study: sf.Study) -> None:
    document = json.loads(run(*PLAN, "--ask", "age=2..4", "--prior", "worst", "--json").stdout)
    expected = study.expected_error(5_000, ["age=2..4"], prior="worst").to_dict()
    assert document["rows"] == expected["rows"]
    assert document["bins"]["income"]["now"] == 8
    best = sf.plan_bins(0, 100, sf.Distance(1, per=10), 5_000).bins
    assert document["bins"]["income"]["bins"] == best
    assert f"8 now; {best} would be best" in run(*PLAN).stdout


@pytest.mark.slow
def test_plan_reads_a_prior_from_a_file(run: Run, study: sf.Study) -> None:
    Path("counts.csv").write_text("age,income,count\n3,5,40\n7,95,60\n", encoding="utf-8")
    document = json.loads(run(*PLAN, "--prior", "counts.csv", "--json").stdout)
    counts = np.zeros((10, 8))
    counts[3, 0], counts[7, 7] = 40, 60
    assert document["rows"] == study.expected_error(5_000, prior=counts).to_dict()["rows"]


@pytest.mark.slow
def test_plan_says_what_a_wanted_error_takes(run: Run, study: sf.Study) -> None:
    words = (*PLAN, "--ask", "age=2..4", "--want", 0.01)
    line = json.loads(run(*words, "--json").stdout)["wanted"][0]
    assert line["people"] == sf.people_for(study, 0.01, "age=2..4")
    assert line["epsilon_factor"] == sf.epsilon_for(study, 5_000, 0.01, "age=2..4")
    assert line["epsilon"]["age"] == pytest.approx(0.8 * line["epsilon_factor"])
    shown = run(*words).stdout
    assert "at most 1.0% in the row 'age=2..4' (column share)" in shown
    assert f": {line['people']:,} people; or 5,000 people with every epsilon times" in shown
    again = run("plan", "commute.toml", "--people", line["people"], "--ask", "age=2..4").stdout
    assert "1.0%" in next(row for row in again.splitlines() if "age=2..4" in row)


@pytest.mark.slow
def test_a_wanted_error_without_a_question_is_that_of_rows_in_the_table(
    run: Run, study: sf.Study
) -> None:
    line = json.loads(run(*PLAN, "--want", 0.01, "--json").stdout)["wanted"][0]
    assert line["question"] == "age: a random range and income: a random range"
    plan = study.expected_error(line["people"])
    shares = [plan[row].share for row in line["question"].split(" and ")]
    assert max(share for share in shares if share is not None) == pytest.approx(0.01, rel=1e-3)


@pytest.mark.slow
def test_a_wanted_error_of_likelihood_answers_is_the_simulated_one(
    run: Run, study: sf.Study
) -> None:
    sf.Study("ages", [study.axes[0]]).save("ages.toml")
    words = ("plan", "ages.toml", "--people", 300, "--method", "likelihood", "--runs", 2, "--json")
    line = json.loads(run(*words, "--ask", "age=2..4", "--want", 0.05).stdout)["wanted"][0]
    words = (*words[:3], line["people"], *words[4:], "--ask", "age=2..4")
    row = json.loads(run(*words).stdout)["rows"][-1]
    assert (row["how"], row["question"]) == ("simulated", "age=2..4")
    # Two runs have a standard error of half of what they find: most of 12 tries are near enough.
    assert 0.03 <= row["share"] <= 0.05


@pytest.mark.slow
def test_plan_draws(run: Run, study: sf.Study) -> None:
    shown = run(*PLAN, "--plot", "plan.svg").stdout
    assert "Drawn in plan.svg." in shown
    assert "<svg" in Path("plan.svg").read_text(encoding="utf-8")
    assert "exists" in run(*PLAN, "--plot", "plan.svg", ok=False).output
    assert "must end in" in run(*PLAN, "--plot", "plan.doc", ok=False).output


def test_plan_by_likelihood_says_what_would_be_reported(run: Run, study: sf.Study) -> None:
    study = sf.Study("ages", [study.axes[0]])
    study.save("ages.toml")
    words = ("plan", "ages.toml", "--people", 500, "--method", "likelihood", "--runs", 2)
    document = json.loads(run(*words, "--json").stdout)
    assert {row["how"] for row in document["rows"]} == {"simulated"}
    expected = study.expected_error(500, method="likelihood", runs=2).to_dict()
    assert document["rows"] == expected["rows"]
    assert "as reported" in run(*words).stdout


def test_compare_is_the_comparison(run: Run, study: sf.Study) -> None:
    words = ("compare", "commute.toml", "--people", 5_000, "--method", "unbiased")
    document = json.loads(run(*words, "--json").stdout)
    assert document == study.compare(5_000, methods=["unbiased"]).to_dict()
    shown = run(*words).stdout
    assert "chosen, best" in shown
    assert "thermometer" in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("plan", "commute.toml", "--people", 0), "at least one person, got n=0"),
        (("compare", "commute.toml", "--people", -3), "at least one person, got n=-3"),
        ((*PLAN, "--ask", "height=3"), "no axis 'height'"),
        ((*PLAN, "--prior", "round"), "--prior must be flat, worst or a .csv"),
        ((*PLAN, "--prior", "nowhere.csv"), "nowhere.csv"),
        ((*PLAN, "--method", "magic"), "method must be"),
        ((*PLAN, "--want", 2), "between 0 and 1"),
        ((*PLAN, "--method", "likelihood", "--prior", "worst"), "unbiased answers only"),
        (("compare", "commute.toml", "--people", 5, "--method", "magic"), "method must be"),
    ],
)
def test_refusals_are_one_line(
    run: Run, study: sf.Study, words: tuple[object, ...], message: str
) -> None:
    result = run(*words, ok=False)
    assert result.exit_code == 2
    assert message in result.output
    assert len(result.output.strip().splitlines()) == 1
    assert message in json.loads(run(*words, "--json", ok=False).stdout)["error"]
