"""Flipped bits of any code: the exact law, what they generalise, and what is refused."""

from __future__ import annotations

import sys
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_channels import exceeding_pair, is_tight, labels

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import sfumato as sf  # noqa: E402
from sfumato.arrays import Floats  # noqa: E402
from sfumato.channels.odds import Findings  # noqa: E402
from sfumato.channels.searched import matrix_response  # noqa: E402
from sfumato.channels.searched.codec import Code  # noqa: E402
from sfumato.channels.searched.matrix_response import (  # noqa: E402
    MOST_SEARCHED_CELLS,
    MatrixResponseChannel,
)
from sfumato.channels.searched.settling import gram_of  # noqa: E402
from sfumato.errors import (  # noqa: E402
    StudyError,
    TooLargeError,
)
from sfumato.metrics.cells import CellMetric  # noqa: E402
from sfumato.metrics.distance import LineMetric  # noqa: E402
from sfumato.metrics.labelled import BlockMetric  # noqa: E402
from sfumato.metrics.uniform import UniformMetric  # noqa: E402
from sfumato.noise.search import search  # noqa: E402
from sfumato.noise.strategies import variances  # noqa: E402
from sfumato.questions.lines import Identity  # noqa: E402

HALF = Fraction(1, 2)
BLOCKS = BlockMetric(Fraction(1), np.array([0, 0, 0, 1, 1]))
#: Single cells, and the block, which may be told without noise.
WITH_BLOCK = [*np.eye(5, dtype=int).tolist(), [1, 1, 1, 0, 0]]


def asymmetric(size: int) -> CellMetric:
    """The smaller direction counts, and some pairs are infinitely far."""
    values: list[list[Any]] = [
        [0 if i == j else 1 + abs(i - j) % 3 + (i > j) for j in range(size)] for i in range(size)
    ]
    values[0][size - 1] = values[size - 1][0] = float("inf")
    return sf.categories("x", labels(size), protect=sf.Matrix(values)).metric()


def towns(size: int = 7) -> CellMetric:
    places = np.random.default_rng(4).uniform(0, 4, (size, 2)).round(2).tolist()
    at = dict(zip(labels(size), map(tuple, places), strict=True))
    return sf.categories("x", labels(size), protect=sf.Points(1, at=at)).metric()


# What it generalises


