"""Words of tables are the same on every machine: no e^x of a processor takes part in them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from helpers_contract import TRIALS
from helpers_programs import program_of

from sfumato.channels.choice import REGISTRY, Trial
from sfumato.channels.exponential import ExponentialChannel
from sfumato.channels.searched.extremal import ExtremalChannel
from sfumato.channels.searched.matrix_response import MatrixResponseChannel
from sfumato.channels.searched.optimised import OptimisedChannel
from sfumato.exact import exp_minus_floor

WORDS = 1 << 64
NOW = {name: trial for name, trial in TRIALS.items() if "-revision-" not in name}


def settled(trial: Trial) -> Trial:
    """A trial whose table is found, as a study holds it."""
    return replace(trial, choice=trial.choice.settled(trial.metric))


def of_kind(kind: str) -> list[str]:
    """Names of the trials of a channel."""
    return [name for name in NOW if name.rsplit("-", 1)[0] == kind]


def e_to(x: Fraction, bits: int) -> int:
    """The whole part of 2^bits · e^x, by another library."""
    with mpmath.workdps(80):
        return int(mpmath.floor(mpmath.exp(mpmath.mpf(x.numerator) / x.denominator) * 2**bits))


def e_minus(x: Fraction) -> int:
    """The whole part of 2^64 · e^-x."""
    return e_to(-x, 64)


@pytest.mark.parametrize("x", ["0", "1/7", "1", "10", "63.9", "64.1", "1e-12", "700"])
def test_the_floor_of_e_to_the_minus_x(x: str) -> None:
    assert exp_minus_floor(Fraction(x)) == e_minus(Fraction(x))
    assert exp_minus_floor(Fraction(x), 200) == e_to(-Fraction(x), 200)


@pytest.mark.parametrize("name", of_kind("exponential"))
def test_words_of_the_exponential_channel(name: str) -> None:
    """The rule of its documentation, step by step in rational numbers."""
    channel = NOW[name].bind()
    assert isinstance(channel, ExponentialChannel)
    cells = range(channel.size)

    def apart(x: int, y: int) -> Fraction | None:
        ways = [
            e for e in (channel.metric.exact(x, y), channel.metric.exact(y, x)) if e is not None
        ]
        return min(ways, default=None)

    near = [[apart(x, y) for y in cells] for x in cells]
    for k in cells:  # closed again
        for x in cells:
            for y in cells:
                a, b, c = near[x][k], near[k][y], near[x][y]
                if a is not None and b is not None and (c is None or a + b < c):
                    near[x][y] = a + b
    for x in cells:
        weights = [weight(e) for e in near[x]]
        reached = sum(e is not None for e in near[x])
        kept = WORDS - (WORDS >> 21)
        row = [
            0 if e is None else w * kept // sum(weights) + (WORDS >> 21) // reached
            for w, e in zip(weights, near[x], strict=True)
        ]
        row[x] += WORDS - sum(row)
        assert channel.table[x] == tuple(row)


def weight(e: Fraction | None) -> int:
    """2^64·e^(−E/2), less a 2^24th part of E, digit by digit."""
    if e is None:
        return 0
    left = min(math.floor(e * (1 - Fraction(1, 1 << 24)) / 2 * (1 << 42)), 64 << 42)
    found, place = WORDS, Fraction(1, 1 << 42)
    for _ in range(9):
        found = found * e_minus(left % 64 * place) >> 64
        left, place = left // 64, place * 64
    return found


@pytest.mark.parametrize("name", of_kind("extremal"))
def test_words_of_the_extremal_channel(name: str) -> None:
    channel = settled(NOW[name]).bind()
    assert isinstance(channel, ExtremalChannel)
    rows = channel.rows
    few = len(np.unique(rows.logs)) <= 64
    base = (WORDS >> 21) // (len(rows.shares) + 1)
    for x in range(channel.size):
        words = []
        for share, log in zip(rows.shares.tolist(), rows.logs[:, x].tolist(), strict=True):
            part = Fraction(share) * (1 - Fraction(1, 1 << 21)) * WORDS
            left, place = -log, Fraction(1, 1 << rows.unit)
            while left and not few:
                part *= Fraction(e_minus(left % 64 * place), WORDS)
                left, place = left // 64, place * 64
            words.append(base + math.floor(part * Fraction(e_minus(left * place), WORDS)))
        assert channel.table[x] == (*words, WORDS - sum(words))


@pytest.mark.slow  # its searches
@pytest.mark.parametrize("name", of_kind("matrix-response"))
def test_words_of_the_matrix_response(name: str) -> None:
    channel = settled(NOW[name]).bind()
    assert isinstance(channel, MatrixResponseChannel)
    for rate, flip in zip(channel.code.rates, channel.flip_words, strict=True):
        odds = None if rate is None else Fraction(e_to(rate, 96), 1 << 96)
        assert flip == (0 if odds is None else math.ceil(WORDS / (1 + odds)))


@pytest.mark.parametrize("name", of_kind("optimised"))
def test_words_of_the_optimised_channel(name: str) -> None:
    channel = settled(NOW[name]).bind()
    assert isinstance(channel, OptimisedChannel)
    odds = Fraction(e_to(channel.metric.epsilon, 96), 1 << 96)
    weights = [Fraction(weight) for weight in channel.sets.weights.tolist()]
    members = channel.sets.members.T
    inside = [sum(w for w, m in zip(weights, row, strict=True) if m) for row in members]
    whole = sum(weights) + (odds - 1) * max(inside) + max(inside) - min(inside)
    scale = WORDS * (1 - Fraction(1, 1 << 40)) / whole
    assert channel.low == tuple(math.floor(scale * weight) for weight in weights)
    assert channel.high == tuple(math.floor(odds * low) for low in channel.low)
    for row, words in zip(members, channel.table, strict=True):
        chosen = zip(row, channel.low, channel.high, strict=True)
        assert list(words[:-1]) == [high if member else low for member, low, high in chosen]
        assert sum(words) == WORDS


def nudged(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function on a machine whose last digit is one higher."""
    return lambda *given, **named: np.nextafter(function(*given, **named), np.inf)


def digests(trials: dict[str, Trial], monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """Digests of programs here, and where transcendental functions have other last digits."""
    held = {name: settled(trial) for name, trial in trials.items()}
    here = {name: program_of(trial.bind()).digest for name, trial in held.items()}
    for module in (np, math):
        for name in ("exp", "log"):
            monkeypatch.setattr(module, name, nudged(getattr(module, name)))
    return here, {name: program_of(trial.bind()).digest for name, trial in held.items()}


@pytest.mark.parametrize("kind", REGISTRY)
def test_another_machine_has_the_same_programs(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = digests({name: NOW[name] for name in of_kind(kind)}, monkeypatch)
    assert here
    assert here == there


@pytest.mark.parametrize("kind", ["exponential", "extremal"])
def test_older_laws_depend_on_the_machine(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: the older laws, which this would notice."""
    older = {name: trial for name, trial in TRIALS.items() if name.startswith(f"{kind}-revision-1")}
    here, there = digests(older, monkeypatch)
    assert here
    assert here != there
