"""Planning: the error to expect before anybody is asked; which channel, how many bins and people.

`Study.expected_error` and `Study.compare` start from a study; the functions here from less.
"""

from __future__ import annotations

from sfumato.planning.bins import BinPlan, BinRow, plan_bins
from sfumato.planning.choice import choose_channel, threshold_variances
from sfumato.planning.comparing import Comparison, ComparisonRow
from sfumato.planning.distribution import DistributionPlan, expected_tv, people_for_tv, tv_bound
from sfumato.planning.plan import Plan, PlanRow
from sfumato.planning.reverse import epsilon_for, people_for

__all__ = [
    "BinPlan",
    "BinRow",
    "Comparison",
    "ComparisonRow",
    "DistributionPlan",
    "Plan",
    "PlanRow",
    "choose_channel",
    "epsilon_for",
    "expected_tv",
    "people_for",
    "people_for_tv",
    "plan_bins",
    "threshold_variances",
    "tv_bound",
]
