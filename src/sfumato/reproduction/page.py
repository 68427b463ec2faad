"""The report of a run: one page with all findings, plots and values, which loads nothing."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

from sfumato.plots import style
from sfumato.reproduction.exhibits import Exhibit, Finding, Rows, shown
from sfumato.reproduction.running import Made
from sfumato.reproduction.table import PAPERS
from sfumato.text import escape

FINDINGS = ("what", "ours", "paper", "difference", "verdict")


def cells(finding: Finding) -> tuple[str, str, str, str, str]:
    """A finding in one line.

    Args:
        finding: The finding.
    """
    ours = shown(finding.ours)
    if finding.error:
        ours += f" ± {finding.error:.1g}"
    return finding.what, ours, finding.printed, finding.difference, finding.verdict


def counts(results: Sequence[Made]) -> str:
    """How many findings agree, how many do not, and what was left out, in one sentence.

    Args:
        results: What was made.
    """
    findings = [finding for held in results for finding in held.findings]
    differ = sum(not finding.agrees for finding in findings)
    made = sum(held.data is not None for held in results)
    said = (
        f"{len(findings)} comparisons with {made} figures and tables: "
        f"{len(findings) - differ} agree, {differ} differ"
    )
    left = len(results) - made
    return said + (f"; {left} left out for want of data." if left else ".")


def image(exhibit: Exhibit, data: Any) -> bytes:
    """The plot of an exhibit as PNG.

    Args:
        exhibit: The exhibit.
        data: Its result.
    """
    assert exhibit.draw is not None  # noqa: S101 (asked for before)
    written = io.BytesIO()
    exhibit.draw(data).savefig(written, format="png", dpi=110)
    return written.getvalue()


def page(results: Sequence[Made], caption: str) -> str:
    """The whole report.

    Args:
        results: What was made.
        caption: When and how.
    """
    parts = []
    for paper, title in PAPERS.items():
        held = [one for one in results if one.exhibit.paper == paper]
        if held:
            parts.append(f"<h2>{escape(title)}</h2>")
            parts += [_section(one) for one in held]
    return _PAGE.format(
        font=style.FONT,
        ink=style.INK,
        faint=style.FAINT,
        caption=escape(caption),
        counts=escape(counts(results)),
        overview=_overview(results),
        parts="\n".join(parts),
    )


def _overview(results: Sequence[Made]) -> str:
    """One line per exhibit, with a link to it."""
    rows = []
    for held in results:
        findings = held.findings
        differ = sum(not finding.agrees for finding in findings)
        said = (
            "data missing"
            if held.data is None
            else f"{len(findings) - differ} of {len(findings)} agree"
        )
        mark = "" if held.data is None else ' class="no"' if differ else ' class="yes"'
        link = f'<a href="#{held.exhibit.id}">{escape(held.exhibit.name)}</a>'
        rows.append(
            f"<tr><td>{escape(held.exhibit.paper)}</td><td>{link}</td>"
            f"<td>{escape(held.exhibit.title)}</td><td{mark}>{said}</td></tr>"
        )
    return f'<div class="wide"><table>{"".join(rows)}</table></div>'


def _section(held: Made) -> str:
    """One exhibit."""
    exhibit = held.exhibit
    head = (
        f'<section id="{exhibit.id}"><h3>{escape(exhibit.name)}: {escape(exhibit.title)}</h3>'
        f"<p>Settings: {escape(exhibit.settings)}.</p>"
    )
    if held.data is None:
        return f"{head}<p>Left out: {escape(held.left_out)}.</p></section>"
    picture = ""
    if exhibit.draw is not None:
        told = base64.b64encode(image(exhibit, held.data)).decode("ascii")
        picture = f'<img alt="{escape(exhibit.name)}" src="data:image/png;base64,{told}">'
    rows = exhibit.rows(held.data)
    return (
        f"{head}{_findings(held.findings)}{picture}"
        f"<details><summary>All {len(rows[1])} rows of values</summary>{_values(rows)}</details>"
        "</section>"
    )


def _findings(findings: Sequence[Finding]) -> str:
    """Ours beside the paper."""
    rows = []
    for finding in findings:
        what, *middle, verdict = cells(finding)
        notes = [f"Tolerance: {finding.tolerance}." if finding.tolerance else ""]
        notes += [f"{finding.note[0].upper()}{finding.note[1:]}." if finding.note else ""]
        mark = "yes" if finding.agrees else "no"
        rows.append(
            f"<tr><td>{escape(what)}<small>{escape(' '.join(filter(None, notes)))}</small></td>"
            + "".join(f"<td>{escape(cell)}</td>" for cell in middle)
            + f'<td class="{mark}">{escape(verdict)}</td></tr>'
        )
    head = "".join(f"<th>{name}</th>" for name in FINDINGS)
    return f'<div class="wide"><table><tr>{head}</tr>{"".join(rows)}</table></div>'


def _values(rows: Rows) -> str:
    """All values of an exhibit."""
    head, body = rows
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in body
    )
    return f'<div class="wide"><table><tr>{top}</tr>{lines}</table></div>'


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>The papers, reproduced</title>
<style>
  body {{ margin: 0 auto; padding: 1rem; max-width: 70rem; font: 16px/1.5 {font}; color: {ink};
         background: #fff; }}
  h1 {{ font-size: 1.5rem; margin: 0; }}
  h2 {{ font-size: 1.2rem; margin: 2.5rem 0 0; border-bottom: 1px solid #d5dbe0; }}
  h3 {{ font-size: 1rem; margin: 1.8rem 0 .2rem; }}
  p {{ margin: .3rem 0; }}
  small, .caption {{ display: block; color: {faint}; font-size: .85rem; }}
  table {{ border-collapse: collapse; margin: .6rem 0; font-size: .9rem;
          font-variant-numeric: tabular-nums; }}
  th, td {{ text-align: left; vertical-align: top; padding: .25rem .8rem .25rem 0;
           border-bottom: 1px solid #e8ecef; }}
  .wide {{ overflow-x: auto; }}
  .yes {{ color: #2c7a4b; }}
  .no {{ color: #b03a1c; font-weight: 600; }}
  img {{ max-width: 100%; height: auto; margin: .6rem 0; }}
  summary {{ cursor: pointer; color: {faint}; }}
</style>
</head>
<body>
<h1>The papers, reproduced</h1>
<p class="caption">{caption}</p>
<p>{counts}</p>
{overview}
{parts}
</body>
</html>
"""
