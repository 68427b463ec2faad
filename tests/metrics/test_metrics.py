from __future__ import annotations

import itertools
import math
import tomllib
from datetime import date, datetime, timedelta
from fractions import Fraction

import numpy as np
import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse.csgraph import shortest_path

import sfumato as sf
from sfumato.domains.calendar import Dates, Times
from sfumato.domains.categories import Categories
from sfumato.domains.integers import Integers
from sfumato.domains.reals import Reals
from sfumato.errors import StudyError, TooLargeError
from sfumato.metrics.base import Metric, Sum
from sfumato.metrics.cells import CellMetric, TableMetric
from sfumato.metrics.closure import closure
from sfumato.metrics.distance import Distance, LineMetric
from sfumato.metrics.graphs import Matrix, PolicyGraph
from sfumato.metrics.labelled import BlockMetric, Blocks, HighLow, HighLowMetric, SensitiveSet
from sfumato.metrics.lp import Lp
from sfumato.metrics.points import Points, Within
from sfumato.metrics.registry import metric_from_dict
from sfumato.metrics.uniform import Uniform, UniformMetric

ABC = Categories(["a", "b", "c"])
LETTERS = "abcdefgh"
GRID = 1 << 40


def letters(size: int) -> Categories:
    return Categories(list(LETTERS[:size]))


def entries(metric: CellMetric) -> list[list[Fraction | None]]:
    cells = range(metric.size)
    return [[metric.exact(i, j) for j in cells] for i in cells]


def is_closed(metric: CellMetric) -> bool:
    for i, j, k in itertools.product(range(metric.size), repeat=3):
        direct, first, second = metric.exact(i, j), metric.exact(i, k), metric.exact(k, j)
        if first is None or second is None:
            continue
        if direct is None or direct > first + second:
            return False
    return True


def brute_force(values: np.ndarray) -> np.ndarray:
    # Zero is "no edge" to scipy, so zeros off the diagonal must not occur here.
    graph = np.where(np.isinf(values), 0, values)
    return shortest_path(graph, method="D", directed=True)


@st.composite
def whole_matrices(draw: st.DrawFn) -> np.ndarray:
    size = draw(st.integers(2, 7))
    low, high = draw(st.sampled_from([(1, 50), (2, 5), (2, 4)]))
    numbers = st.one_of(st.integers(low, high).map(float), st.just(math.inf))
    values = np.array(draw(st.lists(numbers, min_size=size**2, max_size=size**2)))
    values = values.reshape(size, size)
    np.fill_diagonal(values, 0)
    return values


@st.composite
def any_matrices(draw: st.DrawFn) -> np.ndarray:
    size = draw(st.integers(1, 7))
    numbers = st.one_of(st.floats(0, 1e6), st.just(math.inf))
    return draw(arrays(np.float64, (size, size), elements=numbers))


positive_fractions = st.fractions(Fraction(1, 50), 100, max_denominator=60)


# ---- closure -----------------------------------------------------------------------------------


@given(any_matrices())
def test_closure_is_idempotent_never_raises_and_keeps_the_triangle_inequality(values):
    closed, _ = closure(values)
    again, changed = closure(closed)
    assert np.array_equal(again, closed)
    assert not changed
    assert (closed <= values).all()
    finite = [[None if math.isinf(e) else Fraction(float(e)) for e in row] for row in closed]
    for i, j, k in itertools.product(range(len(values)), repeat=3):
        if finite[i][k] is not None and finite[k][j] is not None:
            assert finite[i][j] is not None
            assert finite[i][j] <= finite[i][k] + finite[k][j]


@pytest.mark.slow
@given(whole_matrices())
def test_closure_agrees_with_brute_force_and_says_whether_it_changed(values):
    closed, changed = closure(values)
    assert np.array_equal(closed, brute_force(values))
    assert changed == (not np.array_equal(closed, values))


@pytest.mark.parametrize("size", [70, 150])
def test_closure_over_several_bands_of_pivots_agrees_with_brute_force(size):
    rng = np.random.default_rng(size)
    values = np.where(rng.random((size, size)) < 0.05, rng.integers(1, 99, (size, size)), np.inf)
    np.fill_diagonal(values, 0)
    expected = brute_force(values)
    assert np.array_equal(closure(values)[0], expected)
    table = TableMetric(np.where(np.isinf(values), -1, values).astype(np.int64), 1, size)
    assert np.array_equal(table.matrix(), expected)
    assert not np.array_equal(values, expected)


def test_closure_of_points_on_a_line_ends_although_sums_are_rounded():
    places = np.cumsum(np.random.default_rng(5).random(90))
    values = np.abs(np.subtract.outer(places, places))
    closed, changed = closure(values)
    assert not changed
    assert np.array_equal(closure(closed)[0], closed)
    assert np.abs(closed - values).max() < 1e-12


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([[0, 1], [-2, 0]], r"-2\.0 at row 2, column 1"),
        ([[0, math.nan], [1, 0]], r"nan at row 1, column 2"),
        ([[0, 1, 2], [1, 0, 2]], r"square.*\(2, 3\)"),
        ([[0, 1], [1]], "uneven"),
        ([], "square"),
        (3.0, "square"),
    ],
)
def test_closure_refuses_what_is_no_matrix_of_bounds(values, words):
    with pytest.raises(StudyError, match=words):
        closure(values)


# ---- cells -------------------------------------------------------------------------------------


@pytest.mark.slow
@given(whole_matrices(), st.integers(1, 30))
def test_a_table_is_the_exact_closure_of_its_entries(values, denominator):
    numerators = np.where(np.isinf(values), -1, values).astype(np.int64)
    metric = TableMetric(numerators, denominator, len(values))
    expected = brute_force(values)
    for i, j in itertools.product(range(metric.size), repeat=2):
        path = expected[i, j]
        assert metric.exact(i, j) == (
            None if math.isinf(path) else Fraction(int(path), denominator)
        )
        assert metric.between(i, j) == metric.matrix()[i, j]
    assert is_closed(metric)
    fell = np.count_nonzero(expected < values)
    pairs = len(values) * (len(values) - 1)
    note = f"closed: {fell} of {pairs} pairs are nearer by way of another cell"
    assert metric.notes == ((note,) if fell else ())


