"""Extended channels: a channel on some "core" cells, lifted to further cells beside them.

It serves optional answers on distance axes, where "no answer" lies aside from a line, and
`HighLow`, where the sensitive cells are the core and all others stand beside it. How a channel is
lifted is in `channels/lift.py`; here its inner channel is bound.

The distance c of "no answer" also bounds what all values tell together: Σ_y max_x P(y | x) <= e^c.
Where a line under its cap would tell more, or nearly as much, the inner channel gets a smaller cap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from sfumato.channels.base import SymbolChannel
from sfumato.channels.choice import Choice, Trial, choice_to_dict, read_choice
from sfumato.channels.comb import Comb
from sfumato.channels.exponential import Exponential
from sfumato.channels.geometric import Geometric
from sfumato.channels.hadamard import Hadamard
from sfumato.channels.lift import Around, ExtendedChannel, SoleChannel
from sfumato.channels.rakes import Rakes
from sfumato.channels.response import KaryResponse
from sfumato.errors import StudyError, shown
from sfumato.exact import exp_floor
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.distance import AsideMetric, CappedLineMetric, LineMetric
from sfumato.metrics.labelled import HighLowMetric
from sfumato.metrics.uniform import UniformMetric

#: The share of e^c − 1 that the core cells may tell together: less is left to tell them from the
#: cell aside. Measured to be near the best for ranges, at c from 0.5 to 3 and 8 to 100 cells.
TOLD = Fraction(9, 10)
_CAPS = 64  # fractions of twice c that are tried as a cap of the inner channel
_SPARE = Fraction(1, 1 << 32)  # of the cap: room for rounding


@dataclass(frozen=True, slots=True, init=False)
class Extended(Choice):
    """Choose an extended channel; it fits `HighLow`, and `Distance` on axes with `optional=True`.

    The inner channel perturbs the sensitive cells, or the values of the axis. The other cells, or
    "no answer", have a symbol each and now and then imitate the inner channel's reports.

    Args:
        inner: The channel of the core cells, which must send symbols; left out, geometric noise on
            equally spaced values, exponential on others, and k-ary response on sensitive cells.
            Geometric noise on unequal steps treats all as the shortest.

    Example:
        >>> import sfumato as sf
        >>> protect = sf.Distance(epsilon=0.5, no_answer=50)
        >>> age = sf.integers("age", 0, 99, protect=protect, optional=True)
        >>> study = sf.Study("ages", [age])
        >>> study.blocks[0].choice
        Extended(inner=Geometric())
        >>> round(study.expected_error(10_000, "age=30..49").rows[-1].stderr)
        87
    """

    id: ClassVar[str] = "extended"
    inner: Choice | None

    def __init__(self, inner: Choice | Mapping[str, Any] | str | None = None) -> None:
        """Take the inner channel, or read it as a file or a command holds it."""
        read = None if inner is None else read_choice(inner, "inner")
        if read is not None and read.id in ("extended", "stricter"):
            raise StudyError(
                f"inner must be another channel, such as Geometric(), got inner={shown(inner)}"
            )
        object.__setattr__(self, "inner", read)

    def options(self) -> dict[str, Any]:
        """The inner channel."""
        return {} if self.inner is None else {"inner": choice_to_dict(self.inner)}

    def inside(self, metric: CellMetric) -> Choice:
        """The inner channel, or the one that is taken where none is named."""
        if self.inner is not None:
            return self.inner
        if isinstance(metric, AsideMetric):
            return Exponential() if metric.line.equal_step is None else Geometric()
        return KaryResponse()

    @property
    def title(self) -> str:
        """What `explain` calls it."""
        return "an extended channel" + (f" around {self.inner.id}" if self.inner else "")

    def misfit(self, metric: CellMetric) -> str | None:
        """It needs a core and other cells, and an inner channel that fits the core."""
        if not isinstance(metric, Around):
            return "it needs protect=HighLow(...), or Distance(...) on an axis with optional=True"
        core = self._core(metric)
        if core is None:
            return None if core_size(metric) else "no cell is sensitive, so nothing is to be hidden"
        problem = self.inside(metric).misfit(core)
        return problem and f"{type(self.inside(metric)).__name__} inside does not: {problem}"

    def settled(
        self, metric: CellMetric, *, progress: Callable[[float], None] | None = None
    ) -> Extended:
        """With the inner channel by name, and settled itself.

        Args:
            metric: E between the cells.
            progress: Called with the share done, by those that search for long.
        """
        core = self._core(metric) if isinstance(metric, Around) else None
        inner = self.inside(metric)
        return Extended(inner if core is None else inner.settled(core, progress=progress))

    def bind(
        self, metric: CellMetric, *, precision: int = 64, resolution: int = 0
    ) -> ExtendedChannel:
        """Bind the inner channel to the core, and lift it.

        Args:
            metric: E between the cells.
            precision: How many bits of a random word take part.
            resolution: Bits of a value's place between two cells; 0 without stochastic rounding.
        """
        self.refuse_misfit(metric, resolution)
        if not isinstance(metric, Around):
            raise StudyError(f"Extended does not fit this axis: {self.misfit(metric)}")
        if isinstance(metric, AsideMetric):
            return self._bind_aside(metric, precision)
        core = self._core(metric)
        inner = SoleChannel() if core is None else self._bound(metric, core, precision)
        return ExtendedChannel(metric=metric, inner=inner, precision=precision)

    def _core(self, metric: Around) -> LineMetric | CappedLineMetric | UniformMetric | None:
        """E that the inner channel keeps between core cells; None where there is one or none."""
        return core_metric(self._level(metric) if isinstance(metric, AsideMetric) else metric)

    def _level(self, metric: AsideMetric) -> AsideMetric:
        """With all steps as short as the shortest, where geometric noise is named inside."""
        line = metric.line
        if line.equal_step is not None or not isinstance(self.inner, Geometric | Rakes):
            return metric
        level = LineMetric.equal(min(line.steps), line.size)
        if isinstance(line, CappedLineMetric):
            return replace(metric, line=CappedLineMetric(level, line.cap))
        return replace(metric, line=level)

    def _bound(self, metric: Around, core: CellMetric, precision: int) -> SymbolChannel:
        """The inner channel on the core; one that sends bits is refused."""
        choice = self.inside(metric)
        inner = choice.bind(core, precision=precision)
        if not isinstance(inner, SymbolChannel) or inner.steps(np.zeros(1, np.int64)) is None:
            raise StudyError(
                f"Extended does not fit this axis: {type(choice).__name__} inside sends bits or "
                "lists no steps; it needs a channel such as Geometric, KaryResponse or Hadamard"
            )
        return inner

    def _bind_aside(self, metric: AsideMetric, precision: int) -> ExtendedChannel:
        """Lift the channel of a line under the largest cap with which that is possible.

        The cap follows from integers alone, so that it is the same on every machine.
        """
        level = self._level(metric)
        inner = self._bound(metric, widest_core(level), precision)
        most, limit = _CAPS, exp_floor(metric.aside)
        envelope, total = inner.envelope()
        if sum(m for m, _ in envelope) > total * (1 + TOLD * (limit - 1)):
            low, most = 0, _CAPS
            while most - low > 1:
                middle = (low + most) // 2
                told = _told_under(envelope, total, exp_floor(2 * metric.aside * middle / _CAPS))
                low, most = (middle, most) if told <= 1 + TOLD * (limit - 1) else (low, middle)
            most = max(low, 1)
        while True:
            try:
                if most < _CAPS:
                    inner = self._bound(metric, capped_core(level, most), precision)
                return ExtendedChannel(metric=metric, inner=inner, precision=precision)
            except StudyError:
                if most == 1:
                    raise
                most //= 2

    @classmethod
    def trials(cls) -> tuple[Trial, ...]:
        """Lines with a cell aside, near and far, and under a cap; sensitive cells, one or more."""
        one = Fraction(1)
        line, unequal = (
            LineMetric.equal(one, 4),
            LineMetric((one * 3 / 4, one * 3 / 2, one * 5 / 4)),
        )
        capped = CappedLineMetric(LineMetric.equal(one / 2, 6), Fraction(4, 5))
        some = HighLowMetric(one, np.array([True, False, True, False, True]))
        one_cell = HighLowMetric(one, np.array([False, True, False]))
        tried: tuple[tuple[Choice, CellMetric], ...] = (
            (cls(), AsideMetric(line, Fraction(2))),
            (cls(), AsideMetric(LineMetric.equal(one, 6), one)),
            (cls(), AsideMetric(capped, Fraction(7, 10))),
            (cls(Exponential()), AsideMetric(unequal, Fraction(2))),
            (cls(Geometric()), AsideMetric(unequal, Fraction(2))),
            (
                cls(Rakes(4, 1, one / 4)),
                AsideMetric(LineMetric.equal(one, 8), Fraction(3, 2)),
            ),
            (cls(), some),
            (cls(Hadamard()), some),
            (cls(Comb()), HighLowMetric(one * 2, np.array([True] * 4 + [False]))),
            (cls(), one_cell),
        )
        return tuple(Trial(choice=choice, metric=metric) for choice, metric in tried)


def core_size(metric: Around) -> int:
    """Number of core cells: those of the line, or the sensitive ones."""
    if isinstance(metric, AsideMetric):
        return metric.line.size
    return int(np.count_nonzero(metric.sensitive))


def core_metric(metric: Around) -> LineMetric | CappedLineMetric | UniformMetric | None:
    """E between the core cells; None where there is one or none."""
    if isinstance(metric, AsideMetric):
        return widest_core(metric)
    size = core_size(metric)
    return UniformMetric(metric.epsilon, size) if size > 1 else None


def widest_core(metric: AsideMetric) -> LineMetric | CappedLineMetric:
    """The line under nearly all of twice the distance of the cell aside."""
    return capped_core(metric, _CAPS)


def capped_core(metric: AsideMetric, part: int) -> LineMetric | CappedLineMetric:
    """The line under a part of twice the distance of the cell aside, a little less than all of it.

    Args:
        metric: The line and the cell aside.
        part: How many of `_CAPS` parts.
    """
    cap = 2 * metric.aside * Fraction(part, _CAPS) * (1 - _SPARE)
    line = metric.line
    if isinstance(line, CappedLineMetric):
        return CappedLineMetric(line.line, min(line.cap, cap))
    return line if cap >= line.exact(0, line.size - 1) else CappedLineMetric(line, cap)


def _told_under(envelope: Sequence[tuple[int, int]], total: int, odds: Fraction) -> Fraction:
    """Σ max over x of Q(y | x) once fixed words hold all odds of a channel to the given ones.

    Args:
        envelope: The most and the least words of every output.
        total: The words of a row.
        odds: The largest ratio of two cells, above 1.
    """
    top, bottom = odds.numerator, odds.denominator
    fixed = Fraction(
        sum(max(0, most * bottom - least * top) for most, least in envelope), top - bottom
    )
    return (sum(most for most, _ in envelope) + fixed) / (total + fixed)
