"""How long many ranges over thermometer reports take, against one popcount of the bytes touched."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import sfumato as sf
from benchmarks.recording import Measurement, progress, seconds
from sfumato.arrays import popcount
from sfumato.collect.engines.tallying import tally_files
from sfumato.collect.statistics import BitReports

SIZE = 64
QUESTIONS = 200
AT_ONCE = 1 << 20


def measure() -> Measurement:
    """Random ranges on two axes, all at once and one by one, from memory and from a file."""
    rows = []
    for people in (1_000_000, 10_000_000):
        progress(f"{people:,} reports")
        rows.append(_row(people))
    return Measurement(
        f"{QUESTIONS} random ranges on 2 axes of {SIZE} cells, thermometer reports",
        rows,
        [
            "Times are processor seconds for all questions. 'popcount s' counts the bits of the "
            "four columns that each question touches, question by question: the least that "
            "reading them could cost. 'at once s' is est.counts(questions), with every question "
            "read from words and every answer with its standard error; 'one by one s' is "
            "est.count(question) with via='direct'. Both give the same values.",
            "'from a file s' tallies a Parquet file of the reports with keep=questions and answers "
            "from that, reading and unpacking the file included.",
        ],
    )


def _row(people: int) -> dict[str, Any]:
    """One number of reports."""
    axes = [
        sf.integers(name, 0, SIZE - 1, protect=sf.Distance(1.0), channel=sf.Thermometer())
        for name in "ab"
    ]
    study = sf.Study("many", axes)
    tally = study.tally(_reports(study, people))
    rng = np.random.default_rng(2)
    questions = []
    bounds = []
    for _ in range(QUESTIONS):
        ends = np.sort(rng.choice(np.arange(1, SIZE - 1), (2, 2)), axis=1)
        bounds.append(ends)
        questions.append(
            ", ".join(f"{n}={lo}..{hi}" for n, (lo, hi) in zip("ab", ends, strict=True))
        )
    statistic = tally.statistic
    assert isinstance(statistic, BitReports)
    columns: Any = statistic.columns

    def floor() -> int:
        return sum(
            popcount(columns[axis].words[bit])
            for ends in bounds
            for axis, (low, high) in enumerate(ends.tolist())
            for bit in (low - 1, high)
        )

    estimate = tally.estimate("unbiased", via="direct")
    least, _ = seconds(floor, repeat=3)
    together, _ = seconds(lambda: estimate.counts(questions), repeat=3)
    single, _ = seconds(lambda: [estimate.count(q) for q in questions], repeat=1)
    found = estimate.counts(questions)
    assert [a.value for a in found] == [estimate.count(q).value for q in questions]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "reports.parquet"
        sf.Reports(study.fingerprint, study.columns, study.layouts, statistic.columns).save(path)

        def stream() -> list[float]:
            kept = study.accumulator(keep=questions)
            kept.merge(tally_files(sf.engines.local(1), kept, [str(path)]))
            return [a.value for a in kept.freeze().estimate("unbiased").counts(questions)]

        assert stream() == [a.value for a in found]
        streamed, _ = seconds(stream, repeat=1)
    return {
        "reports": people,
        "MB touched": 4 * QUESTIONS * people / 8e6,
        "popcount s": least,
        "at once s": together,
        "ratio": together / least,
        "one by one s": single,
        "its ratio": single / least,
        "from a file s": streamed,
    }


def _reports(study: sf.Study, people: int) -> Iterator[sf.Reports]:
    """Reports of made-up people, a bounded number at a time."""
    rng = np.random.default_rng(1)
    for start in range(0, people, AT_ONCE):
        count = min(AT_ONCE, people - start)
        table = {name: (rng.beta(2, 3, count) * SIZE).astype(np.int64) for name in "ab"}
        yield study.encode(table, bits=sf.SeededBits(start))
