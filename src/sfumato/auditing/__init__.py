"""The exact check that every channel of a study keeps its promise, whatever its builder believed.

E is bound anew from each axis' statement, and held against the tables the sampler really draws
from. Logarithms in floats only say which odds need a closer look: whatever comes near its bound is
decided in integers, against certified bounds on e^E.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato.auditing.tables import disagreements, misfits, row_problems, sampler_problems
from sfumato.axes import Axis
from sfumato.channels import (
    CappedGeometricChannel,
    Channel,
    ExponentialChannel,
    GeometricChannel,
    HadamardChannel,
    HRRChannel,
    KaryResponseChannel,
    LevelsChannel,
    OLHChannel,
    OUEChannel,
    RoundedChannel,
    ThermometerChannel,
)
from sfumato.errors import TooLargeError
from sfumato.exact import at_most_exp, exp_bounds, log
from sfumato.metrics import (
    BlockMetric,
    CappedLineMetric,
    CellMetric,
    HighLowMetric,
    LineMetric,
    UniformMetric,
)
from sfumato.study import Study

Method = Literal["all pairs, exactly", "by structure", "not checked"]
# Channels that tell every two cells apart alike.
_Alike: TypeAlias = KaryResponseChannel | OUEChannel | OLHChannel | HRRChannel

MOST_RATIOS = 1 << 21  # cells² × outputs up to which every channel is checked pair by pair
MOST_TABLE_RATIOS = 1 << 30  # the same for the exponential channel, whose odds are seldom tight
_MOST_FOREIGN_RATIOS = 1 << 24  # and for channels whose structure is not known here
_MOST_LABELS = 1 << 20
_MOST_PROBLEMS = 5
_FAST_BITS = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisAudit:
    """What the check of one axis found.

    Args:
        axis: Name of the axis.
        channel: Id of its channel.
        holds: Whether no odds exceed e^E; False also where the check is not possible.
        spent: The largest log odds over E among pairs with a finite E; 1.0 is exactly E.
        tightest: Labels of the pair that spends most; None if all pairs may be told apart.
        log_ratio: Log odds of that pair's most telling output.
        allowed: What they may be. Behind stochastic rounding this is ln(1 + E) of neighbouring grid
            points, and `spent` is what the closest values between them spend.
        method: "all pairs, exactly"; "by structure", which checks neighbours and follows for all
            pairs; or "not checked".
        pairs_checked: Ordered pairs of cells that were compared.
        problems: What is wrong, in words; empty if the guarantee holds.
    """

    axis: str
    channel: str
    holds: bool
    spent: float
    tightest: tuple[str, str] | None
    log_ratio: float
    allowed: float
    method: Method
    pairs_checked: int
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What the check of a whole study found; axes are perturbed independently, so E adds."""

    study: str
    fingerprint: str
    axes: tuple[AxisAudit, ...]

    @property
    def holds(self) -> bool:
        """Whether the guarantee holds on every axis."""
        return all(axis.holds for axis in self.axes)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**asdict(self), "holds": self.holds}

    def __str__(self) -> str:
        verdict = "the guarantee holds" if self.holds else "THE GUARANTEE DOES NOT HOLD"
        head = f"Study {self.study!r}, fingerprint {self.fingerprint[:12]}: {verdict}."
        titles = ("axis", "channel", "holds", "spent of E", "most between", "checked")
        table = [titles, *(_row(axis) for axis in self.axes)]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in table
        ]
        problems = [f"{a.axis}: {problem}" for a in self.axes for problem in a.problems]
        return "\n".join([head, "", *lines, *([""] if problems else []), *problems])


def audit(study: Study) -> Audit:
    """Check exactly that no report of a study tells more than its guarantee allows.

    Channels of up to 2^21 odds (cells² × outputs), and every exponential channel, are checked pair
    by pair and output by output; larger ones by their structure: along a line E adds up, so
    neighbours decide, and under a cap the likeliest and the unlikeliest cell of each output.

    Example:
        >>> import sfumato as sf
        >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.2))])
        >>> found = audit(study)
        >>> found.holds, round(found.axes[0].spent, 6), found.axes[0].method
        (True, 1.0, 'all pairs, exactly')
    """
    if study.is_joint:
        axes: tuple[AxisAudit, ...] = (_audit_records(study),)
    else:
        pairs = zip(study.axes, study.mechanism.channels, strict=True)
        axes = tuple(_audit_axis(axis, channel) for axis, channel in pairs)
    return Audit(study=study.name, fingerprint=study.fingerprint, axes=axes)


