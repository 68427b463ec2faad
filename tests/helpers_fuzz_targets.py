"""What is fuzzed: each thing that reads from outside, the inputs it gets, and what is read."""

from __future__ import annotations

import contextlib
import io
import json
import random
import tempfile
import tomllib
from collections.abc import Callable
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import tomli_w
from helpers_fuzz import Target, refuse_private
from helpers_fuzz_mutate import column, grown, mutated, table, thing, value
from typer.testing import CliRunner

import sfumato as sf
from sfumato import central, questions
from sfumato.central.chain import encode, seal, start
from sfumato.cli import app, language
from sfumato.cli.commands import CommandError
from sfumato.cli.people import encode_file, read_counts
from sfumato.collect.block_sums import kept_by
from sfumato.collect.packing import layout_of
from sfumato.device.program import canonical, digest_of
from sfumato.device.wire import Batch
from sfumato.domains.tables import stream_batches
from sfumato.questions.language import weights

KEPT = Path(__file__).parent / "study" / "kept"
VECTORS = Path(__file__).parents[1] / "vectors"
SMALL = ("ages", "commute", "thermometer", "oue", "blocks", "days", "survey", "stochastic-rounding")


@cache
def _studies() -> tuple[str, ...]:
    return tuple(file.read_text() for file in sorted(KEPT.glob("*.toml")))


@cache
def _documents() -> tuple[Any, ...]:
    found = [tomllib.loads(text) for text in _studies()]
    return tuple({k: v for k, v in held.items() if k != "fingerprint"} for held in found)


@cache
def _study(name: str) -> sf.Study:
    return sf.Study.load(KEPT / f"{name}.study.toml")


# Study files


def study_file(rng: random.Random) -> str:
    """The text of a study, changed as text or as a document, with its fingerprint or without."""
    if rng.random() < 0.4:
        return mutated(rng, rng.choice(_studies()), _studies())
    try:
        return tomli_w.dumps(grown(rng, rng.choice(_documents()), _documents()))
    except (TypeError, AttributeError, ValueError, RecursionError):  # a value that TOML has not
        return mutated(rng, tomli_w.dumps(rng.choice(_documents())), _studies())


def read_study(text: str, folder: Path) -> None:
    study = sf.Study.from_toml(text)
    study.explain()
    assert sf.Study.from_toml(study.to_toml()) == study


# Reports and tallies


@cache
def _bytes(kind: str) -> tuple[tuple[str, bytes], ...]:
    return tuple((name, (KEPT / f"{name}.{kind}.parquet").read_bytes()) for name in SMALL)


@cache
def _table(kind: str, name: str) -> pa.Table:
    return pq.read_table(KEPT / f"{name}.{kind}.parquet").slice(0, 30)


def _parquet(rng: random.Random, kind: str) -> tuple[str, bytes | pa.Table]:
    """A study's name and a file or table of reports or counts, changed."""
    name, raw = rng.choice(_bytes(kind))
    if rng.random() < 0.4:
        return name, mutated(rng, raw, [raw])
    return name, table(rng, _table(kind, name))


@cache
def _sums(name: str, keep: str) -> bytes:
    """The file of a tally of sums, or of questions about every axis."""
    study = _study(name)
    axes = [(axis.name,) for axis in study.axes[:2]]
    found = study.accumulator(keep="sums" if keep == "sums" else axes)
    found.merge(sf.Tally.load(KEPT / f"{name}.tally.parquet", _study(name)))
    return found.to_bytes()


def tally(rng: random.Random) -> tuple[str, bytes | pa.Table]:
    """A study's name and a file or table of a tally, of any kind, changed."""
    if rng.random() < 0.6:
        return _parquet(rng, "tally")
    name = rng.choice(SMALL)
    raw = _sums(name, rng.choice(["sums", "questions"]))
    if rng.random() < 0.4:
        return name, mutated(rng, raw, [raw])
    return name, table(rng, pq.read_table(pa.BufferReader(raw)))


def _file(held: bytes | pa.Table, path: Path) -> Path:
    """The input as a file; a table that Parquet cannot hold gives an empty one."""
    try:
        path.write_bytes(held) if isinstance(held, bytes) else pq.write_table(held, path)
    except (pa.ArrowException, OSError, UnicodeError):
        path.write_bytes(b"")
    return path


