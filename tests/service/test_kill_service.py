"""kill −9 of the real server under load: no acknowledged report is lost, none is counted twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from helpers_kill_service import TOO_EARLY, TWICE, kills

KILLS = 10


@pytest.mark.slow
def test_a_server_that_is_killed_loses_and_doubles_nothing(place: str, seed: int) -> None:
    found = kills(place, seed, KILLS)
    assert (found["lost"], found["doubled"], found["strange"]) == (0, 0, 0)
    assert found["acknowledged"] >= KILLS  # there was load before every kill


@pytest.mark.soak
def test_a_server_that_is_killed_often_loses_and_doubles_nothing(
    place: str, seed: int, record_property: Callable[[str, object], None]
) -> None:
    found = kills(place, seed, 10 * KILLS)
    record_property("kills", found)
    assert (found["lost"], found["doubled"], found["strange"]) == (0, 0, 0)


@pytest.mark.slow
def test_the_kills_would_show_a_server_that_answers_too_early(tmp_path: object, seed: int) -> None:
    assert kills(f"{tmp_path}/store", seed, 3, TOO_EARLY)["lost"] > 0


@pytest.mark.slow
def test_the_kills_would_show_a_server_that_counts_twice(tmp_path: object, seed: int) -> None:
    assert kills(f"{tmp_path}/store", seed, 2, TWICE)["doubled"] > 0
