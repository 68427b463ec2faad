"""Still pictures with matplotlib, drawn on figures of their own."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.arrays import Floats
from sfumato.errors import QuestionError
from sfumato.estimation.answers import Answers
from sfumato.plots import wording
from sfumato.plots.wording import ERROR, ESTIMATE, FAINT, INK, TRUTH

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


_MOST_ROWS_OF_BARS = 80


def figure(answers: Answers, *, truth: ArrayLike | None, title: str | None) -> Figure:
    """A figure of any kind of answers."""
    module = wording.need("matplotlib.figure")
    known = wording.as_truth(answers, truth)
    made: Figure = module.Figure(figsize=_size(answers, known), layout="constrained")
    if answers.kind == "heatmap":
        _heat_panels(made, answers, known)
    elif answers.values.ndim == 1:
        axes = made.add_subplot()
        draw(axes, answers, known)
        if answers.n:
            made.legend(
                loc="outside lower left", ncols=3, frameon=False, fontsize=9, labelcolor=INK
            )
    else:
        raise QuestionError(
            f"there is no picture for answers of kind {answers.kind!r} and shape "
            f"{answers.values.shape}; use to_pandas() or to_arrow()"
        )
    _caption(made, answers, title)
    made._repr_png_ = partial(_png, made)  # type: ignore[attr-defined]
    return made


def draw(axes: Axes, answers: Answers, truth: Floats | None) -> None:
    """One row of answers on given axes."""
    _plain(axes)
    edges = answers.all_edges[0]
    if answers.kind == "histogram" and edges is None:
        _bars(axes, answers, truth)
        return
    if answers.kind in ("histogram", "cdf"):
        _steps(axes, answers, truth, fill=answers.kind == "histogram")
    else:
        _points(axes, answers, truth)
    _scale(axes.xaxis, answers.axes[0], answers.all_labels[0], edges)
    _amounts(axes.yaxis, answers)
    if not answers.n:
        axes.set_ylim(0, 1)
        _say_empty(axes)


def heat(
    axes: Axes,
    answers: Answers,
    values: Floats,
    *,
    limits: tuple[float, float],
    stops: wording.Stops,
    most: int = 9,
) -> Any:
    """One heat map on given axes with its colour bar's source; the first axis goes across."""
    colors = wording.need("matplotlib.colors")
    cells = [_places(edges, n) for edges, n in zip(answers.all_edges, values.shape, strict=True)]
    mesh = axes.pcolormesh(
        cells[0],
        cells[1],
        np.ma.masked_invalid(values.T),
        cmap=colors.LinearSegmentedColormap.from_list("sfumato", stops),
        vmin=limits[0],
        vmax=limits[1],
        rasterized=True,
    )
    for axis, name, labels, edges in zip(
        (axes.xaxis, axes.yaxis), answers.axes, answers.all_labels, answers.all_edges, strict=True
    ):
        _scale(axis, name, labels, edges, most)
    axes.tick_params(colors=FAINT, labelsize=9)
    for spine in axes.spines.values():
        spine.set_color("#d5dbe0")
    return mesh


def _size(answers: Answers, truth: Floats | None) -> tuple[float, float]:
    """Inches across and down."""
    if answers.kind == "heatmap":
        return (12.5 if truth is not None else 9.5, 4.8)
    if answers.kind == "histogram" and answers.all_edges[0] is None:
        return (8.0, 1.9 + 0.3 * min(len(answers), _MOST_ROWS_OF_BARS))
    return (8.0, 4.5)


def _caption(made: Figure, answers: Answers, title: str | None) -> None:
    """What is shown, and below it in small letters where it comes from."""
    across = int(11.5 * made.get_figwidth())
    small = textwrap.fill(wording.origin(answers), across)
    large = textwrap.fill(title or wording.heading(answers), int(across * 0.6))
    made.suptitle(_safe(large), x=0.01, ha="left", fontsize=13, color=INK, weight="bold")
    if answers.kind == "heatmap":  # each panel has a name of its own above it
        made.supxlabel(_safe(small), x=0.01, ha="left", fontsize=9, color=FAINT)
    else:
        made.axes[0].set_title(_safe(small), loc="left", fontsize=9, color=FAINT)


