"""The collector over HTTP, in process: the upload protocol, tokens, questions, refusals."""

from __future__ import annotations

import ast
import inspect
import json
import logging
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers_openapi import ConformingClient
from helpers_service import (
    QUICK,
    TODAY,
    ages,
    batch,
    bits,
    collector,
    fresh_ids,
    pairs,
)

import sfumato as sf
from sfumato.device.program import Program
from sfumato.device.wire import MEDIA_TYPE
from sfumato.service import answering, tokens
from sfumato.service import app as module
from sfumato.service.app import Service
from sfumato.service.collector import Settings, open_store
from sfumato.service.routes import ENDPOINTS, Endpoint, endpoints
from sfumato.service.stores.base import FullError
from sfumato.service.tokens import ROLES

BATCH = {"Content-Type": MEDIA_TYPE}
UPLOADS = Settings(tally_seconds=3_600, rate=0, reserve=0, upload_token=True)


class Running:
    """A collector over HTTP, with a study of ages and a token for each role."""

    def __init__(self, folder: Path, settings: Settings = QUICK) -> None:
        self.store = open_store(folder)
        self.collector = collector(self.store, settings=settings)
        self.study, _ = self.collector.publish(ages().to_toml(), minimum=3)
        self.tokens = {
            role: tokens.create(self.store, f"the {role}", role, TODAY) for role in ROLES
        }
        self.tokens["revoked"] = tokens.create(self.store, "Bob", "admin", TODAY)
        tokens.revoke(self.store, "Bob", TODAY)
        self.tokens["wrong"] = "sfumato_" + "A" * 43
        self.http = ConformingClient(Service(self.collector), client=("198.51.100.7", 50_000))
        self.base = f"/v1/studies/{self.study.fingerprint}"

    def headers(self, role: str | None) -> dict[str, str]:
        return {} if role is None else {"Authorization": f"Bearer {self.tokens[role]}"}

    def upload(self, data: bytes, role: str | None = None, **headers: str) -> Any:
        return self.http.post(
            f"{self.base}/reports", content=data, headers=BATCH | self.headers(role) | headers
        )

    def ask(self, **asked: Any) -> Any:
        return self.http.post(
            f"{self.base}/ask?wait=60", json=asked, headers=self.headers("analyst")
        )


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    made = Running(tmp_path)
    with made.http:
        yield made


def sent(cells: list[int], **more: Any) -> bytes:
    return batch(cells, study=ages(), **more)


