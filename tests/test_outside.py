"""Numbers, names and arguments from outside: read within bounds, refused by our own errors."""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from xml.dom import minidom

import numpy as np
import pytest
from typer.testing import CliRunner

import sfumato as sf
from sfumato import central
from sfumato.channels.choice import REGISTRY
from sfumato.cli import app
from sfumato.cli.language import parse_axis
from sfumato.exact import rational
from sfumato.plots import still
from sfumato.text import MOST_LETTERS, visible

#: Texts that are no numbers here, though Python would read most of them, some for ever.
NO_NUMBERS = [
    "1e300000000",
    "1e-300000000",
    "-1e300000000",
    "1E+1000",
    "9" * 10**6,
    "9" * 10**6 + "x",
    "0." + "1" * 10**6,
    "1/" + "9" * 5000,
    "1_000",
    "٣",
    " 1 ",
    "0x10",
    "nan",
    "inf",
    "-Infinity",
    "1/0",
    "1/3e999999",
    "1 / 3",
    "",
    ".",
    "e5",
    "--1",
    "\x1b[31m",
]
#: Objects that are no numbers, or that nobody could work with.
NO_NUMBER_OBJECTS: list[Any] = [
    10**6000,
    -(10**6000),
    Fraction(1, 10**6000),
    Decimal("1e300000000"),
    Decimal("nan"),
    float("nan"),
    float("inf"),
    True,
    np.bool_(True),
    None,
    b"1",
    1j,
    [],
    [1],
    np.array([1.0]),
    np.timedelta64(3, "D"),
    np.datetime64("NaT"),
    object(),
]


def brief(given: Any) -> str:
    """What a test is called."""
    return ascii(given)[:16] if isinstance(given, str) else type(given).__name__


def deep(levels: int) -> list[Any]:
    """A list in a list in a list."""
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


@pytest.mark.parametrize("given", [*NO_NUMBERS, *NO_NUMBER_OBJECTS], ids=brief)
def test_what_is_no_number_is_refused_wherever_one_is_read(given: Any) -> None:
    with pytest.raises(sf.StudyError, match="epsilon must be") as refused:
        sf.Uniform(epsilon=given)
    assert len(str(refused.value)) < 300
    for metric in (sf.Distance, sf.Uniform):
        with pytest.raises(sf.StudyError):
            metric(given)
    with pytest.raises(sf.StudyError):
        sf.integers("age", 0, given)
    with pytest.raises(sf.SfumatoError):
        sf.questions.parse(AGES, {"age": (given, 1e300) if given is not None else []})


@pytest.mark.parametrize("given", [text for text in NO_NUMBERS if text.strip(" .")], ids=brief)
def test_what_is_no_number_is_refused_in_questions_files_and_options(given: str) -> None:
    with pytest.raises(sf.SfumatoError):
        sf.questions.parse(AGES, f"age={given}..3" if given != " 1 " else "age=1 1..3")
    quoted = given.replace("\x1b", "\\u001b")
    with pytest.raises(sf.FormatError):
        sf.Study.from_toml(
            f'format = 1\nname = "s"\n[[axes]]\nname = "age"\n'
            f'domain = {{kind = "integers", low = 0, high = 9}}\n'
            f'protect = {{kind = "uniform", epsilon = "{quoted}"}}'
        )
    if given == given.strip():
        with pytest.raises(sf.SfumatoError):
            parse_axis(f"age: integers 0..9, distance {given}")


def test_numbers_are_read_up_to_a_thousand_digits() -> None:
    assert rational("9" * 999, "n") == 10**999 - 1
    assert rational("1e-999", "n") == Fraction(1, 10**999)
    assert rational(f"1/{10**999 + 1}", "n") == Fraction(1, 10**999 + 1)
    assert rational("+.5e1", "n") == 5
    assert rational("1e0000000001", "n") == 10
    for large in (10**1000, "1e1000", Fraction(1, 10**1000), "1e999" + "0" * 3000):
        with pytest.raises(sf.StudyError, match="at most 1,000 digits"):
            rational(large, "n")


