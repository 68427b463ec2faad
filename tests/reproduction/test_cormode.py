"""Figures 4 and 5 of Cormode et al. 2019 at D = 2^8: what every cell should be, and what it says.

What the authors' program made of them is checked with other noise, and as it was recorded.

The rest, D = 2^16 and simulated people, is in the soak; every cell is in results/soak/cormode.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_statistics import LIMIT

import sfumato as sf
from benchmarks import cormode_as_run, pages
from benchmarks.cormode_as_run import Counts
from sfumato.metrics.uniform import UniformMetric
from sfumato.reproduction import cormode
from sfumato.reproduction import cormode_printed as printed_

ROOT = Path(__file__).parents[2]

SIZE = 1 << 8
LAW = cormode.cauchy(SIZE)


@pytest.fixture(scope="module")
def ranges() -> printed_.Cells:
    return cormode.expected(SIZE, LAW, cormode.Queries.ranges(SIZE))


@pytest.fixture(scope="module")
def prefixes() -> printed_.Cells:
    return cormode.expected(SIZE, LAW, cormode.Queries.prefixes(SIZE))


def printed(asked: str, name: str) -> list[float]:
    return [row[printed_.NAMES.index(name)] for row in printed_.PRINTED[asked][SIZE]]


@pytest.mark.parametrize("name", printed_.NAMES)
def test_ranges_are_within_a_tenth_of_the_printed_column(ranges: printed_.Cells, name: str) -> None:
    assert printed_.off(ranges[name], printed("ranges", name)) < 0.10


def test_prefixes_and_where_the_printed_columns_differ(prefixes: printed_.Cells) -> None:
    """HaarHRR agrees. HH_4 and HH_16 are a tenth off, HH_2 a fifth: why is below."""
    found = {name: printed_.off(prefixes[name], printed("prefixes", name)) for name in prefixes}
    assert found["HaarHRR"] < 0.05
    assert 0.095 < found["HH_4"] < 0.105
    assert 0.095 < found["HH_16"] < 0.11
    assert 0.18 < found["HH_2"] < 0.20


def test_figures_are_root_mean_squares(ranges: printed_.Cells) -> None:
    """The twin of the tests above: mean squared errors × 1000 are nowhere near what is printed."""
    for name in printed_.NAMES:
        squares = [1000 * (value / 1000) ** 2 for value in ranges[name]]
        assert printed_.off(squares, printed("ranges", name)) > 0.9


def test_haar_is_best_for_small_epsilons_and_hierarchies_for_large(
    ranges: printed_.Cells, prefixes: printed_.Cells
) -> None:
    for found in (ranges, prefixes):
        best = printed_.conclusions(found)
        assert [best[eps] for eps in ("0.2", "0.4", "0.6")] == ["HaarHRR"] * 3
        assert [best[eps] for eps in ("1.0", "1.1", "1.2", "1.4")] == ["HH_4"] * 4
        assert all(p < r for n in found for p, r in zip(prefixes[n], ranges[n], strict=True))


@pytest.mark.parametrize("epsilon", ["0.2", "1.0", "1.4"])
def test_channels_have_the_errors_of_the_formula(
    ranges: printed_.Cells, prefixes: printed_.Cells, epsilon: str
) -> None:
    """HaarHRR to rounding; OLH, which stands for OUE, to 3 % as its g is a prime near e^ε + 1."""
    place = printed_.EPSILONS.index(epsilon)
    for name in printed_.NAMES:
        close = 1e-9 if name == "HaarHRR" else 0.03
        found = cormode.exact(name, SIZE, epsilon, LAW)
        assert found["ranges"][0] == pytest.approx(ranges[name][place], rel=close)
        assert found["prefixes"][0] == pytest.approx(prefixes[name][place], rel=close)


def test_counts_of_all_cells_are_the_readings_turned_round(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for name in printed_.NAMES:
        channel = cormode.bound(name, SIZE, "1.0")
        counts = rng.integers(0, 1000, channel.outputs).astype(np.float64)
        w = rng.normal(size=(3, SIZE))
        read = channel.coefficients(w) @ counts
        assert np.allclose(w @ cormode.cell_estimates(channel, counts), read, rtol=1e-9)


# The way the figures were computed


def drawn(flipped: float, people: Sequence[Counts], starts: Sequence[int]) -> list[Counts]:
    """Noisy counts by NumPy; engines that start at 0 start alike."""
    result = []
    for here, start in zip(people, starts, strict=True):
        rng = np.random.default_rng(start)
        both = np.stack([here, here.sum() - here], axis=1)
        result.append(rng.binomial(both, [0.5, flipped]).sum(axis=1))
    return result


def map_to_cells(b: int, height: int) -> cormode_as_run.Floats:
    """What a unit of noise at each node, level by level without the root, does to the cells."""
    columns = []
    for level in range(1, height + 1):
        for node in range(b**level):
            levels = [np.zeros(b**h) for h in range(height + 1)]
            levels[level][node] = 1.0
            columns.append(cormode_as_run.consistent(levels, leaf=0))
    return np.array(columns).T


def test_two_stages_are_least_squares_if_leaves_have_height_1(seed: int) -> None:
    """With the root as one more reading; the program's heights are not, but add up as well."""
    rng = np.random.default_rng(seed)
    levels = [rng.normal(size=4**level) for level in range(3)]
    rows = np.vstack([np.kron(np.eye(4**level), np.ones(4 ** (2 - level))) for level in range(3)])
    least = np.linalg.lstsq(rows, np.concatenate(levels), rcond=None)[0]
    assert np.allclose(cormode_as_run.consistent(levels, leaf=1), least)
    found = cormode_as_run.consistent(levels, leaf=0)
    assert not np.allclose(found, least)
    assert np.allclose(found.sum(), 0.8 * levels[0].sum() + 0.2 * levels[1].sum())
    agreeing = [rows[:1] @ least, rows[1:5] @ least, least]
    assert np.allclose(cormode_as_run.consistent(agreeing, leaf=0), least)