def read_reports(given: tuple[str, bytes | pa.Table], folder: Path) -> None:
    name, held = given
    study = _study(name)
    if isinstance(held, pa.Table):
        study.tally(held)
    reports = sf.Reports.load(_file(held, folder / "reports.parquet"))
    assert study.tally(reports).n == len(reports)


def _tally(read: Callable[[], sf.Tally]) -> sf.Tally | sf.SfumatoError:
    """A tally, or why there is none."""
    try:
        return read()
    except sf.SfumatoError as error:
        return error


def read_tally(given: tuple[str, bytes | pa.Table], folder: Path) -> None:
    name, held = given
    study = _study(name)
    file = _file(held, folder / "tally.parquet")
    tally = _tally(lambda: sf.Tally.load(file, study))
    alike = _tally(lambda: sf.Tally.from_bytes(file.read_bytes(), study))
    if isinstance(tally, sf.SfumatoError):  # for the same reason, and no path is named
        assert type(alike) is type(tally)
        assert str(alike) == str(tally).replace(repr(str(file)), "the data")
        raise tally
    assert alike == tally
    assert 0 <= tally.n <= 2**53
    keep = kept_by(tally.statistic)
    nobody = sf.Accumulator(study.fingerprint, study.columns, study.layouts, keep, study)
    assert (tally + nobody.freeze()) == tally
    assert sf.Accumulator.from_bytes(file.read_bytes()).to_bytes() == tally.to_bytes()
    assert float(tally.estimate("unbiased").count()) >= 0 or not tally.n


# Results of queries


@cache
def _result(name: str, keep: Any) -> pa.Table:
    """What DuckDB answers about some reports."""
    duckdb.register("reports", _table("reports", name))
    return duckdb.sql(_study(name).sql("duckdb", keep=keep)).to_arrow_table()


def result(rng: random.Random) -> tuple[str, pa.Table]:
    """A study's name and the result of one of its queries, changed."""
    name = rng.choice(SMALL)
    return name, table(rng, _result(name, rng.choice(["reports", "sums"])))


def read_result(given: tuple[str, pa.Table], folder: Path) -> None:
    name, held = given
    tally = sf.Tally.from_arrow(_study(name), held)
    assert 0 <= tally.n <= 2**53
    assert sf.Tally.from_bytes(tally.to_bytes(), _study(name)) == tally


# Ledgers and releases


@cache
def _ledger() -> Any:
    return json.loads((KEPT / "commute.ledger").read_text())


@cache
def _releases() -> tuple[str, ...]:
    return tuple(file.read_text() for file in sorted(KEPT.glob("*.release.json")))


def _json(document: Any) -> str:
    return json.dumps(document, default=str)


def _sealed(document: Any, form: int) -> str:
    """A ledger with right digests, in either form, as somebody who means harm would write it."""
    try:
        head = {k: v for k, v in document.items() if k not in ("events", "last")}
        plain = [{k: v for k, v in e.items() if k != "digest"} for e in document["events"]]
        if form == 2:
            return encode({**head, "format": 2}, plain).decode("utf-8", "replace")
        last, events = start(head), []
        for event in plain:
            events.append(seal(last, event))
            last = events[-1]["digest"]
        return json.dumps({**head, "events": events, "last": last}, indent=1)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return json.dumps(document, indent=1)


def ledger_file(rng: random.Random) -> str:
    """The text of a ledger, changed after it was sealed or before."""
    form = rng.choice((1, 2, 2))
    if rng.random() < 0.3:
        text = _sealed(_ledger(), form)
        return mutated(rng, text, [text])
    document = json.loads(_json(grown(rng, _ledger(), [])))
    if rng.random() < 0.1 and isinstance(document, dict):
        document["study"] = study_file(rng)
    return _sealed(document, form)


def _text_file(text: str, path: Path) -> Path:
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return path


def read_ledger(text: str, folder: Path) -> None:
    ledger = central.Ledger.load(_text_file(text, folder / "a.ledger"))
    str(ledger)
    json.dumps(ledger.to_dict())
    ledger.check("1/1000")


