"""Speed beside other libraries: what was recorded reaches the goals, and the page shows it."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:  # for the benchmarks, whose reading of counts is checked here
    sys.path.insert(0, str(ROOT))

from benchmarks import pages, peers  # noqa: E402

PAGE = ROOT / peers.PAGE


def record() -> list[dict[str, Any]]:
    text = (ROOT / "results" / "bench" / "peers.json").read_text(encoding="utf-8")
    figures: list[dict[str, Any]] = json.loads(text)["figures"]
    return figures


def test_every_goal_is_reached_in_the_recorded_run() -> None:
    ours = {(row["method"], row["k"]): row for row in record() if row["what"] == peers.OURS}
    assert set(ours) == {(method, size) for method in peers.METHODS for size in peers.SIZES}
    for (method, _), row in ours.items():
        assert row["people"] == 100_000
        assert row["goal ×"] == {"OUE": 20, "HRR": 100, "Hadamard": 100, "OLH": 50}[method]
        assert row["× the faster other"] >= row["goal ×"]


def test_everybody_did_the_same_work() -> None:
    """No error beyond what the method has, within four standard deviations.

    FastLH adds n²·Σ share²/(1,024·(g − 1)) to the variance n·4e^ε/(e^ε − 1)², here up to 5 %.
    """
    cells = min(peers.SIZES) * peers.ROUNDS
    most = np.sqrt(1.05) * (1 + 4 / np.sqrt(2 * cells))
    seen = [row["RMSE/expected"] for row in record() if row["RMSE/expected"] != ""]
    assert len(seen) == len(record()) - len(peers.METHODS) * len(peers.SIZES)
    assert all(0 < error < most for error in seen)


def test_the_page_shows_the_recorded_figures() -> None:
    text = PAGE.read_text(encoding="utf-8")
    figures = record()
    shown = pages.refilled(text, peers.page_tables(figures))
    assert text == shown, "run: python -m benchmarks.peers"
    other = [row | {"people/s": 2 * row["people/s"]} for row in figures]
    assert text != pages.refilled(text, peers.page_tables(other))


@pytest.mark.parametrize("method", peers.METHODS)
def test_counts_by_one_transform_are_those_of_the_histogram(method: str) -> None:
    cells = np.arange(3_000) ** 2 % 17
    for size in (17, 20):  # full, and with cells where nobody is
        ours = peers.Ours(peers.METHODS[method][0], size)
        tally = ours.study.simulate({"x": cells}, seed=1)
        right = tally.estimate("unbiased").histogram("x").values
        np.testing.assert_allclose(ours.histogram(tally), right, rtol=1e-9, atol=1e-6)
        ours._slope *= 1.001
        assert not np.allclose(ours.histogram(tally), right, rtol=1e-9, atol=1e-6)


def test_the_runner_imports_nothing_of_ours() -> None:
    """It runs where only the other library is."""
    tree = ast.parse((ROOT / "benchmarks" / "peer_runner.py").read_text(encoding="utf-8"))
    found = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert found - set(sys.stdlib_module_names) == {"pure_ldp", "multi_freq_ldpy"}


def test_an_environment_that_cannot_be_made_says_what_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "peers-nobody.txt").write_text("nobody\n", encoding="utf-8")
    monkeypatch.setattr(peers, "HERE", tmp_path)
    monkeypatch.setattr(peers, "ENVIRONMENTS", tmp_path / "made")
    monkeypatch.setattr(peers.sys, "executable", "/bin/false")
    with pytest.raises(SystemExit, match=r"environment for nobody .* peers-nobody\.txt"):
        peers.environment("nobody")
    assert not (tmp_path / "made" / "nobody" / "made-from.txt").exists()
