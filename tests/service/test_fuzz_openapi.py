"""Requests made from the OpenAPI document: every answer is in it, none is 500, memory stays."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import httpx
import pytest
from helpers_fuzz_openapi import Served

from sfumato.service.openapi import OPERATIONS

REQUESTS = 5_000
MOST_GROWTH = 20 << 20


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path)
    with made.running():
        yield made


def checked(served: Served, requests: int) -> None:
    """Hold what was sent against what was to be sent, and against what the server wrote."""
    assert sum(served.answered.values()) >= requests
    assert {name for name, _ in served.answered} == set(OPERATIONS)
    well = {name for name, status in served.answered if status < 400}
    assert well >= set(OPERATIONS) - {"job", "cancel", "delete"}  # of which there are none
    assert served.log == ""


@pytest.mark.slow
def test_whatever_the_document_allows_is_answered_as_it_says(served: Served) -> None:
    served.fuzz(REQUESTS, seed=1)
    checked(served, REQUESTS)


@pytest.mark.slow
def test_no_secret_is_in_what_the_server_writes_or_keeps(tmp_path: Path) -> None:
    made = Served(tmp_path)
    secrets = [token.removeprefix("sfumato_") for token in made.tokens.values()]
    with made.running("--access-log"), httpx.Client(base_url=made.url, timeout=60) as http:
        ask, asked = f"/v1/studies/{made.fingerprint}/ask?wait=60", {"count": "age=1"}
        for token in (*made.tokens.values(), "sfumato_" + "A" * 43, secrets[0][:-1]):
            for kind in ("Bearer", "Basic", "bearer  "):
                headers = {"Authorization": f"{kind} {token}"}
                for body in (json.dumps(asked), "{", '{"count": "nonsense"}'):
                    http.post(ask, content=body, headers=headers)
                http.get("/metrics", headers=headers)
        worker = made.family()[-1]
        os.kill(worker, signal.SIGKILL)
        headers = {"Authorization": f"Bearer {made.tokens['analyst']}"}
        assert http.post(ask, json={"count": "age=2"}, headers=headers).status_code == 200
    assert "POST /v1/studies/" in made.log  # which --access-log is for
    held = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    for secret in secrets:
        assert secret not in made.log
        assert secret.encode() not in held


@pytest.mark.slow
def test_a_server_that_is_told_to_stop_gives_up_long_answers(served: Served) -> None:
    route = f"{served.url}/v1/studies/{served.fingerprint}/ask?wait=60"
    headers = {"Authorization": f"Bearer {served.tokens['analyst']}"}
    with httpx.Client(timeout=60) as http:
        assert http.post(route, json={"count": "age=1"}, headers=headers).status_code == 200
        worker = served.family()[-1]
        os.kill(worker, signal.SIGSTOP)  # from now on answers take for ever
        body = b'{"count": "age=2"}'
        with closing(HTTPConnection(served.url.removeprefix("http://"), timeout=60)) as waiting:
            waiting.request("POST", route.removeprefix(served.url), body, headers)
            for _ in range(20):  # by then it has been read
                assert http.get(f"{served.url}/health").status_code == 200
            os.kill(served.pid, signal.SIGTERM)
            answer = waiting.getresponse()
            assert (answer.status, json.loads(answer.read())["code"]) == (503, "stopping")


@pytest.mark.soak
def test_whatever_the_document_allows_is_answered_for_long(
    served: Served, seed: int, record_property: Callable[[str, object], None]
) -> None:
    parts, sizes = 20, []
    for part in range(parts):
        served.fuzz(20 * REQUESTS // parts, seed + part)
        sizes.append(served.resident())
    record_property("resident", sizes)
    checked(served, 20 * REQUESTS)
    assert max(sizes[parts // 2 :]) - sizes[parts // 2 - 1] <= MOST_GROWTH
