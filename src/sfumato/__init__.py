"""sfumato: private counting. Near values melt together, far ones stay apart, the picture is sharp.

Start with `Study`; everything else follows from it.
"""

from __future__ import annotations

from sfumato.auditing import Audit, AxisAudit, audit
from sfumato.axes import Axis, categories, dates, integers, reals, times
from sfumato.channels import Exponential, Geometric, KaryResponse, Thermometer
from sfumato.errors import (
    DataError,
    FormatError,
    MismatchError,
    QuestionError,
    SfumatoError,
    StudyError,
    TooLargeError,
)
from sfumato.estimation import Answer, Answers, Estimate, difference
from sfumato.guarantee import Guarantee
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
    closure,
)
from sfumato.planning import (
    BinPlan,
    Comparison,
    Plan,
    epsilon_for,
    people_for,
    plan_bins,
)
from sfumato.randomness import SecureBits, SeededBits
from sfumato.reports import Reports
from sfumato.study import Study
from sfumato.tally import Tally

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "Answers",
    "Audit",
    "Axis",
    "AxisAudit",
    "BinPlan",
    "Blocks",
    "Comparison",
    "DataError",
    "Distance",
    "Estimate",
    "Exponential",
    "FormatError",
    "Geometric",
    "Guarantee",
    "HighLow",
    "KaryResponse",
    "Lp",
    "Matrix",
    "MismatchError",
    "Plan",
    "Points",
    "PolicyGraph",
    "QuestionError",
    "Reports",
    "SecureBits",
    "SeededBits",
    "SensitiveSet",
    "SfumatoError",
    "Study",
    "StudyError",
    "Sum",
    "Tally",
    "Thermometer",
    "TooLargeError",
    "Uniform",
    "audit",
    "categories",
    "closure",
    "dates",
    "difference",
    "epsilon_for",
    "integers",
    "people_for",
    "plan_bins",
    "reals",
    "times",
]
