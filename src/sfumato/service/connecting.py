"""The Python client of the analyst's API: the methods of an estimate, answered by a collector."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal
from urllib.parse import quote

from sfumato.checks import is_number, several
from sfumato.device.address import SECONDS, Address, Reply
from sfumato.errors import CollectorError, QuestionError, near, shown
from sfumato.estimation.answers import Answer, Answers
from sfumato.estimation.plain import answer_from_dict, answers_from_dict
from sfumato.files import read_json
from sfumato.questions.language import weights
from sfumato.service.asking import SCALARS, read_question
from sfumato.service.asking import SECONDS as DECODING_SECONDS
from sfumato.study.study import Study

_MOST_BYTES = 1 << 28  # of an answer
_EACH_WAIT = 2.0  # seconds between two words about progress
_LEAST_DIGITS = 8  # of a fingerprint
_FINISHED, _LATER = 200, 202

#: A condition on people: text, or conditions by axis name.
Condition = str | Mapping[str, Any] | None


class Connection:
    """The methods of an estimate, answered by a collector; `connect` makes one.

    Every answer is entered in the collector's log of questions, under the name of the token.

    Attributes:
        fingerprint: The fingerprint of the study.
        last: Where the last answer came from: the version of the tally, its reports, and the number
            of the entry in the log.
    """

    def __init__(
        self,
        address: Address,
        fingerprint: str,
        options: Mapping[str, Any],
        progress: Callable[[float], None] | None,
        wait: float,
    ) -> None:
        self.fingerprint = fingerprint
        self.last: dict[str, int] = {}
        self._address, self._options = address, dict(options)
        self._progress, self._wait = progress, wait

    @cached_property
    def study(self) -> Study:
        """The study, as the collector serves it."""
        found = _call(self._address, "GET", f"/v1/studies/{self.fingerprint}/study")
        return Study.from_toml(found.data.decode(), what="the collector's study")

    @property
    def n(self) -> int:
        """How many reports have been tallied."""
        found = _call(self._address, "GET", f"/v1/studies/{self.fingerprint}/counts")
        return int(_entry(found, "reports"))

    def __repr__(self) -> str:
        return f"<estimate of study {self.fingerprint[:12]} by {self._address.host}>"

    def count(
        self,
        question: Condition = None,
        /,
        *,
        where: Condition = None,
        level: float = 0.95,
        population: bool = False,
        **by_axis: Any,
    ) -> Answer:
        """How many people satisfy a conjunction of conditions.

        Args:
            question: Text such as ``"age=18..30, region=north|south"``, or a dict by axis.
            where: More conditions, joined by "and".
            level: Confidence level of the intervals.
            population: Add the variance of sampling people from a population.
            **by_axis: Conditions by axis name: a value, a (low, high) interval, a set.
        """
        asked = self._words(question, by_axis)
        return self._one({"count": asked}, where, level, population)

    def counts(
        self, questions: Iterable[Condition], *, level: float = 0.95, population: bool = False
    ) -> list[Answer]:
        """The answers that `count` gives to many questions, one after another.

        Args:
            questions: Questions as text or by axis.
            level: Confidence level of the intervals.
            population: Add the variance of sampling people from a population.
        """
        asked = several(questions, "questions", error=QuestionError)
        return [self.count(question, level=level, population=population) for question in asked]

    def fraction(
        self,
        question: Condition = None,
        /,
        *,
        where: Condition = None,
        level: float = 0.95,
        population: bool = False,
        **by_axis: Any,
    ) -> Answer:
        """The share of people who satisfy conditions, among all or among those in `where`.

        Args:
            question: Text such as ``"age=18..30, region=north|south"``, or a dict by axis.
            where: Conditions on the people who form the whole, as text or a dict by axis.
            level: Confidence level of the intervals.
            population: Add the variance of sampling people from a population.
            **by_axis: Conditions by axis name: a value, a (low, high) interval, a set.
        """
        asked = self._words(question, by_axis)
        return self._one({"fraction": asked}, where, level, population)

    def mean(
        self,
        axis: str,
        *,
        where: Condition = None,
        level: float = 0.95,
        population: bool = False,
    ) -> Answer:
        """The mean of an axis' numbers, among those who answered and satisfy `where`.

        Args:
            axis: An axis whose cells are numbers.
            where: Conditions on the people, as text or a dict by axis.
            level: Confidence level of the intervals.
            population: Add the variance of sampling people from a population.
        """
        return self._one({"mean": axis}, where, level, population)

    def total(
        self,
        axis: str,
        *,
        where: Condition = None,
        level: float = 0.95,
        population: bool = False,
    ) -> Answer:
        """The sum of an axis' numbers over those who answered and satisfy `where`.

        Args:
            axis: An axis whose cells are numbers.
            where: Conditions on the people, as text or a dict by axis.
            level: Confidence level of the intervals.
            population: Add the variance of sampling people from a population.
        """
        return self._one({"total": axis}, where, level, population)

    def histogram(
        self,
        axis: str,
        *,
        where: Condition = None,
        bins: int | None = None,
        fraction: bool = False,
        band: bool = False,
        level: float = 0.95,
        population: bool = False,
    ) -> Answers:
        """How many people are in each cell of an axis, or in each of `bins` groups of cells.

        Args:
            axis: The axis.
            where: Conditions on the people, as text or a dict by axis.
            bins: Number of groups of neighbouring cells; left out, single cells.
            fraction: Return shares of the people who satisfy `where`, not counts.
            band: Return intervals that all hold at once, as `Answers.band` does.
            level: Confidence level of the intervals.
            population: Add the variance of sampling people from a population.
        """
        asked = {"histogram": axis, "bins": bins, "fraction": fraction, "band": band}
        return self._many(asked, where, level, population)

    def cdf(
        self,
        axis: str,
        *,
        where: Condition = None,
        bins: int | None = None,
        fraction: bool = True,
        band: bool = False,
        level: float = 0.95,
        population: bool = False,
    ) -> Answers:
        """The cumulative distribution: people at or below each cell of an ordered axis.

        Args:
            axis: An axis with an order.
            where: Conditions on the people, as text or a dict by axis.
            bins: Number of groups of neighbouring cells; left out, single cells.
            fraction: Return shares of the people who satisfy `where`, not counts.
            band: Return intervals that all hold at once, as `Answers.band` does.
            level: Confidence level of the intervals.
            population: Add the variance of sampling people from a population.
        """
        asked = {"cdf": axis, "bins": bins, "fraction": fraction, "band": band}
        return self._many(asked, where, level, population)

    def heatmap(
        self,
        first: str,
        second: str,
        *,
        where: Condition = None,
        bins: int | tuple[int | None, int | None] | None = None,
        fraction: bool = False,
        band: bool = False,
        level: float = 0.95,
        population: bool = False,
    ) -> Answers:
        """How many people are in each pair of cells of two axes.

        Args:
            first: The axis of the rows.
            second: The axis of the columns.
            where: Conditions on the people, as text or a dict by axis.
            bins: Number of groups of neighbouring cells, for both axes or one for each; left out,
                single cells.
            fraction: Return shares of the people who satisfy `where`, not counts.
            band: Return intervals that all hold at once, as `Answers.band` does.
            level: Confidence level of the intervals.
            population: Add the variance of sampling people from a population.
        """
        pair = list(bins) if isinstance(bins, tuple) else bins
        asked = {"heatmap": [first, second], "bins": pair, "fraction": fraction, "band": band}
        return self._many(asked, where, level, population)

    def quantile(
        self,
        axis: str,
        q: float | Sequence[float],
        *,
        where: Condition = None,
        level: float = 0.95,
        population: bool = False,
    ) -> Answer | Answers:
        """The value that a share q of people is at or below, among those who answered.

        Args:
            axis: An axis with an order.
            q: One share from 0 to 1, or several.
            where: Conditions on the people, as text or a dict by axis.
            level: Confidence level of the intervals.
            population: Add the variance of sampling people from a population.
        """
        if is_number(q):
            return self._one({"quantile": axis, "at": q}, where, level, population)
        listed = [q] if isinstance(q, str) else several(q, "q", error=QuestionError)
        shares = [float(one) if is_number(one) else one for one in listed]
        return self._many({"quantile": axis, "at": shares}, where, level, population)

    def groups(
        self,
        axis: str,
        *,
        where: Condition = None,
        bins: int | None = None,
        level: float = 0.95,
        population: bool = False,
        **asked: Condition,
    ) -> Answers:
        """One answer for each cell of an axis, about the people in it.

        Args:
            axis: The axis.
            where: Conditions on all people, as text or a dict by axis.
            bins: Number of groups of neighbouring cells; left out, single cells.
            level: Confidence level of the intervals.
            population: Add the variance of sampling people from a population.
            **asked: One of `count` and `fraction` with a condition, `mean` and `total` with the
                name of an axis.
        """
        of = {"groups": axis, "of": self._scalar(asked), "bins": bins}
        return self._many(of, where, level, population)

    def difference(
        self,
        first: Mapping[str, Condition],
        second: Mapping[str, Condition],
        *,
        level: float = 0.95,
        population: bool = False,
    ) -> Answer:
        """The first answer minus the second, with the error of the difference.

        Args:
            first: A question of count, fraction, mean or total, such as
                ``{"count": "age=18..30", "where": "region=north"}``.
            second: The question whose answer is subtracted.
            level: Confidence level of the interval.
            population: Add the variance of sampling people from a population.
        """
        pair = [self._scalar(first), self._scalar(second)]
        return self._one({"difference": pair}, None, level, population)

    # Putting questions together

    def _words(self, condition: Condition, by_axis: Mapping[str, Any] | None = None) -> str:
        """A condition as text."""
        if isinstance(condition, str) and not by_axis:
            return condition
        return weights(self.study.axes, condition, **(by_axis or {})).text

    def _scalar(self, asked: Mapping[str, Condition]) -> dict[str, Any]:
        """A question within another one."""
        if not isinstance(asked, Mapping):
            raise QuestionError(
                f"a question must be a dict such as {{'count': 'age=18..30'}}, got {shown(asked)}"
            )
        axes = [name for name, what in SCALARS.items() if what == "axis"]
        return {name: held if name in axes else self._words(held) for name, held in asked.items()}

    def _one(
        self, asked: dict[str, Any], where: Condition, level: float, population: bool
    ) -> Answer:
        """Ask for one number."""
        return answer_from_dict(self._ask(asked, where, level, population))

    def _many(
        self, asked: dict[str, Any], where: Condition, level: float, population: bool
    ) -> Answers:
        """Ask for many numbers."""
        return answers_from_dict(self._ask(asked, where, level, population))

    def _ask(
        self, asked: dict[str, Any], where: Condition, level: float, population: bool
    ) -> dict[str, Any]:
        """Ask the collector, and wait for its answer."""
        common = {"level": level, "population": population, **self._options}
        if where is not None:
            common["where"] = self._words(where)
        whole = {name: held for name, held in (asked | common).items() if held is not None}
        given = read_question(whole).given
        ends = time.monotonic() + self._wait
        route, body = f"/v1/studies/{self.fingerprint}/ask", json.dumps(given).encode()
        found = self._exchange("POST", route, ends, body)
        while found.status == _LATER:
            place = found.headers.get("location", "")
            try:
                if self._progress is not None:
                    self._progress(float(_entry(found, "progress")))
                if time.monotonic() > ends:
                    raise CollectorError(
                        f"the answer takes longer than {self._wait:g} seconds, so it was given up; "
                        "ask with a larger wait, or with method='unbiased'",
                        0,
                        "wait",
                    )
                found = self._exchange("GET", place, ends)
            except BaseException:
                _call(self._address, "DELETE", place)
                raise
        if self._progress is not None:
            self._progress(1.0)
        self.last = {name: int(_entry(found, name)) for name in ("tally", "reports", "entry")}
        answer: dict[str, Any] = _entry(found, "answer")
        return answer

    def _exchange(self, method: str, route: str, ends: float, body: bytes | None = None) -> Reply:
        """One request that may wait a while for the answer."""
        most = _EACH_WAIT if self._progress is not None else SECONDS / 2
        wait = max(0.0, min(most, ends - time.monotonic()))
        return _call(self._address, method, f"{route}?wait={wait:.3f}", body)


def connect(
    url: str,
    token: str,
    study: str | None = None,
    *,
    method: Literal["auto", "likelihood", "unbiased"] = "auto",
    seconds: float = DECODING_SECONDS,
    progress: Callable[[float], None] | None = None,
    wait: float = 600.0,
) -> Connection:
    """Connect to a collector as an analyst; the result answers questions as an estimate does.

    Args:
        url: Where the collector's routes begin, such as "https://collector.example".
        token: A token of an analyst or administrator.
        study: The name of the study, or the beginning of its fingerprint; it may be left out where
            the collector has one study.
        method: How to estimate, as in `Tally.estimate`.
        seconds: With "auto", what decoding may take, as in `Tally.estimate`.
        progress: Called with the share of the work done, from 0 to 1, while an answer takes long.
        wait: The most seconds to wait for an answer.

    Raises:
        UploadError: If url is no address, or its certificate is not to be trusted.
        CollectorError: If the collector cannot be reached, or refuses.
        QuestionError: If it has no such study, or several.

    Example:
        >>> import sfumato as sf
        >>> est = sf.connect("http://127.0.0.1:9", "sfumato_...", study="commute")
        Traceback (most recent call last):
        sfumato.errors.CollectorError: the collector '127.0.0.1' gives no answer ...
    """
    if not (is_number(wait) and wait > 0):
        raise QuestionError(f"wait must be a positive number of seconds, got wait={shown(wait)}")
    address = Address(url, token)
    held = _entry(_call(address, "GET", "/v1/studies"), "studies")
    found = [one for one in held if study is None or _is_named(one, study)]
    if len(found) != 1:
        names = [str(one["name"]) for one in held]
        raise QuestionError(
            f"the collector {address.host!r} has {len(found)} such studies, and one must be named: "
            f"study={shown(study)}; {near(str(study), names) if names else 'none is published'}"
        )
    options = {"method": method, "seconds": seconds}
    return Connection(address, str(found[0]["fingerprint"]), options, progress, wait)


def _is_named(held: Mapping[str, Any], study: str) -> bool:
    """Whether a study has this name, or a fingerprint that begins so."""
    if held["name"] == study:
        return True
    return len(study) >= _LEAST_DIGITS and str(held["fingerprint"]).startswith(study)


def _call(address: Address, method: str, route: str, body: bytes | None = None) -> Reply:
    """One request; a refusal is an error with the collector's code and sentence."""
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    try:
        found = address.exchange(
            method, quote(route, safe="/?=&._-"), body=body, headers=headers, most=_MOST_BYTES
        )
    except (OSError, http.client.HTTPException) as error:
        raise CollectorError(
            f"the collector {address.host!r} gives no answer ({type(error).__name__}); check the "
            "url, and that it runs",
            0,
            "unreachable",
        ) from None
    if 200 <= found.status < 300:
        return found
    try:
        code, sentence = str(_entry(found, "code")), str(_entry(found, "message"))
    except CollectorError:
        code, sentence = "strange", "what answers there is no collector; check the url"
    raise CollectorError(
        f"the collector {address.host!r} refuses ({found.status} {code}): {sentence}",
        found.status,
        code,
    )


def _entry(found: Reply, name: str) -> Any:
    """An entry of the JSON object in an answer."""
    try:
        return read_json(found.data)[name]
    except (ValueError, KeyError, TypeError):
        raise CollectorError(
            "what answers there is no collector; check the url", found.status, "strange"
        ) from None
