"""The printed tables of Cormode et al. 2019, Figures 4 and 5, and ours beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Cells = dict[str, list[float]]

PEOPLE = 1 << 26
SIZES = (1 << 8, 1 << 16)
EPSILONS = ("0.2", "0.4", "0.6", "0.8", "1.0", "1.1", "1.2", "1.4")
NAMES = ("HH_2", "HH_4", "HH_16", "HaarHRR")

NONE = float("nan")  # HH_16 does not fit 2^22 cells

# As printed, by figure and D: one row per ε, in the order of NAMES.
PRINTED: dict[str, dict[int, list[list[float]]]] = {
    "ranges": {
        1 << 8: [
            [4.269, 4.037, 4.176, 3.684],
            [2.024, 2.193, 2.590, 1.831],
            [1.388, 1.341, 1.535, 1.278],
            [1.002, 0.950, 1.130, 0.987],
            [0.844, 0.744, 0.844, 0.811],
            [0.722, 0.667, 0.820, 0.748],
            [0.684, 0.658, 0.642, 0.732],
            [0.571, 0.542, 0.592, 0.601],
        ],
        1 << 16: [
            [6.745, 7.129, 8.692, 6.666],
            [3.616, 3.424, 4.648, 3.526],
            [2.333, 2.360, 2.793, 2.342],
            [1.644, 1.728, 2.075, 1.711],
            [1.356, 1.377, 1.642, 1.484],
            [1.303, 1.270, 1.597, 1.345],
            [1.090, 1.140, 1.433, 1.201],
            [0.922, 0.995, 1.158, 1.130],
        ],
        1 << 20: [
            [10.043, 10.493, 11.511, 9.285],
            [5.378, 4.751, 5.617, 5.261],
            [3.605, 3.603, 4.483, 3.693],
            [3.047, 3.042, 3.352, 3.316],
            [2.522, 2.690, 3.131, 2.915],
            [2.556, 2.540, 2.729, 2.722],
            [2.619, 2.488, 2.757, 2.640],
            [2.339, 2.304, 2.652, 2.505],
        ],
        1 << 22: [
            [8.629, 8.889, NONE, 8.422],
            [4.546, 4.951, NONE, 4.470],
            [3.181, 3.420, NONE, 3.085],
            [2.657, 2.692, NONE, 2.462],
            [2.247, 2.358, NONE, 2.254],
            [1.979, 2.252, NONE, 2.139],
            [2.120, 2.066, NONE, 1.946],
            [1.650, 1.885, NONE, 1.990],
        ],
    },
    "prefixes": {
        1 << 8: [
            [4.306, 2.968, 4.282, 2.857],
            [1.859, 1.439, 1.828, 1.377],
            [1.366, 0.957, 1.758, 1.031],
            [0.937, 0.778, 0.896, 0.758],
            [0.802, 0.561, 0.637, 0.613],
            [0.684, 0.533, 0.666, 0.626],
            [0.658, 0.437, 0.670, 0.568],
            [0.573, 0.420, 0.478, 0.494],
        ],
        1 << 16: [
            [7.701, 6.172, 7.014, 5.870],
            [3.266, 3.101, 3.744, 2.880],
            [2.402, 2.176, 2.426, 2.018],
            [1.663, 1.503, 1.834, 1.511],
            [1.338, 1.220, 1.426, 1.244],
            [1.202, 1.051, 1.259, 1.120],
            [1.080, 0.978, 1.147, 1.054],
            [0.973, 0.848, 0.981, 0.973],
        ],
        1 << 20: [
            [8.874, 8.255, 10.462, 7.237],
            [4.734, 4.395, 5.754, 4.271],
            [3.788, 3.485, 4.055, 3.377],
            [3.287, 3.094, 3.268, 3.108],
            [3.022, 2.848, 2.826, 2.920],
            [3.053, 2.756, 2.727, 2.727],
            [3.145, 2.627, 2.914, 2.754],
            [2.975, 2.659, 2.543, 2.696],
        ],
        1 << 22: [
            [8.620, 8.638, NONE, 8.099],
            [4.181, 4.330, NONE, 4.233],
            [2.932, 3.077, NONE, 3.063],
            [2.215, 2.590, NONE, 2.528],
            [1.958, 2.246, NONE, 2.326],
            [1.777, 2.319, NONE, 2.181],
            [1.929, 2.174, NONE, 2.205],
            [1.613, 1.868, NONE, 2.156],
        ],
    },
}


def off(ours: Sequence[float], printed: Sequence[float]) -> float:
    """The mean of |ours/printed − 1| over a column.

    Args:
        ours: Our values.
        printed: The printed values.
    """
    return float(np.mean(np.abs(np.array(ours) / np.array(printed) - 1)))


def column(asked: str, said: str, size: int, name: str, ours: Sequence[float]) -> dict[str, Any]:
    """One column beside the printed one.

    Args:
        asked: "ranges" or "prefixes".
        said: The questions in words, as recorded.
        size: Number of cells.
        name: Name of the method.
        ours: Our values by ε.
    """
    printed = [row[NAMES.index(name)] for row in PRINTED[asked][size]]
    return {
        "figure": 4 if asked == "ranges" else 5,
        "queries": said,
        "D": size,
        "method": name,
        "epsilon": [float(epsilon) for epsilon in EPSILONS],
        "printed": printed,
        "expected": [round(float(value), 4) for value in ours],
        "mean |ours/printed - 1|": round(off(ours, printed), 4),
        "mean ours/printed": round(float(np.mean(np.array(ours) / printed)), 4),
    }


def conclusions(ours: Cells) -> dict[str, str]:
    """The best method at each ε."""
    return {
        epsilon: min(NAMES, key=lambda name: ours[name][place])
        for place, epsilon in enumerate(EPSILONS)
    }