@pytest.mark.parametrize(("far", "closed"), [(3, 3), (4, 4), (5, 4)])
def test_a_detour_is_taken_only_where_it_is_shorter(far, closed):
    metric = TableMetric(np.array([[0, 2, far], [2, 0, 2], [far, 2, 0]]), 1, 3)
    assert metric.exact(0, 2) == metric.exact(2, 0) == closed


@given(whole_matrices(), st.integers(60, 70))
def test_integers_beyond_64_bits_are_closed_just_as_exactly(values, bits):
    big = np.array(
        [[-1 if math.isinf(e) else int(e) << bits for e in row] for row in values], dtype=object
    )
    small = np.where(np.isinf(values), -1, values).astype(np.int64)
    assert entries(TableMetric(big, 1 << bits, len(values))) == entries(
        TableMetric(small, 1, len(values))
    )


def test_many_cells_with_integers_beyond_64_bits_are_refused():
    numerators = np.full((600, 600), 1 << 70, dtype=object)
    np.fill_diagonal(numerators, 0)
    with pytest.raises(TooLargeError, match="600 cells"):
        TableMetric(numerators, 1, 600)


@pytest.mark.parametrize(
    ("numerators", "denominator", "size"),
    [
        ([[0, -2], [1, 0]], 1, 2),
        ([[1, 1], [1, 0]], 1, 2),
        ([[0, 1], [0, 0]], 1, 2),
        ([[0, 1], [1, 0]], 0, 2),
        ([[0, 1], [1, 0]], 1, 3),
        ([[0.0, 0.5], [0.5, 0.0]], 1, 2),
    ],
)
def test_a_table_refuses_entries_that_are_no_metric(numerators, denominator, size):
    with pytest.raises(StudyError):
        TableMetric(np.array(numerators), denominator, size)


def test_a_table_cannot_be_written_to_and_compares_by_content():
    first, second = (SensitiveSet(1, ["a"]).bind(ABC, optional=False) for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)
    assert first != SensitiveSet(2, ["a"]).bind(ABC, optional=False)
    with pytest.raises(ValueError, match="read-only"):
        first.numerators[0, 1] = 0


@pytest.mark.slow
@given(st.lists(positive_fractions, min_size=1, max_size=6))
def test_a_line_adds_its_steps(steps):
    line = LineMetric(tuple(steps))
    assert line.steps == tuple(steps)
    assert line.equal_step == (steps[0] if len(set(steps)) == 1 else None)
    for i, j in itertools.product(range(line.size), repeat=2):
        assert line.exact(i, j) == sum(steps[min(i, j) : max(i, j)])
        assert line.matrix()[i, j] == line.between(i, j) == float(line.exact(i, j))


def test_a_long_line_of_equal_steps_is_held_as_one_number():
    line = Distance(0.2).bind(Integers(0, 2**24 - 1), optional=False)
    assert isinstance(line, LineMetric)
    assert line.exact(0, 2**24 - 1) == Fraction(2**24 - 1, 5)
    assert line == LineMetric.equal(Fraction(1, 5), 2**24)
    assert LineMetric.equal(Fraction(2), 3) == LineMetric((Fraction(2), Fraction(2)))


@pytest.mark.parametrize("metric", [LineMetric.equal(Fraction(1), 5000), UniformMetric(1, 5000)])
def test_a_matrix_beyond_4096_cells_is_refused(metric):
    with pytest.raises(TooLargeError, match="5000"):
        metric.matrix()


@pytest.mark.parametrize(
    "metric",
    [
        LineMetric.equal(Fraction(1), 3),
        UniformMetric(Fraction(1), 3),
        TableMetric(np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0]]), 1, 3),
    ],
)
@pytest.mark.parametrize("cell", [-1, 3])
def test_cells_that_are_not_there_are_refused(metric, cell):
    assert isinstance(metric, CellMetric)
    with pytest.raises(StudyError, match=r"0\.\.2"):
        metric.exact(0, cell)


@pytest.mark.parametrize("steps", [(), (Fraction(0),), (Fraction(1), Fraction(-1))])
def test_a_line_needs_positive_steps(steps):
    with pytest.raises(StudyError, match="positive"):
        LineMetric(steps)
    with pytest.raises(StudyError, match="line"):
        LineMetric.equal(Fraction(0), 4)


# ---- distance ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("domain", "per", "steps"),
    [
        (Integers(-3, 1), 2, [Fraction(1, 10)] * 4),
        (Reals.equal_bins(0, 1, 4), 1, [Fraction(1, 20)] * 3),
        (Reals.from_edges([0, 10, 100, 1000]), 10, [1, 10 - Fraction(1, 10)]),
        (Dates.every("2024-01-01", "2024-01-21", "1 week"), "1 day", [Fraction(7, 5)] * 2),
        (Dates.every("2024-01-01", "2024-01-03"), timedelta(days=2), [Fraction(1, 10)] * 2),
        (Times.every("06:00", "08:00", "30 minutes"), "1 hour", [Fraction(1, 10)] * 3),
    ],
)
def test_distance_binds_to_a_line_in_the_units_of_the_axis(domain, per, steps):
    line = Distance(0.2, per).bind(domain, optional=False)
    assert isinstance(line, LineMetric)
    assert list(line.steps) == steps


def test_no_answer_lies_at_its_distance_and_shortens_far_pairs():
    metric = Distance(0.5, per=2, no_answer=3).bind(Integers(0, 9), optional=True)
    for i, j in itertools.product(range(10), repeat=2):
        assert metric.exact(i, j) == min(Fraction(abs(i - j), 4), Fraction(6, 4))
        assert metric.exact(10, i) == metric.exact(i, 10) == Fraction(3, 4)
    assert metric.notes == ("closed: 12 of 110 pairs are nearer by way of another cell",)


def test_no_answer_may_be_a_duration():
    days = Dates.every("2024-01-01", "2024-01-10")
    metric = Distance(1, per="1 week", no_answer="3 days").bind(days, optional=True)
    assert metric.exact(0, 10) == Fraction(3, 7)


def test_distance_on_an_optional_axis_needs_no_answer():
    with pytest.raises(StudyError, match="no_answer=None"):
        Distance(1).bind(Integers(0, 3), optional=True)
    with pytest.raises(StudyError, match="no_answer=None"):
        Distance(1).between(None, 3)


def test_distance_on_categories_is_refused_with_what_to_use():
    with pytest.raises(StudyError, match=r"categories have none: use Uniform.*Points"):
        Distance(1).bind(ABC, optional=False)


