"""The expected error where each person reports on two of many axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.channels.pairs import PairLevel, PairsChannel
from sfumato.collect.accumulator import tally_of
from sfumato.collect.tally import Tally
from sfumato.errors import StudyError, shown
from sfumato.estimation.pairs.estimate import PairsEstimate
from sfumato.estimation.pairs.unbiased import on_pair
from sfumato.planning.simulate import ExpectedError
from sfumato.planning.variances import Prior
from sfumato.questions.workload import Workload
from sfumato.randomness.bits import SeededBits
from sfumato.study.reports import Reports
from sfumato.study.study import Study

#: Questions of one kind whose errors are averaged.
MOST_QUESTIONS = 64
#: Simulated tallies: each is decoded in seconds.
MOST_RUNS = 5
_LEAST = 1e-100  # a variance whose inverse has a square that is still a number


def pairs_error(study: Study, asked: Mapping[int, Workload], prior: Prior, n: int) -> ExpectedError:
    """The standard error of unbiased answers about one or two axes; a root mean square over many.

    It is that of the expected number of people per pair.

    Args:
        study: The study.
        asked: The questions, by axis.
        prior: Where people are expected to be.
        n: Number of people.

    Raises:
        StudyError: If they are about more than two axes, or for the worst population.
    """
    channel = _channel(study)
    if not asked:
        return ExpectedError(0.0, None, "exact")
    if len(asked) > 2:
        names = ", ".join(study.axes[axis].name for axis in sorted(asked))
        raise StudyError(
            f"each person reports on two axes, so a question about {names} has no unbiased answer; "
            'plan with method="likelihood"'
        )
    if prior.worst:
        raise StudyError(
            "the worst population is not known for reports on pairs of axes; use prior='flat' or "
            "give histograms by axis"
        )
    rows, every = _questions(asked, np.random.default_rng(0))
    total = []
    for weights in rows:
        sure = 0.0
        variance = 0.0
        for part, chance in zip(channel.parts, channel.chances, strict=True):
            if not set(weights) <= set(part.axes):
                continue
            w = on_pair(part, weights)
            moment = part.inner.second_moment(w)
            law = _law(part, prior)
            spread = float(law @ moment) - float(law @ w) ** 2
            even = max(float(moment.mean()) - float(w.mean()) ** 2, _LEAST)
            weight = chance / even
            sure += weight
            variance += weight**2 * spread / chance
            plain = float(law @ w**2) - float(law @ w) ** 2
        total.append(max(variance / sure**2 - plain, 0.0))
    return ExpectedError(
        math.sqrt(n * float(np.mean(total))), None, "exact" if every else "sampled"
    )


def simulate_pairs(
    study: Study,
    asked: Sequence[Mapping[int, Workload]],
    prior: Prior,
    n: int,
    *,
    runs: int,
    seed: int,
    progress: Callable[[float], None] | None = None,
) -> list[ExpectedError]:
    """The errors of likelihood answers over a few simulated tallies of independent axes.

    Args:
        study: The study.
        asked: Questions by axis, one mapping per kind.
        prior: Where people are expected to be.
        n: Number of people.
        runs: How many tallies to simulate; beyond a few, no more are.
        seed: For the simulation.
        progress: Called with the share done.
    """
    if runs < 1:
        raise StudyError(
            f"runs must be at least 1 to plan answers about pairs of axes, got runs={shown(runs)}"
        )
    _channel(study)
    rng = np.random.default_rng(seed)
    rows = [_questions(one, np.random.default_rng(0))[0] for one in asked]
    squares, told = np.zeros(len(asked)), np.zeros(len(asked))
    count = min(runs, MOST_RUNS)
    for run in range(count):
        codes = [rng.choice(len(law), size=n, p=law) for law in prior.laws]
        tally = _tally(study, codes, int(rng.integers(1 << 62)))
        model = PairsEstimate(study, tally.statistic).model
        for place, questions in enumerate(rows):
            if not asked[place]:
                continue
            for weights in questions:
                values = {axis: w[None] for axis, w in weights.items()}
                found, slopes = model.rows(values)
                true = np.ones(n)
                for axis, w in weights.items():
                    true *= w[codes[axis]]
                squares[place] += (n * float(found[0]) - true.sum()) ** 2 / len(questions)
                variance = sum(float(np.sum(row**2)) for row in slopes.values())
                told[place] += n**2 * variance / len(questions)
        if progress is not None:
            progress((run + 1) / count)
    pairs = zip(squares.tolist(), told.tolist(), strict=True)
    return [
        ExpectedError(math.sqrt(square / count), math.sqrt(wide / count), "simulated")
        for square, wide in pairs
    ]


def _channel(study: Study) -> PairsChannel:
    """The study's only channel."""
    (channel,) = study.channels
    if not isinstance(channel, PairsChannel):
        raise TypeError("these are not reports on pairs of axes")
    return channel


def _tally(study: Study, codes: Sequence[NDArray[np.int64]], seed: int) -> Tally:
    """The tally of people with these cells."""
    (block,) = study.blocks
    outputs = block.channel.encode(block.cells(codes), SeededBits(seed))
    return tally_of(study, Reports(study.fingerprint, study.columns, study.layouts, (outputs,)))


def _questions(
    asked: Mapping[int, Workload], rng: np.random.Generator
) -> tuple[list[dict[int, Floats]], bool]:
    """Some questions of one kind, and whether these are all."""
    counts = {axis: workload.questions for axis, workload in asked.items()}
    every = math.prod(counts.values()) <= MOST_QUESTIONS
    if every:
        places = np.array(list(np.ndindex(*counts.values())), dtype=np.int64)
    else:
        drawn = [rng.integers(count, size=MOST_QUESTIONS) for count in counts.values()]
        places = np.stack(drawn, axis=1)
    tables = {
        axis: workload.rows(places[:, column])
        for column, (axis, workload) in enumerate(asked.items())
    }
    return [
        {axis: table[row] for axis, table in tables.items()} for row in range(len(places))
    ], every


def _law(part: PairLevel, prior: Prior) -> Floats:
    """The expected population on the grid of a pair."""
    return prior.over(part.axes).ravel()
