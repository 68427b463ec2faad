"""Averages of functions of one axis."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from helpers_central import JOINT, STUDIES, one_axis, told_apart, two_axes

import sfumato as sf
from sfumato import central
from sfumato.central.means import Means
from sfumato.central.space import Space
from sfumato.randomness.bits import SeededBits
from sfumato.randomness.laplace import laplace_variance, sum_quantile

# Means


def test_means_have_the_noise_of_their_own_axis_alone() -> None:
    study = two_axes()
    means = central.Means({"mean age": "age", "by car": ("mode", lambda mode: mode == "car")})
    prepared = means.prepare(central.Space(study, "1/2"), 40)
    assert prepared.margins == ((0,), (1,))
    age, car = prepared.parts
    assert age.measurements.rates == (Fraction(1, 4),)
    assert car.measurements.rates == (Fraction(3, 8),)
    wanted = [math.sqrt(laplace_variance(rate)) / 40 for rate in (Fraction(1, 4), Fraction(3, 8))]
    assert prepared.stderr.tolist() == pytest.approx(wanted)
    reach = sum_quantile([1], [Fraction(1, 4)], 0.95) / 40
    assert prepared.expected().reach[0] == pytest.approx(reach)


def test_means_are_unbiased_and_need_no_histogram_of_all_cells() -> None:
    axes = [sf.integers(f"x{k}", 0, 999, protect=sf.Distance(1)) for k in range(5)]
    study = sf.Study("wide", axes)
    rng = np.random.default_rng(1)
    people = {f"x{k}": rng.integers(0, 1000, 300) for k in range(5)}
    data = central.Data(study, people)
    prepared = central.Means([axis.name for axis in axes]).prepare(central.Space(study), data.n)
    bits = SeededBits(4)
    counts = [data.marginal(axes) for axes in prepared.margins]
    found = np.array([prepared.run_margins(counts, bits).answers.values for _ in range(500)])
    truth = np.array([people[f"x{k}"].mean() for k in range(5)])
    z = (found.mean(axis=0) - truth) / (prepared.stderr / math.sqrt(500))
    assert np.abs(z).max() < 4.5
    assert np.abs(z + 10).max() > 4.5  # the twin


def test_functions_of_one_axis_share_its_distances_exactly() -> None:
    study = one_axis(sf.Distance("2/3"), ordered=True)
    functions = {"mean": "x", "square": ("x", lambda x: x * x), "list": ("x", [0, 0.5, 0, 0, 2])}
    space = central.Space(study, "1/2")
    prepared = central.Means(functions).prepare(space, 10)
    (part,) = prepared.parts
    spent = []
    for i, j in itertools.combinations(range(5), 2):
        told, limit = told_apart(part.measurements, i, j), space.exact(i, j)
        assert told is not None
        assert limit is not None
        assert told <= limit
        spent.append(told / limit)
    assert max(spent) > 1 - Fraction(1, 10**6)


def test_means_under_one_guarantee_for_records_share_it_between_axes() -> None:
    study = STUDIES["joint"]
    prepared = central.Means(["x", "y"]).prepare(central.Space(study, "1/2"), 10)
    worst = Fraction(0)
    for part in prepared.parts:
        cells = range(study.shape[part.axis])
        told = [told_apart(part.measurements, i, j) for i in cells for j in cells]
        worst += max(t for t in told if t is not None)
    assert Fraction(1, 2) * (1 - Fraction(1, 10**5)) < worst <= Fraction(1, 2)
    answers = prepared.run(np.array([1, 0, 0, 0, 0, 0, 9, 0]), SeededBits(1)).answers
    assert answers.values.shape == (2,)


def test_bent_means_have_less_error_for_few_people() -> None:
    study = one_axis(sf.Distance("1/20"), ordered=True)
    plain = central.Means(["x"]).prepare(central.Space(study), 3)
    bent = central.Means(["x"], bias="optimised").prepare(central.Space(study), 3)
    assert bent.stderr[0] < plain.stderr[0]


@pytest.mark.parametrize(
    ("functions", "words"),
    [
        ([], "got none"),
        (["agee"], "did you mean 'age'"),
        (["mode"], "no numbers to take the mean of"),
        ({"m": ("mode", [1, 2])}, "one finite number for each of the 3 cells"),
        ({"m": ("age", lambda age: "old")}, "one finite number for each of the 6 cells"),
        ({"m": 3}, "must be an axis, or an axis with a function"),
    ],
)
def test_means_that_make_no_sense_are_refused(functions: Any, words: str) -> None:
    with pytest.raises(sf.StudyError, match=words):
        central.Means(functions).prepare(central.Space(two_axes()), 10)


def test_no_answer_must_count_as_something_in_a_mean() -> None:
    space = central.Space(STUDIES["optional"])
    with pytest.raises(sf.StudyError, match="say what no answer counts as"):
        central.Means(["age"]).prepare(space, 10)
    answered = {"answered": ("age", lambda age: age is not None)}
    assert central.Means(answered).prepare(space, 10).stderr[0] > 0


def test_every_average_of_whole_records_gets_a_share() -> None:
    """However little one counts; else it would not be measured at all."""
    means = Means(["x", "y"], weights=[1e-30, 1])
    prepared = means.prepare(Space(JOINT), 100)
    rates = [part.measurements.rates[0] for part in prepared.parts]
    assert all(rates)
    spans = (3, 1)
    assert sum(Fraction(rate or 0) * span for rate, span in zip(rates, spans, strict=True)) == 1
    assert np.isfinite(prepared.stderr).all()
