"""The worker process: it may be killed, cancelled and stopped, and it reads each part once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers_service import QUICK, TODAY, ages, batch, bits
from test_app import Running, sent

from sfumato.errors import QuestionError
from sfumato.service import answering, tokens
from sfumato.service import worker as module
from sfumato.service.answering import log
from sfumato.service.collector import Collector, Settings, open_store
from sfumato.service.jobs import Answered, Job, Jobs
from sfumato.service.published import Published
from sfumato.service.refusals import RefusedError
from sfumato.service.stores.base import Store
from sfumato.service.tokens import Token
from sfumato.service.worker import Holding, Worker, Written

ANN = Token("Ann", "analyst", 0, None)


# Work, which the worker imports from here.


def killed(held: Holding, path: str, times: int) -> Written:
    """End the process, the first few times."""
    with open(path, "a") as file:
        file.write("x")
    if os.path.getsize(path) <= times:
        os.kill(os.getpid(), signal.SIGKILL)
    return Written(b"1")


def slow(held: Holding, steps: int, *_: Any) -> Written:
    """Say how far it is, for a while."""
    for step in range(steps):
        held.progress(step / steps)
        time.sleep(0.01)
    return Written(b"1")


def deaf(held: Holding, seconds: float) -> Written:
    """Say nothing for a while."""
    time.sleep(seconds)
    return Written(b"1")


def facts(held: Holding, *_: Any) -> Written:
    """Say what is held."""
    return Written(f"[{len(held.parts)}, {held.version}, {held.tally.n}, {os.getpid()}]".encode())


def wrong(held: Holding) -> Written:
    """Fail, and say something about a person."""
    raise ZeroDivisionError("a report is 31")


def refused(held: Holding) -> Written:
    raise QuestionError("no such axis")


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    made.stop()


SETTINGS = Settings(tally_seconds=3_600, rate=0, reserve=0, most_questions=2)


@pytest.fixture
def made(tmp_path: Path, worker: Worker) -> Iterator[Collector]:
    with Collector(open_store(tmp_path / "store"), SETTINGS, worker=worker) as found:
        yield found


@pytest.fixture
def stored(store: Store, worker: Worker) -> Iterator[Collector]:
    """A collector with either store."""
    with Collector(store, SETTINGS, worker=worker) as found:
        yield found


def published(made: Collector, study: Any = None) -> Published:
    study = study or ages()
    held, _ = made.publish(study.to_toml(), minimum=1)
    made.upload(held.fingerprint, batch([1, 2, 3], study=study, expires=made.today() + 3))
    return held


def put(made: Collector, study: Published, *work: Any) -> Any:
    function, *more = work
    about = {"work": function.__name__, "more": more}
    return made.answering.put(study, ANN, about, (function, tuple(more)))


def asked(made: Collector, study: Published, *work: Any) -> Answered:
    found: Answered = put(made, study, *work).result()
    return found


def entries(made: Collector) -> list[dict[str, Any]]:
    return list(log(made.store))


def refusal(job: Any) -> tuple[int, str]:
    with pytest.raises(RefusedError) as found:
        job.result()
    return found.value.status, found.value.code


class TestTallies:
    @pytest.mark.slow
    def test_are_sent_part_by_part_and_each_once(
        self, stored: Collector, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        study = published(stored, bits())  # whose tally is the reports
        sent_parts: list[int] = []
        read = answering.read_parts

        def counted(*about: Any) -> Any:
            parts = read(*about)
            sent_parts.append(len(parts.new))
            return parts

        monkeypatch.setattr(answering, "read_parts", counted)
        for step, many in enumerate((200, 40, 10, 3, 1)):
            data = batch([0] * many, study=bits(), expires=stored.today() + 3)
            stored.upload(study.fingerprint, data)
            parts, version, reports, _ = json.loads(asked(stored, study, facts, step).written.data)
            assert (version, reports) == (step + 1, stored.counts(study)["reports"])
            with stored.store.look() as run:
                (found,) = run("SELECT count(*) FROM tallies WHERE study = ?", (study.number,))
            assert parts == found[0]
        assert sent_parts == [1] * 5
        assert asked(stored, study, facts, 9).reports == 257
        assert sent_parts == [1] * 5 + [0]

    @pytest.mark.slow
    def test_are_read_anew_by_a_worker_that_died(self, stored: Collector, worker: Worker) -> None:
        study = published(stored)
        *before, first = json.loads(asked(stored, study, facts).written.data)
        assert first == worker.pid != os.getpid()
        os.kill(first, signal.SIGKILL)
        *after, second = json.loads(asked(stored, study, facts, 1).written.data)
        assert after == before
        assert second == worker.pid != first

    def test_of_a_study_that_was_deleted_are_forgotten(self, stored: Collector) -> None:
        study = published(stored)
        asked(stored, study, facts)
        stored.delete(study)
        with pytest.raises(RefusedError, match="reports"):
            asked(stored, study, facts)
        again = published(stored)
        assert again.number != study.number
        assert json.loads(asked(stored, again, facts).written.data)[:3] == [1, 1, 3]

    def test_that_cannot_be_read_are_said_to_be_damaged_and_read_again(
        self, stored: Collector
    ) -> None:
        study = published(stored)
        stored.tally()
        with stored.store.change() as run:
            (good,) = run.one("SELECT data FROM tallies")
            run("UPDATE tallies SET data = ?", (bytes(good)[:-9],))
        assert refusal(put(stored, study, facts)) == (400, "file")
        with stored.store.change() as run:
            run("UPDATE tallies SET data = ?", (good,))
        assert asked(stored, study, facts).reports == 3


class TestWork:
    @pytest.mark.slow
    def test_that_ends_the_process_once_is_tried_again(
        self, made: Collector, tmp_path: Path
    ) -> None:
        study = published(made)
        assert asked(made, study, killed, str(tmp_path / "runs"), 1).written.data == b"1"
        assert (tmp_path / "runs").read_text() == "xx"

    @pytest.mark.slow
    def test_that_ends_the_process_twice_is_refused(self, made: Collector, tmp_path: Path) -> None:
        study = published(made)
        assert refusal(put(made, study, killed, str(tmp_path / "runs"), 9)) == (503, "worker")
        assert (tmp_path / "runs").read_text() == "xx"
        assert entries(made) == []
        assert asked(made, study, facts).reports == 3

    def test_that_fails_says_where_and_not_what(
        self, made: Collector, caplog: pytest.LogCaptureFixture
    ) -> None:
        study = published(made)
        assert refusal(put(made, study, wrong)) == (500, "internal")
        assert "ZeroDivisionError at wrong" in caplog.text
        assert "31" not in caplog.text
        assert refusal(put(made, study, refused)) == (400, "question")
        assert entries(made) == []

    @pytest.mark.parametrize("function", [slow, deaf])
    def test_ends_when_it_is_cancelled(
        self, made: Collector, function: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "_GRACE_SECONDS", 0.3)
        study = published(made)
        job = put(made, study, function, 100_000)
        waiting = put(made, study, slow, 100_000, 1)
        waiting.cancel()
        while function is slow and not job.progress:
            time.sleep(0.01)
        job.cancel()
        assert refusal(job) == (404, "job")
        assert refusal(waiting) == (404, "job")
        assert asked(made, study, facts).reports == 3
        assert len(entries(made)) == 1

    def test_ends_when_it_takes_too_long(self, tmp_path: Path, worker: Worker) -> None:
        settings = Settings(tally_seconds=3_600, rate=0, reserve=0, answer_seconds=0.3)
        with Collector(open_store(tmp_path), settings, worker=worker) as made:
            study = published(made)
            asked(made, study, facts)  # the process runs
            assert refusal(put(made, study, slow, 100_000)) == (503, "long")

    def test_ends_with_the_collector_and_so_do_questions_that_wait(
        self, tmp_path: Path, worker: Worker
    ) -> None:
        with Collector(open_store(tmp_path), QUICK, worker=worker) as made:
            study = published(made)
            jobs = [put(made, study, slow, 100_000, place) for place in range(3)]
        assert [refusal(job) for job in jobs] == [(503, "stopping")] * 3

    def test_that_waits_may_not_be_too_much(self, made: Collector) -> None:
        study = published(made)
        first = put(made, study, slow, 100_000)
        while not first.progress:
            time.sleep(0.01)
        others = [put(made, study, slow, 100_000, place) for place in range(2)]
        with pytest.raises(RefusedError) as found:
            put(made, study, slow, 100_000, 3)
        assert (found.value.status, found.value.code) == (429, "busy")
        for job in (*others, first):
            job.cancel()

    @pytest.mark.slow
    def test_does_not_outlive_a_collector_that_is_killed(self, tmp_path: Path) -> None:
        (tmp_path / "run.py").write_text(BUSY)
        with subprocess.Popen(
            [sys.executable, str(tmp_path / "run.py")], stdout=subprocess.PIPE, text=True
        ) as running:
            assert running.stdout is not None
            pid = int(running.stdout.readline())
            running.kill()
        ends = time.monotonic() + 30
        while _runs(pid) and time.monotonic() < ends:
            time.sleep(0.02)
        assert not _runs(pid)


#: A collector whose worker is busy for long.
BUSY = """
import os, time
from sfumato.service.tallying import Parts
from sfumato.service.worker import Worker

