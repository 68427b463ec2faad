"""The record of the full reproduction, and the page made from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import reproduced
from sfumato.reproduction.table import EXHIBITS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    held: dict[str, Any] = json.loads((ROOT / reproduced.RECORD).read_text(encoding="utf-8"))
    return held


def test_the_record_is_whole_and_says_how_it_was_made(record: dict[str, Any]) -> None:
    assert {"command", "date", "commit", "version", "seed"} < set(record)
    assert not record["quick"]
    assert [part["id"] for part in record["exhibits"]] == [e.id for e in EXHIBITS]
    assert all(part["data"] is not None for part in record["exhibits"])


def test_the_page_shows_the_record(record: dict[str, Any]) -> None:
    current = (ROOT / reproduced.PAGE).read_text(encoding="utf-8")
    assert current == reproduced.text(record), "run: python -m benchmarks.reproduced"
    other = json.loads(json.dumps(record))
    other["exhibits"][-2]["data"]["rows"][0]["mean error"] *= 2
    assert current != reproduced.text(other)
    for held in reproduced.results(record):
        if held.exhibit.draw is not None:
            assert (ROOT / reproduced.PICTURES / reproduced.picture(held)).exists()


def test_what_differs_gives_a_reason(record: dict[str, Any]) -> None:
    """All but comparisons of plots, which miss what the text says of them by a hair."""
    silent = [
        (held.exhibit.id, finding.what)
        for held in reproduced.results(record)
        for finding in held.findings
        if not finding.agrees and not finding.note
    ]
    assert {name for name, _ in silent} <= {"cormode-figure-3"}
