"""The command check says what the Python call says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli import app

RUN = CliRunner()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A study, an honest tally, one of which a part is made up, one of nobody, one with weights."""
    study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
    study.save(tmp_path / "study.toml")
    honest = study.simulate({"age": list(range(100)) * 90}, seed=1)
    same = (np.full(450, 31),)
    made_up = sf.Reports(study.fingerprint, study.columns, study.layouts, same)
    honest.save(tmp_path / "honest.parquet")
    (honest + study.tally(made_up)).save(tmp_path / "poisoned.parquet")
    study.empty_tally().save(tmp_path / "nobody.parquet")
    study.tally(made_up, weights=np.ones(450)).save(tmp_path / "weighted.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def checked(*words: str) -> Any:
    return RUN.invoke(app, ["check", "study.toml", *words])


def test_an_alarm_is_exit_code_one(folder: Path) -> None:
    study = sf.Study.load(folder / "study.toml")
    for name, code in (("honest", 0), ("poisoned", 1)):
        wanted = sf.Tally.load(folder / f"{name}.parquet", study).check()
        found = checked(f"{name}.parquet")
        assert found.exit_code == code == int(wanted.alarm)
        assert found.stdout == f"{wanted}\n"
        written = checked(f"{name}.parquet", "--json")
        assert written.exit_code == code
        assert json.loads(written.stdout) == json.loads(json.dumps(wanted.to_dict()))


def test_the_chance_of_an_alarm_can_be_set(folder: Path) -> None:
    found = checked("poisoned.parquet", "--significance", "1/1000", "--json")
    assert json.loads(found.stdout)["significance"] == 0.001


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["nobody.parquet"], "the check needs reports"),
        (["weighted.parquet"], "without weights"),
        (["honest.parquet", "--significance", "2"], "between 0 and 1"),
        (["missing.parquet"], "missing.parquet"),
    ],
)
def test_what_cannot_be_checked_is_refused(folder: Path, words: list[str], problem: str) -> None:
    found = checked(*words)
    assert found.exit_code == 2
    assert problem in " ".join(found.stderr.split())
