"""Interactive pictures of answers, described as plotly's data and layout."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.arrays import Floats
from sfumato.errors import QuestionError, TooLargeError
from sfumato.estimation.answers import Answers
from sfumato.plots import style
from sfumato.plots.style import ERROR, ESTIMATE, FONT, INK, TRUTH, Spec
from sfumato.text import escape, format_to, interval_name

MOST_CELLS = 250_000
_BAND = "rgba(47, 111, 159, 0.25)"
_LINE = "#e8ecef"


def page(answers: Answers, *, truth: ArrayLike | None = None, title: str | None = None) -> str:
    """A page with one picture that works offline.

    Args:
        answers: What an estimate gave.
        truth: The true numbers where they are known, shaped like `answers.values`.
        title: The heading; left out, it says what is shown.
    """
    caption = style.origin(answers)
    return style.page(title or style.heading(answers), caption, describe(answers, truth=truth))


def describe(answers: Answers, *, truth: ArrayLike | None = None) -> Spec:
    """A picture as plotly's data and layout.

    Args:
        answers: What an estimate gave.
        truth: The true numbers where they are known, shaped like `answers.values`.

    Raises:
        QuestionError: If `truth` has another shape, or there is no picture for these answers.
        TooLargeError: If there are too many cells for a browser.
    """
    style.refuse_many(answers)
    known = style.as_truth(answers, truth)
    if answers.values.size > MOST_CELLS:
        raise TooLargeError(
            f"an interactive picture of {answers.values.size:,} cells would be too slow; the limit "
            f"is {MOST_CELLS:,}. Ask for fewer with bins=..., or write a .png"
        )
    if answers.kind == "heatmap":
        return _heat(answers, known)
    if answers.values.ndim != 1:
        raise QuestionError(
            f"there is no picture for answers of kind {answers.kind!r} and shape "
            f"{answers.values.shape}; use to_pandas() or to_arrow()"
        )
    if answers.kind == "histogram":
        across = answers.all_edges[0] is not None
        return _histogram(answers, known) if across else _bars(answers, known)
    return _cumulative(answers, known) if answers.kind == "cdf" else _points(answers, known)


def heat_panel(
    answers: Answers, values: Floats, *, limits: tuple[float, float], hover: list[list[str]]
) -> Spec:
    """One heat map of given values.

    Args:
        answers: Gives the names and edges of the cells.
        values: What the colours show, one number per cell.
        limits: The numbers at both ends of the colour scale.
        hover: What appears under the pointer, as `pair_hovers` gives it.
    """
    trace = {
        "type": "heatmap",
        "x": _edges(answers.all_edges[0], values.shape[0]),
        "y": _edges(answers.all_edges[1], values.shape[1]),
        "z": _plain(values.T),
        "zmin": limits[0],
        "zmax": limits[1],
        "colorscale": [list(stop) for stop in style.colours(*limits)],
        "colorbar": {"thickness": 12, "title": {"text": ""}, **_amounts(answers, title=False)},
        "hovertext": hover,
        "hoverinfo": "text",
    }
    layout = _layout()
    for key, name, labels, edges in zip(
        ("xaxis", "yaxis"), answers.axes, answers.all_labels, answers.all_edges, strict=True
    ):
        layout[key] = _scale(name, labels, edges)
    return {"data": [trace], "layout": layout}


def _heat(answers: Answers, truth: Floats | None) -> Spec:
    """A heat map with buttons for the estimate, its standard error and the truth."""
    limits = style.reach(answers.values, truth)
    described = heat_panel(answers, answers.values, limits=limits, hover=pair_hovers(answers))
    scale = described["data"][0]["colorscale"]
    views: list[tuple[str, Floats, tuple[float, float], Any]] = [
        ("estimate", answers.values, limits, scale)
    ]
    if truth is not None:
        views.append(("truth", truth, limits, scale))
    top = style.reach(answers.stderr)[1]
    views.append(("standard error", answers.stderr, (0.0, top), [list(stop) for stop in ERROR]))
    buttons = [
        {
            "label": name,
            "method": "restyle",
            "args": [
                {"z": [_plain(z.T)], "zmin": ends[0], "zmax": ends[1], "colorscale": [colours]}
            ],
        }
        for name, z, ends, colours in views
    ]
    described["layout"]["updatemenus"] = [
        {
            "type": "buttons",
            "direction": "right",
            "x": 0,
            "xanchor": "left",
            "y": 1.02,
            "yanchor": "bottom",
            "showactive": True,
            "buttons": buttons,
        }
    ]
    described["layout"]["margin"]["t"] = 50
    return described


def _histogram(answers: Answers, truth: Floats | None) -> Spec:
    """Bars over the cells, with whiskers or, where there are many, a band."""
    edges = answers.all_edges[0]
    assert edges is not None  # noqa: S101
    if style.is_date(edges):
        exact = edges.astype("datetime64[ms]")
        width = np.diff(exact).astype(np.int64)
        centres: Any = _edges(exact[:-1] + width.astype("timedelta64[ms]") // 2, 0)
    else:
        width = np.diff(edges)
        centres = (edges[:-1] + width / 2).tolist()
    bars = {
        "type": "bar",
        "name": "estimate",
        "x": centres,
        "y": _plain(answers.values),
        "width": width.tolist(),
        "marker": {"color": ESTIMATE, "opacity": 0.45},
        **_hovers(answers),
    }
    data = [bars]
    if len(answers) <= style.MOST_WHISKERS:
        bars["error_y"] = _whiskers(answers)
    else:
        data += _band(answers)
    if truth is not None:
        data.append(_step_line(answers, truth, "truth", TRUTH))
    layout = _layout() | {"bargap": 0}
    return _with_scales({"data": data, "layout": layout}, answers)


def _cumulative(answers: Answers, truth: Floats | None) -> Spec:
    """A step line with a band."""
    line = _step_line(answers, answers.values, "estimate", ESTIMATE)
    held = _hovers(answers)
    line |= {"hovertext": [*held["hovertext"], held["hovertext"][-1]], "hoverinfo": "text"}
    data = [*_band(answers), line]
    if truth is not None:
        known = _step_line(answers, truth, "truth", TRUTH)
        known["line"]["dash"] = "dot"  # both lines are seen where they lie on each other
        data.append(known)
    return _with_scales({"data": data, "layout": _layout()}, answers)


def _points(answers: Answers, truth: Floats | None) -> Spec:
    """Points with whiskers."""
    places = list(range(len(answers)))
    base = {"type": "scatter", "mode": "markers", "x": places}
    data = [
        base
        | {
            "name": "estimate",
            "y": _plain(answers.values),
            "marker": {"color": ESTIMATE, "size": 8},
            "error_y": _whiskers(answers),
        }
        | _hovers(answers)
    ]
    if truth is not None:
        marker = {"color": TRUTH, "size": 8, "symbol": "diamond"}
        data.append(base | {"name": "truth", "y": _plain(truth), "marker": marker})
    return _with_scales({"data": data, "layout": _layout()}, answers)


def _bars(answers: Answers, truth: Floats | None) -> Spec:
    """One bar per label, the first on top."""
    places = list(range(len(answers)))
    data: list[Spec] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": "estimate",
            "x": _plain(answers.values),
            "y": places,
            "marker": {"color": ESTIMATE, "opacity": 0.45},
            "error_x": _whiskers(answers),
            **_hovers(answers),
        }
    ]
    if truth is not None:
        marker = {"color": TRUTH, "size": 9, "symbol": "diamond"}
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": "truth",
                "x": _plain(truth),
                "y": places,
                "marker": marker,
            }
        )
    layout = _layout()
    layout["xaxis"] = _amounts(answers)
    layout["yaxis"] = _scale(answers.axes[0], answers.all_labels[0], None, most=60)
    layout["yaxis"]["autorange"] = "reversed"
    layout["height"] = min(140 + 26 * len(answers), 2400)
    return {"data": data, "layout": layout}


def _step_line(answers: Answers, values: Floats, name: str, colour: str) -> Spec:
    """A line that is level over every cell."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": _edges(answers.all_edges[0], len(answers)),
        "y": _plain(np.append(values, values[-1])),
        "line": {"color": colour, "width": 2, "shape": "hv"},
    }


