"""The scale (e^ε + 1)/(e^ε − 1) of unbiased readings, which bounds of all papers contain."""

from __future__ import annotations

import math
from typing import Any

from sfumato.exact import positive


def scale(epsilon: Any) -> float:
    """The scale for an ε that must be positive; 1 in the limit of large ones.

    Example:
        >>> round(scale(1), 4)
        2.164
    """
    return 1 / math.tanh(min(float(positive(epsilon, "epsilon")), 700.0) / 2)
