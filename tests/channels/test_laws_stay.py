"""A report never comes to mean something else in silence: laws are pinned by revision."""

from __future__ import annotations

import hashlib
from fractions import Fraction

import numpy as np
import pytest

import sfumato as sf
from sfumato.channels.choice import REGISTRY, Choice
from sfumato.channels.searched.codec import OutputRows

EVEN = sf.Uniform(1)
NEAR = sf.Distance(0.5)
LOPSIDED = sf.SensitiveSet("2/3", [1, 4])

FEW = OutputRows(
    np.array([[0, -8190], [-8190, 0], [0, 0]], dtype=np.int32), 13, np.array([0.5, 0.5, 0.25]), 0.0
).to_text()

# Cells, metric, channel, and the digest of the exact law at the channel's revision. If a law is
# meant to change, raise the revision (so that studies get another fingerprint) and pin it anew.
LAWS: dict[str, tuple[int, sf.Metric, sf.Choice, str]] = {
    "geometric": (7, NEAR, sf.Geometric(), "ef890aaa7f7ccd15"),
    "geometric, capped": (7, sf.Distance(0.5, cap=1.5), sf.Geometric(), "85d2a84ba3336828"),
    "thermometer": (5, NEAR, sf.Thermometer(), "5bf45e22d7939232"),
    "thermometer, published": (5, NEAR, sf.Thermometer(variant="published"), "e08387396d4577af"),
    "kary-response": (5, EVEN, sf.KaryResponse(), "eab76b9169742d78"),
    "exponential": (9, NEAR, sf.Exponential(), "ab53c0f0d0621b8a"),
    "exponential, uneven": (
        6,
        sf.SensitiveSet("2/3", [1, 4]),
        sf.Exponential(),
        "9c65fcf78243f9e8",
    ),
    "extremal, levels": (2, EVEN, sf.Extremal(table=FEW), "4e7283fbee0443e7"),
    "extremal, digits": (3, EVEN, sf.Extremal.trials()[1].choice, "03ebf3a8a1128946"),
    "oue": (4, EVEN, sf.OUE(), "5ea0c104fc67461d"),
    "olh": (9, EVEN, sf.OLH(), "0c596cb721fcc756"),
    "olh, g": (9, EVEN, sf.OLH(g=5), "4398c5d38bfbfd57"),
    "hrr": (6, EVEN, sf.HRR(), "33bc50fa877f0bdc"),
    "square-wave": (8, EVEN, sf.SquareWave(), "0794fd7b7bd8b54d"),
    "comb": (12, EVEN, sf.Comb(), "486167af3632236e"),
    "hierarchical": (12, EVEN, sf.Hierarchical(), "b2f14322dbe198e6"),
    "hierarchical, oue": (4, EVEN, sf.Hierarchical(2, "oue"), "eb89d09773449a23"),
    "haar-hrr": (8, EVEN, sf.HaarHRR(), "4d471409f375a08c"),
    "binary": (2, EVEN, sf.Binary(), "90a6c749dcfeba13"),
    "hadamard": (6, EVEN, sf.Hadamard(), "ad24e6d5d0f070ef"),
    "extended": (6, sf.HighLow(1, [1, 2, 4]), sf.Extended(sf.KaryResponse()), "2b55f77316663716"),
    "extended, aside": (
        6,
        sf.Distance(0.5, no_answer=4),
        sf.Extended(sf.Geometric()),
        "eda964067e30b181",
    ),
    "extended, near": (
        9,
        sf.Distance(1, no_answer=1),
        sf.Extended(sf.Geometric()),
        "9e1fdf8fc6f9edd5",
    ),
    "rakes": (
        7,
        sf.Distance(0.5, cap=1),
        sf.Rakes(5, 1, Fraction(1, 3)),
        "c559c505f68e91eb",
    ),
    "per-block": (
        6,
        sf.Blocks(1, [[0, 3, 4], [1, 2], [5]]),
        sf.PerBlock([sf.KaryResponse(), sf.Binary()]),
        "72afbc074c019fbd",
    ),
    "pairs": (4, sf.Uniform(1), sf.Pairs(sf.Comb()), "1fea9e898c329741"),
    "planar": (3, sf.Lp("2/3", 2), sf.Planar(), "66148bd08866b52e"),
    "planar, capped": (3, sf.Lp("2/3", "inf", cap=1), sf.Planar(), "5bf3647cb4cdf1f9"),
    "product": (6, NEAR, sf.Product((2, 3)), "40d97e02e96b6626"),
    "stricter": (7, sf.Within(1, 2), sf.Stricter("line", sf.Geometric(), 2), "a0a46c72582bb235"),
}


def law(name: str) -> str:
    """The digest of revision and exact word counts."""
    cells, metric, choice, _ = LAWS[name]
    if isinstance(metric, sf.Lp):
        axes = [sf.integers("x", 1, cells), sf.integers("y", 0, cells)]
        (channel,) = sf.Study("laws", [sf.together(axes, protect=metric, channel=choice)]).channels
        return digest(choice, channel.words())
    optional = isinstance(metric, sf.Distance) and metric.no_answer is not None
    axis = sf.integers("x", 0, cells - 1, protect=metric, channel=choice, optional=optional)
    return digest(choice, sf.Study("laws", [axis]).channels[0].words())


def digest(choice: Choice, words: object) -> str:
    """The digest of a revision and of a law."""
    return hashlib.sha256(repr((choice.revision, words)).encode()).hexdigest()[:16]


@pytest.mark.parametrize("name", LAWS)
def test_a_law_is_what_it_was_at_this_revision(name: str) -> None:
    assert law(name) == LAWS[name][-1], f"{name}: raise its revision, then pin this law"


def test_every_channel_that_follows_from_its_options_is_pinned() -> None:
    """Of the slow ones the law follows from the table in the study; one of each rule is pinned."""
    follows = {kind for kind, choice in REGISTRY.items() if not choice.slow} | {"extremal"}
    assert {choice.id for _, _, choice, _ in LAWS.values()} == follows
