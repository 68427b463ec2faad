"""Studies, batches and clocks for the tests of the collector."""

from __future__ import annotations

import itertools
import socket
import threading
import time
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import uvicorn

import sfumato as sf
from sfumato.device.wire import Batch
from sfumato.service import server
from sfumato.service.collector import Collector, Settings
from sfumato.service.published import Published
from sfumato.service.stores.base import Store
from sfumato.service.worker import Worker

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it would rather have httpx2
    from starlette.testclient import TestClient as TestClient

TODAY = 20_000
DAY = 86_400
QUICK = Settings(tally_seconds=3_600, rate=0, reserve=0)
_IDS = itertools.count(1)
#: One for all tests: starting the process takes longer than most of them.
WORKER = Worker()


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = float(TODAY * DAY + 7_200)

    def __call__(self) -> float:
        return self.now


@cache
def pairs() -> sf.Study:
    """A study whose reports are one number below 4,096; its tally shows how often each came."""
    axes = [
        sf.integers(name, 0, 63, protect=sf.Distance(0.5), channel=sf.Geometric())
        for name in ("high", "low")
    ]
    return sf.Study("pairs", axes)


@cache
def ages() -> sf.Study:
    """A study of one axis."""
    return sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])


@cache
def bits() -> sf.Study:
    """A study whose tally is the reports."""
    axes = [
        sf.integers(name, 0, 4, protect=sf.Distance(0.5), channel=sf.Thermometer())
        for name in ("first", "second")
    ]
    return sf.Study("bits", axes)


def fresh_ids(count: int) -> tuple[bytes, ...]:
    """Ids that no other batch has."""
    return tuple(
        (next(_IDS) * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128).to_bytes(16, "big")
        for _ in range(count)
    )


def batch(
    cells: Sequence[int],
    ids: Sequence[bytes] | None = None,
    *,
    expires: int = TODAY + 30,
    study: sf.Study | None = None,
) -> bytes:
    """A batch of reports of `pairs`, or of another study, that say these numbers."""
    study = study or pairs()
    size = study.device_program().report_size
    reports = tuple(cell.to_bytes(size, "little") for cell in cells)
    ids = fresh_ids(len(cells)) if ids is None else ids
    return Batch(study.fingerprint, expires, tuple(ids), reports).to_bytes()


def collector(store: Store, clock: Clock | None = None, settings: Settings = QUICK) -> Collector:
    """A collector that tallies only when it is told to."""
    return Collector(store, settings, clock or Clock(), WORKER)


def counted(made: Collector, study: Published) -> dict[int, int]:
    """How often each number was counted."""
    from sfumato.service.tallying import read_tally

    statistic = read_tally(made.store, study).tally.statistic
    high, low = (np.asarray(column).tolist() for column in statistic.symbols)
    people = statistic.people.tolist()
    return {
        first * 64 + second: many for first, second, many in zip(high, low, people, strict=True)
    }


class Serving:
    """A collector that is served in a thread of this process."""

    def __init__(self, made: Collector, monkeypatch: pytest.MonkeyPatch, **more: Any) -> None:
        self._servers: list[uvicorn.Server] = []

        def run(held: uvicorn.Server, sockets: list[socket.socket]) -> None:
            self._servers.append(held)
            real(held, sockets)

        real = uvicorn.Server.run
        monkeypatch.setattr(uvicorn.Server, "run", run)
        self.listening = server.listen("127.0.0.1", 0)
        self.url = server.address(self.listening)
        self._thread = threading.Thread(
            target=server.serve, args=(made, self.listening), kwargs=more
        )

    def __enter__(self) -> Serving:
        self._thread.start()
        return self

    def tell(self) -> None:
        """Tell it to stop."""
        while not self._servers:
            time.sleep(0.001)
        self._servers[0].should_exit = True

    def __exit__(self, *_: object) -> None:
        self.tell()
        self._thread.join()
