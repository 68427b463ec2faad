"""Figures 4 and 5 of Cormode et al. 2019 at D = 2^8: what every cell should be, and what it says.

The rest, D = 2^16 and simulated people, is in the soak; every cell is in results/soak/cormode.json.
"""

from __future__ import annotations

import numpy as np
import pytest

from reproduction import cormode

SIZE = 1 << 8
LAW = cormode.cauchy(SIZE)


@pytest.fixture(scope="module")
def ranges() -> cormode.Cells:
    return cormode.expected(SIZE, LAW, cormode.Queries.ranges(SIZE))


@pytest.fixture(scope="module")
def prefixes() -> cormode.Cells:
    return cormode.expected(SIZE, LAW, cormode.Queries.prefixes(SIZE))


def printed(asked: str, name: str) -> list[float]:
    return [row[cormode.NAMES.index(name)] for row in cormode.PRINTED[asked][SIZE]]


@pytest.mark.parametrize("name", cormode.NAMES)
def test_ranges_are_within_a_tenth_of_the_printed_column(ranges: cormode.Cells, name: str) -> None:
    assert cormode.off(ranges[name], printed("ranges", name)) < 0.10


def test_prefixes_and_where_the_printed_columns_differ(prefixes: cormode.Cells) -> None:
    """HaarHRR agrees. HH_4 and HH_16 are a tenth off, less than single runs stray (17 and 25 %).

    HH_2 is not explained by chance: its printed prefixes are as unsure as its ranges, and a fifth
    above the value of least squares with the root pinned. With the root left open HH_2 would agree,
    but HH_4 would not.
    """
    found = {name: cormode.off(prefixes[name], printed("prefixes", name)) for name in prefixes}
    assert found["HaarHRR"] < 0.05
    assert 0.095 < found["HH_4"] < 0.105
    assert 0.095 < found["HH_16"] < 0.11
    assert 0.18 < found["HH_2"] < 0.20
    opened = {column["method"]: column for column in cormode.not_pinned(SIZE)}
    assert opened["HH_2"]["mean |ours/printed - 1|"] < 0.07
    assert opened["HH_4"]["mean |ours/printed - 1|"] > 0.30


def test_figures_are_root_mean_squares(ranges: cormode.Cells) -> None:
    """The twin of the tests above: mean squared errors × 1000 are nowhere near what is printed."""
    for name in cormode.NAMES:
        squares = [1000 * (value / 1000) ** 2 for value in ranges[name]]
        assert cormode.off(squares, printed("ranges", name)) > 0.9


def test_haar_is_best_for_small_epsilons_and_hierarchies_for_large(
    ranges: cormode.Cells, prefixes: cormode.Cells
) -> None:
    for found in (ranges, prefixes):
        best = cormode.conclusions(found)
        assert [best[eps] for eps in ("0.2", "0.4", "0.6")] == ["HaarHRR"] * 3
        assert [best[eps] for eps in ("1.0", "1.1", "1.2", "1.4")] == ["HH_4"] * 4
        assert all(p < r for n in found for p, r in zip(prefixes[n], ranges[n], strict=True))


@pytest.mark.parametrize("epsilon", ["0.2", "1.0", "1.4"])
def test_channels_have_the_errors_of_the_formula(
    ranges: cormode.Cells, prefixes: cormode.Cells, epsilon: str
) -> None:
    """HaarHRR to rounding; OLH, which stands for OUE, to 3 % as its g is a prime near e^ε + 1."""
    place = cormode.EPSILONS.index(epsilon)
    for name in cormode.NAMES:
        close = 1e-9 if name == "HaarHRR" else 0.03
        found = cormode.exact(name, SIZE, epsilon, LAW)
        assert found["ranges"][0] == pytest.approx(ranges[name][place], rel=close)
        assert found["prefixes"][0] == pytest.approx(prefixes[name][place], rel=close)


def test_counts_of_all_cells_are_the_readings_turned_round(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for name in cormode.NAMES:
        channel = cormode.bound(name, SIZE, "1.0")
        counts = rng.integers(0, 1000, channel.outputs).astype(np.float64)
        w = rng.normal(size=(3, SIZE))
        read = channel.coefficients(w) @ counts
        assert np.allclose(w @ cormode.cell_estimates(channel, counts), read, rtol=1e-9)
