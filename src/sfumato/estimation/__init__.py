"""From a tally to answers with errors."""

from __future__ import annotations

from sfumato.estimation.answers import Answer, Answers, difference
from sfumato.estimation.estimate import Estimate

__all__ = ["Answer", "Answers", "Estimate", "difference"]