def _band(answers: Answers) -> list[Spec]:
    """The intervals as a filled band between two lines that are not drawn."""
    low = _step_line(answers, answers.low, "low", ESTIMATE)
    high = _step_line(answers, answers.high, interval_name(answers.level), ESTIMATE)
    for line in (low, high):
        line["line"]["width"] = 0
        line["hoverinfo"] = "skip"
    return [low | {"showlegend": False}, high | {"fill": "tonexty", "fillcolor": _BAND}]


def _whiskers(answers: Answers) -> Spec:
    """The intervals as error bars."""
    return {
        "type": "data",
        "symmetric": False,
        "array": _plain(answers.high - answers.values),
        "arrayminus": _plain(answers.values - answers.low),
        "color": ESTIMATE,
        "thickness": 1.5,
        "width": 3,
    }


def _hovers(answers: Answers) -> Spec:
    """The text under the pointer, one per cell."""
    texts = [
        _words(answers, f"{answers.axes[0]} {label}", place)
        for place, label in enumerate(answers.all_labels[0])
    ]
    return {"hovertext": texts, "hoverinfo": "text"}


def pair_hovers(answers: Answers) -> list[list[str]]:
    """The text under the pointer on a heat map, row by row of the picture."""
    (first, second), (across, up) = answers.axes, answers.all_labels
    return [
        [_words(answers, f"{first} {a}, {second} {b}", (i, j)) for i, a in enumerate(across)]
        for j, b in enumerate(up)
    ]


