"""The style of all pictures: wording, numbers, colours, pages, and how files are written.

matplotlib and plotly come with the extra `analyst` and are loaded only when a picture is drawn.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.arrays import Floats
from sfumato.errors import QuestionError, StudyError, TooLargeError
from sfumato.estimation.answers import Answers
from sfumato.extras import need
from sfumato.files import write_whole
from sfumato.text import escape, interval_name, visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure


STILL = (".png", ".svg", ".pdf")
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"

INK, FAINT = "#22303c", "#6b7a86"
ESTIMATE, TRUTH = "#2f6f9f", "#c8553d"
#: From the most negative to the most positive; white is nobody.
COLD = ((0.0, "#ffffff"), (0.25, "#c6dcea"), (0.6, "#5d9bc4"), (1.0, "#14405f"))
WARM = ((0.25, "#f4cdbd"), (0.6, "#dd8261"), (1.0, "#8f2d14"))
ERROR = ((0.0, "#f7f7f5"), (1.0, "#6f6a86"))

MOST_CELLS = 1 << 14  # of one axis in a picture, which has fewer dots across
MOST_WHISKERS = 60
_WHOLE_NAMES = {"people": "people", "fraction": "share of people"}

Stops = list[tuple[float, str]]
#: A picture as plotly's data and layout.
Spec = dict[str, Any]

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
  body {{ margin: 0; padding: 1rem; font: 16px/1.5 {font}; color: {ink}; background: #fff; }}
  h1 {{ font-size: 1.2rem; margin: 0; }}
  p {{ margin: .2rem 0 1rem; color: {faint}; font-size: .9rem; }}
  #picture {{ height: calc(100vh - 8rem); min-height: {height}px; }}
</style>
<script>{library}</script>
</head>
<body>
<h1>{title}</h1>
<p>{caption}</p>
{piece}
</body>
</html>
"""


def write(path: str | Path, figure: Callable[[], Figure], page: Callable[[], str]) -> None:
    """Write a picture in the format that the suffix names, completely or not at all.

    Args:
        path: The file: .png, .svg or .pdf, or .html for an interactive page that works offline.
        figure: Draws the matplotlib figure; called for a still picture.
        page: Writes the page; called for .html.

    Raises:
        StudyError: If the suffix is another one.
    """
    suffix = Path(path).suffix.lower()
    if suffix == ".html":
        text = page()
        write_whole(path, lambda file: file.write_text(text, encoding="utf-8"))
    elif suffix in STILL:
        write_whole(path, partial(figure().savefig, format=suffix[1:], dpi=150))
    else:
        raise StudyError(
            f"a picture's name must end in {', '.join(STILL)} or .html, got {str(path)!r}"
        )


def page(title: str, caption: str, described: Spec) -> str:
    """A page with one interactive picture, complete with plotly's script.

    Args:
        title: The heading.
        caption: The line below it.
        described: The picture as plotly's data and layout.
    """
    return _PAGE.format(
        title=escape(title),
        caption=escape(caption),
        piece=piece("picture", described),
        library=library(),
        height=described["layout"].get("height", 320),
        font=FONT,
        ink=INK,
        faint=FAINT,
    )


def library() -> str:
    """Plotly's script, to be put into a page once."""
    text: str = need("plotly.offline").get_plotlyjs()
    return text


def piece(name: str, described: Spec, *, tools: bool = True) -> str:
    """The part of a page that draws one picture; `library()` must come before it in the page.

    Args:
        name: The id of the element in the page.
        described: The picture as plotly's data and layout.
        tools: Whether plotly's row of tools appears above the picture.
    """
    config = {"displaylogo": False, "responsive": True, "displayModeBar": None if tools else False}
    # A label may hold "</script>"; written as \u003c it stays inside the string it belongs to.
    parts = [
        json.dumps(part, allow_nan=False).replace("<", "\\u003c")
        for part in (described["data"], described["layout"], config)
    ]
    return (
        f'<div id="{escape(name)}"></div>\n'
        f"<script>Plotly.newPlot({json.dumps(name)}, {', '.join(parts)});</script>"
    )


def safe(text: str) -> str:
    """Text for matplotlib in which a dollar sign does not start a formula."""
    return "\n".join(map(visible, text.splitlines())).replace("$", r"\$")


def plain_axes(axes: Any, *, grid: str = "y") -> None:
    """Leave matplotlib axes two faint spines, and draw grid lines from one of them.

    Args:
        axes: The matplotlib axes.
        grid: The axis that the lines start from: "x" or "y".
    """
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#b9c2c9")
    axes.tick_params(colors=FAINT, labelsize=9)
    axes.grid(visible=True, axis=grid, color="#e8ecef", lw=0.8)
    axes.set_axisbelow(True)


def refuse_many(answers: Answers) -> None:
    """Refuse to draw more cells of one axis than anyone can see.

    Raises:
        TooLargeError: If there are too many.
    """
    if answers.values.ndim == 1 and len(answers) > MOST_CELLS:
        raise TooLargeError(
            f"a picture of {len(answers):,} cells would show none of them; the limit is "
            f"{MOST_CELLS:,}. Ask for groups of cells with bins=..., or use to_pandas()"
        )


def as_truth(answers: Answers, truth: ArrayLike | None) -> Floats | None:
    """Check that the true numbers have the answers' shape.

    Args:
        answers: The answers.
        truth: The true numbers; None where they are not known.
    """
    if truth is None:
        return None
    given = np.asarray(truth, dtype=np.float64)
    if given.shape != answers.values.shape:
        raise QuestionError(
            f"truth must have one number per answer, shape {answers.values.shape}, "
            f"got shape {given.shape}"
        )
    return given


