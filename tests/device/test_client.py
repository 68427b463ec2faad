"""The client: one report per round, charged before it is made, queued, and counted once."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from helpers_collector import Stub, collector

import sfumato as sf
from sfumato.device import client as module
from sfumato.device.memory import DAYS, FILE

STUDY = sf.Study("ages", [sf.integers("age", 0, 99_999, protect=sf.Distance("0.001"))])
PROGRAM = STUDY.device_program()
COST = Fraction(99_999, 1_000)
NOW = 20_000 * 86_400 + 1_000.0
VALUE = 31_415  # found nowhere but in the record


@pytest.fixture
def stub() -> Iterator[Stub]:
    with collector(PROGRAM.layout, STUDY.fingerprint) as found:
        yield found


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Pauses are noted and not taken."""
    paused: list[float] = []
    monkeypatch.setattr(module, "_sleep", paused.append)
    return paused


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


def made(folder: Path, url: str | None = None, **more: Any) -> sf.Client:
    """A client of the study."""
    return sf.Client(STUDY, url, folder=folder, **more)


def bytes_in(folder: Path) -> bytes:
    """All that the folder holds."""
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


# Memory and ledger


def test_a_round_has_one_report_whatever_the_value(tmp_path: Path) -> None:
    with made(tmp_path) as client:
        first = client.report({"age": VALUE}, round="May")
        assert all(client.report({"age": age}, round="May") == first for age in range(20))
        assert client.spent().total == COST
    with made(tmp_path) as client:  # also after a restart
        assert client.report({"age": 0}, round="May") == first
        others = {client.report({"age": VALUE}, round=str(k)) for k in range(10)}
        assert len(others) > 1  # fresh noise in every round
        assert client.spent().total == 11 * COST


def test_by_value_the_same_value_gives_the_same_report(tmp_path: Path) -> None:
    with made(tmp_path / "a", memory="value") as client:
        reports = [client.report({"age": 5}, round=str(k)) for k in range(4)]
        other = client.report({"age": 6}, round="other")
        assert len(set(reports)) == 1
        assert other != reports[0]
        assert client.spent().total == 5 * COST
    with made(tmp_path / "b", memory="value") as client:  # another device has another secret
        again = {client.report({"age": age}, round=str(age)) for age in range(5)}
        assert again != {reports[0]}


def test_words_by_value_are_those_that_other_languages_derive() -> None:
    """The first word of HMAC-SHA-256, computed apart from this package."""
    import hashlib
    import hmac

    digest = hmac.new(b"s" * 32, b"sfumato value\nab\n3,4\n0", hashlib.sha256).digest()
    found = module._words(b"s" * 32, "ab", (3, 4))
    expected = [int.from_bytes(digest[k : k + 8], "big") for k in range(0, 32, 8)]
    assert [next(found) for _ in range(4)] == expected


def test_the_limit_refuses_before_the_value_is_looked_at(tmp_path: Path) -> None:
    with made(tmp_path, limit=2 * COST) as client:
        kept = client.report({"age": 1}, round="1")
        client.report({"age": 1}, round="2")
        for value in (1, VALUE, -1, None, "no age"):
            with pytest.raises(sf.LedgerError, match="limit"):
                client.report({"age": value}, round="3")
        assert client.report({"age": 2}, round="1") == kept  # what is stored costs nothing
        assert client.spent().total == 2 * COST
        assert client.spent().left == 0


def test_studies_in_one_folder_add_up(tmp_path: Path) -> None:
    other = sf.Study("zones", [sf.integers("zone", 0, 9, protect=sf.Uniform(2))])
    parts = sf.Blocks(epsilon=1, blocks=[["a", "b"], ["c", "d"]])
    bare = sf.Study("parts", [sf.categories("part", list("abcd"), protect=parts)])
    with made(tmp_path) as one, sf.Client(other, folder=tmp_path) as two:
        one.report({"age": 1}, round="1")
        two.report({"zone": 1}, round="1")
        assert one.spent().total == two.spent().total == COST + 2
        with sf.Client(bare, folder=tmp_path) as three:
            three.report({"part": "a"}, round="1")
        assert one.spent().total is None
        assert "unbounded" in str(one.spent())
        with made(tmp_path, limit=10_000) as limited, pytest.raises(sf.LedgerError):
            limited.report({"age": 1}, round="2")


