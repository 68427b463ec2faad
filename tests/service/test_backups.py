"""Backups and exports: whole, online, from either store into either."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from helpers_service import (
    DAY,
    QUICK,
    TODAY,
    Clock,
    batch,
    bits,
    collector,
    counted,
    fresh_ids,
    pairs,
)

import sfumato as sf
from sfumato.errors import FormatError, MismatchError, QuestionError, StoreError
from sfumato.service import answering, exports, tokens
from sfumato.service.backups import back_up, restore
from sfumato.service.collector import Collector, open_store
from sfumato.service.receiving import Outcome
from sfumato.service.stores import tables
from sfumato.service.stores.base import Store

Opened = Callable[[], Store]


def content(store: Store) -> dict[str, list[tuple[object, ...]]]:
    found = {}
    with store.look() as run:
        for table, columns in tables.COLUMNS.items():
            rows = run(f"SELECT {', '.join(columns)} FROM {table}")
            found[table] = sorted(rows, key=repr)
    return found


def filled(store: Store) -> tuple[Collector, tuple[bytes, ...]]:
    """A collector with something in every table."""
    made, ids = collector(store), fresh_ids(3)
    study, _ = made.publish(pairs().to_toml(), minimum=1)
    made.upload(study.fingerprint, batch([1, 2, 3], ids))
    made.tally()
    made.purge()
    made.upload(study.fingerprint, batch([4]))
    with pytest.raises(FormatError):
        made.upload(study.fingerprint, b"damaged")
    tokens.create(store, "Ann", "analyst", TODAY)
    answering.enter(store, {"asked": "age=1"})
    made.upload(study.fingerprint, batch([5]))
    return made, ids


def test_a_backup_holds_all_and_restores_into_either_store(
    store: Store, tmp_path: Path, place: str
) -> None:
    file = tmp_path / "monday.sqlite"
    made, ids = filled(store)
    before = content(store)
    assert all(before.values())
    rows = back_up(store, file)
    assert rows == sum(map(len, before.values()))
    made.upload(made.find(pairs().fingerprint).fingerprint, batch([6]))  # it is not in the backup
    made.writer.stop()
    other = open_store(tmp_path / "other")
    assert restore(other, file) == rows
    assert content(other) == before
    with collector(other) as again:
        study = again.find(pairs().fingerprint)
        again.upload(study.fingerprint, batch([1, 2], ids[:2]))  # tallied before the backup
        again.upload(study.fingerprint, batch([7]))
        again.tally()
        assert counted(again, study) == {1: 1, 2: 1, 3: 1, 4: 1, 5: 1, 7: 1}
    made.stop()


def test_a_backup_restores_into_a_database(database: str, store: Store, tmp_path: Path) -> None:
    import psycopg

    file = tmp_path / "monday.sqlite"
    made, _ = filled(store)
    before = content(store)
    back_up(store, file)
    made.stop()
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute("DROP SCHEMA IF EXISTS sfumato CASCADE")
    other = open_store(database)
    restore(other, file)
    assert content(other) == before
    with collector(other) as again:
        study = again.find(pairs().fingerprint)
        assert again.upload(study.fingerprint, batch([9])) == Outcome(1, 0, [])
        assert again.publish(bits().to_toml())[1]


def test_a_backup_is_not_restored_over_anything(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "monday.sqlite"
    made, _ = filled(store)
    back_up(store, file)
    before = content(store)
    with pytest.raises(StoreError, match="empty store only"):
        restore(store, file)
    assert content(store) == before
    made.stop()


def test_what_is_no_backup_is_refused(tmp_path: Path) -> None:
    other = open_store(tmp_path / "other")
    (tmp_path / "text.sqlite").write_text("not a database" * 100)
    with pytest.raises(FormatError, match="damaged or no store"):
        restore(other, tmp_path / "text.sqlite")
    with pytest.raises(FormatError, match="no such file"):
        restore(other, tmp_path / "none.sqlite")
    with pytest.raises(FormatError, match="exists"):
        back_up(other, tmp_path / "text.sqlite")
    with pytest.raises(FormatError, match="no such folder"):
        back_up(other, tmp_path / "none" / "text.sqlite")
    other.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["other", "text.sqlite"]


def test_a_backup_is_one_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    other = open_store(tmp_path / "other")
    before = content(other)
    back_up(other, tmp_path / "monday.sqlite")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["monday.sqlite", "other"]
    assert (tmp_path / "monday.sqlite").stat().st_mode & 0o777 == 0o600
    restored = open_store(tmp_path / "restored")
    restore(restored, tmp_path / "monday.sqlite")
    assert content(restored) == before
    restored.close()
    other.close()


@pytest.mark.parametrize("study", [pairs(), bits()], ids=lambda held: held.name)
def test_exports_are_what_was_sent(store: Store, study: sf.Study, tmp_path: Path) -> None:
    clock = Clock()
    made = Collector(store, QUICK, clock)
    held, _ = made.publish(study.to_toml())
    cells = [3, 1, 2, 1]
    made.upload(held.fingerprint, batch(cells, study=study))
    for what in ("tally", "reports"):
        file = tmp_path / f"{what}.parquet"
        assert exports.export(store, held, what, file, clock) == 4  # type: ignore[arg-type]
    tally = sf.Tally.load(tmp_path / "tally.parquet", study)
    reports = sf.Reports.load(tmp_path / "reports.parquet")
    assert study.tally(reports) == tally
    packed = reports.to_bytes()[45:]
    size = len(packed) // 4
    parts = [packed[k : k + size] for k in range(0, len(packed), size)]
    assert sorted(int.from_bytes(part, "little") for part in parts) == sorted(cells)
    logged = [entry["asked"] for entry in answering.log(store)]
    assert logged == [{"export": "tally"}, {"export": "reports"}]
    assert exports.export_questions(store, tmp_path / "log.jsonl") == 2
    assert exports.find(store, study.fingerprint[:8]).fingerprint == study.fingerprint
    for wrong in (study.fingerprint[:7], "0" * 8):
        with pytest.raises(MismatchError, match="begins with"):
            exports.find(store, wrong)
    clock.now += DAY
    made.stop()


def test_reports_are_not_exported_from_sums(store: Store, tmp_path: Path) -> None:
    made = collector(store)
    held, _ = made.publish(bits().to_toml(), keep="sums")
    made.upload(held.fingerprint, batch([1], study=bits()))
    with pytest.raises(QuestionError, match="sums"):
        exports.export(store, held, "reports", tmp_path / "r.parquet", Clock())
    made.stop()
