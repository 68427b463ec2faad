"""Pictures of guarantees side by side: what is hidden on the left, the errors on the right."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.extras import need
from sfumato.planning.guarantees import GuaranteeRow, Guarantees
from sfumato.plots import style
from sfumato.plots.style import FAINT, INK, Spec, safe
from sfumato.study.examples import guessed
from sfumato.text import escape

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#2f6f9f", "#c8553d", "#5b8c5a", "#8a6fb0", "#b08a3e", "#4f7f86")
_TITLES = ("a guess between the two is right, at most", "standard error, share of people")
_HEADING = "Guarantees side by side"


def figure(found: Guarantees, *, title: str | None = None) -> Figure:
    """Draw pairs of people and the errors of questions, one bar per study.

    Args:
        found: What `compare_guarantees` gave.
        title: The heading; left out, one that says what is shown.

    Raises:
        MissingExtraError: If matplotlib is not installed.
    """
    module = need("matplotlib.figure")
    ticker = need("matplotlib.ticker")
    panels = _panels(found)
    count = len(found.names)
    heights = [max(len(rows), 1) * count for rows, _ in panels]
    made: Figure = module.Figure(
        figsize=(9.0, 2.2 + 0.2 * sum(heights) + 0.5 * len(panels)), layout="constrained"
    )
    grid = made.subplots(2, 1, height_ratios=heights)
    for axes, (rows, values), label in zip(grid, panels, _TITLES, strict=True):
        for k, name in enumerate(found.names):
            places = [row + (k + 0.5) / count * 0.8 - 0.4 for row in range(len(rows))]
            lengths = [one[k] or 0.0 for one in values]
            axes.barh(
                places,
                lengths,
                height=0.8 / count,
                color=COLOURS[k % len(COLOURS)],
                label=safe(name),
            )
        axes.set_yticks(range(len(rows)), [safe(style.shorten(row.what, 52)) for row in rows])
        axes.invert_yaxis()
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda v, _: style.share(v)))
        axes.set_xlabel(label, color=INK)
        style.plain_axes(axes, grid="x")
    grid[0].set_xlim(0.5, 1.0)
    grid[1].set_xlim(left=0)
    handles, names = grid[0].get_legend_handles_labels()
    made.legend(handles, names, loc="outside lower left", ncols=3, frameon=False, fontsize=9)
    made.suptitle(safe(title or _HEADING), x=0.01, ha="left", fontsize=13, color=INK, weight="bold")
    grid[0].set_title(
        safe(f"{found.n:,} people; 50% is a coin toss"), loc="left", fontsize=9, color=FAINT
    )
    return made


def save(found: Guarantees, path: str | Path, *, title: str | None = None) -> None:
    """Write a picture: .png, .svg or .pdf, or .html for an interactive page that works offline.

    Args:
        found: What `compare_guarantees` gave.
        path: The file, written completely or not at all.
        title: The heading; left out, one that says what is shown.

    Raises:
        StudyError: If the suffix is another one.
        MissingExtraError: If matplotlib or plotly is not installed.
    """
    style.write(path, partial(figure, found, title=title), partial(_page, found, title=title))


def _page(found: Guarantees, *, title: str | None = None) -> str:
    """A page with the picture that works offline."""
    return style.page(title or _HEADING, found.caption(), describe(found))


def describe(found: Guarantees) -> Spec:
    """The picture as plotly's data and layout."""
    data: list[Spec] = []
    panels = _panels(found)
    for panel, (rows, values) in enumerate(panels):
        for k, name in enumerate(found.names):
            data.append(
                {
                    "type": "bar",
                    "orientation": "h",
                    "name": escape(name),
                    "legendgroup": escape(name),
                    "showlegend": panel == 0,
                    "x": [one[k] for one in values],
                    "y": [escape(row.what) for row in rows],
                    "marker": {"color": COLOURS[k % len(COLOURS)]},
                    "xaxis": f"x{panel + 1}",
                    "yaxis": f"y{panel + 1}",
                }
            )
    share = len(panels[1][0]) / max(len(panels[0][0]) + len(panels[1][0]), 1)
    layout = {
        "barmode": "group",
        "xaxis": {
            "title": {"text": _TITLES[0]},
            "range": [0.5, 1.0],
            "tickformat": ".0%",
            "anchor": "y1",
        },
        "xaxis2": {"title": {"text": _TITLES[1]}, "tickformat": ".2~%", "anchor": "y2"},
        "yaxis": {"autorange": "reversed", "automargin": True, "domain": [share + 0.08, 1.0]},
        "yaxis2": {"autorange": "reversed", "automargin": True, "domain": [0.0, share - 0.04]},
        "height": min(260 + 26 * len(found.names) * len(found.rows), 2400),
        "margin": {"t": 20, "r": 20},
    }
    return {"data": data, "layout": layout}


_Panel = tuple[list[GuaranteeRow], list[list[float | None]]]


def _panels(found: Guarantees) -> list[_Panel]:
    """Pairs with the chance of a right guess, and questions with errors as shares."""
    told = [row for row in found if row.kind == "odds"]
    asked = [row for row in found if row.shares]
    return [
        (told, [[None if e is None else guessed(e, e) for e in row.values] for row in told]),
        (asked, [list(row.shares) for row in asked]),
    ]