def release_file(rng: random.Random) -> str:
    """The text of a release, changed."""
    text = rng.choice(_releases())
    if rng.random() < 0.3:
        return mutated(rng, text, _releases())
    return _json(grown(rng, json.loads(text), []))


def read_release(text: str, folder: Path) -> None:
    release = central.Release.load(_text_file(text, folder / "release.json"))
    str(release)
    release._repr_html_()
    json.dumps(release.to_dict(), allow_nan=False)
    for place in range(min(len(release), 3)):
        release.shown(release[place])


# Questions and options

QUESTIONS = (
    "age=18..30, mode=car|bus",
    "age=..30|65.., mode=no answer",
    "mode='car'",
    "age=18",
    "",
    "everyone",
    "cells of age",
    "ranges of age, mode=car",
    "prefixes of age",
    "age × mode",
    "2-way",
    "1-way",
    "hierarchy of age",
)
AXES = (
    "age: integers 0..99, distance 0.2",
    "income: reals 0..200000 in 64, distance 1 per 10000",
    "region: categories north|south|east, uniform 1, optional",
    "visit: dates 2024-01-01..2024-12-29 by 1 week, distance 1 per week",
    "pickup: times 00:00..24:00 by 15 min, distance 1 per hour",
    "rating: integers 1..8, distance 0.3, channel comb",
)
CHOICES = ("hierarchical branching=2", "geometric", "thermometer variant=published", "comb", "oue")
METRICS = ("uniform 1", "distance 0.5 per 10", "distance 1/3", "uniform 1/2")


def question(rng: random.Random) -> str:
    return mutated(rng, rng.choice(QUESTIONS), QUESTIONS)


def read_question(text: str, folder: Path) -> None:
    axes = _study("commute").axes
    try:
        weights(axes, text)
    except sf.SfumatoError as error:
        refuse_private(str(error))
    questions.parse(_study("commute"), text)


def option(rng: random.Random) -> tuple[str, str]:
    kind = rng.choice(("axis", "axis", "choice", "metric", "protection"))
    seeds = {"axis": AXES, "choice": CHOICES}.get(kind, METRICS)
    return kind, mutated(rng, rng.choice(seeds), seeds)


def read_option(given: tuple[str, str], folder: Path) -> None:
    kind, text = given
    if kind == "axis":
        language.parse_axis(text)
    elif kind == "choice":
        language.parse_choice(text, "--channel")
    elif kind == "metric":
        language.parse_metric(text)
    else:
        language.parse_protection(text)


# People's tables

CSV = (
    b"age,mode\n18,car\n80,bus\n25,\n",
    b"name,age,mode\nXanadu,8675309,car\nXanadu,30,Xanadu\n",
    b'mode,age\n"car",30\n"Xanadu, 8675309",8675309\n',
    b"\xef\xbb\xbfage,mode\r\n18,car\r\n8675309,car\r\n",
    b"age,mode,count\n18,car,5\n19,bus,8675309\n20,Xanadu,7\n",
)


def csv_file(rng: random.Random) -> tuple[str, bytes]:
    """A table of people as CSV: its rows are changed, or its first line where no row is private."""
    head, _, rows = rng.choice(CSV).partition(b"\n")
    suffix = "csv.gz" if rng.random() < 0.05 else "csv"
    if rng.random() < 0.8:
        return suffix, head + b"\n" + mutated(rng, rows, [rows])
    return suffix, mutated(rng, head + b"\n18,car\n", [head])


def read_csv(given: tuple[str, bytes], folder: Path) -> None:
    suffix, raw = given
    path = folder / f"people.{suffix}"
    path.write_bytes(raw)
    study = _study("commute")
    if b"count" in raw:
        read_counts(study, path)
    else:
        bits = sf.SeededBits(1)
        if suffix == "csv":
            try:
                list(stream_batches(io.BytesIO(raw), [axis.name for axis in study.axes]))
            except sf.DataError as error:
                refuse_private(str(error))
        assert sum(map(len, encode_file(study, path, bits, lambda done, total: None))) >= 0


def _cell(rng: random.Random) -> Any:
    """A person's value, or something else in its place."""
    if rng.random() < 0.5:
        return rng.choice((18, 80, 8675309, "30", "car", "Xanadu", None, 25.0, "8675309"))
    return rng.choice((value(rng), b"Xanadu", object(), {"Xanadu": 1}, ["Xanadu"], 1j, rng))


