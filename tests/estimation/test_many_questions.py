"""Many questions at once: the answers that each gets alone, from one pass and from files."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import sfumato as sf
from sfumato.collect.engines.parts import merge_parts, tally_load
from sfumato.collect.engines.splits import plan
from sfumato.collect.term_sums import TermSums
from sfumato.errors import FormatError, MismatchError, QuestionError, TooLargeError
from sfumato.estimation import unbiased
from sfumato.estimation.asked import terms_for
from sfumato.randomness.bits import SeededBits

PEOPLE = 3_000


def bits_study() -> sf.Study:
    """Two thermometers and flipped bits, beside symbols."""
    return sf.Study(
        "bits",
        [
            sf.integers("a", 0, 15, protect=sf.Distance(0.7), channel=sf.Thermometer()),
            sf.integers("b", 0, 9, protect=sf.Distance(1), channel=sf.Thermometer("published")),
            sf.categories("c", list("wxyz"), protect=sf.Uniform(2), channel=sf.OUE()),
            sf.categories("d", list("uv"), protect=sf.Uniform(2)),
        ],
    )


def symbols_study() -> sf.Study:
    """Symbols alone."""
    return sf.Study(
        "symbols",
        [
            sf.integers("a", 0, 15, protect=sf.Distance(0.7), channel=sf.Geometric()),
            sf.integers("b", 0, 9, protect=sf.Distance(1), channel=sf.Geometric()),
            sf.categories("c", list("wxyz"), protect=sf.Uniform(2)),
            sf.categories("d", list("uv"), protect=sf.Uniform(2)),
        ],
    )


def rounded_study() -> sf.Study:
    """Real numbers that are rounded at random, beside others."""
    return sf.Study(
        "rounded",
        [
            sf.reals(
                "a",
                0,
                15,
                bins=15,
                rounding="stochastic",
                protect=sf.Distance(0.7),
                channel=sf.Thermometer(),
            ),
            sf.integers("b", 0, 9, protect=sf.Distance(1), channel=sf.Thermometer()),
            sf.categories("c", list("wxyz"), protect=sf.Uniform(2)),
            sf.categories("d", list("uv"), protect=sf.Uniform(2)),
        ],
    )


QUESTIONS: list[Any] = [
    "a=3..7, b=2..5",
    "a=3..7",
    "a=..7, b=5..",
    "a=0..15",
    "a=4",
    "b=1|3|9, a=2..11, c=w|x",
    "c=w, d=u",
    {"a": (3, 7), "d": "v"},
    "d=u",
    {},
    "a=3..7, b=2..5",
]
MARGINALS = [("a", "c"), ("d",), ("b", "d", "c"), ("c", "a")]
STUDIES = {"bits": bits_study, "symbols": symbols_study, "rounded": rounded_study}


def reports_of(study: sf.Study, people: int = PEOPLE) -> sf.Reports:
    """Reports of random people."""
    rng = np.random.default_rng(8)
    table = {
        "a": rng.binomial(15, 0.4, people),
        "b": rng.integers(0, 10, people),
        "c": np.array(list("wxyz"))[rng.binomial(3, 0.3, people)],
        "d": np.array(list("uv"))[rng.integers(0, 2, people)],
    }
    return study.encode(table, bits=SeededBits(9))


def same_answer(found: sf.Answer, wanted: sf.Answer) -> None:
    """Two answers are the same, up to rounding."""
    close = {"rel": 1e-10, "abs": 1e-7}
    assert found.value == pytest.approx(wanted.value, **close)
    assert found.stderr == pytest.approx(wanted.stderr, **close)
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high), **close)
    for name in ("n", "level", "method", "notes", "question"):
        assert getattr(found, name) == getattr(wanted, name)


@pytest.fixture(scope="module", params=list(STUDIES))
def tally(request: pytest.FixtureRequest) -> sf.Tally:
    study = STUDIES[request.param]()
    return study.tally(reports_of(study))


class TestInMemory:
    @pytest.mark.parametrize("population", [False, True])
    def test_counts_are_the_answers_of_each(self, tally: sf.Tally, population: bool) -> None:
        est = tally.estimate("unbiased", via="direct")
        options: dict[str, Any] = {"level": 0.9, "population": population}
        found = est.counts(iter(QUESTIONS), **options)
        assert len(found) == len(QUESTIONS)
        for answer, question in zip(found, QUESTIONS, strict=True):
            same_answer(answer, est.count(question, **options))

    def test_likelihood_answers_are_those_of_each(self) -> None:
        study = symbols_study()
        est = study.tally(reports_of(study)).estimate()
        found = est.counts(["b=2..5", "b=3"])
        assert found == [est.count("b=2..5"), est.count("b=3")]
        assert found[0].method == "likelihood"

    def test_values_of_ranges_are_the_same_numbers(self) -> None:
        study = bits_study()
        est = study.tally(reports_of(study)).estimate("unbiased", via="direct")
        questions = [f"a={a}..{a + 4}, b={b}..{b + 2}" for a in range(11) for b in range(7)]
        for answer, question in zip(est.counts(questions), questions, strict=True):
            assert answer.value == est.count(question).value

    def test_answers_can_be_subtracted(self, tally: sf.Tally) -> None:
        est = tally.estimate("unbiased", via="direct")
        first, second = est.counts(["a=3..7", "a=3..7, d=u"])
        wanted = est.count("a=3..7") - est.count("a=3..7, d=u")
        assert (first - second).stderr == pytest.approx(wanted.stderr)

    def test_reports_are_read_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        study = bits_study()
        est = study.tally(reports_of(study)).estimate("unbiased")
        read = []
        monkeypatch.setattr(unbiased.BitReports, "sum", lambda *given: read.append(given) or 0.0)
        assert est.counts(["a=3..7, b=2..5", "a=..7"])
        assert read == []

    def test_all_two_way_marginals_read_the_reports_once(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        axes = [
            sf.integers(name, 0, 3, protect=sf.Distance(1), channel=sf.Thermometer())
            for name in "abcd"
        ]
        study = sf.Study("bits", axes)
        people = {name: np.random.default_rng(3).integers(0, 4, 500) for name in "abcd"}
        est = study.tally(study.encode(people)).estimate("unbiased", via="direct")
        read: list[str] = []
        reports = est.statistic

        def watched(name: str, owner: Any, which: int) -> None:
            whole = getattr(owner, name)

            def watch(*given: Any) -> Any:
                if given[which] is reports:
                    read.append(name)
                return whole(*given)

            monkeypatch.setattr(owner, name, watch)

        watched("of", unbiased.TermSums, 0)
        watched("sum", unbiased.BitReports, 0)
        watched("profile", unbiased.BitReports, 0)
        pairs = list(itertools.combinations("abcd", 2))
        found = est.marginals(pairs)
        assert read == ["of"]
        for names, answers in zip(pairs, found, strict=True):
            np.testing.assert_allclose(answers.values, est.heatmap(*names).values)
        assert len(read) > len(pairs)  # one by one they read more

    @pytest.mark.parametrize("where", [None, "d=u"])
    @pytest.mark.parametrize("fraction", [False, True])
    def test_marginals_are_histograms_and_heat_maps(
        self, tally: sf.Tally, where: str | None, fraction: bool
    ) -> None:
        est = tally.estimate("unbiased")
        sets = MARGINALS if where is None else [("a", "c"), ("b",)]
        for names, found in zip(
            sets, est.marginals(sets, where=where, fraction=fraction), strict=True
        ):
            assert found.axes == names
            if len(names) == 3:
                assert found.values.shape == (10, 2, 4)
                question = {"b": 3, "d": "v", "c": "x"}
                alone = est.count(question) if not fraction else est.fraction(question)
                assert found.values[3, 1, 1] == pytest.approx(alone.value)
                assert found.stderr[3, 1, 1] == pytest.approx(alone.stderr)
                continue
            ask = est.histogram if len(names) == 1 else est.heatmap
            wanted = ask(*names, where=where, fraction=fraction)
            assert np.allclose(found.values, wanted.values)
            assert np.allclose(found.stderr, wanted.stderr)
            assert np.allclose(found.low, wanted.low)

    def test_without_reports_there_are_no_numbers(self) -> None:
        est = bits_study().empty_tally().estimate("unbiased")
        (answer,) = est.counts(["a=3..7"])
        assert np.isnan(answer.value)
        assert np.isnan(est.marginals([("a",)])[0].values).all()
        assert est.counts([]) == est.marginals([]) == []

    def test_bad_questions_are_refused(self, tally: sf.Tally) -> None:
        est = tally.estimate("unbiased")
        with pytest.raises(QuestionError, match="the study has no axis"):
            est.counts(["a=3..7", "e=1"])
        with pytest.raises(QuestionError, match="there is no axis 'e'"):
            est.marginals([("a", "e")])
        with pytest.raises(QuestionError, match="different axes"):
            est.marginals([("a", "a")])
        with pytest.raises(QuestionError, match=r"tuple of axis names, such as \('a',\)"):
            est.marginals(["a"])
        with pytest.raises(QuestionError, match="questions must be a list"):
            est.counts(7)  # type: ignore[arg-type]


class TestKept:
    """Tallies that keep the sums of some questions."""

    def kept(self, tally: sf.Tally) -> sf.Tally:
        found = tally.study.accumulator(keep=[*QUESTIONS, *MARGINALS])
        found.merge(tally)
        return found.freeze()

    def test_answers_are_the_same(self, tally: sf.Tally) -> None:
        est, wanted = self.kept(tally).estimate("unbiased"), tally.estimate("unbiased")
        for population in (False, True):
            for question in QUESTIONS:
                one = est.count(question, population=population)
                same_answer(one, wanted.count(question, population=population))
            pairs = zip(
                est.marginals(MARGINALS, population=population),
                wanted.marginals(MARGINALS, population=population),
                strict=True,
            )
            for a, b in pairs:
                assert np.allclose(a.values, b.values)
                assert np.allclose(a.stderr, b.stderr)
        assert np.allclose(est.heatmap("a", "c").values, wanted.heatmap("a", "c").values)

    def test_sums_are_whole_and_add_in_any_order(self, tally: sf.Tally) -> None:
        study = tally.study
        reports = reports_of(study)
        cuts = [0, 1, 1, 700, PEOPLE]
        parts = []
        for start, stop in itertools.pairwise(cuts):
            part = study.accumulator(keep=QUESTIONS)
            part.add(reports[start:stop])
            parts.append(part)
        whole = study.accumulator(keep=QUESTIONS)
        whole.add(reports)
        turned = study.accumulator(keep=QUESTIONS)
        for part in reversed(parts):
            turned.merge(sf.Accumulator.from_bytes(part.to_bytes()))
        assert turned.freeze() == whole.freeze()
        assert turned.to_bytes() == whole.to_bytes()
        frozen = [part.freeze() for part in parts]
        assert frozen[2] + frozen[3] == frozen[3] + frozen[2]
        statistic = whole.freeze().statistic
        assert isinstance(statistic, TermSums)
        assert all(held.dtype == np.int64 for held in statistic.sums)

    def test_size_does_not_depend_on_the_reports(self) -> None:
        study = bits_study()
        sizes = []
        for people in (300, PEOPLE):
            found = study.accumulator(keep=QUESTIONS)
            found.add(reports_of(study, people))
            sizes.append(len(found.to_bytes()))
        assert max(sizes) < 1.2 * min(sizes)

    def test_files_are_read_in_parts(self, tmp_path: Path, tally: sf.Tally) -> None:
        study = tally.study
        reports = reports_of(study)
        reports[:1000].save(tmp_path / "1.parquet")
        (tmp_path / "2.sfmr").write_bytes(reports[1000:].to_bytes())
        paths = [tmp_path / "1.parquet", tmp_path / "2.sfmr"]
        engine = sf.engines.local()
        found = engine.tally(study, paths, keep=QUESTIONS)
        assert found == self.of(tally)
        # What an engine sends to its workers: bytes, and a part of a file.
        empty = study.accumulator(keep=QUESTIONS)
        splits = [split for file in plan(empty, list(map(str, paths))).files for split in file]
        again = merge_parts([tally_load(empty.to_bytes(), (split,)) for split in splits])
        assert again.found.to_bytes() == found.to_bytes()
        found.save(tmp_path / "tally.parquet")
        assert sf.Tally.load(tmp_path / "tally.parquet", study) == found
        assert engine.tally(study, tmp_path / "tally.parquet", keep=QUESTIONS) == found

    def of(self, tally: sf.Tally) -> sf.Tally:
        """The tally of the questions alone."""
        found = tally.study.accumulator(keep=QUESTIONS)
        found.merge(tally)
        return found.freeze()

    def test_other_questions_are_refused(self, tally: sf.Tally) -> None:
        kept = self.of(tally)
        with pytest.raises(QuestionError, match="named beforehand"):
            kept.estimate("unbiased").count("a=3..7, b=2..5, c=x, d=u")
        with pytest.raises(QuestionError, match="named beforehand"):
            kept.estimate("likelihood").count("a=3..7")
        answer = kept.estimate().count("a=3..7")
        assert answer.method == "unbiased"
        assert "named beforehand" in answer.notes[0]

    def test_what_keeps_less_is_refused(self, tally: sf.Tally) -> None:
        study = tally.study
        kept = self.of(tally)
        fewer = study.accumulator(keep=QUESTIONS[:1])
        fewer.merge(kept)
        assert fewer.n == PEOPLE
        for keep in ("reports", "sums"):
            with pytest.raises(MismatchError, match="named beforehand"):
                study.accumulator(keep=keep).merge(kept)  # type: ignore[arg-type]
        sums = study.accumulator(keep="sums")
        sums.merge(tally)
        with pytest.raises(MismatchError, match="keeps sums, which cannot be added"):
            study.accumulator(keep=QUESTIONS).merge(sums)
        for other in (fewer.freeze(), tally):
            with pytest.raises(MismatchError, match="do not add up"):
                kept + other
        with pytest.raises(QuestionError, match="named beforehand"):
            study.accumulator(keep=QUESTIONS).merge(fewer)

    @pytest.mark.parametrize("keep", [[], {}, 7, None])
    def test_no_questions_are_refused(self, keep: Any) -> None:
        with pytest.raises(QuestionError, match="keep must be 'reports', 'sums' or a list"):
            bits_study().accumulator(keep=keep)

    def test_more_sums_than_memory_are_refused(self) -> None:
        axes = [
            sf.integers(name, 0, 4_999, protect=sf.Distance(0.7), channel=sf.Geometric())
            for name in "ab"
        ]
        with pytest.raises(TooLargeError, match=r"25,000,000 sums|25,\d+,\d+ sums"):
            sf.Study("wide", axes).accumulator(keep=["a=3..7, b=1"])

    def test_files_with_other_numbers_are_refused(self, tmp_path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        study = bits_study()
        path = tmp_path / "tally.parquet"
        self.of(study.tally(reports_of(study))).save(path)
        good = pq.read_table(path)
        sums = good.column("sum").to_pylist()
        for name, values in (
            ("sum", [PEOPLE + 1, *sums[1:]]),
            ("sum", [-PEOPLE - 1, *sums[1:]]),
            ("sum", [PEOPLE - 1, *sums[1:]]),
            ("a", [17] * len(good)),
            ("d", [3] * len(good)),
            ("d", [1] * len(good)),
            ("a", [-1] * len(good)),
        ):
            place = good.column_names.index(name)
            field = good.schema.field(place)
            wrong = good.set_column(place, field, pa.array(values, field.type))
            pq.write_table(wrong, path)
            with pytest.raises(FormatError):
                sf.Tally.load(path, study)
        for wrong in (good[1:-1], good[:-1], good.take([1, 0, *range(2, len(good))])):
            pq.write_table(wrong, path)
            with pytest.raises(FormatError):
                sf.Tally.load(path, study)


def test_terms_of_a_range_are_few() -> None:
    axes = [
        sf.integers(name, 0, 63, protect=sf.Distance(0.7), channel=sf.Thermometer())
        for name in "ab"
    ]
    study = sf.Study("two", axes)
    assert len(terms_for(study, ["a=3..7, b=2..5"])) == 9
    assert len(terms_for(study, ["a=3..7, b=2..5", "a=3..7", "b=2..5"])) == 9
    assert len(terms_for(study, ["a=3..7, b=2..5", "a=3..7, b=2..9"])) == 12


def test_intervals_of_kept_questions_hold() -> None:
    """95 % intervals hold the truth; those of people who are counted twice do not."""
    study = bits_study()
    counts = np.random.default_rng(3).integers(0, 9, study.shape)
    truth = counts[3:8, 2:6].sum()
    runs, held, wrong = 60, 0, 0
    for seed in range(runs):
        tally = study.simulate_counts(counts, seed=seed)
        (answer,) = tally.estimate("unbiased").counts(["a=3..7, b=2..5"])
        held += answer.low <= truth <= answer.high
        wrong += answer.low <= truth + 6 * answer.stderr <= answer.high
    # Fewer happens once in 10,000 times.
    assert held >= stats.binom(runs, 0.95).ppf(1e-4)
    assert wrong == 0
