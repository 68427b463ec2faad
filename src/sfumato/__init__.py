"""sfumato: private counting. Near values melt together, far ones stay apart, the picture is sharp.

Start with `Study`; everything else follows from it.
"""

from __future__ import annotations

from sfumato import central, workloads
from sfumato.allocation import Allocation, allocate
from sfumato.auditing import Audit, AxisAudit, audit
from sfumato.axes import Axis, categories, dates, integers, reals, times
from sfumato.channels import (
    HRR,
    OLH,
    OUE,
    Binary,
    Comb,
    Exponential,
    Extremal,
    Geometric,
    HaarHRR,
    Hadamard,
    Hierarchical,
    KaryResponse,
    MatrixResponse,
    Optimised,
    SquareWave,
    Thermometer,
)
from sfumato.error_region import ErrorRegion
from sfumato.errors import (
    DataError,
    FormatError,
    LedgerError,
    MismatchError,
    QuestionError,
    SfumatoError,
    StudyError,
    TooLargeError,
)
from sfumato.estimation import (
    Answer,
    Answers,
    Estimate,
    difference,
    distribution,
    l2_error,
    tv_error,
)
from sfumato.geography import Grid
from sfumato.guarantee import Guarantee
from sfumato.mechanisms.matrix import MatrixMechanism
from sfumato.metrics import (
    Blocks,
    Distance,
    HighLow,
    Lp,
    Matrix,
    Points,
    PolicyGraph,
    SensitiveSet,
    Sum,
    Uniform,
    Within,
    closure,
)
from sfumato.planning import (
    BinPlan,
    Comparison,
    DistributionPlan,
    Plan,
    epsilon_for,
    expected_tv,
    people_for,
    people_for_tv,
    plan_bins,
)
from sfumato.randomness import SecureBits, SeededBits
from sfumato.reports import Reports
from sfumato.study import Study
from sfumato.tally import Tally

__version__ = "0.1.0"

__all__ = [
    "HRR",
    "OLH",
    "OUE",
    "Allocation",
    "Answer",
    "Answers",
    "Audit",
    "Axis",
    "AxisAudit",
    "BinPlan",
    "Binary",
    "Blocks",
    "Comb",
    "Comparison",
    "DataError",
    "Distance",
    "DistributionPlan",
    "ErrorRegion",
    "Estimate",
    "Exponential",
    "Extremal",
    "FormatError",
    "Geometric",
    "Grid",
    "Guarantee",
    "HaarHRR",
    "Hadamard",
    "Hierarchical",
    "HighLow",
    "KaryResponse",
    "LedgerError",
    "Lp",
    "Matrix",
    "MatrixMechanism",
    "MatrixResponse",
    "MismatchError",
    "Optimised",
    "Plan",
    "Points",
    "PolicyGraph",
    "QuestionError",
    "Reports",
    "SecureBits",
    "SeededBits",
    "SensitiveSet",
    "SfumatoError",
    "SquareWave",
    "Study",
    "StudyError",
    "Sum",
    "Tally",
    "Thermometer",
    "TooLargeError",
    "Uniform",
    "Within",
    "allocate",
    "audit",
    "categories",
    "central",
    "closure",
    "dates",
    "difference",
    "distribution",
    "epsilon_for",
    "expected_tv",
    "integers",
    "l2_error",
    "people_for",
    "people_for_tv",
    "plan_bins",
    "reals",
    "times",
    "tv_error",
    "workloads",
]