def amount(answers: Answers) -> str:
    """Name of the numbers on a scale: people, or a share of them."""
    name = _WHOLE_NAMES.get(answers.unit, answers.unit)
    return f"{name} at or below" if answers.kind == "cdf" else name


def heading(answers: Answers) -> str:
    """The heading of a picture, with the study's own names."""
    name = _WHOLE_NAMES.get(answers.unit, answers.unit)
    name = name[:1].upper() + name[1:]
    if answers.kind == "cdf":
        return f"{name} at or below each {answers.axes[0]}"
    if answers.kind in ("histogram", "heatmap"):
        return f"{name} by {' and '.join(answers.axes)}"
    return f"Answers by {answers.axes[0]}"


def origin(answers: Answers) -> str:
    """The caption: number of reports, level of the intervals, condition and notes."""
    one = {"reports": "report", "people": "person"}
    counted = one[answers.counted] if answers.n == 1 else answers.counted
    parts = [f"from {answers.n:,} {counted}"]
    if answers.kind != "heatmap" and answers.n:
        parts.append(f"{interval_name(answers.level)}s shown")
    if answers.question:
        parts.append(f"where {answers.question}")
    return " · ".join([*parts, *(note for note in answers.notes if note != "no reports")])


def number(value: float, *, separate: bool = True) -> str:
    """A number on a scale, without trailing zeros.

    Args:
        value: The number.
        separate: Whether thousands are separated.
    """
    text = f"{value:,.6f}" if separate else f"{value:.6f}"
    text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text.replace("-", "−")


def share(value: float) -> str:
    """A fraction on a scale, as a percentage."""
    return f"{number(100 * value)}%"


def shorten(label: str, most: int = 36) -> str:
    """A label cut to a length that leaves room for the picture.

    Args:
        label: The label.
        most: The largest number of characters.
    """
    return label if len(label) <= most else f"{label[: most - 1]}…"


def is_date(edges: NDArray[Any] | None) -> bool:
    """Whether edges are dates or times."""
    return edges is not None and edges.dtype.kind == "M"


def is_clock(edges: NDArray[Any] | None) -> bool:
    """Whether cells are times of day, which domains place on the first day of 1970."""
    if edges is None or edges.dtype != np.dtype("datetime64[s]"):
        return False
    seconds = edges.astype(np.int64)
    return bool(seconds[0] >= 0 and seconds[-1] <= 86_400)


def clock_ticks(edges: NDArray[Any], most: int) -> tuple[NDArray[Any], list[str]]:
    """Full hours on a clock, and their names; the last edge of a day is 24:00, not 00:00.

    Args:
        edges: Edges of the cells, as times on one day.
        most: The largest number of steps.
    """
    seconds = edges.astype("datetime64[s]").astype(np.int64)
    step = next(s for s in (900, 3600, 7200, 10_800, 21_600, 43_200) if _steps(seconds, s) <= most)
    at = np.arange(-(-seconds[0] // step) * step, seconds[-1] + 1, step)
    names = [f"{s // 3600:02d}:{s // 60 % 60:02d}" for s in at.tolist()]
    return at.astype("datetime64[s]"), names


def _steps(seconds: NDArray[np.int64], step: int) -> float:
    """Number of steps between the first and the last edge."""
    return float(seconds[-1] - seconds[0]) / step


def is_whole(edges: NDArray[Any]) -> bool:
    """Whether cells are centred on whole numbers."""
    return edges.dtype.kind == "f" and bool(np.all(edges % 1 == 0.5))


def wide_numbers(edges: NDArray[Any]) -> bool:
    """Whether a scale needs its thousands separated; years do not."""
    return bool(np.abs(edges).max() >= 10_000)


def each(count: int, most: int) -> int:
    """The smallest k such that every k-th label fits.

    Args:
        count: Number of labels.
        most: How many fit.
    """
    return max(1, math.ceil(count / most))


def reach(*arrays: Floats | None) -> tuple[float, float]:
    """Smallest and largest of all finite numbers and zero: the ends of a colour scale."""
    held = [array[np.isfinite(array)] for array in arrays if array is not None]
    numbers = np.concatenate([*held, np.zeros(1)])
    low, high = float(numbers.min()), float(numbers.max())
    return (low, high) if low < high else (0.0, 1.0)


def colours(low: float, high: float) -> Stops:
    """Colour stops from low to high: white at zero, and equally strong at v and −v.

    Args:
        low: The lower end of the scale, zero or below.
        high: The upper end, zero or above.
    """
    peak = max(-low, high)
    signed = [(-at, colour) for at, colour in reversed(WARM)] + list(COLD)
    inside = [(at * peak, colour) for at, colour in signed if low < at * peak < high]
    ends = [(low, _blend(signed, low / peak)), *inside, (high, _blend(signed, high / peak))]
    return [((at - low) / (high - low), colour) for at, colour in ends]


def _blend(stops: list[tuple[float, str]], at: float) -> str:
    """The colour at a place between stops."""
    places = [place for place, _ in stops]
    parts = np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for _, c in stops])
    mixed = [round(float(np.interp(at, places, parts[:, i]))) for i in range(3)]
    return "#{:02x}{:02x}{:02x}".format(*mixed)
