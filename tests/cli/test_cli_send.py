"""The command send: every person in a file reports once, and the collector gets all of it."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from stub import Fault, Stub
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli import app, people
from sfumato.device.memory import FILE

Send = Callable[..., Result]
# With an E this large a report is its value.
AXES = [
    sf.integers("age", 0, 99, protect=sf.Distance(60)),
    sf.categories("mode", ["car", "bus", "bike"], protect=sf.Uniform(60), optional=True),
]


@pytest.fixture
def study(tmp_path: Path) -> sf.Study:
    """A study, its file and its program."""
    made = sf.Study("trips", AXES)
    made.save(tmp_path / "trips.toml")
    program = made.device_program().to_text()
    (tmp_path / "trips.json").write_text(program, encoding="utf-8")
    return made


@pytest.fixture
def stub(study: sf.Study) -> Iterator[Stub]:
    program = study.device_program()
    with Stub(program.fingerprint, program.report_size) as running:
        yield running


@pytest.fixture
def send(tmp_path: Path, stub: Stub, monkeypatch: pytest.MonkeyPatch) -> Send:
    """Run the command in the folder, with the stub as its collector."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SFUMATO_TOKEN", raising=False)
    (tmp_path / "people.csv").write_text(table([("Ann", "31", "bike"), ("Bob", "44", "")]))

    def run(*words: str, study: str = "trips.toml", file: str = "people.csv", code: int = 0) -> Any:
        given = ["send", study, file, "--url", stub.url, "--folder", "home", *words]
        found = CliRunner().invoke(app, given)
        assert found.exit_code == code, found.output
        return found

    return run


def table(rows: list[tuple[str, str, str]], header: str = "name,age,mode") -> str:
    """A CSV file."""
    return "\n".join([header, *(",".join(row) for row in rows)]) + "\n"


def received(study: sf.Study, stub: Stub) -> list[tuple[int, int]]:
    """What the collector has stored: the age and the mode of each report, sorted."""
    layout = study.device_program().layout
    return sorted(layout.unpack(report) for report in stub.stored.values())  # type: ignore[misc]


def words(found: Result) -> str:
    """What was said, without line breaks."""
    return " ".join(found.output.split())


def test_every_person_reports_once_whatever_happens_later(
    send: Send, study: sf.Study, stub: Stub, tmp_path: Path
) -> None:
    first = send("--person", "name", "--round", "1")
    assert "Made 2 reports of study 'trips'." in first.output
    assert "The collector has stored 2 reports." in first.output
    assert received(study, stub) == [(31, 2), (44, 3)]
    people = [("Cem", "7", "car"), ("Bob", "45", "bus"), ("Ann", "32", "")]
    (tmp_path / "people.csv").write_text(table(people))
    again = json.loads(send("--person", "name", "--round", "1", "--json").output)
    assert again == {
        "study": "trips", "fingerprint": study.fingerprint, "round": "1", "people": 3, "made": 1,
        "remembered": 2, "accepted": 1, "repeated": 0, "refused": 0, "expired": 0, "waiting": 0,
        "retry_after": None, "reason": "",
    }  # fmt: skip
    assert received(study, stub) == [(7, 0), (31, 2), (44, 3)]
    send("--person", "name", "--round", "2")
    assert len(stub.stored) == 6


def test_the_row_number_stands_for_the_person(send: Send, study: sf.Study, stub: Stub) -> None:
    assert "Made 2 reports" in send("--round", "1").output
    assert "Made 0 reports of study 'trips'; 2 had been made before." in words(send("--round", "1"))
    assert "Made 2 reports" in send("--round", "2").output
    assert len(stub.stored) == 4


def test_a_program_with_its_digest_does_as_well(send: Send, study: sf.Study, stub: Stub) -> None:
    digest = study.device_program().digest
    assert "--digest" in words(send(study="trips.json", code=2))
    assert "pinned" in words(send("--digest", "0" * 64, study="trips.json", code=2))
    assert stub.uploads == []
    send("--digest", digest, study="trips.json")
    assert received(study, stub) == [(31, 2), (44, 3)]
    assert "pinned" in words(send("--digest", "0" * 64, code=2))


def test_a_compressed_file_is_read(send: Send, stub: Stub, tmp_path: Path) -> None:
    data = (tmp_path / "people.csv").read_bytes()
    (tmp_path / "people.csv.gz").write_bytes(gzip.compress(data))
    send(file="people.csv.gz")
    assert len(stub.stored) == 2


