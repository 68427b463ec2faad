"""What the collector is served with: sockets that wait for nothing, proxies that are believed."""

from __future__ import annotations

import socket
from pathlib import Path

import httpx
import pytest
from helpers_service import Serving, batch, collector, pairs

from sfumato.device.wire import MEDIA_TYPE
from sfumato.service import app, server
from sfumato.service.collector import open_store


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
