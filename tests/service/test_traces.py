"""What an uploader leaves behind: no address, no header, and no time finer than a day."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from helpers_service import QUICK, Serving, batch, fresh_ids, pairs

from sfumato.device.wire import MEDIA_TYPE
from sfumato.service import tokens
from sfumato.service.collector import Collector, open_store
from sfumato.service.stores import tables
from sfumato.service.stores.base import Store

TELLING = {
    "User-Agent": "a-telling-agent",
    "X-Forwarded-For": "203.0.113.77",
    "Forwarded": "for=203.0.113.77",
    "Cookie": "who=a-telling-cookie",
    "Origin": "https://a-telling-origin.example",
    "Accept-Language": "xx-TELLING",
}
WORDS = ("telling", "203.0.113.77", "127.0.0.1", "sfumato_")


def values(store: Store) -> dict[str, list[object]]:
    """All that is stored, by table."""
    with store.look() as run:
        return {
            table: [value for row in run(f"SELECT * FROM {table}") for value in row]
            for table in tables.COLUMNS
        }


def times(found: dict[str, list[object]], now: float) -> list[str]:
    """The tables with a number that is a time of the last hours, in any usual unit."""
    return [
        table
        for table, held in found.items()
        for value in held
        if isinstance(value, int | float)
        and any(abs(value / unit - now) < 7_200 for unit in (1, 1e3, 1e6, 1e9, 1 / 60))
    ]


def words(found: dict[str, list[object]]) -> list[str]:
    """The tables with something that tells of an uploader."""
    return [
        table
        for table, held in found.items()
        for value in held
        for word in WORDS
        if (word in value if isinstance(value, str) else word.encode() in as_bytes(value))
    ]


def as_bytes(value: object) -> bytes:
    return bytes(value) if isinstance(value, bytes | memoryview) else b""


@pytest.mark.slow
def test_an_uploader_leaves_only_reports(
    opened: Callable[[], Store],
    place: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    settings = replace(QUICK, upload_token=True, burst=20, rate=0.001)
    made = Collector(open_store(place), settings)
    study, _ = made.publish(pairs().to_toml())
    token = tokens.create(made.store, "phones", "uploader", made.today())
    headers = {**TELLING, "Content-Type": MEDIA_TYPE, "Authorization": f"Bearer {token}"}
    day, ids = made.today() + 30, fresh_ids(1)
    bodies = [
        batch([1], ids, expires=day),
        batch([1], ids, expires=day),
        batch([2, 3], expires=day)[:-1],
        batch([4], expires=day - 60),
        b"damaged",
        bytes(1 << 20),
        batch([5], expires=day),
    ]
    with Serving(made, monkeypatch, proxies=["127.0.0.0/8"]) as served:
        url = f"{served.url}/v1/studies/{study.fingerprint}/reports"
        answers = [httpx.post(url, content=body, headers=headers).status_code for body in bodies]
        assert answers == [202, 202, 400, 410, 400, 413, 202]
        made.tally()
        made.purge()
        limited = [httpx.post(url, content=b"", headers=headers).status_code for _ in range(30)]
        assert limited[-1] == 429
    found = values(opened())
    assert all(found[table] for table in ("ids", "counters", "quarantine", "tallies"))
    assert times(found, time.time()) == []
    assert words(found) == []
    if not place.startswith("postgresql"):
        for file in Path(place).iterdir():
            assert not any(word.encode() in file.read_bytes() for word in WORDS), file.name
    ours = [one for one in caplog.records if not one.name.startswith("http")]  # nor the client's
    said = "".join(capfd.readouterr()) + "".join(one.getMessage() for one in ours)
    assert not any(word in said for word in (*WORDS, token))


def test_a_trace_would_be_found() -> None:
    now = time.time()
    for value in (int(now), int(now * 1e3), now, int(now * 1e9), int(now // 60)):
        assert times({"quarantine": [1, value]}, now) == ["quarantine"]
    assert times({"quarantine": [int(now // 86_400), int(now // 3_600), 0, -5]}, now) == []
    assert words({"ids": [b"\0a-telling-agent"], "facts": ["203.0.113.77", 3]}) == ["ids", "facts"]