def _words(answers: Answers, where: str, place: Any) -> str:
    """One answer in words."""
    value, error = float(answers.values[place]), float(answers.stderr[place])
    if not math.isfinite(value):
        return f"{escape(where)}<br>no reports"
    low, high = float(answers.low[place]), float(answers.high[place])
    name = style.amount(answers)
    return (
        f"{escape(where)}<br><b>{format_to(value, error)} ± {format_to(error, error)}</b> "
        f"{escape(name)}<br>{interval_name(answers.level)}: "
        f"{format_to(low, error)} to {format_to(high, error)}"
    )


def _layout() -> Spec:
    """The part of the layout that all pictures share."""
    return {
        "font": {"family": FONT, "size": 13, "color": INK},
        "margin": {"l": 60, "r": 10, "t": 20, "b": 50},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "legend": {
            "orientation": "h",
            "traceorder": "normal",
            "x": 0,
            "y": 1.02,
            "yanchor": "bottom",
        },
        "hoverlabel": {"align": "left"},
        "dragmode": False,
    }


def _with_scales(described: Spec, answers: Answers) -> Spec:
    """Add scales: cells across, amounts up."""
    layout = described["layout"]
    layout["xaxis"] = _scale(answers.axes[0], answers.all_labels[0], answers.all_edges[0])
    layout["yaxis"] = _amounts(answers)
    if answers.kind == "linear":
        layout["xaxis"]["range"] = [-0.6, len(answers) - 0.4]
    return described


def _scale(name: str, labels: list[str], edges: NDArray[Any] | None, *, most: int = 24) -> Spec:
    """A scale with the user's name and values."""
    axis: Spec = {
        "title": {"text": escape(name), "standoff": 8},
        "automargin": True,
        "gridcolor": _LINE,
        "zeroline": False,
    }
    if edges is None:
        step = style.each(len(labels), most)
        axis["tickvals"] = list(range(0, len(labels), step))
        axis["ticktext"] = [escape(style.shorten(label)) for label in labels[::step]]
        return axis
    if style.is_date(edges):
        axis["type"] = "date"
        if style.is_clock(edges):
            at, names = style.clock_ticks(edges, 8)
            axis |= {"tickvals": _edges(at, 0), "ticktext": names}
        return axis
    axis["tickformat"] = ",~r" if style.wide_numbers(edges) else "~r"
    return axis


def _amounts(answers: Answers, *, title: bool = True) -> Spec:
    """A scale of people or shares."""
    axis: Spec = {"tickformat": ".0~%" if answers.unit == "fraction" else ",~r"}
    if not title:
        return axis
    return axis | {
        "title": {"text": escape(style.amount(answers)), "standoff": 8},
        "automargin": True,
        "gridcolor": _LINE,
        "zerolinecolor": "#b9c2c9",
        "rangemode": "tozero",
    }


def _edges(edges: NDArray[Any] | None, count: int) -> list[Any]:
    """Edges as JSON holds them; cells without edges stand in a row."""
    if edges is None:
        return [place - 0.5 for place in range(count + 1)]
    if style.is_date(edges):
        return [str(edge) for edge in edges.astype("datetime64[ms]")]
    return [float(edge) for edge in edges]


def _plain(values: Floats) -> Any:
    """Numbers as JSON holds them; a missing one is null."""
    held = values.astype(object)
    held[~np.isfinite(values)] = None
    return held.tolist()
