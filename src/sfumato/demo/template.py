"""The frame of the demo's page; [[name]] marks what a run fills in."""

from __future__ import annotations

TEMPLATE = """<!doctype html>
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
  <h3>How well two people are hidden in each other</h3>
  <p>Whatever the report, it is at most so many times likelier from one of the two than from the
  other. Near people melt into each other; people far apart can be told apart more easily: that is
  the choice this study makes, and the price of sharp pictures.</p>
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
  <p>Every answer comes with its error. Of [[level]] intervals, [[level]] hold the truth in the
  long run; in this run, <b>[[held]]</b> do.</p>
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
  <h2>How many people are at work within so many minutes</h2>
  <p>The band holds [[level]] intervals. Read off any share: half of the town arrives within the
  minutes where the line crosses 50%.</p>
  <figure>[[cdf]]</figure>
</section>

<section>
  <h2>Age and way to work together</h2>
  <p>Two groups, young people nearby and older ones further out, found from reports in which neither
  answer is exact. Estimates are unbiased, so empty places may come out a little below zero: those
  are shown in red, not hidden.</p>
  <div class="two">
[[heats]]
  </div>
</section>

<section>
  <h2>Beside the mechanism as first published</h2>
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
given. Ages are taken in [[ages]] groups of 5 years, times in [[times]] groups of 5 minutes.
</footer>
</body>
</html>
"""
