"""sfumato: private counting. Near values melt together, far ones stay apart, the picture is sharp.

Start with `Study`; everything else follows from it.
"""

from __future__ import annotations

from sfumato import central, questions
from sfumato.auditing.audit import Audit, AxisAudit, audit
from sfumato.channels.binary import Binary
from sfumato.channels.comb import Comb
from sfumato.channels.exponential import Exponential
from sfumato.channels.geometric import Geometric
from sfumato.channels.hadamard import Hadamard
from sfumato.channels.hashing import OLH
from sfumato.channels.hrr import HRR
from sfumato.channels.response import KaryResponse
from sfumato.channels.searched.extremal import Extremal
from sfumato.channels.searched.matrix_response import MatrixResponse
from sfumato.channels.searched.optimised import Optimised
from sfumato.channels.square_wave import SquareWave
from sfumato.channels.thermometer import Thermometer
from sfumato.channels.trees.haar import HaarHRR
from sfumato.channels.trees.hierarchy import Hierarchical
from sfumato.channels.unary import OUE
from sfumato.collect.matrix_mechanism import MatrixMechanism
from sfumato.collect.tally import Tally
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
from sfumato.estimation.answers import Answer, Answers, difference
from sfumato.estimation.distribution import distribution, l2_error, tv_error
from sfumato.estimation.estimate import Estimate
from sfumato.geography.grid import Grid
from sfumato.metrics.closing import closure
from sfumato.metrics.labelled import Blocks, HighLow, SensitiveSet
from sfumato.metrics.shapes import Matrix, Points, PolicyGraph
from sfumato.metrics.statements import Distance, Lp, Sum, Uniform
from sfumato.metrics.within import Within
from sfumato.noise.allocate import Allocation, allocate
from sfumato.planning.bins import BinPlan, plan_bins
from sfumato.planning.compare import Comparison
from sfumato.planning.distribution import DistributionPlan, expected_tv, people_for_tv
from sfumato.planning.inverse import epsilon_for, people_for
from sfumato.planning.plan import Plan
from sfumato.randomness.bits import SecureBits, SeededBits
from sfumato.study.axis import Axis, categories, dates, integers, reals, times
from sfumato.study.error_region import ErrorRegion
from sfumato.study.guarantee import Guarantee
from sfumato.study.reports import Reports
from sfumato.study.study import Study

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
    "questions",
    "reals",
    "times",
    "tv_error",
]
