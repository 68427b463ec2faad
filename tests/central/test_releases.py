"""Releases: paid for before the data are touched, and kept whole."""

from __future__ import annotations

from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from helpers_central import PEOPLE, STUDIES, SURVEY, book, two_axes
from matplotlib.text import Text

import sfumato as sf
from sfumato import central
from sfumato.central.chain import locked
from sfumato.central.exponential import Exponential
from sfumato.central.laplace import Laplace
from sfumato.central.ledger import Ledger
from sfumato.central.means import Means
from sfumato.central.mechanism import Outcome
from sfumato.central.multiplicative_weights import MWEM
from sfumato.central.small_database import SmallDB
from sfumato.central.space import Space
from sfumato.errors import QuestionError, SfumatoError, StudyError
from sfumato.noise.allocate import Allocation, allocate
from sfumato.randomness.bits import SeededBits


def test_one_range_released_takes_one_allocation_and_reads_no_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = STUDIES["two"]
    data = central.Data(study, {"age": [1, 2, 3], "mode": ["car", "bus", "bus"]})
    ledger = central.Ledger.create(tmp_path / "two.ledger", study)
    allocations: list[str] = []

    def counted(*args: Any, **options: Any) -> Allocation:
        allocations.append(options["method"])
        return allocate(*args, **options)

    monkeypatch.setattr("sfumato.central.designs.allocate", counted)
    monkeypatch.setattr(sf.Study, "from_toml", lambda *_, **__: pytest.fail("read again"))
    central.release(data, central.Laplace(["age=1..3"]), spend="1/4", ledger=ledger)
    assert allocations == ["exact"]


# Release


@pytest.fixture
def ledger(tmp_path: Path) -> central.Ledger:
    return central.Ledger.create(tmp_path / "two.ledger", two_axes())


class Untouched(central.Data):
    """Data that must not be looked at."""

    def marginal(self, axes: Any) -> Any:
        raise AssertionError("the data were touched")


def some_people() -> dict[str, list[Any]]:
    return {"age": [0, 1, 2, 3, 4, 5] * 20, "mode": ["car", "bus", "bike"] * 40}


def test_a_release_is_entered_charged_by_axis_and_kept(
    tmp_path: Path, ledger: central.Ledger
) -> None:
    data = central.Data(two_axes(), some_people())
    mechanism = central.Laplace(["age=2..4", "age=5"])
    made = central.release(data, mechanism, spend="1/4", ledger=ledger)
    assert ledger.left() == {"age": Fraction(3, 4), "mode": Fraction(1)}
    assert ledger.entries[0].state == "released"
    assert ledger.entries[0].mechanism == "Laplace noise on 'age=2..4'; 'age=5'"
    assert (made.entry, made.n, made.secure, made.spent) == (1, 120, True, "age: 1/4 of E")
    answer = made["age=2..4"]
    assert abs(answer.value - 60) < 200
    assert (answer.low, answer.high) == (made.answers.low[0], made.answers.high[0])
    made.save(tmp_path / "made.json")
    again = central.Release.load(tmp_path / "made.json")
    assert str(again) == str(made)
    assert again.to_dict() == made.to_dict()
    assert "Laplace noise on" in str(made)
    assert "95% interval" in str(made)
    with pytest.raises(sf.QuestionError, match=r"did you mean 'age=2\.\.4'"):
        made["age=2..3"]


def test_an_overspend_is_refused_before_the_data_are_touched(ledger: central.Ledger) -> None:
    data = Untouched(two_axes(), some_people())
    ledger.reserve("3/4", mechanism="before", people=1)
    with pytest.raises(sf.LedgerError, match="1/4 of E left"):
        central.release(data, central.Laplace(["age=2..4"]), spend="1/2", ledger=ledger)
    assert len(ledger.entries) == 1


