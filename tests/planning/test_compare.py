"""Channels compared block by block."""

from __future__ import annotations

import itertools
import json

from helpers_planning import label

import sfumato as sf


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