def test_no_epsilon_and_no_length_is_beyond_what_doubles_hold() -> None:
    for given in ("1e306", "1e-306"):
        for make in (sf.Uniform, sf.Distance, lambda e: sf.Distance(1, per=e)):
            with pytest.raises(sf.StudyError, match="must lie between 1e-305 and 1e305"):
                make(given)
    for far in (sf.Distance("1e200", per="1e-200"), sf.Distance("1e-200", per="1e200")):
        with pytest.raises(sf.StudyError, match="E between two cells must lie between"):
            sf.Study("s", [sf.integers("age", 0, 9, protect=far)])
    assert sf.Distance("1e200", per="1e-200").between(0, 1) == np.inf


# Arguments of the public functions

AGES = sf.Study("ages", [sf.integers("age", 0, 9, protect=sf.Distance(1))])
DAYS = sf.Study("days", [sf.dates("day", "2024-01-01", "2024-01-31", protect=sf.Distance(1))])
HOURS = sf.Study(
    "hours", [sf.times("hour", "00:00", "24:00", step="1 hour", protect=sf.Distance(1))]
)
TOWNS = sf.Study("towns", [sf.categories("town", ["x", "y", "z"], protect=sf.Uniform(1))])
PLACES = {"x": (0, 1), "y": (1, 2), "z": (4, 3)}
NEAR = sf.Distance(1)


def _town(protect: Any) -> str:
    return sf.Study("s", [sf.categories("a", ["x", "y", "z"], protect=protect)]).explain()


def _age(protect: Any, *, optional: bool = False) -> str:
    return sf.Study("s", [sf.integers("a", 0, 9, protect=protect, optional=optional)]).explain()


