"""Running exhibits, with results kept between runs, and the document of a whole run.

A result is kept under a digest of everything that decides it: the source of this package, the
exhibit, the seed, whether the run is quick, and the files of data.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from sfumato import __version__, files
from sfumato.reproduction.exhibits import Data, Exhibit, Finding, ReproductionError, Run

_SOURCE = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Made:
    """An exhibit with its result.

    Attributes:
        exhibit: What was made.
        data: The result; None if files of data are missing.
        missing: These files.
        seconds: Processor time that it took.
        kept: Whether the result was kept from an earlier run.
    """

    exhibit: Exhibit
    data: Data | None
    missing: Sequence[str] = ()
    seconds: float = 0.0
    kept: bool = False

    @property
    def findings(self) -> list[Finding]:
        """Ours beside the paper."""
        return [] if self.data is None else self.exhibit.findings(self.data)

    @property
    def left_out(self) -> str:
        """Which files are missing, and what they would add."""
        return f"{', '.join(self.missing)} would add {self.exhibit.adds}"


def made(
    exhibits: Sequence[Exhibit],
    run: Run,
    *,
    fresh: bool = False,
    seen: Callable[[float, str], None] = lambda share, name: None,
) -> Iterator[Made]:
    """Every exhibit, made or taken from the cache; without its data, one is left out.

    Args:
        exhibits: What to make.
        run: How.
        fresh: Whether to make again what was kept.
        seen: Called with the share that is done, and with what is made now.
    """
    for place, exhibit in enumerate(exhibits):
        name = f"{exhibit.paper}, {exhibit.name}"

        def report(share: float, place: int = place, name: str = name) -> None:
            seen((place + share) / len(exhibits), name)

        report(0.0)
        missing = exhibit.missing(run)
        if missing:
            yield Made(exhibit, None, missing)
            continue
        place_kept = f"reproduce-{_digest(exhibit, run)}.json"
        kept = None if fresh else _kept(place_kept)
        if kept is not None:
            yield Made(exhibit, kept["data"], seconds=kept["seconds"], kept=True)
            continue
        start = time.process_time()
        data = exhibit.make(replace(run, seen=report))
        # What is kept and what is shown are the same: both have been through JSON.
        text = json.dumps({"data": data, "seconds": round(time.process_time() - start, 1)})
        files.keep(place_kept, text)
        found = json.loads(text)
        yield Made(exhibit, found["data"], seconds=found["seconds"])


def document(results: Sequence[Made], run: Run, command: str) -> dict[str, Any]:
    """A whole run as one document, from which everything else can be made.

    Args:
        results: What was made.
        run: How.
        command: The command that repeats it.
    """
    return {
        "command": command,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": __version__,
        "seed": run.seed,
        "quick": run.quick,
        "exhibits": [
            {
                "id": held.exhibit.id,
                "paper": held.exhibit.paper,
                "label": held.exhibit.name,
                "title": held.exhibit.title,
                "settings": held.exhibit.settings,
                "seconds": held.seconds,
                "missing": list(held.missing),
                "findings": [finding.to_dict() for finding in held.findings],
                "data": held.data,
            }
            for held in results
        ],
    }


def recalled(document: dict[str, Any], exhibits: Sequence[Exhibit]) -> list[Made]:
    """The results in a document, with the exhibits that made them.

    Args:
        document: As `document` gives it.
        exhibits: All exhibits.
    """
    held = {part["id"]: part for part in document["exhibits"]}
    absent = [one.id for one in exhibits if one.id not in held]
    if absent:
        raise ReproductionError(f"the record has no {', '.join(absent)}; make it again")
    return [
        Made(one, held[one.id]["data"], held[one.id]["missing"], held[one.id]["seconds"])
        for one in exhibits
    ]


def _digest(exhibit: Exhibit, run: Run) -> str:
    """A name for everything that decides a result."""
    found = hashlib.sha256(f"{_sources()} {exhibit.id} {run.seed} {run.quick}".encode())
    for name in exhibit.needs:
        with run.file(name).open("rb") as file:
            found.update(hashlib.file_digest(file, "sha256").digest())
    return found.hexdigest()[:32]


@cache
def _sources() -> str:
    """A digest of the source of the whole package."""
    found = hashlib.sha256()
    for file in sorted(_SOURCE.rglob("*.py")):
        found.update(file.read_bytes())
    return found.hexdigest()


def _kept(name: str) -> dict[str, Any] | None:
    """A result kept earlier, if it is whole."""
    text = files.read(name)
    try:
        found = json.loads(text or "")
    except ValueError:
        return None
    whole = isinstance(found, dict) and {"data", "seconds"} <= set(found)
    return found if whole else None
