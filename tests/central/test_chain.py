"""One writer of a ledger at a time, whoever dies, and one name for its file."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

import sfumato as sf
from sfumato import central
from sfumato.central import chain
from sfumato.central import ledger as module

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


def lock_of(ledger: central.Ledger) -> Path:
    return ledger.path.with_name(f"{ledger.path.name}.lock")


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
        assert lock_of(ledger).exists()
        reserve(ledger)
        assert central.Ledger.load(ledger.path).remaining == Fraction(3, 4)

    def test_a_lock_that_is_held_is_named_with_the_rule_and_what_to_do(
        self, ledger: central.Ledger
    ) -> None:
        words = r"ages\.ledger\.lock' for 0\.05 seconds, and only one at a time.*try again when"
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


class TestTheLockFile:
    def test_one_that_was_left_behind_is_in_nobodys_way(self, ledger: central.Ledger) -> None:
        lock = lock_of(ledger)
        lock.write_text("of an earlier version", encoding="utf-8")
        lock.chmod(0o755)
        reserve(ledger)
        assert lock.read_text(encoding="utf-8") == "of an earlier version"

    def test_a_ledger_that_is_only_read_has_none(self, ledger: central.Ledger) -> None:
        reserve(ledger)
        lock_of(ledger).unlink()
        read = central.Ledger.load(ledger.path)
        read.check("1/4")
        assert (str(read), read.remaining) == (str(ledger), Fraction(3, 4))
        assert [file.name for file in ledger.path.parent.iterdir()] == ["ages.ledger"]

    def test_a_file_that_is_no_ledger_gets_none(self, tmp_path: Path) -> None:
        (tmp_path / "people.csv").touch()
        with pytest.raises(sf.LedgerError, match="already"):
            central.Ledger.create(tmp_path / "people.csv", STUDY)
        assert [file.name for file in tmp_path.iterdir()] == ["people.csv"]

    @pytest.mark.parametrize(
        ("folder", "mode"),
        [(0o755, 0o600), (0o770, 0o660), (0o2775, 0o660), (0o1777, 0o666), (0o700, 0o600)],
    )
    def test_it_is_for_those_who_may_write_in_the_folder(
        self, tmp_path: Path, folder: int, mode: int
    ) -> None:
        home = tmp_path / "home"
        home.mkdir()
        home.chmod(folder)
        made = central.Ledger.create(home / "ages.ledger", STUDY)
        assert lock_of(made).stat().st_mode & 0o7777 == mode

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

        def denied(path: str, *rest: int) -> int:
            if str(path).endswith(".lock"):
                raise OSError(code, os.strerror(code), path)
            return real(path, *rest)

        monkeypatch.setattr(os, "open", denied)
        words = rf"cannot open '.*ages\.ledger\.lock' \({os.strerror(code)}\).*in the folder '.*'"
        with pytest.raises(sf.LedgerError, match=words):
            central.Ledger.create(tmp_path / "ages.ledger", STUDY)
        assert not any(tmp_path.iterdir())

    @pytest.mark.parametrize("make", [Path.mkdir, lambda lock: lock.symlink_to("elsewhere")])
    def test_something_else_in_its_place_is_refused(
        self, ledger: central.Ledger, make: Callable[[Path], object]
    ) -> None:
        lock_of(ledger).unlink()
        make(lock_of(ledger))
        with pytest.raises(sf.LedgerError, match=r"cannot open '.*ages\.ledger\.lock'"):
            reserve(ledger)

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


def test_a_file_that_cannot_be_replaced_stays_as_it_was(
    ledger: central.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = ledger.path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(sf.LedgerError, match=r"cannot write '.*ages\.ledger' \(No space"):
            reserve(ledger)
    assert (ledger.path.read_bytes(), ledger.remaining) == (before, 1)
    assert sorted(ledger.path.parent.iterdir()) == [ledger.path, lock_of(ledger)]
    reserve(ledger)


class TestOneName:
    def test_a_ledger_of_two_names_is_not_written_under_either(
        self, ledger: central.Ledger
    ) -> None:
        other = ledger.path.with_name("other.ledger")
        os.link(ledger.path, other)
        before = other.read_bytes()
        for path in (ledger.path, other):
            words = rf"cannot write '.*{path.name}'.*2 names \(hard links\).*Remove the other names"
            read = central.Ledger.load(path)
            with pytest.raises(sf.LedgerError, match=words):
                reserve(read)
            assert (path.read_bytes(), read.remaining) == (before, 1)
        other.unlink()
        reserve(ledger)

    def test_which_would_spend_more_than_there_is(
        self, ledger: central.Ledger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The twin: each name would have its own E from then on."""
        monkeypatch.setattr(module, "_refuse_hard_links", lambda _: None)
        other = ledger.path.with_name("other.ledger")
        os.link(ledger.path, other)
        for path in (ledger.path, other):
            reserve(central.Ledger.load(path), "3/4")
        left = [central.Ledger.load(path).remaining for path in (ledger.path, other)]
        assert left == [Fraction(1, 4)] * 2  # three halves of E are spent

    def test_a_release_reads_nothing_before_it_is_refused(self, ledger: central.Ledger) -> None:
        os.link(ledger.path, ledger.path.with_name("other.ledger"))
        data = central.Data(STUDY, {"age": [1, 2, 3]})
        with pytest.raises(sf.LedgerError, match="hard links"):
            central.release(data, central.Laplace("identity"), spend="1/4", ledger=ledger)
        assert not central.Ledger.load(ledger.path).entries
