"""Figures 4 and 5 of Cormode et al. 2019 at D = 2^8: what every cell should be, and what it says.

How far the printed cells stray by chance, and other readings of the text, are checked as well.

The rest, D = 2^16 and simulated people, is in the soak; every cell is in results/soak/cormode.json.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import pages
from reproduction import cormode, cormode_chance

ROOT = Path(__file__).parent.parent

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
    """HaarHRR agrees. HH_4 and HH_16 are a tenth off, HH_2 a fifth: chance is below.

    With the root left open HH_2 would agree, but HH_4 would not.
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


# By chance


def trace(noise: cormode_chance.Noise, queries: cormode.Queries) -> float:
    size = len(noise.law)
    square = cormode_chance.mean_square(queries, size)
    rows = np.eye(size + 1)
    return sum(float(square(noise.of_prefixes(row))[place]) for place, row in enumerate(rows))


@pytest.mark.parametrize("name", cormode.NAMES)
def test_noise_as_an_operator_is_that_of_the_formulas(name: str) -> None:
    queries = cormode.Queries.spaced(64, 8)
    law = cormode.cauchy(256)[:64] / cormode.cauchy(256)[:64].sum()
    if name == "HH_16":  # whole trees only
        queries, law = cormode.Queries.spaced(256, 32), LAW
    moments = cormode.Moments(cormode.bound(name, len(law), "1.0"), law, queries)
    read = moments.haar if name == "HaarHRR" else moments.unary
    for epsilon in (0.3, 1.4):
        found = trace(cormode_chance.Noise(name, law, epsilon), queries)
        assert found == pytest.approx(read(epsilon), rel=1e-9)
        assert found != pytest.approx(read(1.01 * epsilon), rel=1e-3)


@pytest.mark.parametrize("name", cormode.NAMES)
def test_spread_of_a_run_is_that_of_the_channels_own_table(name: str) -> None:
    """HaarHRR to rounding; OLH for OUE to 1 % where ε is small. Few directions nearly suffice."""
    noise = cormode_chance.Noise(name, LAW, 0.2)
    own = cormode.exact(name, SIZE, "0.2", LAW)
    for asked, queries in (
        ("ranges", cormode.Queries.ranges(SIZE)),
        ("prefixes", cormode.Queries.prefixes(SIZE)),
    ):
        whole, nothing = cormode_chance.stray(noise, queries)
        close = 1e-6 if name == "HaarHRR" else 0.01
        assert whole / 2 == pytest.approx(own[asked][1], rel=close)
        few, lacks = cormode_chance.stray(noise, queries, trace(noise, queries))
        assert nothing == 0
        assert few == pytest.approx(whole, rel=lacks)
        assert few == pytest.approx(whole, rel=0.015)


def test_mean_square_is_that_over_all_questions() -> None:
    e = np.random.default_rng(5).normal(size=17)
    for queries in (
        cormode.Queries.ranges(16),
        cormode.Queries.prefixes(16),
        cormode.Queries.spaced(16, 4),
    ):
        each = [(e[b] - e[a]) ** 2 for a in queries.starts for b in queries.ends if b > a]
        found = e @ cormode_chance.mean_square(queries, 16)(e)
        assert found == pytest.approx(np.mean(each))


def test_two_stages_are_least_squares() -> None:
    """With the root known; other readings are not, and parents of Stage 1 do not even add up."""
    rng = np.random.default_rng(6)
    levels = [rng.normal(size=(4**level, 1)) for level in range(3)]
    rows = [np.kron(np.eye(4**level), np.ones(4 ** (2 - level))) for level in range(3)]
    total = levels[0][0, 0]
    even = np.full(16, total / 16)
    free = np.eye(16) - 1 / 16
    below, seen = np.vstack(rows[1:]), np.vstack(levels[1:]).ravel()
    least = even + free @ np.linalg.lstsq(below @ free, seen - below @ even, rcond=None)[0]
    found = cormode_chance.two_stages(levels)
    assert np.allclose(found[-1].ravel(), least)
    assert np.allclose(found[1].ravel(), rows[1] @ found[-1].ravel())
    moved = cormode_chance.two_stages(levels, root="read")
    assert moved[0][0, 0] != pytest.approx(total)
    early = cormode_chance.two_stages(levels, early=True)
    assert not np.allclose(early[1].ravel(), rows[1] @ early[-1].ravel())


def test_largest_nodes_make_up_the_range() -> None:
    for first, end in ((0, 64), (1, 64), (5, 37), (16, 48)):
        nodes = cormode_chance.largest_nodes(first, end, 4, 4)
        cells = [
            c
            for level, at in nodes
            for c in range(at * 4 ** (3 - level), (at + 1) * 4 ** (3 - level))
        ]
        assert cells == list(range(first, end))
    assert cormode_chance.largest_nodes(16, 48, 4, 4) == [(1, 1), (1, 2)]


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    held: dict[str, Any] = json.loads((ROOT / cormode.RESULTS).read_text(encoding="utf-8"))
    return held


def test_printed_cells_scatter_as_means_of_five_runs(record: dict[str, Any]) -> None:
    """About a column's own mean, over 20 columns of 8: four standard errors of a mean square."""
    scatter = [c["scatter over expected, five runs"] for c in record["by chance"]]
    freedom = 7 * len(scatter)
    most = 4 * np.sqrt(2 / freedom)
    assert abs(np.mean(scatter) - 1) < most
    assert abs(np.mean(scatter) / 5 - 1) > most  # single runs would stray √5 times as far


def test_which_columns_chance_explains(record: dict[str, Any]) -> None:
    """As the page says: all but HH_2's prefixes, within 3.3; and not all ranges at 2^16."""
    away = {
        (c["queries"], c["D"], c["method"]): c["standard errors away, five runs"]
        for c in record["by chance"]
    }
    for (queries, size, name), value in away.items():
        if queries == "all ranges" and size == cormode.SIZES[1]:
            assert value < -10
        elif queries == "all prefixes" and name == "HH_2":
            assert value > 9
        else:
            assert abs(value) < 3.3
    readings = {
        (r["reading"], r["D"], r["method"], r["queries"]): r["mean printed/ours"]
        for r in record["other readings"]
    }
    for size in cormode.SIZES:
        second = [
            readings["from the second cell", size, name, "all prefixes"] for name in cormode.NAMES
        ]
        assert abs(second[0] - 1) < 0.05
        assert second[1] < 0.91
        assert second[3] < 0.91


def test_the_page_shows_the_recorded_tables(record: dict[str, Any]) -> None:
    text = (ROOT / cormode.PAGE).read_text(encoding="utf-8")
    shown = pages.refilled(text, cormode.tables(record))
    assert text == shown, "run: python -m reproduction.cormode_chance"
    other = json.loads(json.dumps(record))
    other["by chance"][0]["mean printed/ours"] += 0.1
    assert text != pages.refilled(text, cormode.tables(other))
