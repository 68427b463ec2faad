"""The report: what it holds, and its page, a summary on one sheet of paper and then the details."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato import pages
from sfumato.auditing.audit import Audit
from sfumato.auditing.report import details
from sfumato.errors import FormatError
from sfumato.files import write_whole
from sfumato.planning.expected_error import Plan
from sfumato.planning.guarantees import ANY_TWO, Guarantees
from sfumato.study.examples import Haze, Pair, guessed
from sfumato.study.study import Study
from sfumato.text import escape, odds, percent

ENDINGS = (".html", ".json")
_MOST_ROWS = 12  # of the summary's tables
_GUESSES = "A coin toss is right 50% of the time."
_LIMITS = (
    "The guarantee is about what a report tells whoever sees it, the collector included. It is not "
    "about who a person is: reports are only as anonymous as the way in which they are sent.",
    "It holds for each report. Answering again reveals as much again; a client with memory='value' "
    "repeats its report while a value stays the same, and so shows when the value has changed.",
    "A client's own files protect against the collector only, not against whoever reads them.",
    "The audit cannot see whether devices run this version of sfumato on this very study: compare "
    "the fingerprint.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Far:
    """Axes on which one report may tell two people apart.

    Attributes:
        axes: Names of the axes.
        e: The largest E between two people who differ there.
        advice: What to do about it.
    """

    axes: tuple[str, ...]
    e: float
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Signoff:
    """What a study promises, how that was checked, what it costs, and what else there is.

    Attributes:
        study: The study.
        n: The number of people that errors are for.
        assumed: Whether nobody said how many people there are.
        audit: The exact check.
        pairs: Example pairs of people, near and far.
        hazes: For each axis, how well its values are told from one of them.
        far: Axes on which far pairs can be told apart.
        total: The largest E between two records, over all axes; infinite if there is none.
        repeats: Numbers of reports of one person that totals are shown for.
        plan: The errors to expect.
        others: The same questions under other guarantees.
    """

    study: Study
    n: int
    assumed: bool
    audit: Audit
    pairs: tuple[Pair, ...]
    hazes: tuple[Haze, ...]
    far: tuple[Far, ...]
    total: float
    repeats: tuple[int, ...]
    plan: Plan
    others: Guarantees

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; what is infinite is the text "inf"."""

        def plain(e: float) -> float | str:
            return e if math.isfinite(e) else str(e)

        return {
            "study": self.study.name,
            "fingerprint": self.study.fingerprint,
            "people": self.n,
            "guarantee": [
                {"pair": one.words, "there": plain(one.there), "back": plain(one.back)}
                for one in self.pairs
            ],
            "far": [
                {"axes": list(one.axes), "e": plain(one.e), "advice": one.advice}
                for one in self.far
            ],
            "total": plain(self.total),
            "repeats": {str(k): plain(k * self.total) for k in self.repeats},
            "audit": self.audit.to_dict(),
            "errors": self.plan.to_dict(),
            "others": self.others.to_dict(),
        }

    def save(self, path: str | Path) -> None:
        """Write it as a page that works offline and prints well (.html), or as .json.

        Args:
            path: The file.

        Raises:
            FormatError: If the file ends in anything else.
        """
        ending = Path(path).suffix.lower()
        if ending not in ENDINGS:
            raise FormatError(
                f"a report must end in {' or '.join(ENDINGS)}, got {str(path)!r}; for a PDF, open "
                "the page and print it"
            )
        text = (
            page(self)
            if ending == ".html"
            else json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"
        )
        write_whole(path, lambda file: file.write_text(text, encoding="utf-8"))

    def _repr_html_(self) -> str:
        """HTML for notebooks: the errors under this guarantee and under others."""
        return self.others._repr_html_()


def page(found: Signoff) -> str:
    """The whole page.

    Args:
        found: What `Study.report` gave.
    """
    parts = [
        _head(found),
        _promise(found),
        _far(found),
        _error(found),
        '<div class="details">',
        _pairs(found.pairs),
        _curves(found.hazes),
        _totals(found),
        _plan(found),
        _others(found),
        f"<h2>The audit of {escape(found.audit.date)}</h2>",
        pages.facts(
            {"Fingerprint": found.study.fingerprint, "By": f"sfumato {found.audit.version}"}
        ),
        details(found.audit.to_dict()),
        "<h2>What the guarantee does not say</h2>",
        f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in _LIMITS)}</ul>",
        "</div>",
    ]
    return pages.page(f"Privacy report of {found.study.name}", "\n".join(filter(None, parts)))


def _head(found: Signoff) -> str:
    """The name, the verdict, and what is asked."""
    holds = found.audit.holds
    verdict = "The guarantee holds" if holds else "The guarantee does NOT hold"
    asked = [
        f"{axis.name} ({axis.domain.kind}, {axis.size:,} cells"
        f"{', optional' if axis.optional else ''})"
        for axis in found.study.schema.axes
    ]
    known = {
        "People report": ", ".join(asked),
        "What leaves": f"one report per person, perturbed on the device ({_sizes(found)})",
        "Fingerprint": found.study.fingerprint,
    }
    return (
        f"<h1>Privacy report of {escape(found.study.name)}</h1>"
        f'<p class="lead {"yes" if holds else "no"}"><b>{verdict}</b>: checked exactly on '
        f"{escape(found.audit.date)} by sfumato {escape(found.audit.version)}.</p>"
        f"{pages.facts(known)}"
    )


def _sizes(found: Signoff) -> str:
    """How long a report is."""
    bits = sum(
        layout.count if layout.kind == "bits" else math.ceil(math.log2(layout.count))
        for layout in found.study.layouts
    )
    return f"{bits:,} bit{'' if bits == 1 else 's'}"


