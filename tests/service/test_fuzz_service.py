"""Requests at random: whatever comes, the collector answers with JSON, and never with 500."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from helpers_service import ages, batch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_app import Running

from sfumato.device.wire import MEDIA_TYPE
from sfumato.service.routes import ENDPOINTS, Endpoint

KNOWN = {
    *(200, 201, 202, 204, 207),
    *(400, 401, 403, 404, 405, 409, 410, 413, 415, 429, 503, 507),
}
UPLOAD = next(one for one in ENDPOINTS if one.name == "upload")
PATHS = st.sampled_from(ENDPOINTS) | st.just(UPLOAD)
AXES = ["age", "age=1..5", "age=1|2", "no answer", "unbiased", 0.9, True]
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
QUESTIONS = st.dictionaries(
    st.sampled_from(
        ["count", "fraction", "mean", "total", "where", "level", "population", "method"]
    )
    | TEXTS,
    st.sampled_from(["age", "age=1..5", "age=1|2", "no answer", "unbiased", 0.9, True]) | SCALARS,
    max_size=4,
)
BATCH = batch([1, 2, 3], study=ages())


@st.composite
def damaged(draw: st.DrawFn, whole: bytes = BATCH) -> bytes:
    """A batch with some bytes changed, cut or added."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(0, 3))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data[: draw(st.integers(0, len(data)))]) + draw(st.binary(max_size=3))


BODIES = st.one_of(
    st.binary(max_size=200),
    damaged(),
    st.just(BATCH),
    QUESTIONS.map(lambda asked: json.dumps(asked).encode()),
    TEXTS.map(lambda text: (ages().to_toml() + text).encode("utf-8", "replace")),
)
QUERIES = st.dictionaries(st.sampled_from(["minimum", "keep", "after"]) | TEXTS, TEXTS, max_size=2)
HEADERS = st.dictionaries(
    st.sampled_from(["Content-Type", "Authorization", "Content-Encoding", "Origin", "Range"]),
    st.sampled_from([MEDIA_TYPE, "text/plain", "Bearer x", "gzip", "null", "bytes=0-1"])
    | st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20),
    max_size=3,
)


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with tempfile.TemporaryDirectory() as folder:
        made = Running(Path(folder))
        with made.http:
            yield made


def checked(running: Running, found: Any) -> None:
    """An answer that the documentation knows."""
    assert found.status_code in KNOWN, (found.status_code, found.text)
    if found.status_code >= 400:
        body = found.json()
        assert isinstance(body["code"], str)
        assert isinstance(body["message"], str)
    assert running.http.get("/health").status_code == 200


def fuzz(running: Running, examples: int) -> None:
    @settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    @given(
        endpoint=PATHS,
        name=st.just(running.study.fingerprint)
        | st.text(st.characters(codec="ascii"), max_size=70),
        role=st.sampled_from([None, "admin", "analyst", "uploader", "wrong"]),
        body=BODIES,
        query=QUERIES,
        headers=HEADERS,
        method=st.sampled_from([None] * 8 + ["PUT", "HEAD", "OPTIONS", "PATCH"]),
    )
    def one(
        endpoint: Endpoint,
        name: str,
        role: str | None,
        body: bytes,
        query: dict[str, str],
        headers: dict[str, str],
        method: str | None,
    ) -> None:
        if endpoint.name == "delete":
            role = None if role == "admin" else role
        path = endpoint.path.replace("{fingerprint}", name)
        if method is None and endpoint.name == "upload" and len(headers) < 2:
            headers = {"Content-Type": MEDIA_TYPE}
        try:
            request = running.http.build_request(
                method or endpoint.method,
                path,
                content=body,
                params=query,
                headers=headers | running.headers(role),
            )
        except httpx.InvalidURL:  # an address that no client can send
            return
        found = running.http.send(request)
        if (method or endpoint.method) != "HEAD":
            checked(running, found)

    one()


@pytest.mark.slow
def test_whatever_comes_is_answered(running: Running) -> None:
    fuzz(running, 600)
    held = running.collector.counts(running.study)["counters"]
    assert held["accepted"] + held["repeated"] > 3  # some batches were whole
    assert sum(many for code, many in held.items() if code not in ("accepted", "repeated")) > 3


@pytest.mark.soak
def test_whatever_comes_is_answered_for_long(running: Running) -> None:
    fuzz(running, 100_000)
