"""Combs: the exact law, its transforms, and how good the reading is."""

from __future__ import annotations

import itertools
import time
from fractions import Fraction

import numpy as np
import pytest
from helpers_channels import Stream, all_words
from numpy.typing import NDArray

import sfumato as sf
from sfumato.channels import comb
from sfumato.channels.comb import CombChannel
from sfumato.channels.comb_tables import MOST_SYMBOLS, comb_weights
from sfumato.errors import StudyError, TooLargeError
from sfumato.estimation.decoding.mixture import Runs, SymbolMixture, _refuse_outputs
from sfumato.exact import at_most_exp
from sfumato.metrics.distance import LineMetric
from sfumato.metrics.uniform import UniformMetric
from sfumato.randomness.bits import SeededBits
from sfumato.study.choose_uniform import choose_uniform, comb_variance, hash_variance, kary_variance

Floats = NDArray[np.float64]


def bound(
    shape: tuple[int, ...],
    eps: Fraction | float = 1,
    ordered: tuple[bool, ...] | None = None,
    *,
    precision: int = 64,
) -> CombChannel:
    metric = UniformMetric(Fraction(eps), int(np.prod(shape)))
    if len(shape) == 1 and ordered is None:
        return sf.Comb().bind(metric, precision=precision)
    return CombChannel(
        metric=metric,
        shape=shape,
        ordered=ordered or (True,) * len(shape),
        precision=precision,
    )


# The guarantee


def test_one_word_more_under_a_tooth_would_break_the_bound() -> None:
    """Near turns are rounded down by no more than they must be."""
    channel = bound((12,))
    words = channel._turns.weights
    near, far = max(words), min(words)
    more = Fraction(near + (1 << 8), far - (1 << 8))
    assert at_most_exp(Fraction(near, far), Fraction(1))
    assert not at_most_exp(more, Fraction(1))


@pytest.mark.parametrize("shape", [(5,), (2, 3), (4, 4)], ids=str)
def test_every_pair_of_words_gives_the_law(shape: tuple[int, ...]) -> None:
    precision = 6
    channel = bound(shape, 2, precision=precision)
    rows, total = channel.words()
    first, second = (
        part.ravel() for part in np.meshgrid(all_words(precision), all_words(precision, junk=7))
    )
    for cell, row in enumerate(rows):
        people = np.full(len(first), cell)
        out = channel.encode(people, Stream(first, second))
        counts = np.bincount(out, minlength=channel.outputs)
        assert counts.tolist() == row
        assert counts.sum() == total


# The reading


@pytest.mark.parametrize("shape", [(7,), (12,), (4, 4), (3, 6)], ids=str)
def test_rows_that_are_one_row_moved_are_squared_by_one_transform(shape: tuple[int, ...]) -> None:
    """All cells of a histogram: their squares, over people and over reports, one by one."""
    channel = bound(shape)
    rng = np.random.default_rng(8)
    bump = rng.random(channel.size)
    order = rng.permutation(channel.size)
    several = np.eye(channel.size)[order]
    moved = bump[channel._moved(order)]
    profile = rng.integers(0, 9, (2, channel.outputs)).astype(float)
    law = channel.likelihood()
    for rows in (several, moved):
        assert channel._moves(rows) is not None
        squares = channel.coefficients(rows) ** 2
        assert np.allclose(channel.products(profile, rows, rows), profile @ squares.T)
        assert np.allclose(channel.second_moment(rows), squares @ law.T)
    moved[1, 0] += 0.01
    assert channel._moves(moved) is None
    assert bound((3, 5))._moves(np.eye(15)) is None, "16 steps around, and no more than 15 cells"


