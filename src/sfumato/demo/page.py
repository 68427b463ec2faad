"""The demo's page: one file that works offline, on a phone as on a desk."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from sfumato.arrays import Floats
from sfumato.demo.template import TEMPLATE
from sfumato.estimation.answers import Answer, Answers, format_to
from sfumato.plots import interactive, style
from sfumato.study.guarantee import odds

if TYPE_CHECKING:
    from sfumato.demo.run import DemoResult, DemoRow, Sample
    from sfumato.study.study import Study


_UNITS = {"people": "", "share": "%", "years": "", "minutes": ""}


def render(result: DemoResult, pictures: Mapping[str, tuple[Answers, Floats]], library: str) -> str:
    """The whole page."""
    held = sum(row.holds for row in result.rows)
    level = f"{100 * result.rows[0].answer.level:.6g}%"
    filled = {
        "people": f"{result.tally.n:,}",
        "samples": "\n".join(_sample(sample) for sample in result.samples),
        "right": _right(result.study),
        "ages": str(result.study.shape[0]),
        "times": str(result.study.shape[1]),
        "pairs": _pairs(result.study),
        "explain": html.escape(result.study.explain()),
        "questions": "\n".join(_question(row) for row in result.rows),
        "held": f"{held} of {len(result.rows)}",
        "level": level,
        "published": "\n".join(_published(row) for row in result.rows),
        "ratio": f"{median(row.ratio for row in result.rows):.1f}",
        "age": _picture("age", *pictures["age"]),
        "minutes": _picture("minutes", *pictures["minutes"]),
        "cdf": _picture("cdf", *pictures["cdf"]),
        "heats": _heats(*pictures["heat"]),
    }
    text = TEMPLATE
    for name, part in filled.items():
        text = text.replace(f"[[{name}]]", part)
    return text.replace("[[library]]", library)


def amount(value: float, error: float, unit: str) -> str:
    """A number as people say it, to as many digits as its error allows."""
    if not math.isfinite(value):
        return "–"
    scale = 100 if unit == "share" else 1
    digits = format_to(value * scale, error * scale)
    return digits.replace("-", "−") + _UNITS[unit]


def _exact(row: DemoRow) -> str:
    """The truth: people are counted whole, other numbers shown to the answer's digits."""
    if row.unit == "people":
        return amount(row.truth, 0.0, row.unit)
    return amount(row.truth, row.answer.stderr, row.unit)


def _interval(answer: Answer, unit: str) -> str:
    """From low to high."""
    if not (math.isfinite(answer.low) and math.isfinite(answer.high)):
        return "–"
    low = amount(answer.low, answer.stderr, unit).removesuffix(_UNITS[unit] or "\0")
    return f"{low} to {amount(answer.high, answer.stderr, unit)}"


def _question(row: DemoRow) -> str:
    """One row of the table of questions."""
    mark, word = ("✓", "yes") if row.holds else ("✗", "no")
    return (
        f'<tr><th scope="row">{html.escape(row.question)}'
        f"<code>{html.escape(row.ask)}</code></th>"
        f'<td data-name="Truth">{_exact(row)}</td>'
        f'<td data-name="Answer"><b>{amount(row.answer.value, row.answer.stderr, row.unit)}</b>'
        f"</td>"
        f'<td data-name="Interval">{_interval(row.answer, row.unit)}</td>'
        f'<td data-name="Holds the truth" class="{word}">{mark} {word}</td></tr>'
    )


def _published(row: DemoRow) -> str:
    """One row of the comparison."""
    plain = "people" if row.unit == "people" else row.unit
    ours, theirs = (
        amount(answer.stderr, answer.stderr, plain) for answer in (row.answer, row.published)
    )
    return (
        f'<tr><th scope="row">{html.escape(row.question)}</th>'
        f'<td data-name="Here">± {ours}</td>'
        f'<td data-name="As published">± {theirs}</td>'
        f'<td data-name="Ratio"><b>{row.ratio:.1f}×</b></td></tr>'
    )


def _sample(sample: Sample) -> str:
    """What is true of one person, and what was sent."""
    years, minutes = (bin_.replace("..", " to ") for bin_ in sample.report)
    return (
        f'<tr><th scope="row">{html.escape(sample.name)}</th>'
        f'<td data-name="True">{sample.age:g} years, {sample.minutes:g} min</td>'
        f'<td data-name="Sent">{years} years, {minutes} min</td></tr>'
    )


def _right(study: Study) -> str:
    """How often a report names the true groups of someone in the middle of the scales."""
    ages, times = (
        float(channel.likelihood()[channel.size // 2, channel.size // 2])
        for channel in study.channels
    )
    return f"{ages:.0%} name the true age group, {ages * times:.0%} both true groups"


def _pairs(study: Study) -> str:
    """The odds for near and far pairs of people."""
    pairs = [
        ("30 and 34 years old", {"age": 30}, {"age": 34}),
        ("34 and 35 years old", {"age": 34}, {"age": 35}),
        ("30 and 40 years old", {"age": 30}, {"age": 40}),
        (
            "30 and 35 years old, 20 and 30 minutes away",
            {"age": 30, "minutes": 20},
            {"age": 35, "minutes": 30},
        ),
        ("30 and 60 years old", {"age": 30}, {"age": 60}),
    ]
    return "\n".join(
        f'<tr><th scope="row">{html.escape(who)}</th>'
        f'<td data-name="Odds, at most">{_odds(study.guarantee.between(x, y))}</td></tr>'
        for who, x, y in pairs
    )


def _odds(e: float) -> str:
    """How much likelier a report is from one of two people."""
    return "equal: same group" if e == 0 else html.escape(odds(e))


def _picture(name: str, answers: Answers, truth: Floats) -> str:
    """One picture with the truth over it."""
    described = interactive.describe(answers, truth=truth)
    return style.piece(f"picture-{name}", described, tools=False)


def _heats(answers: Answers, truth: Floats) -> str:
    """The estimate and the truth side by side, in the same colours."""
    limits = style.reach(answers.values, truth)
    known = replace(answers, values=truth, stderr=truth * 0)
    across, up = answers.all_labels
    hovers = [
        interactive.pair_hovers(answers),
        [
            [
                f"age {a}, minutes {b}<br><b>{known.values[i, j]:,.0f}</b> people"
                for i, a in enumerate(across)
            ]
            for j, b in enumerate(up)
        ],
    ]
    parts = []
    for name, shown, hover in zip(("estimate", "truth"), (answers, known), hovers, strict=True):
        described = interactive.heat_panel(shown, shown.values, limits=limits, hover=hover)
        drawn = style.piece(f"picture-heat-{name}", described, tools=False)
        parts.append(f"<figure><figcaption>{name.capitalize()}</figcaption>{drawn}</figure>")
    return "\n".join(parts)
