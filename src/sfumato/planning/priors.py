"""Priors: the assumed distribution of people over cells."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sfumato.arrays import Floats
from sfumato.errors import StudyError, TooLargeError, near
from sfumato.study.axis import Axis
from sfumato.study.study import Study

MOST_CELLS = 1 << 24


@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """A distribution of people over cells: one per axis, or one over all axes together.

    Attributes:
        laws: The distribution on each axis.
        joint: The distribution over all axes where it is not the product of `laws`.
        worst: Whether errors are for the population that makes them largest; `laws` are flat then.
        text: "flat", "worst" or "given".
    """

    laws: tuple[Floats, ...]
    joint: Floats | None
    worst: bool
    text: str

    def on(self, axes: Sequence[int]) -> Prior:
        """The prior of a study of some of the axes alone, in increasing order."""
        joint = None if self.joint is None or len(axes) == 1 else self.over(axes)
        laws = tuple(self.laws[axis] for axis in axes)
        return Prior(laws, joint, self.worst, self.text)

    def over(self, axes: Sequence[int]) -> Floats:
        """The distribution over some axes, in increasing order, with the others summed out."""
        if self.joint is not None:
            left_out = tuple(d for d in range(self.joint.ndim) if d not in axes)
            summed: Floats = self.joint.sum(axis=left_out)
            return summed
        refuse_large([len(self.laws[axis]) for axis in axes])
        law: Floats = np.ones(())
        for axis in axes:
            law = np.multiply.outer(law, self.laws[axis])
        return law


def prior_of(study: Study, given: str | ArrayLike | Mapping[str, ArrayLike]) -> Prior:
    """Read a prior.

    Args:
        study: The study.
        given: "flat", "worst", a histogram over all cells, or histograms by axis name.

    Raises:
        StudyError: If it names an unknown axis, has another shape, or is not a histogram.
    """
    flat = tuple(np.full(size, 1.0 / size) for size in study.shape)
    if isinstance(given, str):
        if given not in ("flat", "worst"):
            raise StudyError(
                f"prior must be 'flat', 'worst', a histogram, or histograms by axis, got {given!r}"
            )
        return Prior(flat, None, given == "worst", given)
    if isinstance(given, Mapping):
        return _by_axis(study.axes, flat, given)
    table = _law(given, "prior")
    shape = study.shape
    if table.shape != shape and (table.ndim != 1 or table.size != math.prod(shape)):
        raise StudyError(
            f"prior must have one entry per cell, shape {' × '.join(map(str, shape))} or flat in C "
            f"order, got shape {table.shape}"
        )
    joint = table.reshape(shape)
    laws = tuple(
        joint.sum(axis=tuple(d for d in range(joint.ndim) if d != axis))
        for axis in range(joint.ndim)
    )
    return Prior(laws, joint if joint.ndim > 1 else None, False, "given")


def refuse_large(shape: Sequence[int]) -> None:
    """Refuse grids with more cells than are planned together."""
    if math.prod(shape) > MOST_CELLS:
        raise TooLargeError(
            f"planning over {' × '.join(map(str, shape))} cells jointly is beyond the limit of "
            f"{MOST_CELLS:,}; ask about fewer axes at once"
        )


def _by_axis(axes: Sequence[Axis], flat: tuple[Floats, ...], given: Mapping[str, Any]) -> Prior:
    """One histogram per axis; axes that are not named are flat."""
    names = [axis.name for axis in axes]
    laws = list(flat)
    for name, histogram in given.items():
        if name not in names:
            raise StudyError(f"the prior names an axis {name!r}: {near(str(name), names)}")
        place = names.index(name)
        law = _law(histogram, f"the prior of axis {name!r}")
        if law.shape != flat[place].shape:
            raise StudyError(
                f"the prior of axis {name!r} must have one entry for each of its "
                f"{len(flat[place])} cells, got shape {law.shape}"
            )
        laws[place] = law
    return Prior(tuple(laws), None, False, "given")


def _law(given: Any, what: str) -> Floats:
    """A histogram as shares that sum to one."""
    try:
        table = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise StudyError(f"{what} must be an array of numbers, one per cell") from None
    if not np.isfinite(table).all() or (table < 0).any() or not table.sum() > 0:
        raise StudyError(
            f"{what} must hold finite numbers, zero or more and not all zero; some are not"
        )
    law: Floats = table / table.sum()
    return law
