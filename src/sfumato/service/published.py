"""A study as the collector serves it: published once, and never changed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sfumato.auditing.audit import audit
from sfumato.checks import one_of, whole
from sfumato.collect.accumulator import KEEPS, Keep
from sfumato.collect.packing import layout_of
from sfumato.collect.tally import sends_bits
from sfumato.device.program import Program
from sfumato.device.wire import ReportLayout
from sfumato.service.refusals import RefusedError
from sfumato.service.stores.base import Run, Store
from sfumato.study.axis import Axis
from sfumato.study.study import Study

_COLUMNS = "number, fingerprint, file, program, explanation, audit, minimum, keep, day"
#: How many reports there must be before any answer, unless the study's owner says otherwise.
MINIMUM = 100
_MOST_LABELS = 4_096  # of an axis in `to_dict`


@dataclass(frozen=True)
class Published:
    """A study that takes reports.

    Attributes:
        number: Its number in the store.
        fingerprint: Its fingerprint, which names it in addresses.
        file: The text of the study file (TOML).
        program: The text of the device program (JSON).
        explanation: The guarantee in plain words.
        audit: What the exact audit found, as JSON.
        minimum: How many reports there must be before any answer.
        keep: What its tally keeps, as in `Study.accumulator`.
        day: When it was published, counted from 1970-01-01.
    """

    number: int
    fingerprint: str
    file: str
    program: str
    explanation: str
    audit: str
    minimum: int
    keep: Keep
    day: int

    @cached_property
    def study(self) -> Study:
        """The study itself."""
        return Study.from_toml(self.file, what=f"the published study {self.fingerprint[:12]}")

    @cached_property
    def layout(self) -> ReportLayout:
        """How a report is written."""
        return layout_of(self.study.layouts)

    @cached_property
    def digest(self) -> str:
        """The digest of the device program, which clients pin."""
        return Program.read(self.program, digest=json.loads(self.program)["digest"]).digest

    @cached_property
    def retention(self) -> str:
        """What is kept of each report, in words."""
        if not sends_bits(self.study):
            kept = "Once a report is tallied it is deleted; what stays is how often each was sent."
        elif self.keep == "sums":
            kept = (
                "Once a report is tallied it is deleted; what stays is one sum per bit or symbol."
            )
        else:
            kept = (
                "The tally of this study is the reports themselves, since its answers need whole "
                "reports: they are kept until the study is deleted, without ids and in an order "
                "that says nothing."
            )
        return f"{kept} Ids are deleted after the day on which their batch expires."

    def to_dict(self) -> dict[str, Any]:
        """What anybody may know about the study, for JSON."""
        return {
            "name": self.study.name,
            "fingerprint": self.fingerprint,
            "digest": self.digest,
            "report_bytes": self.layout.size,
            "minimum": self.minimum,
            "keep": self.keep,
            "retention": self.retention,
            "published": self.day,
            "axes": [_axis(axis) for axis in self.study.axes],
        }


def _axis(axis: Axis) -> dict[str, Any]:
    """What a page needs to offer questions about an axis."""
    domain, labels = axis.domain, axis.labels()
    held = {
        "name": axis.name,
        "kind": domain.kind,
        "unit": axis.unit,
        "cells": axis.size,
        "optional": axis.optional,
        "ordered": domain.ordered,
        "numeric": domain.numbers() is not None,
    }
    if domain.ordered:
        return held | {"domain": domain.to_dict()}
    return held | {"labels": labels[:_MOST_LABELS]}


def publish(
    store: Store, text: str, day: int, *, minimum: int = MINIMUM, keep: Keep = "reports"
) -> tuple[Published, bool]:
    """Publish a study; publishing the same again changes nothing.

    Args:
        store: Where.
        text: The text of the study file.
        day: Today.
        minimum: How many reports there must be before any answer.
        keep: What its tally keeps.

    Returns:
        The study, and whether it is new.

    Raises:
        RefusedError: If its guarantee does not hold, or if it is published with other contents.
    """
    whole(minimum, "minimum", least=1)
    one_of(keep, "keep", KEEPS)
    study = Study.from_toml(text)
    found = one(store, study.fingerprint)
    if found is None:
        checked = audit(study)
        if not checked.holds:
            raise RefusedError(
                400,
                "audit",
                f"the guarantee of study {study.name!r} does not hold, so it is not published; see "
                "what 'sfumato audit' says",
            )
        values = (
            study.fingerprint,
            study.to_toml(),
            study.device_program().to_text(),
            study.explain(),
            json.dumps(checked.to_dict()),
            minimum,
            keep,
            day,
        )
        with store.change() as run:
            found = _one(run, study.fingerprint)
            if found is None:
                run(
                    "INSERT INTO studies (fingerprint, file, program, explanation, audit, minimum, "
                    "keep, day) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    values,
                )
                made = _one(run, study.fingerprint)
                assert made is not None  # noqa: S101 - it was entered in this transaction
                return made, True
    if (found.file, found.minimum, found.keep) != (study.to_toml(), minimum, keep):
        raise RefusedError(
            409,
            "published",
            f"study {found.fingerprint[:12]} is published with other contents, and what is "
            "published never changes; give the study another name, or delete the published one "
            "with all of its reports",
        )
    return found, False


def one(store: Store, fingerprint: str) -> Published | None:
    """A published study, or None.

    Args:
        store: Where it is.
        fingerprint: Its fingerprint.
    """
    with store.look() as run:
        return _one(run, fingerprint)


def _one(run: Run, fingerprint: str) -> Published | None:
    """A published study in a transaction, or None."""
    row = run.one(
        f"SELECT {_COLUMNS} FROM studies WHERE fingerprint = ?",  # noqa: S608 - of constants
        (fingerprint,),
    )
    return None if row is None else Published(*row)


def every(store: Store) -> list[Published]:
    """All published studies, the oldest first."""
    with store.look() as run:
        rows = run(f"SELECT {_COLUMNS} FROM studies ORDER BY number")  # noqa: S608 - of constants
    return [Published(*row) for row in rows]


def delete(store: Store, study: Published) -> None:
    """Delete a study with all of its reports, ids and tallies; the log of questions stays.

    Args:
        store: Where it is.
        study: The study.
    """
    with store.change() as run:
        run("DELETE FROM studies WHERE number = ?", (study.number,))
        for table in ("segments", "ids", "tallies", "counters", "quarantine"):
            run(f"DELETE FROM {table} WHERE study = ?", (study.number,))  # noqa: S608 - of constants