def _audit_axis(axis: Axis, channel: Channel) -> AxisAudit:
    """Check one channel against what its axis promises."""
    metric = axis.metric()
    labels = axis.labels() if axis.size <= _MOST_LABELS else None
    return _audit_channel(axis.name, channel, metric, labels, misfits(axis, channel, metric))


def _audit_records(study: Study) -> AxisAudit:
    """Check the mechanism of whole records against the one ε for all of them."""
    (channel,) = study.mechanism.channels
    metric = UniformMetric(study.guaranteed_epsilon, math.prod(study.shape))
    problems = [] if channel.size == metric.size else ["the mechanism has other cells than records"]
    labels = None
    if metric.size <= _MOST_LABELS:
        names = [[f"{axis.name} {label}" for label in axis.labels()] for axis in study.axes]
        labels = [", ".join(parts) for parts in itertools.product(*names)]
    return _audit_channel(", ".join(a.name for a in study.axes), channel, metric, labels, problems)


def _audit_channel(
    name: str,
    channel: Channel,
    metric: CellMetric,
    labels: list[str] | None,
    problems: Iterable[str],
) -> AxisAudit:
    """Check one channel against the E between its cells."""
    inner = channel.inner if isinstance(channel, RoundedChannel) else channel
    found = _Findings()
    found.problems += problems
    if not found.problems:
        found.problems += sampler_problems(inner)
    if not found.problems:
        _compare(channel, metric, found)
    pair = found.pair
    return AxisAudit(
        axis=name,
        channel=inner.id,
        holds=not found.problems,
        spent=found.spent,
        tightest=pair and (_label(labels, pair[0]), _label(labels, pair[1])),
        log_ratio=found.log_ratio,
        allowed=found.allowed,
        method=found.method,
        pairs_checked=found.pairs,
        problems=tuple(found.problems),
    )


@dataclass(frozen=True, slots=True)
class _Bound:
    """The most that odds may be: e^E, or 1 + E between grid points behind stochastic rounding."""

    e: Fraction
    linear: bool = False

    @property
    def log(self) -> float:
        """Its logarithm."""
        return math.log1p(float(self.e)) if self.linear else float(self.e)

    def allows(self, more: int, less: int) -> bool:
        """Whether more/less is within the bound, decided exactly."""
        if self.linear:
            return more * self.e.denominator <= less * (self.e.denominator + self.e.numerator)
        low, _ = exp_bounds(self.e, _FAST_BITS)
        if (more << _FAST_BITS) <= less * low:
            return True
        return less > 0 and at_most_exp(Fraction(more, less), self.e)

    def share(self, ratio: Fraction) -> float:
        """How much of E these odds spend."""
        return float((ratio - 1) / self.e) if self.linear else log(ratio) / float(self.e)


@dataclass(slots=True)
class _Findings:
    """The pair that spends most so far, and all that is wrong."""

    spent: float = 0.0
    pair: tuple[int, int] | None = None
    log_ratio: float = 0.0
    allowed: float = math.inf
    method: Method = "not checked"
    pairs: int = 0
    problems: list[str] = field(default_factory=list)

    def rough(self, pair: tuple[int, int], log_ratio: float, bound: _Bound) -> None:
        """Take odds that are certainly within their bound, to the accuracy of a float."""
        share = math.expm1(log_ratio) / float(bound.e) if bound.linear else log_ratio / bound.log
        if share > self.spent or self.pair is None:
            self.pair, self.spent = pair, max(share, 0.0)
            self.log_ratio, self.allowed = max(log_ratio, 0.0), bound.log

    def exact(self, pair: tuple[int, int], more: int, less: int, bound: _Bound) -> None:
        """Take odds near or beyond their bound, and decide in integers."""
        ratio = Fraction(more, less) if less else None
        share = math.inf if ratio is None else bound.share(ratio)
        if bound.allows(more, less):
            share = min(share, 1.0)  # a float may round up what integers have decided
        else:
            share = max(share, math.nextafter(1.0, 2.0))
            if len(self.problems) < _MOST_PROBLEMS:
                excess = "infinitely" if ratio is None else f"by {share - 1:.1e} of E"
                self.problems.append(
                    f"the odds of cell {pair[0]} against cell {pair[1]} exceed their bound "
                    f"e^{bound.log:.12g} {excess}"
                )
        if share > self.spent or self.pair is None:
            self.pair, self.spent, self.allowed = pair, share, bound.log
            self.log_ratio = math.inf if ratio is None else log(ratio)


