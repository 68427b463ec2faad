"""Options that no command can use: exit code 2, one error of our own, and nothing to obey."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli import app

NO_NUMBERS = (
    "1e300000000",
    "1e-300000000",
    "9" * 100_000,
    "1_000",
    "٣",
    " 1 ",
    "0x10",
    "nan",
    "inf",
    "1/0",
    "1/3e999999",
    "",
    "[/b]",
    "\x1b[31m",
)
ASK = ("ask", "s.toml", "t.parquet", "age=20", "--method", "unbiased")
NEW = ("new", "n.toml", "--force", "--axis")
LINES = {
    "people": ("plan", "s.toml", "--people", "@"),
    "want": ("plan", "s.toml", "--people", "100", "--want", "@"),
    "level": (*ASK, "--level", "@"),
    "runs": ("plan", "s.toml", "--people", "100", "--method", "likelihood", "--runs", "@"),
    "seed": ("encode", "s.toml", "p.csv", "--out", "r.parquet", "--force", "--seed", "@"),
    "share": ("quantile", "s.toml", "t.parquet", "age", "@", "--method", "unbiased"),
    "bins": ("histogram", "s.toml", "t.parquet", "age", "--bins", "@", "--method", "unbiased"),
    "spend": ("release", "s.toml", "p.csv", "--spend", "@", "--ask", "age=20", "--plan"),
    "total": ("ledger", "new", "n.ledger", "s.toml", "--total", "@"),
    "question": ("ask", "s.toml", "t.parquet", "age=@..30", "--method", "unbiased"),
    "epsilon": (*NEW, "age: integers 0..9, distance @"),
    "bound": (*NEW, "age: integers @..9, distance 1"),
    "edge": (*NEW, "age: reals edges -1|0|@, distance 1"),
    "step": (*NEW, "day: dates 2024-01-01..2024-01-31 by @, distance 1"),
    "option of a channel": (*NEW, "age: integers 0..9, uniform 1, channel olh g=@"),
    "expected": (*NEW, "age: integers 0..9, distance 1", "--people", "@"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LINES)
def test_what_is_no_number_is_refused_by_every_option(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    study = sf.Study("s", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
    study.save("s.toml")
    study.simulate({"age": [1, 2, 3]}, seed=1).save("t.parquet")
    Path("p.csv").write_text("age\n1\n2\n")
    for given in NO_NUMBERS:
        if not given.strip() or given == " 1 ":
            given = "1 2"
        ran = CliRunner().invoke(app, [word.replace("@", given) for word in LINES[name]])
        assert isinstance(ran.exception, SystemExit), given[:30]
        assert ran.exit_code == 2, given[:30]
        assert len(ran.output) < 5_000
        assert "\x1b" not in ran.output


def test_the_form_of_a_share_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sf.Study("s", [sf.integers("age", 0, 9, protect=sf.Distance(1))]).save("s.toml")
    words = ["release", "s.toml", "p.csv", "--spend", "bla", "--ask", "age=2"]
    ran = CliRunner().invoke(app, words)
    assert "such as 1/4, or one for each axis such as age=1/4,sex=1/8, got 'bla'" in ran.stderr
