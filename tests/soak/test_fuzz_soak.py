"""A million hostile inputs: `make soak`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from helpers_fuzz import MEGABYTES, SECONDS, fuzz, shares
from helpers_fuzz_targets import DEVICES, TARGETS

pytestmark = pytest.mark.soak

INPUTS = 1_000_000  # and as many for each target of devices
COUNTS = shares(INPUTS, {name: target.weight for name, target in TARGETS.items()})
COUNTS |= dict.fromkeys(DEVICES, INPUTS)


@pytest.mark.parametrize("name", COUNTS)
def test_hostile_input_is_answered_or_refused(
    name: str, seed: int, record_property: Callable[[str, Any], None]
) -> None:
    found = fuzz(name, seed, COUNTS[name])
    for key, value in {"seed": seed, **found}.items():
        record_property(key, value)
    assert found["inputs"] == COUNTS[name]
    assert found["answered"] > 0
    assert found["slowest_seconds"] < SECONDS
    assert found["most_megabytes"] < MEGABYTES
    assert found["findings"] == {}
