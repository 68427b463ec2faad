"""Metrics given pair by pair: Blowfish policy graphs, and any matrix."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from sfumato.domains.base import NO_ANSWER, Domain
from sfumato.errors import StudyError, shown
from sfumato.exact import nearest_float, positive, rational, to_plain
from sfumato.metrics.base import Metric, set_fields
from sfumato.metrics.cells import TableMetric, fractions_table, table
from sfumato.metrics.closure import close_integers
from sfumato.metrics.words import (
    Number,
    cell_names,
    cover,
    distinct,
    inside,
    known,
    label_of,
    read_labels,
    several,
)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class PolicyGraph(Metric):
    """Blowfish policy graph: E is ε times the shortest path between two values, or infinite.

    Args:
        epsilon: E along an edge of weight 1.
        edges: Pairs of labels that must hide each other, or (label, label, weight).

    References:
        Blowfish privacy; Kamalaruban et al. 2020 (its thresholded form is closed here).

    Example:
        >>> PolicyGraph(epsilon=0.5, edges=[("a", "b"), ("b", "c", 2)]).between("a", "c")
        1.5
    """

    kind: ClassVar[str] = "policy_graph"
    epsilon: Fraction
    edges: tuple[tuple[str, str, Fraction], ...]

    def __init__(self, epsilon: Number, edges: Iterable[Sequence[object]]) -> None:
        """Read the numbers exactly and the labels as text."""
        read = tuple(_read_edge(edge) for edge in several(edges, "edges"))
        set_fields(self, epsilon=positive(epsilon, "epsilon"), edges=read)

    def between(self, x: Any, y: Any) -> float:
        """E(x, y) for two labels of the graph.

        Args:
            x: One value as people write it.
            y: The other.
        """
        neighbours: dict[str, list[tuple[str, Fraction]]] = {}
        for a, b, weight in self.edges:
            neighbours.setdefault(a, []).append((b, weight))
            neighbours.setdefault(b, []).append((a, weight))
        first, second = (known(value, neighbours, "edges") for value in (x, y))
        path = _shortest_path(neighbours, first, second)
        return math.inf if path is None else float(self.epsilon * path)

    def bind(self, domain: Domain, *, optional: bool) -> TableMetric:
        """E between cells; cells outside the graph are infinitely far from all others.

        Args:
            domain: What the values of the axis may be.
            optional: Whether "no answer" is one more cell, the last.
        """
        names = cell_names(domain, optional=optional)
        place = {name: cell for cell, name in enumerate(names)}
        there = dict.fromkeys(label for edge in self.edges for label in edge[:2])
        inside(there, names, "edges")
        if optional and NO_ANSWER not in there:
            raise StudyError(
                "edges must say what 'no answer' hides among on an optional axis, got no edge "
                "with it: add one such as ('no answer', label, weight)"
            )
        common = math.lcm(*((self.epsilon * weight).denominator for *_, weight in self.edges))
        values = np.full((len(names), len(names)), -1, dtype=object)
        np.fill_diagonal(values, 0)
        for a, b, weight in self.edges:
            i, j, step = place[a], place[b], int(self.epsilon * weight * common)
            if values[i, j] < 0 or step < values[i, j]:
                values[i, j] = values[j, i] = step
        alone = len(names) - len(there)
        notes = (f"unprotected: {alone} of {len(names)} cells are in no edge",) if alone else ()
        return table(close_integers(values).astype(object), common, names=names, notes=notes)

    def describe(self) -> str:
        """The statement in plain words."""
        return f"E = {to_plain(self.epsilon)} · shortest path over {len(self.edges)} edges"

    def to_dict(self) -> dict[str, Any]:
        """The statement as a file holds it, exactly."""
        edges = [[a, b] if w == 1 else [a, b, to_plain(w)] for a, b, w in self.edges]
        return {"kind": self.kind, "epsilon": to_plain(self.epsilon), "edges": edges}


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Matrix(Metric):
    """Any E, given as a matrix: one row and one column per label, inf allowed, symmetric or not.

    E is the shortest-path closure of the matrix, which promises no less than the matrix.

    Args:
        values: Numbers of 0 or more, or inf; 0 on the diagonal; E from the row to the column.
        labels: Order of rows and columns; left out, the order of the axis' cells, with
            "no answer" last.

    Example:
        >>> Matrix([[0, 1, 5], [1, 0, 1], [5, 1, 0]], labels=["a", "b", "c"]).between("a", "c")
        2.0
    """

    kind: ClassVar[str] = "matrix"
    values: tuple[tuple[Fraction | None, ...], ...]
    labels: tuple[str, ...] | None

    def __init__(self, values: Any, labels: Iterable[object] | None = None) -> None:
        """Read the entries exactly; infinite ones are kept as None."""
        entries = _read_matrix(values)
        names = None if labels is None else distinct(read_labels(labels, "labels"), "labels")
        if names is not None and len(names) != len(entries):
            raise StudyError(
                f"labels must name every row, got {len(names)} labels for {len(entries)} rows"
            )
        set_fields(self, values=entries, labels=names)

    def between(self, x: Any, y: Any) -> float:
        """E(x, y) for two labels, or two cell numbers (from 0) where no labels are given.

        Args:
            x: One value as people write it.
            y: The other.
        """
        names = self._names()
        i, j = (names.index(known(value, names, "labels")) for value in (x, y))
        return fractions_table(self.values, names=names).between(i, j)

    def bind(self, domain: Domain, *, optional: bool) -> TableMetric:
        """E between cells, rows put into the order of the axis.

        Args:
            domain: What the values of the axis may be.
            optional: Whether "no answer" is one more cell, the last.
        """
        names = cell_names(domain, optional=optional)
        if self.labels is None:
            if len(self.values) != len(names):
                extra = ", 'no answer' last," if optional else ""
                raise StudyError(
                    f"values must have a row for each of the {len(names)} cells{extra} "
                    f"got {len(self.values)} rows: add what is missing, or name rows with labels"
                )
            return fractions_table(self.values, names=names)
        cover(names, self.labels, "labels", "add a row and a column for each")
        place = {label: row for row, label in enumerate(self.labels)}
        order = [place[name] for name in names]
        entries = [[self.values[i][j] for j in order] for i in order]
        return fractions_table(entries, names=names)

    def _names(self) -> Sequence[str]:
        """What rows are called."""
        return self.labels or [str(row) for row in range(len(self.values))]

    def describe(self) -> str:
        """The statement in plain words."""
        finite = [e for row in self.values for e in row if e]
        top = max(finite, default=Fraction(0))
        count = len(self.values)
        most = nearest_float(top)
        return f"E is given by a matrix of {count} by {count}, at most {most:g} where finite"

    def to_dict(self) -> dict[str, Any]:
        """The statement as a file holds it, exactly."""
        rows = [[math.inf if e is None else to_plain(e) for e in row] for row in self.values]
        names = {} if self.labels is None else {"labels": list(self.labels)}
        return {"kind": self.kind, "values": rows, **names}


def _read_edge(edge: Any) -> tuple[str, str, Fraction]:
    """Two labels and a weight, 1 if left out."""
    parts = np.ravel(edge).tolist() if isinstance(edge, np.ndarray) else edge
    parts = list(parts) if isinstance(parts, (list, tuple)) else []
    if len(parts) not in {2, 3}:
        raise StudyError(
            f"an edge must be (label, label) or (label, label, weight), got {shown(edge)}"
        )
    a, b = label_of(parts[0]), label_of(parts[1])
    if a == b:
        raise StudyError(f"an edge must join two different labels, got {a!r} twice: drop it")
    return a, b, positive(parts[2] if len(parts) == 3 else 1, f"weight of edge {a!r}-{b!r}")


def _shortest_path(
    neighbours: Mapping[str, Sequence[tuple[str, Fraction]]], start: str, goal: str
) -> Fraction | None:
    """The length of the shortest path, by Dijkstra's method; None if there is none."""
    done: set[str] = set()
    queue = [(Fraction(0), start)]
    while queue:
        path, label = heapq.heappop(queue)
        if label == goal:
            return path
        if label not in done:
            done.add(label)
            for other, weight in neighbours[label]:
                heapq.heappush(queue, (path + weight, other))
    return None


