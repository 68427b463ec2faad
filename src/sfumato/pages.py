"""Pages that are handed on as one file: they load nothing, run nothing, and print well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sfumato.text import escape

_STYLE = """
  :root { color-scheme: light dark; --paper: light-dark(#fff, #171412);
    --ink: light-dark(#22303c, #e9e4dc);
    --quiet: light-dark(#5f6e7a, #b3aaa0); --edge: light-dark(#e1e6ea, #3a3530);
    --yes: light-dark(#2b7a4b, #7fc99a); --no: light-dark(#b3402a, #ef9a80);
    --fill: light-dark(#2f6f9f, #7db3da); --haze: light-dark(#dbe8f1, #27333d); }
  * { box-sizing: border-box; }
  body { margin: 2rem auto; max-width: 56rem; padding: 0 1rem; color: var(--ink);
    background: var(--paper);
      font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
  h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .6rem; overflow-wrap: anywhere; }
  h2 { font-size: 1.25rem; line-height: 1.3; margin: 2rem 0 .5rem; overflow-wrap: anywhere; }
  h3 { font-size: 1.02rem; margin: 1.3rem 0 .3rem; overflow-wrap: anywhere; }
  p, ul { margin: 0 0 .8rem; } ul { padding-left: 1.2rem; }
  .lead { font-size: 1.1rem; } .quiet { color: var(--quiet); font-size: .92rem; }
  .yes { color: var(--yes); } .no { color: var(--no); } ul.no { font-weight: 600; }
  table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums;
    margin: 0 0 .8rem; }
  th, td { text-align: left; vertical-align: top; padding: .35rem .9rem .35rem 0;
    border-top: 1px solid var(--edge); font-weight: normal; overflow-wrap: anywhere; }
  th { color: var(--quiet); } th[scope=row] { width: 14rem; }
  .rows th[scope=row] { width: auto; color: inherit; }
  .curve { margin: 0 0 1rem; max-width: 34rem; } .curve figcaption { font-size: .92rem; }
  .curve svg { display: block; width: 100%; height: 5.5rem; background: var(--haze); }
  .curve .at { display: flex; justify-content: space-between; gap: 1rem; color: var(--quiet);
    font-size: .82rem; }
  .bar { display: block; height: .5rem; background: var(--haze); margin-top: .35rem;
    min-width: 6rem; }
  .bar i { display: block; height: 100%; background: var(--fill); }
  .flag { border-left: .3rem solid var(--no); padding: .1rem 0 .1rem .8rem; margin: 0 0 .8rem; }
  .sign { display: flex; gap: .6rem; margin-top: 2.4rem; }
  .sign i { flex: 1; border-bottom: 1px solid var(--quiet); }
  @media (max-width: 40rem) {
    th, th[scope=row], td { display: block; width: auto; } td { border: 0; padding-top: 0; }
    .rows thead { display: none; } .rows td::before { content: attr(data-of) ": ";
      color: var(--quiet); }
  }
  @media print { :root { color-scheme: light; } body { margin: 0; max-width: none; padding: 0;
    font-size: 11pt; }
    .details { break-before: page; } tr, figure, .flag { break-inside: avoid; } h2, h3 {
      break-after: avoid; }
    .bar, .bar i, .curve svg { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
  @page { margin: 16mm; }
"""


def page(title: str, body: str) -> str:
    """A whole page.

    Args:
        title: Its title, as plain text.
        body: What it shows, as HTML.

    Example:
        >>> "<title>a &amp; b</title>" in page("a & b", "<p>hello</p>")
        True
    """
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def facts(known: Mapping[str, str]) -> str:
    """Names and what is known of each, as plain text."""
    rows = (
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(said)}</td></tr>'
        for name, said in known.items()
    )
    return f"<table>{''.join(rows)}</table>"


def listed(columns: Sequence[str], cells: Sequence[Sequence[str | float]]) -> str:
    """A table whose rows are stacked where the page is narrow.

    Args:
        columns: Names of the columns, as plain text; the first one names the rows.
        cells: The cells, one sequence per row: plain text, or a share, which is drawn as a bar.

    Example:
        >>> listed(("a", "b"), [("x", "<y>")]).count("&lt;y&gt;")
        1
    """
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    body = ""
    for first, *others in cells:
        named = zip(columns[1:], others, strict=True)
        rest = "".join(
            f'<td data-of="{escape(column)}">{_cell(cell)}</td>' for column, cell in named
        )
        body += f'<tr><th scope="row">{_cell(first)}</th>{rest}</tr>'
    return f'<table class="rows"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _cell(cell: str | float) -> str:
    """A text, or a share as a bar."""
    if isinstance(cell, str):
        return escape(cell)
    return f'<span class="bar"><i style="width: {100 * cell:.1f}%"></i></span>'


def curve(shares: Sequence[float], places: Sequence[str], caption: str) -> str:
    """A picture of shares along an axis, as steps over a ground of 0 to 1.

    Args:
        shares: The shares, in the order of the axis.
        places: What is written below, evenly spread, as plain text.
        caption: What is shown, as plain text.

    Example:
        >>> "L1 20" in curve([0.0, 0.8], ["0", "1"], "two")
        True
    """
    steps = [(x, 100 * (1 - share)) for k, share in enumerate(shares) for x in (k, k + 1)]
    path = " ".join(f"L{x} {y:.4g}" for x, y in steps)
    below = "".join(f"<span>{escape(place)}</span>" for place in places)
    return (
        f'<figure class="curve"><figcaption>{escape(caption)}</figcaption>'
        f'<svg viewBox="0 0 {len(shares)} 100" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(caption)}"><path fill="var(--fill)" d="M0 100 {path} '
        f'L{len(shares)} 100 Z"/></svg><div class="at">{below}</div></figure>'
    )
