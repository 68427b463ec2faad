"""The device's file: durable, private to its account, and strict about what it opens."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from fractions import Fraction
from pathlib import Path

import pytest
from helpers_kill import FINGERPRINT, Random

import sfumato as sf
from sfumato.device import memory as module
from sfumato.device.client import Client
from sfumato.device.memory import FILE, Memory
from sfumato.errors import StoreError


def opened(folder: Path, fingerprint: str = FINGERPRINT, digest: str = "cd" * 32) -> Memory:
    return Memory(folder, fingerprint=fingerprint, digest=digest, name="s", most=Fraction(1))


def queue(memory: Memory, name: str, report: bytes = b"r", person: str = "") -> bytes:
    memory.charge(name, [person], None)
    return memory.keep(name, {person: report}, 20_000)[person]


def test_the_files_are_open_to_their_own_account_only(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        opened(tmp_path / "a" / "home").close()
    finally:
        os.umask(old)
    assert (tmp_path / "a" / "home").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "a" / "home" / FILE).stat().st_mode & 0o777 == 0o600
    (tmp_path / "a" / "home" / FILE).chmod(0o664)
    opened(tmp_path / "a" / "home").close()
    assert (tmp_path / "a" / "home" / FILE).stat().st_mode & 0o777 == 0o600


def test_what_is_written_is_on_the_disk(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    assert memory._connection is not None
    assert memory._connection.execute("PRAGMA synchronous").fetchone() == (3,)
    memory.close()


def test_the_first_report_of_a_round_stays(tmp_path: Path) -> None:
    first, second = opened(tmp_path), opened(tmp_path)
    first.charge("1", [""], None)
    second.charge("1", [""], None)  # as two processes may, both before a report is made
    assert first.keep("1", {"": b"a"}, 20_000) == {"": b"a"}
    assert second.keep("1", {"": b"b"}, 20_000) == {"": b"a"}
    assert len(second.due(9)) == 1
    assert first.accounts("")[0].rounds == 1
    first.close()
    second.close()


def test_threads_make_one_report_per_round(tmp_path: Path) -> None:
    found: list[tuple[str, bytes]] = []
    with Client(Random(), folder=tmp_path) as client:

        def work() -> None:
            found.extend((str(k), client.report({}, round=str(k))) for k in range(10))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 40
        assert len(set(found)) == 10
        assert client.spent().studies[0].rounds == 10


def test_the_queue_of_another_study_is_kept_apart(tmp_path: Path) -> None:
    mine, other = opened(tmp_path), opened(tmp_path, fingerprint="ef" * 32)
    queue(mine, "1", b"mine")
    queue(other, "1", b"other")
    assert [held.report for held in mine.due(9)] == [b"mine"]
    mine.settle(mine.due(9))
    assert mine.expire(99_999) == 0
    assert other.waiting() == 1
    assert [account.rounds for account in other.accounts("")] == [1, 1]
    mine.close()
    other.close()


def test_a_settled_batch_of_another_study_changes_nothing(tmp_path: Path) -> None:
    mine, other = opened(tmp_path), opened(tmp_path, fingerprint="ef" * 32)
    queue(other, "1")
    mine.settle(other.due(9))
    assert other.waiting() == 1
    mine.close()
    other.close()


def test_another_program_of_the_same_study_is_refused(tmp_path: Path) -> None:
    opened(tmp_path).close()
    with pytest.raises(sf.MismatchError, match="cdcdcdcdcdcd, and the one given is 000000000000"):
        opened(tmp_path, digest="0" * 64)


def test_a_report_that_was_never_charged_is_not_kept(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    with pytest.raises(StoreError, match="no longer charged"):
        memory.keep("1", {"": b"r"}, 20_000)
    memory.close()


def test_persons_have_rounds_and_accounts_of_their_own_and_one_queue(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    for person, rounds in (("", 1), ("Ann", 2), ("Bob", 3)):
        for name in map(str, range(rounds)):
            queue(memory, name, f"{person}{name}".encode(), person)
    found = {person: memory.accounts(person)[0].rounds for person in ("", "Ann", "Bob", "Cem")}
    assert found == {"": 1, "Ann": 2, "Bob": 3, "Cem": 0}
    assert memory.stored("1", ["", "Ann", "Bob", "Cem"]) == {"Ann": b"Ann1", "Bob": b"Bob1"}
    assert len(memory.due(99)) == memory.waiting() == 6
    memory.settle(memory.due(4))
    assert memory.states() == {"queued": 2, "sent": 4}
    memory.close()


def test_one_person_beyond_the_limit_charges_nobody(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    queue(memory, "1", person="Bob")
    with pytest.raises(sf.LedgerError, match="one more report costs E = 1"):
        memory.charge("2", ["Ann", "Bob", "Cem"], Fraction(1))
    assert memory.states() == {"queued": 1}
    memory.charge("2", ["Ann", "Cem"], Fraction(1))
    assert memory.states() == {"queued": 1, "charged": 2}
    memory.close()


def test_a_queue_of_any_length_is_searched_by_its_index(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    seen: list[str] = []
    assert memory._connection is not None
    queue(memory, "1")
    memory._connection.set_trace_callback(seen.append)
    memory.settle(memory.due(9))
    memory._connection.set_trace_callback(None)
    plans = [
        str(row[3])
        for statement in seen
        if "rounds" in statement
        for row in memory._connection.execute(f"EXPLAIN QUERY PLAN {statement}")
    ]
    memory.close()
    assert len(plans) >= 3
    assert not [plan for plan in plans if "SCAN rounds" in plan or "TEMP B-TREE" in plan]
    assert "expires=? AND id=?" in plans[-1]


class TestFiles:
    def test_a_newer_one_is_refused(self, tmp_path: Path) -> None:
        opened(tmp_path).close()
        with sqlite3.connect(tmp_path / FILE) as database:
            database.execute("PRAGMA user_version = 2")
        database.close()
        with pytest.raises(sf.FormatError, match=r"version 2, newer .* update sfumato"):
            opened(tmp_path)

    def test_one_that_is_no_database_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / FILE).write_bytes(b"not a database " * 100)
        with pytest.raises(sf.FormatError, match="not a database"):
            opened(tmp_path)

    def test_the_database_of_another_program_is_refused(self, tmp_path: Path) -> None:
        with sqlite3.connect(tmp_path / FILE) as database:
            database.execute("CREATE TABLE a (b)")
        database.close()
        with pytest.raises(sf.FormatError, match="another program"):
            opened(tmp_path)

    @pytest.mark.parametrize(
        "edit",
        [
            "DROP TABLE rounds",
            "UPDATE studies SET most = 'much'",
            "UPDATE rounds SET report = NULL",
            "UPDATE rounds SET report = 'text'",
            "UPDATE rounds SET id = 7",
            "UPDATE facts SET value = 'text'",
        ],
    )
    def test_an_edited_one_is_refused(self, edit: str, tmp_path: Path) -> None:
        memory = opened(tmp_path)
        queue(memory, "1")
        memory.see_day(20_000)
        memory.close()
        with sqlite3.connect(tmp_path / FILE) as database:
            database.execute(edit)
        database.close()

        def use() -> None:
            memory = opened(tmp_path)
            try:
                memory.stored("1", [""])
                memory.accounts("")
                memory.due(9)
                memory.see_day(20_000)
            finally:
                memory.close()

        with pytest.raises(sf.FormatError, match="damaged or has been edited"):
            use()

    def test_one_that_a_killed_process_left_empty_is_filled(self, tmp_path: Path) -> None:
        (tmp_path / FILE).touch()
        memory = opened(tmp_path)
        assert queue(memory, "1") == b"r"
        memory.close()

    def test_a_read_only_one_is_refused(self, tmp_path: Path) -> None:
        opened(tmp_path).close()
        (tmp_path / FILE).chmod(0o400)
        with pytest.raises(StoreError, match="read-only, mode 0400"):
            opened(tmp_path)

    def test_a_folder_that_is_a_file_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "home").touch()
        with pytest.raises(StoreError, match="cannot write"):
            opened(tmp_path / "home")

    def test_another_process_that_holds_it_is_waited_for_and_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "WAIT_SECONDS", 0.05)
        memory = opened(tmp_path)
        holder = sqlite3.connect(tmp_path / FILE, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="another process"):
            memory.charge("1", [""], None)
        holder.execute("ROLLBACK")
        holder.close()
        memory.charge("1", [""], None)
        memory.close()

    def test_a_closed_one_says_so(self, tmp_path: Path) -> None:
        memory = opened(tmp_path)
        memory.close()
        memory.close()
        with pytest.raises(StoreError, match="closed"):
            memory.accounts("")


FULL = """
import resource, sys
sys.path.insert(0, sys.argv[2])
from helpers_kill import Random
from sfumato.device import client, memory
from sfumato.errors import StoreError

