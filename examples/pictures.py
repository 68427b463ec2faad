"""The pictures of docs/pictures.md; `python examples/pictures.py` writes them to docs/images."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

import sfumato as sf

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
PEOPLE = 20_000


def ages(epsilon: float) -> sf.Study:
    """Ages in years, near ones hard to tell apart."""
    return sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(epsilon=epsilon))])


def town() -> np.ndarray:
    """How many people of a made-up town have each age."""
    at = np.arange(100)
    hills = np.exp(-(((at - 30) / 9) ** 2) / 2) + 0.6 * np.exp(-(((at - 64) / 7) ** 2) / 2)
    return np.round(PEOPLE * hills / hills.sum()).astype(int)


def laws() -> plt.Figure:
    """What three people may send."""
    chances = ages(0.2).channels[0].likelihood()
    figure, axes = plt.subplots()
    for age in (30, 33, 60):
        axes.step(np.arange(100), chances[age], where="mid", label=f"aged {age}")
    axes.set(xlabel="age in the report", ylabel="probability", xlim=(10, 80))
    axes.legend()
    return figure


def ends() -> plt.Figure:
    """What each person adds to the variance of a count, by age."""
    asked = np.zeros(100)
    asked[30:50] = 1
    figure, axes = plt.subplots()
    for epsilon in (0.2, 0.5):
        moment = ages(epsilon).channels[0].second_moment(asked)
        axes.plot(np.arange(100), moment - asked, label=f"ε = {epsilon} per year")
    axes.axvspan(29.5, 49.5, color="gray", alpha=0.15, label="who is asked for: 30..49")
    axes.set(xlabel="age", ylabel="variance, per person", ylim=(0, None))
    axes.legend()
    return figure


def methods() -> plt.Figure:
    """The same reports, answered in both ways."""
    tally = ages(0.2).simulate_counts(town(), seed=3)
    figure, axes = plt.subplots()
    at = np.arange(100)
    for method in ("unbiased", "likelihood"):
        held = tally.estimate(method).histogram("age")
        axes.plot(at, held.values, label=method, linewidth=0.8 if method == "unbiased" else 2)
    axes.plot(at, town(), color="gray", linestyle="--", label="the truth")
    axes.set(xlabel="age", ylabel="people")
    axes.legend()
    return figure


def budget() -> plt.Figure:
    """The largest odds after several reports about one value."""
    reports = np.arange(1, 13)
    figure, axes = plt.subplots()
    for years in (1, 3, 5):
        axes.semilogy(
            reports, np.exp(0.2 * years * reports), marker="o", label=f"differing by {years}"
        )
    axes.set(xlabel="independent reports about one age (years)", ylabel="odds, at most")
    axes.legend()
    return figure


def main() -> None:
    """Write all pictures."""
    mpl.use("Agg")
    style = {
        "figure.figsize": (6.4, 3.2),
        "savefig.dpi": 130,
        "figure.constrained_layout.use": True,
    }
    with plt.rc_context(style):
        for draw in (laws, ends, methods, budget):
            draw().savefig(IMAGES / f"explain-{draw.__name__}.png", metadata={"Software": None})


if __name__ == "__main__":
    main()