def test_distance_in_days_on_a_number_axis_is_refused():
    with pytest.raises(StudyError):
        Distance(1, per="7 days").bind(Integers(0, 9), optional=False)


@pytest.mark.parametrize(
    ("metric", "x", "y", "expected"),
    [
        (Distance(0.1), 0.1, 0.3, 0.02),
        (Distance(0.1), np.int64(3), 5, 0.2),
        (Distance(1, per="1 week"), date(2024, 1, 1), date(2024, 1, 15), 2.0),
        (Distance(1, per=7), "2024-01-01", "2024-01-15", 2.0),
        (Distance(1, per=7), np.datetime64("2024-01-01"), date(2024, 1, 15), 2.0),
        (Distance(1, per="1 hour"), datetime(2024, 1, 1, 6), "2024-01-01T07:30", 1.5),
        (Distance(1, per="1 hour"), "06:00", "07:30", 1.5),
        (Distance(1, per=60), np.timedelta64(2, "m"), timedelta(0), 2.0),
        (Distance(1, per="1 day", no_answer="12 hours"), None, date(2024, 1, 1), 0.5),
        (Distance(1, per=2, no_answer=3), 4, "no answer", 1.5),
        (Distance(1), None, None, 0.0),
    ],
)
def test_distance_between_values_as_people_write_them(metric, x, y, expected):
    assert metric.between(x, y) == metric.between(y, x) == expected


@pytest.mark.parametrize(
    ("metric", "x", "y"),
    [
        (Distance(1), 3, date(2024, 1, 1)),
        (Distance(1, per="1 day"), 3, 4),
        (Distance(1, per="1 day", no_answer=3), None, date(2024, 1, 1)),
        (Distance(1), "soon", 4),
    ],
)
def test_distance_between_values_of_unlike_kinds_is_refused(metric, x, y):
    with pytest.raises(StudyError):
        metric.between(x, y)


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("7 days", "7 days"),
        ("7d", "7 days"),
        ("week", "1 week"),
        ("1/3 Hours", "1/3 hours"),
        (timedelta(days=2), "2 days"),
        (timedelta(seconds=1.5), "1.5 seconds"),
        (np.timedelta64(90, "m"), "5400 seconds"),
        ("0.5", Fraction(1, 2)),
        ("1e3", Fraction(1000)),
    ],
)
def test_a_quantity_is_kept_in_one_form(written, kept):
    assert Distance(1, per=written).per == kept


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, "inf", "3 moons", "0 days", "x y z"])
@pytest.mark.parametrize("what", ["per", "no_answer"])
def test_a_quantity_must_be_positive_and_known(bad, what):
    with pytest.raises(StudyError, match=what):
        Distance(1, **{what: bad})


# ---- epsilon -----------------------------------------------------------------------------------

WITH_EPSILON = [
    Distance,
    Uniform,
    lambda epsilon: Blocks(epsilon, [["a", "b"]]),
    lambda epsilon: HighLow(epsilon, ["a"]),
    lambda epsilon: SensitiveSet(epsilon, ["a"]),
    lambda epsilon: PolicyGraph(epsilon, [("a", "b")]),
    lambda epsilon: Points(epsilon, at={"a": (0, 0), "b": (1, 0)}),
    lambda epsilon: Lp(epsilon, 2),
    lambda epsilon: Within(epsilon, 3),
]


@pytest.mark.parametrize("make", WITH_EPSILON)
@pytest.mark.parametrize("epsilon", [0, -1.0, math.nan, math.inf, -math.inf, True, "much"])
def test_epsilon_must_be_positive_and_finite(make, epsilon):
    with pytest.raises(StudyError, match="epsilon must be positive and finite, got epsilon="):
        make(epsilon)


@pytest.mark.parametrize("make", [Distance, Uniform])
def test_epsilon_has_no_default(make):
    with pytest.raises(TypeError, match="epsilon"):
        make()


@pytest.mark.parametrize("make", WITH_EPSILON)
def test_epsilon_means_its_shortest_decimal(make):
    assert make(0.2).epsilon == Fraction(1, 5)
    assert make("1/3").epsilon == Fraction(1, 3)


# ---- labels ------------------------------------------------------------------------------------


def test_uniform_is_epsilon_everywhere_with_no_answer_like_any_other():
    metric = Uniform(0.3).bind(ABC, optional=True)
    assert metric == UniformMetric(Fraction(3, 10), 4)
    assert metric.exact(3, 0) == Fraction(3, 10)
    assert metric.exact(2, 2) == 0
    assert np.array_equal(metric.matrix(), 0.3 * (1 - np.eye(4)))


def test_blocks_hide_within_and_not_between():
    statement = Blocks(0.5, [["a", "c"], ["b", None]])
    metric = statement.bind(ABC, optional=True)
    half, far = Fraction(1, 2), None
    assert entries(metric) == [
        [0, far, half, far],
        [far, 0, far, half],
        [half, far, 0, far],
        [far, half, far, 0],
    ]
    assert math.isinf(metric.matrix()[0, 1])
    assert statement.between("a", "c") == 0.5
    assert statement.between("b", None) == 0.5
    assert statement.between("a", "b") == math.inf
    assert metric.notes == ()


def test_blocks_say_which_cells_stay_unprotected():
    metric = Blocks(1, [["a", "b"], ["c"]]).bind(ABC, optional=False)
    assert metric.notes == ("unprotected: 1 of 3 cells are alone in a block",)


def test_blocks_on_integers_may_list_integers():
    metric = Blocks(1, [[0, 1], [2, 3]]).bind(Integers(0, 3), optional=False)
    assert metric.exact(2, 3) == 1
    assert metric.exact(1, 2) is None


@pytest.mark.parametrize(
    ("blocks", "words"),
    [
        ([["a", "b"], ["b", "c"]], "'b' in blocks 1 and 2"),
        ([["a", "b"], []], "empty"),
        ([], "empty"),
        (["abc"], r"must be a list, got 'abc'"),
        ("abc", r"must be a list, got 'abc'"),
    ],
)
def test_blocks_that_overlap_or_are_empty_are_refused(blocks, words):
    with pytest.raises(StudyError, match=words):
        Blocks(1, blocks)


