"""Releases: exactly private, honest about their error, and never made before they are paid for."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.text import Text

import sfumato as sf
from sfumato import central
from sfumato.central.measurements import Measurements, quick_reaches
from sfumato.central.mechanism import Outcome, margins_of
from sfumato.noise.allocate import Allocation, allocate
from sfumato.noise.strategies import FIXED
from sfumato.randomness.bits import SeededBits
from sfumato.randomness.laplace_sums import laplace_variance, sum_quantile

LABELS = ["a", "b", "c", "d"]


def one_axis(protect: Any, *, ordered: bool = False) -> sf.Study:
    if ordered:
        return sf.Study("one", [sf.integers("x", 0, 4, protect=protect)])
    return sf.Study("one", [sf.categories("x", LABELS, protect=protect)])


def two_axes() -> sf.Study:
    return sf.Study(
        "two",
        [
            sf.integers("age", 0, 5, protect=sf.Distance("1/2")),
            sf.categories("mode", ["car", "bus", "bike"], protect=sf.Uniform("3/4")),
        ],
    )


UNEVEN = [[0 if i == j else 1 + (i + 2 * j) % 3 for j in range(4)] for i in range(4)]
STUDIES = {
    "distance": one_axis(sf.Distance("2/3"), ordered=True),
    "capped": one_axis(sf.Distance("2/3", cap="3/2"), ordered=True),
    "uniform": one_axis(sf.Uniform(1)),
    "blocks": one_axis(sf.Blocks(1, [LABELS[:2], LABELS[2:]])),
    "high-low": one_axis(sf.HighLow(1, sensitive=LABELS[:1])),
    "matrix": one_axis(sf.Matrix(UNEVEN)),
    "two": two_axes(),
    "optional": sf.Study(
        "optional",
        [
            sf.integers("age", 0, 3, protect=sf.Distance("1/2", no_answer=2), optional=True),
            sf.categories("mode", ["car", "bus"], protect=sf.Uniform("3/4")),
        ],
    ),
    "joint": sf.Study(
        "joint", [sf.integers("x", 0, 3), sf.integers("y", 0, 1)], protect=sf.Uniform(1)
    ),
}


def told_apart(measured: Measurements, i: int, j: int) -> Fraction | None:
    """Σ rate·|steps|: by how much a person who moves from i to j can change the odds, exactly."""
    total = Fraction(0)
    for k, rate in enumerate(measured.rates):
        row = measured.lattice.row(k)
        apart = abs(int(row[i]) - int(row[j]))
        if apart and rate is None:
            return None
        total += (rate or Fraction(0)) * apart
    return total


def allowed(space: central.Space, axes: tuple[int, ...], i: int, j: int) -> Fraction | None:
    """The distance of two cells of a margin, the smaller direction, other axes being equal."""
    shape = [space.shape[axis] for axis in axes]
    ends = []
    for cell in (i, j):
        places = [0] * len(space.shape)
        for axis, place in zip(axes, np.unravel_index(cell, shape), strict=True):
            places[axis] = int(place)
        ends.append(int(np.ravel_multi_index(places, space.shape)))
    both = [space.exact(*ends), space.exact(*ends[::-1])]
    finite = [e for e in both if e is not None]
    return min(finite) if finite else None


@pytest.mark.parametrize(
    "strategy", ["questions", "identity", "prefix", "hierarchical", "haar", "best"]
)
@pytest.mark.parametrize("name", STUDIES)
def test_every_pair_of_cells_keeps_its_distance_exactly(name: str, strategy: str) -> None:
    space = central.Space(STUDIES[name], "1/3")
    prepared = central.Laplace("identity", strategy).prepare(space, 100)
    cells = prepared.asked.workload.cells
    spent = []
    for i, j in itertools.combinations(range(cells), 2):
        told, limit = (
            told_apart(prepared.design.measurements, i, j),
            allowed(space, prepared.asked.axes, i, j),
        )
        assert limit is None or (told is not None and told <= limit)
        if limit is not None and told is not None:
            spent.append(told / limit)
    assert max(spent) > 1 - Fraction(1, 10**6)  # none of it is wasted


@pytest.mark.parametrize("name", ["distance", "matrix", "two", "joint"])
def test_a_guarantee_that_is_a_little_too_strong_is_caught(name: str) -> None:
    space = central.Space(STUDIES[name], "1/3")
    prepared = central.Laplace("identity").prepare(space, 100)
    lattice, rates = prepared.design.measurements.lattice, prepared.design.measurements.rates
    louder = Measurements(lattice, tuple(r and r * Fraction(1001, 1000) for r in rates))
    cells = itertools.combinations(range(space.size), 2)
    broken = [
        (i, j)
        for i, j in cells
        if (told_apart(louder, i, j) or 0) > (allowed(space, prepared.asked.axes, i, j) or math.inf)
    ]
    assert broken


# Data and space


def test_data_are_counted_by_cell_and_margin() -> None:
    study = two_axes()
    people = {"age": [0, 0, 5, 3], "mode": ["car", "bus", "bike", "car"]}
    data = central.Data(study, people)
    table = data.counts().reshape(6, 3)
    assert (data.n, len(data), table.sum()) == (4, 4, 4)
    assert (table[0, 0], table[0, 1], table[5, 2], table[3, 0]) == (1, 1, 1, 1)
    assert data.marginal([1]).tolist() == [2, 1, 1]
    assert data.marginal([1, 0]).reshape(3, 6).tolist() == table.T.tolist()
    assert central.Data.from_counts(study, table).counts().tolist() == data.counts().tolist()
    assert margins_of(data.counts(), study.shape, (1, 0)).tolist() == table.T.ravel().tolist()
    assert margins_of(data.counts(), study.shape, (0,)).tolist() == table.sum(axis=1).tolist()
    assert repr(data) == "<data of 4 people for study 'two'>"


def test_data_that_do_not_fit_are_refused_without_a_value() -> None:
    with pytest.raises(sf.DataError, match="row 2") as caught:
        central.Data(two_axes(), {"age": [1, 4321], "mode": ["car", "bus"]})
    assert "4321" not in str(caught.value)
    with pytest.raises(sf.StudyError, match="at least one person"):
        central.Data(two_axes(), {"age": [], "mode": []})
    with pytest.raises(sf.StudyError, match="shape 6 × 3"):
        central.Data.from_counts(two_axes(), [1, 2])


def test_an_axis_that_rounds_at_random_is_for_devices_only() -> None:
    axis = sf.reals("x", 0, 1, bins=4, protect=sf.Distance(1), rounding="stochastic")
    study = sf.Study("rounded", [axis])
    with pytest.raises(sf.StudyError, match="'x' rounds at random"):
        central.Data(study, {"x": [0.5]})
    with pytest.raises(sf.StudyError, match="'x' rounds at random"):
        central.Space(study)


def test_distances_of_a_space_add_over_axes_and_are_shared_by_records() -> None:
    space = central.Space(two_axes(), "1/2")
    assert space.exact(0, 3 * 3 + 1) == Fraction(1, 2) * (3 * Fraction(1, 2) + Fraction(3, 4))
    assert space.label(4) == "age 1, mode bus"
    joint = central.Space(STUDIES["joint"], "1/2")
    assert {joint.exact(0, j) for j in range(1, 8)} == {Fraction(1, 2)}
    assert central.Space(STUDIES["blocks"]).exact(0, 3) is None
    mixed = central.Space(two_axes(), {"age": "1/2", "mode": sf.Uniform("1/8")})
    assert mixed.exact(0, 4) == Fraction(1, 4) + Fraction(1, 8)


def test_questions_need_only_the_cells_of_the_axes_they_are_about() -> None:
    wide = sf.Study(
        "wide",
        [
            sf.integers("age", 0, 99, protect=sf.Distance(1)),
            *(sf.integers(f"x{k}", 0, 999, protect=sf.Distance(1)) for k in range(4)),
        ],
    )
    space = central.Space(wide, "1/2")
    asked = space.margin(["age=18..30", {"age": (40, None)}])
    assert (asked.axes, asked.workload.shape) == ((0,), (2, 100))
    assert asked.names is not None
    assert asked.names[7] == "age 7"
    prepared = central.Laplace("ranges of age", "prefix").prepare(space, 100)
    assert prepared.expected().stderr.shape == (5050,)
    rows = [np.arange(20), *(np.zeros(20, dtype=int) for _ in range(4))]
    data = central.Data(wide, dict(zip([axis.name for axis in wide.axes], rows, strict=True)))
    outcome = prepared.run_margins([data.marginal((0,))], SeededBits(1))
    assert outcome.answers.values.shape == (5050,)
    with pytest.raises(sf.TooLargeError, match="100,000,000,000,000 cells"):
        data.counts()


# Laplace


def test_a_single_question_has_the_noise_of_its_steepest_pair() -> None:
    study = one_axis(sf.Distance("2/3"), ordered=True)
    prepared = central.Laplace(["x=2.."]).prepare(central.Space(study, "1/2"), 50)
    assert prepared.design.measurements.rates == (Fraction(1, 3),)
    assert prepared.stderr[0] == pytest.approx(math.sqrt(laplace_variance(Fraction(1, 3))))
    assert prepared.reach[0] == sum_quantile([1], [Fraction(1, 3)], 0.95)


def test_what_the_study_does_not_protect_is_told_exactly() -> None:
    study = STUDIES["blocks"]
    data = central.Data.from_counts(study, [5, 6, 7, 8])
    prepared = central.Laplace(["x=a|b", "x=a"]).prepare(central.Space(study), data.n)
    answers = prepared.run(data.counts(), SeededBits(3)).answers
    assert (answers.values[0], answers.stderr[0]) == (11, 0)
    assert answers.stderr[1] > 0


def test_everyone_is_known_without_noise() -> None:
    study = two_axes()
    data = central.Data.from_counts(study, np.arange(18))
    prepared = central.Laplace(["age=..", "mode=car|bus|bike"]).prepare(
        central.Space(study), data.n
    )
    answers = prepared.run(data.counts(), SeededBits(1)).answers
    assert answers.values.tolist() == [data.n, data.n]
    assert answers.stderr.tolist() == [0, 0]


def test_strategies_answer_without_bias_and_with_the_error_they_state() -> None:
    study = two_axes()
    truth = np.arange(18) * 3
    space = central.Space(study, 1)
    runs = 250
    for strategy in ("questions", "identity", "prefix", "hierarchical", "haar"):
        mechanism = central.Laplace(["ranges of age", "age=2.., mode=bus"], strategy)
        prepared = mechanism.prepare(space, int(truth.sum()))
        exact = prepared.asked.workload @ truth.astype(float)
        bits = SeededBits(11)
        found = np.array([prepared.run(truth, bits).answers.values for _ in range(runs)])
        stderr = prepared.stderr
        z = (found.mean(axis=0) - exact) / (np.where(stderr > 0, stderr, 1) / math.sqrt(runs))
        assert np.abs(z).max() < 5  # of 22 questions
        # A mean square of numbers with kurtosis up to 6 has relative error sqrt(5/runs); that of
        # several questions, which hang together, no more.
        spread = np.square(found - exact).mean(axis=0)[stderr > 0] / stderr[stderr > 0] ** 2
        assert abs(spread.mean() - 1) < 4 * math.sqrt(5 / runs)
        assert abs(2 * spread.mean() - 1) > 4 * math.sqrt(5 / runs)  # the twin
        shifted = (found.mean(axis=0) + 0.5 * stderr - exact) / np.where(stderr > 0, stderr, 1)
        assert np.abs(shifted * math.sqrt(runs)).max() > 5  # the twin: half an error off is seen


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    study = sf.Study("many", [sf.integers("x", 0, 999, protect=sf.Uniform(1))])
    prepared = central.Laplace("identity", level=0.9).prepare(central.Space(study), 5000)
    counts = np.zeros(1000, dtype=np.int64)
    counts[0] = 5000
    answers = prepared.run(counts, SeededBits(5)).answers
    off = np.abs(answers.values - counts)
    held = float(np.mean(off <= prepared.reach))
    rate = prepared.design.measurements.rates[0]
    assert rate is not None
    exact = 1 - 2 * math.exp(-float(rate) * (prepared.reach[0] + 1)) / (1 + math.exp(-float(rate)))
    error = math.sqrt(exact * (1 - exact) / 1000)
    assert exact >= 0.9
    assert abs(held - exact) < 4 * error
    assert abs(np.mean(off <= 0.8 * prepared.reach) - exact) > 4 * error  # the twin: too narrow
    variance = float(np.mean(off**2))
    wanted = laplace_variance(rate)
    kurtosis = 6.0  # of Laplace noise, a little less on a lattice
    assert abs(variance / wanted - 1) < 4 * math.sqrt((kurtosis - 1) / 1000)
    assert abs(variance * 1.5 / wanted - 1) > 4 * math.sqrt((kurtosis - 1) / 1000)


def test_the_same_seed_gives_the_same_release() -> None:
    prepared = central.Laplace("2-way", "hierarchical").prepare(central.Space(two_axes()), 153)
    counts = np.arange(18)
    first, second, third = (prepared.run(counts, SeededBits(k)).answers.values for k in (1, 1, 2))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, third)


def test_the_exact_allocation_is_never_beaten_by_the_published_ones() -> None:
    study = STUDIES["matrix"]
    rows = sf.questions.Given(np.random.default_rng(3).uniform(size=(4, 4)).round(3))
    space = central.Space(study, "1/4")
    error = {
        method: central.Laplace(rows, allocation=method).prepare(space, 10).expected().total
        for method in ("exact", "equal", "shared", "psa")
    }
    assert min(error.values()) > error["exact"] * (1 - 1e-6)
    assert error["exact"] < error["equal"]


def test_unless_told_otherwise_the_best_is_measured_where_cells_are_few() -> None:
    few = sf.Study("s", [sf.integers("x", 0, 30, protect=sf.Distance(1))])
    left_out = central.Laplace("ranges of x").prepare(central.Space(few), 10)
    assert left_out.details()["strategy"] == "prefix"
    many = sf.Study("s", [sf.integers("x", 0, 128, protect=sf.Distance(1))])
    left_out = central.Laplace(["x=3..9", "x=5..40"]).prepare(central.Space(many), 10)
    assert left_out.details()["strategy"] == "the questions themselves"


@pytest.mark.parametrize("name", STUDIES)
def test_one_range_is_measured_itself_since_nothing_is_better(name: str) -> None:
    space = central.Space(STUDIES[name])
    axis = STUDIES[name].axes[0]
    asked = [f"{axis.name}={axis.labels()[1]}"]
    best = central.Laplace(asked).prepare(space, 100)
    assert best.design.name == "the questions themselves"
    for strategy in FIXED:
        other = central.Laplace(asked, strategy).prepare(space, 100)
        assert best.stderr[0] <= other.stderr[0] * (1 + 1e-9)


def test_one_question_on_a_fine_lattice_may_be_read_from_coarser_rows() -> None:
    """The twin: where a range cuts bins, noise in whole people beats noise in parts of them."""
    study = sf.Study("bins", [sf.reals("x", 0, 10, bins=5, protect=sf.Distance(3))])
    best = central.Laplace(["x=0.5..7.7"]).prepare(central.Space(study), 100)
    assert best.design.name == "prefix"


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


def test_the_best_strategy_is_the_best_of_all() -> None:
    space = central.Space(one_axis(sf.Distance("1/2"), ordered=True), "1/4")
    errors = {
        name: central.Laplace("ranges of x", name).prepare(space, 10).expected().total
        for name in ("questions", "identity", "prefix", "hierarchical", "haar", "best", "searched")
    }
    assert errors["best"] == min(e for name, e in errors.items() if name != "searched")
    assert errors["searched"] <= errors["best"] * 1.001
    assert errors["prefix"] == errors["best"]


def test_weights_move_noise_from_one_question_to_another() -> None:
    space = central.Space(one_axis(sf.Uniform(1)), "1/4")
    plain = central.Laplace(["x=a", "x=b"]).prepare(space, 10).stderr
    heavy = central.Laplace(["x=a", "x=b"], weights=[10, 1]).prepare(space, 10).stderr
    assert plain[0] == pytest.approx(plain[1])
    assert heavy[0] < plain[0] < heavy[1]


def test_coefficients_that_are_rounded_are_counted_in_the_error() -> None:
    study = one_axis(sf.Uniform(1))
    rows = sf.questions.Given([[0.1234567890123, 1 / 3, 0.7, 0.0]])
    prepared = central.Laplace(rows).prepare(central.Space(study), 1000)
    assert 0 < prepared.bias[0] < 1000 * 2**-20
    assert "off by up to" in prepared.notes[0]
    counts = np.array([1000, 0, 0, 0])
    measured = prepared.design.measurements.lattice.matrix() @ counts + prepared.shift
    assert abs(measured[0] - 123.4567890123) <= prepared.bias[0] * (1 + 1e-9)


def test_an_axis_on_which_nothing_is_spent_may_not_be_asked_about() -> None:
    study = two_axes()
    space = central.Space(study, {"age": "1/2"})
    central.Laplace("ranges of age").prepare(space, 10)
    with pytest.raises(sf.StudyError, match="axis 'mode', on which this release spends nothing"):
        central.Laplace(["age=2.., mode=bus"]).prepare(space, 10)
    rows = sf.questions.parse(study, ["age=2.., mode=bus"])
    with pytest.raises(sf.StudyError, match=r"mode car' and .* are at distance 0") as caught:
        central.Laplace(rows).prepare(space, 10)
    assert "mode=bus" in str(caught.value)


def test_a_strategy_that_cannot_express_a_question_names_it() -> None:
    study = one_axis(sf.Uniform(1))
    strategy = sf.questions.Given([[1, 1, 0, 0], [0, 0, 1, 0]])
    mechanism = central.Laplace(["x=a|b", "x=a", "x=d"], strategy)
    with pytest.raises(sf.StudyError, match=r"cannot express 1 of 3 questions: 'x=a' \(residual"):
        mechanism.prepare(central.Space(study), 10)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"strategy": "prefixes"}, "did you mean 'prefix'"),
        ({"allocation": "best"}, "allocation must be known"),
        ({"bias": "some"}, "bias must be"),
        ({"bias": "optimised", "strategy": "prefix"}, "strategy must be left out"),
        ({"weights": [1, 2]}, "one per question"),
        ({"weights": [0]}, "weights must be positive and finite"),
        ({"strategy": sf.questions.Identity(7)}, "one column for each of 4 cells, got 7"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(sf.StudyError, match=words):
        central.Laplace(["x=a"], **options).prepare(central.Space(one_axis(sf.Uniform(1))), 10)


# Bias


def worst_error(prepared: Any, n: int) -> float:
    """The largest bias over people in any cells: they may as well all be in one."""
    rows = prepared.asked.workload.dense()
    held = prepared.design.measurements.lattice.matrix()
    return float(np.abs(n * (held - rows) + prepared.shift[:, None]).max())


@pytest.mark.parametrize("questions", [["x=3.."], ["x=3..", "x=1", "x=0..2"]])
def test_bent_questions_have_less_error_for_few_people(questions: list[str]) -> None:
    space = central.Space(one_axis(sf.Distance("2/3"), ordered=True), "1/4")
    for n in (1, 3, 10):
        plain = central.Laplace(questions, "questions").prepare(space, n)
        bent = central.Laplace(questions, bias="optimised").prepare(space, n)
        assert bent.expected().total < plain.expected().total
        assert worst_error(bent, n) <= bent.bias.max() * (1 + 1e-9)
        for i, j in itertools.combinations(range(5), 2):
            told = told_apart(bent.design.measurements, i, j)
            assert told is not None
            assert told <= (space.exact(i, j) or 0)


def test_a_single_question_is_bent_as_far_as_the_formula_says() -> None:
    # Two cells at distance d: measuring c·d of the step of 1 costs n²(1 − cd)²/4 + 2c².
    study = sf.Study("two", [sf.categories("x", ["a", "b"], protect=sf.Uniform("1/10"))])
    prepared = central.Laplace(["x=b"], bias="optimised").prepare(central.Space(study), 10)
    n, d = 10, 0.1
    c = n**2 * d / (n**2 * d**2 + 8)
    assert prepared.bias[0] == pytest.approx(n * (1 - c * d) / 2, rel=1e-4)
    # On its lattice of 2^20 steps the noise is continuous for all that can be seen.
    assert prepared.stderr[0] ** 2 - prepared.bias[0] ** 2 == pytest.approx(2 * c**2, rel=1e-3)


def test_many_people_leave_nothing_to_bend() -> None:
    space = central.Space(one_axis(sf.Distance("2/3"), ordered=True), "1/4")
    bent = central.Laplace(["x=3.."], bias="optimised").prepare(space, 10**6)
    plain = central.Laplace(["x=3.."], "questions").prepare(space, 10**6)
    assert bent.stderr[0] <= plain.stderr[0]
    assert bent.stderr[0] > 0.99 * plain.stderr[0]


def test_bending_answers_even_what_may_not_be_told() -> None:
    space = central.Space(two_axes(), {"age": "1/2"})
    mechanism = central.Laplace(["age=2.., mode=bus"], bias="optimised")
    prepared = mechanism.prepare(space, 8)
    assert prepared.bias[0] >= 8 * 0.5 - 1e-9  # bus or not cannot be known
    assert worst_error(prepared, 8) <= prepared.bias[0] * (1 + 1e-9)


def test_bending_too_many_cells_is_refused_with_their_number() -> None:
    study = sf.Study("long", [sf.integers("x", 0, 2999, protect=sf.Distance(1))])
    with pytest.raises(sf.TooLargeError, match="3,000 cells"):
        central.Laplace(["x=3.."], bias="optimised").prepare(central.Space(study), 3)


# Intervals


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
def test_many_intervals_at_once_are_hardly_wider_than_exact_ones(level: float) -> None:
    rng = np.random.default_rng(2)
    sums = [rng.exponential(size=k) ** power for k in (1, 2, 5, 30) for power in (0.2, 1, 3)]
    scales = np.zeros((len(sums), 30))
    for place, row in enumerate(sums):
        scales[place, : len(row)] = row
    rate = Fraction(1, 1000)  # so fine a lattice that the noise is continuous
    exact = np.array([sum_quantile(row * float(rate), [rate] * len(row), level) for row in sums])
    found = quick_reaches(scales, level)
    spread = np.sqrt(2 * (scales**2).sum(axis=1))
    assert (found >= exact - 0.005 * spread).all()  # the exact ones are up to 0.4 % too wide
    assert (found <= exact * 1.03).all()


def test_intervals_of_many_questions_agree_with_those_of_few() -> None:
    study = sf.Study("line", [sf.integers("x", 0, 29, protect=sf.Distance("1/2"))])
    space = central.Space(study, "1/8")
    many = central.Laplace("ranges of x", "hierarchical").prepare(space, 100)
    some = [0, 17, 200, 464]
    reading = many.design.reading
    assert reading is not None
    exact = many.design.measurements.reaches(reading[some][:, :-1], 0.95)
    assert (many.reach[some] >= exact * 0.999).all()
    assert (many.reach[some] <= exact * 1.05).all()


# Means


def test_means_have_the_noise_of_their_own_axis_alone() -> None:
    study = two_axes()
    means = central.Means({"mean age": "age", "by car": ("mode", lambda mode: mode == "car")})
    prepared = means.prepare(central.Space(study, "1/2"), 40)
    assert prepared.margins == ((0,), (1,))
    age, car = prepared.parts
    assert age.measurements.rates == (Fraction(1, 4),)
    assert car.measurements.rates == (Fraction(3, 8),)
    wanted = [math.sqrt(laplace_variance(rate)) / 40 for rate in (Fraction(1, 4), Fraction(3, 8))]
    assert prepared.stderr.tolist() == pytest.approx(wanted)
    reach = sum_quantile([1], [Fraction(1, 4)], 0.95) / 40
    assert prepared.expected().reach[0] == pytest.approx(reach)


def test_means_are_unbiased_and_need_no_histogram_of_all_cells() -> None:
    axes = [sf.integers(f"x{k}", 0, 999, protect=sf.Distance(1)) for k in range(5)]
    study = sf.Study("wide", axes)
    rng = np.random.default_rng(1)
    people = {f"x{k}": rng.integers(0, 1000, 300) for k in range(5)}
    data = central.Data(study, people)
    prepared = central.Means([axis.name for axis in axes]).prepare(central.Space(study), data.n)
    bits = SeededBits(4)
    counts = [data.marginal(axes) for axes in prepared.margins]
    found = np.array([prepared.run_margins(counts, bits).answers.values for _ in range(500)])
    truth = np.array([people[f"x{k}"].mean() for k in range(5)])
    z = (found.mean(axis=0) - truth) / (prepared.stderr / math.sqrt(500))
    assert np.abs(z).max() < 4.5
    assert np.abs(z + 10).max() > 4.5  # the twin


def test_functions_of_one_axis_share_its_distances_exactly() -> None:
    study = one_axis(sf.Distance("2/3"), ordered=True)
    functions = {"mean": "x", "square": ("x", lambda x: x * x), "list": ("x", [0, 0.5, 0, 0, 2])}
    space = central.Space(study, "1/2")
    prepared = central.Means(functions).prepare(space, 10)
    (part,) = prepared.parts
    spent = []
    for i, j in itertools.combinations(range(5), 2):
        told, limit = told_apart(part.measurements, i, j), space.exact(i, j)
        assert told is not None
        assert limit is not None
        assert told <= limit
        spent.append(told / limit)
    assert max(spent) > 1 - Fraction(1, 10**6)


def test_means_under_one_guarantee_for_records_share_it_between_axes() -> None:
    study = STUDIES["joint"]
    prepared = central.Means(["x", "y"]).prepare(central.Space(study, "1/2"), 10)
    worst = Fraction(0)
    for part in prepared.parts:
        cells = range(study.shape[part.axis])
        told = [told_apart(part.measurements, i, j) for i in cells for j in cells]
        worst += max(t for t in told if t is not None)
    assert Fraction(1, 2) * (1 - Fraction(1, 10**5)) < worst <= Fraction(1, 2)
    answers = prepared.run(np.array([1, 0, 0, 0, 0, 0, 9, 0]), SeededBits(1)).answers
    assert answers.values.shape == (2,)


def test_bent_means_have_less_error_for_few_people() -> None:
    study = one_axis(sf.Distance("1/20"), ordered=True)
    plain = central.Means(["x"]).prepare(central.Space(study), 3)
    bent = central.Means(["x"], bias="optimised").prepare(central.Space(study), 3)
    assert bent.stderr[0] < plain.stderr[0]


@pytest.mark.parametrize(
    ("functions", "words"),
    [
        ([], "got none"),
        (["agee"], "did you mean 'age'"),
        (["mode"], "no numbers to take the mean of"),
        ({"m": ("mode", [1, 2])}, "one finite number for each of the 3 cells"),
        ({"m": ("age", lambda age: "old")}, "one finite number for each of the 6 cells"),
        ({"m": 3}, "must be an axis, or an axis with a function"),
    ],
)
def test_means_that_make_no_sense_are_refused(functions: Any, words: str) -> None:
    with pytest.raises(sf.StudyError, match=words):
        central.Means(functions).prepare(central.Space(two_axes()), 10)


def test_no_answer_must_count_as_something_in_a_mean() -> None:
    space = central.Space(STUDIES["optional"])
    with pytest.raises(sf.StudyError, match="say what no answer counts as"):
        central.Means(["age"]).prepare(space, 10)
    answered = {"answered": ("age", lambda age: age is not None)}
    assert central.Means(answered).prepare(space, 10).stderr[0] > 0


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


# Planning


def test_a_plan_lists_every_way_with_the_best_first() -> None:
    study = STUDIES["distance"]
    plan = central.plan(study, "ranges of x", 1000, "1/5")
    assert plan.best.name == "Laplace, prefix"
    exact = [option.stderr for option in plan if option.how == "exact"]
    assert exact == sorted(exact)
    assert {"Laplace, identity", "MWEM"} <= {option.name for option in plan}
    prepared = plan.best.mechanism.prepare(central.Space(study, "1/5"), 1000)
    assert prepared.expected().total == plan.best.stderr
    text = str(plan)
    assert text.splitlines()[0].startswith("Study 'one': 15 questions about 1,000 people")
    assert "Laplace, the questions themselves, PSA" in text
    assert json.loads(json.dumps(plan.to_dict()))["options"][0]["name"] == "Laplace, prefix"
    assert plan["Laplace, haar"].largest > plan.best.largest
    with pytest.raises(sf.QuestionError, match="no option"):
        plan["Laplace, magic"]


def test_a_plan_says_why_something_cannot_be_done() -> None:
    study = STUDIES["distance"]
    plan = central.plan(study, ["x=0..2", "x=1..3"], 1000, {"x": "1/5"})
    assert len(plan) == len(list(plan))
    with pytest.raises(sf.StudyError, match="n must be a whole number"):
        central.plan(study, ["x=0..2"], 0, 1)
    none = central.plan(two_axes(), ["mode=bus, age=1"], 10, {"age": "1/2"})
    assert all("spends nothing" in option.problem for option in none)
    assert "spends nothing" in str(none)


def test_quick_intervals_of_coarse_noise_are_never_too_narrow() -> None:
    """Beside the exact quantile of sums in whole steps, whose noise is a few steps wide at most."""
    rng = np.random.default_rng(1)
    rates = tuple(Fraction(int(rate), 4) for rate in rng.integers(2, 16, 6))
    rows = rng.integers(0, 4, (300, 6)).astype(float)
    rows[:, 0] += 1
    measured = Measurements(sf.questions.Lattice.of(np.eye(6)), rates)
    found = measured.reaches(rows, 0.95)
    exact = np.array([sum_quantile(row, rates, 0.95) for row in rows])
    assert (found >= exact).all()
    # Half a step is not too much: without it some would be too narrow.
    assert (found - rows.max(axis=1) / 2 < exact).any()
    assert np.median(found / exact) < 1.25


def test_only_axes_that_some_question_is_about_are_looked_at() -> None:
    axes = [sf.categories(name, ["u", "v"], protect=sf.Uniform(1)) for name in "abc"]
    space = central.Space(sf.Study("three", axes))
    assert space.margin(["cells of a", "b=u"]).axes == (0, 1)
    assert space.margin(["c=u", "cells of a"]).axes == (0, 2)
    assert space.margin(["b=u", "total", "b=v"]).axes == (1,)
    whole = space.margin(["cells of a", "identity"])
    assert whole.axes == (0, 1, 2)
    assert whole.workload.questions == 2 + 8


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


class TestWhatIsMeasured:
    def test_one_question_is_measured_itself_where_nothing_is_better(self) -> None:
        study = sf.Study("ages", [sf.integers("age", 18, 80, protect=sf.Distance("1/2"))])
        prepared = sf.central.Laplace("age=18..30").prepare(sf.central.Space(study, "1/4"), 100)
        assert prepared.details()["strategy"] == "the questions themselves"
        assert prepared.details()["measurements"] == 1

    def test_many_questions_are_read_from_few_rows_beyond_the_first_limit_too(self) -> None:
        study = sf.Study("ages", [sf.integers("age", 0, 129, protect=sf.Distance("1/2"))])
        prepared = sf.central.Laplace("ranges of age").prepare(sf.central.Space(study), 100)
        assert prepared.details()["strategy"] == "prefix"
        few = sf.central.Laplace("cells of age").prepare(sf.central.Space(study), 100)
        assert few.details()["strategy"] == "the questions themselves"
