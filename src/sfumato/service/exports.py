"""Taking tallies and reports out of a collector, each time entered in the log of questions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sfumato.arrays import Outputs
from sfumato.collect.statistics import BitReports, SymbolCounts
from sfumato.collect.tally import Tally
from sfumato.errors import MismatchError, QuestionError
from sfumato.files import write_whole
from sfumato.service import published
from sfumato.service.answering import enter, entry_of, log
from sfumato.service.published import Published
from sfumato.service.stores.base import Store
from sfumato.service.tallying import read_tally, tally_pending
from sfumato.service.tokens import Token
from sfumato.study.reports import Reports

What = Literal["tally", "reports"]
_LEAST_DIGITS = 8


def find(store: Store, fingerprint: str) -> Published:
    """A published study, by its fingerprint or the beginning of it.

    Args:
        store: Where it is.
        fingerprint: At least 8 of its digits.

    Raises:
        MismatchError: If there is not exactly one.
    """
    found = [one for one in published.every(store) if one.fingerprint.startswith(fingerprint)]
    if len(found) != 1 or len(fingerprint) < _LEAST_DIGITS:
        raise MismatchError(
            f"{len(found)} published studies have a fingerprint that begins with "
            f"{fingerprint[:64]!r}; give a study file, or at least {_LEAST_DIGITS} digits"
        )
    return found[0]


def export(
    store: Store, study: Published, what: What, path: Path, clock: Callable[[], float]
) -> int:
    """Write a tally, or the reports that it counts, as a Parquet file; how many reports it has.

    Args:
        store: Where they are.
        study: The study.
        what: "tally", or "reports" in an order that says nothing.
        path: The file; one that is there is replaced.
        clock: Gives the seconds since 1970-01-01.

    Raises:
        QuestionError: If reports are wanted, and the tally keeps sums.
    """
    tally_pending(store, study)
    current = read_tally(store, study)
    held: Tally | Reports = current.tally if what == "tally" else reports_of(current.tally)
    who = Token("the command line", "admin", 0, None)
    asked = {"export": what}
    enter(store, entry_of(clock(), who, study, asked, current.version, current.tally.n))
    held.save(path)
    return current.tally.n


def reports_of(tally: Tally) -> Reports:
    """The reports that a tally counts, in an order that does not depend on when they came.

    Raises:
        QuestionError: If it keeps sums.
    """
    statistic, study = tally.statistic, tally.study
    outputs: tuple[Outputs, ...]
    if isinstance(statistic, SymbolCounts):
        people = np.asarray(statistic.people, dtype=np.int64)
        outputs = tuple(np.repeat(np.asarray(column), people) for column in statistic.symbols)
    elif isinstance(statistic, BitReports):
        outputs = statistic.columns
    else:
        raise QuestionError(
            "the tally of this study keeps sums, from which no reports can be told; export the "
            "tally"
        )
    return Reports(study.fingerprint, study.columns, study.layouts, outputs)


def export_questions(store: Store, path: Path) -> int:
    """Write the log of questions, one JSON object per line; how many there are.

    Args:
        store: Where it is.
        path: The file; one that is there is replaced.
    """
    entries: list[dict[str, Any]] = list(log(store))
    text = "".join(json.dumps(entry) + "\n" for entry in entries)
    write_whole(path, lambda file: file.write_text(text, encoding="utf-8"))
    return len(entries)
