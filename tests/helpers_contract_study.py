"""The laws of studies made of one channel, as checks of a study against its trial.

The study is reached through its public doors only: people's values go in, answers come out. What
they ought to be is computed here from the exact law of the channel, in C order of the axes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_contract import PEOPLE, Floats, Rows, Subject, codes_of, exceeding_pair, passes_for

import sfumato as sf
from sfumato.arrays import BitColumns
from sfumato.channels.choice import Choice, Trial, as_saved, choice_from_dict, choice_to_dict
from sfumato.errors import MismatchError
from sfumato.metrics.cells import CellMetric, TableMetric
from sfumato.metrics.distance import AsideMetric, CappedLineMetric, LineMetric
from sfumato.metrics.labelled import BlockMetric, HighLowMetric
from sfumato.metrics.norm_grids import NormGridMetric
from sfumato.metrics.uniform import UniformMetric
from sfumato.randomness.bits import SeededBits
from sfumato.study.axis import Axis

SPARE = 3  # cells of the axis beside a grid in a mixed study
RUNS = 120  # of a simulated study, for coverage
#: 95 % intervals that hold fewer times than this in 120 runs do so by chance once in 10,000 times.
LEAST_HELD = 103


def _labels(size: int) -> list[str]:
    return [f"c{cell}" for cell in range(size)]


def _edges(steps: Sequence[Fraction]) -> list[Fraction]:
    """Edges of bins whose centres are these steps apart: the first width is free, so far as it is.

    Widths alternate between sums and differences of the steps; all must be positive.
    """
    for share in range(1, 64):
        widths = [2 * min(steps) * Fraction(share, 64)]
        for step in steps:
            widths.append(2 * step - widths[-1])
        if min(widths) > 0:
            return [sum(widths[:k], Fraction(0)) for k in range(len(widths) + 1)]
    raise AssertionError("no bins have these steps between them; declare other steps in the trial")


def _steps(metric: Any) -> Sequence[Fraction]:
    """The step from each cell of a line to the next; "no answer" lies aside."""
    steps: Sequence[Fraction] = (metric.line if isinstance(metric, AsideMetric) else metric).steps
    return steps


def axis_of(metric: CellMetric, *, rounded: bool = False, choice: Choice | None = None) -> Axis:
    """An axis whose E between cells is the metric."""
    size = metric.size
    names = _labels(size)
    if isinstance(metric, UniformMetric) and rounded:
        protect = sf.Uniform(metric.epsilon)
        return sf.reals(
            "x", 0, size - 1, bins=size - 1, rounding="stochastic", protect=protect, channel=choice
        )
    if isinstance(metric, UniformMetric):
        return sf.integers("x", 0, size - 1, protect=sf.Uniform(metric.epsilon), channel=choice)
    if isinstance(metric, LineMetric | CappedLineMetric):
        cap = metric.cap if isinstance(metric, CappedLineMetric) else None
        step = metric.equal_step
        if step is None:
            protect = sf.Distance(1, cap=cap)
            return sf.reals("x", edges=_edges(metric.steps), protect=protect, channel=choice)
        protect = sf.Distance(step, cap=cap)
        if rounded:
            bins = size - 1
            return sf.reals(
                "x", 0, bins, bins=bins, rounding="stochastic", protect=protect, channel=choice
            )
        return sf.integers("x", 0, size - 1, protect=protect, channel=choice)
    if isinstance(metric, AsideMetric):
        return _optional(axis_of(metric.line, choice=choice), metric)
    if isinstance(metric, BlockMetric):
        parts = [np.array(names)[metric.block == k].tolist() for k in sorted(set(metric.block))]
        return sf.categories("x", names, protect=sf.Blocks(metric.epsilon, parts), channel=choice)
    if isinstance(metric, HighLowMetric):
        hidden = np.array(names)[metric.sensitive].tolist()
        protect = sf.HighLow(metric.epsilon, hidden)
        return sf.categories("x", names, protect=protect, channel=choice)
    assert isinstance(metric, TableMetric), "say here what axis has a metric of this kind"
    entries = [[metric.exact(i, j) for j in range(size)] for i in range(size)]
    values = [[float("inf") if e is None else e for e in row] for row in entries]
    return sf.categories("x", names, protect=sf.Matrix(values), channel=choice)


def _optional(axis: Axis, metric: AsideMetric) -> Axis:
    """The axis of a line with "no answer" aside."""
    assert isinstance(axis.protect, sf.Distance)
    epsilon, cap = axis.protect.epsilon, axis.protect.cap
    protect = sf.Distance(epsilon, no_answer=metric.aside / epsilon, cap=cap)
    return replace(axis, protect=protect, optional=True)


def study_of(trial: Trial, choice: Choice | None = None) -> sf.Study:
    """The study of one block that the trial is about."""
    choice = choice or trial.choice
    if isinstance(trial.metric, NormGridMetric):
        grid = sf.together(grid_axes(trial), protect=grid_protection(trial), channel=choice)
        return sf.Study("trial", [grid])
    if trial.shape is None:
        axis = axis_of(trial.metric, rounded=trial.resolution > 0, choice=choice)
        return sf.Study("trial", [axis])
    return sf.Study("trial", grid_axes(trial), protect=grid_protection(trial), channel=choice)


def mixed_study_of(trial: Trial) -> sf.Study:
    """The grid of the trial under one guarantee, and one more axis by itself."""
    grid = sf.together(grid_axes(trial), protect=grid_protection(trial), channel=trial.choice)
    beside = sf.integers("z", 0, SPARE - 1, protect=sf.Distance(1), channel=sf.Geometric())
    return sf.Study("mixed", [beside, grid])


def grid_protection(trial: Trial) -> Any:
    """The guarantee of a grid as a study states it."""
    if isinstance(trial.metric, NormGridMetric):
        return sf.Lp(1, trial.metric.order, cap=trial.metric.cap)
    assert isinstance(trial.metric, UniformMetric)
    return sf.Uniform(trial.metric.epsilon)


def grid_axes(trial: Trial) -> list[Axis]:
    """The axes of a grid, without a guarantee of their own."""
    if isinstance(trial.metric, NormGridMetric):
        pairs = zip(trial.metric.shape, trial.metric.steps, strict=True)
        return [
            sf.integers(f"x{k}", 0, size - 1)
            if step == 1
            else sf.reals(f"x{k}", 0, size * step, bins=size)
            for k, (size, step) in enumerate(pairs)
        ]
    assert trial.shape is not None
    assert trial.ordered is not None
    return [
        sf.integers(f"x{k}", 0, size - 1) if ordered else sf.categories(f"x{k}", _labels(size))
        for k, (size, ordered) in enumerate(zip(trial.shape, trial.ordered, strict=True))
    ]


@dataclass(frozen=True)
class Case:
    """A study with the exact law of its reports, computed apart from it.

    Attributes:
        study: The study.
        tables: Word counts of every block, one row per cell of it.
        axes: How many axes each block has.
        metrics: E between the cells of each block.
    """

    study: sf.Study
    tables: tuple[Rows, ...]
    axes: tuple[int, ...]
    metrics: tuple[CellMetric, ...]

    @classmethod
    def of(cls, subject: Subject) -> Case:
        """One block."""
        trial = subject.trial
        shape = trial.metric.shape if isinstance(trial.metric, NormGridMetric) else trial.shape
        axes = 1 if shape is None else len(shape)
        return cls(study_of(trial), (subject.table[0],), (axes,), (trial.metric,))

    @classmethod
    def mixed(cls, subject: Subject) -> Case:
        """The grid with another axis before it."""
        trial = subject.trial
        assert trial.shape is not None
        beside = LineMetric.equal(Fraction(1), SPARE)
        tables = (sf.Geometric().bind(beside).words()[0], subject.table[0])
        return cls(mixed_study_of(trial), tables, (1, len(trial.shape)), (beside, trial.metric))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Cells of every block."""
        return tuple(len(rows) for rows in self.tables)

    @property
    def cells(self) -> int:
        """Cells of the whole record."""
        return int(np.prod(self.sizes))

    @cached_property
    def law(self) -> Floats:
        """P(all outputs | record): blocks are perturbed by themselves."""
        found = np.ones((1, 1))
        for rows in self.tables:
            law = np.array([[float(Fraction(w, sum(row))) for w in row] for row in rows])
            found = np.kron(found, law)
        return found

    def rows(self) -> Rows:
        """The exact law of whole records in integers."""
        found = [[1]]
        for rows in self.tables:
            found = [[a * b for a in left for b in right] for left in found for right in rows]
        return found

    def exact(self, a: int, b: int) -> Fraction | None:
        """E between two records: blocks add up."""
        total = Fraction(0)
        pairs = zip(*(np.unravel_index(record, self.sizes) for record in (a, b)), strict=True)
        for metric, (x, y) in zip(self.metrics, pairs, strict=True):
            e = metric.exact(int(x), int(y))
            if e is None:
                return None
            total += e
        return total

    def people(self, records: Any) -> dict[str, Any]:
        """A table of people with these records, in the axes' own values."""
        codes = np.unravel_index(np.asarray(records), self.study.shape)
        table = {}
        for axis, code in zip(self.study.axes, codes, strict=True):
            if axis.domain.rounding_bits:
                table[axis.name] = code.astype(float)
            elif axis.name.startswith("x") and axis.labels()[0] == "c0":
                table[axis.name] = np.array(axis.labels())[code]
            elif axis.labels()[0] == "0":
                table[axis.name] = code
            elif len(self.study.shape) > 1:
                table[axis.name] = np.array(axis.domain.numbers())[code]
            else:
                edges = np.array([float(edge) for edge in _edges(_steps(self.metrics[0]))])
                middles = np.append((edges[:-1] + edges[1:]) / 2, np.nan)
                table[axis.name] = middles[code]
            if axis.optional:
                found = table[axis.name].tolist()
                answered = (code < axis.domain.size).tolist()
                table[axis.name] = [v if a else None for v, a in zip(found, answered, strict=True)]
        return table

    def single_reports(self) -> sf.Reports:
        """Each combination of outputs of all blocks once, in the order of the law's columns."""
        some = self.study.encode(self.people([0]), bits=SeededBits(1))
        counts = [len(rows[0]) for rows in self.tables]
        numbers = np.unravel_index(np.arange(np.prod(counts)), counts)
        outputs = []
        for column, number in zip(some.outputs, numbers, strict=True):
            if isinstance(column, BitColumns):
                bits = (number[:, None] >> np.arange(column.width)) & 1
                outputs.append(BitColumns.from_matrix(bits.astype(np.bool_)))
            else:
                outputs.append(number.astype(column.dtype))
        return replace(some, outputs=tuple(outputs))


