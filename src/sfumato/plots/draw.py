"""Pictures of answers: still ones with matplotlib, interactive pages with plotly.

Both come with the extra `plots` and are loaded only when a picture is asked for.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from sfumato.errors import StudyError
from sfumato.estimation.answers import Answers
from sfumato.files import write_whole
from sfumato.plots.wording import PlotsMissingError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


__all__ = ["PlotsMissingError", "figure", "save"]

STILL = (".png", ".svg", ".pdf")
PAGE = ".html"


def figure(answers: Answers, *, truth: ArrayLike | None = None, title: str | None = None) -> Figure:
    """Draw a histogram, a CDF, a heat map or a list of answers, with their intervals.

    Args:
        answers: What an estimate gave; estimates below zero are drawn as they are.
        truth: The true numbers where they are known, shaped like `answers.values`.
        title: What stands above; left out, it says what is shown.

    Returns:
        A matplotlib figure that belongs to nobody else: no state of pyplot is touched.

    Raises:
        PlotsMissingError: If matplotlib is not installed.
        QuestionError: If `truth` has another shape.

    Example:
        >>> import sfumato as sf
        >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
        >>> est = study.simulate({"age": list(range(100)) * 100}, seed=1).estimate()
        >>> drawn = figure(est.histogram("age", bins=10))
        >>> drawn.axes[0].get_xlabel(), drawn.axes[0].get_ylabel()
        ('age', 'people')
    """
    from sfumato.plots import still

    return still.figure(answers, truth=truth, title=title)


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
        path: Where to; the file appears whole or not at all.
        truth: The true numbers where they are known, shaped like `answers.values`.
        title: What stands above; left out, it says what is shown.

    Raises:
        StudyError: If the suffix is another one.
        PlotsMissingError: If matplotlib or plotly is not installed.
    """
    suffix = Path(path).suffix.lower()
    if suffix == PAGE:
        from sfumato.plots import interactive

        text = interactive.page(answers, truth=truth, title=title)
        write_whole(path, lambda file: file.write_text(text, encoding="utf-8"))
    elif suffix in STILL:
        drawn = figure(answers, truth=truth, title=title)
        write_whole(path, partial(drawn.savefig, format=suffix[1:], dpi=150))
    else:
        raise StudyError(
            f"a picture's name must end in {', '.join(STILL)} or {PAGE}, got {str(path)!r}"
        )
