"""The table that a trusted curator holds: people in the cells of a study."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.collect.simulation import as_counts
from sfumato.domains.tables import columns
from sfumato.errors import StudyError, TooLargeError
from sfumato.study.schema import Schema
from sfumato.study.study import Study

MOST_CELLS = 1 << 26
MOST_PEOPLE = 1 << 52


class Data:
    """People's true values, as cells of a study; it shows nothing but the number of people.

    That number is public in the central model: releases protect what each person says, not whether
    they took part. People whose participation must be hidden need a cell of their own, such as the
    "no answer" of an optional axis.

    Args:
        study: Whose axes the table has; values out of bounds are treated as it says.
        table: A dict of columns, a DataFrame, an Arrow table; extra columns are ignored.

    Raises:
        DataError: If a value does not fit; rows are named, values never.
        StudyError: If an axis rounds at random, which only devices do.

    Example:
        >>> import sfumato as sf
        >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
        >>> sf.central.Data(study, {"age": [31, 42, 77]})
        <data of 3 people for study 'ages'>
    """

    __slots__ = ("_cells", "_people", "n", "schema")

    def __init__(self, study: Study | Schema, table: Any) -> None:
        schema = without_rounding(study)
        found = columns(table, [axis.name for axis in schema.axes])
        codes = [axis.codes(found[axis.name]) for axis in schema.axes]
        self._fill(schema, codes, np.ones(len(codes[0]), dtype=np.int64))

    @classmethod
    def from_counts(cls, study: Study | Schema, counts: ArrayLike) -> Data:
        """Make data from a histogram over all cells.

        Args:
            study: Whose axes the table has.
            counts: People in each cell, shaped like the axes or flat in C order.

        Example:
            >>> import sfumato as sf
            >>> two = sf.categories("mode", ["car", "bus"], protect=sf.Uniform(1))
            >>> sf.central.Data.from_counts(sf.Study("modes", [two]), [30, 12]).n
            42
        """
        schema = without_rounding(study)
        checked = as_counts(counts, schema.shape)
        if int(checked.min()) < 0:  # of 64 bits without a sign
            _refuse_people()
        places = np.nonzero(checked)
        made = cls.__new__(cls)
        made._fill(schema, [place.astype(np.int64) for place in places], checked[places])
        return made

    def _fill(
        self, schema: Schema, cells: list[NDArray[np.int64]], people: NDArray[np.int64]
    ) -> None:
        """Keep the people as cells by axis."""
        self.schema = schema
        if float(people.sum(dtype=np.float64)) >= MOST_PEOPLE:
            _refuse_people()
        self.n = int(people.sum())
        if self.n < 1:
            raise StudyError("data must hold at least one person, got none: check the table")
        self._cells = tuple(cells)
        self._people = people

    def counts(self) -> NDArray[np.int64]:
        """True people in each cell, flat in C order: private, never to be shown."""
        return self.marginal(range(len(self.schema.shape)))

    def marginal(self, axes: Sequence[int]) -> NDArray[np.int64]:
        """True people in each cell of some axes, flat in C order: private, never to be shown."""
        refuse_large(self.schema, axes)
        shape = tuple(self.schema.shape[axis] for axis in axes)
        flat = np.ravel_multi_index([self._cells[axis] for axis in axes], shape)
        out = np.zeros(math.prod(shape), dtype=np.int64)
        np.add.at(out, flat, self._people)
        return out

    def __len__(self) -> int:
        return self.n

    def __repr__(self) -> str:
        return f"<data of {self.n:,} people for study {self.schema.name!r}>"


def _refuse_people() -> None:
    """Refuse more people than whole numbers of 64 bits can sum over."""
    raise TooLargeError("data must hold fewer than 2^52 people, got more: check the counts")


def schema_of(study: Study | Schema) -> Schema:
    """What the central model needs of a study: axes and guarantees, no channels."""
    schema = getattr(study, "schema", study)
    if not isinstance(schema, Schema):
        raise StudyError(
            f"study must be a Study, got {type(study).__name__}: read a file with Study.load(path)"
        )
    return schema


def without_rounding(study: Study | Schema) -> Schema:
    """The schema of a study whose devices do not round at random; others are refused."""
    schema = schema_of(study)
    rounded = [axis.name for axis in schema.axes if axis.domain.rounding_bits]
    if rounded:
        raise StudyError(
            f"axis {rounded[0]!r} rounds at random on each device, which a release from a whole "
            "table does not do: leave out rounding='stochastic' for the central model"
        )
    return schema


def refuse_large(schema: Schema, axes: Sequence[int]) -> None:
    """Refuse a histogram that would not fit, before anything is spent on it.

    Args:
        schema: Whose cells they are.
        axes: Numbers of the axes of the histogram.
    """
    size = math.prod(schema.shape[axis] for axis in axes)
    if size > MOST_CELLS:
        raise TooLargeError(
            f"a histogram of study {schema.name!r} would have {size:,} cells, more than "
            f"{MOST_CELLS:,}: use coarser bins or fewer axes, or central.Means, which needs none"
        )
