"""Timing, memory, tables, and the JSON record of a measurement."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

FOLDER = Path("results/bench")


@dataclass(frozen=True)
class Measurement:
    """Rows of figures under one title; every row has the same columns."""

    title: str
    rows: Sequence[dict[str, Any]]
    notes: Sequence[str] = ()

    def table(self) -> str:
        """The rows as aligned text."""
        names = list(self.rows[0])
        cells = [names, *([_shown(row[name]) for name in names] for row in self.rows)]
        widths = [max(len(line[column]) for line in cells) for column in range(len(names))]
        lines = ["  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) for line in cells]
        lines.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join([*(line.rstrip() for line in lines), *(f"\n{n}" for n in self.notes)])


def _shown(value: Any) -> str:
    """A figure for reading."""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def seconds(work: Callable[[], object], *, repeat: int = 5) -> tuple[float, float]:
    """The best and the median processor time of some runs after one to warm up.

    Processor time, since everything runs in one thread: on a busy machine a long run is interrupted
    and a short one is not, so ratios of times on the wall would flatter whoever is short.

    Args:
        work: What is timed.
        repeat: How many runs.
    """
    work()
    times = []
    for _ in range(repeat):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times), statistics.median(times)


def peak_memory(work: Callable[[], object]) -> tuple[int, object]:
    """The most bytes held at once by what some work allocates, and what it returns."""
    tracemalloc.start()
    result = work()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak, result


def write(name: str, found: Measurement) -> Path:
    """Write a measurement to a file, with what is needed to repeat it.

    Args:
        name: The name of the measurement.
        found: Its figures.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.json"
    record = {
        **origin(f"python -m benchmarks {name}"),
        "machine": machine(),
        "title": found.title,
        "notes": list(found.notes),
        "figures": list(found.rows),
    }
    path.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def origin(command: str) -> dict[str, Any]:
    """The command that repeats a measurement, when it was run, and on which commit."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"command": command, "date": now, "commit": _commit()}


def machine() -> dict[str, Any]:
    """What affects speed, without names that identify the machine."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads_used": 1,
        "load_at_the_end": load,
        "system": platform.system(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "scipy", "pyarrow", "cryptography", "opendp")},
    }


def _processor() -> str:
    """The processor's model, where the system tells it."""
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        for line in facts.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _commit() -> str | None:
    """The commit measured, marked if files differ from it; None outside a repository."""
    here = ["git", "-C", str(Path(__file__).parent)]
    try:
        head = subprocess.run(
            [*here, "rev-parse", "HEAD"], capture_output=True, text=True, check=True
        )
        changed = subprocess.run(
            [*here, "status", "--porcelain", "--", "../src"], capture_output=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return head.stdout.strip() + (" with changes" if changed.stdout else "")


def progress(text: str) -> None:
    """Say what is being measured, where it does not mix with the tables."""
    print(f"… {text}", file=sys.stderr)
