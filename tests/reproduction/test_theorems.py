"""docs/theorems.md is complete and true: functions and tests exist, no statement is left out."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

from sfumato.reproduction.table import EXHIBITS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "theorems.md").read_text(encoding="utf-8")

#: How many statements of each kind a paper numbers; they begin at 1.
COMPLETE = {
    "Xiang et al. 2020": {"Definition": 2, "Proposition": 5, "Theorem": 5, "Lemma": 2, "Table": 2},
    "Cormode et al. 2019": {"Definition": 2, "Fact": 3, "Lemma": 3, "Theorem": 2, "Equation": 3},
    "Acharya et al. 2020": {"Definition": 4, "Theorem": 4, "Proposition": 5, "Table": 1},
    "Kamalaruban et al. 2020": {"Definition": 11, "Theorem": 11, "Proposition": 1},
}


def rows(paper: str, page: str = PAGE) -> list[list[str]]:
    """The cells of a paper's table."""
    part = page.split(f"\n## {paper}\n")[1].split("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("| ")][2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def resolved(name: str) -> object:
    """What a dotted name stands for: a module, or what modules and their members hold."""
    parts = name.split(".")
    found: object = importlib.import_module(parts[0])
    for place, part in enumerate(parts[1:], start=2):
        if not hasattr(found, part):
            found = importlib.import_module(".".join(parts[:place]))
            continue
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("paper", COMPLETE)
def test_every_statement_of_a_paper_is_listed(paper: str) -> None:
    listed = [row[0] for row in rows(paper)]
    wanted = {f"{kind} {n}" for kind, most in COMPLETE[paper].items() for n in range(1, most + 1)}
    assert wanted - set(listed) == set()
    assert len(set(listed)) == len(listed)


@pytest.mark.parametrize("paper", COMPLETE)
def test_functions_exist(paper: str) -> None:
    for row in rows(paper):
        names = re.findall(r"`([^`]+)`", row[1])
        assert names, row[0]
        assert all(resolved(name) is not None for name in names)


@pytest.mark.parametrize("paper", COMPLETE)
def test_checks_exist(paper: str) -> None:
    exhibits = {exhibit.id for exhibit in EXHIBITS}
    for row in rows(paper):
        (check,) = re.findall(r"`([^`]+)`", row[-1])
        if "::" not in check:
            assert check in exhibits
            continue
        file, name = check.split("::")
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert name in {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}, check


def test_a_name_that_is_not_there_would_be_found() -> None:
    with pytest.raises(ModuleNotFoundError):
        resolved("sfumato.bounds.xiang_theorem_9")
    assert "Theorem 2" in [row[0] for row in rows("Acharya et al. 2020")]
