"""A stub of a collector that follows the upload protocol, on this machine alone."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from sfumato.device.wire import MEDIA_TYPE, Batch, ReportLayout, WireError

Script = list[tuple[int, dict[str, str], dict[str, Any]]]


class Stub:
    """What a collector holds, and how it answers next.

    Attributes:
        reports: The bytes of every report by its id; each counts once.
        bodies: The batches that came, also those that were not stored.
        headers: Their headers.
        script: Answers to the next uploads, before normal ones follow: status, headers, body. With
            the status 0 the batch is stored and the connection closed without an answer.
    """

    def __init__(self, layout: ReportLayout, fingerprint: str) -> None:
        self.layout, self.fingerprint = layout, fingerprint
        self.reports: dict[bytes, bytes] = {}
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.script: Script = []
        self.url = ""
        self._lock = threading.Lock()

    def answer(
        self, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, dict[str, str], dict[str, Any]]:
        """The answer to an upload."""
        with self._lock:
            self.bodies.append(body)
            self.headers.append(headers)
            scripted = self.script.pop(0) if self.script else None
            if scripted and scripted[0] != 0:
                return scripted
            if path != f"/v1/studies/{self.fingerprint}/reports":
                return 404, {}, {}
            if headers.get("Content-Type") != MEDIA_TYPE:
                return 415, {}, {}
            try:
                batch = Batch.from_bytes(body, self.layout, self.fingerprint)
            except WireError as error:
                return 400, {}, {"code": error.code}
            new = [number for number in batch.ids if number not in self.reports]
            self.reports.update(zip(batch.ids, batch.reports, strict=True))
            counts = {"accepted": len(new), "repeated": len(batch.ids) - len(new), "refused": []}
            return (0 if scripted else 202), {}, counts


@contextmanager
def collector(layout: ReportLayout, fingerprint: str) -> Iterator[Stub]:
    """A stub that answers on a free port of this machine."""
    stub = Stub(layout, fingerprint)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, headers, held = stub.answer(self.path, dict(self.headers), body)
            if status == 0:
                self.close_connection = True
                return
            data = json.dumps(held).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Nothing is logged."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
