"""Reports of audits as files: a page that works offline, or one JSON document."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sfumato import pages
from sfumato.errors import FormatError
from sfumato.files import write_whole
from sfumato.text import escape

ENDINGS = (".html", ".json")


def save(found: Mapping[str, Any], path: str | Path) -> None:
    """Write a report; the ending of the file chooses its form.

    Args:
        found: What `Audit.to_dict` gives.
        path: The file, ending in .html or .json.

    Raises:
        FormatError: If the file ends in anything else, or cannot be written.
    """
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise FormatError(
            f"the report of an audit must end in {' or '.join(ENDINGS)}, got {str(path)!r}"
        )
    text = page(found) if ending == ".html" else json.dumps(found, indent=2, allow_nan=False) + "\n"
    write_whole(path, lambda file: file.write_text(text, encoding="utf-8"))


def page(found: Mapping[str, Any]) -> str:
    """The report as one HTML page, which loads nothing and runs nothing.

    Args:
        found: What `Audit.to_dict` gives.
    """
    facts = {
        "Study": found["study"],
        "Fingerprint": found["fingerprint"],
        "Checked on": found["date"],
        "By": f"sfumato {found['version']}",
    }
    verdict = "The guarantee holds" if found["holds"] else "The guarantee does NOT hold"
    tone = "yes" if found["holds"] else "no"
    head = f'<h1 class="{tone}">{verdict}</h1>\n{pages.facts(facts)}'
    return pages.page(f"Audit of {found['study']}", f"{head}\n{details(found)}")


def details(found: Mapping[str, Any]) -> str:
    """What was found for each axis, what was checked and what was not, as HTML.

    Args:
        found: What `Audit.to_dict` gives.
    """
    filled = {
        "axes": "\n".join(_axis(axis) for axis in found["axes"]),
        "sampling": _SAMPLING if any(axis["sample"] for axis in found["axes"]) else "",
    }
    return re.sub(r"\[\[(\w+)\]\]", lambda place: filled[place[1]], _TEMPLATE)


def _axis(axis: Mapping[str, Any]) -> str:
    """One axis, or the axes of one block."""
    pair, sample = axis["tightest"], axis["sample"]
    facts = {
        "Channel": axis["channel"],
        "Keeps its guarantee": "yes" if axis["holds"] else "NO",
        "Odds compared": f"{axis['method']}; {axis['pairs_checked']:,} ordered pairs of cells",
        "Most told apart": "no pair has a finite E" if pair is None else " and ".join(pair),
        "Its log odds": f"{_number(axis['log_ratio'])}, of {_number(axis['allowed'])} allowed",
        "Spent of E": "–" if pair is None else _share(axis["spent"]),
        "Sampler driven": f"{axis['driven']}; {axis['reports_driven']:,} reports",
    }
    if sample is not None:
        between = sample["between"]
        facts |= {
            "Reports drawn at random": f"{sample['reports']:,}, from {'; '.join(sample['cells'])}",
            "Comparisons": f"{sample['comparisons']:,}, at a significance of "
            f"{sample['significance']:.1g} for all together",
            "Least p-value, corrected": _number(sample["least_p"]),
            "Spent of E, at least": "–"
            if between is None
            else f"{sample['spent_at_least']:.2%}, between {' and '.join(between)}",
            "May go unseen": f"probabilities off by less than {sample['resolution']:.1g}",
        }
    problems = "".join(f"<li>{escape(problem)}</li>" for problem in axis["problems"])
    said = f'<ul class="no">{problems}</ul>' if problems else ""
    return f"<section><h2>{escape(axis['axis'])}</h2>{pages.facts(facts)}{said}</section>"


def _number(value: float | str) -> str:
    """A number, or the word for one that JSON has not."""
    return value if isinstance(value, str) else f"{value:.8g}"


def _share(value: float | str) -> str:
    """A share as a percentage, never rounded up to all of it."""
    if isinstance(value, str):
        return value
    whole = math.floor(value * 1e8) / 1e6
    return f"{whole:.6f} %"


_SAMPLING = """<li><b>A random sample was drawn</b> as devices draw, and compared with the
probabilities of reports and with E, by tests that are exact for its size. A sample is no proof: it
shows nothing about what is too rare to be drawn.</li>"""

#: What the page shows; [[name]] marks what a report fills in.
_TEMPLATE = """[[axes]]
<h2>What was checked, and how</h2>
<ul>
<li><b>The guarantee was derived again</b> from the study: E between any two values. The odds of any
report may change by at most e^E when the value changes.</li>
<li><b>Odds were compared with E</b> in exact arithmetic, on the integers that decide each report:
for all pairs of cells and all reports, or, where these are too many, by the structure of the
channel.</li>
<li><b>The sampler was driven</b> with scripted words on both sides of the boundaries of its tables:
the code that encodes reports must output what the tables say.</li>
[[sampling]]
</ul>
<h2>What was not checked</h2>
<p>Whether devices run this version of sfumato on this study, whether their random bits are secret,
how often a person reports, and how long a device takes. The guarantee is stated for one report of
each person and for values that the study distinguishes.</p>"""