def test_high_low_protects_sensitive_values_only_and_in_one_direction():
    statement = HighLow(1, sensitive=["b"])
    metric = statement.bind(ABC, optional=True)
    assert metric.exact(1, 0) == metric.exact(1, 3) == 1
    assert metric.exact(0, 1) is None
    assert metric.exact(3, 1) is None
    assert [metric.exact(i, i) for i in range(4)] == [0] * 4
    assert statement.between("b", None) == 1.0
    assert statement.between(None, "b") == math.inf
    assert is_closed(metric)


@pytest.mark.slow
@given(st.integers(2, 6), st.data())
def test_a_sensitive_set_is_a_metric(size, data):
    sensitive = data.draw(st.sets(st.sampled_from(LETTERS[:size]), min_size=1))
    statement = SensitiveSet("1/3", sorted(sensitive))
    metric = statement.bind(letters(size), optional=False)
    for i, j in itertools.product(range(size), repeat=2):
        either = LETTERS[i] in sensitive or LETTERS[j] in sensitive
        expected = 0 if i == j else Fraction(1 if either else 2, 3)
        assert metric.exact(i, j) == metric.exact(j, i) == expected
        assert statement.between(LETTERS[i], LETTERS[j]) == float(expected)
    assert is_closed(metric)
    assert metric.notes == ()


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (Blocks(1, [["a", "b", "cc"]]), "'cc': did you mean 'c'"),
        (HighLow(1, ["bb"]), "'bb': did you mean 'b'"),
        (SensitiveSet(1, ["bb"]), "'bb': did you mean 'b'"),
        (PolicyGraph(1, [("a", "bb")]), "'bb': did you mean 'b'"),
        (Points(1, at={"a": (0,), "b": (1,), "cc": (2,)}), "'cc': did you mean 'c'"),
        (Matrix([[0, 1], [1, 0]], labels=["a", "bb"]), "'bb': did you mean 'b'"),
        (HighLow(1, [None]), "'no answer'.*optional=True"),
        (Blocks(1, [["a", "b"]]), "mention every cell, got none of 'c': put each into a block"),
        (Points(1, at={"a": (0,), "b": (1,)}), "got none of 'c': give each a place"),
        (Within(1, 1, at={"a": (0,), "b": (1,)}), "got none of 'c': give each a place"),
        (Within(1, 1), "give every label its place"),
        (Matrix([[0, 1], [1, 0]], labels=["a", "b"]), "got none of 'c': add a row"),
        (Matrix([[0, 1], [1, 0]]), "3 cells got 2 rows"),
    ],
)
def test_labels_and_cells_that_do_not_match_are_named(statement, words):
    with pytest.raises(StudyError, match=words):
        statement.bind(ABC, optional=False)


@pytest.mark.parametrize(
    "statement",
    [
        Blocks(1, [["a", "b", "c"]]),
        PolicyGraph(1, [("a", "b"), ("b", "c")]),
        Points(1, at={"a": (0,), "b": (1,), "c": (2,)}),
        Within(1, 1, at={"a": (0,), "b": (1,), "c": (2,)}),
        Matrix([[0, 1, 1], [1, 0, 1], [1, 1, 0]], labels=["a", "b", "c"]),
        Matrix([[0, 1, 1], [1, 0, 1], [1, 1, 0]]),
    ],
)
def test_an_optional_axis_must_be_told_where_no_answer_lies(statement):
    statement.bind(ABC, optional=False)
    with pytest.raises(StudyError, match="no answer"):
        statement.bind(ABC, optional=True)


@pytest.mark.parametrize(
    "statement",
    [
        Blocks(1, [["a", "b"]]),
        PolicyGraph(1, [("a", "b")]),
        Points(1, at={"a": (0,), "b": (1,)}),
        Within(1, 2, at={"a": (0,), "b": (1,)}),
        Matrix([[0, 1], [1, 0]], labels=["a", "b"]),
    ],
)
def test_between_refuses_labels_that_the_statement_does_not_name(statement):
    with pytest.raises(StudyError, match=r"got 'z'.*vailable are 'a', 'b'"):
        statement.between("a", "z")


def test_tables_of_more_than_2048_cells_are_refused():
    with pytest.raises(TooLargeError, match="2048 cells, and the axis has 2049"):
        SensitiveSet(1, [0]).bind(Integers(0, 2048), optional=False)
    with pytest.raises(TooLargeError, match="2049"):
        Distance(1, no_answer=1).bind(Integers(0, 2047), optional=True).integers()
    with pytest.raises(TooLargeError, match="3000"):
        (Distance(1) + Uniform(1)).bind(Integers(0, 2999), optional=False)


def test_sensitive_labels_must_be_a_list_without_repeats():
    for make in (HighLow, SensitiveSet):
        with pytest.raises(StudyError, match="'a' twice"):
            make(1, ["a", "a"])
        with pytest.raises(StudyError, match="list"):
            make(1, "a")
    with pytest.raises(StudyError, match="empty"):
        SensitiveSet(1, [])


def test_nothing_may_be_sensitive_and_the_note_says_so():
    statement = HighLow(1, [])
    assert metric_from_dict(statement.to_dict()) == statement
    metric = statement.bind(ABC, optional=False)
    assert metric.exact(0, 1) is None
    assert metric.notes == ("unprotected: no value is named as sensitive",)
    assert statement.describe() == "no value is sensitive: nothing is hidden"


@pytest.mark.parametrize(
    "statement", [Blocks(1, [range(2_000), range(2_000, 5_000)]), HighLow("1/3", range(7, 5_000))]
)
def test_blocks_and_sensitive_values_need_no_table(statement):
    metric = statement.bind(Integers(0, 4_999), optional=False)
    for i, j in [(0, 1_999), (1_999, 2_000), (2_000, 0), (0, 4_999), (4_999, 2_000), (7, 7)]:
        assert metric.between(i, j) == statement.between(i, j)
    with pytest.raises(TooLargeError, match="5000 by 5000"):
        metric.matrix()
    with pytest.raises(StudyError, match=r"0\.\.4999"):
        metric.exact(0, 5_000)


