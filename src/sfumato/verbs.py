"""Methods that call a higher layer: the one place where a lower layer names a higher one.

`study.tally(...)`, `tally.estimate()` and `answers.plot()` are methods of objects in a lower layer
that are implemented by functions in a higher one. Each mixin below holds such methods of one class
and imports the function when the method is called. No other module may import upwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, overload

from sfumato.errors import StudyError, TooLargeError

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import ArrayLike

    from sfumato.auditing.verdict import Check
    from sfumato.collect.accumulator import Accumulator
    from sfumato.collect.tally import Tally
    from sfumato.collect.weighted import WeightedTally
    from sfumato.device.program import Program
    from sfumato.estimation.answers import Answers
    from sfumato.estimation.estimate import Estimate
    from sfumato.estimation.weighted import Weighted
    from sfumato.planning.compare import Comparison
    from sfumato.planning.expected_error import Plan
    from sfumato.planning.guarantees import Guarantees
    from sfumato.signoff.page import Signoff
    from sfumato.study.guarantee import ErrorRegion
    from sfumato.study.reports import Reports
    from sfumato.study.study import Study


_Part: TypeAlias = "Reports | pa.Table | pa.RecordBatch | bytes"
#: What a tally keeps: "reports", "sums", or the sums that some questions and marginals need.
WhatToKeep: TypeAlias = (
    Literal["reports", "sums"] | Sequence[str | Mapping[str, Any] | tuple[str, ...]]
)
SomeReports: TypeAlias = "_Part | Iterable[_Part]"
Progress: TypeAlias = Callable[[float], None]
#: Default number of simulated tallies per simulated error.
RUNS = 20


class StudyVerbs:
    """Methods of `Study` beyond encoding: tallies, simulations, expected errors."""

    __slots__ = ()

    @overload
    def tally(self, reports: SomeReports, *, weights: None = None) -> Tally: ...

    @overload
    def tally(self, reports: SomeReports, *, weights: ArrayLike) -> WeightedTally: ...

    def tally(
        self, reports: SomeReports, *, weights: ArrayLike | None = None
    ) -> Tally | WeightedTally:
        """Reduce reports to a tally; reports of another study are refused.

        Args:
            reports: Reports, their Arrow table or bytes, or several of these. Several are read one
                after another, so that they may be more than the memory holds.
            weights: One public weight per report, in the order of the reports; a weight that must
                be hidden is an axis of the study instead.

        Raises:
            DataError: If weights are negative, not finite, or not one per report; rows are named.
        """
        if weights is not None:
            from sfumato.collect.weighted import weighted_tally

            return weighted_tally(cast("Study", self), reports, weights)
        from sfumato.collect.accumulator import tally_of

        return tally_of(cast("Study", self), reports)

    def accumulator(
        self,
        keep: WhatToKeep = "reports",
    ) -> Accumulator:
        """An empty accumulator, to which reports are added as they come.

        Args:
            keep: "reports": all that answers can be computed from. "sums": sums for each axis by
                itself, whose size does not depend on the number of reports; they give the same
                unbiased answers about one axis, and no others. A list of questions, as for
                `Estimate.count`, and of marginals, such as ("age", "region") or "marginal age,
                region": sums that give the same unbiased answers to these.

        Example:
            >>> import sfumato as sf
            >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
            >>> found = study.accumulator()
            >>> for age in (31, 42, 77):
            ...     found.add(study.encode({"age": age}))
            >>> found.freeze().n
            3
        """
        from sfumato.collect.accumulator import accumulator_of

        if isinstance(keep, str):
            return accumulator_of(cast("Study", self), keep)
        from sfumato.estimation.asked import terms_for

        return accumulator_of(cast("Study", self), terms_for(cast("Study", self), keep))

    def sql(
        self,
        dialect: Literal["duckdb", "postgres", "spark", "bigquery", "snowflake"],
        *,
        table: str = "reports",
        form: Literal["columns", "bytes"] = "columns",
        keep: Literal["reports", "sums"] = "reports",
    ) -> str:
        """The SQL query that tallies a table of reports where it is; `Tally.from_arrow` reads on.

        Args:
            dialect: "duckdb", "postgres", "spark", "bigquery" or "snowflake".
            table: The table, as the database names it; for DuckDB also a path that ends in
                .parquet.
            form: "columns": the table has the columns of our Parquet files. "bytes": it has a
                column `report` with packed reports, one in each row.
            keep: "reports" or "sums", as in `accumulator`.

        Raises:
            MissingExtraError: If sqlglot is not installed; the extra `sql` brings it.
            StudyError: If a name of the study or the table does not fit the dialect.
            TooLargeError: If the query would be too long, or its numbers too large.

        Example:
            >>> import sfumato as sf
            >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
            >>> print(study.sql("postgres").splitlines()[3].strip())
            COUNT(*) AS "people",
        """
        from sfumato.collect.engines.sql import tally_query

        return tally_query(cast("Study", self), dialect, table=table, form=form, keep=keep)

    def device_program(self) -> Program:
        """The study compiled to data: all that a device needs to encode one record.

        Raises:
            StudyError: If a channel of the user's own writes no code for devices.
            TooLargeError: If the program would be too long for a device.

        Example:
            >>> import sfumato as sf
            >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
            >>> study.device_program().report_size
            1
        """
        from sfumato.device.compiling import device_program

        return device_program(cast("Study", self))

    @cached_property
    def _program(self) -> Program | None:
        """The device program, for one record; None if the study cannot be compiled."""
        try:
            return self.device_program()
        except (StudyError, TooLargeError):
            return None

    def empty_tally(self) -> Tally:
        """The tally of no reports, to which others can be added."""
        return self.tally([])

    def simulate(self, table: Any, *, seed: int) -> Tally:
        """Encode and tally in one step with repeatable randomness, for experiments.

        Args:
            table: People's values, as for `encode`.
            seed: Any integer.
        """
        from sfumato.randomness.bits import SeededBits

        return self.tally(cast("Study", self).encode(table, bits=SeededBits(seed)))

    def simulate_counts(
        self, counts: ArrayLike, *, seed: int, keep: Literal["reports", "sums"] = "reports"
    ) -> Tally:
        """Draw a tally directly from a true histogram, from its exact distribution.

        Args:
            counts: People in each cell, shaped like the axes or flat in C order.
            seed: Any integer.
            keep: What the tally keeps, as in `accumulator`. Where reports are independent bits,
                "sums" takes a time that does not depend on the number of people.

        Example:
            >>> import sfumato as sf
            >>> axis = sf.integers("age", 0, 99, protect=sf.Distance(0.5), channel=sf.Thermometer())
            >>> study = sf.Study("ages", [axis])
            >>> tally = study.simulate_counts([10**8] * 100, seed=1, keep="sums")
            >>> f"{tally.n:,} people, {len(tally.to_bytes()):,} bytes"
            '10,000,000,000 people, ... bytes'
        """
        from sfumato.collect.simulation import simulated_tally

        return simulated_tally(cast("Study", self), counts, seed, keep)

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
        progress: Progress | None = None,
    ) -> Plan:
        """The standard error to expect for typical questions and your own, before any data.

        Args:
            n: Number of people.
            questions: Your own questions, as text or by axis.
            prior: "flat", "worst" (the population that makes each error largest), a histogram
                over all cells, or histograms by axis name.
            method: "unbiased" errors are exact. "likelihood" errors are root mean squares over
                simulated tallies, shown beside the error that the answers would report.
            level: Confidence level of the intervals.
            runs: Tallies to simulate for likelihood answers; 0 shows the reported error alone.
            seed: Seed of the simulation.
            progress: Called with the share of the work done, from 0 to 1.

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
        from sfumato.planning.expected_error import expected_error

        return expected_error(
            cast("Study", self),
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
        methods: Sequence[str] = ("unbiased", "likelihood"),
        runs: int = RUNS,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Comparison:
        """Compare all channels that fit each axis, with each decoder, by expected error.

        Args:
            n: Number of people.
            prior: The expected distribution of people, as in `expected_error`.
            methods: Decoders to compare.
            runs: Tallies to simulate for likelihood answers.
            seed: Seed of the simulation.
            progress: Called with the share of the work done, from 0 to 1.
        """
        from sfumato.planning.compare import compare

        return compare(
            cast("Study", self),
            n,
            prior=prior,
            methods=methods,
            runs=runs,
            seed=seed,
            progress=progress,
        )

    def report(
        self,
        n: int | None = None,
        questions: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]] | None = None,
        *,
        repeats: int | None = None,
    ) -> Signoff:
        """All that a privacy officer signs: the guarantee, its audit, the error, and alternatives.

        Args:
            n: Number of people, for the errors; left out, the study's own, or 10,000.
            questions: Your own questions, as text or by axis, beside the typical ones.
            repeats: How many reports one person sends at most, where that is known.

        Example:
            >>> import sfumato as sf
            >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
            >>> found = study.report(10_000)
            >>> found.audit.holds, found.far[0].axes, round(found.total, 9)
            (True, ('age',), 49.5)
        """
        from sfumato.signoff.report import signoff

        return signoff(cast("Study", self), n, questions, repeats=repeats)


