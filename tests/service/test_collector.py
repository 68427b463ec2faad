"""The collector without HTTP, on both stores: what it stores, counts once, keeps and deletes."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers_service import (
    DAY,
    QUICK,
    TODAY,
    Clock,
    ages,
    batch,
    bits,
    collector,
    counted,
    fresh_ids,
    pairs,
)

import sfumato as sf
from sfumato.device.wire import WireError
from sfumato.errors import FormatError, StoreError
from sfumato.service import published, tallying, tokens, writer
from sfumato.service.collector import Collector, Settings, open_store
from sfumato.service.receiving import Outcome
from sfumato.service.refusals import RefusedError
from sfumato.service.stores import sqlite, tables
from sfumato.service.stores.base import FullError, Store

Opened = Callable[[], Store]


def broken(data: bytes, step: int) -> bytes:
    raise StoreError("no disk")


def rows(made: Collector, table: str) -> int:
    with made.store.look() as run:
        return int(run(f"SELECT count(*) FROM {table}")[0][0])


class TestReports:
    def test_are_stored_tallied_and_deleted(self, store: Store) -> None:
        with collector(store) as made:
            study, _ = made.publish(pairs().to_toml())
            assert made.upload(study.fingerprint, batch([1, 2, 3])) == Outcome(3, 0, [])
            assert made.upload(study.fingerprint, batch([3])) == Outcome(1, 0, [])
            assert rows(made, "segments") == 2
            assert made.tally() == 4
            assert (rows(made, "segments"), rows(made, "ids")) == (0, 4)
            assert counted(made, study) == {1: 1, 2: 1, 3: 2}
            assert made.tally() == 0
            assert made.counts(study) == {
                "tally": 1,
                "reports": 4,
                "counters": {"accepted": 4},
            }

    def test_count_once_however_often_they_come(self, opened: Opened) -> None:
        ids = fresh_ids(3)
        with collector(opened()) as made:
            study, _ = made.publish(pairs().to_toml())
            data = batch([1, 2, 3], ids)
            made.upload(study.fingerprint, data)
            assert made.upload(study.fingerprint, data) == Outcome(0, 3, [])
            made.tally()
            assert made.upload(study.fingerprint, data) == Outcome(0, 3, [])
            mixed = batch([1, 4], (ids[0], *fresh_ids(1)))
            assert made.upload(study.fingerprint, mixed) == Outcome(1, 1, [])
        with collector(opened()) as made:  # it has forgotten which ids came lately
            assert made.upload(study.fingerprint, data) == Outcome(3, 0, [])
            assert made.tally() == 1
            assert counted(made, study) == {1: 1, 2: 1, 3: 1, 4: 1}
            assert made.counts(study)["counters"] == {"accepted": 4, "repeated": 10}

    def test_count_once_within_one_tally(self, opened: Opened) -> None:
        ids = fresh_ids(2)
        with collector(opened()) as made:
            study, _ = made.publish(pairs().to_toml())
            made.upload(study.fingerprint, batch([1, 2], ids))
        with collector(opened()) as made:
            made.upload(study.fingerprint, batch([7, 8], ids))
            assert made.tally() == 2
            assert counted(made, study) == {1: 1, 2: 1}  # the first to come counts

    def test_keep_their_id_until_the_latest_day_that_was_said(self, store: Store) -> None:
        clock, (one,) = Clock(), fresh_ids(1)
        with collector(store, clock) as made:
            study, _ = made.publish(pairs().to_toml())
            for day in (TODAY + 3, TODAY + 1, TODAY + 5):
                made.upload(study.fingerprint, batch([1], [one], expires=day))
            assert made.tally() == 1
            clock.now += 4 * DAY
            made.purge()
            made.upload(study.fingerprint, batch([1], [one], expires=TODAY + 5))
            assert made.tally() == 0
            clock.now += 2 * DAY
            made.purge()
            assert rows(made, "ids") == 0
            with pytest.raises(RefusedError) as refused:
                made.upload(study.fingerprint, batch([1], [one], expires=TODAY + 5))
            assert (refused.value.status, refused.value.code) == (410, "expired")

    def test_of_an_expired_batch_are_refused_even_if_the_clock_goes_back(
        self, opened: Opened
    ) -> None:
        clock, (one,) = Clock(), fresh_ids(1)
        with collector(opened(), clock) as made:
            study, _ = made.publish(pairs().to_toml())
            made.upload(study.fingerprint, batch([1], [one], expires=TODAY))
            made.upload(study.fingerprint, batch([2], expires=TODAY + 9))
            clock.now += 2 * DAY
            made.purge()  # tallies what waited, then forgets its id
            assert counted(made, study) == {1: 1, 2: 1}
            assert rows(made, "ids") == 1
            clock.now -= 2 * DAY
            for _ in range(2):
                with pytest.raises(RefusedError, match="expired"):
                    made.upload(study.fingerprint, batch([1], [one], expires=TODAY))
        with (
            collector(opened(), clock) as made,
            pytest.raises(RefusedError, match="expired"),
        ):
            made.upload(study.fingerprint, batch([1], [one], expires=TODAY))

    def test_that_wait_while_their_day_passes_still_count_once(self, opened: Opened) -> None:
        clock, ids = Clock(), fresh_ids(1)
        with collector(opened(), clock) as made:
            study, _ = made.publish(pairs().to_toml())
            made.upload(study.fingerprint, batch([1], ids, expires=TODAY))
            made.tally()
        with collector(opened(), clock) as made:
            made.upload(study.fingerprint, batch([1], ids, expires=TODAY))  # not known to repeat
            clock.now += 2 * DAY
            made.purge()
            assert counted(made, study) == {1: 1}

    def test_expire_in_the_queue_too(self, store: Store) -> None:
        clock = Clock()
        with collector(store, clock) as made:
            study, _ = made.publish(pairs().to_toml())
            upload = made.read(study, batch([1], expires=TODAY))
            clock.now += DAY
            done: list[object] = []
            made.put(upload, done.append)
            made.writer.stop()
            assert [type(one) for one in done] == [RefusedError]
            assert rows(made, "segments") == 0

    def test_leave_no_trace_of_their_order(self, store: Store) -> None:
        with collector(store) as made:
            study, _ = made.publish(pairs().to_toml())
            made.upload(study.fingerprint, batch(range(1000)))
            with store.look() as run:
                ((data,),) = run("SELECT data FROM segments")
        cells = np.frombuffer(data, dtype=np.uint8).reshape(1000, 18)[:, 16:].copy()
        order = cells.view("<u2")[:, 0].tolist()
        assert sorted(order) == list(range(1000))
        # Each place keeps its own report with probability 1/1000: about one in all.
        assert sum(place == cell for place, cell in enumerate(order)) < 12

    @pytest.mark.parametrize("study", [ages(), bits(), pairs()], ids=lambda held: held.name)
    @pytest.mark.parametrize("keep", ["reports", "sums"])
    def test_give_the_tally_that_the_library_gives(
        self, store: Store, study: sf.Study, keep: str, seed: int
    ) -> None:
        rng = np.random.default_rng(seed)
        table = {axis.name: rng.integers(0, 5, 300).tolist() for axis in study.axes}
        reports = study.encode(table)
        data = reports.to_bytes()[45:]
        size = len(data) // 300
        with collector(store) as made:
            held, _ = made.publish(study.to_toml(), keep=keep)  # type: ignore[arg-type]
            for start in range(0, 300, 60):
                wanted = range(start, start + 60)
                cells = [int.from_bytes(data[k * size : (k + 1) * size], "little") for k in wanted]
                made.upload(held.fingerprint, batch(cells, study=study))
                made.tally()
            found = tallying.read_tally(store, held)
            parts = rows(made, "tallies")
        whole = study.accumulator(keep)  # type: ignore[arg-type]
        whole.add(reports)
        assert found.tally == whole.freeze()
        assert found.version == 5
        assert parts <= 3

    def test_of_many_segments_are_tallied_some_at_a_time(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tallying, "_AT_ONCE", 10)
        with collector(store) as made:
            study, _ = made.publish(pairs().to_toml())
            for start in (0, 4, 8, 12, 40):
                made.upload(study.fingerprint, batch(range(start, start + 4)))
            made.upload(study.fingerprint, batch(range(100, 130)))
            assert made.tally() == 50
            assert made.counts(study)["tally"] == 4
            assert set(counted(made, study).values()) == {1}


class TestDamage:
    def test_of_single_reports_is_answered_by_place(self, store: Store) -> None:
        study = ages()
        with collector(store) as made:
            held, _ = made.publish(study.to_toml())
            data = batch([1, 200, 3, 255], study=study)
            refused = [{"place": 1, "code": "symbol"}, {"place": 3, "code": "symbol"}]
            assert made.upload(held.fingerprint, data) == Outcome(2, 0, refused)
            lone = batch([100], study=study)
            alone = [{"place": 0, "code": "symbol"}]
            assert made.upload(held.fingerprint, lone) == Outcome(0, 0, alone)
            assert made.tally() == 2
            assert made.counts(held)["counters"] == {"accepted": 2, "symbol": 3}

    def test_of_padding_is_answered_by_place(self, store: Store) -> None:
        with collector(store) as made:
            held, _ = made.publish(bits().to_toml())
            outcome = made.upload(held.fingerprint, batch([255, 128, 7], study=bits()))
        assert outcome.refused == []
        assert bits().device_program().layout.bits == 8

    @pytest.mark.parametrize(
        ("change", "code"),
        [
            (lambda data: b"XXXX" + data[4:], "magic"),
            (lambda data: data[:4] + b"\x02" + data[5:], "version"),
            (lambda data: data[:5] + bytes(32) + data[37:], "study"),
            (lambda data: data[:-1], "length"),
            (lambda data: data[:20], "length"),
            (lambda data: data[:37] + bytes(4) + data[41:], "count"),
            (lambda data: data[:63] + data[45:61] + data[79:], "id"),
        ],
    )
    def test_of_a_batch_stores_nothing_and_keeps_it_in_quarantine(
        self, store: Store, change: Callable[[bytes], bytes], code: str
    ) -> None:
        with collector(store) as made:
            study, _ = made.publish(pairs().to_toml())
            damaged = change(batch([1, 2]))
            with pytest.raises(WireError) as refused:
                made.upload(study.fingerprint, damaged)
            assert refused.value.code == code
            made.writer.stop()
            assert rows(made, "segments") == 0
            with store.look() as run:
                kept = run("SELECT reason, data FROM quarantine")
            assert [(reason, bytes(data)) for reason, data in kept] == [(code, damaged)]
            assert made.counts(study)["counters"] == {code: 1}

    def test_in_quarantine_is_bounded_and_expires(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(writer, "_QUARANTINE_ROWS", 3)
        clock = Clock()
        with collector(store, clock) as made:
            study, _ = made.publish(pairs().to_toml())
            for number in range(6):
                with pytest.raises(WireError):
                    made.upload(study.fingerprint, b"damaged %d" % number)
                made.upload(study.fingerprint, batch([1]))
            with store.look() as run:
                kept = run("SELECT data FROM quarantine ORDER BY number")
            assert [bytes(data) for (data,) in kept] == [b"damaged %d" % k for k in (3, 4, 5)]
            clock.now += (tallying.QUARANTINE_DAYS + 2) * DAY
            made.purge()
            assert rows(made, "quarantine") == 0

    def test_of_the_clock_is_refused(self, store: Store) -> None:
        with collector(store) as made:
            study, _ = made.publish(pairs().to_toml())
            with pytest.raises(RefusedError, match="clock right") as refused:
                made.upload(study.fingerprint, batch([1], expires=TODAY + 400))
            assert (refused.value.status, refused.value.code) == (400, "clock")

    def test_of_size_is_refused(self, store: Store) -> None:
        with collector(store, settings=Settings(most_reports=3, reserve=0)) as made:
            study, _ = made.publish(pairs().to_toml())
            with pytest.raises(RefusedError, match="at most 3") as refused:
                made.upload(study.fingerprint, batch([1] * 4))
            assert refused.value.to_dict()["most"] == 3


class TestFailures:
    def test_a_full_queue_refuses_and_what_waits_is_stored(self, store: Store) -> None:
        done: list[object] = []
        with collector(store, settings=Settings(most_waiting=40, reserve=0)) as made:
            study, _ = made.publish(pairs().to_toml())
            uploads = [made.read(study, batch([cell])) for cell in range(3)]
            with store.change():  # the writer waits for this to end
                made.put(uploads[0], done.append)
                while made.writer._waiting:  # until the writer has taken it
                    time.sleep(0.001)
                made.put(uploads[1], done.append)
                with pytest.raises(RefusedError, match="too much waits") as refused:
                    made.put(uploads[2], done.append)
                assert (refused.value.status, refused.value.code) == (429, "busy")
                assert refused.value.retry_after == 1
            made.writer.stop()
        assert done == [Outcome(1, 0, [])] * 2

    def test_stopping_stores_what_waits_and_takes_no_more(self, store: Store) -> None:
        done: list[object] = []
        made = collector(store)
        study, _ = made.publish(pairs().to_toml())
        upload = made.read(study, batch([1]))
        with store.change():
            for cell in range(20):
                made.put(made.read(study, batch([cell])), done.append)
            stopping = threading.Thread(target=made.writer.stop)
            stopping.start()
        stopping.join()
        assert done == [Outcome(1, 0, [])] * 20
        with pytest.raises(RefusedError, match="stops") as refused:
            made.put(upload, done.append)
        assert refused.value.status == 503
        made.stop()

    def test_a_full_disk_refuses_uploads_and_still_tallies(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with collector(store) as made:
            study, _ = made.publish(pairs().to_toml())
            made.upload(study.fingerprint, batch([1]))
            monkeypatch.setattr(made.writer, "_reserve", 1 << 20)
            monkeypatch.setattr(type(store), "free_bytes", lambda self: 1000)
            with pytest.raises(RefusedError, match="full") as refused:
                made.upload(study.fingerprint, batch([2]))
            assert (refused.value.status, refused.value.code) == (507, "full")
            assert made.tally() == 1
            monkeypatch.undo()
            assert made.upload(study.fingerprint, batch([2])) == Outcome(1, 0, [])

    def test_a_failing_store_leaves_the_outcome_open_and_ids_unknown(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        data = batch([1])
        with collector(store) as made:
            study, _ = made.publish(pairs().to_toml())
            with monkeypatch.context() as patch:
                patch.setattr(writer, "shuffled", broken)
                with pytest.raises(RefusedError, match="no disk") as refused:
                    made.upload(study.fingerprint, data)
                assert refused.value.status == 500
            assert made.upload(study.fingerprint, data) == Outcome(1, 0, [])

    def test_a_deleted_study_takes_nothing_more(self, store: Store) -> None:
        with collector(store) as made:
            study, _ = made.publish(pairs().to_toml())
            made.upload(study.fingerprint, batch([1]))
            upload = made.read(study, batch([2]))
            made.delete(study)
            assert all(rows(made, table) == 0 for table in ("segments", "studies", "counters"))
            done: list[object] = []
            made.put(upload, done.append)
            made.writer.stop()
            assert [getattr(one, "status", None) for one in done] == [404]
            with pytest.raises(RefusedError, match="no study"):
                made.find(study.fingerprint)


class TestStudies:
    def test_are_published_once_and_never_change(self, store: Store) -> None:
        with collector(store) as made:
            first, new = made.publish(ages().to_toml())
            assert new
            assert made.publish(ages().to_toml()) == (first, False)
            with pytest.raises(RefusedError, match="other contents") as refused:
                made.publish(ages().to_toml(), minimum=7)
            assert (refused.value.status, refused.value.code) == (409, "published")
            assert [one.fingerprint for one in published.every(store)] == [first.fingerprint]
            assert first.digest == ages().device_program().digest
            assert first.explanation == ages().explain()

    def test_are_refused_where_the_guarantee_does_not_hold(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        audit = sf.audit(ages())
        object.__setattr__(audit.axes[0], "holds", False)
        monkeypatch.setattr(published, "audit", lambda study: audit)
        with collector(store) as made:
            with pytest.raises(RefusedError, match="does not hold"):
                made.publish(ages().to_toml())
            assert rows(made, "studies") == 0

    def test_say_what_is_kept(self, store: Store) -> None:
        with collector(store) as made:
            said = [
                made.publish(study.to_toml(), keep=keep)[0].retention  # type: ignore[arg-type]
                for study, keep in ((ages(), "reports"), (bits(), "reports"))
            ]
        assert "how often each was sent" in said[0]
        assert "the reports themselves" in said[1]


class TestVersions:
    def test_a_newer_store_is_refused(self, opened: Opened, store: Store) -> None:
        with store.change() as run:
            run("UPDATE facts SET value = 99 WHERE name = 'version'")
        with pytest.raises(FormatError, match="version 99, newer"):
            opened()

    def test_an_older_store_is_brought_up_to_date(
        self, opened: Opened, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        token = tokens.create(store, "Ann", "admin", TODAY)
        added = "ALTER TABLE tokens ADD COLUMN note TEXT;CREATE TABLE more (name TEXT)"
        monkeypatch.setattr(tables, "MIGRATIONS", (*tables.MIGRATIONS, added))
        for _ in range(2):
            again = opened()
            with again.look() as run:
                assert run("SELECT name, note FROM tokens") == [("Ann", None)]
                assert run.fact("version") == len(tables.MIGRATIONS)
            assert tokens.Holders.read(again).of(token) is not None

    def test_a_migration_that_fails_changes_nothing(
        self, opened: Opened, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            wrong = "CREATE TABLE more (name TEXT);CREATE NONSENSE"
            patch.setattr(tables, "MIGRATIONS", (*tables.MIGRATIONS, wrong))
            with pytest.raises(StoreError):
                opened()
        with opened().look() as run:
            assert run.fact("version") == len(tables.MIGRATIONS)

    def test_another_programs_database_is_refused(self, tmp_path: Path) -> None:
        other = sqlite3.connect(tmp_path / sqlite.FILE)
        other.execute("CREATE TABLE studies (name)")
        other.close()
        with pytest.raises(FormatError, match="another program"):
            open_store(tmp_path)

    def test_a_file_that_is_no_database_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / sqlite.FILE).write_bytes(b"not a database" * 100)
        with pytest.raises(FormatError, match="damaged or no store"):
            open_store(tmp_path)

    def test_a_missing_store_is_not_made_where_one_must_be(self, tmp_path: Path) -> None:
        with pytest.raises(StoreError, match="there is no store"):
            open_store(tmp_path / "none", make=False)

    def test_a_database_that_cannot_be_reached_does_not_show_the_password(self) -> None:
        with pytest.raises(StoreError) as refused:
            open_store("postgresql://ann:secret@127.0.0.1:1/none")
        assert "secret" not in str(refused.value)
        assert "127.0.0.1/none" in str(refused.value)


def test_a_full_database_is_told_from_a_broken_one(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    assert isinstance(store, sqlite.SqliteStore)
    with collector(store, settings=QUICK) as made:
        study, _ = made.publish(pairs().to_toml())
        made.upload(study.fingerprint, batch([1]))
        pages = store._writer.execute("PRAGMA page_count").fetchone()[0]
        store._writer.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(RefusedError, match="is full") as refused:
            made.upload(study.fingerprint, batch(range(4096)))
        assert refused.value.status == 507
        with pytest.raises(FullError), store.change() as run:
            run("INSERT INTO quarantine VALUES (1, 1, '', 1, ?)", (bytes(1 << 20),))
        assert made.tally() == 1
        store._writer.execute("PRAGMA max_page_count = 1000000")
        assert made.upload(study.fingerprint, batch(range(4096))).accepted == 4096


def test_the_disk_is_synced_at_every_commit(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    assert isinstance(store, sqlite.SqliteStore)
    facts = [
        store._writer.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous", "secure_delete")
    ]
    assert facts == ["wal", 2, 1]
    assert (tmp_path / sqlite.FILE).stat().st_mode & 0o777 == 0o600
    store.close()