def _values(rng: random.Random, rows: int) -> Any:
    """A column in one of the forms that people bring."""
    form = rng.randrange(6)
    if form == 0:
        return column(rng, rows)
    if form == 1:
        return pa.chunked_array([column(rng, rows)])
    cells = [_cell(rng)] * rows if rng.random() < 0.5 else [_cell(rng) for _ in range(rows)]
    if form == 2:
        return cells
    if form == 3:
        return np.array([str(cell) for cell in cells], dtype=object)
    if form == 4:
        return pd.Series(cells, dtype=object)
    kind = rng.choice(
        ("i1", "u8", ">i4", "f2", "f8", "c16", "M8[s]", "m8[s]", "?", "S3", "U3", "V4")
    )
    return np.zeros((rows, rows) if rng.random() < 0.1 else rows, dtype=kind)


def people(rng: random.Random) -> Any:
    """A table of people in memory: a dict, records, a frame, an Arrow table, or no table."""
    rows = rng.choice((0, 1, 2, 5))
    names = rng.choice((["age", "mode"], ["age", "mode"], ["age", "mode", "age"], ["age"], []))
    columns = [(name, _values(rng, rng.choice((rows, rows, rows, 3)))) for name in names]
    form = rng.randrange(6)
    if form == 0:
        return {name: _cell(rng) for name in names}
    if form == 1:
        return [{name: _cell(rng) for name in names} for _ in range(rows)]
    if form == 2:
        return rng.choice((value(rng), [value(rng)], {"age": value(rng), "mode": value(rng)}))
    if form == 3:
        arrays = [column(rng, rows) for _ in names]
        return pa.table(arrays, names=names)
    if form == 4:
        frame = pd.DataFrame(index=range(rows))
        for place, name in enumerate(names):
            with contextlib.suppress(TypeError, ValueError):
                frame.insert(place, name, [_cell(rng)] * rows, allow_duplicates=True)
        return frame
    return dict(columns)


def read_people(given: Any, folder: Path) -> None:
    study = _study("commute")
    try:
        assert len(study.encode(given, bits=sf.SeededBits(1))) >= 0
    finally:
        if isinstance(given, pa.Table):
            path = _file(given, folder / "people.parquet")
            for reports in encode_file(study, path, sf.SeededBits(1), lambda done, total: None):
                assert len(reports)


# The command line

LINES = (
    ("new", "made.toml", "--force", "--axis", AXES[0]),
    ("new", "made.toml", "--force", "--axis", AXES[1], "--axis", AXES[2], "--people", "1000"),
    ("new", "made.toml", "--force", "--protect", "uniform 1", "--axis", "zone: integers 0..6"),
    ("explain", "ages.toml"),
    ("explain", "ages.toml", "--json"),
    ("plan", "ages.toml", "--people", "1000", "--ask", "age=18..30"),
    ("encode", "ages.toml", "ages.csv", "--out", "out.parquet", "--force", "--seed", "1"),
    ("tally", "ages.toml", "reports.parquet", "--out", "out.parquet", "--force"),
    ("ask", "ages.toml", "tally.parquet", "age=18..30", "--method", "unbiased"),
    ("ask", "ages.toml", "tally.parquet", "--mean", "age", "--level", "0.9"),
    ("quantile", "ages.toml", "tally.parquet", "age", "0.1", "0.5", "--where", "age=20.."),
    ("histogram", "ages.toml", "tally.parquet", "age", "--bins", "4", "--fraction"),
    ("ledger", "show", "a.ledger"),
    ("release", "ages.toml", "ages.csv", "--spend", "1/4", "--workload", "cells of age", "--plan"),
    ("simulate", "ages.toml", "ages.csv", "--seed", "7", "--ask", "age=18..30"),
)
_FILES = ("toml", "csv", "parquet", "ledger")