def test_metrics_by_context_check_what_they_are_given():
    for make, good, bad in (
        (BlockMetric, [0, 1], [0.5, 1.0]),
        (HighLowMetric, [True, False], [0, 1]),
    ):
        metric = make(Fraction(1), np.array(good))
        assert metric == make(Fraction(1), np.array(good))
        assert hash(metric) == hash(make(Fraction(1), np.array(good)))
        assert metric != make(Fraction(2), np.array(good))
        assert metric != "a metric"
        for wrong in (bad, good[:1], [good, good]):
            with pytest.raises(StudyError, match="2 cells or more"):
                make(Fraction(1), np.array(wrong))
        with pytest.raises(StudyError, match="epsilon must be positive"):
            make(Fraction(0), np.array(good))


# ---- thresholds --------------------------------------------------------------------------------


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=2, max_size=8, unique=True
    ),
    st.integers(1, 12),
    st.fractions(Fraction(1, 8), 3, max_denominator=9),
    st.sampled_from(["steps", "smooth"]),
)
def test_a_threshold_is_closed_and_its_smooth_form_is_a_metric(places, reach, epsilon, beyond):
    size = len(places)
    squares = [[(a - c) ** 2 + (b - d) ** 2 for c, d in places] for a, b in places]
    near = np.array([[square <= reach**2 for square in row] for row in squares])
    if near.sum() == size:
        with pytest.raises(StudyError, match="reach must join some two cells"):
            Within(epsilon, reach, at=zip(LETTERS, places, strict=False)).bind(
                letters(size), optional=False
            )
        return
    at = dict(zip(LETTERS, places, strict=False))
    statement = Within(epsilon, reach, beyond=beyond, at=at)
    metric = statement.bind(letters(size), optional=False)
    stated = np.where(near, 1.0, np.inf)
    np.fill_diagonal(stated, 0)
    steps = brute_force(stated)
    for i, j in itertools.product(range(size), repeat=2):
        found = metric.exact(i, j)
        if i == j:
            assert found == 0
        elif beyond == "steps":
            assert found == (None if math.isinf(steps[i, j]) else int(steps[i, j]) * epsilon)
        else:
            # Never weaker than ε·max(1, distance/reach), and nearer to it than the grid.
            exact = max(Fraction(1), Fraction(squares[i][j]) / reach**2)
            assert found is not None
            assert found**2 <= epsilon**2 * exact
            assert (found + size * Fraction(1, 1 << 39)) ** 2 >= epsilon**2 * exact
        assert statement.between(LETTERS[i], LETTERS[j]) == metric.between(i, j)


def test_a_threshold_on_an_axis_counts_its_own_units():
    ages = Within(0.5, 10).bind(Integers(0, 40), optional=False)
    assert [ages.exact(3, cell) for cell in (3, 4, 13, 14, 23, 24)] == [
        Fraction(number, 2) for number in (0, 1, 1, 2, 2, 3)
    ]
    # Cells three apart step over at most one of them, though four days would be allowed.
    protect = Within(1, "4 days")
    coarse = sf.dates("d", "2024-01-01", "2024-01-30", step="3 days", protect=protect).metric()
    assert coarse.exact(0, 4) == 4
    with pytest.raises(StudyError, match="says nothing about 'no answer'"):
        Within(1, 2).bind(Integers(0, 9), optional=True)
    with pytest.raises(StudyError, match="beyond must be 'steps' or 'smooth', got beyond='far'"):
        Within(1, 2, beyond="far")
    with pytest.raises(StudyError, match="reach must be a number where labels have places"):
        Within(1, "7 days", at={"a": 0, "b": 1}).between("a", "b")


# ---- policy graphs -----------------------------------------------------------------------------


@pytest.mark.slow
@given(
    st.integers(2, 7),
    st.data(),
    st.fractions(Fraction(1, 8), 3, max_denominator=9),
)
def test_a_policy_graph_is_its_shortest_paths(size, data, epsilon):
    labels = LETTERS[:size]
    pairs = data.draw(
        st.lists(
            st.tuples(st.sampled_from(labels), st.sampled_from(labels), st.integers(1, 20)).filter(
                lambda edge: edge[0] != edge[1]
            ),
            min_size=1,
            max_size=12,
        )
    )
    weights = np.full((size, size), np.inf)
    np.fill_diagonal(weights, 0)
    for a, b, weight in pairs:
        i, j = labels.index(a), labels.index(b)
        weights[i, j] = weights[j, i] = min(weights[i, j], weight)
    expected = brute_force(weights)
    statement = PolicyGraph(epsilon, pairs)
    metric = statement.bind(letters(size), optional=False)
    mentioned = {label for edge in pairs for label in edge[:2]}
    for i, j in itertools.product(range(size), repeat=2):
        path = expected[i, j]
        exact = None if math.isinf(path) else int(path) * epsilon
        assert metric.exact(i, j) == exact
        if {labels[i], labels[j]} <= mentioned:
            stated = statement.between(labels[i], labels[j])
            assert stated == (math.inf if exact is None else float(exact))
    alone = size - len(mentioned)
    assert metric.notes == (
        (f"unprotected: {alone} of {size} cells are in no edge",) if alone else ()
    )


def test_edge_weights_are_exact_and_1_when_left_out():
    metric = PolicyGraph(0.1, [("a", "b"), ("b", "c", "1/3")]).bind(ABC, optional=False)
    assert metric.exact(0, 2) == Fraction(1, 10) * Fraction(4, 3)


@pytest.mark.parametrize(
    ("edges", "words"),
    [
        ([("a", "a")], "'a' twice"),
        ([("a",)], "an edge must be"),
        (["ab"], "an edge must be"),
        ([("a", "b", 0)], "weight of edge 'a'-'b' must be positive"),
        ([("a", "b", math.inf)], "weight of edge 'a'-'b' must be positive"),
        ([], "empty"),
    ],
)
def test_invalid_edges_are_refused(edges, words):
    with pytest.raises(StudyError, match=words):
        PolicyGraph(1, edges)


# ---- points ------------------------------------------------------------------------------------

coordinates = st.tuples(st.integers(-50, 50), st.integers(-50, 50))


