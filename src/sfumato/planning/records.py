"""Planning for whole records: one channel over the grid, questions as weights over all of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sfumato.arrays import Floats
from sfumato.channels.base import Channel
from sfumato.planning.priors import Prior
from sfumato.questions.lines import Total
from sfumato.questions.typical import sample
from sfumato.questions.workload import Workload

if TYPE_CHECKING:
    from sfumato.study.study import Study


_MOST_ROWS = 512
_FEWEST_ROWS = 16
_MOST_ENTRIES = 1 << 24


def is_whole(study: Study) -> bool:
    """Whether one block covers all of several axes."""
    return len(study.blocks) == 1 and len(study.blocks[0].axes) > 1


def over_all_axes(study: Study, workloads: Mapping[int, Workload]) -> list[Workload]:
    """One workload per axis: everybody where nothing is asked."""
    return [workloads.get(axis, Total(size)) for axis, size in enumerate(study.shape)]


def record_variance(study: Study, workloads: Mapping[int, Workload], prior: Prior) -> float:
    """Variance a person of the mean question; where questions are many, of some drawn at random."""
    (channel,) = study.channels
    rng = np.random.Generator(np.random.PCG64(0))
    size = max(channel.size, channel.layout.features)
    most = max(_FEWEST_ROWS, min(_MOST_ROWS, _MOST_ENTRIES // size))
    rows = crossed([sample(w, most, rng) for w in over_all_axes(study, workloads)], rng, most)
    if prior.worst:
        return max(float(np.max(_variances(channel, row[None]))) for row in rows)
    law = prior.over(range(len(study.axes))).ravel()
    return float(np.mean([float(_variances(channel, row[None])[0] @ law) for row in rows]))


def record_variances(channel: Channel, law: Floats, rows: Floats) -> Floats:
    """Variances a person of questions given as rows over the grid."""
    return np.array([float(_variances(channel, row[None])[0] @ law.ravel()) for row in rows])


def _variances(channel: Channel, rows: Floats) -> Floats:
    """Var(f | x) at every cell of the grid."""
    result: Floats = channel.second_moment(rows) - rows**2
    return result


def crossed(parts: Sequence[Floats], rng: np.random.Generator, most: int) -> Floats:
    """Questions about several axes at once, flat over the grid: axes' rows paired at random."""
    count = min(most, max(len(part) for part in parts))
    table: Floats = np.ones((count, 1))
    for part in parts:
        chosen = part if len(part) == count else part[rng.integers(len(part), size=count)]
        table = (table[:, :, None] * chosen[:, None, :]).reshape(count, -1)
    return table
