"""A collector that holds 10 million reports: its restart, its answers, its memory and its disk."""

from __future__ import annotations

import http.client
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
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
from benchmarks.pages import digits, markdown
from benchmarks.recording import Measurement, progress
from benchmarks.sizing import BYTES, amount
from sfumato.device.wire import MEDIA_TYPE
from sfumato.service import tokens
from sfumato.service.collector import Collector, Settings, open_store
from sfumato.service.writer import Done

REPORTS = 10_000_000
NEW = 10_000
REPEATS = 20
TIMES = 5
_AT_ONCE = 100  # batches of NEW reports
_PEAK = 10  # times the mean rate
_DAYS = 30  # until a batch expires, as clients set it
_ASKED = {"histogram": "x"}


def measure() -> Measurement:
    """Fill a store, restart its collector, and ask it again and again."""
    study = load_study()
    restarts, first, again, later, resident = [], [], [], [], []
    with tempfile.TemporaryDirectory() as folder:
        filled = _filled(folder, study)
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
        with Collector(open_store(folder)) as collector:
            token = tokens.create(collector.store, "load", "analyst", collector.today())
        made = requests(study, NEW)
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
                resident.append(resident_bytes(process.pid))
    phases = {
        "storing and tallying all": [filled],
        "from the command until it is ready": restarts,
        "the first answer after that": first,
        "an answer that was given before": again,
        f"the first answer after {NEW:,} new reports": later,
    }
    rows = [
        {
            "what": what,
            "times": len(taken),
            "seconds": statistics.median(wall for wall, _ in taken),
            "longest": max(wall for wall, _ in taken),
            "processor seconds": statistics.median(spent for _, spent in taken),
            "reports": REPORTS,
            "bytes per report": size / REPORTS,
            "resident, MB": max(resident) / 1e6,
        }
        for what, taken in phases.items()
    ]
    return Measurement(
        f"A collector that holds {REPORTS:,} reports of one axis of {study.shape[0]} cells",
        rows,
        [
            f"{os.cpu_count()} processors; seconds are the median on the wall's clock. The "
            "question is the histogram of all cells. Bytes are those of the SQLite file while all "
            "ids are kept; memory is that of the server and its worker at most.",
        ],
    )


def page_tables(
    load: Sequence[Mapping[str, Any]], stored: Sequence[Mapping[str, Any]]
) -> dict[str, str]:
    """Recorded figures as the tables of the page on deployment.

    Args:
        load: Those of the load on a collector.
        stored: Those of a collector with many reports.
    """
    spent = {
        (row["server"], row["reports per request"]): row["processor, µs per request"]
        for row in load
    }
    filled = stored[0]
    each = filled["processor seconds"] / filled["reports"]
    costs = [
        ["take one report", f"{digits(spent['collector', 1])} µs of processor time"],
        ["the same, a bare handler", f"{digits(spent['bare', 1])} µs"],
        ["take a batch of 1,000", f"{digits(spent['collector', 1_000] / 1e3)} ms"],
        ["tally one report", f"at most {digits(each * 1e6)} µs"],
        ["keep one id", f"{digits(filled['bytes per report'])} bytes, until its batch expires"],
        *([row["what"], f"{digits(row['seconds'])} s"] for row in stored[1:]),
        ["memory", f"{digits(filled['resident, MB'])} MB"],
    ]
    sizes = []
    for people in (10**4, 10**5, 10**6, 10**7, 10**8):
        seconds = people * (spent["collector", 1] / 1e6 + each)
        peak = _PEAK * seconds / 86_400
        disk = people * _DAYS * filled["bytes per report"]
        sizes.append(
            [
                f"{people:,}",
                f"{digits(_PEAK * people / 86_400)}",
                f"{digits(100 * peak)} %",
                amount(disk, BYTES),
            ]
        )
    return {
        "collector costs": markdown(["to", "it takes"], costs),
        "collector sizes": markdown(
            [
                "reports per day",
                "requests/s at the peak",
                "of one processor at the peak",
                f"disk, ids kept for {_DAYS} days",
            ],
            sizes,
        ),
    }


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
