"""A part of the lock file: what a use of sfumato needs, with the same versions and hashes.

`python -m supply.part server` prints what the core and the extra `server` need, and what an
editable install takes.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Sequence

from supply.lock import PROJECT, Package, needed, read, stated_by


def part(packages: Sequence[Package], extras: Sequence[str]) -> list[Package]:
    """The packages that the core, some extras and an editable install need.

    Args:
        packages: What the lock file holds.
        extras: Names of extras in `pyproject.toml`.
    """
    stated = tomllib.loads(PROJECT.read_text(encoding="utf-8"))
    project = stated["project"]
    requirements = [*stated["build-system"]["requires"], "editables"]
    requirements += stated_by(project, *extras)
    names = needed(packages, requirements)
    return [package for package in packages if package.name in names]


def lines(packages: Sequence[Package]) -> list[str]:
    """The packages as lines of a lock file."""
    found = []
    for package in packages:
        marker = f" ; {package.marker}" if package.marker else ""
        hashes = [f"    --hash={digest}" for digest in package.hashes]
        found += " \\\n".join([f"{package.name}=={package.version}{marker}", *hashes]).split("\n")
    return found


if __name__ == "__main__":
    print("\n".join(lines(part(read(), sys.argv[1:]))))