def test_a_value_that_does_not_fit_costs_nothing_and_is_shown_nowhere(tmp_path: Path) -> None:
    with made(tmp_path) as client:
        for wrong in (3_141_592, "3141592", 3_141_592.5):
            with pytest.raises(sf.DataError) as refused:
                client.report({"age": wrong}, round="1")
            assert "3141592" not in str(refused.value).replace("_", "")
        assert client.spent().total == 0
    assert b"3141592" not in bytes_in(tmp_path)


def test_the_folder_never_holds_the_value(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    study = sf.Study("words", [sf.categories("word", ["sesame", "other"], protect=sf.Uniform(1))])
    for memory in ("round", "value"):
        folder = tmp_path / memory
        with sf.Client(study, folder=folder, memory=memory) as client:  # type: ignore[arg-type]
            for k in range(5):
                client.report({"word": "sesame"}, round=str(k))
        assert b"sesame" not in bytes_in(folder)
        assert stat.S_IMODE((folder / FILE).stat().st_mode) == 0o600
    assert "sesame" not in "".join(capfd.readouterr())


# Sending


def test_what_is_queued_is_sent_once(tmp_path: Path, stub: Stub) -> None:
    with made(tmp_path, stub.url, clock=Clock()) as client:
        reports = [client.report({"age": VALUE}, round=str(k)) for k in range(3)]
        sent = client.send()
        assert (sent.accepted, sent.waiting, sent.retry_after) == (3, 0, None)
        assert sorted(stub.reports.values()) == sorted(reports)
        assert client.send() == sf.Sent()
    assert len(stub.bodies) == 1
    names = {name.lower() for name in stub.headers[0]}
    assert names <= {"host", "accept-encoding", "content-length", "content-type"}


@pytest.mark.parametrize("status", [500, 502, 503, 504, 429, 0])
def test_a_retry_has_the_same_ids_and_counts_once(tmp_path: Path, stub: Stub, status: int) -> None:
    clock = Clock()
    stub.script = [(status, {"Retry-After": "120"} if status == 429 else {}, {})] * 2
    with made(tmp_path, stub.url, clock=clock) as client:
        client.report({"age": 1}, round="1")
        first = client.send()
        assert first.waiting == 1
        assert first.retry_after is not None
        assert (
            (0.5 if status != 429 else 120) <= first.retry_after <= (1.5 if status != 429 else 120)
        )
        assert client.send().accepted == 0  # not due yet: nothing goes out
        assert len(stub.bodies) == 1
        clock.now += first.retry_after
        second = client.send()
        assert second.retry_after is not None
        assert second.retry_after >= (1.0 if status != 429 else 120)
        clock.now += second.retry_after
        third = client.send()
        assert third.accepted + third.repeated == 1
    assert len(set(stub.bodies)) == 1
    assert len(stub.reports) == 1


def test_waiting_keeps_trying(tmp_path: Path, stub: Stub, no_waiting: list[float]) -> None:
    clock = Clock()
    stub.script = [(503, {"Retry-After": "2"}, {})]
    with made(tmp_path, stub.url, clock=clock) as client:
        client.report({"age": 1}, round="1")
        client._clock = lambda: clock.now + sum(no_waiting)
        assert client.send(wait=60).accepted == 1
    assert len(no_waiting) == 1
    assert no_waiting[0] >= 2


def test_large_batches_are_halved(tmp_path: Path, stub: Stub) -> None:
    stub.script = [(413, {}, {"code": "size", "most": 4})]
    with made(tmp_path, stub.url, clock=Clock()) as client:
        for k in range(10):
            client.report({"age": 1}, round=str(k))
        assert client.send().accepted == 10
    assert len(stub.bodies) == 1 + 3
    assert len(stub.reports) == 10


def test_refused_and_expired_reports_are_not_sent_again(tmp_path: Path, stub: Stub) -> None:
    clock = Clock()
    refused = {"accepted": 1, "repeated": 0, "refused": [{"place": 1, "code": "symbol"}]}
    stub.script = [(207, {}, refused), (410, {}, {"code": "expired"})]
    with made(tmp_path, stub.url, clock=clock) as client:
        for k in range(2):
            client.report({"age": 1}, round=str(k))
        sent = client.send()
        assert (sent.accepted, sent.refused, sent.waiting) == (1, 1, 0)
        client.report({"age": 1}, round="late")
        assert client.send().expired == 1
        client.report({"age": 1}, round="later")
        clock.now += (DAYS + 1) * 86_400
        assert client.send() == sf.Sent(expired=1)
    assert len(stub.bodies) == 2


@pytest.mark.parametrize("status", [400, 401, 403, 404, 415])
def test_a_refusal_for_good_keeps_the_queue(tmp_path: Path, stub: Stub, status: int) -> None:
    stub.script = [(status, {}, {})]
    with made(tmp_path, stub.url, clock=Clock()) as client:
        client.report({"age": 1}, round="1")
        with pytest.raises(sf.UploadError, match=str(status)):
            client.send()
        assert client.send().accepted == 1


def test_no_collector_at_all_is_no_loss(tmp_path: Path) -> None:
    with made(tmp_path, "http://127.0.0.1:9", clock=Clock()) as client:
        client.report({"age": 1}, round="1")
        sent = client.send()
        assert sent.waiting == 1
        assert sent.reason
    with made(tmp_path) as client, pytest.raises(sf.UploadError, match="url="):
        client.send()


def test_a_token_is_sent_and_shown_nowhere(tmp_path: Path, stub: Stub) -> None:
    with made(tmp_path, stub.url, token="open-sesame") as client:
        client.report({"age": 1})
        client.send()
        assert stub.headers[0]["Authorization"] == "Bearer open-sesame"
        assert "sesame" not in repr(client)
    assert b"sesame" not in bytes_in(tmp_path)


# Bad input


def test_only_a_pinned_program_runs(tmp_path: Path) -> None:
    text = PROGRAM.to_text()
    (tmp_path / "p.json").write_text(text)
    for program in (PROGRAM, text, text.encode(), tmp_path / "p.json", str(tmp_path / "p.json")):
        with pytest.raises(sf.MismatchError, match="digest="):
            sf.Client(program, folder=tmp_path / "x")
        with pytest.raises(sf.MismatchError, match="pinned"):
            sf.Client(program, folder=tmp_path / "x", digest="0" * 64)
        sf.Client(program, folder=tmp_path / "x", digest=PROGRAM.digest).close()
    newer = json.loads(text) | {"version": 2}
    with pytest.raises(sf.FormatError, match="version"):
        sf.Client(json.dumps(newer), folder=tmp_path / "x", digest=PROGRAM.digest)


def test_a_clock_that_goes_backwards_makes_no_report(tmp_path: Path) -> None:
    clock = Clock()
    with made(tmp_path, clock=clock) as client:
        kept = client.report({"age": 1}, round="1")
        clock.now -= 10 * 86_400
        with pytest.raises(sf.StoreError, match="clock has gone back"):
            client.report({"age": 1}, round="2")
        assert client.report({"age": 1}, round="1") == kept
        assert client.spent().total == COST
        client.accept_clock()
        client.report({"age": 1}, round="2")


def test_a_queue_of_another_study_stays_apart(tmp_path: Path, stub: Stub) -> None:
    other = sf.Study("zones", [sf.integers("zone", 0, 9, protect=sf.Uniform(2))])
    with sf.Client(other, folder=tmp_path) as client:
        client.report({"zone": 1}, round="1")
    with made(tmp_path, stub.url) as client:
        client.report({"age": 1}, round="1")
        assert client.send().accepted == 1
    assert len(stub.reports) == 1


def test_a_damaged_or_foreign_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / FILE).write_bytes(b"no database" * 1000)
    with pytest.raises((sf.FormatError, sf.StoreError)):
        made(tmp_path / "a")
    (tmp_path / "b").mkdir()
    with sqlite3.connect(tmp_path / "b" / FILE) as foreign:
        foreign.execute("CREATE TABLE other (x)")
    foreign.close()
    with pytest.raises(sf.FormatError):
        made(tmp_path / "b")
    made(tmp_path / "c").close()
    with sqlite3.connect(tmp_path / "c" / FILE) as newer:
        newer.execute("PRAGMA user_version = 99")
    newer.close()
    with pytest.raises(sf.FormatError):
        made(tmp_path / "c")