def line(rng: random.Random) -> list[str]:
    """A command with words changed, left out or added; the names of its files stay."""
    words = list(rng.choice(LINES))
    for _ in range(rng.choice((1, 1, 2))):
        place = rng.randrange(1, len(words)) if len(words) > 1 else 0
        if words[place].endswith(_FILES) and rng.random() < 0.7:
            continue
        change = rng.randrange(5)
        if change == 0:
            del words[place]
        elif change == 1:
            words.insert(place, words[place])
        elif not words[place].endswith(_FILES):
            found = mutated(rng, words[place], ["--json", "--plan", "--fraction", "--population"])
            words[place] = found.replace("\0", "").replace("/", "")[:100_000]
        if not words:
            return ["explain"]
    return words


def run_line(words: list[str], folder: Path) -> None:
    if not (folder / "ages.toml").exists():
        for name, source in {
            "ages.toml": "ages.study.toml",
            "reports.parquet": "ages.reports.parquet",
            "tally.parquet": "ages.tally.parquet",
            "a.ledger": "commute.ledger",
        }.items():
            (folder / name).write_bytes((KEPT / source).read_bytes())
        rows = b"\n".join(b"%d" % age for age in range(20, 60))
        (folder / "ages.csv").write_bytes(b"age\n" + rows + b"\n")
    ran = CliRunner().invoke(app, words)
    if ran.exception is not None and not isinstance(ran.exception, SystemExit):
        raise ran.exception
    refuse_private(ran.output)
    assert ran.exit_code in (0, 1, 2)
    if ran.exit_code == 2:
        raise CommandError(ran.output)


# Arguments of the functions that people call


@cache
def _asked() -> dict[str, Any]:
    """A study with a tally, estimates, answers, data and a ledger, to be asked wrongly."""
    axes = [sf.integers("age", 0, 9, protect=sf.Distance(0.5))]
    study = sf.Study("ages", axes)
    reports = study.encode({"age": [1, 2, 3, 7] * 10}, bits=sf.SeededBits(1))
    tally = study.tally(reports)
    ledger = central.Ledger.create(Path(tempfile.mkdtemp(), "a.ledger"), study)
    est = tally.estimate("unbiased")
    return {
        "study": study,
        "reports": reports,
        "tally": tally,
        "weighted": study.tally(reports, weights=[1.5] * 40).estimate(),
        "est": est,
        "likely": tally.estimate("likelihood", smoothing="none"),
        "answers": est.histogram("age"),
        "cdf": est.cdf("age"),
        "answer": est.count(age=(1, 5)),
        "data": central.Data(study, {"age": [1, 2, 3, 7] * 10}),
        "ledger": ledger,
    }


