"""What an engine offers: workers that run a function on items and merge what it gives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

Item = TypeVar("Item")
Found = TypeVar("Found")
#: Told how much is done, and how much there is.
Seen: TypeAlias = Callable[[int, int], None]

#: How many results are merged at a time, so that merges form a tree.
FAN = 16


@dataclass(frozen=True, slots=True)
class Work(Generic[Item, Found]):
    """What workers do.

    Args:
        function: What to do with an item.
        merge: Merges results of neighbours; it is associative.
    """

    function: Callable[[Item], Found]
    merge: Callable[[Sequence[Found]], Found]


class Workers(ABC):
    """Workers on this machine or on a cluster."""

    @property
    @abstractmethod
    def slots(self) -> int:
        """How many items they work on at a time."""

    @property
    @abstractmethod
    def are_here(self) -> bool:
        """Whether they are threads of this process."""

    @abstractmethod
    def gather(self, work: Work[Item, Found], items: Sequence[Item], wave: int) -> Generator[Found]:
        """What work gives for all items, merged where the workers are.

        An item may be worked on more than once, when a worker is lost; one result of each counts.

        Args:
            work: What to do. It travels to the workers with all that it holds.
            items: The items.
            wave: How many items at most are merged into one result.

        Yields:
            Merged results in the order of the items, of which few are in memory at a time.
        """
