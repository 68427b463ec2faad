"""The one-line language of axes: what it reads, and what it says to what it does not."""

from __future__ import annotations

import pytest

import sfumato as sf
from sfumato.cli.language import PUNCTUATION, parse_axes, parse_axis, parse_metric
from sfumato.errors import SfumatoError
from sfumato.metrics.base import Metric
from sfumato.metrics.registry import REGISTRY as METRICS
from sfumato.questions.language import quoted


def week(**options: object) -> sf.Axis:
    protect = sf.Distance(1, per="1 week")
    return sf.dates("visit", "2024-01-01", "2024-12-29", step="1 week", protect=protect, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "axis"),
    [
        ("age: integers 0..99, distance 0.2", sf.integers("age", 0, 99, protect=sf.Distance(0.2))),
        (
            "age: integers 0..99, distance 0.2, cap 3",
            sf.integers("age", 0, 99, protect=sf.Distance(0.2, cap=3)),
        ),
        (
            " age :integers  -5 .. 5 ,uniform 1/3,clip,unit years ",
            sf.integers("age", -5, 5, protect=sf.Uniform("1/3"), outside="clip", unit="years"),
        ),
        (
            "income: reals 0..200000 in 64, distance 1 per 10000",
            sf.reals("income", 0, 200_000, bins=64, protect=sf.Distance(1, per=10_000)),
        ),
        (
            "x: reals -1.5..1.5 in 3 bins, distance 1, rounding stochastic, channel thermometer",
            sf.reals(
                "x",
                -1.5,
                1.5,
                bins=3,
                protect=sf.Distance(1),
                rounding="stochastic",
                channel=sf.Thermometer(),
            ),
        ),
        (
            "x: reals edges 0|10|100|1e3, distance 1 per 10",
            sf.reals("x", edges=[0, 10, 100, 1000], protect=sf.Distance(1, per=10)),
        ),
        (
            "region: categories north|south|east|west, uniform 1, optional",
            sf.categories(
                "region", ["north", "south", "east", "west"], protect=sf.Uniform(1), optional=True
            ),
        ),
        (
            "town: categories ash|elm|fir, protect blocks epsilon=1 blocks=ash|elm||fir",
            sf.categories(
                "town", ["ash", "elm", "fir"], protect=sf.Blocks(1, [["ash", "elm"], ["fir"]])
            ),
        ),
        (
            "town: categories ash|elm, protect policy_graph epsilon=1/2 edges=ash|elm|3||",
            sf.categories(
                "town", ["ash", "elm"], protect=sf.PolicyGraph("1/2", [("ash", "elm", 3)])
            ),
        ),
        (
            "town: categories ash|elm, protect sensitive_set epsilon=1 sensitive=ash|",
            sf.categories("town", ["ash", "elm"], protect=sf.SensitiveSet(1, ["ash"])),
        ),
        (
            "'a: b': categories 'x, y'|don't know|\"it's|\"|'St. ''G''', uniform 1",
            sf.categories(
                "a: b", ["x, y", "don't know", "it's|", "St. 'G'"], protect=sf.Uniform(1)
            ),
        ),
        ("visit: dates 2024-01-01..2024-12-29 by 1 week, distance 1 per 1 week", week()),
        (
            "day: dates 2024-01-01..2024-01-31, distance 1 per 7 days",
            sf.dates("day", "2024-01-01", "2024-01-31", protect=sf.Distance(1, per="7 days")),
        ),
        (
            "pickup: times 00:00..24:00 by 15 min, distance 1 per 1 hour",
            sf.times("pickup", "00:00", "24:00", step="15 min", protect=sf.Distance(1, "1 hour")),
        ),
        (
            "age: integers 0..99, no answer at 10, optional, distance 0.2 per 2",
            sf.integers("age", 0, 99, protect=sf.Distance(0.2, 2, no_answer=10), optional=True),
        ),
    ],
)
def test_reads_the_axis_that_the_python_call_makes(text: str, axis: sf.Axis) -> None:
    assert parse_axis(text) == axis


def test_epsilon_is_exact() -> None:
    epsilon = parse_axis("age: integers 0..9, distance 0.1").protect.to_dict()["epsilon"]
    assert epsilon == 0.1
    assert sf.Distance("0.1") == sf.Distance(0.1)


