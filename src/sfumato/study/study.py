"""A study: its axes, how each is protected, and the one object from which both ends derive all."""

from __future__ import annotations

import math
import textwrap
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias, overload

import numpy as np
import pyarrow as pa
import tomli_w
from numpy.typing import ArrayLike

from sfumato.channels.base import Channel, Choice
from sfumato.channels.registry import choice_from_dict, choice_to_dict
from sfumato.collect.simulation import as_counts, draw_tally
from sfumato.collect.tally import Tally
from sfumato.collect.weighted import WeightedTally, weighted_tally
from sfumato.domains.tables import columns
from sfumato.errors import DataError, FormatError, MismatchError, SfumatoError, StudyError
from sfumato.files import write_whole
from sfumato.metrics.base import Metric
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.registry import metric_from_dict
from sfumato.metrics.uniform import Uniform, UniformMetric
from sfumato.planning.compare import METHODS, Comparison, compare
from sfumato.planning.expected_error import RUNS, expected_error
from sfumato.planning.plan import Plan
from sfumato.randomness.bits import BitSource, SecureBits, SeededBits
from sfumato.study.axis import Axis, Outside
from sfumato.study.choose import checked_expected, choose_channel
from sfumato.study.choose_uniform import choose_uniform
from sfumato.study.explain import explain_axes, explain_records
from sfumato.study.files import KNOWN_ENTRIES, axes_from_list, digest, refuse_claim, table_of
from sfumato.study.guarantee import Guarantee
from sfumato.study.joint import COLUMN, Joint
from sfumato.study.product import Product
from sfumato.study.reports import Reports
from sfumato.study.rules import check_mechanism, checked_name, refuse_twins, shared_protection

FORMAT = 1
PEOPLE_AT_ONCE = 1 << 20

SomeReports: TypeAlias = Reports | pa.Table | Iterable[Reports | pa.Table]


