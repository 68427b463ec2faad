"""sfumato: private counting. Near values melt together, far ones stay apart, the picture is sharp.

Start with `Study`; everything else follows from it.
"""

from __future__ import annotations

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
from sfumato.randomness import SecureBits, SeededBits
from sfumato.reports import Reports
from sfumato.study import Study
from sfumato.tally import Tally

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "Answers",
    "Axis",
    "Blocks",
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
    "categories",
    "closure",
    "dates",
    "difference",
    "integers",
    "reals",
    "times",
]
