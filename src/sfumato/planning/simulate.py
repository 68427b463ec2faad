"""The expected error of likelihood answers: simulated, and as the answers would state it.

People are drawn from the prior, perturbed and decoded, several times; the error is the distance of
the decoded answers from the same people. The stated error comes from decoding the expected tally
once: the prior seen through the channels. Reports of many bits have too many patterns for that:
there the stated error is the mean over the simulated tallies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.arrays import Floats
from sfumato.errors import StudyError, shown
from sfumato.estimation.decoding.evidence import fit_by_evidence
from sfumato.estimation.decoding.mixture import SymbolMixture
from sfumato.estimation.decoding.posterior import AnyDecoder, Decoder
from sfumato.estimation.likelihood import LikelihoodEstimate
from sfumato.planning.variances import Prior, combined, row_variances
from sfumato.questions.lines import Total
from sfumato.questions.typical import sample
from sfumato.questions.workload import Workload
from sfumato.study.study import Study

Progress = Callable[[float], None]

_MOST_ROWS = 8192
_MOST_RUNS = 100_000
_MOST_REPORTED = 64
_MOST_ENTRIES = 1 << 22


@dataclass(frozen=True, slots=True)
class ExpectedError:
    """An expected standard error in people.

    Attributes:
        stderr: The standard error.
        reported: The one that likelihood answers would state; None for others.
        how: How it was found: see `PlanRow`.
    """

    stderr: float
    reported: float | None
    how: str


def simulate(
    study: Study,
    asked: Sequence[Mapping[int, Workload]],
    prior: Prior,
    n: int,
    *,
    runs: int,
    seed: int,
    progress: Progress | None = None,
) -> list[ExpectedError]:
    """The expected errors of likelihood answers to questions about the same axes.

    Args:
        study: The study.
        asked: Workloads by axis, all about the same axes.
        prior: Where people are expected to be.
        n: Number of people.
        runs: Number of simulated tallies; with 0 the errors are those that answers would state.
        seed: For the simulation.
        progress: Called with the share done.

    Raises:
        StudyError: If there are too few runs.
    """
    if not asked[0]:
        return [ExpectedError(0.0, 0.0, "exact") for _ in asked]
    part, axes = _part(study, asked[0])
    law = prior.over(axes)
    bits = any(block.channel.layout.kind == "bits" for block in part.blocks)
    if not int(bits) <= runs <= _MOST_RUNS:
        raise StudyError(
            f"runs must be at least {int(bits)} to plan likelihood answers"
            f"{' from reports of many bits' if bits else ''}, and at most {_MOST_RUNS:,}, got "
            f"runs={shown(runs)}"
        )
    # A question has the same error whatever else is asked: rows and people are drawn apart.
    drawn, people = np.random.SeedSequence(seed).spawn(2)
    rows = [QuestionRows.of(part, axes, one, np.random.default_rng(drawn)) for one in asked]
    rng = np.random.default_rng(people)
    plain = [
        n * row_variances([block.channel for block in part.blocks], law, row.by_block)
        for row in rows
    ]
    squares, told = np.zeros(len(rows)), np.zeros(len(rows))
    for run in range(runs):
        counts = rng.multinomial(n, law.ravel()).reshape(law.shape)
        tally = part.simulate_counts(counts, seed=int(rng.integers(1 << 62)))
        estimate = tally.estimate(method="likelihood")
        assert isinstance(estimate, LikelihoodEstimate)  # noqa: S101
        decoder = estimate.decoder(tuple(range(len(axes))))
        off = (decoder.counts() - counts).ravel()
        squares += [np.mean((row.measured @ off) ** 2) for row in rows]
        if bits:
            told += _reported(decoder, rows, plain)
        if progress is not None:
            progress((run + 1) / (runs + 1))
    if bits:
        told /= runs
    else:
        told = _reported(_at_the_prior(part, law, n), rows, plain)
    if progress is not None:
        progress(1.0)
    errors = squares / runs if runs else told
    how = "simulated" if runs else "reported"
    pairs = zip(errors.tolist(), told.tolist(), strict=True)
    return [ExpectedError(math.sqrt(e), math.sqrt(t), how) for e, t in pairs]


@dataclass(frozen=True, slots=True, eq=False)
class QuestionRows:
    """Questions as weights: many to measure errors with, and fewer for the errors stated.

    Attributes:
        measured: Many rows over the grid of all axes.
        reported: Fewer rows over the same grid.
        by_block: These fewer rows over the grid of each block.
    """

    measured: Floats
    reported: Floats
    by_block: list[Floats]

    @classmethod
    def of(
        cls,
        study: Study,
        axes: Sequence[int],
        asked: Mapping[int, Workload],
        rng: np.random.Generator,
    ) -> QuestionRows:
        """Lay out as many questions as there is room for.

        Args:
            study: The study of the blocks asked about.
            axes: What its axes are called in `asked`.
            asked: The questions by axis; where an axis has none, everybody counts.
            rng: Where questions are drawn from, if they are many.
        """
        workloads = [
            asked.get(axis, Total(size)) for axis, size in zip(axes, study.shape, strict=True)
        ]
        most = max(16, min(_MOST_ROWS, _MOST_ENTRIES // math.prod(study.shape)))
        wide = _paired([sample(w, most, rng) for w in workloads], rng)
        few = _paired([sample(w, _MOST_REPORTED, rng) for w in workloads], rng)
        by_block = [combined([few[axis] for axis in block.axes]) for block in study.blocks]
        return cls(combined(wide), combined(few), by_block)


def _paired(parts: list[Floats], rng: np.random.Generator) -> list[Floats]:
    """As many rows on every axis: all are drawn from, so that combinations are random."""
    if len(parts) == 1:
        return parts
    most = max(len(part) for part in parts)
    return [part[rng.integers(len(part), size=most)] for part in parts]


def _part(study: Study, asked: Mapping[int, Workload]) -> tuple[Study, tuple[int, ...]]:
    """The study of the blocks asked about, and their axes: decoding them needs no others."""
    places = [
        place for place, block in enumerate(study.blocks) if not asked.keys().isdisjoint(block.axes)
    ]
    part = Study(study.name, [study.parts[place] for place in places])
    return part, tuple(axis for place in places for axis in study.blocks[place].axes)


def _at_the_prior(study: Study, law: Floats, n: int) -> Decoder:
    """Decode the expected tally."""
    channels = [block.channel for block in study.blocks]
    expected = n * law.reshape([block.size for block in study.blocks])
    for channel in channels:  # the first block is mixed and put last, until all are in order
        expected = channel.mix(np.moveaxis(expected, 0, -1))
    mixture = SymbolMixture.of(channels, expected, [block.shape for block in study.blocks])
    ordered = [axis.domain.ordered and not axis.optional for axis in study.axes]
    return Decoder(fit_by_evidence(mixture, ordered))


def _reported(decoder: AnyDecoder, rows: Sequence[QuestionRows], plain: Sequence[Floats]) -> Floats:
    """The mean variance that answers would state."""
    found = []
    for row, unbiased in zip(rows, plain, strict=True):
        shape = (len(row.reported), *decoder.counts().shape)
        _, wide = decoder.moments(row.reported.reshape(shape))
        found.append(float(np.mean(np.minimum(wide, unbiased))))
    return np.array(found)
