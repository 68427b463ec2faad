"""Statements about labels: blocks, and sensitive values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sfumato.errors import StudyError
from sfumato.exact import positive, to_plain
from sfumato.metrics.cells import TableMetric, table
from sfumato.metrics.contexts import BlockMetric, HighLowMetric
from sfumato.metrics.labels import (
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
from sfumato.metrics.quantities import Number
from sfumato.metrics.statements import Metric, set_fields

if TYPE_CHECKING:
    from sfumato.domains.base import Domain


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Blocks(Metric):
    """E is ε within a block and infinite between blocks: the place is hidden, not the city.

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
        """E(x, y) for two labels."""
        block = self._block_of()
        first, second = (known(value, block, "blocks") for value in (x, y))
        if first == second:
            return 0.0
        return float(self.epsilon) if block[first] == block[second] else math.inf

    def bind(self, domain: Domain, *, optional: bool) -> BlockMetric:
        """E between cells; every cell must be in a block."""
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
    """Only sensitive values are hidden: E(x, y) is ε if x is sensitive and infinite otherwise.

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
        """E(x, y) for two labels, from x to y."""
        first, second = label_of(x), label_of(y)
        if first == second:
            return 0.0
        return float(self.epsilon) if first in self.sensitive else math.inf

    def bind(self, domain: Domain, *, optional: bool) -> HighLowMetric:
        """E between cells."""
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
        """E(x, y) for two labels."""
        first, second = label_of(x), label_of(y)
        if first == second:
            return 0.0
        either = first in self.sensitive or second in self.sensitive
        return float(self.epsilon if either else 2 * self.epsilon)

    def bind(self, domain: Domain, *, optional: bool) -> TableMetric:
        """E between cells."""
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