def _compare(channel: Channel, metric: CellMetric, found: _Findings) -> None:
    """Choose the check that the channel's size allows."""
    rounded = isinstance(channel, RoundedChannel)
    inner = channel.inner if isinstance(channel, RoundedChannel) else channel
    outputs = inner.layout.count if inner.layout.kind == "symbols" else 2**inner.layout.count
    ratios = metric.size**2 * outputs
    if ratios <= _most_ratios(inner):
        try:
            rows, total = inner.words()
        except TooLargeError:
            _by_structure(inner, metric, found, linear=rounded)
            return
        found.problems += row_problems(rows, total, metric.size)
        found.problems += disagreements(inner, rows)
        if found.problems:
            return
        if rounded and isinstance(metric, LineMetric | CappedLineMetric):
            found.method = "by structure"
            law = _Law(rows)
            for x, step in enumerate(metric.steps):
                law.compare(x, [x + 1], [_Bound(step, linear=True)], found)
                law.compare(x + 1, [x], [_Bound(step, linear=True)], found)
            if isinstance(metric, CappedLineMetric):
                # Between grid points chances are averages: the cap on grid points is one on all.
                _compare_all(rows, metric, found)
            return
        found.method = "all pairs, exactly"
        _compare_all(rows, metric, found)
        return
    _by_structure(inner, metric, found, linear=rounded)


def _most_ratios(channel: Channel) -> int:
    """How many odds are compared one by one before structure is asked for."""
    if isinstance(channel, ExponentialChannel):
        return MOST_TABLE_RATIOS
    known = GeometricChannel | CappedGeometricChannel | ThermometerChannel | LevelsChannel | _Alike
    return MOST_RATIOS if isinstance(channel, known) else _MOST_FOREIGN_RATIOS


# All pairs


def _compare_all(rows: Sequence[Sequence[int]], metric: CellMetric, found: _Findings) -> None:
    """Every ordered pair of cells, every output."""
    law = _Law(rows)
    for x in range(metric.size):
        limited = {
            y: _Bound(e)
            for y in range(metric.size)
            if y != x and (e := metric.exact(x, y)) is not None
        }
        found.pairs += metric.size - 1 - len(limited)
        if limited:
            law.compare(x, list(limited), list(limited.values()), found)


class _Law:
    """A table of words, and their logarithms with the most these can err."""

    def __init__(self, rows: Sequence[Sequence[int]]) -> None:
        self.rows = rows
        self.logs, self.slack = _logs(rows)
        self.has_zeros = bool(np.isneginf(self.logs).any())

    def compare(
        self, x: int, others: Sequence[int], bounds: Sequence[_Bound], found: _Findings
    ) -> None:
        """The odds of cell x against some others, for every output."""
        found.pairs += len(others)
        with np.errstate(invalid="ignore"):
            gap = self.logs[x] - self.logs[others]
        if self.has_zeros:  # nobody puts it out: nothing to compare
            gap[np.isnan(gap)] = -math.inf
        worst = gap.max(axis=1)
        for place, (y, bound) in enumerate(zip(others, bounds, strict=True)):
            limit = bound.log * (1 - 2.0**-50) - self.slack
            if worst[place] <= limit:
                found.rough((x, y), float(worst[place]), bound)
                continue
            more, less = 0, 1
            for output in np.flatnonzero(gap[place] > limit).tolist():
                a, b = self.rows[x][output], self.rows[y][output]
                if a * less > more * b:
                    more, less = a, b
            found.exact((x, y), more, less, bound)


