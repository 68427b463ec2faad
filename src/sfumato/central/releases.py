"""Releases: checked, entered in the ledger, computed, and stored with their errors."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from sfumato.arrays import Floats
from sfumato.central.data import Data, refuse_large
from sfumato.central.ledger import Ledger
from sfumato.central.mechanism import FromMargins, Mechanism, question_answers
from sfumato.central.space import Space
from sfumato.central.spend import Spending
from sfumato.errors import FormatError, QuestionError, SfumatoError, StudyError, near
from sfumato.estimation.answers import Answer, Answers
from sfumato.files import as_path, read_json, write_whole
from sfumato.randomness.bits import BitSource, word_source
from sfumato.text import escape, format_to, interval_name, text_table, visible

T = TypeVar("T")

FORMAT = 1
KIND = "sfumato release"
_SHOWN = 30
_TEXTS = ("study", "fingerprint", "time", "mechanism", "spent")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Release:
    """Answers that may be published, with their errors and what they cost.

    Attributes:
        answers: The answers.
        spent: What the release cost, in words.
        mechanism: How it was made, in words.
        time: When, in UTC.
        study: Name of the study.
        fingerprint: The study's fingerprint.
        n: Number of people.
        entry: Number of its entry in the ledger.
        secure: Whether the noise came from the operating system's secure source.
        synthetic: People in each cell of a synthetic table, where the mechanism makes one.
        details: Public numbers about the mechanism.
    """

    answers: Answers
    spent: str
    mechanism: str
    time: str
    study: str
    fingerprint: str
    n: int
    entry: int
    secure: bool = True
    synthetic: Floats | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.answers)

    def __getitem__(self, question: str | int) -> Answer:
        """One answer, by the question's own words or its number."""
        labels = self.answers.all_labels[0]
        if isinstance(question, str):
            if question not in labels:
                raise QuestionError(
                    f"the release has no answer to {question!r}: {near(question, labels)}"
                )
            question = labels.index(question)
        answers = self.answers
        return Answer(
            value=float(answers.values[question]),
            stderr=float(answers.stderr[question]),
            n=self.n,
            level=answers.level,
            method=answers.method,
            notes=answers.notes,
            question=labels[question],
            bounds=(float(answers.low[question]), float(answers.high[question])),
            counted=answers.counted,
        )

    def shown(self, answer: Answer) -> str:
        """An answer with its standard error, where it has one."""
        error = _error(answer)
        value = format_to(answer.value, error)
        return value if math.isnan(answer.stderr) else f"{value} ± {format_to(error, error)}"

    def __repr__(self) -> str:
        size = f"{len(self):,} answer{'' if len(self) == 1 else 's'}"
        return f"<release of {size} from {self.n:,} people of study {self.study!r}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the answers as a table, and what they cost."""
        tail = "<br>".join(escape(line) for line in self._tail())
        return f"{self.answers._repr_html_()}<p><small>{tail}</small></p>"

    def plot(self, **options: Any) -> Any:
        """A matplotlib figure of the answers; needs the extra `analyst`."""
        return self.answers.plot(**options)

    def __str__(self) -> str:
        answers = self.answers
        interval = interval_name(answers.level)
        rows: list[tuple[str, ...]] = []
        for place in range(min(len(self), _SHOWN)):
            one = self[place]
            ends = f"{format_to(one.low, _error(one))} to {format_to(one.high, _error(one))}"
            rows.append((one.question, self.shown(one), ends))
        lines = text_table(("question", "answer", interval), rows)
        more = [f"… and {len(self) - _SHOWN:,} more."] if len(self) > _SHOWN else []
        return "\n".join([*lines, *more, "", *self._tail()])

    def _tail(self) -> list[str]:
        """How the answers were made, and at what cost."""
        lines = [
            f"{self.mechanism}; {self.n:,} people of study {self.study!r}; spent {self.spent}.",
            *(f"Note: {note}." for note in self.answers.notes),
        ]
        if not self.secure:
            lines.append("The noise came from a seed: this release protects nobody.")
        return [visible(line) for line in lines]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        answers = self.answers.to_dict()
        for name in ("units", "edges"):  # a release asks questions, and has no axes
            del answers[name]
        return {
            "kind": KIND,
            "format": FORMAT,
            "study": self.study,
            "fingerprint": self.fingerprint,
            "entry": self.entry,
            "time": self.time,
            "mechanism": self.mechanism,
            "spent": self.spent,
            "people": self.n,
            "secure": self.secure,
            "answers": answers,
            "synthetic": None if self.synthetic is None else self.synthetic.tolist(),
            "details": dict(self.details),
        }

    def save(self, path: str | Path) -> None:
        """Write a JSON file."""
        text = json.dumps(self.to_dict(), ensure_ascii=False, indent=1) + "\n"
        write_whole(path, lambda file: file.write_text(text, encoding="utf-8"))

    @classmethod
    def load(cls, path: str | Path) -> Release:
        """Read a JSON file.

        Raises:
            FormatError: If it is not a release, or newer than this package.
        """
        what, file = repr(str(path)), as_path(path)
        try:
            data = read_json(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise FormatError(f"there is no release file {what}; check the path") from None
        except (OSError, ValueError):
            raise FormatError(f"{what} is not a readable release file") from None
        version = data.get("format") if isinstance(data, dict) else None
        if version is None or data.get("kind") != KIND or type(version) is not int or version < 1:
            raise FormatError(f"{what} is not a release file")
        if version > FORMAT:
            raise FormatError(
                f"{what} has format {version}, newer than this package's {FORMAT}; update sfumato"
            )
        try:
            made = data["synthetic"]
            return cls(
                answers=_answers(data["answers"]),
                synthetic=None if made is None else _numbers(made, len(made), missing=False),
                n=_whole(data["people"]),
                entry=_whole(data["entry"], least=1),
                secure=_of(bool, data["secure"]),
                details=_of(dict, data["details"]),
                **{key: _of(str, data[key]) for key in _TEXTS},
            )
        except (KeyError, TypeError, ValueError, OverflowError):
            raise FormatError(f"{what} is damaged; make the release again") from None


def _error(answer: Answer) -> float:
    """The error that decides an answer's digits: its standard error, or half its interval."""
    return (answer.high - answer.low) / 2 if math.isnan(answer.stderr) else answer.stderr


def release(
    data: Data,
    mechanism: Mechanism,
    *,
    spend: Spending,
    ledger: Ledger,
    bits: BitSource | None = None,
) -> Release:
    """Answer questions about a table, at a cost that the ledger allows.

    The order is fixed: first everything is checked, then the cost is entered in the ledger, then
    the data are touched. From the moment it is entered, the cost is spent, whatever happens next.
    Only the axes that the questions are about are charged; what everybody counts towards alike
    costs nothing. A ledger that has seen a table's name or keyed digest takes no other table.

    Guarantee:
        Among tables of the same number of people that differ in one person's record, from i to j,
        the odds of any release change by at most e^d(i, j), where d is what was spent.

    Args:
        data: The table.
        mechanism: How to answer, such as `Laplace(["age=18..30"])`.
        spend: A share of the study's E such as "1/4", or by axis a share or a metric.
        ledger: Where the cost is entered.
        bits: Where randomness comes from; left out, the operating system's secure source.

    Raises:
        LedgerError: If too little is left; nothing is spent then.
        StudyError: If the questions cannot be answered at this cost; nothing is spent then.
        MismatchError: If the ledger is that of another study or another table.

    Example:
        >>> import sfumato as sf
        >>> from tempfile import TemporaryDirectory
        >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
        >>> data = sf.central.Data(study, {"age": list(range(20, 60)) * 50})
        >>> adults = sf.central.Laplace(["age=18.."])
        >>> with TemporaryDirectory() as folder:
        ...     ledger = sf.central.Ledger.create(f"{folder}/ages.ledger", study)
        ...     made = sf.central.release(data, adults, spend="1/4", ledger=ledger)
        >>> abs(made["age=18.."].value - 2000) < 200, ledger.remaining
        (True, Fraction(3, 4))
    """
    _refuse_unlike(data, mechanism, ledger)
    ledger.refuse_other(data.schema)
    ledger.refuse_other_table(data.mark)
    space = Space(data.schema, spend)
    prepared = mechanism.prepare(space, data.n)
    prepared.expected()  # the errors are found now, so that nothing about them can fail later
    every = tuple(range(len(space.shape)))
    margins = prepared.margins if isinstance(prepared, FromMargins) else (every,)
    for axes in margins:
        refuse_large(data.schema, axes)
    touched = prepared.charged if isinstance(prepared, FromMargins) else every
    spent = space.spend.only(touched, data.schema)
    source = word_source(bits)
    words = mechanism.describe()
    entry = ledger.reserve(spent, mechanism=words, people=data.n, table=data.mark)
    # What is not charged is not looked at: its answer follows from the number of people.
    source_of = data.marginal if touched else data.anybody
    counts = [source_of(axes) for axes in margins]
    if isinstance(prepared, FromMargins):
        outcome = prepared.run_margins(counts, source)
    else:
        outcome = prepared.run(counts[0], source)
    try:
        ledger.settle(entry.id)
    except (OSError, SfumatoError) as error:  # what is paid for must not be lost
        warnings.warn(
            f"the release was made, but entry {entry.id} of the ledger stays 'reserved': {error}",
            stacklevel=2,
        )
    return Release(
        answers=outcome.answers,
        synthetic=outcome.synthetic,
        details=outcome.details,
        spent=str(spent),
        mechanism=words,
        time=entry.time,
        study=data.schema.name,
        fingerprint=ledger.fingerprint,
        n=data.n,
        entry=entry.id,
        secure=source.secure,
    )


def _refuse_unlike(data: object, mechanism: object, ledger: object) -> None:
    """Refuse what is not what it should be."""
    if not isinstance(data, Data):
        raise StudyError(
            f"data must be central.Data(study, table), which checks them, got {type(data).__name__}"
        )
    if isinstance(mechanism, type) or not isinstance(mechanism, Mechanism):
        raise StudyError(
            f"mechanism must be one of sfumato.central such as Laplace(...), got "
            f"{type(mechanism).__name__}"
        )
    if not isinstance(ledger, Ledger):
        raise StudyError(
            f"ledger must be a central.Ledger, got {type(ledger).__name__}: open it with "
            "Ledger.load(path)"
        )


def _answers(data: Mapping[str, Any]) -> Answers:
    """Answers as a file holds them, all of them checked."""
    (labels,) = data["labels"]
    questions = [_of(str, label) for label in _of(list, labels)]
    level = _of(float, data["level"])
    if not 0 < level < 1:
        raise ValueError
    numbers = {
        name: _numbers(data[name], len(questions)) for name in ("values", "stderr", "low", "high")
    }
    return question_answers(
        questions,
        numbers["values"],
        numbers["stderr"],
        n=_whole(data["n"]),
        bounds=(numbers["low"], numbers["high"]),
        level=level,
        method=_of(str, data["method"]),
        unit=_of(str, data["unit"]),
        notes=tuple(_of(str, note) for note in _of(list, data["notes"])),
    )


def _of(kind: type[T], held: Any) -> T:
    """A part of a file that must be of one kind."""
    if type(held) is not kind:
        raise ValueError
    return held


def _whole(held: Any, *, least: int = 0) -> int:
    """A whole number of people or of an entry."""
    if not least <= _of(int, held) < 1 << 63:
        raise ValueError
    return int(held)


def _numbers(held: Any, size: int, *, missing: bool = True) -> Floats:
    """A list of numbers; a missing one is None in the file."""
    kinds = (int, float, type(None)) if missing else (int, float)
    if len(_of(list, held)) != size or not all(type(number) in kinds for number in held):
        raise ValueError
    return np.array([math.nan if x is None else x for x in held], dtype=np.float64)
