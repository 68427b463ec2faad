"""Simulated tallies of 10^9 and 10^10 people follow the law of the channels, and are answered."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_statistics import LIMIT, mean_score, variance_score
from scipy import stats

import sfumato as sf
from sfumato.arrays import BitColumns
from sfumato.channels.base import SymbolChannel
from sfumato.channels.choice import REGISTRY
from sfumato.channels.flips import BitChannel
from sfumato.collect.block_sums import BlockSums
from sfumato.collect.simulation import _draw_by_cell, _draw_by_person, draw_sums
from sfumato.collect.statistics import SymbolCounts

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:  # for the benchmarks, whose sums of bits are checked here
    sys.path.insert(0, str(ROOT))

from benchmarks import sizing  # noqa: E402

SIGNIFICANCE = 1e-6  # of every chi-square test; there are about 200
FEW, MANY = 40_000, 10**10
LEAST = 25.0  # outputs that are expected less often are counted together


def _channels(name: str) -> list[Any]:
    """A registered channel on all cells that it is tried with."""
    return [trial.bind() for trial in REGISTRY[name].trials()]


def _p_value(found: np.ndarray, law: np.ndarray) -> float:
    """Chi-square of counts against a law; rare outputs are counted together."""
    expected = law * found.sum()
    rare = expected < LEAST
    seen = np.append(found[~rare], found[rare].sum())
    wanted = np.append(expected[~rare], expected[rare].sum())
    if wanted[-1] < LEAST:  # too few to count on their own: with the most frequent
        at = wanted[:-1].argmax()
        seen[at], wanted[at] = seen[at] + seen[-1], wanted[at] + wanted[-1]
        seen, wanted = seen[:-1], wanted[:-1]
    if len(wanted) == 1:
        return 1.0
    return float(stats.chi2.sf(((seen - wanted) ** 2 / wanted).sum(), len(wanted) - 1))


def _outputs(channel: SymbolChannel, statistic: Any) -> np.ndarray:
    """How many people sent each output."""
    assert isinstance(statistic, SymbolCounts)
    return np.bincount(statistic.symbols[0], statistic.people, minlength=channel.outputs)


def _moved(law: np.ndarray) -> np.ndarray:
    """The law with a hundredth of the most frequent output given to the next one."""
    order = np.argsort(law)
    other = law.copy()
    other[order[-1]] -= law[order[-1]] / 100
    other[order[-2]] += law[order[-1]] / 100
    return other


@pytest.mark.slow
@pytest.mark.parametrize("name", REGISTRY)
def test_the_people_of_one_cell_are_multinomial_by_the_likelihood(name: str) -> None:
    """40,000 people one by one, and 10^10 at once: chi-square against one row of the law.

    Double precision moves the expected count of an output by at most a part in 10^15 of 10^10.
    """
    for channel in _channels(name):
        if not isinstance(channel, SymbolChannel):
            continue
        cell = channel.size // 2
        law = channel.likelihood()[cell]
        for draw, number in ((_draw_by_person, FEW), (_draw_by_cell, MANY)):
            counts = np.zeros(channel.size, dtype=np.int64)
            counts[cell] = number
            found = _outputs(channel, draw([channel], counts, 5))
            assert found.sum() == number
            assert _p_value(found, law) > SIGNIFICANCE
        if np.count_nonzero(law) > 1:  # a cell that is not protected has one output
            assert _p_value(found, _moved(law)) < SIGNIFICANCE


@pytest.mark.parametrize("number", [10**9, 10**10])
def test_binomial_draws_of_so_many_people_are_exact(number: int) -> None:
    """NumPy counts in 64 bits and rejects by logarithms, to about 10^-6 of a chance at 10^10.

    Draws in 50 bins, against the distribution function; the twin is off by a tenth of a standard
    deviation.
    """
    draws = np.random.default_rng(8).binomial(number, 0.3, 200_000)
    assert draws.dtype == np.int64
    ends = stats.binom.ppf(np.arange(1, 50) / 50, number, 0.3)
    found = np.bincount(np.searchsorted(ends, draws), minlength=50)
    for chance, right in ((0.3, True), (0.3 + 0.1 * np.sqrt(0.21 / number), False)):
        law = np.diff(stats.binom.cdf(ends, number, chance), prepend=0.0, append=1.0)
        assert (_p_value(found, law) > SIGNIFICANCE) == right


@pytest.mark.slow
@pytest.mark.parametrize("name", ["thermometer", "oue", "matrix-response"])
def test_sums_of_bits_are_those_of_reports(name: str) -> None:
    """Means and variances of every bit, one by one and by sums, against `bit_chances`.

    Over 300 runs a variance has a relative standard error of √(2/300) = 0.08, so a variance of 0.3
    of the right one is 8 of them away; half a standard deviation of the mean is √300/2 = 8.7.
    """
    runs = 300
    for channel in _channels(name)[:3]:
        assert isinstance(channel, BitChannel)
        counts = np.arange(1, channel.size + 1) * 64
        chances = np.array([channel.bit_chances(cell) for cell in range(channel.size)])
        mean, variance = counts @ chances, counts @ (chances * (1 - chances))
        cells = np.repeat(np.arange(channel.size), counts).astype(np.int64)
        bits = sf.SeededBits(3)
        by_person, by_sum = [], []
        for run in range(runs):
            outputs = channel.encode(cells, bits)
            assert isinstance(outputs, BitColumns)
            by_person.append(outputs.to_matrix().sum(axis=0))
            by_sum.append(draw_sums([channel], counts, run).sums[0])
        for samples in (np.array(by_person), np.array(by_sum)):
            for bit, sample in enumerate(samples.T):
                assert abs(mean_score(sample, mean[bit], variance[bit])) < LIMIT
                assert abs(variance_score(sample, variance[bit])) < LIMIT
                off = mean[bit] + 0.5 * np.sqrt(variance[bit])
                assert abs(mean_score(sample, off, variance[bit])) > LIMIT
                assert abs(variance_score(sample, 0.3 * variance[bit])) > LIMIT


def _sums_study() -> sf.Study:
    """Blocks of every kind: independent bits, bits that depend on each other, and symbols."""
    u = sf.Uniform(1)
    return sf.Study(
        "sums",
        [
            sf.integers("a", 0, 5, protect=sf.Distance(1), channel=sf.Thermometer()),
            sf.integers("b", 0, 3, protect=u, channel=sf.Hierarchical(oracle="oue")),
            sf.categories("c", ["x", "y", "z"], protect=u, channel=sf.KaryResponse()),
        ],
    )


@pytest.mark.slow
def test_tallies_of_sums_have_the_law_of_those_of_reports() -> None:
    """Every sum of every block over 300 tallies, against its exact mean and variance.

    A relative standard error of a variance is √(2/300) = 0.08, so a variance of 0.3
    of the right one is 8 of them away.
    """
    study, runs = _sums_study(), 300
    counts = np.arange(study.shape[0] * study.shape[1] * study.shape[2]).reshape(study.shape) * 9
    tallies = [
        [study.simulate_counts(counts, seed=run, keep="sums").statistic for run in range(runs)],
        [
            BlockSums.of(study.simulate_counts(counts, seed=run).statistic)  # type: ignore[arg-type]
            for run in range(runs)
        ],
    ]
    for place, channel in enumerate(study.channels):
        own = counts.sum(axis=tuple(axis for axis in range(3) if axis != place))
        mean, variance = _moments_of_sums(channel, own)
        for found in tallies:
            assert all(isinstance(held, BlockSums) and held.count == counts.sum() for held in found)
            samples = np.array([held.sums[place] for held in found])  # type: ignore[union-attr]
            for sample, middle, spread in zip(samples.T, mean, variance, strict=True):
                if spread < 1e-6:  # the bit that everyone sets
                    assert set(sample) == {round(middle)}
                    continue
                assert abs(mean_score(sample, middle, spread)) < LIMIT
                assert abs(variance_score(sample, spread)) < LIMIT
                assert abs(mean_score(sample, middle + 0.5 * np.sqrt(spread), spread)) > LIMIT
                assert abs(variance_score(sample, 0.3 * spread)) > LIMIT


def _moments_of_sums(channel: Any, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of every sum of a block: people answer independently, by their cell."""
    chances = channel.likelihood()
    if not isinstance(channel, SymbolChannel):
        patterns = np.arange(1 << channel.width)
        chances = np.array([chances @ (patterns >> bit & 1) for bit in range(channel.width)]).T
    return counts @ chances, counts @ (chances * (1 - chances))


