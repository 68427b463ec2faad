"""A stub whose uploads go on to the real collector, so that tests of clients can run against it.

The stub in front makes the faults and notes what came; the collector behind it decides, stores and
answers. It keeps its store in a folder of its own.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from typing import Any

from stub import Fault, Stub

import sfumato as sf
from sfumato.device.wire import HEADER_BYTES, ID_BYTES
from sfumato.service.app import Service
from sfumato.service.collector import Collector, Settings
from sfumato.service.stores.base import Store

DAY = 86_400


class Backed(Stub):
    """The stub with a collector behind it.

    Args:
        study: The study.
        opened: Opens the store where the collector keeps what it has.
        client: Makes what sends requests to an application, as `TestClient` does.
    """

    def __init__(self, study: sf.Study, opened: Callable[[], Store], client: Any) -> None:
        program = study.device_program()
        self._opened, self._client = opened, client
        self._today = 0
        self._settings = Settings(tally_seconds=3_600, rate=0, reserve=0)
        self._known: str | None = None
        self._start()
        self.collector.publish(study.to_toml())
        super().__init__(program.fingerprint, program.report_size)

    def __exit__(self, *rest: object) -> None:
        super().__exit__(*rest)
        self._http.__exit__(None, None, None)

    def _start(self) -> None:
        """Start a collector."""
        self.collector = Collector(
            self._opened(), self._settings, lambda: self._today * DAY + 7_200.0
        )
        self._http = self._client(Service(self.collector).app())
        self._http.__enter__()

    def _restart(self, token: str) -> None:
        """Start another collector on the same store, which asks for a token."""
        self._http.__exit__(None, None, None)
        self._settings = dataclasses.replace(self._settings, upload_token=True)
        self._known = token
        self._start()
        with self.collector.store.change() as run:
            row = ("a client", "uploader", hashlib.sha256(token.encode()).digest(), 0)
            run("INSERT INTO tokens VALUES (?, ?, ?, ?, NULL)", row)

    @property
    def stored(self) -> dict[bytes, bytes]:  # type: ignore[override]
        """The reports that the collector has stored, by id."""
        step = ID_BYTES + self.size
        with self.collector.store.look() as run:
            parts = run("SELECT data FROM segments ORDER BY number")
        rows = [data[k : k + step] for (data,) in parts for k in range(0, len(data), step)]
        return {bytes(row[:ID_BYTES]): bytes(row[ID_BYTES:]) for row in reversed(rows)}

    @stored.setter
    def stored(self, value: dict[bytes, bytes]) -> None:
        """The collector has its own."""

    def _upload(self, path: str, headers: dict[str, str], data: bytes) -> Fault:
        """Let the collector answer."""
        expires = int.from_bytes(data[41:45], "little")
        self._today = expires - 30 if self.today is None else self.today
        if self.token is not None and self.token != self._known:
            self._restart(self.token)
        self.collector.settings = dataclasses.replace(self._settings, most_reports=self.most)
        self._note(data, headers)
        given = {
            name: headers[name] for name in ("Content-Type", "Authorization") if name in headers
        }
        http = self._client(Service(self.collector).app())  # without its lifespan
        found = http.post(path, content=self._refusing(data), headers=given)
        passed = {name: found.headers[name] for name in ("Retry-After",) if name in found.headers}
        return Fault(found.status_code, found.json(), headers=passed)

    def _refusing(self, data: bytes) -> bytes:
        """The batch, with what the test wants refused replaced by what no client would send."""
        step, body = ID_BYTES + self.size, bytearray(data)
        for start in range(HEADER_BYTES + ID_BYTES, len(data), step):
            if self.refuse(data[start : start + self.size]) is not None:
                body[start : start + self.size] = b"\xff" * self.size
        return bytes(body)