class Study:
    """What is asked, and how strongly every answer is protected.

    Args:
        name: What the study is called.
        axes: The questions put to a person.
        protect: One guarantee for all axes together, where they state none: `Uniform` for whole
            records, which go through one mechanism, or `Lp`.
        channel: The channel of every axis that names none; left out, the planner chooses.
        mechanism: How whole records are perturbed under `Uniform`; left out, the planner chooses.
        outside: What happens to values out of bounds on axes that do not say: "refuse" or "clip".
        people: About how many people will answer, if that is known. It helps to choose channels
            and changes nothing else: neither what is promised, nor the fingerprint of a study
            with the same channels.

    Example:
        >>> import sfumato as sf
        >>> study = sf.Study(
        ...     "commute",
        ...     axes=[
        ...         sf.integers("age", 0, 99, protect=sf.Distance(epsilon=0.2)),
        ...         sf.categories("mode", ["car", "bus", "bike"], protect=sf.Uniform(epsilon=1.0)),
        ...     ],
        ... )
        >>> people = {"age": [31, 42, 77], "mode": ["car", "bike", "bus"]}
        >>> reports = study.encode(people)
        >>> study.tally(reports).n
        3
    """

    def __init__(
        self,
        name: str,
        axes: Sequence[Axis],
        *,
        protect: Metric | None = None,
        channel: Choice | None = None,
        mechanism: Choice | None = None,
        outside: Outside = "refuse",
        people: int | None = None,
    ) -> None:
        self.name = checked_name(name)
        self.people = checked_expected(people)
        if not axes:
            raise StudyError("a study needs at least one axis, got none: add integers(...) or so")
        if outside not in ("refuse", "clip"):
            raise StudyError(f"outside must be 'refuse' or 'clip', got outside={outside!r}")
        shared = shared_protection(protect, axes)
        check_mechanism(mechanism, channel, protect, axes)
        given = [axis.with_defaults(channel=None, outside=outside, protect=shared) for axis in axes]
        refuse_twins(given)
        self.metrics: tuple[CellMetric, ...] = tuple(axis.metric() for axis in given)
        self.choice: Choice | None = None
        self.axes: tuple[Axis, ...] = tuple(given)
        if isinstance(protect, Uniform) and len(axes) > 1:
            self._settle_mechanism(protect, mechanism)
        else:
            self._settle_channels(channel or mechanism)

    def _settle_channels(self, channel: Choice | None) -> None:
        """Give every axis its channel: its own, the study's, or the planner's."""
        plans = [
            choose_channel(metric, people=self.people, ordered=axis.domain.ordered)
            for axis, metric in zip(self.axes, self.metrics, strict=True)
        ]
        self.axes = tuple(
            axis.with_defaults(channel=channel or planned, outside="refuse", protect=None)
            for axis, (planned, _) in zip(self.axes, plans, strict=True)
        )
        self.reasons: tuple[str, ...] = tuple(
            reason if axis.channel == planned else ""
            for axis, (planned, reason) in zip(self.axes, plans, strict=True)
        )
        self.axes = tuple(
            a.settled(metric) for a, metric in zip(self.axes, self.metrics, strict=True)
        )

    def _settle_mechanism(self, protect: Uniform, mechanism: Choice | None) -> None:
        """Choose how whole records are perturbed."""
        ordered = tuple(axis.domain.ordered for axis in self.axes)
        metric = UniformMetric(protect.epsilon, math.prod(self.shape))
        planned, reason = choose_uniform(metric, self.shape, ordered)
        self.choice = mechanism or planned
        self.reasons = (reason if self.choice == planned else "",)
        self.choice = self.choice.settled(metric)

    @property
    def is_joint(self) -> bool:
        """Whether whole records go through one mechanism, under one ε."""
        return self.choice is not None

    @property
    def guaranteed_epsilon(self) -> Fraction:
        """The one ε between any two records, exactly."""
        protect = self.axes[0].protect
        if not self.is_joint or not isinstance(protect, Uniform):
            raise StudyError(
                f"study {self.name!r} has no one ε for whole records; see study.guarantee"
            )
        return protect.epsilon

    @property
    def columns(self) -> tuple[str, ...]:
        """What the columns of reports are called: the axes, or one for whole records."""
        return (COLUMN,) if self.is_joint else tuple(axis.name for axis in self.axes)

    @cached_property
    def channels(self) -> tuple[Channel, ...]:
        """The channel proper of every axis; whole records have none of their own."""
        if self.is_joint:
            raise StudyError(
                f"study {self.name!r} perturbs whole records by one mechanism, so its axes have no "
                "channels of their own; see study.mechanism"
            )
        return tuple(a.bind(metric) for a, metric in zip(self.axes, self.metrics, strict=True))

    @cached_property
    def mechanism(self) -> Product:
        """How whole records are perturbed."""
        if self.choice is None:
            return Product(self.channels)
        metric = UniformMetric(self.guaranteed_epsilon, math.prod(self.shape))
        ordered = tuple(axis.domain.ordered for axis in self.axes)
        return Joint((self.choice.bind_grid(metric, self.shape, ordered),), self.shape)

    @property
    def guarantee(self) -> Guarantee:
        """E between any two records."""
        return Guarantee(self.axes, self.metrics, self.is_joint)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of cells of every axis."""
        return tuple(axis.size for axis in self.axes)

    def __repr__(self) -> str:
        names = ", ".join(axis.name for axis in self.axes)
        return f"<study {self.name!r} of {names}: {self.fingerprint[:12]}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Study) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    # From values to answers

    def encode(self, table: Any, *, bits: BitSource | None = None) -> Reports:
        """Perturb people's values: what a device does before anything leaves it.

        Args:
            table: A dict of lists, NumPy arrays or scalars (one person), a DataFrame, an Arrow
                table; extra columns are ignored.
            bits: Where randomness comes from; left out, the operating system's secure source.

        Raises:
            DataError: If a value does not fit; rows are named, values never.
        """
        source = SecureBits() if bits is None else bits
        held = self._codes(table)
        count = len(held[0])
        parts = [
            self.mechanism.encode([c[start : start + PEOPLE_AT_ONCE] for c in held], source)
            for start in range(0, count, PEOPLE_AT_ONCE)
        ]
        names = self.columns
        layouts = self.mechanism.layouts
        made = [Reports(self.fingerprint, names, layouts, part) for part in parts]
        if not made:
            outputs = self.mechanism.encode(held, source)
            return Reports(self.fingerprint, names, layouts, outputs)
        return made[0] if len(made) == 1 else Reports.join(made)

    @overload
    def tally(self, reports: SomeReports, *, weights: None = None) -> Tally: ...

    @overload
    def tally(self, reports: SomeReports, *, weights: ArrayLike) -> WeightedTally: ...

    def tally(
        self, reports: SomeReports, *, weights: ArrayLike | None = None
    ) -> Tally | WeightedTally:
        """Reduce reports to what answers need; another study's reports are refused.

        Args:
            reports: Reports, their Arrow table, or several of these.
            weights: What each report counts for, in the order of the reports, where the collector
                knows it; a weight that must be hidden is an axis of the study instead.

        Raises:
            DataError: If weights are not finite, negative, or not one a report; rows are named.
        """
        parts = self._checked(reports)
        if weights is not None:
            if self.is_joint:
                raise StudyError(
                    f"study {self.name!r} perturbs whole records by one mechanism; weights=... "
                    "needs a channel an axis: give each axis its own protect=..."
                )
            return weighted_tally(self, parts, weights)
        found = [self.mechanism.tally(part.outputs) for part in parts]
        return Tally(self, self.mechanism.merge(found))

    def _checked(self, reports: SomeReports) -> Iterator[Reports]:
        """Reports of this study, one after the other."""
        several = [reports] if isinstance(reports, (Reports, pa.Table)) else reports
        for part in several:
            held = Reports.from_arrow(part) if isinstance(part, pa.Table) else part
            if not isinstance(held, Reports):
                raise DataError(
                    f"tally() takes Reports or their Arrow tables, got {type(held).__name__}"
                )
            self.refuse_other(held.fingerprint, "these reports")
            if held.layouts != self.mechanism.layouts:
                raise FormatError("these reports have damaged metadata; encode them anew")
            yield held

    def empty_tally(self) -> Tally:
        """The tally of nobody, to which others can be added."""
        return Tally(self, self.mechanism.empty())

    def simulate(self, table: Any, *, seed: int) -> Tally:
        """Encode and tally in one step with repeatable randomness, for experiments."""
        return self.tally(self.encode(table, bits=SeededBits(seed)))

    def simulate_counts(self, counts: ArrayLike, *, seed: int) -> Tally:
        """The same from a true histogram over all cells: a statistically exact draw of the tally.

        Args:
            counts: People in each cell, shaped like the axes or flat in C order.
            seed: Any integer.
        """
        return Tally(self, draw_tally(self.mechanism, as_counts(counts, self.shape), seed))

    # Before anybody is asked

    def expected_error(
        self,
        n: int,
        questions: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]] | None = None,
        *,
        prior: str | ArrayLike | Mapping[str, ArrayLike] = "flat",
        method: Literal["unbiased", "likelihood"] = "unbiased",
        level: float = 0.95,
        runs: int = RUNS,
        seed: int = 0,
        progress: Callable[[float], None] | None = None,
    ) -> Plan:
        """The error to expect of typical questions, and of your own, before anybody is asked.

        Args:
            n: Number of people.
            questions: Your own, as text or by axis.
            prior: "flat", "worst" (the population that makes each error largest), a histogram
                over all cells, or histograms by axis name.
            method: "unbiased" errors are exact. "likelihood" ones are root mean squares over
                seeded tallies, beside the error that the answers would report.
            level: Share of intervals that hold the truth.
            runs: Tallies to simulate for likelihood answers; with 0, the reported error stands.
            seed: For the simulation.
            progress: Called with the share done.

        Example:
            >>> import sfumato as sf
            >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
            >>> print(study.expected_error(100_000, "age=18..30"))
            Study 'ages': 100,000 people, unbiased answers, people spread evenly; errors are exact.
            <BLANKLINE>
            question                   standard error  share  95% interval  channel
            -------------------------  --------------  -----  ------------  ---------
            age: a random range            ...
        """
        return expected_error(
            self,
            n,
            questions,
            prior=prior,
            method=method,
            level=level,
            runs=runs,
            seed=seed,
            progress=progress,
        )

    def compare(
        self,
        n: int,
        *,
        prior: str | ArrayLike | Mapping[str, ArrayLike] = "flat",
        methods: Sequence[str] = METHODS,
        runs: int = RUNS,
        seed: int = 0,
        progress: Callable[[float], None] | None = None,
    ) -> Comparison:
        """Every channel that fits each axis, under every decoder, with the error to expect.

        Args:
            n: Number of people.
            prior: Where they are expected to be, as in `expected_error`.
            methods: Decoders to compare.
            runs: Tallies to simulate for likelihood answers.
            seed: For the simulation.
            progress: Called with the share done.
        """
        return compare(
            self, n, prior=prior, methods=methods, runs=runs, seed=seed, progress=progress
        )

    def refuse_other(self, fingerprint: str, what: str) -> None:
        """Refuse what belongs to another study."""
        if fingerprint != self.fingerprint:
            raise MismatchError(
                f"{what} belongs to study {fingerprint[:12]}, not to {self.name!r} "
                f"({self.fingerprint[:12]}); use the study file it was made with"
            )

    def _codes(self, table: Any) -> list[np.ndarray[Any, np.dtype[np.int64]]]:
        """Every axis' codes for a table of people."""
        found = columns(table, [axis.name for axis in self.axes])
        return [axis.codes(found[axis.name]) for axis in self.axes]

    # In words and in files

    def explain(self) -> str:
        """The guarantee in plain words, with odds.

        Example:
            >>> import sfumato as sf
            >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.2))])
            >>> "differs by 5: a report is at most 2.7 times likelier" in study.explain()
            True
        """
        expected = [] if self.people is None else [f"Made for about {self.people:,} people."]
        out = [f"Study {self.name!r}, fingerprint {self.fingerprint[:12]}", *expected, ""]
        out += explain_records(self) if self.is_joint else explain_axes(self)
        out += textwrap.wrap(
            "The guarantee holds for each report by itself. Someone who answers again gives away "
            "that much again: E adds up over reports.",
            96,
        )
        return "\n".join(out)

    def _privacy_and_meaning(self) -> dict[str, Any]:
        """Everything that affects privacy or what an answer means."""
        axes: list[dict[str, Any]] = []
        for axis in self.axes:
            held = {
                "name": axis.name,
                "optional": axis.optional,
                "outside": axis.outside,
                "unit": axis.unit,
                "domain": axis.domain.to_dict(),
            }
            if not self.is_joint:
                held["protect"] = axis.statement.to_dict()
                held["channel"] = choice_to_dict(axis.choice)
            axes.append(held)
        data: dict[str, Any] = {"format": FORMAT, "name": self.name}
        if self.choice is not None:
            data["protect"] = self.axes[0].statement.to_dict()
            data["mechanism"] = choice_to_dict(self.choice)
        return {**data, "axes": axes}

    @cached_property
    def fingerprint(self) -> str:
        """A digest of everything that affects privacy or meaning; it never changes."""
        return digest(self._privacy_and_meaning())

    def to_toml(self) -> str:
        """The study as the text of its file."""
        data = self._privacy_and_meaning()
        head = {"format": data.pop("format"), "name": data.pop("name")}
        if self.people is not None:
            head["people"] = self.people
        return tomli_w.dumps({**head, "fingerprint": self.fingerprint, **data})

    def save(self, path: str | Path) -> None:
        """Write the study as TOML."""
        write_whole(path, lambda file: file.write_text(self.to_toml(), encoding="utf-8"))

    @classmethod
    def load(cls, path: str | Path) -> Study:
        """Read a study; a damaged, edited or newer file is refused."""
        what = repr(str(path))
        try:
            text = Path(path).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise FormatError(f"there is no study file {what}; check the path") from None
        except (OSError, UnicodeDecodeError):
            raise FormatError(f"{what} is not a readable study file") from None
        return cls.from_toml(text, what=what)

    @classmethod
    def from_toml(cls, text: str, *, what: str = "the study") -> Study:
        """Read a study from the text of its file."""
        try:
            data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise FormatError(f"{what} is not valid TOML: {error}") from None
        version = data.get("format")
        if not isinstance(version, int) or version < 1:
            raise FormatError(f"{what} does not say its format; a study file has format = {FORMAT}")
        if version > FORMAT:
            raise FormatError(
                f"{what} has format {version}, newer than this package's {FORMAT}; update sfumato"
            )
        unknown = sorted(set(data) - KNOWN_ENTRIES)
        if unknown:
            raise FormatError(f"{what} has unknown entries: {', '.join(map(repr, unknown))}")
        try:
            study = cls(
                data.get("name", ""),
                axes_from_list(data.get("axes", [])),
                people=data.get("people"),
                protect=metric_from_dict(table_of(data, "protect")) if "protect" in data else None,
                mechanism=(
                    choice_from_dict(table_of(data, "mechanism")) if "mechanism" in data else None
                ),
            )
        except SfumatoError as error:
            raise FormatError(f"{what} is damaged: {error}") from None
        claimed = data.get("fingerprint")
        if claimed is not None and claimed != study.fingerprint:
            refuse_claim(claimed, study._privacy_and_meaning(), what)
        return study
