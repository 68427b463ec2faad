"""Load on the collector over loopback: single reports and batches, beside a bare handler."""

from __future__ import annotations

import os
import re
import secrets
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import sfumato as sf
from benchmarks.recording import Measurement, progress
from sfumato.device.wire import HEADER_BYTES, MEDIA_TYPE, Batch
from sfumato.service.collector import Collector, Settings, open_store

SECONDS = 5.0
CONNECTIONS = 32
SIZES = (1, 1_000)
_STORED = "from sfumato.cli import main; main()"
_BARE = """
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
from sfumato.service.server import address, listen
async def answer(request):
    await request.body()
    return JSONResponse({"accepted": 1, "repeated": 0, "refused": []}, 202)
app = Starlette(routes=[Route("/v1/studies/{fingerprint}/reports", answer, methods=["POST"])])
listening = listen("127.0.0.1", 0)
print(address(listening), flush=True)
uvicorn.Server(uvicorn.Config(app, access_log=False, log_level="warning")).run(sockets=[listening])
"""


def measure() -> Measurement:
    """Requests of one report and of 1,000, to a bare handler and to the collector with SQLite."""
    study = load_study()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        with Collector(open_store(folder)) as collector:
            collector.publish(study.to_toml())
        served = {"bare": ["-c", _BARE], "collector": serving(folder)}
        for count in SIZES:
            made = requests(study, count)
            spent = {}
            for name, words in served.items():
                progress(f"{name}, {count} per request")
                with server(words) as (process, port):
                    sent(port, made, 0.5)  # once it has loaded everything
                    before = processor_seconds(process.pid)
                    times, taken = sent(port, made, SECONDS)
                    each = (processor_seconds(process.pid) - before) / len(times)
                    resident = resident_bytes(process.pid)
                spent[name] = each
                rows.append(
                    {
                        "server": name,
                        "reports per request": count,
                        "requests/s": len(times) / taken,
                        "reports/s": len(times) * count / taken,
                        "p50, ms": statistics.median(times) * 1e3,
                        "p99, ms": statistics.quantiles(times, n=100)[98] * 1e3,
                        "processor, µs per request": each * 1e6,
                        "reports per processor second": count / each,
                        "of the bare handler's": spent["bare"] / each,
                        "resident, MB": resident / 1e6,
                    }
                )
        progress("tallying what still waits")
        counts, tallied = counted(folder, study)
        assert counts["reports"] >= 1_001
        assert counts["counters"].keys() == {"accepted"}
    return Measurement(
        f"Load on the collector over loopback, {CONNECTIONS} connections from another process",
        rows,
        [
            f"{os.cpu_count()} processors, shared by the server, the load and whatever else runs. "
            "Requests/s and times are on the wall's clock; processor time is the server's own, "
            "and what one idle processor could answer follows from it. Every report is on the "
            "disk, in SQLite, before it is answered. Meanwhile reports are tallied, in half of the "
            f"time. What waited at the end was tallied at {tallied:,.0f} reports/s, with the ids "
            f"of {counts['reports']:,} reports in the store.",
        ],
    )


def load_study() -> sf.Study:
    """The study that reports are sent for: one axis of 256 cells."""
    return sf.Study("load", [sf.integers("x", 0, 255, protect=sf.Distance("0.5"))])


def serving(folder: str) -> list[str]:
    """The words after "python" that serve the collector in a folder."""
    return ["-c", _STORED, "serve", folder, "--port", "0", "--rate", "0"]


def counted(folder: str, study: sf.Study) -> tuple[dict[str, Any], float]:
    """What the collector has stored, and how many reports per second it tallied of those waiting.

    Args:
        folder: Where it is.
        study: The study.
    """
    with Collector(open_store(folder), Settings(tally_seconds=3_600)) as collector:
        start = time.perf_counter()
        new = collector.tally()
        taken = time.perf_counter() - start
        return collector.counts(collector.find(study.fingerprint)), new / taken


def requests(study: sf.Study, count: int, seed: int = 1) -> Callable[[], bytes]:
    """Makes requests with reports that are new.

    Args:
        study: The study, whose report is one byte.
        count: How many reports a request has.
        seed: Of the reports.
    """
    ids = tuple(k.to_bytes(16, "big") for k in range(count))
    expires = int(time.time() // 86_400) + 30
    body = Batch(study.fingerprint, expires, ids, tuple(bytes(1) for _ in ids)).to_bytes()
    head = (
        f"POST /v1/studies/{study.fingerprint}/reports HTTP/1.1\r\nHost: a\r\n"
        f"Content-Type: {MEDIA_TYPE}\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body[:HEADER_BYTES]
    rng = np.random.default_rng(seed)

    def made() -> bytes:
        rows = np.frombuffer(secrets.token_bytes(17 * count), dtype=np.uint8).reshape(count, 17)
        rows = rows.copy()
        rows[:, 16] = rng.binomial(255, 0.4, size=count)
        return head + rows.tobytes()

    return made


@contextmanager
def server(words: list[str]) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A server in a process of its own, and its port.

    Args:
        words: What follows "python".
    """
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.search(r"http://127\.0\.0\.1:(\d+)", line):
                yield process, int(found[1])
                return
        raise AssertionError("the server does not start")
    finally:
        process.terminate()
        process.communicate()


def sent(port: int, request: Callable[[], bytes], seconds: float) -> tuple[list[float], float]:
    """Send on some connections at once until the time is up; how long each took, and all of them.

    Args:
        port: Where to.
        request: Makes a request.
        seconds: How long.
    """
    ready = [request() for _ in range(2_000)]  # the first to be sent; the rest is made meanwhile
    times: list[float] = []
    with selectors.DefaultSelector() as selector:
        begun: dict[socket.socket, float] = {}
        parts: dict[socket.socket, bytes] = {}

        def begin(one: socket.socket) -> None:
            begun[one], parts[one] = time.perf_counter(), b""
            one.sendall(ready.pop() if ready else request())

        for _ in range(CONNECTIONS):
            one = socket.create_connection(("127.0.0.1", port))
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(one, selectors.EVENT_READ)
        start = time.perf_counter()
        for key in list(selector.get_map().values()):
            begin(key.fileobj)  # type: ignore[arg-type]
        while selector.get_map():
            for key, _ in selector.select():
                one = key.fileobj  # type: ignore[assignment]
                parts[one] += one.recv(1 << 16)
                if not whole(parts[one]):
                    continue
                now = time.perf_counter()
                times.append(now - begun[one])
                if now < start + seconds:
                    begin(one)
                else:
                    selector.unregister(one)
                    one.close()
    return times, time.perf_counter() - start


def whole(answer: bytes) -> bool:
    """Whether an answer has come to its end; it must say that all was stored."""
    head, found, body = answer.partition(b"\r\n\r\n")
    if not found:
        assert answer, "the server has closed the connection"
        return False
    assert head.startswith(b"HTTP/1.1 202"), answer
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    assert length is not None
    return len(body) == int(length[1])


def processor_seconds(pid: int) -> float:
    """How much processor time a process and those it has started have used."""
    found = 0
    for one in family(pid):
        facts = Path(f"/proc/{one}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        found += int(facts[11]) + int(facts[12])
    return found / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    """How much memory a process and those it has started hold."""
    pages = 0
    for one in family(pid):
        pages += int(Path(f"/proc/{one}/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def family(pid: int) -> list[int]:
    """A process and all that it has started."""
    started = [
        int(one)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for one in (task / "children").read_text(encoding="utf-8").split()
    ]
    return [pid, *(held for one in started for held in family(one))]
