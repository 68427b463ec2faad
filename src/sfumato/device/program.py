"""Device programs: a study compiled to data, read strictly and run for one record.

Only the standard library is loaded. The document is specified in "Device programs" in the
documentation; `sfumato.study` compiles it (`Study.device_program`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Any

from sfumato.device.interpreter import (
    DRAWS,
    MOST_DIGITS,
    OPERATIONS,
    WORD_BITS,
    Constant,
    Machine,
    WordSource,
    secure_words,
)
from sfumato.device.values import ROUNDING_BITS, DeviceAxis
from sfumato.device.wire import ReportLayout
from sfumato.errors import DataError, FormatError, MismatchError
from sfumato.text import DIGITS

FORMAT = "sfumato-program"
VERSION = 1
MOST_BYTES = 1 << 24
MOST_ENTRIES = 1 << 22  # of all tables, so that a reader's memory is bounded
MOST_CELLS = 1 << 24
_MOST_DEPTH = 8
_MOST_FACTORS = 8
_EXACT = 1 << 53

_INTEGER = re.compile(r"0|-?[1-9][0-9]*")
_HEX = re.compile(r"[0-9a-f]{64}")
_DOUBLE = re.compile(r"[0-9a-f]{16}")
_FRACTION = re.compile(r"(?:0|[1-9][0-9]{0,400})(?:/[1-9][0-9]{0,400})?")

#: How many values the operations take that do not take two.
_ARGUMENTS = {"lowbit": 1, "parity": 1, "select": 3, "clamp": 3}


class Program:
    """A study compiled for devices: values become cells, and cells reports, by integers alone.

    Attributes:
        name: What the study is called.
        fingerprint: The study's fingerprint.
        digest: SHA-256 of the document: what an app pins.
        most: The largest E between two records; None if it is unbounded.
        layout: How the results of the blocks are written as bytes.

    Example:
        >>> import sfumato as sf
        >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
        >>> text = study.device_program().to_text()
        >>> program = Program.read(text, digest=study.device_program().digest)
        >>> len(program.encode({"age": 31}))
        1
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        _keys(document, "it", ("format", "version", *_ENTRIES, "digest"))
        self._document = dict(document)
        self.name: str = _text(document["name"], "name")
        self.fingerprint: str = _matching(document["fingerprint"], _HEX, "fingerprint")
        most = document["most"]
        self.most = None if most is None else Fraction(_matching(most, _FRACTION, "most"))
        self.digest = _matching(document["digest"], _HEX, "digest")
        found = digest_of(document)
        if found != self.digest:
            raise MismatchError(
                f"this device program says that its digest is {self.digest[:12]}…, and it is "
                f"{found[:12]}…: the program was edited or damaged; get it again"
            )
        entries = _Budget()
        self.tables = tuple(_table(held, entries) for held in _list(document["tables"], "tables"))
        self.axes = tuple(_axis(held) for held in _list(document["axes"], "axes"))
        names = [axis.name for axis in self.axes]
        if len(set(names)) != len(names):
            raise _damaged("names of axes must differ")
        kinds = [_ROWS.get(held["kind"], held["kind"]) for held in document["tables"]]
        self.blocks = tuple(
            _block(held, self.axes, kinds) for held in _list(document["blocks"], "blocks")
        )
        covered = [axis for block in self.blocks for axis in block.axes]
        if not covered or covered != list(range(len(self.axes))):
            raise _damaged("blocks must cover every axis once, in their order")
        self.layout = ReportLayout(tuple((block.kind, block.count) for block in self.blocks))

    @classmethod
    def read(cls, text: str | bytes, *, digest: str | None = None) -> Program:
        """Read a device program; a damaged, edited or newer one is refused.

        Args:
            text: The document (JSON).
            digest: The digest that was pinned or bundled; any other program is refused.

        Raises:
            FormatError: If it is not a device program, or one of another version.
            MismatchError: If its digest is another one.
        """
        document = _parsed(text)
        if document.get("format") != FORMAT:
            raise FormatError(
                "this is not a device program; write one with study.device_program() or "
                "'sfumato program'"
            )
        if type(document.get("version")) is not int or document["version"] != VERSION:
            raise FormatError(
                f"this device program has another version than {VERSION}, which is the one read "
                "here; update the client, or compile the study with this version"
            )
        program = cls(document)
        if digest is not None and digest != program.digest:
            raise MismatchError(
                f"this device program has the digest {program.digest[:12]}…, and the app has "
                f"pinned {str(digest)[:12]}…; use the program that was released with the app"
            )
        return program

    @property
    def report_size(self) -> int:
        """Bytes of a report."""
        return self.layout.size

    def to_text(self) -> str:
        """The document in its canonical form."""
        return canonical(self._document)

    def __repr__(self) -> str:
        return f"<device program of study {self.name!r}: {self.digest[:12]}>"

    def codes(self, record: Mapping[str, object]) -> tuple[int, ...]:
        """The code of a record on every axis.

        Raises:
            DataError: If a value is missing or does not fit; values are never shown.
        """
        if not isinstance(record, Mapping):
            raise DataError(
                f"a record must be a dict of values by axis name, got {type(record).__name__}"
            )
        return tuple(axis.code(record.get(axis.name)) for axis in self.axes)

    def results(self, codes: Sequence[int], words: WordSource | None = None) -> tuple[int, ...]:
        """The result of every block: what a report says.

        Args:
            codes: The code of the record on every axis.
            words: Where random words come from; left out, the operating system's secure source.
        """
        machine = Machine(self.tables, secure_words() if words is None else words)
        return tuple(self.result(machine, block, codes) for block in self.blocks)

    def result(self, machine: Machine, block: Block, codes: Sequence[int]) -> int:
        """The result of one block.

        Args:
            machine: What runs its code.
            block: The block.
            codes: The code of the record on every axis.
        """
        found = machine.run(block.code, block.cell(codes))
        if not 0 <= found < (block.count if block.kind == "symbols" else 1 << block.count):
            raise _damaged("a result lies outside of its block's outputs")
        return found

    def encode(self, record: Mapping[str, object], *, words: WordSource | None = None) -> bytes:
        """Perturb one record: the bytes of its report.

        Args:
            record: Values by axis name; others are ignored.
            words: Where random words come from; left out, the operating system's secure source.

        Raises:
            DataError: If a value is missing or does not fit; values are never shown.
        """
        return self.layout.pack(self.results(self.codes(record), words))


