"""Metrics over labels: blocks, and sensitive values."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.domains.base import Domain
from sfumato.errors import StudyError
from sfumato.exact import positive, to_plain
from sfumato.metrics.base import Metric, set_fields
from sfumato.metrics.cells import CellMetric, TableMetric, check_cells, refuse_large_matrix, table
from sfumato.metrics.words import (
    Number,
    cell_names,
    cover,
    distinct,
    known,
    label_of,
    marked,
    read_labels,
    several,
    some,
)


class _MarkedMetric(CellMetric):
    """E is ε between some pairs of cells and infinite between the others, by one mark per cell."""

    __slots__ = ()
    epsilon: Fraction

    @property
    @abstractmethod
    def _marks(self) -> NDArray[Any]:
        """The mark of every cell."""

    @abstractmethod
    def _hidden(self) -> NDArray[np.bool_]:
        """Whether E is finite, for all pairs of different cells."""

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self._marks)

    def __eq__(self, other: object) -> bool:
        """Whether both say the same E in the same words."""
        if type(other) is not type(self) or not isinstance(other, _MarkedMetric):
            return NotImplemented
        return (self.epsilon, self.notes) == (other.epsilon, other.notes) and np.array_equal(
            self._marks, other._marks
        )

    def __hash__(self) -> int:
        """A hash that equal metrics share."""
        return hash((self.epsilon, self._marks.tobytes()))

    def matrix(self) -> NDArray[np.float64]:
        """All of E, shape (size, size)."""
        refuse_large_matrix(self.size)
        found = np.where(self._hidden(), float(self.epsilon), math.inf)
        np.fill_diagonal(found, 0.0)
        return found

    def integers(self) -> tuple[NDArray[Any], int]:
        """All of E as Python integers over one denominator, -1 where infinite."""
        found = np.full((self.size, self.size), -1, dtype=object)
        found[self._hidden()] = self.epsilon.numerator
        np.fill_diagonal(found, 0)
        return found, self.epsilon.denominator


@dataclass(frozen=True, slots=True, eq=False)
class BlockMetric(_MarkedMetric):
    """E is ε between cells of one block and infinite between blocks.

    It is closed: a detour by another cell of the block is longer, by another block infinite.

    Args:
        epsilon: E within a block.
        block: The number of every cell's block.
        notes: What binding changed in the statement.

    Example:
        >>> metric = BlockMetric(Fraction(1), np.array([0, 1, 0]))
        >>> metric.exact(0, 2), metric.exact(0, 1)
        (Fraction(1, 1), None)
    """

    epsilon: Fraction
    block: NDArray[np.int64]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the numbers, and keep them from being written to."""
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        object.__setattr__(self, "block", _held(self.block, np.int64, "a block number"))

    @property
    def _marks(self) -> NDArray[np.int64]:
        """The block of every cell."""
        return self.block

    def _hidden(self) -> NDArray[np.bool_]:
        """Cells of one block hide each other."""
        return np.equal.outer(self.block, self.block)

    def exact(self, i: int, j: int) -> Fraction | None:
        """E(i, j); None where it is infinite.

        Args:
            i: The cell that changes.
            j: The cell it changes to.
        """
        check_cells(i, j, self.size)
        if i == j:
            return Fraction(0)
        return self.epsilon if self.block[i] == self.block[j] else None

    def largest(self) -> Fraction | None:
        """ε, if there is one block only."""
        return self.epsilon if np.all(self.block == self.block[0]) else None

    def pairs(self) -> list[tuple[int, int]]:
        """The first pair of cells in one block, and the first in two, where there are such."""
        order = np.argsort(self.block, kind="stable")
        next_to = np.flatnonzero(np.diff(self.block[order]) == 0)
        within = [(int(order[next_to[0]]), int(order[next_to[0] + 1]))] if len(next_to) else []
        others = np.flatnonzero(self.block != self.block[0])
        return within + ([(0, int(others[0]))] if len(others) else [])


