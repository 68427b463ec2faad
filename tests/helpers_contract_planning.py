"""The errors that a plan ought to state, computed from the exact law of a study's reports.

Questions are laid out one by one and read by the functions of single reports; no sum over questions
is taken in closed form here, and nothing is sampled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from helpers_contract import Floats
from helpers_contract_study import Case

import sfumato as sf
from sfumato.channels.base import signs
from sfumato.planning.expected_error import Plan, PlanRow
from sfumato.questions.language import weights

N = 1_000
#: Readings divide by chances that words round at 2^-40, and squares of large readings cancel.
CLOSE = 1e-7


def own_question(study: sf.Study) -> str:
    """One question about all axes, in words: the last cells of each, or its second one alone."""
    parts = []
    for axis in study.axes:
        labels = axis.labels()
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
        size = axis.size
        assert not axis.optional
        if axis.name not in row.axes:
            by_axis.append([np.ones(size)])
        elif row.kind == "mean":
            numbers = axis.domain.numbers()
            assert numbers is not None
            by_axis.append([numbers])
        elif row.kind == "decile":
            others = tuple(d for d in range(len(axes)) if d != place)
            upto = np.cumsum(law.reshape(case.study.shape).sum(axis=others))
            tenths = [int(np.argmax(upto >= k / 10 - 1e-9)) for k in range(1, 10)]
            by_axis.append([(np.arange(size) <= min(t, size - 2)).astype(float) for t in tenths])
        elif row.kind == "range" and axis.domain.ordered:
            ends = [(low, high) for low in range(size) for high in range(low, size)]
            cells = np.arange(size)
            by_axis.append([((low <= cells) & (cells <= high)).astype(float) for low, high in ends])
        else:
            by_axis.append(list(np.eye(size)))
    yield from (list(parts) for parts in product(*by_axis))


def readings(case: Case, parts: list[list[Floats]]) -> list[Floats]:
    """For each block, f of every question (rows) at every output of the block (columns)."""
    found = []
    for block in case.study.blocks:
        grids = []
        for by_axis in parts:
            grid = np.ones(())
            for axis in block.axes:
                grid = np.multiply.outer(grid, by_axis[axis])
            grids.append(grid.ravel())
        read = block.channel.coefficients(np.array(grids))
        if block.channel.layout.kind == "bits":
            read = read[..., :1] + read[..., 1:] @ signs(block.channel.layout.count).T
        found.append(read)
    return found


def variances(case: Case, row: PlanRow, law: Floats) -> Floats:
    """The variance of one person's reading: one row per question, one column per record."""
    parts = list(questions(case, row, law))
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
        found = variances(case, row, law)
        per_person = float(np.max(found.mean(axis=0)) if worst else np.mean(found @ law))
        truth = math.sqrt(N * max(per_person, 0.0)) / (N if row.kind == "mean" else 1)
        if row.how == "bound":
            # Rounding adds at most a quarter of the squared step, on either side of a grid point.
            assert truth * (1 - CLOSE) <= row.stderr <= 2 * truth, row
        else:
            assert row.how == "exact", row
            assert row.stderr == pytest.approx(truth, rel=CLOSE, abs=1e-6), row
        assert row.share is None or row.share == row.stderr / N


def answers_are_those_readings(case: Case) -> None:
    """What a study answers from single reports is the function of them that is planned with."""
    reports = case.single_reports()
    plan = case.study.expected_error(N)
    law = np.full(case.cells, 1 / case.cells)
    asked = [next(questions(case, row, law)) for row in plan]
    grids = []
    for parts in asked:
        grid = np.ones(())
        for part in parts:
            grid = np.multiply.outer(grid, part)
        grids.append(grid.ravel())
    expected = np.ones((len(asked), 1))
    for read in readings(case, asked):
        expected = (expected[:, :, None] * read[:, None, :]).reshape(len(asked), -1)
    for place in {0, len(reports) // 2, len(reports) - 1}:
        estimate = case.study.tally(reports[place : place + 1]).estimate("unbiased")
        values = estimate.linear(np.array(grids)).values
        room = 1e-9 * float(np.abs(expected).max())
        assert np.abs(values - expected[:, place]).max() <= room
