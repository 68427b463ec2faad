"""Metrics by kind: the built-in ones and a user's own, for study files and the command line."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, TypeVar

from sfumato.errors import StudyError, near, shown
from sfumato.metrics.base import Metric, Sum
from sfumato.metrics.distance import Distance
from sfumato.metrics.graphs import Matrix, PolicyGraph
from sfumato.metrics.ground import Ground
from sfumato.metrics.labelled import Blocks, HighLow, SensitiveSet
from sfumato.metrics.lp import Lp
from sfumato.metrics.points import Points, Within
from sfumato.metrics.uniform import Uniform

REGISTRY: dict[str, type[Metric]] = {}

Kind = TypeVar("Kind", bound=type[Metric])


def register(metric: Kind) -> Kind:
    """Make a metric known by its kind, so that studies which state it can be saved and loaded.

    Raises:
        StudyError: If it is not a metric with a kind, or another class has that kind.

    Example:
        >>> register(Uniform) is Uniform
        True
    """
    if not (isinstance(metric, type) and issubclass(metric, Metric)):
        raise StudyError(
            f"a metric must be a class derived from sfumato.metrics.base.Metric, got {metric!r}"
        )
    kind = getattr(metric, "kind", None)
    if not isinstance(kind, str) or not kind or kind.split() != [kind]:
        raise StudyError(
            f"{metric.__name__}.kind must be one word, under which files name the metric, got "
            f"{kind!r}"
        )
    if REGISTRY.setdefault(kind, metric) is not metric:
        raise StudyError(f"a metric of the kind {kind!r} is registered already; use another")
    return metric


for _metric in (
    Distance,
    Ground,
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
):
    register(_metric)


def metric_from_dict(data: Mapping[str, Any]) -> Metric:
    """Read a metric from what `to_dict` wrote.

    Args:
        data: The kind, and the options of that kind by name.

    Raises:
        StudyError: If the kind or an option is unknown, or one is missing.

    Example:
        >>> metric_from_dict({"kind": "distance", "epsilon": 0.2})
        Distance(epsilon=0.2)
    """
    if not isinstance(data, Mapping) or "kind" not in data:
        raise StudyError(f"a metric must say its kind: {near('', REGISTRY)}")
    options = {key: value for key, value in data.items() if key != "kind"}
    kind = str(data["kind"])
    if kind not in REGISTRY:
        raise StudyError(
            f"kind of a metric must be known, got {shown(kind)}: {near(kind, REGISTRY)} (a metric "
            "of your own is known once the module that registers it is imported)"
        )
    allowed = inspect.signature(REGISTRY[kind]).parameters
    for key in options:
        if key not in allowed:
            raise StudyError(f"{kind} has no option {shown(key)}: {near(key, allowed)}")
    for key, parameter in allowed.items():
        if parameter.default is parameter.empty and key not in options:
            raise StudyError(f"{kind} needs the option {key!r}, which is missing: add it")
    if kind == Sum.kind:
        if not isinstance(options["parts"], list):
            raise StudyError(f"parts of a sum must be a list, got {shown(options['parts'])}")
        return Sum([metric_from_dict(part) for part in options["parts"]])
    return REGISTRY[kind](**options)
