"""Pictures of an error region: the false alarms and misses that the guarantee leaves possible."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.extras import need
from sfumato.plots import style
from sfumato.plots.style import ESTIMATE, FAINT, INK, TRUTH, Spec, safe
from sfumato.study.guarantee import ErrorRegion
from sfumato.text import escape

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_SHADE = "#e4e9ed"
_HIDDEN = "out of reach of any test"
_BEST = "best possible tests"
_COIN = "random guessing"
_EVEN = "with the smaller E in both directions"


def figure(region: ErrorRegion, *, title: str | None = None) -> Figure:
    """Draw false alarms across and misses up, with the rates that no test can reach shaded.

    Args:
        region: What `Guarantee.error_region` gave.
        title: The heading; left out, it names both records.

    Raises:
        MissingExtraError: If matplotlib is not installed.

    Example:
        >>> drawn = figure(ErrorRegion(there=1.0, back=2.0, names=("ill", "well")))
        >>> drawn.axes[0].get_xlabel()
        'false alarms: says ill when it is well'
    """
    module = need("matplotlib.figure")
    ticker = need("matplotlib.ticker")
    made: Figure = module.Figure(figsize=(6.4, 6.4), layout="constrained")
    axes = made.add_subplot()
    axes.fill([0, *_across(region)], [0, *_up(region)], color=_SHADE, label=_HIDDEN)
    axes.plot([0, 1], [1, 0], ls="--", lw=1.2, color=FAINT, label=_COIN)
    even = _evened(region)
    if even is not None:
        axes.plot(_across(even), _up(even), ls=":", lw=1.6, color=TRUTH, label=_EVEN)
    axes.plot(
        _across(region), _up(region), lw=2.2, color=ESTIMATE, label=_BEST, clip_on=False, zorder=5
    )
    axes.plot(*region.corner, "o", ms=7, color=ESTIMATE, clip_on=False, zorder=5)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    for axis, name in zip((axes.xaxis, axes.yaxis), _axes(region), strict=True):
        axis.set_label_text(safe(name), color=INK)
        axis.set_major_formatter(ticker.FuncFormatter(lambda v, _: style.share(v)))
    axes.tick_params(colors=FAINT, labelsize=9)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(loc="upper right", frameon=False, fontsize=9, labelcolor=INK)
    made.suptitle(
        safe(title or _heading(region)), x=0.01, ha="left", fontsize=12, color=INK, weight="bold"
    )
    axes.set_title(safe(str(region)), loc="left", fontsize=8.5, color=FAINT)
    return made


def save(region: ErrorRegion, path: str | Path, *, title: str | None = None) -> None:
    """Write a picture: .png, .svg or .pdf, or .html for an interactive page that works offline.

    Args:
        region: What `Guarantee.error_region` gave.
        path: The file, written completely or not at all.
        title: The heading; left out, it names both records.

    Raises:
        StudyError: If the suffix is another one.
        MissingExtraError: If matplotlib or plotly is not installed.
    """
    style.write(path, partial(figure, region, title=title), partial(_page, region, title=title))


def _page(region: ErrorRegion, *, title: str | None = None) -> str:
    """A page with the picture that works offline."""
    return style.page(title or _heading(region), str(region), describe(region))


def describe(region: ErrorRegion) -> Spec:
    """The picture as plotly's data and layout."""
    hover = "false alarms %{x:.1%}<br>misses %{y:.1%}<extra></extra>"
    line = {"type": "scatter", "mode": "lines"}
    data: list[Spec] = [
        {
            **line,
            "name": _HIDDEN,
            "x": [0.0, *_across(region), 0.0],
            "y": [0.0, *_up(region), 0.0],
            "fill": "toself",
            "fillcolor": _SHADE,
            "line": {"width": 0},
            "hoverinfo": "skip",
        },
        {**line, "name": _COIN, "x": [0, 1], "y": [1, 0], "line": {"color": FAINT, "dash": "dash"}},
    ]
    even = _evened(region)
    if even is not None:
        dots = {"color": TRUTH, "dash": "dot"}
        data.append({**line, "name": _EVEN, "x": _across(even), "y": _up(even), "line": dots})
    data.append(
        {
            **line,
            "mode": "lines+markers",
            "name": _BEST,
            "x": _across(region),
            "y": _up(region),
            "line": {"color": ESTIMATE, "width": 3},
            "hovertemplate": hover,
        }
    )
    across, up = (escape(name) for name in _axes(region))
    scale = {"range": [0, 1], "tickformat": ".0%", "constrain": "domain"}
    layout = {
        "xaxis": {"title": {"text": across}, **scale},
        "yaxis": {"title": {"text": up}, "scaleanchor": "x", **scale},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom"},
        "height": 640,
        "margin": {"t": 40, "r": 20},
    }
    return {"data": data, "layout": layout}


def _evened(region: ErrorRegion) -> ErrorRegion | None:
    """The region with the smaller E in both directions; None if both are equal."""
    least = min(region.there, region.back)
    if region.there == region.back:
        return None
    return ErrorRegion(there=least, back=least, names=region.names)


def _across(region: ErrorRegion) -> list[float]:
    """False alarms at the corners of the boundary."""
    return [alarms for alarms, _ in region.boundary]


def _up(region: ErrorRegion) -> list[float]:
    """Misses at the corners of the boundary."""
    return [misses for _, misses in region.boundary]


def _axes(region: ErrorRegion) -> tuple[str, str]:
    """Names of the two scales."""
    first, second = (style.shorten(name, 40) for name in region.names)
    return (
        f"false alarms: says {first} when it is {second}",
        f"misses: says {second} when it is {first}",
    )


def _heading(region: ErrorRegion) -> str:
    """The heading."""
    first, second = (style.shorten(name, 30) for name in region.names)
    return f"Telling {first} from {second} by one report"
