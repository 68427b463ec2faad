"""A command run hundreds of times on a busy machine ends well every time: `make soak`."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf

pytestmark = pytest.mark.soak

RUNS, AT_ONCE = 200, 4  # more at once than the machine has cores, so that threads are cut off
PEOPLE = 20_000


def test_encode_ends_well_every_time(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """No thread of a library may outlive the interpreter and take the process down with it."""
    sf.Study("s", [sf.integers("age", 0, 99, protect=sf.Distance(1))]).save(tmp_path / "s.toml")
    ages = [k % 100 for k in range(PEOPLE)]
    (tmp_path / "p.csv").write_text("age\n" + "".join(f"{age}\n" for age in ages))
    pq.write_table(pa.table({"age": ages}), tmp_path / "p.parquet")

    def run(number: int) -> tuple[int, str]:
        people = ("p.csv", "p.parquet")[number % 2]
        program = [sys.executable, "-c", "from sfumato.cli import main; main()"]
        command = ["encode", "s.toml", people, "--out", f"r{number}.parquet"]
        done = subprocess.run(
            [*program, *command], cwd=tmp_path, check=False, capture_output=True, text=True
        )
        return done.returncode, done.stderr

    with ThreadPoolExecutor(AT_ONCE) as pool:
        ends = Counter(pool.map(run, range(RUNS)))
    record_property("ends", [[code, message, count] for (code, message), count in ends.items()])
    assert ends == {(0, ""): RUNS}
    assert all(
        pq.read_metadata(tmp_path / f"r{number}.parquet").num_rows == PEOPLE
        for number in range(RUNS)
    )
