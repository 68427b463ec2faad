"""The client: one report per round, the queue, the protocol, and what it refuses."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import shutil
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from stub import Fault, Stub

import sfumato as sf
from sfumato.device import client as module
from sfumato.device import upload
from sfumato.device.client import Client, Made, Sent
from sfumato.device.program import Program, canonical, digest_of
from sfumato.device.upload import Answer
from sfumato.errors import StoreError, UploadError

DAY = 86_400
TODAY = 20_000
HEAVY = {"numpy", "scipy", "pyarrow", "pandas", "cryptography"}
LABELS = ("zebra-crossing", "yellow-submarine", "xylophone-solo")


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = float(TODAY * DAY)

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def program() -> Program:
    axes = [
        sf.integers("age", 0, 99, protect=sf.Distance(0.02)),
        sf.categories("mode", LABELS, protect=sf.Uniform(1)),
    ]
    return sf.Study("trips", axes).device_program()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def stub(program: Program) -> Iterator[Stub]:
    with Stub(program.fingerprint, program.report_size) as running:
        yield running


@pytest.fixture
def client(program: Program, stub: Stub, tmp_path: Path, clock: Clock) -> Iterator[Client]:
    with make(program, tmp_path, stub.url, clock=clock) as made:
        yield made


def make(program: Program, folder: Path, url: str | None = None, **rest: object) -> Client:
    return Client(program, url, folder=folder / "home", digest=program.digest, **rest)  # type: ignore[arg-type]


RECORD = {"age": 31, "mode": LABELS[0]}


class TestReports:
    def test_a_round_has_one_report_whatever_the_value(self, client: Client) -> None:
        first = client.report(RECORD, round="May")
        others = [{"age": age, "mode": label} for age in (0, 50, 99) for label in LABELS]
        assert {client.report(other, round="May") for other in others} == {first}
        assert client.spent().studies[0].rounds == 1

    def test_another_round_is_another_draw_and_another_charge(self, client: Client) -> None:
        reports = {client.report(RECORD, round=str(k)) for k in range(12)}
        assert len(reports) > 1
        assert client.spent().total == 12 * client.program.most

    def test_the_report_outlives_the_client_and_the_upload(
        self, program: Program, client: Client, stub: Stub, tmp_path: Path
    ) -> None:
        first = client.report(RECORD)
        assert client.send().accepted == 1
        client.close()
        with make(program, tmp_path) as again:
            assert again.report({"age": 99, "mode": LABELS[1]}) == first
            assert again.spent().studies[0].rounds == 1

    @pytest.mark.parametrize(
        "record", [{"age": 987654321, "mode": LABELS[0]}, {"age": 31, "mode": "walnut-grove"}]
    )
    def test_a_value_outside_its_domain_is_shown_nowhere_and_costs_nothing(
        self, record: dict[str, object], client: Client, tmp_path: Path,
        caplog: pytest.LogCaptureFixture,
    ) -> None:  # fmt: skip
        caplog.set_level(logging.DEBUG)
        with pytest.raises(sf.DataError) as caught:
            client.report(record)
        words = "".join(traceback.format_exception(caught.value)) + caplog.text
        assert "987654321" not in words
        assert "walnut" not in words
        assert client.spent().total == 0
        assert client.send() == Sent()
        held = everything(tmp_path)
        assert b"walnut" not in held
        assert b"987654321" not in held

    def test_no_file_holds_the_value(self, client: Client, tmp_path: Path) -> None:
        for k, label in enumerate(LABELS):
            client.report({"age": 31, "mode": label}, round=f"round-{k}")
        held = everything(tmp_path)
        assert b"round-2" in held  # the search finds what is there
        assert not any(label.encode() in held for label in LABELS)

    def test_the_charge_is_made_before_the_words_are_drawn(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen = []

        def encode(*_: object, **__: object) -> bytes:
            seen.append(client.spent().studies[0].rounds)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Program, "encode", encode)
            with pytest.raises(KeyboardInterrupt):
                client.report(RECORD)
        assert seen == [1]
        client.report(RECORD)
        assert client.spent().studies[0].rounds == 1

    def test_a_limit_refuses_whatever_the_value(self, program: Program, tmp_path: Path) -> None:
        assert program.most is not None
        with make(program, tmp_path, limit=2 * program.most) as client:
            first = client.report(RECORD, round="1")
            client.report(RECORD, round="2")
            messages = set()
            for record in (RECORD, {"age": 99, "mode": LABELS[2]}, {"age": -5}, {}):
                with pytest.raises(sf.LedgerError) as caught:
                    client.report(record, round="3")
                messages.add(str(caught.value))
            assert len(messages) == 1
            assert client.report(RECORD, round="1") == first
            assert client.spent().left == 0

    @pytest.mark.parametrize("round_", [7, None, "\ud800", "x" * 2_000])
    def test_a_round_is_a_text_that_a_file_can_hold(self, client: Client, round_: object) -> None:
        with pytest.raises(sf.StudyError, match="round"):
            client.report(RECORD, round=round_)  # type: ignore[arg-type]


class TestPersons:
    def test_persons_have_reports_limits_and_ledgers_of_their_own(
        self, program: Program, stub: Stub, tmp_path: Path, clock: Clock
    ) -> None:
        assert program.most is not None
        with make(program, tmp_path, stub.url, clock=clock, limit=2 * program.most) as client:
            made = [client.report(RECORD, round="1", person=str(k)) for k in range(12)]
            assert len(set(made)) > 1
            again = [client.report({"age": 1}, round="1", person=str(k)) for k in range(12)]
            assert again == made
            client.report(RECORD, round="2", person="7")
            with pytest.raises(sf.LedgerError):
                client.report(RECORD, round="3", person="7")
            client.report(RECORD, round="3", person="8")
            assert client.spent("7").total == client.spent("8").total == 2 * program.most
            assert client.spent("9").total == program.most
            assert client.spent().total == 0
            assert client.send() == Sent(accepted=14)
            assert len(stub.uploads) == 1

    def test_what_a_person_is_called_never_leaves_the_device(
        self, client: Client, stub: Stub, tmp_path: Path
    ) -> None:
        seen: list[bytes] = []
        answer = stub.answer

        def noted(path: str, headers: dict[str, str], data: bytes) -> Fault:
            seen.append(path.encode() + repr(headers).encode() + data)
            return answer(path, headers, data)

        stub.answer = noted  # type: ignore[method-assign]
        client.report(RECORD, person="Ann-Marie")
        assert client.send().accepted == 1
        assert b"Ann-Marie" in everything(tmp_path)  # the search finds what is there
        assert len(seen) == 1
        assert b"Ann" not in seen[0]

    @pytest.mark.parametrize("person", [7, None, "\ud800", "x" * 2_000, b"Ann", ["Ann"]])
    def test_a_person_is_a_text_and_is_not_shown(self, client: Client, person: object) -> None:
        for ask in (
            lambda: client.report(RECORD, person=person),  # type: ignore[arg-type]
            lambda: client.spent(person),  # type: ignore[arg-type]
        ):
            with pytest.raises(sf.StudyError, match="person must be a text") as caught:
                ask()
            assert "xx" not in str(caught.value)
            assert "Ann" not in str(caught.value)


class TestManyReports:
    PEOPLE: ClassVar = {f"person {k}": {"age": k % 100, "mode": LABELS[k % 3]} for k in range(600)}

    def test_they_are_those_of_one_call_each(self, client: Client, stub: Stub) -> None:
        first = client.report(RECORD, round="1", person="person 7")
        steps: list[tuple[int, int]] = []
        found = client.report_all(
            self.PEOPLE, round="1", seen=lambda done, total: steps.append((done, total))
        )
        assert (found.made, found.remembered) == (599, 1)
        assert list(found.reports) == list(self.PEOPLE)
        assert found.reports["person 7"] == first
        for person in ("person 0", "person 599"):
            assert client.report(RECORD, round="1", person=person) == found.reports[person]
            assert client.spent(person).studies[0].rounds == 1
        assert steps == [(257, 600), (513, 600), (600, 600)]
        assert client.report_all(self.PEOPLE, round="1") == Made(found.reports, 0, 600)
        assert client.send() == Sent(accepted=600)
        assert sorted(stub.stored.values()) == sorted(found.reports.values())

    def test_reports_follow_their_own_records(self, tmp_path: Path) -> None:
        axis = sf.integers("age", 0, 99, protect=sf.Distance(60))  # a report is its value
        with Client(sf.Study("plain", [axis]), folder=tmp_path) as client:
            found = client.report_all(self.PEOPLE).reports
        assert [found[f"person {k}"][0] for k in range(600)] == [k % 100 for k in range(600)]

    def test_every_chunk_is_charged_before_it_is_encoded(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        states: list[int] = []
        encode = Program.encode

        def watched(self: Program, record: dict[str, object], **rest: Any) -> bytes:
            held = client._memory.states()
            states.append(sum(held.values()))
            if len(states) == 300:
                raise KeyboardInterrupt
            return encode(self, record, **rest)

        with monkeypatch.context() as patch:
            patch.setattr(Program, "encode", watched)
            with pytest.raises(KeyboardInterrupt):
                client.report_all(self.PEOPLE)
        assert states == [256] * 256 + [512] * 44
        assert client._memory.states() == {"queued": 256, "charged": 256}
        found = client.report_all(self.PEOPLE)
        assert (found.made, found.remembered) == (344, 256)
        assert client._memory.states() == {"queued": 600}

    @pytest.mark.parametrize("last", [{"age": 987654321, "mode": LABELS[0]}, {}, 7])
    def test_one_record_that_does_not_fit_charges_nobody(
        self, client: Client, last: dict[str, object]
    ) -> None:
        people = self.PEOPLE | {"person 599": last}
        with pytest.raises(sf.DataError, match="record 600 of 600, and so none") as caught:
            client.report_all(people)
        assert "987654321" not in str(caught.value)
        assert client._memory.states() == {}

    def test_one_limit_that_is_spent_charges_nobody_whatever_the_values(
        self, program: Program, tmp_path: Path
    ) -> None:
        assert program.most is not None
        with make(program, tmp_path, limit=program.most) as client:
            client.report(RECORD, round="1", person="person 599")
            messages = set()
            for person in ("person 599", "person 0"):
                with pytest.raises(sf.LedgerError, match="record 600 of 600") as caught:
                    client.report_all(self.PEOPLE | {person: {}}, round="2")
                messages.add(str(caught.value))
            assert len(messages) == 1
            assert client._memory.states() == {"queued": 1}

    def test_nobody_is_no_report(self, client: Client) -> None:
        assert client.report_all({}) == Made({}, 0, 0)

    def test_a_list_is_refused(self, client: Client) -> None:
        with pytest.raises(sf.DataError, match="a dict of records by person, got list"):
            client.report_all([RECORD])  # type: ignore[arg-type]


class TestMemoryByValue:
    def test_the_same_value_gives_the_same_report_in_every_round(
        self, program: Program, tmp_path: Path
    ) -> None:
        with make(program, tmp_path, memory="value") as client:
            reports = {client.report(RECORD, round=str(k)) for k in range(4)}
            assert len(reports) == 1
            others = {
                client.report({"age": age, "mode": LABELS[0]}, round=f"age {age}")
                for age in range(0, 100, 20)
            }
            assert len(others) > 1
            assert client.spent().studies[0].rounds == 9

    @pytest.mark.parametrize(
        ("person", "form"),
        [
            ("", "sfumato value\n{digest}\n{codes}\n{block}"),  # as JavaScript has it
            ("Ann", "sfumato value of a person\n{digest}\n{codes}\n{block}\nAnn"),
        ],
    )
    def test_its_words_are_those_of_the_page(
        self, person: str, form: str, program: Program, tmp_path: Path
    ) -> None:
        record = RECORD | {"age": 77}
        with make(program, tmp_path, memory="value") as client:
            found = client.report(record, person=person)
            secret = client._memory.secret()
        codes = ",".join(map(str, program.codes(record)))
        words = []
        for block in range(8):
            text = form.format(digest=program.digest, codes=codes, block=block).encode()
            drawn = hmac.new(secret, text, hashlib.sha256).digest()
            words += [int.from_bytes(drawn[k : k + 8], "big") for k in range(0, 32, 8)]
        assert found == program.encode(record, words=iter(words).__next__)

    def test_two_persons_with_one_value_do_not_share_their_words(
        self, program: Program, tmp_path: Path
    ) -> None:
        people = {f"person {k}": RECORD for k in range(40)}
        with make(program, tmp_path, memory="value") as client:
            found = client.report_all(people, round="1").reports
            assert len(set(found.values())) > 5
            assert client.report_all(people, round="2").reports == found

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (("", (1, 23)), ("", (12, 3))),
            (("", (1,)), ("1", ())),
            (("1", (2,)), ("", (1, 2))),
            (("a\n0", (1,)), ("a", (1,))),
            (("\n0", (1,)), ("0", (1,))),
            ((f"{'d'}\n1\n0", (1,)), ("d", (1,))),
        ],
    )
    def test_no_two_persons_and_values_have_the_same_words(
        self, one: tuple[str, tuple[int, ...]], other: tuple[str, tuple[int, ...]]
    ) -> None:
        drawn = [
            {next(words) for _ in range(80)}
            for words in (module._words(b"secret", "d", *held) for held in (one, other))
        ]
        assert not drawn[0] & drawn[1]

    def test_another_device_has_another_secret(self, program: Program, tmp_path: Path) -> None:
        found = set()
        for k in range(2):
            with make(program, tmp_path / str(k), memory="value") as client:
                found.add(client._memory.secret())
                assert (tmp_path / str(k) / "home" / "device.sqlite").stat().st_mode & 0o77 == 0
        assert len(found) == 2

    def test_an_id_follows_from_nothing_that_the_device_has(
        self, program: Program, tmp_path: Path
    ) -> None:
        with make(program, tmp_path / "one", memory="value") as client:
            client.report(RECORD, round="1")
        shutil.copytree(tmp_path / "one", tmp_path / "other")
        made, ids = set(), []
        for name in ("one", "other"):
            with make(program, tmp_path / name, memory="value") as client:
                made.add(client.report(RECORD, round="2"))
                ids.append({held.id for held in client._memory.due(2)})
        assert len(made) == 1
        assert len(ids[0] & ids[1]) == 1  # that of the first round, which was copied

    def test_another_memory_is_refused(self, program: Program, tmp_path: Path) -> None:
        with pytest.raises(sf.StudyError, match="'round' or 'value'"):
            make(program, tmp_path, memory="rounds")


class TestSending:
    def test_reports_arrive_once_and_are_forgotten(self, client: Client, stub: Stub) -> None:
        made = sorted(client.report(RECORD, round=str(k)) for k in range(5))
        assert client.send() == Sent(accepted=5)
        assert sorted(stub.stored.values()) == made
        assert client.send() == Sent()
        assert len(stub.uploads) == 1

    def test_nothing_else_is_sent(self, client: Client, stub: Stub) -> None:
        client.report(RECORD)
        client.send()
        ((expires, _, headers),) = stub.uploads
        assert expires == TODAY + 30
        assert set(headers) == {"Host", "Accept-Encoding", "Content-Length", "Content-Type"}

    @pytest.mark.parametrize("status", [0, 429, 500, 502, 503, 504, 507])
    @pytest.mark.parametrize("stores", [False, True])
    def test_a_retry_has_the_same_ids_and_counts_once(
        self, status: int, stores: bool, client: Client, stub: Stub, clock: Clock
    ) -> None:
        client.report(RECORD, round="1")
        client.report(RECORD, round="2")
        stub.faults.append(Fault(status, stores=stores))
        first = client.send()
        assert first.waiting == 2
        assert first.retry_after is not None
        assert 0.5 <= first.retry_after <= 1.5
        assert first.reason
        clock.now += first.retry_after + 0.001  # the clock's own rounding
        assert client.send() == (Sent(repeated=2) if stores else Sent(accepted=2))
        assert stub.uploads[0][1] == stub.uploads[1][1]
        assert len(stub.stored) == 2

    def test_it_waits_twice_as_long_each_time_up_to_ten_minutes(
        self, client: Client, stub: Stub, clock: Clock
    ) -> None:
        client.report(RECORD)
        for k in range(14):
            stub.faults.append(Fault(503))
            wait = client.send().retry_after
            assert wait is not None
            assert 0.5 <= wait / min(2**k, 600) <= 1.5
            clock.now += wait / 2
            assert client.send().retry_after == pytest.approx(wait / 2, rel=1e-3)
            clock.now += wait / 2 + 0.001  # the clock's own rounding
        assert len(stub.uploads) == 14
        assert client.send().accepted == 1
        client.report(RECORD, round="next")
        stub.faults.append(Fault(503))
        assert (client.send().retry_after or 9) <= 1.5  # a success starts anew

    def test_it_waits_as_long_as_the_collector_asks(self, client: Client, stub: Stub) -> None:
        client.report(RECORD)
        stub.faults.append(Fault(429, headers={"Retry-After": "120"}))
        assert client.send().retry_after == 120
        assert client.send().waiting == 1
        assert len(stub.uploads) == 1

    @pytest.mark.parametrize(
        ("asked", "waits"),
        [
            ("600", 600),
            ("0" * 40 + "600", 600),
            ("9" * 400, 31 * DAY),
            ("-5", None),
            ("1e3", None),
            ("1.5", None),
            ("\u0663\u0660\u0660", None),
            ("Fri, 20 Nov 2026 07:28:00 GMT", None),
        ],
    )
    def test_what_is_no_whole_number_of_seconds_asks_for_nothing(
        self, asked: str, waits: int | None, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        answer = Answer(503, retry_after=upload._seconds(asked))
        monkeypatch.setattr(upload.Collector, "post", lambda *_: answer)
        client.report(RECORD)
        found = client.send().retry_after
        assert found is not None
        assert 0.5 <= found <= 1.5 if waits is None else found == waits

    def test_it_keeps_trying_for_as_long_as_it_is_told(
        self, client: Client, stub: Stub, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def sleep(seconds: float) -> None:
            clock.now += seconds + 0.001

        monkeypatch.setattr(module, "_sleep", sleep)
        client.report(RECORD)
        stub.faults.extend([Fault(503), Fault(0), Fault(500)])
        assert client.send(wait=60) == Sent(accepted=1)
        assert len(stub.uploads) == 4

    def test_a_batch_that_is_too_long_is_split(self, client: Client, stub: Stub) -> None:
        for k in range(11):
            client.report(RECORD, round=str(k))
        stub.most = 3
        assert client.send() == Sent(accepted=11)
        assert [len(ids) for _, ids, _ in stub.uploads] == [11, 3, 3, 3, 2]

    def test_a_collector_that_takes_no_report_at_all_stops_it(
        self, client: Client, stub: Stub
    ) -> None:
        client.report(RECORD, round="1")
        client.report(RECORD, round="2")
        stub.most = 0
        with pytest.raises(UploadError, match="413"):
            client.send()
        stub.most = 2
        assert client.send().accepted == 2

    def test_refused_reports_are_noted_and_not_sent_again(self, client: Client, stub: Stub) -> None:
        for k in range(4):
            client.report(RECORD, round=str(k))
        refused = iter([None, "symbol", None, "symbol"])
        stub.refuse = lambda report: next(refused)
        assert client.send() == Sent(accepted=2, refused=2)
        assert client._memory.states() == {"sent": 2, "refused": 2}
        assert client.send() == Sent()

    @pytest.mark.parametrize("status", [200, 301, 400, 401, 403, 404, 415, 418])
    def test_what_trying_again_does_not_mend_stops_it_and_keeps_the_queue(
        self, status: int, client: Client, stub: Stub
    ) -> None:
        client.report(RECORD)
        stub.faults.append(Fault(status))
        with pytest.raises(UploadError, match=f"status {status}"):
            client.send()
        assert client.send() == Sent(accepted=1)
        assert stub.uploads[0][1] == stub.uploads[-1][1]

    @pytest.mark.parametrize(
        "body",
        [
            {},
            {"accepted": 2, "repeated": 0},
            {"accepted": 1, "repeated": 0, "refused": []},
            {"accepted": 2.0, "repeated": 0, "refused": []},
            {"accepted": 3, "repeated": -1, "refused": []},
            {"accepted": 1, "repeated": 0, "refused": [{"place": 2, "code": "symbol"}]},
            {"accepted": 1, "repeated": 0, "refused": [{"place": 0, "code": "symbol"}]},
            {"accepted": 1, "repeated": 0, "refused": [7]},
        ],
    )
    def test_an_answer_that_does_not_add_up_forgets_nothing(
        self, body: dict[str, object], client: Client, stub: Stub
    ) -> None:
        client.report(RECORD, round="1")
        client.report(RECORD, round="2")
        stub.faults.append(Fault(202, body))
        assert client.send().waiting == 2

    def test_an_outcome_that_cannot_be_written_is_sent_again_and_counts_once(
        self, client: Client, stub: Stub
    ) -> None:
        disk = client._memory._connection
        assert disk is not None

        def fails(report: bytes) -> None:
            disk.execute("PRAGMA query_only = ON")

        client.report(RECORD)
        stub.refuse = fails
        with pytest.raises(StoreError, match="cannot write"):
            client.send()
        disk.execute("PRAGMA query_only = OFF")
        stub.refuse = lambda report: None
        assert client.send() == Sent(repeated=1)
        assert len(stub.stored) == 1

    def test_a_token_goes_along(
        self, program: Program, stub: Stub, tmp_path: Path, clock: Clock
    ) -> None:
        stub.token = "open sesame"
        with make(program, tmp_path, stub.url, clock=clock) as client:
            client.report(RECORD)
            with pytest.raises(UploadError, match="401"):
                client.send()
        with make(program, tmp_path, stub.url, clock=clock, token="open sesame") as client:
            assert client.send().accepted == 1

    def test_without_an_address_nothing_is_sent(self, program: Program, tmp_path: Path) -> None:
        with make(program, tmp_path) as client, pytest.raises(UploadError, match="url="):
            client.send()

    @pytest.mark.parametrize(
        "url", ["", "collector", "ftp://a.example", "http://", "http://a:b@c", "http://a:x", 7,
                "http://a?b", "http://a b"],
    )  # fmt: skip
    def test_an_address_that_is_none_is_refused(
        self, url: str, program: Program, tmp_path: Path
    ) -> None:
        with pytest.raises(UploadError, match="url must be"):
            make(program, tmp_path, url)


class TestTheClock:
    def test_days_have_batches_of_their_own(self, client: Client, stub: Stub, clock: Clock) -> None:
        for k in range(6):
            client.report(RECORD, round=str(k))
            clock.now += DAY / 2
        assert client.send().accepted == 6
        found = [(expires, len(ids)) for expires, ids, _ in stub.uploads]
        assert found == [(TODAY + 30, 2), (TODAY + 31, 2), (TODAY + 32, 2)]

    def test_a_report_is_dropped_once_its_day_has_passed(
        self, client: Client, stub: Stub, clock: Clock
    ) -> None:
        first = client.report(RECORD)
        clock.now += 31 * DAY - 1
        stub.faults.append(Fault(503))
        assert client.send().waiting == 1
        clock.now += 1
        assert client.send() == Sent(expired=1)
        assert client.report(RECORD) == first
        assert len(stub.uploads) == 1

    def test_what_the_collector_calls_expired_is_dropped(self, client: Client, stub: Stub) -> None:
        client.report(RECORD)
        stub.today = TODAY + 31
        assert client.send() == Sent(expired=1)
        assert client.send() == Sent()

    def test_another_page_that_is_gone_drops_nothing(self, client: Client, stub: Stub) -> None:
        client.report(RECORD)
        stub.faults.append(Fault(410))
        with pytest.raises(UploadError, match="410"):
            client.send()
        assert client.send().accepted == 1

    def test_a_clock_that_goes_backwards_makes_no_report(
        self, client: Client, stub: Stub, clock: Clock
    ) -> None:
        first = client.report(RECORD, round="1")
        clock.now -= 2 * DAY
        with pytest.raises(StoreError, match=r"gone back by 2 days.*accept_clock"):
            client.report(RECORD, round="2")
        assert client.spent().studies[0].rounds == 1
        assert client.report(RECORD, round="1") == first
        assert client.send() == Sent(accepted=1)
        client.accept_clock()
        client.report(RECORD, round="2")
        assert client.send().accepted == 1

    def test_a_day_of_difference_is_forgiven(self, client: Client, clock: Clock) -> None:
        client.report(RECORD, round="1")
        clock.now -= DAY
        client.report(RECORD, round="2")

    def test_a_clock_that_goes_backwards_does_not_stretch_the_wait(
        self, client: Client, stub: Stub, clock: Clock
    ) -> None:
        client.report(RECORD)
        stub.faults.append(Fault(503, headers={"Retry-After": "1000"}))
        client.send()
        clock.now -= 400 * DAY
        assert client.send() == Sent(accepted=1)


class TestPrograms:
    def test_a_study_needs_no_digest(self, tmp_path: Path) -> None:
        study = sf.Study("ages", [sf.integers("age", 0, 9, protect=sf.Distance(1))])
        with Client(study, folder=tmp_path) as client:
            assert client.program.fingerprint == study.fingerprint
        with pytest.raises(sf.MismatchError, match="pinned"):
            Client(study, folder=tmp_path, digest="0" * 64)

    def test_a_program_text_or_file_needs_one(self, program: Program, tmp_path: Path) -> None:
        file = tmp_path / "program.json"
        file.write_text(program.to_text(), encoding="utf-8")
        text = program.to_text()
        for given in (program, text, text.encode(), file, str(file)):
            with pytest.raises(sf.MismatchError, match="digest="):
                Client(given, folder=tmp_path / "home")
            with pytest.raises(sf.MismatchError, match="pinned"):
                Client(given, folder=tmp_path / "home", digest="0" * 64)
            Client(given, folder=tmp_path / "home", digest=program.digest).close()

    def test_a_newer_program_is_refused(self, program: Program, tmp_path: Path) -> None:
        document = json.loads(program.to_text()) | {"version": 2}
        digest = digest_of(document)
        text = canonical(document | {"digest": digest})
        with pytest.raises(sf.FormatError, match="version"):
            Client(text, folder=tmp_path / "home", digest=digest)
        assert not (tmp_path / "home").exists()

    def test_an_edited_program_is_refused(self, program: Program, tmp_path: Path) -> None:
        document = json.loads(program.to_text()) | {"name": "weaker"}
        with pytest.raises(sf.MismatchError, match="edited"):
            Client(canonical(document), folder=tmp_path, digest=program.digest)
        own = document | {"digest": digest_of(document)}
        with pytest.raises(sf.MismatchError, match="pinned"):
            Client(canonical(own), folder=tmp_path, digest=program.digest)

    @pytest.mark.parametrize("given", [7, None, ["a"]])
    def test_something_else_is_refused(self, given: object, tmp_path: Path) -> None:
        with pytest.raises(sf.StudyError, match="a study or a device program"):
            Client(given, folder=tmp_path)  # type: ignore[arg-type]

    def test_a_file_that_is_not_there_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(sf.FormatError, match="cannot read"):
            Client(tmp_path / "none.json", folder=tmp_path, digest="0" * 64)


def everything(folder: Path) -> bytes:
    """All bytes in all files of a folder."""
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


@pytest.mark.slow
def test_the_client_loads_no_heavy_library(program: Program, tmp_path: Path) -> None:
    (tmp_path / "program.json").write_text(program.to_text(), encoding="utf-8")
    code = f"""
import sys
from sfumato.device.client import Client
with Client("program.json", folder="home", digest="{program.digest}") as client:
    client.report({RECORD!r})
    client.spent()
print(*sys.modules)"""
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert {name.partition(".")[0] for name in found.stdout.split()} & HEAVY == set()
