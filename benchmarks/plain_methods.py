"""People, questions, methods and published figures for the measurements of `plain`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import sfumato as sf
from benchmarks.decoding import SIDE
from sfumato.channels.choice import Choice

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Shape = Callable[[np.random.Generator], Counts]

SIZE = 256
PEOPLE = 100_000
QUESTIONS = 500
EPSILON = 1.0
LIKELIHOOD, UNBIASED = "likelihood", "unbiased"


def smooth(rng: np.random.Generator) -> Counts:
    """60 % normal(90, 25) and 40 % normal(180, 15); clipped, then truncated."""
    parts = [rng.normal(90, 25, PEOPLE * 6 // 10), rng.normal(180, 15, PEOPLE * 4 // 10)]
    cells = np.clip(np.concatenate(parts), 0, SIZE - 1).astype(np.int64)
    return np.bincount(cells, minlength=SIZE)


def spiky(rng: np.random.Generator) -> Counts:
    """Everybody in 20 cells drawn at random, shares drawn evenly."""
    share = np.zeros(SIZE)
    share[rng.choice(SIZE, 20, replace=False)] = rng.dirichlet(np.ones(20))
    return rng.multinomial(PEOPLE, share)


def _drawn(share: Floats) -> Shape:
    """People drawn from fixed shares."""
    return lambda rng: rng.multinomial(PEOPLE, share / share.sum())


MAIN = ("smooth", "spiky")
SHAPES: dict[str, Shape] = {
    "smooth": smooth,
    "spiky": spiky,
    "uniform": _drawn(np.ones(SIZE)),
    "zipf": _drawn(1.0 / np.arange(1, SIZE + 1) ** 1.1),
    "steps": _drawn(np.repeat([4.0, 1.0, 8.0, 0.5], SIZE // 4)),
}


@dataclass(frozen=True)
class Method:
    """A channel, and the ways in which its reports are read."""

    choice: Choice | None
    ways: tuple[str, ...] = (LIKELIHOOD, UNBIASED)


DEFAULT, TREE, BOXES = "default", "HH₄, consistent", "HIO, consistent"
METHODS: dict[str, Method] = {
    DEFAULT: Method(None),
    "flat OUE": Method(sf.OUE(), (UNBIASED,)),
    TREE: Method(sf.Hierarchical(4, "olh")),
    "HaarHRR": Method(sf.HaarHRR()),
    "Square Wave": Method(sf.SquareWave(), (LIKELIHOOD,)),
    "optimised for ranges": Method(sf.Optimised()),
}
FEW_METHODS = {name: METHODS[name] for name in (DEFAULT, TREE)}
PLANE_METHODS: dict[str, Method] = {
    DEFAULT: Method(None),
    BOXES: Method(sf.Hierarchical(), (UNBIASED,)),
}
# RMSE × 1000 of prototypes of the published methods on people of the same two kinds.
PUBLISHED = {
    ("flat OUE", UNBIASED): (40.5, 60.1),
    (TREE, UNBIASED): (21.1, 22.4),
    ("HaarHRR", UNBIASED): (19.8, 19.2),
    ("Square Wave", LIKELIHOOD): (12.5, 30.2),
    ("optimised for ranges", UNBIASED): (17.1, 16.5),
    ("AHEAD", ""): (19.7, 20.4),
    ("PriPL-Tree", ""): (13.0, 24.3),
}
PUBLISHED_PLANE = {("AHEAD, two axes", ""): (25.7, 22.3), ("HDG", ""): (26.7, 31.0)}
GOALS = {"smooth": 13.0, "spiky": 12.0}
PLANE_GOALS = {"correlated normal": 25.7, "spiky": 22.3}


def ranges(rng: np.random.Generator, size: int = SIZE) -> Floats:
    """Ranges between two cells drawn uniformly, one row of weights each.

    Args:
        rng: Where they are drawn from.
        size: How many cells.
    """
    ends, cells = np.sort(rng.integers(0, size, (QUESTIONS, 2)), axis=1), np.arange(size)
    return ((ends[:, :1] <= cells) & (cells <= ends[:, 1:])).astype(np.float64)


def line_study(choice: Choice | None, epsilon: float, size: int = SIZE) -> sf.Study:
    """One ordered axis.

    Args:
        choice: The channel.
        epsilon: ε between any two cells.
        size: How many cells.
    """
    axis = sf.integers("x", 0, size - 1, protect=sf.Uniform(epsilon), channel=choice)
    return sf.Study("plain", [axis])


def plane_study(choice: Choice | None) -> sf.Study:
    """Two ordered axes under one guarantee."""
    axes = [sf.integers(name, 0, SIDE - 1) for name in "xy"]
    return sf.Study("plain", axes, protect=sf.Uniform(EPSILON), channel=choice)