@pytest.mark.parametrize(
    "metric",
    [
        LineMetric.equal(Fraction(1, 5), 12),
        LineMetric([Fraction(1, 3), Fraction(1, 7), Fraction(2), Fraction(3, 5)]),
    ],
    ids=["equal steps", "unequal steps"],
)
def test_prefixes_along_a_line_are_the_thermometer(metric: LineMetric) -> None:
    own, other = sf.MatrixResponse("prefix").bind(metric), sf.Thermometer().bind(metric)
    assert own.flip_words == other.flip_words
    assert own.tightness == other.tightness > 0
    w = np.random.default_rng(1).normal(size=(4, metric.size))
    np.testing.assert_allclose(own.coefficients(w), other.coefficients(w), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(own.second_moment(w), other.second_moment(w), rtol=1e-12)


@pytest.mark.parametrize("eps", ["1/10", "1", "3"])
def test_cells_under_one_epsilon_are_unary_encoding(eps: str) -> None:
    """Half of ε a bit; with the number of people known a cell has V·(1 − 1/m)."""
    epsilon, size = Fraction(eps), 6
    channel = sf.MatrixResponse("identity").bind(UniformMetric(epsilon, size))
    assert channel.code.rates == (epsilon / 2,) * size
    odds = np.exp(float(epsilon) / 2)
    variance = channel.second_moment(np.eye(size)) - np.eye(size)
    np.testing.assert_allclose(variance, odds / (odds - 1) ** 2 * (1 - 1 / size), rtol=1e-12)


@pytest.mark.parametrize("rate", [0.1, 1.0, 4.0])
def test_a_clamped_discrete_laplace_is_a_flip_of_half_its_variance(rate: float) -> None:
    alpha = np.exp(-rate)
    z = np.arange(-400, 401)
    law = (1 - alpha) / (1 + alpha) * alpha ** np.abs(z)
    stays = law[z >= 0].sum()  # of a one, clamped to 0 and 1
    assert stays == pytest.approx(1 / (1 + alpha), rel=1e-12)
    # Beyond the clamp the odds of a one against a zero are the same: nothing is lost.
    beyond = (z >= 1) & (z < 20)
    odds = alpha ** np.abs(z[beyond] - 1.0) / alpha ** np.abs(z[beyond])
    np.testing.assert_allclose(odds, np.exp(rate))
    rates, unit = np.array([rate]), np.ones(1)
    flips = variances(rates, unit, bits=True)
    noise = variances(rates, unit, bits=False)
    assert noise == pytest.approx(2 * flips)
    assert noise[0] == pytest.approx(float(law @ z**2), rel=1e-9)
    assert flips[0] == pytest.approx(stays * (1 - stays) / (2 * stays - 1) ** 2)


# The exact law


@pytest.mark.slow
@pytest.mark.parametrize(
    ("metric", "strategy"),
    [
        (BLOCKS, WITH_BLOCK),
        (asymmetric(6), "identity"),
        (towns(), "searched"),
        (LineMetric.equal(HALF, 6), "hierarchical"),
    ],
    ids=["block told", "asymmetric", "towns, searched", "tree"],
)
def test_every_pair_and_pattern_is_within_e(metric: CellMetric, strategy: Any) -> None:
    channel = sf.MatrixResponse(strategy).bind(metric)
    rows, total = channel.words()
    assert all(sum(row) == total and min(row) >= 0 for row in rows)
    assert exceeding_pair(rows, metric) is None
    if channel.tightness:
        assert is_tight(rows, metric)
    w = np.random.default_rng(2).normal(size=metric.size)
    law = np.array([[float(Fraction(word, total)) for word in row] for row in rows])
    np.testing.assert_allclose(channel.likelihood(), law, rtol=1e-12, atol=1e-300)
    values = np.asarray(channel.functional(w))
    np.testing.assert_allclose(law @ values, w, atol=1e-9)
    np.testing.assert_allclose(law @ values**2, channel.second_moment(w), rtol=1e-9)


def test_a_bit_that_may_be_told_is_told_and_used() -> None:
    told = sf.MatrixResponse(WITH_BLOCK).bind(BLOCKS)
    assert told.code.rates[-1] is None
    assert told.flip_words[-1] == 0
    block = np.array([1.0, 1, 1, 0, 0])
    np.testing.assert_allclose(told.second_moment(block), block, atol=1e-12)  # no noise at all
    hidden = sf.MatrixResponse("identity").bind(BLOCKS)
    more = hidden.second_moment(np.eye(5)) - np.eye(5)
    less = told.second_moment(np.eye(5)) - np.eye(5)
    assert (less < 0.99 * more).all()
    reports = told.encode(np.array([0, 1, 2, 3, 4] * 40), sf.SeededBits(1))
    assert reports.to_matrix()[:, -1].tolist() == [True, True, True, False, False] * 40
    shown = told.report_likelihood(reports)
    assert not shown[0::5, 3:].any()
    assert (shown[0::5, :3] > 0).all()


# Tables that say too much


def test_rates_above_e_are_refused_however_little_they_are_above() -> None:
    metric = towns()
    code = Code.from_text(str(sf.MatrixResponse("identity").settled(metric).table))
    MatrixResponseChannel(metric=metric, code=code)
    rate = code.rates[0]
    assert rate is not None
    spare = min(
        metric.exact(0, other) - code.spent(0, other)  # type: ignore[operator]
        for other in range(1, 7)
    )
    within = Code(code.members, (rate + spare, *code.rates[1:]))
    MatrixResponseChannel(metric=metric, code=within)
    beyond = Code(code.members, (rate + spare + Fraction(1, 10**30), *code.rates[1:]))
    with pytest.raises(StudyError, match="does not keep the metric"):
        MatrixResponseChannel(metric=metric, code=beyond)
    table = beyond.to_text()
    with pytest.raises(StudyError, match="spend more than E"):
        sf.MatrixResponse("identity", table=table).bind(metric)
    untold = Code(code.members, (None, *code.rates[1:]))
    with pytest.raises(StudyError, match="does not keep the metric"):
        MatrixResponseChannel(metric=metric, code=untold)


def audited(channel: MatrixResponseChannel, metric: CellMetric) -> Findings:
    found = Findings()
    channel.check_structure(metric, found)
    return found


def test_an_audit_by_structure_agrees_and_sees_a_single_word() -> None:
    metric = LineMetric.equal(Fraction(1, 3), 40)
    study = sf.Study(
        "ages",
        [sf.integers("x", 0, 39, protect=sf.Distance("1/3"), channel=sf.MatrixResponse("prefix"))],
    )
    seen = sf.audit(study)
    assert seen.holds
    assert (seen.axes[0].method, seen.axes[0].spent) == ("by structure", pytest.approx(1.0))
    channel = sf.MatrixResponse("prefix").bind(metric)
    assert audited(channel, metric).problems == []
    assert audited(channel, LineMetric.equal(Fraction(33, 100), 40)).problems
    flips = (channel.flip_words[0] - 1, *channel.flip_words[1:])
    object.__setattr__(channel, "flip_words", flips)
    assert "bit 0" in audited(channel, metric).problems[0]
    blocks = sf.MatrixResponse(WITH_BLOCK).bind(BLOCKS)
    assert audited(blocks, BLOCKS).problems == []
    assert audited(blocks, UniformMetric(Fraction(1), 5)).problems


# Strategies that are searched for


@pytest.mark.slow
def test_the_error_that_a_search_states_is_that_of_the_channel() -> None:
    metric = towns()
    found = search(Identity(7), metric, bits=True)
    channel = sf.MatrixResponse(workload="cells").bind(metric)
    variance = channel.second_moment(np.eye(7)) - np.eye(7)
    # Rates lose up to one part in 2^11, and the variance of a bit is about as 1/rate².
    assert 1 - 1e-9 <= variance[:, 0].sum() / found.best.error <= 1 + 2**-9


# Files and refusals


def test_it_comes_back_from_a_file_and_answers() -> None:
    ring = list(pairwise([*labels(6), "c0"]))
    axis = sf.categories(
        "x", labels(6), protect=sf.PolicyGraph(1, ring), channel=sf.MatrixResponse("identity")
    )
    study = sf.Study("ring", [axis])
    again = sf.Study.from_toml(study.to_toml())
    assert again == study
    assert again.axes == study.axes
    people = ["c0"] * 3_000 + ["c3"] * 5_000
    tally = again.tally(study.encode({"x": people}, bits=sf.SeededBits(3)))
    for method in ("unbiased", "likelihood"):
        for label, truth in (("c0", 3_000), ("c3", 5_000), ("c5", 0)):
            answer = tally.estimate(method).count(x=label)
            assert abs(answer.value - truth) < 4 * max(answer.stderr, 20)


def test_workloads_of_one_s_own_have_smaller_errors() -> None:
    halves = [[1, 1, 1, 0, 0, 0, 0]]
    rows = np.concatenate([np.eye(7), halves]).astype(int).tolist()
    metric = UniformMetric(Fraction(1), 7)
    made = sf.MatrixResponse(rows, workload=halves).bind(metric)
    usual = sf.MatrixResponse(rows, workload="cells").bind(metric)
    own = np.array(halves[0], dtype=float)
    one, other = (channel.second_moment(own)[0] for channel in (made, usual))
    assert one < 0.7 * other
    settled = sf.MatrixResponse(rows, workload=halves).settled(metric)
    assert (settled.strategy, settled.workload) == ("given", "own")


def test_damaged_tables_are_refused() -> None:
    metric = LineMetric.equal(HALF, 4)
    table = sf.MatrixResponse("prefix").settled(metric).table
    assert table is not None
    code = Code.from_text(table)
    assert code.rates == (HALF,) * 3
    for bad in (
        "",
        "?",
        table[:-8],
        table[::-1],
        Code(code.members[:, :1], (HALF,) * 3).to_text(),
    ):
        with pytest.raises(StudyError, match="damaged"):
            sf.MatrixResponse("prefix", table=bad)
    with pytest.raises(StudyError, match="its table is for 4 cells and the axis has 5"):
        sf.MatrixResponse("prefix", table=table).bind(LineMetric.equal(HALF, 5))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategy": "prefixes"}, "did you mean 'prefix'"),
        ({"strategy": [[0, 2]]}, "zeros and ones"),
        ({"strategy": [[0.5, 1]]}, "matrix of zeros and ones"),
        ({"strategy": "given"}, "strategy must be one of these"),
        ({"workload": "range"}, "workload must be one of these"),
        ({"branching": 1}, "branching must be a whole number of 2 or more"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(StudyError, match=message):
        sf.MatrixResponse(**options)


def test_axes_that_it_does_not_fit_are_refused() -> None:
    line = LineMetric.equal(HALF, 4)
    with pytest.raises(StudyError, match="strategy has 2 columns and the axis has 4"):
        sf.MatrixResponse([[0, 1]]).bind(line)
    with pytest.raises(StudyError, match="workload has 3 columns and the axis has 4"):
        sf.MatrixResponse("prefix", workload=np.eye(3)).bind(line)
    with pytest.raises(StudyError, match=r"cannot express 2 of 4 questions: 'cell 2'"):
        sf.MatrixResponse([[1, 0, 0, 0], [1, 1, 0, 0]]).bind(line)
    with pytest.raises(StudyError, match="stochastic rounding"):
        sf.MatrixResponse("prefix").bind(line, resolution=20)
    with pytest.raises(TooLargeError, match="the search for its bits"):
        sf.MatrixResponse().settled(LineMetric.equal(HALF, MOST_SEARCHED_CELLS + 1))
    with pytest.raises(TooLargeError, match="the limit is 1024"):
        sf.MatrixResponse("prefix").settled(LineMetric.equal(HALF, 1025))
    long = sf.MatrixResponse("prefix").bind(LineMetric.equal(HALF, 24))
    with pytest.raises(TooLargeError, match="2\\^23 values"):
        long.words()


def test_it_is_compared_where_a_table_holds_the_metric() -> None:
    at = {f"place {k}": (k % 3, k // 3) for k in range(9)}
    places = sf.Study("s", [sf.categories("x", list(at), protect=sf.Points(1, at=at))])
    steps = sf.Study("s", [sf.integers("x", 0, 8, protect=sf.Within(1, 2))])
    for study, rows in ((places, "identity, cells"), (steps, "prefix, ranges")):
        found = study.compare(1_000, methods=["unbiased"])
        names = [row.channel for row in found]
        assert any(rows in name for name in names), names
    line = sf.Study("s", [sf.integers("x", 0, 8, protect=sf.Distance(1))])
    found = line.compare(1_000, methods=["unbiased"])
    assert not any("matrix" in row.channel for row in found)


@pytest.mark.parametrize("strategy", ["identity", "prefix"])
def test_rounding_errors_do_not_change_the_rates(
    strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workload is off by 1e-13, a thousand times more than the last digit of a double."""
    choice, metric = sf.MatrixResponse(strategy, workload="cells"), towns()
    found = choice._search(metric, None)
    rng = np.random.default_rng(1)

    def nearly(workload: str, size: int, off: float = 1e-13) -> Floats:
        gram = gram_of(workload, size) * (1 + off * rng.standard_normal((size, size)))
        result: Floats = (gram + gram.T) / 2
        return result

    monkeypatch.setattr(matrix_response, "gram_of", nearly)
    assert choice._search(metric, None).to_text() == found.to_text()
    monkeypatch.setattr(matrix_response, "gram_of", lambda *asked: nearly(*asked, off=0.1))
    assert choice._search(metric, None).to_text() != found.to_text()