def test_what_cannot_be_answered_costs_nothing(ledger: central.Ledger) -> None:
    data = Untouched(two_axes(), some_people())
    refused: list[tuple[Any, Any]] = [
        (central.Laplace(["age=2..4, mode=bus"]), {"age": "1/4"}),
        (central.Laplace(["agee=2..4"]), "1/4"),
        (central.Laplace(["age=2..4"], sf.questions.Total(18)), "1/4"),
        (central.Means(["mode"]), "1/4"),
        ("laplace", "1/4"),
    ]
    for mechanism, spend in refused:
        with pytest.raises(sf.SfumatoError):
            central.release(data, mechanism, spend=spend, ledger=ledger)
    assert ledger.entries == ()


def test_a_crash_after_the_entry_leaves_it_spent(ledger: central.Ledger) -> None:
    class Crashing(central.Laplace):
        def prepare(self, space: central.Space, n: int) -> Any:
            class Prepared:
                def expected(self) -> Any: ...

                def run(self, counts: Any, bits: Any) -> Outcome:
                    raise MemoryError

            return Prepared()

    data = central.Data(two_axes(), some_people())
    with pytest.raises(MemoryError):
        central.release(data, Crashing(["age=1"]), spend="1/4", ledger=ledger)
    assert central.Ledger.load(ledger.path).entries[0].state == "reserved"
    assert ledger.remaining == Fraction(3, 4)


def test_a_seeded_release_says_that_it_protects_nobody(ledger: central.Ledger) -> None:
    data = central.Data(two_axes(), some_people())
    mechanism = central.Laplace(["age=2..4"])
    made = [
        central.release(data, mechanism, spend="1/4", ledger=ledger, bits=SeededBits(1))
        for _ in range(2)
    ]
    assert made[0]["age=2..4"].value == made[1]["age=2..4"].value
    assert not made[0].secure
    assert str(made[0]).endswith("this release protects nobody.")


def test_a_ledger_of_other_people_is_refused(ledger: central.Ledger) -> None:
    data = central.Data.from_counts(STUDIES["uniform"], [1, 2, 3, 4])
    with pytest.raises(sf.MismatchError, match="belongs to study 'two'"):
        central.release(data, central.Laplace(["x=a"]), spend=1, ledger=ledger)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "no release file"),
        ("{", "not a readable release"),
        ("{}", "is not a release"),
        ('{"kind": "sfumato release", "format": 2}', "newer than"),
        ('{"kind": "sfumato release", "format": 1}', "is damaged"),
    ],
)
def test_a_damaged_release_file_is_refused(tmp_path: Path, text: str | None, words: str) -> None:
    file = tmp_path / "made.json"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(sf.FormatError, match=words):
        central.Release.load(file)


class TestWhatIsShown:
    def made(self, folder: Path) -> sf.central.Release:
        study = sf.Study("ages", [sf.integers("age", 0, 9, protect=sf.Distance(1))])
        ledger = sf.central.Ledger.create(folder / "a.ledger", study)
        data = sf.central.Data(study, {"age": list(range(10)) * 4})
        asked = sf.central.Laplace("age=2..3")
        return sf.central.release(data, asked, spend=1, ledger=ledger, bits=sf.SeededBits(1))

    def test_a_curator_has_people_and_no_reports(self, tmp_path: Path) -> None:
        made = self.made(tmp_path)
        assert repr(made) == "<release of 1 answer from 40 people of study 'ages'>"
        assert repr(made.answers) == "<release of question: 1 answers from 40 people>"
        assert "40 people" in made["age=2..3"]._repr_html_()
        made.save(tmp_path / "a.json")
        assert "40 people" in repr(sf.central.Release.load(tmp_path / "a.json").answers)

    def test_a_notebook_shows_answers_and_cost(self, tmp_path: Path) -> None:
        shown = self.made(tmp_path)._repr_html_()
        assert "<td>age=2..3</td>" in shown
        assert "spent all of E" in shown
        assert "protects nobody" in shown

    def test_a_picture_says_the_same(self, tmp_path: Path) -> None:
        texts = [text.get_text() for text in self.made(tmp_path).plot().findobj(Text)]
        assert any("from 40 people" in text for text in texts)
        assert not any("report" in text for text in texts)


