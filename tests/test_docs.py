"""The pages are true: what is generated is current, what is shown is real, nothing is left out."""

from __future__ import annotations

import doctest
import re
import shlex
from collections.abc import Iterator
from inspect import ismodule
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from regenerate_docs import DOCS, command_names, pages
from typer.testing import CliRunner

import sfumato as sf
from sfumato.channels.choice import REGISTRY
from sfumato.cli import app
from sfumato.cli.language import FORMS
from sfumato.metrics.base import Metric

ROOT = DOCS.parent
PAGES = sorted(DOCS.rglob("*.md"))
WRITTEN = [page for page in PAGES if page.parent.name != "reference"]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+\s+(.*)$", re.MULTILINE)
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def written() -> str:
    """All pages that people wrote: the generated ones name everything by themselves."""
    return "\n".join(page.read_text(encoding="utf-8") for page in WRITTEN)


def code_in(text: str) -> str:
    """What stands in code, be it in a block or in a line."""
    blocks = [found[2] for found in BLOCK.finditer(text)]
    return "\n".join(blocks + re.findall(r"`([^`\n]+)`", BLOCK.sub("", text)))


def missing(names: list[str], text: str) -> list[str]:
    """Names that do not occur as whole words."""
    return [name for name in names if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text)]


def slug(heading: str) -> str:
    """The anchor that a heading gets."""
    plain = re.sub(r"[^\w\s-]", "", heading.replace("`", "")).strip().lower()
    return re.sub(r"[\s-]+", "-", plain)


# What is documented


def test_every_public_name_is_in_the_pages_that_people_wrote() -> None:
    assert missing(sorted(sf.__all__), code_in(written())) == []


def test_every_command_is_shown_in_use() -> None:
    used = re.findall(r"\bsfumato ([a-z]+)", code_in(written()))
    assert sorted(set(command_names()) - set(used)) == []


def test_every_metric_has_a_worked_example() -> None:
    page = (DOCS / "choose-a-metric.md").read_text(encoding="utf-8")
    metrics = [name for name in sf.__all__ if Metric in getattr(getattr(sf, name), "__mro__", ())]
    assert len(metrics) >= 10
    assert missing(metrics, "\n".join(HEADING.findall(page))) == []
    code = "".join(found[2] for found in BLOCK.finditer(page))
    assert [name for name in metrics if f"{name}(" not in code] == []


def test_every_channel_is_named_as_python_and_files_name_it() -> None:
    code = code_in((DOCS / "how-to.md").read_text(encoding="utf-8"))
    ids = [choice.id for choice in REGISTRY.values()]
    assert missing(ids, code) == []
    assert missing([choice.__name__ for choice in REGISTRY.values()], code) == []
    assert missing(ids, code_in((DOCS / "files.md").read_text(encoding="utf-8"))) == []


def test_every_error_says_what_it_means() -> None:
    page = (DOCS / "how-to.md").read_text(encoding="utf-8")
    errors = [name for name in sf.__all__ if name.endswith("Error")]
    assert len(errors) >= 7
    assert missing(errors, code_in(page)) == []


def test_every_kind_of_value_is_in_the_description_of_files() -> None:
    assert missing(list(FORMS), code_in((DOCS / "files.md").read_text(encoding="utf-8"))) == []


def test_every_file_that_the_architecture_names_is_there() -> None:
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    named = {found for found in re.findall(r"`([^`\s]+)`", page) if re.search(r"/$|\.pyi?$", found)}
    assert len(named) > 100
    places = (ROOT / "src" / "sfumato", ROOT)
    assert [name for name in named if not any((place / name).exists() for place in places)] == []


def test_the_architecture_names_every_package_and_module() -> None:
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    source = ROOT / "src" / "sfumato"
    files = [file.relative_to(source) for file in source.rglob("*.py")]
    packages = {f"{file.parent.as_posix()}/" for file in files} - {"./"}
    own = {file.as_posix() for file in files if file.name != "__init__.py"}
    assert [name for name in sorted(packages | own) if f"`{name}`" not in page] == []