class Block:
    """Some axes of a program, and the code that perturbs them.

    Args:
        axes: Places of the axes.
        sizes: Number of cells of each.
        kind: "symbols" or "bits".
        count: How many there are.
        code: The instructions.
    """

    __slots__ = ("axes", "code", "count", "kind", "sizes")

    def __init__(
        self,
        axes: tuple[int, ...],
        sizes: tuple[int, ...],
        kind: str,
        count: int,
        code: Sequence[Sequence[Any]],
    ) -> None:
        self.axes, self.sizes, self.kind = axes, sizes, kind
        self.count, self.code = count, code

    def cell(self, codes: Sequence[int]) -> int:
        """The cell in C order of the block's axes, from the codes on all axes."""
        cell = 0
        for axis, size in zip(self.axes, self.sizes, strict=True):
            cell = cell * size + codes[axis]
        return cell


def canonical(document: Mapping[str, Any]) -> str:
    """The one form of a document from which its digest is computed."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest_of(document: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical form of all entries but the digest."""
    rest = {key: value for key, value in document.items() if key != "digest"}
    try:
        return hashlib.sha256(canonical(rest).encode()).hexdigest()
    except UnicodeEncodeError:
        raise _damaged("texts must be valid Unicode") from None


# What is read is checked entry by entry.

_ENTRIES = ("name", "fingerprint", "most", "axes", "tables", "blocks")


def _damaged(rule: str) -> FormatError:
    """What to say of a document that breaks a rule."""
    return FormatError(f"this device program is damaged: {rule}; get it again")


def _parsed(text: str | bytes) -> dict[str, Any]:
    """The JSON object that a text holds; it must be written as `canonical` writes it."""
    if len(text) > MOST_BYTES:
        raise FormatError(f"a device program must have at most {MOST_BYTES:,} bytes, got more")
    try:
        given = text.decode() if isinstance(text, bytes) else text
        found = json.loads(given)
        same = canonical(found) == given
    except (ValueError, RecursionError):
        raise FormatError(
            "a device program must be JSON, and this is not; get the program again"
        ) from None
    if not isinstance(found, dict):
        raise FormatError("a device program must be a JSON object; get the program again")
    if not same:
        raise _damaged("its text must be the canonical one, as the compiler writes it")
    return found


