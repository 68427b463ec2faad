"""`sfumato reproduce`: every exhibit runs, what it finds is told, and what is missing is named."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sfumato.cli import app
from sfumato.reproduction import page, running
from sfumato.reproduction.exhibits import Exhibit, Finding, ReproductionError, Run, chosen, matches
from sfumato.reproduction.table import EXHIBITS, PAPERS

RUNNER = CliRunner()


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, Any], Path]]:
    """A quick run without data, made once: its document and its report."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("reproduced")
        patch.setenv("SFUMATO_CACHE", str(folder / "cache"))
        out = folder / "report.html"
        found = RUNNER.invoke(app, ["reproduce", "--quick", "--json", "--out", str(out)])
        assert found.exit_code == 0, found.output
        yield json.loads(found.stdout), out


def test_every_figure_of_the_issue_is_an_exhibit() -> None:
    """Figures and tables that state a number or a curve; and no id or label twice."""
    held = {paper: {e.name for e in EXHIBITS if e.paper == paper} for paper in PAPERS}
    assert held["cormode"] == {f"Figure {n}" for n in range(3, 9)}
    assert held["acharya"] == {"Figure 1", "Figure 2", "Figure 3", "Table 1"}
    assert held["kamalaruban"] == {f"Figure {n}" for n in range(2, 6)}
    full = {f"{label} (full version)" for label in ("Figure 1", "Figure 2", "Table 1", "Table 2")}
    assert full | {"Figure 1 (conference)"} < held["xiang"]
    assert len({e.id for e in EXHIBITS}) == len(EXHIBITS)


@pytest.mark.slow
def test_a_quick_run_makes_all_that_needs_no_data(quick: tuple[dict[str, Any], Path]) -> None:
    told, out = quick
    assert [part["id"] for part in told["exhibits"]] == [e.id for e in EXHIBITS]
    for part, exhibit in zip(told["exhibits"], EXHIBITS, strict=True):
        assert (part["data"] is None) == bool(exhibit.needs)
        assert part["missing"] == list(exhibit.needs)
        if part["data"] is not None:
            assert part["findings"]
            assert all(math.isfinite(finding["ours"]) for finding in part["findings"])
            head, rows = exhibit.rows(part["data"])
            assert rows
            assert all(len(row) == len(head) for row in rows)
    text = out.read_text(encoding="utf-8")
    drawn = [e for e in EXHIBITS if e.draw is not None and not e.needs]
    assert text.count("data:image/png;base64,") == len(drawn)
    assert all(f'id="{e.id}"' in text for e in EXHIBITS)
    assert "gowalla_us_cells_RECONSTRUCTED.csv.gz would add" in text
    assert "http" not in text  # it loads nothing


@pytest.mark.slow
def test_exact_exhibits_agree_in_a_quick_run(quick: tuple[dict[str, Any], Path]) -> None:
    """Those that no data, time or draw decides; what is known to differ does."""
    told = {part["id"]: part["findings"] for part in quick[0]["exhibits"]}
    for name in ("cormode-figure-6", "xiang-section-3.3-full-version", "cormode-figure-3"):
        assert {finding["verdict"] for finding in told[name]} <= {"agrees", "holds"}
    differ = {f["what"] for f in told["xiang-table-2-full-version"] if f["verdict"] == "differs"}
    assert differ == {
        "ε-LDP trees, D = 1, by log m: exponent",
        "Haney et al., extended, D = 2, by log m: exponent",
    }
    prefixes = {f["what"]: f["verdict"] for f in told["cormode-figure-5"]}
    assert prefixes["D = 2^8, HH_2, all prefixes: ours over printed, mean over ε"] == "differs"
    assert prefixes["D = 2^8, HaarHRR, all prefixes: ours over printed, mean over ε"] == "agrees"


