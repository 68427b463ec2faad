"""Reports added to an accumulator as bytes, one by one and in batches, beside plain NumPy."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

import sfumato as sf
from benchmarks.pages import digits, markdown
from benchmarks.recording import Measurement, progress, seconds
from sfumato.collect.packing import header, pack
from sfumato.device.wire import Batch

PEOPLE = 200_000
LEAST_ONE, LEAST_MANY = 200_000, 10_000_000


def measure() -> Measurement:
    """One core; what has to be reached stands beside what is."""
    study = sf.Study("a", [sf.integers("x", 0, 255, protect=sf.Distance("0.5"))])
    people = {"x": np.random.default_rng(1).integers(0, 256, PEOPLE)}
    reports = study.encode(people, bits=sf.SeededBits(1))
    rows = pack(reports)
    one = header(study.fingerprint, 1)
    raw = rows.tobytes()
    given = {
        "one report at a time": ([one + raw[k : k + 1] for k in range(PEOPLE)], LEAST_ONE),
        "packed, 1,000 at a time": (_packed(reports, 1_000), LEAST_MANY),
        "packed, 100,000 at a time": (_packed(reports, 100_000), LEAST_MANY),
        "batches of devices, one report each": (_batches(study, raw, 1), LEAST_ONE),
        "batches of devices, 1,000 reports each": (_batches(study, raw, 1_000), None),
    }
    plain, _ = seconds(lambda: np.bincount(np.frombuffer(raw, np.uint8), minlength=256))
    found: list[dict[str, Any]] = []
    for name, (parts, least) in given.items():
        progress(name)
        taken, _ = seconds(lambda parts=parts: add_all(study, parts))
        found.append(
            {
                "added": name,
                "million reports/s": PEOPLE / taken / 1e6,
                "at least": None if least is None else least / 1e6,
                "time / np.bincount of all": taken / plain,
            }
        )
    return Measurement(f"{PEOPLE:,} one-byte reports through bytes, one core", found)


def add_all(study: sf.Study, parts: Sequence[bytes]) -> sf.Tally:
    """Add every part to a new accumulator, and freeze it."""
    found = study.accumulator()
    for part in parts:
        found.add(part)
    return found.freeze()


def _packed(reports: sf.Reports, size: int) -> list[bytes]:
    return [reports[k : k + size].to_bytes() for k in range(0, len(reports), size)]


def _batches(study: sf.Study, raw: bytes, size: int) -> list[bytes]:
    """Batches as devices send them, of one-byte reports."""
    return [
        Batch(
            study.fingerprint,
            20_000,
            tuple(os.urandom(16) for _ in range(size)),
            tuple(raw[k : k + 1] for k in range(start, start + size)),
        ).to_bytes()
        for start in range(0, len(raw), size)
    ]


def page_tables(figures: Sequence[dict[str, Any]]) -> dict[str, str]:
    """The table for the page."""
    rows = [
        [
            row["added"],
            digits(row["million reports/s"]),
            "" if row["at least"] is None else digits(row["at least"]),
            digits(row["time / np.bincount of all"]),
        ]
        for row in figures
    ]
    head = ["added", "million reports per second", "at least", "time / np.bincount of all"]
    return {"accumulating": markdown(head, rows)}
