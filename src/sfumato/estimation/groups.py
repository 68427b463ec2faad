"""The same question among the people of each cell of an axis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from sfumato.errors import QuestionError, TooLargeError
from sfumato.estimation.answers import Answer, Answers
from sfumato.estimation.rows import Bins
from sfumato.estimation.source import Ask, Source, with_weights
from sfumato.questions.language import Question

#: Beyond this many groups, questions about single groups are not asked.
MOST_GROUPS = 256


def groups(
    estimate: Source,
    axis: str,
    ask: Callable[[Question], Answer],
    *,
    where: Ask = None,
    bins: Bins = None,
) -> Answers:
    """One answer for each cell of an axis, about the people in it.

    Args:
        estimate: What is asked.
        axis: The axis.
        ask: Asks one question about the people who satisfy a condition.
        where: Conditions on all people, as text or a dict by axis.
        bins: Number or edges of groups of cells, as in `histogram`; left out, single cells.

    Raises:
        TooLargeError: If there are more than 256 groups.

    Example:
        >>> import sfumato as sf
        >>> axes = [
        ...     sf.categories("sex", ["f", "m"], protect=sf.Uniform(2)),
        ...     sf.integers("age", 0, 99, protect=sf.Distance(0.5)),
        ... ]
        >>> people = {"sex": ["f", "m"] * 5_000, "age": [40, 50] * 5_000}
        >>> est = sf.Study("ages", axes).simulate(people, seed=1).estimate("unbiased")
        >>> found = groups(est, "sex", lambda who: est.mean("age", where=who))
        >>> found.labels, found.values.round().tolist()
        (['f', 'm'], [40.0, 50.0])
    """
    place = estimate._place(axis)
    base = estimate._ask(None, where, {})
    rows = estimate._cell_rows(place, where, bins)
    if len(rows.labels) > MOST_GROUPS:
        raise TooLargeError(
            f"axis {axis!r} has {len(rows.labels):,} groups of people to ask about; the limit is "
            f"{MOST_GROUPS}. Ask for groups of cells with bins={MOST_GROUPS} or fewer"
        )
    if not rows.labels:
        raise QuestionError(f"where leaves nobody on axis {axis!r} to ask about; change it")
    found = []
    for label, row in zip(rows.labels, rows.table, strict=True):
        text = ", ".join(part for part in (base.text, f"{axis}={label}") if part)
        found.append(ask(replace(with_weights(base, place, row), text=text)))
    return Answers(
        values=np.array([one.value for one in found]),
        stderr=np.array([one.stderr for one in found]),
        n=estimate.n,
        kind="groups",
        axes=(axis,),
        all_labels=(rows.labels,),
        all_edges=(rows.edges,),
        level=found[0].level,
        method=", ".join(dict.fromkeys(one.method for one in found)),
        notes=tuple(dict.fromkeys(note for one in found for note in one.notes)),
        unit="",
        question=base.text,
        units=(estimate.study.axes[place].unit,),
        bounds=(np.array([one.low for one in found]), np.array([one.high for one in found])),
    )
