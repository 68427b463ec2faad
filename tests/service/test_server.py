"""What the collector is served with: sockets that wait for nothing, proxies that are believed."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from helpers_service import batch, collector, pairs

from sfumato.device.wire import MEDIA_TYPE
from sfumato.service import app, server
from sfumato.service.collector import Collector, open_store


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

    def __exit__(self, *_: object) -> None:
        while not self._servers:
            time.sleep(0.001)
        self._servers[0].should_exit = True
        self._thread.join()


def test_a_socket_says_that_it_is_tcp_so_that_answers_leave_at_once() -> None:
    # asyncio sets TCP_NODELAY on such sockets only; without it, every answer waits 40 ms.
    with server.listen("127.0.0.1", 0) as made:
        assert made.proto == socket.IPPROTO_TCP
        client = socket.create_connection(made.getsockname())
        accepted, _ = made.accept()
        with client, accepted:
            assert accepted.proto == socket.IPPROTO_TCP


@pytest.mark.parametrize("proxies", [["127.0.0.0/8"], ["198.51.100.9"]])
def test_only_proxies_say_for_whom_they_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proxies: list[str]
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(app.Limits, "wait", lambda self, address: seen.append(address) or 0)
    made = collector(open_store(tmp_path))
    study, _ = made.publish(pairs().to_toml())
    with Serving(made, monkeypatch, proxies=proxies) as served:
        url = f"{served.url}/v1/studies/{study.fingerprint}/reports"
        headers = {"Content-Type": MEDIA_TYPE, "X-Forwarded-For": "203.0.113.77"}
        answer = httpx.post(url, content=batch([1]), headers=headers)
        assert answer.status_code == 202
        assert "server" not in answer.headers
    assert seen == ["203.0.113.77" if proxies[0].startswith("127") else "127.0.0.1"]
