"""Device programs of single channels, and machines that note what they draw."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from sfumato.auditing.drive import Script, outputs_of
from sfumato.auditing.paths import run
from sfumato.channels.base import Channel
from sfumato.channels.code import Code, Tables
from sfumato.device.interpreter import Machine, WordSource
from sfumato.device.program import FORMAT, VERSION, Program, digest_of
from sfumato.randomness.draws import Draw, Flips, Lane


def program_of(channel: Channel) -> Program:
    """A program with one block: the channel on an axis of whole numbers."""
    tables = Tables()
    code = Code(tables)
    axis = {"name": "x", "optional": False, "outside": "refuse", "kind": "integers"}
    document: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "name": "one channel",
        "fingerprint": "0" * 64,
        "most": None,
        "axes": [axis | {"low": "0", "high": str(channel.size - 1)}],
        "tables": tables.held,
        "blocks": [
            {
                "axes": [0],
                "sizes": [channel.size],
                "kind": channel.layout.kind,
                "count": channel.layout.count,
                "code": code.piece(partial(channel.device_code, code, code.cell)),
            }
        ],
    }
    return Program({**document, "digest": digest_of(document)})


class Noting(Machine):
    """A machine that notes the outcome of every draw, bit by bit for flips."""

    def __init__(self, tables: Sequence[tuple[Any, int]], words: WordSource) -> None:
        super().__init__(tables, words)
        self.outcomes: list[int] = []

    def draw(self, name: str, held: Any, bits: int) -> int:
        """As a machine does."""
        found = super().draw(name, held, bits)
        if name == "flips":
            self.outcomes += [found >> place & 1 for place in range(len(held))]
        else:
            self.outcomes.append(found)
        return found


def encoded(channel: Channel, code: int, outcomes: Sequence[int]) -> int:
    """What the bulk encoder makes of the same decisions for one person; bits as one number."""
    left = list(outcomes)
    requests = []

    def follow(draw: Draw) -> Any:
        if isinstance(draw, Lane) and draw.taken == 0:
            outcome = np.zeros(1, dtype=np.int64)  # nothing is decided, and devices do not draw
        elif isinstance(draw, Flips):
            bits = [left.pop(0) for _ in draw.chances]
            outcome = np.array([bits], dtype=np.uint8)
        else:
            outcome = np.array([left.pop(0)])
        requests.extend(draw.spell(draw.first(outcome)))
        return int(outcome[0]) if draw.branches else outcome

    run(channel.steps(np.array([code])), follow)
    assert not left, "the program drew more than the channel's steps"
    script = Script(requests)
    made = outputs_of(channel, np.array([code]), script)
    script.end()
    if channel.layout.kind == "bits":
        return sum(1 << place for place, bit in enumerate(made[0].tolist()) if bit)
    return int(made[0])