def _keys(held: Any, what: str, wanted: Sequence[str]) -> None:
    """Refuse other entries than those wanted."""
    if not isinstance(held, Mapping) or set(held) != set(wanted):
        raise _damaged(f"{what} must have the entries {', '.join(wanted)} and no others")


def _list(held: Any, what: str) -> list[Any]:
    """A list."""
    if not isinstance(held, list):
        raise _damaged(f"{what} must be a list")
    return held


def _text(held: Any, what: str) -> str:
    """A text."""
    if not isinstance(held, str):
        raise _damaged(f"{what} must be a text")
    return held


def _matching(held: Any, form: re.Pattern[str], what: str) -> str:
    """A text of some form."""
    if not isinstance(held, str) or form.fullmatch(held) is None:
        raise _damaged(f"{what} does not have the form it must have")
    return held


def _small(held: Any, what: str, low: int, high: int) -> int:
    """A JSON number between two bounds."""
    if type(held) is not int or not low <= held <= high:
        raise _damaged(f"{what} must be a whole number from {low} to {high}")
    return held


def _integer(held: Any, what: str) -> int:
    """An integer as text."""
    if not isinstance(held, str) or len(held) > MOST_DIGITS // 3:
        raise _damaged(f"{what} must be an integer as text")
    digits = _matching(held, _INTEGER, what)
    if len(digits) <= 4000:
        return int(digits)
    return _long(digits)


def _long(digits: str) -> int:
    """An integer of more digits than Python reads at once."""
    sign, digits = (-1, digits[1:]) if digits[0] == "-" else (1, digits)
    found = 0
    for start in range(0, len(digits), 4000):
        part = digits[start : start + 4000]
        found = found * 10 ** len(part) + int(part)
    return sign * found


class _Budget:
    """How many entries tables may still have."""

    def __init__(self) -> None:
        self._left = MOST_ENTRIES

    def take(self, count: int) -> None:
        """Entries that are about to be made."""
        self._left -= count
        if self._left < 0:
            raise _damaged(f"tables must have at most {MOST_ENTRIES:,} entries in all")


def _runs(held: Any, budget: _Budget) -> list[int]:
    """The integers that runs stand for; none may be negative."""
    found: list[int] = []
    for item in _list(held, "runs"):
        if isinstance(item, str):
            budget.take(1)
            found.append(_integer(item, "an entry of a table"))
            continue
        if not isinstance(item, list) or not 2 <= len(item) <= 4:
            raise _damaged("a run must be an integer, or a list of two to four")
        count = _small(item[-1], "the length of a run", 0, MOST_ENTRIES)
        budget.take(count)
        found += _run([_integer(part, "a run") for part in item[:-1]], count)
    if any(number < 0 for number in found):
        raise _damaged("entries of tables must not be negative")
    return found


