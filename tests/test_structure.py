"""The structure holds: no cycles, no hidden imports, and a light import loads little.

The layers are a contract of import-linter in pyproject.toml, checked by `make check`.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.imports import OWN, TABLE, cycles, edges, modules, read_imports
from sfumato.cli.commands import COMMANDS

# Libraries that are optional, or too slow to load for an import that may not need them.
HEAVY = {"scipy", "pyarrow", "pandas", "matplotlib", "plotly", "rich", "typer"}
HEAVY |= {"distributed", "pyspark", "py4j"}


def loaded(program: str) -> set[str]:
    """The top-level packages, and the modules of sfumato, that a program loads."""
    code = f"{program}\nimport sys\nprint(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = found.stdout.splitlines()[-1].split()
    return {name if name.startswith("sfumato") else name.partition(".")[0] for name in names}


def inner_imports(file: Path) -> set[str]:
    """What is imported inside the functions of a file, by top-level package."""
    found = set()
    for function in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.ImportFrom):
                    found.add(
                        (node.module or "").partition(".")[0] if not node.level else "sfumato"
                    )
                elif isinstance(node, ast.Import):
                    found |= {alias.name.partition(".")[0] for alias in node.names}
    return found


@pytest.mark.slow
def test_no_modules_import_each_other_in_a_circle() -> None:
    assert cycles(edges(read_imports(modules(OWN)), "function", "typing")) == []


def test_a_circle_would_be_found(tmp_path: Path) -> None:
    package = tmp_path / "sfumato"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "a.py").write_text("def f():\n    from sfumato.b import g\n")
    (package / "b.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import c\n"
    )
    (package / "c.py").write_text("import sfumato.a\n")
    (package / "verbs.py").write_text("def f():\n    import sfumato.d\n")
    (package / "d.py").write_text("from sfumato.verbs import f\n")
    found = read_imports(modules(tmp_path))
    assert cycles(edges(found)) == []
    assert cycles(edges(found, "function")) == []
    three = ["sfumato.a", "sfumato.b", "sfumato.c"]
    assert [sorted(part) for part in cycles(edges(found, "function", "typing"))] == [three]


@pytest.mark.slow
def test_functions_import_only_what_is_heavy_or_optional() -> None:
    found = {name: inner_imports(file) - HEAVY for name, file in modules(OWN).items()}
    odd = {name for name, packages in found.items() if packages and name != TABLE}
    # They search, read and plan with what needs SciPy; a device does none of these.
    assert odd == {"sfumato.channels.searched.matrix_response", "sfumato.study.candidates"}
    assert found["sfumato.channels.searched.matrix_response"] == {"sfumato"}


def test_import_loads_neither_numpy_nor_a_part_of_the_package() -> None:
    found = loaded("import sfumato")
    own = {name for name in found if name.startswith("sfumato")}
    assert own == {"sfumato", "sfumato.errors", "sfumato.extras"}
    assert "numpy" not in found


@pytest.mark.parametrize("arguments", ["--help", "--version"])
def test_the_command_line_shows_its_help_without_numpy(arguments: str) -> None:
    found = loaded(f"""
from sfumato.cli import main
import sys
sys.argv = ["sfumato", "{arguments}"]
try:
    main()
except SystemExit:
    pass""")
    assert "typer" in found
    assert "numpy" not in found


@pytest.mark.slow
def test_encoding_one_record_loads_no_heavy_library() -> None:
    found = loaded("""
import sfumato as sf
study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.2))])
study.encode({"age": 31})""")
    assert found & HEAVY == set()


# Docstrings


def undocumented(source: str) -> list[str]:
    """Public functions and methods with two or more parameters and no `Args:`."""
    found = []

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                visit(node.body, f"{node.name}.")
            if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
                continue
            every = node.args
            names = [arg.arg for arg in (*every.posonlyargs, *every.args, *every.kwonlyargs)]
            names += [arg.arg for arg in (every.vararg, every.kwarg) if arg is not None]
            several = len([name for name in names if name not in ("self", "cls")]) > 1
            stub = any("overload" in ast.unparse(held) for held in node.decorator_list)
            if several and not stub and "Args:" not in (ast.get_docstring(node) or ""):
                found.append(f"{prefix}{node.name}")

    visit(ast.parse(source).body, "")
    return found


def test_functions_say_what_they_take() -> None:
    # The docstring of a command is its help, and every option has help of its own.
    missing = {
        name: [
            held
            for held in undocumented(file.read_text(encoding="utf-8"))
            if not (name.startswith("sfumato.cli.") and held in COMMANDS)
        ]
        for name, file in modules(OWN).items()
    }
    assert {name: held for name, held in missing.items() if held} == {}


def test_a_function_without_args_would_be_found() -> None:
    source = """
class Channel:
    def bind(self, metric, precision):
        '''Bind it.'''

    def encode(self, cells):
        '''Encode.'''

def _inner(a, b):
    pass

def told(a, *, b):
    '''Told.

    Args:
        a: One.
        b: Two.
    '''
"""
    assert undocumented(source) == ["Channel.bind"]
