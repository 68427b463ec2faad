"""A ledger whose writers die at random points, several at once, hundreds of times: `make soak`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import helpers_ledger
import pytest

pytestmark = pytest.mark.soak

CRASHES = 300


def _crashes(folder: Path, seed: int, least: int, *broken: str) -> dict[str, Any]:
    """In a process of its own, which has no threads and may be forked."""
    program = [sys.executable, str(Path(helpers_ledger.__file__))]
    run = subprocess.run(
        [*program, str(folder), str(seed), str(least), *broken],
        check=True,
        capture_output=True,
        text=True,
        timeout=600,
    )
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def test_no_crash_hides_a_release_or_spends_too_much(
    tmp_path: Path, seed: int, record_property: Callable[[str, Any], None]
) -> None:
    """After every crash the file loads, holds every release that was made, once, and can grow."""
    found = _crashes(tmp_path, seed, CRASHES)
    for name, value in found.items():
        record_property(name, value)
    assert found["violations"] == []
    assert found["died"] >= CRASHES
    assert found["full"] > 0  # some were spent to the end, and no further


@pytest.mark.parametrize("broken", helpers_ledger.BROKEN)
def test_the_crashes_would_show_a_ledger_that_is_wrong(
    broken: str, tmp_path: Path, seed: int, record_property: Callable[[str, Any], None]
) -> None:
    """The twins: no lock, one that outlives its holder, a file that is written over, and a release
    before it is entered."""
    found = _crashes(tmp_path, seed, CRASHES, broken)
    record_property("died before it was seen", found["died"])
    assert found["violations"]