def _steps(axes: Axes, answers: Answers, truth: Floats | None, *, fill: bool) -> None:
    """Cells side by side, as high as their values, with whiskers or a band."""
    places = _places(answers.all_edges[0], len(answers))
    values = answers.values
    if fill:
        axes.stairs(values, places, fill=True, color=ESTIMATE, alpha=0.28)
    axes.stairs(values, places, baseline=None, color=ESTIMATE, lw=1.4, label="estimate")
    name = wording.interval_name(answers)
    if fill and len(answers) <= wording.MOST_WHISKERS:
        centres = (places[:-1] + places[1:]) / 2
        _whiskers(axes, centres, answers, fmt="none")
    else:
        axes.stairs(
            answers.high,
            places,
            baseline=answers.low,
            fill=True,
            color=ESTIMATE,
            alpha=0.25,
            label=name,
        )
    if truth is not None:
        axes.stairs(
            truth,
            places,
            baseline=None,
            color=TRUTH,
            lw=1.6,
            ls="-" if fill else ":",
            label="truth",
        )
    axes.axhline(0, color=FAINT, lw=0.8)
    axes.set_xlim(places[0], places[-1])


def _bars(axes: Axes, answers: Answers, truth: Floats | None) -> None:
    """One bar a label, the first on top."""
    places = np.arange(len(answers))
    axes.barh(places, answers.values, height=0.72, color=ESTIMATE, alpha=0.45, label="estimate")
    reach = _half(answers)
    axes.errorbar(
        answers.values,
        places,
        xerr=reach,
        fmt="none",
        ecolor=ESTIMATE,
        elinewidth=1.4,
        capsize=3,
        label=wording.interval_name(answers),
    )
    if truth is not None:
        axes.plot(truth, places, "d", color=TRUTH, ms=6, label="truth", zorder=4)
    step = wording.each(len(places), _MOST_ROWS_OF_BARS)
    names = [_safe(wording.shorten(label)) for label in answers.all_labels[0]]
    axes.set_yticks(places[::step], names[::step])
    axes.set_ylim(len(places) - 0.5, -0.5)
    axes.axvline(0, color=FAINT, lw=0.8)
    axes.set_ylabel(_safe(answers.axes[0]), color=INK)
    _amounts(axes.xaxis, answers)
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x", color="#e8ecef", lw=0.8)
    if not answers.n:
        axes.set_xlim(0, 1)
        _say_empty(axes)


def _points(axes: Axes, answers: Answers, truth: Floats | None) -> None:
    """One point a question."""
    places = np.arange(len(answers), dtype=np.float64)
    _whiskers(axes, places, answers, fmt="none")
    axes.plot(places, answers.values, "o", color=ESTIMATE, ms=5, label="estimate")
    if truth is not None:
        axes.plot(places, truth, "d", color=TRUTH, ms=5, label="truth", zorder=4)
    axes.set_xlim(-0.6, len(places) - 0.4)


def _whiskers(axes: Axes, places: Floats, answers: Answers, *, fmt: str) -> None:
    """Intervals as vertical lines."""
    axes.errorbar(
        places,
        answers.values,
        yerr=_half(answers),
        fmt=fmt,
        ecolor=ESTIMATE,
        elinewidth=1.4,
        capsize=2.5,
        label=wording.interval_name(answers),
    )


def _half(answers: Answers) -> Floats:
    """From value to low, and from value to high; two rows."""
    return np.stack([answers.values - answers.low, answers.high - answers.values])


def _heat_panels(made: Figure, answers: Answers, truth: Floats | None) -> None:
    """The estimate, the truth on the same scale, and smaller the standard error."""
    shown = [("estimate", answers.values)] + ([("truth", truth)] if truth is not None else [])
    grid = made.subplots(1, len(shown) + 1, width_ratios=[1] * len(shown) + [0.62], squeeze=False)
    limits = wording.reach(*(values for _, values in shown))
    panels = grid[0]
    for axes, (name, values) in zip(panels, shown, strict=False):
        mesh = heat(axes, answers, values, limits=limits, stops=wording.colours(*limits))
        axes.set_title(name, fontsize=10, color=INK)
    colour_bar(made, mesh, panels[: len(shown)], answers)
    top = wording.reach(answers.stderr)[1]
    mesh = heat(panels[-1], answers, answers.stderr, limits=(0.0, top), stops=list(ERROR), most=5)
    panels[-1].set_title("standard error", fontsize=10, color=INK)
    colour_bar(made, mesh, panels[-1], answers)
    for axes in panels[1:]:
        axes.set_ylabel("")
        axes.tick_params(labelleft=False)
    if not answers.n:
        _say_empty(panels[0])


