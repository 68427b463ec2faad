"""Two versions side by side: the one checked out here, and an older commit in a folder of its own.

Whatever is measured runs in a fresh process that finds the package in one of the two folders and
the benchmarks here, so that both versions do the same work on the same people.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sfumato as sf
from benchmarks.imports import OWN, PACKAGE

#: The last commit before decoding was made fast.
BEFORE = "5fcde83"
ROOT = Path(__file__).parents[1]


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """The folder with the package of a commit; it is removed at the end.

    Args:
        commit: The commit.
    """
    git = ["git", "-C", str(ROOT), "worktree"]
    with tempfile.TemporaryDirectory() as folder:
        place = str(Path(folder) / "before")
        subprocess.run([*git, "add", "--detach", place, commit], check=True, capture_output=True)
        try:
            yield Path(place) / "src"
        finally:
            subprocess.run([*git, "remove", "--force", place], check=True, capture_output=True)


def run(src: Path, module: str, *arguments: str) -> dict[str, Any]:
    """What a benchmark prints, as JSON, in a fresh process; `{"outcome": ...}` where it was ended.

    Args:
        src: The folder with the package.
        module: The benchmark, as `python -m` takes it.
        arguments: Its arguments.
    """
    ended = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(src), "SFUMATO_SRC": str(src)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if ended.returncode == -signal.SIGXCPU:
        return {"outcome": "too long"}
    if ended.returncode:
        return {"outcome": "failed"}
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


def assert_version() -> None:
    """In the process that measures: the package is that of the folder asked for."""
    asked = Path(os.environ["SFUMATO_SRC"]) / PACKAGE
    assert Path(sf.__file__).parent.resolve() == asked.resolve(), "another version was loaded"


def limit_seconds(seconds: int) -> None:
    """End this process once it has used so many more processor seconds.

    Args:
        seconds: How many.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = int(used.ru_utime + used.ru_stime) + 1 + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (most, most + 1))


def folders(before: Path | None) -> Sequence[tuple[str, Path]]:
    """The versions to run, the older one first.

    Args:
        before: The folder with the older one; None to leave it out.
    """
    return [("new", OWN)] if before is None else [("old", before), ("new", OWN)]
