"""What a command refuses: one line, exit code 2, and no file left behind."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli import app

SECRET = "4711"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A study, another one, and good and bad files."""
    monkeypatch.chdir(tmp_path)
    regions = sf.categories("region", ["north", "south"], protect=sf.Uniform(1), optional=True)
    study = sf.Study("s", [sf.integers("age", 0, 99, protect=sf.Distance(0.5)), regions])
    other = sf.Study("o", [sf.integers("age", 0, 99, protect=sf.Distance(0.4)), regions])
    people = {"age": [1, 2, 3], "region": ["north", None, "south"]}
    study.save("s.toml")
    other.save("o.toml")
    study.encode(people).save("r.parquet")
    study.simulate(people, seed=1).save("t.parquet")
    other.encode(people).save("or.parquet")
    other.simulate(people, seed=1).save("ot.parquet")
    Path("p.csv").write_text("age,region\n1,north\n2,\n")
    text = Path("s.toml").read_text()
    Path("damaged.toml").write_text(text[: len(text) // 2])
    Path("broken.toml").write_text("format = [")
    Path("newer.toml").write_text(text.replace("format = 1", "format = 2"))
    Path("edited.toml").write_text(text.replace("0.5", "50"))
    Path("binary.toml").write_bytes(b"\xff\xfe\x00")
    Path("lacks.csv").write_text("Age,region\n1,north\n")
    Path("headless.csv").write_text(f"{SECRET},north\n1,south\n")
    Path("twice.csv").write_text("age,region,age\n1,north,2\n")
    Path("cell.csv").write_text(f"age,region\n1,north\nx{SECRET},south\n")
    Path("range.csv").write_text(f"age,region\n1,north\n2,south\n{SECRET},south\n")
    Path("label.csv").write_text(f"age,region\n1,north\n2,no{SECRET}\n")
    Path("missing.csv").write_text("age,region\n1,north\n,south\n")
    Path("ragged.csv").write_text(f"age,region\n1,north\n2,south,{SECRET}\n3,north\n")
    Path("latin.csv").write_bytes(b"age,region\n1,n\xf6rth\n")
    Path("empty.csv").write_text("")
    Path("cut.csv.gz").write_bytes(gzip.compress(b"age,region\n" + b"1,north\n" * 9_000)[:-20])
    Path("fake.parquet").write_text("not parquet")
    pq.write_table(pa.table({"age": [1]}), "plain.parquet")
    pq.write_table(pa.table({"age": [SECRET + "x"], "region": ["north"]}), "cell.parquet")
    Path("counts.csv").write_text("age,region,count\n1,north,5\n2,north,-1\n3,,x\n")
    Path("minus.csv").write_text("age,region,count\n1,north,5\n2,north,-1\n")
    Path("notes.txt").write_text("notes")
    return tmp_path


ENCODE = ("encode", "s.toml")
OUT = ("--out", "out.parquet")
ASK = ("ask", "s.toml", "t.parquet")

CASES: list[tuple[tuple[str, ...], list[str]]] = [
    # the study
    (("explain", "none.toml"), ["no study file 'none.toml'"]),
    (("explain", "p.csv"), ["study file must end in .toml", "'p.csv'"]),
    (("explain", "broken.toml"), ["'broken.toml' is not valid TOML"]),
    (("explain", "damaged.toml"), ["'damaged.toml'"]),
    (("explain", "newer.toml"), ["format 2", "update sfumato"]),
    (("explain", "edited.toml"), ["has been changed since it was saved"]),
    (("explain", "binary.toml"), ["not a readable study file"]),
    (("audit", "newer.toml"), ["update sfumato"]),
    (("new", "s.toml", "--axis", "a: integers 0..9, distance 1"), ["exists", "--force"]),
    (("new", "new.json", "--axis", "a: integers 0..9, distance 1"), ["must end in .toml"]),
    (("new", "no/new.toml", "--axis", "a: integers 0..9, distance 1"), ["no folder 'no'"]),
    (("new", "new.toml", "--axis", "a: integers 0..9, distance 0"), ["epsilon must be positive"]),
    (("new", "new.toml", "--axis", "a: integers 0..9, distance nan"), ["epsilon"]),
    (("new", "new.toml", "--axis", "a: integers 0..9, uniform inf"), ["epsilon"]),
    (("new", "new.toml", "--axis", "a: integers 3..3, uniform 1"), ["at least 2 cells"]),
    (
        (
            "new",
            "new.toml",
            "--axis",
            "a: integers 0..9, uniform 1",
            "--axis",
            "a: integers 0..9, uniform 1",
        ),
        ["two axes are called 'a'"],
    ),
    # people
    ((*ENCODE, "none.csv", *OUT), ["no file 'none.csv'"]),
    ((*ENCODE, "notes.txt", *OUT), ["must end in .csv, .csv.gz or .parquet"]),
    ((*ENCODE, "p.csv", "--out", "out.csv"), ["must end in .parquet"]),
    ((*ENCODE, "p.csv", "--out", "r.parquet"), ["exists", "--force"]),
    ((*ENCODE, "plain.parquet", "--out", "plain.parquet", "--force"), ["is also an input"]),
    ((*ENCODE, "p.csv", "--out", "no/r.parquet"), ["no folder 'no'"]),
    (
        (*ENCODE, "lacks.csv", *OUT),
        ["'lacks.csv'", "column 'age'", "rename it with --columns Age=age"],
    ),
    ((*ENCODE, "plain.parquet", *OUT), ["'plain.parquet'", "column 'region'"]),
    ((*ENCODE, "headless.csv", *OUT), ["first line", "'headless.csv'", "'age' or 'region'"]),
    ((*ENCODE, "twice.csv", *OUT), ["one column 'age'", "has 2"]),
    ((*ENCODE, "cell.csv", *OUT), ["'age'", "1 value is not written as such (row 2)"]),
    ((*ENCODE, "cell.parquet", *OUT), ["'age'", "(row 1)"]),
    ((*ENCODE, "range.csv", *OUT), ["'age'", "out of range (row 3)"]),
    ((*ENCODE, "label.csv", *OUT), ["'region'", "(row 2)"]),
    ((*ENCODE, "missing.csv", *OUT), ["'age'", "row 2 has none"]),
    ((*ENCODE, "ragged.csv", *OUT), ["must have 2 cells", "row 2 has more or fewer"]),
    ((*ENCODE, "latin.csv", *OUT), ["CSV in UTF-8"]),
    ((*ENCODE, "empty.csv", *OUT), ["first line of file 'empty.csv' must name its columns"]),
    ((*ENCODE, "cut.csv.gz", *OUT), ["'cut.csv.gz'", "cannot be read"]),
    ((*ENCODE, "fake.parquet", *OUT), ["must be Parquet"]),
    # reports and tallies
    (("tally", "s.toml", "or.parquet", *OUT), ["'or.parquet' belongs to study", "not to 's'"]),
    (("tally", "s.toml", "r.parquet", "ot.parquet", *OUT), ["'ot.parquet' belongs to study"]),
    (("tally", "s.toml", "r.parquet", "./r.parquet", *OUT), ["named twice"]),
    (("tally", "s.toml", "plain.parquet", *OUT), ["'plain.parquet' holds no sfumato reports"]),
    (("tally", "s.toml", "fake.parquet", *OUT), ["'fake.parquet' is damaged or not a Parquet"]),
    (("tally", "s.toml", "none.parquet", *OUT), ["no file 'none.parquet'"]),
    (("tally", "s.toml", "p.csv", *OUT), ["damaged or not a Parquet file", "'p.csv'"]),
    (("tally", "s.toml", "r.parquet", "--out", "t.parquet"), ["exists", "--force"]),
    # questions
    ((*ASK,), ["nothing is asked"]),
    ((*ASK, "agee=3"), ["no axis 'agee'", "did you mean 'age'?"]),
    ((*ASK, "region=noth"), ["no label 'noth'", "did you mean 'north'?"]),
    ((*ASK, "age=30..18"), ["'age'", "reversed"]),
    ((*ASK, "age=200.."), ["0 to 99", "wholly outside"]),
    ((*ASK, "age"), ["must have one ="]),
    ((*ASK, "age=3", "--where", "rgion=north"), ["did you mean 'region'?"]),
    ((*ASK, "age=3", "--level", "1"), ["level must lie between 0 and 1"]),
    ((*ASK, "--mean", "region"), ["'region'", "no mean"]),
    ((*ASK, "--mean", "aeg"), ["did you mean 'age'?"]),
    (("ask", "s.toml", "or.parquet", "age=3"), ["'or.parquet' belongs to study", "not to 's'"]),
    (("ask", "s.toml", "ot.parquet", "age=3"), ["'ot.parquet' belongs to study"]),
    (("ask", "s.toml", "none.parquet", "age=3"), ["no file 'none.parquet'"]),
    (
        ("ask", "s.toml", "p.csv", "age=3"),
        ["a tally or reports file must end in .parquet or .sfmr"],
    ),
    (("histogram", "s.toml", "t.parquet", "aeg"), ["did you mean 'age'?"]),
    (("histogram", "s.toml", "t.parquet", "age", "--bins", "0"), ["bins must be"]),
    (("histogram", "s.toml", "t.parquet", "age", "--plot", "a.gif"), ["end in .png or .svg"]),
    (("heatmap", "s.toml", "t.parquet", "age", "age"), ["two different axes"]),
    (
        ("heatmap", "s.toml", "t.parquet", "age", "region", *(["--bins", "2"] * 3)),
        ["once or twice"],
    ),
    # experiments
    (("simulate", "s.toml", "--seed", "1", *OUT), ["either a file of people or --counts"]),
    (("simulate", "s.toml", "p.csv", "--counts", "counts.csv", "--seed", "1", *OUT), ["either"]),
    (("simulate", "s.toml", "p.csv", "--seed", "1"), ["--out TALLY.parquet, or --ask"]),
    (("simulate", "s.toml", "cell.csv", "--seed", "1", *OUT), ["'age'", "(row 2)"]),
    (("simulate", "s.toml", "--counts", "p.csv", "--seed", "1", *OUT), ["column 'count'"]),
    (("simulate", "s.toml", "--counts", "counts.csv", "--seed", "1", *OUT), ["'count'", "(row 3)"]),
    (("simulate", "s.toml", "--counts", "minus.csv", "--seed", "1", *OUT), ["'count'", "row 2"]),
    (("simulate", "s.toml", "p.csv", "--seed", "1", *OUT, "--ask", "aeg=3"), ["mean 'age'?"]),
    (("demo", "--out", "tour", "--people", "0"), ["whole number from 1 to 10,000,000, got 0"]),
    (("demo", "--out", "notes.txt"), ["is a file"]),
    (("demo", "--out", "tour", "--stay", "--no-collector"), ["--no-collector", "drop one"]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("words", "parts"), CASES, ids=[" ".join(case[0]) for case in CASES])
def test_a_refusal_is_one_line_with_exit_code_2_and_no_file(
    folder: Path, words: tuple[str, ...], parts: list[str]
) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    for part in parts:
        assert part in result.stderr
    assert SECRET not in result.stderr

    as_json = CliRunner().invoke(app, [*words, "--json"])
    assert (as_json.exit_code, as_json.stderr) == (2, "")
    assert json.loads(as_json.stdout) == {"error": result.stderr.removeprefix("error: ").rstrip()}
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_json_is_for_flags_not_for_questions(folder: Path) -> None:
    result = CliRunner().invoke(app, ["new", "new.toml", "--json"])
    assert result.exit_code == 2
    assert "--axis" in json.loads(result.stdout)["error"]


@pytest.mark.slow
@pytest.mark.parametrize("words", [["encode", "s.toml"], ["tell"], ["ask", "s.toml", "--lvl", "1"]])
def test_wrong_usage_with_json_is_a_document_too(folder: Path, words: list[str]) -> None:
    result = CliRunner().invoke(app, [*words, "--json"])
    assert result.exit_code == 2
    assert list(json.loads(result.stdout)) == ["error"]


def test_a_refused_seed_is_not_said_to_be_used(folder: Path) -> None:
    result = CliRunner().invoke(app, ["simulate", "s.toml", "p.csv", "--seed", "x", *OUT])
    assert result.exit_code == 2
    assert not Path("out.parquet").exists()


def test_a_file_that_may_not_be_written_is_an_error_line(folder: Path) -> None:
    Path("dir.parquet").mkdir()
    words = ["tally", "s.toml", "r.parquet", "--out", "dir.parquet", "--force"]
    result = CliRunner().invoke(app, words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "is a folder" in result.stderr
