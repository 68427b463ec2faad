"""What cannot be done is refused before anything is spent, and ledgers stay readable."""

from __future__ import annotations

from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_central import flat, line
from scipy import sparse

import sfumato as sf
from sfumato.central.chain import locked
from sfumato.central.data import Data
from sfumato.central.exponential import Exponential
from sfumato.central.laplace import Laplace
from sfumato.central.ledger import Ledger
from sfumato.central.means import Means
from sfumato.central.multiplicative_weights import MWEM
from sfumato.central.small_database import SmallDB
from sfumato.central.space import Space
from sfumato.central.spend import Spend
from sfumato.errors import QuestionError, SfumatoError, StudyError, TooLargeError

STUDY = sf.Study(
    "two",
    [
        sf.integers("age", 0, 9, protect=sf.Distance("1/2")),
        sf.categories("sex", ["f", "m"], protect=sf.Uniform(1)),
    ],
)
JOINT = sf.Study("joint", [sf.integers("x", 0, 3), sf.integers("y", 0, 1)], protect=sf.Uniform(1))
DATA = Data(STUDY, {"age": [1, 2, 3] * 10, "sex": ["f", "m", "m"] * 10})


def book(folder: Path, study: sf.Study = STUDY) -> Ledger:
    return Ledger.create(folder / "a.ledger", study)


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
            Space(STUDY, spend)
        assert Ledger.load(ledger.path).remaining == 1

    def test_axes_of_whole_records_are_no_way_around_the_ledger(self, tmp_path: Path) -> None:
        spend = Spend(None, (("x", Fraction(1)), ("y", Fraction(1))))
        with pytest.raises(StudyError, match="one guarantee for whole records"):
            Space(JOINT, spend)
        with pytest.raises(StudyError, match="one guarantee for whole records"):
            book(tmp_path, JOINT).reserve(spend, mechanism="by hand", people=30)

    def test_a_release_that_learns_nothing_costs_nothing(self, tmp_path: Path) -> None:
        ledger = book(tmp_path)
        made = sf.central.release(DATA, Laplace("total"), spend={"sex": "1/4"}, ledger=ledger)
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
        late = r"another writer has held '.*/a\.ledger\.lock'"
        with locked(ledger.path), pytest.raises(SfumatoError, match=late):
            Ledger.load(link).reserve("1/4", mechanism="late", people=30)
        with locked(link), pytest.raises(SfumatoError, match=late):
            ledger.reserve("1/4", mechanism="late", people=30)
        assert not (tmp_path / "link.ledger.lock").exists()


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
            sf.central.release(DATA, mechanism, spend="1/4", ledger=ledger)
        assert not Ledger.load(ledger.path).entries

    @pytest.mark.parametrize("check", [0, "1/10"])
    def test_on_rounds_whose_noise_is_too_wide(self, tmp_path: Path, check: Any) -> None:
        """Whichever question would be chosen: the refusal must not depend on that."""
        ledger = book(tmp_path)
        with pytest.raises(StudyError, match=r"rate of .* per step, below 2\^-48"):
            sf.central.release(
                DATA, MWEM("cells of sex", 2, check=check), spend=1e-14, ledger=ledger
            )
        assert not Ledger.load(ledger.path).entries

    def test_on_a_check_whose_noise_is_too_wide(self) -> None:
        space = Space(STUDY, 1e-12)
        assert MWEM("cells of sex", 1).prepare(space, 30).noise_rates()
        with pytest.raises(StudyError, match=r"below 2\^-48"):
            MWEM("cells of sex", 1, check="1/100").prepare(space, 30)

    @pytest.mark.parametrize(
        ("data", "mechanism", "named"),
        [
            ({"age": [1]}, Laplace("identity"), r"data must be central.Data.*got dict"),
            (DATA, Laplace, r"mechanism must be.*got type"),
            (DATA, "laplace", r"mechanism must be.*got str"),
            (DATA, Laplace(None), "questions must be a list"),  # type: ignore[arg-type]
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
            sf.central.release(DATA, Laplace("identity"), spend="1/4", ledger="a.ledger")  # type: ignore[arg-type]

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
            mechanism.prepare(Space(STUDY, {"sex": "1/4"}), 30)


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
        made = sf.central.release(DATA, asked, spend="1/4", ledger=ledger)
    assert len(made) == 1
    (entry,) = Ledger.load(ledger.path).entries
    assert entry.state == "reserved"
    assert made.time == entry.time


def test_a_score_that_is_no_number_is_not_shown() -> None:
    choice = Exponential(["x", "y"], lambda counts: [0, f"{counts[0]} people"], sensitivity=1)
    with pytest.raises(StudyError, match="scores must be finite numbers") as caught:
        choice.prepare(flat(3, 1), 10).run(np.array([7, 2, 1]), sf.SeededBits(1))
    assert "7" not in str(caught.value)
    assert caught.value.__suppress_context__


class TestSumsFit:
    ROWS = np.array([[2.0**24 - 1, 0, 0], [0, 1e-6, 0], [0, 0, 0]])

    def test_scores_that_would_wrap_around_are_refused(self) -> None:
        """2^24 steps of a million parts for 4 million people are beyond 2^63."""
        choice = Exponential(["x", "y", "z"], self.ROWS)
        prepared = choice.prepare(flat(3, 1), 2**17)
        everyone = np.array([2**17, 0, 0])
        assert prepared.scores(everyone)[0] == (2**24 - 1) * 10**6 * 2**17
        with pytest.raises(TooLargeError, match="scores of 4,194,304 people do not fit"):
            choice.prepare(flat(3, 1), 2**22)

    @pytest.mark.parametrize(
        "counts",
        [
            [2**62, 2**62, 5],
            [2**62, 2**62, 2**63 - 1],
            np.array([2**63 + 5, 2, 5], dtype=np.uint64),
        ],
    )
    def test_more_people_than_can_be_summed_are_refused(self, counts: Any) -> None:
        with pytest.raises(TooLargeError, match=r"fewer than 2\^52 people"):
            Data.from_counts(flat(3, 1).study, counts)

    def test_people_that_wrap_around_to_few_are_refused(self) -> None:
        with pytest.raises(TooLargeError, match=r"fewer than 2\^52 people"):
            Data.from_counts(flat(5, 1).study, [2**62] * 4 + [7])


def test_a_stated_sensitivity_counts_in_both_directions() -> None:
    def one_way(i: int, j: int) -> int:
        return 3 if i > j else 1

    choice = Exponential(["x", "y"], lambda counts: [0, 1], sensitivity=one_way)
    assert choice.prepare(flat(3, 1), 10).rate == Fraction(1, 6)
    with pytest.raises(StudyError, match="sensitivity must be 0 or more, got sensitivity=-1"):
        Exponential(
            ["x", "y"], lambda counts: [0, 1], sensitivity=lambda i, j: 1 if i < j else -1
        ).prepare(flat(3, 1), 10)


def test_every_average_of_whole_records_gets_a_share() -> None:
    """However little one counts; else it would not be measured at all."""
    means = Means(["x", "y"], weights=[1e-30, 1])
    prepared = means.prepare(Space(JOINT), 100)
    rates = [part.measurements.rates[0] for part in prepared.parts]
    assert all(rates)
    spans = (3, 1)
    assert sum(Fraction(rate or 0) * span for rate, span in zip(rates, spans, strict=True)) == 1
    assert np.isfinite(prepared.stderr).all()


def test_intervals_are_not_cut_below_what_rounding_took_off() -> None:
    """Coefficients on no lattice are rounded; the truth may lie that far beyond."""
    rows = np.array([[1 / 3, np.sqrt(2) / 1e3, np.pi]])
    rows = np.vstack([rows, -rows])
    n = 10**9
    prepared = MWEM(sf.questions.Given(rows), 1, check="1/2").prepare(line(3, 50), n)
    held = prepared.lattice.matrix()
    beyond = n * np.abs(rows - held)[:, 2]  # of the largest and of the smallest coefficient
    assert beyond.min() > 100
    for cell in range(3):
        counts = np.zeros(3, dtype=np.int64)
        counts[cell] = n
        answers = prepared.run(counts, sf.SeededBits(5)).answers
        truth = n * rows[:, cell]
        assert (answers.low <= truth).all()
        assert (truth <= answers.high).all()


@pytest.mark.parametrize("rounds", [2.5, "3", True, 0, 1001])
def test_rounds_are_whole(rounds: Any) -> None:
    with pytest.raises(StudyError, match="rounds must be a whole number from 1 to 1000"):
        MWEM("identity", rounds)


def test_no_scores_are_refused() -> None:
    with pytest.raises(QuestionError, match="at least one question"):
        Exponential(["x", "y"], []).prepare(flat(3, 1), 10)


def test_scores_may_be_a_sparse_matrix() -> None:
    rows = [[1, 0, 0], [0, 1, 0]]
    made = [
        Exponential(["x", "y"], scores).prepare(flat(3, 1), 10)
        for scores in (rows, np.array(rows), sparse.csr_array(rows))
    ]
    assert {prepared.rate for prepared in made} == {Fraction(1, 2)}


class TestOfTheWrongKind:
    def test_a_strategy_that_is_a_bare_matrix(self) -> None:
        with pytest.raises(StudyError, match=r"got ndarray: .*questions\.Given\(matrix\)"):
            Laplace("cells of sex", strategy=np.eye(20))  # type: ignore[arg-type]
        given = Laplace("cells of sex", strategy=sf.questions.Given(np.eye(20)))
        assert given.prepare(Space(STUDY), 30).details()["strategy"] == "a given strategy"

    def test_a_path_for_a_study(self, tmp_path: Path) -> None:
        with pytest.raises(StudyError, match=r"must be a Study, got str: .*Study\.load"):
            Ledger.create(tmp_path / "b.ledger", "a.toml")  # type: ignore[arg-type]
        assert not list(tmp_path.iterdir())
        with pytest.raises(StudyError, match="must be a Study, got NoneType"):
            Data(None, {})  # type: ignore[arg-type]

    def test_a_statement_that_knows_no_cells(self) -> None:
        rows = np.eye(3)
        for unlike in (sf.Uniform(1), sf.categories("x", ["a", "b", "c"], protect=sf.Uniform(1))):
            with pytest.raises(StudyError, match=rf"axis\.metric\(\).*{type(unlike).__name__}"):
                sf.allocate(rows, unlike)  # type: ignore[arg-type]
        assert sf.allocate(rows, unlike.metric()).scales.tolist() == [2.0] * 3

    def test_a_matrix_of_questions_is_not_written_out_in_the_ledger(self) -> None:
        assert Laplace(np.ones((4, 20))).describe() == "Laplace noise on a matrix of 4 × 20"
