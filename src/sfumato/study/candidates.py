"""Candidates for a metric that no single channel is made for: they compete by exact error.

Channels made for E compete with those made for simpler metrics below E (one ε at the least E, a
line of equal steps), with flipped bits of a code, and with rows found by search. The error is the
mean variance of typical questions, all ranges or all single cells, for people spread evenly, exact
for unbiased answers. So a weaker guarantee gives no worse answers than a stronger one that was
tried, up to the margins below.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import MOST_ROW_ENTRIES, most_outputs
from sfumato.channels.base import Channel, SymbolChannel
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
from sfumato.channels.trees.hierarchy import Hierarchical
from sfumato.errors import StudyError, TooLargeError
from sfumato.metrics.cells import CellMetric, TableMetric
from sfumato.metrics.distance import AsideMetric, CappedLineMetric, LineMetric
from sfumato.metrics.grids import shapes_of
from sfumato.metrics.labelled import BlockMetric, HighLowMetric
from sfumato.metrics.recognise import blocks_of
from sfumato.metrics.stricter import caps_of, line_within, uniform_within
from sfumato.metrics.uniform import UniformMetric
from sfumato.study.asked import Asked, variance
from sfumato.study.choose_uniform import because, choose_uniform
from sfumato.study.rakes import with_rakes

#: A later candidate must have a variance this much smaller: the last bits of machines differ, and
#: must not decide which channel a study gets. What is found by search must be worth its table.
_WORTH, _WORTH_A_TABLE = 0.98, 0.85
#: Cells up to which a candidate is tried: what takes about a second.
_MOST_EXPONENTIAL, _MOST_CODED, _MOST_SEARCHED = 1024, 256, 128
#: Kinds of blocks up to which each gets a channel of its own by comparison.
_MOST_KINDS = 64
#: Sensitive cells from which combs on a line may be too large to be extended.
_FEW_COMBED = 128
_TYPICAL_PEOPLE = 10_000
#: Bytes of the tables that a device program of a searched channel may have, to be a default.
MOST_PROGRAM_BYTES = 1 << 20

Blocks = list[tuple[NDArray[np.intp], CellMetric | None]]


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


def best_channel(
    metric: CellMetric,
    asked: Asked,
    *,
    held: Choice | None = None,
    search: bool = True,
) -> Chosen:
    """The candidate with the smallest error on typical questions, and the reason in words.

    Args:
        metric: E between cells.
        asked: The questions.
        held: A channel that was found earlier, which need not be searched for again.
        search: Whether rows found by search are tried.

    Raises:
        StudyError: If no channel can serve the metric.
    """
    if metric.size == 2:
        return Chosen(Binary(), "for two cells no channel with this guarantee is better")
    # Neither is needed on a device with a study file. Only threads of what is loaded are limited.
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):  # threads would mostly wait for each other's small matrices
        return _compared(metric, asked, held, search)


def _compared(metric: CellMetric, asked: Asked, held: Choice | None, search: bool) -> Chosen:
    """The candidate with the smallest error, on one thread."""
    rows, shares = asked.rows(metric)
    tried: list[tuple[float, Choice]] = []
    best: Chosen | None = None
    least = math.inf
    problems = []
    for choice in _candidates(metric, asked, search):
        try:
            known = held if held and _same_words(held, choice) else choice
            settled = known.settled(metric)
            channel = settled.bind(metric)
            found = variance(channel, rows, shares)
        except (StudyError, TooLargeError) as error:
            problems.append(str(error))
            continue
        if _decodable(channel) and _portable(settled, channel) and np.isfinite(found):
            tried.append((found, settled))
            if found < (_WORTH_A_TABLE if settled.slow else _WORTH) * least:
                least, best = found, Chosen(settled, "", channel)
    if best is None:
        raise StudyError("no channel can serve this metric: " + "; ".join(dict.fromkeys(problems)))
    return best._replace(reason=_reason(best.choice, least, tried, asked))


def _reason(best: Choice, least: float, tried: list[tuple[float, Choice]], asked: Asked) -> str:
    """Why the best of some choices is chosen."""
    others = sorted((v, described(c)) for v, c in tried if c is not best)
    if not others:
        return "no other channel that is tried can serve this metric"
    near, name = others[0]
    if near < _WORTH * least:
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
    if not isinstance(channel, SymbolChannel):
        return channel.size * _TYPICAL_PEOPLE <= MOST_ROW_ENTRIES
    if channel.layout.count <= most_outputs(channel.size):
        return True
    runs = channel.joined()
    return runs is not None and len(runs) <= most_outputs(channel.size)


def _portable(choice: Choice, channel: Channel) -> bool:
    """Whether the table of a searched channel is short enough to travel to devices."""
    if not choice.slow:
        return True
    tables = Tables()
    code = Code(tables)
    code.piece(partial(channel.device_code, code, code.cell))
    return len(json.dumps(tables.held)) <= MOST_PROGRAM_BYTES


def _candidates(metric: CellMetric, asked: Asked, search: bool) -> Iterator[Choice]:
    """Channels that may serve a metric, the simplest first."""
    searched = [Extremal(asked.workload)] if search and metric.size <= _MOST_SEARCHED else []
    if isinstance(metric, UniformMetric):
        yield from _uniform(metric, asked.ordered)
        yield from searched
        return
    if isinstance(metric, BlockMetric | HighLowMetric):
        yield Hadamard()
    if isinstance(metric, LineMetric | CappedLineMetric):
        yield Geometric()
        if metric.size * _TYPICAL_PEOPLE <= MOST_ROW_ENTRIES:
            yield Thermometer()
    if isinstance(metric, HighLowMetric):
        yield from _sensitive(metric, asked)
    if isinstance(metric, AsideMetric):
        yield with_rakes(metric) or Extended(Geometric())
    blocks = list(blocks_of(metric))
    if len(blocks) > 1:
        yield from _per_block(blocks, asked, search)
        if isinstance(metric, TableMetric):
            yield Exponential()
        yield from searched
        return
    ((cells, inside),) = blocks
    if inside is not None and (np.diff(cells) < 0).any():
        yield from _per_block(blocks, asked, search)  # a line in another order
    yield from _stricter(metric, asked)
    if metric.size <= (_MOST_CODED if asked.ordered else _MOST_EXPONENTIAL):
        yield Exponential()
    if search and metric.size <= _MOST_CODED:
        yield MatrixResponse("prefix" if asked.ordered else "identity", workload=asked.workload)
    yield from searched


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
    if asked.ordered and count >= _FEW_COMBED:  # combs have too many kinds of reports
        for oracle in ("best", "hrr"):
            yield Extended(Hierarchical(2, oracle, "optimised"))


def _per_block(blocks: Blocks, asked: Asked, search: bool) -> Iterator[PerBlock]:
    """The best channel of each block; blocks of one kind, spread alike over the axis, have one.

    Rows are searched for in the largest blocks, as far as these have few cells together.
    """
    hiding = [(inside, asked.at(cells)) for cells, inside in blocks if inside is not None]
    keys = [(inside, _gaps(some)) for inside, some in hiding]
    kinds = dict(zip(keys, hiding, strict=True))
    many, left = len(kinds) > _MOST_KINDS, _MOST_SEARCHED if search else 0
    with contextlib.suppress(StudyError, TooLargeError):
        best = {}
        for kind in sorted(kinds, key=lambda kind: -kind[0].size):
            inside, some = kinds[kind]
            searched = not many and inside.size <= left
            left -= inside.size if searched else 0
            best[kind] = (
                _usual(inside, some) if many else best_channel(inside, some, search=searched).choice
            )
        yield PerBlock([best[key] for key in keys])


def _gaps(asked: Asked) -> bytes:
    """How far apart cells lie, as far as it matters to the questions."""
    return np.diff(asked.places).tobytes() if asked.ordered else b""


def _usual(metric: CellMetric, asked: Asked) -> Choice:
    """A channel that suits a metric as a rule, without comparison."""
    if isinstance(metric, UniformMetric):
        return _uniform(metric, asked.ordered)[0]
    return Geometric() if isinstance(metric, LineMetric | CappedLineMetric) else Exponential()


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
    if isinstance(metric, AsideMetric) and metric.size > _MOST_CODED:
        return
    yield Stricter("line", Geometric())
    if metric.size * _TYPICAL_PEOPLE <= MOST_ROW_ENTRIES:
        yield Stricter("line", Thermometer())
    if isinstance(metric, TableMetric | CappedLineMetric | AsideMetric):
        caps = [metric.cap] if isinstance(metric, CappedLineMetric) else caps_of(metric)
        known = {line_within(metric)}
        for cap in caps:
            line = line_within(metric, cap)
            if line not in known:
                known.add(line)
                yield Stricter("line", Geometric(), cap)
