"""Counting in place: the same numbers as one entry at a time, however columns lie in memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.collect import accumulator, counting
from sfumato.collect.counting import Table
from sfumato.collect.statistics import statistic_of


def counted(columns: list[Any], shape: tuple[int, ...]) -> Any:
    """How often each combination occurs, by NumPy alone."""
    key = np.ravel_multi_index([column.astype(np.int64) for column in columns], shape)
    return np.bincount(key, minlength=math.prod(shape))


@pytest.mark.parametrize(
    ("shape", "kinds"),
    [
        ((256,), ["u1"]),
        ((100,), ["u1"]),
        ((100,), ["i8"]),
        ((1_000,), ["u2"]),
        ((100, 24, 3), ["u1", "u1", "u1"]),
        ((300, 7), ["u2", "i8"]),
    ],
)
def test_counts_are_those_of_every_report(
    shape: tuple[int, ...], kinds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "_AT_ONCE", 1_000)
    monkeypatch.setattr(counting, "_MOST_PAIRS", 100_000)  # so that pairs run out of room
    rng = np.random.default_rng(1)
    found, seen = Table(shape), np.zeros(math.prod(shape), dtype=np.int64)
    for rows in (0, 1, 7, 65_535, 65_536, 70_001):  # from 65,536 bytes on, two at once
        columns = [
            rng.integers(0, size, rows).astype(kind)
            for size, kind in zip(shape, kinds, strict=True)
        ]
        for part in (columns, [column[::2] for column in columns], [c[1:] for c in columns]):
            found.add(part)
            seen += counted(part, shape)
        np.testing.assert_array_equal(found.people(), seen)


def test_an_accumulator_that_goes_on_after_it_was_read_counts_the_same() -> None:
    study = sf.Study("a", [sf.integers("x", 0, 255, protect=sf.Distance("0.5"))])
    reports = study.encode({"x": np.arange(200_001) % 256}, bits=sf.SeededBits(1))
    found = study.accumulator()
    for start in range(0, len(reports), 70_000):
        found.add(reports[start : start + 70_000])
        assert found.freeze() == study.tally(reports[: start + 70_000])
        assert found.n == len(reports[: start + 70_000])


def test_tables_are_used_where_combinations_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accumulator, "_AT_ONCE", 100)
    for cells, tabled in ((4_096, True), (4_097, False)):
        study = sf.Study("a", [sf.integers("x", 0, cells - 1, protect=sf.Distance("0.5"))])
        reports = study.encode({"x": np.arange(100)}, bits=sf.SeededBits(1))
        found = study.accumulator()
        found.add(reports)
        assert (found._table is not None) == tabled
        assert found.held.statistic == statistic_of(study.layouts, reports.outputs)
