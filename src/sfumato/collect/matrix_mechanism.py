"""The published local matrix mechanism: rows of a strategy with Laplace noise, for any E.

Xiang et al. 2020, §3: a person sends A·h_x + noise, and the collector reads W·c as B times the sum.
Here the rows lie on a lattice and the noise is discrete Laplace noise of unlimited range on it,
drawn exactly, so that nothing depends on rounding.

Guarantee:
    Σ_k u_k·|A_kx − A_kx'| <= E(x, x') for all pairs (Proposition 2), checked in rational numbers;
    noise on row k of law P(z) ∝ e^(−u_k·unit_k·|z|), z a whole number of units.

Estimator:
    W = BA with B by weighted least squares, the number of people known. Unbiased, with the exact
    variance n·Σ_k B_qk²·unit_k²·2α_k/(1−α_k)², α_k = e^(−u_k·unit_k) (Proposition 3, whose 2/u_k²
    is that of noise on the reals). A row off its lattice is measured as rounded, and B is found
    for the rounded row, so granularity costs no bias.

Bits are better where they fit: see `MatrixResponse`, which has half the variance.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.arrays import Cells, Floats
from sfumato.domains.tables import columns
from sfumato.errors import DataError, FormatError, MismatchError, StudyError, rows
from sfumato.estimation.answers import Answers
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.edges import edges_of
from sfumato.noise.allocate import check
from sfumato.noise.fit import Fitted, fit
from sfumato.noise.rows import rows_of, units_of
from sfumato.noise.search import search_gram
from sfumato.questions.given import Given
from sfumato.questions.lattice import Lattice
from sfumato.questions.lines import Identity
from sfumato.questions.reconstruction import Reader
from sfumato.questions.workload import Workload
from sfumato.randomness.bits import BitSource, SecureBits, SeededBits
from sfumato.randomness.laplace import discrete_laplace
from sfumato.study.axis import Axis

Integers = NDArray[np.int64]

_PEOPLE_AT_ONCE = 1 << 14
_LOW = (1 << 32) - 1


@dataclass(frozen=True, slots=True, eq=False)
class MatrixTally:
    """Sums of all reports, one a row of the strategy, and how many there are.

    Tallies of one mechanism add up; the tally of nobody changes nothing.
    """

    fingerprint: str
    sums: tuple[int, ...]
    n: int

    def __add__(self, other: MatrixTally) -> MatrixTally:
        if not isinstance(other, MatrixTally):
            return NotImplemented
        if other.fingerprint != self.fingerprint:
            raise MismatchError(
                "these tallies come from different matrix mechanisms and do not add up; tally "
                "reports of one mechanism"
            )
        sums = tuple(a + b for a, b in zip(self.sums, other.sums, strict=True))
        return MatrixTally(self.fingerprint, sums, self.n + other.n)

    def __radd__(self, other: object) -> MatrixTally:
        """Let `sum(tallies)` start from 0."""
        return self if other == 0 else NotImplemented

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MatrixTally) and (self.fingerprint, self.sums, self.n) == (
            other.fingerprint,
            other.sums,
            other.n,
        )

    __hash__ = None  # type: ignore[assignment]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"mechanism": self.fingerprint, "sums": list(self.sums), "people": self.n}

    @classmethod
    def from_dict(cls, data: Any) -> MatrixTally:
        """Read back what `to_dict` wrote."""
        try:
            sums, n, name = data["sums"], data["people"], data["mechanism"]
            good = all(type(s) is int for s in (*sums, n)) and n >= 0 and isinstance(name, str)
        except (KeyError, TypeError):
            good = False
        if not good:
            raise FormatError("this is not the tally of a matrix mechanism; write it anew")
        return cls(name, tuple(sums), n)


@dataclass(frozen=True, eq=False)
class MatrixMechanism:
    """Measure the rows of a strategy under any metric, and answer a workload from them.

    Args:
        protect: E between cells: an axis with its protection, or a metric of cells.
        strategy: The rows that are measured: "identity", "prefix", "hierarchical", "haar",
            "searched", a workload, or a matrix of numbers, one row a measurement.
        workload: The questions: a workload, or a matrix; left out, every cell.
        noise: "laplace", discrete on the rows' lattice.
        allocation: How noise is shared out among the rows: "exact", or the ways of Kamalaruban
            et al. 2020, "equal", "shared" and "psa".
        branching: Children of a node, for "hierarchical".
        granularity: The lattice's unit, for rows that are off it; left out, found by itself.

    Raises:
        StudyError: If the rows cannot express a question; it says which, and what is left of it.

    Example:
        >>> import sfumato as sf
        >>> ages = sf.integers("age", 0, 9, protect=sf.Distance(epsilon=1))
        >>> mechanism = sf.MatrixMechanism(ages, "prefix", sf.questions.Ranges(10))
        >>> bool(np.allclose(mechanism.scales, 1.0))  # the paper's s = 1/ε, found by the solver
        True
        >>> tally = mechanism.simulate([3] * 500 + [7] * 500, seed=1)
        >>> answers = mechanism.answers(tally)
        >>> bool(abs(answers.values[3] - 500) < 4 * answers.stderr[3])
        True
    """

    id: ClassVar[str] = "matrix"
    protect: Axis | CellMetric
    strategy: str | Workload | ArrayLike = "identity"
    workload: Workload | ArrayLike | None = None
    noise: Literal["laplace"] = "laplace"
    allocation: Literal["exact", "equal", "shared", "psa"] = "exact"
    branching: int = 2
    granularity: Any = None
    questions: Workload = field(init=False, repr=False)
    fitted: Fitted = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Put the rows on their lattice, share out the noise, and check both ends."""
        if self.noise != "laplace":
            raise StudyError(f"noise must be 'laplace', got noise={self.noise!r}")
        if not isinstance(self.protect, (Axis, CellMetric)):
            raise StudyError(
                "protect must say which cells there are: an axis with its protection, or a metric "
                f"of cells such as axis.metric(), got {type(self.protect).__name__}"
            )
        questions = _as_workload(self.workload, self.size)
        object.__setattr__(self, "questions", questions)
        edges, gram = edges_of(self.metric), questions.gram()
        if isinstance(self.strategy, str) and self.strategy == "searched":
            fitted = search_gram(gram, edges).best
        else:
            lattice = Lattice.of(self._rows(), self.granularity)
            # This names the questions that the rows cannot express.
            Reader.of(lattice, np.ones(len(lattice)), known_total=True).total(questions)
            fitted = fit(lattice, gram, edges, method=self.allocation)
        if not check(fitted.lattice, edges, fitted.rates):
            raise StudyError("these rates do not keep the metric; this is a fault: report it")
        object.__setattr__(self, "fitted", fitted)

    def _rows(self) -> Any:
        """The strategy's rows as given or by name."""
        if isinstance(self.strategy, str):
            return rows_of(self.strategy, self.size, self.branching)
        columns = np.shape(self.strategy)[-1:]
        if columns != (self.size,):
            raise StudyError(
                f"strategy must have {self.size} columns, one a cell, got {columns}; or name it"
            )
        return self.strategy

    @cached_property
    def metric(self) -> CellMetric:
        """E between cells."""
        return self.protect.metric() if isinstance(self.protect, Axis) else self.protect

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.metric.size

    @property
    def rates(self) -> tuple[Fraction | None, ...]:
        """1/scale of the noise on every row, exact; None where it needs none."""
        return self.fitted.rates

    @property
    def scales(self) -> Floats:
        """Scales s of the noise on every row, 0 where it needs none."""
        return 1 / self.fitted.speed

    @cached_property
    def fingerprint(self) -> str:
        """A name for everything that the law of a report follows from."""
        lattice = self.fitted.lattice
        key = hashlib.sha256(f"{self.id} {lattice.shape} {lattice.units} {self.rates} ".encode())
        key.update(np.stack([lattice.row(k) for k in range(len(lattice))]).tobytes())
        return key.hexdigest()

    @cached_property
    def _reader(self) -> Reader:
        """How questions are read from the sums of the rows."""
        return Reader.of(self.fitted.lattice, self.fitted.noise, known_total=True)

    def encode(self, values: Any, bits: BitSource | None = None) -> Integers:
        """Measure every person's rows with noise: whole lattice steps, shape (people, rows).

        Args:
            values: Values of the axis if one was given, else numbers of cells.
            bits: Where randomness comes from; left out, the operating system's secure source.
        """
        source = SecureBits() if bits is None else bits
        return self._encode(self._cells(values), source)

    def _encode(self, cells: Cells, bits: BitSource) -> Integers:
        """The same for cells that were checked."""
        lattice = self.fitted.lattice
        out = np.empty((len(cells), len(lattice)), dtype=np.int64)
        for k, (rate, unit) in enumerate(zip(self.rates, lattice.units, strict=True)):
            out[:, k] = lattice.row(k)[cells]
            if rate is not None:
                out[:, k] += discrete_laplace(rate * unit, len(cells), bits)
        return out

    def _cells(self, values: Any) -> Cells:
        """Numbers of cells, checked; no value is shown."""
        if isinstance(self.protect, Axis):
            name = self.protect.name
            return self.protect.codes(columns({name: values}, [name])[0][name])
        cells = np.atleast_1d(np.asarray(values))
        if cells.dtype.kind not in "iu" or cells.ndim != 1:
            raise DataError("values must be a list of cells, whole numbers from 0")
        wrong = np.flatnonzero((cells < 0) | (cells >= self.size))
        if wrong.size:
            raise DataError(
                f"cells are numbered 0..{self.size - 1}, but {rows((wrong + 1).tolist())} "
                f"{'is' if wrong.size == 1 else 'are'} not among them"
            )
        return cells.astype(np.int64)

    def tally(self, reports: ArrayLike) -> MatrixTally:
        """Sum reports over people; that is all that answers need."""
        held = np.asarray(reports)
        width = len(self.fitted.lattice)
        if held.ndim != 2 or held.shape[1] != width or held.dtype.kind not in "iu":
            raise DataError(
                f"reports must be whole numbers, {width} a person, got shape {held.shape} of "
                f"{held.dtype}"
            )
        # Halves of a word at a time: no sum of reports can overflow.
        low = (held & _LOW).sum(axis=0, dtype=np.int64)
        high = (held >> 32).sum(axis=0, dtype=np.int64)
        sums = [(int(h) << 32) + int(part) for h, part in zip(high, low, strict=True)]
        return MatrixTally(self.fingerprint, tuple(sums), len(held))

    def empty_tally(self) -> MatrixTally:
        """The tally of nobody."""
        return MatrixTally(self.fingerprint, (0,) * len(self.fitted.lattice), 0)

    def simulate(self, values: Any, *, seed: int) -> MatrixTally:
        """Encode and tally in one step with repeatable randomness, for experiments."""
        bits, cells = SeededBits(seed), self._cells(values)
        parts = range(0, len(cells), _PEOPLE_AT_ONCE)
        tallies = (self.tally(self._encode(cells[s : s + _PEOPLE_AT_ONCE], bits)) for s in parts)
        return sum(tallies, self.empty_tally())

    def answers(self, tally: MatrixTally, *, level: float = 0.95) -> Answers:
        """Every question of the workload, with its exact standard error.

        Raises:
            MismatchError: If the tally is of another mechanism.
        """
        if tally.fingerprint != self.fingerprint:
            raise MismatchError(
                "this tally comes from another matrix mechanism; ask the one that made it"
            )
        units = units_of(self.fitted.lattice)
        noisy = np.append([float(total) for total in tally.sums] * units, float(tally.n))
        return Answers(
            values=self._reader.answers(self.questions, noisy),
            stderr=self.expected_error(tally.n),
            n=tally.n,
            kind="linear",
            axes=("question",),
            all_labels=(list(self.questions.labels),),
            all_edges=(None,),
            level=level,
        )

    def expected_error(self, n: int) -> Floats:
        """The standard error of every question from n people, exact, whoever they are."""
        return np.sqrt(n * self._reader.variances(self.questions))

    def total_error(self, n: int) -> float:
        """The expected sum of squared errors of all questions (Proposition 3), exact."""
        return n * self.fitted.error

    def published_error(self, n: int) -> float:
        """The same by the paper's own formula, 2n·Σ_k s_k²·‖B_·k‖², for noise on the reals."""
        return float(2 * n * (self.fitted.squares @ self.scales**2))


def _as_workload(workload: Workload | ArrayLike | None, size: int) -> Workload:
    """Questions about so many cells."""
    if workload is None:
        return Identity(size)
    held = workload if isinstance(workload, Workload) else Given(workload)
    if held.cells != size:
        raise StudyError(
            f"workload must be about the {size} cells that are protected, got {held.cells} columns"
        )
    return held
