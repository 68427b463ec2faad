"""What a device needs is light: a study file and one record, without SciPy, Arrow or pandas."""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from sfumato.channels.choice import REGISTRY

HEAVY = ["scipy", "pyarrow", "pandas", "polars", "matplotlib", "plotly", "rich", "typer"]

AXES: dict[str, tuple[sf.Axis, Any]] = {
    "age": (sf.integers("age", 0, 99, protect=sf.Distance(0.2, cap=3), outside="clip"), 131),
    "pay": (sf.reals("pay", 0, 100, bins=10, protect=sf.Distance(1, per=10)), "3.5"),
    "tax": (sf.reals("tax", edges=[0, 1, 5, 9], protect=sf.Distance(1)), 4.5),
    "height": (
        sf.reals("height", 0, 9, bins=3, rounding="stochastic", protect=sf.Distance(1)),
        4.2,
    ),
    "day": (sf.dates("day", "2024-01-01", "2024-01-31", protect=sf.Distance(1)), "2024-01-05"),
    "hour": (sf.times("hour", "06:00", "10:00", step="1 hour", protect=sf.Uniform(1)), "06:30"),
    "place": (sf.categories("place", ["n", "s", "e"], protect=sf.Uniform(1), optional=True), None),
}

LETTERS = list("abcdefgh")
LABELS: dict[str, Any] = {
    "blocks": sf.Blocks(1, [LETTERS[:4], LETTERS[4:]]),
    "high_low": sf.HighLow(1, ["a"]),
    "sensitive_set": sf.SensitiveSet(1, ["a"]),
    "policy_graph": sf.PolicyGraph(1, [("a", other) for other in LETTERS[1:]]),
    "points": sf.Points(1, at={letter: (place, 0) for place, letter in enumerate(LETTERS)}),
    "within": sf.Within(1, 2, at={letter: (place, 0) for place, letter in enumerate(LETTERS)}),
    "matrix": sf.Matrix([[abs(i - j) for j in range(8)] for i in range(8)]),
    "sum": sf.Uniform(1) + sf.HighLow(1, ["a"]),
}

LINE = sf.Distance(0.5)
CHANNELS: dict[str, tuple[Any, Any]] = {
    "geometric": (sf.Geometric(), LINE),
    "thermometer": (sf.Thermometer(), LINE),
    "kary-response": (sf.KaryResponse(), sf.Uniform(1)),
    "exponential": (sf.Exponential(), LINE),
    "oue": (sf.OUE(), sf.Uniform(1)),
    "olh": (sf.OLH(), sf.Uniform(1)),
    "hrr": (sf.HRR(), sf.Uniform(1)),
    "square-wave": (sf.SquareWave(), sf.Uniform(1)),
    "optimised": (sf.Optimised(), sf.Uniform(1)),
    "extremal": (sf.Extremal(), sf.Uniform(1)),
    "matrix-response": (sf.MatrixResponse("identity"), sf.Uniform(1)),
    "comb": (sf.Comb(), sf.Uniform(1)),
    "hierarchical": (sf.Hierarchical(), sf.Uniform(1)),
    "haar-hrr": (sf.HaarHRR(), sf.Uniform(1)),
    "hadamard": (sf.Hadamard(), sf.Uniform(1)),
    "extended": (sf.Extended(), sf.HighLow(1, [3, 4])),
    "rakes": (sf.Rakes(3, 1, Fraction(1, 3)), LINE),
    "pairs": (sf.Pairs(sf.Comb()), sf.Uniform(1)),
    "per-block": (sf.PerBlock(sf.Geometric()), LINE),
    "product": (sf.Product((2, 4)), LINE),
    "stricter": (sf.Stricter("uniform", sf.KaryResponse()), LINE),
}


def made() -> dict[str, tuple[sf.Study, dict[str, Any]]]:
    """Studies with every kind of axis, metric and channel, and one person for each."""
    found: dict[str, tuple[sf.Study, dict[str, Any]]] = {}
    found["axes"] = (
        sf.Study("axes", [axis for axis, _ in AXES.values()]),
        {name: value for name, (_, value) in AXES.items()},
    )
    for name, metric in LABELS.items():
        axis = sf.categories("letter", LETTERS, protect=metric)
        found[f"metric {name}"] = (sf.Study(name, [axis]), {"letter": "c"})
    for name, (choice, metric) in CHANNELS.items():
        axis = sf.integers("score", 0, 7, protect=metric, channel=choice)
        found[f"channel {name}"] = (sf.Study(name, [axis]), {"score": 3})
    two = sf.categories("two", ["a", "b"], protect=sf.HighLow(1, ["a"]), channel=sf.Binary())
    found["channel binary"] = (sf.Study("binary", [two]), {"two": "b"})
    pair = [sf.integers("age", 0, 9), sf.categories("mode", ["car", "bus"], optional=True)]
    one = {"age": 3, "mode": "bus"}
    found["whole records"] = (sf.Study("whole", pair, protect=sf.Uniform(1)), one)
    home = sf.places("home", (0, 0, 1, 1), cell="10 km", protect=sf.Distance(1, per="10 km"))
    found["channel planar"] = (sf.Study("homes", [home]), {"home_lat": 0.3, "home_lon": 0.6})
    many = [sf.integers(name, 0, 9) for name in "abcd"]
    pairs = sf.Study("pairs", many, protect=sf.Uniform(1), channel=sf.Pairs())
    found["pairs of axes"] = (pairs, dict.fromkeys("abcd", 3))
    alone = sf.integers("score", 0, 7, protect=LINE)
    mixed = [sf.together(pair, protect=sf.Uniform(1)), alone]
    found["mixed"] = (sf.Study("mixed", mixed), {**one, "score": 5})
    return found


CODE = """
import json, sys
from sfumato.study.study import Study
heavy = set(json.loads(sys.argv[1]))
for path, record in json.loads(sys.stdin.read()):
    assert len(Study.load(path).encode(record)) == 1
    assert not heavy & set(sys.modules), (path, heavy & set(sys.modules))
"""


@pytest.mark.slow
def test_one_record_of_any_study_is_encoded_without_a_heavy_library(tmp_path: Path) -> None:
    jobs = []
    for name, (study, record) in made().items():
        study.save(tmp_path / f"{name}.toml")
        jobs.append((str(tmp_path / f"{name}.toml"), record))
    done = subprocess.run(
        [sys.executable, "-c", CODE, json.dumps(HEAVY)],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2_000:]


def test_every_registered_channel_is_among_them() -> None:
    assert {*CHANNELS, "binary", "planar"} == set(REGISTRY)


@pytest.mark.parametrize("heavy", ["pyarrow", "scipy"])
def test_the_check_sees_a_heavy_library(heavy: str, tmp_path: Path) -> None:
    study, record = sf.Study("age", [AXES["age"][0]]), {"age": 3}
    study.save(tmp_path / "age.toml")
    done = subprocess.run(
        [sys.executable, "-c", f"import {heavy}\n{CODE}", json.dumps(HEAVY)],
        input=json.dumps([(str(tmp_path / "age.toml"), record)]),
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert heavy in done.stderr
