"""The base of all searched channels: workloads, running the search once, and the cache."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from sfumato import files as cache
from sfumato.arrays import Floats
from sfumato.channels.choice import Choice
from sfumato.channels.searched.codec import Table
from sfumato.errors import StudyError, TooLargeError, near, shown
from sfumato.metrics.cells import CellMetric

Progress = Callable[[float], None]

OWN = "own"  # the name of a workload that was given as a matrix, once its table is found
_EVERY_CELL = 1e-3  # share of single cells in a workload given as a matrix


def ranges_gram(size: int) -> Floats:
    """G of all ranges, each as important as any other."""
    place = np.arange(1, size + 1)
    below, above = np.minimum.outer(place, place), size + 1 - np.maximum.outer(place, place)
    result: Floats = below * above / (size * (size + 1) / 2)
    return result


def prefixes_gram(size: int) -> Floats:
    """G of all ranges that start at the first cell."""
    place = np.arange(size)
    result: Floats = (size - np.maximum.outer(place, place)) / size
    return result


def cells_gram(size: int) -> Floats:
    """G of all single cells."""
    return np.eye(size) / size


#: G = WᵀW/rows of the workloads that are known by name.
WORKLOADS: dict[str, Callable[[int], Floats]] = {
    "ranges": ranges_gram,
    "prefixes": prefixes_gram,
    "cells": cells_gram,
}


def gram_of(workload: str | ArrayLike, size: int) -> Floats:
    """G = WᵀW over the number of questions; with a few single cells where W is a matrix.

    Args:
        workload: A name, or W.
        size: The number of cells.
    """
    if isinstance(workload, str):
        return WORKLOADS[workload](size)
    matrix = np.asarray(workload, dtype=np.float64)
    gram = matrix.T @ matrix / len(matrix)
    # Every question may be asked later: none may be given up for those named here.
    result: Floats = gram + _EVERY_CELL * np.trace(gram) / size * np.eye(size)
    return result


def checked_workload(workload: Any, table: str | None) -> Any:
    """A workload by name, or its weights as numbers.

    Args:
        workload: A name, a matrix, or a workload of `sfumato.questions`.
        table: What was found for it, if it is settled.
    """
    if isinstance(workload, str):
        if workload not in WORKLOADS and not (workload == OWN and table is not None):
            raise StudyError(
                f"workload must be one of these or a matrix, got workload={shown(workload)}: "
                f"{near(workload, WORKLOADS)}"
            )
        return workload
    if hasattr(workload, "dense"):
        workload = workload.dense()
    try:
        matrix = np.asarray(workload, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        matrix = np.zeros(0)
    if matrix.ndim != 2 or not matrix.size or not np.isfinite(matrix).all() or not matrix.any():
        raise StudyError(
            "workload must be a matrix of finite weights, one row per question and one column per "
            f"cell, not all zero, or one of {', '.join(map(repr, WORKLOADS))}; got shape "
            f"{matrix.shape}"
        )
    return tuple(tuple(float(weight) for weight in row) for row in matrix)


def written(matrix: Any) -> Any:
    """A name or a matrix, as a study file holds it."""
    return matrix if isinstance(matrix, str) else np.asarray(matrix).tolist()


class SearchedChoice(Choice):
    """A choice whose table is found by search, and travels with the study.

    A family writes `_too_large`, `_search_key`, `_search` and `_with_table`.

    Attributes:
        table_type: What the search finds.
        workload: Which questions should have a small error.
        table: What was found, as text.
    """

    slow: ClassVar[bool] = True
    table_type: ClassVar[type[Table]]
    workload: Any
    table: str | None

    @abstractmethod
    def _too_large(self, size: int) -> str | None:
        """Why there are too many cells for a search, and what would do instead; None if not."""

    @abstractmethod
    def _search_key(self, metric: CellMetric) -> Iterable[bytes]:
        """All that the result of a search follows from, the version of the search first."""

    @abstractmethod
    def _search(self, metric: CellMetric, progress: Progress | None) -> Table:
        """Search for a table.

        Args:
            metric: E between the cells.
            progress: Called with the share done.
        """

    @abstractmethod
    def _with_table(self, metric: CellMetric, table: str) -> Self:
        """This choice with its table.

        Args:
            metric: E between the cells.
            table: What was found, as text.
        """

    def settled(
        self, metric: CellMetric, *, progress: Callable[[float], None] | None = None
    ) -> Self:
        """The choice with its table: found now, or earlier on this machine.

        Args:
            metric: E between the cells.
            progress: Called with the share done.

        Raises:
            TooLargeError: If there are too many cells to search.
        """
        if self.table is not None:
            return self
        problem = self.misfit(metric)
        if problem is not None:
            if problem == self._too_large(metric.size):
                raise TooLargeError(f"{type(self).__name__} does not fit this axis: {problem}")
            return self
        key = hashlib.sha256()
        for part in self._search_key(metric):
            key.update(part)
        name = f"{self.id}-{key.hexdigest()[:40]}.txt"
        text = cache.read(name)
        if text is None or not self._is_whole(text, metric.size):
            text = self._search(metric, progress).to_text()
            cache.keep(name, text)
        return self._with_table(metric, text)

    def _is_whole(self, text: str, cells: int) -> bool:
        """Whether a text from the cache can be used."""
        try:
            return self.table_type.from_text(text).cells == cells
        except StudyError:
            return False

    def _table_for(self, metric: CellMetric, resolution: int) -> str:
        """The text of the table, searched for if need be; refused if it does not fit.

        Args:
            metric: E between the cells.
            resolution: What `bind` was given; refused unless it is 0.
        """
        choice = self.settled(metric)
        choice.refuse_misfit(metric, resolution)
        assert choice.table is not None  # noqa: S101 - what fits is settled
        return choice.table

    def _other_cells(self, size: int, **matrices: Any) -> str | None:
        """Why the table, or matrices that were given for a search, are for other cells.

        Args:
            size: The number of cells of the axis.
            **matrices: Names or matrices of one column per cell, by what they are called.
        """
        if self.table is not None:
            cells = self.table_type.from_text(self.table).cells
            if cells != size:
                return f"its table is for {cells} cells and the axis has {size}; make it again"
            return None
        for what, matrix in matrices.items():
            if isinstance(matrix, str | None):
                continue
            columns = np.shape(matrix)[1]
            if columns != size:
                return (
                    f"its {what} has {columns} columns and the axis has {size} cells; give one "
                    "column per cell"
                )
        return None
