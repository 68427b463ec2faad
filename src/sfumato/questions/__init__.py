"""Questions: their language, and workloads of many linear questions as implicit operators.

Rows are questions, columns are cells in C order of a study's axes. `parse` builds a workload from
questions in a study's own words. The kinds of workload also serve as strategies.
"""

from __future__ import annotations

from sfumato.extras import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
