"""Typical questions about one axis, as workloads: random ranges, single cells, deciles.

They stand for what an analyst may ask, where an error is to be stated before anybody is asked.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from sfumato.arrays import Floats
from sfumato.questions.lines import Ranges
from sfumato.questions.workload import Given, Workload

_MOST_ROWS = 2049  # beyond this many ends of ranges, that many evenly spaced ones stand for all
_FEWEST_ROWS = 33
_MOST_ENTRIES = 1 << 23


def most_rows(size: int) -> int:
    """How many rows over an axis of some size may be laid out at once.

    Example:
        >>> most_rows(100), most_rows(100_000)
        (2049, 83)
    """
    return max(_FEWEST_ROWS, min(_MOST_ROWS, _MOST_ENTRIES // size))


def cells(values: int, size: int) -> Workload:
    """Single cells that hold a value.

    Args:
        values: Number of cells that hold values.
        size: Number of all cells, "no answer" included.
    """
    return Given(sparse.eye_array(values, size))


def thinned(workload: Workload, most: int) -> Workload:
    """The questions themselves, or evenly spaced ones among them if they take too many rows.

    Args:
        workload: The questions.
        most: The largest number of ends of ranges, or of other questions.
    """
    if isinstance(workload, Ranges):
        few = workload.boundaries <= most
        return workload if few else Ranges(workload.values, size=workload.cells, ends=most)
    if workload.questions <= most:
        return workload
    chosen = np.round(np.linspace(0, workload.questions - 1, most)).astype(np.intp)
    return Given(workload.rows(chosen))


def rows_of_squares(workload: Workload) -> int:
    """The number of rows that `squares` gives.

    Example:
        >>> rows_of_squares(Ranges(4)), len(Ranges(4).squares()[0])
        (6, 6)
    """
    return workload.boundaries + 1 if isinstance(workload, Ranges) else workload.questions


def deciles(law: Floats, values: int) -> Workload:
    """Nine thresholds: the cells at or below each tenth of those who answered.

    Args:
        law: The share of people in each cell, "no answer" included.
        values: Number of cells that hold values.

    Example:
        >>> deciles(np.full(10, 0.1), 10).rows([4])
        array([[1., 1., 1., 1., 1., 0., 0., 0., 0., 0.]])
    """
    upto = np.cumsum(law[:values])
    places = np.searchsorted(upto, upto[-1] * (np.arange(1, 10) / 10 - 1e-12))
    places = np.minimum(places, values - 2)  # "at or below the last" would be everybody
    return Given((np.arange(len(law)) <= places[:, None]).astype(np.float64))


def sample(workload: Workload, most: int, rng: np.random.Generator) -> Floats:
    """All questions as rows of weights, or a random sample of them where there are more.

    Args:
        workload: The questions.
        most: The largest number of rows.
        rng: Where the sample is drawn from.
    """
    if workload.questions <= most:
        return workload.dense()
    return workload.rows(rng.choice(workload.questions, most, replace=False))