def _read_matrix(values: Any) -> tuple[tuple[Fraction | None, ...], ...]:
    """The entries exactly, None where infinite."""
    try:
        rows = [list(row) for row in (() if isinstance(values, str) else values)]
    except TypeError:
        raise StudyError("values must be rows of numbers, one row per label") from None
    for number, row in enumerate(rows, 1):
        if len(row) != len(rows):
            raise StudyError(
                f"values must be square, got {len(row)} entries in row {number} of {len(rows)} rows"
            )
    if len(rows) < 2:
        raise StudyError(f"values must have 2 rows or more, got {len(rows)}")
    return tuple(
        tuple(_read_entry(entry, i, j) for j, entry in enumerate(row, 1))
        for i, row in enumerate(rows, 1)
    )


def _read_entry(entry: Any, row: int, column: int) -> Fraction | None:
    """One entry, exactly; None for infinity."""
    if (isinstance(entry, str) and entry == "inf") or entry == math.inf:
        number = None
    else:
        try:
            number = rational(entry, "an entry")
        except StudyError:
            number = Fraction(-1)
    if number is not None and number < 0:
        rule = "entries of values must be numbers of 0 or more, or inf"
    elif row == column and number != 0:
        rule = "the diagonal of values must be 0, a value being at no distance from itself"
    else:
        return number
    raise StudyError(f"{rule}, got {shown(entry)} at row {row}, column {column} (counted from 1)")
