"""Reports on pairs of axes: exact law and readings on three axes, and what is refused."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from helpers_contract import Subject, encodes_by_the_law, exceeding_pair, is_a_law

import sfumato as sf
from sfumato.channels.choice import Trial
from sfumato.channels.pairs import PairsChannel, pairs_of
from sfumato.errors import QuestionError, SfumatoError, StudyError, TooLargeError
from sfumato.metrics.uniform import UniformMetric

SHAPE = (2, 3, 2)


def subject(**options: Any) -> Subject:
    """Three axes, of which each report tells two."""
    trial = Trial(
        choice=sf.Pairs(**options),
        metric=UniformMetric(Fraction(1), math.prod(SHAPE)),
        shape=SHAPE,
        ordered=(True, True, False),
    )
    return Subject.of(trial)


MADE = {
    "even": subject(),
    "uneven": subject(channels=[sf.Comb(), sf.KaryResponse(), sf.Comb()], shares=[1, 2, 5]),
}


@pytest.mark.parametrize("made", MADE.values(), ids=list(MADE))
def test_law_on_three_axes_keeps_the_guarantee_and_is_followed(made: Subject) -> None:
    is_a_law(made)
    assert exceeding_pair(made.rows, made.exact) is None
    encodes_by_the_law(made)


def test_law_is_that_of_the_pair_times_its_chance() -> None:
    """Computed apart from the channel: for each pair its share times the law of its own cell."""
    made = MADE["uneven"]
    channel = made.channel
    assert isinstance(channel, PairsChannel)
    start = 0
    for share, part in zip((1, 2, 5), channel.parts, strict=True):
        law = part.inner.likelihood()
        for cell in range(channel.size):
            places = np.unravel_index(cell, SHAPE)
            own = int(
                np.ravel_multi_index(
                    [places[axis] for axis in part.axes], [SHAPE[axis] for axis in part.axes]
                )
            )
            found = made.cell_law[cell, start : start + part.outputs]
            assert found == pytest.approx(share / 8 * law[own], rel=1e-12)
        start += part.outputs


@pytest.mark.parametrize("made", MADE.values(), ids=list(MADE))
def test_questions_about_two_axes_are_read_without_bias(made: Subject) -> None:
    rng = np.random.default_rng(1)
    rows = []
    for a, b in itertools.combinations(range(3), 2):
        shape = [size if axis in (a, b) else 1 for axis, size in enumerate(SHAPE)]
        rows.append(np.broadcast_to(rng.normal(size=shape), SHAPE).ravel())
    weights = np.array([*rows, sum(rows)])
    read = made.channel.coefficients(weights)
    assert read @ made.cell_law.T == pytest.approx(weights, abs=1e-9)


def test_questions_about_three_axes_have_no_unbiased_reading() -> None:
    with pytest.raises(QuestionError, match="no unbiased answer"):
        MADE["even"].channel.coefficients(np.eye(math.prod(SHAPE))[:1])


def axes(count: int, size: int = 64) -> list[sf.Axis]:
    return [sf.integers(f"a{k}", 0, size - 1) for k in range(count)]


def test_eight_axes_of_64_cells_are_audited_by_structure() -> None:
    study = sf.Study("s", axes(8), protect=sf.Uniform(1))
    assert study.channels[0].id == "pairs"
    channel = study.channels[0]
    found = channel.check(UniformMetric(Fraction(1), 64**8))
    assert (found.problems, found.method) == ([], "by structure")
    wrong = channel.check(UniformMetric(Fraction(9, 10), 64**8))
    assert wrong.problems


def test_a_study_of_pairs_comes_back_from_its_file() -> None:
    study = sf.Study(
        "s",
        [*axes(3, 16), sf.categories("c", ["x", "y", "z"])],
        protect=sf.Uniform(1),
        channel=sf.Pairs(),
    )
    again = sf.Study.from_toml(study.to_toml())
    assert again.fingerprint == study.fingerprint
    record = {"a0": 3, "a1": 4, "a2": 5, "c": "y"}
    same = [made.encode(record, bits=sf.SeededBits(4)).outputs for made in (study, again)]
    assert same[0][0].tolist() == same[1][0].tolist()


def test_devices_draw_as_channels_do() -> None:
    """The program of one record and the channel of many: the same words give the same report."""
    study = sf.Study("s", axes(4, 8), protect=sf.Uniform(1), channel=sf.Pairs())
    (channel,) = study.channels
    for seed in range(20):
        record = {f"a{k}": (seed * 3 + k) % 8 for k in range(4)}
        alone = study.encode(record, bits=sf.SeededBits(seed)).outputs[0]
        cell = np.ravel_multi_index([[v] for v in record.values()], (8,) * 4)
        assert alone.tolist() == np.asarray(channel.encode(cell, sf.SeededBits(seed))).tolist()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"shares": [1, 2]}, "shares must have one entry for each of 6 pairs"),
        ({"shares": [0] * 6}, "whole numbers from 1"),
        ({"channels": [sf.Comb()] * 2}, "channels must have one entry for each of 6 pairs"),
        ({"channels": sf.Pairs()}, r"must not be Pairs\(\) again"),
        ({"channels": sf.OUE()}, "needs a linear channel of symbols"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(SfumatoError, match=told):
        sf.Study("s", axes(4, 8), protect=sf.Uniform(1), channel=sf.Pairs(**options))


def test_more_attributes_than_people_can_carry_are_refused_with_the_error_to_expect() -> None:
    with pytest.raises(StudyError, match=r"8 axes are more than 300 people can carry .* \d+%"):
        sf.Study("s", axes(8), protect=sf.Uniform("1/2"), people=300)
    assert sf.Study("s", axes(8), protect=sf.Uniform("1/2"), people=1_000_000).channels


def test_too_many_cells_are_refused() -> None:
    with pytest.raises(TooLargeError, match="Pairs takes up to"):
        sf.Study("s", axes(10), protect=sf.Uniform(1))


def test_pairs_of_too_many_cells_are_refused_with_a_remedy_that_works() -> None:
    with pytest.raises(TooLargeError, match=r"two with 4,198,401 cells .* limit is 4,194,304"):
        sf.Study("s", axes(4, 2049), protect=sf.Uniform(1))
    named = r"fewer axes, or channel=Pairs\(KaryResponse\(\)\)"
    with pytest.raises(TooLargeError, match=named):
        sf.Study("s", axes(3, 2048), protect=sf.Uniform(1))
    assert sf.Study("s", axes(3, 2048), protect=sf.Uniform(1), channel=sf.Pairs(sf.KaryResponse()))
    with pytest.raises(TooLargeError, match=r"kinds; the limit is 16,777,216.* fewer axes$"):
        sf.Study("s", axes(4, 2048), protect=sf.Uniform(1), channel=sf.Pairs(sf.KaryResponse()))


def test_axes_of_two_cells_are_planned() -> None:
    """One of their ranges is everybody, whose number is known."""
    study = sf.Study("s", axes(4, 2), protect=sf.Uniform(1), channel=sf.Pairs())
    found = study.expected_error(1_000, method="unbiased")
    assert all(0 < row.stderr < 1_000 for row in found.rows)


@pytest.mark.parametrize("method", ["unbiased", "likelihood"])
def test_comparison_asks_all_channels_the_same(method: str) -> None:
    def compared(count: int, channel: Any = None) -> dict[str, bool]:
        study = sf.Study("s", axes(count, 4), protect=sf.Uniform(1), channel=channel)
        rows = study.compare(300, methods=[method], runs=1).rows
        assert len({row.question for row in rows}) == 1
        return {row.channel.split(" ")[0]: row.chosen for row in rows}

    for count in (1, 2, 3):
        assert "pairs" not in compared(count)
    found = compared(3, sf.Pairs())
    assert found["pairs"]
    assert "kary-response" in found


def test_pairs_are_numbered_in_order() -> None:
    assert pairs_of(3) == [(0, 1), (0, 2), (1, 2)]
    assert pairs_of(1) == [(0,)]
