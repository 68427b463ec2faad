"""What tests tell the record of a soak can be sent home by workers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest


def test_numbers_of_numpy_are_told_as_plain_ones(
    record_property: Callable[[str, object], None], request: pytest.FixtureRequest
) -> None:
    given = {"share": np.float64(0.5), "people": [np.int64(3), 4], "rows": {"a": np.ones(2)}}
    for name, value in given.items():
        record_property(name, value)
    told = dict(request.node.user_properties)
    assert told == {"share": 0.5, "people": [3, 4], "rows": {"a": [1.0, 1.0]}}
    assert [type(told["share"]), type(told["people"][0])] == [float, int]