def test_parents_of_leaves_learn_nothing_from_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    levels = [rng.normal(size=2**level) for level in range(4)]
    moved = [*levels[:3], levels[3] + rng.normal(size=8)]
    sums = [cormode_as_run.consistent(x, leaf=0).reshape(4, 2).sum(1) for x in (levels, moved)]
    assert np.allclose(*sums)
    sums = [cormode_as_run.consistent(x, leaf=1).reshape(4, 2).sum(1) for x in (levels, moved)]
    assert not np.allclose(*sums)


def test_figures_are_over_two_cells_or_more() -> None:
    e = np.append(0.0, np.random.default_rng(5).normal(size=16))
    found = cormode_as_run.figures(e, (1, 4))

    def over(starts: Iterable[int], least: int = 2) -> float:
        each = [(e[b] - e[a]) ** 2 for a in starts for b in range(a + least, 17)]
        return 1000 * float(np.sqrt(np.mean(each)))

    assert found["all prefixes"] == pytest.approx(over([0]))
    assert found["all ranges"] == pytest.approx(over(range(17)))
    assert found["ranges from every 4 cells"] == pytest.approx(over(range(0, 17, 4)))
    assert found["all ranges"] != pytest.approx(over(range(17), least=1))


@pytest.mark.parametrize("alike", [False, True])
def test_levels_that_start_alike_err_together(alike: bool, seed: int) -> None:
    """HH_2's prefixes: apart the error is the exact one, alike it is well above it.

    Which people speak about which level moves it by less than 1 % at this ε. One fixed start is one
    draw; so those that start alike do it elsewhere in each run, by shifting what start 0 means.
    """
    law, epsilon, runs = cormode_as_run.folded_cauchy(64), 0.2, 400
    read = map_to_cells(2, 6).cumsum(axis=0)
    odds = np.exp(epsilon)
    share = np.concatenate([law.reshape(2**level, -1).sum(1) for level in range(1, 7)])
    each = (4 * odds / (odds - 1) ** 2 + share) * 6 / printed_.PEOPLE
    table = (read[1:] * each) @ read[1:].T / (64 - 1)
    mean, spread = np.trace(table), np.sqrt(2 * np.sum(table**2) / runs)
    found = []
    for number in range(runs):
        rng = np.random.default_rng([seed, number])

        def noise(
            q: float, people: Sequence[Counts], starts: Sequence[int], to: int = number
        ) -> Any:
            return drawn(q, people, [start or 1 + to for start in starts])

        error = cormode_as_run.run(2, law, epsilon, rng, noise, alike=alike)
        found.append((cormode_as_run.figures(error, (1,))["all prefixes"] / 1000) ** 2)
    away = np.mean(found) - mean
    assert (abs(away) < LIMIT * spread + 0.01 * mean) != alike
    assert (away > LIMIT * spread + 0.01 * mean) == alike


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with (
        pytest.raises(
            SystemExit, match=r"no C\+\+ compiler 'no-such-compiler' here: install g\+\+"
        ),
        cormode_as_run.compiled(),
    ):
        pass


