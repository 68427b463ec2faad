"""Places at random, for tests of noise."""

from __future__ import annotations

import numpy as np


def points(rng: np.random.Generator, cells: int) -> np.ndarray:
    """Distances of random points, as in the experiments of Kamalaruban et al. 2020, §4."""
    places = rng.uniform(0, 100, (cells, 2))
    return np.sqrt(((places[:, None] - places) ** 2).sum(axis=-1))
