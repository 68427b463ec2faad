"""A collector that holds 10 million reports: its restart, its answers, its memory and its disk."""

from __future__ import annotations

import http.client
import json
import os
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.collector import (
    load_study,
    processor_seconds,
    requests,
    resident_bytes,
    server,
    serving,
)
from benchmarks.recording import Measurement, progress
from sfumato.device.wire import MEDIA_TYPE
from sfumato.service import tokens
from sfumato.service.collector import Collector, Settings, open_store
from sfumato.service.writer import Done

REPORTS = 10_000_000
NEW = 10_000
REPEATS = 20
TIMES = 5
_AT_ONCE = 100  # batches of NEW reports
_ASKED = {"count": "x=100..150"}


def measure() -> Measurement:
    """Fill a store, restart its collector, and ask it again and again."""
    study = load_study()
    rows: list[dict[str, Any]] = []

    def row(what: str, taken: list[tuple[float, float]]) -> None:
        wall, spent = zip(*taken, strict=True)
        median, processor = statistics.median(wall), statistics.median(spent)
        rows.append(
            {"what": what, "times": len(taken), "seconds": median, "longest": max(wall)}
            | {"processor seconds of the server": processor}
        )

    with tempfile.TemporaryDirectory() as folder:
        filled = _filled(folder, study)
        with Collector(open_store(folder)) as collector:
            token = tokens.create(collector.store, "load", "analyst", collector.today())
        made = requests(study, NEW)
        restarts, first, again, later = [], [], [], []
        for place in range(TIMES):
            progress(f"restart {place + 1} of {TIMES}")
            start = time.perf_counter()
            with server(serving(folder)) as (process, port):
                asking = _Asking(process.pid, port, study.fingerprint, token)
                asking.ready()
                restarts.append((time.perf_counter() - start, processor_seconds(process.pid)))
                first.append(asking.ask())
                again += [asking.ask() for _ in range(REPEATS)]
                for _ in range(TIMES):
                    asking.upload(made())
                    later.append(asking.ask())
                    again.append(asking.ask())
                resident = resident_bytes(process.pid)
        row("from the command until it is ready", restarts)
        row("the first answer after that", first)
        row("an answer that was given before", again)
        row(f"the first answer after {NEW:,} new reports", later)
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
    return Measurement(
        f"A collector that holds {REPORTS:,} reports of one axis of {study.shape[0]} cells",
        rows,
        [
            f"Filled in {filled[0]:,.0f} seconds, of which {filled[1]:,.0f} were processor time: "
            f"{REPORTS / filled[1]:,.0f} reports per processor second, stored and tallied. The "
            f"server holds {resident / 1e6:,.0f} MB of memory; the file has "
            f"{size / REPORTS:.1f} bytes per report while ids are kept. "
            f"{os.cpu_count()} processors; times are on the wall's clock.",
        ],
    )


def _filled(folder: str, study: Any) -> tuple[float, float]:
    """Store and tally all reports; how long it took, on the wall's clock and of the processor."""
    made = requests(study, NEW)
    wall, spent = time.perf_counter(), time.process_time()
    with Collector(open_store(folder), Settings(tally_seconds=3_600)) as collector:
        held, _ = collector.publish(study.to_toml(), minimum=1)
        for begun in range(0, REPORTS, _AT_ONCE * NEW):
            progress(f"{begun:,} of {REPORTS:,} reports are stored")
            left = threading.Semaphore(0)

            def settle(done: Done, left: threading.Semaphore = left) -> None:
                left.release()

            for _ in range(_AT_ONCE):
                collector.put(collector.read(held, made().partition(b"\r\n\r\n")[2]), settle)
            for _ in range(_AT_ONCE):
                left.acquire()
            collector.tally()
        assert collector.counts(held)["reports"] == REPORTS
    return time.perf_counter() - wall, time.process_time() - spent


class _Asking:
    """Asks one server."""

    def __init__(self, pid: int, port: int, fingerprint: str, token: str) -> None:
        self._pid, self._path = pid, f"/v1/studies/{fingerprint}/"
        self._token = token
        self._to = http.client.HTTPConnection("127.0.0.1", port)

    def _called(self, method: str, path: str, body: bytes, **headers: str) -> bytes:
        self._to.request(method, path, body, headers)
        answer = self._to.getresponse()
        found = answer.read()
        assert answer.status in (200, 202), found
        return found

    def ready(self) -> None:
        """Wait until it is ready."""
        self._called("GET", "/ready", b"")

    def ask(self) -> tuple[float, float]:
        """Ask one question; how long it took, and the server's processor time."""
        wall, spent = time.perf_counter(), processor_seconds(self._pid)
        body = json.dumps(_ASKED).encode()
        self._called("POST", f"{self._path}ask", body, Authorization=f"Bearer {self._token}")
        return time.perf_counter() - wall, processor_seconds(self._pid) - spent

    def upload(self, request: bytes) -> None:
        """Upload one batch."""
        body = request.partition(b"\r\n\r\n")[2]
        self._called("POST", f"{self._path}reports", body, **{"Content-Type": MEDIA_TYPE})
