"""How long many ranges over thermometer reports take, against one popcount of the bytes touched."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

import sfumato as sf
from benchmarks.pages import digits, markdown
from benchmarks.recording import Measurement, progress, seconds
from sfumato.arrays import popcount
from sfumato.collect.engines.tallying import tally_files
from sfumato.collect.statistics import BitReports

SIZE = 64
SMALL = 8
QUESTIONS = 200
AT_ONCE = 1 << 20
PEOPLE = (1_000_000, 10_000_000)
RANGES, MARGINALS = f"{QUESTIONS} random ranges on 2 axes", "all 2-way marginals of 4 axes"


def measure() -> Measurement:
    """Ranges on two axes, and marginals of two axes: at once, one by one, and from a file."""
    rows = []
    for people in PEOPLE:
        for what, work in ((RANGES, _ranges), (MARGINALS, _marginals)):
            progress(f"{people:,} reports, {what}")
            rows.append({"reports": people, "what": what, **work(people)})
    return Measurement(
        f"many questions at once about thermometer reports; ranges on axes of {SIZE} cells, "
        f"marginals of axes of {SMALL}",
        rows,
        [
            "Times are processor seconds for all questions. 'popcount s' counts the bits of the "
            "columns that each question touches, question by question (a range on two axes: four "
            "columns): the least that reading them could cost. 'at once s' is "
            "est.counts(questions) or est.marginals(sets), with every column read from words and "
            "every answer with its standard error; 'one by one s' asks for each by itself, with "
            "via='direct'. Both give the same values.",
            "'from a file s' tallies a Parquet file of the reports with keep=questions and answers "
            "from that, reading and unpacking the file included.",
        ],
    )


def _ranges(people: int) -> dict[str, Any]:
    """Random ranges on two axes."""
    study = _study("ab", SIZE)
    rng = np.random.default_rng(2)
    questions, touched = [], []
    for _ in range(QUESTIONS):
        ends = np.sort(rng.choice(np.arange(1, SIZE - 1), (2, 2)), axis=1).tolist()
        pairs = list(zip("ab", ends, strict=True))
        questions.append(", ".join(f"{name}={low}..{high}" for name, (low, high) in pairs))
        touched += [(axis, bit) for axis, (low, high) in enumerate(ends) for bit in (low - 1, high)]
    return _row(
        study,
        people,
        questions,
        touched,
        lambda estimate: [answer.value for answer in estimate.counts(questions)],
        lambda estimate: [estimate.count(question).value for question in questions],
    )


def _marginals(people: int) -> dict[str, Any]:
    """All marginals of two axes."""
    study = _study("abcd", SMALL)
    sets = list(combinations("abcd", 2))
    touched = [("abcd".index(name), bit) for s in sets for name in s for bit in range(SMALL - 1)]
    return _row(
        study,
        people,
        sets,
        touched,
        lambda estimate: [x for a in estimate.marginals(sets) for x in a.values.ravel()],
        lambda estimate: [x for pair in sets for x in estimate.heatmap(*pair).values.ravel()],
    )


def _row(
    study: sf.Study,
    people: int,
    questions: Sequence[Any],
    touched: Sequence[tuple[int, int]],
    at_once: Callable[[Any], list[float]],
    singly: Callable[[Any], list[float]],
) -> dict[str, Any]:
    """Some questions in three ways, beside the popcounts of the columns that they touch."""
    statistic = study.tally(_reports(study, people)).statistic
    assert isinstance(statistic, BitReports)
    columns: Any = statistic.columns

    def estimate() -> Any:  # a new one, which has read nothing yet
        return sf.Tally(study, statistic).estimate("unbiased", via="direct")

    least, _ = seconds(
        lambda: sum(popcount(columns[axis].words[bit]) for axis, bit in touched), repeat=3
    )
    together, _ = seconds(lambda: at_once(estimate()), repeat=3)
    single, _ = seconds(lambda: singly(estimate()), repeat=1)
    found = at_once(estimate())
    np.testing.assert_allclose(found, singly(estimate()), rtol=1e-9, atol=1e-6)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "reports.parquet"
        sf.Reports(study.fingerprint, study.columns, study.layouts, statistic.columns).save(path)

        def stream() -> list[float]:
            kept = study.accumulator(keep=questions)
            kept.merge(tally_files(sf.engines.local(1), kept, [str(path)]))
            return at_once(kept.freeze().estimate("unbiased"))

        np.testing.assert_allclose(stream(), found, rtol=1e-9, atol=1e-6)
        streamed, _ = seconds(stream, repeat=1)
    return {
        "questions": len(questions),
        "MB touched": len(touched) * people / 8e6,
        "popcount s": least,
        "at once s": together,
        "ratio": together / least,
        "one by one s": single,
        "its ratio": single / least,
        "from a file s": streamed,
    }


def _study(names: str, size: int) -> sf.Study:
    """Axes of as many cells, whose reports are bits."""
    axes = [
        sf.integers(name, 0, size - 1, protect=sf.Distance(1.0), channel=sf.Thermometer())
        for name in names
    ]
    return sf.Study("many", axes)


def _reports(study: sf.Study, people: int) -> Iterator[sf.Reports]:
    """Reports of made-up people, a bounded number at a time."""
    rng = np.random.default_rng(1)
    for start in range(0, people, AT_ONCE):
        count = min(AT_ONCE, people - start)
        table = {
            axis.name: (rng.beta(2, 3, count) * axis.size).astype(np.int64) for axis in study.axes
        }
        yield study.encode(table, bits=sf.SeededBits(start))


def page_tables(figures: Sequence[dict[str, Any]]) -> dict[str, str]:
    """The table for the page."""
    head = ["popcount s", "at once s", "ratio", "one by one s", "its ratio", "from a file s"]
    rows = [
        [f"{row['reports']:,}", row["what"], *(digits(float(row[name])) for name in head)]
        for row in figures
    ]
    return {"many": markdown(["reports", "questions", *head], rows)}
