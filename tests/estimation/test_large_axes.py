"""Large axes: all cells and prefixes at once are what rows of weights, written out, would be."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from helpers_contract import TRIALS

import sfumato as sf
from sfumato.arrays import DENSE_CELLS
from sfumato.channels import base
from sfumato.channels.base import SymbolChannel
from sfumato.collect.statistics import SymbolCounts
from sfumato.errors import TooLargeError
from sfumato.estimation import quantiles, source
from sfumato.estimation.distribution import distribution
from sfumato.estimation.readings import product_rows
from sfumato.estimation.rows import EveryCell
from sfumato.metrics.uniform import UniformMetric

ONE = Fraction(1)
LARGE = 2 * DENSE_CELLS + 3
NAMES = [name for name, trial in TRIALS.items() if isinstance(trial.bind(), SymbolChannel)]


def expected_tally(channels, people):
    """The tally that people in these cells have on average, as weights."""
    law = people
    for place, channel in enumerate(channels):
        law = np.moveaxis(channel.mix(np.moveaxis(law, place, -1)), -1, place)
    layouts = tuple(channel.layout for channel in channels)
    symbols = np.unravel_index(np.arange(law.size), law.shape)
    return SymbolCounts(layouts, tuple(symbols), law.ravel(), int(people.sum()))


@pytest.mark.parametrize("name", NAMES)
def test_all_rows_are_the_rows_written_out(name, monkeypatch):
    # Formulas for all cells leave out the room for few people in a cell that only they add to.
    monkeypatch.setattr(base, "leaning", lambda moments, weights: np.zeros(len(weights)))
    channel = TRIALS[name].bind()
    if not channel.linear:
        pytest.skip("its readings are not linear: rows are always written out")
    size = channel.size
    other = sf.KaryResponse().bind(UniformMetric(ONE, 3))
    people = np.random.default_rng(1).integers(1, 50, (size, 3)).astype(float)
    statistic = expected_tally([channel, other], people)
    ranges = np.linspace(1.0, 0.25, size)
    for upto, asked in ((False, np.ones(size)), (False, ranges), (True, np.ones(size))):
        every = EveryCell(asked, np.arange(size)[: size - upto], upto)
        rows = (np.tri(size) if upto else np.eye(size)) * asked
        written = rows[every.cells]
        for own, population in ((None, False), (ranges, False), (ranges, True)):
            where = [own, np.array([1.0, 0.0, 0.5])]
            found, right = (
                product_rows(statistic, [channel, other], where, {0: table}, population)
                for table in (every, written)
            )
            scale = 1e-9 * (np.abs(right[1]).max() + np.abs(right[0]).max())
            for new, old in zip(found[:3], right[:3], strict=True):
                assert np.abs(new - old).max() <= scale
            # Cells with equal second moments differ in their weight: by that of one person.
            assert np.abs(found[3] - right[3]).max() <= scale + 1


def study_of(channel, protect):
    axis = sf.integers("x", 0, 59, protect=protect, channel=channel)
    place = sf.categories("place", ["a", "b"], protect=sf.Uniform(1), optional=True)
    return sf.Study("large", [axis, place])


STUDIES = {
    "geometric": (sf.Geometric(), sf.Distance(0.5)),
    "capped": (sf.Geometric(), sf.Distance(0.5, cap=3)),
    "k-ary": (sf.KaryResponse(), sf.Uniform(3)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.parametrize("weighted", [False, True])
def test_answers_do_not_depend_on_the_way(name, weighted, monkeypatch):
    study = study_of(*STUDIES[name])
    rng = np.random.default_rng(2)
    table = {
        "x": np.clip(rng.normal(30, 9, 4000), 0, 59).astype(int),
        "place": rng.choice(["a", "b"], 4000),
    }
    reports = study.encode(table, bits=sf.SeededBits(3))
    tally = study.tally(reports)
    if weighted:
        tally = study.tally(reports, weights=rng.choice([0.5, 1.0, 2.0], 4000))
    est = tally.estimate("unbiased")

    def answers():
        for where in (None, {"place": "a"}, {"x": (0, 40)}, {"x": (10, 40), "place": "a"}):
            for fraction in (False, True):
                for population in (False, True):
                    common = {"where": where, "fraction": fraction, "population": population}
                    yield est.histogram("x", **common)
                    yield est.cdf("x", **common)
        yield est.quantile("x", [0.1, 0.5, 0.9])
        yield est.quantile("x", [0.1, 0.5, 0.9], where={"place": "a"}, population=True)

    monkeypatch.setattr(quantiles, "MOST_CELLS", 1)
    written = list(answers())
    monkeypatch.setattr(source, "MOST_ROWS", 1)
    for new, old in zip(answers(), written, strict=True):
        assert (new.labels, new.notes) == (old.labels, old.notes)
        assert (new.edges is None) == (old.edges is None)
        assert old.edges is None or np.array_equal(new.edges, old.edges)
        for part in ("values", "stderr", "low", "high"):
            wanted = getattr(old, part)
            # An error of zero may come out as the root of a rounding error of the variance.
            room = 2.0**-26 * np.nanmax(np.abs(old.high), initial=1.0)
            np.testing.assert_allclose(getattr(new, part), wanted, rtol=1e-9, atol=room)


@pytest.mark.slow
def test_likelihood_answers_have_the_same_values_and_unbiased_errors(monkeypatch):
    study = study_of(*STUDIES["geometric"])
    rng = np.random.default_rng(6)
    table = {"x": rng.integers(10, 40, 3000), "place": rng.choice(["a", "b"], 3000)}
    tally = study.simulate(table, seed=7)
    est, unbiased = tally.estimate("likelihood"), tally.estimate("unbiased")

    def answers(of):
        for where in (None, {"place": "a"}, {"x": (0, 40), "place": "b"}):
            for fraction in (False, True):
                yield of.histogram("x", where=where, fraction=fraction)
                yield of.cdf("x", where=where, fraction=fraction)

    written = list(answers(est))
    monkeypatch.setattr(source, "MOST_ROWS", 1)
    for new, old, plain in zip(answers(est), written, answers(unbiased), strict=True):
        room = 1e-9 * np.abs(old.values).max()
        np.testing.assert_allclose(new.values, old.values, rtol=1e-9, atol=room)
        np.testing.assert_allclose(new.stderr, plain.stderr, rtol=1e-9, atol=1e-12)
        assert np.all((new.low <= new.values + room) & (new.values <= new.high + room))
        assert new.method == "likelihood"


def test_rows_that_are_read_at_once_are_used(monkeypatch):
    study = study_of(*STUDIES["geometric"])
    est = study.simulate({"x": [3] * 50, "place": ["a"] * 50}, seed=1).estimate("unbiased")
    monkeypatch.setattr(source, "MOST_ROWS", 1)
    assert isinstance(est._every_cell(0, None, True), EveryCell)
    gap = np.ones(60)
    gap[20] = 0.0
    assert est._every_cell(0, gap, True) is None
    assert isinstance(est._every_cell(0, gap, False), EveryCell)


def test_a_twin_with_another_error_is_told_apart(monkeypatch):
    """The comparison above fails if one square is off by a millionth."""
    study = study_of(*STUDIES["geometric"])
    est = study.simulate({"x": [3] * 500, "place": ["a"] * 500}, seed=1).estimate("unbiased")
    right = est.histogram("x").stderr
    monkeypatch.setattr(source, "MOST_ROWS", 1)
    sound = type(study.channels[0]).all_squares
    monkeypatch.setattr(
        type(study.channels[0]),
        "all_squares",
        lambda self, profile, upto: sound(self, profile, upto=upto) * (1 + 1e-6),
    )
    assert not np.allclose(est.histogram("x").stderr, right, rtol=1e-9, atol=0.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "choice",
    [
        sf.Hadamard(),
        sf.OLH(),
        sf.OLH(g=5),
        sf.HRR(),
        sf.KaryResponse(),
        sf.HaarHRR(),
        sf.Hierarchical(),
        sf.Hierarchical(oracle="best"),
        sf.Hierarchical(2, "grr"),
    ],
    ids=str,
)
def test_errors_of_large_axes_are_those_of_the_law(choice):
    """Everyone in one cell is the worst case of what hashes and rows do not spread evenly.

    Each of the others adds to the variance with a random sign, of its share of all: together that
    is about one part in √cells, and six of these in the worst of a few rows.
    """
    channel = choice.bind(UniformMetric(ONE, LARGE))
    people = np.zeros(LARGE)
    people[LARGE // 3] = 1000.0
    profile = channel.mix(people)
    at = np.array([0, 7, LARGE // 3, LARGE // 2, LARGE - 2])
    for upto in (False, True):
        rows = (np.arange(LARGE) <= at[:, None]) if upto else (np.arange(LARGE) == at[:, None])
        moments = channel.second_moment(rows.astype(float))
        found = channel.all_squares(profile, upto=upto)[at]
        np.testing.assert_allclose(found, moments @ people, rtol=6 / np.sqrt(LARGE))
        # Somebody may be in a cell whose row is the sum of those of two pairs of k cells.
        top, _ = channel.all_peaks(upto=upto)
        apart = np.abs(top[at] / moments.max(axis=1) - 1)
        assert np.all(apart <= np.maximum(6 / np.sqrt(LARGE), 4 / rows.sum(axis=1) * upto))


@pytest.mark.slow
def test_a_large_axis_end_to_end():
    size = 1 << 17
    axis = sf.integers("x", 0, size - 1, protect=sf.Uniform(2))
    study = sf.Study("large", [axis])
    rng = np.random.default_rng(4)
    cells = np.clip(rng.normal(size / 2, size / 9, 30_000), 0, size - 1).astype(int)
    est = study.simulate({"x": cells}, seed=5).estimate("unbiased")
    found, cdf = est.histogram("x"), est.cdf("x", fraction=False)
    np.testing.assert_allclose(np.cumsum(found.values), cdf.values, rtol=0, atol=1e-5)
    assert (found.labels[-1], len(found.edges)) == (str(size - 1), size + 1)
    for place in (5, size // 3, size - 9):
        # The variances of both ways are estimates, whose errors are about 1/√reports of them.
        one, upto = est.count({"x": place}), est.count({"x": (0, place)})
        assert found.values[place] == pytest.approx(one.value, abs=1e-5)
        assert found.stderr[place] == pytest.approx(one.stderr, rel=0.05)
        assert cdf.values[place] == pytest.approx(upto.value, abs=1e-5)
        assert cdf.stderr[place] == pytest.approx(upto.stderr, rel=0.05)
    # Errors of neighbouring cells are nearly independent: 95 % of intervals hold, within 5 of
    # their own standard errors.
    truth = np.bincount(cells, minlength=size)
    off = (found.values - truth) / np.hypot(found.stderr, found.room)
    assert abs(np.mean(np.abs(off) < 1.96) - 0.95) < 0.02
    deciles = est.quantile("x", np.arange(1, 10) / 10)
    assert np.all((deciles.low <= deciles.values) & (deciles.values <= deciles.high))
    true = np.quantile(cells, np.arange(1, 10) / 10)
    assert np.mean((deciles.low <= true) & (true <= deciles.high)) >= 7 / 9
    shares = distribution(est)
    np.testing.assert_allclose(shares.values * est.n, found.values, rtol=1e-9, atol=1e-6)
    np.testing.assert_allclose(shares.stderr * est.n, found.stderr, rtol=1e-6)


@pytest.mark.slow
def test_what_has_no_formula_is_refused_with_a_remedy():
    protect = sf.Uniform(1)
    plain = sf.Hierarchical(oracle="hrr", consistency=False)
    study = sf.Study("s", [sf.integers("x", 0, LARGE - 1, protect=protect, channel=plain)])
    est = study.simulate({"x": [1, 2, 3]}, seed=1).estimate("unbiased")
    with pytest.raises(TooLargeError, match="bins=4096 or fewer"):
        est.histogram("x")
    assert len(est.histogram("x", bins=7)) == 7
    blocks = sf.Blocks(epsilon=1, blocks=[range(5000), range(5000, LARGE)])
    study = sf.Study("s", [sf.integers("x", 0, LARGE - 1, protect=blocks)])
    assert study.channels[0].id == "per-block"
    est = study.simulate({"x": [1, 2, 3]}, seed=1).estimate("unbiased")
    assert len(est.histogram("x")) == LARGE
    with pytest.raises(TooLargeError, match=r"no formula .* bins=4096 or fewer"):
        est.cdf("x")
    assert est.quantile("x", 0.5).low >= 0
    with pytest.raises(TooLargeError, match="leave bins out for single cells"):
        est.histogram("x", bins=5000)


@pytest.mark.slow
def test_pictures_of_too_many_cells_are_refused_with_a_remedy():
    study = sf.Study("s", [sf.integers("x", 0, 20_000, protect=sf.Distance(1))])
    found = study.simulate({"x": [1, 2, 3]}, seed=1).estimate("unbiased").histogram("x")
    with pytest.raises(TooLargeError, match=r"20,001 cells .* bins=\.\.\."):
        found.plot()
    assert "19,981 more" in found._repr_html_()
    assert len(found.to_arrow()) == 20_001
