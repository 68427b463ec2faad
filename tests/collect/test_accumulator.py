"""Accumulators: the tally of what was added, bit for bit, however it came."""

from __future__ import annotations

import pickle
import secrets
import weakref
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from helpers_contract import TRIALS, Subject
from helpers_contract_study import Case
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.collect import accumulator
from sfumato.collect.block_sums import BlockSums
from sfumato.collect.packing import pack
from sfumato.device.wire import Batch

#: The first trial of every registered channel.
CHANNELS = [name for name in TRIALS if name.endswith("-0")]


@cache
def reports_of(name: str) -> tuple[sf.Study, sf.Reports]:
    case = Case.of(Subject.of(TRIALS[name]))
    records = np.random.default_rng(4).integers(0, case.cells, 60)
    return case.study, case.study.encode(case.people(records), bits=sf.SeededBits(5))


def batch_of(reports: sf.Reports, ids: list[bytes] | None = None) -> bytes:
    rows = tuple(row.tobytes() for row in pack(reports))
    found = ids or [secrets.token_bytes(16) for _ in rows]
    return Batch(reports.fingerprint, 20_000, tuple(found), rows).to_bytes()


WAYS = {
    "reports": lambda part: part,
    "table": lambda part: part.to_arrow(),
    "record batch": lambda part: part.to_arrow().combine_chunks().to_batches()[0],
    "packed": lambda part: part.to_bytes(),
    "batch": batch_of,
}


@pytest.mark.slow
@pytest.mark.parametrize("keep", accumulator.KEEPS)
@pytest.mark.parametrize("name", CHANNELS)
@settings(max_examples=4)
@given(data=st.data())
def test_however_reports_come_the_tally_is_the_same_bit_for_bit(
    name: str, keep: Any, data: st.DataObject
) -> None:
    study, reports = reports_of(name)
    order = np.random.default_rng(data.draw(st.integers(0, 99))).permutation(len(reports))
    size = data.draw(st.sampled_from([1, 1, 7, 33]))
    found = [study.accumulator(keep=keep) for _ in range(3)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accumulator, "_AT_ONCE", data.draw(st.sampled_from([1, 5, 1 << 16])))
        for start in range(0, len(order), size):
            part = sf.Reports.join(reports[k : k + 1] for k in order[start : start + size])
            way = WAYS[data.draw(st.sampled_from(list(WAYS)))]
            found[data.draw(st.integers(0, 2))].add(way(part))
        a, b, c = data.draw(st.permutations(found))
        travelled = pickle.loads(pickle.dumps(b))
        a.merge(travelled)
        a.merge(c.freeze())
    once = study.accumulator(keep=keep)
    once.add(reports)
    assert a.freeze() == once.freeze()
    assert a.to_bytes() == once.to_bytes() == a.freeze().to_bytes() == once.freeze().to_bytes()
    if keep == "reports":
        assert a.to_bytes() == study.tally(reports).to_bytes()
        parts = [study.tally(reports[:20]), study.tally(reports[20:])]
        assert (parts[1] + parts[0]).to_bytes() == a.to_bytes()
    assert a.to_bytes() != study.tally(reports[1:]).to_bytes()


def test_an_iterable_is_tallied_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """A generator of tables: those that are counted do not live on while later ones are made."""
    study, reports = reports_of(CHANNELS[0])
    monkeypatch.setattr(accumulator, "_AT_ONCE", len(reports))
    alive: list[int] = []
    parts: list[Any] = []

    def made() -> Iterator[Any]:
        for _ in range(50):
            alive.append(sum(part() is not None for part in parts))
            part = reports.to_arrow()
            parts.append(weakref.ref(part))
            yield part
            del part

    assert study.tally(made()).n == 50 * len(reports)
    assert max(alive) <= 1
    held = list(made())
    assert alive[-1] >= len(held) - 1  # where all are kept, all are seen


def ages(channel: Any = None, **more: Any) -> sf.Study:
    axes = [sf.integers("age", 0, 9, protect=sf.Uniform(1), channel=channel)]
    axes += [sf.integers(name, 0, 5, protect=sf.Distance(1), channel=c) for name, c in more.items()]
    return sf.Study("ages", axes)


def people(study: sf.Study, count: int = 400) -> dict[str, Any]:
    rng = np.random.default_rng(2)
    return {axis.name: rng.integers(0, axis.size, count) for axis in study.axes}


THERMOMETER = sf.Study(
    "line", [sf.integers("age", 0, 9, protect=sf.Distance(1), channel=sf.Thermometer())]
)
BITS = {
    "thermometer": THERMOMETER,
    "oue": ages(sf.OUE()),
    "two axes": ages(sf.OUE(), height=sf.Thermometer(), width=sf.Geometric()),
    "tree": ages(sf.Hierarchical(oracle="oue")),
}


def both(study: sf.Study) -> tuple[sf.Tally, sf.Tally]:
    """The tally of sums and the tally of reports, of the same people."""
    reports = study.encode(people(study), bits=sf.SeededBits(3))
    sums = study.accumulator(keep="sums")
    sums.add(reports)
    return sums.freeze(), study.tally(reports)


