"""Device programs: for every registered channel, the interpreter follows the channel's own law."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest
from helpers_contract import TRIALS, each
from helpers_programs import Noting, encoded, program_of

import sfumato as sf
from benchmarks import devices
from sfumato.channels.base import Channel
from sfumato.channels.choice import Trial
from sfumato.channels.comb import CombChannel
from sfumato.device import interpreter
from sfumato.device.interpreter import Machine
from sfumato.device.law import law
from sfumato.device.program import Program
from sfumato.exact import exp_bounds

_BITS_TRIED = 13  # of the words of all draws together: every combination is tried


def codes_of(channel: Channel) -> list[int]:
    """All cells, and behind rounding places between them."""
    places = 1 << channel.resolution
    last = (channel.size - 1) * places
    parts = (0,) if places == 1 else (0, 1, places - 1)
    return sorted({min(cell * places + p, last) for cell in range(channel.size) for p in parts})


def shown_law(channel: Channel, code: int) -> dict[int, Fraction]:
    """The law that the channel shows at a cell, or between two."""
    rows, total = channel.words()
    places = 1 << channel.resolution
    cell, part = divmod(code, places)
    above = rows[min(cell + 1, channel.size - 1)]
    words = [
        (places - part) * low + part * high for low, high in zip(rows[cell], above, strict=True)
    ]
    return {k: Fraction(word, total * places) for k, word in enumerate(words) if word}


@pytest.mark.parametrize("name", each())
def test_the_law_of_the_interpreter_is_that_of_the_channel(name: str) -> None:
    channel = TRIALS[name].bind()
    program = program_of(channel)
    for code in codes_of(channel):
        assert law(program, 0, code) == shown_law(channel, code)


@pytest.mark.parametrize("name", each())
def test_the_same_decisions_make_the_same_report_in_bulk(name: str) -> None:
    channel = TRIALS[name].bind()
    program = program_of(channel)
    words = random.Random(name)
    for code in codes_of(channel):
        for _ in range(3):
            machine = Noting(program.tables, lambda: words.getrandbits(64))
            found = machine.run(program.blocks[0].code, code)
            assert encoded(channel, code, machine.outcomes) == found


def test_other_decisions_make_other_reports() -> None:
    """The twin: an outcome that is changed on the way is noticed."""
    channel = TRIALS["geometric-3"].bind()
    program = program_of(channel)
    machine = Noting(program.tables, lambda: 1 << 63)
    found = machine.run(program.blocks[0].code, 3)
    assert encoded(channel, 3, [machine.outcomes[0] + 1]) != found


def draws_of(channel: Channel, enough: float = math.inf) -> int:
    """How many words a report takes at most; found by words that lead to every branch.

    Where some report takes more than enough, the first of these counts.
    """
    program = program_of(channel)
    words = random.Random(1)
    most = 0
    for cell, _ in itertools.product(range(channel.size), range(200)):
        machine = Noting(program.tables, lambda: words.getrandbits(64))
        machine.run(program.blocks[0].code, cell)
        most = max(most, len(machine.outcomes))
        if most > enough:
            break
    return most


def _short(trial: Trial, bits: int) -> bool:
    """Whether a channel can be bound with words so short that all can be tried."""
    if trial.shape is not None or trial.resolution:
        return False
    try:
        channel = trial.bind(precision=bits)
    except sf.SfumatoError:
        return False
    return draws_of(channel, enough := _BITS_TRIED // bits) <= enough


SHORT = {
    f"{name} at {bits} bits": (name, bits)
    for name, trial in TRIALS.items()
    for bits in (4, 6)
    if _short(trial, bits)
}


def worst(channel: Channel, machine: type[Machine] = Machine) -> Fraction:
    """The largest odds of the interpreter over e^E, over all words that it can be given.

    Every draw of a report gets a word of its own, whose leading bits run through all numbers. Where
    a branch takes fewer words, all numbers of the others count, which leaves odds as they are.
    """
    program, bits = program_of(channel), channel.precision
    draws, counts = draws_of(channel), []
    for cell in range(channel.size):
        row: Counter[int] = Counter()
        for numbers in itertools.product(range(1 << bits), repeat=draws):
            words = (number << (64 - bits) for number in numbers)
            row[machine(program.tables, words.__next__).run(program.blocks[0].code, cell)] += 1
        counts.append(row)
    beyond = Fraction(0)
    for x, y in itertools.permutations(range(channel.size), 2):
        e = channel.metric.exact(x, y)
        if e is None:
            continue
        for output, count in counts[x].items():
            if counts[y][output] == 0:
                return Fraction(10**9)  # told apart for certain
            beyond = max(beyond, Fraction(count, counts[y][output]) / upper_exp(e))
    return beyond


def upper_exp(e: Fraction) -> Fraction:
    """A number that is barely above e^E."""
    return Fraction(exp_bounds(e, 96)[1], 1 << 96)


@pytest.mark.parametrize("name", each(SHORT))
def test_every_word_keeps_the_guarantee(name: str) -> None:
    """Words short enough to try them all, through the interpreter that devices run."""
    trial, bits = SHORT[name]
    channel = TRIALS[trial].bind(precision=bits)
    assert worst(channel) <= 1


def test_many_channels_are_tried_word_by_word() -> None:
    tried = {trial.rsplit("-", 1)[0] for trial, _ in SHORT.values()}
    assert {"geometric", "kary-response", "binary", "exponential", "comb", "olh"} <= tried


def test_a_wrong_interpreter_breaks_the_guarantee(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: outcomes one too high, and clamping left out."""
    channel = TRIALS["geometric-3"].bind(precision=6)
    assert worst(channel) <= 1

    class Off(Machine):
        def draw(self, name: str, held: Any, bits: int) -> int:
            number = self._words() >> (64 - bits)
            return sum(number >= bound for bound in held[:-1]) & ~1

    assert worst(channel, Off) > 1
    monkeypatch.setitem(interpreter.OPERATIONS, "clamp", lambda a, low, high: max(a, low))
    assert worst(channel) > 1


