"""The terms that questions need, found by asking them of nobody."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.channels.pairs import many_pairs
from sfumato.collect.term_sums import Recorder, Term
from sfumato.errors import QuestionError, shown
from sfumato.estimation.unbiased import UnbiasedEstimate
from sfumato.questions.compose import marginal_axes
from sfumato.study.study import Study


def terms_for(study: Study, questions: Any) -> tuple[Term, ...]:
    """The terms that the unbiased answers to some questions, and their errors, are computed from.

    Args:
        study: The study.
        questions: A list of questions, as text or by axis as for `Estimate.count`, and of
            marginals, as tuples of axis names or as text such as "marginal age, region".
    """
    if not isinstance(questions, list | tuple) or not questions:
        raise QuestionError(
            "keep must be 'reports', 'sums' or a list of questions such as ['age=18..30'] or "
            f"[('age', 'region')], got {shown(questions)}"
        )
    if any(map(many_pairs, study.channels)):
        raise QuestionError(
            "a tally of reports on pairs of axes is as small as its sums; keep 'reports', which "
            "answers any question"
        )
    recorder = Recorder(study.layouts)
    statistic: Any = recorder  # which has all that unbiased answers read
    estimate = UnbiasedEstimate(study, statistic, via="direct")
    for population in (False, True):
        for question in questions:
            names = marginal_axes(question.strip()) if isinstance(question, str) else None
            if names is None and isinstance(question, str | Mapping):
                estimate.count(question, population=population)
            else:
                estimate.marginals([names or question], population=population)
    return tuple(sorted(recorder.terms))