CALLS: dict[str, Callable[[Any], object]] = {
    "integers name": lambda h: sf.integers(h, 0, 9, protect=NEAR),
    "integers low": lambda h: sf.integers("a", h, 9, protect=NEAR),
    "integers protect": lambda h: sf.integers("a", 0, 9, protect=h),
    "integers channel": lambda h: sf.integers("a", 0, 9, protect=NEAR, channel=h),
    "integers optional": lambda h: sf.integers("a", 0, 9, protect=NEAR, optional=h),
    "integers outside": lambda h: sf.integers("a", 0, 9, protect=NEAR, outside=h),
    "integers unit": lambda h: sf.integers("a", 0, 9, protect=NEAR, unit=h),
    "reals low": lambda h: sf.reals("a", h, 9, bins=4, protect=NEAR),
    "reals high": lambda h: sf.reals("a", 0, h, bins=4, protect=NEAR),
    "reals bins": lambda h: sf.reals("a", 0, 9, bins=h, protect=NEAR),
    "reals edges": lambda h: sf.reals("a", edges=h, protect=NEAR),
    "reals edge": lambda h: sf.reals("a", edges=[0, 1, h], protect=NEAR),
    "reals rounding": lambda h: sf.reals("a", 0, 9, bins=4, rounding=h, protect=NEAR),
    "dates start": lambda h: sf.dates("a", h, "2024-01-31", protect=NEAR),
    "dates end": lambda h: sf.dates("a", "2024-01-01", h, protect=NEAR),
    "dates step": lambda h: sf.dates("a", "2024-01-01", "2024-01-30", step=h, protect=NEAR),
    "times start": lambda h: sf.times("a", h, "24:00", step="1 hour", protect=NEAR),
    "times end": lambda h: sf.times("a", "00:00", h, step="1 hour", protect=NEAR),
    "times step": lambda h: sf.times("a", "00:00", "24:00", step=h, protect=NEAR),
    "categories labels": lambda h: sf.categories("a", h, protect=sf.Uniform(1)),
    "categories label": lambda h: sf.categories("a", ["x", h], protect=sf.Uniform(1)),
    "Distance per": lambda h: _age(sf.Distance(1, per=h)),
    "Distance no_answer": lambda h: _age(sf.Distance(1, no_answer=h), optional=True),
    "Distance cap": lambda h: _age(sf.Distance(1, cap=h)),
    "Distance between": lambda h: NEAR.between(h, 3),
    "Lp p": lambda h: sf.Study(
        "s", [sf.integers("a", 0, 9), sf.integers("b", 0, 9)], protect=sf.Lp(1, h)
    ),
    "Lp between": lambda h: sf.Lp(1, 2).between(h, (1, 2)),
    "Uniform": lambda h: _town(sf.Uniform(h)),
    "Uniform between": lambda h: sf.Uniform(1).between(h, 3),
    "Blocks": lambda h: _town(sf.Blocks(1, h)),
    "Blocks block": lambda h: sf.Blocks(1, [["x"], h]),
    "Blocks between": lambda h: sf.Blocks(1, [["x", "y"], ["z"]]).between(h, "x"),
    "HighLow": lambda h: _town(sf.HighLow(1, h)),
    "HighLow between": lambda h: sf.HighLow(1, ["x"]).between(h, "x"),
    "SensitiveSet": lambda h: _town(sf.SensitiveSet(1, h)),
    "Within reach": lambda h: _age(sf.Within(1, h)),
    "Within beyond": lambda h: sf.Within(1, 2, beyond=h),
    "Within at": lambda h: sf.Within(1, 2, at=h),
    "Within norm": lambda h: _town(sf.Within(1, 5, at=PLACES, norm=h)),
    "Within between": lambda h: sf.Within(1, 2).between(h, 3),
    "PolicyGraph": lambda h: sf.PolicyGraph(1, h),
    "PolicyGraph edge": lambda h: sf.PolicyGraph(1, [h]),
    "PolicyGraph weight": lambda h: _town(sf.PolicyGraph(1, [("x", "y", h), ("y", "z")])),
    "Points": lambda h: sf.Points(1, at=h),
    "Points item": lambda h: sf.Points(1, at=[h]),
    "Points place": lambda h: _town(sf.Points(1, at={**PLACES, "z": h})),
    "Points coordinate": lambda h: _town(sf.Points(1, at={**PLACES, "z": (h, 3)})),
    "Points norm": lambda h: _town(sf.Points(1, at=PLACES, norm=h)),
    "Matrix": lambda h: sf.Matrix(h),
    "Matrix entry": lambda h: sf.Matrix([[0, h], [1, 0]]).describe(),
    "Matrix labels": lambda h: sf.Matrix([[0, 1], [1, 0]], labels=h),
    "Study name": lambda h: sf.Study(h, [sf.integers("a", 0, 9, protect=NEAR)]),
    "Study axes": lambda h: sf.Study("s", h),
    "Study axis": lambda h: sf.Study("s", [h]),
    "Study protect": lambda h: sf.Study("s", [sf.integers("a", 0, 9)], protect=h),
    "Study channel": lambda h: sf.Study("s", list(AGES.parts), channel=h),
    "Study outside": lambda h: sf.Study("s", list(AGES.parts), outside=h),
    "Study people": lambda h: sf.Study("s", list(AGES.parts), people=h),
    "Study load": lambda h: sf.Study.load(h),
    "Study from_toml": lambda h: sf.Study.from_toml(h),
    "together": lambda h: sf.together(h, protect=sf.Uniform(1)),
    "encode bits": lambda h: AGES.encode({"age": 3}, bits=h),
    "SeededBits": lambda h: sf.SeededBits(h),
    "guarantee": lambda h: AGES.guarantee.between({"age": h}, {"age": 1}),
    "guarantee record": lambda h: AGES.guarantee.between(h, {"age": 1}),
    "questions": lambda h: sf.questions.parse(AGES, h),
    "question": lambda h: sf.questions.parse(AGES, [h]),
    "question of integers": lambda h: sf.questions.parse(AGES, {"age": h}),
    "question of dates": lambda h: sf.questions.parse(DAYS, {"day": (h, None)}),
    "question of times": lambda h: sf.questions.parse(HOURS, {"hour": (None, h)}),
    "question of categories": lambda h: sf.questions.parse(TOWNS, {"town": h}),
}


#: What channels made of others need besides.
NEEDED: dict[str, dict[str, Any]] = {
    "Product": {"shape": (2, 2)},
    "Stricter": {"like": "line", "channel": sf.Geometric()},
    "Rakes": {"reach": 3, "gap": 1, "narrower": "1/2"},
}


def _option(choice: Any, name: str) -> Callable[[Any], object]:
    return lambda h: choice(**{**NEEDED.get(choice.__name__, {}), name: h})


