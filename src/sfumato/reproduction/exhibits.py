"""An exhibit: one figure or table of a paper, how it is made again, and what it must agree with."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import SfumatoError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: What an exhibit computes: a document that JSON can hold.
Data = dict[str, Any]
#: Headings and rows of everything that an exhibit computes.
Rows = tuple[Sequence[str], Sequence[Sequence[str]]]


class ReproductionError(SfumatoError, ValueError):
    """A figure or a paper that does not exist, or a file of data that cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One number of ours beside what a paper says about it.

    Attributes:
        what: What is compared.
        ours: Our value.
        printed: What the paper says: a number, or a statement in our words.
        low: The least value of ours that agrees with the paper.
        high: The largest one.
        tolerance: Where these two come from.
        aim: The printed number; None where the paper makes a statement only.
        error: The standard error of ours; 0 where it is exact.
        note: Why ours differs, or what else has to be known.
    """

    what: str
    ours: float
    printed: str
    low: float = -math.inf
    high: float = math.inf
    tolerance: str = ""
    aim: float | None = None
    error: float = 0.0
    note: str = ""

    @property
    def agrees(self) -> bool:
        """Whether ours is within the tolerance."""
        return self.low <= self.ours <= self.high

    @property
    def verdict(self) -> str:
        """One or two words."""
        if not self.agrees:
            return "differs"
        return "agrees" if self.aim is not None else "holds"

    @property
    def difference(self) -> str:
        """How far ours is from the printed number; for a statement, from what it allows."""
        if self.aim is not None:
            return f"{100 * (self.ours / self.aim - 1):+.1f} %"
        if self.agrees:
            return "none"
        end = self.low if self.ours < self.low else self.high
        return f"{self.ours - end:+.3g}"

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        ends = {"low": self.low, "high": self.high}
        return {
            "what": self.what,
            "ours": self.ours,
            "standard error": self.error,
            "printed": self.printed,
            **{name: end if math.isfinite(end) else None for name, end in ends.items()},
            "tolerance": self.tolerance,
            "difference": self.difference,
            "verdict": self.verdict,
            "note": self.note,
        }


def number(
    what: str,
    ours: float,
    printed: float,
    *,
    within: float,
    why: str,
    error: float = 0.0,
    note: str = "",
) -> Finding:
    """A printed number.

    Args:
        what: What is compared.
        ours: Our value.
        printed: The printed one.
        within: How far ours may be off, in parts of the printed number.
        why: Where that comes from.
        error: The standard error of ours.
        note: Why ours differs.
    """
    return Finding(
        what=what,
        ours=ours,
        printed=f"{printed:,.10g}",
        low=printed * (1 - within),
        high=printed * (1 + within),
        tolerance=f"±{100 * within:g} %: {why}",
        aim=printed,
        error=error,
        note=note,
    )


@dataclass(frozen=True, slots=True)
class Run:
    """How exhibits are made.

    Attributes:
        quick: Fewer people, runs and cells: a check that all of it works, in a minute.
        seed: Where all randomness starts.
        folder: Folder with the real data sets, if there is one.
        seen: Called with the share that is done.
    """

    quick: bool = False
    seed: int = 2020
    folder: Path | None = None
    seen: Callable[[float], None] = lambda share: None

    def file(self, name: str) -> Path:
        """A file of data, which is there: `missing` is asked first."""
        assert self.folder is not None  # noqa: S101 (see above)
        return self.folder / name

    def has(self, name: str) -> bool:
        """Whether a file of data is there."""
        return self.folder is not None and (self.folder / name).is_file()


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhibit:
    """One figure or table.

    Attributes:
        paper: The paper's name on the command line.
        label: What the paper calls it, such as "Figure 4".
        title: What it shows.
        settings: What is stated in the paper and what we chose, in words.
        make: Computes it.
        findings: What it says, beside the paper.
        rows: All values.
        draw: The plot.
        needs: Files of real data.
        adds: What is left out without them.
        edition: Where a paper has two versions with the same labels, which of them.
    """

    paper: str
    label: str
    title: str
    settings: str
    make: Callable[[Run], Data]
    findings: Callable[[Data], list[Finding]]
    rows: Callable[[Data], Rows]
    draw: Callable[[Data], Figure] | None = None
    needs: tuple[str, ...] = ()
    adds: str = ""
    edition: str = ""

    @property
    def name(self) -> str:
        """What it is called in lists."""
        return f"{self.label} ({self.edition})" if self.edition else self.label

    @property
    def id(self) -> str:
        """A name for files."""
        return "-".join(f"{self.paper} {self.name}".lower().translate(_PLAIN).split())

    def missing(self, run: Run) -> list[str]:
        """The files of data that are not there."""
        return [name for name in self.needs if not run.has(name)]


_PLAIN = str.maketrans("(),", "   ")


def matches(label: str, asked: str) -> bool:
    """Whether a label is meant by what was asked for: "4", "figure 4" and "Fig. 4" are Figure 4.

    Args:
        label: The label of an exhibit, such as "Figures 4 and 5".
        asked: The figure as written on the command line.

    Example:
        >>> matches("Figure 4", "fig. 4"), matches("Table 4", "4"), matches("Table 4", "table 4")
        (True, False, True)
    """
    words = asked.lower().replace(".", " ").replace("fig ", "figure ").split()
    kind, digit = (
        ("figure", words[-1]) if len(words) == 1 else (words[0], words[-1]) if words else ("", "")
    )
    return label.lower() == f"{kind} {digit}"


def chosen(exhibits: Sequence[Exhibit], paper: str | None, figure: str | None) -> list[Exhibit]:
    """The exhibits that are asked for.

    Args:
        exhibits: All of them.
        paper: A paper's name; None for all papers.
        figure: A figure or table; None for all.

    Raises:
        ReproductionError: If there is none; it lists those that there are.
    """
    papers = list(dict.fromkeys(held.paper for held in exhibits))
    if paper is not None and paper.lower() not in papers:
        raise ReproductionError(
            f"there is no paper {paper!r} to reproduce; there are {', '.join(papers)}"
        )
    found = [held for held in exhibits if paper is None or held.paper == paper.lower()]
    if figure is None:
        return found
    held = [one for one in found if matches(one.label, figure)]
    if not held:
        listed = "; ".join(
            f"{name}: {', '.join(one.name for one in found if one.paper == name)}"
            for name in papers
            if any(one.paper == name for one in found)
        )
        raise ReproductionError(f"there is no figure {figure!r} to reproduce; there are {listed}")
    return held


def shown(value: float, digits: int = 4) -> str:
    """A number for reading.

    Args:
        value: The number.
        digits: How many digits count.
    """
    if not math.isfinite(value):
        return "∞" if value > 0 else "–"
    if value == round(value) and abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:,.{digits}g}" if abs(value) < 10**digits else f"{value:,.0f}"


def table(rows: Sequence[Mapping[str, Any]]) -> Rows:
    """Headings and rows of records that have the same keys.

    Args:
        rows: The records.
    """
    head = list(rows[0]) if rows else []
    cells = [
        [shown(v) if isinstance(v, float) else str(v) for v in (row[name] for name in head)]
        for row in rows
    ]
    return head, cells