# What was recorded


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    held: dict[str, Any] = json.loads((ROOT / cormode_as_run.RESULTS).read_text(encoding="utf-8"))
    return held


@pytest.mark.parametrize("table", cormode_as_run.SHOWN)
def test_columns_by_the_program_are_within_a_tenth_of_the_printed_ones(
    record: dict[str, Any], table: str
) -> None:
    """On average; and cell by cell, but for one column whose printed figures stray themselves."""
    _, said, size = cormode_as_run.SHOWN[table]
    for column in cormode_as_run.as_run(record, said, size, "alike"):
        assert abs(column["mean ours/printed"] - 1) < 0.10
        strays = column["method"] == "HH_16" and table == "prefixes at 2^8"
        assert column["mean |ours/printed - 1|"] < (0.12 if strays else 0.10)
        if column["method"] != "HaarHRR":
            away = column["mean printed/ours"] - 1
            assert abs(away) < LIMIT * column["standard error of that, five runs"]


def test_levels_that_start_apart_would_not_have_been_printed(record: dict[str, Any]) -> None:
    """The twin: HH_2's prefixes at both sizes, HH_4's and its ranges at 2^8."""
    for table, name in (
        ("prefixes at 2^8", "HH_2"),
        ("prefixes at 2^16", "HH_2"),
        ("prefixes at 2^8", "HH_4"),
        ("ranges at 2^8", "HH_2"),
    ):
        _, said, size = cormode_as_run.SHOWN[table]
        held = {c["method"]: c for c in cormode_as_run.as_run(record, said, size, "apart")}[name]
        error = held["standard error of that, five runs"]
        assert abs(held["mean printed/ours"] - 1) > LIMIT * error


def test_not_all_ranges_were_asked_of_many_cells(record: dict[str, Any]) -> None:
    """Whether levels start alike or apart, print is at least 7 % below."""
    for start in ("alike", "apart"):
        for column in cormode_as_run.as_run(record, "all ranges", 1 << 16, start):
            assert column["mean ours/printed"] > 1.07


def test_conclusions_hold_by_the_program_as_well(record: dict[str, Any]) -> None:
    for _, said, size in cormode_as_run.SHOWN.values():
        held = {
            c["method"]: c["expected"] for c in cormode_as_run.as_run(record, said, size, "alike")
        }
        best = printed_.conclusions(held)
        assert best["0.2"] == "HaarHRR"
        assert all(best[epsilon] != "HaarHRR" for epsilon in ("1.0", "1.1", "1.2", "1.4"))


def test_the_page_shows_the_recorded_tables(record: dict[str, Any]) -> None:
    text = (ROOT / cormode_as_run.PAGE).read_text(encoding="utf-8")
    shown = pages.refilled(text, cormode_as_run.tables(record))
    assert text == shown, "run: python -m benchmarks.cormode_as_run"
    other = json.loads(json.dumps(record))
    other["as run"][0]["expected"][0] += 0.1
    assert text != pages.refilled(text, cormode_as_run.tables(other))


@pytest.mark.parametrize("branching", [2, 4])
def test_the_column_of_oue_is_what_our_own_channel_has(branching: int) -> None:
    """The mean squared error that is computed for HH_B, from second moments of TreeOUE."""
    size = 64
    channel = sf.Hierarchical(branching, "oue").bind(UniformMetric(Fraction("1.1"), size))
    law, cells = cormode.cauchy(size), np.arange(size)
    ends = [(a, b) for a in range(size) for b in range(a + 1, size + 1)]
    rows = np.array([(cells >= a) & (cells < b) for a, b in ends], dtype=np.float64)
    exact = ((channel.second_moment(rows) - rows**2) @ law).mean()
    moments = cormode.Moments(channel, law, cormode.Queries.ranges(size))
    assert exact == pytest.approx(moments.unary(1.1), rel=1e-9)


def test_splitting_epsilon_stands_beside_drawing_a_level() -> None:
    """By a factor near the root of h for small ε (§4.4): h = 6 levels of two, 3 of four."""
    rows = {(row["B"], row["epsilon"]): row for row in cormode.split(64, cormode.cauchy(64))}
    for branching, levels in ((2, 6), (4, 3)):
        row = rows[branching, 0.2]
        assert row["split"] / row["drawn"] == pytest.approx(np.sqrt(levels), rel=0.05)
