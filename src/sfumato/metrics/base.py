"""The protocol of all metrics, and the sum of several."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from sfumato.domains.base import Domain
from sfumato.errors import StudyError
from sfumato.metrics.cells import CellMetric, add_cells
from sfumato.metrics.words import cell_names


class Metric(ABC):
    """A guarantee E stated in the units of its axis; `bind` turns it into E between cells.

    Metrics add: two reports about one value spend the sum of their guarantees. A metric of your own
    is a frozen dataclass with a `kind` of its own and the four methods below; once it is registered
    (`sfumato.metrics.registry.register`), studies that state it can be saved and loaded.

    Example:
        >>> import sfumato as sf
        >>> (sf.Distance(epsilon=0.1) + sf.Uniform(epsilon=1)).between(20, 25)
        1.5
    """

    __slots__ = ()
    kind: ClassVar[str]

    @abstractmethod
    def between(self, x: Any, y: Any) -> float:
        """E(x, y) for two values as people write them; None stands for no answer.

        Args:
            x: One value as people write it.
            y: The other.
        """

    @abstractmethod
    def bind(self, domain: Domain, *, optional: bool) -> CellMetric:
        """E between the cells of a domain, with "no answer" as the last cell if optional.

        Args:
            domain: What the values of the axis may be.
            optional: Whether "no answer" is one more cell, the last.
        """

    def bind_together(self, domains: Sequence[Domain]) -> CellMetric:
        """E between combinations of cells of several axes, flat in C order; most refuse."""
        raise StudyError(
            f"several axes together need protect=Uniform(...) or Lp(...), got "
            f"{type(self).__name__}; other guarantees are stated axis by axis"
        )

    @abstractmethod
    def describe(self) -> str:
        """The statement in plain words."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The statement as a file holds it, exactly; `metric_from_dict` reads it back."""

    def __add__(self, other: Metric) -> Sum:
        """Both statements together."""
        if not isinstance(other, Metric):
            return NotImplemented
        return Sum([self, other])

    def __repr__(self) -> str:
        """The call that makes this statement."""
        options = {key: value for key, value in self.to_dict().items() if key != "kind"}
        inside = ", ".join(f"{key}={value!r}" for key, value in options.items())
        return f"{type(self).__name__}({inside})"


def set_fields(statement: Metric, **fields: object) -> None:
    """Fill a frozen statement while it is being made.

    Args:
        statement: The statement that is being made.
        **fields: Its fields by name.
    """
    for name, value in fields.items():
        object.__setattr__(statement, name, value)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Sum(Metric):
    """Several statements about one value at once (composition: Xiang et al. 2020, Prop. 5).

    Example:
        >>> import sfumato as sf
        >>> sf.Sum([sf.Uniform(epsilon=1), sf.Uniform(epsilon=0.5)]).between("a", "b")
        1.5
    """

    kind: ClassVar[str] = "sum"
    parts: tuple[Metric, ...]

    def __init__(self, parts: Sequence[Metric]) -> None:
        """Take one statement or more; sums inside are opened."""
        flat: list[Metric] = []
        for part in parts:
            if not isinstance(part, Metric):
                raise StudyError(
                    f"parts must be metrics such as Uniform(epsilon=1), got {type(part).__name__}"
                )
            flat.extend(part.parts if isinstance(part, Sum) else [part])
        if not flat:
            raise StudyError("parts must hold at least one metric, got none")
        set_fields(self, parts=tuple(flat))

    def between(self, x: Any, y: Any) -> float:
        """E(x, y), the sum over the parts.

        Args:
            x: One value as people write it.
            y: The other.
        """
        return math.fsum(part.between(x, y) for part in self.parts)

    def bind(self, domain: Domain, *, optional: bool) -> CellMetric:
        """The sum of the bound parts.

        Args:
            domain: What the values of the axis may be.
            optional: Whether "no answer" is one more cell, the last.
        """
        bound = [part.bind(domain, optional=optional) for part in self.parts]
        return add_cells(bound, names=lambda: cell_names(domain, optional=optional))

    def describe(self) -> str:
        """The statement in plain words."""
        return ", plus ".join(part.describe() for part in self.parts)

    def to_dict(self) -> dict[str, Any]:
        """The statement as a file holds it, exactly."""
        return {"kind": self.kind, "parts": [part.to_dict() for part in self.parts]}

    def __repr__(self) -> str:
        """The call that makes this statement."""
        return f"Sum(parts={list(self.parts)!r})"
