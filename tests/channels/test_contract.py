"""The contract of channels: every law, for every trial that every registered channel declares.

No channel is named here. A channel that is registered is tested, and one that declares no trials
fails. For each law a twin with one fault, made of every registered channel, does not pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import helpers_contract as laws
import helpers_contract_study as studies
import numpy as np
import pytest
from helpers_contract import TRIALS, Subject, each
from helpers_contract_study import Case

import sfumato as sf
from sfumato.channels.base import SymbolChannel
from sfumato.channels.choice import REGISTRY, Choice, Trial
from sfumato.errors import SfumatoError, StudyError
from sfumato.metrics.cells import TableMetric
from sfumato.metrics.distance import LineMetric
from sfumato.metrics.uniform import UniformMetric

Law = Callable[[Subject], None]

LAWS: tuple[Law, ...] = (
    laws.is_a_law,
    laws.keeps_the_guarantee,
    laws.spends_what_it_claims,
    laws.checks_itself,
    laws.likelihood_is_the_law,
    laws.encodes_by_the_law,
    laws.encodes_any_integers,
    laws.is_unbiased,
    laws.reads_many_questions_as_each,
    laws.is_linear_where_it_says_so,
    laws.second_moments_are_the_sums,
    laws.sums_agree_with_coefficients,
    laws.all_cells_and_prefixes_are_read_as_each,
    laws.means_and_mixtures_are_the_law,
    laws.reports_are_as_likely_as_the_law,
)
STUDY_LAWS: tuple[Callable[[Case], None], ...] = (
    studies.axes_have_the_metric,
    studies.audit_holds,
    studies.answers_are_unbiased,
    studies.tallies_merge,
)
GRIDS = [name for name, trial in TRIALS.items() if trial.shape is not None]


@cache
def subject(name: str) -> Subject:
    """A trial bound once for all laws."""
    return Subject.of(TRIALS[name])


@cache
def case(name: str) -> Case:
    """The study of a trial: one block."""
    return Case.of(subject(name))


@cache
def mixed(name: str) -> Case:
    """The grid of a trial as one block, and another axis before it."""
    return Case.mixed(subject(name))


#: One grid of each channel that serves whole records: axes of different sizes, fewest outputs.
SKEW = {
    name.rpartition("-")[0]: name
    for name in sorted(GRIDS, key=lambda name: -len(subject(name).table[0][0]))
    if TRIALS[name].shape != (TRIALS[name].shape or ())[::-1]
}


def first(kind: str) -> str:
    """The first trial of a channel."""
    return f"{kind}-0"


def called(function: Callable[..., object]) -> str:
    return function.__name__


# Channels


@pytest.mark.parametrize("kind", REGISTRY)
def test_every_registered_channel_declares_trials(kind: str) -> None:
    trials = REGISTRY[kind].trials()
    assert trials
    assert all(type(trial.choice) is REGISTRY[kind] for trial in trials)


def test_a_channel_that_declares_no_trials_is_not_tried() -> None:
    with pytest.raises(NotImplementedError, match="declares no trials"):
        Choice.trials()


@pytest.mark.parametrize("name", each())
@pytest.mark.parametrize("law", LAWS, ids=called)
def test_channel_keeps(law: Law, name: str) -> None:
    law(subject(name))


SENDS_BITS = [name for name in TRIALS if subject(name).channel.layout.kind == "bits"]
SENDS_SYMBOLS = [name for name in TRIALS if isinstance(subject(name).channel, SymbolChannel)]
ONE_WORD = [name for name in TRIALS if laws.one_word_decides(subject(name))]


@pytest.mark.parametrize("name", [name for name in TRIALS if TRIALS[name].resolution])
def test_rounding_is_not_understated(name: str) -> None:
    laws.rounding_is_not_understated(subject(name))


@pytest.mark.parametrize("name", each(SENDS_BITS))
def test_spreads_are_the_covariance(name: str) -> None:
    laws.spreads_are_the_covariance(subject(name))


@pytest.mark.parametrize("name", each(SENDS_SYMBOLS))
def test_joined_runs_are_sums(name: str) -> None:
    laws.joined_runs_are_sums(subject(name))


@pytest.mark.parametrize("name", ONE_WORD)
def test_each_of_all_words_is_encoded_by_the_law(name: str) -> None:
    laws.encodes_each_word_by_the_law(subject(name))


@pytest.mark.parametrize("kind", REGISTRY)
def test_all_random_bits_of_a_report_together_give_the_law(kind: str) -> None:
    """With words of a few bits, whatever the sampler does with them."""
    laws.encodes_all_bits_by_the_law(laws.coarsest(kind))


QUICK = [kind for kind in REGISTRY if not REGISTRY[kind].slow]
METRICS = {repr(t.metric): t.metric for t in TRIALS.values() if t.metric.size <= 8}
METRICS |= {
    f"{kind.__name__} {size} {eps}": kind(Fraction(eps), size)
    for kind in (UniformMetric, LineMetric.equal)
    for size in (2, 3, 4, 6, 7, 9)
    for eps in ("1/100", "1/3", "3")
}


@pytest.mark.parametrize("kind", QUICK)
def test_every_metric_is_refused_or_kept(kind: str) -> None:
    """A channel is tried with all channels' metrics: it says that one does not fit, or keeps it."""
    choice = REGISTRY[kind].trials()[0].choice
    kept = 0
    for metric in METRICS.values():
        if choice.misfit(metric) is not None:
            with pytest.raises(SfumatoError, match=r"\w+ does not fit"):
                choice.bind(metric)
            continue
        kept += 1
        laws.keeps_the_guarantee(Subject.of(Trial(choice=choice, metric=metric)))
    assert kept