@pytest.mark.parametrize("word", ["north", "a, b", "x|y", "it's", " padded", 'say "hi"', "'q'"])
def test_quoted_words_are_read_back(word: str) -> None:
    axis = parse_axis(
        f"{quoted(word, PUNCTUATION)}: categories {quoted(word, PUNCTUATION)}|other, uniform 1"
    )
    assert (axis.name, axis.labels()) == (word, [word, "other"])


AGE = "age: integers 0..99"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("age", ["name, a colon and its kind", "write an axis as"]),
        (": integers 0..9, distance 1", ["needs a name"]),
        ("age: integrs 0..9, distance 1", ["'age'", "did you mean 'integers'?"]),
        ("age:", ["'age'", "kind of its values"]),
        ("age: integers, distance 1", ["'age'", "integers LOW..HIGH", "'integers'"]),
        ("age: integers 0-99, distance 1", ["integers LOW..HIGH", "0-99"]),
        ("age: integers 0..50..99, distance 1", ["integers LOW..HIGH"]),
        ("age: integers 0..x, distance 1", ["'age'", "high", "'x'"]),
        ("age: integers 5..5, distance 1", ["'age'", "at least 2 cells, got 1"]),
        (
            "age: integers 99..0, distance 1",
            ["'age'", "at least 2 cells", "low must be below high"],
        ),
        ("x: reals 0..1, distance 1", ["reals LOW..HIGH in BINS"]),
        ("x: reals 0..1 in 1, distance 1", ["'x'", "bins", "at least 2"]),
        ("x: reals 1..0 in 4, distance 1", ["low must be below high"]),
        ("x: reals edges 0|5|5, distance 1", ["edges must rise"]),
        ("r: categories, uniform 1", ["categories LABEL|LABEL"]),
        ("r: categories north, uniform 1", ["at least 2 cells, got 1"]),
        ("r: categories a|a, uniform 1", ["distinct"]),
        ("r: categories a|, uniform 1", ["label", "not empty"]),
        ("r: categories 'a|b, uniform 1", ["quote must be closed"]),
        ("r: categories a|b, distance 1", ["'r'", "categories have none", "Uniform"]),
        ("r: categories a|b, uniform 1, clip", ["'r'", "drop 'clip'"]),
        ("d: dates 2024-01-01..2024-01-31 by 1 week, uniform 1", ["nearest fitting end"]),
        ("d: dates 2024-01-01..2024-02-31, uniform 1", ["'d'", "end", "date"]),
        ("d: dates 2024-01-01..2024-12-31 by 1 month, uniform 1", ["vary in length"]),
        ("t: times 00:00..24:00, uniform 1", ["times START..END by STEP"]),
        (f"{AGE}, distance 0", ["'age'", "epsilon must be positive", "0"]),
        (f"{AGE}, distance -0.5", ["epsilon must be positive", "-0.5"]),
        (f"{AGE}, distance nan", ["epsilon", "nan"]),
        (f"{AGE}, uniform inf", ["epsilon", "inf"]),
        (f"{AGE}, uniform lots", ["epsilon", "lots"]),
        (f"{AGE}, distance", ["'distance EPSILON [per LENGTH]'", "got 'distance'"]),
        (f"{AGE}, distance 1 per 0", ["per must be positive"]),
        (f"{AGE}, distance 1 per 2 weeks", ["'age'", "per"]),
        (f"{AGE}, distance 1 for 2", ["'distance EPSILON [per LENGTH]'"]),
        (AGE, ["nothing about protection", "no default", "distance EPSILON"]),
        ("r: categories a|b", ["nothing about protection", "uniform EPSILON"]),
        (f"{AGE}, distance 1, uniform 1", ["protected twice"]),
        (f"{AGE}, distance 1, distance 2", ["'distance' once"]),
        (f"{AGE}, distnce 1", ["unknown part 'distnce 1'", "distance EPSILON"]),
        (f"{AGE}, distance 1, ", ["unknown part ''"]),
        ("x: reals 0..200,000 in 4, distance 1", ["reals LOW..HIGH in BINS"]),
        (f"{AGE}, distance 1 per 10,000", ["unknown part '000'", "thousands separators"]),
        (f"{AGE}, distance 1, optional", ["no answer at LENGTH"]),
        (f"{AGE}, distance 1, no answer at 5", ["goes with 'optional'"]),
        (f"{AGE}, uniform 1, optional, no answer at 5", ["'distance' only"]),
        (f"{AGE}, distance 1, no answer 5", ["'no answer at LENGTH'"]),
        (f"{AGE}, distance 1, rounding stochastic", ["only reals are rounded"]),
        ("x: reals 0..1 in 4, distance 1, rounding up", ["'rounding stochastic'"]),
        ("r: categories a|b, uniform 1, unit years", ["drop 'unit'"]),
        (f"{AGE}, distance 1, channel geometrc", ["unknown channel", "did you mean 'geometric'?"]),
        (f"{AGE}, uniform 1, channel geometric", ["'age'", "does not fit"]),
    ],
)
def test_what_is_not_understood_is_refused_by_name_rule_and_remedy(
    text: str, words: list[str]
) -> None:
    with pytest.raises(SfumatoError) as caught:
        parse_axis(text)
    for word in words:
        assert word in str(caught.value)