@given(st.lists(coordinates, min_size=2, max_size=6, unique=True), positive_fractions)
def test_straight_distances_are_never_above_the_true_ones(places, epsilon):
    statement = Points(epsilon, at=dict(zip(LETTERS, places, strict=False)))
    metric = statement.bind(letters(len(places)), optional=False)
    # Closing may take a detour whose roots were each rounded: a unit of the grid for each.
    slack = Fraction(len(places), GRID)
    for (i, a), (j, b) in itertools.combinations(enumerate(places), 2):
        square = epsilon**2 * ((a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2)
        value = metric.exact(i, j)
        assert value is not None
        assert value == metric.exact(j, i)
        assert value**2 <= square < (value + slack) ** 2
    assert is_closed(metric)
    assert not any(note.startswith("closed") for note in metric.notes)


def test_rational_straight_distances_stay_exact_and_others_are_noted():
    exact = Points("1/3", per=5, at={"a": (0, 0), "b": (3, 4), "c": (6, 8)})
    assert exact.bind(ABC, optional=False).exact(0, 2) == Fraction(2, 3)
    assert exact.bind(ABC, optional=False).notes == ()
    rounded = Points(1, at={"a": (0, 0), "b": (1, 1), "c": (5, 0)}).bind(ABC, optional=False)
    assert rounded.notes == ("rounded down to multiples of 2^-40: never weaker than stated",)
    assert rounded.exact(0, 1) == Fraction(math.isqrt(2 << 80), GRID)


def test_detours_that_only_rounding_opens_are_closed_without_a_note():
    statement = Points(1, at={letter: (k, k) for k, letter in enumerate(LETTERS)})
    metric = statement.bind(letters(8), optional=False)
    assert metric.exact(0, 7) < Fraction(math.isqrt(98 << 80), GRID)
    assert is_closed(metric)
    assert metric.notes == ("rounded down to multiples of 2^-40: never weaker than stated",)


@pytest.mark.parametrize(
    ("norm", "expected"),
    [(1, 7.0), (2, 5.0), (math.inf, 4.0), ("inf", 4.0), (3, 91 ** (1 / 3)), (1.5, 0.0)],
)
def test_the_norm_of_points_can_be_chosen(norm, expected):
    statement = Points(1, at={"a": (0, 0), "b": (3, 4)}, norm=norm)
    metric = statement.bind(letters(2), optional=False)
    expected = expected or (3**1.5 + 4**1.5) ** (2 / 3)
    assert statement.between("a", "b") == metric.between(0, 1)
    assert expected - 2**-39 < metric.between(0, 1) <= expected * (1 + 2**-52)


@pytest.mark.slow
@given(
    coordinates.filter(any),
    st.sampled_from(["3", "4", "7", "3/2", "5/3"]),
    positive_fractions,
)
def test_other_norms_are_never_above_the_true_ones(place, norm, epsilon):
    metric = Points(epsilon, at={"a": (0, 0), "b": place}, norm=norm).bind(
        letters(2), optional=False
    )
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(60):
        p = mpmath.mpf(Fraction(norm).numerator) / Fraction(norm).denominator
        rate = mpmath.mpf(epsilon.numerator) / epsilon.denominator
        true = rate * (sum(mpmath.mpf(abs(c)) ** p for c in place)) ** (1 / p)
        value = metric.exact(0, 1)
        scaled = mpmath.mpf(value.numerator) / value.denominator
        assert true - mpmath.mpf(2) ** -40 * 1.001 < scaled <= true + mpmath.mpf(10) ** -50


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"at": {"a": (0, 0), "b": (1,)}}, "2 for 'a' and 1 for 'b'"),
        ({"at": {"a": (0, math.nan), "b": (1, 1)}}, "a coordinate of 'a' must be a finite"),
        ({"at": {"a": (), "b": ()}}, "none for 'a'"),
        ({"at": {}}, "empty"),
        ({"at": {"1": (0,), 1: (2,)}}, "'1' twice"),
        ({"at": {"a": (0,), "b": (1,)}, "norm": 0.5}, "at least 1"),
        ({"at": {"a": (0,), "b": (1,)}, "norm": math.nan}, "norm must be a finite"),
        ({"at": {"a": (0,), "b": (1,)}, "norm": math.pi}, "numerator of at most 1000"),
        ({"at": {"a": (0,), "b": (1,)}, "per": 0}, "per must be positive"),
    ],
)
def test_points_that_have_no_place_are_refused(options, words):
    with pytest.raises(StudyError, match=words):
        Points(1, **options)


# ---- matrices ----------------------------------------------------------------------------------


@pytest.mark.slow
@given(whole_matrices(), st.randoms(use_true_random=False))
def test_a_matrix_is_closed_and_follows_its_labels(values, random):
    size = len(values)
    order = list(range(size))
    random.shuffle(order)
    shuffled = values[np.ix_(order, order)]
    statement = Matrix(shuffled, labels=[LETTERS[cell] for cell in order])
    metric = statement.bind(letters(size), optional=False)
    assert np.array_equal(metric.matrix(), brute_force(values))
    assert metric == Matrix(values).bind(letters(size), optional=False)
    assert statement.between("a", "b") == metric.between(0, 1)


def test_entries_of_a_matrix_are_exact():
    metric = Matrix([[0, 0.1, "1/3"], [math.inf, 0, 0.2], [5, math.inf, 0]]).bind(
        ABC, optional=False
    )
    assert metric.exact(0, 1) == Fraction(1, 10)
    assert metric.exact(0, 2) == Fraction(3, 10)  # by way of b, below 1/3
    assert metric.exact(1, 0) == Fraction(52, 10)
    assert metric.notes == ("closed: 3 of 6 pairs are nearer by way of another cell",)


@pytest.mark.slow
@given(st.data())
def test_unlike_fractions_are_rounded_down_to_the_grid(data):
    third = st.fractions(Fraction(3), Fraction(6), max_denominator=10**9)
    values = [[Fraction(0) if i == j else data.draw(third) for j in range(4)] for i in range(4)]
    values[0][1] = Fraction(4 * 10**15 + 1, 10**15)  # a denominator beyond the grid
    metric = Matrix(values).bind(letters(4), optional=False)
    assert metric.notes == ("rounded down to multiples of 2^-40: never weaker than stated",)
    for i, j in itertools.permutations(range(4), 2):
        assert metric.exact(i, j) == Fraction(math.floor(values[i][j] * GRID), GRID)


