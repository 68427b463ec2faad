"""The channel made for any finite metric: private to the last word, and as good as brute force."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.arrays import Floats
from sfumato.channels.searched import extreme_rows
from sfumato.channels.searched.codec import OutputRows
from sfumato.channels.searched.extremal import ExtremalChannel, _in_integers
from sfumato.channels.searched.extreme_rows import Found, exponential, fit, mean_square
from sfumato.channels.searched.shares import weigh
from sfumato.exact import at_most_exp
from sfumato.metrics.cells import CellMetric, TableMetric

PLACES = [(0, 0), (1, 0), (0, 2), (3, 1), (2, 3)]


def line(size: int, step: float) -> sf.Metric:
    return sf.Matrix([[str(abs(i - j) * Fraction(step)) for j in range(size)] for i in range(size)])


def uneven(size: int) -> sf.Metric:
    """A directed E, closed or not."""
    rng = np.random.default_rng(size)
    values = rng.integers(2, 12, (size, size)) / 8
    np.fill_diagonal(values, 0)
    return sf.Matrix(values.tolist())


METRICS: dict[str, tuple[int, sf.Metric]] = {
    "uniform": (5, sf.Uniform(1)),
    "two": (2, sf.Uniform("0.3")),
    "line": (5, line(5, 0.5)),
    "places": (5, sf.Points("1/2", at=[(f"c{k}", place) for k, place in enumerate(PLACES)])),
    "uneven": (4, uneven(4)),
    "uneven five": (5, uneven(5)),
    "near": (3, line(3, 2.0**-10)),
    "far": (4, line(4, 40)),
    "two far": (2, sf.Uniform(30)),
}


def axis_of(name: str, channel: sf.Extremal | None = None) -> sf.Axis:
    size, metric = METRICS[name]
    labels = [f"c{k}" for k in range(size)]
    return sf.categories("x", labels, protect=metric, channel=channel or sf.Extremal())


def channel_of(name: str) -> ExtremalChannel:
    (channel,) = sf.Study("s", [axis_of(name)]).channels
    assert isinstance(channel, ExtremalChannel)
    return channel


# Privacy


def worst_share(rows: list[list[int]], metric: CellMetric) -> float:
    """The largest log ratio over E; every pair is decided exactly."""
    worst = 0.0
    for i, j in product(range(metric.size), repeat=2):
        e = metric.exact(i, j)
        assert e is not None
        ratio = max(Fraction(a, b) for a, b in zip(rows[i], rows[j], strict=True))
        assert at_most_exp(ratio, e)
        if i != j:
            worst = max(worst, math.log(ratio) / float(e))
    return worst


@pytest.mark.parametrize("name", METRICS)
def test_words_keep_the_metric_exactly_and_spend_nearly_all_of_it(name: str) -> None:
    channel = channel_of(name)
    rows, total = channel.words()
    assert {sum(row) for row in rows} == {total == 2**64 and total}
    assert min(min(row) for row in rows) > 0
    spent = worst_share(rows, channel.metric)
    # Beyond E = 12 nothing more is spent.
    assert spent > (0.25 if "far" in name else 0.999)


def test_a_table_for_another_metric_is_refused() -> None:
    rows = channel_of("uniform").rows
    looser = sf.Uniform("0.99").bind(axis_of("uniform").domain, optional=False)
    with pytest.raises(sf.StudyError, match="does not keep the metric"):
        ExtremalChannel(metric=looser, rows=rows)
    stricter = replace(rows, shares=rows.shares * 1.01)
    with pytest.raises(sf.StudyError, match="does not keep the metric"):
        ExtremalChannel(metric=channel_of("uniform").metric, rows=stricter)


def test_every_pair_is_checked_in_its_own_direction() -> None:
    """E lowered for one ordered pair at a time: refused where an output spends all of it."""
    channel = channel_of("uneven")
    rows, _ = channel.words()
    metric = channel.metric
    assert isinstance(metric, TableMetric)
    refused = 0
    for i, j in permutations(range(metric.size), 2):
        lower = metric.numerators * 100
        lower[i, j] -= metric.numerators[i, j]  # by a hundredth
        stricter = TableMetric(lower, metric.denominator * 100, metric.size)
        e = stricter.exact(i, j)
        assert e is not None
        held = all(at_most_exp(Fraction(a, b), e) for a, b in zip(rows[i], rows[j], strict=True))
        if held:
            ExtremalChannel(metric=stricter, rows=channel.rows)
            continue
        refused += 1
        with pytest.raises(sf.StudyError, match="does not keep the metric"):
            ExtremalChannel(metric=stricter, rows=channel.rows)
    assert refused >= 6


def test_the_blank_is_checked_too() -> None:
    """Two outputs within E whose sums differ leave a blank that is likelier from one cell."""
    metric = axis_of("two").metric()
    logs = np.array([[0, 0], [-4, 0]], dtype=np.int32)  # in thousandths, nearly
    even = OutputRows(logs * 0, 10, np.array([0.5, 0.499]), 0.0)
    with pytest.raises(sf.StudyError, match="told apart"):  # private, and says nothing
        ExtremalChannel(metric=metric, rows=even)
    with pytest.raises(sf.StudyError, match="does not keep the metric"):
        ExtremalChannel(metric=metric, rows=replace(even, logs=logs, shares=np.array([0.8, 0.199])))


# Errors


@pytest.mark.parametrize("name", METRICS)
def test_readings_are_unbiased_and_the_error_is_what_the_search_promised(name: str) -> None:
    channel = channel_of(name)
    law = channel.likelihood()
    assert np.allclose(channel.coefficients(np.eye(channel.size)) @ law.T, np.eye(channel.size))
    gram = np.eye(channel.size) / channel.size
    usual = exponential(gram, channel.metric.matrix()).value
    assert mean_square(law, gram) < usual * (1 + 1e-3)
    found = fit(gram, np.minimum(channel.metric.matrix(), 12))
    assert mean_square(law, gram) == pytest.approx(found.value, rel=1e-3)
    assert channel.gap == pytest.approx(found.value / found.bound - 1, abs=5.1e-5)


def trees(size: int) -> list[list[tuple[int, int]]]:
    """All trees on so many cells, by their Prüfer codes."""
    found = []
    for code in product(range(size), repeat=size - 2):
        degree = [1 + code.count(cell) for cell in range(size)]
        edges = []
        for cell in code:
            leaf = degree.index(1)
            edges.append((leaf, cell))
            degree[leaf] -= 1
            degree[cell] -= 1
        edges.append(tuple(cell for cell in range(size) if degree[cell] == 1))  # type: ignore[arg-type]
        found.append(edges)
    return found


def all_rows(distance: Floats) -> Floats:
    """Every extreme ray: all trees of tight pairs, in all directions, that keep E elsewhere."""
    size = len(distance)
    found = {}
    for edges in trees(size):
        for ups in product([False, True], repeat=size - 1):
            logs = {edges[-1][0]: 0.0}
            while len(logs) < size:
                for (a, b), up in zip(edges, ups, strict=True):
                    # "Up" means that a lies above b by as much as E(a, b) lets it.
                    apart = distance[a, b] if up else -distance[b, a]
                    if b in logs:
                        logs.setdefault(a, logs[b] + apart)
                    elif a in logs:
                        logs.setdefault(b, logs[a] - apart)
            row = np.array([logs[cell] for cell in range(size)])
            if np.all(row[:, None] - row <= distance + 1e-9):
                row -= row.max()
                found[tuple(np.round(row, 9))] = row
    rows = np.exp(np.array(list(found.values())))
    scaled: Floats = rows / rows.mean(axis=1, keepdims=True)
    return scaled


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name in METRICS if name not in ("near", "far", "two far")]
)
def test_no_channel_is_better_by_more_than_a_thousandth_as_brute_force_shows(name: str) -> None:
    size, _ = METRICS[name]
    distance = axis_of(name).metric().matrix()
    rows = all_rows(distance)
    for gram in (np.eye(size) / size, np.array(WEIGHTS[:size, :size].T @ WEIGHTS[:size, :size])):
        # With all rows priced, the bound is the theorem's: no channel at all is below it.
        least, shares = bound_by_all(rows, gram)
        found = fit(gram, distance)
        assert least * (1 - 1e-9) <= found.value <= least * 1.002
        assert found.bound <= found.value
        assert found.bound == pytest.approx(least, rel=2e-3)
        assert np.allclose(shares @ rows, 1, atol=1e-7)
        assert np.allclose(found.shares @ np.exp(found.logs), 1, atol=1e-12)
        assert np.all(found.logs[:, :, None] - found.logs[:, None, :] <= distance + 1e-9)


WEIGHTS = np.tri(5) + 0.3 * np.eye(5)


def bound_by_all(rows: Floats, gram: Floats) -> tuple[float, Floats]:
    """f²/(Σλ + v) for the best weights of all extreme rows, and the weights."""
    found = weigh(rows, gram, np.full(len(rows), 1 / len(rows)), 2_000)
    over = np.einsum("ij,jk,ik->i", rows, found.kernel, rows) - rows @ found.prices
    worst = max(float(over.max()), 0.0)
    return found.value**2 / (float(found.prices.sum()) + worst), found.shares


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_a_search_cut_short_has_the_error_it_states(rounds: int) -> None:
    distance = axis_of("places").metric().matrix()
    gram = np.eye(5) / 5
    found = fit(gram, distance, rounds=rounds)
    law = np.exp(found.logs).T * found.shares
    assert np.allclose(law.sum(axis=1), 1)
    assert mean_square(law, gram) == pytest.approx(found.value, rel=1e-6)
    whole = fit(gram, distance)
    assert found.bound <= whole.value * (1 + 1e-9)
    assert found.value > whole.value * (1.02 if rounds == 1 else 1)
    assert found.value < exponential(gram, distance).value / 2


def test_two_cells_get_the_binary_optimum() -> None:
    distance = np.array([[0, 0.7], [1.9, 0]])
    found = fit(np.eye(2) / 2, distance)
    a, b = np.exp(distance[1, 0]), np.exp(-distance[0, 1])
    law = np.array([[a - 1, 1 - b], [b * (a - 1), a * (1 - b)]]) / (a - b)  # Theorem 2
    assert found.value == pytest.approx(mean_square(law, np.eye(2) / 2), rel=1e-6)


LABELS = [f"c{k}" for k in range(8)]
INFINITE: dict[str, tuple[int, sf.Metric, sf.Channel, float]] = {
    # how many cells, the metric, a channel made for it, and the most that errors may differ
    "two, one hidden": (2, sf.HighLow(1, LABELS[:1]), sf.Binary(), 1.001),
    "two, little hidden": (2, sf.HighLow("0.1", LABELS[:1]), sf.Binary(), 1.001),
    "two, uneven": (2, sf.Matrix([[0, "0.7"], ["1.9", 0]]), sf.Binary(), 1.001),
    "one of eight hidden": (8, sf.HighLow(1, LABELS[:1]), sf.Hadamard(), 0.8),
    "blocks": (8, sf.Blocks(1, [LABELS[:3], LABELS[3:7], LABELS[7:]]), sf.Hadamard(), 0.8),
}


@pytest.mark.parametrize("name", INFINITE)
def test_infinite_and_uneven_distances_are_used_as_well_as_by_channels_made_for_them(
    name: str,
) -> None:
    size, metric, usual, most = INFINITE[name]
    made, known = (
        sf.Study("s", [sf.categories("x", LABELS[:size], protect=metric, channel=channel)])
        for channel in (sf.Extremal(), usual)
    )
    gram = np.eye(size) / size
    errors = [second_moment(study.channels[0]) for study in (made, known)]
    assert math.sqrt(errors[0] / errors[1]) < most
    bound = made.channels[0].metric
    distance = np.minimum(bound.matrix(), 12)
    assert errors[0] < fit(gram, distance).value * 1.002  # beyond E = 12 hardly anything is left
    assert sf.audit(made).holds


def test_rows_that_are_rare_but_needed_are_kept() -> None:
    """Only one output in a thousand says anything about the first cell."""
    distance = np.array([[0, 0.001, 0.301], [12, 0, 0.3], [12, 12, 0]])
    found = fit(np.eye(3) / 3, distance)
    assert found.value < found.bound * 1.001
    assert found.value < exponential(np.eye(3) / 3, distance).value / 1_000


def second_moment(channel: sf.Channel) -> float:
    """Σ E[f²] over all cells for people spread evenly, less the mean, a cell."""
    found: float = mean_square(channel.likelihood(), np.eye(channel.size) / channel.size)
    return found - 1 / channel.size


# The same rows from slightly other numbers


@pytest.mark.parametrize("name", ["uniform", "line", "places", "uneven", "ring", "sensitive"])
def test_rounding_errors_do_not_change_what_is_found(name: str) -> None:
    """Inputs are off by 1e-13, a thousand times more than the last digit of a double."""
    distance = REPEATED[name]
    size = len(distance)
    gram = np.eye(size) / size
    rng = np.random.default_rng(1)
    other = distance * (1 + 1e-13 * rng.standard_normal(distance.shape))
    found, again = (_in_integers(fit(gram, d), distance) for d in (distance, other))
    assert found.to_text() == again.to_text()
    # What the rounding costs: E is shortened by 2^-12, and the blank takes a little.
    law = np.exp(np.ldexp(found.logs.astype(np.float64), -found.unit)).T * found.shares
    assert mean_square(law, gram) < fit(gram, distance).value * 1.002
    different = _in_integers(fit(gram, distance * 1.001), distance)
    assert found.to_text() != different.to_text()


def _repeated() -> dict[str, Floats]:
    found = {
        name: axis_of(name).metric().matrix() for name in ("uniform", "line", "places", "uneven")
    }
    around = np.abs(np.subtract.outer(np.arange(9), np.arange(9)))
    found["ring"] = np.minimum(around, 9 - around) / 2
    hidden = np.arange(9) < 2
    found["sensitive"] = np.where(hidden[:, None] | hidden, 1.0, 2.0) * (1 - np.eye(9))
    return found


REPEATED = _repeated()


@pytest.mark.slow
def test_places_on_a_map_are_read_much_better_than_by_the_exponential_channel() -> None:
    grid = sf.Grid(south=55.9, west=-3.3, north=56.0, east=-3.1, rows=3, columns=4)
    protect = grid.points(epsilon=1, per="4 km")
    studies = [
        sf.Study("homes", [grid.axis("home", protect=protect, channel=channel)])
        for channel in (sf.Extremal(), sf.Exponential())
    ]
    made, usual = (s.expected_error(1_000, "home=r2c2").rows[-1].stderr for s in studies)
    assert made < usual / 3
    people = {"home": ["r2c2"] * 3_000 + ["r1c4"] * 1_000}
    answer = studies[0].simulate(people, seed=4).estimate("unbiased").count(home="r2c2")
    assert abs(answer.value - 3_000) < 4 * answer.stderr


def test_a_search_that_fails_falls_back_on_the_exponential_channel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any) -> Found:
        raise np.linalg.LinAlgError

    gram, distance = np.eye(3) / 3, 1 - np.eye(3)
    monkeypatch.setattr(extreme_rows, "_descend", fail)
    seen: list[float] = []
    found = fit(gram, distance, progress=seen.append)
    assert found.value == exponential(gram, distance).value
    assert seen == [1.0]
    law = np.exp(found.logs).T * found.shares
    assert np.allclose(law, np.exp(-distance / 2) / (1 + 2 * np.exp(-0.5)))


# Comparing


def test_it_is_compared_where_a_table_holds_the_metric(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SFUMATO_CACHE", str(tmp_path))
    size, metric = METRICS["places"]
    axis = sf.categories("x", [f"c{k}" for k in range(size)], protect=metric)
    study = sf.Study("s", [axis])
    rows = {row.channel: row for row in study.compare(1_000, methods=["unbiased"])}
    made, usual = rows["extremal (cells)"], rows["exponential"]
    assert made.best
    assert made.stderr < 0.6 * usual.stderr
    again = sf.Study("s", [axis_of("places")]).compare(1_000, methods=["unbiased"])
    (own,) = [row for row in again if row.channel == "extremal (cells)"]
    assert own.chosen
    assert own.stderr == made.stderr


def test_it_is_not_compared_where_others_are_made_for_the_metric() -> None:
    for axis in (
        sf.integers("x", 0, 9, protect=sf.Distance(1)),
        sf.integers("x", 0, 9, protect=sf.Uniform(1)),
        sf.integers("x", 0, 9, protect=sf.HighLow(1, [1])),
        sf.categories("x", ["a", "b"], protect=sf.Matrix([[0, 1], [2, 0]])),
    ):
        found = sf.Study("s", [axis]).compare(1_000, methods=["unbiased"])
        assert not [row for row in found if row.channel.startswith("extremal")]


# Files and slips


def test_a_study_holds_its_rows_and_needs_no_search_again(monkeypatch: pytest.MonkeyPatch) -> None:
    study = sf.Study("s", [axis_of("places")])
    text = study.to_toml()
    monkeypatch.setattr(extreme_rows, "fit", None)
    again = sf.Study.from_toml(text)
    assert again.fingerprint == study.fingerprint
    assert again.channels[0].words() == study.channels[0].words()
    assert sf.Study("s", [axis_of("places")]).fingerprint == study.fingerprint  # from the cache


def test_text_holds_rows_exactly_and_damage_is_refused() -> None:
    rows = channel_of("uneven").rows
    text = rows.to_text()
    read = OutputRows.from_text(text)
    assert np.array_equal(read.logs, rows.logs)
    assert np.array_equal(read.shares, rows.shares)
    assert (read.unit, read.gap) == (rows.unit, rows.gap)
    for bad in ("", "x", text[:-8], text[8:], text[::-1], replace(rows, unit=-1).to_text()):
        with pytest.raises(sf.StudyError, match="damaged"):
            sf.Extremal(table=bad)
    for change in (
        {"shares": -rows.shares},
        {"shares": rows.shares * np.nan},
        {"logs": rows.logs[:2], "shares": rows.shares[:2]},
        {"logs": rows.logs * 0 + 2**30, "unit": 0},
    ):
        with pytest.raises(sf.StudyError, match="damaged"):
            OutputRows.from_text(replace(rows, **change).to_text())


def test_workloads_are_named_or_given() -> None:
    size, _ = METRICS["places"]
    halves = [[1, 1, 0, 0, 0], [0, 0, 1, 1, 1]]
    studies = [
        sf.Study("s", [axis_of("places", channel)])
        for channel in (sf.Extremal(halves), sf.Extremal())
    ]
    assert studies[0].axes[0].channel.workload == "own"  # type: ignore[union-attr]
    assert sf.Study.from_toml(studies[0].to_toml()).fingerprint == studies[0].fingerprint
    for_halves, for_cells = (s.expected_error(1_000, "x=c0|c1").rows[-1].stderr for s in studies)
    assert for_halves < for_cells
    assert sf.Extremal(halves).options()["workload"] == halves
    with pytest.raises(sf.StudyError, match="workload must be"):
        sf.Extremal("cell")
    with pytest.raises(sf.StudyError, match=f"its workload has 2 columns and the axis has {size}"):
        _ = sf.Study("s", [axis_of("places", sf.Extremal([[1, 0]]))]).channels
    table = channel_of("uneven").rows.to_text()
    with pytest.raises(sf.StudyError, match="its table is for 4 cells and the axis has 5"):
        _ = sf.Study("s", [axis_of("places", sf.Extremal(table=table))]).channels


def test_metrics_that_do_not_fit_are_named() -> None:
    large = sf.integers("x", 0, 256, protect=sf.Distance(1), channel=sf.Extremal())
    with pytest.raises(sf.TooLargeError, match="257 cells; the limit is 256"):
        sf.Study("s", [large])
    tiny = sf.integers("x", 0, 3, protect=sf.Distance("1e-4"), channel=sf.Extremal())
    with pytest.raises(sf.StudyError, match=r"E must be at least 2\^-12"):
        _ = sf.Study("s", [tiny]).channels
