"""Workloads: many linear questions at once, as operators that never need to be written out.

Rows are questions, columns are cells in C order of a study's axes. `parse` makes one of questions
in a study's own words; the kinds by themselves serve as strategies.
"""

from __future__ import annotations

from sfumato.workloads.asking import parse
from sfumato.workloads.base import Labels, Workload
from sfumato.workloads.given import Asked, Given
from sfumato.workloads.lattice import Lattice
from sfumato.workloads.lines import Identity, Prefixes, Ranges, Total
from sfumato.workloads.products import Kronecker, KWay, Marginals, Stacked
from sfumato.workloads.reading import Reader, question_variances, reconstruct, total_error
from sfumato.workloads.trees import Haar, Hierarchy

__all__ = [
    "Asked",
    "Given",
    "Haar",
    "Hierarchy",
    "Identity",
    "KWay",
    "Kronecker",
    "Labels",
    "Lattice",
    "Marginals",
    "Prefixes",
    "Ranges",
    "Reader",
    "Stacked",
    "Total",
    "Workload",
    "parse",
    "question_variances",
    "reconstruct",
    "total_error",
]
