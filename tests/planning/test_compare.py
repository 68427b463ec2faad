"""Channels compared block by block."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest
from helpers_planning import STUDIES, label, line, people_of, plane
from helpers_statistics import histogram

import sfumato as sf
from sfumato.planning.compare import ComparisonRow


def test_comparison_lists_what_fits_and_marks_the_best() -> None:
    study = sf.Study(
        "s", [sf.integers("a", 0, 19, protect=sf.Distance(0.7)), label("b", 3, sf.KaryResponse())]
    )
    found = study.compare(500, runs=1)
    kinds = {(row.axis, row.channel) for row in found}
    assert {("a", "geometric"), ("a", "thermometer"), ("a", "exponential")} <= kinds
    assert ("a", "kary-response") not in kinds
    assert ("b", "geometric") not in kinds
    for axis, method in itertools.product("ab", ("unbiased", "likelihood")):
        rows = [row for row in found if (row.axis, row.method) == (axis, method)]
        least = min(row.stderr for row in rows)  # channels with one law share it
        assert [row.best for row in rows] == [row.stderr == least for row in rows]
        assert [row.channel for row in rows if row.chosen] == [
            "geometric" if axis == "a" else "kary-response"
        ]
    exact = next(
        r for r in found if (r.axis, r.channel, r.method) == ("a", "geometric", "unbiased")
    )
    assert exact.stderr == study.expected_error(500)["a: a random range"].stderr
    assert (exact.bits, exact.how) == (5, "exact")
    assert json.loads(json.dumps(found.to_dict()))["rows"][0]["axis"] == "a"
    assert "chosen, best" in str(found)
    assert found.caption() == (
        "500 people, people spread evenly; unbiased errors are exact; likelihood errors are root "
        "mean squares over simulated tallies."
    )


def test_errors_over_a_sample_of_questions_are_marked() -> None:
    study = sf.Study("s", [sf.integers("a", 0, 2_999, protect=sf.Distance(0.7))])
    found = study.compare(500, methods=["unbiased"])
    (row,) = [row for row in found if row.chosen]
    assert row.how == "sampled"
    assert row.cells()[3].startswith("≈ ")
    assert "errors marked ≈ are root mean squares over a sample" in str(found)


def nearly(row: ComparisonRow) -> ComparisonRow:
    """A row that equals others but for the last digits of errors, which depend on the processor."""
    near = {name: pytest.approx(getattr(row, name), rel=1e-12) for name in ("stderr", "share")}
    return replace(row, **near)


def test_blocks_are_compared_one_by_one() -> None:
    mixed = STUDIES["mixed"]()
    law = histogram(mixed, people_of(mixed, 300, 2))
    found = mixed.compare(500, prior=law, methods=["unbiased"])
    alone = [
        sf.Study("s", [plane()]).compare(500, prior=law.sum(axis=2), methods=["unbiased"]),
        sf.Study("s", [line("c", 5, sf.Geometric())]).compare(
            500, prior=law.sum(axis=(0, 1)), methods=["unbiased"]
        ),
    ]
    assert found.rows == tuple(map(nearly, (*alone[0].rows, *alone[1].rows)))
    assert {row.axis for row in found} == {"a × b", "c"}
    for one in alone:
        assert [row.chosen for row in one].count(True) == 1
    exact = next(row for row in found if row.axis == "c" and row.chosen)
    assert exact.stderr == mixed.expected_error(500, prior=law)["c: a random range"].stderr
