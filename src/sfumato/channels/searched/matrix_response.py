"""Matrix response: the bits of any 0/1 code, each flipped independently (Xiang et al. 2020, §3).

The paper adds Laplace noise to the entries of A·h_x. Where A has entries 0 and 1 the noisy entry,
on the lattice of whole numbers and clamped to 0 and 1, is the bit flipped with odds e^u: clamping
loses nothing, for all values on one side have proportional likelihoods, and the variance
e^u/(e^u − 1)² is half that of the noise before. Prefixes along a line are the thermometer, single
cells under one ε are the (symmetric) unary encoding.

Guarantee:
    Σ_k u_k·|A_kx − A_kx'| <= E(x, x') for all pairs, in rational numbers, checked when the channel
    is bound (Proposition 2); each bit's odds are at most e^(u_k), rounded down.

Estimator:
    Weighted least squares with the number of people known (`questions/reconstruction.py`),
    unbiased; the variance is the same whoever answers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.arrays import Cells, Floats, Outputs
from sfumato.channels.base import claimed_tightness
from sfumato.channels.choice import Trial, uniform_trials
from sfumato.channels.flips import FlippedCode, as_bits
from sfumato.channels.odds import Bound, Findings
from sfumato.channels.searched.codec import Code
from sfumato.channels.searched.settling import (
    OWN,
    Progress,
    SearchedChoice,
    checked_workload,
    gram_of,
    written,
)
from sfumato.errors import StudyError, near, shown
from sfumato.exact import exp_floor
from sfumato.metrics.cells import CellMetric, TableMetric
from sfumato.metrics.distance import CappedLineMetric, LineMetric
from sfumato.metrics.edges import edges_of
from sfumato.metrics.uniform import UniformMetric

STRATEGIES = ("searched", "identity", "prefix", "hierarchical")
GIVEN = "given"  # the name of a strategy that was a matrix, once its rates are found
MOST_SEARCHED_CELLS = 128

_LIMB = 26  # binary digits of a rate that are summed at once
_MOST_E = 1e100  # squares of rates must be doubles
_METHOD = 2  # raised when the search changes, so that no older result is taken from the cache


@dataclass(frozen=True, slots=True)
class MatrixResponse(SearchedChoice):
    """Choose flipped bits of a code made for a workload; it fits any finite metric.

    Making a study finds how much of E every bit may spend, in less than a second for 100 cells, and
    for "searched" which bits to send, in seconds for 24 cells and half a minute for 100. Both are
    kept in the study and its file, and in a cache on this machine. Up to 128 cells `Extremal` has
    smaller errors. Rates are rounded down to 12 binary digits, so that every machine finds the same
    ones, but for very rare numbers that lie within a rounding error of a boundary.

    Args:
        strategy: Which bits are sent: one per cell ("identity"), one per threshold ("prefix"), one
            per node of a tree ("hierarchical"), the best found among all of these ("searched"), or
            a matrix of zeros and ones, one row per bit and one column per cell.
        workload: Which questions should have a small error: "cells", "ranges", "prefixes", or a
            matrix, one row per question and one column per cell. Left out, ranges where cells lie
            on a line, else cells.
        branching: Children of a node in the tree.
        table: Bits and rates, as `settled` writes them; leave it out.

    Example:
        >>> import sfumato as sf
        >>> rooms = ["lounge", "hall", "office", "ward"]
        >>> nearby = sf.PolicyGraph(1, [("lounge", "hall"), ("hall", "office"), ("hall", "ward")])
        >>> study = sf.Study(
        ...     "rooms",
        ...     [sf.categories("room", rooms, protect=nearby, channel=sf.MatrixResponse())],
        ... )
        >>> tally = study.simulate({"room": ["hall"] * 6_000 + ["ward"] * 4_000}, seed=1)
        >>> answer = tally.estimate("unbiased").count("room=ward")
        >>> answer.low < 4_000 < answer.high
        True
    """

    id: ClassVar[str] = "matrix-response"
    table_type: ClassVar[type[Code]] = Code
    strategy: str | ArrayLike = "searched"
    workload: str | ArrayLike | None = None
    branching: int = 2
    table: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Check what can be checked before the axis is known."""
        object.__setattr__(self, "strategy", _checked_strategy(self.strategy, self.table))
        if self.workload is not None:
            object.__setattr__(self, "workload", checked_workload(self.workload, self.table))
        branching = self.branching
        if isinstance(branching, bool) or not isinstance(branching, int) or branching < 2:
            raise StudyError(
                f"branching must be a whole number of 2 or more, got branching={shown(branching)}"
            )
        if self.table is not None:
            Code.from_text(self.table)

    def misfit(self, metric: CellMetric) -> str | None:
        """It needs a number of cells that suits the search, and matrices of that many columns."""
        return self._too_large(metric.size) or self._other_cells(
            metric.size, strategy=self.strategy, workload=self.workload
        )

    def _too_large(self, size: int) -> str | None:
        """A search has its limit, and so has the length of a report."""
        if size > Code.MOST_CELLS:
            return (
                f"a report of one bit per cell is too long for {size} cells; the limit is "
                f"{Code.MOST_CELLS}. Use wider bins or fewer categories"
            )
        if size > MOST_SEARCHED_CELLS and self.table is None and self.strategy == "searched":
            return (
                f"the search for its bits is too long for {size} cells; the limit is "
                f"{MOST_SEARCHED_CELLS}. Use strategy='prefix' or 'identity', or wider cells"
            )
        return None

    def _search_key(self, metric: CellMetric) -> Iterator[bytes]:
        """Strategy, E by its edges, and the workload."""
        # The search and its solvers need SciPy, which a device with a settled study does not have.

        edges, gram = edges_of(metric), gram_of(self._asked(metric), metric.size)
        yield f"{_METHOD} {edges.size} {self.strategy} {self.branching} ".encode()
        for part in (edges.first, edges.second, *(clique.marks for clique in edges.cliques)):
            yield np.ascontiguousarray(part, dtype="<i8").tobytes()
        apart = [
            edges.numerators.tolist(),
            edges.unit,
            *(clique.length for clique in edges.cliques),
        ]
        yield str(apart).encode()
        yield np.ascontiguousarray(gram, dtype="<f8").tobytes()

    def _search(self, metric: CellMetric, progress: Progress | None) -> Code:
        """Bits and rates by the solver.

        Raises:
            StudyError: If a given strategy does not tell all cells apart, or E is too large.
        """
        # The search and its solvers need SciPy, which a device with a settled study does not have.
        from sfumato.noise.certify import coarsened
        from sfumato.noise.search import search_gram
        from sfumato.noise.strategies import fit, rows_of, telling
        from sfumato.questions.lines import Identity
        from sfumato.questions.reconstruction import reconstruct

        edges, gram = edges_of(metric), gram_of(self._asked(metric), metric.size)
        apart = [edges.unit * max(edges.numerators.tolist(), default=0)]
        apart += [clique.length for clique in edges.cliques]
        if max(apart) > _MOST_E:
            raise StudyError(
                f"MatrixResponse does not fit this axis: E must be at most {_MOST_E:g} for its "
                f"solver, got {float(max(apart)):g}; use a smaller epsilon"
            )
        if self.strategy == "searched":
            found = search_gram(gram, edges, bits=True, progress=progress).best
        else:
            named = isinstance(self.strategy, str)
            rows = (
                rows_of(str(self.strategy), edges.size, self.branching)
                if named
                else telling(np.asarray(self.strategy, dtype=np.float64))
            )
            # Whatever the workload, all cells must be told apart: this names those that are not.
            reconstruct(Identity(edges.size), rows, np.ones(len(rows)), known_total=True)
            found = fit(rows, gram, edges, bits=True)
        rates = tuple(None if rate is None else coarsened(rate) for rate in found.rates)
        return Code(found.rows > 0, rates)

    def _asked(self, metric: CellMetric) -> Any:
        """The workload; left out, ranges where cells lie on a line, else cells."""
        if self.workload is not None:
            return self.workload
        return "ranges" if isinstance(metric, LineMetric | CappedLineMetric) else "cells"

    def _with_table(self, metric: CellMetric, table: str) -> MatrixResponse:
        """This choice with its bits and rates."""
        strategy, workload = self.strategy, self._asked(metric)
        return MatrixResponse(
            strategy if isinstance(strategy, str) else GIVEN,
            workload if isinstance(workload, str) else OWN,
            self.branching,
            table,
        )

    def bind(
        self, metric: CellMetric, *, precision: int = 64, resolution: int = 0
    ) -> MatrixResponseChannel:
        """Find the code if need be, and check it against E.

        Args:
            metric: E between the cells.
            precision: How many bits of a random word take part.
            resolution: Bits of a value's place between two cells; 0 without stochastic rounding.
        """
        code = Code.from_text(self._table_for(metric, resolution))
        return MatrixResponseChannel(metric=metric, code=code, precision=precision)

    def options(self) -> dict[str, Any]:
        """Strategy and workload, and the bits once they are found."""
        found: dict[str, Any] = {"strategy": written(self.strategy)}
        if self.workload is not None:
            found["workload"] = written(self.workload)
        if self.branching != 2:
            found["branching"] = self.branching
        if self.table is not None:
            found["table"] = self.table
        return found

    @classmethod
    def trials(cls) -> tuple[Trial, ...]:
        """Every strategy, by name and as a matrix, on metrics of several kinds."""
        questions = [[1.0, 0.0, 2.0], [0.0, 1.0, 0.0]]
        line = LineMetric((Fraction(3, 4), Fraction(3, 2), Fraction(5, 4)))
        told = TableMetric(np.array([[0, 2, -1], [2, 0, -1], [-1, -1, 0]]), 2, 3)
        return (
            Trial(choice=cls("prefix"), metric=line),
            Trial(choice=cls("hierarchical", "ranges"), metric=line),
            Trial(choice=cls("searched"), metric=LineMetric.equal(Fraction(1), 3)),
            Trial(choice=cls([[1, 0, 1], [0, 1, 1]]), metric=UniformMetric(Fraction(1), 3)),
            Trial(choice=cls("identity"), metric=told),
            *uniform_trials(cls("identity", questions), (3,)),
            *uniform_trials(cls("identity"), (), (2, 2)),
        )


