"""Categories: distinct labels without an order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from sfumato.domains.base import NO_ANSWER, Span, check_size
from sfumato.domains.columns import Single, flatten, is_missing, is_text, refuse_rows, refuse_type
from sfumato.errors import DataError, QuestionError, StudyError, near, shown
from sfumato.exact import whole
from sfumato.text import refuse_name


@dataclass(frozen=True, slots=True)
class Categories:
    """Distinct labels without an order, one cell each.

    Args:
        names: A list of the labels, at least two; "no answer" is reserved for optional axes.

    Raises:
        StudyError: If the labels are too few, repeated, empty or not text.

    Example:
        >>> import pyarrow as pa
        >>> region = Categories(("north", "south"))
        >>> region.read(pa.array(["south", None]), axis="region", clip=False).tolist()
        [1, -1]
    """

    names: Sequence[str]
    _cells: dict[str, int] = field(init=False, repr=False, compare=False)

    kind: ClassVar[str] = "categories"

    def __post_init__(self) -> None:
        given: Any = self.names
        try:
            names = None if isinstance(given, str) else tuple(given)
        except TypeError:
            names = None
        if names is None:
            raise StudyError(f"labels must be a list of texts, got labels={shown(given)}")
        for name in names:
            if not isinstance(name, str) or not name.strip():
                raise StudyError(
                    f"every label must be a text that is not empty, got {shown(name)}; write "
                    "numbers in quotes"
                )
            refuse_name(name, "every label")
            if name == NO_ANSWER:
                raise StudyError(
                    f"the label {NO_ANSWER!r} is reserved; leave it out and make the axis "
                    "optional with optional=True"
                )
        for name, count in Counter(names).items():
            if count > 1:
                raise StudyError(f"labels must be distinct, got {name!r} {count} times")
        check_size(len(names), "categories", "list every label that may occur")
        object.__setattr__(self, "names", tuple(str(name) for name in names))
        object.__setattr__(self, "_cells", {name: cell for cell, name in enumerate(self.names)})

    @property
    def size(self) -> int:
        """Number of labels."""
        return len(self.names)

    @property
    def ordered(self) -> bool:
        """Labels have no order."""
        return False

    @property
    def spacing(self) -> None:
        """Labels have no distance."""
        return None

    @property
    def rounding_bits(self) -> int:
        """A label is its cell: nothing is rounded."""
        return 0

    def positions(self) -> tuple[Fraction, ...]:
        """Refused: labels have no positions."""
        raise StudyError(
            "categories have no positions and so no distance; protect them with Uniform, Blocks, "
            "PolicyGraph, Points or Matrix"
        )

    def length(self, quantity: object, what: str) -> Fraction:
        """Refused: labels have no distance.

        Args:
            quantity: A number, or a duration as text.
            what: What it is called in a message.
        """
        raise StudyError(
            f"{what} is a length, and categories have none, got {what}={quantity!r}; protect "
            "them with Uniform, Blocks, PolicyGraph, Points or Matrix"
        )

    def read(self, column: Any, *, axis: str, clip: bool) -> NDArray[np.int64]:
        """Cell of each label of a column, −1 where missing or empty.

        Args:
            column: Text, a dictionary of text, or integers that are compared by their digits.
            axis: Name of the axis, for messages.
            clip: Ignored: a label has no nearest end.

        Raises:
            DataError: If a label is unknown or the column is of another type.
        """
        rule = f"one of {self.size} labels"
        read = self._read_single if isinstance(column, Single) else self._read_column
        codes, unknown = read(column, axis=axis, rule=rule)
        refuse_rows(
            unknown,
            axis=axis,
            rule=rule,
            fault="none of them",
            remedy="correct every such row, or add the label to the study; case and spaces count",
        )
        return codes

    def _read_single(
        self, held: Single, *, axis: str, rule: str
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The code of one label, and whether it is unknown."""
        digits = held.family == "number" and held.type.startswith(("int", "uint"))
        if held.family not in ("null", "text") and not digits:
            raise _wrong_type(held.type, axis=axis, rule=rule)
        text = str(held.value[0]) if digits else held.value
        code = self._cells.get(text, -1)
        return np.array([code]), np.array([code < 0 and bool(text)])

    def _read_column(
        self, column: Any, *, axis: str, rule: str
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The codes of an Arrow column, and where labels are unknown."""
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.types as pt

        array = flatten(column)
        if pt.is_null(array.type):
            return np.full(len(array), -1), np.zeros(len(array), dtype=np.bool_)
        if pt.is_integer(array.type):
            array = array.cast(pa.large_string())
        elif not is_text(array.type):
            raise _wrong_type(array.type, axis=axis, rule=rule)
        found = pc.index_in(array, value_set=pa.array(self.names, type=array.type))
        codes: NDArray[np.int64] = pc.fill_null(found, -1).to_numpy().astype(np.int64)
        unknown = (codes < 0) & ~is_missing(array)
        if unknown.any():
            unknown &= pc.fill_null(pc.not_equal(array, ""), False).to_numpy(zero_copy_only=False)
        return codes, unknown

    def labels(self) -> list[str]:
        """The labels."""
        return list(self.names)

    def edges(self) -> None:
        """Labels have no edges."""
        return None

    def numbers(self) -> None:
        """Labels stand for no number."""
        return None

    def place(self, value: object, *, axis: str, upper: bool = False) -> Fraction:
        """Refused: labels cannot be the ends of an interval.

        Args:
            value: Any value.
            axis: Name of the axis, for messages.
            upper: Whether it is the upper bound of an interval.
        """
        self._refuse_interval(axis)

    def span(self, low: object, high: object, *, axis: str) -> Span:
        """All labels if both ends are open; anything else is refused.

        Args:
            low: None.
            high: None.
            axis: Name of the axis, for messages.
        """
        if low is not None or high is not None:
            self._refuse_interval(axis)
        return None, None

    def weigh(self, span: Span) -> tuple[NDArray[np.float64], bool]:
        """Weight 1 for every label."""
        return np.ones(self.size), False

    def interval(self, low: object, high: object, *, axis: str) -> tuple[NDArray[np.float64], bool]:
        """Every label if both ends are open; anything else is refused.

        Args:
            low: None.
            high: None.
            axis: Name of the axis, for messages.
        """
        return self.weigh(self.span(low, high, axis=axis))

    def cell_of(self, value: object, *, axis: str) -> int:
        """The cell of a label.

        Args:
            value: The label.
            axis: Name of the axis, for messages.

        Example:
            >>> Categories(("north", "south")).cell_of("south", axis="region")
            1
        """
        label = value if isinstance(value, str) else shown(whole(value))
        if label in self._cells:
            return self._cells[label]
        raise QuestionError(f"axis {axis!r} has no label {shown(value)}: {near(label, self.names)}")

    def parse(self, text: str, *, axis: str) -> str:
        """A label is written as it is.

        Args:
            text: As written.
            axis: Name of the axis, for messages.
        """
        return text

    def write(self, place: Fraction) -> str:
        """Refused: labels have no positions."""
        raise QuestionError("categories have no intervals to write")

    def to_dict(self) -> dict[str, Any]:
        """Kind and labels."""
        return {"kind": self.kind, "labels": list(self.names)}

    def _refuse_interval(self, axis: str) -> NoReturn:
        """Say what to ask instead of an interval."""
        raise QuestionError(
            f"axis {axis!r} has labels without an order, so no intervals: ask for a set of "
            "labels such as {'north', 'south'}"
        )


def _wrong_type(kind: Any, *, axis: str, rule: str) -> DataError:
    """The error for a column that holds neither text nor integers."""
    return refuse_type(kind, axis=axis, rule=rule, remedy="convert it to text or integers")
