"""Domains by kind, as study files name them: integers, reals, dates, times, categories."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sfumato.domains.base import Domain
from sfumato.domains.calendar import Dates, Times
from sfumato.domains.categories import Categories
from sfumato.domains.integers import Integers
from sfumato.domains.reals import Reals
from sfumato.errors import StudyError, near, shown
from sfumato.text import visible

# Of each form a domain may take in a file: what it needs, what it may add, and how it is built.
_FORMS: dict[str, list[tuple[set[str], set[str], Callable[..., Domain]]]] = {
    "integers": [({"low", "high"}, set(), Integers)],
    "reals": [
        ({"low", "high", "bins"}, {"rounding"}, Reals.equal_bins),
        ({"edges"}, {"rounding"}, Reals.from_edges),
    ],
    "dates": [({"start", "end"}, {"step"}, Dates.every)],
    "times": [({"start", "end", "step"}, set(), Times.every)],
    "categories": [({"labels"}, set(), lambda labels: Categories(labels))],
}


def domain_from_dict(data: Mapping[str, Any]) -> Domain:
    """Build the domain that `to_dict` described.

    Args:
        data: The kind, and what that kind needs; nothing else is accepted.

    Raises:
        StudyError: If the kind is unknown, or a field is missing, unknown or wrong.

    Example:
        >>> domain_from_dict({"kind": "integers", "low": 0, "high": 99})
        Integers(low=0, high=99)
    """
    kind = str(data.get("kind", ""))
    if kind not in _FORMS:
        raise StudyError(f"kind of domain is unknown, got kind={shown(kind)}: {near(kind, _FORMS)}")
    fields = {name: value for name, value in data.items() if name != "kind"}
    for needed, allowed, build in _FORMS[kind]:
        if needed <= fields.keys() <= needed | allowed:
            return build(**fields)
    forms = " or ".join(
        ", ".join(sorted(needed)) + "".join(f" [{name}]" for name in sorted(allowed))
        for needed, allowed, _ in _FORMS[kind]
    )
    given = ", ".join(visible(name)[:80] for name in sorted(fields)[:12]) or "nothing"
    raise StudyError(f"a domain of kind {kind!r} is described by {forms}, got {given}")
