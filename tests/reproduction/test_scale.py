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

from benchmarks import (  # noqa: E402
    accumulating,
    devices,
    engines,
    files,
    floors,
    many,
    pages,
    scale,
    sizing,
    speed_page,
    streams,
    sweeps,
)


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


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("files", "processor seconds"),
        ("engines", "seconds"),
        ("accumulating", "million reports/s"),
        ("streams", "peak MB"),
        ("many", "at once s"),
        ("sweeps", "report bytes"),
    ],
)
def test_the_page_on_speed_shows_what_was_recorded(name: str, column: str) -> None:
    text = (ROOT / speed_page.PAGE).read_text(encoding="utf-8")
    figures, tables = record(name), speed_page.TABLES[name]
    assert text == pages.refilled(text, tables(figures)), "run: python -m benchmarks.speed_page"
    other = [row | {column: row[column] ** 2 + 1} for row in figures]
    assert text != pages.refilled(text, tables(other))


@pytest.mark.parametrize("name", speed_page.TABLES)
def test_what_is_recorded_was_measured_on_a_commit(name: str) -> None:
    held = json.loads((ROOT / "results/bench" / f"{name}.json").read_text(encoding="utf-8"))
    assert len(held["commit"]) == 40


@pytest.mark.parametrize("name", speed_page.PICTURES)
def test_the_page_has_a_picture_of_what_was_recorded(name: str, tmp_path: Path) -> None:
    place, draw = speed_page.PICTURES[name]
    assert f"({place.relative_to('docs')})" in (ROOT / speed_page.PAGE).read_text(encoding="utf-8")
    assert (ROOT / place).read_bytes()[:4] == b"\x89PNG"
    draw(record(name), tmp_path / "again.png")
    assert (tmp_path / "again.png").read_bytes()[:4] == b"\x89PNG"


class TestGoals:
    """What was recorded reaches what was promised."""

    def test_a_hundred_million_reports_are_tallied_in_a_minute_and_a_gigabyte(self) -> None:
        rows = {(row["swept"], row["reports"]): row for row in record("files")}
        row = rows["n", 10**8]
        assert row["cells"] == 256
        assert max(row["seconds, 2 threads"], row["seconds, 1 thread"]) < 60
        assert row["peak MB"] < 1_000

    def test_the_local_engine_is_nearly_as_fast_as_a_bare_read(self) -> None:
        """Of the same columns of the same files, with the same checks."""
        rows = {(row["swept"], row["reports"]): row for row in record("files")}
        assert rows["n", 10**8]["read that checks / tally"] >= 0.8
        assert rows["no checksums", 10**8]["plain read / tally"] >= 0.8
        local = {row["way"]: row for row in record("engines")}["local"]
        assert local["bare read / this"] >= 0.8

    def test_time_is_in_proportion_to_reports_and_memory_does_not_grow(self) -> None:
        figures = record("files")
        # A call takes a millisecond or two in any case, which flattens the slope.
        assert 0.85 < files.slope(figures, "n", "processor seconds") < 1.05
        assert files.slope(figures, "n", "MB above an idle process") < 0.15
        for name in files.GROWN:  # 65,536 cells instead of 16
            assert files.slope(figures, "m", name) < 0.15

    def test_slopes_of_files_are_those_of_a_power(self) -> None:
        rows = [
            {"swept": "n", "reports": n, "cells": 256, "s": 3 * n**0.7}
            for n in (10**5, 10**6, 10**7, 10**8)
        ]
        assert files.slope(rows, "n", "s") == pytest.approx(0.7)

    def test_every_engine_and_every_database_gave_the_same_bytes(self) -> None:
        digests = {row["way"]: row["SHA-256 of the tally"] for row in record("engines")}
        assert all(row["reports"] == 10**7 for row in record("engines"))
        assert len({digests[name] for name in engines.TALLIES}) == 1
        assert {"local", "Dask", "Spark", "DuckDB, by SQL", "PostgreSQL, by SQL"} <= set(digests)

    def test_reports_are_added_one_by_one_and_in_batches(self) -> None:
        goals = [row for row in record("accumulating") if row["at least"] is not None]
        assert {row["at least"] for row in goals} == {
            accumulating.LEAST_ONE / 1e6,
            accumulating.LEAST_MANY / 1e6,
        }
        assert all(row["million reports/s"] >= row["at least"] for row in goals)

    def test_encoding_streams_is_nearly_as_fast_as_the_library_and_memory_stays_flat(self) -> None:
        rows = record("streams")
        assert {row["people"] for row in rows} == set(streams.PEOPLE)
        assert all(row["speed / library call"] >= row["at least"] == 0.8 for row in rows)
        for what in {row["what"] for row in rows}:
            peaks = {row["people"]: row["peak MB"] for row in rows if row["what"] == what}
            assert peaks[20_000_000] < 1.25 * peaks[4_000_000]

    def test_ranges_over_bits_take_at_most_three_passes(self) -> None:
        rows = {(row["what"], row["reports"]): row for row in record("many")}
        assert rows[many.RANGES, 10**7]["ratio"] <= 3
        assert (many.MARGINALS, 10**7) in rows

    def test_every_channel_is_swept(self) -> None:
        seen = {
            (row["swept"], row["channel"], row["cells"], row["axes"], row["epsilon"])
            for row in record("sweeps")
        }
        points = [(swept, *point) for swept, held in sweeps.SWEEPS.items() for point in held]
        assert seen == {
            (swept, channel, cells, axes, float(epsilon))
            for swept, cells, axes, epsilon in points
            for channel in sweeps.CHANNELS
        }


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


@pytest.mark.slow
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
