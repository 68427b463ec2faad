"""The comb channel: each person reports a noisy phase of their cell at a random frequency.

A comb of k teeth has its teeth at equal distances around the axis, bent to a circle. The number of
teeth is drawn without looking at the cell, as 1/k; then the comb is turned at random so that the
cell is under a tooth with odds e^ε to any turn where it is not. Few teeth tell the rough place,
many the fine one. On several axes a comb is a plane wave over the whole grid, with a number
of teeth along each.

Guarantee:
    E = ε for any two cells of the grid, exact for the integer tables, and tight: all turns of a
    comb have one of two chances, whose ratio is at most e^ε.

Estimator:
    Cell x has phase v = Σ_d k_d·x_d·L/M_d modulo L on a circle of L steps; the report (k, u) has
    chance p_k·a((v − u) mod L), a being e^ε times larger on 0..t−1 than elsewhere. Turning all
    cells turns the reports, so the channel is diagonal in Fourier space: Q D⁻¹ Qᵀ has eigenvalue
    Σ p_k·|â(l)|² over the k and l with l·k = j at frequency j. Its inverse gives the reading with
    the least variance for people spread evenly, by fast transforms.

Why 1/k:
    A range and its complement are two arcs of the circle, so random ranges weigh frequency j by
    1/sin²(πj/m), and the least total variance Σ_j ω_j/p_j has p_j ∝ √ω_j ≈ 1/j. The best width of a
    tooth was found to be a share of about 1/(1 + e^(2ε/3)) of its period, from ε = 0.2 to 4: half
    where ε is small, less as it grows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.arrays import PEOPLE_AT_ONCE, Cells, Floats
from sfumato.channels.base import SymbolChannel, as_weights, claimed_tightness, with_known_total
from sfumato.channels.choice import Choice, Trial, needs_grid, needs_uniform, uniform_trials
from sfumato.channels.code import Code, Value, runs
from sfumato.channels.comb_tables import all_teeth, comb_weights, moduli_of, too_many, turn_words
from sfumato.errors import StudyError, TooLargeError
from sfumato.exact import exp_floor
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.uniform import UniformMetric
from sfumato.randomness.bits import BitSource
from sfumato.randomness.draws import Pick, Steps
from sfumato.randomness.tables import WordTable

_MOST_ENTRIES = 1 << 25
_MOST_RUNS = 128  # for decoding, turns are joined into at most this many runs per comb …
_FEWEST_RUNS = 8  # … or, of combs that are drawn seldom, to as few as these
_ENTRIES_AT_ONCE = 1 << 20
_ENTRIES_NEAR = 1 << 16


@dataclass(frozen=True, slots=True)
class Comb(Choice):
    """Choose the comb channel; it fits `Uniform` on ordered axes, one or several together.

    Example:
        >>> import sfumato as sf
        >>> age = sf.integers("age", 0, 99, protect=sf.Uniform(1), channel=sf.Comb())
        >>> tally = sf.Study("ages", [age]).simulate({"age": [40] * 5_000 + [41] * 5_000}, seed=1)
        >>> answer = tally.estimate("unbiased").count(age=(30, 50))
        >>> answer.low <= 10_000 <= answer.high
        True
    """

    id: ClassVar[str] = "comb"

    def misfit(self, metric: CellMetric) -> str | None:
        """It needs one ε for all pairs, and not too many combs and turns."""
        if needs_uniform(metric):
            return needs_uniform(metric)
        return too_many((metric.size,))

    def bind(self, metric: CellMetric, *, precision: int = 64, resolution: int = 0) -> CombChannel:
        """Combs along one ordered axis.

        Args:
            metric: E between the cells.
            precision: How many bits of a random word take part.
            resolution: Bits of a value's place between two cells; 0 without stochastic rounding.
        """
        self.refuse_misfit(metric, resolution)
        return self._bound(metric, (metric.size,), (True,), precision)

    def bind_grid(
        self, metric: UniformMetric, shape: tuple[int, ...], ordered: tuple[bool, ...]
    ) -> CombChannel:
        """Plane waves over the grid of several axes.

        Args:
            metric: One ε for any two cells of the grid.
            shape: Cells along every axis.
            ordered: Which axes have neighbouring cells.
        """
        return self._bound(metric, shape, ordered, 64)

    def _bound(
        self,
        metric: CellMetric,
        shape: tuple[int, ...],
        ordered: tuple[bool, ...],
        precision: int,
    ) -> CombChannel:
        """The channel proper, if it fits."""
        needs_grid(metric, shape, ordered)
        problem = needs_uniform(metric) or too_many(shape)
        if problem or not isinstance(metric, UniformMetric):
            raise StudyError(f"Comb does not fit: {problem}")
        return CombChannel(metric=metric, shape=shape, ordered=ordered, precision=precision)

    @classmethod
    def trials(cls) -> tuple[Trial, ...]:
        """Axes even and odd, at small and large ε, and grids."""
        return (
            *uniform_trials(cls(), (2, 5, 8), (3, 2), (3, 4), (2, 3, 2)),
            *uniform_trials(cls(), (4,), epsilon="1/10"),
            *uniform_trials(cls(), (6,), epsilon="3"),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class CombChannel(SymbolChannel):
    """Symbol `circle`·number of the comb + its turn; cells are flat in C order of `shape`."""

    id: ClassVar[str] = "comb"
    metric: UniformMetric
    shape: tuple[int, ...]
    ordered: tuple[bool, ...]
    precision: int = 64
    _combs: WordTable = field(init=False, repr=False)
    _turns: WordTable = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Draw up the tables of combs and turns in integers."""
        total = 1 << self.precision
        weights = comb_weights(self.teeth, self.moduli, self.ordered)
        whole = sum(weights)
        words = [weight * total // whole for weight in weights]
        words[0] += total - sum(words)
        object.__setattr__(self, "_combs", WordTable(words, self.precision))
        odds = exp_floor(self.metric.epsilon)
        turns = turn_words(odds, self.tooth, self.circle, self.precision)
        object.__setattr__(self, "_turns", WordTable(turns, self.precision))

    @cached_property
    def moduli(self) -> tuple[int, ...]:
        """Steps of a full turn along each axis: its cells, or more where that keeps turns few."""
        return moduli_of(self.shape)

    @property
    def circle(self) -> int:
        """L, the steps of a full turn."""
        return math.lcm(*self.moduli)

    @cached_property
    def tooth(self) -> int:
        """t, the steps of a turn under a tooth: a share of 1/(1 + e^(2ε/3))."""
        odds = exp_floor(self.metric.epsilon * Fraction(2, 3))
        return max(1, round(self.circle / (1 + odds)))

    @cached_property
    def teeth(self) -> NDArray[np.int64]:
        """Teeth along every axis, one row per comb; of k and −k, which say the same, only one."""
        return all_teeth(self.moduli)

    @property
    def outputs(self) -> int:
        """All turns of all combs."""
        return len(self.teeth) * self.circle

    @property
    def tightness(self) -> float:  # type: ignore[override]
        """Two cells that some comb separates spend all of ε, except for rounding."""
        return claimed_tightness(exp_floor(self.metric.epsilon), self.precision)

    @cached_property
    def chances(self) -> Floats:
        """p_k, the chance of each comb."""
        return np.array(self._combs.weights, dtype=np.float64) / float(1 << self.precision)

    @cached_property
    def turn_chances(self) -> Floats:
        """a(o), the chance that the cell's phase is o steps beyond the turn."""
        return np.array(self._turns.weights, dtype=np.float64) / float(1 << self.precision)

    def encode(self, cells: Cells, bits: BitSource) -> Cells:
        """Draw a comb, find the cell's phase, and turn the comb a random distance behind it.

        Args:
            cells: One cell per person.
            bits: Where randomness comes from.
        """
        out = np.empty(len(cells), dtype=self.symbol_type())
        for start in range(0, len(cells), PEOPLE_AT_ONCE):
            part = np.asarray(cells[start : start + PEOPLE_AT_ONCE], dtype=np.int64)
            comb = self._combs.draw(bits, len(part))
            behind = self._turns.draw(bits, len(part))
            turn = (self._phase(part, comb) - behind) % self.circle
            out[start : start + len(part)] = comb.astype(np.int64) * self.circle + turn
        return out

    def steps(self, cells: NDArray[np.int64]) -> Steps:
        """A comb, and how far behind the cell's phase it is turned."""
        comb = yield Pick(self._combs.weights, self.precision)
        behind = yield Pick(self._turns.weights, self.precision)
        return comb * self.circle + (self._phase(cells, comb) - behind) % self.circle

    def device_code(self, code: Code, cell: Value) -> Value:
        """A comb, and how far behind the cell's phase it is turned.

        Args:
            code: Where instructions are added.
            cell: The cell.
        """
        comb = code.pick(runs(self._combs.weights), self.precision)
        behind = code.pick(runs(self._turns.weights), self.precision)
        phase = code.constant(self.circle)
        for axis, place in enumerate(code.unravelled(cell, self.shape)):
            step = self.circle // self.moduli[axis]
            teeth = code.take(self.teeth[:, axis].tolist(), comb)
            phase = phase + teeth * place % self.moduli[axis] * step
        return comb * self.circle + (phase - behind) % self.circle

    def _phase(self, cells: NDArray[np.int64], combs: NDArray[Any]) -> NDArray[np.int64]:
        """Where cells are on their combs' circles."""
        places = np.unravel_index(cells, self.shape)
        phase = np.zeros(np.broadcast_shapes(cells.shape, combs.shape), dtype=np.int64)
        for axis, place in enumerate(places):
            step = self.circle // self.moduli[axis]
            phase += self.teeth[combs, axis] * place % self.moduli[axis] * step
        return phase % self.circle

    def words(self) -> tuple[list[list[int]], int]:
        """Exact word counts."""
        self._refuse_matrix()
        phases = self._phases().tolist()
        turns, circle = self._turns.weights, self.circle
        rows = [
            [
                comb * turns[(phase - turn) % circle]
                for comb, phase in zip(self._combs.weights, row, strict=True)
                for turn in range(circle)
            ]
            for row in phases
        ]
        return rows, 1 << 2 * self.precision

    def sampler_problems(self) -> Iterator[str]:
        """The sampler's tables of combs and turns must give every outcome its weight."""
        yield from self._combs.problems()
        yield from self._turns.problems()

    def worst_ratio(self) -> Fraction:
        """The odds of a phase under a tooth against one beside it."""
        return Fraction(max(self._turns.weights), min(self._turns.weights))

    def likelihood(self) -> Floats:
        """P(output | cell)."""
        self._refuse_matrix()
        behind = (self._phases()[:, :, None] - np.arange(self.circle)) % self.circle
        law: Floats = self.chances[:, None] * self.turn_chances[behind]
        return law.reshape(self.size, self.outputs)

    def _phases(self) -> NDArray[np.int64]:
        """Every cell's phase on every comb."""
        return self._phase(np.arange(self.size)[:, None], np.arange(len(self.teeth))[None, :])

    def joined(self) -> NDArray[np.intp] | None:
        """Where runs of turns begin that may be joined when reports are decoded.

        What is lost falls as one over the runs of a comb, so combs that are drawn often have more:
        in proportion to the root of their chance.
        """
        if self.circle <= _FEWEST_RUNS:
            return None
        share = np.sqrt(self.chances / self.chances.max())
        runs = np.clip(np.rint(_MOST_RUNS * share), _FEWEST_RUNS, min(_MOST_RUNS, self.circle))
        starts = [
            comb * self.circle + np.arange(int(count)) * self.circle // int(count)
            for comb, count in enumerate(runs)
        ]
        return np.concatenate(starts)

    def joined_likelihood(self, starts: NDArray[np.intp]) -> Floats:
        """P(run | cell) for runs of turns: a sum of chances of consecutive distances.

        It depends on the cell's phase alone, and is the same for combs with the same runs.
        """
        comb, first = np.divmod(starts, self.circle)
        length = np.append(starts[1:], self.outputs) - starts  # a run ends within its circle
        upto = np.append(0.0, np.cumsum(np.tile(self.turn_chances, 2)))
        ends = np.searchsorted(comb, np.arange(len(self.teeth) + 1)).tolist()
        by_phase: dict[bytes, Floats] = {}
        out = np.empty((self.size, len(starts)))
        for tooth, (low, high) in enumerate(itertools.pairwise(ends)):
            key = first[low:high].tobytes()
            if key not in by_phase:
                last = first[low:high] + length[low:high] - 1
                nearest = (np.arange(self.circle)[:, None] - last) % self.circle
                by_phase[key] = upto[nearest + length[low:high]] - upto[nearest]
            phase = self._phase(np.arange(self.size), np.array(tooth))
            out[:, low:high] = self.chances[tooth] * by_phase[key][phase]
        return out

    @cached_property
    def _places(self) -> NDArray[np.intp]:
        """Where harmonic l of comb k is among the grid's frequencies: l·k, one row per comb."""
        harmonics = np.arange(self.circle // 2 + 1)
        parts = [
            self.teeth[:, axis, None] * harmonics % modulus
            for axis, modulus in enumerate(self.moduli)
        ]
        return np.ravel_multi_index(parts, self.moduli)

    @cached_property
    def _harmonics(self) -> NDArray[np.complex128]:
        """â(l), the Fourier transform of the turns' chances.

        What all turns share is in â(0) = 1 alone; without it no difference is of near numbers.
        """
        from scipy import fft

        least = min(self._turns.weights)
        beyond = np.array([words - least for words in self._turns.weights], dtype=np.float64)
        result: NDArray[np.complex128] = fft.rfft(beyond / float(1 << self.precision))
        result[0] = 1.0
        return result

    @cached_property
    def _twice(self) -> Floats:
        """Harmonics 1 to below L/2 stand for their conjugates as well."""
        twice = np.full(self.circle // 2 + 1, 2.0)
        twice[0] = 1.0
        if self.circle % 2 == 0:
            twice[-1] = 1.0
        return twice

    @cached_property
    def information(self) -> Floats:
        """Eigenvalues of Q D⁻¹ Qᵀ over the number of cells, one per frequency of the grid."""
        power = self.chances[:, None] * np.abs(self._harmonics) ** 2 * self._twice / 2
        one = np.bincount(self._places.ravel(), power.ravel(), math.prod(self.moduli))
        grid = one.astype(np.float64).reshape(self.moduli)
        axes = tuple(range(grid.ndim))
        mirrored = np.roll(np.flip(grid), 1, axis=axes)
        return (grid + mirrored).ravel()

    def transfer(self) -> Floats:
        """A cosine of k half turns lies between the Fourier frequencies below and above k/2.

        It has nothing of the constants: one half turn lies at the first frequency.
        """
        found = self.information.reshape(self.moduli)
        for axis, (size, modulus) in enumerate(zip(self.shape, self.moduli, strict=True)):
            waves = np.arange(size)
            half = waves * modulus / (2 * size)
            below = np.maximum(np.floor(half), waves > 0).astype(int)
            above = np.ceil(half).astype(int)
            found = (np.take(found, below, axis) + np.take(found, above, axis)) / 2
        return found

    knows_even_information: ClassVar[bool] = True

    def even_information(self, values: Floats) -> Floats:
        """Multiply by the eigenvalues at every frequency.

        Args:
            values: One entry per cell along the last axis.
        """
        from scipy import fft

        grid = values.reshape(*values.shape[:-1], *self.shape)
        axes = tuple(range(grid.ndim - len(self.shape), grid.ndim))
        spectrum = fft.rfftn(grid, self.moduli, axes=axes)
        own = self.information.reshape(self.moduli)[..., : self.moduli[-1] // 2 + 1]
        spectrum *= own * math.prod(self.moduli)
        back = fft.irfftn(spectrum, self.moduli, axes=axes)
        inside = (slice(None),) * (grid.ndim - len(self.shape))
        found: Floats = back[(*inside, *(slice(size) for size in self.shape))]
        return found.reshape(values.shape)

    def coefficients(self, weights: Floats) -> Floats:
        """Divide by the eigenvalues at every frequency, then mix; the mean is known exactly."""
        centre = weights.mean(axis=-1, keepdims=True)
        spectrum = self._divided(weights - centre)
        off = self._through(spectrum, np.full(len(self.teeth), float(self.circle)))
        result: Floats = centre + off
        return result

    def _divided(self, off: Floats) -> NDArray[np.complex128]:
        """The spectrum of weights without their mean, divided by the eigenvalues."""
        spectrum = self._spectrum(off)
        spectrum[..., 0] = 0.0
        spectrum[..., 1:] /= self.information[1:] * math.prod(self.moduli)
        return spectrum

    def mix(self, law: Floats) -> Floats:
        """Read the law's spectrum at each comb's harmonics."""
        return self._through(self._spectrum(law), self.chances)

    def gather(self, profile: Floats) -> Floats:
        """As `expect`, divided by the eigenvalues; cells together count everybody."""
        divided = np.zeros(math.prod(self.moduli))
        divided[1:] = 1 / (self.information[1:] * len(divided))
        along = self._collected(profile, self._harmonics, divided)
        return with_known_total(along, profile.sum(axis=-1))

    def expect(self, table: Floats) -> Floats:
        """Every comb's harmonics, gathered in one spectrum of the grid."""
        return self._collected(table, self.chances[:, None] * self._harmonics / self.circle)

    def products(self, profile: Floats, w: Floats, v: Floats) -> Floats:
        """Rows that are shifted copies of the first are computed by one transform.

        Args:
            profile: Sums by feature along the last axis.
            w: One row of weights per question.
            v: The other factor: as many rows, or one row for all.
        """
        from scipy import fft

        moves = self._moves(w) if v is w else None
        if moves is None:
            return super().products(profile, w, v)
        square = self.coefficients(w[0]).reshape(len(self.teeth), self.circle) ** 2
        back = fft.rfft(square, axis=-1).conj() / self.circle
        return self._collected(profile, back)[..., moves]

    def second_moment(self, weights: ArrayLike) -> Floats:
        """Rows that are shifted copies of the first have its second moment, shifted."""
        w = as_weights(weights, self.size)
        moves = self._moves(w) if w.ndim > 1 else None
        if moves is None:
            return super().second_moment(w)
        return super().second_moment(w[0])[self._moved(moves)]

    def squares(self, profile: Floats, rows: Floats) -> tuple[Floats, Floats]:
        """Both from the same readings, a few combs at a time: what stays in near memory is faster.

        Args:
            profile: Sums by feature.
            rows: One row of weights per question.
        """
        from scipy import fft

        if self._moves(rows) is not None:
            return super().squares(profile, rows)
        at_once = max(1, _ENTRIES_NEAR // self.circle)
        blocks = [slice(k, k + at_once) for k in range(0, len(self.teeth), at_once)]
        counts = profile.reshape(len(self.teeth), self.circle)
        back, ahead = np.conj(self._harmonics) * self.circle, self._harmonics * self._twice
        chances = self.chances[:, None] / self.circle
        centres = rows.mean(axis=-1)
        totals = np.zeros(len(rows))
        spectra = np.zeros((len(rows), math.prod(self.moduli)), complex)
        for row, spectrum in enumerate(self._divided(rows - centres[:, None])):
            for combs in blocks:
                places = self._places[combs]
                read = fft.irfft(spectrum[places] * back, self.circle, axis=-1)
                read += centres[row]
                read *= read
                totals[row] += np.vdot(counts[combs], read)
                along = fft.rfft(read, axis=-1) * ahead * chances[combs]
                spectra[row] += _binned(places, along, spectra.shape[1])
        return totals, self._on_cells(spectra)

    def _moves(self, rows: Floats) -> NDArray[np.intp] | None:
        """The shift of each row against the first, as cells; None if rows are not shifted copies.

        Only where every axis has as many steps around as cells: elsewhere the ends stay behind.
        """
        if self.shape != self.moduli or rows.ndim != 2 or len(rows) < 2:
            return None
        tops = np.unravel_index(np.argmax(rows, axis=-1), self.shape)
        parts = [(top - top[0]) % size for top, size in zip(tops, self.shape, strict=True)]
        moves = np.ravel_multi_index(parts, self.shape)
        return moves if np.array_equal(rows, rows[0][self._moved(moves)]) else None

    def _moved(self, moves: NDArray[np.intp]) -> NDArray[np.intp]:
        """Where every cell was before the moves, one row per move."""
        before = [
            (place - move[:, None]) % size
            for place, move, size in zip(
                np.unravel_index(np.arange(self.size), self.shape),
                np.unravel_index(moves, self.shape),
                self.shape,
                strict=True,
            )
        ]
        return np.ravel_multi_index(before, self.shape)

    def _collected(
        self, table: Floats, scale: NDArray[np.complex128], at: Floats | float = 1.0
    ) -> Floats:
        """Along each comb the table's harmonics times a scale, gathered by frequency of the grid.

        Args:
            table: One entry per output along the last axis.
            scale: One entry per comb and harmonic, or a harmonic.
            at: What a frequency of the grid is multiplied by.
        """
        from scipy import fft

        flat = table.reshape(-1, len(self.teeth), self.circle)
        spectra = np.empty((len(flat), math.prod(self.moduli)), complex)
        twice = scale * self._twice
        for row, values in enumerate(flat):
            along = fft.rfft(values, axis=-1) * twice
            spectra[row] = _binned(self._places, along, spectra.shape[1])
        spectra *= at
        return self._on_cells(spectra).reshape(*table.shape[:-1], self.size)

    def _on_cells(self, spectra: NDArray[np.complex128]) -> Floats:
        """Back from frequencies of the grid to its cells, one row each."""
        from scipy import fft

        axes = tuple(range(1, len(self.moduli) + 1))
        grids = fft.ifftn(spectra.reshape(-1, *self.moduli), axes=axes, norm="forward").real
        found: Floats = grids[(slice(None), *(slice(size) for size in self.shape))]
        return found.reshape(-1, self.size)

    def _spectrum(self, values: Floats) -> NDArray[np.complex128]:
        """The Fourier transform over the grid, flat, with zeros beyond its cells."""
        from scipy import fft

        grid = values.reshape(*values.shape[:-1], *self.shape)
        axes = tuple(range(grid.ndim - len(self.shape), grid.ndim))
        found: NDArray[np.complex128] = fft.fftn(grid, self.moduli, axes=axes)
        return found.reshape(*values.shape[:-1], -1)

    def _through(self, spectrum: NDArray[np.complex128], scale: Floats) -> Floats:
        """For each comb the chances of its turns, times a factor per comb."""
        from scipy import fft

        flat = spectrum.reshape(-1, spectrum.shape[-1])
        out = np.empty((len(flat), self.outputs))
        back = np.conj(self._harmonics)
        at_once = max(1, _ENTRIES_AT_ONCE // self.outputs)
        for start in range(0, len(flat), at_once):
            part = flat[start : start + at_once][:, self._places]
            part *= back
            turned = fft.irfft(part, self.circle, axis=-1)
            turned *= scale[:, None]
            out[start : start + at_once] = turned.reshape(len(turned), -1)
        return out.reshape(*spectrum.shape[:-1], self.outputs)

    def _refuse_matrix(self) -> None:
        """Refuse a matrix of cells by outputs beyond the stated size."""
        if self.size * self.outputs > _MOST_ENTRIES:
            raise TooLargeError(
                f"the likelihood of {self.size} cells by {self.outputs} outputs needs "
                f"{self.size * self.outputs * 8 / 2**30:.1f} GiB; the limit is "
                f"{_MOST_ENTRIES * 8 / 2**30:.2f} GiB. Use mix() and expect(), which need none"
            )


def _binned(
    places: NDArray[np.intp], values: NDArray[np.complex128], count: int
) -> NDArray[np.complex128]:
    """Sums of complex values by place."""
    flat, values = places.ravel(), values.ravel()
    real, imaginary = (np.bincount(flat, part, count) for part in (values.real, values.imag))
    found: NDArray[np.complex128] = real + 1j * imaginary
    return found
