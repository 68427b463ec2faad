"""Square Wave: its table, its width, its reading, and the answers that come of it."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from helpers_channels import TIGHT, worst_odds
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.channels.least_squares import reading_of
from sfumato.channels.response import KaryResponse
from sfumato.channels.square_wave import SquareWaveChannel, recommended_width
from sfumato.errors import FormatError, StudyError
from sfumato.exact import at_most_exp, exp_floor
from sfumato.metrics.uniform import UniformMetric


def wave(
    size: int, eps: object = 1, width: int | None = None, precision: int = 64
) -> SquareWaveChannel:
    metric = UniformMetric(Fraction(str(eps)), size)
    return sf.SquareWave(width).bind(metric, precision=precision)


class TestTable:
    @pytest.mark.parametrize(("size", "width"), [(2, 0), (2, 1), (7, 3), (16, 5), (9, 8)])
    def test_near_places_are_a_window_around_the_cell(self, size: int, width: int) -> None:
        channel = wave(size, "1/2", width)
        rows, total = channel.words()
        for x, row in enumerate(rows):
            assert len(row) == size + 2 * width == channel.outputs
            assert sum(row) == total
            near = set(range(x, x + 2 * width + 1))
            assert all((words > channel.far) == (y in near) for y, words in enumerate(row))

    @pytest.mark.parametrize("precision", [5, 8, 13, 64])
    @pytest.mark.parametrize("width", [0, 1, 4])
    def test_as_few_far_words_as_the_odds_allow(self, width: int, precision: int) -> None:
        """One far word less and the odds would be too large, so nothing is given away."""
        channel = wave(6, 2, width, precision)
        odds, total = exp_floor(Fraction(2)), 1 << precision
        assert channel.worst_ratio() <= odds
        less = channel.far - 1
        assert less == 0 or Fraction(-(-(total - 5 * less) // channel.window), less) > odds

    @pytest.mark.parametrize("precision", [13, 64])
    @pytest.mark.parametrize("eps", ["1/2", "1"])
    def test_words_left_over_never_break_the_bound(self, eps: str, precision: int) -> None:
        """Some near places have a word more; where that is too much, far ones get more."""
        odds, total = exp_floor(Fraction(eps)), 1 << precision
        raised = 0
        for size in range(2, 13):
            for width in range(size):
                channel = wave(size, eps, width, precision)
                assert at_most_exp(channel.worst_ratio(), Fraction(eps))
                raised += channel.far > math.ceil(total / (channel.window * odds + size - 1))
        assert raised > 5, "the case is among these"

    @pytest.mark.parametrize("size", [1000, 2048])
    def test_large_channels_by_structure(self, size: int) -> None:
        channel = wave(size, "1/3")
        assert channel.window * channel.near + channel.spare + (size - 1) * channel.far == 1 << 64
        assert at_most_exp(channel.worst_ratio(), Fraction(1, 3))
        assert not at_most_exp(channel.worst_ratio(), TIGHT * Fraction(1, 3))

    def test_structure_and_rows_agree_on_the_worst_odds(self) -> None:
        channel = wave(9, 1, 2, precision=13)
        rows, _ = channel.words()
        odds = [Fraction(*worst_odds(rows, x, y)) for x in range(9) for y in range(9) if x != y]
        assert channel.spare > 0
        assert max(odds) == channel.worst_ratio()

    def test_without_a_window_it_is_randomised_response(self) -> None:
        for eps in ("0.1", "3"):
            metric = UniformMetric(Fraction(eps), 7)
            assert wave(7, eps, 0).words() == KaryResponse().bind(metric).words()


class TestWidth:
    @pytest.mark.parametrize("eps", ["0.05", "0.3", "1", "2.5", "6"])
    def test_is_that_of_the_paper_rounded_down(self, eps: str) -> None:
        e = float(eps)
        share = (e * math.exp(e) - math.exp(e) + 1) / (2 * math.exp(e) * (math.exp(e) - 1 - e))
        for size in (2, 10, 256, 2048):
            assert recommended_width(Fraction(eps), size) == math.floor(size * share)

    @given(st.integers(0, 300), st.integers(2, 2048))
    def test_any_epsilon_gives_less_than_half_the_axis(self, power: int, size: int) -> None:
        assert 0 <= 2 * recommended_width(Fraction(1, 1 << power), size) <= size
        assert recommended_width(Fraction(1 << power), size) <= size // 2

    def test_limits(self) -> None:
        assert recommended_width(Fraction(1, 10**40), 1001) == 500
        assert recommended_width(Fraction(10**6), 2048) == 0


class TestReading:
    @pytest.mark.parametrize("size", [3, 10, 24])
    def test_no_other_unbiased_function_varies_less_when_people_are_spread_evenly(
        self, size: int
    ) -> None:
        """To f any function with mean 0 in every cell may be added: none of them helps."""
        channel = wave(size, 1, width=size // 3)
        law = channel.likelihood()
        f = channel.coefficients(np.arange(size) < size / 2)
        *_, turned = np.linalg.svd(law)
        idle = turned[size:]
        assert len(idle) == 2 * channel.width
        np.testing.assert_allclose(law @ idle.T, 0, atol=1e-14)
        np.testing.assert_allclose(idle @ (law.mean(axis=0) * f), 0, atol=1e-13)

    def test_cells_that_cannot_be_told_apart_are_refused(self) -> None:
        with pytest.raises(StudyError, match="cannot be read: some cells can hardly"):
            reading_of(np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]]))

    def test_outputs_that_never_come_are_read_as_nothing(self) -> None:
        law = np.array([[0.75, 0.25, 0.0], [0.25, 0.75, 0.0]])
        reading = reading_of(law)
        np.testing.assert_allclose(reading @ law.T, np.eye(2), atol=1e-15)
        assert not reading[:, 2].any()


def ages(channel: sf.SquareWave, eps: float = 1.0, size: int = 32) -> sf.Study:
    return sf.Study(
        "ages", [sf.integers("age", 0, size - 1, protect=sf.Uniform(eps), channel=channel)]
    )


class TestStudy:
    counts = np.rint(20_000 * np.exp(-(((np.arange(32) - 12) / 6) ** 2)) / 10).astype(int)

    @pytest.mark.slow
    def test_likelihood_answers_beat_unbiased_ones_on_a_smooth_population(self) -> None:
        """Mean squares over 31 prefixes, of 40 runs 0.06e6 and 0.48e6, apart by 0.42e6 ± 0.14e6 a
        run: over 6 runs the difference is 7 standard errors from none."""
        study = ages(sf.SquareWave())
        true = np.cumsum(self.counts)
        squares = np.zeros(2)
        for seed in range(6):
            tally = study.simulate_counts(self.counts, seed=seed)
            for place, method in enumerate(("likelihood", "unbiased")):
                estimate = tally.estimate(method)
                found = [estimate.count({"age": (0, k)}).value for k in range(31)]
                squares[place] += np.mean((np.array(found) - true[:-1]) ** 2)
        assert squares[0] < squares[1]

    def test_without_smoothing_it_is_plain_em(self) -> None:
        """At the maximum no cell's derivative exceeds n, and those with people are at it."""
        study = ages(sf.SquareWave())
        tally = study.simulate_counts(self.counts, seed=3)
        estimate = tally.estimate("likelihood", smoothing="none")
        counts = estimate.decoder((0,)).counts().ravel()  # type: ignore[attr-defined]
        channel = study.channels[0]
        seen = estimate.statistic.profile([0], [None])
        slope = channel.expect(seen / channel.mix(counts))
        assert counts.min() >= 0
        assert counts.sum() == pytest.approx(self.counts.sum())
        assert slope.max() < 1.01
        np.testing.assert_allclose(slope[counts > counts.max() / 100], 1, atol=0.01)

    def test_width_goes_into_the_file_only_if_given(self) -> None:
        assert "width" not in ages(sf.SquareWave()).to_toml()
        study = ages(sf.SquareWave(3))
        assert "width = 3" in study.to_toml()
        again = sf.Study.from_toml(study.to_toml())
        assert again.channels[0].words() == study.channels[0].words()
        assert again.fingerprint != ages(sf.SquareWave(4)).fingerprint


