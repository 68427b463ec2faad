"""Cells and distances of a release, and the axes that questions are about."""

from __future__ import annotations

from fractions import Fraction

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
    assert asked.names is not None
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
