"""sfumato bench: every step of a study is measured, and it stops in time."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import sfumato as sf
from sfumato.cli import app, benching

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "140")

    def invoke(*arguments: object, ok: bool = True) -> Result:
        result = CliRunner().invoke(app, [str(word) for word in arguments])
        assert not ok or result.exit_code == 0, result.output
        return result

    return invoke


@pytest.fixture
def study(tmp_path: Path) -> sf.Study:
    """An axis of every kind."""
    made = sf.Study(
        "every kind",
        [
            sf.integers("age", 5, 14, protect=sf.Distance(0.5)),
            sf.reals("income", 0, 8, bins=4, protect=sf.Distance(1)),
            sf.categories("mode", ["car", "bus"], protect=sf.Uniform(1), optional=True),
            sf.dates(
                "day",
                "2024-01-01",
                "2024-01-14",
                step="1 week",
                protect=sf.Distance(1, per="1 week"),
            ),
            sf.times("hour", "00:00", "24:00", step="6 h", protect=sf.Distance(1, per="1 h")),
        ],
    )
    made.save(tmp_path / "study.toml")
    return made


@pytest.mark.slow
def test_made_up_people_are_in_every_cell(study: sf.Study) -> None:
    codes = study._codes(benching.made_up(study, 2_000))
    for axis, column in zip(study.axes, codes, strict=True):
        assert set(np.unique(column)) == set(range(axis.domain.size))


@pytest.mark.slow
def test_every_step_is_measured(run: Run, study: sf.Study) -> None:
    found = json.loads(run("bench", "study.toml", "--people", 300, "--json").stdout)
    assert found["study"] == study.name
    assert found["bytes_per_report"] == len(study.encode(_one()).to_bytes()) - 45
    assert found["stopped"] is False
    assert [row["step"] for row in found["rows"]] == list(benching.STEPS)
    for row in found["rows"]:
        assert row["people"] == 300
        assert row["seconds"] > 0
        assert row["peak"] > 0
        rate = row["reports_per_second"]
        assert rate == (300 / row["seconds"] if row["step"] in benching.PER_REPORT else None)
    assert [row["method"] for row in found["rows"][4:]] == ["unbiased", "likelihood"]


def _one() -> dict[str, list[object]]:
    return {"age": [7], "income": [2.0], "mode": ["car"], "day": ["2024-01-01"], "hour": ["06:00"]}


@pytest.mark.slow
def test_the_table_shows_what_was_measured(run: Run, study: sf.Study) -> None:
    text = run("bench", "study.toml", "--people", 300).stdout
    lines = [line.split() for line in text.splitlines()]
    assert [line[1] for line in lines if line[:1] == ["300"]] == list(benching.STEPS)
    assert "MiB" in text
    assert f"Study {study.name!r}: 3 bytes per report." in text
    assert "Stopped" not in text


@pytest.mark.slow
@pytest.mark.usefixtures("study")
def test_it_stops_before_it_takes_too_long(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that moves a second per look: six steps, and the next size ten times four of them."""
    seconds = iter(range(1_000))
    clock = SimpleNamespace(monotonic=lambda: next(seconds), process_time=lambda: next(seconds))
    monkeypatch.setattr(benching, "time", clock)
    monkeypatch.setattr(benching, "_FEWEST", 10)
    monkeypatch.setattr(benching, "_timed", _second)
    within = (1 + 6) + 4 * 10 + 2
    for allowed, sizes in ((within, [10, 100]), (within - 1, [10])):
        words = ("bench", "study.toml", "--people", 100, "--seconds", allowed)
        found = json.loads(run(*words, "--json").stdout)
        assert sorted({row["people"] for row in found["rows"]}) == sizes
        assert found["stopped"] == (sizes == [10])
    assert f"Stopped at 10 people: the next size would take longer than {allowed}" in (
        run(*words).stdout
    )


def _second(
    name: str, work: Callable[[], object], runs: int, *, number: int, traced: object
) -> tuple[benching.Step, object]:
    assert traced == benching.STEPS
    return benching.Step(people=number, step=name, seconds=1.0, peak=runs), work()


def test_sizes_are_powers_of_ten_and_the_largest() -> None:
    assert benching._sizes(1_000_000) == [10_000, 100_000, 1_000_000]
    assert benching._sizes(250_000) == [10_000, 100_000, 250_000]
    assert benching._sizes(300) == [300]


@pytest.mark.usefixtures("study")
def test_an_answer_that_is_refused_is_shown_with_its_reason(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise sf.TooLargeError("too many cells")

    monkeypatch.setattr(benching, "_histogram", refuse)
    found = json.loads(run("bench", "study.toml", "--people", 30, "--json").stdout)
    assert [row["note"] for row in found["rows"][4:]] == ["too many cells"] * 2
    assert [row["seconds"] for row in found["rows"][4:]] == [None, None]
    assert run("bench", "study.toml", "--people", 30).stdout.count("too many cells") == 2


@pytest.mark.usefixtures("study")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--people", "0"), "--people must be a whole number from 1 to 10,000,000, got 0"),
        (("--people", "10000001"), "from 1 to 10,000,000, got 10000001"),
        (("--seconds", "0"), "--seconds must be positive, got 0"),
        (("--seconds", "-1"), "--seconds must be positive, got -1"),
    ],
)
def test_impossible_options_are_refused(run: Run, words: tuple[str, ...], message: str) -> None:
    result = run("bench", "study.toml", *words, ok=False)
    assert result.exit_code == 2
    assert message in result.output