for _kind in REGISTRY:
    _choice: Any = REGISTRY[_kind]
    for _field in dataclasses.fields(_choice) if dataclasses.is_dataclass(_choice) else ():
        CALLS[f"{_choice.__name__} {_field.name}"] = _option(_choice, _field.name)

ARGUMENTS: list[Any] = [
    *(text for text in NO_NUMBERS if len(text) < 10**5),
    "9" * 10**6,
    *NO_NUMBER_OBJECTS,
    deep(100_000),
    [[]],
    {},
    {"a": 1},
    (),
    set(),
    {1},
    [None],
    [1, "a"],
    ["a", "a"],
    [["a"], ["b"]],
    [("a", "b")],
    [("a",)],
    [(1, 2, 3)],
    [deep(3)],
    7,
    -1,
    0,
    0.5,
    1e300,
    5e-324,
    2**70,
    10**400,
    np.int64(3),
    np.array(1.0),
    np.array([[1]]),
    range(3),
    dt.date(2024, 1, 1),
    dt.timedelta(0),
    dt.timedelta(days=1),
    np.timedelta64("NaT"),
    np.timedelta64(1, "Y"),
    lambda: 1,
    sf.Distance,
    sf.Uniform(1),
    "2024-01-01",
    "06:00",
    "1 week",
    "1e9999 weeks",
    "9999999999999 weeks",
    "\ud800",
    "a" * 10**6,
]


@pytest.mark.parametrize("name", CALLS)
def test_no_argument_of_any_type_ends_in_a_foreign_error(name: str) -> None:
    for given in [*ARGUMENTS, iter([])]:
        try:
            CALLS[name](given)
        except sf.SfumatoError as error:
            message = str(error)
        else:
            message = ""
        assert len(message) < 2_000


@pytest.mark.parametrize(
    ("call", "given", "message"),
    [
        ("encode bits", 7, "bits must be a source of random words"),
        ("dates step", "", "step must be a duration such as '7 days'"),
        ("times step", "", "step must be a duration such as '7 days'"),
        ("Points", [[]], r"at must give every label its coordinates"),
        ("Points item", ("x", []), "at must give coordinates for every label"),
        ("integers unit", 7, "unit must be a text"),
        ("integers optional", "yes", "optional must be True or False"),
        ("PolicyGraph edge", "ab", "an edge must be"),
        ("Study axes", 7, "axes must be a list of axes"),
        ("guarantee record", 7, "a record must be a dict of values by axis name"),
    ],
)
def test_wrong_arguments_are_named_with_the_rule(call: str, given: Any, message: str) -> None:
    with pytest.raises(sf.SfumatoError, match=message):
        CALLS[call](given)


# Names and labels

MARKS = "\x1b[31m\x9b1m\u202e\n[/b] [bold]<b>$x$</script>'\""
PAY, TOWN = f"pay [usd]{MARKS}", f"town{MARKS}"
RAW = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e]")
MARKED = sf.Study(
    f"study{MARKS}",
    [
        sf.integers(PAY, 0, 9, protect=sf.Distance(1), unit=f"usd{MARKS}"),
        sf.categories(TOWN, [f"a{MARKS}", "b$x$"], protect=sf.Uniform(1), optional=True),
    ],
)
PEOPLE = {PAY: [1, 2, 3] * 20, TOWN: [f"a{MARKS}", "b$x$", None] * 20}


def _shown(text: str) -> str:
    """A text, if nothing in it is a command to a terminal."""
    assert not RAW.search(text)
    return text


