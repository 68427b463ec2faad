"""A naive Bayes classifier from answers, with the error that noise adds to each prediction.

Estimator:
    The score of a class c is log π(c) + Σ_a log θ_a(v | c), with π(c) = N(c)/n the share of the
    class and θ_a(v | c) = n_a(v, c)/N(c) that of the record's value v on axis a within it. All are
    answers to questions about one or two axes. The log-odds of two classes are a difference of
    scores. To first order their error is that of a linear question: an error of n_a(v, c) counts
    1/n_a(v, c), and one of N(c) counts (1 − k)/N(c) if k axes are used. Covariances of all these
    counts are included, and none of it assumes that the model is right: the error is that of the
    reports' noise alone.

    A count below its own standard error, or below one person, is taken for the larger of these:
    less cannot be seen. The interval is then open on the side of that class.

References:
    Cormode2019 (concluding remarks) name classification as an application of such reports.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.checks import whole
from sfumato.domains.tables import columns
from sfumato.errors import QuestionError
from sfumato.estimation.answers import Answer, Answers
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.intervals import Estimated, around, normal_quantile
from sfumato.estimation.likelihood import LikelihoodEstimate
from sfumato.estimation.rows import Rows
from sfumato.estimation.source import with_weights
from sfumato.questions.language import Question

_MOST_CLASSES = 64
TOO_FEW = "a share cannot be told from zero: the interval is open on its side"


@dataclass(frozen=True, slots=True, eq=False)
class _Counts:
    """Numbers of people by value and class, and which of them are too few to be seen."""

    people: Floats
    few: NDArray[np.bool_]

    def at(self, group: int) -> _Counts:
        """Those of one value."""
        return _Counts(self.people[group], self.few[group])


@dataclass(frozen=True, slots=True)
class Prediction:
    """The class that a record most likely belongs to, and how certain that is.

    Args:
        label: The class with the largest probability.
        probabilities: The probability of every class under the model.
        log_odds: The logarithm of the odds of this class against the next one, with its error.
    """

    label: str
    probabilities: dict[str, float]
    log_odds: Answer

    @property
    def certain(self) -> bool:
        """Whether the interval of the log-odds is above zero: noise would not change the label."""
        return self.log_odds.low > 0

    def __str__(self) -> str:
        sure = "" if self.certain else ", within the noise"
        chance = self.probabilities[self.label]
        return f"{self.label} ({chance:.0%}; log-odds {self.log_odds}{sure})"


class NaiveBayes:
    """A naive Bayes classifier built from the answers of one estimate.

    It takes axes to be independent within a class. Records to predict are public: they are neither
    perturbed nor stored.

    Args:
        estimate: An estimate of a study with the label and the other axes.
        label: The axis whose cells are the classes; people without an answer on it are left out.
        axes: The axes to predict from; left out, all others.
        bins: On an ordered axis, join neighbouring cells into at most this many groups. With fewer
            groups shares are coarser and less noisy.

    Example:
        >>> import sfumato as sf
        >>> axes = [
        ...     sf.integers("age", 0, 99, protect=sf.Distance(1)),
        ...     sf.categories("bought", ["yes", "no"], protect=sf.Uniform(2)),
        ... ]
        >>> people = {
        ...     "age": [25, 30, 62, 64] * 1_000,
        ...     "bought": ["yes", "yes", "no", "yes"] * 1_000,
        ... }
        >>> est = sf.Study("shop", axes).simulate(people, seed=1).estimate()
        >>> model = sf.NaiveBayes(est, "bought", bins=5)
        >>> for prediction in model.predict({"age": [28, 63]}):
        ...     print(prediction)
        yes (99%; log-odds 4.7 ± 1.0)
        no (51%; log-odds 0.045 ± 0.042, within the noise)
    """

    def __init__(
        self,
        estimate: Estimate,
        label: str,
        axes: Sequence[str] | None = None,
        *,
        bins: int | None = None,
    ) -> None:
        if not isinstance(estimate, Estimate):
            raise QuestionError(
                f"estimate must come from tally.estimate(), got {type(estimate).__name__}"
            )
        self.estimate, self.label, self.bins = estimate, label, bins
        study = estimate.study
        self._place = estimate._place(label)
        names = [axis.name for axis in study.axes if axis.name != label] if axes is None else axes
        if isinstance(names, str) or not names or label in names or len(set(names)) < len(names):
            raise QuestionError(
                "axes must be a list of one or more different axes, the label not among them"
            )
        if bins is not None:
            whole(bins, "bins", least=1, error=QuestionError)
        domain = study.axes[self._place].domain
        if domain.size > _MOST_CLASSES:
            raise QuestionError(
                f"axis {label!r} has {domain.size:,} cells, and a label has at most "
                f"{_MOST_CLASSES}; use an axis of classes"
            )
        if not estimate.n:
            raise QuestionError("there are no reports to learn from; tally some first")
        self.classes = tuple(domain.labels())
        self.axes = tuple(names)
        self._groups = {name: self._rows(estimate._place(name)) for name in self.axes}
        asked = estimate._ask(None, None, {})
        held = Rows(np.eye(domain.size, study.axes[self._place].size), [], None)

        def counts(rows: dict[int, Rows]) -> _Counts:
            found = estimate.row_moments(asked, rows, population=False, conditional=False)
            least = np.maximum(np.sqrt(np.maximum(found.variance, 0.0)), 1.0)
            return _Counts(np.maximum(found.value, least), found.value < least)

        self._everyone = asked
        self._sizes = counts({self._place: held})
        self._counts = {
            name: counts({estimate._place(name): Rows(weights, [], None), self._place: held})
            for name, weights in self._groups.items()
        }
        told = [estimate.told_about({estimate._place(name), self._place}) for name in self.axes]
        self._method = ", ".join(dict.fromkeys(one.method for one in told))
        self._notes = tuple(dict.fromkeys(note for one in told for note in one.notes))

    def __repr__(self) -> str:
        return (
            f"<naive Bayes classifier of {self.label} by {', '.join(self.axes)}, "
            f"from {self.estimate.n:,} reports>"
        )

    def priors(self, *, level: float = 0.95) -> Answers:
        """The share of every class, with intervals.

        Args:
            level: Confidence level of the intervals.
        """
        answered = {self.label: set(self.classes)} if self._optional() else None
        return self.estimate.histogram(self.label, where=answered, fraction=True, level=level)

    def shares(self, axis: str, given: str, *, level: float = 0.95) -> Answers:
        """The shares of an axis' values within one class, with intervals.

        Args:
            axis: An axis that the classifier uses.
            given: The class.
            level: Confidence level of the intervals.
        """
        if axis not in self.axes:
            raise QuestionError(f"the classifier does not use axis {axis!r}, but {self.axes}")
        return self.estimate.histogram(
            axis, where={self.label: given}, bins=self._bins(axis), fraction=True, level=level
        )

    def predict(self, records: Any, *, level: float = 0.95) -> list[Prediction]:
        """The class of every record, with the error of its log-odds.

        Args:
            records: A table with a column for every axis used, as `Study.encode` takes it.
            level: Confidence level of the intervals.
        """
        normal_quantile(level)
        found = columns(records, self.axes)
        groups = [self._group_of(name, found[name]) for name in self.axes]
        seen: dict[tuple[int, ...], Prediction] = {}
        keys = [tuple(int(cell) for cell in key) for key in zip(*groups, strict=True)]
        for key in dict.fromkeys(keys):
            seen[key] = self._predict(key, level)
        return [seen[key] for key in keys]

    def _predict(self, key: tuple[int, ...], level: float) -> Prediction:
        """The prediction for one combination of groups."""
        sizes = self._sizes.people
        held = [self._counts[name].at(group) for name, group in zip(self.axes, key, strict=True)]
        cells = np.array([part.people for part in held])
        few = self._sizes.few | np.any([part.few for part in held], axis=0)
        scores = np.log(cells).sum(axis=0) + (1 - len(cells)) * np.log(sizes)
        chances = np.exp(scores - scores.max())
        chances /= chances.sum()
        best, second = np.argsort(-scores, kind="stable")[:2].tolist()
        gap = float(scores[best] - scores[second])
        error = self._error(key, best, second, cells, sizes)
        stderr = math.sqrt(max(error.variance, 0.0))
        low, high = around(gap, gap + error.value, normal_quantile(level) * stderr)
        answer = Answer(
            value=gap,
            stderr=stderr,
            n=self.estimate.n,
            level=level,
            method=self._method,
            notes=self._notes + ((TOO_FEW,) if few[best] or few[second] else ()),
            question=f"log-odds of {self.classes[best]} against {self.classes[second]}",
            bounds=(
                -math.inf if few[best] else float(low),
                math.inf if few[second] else float(high),
            ),
        )
        chance = dict(zip(self.classes, chances.tolist(), strict=True))
        return Prediction(self.classes[best], chance, answer)

    def _error(
        self, key: tuple[int, ...], best: int, second: int, cells: Floats, sizes: Floats
    ) -> Estimated[float]:
        """How far the log-odds are off by the unbiased counts, to first order, and the variance."""
        source = self.estimate
        if isinstance(source, LikelihoodEstimate):
            source = source.unbiased  # whose errors are known for all axes jointly
        terms, known = [], 0.0
        for c, sign in ((best, 1.0), (second, -1.0)):
            within = with_weights(self._everyone, self._place, self._class(c))
            terms.append((sign * (1 - len(cells)) / sizes[c], within))
            known += sign  # Σ factor·count at the counts used: (1 − k) + k
            for number, (name, group) in enumerate(zip(self.axes, key, strict=True)):
                place = self.estimate._place(name)
                question = with_weights(within, place, self._groups[name][group])
                terms.append((sign / cells[number, c], question))
        found = source.moments(_float_terms(terms))
        return found._replace(value=found.value - known)

    def _class(self, c: int) -> Floats:
        """The weights of one class on the label's axis."""
        row: Floats = np.eye(self.estimate.study.axes[self._place].size)[c]
        return row

    def _rows(self, place: int) -> Floats:
        """One row of weights per group of cells of an axis; "no answer" is a group of its own."""
        axis = self.estimate.study.axes[place]
        size = axis.domain.size
        bins = self._bins(axis.name) or size
        group = np.empty(axis.size, dtype=np.intp)
        parts = np.array_split(np.arange(size), min(bins, size))
        for number, part in enumerate(parts):
            group[part] = number
        group[size:] = len(parts)
        return np.asarray(group == np.arange(len(parts) + axis.optional)[:, None], dtype=float)

    def _bins(self, axis: str) -> int | None:
        """The number of groups on an axis; None for single cells."""
        held = self.estimate.study.axes[self.estimate._place(axis)]
        return self.bins if held.domain.ordered else None

    def _optional(self) -> bool:
        """Whether people may leave the label out."""
        return self.estimate.study.axes[self._place].optional

    def _group_of(self, name: str, column: Any) -> NDArray[np.intp]:
        """The group of every value of an axis; with stochastic rounding, of its next grid point."""
        axis = self.estimate.study.axes[self.estimate._place(name)]
        codes, bits = axis.codes(column), axis.domain.rounding_bits
        cells = (codes + (1 << bits >> 1)) >> bits
        found: NDArray[np.intp] = np.argmax(self._groups[name], axis=0)[cells]
        return found


def _float_terms(terms: Sequence[tuple[Any, Question]]) -> tuple[tuple[float, Question], ...]:
    """The same terms with plain numbers."""
    return tuple((float(factor), question) for factor, question in terms)
