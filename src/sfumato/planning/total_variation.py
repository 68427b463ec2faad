"""The expected error of a whole distribution, in total variation.

The prediction is exact except for one step: each cell's error has its exact variance and is assumed
to be normal, so that its mean absolute value is √(2/π) standard deviations; with many people it is.
The bounds of Acharya et al. 2020 hold for every population; with blocks of one size and people
spread evenly, (20) is 4·√(3π/2) = 8.7 times the prediction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sfumato.arrays import Floats
from sfumato.bounds.acharya import acharya_proposition_4, acharya_proposition_5
from sfumato.errors import StudyError
from sfumato.estimation.distribution import cell_squares
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.labelled import BlockMetric, HighLowMetric
from sfumato.metrics.uniform import UniformMetric
from sfumato.planning.expected_error import checked_people
from sfumato.planning.variances import prior_of
from sfumato.study.axis import Axis
from sfumato.study.study import Study

PriorLike = str | ArrayLike | Mapping[str, ArrayLike]

MOST_PEOPLE = 10**15


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionPlan:
    """The expected error of a whole distribution.

    Attributes:
        n: Number of people.
        tv: Expected total variation distance of unbiased shares from the truth.
        l2: Root of the expected squared Euclidean distance, exactly.
        bound: The upper bound on `tv` that the paper proves for every population; None where it
            does not cover the metric or the channel.
        prior: The assumed population: "flat" or "given".
    """

    n: int
    tv: float
    l2: float
    bound: float | None
    prior: str

    def __str__(self) -> str:
        proved = "" if self.bound is None else f", proved at most {self.bound:.3g}"
        return (
            f"{self.n:,} people, prior {self.prior}: total variation {self.tv:.3g}{proved}; "
            f"L2 {self.l2:.3g}"
        )


def expected_tv(
    study: Study | Axis, n: int, *, prior: PriorLike = "flat", population: bool = True
) -> DistributionPlan:
    """The expected error of all shares together.

    Args:
        study: A study, or a single axis.
        n: Number of people.
        prior: Where people are expected to be.
        population: Whether the truth is that of the population from which people are drawn, as in
            the paper, or that of the people themselves.

    Example:
        >>> import sfumato as sf
        >>> towns = sf.Blocks(epsilon=1, blocks=[range(50), range(50, 100)])
        >>> place = sf.integers("place", 0, 99, protect=towns, channel=sf.Hadamard())
        >>> print(expected_tv(place, 1_000_000))
        1,000,000 people, prior flat: total variation 0.0602, proved at most 0.53; L2 0.0151
    """
    made, people = _study(study), checked_people(n)
    held = prior_of(made, prior)
    if held.worst:
        raise StudyError("prior='worst' is not known here: see `bound`, which holds for every one")
    law = held.over(tuple(range(len(made.axes))))
    variance = _variances(made, law, population) / people
    return DistributionPlan(
        n=people,
        tv=float(np.sqrt(2 / np.pi * variance).sum()) / 2,
        l2=math.sqrt(float(variance.sum())),
        bound=_bound(made, people),
        prior=held.text,
    )


def people_for_tv(
    study: Study | Axis,
    wanted: float,
    *,
    prior: PriorLike = "flat",
    population: bool = True,
    proved: bool = False,
) -> int:
    """How many people give a wanted total variation distance, on average.

    Args:
        study: A study, or a single axis.
        wanted: The distance, between 0 and 1.
        prior: Where people are expected to be.
        population: Whether the truth is that of the population from which people are drawn.
        proved: Use the paper's bound, which holds for every population, not the prediction.

    Raises:
        StudyError: If no number of people up to 10^15 is enough, or nothing is proved.

    Example:
        >>> import sfumato as sf
        >>> towns = sf.Blocks(epsilon=1, blocks=[range(50), range(50, 100)])
        >>> axis = sf.integers("place", 0, 99, protect=towns, channel=sf.Hadamard())
        >>> people_for_tv(axis, 0.1), people_for_tv(axis, 0.1, proved=True)
        (362523, 28096167)
    """
    good = isinstance(wanted, (int, float)) and not isinstance(wanted, bool)
    if not good or not 0 < wanted < 1:
        raise StudyError(
            f"the wanted distance must be between 0 and 1, got {wanted!r}; write 0.1 for a tenth"
        )
    one = expected_tv(study, 1, prior=prior, population=population)
    if proved and one.bound is None:
        raise StudyError(
            "nothing is proved for this study: the bounds are for one axis with the Hadamard "
            "channel under Uniform, Blocks or HighLow; leave out proved=True for the prediction"
        )
    of_one = one.bound if proved and one.bound is not None else one.tv
    people = max(1, math.ceil((of_one / wanted) ** 2 * (1 - 1e-12)))
    if people > MOST_PEOPLE:
        raise StudyError(
            f"a distance of {wanted:g} would need {people:,} people; allow a larger distance or a "
            "larger epsilon"
        )
    return people


def tv_bound(metric: CellMetric, n: int) -> float | None:
    """The paper's bound on the expected total variation under Hadamard response, or None.

    Args:
        metric: E between cells.
        n: Number of people.

    References:
        Acharya et al. 2020, (17) for sensitive cells and (20) for blocks, of which plain local
        privacy is one.
    """
    if not isinstance(metric, UniformMetric | BlockMetric | HighLowMetric):
        return None
    if isinstance(metric, HighLowMetric):
        high = int(np.count_nonzero(metric.sensitive))
        return acharya_proposition_4(metric.epsilon, n, metric.size, high)
    if isinstance(metric, UniformMetric):
        return acharya_proposition_5(metric.epsilon, n, [metric.size])
    sizes = np.unique(metric.block, return_counts=True)[1].tolist()
    return acharya_proposition_5(metric.epsilon, n, sizes)


def _bound(study: Study, n: int) -> float | None:
    """The bound, where the paper covers this study."""
    if len(study.blocks) != 1 or study.blocks[0].channel.id != "hadamard":
        return None
    return tv_bound(study.blocks[0].channel.metric, n)


def _variances(study: Study, law: Floats, population: bool) -> Floats:
    """The variance, per person, of every cell's share."""
    table = law.reshape([block.size for block in study.blocks])
    for place, block in enumerate(study.blocks):
        channel = block.channel
        if channel.layout.kind != "symbols":
            raise StudyError(
                f"the {channel.id} channel sends bits, and the error of all its cells together is "
                "not known here; simulate instead"
            )
        along = np.ascontiguousarray(np.moveaxis(table, place, -1))
        table = np.moveaxis(cell_squares(channel, channel.mix(along)), -1, place)
    square = table.reshape(law.shape)
    result: Floats = np.maximum(square - (law**2 if population else law), 0.0)
    return result


def _study(given: Any) -> Study:
    """A study; of an axis alone if that is given."""
    made = Study(given.name, [given]) if isinstance(given, Axis) else given
    if not isinstance(made, Study):
        raise StudyError(f"study must be a Study or an axis, got {type(given).__name__}")
    return made
