"""The page that shows the demo's results: one file that works offline."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from dataclasses import replace
from statistics import median

from sfumato.arrays import Floats
from sfumato.demo.results import Collected, DemoResult, DemoRow, Row, Sample
from sfumato.estimation.answers import Answer, Answers
from sfumato.plots import interactive, style
from sfumato.study.study import Study
from sfumato.text import format_to, odds

_UNITS = {"people": "", "share": "%", "years": "", "minutes": ""}


def render(result: DemoResult, pictures: Mapping[str, tuple[Answers, Floats]], library: str) -> str:
    """Fill in the page.

    Args:
        result: What a run gave.
        pictures: Answers and the truth in the same cells, by the name of the picture.
        library: Plotly's script.
    """
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
        "collected": _collected(result.collected),
        "age": _picture("age", *pictures["age"]),
        "minutes": _picture("minutes", *pictures["minutes"]),
        "cdf": _picture("cdf", *pictures["cdf"]),
        "heats": _heats(*pictures["heat"]),
    }
    text = _TEMPLATE
    for name, part in filled.items():
        text = text.replace(f"[[{name}]]", part)
    return text.replace("[[library]]", library)


def amount(value: float, error: float, unit: str) -> str:
    """A number to as many digits as its error allows.

    Args:
        value: The number.
        error: Its standard error; 0 shows it in full.
        unit: "people", "share" (shown as a percentage), "years" or "minutes".
    """
    if not math.isfinite(value):
        return "–"
    scale = 100 if unit == "share" else 1
    digits = format_to(value * scale, error * scale)
    return digits.replace("-", "−") + _UNITS[unit]


def _exact(row: Row) -> str:
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


def _question(row: Row) -> str:
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


def _collected(found: Collected | str | None) -> str:
    """The section about a collector."""
    if found is None:
        return ""
    if isinstance(found, str):
        return f"<section><h2>Over HTTP</h2><p>Left out: {html.escape(found)}.</p></section>"
    filled = {
        "reported": f"{found.people:,}",
        "seconds": f"{found.seconds:.1f}",
        "answers": "\n".join(_question(row) for row in found.rows),
        "level": f"{100 * found.rows[0].answer.level:.6g}%",
    }
    text = _COLLECTED
    for name, part in filled.items():
        text = text.replace(f"[[{name}]]", part)
    return text


def _published(row: DemoRow) -> str:
    """One row of the comparison."""
    ours, theirs = (
        amount(answer.stderr, answer.stderr, row.unit) for answer in (row.answer, row.published)
    )
    return (
        f'<tr><th scope="row">{html.escape(row.question)}</th>'
        f'<td data-name="Here">± {ours}</td>'
        f'<td data-name="As published">± {theirs}</td>'
        f'<td data-name="Ratio"><b>{row.ratio:.1f}×</b></td></tr>'
    )


def _sample(sample: Sample) -> str:
    """One row of the table of devices: a person's true values, and the report."""
    years, minutes = (bin_.replace("..", " to ") for bin_ in sample.report)
    return (
        f'<tr><th scope="row">{html.escape(sample.name)}</th>'
        f'<td data-name="True">{sample.age:g} years, {sample.minutes:g} min</td>'
        f'<td data-name="Sent">{years} years, {minutes} min</td></tr>'
    )


def _right(study: Study) -> str:
    """How often a report names the true groups of a person in the middle of both scales."""
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
    """The largest ratio of a report's probabilities under two people, in words."""
    return "equal: same group" if e == 0 else html.escape(odds(e))


def _picture(name: str, answers: Answers, truth: Floats) -> str:
    """One picture with the truth over it."""
    described = interactive.describe(answers, truth=truth)
    return style.piece(f"picture-{name}", described, tools=False)


def _heats(answers: Answers, truth: Floats) -> str:
    """The estimate and the truth side by side, in the same colours."""
    limits = style.reach(answers.values, truth)
    known = replace(answers, values=truth, stderr=truth * 0, centres=None, room=0.0)
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


