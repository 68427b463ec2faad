"""Encoding streams: standard input and output, larger than a block, whole or plainly cut."""

from __future__ import annotations

import io
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli import app
from sfumato.domains import tables
from sfumato.domains.tables import read_table, stream_batches

STUDY = sf.Study(
    "stream",
    [
        sf.integers("age", 0, 99, protect=sf.Distance("0.5")),
        sf.categories("mode", ["car", "bus, tram", 'a "bike"'], protect=sf.Uniform(1)),
    ],
)
MODES = ["car", '"bus, tram"', '"a ""bike"""']


def table_of(count: int) -> str:
    rng = np.random.default_rng(1)
    rows = zip(rng.integers(0, 100, count), rng.integers(0, 3, count), strict=True)
    # A column that nobody asks for has line breaks in quotes.
    lines = [f'{age},"x\n,y",{MODES[mode]}' for age, mode in rows]
    return "age,note,mode\n" + "\n".join(lines) + "\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    STUDY.save("study.toml")
    return tmp_path


def run(*words: str, given: str | bytes | None = None) -> Any:
    return CliRunner().invoke(app, ["encode", "study.toml", *words], input=given)


@pytest.mark.parametrize("block", [64, 100, 1 << 23])
def test_a_stream_is_read_like_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(tables, "CSV_BLOCK", block)
    text = table_of(400)
    (folder / "people.csv").write_text(text)
    whole = read_table("people.csv", ["age", "mode"]) if block > 1000 else None
    pieces = list(stream_batches(io.BytesIO(text.encode("utf-8-sig")), ["age", "mode"]))
    assert sum(map(len, pieces)) == 400
    if whole is not None:
        assert [p.to_pydict() for p in pieces] == [whole.to_pydict()]
    assert run("-", "--seed", "1", "--out", "a.parquet", given=text).exit_code == 0
    monkeypatch.setattr(tables, "CSV_BLOCK", 1 << 23)
    assert run("people.csv", "--seed", "1", "--out", "b.parquet").exit_code == 0
    assert (folder / "a.parquet").read_bytes() == (folder / "b.parquet").read_bytes()


def test_standard_output_gets_the_file_and_nothing_else(folder: Path) -> None:
    text = table_of(300)
    done = run("-", "--seed", "1", "--out", "-", given=text)
    assert done.exit_code == 0
    assert "Encoded 300 people of study 'stream' into standard output." in done.stderr
    run("-", "--seed", "1", "--out", "a.parquet", given=text)
    assert done.stdout_bytes == (folder / "a.parquet").read_bytes()
    assert STUDY.tally(sf.Reports.load(folder / "a.parquet")).n == 300


def test_an_error_leaves_a_stream_that_no_reader_takes_for_whole(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sfumato.collect import people

    monkeypatch.setattr(people, "PEOPLE_AT_ONCE", 100)
    monkeypatch.setattr(tables, "CSV_BLOCK", 500)
    text = table_of(300) + "1000,x,car\n"
    done = run("-", "--out", "-", given=text)
    assert done.exit_code == 2
    assert "row 301" in done.stderr
    assert "1000" not in done.stderr
    assert done.stdout_bytes[:4] == b"PAR1"  # what was encoded before
    with pytest.raises(Exception, match="Parquet"):
        pq.read_table(io.BytesIO(done.stdout_bytes))
    assert run("-", "--out", "a.parquet", given=text).exit_code == 2
    assert not (folder / "a.parquet").exists()


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        (table_of(300) + "1,2\n", ["standard input must have 3 cells", "row 301"]),
        ("age,note\n1,x\n", ["standard input must have a column 'mode'"]),
        ("31,car\n", ["first line of standard input must name its columns"]),
        ("", ["standard input must", "columns"]),
        (b"age,mode\n\xff\xfe,car\n", ["standard input must be CSV in UTF-8"]),
        (b"PAR1\x00\x00", ["this is Parquet", "name the file instead"]),
        ('age,mode\n1,"car\n' + "2,car\n" * 200, ["standard input must be CSV"]),
    ],
    ids=["ragged", "column", "header", "empty", "bytes", "parquet", "quote"],
)
def test_what_cannot_be_read_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, given: str | bytes, parts: list[str]
) -> None:
    monkeypatch.setattr(tables, "CSV_BLOCK", 100)
    done = run("-", "--out", "a.parquet", given=given)
    assert done.exit_code == 2
    for part in parts:
        assert part in done.stderr
    assert not (folder / "a.parquet").exists()


def test_json_and_reports_do_not_share_standard_output(folder: Path) -> None:
    done = run("-", "--out", "-", "--json", given=table_of(3))
    assert done.exit_code == 2
    assert "--json prints on standard output" in json.loads(done.stdout)["error"]


@pytest.mark.parametrize("command", ["encode", "tally"])
def test_a_full_disk_leaves_what_was_there_and_says_what_to_do(folder: Path, command: str) -> None:
    (folder / "people.csv").write_text(table_of(20_000))
    (folder / "weights.csv").write_text("weight\n" + "".join(f"{k}\n" for k in range(20_000)))
    # Noise so wide that hardly two reports are alike.
    axis = sf.integers("age", 0, 60_000, protect=sf.Distance("1e-4"), channel=sf.Geometric())
    sf.Study("wide", [axis]).save("study.toml")
    given = ["--weights-from", "weights.csv"]
    calls = {
        "encode": ["encode", "study.toml", "people.csv"],
        "tally": ["tally", "study.toml", "in.parquet", "--weights", "weight", *given],
    }
    assert run("people.csv", "--out", "in.parquet").exit_code == 0
    (folder / "out.parquet").write_bytes(b"before")
    call = [*calls[command], "--out", "out.parquet", "--force"]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        done = CliRunner().invoke(app, call)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert done.exit_code == 2
    assert "'out.parquet': File too large; nothing of this run is there" in done.stderr
    assert "Make room and run the command again" in done.stderr
    assert (folder / "out.parquet").read_bytes() == b"before"
    assert sorted(path.name for path in folder.iterdir()) == [
        "in.parquet", "out.parquet", "people.csv", "study.toml", "weights.csv"
    ]  # fmt: skip
    assert CliRunner().invoke(app, call).exit_code == 0
    assert (folder / "out.parquet").stat().st_size > 20_000


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_behind_standard_output_is_named(folder: Path) -> None:
    (folder / "people.csv").write_text(table_of(20_000))
    call = "import sys; from sfumato.cli import main; main()"
    words = ["encode", "study.toml", "people.csv", "--out", "-"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", call, *words], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 2
    assert b"cannot write to standard output: No space left on device; what it has" in done.stderr
    assert b"Make room and run the command again" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.slow
def test_a_pipe_that_is_closed_ends_the_work(folder: Path) -> None:
    (folder / "people.csv").write_text(table_of(20_000))
    call = "import sys; from sfumato.cli import main; main()"
    words = ["encode", "study.toml", "people.csv", "--out", "-"]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run(
            [sys.executable, "-c", call, *words], stdout=closed, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 2
    assert b"standard output was closed" in done.stderr
    assert b"Traceback" not in done.stderr
