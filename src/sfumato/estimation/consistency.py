"""Post-processing of answers: non-negativity, a known total, monotone CDFs.

Estimator:
    Counts are not negative, the cells of a partition add up to a total, and a CDF never decreases.
    Unbiased answers may violate all of this. Each step below restores one property and is recorded
    in `steps`, with a note on bias. `with_total` is linear and keeps answers unbiased. The others
    are projections onto a convex set that contains the truth: biased, but never farther from the
    truth, cell by cell for `nonnegative`, in the sum of squares for `simplex`, in the sum of
    squares over variances for `isotonic`. Standard errors are left as they were, and so are upper
    guides. Intervals are cut to the bounds and extended to contain the new value: they contain the
    truth at least as often as before.

Answers that already have the property keep their values exactly.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from sfumato.arrays import Floats
from sfumato.checks import is_number
from sfumato.errors import QuestionError, shown
from sfumato.estimation.answers import Answers

CELLS = ("histogram", "heatmap")
# An answer whose variance is below this share of the largest has no error but rounding.
_CERTAIN = 1e-12
_ROUNDING = 1e-9


def nonnegative(answers: Answers) -> Answers:
    """Set negative answers to zero.

    Example:
        >>> import sfumato as sf
        >>> study = sf.Study("ages", [sf.integers("age", 0, 9, protect=sf.Distance(0.5))])
        >>> found = study.simulate({"age": [3] * 200}, seed=1).estimate("unbiased").histogram("age")
        >>> nonnegative(found).values.min() >= 0, nonnegative(found).steps
        (np.True_, ('nonnegative',))
    """
    _refuse(answers, "nonnegative", (*CELLS, "cdf"), "its answers may be negative")
    note = "nonnegative: negative answers are set to 0, which biases small ones upwards"
    values = np.maximum(answers.values, 0.0)
    return _record(answers, "nonnegative", note, values, most=math.inf)


def simplex(answers: Answers, total: float | None = None) -> Answers:
    """Project onto the simplex: the nearest non-negative answers with a given sum.

    Nearest in the sum of squares.

    Args:
        answers: A histogram or heat map.
        total: The sum; left out, the number of people (or their total weight) if the answers have
            no condition, and 1 for shares.

    Example:
        >>> import sfumato as sf
        >>> study = sf.Study("ages", [sf.integers("age", 0, 9, protect=sf.Distance(0.5))])
        >>> found = study.simulate({"age": [3] * 200}, seed=1).estimate("unbiased").histogram("age")
        >>> float(round(simplex(found).values.sum(), 6))
        200.0
    """
    _refuse(answers, "simplex", CELLS, "its answers are not parts of a whole; ask for a histogram")
    whole = _known_total(answers) if total is None else _checked_total(total)
    note = (
        f"simplex: moved to the nearest non-negative answers with sum {whole:,.10g}, which biases "
        "small ones upwards and large ones downwards"
    )
    values = answers.values
    if not _adds_up(values, whole) or np.any(values < 0):
        values = _onto_simplex(values.ravel(), whole).reshape(values.shape)
    return _record(answers, "simplex", note, values, most=whole)


def with_total(answers: Answers, total: float) -> Answers:
    """Shift answers so that they have a given sum, each in proportion to its variance.

    This is least squares weighted by 1/variance. It is linear, so answers stay unbiased if the
    total is right (to first order: the variances are estimates, too). Standard errors are left as
    they were.

    Args:
        answers: A histogram or heat map.
        total: The sum of the cells, in the unit of the answers.

    Example:
        >>> import sfumato as sf
        >>> study = sf.Study("ages", [sf.integers("age", 0, 9, protect=sf.Distance(0.5))])
        >>> est = study.simulate({"age": [1, 4, 7] * 100}, seed=1).estimate("unbiased")
        >>> young = est.histogram("age", where={"age": (0, 4)})
        >>> float(round(with_total(young, 200).values.sum(), 6))
        200.0
    """
    _refuse(answers, "with_total", CELLS, "its answers are not parts of a whole")
    whole = _checked_total(total)
    note = f"with_total: shifted to the sum {whole:,.10g}, unbiased if that is the true sum"
    values = answers.values
    if not _adds_up(values, whole) and answers.n:
        variance = answers.stderr**2
        if not variance.sum() > 0:
            raise QuestionError(
                f"with_total: these answers are certain and do not sum to total={total}; "
                "check the total"
            )
        values = values + variance / variance.sum() * (whole - values.sum())
    moved = values - answers.values
    bounds = answers.bounds and (answers.bounds[0] + moved, answers.bounds[1] + moved)
    centres = None if answers.centres is None else answers.centres + moved
    steps, notes = (*answers.steps, "with_total"), (*answers.notes, note)
    limits = (0.0, whole)
    shifted = replace(answers, values=values, centres=centres, bounds=bounds, limits=limits)
    return replace(shifted, steps=steps, notes=notes)


def isotonic(answers: Answers) -> Answers:
    """Isotonic regression of a CDF, weighted by 1/variance, between 0 and the whole.

    By pooling adjacent violators. A last value without error, as for a CDF of everybody, stays.

    Example:
        >>> import sfumato as sf
        >>> study = sf.Study("ages", [sf.integers("age", 0, 9, protect=sf.Distance(0.5))])
        >>> cdf = study.simulate({"age": [3] * 200}, seed=1).estimate("unbiased").cdf("age")
        >>> bool((np.diff(isotonic(cdf).values) >= 0).all())
        True
    """
    _refuse(answers, "isotonic", ("cdf",), "only a cdf rises; ask for est.cdf(...)")
    most = 1.0 if answers.unit == "fraction" else _everybody(answers)
    note = (
        f"isotonic: pooled where it fell, within 0 and {most:,.10g}, which biases steep places "
        "flatter and the ends inwards"
    )
    values = answers.values
    if answers.n and (np.any(np.diff(values) < 0) or values[0] < 0 or values[-1] > most):
        values = _rising(values, answers.stderr**2, most)
    return _record(answers, "isotonic", note, values, most=most)


def _rising(values: Floats, variance: Floats, most: float) -> Floats:
    """Weighted isotonic regression, then clipping: together, the regression within the bounds."""
    least = _CERTAIN * float(np.max(variance))
    sure = len(values) > 1 and bool(variance[-1] <= least)
    free = slice(0, len(values) - sure)
    weights = 1.0 / np.maximum(variance[free] / (least or 1.0), 1.0)
    fitted: Floats = np.array(values)
    from scipy.optimize import isotonic_regression

    fitted[free] = isotonic_regression(values[free], weights=weights).x
    top = min(most, float(values[-1])) if sure else most
    bounded: Floats = np.clip(fitted, 0.0, max(top, 0.0))
    return bounded


def _onto_simplex(values: Floats, total: float) -> Floats:
    """Euclidean projection onto the simplex: max(v − level, 0), with the level found by sorting."""
    falling = np.sort(values)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(values) + 1)
    kept = np.flatnonzero(falling > excess)
    level = excess[kept[-1]] if len(kept) else excess[0]
    projected: Floats = np.maximum(values - level, 0.0)
    return projected


def _record(answers: Answers, step: str, note: str, values: Floats, *, most: float) -> Answers:
    """New values, with the old intervals cut to the bounds, and the step recorded."""
    # The truth is within the bounds, so cutting an interval to them never loses it.
    low = np.minimum(np.clip(answers.low, 0.0, most), values)
    high = np.maximum(np.clip(answers.high, 0.0, most), values)
    return replace(
        answers,
        values=values,
        bounds=(low, high),
        limits=None,
        steps=(*answers.steps, step),
        notes=(*answers.notes, f"{note}; standard errors are those before the step"),
    )


def _refuse(answers: Answers, step: str, kinds: tuple[str, ...], why: str) -> None:
    """Refuse answers of a kind for which a step makes no sense."""
    if answers.kind not in kinds:
        raise QuestionError(
            f"{step}() is for {' and '.join(kinds)} answers, and this is a {answers.kind}: {why}"
        )


def _everybody(answers: Answers) -> float:
    """Number of people, or their total weight."""
    return float(answers.n) if answers.errors is None else answers.errors.whole


def _known_total(answers: Answers) -> float:
    """The sum over all cells, where it is known without `total`."""
    if answers.unit == "fraction":
        return 1.0
    if answers.question:
        raise QuestionError(
            f"simplex() does not know how many people satisfy {answers.question!r}: give total=, "
            f"or ask for shares with fraction=True"
        )
    return _everybody(answers)


def _checked_total(total: float) -> float:
    """A total, checked: finite and not negative."""
    if not is_number(total) or total < 0:
        raise QuestionError(
            f"total must be a finite number of at least 0, got total={shown(total)}"
        )
    return float(total)


def _adds_up(values: Floats, total: float) -> bool:
    """Whether answers have a sum, up to rounding."""
    room = _ROUNDING * max(float(np.abs(values).sum()), total)
    return bool(abs(float(values.sum()) - total) <= room)
