"""Channels per block, for stricter metrics and for grids: what the contract leaves out."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.channels.choice import choice_from_dict, choice_to_dict
from sfumato.channels.hadamard import Hadamard
from sfumato.channels.per_block import Part, PerBlock, PerBlockChannel
from sfumato.channels.product import Product
from sfumato.channels.response import KaryResponseChannel
from sfumato.channels.stricter import Stricter
from sfumato.errors import StudyError
from sfumato.metrics.cells import TableMetric
from sfumato.metrics.distance import LineMetric
from sfumato.metrics.grids import GridMetric, grid_within
from sfumato.metrics.labelled import BlockMetric, HighLowMetric
from sfumato.metrics.stricter import is_within
from sfumato.metrics.uniform import UniformMetric

BLOCKS = BlockMetric(Fraction(1), np.array([0, 1, 0, 2, 1, 1, 0, 1]))


def large(blocks: int, size: int) -> BlockMetric:
    """Blocks of equal size, the cells of each far apart."""
    return BlockMetric(Fraction(1), np.arange(blocks * size) % blocks)


def test_large_blocks_are_checked_by_structure() -> None:
    metric = large(40, 20)
    channel = PerBlock(sf.KaryResponse()).bind(metric)
    found = channel.check(metric)
    assert not found.problems
    assert found.method == "by structure"
    assert found.pair is not None
    assert metric.exact(*found.pair) == 1
    assert found.spent == pytest.approx(1, abs=1e-9)


def test_one_block_that_tells_too_much_is_found() -> None:
    metric = large(40, 20)
    channel = PerBlock(sf.KaryResponse()).bind(metric)
    loud = KaryResponseChannel(metric=UniformMetric(Fraction(11, 10), 20))
    parts = (*channel.parts[:7], replace(channel.parts[7], inner=loud), *channel.parts[8:])
    found = PerBlockChannel(metric=metric, parts=parts).check(metric)
    assert any("exceed their bound" in problem for problem in found.problems)


def test_other_blocks_than_those_of_e_are_found() -> None:
    metric, other = large(40, 20), large(20, 40)
    found = PerBlock(sf.KaryResponse()).bind(metric).check(other)
    assert any("blocks are not those of E" in problem for problem in found.problems)


def test_people_of_all_blocks_are_encoded_together(seed: int) -> None:
    channel = PerBlock([sf.Comb(), sf.Hadamard()]).bind(BLOCKS)
    cells = np.random.default_rng(seed).integers(8, size=4_000)
    symbols = channel.encode(cells, sf.SeededBits(seed))
    law = channel.likelihood()
    assert (law[cells, symbols] > 0).all()
    # Every symbol of a cell's block is seen: no block is left out, none is taken for another.
    assert set(zip(cells.tolist(), symbols.tolist(), strict=True)) == set(
        zip(*(axis.tolist() for axis in np.nonzero(law > 1e-3)), strict=True)
    )


class _Shifted(KaryResponseChannel):
    """k-ary response whose encode is off by one cell."""

    def encode(self, cells: Any, bits: Any) -> Any:
        return (super().encode(cells, bits) + 1) % self.size


def test_the_audit_drives_every_block() -> None:
    names = [f"c{cell}" for cell in range(8)]
    protect = sf.Blocks(
        1, [[n for n, b in zip(names, BLOCKS.block, strict=True) if b == k] for k in range(3)]
    )
    made = PerBlock([sf.KaryResponse(), sf.KaryResponse()])
    study = sf.Study("blocks", [sf.categories("x", names, protect=protect, channel=made)])
    assert sf.audit(study).holds
    assert sf.audit(study).axes[0].driven == "every boundary"
    channel = study.blocks[0].channel
    assert isinstance(channel, PerBlockChannel)
    second = channel.parts[1].inner
    assert isinstance(second, KaryResponseChannel)
    wrong = replace(channel.parts[1], inner=_Shifted(metric=second.metric))
    object.__setattr__(channel, "parts", (channel.parts[0], wrong, *channel.parts[2:]))
    assert not sf.audit(study).holds


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (PerBlock([sf.KaryResponse()] * 3), "it has 3 channels, and the number of blocks"),
        (PerBlock(sf.Geometric()), "Geometric does not fit block 1"),
        (PerBlock(sf.OUE()), "OUE sends bits"),
    ],
)
def test_channels_that_do_not_fit_their_blocks_are_refused(choice: PerBlock, words: str) -> None:
    with pytest.raises(StudyError, match=words):
        choice.bind(BLOCKS)


def test_no_channel_is_refused() -> None:
    with pytest.raises(StudyError, match="one channel or more"):
        PerBlock([])


NESTED = (
    PerBlock([sf.Comb(), sf.KaryResponse()]),
    Stricter("uniform", sf.OLH(5)),
    Stricter("line", sf.Geometric(), Fraction(3, 2)),
    PerBlock(Stricter("uniform", sf.Hadamard())),
)


@pytest.mark.parametrize("choice", NESTED, ids=str)
def test_choices_within_choices_are_read_back(choice: PerBlock | Stricter) -> None:
    assert choice_from_dict(choice_to_dict(choice)) == choice


def test_a_stricter_channel_is_checked_by_structure_against_e() -> None:
    size = 600
    far = np.minimum(np.abs(np.subtract.outer(np.arange(size), np.arange(size))), 3) + 1
    np.fill_diagonal(far, 0)
    metric = TableMetric(far, 1, size)
    channel = Stricter("uniform", sf.KaryResponse()).bind(metric)
    found = channel.check(metric)
    assert not found.problems
    assert found.method == "by structure"
    louder = sf.KaryResponse().bind(UniformMetric(Fraction(21, 10), size))
    assert louder.check(metric).problems


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Stricter("circle", sf.OUE()), "like must be 'uniform' or 'line'"),
        (lambda: Stricter("uniform", sf.OUE(), Fraction(1)), "only a line has a cap"),
        (lambda: Stricter("uniform", 7), "channel must be a channel such as"),
        (lambda: Stricter("line", sf.Geometric(), Fraction(-1)), "cap must be positive"),
    ],
)
def test_words_that_make_no_stricter_metric_are_refused(make: Any, words: str) -> None:
    with pytest.raises(StudyError, match=words):
        make()


def test_a_stricter_channel_must_fit_its_metric() -> None:
    line = LineMetric((Fraction(1), Fraction(2)))
    with pytest.raises(StudyError, match="needs protect=Uniform"):
        Stricter("line", sf.KaryResponse()).bind(line)
    told = TableMetric(np.array([[0, -1, -1], [-1, 0, -1], [-1, -1, 0]]), 1, 3)
    with pytest.raises(StudyError, match="nothing to keep"):
        Stricter("uniform", sf.KaryResponse()).bind(told)


def board(rows: int, columns: int) -> TableMetric:
    """Euclidean distances on a board, rounded down."""
    places = np.stack(np.divmod(np.arange(rows * columns), columns), axis=1)
    apart = np.sqrt(((places[:, None] - places) ** 2).sum(axis=2))
    return TableMetric(np.floor(1000 * apart).astype(np.int64), 1000, rows * columns)


def test_a_product_keeps_the_largest_sum_of_two_lines_within_e() -> None:
    metric = board(4, 6)
    within = grid_within(metric, (4, 6))
    assert within is not None
    assert is_within(within, metric)
    for share in (Fraction(101, 100), Fraction(11, 10)):
        longer = GridMetric(
            *(
                LineMetric.equal(share * (line.equal_step or 0), line.size)
                for line in (within.rows, within.columns)
            )
        )
        assert not is_within(longer, metric)


def test_large_products_are_checked_by_structure() -> None:
    metric = board(18, 20)
    channel = Product((18, 20)).bind(metric)
    found = channel.check(metric)
    assert not found.problems
    assert found.method == "by structure"
    louder = Product((18, 20)).bind(TableMetric(2 * metric.numerators, 1000, metric.size))
    assert louder.check(metric).problems


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Product((3, 4)).bind(board(4, 4)), "has 12 cells, and there are 16"),
        (lambda: Product((2, 2), sf.Thermometer()).bind(board(2, 2)), "sends bits"),
        (lambda: Product((1, 4)), "two or more of each"),
        (lambda: Product(4), "the number of rows and of columns"),
        (lambda: Product((2, 2), 7), "channel must be a channel such as"),
        (
            lambda: Product((2, 2)).bind(BlockMetric(Fraction(1), np.array([0, 0, 1, 1]))),
            "PerBlock",
        ),
    ],
)
def test_what_is_no_grid_is_refused(make: Any, words: str) -> None:
    with pytest.raises(StudyError, match=words):
        make()


def test_a_cell_in_two_parts_is_found() -> None:
    metric = large(40, 20)
    channel = PerBlock(sf.KaryResponse()).bind(metric)
    parts = (*channel.parts, Part(np.array([0]), None))
    found = PerBlockChannel(metric=metric, parts=parts).check(metric)
    assert any("more than one channel" in problem for problem in found.problems)


def test_equal_blocks_share_a_channel() -> None:
    metric = BlockMetric(Fraction(1), np.array([0, 0, 0, 1, 1, 1, 2, 2]))
    first, second, other = (part.inner for part in PerBlock(sf.KaryResponse()).bind(metric).parts)
    assert first is second is not other
    mixed = PerBlock([sf.KaryResponse(), Hadamard(), sf.KaryResponse()]).bind(metric)
    assert mixed.parts[0].inner is not mixed.parts[1].inner


def test_the_second_moment_of_questions_that_are_alike_in_a_block_is_exact() -> None:
    metric = BlockMetric(Fraction(1), np.array([0, 0, 1, 0, 1, 2]))
    channel = PerBlock(sf.KaryResponse()).bind(metric)
    w = np.random.default_rng(1).integers(0, 2, (2, 20, 6)).astype(float)
    summed = channel.coefficients(w) ** 2 @ channel.likelihood().T
    np.testing.assert_allclose(channel.second_moment(w), summed, rtol=1e-12, atol=1e-12)


def test_blocks_of_single_cells_take_any_channel() -> None:
    told = BlockMetric(Fraction(1), np.arange(4))
    choice = PerBlock(sf.KaryResponse()).settled(told)
    assert choice.bind(told).words() == (np.eye(4, dtype=int).tolist(), 1)


@pytest.mark.parametrize("size", [12, 30])
def test_what_may_all_be_told_is_audited_too(size: int) -> None:
    names = [f"c{cell}" for cell in range(size)]
    protect = sf.Blocks(1, [[name] for name in names])
    made = sf.MatrixResponse("identity")
    study = sf.Study("told", [sf.categories("x", names, protect=protect, channel=made)])
    assert sf.audit(study).holds


def test_a_channel_for_neighbours_is_none_for_all_pairs() -> None:
    size = 5_000
    line = LineMetric.equal(Fraction(1), size)
    every = UniformMetric(Fraction(1), size)
    assert sf.Geometric().bind(line).check(every).problems
    some = HighLowMetric(Fraction(1), np.arange(size) % 2 == 0)
    assert sf.Hadamard().bind(some).check(every).problems
    sevens, fives = (BlockMetric(Fraction(1), np.arange(size) % k) for k in (7, 5))
    assert sf.Hadamard().bind(sevens).check(fives).problems
    assert not sf.Hadamard().bind(sevens).check(sevens).problems


@pytest.mark.parametrize(
    "protect",
    [
        sf.Within("0.1", "1.9"),
        sf.Sum([sf.Distance("0.1"), sf.Within("0.1", "1.9")]),
        sf.Matrix([[0, 1, 1, 1], [1, 0, 1, 1], [1, 1, 0, 1], [1, 1, 1, 0]]),
    ],
    ids=str,
)
def test_tables_of_grid_points_say_nothing_of_values_between(protect: sf.Metric) -> None:
    """On grid points each of these is a line or one ε; between 0.1 and 2 the first states 0.1."""
    pay = sf.reals("pay", 0, 3, bins=3, rounding="stochastic", protect=protect)
    with pytest.raises(StudyError, match="needs protect=Distance"):
        sf.Study("rounded", [pay])
