"""Mutations of texts, bytes, parsed documents and Arrow tables; all from the randomness given."""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from scipy import sparse

#: What breaks parsers: numbers out of bounds, punctuation, markup, control characters, depth.
TOKENS = (
    *("1e300000000", "-1e300000000", "1e-300000000", "1E9999999999999999999", "9" * 5_000),
    *("nan", "NaN", "inf", "-Infinity", "Infinity", "-0", "0", "-1", "1.9", "1/0", "1/3", "0/0"),
    *("0x10", "1_000", "٣", "½", "1e", "e1", "+", "--", "1..", "..", "...", "1..2..3", "9" * 400),
    *(str(2**31), str(2**53 + 1), str(2**63), str(2**64), str(10**30), "1e400", "5e-324"),
    *("'", '"', "''", "'''", '"""', "`", "\\", "\\u0000", "\\ud800", "%s", "{0}", "${x}", "$(x)"),
    *(",", "=", "|", ":", "==", ",,", "||", "=|", ", ,", ";", "#", "[", "]", "[[", "]]", "{", "}"),
    *("[/b]", "[bold]", "[link=x]", "<b>", "<script>", "&amp;", "\x1b[31m", "\x07", "\x00", "\r"),
    *("\n", "\r\n", "\t", "\x0b", "\u2028", "\u202e", "\ufeff", "\u200b", "é", "e\u0301", "💥"),
    *("true", "false", "null", "None", "[]", "{}", '""', "no answer", "everyone", "total", "kind"),
    *("2024-02-30", "0000-00-00", "9999-12-31", "24:00", "25:61", "2024-01-01T00:00:00Z", "1 week"),
    *("age", "region", "income", "x" * 300, "-", "--json", "@", "*", "?"),
)
#: Tokens that cost something, drawn seldom.
HEAVY = ("[" * 20_000, '{"a":' * 20_000, "(" * 20_000, "9" * 200_000, "a," * 20_000, "x" * 200_000)

Text = TypeVar("Text", str, bytes)


def _token(rng: random.Random) -> str:
    """A hostile piece of text."""
    return rng.choice(HEAVY if rng.random() < 0.01 else TOKENS)


def _slice(rng: random.Random, size: int, most: int = 64) -> slice:
    """A part of something, small or large."""
    start = rng.randrange(size + 1)
    return slice(
        start, min(size, start + rng.randrange(1, most if rng.random() < 0.8 else size + 2))
    )


def mutated(rng: random.Random, held: Text, others: Sequence[Text]) -> Text:
    """A text or bytes after one to four changes.

    Args:
        rng: Randomness.
        held: What is changed.
        others: Others of its kind, from which parts are taken.
    """
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        place, cut = rng.randrange(len(held) + 1), _slice(rng, len(held))
        change = rng.randrange(8)
        if change == 0:  # a letter or byte
            spot = slice(place, place + 1)
            held = held[:place] + _letter(rng, held[spot]) + held[place + 1 :]
        elif change == 1:  # less
            held = held[: cut.start] + held[cut.stop :]
        elif change == 2:  # the beginning
            held = held[:place]
        elif change == 3:  # twice
            held = held[: cut.stop] + held[cut] + held[cut.stop :]
        elif change == 4:  # of another
            other = rng.choice(others)
            held = held[:place] + other[_slice(rng, len(other))] + held[cut.stop :]
        elif change == 5:  # beginning of one and end of another
            other = rng.choice(others)
            held = held[:place] + other[rng.randrange(len(other) + 1) :]
        else:  # something hostile, in place of something or beside it
            token = _token(rng)
            new: Any = token if isinstance(held, str) else token.encode("utf-8", "surrogatepass")
            held = held[: cut.start] + new + held[cut.start if change == 6 else cut.stop :]
    return held


def _letter(rng: random.Random, held: Any) -> Any:
    """Another letter or byte."""
    if isinstance(held, bytes):
        return (
            bytes([held[0] ^ 1 << rng.randrange(8) if rng.random() < 0.5 else rng.randrange(256)])
            if held
            else b"\0"
        )
    return chr(rng.choice((rng.randrange(128), rng.randrange(128), rng.randrange(0xD800))))


