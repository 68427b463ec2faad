"""What may stand together in a study; what may not is refused with the reason and a way out."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.channels.base import Choice
from sfumato.errors import StudyError
from sfumato.metrics.base import Metric
from sfumato.metrics.distance import Lp
from sfumato.metrics.uniform import Uniform
from sfumato.study.axis import Axis


def checked_name(name: str) -> str:
    """A study's name, which must not be blank."""
    if not isinstance(name, str) or not name.strip():
        raise StudyError(f"a study needs a name that is not blank, got name={name!r}")
    return name


def shared_protection(protect: Metric | None, axes: Sequence[Axis]) -> Metric | None:
    """What the study says about all axes together, as a metric for each."""
    if protect is None:
        return None
    if not isinstance(protect, Lp | Uniform):
        raise StudyError(
            f"protect={type(protect).__name__} for a whole study is not available; give each axis "
            "its own protect=..., or the study protect=Uniform(epsilon=...) or "
            "protect=Lp(epsilon=..., p=...)"
        )
    stated = [axis.name for axis in axes if axis.protect is not None]
    if stated:
        raise StudyError(
            f"the study states one {type(protect).__name__} guarantee for all axes, so axis "
            f"{stated[0]!r} must not state its own: leave out one of them"
        )
    return protect.per_axis(len(axes)) if isinstance(protect, Lp) else protect


def check_mechanism(
    mechanism: Choice | None, channel: Choice | None, protect: Metric | None, axes: Sequence[Axis]
) -> None:
    """Refuse mechanisms without one guarantee for whole records, and channels beside them."""
    if mechanism is not None and not isinstance(mechanism, Choice):
        raise StudyError(
            f"mechanism must be a choice such as Hierarchical(), got {type(mechanism).__name__}"
        )
    if not isinstance(protect, Uniform):
        if mechanism is not None:
            raise StudyError(
                "mechanism=... perturbs whole records and needs one guarantee for them: give the "
                "study protect=Uniform(epsilon=...), or the axes channel=..."
            )
        return
    if mechanism is not None and channel is not None:
        raise StudyError("mechanism=... and channel=... do not go together; leave out one of them")
    if len(axes) == 1:
        return
    rounded = [axis.name for axis in axes if axis.domain.rounding_bits]
    if rounded:
        raise StudyError(
            f"axis {rounded[0]!r}: rounding='stochastic' needs protect=Distance(...) of its own; "
            "leave out one of them"
        )
    named = [axis.name for axis in axes if axis.channel is not None]
    if channel is not None or named:
        who = f"axis {named[0]!r}" if named else "the study"
        raise StudyError(
            f"under one Uniform guarantee whole records go through one mechanism, so {who} must "
            "not name a channel: use mechanism=..."
        )


def refuse_twins(axes: Sequence[Axis]) -> None:
    """Refuse two axes of one name."""
    seen = set()
    for axis in axes:
        if axis.name in seen:
            raise StudyError(f"two axes are called {axis.name!r}; names must differ")
        seen.add(axis.name)
