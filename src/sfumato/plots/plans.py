"""Pictures of a plan: one bar per question, as long as its standard error."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.extras import need
from sfumato.planning.expected_error import Plan, PlanRow
from sfumato.plots import style
from sfumato.plots.style import ESTIMATE, FAINT, INK, TRUTH, Spec, safe
from sfumato.text import escape

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figure(plan: Plan, *, title: str | None = None) -> Figure:
    """Draw standard errors as shares of all people, the first question on top, means left out.

    Args:
        plan: What `Study.expected_error` gave.
        title: The heading; left out, it names the study.

    Raises:
        MissingExtraError: If matplotlib is not installed.

    Example:
        >>> import sfumato as sf
        >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
        >>> figure(study.expected_error(100_000)).axes[0].get_xlabel()
        'standard error, share of people'
    """
    module = need("matplotlib.figure")
    ticker = need("matplotlib.ticker")
    rows = _shown(plan)
    made: Figure = module.Figure(figsize=(8.0, 1.7 + 0.32 * len(rows)), layout="constrained")
    axes = made.add_subplot()
    places = list(range(len(rows)))
    axes.barh(places, [row.share or 0.0 for row in rows], color=ESTIMATE, alpha=0.55, height=0.62)
    told = [(row.reported / plan.n, at) for at, row in enumerate(rows) if row.reported is not None]
    if told:
        axes.plot(*zip(*told, strict=True), "d", color=TRUTH, ms=5, label="as reported")
        axes.legend(frameon=False, fontsize=9, labelcolor=INK)
    axes.set_yticks(places, [safe(style.shorten(row.question, 44)) for row in rows])
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda v, _: style.share(v)))
    axes.set_xlabel("standard error, share of people", color=INK)
    style.plain_axes(axes, grid="x")
    made.suptitle(
        safe(title or _heading(plan)), x=0.01, ha="left", fontsize=13, color=INK, weight="bold"
    )
    axes.set_title(safe(plan.caption()), loc="left", fontsize=9, color=FAINT)
    return made


def save(plan: Plan, path: str | Path, *, title: str | None = None) -> None:
    """Write a picture: .png, .svg or .pdf, or .html for an interactive page that works offline.

    Args:
        plan: What `Study.expected_error` gave.
        path: The file, written completely or not at all.
        title: The heading; left out, it names the study.

    Raises:
        StudyError: If the suffix is another one.
        MissingExtraError: If matplotlib or plotly is not installed.
    """
    style.write(path, partial(figure, plan, title=title), partial(_page, plan, title=title))


def _page(plan: Plan, *, title: str | None = None) -> str:
    """A page with the picture that works offline."""
    return style.page(title or _heading(plan), plan.caption(), describe(plan))


def describe(plan: Plan) -> Spec:
    """The picture as plotly's data and layout."""
    rows = _shown(plan)
    names = [escape(row.question) for row in rows]
    data: list[Spec] = [
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
                "y": [escape(row.question) for row in told],
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
    """The heading."""
    return f"Expected errors of study {plan.study!r}"
