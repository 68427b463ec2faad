from __future__ import annotations

import html
import math
import re
from pathlib import Path

import numpy as np
import pytest

import sfumato as sf
from sfumato.demo import __main__ as command
from sfumato.demo import run as demo
from sfumato.demo.page import amount
from sfumato.demo.results import DemoResult, DemoRow
from sfumato.demo.town import make_town
from sfumato.plots import style

PEOPLE = 3_000


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> DemoResult:
    return demo.run(tmp_path_factory.mktemp("demo") / "new" / "folder", people=PEOPLE, seed=11)


@pytest.fixture(scope="module")
def page(run: DemoResult) -> str:
    return run.page.read_text(encoding="utf-8").replace(style.library(), "")


def test_truths_are_direct_counts(run: DemoResult) -> None:
    town = make_town(PEOPLE)
    people = list(zip(town["age"].tolist(), town["minutes"].tolist(), strict=True))
    far = [age for age, minutes in people if minutes >= 60]
    old = [minutes for age, minutes in people if age >= 50]
    near = sum(minutes < 30 for _, minutes in people)
    expected = [
        sum(25 <= age < 40 for age, _ in people),
        sum(age >= 60 for age, _ in people),
        sum(20 <= minutes < 40 for _, minutes in people),
        sum(minutes < 15 for _, minutes in people),
        sum(25 <= age < 40 and 15 <= minutes < 40 for age, minutes in people),
        sum(age >= 50 and minutes >= 60 for age, minutes in people),
        sum(age < 25 and 40 <= minutes < 60 for age, minutes in people),
        near / PEOPLE,
        sum(age >= 55 for age in far) / len(far),
        math.fsum(age for age, _ in people) / PEOPLE,
        math.fsum(old) / len(old),
        near - len(far),
    ]
    assert [row.truth for row in run.rows] == pytest.approx(expected, rel=1e-12)


def test_answers_are_those_of_the_saved_tally(run: DemoResult) -> None:
    folder = run.page.parent
    study = sf.Study.load(folder / "study.toml")
    assert study == run.study
    tally = sf.Tally.load(folder / "tally.parquet", study)
    assert tally == run.tally
    est = tally.estimate("unbiased")
    for row in run.rows:
        again = eval(row.ask, {"est": est})
        assert (row.answer.value, row.answer.stderr) == (again.value, again.stderr)
        assert row.answer.n == PEOPLE


def test_answers_are_near_the_truth(run: DemoResult) -> None:
    # 12 answers: one beyond 5 standard errors by chance has probability below 1e-5.
    for row in run.rows:
        assert abs(row.answer.value - row.truth) < 5 * row.answer.stderr


def test_a_mark_is_for_the_interval(run: DemoResult) -> None:
    row = run.rows[0]
    inside = sf.Answer(value=row.truth + 1, stderr=1.0, n=1)
    outside = sf.Answer(value=row.truth + 3, stderr=1.0, n=1)
    made = [
        DemoRow(
            question="q", ask="", unit="people", truth=row.truth, answer=a, published=outside * 2
        )
        for a in (inside, outside)
    ]
    assert [one.holds for one in made] == [True, False]
    assert made[0].ratio == 2.0


def test_the_published_mechanism_has_the_same_guarantee_and_larger_errors_of_counts(
    run: DemoResult,
) -> None:
    other = demo.make_study(channel=sf.Thermometer(variant="published"))
    x, y = {"age": 20, "minutes": 5}, {"age": 60, "minutes": 90}
    assert other.guarantee.between(x, y) == run.study.guarantee.between(x, y) == 8 + 17
    assert all(row.ratio > 1 for row in run.rows if row.ask.startswith("est.count"))
    assert all(row.published.n == PEOPLE for row in run.rows)


def test_the_town_is_always_the_same_and_a_seed_repeats_the_reports(
    run: DemoResult, tmp_path: Path
) -> None:
    again = demo.run(tmp_path, people=PEOPLE, seed=11)
    assert again.tally == run.tally
    assert again.samples == run.samples
    assert again.page.read_bytes() == run.page.read_bytes()


def test_without_a_seed_reports_are_drawn_anew(run: DemoResult, tmp_path: Path) -> None:
    fresh, other = (demo.run(tmp_path, people=PEOPLE) for _ in range(2))
    assert fresh.tally != other.tally
    assert [row.truth for row in fresh.rows] == [row.truth for row in run.rows]


def test_the_town_has_two_bumps_that_go_together() -> None:
    town = make_town(50_000)
    ages = np.histogram(town["age"], np.arange(15, 81, 5))[0]
    assert ages[2] > 2 * ages[5] < ages[8]  # 25 to 30, 40 to 45, 55 to 60
    assert np.corrcoef(town["age"], town["minutes"])[0, 1] > 0.7


