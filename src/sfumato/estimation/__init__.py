"""From a tally to answers with errors."""

from __future__ import annotations

from sfumato.estimation.answers import Answer, Answers, difference
from sfumato.estimation.distribution import distribution, l2_error, tv_error
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.joint import JointUnbiasedEstimate
from sfumato.estimation.likelihood import LikelihoodEstimate
from sfumato.estimation.unbiased import UnbiasedEstimate

__all__ = [
    "Answer",
    "Answers",
    "Estimate",
    "JointUnbiasedEstimate",
    "LikelihoodEstimate",
    "UnbiasedEstimate",
    "difference",
    "distribution",
    "l2_error",
    "tv_error",
]