def busy(held):
    os.write(1, f"{os.getpid()}\\n".encode())
    time.sleep(600)

if __name__ == "__main__":
    read = lambda held: Parts(-1, 0, [], {})
    Worker().run(1, ("", "reports"), read, (busy, ()), progress=print, wanted=lambda: True)
"""


def _runs(pid: int) -> bool:
    """Whether a process runs, and is not merely waited for."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


class TestAnswers:
    def test_are_kept_for_the_same_question_and_tally(self, made: Collector) -> None:
        study = published(made)
        first, second = asked(made, study, facts), asked(made, study, facts)
        assert first.written is second.written
        assert (first.entry, second.entry) == (1, 2)
        made.upload(study.fingerprint, batch([4], study=ages(), expires=made.today() + 3))
        third = asked(made, study, facts)
        assert (third.version, third.reports, third.entry) == (2, 4, 3)
        assert json.loads(third.written.data)[1:3] == [2, 4]

    def test_that_were_not_asked_for_lately_make_room(
        self, made: Collector, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(answering, "_MOST_CACHED", 4_000)
        study = published(made)
        first = asked(made, study, facts, 0)
        for place in range(1, 4):
            asked(made, study, facts, place)
            asked(made, study, facts, 0)
        assert asked(made, study, facts, 0).written is first.written
        assert len(made.answering._cache) == 3
        assert made.answering._cached == sum(
            len(one.data) + 1024 for one in made.answering._cache.values()
        )


class TestOverHttp:
    @pytest.mark.slow
    def test_a_long_answer_is_fetched_later(self, running: Running) -> None:
        made, headers = running.collector, running.headers("analyst")
        with made.answering._worker._lock:  # somebody else's question takes long
            later = running.http.post(
                f"{running.base}/ask?wait=0", json={"count": "age=1"}, headers=headers
            )
            assert later.status_code == 202
            assert later.json() == {"job": later.headers["Location"][9:], "progress": 0.0}
            where = later.headers["Location"]
            assert running.http.get(where, headers=headers).status_code == 202
            for role, status in (("other", 404), ("admin", 202)):
                found = running.http.get(where, headers=running.headers(role))
                assert found.status_code == status
                assert running.http.get(f"{where}x", headers=headers).json()["code"] == "job"
        found = running.http.get(f"{where}?wait=60", headers=headers)
        assert (found.status_code, found.json()["entry"]) == (200, 1)
        assert found.json() == running.http.get(where, headers=headers).json()
        assert found.json()["answer"] == running.ask(count="age=1").json()["answer"]

    def test_a_long_answer_may_be_cancelled(self, running: Running) -> None:
        made, headers = running.collector, running.headers("analyst")
        with made.answering._worker._lock:
            where = running.http.post(
                f"{running.base}/ask?wait=0", json={"count": "age=1"}, headers=headers
            ).headers["Location"]
            other = running.http.delete(where, headers=running.headers("other"))
            assert other.status_code == 404
            assert running.http.delete(where, headers=headers).status_code == 204
            assert running.http.get(where, headers=headers).json()["code"] == "job"
        assert running.ask(count="age=2").json()["entry"] == 1  # the first was never answered

    @pytest.mark.parametrize("wait", ["x", "-1", "61", "nan", "inf", ""])
    def test_a_time_to_wait_must_be_one(self, running: Running, wait: str) -> None:
        found = running.http.post(
            f"{running.base}/ask?wait={wait}",
            json={"count": "age=1"},
            headers=running.headers("analyst"),
        )
        assert (found.status_code, found.json()["code"]) == (400, "wait")

    def test_answers_that_nobody_fetched_make_room(self) -> None:
        now = 0.0
        jobs = Jobs(lambda: now)
        held = [Job(None, ANN, {}, (facts, ()), "json") for _ in range(300)]  # type: ignore[arg-type]
        for job in held[:10]:
            jobs.add(job)
        for job in held[10:]:
            jobs.add(job)
            job.settle(RefusedError(503, "long", "..."))
            job.settled_at = now
        assert sum(_found(jobs, job) for job in held) == 256
        assert all(_found(jobs, job) for job in held[:10])  # which are not answered yet
        now = 601.0
        jobs.add(held[0])
        assert sum(_found(jobs, job) for job in held) == 10


def _found(jobs: Jobs, job: Job) -> bool:
    try:
        return jobs.find(job.id, ANN) is job
    except RefusedError:
        return False


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    made = Running(tmp_path)
    made.tokens["other"] = tokens.create(made.store, "another analyst", "analyst", TODAY)
    with made.http:
        made.upload(sent([1, 2, 3]))
        yield made