class ReportsVerbs:
    """Methods of `Reports`: Arrow tables and Parquet files."""

    __slots__ = ()

    def to_arrow(self) -> pa.Table:
        """An Arrow table with one row per report; its metadata names the study's fingerprint."""
        from sfumato.collect.parquet import reports_to_arrow

        return reports_to_arrow(cast("Reports", self))

    @classmethod
    def from_arrow(cls, table: pa.Table, *, what: str = "the table") -> Reports:
        """Read reports from an Arrow table; damaged ones are refused.

        Args:
            table: A table made by `to_arrow`.
            what: What messages call it.
        """
        from sfumato.collect.parquet import reports_from_arrow

        return reports_from_arrow(table, what)

    def to_bytes(self) -> bytes:
        """All reports in the fewest whole bytes each, behind a header that names the study."""
        from sfumato.collect.packing import reports_to_bytes

        return reports_to_bytes(cast("Reports", self))

    @classmethod
    def from_bytes(cls, data: bytes, study: Study) -> Reports:
        """Read packed reports, or a batch as a client sends it; anything else is refused.

        Args:
            data: What `to_bytes` or a client wrote; the ids of a batch are left behind.
            study: The study they belong to.

        Raises:
            WireError: If no client would have written these bytes.
            MismatchError: If they belong to another study.

        Example:
            >>> import sfumato as sf
            >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
            >>> data = study.encode({"age": [31, 42, 77]}).to_bytes()
            >>> len(data), len(sf.Reports.from_bytes(data, study))
            (48, 3)
        """
        from sfumato.collect.packing import reports_from_bytes

        return reports_from_bytes(data, study)

    def save(self, path: str | Path) -> None:
        """Write the reports as a Parquet file."""
        from sfumato.collect.parquet import write_parquet

        write_parquet(self.to_arrow(), path)

    @classmethod
    def load(cls, path: str | Path) -> Reports:
        """Read reports from a Parquet file."""
        from sfumato.collect.parquet import load_reports

        return load_reports(path)


