"""Plans compare ways to release before anything is spent."""

from __future__ import annotations

import json

import pytest
from helpers_central import STUDIES, two_axes

import sfumato as sf
from sfumato import central

# Planning


def test_a_plan_lists_every_way_with_the_best_first() -> None:
    study = STUDIES["distance"]
    plan = central.plan(study, "ranges of x", 1000, "1/5")
    assert plan.best.name == "Laplace, prefix"
    exact = [option.stderr for option in plan if option.how == "exact"]
    assert exact == sorted(exact)
    assert {"Laplace, identity", "MWEM"} <= {option.name for option in plan}
    prepared = plan.best.mechanism.prepare(central.Space(study, "1/5"), 1000)
    assert prepared.expected().total == plan.best.stderr
    text = str(plan)
    assert text.splitlines()[0].startswith("Study 'one': 15 questions about 1,000 people")
    assert "Laplace, the questions themselves, PSA" in text
    assert json.loads(json.dumps(plan.to_dict()))["options"][0]["name"] == "Laplace, prefix"
    assert plan["Laplace, haar"].largest > plan.best.largest
    with pytest.raises(sf.QuestionError, match="no option"):
        plan["Laplace, magic"]


def test_a_plan_lists_no_strategy_twice() -> None:
    """Without an order every strategy is that of single cells."""
    axes = [sf.categories(name, ["x", "y", "z"], protect=sf.Uniform(1)) for name in "abc"]
    plan = central.plan(sf.Study("labels", axes), "2-way", 1000, "1/4")
    rows = [plan.cells(option)[1:] for option in plan if "themselves" not in option.name]
    assert len(rows) == len(set(rows)) == 2
    mixed = sf.Study("mixed", [*axes[:2], sf.integers("n", 0, 3, protect=sf.Distance(1))])
    names = [option.name for option in central.plan(mixed, "2-way", 1000, "1/4")]
    assert {"Laplace, prefix", "Laplace, haar"} <= set(names)


def test_a_plan_says_why_something_cannot_be_done() -> None:
    study = STUDIES["distance"]
    plan = central.plan(study, ["x=0..2", "x=1..3"], 1000, {"x": "1/5"})
    assert len(plan) == len(list(plan))
    with pytest.raises(sf.StudyError, match="n must be a whole number"):
        central.plan(study, ["x=0..2"], 0, 1)
    none = central.plan(two_axes(), ["mode=bus, age=1"], 10, {"age": "1/2"})
    assert all("spends nothing" in option.problem for option in none)
    assert "spends nothing" in str(none)
