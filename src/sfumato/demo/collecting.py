"""A collector for the demo: it is started, sent to by devices over HTTP, asked and stopped."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from sfumato.demo.results import Collected, Row
from sfumato.demo.town import QUESTIONS, People
from sfumato.device.client import Client
from sfumato.errors import StoreError
from sfumato.service import tokens
from sfumato.service.collector import open_store
from sfumato.service.connecting import Connection, connect
from sfumato.service.refusals import need_server
from sfumato.service.tallying import DAY
from sfumato.study.study import Study

#: How many people of the town report over HTTP.
PEOPLE = 20_000
_SERVE = "from sfumato.cli import main; main()"
_STOP_SECONDS = 30.0
#: Which of the town's questions are asked, and how: the method, and what it is given.
_ASKED = (
    (0, "count", "age=25..40"),
    (2, "count", "minutes=20..40"),
    (5, "count", "age=50.., minutes=60.."),
    (7, "fraction", "minutes=..30"),
    (9, "mean", "age"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A collector that runs.

    Attributes:
        url: Where.
        token: A token of an administrator.
    """

    url: str
    token: str


def collect(
    study: Study,
    town: People,
    *,
    seen: Callable[[int, int], None] | None = None,
    visit: Callable[[Running], object] | None = None,
) -> Collected:
    """Start a collector on a free port, let the people of a town report to it, ask it and stop it.

    Every report is made by the client that an app would use, which remembers it and charges it to
    the person. Its noise comes from the operating system.

    Args:
        study: The study.
        town: The people.
        seen: Told how many reports are made, and of how many.
        visit: Called with the collector before it is stopped.

    Raises:
        MissingExtraError: If the extra `server` is not installed.
        StoreError: If the collector does not start, or does not take every report.
    """
    need_server()
    columns = {name: values.tolist() for name, values in town.items()}
    people = len(next(iter(columns.values())))
    records = {
        f"person {place + 1}": {name: values[place] for name, values in columns.items()}
        for place in range(people)
    }
    with TemporaryDirectory(prefix="sfumato-demo-") as folder, _running(study, folder) as running:
        with Client(study, running.url, folder=Path(folder) / "devices") as client:
            client.report_all(records, seen=seen)
            start = time.perf_counter()
            sent = client.send(wait=_STOP_SECONDS)
            seconds = time.perf_counter() - start
        if sent.accepted + sent.repeated < people:
            raise StoreError(f"the demo's collector did not take every report: {sent.reason}")
        est = connect(running.url, running.token, study.fingerprint, method="unbiased")
        rows = tuple(_row(place, kind, asked, est, town) for place, kind, asked in _ASKED)
        if visit is not None:
            visit(running)
    return Collected(url=running.url, people=people, seconds=seconds, rows=rows)


@contextmanager
def _running(study: Study, folder: str) -> Iterator[Running]:
    """A collector in a process of its own, which is stopped in the end."""
    file, store = Path(folder) / "study.toml", str(Path(folder) / "collector")
    study.save(file)
    words = ["serve", store, "--publish", str(file), "--minimum", "1", "--port", "0", "--rate", "0"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SFUMATO_")}
    with subprocess.Popen(  # noqa: S603 - of constants and paths of its own
        [sys.executable, "-c", _SERVE, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=kept,
    ) as process:
        try:
            url = _address(process)
            with closing(open_store(store)) as opened:
                token = tokens.create(opened, "the demo", "admin", int(time.time() // DAY))
            yield Running(url=url, token=token)
        finally:
            process.terminate()
            try:
                process.communicate(timeout=_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def _address(process: subprocess.Popen[str]) -> str:
    """Where a collector listens, once it says so."""
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    assert process.stderr is not None  # noqa: S101 - it is a pipe
    for line in process.stdout:
        if found := re.search(r"http://127\.0\.0\.1:\d+", line):
            return found[0]
    raise StoreError(f"the demo's collector does not start: {process.stderr.read().strip()}")


def _row(place: int, kind: str, asked: str, est: Connection, town: People) -> Row:
    """One question, with the truth about those who have reported."""
    question = QUESTIONS[place]
    return Row(
        question=question.words,
        ask=f"est.{kind}({json.dumps(asked)})",
        unit=question.unit,
        truth=question.count(town),
        answer=getattr(est, kind)(asked),
    )
