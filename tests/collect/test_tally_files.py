"""Tallies of many files: the same bit for bit, resumed after a kill, and damage is named."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers_files import (
    BITS,
    STUDIES,
    SYMBOLS,
    batch_of,
    cut,
    mixture,
    reports_of,
    rot,
    write_groups,
)
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli import app
from sfumato.collect.engines import journal as journals
from sfumato.collect.engines import splits
from sfumato.collect.engines.journal import Journal
from sfumato.collect.engines.parts import merge_parts, tally_load
from sfumato.collect.engines.splits import plan
from sfumato.collect.engines.tallying import tally_files as tally_by

studies = pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)


def tally_files(
    empty: sf.Accumulator, paths: Sequence[str | Path], *, threads: int | None = None, **more: Any
) -> sf.Accumulator:
    """Tally files by the local engine."""
    return tally_by(sf.engines.local(threads), empty, list(map(str, paths)), **more)


@pytest.fixture
def small_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Splits and parts of splits that small files have several of."""
    monkeypatch.setattr(splits, "ROWS_OF_SPLIT", 200)
    monkeypatch.setattr(splits, "_ROWS_AT_ONCE", 70)


@studies
@pytest.mark.parametrize("keep", ["reports", "sums"])
@pytest.mark.usefixtures("small_splits")
def test_files_of_every_kind_give_the_tally_of_their_reports(
    study: sf.Study, keep: Any, tmp_path: Path
) -> None:
    paths, reports = mixture(study, tmp_path)
    whole = study.accumulator(keep=keep)
    whole.add(reports)
    for threads, order in ((1, 1), (2, -1)):
        found = tally_files(study.accumulator(keep=keep), paths[::order], threads=threads)
        assert found.to_bytes() == whole.to_bytes()


@studies
@pytest.mark.usefixtures("small_splits")
def test_any_engine_gets_there_by_splits_and_merges(study: sf.Study, tmp_path: Path) -> None:
    paths, reports = mixture(study, tmp_path)
    empty = study.accumulator()
    parts = [split for file in plan(empty, list(map(str, paths))).files for split in file]
    assert len(parts) > 8
    assert sum(split.reports for split in parts if split.kind == "reports") == 901
    work = pickle.dumps(partial(tally_load, empty.to_bytes()))
    assert len(work) < 4_000  # neither the study nor anything that grows with it
    found = [pickle.dumps(pickle.loads(work)((part,))) for part in parts]
    while len(found) > 1:  # a tree
        level = [list(map(pickle.loads, found[k : k + 2])) for k in range(0, len(found), 2)]
        merged = [merge_parts(pair) for pair in level]
        assert max(len(part.begun) for part in merged) <= 2
        found = list(map(pickle.dumps, merged))
    last = pickle.loads(found[0])
    assert not last.begun
    assert sorted(last.files) == sorted(map(str, paths))
    assert last.found.to_bytes() == study.tally(reports).to_bytes()


def test_progress_reaches_the_end(tmp_path: Path) -> None:
    paths, _ = mixture(SYMBOLS, tmp_path)
    told: list[tuple[int, int]] = []
    tally_files(SYMBOLS.accumulator(), paths, seen=lambda *pair: told.append(pair))
    assert told[-1][0] == told[-1][1] > 2_000


def test_on_a_terminal_a_bar_shows_the_rate_and_the_time_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SYMBOLS.save(tmp_path / "study.toml")
    for k in range(12):
        reports_of(SYMBOLS, 1_000, k).save(tmp_path / f"{k:02}.parquet")
    read = splits._READERS["reports"]

    def slowly(*given: Any) -> None:
        time.sleep(0.02)
        read(*given)

    monkeypatch.setitem(splits._READERS, "reports", slowly)
    call = ["tally", str(tmp_path / "study.toml"), str(tmp_path / "[01]*.parquet")]
    call += ["--out", str(tmp_path / "out.tally.parquet")]
    terminal = {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "120"}
    for environment, shown in ((terminal, True), ({}, False)):
        done = CliRunner().invoke(app, [*call, "--force"], env=environment)
        assert done.exit_code == 0, done.output
        text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", done.stderr)
        lines = re.findall(r"Tallying .*?(\d+)% +([\d,]+) reports/s +(\d:\d\d:\d\d)", text)
        assert bool(lines) == shown
    assert "Tallied 12,000 reports" in done.stdout


