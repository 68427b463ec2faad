"""Candidates for a metric that no single channel is made for: they compete by exact error.

Channels made for E compete with those made for simpler metrics below E (one ε at the least E, a
line of equal steps), with flipped bits of a code, and with rows found by search. The error is the
mean variance of typical questions, all ranges or all single cells, for people spread evenly, exact
for unbiased answers. So a weaker guarantee gives no worse answers than a stronger one that was
tried, up to the margins below.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import MOST_ROW_ENTRIES, Floats
from sfumato.channels.base import Channel
from sfumato.channels.choice import Choice, described
from sfumato.channels.code import Code, Tables
from sfumato.channels.exponential import Exponential
from sfumato.channels.extended import Extended
from sfumato.channels.geometric import Geometric
from sfumato.channels.hadamard import Hadamard
from sfumato.channels.per_block import PerBlock
from sfumato.channels.product import Product
from sfumato.channels.response import Binary, KaryResponse
from sfumato.channels.searched.extremal import Extremal
from sfumato.channels.searched.matrix_response import MatrixResponse
from sfumato.channels.stricter import Stricter
from sfumato.channels.thermometer import Thermometer
from sfumato.errors import StudyError, TooLargeError
from sfumato.metrics.cells import CellMetric, TableMetric
from sfumato.metrics.distance import AsideMetric, CappedLineMetric, LineMetric
from sfumato.metrics.grids import shapes_of
from sfumato.metrics.labelled import BlockMetric, HighLowMetric
from sfumato.metrics.recognise import blocks_of
from sfumato.metrics.stricter import caps_of, line_within, uniform_within
from sfumato.metrics.uniform import UniformMetric
from sfumato.study.choose_uniform import because, choose_uniform

#: A later candidate must have a variance this much smaller: the last bits of machines differ, and
#: must not decide which channel a study gets. What is found by search must be worth its table.
_WORTH, _WORTH_A_TABLE = 0.98, 0.85
#: Cells up to which a candidate is tried: what takes about a second.
_MOST_CELLS, _MOST_EXPONENTIAL, _MOST_CODED, _MOST_SEARCHED = 4096, 1024, 256, 128
#: Rows of weights that stand for all ranges or all cells, and entries of them all.
_MOST_ROWS, _FEWEST_ROWS, _MOST_ENTRIES = 513, 33, 1 << 17
_MOST_BLOCKS = 256
_TYPICAL_PEOPLE = 10_000
#: Bytes of the tables that a device program of a searched channel may have, to be a default.
MOST_PROGRAM_BYTES = 1 << 20

Blocks = list[tuple[NDArray[np.intp], CellMetric | None]]
#: Settles a candidate and binds it.
Bind = Callable[[Choice, CellMetric], tuple[Choice, Channel]]


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """Typical questions about one axis, as rows of weights whose squares have the same mean.

    Attributes:
        rows: One row per question, one column per cell.
        shares: The share of each row in the mean.
        ordered: Whether they are ranges; otherwise single cells.
    """

    rows: Floats
    shares: Floats
    ordered: bool

    @classmethod
    def of(cls, values: int, size: int, *, ordered: bool) -> Asked:
        """All ranges of an ordered axis, or all single cells.

        Args:
            values: Number of cells that hold values.
            size: Number of all cells, "no answer" included.
            ordered: Whether cells have an order.
        """
        most = max(_FEWEST_ROWS, min(_MOST_ROWS, _MOST_ENTRIES // size))
        if not ordered:
            cells = np.unique(np.linspace(0, values - 1, most).round().astype(np.intp))
            return cls(np.eye(size)[cells], np.full(len(cells), 1 / len(cells)), ordered)
        # It needs SciPy, which a device with a study file does not have.
        from sfumato.questions.lines import Ranges

        every = Ranges(values, size=size, ends=most)
        rows, counts = every.squares()
        return cls(rows, counts / every.questions, ordered)

    @property
    def words(self) -> str:
        """What they are called."""
        return "ranges" if self.ordered else "single cells"

    @property
    def workload(self) -> str:
        """What searched channels call them."""
        return "ranges" if self.ordered else "cells"

    def at(self, cells: NDArray[np.intp]) -> Asked:
        """The same questions about some of the cells; those that are alike there become one."""
        rows, place = np.unique(self.rows[:, cells], axis=0, return_inverse=True)
        shares = np.bincount(place, weights=self.shares).astype(np.float64)
        return Asked(rows, shares, self.ordered)

    def variance(self, channel: Channel) -> float:
        """Mean variance, per person, of unbiased answers if people are spread evenly."""
        spread = channel.second_moment(self.rows) - self.rows**2
        return float(self.shares @ spread.mean(axis=1))


class Chosen(NamedTuple):
    """A channel that was chosen.

    Attributes:
        choice: Its name and options.
        reason: Why, in words.
        channel: The channel itself, where it had to be bound to be compared.
    """

    choice: Choice
    reason: str
    channel: Channel | None = None


def _bound(choice: Choice, metric: CellMetric) -> tuple[Choice, Channel]:
    """A candidate settled, and its channel."""
    settled = choice.settled(metric)
    return settled, settled.bind(metric)


def best_channel(
    metric: CellMetric, asked: Asked, *, held: Choice | None = None, bind: Bind = _bound
) -> Chosen:
    """The candidate with the smallest error on typical questions, and the reason in words.

    Args:
        metric: E between cells.
        asked: The questions.
        held: A channel that was found earlier, which need not be searched for again.
        bind: Settles a candidate and binds it, or knows the result.

    Raises:
        StudyError: If no channel can serve the metric.
    """
    if metric.size == 2:
        return Chosen(Binary(), "for two cells no channel with this guarantee is better")
    candidates = list(_candidates(metric, asked))
    if len(candidates) == 1:  # to compare its error would take longer than to bind it
        only = candidates[0].settled(metric)
        return Chosen(only, "no other channel is tried on so many cells")
    tried: list[tuple[float, Choice]] = []
    best: Chosen | None = None
    least = math.inf
    problems = []
    for choice in candidates:
        try:
            known = held if held and _same_words(held, choice) else choice
            settled, channel = bind(known, metric)
            variance = asked.variance(channel)
        except (StudyError, TooLargeError) as error:
            problems.append(str(error))
            continue
        if _decodable(channel) and _portable(settled, channel) and np.isfinite(variance):
            tried.append((variance, settled))
            if variance < (_WORTH_A_TABLE if settled.slow else _WORTH) * least:
                least, best = variance, Chosen(settled, "", channel)
    if best is None:
        raise StudyError("no channel can serve this metric: " + "; ".join(dict.fromkeys(problems)))
    return best._replace(reason=_reason(best.choice, least, tried, asked))


def _reason(best: Choice, least: float, tried: list[tuple[float, Choice]], asked: Asked) -> str:
    """Why the best of some choices is chosen."""
    others = sorted((v, described(c)) for v, c in tried if c is not best)
    if not others:
        return "no other channel that is tried can serve this metric"
    near, name = others[0]
    if near < least:
        share = 1 - near / least
        return (
            f"no other is clearly better: {name} has a variance {share:.0%} smaller, which is not "
            "worth its table in the study"
        )
    if near < 1.05 * least:
        return f"no other channel is better, though {name} comes within 5 % of its variance"
    return because(asked.words, least, near, f"the next best, {name}")


def _same_words(held: Choice, choice: Choice) -> bool:
    """Whether two choices are the same but for the table that a search has found."""
    mine, given = ({**one.options(), "table": None} for one in (held, choice))
    return type(held) is type(choice) and mine == given


def _decodable(channel: Channel) -> bool:
    """Whether likelihood answers from a usual number of reports take no more than minutes."""
    return channel.layout.kind == "symbols" or channel.size * _TYPICAL_PEOPLE <= MOST_ROW_ENTRIES


def _portable(choice: Choice, channel: Channel) -> bool:
    """Whether the table of a searched channel is short enough to travel to devices."""
    if not choice.slow:
        return True
    tables = Tables()
    code = Code(tables)
    code.piece(partial(channel.device_code, code, code.cell))
    return len(json.dumps(tables.held)) <= MOST_PROGRAM_BYTES


def _candidates(metric: CellMetric, asked: Asked) -> Iterator[Choice]:
    """Channels that may serve a metric, the simplest first."""
    if isinstance(metric, UniformMetric):
        yield from _uniform(metric, asked.ordered)
        yield from _searched(metric, asked)
        return
    if isinstance(metric, BlockMetric | HighLowMetric):
        yield Hadamard()
    if isinstance(metric, LineMetric | CappedLineMetric):
        yield Geometric()
        yield Thermometer()
        if metric.size > _MOST_CELLS and metric.equal_step is None:
            cap = metric.cap if isinstance(metric, CappedLineMetric) else None
            yield Stricter("line", Geometric(), cap)
    if isinstance(metric, HighLowMetric):
        yield from _sensitive(metric, asked)
    if isinstance(metric, AsideMetric):
        yield Extended(Geometric())
    if metric.size > (_MOST_CODED if isinstance(metric, AsideMetric) else _MOST_CELLS):
        return
    blocks = _blocks(metric)
    if len(blocks) > 1:
        yield from _per_block(blocks, asked)
        if isinstance(metric, TableMetric):
            yield Exponential()
        yield from _searched(metric, asked)
        return
    ((cells, inside),) = blocks
    if inside is not None and (np.diff(cells) < 0).any():
        yield from _per_block(blocks, asked)  # a line in another order
    yield from _stricter(metric, asked)
    if metric.size <= (_MOST_CODED if asked.ordered else _MOST_EXPONENTIAL):
        yield Exponential()
    if metric.size <= _MOST_CODED:
        yield MatrixResponse("prefix" if asked.ordered else "identity", workload=asked.workload)
    yield from _searched(metric, asked)


def _searched(metric: CellMetric, asked: Asked) -> Iterator[Choice]:
    """Outputs found by search, on few cells."""
    if metric.size <= _MOST_SEARCHED:
        yield Extremal(asked.workload)


@lru_cache(maxsize=64)
def _uniform(metric: UniformMetric, ordered: bool) -> tuple[Choice, ...]:
    """Channels under one ε for all pairs."""
    # Hashes must be few enough to be decoded; on a line the exact error decides.
    method = "unbiased" if ordered else "likelihood"
    chosen, _ = choose_uniform(metric, (metric.size,), (ordered,), method=method)
    return (chosen, *(other for other in (KaryResponse(), Hadamard()) if other != chosen))


def _sensitive(metric: HighLowMetric, asked: Asked) -> Iterator[Extended]:
    """Channels of the sensitive cells, extended to the others."""
    count = int(metric.sensitive.sum())
    if count < 2:
        yield Extended(KaryResponse())
        return
    for choice in _uniform(UniformMetric(metric.epsilon, count), asked.ordered):
        yield Extended(choice)


def _per_block(blocks: Blocks, asked: Asked) -> Iterator[PerBlock]:
    """The best channel of each block."""
    with contextlib.suppress(StudyError, TooLargeError):
        hiding = [(cells, inside) for cells, inside in blocks if inside is not None]
        bind = cache(_bound)  # equal blocks have the same candidates
        best = [best_channel(inside, asked.at(cells), bind=bind) for cells, inside in hiding]
        yield PerBlock([chosen.choice for chosen in best])


def _blocks(metric: CellMetric) -> Blocks:
    """The blocks of a metric; all cells as one where there are very many."""
    found = list(itertools.islice(blocks_of(metric), _MOST_BLOCKS + 1))
    return found if len(found) <= _MOST_BLOCKS else [(np.arange(metric.size), metric)]


def _stricter(metric: CellMetric, asked: Asked) -> Iterator[Choice]:
    """Channels made for simpler metrics below E."""
    uniform = uniform_within(metric)
    if uniform is not None:
        for choice in _uniform(uniform, asked.ordered):
            yield Stricter("uniform", choice)
    if not asked.ordered and isinstance(metric, TableMetric):
        yield from map(Product, shapes_of(metric.size))
    if not asked.ordered or isinstance(metric, HighLowMetric | BlockMetric):
        return
    yield Stricter("line", Geometric())
    yield Stricter("line", Thermometer())
    if isinstance(metric, TableMetric | CappedLineMetric | AsideMetric):
        caps = [metric.cap] if isinstance(metric, CappedLineMetric) else caps_of(metric)
        known = {line_within(metric)}
        for cap in caps:
            line = line_within(metric, cap)
            if line not in known:
                known.add(line)
                yield Stricter("line", Geometric(), cap)
