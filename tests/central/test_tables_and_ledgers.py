"""A ledger belongs to one table, and charges nothing for what is public."""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_central import JOINT, PEOPLE, SURVEY, book

import sfumato as sf
from sfumato import central
from sfumato.central import Data, Laplace, Ledger

KEY = b"sixteen bytes or more"
TABLE: dict[str, list[Any]] = {"age": [1, 2, 3] * 10, "sex": ["f", "m", "m"] * 10}
OTHER: dict[str, list[Any]] = {**TABLE, "age": [1, 2, 4] + [1, 2, 3] * 9}


def release(data: Data, ledger: Ledger, spend: str = "1/8") -> central.Release:
    return central.release(
        data, Laplace(["age=1..2"]), spend=spend, ledger=ledger, bits=sf.SeededBits(1)
    )


class TestNames:
    def test_a_ledger_takes_no_table_of_another_name(self, tmp_path: Path) -> None:
        ledger = book(tmp_path)
        release(Data(SURVEY, TABLE, name="clinic 2026"), ledger)
        before = ledger.path.read_bytes()
        for data, got in (
            (Data(SURVEY, TABLE, name="clinic 2027"), "is 'clinic 2027'"),
            (Data(SURVEY, TABLE, key=KEY), "is 'hmac-sha256:"),
            (Data(SURVEY, TABLE), "has neither name nor key"),
        ):
            words = rf"ledger 'a\.ledger' belongs to table 'clinic 2026', and the table given {got}"
            with pytest.raises(sf.MismatchError, match=words):
                release(data, ledger)
            with pytest.raises(sf.MismatchError, match=words):
                release(data, Ledger.load(ledger.path))
        assert ledger.path.read_bytes() == before
        release(Data(SURVEY, OTHER, name="clinic 2026"), ledger)  # which the curator calls the same

    def test_a_ledger_is_tied_by_the_first_release_that_has_a_name(self, tmp_path: Path) -> None:
        ledger = book(tmp_path)
        assert release(PEOPLE, ledger).entry == 1
        assert ledger.table is None
        release(Data(SURVEY, TABLE, name="clinic 2026"), ledger)
        assert (ledger.table, ledger.to_dict()["table"]) == ("clinic 2026", "clinic 2026")
        assert [entry.table for entry in Ledger.load(ledger.path).entries] == [None, "clinic 2026"]
        assert str(ledger).startswith("Ledger of study 'two', table 'clinic 2026': E may be")
        with pytest.raises(sf.MismatchError, match="neither name nor key"):
            release(PEOPLE, ledger)

    def test_a_writer_who_is_late_sees_what_others_tied(self, tmp_path: Path) -> None:
        ledger = book(tmp_path)
        late = Ledger.load(ledger.path)
        release(Data(SURVEY, TABLE, name="first"), ledger)
        with pytest.raises(sf.MismatchError, match="belongs to table 'first'"):
            late.reserve("1/8", mechanism="late", people=30, table="second")

    @pytest.mark.parametrize("name", ["", "  ", 7, "x" * 201, "\x1b[2J", "a\nb", "\udc80"])
    def test_unfit_names_are_refused(self, name: Any) -> None:
        with pytest.raises(
            sf.StudyError, match="name must be a text of 1 to 200 printable"
        ) as caught:
            Data(SURVEY, TABLE, name=name)
        assert str(caught.value).isprintable()


