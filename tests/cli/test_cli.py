"""Every command does what the Python call does, and says so."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

import sfumato as sf
from sfumato.cli import app
from sfumato.cli.commands import COMMANDS, load

AXES = (
    "age: integers 0..99, distance 0.5",
    "region: categories north|south|east, uniform 1, optional",
)
NAMES = ["new", "explain", "plan", "compare", "audit", "encode", "tally"]
NAMES += [
    "ask",
    "quantile",
    "histogram",
    "heatmap",
    "release",
    "ledger",
    "simulate",
    "bench",
    "demo",
]

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
def study() -> sf.Study:
    return sf.Study(
        "commute",
        [
            sf.integers("age", 0, 99, protect=sf.Distance(0.5)),
            sf.categories(
                "region", ["north", "south", "east"], protect=sf.Uniform(1), optional=True
            ),
        ],
    )


@pytest.fixture
def people() -> dict[str, list[Any]]:
    rng = np.random.default_rng(5)
    regions = rng.choice(np.array(["north", "south", "east", ""], dtype=object), 3_000)
    return {
        "age": rng.integers(0, 100, 3_000).tolist(),
        "region": [region or None for region in regions],
    }


@pytest.fixture
def folder(tmp_path: Path, study: sf.Study, people: dict[str, list[Any]]) -> Path:
    """A study, people as CSV and Parquet with columns nobody asked for, and a tally."""
    study.save(tmp_path / "commute.toml")
    table = pa.table({"name": ["x"] * 3_000, **people})
    pa.csv.write_csv(table, tmp_path / "people.csv")
    pq.write_table(table, tmp_path / "people.parquet")
    with pa.CompressedOutputStream(str(tmp_path / "people.csv.gz"), "gzip") as stream:
        pa.csv.write_csv(table, stream)
    study.simulate(people, seed=1).save(tmp_path / "tally.parquet")
    return tmp_path


def flags(*axes: str) -> list[str]:
    return [word for axis in axes for word in ("--axis", axis)]


def test_version_is_the_packages(run: Run) -> None:
    assert run("--version").stdout == f"sfumato {sf.__version__}\n"


def test_help_lists_commands_in_the_order_of_work(run: Run) -> None:
    text = run("--help").stdout
    places = [text.index(f"│ {name} ") for name in NAMES]
    assert places == sorted(places)


@pytest.mark.parametrize("name", NAMES)
def test_help_of_every_command_has_examples_and_json(run: Run, name: str) -> None:
    text = run(name, "--help").stdout
    assert COMMANDS[name].examples.splitlines()[1] in text
    assert "--json" in text


@pytest.mark.parametrize("name", NAMES)
def test_the_list_of_commands_says_what_each_says_itself(name: str) -> None:
    assert load(name).help.split("\n\n")[0] == COMMANDS[name].summary


def test_new_writes_the_study_that_its_flags_describe(run: Run, study: sf.Study) -> None:
    result = run("new", "commute.toml", *flags(*AXES))
    assert sf.Study.load("commute.toml") == study
    assert result.stdout == f"{study.explain()}\n\nWritten to commute.toml.\n"


def test_new_as_json_is_one_document(run: Run, study: sf.Study) -> None:
    document = json.loads(run("new", "a.toml", "--name", "commute", *flags(*AXES), "--json").stdout)
    assert document["fingerprint"] == study.fingerprint
    assert [axis["cells"] for axis in document["axes"]] == [100, 4]
    assert document["axes"][0]["protect"] == {"kind": "distance", "epsilon": 0.5}


def test_new_by_question_and_answer_tries_a_refused_axis_again(run: Run, study: sf.Study) -> None:
    refused = ["age", "integers", "0", "99", "distance", "1", "0", "n", "n", "automatic"]
    age = ["age", "integrs", "integers", "0", "99", "distance", "1", "0.5", "n", "n", "automatic"]
    twin = ["age"]
    region = ["region", "categories", "north|south|east", "1", "y", "automatic"]
    people = ["some", "0", "2,000"]
    lines = ["commute", "each", *refused, *age, *twin, *region, "", *people, "y", ""]
    result = run("new", "new.toml", input="\n".join(lines))
    assert sf.Study.load("new.toml") == study
    assert sf.Study.load("new.toml").people == 2_000
    assert "'some' is not a number of people" in result.stderr
    assert "'0' is not a number of people" in result.stderr
    assert "epsilon must be positive and finite" in result.stderr
    assert "did you mean 'integers'?" in result.stderr
    assert "names must differ" in result.stderr
    assert "As a flag: --axis 'age: integers 0..99, distance 0.5 per 1'" in result.stderr
    assert sf.Study("commute", study.axes, people=2_000).explain() in result.stdout


def test_new_chooses_channels_for_the_people_expected(run: Run) -> None:
    axis = ["--axis", "rating: integers 1..8, distance 0.3", "--people"]
    few = json.loads(run("new", "few.toml", *axis, "1000", "--json").stdout)
    many = json.loads(run("new", "many.toml", *axis, "10000", "--json").stdout)
    assert [one["people"] for one in (few, many)] == [1_000, 10_000]
    assert [one["axes"][0]["channel"]["kind"] for one in (few, many)] == [
        "geometric",
        "thermometer",
    ]
    assert "for 1,000 people likelihood answers are more accurate" in few["axes"][0]["reason"]
    assert "Made for about 1,000 people." in run("explain", "few.toml").stdout
    refused = run("new", "none.toml", *axis, "0", ok=False)
    assert "people must be a whole number from 1 to 10^15, got people=0" in refused.stderr
    assert not Path("none.toml").exists()


def test_new_by_question_and_answer_writes_nothing_unless_agreed(run: Run, tmp_path: Path) -> None:
    axis = ["visit", "dates", "2024-01-01", "2024-01-28", "1 week", "uniform", "1", "n", "y", ""]
    result = run("new", "v.toml", input="\n".join(["visits", "", *axis, "", "", "n", ""]), ok=False)
    assert result.exit_code == 1
    assert "Study 'visits'" in result.stdout
    assert list(tmp_path.iterdir()) == []


def test_explain_prints_the_promise(run: Run, folder: Path) -> None:
    text = sf.Study.load("commute.toml").explain()
    assert run("explain", "commute.toml").stdout == text + "\n"
    document = json.loads(run("explain", "commute.toml", "--json").stdout)
    assert document["text"] == text


def test_explain_as_json_holds_an_infinite_guarantee(run: Run, tmp_path: Path) -> None:
    matrix = sf.Matrix([[0, 1, float("inf")], [1, 0, float("inf")], [1, 1, 0]])
    axis = sf.categories("a", ["x", "y", "z"], protect=matrix)
    sf.Study("odd", [axis]).save("odd.toml")
    document = json.loads(run("explain", "odd.toml", "--json").stdout)
    assert document["axes"][0]["protect"]["values"][0] == [0, 1, "inf"]


@pytest.mark.parametrize("name", ["people.csv", "people.csv.gz", "people.parquet"])
def test_encode_with_a_seed_gives_the_reports_of_the_python_call(
    run: Run, folder: Path, study: sf.Study, people: dict[str, list[Any]], name: str
) -> None:
    result = run("encode", "commute.toml", name, "--out", "r.parquet", "--seed", 3)
    expected = study.encode(people, bits=sf.SeededBits(3)).to_arrow()
    assert pq.read_table("r.parquet").equals(expected, check_metadata=True)
    assert "protect nobody" in result.stderr
    assert result.stdout == "Encoded 3,000 people of study 'commute' into r.parquet.\n"


def test_encode_without_a_seed_is_fresh_and_quiet(run: Run, folder: Path) -> None:
    first = run("encode", "commute.toml", "people.csv", "--out", "a.parquet", "--json")
    run("encode", "commute.toml", "people.csv", "--out", "b.parquet")
    assert first.stderr == ""
    assert json.loads(first.stdout)["people"] == 3_000
    assert json.loads(first.stdout)["seed"] is None
    assert not pq.read_table("a.parquet").equals(pq.read_table("b.parquet"))


def test_encode_of_nobody_gives_no_reports(run: Run, folder: Path) -> None:
    Path("nobody.csv").write_text("region,age\n")
    run("encode", "commute.toml", "nobody.csv", "--out", "r.parquet")
    assert len(sf.Reports.load("r.parquet")) == 0


def test_tally_adds_reports_and_tallies(
    run: Run, folder: Path, study: sf.Study, people: dict[str, list[Any]]
) -> None:
    parts = [study.encode(people, bits=sf.SeededBits(seed)) for seed in (1, 2, 3)]
    parts[0].save("a.parquet")
    parts[1].save("b.parquet")
    study.tally(parts[2]).save("c.parquet")
    result = run(
        "tally", "commute.toml", "a.parquet", "c.parquet", "b.parquet", "--out", "t.parquet"
    )
    assert sf.Tally.load("t.parquet", study) == study.tally(parts)
    assert result.stdout == "Tallied 9,000 reports of study 'commute' into t.parquet.\n"
    again = ("tally", "commute.toml", "t.parquet", "--out", "t.parquet", "--force", "--json")
    assert json.loads(run(*again).stdout)["reports"] == 9_000


def test_tally_of_bit_reports_adds_up(run: Run) -> None:
    run("new", "s.toml", *flags("age: integers 0..9, distance 0.5, channel thermometer"))
    Path("p.csv").write_text("age\n" + "3\n" * 70)
    for seed in (1, 2, 3):
        run("encode", "s.toml", "p.csv", "--out", f"{seed}.parquet", "--seed", seed)
    run("tally", "s.toml", "1.parquet", "2.parquet", "3.parquet", "--out", "t.parquet")
    study = sf.Study.load("s.toml")
    expected = study.tally([sf.Reports.load(f"{seed}.parquet") for seed in (1, 2, 3)])
    assert sf.Tally.load("t.parquet", study) == expected


@pytest.mark.slow
def test_ask_gives_the_answers_of_the_python_call(run: Run, folder: Path, study: sf.Study) -> None:
    estimate = sf.Tally.load("tally.parquet", study).estimate()
    questions = ["age=18..30, region=north|south", "age=65.."]
    words = ("ask", "commute.toml", "tally.parquet", *questions, "--mean", "age", "--level", 0.9)
    expected = [*(estimate.count(q, level=0.9) for q in questions), estimate.mean("age", level=0.9)]
    document = json.loads(run(*words, "--json").stdout)
    assert document["answers"] == [answer.to_dict() for answer in expected]
    text = run(*words).stdout
    assert all(f"{answer}" in text for answer in expected)
    assert "90% interval" in text
    assert "From 3,000 reports" in text


@pytest.mark.slow
@pytest.mark.parametrize("population", [False, True])
def test_ask_for_a_fraction_is_of_the_people_in_where(
    run: Run, folder: Path, study: sf.Study, population: bool
) -> None:
    estimate = sf.Tally.load("tally.parquet", study).estimate()
    words = ["ask", "commute.toml", "tally.parquet", "age=18..60", "--where", "region=north"]
    words += ["--fraction", "--json", *(["--population"] if population else [])]
    expected = estimate.fraction("age=18..60", where="region=north", population=population)
    assert json.loads(run(*words).stdout)["answers"] == [expected.to_dict()]


def test_ask_of_an_empty_tally_says_so(run: Run, folder: Path, study: sf.Study) -> None:
    study.empty_tally().save("none.parquet")
    assert "no reports" in run("ask", "commute.toml", "none.parquet", "age=3..").stdout
    document = json.loads(run("ask", "commute.toml", "none.parquet", "age=3..", "--json").stdout)
    assert document["answers"][0]["value"] is None
    assert "no reports" in run("histogram", "commute.toml", "none.parquet", "region").stdout
    assert "no reports" in run("heatmap", "commute.toml", "none.parquet", "age", "region").stdout


def test_ask_shows_notes(run: Run) -> None:
    run("new", "s.toml", *flags("x: reals 0..10 in 5, distance 1"))
    Path("p.csv").write_text("x\n" + "3.5\n" * 50)
    result = run("simulate", "s.toml", "p.csv", "--seed", 1, "--ask", "x=1..5")
    assert "a bin of x is cut: its share is prorated" in result.stdout


@pytest.mark.slow
def test_histogram_gives_the_numbers_of_the_python_call(
    run: Run, folder: Path, study: sf.Study
) -> None:
    estimate = sf.Tally.load("tally.parquet", study).estimate()
    words = ("histogram", "commute.toml", "tally.parquet", "age", "--bins", 5, "--where")
    found = estimate.histogram("age", bins=5, where="region=north")
    document = json.loads(run(*words, "region=north", "--json").stdout)
    assert document == {"study": "commute", **found.to_dict()}
    lines = run(*words, "region=north").stdout.splitlines()
    rows = [line for line in lines if " to " in line]
    assert [row.split()[0] for row in rows] == found.labels
    lengths = [row.count("█") for row in rows]
    assert max(lengths) == lengths[int(np.argmax(found.values))] == 40
    assert "Among people with region=north." in lines


@pytest.mark.slow
def test_histogram_of_many_cells_is_shown_in_groups_and_written_in_full(run: Run) -> None:
    run("new", "s.toml", *flags("a: integers 0..9999, distance 1"))
    Path("c.csv").write_text("a,count\n500,7000\n9000,20000\n")
    run("simulate", "s.toml", "--counts", "c.csv", "--seed", 1, "--out", "t.parquet")
    words = ("histogram", "s.toml", "t.parquet", "a", "--method", "unbiased")
    text = run(*words, "--out", "a.csv").stdout
    assert "Cells are shown in groups" in text
    assert "Written to a.csv." in text
    rows = [line for line in text.splitlines() if " to " in line]
    assert [row.split()[0] for row in rows][::19] == ["0..499", "9500..9999"]
    table = Path("a.csv").read_text().splitlines()
    assert table[0] == '"a","value","stderr","low","high"'
    assert len(table) == 10_001
    assert abs(float(table[9001].split(",")[1]) - 20_000) < 6 * float(table[9001].split(",")[2])
    assert "exists" in run(*words, "--out", "a.csv", ok=False).stderr
    document = json.loads(run(*words, "--out", "a.parquet", "--json").stdout)
    assert (len(document["values"]), document["out"]) == (10_000, "a.parquet")


def test_histogram_of_shares(run: Run, folder: Path, study: sf.Study) -> None:
    found = sf.Tally.load("tally.parquet", study).estimate().histogram("region", fraction=True)
    words = ("histogram", "commute.toml", "tally.parquet", "region", "--fraction", "--json")
    assert json.loads(run(*words).stdout)["values"] == found.values.tolist()


@pytest.mark.slow
def test_heatmap_is_a_table_of_numbers_where_there_is_room(
    run: Run, folder: Path, study: sf.Study
) -> None:
    estimate = sf.Tally.load("tally.parquet", study).estimate()
    found = estimate.heatmap("age", "region", bins=(4, None))
    words = ("heatmap", "commute.toml", "tally.parquet", "age", "region", "--bins", 4)
    document = json.loads(run(*words, "--bins", 9, "--json").stdout)
    assert document["values"] == found.values.tolist()
    text = run(*words, "--bins", 9).stdout
    assert "no answer" in text
    assert text.count("±") == found.values.size + 1


def test_heatmap_too_large_for_the_terminal_is_shown_in_grouped_shades(run: Run) -> None:
    run("new", "s.toml", *flags("a: integers 0..99, distance 5", "b: integers 0..99, distance 5"))
    Path("c.csv").write_text("a,b,count\n10,90,7000\n90,10,20000\n")
    run("simulate", "s.toml", "--counts", "c.csv", "--seed", 1, "--out", "t.parquet")
    text = run("heatmap", "s.toml", "t.parquet", "a", "b", "--method", "unbiased").stdout
    assert "in groups to fit" in text
    shaded = [line.split() for line in text.splitlines() if "··" in line]
    assert len(shaded) == 12
    assert "".join(shaded[10][1:]).index("██") == 2
    assert "".join(shaded[1][1:]).index("▒▒") == 20


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["png", "html"])
def test_histogram_is_drawn_into_a_file(run: Run, folder: Path, suffix: str) -> None:
    name = f"age.{suffix}"
    words = ("histogram", "commute.toml", "tally.parquet", "age", "--plot", name)
    document = json.loads(run(*words, "--json").stdout)
    assert document["plot"] == name
    start = {"png": b"\x89PNG", "html": b"<!"}[suffix]
    assert Path(name).read_bytes().lower().startswith(start.lower())
    assert [path.name for path in folder.iterdir() if "age." in path.name] == [name]
    assert "exists" in run(*words, ok=False).stderr
    assert f"Drawn in {name}." in run(*words, "--force").stdout


def test_simulate_is_the_python_call(
    run: Run, folder: Path, study: sf.Study, people: dict[str, list[Any]]
) -> None:
    expected = study.simulate(people, seed=9)
    words = ("simulate", "commute.toml", "people.csv", "--seed", 9, "--out", "t.parquet")
    document = json.loads(run(*words, "--ask", "age=..17", "--json").stdout)
    assert sf.Tally.load("t.parquet", study) == expected
    assert document["answers"] == [expected.estimate().count("age=..17").to_dict()]


def test_simulate_counts_is_the_python_call(run: Run, folder: Path, study: sf.Study) -> None:
    Path("counts.csv").write_text("count,age,region\n40,3,north\n2,3,north\n70,99,\n")
    counts = np.zeros(study.shape, dtype=int)
    counts[3, 0], counts[99, 3] = 42, 70
    words = ("simulate", "commute.toml", "--counts", "counts.csv", "--seed", 9)
    result = run(*words, "--out", "t.parquet", "--ask", "age=90..")
    expected = study.simulate_counts(counts, seed=9)
    assert sf.Tally.load("t.parquet", study) == expected
    assert str(expected.estimate().count("age=90..")) in result.stdout
    assert "Simulated 112 reports of study 'commute' into t.parquet." in result.stdout


def test_audit_of_an_honest_study_holds(run: Run, folder: Path, study: sf.Study) -> None:
    text = run("audit", "commute.toml").stdout
    assert "The guarantee holds." in text
    assert "geometric" in text
    document = json.loads(run("audit", "commute.toml", "--json").stdout)
    expected = json.loads(json.dumps(sf.audit(study).to_dict()))
    assert {**document, "date": ""} == {**expected, "date": ""}


@pytest.mark.parametrize("name", ["audit.html", "audit.json"])
def test_audit_writes_a_report(run: Run, folder: Path, study: sf.Study, name: str) -> None:
    assert f"Written to {name}." in run("audit", "commute.toml", "--out", name).stdout
    assert study.fingerprint in (folder / name).read_text(encoding="utf-8")
    refused = run("audit", "commute.toml", "--out", name, ok=False)
    assert (refused.exit_code, "--force" in refused.stderr) == (2, True)
    run("audit", "commute.toml", "--out", name, "--force", "--json")


def test_audit_refuses_a_report_of_another_kind(run: Run, folder: Path) -> None:
    refused = run("audit", "commute.toml", "--out", "audit.pdf", ok=False)
    assert refused.exit_code == 2
    assert "a report file must end in .html or .json, got 'audit.pdf'" in refused.stderr


def test_audit_draws_a_sample_if_asked(run: Run, folder: Path) -> None:
    text = run("audit", "commute.toml", "--sample", 20_000).stdout
    assert "\\n" not in text  # as visible characters
    assert "age: 20,000 reports drawn at random from 8 cells agree" in text
    assert "The guarantee holds." in text
    document = json.loads(run("audit", "commute.toml", "--sample", 20_000, "--json").stdout)
    assert [axis["sample"]["problems"] for axis in document["axes"]] == [[], []]
    refused = run("audit", "commute.toml", "--sample", 10, ok=False)
    assert refused.exit_code == 2
    assert "sample must be a whole number of reports from 1,000" in refused.stderr


def test_audit_that_fails_has_exit_code_1(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    axis = SimpleNamespace(
        axis="age",
        channel="geometric",
        spent=1.25,
        tightest=("0", "1"),
        method="exact",
        driven="every boundary",
        holds=False,
        problems=("the odds exceed their bound",),
        sample=None,
    )
    found = SimpleNamespace(holds=False, axes=[axis], to_dict=lambda: {"holds": False})
    monkeypatch.setattr("sfumato.cli.designing.audit_study", lambda study, sample: found)
    result = run("audit", "commute.toml", ok=False)
    assert result.exit_code == 1
    assert "does NOT hold" in result.stdout
    assert "age: the odds exceed their bound" in result.stdout
    assert "0 and 1" in result.stdout
    result = run("audit", "commute.toml", "--json", ok=False)
    assert (result.exit_code, json.loads(result.stdout)) == (1, {"holds": False})


def test_demo_compares_answers_with_the_truth(run: Run, tmp_path: Path) -> None:
    words = ("demo", "--out", "tour", "--people", 1_000, "--seed", 4, "--no-collector")
    document = json.loads(run(*words, "--json").stdout)
    assert Path(document["page"]).read_text(encoding="utf-8").lower().startswith("<!doctype")
    assert "exists" in run(*words, ok=False).stderr
    text = run(*words, "--force").stdout
    study = sf.Study.load("tour/study.toml")
    assert sf.Tally.load("tour/tally.parquet", study).n == 1_000
    for row in document["rows"]:
        assert row["question"] in text
        low, value, high = (row["answer"][key] for key in ("low", "value", "high"))
        assert low <= value <= high
    held = sum(r["answer"]["low"] <= r["truth"] <= r["answer"]["high"] for r in document["rows"])
    assert f"{held} of {len(document['rows'])} intervals hold the truth." in text
    assert document["page"] in text


def test_quantiles_are_those_of_the_python_call(run: Run, folder: Path, study: sf.Study) -> None:
    words = ("quantile", "commute.toml", "tally.parquet", "age", 0.1, 0.5, "--json")
    found = json.loads(run(*words).stdout)
    estimate = sf.Tally.load("tally.parquet", study).estimate()
    for share, row in zip((0.1, 0.5), found["answers"], strict=True):
        answer = estimate.quantile("age", share)
        assert isinstance(answer, sf.Answer)
        assert (row["value"], row["low"], row["high"]) == (answer.value, answer.low, answer.high)
    text = run("quantile", "commute.toml", "tally.parquet", "age").stdout
    assert [word in text for word in ("25%", "50%", "75%", "95% interval")] == [True] * 4
    refused = run("quantile", "commute.toml", "tally.parquet", "age", 1.5, ok=False)
    assert refused.exit_code == 2
