"""E, the guarantee: what a study says about two values, and what follows for two cells.

`statements`, `labelled` and `shapes` hold what people write; `bind` turns it into a `CellMetric`
(`cells`), which is exact: every E is a rational number or infinite, and what is irrational is
rounded down, so that the guarantee only gets stronger.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from sfumato.errors import StudyError, near
from sfumato.metrics.base import Metric, Sum
from sfumato.metrics.distance import Distance, Lp
from sfumato.metrics.graphs import Matrix, PolicyGraph
from sfumato.metrics.labelled import Blocks, HighLow, SensitiveSet
from sfumato.metrics.points import Points, Within
from sfumato.metrics.uniform import Uniform

_KINDS: dict[str, type[Metric]] = {
    statement.kind: statement
    for statement in (
        Distance,
        Lp,
        Uniform,
        Blocks,
        HighLow,
        SensitiveSet,
        PolicyGraph,
        Points,
        Within,
        Matrix,
        Sum,
    )
}


def metric_from_dict(data: Mapping[str, Any]) -> Metric:
    """Read a statement from what `to_dict` wrote.

    Args:
        data: The kind, and the options of that kind by name.

    Raises:
        StudyError: If the kind or an option is unknown, or one is missing.

    Example:
        >>> metric_from_dict({"kind": "distance", "epsilon": 0.2})
        Distance(epsilon=0.2)
    """
    if not isinstance(data, Mapping) or "kind" not in data:
        raise StudyError(f"a metric must say its kind: {near('', _KINDS)}")
    options = {key: value for key, value in data.items() if key != "kind"}
    kind = str(data["kind"])
    if kind not in _KINDS:
        raise StudyError(f"kind of a metric must be known, got {kind!r}: {near(kind, _KINDS)}")
    statement = _KINDS[kind]
    allowed = inspect.signature(statement).parameters
    for key in options:
        if key not in allowed:
            raise StudyError(f"{kind} has no option {key!r}: {near(key, allowed)}")
    for key, parameter in allowed.items():
        if parameter.default is parameter.empty and key not in options:
            raise StudyError(f"{kind} needs the option {key!r}, which is missing: add it")
    if kind == Sum.kind:
        return Sum([metric_from_dict(part) for part in options["parts"]])
    return statement(**options)