def _logs(rows: Sequence[Sequence[int]]) -> tuple[NDArray[np.float64], float]:
    """Logarithms of words of any number, and the most that a difference of two can err.

    Reading a number as a float, its logarithm (with ln 2 times the exponent added beyond 2^1024)
    and the difference err by less than 8 units in the last place of the largest logarithm.
    """
    logs = np.array([[math.log(word) if word else -math.inf for word in row] for row in rows])
    return logs, 8 * float(logs.max(initial=1.0)) * 2.0**-52


# By structure


def _by_structure(channel: Channel, metric: CellMetric, found: _Findings, *, linear: bool) -> None:
    """What neighbours show, where all pairs follow from them."""
    if isinstance(channel, GeometricChannel) and _equal_line(metric):
        _geometric(channel._noise.weights, metric.exact(0, 1), found, linear=linear)
    elif isinstance(channel, CappedGeometricChannel) and isinstance(metric, CappedLineMetric):
        _capped(channel, metric, found, linear=linear)
    elif isinstance(channel, ThermometerChannel) and isinstance(metric, LineMetric):
        total = 1 << channel.precision
        for x, (step, flip) in enumerate(zip(metric.steps, channel.flip_words, strict=False)):
            more, less = max(flip, total - flip), min(flip, total - flip)
            found.exact((x, x + 1), more, less, _Bound(step, linear))
    elif isinstance(channel, _Alike) and isinstance(metric, UniformMetric):
        right, wrong = _truth_and_other(channel)
        if min(right, wrong) < 0:
            found.problems.append(f"{wrong} words for each wrong answer are more than there are")
            return
        found.exact((0, 1), max(right, wrong), min(right, wrong), _Bound(metric.epsilon))
    elif isinstance(channel, LevelsChannel) and isinstance(metric, UniformMetric):
        # The chance of a level is the same for all cells, so its own odds are those of the report.
        for part in channel.parts:
            if not isinstance(part.inner, _Alike):
                _by_own_word(channel, metric, found, linear=linear)
                return
            right, wrong = _truth_and_other(part.inner)
            found.exact((0, 1), max(right, wrong), min(right, wrong), _Bound(metric.epsilon))
    else:
        _by_own_word(channel, metric, found, linear=linear)
        return
    found.method = "by structure"
    found.pairs = 2 * (metric.size - 1)


def _truth_and_other(channel: _Alike) -> tuple[int, int]:
    """The words whose odds tell any two cells apart, the same for every pair.

    Of OUE's bits it is a one at one cell with a zero at the other against the reverse, which is
    (1 − q)/q, as the own bit is fair; a hash and a column say nothing of the cell by themselves.
    """
    if isinstance(channel, OUEChannel | HRRChannel):
        return (1 << channel.precision) - channel.flips, channel.flips
    response = channel.response if isinstance(channel, OLHChannel) else channel
    return response.right, response.wrong


def _equal_line(metric: CellMetric) -> bool:
    """Whether cells are equally far apart on a line."""
    return isinstance(metric, LineMetric) and metric.equal_step is not None


def _geometric(
    noise: Sequence[int], step: Fraction | None, found: _Findings, *, linear: bool
) -> None:
    """Neighbouring weights decide inside, neighbouring tails at the two ends.

    Args:
        noise: Words of −(size−1) … size−1.
        step: E between neighbours.
        found: What is found is added here.
        linear: Whether odds may be 1 + E, not e^E.
    """
    size = (len(noise) + 1) // 2
    assert step is not None  # noqa: S101
    bound = _Bound(step, linear)
    # The last weight on either side is a tail, and never stands for a single output inside.
    inside = noise[1:-1]
    _consecutive(inside, lambda k: max(0, size - 2 - k), bound, found)
    below = list(accumulate(noise[:size]))[::-1]  # P(0 | x), x = 0, 1, …
    _consecutive(below, lambda k: k, bound, found)
    above = list(accumulate(noise[: size - 2 : -1]))  # P(size−1 | x), x = 0, 1, …
    _consecutive(above, lambda k: k, bound, found)