Call = Callable[[Any, Callable[[], Any]], object]
#: Calls with something else in the place of one argument or more; `x()` is that.
CALLS: dict[str, tuple[Call, ...]] = {
    "est": (
        lambda est, x: est.count(x()),
        lambda est, x: est.count(age=x()),
        lambda est, x: est.count(where=x(), level=x()),
        lambda est, x: est.count(age=5, level=x()),
        lambda est, x: est.fraction(x(), where=x()),
        lambda est, x: est.fraction(age=x(), level=x()),
        lambda est, x: est.histogram(x()),
        lambda est, x: est.histogram("age", bins=x()),
        lambda est, x: est.histogram("age", where=x(), level=x()),
        lambda est, x: est.cdf(x(), bins=x()),
        lambda est, x: est.cdf("age", bins=x(), level=x()),
        lambda est, x: est.heatmap(x(), x(), bins=x()),
        lambda est, x: est.heatmap("age", "age", bins=x()),
        lambda est, x: est.linear(x()),
        lambda est, x: est.linear(np.eye(10), level=x()),
        lambda est, x: est.quantile("age", x()),
        lambda est, x: est.quantile(x(), 0.5),
        lambda est, x: est.quantile("age", [0.5], where=x(), level=x()),
        lambda est, x: est.mean(x(), where=x()),
        lambda est, x: est.mean("age", where=x(), level=x()),
        lambda est, x: est.variance("age", where=x(), level=x()),
        lambda est, x: est.total(x()),
        lambda est, x: est.counts(x()),
        lambda est, x: est.counts([x(), x()], level=x()),
        lambda est, x: est.marginals(x()),
        lambda est, x: est.marginals([x()], where=x()),
        lambda est, x: est.total("age", where=x(), level=x()),
        lambda est, x: sf.distribution(x()),
        lambda est, x: sf.tv_error(est, x()),
        lambda est, x: sf.l2_error(x(), x()),
    ),
    "tally": (
        lambda tally, x: tally.estimate(x()),
        lambda tally, x: tally.estimate("unbiased", via=x()),
        lambda tally, x: tally.estimate(smoothing=x()),
        lambda tally, x: tally.estimate(seconds=x()),
        lambda tally, x: tally.estimate(saved=x()),
        lambda tally, x: sf.Tally.load(x(), tally.study),
        lambda tally, x: sf.Tally.load("tally.parquet", x()),
        lambda tally, x: sf.Reports.load(x()),
        lambda tally, x: sf.Reports.from_arrow(x()),
        lambda tally, x: sf.Study.load(x()),
        lambda tally, x: sf.Study.from_toml(x()),
    ),
    "study": (
        lambda study, x: study.encode(x()),
        lambda study, x: study.encode({"age": [1]}, bits=x()),
        lambda study, x: study.tally(x()),
        lambda study, x: study.accumulator(keep=x()),
        lambda study, x: study.accumulator(keep=[x(), x()]),
        lambda study, x: study.sql(x()),
        lambda study, x: study.sql("duckdb", table=x()),
        lambda study, x: study.sql("duckdb", form=x(), keep=x()),
        lambda study, x: sf.Tally.from_arrow(study, x()),
        lambda study, x: sf.Tally.from_arrow(x(), pa.table({})),
        lambda study, x: study.simulate({"age": [1, 2]}, seed=x()),
        lambda study, x: study.simulate_counts(x(), seed=1),
        lambda study, x: study.simulate_counts([1] * 10, seed=x()),
        lambda study, x: study.expected_error(x()),
        lambda study, x: study.expected_error(100, x()),
        lambda study, x: study.expected_error(100, prior=x()),
        lambda study, x: study.expected_error(100, method=x(), level=x()),
        lambda study, x: study.guarantee.between(x(), x()),
        lambda study, x: study.guarantee.between({"age": x()}, {"age": 2}),
        lambda study, x: sf.SeededBits(x()),
        lambda study, x: questions.parse(study, x()),
        lambda study, x: questions.parse(study, [x(), x()]),
        lambda study, x: questions.Given(x(), labels=x()),
        lambda study, x: questions.Identity(x()),
        lambda study, x: questions.Ranges(x()),
        lambda study, x: questions.Prefixes(x()),
        lambda study, x: questions.Hierarchy(x(), x()),
    ),
    "reports": (
        lambda reports, x: _asked()["study"].tally(reports, weights=x()),
        lambda reports, x: _asked()["study"].tally(reports, weights=[x()] * 40),
        lambda reports, x: sf.Reports.join(x()),
    ),
    "answers": (
        lambda answers, x: answers.band(x()),
        lambda answers, x: answers.simplex(x()),
        lambda answers, x: answers.with_total(x()),
    ),
    "answer": (lambda answer, x: sf.difference(answer, x(), independent=True),),
    "data": (
        lambda data, x: central.Data(data.schema, x()),
        lambda data, x: central.Data(x(), {"age": [1]}),
        lambda data, x: central.Data.from_counts(data.schema, x()),
        lambda data, x: central.plan(data.schema, x(), 100, "1/4"),
        lambda data, x: central.plan(data.schema, ["age=1"], x(), x()),
        lambda data, x: _prepared(data, central.Laplace(x())),
        lambda data, x: _prepared(data, central.Laplace(["age=1..5"], x())),
        lambda data, x: _prepared(data, central.Laplace(["age=1..5"], weights=x(), level=x())),
        lambda data, x: _prepared(data, central.Laplace(["age=1"], allocation=x(), bias=x())),
        lambda data, x: _prepared(data, central.Means(x())),
        lambda data, x: _prepared(data, central.Means({"a": x()}, weights=x())),
        lambda data, x: _prepared(data, central.Exponential(x(), _plain(x()))),
        lambda data, x: _prepared(data, central.Exponential(["a"], _plain(x()), sensitivity=x())),
        lambda data, x: _prepared(data, central.SmallDB(["age=1..5"], x(), level=x())),
        lambda data, x: _prepared(data, central.MWEM(x(), rounds=x(), check=x())),
        lambda data, x: _prepared(data, central.MWEM(["age=1"], rounds=2, variant=x())),
    ),
    "ledger": (
        lambda ledger, x: ledger.check(x()),
        lambda ledger, x: ledger.check({"age": x()}),
        lambda ledger, x: ledger.reserve(x(), mechanism="x", people=1),
        lambda ledger, x: ledger.reserve("1/1000000", mechanism=x(), people=x()),
        lambda ledger, x: ledger.settle(x()),
        lambda ledger, x: ledger.refuse_other(x()),
        lambda ledger, x: central.Ledger.load(x()),
        lambda ledger, x: central.Ledger.create("new.ledger", x(), x()),
        lambda ledger, x: central.Release.load(x()),
        lambda ledger, x: central.release(x(), x(), spend=x(), ledger=x()),
    ),
}


