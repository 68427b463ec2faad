"""Every mechanism under every kind of metric: what one person's move costs, for all pairs of cells.

The cost is taken from rates and whole steps alone, and compared with the distances that the study
itself states, axis by axis: neither the pairs that are said to imply all others nor the check of
the allocation take part.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.central.exponential import Exponential
from sfumato.central.laplace import Laplace
from sfumato.central.means import Means
from sfumato.central.measurements import Measurements
from sfumato.central.multiplicative_weights import MWEM
from sfumato.central.small_database import SmallDB
from sfumato.central.space import Space

Cost = Callable[[int, int], Fraction]


INF = float("inf")


ODD = [[0, 1, 3, INF], [0.5, 0, 2, INF], [3, 2, 0, INF], [INF, INF, INF, 0]]


AGE = ("age", 0, 4)


def _age(protect: Any = None, **more: Any) -> Any:
    return sf.integers(*AGE, protect=protect or sf.Distance("1/3"), **more)


def _place(protect: Any, **more: Any) -> Any:
    return sf.categories("place", ["a", "b", "c", "d"], protect=protect, **more)


STUDIES: dict[str, sf.Study] = {
    "line × uniform": sf.Study("s", [_age(), _place(sf.Uniform(1))]),
    "capped × one way": sf.Study("s", [_age(sf.Distance(1, cap=2)), _place(sf.Matrix(ODD))]),
    "optional × blocks": sf.Study(
        "s",
        [
            _age(sf.Distance(1, no_answer=2), optional=True),
            _place(sf.Blocks(2, [["a", "b"], ["c", "d"]])),
        ],
    ),
    "line × sensitive": sf.Study("s", [_age(), _place(sf.HighLow(1, ["b"]))]),
    "graph": sf.Study("s", [_age(), _place(sf.PolicyGraph(1, [("a", "b"), ("b", "c", 2)]))]),
    "whole records": sf.Study(
        "s",
        [sf.integers(*AGE), sf.categories("place", ["a", "b", "c", "d"])],
        protect=sf.Uniform(1),
    ),
    "one × two together": sf.Study(
        "s",
        [
            _age(),
            sf.together(
                [sf.categories("place", ["a", "b", "c", "d"]), sf.integers("floor", 0, 1)],
                protect=sf.Uniform("3/2"),
            ),
        ],
    ),
    "two together × blocks": sf.Study(
        "s",
        [
            sf.together([sf.integers("floor", 0, 1), sf.integers(*AGE)], protect=sf.Uniform("3/2")),
            _place(sf.Blocks(2, [["a", "b"], ["c", "d"]])),
        ],
    ),
}
SPENDS: dict[str, Any] = {
    "a share": "1/3",
    "by axis": {"age": "1/3", "place": "1/7"},
    "a metric": {"age": sf.Uniform("1/9"), "place": "1/7"},
}


def spends(study: sf.Study) -> dict[str, Any]:
    """Every way to spend on a study, by the names of its groups."""
    groups = [[study.axes[axis].name for axis in block.axes] for block in study.blocks]
    if len(groups) == 1:
        return {"a share": SPENDS["a share"]}
    found = {}
    for how, spend in SPENDS.items():
        named = [(", ".join(names), set(names)) for names in groups]
        found[how] = (
            spend
            if isinstance(spend, str)
            else {name: spend[(SPENDS["by axis"].keys() & own).pop()] for name, own in named}
        )
    return found


CASES = [
    pytest.param(study, spend, id=f"{name}, {how}")
    for name, study in STUDIES.items()
    for how, spend in spends(study).items()
]


def allowed(study: sf.Study, spend: Any, i: int, j: int) -> Fraction | None:
    """What the study and the spend say about two cells in words, without a `Space`."""
    records = np.transpose(np.unravel_index([i, j], study.shape)).tolist()
    total = Fraction(0)
    for group in study.schema.groups:
        axes = [study.axes[axis] for axis in group.axes]
        a, b = ([record[axis] for axis in group.axes] for record in records)
        part = spend[", ".join(axis.name for axis in axes)] if isinstance(spend, dict) else spend
        times = Fraction(part) if isinstance(part, str) else Fraction(1)
        protect = group.protect if isinstance(part, str) else part
        if len(axes) > 1:
            assert isinstance(protect, sf.Uniform)
            total += times * (protect.epsilon if a != b else 0)
            continue
        distance = protect.bind(axes[0].domain, optional=axes[0].optional).exact(a[0], b[0])
        if distance is None:
            return None
        total += times * distance
    return total


def seen_as(study: sf.Study, axes: Sequence[int]) -> list[int]:
    """The cell of some axes in which each cell of the study lies."""
    shape = tuple(study.shape[axis] for axis in axes)
    places = np.unravel_index(np.arange(int(np.prod(study.shape))), study.shape)
    return np.ravel_multi_index([places[axis] for axis in axes], shape).tolist()


def steps_of(lattice: Any) -> list[list[int]]:
    held = lattice.toarray() if hasattr(lattice, "toarray") else np.asarray(lattice)
    return [[int(step) for step in row] for row in held]


def of_noise(measured: Measurements, cells: list[int]) -> Cost:
    rows = steps_of(measured.lattice.steps)

    def cost(i: int, j: int) -> Fraction:
        total = Fraction(0)
        for rate, row in zip(measured.rates, rows, strict=True):
            apart = abs(row[cells[i]] - row[cells[j]])
            if rate is None:
                assert not apart
            else:
                total += rate * apart
        return total

    return cost


def worst(study: sf.Study, spend: Any, cost: Cost) -> Fraction:
    """The largest share of a pair's distance that is spent; every pair must keep its own."""
    most = Fraction(0)
    for i, j in itertools.permutations(range(int(np.prod(study.shape))), 2):
        distance = allowed(study, spend, i, j)
        if distance is not None:
            spent = cost(i, j)
            assert spent <= distance, (i, j)
            most = max(most, spent / distance)
    return most


