"""A collector of reports on pairs of many axes: it takes them, and answers as the estimate does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers_service import QUICK, TODAY, WORKER, Clock, fresh_ids

import sfumato as sf
from sfumato.device.wire import Batch
from sfumato.service import tokens
from sfumato.service.collector import Collector, open_store
from sfumato.service.server import running

NAMES = "abcd"


@pytest.mark.slow
def test_reports_on_pairs_are_taken_and_asked(tmp_path: Path) -> None:
    axes = [sf.integers(name, 0, 7) for name in NAMES]
    study = sf.Study("many", axes, protect=sf.Uniform(2), channel=sf.Pairs())
    rng = np.random.default_rng(1)
    people = {name: rng.binomial(7, 0.4, 300) for name in NAMES}
    reports = study.encode(people, bits=sf.SeededBits(1))
    size, packed = study.device_program().report_size, reports.to_bytes()
    first = len(packed) - size * len(reports)
    rows = tuple(packed[place : place + size] for place in range(first, len(packed), size))
    made = Collector(open_store(tmp_path), QUICK, Clock(), WORKER)
    held, _ = made.publish(study.to_toml(), minimum=3)
    made.upload(
        held.fingerprint,
        Batch(study.fingerprint, TODAY + 30, fresh_ids(len(rows)), rows).to_bytes(),
    )
    analyst = tokens.create(made.store, "the analyst", "analyst", TODAY)
    here = study.tally(reports).estimate()
    with running(made) as url:
        there = sf.connect(url, analyst, "many")
        for asked in ("a=..3", "a=..3, b=..3", "a=..3, b=..3, c=..3"):
            found, expected = there.count(asked), here.count(asked)
            assert found.value == pytest.approx(expected.value)
            assert found.notes == expected.notes
        assert there.heatmap("a", "b").values == pytest.approx(here.heatmap("a", "b").values)
