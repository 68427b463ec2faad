"""The channel made for a workload: its words, its descent, its table in files, and its cache."""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from helpers_channels import ANY_SETS, exceeding_pair
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import sfumato as sf
from sfumato import files as cache
from sfumato.channels.searched import descent, optimised
from sfumato.channels.searched.codec import Sets
from sfumato.channels.searched.descent import fit, hierarchy, known, objective
from sfumato.channels.searched.optimised import OptimisedChannel
from sfumato.channels.searched.settling import WORKLOADS, cells_gram, prefixes_gram, ranges_gram
from sfumato.errors import FormatError, StudyError, TooLargeError
from sfumato.exact import at_most_exp, exp_floor
from sfumato.metrics.distance import LineMetric
from sfumato.metrics.uniform import UniformMetric


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("SFUMATO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A descent of a few steps, and a list that grows with each."""
    made: list[int] = []
    whole = descent.fit

    def short(gram: NDArray[np.float64], odds: float, outputs: int, **more: object) -> Sets:
        made.append(outputs)
        return whole(gram, odds, outputs, steps=5, progress=more.get("progress"))  # type: ignore[arg-type]

    monkeypatch.setattr(descent, "fit", short)
    return made


def uniform(size: int, eps: object = 1) -> UniformMetric:
    return UniformMetric(Fraction(str(eps)), size)


def axis_of(choice: sf.Optimised, size: int = 6, eps: float = 1.0) -> sf.Axis:
    return sf.integers("grade", 1, size, protect=sf.Uniform(eps), channel=choice)


def study_of(choice: sf.Optimised, size: int = 6, eps: float = 1.0) -> sf.Study:
    return sf.Study("grades", [axis_of(choice, size, eps)])


def all_rows(name: str, size: int) -> NDArray[np.float64]:
    """The workloads written out, one row a question."""
    ranges = [(a, b) for a in range(size) for b in range(a, size)]
    ends = {
        "ranges": ranges,
        "prefixes": [(0, b) for b in range(size)],
        "cells": [(a, a) for a in range(size)],
    }[name]
    place = np.arange(size)
    return np.array([(place >= a) & (place <= b) for a, b in ends], dtype=float)


class TestWords:
    @settings(deadline=None)
    @given(
        st.integers(2, 9),
        st.integers(0, 10**6),
        st.sampled_from(["1e-6", "0.01", "1", "5", "16", "40"]),
        st.sampled_from([12, 30, 64]),
    )
    def test_any_sets_and_weights_keep_the_guarantee(
        self, size: int, seed: int, eps: str, precision: int
    ) -> None:
        """Even a table made by an enemy: what binds is private."""
        rng = np.random.default_rng(seed)
        members = rng.random((size + int(rng.integers(0, 9)), size)) < rng.random()
        weights = np.floor(2.0 ** (32 * rng.random(len(members))))
        choice = sf.Optimised(table=Sets(members, weights).to_text())
        metric = uniform(size, eps)
        try:
            channel = choice.bind(metric, precision=precision)
        except StudyError as error:
            assert "too coarse" in str(error) or "hardly be told apart" in str(error)  # noqa: PT017
            return
        rows, total = channel.words()
        assert total == 1 << precision
        assert all(sum(row) == total and min(row) >= 0 for row in rows)
        assert exceeding_pair(rows, metric) is None

    def test_a_blank_that_rounding_makes_uneven_is_not_taken(self) -> None:
        """Coarse words: the first try leaves blanks that differ too much, a later one does not."""
        eps = Fraction(1, 100)
        odds, uneven = exp_floor(eps), 0
        for seed in range(60):
            rng = np.random.default_rng(seed)
            members = np.concatenate([np.eye(2, dtype=np.bool_), rng.random((8, 2)) < 0.5])
            sets = Sets(members, np.floor(2.0 ** (8 * rng.random(10))))
            uneven += optimised._words(sets, odds, 10, 10) is None
            for spare in range(1, 11):
                found = optimised._words(sets, odds, 10, spare)
                assert found is None or at_most_exp(Fraction(max(found[2]), min(found[2])), eps)
        assert uneven > 0

    def test_good_sets_leave_almost_nothing_to_the_blank(self) -> None:
        sets = hierarchy(16, 2, math.e)
        channel = sf.Optimised(table=sets.to_text()).bind(uniform(16))
        assert max(channel.blank) < 2.0**-30 * 2**64
        np.testing.assert_allclose(
            channel.likelihood()[:, :-1].sum(axis=1), 1, rtol=0, atol=2.0**-30
        )
        members = channel.sets.members.T
        assert np.where(members, channel.high, channel.low).shape == (16, channel.outputs - 1)


class TestDescent:
    @pytest.mark.parametrize("name", WORKLOADS)
    @pytest.mark.parametrize("size", [2, 5, 9])
    def test_grams_are_those_of_the_questions_written_out(self, name: str, size: int) -> None:
        rows = all_rows(name, size)
        np.testing.assert_allclose(WORKLOADS[name](size), rows.T @ rows / len(rows), atol=1e-14)

    @pytest.mark.parametrize("name", WORKLOADS)
    def test_the_objective_is_the_mean_square_of_all_answers(self, name: str) -> None:
        """Over all questions of the workload and all cells alike, from the channel itself."""
        channel = ANY_SETS.bind(uniform(6))
        squares = [channel.second_moment(row).mean() for row in all_rows(name, 6)]
        assert objective(channel.likelihood(), WORKLOADS[name](6)) == pytest.approx(
            np.mean(squares)
        )

    def test_the_gradient_is_that_of_the_objective(self) -> None:
        rng = np.random.default_rng(1)
        table, gram, step = rng.random((4, 7)) + 0.5, ranges_gram(4), 1e-6
        _, gradient = descent._loss(table, gram)
        for x, y in np.ndindex(table.shape):
            moved = [table.copy(), table.copy()]
            moved[0][x, y] += step
            moved[1][x, y] -= step
            slope = (objective(moved[0], gram) - objective(moved[1], gram)) / (2 * step)
            assert gradient[x, y] == pytest.approx(slope, rel=1e-6)

    def test_known_channels_are_those_channels(self) -> None:
        """Randomised response of the package, and a hierarchy by its own law."""
        metric = uniform(8)
        response = sf.KaryResponse().bind(metric).likelihood()
        found = [sets.table(math.e) for sets in known(8, math.e)]
        np.testing.assert_allclose(found[0], response, rtol=1e-12)
        for table in found:
            np.testing.assert_allclose(table.sum(axis=1), 1, rtol=1e-12)
            assert (table.max(axis=0) / table.min(axis=0)).max() <= math.e * (1 + 1e-12)
        # The level of pairs, one of three: 1/3 of randomised response over 4 nodes.
        sets = hierarchy(8, 2, math.e)
        pairs = sets.table(math.e)[:, 2:6] * 3
        nodes = sf.KaryResponse().bind(uniform(4)).likelihood()
        np.testing.assert_allclose(pairs, nodes[np.arange(8) // 2], rtol=1e-12)

    @pytest.mark.slow
    @pytest.mark.parametrize("gram", [ranges_gram, prefixes_gram, cells_gram])
    @pytest.mark.parametrize(("size", "eps"), [(8, 0.5), (8, 3.0), (16, 1.0)])
    def test_is_never_worse_than_what_is_known(self, gram: object, size: int, eps: float) -> None:
        """On its own objective, after rounding to words: not even than the best one of them."""
        wanted = gram(size)  # type: ignore[operator]
        odds = math.exp(eps)
        sets = fit(wanted, odds, 4 * size, steps=60)
        channel = sf.Optimised(table=sets.to_text()).bind(uniform(size, eps))
        best = min(objective(held.table(odds), wanted) for held in known(size, odds))
        reached = objective(channel.likelihood(), wanted)
        assert reached <= best * (1 + 1e-6)
        square = sf.SquareWave().bind(uniform(size, eps)).likelihood()
        assert reached <= objective(square, wanted) * (1 + 1e-6)

    @pytest.mark.slow
    def test_ranges_of_sixteen_cells_have_little_over_half_the_known_square(self) -> None:
        """Hadamard response has 12.55 at ε = 1, hierarchies 17; descents found 7.3 to 7.6."""
        sets = fit(ranges_gram(16), math.e, 64)
        assert objective(sets.table(math.e), ranges_gram(16)) < 7.8

    def test_without_a_step_the_best_known_channel_stands(self) -> None:
        gram = cells_gram(4)
        sets = fit(gram, math.exp(4), 4, steps=0)
        best = min(objective(held.table(math.exp(4)), gram) for held in known(4, math.exp(4)))
        assert objective(sets.table(math.exp(4)), gram) <= best

    def test_cells_that_no_output_parts_have_no_finite_error(self) -> None:
        assert objective(np.full((2, 3), 1 / 3), cells_gram(2)) == math.inf

    @pytest.mark.parametrize("eps", [0.05, 16.0])
    def test_few_outputs_and_extreme_odds_fall_back_on_what_is_known(self, eps: float) -> None:
        for size in (2, 3, 5):
            for gram in (ranges_gram(size), cells_gram(size)):
                odds = math.exp(eps)
                sets = fit(gram, odds, size, steps=10)
                best = min(objective(held.table(odds), gram) for held in known(size, odds))
                assert objective(sets.table(odds), gram) <= best

    def test_progress_rises_to_one(self) -> None:
        shares: list[float] = []
        fit(cells_gram(4), math.e, 16, steps=5, progress=shares.append)
        assert shares == sorted(shares)
        assert shares[-1] == 1.0
        assert len(shares) > 5


class TestFiles:
    def test_the_file_holds_the_channel_without_the_cache(
        self, own_cache: Path, tmp_path: Path, quick: list[int]
    ) -> None:
        study = study_of(sf.Optimised("prefixes"))
        assert quick == [24]
        study.save(tmp_path / "study.toml")
        for file in own_cache.iterdir():
            file.unlink()
        again = sf.Study.load(tmp_path / "study.toml")
        assert quick == [24]  # nothing was searched for again
        assert again.fingerprint == study.fingerprint
        assert again.axes == study.axes
        assert again.channels[0].words() == study.channels[0].words()
        assert not list(own_cache.iterdir())

    def test_a_study_of_a_settled_axis_is_the_same_study(self, quick: list[int]) -> None:
        study = study_of(sf.Optimised())
        assert sf.Study("grades", study.axes).fingerprint == study.fingerprint
        assert len(quick) == 1
        assert "table" not in repr(study.blocks[0].choice)

    def test_a_workload_of_ones_own_is_named_so_in_the_file(self, quick: list[int]) -> None:
        study = study_of(sf.Optimised([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]]))
        assert 'workload = "own"' in study.to_toml()
        assert sf.Study.from_toml(study.to_toml()).axes == study.axes

    @pytest.mark.slow
    def test_a_workload_of_ones_own_leaves_every_question_open(self) -> None:
        """The halves are all that was asked for; single cells have an answer, with more noise."""
        halves = [[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]]
        channel = sf.Optimised(halves).bind(uniform(6))
        law = channel.likelihood()
        np.testing.assert_allclose(channel.coefficients(np.eye(6)) @ law.T, np.eye(6), atol=1e-9)
        cells = sf.Optimised("cells").bind(uniform(6))
        assert channel.second_moment(halves[0]).mean() < cells.second_moment(halves[0]).mean()
        # Nine times the square of a channel made for cells; without a share of cells, 10^8 times.
        every = np.eye(6)
        assert channel.second_moment(every).mean() < 20 * cells.second_moment(every).mean()

    def test_text_and_sets_come_back(self) -> None:
        sets = Sets(np.random.default_rng(1).random((40, 11)) < 0.3, np.arange(40.0, 0, -1))
        again = Sets.from_text(sets.to_text())
        np.testing.assert_array_equal(again.members, sets.members)
        np.testing.assert_allclose(again.weights, sets.weights / 40 * (2**32 - 1), atol=0.5)
        assert again.to_text() == sets.to_text()

    def test_weights_too_small_for_the_file_are_raised_to_the_least(self) -> None:
        sets = Sets(np.eye(3, dtype=np.bool_), np.array([1.0, 1e-30, 0.5]))
        again = Sets.from_text(sets.to_text())
        assert again.weights.tolist() == [2**32 - 1, 2**31, 1]
        np.testing.assert_array_equal(again.members, sets.members[[0, 2, 1]])

    def test_a_damaged_table_is_refused(self) -> None:
        text = hierarchy(6, 2, math.e).to_text()
        raw = zlib.decompress(base64.b64decode(text))
        damaged = [
            "",
            "no table",
            text[:-8],
            text[:20] + ("A" if text[20] != "A" else "B") + text[21:],
            *(
                base64.b64encode(zlib.compress(data)).decode()
                for data in (
                    raw[:-1],
                    raw + b"\0",
                    b"sets9" + raw[5:],
                    raw[:7] + b"\xff\xff" + raw[9:],
                    raw[:9] + bytes(4) + raw[13:],
                    bytes(10**7),
                )
            ),
        ]
        for bad in damaged:
            with pytest.raises(StudyError, match="table of an optimised channel is damaged"):
                sf.Optimised(table=bad)
        with pytest.raises(StudyError, match="damaged"):
            sf.Optimised(table=7)  # type: ignore[arg-type]

    def test_a_file_with_a_damaged_table_is_refused(self, quick: list[int]) -> None:
        text = study_of(sf.Optimised()).to_toml()
        start = text.index('table = "') + 20
        with pytest.raises(FormatError, match="damaged"):
            sf.Study.from_toml(text[:start] + "!" + text[start + 1 :])


class TestCache:
    def test_the_second_study_finds_what_the_first_one_kept(
        self, own_cache: Path, quick: list[int]
    ) -> None:
        first = study_of(sf.Optimised())
        (kept,) = own_cache.iterdir()
        second = study_of(sf.Optimised())
        assert len(quick) == 1
        assert first.fingerprint == second.fingerprint
        assert kept.read_text() == first.blocks[0].choice.options()["table"]

    @pytest.mark.slow
    def test_other_questions_cells_odds_and_outputs_are_kept_apart(
        self, own_cache: Path, quick: list[int]
    ) -> None:
        study_of(sf.Optimised())
        study_of(sf.Optimised("cells"))
        study_of(sf.Optimised(), size=7)
        study_of(sf.Optimised(), eps=2.0)
        study_of(sf.Optimised(outputs=9))
        assert len(quick) == len(list(own_cache.iterdir())) == 5

    @pytest.mark.slow
    @pytest.mark.parametrize("text", ["", "junk", "AAAA", "é", "other cells"])
    def test_a_damaged_entry_is_found_anew(
        self, text: str, own_cache: Path, quick: list[int]
    ) -> None:
        study_of(sf.Optimised())
        (kept,) = own_cache.iterdir()
        whole = kept.read_text()
        other = hierarchy(5, 2, math.e).to_text()
        kept.write_text(other if text == "other cells" else text, encoding="utf-8")
        study_of(sf.Optimised())
        assert len(quick) == 2
        assert kept.read_text() == whole
        assert [file.name for file in own_cache.iterdir()] == [kept.name]

    def test_without_a_folder_nothing_is_kept_and_nothing_fails(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: list[int]
    ) -> None:
        (tmp_path / "file").write_text("in the way")
        monkeypatch.setenv("SFUMATO_CACHE", str(tmp_path / "file" / "cache"))
        study_of(sf.Optimised())
        study_of(sf.Optimised())
        assert len(quick) == 2

    def test_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert cache.folder() == tmp_path / "cache"
        monkeypatch.delenv("SFUMATO_CACHE")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "shared"))
        assert cache.folder() == tmp_path / "shared" / "sfumato"
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        assert cache.folder() == tmp_path / "home" / ".cache" / "sfumato"


