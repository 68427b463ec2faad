"""Figures 4 and 5 of Cormode et al. 2019: D = 2^16, and 2^26 simulated people with fresh seeds.

One simulated cell takes some 15 seconds of one core.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from helpers_statistics import LIMIT

from sfumato.reproduction import cormode
from sfumato.reproduction import cormode_printed as printed_

pytestmark = pytest.mark.soak

SMALL, LARGE = printed_.SIZES
SPACED = cormode.Queries.spaced(LARGE, 1 << 7, cormode.STRIDE)
PREFIXES = cormode.Queries.prefixes(LARGE, cormode.STRIDE)


@pytest.mark.parametrize(
    ("asked", "queries", "explained"),
    [("ranges", SPACED, printed_.NAMES), ("prefixes", PREFIXES, printed_.NAMES[1:])],
    ids=["ranges", "prefixes"],
)
def test_columns_of_many_cells(
    asked: str,
    queries: cormode.Queries,
    explained: tuple[str, ...],
    record_property: Callable[[str, object], None],
) -> None:
    """Ranges begin at every 128th cell; over all ranges the printed values are 13 to 18 % too low.

    The prefixes of HH_2 were printed with noise that was not independent (tests/test_cormode.py).
    """
    found = cormode.expected(LARGE, cormode.cauchy(LARGE), queries)
    for place, name in enumerate(printed_.NAMES):
        off = printed_.off(found[name], [row[place] for row in printed_.PRINTED[asked][LARGE]])
        record_property(name, off)
        assert off < 0.10 or name not in explained, name


@pytest.mark.parametrize("epsilon", ["0.2", "1.4"])
@pytest.mark.parametrize("name", printed_.NAMES)
def test_simulated_people_have_the_exact_error(
    name: str, epsilon: str, seed: int, record_property: Callable[[str, object], None]
) -> None:
    """One run's error strays by a stated part of it; its upper tail is a little longer than normal.

    One standard error more than usual is allowed, as seeds are fresh.
    """
    found = cormode.simulate(name, SMALL, epsilon, seed % (1 << 32))
    exact = cormode.exact(name, SMALL, epsilon, cormode.cauchy(SMALL))
    for asked, (value, stray) in exact.items():
        record_property(asked, found[asked] / value)
        assert abs(found[asked] / value - 1) < (LIMIT + 1) * stray
