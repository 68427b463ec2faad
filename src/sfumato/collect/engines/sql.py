"""Plain SQL: the query that tallies a table of reports where it is, in a database or warehouse.

The query is built once, as an expression of sqlglot, which writes it for each dialect and quotes
every name. It needs no function that a database may lack: bits and symbols are read from the
hexadecimal digits of bytes, by arithmetic. `query_results` reads what it returns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

from sfumato.checks import one_of
from sfumato.collect.accumulator import KEEPS
from sfumato.collect.block_sums import is_sum
from sfumato.collect.packing import layout_of
from sfumato.collect.query_results import REPORT, SUMS, columns_beside
from sfumato.errors import StudyError, TooLargeError, shown
from sfumato.extras import need
from sfumato.study.study import Study
from sfumato.text import visible

Dialect = Literal["duckdb", "postgres", "spark", "bigquery", "snowflake"]
DIALECTS = ("duckdb", "postgres", "spark", "bigquery", "snowflake")
#: "columns": one column per block, as our Parquet files have. "bytes": packed reports.
Form = Literal["columns", "bytes"]
FORMS = ("columns", "bytes")

_DIGITS = "0123456789ABCDEF"
_AT_ONCE = 1_000  # sums of one SELECT: PostgreSQL allows 1,664
_MOST_BITS = 5_000  # BigQuery and Snowflake take queries of a million letters
_MOST_NUMBER = 1 << 56  # a number of seven bytes: no sum of its digits overflows
_LONGEST_NAME = 63  # bytes; PostgreSQL cuts longer names
# These do not tell two columns apart whose names differ in the case of letters only.
_CASELESS = ("duckdb", "spark", "bigquery")


def tally_query(
    study: Study,
    dialect: Dialect,
    *,
    table: str = "reports",
    form: Form = "columns",
    keep: str = "reports",
) -> str:
    """The query that tallies a table of reports.

    Args:
        study: The study.
        dialect: The database: "duckdb", "postgres", "spark", "bigquery" or "snowflake".
        table: The table, as the database names it.
        form: "columns" if it has the columns of our Parquet files; "bytes" if it has a column
            `report` with packed reports.
        keep: "reports" or "sums", as for an accumulator.
    """
    one_of(dialect, "dialect", DIALECTS)
    one_of(form, "form", FORMS)
    one_of(keep, "keep", KEEPS)
    sqlglot = need("sqlglot")
    writer = _Writer(sqlglot.exp, study, form, _source(sqlglot, table, dialect))
    _refuse_names(study, dialect)
    found = writer.sums() if keep == "sums" and not is_sum(study.layouts) else writer.counts()
    if dialect == "postgres":  # which has another name for it
        found = found.transform(writer.encoded, copy=False)
    text: str = found.sql(dialect=dialect, pretty=True, copy=False)
    return text


def _source(sqlglot: Any, table: str, dialect: str) -> Any:
    """The table as an expression: its names, and nothing else that may stand in a query."""
    exp = sqlglot.exp
    if isinstance(table, str) and dialect == "duckdb" and table.endswith(".parquet"):
        return exp.Table(this=exp.to_identifier(table, quoted=True))
    try:
        found = sqlglot.parse_one(table, dialect=dialect, into=exp.Table)
        names = [part for part in found.parts if isinstance(part, exp.Identifier)]
        plain = exp.Table(**dict(zip(("this", "db", "catalog"), reversed(names), strict=False)))
        good = found == plain and not any(node.comments for node in found.walk())
    except (sqlglot.errors.SqlglotError, TypeError, AttributeError, ValueError):
        good = False
    if not good:
        raise StudyError(
            f"table must be the name of a table, such as reports or archive.reports, got "
            f"{shown(table)}; write names with other characters in quotes: '\"my reports\"'"
        )
    return found


def _refuse_names(study: Study, dialect: str) -> None:
    """Refuse names of columns that the database would take for others."""
    names = study.columns
    long = [name for name in names if len(name.encode()) > _LONGEST_NAME]
    if dialect == "postgres" and long:
        problem = f"PostgreSQL cuts names of more than {_LONGEST_NAME} bytes, such as {long[0]!r}"
    elif dialect in _CASELESS and len({name.casefold() for name in names}) < len(names):
        problem = f"{dialect} does not tell names apart that differ in upper and lower case only"
    elif any(visible(name) != name for name in names):
        problem = "a name has control characters, which a terminal would take for commands"
    else:
        return
    raise StudyError(
        f"this study has no query for {dialect}: {problem}; tally the reports with 'sfumato tally' "
        "instead"
    )


@dataclass(frozen=True)
class _Writer:
    """The queries of one study as expressions of sqlglot.

    Args:
        exp: The module of expressions.
        study: The study.
        form: How the table holds reports.
        source: The table.
    """

    exp: Any
    study: Study
    form: str
    source: Any

    def counts(self) -> Any:
        """How many reports there are of each combination of outputs, or of each packed report."""
        exp, layouts = self.exp, self.study.layouts
        if self.form == "bytes" and all(layout.kind == "symbols" for layout in layouts):
            return self._grouped(self._symbols(), self.study.columns)
        names = [REPORT] if self.form == "bytes" else self.study.columns
        return self._grouped(
            exp.select(*map(self._column, names)).from_(self.source.copy(), copy=False), names
        )

    def _grouped(self, rows: Any, names: Sequence[str]) -> Any:
        """How often each row occurs, and whose reports these are."""
        exp = self.exp
        own, people, reports = columns_beside(names)
        return (
            exp.select(
                exp.Literal.string(self.study.fingerprint).as_(own, quoted=True, copy=False),
                *map(self._column, names),
                self._count().as_(people, quoted=True, copy=False),
                self._total().as_(reports, quoted=True, copy=False),
            )
            .from_(rows.subquery("reports", copy=False), copy=False)
            .group_by(*map(self._column, names), copy=False)
        )

    def sums(self) -> Any:
        """How many reports sent each symbol, or had each bit set, for every block by itself."""
        bits = layout_of(self.study.layouts).bits
        if bits > _MOST_BITS:
            raise TooLargeError(
                f"reports of this study have {bits:,} bits, and a query can sum at most "
                f"{_MOST_BITS:,}: warehouses take none that is longer. Tally the reports with "
                "'sfumato tally --sums' instead"
            )
        parts = list(self._parts_of_sums())
        found = parts[0]
        for part in parts[1:]:
            found = self.exp.union(found, part, distinct=False, copy=False)
        return found

    def _parts_of_sums(self) -> Iterator[Any]:
        """One query per block that sends symbols, and per thousand bits of the others."""
        exp = self.exp
        first = 0  # bit of the packed report
        for place, layout in enumerate(self.study.layouts):
            if layout.kind == "symbols":
                yield self._symbol_sums(place)
                continue
            for start in range(0, layout.count, _AT_ONCE):
                bits = range(start, min(start + _AT_ONCE, layout.count))
                counted = self._bit_counts(place, bits, first)
                yield (
                    exp.select(
                        exp.Literal.string(self.study.fingerprint).as_(
                            "study", quoted=True, copy=False
                        ),
                        exp.Literal.number(place).as_("block", quoted=True, copy=False),
                        self._column("output"),
                        exp.Case(
                            this=self._column("output"),
                            ifs=[self._if(exp.Literal.number(k), f"b{k}") for k in bits],
                        ).as_("people", quoted=True, copy=False),
                        self._column("reports"),
                        self._column("damaged"),
                    )
                    .from_(counted.subquery("sums", copy=False), copy=False)
                    .join(
                        exp.values(
                            [(k,) for k in bits],
                            alias=exp.to_identifier("outputs", quoted=True),
                            columns=[exp.to_identifier("output", quoted=True)],
                        ),
                        join_type="cross",
                        copy=False,
                    )
                )
            first += layout.count

    def _if(self, condition: Any, then: str) -> Any:
        return self.exp.If(this=condition, true=self._column(then))

    def _bit_counts(self, place: int, bits: range, first: int) -> Any:
        """How many reports have each of some bits set, how many there are, and how many are none.

        Args:
            place: The block.
            bits: The bits of it.
            first: Where the block's bits begin in a packed report.
        """
        exp, packed = self.exp, layout_of(self.study.layouts)
        name, size, width = self.study.columns[place], 0, self.study.layouts[place].count
        front = at = 0
        if self.form == "bytes":
            name, size, width, at = REPORT, packed.symbol_bytes, packed.bits, first
            front = 2 * size
        length = front + 2 * math.ceil(width / 8)
        good = [exp.EQ(this=self._length(), expression=exp.Literal.number(length))]
        good += [
            self._is_digit(front + _digit(bit), lambda digit, bit=bit: not digit >> (bit % 4))
            for bit in _first_spare(width)
        ]
        if size:
            good.append(
                exp.LT(this=self._number(size), expression=exp.Literal.number(self._combinations()))
            )
        whole = exp.Case(
            ifs=[exp.If(this=exp.and_(*good, copy=False), true=exp.null())],
            default=exp.Literal.number(1),
        )
        held = [
            exp.Count(
                this=exp.Case(
                    ifs=[
                        exp.If(
                            this=self._is_digit(
                                front + _digit(at + k), lambda d, k=k: d >> ((at + k) % 4) & 1
                            ),
                            true=exp.Literal.number(1),
                        )
                    ]
                ),
                big_int=True,
            ).as_(f"b{k}", quoted=True, copy=False)
            for k in bits
        ]
        return exp.select(
            self._count().as_("reports", quoted=True, copy=False),
            exp.Count(this=whole, big_int=True).as_("damaged", quoted=True, copy=False),
            *held,
        ).from_(self._digits(name).subquery("packed", copy=False), copy=False)

    def _symbol_sums(self, place: int) -> Any:
        """How many reports sent each symbol of a block."""
        exp, name = self.exp, self.study.columns[place]
        rows = (
            self._symbols()
            if self.form == "bytes"
            else exp.select(self._column(name)).from_(self.source.copy(), copy=False)
        )
        values = {
            "block": exp.Literal.number(place),
            "output": self._column(name),
            "people": self._count(),
            "reports": self._total(),
            "damaged": exp.Literal.number(0),
        }
        return (
            exp.select(
                exp.Literal.string(self.study.fingerprint).as_("study", quoted=True, copy=False),
                *(values[held].as_(held, quoted=True, copy=False) for held in SUMS),
            )
            .from_(rows.subquery("reports", copy=False), copy=False)
            .group_by(self._column(name), copy=False)
        )

    def _symbols(self) -> Any:
        """The symbols of packed reports, one column per block that sends them; NULL if damaged."""
        exp, packed = self.exp, layout_of(self.study.layouts)
        self._combinations()
        good = exp.EQ(this=self._length(), expression=exp.Literal.number(2 * packed.size))
        number = exp.Case(ifs=[exp.If(this=good, true=self._number(packed.symbol_bytes))])
        numbers = exp.select(number.as_("n", quoted=True, copy=False)).from_(
            self._digits(REPORT).subquery("packed", copy=False), copy=False
        )
        pairs = [
            (name, layout)
            for name, layout in zip(self.study.columns, self.study.layouts, strict=True)
            if layout.kind == "symbols"
        ]
        columns: list[Any] = []
        below = 1  # combinations of the symbols after this one
        for name, layout in reversed(pairs):
            symbol = self._column("n")
            if below > 1:
                # What is divided is a multiple: no database rounds the result, or only to itself.
                less = exp.Mod(this=symbol.copy(), expression=exp.Literal.number(below))
                whole = exp.paren(exp.Sub(this=symbol, expression=less))
                symbol = exp.IntDiv(this=whole, expression=exp.Literal.number(below))
            if len(columns) < len(pairs) - 1:  # the first one shows a number beyond all of them
                symbol = exp.Mod(
                    this=exp.paren(symbol), expression=exp.Literal.number(layout.count)
                )
            columns.append(exp.cast(symbol, "BIGINT").as_(name, quoted=True, copy=False))
            below *= layout.count
        return exp.select(*reversed(columns)).from_(
            numbers.subquery("numbers", copy=False), copy=False
        )

    def _combinations(self) -> int:
        """How many combinations of symbols there are, if arithmetic can tell them apart."""
        found = layout_of(self.study.layouts).combinations
        if found > _MOST_NUMBER:
            blocks = ", ".join(
                f"{layout.count:,} of {name!r}"
                for name, layout in zip(self.study.columns, self.study.layouts, strict=True)
                if layout.kind == "symbols"
            )
            raise TooLargeError(
                "SQL cannot unpack these reports: their symbols form a number of more than seven "
                f"bytes ({blocks}). Unpack them with 'sfumato unpack', and query the columns with "
                "form='columns'"
            )
        return found

    def _number(self, size: int) -> Any:
        """The number in the first bytes of a packed report, the lowest byte first."""
        exp = self.exp
        terms = []
        for place in range(2 * size):
            digit = exp.StrPosition(this=exp.Literal.string(_DIGITS), substr=self._digit(place))
            value = exp.cast(exp.paren(digit - 1), "BIGINT")
            power = exp.Literal.number(16 ** (place ^ 1))  # the higher digit of a byte comes first
            terms.append(exp.Mul(this=value, expression=power))
        return reduce(lambda a, b: exp.Add(this=a, expression=b), terms, exp.Literal.number(0))

    def _digits(self, name: str) -> Any:
        """The hexadecimal digits of a column of bytes."""
        exp = self.exp
        found = exp.Hex(this=self._column(name))
        return exp.select(found.as_("h", quoted=True, copy=False)).from_(
            self.source.copy(), copy=False
        )

    def encoded(self, node: Any) -> Any:
        """An expression in the words of PostgreSQL."""
        exp = self.exp
        if not isinstance(node, exp.Hex):
            return node
        hexed = exp.Anonymous(this="ENCODE", expressions=[node.this, exp.Literal.string("hex")])
        return exp.Upper(this=hexed)

    def _length(self) -> Any:
        return self.exp.Length(this=self._column("h"))

    def _digit(self, place: int) -> Any:
        """One digit."""
        exp = self.exp
        return exp.Substring(
            this=self._column("h"),
            start=exp.Literal.number(place + 1),
            length=exp.Literal.number(1),
        )

    def _is_digit(self, place: int, holds: Any) -> Any:
        """Whether a digit is one of those for which something holds."""
        exp = self.exp
        chosen = [exp.Literal.string(_DIGITS[d]) for d in range(16) if holds(d)]
        return exp.In(this=self._digit(place), expressions=chosen)

    def _count(self) -> Any:
        return self.exp.Count(this=self.exp.Star(), big_int=True)

    def _total(self) -> Any:
        """How many reports there are in all groups: a result that was cut does not reach it."""
        return self.exp.cast(self.exp.Window(this=self.exp.Sum(this=self._count())), "BIGINT")

    def _column(self, name: str) -> Any:
        return self.exp.column(self.exp.to_identifier(name, quoted=True))


def _digit(bit: int) -> int:
    """Which hexadecimal digit holds a bit: two to a byte, the higher one first."""
    return bit // 4 ^ 1


def _first_spare(width: int) -> list[int]:
    """The first bit that must be zero in each digit of the last byte that has one."""
    end = math.ceil(width / 8) * 8
    return [bit for bit in range(width, end) if bit == width or bit % 4 == 0]
