"""Vectors: what is in the repository is what the interpreter makes, and every channel has some."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from typing import Any

import numpy as np
import pytest
from helpers_contract import TRIALS
from helpers_programs import Noting, encoded
from regenerate_vectors import FOLDER, read, settled, text_of, vectors

import sfumato as sf
from sfumato.channels.choice import REGISTRY
from sfumato.device import compiling
from sfumato.device.interpreter import DRAWS, OPERATIONS, Machine
from sfumato.device.program import _KINDS, Program, canonical
from sfumato.device.wire import Batch, ReportLayout

NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
REMEDY = "run python tests/regenerate_vectors.py"


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


def operations(code: list[Any]) -> Iterator[str]:
    """The names of all instructions, those of branches included."""
    for name, *given in code:
        yield name
        for way in given[1] if name == "branch" else ():
            yield from operations(way)


def test_vectors_have_every_kind_of_axis_and_table_and_every_operation() -> None:
    documents = [held(name)["program"] for name in NAMES if name != "batches"]
    axes = {axis["kind"] for document in documents for axis in document["axes"]}
    assert axes == set(_KINDS), REMEDY
    tables = {table["kind"] for document in documents for table in document["tables"]}
    assert tables == {"numbers", "weights", "rows", "products", "chances"}
    blocks = [block for document in documents for block in document["blocks"]]
    used = {name for block in blocks for name in operations(block["code"])}
    assert used == {*OPERATIONS, *DRAWS, "take", "branch"}


@pytest.mark.parametrize("name", [name for name in NAMES if name != "batches"])
def test_python_reproduces_every_vector(name: str) -> None:
    vector = held(name)
    program = Program.read(canonical(vector["program"]), digest=vector["program"]["digest"])
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


def in_bulk(name: str, *, wrong: bool = False) -> list[bool]:
    """Whether the bulk encoder, given the decisions of each case, makes its report.

    Args:
        name: The file of vectors.
        wrong: Whether to give it a neighbour of each person's code.
    """
    vector = held(name)
    program = Program.read(canonical(vector["program"]))
    study = sf.Study.from_toml(vector["study"]) if "study" in vector else None
    if study is None:
        channels = [settled(name, TRIALS[name.removeprefix("channel-")]).bind()]
    else:
        channels = [block.channel for block in study.blocks]
    equal = []
    for case in vector["cases"]:
        record = record_of(case["record"])
        if study is None:
            codes = [record["x"]]
        else:
            columns = study._codes({axis.name: [record.get(axis.name)] for axis in study.axes})
            codes = [int(block.cells(columns)[0]) for block in study.blocks]
        machine = Noting(program.tables, words_of(case))
        cells, results = program.codes(record), []
        for block, channel, code in zip(program.blocks, channels, codes, strict=True):
            before = len(machine.outcomes)
            program.result(machine, block, cells)
            given = (code + 1) % channel.size if wrong else code
            results.append(encoded(channel, given, machine.outcomes[before:]))
        equal.append(program.layout.pack(results).hex() == case["report"])
    return equal


@pytest.mark.parametrize("name", [name for name in NAMES if name != "batches"])
def test_the_bulk_encoder_reproduces_every_vector(name: str) -> None:
    assert all(in_bulk(name))


@pytest.mark.parametrize("name", ["channel-geometric-0", "channel-oue-0", "study-categories"])
def test_a_bulk_encoder_that_is_one_cell_off_is_noticed(name: str) -> None:
    assert not all(in_bulk(name, wrong=True))


@pytest.mark.parametrize("wrong", ["below", "pick", "row", "flips"])
@pytest.mark.parametrize("by", [-1, 1])
def test_an_outcome_that_ends_a_word_too_early_or_late_is_noticed(
    wrong: str, by: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a reader of another language, such as one that has < for ≤."""
    draw = Machine.draw

    def off(self: Machine, name: str, held: Any, bits: int) -> int:
        if name == wrong:
            held = held + by if name == "below" else [end + by for end in held]
        return draw(self, name, held, bits)

    monkeypatch.setattr(Machine, "draw", off)
    using = [name for name in NAMES if name != "batches" and uses(held(name), wrong)]
    unnoticed = [name for name in using if reproduced(held(name))]
    assert len(using) > len(unnoticed)
    assert set(unnoticed) <= {"channel-haar-hrr-0"}  # whose table has one outcome


def uses(vector: Any, name: str) -> bool:
    """Whether a vector's program has an operation."""
    return any(name in operations(block["code"]) for block in vector["program"]["blocks"])


def reproduced(vector: Any) -> bool:
    """Whether every report of a vector comes out."""
    program = Program.read(canonical(vector["program"]))
    return all(
        program.encode(record_of(case["record"]), words=words_then_zeros(case)) == report_of(case)
        for case in vector["cases"]
    )


def words_then_zeros(case: Any) -> Callable[[], int]:
    """The words of a case, for a reader that may draw more."""
    return chain(map(int, case["words"]), repeat(0)).__next__


def report_of(case: Any) -> bytes:
    """The report of a case."""
    return bytes.fromhex(case["report"])


def numbers(held: Any) -> Iterator[int]:
    """All integers of a document that are written as numbers."""
    if isinstance(held, dict | list):
        for part in held.values() if isinstance(held, dict) else held:
            yield from numbers(part)
    elif isinstance(held, int) and not isinstance(held, bool):
        yield held


@pytest.mark.parametrize("name", NAMES)
def test_no_vector_loses_digits_where_numbers_are_doubles(name: str) -> None:
    """JSON.parse reads numbers as doubles; larger integers travel as texts."""
    assert all(abs(number) < 1 << 53 for number in numbers(held(name)))


def test_a_number_that_would_lose_digits_is_noticed() -> None:
    assert max(numbers({"a": [{"b": (1 << 53) + 1}, 3, True, "9" * 30]})) > 1 << 53


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


def test_another_search_changes_no_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a search found is kept: its last digits are those of one machine."""

    def searched(self: object, *_: object) -> None:
        raise AssertionError("a search was run")

    monkeypatch.setattr(sf.Optimised, "_search", searched)
    name = "channel-optimised-0"
    trial = TRIALS["optimised-0"]
    assert settled(name, trial).choice.table == held(name)["table"]


class Given:
    """A source of given words, and then of zeros."""

    secure = False

    def __init__(self, words: list[int]) -> None:
        self._left = list(words)

    def words(self, count: int) -> Any:
        taken, self._left = self._left[:count], self._left[count:]
        return np.array(taken + [0] * (count - len(taken)), dtype=np.uint64)


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("study-")])
def test_a_study_encodes_one_record_as_its_program_does(name: str) -> None:
    vector = held(name)
    study = sf.Study.from_toml(vector["study"])
    for case in vector["cases"]:
        record = {axis.name: None for axis in study.axes} | record_of(case["record"])
        made = study.encode(record, bits=Given(list(map(int, case["words"]))))
        assert made.to_bytes()[45:].hex() == case["report"]


def test_a_study_that_no_device_can_hold_encodes_one_record_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiling, "MOST_BYTES", 100)
    study = sf.Study("large", [sf.integers("x", 0, 9, protect=sf.Distance(60))])
    with pytest.raises(sf.TooLargeError):
        study.device_program()
    assert study.encode({"x": 3}).to_arrow()["x"].to_pylist() == [3]