class TestRefusals:
    @pytest.mark.parametrize("skip", [False, True])
    def test_a_file_of_another_study_is_named_before_any_work(
        self, tmp_path: Path, skip: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for k in range(3):
            reports_of(SYMBOLS, 50).save(tmp_path / f"{k}.parquet")
        monkeypatch.setattr(splits, "_READERS", {})  # any work would fail
        others = {
            "other.parquet": lambda path: reports_of(BITS, 5).save(path),
            "tally.parquet": lambda path: BITS.empty_tally().save(path),
            "sums.parquet": lambda path: BITS.accumulator("sums").freeze().save(path),
            "other.sfmr": lambda path: path.write_bytes(reports_of(BITS, 5).to_bytes()),
            "other.batch": lambda path: path.write_bytes(
                batch_of(reports_of(BITS, 1), [bytes(16)])
            ),
        }
        for name, write in others.items():
            write(tmp_path / name)
            with pytest.raises(sf.MismatchError, match=f"{name}.*belongs to study"):
                tally_files(
                    SYMBOLS.accumulator(),
                    [*(tmp_path / f"{k}.parquet" for k in range(3)), tmp_path / name],
                    skip_damaged=skip,
                )

    def test_a_file_of_another_schema_is_named_before_any_work(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(splits, "_READERS", {})
        table = reports_of(SYMBOLS, 50).to_arrow()
        wrong = table.set_column(0, "age", table["age"].cast(pa.float64()))
        for name, held in {"cast": wrong, "less": table.drop_columns(["mode"])}.items():
            pq.write_table(held.replace_schema_metadata(table.schema.metadata), tmp_path / name)
            with pytest.raises(sf.FormatError, match=f"{name}'"):
                tally_files(SYMBOLS.accumulator(), [tmp_path / name])
        pq.write_table(pa.table({"age": [1, 2]}), tmp_path / "plain")
        with pytest.raises(sf.FormatError, match=r"plain' holds no sfumato reports"):
            tally_files(SYMBOLS.accumulator(), [tmp_path / "plain"])

    def test_sums_are_not_added_to_reports(self, tmp_path: Path) -> None:
        BITS.accumulator("sums").freeze().save(tmp_path / "sums.parquet")
        with pytest.raises(sf.MismatchError, match=r"sums.parquet' keeps sums.*tally --sums"):
            tally_files(BITS.accumulator(), [tmp_path / "sums.parquet"])


@studies
@pytest.mark.parametrize("damage", [cut, rot])
@pytest.mark.usefixtures("small_splits")
class TestDamage:
    def test_a_damaged_file_is_named_with_what_was_tallied(
        self, study: sf.Study, damage: Any, tmp_path: Path
    ) -> None:
        paths = []
        for k in range(6):
            paths.append(tmp_path / f"{k}.parquet")
            write_groups(reports_of(study, 500, k), paths[-1], 250)
        damage(paths[4])
        journal = Journal(tmp_path / "out.journal")
        with pytest.raises(sf.FormatError, match=r"4.parquet' is damaged") as refused:
            tally_files(study.accumulator(), paths, journal=journal)
        remedy = "leave damaged files out with --skip-damaged (in Python, skip_damaged=True)"
        assert str(refused.value).endswith(remedy)
        if damage is cut:  # without its end a file has no metadata, which shows before any work
            assert "4.parquet' is damaged or not a Parquet file; nothing is tallied yet;" in str(
                refused.value
            )
            assert not journal.path.exists()
            return
        assert "2,000 reports of 4 files are tallied and kept" in str(refused.value)
        # Without the damaged file the next run goes on from there.
        told: list[str] = []
        whole = [path for path in paths if path != paths[4]]
        again = Journal(journal.path)
        found = tally_files(study.accumulator(), whole, journal=again, say=told.append)
        assert told == ["resuming: 4 of 5 files are tallied already"]
        assert found.to_bytes() == tally_files(study.accumulator(), whole).to_bytes()

    def test_one_among_many_is_left_out_if_asked_and_answers_say_so(
        self, study: sf.Study, damage: Any, tmp_path: Path
    ) -> None:
        paths = []
        for k in range(20):
            paths.append(tmp_path / f"{k:02}.parquet")
            write_groups(reports_of(study, 500, k), paths[-1], 250)
        whole = [path for path in paths if path.name != "11.parquet"]
        damage(tmp_path / "11.parquet")
        study.save(tmp_path / "study.toml")
        out = tmp_path / "tally.parquet"
        call = ["tally", str(tmp_path / "study.toml"), *map(str, paths), "--out", str(out)]
        refused = CliRunner().invoke(app, call)
        assert refused.exit_code == 2
        assert "11.parquet' is damaged" in refused.stderr
        assert not out.exists()
        done = CliRunner().invoke(app, [*call, "--skip-damaged", "--json"])
        note = "1 of 20 files was damaged and is left out: '11.parquet'"
        assert json.loads(done.stdout)["notes"] == [note]
        assert note in done.stderr.replace("\n", " ")
        tally = sf.Tally.load(out, study)
        assert tally.statistic == tally_files(study.accumulator(), whole).held.statistic
        assert not out.with_name("tally.parquet.journal").exists()
        for method in ("auto", "unbiased", "likelihood"):
            est = tally.estimate(method)
            for answer in (
                est.count("age=3..7"),
                est.histogram("age"),
                est.quantile("age", 0.5),
                est.count("age=3") / est.count("age=3..7"),
            ):
                assert note in answer.notes
            assert "damaged" not in repr(est)
        assert (tally + study.empty_tally()).notes == (note,)
        assert sf.Accumulator.from_bytes(tally.to_bytes()).notes == (note,)


def test_a_file_that_is_cut_between_two_runs_leaves_what_the_first_kept(tmp_path: Path) -> None:
    paths = [tmp_path / f"{k}.parquet" for k in range(4)]
    for k, path in enumerate(paths):
        write_groups(reports_of(SYMBOLS, 500, k), path, 250)
    rot(paths[3])
    with pytest.raises(sf.FormatError, match="3 files are tallied and kept"):
        tally_files(SYMBOLS.accumulator(), paths, journal=Journal(tmp_path / "out.journal"))
    cut(paths[3])
    with pytest.raises(sf.FormatError, match=r"3.parquet' is damaged.* what an earlier one tal"):
        tally_files(SYMBOLS.accumulator(), paths, journal=Journal(tmp_path / "out.journal"))
    told: list[str] = []
    found = tally_files(
        SYMBOLS.accumulator(), paths[:3], journal=Journal(tmp_path / "out.journal"), say=told.append
    )
    assert told == ["resuming: 3 of 3 files are tallied already"]
    assert found.n == 1_500


@pytest.mark.slow
def test_one_damaged_file_among_a_thousand_is_named_and_left_out_if_asked(tmp_path: Path) -> None:
    reports = reports_of(SYMBOLS, 3_000)
    for k in range(1_000):
        write_groups(reports[3 * k : 3 * k + 3], tmp_path / f"{k:03}.parquet", 2)
    paths = sorted(tmp_path.glob("*.parquet"))
    cut(paths[617])
    with pytest.raises(sf.FormatError, match=r"617.parquet' is damaged.*nothing is tallied yet"):
        tally_files(SYMBOLS.accumulator(), paths)
    found = tally_files(SYMBOLS.accumulator(), paths, skip_damaged=True)
    assert found.notes == ("1 of 1,000 files was damaged and is left out: '617.parquet'",)
    rest = [reports[: 3 * 617], reports[3 * 618 :]]
    assert found.held.statistic == SYMBOLS.tally(rest).statistic


def test_damaged_packed_reports_and_batches_are_named(tmp_path: Path) -> None:
    reports = reports_of(SYMBOLS, 50)
    data = reports.to_bytes()
    batch = batch_of(reports[:2], [bytes(16), bytes(15) + b"1"])
    for name, held, why in (
        ("cut.sfmr", data[:-1], "must have"),
        ("symbol.sfmr", data[:-2] + b"\xff\xff", "combination of symbols"),
        ("cut.batch", batch[:-1], "must have"),
        ("twice.batch", batch + batch[:50], "must have"),
    ):
        (tmp_path / name).write_bytes(held)
        with pytest.raises(sf.FormatError, match=f"{name}'.*{why}"):
            tally_files(SYMBOLS.accumulator(), [tmp_path / name])


def test_a_damaged_batch_is_left_out_and_the_others_count(tmp_path: Path) -> None:
    reports = reports_of(SYMBOLS, 90)
    for k in range(3):
        ids = [secrets.token_bytes(16) for _ in range(30)]
        (tmp_path / f"{k}.batch").write_bytes(batch_of(reports[30 * k : 30 * k + 30], ids))
    data = (tmp_path / "1.batch").read_bytes()
    (tmp_path / "1.batch").write_bytes(data[:-1])
    found = tally_files(SYMBOLS.accumulator(), sorted(tmp_path.iterdir()), skip_damaged=True)
    assert found.held.statistic == SYMBOLS.tally([reports[:30], reports[60:]]).statistic
    assert found.notes == ("1 of 3 files was damaged and is left out: '1.batch'",)


class TestJournal:
    def run(self, folder: Path, told: list[str]) -> sf.Accumulator:
        paths = sorted(folder.glob("*.parquet"))
        journal = Journal(folder / "out.journal")
        return tally_files(SYMBOLS.accumulator(), paths, journal=journal, say=told.append)

    @pytest.fixture
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setattr(journals, "EVERY", 0.0)
        monkeypatch.setattr(journals, "_SHARE", 0)
        for k in range(4):
            reports_of(SYMBOLS, 100, k).save(tmp_path / f"{k}.parquet")
        return tmp_path

    def test_a_finished_file_is_not_read_again(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = self.run(folder, [])
        monkeypatch.setattr(splits, "_READERS", {})
        told: list[str] = []
        assert self.run(folder, told).to_bytes() == first.to_bytes()
        assert told == ["resuming: 4 of 4 files are tallied already"]

    def test_a_file_that_changed_starts_the_work_over(self, folder: Path) -> None:
        self.run(folder, [])
        reports_of(SYMBOLS, 100, 77).save(folder / "2.parquet")
        told: list[str] = []
        found = self.run(folder, told)
        assert "2.parquet' has changed since; starting over" in told[0]
        assert (
            found.to_bytes()
            == tally_files(SYMBOLS.accumulator(), sorted(folder.glob("*.parquet"))).to_bytes()
        )

    def test_so_does_one_of_the_same_size_and_time(self, folder: Path) -> None:
        self.run(folder, [])
        path = folder / "2.parquet"
        before, data = path.stat(), bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert path.stat().st_size == before.st_size
        told: list[str] = []
        with contextlib.suppress(sf.FormatError):  # where the byte was in a page
            self.run(folder, told)
        assert "2.parquet' has changed since; starting over" in told[0]

    @pytest.mark.parametrize("damage", [b"", b"{}\n", b"[1]\nx", b'{"files": 3}\n'])
    def test_a_damaged_journal_is_not_used(self, folder: Path, damage: bytes) -> None:
        whole = self.run(folder, [])
        path = folder / "out.journal"
        for data in (damage, path.read_bytes()[:-1]):
            path.write_bytes(data)
            told: list[str] = []
            assert self.run(folder, told).to_bytes() == whole.to_bytes()
            assert "it is damaged; starting over" in told[0]

    def test_that_of_another_study_or_of_other_files_is_not_used(self, folder: Path) -> None:
        self.run(folder, [])
        (folder / "3.parquet").unlink()
        told: list[str] = []
        assert self.run(folder, told).n == 300
        assert "3.parquet', which is not to be tallied now" in told[0]
        journal, reports = Journal(folder / "out.journal"), folder / "bits"
        reports_of(BITS, 5).save(reports)
        tally_files(BITS.accumulator(), [reports], journal=journal, say=told.append)
        assert "it is of another study" in told[-1]

    def test_a_disk_that_is_full_stops_nothing_before_the_end(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        SYMBOLS.save(folder / "study.toml")
        paths = [str(path) for path in sorted(folder.glob("?.parquet"))]
        out = folder / "out.parquet"
        call = ["tally", str(folder / "study.toml"), *paths, "--out", str(out)]

        def full(self: Any, path: Any) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(sf.Tally, "save", full)
            refused = CliRunner().invoke(app, call)
        assert refused.exit_code == 2
        assert "No space left on device" in refused.stderr
        assert "4 of 4 files are kept in" in refused.stderr
        assert not out.exists()
        with monkeypatch.context() as patch:  # neither can the journal be written
            patch.setattr(sf.Tally, "save", full)
            patch.setattr(journals, "write_whole", lambda path, write: full(None, None))
            out.with_name("out.parquet.journal").unlink()
            refused = CliRunner().invoke(app, call)
        assert "the same command starts over" in refused.stderr
        done = CliRunner().invoke(app, call)
        assert done.exit_code == 0
        assert sf.Tally.load(out, SYMBOLS).n == 400
        assert not out.with_name("out.parquet.journal").exists()


STUCK = """
import itertools, sys, time
from sfumato.collect.engines import journal, splits
from sfumato.cli import main
journal.EVERY, journal._SHARE = 0.0, 0
read, count = splits._READERS["reports"], itertools.count(1)
def stuck(*args):
    if next(count) > 12:
        time.sleep(600)
    read(*args)
splits._READERS["reports"] = stuck
sys.argv = ["sfumato", *sys.argv[1:]]
main()
"""


@pytest.mark.slow
@studies
def test_a_run_that_is_killed_is_resumed_to_the_same_tally(study: sf.Study, tmp_path: Path) -> None:
    study.save(tmp_path / "study.toml")
    for k in range(40):
        reports_of(study, 200, k).save(tmp_path / f"{k:02}.parquet")
    paths = [str(path) for path in sorted(tmp_path.glob("*.parquet"))]
    out, journal = tmp_path / "out.tally.parquet", tmp_path / "out.tally.parquet.journal"
    call = ["tally", str(tmp_path / "study.toml"), *paths, "--out", str(out)]
    finished = 0
    for _ in range(2):
        with subprocess.Popen([sys.executable, "-c", STUCK, *call], env=os.environ) as run:
            while run.poll() is None and _finished(journal) < finished + 8:
                time.sleep(0.01)
            assert run.poll() is None, "the run ended before it could be killed"
            run.send_signal(signal.SIGKILL)
        assert not out.exists()
        finished = _finished(journal)
        assert finished >= 8
    done = CliRunner().invoke(app, call)
    assert done.exit_code == 0
    assert f"resuming: {finished} of 40 files" in done.stderr
    assert out.read_bytes() == tally_files(study.accumulator(), paths).to_bytes()
    assert not journal.exists()
    assert [path for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def _finished(journal: Path) -> int:
    """How many files a journal has; it is always whole."""
    if not journal.exists():
        return 0
    return len(json.loads(journal.read_bytes().partition(b"\n")[0])["files"])