# Laws


def axes_have_the_metric(case: Case) -> None:
    """The study promises exactly what the trial is tried with."""
    guarantee = case.study.guarantee
    pairs = product(range(case.cells), repeat=2)
    for a, b in pairs if case.cells <= 6 else [(0, b) for b in range(case.cells)]:
        table = case.people([a, b])
        one, other = ({name: values[k] for name, values in table.items()} for k in (0, 1))
        e = case.exact(a, b)
        found = guarantee.between(one, other)
        assert found == pytest.approx(float("inf") if e is None else float(e))


def records_keep_the_guarantee(case: Case) -> None:
    """No odds of the reports of any two whole records exceed e^E, decided in integers."""
    assert exceeding_pair(case.rows(), case.exact) is None


def audit_holds(case: Case, audit: Callable[[sf.Study], Any] = sf.audit) -> None:
    """The exact audit finds nothing that is told beyond E, nor less than is claimed."""
    found = audit(case.study)
    assert found.holds
    for block, channel in zip(found.axes, case.study.channels, strict=True):
        assert not block.problems
        assert channel.tightness <= block.spent <= 1


def records_are_encoded_by_the_law(
    case: Case, encode: Callable[..., Any] = sf.Study.encode
) -> None:
    """A seeded sample of people at all records, from their own values to the reports."""
    records = np.arange(PEOPLE // 4) % case.cells
    reports = encode(case.study, case.people(records), bits=SeededBits(11))
    counts = [len(rows[0]) for rows in case.tables]
    outputs = np.ravel_multi_index([codes_of(column) for column in reports.outputs], counts)
    assert passes_for(records, outputs, case.law)


def answers_are_unbiased(case: Case, transposed: bool = False) -> None:
    """E[answer | record] is what was asked, for weights that treat no two axes alike.

    The answer from one report is the function f of its outputs: f is summed over the exact law.
    `linear` is asked by cells in C order, `count` by a condition on each axis.
    """
    reports = case.single_reports()
    rng = np.random.default_rng(8)
    shape = case.study.shape
    weights = rng.normal(size=(3, *shape))
    by_axis = [_marked(axis) for axis in case.study.axes]
    box = np.ones(())
    for inside in by_axis:
        box = np.multiply.outer(box, inside.astype(np.float64))
    asked = np.concatenate([weights, box[None]]).reshape(4, -1)
    rounds = case.study.axes[0].domain.rounding_bits
    values = []
    for place in range(len(reports)):
        if not case.law[:, place].any():  # nobody sends this
            values.append([0.0] * 4)
            continue
        estimate = case.study.tally(reports[place : place + 1]).estimate("unbiased")
        answers = estimate.linear(asked).values
        # Behind rounding a range is no box of grid points.
        counted = answers[-1] if rounds else float(estimate.count(**_box(case, by_axis)))
        values.append([*answers[:3], counted])
    means = case.law @ np.array(values)
    if transposed:
        asked = np.stack([row.reshape(shape).T.ravel() for row in asked])
    assert np.abs(means - asked.T).max() <= 1e-7 * np.abs(values).max()


def _marked(axis: Axis) -> Any:
    """The last half of the cells, without "no answer", which no range holds."""
    cells = np.arange(axis.size)
    return (cells >= max(1, axis.size // 2)) & (cells < axis.domain.size)


def _box(case: Case, by_axis: Sequence[Any]) -> dict[str, Any]:
    """A question by conditions: on every axis the last values, which are marked."""
    found: dict[str, Any] = {}
    for axis, inside in zip(case.study.axes, by_axis, strict=True):
        first = int(np.argmax(inside))
        labels = axis.labels()
        if len(case.study.shape) > 1 and axis.domain.kind == "reals":
            found[axis.name] = (float(axis.domain.edges()[first]), None)
        elif axis.domain.rounding_bits or labels[0] not in ("0", "c0"):
            edges = _edges(_steps(case.metrics[0]))
            found[axis.name] = (float(edges[first]), None)
        elif labels[0] == "c0":
            found[axis.name] = set(labels[first:])
        else:
            found[axis.name] = (first, None)
    return found


def tables_agree_with_questions(case: Case, transposed: bool = False) -> None:
    """Histograms and heat maps are the answers to their cells.

    Likelihood decodes only the blocks that are asked about, so it agrees where there is one.
    """
    study = case.study
    records = np.random.default_rng(12).integers(0, case.cells, 400)
    tally = study.tally(study.encode(case.people(records), bits=SeededBits(13)))
    codes = np.array(np.unravel_index(np.arange(case.cells), study.shape))
    for method in ("unbiased", "likelihood")[: 1 + (len(study.blocks) == 1)]:
        estimate = tally.estimate(method)
        for axes in [(k,) for k in range(len(codes))] + [(len(codes) - 1, 0)] * (len(codes) > 1):
            names = [study.axes[axis].name for axis in axes]
            asked = estimate.histogram(*names) if len(axes) == 1 else estimate.heatmap(*names)
            places = np.ndindex(*(study.shape[axis] for axis in axes))
            rows = [(place == codes[list(axes)].T).all(axis=1) for place in places]
            single = estimate.linear(np.array(rows, dtype=np.float64))
            found = asked.values.T if transposed else asked.values
            assert np.allclose(found.ravel(), single.values, rtol=1e-6, atol=1e-6)
            stderr = asked.stderr.T if transposed else asked.stderr
            if method == "unbiased":
                assert np.allclose(stderr.ravel(), single.stderr, rtol=1e-6, atol=1e-6)


def likelihood_finds_the_record(case: Case, off: int = 0) -> None:
    """Where everybody has one record, that is the likeliest cell, at every corner that there is."""
    for record in (1, case.cells - 2):
        counts = np.zeros(case.cells, dtype=np.int64)
        counts[record] = 100_000
        tally = case.study.simulate_counts(counts, seed=14)
        found = tally.estimate("likelihood", smoothing="none").linear(np.eye(case.cells)).values
        assert int(np.argmax(found)) == record + off


def intervals_hold(case: Case, shift: float = 0.0) -> None:
    """95 % intervals of a count hold the truth as often as that, and its mean is the truth."""
    rng = np.random.default_rng(9)
    counts = rng.integers(20, 200, size=case.cells)
    by_axis = [_marked(axis) for axis in case.study.axes]
    inside = np.ones((), dtype=np.bool_)
    for marked in by_axis:
        inside = np.logical_and.outer(inside, marked)
    truth = counts[inside.ravel()].sum()
    held, errors = 0, []
    for run in range(RUNS):
        tally = case.study.simulate_counts(counts.reshape(case.study.shape), seed=run)
        answer = tally.estimate("unbiased").count(**_box(case, by_axis))
        held += bool(answer.low <= truth + shift * answer.stderr <= answer.high)
        errors.append((float(answer) - truth) / answer.stderr - shift)
    assert held >= LEAST_HELD
    assert abs(np.mean(errors)) <= 4.5 / RUNS**0.5


def tallies_merge(case: Case, add: Callable[[Any, Any], Any] = operator.add) -> None:
    """Tallies add up in any order and grouping to the tally of all; that of nobody adds nothing."""
    study = case.study
    records = np.random.default_rng(4).integers(0, case.cells, 300)
    reports = study.encode(case.people(records), bits=SeededBits(5))
    parts = [study.tally(reports[:70]), study.tally(reports[70:200]), study.tally(reports[200:])]
    a, b, c = parts
    whole = study.tally(reports)
    assert whole.n == 300
    assert add(add(a, b), c) == whole == add(a, add(b, c))
    assert add(c, add(b, a)) == whole
    nobody = study.tally(reports[:0])
    assert nobody.n == 0
    assert add(nobody, a) == a == add(a, nobody)
    assert study.tally([reports[:70], reports[70:]]) == whole
    assert a != b


def comes_back_from_files(
    case: Case, folder: Path, written: Callable[[Choice], dict[str, Any]] = choice_to_dict
) -> None:
    """The choice, the study, reports and a tally are the same after a file."""
    study = case.study
    for block in study.blocks:
        assert choice_from_dict(as_saved(written(block.choice))) == block.choice
    study.save(folder / "study.toml")
    again = sf.Study.load(folder / "study.toml")
    assert again.fingerprint == study.fingerprint
    for one, other in zip(again.channels, study.channels, strict=True):
        assert one.words() == other.words()
    reports = study.encode(case.people(np.arange(case.cells)), bits=SeededBits(6))
    reports.save(folder / "reports.parquet")
    tally = again.tally(sf.Reports.load(folder / "reports.parquet"))
    assert tally == study.tally(reports)
    tally.save(folder / "tally.parquet")
    assert sf.Tally.load(folder / "tally.parquet", study) == tally


def refuses_another_studys(case: Case, other: Case, folder: Path) -> None:
    """Reports and tallies of a study with another guarantee are not taken for this one's."""
    reports = other.study.encode(other.people([0, 0, 0]), bits=SeededBits(2))
    tally = other.study.tally(reports)
    with pytest.raises(MismatchError):
        case.study.tally(reports)
    with pytest.raises(MismatchError):
        case.study.tally(case.study.encode(case.people([0]), bits=SeededBits(2))) + tally
    tally.save(folder / "tally.parquet")
    with pytest.raises(MismatchError):
        sf.Tally.load(folder / "tally.parquet", case.study)
