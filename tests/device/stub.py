"""A collector for tests that follows docs/upload-protocol.md and fails on request.

It keeps everything in memory. Run as a program, `python stub.py FINGERPRINT SIZE`, it prints its
address and serves until it is killed.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from sfumato.device.wire import HEADER_BYTES, ID_BYTES, MEDIA_TYPE, WireError, read_header


@dataclass
class Fault:
    """How one upload goes wrong.

    Attributes:
        status: The answer; 0 closes the connection without one.
        body: Its JSON.
        stores: Whether the batch is stored all the same.
        headers: More headers of the answer.
    """

    status: int
    body: dict[str, Any] = field(default_factory=dict)
    stores: bool = False
    headers: dict[str, str] = field(default_factory=dict)


class Stub:
    """A collector of one study on a free port of this machine.

    Attributes:
        stored: The reports by id, each stored once.
        uploads: Every batch that came: its expiry day, its ids and its headers.
        faults: What goes wrong with the next uploads, one each; None for nothing.
        most: The largest number of reports in a batch.
        today: The collector's day; None takes every expiry day.
        token: What it asks for.
        refuse: Which reports it refuses, with a code.
        log: Where the ids that it stores are written before it answers.
    """

    def __init__(self, fingerprint: str, size: int, log: Path | None = None) -> None:
        self.fingerprint, self.size, self.log = fingerprint, size, log
        self.stored: dict[bytes, bytes] = {}
        self.uploads: list[tuple[int, tuple[bytes, ...], dict[str, str]]] = []
        self.faults: deque[Fault | None] = deque()
        self.most = 1 << 20
        self.today: int | None = None
        self.token: str | None = None
        self.refuse: Callable[[bytes], str | None] = lambda report: None
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, path: str, headers: dict[str, str], data: bytes) -> Fault:
        """What the protocol says about an upload, or what a fault makes of it."""
        with self._lock:
            fault = self.faults.popleft() if self.faults else None
            if fault is not None and not fault.stores:
                self._note(data, headers)
                return fault
            found = self._upload(path, headers, data)
            return found if fault is None else fault

    def _note(self, data: bytes, headers: dict[str, str]) -> tuple[bytes, ...]:
        """Note what came; the ids in it."""
        step = ID_BYTES + self.size
        ids = tuple(data[k : k + ID_BYTES] for k in range(HEADER_BYTES, len(data), step))
        self.uploads.append((int.from_bytes(data[41:45], "little"), ids, headers))
        return ids

    def _upload(self, path: str, headers: dict[str, str], data: bytes) -> Fault:
        """Store a batch, or refuse it."""
        if path != f"/v1/studies/{self.fingerprint}/reports":
            return Fault(404)
        if self.token is not None and headers.get("Authorization") != f"Bearer {self.token}":
            return Fault(401)
        if headers.get("Content-Type") != MEDIA_TYPE:
            return Fault(415)
        try:
            expires = read_header(data, self.size, self.fingerprint).expires
        except WireError as error:
            return Fault(400, {"code": error.code})
        ids = self._note(data, headers)
        if self.today is not None and expires < self.today:
            return Fault(410, {"code": "expired"})
        if len(ids) > self.most:
            return Fault(413, {"code": "size", "most": self.most})
        counts = {"accepted": 0, "repeated": 0}
        refused = []
        for place, mark in enumerate(ids):
            start = HEADER_BYTES + place * (ID_BYTES + self.size) + ID_BYTES
            report = data[start : start + self.size]
            code = self.refuse(report)
            if code is not None:
                refused.append({"place": place, "code": code})
            elif mark in self.stored:
                counts["repeated"] += 1
            else:
                counts["accepted"] += 1
                self.stored[mark] = report
                if self.log is not None:
                    with self.log.open("a", encoding="ascii") as log:
                        log.write(f"{mark.hex()} {report.hex()}\n")
        return Fault(207 if refused else 202, {**counts, "refused": refused})


def _handler(stub: Stub) -> type[BaseHTTPRequestHandler]:
    """The handler of one collector's requests."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            answer = stub.answer(self.path, dict(self.headers.items()), data)
            self.close_connection = True
            if not answer.status:
                return
            body = json.dumps(answer.body).encode()
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            try:
                self.wfile.write(body)
            except OSError:  # a client that was killed
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            """Keep quiet."""

    return Handler


if __name__ == "__main__":
    with Stub(sys.argv[1], int(sys.argv[2])) as running:
        print(running.url, flush=True)
        threading.Event().wait()
        os._exit(0)
