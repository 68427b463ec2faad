"""Cells and distances of a release, and the axes that questions are about."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from helpers_central import STUDIES, two_axes

import sfumato as sf
from sfumato import central
from sfumato.randomness.bits import SeededBits


def test_distances_of_a_space_add_over_axes_and_are_shared_by_records() -> None:
    space = central.Space(two_axes(), "1/2")
    assert space.exact(0, 3 * 3 + 1) == Fraction(1, 2) * (3 * Fraction(1, 2) + Fraction(3, 4))
    assert space.label(4) == "age 1, mode bus"
    joint = central.Space(STUDIES["joint"], "1/2")
    assert {joint.exact(0, j) for j in range(1, 8)} == {Fraction(1, 2)}
    assert central.Space(STUDIES["blocks"]).exact(0, 3) is None
    mixed = central.Space(two_axes(), {"age": "1/2", "mode": sf.Uniform("1/8")})
    assert mixed.exact(0, 4) == Fraction(1, 4) + Fraction(1, 8)


def test_axes_together_add_their_one_distance_to_those_of_others() -> None:
    study = STUDIES["together"]  # x and y under one ε of 1, age under 1/2 per year
    space = central.Space(study, "1/2")
    cell = {place: k for k, place in enumerate(np.ndindex(3, 2, 3))}
    assert space.exact(cell[0, 0, 0], cell[2, 1, 0]) == Fraction(1, 2)
    assert space.exact(cell[0, 0, 0], cell[0, 1, 2]) == Fraction(1, 2) + Fraction(1, 2)
    assert space.exact(cell[1, 1, 0], cell[1, 1, 1]) == Fraction(1, 4)
    whole = space.edges.distances()
    for i, j in np.ndindex(whole.shape):
        assert whole[i, j] == float(space.exact(i, j) or 0)
    part = space.margin_edges((1, 2)).distances()  # x is not looked at: y has ε to itself
    assert part[0, 3] == 0.5
    assert part[0, 4] == 0.75
    own = central.Space(study, {"x, y": sf.Uniform("1/8")})
    assert own.exact(cell[0, 0, 0], cell[2, 1, 2]) == Fraction(1, 8)


def test_a_schema_will_do_in_the_place_of_a_study(tmp_path: Path) -> None:
    """The central model needs axes and guarantees, and no channel."""
    schema = STUDIES["together"].schema
    data = central.Data(schema, {"x": [0, 1, 2], "y": [0, 1, 0], "age": [0, 2, 2]})
    ledger = central.Ledger.create(tmp_path / "a.ledger", schema)
    again = central.Ledger.load(ledger.path)
    asked = central.Laplace(["x=1..", "y=0"])
    made = central.release(data, asked, spend="1/4", ledger=again)
    assert made.spent == "x, y: 1/4 of E"
    assert made.fingerprint == schema.fingerprint
    assert again.left() == {"x, y": Fraction(3, 4), "age": 1}
    assert central.plan(schema, "cells of age", 10, "1/4").best.stderr > 0


def test_questions_need_only_the_cells_of_the_axes_they_are_about() -> None:
    wide = sf.Study(
        "wide",
        [
            sf.integers("age", 0, 99, protect=sf.Distance(1)),
            *(sf.integers(f"x{k}", 0, 999, protect=sf.Distance(1)) for k in range(4)),
        ],
    )
    space = central.Space(wide, "1/2")
    asked = space.margin(["age=18..30", {"age": (40, None)}])
    assert (asked.axes, asked.workload.shape) == ((0,), (2, 100))
    assert asked.names[7] == "age 7"
    prepared = central.Laplace("ranges of age", "prefix").prepare(space, 100)
    assert prepared.expected().stderr.shape == (5050,)
    rows = [np.arange(20), *(np.zeros(20, dtype=int) for _ in range(4))]
    data = central.Data(wide, dict(zip([axis.name for axis in wide.axes], rows, strict=True)))
    outcome = prepared.run_margins([data.marginal((0,))], SeededBits(1))
    assert outcome.answers.values.shape == (5050,)
    with pytest.raises(sf.TooLargeError, match="100,000,000,000,000 cells"):
        data.counts()


def test_only_axes_that_some_question_is_about_are_looked_at() -> None:
    axes = [sf.categories(name, ["u", "v"], protect=sf.Uniform(1)) for name in "abc"]
    space = central.Space(sf.Study("three", axes))
    assert space.margin(["cells of a", "b=u"]).axes == (0, 1)
    assert space.margin(["c=u", "cells of a"]).axes == (0, 2)
    assert space.margin(["b=u", "total", "b=v"]).axes == (1,)
    whole = space.margin(["cells of a", "identity"])
    assert whole.axes == (0, 1, 2)
    assert whole.workload.questions == 2 + 8
