"""The table that a trusted curator holds: people in the cells of a study."""

from __future__ import annotations

import hmac
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
MOST_NAME = 200  # characters
LEAST_KEY = 16  # bytes
_KEYED = "hmac-sha256:"


class Data:
    """People's true values, as cells of a study; it shows nothing but the number of people.

    That number is public in the central model: releases protect what each person says, not whether
    they took part. People whose participation must be hidden need a cell of their own, such as the
    "no answer" of an optional axis.

    Attributes:
        schema: The axes and guarantees of the study.
        n: Number of people.
        mark: What a ledger knows the table by; None without a name and a key.

    Args:
        study: Whose axes the table has; values out of bounds are treated as it says.
        table: A dict of columns, a DataFrame, an Arrow table; extra columns are ignored.
        name: What you call this table. A ledger takes it down with the first release, and then
            refuses tables of another name.
        key: Instead of a name, a secret of at least 16 bytes, kept outside the ledger. The ledger
            takes down a digest of the table under this key (HMAC-SHA256), and then refuses any
            other table. The digest tells nothing to those who do not have the key.

    Raises:
        DataError: If a value does not fit; rows are named, values never.
        StudyError: If an axis rounds at random, which only devices do; if a name or key is unfit.

    Example:
        >>> import sfumato as sf
        >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
        >>> sf.central.Data(study, {"age": [31, 42, 77]})
        <data of 3 people for study 'ages'>
    """

    __slots__ = ("_cells", "_people", "mark", "n", "schema")

    def __init__(
        self,
        study: Study | Schema,
        table: Any,
        *,
        name: str | None = None,
        key: bytes | str | None = None,
    ) -> None:
        schema = without_rounding(study)
        found = columns(table, [axis.name for axis in schema.axes])
        codes = [axis.codes(found[axis.name]) for axis in schema.axes]
        self._fill(schema, codes, np.ones(len(codes[0]), dtype=np.int64))
        self.mark = self._marked(name, key)

    @classmethod
    def from_counts(
        cls,
        study: Study | Schema,
        counts: ArrayLike,
        *,
        name: str | None = None,
        key: bytes | str | None = None,
    ) -> Data:
        """Make data from a histogram over all cells.

        Args:
            study: Whose axes the table has.
            counts: People in each cell, shaped like the axes or flat in C order.
            name: What you call this table, as in `Data`.
            key: A secret that ties a ledger to this table, as in `Data`.

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
        made.mark = made._marked(name, key)
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

    def _marked(self, name: str | None, key: bytes | str | None) -> str | None:
        """What a ledger knows this table by: its name, or its digest under a key."""
        if name is not None and key is not None:
            raise StudyError("a table has a name or a key, got both: give one of them")
        if name is not None:
            fit = isinstance(name, str) and name.isprintable() and len(name) <= MOST_NAME
            if not fit or not name.strip():
                raise StudyError(
                    f"name must be a text of 1 to {MOST_NAME} printable characters: name it, as "
                    "in 'clinic 2026'"
                )
            return name
        if key is None:
            return None
        secret = key.encode() if isinstance(key, str) else key
        if not isinstance(secret, bytes) or len(secret) < LEAST_KEY:
            raise StudyError(
                f"key must have at least {LEAST_KEY} bytes: make one with secrets.token_bytes(32), "
                "and keep it outside the ledger"
            )
        records, place = np.unique(np.stack(self._cells, axis=1), axis=0, return_inverse=True)
        people = np.zeros(len(records), dtype=np.int64)
        np.add.at(people, place.reshape(-1), self._people)
        held = np.column_stack([records, people]).astype("<i8")
        text = f"{self.schema.fingerprint} {held.shape}".encode() + held.tobytes()
        return _KEYED + hmac.new(secret, text, "sha256").hexdigest()

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

    def anybody(self, axes: Sequence[int]) -> NDArray[np.int64]:
        """As many people, all of them in the first cell of some axes: public."""
        refuse_large(self.schema, axes)
        out = np.zeros(math.prod(self.schema.shape[axis] for axis in axes), dtype=np.int64)
        out[0] = self.n
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
