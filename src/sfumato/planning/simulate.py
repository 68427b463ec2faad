"""The error of likelihood answers: simulated, and as they would report it themselves.

People are drawn from the prior, perturbed and decoded, again and again; what counts is how far the
decoded answers are from those very people. The reported error is read off the tally to expect, the
prior seen through the channels, decoded once. Thermometer reports have too many patterns for that:
there the reported error is the mean over the simulated tallies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.arrays import Floats
from sfumato.channels.base import Channel
from sfumato.errors import StudyError
from sfumato.estimation.decoding.evidence import choose
from sfumato.estimation.decoding.mixture import SymbolMixture
from sfumato.estimation.decoding.posterior import Decoder, PlainDecoder, settle
from sfumato.estimation.likelihood import LikelihoodEstimate
from sfumato.planning.priors import Prior
from sfumato.planning.records import is_whole, over_all_axes, record_variances
from sfumato.planning.variances import row_variances
from sfumato.questions.typical import sample
from sfumato.questions.workload import Workload

if TYPE_CHECKING:
    from sfumato.study.study import Study


Progress = Callable[[float], None]

_MOST_ROWS = 8192
_MOST_REPORTED = 64
_MOST_ENTRIES = 1 << 22


@dataclass(frozen=True, slots=True)
class Simulated:
    """A standard error in people, the reported one, and which of them the first is."""

    stderr: float
    reported: float | None
    how: str


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Questions over some axes: for measuring errors, and fewer for the errors reported."""

    measured: Floats
    parts: list[Floats]
    reported: Floats

    @classmethod
    def of(cls, workloads: Sequence[Workload], size: int, rng: np.random.Generator) -> _Rows:
        """Lay out as many questions as there is room for."""
        most = max(16, min(_MOST_ROWS, _MOST_ENTRIES // size))
        wide = _together([sample(w, most, rng) for w in workloads], rng)
        few = _together([sample(w, _MOST_REPORTED, rng) for w in workloads], rng)
        return cls(_outer(wide), few, _outer(few))


def simulate(
    study: Study,
    axes: tuple[int, ...],
    workloads: Sequence[Sequence[Workload]],
    prior: Prior,
    n: int,
    *,
    runs: int,
    seed: int,
    progress: Progress | None = None,
) -> list[Simulated]:
    """The errors of questions about some axes, one workload an axis each.

    With runs=0 nothing is simulated and the errors are those that answers would report.
    """
    if not axes:
        return [Simulated(0.0, 0.0, "exact") for _ in workloads]
    if is_whole(study):
        lists = [dict(zip(axes, one, strict=True)) for one in workloads]
        workloads = [over_all_axes(study, one) for one in lists]
        axes = tuple(range(len(study.axes)))
    part = study if is_whole(study) else _part(study, axes)
    law = prior.over(axes)
    channels = part.channels
    bits = any(channel.layout.kind == "bits" for channel in channels)
    if runs < 0 or (bits and not runs):
        raise StudyError(
            f"runs must be at least {int(bits)} to plan likelihood answers "
            f"{'from thermometer reports' if bits else ''}, got runs={runs}"
        )
    rng = np.random.Generator(np.random.PCG64(seed))
    rows = [_Rows.of(lists, law.size, rng) for lists in workloads]
    plain = [
        n * record_variances(channels[0], law, row.reported)
        if is_whole(study)
        else n * row_variances(channels, law, row.parts)
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
        told = _reported(_at_the_prior(part, channels, law, n), rows, plain)
    if progress is not None:
        progress(1.0)
    errors = squares / runs if runs else told
    how = "simulated" if runs else "reported"
    pairs = zip(errors.tolist(), told.tolist(), strict=True)
    return [Simulated(math.sqrt(e), math.sqrt(t), how) for e, t in pairs]


def _part(study: Study, axes: tuple[int, ...]) -> Study:
    """The study of some axes alone: decoding them takes nothing from the others."""
    return type(study)(study.name, [study.parts[axis] for axis in axes])


def _at_the_prior(study: Study, channels: Sequence[Channel], law: Floats, n: int) -> Decoder:
    """Decode the tally to expect."""
    expected = n * law.reshape([block.size for block in study.blocks])
    for channel in channels:  # the first block is mixed and put last, until all are in order
        expected = channel.mix(np.moveaxis(expected, 0, -1))
    mixture = SymbolMixture.of(channels, expected, [block.shape for block in study.blocks])
    ordered = [axis.domain.ordered and not axis.optional for axis in study.axes]
    return Decoder(choose(mixture, ordered))


def _reported(
    decoder: Decoder | PlainDecoder, rows: Sequence[_Rows], plain: Sequence[Floats]
) -> Floats:
    """The mean variance that answers would report."""
    found = []
    for row, unbiased in zip(rows, plain, strict=True):
        shape = (len(row.reported), *decoder.counts().shape)
        _, spread, wide = decoder.moments(row.reported.reshape(shape))
        found.append(float(np.mean(settle(spread, wide, unbiased))))
    return np.array(found)


def _together(parts: list[Floats], rng: np.random.Generator) -> list[Floats]:
    """As many rows on every axis: shorter lists are drawn from, so that pairs are random."""
    if len(parts) == 1:
        return parts
    most = max(len(part) for part in parts)
    return [part[rng.integers(len(part), size=most)] for part in parts]


def _outer(parts: Sequence[Floats]) -> Floats:
    """Rows over the grid of all axes, flat in C order."""
    table = parts[0]
    for part in parts[1:]:
        table = (table[:, :, None] * part[:, None, :]).reshape(len(table), -1)
    return table