@dataclass(frozen=True, slots=True, eq=False)
class HighLowMetric(_MarkedMetric):
    """E from a sensitive cell to any other is ε; from cells that are not sensitive, infinite.

    It is closed: any path from a sensitive cell begins with ε.

    Args:
        epsilon: E from a sensitive cell.
        sensitive: Whether each cell is sensitive; all or none may be.
        notes: What binding changed in the statement.

    Example:
        >>> metric = HighLowMetric(Fraction(1), np.array([True, False]))
        >>> metric.exact(0, 1), metric.exact(1, 0)
        (Fraction(1, 1), None)
    """

    epsilon: Fraction
    sensitive: NDArray[np.bool_]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the marks, and keep them from being written to."""
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        object.__setattr__(self, "sensitive", _held(self.sensitive, np.bool_, "a mark"))

    @property
    def _marks(self) -> NDArray[np.bool_]:
        """Whether every cell is sensitive."""
        return self.sensitive

    def _hidden(self) -> NDArray[np.bool_]:
        """Sensitive cells hide among all."""
        return np.repeat(self.sensitive[:, None], self.size, axis=1)

    def exact(self, i: int, j: int) -> Fraction | None:
        """E(i, j); None where it is infinite.

        Args:
            i: The cell that changes.
            j: The cell it changes to.
        """
        check_cells(i, j, self.size)
        if i == j:
            return Fraction(0)
        return self.epsilon if self.sensitive[i] else None

    def largest(self) -> Fraction | None:
        """ε, if all cells are sensitive."""
        return self.epsilon if np.all(self.sensitive) else None

    def pairs(self) -> list[tuple[int, int]]:
        """The first two sensitive cells, the first with another, and the first two others."""
        high, low = np.flatnonzero(self.sensitive)[:2], np.flatnonzero(~self.sensitive)[:2]
        chosen = [high, np.sort([*high[:1], *low[:1]]), low]
        return [(int(two[0]), int(two[1])) for two in chosen if len(two) == 2]


def same_marks(one: CellMetric, other: CellMetric) -> bool:
    """Whether two metrics have the same blocks, or the same sensitive cells.

    Args:
        one: A metric.
        other: Another.
    """
    if not (isinstance(one, _MarkedMetric) and isinstance(other, _MarkedMetric)):
        return False
    return type(one) is type(other) and np.array_equal(one._marks, other._marks)


def _held(values: NDArray[Any], dtype: type[np.generic], what: str) -> NDArray[Any]:
    """One entry per cell, two cells or more, read-only."""
    array = np.array(values)
    kinds = "iu" if dtype is np.int64 else "b"
    if array.ndim != 1 or len(array) < 2 or array.dtype.kind not in kinds:
        raise StudyError(
            f"every one of 2 cells or more must have {what}, got shape {array.shape} of "
            f"{array.dtype}"
        )
    held = array.astype(dtype)
    held.setflags(write=False)
    return held


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Blocks(Metric):
    """Block-structured privacy: E is ε within a block and infinite between blocks.

    It hides the place but not the city.

    References:
        Acharya et al. 2020, block-structured local privacy.

    Example:
        >>> towns = Blocks(epsilon=1, blocks=[["Leith", "Niddrie"], ["Govan", "Partick"]])
        >>> towns.between("Leith", "Niddrie"), towns.between("Leith", "Govan")
        (1.0, inf)
    """

    kind: ClassVar[str] = "blocks"
    epsilon: Fraction
    blocks: tuple[tuple[str, ...], ...]

    def __init__(self, epsilon: Number, blocks: Iterable[Iterable[object]]) -> None:
        """Read the number exactly and the labels as text."""
        groups = tuple(read_labels(block, "a block") for block in several(blocks, "blocks"))
        _apart(groups)
        set_fields(self, epsilon=positive(epsilon, "epsilon"), blocks=groups)

    def _block_of(self) -> dict[str, int]:
        """The number of each label's block."""
        return {label: number for number, block in enumerate(self.blocks) for label in block}

    def between(self, x: Any, y: Any) -> float:
        """E(x, y) for two labels.

        Args:
            x: One value as people write it.
            y: The other.
        """
        block = self._block_of()
        first, second = (known(value, block, "blocks") for value in (x, y))
        if first == second:
            return 0.0
        return float(self.epsilon) if block[first] == block[second] else math.inf

    def bind(self, domain: Domain, *, optional: bool) -> BlockMetric:
        """E between cells; every cell must be in a block.

        Args:
            domain: What the values of the axis may be.
            optional: Whether "no answer" is one more cell, the last.
        """
        names = cell_names(domain, optional=optional, table=False)
        block = self._block_of()
        cover(names, block, "blocks", "put each into a block (its own, to leave it unprotected)")
        number = np.array([block[name] for name in names])
        alone = int(np.count_nonzero(np.bincount(number) == 1))
        notes = (f"unprotected: {alone} of {len(names)} cells are alone in a block",)
        return BlockMetric(self.epsilon, number, notes if alone else ())

    def describe(self) -> str:
        """The statement in plain words."""
        return (
            f"E = {to_plain(self.epsilon)} within each of {len(self.blocks)} blocks; "
            f"which block is not hidden"
        )

    def to_dict(self) -> dict[str, Any]:
        """The statement as a file holds it, exactly."""
        blocks = [list(block) for block in self.blocks]
        return {"kind": self.kind, "epsilon": to_plain(self.epsilon), "blocks": blocks}


