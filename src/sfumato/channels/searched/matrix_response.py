"""Bits of any 0/1 code, each flipped by itself: the matrix mechanism of Xiang et al. 2020, §3.

The paper adds Laplace noise to the entries of A·h_x. Where A has entries 0 and 1 the noisy entry,
on the lattice of whole numbers and clamped to 0 and 1, is the bit flipped with odds e^u: clamping
loses nothing, for all values on one side have proportional likelihoods, and the variance
e^u/(e^u − 1)² is half that of the noise before. Prefixes along a line are the thermometer, single
cells under one ε are the (symmetric) unary encoding.

Guarantee:
    Σ_k u_k·|A_kx − A_kx'| <= E(x, x') for all pairs, in rational numbers, checked when the channel
    is bound (Proposition 2); each bit's odds are at most e^(u_k), rounded down.

Estimator:
    Weighted least squares with the number of people known (`workloads/reading.py`), unbiased;
    the variance is the same whoever answers.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from sfumato import cache
from sfumato.arrays import Floats
from sfumato.channels.base import Choice, Trial, uniform_trials
from sfumato.channels.searched.codes import (
    MOST_BITS,
    MOST_CELLS,
    Code,
    code_from_text,
    code_to_text,
)
from sfumato.channels.searched.flipped_codes import MatrixResponseChannel
from sfumato.channels.searched.optimised import OWN, Optimised
from sfumato.errors import StudyError, TooLargeError, near
from sfumato.metrics.cells import CellMetric, TableMetric
from sfumato.metrics.distance import CappedLineMetric, LineMetric
from sfumato.metrics.edges import Edges, edges_of
from sfumato.metrics.uniform import UniformMetric

STRATEGIES = ("searched", "identity", "prefix", "hierarchical")
GIVEN = "given"  # the name of a strategy that was a matrix, once its rates are found
MOST_SEARCHED_CELLS = 128

_METHOD = 1  # raised when the search changes, so that no older result is taken from the cache


@dataclass(frozen=True, slots=True)
class MatrixResponse(Choice):
    """Choose flipped bits of a code made for a workload; it fits any finite metric.

    Making a study finds how much of E every bit may spend, and for "searched" which bits to send:
    seconds for 16 cells, a minute for 64 or more. Both are kept in the study and its file, and in a
    cache on this machine. Up to 64 cells `Extremal` has smaller errors still, where E is finite.

    Args:
        strategy: Which bits are sent: one a cell ("identity"), one a threshold ("prefix"), one a
            node of a tree ("hierarchical"), the best found among all of these ("searched"), or a
            matrix of zeros and ones, one row a bit and one column a cell.
        workload: Which questions should have a small error: "cells", "ranges", "prefixes", or a
            matrix, one row a question and one column a cell. Left out, ranges where cells lie on a
            line, else cells.
        branching: Children of a node in the tree.
        table: Bits and rates, as `settled` writes them; not for people.

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
    slow: ClassVar[bool] = True
    strategy: str | ArrayLike = "searched"
    workload: str | ArrayLike | None = None
    branching: int = 2
    table: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Check what can be checked before the axis is known."""
        object.__setattr__(self, "strategy", _checked_strategy(self.strategy, self.table))
        if self.workload is not None and not (self.table is not None and self.workload == OWN):
            questions = self.workload
            if hasattr(questions, "dense"):
                questions = questions.dense()
            object.__setattr__(self, "workload", Optimised(questions).workload)
        branching = self.branching
        if isinstance(branching, bool) or not isinstance(branching, int) or branching < 2:
            raise StudyError(f"branching must be a whole number from 2, got {branching=}")
        if self.table is not None:
            code_from_text(self.table)

    def misfit(self, metric: CellMetric) -> str | None:
        """It needs a number of cells that suits the search, and matrices of that many columns."""
        most = MOST_SEARCHED_CELLS if self.table is None and self.strategy == "searched" else 0
        if metric.size > (most or MOST_CELLS):
            return _too_large(metric.size, searched=bool(most))
        for what, matrix in (("strategy", self.strategy), ("workload", self.workload)):
            if self.table is None and not isinstance(matrix, str | None):
                columns = np.shape(matrix)[1]
                if columns != metric.size:
                    return (
                        f"its {what} has {columns} columns and the axis has {metric.size} cells; "
                        "give one column a cell"
                    )
        if self.table is not None:
            cells = code_from_text(self.table).members.shape[1]
            if cells != metric.size:
                return (
                    f"its table is for {cells} cells and the axis has {metric.size}; make it anew"
                )
        return None

    def settled(
        self, metric: CellMetric, *, progress: Callable[[float], None] | None = None
    ) -> MatrixResponse:
        """The choice with its bits and rates: found now, or earlier on this machine.

        Raises:
            StudyError: If a given strategy does not tell all cells apart.
            TooLargeError: If there are too many cells.
        """
        problem = self.misfit(metric) if self.table is None else None
        if problem and metric.size > MOST_SEARCHED_CELLS:
            raise TooLargeError(f"MatrixResponse does not fit this axis: {problem}")
        if self.table is not None or problem:
            return self
        workload = self.workload
        if workload is None:
            along = isinstance(metric, LineMetric | CappedLineMetric)
            workload = "ranges" if along else "cells"
        edges = edges_of(metric)
        gram = Optimised(workload)._gram(metric.size)
        name = self._key(edges, gram)
        text = cache.read(name)
        if text is None or not _is_whole(text, metric.size):
            text = code_to_text(self._found(edges, gram, progress))
            cache.keep(name, text)
        return MatrixResponse(
            self.strategy if isinstance(self.strategy, str) else GIVEN,
            workload if isinstance(workload, str) else OWN,
            self.branching,
            text,
        )

    def _found(self, edges: Edges, gram: Floats, progress: Callable[[float], None] | None) -> Code:
        """Bits and rates by the solver."""
        from sfumato.noise.search import search_gram
        from sfumato.noise.strategies import fit, rows_of, telling
        from sfumato.questions.lines import Identity
        from sfumato.questions.reconstruction import reconstruct

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
        return Code(found.rows > 0, found.rates)

    def _key(self, edges: Edges, gram: Floats) -> str:
        """A name for the cache, of all that the result follows from."""
        key = hashlib.sha256(f"{_METHOD} {edges.size} {self.strategy} {self.branching} ".encode())
        for part in (edges.first, edges.second, *(group.marks for group in edges.groups)):
            key.update(np.ascontiguousarray(part, dtype="<i8").tobytes())
        apart = [edges.numerators.tolist(), edges.unit, *(group.length for group in edges.groups)]
        key.update(str(apart).encode())
        key.update(np.ascontiguousarray(gram, dtype="<f8").tobytes())
        return f"matrix-response-{key.hexdigest()[:40]}.txt"

    def bind(
        self, metric: CellMetric, *, precision: int = 64, rounded: bool = False
    ) -> MatrixResponseChannel:
        """Find the code if need be, and check it against E."""
        choice = self.settled(metric)
        problem = choice.misfit(metric)
        if rounded or problem or choice.table is None:
            raise StudyError(
                f"MatrixResponse does not fit this axis: {problem or 'it cannot round'}"
            )
        code = code_from_text(choice.table)
        return MatrixResponseChannel(metric=metric, code=code, precision=precision)

    def options(self) -> dict[str, Any]:
        """Strategy and workload, and the bits once they are found."""
        found: dict[str, Any] = {"strategy": self.strategy}
        if not isinstance(self.strategy, str):
            found["strategy"] = np.asarray(self.strategy).tolist()
        if self.workload is not None:
            named = isinstance(self.workload, str)
            found["workload"] = self.workload if named else np.asarray(self.workload).tolist()
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
                f"strategy must be one of these or a matrix, got strategy={strategy!r}: "
                f"{near(strategy, STRATEGIES)}"
            )
        return strategy
    try:
        matrix = np.asarray(strategy, dtype=np.float64)
    except (TypeError, ValueError):
        matrix = np.full((1, 1), math.nan)
    if matrix.ndim != 2 or not matrix.size or not np.isin(matrix, (0.0, 1.0)).all():
        raise StudyError(
            "strategy must be a matrix of zeros and ones, one row a bit and one column a cell, or "
            f"one of {', '.join(map(repr, STRATEGIES))}; got shape {matrix.shape}"
        )
    if len(matrix) > MOST_BITS:
        raise StudyError(f"a report has at most {MOST_BITS} bits, got {len(matrix)} rows")
    return tuple(tuple(int(bit) for bit in row) for row in matrix)


def _is_whole(text: str, cells: int) -> bool:
    """Whether a text from the cache can be used."""
    try:
        return bool(code_from_text(text).members.shape[1] == cells)
    except StudyError:
        return False


def _too_large(size: int, *, searched: bool) -> str:
    """Why so many cells are too many, and what would do."""
    if searched and size <= MOST_CELLS:
        return (
            f"the search for its bits is too long for {size} cells; the limit is "
            f"{MOST_SEARCHED_CELLS}. Use strategy='prefix' or 'identity', or wider cells"
        )
    return (
        f"a report of a bit a cell is too long for {size} cells; the limit is {MOST_CELLS}. Use "
        "wider bins or fewer categories"
    )
