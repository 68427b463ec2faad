"""Workloads: many linear questions at once, as operators that never need to be written out.

Rows are questions, columns are cells in C order of a study's axes. `parse` makes one of questions
in a study's own words; the kinds by themselves serve as strategies.
"""

from __future__ import annotations

from sfumato.questions.asking import parse
from sfumato.questions.given import Asked, Given
from sfumato.questions.lattice import Lattice
from sfumato.questions.lines import Identity, Prefixes, Ranges, Total
from sfumato.questions.products import Kronecker, KWay, Marginals, Stacked
from sfumato.questions.reconstruction import Reader, question_variances, reconstruct, total_error
from sfumato.questions.trees import Haar, Hierarchy
from sfumato.questions.workload import Labels, Workload

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
