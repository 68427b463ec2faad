"""The exact check that every channel of a study keeps its promise, whatever its builder believed.

E is bound anew from each axis' statement, and held against the tables the sampler really draws
from. Logarithms in floats only say which odds need a closer look: whatever comes near its bound is
decided in integers, against certified bounds on e^E.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from sfumato.auditing.odds import Bound, Findings, Law, Method, compare_all
from sfumato.auditing.structure import Alike, by_structure
from sfumato.auditing.tables import disagreements, misfits, row_problems, sampler_problems
from sfumato.channels.base import Channel
from sfumato.channels.capped import CappedGeometricChannel
from sfumato.channels.exponential import ExponentialChannel
from sfumato.channels.geometric import GeometricChannel
from sfumato.channels.rounding import RoundedChannel
from sfumato.channels.searched.flipped_codes import MatrixResponseChannel
from sfumato.channels.thermometer import ThermometerChannel
from sfumato.channels.trees.levels import LevelsChannel
from sfumato.errors import TooLargeError
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.distance import CappedLineMetric, LineMetric
from sfumato.metrics.uniform import UniformMetric
from sfumato.study.axis import Axis
from sfumato.study.study import Study

MOST_RATIOS = 1 << 21  # cells² × outputs up to which every channel is checked pair by pair
MOST_TABLE_RATIOS = 1 << 30  # the same for the exponential channel, whose odds are seldom tight
_MOST_FOREIGN_RATIOS = 1 << 24  # and for channels whose structure is not known here
_MOST_LABELS = 1 << 20


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
    found = Findings()
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


def _compare(channel: Channel, metric: CellMetric, found: Findings) -> None:
    """Choose the check that the channel's size allows."""
    rounded = isinstance(channel, RoundedChannel)
    inner = channel.inner if isinstance(channel, RoundedChannel) else channel
    outputs = inner.layout.count if inner.layout.kind == "symbols" else 2**inner.layout.count
    ratios = metric.size**2 * outputs
    if ratios <= _most_ratios(inner):
        try:
            rows, total = inner.words()
        except TooLargeError:
            by_structure(inner, metric, found, linear=rounded)
            return
        found.problems += row_problems(rows, total, metric.size)
        found.problems += disagreements(inner, rows)
        if found.problems:
            return
        if rounded and isinstance(metric, LineMetric | CappedLineMetric):
            found.method = "by structure"
            law = Law(rows)
            for x, step in enumerate(metric.steps):
                law.compare(x, [x + 1], [Bound(step, linear=True)], found)
                law.compare(x + 1, [x], [Bound(step, linear=True)], found)
            if isinstance(metric, CappedLineMetric):
                # Between grid points chances are averages: the cap on grid points is one on all.
                compare_all(rows, metric, found)
            return
        found.method = "all pairs, exactly"
        compare_all(rows, metric, found)
        return
    by_structure(inner, metric, found, linear=rounded)


def _most_ratios(channel: Channel) -> int:
    """How many odds are compared one by one before structure is asked for."""
    if isinstance(channel, ExponentialChannel):
        return MOST_TABLE_RATIOS
    flips = ThermometerChannel | MatrixResponseChannel
    known = GeometricChannel | CappedGeometricChannel | flips | LevelsChannel | Alike
    return MOST_RATIOS if isinstance(channel, known) else _MOST_FOREIGN_RATIOS


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
