"""Hostile input gets an answer or an error of this package, in bounded time and memory."""

from __future__ import annotations

import pytest
from helpers_fuzz import SECONDS, fuzz, shares
from helpers_fuzz_targets import BROKEN, DEVICES, TARGETS

INPUTS = 20_000
DEVICE_INPUTS = 5_000  # for each target of devices
COUNTS = shares(INPUTS, {name: target.weight for name, target in TARGETS.items()})
COUNTS |= dict.fromkeys(DEVICES, DEVICE_INPUTS)


@pytest.mark.slow
@pytest.mark.parametrize("name", COUNTS)
def test_hostile_input_is_answered_or_refused(name: str, seed: int) -> None:
    found = fuzz(name, seed, COUNTS[name])
    assert found["inputs"] == COUNTS[name]
    assert found["answered"] > 0  # not all are refused at the door
    assert found["findings"] == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_the_harness_would_find_what_breaks_a_rule(name: str, seed: int) -> None:
    """The twins: a foreign error, an endless computation, too much memory, a value shown, a
    process that dies; each in one of ten inputs, and the others are run all the same."""
    found = fuzz(name, seed, 30, seconds=0.2 if name == "time" else SECONDS)
    assert found["inputs"] == 30
    assert list(found["findings"]) == [name.partition(",")[0]]


def test_every_target_has_its_share() -> None:
    assert sum(COUNTS.values()) >= INPUTS
    assert min(COUNTS.values()) >= 50
