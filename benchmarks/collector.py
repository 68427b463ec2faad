"""Load on the collector over loopback: single reports and batches, beside a bare handler."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import sfumato as sf
from benchmarks.recording import Measurement, progress
from sfumato.device.wire import MEDIA_TYPE, Batch
from sfumato.service.collector import Collector, open_store

SECONDS = 8.0
CONNECTIONS = 32
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
    study = sf.Study("load", [sf.integers("x", 0, 255, protect=sf.Distance("0.5"))])
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        with Collector(open_store(folder)) as collector:
            collector.publish(study.to_toml())
        servers = {"bare": ("-c", _BARE), "collector": ("-c", _STORED, "serve", folder)}
        for count in (1, 1_000):
            speeds = {}
            for name, words in servers.items():
                progress(f"{name}, {count} per request")
                more = () if name == "bare" else ("--port", "0", "--rate", "0")
                times, taken = _loaded([*words, *more], _request(study, count))
                speeds[name] = len(times) / taken
                rows.append(
                    {
                        "server": name,
                        "reports per request": count,
                        "requests/s": speeds[name],
                        "reports/s": speeds[name] * count,
                        "p50, ms": statistics.median(times) * 1e3,
                        "p99, ms": statistics.quantiles(times, n=100)[98] * 1e3,
                        "of the bare handler's": speeds[name] / speeds["bare"],
                    }
                )
        progress("counting what was stored")
        counts = _counts(folder, study)
        assert counts["reports"] >= 1_001
        assert counts["counters"].keys() == {"accepted"}
    return Measurement(
        f"Load on the collector over loopback, {CONNECTIONS} connections from another process",
        rows,
        [f"{os.cpu_count()} processors, shared by the server and the load, on the wall's clock."],
    )


def _counts(folder: str, study: sf.Study) -> dict[str, Any]:
    """What the collector has stored."""
    with Collector(open_store(folder)) as collector:
        collector.tally()
        return collector.counts(collector.find(study.fingerprint))


def _request(study: sf.Study, count: int) -> Callable[[], bytes]:
    """Makes requests with reports that are new."""
    reports = tuple(bytes([k % 256]) for k in range(count))
    expires = int(time.time() // 86_400) + 30
    path = f"/v1/studies/{study.fingerprint}/reports"

    def made() -> bytes:
        raw = secrets.token_bytes(16 * count)
        ids = tuple(raw[k : k + 16] for k in range(0, len(raw), 16))
        body = Batch(study.fingerprint, expires, ids, reports).to_bytes()
        head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: {MEDIA_TYPE}\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    return made


def _loaded(words: list[str], request: Callable[[], bytes]) -> tuple[list[float], float]:
    """How long each request took, and all of them together."""
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.search(r"http://127\.0\.0\.1:(\d+)", line):
                return asyncio.run(_sent(int(found[1]), request))
        raise AssertionError("the server does not start")
    finally:
        process.terminate()
        process.communicate()


async def _sent(port: int, request: Callable[[], bytes]) -> tuple[list[float], float]:
    """Send on some connections at once until the time is up."""
    ready = [request() for _ in range(200)]  # the first to be sent; the rest is made meanwhile
    times: list[float] = []

    async def one(until: float) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        first = True
        while first or time.perf_counter() < until:
            first = False
            data = ready.pop() if ready else request()
            before = time.perf_counter()
            writer.write(data)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 202"), head
            length = re.search(rb"content-length: (\d+)", head.lower())
            assert length is not None
            await reader.readexactly(int(length[1]))
            times.append(time.perf_counter() - before)
        writer.close()

    await one(0.0)  # once it has loaded everything
    times.clear()
    start = time.perf_counter()
    await asyncio.gather(*(one(start + SECONDS) for _ in range(CONNECTIONS)))
    return times, time.perf_counter() - start
