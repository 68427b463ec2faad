"""kill −9 of a client at any point: nothing is lost, nothing doubled, the ledger never too low."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from helpers_kill import BROKEN, FINGERPRINT, SIZE, kills_apart
from stub import Fault, Stub

KILLS = 50
#: What happens to uploads: mostly nothing; else they are stored or not, and the client cannot tell.
FAULTS = (None, None, None, Fault(0), Fault(0, stores=True), Fault(500, stores=True), Fault(503))


def run(folder: Path, seed: int, *rest: str) -> dict[str, Any]:
    log = folder / "ids"
    log.touch()
    with Stub(FINGERPRINT, SIZE, log) as stub:
        stub.faults.extend(random.Random(seed).choices(FAULTS, k=100))
        return kills_apart(folder, stub.url, log, seed, *rest)


@pytest.mark.slow
def test_a_client_killed_at_any_point_loses_and_doubles_nothing(tmp_path: Path, seed: int) -> None:
    found = run(tmp_path, seed, str(KILLS))
    assert found["violations"] == []
    assert found["killed"] >= KILLS
    assert found["rounds"] > 50


@pytest.mark.slow
@pytest.mark.parametrize("broken", BROKEN)
def test_the_kills_would_show_a_client_that_is_wrong(
    broken: str, tmp_path: Path, seed: int
) -> None:
    assert run(tmp_path, seed, str(KILLS), broken)["violations"] != []
