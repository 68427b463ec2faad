"""A study that can be made works: what cannot serve is refused at once, or replaced if unnamed.

Every registered channel is tried on axes and grids of every kind, up to sizes at which only some
channels can work; there, those that are named are put to work in `make soak`. Searched channels are
tried where they refuse; the contract suite tries them on the cells that they are for.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest
import tomli_w

import sfumato as sf
from sfumato.channels.choice import REGISTRY
from sfumato.errors import FormatError, SfumatoError
from sfumato.study.axis import Axis

FEW = 64  # cells up to which likelihood answers and audits take moments
MOST_SEARCHED = 1024  # cells up to which a channel may be searched for

LABELS = [f"c{k}" for k in range(30)]
UNIFORM = sf.Uniform(1)
ODD = 2**22 + 5  # one more than trees and hashes take, and not a power of two


def whole(name: str, size: int, **options: object) -> Axis:
    return sf.integers(name, 0, size - 1, **options)  # type: ignore[arg-type]


def rounded(**options: object) -> Axis:
    return sf.reals("x", rounding="stochastic", **options)  # type: ignore[arg-type]


FORMS: dict[str, Axis | tuple[int, ...]] = {
    "uniform": whole("x", 7, protect=UNIFORM),
    "uniform, two cells": whole("x", 2, protect=UNIFORM),
    "uniform, tiny epsilon": whole("x", 20, protect=sf.Uniform("1e-9")),
    "labels": sf.categories("x", LABELS, protect=UNIFORM, optional=True),
    "blocks": sf.categories("x", LABELS, protect=sf.Blocks(1, [LABELS[:9], LABELS[9:]])),
    "high-low": sf.categories("x", LABELS, protect=sf.HighLow(1, LABELS[:9])),
    "distance": whole("x", 7, protect=sf.Distance(1)),
    "distance, optional": whole("x", 7, protect=sf.Distance(1, no_answer=2), optional=True),
    "distance, capped": whole("x", 7, protect=sf.Distance(1, cap=2)),
    "unequal bins": sf.reals("x", edges=[0, 1, 3, 9, 10], protect=sf.Distance(1)),
    "unequal bins, capped": sf.reals("x", edges=[0, 1, 3, 9, 10], protect=sf.Distance(1, cap=2)),
    "rounded": rounded(low=0, high=4, bins=4, protect=sf.Distance(1)),
    "rounded, capped": rounded(low=0, high=4, bins=4, protect=sf.Distance(1, cap=2)),
    "rounded, unequal": rounded(edges=[0, 1, 3, 9], protect=sf.Distance(1)),
    "rounded, uniform": rounded(low=0, high=4, bins=4, protect=UNIFORM),
    "rounded, uniform, two ends": rounded(low=0, high=4, bins=1, protect=UNIFORM),
    "3 × 4": (3, 4),
}

LARGE: dict[str, Axis | tuple[int, ...]] = {
    "uniform, 2^16": whole("x", 2**16, protect=UNIFORM),
    "uniform, 2^22 + 5, optional": whole("x", ODD, protect=UNIFORM, optional=True),
    "distance, 2^16": whole("x", 2**16, protect=sf.Distance("1e-3")),
    "distance, 2^16, capped": whole("x", 2**16, protect=sf.Distance("1e-3", cap=2)),
    "64 × 64 × 64": (64, 64, 64),
    "4096 × 1025": (4096, 1025),
}

#: What no channel can serve, with what the refusal must say.
NONE_CAN: dict[str, tuple[Callable[[], sf.Study], str]] = {
    "4096^4": (
        lambda: sf.Study("s", [whole(n, 4096) for n in "abcd"], protect=UNIFORM),
        r"two with 16,777,216 cells together; the limit is 4,194,304\. Use fewer cells",
    ),
    "4096^4, named, large epsilon": (
        lambda: sf.Study(
            "s",
            [whole(n, 4096) for n in "abcd"],
            protect=sf.Uniform(40),
            channel=sf.KaryResponse(),
        ),
        "guarantee of its own",
    ),
    "rounded, a sum of metrics": (
        lambda: sf.Study(
            "s", [rounded(low=0, high=4, bins=4, protect=sf.Distance(1) + sf.Uniform(1))]
        ),
        r"needs protect=Distance\(...\) or Uniform\(...\) alone; remove one of the two",
    ),
    "rounded, in a group": (
        lambda: sf.Study("s", [rounded(low=0, high=4, bins=4), whole("y", 3)], protect=UNIFORM),
        "rounding='stochastic' needs a guarantee of its own",
    ),
    "rounded, unequal, capped": (
        lambda: sf.Study("s", [rounded(edges=[0, 1, 3, 9], protect=sf.Distance(1, cap=2))]),
        "rounding='stochastic' under a cap needs equal bins",
    ),
}


#: Channels that have no defaults.
COMPOSED = {
    "per-block": sf.PerBlock(sf.KaryResponse()),
    "product": sf.Product((3, 10)),
    "stricter": sf.Stricter("uniform", sf.KaryResponse()),
    "rakes": sf.Rakes(1, 1, Fraction(1, 3)),
}


def study_of(form: Axis | tuple[int, ...], kind: str | None) -> sf.Study:
    """The study of one axis, or of whole records on a grid, with this channel."""
    choice = None if kind is None else COMPOSED.get(kind) or REGISTRY[kind]()
    if isinstance(form, Axis):
        return sf.Study("s", [replace(form, channel=choice)])
    axes = [whole(f"a{k}", size) for k, size in enumerate(form)]
    return sf.Study("s", axes, protect=UNIFORM, channel=choice)


def made(form: Axis | tuple[int, ...], kind: str | None) -> sf.Study | None:
    """The study, or None if it was refused for its axes; a default must be able to serve."""
    cells = form.size if isinstance(form, Axis) else math.prod(form)
    if kind is not None and REGISTRY[kind].slow and cells <= MOST_SEARCHED:
        return None
    try:
        return study_of(form, kind)
    except SfumatoError as error:
        if kind is None or not str(error).startswith(("axis ", "axes ")):
            raise
        return None


def works(study: sf.Study, times: int = 1) -> None:
    """Everything that follows the making of a study, for two people or this many times as many."""
    text = study.to_toml()
    loaded = sf.Study.from_toml(text)
    assert [block.choice for block in loaded.blocks] == [block.choice for block in study.blocks]
    assert loaded.to_toml() == text
    assert "Sent by" in study.explain()
    labelled = study.axes[0].domain.kind == "categories"
    people = {axis.name: ([LABELS[0]] * 2 if labelled else [0, 1]) * times for axis in study.axes}
    tally = study.tally(study.encode(people, bits=sf.SeededBits(3)))
    question = {study.axes[0].name: {LABELS[0]} if labelled else (0, 0)}
    answer = tally.estimate(method="unbiased").count(**question)
    assert math.isfinite(answer.value)
    assert answer.stderr > 0
    cells = math.prod(study.shape)
    if cells <= FEW:
        assert math.isfinite(tally.estimate(method="likelihood").count(**question).value)
        assert sf.audit(study).holds


@pytest.mark.parametrize("kind", [None, *REGISTRY])
@pytest.mark.parametrize("form", FORMS)
def test_a_study_works_once_it_is_made(form: str, kind: str | None) -> None:
    study = made(FORMS[form], kind)
    if study is not None:
        works(study)


@pytest.mark.slow
@pytest.mark.parametrize("form", LARGE)
def test_a_large_study_is_made_at_once_or_refused(form: str) -> None:
    """By every channel; the one that is chosen works."""
    for kind in REGISTRY:
        made(LARGE[form], kind)
    works(study_of(LARGE[form], None))


@pytest.mark.soak
@pytest.mark.parametrize("kind", REGISTRY)
@pytest.mark.parametrize("form", LARGE)
def test_a_large_study_works_once_it_is_made(form: str, kind: str) -> None:
    study = made(LARGE[form], kind)
    if study is not None:
        works(study)


@pytest.mark.parametrize("form", NONE_CAN)
def test_what_no_channel_can_serve_is_refused_when_the_study_is_made(form: str) -> None:
    make, message = NONE_CAN[form]
    with pytest.raises(SfumatoError, match=message):
        make()


def test_a_default_that_cannot_serve_is_replaced_and_a_named_one_refused() -> None:
    """Trees take up to 2^22 cells; with no channel named, one that takes more is chosen."""
    axis = whole("x", ODD, protect=UNIFORM)
    assert sf.Study("s", [axis]).blocks[0].choice == sf.KaryResponse()
    with pytest.raises(SfumatoError, match=r"axis 'x': Hierarchical .* the limit is 4,194,304"):
        sf.Study("s", [replace(axis, channel=sf.Hierarchical())])


def test_a_default_for_many_small_axes_is_made_at_once() -> None:
    """Combs could serve, after minutes; HRR at once, with over 50 times the error on two axes."""
    study = study_of((2,) * 20, None)
    assert isinstance(study.blocks[0].choice, sf.Pairs)
    works(study, times=500)
    people = {axis.name: [0, 1] * 500 for axis in study.axes}
    errors = [
        made.tally(made.encode(people, bits=sf.SeededBits(3)))
        .estimate(method="unbiased")
        .count(a0=(0, 0), a1=(0, 0))
        .stderr
        for made in (study, sf.Study("s", study.axes, protect=UNIFORM, channel=sf.HRR()))
    ]
    assert 20 * errors[0] < errors[1]


def test_a_loaded_study_keeps_its_channel_or_is_refused() -> None:
    """Never planned anew: neither if its channel cannot serve, nor if another would be better."""
    fits = sf.Study("s", [whole("x", 100, protect=UNIFORM, channel=sf.OUE())])
    entries = tomllib.loads(fits.to_toml())
    del entries["fingerprint"]
    assert sf.Study.from_toml(tomli_w.dumps(entries)).blocks[0].choice == sf.OUE()
    entries["axes"][0]["domain"]["high"] = ODD - 1
    with pytest.raises(FormatError, match=r"axis 'x': OUE does not fit: .* the limit is 65536"):
        sf.Study.from_toml(tomli_w.dumps(entries))