class TestSums:
    @pytest.mark.parametrize("study", BITS.values(), ids=BITS)
    def test_unbiased_answers_about_one_axis_are_those_of_the_reports(
        self, study: sf.Study
    ) -> None:
        sums, reports = (tally.estimate("unbiased") for tally in both(study))
        assert isinstance(sums.statistic, BlockSums)
        for question in ("age=2..5", "age=7", {"age": (0, 3)}):
            ours, theirs = sums.count(question), reports.count(question)
            assert (ours.value, ours.stderr) == (theirs.value, theirs.stderr)
            assert (ours.low, ours.high) == (theirs.low, theirs.high)
        for ask in (
            lambda est: est.histogram("age"),
            lambda est: est.cdf("age").band(),
            lambda est: est.histogram("age", population=True),
        ):
            ours, theirs = ask(sums), ask(reports)
            np.testing.assert_array_equal(ours.values, theirs.values)
            np.testing.assert_array_equal(ours.stderr, theirs.stderr)
        for ask in (
            lambda est: est.mean("age"),
            lambda est: est.quantile("age", 0.5),
            lambda est: est.fraction("age=2..5", where="age=..7"),
            lambda est: est.count("age=1") - est.count("age=4"),
        ):
            ours, theirs = ask(sums), ask(reports)
            assert (ours.value, ours.low, ours.high) == (theirs.value, theirs.low, theirs.high)

    def test_symbols_beside_bits_are_answered_too(self) -> None:
        sums, reports = (tally.estimate("unbiased") for tally in both(BITS["two axes"]))
        ours, theirs = sums.histogram("width"), reports.histogram("width")
        np.testing.assert_allclose(ours.values, theirs.values, rtol=1e-12)
        np.testing.assert_allclose(ours.stderr, theirs.stderr, rtol=1e-12)
        decoded = sums.study.accumulator(keep="sums")
        decoded.merge(both(BITS["two axes"])[1])
        assert decoded.freeze().estimate("likelihood").count("width=2").method == "likelihood"

    def test_questions_about_several_axes_are_refused_with_the_remedy(self) -> None:
        sums, _ = both(BITS["two axes"])
        for ask in (
            lambda est: est.count("age=1, height=2"),
            lambda est: est.heatmap("age", "height"),
            lambda est: est.fraction("age=1", where="width=2"),
            lambda est: est.count("age=1") - est.count("height=2"),
            sf.distribution,
        ):
            for method in ("auto", "unbiased"):
                with pytest.raises(sf.QuestionError, match="without --sums"):
                    ask(sums.estimate(method))

    def test_likelihood_of_bits_is_refused_and_auto_says_why_not(self) -> None:
        sums, _ = both(THERMOMETER)
        with pytest.raises(sf.QuestionError, match=r'keep="reports".*method="unbiased"'):
            sums.estimate("likelihood").count("age=1")
        answer = sums.estimate().count("age=1")
        assert answer.method == "unbiased"
        assert "keeps sums of bits" in answer.notes[0]

    def test_the_size_does_not_depend_on_the_reports(self) -> None:
        study = BITS["oue"]
        sizes = []
        for count in (1_000, 20_000):
            found = study.accumulator(keep="sums")
            found.add(study.encode(people(study, count), bits=sf.SeededBits(3)))
            sizes.append(len(found.to_bytes()))
        assert abs(sizes[1] - sizes[0]) < 100

    def test_sums_and_reports_do_not_add_up_unasked(self) -> None:
        sums, reports = both(BITS["oue"])
        with pytest.raises(sf.MismatchError, match=r'study.accumulator\(keep="sums"\)'):
            _ = sums + reports
        with pytest.raises(sf.MismatchError, match='keep="sums"'):
            sums.study.accumulator().merge(sums)
        found = sums.study.accumulator(keep="sums")
        found.merge(reports)
        found.merge(sums)
        assert found.freeze() == sums + sums

    def test_files_and_bytes_come_back(self, tmp_path: Any) -> None:
        for study in BITS.values():
            sums, _ = both(study)
            sums.save(tmp_path / "sums.parquet")
            assert sf.Tally.load(tmp_path / "sums.parquet", study) == sums
            assert sf.Accumulator.from_bytes(sums.to_bytes()).keep == "sums"
            empty = study.accumulator(keep="sums")
            assert sf.Tally.from_bytes(empty.to_bytes(), study) == empty.freeze()

    def test_one_block_of_symbols_keeps_what_both_keep(self) -> None:
        study = ages(sf.KaryResponse())
        sums, reports = both(study)
        assert sums == reports


