"""Figures for Prometheus, read from the store when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from sfumato.service import published
from sfumato.service.collector import Collector


class _Figures:
    """The figures of a collector, for the registry of Prometheus."""

    def __init__(self, collector: Collector, answered: Mapping[tuple[str, int], int]) -> None:
        self._collector, self._answered = collector, answered

    def collect(self) -> Iterator[Metric]:
        """All figures."""
        requests = CounterMetricFamily(
            "sfumato_requests", "Requests answered since the start", labels=["route", "status"]
        )
        for (route, status), many in self._answered.items():
            requests.add_metric([route, str(status)], many)
        yield requests
        reports = CounterMetricFamily(
            "sfumato_reports", "Reports by what became of them", labels=["study", "reason"]
        )
        tallied = GaugeMetricFamily("sfumato_tallied", "Reports in the tally", labels=["study"])
        for study in published.every(self._collector.store):
            counts = self._collector.counts(study)
            for reason, many in counts["counters"].items():
                reports.add_metric([study.fingerprint, reason], many)
            tallied.add_metric([study.fingerprint], counts["reports"])
        yield reports
        yield tallied
        waiting = self._collector.writer.waiting_bytes
        yield GaugeMetricFamily("sfumato_waiting_bytes", "Bytes that wait to be stored", waiting)
        free = self._collector.store.free_bytes()
        if free is not None:
            yield GaugeMetricFamily("sfumato_disk_free_bytes", "Room left on the disk", free)


def figures(collector: Collector, answered: Mapping[tuple[str, int], int]) -> tuple[bytes, str]:
    """The figures as text, and its media type.

    Args:
        collector: The collector.
        answered: How many requests of each route were answered with each status.
    """
    registry = CollectorRegistry()
    registry.register(_Figures(collector, answered))
    return generate_latest(registry), CONTENT_TYPE_LATEST
