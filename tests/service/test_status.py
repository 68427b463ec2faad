"""What administrators see: counters, rates, what waits, disk, tokens and the last backup."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from helpers_service import QUICK, TODAY, Clock, ages, batch, collector, fresh_ids, pairs
from test_app import Running, sent

from sfumato.errors import FormatError
from sfumato.service import answering, tokens
from sfumato.service.backups import back_up
from sfumato.service.rates import Rates
from sfumato.service.status import status
from sfumato.service.stores.base import FullError, Store


def test_the_status_of_a_collector_says_all_that_it_keeps(store: Store, tmp_path: Path) -> None:
    clock = Clock()
    with collector(store, clock) as made:
        empty = status(made, {})
        assert (empty["studies"], empty["tokens"], empty["questions"]) == ([], [], 0)
        assert empty["last_backup"] is None
        assert empty["quarantine"] == {"batches": 0, "bytes": 0, "reasons": {}, "days": 7}
        study, _ = made.publish(pairs().to_toml(), minimum=5)
        made.publish(ages().to_toml())
        made.sample()
        ids = fresh_ids(3)
        made.upload(study.fingerprint, batch([1, 2, 3], ids))
        made.tally()
        made.upload(study.fingerprint, batch([1, 4], (ids[0], *fresh_ids(1))))
        for damaged in (b"damaged", batch([1])[:-1], batch([1])[:-2]):
            with pytest.raises(FormatError):
                made.upload(study.fingerprint, damaged)
        made.upload(study.fingerprint, batch([5]))  # the damaged ones are stored with it
        secret = tokens.create(store, "Ann", "analyst", TODAY)
        tokens.create(store, "Bob", "admin", TODAY)
        tokens.revoke(store, "Bob", TODAY + 1)
        answering.enter(store, {"asked": "age=1"})
        back_up(store, tmp_path / "monday.sqlite", clock=clock)
        found = status(made, {("upload", 202): 3, ("upload", 400): 3, ("health", 200): 1})
        first, second = found["studies"]
        assert first | {"rates": 0} == {
            **study.to_dict(),
            "tally": 1,
            "reports": 3,
            "waiting": 2,
            "counters": {"accepted": 5, "repeated": 1, "length": 2, "magic": 1},
            "rates": 0,
        }
        assert (second["reports"], second["waiting"], second["counters"]) == (0, 0, {})
        assert found["ready"] is True
        assert found["queue"] == {"bytes": 0, "most_bytes": 1 << 26}
        assert found["disk"]["store_bytes"] > 10_000
        assert (found["disk"]["free_bytes"] is None) == (store.free_bytes() is None)
        assert found["quarantine"]["reasons"] == {"length": 2, "magic": 1}
        assert found["quarantine"]["bytes"] == 7 + 2 * len(batch([1])) - 3
        assert [(one["name"], one["revoked"]) for one in found["tokens"]] == [
            ("Ann", None),
            ("Bob", TODAY + 1),
        ]
        assert found["questions"] == 1
        assert found["last_backup"] == clock.now
        assert found["requests"] == {"health": {"200": 1}, "upload": {"202": 3, "400": 3}}
        with store.look() as run:
            ((kept,),) = run("SELECT hash FROM tokens WHERE name = 'Ann'")
        text = json.dumps(found)
        assert secret[8:] not in text
        assert bytes(kept).hex() not in text


def test_rates_are_those_of_the_last_minute_and_hour() -> None:
    now = [0.0]
    rates = Rates(lambda: now[0])
    assert rates.due
    assert rates.of(1) == {"minute": None, "hour": None}
    for minute in range(100):
        now[0] = 60.0 * minute
        assert rates.due
        rates.note({1: 6 * minute, 2: 60 if minute == 99 else 0})
        assert not rates.due
    assert rates.of(1) == {"minute": 0.1, "hour": 0.1}
    assert rates.of(2) == {"minute": 1.0, "hour": 1 / 60}
    assert rates.of(3) == {"minute": 0.0, "hour": 0.0}  # it was deleted, or nothing came
    now[0] += 60
    rates.note({1: 500})
    assert rates.of(1)["minute"] == 0.0  # repeated reports were taken back


def test_a_collector_that_runs_takes_samples(tmp_path: Path) -> None:
    running = Running(tmp_path)
    with running.http:
        running.upload(sent([1, 2, 3]))
        for _ in range(2):
            running.collector.sample()
        found = running.http.get("/v1/status", headers=running.headers("admin")).json()
    assert found["studies"][0]["rates"]["minute"] == 0.0
    assert found["requests"]["upload"] == {"202": 1}
    assert found["disk"]["reserve_bytes"] == 0
    assert found["seconds"] >= 0


def test_a_backup_is_there_also_where_the_store_is_full(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise FullError("the disk is full")

    with collector(store) as made:
        made.publish(pairs().to_toml())
        with monkeypatch.context() as patch:
            patch.setattr("sfumato.service.stores.base.Run.set_fact", full)
            back_up(store, tmp_path / "monday.sqlite")
        assert (tmp_path / "monday.sqlite").exists()
        assert status(made, {})["last_backup"] is None


def test_the_keeper_takes_a_sample_by_itself_and_says_once_what_fails(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with collector(store, settings=replace(QUICK, tally_seconds=0.001)) as made:
        study, _ = made.publish(pairs().to_toml())
        made.upload(study.fingerprint, batch([1]))
        while made.rates.due or not made.counts(study)["reports"]:
            time.sleep(0.001)
        tried = []

        def broken() -> int:
            tried.append(1)
            raise FullError("there is no room" if len(tried) % 9 else "there is none at all")

        with monkeypatch.context() as patch:
            patch.setattr(made, "tally", broken)
            while len(tried) < 16:
                time.sleep(0.001)
        while len(caplog.records) < 3:
            time.sleep(0.001)
    said = [record.getMessage().removeprefix("cannot tally: ") for record in caplog.records[:3]]
    assert said == ["there is no room", "there is none at all", "there is no room"]
