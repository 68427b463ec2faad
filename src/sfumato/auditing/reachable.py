"""Whether any population explains counts of reports: a test that is valid for all of them at once.

Honest clients with cells x_1..x_n send independent reports, and the expected counts of a block are
n·pQ, with p the shares of these cells and Q(y | x) the channel. Whatever the cells are, pQ lies in
one convex set: the mixtures of the rows of Q.

Guarantee:
    For a function h > 0 of a report let M be the largest E[h(Y) | x] over all cells x. Then
    Π_i h(Y_i)/M has a mean of at most 1 for any cells x_1..x_n, so by Markov's inequality it
    reaches 1/u with a chance of at most u: the smaller of 1 and its inverse is a p-value. It does
    not matter how h was found, if the reports it is applied to took no part in that. So each report
    is put into one of two halves by a fair coin; h is learned from one half and applied to the
    other, both ways. Averages of such values have a mean of at most 1 too. No limit theorem is
    used, and neither the number of cells nor that of outputs enters.

    The best h for reports of a law a is a/pQ with the mixture pQ for which Σ_y a(y)·log (pQ)(y) is
    largest (the reverse information projection). It is found by EM. If EM stops early M is a little
    above 1, which costs power and no validity.

References:
    Wasserman2020; Grunwald2024; Li2020.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.channels.base import SymbolChannel
from sfumato.estimation.decoding.em import decode
from sfumato.estimation.decoding.mixture import SymbolMixture

_SEED = 18  # of the coins that halve the reports: the same tally is always answered the same
_TINY = 1e-300
_ROUNDING = 1e-11  # of a probability, and of M
_FEW = 1e-6  # of all people
_STILL = 1e-6  # a step of EM that moves less than this share of all people is the last one
LUMPS = 3  # reports of one block, by themselves, that a share of clients may all send
_ROUNDS = 3  # in which the people beside them are fitted

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Evidence:
    """How far counts of reports are from those of any population.

    Attributes:
        log: The logarithm of a value whose mean is at most 1 if clients are honest.
        place: The output that is most unlike the nearest population, one number per block.
        came: How often it came.
        expected: How often it comes from that population, on average.
    """

    log: float
    place: tuple[int, ...]
    came: int
    expected: float

    @property
    def p_value(self) -> float:
        """The smaller of 1 and the inverse of that value."""
        return math.exp(-max(self.log, 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class Reach:
    """All laws of reports that populations have, for one block or for several together.

    Args:
        factors: For each block Q as a matrix, or its channel where that has no room.
        cells: The number of cells of each block.
    """

    factors: tuple[Floats | SymbolChannel, ...]
    cells: tuple[int, ...]

    @property
    def cost(self) -> float:
        """Multiplications of one step of EM, roughly."""
        outputs = [f.shape[1] if isinstance(f, np.ndarray) else f.outputs for f in self.factors]
        total, left = 0.0, float(math.prod(self.cells))
        for factor, cells, many in zip(self.factors, self.cells, outputs, strict=True):
            each = cells * many if isinstance(factor, np.ndarray) else 64.0 * (cells + many)
            total += left / cells * each
            left = left / cells * many
        return 2 * total

    @property
    def _error(self) -> float:
        """How far a mean by transforms may be off, as a share of the largest value."""
        dense = all(isinstance(factor, np.ndarray) for factor in self.factors)
        return 0.0 if dense else 2.0**-46

    def evidence(self, counts: Counts, steps: int) -> Evidence:
        """How far counts of reports are from those of any population.

        Args:
            counts: How many sent each output, one dimension per block.
            steps: The most steps of EM for each fit.
        """
        everybody = self._mixture(counts)
        even = np.full(self.cells, 1 / math.prod(self.cells))
        counts = np.where(everybody.forward(even) > 0, counts, 0)  # those nobody can send are told
        first = np.random.Generator(np.random.PCG64(_SEED)).binomial(counts, 0.5)
        halves = first, counts - first
        laws = [
            self._everywhere(decode(self._mixture(half), most_steps=steps).law)
            if half.any()
            else even
            for half in halves
        ]
        nearest = counts.sum() * everybody.forward((laws[0] + laws[1]) / 2)
        off = np.abs(counts - nearest) / np.sqrt(np.maximum(nearest, 0.25))
        place = tuple(int(k) for k in np.unravel_index(np.argmax(off), counts.shape))
        pairs = zip((halves, halves[::-1]), laws, strict=True)
        found = [v for pair, law in pairs for v in self._values(*pair, law, steps)]
        most = max(found)
        log = most + math.log(math.fsum(math.exp(value - most) for value in found) / len(found))
        return Evidence(log, place, int(counts[place]), float(nearest[place]))

    def _mixture(self, counts: NDArray[np.int64] | Floats) -> SymbolMixture:
        shapes = tuple((size,) for size in self.cells)
        return SymbolMixture(self.factors, np.asarray(counts, dtype=np.float64), shapes)

    def _everywhere(self, law: Floats) -> Floats:
        """A population with a few people more in all cells, so that no report has no chance."""
        return (1 - _FEW) * law + _FEW / law.size

    def _values(self, learn: Counts, test: Counts, law: Floats, steps: int) -> Iterator[float]:
        """Σ log h/M over one half, for every h that the other half and its fit suggest."""
        if not learn.any():
            yield 0.0
            return
        mixed = np.maximum(self._mixture(learn).forward(law), _TINY)
        mixed /= mixed.sum()
        for other in (*_suggested(learn, mixed), *self._lumps(learn, mixed, law, steps)):
            if other is mixed:
                yield 0.0
                continue
            near = self._mixture(np.where(other > _ROUNDING, other, 0.0) * learn.sum())
            held = self._everywhere(decode(near, start=law, most_steps=steps).law)
            h = np.maximum(other, _TINY) / np.maximum(near.forward(held), _TINY)
            most = float(near.backward(h).max()) * (1 + _ROUNDING) + self._error * float(h.max())
            yield float(np.sum(test * np.log(h))) - float(test.sum()) * math.log(most)

    def _lumps(self, counts: Counts, mixed: Floats, law: Floats, steps: int) -> Iterator[Floats]:
        """Laws of a population of which a share sends one and the same report, for some reports.

        The population is fitted to all other reports: in turn, those of its own at that report are
        filled in, and it is fitted again.
        """
        if counts.ndim > 1:
            return
        total = float(counts.sum())
        excess = (counts - total * mixed) / np.sqrt(np.maximum(total * mixed, 0.25))
        for place in np.argsort(-excess)[:LUMPS].tolist():
            people, own, others = law, mixed, total - counts[place]
            if excess[place] < 1 or not others:
                return
            for _ in range(_ROUNDS):
                filled = np.asarray(counts, dtype=np.float64)
                filled[place] = others * own[place] / max(1 - own[place], _ROUNDING)
                fitted = self._mixture(filled)
                people = decode(
                    fitted, start=people, most_steps=steps // _ROUNDS, tolerance=_STILL
                ).law
                people = self._everywhere(people)
                own = fitted.forward(people)
                own /= own.sum()
            share = max(0.0, (counts[place] - filled[place]) / total)
            yield (1 - share) * own + share * (np.arange(len(own)) == place)


def _suggested(counts: Counts, mixed: Floats) -> Iterator[Floats]:
    """Laws that reports may have instead of a mixture: few outputs stand out, or all differ a bit.

    Args:
        counts: How many sent each output.
        mixed: The law of the most likely population.
    """
    from scipy import special

    total = float(counts.sum())
    expected = total * mixed
    many = np.where(counts > 0, special.pdtrc(counts - 1.0, expected), 1.0)
    standing_out = np.minimum(many, special.pdtr(counts, expected)) < 1 / (2 * counts.size)
    if standing_out.any():
        law = np.where(standing_out, np.maximum(counts, 0.5) / total, mixed)
        yield law / law.sum()
    else:
        yield mixed
    misfit = float(np.sum((counts - expected) ** 2 / expected))
    part = 1 - (counts.size - 1) / misfit if misfit > counts.size else 0.0
    yield mixed + part * (counts / total - mixed) if part else mixed


def alike_share(likelihood: Floats) -> float:
    """The largest share of clients who may all send one report and look like a population.

    The others are honest and spread evenly over the cells. With v the solution of vQ = δ_y the law
    (1 − s)·even + s·δ_y is that of the population (1 − s)/m + s·v, if that is nowhere negative.

    Args:
        likelihood: Q, one row per cell.
    """
    cells, outputs = likelihood.shape
    solved, *_ = np.linalg.lstsq(likelihood.T, np.eye(outputs), rcond=None)
    off = np.abs(likelihood.T @ solved - np.eye(outputs)).max(axis=0)
    least = np.where(off < 1e-6, solved.min(axis=0), -math.inf)
    shares = 1 / (1 - cells * np.minimum(least, 0))
    return float(shares.max())


def hidden_weight(likelihood: Floats) -> float:
    """For how many people one client may count, at least, and still look like a population.

    If t·Q(y | x) + (1 − t)·even(y) >= (1 − s)·even(y) for all reports y, a share s of clients can
    make a population that is spread evenly look as if a share t were at x. With r the least
    Q(y | x)/even(y), t = s/(1 − r).

    Args:
        likelihood: Q, one row per cell; or of several bits, side by side, P(bit | cell).
    """
    even = likelihood.mean(axis=0)
    ratio = np.divide(likelihood, even, out=np.ones_like(likelihood), where=even > 0)
    least = ratio.min(axis=1)
    return float(1 / (1 - least.max())) if least.max() < 1 - _ROUNDING else math.inf