SIMPLE: tuple[Any, ...] = (
    *(True, False, 0, 1, -1, 2, 3, 7, 255, 2**31, -(2**31), 2**53 + 1, 2**63, -(2**63), 2**64),
    *(10**30, 10**400, 0.0, -0.0, 0.5, 1.9, -1.5, 1e308, 5e-324, math.nan, math.inf, -math.inf),
    *("", " ", "x", "1", "1/2", "0.1", "north", [], {}, [[]], [{}], {"": 0}, {"kind": "uniform"}),
    *(["a"], ["a", "a"], [0, 1], [1, "a"], {"kind": 1}, {"kind": "x"}, [None], None),
    *(date(2024, 1, 1), datetime(2024, 1, 1), time(12)),
)


def value(rng: random.Random) -> Any:
    """A value that a document should not hold where it holds another."""
    return _token(rng) if rng.random() < 0.3 else copy.deepcopy(rng.choice(SIMPLE))


def _alike(rng: random.Random, held: Any) -> Any:
    """Another value of the same kind, which may well be right."""
    if isinstance(held, bool):
        return not held
    if isinstance(held, (int, float)):
        return rng.choice((0, 1, 2, 5, 12, 100, held + 1, held - 1, held * 2, -held, 0.5, 1.5))
    if isinstance(held, str):
        return rng.choice((held[:-1], held + "x", held.upper(), held * 2, "1/2", "geometric"))
    if isinstance(held, list):
        return [held[k] for k in sorted(rng.sample(range(len(held)), rng.randrange(len(held) + 1)))]
    return held


