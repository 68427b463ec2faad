"""Scale and sizing: what was recorded is whole and plausible, and the pages show it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from sfumato.channels.choice import _BUILT_IN
from sfumato.collect.tally import sends_bits

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


@pytest.mark.slow
def test_channels_of_bits_are_named() -> None:
    assert set(scale.BITS) == {name for name, make in scale.STUDIES.items() if sends_bits(make())}


def test_slopes_are_those_of_a_power() -> None:
    rows = [{"channel": "c", "people": n, "s": 3 * n**0.7} for n in scale.PEOPLE]
    assert scale.slope(rows, "c", "s") == pytest.approx(0.7)
    assert scale.slope(rows[:2], "c", "s") is None


def test_simulated_errors_are_those_expected() -> None:
    """The mean square over k runs, in units of the expected one, is chi-square of k over k."""
    figures = record("sizing")
    assert [row["study"] for row in figures] == [name for name, _, _ in devices.studies()]
    held = [entry for row in figures for entry in row["simulated"] if entry["runs"]]
    assert len(held) == 2 * 8  # two studies have too many cells for it
    for number in (10**9, 10**10):  # apart, since the same seeds draw both
        some = [entry for entry in held if entry["people"] == number]
        runs = sum(entry["runs"] for entry in some)
        squares = sum(entry["runs"] * entry["error / expected"] ** 2 for entry in some)
        for factor, right in ((1.0, True), (1.5**2, False)):
            tails = chi2.cdf(factor * squares, runs), chi2.sf(factor * squares, runs)
            assert (min(tails) > 1e-4) == right
    for entry in held:
        assert chi2.sf(entry["runs"] * entry["error / expected"] ** 2, entry["runs"]) > 1e-5


def test_amounts_are_shown_in_their_unit() -> None:
    shown = [sizing.amount(value, sizing.BYTES) for value in (12, 2_500, 3.2e10, 5e13)]
    assert shown == ["0.0120 kB", "2.50 kB", "32.0 GB", "50.0 TB"]
    assert sizing.amount(7_200, sizing.TIMES) == "2.00 h"


def test_the_floor_counts_the_words_that_encode_draws() -> None:
    study = scale.STUDIES["geometric"]()
    values = {"x": np.arange(640) % 256}
    reports = study.encode(values)
    found = floors.floor_of(study, values, reports)
    counted = floors.Counted()
    study.encode(values, bits=counted)
    assert found.random_bytes == 8 * counted.drawn / 640 > 0
    assert found.together == found.urandom + found.one_pass > 0