class TestRefusals:
    @pytest.mark.parametrize("width", [-1, 2.0, True, "wide"])
    def test_widths_that_are_no_numbers_of_cells(self, width: object) -> None:
        with pytest.raises(StudyError, match=r"width must be a whole number of cells, 0 or more"):
            sf.SquareWave(width)  # type: ignore[arg-type]

    def test_a_width_beyond_the_axis(self) -> None:
        with pytest.raises(StudyError, match="width must be below the number of cells, 32"):
            _ = ages(sf.SquareWave(32)).channels

    def test_more_cells_than_can_be_read(self) -> None:
        said = r"0\.031 GiB.*limit is 2048 cells. Use Hierarchical\(\)"
        with pytest.raises(StudyError, match=said):
            _ = ages(sf.SquareWave(), size=2049).channels

    def test_tables_too_coarse(self) -> None:
        with pytest.raises(StudyError, match="too coarse for 9 cells"):
            wave(9, "0.1", precision=4)

    def test_unknown_options_in_a_file(self) -> None:
        text = ages(sf.SquareWave(3)).to_toml().replace("width = 3", "breadth = 3")
        with pytest.raises(FormatError, match="does not take these options"):
            sf.Study.from_toml(text)


@pytest.mark.parametrize("changed", ["near", "far", "spare"])
@pytest.mark.parametrize("by", [-1, 1])
def test_words_that_do_not_sum_to_all_are_found_without_listing_the_law(
    changed: str, by: int
) -> None:
    """On so many cells the odds are checked by structure, which does not add up rows."""
    metric = UniformMetric(Fraction(1), 500)
    channel = sf.SquareWave().bind(metric)
    assert metric.size**2 * channel.outputs > channel.most_ratios
    assert channel.check(metric).problems == []
    object.__setattr__(channel, changed, getattr(channel, changed) + by)
    (problem,) = channel.check(metric).problems
    assert "the words of a row sum to" in problem
