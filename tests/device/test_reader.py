"""Reading device programs: each rule of the document is broken once, and refused for its reason."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from regenerate_vectors import studies

import sfumato as sf
from sfumato.device.interpreter import secure_words
from sfumato.device.program import MOST_BYTES, Program, canonical, digest_of


@cache
def documents() -> dict[str, Any]:
    """The programs of the studies that vectors are made of."""
    return {name: json.loads(s.device_program().to_text()) for name, s, *_ in studies()}


def edited(name: str, change: Callable[[Any], object]) -> str:
    """The text of a program with a change, and the digest that fits it."""
    document = copy.deepcopy(documents()[name])
    change(document)
    document["digest"] = digest_of(document)
    return canonical(document)


def put(*path: Any) -> Callable[[Any], None]:
    """A change: the last item takes the place that the others lead to."""

    def change(document: Any) -> None:
        *way, last, value = path
        for step in way:
            document = document[step]
        document[last] = value

    return change


def drop(*path: Any) -> Callable[[Any], None]:
    """A change: an entry is removed."""

    def change(document: Any) -> None:
        for step in path[:-1]:
            document = document[step]
        del document[path[-1]]

    return change


def products(document: Any) -> Any:
    """The table of rows that a rule gives."""
    return next(table for table in document["tables"] if table["kind"] == "products")


def product(*path: Any) -> Callable[[Any], None]:
    """A change of that table."""
    return lambda document: put(*path)(products(document))


SEVERAL, REALS, DAYS = "study-several-blocks", "study-unequal", "study-dates"
WRONG: dict[str, tuple[str, Callable[[Any], object], str]] = {
    "another format": ("study-integers", put("format", "x"), "not a device program"),
    "a newer version": ("study-integers", put("version", 2), "another version"),
    "a version as truth": ("study-integers", put("version", True), "another version"),
    "an entry too many": ("study-integers", put("more", 1), "entries"),
    "an entry too few": ("study-integers", drop("most"), "entries"),
    "a short fingerprint": ("study-integers", put("fingerprint", "ab"), "fingerprint"),
    "E as a number": ("study-integers", put("most", 3), "most"),
    "weights that do not fill": (
        "study-integers", put("tables", 0, "runs", 1, "5"), "must sum to 2\\^bits"),
    "a negative weight": ("study-integers", put("tables", 0, "runs", 1, "-5"), "negative"),
    "a table too long": (
        "study-integers", put("tables", 0, "runs", [["0", 1 << 22], ["0", 9]]), "entries in all"),
    "a ratio that grows without end": (
        "study-integers", put("tables", 0, "runs", [["1", "1", str(1 << 60), 1 << 20]]), "digits"),
    "a chance above 1": (
        SEVERAL, lambda d: next(t for t in d["tables"] if t["kind"] == "chances").update(
            runs=[[str((1 << 64) + 1), 9]]), "at most 2\\^bits"),
    "products with a negative base": (REALS, product("base", "-1"), "factors, and places"),
    "products without factors": (REALS, product("factors", []), "factors, and places"),
    "products with too many factors": (
        REALS, product("factors", [["1"]] * 9), "factors, and places"),
    "products without places": (REALS, product("places", []), "factors, and places"),
    "a place too few": (REALS, product("places", 0, ""), "as many digits"),
    "a place without its factor": (
        REALS, lambda d: products(d)["factors"].append(["1"]), "as many digits|their factors"),
    "a letter that is no digit": (REALS, product("places", 0, "++++"), "their factors|as many"),
    "a digit beyond its factor": (REALS, product("factors", 0, ["1"]), "their factors"),
    "a factor above 1": (REALS, product("factors", 0, 0, str((1 << 64) + 1)), "at most 2\\^64"),
    "products beyond 2^bits": (REALS, product("shares", 0, str(1 << 90)), "must sum to 2\\^bits"),
    "a shift below zero": (REALS, product("shift", -1), "shift"),
    "an unknown table": ("study-integers", put("tables", 0, "kind", "odd"), "of the kind"),
    "an unknown axis": ("study-integers", put("axes", 0, "kind", "odd"), "of the kind"),
    "the kind of a table in a list": (
        "study-integers", put("tables", 0, "kind", ["weights"]), "of the kind"),
    "the kind of an axis in a list": (
        "study-integers", put("axes", 0, "kind", ["integers"]), "of the kind"),
    "an operation in a list": (
        "study-integers", put("blocks", 0, "code", 0, [["pick"], 0]), "name of an operation"),
    "rounding of an optional axis": (
        "study-rounded", lambda d: (put("axes", 0, "optional", True)(d),
                                    put("blocks", 0, "sizes", [5])(d)), "not be optional"),
    "bounds out of order": ("study-integers", put("axes", 0, "low", "99"), "in order"),
    "a size of another axis": ("study-integers", put("blocks", 0, "sizes", [45]), "sizes"),
    "axes with one name": (SEVERAL, put("axes", 1, "name", "age"), "names of axes"),
    "a block left out": (SEVERAL, drop("blocks", 0), "cover every axis once"),
    "an unknown operation": (
        "study-integers", put("blocks", 0, "code", 0, ["jump", 0, 0]), "not known"),
    "a register that is not filled": (
        "study-integers", put("blocks", 0, "code", 0, ["add", 1, "0"]), "a register"),
    "a constant that is no integer": (
        "study-integers", put("blocks", 0, "code", 0, ["add", 0, "1e3"]), "constant"),
    "too few arguments": (
        "study-integers", put("blocks", 0, "code", 0, ["add", 0]), "number of arguments"),
    "a table of another kind": (
        "study-integers", put("blocks", 0, "code", 0, ["flips", 0]), "needs a table"),
    "no code": ("study-integers", put("blocks", 0, "code", []), "an instruction"),
    "edges that fall": (
        REALS, lambda d: d["axes"][0]["edges"].reverse(), "finite and rise"),
    "an edge as a number": (REALS, put("axes", 0, "edges", 0, 1), "an edge"),
    "a rule of edges with thousands of digits": (
        "study-reals", put("axes", 0, "edges", "below", "9" * 5_000), "rule of edges"),
    "a step of no days": (DAYS, put("axes", 0, "step", 0), "step"),
    "labels that repeat": (
        "study-categories", put("axes", 0, "labels", 0, "A"), "texts that differ"),
    "rounding in company": (
        "study-whole-records",
        put("axes", 0, {"name": "hour", "optional": False, "outside": "refuse", "kind": "reals",
                        "rounding": 20,
                        "edges": {"first": "0", "step": "1", "below": "1", "count": 23}}),
        "alone in its block"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_breaks_a_rule_is_refused_for_its_reason(name: str) -> None:
    document, change, reason = WRONG[name]
    with pytest.raises(sf.FormatError, match=reason):
        Program.read(edited(document, change))


def test_branches_may_not_be_too_deep() -> None:
    way: list[Any] = []
    for _ in range(10):
        way = [["branch", 0, [way]]]
    with pytest.raises(sf.FormatError, match="deep"):
        Program.read(edited("study-integers", put("blocks", 0, "code", way)))


@pytest.mark.parametrize(
    "text",
    ["", "[]", "null", "{", b"\xff\xfe", '{"a":1,"a":1}', '{"a":1.5}', '{"a":NaN}', "[" * 100_000],
)
def test_what_is_no_document_is_refused(text: str | bytes) -> None:
    with pytest.raises(sf.FormatError):
        Program.read(text)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"version":1', '"version":1,"version":1'),
        ('"count":44', '"count":44.0'),
        ('"count":44', '"count":4.4e1'),
        ('"version":1', '"version": 1'),
        ('"name":"ages"', '"name":"\\u0061ges"'),
        ('"mirrored":true', '"mirrored":true\n'),
    ],
)
def test_another_text_of_the_same_document_is_refused(before: str, after: str) -> None:
    """As in JavaScript, whose parser would not notice doubled entries and 44.0."""
    text = canonical(documents()["study-integers"])
    assert before in text
    Program.read(text)
    with pytest.raises((sf.FormatError, sf.MismatchError), match=r"canonical|its digest"):
        Program.read(text.replace(before, after, 1))


def test_a_document_that_is_too_long_is_not_even_parsed() -> None:
    with pytest.raises(sf.FormatError, match="bytes"):
        Program.read(" " * (MOST_BYTES + 1))


def test_an_edited_table_does_not_have_the_pinned_digest() -> None:
    """The heart of pinning: a weaker program, well-formed and with a digest of its own."""
    strong = documents()["study-integers"]
    weak = sf.Study("ages", [sf.integers("age", -3, 40, protect=sf.Distance(5))]).device_program()
    with pytest.raises(sf.MismatchError, match="pinned"):
        Program.read(weak.to_text(), digest=strong["digest"])
    text = canonical(strong | {"name": "other"})
    with pytest.raises(sf.MismatchError, match="edited or damaged"):
        Program.read(text)


def test_a_weaker_program_is_seen_by_verify() -> None:
    study = sf.Study("few", [sf.integers("x", 0, 4, protect=sf.Distance("0.5"))])
    document = json.loads(study.device_program().to_text())
    assert sf.verify(study.device_program()).holds
    for claimed, holds in (("2", True), ("19/10", False)):
        changed = document | {"most": claimed}
        program = Program(changed | {"digest": digest_of(changed)})
        found = sf.verify(program)
        assert found.holds is holds
        assert ("DOES NOT HOLD" in str(found)) is not holds


ROUNDED = sf.Study(
    "dose", [sf.reals("dose", 0, 10, bins=3, protect=sf.Distance(1), rounding="stochastic")]
)


def test_verify_takes_a_program_that_rounds() -> None:
    assert sf.verify(ROUNDED.device_program()).holds


@pytest.mark.parametrize(
    ("place", "instruction"),
    [
        (1, ["below", 1, 19]),  # another chance
        (2, ["div", 0, "1048575"]),
        (4, ["bits", 1]),  # and then a value itself is read
        (5, ["branch", 0, [[], []]]),
    ],
)
def test_verify_refuses_a_program_that_tells_values_between_grid_points_apart(
    place: int, instruction: list[Any]
) -> None:
    """Its law at the grid points may be sound, and give every other value away."""
    document = json.loads(ROUNDED.device_program().to_text())
    code = document["blocks"][0]["code"]
    code[place] = instruction
    if place == 4:
        code[5:] = [["eq", 0, "1"], ["branch", 6, [[["add", 4, "0"]], [["add", 1, "0"]]]]]
    program = Program(document | {"digest": digest_of(document)})
    with pytest.raises(sf.FormatError, match="must round to a grid point first"):
        sf.verify(program)


def test_verify_finds_what_is_not_hidden() -> None:
    labels = ["a", "b", "c"]
    study = sf.Study(
        "x", [sf.categories("x", labels, protect=sf.Blocks(epsilon=1, blocks=[["a", "b"], ["c"]]))]
    )
    block = sf.verify(study.device_program()).blocks[0]
    assert block.largest is None
    assert block.between(0, 2) == float("inf")
    assert 0.99 < block.between(0, 1) <= 1


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ([["sub", "0", 0], ["and", 1, "1"]], "0 or more"),
        ([["div", 0, "0"]], "divides"),
        ([["mod", 0, "0"]], "divides"),
        ([["shl", "1", "9999999"]], "at most"),
        ([["scatter", 0, "1"]], "scatter"),
        ([["clamp", 0, "5", "4"]], "in order"),
        ([["mul", "1" + "0" * 40_000, "1" + "0" * 40_000]], "binary digits"),
        ([["remainder", "0", 64]], "modulus"),
        ([["branch", 0, [[]]]], "branch"),
        ([["add", 0, "1000"]], "outside"),
    ],
)
def test_an_operand_outside_its_range_stops_the_program(code: Any, reason: str) -> None:
    program = Program.read(edited("study-integers", put("blocks", 0, "code", code)))
    with pytest.raises(sf.FormatError, match=reason) as refused:
        program.encode({"age": 30})  # cell 33
    assert "33" not in str(refused.value)
    assert "30" not in str(refused.value)


@pytest.mark.slow
def test_a_study_that_is_too_large_for_devices_says_so() -> None:
    study = sf.Study("far", [sf.integers("x", 0, 2**22, protect=sf.Distance("0.001"))])
    with pytest.raises(sf.TooLargeError, match="too large for devices"):
        study.device_program()


def test_words_come_from_the_secure_source_and_never_twice() -> None:
    words = secure_words()
    drawn = [words() for _ in range(1000)]
    assert len(set(drawn)) == 1000
    assert all(0 <= word < 1 << 64 for word in drawn)
    assert max(drawn).bit_length() == 64


def test_a_record_must_be_a_dict() -> None:
    program = Program.read(edited("study-integers", lambda d: None))
    with pytest.raises(sf.DataError, match="a dict"):
        program.encode([31])  # type: ignore[arg-type]
