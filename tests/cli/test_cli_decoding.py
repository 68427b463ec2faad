"""How commands decode: within a time, with an interrupt, and kept in a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import sfumato as sf
from sfumato.cli import app, asking
from sfumato.estimation import likelihood as module

Run = Callable[..., Result]
COMMANDS = {
    "ask": ("ask", "s.toml", "t.parquet", "age=3..12"),
    "quantile": ("quantile", "s.toml", "t.parquet", "age"),
    "histogram": ("histogram", "s.toml", "t.parquet", "age"),
    "heatmap": ("heatmap", "s.toml", "t.parquet", "age", "hour", "--bins", "4"),
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command in a folder with a study and its tally."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "140")
    study = sf.Study(
        "kept",
        [
            sf.integers("age", 0, 29, protect=sf.Distance(0.5)),
            sf.integers("hour", 0, 11, protect=sf.Distance(0.5)),
        ],
    )
    study.save("s.toml")
    for seed, name in ((1, "t"), (2, "other")):
        rng = np.random.default_rng(seed)
        table = {"age": rng.integers(0, 30, 500), "hour": rng.integers(0, 12, 500)}
        study.simulate(table, seed=seed).save(f"{name}.parquet")
    study.empty_tally().save("nobody.parquet")

    def invoke(*arguments: object, ok: bool = True) -> Result:
        result = CliRunner().invoke(app, [str(word) for word in arguments])
        assert not ok or result.exit_code == 0, result.output
        return result

    return invoke


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The grids that are decoded."""
    made: list[Any] = []
    real = module.smoothed_decoder

    def called(mixture: Any, *given: Any, **options: Any) -> Any:
        made.append(mixture.shape)
        return real(mixture, *given, **options)

    monkeypatch.setattr(module, "smoothed_decoder", called)
    return made


def told(run: Run, *words: object) -> tuple[set[str], str]:
    """The methods and the notes of a command's JSON."""
    document = json.loads(run(*words, "--json").stdout)
    answers = document.get("answers", [document])
    notes = [note for answer in answers for note in answer["notes"]]
    return {answer["method"] for answer in answers}, "; ".join(notes)


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_answer_unbiased_beyond_their_time_and_say_why(run: Run, name: str) -> None:
    words = COMMANDS[name]
    assert told(run, *words)[0] == {"likelihood"}
    methods, notes = told(run, *words, "--seconds", "1e-9")
    assert methods == {"unbiased"}
    assert "unbiased, since decoding 30" in notes
    assert "more than 1e-09 s" in notes
    assert "unbiased, since decoding 30" in " ".join(
        run(*words, "--seconds", "1e-9").stdout.split()
    )
    assert told(run, *words, "--seconds", "1e-9", "--method", "likelihood")[0] == {"likelihood"}


def test_simulate_takes_seconds(run: Run) -> None:
    Path("p.csv").write_text("age,hour\n3,4\n5,6\n")
    words = ("simulate", "s.toml", "p.csv", "--ask", "age=3", "--seed", "1")
    assert told(run, *words)[0] == {"likelihood"}
    assert told(run, *words, "--seconds", "1e-9")[0] == {"unbiased"}


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "soon"])
@pytest.mark.parametrize("name", COMMANDS)
def test_seconds_that_are_none_are_refused(run: Run, name: str, seconds: str) -> None:
    result = run(*COMMANDS[name], f"--seconds={seconds}", ok=False)
    assert result.exit_code != 0
    assert "positive number" in result.output or "a number such as 10" in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize("name", COMMANDS)
def test_an_interrupt_ends_the_decoding_and_not_the_command(
    run: Run, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def interrupted(doing: str) -> Iterator[Any]:
        assert "Ctrl-C" in doing

        def seen(*_: Any) -> None:
            raise KeyboardInterrupt

        yield seen

    before = Path("t.parquet").read_bytes()
    monkeypatch.setattr(asking.showing, "progress", interrupted)
    methods, notes = told(run, *COMMANDS[name], "--keep", "e.parquet")
    assert methods == {"likelihood"}
    assert "decoding was interrupted" in notes
    assert Path("t.parquet").read_bytes() == before
    assert not Path("e.parquet").exists()


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_kept_is_not_decoded_again(run: Run, name: str, searches: list[Any]) -> None:
    words = (*COMMANDS[name], "--keep", "e.parquet")
    first = json.loads(run(*words, "--json").stdout)
    made, when = len(searches), Path("e.parquet").stat().st_mtime_ns
    assert made == 1
    second = json.loads(run(*words, "--json", "--seconds", "1e-9").stdout)
    assert len(searches) == made
    assert Path("e.parquet").stat().st_mtime_ns == when  # nothing new, so nothing is written
    assert json.dumps(first).split('"method"')[1] == json.dumps(second).split('"method"')[1]
    for one, other in zip(_numbers(first), _numbers(second), strict=True):
        assert one == pytest.approx(other, rel=1e-9, abs=1e-9)
    run("ask", "s.toml", "t.parquet", "hour=3", "--keep", "e.parquet")
    assert len(searches) == made + 1


def _numbers(document: dict[str, Any]) -> list[Any]:
    """Values and ends of intervals in a document."""
    parts = document.get("answers", [document])
    names = ("value", "values", "low", "high")
    return [np.asarray(part[name]) for part in parts for name in names if name in part]


def test_a_kept_estimate_of_another_tally_is_refused(run: Run) -> None:
    run("ask", "s.toml", "t.parquet", "age=3", "--keep", "e.parquet")
    before = Path("e.parquet").read_bytes()
    result = run("ask", "s.toml", "other.parquet", "age=3", "--keep", "e.parquet", ok=False)
    assert result.exit_code == 2
    assert "decoded from another tally of study 'kept'" in result.output
    assert Path("e.parquet").read_bytes() == before


def test_files_that_nothing_is_kept_in_are_refused(run: Run) -> None:
    for words, message in (
        (("--keep", "t.parquet"), "is also an input"),
        (("--keep", "e.txt"), ".parquet"),
        (("--keep", "none/e.parquet"), "there is no folder"),
        (("--keep", "other.parquet"), "holds a tally, but a decoded estimate must be given"),
        (("--keep", "e.parquet", "--method", "unbiased"), "decodes nothing"),
    ):
        result = run("ask", "s.toml", "t.parquet", "age=3", *words, ok=False)
        assert result.exit_code == 2
        assert message in result.output
    assert sf.Tally.load("other.parquet", sf.Study.load("s.toml")).n == 500


def test_nobody_is_not_kept(run: Run) -> None:
    result = run("ask", "s.toml", "nobody.parquet", "age=3", "--keep", "e.parquet")
    assert "no reports" in result.stdout
    assert not Path("e.parquet").exists()