@pytest.mark.parametrize("kind", QUICK)
def test_any_epsilon_is_refused_or_kept(kind: str) -> None:
    """From a millionth to hundreds; where cells can hardly be told apart, that may be said."""
    refused = []
    trials = REGISTRY[kind].trials()
    for trial, factor in product(trials, ("1e-6", "1e-4", "10", "40", "700")):
        metric = laws.scaled(trial.metric, Fraction(factor))
        try:
            found = Subject.of(replace(trial, metric=metric))
        except StudyError as error:
            refused.append(str(error))
            continue
        laws.is_a_law(found)
        laws.keeps_the_guarantee(found)
    assert len(refused) <= len(trials)
    assert all("cannot be inverted" in told or "too coarse" in told for told in refused)


@pytest.mark.parametrize("kind", REGISTRY)
def test_coarse_tables_keep_the_guarantee_or_are_refused(kind: str) -> None:
    """Rounding is then no longer small: whatever is bound must still be within E."""
    bound = 0
    trials = [trial for trial in REGISTRY[kind].trials() if trial.shape is None]
    for trial, precision in product(trials, (2, 5, 8, 11)):
        try:
            found = Subject.of(trial, precision=precision)
        except StudyError:
            continue
        bound += 1
        laws.is_a_law(found)
        laws.keeps_the_guarantee(found)
    assert bound >= len(trials)


@pytest.mark.soak
@pytest.mark.parametrize("name", TRIALS)
def test_large_samples_follow_the_law(name: str, seed: int) -> None:
    laws.encodes_by_the_law(subject(name), 10_000_000, seed)


@pytest.mark.parametrize("kind", REGISTRY)
def test_rounding_is_refused_or_declared(kind: str) -> None:
    trials = REGISTRY[kind].trials()
    if not any(trial.resolution for trial in trials):
        with pytest.raises(SfumatoError, match="round"):
            trials[0].choice.bind(trials[0].metric, resolution=2)


# Studies


@pytest.mark.parametrize("name", each())
@pytest.mark.parametrize("law", STUDY_LAWS, ids=called)
def test_study_keeps(law: Callable[[Case], None], name: str) -> None:
    law(case(name))


@pytest.mark.parametrize("name", each())
def test_study_comes_back_from_files(name: str, tmp_path: Path) -> None:
    studies.comes_back_from_files(case(name), tmp_path)


@pytest.mark.parametrize("kind", REGISTRY)
def test_study_refuses_what_belongs_to_another(kind: str, tmp_path: Path) -> None:
    names = [name for name in TRIALS if name.rpartition("-")[0] == kind]
    studies.refuses_another_studys(case(names[0]), case(names[1]), tmp_path)


RECORD_LAWS: tuple[Callable[[Case], None], ...] = (
    studies.records_keep_the_guarantee,
    studies.records_are_encoded_by_the_law,
    studies.tables_agree_with_questions,
    studies.intervals_hold,
)


@pytest.mark.slow
@pytest.mark.parametrize("name", GRIDS)
@pytest.mark.parametrize("law", RECORD_LAWS, ids=called)
def test_whole_records_keep(law: Callable[[Case], None], name: str) -> None:
    law(case(name))


@pytest.mark.parametrize("name", SKEW.values())
@pytest.mark.parametrize("law", [*STUDY_LAWS, *RECORD_LAWS], ids=called)
def test_mixed_blocks_keep(law: Callable[[Case], None], name: str) -> None:
    law(mixed(name))


@pytest.mark.slow
@pytest.mark.parametrize("of", [case, mixed], ids=called)
@pytest.mark.parametrize("name", SKEW.values())
def test_likelihood_finds_whole_records(of: Callable[[str], Case], name: str) -> None:
    studies.likelihood_finds_the_record(of(name))


