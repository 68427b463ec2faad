"""Coverage of intervals in every setting of `helpers_coverage`, cell by cell: `make soak`.

The rule has no slack: of 2,000 intervals of a cell at least 93 % hold the truth. Intervals whose
true coverage is 95 % fail it once in 30,000 times, and those of 94 % three times in a hundred.

Widths are compared with the error of the answers where the reports determine the cells, and with
that of unbiased answers elsewhere: on smooth populations, and in small cells, a likelihood estimate
is much closer to the truth than any interval that holds for all populations. Its width in units of
its own error is recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from helpers_coverage import ALL, LEAST, METHODS, WEIGHTED, Questions, Setting, measure

pytestmark = pytest.mark.soak

RUNS = 2_000


@pytest.mark.parametrize("setting", ALL, ids=lambda setting: setting.name)
def test_intervals_hold_cell_by_cell(
    setting: Setting | Questions, seed: int, record_property: Callable[[str, Any], None]
) -> None:
    methods = ["unbiased"] if setting in WEIGHTED else METHODS
    found = {method: measure(setting, method, runs=RUNS, seed=seed) for method in methods}
    for method, figures in found.items():
        record_property(method, {name: one.record() for name, one in figures.items()})
    for method, figures in found.items():
        for name, one in figures.items():
            assert one.covered >= LEAST, (method, name, one)
            if not setting.is_determined:
                one = replace(one, rmse=found["unbiased"][name].rmse)
            assert not one.too_wide(0.0), (method, name, one)