@pytest.mark.slow
def test_names_and_labels_are_shown_and_not_interpreted_in_python(tmp_path: Path) -> None:
    assert sf.Study.from_toml(MARKED.to_toml()) == MARKED
    estimate = MARKED.simulate(PEOPLE, seed=1).estimate("unbiased")
    ledger = central.Ledger.create(tmp_path / "a.ledger", MARKED, "1")
    release = central.release(
        central.Data(MARKED, PEOPLE),
        central.Laplace([{TOWN: f"a{MARKS}"}]),
        spend="1/4",
        ledger=ledger,
        bits=sf.SeededBits(1),
    )
    things = (
        MARKED,
        MARKED.explain(),
        MARKED.expected_error(1000),
        sf.audit(MARKED),
        MARKED.guarantee.error_region({PAY: 1, TOWN: "b$x$"}, {PAY: 2, TOWN: f"a{MARKS}"}),
        estimate,
        estimate.histogram(TOWN),
        estimate.heatmap(PAY, TOWN),
        estimate.count({TOWN: f"a{MARKS}"}),
        release,
        ledger,
    )
    for thing in things:
        _shown(str(thing))
        _shown(repr(thing))
        page = _shown(thing._repr_html_()) if hasattr(thing, "_repr_html_") else ""
        assert "<b>$" not in page
        assert "</script>" not in page
    assert "pay [usd]\\x1b[31m" in MARKED.explain()
    assert estimate.histogram(TOWN).labels[0] == f"a{MARKS}"  # data stay as they are


@pytest.mark.slow
def test_names_and_labels_are_shown_and_not_interpreted_in_pictures(tmp_path: Path) -> None:
    estimate = MARKED.simulate(PEOPLE, seed=1).estimate("unbiased")
    for number, answers in enumerate([estimate.histogram(TOWN), estimate.heatmap(PAY, TOWN)]):
        drawn = tmp_path / f"{number}.svg"
        still.save(answers, drawn)
        minidom.parse(str(drawn))  # XML knows no control characters
        page = tmp_path / f"{number}.html"
        still.save(answers, page)
        text = page.read_text(encoding="utf-8")
        body = _shown(text[text.rindex("</head>") :])
        assert "<b>$x$" not in body
        assert body.count("</script>") == 1
    label = still.figure(estimate.histogram(TOWN)).axes[0].get_yticklabels()[1]
    assert label.get_text() == r"b\$x\$"  # as matplotlib escapes it


@pytest.mark.slow
@pytest.mark.parametrize("extra", [(), ("--json",)], ids=["text", "json"])
def test_names_and_labels_are_shown_and_not_interpreted_on_the_command_line(
    tmp_path: Path, extra: tuple[str, ...]
) -> None:
    study, tally = str(tmp_path / "s.toml"), str(tmp_path / "t.parquet")
    MARKED.save(study)
    MARKED.simulate(PEOPLE, seed=1).save(tally)
    asked = "'" + TOWN.replace("'", "''") + "'=no answer"
    unbiased = ("--method", "unbiased")
    for words in (
        ("explain", study),
        ("plan", study, "--people", "1000"),
        ("audit", study),
        ("ask", study, tally, asked, *unbiased),
        ("histogram", study, tally, PAY, *unbiased),
        ("histogram", study, tally, TOWN, *unbiased),
        ("heatmap", study, tally, PAY, TOWN, *unbiased),
        ("quantile", study, tally, PAY, *unbiased),
    ):
        ran = CliRunner().invoke(app, [*words, *extra])
        assert (ran.exit_code, ran.exception) == (0, None)
        _shown(ran.output)
        if words[0] in ("explain", "quantile") and not extra:
            assert "[usd]" in ran.output  # also where it heads a column
    ran = CliRunner().invoke(app, ["ask", study, tally, "\x1b[31m[/b]=1", *extra])
    assert ran.exit_code == 2
    assert "[/b]" in _shown(ran.output)


def test_names_have_at_most_a_thousand_letters_and_can_be_written() -> None:
    fits, long = "a" * MOST_LETTERS, "a" * (MOST_LETTERS + 1)
    assert sf.integers(fits, 0, 9, unit=fits).name == fits
    for make in (
        lambda name: sf.integers(name, 0, 9),
        lambda name: sf.integers("a", 0, 9, unit=name),
        lambda name: sf.categories("a", ["x", name]),
        lambda name: sf.Study(name, list(AGES.parts)),
    ):
        with pytest.raises(sf.StudyError, match="may have at most 1,000 characters"):
            make(long)
        with pytest.raises(sf.StudyError, match="text that UTF-8 can write"):
            make("half \ud800")


def test_what_is_shown_is_changed_nowhere_else() -> None:
    plain = 'größe № 1, it\'s "a" | b = c … 東京 👩‍👩‍👧'
    assert visible(plain) == plain
    assert visible("a\tb\x00") == r"a\tb\x00"
