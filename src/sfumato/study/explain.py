"""How a study explains itself: what is promised, by axis or for records, and how it is sent."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from sfumato.channels.base import Channel
from sfumato.study.guarantee import explain_axis, odds

if TYPE_CHECKING:
    from sfumato.study.study import Study


_WIDTH = 96


def explain_axes(study: Study) -> list[str]:
    """Axis after axis, and how their guarantees add."""
    out = []
    for axis, metric, channel, reason in zip(
        study.axes, study.metrics, study.channels, study.reasons, strict=True
    ):
        out.append(f"{axis.name} ({axis.domain.kind}, {axis.size:,} cells)")
        for line in explain_axis(axis, metric):
            out += _indented(line)
        out += _indented(_sent(channel, "channel", reason))
        out.append("")
    if len(study.axes) > 1:
        out += textwrap.wrap(
            "Axes are perturbed independently and their guarantees add: two people who differ on "
            "several axes have odds of at most the product of the odds above.",
            _WIDTH,
        )
        out.append("")
    return out


def explain_records(study: Study) -> list[str]:
    """One guarantee for whole records."""
    (channel,) = study.mechanism.channels
    (reason,) = study.reasons
    epsilon = study.metrics[0].between(0, 1)
    names = [f"{axis.name} ({axis.domain.kind}, {axis.size:,} cells)" for axis in study.axes]
    out = [f"{', '.join(names[:-1])} and {names[-1]}, together"]
    out += _indented(
        f"E = {epsilon:g} for any two records, whatever they differ in: a report is at most "
        f"{odds(epsilon)} likelier from one person than from any other."
    )
    for axis in study.axes:
        if axis.optional:
            out += _indented(f"Not answering {axis.name} is protected too: it is one more answer.")
    out += _indented(_sent(channel, "mechanism", reason))
    return [*out, ""]


def _sent(channel: Channel, what: str, reason: str) -> str:
    """By what a report is made, how long it is, and why."""
    inner = getattr(channel, "inner", channel)
    size = channel.layout
    sent = f"one of {size.count:,} symbols" if size.kind == "symbols" else f"{size.count} bits"
    because = f", because {reason}" if reason else ""
    return f"Sent by the {inner.id} {what} as {sent}{because}."


def _indented(line: str) -> list[str]:
    """A line under its heading."""
    return textwrap.wrap(line, _WIDTH, initial_indent="  ", subsequent_indent="    ")
