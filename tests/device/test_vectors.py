"""Vectors: what is in the repository is what the interpreter makes, and every channel has some."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import sfumato as sf
from sfumato.channels.choice import REGISTRY
from sfumato.device.program import Program
from sfumato.device.wire import Batch, ReportLayout
from tests.regenerate_vectors import FOLDER, read, text_of, vectors

NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
REMEDY = "run python -m tests.regenerate_vectors"


def held(name: str) -> Any:
    """A file of vectors."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def words_of(case: Any) -> Callable[[], int]:
    """The words of a case, one after the other."""
    return iter(map(int, case["words"])).__next__


def record_of(case: Any) -> dict[str, Any]:
    """The record of a case."""
    return {name: read(value) for name, value in case.items()}


def test_vectors_are_those_that_are_made_now() -> None:
    made = vectors()
    assert sorted(made) == NAMES, REMEDY
    for name, vector in made.items():
        assert (FOLDER / f"{name}.json").read_text(encoding="utf-8") == text_of(vector), REMEDY


@pytest.mark.parametrize("kind", REGISTRY)
def test_every_registered_channel_has_vectors(kind: str) -> None:
    assert any(name.rsplit("-", 1)[0] == f"channel-{kind}" for name in NAMES), REMEDY


@pytest.mark.parametrize("name", [name for name in NAMES if name != "batches"])
def test_python_reproduces_every_vector(name: str) -> None:
    vector = held(name)
    program = Program.read(json.dumps(vector["program"]), digest=vector["program"]["digest"])
    for case in vector["cases"]:
        words = words_of(case)
        assert program.encode(record_of(case["record"]), words=words).hex() == case["report"]
        with pytest.raises(StopIteration):
            words()  # all of them were drawn
    for record in vector["refused"]:
        with pytest.raises(sf.DataError):
            program.encode(record_of(record))
    if "study" in vector:
        study = sf.Study.from_toml(vector["study"])
        assert study.fingerprint == program.fingerprint
        assert study.device_program().digest == program.digest


def test_python_reproduces_every_batch() -> None:
    vector = held("batches")
    for case in vector["cases"]:
        layout = ReportLayout(tuple(map(tuple, case["layout"])))
        batch = Batch.from_bytes(bytes.fromhex(case["batch"]), layout, case["fingerprint"])
        found = zip(batch.ids, map(layout.unpack, batch.reports), strict=True)
        assert [[number.hex(), list(map(str, row))] for number, row in found] == case["reports"]
        assert batch.expires == case["expires"]
        assert batch.to_bytes().hex() == case["batch"]
    for case in vector["refused"]:
        layout = ReportLayout(tuple(map(tuple, case["layout"])))
        with pytest.raises(sf.WireError) as refused:
            Batch.from_bytes(bytes.fromhex(case["batch"]), layout, case["fingerprint"])
        assert refused.value.code == case["code"]
