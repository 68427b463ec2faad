"""Independent flips of the bits of a code: the channel behind `MatrixResponse`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Cells, Floats, Outputs
from sfumato.bitcolumns import BitColumns
from sfumato.channels.base import claimed_tightness
from sfumato.channels.bits import FlippedCode
from sfumato.channels.searched.codes import Code
from sfumato.errors import StudyError
from sfumato.exact import exp_floor
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.edges import edges_of


@dataclass(frozen=True, kw_only=True, eq=False)
class MatrixResponseChannel(FlippedCode):
    """Independent flips of a code; bit k is flipped in `flip_words[k]` of 2^precision cases."""

    id: ClassVar[str] = "matrix-response"
    metric: CellMetric
    code: Code = field(repr=False)

    def __post_init__(self) -> None:
        """Check Proposition 2 in rationals, and round the chances of flips up."""
        refuse_overspending(self.code, self.metric)
        odds = [None if rate is None else exp_floor(rate) for rate in self.code.rates]
        self.set_flips(odds, "a larger epsilon")
        self._reading  # noqa: B018 - refuses codes that do not tell all cells apart

    @cached_property
    def tightness(self) -> float:  # type: ignore[override]
        """All of E but for rounding, where some neighbouring cells differ in bits that spend it."""
        for x in range(self.size - 1):
            e = self.metric.exact(x, x + 1)
            if e is None or self.code.spent(x, x + 1) != e:
                continue
            differ = self.code.members[:, x] != self.code.members[:, x + 1]
            rates = [self.code.rates[k] for k in np.flatnonzero(differ).tolist()]
            odds = [exp_floor(rate) for rate in rates if rate is not None]
            if all(claimed_tightness(odd, self.precision) for odd in odds):
                return claimed_tightness(max(odds), self.precision)
        return 0.0

    @cached_property
    def _reading(self) -> Floats:
        """For a unit weight of each cell, the constant and then β of every bit, +1 or -1."""
        from sfumato.questions.lines import Identity
        from sfumato.questions.reconstruction import reconstruct

        code = np.where(self.code.members, 1.0, -1.0)
        found = reconstruct(Identity(self.size), code, self.noise, known_total=True)
        return np.roll(found, 1, axis=1)  # what the number of people says comes first

    def ones(self, cells: Cells, bits: slice) -> NDArray[np.bool_]:
        """Columns of the code."""
        return self.code.members[bits].take(cells, axis=1)

    def coefficients(self, weights: Floats) -> Floats:
        """The constant and one coefficient a bit, along the last axis."""
        result: Floats = weights @ self._reading
        result[..., 1:] *= self.scale
        return result

    def spread(self, weights: Floats) -> Floats:
        """β of each bit along the last axis."""
        result: Floats = weights @ self._reading[:, 1:]
        return result

    def gather(self, profile: Floats) -> Floats:
        """The transposed reading."""
        scaled = np.concatenate([profile[..., :1], profile[..., 1:] * self.scale], axis=-1)
        result: Floats = scaled @ self._reading.T
        return result

    def report_likelihood(self, outputs: Outputs) -> Floats:
        """The likelihood of all bits together, each row scaled to have largest entry one."""
        if not isinstance(outputs, BitColumns):
            raise TypeError("this channel puts out bits")
        total = 1 << self.precision
        noisy = np.array(self.flip_words) > 0
        odds = [math.log((total - f) / f) / 2 for f in self.flip_words if f]
        ones = np.where(outputs.to_matrix(), 1.0, -1.0)
        code = np.where(self.code.members, 1.0, -1.0)
        log = (ones[:, noisy] * odds) @ code[noisy]
        if not noisy.all():  # bits without noise rule out all cells that have others
            wrong = np.count_nonzero(~noisy) - ones[:, ~noisy] @ code[~noisy]
            log[wrong > 0.5] = -math.inf
        result: Floats = np.exp(log - log.max(axis=1, keepdims=True))
        return result


def refuse_overspending(code: Code, metric: CellMetric) -> None:
    """Refuse a code whose bits together tell two cells apart by more than E, exactly decided."""
    from sfumato.noise.allocate import check

    found = check(code.members.astype(np.int64), edges_of(metric), code.rates)
    if not found:
        raise StudyError(
            "the table of this matrix response does not keep the metric: the bits of cells "
            f"{found.pair} spend more than E between them; make the study anew"
        )
