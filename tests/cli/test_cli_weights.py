"""Public weights on the command line: tally --weights, and asking a weighted tally."""

from __future__ import annotations

import json
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
from sfumato.cli import app

PEOPLE = 400
Run = Callable[..., Result]


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command in the folder."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "140")

    def invoke(*arguments: object, ok: bool = True) -> Result:
        result = CliRunner().invoke(app, [str(word) for word in arguments])
        assert not ok or result.exit_code == 0, result.output
        return result

    return invoke


@pytest.fixture
def study() -> sf.Study:
    return sf.Study(
        "shop",
        [
            sf.integers("age", 0, 99, protect=sf.Distance(1)),
            sf.reals("spend", 0, 50, bins=1, rounding="stochastic", protect=sf.Uniform(2)),
        ],
    )


@pytest.fixture
def weights() -> Any:
    return np.random.default_rng(4).gamma(2.0, size=PEOPLE)


@pytest.fixture
def folder(tmp_path: Path, study: sf.Study, weights: Any) -> Path:
    """A study, reports in two files with a column of weights, and the weights as CSV."""
    study.save(tmp_path / "shop.toml")
    rng = np.random.default_rng(5)
    people = {"age": rng.integers(0, 100, PEOPLE), "spend": rng.uniform(0, 50, PEOPLE)}
    reports = study.encode(people, bits=sf.SeededBits(1)).to_arrow()
    whole = reports.append_column("w", pa.array(weights))
    pq.write_table(whole.slice(0, 150), tmp_path / "a.parquet")
    pq.write_table(whole.slice(150), tmp_path / "b.parquet")
    pq.write_table(reports, tmp_path / "plain.parquet")
    pa.csv.write_csv(pa.table({"w": weights}), tmp_path / "w.csv")
    (tmp_path / "short.csv").write_text("w\n1\n2\n")
    (tmp_path / "words.csv").write_text("w\n" + "1\n" * (PEOPLE - 1) + "much\n")
    (tmp_path / "below.csv").write_text("w\n1\n-2\n" + "1\n" * (PEOPLE - 2))
    (tmp_path / "empty.csv").write_text("w,v\n1,1\n,1\n" + "nan,1\n" * (PEOPLE - 2))
    study.tally(study.encode(people)).save(tmp_path / "t.parquet")
    sf.Study("other", list(study.axes)[:1]).tally([], weights=[]).save(tmp_path / "ow.parquet")
    return tmp_path


def test_both_ways_give_the_tally_of_python(
    run: Run,
    folder: Path,
    study: sf.Study,
    weights: Any,
) -> None:
    expected = study.tally(sf.Reports.load(folder / "plain.parquet"), weights=weights)
    first = run(
        "tally", "shop.toml", "a.parquet", "b.parquet", "--weights", "w", "--out", "1.parquet"
    )
    assert f"Tallied {PEOPLE:,} reports, of weight" in first.output
    run("tally", "shop.toml", "plain.parquet", "--weights", "w", "--weights-from", "w.csv",
        "--out", "2.parquet")  # fmt: skip
    for file in ("1.parquet", "2.parquet"):
        found = sf.WeightedTally.load(folder / file, study)
        assert found == expected
        assert found.heaviest == weights.max()
    # A weighted tally among the files is added, with and without further reports.
    run("tally", "shop.toml", "a.parquet", "--weights", "w", "--out", "3.parquet")
    more = ("tally", "shop.toml", "3.parquet", "b.parquet", "--weights", "w", "--out", "4.parquet")
    told = json.loads(run(*more, "--json").output)
    assert told["reports"] == PEOPLE
    assert told["weight"] == pytest.approx(weights.sum())
    assert sf.WeightedTally.load(folder / "4.parquet", study) == expected
    run("tally", "shop.toml", "1.parquet", "2.parquet", "--out", "5.parquet")
    assert sf.WeightedTally.load(folder / "5.parquet", study) == expected + expected