def _promise(found: Signoff) -> str:
    """The nearest and the farthest pair of every guarantee, and any two records."""
    rows: list[tuple[str, str, str, float]] = []
    for axes in dict.fromkeys(pair.axes for pair in found.pairs):
        own = [pair for pair in found.pairs if pair.axes == axes]
        ends = dict.fromkeys((own[0].words, max(own, key=lambda pair: pair.e).words))
        rows += [_row(pair) for pair in own if pair.words in ends]
    more = len(rows) - _MOST_ROWS
    rows = rows[:_MOST_ROWS]
    left = f'<p class="quiet">{more} more below.</p>' if more > 0 else ""
    right = guessed(found.total, found.total)
    rows.append((ANY_TWO, odds(found.total), _percent(right, found.total), 2 * right - 1))
    return (
        "<h2>What each person is promised</h2><p>Someone sees one report and wonders which of two "
        "people sent it. However clever the guess, it is right no more often than this says. The "
        "report may be likelier from one than from the other, by this factor at most. "
        f"{_GUESSES}</p>{pages.listed(_COLUMNS, rows)}{left}"
    )


_COLUMNS = ("", "likelier, at most", "a guess is right, at most", "from coin toss to always")


def _row(pair: Pair) -> tuple[str, str, str, float]:
    """One pair in words, in odds and as a bar."""
    there, back = odds(pair.there), odds(pair.back)
    both = there if there == back else f"{there}; the other way round {back}"
    return pair.words, both, _percent(pair.right, pair.e), 2 * pair.right - 1


def _percent(share: float, e: float) -> str:
    """How often a guess is right; never rounded up to always."""
    if math.isinf(e):
        return "always"
    return f"{100 * share:.0f}%" if share < 0.99 else "over 99%"


def _far(found: Signoff) -> str:
    """What can be told apart, and what to do about it."""
    flags = ""
    for one in found.far:
        names = " and ".join(one.axes)
        told = (
            f"One report may tell some people apart by their {names} for sure."
            if math.isinf(one.e)
            else f"One report may tell far values of {names} apart: it may be "
            f"{odds(one.e)} likelier from one person than from another."
        )
        flags += f'<div class="flag"><p><b>{escape(told)}</b> {escape(one.advice)}</p></div>'
    if not flags:
        flags = "<p>No two people can be told apart by one report with more than 99% certainty.</p>"
    return f"<h2>Far pairs</h2>{flags}"


def _error(found: Signoff) -> str:
    """The error of the typical questions, in one line each."""
    rows = [row for row in found.plan if row.kind in ("range", "cell", "asked") and row.share]
    shown = {row.axes: row for row in reversed(rows) if row.kind != "asked"}
    own = [row for row in rows if row.kind == "asked"]
    lines = [
        (row.question, percent(row.share or 0.0))
        for row in [*own, *(row for row in rows if row in shown.values())][:_MOST_ROWS]
    ]
    people = f"{found.n:,} people" + (", an example: nobody said how many" if found.assumed else "")
    return (
        f"<h2>The error to expect</h2><p>The standard error of answers, with {escape(people)}, as "
        f"a share of all of them.</p>{pages.listed(('question', 'standard error'), lines)}"
        '<p class="sign">Approved by<i></i>on<i></i></p>'
    )


def _pairs(pairs: Sequence[Pair]) -> str:
    """All example pairs."""
    return f"<h2>Pairs, near and far</h2>{pages.listed(_COLUMNS, [_row(pair) for pair in pairs])}"


def _curves(hazes: Sequence[Haze]) -> str:
    """For each axis, how well its values are told from one of them."""
    drawn = "".join(
        pages.curve(
            (2 * haze.right - 1).tolist(),
            haze.places,
            f"{haze.axis}: someone with {haze.value} beside everybody else",
        )
        for haze in hazes
    )
    return (
        "<h2>How far the haze reaches</h2><p>How much better than a coin toss the best guess is "
        "between one value and each other one: at the bottom, a report tells nothing; at the top, "
        f"it tells for sure.</p>{drawn}"
    )


def _totals(found: Signoff) -> str:
    """What a whole record reveals, and several reports of one person."""
    groups = [
        (" and ".join(found.study.schema.axes[place].name for place in group.axes), group.metric)
        for group in found.study.schema.groups
    ]
    ends = [(name, metric.largest()) for name, metric in groups]
    rows = [(name, odds(math.inf if e is None else float(e))) for name, e in ends]
    rows.append(("all of them together", odds(found.total)))
    near = found.pairs[0]
    times = [(f"{k:,}", odds(k * near.e), odds(k * found.total)) for k in found.repeats]
    return (
        "<h2>The total over a record</h2><p>Guarantees of axes add: two people who differ in "
        "several answers can be told apart better. How many times likelier a report may be, at "
        f"most:</p>{pages.listed(('two people who differ in', 'likelier, at most'), rows)}"
        "<h2>The total over repetitions</h2><p>Reports about the same values add up as well, "
        "unless the client repeats its first report (memory='value').</p>"
        + pages.listed(("reports of one person", near.words, "any two people"), times)
    )


def _plan(found: Signoff) -> str:
    """All errors."""
    plan = found.plan
    notes = "".join(f"<p>{escape(note)}</p>" for note in plan.notes)
    return (
        f"<h2>All errors to expect</h2><p>{escape(plan.caption())}</p>"
        f"{pages.listed(plan.columns(), [plan.cells(row) for row in plan])}{notes}"
    )


def _others(found: Signoff) -> str:
    """The same questions under other guarantees."""
    _, columns, rows, _ = found.others.table_text()
    return (
        f"<h2>Other guarantees</h2><p>{escape(found.others.caption())}</p>"
        f"{pages.listed(columns, rows)}"
    )
