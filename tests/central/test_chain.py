"""One writer of a ledger at a time, whoever dies, and entries that are there or not."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
import threading
from fractions import Fraction
from pathlib import Path

import pytest
from helpers_ledger import kills_apart

import sfumato as sf
from sfumato import central
from sfumato.central import chain

STUDY = sf.Study("ages", [sf.integers("age", 0, 9, protect=sf.Distance("1/2"))])

HOLDER = """
import sys
from pathlib import Path
from sfumato.central.chain import locked

with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "WAIT_SECONDS", 0.05)


@pytest.fixture
def ledger(tmp_path: Path) -> central.Ledger:
    return central.Ledger.create(tmp_path / "ages.ledger", STUDY)


def reserve(ledger: central.Ledger, spend: str = "1/4") -> central.Entry:
    return ledger.reserve(spend, mechanism="a test", people=10)


def beside(file: Path) -> list[str]:
    """What else is in the folder of a file."""
    return sorted(other.name for other in file.parent.iterdir() if other != file)


class TestOneWriterAtATime:
    def test_a_writer_that_is_killed_keeps_nobody_waiting(self, ledger: central.Ledger) -> None:
        """The twin comes first: as long as it lives, it does."""
        with subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(ledger.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as holder:
            try:
                assert holder.stdout is not None
                assert holder.stdout.readline() == "held\n"
                with pytest.raises(sf.LedgerError, match="another writer has held"):
                    reserve(ledger)
                assert ledger.remaining == 1
            finally:
                holder.kill()
        assert holder.returncode < 0
        reserve(ledger)
        assert central.Ledger.load(ledger.path).remaining == Fraction(3, 4)

    def test_a_lock_that_is_held_is_named_with_the_rule_and_what_to_do(
        self, ledger: central.Ledger
    ) -> None:
        words = r"ages\.ledger' for 0\.05 seconds, and only one at a time.*try again when"
        with chain.locked(ledger.path), pytest.raises(sf.LedgerError, match=words) as caught:
            reserve(ledger)
        assert "remove" not in str(caught.value)
        reserve(ledger)

    def test_threads_of_one_process_exclude_each_other(self, ledger: central.Ledger) -> None:
        held, done = threading.Event(), threading.Event()

        def hold() -> None:
            with chain.locked(ledger.path):
                held.set()
                done.wait(10)

        thread = threading.Thread(target=hold)
        thread.start()
        assert held.wait(10)
        other = central.Ledger.load(ledger.path)
        with pytest.raises(sf.LedgerError, match="another writer"):
            reserve(other)
        done.set()
        thread.join()
        reserve(other)

    def test_a_lock_is_waited_for(
        self, ledger: central.Ledger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(chain, "WAIT_SECONDS", 10.0)
        begun, freed = threading.Event(), threading.Event()

        def wait() -> None:
            begun.set()
            reserve(ledger)
            assert freed.is_set()

        thread = threading.Thread(target=wait)
        with chain.locked(ledger.path):
            thread.start()
            assert begun.wait(10)
            thread.join(0.1)
            assert thread.is_alive()
            freed.set()
        thread.join(10)
        assert ledger.remaining == Fraction(3, 4)

    def test_who_holds_it_is_refused_like_all_others(self, ledger: central.Ledger) -> None:
        with (
            chain.locked(ledger.path),
            pytest.raises(sf.LedgerError, match="for 0 seconds"),
            chain.locked(ledger.path, wait=0),
        ):
            pass


class TestTheLockIsOnTheFileItself:
    def test_nothing_is_left_beside_a_ledger(self, ledger: central.Ledger) -> None:
        reserve(ledger)
        assert beside(ledger.path) == []

    def test_a_lock_deleted_under_its_holder_lets_nobody_in(self, ledger: central.Ledger) -> None:
        """Whatever is beside the ledger may go: the lock is not there."""
        with chain.locked(ledger.path):
            for name in beside(ledger.path):
                ledger.path.with_name(name).unlink()
            with pytest.raises(sf.LedgerError, match="another writer"):
                reserve(central.Ledger.load(ledger.path), "9/10")
        reserve(ledger, "9/10")
        assert ledger.remaining == Fraction(1, 10)

    @pytest.mark.parametrize("how", ["removed", "restored", "replaced"])
    def test_a_ledger_deleted_under_its_holder_is_noticed(
        self, ledger: central.Ledger, monkeypatch: pytest.MonkeyPatch, how: str
    ) -> None:
        """Of two reserves of 9/10 at most one is granted, and only if the ledger holds it."""
        copy = ledger.path.with_name("copy")
        check = central.Ledger.check

        def meanwhile(self: central.Ledger, spend: str) -> object:
            monkeypatch.setattr(central.Ledger, "check", check)
            copy.write_bytes(ledger.path.read_bytes())
            ledger.path.unlink()
            if how != "removed":
                copy.replace(ledger.path)
            if how == "replaced":
                reserve(central.Ledger.load(ledger.path), "9/10")
            return check(self, spend)

        monkeypatch.setattr(central.Ledger, "check", meanwhile)
        with pytest.raises(sf.LedgerError, match=r"ages\.ledger' was removed or replaced"):
            reserve(ledger, "9/10")
        if how != "removed":
            spent = 1 - central.Ledger.load(ledger.path).remaining
            assert spent == (Fraction(9, 10) if how == "replaced" else 0)

    def test_who_waited_for_a_file_that_was_replaced_takes_the_new_one(
        self, ledger: central.Ledger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        copy = ledger.path.with_name("copy")
        copy.write_bytes(ledger.path.read_bytes())
        flock = fcntl.flock

        def once(handle: int, how: int) -> None:
            monkeypatch.setattr(fcntl, "flock", flock)
            copy.replace(ledger.path)
            flock(handle, how)

        monkeypatch.setattr(fcntl, "flock", once)
        reserve(ledger)
        assert central.Ledger.load(ledger.path).remaining == Fraction(3, 4)

    def test_a_lock_file_of_an_earlier_version_is_in_nobodys_way(
        self, ledger: central.Ledger
    ) -> None:
        lock = ledger.path.with_name("ages.ledger.lock")
        lock.write_text("of an earlier version", encoding="utf-8")
        reserve(ledger)
        assert lock.read_text(encoding="utf-8") == "of an earlier version"

    def test_a_ledger_that_is_read_is_not_locked(self, ledger: central.Ledger) -> None:
        with chain.locked(ledger.path):
            assert central.Ledger.load(ledger.path).remaining == 1

    def test_a_file_that_is_no_ledger_stays_as_it_is(self, tmp_path: Path) -> None:
        (tmp_path / "people.csv").touch()
        with pytest.raises(sf.LedgerError, match="already"):
            central.Ledger.create(tmp_path / "people.csv", STUDY)
        assert (tmp_path / "people.csv").read_bytes() == b""
        assert beside(tmp_path / "people.csv") == []

    def test_a_folder_that_is_not_there_is_not_made(self, tmp_path: Path) -> None:
        with pytest.raises(sf.LedgerError, match=r"no folder '.*nowhere/deep'; make it first"):
            central.Ledger.create(tmp_path / "nowhere" / "deep" / "ages.ledger", STUDY)
        assert not any(tmp_path.iterdir())

    @pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM, errno.EROFS])
    def test_a_folder_that_may_not_be_written_is_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
    ) -> None:
        """By the system's answer, which a test that runs as root would never hear."""
        real = os.open

        def denied(path: str, flags: int, *rest: int, **more: int) -> int:
            if flags & os.O_ACCMODE != os.O_RDONLY:
                raise OSError(code, os.strerror(code), path)
            return real(path, flags, *rest, **more)

        monkeypatch.setattr(os, "open", denied)
        words = rf"cannot write '.*ages\.ledger' \({os.strerror(code)}\).*in the folder '.*'"
        with pytest.raises(sf.LedgerError, match=words):
            central.Ledger.create(tmp_path / "ages.ledger", STUDY)
        assert not any(tmp_path.iterdir())

    @pytest.mark.parametrize("code", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
    def test_a_file_system_without_locks_is_refused_and_not_made_do_with(
        self, ledger: central.Ledger, monkeypatch: pytest.MonkeyPatch, code: int
    ) -> None:
        before = ledger.path.read_bytes()

        def unknown(*_: object) -> None:
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(fcntl, "flock", unknown)
        with pytest.raises(sf.LedgerError, match=r"knows no locks.*such as a local disk"):
            reserve(ledger)
        assert ledger.path.read_bytes() == before

    def test_so_is_a_system_without_locks(
        self, ledger: central.Ledger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(chain, "fcntl", None)
        with pytest.raises(sf.LedgerError, match=r"knows no locks.*Linux or macOS"):
            reserve(ledger)
        assert central.Ledger.load(ledger.path).remaining == 1


class TestModes:
    @pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o666])
    def test_a_ledger_keeps_its_mode(self, ledger: central.Ledger, mode: int) -> None:
        ledger.path.chmod(mode)
        reserve(ledger)
        assert ledger.path.stat().st_mode & 0o7777 == mode

    def test_a_read_only_ledger_is_not_written(self, ledger: central.Ledger) -> None:
        ledger.path.chmod(0o444)
        before = ledger.path.read_bytes()
        with pytest.raises(
            sf.LedgerError, match=r"cannot write '.*ages\.ledger' \(it is read-only"
        ):
            reserve(ledger)
        assert (ledger.path.read_bytes(), ledger.remaining) == (before, 1)
        assert ledger.path.stat().st_mode & 0o7777 == 0o444


