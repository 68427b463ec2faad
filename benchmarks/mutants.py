"""Mutation check: does the registry-driven suite notice a fault in a channel?

Each mutant is one wrong line of source: a sign, an ε, a cell or an axis off. It is put into a
copy of `src`, and `tests/channels/test_contract.py` must fail there. Mutants name the text they
replace, which must occur exactly once in their package: a mutant whose text has gone is an error.

Run `python -m benchmarks.mutants`, or with names of mutants to try only those; the record is
`results/soak/mutants.json`. The suite is run on the family's own trials first, then as a whole.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.recording import origin, progress

ROOT = Path(__file__).parent.parent
SUITE = "tests/channels/test_contract.py"
RECORD = ROOT / "results/soak/mutants.json"
CACHE = Path(tempfile.gettempdir()) / "sfumato-mutants"
WORKERS = 2
LEAST_SHARE = 0.95
_LONGEST = 600  # seconds


@dataclass(frozen=True)
class Mutant:
    """One fault.

    Attributes:
        family: The id of the channel it is in, or what it is part of.
        fault: What is wrong, in a few words.
        old: The text that it replaces.
        new: What stands there instead.
        room: The package of `sfumato` that has the text, once.
        spared: Why the suite may pass all the same, where the fault changes nothing by itself.
    """

    family: str
    fault: str
    old: str
    new: str
    room: str = "channels"
    spared: str = ""

    @property
    def name(self) -> str:
        """What it is called in the record and on the command line."""
        return f"{self.family}: {self.fault}"


def _of(family: str, *faults: tuple[str, str, str]) -> list[Mutant]:
    return [Mutant(family, fault, old, new) for fault, old, new in faults]


MUTANTS: list[Mutant] = [
    *_of(
        "geometric",
        (
            "one cell off in encode",
            "self._noise.draw(bits, len(part)) + (part - reach)",
            "self._noise.draw(bits, len(part)) + (part - reach + 1)",
        ),
        (
            "no clamping at the upper end",
            "= np.clip(noisy, 0, reach)",
            "= np.clip(noisy, 0, reach - 1)",
        ),
        (
            "twice ε",
            "odds = 1 + metric.equal_step if resolution else exp_floor(metric.equal_step)",
            "odds = exp_floor(2 * metric.equal_step)",
        ),
        (
            "half ε",
            "odds = 1 + metric.equal_step if resolution else exp_floor(metric.equal_step)",
            "odds = exp_floor(metric.equal_step / 2)",
        ),
        (
            "e^ε per step behind rounding",
            "odds = 1 + metric.equal_step if resolution else exp_floor(metric.equal_step)",
            "odds = exp_floor(metric.equal_step)",
        ),
        (
            "wrong sign inside",
            "values[..., 1:-1] += gain * np.diff(drop, axis=-1)",
            "values[..., 1:-1] -= gain * np.diff(drop, axis=-1)",
        ),
        (
            "wrong sign at the upper end",
            "values[..., -1] -= ends * drop[..., -1]",
            "values[..., -1] += ends * drop[..., -1]",
        ),
        (
            "wrong gathering at the lower end",
            "gives[..., 0] *= 1 - alpha\n",
            "gives[..., 0] *= 1 + alpha\n",
        ),
        (
            "tails left out of the mean",
            "values[..., -1] /= 1 - alpha",
            "values[..., -1] /= 1 + alpha",
        ),
        (
            "tail of the table one off",
            "row[0] = tails[x] if x else half[0] + tails[1]",
            "row[0] = tails[min(x + 1, last)] if x else half[0] + tails[1]",
        ),
        (
            "weights rounded down",
            "weight = -(-half[-1] * denominator // numerator)",
            "weight = half[-1] * denominator // numerator - 1",
        ),
    ),
    *_of(
        "geometric",
        (
            "fixed outputs one off under a cap",
            "fixed = drawn - (2 * reach + 1)",
            "fixed = np.minimum(drawn - 2 * reach, reach)",
        ),
        (
            "twice the cap",
            "limit = exp_floor(metric.cap)",
            "limit = exp_floor(2 * metric.cap)",
        ),
        (
            "half the cap",
            "limit = exp_floor(metric.cap)",
            "limit = exp_floor(metric.cap / 2)",
        ),
        (
            "wrong sign of the fixed law",
            "(plain - (plain @ self.fixed_law)[..., None]) / self.share",
            "(plain + (plain @ self.fixed_law)[..., None]) / self.share",
        ),
        (
            "fixed law left out of gathering",
            "gathered(profile - everyone * self.fixed_law, self.alpha)",
            "gathered(profile, self.alpha)",
        ),
    ),
    *_of(
        "thermometer",
        (
            "one cell off in the code",
            "below: NDArray[np.bool_] = cells <= thresholds[:, None]",
            "below: NDArray[np.bool_] = cells < thresholds[:, None]",
        ),
        (
            "wrong sign",
            "half = -np.diff(weights, axis=-1) / 2",
            "half = np.diff(weights, axis=-1) / 2",
        ),
        (
            "twice ε",
            "odds = [1 + step if resolution else exp_floor(step) for step in metric.steps]",
            "odds = [1 + step if resolution else exp_floor(2 * step) for step in metric.steps]",
        ),
        (
            "e^ε per step behind rounding",
            "odds = [1 + step if resolution else exp_floor(step) for step in metric.steps]",
            "odds = [exp_floor(step) for step in metric.steps]",
        ),
        (
            "steps in the other order",
            "exp_floor(step) for step in metric.steps]",
            "exp_floor(step) for step in metric.steps[::-1]]",
        ),
        (
            "wrong sign in gathering",
            "result[..., 1:] -= bits[..., : self.size - 1]",
            "result[..., 1:] += bits[..., : self.size - 1]",
        ),
        (
            "wrong sign in the likelihood of reports",
            "steps = np.where(bits, -odds, odds)",
            "steps = np.where(bits, odds, -odds)",
        ),
    ),
    *_of(
        "thermometer",
        (
            "flips rounded down",
            "0 if odd is None else math.ceil(total / (1 + odd)) for odd in odds",
            "0 if odd is None else math.floor(total / (1 + odd)) for odd in odds",
        ),
        (
            "noise of flips halved",
            "[4 * flip * (total - flip) / (total - 2 * flip) ** 2 for flip in self.flip_words]",
            "[2 * flip * (total - flip) / (total - 2 * flip) ** 2 for flip in self.flip_words]",
        ),
        (
            "scale of one flip more",
            "np.array([total / (total - 2 * flip) for flip in self.flip_words])",
            "np.array([total / (total - flip) for flip in self.flip_words])",
        ),
    ),
    *_of(
        "kary-response",
        (
            "one cell off in encode",
            "other + (other >= part))",
            "other + (other > part))",
        ),
        (
            "twice ε",
            "odds = exp_floor(self.metric.epsilon)\n        wrong = math.ceil(",
            "odds = exp_floor(2 * self.metric.epsilon)\n        wrong = math.ceil(",
        ),
        (
            "one value too few",
            "wrong = math.ceil(total / (odds + self.size - 1))",
            "wrong = math.ceil(total / (odds + self.size))",
        ),
        (
            "wrong sign",
            "centre + (weights - centre) / self.gap",
            "centre - (weights - centre) / self.gap",
        ),
        (
            "wrong mean of a function",
            "self.gap * table + wrong * table.sum(",
            "self.gap * table - wrong * table.sum(",
        ),
    ),
    *_of(
        "exponential",
        (
            "one cell off in encode",
            "= self._sampler.draw(bits, part)",
            "= self._sampler.draw(bits, (part + 1) % self.size)",
        ),
        (
            "three times ε",
            "distance = symmetric(self.metric.matrix())",
            "distance = symmetric(3 * self.metric.matrix())",
        ),
        (
            "a fifth of E in the exponent",
            "np.exp(-np.where(near, distance, 0.0) / 2)",
            "np.exp(-np.where(near, distance, 0.0) / 5)",
        ),
        (
            "the larger direction of E",
            "closed, _ = closure(np.minimum(distance, distance.T))",
            "closed, _ = closure(np.maximum(distance, distance.T))",
        ),
        (
            "the rest of the words at the next cell",
            "row[x] += (1 << precision) - sum(row)",
            "row[x - 1] += (1 << precision) - sum(row)",
        ),
    ),
    *_of(
        "binary",
        (
            "the other way round",
            "part ^ (word < bound[part])",
            "part ^ (word >= bound[part])",
        ),
        (
            "the other cell's lies",
            "part ^ (word < bound[part])",
            "part ^ (word < bound[1 - part])",
        ),
        (
            "directions of E swapped",
            "there, back = self.metric.exact(0, 1), self.metric.exact(1, 0)\n        found",
            "back, there = self.metric.exact(0, 1), self.metric.exact(1, 0)\n        found",
        ),
        (
            "wrong sign",
            "[[true / left, -first / left], [-second / left, right / left]]",
            "[[true / left, first / left], [second / left, right / left]]",
        ),
        (
            "twice ε",
            "odds = exp_floor(back)\n",
            "odds = exp_floor(2 * back)\n",
        ),
    ),
    *_of(
        "oue",
        (
            "one cell off in encode",
            "own = np.asarray(cells[lane::LANES], dtype=np.int64)",
            "own = (np.asarray(cells[lane::LANES], dtype=np.int64) + 1) % len(words)",
        ),
        (
            "wrong sign",
            "np.concatenate([centre, off / (2 * self.gap)], axis=-1)",
            "np.concatenate([centre, -off / (2 * self.gap)], axis=-1)",
        ),
        (
            "the own bit's variance left out",
            "w**2 + off**2 + self.noise * np.sum(",
            "w**2 + self.noise * np.sum(",
        ),
        (
            "the own bit left out of products",
            "self.coefficients(w * v + w_off * v_off)",
            "self.coefficients(w * v)",
        ),
        (
            "the own bit told as it is",
            "ones = [total // 2 if y == x else self.flips for y in range(self.size)]",
            "ones = [total if y == x else self.flips for y in range(self.size)]",
        ),
    ),
    *_of(
        "hrr",
        (
            "one row off in encode",
            "sign = np.bitwise_count(self._rows(part) & column)",
            "sign = np.bitwise_count(self._rows((part + 1) % self.size) & column)",
        ),
        (
            "the flip left out",
            'sign ^= np.unpackbits(packed, count=len(part), bitorder="little", axis=1)[0]',
            'sign ^= np.unpackbits(packed, count=len(part), bitorder="big", axis=1)[0] & 0',
        ),
        (
            "twice ε",
            "flips = math.ceil(total / (1 + exp_floor(epsilon)))",
            "flips = math.ceil(total / (1 + exp_floor(2 * epsilon)))",
        ),
        (
            "half ε",
            "flips = math.ceil(total / (1 + exp_floor(epsilon)))",
            "flips = math.ceil(total / (1 + exp_floor(epsilon / 2)))",
        ),
        (
            "flips rounded down",
            "flips = math.ceil(total / (1 + exp_floor(epsilon)))",
            "flips = math.floor(total / (1 + exp_floor(epsilon)))",
        ),
        (
            "wrong sign",
            "along = self.scale * self.to_columns(weights - centre)",
            "along = -self.scale * self.to_columns(weights - centre)",
        ),
        (
            "the mean counted twice in the second moment",
            "spread + centre * (2 * off + centre)\n        return result\n\n    def mix",
            "spread + centre * (2 * off + 2 * centre)\n        return result\n\n    def mix",
        ),
    ),
    *_of(
        "olh",
        (
            "one cell off in encode",
            "value = self.response.encode(self.hashed(number, part), bits)",
            "value = self.response.encode(self.hashed(number, (part + 1) % self.size), bits)",
        ),
        (
            "wrong sign",
            "centre + self._sums(weights - centre) / self.gap",
            "centre - self._sums(weights - centre) / self.gap",
        ),
        (
            "twice ε",
            "values = UniformMetric(self.metric.epsilon, self.prime)",
            "values = UniformMetric(2 * self.metric.epsilon, self.prime)",
        ),
        (
            "a gap of g − 1",
            "return (self.prime * self.response.right - total) / (self.prime * total)",
            "return (self.prime * self.response.right - total) / ((self.prime - 1) * total)",
        ),
        (
            "the chance of the truth as any value's",
            "(right - wrong) * self._sums(law) + wrong * everyone",
            "right * self._sums(law) + wrong * everyone",
        ),
    ),
    *_of(
        "hadamard",
        (
            "the wrong column",
            "wrong = (np.bitwise_count(row & column) & 1) ^ flip[0]",
            "wrong = (np.bitwise_count(row & column) & 1) ^ flip[0] ^ 1",
        ),
        (
            "one column off",
            "symbol = place - row + column",
            "symbol = place - row + (column ^ 1)",
        ),
        (
            "wrong sign",
            "self._transform(result, 1 / self.gain)\n        if matrices.hides:",
            "self._transform(result, -1 / self.gain)\n        if matrices.hides:",
        ),
        (
            "half the chance for cells that are not sensitive",
            "chances = [flips, 2 * flips] if matrices.covered else [flips]",
            "chances = [flips, flips] if matrices.covered else [flips]",
        ),
        (
            "sensitive cells forgotten in the reading of others",
            "alone = (alone - (1 - self.gain) * centre) / self.gain",
            "alone = (alone + (1 - self.gain) * centre) / self.gain",
        ),
        (
            "cells of a block one off",
            "self.metric.epsilon, self.precision) if matrices.hides else 0",
            "2 * self.metric.epsilon, self.precision) if matrices.hides else 0",
        ),
    ),
    *_of(
        "comb",
        (
            "one turn off",
            "turn = (self._phase(part, comb) - behind) % self.circle",
            "turn = (self._phase(part, comb) - behind + 1) % self.circle",
        ),
        (
            "turned the wrong way",
            "turn = (self._phase(part, comb) - behind) % self.circle",
            "turn = (self._phase(part, comb) + behind) % self.circle",
        ),
        (
            "twice ε",
            "odds = exp_floor(self.metric.epsilon)\n        turns = turn_words(",
            "odds = exp_floor(2 * self.metric.epsilon)\n        turns = turn_words(",
        ),
        (
            "axes in the other order",
            "for axis, place in enumerate(places):",
            "for axis, place in enumerate(places[::-1]):",
        ),
        (
            "harmonics not conjugated",
            "back = np.conj(self._harmonics)",
            "back = self._harmonics",
        ),
        (
            "the middle harmonic counted twice",
            "if self.circle % 2 == 0:\n            twice[-1] = 1.0",
            "if self.circle % 2 == 0:\n            twice[-1] = 2.0",
        ),
    ),
    *_of(
        "square-wave",
        (
            "one place off",
            "outside += np.where(outside < part, 0, self.window)",
            "outside += np.where(outside <= part, 0, self.window)",
        ),
        (
            "the window one place on",
            "inside = part + np.where(word < longer",
            "inside = (part + 1) % self.size + np.where(word < longer",
        ),
        (
            "twice ε",
            "odds = exp_floor(self.metric.epsilon)\n        far = math.ceil(",
            "odds = exp_floor(2 * self.metric.epsilon)\n        far = math.ceil(",
        ),
        (
            "far places as likely as near ones",
            "gap = float(self.near - self.far)\n        result",
            "gap = float(self.near)\n        result",
        ),
        (
            "columns not weighed back",
            "result: Floats = inverse @ factor.T * scale",
            "result: Floats = inverse @ factor.T / np.where(scale > 0, scale, 1.0)",
        ),
    ),
    *_of(
        "optimised",
        (
            "sets and others swapped in the likelihood",
            "np.concatenate([np.where(self.sets.members.T, high, low), blank], axis=1)",
            "np.concatenate([np.where(self.sets.members.T, low, high), blank], axis=1)",
        ),
        (
            "twice ε",
            "odds = exp_floor(min(self.metric.epsilon, _MOST_EPSILON))",
            "odds = exp_floor(2 * min(self.metric.epsilon, _MOST_EPSILON))",
        ),
        (
            "one word too many inside sets",
            "high = [math.floor(odds * words) for words in low]",
            "high = [math.ceil(odds * words) for words in low]",
        ),
    ),
    *_of(
        "extremal",
        (
            "one word too few",
            "full = [[*row, (1 << precision) - sum(row)] for row in words]",
            "full = [[*row, (1 << precision) - sum(row) - 1] for row in words]",
        ),
        (
            "logarithms a tenth too large",
            "np.rint(np.ldexp(found.logs * (1 - 2.0**-_SLACK_BITS), unit))",
            "np.rint(np.ldexp(found.logs * 1.1, unit))",
        ),
        (
            "logarithms a tenth too small",
            "np.rint(np.ldexp(found.logs * (1 - 2.0**-_SLACK_BITS), unit))",
            "np.rint(np.ldexp(found.logs * 0.9, unit))",
        ),
    ),
    *_of(
        "matrix-response",
        (
            "one bit off",
            "return self.code.members[bits].take(cells, axis=1)",
            "return np.roll(self.code.members, 1, axis=0)[bits].take(cells, axis=1)",
        ),
        (
            "twice the rates",
            "[None if rate is None else exp_floor(rate) for rate in self.code.rates]",
            "[None if rate is None else exp_floor(2 * rate) for rate in self.code.rates]",
        ),
        (
            "wrong sign",
            "result[..., 1:] *= self.scale\n",
            "result[..., 1:] *= -self.scale\n",
        ),
        (
            "the constant not first",
            "return np.roll(found, 1, axis=1)",
            "return np.roll(found, 0, axis=1)",
        ),
    ),
    *_of(
        "hierarchical",
        (
            "one cell off in nodes",
            "result = result * tree.nodes(level) + code // tree.runs[level]",
            "result = result * tree.nodes(level) + (code + 1) % tree.size // tree.runs[level]",
        ),
        (
            "axes in the other order",
            "return [cells, *reversed(codes)]",
            "return [cells, *codes]",
        ),
        (
            "twice ε at each level",
            "here = UniformMetric(metric.epsilon, nodes)\n        if self.oracle",
            "here = UniformMetric(2 * metric.epsilon, nodes)\n        if self.oracle",
        ),
        (
            "levels not weighed by their chances",
            "yield everyone + part.inner.coefficients(held) / chance",
            "yield everyone + part.inner.coefficients(held) / chance**0.5",
        ),
        (
            "wrong sign of the level above",
            "part = (sums[depth - level] - above * sizes[depth - level]) * tau[level]",
            "part = (sums[depth - level] + above * sizes[depth - level]) * tau[level]",
        ),
        (
            "symbols of a level one off",
            "here[people] = symbols + self.starts[number]",
            "here[people] = (symbols + 1) % part.outputs + self.starts[number]",
        ),
        (
            "the mean of what is gathered left out",
            "result: Floats = even + parts[finest] / self.level_precision[finest]",
            "result: Floats = parts[finest] / self.level_precision[finest]",
        ),
        (
            "largest nodes without the one above",
            "here = even[tree.depth - level] & ~above",
            "here = even[tree.depth - level] | above",
        ),
    ),
    *_of(
        "haar-hrr",
        (
            "the sign not turned in encode",
            "return self.inner.encode(node, bits).astype(np.int64) ^ turned",
            "return self.inner.encode(node, bits).astype(np.int64)",
        ),
        (
            "halves swapped in the law",
            "return (fine >> 1, fine & 1) if self.halves else (fine, 0)",
            "return (fine >> 1, 1 - (fine & 1)) if self.halves else (fine, 0)",
        ),
        (
            "wrong sign",
            "found.append(_filled((left - right) / 2, self.nodes(level)))",
            "found.append(_filled((right - left) / 2, self.nodes(level)))",
        ),
        (
            "wrong sign in gathering",
            "np.stack([cells + part, cells - part], axis=-1) / 2",
            "np.stack([cells - part, cells + part], axis=-1) / 2",
        ),
        (
            "chances squared in the second moment",
            "spread += part.inner.scale**2 / chance * squares",
            "spread += part.inner.scale**2 / chance**2 * squares",
        ),
        (
            "axes in the other order",
            "node = node * axis.nodes(level) + here",
            "node = here * axis.nodes(level) + node",
        ),
    ),
    *_of(
        "geometric",
        (
            "always rounded down",
            "up = leading(bits.words(len(fine)), resolution) < part",
            "up = leading(bits.words(len(fine)), resolution) < part * np.uint64(0)",
        ),
        (
            "rounded down for up",
            "up = leading(bits.words(len(fine)), resolution) < part",
            "up = leading(bits.words(len(fine)), resolution) >= part",
        ),
        (
            "what rounding adds halved",
            "steps = np.diff(w, axis=-1) * np.diff(v, axis=-1) / 4",
            "steps = np.diff(w, axis=-1) * np.diff(v, axis=-1) / 8",
        ),
    ),
    Mutant(
        "exponential",
        "a bound counted on the wrong side",
        'np.searchsorted(self._bounds[row], words[here], side="right")',
        'np.searchsorted(self._bounds[row], words[here], side="left")',
        "randomness",
    ),
    Mutant(
        "optimised",
        "no check of the blank",
        "max(blank) > odds * min(blank)",
        "max(blank) > odds**9 * min(blank)",
        spared="the blank is even enough for all sets of the trials; test_optimised.py has others",
    ),
    Mutant(
        "extremal",
        "no check of E",
        "if words is None or found.problems:",
        "if words is None:",
        spared="tables that are searched for keep E; test_extremal.py has some that do not",
    ),
    Mutant(
        "exponential",
        "all of E in the exponent",
        "np.exp(-np.where(near, distance, 0.0) / 2)",
        "np.exp(-np.where(near, distance, 0.0))",
        spared="the law is certified afterwards, and half of E is then taken off: the same law",
    ),
    Mutant(
        "grid",
        "axes in the other order on the way in",
        "np.ravel_multi_index(tuple(codes[axis] for axis in self.axes), self.shape)",
        "np.ravel_multi_index(tuple(codes[axis] for axis in self.axes[::-1]), self.shape[::-1])",
        "study",
    ),
    Mutant(
        "grid",
        "axes in the other order in questions",
        "for axis, size in zip(self.axes, self.shape, strict=True):",
        "for axis, size in zip(self.axes[::-1], self.shape[::-1], strict=True):",
        "study",
    ),
    Mutant(
        "grid",
        "shape of a grid turned round",
        "return choice.bind_grid(metric, shape, ordered)",
        "return choice.bind_grid(metric, shape[::-1], ordered[::-1])",
        "study",
    ),
    Mutant(
        "grid",
        "axes in the other order in tables",
        "for axis, size in zip(block.axes, block.shape, strict=True):",
        "for axis, size in zip(block.axes[::-1], block.shape[::-1], strict=True):",
        "estimation",
    ),
    Mutant(
        "grid",
        "tables in the order of the study",
        "order = tuple(stands.index(axis) for axis in rows)",
        "order = tuple(range(len(stands)))",
        "estimation",
    ),
    Mutant(
        "grid",
        "axes in the other order in decoded grids",
        "return values.reshape(self.shape)\n\n    def information",
        "return values.T.reshape(self.shape)\n\n    def information",
        "estimation",
    ),
    Mutant(
        "thermometer",
        "wrong sign of flips in products",
        "found[..., rows] = there @ (one * other).T + everyone * flips",
        "found[..., rows] = there @ (one * other).T - everyone * flips",
    ),
]


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant."""

    mutant: Mutant
    file: str
    caught: bool
    by: str
    seconds: float

    def record(self) -> dict[str, object]:
        """The form of the JSON file."""
        return {
            "mutant": self.mutant.name,
            "file": self.file,
            "caught": self.caught,
            "by": self.by if self.caught else f"nothing: {self.mutant.spared or 'unexplained'}",
            "seconds": round(self.seconds, 1),
        }