def _prepared(data: central.Data, mechanism: Any) -> None:
    mechanism.prepare(central.Space(data.schema, "1/4"), data.n)
    mechanism.describe()


def _plain(held: Any) -> Any:
    """Not a function of the user's own, whose errors are the user's."""
    return "x" if callable(held) else held


def call(rng: random.Random) -> tuple[str, int, list[Any]]:
    """A call by its place in the table, and what is passed."""
    owner = rng.choice(("est", "est", "likely", "weighted", *CALLS))
    calls = CALLS["est" if owner in ("likely", "weighted") else owner]
    return owner, rng.randrange(len(calls)), [thing(rng) for _ in range(4)]


def make_call(given: tuple[str, int, list[Any]], folder: Path) -> None:
    owner, place, things = given
    left = iter(things)
    calls = CALLS["est" if owner in ("likely", "weighted") else owner]
    calls[place](_asked()[owner], lambda: next(left))


# Devices


@cache
def _programs() -> tuple[str, ...]:
    kept = (_study(name).device_program().to_text() for name in SMALL)
    return tuple(text for text in kept if len(text) < 20_000)


def program_text(rng: random.Random) -> str:
    """The text of a device program, changed as text or as a document, with the digest that fits."""
    text = rng.choice(_programs())
    if rng.random() < 0.3:
        return mutated(rng, text, _programs())
    documents = tuple(json.loads(held) for held in _programs())
    document = grown(rng, json.loads(text), documents)
    with contextlib.suppress(sf.SfumatoError, TypeError, ValueError, AttributeError, KeyError):
        document["digest"] = digest_of(document)
    try:
        return canonical(document)
    except (TypeError, ValueError, RecursionError):  # a value that JSON has not
        return mutated(rng, text, _programs())


def read_program(text: str, folder: Path) -> None:
    program = sf.Program.read(text)
    assert sf.Program.read(program.to_text(), digest=program.digest).digest == program.digest
    record = {axis.name: 1 for axis in program.axes}
    assert len(program.encode(record)) == program.report_size


@cache
def _batch(name: str) -> bytes:
    study = _study(name)
    packed = study.encode(_people(study)).to_bytes()[45:]
    size = study.device_program().report_size
    reports = tuple(packed[at : at + size] for at in range(0, len(packed), size))
    ids = tuple(bytes([place]) * 16 for place in range(len(reports)))
    return Batch(study.fingerprint, 20_000, ids, reports).to_bytes()


def _people(study: sf.Study) -> dict[str, list[Any]]:
    """Three people in the first cells of every axis."""
    return {
        axis.name: [_label(axis.labels()[cell].split("..")[0]) for cell in (0, 1, 0)]
        for axis in study.axes
    }


def _label(text: str) -> Any:
    """A label as a value: a number where it is one."""
    with contextlib.suppress(ValueError):
        return float(text)
    return text


def batch_bytes(rng: random.Random) -> tuple[str, bytes]:
    """A study's name and a batch, or packed reports, changed."""
    name = rng.choice(SMALL)
    raw = _batch(name)
    if rng.random() < 0.3:
        raw = sf.Reports.from_bytes(raw, _study(name)).to_bytes()
    return name, mutated(rng, raw, [raw])