class TestStudy:
    def test_answers_by_both_decoders(self, quick: list[int]) -> None:
        study = study_of(sf.Optimised(), size=12)
        counts = np.array([5, 5, 40, 40, 20, 5, 5, 5, 5, 0, 0, 0]) * 100
        tally = study.simulate_counts(counts, seed=4)
        for method in ("unbiased", "likelihood"):
            answer = tally.estimate(method).count({"grade": (3, 5)})
            assert abs(answer.value - 10_000) < 4 * answer.stderr

    def test_it_is_compared_only_where_it_is_used(self, quick: list[int]) -> None:
        used = study_of(sf.Optimised()).compare(1000, methods=["unbiased"])
        assert "optimised (ranges)" in [row.channel for row in used]
        other = sf.Study("grades", [sf.integers("g", 1, 6, protect=sf.Uniform(1))])
        rows = other.compare(1000, methods=["unbiased"])
        assert not [row for row in rows if row.channel.startswith("optimised")]
        assert len(quick) == 1


class TestRefusals:
    def test_workloads_that_are_none(self) -> None:
        with pytest.raises(StudyError, match=r"got workload='range': did you mean 'ranges'"):
            sf.Optimised("range")
        with pytest.raises(StudyError, match="got workload='own'"):
            sf.Optimised("own")
        for bad in ([1, 2], [[]], [[0, 0]], [[1, math.nan]], [["a"]], [[1], [1, 2]], None):
            with pytest.raises(StudyError, match="workload must be a matrix of finite weights"):
                sf.Optimised(bad)  # type: ignore[arg-type]

    @pytest.mark.parametrize("outputs", [0, 1, 2.0, True, 5000, "many"])
    def test_outputs_that_are_no_number_of_sets(self, outputs: object) -> None:
        with pytest.raises(StudyError, match="outputs must be a whole number from 2 to 4096"):
            sf.Optimised(outputs=outputs)  # type: ignore[arg-type]

    def test_fewer_outputs_than_cells(self) -> None:
        with pytest.raises(StudyError, match="outputs must be at least the number of cells, 6"):
            _ = study_of(sf.Optimised(outputs=5)).channels

    def test_a_matrix_for_other_cells(self) -> None:
        with pytest.raises(StudyError, match="workload has 2 columns and the axis has 6 cells"):
            _ = study_of(sf.Optimised([[1, 0]])).channels

    def test_a_table_for_other_cells(self) -> None:
        table = hierarchy(5, 2, math.e).to_text()
        with pytest.raises(StudyError, match="table is for 5 cells and the axis has 6"):
            _ = study_of(sf.Optimised(table=table)).channels

    def test_too_many_cells_name_what_would_do(self) -> None:
        said = r"'grade'.*limit of 256.*Use Comb\(\) .*Hierarchical\(\)"
        with pytest.raises(TooLargeError, match=said):
            study_of(sf.Optimised(), size=257)
        with pytest.raises(TooLargeError, match="257 are more"):
            sf.Optimised().bind(uniform(257))

    def test_other_metrics_and_rounding(self, quick: list[int]) -> None:
        with pytest.raises(StudyError, match=r"needs protect=Uniform"):
            sf.Optimised().bind(LineMetric.equal(Fraction(1), 5))
        with pytest.raises(StudyError, match="stochastic rounding"):
            sf.Optimised().bind(uniform(5), resolution=20)

    def test_sets_that_do_not_tell_cells_apart(self) -> None:
        same = Sets(np.ones((3, 2), dtype=np.bool_), np.ones(3))
        with pytest.raises(StudyError, match="hardly be told apart"):
            sf.Optimised(table=same.to_text()).bind(uniform(2))

    def test_channel_is_what_bind_gives(self) -> None:
        assert isinstance(ANY_SETS.bind(uniform(4)), OptimisedChannel)
