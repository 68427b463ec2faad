"""From a tally to answers with errors."""

from __future__ import annotations

from sfumato.estimation.answers import Answer, Answers, difference
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.likelihood import LikelihoodEstimate
from sfumato.estimation.unbiased import UnbiasedEstimate

__all__ = ["Answer", "Answers", "Estimate", "LikelihoodEstimate", "UnbiasedEstimate", "difference"]
