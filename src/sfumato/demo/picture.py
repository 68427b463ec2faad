"""The picture of the read-me."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from sfumato.arrays import Floats
from sfumato.estimation.answers import Answers
from sfumato.files import write_whole
from sfumato.plots import still, style
from sfumato.plots.style import FAINT, INK


def save(pictures: Mapping[str, tuple[Answers, Floats]], path: str | Path) -> None:
    """Draw a histogram and a heat map, each with the truth, as one small PNG."""
    made = style.need("matplotlib.figure").Figure(figsize=(11.0, 3.7), layout="constrained")
    panels = made.subplots(1, 3, width_ratios=[1.35, 1, 1])
    answers, truth = pictures["age"]
    still.draw(panels[0], answers, truth)
    level = f"{100 * answers.level:.6g}%"
    panels[0].legend(loc="upper right", frameon=False, fontsize=9, labelcolor=INK)
    panels[0].set_title(f"{answers.n:,} reports, {level} intervals", fontsize=10, color=INK)

    answers, truth = pictures["heat"]
    limits = style.reach(answers.values, truth)
    stops = style.colours(*limits)
    for axes, name, values in zip(
        panels[1:], ("estimate", "truth"), (answers.values, truth), strict=True
    ):
        mesh = still.heat(axes, answers, values, limits=limits, stops=stops, most=7)
        axes.set_title(name, fontsize=10, color=INK)
    panels[2].set_ylabel("")
    panels[2].tick_params(labelleft=False)
    still.colour_bar(made, mesh, panels[1:], answers)
    made.supxlabel(
        "No exact age or travel time was collected.", x=0.01, ha="left", fontsize=9, color=FAINT
    )
    write_whole(path, partial(made.savefig, format="png", dpi=100, metadata={"Software": None}))
