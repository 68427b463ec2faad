"""What is installed is locked by hash, listed in a bill of materials, and checked when possible."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import ComponentScope
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from supply import bill, browser, part, vulnerabilities
from supply.lock import LOCK, Package, read, stated_by

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
# Python 3.11 to 3.13 on Linux and macOS, each on two processors.
ENVIRONMENTS = [
    {
        "python_version": version,
        "python_full_version": f"{version}.1",
        "sys_platform": system,
        "platform_system": {"linux": "Linux", "darwin": "Darwin"}[system],
        "platform_machine": machine,
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "os_name": "posix",
    }
    for version in ("3.11", "3.12", "3.13")
    for system, arm in (("linux", "aarch64"), ("darwin", "arm64"))
    for machine in ("x86_64", arm)
]


def stated() -> list[Requirement]:
    """All that the project needs: to run, to draw, to be built, checked and tested."""
    project = PROJECT["project"]
    lines = stated_by(project, *project["optional-dependencies"])
    return [Requirement(line) for line in [*lines, *PROJECT["build-system"]["requires"]]]


def test_every_package_in_the_lock_file_has_hashes() -> None:
    packages = read()
    assert len(packages) > 50
    for package in packages:
        assert package.hashes, package.name
        assert len(set(package.hashes)) == len(package.hashes)
        assert Version(package.version)


@pytest.mark.parametrize("line", ["numpy>=2", "-e .", "numpy==2 \\\n    --hash=md5:00"])
def test_a_lock_file_with_anything_else_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "requirements.lock"
    path.write_text(f"{line}\n", encoding="ascii")
    with pytest.raises(ValueError, match=r"is none of a lock file"):
        read(path)


@pytest.mark.parametrize("where", ENVIRONMENTS, ids=lambda e: "-".join(list(e.values())[::2][:3]))
def test_lock_file_covers_all_that_the_project_states(where: dict[str, str]) -> None:
    """One version of each package in every environment, and one that pyproject.toml allows."""
    here: dict[str, str] = {}
    for package in read():
        if not package.marker or Marker(package.marker).evaluate(where):
            assert package.name not in here
            here[package.name] = package.version
    for requirement in stated():
        if requirement.marker and not requirement.marker.evaluate(where):
            continue
        assert here[canonicalize_name(requirement.name)] in requirement.specifier
    for package in read():
        if package.name in here:
            assert any(parent in here or parent == "sfumato" for parent in package.parents)


def test_no_address_is_in_the_lock_file() -> None:
    for path in (LOCK, bill.BILL):
        assert not re.search(r"https?:|file:|index-url|find-links", path.read_text("utf-8"))


def test_bill_of_materials_is_that_of_the_lock_file() -> None:
    assert bill.BILL.read_text(encoding="utf-8") == bill.text(), "run make lock"
    held = Bom.from_json(json.loads(bill.text()))  # type: ignore[attr-defined]
    listed = {(part.name, part.version) for part in held.components}
    assert listed == {(package.name, package.version) for package in read()}
    assert held.metadata.component.name == "sfumato"
    held.validate()


def test_bill_of_materials_tells_what_runs_from_what_checks() -> None:
    held = Bom.from_json(json.loads(bill.text()))  # type: ignore[attr-defined]
    scopes = {part.name: part.scope for part in held.components}
    for name in ("typer", "lazy-loader", "pygments"):  # pygments by way of rich
        assert scopes[name] == ComponentScope.REQUIRED
    for name in ("numpy", "starlette", "cffi"):  # cffi by way of cryptography
        assert scopes[name] == ComponentScope.OPTIONAL
    for name in ("pytest", "mypy", "pluggy"):
        assert scopes[name] == ComponentScope.EXCLUDED


@pytest.mark.parametrize("where", ENVIRONMENTS, ids=lambda e: "-".join(list(e.values())[::2][:3]))
def test_part_of_the_lock_file_is_complete_for_the_demo(where: dict[str, str]) -> None:
    held = part.part(read(), ["server"])
    here = {p.name for p in held if not p.marker or Marker(p.marker).evaluate(where)}
    wanted = stated_by(PROJECT["project"], "server")
    assert {canonicalize_name(Requirement(line).name) for line in wanted} <= here
    assert {
        "hatchling",
        "editables",
        "pillow",
        "cffi",
        "psycopg-binary",
    } <= here  # two by way of others
    assert not {"pytest", "pyspark", "mypy", "duckdb"} & {package.name for package in held}
    assert "supply.part server >" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_part_of_the_lock_file_has_its_versions_and_hashes(tmp_path: Path) -> None:
    path = tmp_path / "part.lock"
    held = part.part(read(), ["analyst"])
    path.write_text("\n".join(part.lines(held)) + "\n", encoding="ascii")
    assert read(path) == [replace(package, parents=()) for package in held]


def vulnerable(*found: dict[str, Any]) -> str:
    return json.dumps({"dependencies": list(found)})


CLEAN = {"name": "numpy", "version": "2", "vulns": []}
KNOWN = {
    "name": "rich",
    "version": "1",
    "vulns": [{"id": "PYSEC-1", "fix_versions": ["2"]}, {"id": "PYSEC-2", "fix_versions": []}],
}
UNKNOWN = {"name": "qif", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("output", "errors", "code", "words"),
    [
        (vulnerable(CLEAN), "", 0, "no known vulnerabilities in 1 packages"),
        (vulnerable(CLEAN, KNOWN), "", 1, "rich 1: PYSEC-1, fixed in 2\nrich 1: PYSEC-2, fixed in"),
        (vulnerable(CLEAN, UNKNOWN), "", 0, "in 1 packages; not checked: qif"),
        (vulnerable(UNKNOWN), "", 0, "not checked: the database of vulnerabilities knows none"),
        ("", "requests.exceptions.ConnectionError: x", 0, "not checked: the database of"),
        ("", "TypeError: x", 2, "not checked: pip-audit failed"),
        ("[]", "", 2, "not checked: pip-audit failed"),
    ],
)
def test_check_for_vulnerabilities_says_what_it_found(
    output: str, errors: str, code: int, words: str
) -> None:
    found = vulnerabilities.judged(output, errors)
    assert found[0] == code
    assert words in found[1]


def test_check_for_vulnerabilities_asks_for_every_version_once() -> None:
    twice = [Package("a", "1", "x", (), ()), Package("b", "3", "", (), ())]
    lists = list(vulnerabilities.pins([*twice, Package("a", "2", "y", (), ())]))
    assert lists == ["a==1\nb==3\n", "a==2\n"]
    lines = "".join(vulnerabilities.pins(read())).splitlines()
    assert sorted(lines) == sorted(f"{p.name}=={p.version}" for p in read())


@pytest.mark.slow
def test_check_for_vulnerabilities_without_a_network_says_so_and_passes() -> None:
    """Behind a proxy that nobody runs."""
    nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9")
    nowhere |= {name.lower(): address for name, address in nowhere.items()}
    kept = {k: v for k, v in os.environ.items() if k.lower() != "no_proxy"}
    run = subprocess.run(
        [sys.executable, "-m", "supply.vulnerabilities"],
        cwd=ROOT,
        env={**kept, **nowhere},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "not checked: the database of vulnerabilities cannot be reached" in run.stdout
    assert "no known vulnerabilities" not in run.stdout


class TestBrowser:
    """Where Chromium comes from; the tests in tests/js run the one that is found."""

    @pytest.fixture
    def asked(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
        """A machine without a Chromium; what is asked to install one."""
        found: list[str] = []
        monkeypatch.delenv("SFUMATO_BROWSER", raising=False)
        monkeypatch.setattr(browser, "NAMES", ())
        monkeypatch.setattr(browser, "FOLDER", tmp_path)
        monkeypatch.setattr(browser, "_from_debian", lambda: found.append("debian"))
        monkeypatch.setattr(browser, "_from_npm", lambda: found.append("npm"))
        return found

    @pytest.mark.parametrize(("user", "first"), [(0, "debian"), (1000, "npm")])
    def test_root_asks_debian_and_others_ask_npm(
        self, user: int, first: str, asked: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "getuid", lambda: user)
        monkeypatch.setattr(browser, "PACKAGES", Path("/"))  # this machine has Debian's
        assert browser.install() is None
        assert asked[0] == first

    def test_root_without_debian_asks_npm(
        self, asked: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr(os, "getuid", lambda: 0)
        monkeypatch.setattr(browser, "PACKAGES", tmp_path / "none")
        assert browser.install() is None
        assert asked == ["npm"]

    def test_one_that_is_unpacked_or_named_is_taken(
        self, asked: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        (tmp_path / "run").touch()
        assert browser.install() == tmp_path / "run"
        monkeypatch.setenv("SFUMATO_BROWSER", "/opt/mine")
        assert browser.install() == Path("/opt/mine")
        assert asked == []

    def test_none_is_said_with_the_remedy(
        self, asked: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert browser.main() == 0
        assert "SFUMATO_NO_BROWSER=1" in capsys.readouterr().err
        monkeypatch.setenv("SFUMATO_BROWSER", "/opt/none")
        with pytest.raises(FileNotFoundError, match="names '/opt/none', which is not there"):
            browser.browser({}).__enter__()

    def test_none_is_asked_for_where_it_is_not_wanted(
        self, asked: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SFUMATO_NO_BROWSER", "1")
        assert browser.main() == 0
        assert asked == []
