"""Workloads from a study's own words: the same questions as their labels say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers_questions import agrees
from scipy import sparse

import sfumato as sf
from sfumato.errors import QuestionError
from sfumato.questions.compose import parse
from sfumato.questions.language import quoted, weights
from sfumato.questions.lines import Identity, Ranges
from sfumato.questions.products import KWay

AWKWARD = ["north", "St. Gallen", "a, b", "x=y", "p|q", "it's", 'say "hi"', "18..30", "..", " pad"]
AXES = [
    sf.integers("age", -2, 3),
    sf.reals("income", 0, 10, bins=4, optional=True),
    sf.reals("grid", -2, 2, bins=4, rounding="stochastic"),
    sf.reals("uneven", edges=[0, 1, 2.5, 10]),
    sf.reals("third", 0, 1, bins=3),
    sf.dates("week", "2024-01-01", "2024-01-21", step="1 week"),
    sf.dates("cells of x, y", "2024-01-01", "2024-01-04"),
    sf.times("t=", "00:00", "24:00", step="6 hours", optional=True),
    sf.times("marginal", "2024-01-01T00:00", "2024-01-02T00:00", step="6 hours"),
    sf.categories("it's a, place of birth", AWKWARD, optional=True),
]


def of(*axes: Any) -> Any:
    """As much of a study as questions need."""
    return SimpleNamespace(axes=axes)


@pytest.mark.parametrize("axis", AXES, ids=[axis.name for axis in AXES])
def test_labels_can_be_asked_again(axis: Any) -> None:
    name = quoted(axis.name)
    texts = ["identity", f"cells of {name}", f"marginal {name}", "1-way"]
    if axis.domain.ordered:
        texts += [f"prefixes of {name}", f"ranges of {name}"]
    for text in texts:
        workload = parse(of(axis), text)
        again = parse(of(axis), list(workload.labels))
        assert np.array_equal(again.dense(), workload.dense()), text
        assert again.prorated == ()
        values = axis.domain.size
        expected = {"prefixes": values, "ranges": values * (values + 1) // 2}
        assert workload.questions == expected.get(text.split()[0], axis.size)


def small() -> sf.Study:
    return sf.Study(
        "small",
        axes=[
            sf.integers("age", 18, 21, protect=sf.Distance(epsilon=0.5)),
            sf.categories("sex", ["f", "m"], protect=sf.Uniform(epsilon=1), optional=True),
            sf.reals("income", 0, 30, bins=3, protect=sf.Distance(epsilon=1, per=10)),
        ],
    )


def test_questions_and_words_for_many_mix_in_one_list() -> None:
    study = small()
    asked = [
        "age=18..19, sex=f",
        {"income": (0, 15), "sex": None},
        "ranges of age",
        "total",
        "marginal sex, age",
        "2-way",
        "identity",
        "prefixes of income, cells of sex, age=20..",
        "",
    ]
    workload = parse(study, asked)
    parts = [parse(study, one) for one in asked]
    assert np.array_equal(workload.dense(), np.vstack([part.dense() for part in parts]))
    assert [part.questions for part in parts] == [1, 1, 10, 1, 12, 12 + 12 + 9, 36, 9, 1]
    assert list(workload.labels) == [label for part in parts for label in part.labels]
    assert workload.shape_of_cells == study.shape
    assert workload.prorated == ("income",)
    names = list(workload.labels)
    assert names[:3] == ["age=18..19, sex=f", "sex=no answer, income=0..15", "age=18"]
    assert names[12] == "everyone"
    assert names[13:16] == ["age=18, sex=f", "age=18, sex=m", "age=18, sex=no answer"]
    assert names[-2] == "age=20.., sex=no answer, income=..30"
    # Labels of everything are questions of the study, and ask for the same.
    texts = ["" if name == "everyone" else name for name in names]
    assert np.array_equal(parse(study, texts).dense(), workload.dense())


def test_answers_are_counts_of_people() -> None:
    study = small()
    counts = np.random.default_rng(5).integers(0, 30, study.shape)
    workload = parse(study, ["age=19..20, sex=f|no answer", "income=5..20", "ranges of age, sex=m"])
    answers = workload @ counts.ravel()
    assert answers[0] == counts[1:3][:, [0, 2]].sum()
    assert answers[1] == pytest.approx((counts * [0.5, 1, 0]).sum())
    assert answers[2:6].tolist() == np.cumsum(counts[:, 1].sum(axis=1)).tolist()


def test_whole_records_are_asked_like_any_others() -> None:
    study = sf.Study(
        "joint",
        axes=[sf.integers("age", 0, 3), sf.categories("sex", ["f", "m"])],
        protect=sf.Uniform(epsilon=1),
    )
    found = parse(study, "ranges of age, cells of sex").dense()
    assert np.array_equal(found, np.kron(Ranges(4).dense(), np.eye(2)))


def test_listed_questions_agree_with_their_matrices() -> None:
    study = small()
    asked = [
        "age=18",
        "sex=f",
        "age=18..20, sex=m",
        "sex=m",
        "income=..",
        "age=21, income=10..20",
        "",
    ]
    wanted = np.vstack([parse(study, one).dense() for one in asked])
    agrees(parse(study, asked), wanted)
    agrees(parse(study, asked * 40), np.tile(wanted, (40, 1)))


def test_matrices_and_workloads_pass_through() -> None:
    study = small()
    matrix = np.random.default_rng(6).integers(0, 5, (3, 36))
    agrees(parse(study, matrix), matrix)
    agrees(parse(study, sparse.csr_array(matrix)), matrix)
    agrees(parse(study, [matrix, "total"]), np.vstack([matrix, np.ones(36)]))
    held = KWay(study.shape, 1)
    assert parse(study, held) is held
    assert parse(study, Identity(36)).cells == 36


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("rnages of age", "did you mean 'ranges'"),
        ("ranges of agge", "no axis 'agge': did you mean 'age'"),
        ("ranges of sex", "axis 'sex' has no order, so there are no ranges of it; ask for cells"),
        ("prefixes of sex", "axis 'sex' has no order"),
        ("ranges of age, cells of age", "axis 'age' must be mentioned once"),
        ("ranges of age, age=18", "axis 'age' must be mentioned once"),
        ("ranges of age, sex", "'sex' cannot be read as a question; write identity"),
        ("ranges of age,", "cannot be read as a question"),
        ("marginal age, age", "must name each axis once"),
        ("marginal agge", "no axis 'agge'"),
        ("marginal", "cannot be read"),
        ("4-way", "the study has 3 axes, so there is no '4-way'; ask for 1-way to 3-way"),
        ("0-way", "no '0-way'"),
        ("hello", "cannot be read as a question"),
        (["age=18", "size=3"], "no axis 'size'"),
        ([], "at least one question"),
        (None, "must be a list, got None"),
        ([None], "got NoneType"),
        (7, "must be a list, got 7"),
        (np.ones((2, 5)), "must have 36 columns"),
        (Ranges(5), "about 4 × 3 × 3 cells, got one about 5"),
        ("age='18", "quote must be closed"),
    ],
)
def test_questions_that_cannot_be_read(asked: Any, says: str) -> None:
    with pytest.raises(QuestionError, match=says):
        parse(small(), asked)


LONG = 200_000  # characters: hours of work if it grew with their square


@pytest.mark.parametrize(
    ("piece", "says"),
    [
        ("age=18,", "axis 'age' must be mentioned once"),
        ("cells of age,", "axis 'age' must be mentioned once"),
        ("ranges of age, sex=f,", "must be mentioned once"),
        ("cells of ", "no axis"),
        ("a'", "cannot be read"),
        ("it''s ", "cannot be read"),
        ("=", "one ="),
        ("age=", "one ="),
        ("'", "cannot be read"),
        ("' ", "cannot be read"),
        (" ", "cannot be read"),
        ("sex=f|", "one ="),
        ("age=18..", "one ="),
        ("|", "cannot be read"),
        (",", "cannot be read"),
        ("marginal ", "no axis"),
        ("marginal age,", "no axis|once"),
        ("1", "cannot be read"),
    ],
)
def test_long_questions_are_read_in_time_that_grows_with_their_length(
    piece: str, says: str
) -> None:
    """A text of this length takes a moment; it took hours where each part was read again."""
    text = (piece * (LONG // len(piece) + 1))[:LONG] + "x"
    with pytest.raises(QuestionError, match=says) as refused:
        parse(small(), text)
    assert len(str(refused.value)) < 1_000


def test_many_values_of_many_cells_are_read_in_time() -> None:
    labels = [f"label {number}" for number in range(40_000)]
    axes = of(sf.categories("town", labels), sf.integers("age", 0, 9_999))
    asked = f"town={'|'.join(labels[::2])}, age={'|'.join(map(str, range(0, 10_000, 2)))}"
    question = weights(axes.axes, asked)
    assert [held.sum() for held in question.weights if held is not None] == [20_000, 5_000]
    with pytest.raises(QuestionError, match="too many to ask for 500 intervals and points"):
        parse(of(sf.integers("age", 0, 2**23)), {"age": list(range(0, 1000, 2))})


def test_questions_beyond_all_bounds_are_refused() -> None:
    with pytest.raises(QuestionError, match="at most 1,000,000 characters, got 2,000,004"):
        parse(small(), "age=" + "1" * 2_000_000)
    nested: Any = []
    for _ in range(100_000):
        nested = [nested]
    for asked in (nested, [nested], {"age": nested}):
        with pytest.raises(QuestionError):
            parse(small(), asked)
    for way in ("9" * 5_000, "٣", "1e3", "-1"):
        with pytest.raises(QuestionError):
            parse(small(), f"{way}-way")