FULL = """
import resource, sys
import sfumato as sf
study = sf.Study.load(sys.argv[1])
client = sf.Client(study, folder=sys.argv[2])
client.report({"age": 1}, round="1")
resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1))
import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    for k in range(2, 2000):
        client.report({"age": 1}, round=str(k))
except sf.StoreError as error:
    print("refused:", error)
"""


@pytest.mark.slow
def test_a_full_disk_is_a_clear_error_and_loses_nothing(tmp_path: Path) -> None:
    STUDY.save(tmp_path / "s.toml")
    words = [sys.executable, "-c", FULL, str(tmp_path / "s.toml"), str(tmp_path / "f")]
    found = subprocess.run(words, capture_output=True, text=True, check=True)
    assert found.stdout.startswith("refused:")
    with made(tmp_path / "f") as client:
        client.report({"age": 1}, round="1")
        client.report({"age": 1}, round="2")
        assert client.spent().total == 2 * COST


def test_the_client_loads_no_heavy_library() -> None:
    heavy = ("numpy", "scipy", "pyarrow", "pandas", "cryptography")
    code = f"import sys, sfumato.device.client; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


# kill -9

KILLED = """
import sys
import sfumato as sf
from sfumato.device.client import Client
program, digest, folder, url = sys.argv[1:]
with Client(open(program).read(), url, folder=folder, digest=digest) as client:
    k = len(client.spent().studies) and client.spent().studies[0].rounds
    while True:
        report = client.report({"age": 7}, round=str(k))
        print(k, report.hex(), flush=True)
        client.send()
        print("sent", k, flush=True)
        k += 1
"""
_KILLS = 50