@pytest.mark.slow
def test_what_was_made_is_kept_and_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFUMATO_CACHE", str(tmp_path))
    one = chosen(EXHIBITS, "acharya", "1")
    first, again, anew = (
        next(running.made(one, Run(), fresh=fresh)) for fresh in (False, False, True)
    )
    assert (first.kept, again.kept, anew.kept) == (False, True, False)
    assert first.data == again.data == anew.data
    other = next(running.made(one, Run(seed=1)))
    assert not other.kept
    for file in tmp_path.glob("reproduce-*.json"):
        file.write_text("{", encoding="ascii")
    assert not next(running.made(one, Run())).kept  # what is damaged is made again


def test_figures_are_chosen_by_what_people_write() -> None:
    assert [e.label for e in chosen(EXHIBITS, "acharya", "table 1")] == ["Table 1"]
    assert [e.name for e in chosen(EXHIBITS, "Xiang", "Fig. 1")] == [
        "Figure 1 (conference)",
        "Figure 1 (full version)",
    ]
    assert not matches("Figure 1", "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["warner"], "there is no paper 'warner' to reproduce; there are xiang, cormode, acharya"),
        (["acharya", "--figure", "9"], "there is no figure '9' to reproduce; there are acharya:"),
        (["--figure", "table 7"], "cormode: Figure 3, Figure 4"),
        (["--data", "nowhere"], "--data must name a folder, got 'nowhere'"),
        (["--seed", "-1"], "--seed must be a whole number from 0"),
    ],
)
def test_what_does_not_exist_is_answered_with_the_list(arguments: list[str], said: str) -> None:
    found = RUNNER.invoke(app, ["reproduce", *arguments])
    assert found.exit_code == 2
    assert said in found.stderr


def test_missing_data_are_named_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFUMATO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "300")
    out = tmp_path / "a.html"
    arguments = ["reproduce", "acharya", "--figure", "3", "--data", str(tmp_path)]
    found = RUNNER.invoke(app, [*arguments, "--out", str(out)])
    assert found.exit_code == 0
    assert (
        "Figure 3 is left out: gowalla_us_cells_RECONSTRUCTED.csv.gz would add the number of"
        in found.stderr
    )
    assert "1 left out for want of data" in found.stdout
    (tmp_path / "gowalla_us_cells_RECONSTRUCTED.csv.gz").write_bytes(b"no such thing")
    found = RUNNER.invoke(app, [*arguments, "--out", str(out), "--force"])
    assert found.exit_code == 2
    assert "cannot read 'gowalla_us_cells_RECONSTRUCTED.csv.gz'" in found.stderr
    found = RUNNER.invoke(app, [*arguments, "--out", str(out)])
    assert found.exit_code == 2
    assert "exists" in found.stderr


def test_a_finding_says_how_far_off_it_is() -> None:
    near = Finding(what="a", ours=1.02, printed="1", low=0.9, high=1.1, aim=1.0)
    far = Finding(what="b", ours=3.0, printed="below 2", high=2.0)
    assert (near.verdict, near.difference) == ("agrees", "+2.0 %")
    assert (far.verdict, far.difference) == ("differs", "+1")
    assert page.cells(far) == ("b", "3", "below 2", "+1", "differs")
    holds = Finding(what="c", ours=1.0, printed="below 2", high=2.0)
    assert (holds.verdict, holds.difference) == ("holds", "none")


def test_a_record_without_an_exhibit_is_refused() -> None:
    with pytest.raises(ReproductionError, match="the record has no xiang-figure-1-conference"):
        running.recalled({"exhibits": []}, EXHIBITS)


def test_names_in_a_report_are_escaped() -> None:
    odd = Exhibit(
        paper="xiang",
        label="Figure 1",
        title="<b>",
        settings="a < b",
        make=lambda run: {},
        findings=lambda data: [Finding(what="<i>", ours=1.0, printed="&")],
        rows=lambda data: (["<u>"], [["<s>"]]),
    )
    text = page.page([running.Made(odd, {})], "<caption>")
    for tag in ("<b>", "<i>", "<u>", "<s>", "<caption>", "a < b"):
        assert tag not in text