def test_no_person_or_value_is_sent_and_no_value_is_kept(
    send: Send, stub: Stub, tmp_path: Path
) -> None:
    (tmp_path / "people.csv").write_text(table([("Ann-Marie", "31", "bike")]))
    seen: list[bytes] = []
    answer = stub.answer

    def noted(path: str, headers: dict[str, str], data: bytes) -> Fault:
        seen.append(path.encode() + repr(headers).encode() + data)
        return answer(path, headers, data)

    stub.answer = noted  # type: ignore[method-assign]
    send("--person", "name", "--round", "May-2026")
    assert len(seen) == 1
    assert not [word for word in (b"Ann", b"bike", b"May-2026") if word in seen[0]]
    kept = (tmp_path / "home" / FILE).read_bytes()
    assert b"Ann-Marie" in kept  # the search finds what is there
    assert b"bike" not in kept


class TestFilesThatAreRefused:
    @pytest.mark.parametrize(
        ("row", "reason"),
        [
            (("Cem", "x77", "car"), "99, but 1 value is not written as such (row 3)"),
            (("Cem", "77.5", "car"), "99, but 1 value is not written as such (row 3)"),
            (("Cem", "770", "car"), "numbers from 0 to 99, but 1 value is something else (row 3)"),
            (("Cem", "", "car"), "axis 'age' must have an answer in every row, but row 3 has none"),
            (("Cem", "7", "tram77"), "takes one of 3 labels, but 1 value is something else (row 3"),
            (("Ann", "7", "car"), "must name every person once, and row 3 does not"),
            (("", "7", "car"), "must say in every row who it is about, and row 3 does not"),
            (("x" * 2_000, "7", "car"), "1,000 characters in every row, and row 3 does not"),
            (("Cem", "7", "car,77"), "row 3 has more or fewer"),
        ],
    )
    def test_one_bad_row_makes_and_sends_nothing_and_shows_no_cell(
        self, send: Send, stub: Stub, tmp_path: Path, row: tuple[str, str, str], reason: str
    ) -> None:
        (tmp_path / "people.csv").write_text(
            table([("Ann", "31", "bike"), ("Bob", "44", ""), row, ("Dee", "1", "")])
        )
        found = words(send("--person", "name", code=2))
        assert reason in found
        assert not [cell for cell in ("77", "Cem", "xxx", "Ann") if cell in found]
        assert stub.uploads == []
        assert not (tmp_path / "home").exists()

    def test_a_spent_limit_makes_and_sends_nothing(
        self, send: Send, stub: Stub, tmp_path: Path
    ) -> None:
        (tmp_path / "people.csv").write_text(table([("Bob", "44", "")]))
        send("--person", "name", "--round", "1", "--limit", "6000")
        (tmp_path / "people.csv").write_text(table([("Ann", "31", ""), ("Bob", "44", "")]))
        found = words(send("--person", "name", "--round", "2", "--limit", "6000", code=2))
        assert "record 2 of 2, and so none is reported" in found
        assert len(stub.stored) == 1
        database = sqlite3.connect(tmp_path / "home" / FILE)
        assert database.execute("SELECT count(*) FROM rounds").fetchone() == (1,)
        database.close()

    @pytest.mark.parametrize(
        ("given", "reason"),
        [
            (["--person", "nome"], "must have a column 'nome', and has none: did you mean 'name'"),
            (["--person", "age"], "--person must not name an axis of the study, got 'age'"),
            (["--limit", "much"], "limit must be"),
            (["--limit", "-1"], "limit must be positive"),
            (["--wait", "-1"], "--wait must be zero or more seconds"),
            (["--token-file", "none"], "cannot read 'none'"),
        ],
    )
    def test_options_that_cannot_be_right(
        self, send: Send, stub: Stub, given: list[str], reason: str
    ) -> None:
        assert reason in words(send(*given, code=2))
        assert stub.uploads == []

    def test_files_of_other_kinds(self, send: Send) -> None:
        assert "must end in .csv or .csv.gz" in words(send(file="people.parquet", code=2))
        assert "must end in .toml or .json" in words(send(study="people.csv", code=2))
        assert "there is no file" in words(send(file="none.csv", code=2))

    def test_a_refusal_as_json_is_one_document(self, send: Send) -> None:
        assert "--wait" in json.loads(send("--wait", "-1", "--json", code=2).output)["error"]


