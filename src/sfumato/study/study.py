"""A study: its axes, their guarantees, and the channels that encode records into reports."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.arrays import Layout, one_output
from sfumato.channels.base import Channel
from sfumato.channels.choice import Choice, choice_to_dict
from sfumato.channels.pairs import many_pairs
from sfumato.domains.tables import columns
from sfumato.errors import MismatchError, StudyError, shown
from sfumato.files import write_whole
from sfumato.metrics.base import Metric
from sfumato.metrics.uniform import UniformMetric
from sfumato.randomness.bits import BitSource, word_source, words_of
from sfumato.study.axis import Axis, Outside, Together
from sfumato.study.blocks import Block, bound, columns_of, planned, settled
from sfumato.study.choose import checked_expected
from sfumato.study.files import damaged, from_toml, read_file, refuse_claim
from sfumato.study.guarantee import Guarantee, explain_axis, explain_together
from sfumato.study.reports import Reports
from sfumato.study.schema import Group, Schema, arrange, digest, to_toml
from sfumato.text import Tabled, TableText, odds, visible
from sfumato.verbs import StudyVerbs

PEOPLE_AT_ONCE = 1 << 20


class Study(Tabled, StudyVerbs):
    """What people are asked, how strongly each answer is protected, and by which channels.

    Args:
        name: What the study is called.
        axes: The attributes that people report; `together` puts several under one guarantee.
        protect: One guarantee for all axes together, where they state none: `Uniform` for whole
            records, which go through one channel, or `Lp`.
        channel: The channel of whole records under one `Uniform` guarantee, or else of every axis
            that names none; left out, the planner chooses.
        outside: "refuse" or "clip" values out of bounds, on axes that leave it open.
        people: About how many people will answer, if that is known. It is used to choose channels
            and changes neither the guarantee nor the fingerprint of a study with the same
            channels.

    Raises:
        StudyError: If a guarantee is missing, or a channel does not fit its axis.

    Example:
        >>> import sfumato as sf
        >>> study = sf.Study(
        ...     "commute",
        ...     axes=[
        ...         sf.integers("age", 0, 99, protect=sf.Distance(epsilon=0.2)),
        ...         sf.categories("mode", ["car", "bus", "bike"], protect=sf.Uniform(epsilon=1.0)),
        ...     ],
        ... )
        >>> people = {"age": [31, 42, 77], "mode": ["car", "bike", "bus"]}
        >>> reports = study.encode(people)
        >>> study.tally(reports).n
        3
    """

    def __init__(
        self,
        name: str,
        axes: Sequence[Axis | Together],
        *,
        protect: Metric | None = None,
        channel: Choice | None = None,
        outside: Outside = "refuse",
        people: int | None = None,
    ) -> None:
        self.people = checked_expected(people)
        if channel is not None and not isinstance(channel, Choice):
            raise StudyError(
                f"channel must be a choice such as Geometric(), got {type(channel).__name__}"
            )
        parts = arrange(axes, protect=protect, outside=outside)
        parts = tuple(replace(part, channel=part.channel or channel) for part in parts)
        self.schema = Schema(name, parts)
        names = columns_of(parts)
        found = []
        for part, group, column in zip(parts, self.schema.groups, names, strict=True):
            choice, made = settled(part, group.metric, self.people)
            shape = tuple(axis.size for axis in part.axes)
            perturbing = bound(part, choice, group.metric) if made is None else made
            found.append(Block(group.axes, shape, choice, perturbing, column))
        if len(found) > 1 and any(many_pairs(block.channel) for block in found):
            raise StudyError(
                "Pairs() covers all axes of a study: put the others under the same guarantee, or "
                "in a study of their own"
            )
        self._blocks: tuple[Block, ...] = tuple(found)

    @property
    def name(self) -> str:
        """What the study is called."""
        return self.schema.name

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """The axes; those that form a block by themselves state their guarantee and channel."""
        alone = {block.axes[0]: block.choice for block in self.blocks if len(block.axes) == 1}
        axes = enumerate(self.schema.axes)
        return tuple(replace(axis, channel=alone.get(place)) for place, axis in axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of cells of every axis."""
        return self.schema.shape

    @property
    def guarantee(self) -> Guarantee:
        """E between any two records."""
        return self.schema.guarantee

    @property
    def blocks(self) -> tuple[Block, ...]:
        """How records are perturbed: groups of axes, each with its channel."""
        return self._blocks

    @property
    def channels(self) -> tuple[Channel, ...]:
        """The channel of every block."""
        return tuple(block.channel for block in self.blocks)

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """How each block's output is written."""
        return tuple(channel.layout for channel in self.channels)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of reports, one per block."""
        return tuple(block.column for block in self.blocks)

    @property
    def parts(self) -> tuple[Together, ...]:
        """The axes by group, with guarantee and channel: arguments that make an equal study."""
        return tuple(
            Together(
                axes=tuple(self._bare[axis] for axis in block.axes),
                protect=group.protect,
                channel=block.choice,
            )
            for block, group in zip(self.blocks, self.schema.groups, strict=True)
        )

    @property
    def _bare(self) -> tuple[Axis, ...]:
        """The axes without guarantee and channel, which `parts` states per group."""
        return tuple(replace(axis, protect=None) for axis in self.schema.axes)

    @cached_property
    def reasons(self) -> tuple[str, ...]:
        """Why the planner chooses each block's channel; blank where it would choose another."""
        found = []
        for part, group in zip(self.parts, self.schema.groups, strict=True):
            chosen = planned(part, group.metric, self.people)
            found.append(chosen.reason if part.channel == chosen.choice else "")
        return tuple(found)

    def __repr__(self) -> str:
        names = visible(", ".join(axis.name for axis in self.axes))
        return f"<study {self.name!r} of {names}: {self.fingerprint[:12]}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Study) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def encode(self, table: Any, *, bits: BitSource | None = None) -> Reports:
        """Perturb people's values into reports.

        One record goes through `device_program()`, as on a device, and many at once through the
        channels themselves; the law of both is exactly the same. So does one record of a study
        that cannot be compiled for devices.

        Args:
            table: A dict of lists, NumPy arrays or scalars (one person), a DataFrame, an Arrow
                table; extra columns are ignored.
            bits: Where randomness comes from; left out, the operating system's secure source.

        Raises:
            DataError: If a value does not fit; rows are named, values never.
        """
        source = word_source(bits)
        codes = self._codes(table)
        if len(codes[0]) == 1 and (program := self._program) is not None:
            results = program.results([int(code[0]) for code in codes], words_of(source))
            alone = map(one_output, self.layouts, results)
            return Reports(self.fingerprint, self.columns, self.layouts, tuple(alone))
        cells = [block.cells(codes) for block in self.blocks]
        parts = []
        for start in range(0, max(len(cells[0]), 1), PEOPLE_AT_ONCE):
            rows = slice(start, start + PEOPLE_AT_ONCE)
            pairs = zip(self.blocks, cells, strict=True)
            outputs = tuple(block.channel.encode(column[rows], source) for block, column in pairs)
            parts.append(Reports(self.fingerprint, self.columns, self.layouts, outputs))
        return parts[0] if len(parts) == 1 else Reports.join(parts)

    def _codes(self, table: Any) -> list[np.ndarray[Any, np.dtype[np.int64]]]:
        """Every axis' codes for a table of people."""
        found = columns(table, [axis.name for axis in self.axes])
        return [axis.codes(found[axis.name]) for axis in self.axes]

    def refuse_other(self, fingerprint: str, what: str) -> None:
        """Refuse what belongs to another study.

        Args:
            fingerprint: The fingerprint found in reports or a file.
            what: What messages call them.
        """
        if fingerprint != self.fingerprint:
            raise MismatchError(
                f"{what} belongs to study {fingerprint[:12]}, not to {self.name!r} "
                f"({self.fingerprint[:12]}); use the study file it was made with"
            )

    # In words and in files

    def explain(self) -> str:
        """Explain the guarantee in plain words, with odds for example pairs.

        Example:
            >>> import sfumato as sf
            >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.2))])
            >>> "differs by 5: a report is at most 2.7 times likelier" in study.explain()
            True
        """
        expected = [] if self.people is None else [f"Made for about {self.people:,} people."]
        head = [f"Study {self.name!r}, fingerprint {self.fingerprint[:12]}", *expected, ""]
        lines = [*head, *_explained(self.schema, self.blocks, self.reasons)]
        return "\n".join(map(visible, lines))

    def table_text(self) -> TableText:
        """The table that a notebook shows: axes, what they are promised, and how."""
        rows: list[tuple[str, ...]] = []
        for group, block in zip(self.schema.groups, self.blocks, strict=True):
            axes = [self.schema.axes[place] for place in group.axes]
            rows.append(
                (
                    ", ".join(axis.name for axis in axes),
                    ", ".join(f"{axis.domain.kind}, {axis.size:,} cells" for axis in axes),
                    group.protect.describe(),
                    block.choice.id,
                )
            )
        head = f"Study {self.name!r}, fingerprint {self.fingerprint[:12]}"
        columns = ("axis", "values", "guarantee", "channel")
        return TableText(head, columns, rows, ("print(study.explain()) says what this means.",))

    def meaning(self) -> dict[str, Any]:
        """The entries of the study file that affect privacy or what an answer means."""
        return self.schema.meaning([choice_to_dict(block.choice) for block in self.blocks])

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of `meaning`: it identifies the study in reports, tallies and files."""
        return digest(self.meaning())

    def to_toml(self) -> str:
        """The text of the study file."""
        return to_toml(self.meaning(), self.fingerprint, self.people)

    def save(self, path: str | Path) -> None:
        """Write the study file (TOML)."""
        write_whole(path, lambda file: file.write_text(self.to_toml(), encoding="utf-8"))

    @classmethod
    def load(cls, path: str | Path) -> Study:
        """Read a study file; a damaged, edited or newer one is refused."""
        return cls.from_toml(read_file(path), what=shown(str(path)))

    @classmethod
    def from_toml(cls, text: str, *, what: str = "the study") -> Study:
        """Read a study from the text of its file.

        Args:
            text: The text of the file (TOML).
            what: What messages call it.
        """
        held = from_toml(text, what)
        with damaged(what):
            study = cls(
                held.name, held.axes, protect=held.protect, channel=held.channel, people=held.people
            )
        if held.fingerprint is not None and held.fingerprint != study.fingerprint:
            refuse_claim(held.fingerprint, study.meaning(), what)
        return study


_WIDTH = 96


def _explained(schema: Schema, blocks: Sequence[Block], reasons: Sequence[str]) -> list[str]:
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
        out += _indented(_sent(block, reason))
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
        "up over reports. A client with memory='value' repeats its report while a value stays the "
        "same, and so shows when the value has changed, and when it has returned. A client's files "
        "protect against the collector only, not against whoever reads them.",
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
    names = [f"{axis.name} ({axis.domain.kind}, {axis.size:,} cells)" for axis in axes]
    out = [f"{', '.join(names[:-1])} and {names[-1]}, together"]
    if not isinstance(group.metric, UniformMetric):
        lines = explain_together(axes, group.protect, group.metric)
        return [*out, *(part for line in lines for part in _indented(line))]
    epsilon = group.metric.between(0, 1)
    out += _indented(
        f"E = {epsilon:g} for any two records, whatever they differ in: a report is at most "
        f"{odds(epsilon)} likelier from one person than from any other."
    )
    for axis in axes:
        if axis.optional:
            out += _indented(f"Not answering {axis.name} is protected too: it is one more answer.")
    return out


def _sent(block: Block, reason: str) -> str:
    """Which channel makes a report, how long it is, and why."""
    title = block.choice.title or f"the {block.channel.id} channel"
    size = block.channel.layout
    sent = f"one of {size.count:,} symbols" if size.kind == "symbols" else f"{size.count} bits"
    because = f", because {reason}" if reason else ""
    return f"Sent by {title} as {sent}{because}."


def _indented(line: str) -> list[str]:
    """A line wrapped and indented under its heading."""
    return textwrap.wrap(line, _WIDTH, initial_indent="  ", subsequent_indent="    ")
