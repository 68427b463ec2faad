"""Rakes: noise with many teeth within a narrow reach, drawn from a few widths.

Geometric noise has one tooth: a report says where its person is to within a few cells, at a high
price in Σ_y max_x P(y | x), which a cell for "no answer" near the values bounds
(`channels/extended.py`). A rake has several teeth, at uneven gaps, within its reach. A report of it
says that a person is near one of the teeth: the rough place to within the reach, and of the fine
place as much as the number of teeth leaves. One tooth in k has k times the price, and the rough
place comes with it. The axis is bent to a circle and the rake turned so that a tooth is near the
person's cell.

Guarantee:
    Which rake is drawn does not depend on the cell. From a cell to the next, the distance to the
    nearest tooth changes by one at most, and words per distance fall by at most e^ε, in integers;
    with a cap, from the most to the least by at most e^cap. Around the circle cells are nearer to
    each other than along the axis, which is stricter.

Estimator:
    Turning all cells turns the reports, so all is diagonal in Fourier space: with a_j the law of
    turns of rake j, drawn with chance p_j, reports have the information h = Σ p_j·|â_j|² at every
    frequency, and dividing by h gives the reading with the least variance for people spread evenly.

Why uneven gaps:
    Teeth at equal gaps tell nothing but multiples of one frequency. Gaps with chance ~ 1/gap^(3/2)
    to be longer have no length of their own, and neither have the frequencies at which ranges need
    information, in proportion to the length of the wave.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import PEOPLE_AT_ONCE, Cells, Floats
from sfumato.channels.base import FEW_RATIOS, SymbolChannel, refuse_entries
from sfumato.channels.choice import Choice, Trial
from sfumato.channels.code import Code, Value, runs
from sfumato.channels.geometric import Geometric
from sfumato.channels.odds import Bound, Findings
from sfumato.errors import StudyError, shown
from sfumato.exact import exp_floor, positive, to_plain, whole
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.distance import CappedLineMetric, LineMetric
from sfumato.metrics.norms import root_floor
from sfumato.randomness.bits import BitSource
from sfumato.randomness.draws import Pick, PickRow, Steps
from sfumato.randomness.tables import RowTable, WordTable

MOST_RAKES = 6
_MOST_CELLS = 1 << 20
_FINE = 32  # binary places of heights beyond those of words
_TALLEST = Fraction(1 << 32)  # words of a tooth over those far away, where no cap says less
_STRATA = 64  # of the chance of a gap
_TIMES, _PLUS, _MASK = 6364136223846793005, 1442695040888963407, (1 << 64) - 1  # Knuth's MMIX


@dataclass(frozen=True, slots=True)
class Rakes(Choice):
    """Choose rakes; they fit `Distance` with equal steps.

    A rake has teeth at uneven gaps within its reach, and a person's report is a rake turned so that
    a tooth is near their cell. Each further rake, up to six, reaches half as far. Inside `Extended`
    they serve axes where "no answer" is near the values.

    Args:
        reach: How many cells the first rake reaches over, below the number of cells.
        gap: The least gap between two teeth, in cells; about 1/ε is best.
        narrower: How often each rake is drawn for one draw of that before, above 0 and at most 1.

    Example:
        >>> import sfumato as sf
        >>> protect = sf.Distance(epsilon=0.5, no_answer=8)
        >>> made = sf.Extended(sf.Rakes(100, 2, "3/4"))
        >>> age = sf.integers("age", 0, 499, protect=protect, optional=True, channel=made)
        >>> study = sf.Study("ages", [age])
        >>> round(study.expected_error(10_000, "age=130..349").rows[-1].stderr)
        74
    """

    id: ClassVar[str] = "rakes"
    reach: int
    gap: int
    narrower: Fraction

    def __post_init__(self) -> None:
        """Read all exactly."""
        for name in ("reach", "gap"):
            given = getattr(self, name)
            number = whole(given)
            if number is None or number < 1:
                raise StudyError(
                    f"{name} must be a whole number of cells from 1, got {name}={shown(given)}"
                )
            object.__setattr__(self, name, number)
        share = positive(self.narrower, "narrower")
        if share > 1:
            raise StudyError(f"narrower must be at most 1, got narrower={to_plain(share)}")
        object.__setattr__(self, "narrower", share)

    def misfit(self, metric: CellMetric) -> str | None:
        """It needs equal steps, and more cells than the reach."""
        problem = Geometric().misfit(metric)
        if problem is not None or not isinstance(metric, LineMetric | CappedLineMetric):
            return problem or "it needs protect=Distance(...)"
        if metric.size <= self.reach:
            return (
                f"reach={self.reach:,} cells needs an axis of more cells, and there are "
                f"{metric.size:,}; use a smaller reach"
            )
        if metric.size > _MOST_CELLS:
            return f"it takes at most {_MOST_CELLS:,} cells, and there are {metric.size:,}"
        return None

    def bind(self, metric: CellMetric, *, precision: int = 64, resolution: int = 0) -> RakesChannel:
        """Lay the rakes on the circle of the cells.

        Args:
            metric: E between the cells.
            precision: How many bits of a random word take part.
            resolution: Bits of a value's place between two cells; 0 without stochastic rounding.
        """
        self.refuse_misfit(metric, resolution)
        if not isinstance(metric, LineMetric | CappedLineMetric) or metric.equal_step is None:
            raise StudyError(f"Rakes does not fit this axis: {self.misfit(metric)}")
        rakes = all_teeth(self.reach, self.gap)
        above, below = self.narrower.numerator, self.narrower.denominator
        often = [above**k * below ** (len(rakes) - 1 - k) for k in range(len(rakes))]
        words = [(part << precision) // sum(often) for part in often]
        words[0] += (1 << precision) - sum(words)
        odds = exp_floor(metric.equal_step)
        cap = exp_floor(metric.cap) if isinstance(metric, CappedLineMetric) else _TALLEST
        laid = tuple(
            tuple(turn_words(distances(teeth, metric.size), odds, min(cap, _TALLEST), precision))
            for teeth in rakes
        )
        return RakesChannel(metric=metric, often=tuple(words), laid=laid, precision=precision)

    def options(self) -> dict[str, Any]:
        """The reach, the gap and how often narrower rakes are drawn."""
        return {"reach": self.reach, "gap": self.gap, "narrower": to_plain(self.narrower)}

    @classmethod
    def trials(cls) -> tuple[Trial, ...]:
        """Lines with a cap and without; several rakes and one, long and short steps."""
        one = Fraction(1)
        near = CappedLineMetric(LineMetric.equal(one / 2, 7), Fraction(4, 5))
        return (
            Trial(choice=cls(5, 1, one / 2), metric=LineMetric.equal(one, 6)),
            Trial(choice=cls(4, 1, one), metric=near),
            Trial(choice=cls(2, 3, one / 3), metric=LineMetric.equal(one / 10, 5)),
            Trial(choice=cls(3, 1, one / 3), metric=LineMetric.equal(one * 3, 4)),
        )


def all_teeth(reach: int, gap: int) -> list[list[int]]:
    """Places of the teeth of every rake, the widest first.

    Each reaches half as far as that before it, until one has a single tooth.

    Args:
        reach: Of the widest.
        gap: The least gap.

    Example:
        >>> [len(teeth) for teeth in all_teeth(100, 2)]
        [30, 13, 6, 3, 1]
        >>> all_teeth(20, 2)[0]
        [0, 2, 7, 10]
    """
    gaps = [
        (root_floor(8 * gap**3 * (2 * _STRATA) ** 2 // (2 * stratum + 1) ** 2, 3) + 1) // 2
        for stratum in range(_STRATA)
    ]  # the nearest whole number to gap/u^(2/3), with u in the middle of each stratum of (0, 1)
    found = []
    for halved in range(MOST_RAKES):
        span, state = reach >> halved, reach >> halved
        teeth = [0]
        while True:
            state = (state * _TIMES + _PLUS) & _MASK
            place = teeth[-1] + gaps[state * _STRATA >> 64]
            if place > span:
                break
            teeth.append(place)
        found.append(teeth)
        if len(teeth) == 1:
            break
    return found


def distances(teeth: list[int], circle: int) -> NDArray[np.int64]:
    """Steps from every place of a circle to the nearest tooth.

    Args:
        teeth: Their places, in order.
        circle: Steps of a full turn, more than the last of them.

    Example:
        >>> distances([0, 3], 8).tolist()
        [0, 1, 1, 0, 1, 2, 2, 1]
    """
    around = np.array([teeth[-1] - circle, *teeth, circle])
    place = np.arange(circle)
    after = np.searchsorted(around, place, side="right")
    found: NDArray[np.int64] = np.minimum(place - around[after - 1], around[after] - place)
    return found


def _falling(first: int, odds: Fraction, cap: Fraction, steps: int) -> list[int]:
    """Numbers that fall by `odds` from one to the next, rounded up, and by `cap` in all."""
    found, least = [first], -(-first * cap.denominator // cap.numerator)
    while len(found) <= steps and found[-1] > least:
        found.append(max(least, -(-found[-1] * odds.denominator // odds.numerator)))
    return found


def turn_words(away: NDArray[np.int64], odds: Fraction, cap: Fraction, precision: int) -> list[int]:
    """Words for every distance from the teeth: neighbours differ by `odds` at most, all by `cap`.

    All is in integers. What rounding leaves goes to the places that are farthest away, so that odds
    only fall.

    Args:
        away: The distance of every place from the nearest tooth.
        odds: The most that words may differ by at neighbouring places.
        cap: The most that they may differ by at any two.
        precision: Bits of a random word.
    """
    tall = _falling(1 << precision + _FINE, odds, cap, int(away.max()))
    top = len(tall) - 1
    counts = np.bincount(np.minimum(away, top), minlength=top + 1).tolist()
    whole = sum(count * height for count, height in zip(counts, tall, strict=True))
    room = max(0, (1 << precision) - len(away) * len(tall))  # for what is rounded up
    words = _falling(room * tall[0] // whole, odds, cap, top)
    if len(words) != len(tall):
        words += words[-1:] * (len(tall) - len(words))
    left = (1 << precision) - sum(n * word for n, word in zip(counts, words, strict=True))
    each, more = divmod(left, counts[top])
    words[top] += each
    near = min(words[-2:])  # what rounding leaves must not lift the last words too far
    if left < 0 or not words[0] > words[top] + 1 or words[top] + 1 > near * odds:
        raise StudyError(
            f"a table of 2^{precision} words is too coarse for rakes on {len(away)} cells at this "
            "epsilon; use a larger epsilon or fewer cells"
        )
    table = [words[k] for k in np.minimum(away, top).tolist()]
    for place in np.flatnonzero(away >= top)[:more].tolist():
        table[place] += 1
    return table


@dataclass(frozen=True, kw_only=True, eq=False)
class RakesChannel(SymbolChannel):
    """Symbol `size`·number of the rake + its turn.

    Attributes:
        often: Of 2^precision words, those with which each rake is drawn.
        laid: For every rake, the words with which the cell is so many places beyond the turn.
    """

    id: ClassVar[str] = "rakes"
    most_ratios: ClassVar[int] = FEW_RATIOS
    metric: LineMetric | CappedLineMetric
    often: tuple[int, ...]
    laid: tuple[tuple[int, ...], ...]
    precision: int = 64
    _rakes: WordTable = field(init=False, repr=False)
    _turns: RowTable = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Keep the tables of both draws."""
        object.__setattr__(self, "_rakes", WordTable(self.often, self.precision))
        object.__setattr__(self, "_turns", RowTable(self.laid, self.precision))

    @property
    def outputs(self) -> int:
        """All turns of all rakes."""
        return len(self.often) * self.size

    def encode(self, cells: Cells, bits: BitSource) -> Cells:
        """Draw a rake, and how far behind the cell it is turned.

        Args:
            cells: One cell per person.
            bits: Where randomness comes from.
        """
        out = np.empty(len(cells), dtype=self.symbol_type())
        for start in range(0, len(cells), PEOPLE_AT_ONCE):
            part = np.asarray(cells[start : start + PEOPLE_AT_ONCE], dtype=np.int64)
            rake = self._rakes.draw(bits, len(part)).astype(np.int64)
            turn = (part - self._turns.draw(bits, rake)) % self.size
            out[start : start + len(part)] = rake * self.size + turn
        return out

    def steps(self, cells: NDArray[np.int64]) -> Steps:
        """A rake, and how far behind the cell it is turned."""
        rake = yield self._first
        behind = yield PickRow(self._picks, rake)
        return rake * self.size + (cells - behind) % self.size

    @cached_property
    def _first(self) -> Pick:
        """The first draw."""
        return Pick(self.often, self.precision)

    @cached_property
    def _picks(self) -> dict[int, Pick]:
        """The second draw, by rake."""
        return {rake: Pick(words, self.precision) for rake, words in enumerate(self.laid)}

    def device_code(self, code: Code, cell: Value) -> Value:
        """A rake, and how far behind the cell it is turned.

        Args:
            code: Where instructions are added.
            cell: The cell.
        """
        rake = code.pick(runs(self.often), self.precision)
        behind = code.row(map(runs, self.laid), self.precision, rake)
        return rake * self.size + (cell + self.size - behind) % self.size

    def words(self) -> tuple[list[list[int]], int]:
        """Exact word counts: of the first draw, times those of the second."""
        refuse_entries(self.size, self.outputs)
        rows = [
            [
                often * words[cell - turn]
                for often, words in zip(self.often, self.laid, strict=True)
                for turn in range(self.size)
            ]
            for cell in range(self.size)
        ]
        return rows, 1 << 2 * self.precision

    def envelope(self) -> tuple[list[tuple[int, int]], int]:
        """The same for all turns of a rake."""
        found = []
        for often, words in zip(self.often, self.laid, strict=True):
            found += [(often * max(words), often * min(words))] * self.size
        return found, 1 << 2 * self.precision

    @cached_property
    def chances(self) -> Floats:
        """p, the chance of each rake."""
        return np.array(self.often, dtype=np.float64) / float(1 << self.precision)

    @cached_property
    def _harmonics(self) -> NDArray[np.complex128]:
        """â of each rake; what all turns share is in â(0) = 1 alone, so that none is lost."""
        from scipy import fft

        found = np.empty((len(self.laid), self.size // 2 + 1), dtype=np.complex128)
        for rake, words in enumerate(self.laid):
            least = min(words)
            law = np.array([word - least for word in words], dtype=np.float64)
            found[rake] = fft.rfft(law / float(1 << self.precision))
        found[:, 0] = 1.0
        return found

    @cached_property
    def information(self) -> Floats:
        """h, at every frequency of the circle from 0 on."""
        found: Floats = self.chances @ np.abs(self._harmonics) ** 2
        found[0] = 1.0
        return found

    def coefficients(self, weights: Floats) -> Floats:
        """Divide by the information at every frequency, then mix by each rake's law."""
        return self._through(weights, np.conj(self._harmonics) / self.information)

    def gather(self, profile: Floats) -> Floats:
        """The transpose of `coefficients`."""
        return self._collected(profile, self._harmonics / self.information)

    def expect(self, table: Floats) -> Floats:
        """Every rake's mean, by its chance."""
        return self._collected(table, self.chances[:, None] * self._harmonics)

    def mix(self, law: Floats) -> Floats:
        """The transpose of `expect`."""
        return self._through(law, self.chances[:, None] * np.conj(self._harmonics))

    def _through(self, values: Floats, scale: NDArray[Any]) -> Floats:
        """From cells to all turns of all rakes, by one factor per frequency and rake."""
        from scipy import fft

        spectrum = fft.rfft(values, axis=-1)[..., None, :] * scale
        found: Floats = fft.irfft(spectrum, self.size, axis=-1)
        return found.reshape(*values.shape[:-1], self.outputs)

    def _collected(self, table: Floats, scale: NDArray[Any]) -> Floats:
        """From all turns of all rakes to cells, by one factor per frequency and rake."""
        from scipy import fft

        turns = table.reshape(*table.shape[:-1], len(self.often), self.size)
        spectrum = np.sum(fft.rfft(turns, axis=-1) * scale, axis=-2)
        found: Floats = fft.irfft(spectrum, self.size, axis=-1)
        return found

    def sampler_problems(self) -> Iterator[str]:
        """Both draws must be those shown."""
        yield from self._rakes.problems()
        yield from self._turns.problems(self.laid)
        if any(sum(words) != 1 << self.precision for words in self.laid):
            yield f"the words of a rake do not sum to 2^{self.precision}"

    def check_structure(self, metric: CellMetric, found: Findings) -> None:
        """Neighbours around the circle decide, and under a cap the most and the least of a rake.

        Args:
            metric: E between the cells.
            found: Where findings are added.
        """
        if not isinstance(metric, LineMetric | CappedLineMetric) or metric.equal_step is None:
            super().check_structure(metric, found)
            return
        last = metric.size - 1
        for words in self.laid:
            for bound, pair, odds in (
                (metric.equal_step, (0, 1), _worst([*words, words[0]])),
                (metric.exact(0, last), (0, last), (max(words), min(words))),
            ):
                if pair == (0, last) and not isinstance(metric, CappedLineMetric):
                    continue
                found.exact(pair, *odds, Bound(bound))
        found.by_structure(2 * last)


def _worst(words: list[int]) -> tuple[int, int]:
    """The numbers next to each other that differ by the largest ratio, the larger first."""
    most, least = 1, 1
    for one, other in pairwise(words):
        high, low = max(one, other), min(one, other)
        if high * least > most * low:
            most, least = high, low
    return most, least