def _consecutive(
    words: Sequence[int], cell: Callable[[int], int], bound: _Bound, found: _Findings
) -> None:
    """The odds of neighbours, where each of these words is what the next cell has of the same."""
    (logs,), slack = _logs([words])
    with np.errstate(invalid="ignore"):
        gap = np.nan_to_num(np.abs(np.diff(logs)), nan=0.0, posinf=math.inf)
    limit = bound.log * (1 - 2.0**-50) - slack
    for k in np.flatnonzero(gap > limit).tolist():
        more, less = max(words[k : k + 2]), min(words[k : k + 2])
        found.exact((cell(k), cell(k) + 1), more, less, bound)
    if gap.size and not np.any(gap > limit):
        k = int(gap.argmax())
        found.rough((cell(k), cell(k) + 1), float(gap[k]), bound)


def _capped(
    channel: CappedGeometricChannel, metric: CappedLineMetric, found: _Findings, *, linear: bool
) -> None:
    """Neighbours decide up to the cap; beyond it, every output's likeliest and unlikeliest cell.

    Fixed words, the same for all cells, only lower odds: where the noise keeps E, both together do.
    """
    last, step = metric.size - 1, metric.exact(0, 1)
    noise, fixed = channel._table.weights[: 2 * last + 1], channel._table.weights[2 * last + 1 :]
    alone = _Findings()
    _geometric(noise, metric.equal_step, alone, linear=linear)
    found.problems += alone.problems
    # The last weight is a tail; all before it must fall for the ends to be the unlikeliest cells.
    if any(a < b for a, b in pairwise(noise[last:-1])):
        found.problems.append("the noise does not fall with the distance")
    half = noise[last:]
    below = list(accumulate(noise[: last + 1]))[::-1]  # P(0 | x), x = 0, 1, …
    within = _Bound(step, linear)
    for y, always in enumerate(fixed):
        far = 0 if 2 * y >= last else last
        words = below if y in (0, last) else half
        if metric.line.exact(y, far) <= metric.cap:  # neighbours decide for all pairs
            found.exact((y, abs(y - 1)), words[0] + always, words[1] + always, within)
        else:
            less = words[abs(y - far)] + always
            found.exact((y, far), words[0] + always, less, _Bound(metric.cap))


def _by_own_word(channel: Channel, metric: CellMetric, found: _Findings, *, linear: bool) -> None:
    """What a channel says of its odds, where one number is enough; its tables were looked at."""
    worst, pair = channel.worst_ratio(), (0, 1)
    if isinstance(channel, HadamardChannel) and not channel.matrices.hides:
        found.method = "by structure"  # everybody is told as they are, and nobody asked to hide
        found.pairs = 2 * (metric.size - 1)
        return
    if isinstance(metric, BlockMetric | HighLowMetric) and isinstance(channel, HadamardChannel):
        least, pair = metric.epsilon, metric.pairs()[0]
    elif isinstance(metric, LineMetric | UniformMetric):
        least = min(metric.steps) if isinstance(metric, LineMetric) else metric.epsilon
    else:
        worst = None
    if worst is None:
        found.problems.append(
            f"the {channel.id} channel of {metric.size} cells is too large to be checked pair by "
            "pair, and it shows no structure; use fewer cells"
        )
        return
    found.exact(pair, worst.numerator, worst.denominator, _Bound(least, linear))
    found.method = "by structure"
    found.pairs = 2 * (metric.size - 1)


def _label(labels: list[str] | None, cell: int) -> str:
    """What a cell is called."""
    return f"cell {cell}" if labels is None else labels[cell]


def _row(axis: AxisAudit) -> tuple[str, ...]:
    """One axis as a line of the table."""
    between = "–" if axis.tightest is None else " and ".join(axis.tightest)
    spent = "–" if axis.tightest is None else f"{axis.spent:.6%}"
    checked = (
        axis.method
        if axis.method == "not checked"
        else f"{axis.method} ({axis.pairs_checked:,} pairs)"
    )
    return axis.axis, axis.channel, "yes" if axis.holds else "NO", spent, between, checked
