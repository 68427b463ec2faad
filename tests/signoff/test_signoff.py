"""The report for a privacy officer: every number in it is one of the study's own."""

from __future__ import annotations

import json
import math
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli import app
from sfumato.study.examples import guessed, hazes, pairs

pytestmark = pytest.mark.slow  # reports plan several guarantees each

AGE = sf.integers("age", 0, 30, unit="years", protect=sf.Distance("1/2"))
MODE = sf.categories("mode", ["car", "bus", "bike"], protect=sf.Uniform(2))
STUDY = sf.Study("commute", [AGE, MODE])


@pytest.fixture(scope="module")
def found() -> sf.Signoff:
    return STUDY.report(1_000, "age=10..20", repeats=12)


class Page(HTMLParser):
    """Reads a page: its texts, and the tags that are open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta", "path"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag != "path":
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())


def saved(found: sf.Signoff, folder: Path) -> str:
    found.save(folder / "report.html")
    return (folder / "report.html").read_text(encoding="utf-8")


def test_its_numbers_are_those_of_the_study(found: sf.Signoff) -> None:
    assert found.audit.fingerprint == STUDY.fingerprint
    assert found.audit.holds
    assert found.total == 15 + 2
    assert found.repeats == (1, 2, 7, 12, 30, 365)
    assert found.plan["age=10..20"] == STUDY.expected_error(1_000, "age=10..20")["age=10..20"]
    for pair in found.pairs:
        both = (pair.first, pair.second), (pair.second, pair.first)
        assert [STUDY.guarantee.between(*one) for one in both] == [pair.there, pair.back]
        assert pair.right == 1 - STUDY.guarantee.error_region(*both[0]).least_error


def test_far_pairs_are_flagged_with_a_cap_and_its_cost(found: sf.Signoff) -> None:
    (far,) = found.far  # the odds of mode are 7.4
    assert (far.axes, far.e) == (("age",), 15.0)
    assert "Distance(..., cap=3)" in far.advice
    assert found.others.names[:2] == ("this study", "with a cap of 3")
    row = found.others["Any two people, whatever they answer"]
    assert row.values == (17.0, 5.0, 2.0, 8.0)
    capped = sf.Study("c", [sf.integers("age", 0, 30, protect=sf.Distance("1/2", cap=3)), MODE])
    cost = capped.expected_error(1_000)["age: a random range"].stderr
    assert found.others["age: a random range"].values[1] == cost
    near = sf.Study("near", [sf.integers("age", 0, 5, protect=sf.Distance("1/2"))]).report(100)
    assert near.far == ()


@pytest.mark.parametrize(
    ("axis", "advice"),
    [
        (
            sf.categories("a", ["x", "y"], protect=sf.Blocks(1, [["x"], ["y"]])),
            "says so on purpose",
        ),
        (sf.categories("a", ["x", "y"], protect=sf.Uniform(9)), "choose a smaller ε"),
        (
            sf.categories("a", ["x", "y"], protect=sf.Points(9, at={"x": 0, "y": 1})),
            "choose a smaller ε in",
        ),
    ],
)
def test_other_far_pairs_have_advice_of_their_own(axis: sf.Axis, advice: str) -> None:
    (far,) = sf.Study("s", [axis]).report(10).far
    assert advice in far.advice


def test_the_page_is_whole_and_loads_nothing(found: sf.Signoff, tmp_path: Path) -> None:
    text = saved(found, tmp_path)
    page = Page(text)
    assert page.open == []
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert "http" not in text
    for said in (
        "The guarantee holds",
        STUDY.fingerprint,
        "Two people whose age differs by 1 year",
        "1.6 times",
        "Approved by",
        "How far the haze reaches",
        "The total over repetitions",
        "age=10..20",
        "ordinary local DP, ε = 1",
        "What was not checked",
    ):
        assert any(said in one for one in page.texts), said
    assert page.tags.count("figure") == 2
    assert not any("nobody said how many" in one for one in page.texts)
    assert "nobody said how many" in saved(sf.Study("s", [MODE]).report(), tmp_path)


def test_names_are_no_markup(tmp_path: Path) -> None:
    axis = sf.categories("<i>", ["<u>", "<s>"], protect=sf.Uniform(9))
    page = Page(saved(sf.Study("<script>", [axis]).report(10), tmp_path))
    assert not {"i>", "u", "s", "script"} & set(page.tags)
    assert "Privacy report of <script>" in page.texts


def test_a_broken_channel_is_told_first(tmp_path: Path, found: sf.Signoff) -> None:
    from dataclasses import replace

    broken = replace(found.audit.axes[0], holds=False, problems=("odds are too large",))
    audit = replace(found.audit, axes=(broken, *found.audit.axes[1:]))
    text = saved(replace(found, audit=audit), tmp_path)
    assert "The guarantee does NOT hold" in text
    assert "odds are too large" in text


def test_axes_under_one_guarantee_and_optional_ones(tmp_path: Path) -> None:
    grid = sf.together([sf.integers("x", 0, 7), sf.integers("y", 0, 7)], protect=sf.Lp(1, 2, cap=4))
    some = sf.integers("n", 0, 9, optional=True, protect=sf.Distance(1, no_answer=5))
    study = sf.Study("mixed", [grid, some])
    found = pairs(study.schema)
    assert found[0].axes == ("x", "y")
    assert found[0].e == study.guarantee.between(found[0].first, found[0].second) == 1.0
    assert any(pair.second == {"n": None} and pair.e == 5.0 for pair in found)
    drawn = hazes(study.schema)
    assert [haze.axis for haze in drawn] == ["x", "y", "n"]
    assert drawn[2].right[5] == 0.5  # someone beside themselves
    assert drawn[2].right[-1] == pytest.approx(guessed(5.0, 5.0))
    saved(study.report(50), tmp_path)


def test_guesses_are_those_of_randomised_response() -> None:
    assert guessed(math.log(3), math.log(3)) == pytest.approx(0.75)
    assert (guessed(0, 0), guessed(math.inf, math.inf)) == (0.5, 1.0)


def test_the_command_writes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sf.Study("modes", [MODE]).save("modes.toml")
    run = CliRunner().invoke
    done = run(app, ["report", "modes.toml", "--out", "modes.html", "--people", "50"])
    assert (done.exit_code, "the guarantee holds" in done.output) == (0, True)
    assert "Privacy report of modes" in Path("modes.html").read_text(encoding="utf-8")
    done = run(app, ["report", "modes.toml", "--out", "modes.json", "--json"])
    told = json.loads(done.output)
    assert told["out"] == "modes.json"
    assert told["total"] == 2.0
    assert json.loads(Path("modes.json").read_text()) == {k: told[k] for k in told if k != "out"}
    for wrong in ("modes.pdf", "modes.html"):
        done = run(app, ["report", "modes.toml", "--out", wrong])
        assert done.exit_code == 2
    with pytest.raises(sf.FormatError, match=r"open the page and print it"):
        sf.Study("modes", [MODE]).report(9).save("modes.pdf")