class TestWritesThatBreakOff:
    @pytest.mark.parametrize("step", [1, 2])
    def test_a_file_that_cannot_be_written_stays_as_it_was(
        self, ledger: central.Ledger, monkeypatch: pytest.MonkeyPatch, step: int
    ) -> None:
        """The event, or the length after it, does not reach the disk."""
        before = ledger.path.read_bytes()
        fsync, left = os.fsync, [step]

        def full(handle: int) -> None:
            left[0] -= 1
            if not left[0]:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            fsync(handle)

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            with pytest.raises(sf.LedgerError, match=r"cannot write '.*ages\.ledger' \(No space"):
                reserve(ledger)
        assert (ledger.path.read_bytes(), ledger.remaining) == (before, 1)
        assert beside(ledger.path) == []
        reserve(ledger)

    def test_an_event_that_was_cut_anywhere_is_cut_off_by_the_next_writer(
        self, ledger: central.Ledger
    ) -> None:
        """Before the length is raised, nothing has been released."""
        before = ledger.path.read_bytes()
        reserve(ledger)
        top = before.index(b"\n") + 1
        line = ledger.path.read_bytes()[len(before) :]
        for size in range(len(line)):
            ledger.path.write_bytes(before + line[:size])
            assert central.Ledger.load(ledger.path).remaining == 1
        reserve(ledger, "1/8")
        again = central.Ledger.load(ledger.path)
        assert [entry.spend.share for entry in again.entries] == [Fraction(1, 8)]
        assert ledger.path.read_bytes()[top:].startswith(before[top:])

    def test_a_whole_event_beyond_the_length_counts(self, ledger: central.Ledger) -> None:
        """Its writer was killed before it raised the length, or its disk lost that."""
        before = ledger.path.read_bytes()
        reserve(ledger)
        top = before.index(b"\n") + 1
        ledger.path.write_bytes(before[:top] + ledger.path.read_bytes()[top:])
        read = central.Ledger.load(ledger.path)
        assert read.remaining == Fraction(3, 4)
        reserve(read)
        assert central.Ledger.load(ledger.path).remaining == Fraction(1, 2)

    def test_a_file_that_lost_any_part_of_its_end_is_refused(self, ledger: central.Ledger) -> None:
        reserve(ledger)
        reserve(ledger)
        whole = ledger.path.read_bytes()
        ends = [place + 1 for place, byte in enumerate(whole[:-1]) if byte == ord("\n")]
        for size in {*range(0, len(whole), 7), len(whole) - 1, *ends}:
            ledger.path.write_bytes(whole[:size])
            with pytest.raises(sf.FormatError):
                central.Ledger.load(ledger.path)

    def test_short_writes_are_completed(
        self, ledger: central.Ledger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pwrite = os.pwrite
        monkeypatch.setattr(os, "pwrite", lambda h, data, at: pwrite(h, data[:5], at))
        reserve(ledger)
        assert central.Ledger.load(ledger.path).remaining == Fraction(3, 4)


@pytest.mark.slow
def test_writers_killed_at_any_point_overspend_damage_and_leave_nothing(
    tmp_path: Path, seed: int
) -> None:
    """Eight at once, as `make soak` does 500 times; its twins show what this would find."""
    found = kills_apart(tmp_path, seed, 24)
    assert found["violations"] == []
    assert found["killed"] >= 24


def test_two_names_are_one_ledger(ledger: central.Ledger) -> None:
    """Of a file that is written in place, a hard link is no copy."""
    other = ledger.path.with_name("other.ledger")
    os.link(ledger.path, other)
    reserve(ledger, "3/4")
    with pytest.raises(sf.LedgerError, match="1/4 of E left"):
        reserve(central.Ledger.load(other), "1/2")


class TestLedgersOfFormatOne:
    """Files of earlier versions, which were replaced as a whole."""

    @pytest.fixture
    def old(self, tmp_path: Path) -> Path:
        head = {
            "kind": "sfumato ledger",
            "format": 1,
            "study": STUDY.to_toml(),
            "fingerprint": STUDY.fingerprint,
            "total": 1,
        }
        event = chain.seal(
            chain.start(head),
            {
                "event": "reserve",
                "id": 1,
                "time": "2026-01-01T00:00:00Z",
                "mechanism": "a test",
                "spend": {"share": 0.25},
                "people": 10,
            },
        )
        file = tmp_path / "old.ledger"
        document = {**head, "events": [event], "last": event["digest"]}
        file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        file.chmod(0o640)
        return file

    def test_they_go_on_in_the_new_form(self, old: Path) -> None:
        ledger, other = central.Ledger.load(old), central.Ledger.load(old)
        assert json.loads(old.read_text(encoding="utf-8"))["format"] == 1  # read, and not changed
        assert ledger.settle(1).state == "released"
        assert b'"format": 2' in old.read_bytes().splitlines()[0]
        assert (old.stat().st_mode & 0o7777, beside(old)) == (0o640, [])
        reserve(other, "1/2")
        again = central.Ledger.load(old)
        assert [entry.state for entry in again.entries] == ["released", "reserved"]
        assert again.remaining == Fraction(1, 4)

    def test_an_older_copy_under_a_ledger_in_use_is_noticed(self, old: Path) -> None:
        copy = old.with_name("copy")
        copy.write_bytes(old.read_bytes())
        ledger = central.Ledger.load(old)
        reserve(ledger)
        copy.replace(old)
        with pytest.raises(sf.LedgerError, match="replaced by a copy that an earlier version made"):
            reserve(ledger)

    def test_one_of_two_names_is_not_replaced(self, old: Path) -> None:
        os.link(old, old.with_name("other.ledger"))
        before = old.read_bytes()
        with pytest.raises(sf.LedgerError, match=r"2 names \(hard links\).*Remove the other names"):
            reserve(central.Ledger.load(old))
        assert old.read_bytes() == before

    def test_a_release_reads_nothing_before_it_is_refused(self, old: Path) -> None:
        os.link(old, old.with_name("other.ledger"))
        data = central.Data(STUDY, {"age": [1, 2, 3]})
        ledger = central.Ledger.load(old)
        with pytest.raises(sf.LedgerError, match="hard links"):
            central.release(data, central.Laplace("identity"), spend="1/4", ledger=ledger)
        assert len(central.Ledger.load(old).entries) == 1
