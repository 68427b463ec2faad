"""The Python client: it gives what an estimate gives, and says what the collector says."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from helpers_service import QUICK, TODAY, WORKER, Clock, ages
from test_asking import estimate, plain, sent_reports, trips

import sfumato as sf
from sfumato.errors import CollectorError, FormatError, QuestionError, UploadError
from sfumato.estimation.groups import groups
from sfumato.estimation.plain import answer_from_dict, answers_from_dict
from sfumato.service import connecting, tokens
from sfumato.service.answering import log
from sfumato.service.collector import Collector, open_store
from sfumato.service.connecting import Connection
from sfumato.service.server import running

WHERE = "day=2024-01-01..2024-01-09"


class Served:
    """A collector on a port of this computer."""

    def __init__(self, url: str, collector: Collector) -> None:
        self.url, self.collector = url, collector
        self.tokens = {
            role: tokens.create(collector.store, f"the {role}", role, TODAY)
            for role in tokens.ROLES
        }

    def connect(self, study: str | None = "trips", **more: Any) -> Connection:
        return sf.connect(self.url, self.tokens["analyst"], study, **more)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("connecting")
    made = Collector(open_store(folder), QUICK, Clock(), WORKER)
    held, _ = made.publish(trips().to_toml(), minimum=3)
    made.upload(held.fingerprint, sent_reports())
    made.publish(ages().to_toml(), minimum=3)
    with running(made) as url:
        yield Served(url, made)


SAME: dict[str, Any] = {
    "count": lambda est: est.count("age=5..9, mode=bike"),
    "count by axis": lambda est: est.count(age=(5, 9), mode={"bike", None}),
    "count by dict": lambda est: est.count({"age": 7}, where={"mode": "bus"}, level=0.5),
    "count of all": lambda est: est.count(),
    "counts": lambda est: est.counts(["age=5..9", {"mode": "bus"}]),
    "fraction": lambda est: est.fraction("age=5..9", where="mode=bus", population=True),
    "mean": lambda est: est.mean("age", where=WHERE),
    "total": lambda est: est.total("age"),
    "histogram": lambda est: est.histogram("age"),
    "histogram of dates": lambda est: est.histogram("day", bins=4, fraction=True),
    "histogram of words": lambda est: est.histogram("mode", where={"age": (None, 9)}),
    "cdf": lambda est: est.cdf("day"),
    "cdf of counts": lambda est: est.cdf("age", fraction=False, bins=3, level=0.9),
    "heatmap": lambda est: est.heatmap("age", "mode", bins=(3, None)),
    "quantile": lambda est: est.quantile("day", 0.5),
    "quantiles": lambda est: est.quantile("age", np.array([0.1, 0.9])),
}


def same(found: Any, expected: Any) -> None:
    """Hold an answer that came over HTTP against one that did not."""
    assert type(found) is type(expected)
    if isinstance(found, list):
        for one, other in zip(found, expected, strict=True):
            same(one, other)
        return
    names = ("value",) if isinstance(found, sf.Answer) else ("values",)
    for name in (*names, "stderr", "low", "high"):
        np.testing.assert_allclose(
            getattr(found, name), getattr(expected, name), rtol=1e-9, atol=1e-7
        )
    for name in ("level", "method", "notes", "n", "question"):
        assert getattr(found, name) == getattr(expected, name), name
    assert str(found) == str(expected)
    if isinstance(found, sf.Answer):
        assert found.written == expected.written
        return
    for name in ("kind", "axes", "labels", "unit", "units"):
        assert getattr(found, name) == getattr(expected, name), name
    for edges, others in zip(found.all_edges, expected.all_edges, strict=True):
        assert (edges is None) == (others is None)
        assert edges is None or (edges.dtype == others.dtype and (edges == others).all())
    assert found.to_arrow().schema == expected.to_arrow().schema


@pytest.mark.parametrize("method", ["unbiased", pytest.param("auto", marks=pytest.mark.slow)])
@pytest.mark.parametrize("asked", SAME)
def test_it_gives_what_an_estimate_gives(served: Served, asked: str, method: Any) -> None:
    same(SAME[asked](served.connect(method=method)), SAME[asked](estimate(method)))


def test_groups_differences_and_bands_are_computed_where_the_tally_is(served: Served) -> None:
    est, local = served.connect(method="unbiased"), estimate("unbiased")
    same(
        est.groups("mode", mean="age", where=WHERE),
        groups(local, "mode", lambda who: local.mean("age", where=who), where=WHERE),
    )
    same(
        est.groups("age", count={"mode": "bike"}, bins=2),
        groups(local, "age", lambda who: local.count("mode=bike", where=who), bins=2),
    )
    same(
        est.difference({"count": {"age": (5, 9)}}, {"count": "age=..9", "where": "mode=bus"}),
        local.count(age=(5, 9)) - local.count("age=..9", where="mode=bus"),
    )
    same(est.histogram("age", band=True, level=0.9), local.histogram("age", level=0.9).band(0.9))
    with pytest.raises(QuestionError, match="ask a collector for the difference"):
        est.count("age=1") - est.count("age=2")
    with pytest.raises(QuestionError, match="band=True"):
        est.histogram("age").band()
    assert str(2 * est.count("age=5..9")) == str(2 * local.count("age=5..9"))


def test_it_says_where_answers_come_from(served: Served) -> None:
    est = served.connect()
    est.count("age=1")
    entry = list(log(served.collector.store))[-1]
    assert est.last == {"tally": 1, "reports": 600, "entry": entry["number"]}
    assert entry["who"] == "the analyst"
    assert (est.n, est.study) == (600, trips())
    assert trips().fingerprint[:12] in repr(est)


class TestConnecting:
    def test_a_study_is_named_or_the_only_one(self, served: Served) -> None:
        for name in ("trips", trips().fingerprint, trips().fingerprint[:8]):
            assert served.connect(name).fingerprint == trips().fingerprint
        for name in (None, "trip", trips().fingerprint[:7], ""):
            with pytest.raises(QuestionError, match="'ages'"):
                served.connect(name)

    @pytest.mark.parametrize("url", ["", "collector", "ftp://a", "http://", "http://u:p@a", 1])
    def test_an_address_must_be_one(self, url: Any) -> None:
        with pytest.raises(UploadError, match="url must be"):
            sf.connect(url, "x")

    @pytest.mark.parametrize("token", ["", "é", "a\nb", 1])
    def test_a_token_must_be_one(self, served: Served, token: Any) -> None:
        with pytest.raises(UploadError, match="token must be"):
            sf.connect(served.url, token)

    @pytest.mark.parametrize("wait", [0, -1, "1", None, float("nan")])
    def test_a_time_to_wait_must_be_one(self, served: Served, wait: Any) -> None:
        with pytest.raises(QuestionError, match="wait must be"):
            served.connect(wait=wait)

    def test_nobody_may_answer(self) -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
            with pytest.raises(CollectorError, match="gives no answer") as error:
                sf.connect(f"http://127.0.0.1:{port}", "x")
        assert (error.value.status, error.value.code) == (0, "unreachable")

    @pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"a": 1}', b'{"code": 1'], ids=repr)
    @pytest.mark.parametrize("status", [200, 404, 500])
    def test_what_answers_may_be_no_collector(
        self, monkeypatch: pytest.MonkeyPatch, status: int, body: bytes
    ) -> None:
        reply = connecting.Reply(status, {}, body)
        monkeypatch.setattr(connecting.Address, "exchange", lambda *_, **__: reply)
        with pytest.raises(CollectorError, match="no collector") as error:
            sf.connect("http://127.0.0.1", "x")
        assert error.value.code == "strange"


class TestRefusals:
    @pytest.mark.parametrize(("role", "status"), [("uploader", 403), ("wrong", 401)])
    def test_a_token_must_allow_it_and_is_never_shown(
        self, served: Served, role: str, status: int
    ) -> None:
        token = served.tokens.get(role, "sfumato_" + "A" * 43)
        with pytest.raises(CollectorError) as error:
            sf.connect(served.url, token, "trips")
        assert error.value.status == status
        assert token[8:] not in str(error.value)

    def test_have_the_collectors_code_and_sentence(self, served: Served) -> None:
        with pytest.raises(CollectorError, match=r"\(409 few\): this study answers once") as error:
            served.connect("ages").count("age=1")
        assert (error.value.status, error.value.code) == (409, "few")
        with pytest.raises(CollectorError, match=r"\(400 question\): there is no axis 'agee'"):
            served.connect().mean("agee")

    @pytest.mark.parametrize(
        "ask",
        [
            lambda est: est.count(agee=1),
            lambda est: est.count({"age": 100}),
            lambda est: est.count(1),
            lambda est: est.mean(1),
            lambda est: est.mean("age", level="x"),
            lambda est: est.histogram("age", bins=0),
            lambda est: est.heatmap("age", "mode", bins=(1, 2, 3)),
            lambda est: est.quantile("age", []),
            lambda est: est.quantile("age", "0.5"),
            lambda est: est.groups("age"),
            lambda est: est.groups("age", histogram="mode"),
            lambda est: est.groups("age", mean="age", count="age=1"),
            lambda est: est.difference({"count": "age=1"}, {"cdf": "age"}),
            lambda est: est.difference("age=1", "age=2"),
            lambda est: est.counts(None),
        ],
    )
    def test_of_what_is_no_question_need_no_collector(
        self, served: Served, ask: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        est = served.connect()
        assert est.study == trips()
        monkeypatch.setattr(connecting.Address, "exchange", None)
        with pytest.raises(QuestionError):
            ask(est)


class TestLongAnswers:
    def test_show_their_progress(self, served: Served) -> None:
        seen: list[float] = []
        started = threading.Event()

        def progress(share: float) -> None:
            seen.append(share)
            started.set()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(connecting, "_EACH_WAIT", 0.05)
            holder = WORKER._lock
            holder.acquire()  # somebody else's question takes long
            threading.Thread(target=lambda: (started.wait(20), holder.release())).start()
            found = served.connect(progress=progress).count("age=3")
        assert found.n == 600
        assert (seen[0], seen[-1]) == (0.0, 1.0)
        assert seen == sorted(seen)

    @pytest.mark.parametrize("how", ["late", "interrupted"])
    def test_are_given_up(self, served: Served, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connecting, "_EACH_WAIT", 0.05)
        jobs = served.collector.answering.jobs
        before = dict(jobs._jobs)  # whose answers may be fetched again
        entries = len(list(log(served.collector.store)))

        def interrupt(share: float) -> None:
            assert len(jobs._jobs) == len(before) + 1
            if how == "interrupted":
                raise KeyboardInterrupt

        est = served.connect(progress=interrupt, wait=0.2)
        with (
            WORKER._lock,
            pytest.raises(KeyboardInterrupt if how == "interrupted" else CollectorError) as error,
        ):
            est.count("age=4")
        assert jobs._jobs == before
        if how == "late":
            assert "takes longer than 0.2 seconds" in str(error.value)
        assert served.connect().count("age=5").n == 600  # the one before has been given up
        assert len(list(log(served.collector.store))) == entries + 1


class TestPlainAnswers:
    """Answers travel as JSON and come back."""

    @pytest.mark.parametrize("asked", SAME)
    def test_come_back(self, asked: str) -> None:
        found = SAME[asked](estimate("unbiased"))
        for one in found if isinstance(found, list) else [found]:
            read = answer_from_dict if isinstance(one, sf.Answer) else answers_from_dict
            same(read(plain(one)), one)

    def test_without_a_number_come_back(self) -> None:
        empty = trips().empty_tally().estimate("unbiased")
        for one in (empty.count("age=1"), empty.mean("age"), empty.quantile("age", 0.5)):
            assert str(answer_from_dict(plain(one))) == str(one) == "no reports"
        found = answers_from_dict(plain(empty.histogram("age")))
        assert np.isnan(found.values).all()
        assert found.labels == empty.histogram("age").labels

    @pytest.mark.parametrize(
        "change",
        [
            {"values": [1.0]},
            {"values": "x"},
            {"labels": [["a"]]},
            {"edges": []},
            {"low": None},
            {"n": "many"},
        ],
        ids=str,
    )
    def test_that_are_damaged_are_refused(self, change: dict[str, Any]) -> None:
        held = plain(estimate("unbiased").histogram("age"))
        with pytest.raises(FormatError, match="ask again"):
            answers_from_dict(held | change)
        for name in held:
            if name not in ("steps",):
                with pytest.raises(FormatError):
                    answers_from_dict({key: held[key] for key in held if key != name})
        for bad in ({}, [], None, {"value": 1}):
            with pytest.raises(FormatError):
                answer_from_dict(bad)  # type: ignore[arg-type]
