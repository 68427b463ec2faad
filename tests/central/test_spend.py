"""What a release spends: shares, metrics, and the pair of cells that is worst off."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from helpers_central import STUDIES

import sfumato as sf
from sfumato import central
from sfumato.central.spend import Spend, scaled_metric, worst_share
from sfumato.metrics.base import Metric
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.distance import AsideMetric, LineMetric
from sfumato.metrics.uniform import UniformMetric

LABELS = [f"c{k}" for k in range(5)]


@pytest.fixture
def study() -> sf.Study:
    return sf.Study(
        "commute",
        [
            sf.integers("age", 0, 9, protect=sf.Distance(0.5)),
            sf.categories("mode", ["car", "bus", "bike"], protect=sf.Uniform(1)),
        ],
    )


@pytest.fixture
def ledger(tmp_path: Path, study: sf.Study) -> central.Ledger:
    return central.Ledger.create(tmp_path / "commute.ledger", study)


def reserve(ledger: central.Ledger, spend: Any) -> central.Entry:
    return ledger.reserve(spend, mechanism="a test", people=10)


def bound(protect: Metric) -> CellMetric:
    """A statement as E between five cells."""
    if isinstance(protect, sf.Distance):
        return sf.integers("x", 0, 4, protect=protect).metric()
    return sf.categories("x", LABELS, protect=protect).metric()


METRICS: dict[str, CellMetric] = {
    "line": LineMetric.equal(Fraction(1, 3), 5),
    "uneven": LineMetric([Fraction(1, 2), Fraction(1, 7), Fraction(3), Fraction(1, 5)]),
    "capped": bound(sf.Distance("1/2", cap="6/5")),
    "aside": AsideMetric(LineMetric.equal(Fraction(1, 3), 4), Fraction(2, 5)),
    "uniform": UniformMetric(Fraction(2, 3), 5),
    "blocks": bound(sf.Blocks(1, [LABELS[:2], LABELS[2:]])),
    "high-low": bound(sf.HighLow(1, sensitive=LABELS[:2])),
    "matrix": bound(
        sf.Matrix([[0 if i == j else 1 + (i + 2 * j) % 3 for j in range(5)] for i in range(5)])
    ),
    "downhill": bound(
        sf.Matrix([[0 if i == j else 2 + (i > j) for j in range(5)] for i in range(5)])
    ),
    "zero": UniformMetric(Fraction(0), 5),
}


def by_hand(parts: list[CellMetric], whole: CellMetric) -> Fraction | None:
    """The worst share over all ordered pairs."""
    worst = Fraction(0)
    for i in range(whole.size):
        for j in range(whole.size):
            limit = whole.exact(i, j)
            spent = [part.exact(i, j) for part in parts]
            if i == j or limit is None:
                continue
            if any(e is None for e in spent):
                return None
            worst = max(worst, sum((e for e in spent if e is not None), Fraction(0)) / limit)
    return worst


@pytest.mark.parametrize("whole", [name for name in METRICS if name != "zero"])
@pytest.mark.parametrize("first", METRICS)
@pytest.mark.parametrize("second", METRICS)
def test_the_worst_pair_is_found_whatever_the_metrics_are(
    whole: str, first: str, second: str
) -> None:
    parts = [METRICS[first], METRICS[second]]
    assert worst_share(parts, METRICS[whole]) == by_hand(parts, METRICS[whole])


@pytest.mark.parametrize("name", [name for name in METRICS if name != "zero"])
def test_a_scaled_metric_has_every_distance_times_the_factor(name: str) -> None:
    metric, factor = METRICS[name], Fraction(3, 7)
    times = scaled_metric(metric, factor)
    for i in range(5):
        for j in range(5):
            e = metric.exact(i, j)
            assert times.exact(i, j) == (None if e is None else e * factor)


@pytest.mark.parametrize(
    ("spend", "words"),
    [
        (0, "spend must be positive"),
        ("-1/4", "spend must be positive"),
        ("lots", "spend must be positive"),
        (float("nan"), "spend must be positive"),
        ({}, "must name an axis"),
        ({"agee": "1/4"}, "did you mean 'age'"),
        ({"age": 0}, "spend on 'age' must be positive"),
        ({"mode": sf.Distance(1)}, "spend on axis 'mode'.*categories have none"),
    ],
)
def test_a_spend_that_makes_no_sense_is_refused(
    ledger: central.Ledger, spend: Any, words: str
) -> None:
    with pytest.raises(sf.StudyError, match=words):
        reserve(ledger, spend)
    assert ledger.entries == ()


@pytest.mark.parametrize(
    ("spend", "words"),
    [
        ({"x": "1/4"}, r"axis 'x' is together with others.*\{'x, y': '1/4'\}"),
        ({"x, y": sf.Distance(1)}, r"spend on axes 'x', 'y': several axes together need"),
        ({"y, x": "1/4"}, "no axis 'y, x' to spend on: available are 'x, y', 'age'"),
    ],
)
def test_axes_together_are_paid_for_together(spend: Any, words: str) -> None:
    with pytest.raises(sf.StudyError, match=words):
        Spend.of(spend, STUDIES["together"])


def test_a_part_of_axes_together_costs_all_of_them() -> None:
    schema = STUDIES["together"].schema
    spend = Spend.of("1/4", schema)
    assert str(spend.only([1], schema)) == "x, y: 1/4 of E"
    assert str(spend.only([0, 1], schema)) == "x, y: 1/4 of E"
    assert str(spend.only([2], schema)) == "age: 1/4 of E"
    assert spend.only([0, 2], schema) == spend
    assert str(spend.only([], schema)) == "nothing"


def test_an_axis_that_is_called_like_axes_together_is_refused() -> None:
    """Else one account would stand for both."""
    both = sf.together([sf.integers("x", 0, 2), sf.integers("y", 0, 1)], protect=sf.Uniform(1))
    study = sf.Study("twins", [both, sf.integers("x, y", 0, 2, protect=sf.Distance(1))])
    with pytest.raises(sf.StudyError, match="called like axes together"):
        Spend.of("1/4", study).only([0], study.schema)


def test_a_line_of_many_cells_is_compared_without_a_table() -> None:
    large = LineMetric.equal(Fraction(1), 1 << 22)
    parts: list[CellMetric] = [LineMetric.equal(Fraction(1, 4), 1 << 22)]
    assert worst_share([*parts, UniformMetric(Fraction(1, 8), 1 << 22)], large) == Fraction(3, 8)
