"""Reports packed into bytes and read back, beside a plain copy of the same bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

import sfumato as sf
from benchmarks.recording import Measurement, progress, seconds
from sfumato.collect.packing import pack, unpack

PEOPLE = 1_000_000


def measure() -> Measurement:
    """One-byte reports, and reports of several blocks, one core."""
    d, u = sf.Distance, sf.Uniform
    source = np.random.default_rng(1)
    studies = {
        "one axis, 1 byte": sf.Study("a", [sf.integers("x", 0, 255, protect=d("0.5"))]),
        "three axes, 2 bytes": sf.Study(
            "b",
            [
                sf.integers("x", 0, 99, protect=d("0.5")),
                sf.integers("y", 0, 63, protect=d("0.5")),
                sf.integers("z", 0, 3, protect=u(1)),
            ],
        ),
        "thermometer of 65 cells, 8 bytes": sf.Study(
            "c", [sf.integers("x", 0, 64, protect=d("0.5"), channel=sf.Thermometer())]
        ),
    }
    rows: list[dict[str, Any]] = []
    for name, study in studies.items():
        progress(name)
        people = {axis.name: source.integers(0, axis.size, PEOPLE) for axis in study.axes}
        reports = study.encode(people)
        packed = pack(reports)
        raw = packed.tobytes()
        plain, _ = seconds(lambda raw=raw: np.frombuffer(raw, np.uint8).copy())
        there, _ = seconds(lambda held=reports: pack(held).tobytes())
        args = (packed, study.fingerprint, study.columns, study.layouts)
        back, _ = seconds(lambda args=args: unpack(*args))
        rows.append(
            {
                "reports": name,
                "packed, million/s": PEOPLE / there / 1e6,
                "unpacked, million/s": PEOPLE / back / 1e6,
                "packing / np.frombuffer().copy()": there / plain,
                "unpacking / np.frombuffer().copy()": back / plain,
            }
        )
    return Measurement(f"{PEOPLE:,} reports as bytes, one core", rows)
