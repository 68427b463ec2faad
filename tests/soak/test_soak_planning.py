"""The planner's choice of channel over the full grid, decoded by likelihood, with fresh seeds.

Errors are pooled over four populations and all ranges. A point is measured until the ratio of the
two channels' errors is sure to 3 %, or clearly beyond a tenth, or its seconds are up; a regret is
allowed a tenth, and 5 standard errors of that ratio, as seeds are fresh. 133 points of at most 6
seconds, 45 where a round takes many, and 2 minutes for the unbiased ones: some 20 of one core.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from helpers_planning import chosen_id, near_the_best, unbiased_regret
from helpers_statistics import LIMIT

from benchmarks import choice

pytestmark = pytest.mark.soak

SECONDS, SECONDS_IF_LARGE, LARGE = 6.0, 45.0, 2_000_000  # from so many people times cells on


# The rule was fitted to the grid; these lie between its points.
BETWEEN: tuple[choice.Point, ...] = (
    (1, 6, 0.4, 700),
    (1, 6, 0.4, 3_000),
    (1, 10, 0.2, 3_000),
    (1, 10, 0.8, 12_000),
    (1, 14, 0.8, 8_000),
    (1, 20, 0.4, 20_000),
    (1, 20, 0.4, 50_000),
    (1, 20, 1.2, 50_000),
)


@pytest.mark.parametrize("point", [*choice.grid(), *BETWEEN], ids=str)
def test_likelihood_choice_is_near_the_best(
    point: choice.Point, seed: int, record_property: Callable[[str, object], None]
) -> None:
    axes, size, curve, n = point
    epsilon = choice.epsilon_at(size, curve)
    seconds = SECONDS if n * size < LARGE else SECONDS_IF_LARGE
    found = choice.settled(choice.rounds(size, epsilon, n, seed=seed, axes=axes), seconds)
    chosen = chosen_id(size, epsilon, "likelihood", n)
    record_property("thermometer/geometric", math.exp(found.log))
    record_property("standard error of its logarithm", found.stderr)
    record_property("regret", found.regret(chosen))
    assert near_the_best(found, chosen, LIMIT + 1)


@pytest.mark.parametrize("size", [*range(2, 40), 50, 75, 100, 200, 500, 1_000])
def test_unbiased_choice_is_within_a_tenth_over_a_fine_grid(size: int) -> None:
    for step in range(-20, 21):
        curve = 1.8 * 1.25**step
        for axes in (1, 2, 3):
            epsilon = round(math.sqrt(curve / size), 6)
            assert unbiased_regret(size, epsilon, axes, "unbiased") <= 1.10, (curve, axes)