class TestIds:
    def test_a_report_counts_once_however_often_its_id_comes(self) -> None:
        study, reports = reports_of("geometric-0")
        ids = [secrets.token_bytes(16) for _ in range(len(reports))]
        found = study.accumulator()
        found.add(batch_of(reports[:40], ids[:40]))
        found.add(batch_of(reports[:40], ids[:40]))  # sent again
        found.add(batch_of(reports[20:], ids[20:]))  # cut otherwise
        for k in range(5):
            found.add(batch_of(reports[k : k + 1], ids[k : k + 1]))
        assert found.freeze() == study.tally(reports)

    def test_ids_reach_no_bytes(self) -> None:
        study, reports = reports_of("geometric-0")
        ids = [secrets.token_bytes(16) for _ in range(len(reports))]
        found = study.accumulator()
        found.add(batch_of(reports, ids))
        data = found.to_bytes() + pickle.dumps(found)
        assert not any(held in data for held in ids)

    def test_what_was_counted_twice_is_not_merged(self) -> None:
        study, reports = reports_of("geometric-0")
        data = batch_of(reports)
        found, other = study.accumulator(), study.accumulator()
        found.add(data)
        other.add(data)
        with pytest.raises(sf.MismatchError, match="60 reports with the same ids"):
            found.merge(other)
        assert found.n == 60

    def test_a_batch_that_is_refused_leaves_its_ids_unknown(self) -> None:
        study, reports = reports_of("geometric-0")
        ids = [secrets.token_bytes(16)]
        good = batch_of(reports[:1], ids)
        found = study.accumulator()
        with pytest.raises(sf.WireError):
            found.add(good[:-1] + b"\xff")
        found.add(good)
        assert found.n == 1


class TestRefusals:
    def test_other_studies_are_refused_and_nothing_is_added(self) -> None:
        study, reports = reports_of("geometric-0")
        other = ages(sf.OUE())
        found = other.accumulator()
        for given_ in (reports, reports.to_arrow(), reports.to_bytes(), reports[:1].to_bytes()):
            with pytest.raises(sf.MismatchError, match="use the study file it was made with"):
                found.add(given_)
        with pytest.raises(sf.WireError, match="belongs to study"):
            found.add(batch_of(reports))
        for more in (study.accumulator(), study.tally(reports)):
            with pytest.raises(sf.MismatchError, match="use the study file"):
                found.merge(more)
        assert found.n == 0

    @pytest.mark.parametrize("wrong", [None, 3, [1, 2], "reports"])
    def test_what_is_no_reports_is_refused(self, wrong: Any) -> None:
        found = ages(sf.OUE()).accumulator()
        with pytest.raises(sf.DataError, match="takes Reports"):
            found.add(wrong)
        with pytest.raises(sf.StudyError, match="takes an accumulator or a tally"):
            found.merge(wrong)

    def test_damaged_bytes_are_refused_and_nothing_is_added(self) -> None:
        study = sf.Study("ages", [sf.integers("age", 0, 9, protect=sf.Distance(1))])
        found = study.accumulator()
        reports = study.encode({"age": [1, 2, 3]})
        for data in (
            reports[:1].to_bytes()[:-1] + b"\xff",
            reports.to_bytes()[:-1] + b"\xff",
            reports.to_bytes()[:-1],
            reports[:1].to_bytes() + b"\0",
            b"SFMR",
            b"",
        ):
            with pytest.raises(sf.WireError):
                found.add(data)
        assert found.freeze() == study.empty_tally()
        with pytest.raises(sf.FormatError):
            sf.Accumulator.from_bytes(found.to_bytes()[:-9])

    def test_an_accumulator_from_bytes_does_not_know_its_study(self) -> None:
        study, reports = reports_of("geometric-0")
        found = study.accumulator()
        found.add(reports)
        again = sf.Accumulator.from_bytes(found.to_bytes())
        with pytest.raises(sf.StudyError, match=r"merge it into study.accumulator\(\)"):
            again.freeze()
        with pytest.raises(sf.StudyError, match="keep must be"):
            study.accumulator(keep="everything")  # type: ignore[arg-type]

    def test_its_bytes_hold_nothing_of_the_study_but_its_fingerprint(self) -> None:
        labels = [f"label {k}" for k in range(3_000)]
        study = sf.Study("many", [sf.categories("x", labels, protect=sf.Uniform(1))])
        assert len(pickle.dumps(study.accumulator())) < 3_000
        assert b"label" not in study.accumulator().to_bytes()


def test_the_cost_is_in_proportion_to_what_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that merges copy, in all: at most a few per report, though every report is distinct."""
    study = sf.Study(
        "wide", [sf.integers(name, 0, 999, protect=sf.Distance(1)) for name in ("a", "b", "c")]
    )
    copied = 0
    plain = accumulator.merged

    def counting(parts: Any) -> Any:
        nonlocal copied
        copied += sum(len(part.people) for part in parts)
        return plain(parts)

    monkeypatch.setattr(accumulator, "merged", counting)
    monkeypatch.setattr(accumulator, "_AT_ONCE", 32)
    reports = study.encode(people(study, 32 * 128), bits=sf.SeededBits(3))
    found = study.accumulator()
    for start in range(0, len(reports), 32):
        found.add(reports[start : start + 32])
    # Merges of parts of like size: 7 levels of doubling, against 64 × as much one after another.
    assert copied <= 7 * len(reports) * 1.5
    assert sum(len(part.people) for part in found._parts) <= 2 * len(
        found.freeze().statistic.people
    )
