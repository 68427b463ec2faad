"""Commands around devices: program, pack, unpack."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli import app
from sfumato.device.wire import Batch

RUN = CliRunner()


@pytest.fixture
def study(tmp_path: Path) -> sf.Study:
    """A study, and its file."""
    made = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
    made.save(tmp_path / "ages.toml")
    return made


def ran(tmp_path: Path, *words: str) -> str:
    """What a command prints; paths are those of the folder."""
    found = RUN.invoke(app, [str(tmp_path / w) if "." in w else w for w in words])
    assert found.exit_code == 0, found.output
    return found.stdout


def test_program_writes_what_the_study_compiles_to(tmp_path: Path, study: sf.Study) -> None:
    said = ran(tmp_path, "program", "ages.toml", "--out", "p.json")
    program = sf.Program.read((tmp_path / "p.json").read_bytes())
    assert program.digest == study.device_program().digest
    assert program.digest in said
    assert "A report has 1 byte." in said
    found = json.loads(
        ran(tmp_path, "program", "ages.toml", "--out", "p.json", "--force", "--json")
    )
    assert found["digest"] == program.digest
    assert found["most"] == "99/2"


def test_program_says_where_a_report_tells_without_bound(tmp_path: Path) -> None:
    parts = sf.Blocks(epsilon=1, blocks=[["a", "b"], ["c", "d"]])
    sf.Study("x", [sf.categories("x", list("abcd"), protect=parts)]).save(tmp_path / "x.toml")
    said = ran(tmp_path, "program", "x.toml", "--out", "x.json")
    assert "without bound" in said


def test_reports_go_to_bytes_and_back(tmp_path: Path, study: sf.Study) -> None:
    reports = study.encode({"age": [31, 42, 77]})
    reports.save(tmp_path / "r.parquet")
    assert "3 reports" in ran(tmp_path, "pack", "ages.toml", "r.parquet", "--out", "r.sfmr")
    assert (tmp_path / "r.sfmr").read_bytes() == reports.to_bytes()
    ran(tmp_path, "unpack", "ages.toml", "r.sfmr", "--out", "again.parquet")
    assert sf.Reports.load(tmp_path / "again.parquet").to_bytes() == reports.to_bytes()


def test_a_batch_is_unpacked_without_its_ids(tmp_path: Path, study: sf.Study) -> None:
    made = study.device_program().encode({"age": 31})
    batch = Batch(study.fingerprint, 20_000, (b"an id of 16 byte",), (made,))
    (tmp_path / "batch.bin").write_bytes(batch.to_bytes())
    ran(tmp_path, "unpack", "ages.toml", "batch.bin", "--out", "r.parquet")
    assert sf.Reports.load(tmp_path / "r.parquet").to_bytes()[45:] == made
    assert b"an id of" not in (tmp_path / "r.parquet").read_bytes()


def test_other_bytes_and_other_studies_are_refused(tmp_path: Path, study: sf.Study) -> None:
    other = sf.Study("other", [sf.integers("age", 0, 99, protect=sf.Distance(1))])
    other.encode({"age": [1]}).save(tmp_path / "other.parquet")
    (tmp_path / "damaged.bin").write_bytes(b"SFMR\x01")
    for command, given, reason in (
        ("pack", "other.parquet", "belongs to study"),
        ("unpack", "damaged.bin", "header"),
        ("unpack", "missing.bin", "cannot read"),
    ):
        out = "out.sfmr" if command == "pack" else "out.parquet"
        words = [command, str(tmp_path / "ages.toml"), str(tmp_path / given)]
        found = RUN.invoke(app, [*words, "--out", str(tmp_path / out)])
        assert found.exit_code != 0
        assert reason in " ".join(found.output.split())
        assert not (tmp_path / out).exists()
