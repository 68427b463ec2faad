"""The registry of metrics: a user's own class is saved, loaded and named like a built-in one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import pytest

import sfumato as sf
from sfumato.cli.language import parse_axis
from sfumato.domains.base import Domain
from sfumato.exact import positive, to_plain
from sfumato.metrics.base import Metric
from sfumato.metrics.cells import CellMetric, fractions_table
from sfumato.metrics.registry import REGISTRY, metric_from_dict, register

MODULE = """
import dataclasses, typing
from sfumato.exact import positive, to_plain
from sfumato.metrics.base import Metric
from sfumato.metrics.registry import register
from sfumato.metrics.uniform import UniformMetric

@register
@dataclasses.dataclass(frozen=True, repr=False)
class Flat(Metric):
    kind: typing.ClassVar[str] = "flat"
    epsilon: object

    def __post_init__(self):
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))

    def between(self, x, y):
        return 0.0 if x == y else float(self.epsilon)

    def bind(self, domain, *, optional):
        return UniformMetric(self.epsilon, domain.size + optional)

    def describe(self):
        return "flat"

    def to_dict(self):
        return {"kind": self.kind, "epsilon": to_plain(self.epsilon)}
"""


@dataclass(frozen=True, repr=False)
class Squared(Metric):
    """E is ε times the squared distance of two cells, which `bind` closes to a line."""

    kind: ClassVar[str] = "squared"
    epsilon: Fraction
    steps: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))

    def between(self, x: Any, y: Any) -> float:
        return float(self.epsilon * (x - y) ** 2)

    def bind(self, domain: Domain, *, optional: bool) -> CellMetric:
        cells = range(domain.size + optional)
        entries = [[self.epsilon * (i - j) ** 2 for j in cells] for i in cells]
        return fractions_table(entries, names=[str(cell) for cell in cells])

    def describe(self) -> str:
        return f"E = {to_plain(self.epsilon)} · squared distance"

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "epsilon": to_plain(self.epsilon), "steps": self.steps}


@pytest.fixture
def registered() -> Iterator[None]:
    register(Squared)
    yield
    del REGISTRY["squared"]


def study(protect: Metric) -> sf.Study:
    return sf.Study("own", [sf.integers("age", 0, 5, protect=protect)])


@pytest.mark.usefixtures("registered")
def test_a_study_with_its_own_metric_survives_its_file(tmp_path: Path) -> None:
    made = study(Squared("1/3", steps=2))
    made.save(tmp_path / "own.toml")
    again = sf.Study.load(tmp_path / "own.toml")
    assert again.fingerprint == made.fingerprint
    assert again.axes[0].protect == Squared(Fraction(1, 3), steps=2)
    assert again.axes[0].metric().exact(0, 2) == Fraction(2, 3)
    assert sf.audit(again).holds


@pytest.mark.usefixtures("registered")
def test_a_sum_of_metrics_may_hold_ones_own() -> None:
    both = Squared(1) + sf.Uniform(2)
    assert metric_from_dict(both.to_dict()) == both


def test_a_file_with_a_kind_that_nobody_registered_is_refused(
    registered: None, tmp_path: Path
) -> None:
    study(Squared(1)).save(tmp_path / "own.toml")
    del REGISTRY["squared"]
    try:
        with pytest.raises(
            sf.FormatError, match=r"'squared'.*module that registers it is imported"
        ):
            sf.Study.load(tmp_path / "own.toml")
    finally:
        register(Squared)


@pytest.mark.usefixtures("registered")
def test_a_kind_belongs_to_one_class() -> None:
    class Other(Squared):
        pass

    with pytest.raises(sf.StudyError, match="kind 'squared' is registered already"):
        register(Other)
    assert register(Squared) is Squared
    assert REGISTRY["squared"] is Squared


@pytest.mark.parametrize("kind", ["", "two words", None, 3])
def test_a_kind_is_one_word(kind: object) -> None:
    with pytest.raises(sf.StudyError, match="kind must be one word"):
        register(type("Bad", (Squared,), {"kind": kind}))


@pytest.mark.parametrize("thing", [3, int, sf.Uniform(1)])
def test_only_metrics_are_registered(thing: Any) -> None:
    with pytest.raises(sf.StudyError, match="must be a class derived from"):
        register(thing)


def test_a_metric_that_lacks_a_method_cannot_be_made() -> None:
    class Half(Metric):
        kind = "half"

    with pytest.raises(TypeError, match="abstract"):
        Half()  # type: ignore[abstract]


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("age: integers 0..5, protect squared epsilon=1/3 steps=2", Squared("1/3", steps=2)),
        ("age: integers 0..5, protect within epsilon=0.5 reach=2", sf.Within(0.5, 2)),
        ("a: categories ill|ok, protect high_low epsilon=1 sensitive=ill|", sf.HighLow(1, ["ill"])),
        ("day: dates 2024-01-01..2024-01-31, protect distance epsilon=1 per=7days",
         sf.Distance(1, "7 days")),
    ],
)  # fmt: skip
def test_an_axis_in_one_line_names_any_metric(text: str, expected: Metric) -> None:
    assert parse_axis(text).protect == expected


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ("protect sqaured epsilon=1", "axis 'age': unknown metric 'sqaured': did you mean 'squ"),
        ("protect squared", "axis 'age': squared needs the option 'epsilon'"),
        ("protect squared epsilon=1 reach=2", "axis 'age': squared has no option 'reach'"),
        ("protect squared epsilon 1", "axis 'age': metric 'squared': write OPTION=VALUE"),
        ("protect squared epsilon=1 epsilon=2", "may say 'epsilon' once"),
        ("protect squared epsilon=0", "axis 'age': epsilon must be positive"),
        ("protect squared epsilon=1, uniform 1", "protected twice; keep 'uniform' or 'protect'"),
        ("protect lp epsilon=1 p=2", "axis 'age': Lp speaks about whole records"),
    ],
)
def test_a_metric_in_one_line_is_refused_with_what_would_do(part: str, problem: str) -> None:
    with pytest.raises(sf.SfumatoError) as refused:
        parse_axis(f"age: integers 0..5, {part}")
    assert problem in str(refused.value)


def sfumato(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own, which knows only built-in metrics."""
    start = "import sys; from sfumato.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", start, *words], cwd=folder, capture_output=True, text=True
    )


@pytest.mark.slow
def test_the_command_line_imports_the_module_that_registers_a_metric(tmp_path: Path) -> None:
    (tmp_path / "flat_metric.py").write_text(MODULE)
    (tmp_path / "people.csv").write_text("mode\ncar\nbus\n")
    axis = "mode: categories car|bus, protect flat epsilon=1/2"
    made = sfumato(tmp_path, "--import", "flat_metric", "new", "s.toml", "--axis", axis)
    assert made.returncode == 0, made.stderr
    encode = ("encode", "s.toml", "people.csv", "--out", "r.parquet")
    done = sfumato(tmp_path, "--import", "flat_metric", *encode)
    assert done.returncode == 0, done.stderr
    refused = sfumato(tmp_path, *encode)
    assert refused.returncode == 2
    assert "kind of a metric must be known, got 'flat'" in " ".join(refused.stderr.split())
    absent = sfumato(tmp_path, "--import", "no_such_module", *encode)
    assert absent.returncode == 2
    assert "found no module 'no_such_module'" in " ".join(absent.stderr.split())