class TestKeys:
    def test_a_ledger_takes_no_other_table_under_a_key(self, tmp_path: Path) -> None:
        ledger = book(tmp_path)
        release(Data(SURVEY, TABLE, key=KEY), ledger)
        release(Data(SURVEY, TABLE, key=KEY), ledger)
        for data in (Data(SURVEY, OTHER, key=KEY), Data(SURVEY, TABLE, key=KEY + b".")):
            with pytest.raises(
                sf.MismatchError, match=r"belongs to table 'hmac-sha256:.*new ledger"
            ):
                release(data, ledger)
        assert ledger.left()["age"] == Fraction(3, 4)

    def test_the_order_of_rows_does_not_matter_and_every_value_does(self) -> None:
        mark = Data(SURVEY, TABLE, key=KEY).mark
        turned = {name: held[::-1] for name, held in TABLE.items()}
        assert Data(SURVEY, {**turned, "more": range(30)}, key=KEY).mark == mark
        cells = np.zeros(SURVEY.schema.shape, dtype=int)
        np.add.at(cells, (TABLE["age"], [0 if sex == "f" else 1 for sex in TABLE["sex"]]), 1)
        assert Data.from_counts(SURVEY, cells, key=KEY).mark == mark
        assert Data(SURVEY, TABLE, key=KEY.decode()).mark == mark
        for place in range(30):
            ages = [*TABLE["age"]]
            ages[place] += 1
            assert Data(SURVEY, {**TABLE, "age": ages}, key=KEY).mark != mark
        fewer = {name: held[:-1] for name, held in TABLE.items()}
        assert Data(SURVEY, fewer, key=KEY).mark != mark

    def test_neither_the_key_nor_a_plain_digest_is_written(self, tmp_path: Path) -> None:
        """A digest without a secret could be found by trying tables."""
        ledger = book(tmp_path)
        made = Data(SURVEY, TABLE, key=KEY)
        release(made, ledger)
        text = ledger.path.read_text(encoding="utf-8")
        assert KEY.decode() not in text
        assert hashlib.sha256(KEY).hexdigest() not in text
        marks = {Data(SURVEY, TABLE, key=bytes([k]) * 16).mark for k in range(20)}
        assert len(marks | {made.mark}) == 21  # the digest is nothing without the key
        assert repr(made) == repr(PEOPLE)

    @pytest.mark.parametrize("key", [b"", b"fifteen bytes..", "short", 7, bytearray(20)])
    def test_unfit_keys_are_refused_and_not_shown(self, key: Any) -> None:
        with pytest.raises(sf.StudyError, match="key must have at least 16 bytes") as caught:
            Data(SURVEY, TABLE, key=key)
        assert "fifteen" not in str(caught.value)

    def test_a_name_and_a_key_are_one_too_many(self) -> None:
        with pytest.raises(sf.StudyError, match="a name or a key, got both"):
            Data.from_counts(SURVEY, np.ones(SURVEY.schema.shape, dtype=int), name="a", key=KEY)

    def test_a_ledger_with_a_table_that_is_no_text_is_refused(self, tmp_path: Path) -> None:
        ledger = book(tmp_path)
        with pytest.raises(sf.SfumatoError, match="wrong table"):
            ledger.reserve("1/8", mechanism="m", people=1, table=7)  # type: ignore[arg-type]
        assert not Ledger.load(ledger.path).entries


EVERYBODY = [
    Laplace("total"),
    Laplace("age=0..9"),
    Laplace("total", "identity"),
    Laplace("total", "searched"),
    Laplace("total", bias="optimised"),
    Laplace(["total", "age=..", ""]),
    central.SmallDB("total", 0.5),
]


CASES = [(SURVEY, mechanism) for mechanism in EVERYBODY]
CASES += [(JOINT, mechanism) for mechanism in EVERYBODY if "age" not in mechanism.describe()]


@pytest.mark.parametrize(("study", "mechanism"), CASES)
def test_what_everybody_counts_towards_costs_nothing(
    tmp_path: Path, study: sf.Study, mechanism: central.Mechanism
) -> None:
    """The number of people is public, and nothing else is looked at."""
    ledger = book(tmp_path, study)
    first = np.zeros(study.schema.shape, dtype=int)
    last = first.copy()
    first.flat[0], last.flat[-1] = 30, 30
    found = [
        central.release(
            Data.from_counts(study, counts),
            mechanism,
            spend="1/4",
            ledger=ledger,
            bits=sf.SeededBits(5),
        )
        for counts in (first, last)
    ]
    assert {made.spent for made in found} == {"nothing"}
    assert set(Ledger.load(ledger.path).used().values()) == {0}
    one, other = (json.dumps({**m.to_dict(), "entry": 0, "time": ""}) for m in found)
    assert one == other
    assert found[0].answers.values.tolist() == [30.0] * len(found[0])


def test_a_question_beside_everybody_is_charged(tmp_path: Path) -> None:
    """The twin: what is about an axis costs what it may spend on it."""
    ledger = book(tmp_path)
    made = central.release(PEOPLE, Laplace(["total", "age=1"]), spend="1/4", ledger=ledger)
    assert made.spent == "age: 1/4 of E"
    assert ledger.left() == {"age": Fraction(3, 4), "sex": Fraction(1)}


def test_a_mechanism_of_ones_own_sees_nobody_where_it_is_not_charged(tmp_path: Path) -> None:
    """Whatever it does with its histogram, which is not that of the table."""
    seen = []

    class Own(central.laplace.PreparedLaplace):
        def run_margins(self, counts: Any, bits: sf.BitSource) -> Any:
            seen.append(counts[0].tolist())
            return super().run_margins(counts, bits)

    class Looks(Laplace):
        def prepare(self, space: central.Space, n: int) -> Any:
            made = super().prepare(space, n)
            return Own(**{name: getattr(made, name) for name in made.__dataclass_fields__})

    central.release(PEOPLE, Looks("total"), spend="1/4", ledger=book(tmp_path))
    assert seen == [[30, *[0] * 9]]
