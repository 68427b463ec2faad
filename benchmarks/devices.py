"""Device programs of ten studies: bytes of the program and of a report, time to encode a record."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import sfumato as sf
from benchmarks.pages import digits, markdown
from benchmarks.recording import Measurement, progress, seconds
from supply.browser import ORIGIN, browser

_RECORDS = 50
_STARTS = 5
_ROOT = Path(__file__).parents[1]
_FOLDERS = {"js": _ROOT / "js" / "src", "tests": _ROOT / "tests" / "js"}
#: About how many bytes a report of other protocols takes; RAPPOR's filter without its cohort.
_OTHERS = (
    ("Prio3 (two aggregators), a count", "about 232 B"),
    ("Prio3 (two aggregators), a histogram of 100 cells", "about 2,700 B"),
    ("RAPPOR, a Bloom filter of 128 bits", "16 B"),
)


def studies() -> Iterator[tuple[str, sf.Study, dict[str, object]]]:
    """Typical studies, each with a record."""
    d, u = sf.Distance, sf.Uniform
    ages = {"age": 31}
    yield (
        "age 0..99, distance 0.2",
        sf.Study("a", [sf.integers("age", 0, 99, protect=d("0.2"))]),
        ages,
    )
    yield (
        "age 0..99, distance 0.2, optional",
        sf.Study("b", [sf.integers("age", 0, 99, protect=d("0.2", no_answer=50), optional=True)]),
        ages,
    )
    yield (
        "100,000 metres, distance 0.01",
        sf.Study("c", [sf.integers("metre", 0, 99_999, protect=d("0.01"))]),
        {"metre": 31_415},
    )
    yield (
        "thermometer, 257 cells",
        sf.Study("d", [sf.integers("x", 0, 256, protect=d("0.05"), channel=sf.Thermometer())]),
        {"x": 31},
    )
    yield (
        "256 cells, uniform 1",
        sf.Study("e", [sf.integers("x", 0, 255, protect=u(1))]),
        {"x": 31},
    )
    yield (
        "256 cells, uniform 1, OUE",
        sf.Study("f", [sf.integers("x", 0, 255, protect=u(1), channel=sf.OUE())]),
        {"x": 31},
    )
    yield (
        "1,000,000 cells, uniform 1, Hadamard",
        sf.Study("g", [sf.integers("x", 0, 999_999, protect=u(1), channel=sf.Hadamard())]),
        {"x": 31_415},
    )
    yield (
        "1,024 cells, uniform 1, hierarchy",
        sf.Study("h", [sf.integers("x", 0, 1_023, protect=u(1), channel=sf.Hierarchical())]),
        {"x": 31},
    )
    yield (
        "whole records 32 × 32, uniform 1",
        sf.Study("i", [sf.integers("x", 0, 31), sf.integers("y", 0, 31)], protect=u(1)),
        {"x": 3, "y": 14},
    )
    yield (
        "commute: age, income, mode",
        sf.Study(
            "j",
            [
                sf.integers("age", 0, 99, protect=d("0.2")),
                sf.reals("income", 0, 200_000, bins=64, protect=d(1, per=10_000)),
                sf.categories("mode", ["car", "bus", "bike"], protect=u(1), optional=True),
            ],
        ),
        {"age": 31, "income": 52_000, "mode": "bike"},
    )


def measure() -> Measurement:
    """Sizes, and the time from a record to its bytes, in Python and in a browser."""
    rows = []
    held = [(*given, given[1].device_program()) for given in studies()]
    progress("in the browser")
    in_browser = _in_browser([(program, record) for _, _, record, program in held])
    for (name, study, record, program), elsewhere in zip(held, in_browser, strict=True):
        progress(name)
        text = program.to_text()
        drawn = 0

        def words() -> int:
            nonlocal drawn
            drawn += 1
            return 31_415_926_535_897_932 * drawn % (1 << 64)

        program.encode(record, words=words)
        best, _ = seconds(lambda p=program, r=record: [p.encode(r) for _ in range(_RECORDS)])
        rows.append(
            {
                "study": name,
                "channels": ", ".join(block.choice.id for block in study.blocks),
                "program bytes": len(text.encode()),
                "report bytes": program.report_size,
                "words": drawn,
                "ms per record": 1000 * best / _RECORDS,
                "ms in the browser": elsewhere,
            }
        )
    progress("imports")
    numpy, client = (min(_start(name) for _ in range(_STARTS)) for name in _MODULES)
    bare = min(_start("sys") for _ in range(_STARTS))
    return Measurement(
        "device programs of ten studies, one core",
        rows,
        [
            "a program may have at most 16 MiB; words: random words of 64 bits that a record draws",
            "in Python processor time, best of five; in a headless Chromium elapsed time, median "
            "of seven; both per record, after loading",
            f"import of the client: {(client - bare) / (numpy - bare):.2f} × that of NumPy in "
            "processor time, each beyond an empty interpreter",
        ],
    )


def page_tables(figures: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The tables of the tutorial, from recorded figures."""
    reports = [(row["study"], row["channels"], f"{row['report bytes']:,} B") for row in figures]
    reports += [(name, "", size) for name, size in _OTHERS]
    programs = [
        (
            row["study"],
            f"{row['program bytes']:,} B",
            f"{row['words']:,}",
            digits(row["ms per record"]),
            digits(row["ms in the browser"]),
        )
        for row in figures
    ]
    head = ("study", "program", "words drawn", "ms in Python", "ms in Chromium")
    return {
        "sizes": markdown(("study", "channels", "a report"), reports),
        "programs": markdown(head, programs),
    }


def _in_browser(held: Sequence[tuple[sf.Program, dict[str, object]]]) -> list[float]:
    """Milliseconds to encode a record in Chromium, for each program."""
    with browser(_FOLDERS) as context:
        page = context.new_page()
        page.goto(f"{ORIGIN}/")
        return [
            page.evaluate(
                """async (given) => (await import("/tests/browser.mjs")).timed(...given)""",
                [program.to_text(), program.digest, record, 20 * _RECORDS],
            )
            for program, record in held
        ]


_MODULES = ("numpy", "sfumato.device.client")


def _start(module: str) -> float:
    """Processor seconds to start Python and import a module."""
    before = os.times()
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])  # of children
