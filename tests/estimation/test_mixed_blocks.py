"""Studies that mix blocks: some axes under one guarantee, others by themselves."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_statistics import LIMIT
from numpy.typing import NDArray

import sfumato as sf
from sfumato.collect.statistics import SymbolCounts
from sfumato.collect.tally import Tally
from sfumato.errors import FormatError, StudyError
from sfumato.exact import at_most_exp
from sfumato.study.files import schema_from_toml

SHAPE = (3, 4, 5, 2)  # all sizes differ, so that a swapped axis cannot pass
NAMES = ("a", "b", "c", "d")
Counts = NDArray[np.int64]


def mixed(channel: Any = None, **options: Any) -> sf.Study:
    """Two axes together between two by themselves."""
    pair = sf.together(
        [sf.integers("b", 0, 3), sf.integers("c", 0, 4)], protect=sf.Uniform(2), channel=channel
    )
    a = sf.integers("a", 0, 2, protect=sf.Distance(1))
    d = sf.categories("d", ["x", "y"], protect=sf.Uniform(1))
    return sf.Study("mixed", [a, pair, d], **options)


CHANNELS = [None, sf.KaryResponse(), sf.Comb(), sf.Hierarchical(2), sf.HRR(), sf.Hadamard()]
NAMED = pytest.mark.parametrize("channel", CHANNELS, ids=lambda c: "default" if c is None else c.id)


def crowd() -> Counts:
    """People with a different count in every cell."""
    return np.random.default_rng(5).integers(0, 40, SHAPE)


def law_of(study: sf.Study) -> NDArray[np.float64]:
    """P(report | record), from the exact laws of all blocks, both flat in C order."""
    law = np.ones((1, 1))
    for channel in study.channels:
        rows, total = channel.words()
        law = np.kron(law, np.array([[w / total for w in row] for row in rows]))
    return law


def expected(study: sf.Study, counts: Counts) -> Tally:
    """The expected tally, in fractions of people."""
    outputs = tuple(layout.count for layout in study.layouts)
    table = (counts.ravel() @ law_of(study)).reshape(outputs)
    places = np.nonzero(table)
    statistic = SymbolCounts.of(study.layouts, places, table[places], int(counts.sum()))
    return Tally(study, statistic)


class TestGuarantee:
    @pytest.mark.slow
    @NAMED
    def test_no_report_reveals_more_than_e(self, channel: Any) -> None:
        """All pairs of records, all reports, in integers: E is the sum over blocks."""
        study = mixed(channel)
        laws = [block.channel.words()[0] for block in study.blocks]
        records = list(itertools.product(*(range(block.size) for block in study.blocks)))
        worst: dict[tuple[Fraction, ...], Fraction] = {}
        for x, y in itertools.product(records, records):
            allowed, odds = Fraction(0), Fraction(1)
            for block, group, rows, i, j in zip(
                study.blocks, study.schema.groups, laws, x, y, strict=True
            ):
                exact = group.metric.exact(i, j)
                assert exact is not None
                allowed += exact
                key = (Fraction(id(block)), Fraction(i), Fraction(j))
                if key not in worst:
                    worst[key] = max(
                        Fraction(p, q) for p, q in zip(rows[i], rows[j], strict=True) if p
                    )
                odds *= worst[key]
            assert at_most_exp(odds, allowed)
            if x != y and all(i != j for i, j in zip(x, y, strict=True)):
                assert not at_most_exp(odds, allowed * Fraction(1, 2))

    def test_e_between_records_is_the_sum_over_groups(self) -> None:
        between = mixed().guarantee.between
        here = {"a": 0, "b": 1, "c": 1, "d": "x"}
        assert between(here, here) == 0
        assert between(here, {**here, "b": 3}) == 2
        assert between(here, {**here, "b": 3, "c": 4}) == 2
        assert between(here, {"a": 2, "b": 3, "c": 4, "d": "y"}) == 2 + 2 + 1
        assert between({"c": 1}, {"c": 2}) == 2

    def test_the_audit_checks_every_block(self) -> None:
        found = sf.audit(mixed())
        assert found.holds
        assert [row.axis for row in found.axes] == ["a", "b, c", "d"]
        assert all(row.method == "all pairs, exactly" for row in found.axes)
        assert found.axes[1].tightest is not None
        assert found.axes[1].tightest[0].startswith("b ")

    def test_it_is_explained_block_by_block(self) -> None:
        text = mixed().explain()
        assert "b (integers, 4 cells) and c (integers, 5 cells), together" in text
        assert "E = 2 for any two records" in text
        assert "Groups of axes are perturbed independently and their guarantees add" in text


class TestAnswers:
    @NAMED
    def test_they_are_the_truth_for_the_expected_tally(self, channel: Any) -> None:
        counts = crowd()
        est = expected(mixed(channel), counts).estimate("unbiased")
        n = counts.sum()
        got = float(est.count("a=1..2, b=0..1, c=3, d=y"))
        assert got == pytest.approx(counts[1:, :2, 3, 1].sum())
        assert float(est.count("b=2, d=x")) == pytest.approx(counts[:, 2, :, 0].sum())
        for axis, name in enumerate(NAMES):
            others = tuple(d for d in range(4) if d != axis)
            np.testing.assert_allclose(est.histogram(name).values, counts.sum(axis=others))
        for one, two in itertools.permutations(range(4), 2):
            others = tuple(d for d in range(4) if d not in (one, two))
            table = counts.sum(axis=others)
            table = table if one < two else table.T
            found = est.heatmap(NAMES[one], NAMES[two])
            np.testing.assert_allclose(found.values, table, err_msg=f"{one}, {two}")
        np.testing.assert_allclose(
            est.heatmap("c", "a", where="b=1..2").values, counts[:, 1:3].sum(axis=(1, 3)).T
        )
        share = est.histogram("c", where="b=3, d=x", fraction=True).values
        part = counts[:, 3, :, 0].sum(axis=0)
        np.testing.assert_allclose(share, part / part.sum())
        assert float(est.mean("c", where="b=0")) == pytest.approx(
            counts[:, 0].sum(axis=(0, 2)) @ np.arange(5) / counts[:, 0].sum()
        )
        W = np.random.default_rng(1).normal(size=(3, n and math.prod(SHAPE)))
        np.testing.assert_allclose(est.linear(W).values, W @ counts.ravel())

    @NAMED
    def test_variances_are_those_of_the_exact_law(self, channel: Any) -> None:
        """Var = Σ_x c(x)·(E[f² | x] − w(x)²), with f from the inverse of the whole law."""
        study = mixed(channel)
        counts = crowd()
        law = law_of(study)
        est = expected(study, counts).estimate("unbiased")
        for question, w in {
            "b=0..1, c=3": np.einsum("a,b,c,d", *_ones(b=[0, 1], c=[3])),
            "a=1..2, c=0..2, d=y": np.einsum("a,b,c,d", *_ones(a=[1, 2], c=[0, 1, 2], d=[1])),
        }.items():
            f = 1.0
            for block in study.blocks:
                weights = _block_weights(question, block.axes)
                f = np.multiply.outer(f, block.channel.coefficients(weights))
            flat = np.ravel(f)
            np.testing.assert_allclose(law @ flat, w.ravel(), atol=1e-9)
            variance = counts.ravel() @ (law @ flat**2 - w.ravel() ** 2)
            assert est.count(question).stderr == pytest.approx(math.sqrt(variance), rel=1e-9)

    def test_rows_and_single_questions_have_the_same_errors(self) -> None:
        est = mixed().simulate_counts(crowd(), seed=3).estimate("unbiased")
        cells = est.heatmap("c", "d", where="b=1..3, a=0")
        for c, d in itertools.product(range(5), ("x", "y")):
            one = est.count(f"c={c}, d={d}, b=1..3, a=0")
            place = c, ("x", "y").index(d)
            assert cells.values[place] == pytest.approx(one.value, rel=1e-9)
            assert cells.stderr[place] == pytest.approx(one.stderr, rel=1e-9)

    def test_tables_in_parts_are_tables_in_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        est = mixed().simulate_counts(crowd(), seed=3).estimate("unbiased")
        whole = est.heatmap("c", "b", where="a=1..2")
        monkeypatch.setattr("sfumato.estimation.unbiased.MOST_TABLE_ENTRIES", 60)
        parts = est.heatmap("c", "b", where="a=1..2")
        np.testing.assert_allclose(parts.values, whole.values, rtol=1e-12)
        np.testing.assert_allclose(parts.stderr, whole.stderr, rtol=1e-12)

    def test_likelihood_decodes_whole_blocks(self) -> None:
        """With many people both methods agree within their errors, and counts add up."""
        counts = crowd() * 2_000
        tally = mixed().simulate_counts(counts, seed=11)
        est = tally.estimate("likelihood")
        assert est.method == "likelihood"
        found = est.heatmap("b", "d")
        truth = counts.sum(axis=(0, 2))
        assert found.values.sum() == pytest.approx(counts.sum(), rel=1e-9)
        assert np.all(np.abs(found.values - truth) < 5 * found.stderr)
        alone = est.histogram("c", where="b=2")
        assert np.all(np.abs(alone.values - counts[:, 2].sum(axis=(0, 2))) < 5 * alone.stderr)

    def test_public_weights_multiply_people(self) -> None:
        study = mixed()
        people = {"a": [0, 2] * 50, "b": [1, 3] * 50, "c": [4, 0] * 50, "d": ["x", "y"] * 50}
        reports = study.encode(people, bits=sf.SeededBits(1))
        twice = study.tally(reports, weights=[2.0] * 100).estimate().count("b=1, c=4")
        once = study.tally(reports).estimate("unbiased").count("b=1, c=4")
        assert twice.value == pytest.approx(2 * once.value)
        assert twice.stderr == pytest.approx(2 * once.stderr)


METHODS = ["unbiased", pytest.param("likelihood", marks=pytest.mark.soak)]


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_intervals_contain_the_truth(method: str) -> None:
    """Coverage of 95 % intervals over 400 tallies, question by question.

    The share has a standard error of √(0.95·0.05/400) = 1.1 %; LIMIT of them below is allowed.
    Unbiased intervals of half the width, the twin, must fall short of that. Likelihood answers are
    closer to the truth than their intervals say.
    """
    counts = np.zeros(SHAPE, dtype=np.int64)
    counts[0], counts[1, 1:3], counts[2, :, 2:] = 30, 80, 15
    truths = {
        "b=0..1, c=3": counts[:, :2, 3].sum(),
        "a=1, b=1..2, d=x": counts[1, 1:3, :, 0].sum(),
    }
    runs, study = 400, mixed()
    held, halved = dict.fromkeys(truths, 0), dict.fromkeys(truths, 0)
    for seed in range(runs):
        est = study.simulate_counts(counts, seed=seed).estimate(method)
        for question, truth in truths.items():
            answer = est.count(question)
            held[question] += answer.low <= truth <= answer.high
            halved[question] += abs(answer.value - truth) <= (answer.high - answer.low) / 4
    least = 0.95 - LIMIT * math.sqrt(0.95 * 0.05 / runs)
    for question in truths:
        assert held[question] / runs > least, question
        assert method == "likelihood" or halved[question] / runs < least, question


class TestFiles:
    @NAMED
    def test_a_study_survives_its_file(self, tmp_path: Path, channel: Any) -> None:
        study = mixed(channel)
        study.save(tmp_path / "mixed.toml")
        again = sf.Study.load(tmp_path / "mixed.toml")
        assert again == study
        assert again.to_toml() == study.to_toml()
        assert [block.axes for block in again.blocks] == [(0,), (1, 2), (3,)]

    def test_the_grouping_is_part_of_the_fingerprint(self) -> None:
        apart = [sf.integers("b", 0, 3, protect=sf.Uniform(2))]
        apart += [sf.integers("c", 0, 4, protect=sf.Uniform(2))]
        a = sf.integers("a", 0, 2, protect=sf.Distance(1))
        d = sf.categories("d", ["x", "y"], protect=sf.Uniform(1))
        assert sf.Study("mixed", [a, *apart, d]) != mixed()

    def test_all_axes_together_are_whole_records(self) -> None:
        axes = [sf.integers("a", 0, 2), sf.integers("b", 0, 3)]
        grouped = sf.Study("s", [sf.together(axes, protect=sf.Uniform(1))])
        assert grouped == sf.Study("s", axes, protect=sf.Uniform(1))

    def test_reports_and_tallies_survive_their_files(self, tmp_path: Path) -> None:
        study = mixed()
        reports = study.encode({"a": [0, 1], "b": [3, 0], "c": [4, 4], "d": ["x", "y"]})
        assert reports.to_arrow().column_names == ["a", "b+c", "d"]
        reports.save(tmp_path / "reports.parquet")
        tally = study.tally(sf.Reports.load(tmp_path / "reports.parquet"))
        tally.save(tmp_path / "tally.parquet")
        assert sf.Tally.load(tmp_path / "tally.parquet", study) == tally == study.tally(reports)

    def test_a_schema_is_read_without_channels(self) -> None:
        study = mixed()
        schema, fingerprint = schema_from_toml(study.to_toml())
        assert fingerprint == study.fingerprint
        assert [group.axes for group in schema.groups] == [(0,), (1, 2), (3,)]
        assert schema.shape == study.shape
        changed = study.to_toml().replace("epsilon = 2", "epsilon = 3")
        with pytest.raises(FormatError, match="fingerprint does not match"):
            schema_from_toml(changed)

    def test_a_channel_of_whole_records_needs_their_guarantee(self) -> None:
        stray = mixed().to_toml() + '\n[mechanism]\nkind = "comb"\n'
        with pytest.raises(FormatError, match="'mechanism' perturbs whole records"):
            sf.Study.from_toml(stray)

    @pytest.mark.parametrize(
        ("old", "new", "says"),
        [
            ('    "b",\n    "c",\n', '    "c",\n    "b",\n', "neighbouring axes in their order"),
            ('    "b",\n    "c",\n', '    "b",\n    "d",\n', "neighbouring axes in their order"),
            ('    "b",\n    "c",\n', '    "b",\n', "two or more neighbouring"),
            ('[together.protect]\nkind = "uniform"', '[together.protect]\nkind = "lp"', "damaged"),
        ],
    )
    def test_damaged_files_are_refused(self, old: str, new: str, says: str) -> None:
        text = mixed().to_toml()
        assert old in text
        with pytest.raises(FormatError, match=says):
            sf.Study.from_toml(text.replace(old, new))


class TestRefusals:
    def test_axes_together_state_nothing_of_their_own(self) -> None:
        own = sf.integers("b", 0, 3, protect=sf.Uniform(1))
        with pytest.raises(StudyError, match="axis 'b' must not name protect="):
            sf.together([sf.integers("a", 0, 2), own], protect=sf.Uniform(1))
        named = sf.integers("b", 0, 3, channel=sf.HRR())
        with pytest.raises(StudyError, match="axis 'b' must not name channel="):
            sf.together([sf.integers("a", 0, 2), named], protect=sf.Uniform(1))
        fine = sf.reals("r", 0, 1, bins=4, rounding="stochastic")
        with pytest.raises(StudyError, match="rounding='stochastic' needs a guarantee of its own"):
            sf.together([sf.integers("a", 0, 2), fine], protect=sf.Uniform(1))

    def test_a_guarantee_is_needed_and_must_be_uniform(self) -> None:
        axes = [sf.integers("a", 0, 2), sf.integers("b", 0, 3)]
        alone = sf.integers("c", 0, 2, protect=sf.Uniform(1))
        with pytest.raises(StudyError, match="axes 'a', 'b' say nothing about protection"):
            sf.Study("s", [sf.together(axes), alone])
        with pytest.raises(
            StudyError, match=r"together need protect=Uniform\(...\) .*, got Distance"
        ):
            sf.Study("s", [sf.together(axes, protect=sf.Distance(1)), alone])

    def test_a_channel_that_does_not_fit_is_refused_when_the_study_is_made(self) -> None:
        with pytest.raises(StudyError, match=r"axes 'b', 'c': .*Geometric"):
            mixed(sf.Geometric())
        with pytest.raises(StudyError, match="axis 'a': HRR does not fit"):
            sf.Study("s", [sf.integers("a", 0, 9, protect=sf.Distance(1), channel=sf.HRR())])

    def test_one_axis_states_its_guarantee_and_channel_once(self) -> None:
        axis = sf.integers("a", 0, 9, protect=sf.Distance(1), channel=sf.Geometric())
        with pytest.raises(StudyError, match="'a' and together both name protect="):
            sf.together([axis], protect=sf.Uniform(1))
        with pytest.raises(StudyError, match="'a' and together both name channel="):
            sf.together([axis], channel=sf.Thermometer())

    def test_a_study_is_made_of_axes_and_groups(self) -> None:
        with pytest.raises(StudyError, match=r"axes such as integers\(...\).*got int"):
            sf.Study("s", [1])  # type: ignore[list-item]
        with pytest.raises(StudyError, match="got NoneType"):
            sf.together(None)  # type: ignore[arg-type]

    def test_blocks_cannot_be_exchanged(self) -> None:
        with pytest.raises(AttributeError):
            mixed().blocks = ()  # type: ignore[misc]

    def test_groups_are_made_of_axes(self) -> None:
        with pytest.raises(StudyError, match="one or more axes"):
            sf.together([])
        with pytest.raises(StudyError, match="one or more axes"):
            sf.together(["a"])  # type: ignore[list-item]

    def test_a_group_of_one_is_the_axis(self) -> None:
        one = sf.together([sf.integers("a", 0, 9)], protect=sf.Uniform(1))
        assert sf.Study("s", [one]) == sf.Study(
            "s", [sf.integers("a", 0, 9, protect=sf.Uniform(1))]
        )


def _ones(**chosen: list[int]) -> list[NDArray[np.float64]]:
    """Indicators of cells by axis; all cells where nothing is chosen."""
    found = []
    for name, size in zip(NAMES, SHAPE, strict=True):
        w = np.zeros(size)
        w[chosen.get(name, list(range(size)))] = 1.0
        found.append(w)
    return found


def _block_weights(question: str, axes: tuple[int, ...]) -> NDArray[np.float64]:
    """A question's indicator on the grid of some axes, flat, found without the library."""
    cells = {"b=0..1": [0, 1], "c=3": [3], "a=1..2": [1, 2], "c=0..2": [0, 1, 2], "d=y": [1]}
    chosen = {part[0]: cells[part] for part in question.split(", ")}
    parts = _ones(**chosen)
    flat = np.ones(1)
    for axis in axes:
        flat = np.multiply.outer(flat, parts[axis]).ravel()
    return flat