@pytest.mark.parametrize("shape", [(7,), (12,), (4, 4), (3, 5)], ids=str)
def test_squares_of_any_rows_are_those_of_the_matrix(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over reports and over people, also when combs are read a few at a time."""
    channel = bound(shape)
    rng = np.random.default_rng(9)
    profile = rng.integers(0, 9, channel.outputs).astype(float)
    rows = rng.random((3, channel.size))
    read = channel.coefficients(rows) ** 2
    for near in (1, 1 << 16):
        monkeypatch.setattr("sfumato.channels.comb._ENTRIES_NEAR", near)
        for some in (rows, rows[:1]):
            sums, moments = channel.squares(profile, some)
            assert np.allclose(sums, (read @ profile)[: len(some)])
            assert np.allclose(moments, (read @ channel.likelihood().T)[: len(some)])


@pytest.mark.parametrize("size", [5, 12, 16, 31])
def test_the_reading_is_nearly_the_best_linear_one(size: int) -> None:
    """People spread evenly: least squares with the true law of outputs gains a percent at most."""
    channel = bound((size,))
    law = channel.likelihood()
    information = (law / law.mean(axis=0)) @ law.T
    for low, high in itertools.combinations(range(size + 1), 2):
        weights = ((np.arange(size) >= low) & (np.arange(size) < high)).astype(float)
        best = weights @ np.linalg.solve(information, weights)
        assert channel.second_moment(weights).mean() <= 1.01 * best


def test_combs_beat_a_hierarchy_and_haar_on_ranges() -> None:
    """The reason for being: unbiased, m = 256, ε = 1, mean over all ranges."""
    metric = UniformMetric(Fraction(1), 256)
    combs = comb_variance(sf.Comb().bind(metric))
    ends = np.sort(np.random.default_rng(0).integers(0, 256, (60, 2)), axis=1)
    cells = np.arange(256)
    ranges = ((cells >= ends[:, :1]) & (cells <= ends[:, 1:])).astype(float)
    own = (sf.Comb().bind(metric).second_moment(ranges) - ranges**2).mean()
    assert own == pytest.approx(combs, rel=0.15)  # sixty ranges stand for all
    for other in (sf.Hierarchical(), sf.HaarHRR(), sf.OLH(), sf.KaryResponse()):
        theirs = (other.bind(metric).second_moment(ranges) - ranges**2).mean()
        assert theirs > 1.5 * own


@pytest.mark.parametrize(("shape", "eps"), [((8,), 1), ((12,), 0.5), ((30,), 2), ((6, 4), 1)])
def test_predicted_variances_equal_sums_over_all_ranges(shape: tuple[int, ...], eps: float) -> None:
    axes = []
    for size in shape:
        pairs = itertools.combinations(range(size + 1), 2)
        axes.append(np.array([[float(a <= x < b) for x in range(size)] for a, b in pairs]))
    rows = axes[0]
    for part in axes[1:]:
        rows = np.einsum("ax,by->abxy", rows, part).reshape(len(rows) * len(part), -1)
    channel = bound(shape, eps)
    truth = (channel.second_moment(rows) - rows**2).mean()
    assert comb_variance(channel) == pytest.approx(truth, rel=0.03)
    ordered = (True,) * len(shape)
    kary = sf.KaryResponse().bind(channel.metric)
    exact = (kary.second_moment(rows) - rows**2).mean()
    assert kary_variance(channel.metric, shape, ordered) == pytest.approx(exact, rel=1e-9)


# Decoding


def test_runs_of_turns_are_joined_for_decoding_alone() -> None:
    channel = bound((40,))
    runs = Runs.of(channel)
    assert runs is not None
    assert runs.lengths.sum() == channel.outputs
    law, rng = np.random.default_rng(5).dirichlet(np.ones(40)), np.random.default_rng(6)
    full = np.add.reduceat(channel.mix(law), runs.starts)
    assert np.allclose(runs.mix(law), full)
    assert np.allclose(runs.likelihood(), np.add.reduceat(channel.likelihood(), runs.starts, 1))
    values = rng.random(len(runs.starts))
    assert np.allclose(runs.expect(values), runs.likelihood() @ values)
    counts = rng.integers(0, 9, channel.outputs).astype(float)
    one, two = SymbolMixture.of([channel], counts), SymbolMixture.of([channel], counts, [(8, 5)])
    assert one.counts.sum() == two.counts.sum() == counts.sum()
    assert np.allclose(one.forward(law), two.forward(law.reshape(8, 5)))
    assert np.allclose(one.backward(values), two.backward(values).ravel())
    assert Runs.of(bound((8,))) is None  # few turns stand by themselves


@pytest.mark.slow
def test_joining_turns_loses_little() -> None:
    """Information about a range of 256 cells before and after, people spread evenly."""
    channel = bound((256,))
    law = channel.likelihood()
    joined = Runs.of(channel).likelihood()
    weights = (np.arange(256) < 77).astype(float)
    errors = []
    for matrix in (law, joined):
        information = (matrix / matrix.mean(axis=0)) @ matrix.T
        errors.append(weights @ np.linalg.solve(information, weights))
    assert errors[0] < errors[1] < 1.05 * errors[0]


def test_many_cells_are_read_without_a_matrix() -> None:
    channel = bound((2048,))
    with pytest.raises(TooLargeError, match="GiB"):
        channel.likelihood()
    people = np.repeat([100, 1500], [30_000, 20_000])
    out = channel.encode(people, SeededBits(7))
    weights = (np.arange(2048) < 1000).astype(float)
    values = channel.functional(weights)(out)
    spread = np.sqrt(np.sum((channel.second_moment(weights) - weights**2)[people]))
    assert abs(values.sum() - 30_000) < 4 * spread
    assert spread < 2_500


# Choosing it, and refusing it


def test_the_planner_chooses_by_variance() -> None:
    def chosen(size: int, eps: float, ordered: bool = True) -> object:
        metric = UniformMetric(Fraction(eps), size)
        return choose_uniform(metric, (size,), (ordered,))[0]

    assert chosen(256, 1) == sf.Comb()
    tree = sf.Hierarchical(4, "best", "optimised")
    assert chosen(256, 4) == tree  # trees have the smaller variance
    assert chosen(100, 4) == sf.Hierarchical(5, "best", "optimised")
    large = UniformMetric(Fraction(3), 256)
    assert choose_uniform(large, (256,), (True,), method="unbiased")[0] == tree
    assert chosen(2, 1) == sf.KaryResponse()
    assert chosen(8, 6) == sf.KaryResponse()  # the truth is told nearly always
    assert chosen(6, 1.5) == sf.KaryResponse()  # few cells: 1.22 times its variance is too much
    near = UniformMetric(Fraction(2), 8)  # combs have 1.36 times the unbiased variance
    assert choose_uniform(near, (8,), (True,))[0] == sf.Comb()
    assert choose_uniform(near, (8,), (True,), method="unbiased")[0] == sf.KaryResponse()
    assert chosen(4096, 1) == sf.Hierarchical(2, "best", "optimised")  # too many combs
    assert chosen(4, 1, ordered=False) == sf.KaryResponse()
    assert chosen(40, 1, ordered=False) == sf.OLH()
    study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Uniform(1))])
    assert study.blocks[0].choice == sf.Comb()
    assert "times smaller than that of k-ary response" in study.explain()
    assert sf.Study.from_toml(study.to_toml()) == study


@pytest.mark.parametrize(
    ("size", "eps"),
    [
        *((size, eps) for size in (2, 3) for eps in ("1e-9", "1e-3", "1", "6", "30")),
        *((5, eps) for eps in ("3", "20")),
        *((11, eps) for eps in ("4", "8", "20", "300")),
    ],
)
def test_combs_that_say_the_same_as_k_ary_response_are_not_chosen(size: int, eps: str) -> None:
    """One step under a tooth, and a prime number of cells; rounding does not choose."""
    metric = UniformMetric(Fraction(eps), size)
    channel = sf.Comb().bind(metric)
    assert channel.tooth == 1
    law, plain = channel.likelihood(), sf.KaryResponse().bind(metric).likelihood()
    first = law[:, : channel.circle] / channel.chances[0]
    assert np.allclose(np.sort(first, axis=1), np.sort(plain, axis=1), rtol=1e-9)
    for method in ("likelihood", "unbiased"):
        found, why = choose_uniform(metric, (size,), (True,), method=method)
        assert found == sf.KaryResponse()
        assert "equally accurate" in why


@pytest.mark.parametrize("eps", ["1e-320", "1e-30", "1e-17", "700", "1e6", "1e400"])
def test_any_epsilon_has_a_choice_or_a_clear_refusal(eps: str) -> None:
    for size, ordered in ((2, True), (16, True), (16, False)):
        try:
            study = sf.Study(
                "s",
                [
                    sf.integers("a", 0, size - 1, protect=sf.Uniform(eps))
                    if ordered
                    else sf.categories("a", [str(k) for k in range(size)], protect=sf.Uniform(eps))
                ],
            )
            study.channels  # noqa: B018
        except StudyError as refused:
            beyond = "epsilon must lie between 1e-305 and 1e305" in str(refused)
            assert beyond or "use a larger epsilon" in str(refused)  # noqa: PT017
            assert Fraction(eps) < 1 or (beyond and Fraction(eps) > Fraction("1e305"))
        else:
            assert Fraction(eps) > 1 or study.expected_error(10).rows[-1].stderr > 1e6


@pytest.mark.parametrize("size", [4, 7, 16])
def test_the_least_epsilons_are_read_as_surely(size: int) -> None:
    """Chances that differ in their last digits only: the reading must not rest on these."""
    channel = bound((size,), Fraction(1, 10**12))
    law = [[Fraction(word) for word in row] for row in channel.words()[0]]
    total = channel.words()[1]
    weights = (np.arange(size) < size // 2).astype(float)
    read = [Fraction(value) for value in channel.coefficients(weights).tolist()]
    means = [sum(p * f for p, f in zip(row, read, strict=True)) / total for row in law]
    # Readings are about 10^13, each rounded by 2^-53 of that, and nothing else may go wrong.
    assert np.allclose([float(mean) for mean in means], weights, atol=2e-2)


@pytest.mark.slow
def test_defaults_can_be_decoded_by_the_default_decoder() -> None:
    """Whatever ε: hashes and trees have no more kinds of reports than are decoded."""
    for eps in ("1/2", "1", "2", "3", "4", "6", "10"):
        for shape, ordered in (
            ((1_000,), (False,)),
            ((5_000,), (False,)),
            ((30_000,), (False,)),
            ((5_000,), (True,)),
            ((70_000,), (True,)),
            ((200, 200), (True, True)),
            ((500, 9, 9), (True, True, True)),
            ((40, 40, 40), (True, True, True)),
        ):
            metric = UniformMetric(Fraction(eps), int(np.prod(shape)))
            choice, _ = choose_uniform(metric, shape, ordered)
            _refuse_outputs(choice.bind_grid(metric, shape, ordered))
    with pytest.raises(TooLargeError, match=r"279,841 kinds .* the limit is 262,144"):
        _refuse_outputs(sf.OLH().bind(UniformMetric(Fraction(3), 1_000)))
    thousand = UniformMetric(Fraction(3), 1_000)
    assert choose_uniform(thousand, (1_000,), (False,))[0] == sf.OLH(19)
    assert choose_uniform(thousand, (1_000,), (False,), method="unbiased")[0] == sf.OLH()
    many = UniformMetric(Fraction(1), 1 << 22)  # more than hashes take
    assert choose_uniform(many, (1 << 22,), (False,))[0] == sf.HRR()


def test_hashes_have_the_variance_of_the_channel() -> None:
    metric = UniformMetric(Fraction(2), 300)
    one = np.zeros(300)
    one[7] = 1.0
    for prime in (3, 7, 11):
        channel = sf.OLH(prime).bind(metric)
        exact = float((channel.second_moment(one) - one**2).mean())
        assert hash_variance(metric, prime) == pytest.approx(exact, rel=0.02)
    assert hash_variance(metric) <= min(hash_variance(metric, g) for g in (7, 11))
    assert hash_variance(metric) == pytest.approx(hash_variance(metric, 7), rel=0.02)


def test_many_combs_are_drawn_up_in_linear_time() -> None:
    """40³ cells have 32,000 combs, whose words took minutes when each summed all weights anew."""
    start = time.process_time()
    channel = bound((40, 40, 40))
    assert sum(channel._combs.weights) == 1 << 64
    assert time.process_time() - start < 20


def test_combs_of_a_grid_are_drawn_as_often_as_pays() -> None:
    """1/k along an ordered axis and 2 without teeth; √m without teeth where there is no order."""
    teeth = np.array([[0, 1], [1, 0], [1, 1], [2, 3], [6, 1]])
    one = Fraction(1 << 40)
    both = comb_weights(teeth, (8, 9), (True, True))
    assert [Fraction(w) / one for w in both] == [2, 2, 1, Fraction(both[3]) / one, Fraction(1, 2)]
    assert both[3] == (1 << 40) // 2 // 3
    assert comb_weights(teeth, (8, 9), (True, False)) == [
        2 << 40,
        3 << 40,
        1 << 40,
        1 << 39,
        1 << 39,
    ]


@pytest.mark.parametrize("ordered", [(True, True), (True, False)], ids=str)
def test_other_factors_for_no_teeth_have_larger_errors(
    ordered: tuple[bool, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random boxes of 32 × 16 cells: a third as often, or three times, and the variance grows."""
    shape = (32, 16)
    usual = comb_variance(bound(shape, 1, ordered))
    rightly = comb.comb_weights

    for factor in (Fraction(1, 3), Fraction(3)):

        def other(
            teeth: NDArray[np.int64],
            moduli: tuple[int, ...],
            axes: tuple[bool, ...],
            factor: Fraction = factor,
        ) -> list[int]:
            empty = (teeth == 0).sum(axis=1).tolist()
            pairs = zip(rightly(teeth, moduli, axes), empty, strict=True)
            return [max(1, int(weight * factor**none)) for weight, none in pairs]

        monkeypatch.setattr(comb, "comb_weights", other)
        assert comb_variance(bound(shape, 1, ordered)) > usual
        monkeypatch.setattr(comb, "comb_weights", rightly)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(StudyError, match=r"protect=Uniform"):
        sf.Comb().bind(LineMetric.equal(Fraction(1), 5))
    with pytest.raises(StudyError, match=f"limit is {MOST_SYMBOLS:,}. Hierarchical"):
        sf.Comb().bind(UniformMetric(Fraction(1), 5000))
    with pytest.raises(StudyError, match="stochastic rounding"):
        sf.Comb().bind(UniformMetric(Fraction(1), 5), resolution=20)
    with pytest.raises(StudyError, match="too coarse"):
        bound((100,), Fraction(1, 10**18))


@pytest.mark.parametrize("table", ["_combs", "_turns"])
def test_the_audit_sees_a_sampler_with_other_bounds(table: str) -> None:
    study = sf.Study("s", [sf.integers("x", 0, 11, protect=sf.Uniform(1), channel=sf.Comb())])
    assert sf.audit(study).holds
    bounds = getattr(study.channels[0], table)._bounds
    bounds[0] += 1
    assert "bounds" in sf.audit(study).axes[0].problems[0]
