"""The exact audit: the law of each channel in a study is checked against E, and `encode` driven.

E is bound anew from each axis' statement, and every channel is asked to `check` its law against it.
Then `encode` is driven with scripted words: it must follow that very law.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sfumato import __version__
from sfumato.auditing.claims import claim_problems
from sfumato.auditing.drive import Drive, Driven, drive
from sfumato.auditing.law import law_problems, listed_rows
from sfumato.auditing.learn import drive_unlisted
from sfumato.auditing.paths import paths_of
from sfumato.auditing.report import save
from sfumato.auditing.sampling import SIGNIFICANCE, SampleAudit, checked_sample, sample_audit
from sfumato.channels.base import Channel
from sfumato.channels.odds import Method
from sfumato.metrics.cells import CellMetric
from sfumato.randomness.bits import BitSource, SecureBits
from sfumato.study.axis import Together
from sfumato.study.study import Study
from sfumato.text import Tabled, TableText

_MOST_LABELS = 1 << 20

Draw = Callable[..., SampleAudit]


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
        driven: Where `encode` was driven with scripted words: on both sides of "every boundary" of
            its tables, or of "selected boundaries" if there are many; or "not driven", which only
            happens where the check has found a problem already.
        reports_driven: Reports that `encode` made of scripted words.
        problems: What is wrong, in words; empty if the guarantee holds.
        sample: What reports drawn at random showed; None unless a sample was asked for.
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
    driven: Driven
    reports_driven: int
    problems: tuple[str, ...] = ()
    sample: SampleAudit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit(Tabled):
    """What the check of a whole study found; axes are perturbed independently, so E adds.

    Args:
        study: Name of the study.
        fingerprint: Its fingerprint.
        axes: What was found for each axis, or for axes under one guarantee.
        date: When the check was made, in UTC.
        version: Which version of sfumato made it.
    """

    study: str
    fingerprint: str
    axes: tuple[AxisAudit, ...]
    date: str = field(
        default_factory=lambda: f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", compare=False
    )
    version: str = field(default=__version__, compare=False)

    @property
    def holds(self) -> bool:
        """Whether the guarantee holds on every axis."""
        return all(axis.holds for axis in self.axes)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; what is infinite is the text "inf"."""
        found = {**asdict(self), "holds": self.holds}
        for axis in found["axes"]:
            axis |= {k: str(v) for k, v in axis.items() if isinstance(v, float) and math.isinf(v)}
        return found

    def save(self, path: str | Path) -> None:
        """Write a report of the audit: a page that works offline (.html), or .json.

        Raises:
            FormatError: If the file ends in anything else, or cannot be written.
        """
        save(self.to_dict(), path)

    def table_text(self) -> TableText:
        """The table that shows it."""
        verdict = "the guarantee holds" if self.holds else "THE GUARANTEE DOES NOT HOLD"
        head = f"Study {self.study!r}, fingerprint {self.fingerprint[:12]}: {verdict}."
        titles = ("axis", "channel", "holds", "spent of E", "most between", "checked", "driven")
        notes = [f"{a.axis}: {problem}" for a in self.axes for problem in a.problems]
        notes += [f"{a.axis}: {a.sample}" for a in self.axes if a.sample is not None]
        tail = ("", *notes) if notes else ()
        return TableText(head, titles, [_row(axis) for axis in self.axes], tail)


def audit(study: Study, *, sample: int | None = None, bits: BitSource | None = None) -> Audit:
    """Check exactly that no report of a study tells more than its guarantee allows.

    Channels of up to `Channel.most_ratios` odds (cells² × outputs, 2^21 or more) are checked pair
    by pair and output by output; larger ones by their structure: along a line E adds up, so
    neighbours decide, and under a cap the most and the least likely cell of each output.

    Then `encode` is driven with scripted words, on both sides of the boundaries of its tables, and
    must follow the law that was checked.

    With `sample`, reports are also drawn at random from some cells of each block, as devices draw
    them, and compared with the law and with E. By chance, a sound study fails that at most once in
    a million audits.

    Args:
        study: The study.
        sample: How many reports to draw for each block; left out, none.
        bits: Where the randomness of the sample comes from; left out, the operating system's
            secure source.

    Example:
        >>> import sfumato as sf
        >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.2))])
        >>> found = audit(study)
        >>> found.holds, round(found.axes[0].spent, 6), found.axes[0].method
        (True, 1.0, 'all pairs, exactly')
        >>> found.axes[0].driven
        'every boundary'
    """
    draw: Draw | None = None
    if sample is not None:
        draw = partial(
            sample_audit,
            sample=checked_sample(sample),
            bits=SecureBits() if bits is None else bits,
            significance=SIGNIFICANCE / len(study.blocks),
        )
    pairs = zip(study.parts, study.blocks, strict=True)
    axes = tuple(_audit_block(part, block.channel, draw) for part, block in pairs)
    return Audit(study=study.name, fingerprint=study.fingerprint, axes=axes)


def _audit_block(part: Together, channel: Channel, draw: Draw | None) -> AxisAudit:
    """Check one channel against what its axes are promised."""
    metric = part.metric()
    labels = None
    if metric.size <= _MOST_LABELS:
        names = [axis.labels() for axis in part.axes]
        if len(names) > 1:
            names = [[f"{a.name} {label}" for label in a.labels()] for a in part.axes]
        labels = [", ".join(parts) for parts in itertools.product(*names)]
    name = ", ".join(axis.name for axis in part.axes)
    return _audited(name, channel, metric, labels, part.axes[0].domain.rounding_bits, draw)


def _audited(
    name: str,
    channel: Channel,
    metric: CellMetric,
    labels: list[str] | None,
    resolution: int,
    draw: Draw | None,
) -> AxisAudit:
    """Check one channel against the E between its cells."""
    found = channel.check(metric)
    if channel.resolution != resolution:
        found.problems.insert(
            0,
            f"values are read to {resolution} bits between grid points, but the channel rounds "
            f"{channel.resolution}",
        )
    driven = Drive() if found.problems else _driven(channel, metric)
    problems = (*found.problems, *driven.problems)
    pair = found.pair
    sample = None
    if draw is not None and channel.size == metric.size:
        sample = draw(channel, metric, pair=pair, label=partial(_label, labels))
        problems = (*problems, *sample.problems)
    return AxisAudit(
        axis=name,
        channel=channel.id,
        holds=not problems,
        spent=found.spent,
        tightest=pair and (_label(labels, pair[0]), _label(labels, pair[1])),
        log_ratio=found.log_ratio,
        allowed=found.allowed,
        method=found.method,
        pairs_checked=found.pairs,
        driven=driven.method,
        reports_driven=driven.reports,
        problems=problems,
        sample=sample,
    )


def _driven(channel: Channel, metric: CellMetric) -> Drive:
    """Drive `encode` with scripted words, and compare what it follows with the law checked."""
    if channel.steps(np.zeros(1, dtype=np.int64)) is None:
        return drive_unlisted(channel, metric)
    paths = list(paths_of(channel))
    found = drive(channel, paths)
    if not found.problems:
        rows = listed_rows(channel, paths)
        found.problems += law_problems(channel, rows)
        found.problems += claim_problems(channel, channel.kept(metric), rows, paths)
    return found


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
    driven = f"{axis.driven} ({axis.reports_driven:,} reports)"
    holds = "yes" if axis.holds else "NO"
    return axis.axis, axis.channel, holds, spent, between, checked, driven
