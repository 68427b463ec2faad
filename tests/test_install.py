"""What people install: the wheel, the source distribution, and the light core without extras."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tarfile
import tomllib
from email.parser import Parser
from pathlib import Path

import pytest
from helpers_install import ROOT, build, environment, run, unpack
from packaging.utils import canonicalize_name

import sfumato as sf
from sfumato.cli.commands import COMMANDS
from sfumato.extras import EXTRAS
from supply.lock import name_of, stated_by

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MOST_MEGABYTES = 60

#: A core without any library of an extra, whatever this environment holds.
BARE = f"""
import sys
for library in {sorted(EXTRAS)!r}:
    sys.modules[library] = None
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("wheel"), "wheel")


def test_the_version_is_the_same_everywhere() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    package = json.loads((ROOT / "js" / "package.json").read_text(encoding="utf-8"))
    assert PROJECT["version"] == sf.__version__ == package["version"]
    assert f"\nversion: {sf.__version__}\n" in citation
    assert f"\n## [{sf.__version__}]" in changes


@pytest.mark.slow
def test_every_library_of_an_extra_is_named_and_brought_by_it() -> None:
    """What the source imports is of the core, the standard library, or an extra that states it."""
    core = {name_of(line).replace("-", "_") for line in stated_by(PROJECT)}
    found = set()
    for file in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add((node.module or "").partition(".")[0])
    # A table of these is accepted, and none is imported but to recognise one that was brought;
    # py4j comes with PySpark, and rich with typer.
    brought = {"pandas", "polars", "py4j"}
    others = found - set(sys.stdlib_module_names) - core - brought - {"sfumato"}
    assert others <= set(EXTRAS), others - set(EXTRAS)
    for library, extra in EXTRAS.items():
        stated = {name_of(line) for line in stated_by(PROJECT, extra)}
        assert canonicalize_name(library) in stated, library


@pytest.mark.slow
def test_the_wheel_has_all_of_the_package_and_nothing_else(wheel: Path, tmp_path: Path) -> None:
    names = unpack(wheel, tmp_path)
    own = {
        str(file.relative_to(ROOT / "src"))
        for file in (ROOT / "src" / "sfumato").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    info = f"sfumato-{sf.__version__}.dist-info"
    assert {name for name in names if not name.startswith(info)} == own
    for name in ("sfumato/py.typed", "sfumato/__init__.pyi", "sfumato/js/sfumato.js"):
        assert name in names
    told = Parser().parsestr((tmp_path / info / "METADATA").read_text(encoding="utf-8"))
    stated = [line for line in told.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert {name_of(line) for line in stated} == {"lazy-loader", "typer", "rich"}
    assert set(told.get_all("Provides-Extra", [])) == set(PROJECT["optional-dependencies"])
    assert (tmp_path / info / "licenses" / "LICENSE").is_file()


@pytest.mark.slow
def test_the_source_distribution_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(build(ROOT, tmp_path, "sdist")) as held:
        held.extractall(tmp_path, filter="data")
    root = tmp_path / f"sfumato-{sf.__version__}"
    again = build(root, tmp_path / "again", "wheel")
    assert unpack(again, tmp_path / "b") == unpack(wheel, tmp_path / "a")
    for file in (tmp_path / "a").rglob("*"):
        if file.is_file():
            assert (
                file.read_bytes()
                == (tmp_path / "b" / file.relative_to(tmp_path / "a")).read_bytes()
            )
    for name in ("tests/conftest.py", "docs/tutorial.md", "Makefile", "supply/requirements.lock"):
        assert (root / name).is_file()


@pytest.mark.slow
def test_the_wheel_runs_the_demo(wheel: Path, tmp_path: Path) -> None:
    """As after `pip install 'sfumato[analyst]'`, which brings nothing for the collector."""
    unpack(wheel, tmp_path / "site")
    server = [library for library, extra in EXTRAS.items() if extra == "server"]
    code = (
        f"import sys\nfor library in {server!r}:\n    sys.modules[library] = None\n"
        "import sfumato\nassert 'site' in sfumato.__file__, sfumato.__file__\n"
        "from sfumato.cli import main\nmain()"
    )
    words = ["demo", "--out", "tour", "--people", "2000"]
    done = run(sys.executable, "-c", code, *words, cwd=tmp_path, PYTHONPATH=str(tmp_path / "site"))
    assert done.returncode == 0, done.stderr[-2_000:]
    assert "pip install 'sfumato[server]'" in " ".join(done.stdout.split())
    assert (tmp_path / "tour" / "index.html").stat().st_size > 100_000


@pytest.mark.slow
def test_the_core_alone_is_light_and_does_what_a_device_does(wheel: Path, tmp_path: Path) -> None:
    """A new environment with nothing but the core: a report of a program, and clear words else."""
    python = environment(tmp_path / "core", sys.executable, [], [], wheel)
    site = next((tmp_path / "core" / "lib").glob("python*/site-packages"))
    own = [folder for folder in site.iterdir() if not folder.name.startswith(("pip", "setuptools"))]
    size = sum(
        file.stat().st_size
        for folder in own
        for file in (folder.rglob("*") if folder.is_dir() else [folder])
        if file.is_file()
    )
    assert size < MOST_MEGABYTES * 10**6
    study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.2))])
    program = study.device_program()
    (tmp_path / "ages.json").write_text(program.to_text(), encoding="utf-8")
    code = f"""
import sfumato as sf
program = sf.Program.read(open("ages.json").read(), digest={program.digest!r})
assert len(program.encode({{"age": 31}})) == {program.report_size}
with sf.Client(program, "http://localhost:9", folder="kept", digest=program.digest) as client:
    client.report({{"age": 31}})
try:
    sf.Study
except sf.MissingExtraError as error:
    print(error)
"""
    done = run(python, "-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (
        done.stdout == "this needs numpy, which is not installed: pip install 'sfumato[analyst]'\n"
    )
    command = tmp_path / "core" / "bin" / "sfumato"
    assert run(command, "--version", cwd=tmp_path).stdout == f"sfumato {sf.__version__}\n"
    refused = run(command, "demo", "--json", cwd=tmp_path)
    assert refused.returncode == 2
    assert "pip install 'sfumato[analyst]'" in json.loads(refused.stdout)["error"]


@pytest.mark.slow
def test_every_command_of_the_core_alone_names_the_extra() -> None:
    code = f"""{BARE}
from typer.testing import CliRunner
from sfumato.cli import app
for command in {sorted(COMMANDS)!r}:
    done = CliRunner().invoke(app, [command, "--help"])
    assert done.exit_code == 2, (command, done.output)
    assert "pip install 'sfumato[" in " ".join(done.output.split()), (command, done.output)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2_000:]
