"""A channel of somebody's own, which lists no steps, is driven all the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest

import sfumato as sf
from sfumato.auditing.audit import audit
from sfumato.channels.base import Channel, SymbolChannel
from sfumato.channels.choice import REGISTRY, Choice, register
from sfumato.metrics.cells import CellMetric
from sfumato.randomness.bits import WORD_BITS
from sfumato.randomness.tables import leading


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnChannel(SymbolChannel):
    """In three of four cases any cell, by a second word, else the true one.

    With `extra`, so many more first words ask for any cell; with `slip`, every cell but the last
    has so many second words less.
    """

    id: ClassVar[str] = "own"
    metric: CellMetric
    precision: int = 64
    extra: int = 0
    slip: int = 0

    @property
    def lies(self) -> int:
        """Of 2^precision first words, how many ask for a second."""
        return (1 << self.precision) * 3 // 4

    def encode(self, cells: Any, bits: Any) -> Any:
        first = leading(bits.words(len(cells)), self.precision)
        second = leading(bits.words(len(cells)), self.precision)
        each = np.uint64((1 << self.precision) // self.size - self.slip)
        anything = np.minimum(second // each, self.size - 1)
        lie = first < np.uint64(self.lies + self.extra)
        return np.where(lie, anything.astype(np.int64), np.asarray(cells)).astype(np.uint8)

    def words(self) -> tuple[list[list[int]], int]:
        total = 1 << self.precision
        each = total // self.size
        rows = []
        for x in range(self.size):
            row = [self.lies * each] * self.size
            row[-1] += self.lies * (total - self.size * each)
            row[x] += (total - self.lies) * total
            rows.append(row)
        return rows, total * total

    def coefficients(self, weights: Any) -> Any:
        return weights @ np.linalg.inv(self.likelihood()).T


@dataclass(frozen=True)
class Own(Choice):
    """Choose it."""

    id: ClassVar[str] = "own"
    extra: int = 0
    slip: int = 0
    precision: int = 64

    def misfit(self, metric: CellMetric) -> str | None:
        return None

    def bind(self, metric: CellMetric, *, precision: int = 64, resolution: int = 0) -> Channel:
        return OwnChannel(metric=metric, precision=self.precision, extra=self.extra, slip=self.slip)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    register(Own)
    yield
    del REGISTRY[Own.id]


def study(choice: Choice, cells: int = 3, eps: Any = 2) -> sf.Study:
    axis = sf.integers("age", 0, cells - 1, protect=sf.Uniform(eps), channel=choice)
    return sf.Study("own", [axis])


@pytest.mark.parametrize("precision", [WORD_BITS, 20])
def test_a_channel_that_lists_no_steps_is_driven(precision: int) -> None:
    (found,) = audit(study(Own(precision=precision))).axes
    assert found.holds
    assert found.driven == "every boundary"
    assert found.reports_driven > 1_000


@pytest.mark.parametrize("precision", [WORD_BITS, 20])
@pytest.mark.parametrize("fault", ["extra", "slip"])
def test_one_word_that_goes_elsewhere_is_found(fault: str, precision: int) -> None:
    found = audit(study(Own(**{fault: 1}, precision=precision)))
    assert not found.holds
    assert "is not the one that encode follows" in found.axes[0].problems[0]


def without_steps(choice: Choice, cells: int, **changes: Any) -> sf.Study:
    """A study whose channel has no steps, and other attributes if asked for."""
    made = study(choice, cells, 1)
    (channel,) = made.channels
    for name, value in {"steps": lambda cells: None, **changes}.items():
        object.__setattr__(channel, name, value)
    return made


def test_the_law_of_combs_is_found_without_their_steps() -> None:
    (found,) = audit(without_steps(sf.Comb(), 6)).axes
    assert found.holds
    assert found.driven == "every boundary"


def test_claims_are_checked_without_steps() -> None:
    found = audit(without_steps(sf.Comb(), 6, worst_ratio=lambda: Fraction(2)))
    assert not found.holds
    assert "worst_ratio" in found.axes[0].problems[0]


@pytest.mark.parametrize("choice", [sf.HRR(), sf.OLH(), sf.OUE()], ids=lambda choice: choice.id)
def test_words_that_cannot_be_followed_do_not_pass(choice: Choice) -> None:
    """Lanes of a word, remainders and planes of bits: such a channel must list its draws."""
    found = audit(without_steps(choice, 5))
    assert not found.holds
    assert "`steps`" in found.axes[0].problems[0]


@pytest.mark.parametrize(
    ("encode", "told"),
    [
        (lambda cells, bits: [][0], "encode fails on scripted words (IndexError)"),
        (lambda cells, bits: np.asarray(cells) + 3, "encode outputs symbols other than 0..2"),
        (lambda cells, bits: np.zeros((len(cells), 2)), "encode outputs an array of shape"),
    ],
    ids=["fails", "beyond", "shape"],
)
@pytest.mark.parametrize("choice", [Own(), sf.KaryResponse()], ids=lambda choice: choice.id)
def test_what_is_no_report_is_found(choice: Choice, encode: Any, told: str) -> None:
    made = study(choice)

    def drawn(cells: Any, bits: Any) -> Any:
        bits.words(len(cells))
        return encode(cells, bits)

    object.__setattr__(made.channels[0], "encode", drawn)
    assert told in audit(made).axes[0].problems[0]
