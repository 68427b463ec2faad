"""Questions: their language, and workloads of many linear questions as implicit operators.

Rows are questions, columns are cells in C order of a study's axes. `parse` builds a workload from
questions in a study's own words. The kinds of workload also serve as strategies.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
