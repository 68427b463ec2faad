"""What an administrator sees of a collector: what comes, what waits, what is kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato import __version__
from sfumato.service import published, tokens
from sfumato.service.collector import Collector
from sfumato.service.published import Published
from sfumato.service.tallying import QUARANTINE_DAYS


def status(collector: Collector, answered: Mapping[tuple[str, int], int]) -> dict[str, Any]:
    """How a collector is, as plain values for JSON; nothing in it is about one report.

    Args:
        collector: The collector.
        answered: How many requests of each route were answered with each status since the start.
    """
    store, settings = collector.store, collector.settings
    studies = [_of_study(collector, study) for study in published.every(store)]
    with store.look() as run:
        kept = run("SELECT reason, count(*), sum(length(data)) FROM quarantine GROUP BY reason")
        ((entries,),) = run("SELECT count(*) FROM questions")
        backed_up = run.fact("backed_up")
    requests: dict[str, dict[str, int]] = {}
    for (route, code), many in sorted(answered.items()):
        requests.setdefault(route, {})[str(code)] = many
    return {
        "version": __version__,
        "seconds": collector.seconds,
        "ready": collector.writer.alive,
        "studies": studies,
        "queue": {"bytes": collector.writer.waiting_bytes, "most_bytes": settings.most_waiting},
        "disk": {
            "store_bytes": store.size_bytes(),
            "free_bytes": store.free_bytes(),
            "reserve_bytes": settings.reserve,
        },
        "quarantine": {
            "batches": sum(many for _, many, _ in kept),
            "bytes": int(sum(size for *_, size in kept)),
            "reasons": {reason: many for reason, many, _ in sorted(kept)},
            "days": QUARANTINE_DAYS,
        },
        "tokens": [one.to_dict() for one in tokens.every(store)],
        "questions": entries,
        "last_backup": backed_up or None,
        "requests": requests,
    }


def _of_study(collector: Collector, study: Published) -> dict[str, Any]:
    """What anybody may know about a study, and how it goes."""
    with collector.store.look() as run:
        row = run.one("SELECT sum(reports) FROM segments WHERE study = ?", (study.number,))
    return {
        **study.to_dict(),
        **collector.counts(study),
        "waiting": int((row and row[0]) or 0),
        "rates": collector.rates.of(study.number),
    }
