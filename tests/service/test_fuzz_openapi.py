"""Requests made from the OpenAPI document: every answer is in it, none is 500, memory stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from helpers_fuzz_openapi import Served

from sfumato.service.openapi import OPERATIONS

REQUESTS = 5_000
MOST_GROWTH = 20 << 20


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path)
    with made.running():
        yield made


def checked(served: Served, requests: int) -> None:
    """Hold what was sent against what was to be sent, and against what the server wrote."""
    assert sum(served.answered.values()) >= requests
    assert {name for name, _ in served.answered} == set(OPERATIONS)
    well = {name for name, status in served.answered if status < 400}
    assert well >= set(OPERATIONS) - {"job", "cancel", "delete"}  # of which there are none
    assert served.log == ""


@pytest.mark.slow
def test_whatever_the_document_allows_is_answered_as_it_says(served: Served) -> None:
    served.fuzz(REQUESTS, seed=1)
    checked(served, REQUESTS)


@pytest.mark.soak
def test_whatever_the_document_allows_is_answered_for_long(
    served: Served, seed: int, record_property: Callable[[str, object], None]
) -> None:
    parts, sizes = 20, []
    for part in range(parts):
        served.fuzz(20 * REQUESTS // parts, seed + part)
        sizes.append(served.resident())
    record_property("resident", sizes)
    checked(served, 20 * REQUESTS)
    assert max(sizes[parts // 2 :]) - sizes[parts // 2 - 1] <= MOST_GROWTH
