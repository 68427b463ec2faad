"""Files in an object store, by URL: a local S3 server stands for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from helpers_files import BITS, STUDIES, SYMBOLS, mixture, reports_of, rot, write_groups
from helpers_store import Store, serving
from pyarrow import fs
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli import app
from sfumato.collect import stores
from sfumato.collect.engines import encoding, splits
from sfumato.collect.engines.journal import Journal
from sfumato.collect.engines.tallying import tally_files
from sfumato.collect.stores import find_files, located

LOCAL = sf.engines.local()
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with serving() as found:
        yield found


def test_files_of_every_kind_are_tallied_from_a_store(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splits, "ROWS_OF_SPLIT", 200)
    for name, study in STUDIES.items():
        (tmp_path / name).mkdir()
        paths, reports = mixture(study, tmp_path / name)
        for path in paths:
            store.put(path, f"kinds/{name}/{path.name}")
        tally = LOCAL.tally(study, f"s3://bucket/kinds/{name}/*")
        assert tally.to_bytes() == study.tally(reports).to_bytes()
    assert find_files("s3://bucket/kinds/*/gro*") == [
        f"s3://bucket/kinds/{name}/groups.parquet" for name in sorted(STUDIES)
    ]
    with pytest.raises(sf.FormatError, match=r"no file fits 's3://bucket/kinds/\*.csv'"):
        LOCAL.tally(SYMBOLS, "s3://bucket/kinds/*.csv")
    with pytest.raises(sf.FormatError, match=r"there is no file 's3://bucket/none.parquet'"):
        LOCAL.tally(SYMBOLS, "s3://bucket/none.parquet")
    with pytest.raises(sf.EngineError, match=r"ftp://place must be the URL of a store, s3://"):
        LOCAL.tally(SYMBOLS, "ftp://place/a.parquet")


def test_damage_is_told_from_a_store_that_does_not_answer(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for k in range(3):
        write_groups(reports_of(BITS, 400, k), tmp_path / f"{k}.parquet", 200)
    rot(tmp_path / "1.parquet")
    urls = [store.put(tmp_path / f"{k}.parquet", f"damage/{k}.parquet") for k in range(3)]
    with pytest.raises(sf.FormatError, match=r"damage/1.parquet' is damaged"):
        LOCAL.tally(BITS, urls)
    tally = LOCAL.tally(BITS, urls, skip_damaged=True)
    assert tally.notes == ("1 of 3 files was damaged and is left out: '1.parquet'",)

    class Gone:
        """A file whose store stops to answer after the first bytes."""

        def __init__(self, file: Any) -> None:
            self.file, self.left = file, 1

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

        def read(self, *size: int) -> Any:
            self.left -= 1
            if self.left < 0:
                raise OSError("AWS Error NETWORK_CONNECTION during GetObject operation")
            return self.file.read(*size)

        def __enter__(self) -> Gone:
            return self

        def __exit__(self, *error: object) -> None:
            self.file.close()

    opened = stores.open_file
    for module in (stores, splits):
        monkeypatch.setattr(module, "open_file", lambda path: Gone(opened(path)))
    monkeypatch.setattr(splits, "_ROWS_AT_ONCE", 100)
    (tmp_path / "long.sfmr").write_bytes(reports_of(BITS, 300).to_bytes())
    url = store.put(tmp_path / "long.sfmr", "damage/long.sfmr")
    with pytest.raises(sf.EngineError, match=r"cannot reach 's3://.*NETWORK_CONNECTION.*AWS_END"):
        LOCAL.tally(BITS, [url], skip_damaged=True)


def test_a_store_that_is_not_there_is_named(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient = fs.S3FileSystem(
        endpoint_override="http://127.0.0.1:9",
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=1),
    )
    monkeypatch.setattr(stores, "_store", lambda *parts: (impatient, "bucket"))
    for paths in ("s3://bucket/a.parquet", "s3://bucket/*.parquet"):
        with pytest.raises(sf.EngineError, match=r"cannot reach 's3://bucket/.*check the address"):
            LOCAL.tally(SYMBOLS, paths, skip_damaged=True)
    (tmp_path / "a.csv").write_text("age,mode\n1,car\n")
    with pytest.raises(sf.EngineError, match="cannot reach 's3://bucket/out'"):
        LOCAL.encode(SYMBOLS, tmp_path / "a.csv", "s3://bucket/out")


def test_a_journal_knows_files_of_a_store(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = [reports_of(SYMBOLS, 300, k) for k in range(3)]
    urls = []
    for k, held in enumerate(reports):
        held.save(tmp_path / "a.parquet")
        urls.append(store.put(tmp_path / "a.parquet", f"journal/{k}.parquet"))

    def run() -> tuple[sf.Accumulator, list[str]]:
        told: list[str] = []
        journal = Journal(tmp_path / "out.journal")
        found = tally_files(LOCAL, SYMBOLS.accumulator(), urls, journal=journal, say=told.append)
        journal.write(found, urls)
        return found, told

    first, told = run()
    assert told == []
    with monkeypatch.context() as patch:
        patch.setattr(splits, "_READERS", {})  # any work would fail
        again, told = run()
    assert told == ["resuming: 3 of 3 files are tallied already"]
    assert again.to_bytes() == first.to_bytes()
    reports_of(SYMBOLS, 301, 7).save(tmp_path / "a.parquet")
    store.put(tmp_path / "a.parquet", "journal/1.parquet")
    again, told = run()
    assert "'s3://bucket/journal/1.parquet' has changed since; starting over" in told[0]
    assert again.n == 901


def test_people_are_encoded_from_a_store_into_a_store(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    study = sf.Study("ages", [sf.integers("age", 0, 9, protect=sf.Distance("0.5"))])
    study.save("ages.toml")
    Path("a.csv").write_text("age\n" + "4\n" * 300)
    Path("bad.csv").write_text("age\n" + "4\n" * 300 + "77\n")
    for name in ("a.csv", "bad.csv"):
        store.put(Path(name), f"people/{name}")
    out = ["--engine", "local", "--out", "s3://bucket/out"]
    done = CliRunner().invoke(app, ["encode", "ages.toml", "s3://bucket/people/*", *out])
    assert done.exit_code == 2
    assert "in 's3://bucket/people/bad.csv', " in done.stderr
    assert "row 301" in done.stderr
    assert "77" not in done.stderr
    assert [key for key in store.keys("out/") if key] == []
    done = CliRunner().invoke(app, ["encode", "ages.toml", "s3://bucket/people/a.csv", *out])
    assert "Encoded 300 people" in done.stdout
    assert [key for key in store.keys("out/") if key] == ["part-00000.parquet"]
    call = ["tally", "ages.toml", "s3://bucket/out/*.parquet", "--out", "tally.parquet"]
    assert "Tallied 300 reports" in CliRunner().invoke(app, call).stdout
    # A task that is repeated leaves the first file.
    folder = stores.Folder("s3://bucket/out")
    folder.write(encoding._MARK, lambda file: file.write_bytes(b"x"))
    piece = encoding.Piece("s3://bucket/people/a.csv", None, 0, folder.path, "part-00000.parquet")
    held, place = located("s3://bucket/out/part-00000.parquet")
    before = held.open_input_file(place).read()
    assert encoding.encode_piece(study.to_toml(), piece) == encoding.Encoded(1, 300)
    folder.write(piece.name, lambda file: file.write_bytes(b"another"))
    assert held.open_input_file(place).read() == before
    assert pq.read_metadata(held.open_input_file(place)).num_rows == 300
    assert os.listdir(tmp_path).count("out") == 0
