"""The software bill of materials: CycloneDX 1.6, made from the lock file and nothing else.

`python -m supply.bill` writes it; `make lock` does so too. The same lock file gives the same bill.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from supply.lock import LOCK, PROJECT, Package, name_of, needed, read, stated_by

BILL = Path(__file__).with_name("sbom.cdx.json")


def bill(packages: Sequence[Package], lock: bytes, project: dict[str, Any]) -> dict[str, Any]:
    """The bill of materials as plain values.

    Args:
        packages: What the lock file holds.
        lock: The bytes of the lock file, which number the bill.
        project: The table `project` of `pyproject.toml`.
    """
    refs = [_ref(package) for package in packages]
    core = needed(packages, stated_by(project))
    extras = [name for name in project["optional-dependencies"] if name != "dev"]
    runs = needed(packages, stated_by(project, *extras))
    itself = {
        "type": "library",
        "bom-ref": project["name"],
        "name": project["name"],
        "version": project["version"],
        "licenses": [{"license": {"id": project["license"]}}],
    }
    stated = stated_by(project, *project["optional-dependencies"])
    direct = {name_of(requirement) for requirement in stated}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": uuid.UUID(bytes=hashlib.sha256(lock).digest()[:16], version=4).urn,
        "version": 1,
        "metadata": {"component": itself},
        "components": [
            {
                "type": "library",
                "bom-ref": ref,
                "name": package.name,
                "version": package.version,
                "purl": ref,
                "scope": (
                    "required"
                    if package.name in core
                    else "optional"
                    if package.name in runs
                    else "excluded"
                ),
                **({"properties": [_marker(package)]} if package.marker else {}),
            }
            for package, ref in zip(packages, refs, strict=True)
        ],
        "dependencies": [
            {
                "ref": project["name"],
                "dependsOn": [_ref(package) for package in packages if package.name in direct],
            },
            *(
                {
                    "ref": ref,
                    "dependsOn": [
                        other
                        for held, other in zip(packages, refs, strict=True)
                        if package.name in held.parents
                    ],
                }
                for package, ref in zip(packages, refs, strict=True)
            ),
        ],
    }


def text() -> str:
    """The bill for the lock file as it is."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    return json.dumps(bill(read(), LOCK.read_bytes(), project), indent=1) + "\n"


def _ref(package: Package) -> str:
    """The package URL."""
    return f"pkg:pypi/{package.name}@{package.version}"


def _marker(package: Package) -> dict[str, str]:
    """Where this version is installed."""
    return {"name": "sfumato:marker", "value": package.marker}


if __name__ == "__main__":
    BILL.write_text(text(), encoding="utf-8")
