"""What still and interactive pictures share: words, numbers, colours, and the checks."""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.arrays import Floats
from sfumato.errors import QuestionError, SfumatoError
from sfumato.estimation.answers import Answers

INK, FAINT = "#22303c", "#6b7a86"
ESTIMATE, TRUTH = "#2f6f9f", "#c8553d"
#: From the most negative to the most positive; white is nobody.
COLD = ((0.0, "#ffffff"), (0.25, "#c6dcea"), (0.6, "#5d9bc4"), (1.0, "#14405f"))
WARM = ((0.25, "#f4cdbd"), (0.6, "#dd8261"), (1.0, "#8f2d14"))
ERROR = ((0.0, "#f7f7f5"), (1.0, "#6f6a86"))

MOST_WHISKERS = 60
_WHOLE_NAMES = {"people": "people", "fraction": "share of people"}

Stops = list[tuple[float, str]]


class PlotsMissingError(SfumatoError, ImportError):
    """A library that draws pictures is not installed."""


def need(module: str) -> Any:
    """Import a part of the extra `plots`, or say how to get it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        library = module.partition(".")[0]
        if (error.name or "").partition(".")[0] != library:
            raise
        raise PlotsMissingError(
            f"this picture needs {library}, which is not installed: pip install 'sfumato[plots]'"
        ) from None


def as_truth(answers: Answers, truth: ArrayLike | None) -> Floats | None:
    """The true numbers, checked against the answers' shape."""
    if truth is None:
        return None
    given = np.asarray(truth, dtype=np.float64)
    if given.shape != answers.values.shape:
        raise QuestionError(
            f"truth must have one number an answer, shape {answers.values.shape}, "
            f"got shape {given.shape}"
        )
    return given


def amount(answers: Answers) -> str:
    """What is counted."""
    name = _WHOLE_NAMES.get(answers.unit, answers.unit)
    return f"{name} at or below" if answers.kind == "cdf" else name


def heading(answers: Answers) -> str:
    """What a picture shows, in the words of the study."""
    name = _WHOLE_NAMES.get(answers.unit, answers.unit)
    name = name[:1].upper() + name[1:]
    if answers.kind == "cdf":
        return f"{name} at or below each {answers.axes[0]}"
    if answers.kind in ("histogram", "heatmap"):
        return f"{name} by {' and '.join(answers.axes)}"
    return f"Answers by {answers.axes[0]}"


def origin(answers: Answers) -> str:
    """Where the numbers come from and how sure they are."""
    one = {"reports": "report", "people": "person"}
    counted = one[answers.counted] if answers.n == 1 else answers.counted
    parts = [f"from {answers.n:,} {counted}"]
    if answers.kind != "heatmap" and answers.n:
        parts.append(f"{interval_name(answers)}s shown")
    if answers.question:
        parts.append(f"where {answers.question}")
    return " · ".join([*parts, *(note for note in answers.notes if note != "no reports")])


def interval_name(answers: Answers) -> str:
    """The intervals with their level."""
    return f"{100 * answers.level:.6g}% interval"


def number(value: float, *, separate: bool = True) -> str:
    """A number on a scale, without needless digits."""
    text = f"{value:,.6f}" if separate else f"{value:.6f}"
    text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text.replace("-", "−")


def share(value: float) -> str:
    """A fraction on a scale."""
    return f"{number(100 * value)}%"


def shorten(label: str, most: int = 36) -> str:
    """A label that leaves room for the picture."""
    return label if len(label) <= most else f"{label[: most - 1]}…"


def is_date(edges: NDArray[Any] | None) -> bool:
    """Whether cells lie on the calendar or the clock."""
    return edges is not None and edges.dtype.kind == "M"


def is_clock(edges: NDArray[Any] | None) -> bool:
    """Whether cells are times of day, which domains place on the first day of 1970."""
    if edges is None or edges.dtype != np.dtype("datetime64[s]"):
        return False
    seconds = edges.astype(np.int64)
    return bool(seconds[0] >= 0 and seconds[-1] <= 86_400)


def clock_ticks(edges: NDArray[Any], most: int) -> tuple[NDArray[Any], list[str]]:
    """Full hours on a clock, and their names; the last edge of a day is 24:00, not 00:00."""
    seconds = edges.astype("datetime64[s]").astype(np.int64)
    step = next(s for s in (900, 3600, 7200, 10_800, 21_600, 43_200) if _steps(seconds, s) <= most)
    at = np.arange(-(-seconds[0] // step) * step, seconds[-1] + 1, step)
    names = [f"{s // 3600:02d}:{s // 60 % 60:02d}" for s in at.tolist()]
    return at.astype("datetime64[s]"), names


def _steps(seconds: NDArray[np.int64], step: int) -> float:
    """How many steps a clock covers."""
    return float(seconds[-1] - seconds[0]) / step


def is_whole(edges: NDArray[Any]) -> bool:
    """Whether cells are centred on whole numbers."""
    return edges.dtype.kind == "f" and bool(np.all(edges % 1 == 0.5))


def wide_numbers(edges: NDArray[Any]) -> bool:
    """Whether a scale needs its thousands separated; years do not."""
    return bool(np.abs(edges).max() >= 10_000)


def each(count: int, most: int) -> int:
    """Every how many labels fit where only `most` do."""
    return max(1, math.ceil(count / most))


def reach(*arrays: Floats | None) -> tuple[float, float]:
    """The range of a colour scale: zero is always on it."""
    held = [array[np.isfinite(array)] for array in arrays if array is not None]
    numbers = np.concatenate([*held, np.zeros(1)])
    low, high = float(numbers.min()), float(numbers.max())
    return (low, high) if low < high else (0.0, 1.0)


def colours(low: float, high: float) -> Stops:
    """Colour stops from low to high: white at zero, equal amounts equally strong on both sides."""
    peak = max(-low, high)
    signed = [(-at, colour) for at, colour in reversed(WARM)] + list(COLD)
    inside = [(at * peak, colour) for at, colour in signed if low < at * peak < high]
    ends = [(low, _blend(signed, low / peak)), *inside, (high, _blend(signed, high / peak))]
    return [((at - low) / (high - low), colour) for at, colour in ends]


def _blend(stops: list[tuple[float, str]], at: float) -> str:
    """The colour between stops."""
    places = [place for place, _ in stops]
    parts = np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for _, c in stops])
    mixed = [round(float(np.interp(at, places, parts[:, i]))) for i in range(3)]
    return "#{:02x}{:02x}{:02x}".format(*mixed)
