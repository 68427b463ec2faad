"""Answers behave like the numbers and tables that Python users expect, and keep their errors."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import numpy as np
import pytest

import sfumato as sf
from sfumato.estimation.answers import Answer

AXES = [
    sf.integers("age", 18, 60, protect=sf.Distance(0.5)),
    sf.categories("city", ["Lisbon", "Porto", "Faro"], protect=sf.Uniform(2)),
]
PEOPLE = {
    "age": [20, 30, 40, 50] * 500,
    "city": ["Lisbon", "Porto", "Lisbon", "Faro"] * 500,
}


@pytest.fixture(scope="module")
def study() -> sf.Study:
    return sf.Study("town", AXES)


@pytest.fixture(scope="module", params=["unbiased", "likelihood"])
def est(study: sf.Study, request: pytest.FixtureRequest) -> sf.Estimate:
    return study.simulate(PEOPLE, seed=4).estimate(request.param)


def test_a_number_that_is_added_shifts_value_and_interval_and_no_error(est: sf.Estimate) -> None:
    answer = est.count("age=18..30")
    for moved, by in ((answer + 100, 100), (100 + answer, 100), (answer - 40.5, -40.5)):
        assert float(moved) == pytest.approx(float(answer) + by)
        assert moved.stderr == answer.stderr
        assert (moved.low, moved.high) == pytest.approx((answer.low + by, answer.high + by))
    turned = 2_000 - answer
    assert float(turned) == pytest.approx(2_000 - float(answer))
    assert (turned.low, turned.high) == pytest.approx((2_000 - answer.high, 2_000 - answer.low))
    assert float(-answer) == -float(answer)
    assert str((answer + 5) - answer) == "5 ± 0"


def test_the_error_of_a_sum_has_the_covariance(study: sf.Study) -> None:
    est = study.simulate(PEOPLE, seed=4).estimate("unbiased")
    parts = [est.count("age=20..29"), est.count("age=30..39"), est.count("age=40..49")]
    whole, total = est.count("age=20..49"), sum(parts)
    assert isinstance(total, Answer)
    assert float(total) == pytest.approx(float(whole))
    assert total.stderr == pytest.approx(whole.stderr)
    # Were the errors taken for independent, the sum would claim another error.
    assert total.stderr != pytest.approx(math.hypot(*(part.stderr for part in parts)), rel=0.05)
    twice = sum([parts[0], parts[0]])
    assert twice.stderr == pytest.approx(2 * parts[0].stderr)


def test_cells_of_a_histogram_add_up_to_everybody(est: sf.Estimate) -> None:
    for unit, whole in (({}, 2_000.0), ({"fraction": True}, 1.0)):
        total = sum(est.histogram("city", **unit))
        assert float(total) == pytest.approx(whole)
        assert total.stderr == pytest.approx(0.0, abs=1e-6 * whole)


def test_a_constant_stays_in_a_ratio(est: sf.Estimate) -> None:
    some, more = est.count("age=18..30"), est.count("age=18..45")
    assert float((some + 100) / more) == pytest.approx((float(some) + 100) / float(more))
    assert (some + 0) / more == some / more


def test_sums_without_known_covariance_are_refused_with_a_remedy(
    study: sf.Study, est: sf.Estimate
) -> None:
    other = study.simulate(PEOPLE, seed=5).estimate(est.method)
    with pytest.raises(sf.MismatchError, match="tally_a \\+ tally_b"):
        sum([est.count("age=30"), other.count("age=30")])
    share = est.fraction("age=30", where="city=Porto")
    with pytest.raises(sf.QuestionError, match="the error of a sum is not known"):
        share + share
    with pytest.raises(sf.QuestionError, match="the error of a sum is not known"):
        est.median("age") + est.median("age")
    for strange in ("1", None, [1]):
        for sign in ("__add__", "__sub__", "__mul__", "__truediv__", "__rsub__"):
            assert getattr(share, sign)(strange) is NotImplemented
    assert float(share + 1) == pytest.approx(float(share) + 1)


def test_numbers_are_made_of_answers_without_their_error() -> None:
    answer = Answer(value=12_343.26, stderr=211.7, n=100_000, question="age=18..30")
    assert (int(answer), round(answer), round(answer, 1)) == (12_343, 12_343, 12_343.3)
    assert (f"{answer:.1f}", f"{answer:>10.0f}", f"{answer}") == (
        "12343.3",
        "     12343",
        "12,340 ± 210",
    )
    assert repr(answer) == "<answer 12,340 ± 210 to 'age=18..30'>"
    nothing = sf.Study("town", AXES).tally([]).estimate().count("age=30")
    with pytest.raises(sf.QuestionError, match="no value to round, since it says: no reports"):
        int(nothing)


def test_answers_are_found_by_label_and_position(est: sf.Estimate) -> None:
    found = est.histogram("city")
    assert [float(answer) for answer in found] == found.values.tolist()
    assert found["Porto"] == found[1] == found[-2] == found[0:2][1]
    assert found["Porto"].stderr == found.stderr[1]
    assert (found["Porto"].low, found["Porto"].high) == (found.low[1], found.high[1])
    assert found["Porto"].question == "city=Porto"
    grid = est.heatmap("age", "city", bins=(2, None))
    row = grid.labels[0][1]
    assert grid[row, "Faro"] == grid[1][2] == grid[row]["Faro"]
    assert float(grid[row, "Faro"]) == grid.values[1, 2]
    assert grid[1].axes == ("city",)
    assert len(list(grid)) == 2
    for wrong, told in (
        ("Prto", "did you mean 'Porto'"),
        (1.5, "by label, such as 'Lisbon', or by position"),
        (("Porto", "Faro"), "found by 1 labels"),
    ):
        with pytest.raises(sf.QuestionError, match=told):
            found[wrong]
    with pytest.raises(IndexError):
        found[3]


def test_a_quantile_and_a_release_question_keep_their_words(est: sf.Estimate) -> None:
    found = est.quantile("age", [0.1, 0.5])
    assert found["50%"].question == "50% of age"
    assert found["50%"].bounds == est.median("age").bounds


def test_equal_answers_reports_and_estimates_are_equal(study: sf.Study) -> None:
    tally = study.simulate(PEOPLE, seed=4)
    one, other = tally.estimate("unbiased"), tally.estimate("unbiased")
    assert one == other
    assert hash(one) == hash(other)
    assert one != tally.estimate("likelihood")
    assert tally.estimate("likelihood") != tally.estimate("likelihood", smoothing="none")
    assert one != study.simulate(PEOPLE, seed=5).estimate("unbiased")
    assert one.histogram("city") == other.histogram("city")
    assert hash(one.histogram("city")) == hash(other.histogram("city"))
    assert one.histogram("city") != one.histogram("city", fraction=True)
    assert one.median("age") == other.median("age")
    assert len({one.count("age=30"), other.count("age=30"), other.count("age=31")}) == 2
    reports = study.encode(PEOPLE, bits=sf.SeededBits(1))
    assert reports == study.encode(PEOPLE, bits=sf.SeededBits(1))
    assert reports != study.encode(PEOPLE, bits=sf.SeededBits(2))
    assert reports != reports[1:]
    assert repr(one) == "<unbiased estimate of study 'town' from 2,000 reports>"


def test_reports_of_bits_are_compared_too() -> None:
    bits = sf.integers("age", 0, 99, protect=sf.Distance(0.5), channel=sf.Thermometer())
    study = sf.Study("bits", [bits])
    one, other = (study.encode({"age": [3, 40]}, bits=sf.SeededBits(1)) for _ in range(2))
    assert one == other
    assert one != study.encode({"age": [3, 40]}, bits=sf.SeededBits(9))


def test_edges_of_bins_are_those_of_numpy(est: sf.Estimate) -> None:
    found = est.histogram("age", bins=[18, 30, 45, 60])
    assert found.labels == ["18..29", "30..44", "45..60"]
    for label, answer in zip(found.labels, found, strict=True):
        same = est.count(f"age={label}")
        assert (float(answer), answer.stderr) == pytest.approx((float(same), same.stderr))
    truth = np.histogram(PEOPLE["age"], bins=[18, 30, 45, 60])[0]
    assert np.all(np.abs(found.values - truth) < 6 * found.stderr)
    within = est.histogram("age", bins=np.array([18, 30, 60]), where="age=20..40")
    assert float(within[1]) == pytest.approx(float(est.count("age=30..40")))
    for edges, told in (
        ([30, 20], "reversed"),
        ([20, 20], "edges that rise"),
        ([20], "two edges or more"),
        ([70, 80], "outside"),
    ):
        with pytest.raises(sf.QuestionError, match=told):
            est.histogram("age", bins=edges)
    with pytest.raises(sf.QuestionError, match="no order, so its bins have no edges"):
        est.histogram("city", bins=["Lisbon", "Faro"])


def test_edges_on_reals_prorate_and_dates_do_not() -> None:
    reals = sf.reals("km", 0, 100, bins=10, protect=sf.Distance(1, per=10))
    dates = sf.dates("day", "2026-01-01", "2026-01-31", protect=sf.Distance(1, per="1 day"))
    study = sf.Study("trips", [reals, dates])
    est = study.simulate({"km": [15.0, 85.0] * 300, "day": ["2026-01-05"] * 600}, seed=1).estimate()
    whole = est.histogram("km", bins=[0, 50, 100])
    assert (whole.edges.tolist(), whole.notes) == ([0.0, 50.0, 100.0], ())
    cut = est.histogram("km", bins=[0, 55, 100])
    assert any("a bin of km is cut" in note for note in cut.notes)
    assert float(cut[0]) == pytest.approx(float(est.count("km=0..55")))
    days = est.histogram("day", bins=["2026-01-01", "2026-01-15", "2026-01-31"])
    assert days.labels == ["2026-01-01..2026-01-14", "2026-01-15..2026-01-31"]
    optional = sf.integers("age", 0, 9, optional=True, protect=sf.Distance(1, no_answer=5))
    some = sf.Study("some", [optional]).simulate({"age": [1, None, 7] * 50}, seed=1).estimate()
    found = some.histogram("age", bins=[0, 5, 9])
    assert found.labels == ["0..4", "5..9", "no answer"]
    assert float(sum(found)) == pytest.approx(150)


def test_group_by_asks_the_same_in_every_cell(est: sf.Estimate) -> None:
    cities = AXES[1].labels()
    for grouped, single in (
        (est.mean("age", by="city"), lambda who: est.mean("age", where=who)),
        (est.total("age", by="city"), lambda who: est.total("age", where=who)),
        (est.variance("age", by="city"), lambda who: est.variance("age", where=who)),
        (est.median("age", by="city"), lambda who: est.median("age", where=who)),
        (est.count("age=18..30", by="city"), lambda who: est.count("age=18..30", where=who)),
        (est.fraction("age=18..30", by="city"), lambda who: est.fraction("age=18..30", where=who)),
    ):
        assert grouped.labels == cities
        for city in cities:
            alone = single(f"city={city}")
            assert float(grouped[city]) == pytest.approx(float(alone))
            assert (grouped[city].low, grouped[city].high) == pytest.approx((alone.low, alone.high))
    bins = est.fraction("city=Porto", by="age", bins=[18, 40, 60])
    assert bins.labels == ["18..39", "40..60"]
    assert float(bins[0]) == pytest.approx(float(est.fraction("city=Porto", where="age=18..39")))
    with pytest.raises(sf.QuestionError, match="name it with by="):
        est.mean("age", bins=3)  # type: ignore[call-overload]
    with pytest.raises(sf.QuestionError, match="there is no axis 'town'"):
        est.count(by="town")


def test_the_median_is_the_middle_quantile(est: sf.Estimate) -> None:
    assert est.median("age", where="city=Lisbon") == est.quantile("age", 0.5, where="city=Lisbon")


def test_csv_is_what_it_says(est: sf.Estimate, tmp_path: Path) -> None:
    found = est.histogram("city")
    rows = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert [row["city"] for row in rows] == found.labels
    assert [float(row["value"]) for row in rows] == found.values.tolist()
    assert found.to_csv(tmp_path / "city.csv") is None
    assert (tmp_path / "city.csv").read_text() == found.to_csv()


def test_notebooks_show_tables_with_sensible_digits(study: sf.Study, est: sf.Estimate) -> None:
    shown = est.histogram("city")._repr_html_()
    assert f"<td>{est.histogram('city')['Porto']}</td>" in shown
    assert "<th>95% interval</th>" in shown
    for found in (study, study.expected_error(2_000), sf.audit(study)):
        page, text = found._repr_html_(), str(found)
        assert page.startswith("<p>Study &#x27;town&#x27;")
        assert "geometric" in page
        assert "geometric" in text
    hostile = sf.Study("<b>", [sf.categories("<i>", ["a", "b"], protect=sf.Uniform(1))])
    for found in (hostile, hostile.expected_error(9), sf.audit(hostile), hostile.compare(9)):
        assert "<b>" not in found._repr_html_()
        assert "<i>" not in found._repr_html_()


def test_only_public_names_are_listed() -> None:
    import sfumato.cli  # noqa: F401  # which would add itself

    listed = [name for name in dir(sf) if name != "__version__"]
    assert listed == sorted(set(sf.__all__) - {"__version__"})
    assert not [name for name in listed if name.startswith("_")]
    assert {"Study", "Answer", "audit"} <= set(listed)
    assert "cli" not in listed
