"""People and ε for a wanted error are the fewest and the smallest."""

from __future__ import annotations

import math
from typing import Any

import pytest
from helpers_planning import QUESTIONS, STUDIES, label, line

import sfumato as sf
from benchmarks import choice
from sfumato.planning.inverse import scaled


@pytest.mark.parametrize("name", ["two", "records", "mixed", "mixed bits"])
def test_people_needed_are_the_fewest_that_are_enough(name: str) -> None:
    study = STUDIES[name]()
    question = QUESTIONS[name]
    for wanted in (0.2, 0.01, 0.0007):
        n = sf.people_for(study, wanted, question)
        assert study.expected_error(n, question)[question].share <= wanted
        if n > 1:
            assert study.expected_error(n - 1, question)[question].share > wanted


def test_epsilon_needed_is_the_smallest_that_is_enough() -> None:
    axis = sf.integers("a", 0, 49, protect=sf.Distance(1))
    epsilon = sf.epsilon_for(axis, 20_000, 0.01, "a=10..20")

    def share(e: float) -> float:
        study = sf.Study("s", [sf.integers("a", 0, 49, protect=sf.Distance(e))])
        found = study.expected_error(20_000, "a=10..20")["a=10..20"].share
        assert found is not None
        return found

    assert share(epsilon) <= 0.01 < share(epsilon * 0.999)
    made = sf.epsilon_for(
        lambda e: sf.Study("s", [sf.integers("a", 0, 49, protect=sf.Distance(e))]),
        20_000,
        0.01,
        "a=10..20",
    )
    assert made == epsilon
    # And back again: with that ε, about that many people are needed.
    study = sf.Study("s", [sf.integers("a", 0, 49, protect=sf.Distance(epsilon))])
    assert sf.people_for(study, 0.01, "a=10..20") == pytest.approx(20_000, rel=0.002)


def test_epsilon_of_a_whole_study_is_a_factor() -> None:
    study = STUDIES["two"]()
    factor = sf.epsilon_for(study, 5_000, 0.02)
    twice = sf.Study(
        "s", [sf.integers("a", 0, 6, protect=sf.Distance(1.6), channel=sf.Geometric())]
    )
    alone = sf.Study("s", [study.axes[0]])
    assert factor > 0
    assert sf.epsilon_for(twice, 5_000, 0.02) == pytest.approx(
        sf.epsilon_for(alone, 5_000, 0.02) / 2, rel=1e-3
    )


def test_people_for_likelihood_answers_go_by_the_reported_error() -> None:
    study = sf.Study("s", [line("a", 8, sf.Geometric())])
    law = choice.two_bumps(8)
    n = sf.people_for(study, 0.02, "a=2..4", prior=law, method="likelihood")

    def share(people: int) -> float:
        plan = study.expected_error(people, "a=2..4", prior=law, method="likelihood", runs=0)
        found = plan["a=2..4"].share
        assert found is not None
        return found

    assert share(n) <= 0.02 < share(int(n * 0.97))


@pytest.mark.parametrize("wanted", [0, 1, -0.1, math.nan, True, "0.1"])
def test_wanted_errors_must_be_shares(wanted: Any) -> None:
    with pytest.raises(sf.StudyError, match="between 0 and 1"):
        sf.people_for(STUDIES["geometric"](), wanted)


def test_what_cannot_be_had_is_refused() -> None:
    study = STUDIES["geometric"]()
    with pytest.raises(sf.StudyError, match="would need"):
        sf.people_for(study, 1e-7)
    uniform = label("a", 5, sf.KaryResponse())
    assert sf.epsilon_for(uniform, 100, 0.0001) < 64
    with pytest.raises(sf.StudyError, match="no epsilon"):
        sf.epsilon_for(
            sf.categories("a", ["x", "y"], protect=sf.Matrix([[0, 1], [1, 0]])), 100, 0.1
        )
    with pytest.raises(sf.StudyError, match="needs an axis, a study, or a function"):
        sf.epsilon_for(3, 100, 0.1)  # type: ignore[arg-type]


def test_search_for_epsilon_keeps_the_number_of_people() -> None:
    axis = sf.integers("a", 0, 7, protect=sf.Distance(0.1))
    assert scaled(sf.Study("s", [axis], people=1_000), 2.0).people == 1_000
    assert scaled(sf.Study("s", [axis], people=1_000), 2.0).blocks[0].choice == sf.Geometric()
    assert scaled(sf.Study("s", [axis]), 2.0).blocks[0].choice == sf.Thermometer()


def test_left_out_the_question_is_the_block_with_the_largest_error() -> None:
    mixed = STUDIES["mixed"]()
    parts = [sf.Study("s", [part]) for part in mixed.parts]
    assert sf.people_for(mixed, 0.01) == max(sf.people_for(part, 0.01) for part in parts)
    assert len({sf.people_for(part, 0.01) for part in parts}) == 2


def test_a_factor_multiplies_the_epsilon_of_every_group() -> None:
    mixed = STUDIES["mixed"]()
    question = QUESTIONS["mixed"]
    twice = scaled(mixed, 2.0)
    assert [group.protect for group in twice.schema.groups] == [sf.Uniform(3), sf.Distance(1.6)]
    factor = sf.epsilon_for(mixed, 2_000, 0.03, question)
    share = [
        scaled(mixed, f).expected_error(2_000, question)[question].share
        for f in (factor, 0.999 * factor)
    ]
    assert share[0] is not None
    assert share[1] is not None
    assert share[0] <= 0.03 < share[1]