class TestUploads:
    def test_are_answered_as_the_protocol_says(self, running: Running) -> None:
        ids = fresh_ids(2)
        first = running.upload(sent([1, 2], ids=ids))
        assert first.status_code == 202
        assert first.json() == {"accepted": 2, "repeated": 0, "refused": []}
        again = running.upload(sent([1, 2, 100], ids=(*ids, *fresh_ids(1))))
        assert again.status_code == 207
        assert again.json() == {
            "accepted": 0,
            "repeated": 2,
            "refused": [{"place": 2, "code": "symbol"}],
        }

    @pytest.mark.parametrize(
        ("data", "status", "code"),
        [
            (b"", 400, "magic"),
            (sent([1])[:-1], 400, "length"),
            (batch([1], study=bits()), 400, "study"),
            (sent([1], expires=TODAY - 1), 410, "expired"),
            (sent([1], expires=TODAY + 400), 400, "clock"),
            (sent([1] * 10_001), 413, "size"),
            (bytes(1 << 20), 413, "size"),
        ],
    )
    def test_that_cannot_count_get_a_code(
        self, running: Running, data: bytes, status: int, code: str
    ) -> None:
        found = running.upload(data)
        assert (found.status_code, found.json()["code"]) == (status, code)
        assert len(found.json()["message"]) > 20
        if status == 413:
            assert found.json()["most"] == 10_000

    def test_of_another_media_type_are_refused(self, running: Running) -> None:
        for kind in ("application/json", "application/vnd.sfumato.batch.v2", ""):
            found = running.upload(sent([1]), **{"Content-Type": kind})
            assert (found.status_code, found.json()["code"]) == (415, "media")

    @pytest.mark.parametrize("name", ["0" * 64, "x", "A" * 64, "0" * 63, "%00", "..%2f"])
    def test_to_no_study_are_refused(self, running: Running, name: str) -> None:
        found = running.http.post(f"/v1/studies/{name}/reports", content=b"", headers=BATCH)
        assert found.status_code == 404

    def test_of_pages_of_other_origins_are_taken(self, running: Running) -> None:
        asked = running.http.options(f"{running.base}/reports", headers={"Origin": "https://a.b"})
        assert asked.status_code == 204
        assert asked.headers["Access-Control-Allow-Origin"] == "*"
        assert asked.headers["Access-Control-Allow-Methods"] == "POST"
        assert asked.headers["Access-Control-Allow-Headers"] == "Content-Type, Authorization"
        for answer in (running.upload(sent([1])), running.upload(b"")):
            assert answer.headers["Access-Control-Allow-Origin"] == "*"
            assert answer.headers["Access-Control-Expose-Headers"] == "Retry-After"

    @pytest.mark.slow
    def test_of_a_full_disk_are_refused_and_questions_answered(
        self, running: Running, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        running.upload(sent([1, 2, 3]))
        monkeypatch.setattr(running.collector.writer, "_reserve", 1 << 62)
        full = running.upload(sent([4]))
        assert (full.status_code, full.json()["code"]) == (507, "full")
        assert int(full.headers["Retry-After"]) > 0
        assert running.ask(count="age=1..3").status_code == 200

    def test_may_come_too_often_from_one_address(self, tmp_path: Path) -> None:
        often = Running(tmp_path, Settings(tally_seconds=3_600, rate=0.01, burst=3, reserve=0))
        with often.http:
            found = [often.upload(sent([1])) for _ in range(4)]
            assert [one.status_code for one in found] == [202, 202, 202, 429]
            assert found[3].json()["code"] == "rate"
            assert 1 <= int(found[3].headers["Retry-After"]) <= 100
            assert often.http.get("/health").status_code == 200

    def test_that_wait_too_long_are_answered_as_unknown(self, tmp_path: Path) -> None:
        slow = Running(tmp_path, Settings(tally_seconds=3_600, reserve=0, store_seconds=0.05))
        with slow.http:
            with slow.store.change():
                found = slow.upload(sent([1]))
            assert (found.status_code, found.json()["code"]) == (504, "unknown")
            assert slow.http.get("/health").status_code == 200


class TestStudies:
    def test_are_served_with_all_that_belongs_to_them(self, running: Running) -> None:
        def got(name: str) -> Any:
            found = running.http.get(f"{running.base}{name}")
            assert found.status_code == 200
            assert found.headers["Access-Control-Allow-Origin"] == "*"
            return found

        assert sf.Study.from_toml(got("/study").text) == ages()
        digest = ages().device_program().digest
        assert Program.read(got("/program").text, digest=digest).name == "ages"
        assert got("/explanation").text == ages().explain()
        assert got("/audit").json()["holds"] is True
        about = got("").json()
        assert (about["digest"], about["minimum"]) == (digest, 3)
        assert "deleted" in about["retention"]

    def test_are_published_by_administrators(self, running: Running) -> None:
        def put(text: str, **query: object) -> Any:
            return running.http.post(
                "/v1/studies", content=text, headers=running.headers("admin"), params=query
            )

        first = put(pairs().to_toml(), minimum=5)
        assert (first.status_code, first.json()["minimum"]) == (201, 5)
        assert put(pairs().to_toml(), minimum=5).status_code == 200
        for query in ({"minimum": 6}, {"minimum": 5, "keep": "sums"}):
            again = put(bits().to_toml() if "keep" in query else pairs().to_toml(), **query)
            assert again.status_code == (201 if "keep" in query else 409)
        bad: tuple[tuple[str, dict[str, object], str], ...] = (
            ("not = a study", {}, "file"),
            ("[", {}, "file"),
            (pairs().to_toml(), {"minimum": 0}, "study"),
            (pairs().to_toml(), {"minimum": "x"}, "file"),
            (pairs().to_toml(), {"keep": "x"}, "study"),
        )
        for text, query, code in bad:
            found = put(text, **query)
            assert (found.status_code, found.json()["code"]) == (400, code)
        names = running.http.get("/v1/studies", headers=running.headers("analyst")).json()
        assert [one["name"] for one in names["studies"]] == ["ages", "pairs", "bits"]

    def test_are_deleted_by_administrators(self, running: Running) -> None:
        running.upload(sent([1, 2, 3]))
        assert running.ask(count="age=1").status_code == 200
        gone = running.http.delete(running.base, headers=running.headers("admin"))
        assert gone.status_code == 204
        assert running.upload(sent([1])).status_code == 404
        assert running.ask(count="age=1").status_code == 404
        running.collector.publish(ages().to_toml(), minimum=3)
        assert running.ask(count="age=1").json()["code"] == "few"

    def test_deleted_by_another_process_take_nothing_more(self, running: Running) -> None:
        running.upload(sent([1]))
        with running.store.change() as run:
            run("DELETE FROM studies")
        assert running.upload(sent([1])).status_code == 404
        assert running.http.get(running.base).status_code == 404


class TestQuestions:
    def test_are_answered_with_interval_method_and_version(self, running: Running) -> None:
        running.upload(sent([30] * 50 + [70] * 50))
        found = running.ask(count="age=20..40", method="unbiased")
        assert found.status_code == 200
        answer = found.json()["answer"]
        assert (answer["n"], answer["method"], answer["level"]) == (100, "unbiased", 0.95)
        assert answer["low"] < answer["value"] < answer["high"]
        assert found.json() | {"answer": 0} == {
            "answer": 0,
            "tally": 1,
            "reports": 100,
            "entry": 1,
        }
        running.upload(sent([30]))
        assert running.ask(fraction="age=20..40", level=0.5).json()["tally"] == 2
        mean = running.ask(mean="age", where="age=20..40", population=True).json()
        assert mean["entry"] == 3

    def test_give_what_the_library_gives(self, running: Running) -> None:
        reports = ages().encode({"age": list(range(100)) * 5})
        cells = list(reports.to_bytes()[45:])
        running.upload(sent(cells))
        estimate = ages().tally(reports).estimate()
        for asked, answer in (
            ({"count": "age=18..30"}, estimate.count("age=18..30")),
            ({"fraction": "age=..50"}, estimate.fraction("age=..50")),
            ({"mean": "age"}, estimate.mean("age")),
            ({"total": "age", "method": "unbiased"}, None),
        ):
            found = running.ask(**asked).json()["answer"]
            if answer is None:
                answer = ages().tally(reports).estimate("unbiased").total("age")
            assert found == json.loads(json.dumps(answer.to_dict()))

    @pytest.mark.parametrize(
        ("asked", "code"),
        [
            ({}, "question"),
            ([], "question"),
            ({"count": "age=1", "mean": "age"}, "question"),
            ({"count": "age=1", "more": 1}, "question"),
            ({"count": 1}, "question"),
            ({"count": "age=1", "level": True}, "question"),
            ({"count": "age=1", "level": 2}, "question"),
            ({"count": "age=1", "population": 1}, "question"),
            ({"count": "age=1", "method": "x"}, "question"),
            ({"count": "height=1"}, "question"),
            ({"count": "age=1..", "where": "height=1"}, "question"),
            ({"mean": "height"}, "question"),
            ({"count": "("}, "question"),
        ],
    )
    def test_that_make_no_sense_get_a_code(self, running: Running, asked: Any, code: str) -> None:
        running.upload(sent([1, 2, 3]))
        found = running.http.post(
            f"{running.base}/ask?wait=60", json=asked, headers=running.headers("analyst")
        )
        assert (found.status_code, found.json()["code"]) == (400, code)
        assert list(answering.log(running.store)) == []

    @pytest.mark.parametrize("body", [b"", b"{", b'{"count": NaN}', b"[" * 5000, b"\xff"])
    def test_that_are_no_json_are_refused(self, running: Running, body: bytes) -> None:
        found = running.http.post(
            f"{running.base}/ask", content=body, headers=running.headers("analyst")
        )
        assert (found.status_code, found.json()["code"]) == (400, "json")

    def test_wait_for_enough_reports(self, running: Running) -> None:
        running.upload(sent([1, 2]))
        few = running.ask(count="age=1")
        assert (few.status_code, few.json()["code"], few.json()["minimum"]) == (409, "few", 3)
        assert "value" not in few.text
        running.upload(sent([3]))
        assert running.ask(count="age=1").status_code == 200

    def test_are_logged_before_they_are_answered(
        self, running: Running, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        running.upload(sent([1, 2, 3]))
        running.ask(count="age=1")
        running.ask(mean="age", level=0.9)
        log = running.http.get("/v1/questions", headers=running.headers("admin"))
        entries = [json.loads(line) for line in log.text.splitlines()]
        assert [entry["asked"] for entry in entries] == [
            {"count": "age=1"},
            {"mean": "age", "level": 0.9},
        ]
        assert {(entry["who"], entry["role"]) for entry in entries} == {("the analyst", "analyst")}
        assert {(entry["tally"], entry["reports"]) for entry in entries} == {(1, 3)}
        assert entries[0]["study"] == running.study.fingerprint
        assert entries[0]["time"].startswith("2024-10-04T02:00")
        later = running.http.get("/v1/questions?after=1", headers=running.headers("admin"))
        assert [json.loads(line)["number"] for line in later.text.splitlines()] == [2]

        def full(*_: object) -> int:
            raise FullError("the disk is full")

        monkeypatch.setattr(answering, "enter", full)
        assert running.ask(count="age=1").status_code == 507

    def test_that_were_changed_in_the_log_are_noticed(self, running: Running) -> None:
        running.upload(sent([1, 2, 3]))
        running.ask(count="age=1")
        running.ask(count="age=2")
        with running.store.change() as run:
            run("UPDATE questions SET entry = replace(entry, 'age=1', 'age=9') WHERE number = 1")
        found = running.http.get("/v1/questions", headers=running.headers("admin"))
        assert (found.status_code, found.json()["code"]) == (400, "file")


# Who may do what


def called(running: Running, endpoint: Endpoint, given: dict[str, str]) -> int:
    names = re.findall(r"{(\w+)}", endpoint.path)
    path = endpoint.path.format(
        **dict.fromkeys(names, "x") | {"fingerprint": running.study.fingerprint}
    )
    headers = {name: value.encode("latin-1") for name, value in given.items()}
    if endpoint.name == "upload":
        headers["Content-Type"] = MEDIA_TYPE.encode()
    body = sent([1]) if endpoint.name == "upload" else None
    found = running.http.request(endpoint.method, path, headers=headers, content=body)
    return int(found.status_code)


@pytest.mark.parametrize("settings", [QUICK, UPLOADS], ids=["open", "closed"])
@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda one: f"{one.method} {one.name}")
def test_every_route_takes_its_own_roles_only(
    tmp_path: Path, settings: Settings, endpoint: Endpoint
) -> None:
    running = Running(tmp_path, settings)
    roles = {one.name: one.roles for one in endpoints(settings.upload_token)}[endpoint.name]
    with running.http:
        for holder in (None, "wrong", "revoked", *ROLES):
            status = called(running, endpoint, running.headers(holder))
            if roles is None or holder in roles or (endpoint.open and holder is None):
                assert status not in (401, 403), holder
            else:
                assert status == (403 if holder in ROLES else 401), holder
        for header in ("Basic YTpi", "Bearer", "Bearer ", "bearer x y", "\xff", "Bearer \xff"):
            status = called(running, endpoint, {"Authorization": header})
            assert (status == 401) == (roles is not None)


def test_the_routes_are_those_that_are_meant_to_be_open() -> None:
    allowed = {one.name: one.roles for one in ENDPOINTS}
    public = {name for name, roles in allowed.items() if roles is None}
    assert public == {
        *("health", "ready", "client", "study", "file", "program", "explanation", "audit"),
        *("openapi", "upload", "page", "answer", "asset"),
    }
    assert {one.name for one in ENDPOINTS if one.open} == {"design"}
    assert {name for name, roles in allowed.items() if roles == {"admin"}} == {
        *("publish", "delete", "questions", "status"),
    }
    assert {one.name for one in ENDPOINTS if one.origin == "upload"} == {"upload"}
    assert {one.name for one in ENDPOINTS if one.roles and one.origin != "same"} == set()


def test_a_token_that_is_revoked_is_refused_within_a_second(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.upload(sent([1, 2, 3]))
    assert running.ask(count="age=1").status_code == 200
    tokens.revoke(running.store, "the analyst", TODAY)
    now = module.time.monotonic()
    monkeypatch.setattr(module.time, "monotonic", lambda: now + 1.0)
    assert running.ask(count="age=1").status_code == 401


def test_tokens_are_stored_as_hashes_and_compared_in_constant_time(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running.store.look() as run:
        kept = repr(run("SELECT * FROM tokens"))
    assert not any(token[8:] in kept for token in running.tokens.values())
    compared = []

    def compare(kept: bytes, wanted: bytes) -> bool:
        compared.append((len(kept), len(wanted)))
        return False

    monkeypatch.setattr(tokens.hmac, "compare_digest", compare)
    assert tokens.Holders.read(running.store).of(running.tokens["admin"]) is None
    assert compared == [(32, 32)] * 3  # all that are valid, whichever is asked for
    # Nothing else there compares: what is equal is said by `compare_digest` alone.
    tree = ast.parse(textwrap.dedent(inspect.getsource(tokens.Holders)))
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Compare)]


def test_nothing_of_an_uploader_is_logged_or_stored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    running = Running(tmp_path)
    data = sent([1, 2, 3])
    secret = {"User-Agent": "a-telling-agent", "X-Forwarded-For": "203.0.113.77"}
    with running.http:
        for body in (data, data[:-1], b"", sent([101])):
            running.upload(body, role="admin", **secret)
        for token in running.tokens:
            running.http.get("/metrics", headers=running.headers(token) | secret)
        running.ask(count="age=1")
        running.ask(count="nonsense")
    written = "".join(
        record.getMessage() for record in caplog.records if "httpx" not in record.name
    )
    out, err = capfd.readouterr()
    files = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    for telling in (
        *(token[8:] for token in running.tokens.values()),
        *("a-telling-agent", "203.0.113.77", "198.51.100.7"),
    ):
        assert telling not in written + out + err
        assert telling.encode() not in files


# The service itself


def test_it_says_how_it_is(running: Running) -> None:
    assert running.http.get("/health").json() == {"version": sf.__version__}
    assert running.http.get("/ready").json() == {"ready": True}
    running.collector.writer.stop()
    stopped = running.http.get("/ready")
    assert (stopped.status_code, stopped.json()["code"]) == (503, "stopping")
    assert running.upload(sent([1])).status_code == 503


def test_prometheus_reads_its_figures(running: Running) -> None:
    running.upload(sent([1, 2, 200]))
    running.collector.tally()
    text = running.http.get("/metrics", headers=running.headers("analyst")).text
    name = running.study.fingerprint
    assert f'sfumato_reports_total{{reason="accepted",study="{name}"}} 2.0' in text
    assert f'sfumato_reports_total{{reason="symbol",study="{name}"}} 1.0' in text
    assert f'sfumato_tallied{{study="{name}"}} 2.0' in text
    assert 'sfumato_requests_total{route="upload",status="207"} 1.0' in text
    assert "sfumato_disk_free_bytes" in text


def test_it_serves_the_client_for_browsers(running: Running) -> None:
    found = running.http.get("/client/sfumato.js")
    assert found.headers["Content-Type"].startswith("text/javascript")
    assert found.content == (Path(sf.__file__).parent / "js" / "sfumato.js").read_bytes()


def test_what_is_not_there_is_said_as_json(running: Running) -> None:
    assert running.http.get("/nothing").json()["code"] == "route"
    found = running.http.put("/health")
    assert (found.status_code, found.json()["code"]) == (405, "method")
    assert found.headers["Content-Security-Policy"] == "default-src 'none'"


def test_it_stays_up_when_something_fails_and_does_not_say_what(
    running: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(study: object) -> None:
        raise ZeroDivisionError("a report is 31")

    with monkeypatch.context() as patch:
        patch.setattr(running.collector, "counts", broken)
        found = running.http.get(f"{running.base}/counts", headers=running.headers("analyst"))
    assert (found.status_code, found.json()["code"]) == (500, "internal")
    assert "31" not in found.text + caplog.text
    assert "counts failed: ZeroDivisionError at broken" in caplog.text
    again = running.http.get(f"{running.base}/counts", headers=running.headers("analyst"))
    assert again.json()["reports"] == 0


class TestTheCheck:
    def test_finds_reports_that_no_population_explains(self, running: Running) -> None:
        def check(holder: str = "analyst") -> Any:
            return running.http.get(f"{running.base}/check", headers=running.headers(holder))

        running.upload(sent([1, 2]))
        assert (check().status_code, check().json()["code"]) == (409, "few")
        honest = list(ages().encode({"age": list(range(100)) * 30}).to_bytes()[45:])
        running.upload(sent(honest))
        first = check()
        assert first.status_code == 200
        assert (first.json()["answer"]["alarm"], first.json()["tally"]) == (False, 2)
        running.upload(sent([31] * 400))
        found = check("admin").json()
        assert (found["answer"]["alarm"], found["reports"]) == (True, 3_402)
        assert "report 31 is the least like" in found["answer"]["tests"][1]["words"]
        entries = [entry["asked"] for entry in answering.log(running.store)]
        assert entries == [{"check": True}] * 2

    def test_is_made_once_for_each_tally(
        self, running: Running, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        running.upload(sent([1, 2, 3]))
        path, headers = f"{running.base}/check", running.headers("analyst")
        first = running.http.get(path, headers=headers).json()

        def again(*_: object, **__: object) -> None:
            raise AssertionError("it was made before")

        monkeypatch.setattr(running.collector.answering._worker, "run", again)
        second = running.http.get(path, headers=headers).json()
        assert second["answer"] == first["answer"]
        assert second["entry"] == first["entry"] + 1
