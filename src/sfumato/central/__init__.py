"""The central model: releases from a table that a trusted curator holds, under the same E.

A study says what is protected; a `Ledger` says how much of its E may be spent in all; a mechanism
such as `Laplace` answers questions, and `release` makes sure of the order: everything is checked
and the cost is entered before the data are touched.
"""

from __future__ import annotations

from sfumato.central.base import Expected, Mechanism, Outcome, Prepared
from sfumato.central.data import Data
from sfumato.central.exponential import Exponential
from sfumato.central.laplace import Laplace
from sfumato.central.ledger import Entry, Ledger
from sfumato.central.means import Means
from sfumato.central.multiplicative_weights import MWEM
from sfumato.central.planning import ReleaseOption, ReleasePlan, plan
from sfumato.central.release import Release, release
from sfumato.central.small_database import SmallDB
from sfumato.central.space import Space
from sfumato.central.spending import Spend

__all__ = [
    "MWEM",
    "Data",
    "Entry",
    "Expected",
    "Exponential",
    "Laplace",
    "Ledger",
    "Means",
    "Mechanism",
    "Outcome",
    "Prepared",
    "Release",
    "ReleaseOption",
    "ReleasePlan",
    "SmallDB",
    "Space",
    "Spend",
    "accuracy",
    "plan",
    "release",
]