def _places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all parts of a document."""
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree)
    found = []
    for key, part in pairs:
        found.append((*path, key))
        if isinstance(part, (dict, list)):
            found += _places(part, (*path, key))
    return found


def _at(tree: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def grown(rng: random.Random, tree: Any, others: Sequence[Any]) -> Any:
    """A document of dicts and lists after one to three changes; the original is left alone.

    Args:
        rng: Randomness.
        tree: The document.
        others: Others of its kind, from which parts are taken.
    """
    tree = copy.deepcopy(tree)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = _places(tree)
        if not places:
            return value(rng)
        *path, key = rng.choice(places)
        parent = _at(tree, tuple(path))
        change = rng.randrange(10)
        if change == 0:
            del parent[key]
        elif change == 1 and isinstance(parent, dict):
            parent[_token(rng) if rng.random() < 0.5 else "kind"] = parent.pop(key)
        elif change == 1:
            parent.insert(key, copy.deepcopy(parent[key]))
        elif change == 2:
            parent[key] = [parent[key]] if rng.random() < 0.5 else {"kind": parent[key]}
        elif change == 3:  # a part of another document, or of this one
            other = rng.choice([tree, *others])
            ways = _places(other)
            parent[key] = copy.deepcopy(_at(other, rng.choice(ways))) if ways else value(rng)
        elif change == 4 and isinstance(parent, dict):
            parent[_token(rng)] = value(rng)
        elif change == 4:
            parent[:] = parent * rng.choice((2, 3, 50))
        elif change < 8:
            parent[key] = _alike(rng, parent[key])
        else:
            parent[key] = value(rng)
    return tree


THINGS: tuple[Callable[[], Any], ...] = (
    *(lambda: (1, 2), lambda: (None, None), lambda: (None,), lambda: {1, 2}, lambda: {"x"}),
    *(lambda: [(1, 2), None], lambda: [[1, 2], [3]], lambda: [[]], lambda: set, lambda: "age"),
    *(lambda: object(), lambda: print, lambda: int, lambda: iter([1]), lambda: range(3)),
    *(lambda: b"age", lambda: Decimal("0.5"), lambda: Fraction(1, 2), lambda: 1j, lambda: ...),
    *(lambda: np.zeros(0), lambda: np.zeros((2, 0)), lambda: np.ones((1, 10)), lambda: np.nan),
    *(lambda: np.ones(10), lambda: np.full((1, 10), np.nan), lambda: np.full(10, np.inf)),
    *(lambda: np.ones((2, 2, 2)), lambda: np.array("x"), lambda: np.array([None] * 10)),
    *(lambda: np.eye(10), lambda: [1] * 10, lambda: [0.1] * 10, lambda: ["a"] * 10),
    *(
        lambda: {"age": (1, 5)},
        lambda: {"age": [1, (2, None)]},
        lambda: {7: 1},
        lambda: {None: 1},
    ),
    *(lambda: {"age": {}}, lambda: {"age": None}, lambda: {"nobody": 1}, lambda: "age=1..5"),
    *(lambda: [0.1, 0.5], lambda: [0.5, 2], lambda: 0.5, lambda: "unbiased", lambda: "auto"),
    *(lambda: np.float32(0.5), lambda: np.int8(3), lambda: np.bool_(True), lambda: [True] * 10),
    *(lambda: [10**30] * 10, lambda: [-1] * 10, lambda: [1.5] * 10, lambda: [2**62] * 10),
    *(
        lambda: pa.array([1, 2]),
        lambda: sparse.csr_array(np.eye(10)),
        lambda: sparse.csr_array((3, 10)),
    ),
)


def thing(rng: random.Random) -> Any:
    """What somebody may pass where a number, a list, an axis or a question is expected."""
    return value(rng) if rng.random() < 0.5 else rng.choice(THINGS)()


def column(rng: random.Random, rows: int) -> pa.Array:
    """An Arrow column of a type that reports and tallies do not have, or of bad values."""
    simple: tuple[tuple[Any, pa.DataType], ...] = (
        (1.9, pa.float64()),
        (1.0, pa.float32()),
        (math.nan, pa.float64()),
        (math.inf, pa.float64()),
        (1e30, pa.float64()),
        ("7", pa.string()),
        ("7", pa.large_string()),
        (b"7", pa.binary()),
        (b"7", pa.binary(1)),
        (b"", pa.binary(0)),
        (b"7" * 16, pa.binary(16)),
        (True, pa.bool_()),
        (None, pa.null()),
        (None, pa.int64()),
        (1, pa.int8()),
        (1, pa.uint64()),
        (-1, pa.int64()),
        (0, pa.int64()),
        (2**31, pa.int64()),
        (2**53 + 1, pa.int64()),
        (2**62, pa.int64()),
        (2**63 - 1, pa.int64()),
        (2**64 - 1, pa.uint64()),
        (-(2**63), pa.int64()),
        (datetime(2024, 1, 1), pa.timestamp("us")),
        (datetime(2024, 1, 1), pa.timestamp("ns", "UTC")),
        (date(2024, 1, 1), pa.date32()),
        (time(12), pa.time64("us")),
        (Decimal(7), pa.decimal128(5, 0)),
        ({"a": 1}, pa.struct([("a", pa.int64())])),
        ([1], pa.list_(pa.int64())),
        ([("a", 1)], pa.map_(pa.string(), pa.int64())),
    )
    held, kind = rng.choice(simple)
    values = [held] * rows
    if rows and rng.random() < 0.2:
        values[rng.randrange(rows)] = None
    made = pa.array(values, type=kind)
    if rng.random() < 0.1 and kind not in (pa.null(),) and not pa.types.is_nested(kind):
        made = made.dictionary_encode()
    return made


def table(rng: random.Random, held: pa.Table) -> pa.Table:
    """A table of reports or counts after one to three changes of columns or metadata.

    Args:
        rng: Randomness.
        held: The table.
    """
    for _ in range(rng.choice((1, 1, 2, 3))):
        change, at = rng.randrange(8), rng.randrange(max(held.num_columns, 1))
        name = held.column_names[at] if held.num_columns else "x"
        if change == 0 and held.num_columns:
            held = held.remove_column(at)
        elif change == 1 and held.num_columns:
            held = held.append_column(name, held.column(at))
        elif change == 2:
            held = held.append_column(
                _token(rng)[:300].replace("\0", ""), column(rng, held.num_rows)
            )
        elif change == 3:
            held = held.slice(rng.randrange(held.num_rows + 1), rng.randrange(held.num_rows + 1))
        elif change == 4:
            raw = (held.schema.metadata or {}).get(b"sfumato", b"{}")
            held = held.replace_schema_metadata({b"sfumato": _head(rng, raw)})
        elif held.num_columns:
            field = held.schema.field(at)
            new = column(rng, held.num_rows)
            held = held.set_column(at, pa.field(field.name, new.type), new)
    return held


def _head(rng: random.Random, raw: bytes) -> bytes:
    """Changed metadata."""
    if rng.random() < 0.3:
        return mutated(rng, raw, [raw])
    try:
        return json.dumps(grown(rng, json.loads(raw), []), default=str).encode("utf-8", "replace")
    except (ValueError, TypeError, RecursionError):  # TypeError: it is a number by now
        return raw[: rng.randrange(len(raw) + 1)]
