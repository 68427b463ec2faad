"""Scale and sizing: what was recorded is whole and plausible, and the pages show it."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.channels.choice import _BUILT_IN

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks import devices, floors, pages, scale, sizing  # noqa: E402


def record(name: str) -> list[dict[str, Any]]:
    text = (ROOT / "results" / "bench" / f"{name}.json").read_text(encoding="utf-8")
    figures: list[dict[str, Any]] = json.loads(text)["figures"]
    return figures


@pytest.mark.parametrize(
    ("module", "column"), [(scale, "encode s"), (sizing, "encode s")], ids=["scale", "sizing"]
)
def test_the_page_shows_the_recorded_figures(module: Any, column: str) -> None:
    name = module.__name__.rpartition(".")[2]
    text = (ROOT / module.PAGE).read_text(encoding="utf-8")
    figures = record(name)
    assert text == pages.refilled(text, module.page_tables(figures)), f"run: python -m {module}"
    other = [row | {column: 2 * row[column]} for row in figures]
    assert text != pages.refilled(text, module.page_tables(other))


def test_every_registered_channel_is_measured_at_every_size() -> None:
    assert set(scale.STUDIES) == set(_BUILT_IN)
    seen = {(row["channel"], row["people"]) for row in record("scale")}
    assert {(name, number) for name in scale.STUDIES for number in scale.PEOPLE} <= seen
    assert (scale.CHUNKED, 10**8) in seen


def test_slopes_are_those_of_a_power() -> None:
    rows = [{"channel": "c", "people": n, "s": 3 * n**0.7} for n in scale.PEOPLE]
    assert scale.slope(rows, "c", "s") == pytest.approx(0.7)
    assert scale.slope(rows[:2], "c", "s") is None


def test_simulated_errors_are_those_expected() -> None:
    """A ratio of root mean squares over 40 runs has a standard error of about 1/√80."""
    figures = record("sizing")
    assert [row["study"] for row in figures] == [name for name, _, _ in devices.studies()]
    ratios = [r for row in figures for r in row["simulated error / expected"] if r is not None]
    assert len(ratios) == 2 * 8  # two studies have too many cells for it
    assert all(abs(ratio - 1) < 4 / math.sqrt(2 * sizing.RUNS) for ratio in ratios)


def test_amounts_are_shown_in_their_unit() -> None:
    shown = [sizing._amount(value, sizing.BYTES) for value in (12, 2_500, 3.2e10, 5e13)]
    assert shown == ["0.0120 kB", "2.50 kB", "32.0 GB", "50.0 TB"]
    assert sizing._amount(7_200, sizing.TIMES) == "2.00 h"


def test_the_floor_counts_the_words_that_encode_draws() -> None:
    study = scale.STUDIES["geometric"]()
    values = {"x": np.arange(640) % 256}
    reports = study.encode(values)
    found = floors.floor_of(study, values, reports)
    counted = floors.Counted()
    study.encode(values, bits=counted)
    assert found.random_bytes == 8 * counted.drawn / 640 > 0
    assert found.together == found.urandom + found.one_pass > 0