def test_the_page_holds_every_row(run: DemoResult, page: str) -> None:
    for row in run.rows:
        assert page.count(f'<th scope="row">{html.escape(row.question)}<code>') == 1
        assert html.escape(row.ask) in page
        assert f"<b>{amount(row.answer.value, row.answer.stderr, row.unit)}</b>" in page
        assert f"± {amount(row.published.stderr, row.published.stderr, row.unit)}<" in page
    held = sum(row.holds for row in run.rows)
    assert f"<b>{held} of 12</b>" in page
    assert page.count('class="yes">') == held
    assert page.count('class="no">') == 12 - held


def test_the_page_shows_reports_and_the_guarantee(run: DemoResult, page: str) -> None:
    assert len(run.samples) == 3
    labels = [set(axis.labels()) for axis in run.study.axes]
    for sample in run.samples:
        assert all(sent in known for sent, known in zip(sample.report, labels, strict=True))
        years, minutes = (sent.replace("..", " to ") for sent in sample.report)
        assert f"{sample.age:g} years, {sample.minutes:g} min" in page
        assert f"{years} years, {minutes} min" in page
    assert html.escape(run.study.explain()) in page
    assert re.search(r"34 and 35 years old</th><td[^>]*>2\.7 times", page)
    assert re.search(r"30 and 60 years old</th><td[^>]*>400 times", page)


def test_the_page_says_truly_how_often_a_report_is_right(run: DemoResult, page: str) -> None:
    # The geometric channel leaves a value alone with probability (1 − e^−ε)/(1 + e^−ε), ε = 1.
    alone = math.tanh(0.5)
    assert f"{alone:.0%} name the true age group, {alone**2:.0%} both" in page


def test_the_page_is_complete_and_needs_nothing_from_elsewhere(page: str) -> None:
    assert "[[" not in re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"https?://|<link|<img|src=", page)
    names = ("age", "minutes", "cdf", "heat-estimate", "heat-truth")
    for name in names:
        assert page.count(f'<div id="picture-{name}"></div>') == 1
        assert page.count(f'Plotly.newPlot("picture-{name}"') == 1
    assert "nan" not in re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL).lower()


def test_pictures_hold_the_truth_in_the_same_cells() -> None:
    town = make_town(PEOPLE)
    estimate = demo.make_study().simulate(town, seed=1).estimate("unbiased")
    made = demo.pictures(estimate, town)
    for answers, truth in made.values():
        assert truth.shape == answers.values.shape
    assert made["age"][1].sum() == made["minutes"][1].sum() == made["heat"][1].sum() == PEOPLE
    assert made["cdf"][1][3] == pytest.approx(np.mean(town["minutes"] < 20))
    assert made["heat"][1][2, 4] == np.count_nonzero(
        (town["age"] >= 25) & (town["age"] < 30) & (town["minutes"] >= 20) & (town["minutes"] < 25)
    )


def test_progress_goes_from_nothing_to_all(tmp_path: Path) -> None:
    told: list[tuple[str, float]] = []
    demo.run(tmp_path, people=100, seed=1, progress=lambda what, share: told.append((what, share)))
    shares = [share for _, share in told]
    assert shares[0] == 0.0
    assert shares[-1] == 1.0
    assert shares == sorted(shares)
    assert all(what for what, _ in told)


@pytest.mark.parametrize("people", [1, 7])
def test_even_a_hamlet_has_a_page(tmp_path: Path, people: int) -> None:
    assert demo.run(tmp_path, people=people, seed=1).page.stat().st_size > 1_000_000


def test_an_empty_town_is_refused(tmp_path: Path) -> None:
    with pytest.raises(sf.StudyError, match="people=0"):
        demo.run(tmp_path, people=0)


@pytest.mark.slow
def test_the_picture_is_small_and_repeatable(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        command.main(["--picture", str(tmp_path / name)])
    first = (tmp_path / "a.png").read_bytes()
    assert first.startswith(b"\x89PNG")
    assert 10_000 < len(first) < 150_000
    assert first == (tmp_path / "b.png").read_bytes()


def test_the_command_prints_every_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command.main(["--out", str(tmp_path / "d"), "--people", "500", "--seed", "2"])
    printed = capsys.readouterr().out
    assert "People aged 25 to 40: " in printed
    assert str(tmp_path / "d" / "index.html") in printed
    assert len(printed.splitlines()) == 13


@pytest.mark.parametrize(
    ("value", "error", "unit", "text"),
    [
        (12_343.2, 211.7, "people", "12,340"),
        (-321.0, 21.0, "people", "−321"),
        (0.12345, 0.0021, "share", "12.35%"),
        (42.5261, 0.021, "years", "42.526"),
        (math.nan, math.nan, "people", "–"),
    ],
)
def test_numbers_have_the_digits_their_error_allows(
    value: float, error: float, unit: str, text: str
) -> None:
    assert amount(value, error, unit) == text
