"""The record of a full reproduction, and the page docs/reproduction.md made from it.

``python -m benchmarks.reproduced --data FOLDER`` makes everything anew, in about half an hour of
processor time, and writes results/reproduction.json, the page and its pictures. Without ``--data``
the page and pictures are written from the record.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.pages import markdown
from benchmarks.recording import origin, progress
from sfumato.reproduction import page, running
from sfumato.reproduction.exhibits import Run
from sfumato.reproduction.running import Made
from sfumato.reproduction.table import EXHIBITS, PAPERS

RECORD = Path("results/reproduction.json")
PAGE = Path("docs/reproduction.md")
PICTURES = Path("docs/images")

HEAD = """\
# The papers, reproduced

`sfumato reproduce` makes every figure and table of the four papers that states a number or a curve
again, and compares each with the paper. `--quick` takes a minute, `--data` names a folder with the
real data sets, and `--out` a report with all plots and all values.

```text
sfumato reproduce --quick
sfumato reproduce cormode --figure 6
sfumato reproduce --data datasets --out report.html
```

The plots of the papers are not at hand, only their texts. So a printed number is compared with ours
within a stated tolerance, and a curve by what the text says of it. *Agrees* means within the
tolerance of a printed number, *holds* that a statement is true of our values, and *differs* that it
is not; the reason follows where it is known. [Which theorem is where](theorems.md) lists the rest
of the papers.

"""


def results(record: dict[str, Any]) -> list[Made]:
    """The recorded results, with what made them."""
    return running.recalled(record, EXHIBITS)


def text(record: dict[str, Any]) -> str:
    """The page."""
    made = results(record)
    date = record["date"][:10]
    parts = [HEAD, f"Recorded by `{record['command']}` on {date}: {page.counts(made)}\n"]
    for paper, title in PAPERS.items():
        parts.append(f"\n## {title}\n")
        parts += [_section(held) for held in made if held.exhibit.paper == paper]
    return "\n".join(parts)


def picture(held: Made) -> str:
    """The file of a plot."""
    return f"reproduced-{held.exhibit.id}.png"


def _section(held: Made) -> str:
    """One exhibit."""
    exhibit = held.exhibit
    parts = [f"### {exhibit.name}: {exhibit.title}".replace(": Table", ": table")]
    parts.append(f"Settings: {exhibit.settings}.")
    if exhibit.needs:
        parts.append(f"Real data: {', '.join(f'`{name}`' for name in exhibit.needs)}.")
    if held.data is None:
        return "\n\n".join([*parts, f"Left out: {held.left_out}.\n"])
    rows = []
    for finding in held.findings:
        cells = [cell.replace("|", "\\|") for cell in page.cells(finding)]
        note = finding.note if finding.note and not finding.agrees else ""
        cells[-1] = f"**{cells[-1]}**: {note}" if note else cells[-1]
        rows.append(cells)
    parts.append(markdown(page.FINDINGS, rows))
    if exhibit.draw is not None:
        parts.append(f"![{exhibit.title}](images/{picture(held)})")
    return "\n\n".join(parts) + "\n"


def write_page(record: dict[str, Any]) -> None:
    """Write the page and its pictures."""
    PAGE.write_text(text(record), encoding="utf-8")
    for held in results(record):
        if held.exhibit.draw is not None and held.data is not None:
            held.exhibit.draw(held.data).savefig(PICTURES / picture(held), dpi=80)


def main(arguments: Sequence[str] | None = None) -> None:
    """Make everything anew, or write the page from the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with the real data sets")
    folder = parser.parse_args(arguments).data
    if folder is not None:
        run = Run(folder=folder)
        made = list(running.made(EXHIBITS, run, seen=lambda _, name: progress(name)))
        told = running.document(made, run, "sfumato reproduce --data DIR")
        told |= origin("python -m benchmarks.reproduced --data FOLDER")
        RECORD.write_text(json.dumps(told, ensure_ascii=False) + "\n", encoding="utf-8")
    write_page(json.loads(RECORD.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
