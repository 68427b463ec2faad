"""What tests tell the record of a soak can be sent home by workers."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest


def test_numbers_of_numpy_are_told_as_plain_ones(
    record_property: Callable[[str, object], None], request: pytest.FixtureRequest
) -> None:
    record_property("share", np.float64(0.5))
    record_property("people", np.int64(3))
    record_property("rows", {"a": [1.5]})
    told = dict(request.node.user_properties)
    assert told == {"share": 0.5, "people": 3, "rows": {"a": [1.5]}}
    assert [type(told[name]) for name in ("share", "people")] == [float, int]
    json.dumps(told)
