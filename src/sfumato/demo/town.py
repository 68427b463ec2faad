"""The invented town, and the questions about it: in words, in code, and counted directly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.estimation.answers import Answer
from sfumato.estimation.estimate import Estimate

People = Mapping[str, NDArray[np.float64]]

_TOWN = 1503  # the town is the same for everyone; only reports are drawn anew


def make_town(people: int) -> dict[str, NDArray[np.float64]]:
    """Invent people: young ones near the centre, older ones in the suburbs with a long commute.

    Example:
        >>> town = make_town(1_000)
        >>> len(town["age"]), bool(town["age"].min() >= 15), bool(town["minutes"].max() < 100)
        (1000, True, True)
    """
    rng = np.random.default_rng(_TOWN)
    central = rng.random(people) < 0.56
    age = np.where(central, 18 + rng.gamma(5, 2.6, people), rng.normal(57, 6, people))
    minutes = np.where(
        central,
        rng.gamma(6, 3.2, people) + 0.35 * (age - 18),
        rng.normal(62, 11, people) - 0.6 * (age - 57),
    )
    return {"age": np.clip(age, 15, 79.9), "minutes": np.clip(minutes, 0, 99.9)}


@dataclass(frozen=True, slots=True)
class TownQuestion:
    """A question in words and in code, asked of an estimate and counted among the people."""

    words: str
    code: str
    unit: str
    ask: Callable[[Estimate], Answer]
    count: Callable[[People], float]


def _between(people: People, axis: str, low: float, high: float) -> NDArray[np.bool_]:
    """Which people lie in an interval."""
    found: NDArray[np.bool_] = (people[axis] >= low) & (people[axis] < high)
    return found


def _number(where: NDArray[np.bool_]) -> float:
    """How many people."""
    return float(np.count_nonzero(where))


def _of(where: NDArray[np.bool_], among: NDArray[np.bool_]) -> float:
    """The share of some people who are in another group, too."""
    return _number(where & among) / _number(among) if among.any() else float("nan")


def _mean(values: NDArray[np.float64], among: NDArray[np.bool_]) -> float:
    """The mean of some people's values."""
    return float(values[among].mean()) if among.any() else float("nan")


def _far(people: People) -> NDArray[np.bool_]:
    """Which people travel an hour or more."""
    return _between(people, "minutes", 60, 101)


QUESTIONS: tuple[TownQuestion, ...] = (
    TownQuestion(
        "People aged 25 to 40",
        "est.count(age=(25, 40))",
        "people",
        lambda est: est.count(age=(25, 40)),
        lambda p: _number(_between(p, "age", 25, 40)),
    ),
    TownQuestion(
        "People aged 60 or more",
        "est.count(age=(60, None))",
        "people",
        lambda est: est.count(age=(60, None)),
        lambda p: _number(_between(p, "age", 60, 81)),
    ),
    TownQuestion(
        "People who travel 20 to 40 minutes",
        "est.count(minutes=(20, 40))",
        "people",
        lambda est: est.count(minutes=(20, 40)),
        lambda p: _number(_between(p, "minutes", 20, 40)),
    ),
    TownQuestion(
        "People who travel less than 15 minutes",
        "est.count(minutes=(None, 15))",
        "people",
        lambda est: est.count(minutes=(None, 15)),
        lambda p: _number(_between(p, "minutes", 0, 15)),
    ),
    TownQuestion(
        "People aged 25 to 40 who travel 15 to 40 minutes",
        "est.count(age=(25, 40), minutes=(15, 40))",
        "people",
        lambda est: est.count(age=(25, 40), minutes=(15, 40)),
        lambda p: _number(_between(p, "age", 25, 40) & _between(p, "minutes", 15, 40)),
    ),
    TownQuestion(
        "People aged 50 or more who travel an hour or more",
        "est.count(age=(50, None), minutes=(60, None))",
        "people",
        lambda est: est.count(age=(50, None), minutes=(60, None)),
        lambda p: _number(_between(p, "age", 50, 81) & _far(p)),
    ),
    TownQuestion(
        "People under 25 who travel 40 to 60 minutes",
        "est.count(age=(None, 25), minutes=(40, 60))",
        "people",
        lambda est: est.count(age=(None, 25), minutes=(40, 60)),
        lambda p: _number(_between(p, "age", 15, 25) & _between(p, "minutes", 40, 60)),
    ),
    TownQuestion(
        "Share who travel less than half an hour",
        "est.fraction(minutes=(None, 30))",
        "share",
        lambda est: est.fraction(minutes=(None, 30)),
        lambda p: _of(_between(p, "minutes", 0, 30), np.ones(len(p["age"]), dtype=bool)),
    ),
    TownQuestion(
        "Of those who travel an hour or more, share aged 55 or more",
        'est.fraction(age=(55, None), where="minutes=60..")',
        "share",
        lambda est: est.fraction(age=(55, None), where="minutes=60.."),
        lambda p: _of(_between(p, "age", 55, 81), _far(p)),
    ),
    TownQuestion(
        "Mean age, in years",
        'est.mean("age")',
        "years",
        lambda est: est.mean("age"),
        lambda p: float(p["age"].mean()),
    ),
    TownQuestion(
        "Mean minutes to work of people aged 50 or more",
        'est.mean("minutes", where="age=50..")',
        "minutes",
        lambda est: est.mean("minutes", where="age=50.."),
        lambda p: _mean(p["minutes"], _between(p, "age", 50, 81)),
    ),
    TownQuestion(
        "How many more people travel less than 30 minutes than an hour or more",
        "est.count(minutes=(None, 30)) - est.count(minutes=(60, None))",
        "people",
        lambda est: est.count(minutes=(None, 30)) - est.count(minutes=(60, None)),
        lambda p: _number(_between(p, "minutes", 0, 30)) - _number(_far(p)),
    ),
)
