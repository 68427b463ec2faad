"""A study's guarantee in plain words, block by block, with the channel that sends the reports."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from sfumato.channels.base import Channel
from sfumato.study.axis import Axis
from sfumato.study.blocks import Block
from sfumato.study.guarantee import explain_axis, odds
from sfumato.study.schema import Group, Schema

_WIDTH = 96


def explain(schema: Schema, blocks: Sequence[Block], reasons: Sequence[str]) -> list[str]:
    """Lines of text: the guarantee and channel of every block, and how guarantees add up.

    Args:
        schema: The axes and their guarantees.
        blocks: The channel of every group of axes.
        reasons: Why the planner chose each channel; blank where the study names it.
    """
    out = []
    for group, block, reason in zip(schema.groups, blocks, reasons, strict=True):
        axes = [schema.axes[axis] for axis in group.axes]
        out += _one_axis(axes[0], group) if len(axes) == 1 else _several(axes, group)
        out += _indented(_sent(block.channel, reason))
        out.append("")
    if len(blocks) > 1:
        alone = all(len(block.axes) == 1 for block in blocks)
        out += textwrap.wrap(
            f"{'Axes' if alone else 'Groups of axes'} are perturbed independently and their "
            "guarantees add: two people who differ on several axes have odds of at most the "
            "product of the odds above.",
            _WIDTH,
        )
        out.append("")
    out += textwrap.wrap(
        "The guarantee holds for each single report. Answering again reveals as much again: E adds "
        "up over reports.",
        96,
    )
    return out


def _one_axis(axis: Axis, group: Group) -> list[str]:
    """The guarantee of a single axis."""
    out = [f"{axis.name} ({axis.domain.kind}, {axis.size:,} cells)"]
    for line in explain_axis(axis, group.protect, group.metric):
        out += _indented(line)
    return out


def _several(axes: Sequence[Axis], group: Group) -> list[str]:
    """One guarantee for several axes together."""
    epsilon = group.metric.between(0, 1)
    names = [f"{axis.name} ({axis.domain.kind}, {axis.size:,} cells)" for axis in axes]
    out = [f"{', '.join(names[:-1])} and {names[-1]}, together"]
    out += _indented(
        f"E = {epsilon:g} for any two records, whatever they differ in: a report is at most "
        f"{odds(epsilon)} likelier from one person than from any other."
    )
    for axis in axes:
        if axis.optional:
            out += _indented(f"Not answering {axis.name} is protected too: it is one more answer.")
    return out


def _sent(channel: Channel, reason: str) -> str:
    """Which channel makes a report, how long it is, and why."""
    inner = getattr(channel, "inner", channel)
    size = channel.layout
    sent = f"one of {size.count:,} symbols" if size.kind == "symbols" else f"{size.count} bits"
    because = f", because {reason}" if reason else ""
    return f"Sent by the {inner.id} channel as {sent}{because}."


def _indented(line: str) -> list[str]:
    """A line wrapped and indented under its heading."""
    return textwrap.wrap(line, _WIDTH, initial_indent="  ", subsequent_indent="    ")
