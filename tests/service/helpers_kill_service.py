"""Kills of the real server under load, and what must hold then.

The server is the command `sfumato serve` in a process of its own. Several threads send batches to
it, each report with a number of its own. An upload that is not acknowledged is sent again, with the
same ids, to the next server. In the end every number must be counted exactly once.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from functools import cache

import sfumato as sf
from sfumato.device.wire import MEDIA_TYPE, Batch
from sfumato.service import published
from sfumato.service.collector import open_store
from sfumato.service.tallying import DAY, read_tally, tally_pending

CELLS = 1 << 20  # more than reports that are ever sent
SENDERS = 3
LONGEST = 60.0  # seconds until an upload must be acknowledged
#: Loads what the server needs once, and forks a server for each line it reads: that it serves the
#: lines' options as the command does, and tallies all the time.
_NURSERY = """
import os, sys
from functools import partial
from sfumato.cli import main, serving
from sfumato.service import receiving, server, tallying, writer
serving.Settings = partial(serving.Settings, tally_seconds=0.05)
for line in sys.stdin:
    child = os.fork()
    if not child:
        sys.argv = ["sfumato", *line.split()]
        try:
            main()
        finally:
            os._exit(1)
    print("child", child, flush=True)
    os.waitpid(child, 0)
    print("ended", flush=True)
"""
#: A server that is wrong: it answers before it has stored.
TOO_EARLY = """
import threading
from sfumato.service import writer
def committed(self, taken, damaged, before=writer.Writer._committed):
    later = threading.Timer(0.3, before, (self, taken, damaged))
    later.daemon = True
    later.start()
    return [(one, writer.Outcome(one.upload.count, 0, [])) for one in taken]
writer.Writer._committed = committed
"""
#: A server that is wrong: it counts every report, also one that came before.
TWICE = """
import numpy
from sfumato.service import tallying, writer
tallying._entered = lambda run, study, ids, days: numpy.arange(len(ids))
writer.Recent.disjoint = lambda self, keys: True
"""


@cache
def wide() -> sf.Study:
    """A study whose reports are one number below 2^20."""
    labels = [f"{k}" for k in range(1 << 10)]
    axes = [
        sf.categories(name, labels, protect=sf.Uniform(1), channel=sf.KaryResponse())
        for name in ("high", "low")
    ]
    return sf.Study("wide", axes)


class Server:
    """Servers on one store, one after another.

    Args:
        place: The store.
        wrong: What makes them wrong, if anything.
    """

    def __init__(self, place: str, wrong: str = "") -> None:
        self.place, self.port, self.child = place, 0, 0
        self._nursery = subprocess.Popen(
            [sys.executable, "-c", wrong + _NURSERY],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def start(self) -> None:
        """Start one, and wait until it takes connections."""
        assert self._nursery.stdin is not None
        line = f"serve --store {self.place} --port {self.port} --rate 0"
        self._nursery.stdin.write(f"{line}\n")
        self._nursery.stdin.flush()
        self.port = int(self._said(r"http://127\.0\.0\.1:(\d+)"))

    def end(self, how: signal.Signals) -> None:
        """End it, and wait until it has ended."""
        os.kill(self.child, how)
        self._said("(ended)")

    def close(self) -> None:
        """End the process that starts servers."""
        self._nursery.communicate()

    def _said(self, what: str) -> str:
        """What follows from the next line that says this."""
        assert self._nursery.stdout is not None
        for line in self._nursery.stdout:
            if found := re.search(r"child (\d+)", line):
                self.child = int(found[1])
            if found := re.search(what, line):
                return found[1]
        raise AssertionError("the server does not run")


@dataclass
class Load:
    """Threads that send until they are told to stop, and then until all is acknowledged."""

    server: Server
    seed: int
    numbers: itertools.count[int] = field(default_factory=itertools.count)
    acknowledged: list[int] = field(default_factory=list)
    tries: int = 0
    stopping: threading.Event = field(default_factory=threading.Event)

    def send(self, which: int) -> None:
        rng = random.Random(f"{self.seed}:{which}")
        expires = int(time.time() // DAY) + 30
        while not self.stopping.is_set():
            numbers = [next(self.numbers) for _ in range(rng.choice((1, 1, 5, 200)))]
            ids = tuple(rng.randbytes(16) for _ in numbers)
            reports = tuple(number.to_bytes(3, "little") for number in numbers)
            data = Batch(wide().fingerprint, expires, ids, reports).to_bytes()
            while self.upload(data, len(numbers)) is False:
                time.sleep(0.02)
            if rng.random() < 0.3:
                self.upload(data, len(numbers))  # as a client that was killed would
            self.acknowledged.extend(numbers)

    def wait_for_more(self) -> None:
        """Wait until more is acknowledged, so that no kill hits a server that has no load."""
        before, end = len(self.acknowledged), time.monotonic() + LONGEST
        while len(self.acknowledged) == before and time.monotonic() < end:
            time.sleep(0.01)

    def upload(self, data: bytes, count: int) -> bool:
        """Whether a batch was acknowledged."""
        self.tries += 1
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=10)
        try:
            path = f"/v1/studies/{wide().fingerprint}/reports"
            connection.request("POST", path, body=data, headers={"Content-Type": MEDIA_TYPE})
            response = connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
        if response.status != 202:
            return False
        found = json.loads(body)
        return bool(found["accepted"] + found["repeated"] == count)


def kills(place: str, seed: int, many: int, wrong: str = "") -> dict[str, int]:
    """Kill a server again and again while it is sent to; how many reports were lost or doubled.

    Args:
        place: Where its store is.
        seed: Of the times at which it is killed, and of what is sent.
        many: How often.
        wrong: What makes the server wrong, if anything.
    """
    store = open_store(place)
    rng, server = random.Random(seed), Server(place, wrong)

    study, _ = published.publish(store, wide().to_toml(), int(time.time() // DAY), minimum=1)
    server.start()
    load = Load(server, seed)
    threads = [threading.Thread(target=load.send, args=(k,)) for k in range(SENDERS)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(many):
            load.wait_for_more()
            time.sleep(rng.uniform(0.05, 0.8))
            server.end(signal.SIGKILL)
            server.start()
        time.sleep(0.3)
    finally:
        load.stopping.set()
        for thread in threads:
            thread.join()
        server.end(signal.SIGTERM)
        server.close()
    tally_pending(store, study)
    statistic = read_tally(store, study).tally.statistic
    high, low = (column.astype(int) for column in statistic.symbols)
    counted = dict(zip((high * 1024 + low).tolist(), statistic.people.tolist(), strict=True))
    store.close()
    return {
        "acknowledged": len(load.acknowledged),
        "tries": load.tries,
        "lost": sum(number not in counted for number in load.acknowledged),
        "doubled": sum(people > 1 for people in counted.values()),
        "strange": len(set(counted) - set(load.acknowledged)),
    }
