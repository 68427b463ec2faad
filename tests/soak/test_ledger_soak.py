"""A ledger whose writers are killed at random points, eight at once, 500 times: `make soak`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers_ledger import BROKEN, WRITERS, kills_apart

pytestmark = pytest.mark.soak

KILLS = 500


def test_no_kill_hides_a_release_spends_too_much_or_leaves_anything(
    tmp_path: Path, seed: int, record_property: Callable[[str, Any], None]
) -> None:
    """After every kill the file loads, holds every release that was made, once, and can grow."""
    found = {"writers at once": WRITERS, **kills_apart(tmp_path, seed, KILLS)}
    for name, value in found.items():
        record_property(name, value)
    assert found["violations"] == []
    assert found["killed"] >= KILLS
    assert found["full"] > 0  # some were spent to the end, and no further
    assert found["cut"] > 0  # some writers left half a line, which the next one cut off


@pytest.mark.parametrize("broken", BROKEN)
def test_the_kills_would_show_a_ledger_that_is_wrong(
    broken: str, tmp_path: Path, seed: int, record_property: Callable[[str, Any], None]
) -> None:
    """The twins: no lock, one that outlives its holder, a length that comes before its event, half
    a line that is left in place, a file that is replaced, and a release before it is entered."""
    found = kills_apart(tmp_path, seed, KILLS, broken)
    record_property("killed before it was seen", found["killed"])
    assert found["violations"]
