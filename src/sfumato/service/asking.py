"""Questions to a collector, as JSON: read strictly, and asked of an estimate.

HTTP and the Python client (`connecting`) share it. A question is an object with exactly one kind:

- `count`, `fraction`: a condition such as "age=18..30, region=north|south";
- `mean`, `total`: the name of an axis;
- `histogram`, `cdf`: the name of an axis; `heatmap`: two of them;
- `quantile`: the name of an axis, and `at`, the shares;
- `groups`: the name of an axis, and `of`, one of the first four: the same among the people of each
  cell;
- `difference`: two questions of the first four kinds, the first minus the second.

All may have `where`, `level`, `population`, `method` and `seconds`; a difference has `where` in
each of its two questions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.checks import is_number, one_of, whole
from sfumato.errors import QuestionError, TooLargeError, near, shown
from sfumato.estimation.answers import Answer, Answers
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.groups import groups
from sfumato.estimation.source import Ask

#: Kinds whose answer is one number, and what they are given.
SCALARS = {"count": "question", "fraction": "question", "mean": "axis", "total": "axis"}
KINDS = (*SCALARS, "histogram", "cdf", "heatmap", "quantile", "groups", "difference")
#: What may stand beside each kind, apart from `COMMON`.
OPTIONS: dict[str, tuple[str, ...]] = {
    "histogram": ("bins", "fraction", "band"),
    "cdf": ("bins", "fraction", "band"),
    "heatmap": ("bins", "fraction", "band"),
    "quantile": ("at",),
    "groups": ("of", "bins"),
}
COMMON = ("where", "level", "population", "method", "seconds")
METHODS = ("auto", "likelihood", "unbiased")
QUARTILES = (0.25, 0.5, 0.75)
SECONDS = 3.0  # of processor time that decoding may take with "auto", unless the question says
MOST_SECONDS = 3_600.0
MOST_SHARES = 1_000
#: The most numbers of one answer.
MOST_NUMBERS = 1 << 18


@dataclass(frozen=True, slots=True)
class Asked:
    """A question that was read.

    Attributes:
        given: The question as it was given.
        kind: One of `KINDS`.
        method: How to estimate, as in `Tally.estimate`.
        seconds: What decoding may take, as in `Tally.estimate`.
    """

    given: dict[str, Any]
    kind: str
    method: str
    seconds: float

    def put(self, estimate: Estimate) -> Answer | Answers:
        """Ask an estimate.

        Raises:
            QuestionError: If its study cannot be asked this.
            TooLargeError: If the answer would have too many numbers.
        """
        given = self.given
        about: Any = given[self.kind]
        common = {
            "level": given.get("level", 0.95),
            "population": given.get("population", False),
        }
        where = given.get("where")
        if self.kind in SCALARS:
            return _scalar(estimate, given, where, common)
        if self.kind == "difference":
            first, second = (_scalar(estimate, one, one.get("where"), common) for one in about)
            return first - second
        if self.kind == "groups":
            inner: dict[str, Any] = given["of"]
            return _groups(estimate, about, inner, where, given.get("bins"), common)
        if self.kind == "quantile":
            at = given.get("at", list(QUARTILES))
            found: Answer | Answers = estimate.quantile(about, at, where=where, **common)
            return found
        names = about if self.kind == "heatmap" else [about]
        bins = given.get("bins")
        _refuse_many(estimate, names, bins)
        more = {"fraction": given["fraction"]} if "fraction" in given else {}
        put: Callable[..., Answers] = getattr(estimate, self.kind)
        bins = tuple(bins) if isinstance(bins, list) else bins
        answers = put(*names, where=where, bins=bins, **more, **common)
        return answers.band(common["level"]) if given.get("band", False) else answers


def read_question(given: object) -> Asked:
    """Read a question strictly.

    Args:
        given: An object as the module says, from JSON.

    Raises:
        QuestionError: If it is no such object; whether its axes exist is not looked at.

    Example:
        >>> read_question({"histogram": "age", "bins": 10}).kind
        'histogram'
    """
    if not isinstance(given, Mapping):
        raise QuestionError(f"a question must be a JSON object, got {shown(given)}")
    # Beside some kinds "fraction" is an option, which is true or false.
    kinds = [name for name in KINDS if name in given and not isinstance(given[name], bool)]
    if len(kinds) != 1:
        raise QuestionError(
            f"a question must have exactly one of {', '.join(KINDS)}, got {len(kinds)} of them"
        )
    kind = kinds[0]
    allowed = [*OPTIONS.get(kind, ()), *COMMON]
    if kind == "difference":
        allowed.remove("where")
    for name in given:
        if name != kind and name not in allowed:
            hint = "; put it into each of the two questions" if name == "where" else ""
            raise QuestionError(
                f"a question with {kind} takes nothing named {shown(name)}{hint}: "
                f"{near(str(name), allowed)}"
            )
    _KIND_READERS.get(kind, _text)(given[kind], kind)
    for name in allowed:
        if name in given:
            two = name == "bins" and kind == "heatmap"
            (_two_bins if two else _OPTION_READERS[name])(given[name], name)
    if kind == "groups" and "of" not in given:
        raise QuestionError(
            "a question with groups must say what to ask of each: of={'count': 'age=18..30'}"
        )
    method = given.get("method", "auto")
    # What decoding may take matters only where that decides.
    seconds = float(given.get("seconds", SECONDS)) if method == "auto" else SECONDS
    return Asked(dict(given), kind, method, seconds)


# Reading the parts of a question


def _text(value: Any, name: str) -> None:
    if not isinstance(value, str):
        raise QuestionError(f"{name} must be a text, got {shown(value)}")


def _pair(value: Any, name: str) -> None:
    if not isinstance(value, list) or len(value) != 2:
        raise QuestionError(f"{name} must be a list of two, got {shown(value)}")


def _heatmap(value: Any, name: str) -> None:
    _pair(value, name)
    for one in value:
        _text(one, f"each axis of {name}")


def _flag(value: Any, name: str) -> None:
    if not isinstance(value, bool):
        raise QuestionError(f"{name} must be true or false, got {shown(value)}")


def _number(value: Any, name: str) -> None:
    if not is_number(value):
        raise QuestionError(f"{name} must be a number, got {shown(value)}")


def _seconds(value: Any, name: str) -> None:
    _number(value, name)
    if not 0 < value <= MOST_SECONDS:
        raise QuestionError(
            f"{name} must be more than 0 and at most {MOST_SECONDS:g}, got {shown(value)}"
        )


def _method(value: Any, name: str) -> None:
    one_of(value, name, METHODS, error=QuestionError)


def _bins(value: Any, name: str) -> None:
    if value is not None:
        whole(value, name, least=1, error=QuestionError)


def _two_bins(value: Any, name: str) -> None:
    if isinstance(value, list):
        _pair(value, name)
    for one in value if isinstance(value, list) else [value]:
        _bins(one, name)


def _shares(value: Any, name: str) -> None:
    listed = value if isinstance(value, list) else [value]
    if not 1 <= len(listed) <= MOST_SHARES:
        raise QuestionError(
            f"{name} must have 1 to {MOST_SHARES:,} shares, got {len(listed):,}; ask several times"
        )
    for one in listed:
        _number(one, f"each share of {name}")


def _inner(value: Any, name: str, allowed: tuple[str, ...] = ()) -> None:
    """A question of one number within another one."""
    kinds = [one for one in SCALARS if isinstance(value, Mapping) and one in value]
    if len(kinds) != 1 or set(value) - {*kinds, *allowed}:
        beside = f", and {', '.join(allowed)} if wanted" if allowed else ""
        raise QuestionError(
            f"a question within {name} must have exactly one of {', '.join(SCALARS)}{beside}; "
            "everything else stands outside"
        )
    for one, held in value.items():
        _text(held, one)


def _difference(value: Any, name: str) -> None:
    _pair(value, name)
    for one in value:
        _inner(one, name, ("where",))


_KIND_READERS: dict[str, Callable[[Any, str], None]] = {
    "heatmap": _heatmap,
    "difference": _difference,
}
_OPTION_READERS: dict[str, Callable[[Any, str], None]] = {
    "fraction": _flag,
    "band": _flag,
    "bins": _bins,
    "at": _shares,
    "of": _inner,
    "where": _text,
    "level": _number,
    "population": _flag,
    "method": _method,
    "seconds": _seconds,
}


# Asking


def _scalar(
    estimate: Estimate, asked: Mapping[str, Any], where: Ask, common: Mapping[str, Any]
) -> Answer:
    """Ask for one number."""
    kind = next(name for name in SCALARS if name in asked)
    found: Answer = getattr(estimate, kind)(asked[kind], where=where, **common)
    return found


def _groups(
    estimate: Estimate,
    axis: str,
    asked: Mapping[str, Any],
    where: Ask,
    bins: int | None,
    common: Mapping[str, Any],
) -> Answers:
    """Ask for one number of each group of people."""
    return groups(
        estimate, axis, lambda who: _scalar(estimate, asked, who, common), where=where, bins=bins
    )


def _refuse_many(estimate: Estimate, names: list[str], bins: Any) -> None:
    """Refuse an answer of too many numbers before it is computed."""
    total = 1
    for place, name in enumerate(names):
        most = bins[place] if isinstance(bins, list) else bins
        size = estimate.study.axes[estimate._place(name)].size
        total *= size if most is None else min(size, most + 1)
    if total > MOST_NUMBERS:
        raise TooLargeError(
            f"the answer would have {total:,} numbers, and may have {MOST_NUMBERS:,}; ask for "
            "groups of cells with bins"
        )