# What is generated, shown and linked


@pytest.mark.slow
@pytest.mark.parametrize("path", list(pages()), ids=lambda path: path.name)
def test_generated_pages_are_current(path: Path) -> None:
    current = path.read_text(encoding="utf-8") if path.exists() else ""
    assert current == pages()[path], "run: python tests/regenerate_docs.py"


@pytest.mark.slow
@pytest.mark.parametrize("module", [sf.bounds, sf.central, sf.central.accuracy, sf.questions])
def test_public_names_of_modules_are_in_the_reference(module: ModuleType) -> None:
    page = pages()[DOCS / "reference" / "api.md"]
    listed = set(re.findall(rf"^::: {re.escape(module.__name__)}\.(\w+)$", page, re.MULTILINE))
    assert listed == {name for name in module.__all__ if not ismodule(getattr(module, name))}


@pytest.mark.slow
def test_the_command_line_page_has_help_without_colours() -> None:
    text = pages()[DOCS / "reference" / "command-line.md"]
    assert "\x1b" not in text
    assert [name for name in command_names() if f"Usage: sfumato {name} " not in text] == []


@pytest.mark.slow
def test_commands_in_the_tutorial_print_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    seen = 0
    for command, shown, printed in replay(DOCS / "tutorial.md"):
        assert doctest.OutputChecker().check_output(shown, printed, SAME), (
            f"$ {command}\nprints\n{printed}\nand the page shows\n{shown}"
        )
        seen += 1
    assert seen >= 8


def replay(page: Path) -> Iterator[tuple[str, str, str]]:
    """Run a page from top to bottom: each command, the output shown, and the output it has."""
    names: dict[str, object] = {}
    environment = {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        if block[1] == "python":
            for example in doctest.DocTestParser().get_examples(block[2]):
                # Only for the files it leaves: the examples of the page are a test of their own.
                exec(compile(example.source, page.name, "exec"), names)
        elif block[1] == "console":
            for part in re.split(r"^\$ ", block[2], flags=re.MULTILINE)[1:]:
                command, _, shown = part.replace("\\\n", " ").partition("\n")
                words = shlex.split(command)
                assert words[0] == "sfumato"
                result = CliRunner().invoke(app, words[1:], env=environment, prog_name="sfumato")
                assert result.exit_code == 0, f"$ {command}\n{result.output}"
                yield command, shown, result.output


def test_study_files_shown_in_pages_are_what_the_package_writes() -> None:
    blocks = [
        block[2]
        for page in WRITTEN
        for block in BLOCK.finditer(page.read_text(encoding="utf-8"))
        if block[1] == "toml"
    ]
    assert blocks
    for text in blocks:
        assert sf.Study.from_toml(text).to_toml().strip() == text.strip()


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name
)
def test_relative_links_lead_somewhere(page: Path) -> None:
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    broken = []
    for link in LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        place, _, anchor = link.partition("#")
        target = (page.parent / place).resolve() if place else page
        anchors = set()
        if target.suffix == ".md" and target.exists():
            there = BLOCK.sub("", target.read_text(encoding="utf-8"))
            anchors = {slug(heading) for heading in HEADING.findall(there)}
        if not target.exists() or (anchor and anchor not in anchors):
            broken.append(link)
    assert broken == []


def test_every_page_is_in_the_navigation() -> None:
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    listed = sorted(_leaves(settings["nav"]))
    assert listed == sorted(str(page.relative_to(DOCS).as_posix()) for page in PAGES)


def _leaves(tree: object) -> Iterator[str]:
    """The pages that a navigation lists."""
    if isinstance(tree, str):
        yield tree
    else:
        for branch in tree.values() if isinstance(tree, dict) else tree:  # type: ignore[attr-defined]
            yield from _leaves(branch)
