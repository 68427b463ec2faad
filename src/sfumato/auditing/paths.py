"""The paths that reports take through the steps of a channel."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.channels.base import Channel
from sfumato.randomness.draws import Draw, Flips, Steps


@dataclass(frozen=True, slots=True)
class Path:
    """Reports that take the same branches.

    Attributes:
        draws: Their draws.
        branches: The outcomes of those that branch.
        cells: The cells whose reports can take them; None where all cells' can.
    """

    draws: tuple[Draw, ...]
    branches: tuple[int, ...]
    cells: NDArray[np.intp] | None = None

    def is_of(self, cell: int) -> bool:
        """Whether reports of a cell can take this path."""
        return self.cells is None or bool((self.cells == cell).any())

    @property
    def flips(self) -> int:
        """How many bits are flipped."""
        return sum(len(draw.chances) for draw in self.draws if isinstance(draw, Flips))

    @property
    def leaves(self) -> int:
        """Combinations of outcomes."""
        return math.prod(draw.outcomes for draw in self.draws if not draw.branches)


def run(steps: Steps | None, follow: Callable[[Draw], Any]) -> Any:
    """The outputs of steps whose draws are answered by `follow`; None where it answers None.

    Args:
        steps: What a channel does.
        follow: From a draw to the outcomes that are sent back.
    """
    if steps is None:
        return None
    try:
        draw = next(steps)
        while (answer := follow(draw)) is not None:
            draw = steps.send(answer)
    except StopIteration as end:
        return end.value
    return None


def paths_of(channel: Channel) -> Iterator[Path]:
    """All paths that the reports of a channel can take, group by group of cells that draw alike."""
    for cells in channel.alike() or (None,):
        first = 0 if cells is None else int(cells[0])
        waiting: list[tuple[int, ...]] = [()]
        while waiting:
            branches = waiting.pop()
            draws: list[Draw] = []
            found = run(channel.steps(np.full(1, first)), _follower(branches, draws))
            if found is not None:
                yield Path(tuple(draws), branches, cells)
                continue
            outcomes = np.arange(draws[-1].outcomes)
            weights = draws[-1].weights(outcomes)
            waiting += [(*branches, k) for k in outcomes[::-1].tolist() if weights[k]]


def _follower(branches: tuple[int, ...], draws: list[Draw]) -> Callable[[Draw], Any]:
    """Take the given branches until there are no more; note all draws."""
    left = iter(branches)

    def follow(draw: Draw) -> Any:
        draws.append(draw)
        if draw.branches:
            return next(left, None)
        shape = (1, len(draw.chances)) if isinstance(draw, Flips) else (1,)
        return draw.outcome(np.zeros(shape, dtype=np.uint64))

    return follow
