"""The errors that a plan ought to state, computed from the exact law of a study's reports.

Questions are laid out one by one and read by the functions of single reports; no sum over questions
is taken in closed form here, and nothing is sampled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product

import numpy as np
import pytest
from helpers_contract import Floats
from helpers_contract_study import Case

import sfumato as sf
from sfumato.channels.base import signs
from sfumato.planning.expected_error import Method, Plan, PlanRow
from sfumato.questions.language import weights

N = 1_000
PLAN_RUNS = 20  # of simulated plans: the default
#: Readings divide by chances that words round at 2^-40, and squares of large readings cancel.
CLOSE = 1e-7


def own_question(study: sf.Study) -> str:
    """One question about all axes, in words: the last cells of each, or its second one alone."""
    parts = []
    for axis in study.axes:
        labels = axis.labels()[: axis.domain.size]
        at = max(1, len(labels) // 2)
        ends = f"{labels[at].split('..')[0]}..{labels[-1].split('..')[-1]}"
        parts.append(f"{axis.name}={ends if axis.domain.ordered else labels[at]}")
    return ", ".join(parts)


def questions(case: Case, row: PlanRow, law: Floats) -> Iterator[list[Floats]]:
    """Every question that a row stands for: weights on the cells of each axis."""
    axes = case.study.axes
    if row.kind == "asked":
        found = weights(axes, row.question).weights
        yield [np.ones(a.size) if w is None else w for a, w in zip(axes, found, strict=True)]
        return
    by_axis = []
    for place, axis in enumerate(axes):
        size = axis.domain.size  # "no answer", if there is such a cell, comes after these
        cells = np.arange(axis.size)
        others = tuple(d for d in range(len(axes)) if d != place)
        alone = law.reshape(case.study.shape).sum(axis=others)[:size]
        if axis.name not in row.axes:
            by_axis.append([np.ones(axis.size)])
        elif row.kind == "mean":
            numbers = axis.domain.numbers()
            assert numbers is not None
            if axis.optional:  # to first order, by how far everybody is from the mean
                numbers = (numbers - alone @ numbers / alone.sum()) / alone.sum()
            by_axis.append([np.append(numbers, np.zeros(axis.size - size))])
        elif row.kind == "decile":
            upto = np.cumsum(alone) / alone.sum()
            tenths = [int(np.argmax(upto >= k / 10 - 1e-9)) for k in range(1, 10)]
            by_axis.append([(cells <= min(t, size - 2)).astype(float) for t in tenths])
        elif row.kind == "range" and axis.domain.ordered:
            ends = [(low, high) for low in range(size) for high in range(low, size)]
            by_axis.append([((low <= cells) & (cells <= high)).astype(float) for low, high in ends])
        else:
            by_axis.append(list(np.eye(size, axis.size)))
    yield from (list(parts) for parts in product(*by_axis))


def on_grid(parts: list[Floats], axes: Sequence[int] | None = None) -> Floats:
    """Weights of one question on the cells of some axes together, of all if none are named."""
    grid = np.ones(())
    for axis in range(len(parts)) if axes is None else axes:
        grid = np.multiply.outer(grid, parts[axis])
    return grid.ravel()


def readings(case: Case, parts: list[list[Floats]]) -> list[Floats]:
    """For each block, f of every question (rows) at every output of the block (columns)."""
    found = []
    for block in case.study.blocks:
        rows = np.array([on_grid(by_axis, block.axes) for by_axis in parts])
        read = block.channel.coefficients(rows)
        if block.channel.layout.kind == "bits":
            read = read[..., :1] + read[..., 1:] @ signs(block.channel.layout.count).T
        found.append(read)
    return found


def variances_of(case: Case, parts: list[list[Floats]]) -> Floats:
    """The variance of one person's reading: one row per question, one column per record."""
    moment = mean = np.ones((len(parts), 1))
    for rows, read in zip(case.tables, readings(case, parts), strict=True):
        total = sum(rows[0])
        chances = np.array([[word / total for word in words] for words in rows])
        pairs = (read**2 @ chances.T, read @ chances.T)
        moment, mean = (
            (held[:, :, None] * part[:, None, :]).reshape(len(parts), -1)
            for held, part in zip((moment, mean), pairs, strict=True)
        )
    return moment - mean**2