def asked(study: sf.Study) -> list[str]:
    return ["age=1..2, place=b", "place=a|c", "prefixes of age", "total"]


@pytest.mark.slow
@pytest.mark.parametrize(("study", "spend"), CASES)
@pytest.mark.parametrize("strategy", ["questions", "identity", "prefix", "hierarchical", "haar"])
def test_noise_on_questions_keeps_every_distance(
    study: sf.Study, spend: Any, strategy: str
) -> None:
    prepared = Laplace(asked(study), strategy).prepare(Space(study, spend), 10)
    cells = seen_as(study, prepared.asked.axes)
    found = worst(study, spend, of_noise(prepared.design.measurements, cells))
    assert found > Fraction(999, 1000)


@pytest.mark.slow
@pytest.mark.parametrize(("study", "spend"), CASES)
@pytest.mark.parametrize("allocation", ["equal", "shared", "psa"])
def test_published_allocations_keep_every_distance(
    study: sf.Study, spend: Any, allocation: str
) -> None:
    prepared = Laplace(asked(study), "questions", allocation=allocation).prepare(
        Space(study, spend), 10
    )
    cells = seen_as(study, prepared.asked.axes)
    worst(study, spend, of_noise(prepared.design.measurements, cells))


@pytest.mark.parametrize(("study", "spend"), CASES)
@pytest.mark.parametrize("bias", ["none", "optimised"])
def test_averages_keep_every_distance(study: sf.Study, spend: Any, bias: Any) -> None:
    values = {"age": [0, 1, 4, 9, 16, 5], "place": [0.1, 0.7, 0.7, 2.0, 0.3], "floor": [0, 1]}
    functions = {axis.name: (axis.name, values[axis.name][: axis.size]) for axis in study.axes}
    means = Means(functions, bias=bias)
    prepared = means.prepare(Space(study, spend), 10)
    costs = [of_noise(p.measurements, seen_as(study, (p.axis,))) for p in prepared.parts]
    found = worst(study, spend, lambda i, j: sum((cost(i, j) for cost in costs), Fraction(0)))
    assert found > Fraction(999, 1000)


@pytest.mark.parametrize(("study", "spend"), CASES)
def test_choices_keep_every_distance(study: sf.Study, spend: Any) -> None:
    """The odds of two candidates change by the rate times the difference of their moves."""
    rng = np.random.default_rng(3)
    scores = rng.integers(-4, 5, (3, int(np.prod(study.shape)))) / 4
    prepared = Exponential(["x", "y", "z"], scores).prepare(Space(study, spend), 10)
    rows = [[Fraction(step) * prepared.unit for step in row] for row in steps_of(prepared.steps)]
    assert prepared.rate is not None
    rate = prepared.rate

    def cost(i: int, j: int) -> Fraction:
        moves = [row[j] - row[i] for row in rows]
        return rate * (max(moves) - min(moves))

    assert worst(study, spend, cost) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("study", "spend"), CASES)
@pytest.mark.parametrize("variant", ["published", "replayed"])
def test_rounds_and_check_together_keep_every_distance(
    study: sf.Study, spend: Any, variant: Any
) -> None:
    mechanism = MWEM(asked(study)[:3], rounds=3, variant=variant, check="1/5")
    prepared = mechanism.prepare(Space(study, spend), 10)
    cells = seen_as(study, prepared.asked.axes)
    common, own = steps_of(prepared.steps), steps_of(prepared.lattice.steps)
    grid = 1 << prepared.bits

    def cost(i: int, j: int) -> Fraction:
        a, b = cells[i], cells[j]
        score = grid * max(abs(row[a] - row[b]) for row in common)
        noise = [prepared.measurement_rate(k) * abs(row[a] - row[b]) for k, row in enumerate(own)]
        round_ = 2 * prepared.choice_rate * score + max(noise)
        return prepared.rounds * round_ + prepared.check_rate * score

    assert worst(study, spend, cost) == 1


@pytest.mark.parametrize(("study", "spend"), CASES)
def test_small_databases_keep_every_distance(study: sf.Study, spend: Any) -> None:
    prepared = SmallDB(["age=1..2", "prefixes of age"], alpha=0.9).prepare(Space(study, spend), 10)
    cells = seen_as(study, prepared.asked.axes)
    rows = steps_of(prepared.steps)
    per_step = prepared.step_rate * prepared.records  # errors are in parts of a step

    def cost(i: int, j: int) -> Fraction:
        return 2 * per_step * max(abs(row[cells[i]] - row[cells[j]]) for row in rows)

    assert worst(study, spend, cost) == 1


def test_too_high_a_rate_would_be_seen() -> None:
    """The comparison can fail: a rate one part in a million too high is one too many."""
    study = STUDIES["line × uniform"]
    prepared = Laplace(asked(study), "questions").prepare(Space(study, "1/3"), 10)
    held = prepared.design.measurements
    more = tuple(rate and rate * Fraction(1_000_001, 1_000_000) for rate in held.rates)
    cost = of_noise(Measurements(held.lattice, more), seen_as(study, prepared.asked.axes))
    with pytest.raises(AssertionError):
        worst(study, "1/3", cost)
