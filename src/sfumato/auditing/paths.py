"""The paths that reports take through the steps of a channel."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.randomness.draws import Draw, Flips, Steps

Program = Callable[[NDArray[np.int64]], Steps | None]


@dataclass(frozen=True, slots=True)
class Path:
    """Reports that take the same branches.

    Attributes:
        draws: Their draws.
        branches: The outcomes of those that branch.
    """

    draws: tuple[Draw, ...]
    branches: tuple[int, ...]

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


def paths_of(steps: Program) -> Iterator[Path]:
    """All paths that reports can take; they are the same for all cells."""
    waiting: list[tuple[int, ...]] = [()]
    while waiting:
        branches = waiting.pop()
        draws: list[Draw] = []
        found = run(steps(np.zeros(1, dtype=np.int64)), _follower(branches, draws))
        if found is not None:
            yield Path(tuple(draws), branches)
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