@pytest.mark.slow
def test_kill_9_at_any_point_loses_and_doubles_nothing(tmp_path: Path, stub: Stub) -> None:
    """Acknowledged reports stay; every id counts once; the ledger covers all that was sent."""
    source = random.Random(9)
    (tmp_path / "p.json").write_text(PROGRAM.to_text())
    folder = tmp_path / "f"
    words = [str(tmp_path / "p.json"), PROGRAM.digest, str(folder), stub.url]
    acknowledged: dict[str, str] = {}
    sent: set[str] = set()
    for _ in range(_KILLS):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, *words], stdout=subprocess.PIPE, text=True
        )
        time.sleep(0.15 + 0.2 * source.random())
        os.kill(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
        for line in said.splitlines(keepends=True):
            parts = line.split()
            if line.endswith("\n") and len(parts) == 2:
                if parts[0] == "sent":
                    sent.add(parts[1])
                else:
                    assert acknowledged.setdefault(parts[0], parts[1]) == parts[1]
    assert len(acknowledged) > _KILLS  # it was not killed before it did anything
    with made(folder, stub.url) as client:
        rounds = client.spent().studies[0].rounds
        assert rounds >= len(stub.reports)
        assert rounds >= len(acknowledged)
        for k, report in acknowledged.items():
            assert client.report({"age": 99}, round=k).hex() == report
        for k in range(rounds):
            client.report({"age": 7}, round=str(k))  # one that was charged and not made is made now
        client._clock = lambda: time.time() + 3600
        client.send()
        assert client.spent().studies[0].rounds == rounds
    assert len(stub.reports) == rounds  # every round arrived, once
    assert len(sent) <= len(stub.reports)