def test_blocks_that_are_alike_do_not_share_their_noise() -> None:
    axes = [
        sf.integers(name, 0, 5, protect=sf.Distance(1), channel=sf.Thermometer()) for name in "ab"
    ]
    counts = np.full((6, 6), 10**8)
    found = sf.Study("s", axes).simulate_counts(counts, seed=1, keep="sums").statistic
    assert isinstance(found, BlockSums)
    assert not np.array_equal(*found.sums)


@pytest.mark.slow
def test_sums_of_billions_of_people_are_answered_and_saved(tmp_path: Path) -> None:
    study = _sums_study()
    counts = np.full(study.shape, 10**8)
    tally = study.simulate_counts(counts.ravel() * 0, seed=1, keep="sums")
    assert tally == study.accumulator(keep="sums").freeze()
    axis = sf.integers("a", 0, 5, protect=sf.Distance(1), channel=sf.Thermometer())
    study = sf.Study("sums", [axis, sf.integers("c", 0, 9, protect=sf.Distance(1))])
    counts = np.full(study.shape, 10**8)
    tally = study.simulate_counts(counts, seed=-1, keep="sums")
    tally.save(tmp_path / "tally.parquet")
    found = sf.Tally.load(tmp_path / "tally.parquet", study).estimate("unbiased")
    for asked, truth in (("a=2..3", 2 * 10**9), ("c=..4", 3 * 10**9)):
        answer = found.count(asked)
        assert answer.n == 6 * 10**9
        assert abs(answer.value - truth) < LIMIT * answer.stderr < 0.001 * truth
    one = sf.Study("one", [sf.integers("c", 0, 9, protect=sf.Distance(1))])
    same = [one.simulate_counts([5] * 10, seed=1, keep=keep) for keep in ("reports", "sums")]
    assert same[0] == same[1]
    with pytest.raises(sf.StudyError, match="keep must be"):
        one.simulate_counts([5] * 10, seed=1, keep="some")  # type: ignore[arg-type]


