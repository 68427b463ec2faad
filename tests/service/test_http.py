"""What all routes have in common: headers, other origins, slow bodies, and a queue that is full."""

from __future__ import annotations

import socket
import time
from dataclasses import replace
from pathlib import Path

import pytest
from helpers_service import QUICK, Serving, batch, collector, pairs
from test_app import Running, sent

from sfumato.device.wire import MEDIA_TYPE
from sfumato.service.collector import Collector, open_store
from sfumato.service.routes import ENDPOINTS
from sfumato.service.writer import Done

NAMES = {"fingerprint": "0" * 64, "job": "x", "name": "x"}
ORIGIN = {"Origin": "https://elsewhere.example"}


def paths(running: Running) -> list[tuple[str, str, str]]:
    """The method, an address and what other origins may do, of every route."""
    names = NAMES | {"fingerprint": running.study.fingerprint}
    return [(one.method, one.path.format(**names), one.origin) for one in ENDPOINTS]


@pytest.mark.slow
def test_only_uploads_and_what_is_public_of_a_study_are_open_to_other_origins(
    tmp_path: Path,
) -> None:
    running = Running(tmp_path)
    with running.http:
        opened = set()
        for method, path, origin in paths(running):
            for role in (None, "admin", "wrong"):
                headers = running.headers(role) | ORIGIN
                if method == "DELETE" and role == "admin":
                    continue
                found = running.http.request(method, path, headers=headers)
                allowed = found.headers.get("Access-Control-Allow-Origin")
                assert allowed == (None if origin == "same" else "*"), path
                assert "Access-Control-Allow-Credentials" not in found.headers
            if allowed:
                opened.add((method, path.removeprefix(running.base)))
            asked = running.http.options(path, headers=ORIGIN)
            assert asked.status_code == (204 if path.endswith("/reports") else 405), path
        assert opened == {
            ("POST", "/reports"),
            *(("GET", name) for name in ("", "/study", "/program", "/explanation", "/audit")),
            ("GET", "/client/sfumato.js"),
        }


def test_no_answer_lets_a_browser_run_or_load_what_is_not_the_collectors(tmp_path: Path) -> None:
    running = Running(tmp_path)
    with running.http:
        found = [
            running.http.request(method, path, headers=running.headers(role))
            for method, path, _ in paths(running)
            for role in ("admin", None)
            if method != "DELETE" or role is None
        ]
        found += [running.http.get("/nothing"), running.http.put("/health")]
        found += [running.http.options(f"{running.base}/reports")]
        for answer in found:
            policy = answer.headers["Content-Security-Policy"]
            assert policy.startswith("default-src 'none'"), answer.url
            assert "unsafe" not in policy
            assert "://" not in policy
            assert "*" not in policy
            assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_a_body_that_comes_too_slowly_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Collector(open_store(tmp_path), replace(QUICK, body_seconds=0.1))
    study, _ = made.publish(pairs().to_toml())
    data = batch([1])
    head = (
        f"POST /v1/studies/{study.fingerprint}/reports HTTP/1.1\r\nHost: a\r\n"
        f"Content-Type: {MEDIA_TYPE}\r\nContent-Length: {len(data)}\r\n\r\n"
    ).encode()
    answer = b""
    with (
        Serving(made, monkeypatch) as served,
        socket.create_connection(served.listening.getsockname()) as slow,
    ):
        slow.sendall(head + data[:-1])
        while b'"code"' not in answer:
            part = slow.recv(4_096)
            assert part
            answer += part
    assert answer.startswith(b"HTTP/1.1 503")
    assert b"retry-after: 5" in answer.lower()
    assert b'"slow"' in answer


def test_a_queue_that_is_full_says_when_to_try_again(tmp_path: Path) -> None:
    running = Running(tmp_path, replace(QUICK, most_waiting=40))
    made, done = running.collector, list[Done]()
    with running.http:
        with running.store.change():  # the writer waits for this to end
            made.put(made.read(running.study, sent([1])), done.append)
            while made.writer._waiting:  # until the writer has taken it
                time.sleep(0.001)
            made.put(made.read(running.study, sent([2, 3])), done.append)
            found = running.upload(sent([4]))
            assert (found.status_code, found.json()["code"]) == (429, "busy")
            assert found.headers["Retry-After"] == "1"
            assert running.http.get("/health").status_code == 200
        while made.writer.waiting_bytes:
            time.sleep(0.001)
        assert running.upload(sent([4])).status_code == 202
    assert [one.status for one in done] == [202, 202]


def test_uploads_that_come_while_it_stops_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = collector(open_store(tmp_path))
    study, _ = made.publish(pairs().to_toml())
    data = batch([1])
    request = (
        f"POST /v1/studies/{study.fingerprint}/reports HTTP/1.1\r\nHost: a\r\n"
        f"Content-Type: {MEDIA_TYPE}\r\nContent-Length: {len(data)}\r\n\r\n"
    ).encode() + data
    with Serving(made, monkeypatch) as served:
        client = socket.create_connection(served.listening.getsockname())
        with made.store.change():  # nothing can be stored while it is told to stop
            client.sendall(request)
            while not made.writer.waiting_bytes:
                time.sleep(0.001)
            served.tell()
            time.sleep(0.2)
        answer = client.recv(4_096)
        client.close()
    assert answer.startswith(b"HTTP/1.1 202")
    with collector(open_store(tmp_path)) as again:
        assert again.tally() == 1