@pytest.mark.parametrize("method", ["likelihood", "unbiased"])
def test_a_weighted_tally_is_asked_like_any_other(
    run: Run,
    folder: Path,
    study: sf.Study,
    method: str,
) -> None:
    run(
        "tally",
        "shop.toml",
        "a.parquet",
        "b.parquet",
        "--weights",
        "w",
        "--out",
        "t.parquet",
        "--force",
    )
    est = sf.WeightedTally.load(folder / "t.parquet", study).estimate(method)
    asked = ("shop.toml", "t.parquet", "--method", method)
    words = (
        "ask",
        *asked,
        "age=18..30",
        "--mean",
        "age",
        "--total",
        "spend",
        "--where",
        "age=10..",
    )
    answers = json.loads(run(*words, "--json").output)["answers"]
    where = "age=10.."
    expected = [
        est.count("age=18..30", where=where),
        est.mean("age", where=where),
        est.total("spend", where=where),
    ]
    for answer, other in zip(answers, expected, strict=True):
        assert answer["value"] == pytest.approx(other.value)
        assert answer["stderr"] == pytest.approx(other.stderr)
        assert "weighted: people count for their public weights" in answer["notes"]
    assert "total of spend" in run(*words).output
    assert "public weights" in run("histogram", *asked, "age", "--bins", "4").output
    run("quantile", *asked, "age", "0.5")
    run("heatmap", *asked, "age", "spend", "--bins", "4")


def test_the_total_of_a_private_number(run: Run, folder: Path, study: sf.Study) -> None:
    told = json.loads(run("ask", "shop.toml", "t.parquet", "--total", "spend", "--json").output)
    expected = sf.Tally.load(folder / "t.parquet", study).estimate().total("spend")
    (answer,) = told["answers"]
    assert answer["question"] == "total of spend"
    assert answer["value"] == pytest.approx(expected.value)


OUT = ("--out", "out.parquet")
FROM = ("--weights", "w", "--weights-from")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("plain.parquet", "--weights", "w", *OUT), ["must have a column 'w'", "and has none"]),
        (("a.parquet", "--weights", "age", *OUT), ["column 'age' holds the reports themselves"]),
        (("a.parquet", "--weights-from", "w.csv", *OUT), ["--weights-from needs --weights COLUMN"]),
        (("plain.parquet", *FROM, "short.csv", *OUT), ["one row per report", "2 rows for 400"]),
        (("plain.parquet", *FROM, "words.csv", *OUT), ["'w' takes", "not written as such", "400"]),
        (("plain.parquet", *FROM, "below.csv", *OUT), ["zero or more", "row 2 has none"]),
        (("plain.parquet", *FROM, "empty.csv", *OUT), ["zero or more", "have none"]),
        (("plain.parquet", *FROM, "none.csv", *OUT), ["there is no file 'none.csv'"]),
        (("t.parquet", "a.parquet", "--weights", "w", *OUT), ["'t.parquet' holds a tally without"]),
        (("t.parquet", "--weights", "w", *OUT), ["no file holds reports", "leave --weights out"]),
        (("a.parquet", "--weights", "w", "--sums", *OUT), ["--sums does not go with"]),
        (("a.parquet", "--weights", "w", "--skip-damaged", *OUT), ["--skip-damaged does not go"]),
        (("ow.parquet", *OUT), ["'ow.parquet' belongs to study", "not to 'shop'"]),
        (("ow.parquet", "plain.parquet", *OUT), ["'plain.parquet' holds reports", "--weights"]),
    ],
)  # fmt: skip
def test_refusals_name_the_file_and_the_remedy(
    run: Run,
    folder: Path,
    words: tuple[str, ...],
    told: list[str],
) -> None:
    result = run("tally", "shop.toml", *words, ok=False)
    assert result.exit_code != 0
    shown = " ".join(result.output.replace("│", " ").split())
    for part in told:
        assert part in shown
    assert "much" not in shown.replace("as much", "")
    assert not (folder / "out.parquet").exists()


def test_nothing_asked_is_refused(run: Run, folder: Path) -> None:
    result = run("ask", "shop.toml", "t.parquet", ok=False)
    assert result.exit_code != 0
    assert "--total AXIS" in result.output
