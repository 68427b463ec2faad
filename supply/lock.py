"""The lock file: one version and the hashes of all its files for every package that is installed.

`make lock` writes it, from the dependencies that `pyproject.toml` states.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LOCK = Path(__file__).with_name("requirements.lock")
PROJECT = Path(__file__).parent.parent / "pyproject.toml"

_ENTRY = re.compile(r"(?P<name>[a-z0-9][a-z0-9-]*)==(?P<version>\S+)(?: ; (?P<marker>.+?))? \\$")
_HASH = re.compile(r" {4}--hash=(?P<hash>sha256:[0-9a-f]{64})(?: \\)?$")
_VIA = re.compile(r" {4}#(?: via)?(?: +(?P<parent>[a-z0-9][a-z0-9-]*)(?: \(.*\))?)?$")


@dataclass(frozen=True)
class Package:
    """One version of a package in the lock file.

    Attributes:
        name: Its normalised name.
        version: The only version that is installed.
        marker: The environments in which this version is installed; empty for all.
        hashes: Of its files, one of which is installed.
        parents: The packages that need it.
    """

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]
    parents: tuple[str, ...]


def read(path: Path = LOCK) -> list[Package]:
    """All packages of the lock file; a line of another kind is refused."""
    found: list[Package] = []
    for number, line in enumerate(path.read_text(encoding="ascii").splitlines(), start=1):
        if line.startswith("# "):
            continue
        if entry := _ENTRY.match(line):
            name, version, marker = entry.group("name", "version", "marker")
            found.append(Package(name, version, marker or "", (), ()))
        elif found and (held := _HASH.match(line)):
            found[-1] = _with(found[-1], hashes=held["hash"])
        elif found and (via := _VIA.match(line)):
            found[-1] = _with(found[-1], parents=via["parent"])
        else:
            raise ValueError(f"line {number} of {path.name} is none of a lock file: {line!r}")
    return found


def _with(package: Package, *, hashes: str | None = None, parents: str | None = None) -> Package:
    """The package with one more hash or parent."""
    return Package(
        package.name,
        package.version,
        package.marker,
        package.hashes + ((hashes,) if hashes else ()),
        package.parents + ((parents,) if parents else ()),
    )


def name_of(requirement: str) -> str:
    """The normalised name of a requirement."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None, requirement
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def stated_by(project: Mapping[str, Any], *extras: str) -> list[str]:
    """What the core and these extras state; an extra that names another one has what that states.

    Args:
        project: The table `project` of `pyproject.toml`.
        extras: Names of extras.
    """
    found = list(project["dependencies"])
    for extra in extras:
        for requirement in project["optional-dependencies"][extra]:
            if name_of(requirement) == project["name"]:
                named = requirement.partition("[")[2].partition("]")[0]
                found += stated_by(project, *named.replace(" ", "").split(","))
            else:
                found.append(requirement)
    return list(dict.fromkeys(found))


def needed(packages: Sequence[Package], requirements: Iterable[str]) -> set[str]:
    """Names of these requirements and of all that they need in turn."""
    found: set[str] = set()
    more = {name_of(requirement) for requirement in requirements}
    while more:
        found |= more
        more = {p.name for p in packages if more & set(p.parents)} - found
    return found
