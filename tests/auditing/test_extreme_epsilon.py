"""At any ε, however small or large, a channel is bound, drawn from and audited in moments.

e^ε is never computed where no table of words could reach it: the largest odds of one word are 2^64.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import sfumato as sf
from sfumato.channels.base import Channel
from sfumato.channels.choice import REGISTRY, Trial
from sfumato.channels.odds import Bound
from sfumato.errors import StudyError
from sfumato.metrics.cells import CellMetric, TableMetric
from sfumato.metrics.distance import AsideMetric, CappedLineMetric, LineMetric
from sfumato.metrics.labelled import BlockMetric, HighLowMetric
from sfumato.metrics.norm_grids import NormGridMetric
from sfumato.metrics.uniform import UniformMetric
from sfumato.randomness.bits import SeededBits

EPSILONS = ["1e-9", "1e-3", "1", "50", "1e3", "1e6", "1e12", "1e300"]


def scaled(metric: CellMetric, factor: Fraction) -> CellMetric:
    """The metric with every E multiplied."""
    if isinstance(metric, UniformMetric | BlockMetric | HighLowMetric):
        return replace(metric, epsilon=metric.epsilon * factor)
    if isinstance(metric, LineMetric):
        return LineMetric(tuple(step * factor for step in metric.steps))
    if isinstance(metric, CappedLineMetric):
        line = LineMetric(tuple(step * factor for step in metric.line.steps))
        return CappedLineMetric(line, metric.cap * factor)
    if isinstance(metric, NormGridMetric):
        cap = None if metric.cap is None else metric.cap * factor
        return replace(metric, steps=tuple(step * factor for step in metric.steps), cap=cap)
    if isinstance(metric, AsideMetric):
        return AsideMetric(scaled(metric.line, factor), metric.aside * factor)
    assert isinstance(metric, TableMetric)
    numerators = metric.numerators.astype(object) * factor.numerator
    infinite = metric.numerators < 0
    return TableMetric(
        np.where(infinite, -1, numerators), metric.denominator * factor.denominator, metric.size
    )


def bound_at(trial: Trial, factor: Fraction) -> Channel | None:
    """The channel of a trial with every E multiplied; None where it must refuse."""
    tried = replace(trial, metric=scaled(trial.metric, factor))
    # Rows that are given, not searched for, are those of ε = 1.
    least = 1 if trial.choice.options().get("table") else Fraction(1, 10**6)
    refused = {"extremal": factor < least, "matrix-response": factor > 10**100}
    # The noise is as wide as a plane of 10^18 cells: words may be too few for each.
    sparse = trial.choice.id == "planar" and factor < Fraction(1, 10**6)
    if sparse:
        with contextlib.suppress(StudyError):
            return tried.bind()
        return None
    if not refused.get(trial.choice.id):
        return tried.bind()
    with pytest.raises(StudyError, match=r"E must be at|does not keep the metric"):
        tried.bind()
    return None


@pytest.mark.slow
@pytest.mark.parametrize("kind", REGISTRY)
def test_every_channel_is_bound_drawn_from_and_checked(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound = 0
    for trial in REGISTRY[kind].trials():
        for epsilon in EPSILONS:
            channel = bound_at(trial, Fraction(epsilon))
            if channel is None:
                continue
            bound += 1
            cells = np.arange(channel.size) << channel.resolution
            assert len(channel.encode(cells, SeededBits(1))) == channel.size
            found = channel.check(channel.metric)
            assert found.problems == []
            assert found.spent <= 1
            with monkeypatch.context() as patch:
                patch.setattr(type(channel), "most_ratios", 0)
                structure = channel.check(channel.metric)
            assert structure.spent <= 1
            for problem in structure.problems:
                assert "shows no structure" in problem
    assert bound >= 5 * len(REGISTRY[kind].trials())


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [10**6, 10**12, "1e300"])
def test_a_joint_comb_at_a_huge_epsilon_is_audited(epsilon: int | str) -> None:
    axes = [sf.integers("row", 0, 63), sf.integers("seat", 0, 63)]
    study = sf.Study("seats", axes, protect=sf.Uniform(epsilon), channel=sf.Comb())
    (found,) = sf.audit(study).axes
    assert found.holds
    assert found.method == "by structure"
    assert found.spent < 1e-4


@pytest.mark.parametrize("epsilon", [10**6, 10**12])
@pytest.mark.parametrize("choice", [sf.Geometric(), sf.Thermometer()], ids=lambda c: c.id)
def test_a_long_axis_at_a_huge_epsilon_is_audited(epsilon: int, choice: sf.Geometric) -> None:
    axis = sf.integers("age", 0, 999, protect=sf.Distance(epsilon, cap=None), channel=choice)
    assert sf.audit(sf.Study("ages", [axis])).holds


def test_bounds_that_words_can_reach_are_still_decided_exactly() -> None:
    """The short cut by lengths never lets anything through: odds of 2^64 are e^44.36."""
    for power in (1, 10, 64, 640):
        log = Fraction(power * 6931471805599453, 10**16)  # just below the logarithm of 2^power
        assert not Bound(log).allows(1 << power, 1)
        assert Bound(log + Fraction(power, 10**15)).allows(1 << power, 1)
    assert not Bound(Fraction(10**12)).allows(1, 0)
    assert Bound(Fraction(10**12)).allows(0, 0)