def test_programs_of_studies_encode_what_bulk_encoding_means() -> None:
    study = sf.Study(
        "mixed",
        [
            sf.integers("age", 0, 9, protect=sf.Distance(1)),
            sf.categories("mode", ["car", "bus"], protect=sf.Uniform(1), optional=True),
            sf.integers("steps", 0, 4, protect=sf.Distance(1), channel=sf.Thermometer()),
        ],
    )
    program = study.device_program()
    assert program.codes({"age": 3, "mode": None, "steps": 4}) == (3, 2, 4)
    report = program.encode({"age": 3, "mode": "bus", "steps": 4})
    assert len(report) == program.report_size == 2  # 10 · 3 symbols in one byte, 4 bits in another
    assert program.most == 9 + 1 + 4
    again = Program.read(program.to_text(), digest=program.digest)
    assert again.to_text() == program.to_text()
    assert study.device_program().digest == program.digest


@pytest.mark.slow
def test_programs_of_ten_studies_are_as_short_as_the_tutorial_says() -> None:
    sizes = [len(study.device_program().to_text().encode()) for _, study, _ in devices.studies()]
    assert len(sizes) == 10
    assert max(sizes) < 256_000
    assert sorted(sizes)[-2] < 12_000


def test_most_is_unbounded_where_some_pair_is_not_hidden() -> None:
    labels = ["a", "b", "c", "d"]
    blocks = sf.Blocks(epsilon=1, blocks=[labels[:2], labels[2:]])
    study = sf.Study("parts", [sf.categories("x", labels, protect=blocks)])
    assert study.device_program().most is None


def test_a_channel_without_code_is_refused_by_name() -> None:
    class Bare(CombChannel):
        device_code = Channel.device_code

    trial = TRIALS["comb-0"]
    bound: Any = trial.bind()
    bare = Bare(metric=bound.metric, shape=bound.shape, ordered=bound.ordered)
    with pytest.raises(sf.StudyError, match="comb channel writes no code for devices"):
        program_of(bare)
