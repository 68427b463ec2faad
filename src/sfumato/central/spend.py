"""What a release spends of a study's E: a share of all of it, or of single axes.

Whether it can be afforded is decided exactly, for every pair of cells: see `worst_share`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from sfumato.central.data import schema_of
from sfumato.errors import FormatError, SfumatoError, StudyError, near
from sfumato.exact import positive, to_plain
from sfumato.metrics.base import Metric
from sfumato.metrics.cells import CellMetric, fractions_table, refuse_large_table
from sfumato.metrics.distance import AsideMetric, CappedLineMetric, LineMetric
from sfumato.metrics.labelled import BlockMetric, HighLowMetric
from sfumato.metrics.registry import metric_from_dict
from sfumato.metrics.uniform import UniformMetric
from sfumato.study.axis import Together
from sfumato.study.schema import Group, Schema
from sfumato.study.study import Study

RECORDS = "records"

Share: TypeAlias = Fraction | float | str
#: A share of E such as "1/4" or 0.25, or for some axes a share or a metric of its own.
Spending: TypeAlias = "Share | Mapping[str, Share | Metric] | Spend"


def group_names(schema: Schema) -> tuple[str, ...]:
    """What each group of axes under one guarantee is called: an account of the ledger.

    A single axis goes by its name, axes together by their names as in "x, y", and one group
    over all of several axes is called "records".

    Example:
        >>> import sfumato as sf
        >>> place = sf.together(
        ...     [sf.integers("x", 0, 3), sf.integers("y", 0, 3)], protect=sf.Uniform(1)
        ... )
        >>> ages = sf.integers("age", 0, 99, protect=sf.Distance(0.5))
        >>> group_names(sf.Study("walks", [place, ages]).schema)
        ('x, y', 'age')
    """
    if len(schema.groups) == 1 and len(schema.axes) > 1:
        return (RECORDS,)
    names = [", ".join(schema.axes[axis].name for axis in group.axes) for group in schema.groups]
    if len(set(names)) < len(names):
        raise StudyError(
            f"study {schema.name!r} has an axis that is called like axes together, so that what is "
            "spent on either cannot be told apart: rename it"
        )
    return tuple(names)


@dataclass(frozen=True, slots=True)
class Spend:
    """What one release spends, exactly.

    Attributes:
        share: The share of the study's E, on all axes; None where `axes` says it.
        axes: A share or a metric by the name of an axis, or of axes that are together under one
            guarantee, as in "x, y"; nothing is learnt about axes that are not named.

    Example:
        >>> import sfumato as sf
        >>> ages = sf.integers("age", 0, 99, protect=sf.Distance(0.5))
        >>> study = sf.Study("ages", [ages])
        >>> print(Spend.of("1/4", study))
        1/4 of E
        >>> print(Spend.of({"age": sf.Distance(0.1)}, study))
        age: E = 0.1 · distance
    """

    share: Fraction | None
    axes: tuple[tuple[str, Fraction | Metric], ...] = ()

    @classmethod
    def of(cls, given: Spending, study: Study | Schema) -> Spend:
        """Read what a release may spend.

        Args:
            given: A share of E, or by axis a share or a metric.
            study: Whose E it is.

        Raises:
            StudyError: If a share is not positive, or an axis is unknown or cannot have that
                metric.
        """
        if isinstance(given, Spend):  # may have been made by hand: read like all others
            if given.share is None and not given.axes:
                return given
            given = dict(given.axes) if given.share is None else given.share
        if not isinstance(given, Mapping):
            return cls(positive(given, "spend"))
        schema = schema_of(study)
        names = group_names(schema)
        for name in given:
            _refuse_unknown(name, names, schema)
        if not given:
            raise StudyError("spend must name an axis, got none: write spend='1/4' for a share")
        read: list[tuple[str, Fraction | Metric]] = []
        for name in names:
            if name in given:
                held = given[name]
                exact = held if isinstance(held, Metric) else positive(held, f"spend on {name!r}")
                read.append((name, exact))
        made = cls(None, tuple(read))
        made.groups(schema)
        return made

    def only(self, axes: Collection[int], schema: Schema) -> Spend:
        """The part that falls on some axes, where a release learns nothing about others.

        Args:
            axes: Numbers of the axes.
            schema: Whose E is spent.

        Example:
            >>> import sfumato as sf
            >>> ages = sf.integers("age", 0, 99, protect=sf.Distance(0.5))
            >>> modes = sf.categories("mode", ["car", "bus"], protect=sf.Uniform(1))
            >>> schema = sf.Study("commute", [ages, modes]).schema
            >>> print(Spend.of("1/4", schema).only([1], schema))
            mode: 1/4 of E
        """
        pairs = zip(group_names(schema), schema.groups, strict=True)
        touched = [name for name, group in pairs if set(group.axes) & set(axes)]
        if len(touched) == len(schema.groups):
            return self
        return Spend(None, tuple((name, self.on(name)) for name in touched if self.on(name)))

    def on(self, name: str) -> Fraction | Metric:
        """What is spent on one group of axes; 0 where nothing is."""
        return dict(self.axes).get(name, Fraction(0)) if self.share is None else self.share

    def groups(self, schema: Schema) -> tuple[tuple[Group, ...], Fraction]:
        """The groups with the E that is spent on each, zero where nothing is, and a common factor.

        A share is left as the factor where it is the only one, so that no metric need be scaled.
        """
        if self.share is not None:
            return schema.groups, self.share
        parts = [self.on(name) for name in group_names(schema)]
        shares = {part for part in parts if isinstance(part, Fraction) and part}
        stated = any(isinstance(part, Metric) for part in parts)
        one = shares.pop() if len(shares) == 1 and not stated else None
        found = []
        for group, part in zip(schema.groups, parts, strict=True):
            if isinstance(part, Metric):
                metric = bound(part, group, schema)
            elif not part:
                metric = UniformMetric(Fraction(0), group.metric.size)
            else:
                metric = group.metric if one else scaled_metric(group.metric, part)
            found.append(replace(group, metric=metric))
        return tuple(found), one or Fraction(1)

    def __str__(self) -> str:
        if self.share is not None:
            return _of_e(self.share)
        if not self.axes:
            return "nothing"
        return "; ".join(
            f"{name}: {part.describe() if isinstance(part, Metric) else _of_e(part)}"
            for name, part in self.axes
        )

    def to_dict(self) -> dict[str, Any]:
        """The form in which files hold it, exactly."""
        if self.share is not None:
            return {"share": to_plain(self.share)}
        return {
            "axes": {
                name: part.to_dict() if isinstance(part, Metric) else to_plain(part)
                for name, part in self.axes
            }
        }

    @classmethod
    def from_dict(cls, data: Any, schema: Schema) -> Spend:
        """Read back what `to_dict` wrote.

        Args:
            data: What a file holds.
            schema: Whose E was spent.
        """
        try:
            if isinstance(data, Mapping) and set(data) == {"share"}:
                return cls.of(data["share"], schema)
            if isinstance(data, Mapping) and set(data) == {"axes"}:
                given = {
                    name: metric_from_dict(part) if isinstance(part, Mapping) else part
                    for name, part in data["axes"].items()
                }
                return cls.of(given or cls(None), schema)
        except (SfumatoError, AttributeError, TypeError):
            pass
        raise FormatError("what was spent must be a share, or one for each axis, and is neither")


def _refuse_unknown(name: str, names: Sequence[str], schema: Schema) -> None:
    """Refuse to spend on what has no account of its own."""
    if name in names:
        return
    places = {axis.name: place for place, axis in enumerate(schema.axes)}
    if name not in places:
        raise StudyError(f"the study has no axis {name!r} to spend on: {near(name, names)}")
    if names == (RECORDS,):
        raise StudyError(
            f"study {schema.name!r} has one guarantee for whole records, so spend must be a "
            "share of it such as '1/4', got one for each axis"
        )
    own = next(n for n, g in zip(names, schema.groups, strict=True) if places[name] in g.axes)
    raise StudyError(
        f"axis {name!r} is together with others under one guarantee, so spend must name all of "
        f"them, as in {{{own!r}: '1/4'}}"
    )


def bound(metric: Metric, group: Group, schema: Schema) -> CellMetric:
    """A metric between the cells of a group of axes.

    Args:
        metric: The metric as stated.
        group: The axes.
        schema: What they belong to.
    """
    axes = tuple(replace(schema.axes[axis], protect=None, channel=None) for axis in group.axes)
    try:
        return Together(axes=axes, protect=metric).metric()
    except StudyError as error:
        raise StudyError(f"spend on {error}") from None


def scaled_metric(metric: CellMetric, factor: Fraction) -> CellMetric:
    """A metric with every distance times a positive number, exactly.

    Args:
        metric: The metric.
        factor: The number.

    Example:
        >>> scaled_metric(LineMetric.equal(Fraction(1), 5), Fraction(1, 4)).exact(0, 2)
        Fraction(1, 2)
    """
    if isinstance(metric, UniformMetric):
        return UniformMetric(metric.epsilon * factor, metric.size, metric.notes)
    if isinstance(metric, LineMetric | CappedLineMetric):
        return _scaled_line(metric, factor)
    if isinstance(metric, AsideMetric):
        line = _scaled_line(metric.line, factor)
        return AsideMetric(line, metric.aside * factor, metric.notes)
    if isinstance(metric, BlockMetric):
        return BlockMetric(metric.epsilon * factor, metric.block, metric.notes)
    if isinstance(metric, HighLowMetric):
        return HighLowMetric(metric.epsilon * factor, metric.sensitive, metric.notes)
    cells = range(metric.size)
    exact = [[metric.exact(i, j) for j in cells] for i in cells]
    times = [[None if e is None else e * factor for e in row] for row in exact]
    return fractions_table(times, names=[str(cell) for cell in cells], notes=metric.notes)


def _scaled_line(
    line: LineMetric | CappedLineMetric, factor: Fraction
) -> LineMetric | CappedLineMetric:
    """A line with every step, and its cap, times a positive number."""
    if isinstance(line, CappedLineMetric):
        straight = _straight(line.line, factor)
        return CappedLineMetric(straight, line.cap * factor, line.notes)
    return _straight(line, factor)


def _straight(line: LineMetric, factor: Fraction) -> LineMetric:
    """A line with every step times a positive number."""
    if line.equal_step is not None:
        return LineMetric.equal(line.equal_step * factor, line.size, line.notes)
    return LineMetric([step * factor for step in line.steps], line.notes)


def _of_e(share: Fraction) -> str:
    """A share in words."""
    return "all of E" if share == 1 else f"{share} of E"


def worst_share(parts: Sequence[CellMetric], whole: CellMetric) -> Fraction | None:
    """The least c for which the parts together stay within c times the whole, for every pair.

    A sum of metrics keeps the triangle inequality. So on a line neighbours decide, and below a cap
    or a constant the two cells that are furthest apart; elsewhere all pairs are looked at.

    Args:
        parts: What was spent on the axis, each a metric on its cells or zero for all of them.
        whole: E of the axis.

    Returns:
        The share; None where a part is infinite and the whole is not.

    Example:
        >>> whole = LineMetric.equal(Fraction(1, 2), 10)
        >>> worst_share(
        ...     [LineMetric.equal(Fraction(1, 8), 10), UniformMetric(Fraction(1, 4), 10)], whole
        ... )
        Fraction(3, 4)
    """
    spent = [part for part in parts if not _is_zero(part)]
    if not spent:
        return Fraction(0)
    straight = all(isinstance(p, LineMetric | CappedLineMetric | UniformMetric) for p in spent)
    last = whole.size - 1
    if isinstance(whole, LineMetric):
        return _between_neighbours(spent, whole)
    if straight and isinstance(whole, CappedLineMetric):
        near, far = _between_neighbours(spent, whole.line), _total(spent, 0, last)
        return None if near is None or far is None else max(near, far / whole.cap)
    if straight and isinstance(whole, UniformMetric):
        far = _total(spent, 0, last)
        return None if far is None else far / whole.epsilon
    return _over_all_pairs(spent, whole)


def _is_zero(metric: CellMetric) -> bool:
    """Whether nothing is spent."""
    return isinstance(metric, UniformMetric) and metric.epsilon == 0


def _total(parts: Sequence[CellMetric], i: int, j: int) -> Fraction | None:
    """What was spent on one pair, in the direction from i to j."""
    found = [part.exact(i, j) for part in parts]
    finite = [e for e in found if e is not None]
    return sum(finite, Fraction(0)) if len(finite) == len(found) else None


def _between_neighbours(parts: Sequence[CellMetric], line: LineMetric) -> Fraction | None:
    """The worst share over neighbours on a line, in both directions."""
    even = line.equal_step is not None and all(
        isinstance(part, UniformMetric)
        or (isinstance(part, LineMetric | CappedLineMetric) and part.equal_step is not None)
        for part in parts
    )
    worst = Fraction(0)
    for i in range(1 if even else line.size - 1):
        step = line.exact(i, i + 1)
        for pair in ((i, i + 1), (i + 1, i)):
            total = _total(parts, *pair)
            if total is None:
                return None
            worst = max(worst, total / step)
    return worst


def _over_all_pairs(parts: Sequence[CellMetric], whole: CellMetric) -> Fraction | None:
    """The worst share over all pairs of a table, in integers."""
    refuse_large_table(whole.size)
    tables = [part.integers() for part in parts]
    limit, limit_denominator = whole.integers()
    common = math.lcm(*(denominator for _, denominator in tables))
    checked = ~np.eye(whole.size, dtype=bool) & np.asarray(limit >= 0, dtype=bool)
    if any(bool((numerators[checked] < 0).any()) for numerators, _ in tables):
        return None
    total = sum(numerators * (common // denominator) for numerators, denominator in tables)
    spent, allowed = np.asarray(total)[checked], limit[checked]
    if not len(spent):
        return Fraction(0)
    shares = np.array(spent / allowed, dtype=np.float64)  # each the nearest double
    close = shares >= shares.max() * (1 - 2.0**-40)
    pairs = set(zip(spent[close].tolist(), allowed[close].tolist(), strict=True))
    return max(Fraction(a * limit_denominator, b * common) for a, b in pairs)