class TestTheCollector:
    def test_a_busy_one_leaves_the_queue_for_the_next_run(self, send: Send, stub: Stub) -> None:
        stub.faults.append(Fault(503, headers={"Retry-After": "100"}))
        found = words(send(code=1))
        assert "Made 2 reports" in found
        assert "The collector has stored 0 reports." in found
        assert "2 reports waiting: the collector answered with status 503." in found
        assert "Run the command again in 100 seconds or later." in found
        waiting = json.loads(send("--json", code=1).output)
        assert (waiting["made"], waiting["remembered"], waiting["waiting"]) == (0, 2, 2)
        assert 90 < waiting["retry_after"] <= 100

    def test_it_is_tried_again_for_as_long_as_told(
        self, send: Send, stub: Stub, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sfumato.device.client.FIRST_WAIT", 0.01)
        stub.faults.extend([Fault(503, stores=True), Fault(0)])
        found = words(send("--wait", "20"))
        assert "2 reports had been stored before." in found
        assert len(stub.stored) == 2

    def test_what_it_refuses_is_said(self, send: Send, stub: Stub) -> None:
        stub.refuse = lambda report: "symbol"
        assert "2 reports refused for good." in words(send(code=1))
        assert "Nothing waits to be sent." in words(send())

    def test_what_has_expired_is_said(self, send: Send, stub: Stub) -> None:
        stub.today = 1 << 31
        assert "2 reports expired, and can no longer count." in words(send(code=1))

    def test_one_that_stops_it_keeps_the_queue(self, send: Send, stub: Stub) -> None:
        stub.faults.append(Fault(404))
        found = words(send(code=2))
        assert "Made 2 reports" in found
        assert "does not know this study" in found
        assert "all 2 reports stay in the queue" in found
        send()
        assert len(stub.stored) == 2

    def test_its_token_comes_from_a_file_or_the_environment(
        self, send: Send, stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stub.token = "sesame"
        assert "asks for a token" in words(send(code=2))
        (tmp_path / "token").write_text("sesame\n")
        send("--token-file", "token", "--round", "1")
        (tmp_path / "other").write_text("barley\n")
        monkeypatch.setenv("SFUMATO_TOKEN", "sesame")
        send("--round", "2")
        refused = words(send("--token-file", "other", "--round", "3", code=2))
        assert "barley" not in refused
        (tmp_path / "other").write_bytes(b"\xff")
        assert "printable ASCII" in words(send("--token-file", "other", code=2))


WEIRD = """
7| 7 |7.0|7.|+7|-0|1e1|0x7|nan|inf|-Infinity|100|\u0667|7_0|1e400|0.30000000000000004|0.3|é|a b| A
|A|a|1|2024-02-29| 2024-02-29 |2024-02-30|2024-02-29T10:00|2024-02-29 10:00:59.9|2024-02-29T10:00Z
|06:00|06:14:59.999|24:00|6:00|05:59|no answer||  """.replace("\n", "").split("|")
U = sf.Uniform(1)
KINDS: dict[str, Callable[..., Any]] = {
    "integers": lambda **o: sf.integers("x", -3, 40, protect=U, **o),
    "clipped": lambda **o: sf.integers("x", -3, 40, protect=U, outside="clip", **o),
    "reals": lambda **o: sf.reals("x", 0, 1, bins=10, protect=U, **o),
    "clipped reals": lambda **o: sf.reals("x", 0, 1, bins=10, protect=U, outside="clip", **o),
    "categories": lambda **o: sf.categories("x", ["é", "a b", "A", "1"], protect=U, **o),
    "dates": lambda **o: sf.dates("x", "2024-02-01", "2024-03-01", protect=U, **o),
    "times": lambda **o: sf.times("x", "06:00", "22:00", step="1 hour", protect=U, **o),
    "moments": lambda **o: sf.times(
        "x", "2024-02-28T00:00", "2024-03-02T00:00", step="1 hour", protect=U, **o
    ),
}


def code(read: Callable[[], Any]) -> int | None:
    """The code of the only value; None where it is refused, which names its row."""
    try:
        return int(read())
    except sf.DataError as refused:
        message = str(refused)
    assert "(row 1)" in message or "row 1 has none" in message
    return None


@pytest.mark.parametrize("optional", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_cells_mean_what_they_mean_to_encode(tmp_path: Path, kind: str, optional: bool) -> None:
    study = sf.Study("one", [KINDS[kind](optional=optional)])
    program = study.device_program()
    file = tmp_path / "one.csv"

    def alone() -> int:
        read = people.read_records(program, file, None, lambda done, total: None)
        return program.codes(read["row 1"])[0]

    found = []
    for cell in WEIRD:
        file.write_text(f'name,x\nAnn,"{cell}"\n', encoding="utf-8")
        found.append(code(alone))
        assert found[-1] == code(lambda: study._codes(people.read_table(file, ["x"]))[0][0]), cell
    assert 0 < sum(one is None for one in found) < len(WEIRD)


def test_a_long_file_is_made_in_chunks(send: Send, study: sf.Study, stub: Stub) -> None:
    rows = [(f"p{k}", str(k % 100), "car") for k in range(3_000)]
    Path("people.csv").write_text(table(rows))
    found = json.loads(send("--person", "name", "--json").output)
    assert (found["made"], found["accepted"]) == (3_000, 3_000)
    assert [len(ids) for _, ids, _ in stub.uploads] == [1_000] * 3
    assert received(study, stub) == sorted((k % 100, 0) for k in range(3_000))


def test_a_file_of_nobody_sends_what_waits(send: Send, stub: Stub, tmp_path: Path) -> None:
    stub.faults.append(Fault(404))
    send(code=2)
    (tmp_path / "people.csv").write_text("name,age,mode\n")
    assert "Made 0 reports" in send().output
    assert len(stub.stored) == 2