def room(most):
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))

class Filling(Random):
    def encode(self, record, *, words=None):
        if step == "keep":
            room(512)
        return super().encode(record)

with client.Client(Filling(), folder=sys.argv[1]) as held:
    step = ""
    first = held.report({}, round="before")
    for step, charged in (("charge", 1), ("keep", 2)):
        room(512 if step == "charge" else resource.RLIM_INFINITY)
        try:
            held.report({}, round="full")
        except StoreError as error:
            assert "cannot write" in str(error) and "room on its disk" in str(error), error
        else:
            raise SystemExit("no error")
        room(resource.RLIM_INFINITY)
        assert held.spent().studies[0].rounds == charged
        assert held._memory.waiting() == 1
    step = ""
    made = held.report({}, round="full")
    assert held.spent().studies[0].rounds == 2
    assert sorted(one.report for one in held._memory.due(9)) == sorted([first, made])
print("done")
"""


@pytest.mark.slow
def test_a_full_disk_makes_no_report_and_charges_at_most_once(tmp_path: Path) -> None:
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", FULL, str(tmp_path), here]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.stdout == "done\n", found.stderr


RACE = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from helpers_kill import Random
from sfumato.device import client, memory
from sfumato.errors import LedgerError

folder, number, apart = Path(sys.argv[1]), sys.argv[3], sys.argv[4] == "apart"
charge = memory.Memory.charge

def meet(what):
    (folder / f"{what} of {number}").touch()
    while len(list(folder.glob(f"{what} of *"))) < 3:
        time.sleep(0.001)

def in_two_steps(self, name, persons, limit, *, enter=True):
    charge(self, name, persons, limit, enter=False)
    if enter:
        meet(f"look at {name.split()[-1]}")
        charge(self, name, persons, None)

if apart:
    memory.Memory.charge = in_two_steps
with client.Client(Random(), folder=folder, limit=5) as held:
    meet("start")
    try:
        for k in range(40):
            held.report({}, round=f"{number} {k}")
    except LedgerError:
        pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("apart", [False, True])
def test_processes_that_race_keep_the_limit_of_their_person(apart: bool, tmp_path: Path) -> None:
    """Ten rounds of ½ are within 5. The twin looks at the limit in one transaction and charges in
    the next: all three processes find nine rounds at most when they look for their fourth time."""
    command = [sys.executable, "-c", RACE, str(tmp_path), str(Path(__file__).parent)]
    ways = [[f"process {k}", "apart" if apart else "as it is"] for k in range(3)]
    running = [subprocess.Popen([*command, *way]) for way in ways]
    assert [each.wait(60) for each in running] == [0, 0, 0]
    with Client(Random(), folder=tmp_path) as held:
        rounds = held.spent().studies[0].rounds
    assert rounds == (12 if apart else 10)