def _run(parts: Sequence[int], count: int) -> list[int]:
    """A number again and again, in equal steps, or falling by a ratio."""
    if len(parts) == 1:
        return [parts[0]] * count
    if len(parts) == 2:
        first, step = parts
        return [first + step * k for k in range(count)]
    number, up, down = parts
    if number < 0 or up < 1 or down < 0:
        raise _damaged("a ratio must be that of positive integers")
    found = []
    for _ in range(count):
        found.append(number)
        number = -(-number * down // up)
        if number.bit_length() > MOST_DIGITS:
            raise _damaged(f"entries must have at most {MOST_DIGITS} binary digits")
    return found


def _table(held: Any, budget: _Budget) -> tuple[Any, int]:
    """A table as the machine takes it, and how many bits of a word decide."""
    kind = held.get("kind") if isinstance(held, Mapping) else None
    if kind == "numbers":
        _keys(held, "a table", ("kind", "runs"))
        return _runs(held["runs"], budget), 0
    if kind == "weights":
        _keys(held, "a table", ("kind", "bits", "runs", "mirrored"))
        bits = _small(held["bits"], "bits", 1, WORD_BITS)
        weights = _runs(held["runs"], budget)
        if type(held["mirrored"]) is not bool:
            raise _damaged("mirrored must be true or false")
        if held["mirrored"]:
            budget.take(len(weights))
            weights = weights[:0:-1] + weights
        return _sums(weights, bits), bits
    if kind == "rows":
        _keys(held, "a table", ("kind", "bits", "rows"))
        bits = _small(held["bits"], "bits", 1, WORD_BITS)
        rows = _list(held["rows"], "rows")
        return [_sums(_runs(row, budget), bits) for row in rows], bits
    if kind == "products":
        _keys(held, "a table", ("kind", "bits", "base", "shares", "factors", "shift", "places"))
        bits = _small(held["bits"], "bits", 1, WORD_BITS)
        return [_sums(row, bits) for row in _products(held, 1 << bits, budget)], bits
    if kind == "chances":
        _keys(held, "a table", ("kind", "bits", "runs"))
        bits = _small(held["bits"], "bits", 1, WORD_BITS)
        chances = _runs(held["runs"], budget)
        if any(chance > 1 << bits for chance in chances):
            raise _damaged("a chance must be at most 2^bits")
        return chances, bits
    raise _damaged("a table must be of the kind numbers, weights, rows, products or chances")


def _products(held: Mapping[str, Any], total: int, budget: _Budget) -> Iterator[list[int]]:
    """Rows of weights: base + (share · factors >> shift), and last what is left of the total."""
    base = _integer(held["base"], "base")
    shares = _runs(held["shares"], budget)
    factors = [_runs(factor, budget) for factor in _list(held["factors"], "factors")]
    shift = _small(held["shift"], "shift", 0, MOST_DIGITS)
    places = [_text(line, "places") for line in _list(held["places"], "places")]
    count = len(factors)
    if base < 0 or not 1 <= count <= _MOST_FACTORS or len(shares) != len(places) or not shares:
        raise _damaged("products must have one to eight factors, and places for each share")
    length = len(places[0])
    if length % count or any(len(line) != length for line in places):
        raise _damaged("places must have as many digits for every share, one per factor")
    budget.take(length // count * (len(shares) + 1))
    if any(number > 1 << WORD_BITS for factor in factors for number in factor):
        raise _damaged("a factor must be at most 2^64")
    digits = {letter: digit for digit, letter in enumerate(DIGITS)}
    try:
        for start in range(0, length, count):
            row = []
            for share, line in zip(shares, places, strict=True):
                for letter, factor in zip(line[start : start + count], factors, strict=True):
                    share *= factor[digits[letter]]
                row.append(base + (share >> shift))
            rest = total - sum(row)
            if rest < 0:
                raise _damaged("the weights of a table must sum to 2^bits")
            yield [*row, rest]
    except (KeyError, IndexError):
        raise _damaged("places must be digits of entries of their factors") from None


def _sums(weights: Sequence[int], bits: int) -> list[int]:
    """Cumulative sums of weights, the last of which must be 2^bits."""
    found = list(accumulate(weights))
    if not found or found[-1] != 1 << bits:
        raise _damaged("the weights of a table must sum to 2^bits")
    return found


_AXIS = ("name", "optional", "outside", "kind")
_KINDS = {
    "integers": ("low", "high"),
    "reals": ("edges", "rounding"),
    "dates": ("first", "step", "cells"),
    "times": ("first", "step", "cells", "of_day"),
    "categories": ("labels",),
}


def _axis(held: Any) -> DeviceAxis:
    """An axis, its entries checked."""
    kind = held.get("kind") if isinstance(held, Mapping) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise _damaged(f"an axis must be of the kind {', '.join(_KINDS)}")
    _keys(held, "an axis", (*_AXIS, *_KINDS[kind]))
    _text(held["name"], "the name of an axis")
    if type(held["optional"]) is not bool or held["outside"] not in ("refuse", "clip"):
        raise _damaged("an axis must be optional or not, and refuse or clip")
    _CHECKS[kind](held)
    found = DeviceAxis(held)
    if found.places > 1 and held["optional"]:
        raise _damaged("an axis with rounding must not be optional")
    if not 1 <= found.cells <= MOST_CELLS + 1:
        raise _damaged(f"an axis must have 1 to {MOST_CELLS:,} cells")
    return found


def _check_integers(held: Mapping[str, Any]) -> None:
    low, high = (_integer(held[name], name) for name in ("low", "high"))
    if not -_EXACT < low <= high < _EXACT:
        raise _damaged("low and high must be in order and within ±(2^53 − 1)")


def _check_reals(held: Mapping[str, Any]) -> None:
    if type(held["rounding"]) is not int or held["rounding"] not in (0, ROUNDING_BITS):
        raise _damaged(f"rounding must be 0 or {ROUNDING_BITS}")
    edges = held["edges"]
    if isinstance(edges, list):
        for edge in edges:
            _matching(edge, _DOUBLE, "an edge")
        return
    _keys(edges, "edges", ("first", "step", "below", "count"))
    for name in ("first", "step", "below"):
        if abs(_integer(edges[name], name)) >= _EXACT:
            raise _damaged("the rule of edges must stay within ±(2^53 − 1)")
    _small(edges["count"], "count", 1, MOST_CELLS)


def _check_calendar(held: Mapping[str, Any]) -> None:
    _small(held["first"], "first", 1 - _EXACT, _EXACT - 1)
    _small(held["step"], "step", 1, _EXACT - 1)
    _small(held["cells"], "cells", 1, MOST_CELLS)
    if type(held.get("of_day", False)) is not bool:
        raise _damaged("of_day must be true or false")


def _check_categories(held: Mapping[str, Any]) -> None:
    labels = [_text(label, "a label") for label in _list(held["labels"], "labels")]
    if not labels or len(set(labels)) != len(labels) or "" in labels:
        raise _damaged("labels must be texts that differ and are not empty")


_CHECKS: dict[str, Callable[[Mapping[str, Any]], None]] = {
    "integers": _check_integers,
    "reals": _check_reals,
    "dates": _check_calendar,
    "times": _check_calendar,
    "categories": _check_categories,
}


def _block(held: Any, axes: Sequence[DeviceAxis], kinds: Sequence[str]) -> Block:
    """A block, its code checked."""
    _keys(held, "a block", ("axes", "sizes", "kind", "count", "code"))
    last = len(axes) - 1
    places = tuple(_small(a, "the place of an axis", 0, last) for a in _list(held["axes"], "axes"))
    sizes = tuple(_small(n, "a size", 1, MOST_CELLS + 1) for n in _list(held["sizes"], "sizes"))
    if not places or sizes != tuple(axes[place].size for place in places):
        raise _damaged("the sizes of a block must be those of its axes")
    if len(places) > 1 and any(axes[place].places > 1 for place in places):
        raise _damaged("an axis with rounding must be alone in its block")
    if held["kind"] not in ("symbols", "bits"):
        raise _damaged("a block must put out symbols or bits")
    most = MOST_DIGITS if held["kind"] == "bits" else _EXACT - 1
    count = _small(held["count"], "count", 1, most)
    code = _list(held["code"], "code")
    if not code:
        raise _damaged("the code of a block must have an instruction")
    return Block(places, sizes, held["kind"], count, _compiled(code, 1, _MOST_DEPTH, kinds))


def _compiled(
    code: list[Any],
    filled: int,
    depth: int,
    kinds: Sequence[str],
) -> list[tuple[Any, ...]]:
    """Instructions with their constants read; what a machine could not run is refused."""
    if depth < 0:
        raise _damaged(f"branches must be at most {_MOST_DEPTH} deep")
    found: list[tuple[Any, ...]] = []

    def values(held: Sequence[Any], name: str, wanted: int) -> list[int]:
        if len(held) != wanted:
            raise _damaged(f"{name} takes another number of arguments")
        last = filled + len(found) - 1
        return [
            Constant(_integer(each, "a constant"))
            if isinstance(each, str)
            else _small(each, "a register", 0, last)
            for each in held
        ]

    for instruction in code:
        name, *given = _list(instruction, "an instruction") or [None]
        if not isinstance(name, str):
            raise _damaged("an instruction must begin with the name of an operation")
        if name in OPERATIONS:
            found.append((name, *values(given, name, _ARGUMENTS.get(name, 2))))
        elif name == "branch" and len(given) == 2:
            (which,), here = values(given[:1], name, 1), filled + len(found)
            ways = _list(given[1], "branches")
            pieces = [_compiled(_list(way, "code"), here, depth - 1, kinds) for way in ways]
            found.append((name, which, pieces))
        elif name in _TABLES and given:
            table = _small(given[0], "a table", 0, len(kinds) - 1)
            if kinds[table] != _TABLES[name]:
                raise _damaged(f"{name} needs a table of the kind {_TABLES[name]}")
            found.append((name, table, *values(given[1:], name, name in ("take", "row"))))
        elif name in DRAWS and given:
            bits = _small(given[-1], "bits", 1, WORD_BITS)
            found.append((name, *values(given[:-1], name, name != "bits"), bits))
        else:
            raise _damaged("an operation is not known, or lacks its arguments")
    return found


_ROWS = {"products": "rows"}  # rows by a rule
_TABLES = {"take": "numbers", "pick": "weights", "row": "rows", "flips": "chances"}