def colour_bar(made: Figure, mesh: Any, beside: Any, answers: Answers) -> None:
    """What the colours mean."""
    bar = made.colorbar(mesh, ax=beside, pad=0.015, aspect=30)
    bar.outline.set_visible(False)
    _amounts(bar.ax.yaxis, answers)
    bar.ax.tick_params(colors=FAINT, labelsize=9)


def _say_empty(axes: Axes) -> None:
    """Say why a picture is empty."""
    axes.text(0.5, 0.5, "no reports", transform=axes.transAxes, ha="center", color=FAINT)


def _places(edges: NDArray[Any] | None, count: int) -> Floats:
    """Where cells begin and end on the page; cells without edges stand in a row."""
    if edges is None:
        return np.arange(count + 1, dtype=np.float64) - 0.5
    if wording.is_date(edges):
        edges = wording.need("matplotlib.dates").date2num(edges)
    return np.asarray(edges, dtype=np.float64)


def _scale(
    axis: Axis, name: str, labels: list[str], edges: NDArray[Any] | None, most: int = 9
) -> None:
    """The user's name and values along an axis, at about `most` places."""
    axis.set_label_text(_safe(name), color=INK)
    dates, ticker = wording.need("matplotlib.dates"), wording.need("matplotlib.ticker")
    if edges is None:
        _label_cells(axis, labels, 2 * most)
    elif wording.is_clock(edges):
        at, names = wording.clock_ticks(edges, most)
        axis.set_ticks(dates.date2num(at), names)
    elif wording.is_date(edges):
        locator = dates.AutoDateLocator(minticks=3, maxticks=most)
        axis.set_major_locator(locator)
        axis.set_major_formatter(dates.ConciseDateFormatter(locator))
    else:
        axis.set_major_locator(
            ticker.MaxNLocator(most, steps=[1, 2, 5, 10], integer=wording.is_whole(edges))
        )
        separate = wording.wide_numbers(edges)
        axis.set_major_formatter(
            ticker.FuncFormatter(lambda v, _: wording.number(v, separate=separate))
        )


def _label_cells(axis: Axis, labels: list[str], most: int) -> None:
    """As many labels as fit, slanted where they are long."""
    across = axis is axis.axes.xaxis
    step = wording.each(len(labels), most if across else 24)
    names = [_safe(wording.shorten(label, 22)) for label in labels][::step]
    axis.set_ticks(range(0, len(labels), step), names)
    if across and sum(map(len, names)) > 50:
        for text in axis.get_ticklabels():
            text.set(rotation=40, ha="right", rotation_mode="anchor")


def _amounts(axis: Axis, answers: Answers) -> None:
    """People or shares along an axis."""
    ticker = wording.need("matplotlib.ticker")
    write: Callable[[float], str] = wording.share if answers.unit == "fraction" else wording.number
    axis.set_major_formatter(ticker.FuncFormatter(lambda v, _: write(v)))
    axis.set_label_text(wording.amount(answers), color=INK)


def _plain(axes: Axes) -> None:
    """Two spines, faint lines across."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#b9c2c9")
    axes.tick_params(colors=FAINT, labelsize=9)
    axes.grid(visible=True, axis="y", color="#e8ecef", lw=0.8)
    axes.set_axisbelow(True)


def _safe(text: str) -> str:
    """Text with dollar signs that stay dollar signs."""
    return text.replace("$", r"\$")


def _png(made: Figure) -> bytes:
    """What a notebook shows."""
    held = io.BytesIO()
    made.savefig(held, format="png", dpi=110)
    return held.getvalue()
