"""Typical questions about one axis, as workloads: random ranges, single cells, deciles.

They stand for what an analyst may ask, where an error is to be stated before anybody is asked.
"""

from __future__ import annotations

import numpy as np

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


def ranges(values: int, size: int) -> Ranges:
    """All ranges of neighbouring cells; on a long axis, those between evenly spaced ends.

    Args:
        values: Number of cells that hold values.
        size: Number of all cells, "no answer" included.
    """
    return Ranges(values, size=size, ends=most_rows(size))


def thinned(workload: Workload, most: int) -> Workload:
    """The same kind of questions with fewer ends, if they are ranges with more than `most`.

    Args:
        workload: The questions.
        most: The largest number of ends.
    """
    if isinstance(workload, Ranges) and workload.boundaries > most:
        return Ranges(workload.values, size=workload.cells, ends=most)
    return workload


def cells(values: int, size: int) -> Workload:
    """Single cells that hold a value; on a long axis, evenly spaced ones.

    Args:
        values: Number of cells that hold values.
        size: Number of all cells, "no answer" included.
    """
    count = min(values, most_rows(size))
    chosen = np.round(np.linspace(0, values - 1, count)).astype(np.int64)
    rows = np.zeros((len(chosen), size))
    rows[np.arange(len(chosen)), chosen] = 1.0
    return Given(rows)


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