@dataclass(frozen=True, slots=True, init=False, repr=False)
class HighLow(Metric):
    """High-low privacy: E(x, y) is ε if x is sensitive and infinite otherwise.

    A report never shows a sensitive value for sure; it may show that a value is not sensitive.
    E is not symmetric. "No answer" is not sensitive unless it is named. With an empty list nothing
    is hidden, and `explain` says so.

    References:
        Acharya et al. 2020, Definition 3.

    Example:
        >>> illness = HighLow(epsilon=1, sensitive=["ill"])
        >>> illness.between("ill", "well"), illness.between("well", "ill")
        (1.0, inf)
    """

    kind: ClassVar[str] = "high_low"
    epsilon: Fraction
    sensitive: tuple[str, ...]

    def __init__(self, epsilon: Number, sensitive: Iterable[object]) -> None:
        """Read the number exactly and the labels as text."""
        none = not isinstance(sensitive, str) and isinstance(sensitive, Sized) and not sensitive
        found = () if none else read_labels(sensitive, "sensitive")
        labels = distinct(found, "sensitive")
        set_fields(self, epsilon=positive(epsilon, "epsilon"), sensitive=labels)

    def between(self, x: Any, y: Any) -> float:
        """E(x, y) for two labels, from x to y.

        Args:
            x: One value as people write it.
            y: The other.
        """
        first, second = label_of(x), label_of(y)
        if first == second:
            return 0.0
        return float(self.epsilon) if first in self.sensitive else math.inf

    def bind(self, domain: Domain, *, optional: bool) -> HighLowMetric:
        """E between cells.

        Args:
            domain: What the values of the axis may be.
            optional: Whether "no answer" is one more cell, the last.
        """
        names = cell_names(domain, optional=optional, table=False)
        notes = () if self.sensitive else ("unprotected: no value is named as sensitive",)
        return HighLowMetric(self.epsilon, marked(names, self.sensitive), notes)

    def describe(self) -> str:
        """The statement in plain words."""
        if not self.sensitive:
            return "no value is sensitive: nothing is hidden"
        return (
            f"E = {to_plain(self.epsilon)} from a sensitive value ({some(self.sensitive)}) to any "
            f"other; other values are not hidden"
        )

    def to_dict(self) -> dict[str, Any]:
        """The statement as a file holds it, exactly."""
        sensitive = list(self.sensitive)
        return {"kind": self.kind, "epsilon": to_plain(self.epsilon), "sensitive": sensitive}


@dataclass(frozen=True, slots=True, init=False, repr=False)
class SensitiveSet(Metric):
    """E is ε where either value is sensitive and 2ε otherwise.

    "No answer" is not sensitive unless it is named.

    References:
        Xiang et al. 2020, section 3.2.

    Example:
        >>> illness = SensitiveSet(epsilon=1, sensitive=["ill"])
        >>> illness.between("well", "ill"), illness.between("well", "tired")
        (1.0, 2.0)
    """

    kind: ClassVar[str] = "sensitive_set"
    epsilon: Fraction
    sensitive: tuple[str, ...]

    def __init__(self, epsilon: Number, sensitive: Iterable[object]) -> None:
        """Read the number exactly and the labels as text."""
        labels = distinct(read_labels(sensitive, "sensitive"), "sensitive")
        set_fields(self, epsilon=positive(epsilon, "epsilon"), sensitive=labels)

    def between(self, x: Any, y: Any) -> float:
        """E(x, y) for two labels.

        Args:
            x: One value as people write it.
            y: The other.
        """
        first, second = label_of(x), label_of(y)
        if first == second:
            return 0.0
        either = first in self.sensitive or second in self.sensitive
        return float(self.epsilon if either else 2 * self.epsilon)

    def bind(self, domain: Domain, *, optional: bool) -> TableMetric:
        """E between cells.

        Args:
            domain: What the values of the axis may be.
            optional: Whether "no answer" is one more cell, the last.
        """
        names = cell_names(domain, optional=optional)
        high = marked(names, self.sensitive)
        once = high[:, None] | high[None, :]
        values = np.where(once, 1, 2).astype(object) * self.epsilon.numerator
        np.fill_diagonal(values, 0)
        return table(values, self.epsilon.denominator, names=names)

    def describe(self) -> str:
        """The statement in plain words."""
        return (
            f"E = {to_plain(self.epsilon)} where a value is sensitive ({some(self.sensitive)}), "
            f"{to_plain(2 * self.epsilon)} between others"
        )

    def to_dict(self) -> dict[str, Any]:
        """The statement as a file holds it, exactly."""
        sensitive = list(self.sensitive)
        return {"kind": self.kind, "epsilon": to_plain(self.epsilon), "sensitive": sensitive}


def _apart(blocks: Sequence[Sequence[str]]) -> None:
    """Refuse blocks that overlap, and a label that one of them names twice."""
    block_of: dict[str, int] = {}
    for number, block in enumerate(blocks, 1):
        for label in distinct(block, f"block {number} (counted from 1)"):
            other = block_of.setdefault(label, number)
            if other != number:
                raise StudyError(
                    f"blocks must not overlap, got {label!r} in blocks {other} and {number} "
                    "(counted from 1): take it out of one"
                )