STUDIES = {
    "geometric": sf.integers("x", 0, 31, protect=sf.Distance("0.2"), channel=sf.Geometric()),
    "k-ary": sf.integers("x", 0, 31, protect=sf.Uniform(1), channel=sf.KaryResponse()),
    "comb": sf.integers("x", 0, 31, protect=sf.Uniform(1), channel=sf.Comb()),
    "hadamard": sf.integers("x", 0, 31, protect=sf.Uniform(1), channel=sf.Hadamard()),
    "hierarchical": sf.integers("x", 0, 31, protect=sf.Uniform(1), channel=sf.Hierarchical()),
    "thermometer": sf.integers("x", 0, 31, protect=sf.Distance("0.2"), channel=sf.Thermometer()),
}
RUNS = 100


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_errors_of_a_billion_people_are_those_expected(name: str) -> None:
    study = sf.Study("many", [STUDIES[name]])
    counts = sizing.hump(study.shape, 10**9)
    asked = sizing.question_of(study)
    truth = float(counts[study.shape[0] // 4 : study.shape[0] // 2 + 1].sum())
    expected = study.expected_error(10**9, asked, prior=counts)[asked].stderr
    found = [sizing.simulated_count(study, counts, asked, seed) for seed in range(RUNS)]
    assert abs(mean_score(found, truth, expected**2)) < LIMIT
    assert abs(variance_score(found, expected**2)) < LIMIT
    assert abs(variance_score(found, (1.5 * expected) ** 2)) > LIMIT


@pytest.mark.slow
@pytest.mark.parametrize("number", [10**9, 10**10])
@pytest.mark.parametrize("axes", [1, 2])
def test_likelihood_answers_of_so_many_people_hold_what_they_state(number: int, axes: int) -> None:
    """Six tallies: the root mean square of errors over stated errors.

    It is at most 1 + 4/√12 if errors are as stated; they may be smaller.
    """
    other = sf.integers("y", 0, 7, protect=sf.Uniform(1), channel=sf.Comb())
    study = sf.Study("many", [STUDIES["geometric"], other][:axes])
    counts = sizing.hump(study.shape, number)
    truth = counts[8:17].sum()
    scores = []
    for seed in range(6):
        answer = study.simulate_counts(counts, seed=seed).estimate("likelihood").count("x=8..16")
        assert answer.n == number
        assert 0 < answer.stderr < 1e-3 * number
        scores.append((answer.value - truth) / answer.stderr)
    assert np.sqrt(np.mean(np.square(scores))) < 1 + LIMIT / np.sqrt(12)