class TestNothingIsSpent:
    @pytest.mark.parametrize(
        "mechanism",
        [
            Laplace("identity", level=1 - 1e-10),
            Laplace("prefixes of age", "identity", level=1 - 1e-10),
            Means("age", level=1 - 1e-10),
        ],
        ids=["cells", "read from cells", "mean"],
    )
    def test_on_intervals_that_cannot_be_had(self, tmp_path: Path, mechanism: Any) -> None:
        ledger = book(tmp_path)
        with pytest.raises(QuestionError, match="level must lie"):
            sf.central.release(PEOPLE, mechanism, spend="1/4", ledger=ledger)
        assert not Ledger.load(ledger.path).entries

    @pytest.mark.parametrize("check", [0, "1/10"])
    def test_on_rounds_whose_noise_is_too_wide(self, tmp_path: Path, check: Any) -> None:
        """Whichever question would be chosen: the refusal must not depend on that."""
        ledger = book(tmp_path)
        with pytest.raises(StudyError, match=r"rate of .* per step, below 2\^-48"):
            sf.central.release(
                PEOPLE, MWEM("cells of sex", 2, check=check), spend=1e-14, ledger=ledger
            )
        assert not Ledger.load(ledger.path).entries

    def test_on_a_check_whose_noise_is_too_wide(self) -> None:
        space = Space(SURVEY, 1e-12)
        assert MWEM("cells of sex", 1).prepare(space, 30).noise_rates()
        with pytest.raises(StudyError, match=r"below 2\^-48"):
            MWEM("cells of sex", 1, check="1/100").prepare(space, 30)

    @pytest.mark.parametrize(
        ("data", "mechanism", "named"),
        [
            ({"age": [1]}, Laplace("identity"), r"data must be central.Data.*got dict"),
            (PEOPLE, Laplace, r"mechanism must be.*got type"),
            (PEOPLE, "laplace", r"mechanism must be.*got str"),
            (PEOPLE, Laplace(None), "questions must be a list"),  # type: ignore[arg-type]
        ],
    )
    def test_on_what_is_something_else(
        self, tmp_path: Path, data: Any, mechanism: Any, named: str
    ) -> None:
        ledger = book(tmp_path)
        with pytest.raises(SfumatoError, match=named):
            sf.central.release(data, mechanism, spend="1/4", ledger=ledger)
        assert not Ledger.load(ledger.path).entries

    def test_without_a_ledger(self) -> None:
        with pytest.raises(StudyError, match=r"ledger must be.*got str.*Ledger\.load"):
            sf.central.release(PEOPLE, Laplace("identity"), spend="1/4", ledger="a.ledger")  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        "mechanism",
        [
            Laplace("age=1..3"),
            MWEM("cells of age"),
            Means("age"),
            SmallDB("age=1", alpha=0.9),
            Exponential(["low", "high"], ["age=..4", "age=5.."]),
        ],
        ids=lambda mechanism: type(mechanism).__name__,
    )
    def test_on_axes_that_are_not_paid_for(self, mechanism: Any) -> None:
        with pytest.raises(StudyError, match=r"axis 'age', on which .* spends nothing: name it in"):
            mechanism.prepare(Space(SURVEY, {"sex": "1/4"}), 30)


def test_what_is_paid_for_is_not_lost_with_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Should the ledger be out of reach once the answers are there, they are given all the same."""
    ledger = book(tmp_path)
    lock = ExitStack()
    answer = Laplace("age=1..3").prepare

    def prepare(space: Space, n: int) -> Any:
        prepared = answer(space, n)

        class Locking:
            expected = prepared.expected

            def run(self, counts: Any, bits: Any) -> Any:
                lock.enter_context(locked(ledger.path))
                return prepared.run(counts, bits)

        return Locking()

    asked = Laplace("age=1..3")
    object.__setattr__(asked, "prepare", prepare)
    monkeypatch.setattr("sfumato.central.chain.WAIT_SECONDS", 0.0)
    with lock, pytest.warns(UserWarning, match=r"entry 1 of the ledger stays 'reserved'"):
        made = sf.central.release(PEOPLE, asked, spend="1/4", ledger=ledger)
    assert len(made) == 1
    (entry,) = Ledger.load(ledger.path).entries
    assert entry.state == "reserved"
    assert made.time == entry.time
