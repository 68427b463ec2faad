"""How fast a million people are encoded, beside other samplers of the same noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import opendp.prelude as dp

import sfumato as sf
from benchmarks.recording import Measurement, peak_memory, progress, seconds

PEOPLE = 1_000_000
FEWER = 20_000  # for what would take a minute otherwise
SIZE = 256
EPSILON = 0.5


def measure() -> Measurement:
    """Geometric and thermometer reports on one axis of 256 cells, secure source, one core."""
    ages = np.random.default_rng(1).integers(0, SIZE, PEOPLE)
    rows = []
    for choice in (sf.Geometric(), sf.Thermometer()):
        axis = sf.integers("age", 0, SIZE - 1, protect=sf.Distance(EPSILON), channel=choice)
        study = sf.Study("speed", [axis])
        channel = study.channels[0]
        bits = SIZE - 1 if choice.id == "thermometer" else 0
        for what, work in (
            (f"{choice.id}: study.encode", lambda study=study: study.encode({"age": ages})),
            (
                f"{choice.id}: channel alone",
                lambda channel=channel: channel.encode(ages, sf.SecureBits()),
            ),
        ):
            progress(what)
            rows.append(_row(what, PEOPLE, seconds(work), bits))
    progress("NumPy")
    rows.append(_row("NumPy: difference of two geometrics", PEOPLE, seconds(lambda: _numpy(ages))))
    progress("OpenDP")
    few = ages[:FEWER].tolist()
    opendp = discrete_laplace(EPSILON)
    rows.append(_row("OpenDP: discrete Laplace", FEWER, seconds(lambda: opendp(few), repeat=3)))
    base = next(row["people/s"] for row in rows if row["what"] == "geometric: study.encode")
    for row in rows:
        row["geometric study.encode is faster ×"] = base / row["people/s"]
    return Measurement(
        f"{PEOPLE:,} people, one axis, m = {SIZE}, ε = {EPSILON}, one core",
        [*rows],
        [*_memory(), "NumPy's sampler is neither exact nor secure; OpenDP's is both."],
    )


def _row(what: str, people: int, times: tuple[float, float], bits: int = 0) -> dict[str, Any]:
    """Rates by the best time, and the median for the spread."""
    best, median = times
    return {
        "what": what,
        "people": people,
        "best s": best,
        "median s": median,
        "people/s": people / best,
        "million bits/s": people * bits / best / 1e6 if bits else "",
    }


def _numpy(ages: np.ndarray) -> np.ndarray:
    """The same law with floating-point samplers."""
    rng = np.random.default_rng()
    chance = 1 - math.exp(-EPSILON)
    noise = rng.geometric(chance, len(ages)) - rng.geometric(chance, len(ages))
    return np.clip(ages + noise, 0, SIZE - 1).astype(np.uint8)


def discrete_laplace(epsilon: float) -> Any:
    """The same law, before clamping, as OpenDP samples it."""
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i32"))
    return dp.m.make_laplace(domain, dp.l1_distance(T="i32"), scale=1 / epsilon)


def _memory() -> list[str]:
    """Peak memory above the output, for one, four and eight million people."""
    notes = []
    for choice in (sf.Geometric(), sf.Thermometer()):
        axis = sf.integers("age", 0, SIZE - 1, protect=sf.Distance(EPSILON), channel=choice)
        channel = sf.Study("memory", [axis]).channels[0]
        parts = []
        for people in (PEOPLE, 4 * PEOPLE, 8 * PEOPLE):
            ages = np.random.default_rng(1).integers(0, SIZE, people)
            peak, out = peak_memory(lambda c=channel, a=ages: c.encode(a, sf.SecureBits()))
            held = out.words.nbytes if hasattr(out, "words") else out.nbytes  # type: ignore[attr-defined]
            parts.append(
                f"{people:,} people: output {held / 2**20:.1f} MiB, "
                f"peak above it {(peak - held) / 2**20:.1f} MiB"
            )
        notes.append(f"memory of {choice.id}: {'; '.join(parts)}")
    return notes
