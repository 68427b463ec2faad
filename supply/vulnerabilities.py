"""A check of the lock file against known vulnerabilities: `python -m supply.vulnerabilities`.

It fails if a vulnerability is known, and passes if none is. Where the database cannot be reached it
says "not checked" and passes as well, so that it can run anywhere; only the words tell the two
apart.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from supply.lock import Package, read

_NO_NETWORK = ("ConnectionError", "ProxyError", "ConnectTimeout", "ReadTimeout", "NameResolution")


def pins(packages: Sequence[Package]) -> Iterator[str]:
    """Lists of exact versions, each with one version of a package; two where markers differ."""
    versions: dict[str, list[str]] = {}
    for package in packages:
        versions.setdefault(package.name, []).append(package.version)
    for turn in range(max(map(len, versions.values()))):
        lines = [f"{name}=={held[turn]}\n" for name, held in versions.items() if turn < len(held)]
        yield "".join(lines)


def judged(output: str, errors: str) -> tuple[int, str]:
    """The exit code and what to say of one run of pip-audit.

    Args:
        output: What it printed: one JSON document, if it came to a result.
        errors: What it printed on stderr.
    """
    try:
        dependencies = json.loads(output)["dependencies"]
    except (ValueError, KeyError, TypeError):
        if any(word in errors for word in _NO_NETWORK):
            return 0, "not checked: the database of vulnerabilities cannot be reached"
        return 2, f"not checked: pip-audit failed\n{errors.strip()}"
    known = [
        f"{held['name']} {held['version']}: {found['id']}, fixed in "
        f"{', '.join(found['fix_versions']) or 'no version yet'}"
        for held in dependencies
        for found in held.get("vulns", [])
    ]
    skipped = [held["name"] for held in dependencies if "skip_reason" in held]
    if known:
        return 1, "known vulnerabilities:\n" + "\n".join(known)
    if len(skipped) == len(dependencies):
        return 0, "not checked: the database of vulnerabilities knows none of the packages"
    words = f"no known vulnerabilities in {len(dependencies) - len(skipped)} packages"
    return 0, words + (f"; not checked: {', '.join(skipped)}" if skipped else "")


def main() -> int:
    """Run pip-audit on every list of versions; the worst result decides."""
    worst = 0
    for lines in pins(read()):
        with tempfile.TemporaryDirectory() as folder:
            listed = Path(folder) / "pins.txt"
            listed.write_text(lines, encoding="ascii")
            command = [sys.executable, "-m", "pip_audit", "--requirement", str(listed)]
            command += ["--no-deps", "--disable-pip", "--format", "json"]
            command += ["--progress-spinner", "off", "--timeout", "10"]
            run = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        code, words = judged(run.stdout, run.stderr)
        print(words)
        worst = max(worst, code)
    return worst


if __name__ == "__main__":
    sys.exit(main())
