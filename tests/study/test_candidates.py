"""Every metric gets the channel with the smallest error: none loses to a stronger guarantee."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.channels.choice import Choice
from sfumato.channels.searched.extremal import Extremal
from sfumato.errors import StudyError, TooLargeError
from sfumato.metrics.cells import TableMetric
from sfumato.study import candidates
from sfumato.study.candidates import Asked, best_channel

N = 10_000


def labels(size: int) -> list[str]:
    return [f"l{cell}" for cell in range(size)]


def path(size: int, epsilon: float) -> sf.PolicyGraph:
    names = labels(size)
    return sf.PolicyGraph(epsilon, list(itertools.pairwise(names)))


def error(axis: sf.Axis, kind: str, channel: Choice | None = None) -> float:
    """The standard error of typical questions, exactly."""
    study = sf.Study("candidates", [replace(axis, channel=channel)])
    return next(row.stderr for row in study.expected_error(N).rows if row.kind == kind)


def named(size: int, protect: Any) -> sf.Axis:
    return sf.categories("x", labels(size), protect=protect)


def test_a_weaker_guarantee_is_no_worse_than_a_stronger_one() -> None:
    sensitive = error(named(100, sf.SensitiveSet(1, labels(10))), "cell")
    assert sensitive < error(named(100, sf.Uniform(1)), "cell")
    assert 100 * sensitive**2 < 2.8e6  # what MatrixResponse("identity") has
    one = error(named(100, sf.SensitiveSet(1, labels(1))), "cell")
    assert 100 * one**2 < 3.6e6  # Xiang et al. 2020
    near = error(sf.integers("x", 0, 99, protect=sf.Within(1, 10)), "range")
    assert near < 0.5 * error(sf.integers("x", 0, 99, protect=sf.Uniform(1)), "range")


def test_a_path_is_as_good_as_the_line_that_it_is() -> None:
    ages = sf.integers("x", 0, 99, protect=sf.Distance(0.5))
    graph = sf.PolicyGraph(0.5, [(k, k + 1) for k in range(99)])
    assert error(replace(ages, protect=graph), "range") == error(ages, "range") < 88
    shuffled = np.random.default_rng(1).permutation(labels(30)).tolist()
    other = sf.categories("x", shuffled, protect=path(30, 0.5))
    assert error(other, "cell") == pytest.approx(error(named(30, path(30, 0.5)), "cell"), rel=0.02)


@pytest.mark.parametrize(
    ("block", "epsilon", "most"), [(2, 1, 48.1), (2, 4, 6.95), (4, 2, 39.4), (4, 4, 12.05)]
)
def test_small_blocks_get_the_response_that_suits_them(
    block: int, epsilon: float, most: float
) -> None:
    names = labels(8)
    protect = sf.Blocks(epsilon, [names[start : start + block] for start in range(0, 8, block)])
    assert error(named(8, protect), "cell") <= most


def test_ordered_blocks_are_asked_for_ranges() -> None:
    hours = sf.integers("x", 0, 63, protect=sf.Blocks(1, [range(32), range(32, 64)]))
    assert error(hours, "range") < 0.8 * error(hours, "range", sf.Hadamard())


def test_few_cells_under_any_matrix_are_searched() -> None:
    away = np.abs(np.subtract.outer(np.arange(8), np.arange(8))) * 0.5
    uneven = named(8, sf.Matrix(away + np.triu(np.full((8, 8), 0.3), 1)))
    assert error(uneven, "cell") < 198  # the best code of flipped bits
    assert error(uneven, "cell") <= error(uneven, "cell", sf.Exponential())


def test_a_matrix_is_as_good_as_the_high_low_that_it_is() -> None:
    rows = np.full((8, 8), np.inf)
    rows[:3] = 1.0
    np.fill_diagonal(rows, 0.0)
    same = named(8, sf.HighLow(1, labels(3)))
    assert error(named(8, sf.Matrix(rows)), "cell") == error(same, "cell")


def test_explain_says_why() -> None:
    study = sf.Study("near", [sf.integers("x", 0, 199, protect=sf.Within(1, 20))])
    words = " ".join(study.explain().split())
    assert "Sent by the comb channel" in words
    assert "times smaller than that of the next best" in words


def test_what_was_found_is_kept_and_not_searched_for_again(monkeypatch: Any) -> None:
    away = np.abs(np.subtract.outer(np.arange(6), np.arange(6))) * 0.5
    axis = named(6, sf.Matrix(away + np.triu(np.full((6, 6), 0.3), 1)))
    study = sf.Study("uneven", [axis])
    assert isinstance(study.blocks[0].choice, Extremal)

    def refuse(*_: object) -> None:
        raise AssertionError("searched again")

    monkeypatch.setattr(Extremal, "_search", refuse)
    monkeypatch.setattr("sfumato.files.read", lambda _: None)
    again = sf.Study.from_toml(study.to_toml())
    assert again.fingerprint == study.fingerprint
    assert again.reasons == study.reasons != ("",)


def test_each_candidate_of_equal_blocks_is_bound_once(monkeypatch: Any) -> None:
    bound = []

    def counted(self: Extremal, metric: Any, **more: Any) -> Any:
        bound.append(metric)
        return bind(self, metric, **more)

    bind = Extremal.bind
    monkeypatch.setattr(Extremal, "bind", counted)
    blocks = [range(start, start + 10) for start in range(0, 60, 10)]
    study = sf.Study("b", [sf.integers("x", 0, 59, protect=sf.Blocks(1, blocks))])
    (inside,) = study.blocks[0].choice.options()["channels"]
    assert "extremal" in inside.values()
    # As a candidate for the blocks, in all of them together, and for all cells as one.
    assert [metric.size for metric in bound] == [10, 10, 60]


def test_questions_that_are_alike_on_some_cells_become_one() -> None:
    asked = Asked.of(30, 30, ordered=True)
    some = asked.at(np.arange(10, 15))
    assert len(some.rows) == 7 < len(asked.rows)
    whole = (asked.rows * asked.shares[:, None]).T @ asked.rows
    part = (some.rows * some.shares[:, None]).T @ some.rows
    np.testing.assert_allclose(part, whole[10:15, 10:15], rtol=1e-9)


def test_cells_that_need_not_hide_at_all_are_told() -> None:
    names = labels(3)
    told = sf.Matrix(np.where(np.eye(3, dtype=bool), 0, np.inf))
    study = sf.Study("told", [sf.categories("x", names, protect=told)])
    answer = study.simulate({"x": ["l0", "l2", "l2"]}, seed=1).estimate("unbiased").count("x=l2")
    assert (answer.value, answer.stderr) == (2, 0)


def test_a_metric_that_no_channel_can_serve_is_refused(monkeypatch: Any) -> None:
    metric = TableMetric(np.array([[0, 1, 3], [1, 0, 1], [2, 1, 0]]), 1, 3)
    monkeypatch.setattr(candidates, "_candidates", lambda *_: [sf.KaryResponse(), sf.Geometric()])
    with pytest.raises(StudyError, match="no channel can serve this metric: KaryResponse does not"):
        best_channel(metric, Asked.of(3, 3, ordered=False))


@pytest.mark.parametrize(
    ("protect", "why"),
    [
        (sf.Blocks("1e-30", [labels(6)[:3], labels(6)[3:]]), "no channel can serve this metric: "),
        (sf.Blocks("1e-30", np.reshape(labels(6), (3, 2)).tolist()), "no channel can .* metric: "),
        (sf.HighLow("1e-30", labels(5)), ""),
        (sf.Uniform("1e-30"), ""),
    ],
)
def test_the_refusal_names_the_axis_the_reason_and_the_remedy(protect: Any, why: str) -> None:
    words = rf"^axis 'x': {why}a table of 2\^64 words is too coarse for .*; use a larger epsilon"
    with pytest.raises(StudyError, match=words):
        sf.Study("none", [named(6, protect)])


@pytest.mark.slow
@pytest.mark.parametrize("cap", [None, 3])
def test_many_unequal_cells_are_taken_as_equal_ones(cap: int | None) -> None:
    edges = np.cumsum(1.0 + np.arange(4_200) % 3).tolist()
    protect = sf.Distance("1/20", cap=cap)
    study = sf.Study("unequal", [sf.reals("x", edges=edges, protect=protect)])
    assert study.blocks[0].choice == sf.Stricter("line", sf.Geometric(), cap)


@pytest.mark.parametrize(
    ("protect", "error", "told"),
    [
        (sf.Within(1, 5), TooLargeError, "for at most 2048 cells, and the axis has 3000"),
        (sf.Distance("1e-30"), StudyError, r"lie between 2\^-50 and 1e308, got 1e-30: change"),
    ],
)
def test_a_metric_that_cannot_be_bound_is_refused_with_its_axis(
    protect: Any, error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=f"^axis 'x': .* {told}"):
        sf.Study("none", [sf.integers("x", 1, 3000, protect=protect)])


def test_a_sole_candidate_is_not_measured(monkeypatch: Any) -> None:
    """100,000 cells that may be left unanswered would take seconds."""
    measured = []
    usual = Asked.variance

    def counted(self: Asked, channel: Any) -> float:
        measured.append(channel.size)
        return usual(self, channel)

    monkeypatch.setattr(Asked, "variance", counted)
    protect = sf.Distance(0.5, no_answer=50)
    many, few = (sf.integers("x", 0, last, protect=protect, optional=True) for last in (999, 9))
    study = sf.Study("many", [many])
    assert study.blocks[0].choice == sf.Extended(sf.Geometric())
    assert study.reasons == ("no other channel is tried on so many cells",)
    assert not measured
    sf.Study("few", [few])
    assert len(measured) > 1


def test_a_table_too_long_for_devices_is_no_default(monkeypatch: Any) -> None:
    axis = sf.integers("x", 0, 9, protect=sf.Distance(1, cap="3/2"))
    usual = sf.Study("capped", [axis])
    assert isinstance(usual.blocks[0].choice, Extremal)
    size = len(usual.device_program().to_text())
    monkeypatch.setattr(candidates, "MOST_PROGRAM_BYTES", size // 2)
    other = sf.Study("capped", [axis])
    assert not other.blocks[0].choice.slow


def test_the_record_of_all_metrics_holds_what_is_promised() -> None:
    """`python -m benchmarks metrics`: exact errors, against candidates listed there one by one."""
    file = Path(__file__).parents[2] / "results" / "bench" / "metrics.json"
    rows = json.loads(file.read_text(encoding="utf-8"))["figures"]
    assert len({row["case"] for row in rows}) >= 60
    assert max(row["over the best"] for row in rows) <= 1.10
    assert max(row["over the paper's"] for row in rows if row["paper"]) <= 1.0