_COLLECTED = """<section>
  <h2>Over HTTP</h2>
  <p>[[reported]] of these people also had a device each. Their reports went through the client that
  an app would use to a collector on this computer, in [[seconds]] seconds, each on the disk before
  it was acknowledged. The collector then answered these questions, and entered each in its log. The
  truth is that of the [[reported]], and <code>est</code> is
  <code>sf.connect(url, token)</code>.</p>
  <table class="numbers">
    <thead><tr><th>Question</th><th>Truth</th><th>Answer</th><th>[[level]] interval</th>
    <th>Holds the truth</th></tr></thead>
    <tbody>
[[answers]]
    </tbody>
  </table>
  <p>The collector has stopped. Run <code>sfumato demo --stay</code> to look at its pages.</p>
</section>"""

#: The frame of the page; [[name]] marks what a run fills in.
_TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>sfumato: a first look</title>
<style>
  :root { --ink: #22303c; --faint: #5f6e7a; --line: #e1e6ea; --blue: #2f6f9f; --red: #c8553d; }
  * { box-sizing: border-box; }
  body { margin: 0; color: var(--ink); background: #f6f7f8;
    font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
  header { padding: 3rem 1rem 2.5rem; color: #fff;
    background: linear-gradient(115deg, #14405f, #2f6f9f 55%, #7fb0cf); }
  header > *, main, footer { max-width: 60rem; margin: 0 auto; }
  h1 { font-size: clamp(1.7rem, 5vw, 2.6rem); line-height: 1.15; margin: 0 auto .8rem; }
  main { padding: 0 1rem; }
  section { background: #fff; border: 1px solid var(--line); border-radius: 12px;
    padding: 1.4rem 1.5rem; margin: 1.5rem 0; }
  h2 { font-size: 1.3rem; margin: 0 0 .4rem; }
  h3 { font-size: 1rem; margin: 1.2rem 0 0; }
  p { margin: .4rem 0 1rem; max-width: 46rem; }
  header p { max-width: 60rem; margin: 0 auto; font-size: 1.1rem; opacity: .95; }
  table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
  th, td { text-align: left; padding: .5rem 0 .5rem .9rem; border-top: 1px solid var(--line);
    vertical-align: top; font-weight: normal; }
  th:first-child { padding-left: 0; }
  thead th { color: var(--faint); font-size: .85rem; border-top: 0; }
  .numbers td, .numbers thead th:not(:first-child) { text-align: right; white-space: nowrap; }
  th code { display: block; color: var(--faint); font-size: .78rem; }
  .yes { color: #2b7a4b; } .no { color: var(--red); font-weight: 600; }
  pre { overflow-x: auto; background: #f1f4f6; border-radius: 8px; padding: .8rem 1rem;
    font-size: .82rem; line-height: 1.45; }
  details summary { cursor: pointer; color: var(--blue); margin-top: 1rem; }
  figure { margin: 0; min-width: 0; } figcaption { font-weight: 600; text-align: center; }
  .two { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem; }
  .two > * { min-width: 0; }
  div[id^="picture-"] { height: 340px; }
  div[id^="picture-heat"] { height: 420px; }
  footer { padding: 0 1rem 3rem; color: var(--faint); font-size: .9rem; }
  @media (max-width: 42rem) {
    header { padding: 2rem 1rem 1.6rem; }
    section { padding: 1.1rem 1rem; margin: 1rem 0; }
    .two { grid-template-columns: 1fr; }
    div[id^="picture-heat"] { height: 360px; }
    table, tbody, tr, th, td { display: block; }
    thead { display: none; }
    tr { border-top: 1px solid var(--line); padding: .6rem 0; }
    th, td, .numbers td { border: 0; padding: .1rem 0; text-align: left; white-space: normal; }
    tbody th { font-weight: 600; } th code { font-weight: normal; overflow-wrap: anywhere; }
    td { display: flex; justify-content: space-between; gap: 1rem; }
    td::before { content: attr(data-name); color: var(--faint); }
  }
</style>
<script>[[library]]</script>
</head>
<body>
<header>
  <h1>[[people]] people answered.<br>Nobody&rsquo;s exact answer was collected.</h1>
  <p>An invented town was asked for age and minutes to work. Every answer was perturbed before it
  left its device. What follows was found from the perturbed reports alone; the truth is shown
  beside it because, for once, we know it.</p>
</header>
<main>

<section>
  <h2>What leaves a device</h2>
  <p>Three people&rsquo;s true answers, and the report each device sent in this run. A report may
  happen to be right ([[right]]), but nobody can tell which ones are.</p>
  <table>
    <thead><tr><th>Person</th><th>True</th><th>Sent</th></tr></thead>
    <tbody>
[[samples]]
    </tbody>
  </table>
  <h3>How hard it is to tell two people apart</h3>
  <p>Whatever the report, it is at most this many times likelier to come from one of the two than
  from the other. People with similar values can hardly be told apart, people far apart more easily:
  that is the choice this study makes, and the price of sharp pictures.</p>
  <table class="numbers">
    <thead><tr><th>Two people</th><th>Odds, at most</th></tr></thead>
    <tbody>
[[pairs]]
    </tbody>
  </table>
  <details><summary>The whole guarantee, in words</summary><pre>[[explain]]</pre></details>
</section>

<section>
  <h2>Questions and answers</h2>
  <p>Every answer comes with its error. In the long run [[level]] of these intervals hold
  the truth; in this run, <b>[[held]]</b> do.</p>
  <table class="numbers">
    <thead><tr><th>Question</th><th>Truth</th><th>Answer</th><th>[[level]] interval</th>
    <th>Holds the truth</th></tr></thead>
    <tbody>
[[questions]]
    </tbody>
  </table>
</section>

<section>
  <h2>How old people are, and how long they travel</h2>
  <p>Bars are estimates with [[level]] intervals; the red line is the truth.</p>
  <div class="two">
    <figure>[[age]]</figure>
    <figure>[[minutes]]</figure>
  </div>
</section>

<section>
  <h2>How many people reach work within a given time</h2>
  <p>The band shows [[level]] intervals. Read off any share: half of the town arrives within the
  time at which the line crosses 50%.</p>
  <figure>[[cdf]]</figure>
</section>

<section>
  <h2>Age and travel time together</h2>
  <p>Two groups, young people nearby and older ones further out, found from reports in which neither
  answer is exact. Estimates are unbiased, so empty places may come out a little below zero: those
  are shown in red, not hidden.</p>
  <div class="two">
[[heats]]
  </div>
</section>

<section>
  <h2>Compared with the method as first published</h2>
  <p>The same people, the same guarantee, the same questions, asked through
  <code>Thermometer(variant="published")</code>. Its standard errors are [[ratio]] times as large
  (the median of the last column).</p>
  <table class="numbers">
    <thead><tr><th>Question</th><th>Standard error here</th><th>As published</th><th>Ratio</th></tr>
    </thead>
    <tbody>
[[published]]
    </tbody>
  </table>
</section>

[[collected]]

<section>
  <h2>Ask your own</h2>
  <p>The study and the collected tally lie beside this page.</p>
  <pre>import sfumato as sf

study = sf.Study.load("study.toml")
est = sf.Tally.load("tally.parquet", study).estimate("unbiased")
print(est.count(age=(30, 45), minutes=(None, 20)))</pre>
</section>

</main>
<footer>The town is invented, and the same every time; its reports are drawn anew unless a seed is
given. Ages are in [[ages]] groups of 5 years, times in [[times]] groups of 5 minutes.
</footer>
</body>
</html>
"""
