"""Releases and ledgers that somebody meant to do harm with are refused as a whole."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from sfumato import central
from sfumato.central.chain import encode, seal, start

KEPT = Path(__file__).parent.parent / "study" / "kept"
RELEASE = json.loads((KEPT / "first.release.json").read_text())
MADE = json.loads((KEPT / "mwem.release.json").read_text())
LEDGER = json.loads((KEPT / "commute.ledger").read_text())

#: Texts that are JSON to some parsers, or to none.
TEXTS = {
    "deep": "[" * 100_000,
    "deep and closed": "[" * 100_000 + "]" * 100_000,
    "deep objects": '{"kind":' * 100_000,
    "many digits": '{"format": ' + "9" * 1_000_000 + "}",
    "cut": '{"kind": "sfumato release", "for',
    "nothing": "",
}


def load_release(document: Any, folder: Path) -> central.Release:
    (folder / "release.json").write_text(json.dumps(document))
    return central.Release.load(folder / "release.json")


def load_ledger(document: Any, folder: Path, form: int = 1) -> central.Ledger:
    """In the first form or the second, with right digests, which anyone can compute."""
    head = {key: held for key, held in document.items() if key not in ("events", "last")}
    plain = [
        {key: held for key, held in event.items() if key != "digest"}
        for event in document["events"]
    ]
    file = folder / "a.ledger"
    if form == 2:
        file.write_bytes(encode({**head, "format": 2}, plain))
        return central.Ledger.load(file)
    last, events = start(head), []
    for event in plain:
        events.append(seal(last, event))
        last = events[-1]["digest"]
    file.write_text(json.dumps({**head, "events": events, "last": last}, indent=1))
    return central.Ledger.load(file)


FORMS = pytest.mark.parametrize("form", [1, 2])


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_text_that_breaks_parsers_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(sf.FormatError, match="not a readable release"):
        central.Release.load(file)
    with pytest.raises(sf.FormatError, match="not a readable ledger"):
        central.Ledger.load(file)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400"])
def test_numbers_that_are_not_finite_are_refused(number: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    text = (KEPT / "first.release.json").read_text()
    file.write_text(text.replace('"people": 400', f'"people": {number}'))
    with pytest.raises(sf.FormatError, match="not a readable release"):
        central.Release.load(file)
    text = (KEPT / "commute.ledger").read_text()
    file.write_text(text.replace('"total": 1.5', f'"total": {number}'))
    with pytest.raises(sf.FormatError, match="not a readable ledger"):
        central.Ledger.load(file)


def test_the_releases_load_as_they_are(tmp_path: Path) -> None:
    for document in (RELEASE, MADE):
        release = load_release(document, tmp_path)
        assert json.loads(json.dumps(release.to_dict())) == document


@pytest.mark.parametrize("name", ["values", "stderr", "low", "high"])
@pytest.mark.parametrize(
    "changed", [[], [1.0], [[1.0]] * 6, ["1"] * 6, [True] * 6, [{}] * 6, "123456", 7, None, {}]
)
def test_a_release_has_as_many_numbers_as_questions(
    name: str, changed: Any, tmp_path: Path
) -> None:
    document = copy.deepcopy(RELEASE)
    assert len(document["answers"][name]) == 6
    document["answers"][name] = changed
    with pytest.raises(sf.FormatError, match="is damaged"):
        load_release(document, tmp_path)


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("labels", []),
        ("labels", [[]]),
        ("labels", [["a"] * 5]),
        ("labels", [[7] * 6]),
        ("labels", [["a"] * 6, ["b"] * 6]),
        ("labels", "abcdef"),
        ("level", 2),
        ("level", "0.95"),
        ("level", None),
        ("level", True),
        ("n", 1.5),
        ("n", "400"),
        ("n", -1),
        ("n", 10**400),
        ("method", 7),
        ("unit", None),
        ("notes", "abc"),
        ("notes", [7]),
    ],
)
def test_a_release_whose_answers_are_not_answers_is_refused(
    name: str, changed: Any, tmp_path: Path
) -> None:
    document = copy.deepcopy(RELEASE)
    document["answers"][name] = changed
    with pytest.raises(sf.FormatError, match="is damaged"):
        load_release(document, tmp_path)


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("study", 7),
        ("fingerprint", None),
        ("entry", "1"),
        ("entry", 0),
        ("entry", 1.0),
        ("time", 20240101),
        ("mechanism", ["x"]),
        ("spent", {}),
        ("people", 4e2),
        ("people", "400"),
        ("people", True),
        ("people", -1),
        ("secure", "yes"),
        ("secure", 1),
        ("answers", []),
        ("synthetic", "x"),
        ("synthetic", [None]),
        ("synthetic", [[1.0], [1.0, 2.0]]),
        ("synthetic", [10**400]),
        ("details", []),
        ("details", None),
    ],
)
def test_a_release_whose_parts_are_of_another_kind_is_refused(
    name: str, changed: Any, tmp_path: Path
) -> None:
    with pytest.raises(sf.FormatError, match="is damaged"):
        load_release(MADE | {name: changed}, tmp_path)


@pytest.mark.parametrize("version", [0, -1, True, 1.0, "1", None, [1]])
def test_a_format_that_was_never_written_is_not_called_newer(version: Any, tmp_path: Path) -> None:
    with pytest.raises(sf.FormatError, match="is not a release"):
        load_release(RELEASE | {"format": version}, tmp_path)
    with pytest.raises(sf.FormatError, match="is not a ledger"):
        load_ledger(LEDGER | {"format": version}, tmp_path)


@FORMS
@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("people", "400"),
        ("people", 4.5),
        ("people", True),
        ("people", -1),
        ("people", None),
        ("time", 7),
        ("time", None),
        ("mechanism", ["x"]),
        ("mechanism", {}),
        ("id", True),
        ("id", 1.0),
        ("id", "1"),
        ("id", 2**80),
        ("event", ["reserve"]),
        ("event", None),
        ("spend", None),
        ("spend", {"share": -0.25}),
        ("spend", {"share": "x" * 100_000}),
        ("spend", {"axes": {"nobody": 0.5}}),
        ("spend", {"axes": [1]}),
    ],
)
def test_a_ledger_whose_events_cannot_be_is_refused(
    name: str, changed: Any, form: int, tmp_path: Path
) -> None:
    document = copy.deepcopy(LEDGER)
    assert load_ledger(document, tmp_path, form).entries
    document["events"][0][name] = changed
    with pytest.raises(sf.FormatError, match="is damaged or has been edited"):
        load_ledger(document, tmp_path, form)


@FORMS
@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("total", "x"),
        ("total", -1),
        ("total", None),
        ("total", [1]),
        ("study", 7),
        ("study", ""),
        ("study", "x = " + "[" * 100_000),
        ("fingerprint", 7),
        ("fingerprint", None),
    ],
)
def test_a_ledger_whose_head_cannot_be_is_refused(
    name: str, changed: Any, form: int, tmp_path: Path
) -> None:
    with pytest.raises(sf.FormatError, match="is damaged or has been edited"):
        load_ledger(LEDGER | {name: changed}, tmp_path, form)


@pytest.mark.parametrize("path", [7, None, "\0", b"\xff"])
def test_what_is_no_path_is_named(path: Any) -> None:
    for load in (central.Release.load, central.Ledger.load, sf.Study.load):
        with pytest.raises(sf.FormatError, match="a path must be a text or a Path, got"):
            load(path)