def test_very_many_unlike_fractions_are_rounded_down_to_the_grid():
    primes = [10**12 + 39, 10**12 + 61, 10**12 + 63]
    a, b, c = (1 + Fraction(1, p) for p in primes)
    metric = Matrix([[0, a, b], [a, 0, c], [b, c, 0]]).bind(ABC, optional=False)
    assert entries(metric) == [
        [0 if i == j else math.floor(v * GRID) / Fraction(GRID) for j, v in enumerate(row)]
        for i, row in enumerate([[0, a, b], [a, 0, c], [b, c, 0]])
    ]
    assert metric.notes == ("rounded down to multiples of 2^-40: never weaker than stated",)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([[0, -1], [1, 0]], r"-1 at row 1, column 2"),
        ([[0, 1], [math.nan, 0]], r"nan at row 2, column 1"),
        ([[0, 1], [-math.inf, 0]], r"-inf at row 2, column 1"),
        ([[0, 1], ["far", 0]], r"'far' at row 2, column 1"),
        ([[0, None], [1, 0]], r"None at row 1, column 2"),
        ([[0, 1], [1, 2]], r"diagonal.*2 at row 2, column 2"),
        ([[math.inf, 1], [1, 0]], r"diagonal.*inf at row 1, column 1"),
        ([[0, 1], [1, 0, 2]], "3 entries in row 2 of 2 rows"),
        (np.zeros((2, 3)), "square, got 3 entries in row 1 of 2 rows"),
        ([[0]], "2 rows"),
        (7, "rows of numbers"),
    ],
)
def test_matrices_that_bound_nothing_are_refused(values, words):
    with pytest.raises(StudyError, match=words):
        Matrix(values)


def test_labels_of_a_matrix_must_fit_its_rows():
    with pytest.raises(StudyError, match="3 labels for 2 rows"):
        Matrix([[0, 1], [1, 0]], labels=["a", "b", "c"])
    with pytest.raises(StudyError, match="'a' twice"):
        Matrix([[0, 1], [1, 0]], labels=["a", "a"])


@pytest.mark.parametrize(
    "statement",
    [
        Matrix([[0, 1, 0], [1, 0, 1], [1, 1, 0]]),
        Points(1, at={"a": (0, 0), "b": (1, 1), "c": (0, 0)}),
        Points(1, at={"a": (0, 0), "b": (1, 1), "c": (0, 0)}, norm=1),
        Uniform(1) + Points(1, at={"a": (0, 0), "b": (1, 1), "c": (0, 0)}),
    ],
)
def test_two_labels_at_distance_zero_must_be_merged(statement):
    with pytest.raises(StudyError, match=r"'a' and 'c'.*merge"):
        statement.bind(ABC, optional=False)


@pytest.mark.parametrize(
    "statement",
    [
        Points(2**-41, at={"a": (0, 0), "b": (1, 1), "c": (9, 9)}),
        Matrix([[0, "1/2199023255552", 1], [1, 0, 1], [1, 1, 0]]),
    ],
)
def test_an_e_below_the_grid_is_refused_rather_than_called_zero(statement):
    with pytest.raises(StudyError, match=r"'a' and 'b' is below 2\^-40"):
        statement.bind(ABC, optional=False)


def test_labels_that_occur_twice_on_an_axis_are_refused():
    class Twice(Integers):
        def labels(self) -> list[str]:
            return ["x"] * self.size

    with pytest.raises(StudyError, match="'x' twice"):
        HighLow(1, ["x"]).bind(Twice(0, 2), optional=False)


# ---- sums --------------------------------------------------------------------------------------

PARTS = [
    Distance(0.2),
    Distance("1/7", per=3),
    Uniform("1/3"),
    Blocks(1, [[0, 1], [2, 3, 4]]),
    HighLow(0.5, [3]),
    SensitiveSet(0.1, [2]),
    PolicyGraph(0.3, [(0, 1), (1, 2), (2, 3, 2)]),
    Points(1, at={0: (0, 0), 1: (3, 4), 2: (6, 8), 3: (0, 9), 4: (0, 5)}, norm=1),
]


@pytest.mark.slow
@given(st.lists(st.sampled_from(PARTS), min_size=2, max_size=3))
def test_sums_add_exactly(parts):
    domain = Integers(0, 4)
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    assert total == Sum(parts)
    metric = total.bind(domain, optional=False)
    bound = [part.bind(domain, optional=False) for part in parts]
    for i, j in itertools.product(range(5), repeat=2):
        values = [part.exact(i, j) for part in bound]
        expected = None if None in values else sum(values)
        assert metric.exact(i, j) == expected
        # Cell 4 is in no edge: the graph says so only once it is bound.
        if 4 not in (i, j) or not any(isinstance(part, PolicyGraph) for part in parts):
            stated = total.between(i, j)
            assert stated == (math.inf if expected is None else pytest.approx(float(expected)))
    assert is_closed(metric)


def test_sums_keep_the_simplest_form():
    domain = Integers(0, 4)
    assert (Uniform(1) + Uniform(0.5)).bind(domain, optional=True) == UniformMetric(
        Fraction(3, 2), 6
    )
    assert (Distance(1) + Distance(0.5)).bind(domain, optional=False) == LineMetric.equal(
        Fraction(3, 2), 5
    )
    bins = Reals.from_edges([0, 1, 3, 9])
    line = (Distance(1) + Distance(1)).bind(bins, optional=False)
    assert line == Distance(2).bind(bins, optional=False)
    assert isinstance(line, LineMetric)


def test_a_sum_with_rounded_parts_is_rounded_down_and_says_so_once():
    places = {"a": (0, 0), "b": (1, 1), "c": (5, 0)}
    root = Points(1, at=places).bind(ABC, optional=False)
    metric = (Points(1, at=places) + Uniform("1/3")).bind(ABC, optional=False)
    assert metric.notes == root.notes
    value = root.exact(0, 1) + Fraction(1, 3)
    assert value - Fraction(1, GRID) < metric.exact(0, 1) <= value


def test_sums_need_metrics():
    with pytest.raises(StudyError, match="parts must be metrics"):
        Sum([Uniform(1), 2])
    with pytest.raises(StudyError, match="at least one"):
        Sum([])
    with pytest.raises(TypeError):
        Uniform(1) + 2


# ---- whole records -----------------------------------------------------------------------------


@given(
    positive_fractions,
    st.fractions(1, 6, max_denominator=5),
    st.integers(1, 40),
)
def test_the_share_of_an_axis_is_the_largest_that_keeps_the_guarantee(epsilon, p, axes):
    share = Lp(epsilon, p).per_axis(axes).epsilon
    a, b = p.numerator, p.denominator
    # share · D^(1 − 1/p) <= epsilon, raised to the power a, where p = a/b.
    assert share**a * axes ** (a - b) <= epsilon**a
    assert (share + Fraction(1, GRID)) ** a * axes ** (a - b) > epsilon**a