MOOD = "mood: categories low|mid|'so so', protect "
PLACES = {"low": [0], "mid": [1], "so so": [3]}


WRITTEN = [
    ("sensitive_set epsilon=1 sensitive='so so'", sf.SensitiveSet(1, ["so so"])),
    ("high_low epsilon=1/2 sensitive=low|mid", sf.HighLow("1/2", ["low", "mid"])),
    ("blocks epsilon=1 blocks='so so'|low||mid", sf.Blocks(1, [["so so", "low"], ["mid"]])),
    ("points epsilon=1 at=low:0|mid:1|'so so':3", sf.Points(1, at=PLACES)),
    (
        "points epsilon=0.1 per=10 norm=1 at=low:0:0|mid:30:40|'so so':1/2:-1",
        sf.Points("0.1", 10, at={"low": (0, 0), "mid": (30, 40), "so so": ("1/2", -1)}, norm=1),
    ),
    ("within epsilon=1 reach=2 at=low:0|mid:1|'so so':3", sf.Within(1, 2, at=PLACES)),
    (
        "policy_graph epsilon=1 edges=low|mid||mid|'so so'|2",
        sf.PolicyGraph(1, [("low", "mid"), ("mid", "so so", 2)]),
    ),
    ("matrix values=0|1|2||1|0|1||2|1|0", sf.Matrix([[0, 1, 2], [1, 0, 1], [2, 1, 0]])),
    (
        "matrix values=0|inf||1|0|| labels=low|mid",
        sf.Matrix([[0, float("inf")], [1, 0]], labels=["low", "mid"]),
    ),
    ("uniform epsilon=1 + uniform epsilon=1/2", sf.Uniform(1) + sf.Uniform("1/2")),
    ("lp epsilon=1 p=2 per=10 cap=3", sf.Lp(1, 2, 10, cap=3)),
    ("ground epsilon=1 per='1 km'", METRICS["ground"](1, "1 km")),
]


@pytest.mark.parametrize(("words", "metric"), WRITTEN)
def test_every_metric_can_be_written(words: str, metric: Metric) -> None:
    assert parse_metric(words) == metric
    assert parse_metric(words).to_dict() == metric.to_dict()


def test_metrics_of_labels_make_axes() -> None:
    axis = parse_axis(MOOD + "points epsilon=1 at=low:0|mid:1|'so so':3")
    assert axis.metric().between(0, 2) == 3.0
    (place,) = parse_axes(
        ["x: integers 0..7", "y: integers 0..7"], ["x, y: lp epsilon=1 p=2 cap=4"]
    )
    assert place.protect == sf.Lp(1, 2, cap=4)
    for words, told in (
        ("points epsilon=1 at=low|mid", "at=LABEL:X:Y"),
        ("points epsilon=1 at=low:1|low:2", "each label once"),
        ("points epsilon=1 at='low:1", "a quote must be closed"),
    ):
        with pytest.raises(SfumatoError, match=told):
            parse_axis(MOOD + words)


def test_every_metric_of_the_library_is_among_them() -> None:
    written = {"distance"} | {words.split()[0] for words, _ in WRITTEN}
    assert written | {"sum"} == set(METRICS)  # a sum is written with +
