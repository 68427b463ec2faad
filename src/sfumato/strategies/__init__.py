"""Which rows to measure: fixed strategies, and a search among many for the questions and E at hand.

Answers to W are read from noisy rows A as B·(A·x + noise), W = BA. For given A and rates u the best
B is weighted least squares; for given B the best rates are an allocation with the weights
‖B_·k‖² (`sfumato.allocation`). Alternating between the two never raises the error, and rows that
are of little use lose their rate and fall out: begun with more rows than are needed, it chooses
among them. The problem is not convex, so it is begun from several places, the fixed strategies
among them, and the result is never worse than the best of those.

References:
    Xiang et al. 2020, problem (1); Li et al. 2015.
"""

from __future__ import annotations

from sfumato.strategies.fitting import Fitted, fit, variances
from sfumato.strategies.rows import FIXED, balls, dense, rows_of, telling, units_of
from sfumato.strategies.searching import CANDIDATES, Searched, search, search_gram

__all__ = [
    "CANDIDATES",
    "FIXED",
    "Fitted",
    "Searched",
    "balls",
    "dense",
    "fit",
    "rows_of",
    "search",
    "search_gram",
    "telling",
    "units_of",
    "variances",
]
