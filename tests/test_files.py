"""Files are written whole or not at all, keep their modes, and leave nothing behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import sfumato as sf
from sfumato import files
from sfumato.files import write_whole

STUDY = sf.Study("ages", [sf.integers("age", 0, 9, protect=sf.Distance("1/2"))])

KILLED = """
import os, signal, sys
from pathlib import Path
from sfumato.files import write_whole

if sys.argv[2] == "named":
    del os.O_TMPFILE

def write(file):
    file.write_text("half of it")
    os.kill(os.getpid(), signal.SIGKILL)

write_whole(sys.argv[1], write)
"""


def put(path: Path, text: str = "new") -> None:
    write_whole(path, lambda file: file.write_text(text, encoding="utf-8"))


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


@pytest.fixture(params=["nameless", "named"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How the new file is kept until it is whole: by the system, or under a name of its own."""
    if request.param == "named":
        monkeypatch.delattr(os, "O_TMPFILE")
    return str(request.param)


@pytest.mark.usefixtures("way")
class TestModes:
    @pytest.mark.parametrize("kept", [0o600, 0o640, 0o644, 0o664, 0o660])
    def test_a_file_keeps_its_mode(self, tmp_path: Path, kept: int) -> None:
        file = tmp_path / "ages.toml"
        STUDY.save(file)
        file.chmod(kept)
        STUDY.save(file)
        assert mode(file) == kept
        assert names(tmp_path) == ["ages.toml"]

    @pytest.mark.parametrize(("mask", "made"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
    def test_a_new_file_has_the_mode_that_the_process_gives(
        self, tmp_path: Path, mask: int, made: int
    ) -> None:
        before = os.umask(mask)
        try:
            put(tmp_path / "a")
        finally:
            os.umask(before)
        assert mode(tmp_path / "a") == made

    @pytest.mark.parametrize("kept", [0o444, 0o400, 0o555])
    def test_a_read_only_file_is_refused_and_stays(self, tmp_path: Path, kept: int) -> None:
        file = tmp_path / "ages.toml"
        file.write_text("old", encoding="utf-8")
        file.chmod(kept)
        words = rf"cannot write '.*ages\.toml': the file is read-only \(mode {kept:04o}\).*chmod"
        with pytest.raises(sf.FormatError, match=words):
            STUDY.save(file)
        assert (file.read_text(encoding="utf-8"), mode(file)) == ("old", kept)
        assert names(tmp_path) == ["ages.toml"]

    def test_no_other_group_gets_in_where_the_group_cannot_be_kept(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = tmp_path / "a"
        file.write_text("old", encoding="utf-8")
        file.chmod(0o664)
        real = os.fstat

        def elsewhere(handle: int) -> os.stat_result:
            found = list(real(handle))
            found[5] += 1
            return os.stat_result(found)

        def denied(*_: int) -> None:
            raise PermissionError

        monkeypatch.setattr(os, "fstat", elsewhere)
        monkeypatch.setattr(os, "fchown", denied)
        put(file)
        monkeypatch.undo()
        assert (file.read_text(encoding="utf-8"), mode(file)) == ("new", 0o604)


@pytest.mark.usefixtures("way")
class TestLinks:
    def test_a_link_leads_to_its_file(self, tmp_path: Path) -> None:
        (tmp_path / "there").mkdir()
        file, link = tmp_path / "there" / "a", tmp_path / "link"
        link.symlink_to("there/a")
        for text in ("first", "second"):  # of a link that leads nowhere yet, too
            put(link, text)
            assert file.read_text(encoding="utf-8") == text
        assert link.is_symlink()
        assert (names(tmp_path), names(file.parent)) == (["link", "there"], ["a"])

    def test_what_is_no_file_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "folder").mkdir()
        with pytest.raises(sf.FormatError, match=r"cannot write '.*folder': it is not a file"):
            put(tmp_path / "folder")


@pytest.mark.usefixtures("way")
class TestWholeOrNotAtAll:
    def test_a_writer_that_fails_leaves_the_old_file_and_nothing_else(self, tmp_path: Path) -> None:
        put(tmp_path / "a", "old")

        def fails(file: Path) -> None:
            file.write_text("half of it", encoding="utf-8")
            raise RuntimeError

        for name in ("a", "b"):
            with pytest.raises(RuntimeError):
                write_whole(tmp_path / name, fails)
        assert (tmp_path / "a").read_text(encoding="utf-8") == "old"
        assert names(tmp_path) == ["a"]

    def test_what_may_not_be_replaced_is_not(self, tmp_path: Path) -> None:
        put(tmp_path / "a", "old")
        with pytest.raises(FileExistsError):
            write_whole(tmp_path / "a", lambda file: file.write_text("new"), replace=False)
        assert (tmp_path / "a").read_text(encoding="utf-8") == "old"
        write_whole(tmp_path / "b", lambda file: file.write_text("new"), replace=False)
        assert names(tmp_path) == ["a", "b"]

    def test_writers_at_once_do_not_sweep_each_other_away(self, tmp_path: Path) -> None:
        file = tmp_path / "a"
        done: list[int] = []

        def write(number: int) -> None:
            for _ in range(20):
                put(file, str(number))
            done.append(number)

        threads = [threading.Thread(target=write, args=[number]) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(done) == [0, 1, 2, 3]
        assert file.read_text(encoding="utf-8") in "0123"
        assert names(tmp_path) == ["a"]


def kill(path: Path, way: str) -> None:
    """A writer that is killed halfway."""
    ended = subprocess.run([sys.executable, "-c", KILLED, str(path), way], check=False)
    assert ended.returncode == -signal.SIGKILL


class TestKilledWriters:
    @pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="the system has no nameless files")
    def test_nothing_stays_of_them(self, tmp_path: Path) -> None:
        kill(tmp_path / "new", "nameless")
        assert names(tmp_path) == []
        put(tmp_path / "old", "old")
        kill(tmp_path / "old", "nameless")
        assert names(tmp_path) == ["old"]
        assert (tmp_path / "old").read_text(encoding="utf-8") == "old"

    def test_where_a_name_is_needed_the_next_writer_removes_it(self, tmp_path: Path) -> None:
        put(tmp_path / "a", "old")
        kill(tmp_path / "a", "named")
        left = set(names(tmp_path)) - {"a"}
        assert len(left) == 1  # which the twin above has not
        put(tmp_path / "b")
        assert left < set(names(tmp_path))
        put(tmp_path / "a")
        assert names(tmp_path) == ["a", "b"]

    def test_what_a_living_writer_fills_is_not_removed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delattr(os, "O_TMPFILE")

        def write(file: Path) -> None:
            put(tmp_path / "a", "in between")
            file.write_text("last", encoding="utf-8")

        write_whole(tmp_path / "a", write)
        assert (tmp_path / "a").read_text(encoding="utf-8") == "last"
        assert names(tmp_path) == ["a"]

    def test_one_that_was_swept_away_before_it_was_locked_is_made_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delattr(os, "O_TMPFILE")
        lock = files._lock

        def late(handle: int) -> None:
            monkeypatch.setattr(files, "_lock", lock)
            put(tmp_path / "a", "in between")
            lock(handle)

        monkeypatch.setattr(files, "_lock", late)
        put(tmp_path / "a", "last")
        assert (tmp_path / "a").read_text(encoding="utf-8") == "last"
        assert names(tmp_path) == ["a"]

    def test_nor_is_what_only_looks_alike(self, tmp_path: Path) -> None:
        mine = tmp_path / ".a.backup.part"
        mine.touch()
        put(tmp_path / "a")
        assert mine.exists()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(sf.FormatError, match=r"there is no folder '.*nowhere'; make it first"):
        put(tmp_path / "nowhere" / "a")


def test_results_are_kept_between_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SFUMATO_CACHE", str(tmp_path / "cache"))
    assert files.read("a") is None
    files.keep("a", "text")
    assert files.read("a") == "text"
    with contextlib.suppress(OSError):
        (tmp_path / "cache" / "a").chmod(0o444)
    files.keep("a", "other")  # where nothing can be written, nothing is kept
    assert files.read("a") == "text"