def placed(mutant: Mutant, source: Path) -> Path:
    """The one file that has the mutant's text.

    Raises:
        ValueError: If no file has it, or it is not there exactly once.
    """
    files = sorted((source / "sfumato" / mutant.room).rglob("*.py"))
    found = [(path, path.read_text(encoding="utf-8").count(mutant.old)) for path in files]
    holding = [(path, count) for path, count in found if count]
    if len(holding) != 1 or holding[0][1] != 1:
        places = ", ".join(f"{path.name} × {count}" for path, count in holding) or "nowhere"
        raise ValueError(f"{mutant.name}: its text must be there once, and is {places}")
    return holding[0][0]


def tried(mutant: Mutant) -> Outcome:
    """Run the suite on a copy of the source with the fault."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        path = placed(mutant, source)
        text = path.read_text(encoding="utf-8").replace(mutant.old, mutant.new)
        path.write_text(text, encoding="utf-8")
        searched = "searched" in path.parts
        own = "whole or mixed" if mutant.family == "grid" else mutant.family
        by = suite(source, ["-k", own], searched) or suite(source, [], searched)
    file = str(path.relative_to(source))
    return Outcome(mutant, file, bool(by), by, time.monotonic() - start)


def suite(source: Path, options: Sequence[str], afresh: bool = False) -> str:
    """The first test that fails on this source, or "" if all pass.

    Args:
        source: A copy of `src`.
        options: Options of pytest.
        afresh: Whether to search for tables again; left out, those of earlier runs are used.
    """
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", SUITE]
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment["SFUMATO_CACHE"] = str(source.parent if afresh else CACHE)
    try:
        done = subprocess.run(
            [*command, *options],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_LONGEST,
        )
    except subprocess.TimeoutExpired:
        return "the suite does not end"
    if done.returncode in (0, 5):  # all passed, or nothing of that name
        return ""
    told = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return told[0].partition("::")[2].partition(" - ")[0] or told[0] if told else "an error"


def main(names: Sequence[str]) -> int:
    """Try all mutants, or those whose names contain one of the given texts."""
    wanted = [m for m in MUTANTS if not names or any(name in m.name for name in names)]
    for mutant in wanted:
        placed(mutant, ROOT / "src")
    if suite(ROOT / "src", []):
        raise SystemExit("the suite fails without any mutant")
    outcomes = []
    with ThreadPoolExecutor(WORKERS) as pool:
        for outcome in pool.map(tried, wanted):
            outcomes.append(outcome)
            said = f"caught by {outcome.by}" if outcome.caught else "SURVIVED"
            progress(f"{outcome.mutant.name} ({outcome.seconds:.0f} s): {said}")
    caught = sum(outcome.caught for outcome in outcomes)
    survivors = [outcome.mutant.name for outcome in outcomes if not outcome.caught]
    print(f"{caught} of {len(outcomes)} caught; survivors: {', '.join(survivors) or 'none'}")
    if not names:
        record = {
            **origin("python -m benchmarks.mutants"),
            "suite": SUITE,
            "mutants": len(outcomes),
            "caught": caught,
            "survivors": survivors,
            "outcomes": [outcome.record() for outcome in outcomes],
        }
        RECORD.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(record, indent=2, ensure_ascii=False)
        RECORD.write_text(text + "\n", encoding="utf-8")
    return 0 if caught >= LEAST_SHARE * len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