class TallyVerbs:
    """Methods of `Tally`: estimates."""

    __slots__ = ()

    def estimate(
        self,
        method: str = "auto",
        *,
        seconds: float = 3.0,
        via: str = "auto",
        smoothing: str = "auto",
        progress: Progress | None = None,
        saved: str | Path | None = None,
    ) -> Estimate:
        """Estimate the population; the result answers questions.

        Args:
            method: "likelihood": the distribution of people under which the reports are most
                likely, smoothed by a strength chosen from the reports; usually the most accurate,
                and never negative. "unbiased": right on average, without any assumption. "auto":
                likelihood for questions whose axes can be decoded within `seconds`, unbiased for
                others. Every answer states its method, and why it is unbiased.
            seconds: For "auto": the most processor seconds that decoding the axes of a question
                may take. It is compared with counted operations, not with the clock, so the same
                tally always gives the same answers.
            via: How unbiased sums are computed: "direct" over the tally, "cells" over the grid of
                single values, "prefix" by a summed-area table, or "auto", which starts directly
                and builds the table once that would have been cheaper.
            smoothing: For likelihood answers: "auto", or "none" for plain maximum likelihood by
                EM.
            progress: Called with the share of the work done, from 0 to 1, while a grid is decoded.
                If the decoding is interrupted, by Ctrl-C or by a KeyboardInterrupt that this
                function raises, the question is answered from the best fit so far with the
                unbiased error, or without bias if there is none yet, and says so.
            saved: A file that `save` of an earlier estimate of this tally wrote: what was decoded
                then is not decoded again.

        Raises:
            QuestionError: If `seconds` is not a positive number.
            MismatchError: If `saved` is of another tally.
        """
        from sfumato.estimation.likelihood import estimate_of

        return estimate_of(
            cast("Tally", self),
            method,
            seconds=seconds,
            via=via,
            smoothing=smoothing,
            progress=progress,
            saved=saved,
        )

    def check(self, *, significance: float = 0.01) -> Check:
        """Check whether any population explains the reports: if none does, some are made up.

        Args:
            significance: The chance of an alarm, at most, if all clients are honest.

        Raises:
            DataError: If the tally has no reports.
            QuestionError: If it keeps sums for named questions only.

        Example:
            >>> import numpy as np, sfumato as sf
            >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
            >>> honest = study.simulate({"age": list(range(100)) * 90}, seed=1)
            >>> honest.check().alarm
            False
            >>> same = (np.full(450, 31),)  # 450 clients send the same report
            >>> made_up = sf.Reports(study.fingerprint, study.columns, study.layouts, same)
            >>> (honest + study.tally(made_up)).check().alarm
            True
        """
        from sfumato.auditing.poisoning import check

        return check(cast("Tally", self), significance=significance)


