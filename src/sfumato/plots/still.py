"""Pictures of answers with matplotlib, and files of them; pyplot's global state is not touched."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.arrays import Floats
from sfumato.errors import QuestionError
from sfumato.estimation.answers import Answers
from sfumato.extras import need
from sfumato.plots import interactive, style
from sfumato.plots.style import ERROR, ESTIMATE, FAINT, INK, TRUTH, safe
from sfumato.text import interval_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


_MOST_ROWS_OF_BARS = 80


def figure(answers: Answers, *, truth: ArrayLike | None = None, title: str | None = None) -> Figure:
    """Draw a histogram, a CDF, a heat map or a list of answers, with their intervals.

    Args:
        answers: What an estimate gave; estimates below zero are drawn as they are.
        truth: The true numbers where they are known, shaped like `answers.values`.
        title: The heading; left out, it says what is shown.

    Raises:
        MissingExtraError: If matplotlib is not installed.
        QuestionError: If `truth` has another shape, or there is no picture for these answers.
        TooLargeError: If an axis has too many cells to be seen.

    Example:
        >>> import sfumato as sf
        >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
        >>> est = study.simulate({"age": list(range(100)) * 100}, seed=1).estimate()
        >>> drawn = figure(est.histogram("age", bins=10))
        >>> drawn.axes[0].get_xlabel(), drawn.axes[0].get_ylabel()
        ('age', 'people')
    """
    module = need("matplotlib.figure")
    style.refuse_many(answers)
    known = style.as_truth(answers, truth)
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


def save(
    answers: Answers,
    path: str | Path,
    *,
    truth: ArrayLike | None = None,
    title: str | None = None,
) -> None:
    """Write a picture: .png, .svg or .pdf, or .html for an interactive page that works offline.

    Args:
        answers: What an estimate gave.
        path: The file, written completely or not at all.
        truth: The true numbers where they are known, shaped like `answers.values`.
        title: The heading; left out, it says what is shown.

    Raises:
        StudyError: If the suffix is another one.
        MissingExtraError: If matplotlib or plotly is not installed.
    """
    style.write(
        path,
        partial(figure, answers, truth=truth, title=title),
        partial(interactive.page, answers, truth=truth, title=title),
    )


def draw(axes: Axes, answers: Answers, truth: Floats | None) -> None:
    """Draw one row of answers on given axes.

    Args:
        axes: Where to draw.
        answers: The answers, in one dimension.
        truth: The true numbers, if they are known.
    """
    style.plain_axes(axes, grid="x" if _by_label(answers) else "y")
    if _by_label(answers):
        _bars(axes, answers, truth)
        return
    if answers.kind in ("histogram", "cdf"):
        _steps(axes, answers, truth, fill=answers.kind == "histogram")
    else:
        _points(axes, answers, truth)
    _scale(axes.xaxis, answers.axes[0], answers.all_labels[0], answers.all_edges[0])
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
    stops: style.Stops,
    most: int = 9,
) -> Any:
    """Draw one heat map on given axes, the answers' first axis across.

    Args:
        axes: Where to draw.
        answers: Gives the names and edges of the cells.
        values: What the colours show, one number per cell.
        limits: The numbers at both ends of the colour scale.
        stops: The colours of the scale.
        most: About how many numbers stand along an axis.

    Returns:
        The mesh that a colour bar explains.
    """
    colors = need("matplotlib.colors")
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
    if _by_label(answers):
        return (8.0, 1.9 + 0.3 * min(len(answers), _MOST_ROWS_OF_BARS))
    return (8.0, 4.5)


def _by_label(answers: Answers) -> bool:
    """Whether answers are for labels without an order, which are drawn as bars."""
    return answers.kind == "histogram" and answers.all_edges[0] is None


def _caption(made: Figure, answers: Answers, title: str | None) -> None:
    """Write the heading, and in small letters where the numbers come from."""
    across = int(11.5 * made.get_figwidth())
    small = textwrap.fill(style.origin(answers), across)
    large = textwrap.fill(title or style.heading(answers), int(across * 0.6))
    made.suptitle(safe(large), x=0.01, ha="left", fontsize=13, color=INK, weight="bold")
    if answers.kind == "heatmap":  # each panel has a name of its own above it
        made.supxlabel(safe(small), x=0.01, ha="left", fontsize=9, color=FAINT)
    else:
        made.axes[0].set_title(safe(small), loc="left", fontsize=9, color=FAINT)


def _steps(axes: Axes, answers: Answers, truth: Floats | None, *, fill: bool) -> None:
    """Cells side by side, as high as their values, with whiskers or a band."""
    places = _places(answers.all_edges[0], len(answers))
    values = answers.values
    if fill:
        axes.stairs(values, places, fill=True, color=ESTIMATE, alpha=0.28)
    axes.stairs(values, places, baseline=None, color=ESTIMATE, lw=1.4, label="estimate")
    name = interval_name(answers.level)
    if fill and len(answers) <= style.MOST_WHISKERS:
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
    """One bar per label, the first on top."""
    places = np.arange(len(answers))
    axes.barh(places, answers.values, height=0.72, color=ESTIMATE, alpha=0.45, label="estimate")
    middle, reach = _middle(answers)
    axes.errorbar(
        middle,
        places,
        xerr=reach,
        fmt="none",
        ecolor=ESTIMATE,
        elinewidth=1.4,
        capsize=3,
        label=interval_name(answers.level),
    )
    if truth is not None:
        axes.plot(truth, places, "d", color=TRUTH, ms=6, label="truth", zorder=4)
    step = style.each(len(places), _MOST_ROWS_OF_BARS)
    names = [safe(style.shorten(label)) for label in answers.all_labels[0]]
    axes.set_yticks(places[::step], names[::step])
    axes.set_ylim(len(places) - 0.5, -0.5)
    axes.axvline(0, color=FAINT, lw=0.8)
    axes.set_ylabel(safe(answers.axes[0]), color=INK)
    _amounts(axes.xaxis, answers)
    if not answers.n:
        axes.set_xlim(0, 1)
        _say_empty(axes)


def _points(axes: Axes, answers: Answers, truth: Floats | None) -> None:
    """One point per question."""
    places = np.arange(len(answers), dtype=np.float64)
    _whiskers(axes, places, answers, fmt="none")
    axes.plot(places, answers.values, "o", color=ESTIMATE, ms=5, label="estimate")
    if truth is not None:
        axes.plot(places, truth, "d", color=TRUTH, ms=5, label="truth", zorder=4)
    axes.set_xlim(-0.6, len(places) - 0.4)


def _whiskers(axes: Axes, places: Floats, answers: Answers, *, fmt: str) -> None:
    """Intervals as vertical lines."""
    middle, reach = _middle(answers)
    axes.errorbar(
        places,
        middle,
        yerr=reach,
        fmt=fmt,
        ecolor=ESTIMATE,
        elinewidth=1.4,
        capsize=2.5,
        label=interval_name(answers.level),
    )


def _middle(answers: Answers) -> tuple[Floats, Floats]:
    """Middles of the intervals and half their widths: a value may lie outside its interval."""
    return (answers.low + answers.high) / 2, (answers.high - answers.low) / 2


def _heat_panels(made: Figure, answers: Answers, truth: Floats | None) -> None:
    """Draw the estimate, the truth on the same scale and, smaller, the standard error."""
    shown = [("estimate", answers.values)] + ([("truth", truth)] if truth is not None else [])
    grid = made.subplots(1, len(shown) + 1, width_ratios=[1] * len(shown) + [0.62], squeeze=False)
    limits = style.reach(*(values for _, values in shown))
    panels = grid[0]
    for axes, (name, values) in zip(panels, shown, strict=False):
        mesh = heat(axes, answers, values, limits=limits, stops=style.colours(*limits))
        axes.set_title(name, fontsize=10, color=INK)
    colour_bar(made, mesh, panels[: len(shown)], answers)
    top = style.reach(answers.stderr)[1]
    mesh = heat(panels[-1], answers, answers.stderr, limits=(0.0, top), stops=list(ERROR), most=5)
    panels[-1].set_title("standard error", fontsize=10, color=INK)
    colour_bar(made, mesh, panels[-1], answers)
    for axes in panels[1:]:
        axes.set_ylabel("")
        axes.tick_params(labelleft=False)
    if not answers.n:
        _say_empty(panels[0])


def colour_bar(made: Figure, mesh: Any, beside: Any, answers: Answers) -> None:
    """Draw the colour bar of a mesh.

    Args:
        made: The figure.
        mesh: What `heat` gave.
        beside: The panel or panels that share it.
        answers: What the colours count.
    """
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
    if style.is_date(edges):
        edges = need("matplotlib.dates").date2num(edges)
    return np.asarray(edges, dtype=np.float64)


def _scale(
    axis: Axis, name: str, labels: list[str], edges: NDArray[Any] | None, most: int = 9
) -> None:
    """Label an axis with the user's name and values, at about `most` places."""
    axis.set_label_text(safe(name), color=INK)
    dates, ticker = need("matplotlib.dates"), need("matplotlib.ticker")
    if edges is None:
        _label_cells(axis, labels, 2 * most)
    elif style.is_clock(edges):
        at, names = style.clock_ticks(edges, most)
        axis.set_ticks(dates.date2num(at), names)
    elif style.is_date(edges):
        locator = dates.AutoDateLocator(minticks=3, maxticks=most)
        axis.set_major_locator(locator)
        axis.set_major_formatter(dates.ConciseDateFormatter(locator))
    else:
        axis.set_major_locator(
            ticker.MaxNLocator(most, steps=[1, 2, 5, 10], integer=style.is_whole(edges))
        )
        separate = style.wide_numbers(edges)
        axis.set_major_formatter(
            ticker.FuncFormatter(lambda v, _: style.number(v, separate=separate))
        )


def _label_cells(axis: Axis, labels: list[str], most: int) -> None:
    """As many labels as fit, slanted where they are long."""
    across = axis is axis.axes.xaxis
    step = style.each(len(labels), most if across else 24)
    names = [safe(style.shorten(label, 22)) for label in labels][::step]
    axis.set_ticks(range(0, len(labels), step), names)
    if across and sum(map(len, names)) > 50:
        for text in axis.get_ticklabels():
            text.set(rotation=40, ha="right", rotation_mode="anchor")


def _amounts(axis: Axis, answers: Answers) -> None:
    """Label an axis with people or shares."""
    ticker = need("matplotlib.ticker")
    write: Callable[[float], str] = style.share if answers.unit == "fraction" else style.number
    axis.set_major_formatter(ticker.FuncFormatter(lambda v, _: write(v)))
    axis.set_label_text(style.amount(answers), color=INK)


def _png(made: Figure) -> bytes:
    """The figure as a notebook shows it."""
    held = io.BytesIO()
    made.savefig(held, format="png", dpi=110)
    return held.getvalue()
