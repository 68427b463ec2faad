"""What is released, built as for a release, and put into environments that hold nothing else."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

from supply import part
from supply.lock import needed, read

ROOT = Path(__file__).parent.parent


def run(*words: object, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command that may fail, with no path to this checkout.

    Args:
        words: The command.
        cwd: Where it runs.
        more: Variables of its environment.
    """
    return subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin", "HOME": str(cwd), **more},
        capture_output=True,
        text=True,
    )


def build(root: Path, out: Path, target: str) -> Path:
    """Build a wheel or a source distribution; returns its file.

    Args:
        root: The folder of the project.
        out: Where it goes.
        target: "wheel" or "sdist".
    """
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(out)],
        cwd=root,
        check=True,
        capture_output=True,
    )
    (file,) = out.glob("*.whl" if target == "wheel" else "*.tar.gz")
    return file


def environment(
    folder: Path, python: str, extras: Iterable[str], more: Iterable[str], wheel: Path
) -> Path:
    """A new virtual environment with locked packages and a wheel; returns its interpreter.

    Args:
        folder: Where it goes.
        python: The interpreter that makes it.
        extras: The extras to install.
        more: More packages of the lock file, with what they need.
        wheel: The wheel of this project.
    """
    subprocess.run([python, "-m", "venv", str(folder)], check=True, capture_output=True)
    packages = read()
    wanted = {package.name for package in part.part(packages, list(extras))} - {"hatchling"}
    wanted |= needed(packages, more)
    lock = folder / "part.lock"
    lock.write_text("\n".join(part.lines([p for p in packages if p.name in wanted])) + "\n")
    made = folder / "bin" / "python"
    pip = [str(made), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    for words in (["--require-hashes", "--requirement", str(lock)], ["--no-deps", str(wheel)]):
        subprocess.run([*pip, *words], check=True, capture_output=True)
    return made


def unpack(wheel: Path, folder: Path) -> list[str]:
    """Put a wheel's files into a folder; returns their names."""
    with zipfile.ZipFile(wheel) as held:
        held.extractall(folder)
        return held.namelist()
