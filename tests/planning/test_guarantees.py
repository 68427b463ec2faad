"""Guarantees of several studies side by side."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli import app

NEAR = sf.Study("near", [sf.integers("age", 0, 20, protect=sf.Distance(1))])
PLAIN = sf.Study("plain", [sf.integers("age", 0, 20, protect=sf.Uniform(1))])
CITY = sf.categories("city", ["a", "b"], protect=sf.Blocks(1, [["a"], ["b"]]))
MORE = sf.Study("more", [sf.integers("age", 0, 40, protect=sf.Distance(2)), CITY])


def test_values_are_those_of_each_study() -> None:
    found = sf.compare_guarantees([NEAR, PLAIN, MORE], 500, "age=3..9")
    assert found["Two people whose age differs by 5"].values == (5.0, 1.0, 10.0)
    assert found["Any two people, whatever they answer"].values == (20.0, 1.0, math.inf)
    plans = [study.expected_error(500, "age=3..9") for study in (NEAR, PLAIN, MORE)]
    assert found["age=3..9"].values == tuple(plan["age=3..9"].stderr for plan in plans)
    assert found["age=3..9"].shares == tuple(plan["age=3..9"].share for plan in plans)
    assert found["city: one cell"].values[:2] == (None, None)
    turned = sf.compare_guarantees([MORE, NEAR], 500)
    assert turned["Someone with city a and someone with b"].values == (math.inf, None)
    assert turned["Two people whose age differs by 40"].values == (80.0, None)  # NEAR has no 40
    lines = str(found).splitlines()
    assert lines[2].split() == ["near", "plain", "more"]
    assert any("any number of times" in line and "2.7 times" in line for line in lines)
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["rows"][-1]["values"][0] is None


def test_studies_must_be_several_and_have_names() -> None:
    with pytest.raises(sf.StudyError, match="two studies or more"):
        sf.compare_guarantees([NEAR], 10)
    with pytest.raises(sf.StudyError, match="'near' twice; rename one"):
        sf.compare_guarantees([NEAR, NEAR], 10)
    with pytest.raises(sf.StudyError, match="no row 'x'"):
        sf.compare_guarantees([NEAR, PLAIN], 10)["x"]


def test_the_picture_shows_both(tmp_path: Path) -> None:
    found = sf.compare_guarantees([NEAR, PLAIN], 500)
    told, asked = found.plot().axes
    pairs = [row for row in found if row.kind == "odds"]
    shares = [row for row in found if row.shares]
    assert [len(bars) for bars in told.containers] == [len(pairs)] * 2
    assert [bar.get_width() for bar in asked.containers[1]] == [row.shares[1] for row in shares]
    found.save_plot(tmp_path / "sides.svg")
    found.save_plot(tmp_path / "sides.html")
    assert "Guarantees side by side" in (tmp_path / "sides.html").read_text(encoding="utf-8")


def test_the_command_compares_one_study_or_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)  # a narrow terminal breaks lines of the table
    NEAR.save("one.toml")
    PLAIN.save("other.toml")
    NEAR.save("same.toml")

    def run(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["compare", *words, "--people", "100"])
        return done.exit_code, done.output

    code, text = run("one.toml", "other.toml", "--ask", "age=3..9", "--plot", "sides.svg")
    assert code == 0
    assert Path("sides.svg").exists()
    assert all(word in text for word in ("near", "plain", "age=3..9", "Drawn in sides.svg"))
    code, text = run("one.toml", "same.toml", "--json")
    assert json.loads(text)["studies"] == ["one", "same"]  # by their files: the names are alike
    code, text = run("one.toml", "--method", "unbiased")
    assert (code, "chosen, best" in text) == (0, True)
    for words in (
        ("one.toml", "--ask", "age=3"),
        ("one.toml", "--plot", "x.svg"),
        ("one.toml", "other.toml", "--method", "unbiased"),
        ("one.toml", "other.toml", "--prior", "counts.csv"),
    ):
        code, text = run(*words)
        assert code == 2
        assert "error:" in text