class WeightedTallyVerbs:
    """Methods of `WeightedTally`: estimates."""

    __slots__ = ()

    def estimate(
        self,
        method: str = "unbiased",
        *,
        seconds: float = 3.0,
        via: str = "auto",
        smoothing: str = "auto",
        progress: Progress | None = None,
        saved: str | Path | None = None,
    ) -> Weighted:
        """Estimate weighted sums: counts are sums of weights, shares are shares of the weight.

        Args:
            method: "unbiased", or "likelihood" for values of the most likely population of the
                weighted reports. Errors and intervals are those of unbiased answers either way;
                the intervals of likelihood answers are extended to contain them. "auto":
                likelihood within `seconds`, as in `Tally.estimate`.
            seconds: For "auto": the most processor seconds that a decoding may take.
            via: How unbiased sums are computed, as in `Tally.estimate`.
            smoothing: For likelihood answers: "auto", or "none" for plain maximum likelihood by
                EM.
            progress: Called with the share of the work done, from 0 to 1, while a grid is decoded.
            saved: A file that `save` of an earlier estimate of this tally wrote.
        """
        from sfumato.estimation.weighted import weighted_estimate_of

        return weighted_estimate_of(
            cast("WeightedTally", self),
            method,
            seconds=seconds,
            via=via,
            smoothing=smoothing,
            progress=progress,
            saved=saved,
        )


class AnswersVerbs:
    """Methods of `Answers`: simultaneous bands, consistency steps, plots."""

    __slots__ = ()

    def band(self, level: float = 0.95) -> Answers:
        """The same answers with a simultaneous confidence band: intervals that all hold at once.

        Example:
            >>> import sfumato as sf
            >>> study = sf.Study("ages", [sf.integers("age", 0, 9, protect=sf.Distance(0.5))])
            >>> cdf = study.simulate({"age": list(range(10)) * 90}, seed=1).estimate().cdf("age")
            >>> bool((cdf.band().low <= cdf.low).all())
            True
        """
        from sfumato.estimation.bands import band

        return band(cast("Answers", self), level)

    def nonnegative(self) -> Answers:
        """Set negative answers to zero, which biases small ones upwards."""
        from sfumato.estimation.consistency import nonnegative

        return nonnegative(cast("Answers", self))

    def simplex(self, total: float | None = None) -> Answers:
        """Project onto non-negative answers with a given sum; biased."""
        from sfumato.estimation.consistency import simplex

        return simplex(cast("Answers", self), total)

    def with_total(self, total: float) -> Answers:
        """Shift to a given sum, each answer in proportion to its variance; stays unbiased."""
        from sfumato.estimation.consistency import with_total

        return with_total(cast("Answers", self), total)

    def isotonic(self) -> Answers:
        """Project onto CDFs that never decrease (isotonic regression); biased."""
        from sfumato.estimation.consistency import isotonic

        return isotonic(cast("Answers", self))

    def plot(self, **options: Any) -> Any:
        """A matplotlib figure; needs the extra `analyst`.

        Args:
            **options: `truth`, the true numbers where they are known, and `title`.
        """
        from sfumato.plots.still import figure

        return figure(cast("Answers", self), **options)


class RegionVerbs:
    """Methods of `ErrorRegion`: plots."""

    __slots__ = ()

    def plot(self, *, title: str | None = None) -> Any:
        """A matplotlib figure; needs the extra `analyst`."""
        from sfumato.plots.regions import figure

        return figure(cast("ErrorRegion", self), title=title)

    def save_plot(self, path: str | Path, *, title: str | None = None) -> None:
        """Write the plot to a file: .png, .svg, .pdf, or .html for an interactive page.

        Args:
            path: The file; its suffix chooses the format.
            title: The title; left out, one that says what is shown.
        """
        from sfumato.plots.regions import save

        save(cast("ErrorRegion", self), path, title=title)


class GuaranteesVerbs:
    """Methods of `Guarantees`: plots."""

    __slots__ = ()

    def plot(self, *, title: str | None = None) -> Any:
        """A matplotlib figure; needs the extra `plots`."""
        from sfumato.plots.guarantees import figure

        return figure(cast("Guarantees", self), title=title)

    def save_plot(self, path: str | Path, *, title: str | None = None) -> None:
        """Write the plot to a file: .png, .svg, .pdf, or .html for an interactive page.

        Args:
            path: The file; its suffix chooses the format.
            title: The title; left out, one that says what is shown.
        """
        from sfumato.plots.guarantees import save

        save(cast("Guarantees", self), path, title=title)


class PlanVerbs:
    """Methods of `Plan`: plots."""

    __slots__ = ()

    def plot(self, *, title: str | None = None) -> Any:
        """A matplotlib figure of the errors as shares; needs the extra `analyst`."""
        from sfumato.plots.plans import figure

        return figure(cast("Plan", self), title=title)

    def save_plot(self, path: str | Path, *, title: str | None = None) -> None:
        """Write the plot to a file: .png, .svg, .pdf, or .html for an interactive page.

        Args:
            path: The file; its suffix chooses the format.
            title: The title; left out, one that says what is shown.
        """
        from sfumato.plots.plans import save

        save(cast("Plan", self), path, title=title)
