"""Every metric gets the channel with the smallest error: none loses to a stronger guarantee."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.channels.choice import Choice
from sfumato.channels.searched.extremal import Extremal
from sfumato.errors import StudyError, TooLargeError
from sfumato.metrics.cells import TableMetric
from sfumato.metrics.distance import LineMetric
from sfumato.metrics.labelled import HighLowMetric
from sfumato.metrics.uniform import UniformMetric
from sfumato.study import candidates
from sfumato.study.asked import Asked
from sfumato.study.candidates import best_channel

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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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
    asked = Asked.of(30, 31, ordered=True)
    whole, few = gram(asked), gram(asked.at(np.arange(10, 15)))
    np.testing.assert_allclose(few, whole[10:15, 10:15], rtol=1e-9)
    rows = sf.questions.Ranges(30, size=31).dense()
    np.testing.assert_allclose(whole, rows.T @ rows / len(rows), rtol=1e-9)


def gram(asked: Asked) -> Any:
    """The mean of wᵀw over the questions."""
    rows, shares = asked.rows(UniformMetric(Fraction(1), len(asked.places)))
    return (rows * shares[:, None]).T @ rows


def test_some_ranges_stand_for_all_of_a_long_axis() -> None:
    asked = Asked.of(4_096, 4_096, ordered=True)
    rows, shares = asked.rows(LineMetric.equal(Fraction(1), 4_096))
    assert len(rows) == 34
    # A third of the axis is counted on average, whoever answers: within one part of 33.
    assert float(shares @ (rows**2).mean(axis=1)) == pytest.approx(1 / 3, abs=1 / 33)
    ends = rows[:-1].sum(axis=1)
    assert len(np.unique(ends % 128)) > 25  # they keep clear of the nodes of a tree


@pytest.mark.parametrize("sensitive", [1, 5, 2_500])
def test_cells_of_every_kind_have_their_share(sensitive: int) -> None:
    metric = HighLowMetric(Fraction(1), np.arange(5_000) < sensitive)
    rows, shares = Asked.of(5_000, 5_000, ordered=False).rows(metric)
    asked = rows.argmax(axis=1)
    assert shares.sum() == pytest.approx(1)
    assert shares[asked < sensitive].sum() == pytest.approx(sensitive / 5_000)
    assert len(rows) <= 33


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


def halves(size: int) -> list[range]:
    return [range(size // 2), range(size // 2, size)]


def runs(*sizes: int) -> list[range]:
    ends = [0, *itertools.accumulate(sizes)]
    return [range(a, b) for a, b in itertools.pairwise(ends)]


TREE = sf.Hierarchical(8, "best", "optimised")

#: A metric on many cells, what is asked, and a channel under a guarantee at least as strong.
LARGE: dict[str, tuple[sf.Axis, str, Choice]] = {
    "blocks": (
        sf.integers("x", 0, 4_999, protect=sf.Blocks(1, halves(5_000))),
        "range",
        sf.PerBlock(TREE),
    ),
    "blocks of two": (
        named(600, sf.Blocks(1, [labels(600)[k : k + 2] for k in range(0, 600, 2)])),
        "cell",
        sf.PerBlock(sf.KaryResponse()),
    ),
    "blocks of 1 to 40": (
        sf.integers("x", 0, 819, protect=sf.Blocks(1, runs(*range(1, 41)))),
        "range",
        sf.Hadamard(),
    ),
    "blocks of 1 to 80": (
        sf.integers("x", 0, 3_239, protect=sf.Blocks(1, runs(*range(1, 81)))),
        "range",
        sf.Hadamard(),
    ),
    "half sensitive": (
        sf.integers("x", 0, 4_999, protect=sf.HighLow(1, range(2_500))),
        "range",
        sf.Stricter("uniform", TREE),
    ),
    "few sensitive": (named(5_000, sf.HighLow(1, labels(5))), "cell", sf.Hadamard()),
    "capped": (
        sf.integers("x", 0, 4_999, protect=sf.Distance("1/2", cap=3)),
        "range",
        sf.Stricter("uniform", TREE),
    ),
    "capped early": (
        sf.integers("x", 0, 4_999, protect=sf.Distance("1/1000", cap="1/2")),
        "range",
        sf.Stricter("uniform", TREE),
    ),
    "optional": (
        sf.integers("x", 0, 4_999, protect=sf.Distance(1, no_answer=1), optional=True),
        "range",
        sf.Stricter("uniform", TREE),
    ),
}


def sampled(axis: sf.Axis, kind: str, channel: Choice | None = None) -> float:
    """The mean variance of twenty typical questions; all take part in those about few cells."""
    study = sf.Study("candidates", [replace(axis, channel=channel)])
    rng = np.random.default_rng(5)
    values, size = axis.domain.size, study.channels[0].size
    if kind == "range":
        ends = np.sort(rng.integers(0, values + 1, (20, 2)))
        rows = ((ends[:, :1] <= np.arange(size)) & (np.arange(size) < ends[:, 1:])).astype(float)
    else:
        rows = np.eye(size)[:: size // 20]
    return float((study.channels[0].second_moment(rows) - rows**2).mean())


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_no_default_of_many_cells_loses_to_a_stronger_guarantee(name: str) -> None:
    axis, kind, other = LARGE[name]
    assert sampled(axis, kind) <= 1.1 * sampled(axis, kind, other)


@pytest.mark.slow
@pytest.mark.parametrize(
    "protect", [sf.Blocks(1, halves(1 << 18)), sf.HighLow(1, range(1 << 17))], ids=["blocks", "low"]
)
def test_hundreds_of_thousands_of_cells_get_a_default(protect: Any) -> None:
    study = sf.Study("large", [sf.integers("x", 0, (1 << 18) - 1, protect=protect)])
    assert "hierarchical" in json.dumps(study.blocks[0].choice.options())


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