def read_batch(given: tuple[str, bytes], folder: Path) -> None:
    """Both decoders say the same of a batch, and what is read is written again as it was."""
    name, data = given
    study = _study(name)
    found = _outcome(lambda: sf.Reports.from_bytes(data, study).to_bytes())
    if data[:4] == b"SFMB":
        layout = layout_of(study.layouts)
        alone = _outcome(lambda: Batch.from_bytes(data, layout, study.fingerprint).to_bytes())
        assert alone == found if isinstance(found, str) else alone == data
    else:
        assert isinstance(found, str) or found == data


@cache
def _vectors() -> tuple[tuple[sf.Program, tuple[Any, ...]], ...]:
    """The programs of the vectors, each with its records."""
    held = (
        json.loads(file.read_text(encoding="utf-8")) for file in sorted(VECTORS.glob("*-*.json"))
    )
    return tuple(
        (
            sf.Program.read(canonical(vector["program"])),
            tuple(case["record"] for case in vector["cases"]),
        )
        for vector in held
    )


def _word(rng: random.Random) -> int:
    """A random word, often at an end or in the middle of its range."""
    return rng.choice((0, 1 << 63, (1 << 64) - 1, rng.getrandbits(64)))


def vector(rng: random.Random) -> tuple[int, Any, list[int]]:
    """The place of a vector's program, one of its records, changed, and words."""
    place = rng.randrange(len(_vectors()))
    records = _vectors()[place][1]
    record = dict(rng.choice(records))
    if rng.random() < 0.5:
        record[rng.choice(list(record))] = _cell(rng)
    else:
        record = grown(rng, record, records)
    return place, record, [_word(rng), _word(rng), _word(rng)]


def encode_vector(given: tuple[int, Any, list[int]], folder: Path) -> None:
    """Whatever a record holds, its report is one that the decoder takes."""
    place, record, words = given
    program = _vectors()[place][0]
    report = program.encode(record, words=cycle(words).__next__)
    assert program.layout.pack(program.layout.unpack(report)) == report


def _outcome(read: Callable[[], bytes]) -> str | bytes:
    """What was read, or the code of the refusal."""
    try:
        return read()
    except sf.WireError as error:
        return error.code


#: What devices read and what is read from them; each has as many inputs as is asked for.
DEVICES: dict[str, Target] = {
    "device programs": Target(program_text, read_program),
    "batches": Target(batch_bytes, read_batch),
    "vectors": Target(vector, encode_vector),
}
#: Everything else that reads from outside, with its part of the inputs.
TARGETS: dict[str, Target] = {
    "study files": Target(study_file, read_study, 16),
    "reports": Target(lambda rng: _parquet(rng, "reports"), read_reports, 16),
    "tallies": Target(tally, read_tally, 16),
    "results": Target(result, read_result, 16),
    "ledgers": Target(ledger_file, read_ledger, 16),
    "releases": Target(release_file, read_release, 24),
    "questions": Target(question, read_question, 48),
    "options": Target(option, read_option, 48),
    "tables": Target(csv_file, read_csv, 24),
    "people": Target(people, read_people, 24),
    "arguments": Target(call, make_call, 24),
    "commands": Target(line, run_line, 1),
}


# Targets that break a rule, which the harness must find


def _foreign(given: int, folder: Path) -> None:
    if given == 7:
        raise KeyError(given)


def _endless(given: int, folder: Path) -> None:
    if given == 7:
        10**10**10  # in C, where no Python code could end it


def _large(given: int, folder: Path) -> None:
    if given == 7:
        bytearray(700 << 20)


def _vast(given: int, folder: Path) -> None:
    if given == 7:
        bytearray(1 << 40)


def _telling(given: int, folder: Path) -> None:
    if given == 7:
        raise sf.DataError("a value must be below 100, got 8675309")


def _dying(given: int, folder: Path) -> None:
    if given == 7:
        import ctypes

        ctypes.string_at(0)


def _number(rng: random.Random) -> int:
    return rng.randrange(10)


BROKEN: dict[str, Target] = {
    "KeyError at the target": Target(_number, _foreign),
    "time": Target(_number, _endless),
    "memory": Target(_number, _large),
    "memory, beyond all bounds": Target(_number, _vast),
    "Leak at the target": Target(_number, _telling),
    "exit -11": Target(_number, _dying),
}
