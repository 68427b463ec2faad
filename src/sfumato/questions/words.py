"""Questions about one axis in words: the study's own where there is one, else numbers of cells."""

from __future__ import annotations

from typing import Protocol

from sfumato.domains.categories import NO_ANSWER
from sfumato.questions.language import AxisLike, quoted

EVERYONE = "everyone"


class Words(Protocol):
    """How cells and runs of cells of one axis are called."""

    def cell(self, place: int) -> str:
        """One cell."""

    def span(self, first: int, last: int) -> str:
        """All cells from the first to the last."""

    def upto(self, last: int) -> str:
        """All cells up to the last."""


class Numbers:
    """Cells by number.

    Example:
        >>> words = Numbers()
        >>> words.cell(3), words.span(2, 5), words.upto(4)
        ('cell 3', 'cells 2..5', 'cells ..4')
    """

    def cell(self, place: int) -> str:
        """One cell."""
        return f"cell {place}"

    def span(self, first: int, last: int) -> str:
        """All cells from the first to the last."""
        return self.cell(first) if first == last else f"cells {first}..{last}"

    def upto(self, last: int) -> str:
        """All cells up to the last."""
        return f"cells ..{last}"


class AxisWords:
    """Cells in the language of questions, so that a label can be asked again.

    Example:
        >>> import sfumato as sf
        >>> words = AxisWords(sf.integers("age", 18, 99))
        >>> words.cell(0), words.span(0, 12), words.upto(12)
        ('age=18', 'age=18..30', 'age=..30')
    """

    def __init__(self, axis: AxisLike) -> None:
        self._name = quoted(axis.name)
        self._values = axis.domain.size
        labels = axis.domain.labels()
        self._labels = labels if axis.domain.ordered else [quoted(label) for label in labels]
        ends = [label.split("..") for label in labels]
        self._lows, self._highs = [end[0] for end in ends], [end[-1] for end in ends]
        # Between grid points an interval is prorated, so that runs of them are named one by one.
        self._grid = axis.domain.rounding_bits > 0

    def cell(self, place: int) -> str:
        """One cell, "no answer" included."""
        label = NO_ANSWER if place == self._values else self._labels[place]
        return f"{self._name}={label}"

    def span(self, first: int, last: int) -> str:
        """All cells from the first to the last."""
        if first == last:
            return self.cell(first)
        if self._grid:
            return f"{self._name}={'|'.join(self._labels[first : last + 1])}"
        return f"{self._name}={self._lows[first]}..{self._highs[last]}"

    def upto(self, last: int) -> str:
        """All cells up to the last."""
        if self._grid:
            return self.span(0, last)
        return f"{self._name}=..{self._highs[last]}"


def joined(parts: list[str]) -> str:
    """Conditions on several axes as one question."""
    return ", ".join(part for part in parts if part != EVERYONE) or EVERYONE