def _checked_strategy(strategy: Any, table: str | None) -> Any:
    """A strategy by name, or its bits."""
    if isinstance(strategy, str):
        if strategy not in STRATEGIES and not (strategy == GIVEN and table is not None):
            raise StudyError(
                f"strategy must be one of these or a matrix, got strategy={shown(strategy)}: "
                f"{near(strategy, STRATEGIES)}"
            )
        return strategy
    try:
        matrix = np.asarray(strategy, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        matrix = np.full((1, 1), math.nan)
    if matrix.ndim != 2 or not matrix.size or not np.isin(matrix, (0.0, 1.0)).all():
        raise StudyError(
            "strategy must be a matrix of zeros and ones, one row per bit and one column per cell, "
            f"or one of {', '.join(map(repr, STRATEGIES))}; got shape {matrix.shape}"
        )
    if len(matrix) > Code.MOST_BITS:
        raise StudyError(f"a report has at most {Code.MOST_BITS} bits, got {len(matrix)} rows")
    return tuple(tuple(int(bit) for bit in row) for row in matrix)


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
        refuse_confusing(self.code)

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
        """Columns of the code.

        Args:
            cells: One cell per person.
            bits: Which bits of the code.
        """
        return self.code.members[bits].take(cells, axis=1)

    def code_of(self, cell: int) -> list[bool]:
        """A column of the code."""
        found: list[bool] = self.code.members[:, cell].tolist()
        return found

    def coefficients(self, weights: Floats) -> Floats:
        """The constant and one coefficient per bit, along the last axis."""
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
        ones = np.where(as_bits(outputs), 1.0, -1.0)
        total = 1 << self.precision
        noisy = np.array(self.flip_words) > 0
        odds = [math.log((total - f) / f) / 2 for f in self.flip_words if f]
        code = np.where(self.code.members, 1.0, -1.0)
        log = (ones[:, noisy] * odds) @ code[noisy]
        if not noisy.all():  # bits without noise rule out all cells that have others
            wrong = np.count_nonzero(~noisy) - ones[:, ~noisy] @ code[~noisy]
            log[wrong > 0.5] = -math.inf
        result: Floats = np.exp(log - log.max(axis=1, keepdims=True))
        return result

    def sampler_problems(self) -> Iterator[str]:
        """The code must have a row for every bit, and the sampler flip with the chances shown."""
        if self.code.members.shape != (self.width, self.size):
            yield f"the code has another shape than {self.width} bits of {self.size} cells"
        else:
            yield from super().sampler_problems()

    def check_structure(self, metric: CellMetric, found: Findings) -> None:
        """Every bit is within its rate, and the rates of all bits that differ are within E.

        Args:
            metric: E between the cells.
            found: Where findings are added.
        """
        total = 1 << self.precision
        for bit, (rate, flip) in enumerate(zip(self.code.rates, self.flip_words, strict=True)):
            within = flip == 0 if rate is None else Bound(rate).allows(total - flip, flip)
            if not within or 2 * flip > total:
                found.problems.append(f"bit {bit} is flipped more seldom than its rate allows")
                return
        pair = overspent_pair(self.code, metric)
        if pair is not None:
            found.problems.append(f"the bits that differ between cells {pair} spend more than E")
            return
        found.by_structure(metric.size * (metric.size - 1))
        odds = np.array(
            [math.log((total - flip) / flip) if flip else 0.0 for flip in self.flip_words]
        )
        ones = self.code.members.astype(np.float64)
        apart = (ones.T * odds) @ (1 - ones)
        e = metric.matrix()
        np.fill_diagonal(e, math.inf)
        share = (apart + apart.T) / e
        x, y = (int(place) for place in np.unravel_index(share.argmax(), share.shape))
        between = metric.exact(x, y)
        if x == y or between is None:
            return  # everything may be told apart
        differ = np.flatnonzero(self.code.members[:, x] != self.code.members[:, y]).tolist()
        flips = [self.flip_words[bit] for bit in differ]
        more, less = math.prod(total - flip for flip in flips), math.prod(flips)
        found.exact((x, y), more, less, Bound(between))


def refuse_overspending(code: Code, metric: CellMetric) -> None:
    """Refuse a code whose bits together tell two cells apart by more than E, exactly decided.

    Args:
        code: Bits and rates.
        metric: E between the cells.
    """
    pair = overspent_pair(code, metric)
    if pair is not None:
        raise StudyError(
            "the table of this matrix response does not keep the metric: the bits of cells "
            f"{pair} spend more than E between them; make the study again"
        )


def overspent_pair(code: Code, metric: CellMetric) -> tuple[int, int] | None:
    """Two cells that the bits tell apart by more than E, or None: exact, for all pairs.

    Xiang et al. 2020, Proposition 2: Σ_k rate_k·|b_k(x) − b_k(y)| ≤ E(x, y) for all cells x, y.

    Args:
        code: Bits and rates.
        metric: E between the cells.
    """
    bare = np.array([rate is None for rate in code.rates])
    rates = [Fraction(0) if rate is None else rate for rate in code.rates]
    common = math.lcm(1, *(rate.denominator for rate in rates))
    spent = _apart(code.members, [int(rate * common) for rate in rates])
    allowed, denominator = metric.integers()
    # A bit without noise may tell apart only cells that need not be hidden from each other.
    over = spent * denominator > allowed * common
    over |= _apart(code.members[bare], [1] * int(bare.sum())) > 0
    pairs = np.argwhere((allowed >= 0) & over)
    return (int(pairs[0, 0]), int(pairs[0, 1])) if len(pairs) else None


def refuse_confusing(code: Code) -> None:
    """Refuse a code in which the counts of some cells cannot be found from the bits."""
    rows = np.vstack([np.ones(code.members.shape[1]), code.members.astype(np.float64)])
    if np.linalg.matrix_rank(rows) < code.members.shape[1]:
        raise StudyError(
            "the bits of this matrix response do not tell all cells apart; make the study again"
        )


def _apart(members: NDArray[np.bool_], rates: Sequence[int]) -> NDArray[Any]:
    """Σ_k rate_k·|b_k(x) − b_k(y)| for all cells x and y, as Python integers.

    Rates are cut into pieces of 26 binary digits, for which sums of up to 2^27 products are exact
    in doubles.
    """
    ones = members.astype(np.float64)
    total: NDArray[Any] = np.zeros((members.shape[1],) * 2, dtype=object)
    for place in range(0, max((rate.bit_length() for rate in rates), default=0), _LIMB):
        piece = np.array([(rate >> place) & ((1 << _LIMB) - 1) for rate in rates], dtype=np.float64)
        half = (ones.T * piece) @ (1 - ones)
        total += (half + half.T).astype(np.int64).astype(object) * (1 << place)
    return total
