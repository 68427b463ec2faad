"""Study files from outside: any text is read within bounds, or refused as damaged."""

from __future__ import annotations

import datetime as dt
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w

import sfumato as sf
from sfumato.domains.base import MOST_CELLS
from sfumato.exact import LARGEST
from sfumato.metrics.cells import MOST_TABLE_CELLS
from sfumato.study.choose import MOST_PEOPLE
from sfumato.study.files import schema_from_toml
from sfumato.study.schema import MOST_AXES, MOST_BYTES
from sfumato.text import MOST_LETTERS

HEAD = 'format = 1\nname = "s"\n'
AXIS = """
[[axes]]
name = "age"
domain = {kind = "integers", low = 0, high = 9}
protect = {kind = "uniform", epsilon = 1}
"""
KEPT = sorted((Path(__file__).parent / "kept").glob("*.study.toml"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (HEAD + "axes = " + "[" * 100_000, "nested too deeply"),
        (HEAD + "axes = " + "{a = " * 40_000, "nested too deeply"),
        (HEAD + "axes = " + "[" * 100_000 + "]" * 100_000, "nested too deeply"),
        (HEAD + "a." * 40_000 + "a = 1", "named by more than 8 words"),
        (HEAD + "[" + "a." * 40_000 + "a]", "named by more than 8 words"),
        (HEAD + '"a" . ' * 40_000 + "a = 1", "named by more than 8 words"),
        (HEAD + "".join(f"k{n} = 1\n" for n in range(60_000)), "more than 50,000 entries"),
        (HEAD + "".join(f"[k{n}]\n" for n in range(60_000)), "more than 50,000 entries"),
        (HEAD + "people = " + "9" * 10**6 + AXIS, "not valid TOML"),
        (HEAD + "people = 0x" + "f" * 10**6 + AXIS, "people must be a whole number"),
        (HEAD + "people = true" + AXIS, "people must be a whole number"),
        ("format = 0x" + "f" * 10**6, "newer than this package"),
        ("format = true", "does not say its format"),
        (HEAD + HEAD, "not valid TOML: Cannot overwrite a value"),
        (HEAD + AXIS + 'name = "other"', "not valid TOML: Cannot overwrite a value"),
        (HEAD + AXIS + "[axes.domain]", "not valid TOML"),
        (HEAD + "#" * (MOST_BYTES + 1), "at most 4 MiB"),
        (HEAD + AXIS * 2, "two axes are called 'age'"),
        (HEAD + AXIS.replace('"age"', '"' + "a" * 1001 + '"'), "at most 1,000 characters"),
        (HEAD + AXIS.replace("epsilon = 1", "epsilon = 1e400"), "positive and finite"),
        (HEAD + AXIS.replace("epsilon = 1", 'epsilon = "1e300000000"'), "at most 1,000 digits"),
        (HEAD + AXIS.replace("epsilon = 1", "epsilon = 0x" + "f" * 10**6), "1,000 digits"),
        (HEAD + AXIS.replace('kind = "uniform"', 'kind = "sum", parts = 3'), "parts|option"),
    ],
    ids=lambda part: repr(part)[:40],
)
def test_hostile_files_are_refused(text: str, says: str) -> None:
    with pytest.raises(sf.SfumatoError, match=says) as refused:
        sf.Study.from_toml(text)
    assert len(str(refused.value)) < 1_000


def test_quotes_and_comments_do_not_count_as_entries() -> None:
    label = ".".join("abcdefghijkl") + " = ]"
    axis = sf.categories("x", [label, '\'"""'], protect=sf.Uniform(1))
    study = sf.Study("a.b.c.d.e.f.g.h.i = 1 # [", [axis])
    text = study.to_toml() + "# " + "a." * 40_000 + " =" * 60_000
    assert sf.Study.from_toml(text) == study


def _parts(data: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all entries; of a list, the first two."""
    if at:
        yield at
    if isinstance(data, dict):
        for key, held in data.items():
            yield from _parts(held, (*at, key))
    elif isinstance(data, list):
        for place, held in enumerate(data[:2]):
            yield from _parts(held, (*at, place))


def _with(data: Any, at: tuple[Any, ...], value: Any) -> Any:
    """A copy with one entry replaced."""
    if not at:
        return value
    copy = dict(data) if isinstance(data, dict) else list(data)
    copy[at[0]] = _with(copy[at[0]], at[1:], value)
    return copy


VALUES: list[Any] = [
    -1,
    2**70,
    True,
    float("inf"),
    float("nan"),
    1e300,
    "",
    "x",
    "1e300000000",
    [],
    [[]],
    [1, 2],
    [["a", "b"]],
    {},
    {"kind": "x"},
    {"kind": [1]},
    {"kind": "sum", "parts": 3},
    dt.date(2024, 1, 1),
    dt.datetime(2024, 1, 1),
]


@pytest.mark.slow
@pytest.mark.parametrize("file", KEPT, ids=lambda file: file.name.partition(".")[0])
def test_entries_of_any_other_type_are_read_or_refused(file: Path) -> None:
    data = tomllib.loads(file.read_text())
    del data["fingerprint"]
    for at in _parts(data):
        for value in VALUES:
            text = tomli_w.dumps(_with(data, at, value))
            for read in (sf.Study.from_toml, schema_from_toml):
                try:
                    read(text)
                except sf.SfumatoError as error:
                    message = str(error)
                else:
                    message = ""
                assert len(message) < 2_000


def test_a_file_is_not_read_beyond_its_limit(tmp_path: Path) -> None:
    endless = tmp_path / "zero.toml"
    endless.symlink_to("/dev/zero")
    with pytest.raises(sf.TooLargeError, match="at most 4 MiB"):
        sf.Study.load(endless)
    (tmp_path / "halves.toml").write_bytes(b"name = '\xed\xa0\x80'")
    with pytest.raises(sf.FormatError, match="not a readable study file"):
        sf.Study.load(tmp_path / "halves.toml")


def test_what_could_not_be_loaded_is_not_saved(tmp_path: Path) -> None:
    labels = [f"{number:0999}" for number in range(5_000)]
    study = sf.Study("s", [sf.categories("x", labels, protect=sf.Uniform(1))])
    with pytest.raises(sf.TooLargeError, match="use fewer labels"):
        study.save(tmp_path / "s.toml")
    assert list(tmp_path.iterdir()) == []


def test_there_are_not_too_many_axes() -> None:
    axes = [sf.integers(f"a{n}", 0, 1, protect=sf.Uniform(1)) for n in range(MOST_AXES + 1)]
    with pytest.raises(sf.TooLargeError, match="at most 1,000 axes, got 1,001"):
        sf.Study("s", axes)


def test_the_page_states_the_limits() -> None:
    page = (Path(__file__).parents[2] / "docs" / "files.md").read_text(encoding="utf-8")
    for stated in (
        f"{MOST_BYTES >> 20} MiB",
        f"| axes of a study | {MOST_AXES:,} |",
        f"| {MOST_CELLS:,}; {MOST_TABLE_CELLS:,} under",
        f"| a name, label or unit | {MOST_LETTERS:,} characters |",
    ):
        assert stated in page
    assert (LARGEST, MOST_PEOPLE) == (10**305, 10**15)
