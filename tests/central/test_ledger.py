"""The ledger: what is spent is added up exactly, and nothing slips past it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from helpers_central import JOINT, PEOPLE, STUDIES, SURVEY, book

import sfumato as sf
from sfumato import central
from sfumato.central import chain
from sfumato.central.chain import locked
from sfumato.central.laplace import Laplace
from sfumato.central.ledger import Ledger
from sfumato.central.space import Space
from sfumato.central.spend import Spend
from sfumato.errors import SfumatoError, StudyError


@pytest.fixture
def study() -> sf.Study:
    return sf.Study(
        "commute",
        [
            sf.integers("age", 0, 9, protect=sf.Distance(0.5)),
            sf.categories("mode", ["car", "bus", "bike"], protect=sf.Uniform(1)),
        ],
    )


@pytest.fixture
def ledger(tmp_path: Path, study: sf.Study) -> central.Ledger:
    return central.Ledger.create(tmp_path / "commute.ledger", study)


def reserve(ledger: central.Ledger, spend: Any) -> central.Entry:
    return ledger.reserve(spend, mechanism="a test", people=10)


def edit(change: Callable[[list[dict[str, Any]]], object]) -> Callable[[str], str]:
    """Change the lines of a file: its top, its facts, and its events."""

    def edited(text: str) -> str:
        lines = [json.loads(line) for line in text.splitlines()]
        size = lines[0]["length"]
        change(lines)
        top, *rest = (json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        body = "".join(rest)
        if lines[0].get("length") == size:  # the length is right, whatever else is not
            top = top.replace(f"{size}}}", f"{len(top) - len(str(size)) + 16 + len(body):16}}}")
        return top + body

    return edited


def test_a_file_that_is_taken_apart_and_put_together_is_the_same(ledger: central.Ledger) -> None:
    """The twin of the edits below, which changes nothing."""
    reserve(ledger, "1/4")
    text = ledger.path.read_text(encoding="utf-8")
    assert edit(lambda _: None)(text) == text


class TestLedgersStayReadable:
    @pytest.mark.parametrize(
        "spend",
        [
            Spend(Fraction(-3)),
            Spend(Fraction(0)),
            Spend(None, (("nobody", Fraction(1, 4)),)),
            Spend(None, (("age", Fraction(-1, 4)),)),
        ],
    )
    def test_a_spend_made_by_hand_is_read_like_all_others(
        self, tmp_path: Path, spend: Spend
    ) -> None:
        ledger = book(tmp_path)
        with pytest.raises(StudyError, match=r"positive|no axis"):
            ledger.reserve(spend, mechanism="by hand", people=30)
        with pytest.raises(StudyError, match=r"positive|no axis"):
            Space(SURVEY, spend)
        assert Ledger.load(ledger.path).remaining == 1

    def test_axes_of_whole_records_are_no_way_around_the_ledger(self, tmp_path: Path) -> None:
        spend = Spend(None, (("x", Fraction(1)), ("y", Fraction(1))))
        with pytest.raises(StudyError, match="one guarantee for whole records"):
            Space(JOINT, spend)
        with pytest.raises(StudyError, match="one guarantee for whole records"):
            book(tmp_path, JOINT).reserve(spend, mechanism="by hand", people=30)

    def test_a_release_that_learns_nothing_costs_nothing(self, tmp_path: Path) -> None:
        ledger = book(tmp_path)
        made = sf.central.release(PEOPLE, Laplace("total"), spend={"sex": "1/4"}, ledger=ledger)
        assert made.answers.values.tolist() == [30.0]
        assert made.spent == "nothing"
        assert Ledger.load(ledger.path).used() == {"age": 0, "sex": 0}

    def test_what_cannot_be_read_back_is_not_written(self, tmp_path: Path) -> None:
        class Own(sf.Uniform):
            def to_dict(self) -> dict[str, Any]:
                return {"kind": "nobody knows"}

        ledger = book(tmp_path)
        before = ledger.path.read_bytes()
        with pytest.raises(SfumatoError):
            ledger.reserve({"sex": Own("1/4")}, mechanism="own", people=30)
        assert ledger.path.read_bytes() == before
        assert not ledger.entries
        ledger.reserve("1/4", mechanism="after it", people=30)
        assert Ledger.load(ledger.path).remaining == Fraction(3, 4)

    def test_a_link_leads_to_one_ledger(self, tmp_path: Path) -> None:
        ledger = book(tmp_path)
        link = tmp_path / "link.ledger"
        link.symlink_to(ledger.path)
        other = Ledger.load(link)
        other.reserve("3/4", mechanism="by the link", people=30)
        assert link.is_symlink()
        with pytest.raises(SfumatoError, match="1/4 of E left"):
            ledger.reserve("1/2", mechanism="by the name", people=30)

    def test_a_link_is_locked_with_its_ledger(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ledger = book(tmp_path)
        link = tmp_path / "link.ledger"
        link.symlink_to(ledger.path)
        monkeypatch.setattr("sfumato.central.chain.WAIT_SECONDS", 0.0)
        late = r"another writer has held '.*\.ledger'"
        with locked(ledger.path), pytest.raises(SfumatoError, match=late):
            Ledger.load(link).reserve("1/4", mechanism="late", people=30)
        with locked(link), pytest.raises(SfumatoError, match=late):
            ledger.reserve("1/4", mechanism="late", people=30)


def test_three_thirds_are_exactly_one_and_not_a_hair_more(ledger: central.Ledger) -> None:
    for _ in range(3):
        reserve(ledger, "1/3")
    assert ledger.remaining == 0
    with pytest.raises(sf.LedgerError, match="more than is left"):
        reserve(ledger, Fraction(1, 10**30))
    assert len(ledger.entries) == 3


def test_ten_tenths_as_floats_are_exactly_one(ledger: central.Ledger) -> None:
    for _ in range(10):
        reserve(ledger, 0.1)
    assert ledger.remaining == 0


def test_the_total_may_be_several_times_e(tmp_path: Path, study: sf.Study) -> None:
    ledger = central.Ledger.create(tmp_path / "two.ledger", study, total="3/2")
    reserve(ledger, 1)
    assert ledger.remaining == Fraction(1, 2)
    with pytest.raises(sf.LedgerError, match="1/2 of E left of a total of 3/2"):
        reserve(ledger, "3/5")


def test_axes_are_charged_one_by_one(ledger: central.Ledger) -> None:
    reserve(ledger, {"age": "3/4"})
    assert ledger.left() == {"age": Fraction(1, 4), "mode": Fraction(1)}
    reserve(ledger, {"mode": 1})
    with pytest.raises(sf.LedgerError, match="mode has 0 of E left"):
        reserve(ledger, "1/4")
    reserve(ledger, {"age": "1/4"})
    assert ledger.remaining == 0


def test_metrics_are_compared_pair_by_pair(ledger: central.Ledger) -> None:
    reserve(ledger, {"age": sf.Distance("1/8")})  # a quarter of 0.5 for every pair
    reserve(ledger, {"age": sf.Uniform("1/4")})  # half of E for neighbours, less further out
    assert ledger.used()["age"] == Fraction(3, 4)
    with pytest.raises(sf.LedgerError, match="age has 1/4 of E left"):
        reserve(ledger, {"age": sf.Distance("1/8") + sf.Uniform("1/1000")})
    reserve(ledger, {"age": sf.Distance("1/8")})
    assert ledger.left() == {"age": Fraction(0), "mode": Fraction(1)}


def test_what_the_study_protects_may_not_be_told_for_certain(ledger: central.Ledger) -> None:
    blocks = sf.Blocks("1/10", [["car", "bus"], ["bike"]])
    with pytest.raises(sf.LedgerError, match=r"'mode'.*apart for certain"):
        reserve(ledger, {"mode": blocks})


def test_whole_records_have_one_account(tmp_path: Path) -> None:
    axes = [sf.integers("age", 0, 3), sf.integers("size", 0, 3)]
    study = sf.Study("joint", axes, protect=sf.Uniform(1))
    ledger = central.Ledger.create(tmp_path / "joint.ledger", study)
    reserve(ledger, "1/4")
    assert ledger.left() == {"records": Fraction(3, 4)}
    with pytest.raises(sf.StudyError, match="one guarantee for whole records"):
        reserve(ledger, {"age": "1/4"})


def test_axes_together_have_one_account(tmp_path: Path) -> None:
    ledger = book(tmp_path, STUDIES["together"])
    reserve(ledger, {"x, y": "1/4", "age": "1/2"})
    reserve(ledger, {"x, y": sf.Uniform("1/2")})
    assert ledger.left() == {"x, y": Fraction(1, 4), "age": Fraction(1, 2)}
    again = Ledger.load(ledger.path)
    assert again.left() == ledger.left()
    with pytest.raises(sf.LedgerError, match="x, y has 1/4 of E left"):
        reserve(again, "1/3")
    assert "x, y: 1/4 of E; age: 1/2 of E" in str(again)


def test_a_ledger_is_read_without_a_channel(
    ledger: central.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sf.Study, "__init__", lambda *_, **__: pytest.fail("a study was made"))
    assert Ledger.load(ledger.path).schema.groups[1].metric.size == 3


def test_other_channels_are_no_other_people(ledger: central.Ledger, study: sf.Study) -> None:
    """The same axes and guarantees have the same E to spend, however devices would perturb them."""
    mode = sf.categories("mode", ["car", "bus", "bike"], protect=sf.Uniform(1), channel=sf.OUE())
    other = sf.Study("commute", [study.axes[0], mode])
    assert other.fingerprint != study.fingerprint
    ledger.refuse_other(other)
    assert ledger.fingerprint == study.fingerprint


def test_a_refused_release_leaves_the_file_as_it_was(ledger: central.Ledger) -> None:
    reserve(ledger, "3/4")
    before = ledger.path.read_bytes()
    with pytest.raises(sf.LedgerError):
        reserve(ledger, "1/2")
    assert ledger.path.read_bytes() == before
    assert [file.name for file in ledger.path.parent.iterdir()] == ["commute.ledger"]


def test_a_stale_copy_sees_what_others_spent(ledger: central.Ledger) -> None:
    other = central.Ledger.load(ledger.path)
    reserve(ledger, "3/4")
    with pytest.raises(sf.LedgerError, match="1/4 of E left"):
        reserve(other, "1/2")
    assert len(other.entries) == 1


def test_writers_at_once_cannot_spend_the_same_share(ledger: central.Ledger) -> None:
    done: list[str] = []

    def spend() -> None:
        try:
            reserve(central.Ledger.load(ledger.path), "1/8")
            done.append("spent")
        except sf.LedgerError:
            done.append("refused")

    threads = [threading.Thread(target=spend) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == ["refused"] * 4 + ["spent"] * 8
    assert central.Ledger.load(ledger.path).remaining == 0


def test_entries_are_reserved_then_released(ledger: central.Ledger) -> None:
    entry = reserve(ledger, "1/4")
    assert (entry.id, entry.state, entry.people) == (1, "reserved", 10)
    assert ledger.settle(1).state == "released"
    with pytest.raises(sf.LedgerError, match="released already"):
        ledger.settle(1)
    with pytest.raises(sf.LedgerError, match="no entry 7"):
        ledger.settle(7)


def test_a_reservation_that_was_never_settled_is_spent(ledger: central.Ledger) -> None:
    reserve(ledger, "1/4")
    again = central.Ledger.load(ledger.path)
    assert again.entries[0].state == "reserved"
    assert again.remaining == Fraction(3, 4)


def test_a_file_reads_back_as_it_was(ledger: central.Ledger) -> None:
    reserve(ledger, "1/3")
    reserve(ledger, {"age": sf.Distance("1/16"), "mode": "1/2"})
    again = central.Ledger.load(ledger.path)
    assert (again.entries, again.total) == (ledger.entries, ledger.total)
    assert again.left() == ledger.left()
    for entry in again.entries:
        assert Spend.from_dict(entry.spend.to_dict(), again.schema) == entry.spend


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (edit(lambda d: d[1].update(total=2)), "has been edited"),
        (lambda text: "".join(text.splitlines(keepends=True)[:-1]), "has been edited"),
        (edit(lambda d: d.pop(2)), "has been edited"),
        (edit(lambda d: d[2].update(spend={"share": 0.01})), "has been edited"),
        (edit(lambda d: d[2].update(extra=1)), "has been edited"),
        (edit(lambda d: d[1].update(study=d[1]["study"].replace("0.5", "5"))), "has been edited"),
        (edit(lambda d: d[0].update(length=0)), "has been edited"),
        (edit(lambda d: d[0].update(length="all")), "has been edited"),
        (edit(lambda d: d[0].update(length=10**9)), "has been edited"),
        (edit(lambda d: d[0].pop("length")), "has been edited"),
        (edit(lambda d: d[0].update(format=3)), "newer than this package's 2"),
        (edit(lambda d: d[0].update(kind="sfumato release")), "is not a ledger"),
        (lambda text: text[: len(text) // 2], "has been edited"),
        (lambda text: text[:20], "not a readable ledger"),
        (lambda text: "[]", "is not a ledger"),
        (lambda text: "", "not a readable ledger"),
    ],
)
def test_a_damaged_or_edited_file_is_refused(
    ledger: central.Ledger, damage: Callable[[str], str], words: str
) -> None:
    reserve(ledger, "1/4")
    reserve(ledger, "1/8")
    ledger.path.write_text(damage(ledger.path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(sf.FormatError, match=words):
        central.Ledger.load(ledger.path)
    with pytest.raises(sf.FormatError):
        reserve(ledger, "1/8")
    with chain.locked(ledger.path, wait=0):  # which is free again
        pass


def test_words_that_no_file_can_hold_are_refused(ledger: central.Ledger) -> None:
    before = ledger.path.read_bytes()
    with pytest.raises(sf.LedgerError, match="half of another"):
        ledger.reserve("1/4", mechanism="\udc80", people=10)
    assert (ledger.path.read_bytes(), ledger.remaining) == (before, 1)


def test_a_second_ledger_is_not_written_over_the_first(
    ledger: central.Ledger, study: sf.Study
) -> None:
    with pytest.raises(sf.LedgerError, match=r"already.*spend E twice"):
        central.Ledger.create(ledger.path, study)


def test_a_ledger_needs_a_folder_a_file_and_a_total(tmp_path: Path, study: sf.Study) -> None:
    with pytest.raises(sf.LedgerError, match="no folder"):
        central.Ledger.create(tmp_path / "nowhere" / "a.ledger", study)
    with pytest.raises(sf.FormatError, match=r"no ledger.*Ledger\.create"):
        central.Ledger.load(tmp_path / "none.ledger")
    with pytest.raises(sf.StudyError, match="total must be positive"):
        central.Ledger.create(tmp_path / "a.ledger", study, total=0)


def test_data_of_another_study_is_refused(ledger: central.Ledger) -> None:
    other = sf.Study("other", [sf.integers("age", 0, 9, protect=sf.Distance(1))])
    with pytest.raises(sf.MismatchError, match=r"belongs to study 'commute'.*not to 'other'"):
        ledger.refuse_other(other)


def test_the_ledger_says_in_words_what_is_spent_and_left(ledger: central.Ledger) -> None:
    ledger.settle(reserve(ledger, "1/4").id)
    reserve(ledger, {"mode": "1/2"})
    text = str(ledger)
    assert "a test; spent 1/4 of E\n" in text
    assert "a test; spent mode: 1/2 of E (reserved)" in text
    assert text.endswith("Left of E: 3/4 for age, 1/4 for mode.")
    assert repr(ledger) == "<ledger of study 'commute': 2 releases, 1/4 of E left>"
    document = json.loads(json.dumps(ledger.to_dict()))
    assert document["used"] == {"age": 0.25, "mode": 0.75}
    assert document["entries"][1]["spend"] == {"axes": {"mode": 0.5}}


def test_a_study_whose_accounts_would_share_a_name_gets_no_ledger(tmp_path: Path) -> None:
    pair = sf.together(
        [sf.integers("x", 0, 2), sf.integers("y", 0, 2)], protect=sf.Uniform(epsilon=1)
    )
    study = sf.Study("s", [pair, sf.integers("x, y", 0, 2, protect=sf.Uniform(epsilon=1))])
    with pytest.raises(sf.StudyError, match="called like axes together"):
        central.Ledger.create(tmp_path / "s.ledger", study)
    assert list(tmp_path.iterdir()) == []