@pytest.mark.parametrize("name", SKEW.values())
def test_mixed_blocks_come_back_from_files(name: str, tmp_path: Path) -> None:
    studies.comes_back_from_files(mixed(name), tmp_path)


# Twins: each law with a channel that breaks it, and nothing else


def moved_word(right: Any) -> Any:
    """All words of one output are another's, for one cell."""
    rows, total = right()
    wrong = [list(row) for row in rows]
    wrong[0][0], wrong[0][-1] = 0, wrong[0][0] + wrong[0][-1]
    wrong[-1] = wrong[-1][::-1]
    return wrong, total


def one_word_more(right: Any) -> Any:
    rows, total = right()
    return [[rows[0][0] + 1, *rows[0][1:]], *rows[1:]], total


def nothing_told(right: Any) -> Any:
    """All cells have the row of the first."""
    rows, total = right()
    return [list(rows[0]) for _ in rows], total


def one_on(cells: Any) -> Any:
    """The next cell, and the first after the last that is there."""
    held = np.asarray(cells, dtype=np.int64)
    return (held + 1) % (int(held.max(initial=0)) + 1)


def next_cell(right: Any, cells: Any, bits: Any) -> Any:
    """One cell off."""
    return right(one_on(cells), bits)


def some_next_cell(right: Any, cells: Any, bits: Any) -> Any:
    """One cell off for one person in seven."""
    held = np.asarray(cells, dtype=np.int64)
    return right(np.where(np.arange(len(held)) % 7 == 0, one_on(held), held), bits)


def by_type(right: Any, cells: Any, bits: Any) -> Any:
    """Unsigned cells are all read as the first."""
    return right(cells if cells.dtype.kind == "i" else np.zeros_like(cells), bits)


def negated(right: Any, *given: Any) -> Any:
    return -right(*given)


def a_little_more(right: Any, *given: Any) -> Any:
    return right(*given) * (1 + 1e-6)


def first_is_off(right: Any, *given: Any, **named: Any) -> Any:
    found = np.array(right(*given, **named))
    found[..., 0] += 1e-6 * (1 + np.abs(found).max())
    return found


def turned(right: Any, *given: Any) -> Any:
    return right(*given)[..., ::-1]


def of_the_sum(right: Any, weights: Any) -> Any:
    """Right for one question, wrong for several at once."""
    return right(weights) if np.ndim(weights) == 1 else right(weights[..., ::-1, :])


def other_peaks(right: Any, **given: Any) -> Any:
    """The largest second moment is taken a little larger."""
    top, at = right(**given)
    return top * 1.01, at


def of_the_largest(right: Any, weights: Any) -> Any:
    """Only the largest weights of a question are read."""
    return right(weights * (np.abs(weights) >= np.abs(weights).max(axis=-1, keepdims=True)))


TWINS: tuple[tuple[Law, str, Callable[..., Any]], ...] = (
    (laws.is_a_law, "words", one_word_more),
    (laws.keeps_the_guarantee, "words", moved_word),
    (laws.spends_what_it_claims, "words", nothing_told),
    (laws.checks_itself, "words", moved_word),
    (laws.likelihood_is_the_law, "likelihood", first_is_off),
    (laws.encodes_by_the_law, "encode", next_cell),
    (laws.encodes_by_the_law, "encode", some_next_cell),
    (laws.encodes_any_integers, "encode", by_type),
    (laws.is_unbiased, "coefficients", negated),
    (laws.is_unbiased, "coefficients", a_little_more),
    (laws.is_unbiased, "coefficients", first_is_off),
    (laws.reads_many_questions_as_each, "coefficients", of_the_sum),
    (laws.is_linear_where_it_says_so, "coefficients", of_the_largest),
    (laws.second_moments_are_the_sums, "second_moment", a_little_more),
    (laws.second_moments_are_the_sums, "product_coefficients", a_little_more),
    (laws.sums_agree_with_coefficients, "gather", first_is_off),
    (laws.sums_agree_with_coefficients, "sums", first_is_off),
    (laws.sums_agree_with_coefficients, "products", first_is_off),
    (laws.all_cells_and_prefixes_are_read_as_each, "all_squares", first_is_off),
    (laws.all_cells_and_prefixes_are_read_as_each, "all_peaks", other_peaks),
    (laws.means_and_mixtures_are_the_law, "expect", first_is_off),
    (laws.means_and_mixtures_are_the_law, "mix", turned),
    (laws.reports_are_as_likely_as_the_law, "report_likelihood", turned),
)


