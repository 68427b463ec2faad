"""The table that opens the README comes from recorded results."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from benchmarks import beyond, pages

ROOT = Path(__file__).parents[2]


def test_the_readme_shows_the_recorded_table() -> None:
    text = (ROOT / beyond.PAGE).read_text(encoding="utf-8")
    shown = pages.refilled(text, {beyond.NAME: beyond.table(ROOT)})
    assert text == shown, "run: python -m benchmarks.beyond"


def test_another_record_would_be_another_table(tmp_path: Path) -> None:
    for name in (
        "bench/decoding.json",
        "bench/plain.json",
        "bench/context.json",
        "soak/acharya.json",
        "reproduction.json",
    ):
        file = tmp_path / beyond.RESULTS / name
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / beyond.RESULTS / name, file)
    assert beyond.table(tmp_path) == beyond.table(ROOT)
    path = tmp_path / beyond.RESULTS / "bench/decoding.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    for row in record["figures"]:
        row["published"] = 2 * row["published"]
    path.write_text(json.dumps(record), encoding="utf-8")
    assert beyond.table(tmp_path) != beyond.table(ROOT)


def test_ratios_have_intervals_where_runs_were_repeated() -> None:
    assert beyond.times(3.0, 2.0, None) == "1.5"
    assert beyond.times(3.0, 2.0, 0.1) == "1.5 (1.2 to 1.8)"
