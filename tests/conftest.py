"""What all tests share: reproducible randomness, examples in pages, and the record of a soak."""

from __future__ import annotations

import contextlib
import doctest
import gc
import hashlib
import json
import os
import platform
import re
import secrets
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from benchmarks.recording import origin

hypothesis.settings.register_profile("test", derandomize=True, deadline=None)
hypothesis.settings.register_profile("soak", deadline=None, max_examples=2_000, print_blob=True)
hypothesis.settings.load_profile("test")

FIXED_SEED = 20_200_101
FENCE = re.compile(r"^\s*```(\w*)")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("soak")
    group.addoption("--soak-seed", type=int, help="repeat a soak with the seed it printed")
    group.addoption("--soak-results", type=Path, help="folder for the JSON record of this run")


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # until all tests are collected
    # Registered here and not as plain hooks: those of a conftest do not reach src/ and docs/.
    config.pluginmanager.register(Examples(), "sfumato-examples")
    if "SFUMATO_CACHE" not in os.environ:  # tests leave a person's own cache alone
        folder = tempfile.TemporaryDirectory(prefix="sfumato-tests-")
        config.add_cleanup(folder.cleanup)
        os.environ["SFUMATO_CACHE"] = folder.name
    if config.option.markexpr == "soak":
        if config.option.soak_seed is None:
            config.option.soak_seed = secrets.randbits(32)  # workers of xdist inherit it
        if not hasattr(config, "workerinput"):
            config.pluginmanager.register(SoakRecord(config), "sfumato-soak")


def pytest_collection_finish() -> None:
    # Thousands of tests stay to the end: the collector of cycles need not look at them again.
    gc.freeze()
    gc.enable()


def pytest_report_header(config: pytest.Config) -> str | None:
    seed = config.option.soak_seed
    return None if seed is None else f"soak seed: {seed} (repeat with make soak SEED={seed})"


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """A seed of the test's own: the same on every run, except in a soak, where it is fresh."""
    base = request.config.option.soak_seed
    name = f"{FIXED_SEED if base is None else base}:{request.node.nodeid}"
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")


@pytest.fixture
def record_property(
    record_property: Callable[[str, object], None],
) -> Callable[[str, object], None]:
    """As pytest's own, with all that NumPy made as plain numbers, which workers can send home."""

    def plain(value: Any) -> object:
        return value.tolist()

    def record(name: str, value: object) -> None:
        record_property(name, json.loads(json.dumps(value, default=plain)))

    return record


class Examples:
    """Runs the examples of modules and pages, each in a folder of its own."""

    # A fixture for all tests would be set up for each of the many that are no examples too.
    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        if not isinstance(item, pytest.DoctestItem | PageExamples):
            return (yield)
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            return (yield)

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> Page | None:
        return Page.from_parent(parent, path=file_path) if file_path.suffix == ".md" else None


class Page(pytest.File):
    """A Markdown page, one test if it has examples."""

    def collect(self) -> Iterator[PageExamples]:
        text = without_fences(self.path.read_text(encoding="utf-8"), self.path.name)
        name = self.path.name
        test = doctest.DocTestParser().get_doctest(text, {}, name, str(self.path), 0)
        if test.examples:
            yield PageExamples.from_parent(self, name="examples", test=test)


class PageExamples(pytest.Item):
    """All examples of one page, in order, sharing their names as a reader would."""

    def __init__(self, *, test: doctest.DocTest, **rest: Any) -> None:
        super().__init__(**rest)
        self.test = test

    def runtest(self) -> None:
        output: list[str] = []
        runner = doctest.DocTestRunner(
            verbose=False, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        )
        runner.run(self.test, out=output.append)
        if output:
            pytest.fail("".join(output), pytrace=False)


def without_fences(text: str, page: str) -> str:
    """The page with its fence lines blank, so that doctest does not expect them as output."""
    lines = text.splitlines()
    opened: int | None = None
    for number, line in enumerate(lines):
        fence = FENCE.match(line)
        if not fence:
            continue
        if opened is None:
            opened, language = number, fence[1]
        else:
            prompts = any(">>> " in code for code in lines[opened + 1 : number])
            if language == "python" and not prompts:
                raise ValueError(f"{page}, line {opened + 1}: python without >>> never runs")
            lines[opened] = lines[number] = ""
            opened = None
    if opened is not None:
        raise ValueError(f"{page}, line {opened + 1}: this code block is never closed")
    return "\n".join(lines) + "\n"


class SoakRecord:
    """Keeps what a soak found: seed, outcomes, and what tests say with `record_property`."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.started = datetime.now(UTC)
        self.tests: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            self.tests.append(
                {
                    "test": report.nodeid,
                    "phase": report.when,
                    "outcome": report.outcome,
                    "seconds": round(report.duration, 3),
                    "properties": dict(report.user_properties),
                }
            )

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        folder = self.config.option.soak_results
        if folder is None or not self.tests:
            return
        folder.mkdir(parents=True, exist_ok=True)
        seed = self.config.option.soak_seed
        record = {
            **origin(f"make soak SEED={seed}"),
            "seed": seed,
            "started": self.started.isoformat(timespec="seconds"),
            "python": platform.python_version(),
            "exit_status": int(exitstatus),
            "tests": sorted(self.tests, key=lambda test: test["test"]),
        }
        path = folder / f"{self.started:%Y%m%dT%H%M%SZ}-{seed}.json"
        path.write_text(json.dumps(record, indent=2, default=str) + "\n", encoding="utf-8")
