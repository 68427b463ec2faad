"""Pictures of a plan: one bar a question, as long as its error."""

from __future__ import annotations

import html
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import StudyError
from sfumato.files import write_whole
from sfumato.planning.plan import Plan, PlanRow
from sfumato.plots import wording
from sfumato.plots.wording import ESTIMATE, FAINT, INK, TRUTH

if TYPE_CHECKING:
    from matplotlib.figure import Figure


STILL = (".png", ".svg", ".pdf")

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>body {{ margin: 1rem; font: 16px/1.5 {font}; color: {ink}; }}</style>
<script>{library}</script>
</head>
<body>
<h1>{title}</h1>
<p>{caption}</p>
{piece}
</body>
</html>
"""


def figure(plan: Plan, *, title: str | None = None) -> Figure:
    """Standard errors as shares of all people, the first question on top; means are left out.

    Raises:
        PlotsMissingError: If matplotlib is not installed.

    Example:
        >>> import sfumato as sf
        >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
        >>> figure(study.expected_error(100_000)).axes[0].get_xlabel()
        'standard error, share of people'
    """
    module = wording.need("matplotlib.figure")
    ticker = wording.need("matplotlib.ticker")
    rows = _shown(plan)
    made: Figure = module.Figure(figsize=(8.0, 1.7 + 0.32 * len(rows)), layout="constrained")
    axes = made.add_subplot()
    places = list(range(len(rows)))
    axes.barh(places, [row.share or 0.0 for row in rows], color=ESTIMATE, alpha=0.55, height=0.62)
    told = [(row.reported / plan.n, at) for at, row in enumerate(rows) if row.reported is not None]
    if told:
        axes.plot(*zip(*told, strict=True), "d", color=TRUTH, ms=5, label="as reported")
        axes.legend(frameon=False, fontsize=9, labelcolor=INK)
    axes.set_yticks(places, [_safe(wording.shorten(row.question, 44)) for row in rows])
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda v, _: wording.share(v)))
    axes.set_xlabel("standard error, share of people", color=INK)
    axes.tick_params(colors=FAINT, labelsize=9)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.grid(visible=True, axis="x", color="#e8ecef", lw=0.8)
    axes.set_axisbelow(True)
    made.suptitle(
        _safe(title or _heading(plan)), x=0.01, ha="left", fontsize=13, color=INK, weight="bold"
    )
    axes.set_title(_safe(plan.caption()), loc="left", fontsize=9, color=FAINT)
    return made


def save(plan: Plan, path: str | Path, *, title: str | None = None) -> None:
    """Write a picture: .png, .svg or .pdf, or .html for an interactive page that works offline.

    Raises:
        StudyError: If the suffix is another one.
        PlotsMissingError: If matplotlib or plotly is not installed.
    """
    write(path, partial(figure, plan, title=title), partial(page, plan, title=title))


def write(path: str | Path, still: Callable[[], Figure], text: Callable[[], str]) -> None:
    """Write what the suffix asks for: a figure, or the text of a page."""
    suffix = Path(path).suffix.lower()
    if suffix == ".html":
        held = text()
        write_whole(path, lambda file: file.write_text(held, encoding="utf-8"))
    elif suffix in STILL:
        write_whole(path, partial(still().savefig, format=suffix[1:], dpi=150))
    else:
        raise StudyError(
            f"a picture's name must end in {', '.join(STILL)} or .html, got {str(path)!r}"
        )


def page(plan: Plan, *, title: str | None = None) -> str:
    """A whole page that needs nothing from elsewhere."""
    return whole_page(title or _heading(plan), plan.caption(), describe(plan))


def whole_page(title: str, caption: str, described: dict[str, Any]) -> str:
    """A page of one picture that needs nothing from elsewhere."""
    from sfumato.plots import interactive

    return _PAGE.format(
        title=html.escape(title),
        caption=html.escape(caption),
        piece=interactive.piece("picture", described),
        library=interactive.library(),
        font=interactive.FONT,
        ink=INK,
    )


def describe(plan: Plan) -> dict[str, Any]:
    """The picture as plotly's data and layout."""
    rows = _shown(plan)
    names = [html.escape(row.question) for row in rows]
    data: list[dict[str, Any]] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": "standard error",
            "x": [row.share for row in rows],
            "y": names,
            "marker": {"color": ESTIMATE, "opacity": 0.55},
        }
    ]
    told = [row for row in rows if row.reported is not None]
    if told:
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": "as reported",
                "x": [(row.reported or 0.0) / plan.n for row in told],
                "y": [html.escape(row.question) for row in told],
                "marker": {"color": TRUTH, "size": 9, "symbol": "diamond"},
            }
        )
    layout = {
        "xaxis": {"title": {"text": "standard error, share of people"}, "tickformat": ".2~%"},
        "yaxis": {"autorange": "reversed", "automargin": True},
        "height": min(160 + 28 * len(rows), 2400),
        "margin": {"t": 20, "r": 20},
    }
    return {"data": data, "layout": layout}


def _shown(plan: Plan) -> list[PlanRow]:
    """Rows whose error is a share of people."""
    return [row for row in plan if row.share is not None]


def _heading(plan: Plan) -> str:
    """What the picture shows."""
    return f"Errors to expect of study {plan.study!r}"


def _safe(text: str) -> str:
    """Text with dollar signs that stay dollar signs."""
    return text.replace("$", r"\$")