def plans_what_comes(case: Case, plan: Plan, law: Floats, worst: bool = False) -> None:
    """Every error of a plan is that of the exact law, or above it where it is called a bound."""
    assert plan.rows
    for row in plan:
        found = variances_of(case, list(questions(case, row, law)))
        per_person = float(np.max(found.mean(axis=0)) if worst else np.mean(found @ law))
        truth = math.sqrt(N * max(per_person, 0.0)) / (N if row.kind == "mean" else 1)
        if row.how == "bound":
            # Rounding adds at most a quarter of the squared step, on either side of a grid point.
            assert truth * (1 - CLOSE) <= row.stderr <= 2 * truth, row
        else:
            ratio = row.kind == "mean" and any(axis.optional for axis in case.study.axes)
            assert row.how == ("first order" if ratio else "exact"), row
            assert row.stderr == pytest.approx(truth, rel=CLOSE, abs=1e-6), row
        assert row.share is None or row.share == row.stderr / N


def answers_are_those_readings(case: Case) -> None:
    """What a study answers from single reports is the function of them that is planned with."""
    reports = case.single_reports()
    plan = case.study.expected_error(N)
    law = np.full(case.cells, 1 / case.cells)
    asked = [next(questions(case, row, law)) for row in plan]
    rows = np.array([on_grid(parts) for parts in asked])
    expected = np.ones((len(asked), 1))
    for read in readings(case, asked):
        expected = (expected[:, :, None] * read[:, None, :]).reshape(len(asked), -1)
    for place in {0, len(reports) // 2, len(reports) - 1}:
        estimate = case.study.tally(reports[place : place + 1]).estimate("unbiased")
        values = estimate.linear(rows).values
        room = 1e-9 * float(np.abs(expected).max())
        assert np.abs(values - expected[:, place]).max() <= room


def squared_errors(
    study: sf.Study, asked: list[Floats], law: Floats, runs: int, seed: int, method: Method
) -> Floats:
    """Mean squared errors of several lists of questions (columns) in simulated collections (rows).

    People are drawn from the law anew in each, and answers are compared with these people.
    """
    rng = np.random.default_rng(seed)
    rows = np.concatenate(asked)
    starts = np.cumsum([0, *(len(part) for part in asked[:-1])])
    found = np.empty((runs, len(asked)))
    for run in range(runs):
        counts = rng.multinomial(N, law)
        tally = study.simulate_counts(counts, seed=int(rng.integers(1 << 62)))
        off = tally.estimate(method).linear(rows).values - rows @ counts
        found[run] = np.add.reduceat(off**2, starts) / [len(part) for part in asked]
    return found


def scores(
    case: Case, plan: Plan, law: Floats, runs: int, seed: int
) -> list[Callable[[float], float]]:
    """For each row, by how many standard errors simulated collections are off a planned error.

    Errors are compared as variances: the mean of squared errors has the standard error s/√runs. A
    simulated plan has one of its own, from as many runs as it was made with. Bounds are compared
    from above only.
    """
    asked = [np.array([on_grid(q) for q in questions(case, row, law)]) for row in plan]
    squares = squared_errors(case.study, asked, law, runs, seed, plan.method)

    def score_of(row: PlanRow, found: Floats) -> Callable[[float], float]:
        drawn = 1 / runs + (1 / PLAN_RUNS if row.how == "simulated" else 0)
        stderr = float(np.std(found, ddof=1)) * math.sqrt(drawn)

        def score(planned: float) -> float:
            off = float(found.mean()) - (planned * (N if row.kind == "mean" else 1)) ** 2
            return (max(off, 0.0) if row.how == "bound" else abs(off)) / (stderr or 1e-9)

        return score

    return [score_of(row, found) for row, found in zip(plan, squares.T, strict=True)]
