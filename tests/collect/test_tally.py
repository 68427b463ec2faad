"""Tallies: a commutative monoid, tied to their study, the same from the same seed."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf

CHANNELS = {
    "symbols": [sf.Geometric(), sf.Geometric()],
    "bits": [sf.Thermometer(), sf.Thermometer("published")],
    "mixed": [sf.Geometric(), sf.Thermometer()],
}


def _study(kind: str, name: str = "tally", epsilon: float = 0.7) -> sf.Study:
    first, second = CHANNELS[kind]
    axes = [
        sf.integers("a", 0, 8, protect=sf.Distance(epsilon), channel=first),
        sf.integers("b", 0, 12, protect=sf.Distance(0.5), channel=second),
        sf.categories("people", ["x", "y"], protect=sf.Uniform(1.0), optional=True),
    ]
    return sf.Study(name, axes)


def _people(count: int, seed: int = 3) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    held: list[str | None] = ["x", "y", None]
    return {
        "a": rng.integers(0, 9, count),
        "b": rng.integers(0, 13, count),
        "people": pa.array([held[k] for k in rng.integers(0, 3, count)], pa.string()),
    }


STUDIES = {kind: _study(kind) for kind in CHANNELS}
REPORTS = {
    kind: study.encode(_people(150), bits=sf.SeededBits(1)) for kind, study in STUDIES.items()
}
kinds = pytest.mark.parametrize("kind", CHANNELS)


@kinds
class TestSeeds:
    def test_the_same_seed_gives_the_same_tally(self, kind: str) -> None:
        study = STUDIES[kind]
        assert study.simulate(_people(90), seed=5) == study.simulate(_people(90), seed=5)
        counts = np.random.default_rng(1).integers(0, 4, study.shape)
        assert study.simulate_counts(counts, seed=5) == study.simulate_counts(counts, seed=5)

    def test_another_seed_gives_another_tally(self, kind: str) -> None:
        study = STUDIES[kind]
        assert study.simulate(_people(90), seed=5) != study.simulate(_people(90), seed=6)
        counts = np.random.default_rng(1).integers(0, 4, study.shape)
        assert study.simulate_counts(counts, seed=5) != study.simulate_counts(counts, seed=6)

    def test_without_a_seed_every_encoding_differs(self, kind: str) -> None:
        study = STUDIES[kind]
        assert study.tally(study.encode(_people(90))) != study.tally(study.encode(_people(90)))

    def test_a_study_read_back_draws_the_same(self, kind: str) -> None:
        again = sf.Study.from_toml(STUDIES[kind].to_toml())
        assert again.simulate(_people(90), seed=5) == STUDIES[kind].simulate(_people(90), seed=5)


@kinds
class TestMerging:
    @pytest.mark.slow
    @settings(max_examples=40)
    @given(data=st.data())
    def test_parts_in_any_order_and_split_add_up_to_the_whole(
        self, kind: str, data: st.DataObject
    ) -> None:
        study, reports = STUDIES[kind], REPORTS[kind]
        cuts = sorted(data.draw(st.lists(st.integers(0, len(reports)), max_size=6)))
        bounds = [0, *cuts, len(reports)]
        parts = [reports[a:b] for a, b in pairwise(bounds)]
        tallies = [study.tally(part) for part in data.draw(st.permutations(parts))]
        whole = study.tally(reports)
        middle = len(tallies) // 2
        left = sum(tallies[:middle], study.empty_tally())
        right = sum(tallies[middle:], study.empty_tally())
        for merged in (sum(tallies), left + right, right + left, study.tally(parts)):
            assert merged == whole
            assert merged.n == len(reports)
        question = "a=2..5, b=..6, people=x|no answer"
        first, second = (
            merged.estimate("unbiased").count(question),
            whole.estimate("unbiased").count(question),
        )
        assert first.value == pytest.approx(second.value, rel=1e-12)
        assert first.stderr == pytest.approx(second.stderr, rel=1e-12)

    def test_the_empty_tally_changes_nothing(self, kind: str) -> None:
        study = STUDIES[kind]
        whole, empty = study.tally(REPORTS[kind]), study.empty_tally()
        assert whole + empty == whole == empty + whole
        assert empty + empty == empty
        assert (empty.n, len(empty)) == (0, 0)

    def test_one_report_more_makes_another_tally(self, kind: str) -> None:
        study, reports = STUDIES[kind], REPORTS[kind]
        assert study.tally(reports[:-1]) != study.tally(reports)
        assert study.tally(reports[1:]) != study.tally(reports[:-1])

    def test_an_empty_tally_has_no_numbers(self, kind: str) -> None:
        estimate = STUDIES[kind].empty_tally().estimate("unbiased")
        answer = estimate.count(a=(1, 3))
        assert np.isnan(answer.value)
        assert answer.notes == ("no reports",)
        assert np.isnan(estimate.histogram("a").values).all()
        assert str(answer) == "no reports"

    def test_reports_in_slices_and_joined_are_the_same(self, kind: str) -> None:
        reports = REPORTS[kind]
        study = STUDIES[kind]
        joined = reports[:70] + reports[70:]
        assert joined.to_arrow().equals(reports.to_arrow())
        # Slices that are not whole words of packed bits, and with a stride.
        backwards = study.tally([reports[i : i + 1] for i in reversed(range(len(reports)))])
        assert backwards == study.tally(reports)
        assert study.tally([reports[::2], reports[1::2]]) == study.tally(reports)


@kinds
class TestOtherStudies:
    def test_their_reports_are_refused(self, kind: str) -> None:
        other = _study(kind, name="another")
        with pytest.raises(sf.MismatchError, match="use the study file it was made with"):
            other.tally(REPORTS[kind])
        with pytest.raises(sf.MismatchError):
            _ = REPORTS[kind] + other.encode(_people(3))

    def test_their_tallies_are_refused(self, kind: str) -> None:
        other = _study(kind, epsilon=0.8).simulate(_people(9), seed=1)
        mine = STUDIES[kind].simulate(_people(9), seed=1)
        with pytest.raises(sf.MismatchError, match="only tallies of one study add up"):
            _ = mine + other

    def test_answers_of_different_estimates_do_not_subtract(self, kind: str) -> None:
        tally = STUDIES[kind].tally(REPORTS[kind])
        a, b = (
            tally.estimate("unbiased").count(a=(1, 3)),
            tally.estimate("unbiased").count(a=(2, 4)),
        )
        for combine in (lambda: a - b, lambda: a + b, lambda: a / b):
            with pytest.raises(sf.MismatchError, match="different estimates"):
                combine()
        apart = sf.difference(a, b, independent=True)
        assert apart.stderr == pytest.approx(np.hypot(a.stderr, b.stderr), rel=1e-12)
        with pytest.raises(sf.MismatchError, match="independent=True"):
            sf.difference(a, b, independent=False)

    def test_their_files_are_refused(self, kind: str, tmp_path: Path) -> None:
        STUDIES[kind].tally(REPORTS[kind]).save(tmp_path / "tally.parquet")
        with pytest.raises(sf.MismatchError):
            sf.Tally.load(tmp_path / "tally.parquet", _study(kind, name="another"))

    def test_other_objects_than_reports_are_refused(self, kind: str) -> None:
        with pytest.raises(sf.DataError, match="takes Reports"):
            STUDIES[kind].tally([[1, 2, 3]])
        with pytest.raises(sf.StudyError, match="method must be"):
            STUDIES[kind].empty_tally().estimate("likeliest")
        with pytest.raises(sf.StudyError, match="via must be"):
            STUDIES[kind].empty_tally().estimate("unbiased", via="magic")
        with pytest.raises(TypeError):
            _ = STUDIES[kind].empty_tally() + 3


@kinds
class TestFiles:
    def test_tallies_round_trip(self, kind: str, tmp_path: Path) -> None:
        tally = STUDIES[kind].tally(REPORTS[kind])
        for number, held in enumerate((tally, STUDIES[kind].empty_tally())):
            held.save(tmp_path / f"{number}.parquet")
            assert sf.Tally.load(tmp_path / f"{number}.parquet", STUDIES[kind]) == held

    def test_reports_round_trip(self, kind: str, tmp_path: Path) -> None:
        study = STUDIES[kind]
        for number, held in enumerate((REPORTS[kind], REPORTS[kind][5:70], REPORTS[kind][:0])):
            held.save(tmp_path / f"{number}.parquet")
            again = sf.Reports.load(tmp_path / f"{number}.parquet")
            assert len(again) == len(held)
            assert again.to_arrow().equals(held.to_arrow())
            assert study.tally(again) == study.tally(held) == study.tally(held.to_arrow())

    def test_reports_cut_by_arrow_keep_their_rows(self, kind: str) -> None:
        study, table = STUDIES[kind], REPORTS[kind].to_arrow()
        pieces = pa.concat_tables([table.slice(0, 33), table.slice(33, 70), table.slice(103)])
        assert study.tally(pieces) == study.tally(REPORTS[kind])
        assert study.tally([table.slice(7, 50)]) == study.tally(REPORTS[kind][7:57])

    def test_tallies_and_reports_are_not_mistaken_for_each_other(
        self, kind: str, tmp_path: Path
    ) -> None:
        STUDIES[kind].tally(REPORTS[kind]).save(tmp_path / "t.parquet")
        REPORTS[kind].save(tmp_path / "r.parquet")
        with pytest.raises(sf.FormatError, match="tally"):
            sf.Reports.load(tmp_path / "t.parquet")
        with pytest.raises(sf.FormatError, match="reports"):
            sf.Tally.load(tmp_path / "r.parquet", STUDIES[kind])

    def test_damaged_and_foreign_files_are_refused(self, kind: str, tmp_path: Path) -> None:
        path = tmp_path / "t.parquet"
        STUDIES[kind].tally(REPORTS[kind]).save(path)
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(sf.FormatError, match="damaged"):
            sf.Tally.load(path, STUDIES[kind])
        pq.write_table(pa.table({"a": [1, 2]}), path)
        with pytest.raises(sf.FormatError, match="metadata is missing"):
            sf.Tally.load(path, STUDIES[kind])
        with pytest.raises(sf.FormatError, match="metadata is missing"):
            sf.Reports.load(path)
        with pytest.raises(sf.FormatError, match="there is no file"):
            sf.Tally.load(tmp_path / "none.parquet", STUDIES[kind])

    def test_edited_metadata_is_refused(self, kind: str) -> None:
        table = REPORTS[kind].to_arrow()
        head = json.loads(table.schema.metadata[b"sfumato"])

        def edited(**changes: Any) -> pa.Table:
            return table.replace_schema_metadata({b"sfumato": json.dumps({**head, **changes})})

        for changes, message in (
            ({"version": 2}, "newer"),
            ({"version": "1"}, "damaged"),
            ({"kind": "gossip"}, "damaged"),
            ({"axes": [{"name": "a"}]}, "damaged"),
            ({"axes": [{**axis, "count": 0} for axis in head["axes"]]}, "damaged"),
            ({"axes": [{**axis, "outputs": "runes"} for axis in head["axes"]]}, "damaged"),
        ):
            with pytest.raises(sf.FormatError, match=message):
                sf.Reports.from_arrow(edited(**changes))
        with pytest.raises(sf.MismatchError):
            STUDIES[kind].tally(edited(study="0" * 64))
        with pytest.raises(sf.FormatError, match="lacks the column"):
            sf.Reports.from_arrow(table.drop_columns(["b"]))
        for raw in (b"not json", b"[1]", b"7"):
            with pytest.raises(sf.FormatError, match="damaged"):
                sf.Reports.from_arrow(table.replace_schema_metadata({b"sfumato": raw}))

    def test_fewer_axes_than_the_study_has_are_refused(self, kind: str) -> None:
        table = REPORTS[kind].to_arrow()
        head = json.loads(table.schema.metadata[b"sfumato"])
        head["axes"] = head["axes"][:1]
        table = table.replace_schema_metadata({b"sfumato": json.dumps(head)})
        with pytest.raises(sf.FormatError, match="damaged"):
            STUDIES[kind].tally(table)


def test_symbols_out_of_range_and_missing_ones_are_refused() -> None:
    table = REPORTS["symbols"].to_arrow()
    for column, message in (
        (pa.array([9] * len(table), pa.uint8()), "from 0 to 8"),
        (pa.array([-1] * len(table), pa.int8()), "from 0 to 8"),
        (pa.array([None] * len(table), pa.uint8()), "empty cells"),
        (pa.array([0.5] * len(table)), "whole numbers"),
    ):
        broken = table.set_column(0, pa.field("a", column.type), column)
        with pytest.raises(sf.FormatError, match=message):
            sf.Reports.from_arrow(broken)


def test_bits_beyond_the_code_and_wrong_widths_are_refused() -> None:
    table = REPORTS["bits"].to_arrow()  # axis a has 8 bits, axis b 13: three spare ones
    for column, message in (
        (pa.array([b"\xff\xff"] * len(table), pa.binary(2)), "zeros up to the byte's end"),
        (pa.array([b"\x00"] * len(table), pa.binary(1)), "2 bytes per report"),
        (pa.array([0] * len(table)), "2 bytes per report"),
    ):
        broken = table.set_column(1, pa.field("b", column.type), column)
        with pytest.raises(sf.FormatError, match=message):
            sf.Reports.from_arrow(broken)


def test_a_tally_of_symbols_with_impossible_counts_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    STUDIES["symbols"].tally(REPORTS["symbols"]).save(path)
    table = pq.read_table(path)
    last = table.column_names[-1]
    assert last == "people_"  # an axis is called people already
    for counts in ([0] * len(table), [-1] * len(table)):
        broken = table.set_column(table.num_columns - 1, last, pa.array(counts, pa.int64()))
        pq.write_table(broken, path)
        with pytest.raises(sf.FormatError, match="whole numbers from 1 to"):
            sf.Tally.load(path, STUDIES["symbols"])
    pq.write_table(table.drop_columns([last]), path)
    with pytest.raises(sf.FormatError, match="lacks the column"):
        sf.Tally.load(path, STUDIES["symbols"])


def test_a_tally_of_symbols_is_small() -> None:
    """It keeps one row per combination of symbols, for any number of people."""
    counts = np.full((9, 13, 3), 1_000)
    tally = STUDIES["symbols"].simulate_counts(counts, seed=1)
    assert tally.n == counts.sum()
    assert len(tally.statistic.people) <= counts.size


class TestBytes:
    @kinds
    @pytest.mark.parametrize("count", [0, 1, 150])
    def test_they_are_those_of_the_file_and_give_the_tally_back(
        self, kind: str, count: int, tmp_path: Path
    ) -> None:
        study = STUDIES[kind]
        tally = study.tally(REPORTS[kind][:count])
        tally.save(tmp_path / "tally.parquet")
        data = tally.to_bytes()
        assert data == (tmp_path / "tally.parquet").read_bytes()
        for held in (data, bytearray(data), memoryview(data)):
            again = sf.Tally.from_bytes(held, study)
            assert again == tally
            assert again.n == count
            assert again.to_bytes() == data

    @kinds
    def test_later_changes_of_what_was_read_change_nothing(self, kind: str) -> None:
        study = STUDIES[kind]
        tally = study.tally(REPORTS[kind])
        held = bytearray(tally.to_bytes())
        found = sf.Tally.from_bytes(held, study)
        held[:] = bytes(len(held))
        assert found == tally

    def test_another_study_is_refused(self) -> None:
        data = STUDIES["symbols"].tally(REPORTS["symbols"]).to_bytes()
        other = _study("symbols", epsilon=0.8)
        with pytest.raises(sf.MismatchError, match=r"^the data belongs to study "):
            sf.Tally.from_bytes(data, other)
        with pytest.raises(sf.StudyError, match="study must be a Study"):
            sf.Tally.from_bytes(data, "tally.toml")  # type: ignore[arg-type]

    def test_something_else_is_refused_without_naming_a_path(self) -> None:
        study, reports = STUDIES["symbols"], REPORTS["symbols"]
        sink = pa.BufferOutputStream()
        pq.write_table(reports.to_arrow(), sink)
        strange = pa.BufferOutputStream()
        pq.write_table(pa.table({"a": [1]}), strange)
        for data, reason in (
            (b"", "the data is damaged or not a Parquet file"),
            (reports.to_bytes(), "the data is damaged or not a Parquet file"),
            (sink.getvalue().to_pybytes(), "the data holds reports, but a tally must be given"),
            (strange.getvalue().to_pybytes(), "the data holds no sfumato tally"),
        ):
            with pytest.raises(sf.FormatError, match=f"^{reason}"):
                sf.Tally.from_bytes(data, study)
        for other in ("tally.parquet", Path("tally.parquet"), 7, None):
            with pytest.raises(sf.FormatError, match="a tally must be read from bytes"):
                sf.Tally.from_bytes(other, study)  # type: ignore[arg-type]