@pytest.mark.parametrize("kind", REGISTRY)
@pytest.mark.parametrize(
    ("law", "method", "fault"), TWINS, ids=[f"{a.__name__}-{c.__name__}" for a, _, c in TWINS]
)
def test_twin_is_caught(law: Law, method: str, fault: Callable[..., Any], kind: str) -> None:
    sound = subject(first(kind))
    law(sound)
    with pytest.raises(AssertionError):
        law(sound.with_fault(method, fault))


@pytest.mark.parametrize("name", SENDS_BITS[:1])
def test_twin_with_other_spreads_is_caught(name: str) -> None:
    with pytest.raises(AssertionError):
        laws.spreads_are_the_covariance(subject(name).with_fault("flip_spread", a_little_more))


@pytest.mark.parametrize("kind", sorted({name.rpartition("-")[0] for name in ONE_WORD}))
def test_twin_that_is_off_by_one_of_all_words_is_caught(kind: str) -> None:
    """One word in 2^64 goes elsewhere: the first one that has the last output."""
    sound = subject(next(name for name in ONE_WORD if name.startswith(f"{kind}-")))
    rows = sound.table[0]

    def one_word(right: Any) -> Any:
        wrong = [list(row) for row in rows]
        wrong[-1][0], wrong[-1][-1] = wrong[-1][0] + 1, wrong[-1][-1] - 1
        return wrong, right()[1]

    with pytest.raises(AssertionError):
        laws.encodes_each_word_by_the_law(sound.with_fault("words", one_word))


@pytest.mark.slow
@pytest.mark.parametrize("kind", REGISTRY)
def test_twin_that_is_off_by_one_of_few_words_is_caught(kind: str) -> None:
    with pytest.raises(AssertionError):
        laws.encodes_all_bits_by_the_law(laws.coarsest(kind).with_fault("words", moved_word))


def test_twin_studies_are_caught(tmp_path: Path) -> None:
    """Each law of studies, with one thing that a study does done wrongly."""
    sound = case(GRIDS[0])
    with pytest.raises(AssertionError):
        studies.audit_holds(sound, lambda study: SimpleNamespace(holds=False))
    with pytest.raises(AssertionError):
        studies.tallies_merge(sound, lambda a, b: a)
    with pytest.raises(pytest.fail.Exception):
        studies.refuses_another_studys(sound, sound, tmp_path)
    with_options = next(name for name, trial in TRIALS.items() if trial.choice.options())
    with pytest.raises(AssertionError):
        studies.comes_back_from_files(
            case(with_options), tmp_path, lambda choice: {"kind": choice.id}
        )


@pytest.mark.slow
@pytest.mark.parametrize("of", [case, mixed], ids=called)
@pytest.mark.parametrize("name", SKEW.values())
def test_twin_with_swapped_axes_is_caught(of: Callable[[str], Case], name: str) -> None:
    """Codes of the axes in the other order, or weights: both are seen."""
    sound = of(name)
    shape = sound.study.shape

    def encode(study: sf.Study, table: Any, *, bits: Any) -> Any:
        records = np.arange(len(next(iter(table.values())))) % sound.cells
        swapped = np.arange(sound.cells).reshape(shape[::-1]).T.ravel()
        return study.encode(sound.people(swapped[records]), bits=bits)

    with pytest.raises(AssertionError):
        studies.records_are_encoded_by_the_law(sound, encode)
    with pytest.raises(AssertionError):
        studies.answers_are_unbiased(sound, transposed=True)
    with pytest.raises(AssertionError):
        studies.tables_agree_with_questions(sound, transposed=True)
    with pytest.raises(AssertionError):
        studies.likelihood_finds_the_record(sound, off=1)


def test_intervals_two_errors_off_are_caught() -> None:
    with pytest.raises(AssertionError):
        studies.intervals_hold(case(GRIDS[0]), shift=2.0)


def test_the_checker_sees_a_single_word_too_many() -> None:
    """The tests of privacy could not fail if this one did not pass."""
    metric = UniformMetric(Fraction(1), 2)
    wrong = sf.KaryResponse().bind(metric).words()[0][0][1]
    total = 1 << 64
    rows = [[total - wrong, wrong], [wrong, total - wrong]]
    assert laws.exceeding_pair(rows, metric.exact) is None
    rows = [[total - wrong + 1, wrong - 1], [wrong - 1, total - wrong + 1]]
    assert laws.exceeding_pair(rows, metric.exact) == (0, 1)
    assert laws.exceeding_pair([[total, 0], [1, total - 1]], metric.exact) == (0, 1)
    one_sided = TableMetric(np.array([[0, 1], [-1, 0]]), 1, 2)
    assert laws.exceeding_pair([[1, 1], [2, 0]], one_sided.exact) == (0, 1)
    assert laws.exceeding_pair([[2, 0], [1, 1]], one_sided.exact) is None