def test_the_share_of_an_axis_is_exact_where_it_can_be():
    assert Lp(1, 1).per_axis(7).epsilon == 1
    assert Lp(1, math.inf).per_axis(7).epsilon == Fraction(1, 7)
    assert Lp("1/3", 2).per_axis(9).epsilon == Fraction(1, 9)
    assert Lp(1, 3).per_axis(8).epsilon == Fraction(1, 4)
    assert Lp(1, 2, per="7 days").per_axis(4) == Distance(0.5, per="7 days")


@pytest.mark.parametrize(("p", "expected"), [(1, 14.0), (2, 10.0), (math.inf, 8.0)])
def test_lp_between_records(p, expected):
    assert Lp(2, p).between((0, 0), (3, 4)) == expected
    assert Lp(2, p, per=2).between((0, 0), (3, -4)) == expected / 2


def test_lp_is_refused_where_it_makes_no_sense():
    with pytest.raises(StudyError, match="p must be at least 1"):
        Lp(1, 0.5)
    with pytest.raises(StudyError, match="whole records"):
        Lp(1, 2).bind(Integers(0, 3), optional=False)
    for axes in (0, -1, 1.5, True):
        with pytest.raises(StudyError, match="axes must be a whole number"):
            Lp(1, 2).per_axis(axes)
    with pytest.raises(StudyError, match="same axes"):
        Lp(1, 2).between((1, 2), (1, 2, 3))
    with pytest.raises(StudyError, match="raise it"):
        Lp(2**-41, 2).per_axis(7)


# ---- files -------------------------------------------------------------------------------------

STATEMENTS = [
    Distance(0.2),
    Distance("1/3", per="7 days", no_answer=timedelta(hours=36)),
    Distance(epsilon=1, per=10_000, no_answer=0.1),
    Lp(1, 2),
    Lp(0.3, math.inf, per="1/7"),
    Lp(0.3, "3/2"),
    Uniform(1e-3),
    Blocks(1, [["a", "b"], [3, None]]),
    HighLow(1, ["it's", 'a "quoted" one']),
    SensitiveSet("2/3", ["ä", "a.b"]),
    PolicyGraph(1, [("a", "b"), ("b", "c", "1/3"), ("c", "d", 2.5)]),
    Points(1, at={"a": (0, "1/3"), "b.c": (1e-7, 2**60), "": (3, 4)}, per=0.5),
    Points(1, at={"a": (0,), "b": (1,)}, norm=math.inf),
    Within("1/3", "7 days", beyond="smooth"),
    Within(1, 0.5, at={"a": (0, "1/3"), "b": (1, 2)}, norm=1),
    Matrix([[0, 0.1], [math.inf, 0]]),
    Matrix(np.array([[0, 0.1], [3, 0]]), labels=["a", "b"]),
    Uniform(1) + Distance(0.2, per="1 day") + HighLow(1, ["x"]),
]


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda s: s.kind)
def test_a_statement_survives_a_file_exactly(statement):
    assert isinstance(statement, Metric)
    text = tomli_w.dumps(statement.to_dict())
    again = metric_from_dict(tomllib.loads(text))
    assert again == statement
    assert hash(again) == hash(statement)
    assert again.to_dict() == statement.to_dict()


@pytest.mark.slow
@given(positive_fractions, st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_any_number_survives_a_file_exactly(epsilon, per, no_answer):
    statement = Distance(epsilon, per, no_answer)
    assert metric_from_dict(tomllib.loads(tomli_w.dumps(statement.to_dict()))) == statement


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda s: s.kind)
def test_a_statement_prints_as_the_call_that_makes_it(statement):
    names = {type(part).__name__: type(part) for part in STATEMENTS}
    assert eval(repr(statement), {**names, "inf": math.inf}) == statement


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"epsilon": 1}, "must say its kind"),
        ("uniform", "must say its kind"),
        ({"kind": "unifrom", "epsilon": 1}, "did you mean 'uniform'"),
        ({"kind": "distance", "epsilon": 1, "pre": 2}, "no option 'pre': did you mean 'per'"),
        ({"kind": "distance", "per": 1}, "needs the option 'epsilon'"),
        ({"kind": "sum", "parts": [{"kind": "uniform"}]}, "needs the option 'epsilon'"),
    ],
)
def test_files_that_state_no_metric_are_refused(data, words):
    with pytest.raises(StudyError, match=words):
        metric_from_dict(data)


def test_statements_cannot_be_changed():
    with pytest.raises(AttributeError):
        Uniform(1).epsilon = Fraction(2)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (Distance(0.2), "E = 0.2 · distance"),
        (
            Distance(1, per="7 days", no_answer="2 days"),
            "E = 1 · distance / 7 days; no answer lies 2 days from every value",
        ),
        (Uniform(1) + Uniform(2), "E = 1 for any two values, plus E = 2 for any two values"),
        (
            Blocks(1, [["a", "b"], ["c", "d"]]),
            "E = 1 within each of 2 blocks; which block is not hidden",
        ),
        (
            HighLow(1, ["x"]),
            "E = 1 from a sensitive value ('x') to any other; other values are not hidden",
        ),
        (
            SensitiveSet(1, range(7)),
            "E = 1 where a value is sensitive ('0', '1', '2', '3', '4' and 2 more), 2 between "
            "others",
        ),
        (PolicyGraph(0.5, [("a", "b")]), "E = 0.5 · shortest path over 1 edges"),
        (Within(1, 7), "E = 1 per step of at most 7, through any values between"),
        (
            Within(0.5, "7 days", beyond="smooth"),
            "E = 0.5 within a distance of 7 days, 0.5 · distance / 7 days beyond",
        ),
        (
            Points(1, per=10, at={"a": (0,), "b": (1,)}, norm=math.inf),
            "E = 1 · Linf distance of 2 places / 10",
        ),
        (
            Matrix([[0, 0.5], [math.inf, 0]]),
            "E is given by a matrix of 2 by 2, at most 0.5 where finite",
        ),
        (Lp(1, "3/2", per=2), "E = 1 · L1.5 distance of the records / 2"),
    ],
)
def test_statements_describe_themselves(statement, words):
    assert statement.describe() == words
