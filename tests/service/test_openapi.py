"""The OpenAPI document has every route, status and code, and what is answered conforms to it."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import schemathesis
from helpers_openapi import DOCUMENT, NotDocumentedError, check, validator
from test_app import Running, sent

import sfumato as sf
from sfumato.device import wire
from sfumato.errors import QuestionError
from sfumato.service import openapi, refusals
from sfumato.service.asking import KINDS, read_question
from sfumato.service.openapi import OPERATIONS, codes, document
from sfumato.service.refusals import CODES
from sfumato.service.routes import ENDPOINTS, endpoints

SOURCE = Path(sf.__file__).parent
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    made = Running(tmp_path)
    with made.http:
        yield made


def test_it_is_served_and_is_an_openapi_document(running: Running) -> None:
    found = running.http.get("/v1/openapi.json").json()
    assert found == json.loads(json.dumps(DOCUMENT))
    assert found["openapi"] == "3.1.0"
    schemathesis.openapi.from_dict(found).validate()


def test_it_has_every_route_and_no_other() -> None:
    listed = {(method.upper(), path) for path, held in DOCUMENT["paths"].items() for method in held}
    described = [one for one in ENDPOINTS if one.name in OPERATIONS]
    assert listed == {(one.method, one.path) for one in described}
    assert {one.name for one in described} == set(OPERATIONS)
    assert {one.path for one in ENDPOINTS if one.path.startswith("/v1/")} <= set(DOCUMENT["paths"])
    names = [held["operationId"] for paths in DOCUMENT["paths"].values() for held in paths.values()]
    assert len(set(names)) == len(names)


def test_it_says_which_routes_need_a_token() -> None:
    for upload_token in (False, True):
        found = document(endpoints(upload_token))
        for one in endpoints(upload_token):
            if one.name in OPERATIONS:
                held = found["paths"][one.path][one.method.lower()]
                assert ("security" in held) == (one.roles is not None)
                assert ("401" in held["responses"]) == (one.roles is not None)
                for role in one.roles or ():
                    assert role in held["description"]


def raised() -> set[tuple[int, str]]:
    """The statuses and codes of all refusals in the source."""
    found = set()
    for file in (SOURCE / "service").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "RefusedError":
                status, code = node.args[:2]
                if isinstance(status, ast.Constant) and isinstance(code, ast.Constant):
                    found.add((status.value, code.value))
    return found


def test_every_refusal_in_the_source_is_in_the_table_and_every_one_in_the_table_is_used() -> None:
    wires = {(400, code) for code in get_args(wire.Code)}
    others = {(400, code) for code in refusals._CODES.values()}
    # `number_of` refuses by the name of its parameter, and Starlette by a status.
    names = {(400, "wait"), (404, "route")}
    assert raised() | wires | others | names == set(CODES)


def test_every_code_of_a_route_is_in_the_table_and_every_one_in_the_table_is_of_a_route() -> None:
    of_routes = {
        (status, code)
        for one in ENDPOINTS
        if one.name in OPERATIONS
        for status, named in codes(one).items()
        for code in named
    }
    assert of_routes | {(404, "route"), (405, "method")} == set(CODES)


def test_the_docs_have_every_route_and_every_code() -> None:
    text = (DOCS / "collector.md").read_text()
    for one in ENDPOINTS:
        short = one.path.replace("/v1/studies/{fingerprint}", "")
        assert f"`{one.path}`" in text or f"{one.method} {one.path}" in text or short in text, one
    rows = dict(re.findall(r"^\| ((?:\d{3}(?:, )?)+) \| (.*) \|$", text, re.M))
    listed = {
        (int(status), code)
        for statuses, cell in rows.items()
        for status in statuses.split(", ")
        for code in re.findall(r"`([a-z]+)`", cell)
    }
    wires = {(400, code) for code in get_args(wire.Code)} - {(400, "study")}
    assert {one for one in CODES if one not in wires} <= listed


class TestQuestions:
    """The schema of questions and what reads them are held against each other."""

    GOOD: tuple[dict[str, Any], ...] = (
        {"count": "age=1"},
        {"fraction": "age=1", "where": "age=2", "level": 0.9},
        {"total": "age"},
        {"mean": "age", "population": True, "method": "likelihood", "seconds": 5},
        {"histogram": "age", "bins": 5, "fraction": True, "band": True},
        {"cdf": "age", "bins": None},
        {"heatmap": ["a", "b"], "bins": [1, None]},
        {"heatmap": ["a", "b"], "bins": 4, "fraction": False},
        {"quantile": "age", "at": 0.5},
        {"quantile": "age", "at": [0, 0.25, 1]},
        {"groups": "mode", "of": {"total": "age"}, "bins": 2},
        {"difference": [{"count": "age=1"}, {"count": "age=2", "where": "mode=bus"}]},
    )
    BAD: tuple[Any, ...] = (
        *({}, [], None, "count", 1),
        {"count": "a=1", "mean": "a"},
        {"count": ["a=1"]},
        {"count": None},
        {"fraction": True},
        {"count": "a=1", "bins": 4},
        {"count": "a=1", "more": 1},
        {"histogram": "a", "bins": 0},
        {"histogram": "a", "bins": 1.5},
        {"histogram": "a", "bins": [1, 2]},
        {"histogram": "a", "fraction": "b=1"},
        {"histogram": "a", "band": 1},
        {"heatmap": "a"},
        {"heatmap": ["a"]},
        {"heatmap": ["a", "b", "c"]},
        {"heatmap": ["a", 1]},
        {"heatmap": ["a", "b"], "bins": [1]},
        {"heatmap": ["a", "b"], "bins": [1, "2"]},
        {"quantile": "a", "at": []},
        {"quantile": "a", "at": ["0.5"]},
        {"quantile": "a", "at": [0.5] * 1_001},
        {"groups": "a"},
        {"groups": "a", "of": {"histogram": "b"}},
        {"groups": "a", "of": {"mean": "b", "where": "a=1"}},
        {"groups": "a", "of": {"mean": "b", "count": "a=1"}},
        {"difference": [{"count": "a=1"}]},
        {"difference": [{"count": "a=1"}, {"count": 1}]},
        {"difference": [{"count": "a=1"}, {"histogram": "a"}]},
        {"difference": [{"count": "a=1"}, {"count": "a=1", "level": 0.5}]},
        {"difference": [{"count": "a=1"}, {"count": "a=1"}], "where": "a=1"},
        {"count": "a=1", "where": ["b"]},
        {"count": "a=1", "where": None},
        {"count": "a=1", "level": "0.9"},
        {"count": "a=1", "level": True},
        {"count": "a=1", "population": 0},
        {"count": "a=1", "method": "best"},
        {"count": "a=1", "seconds": 0},
        {"count": "a=1", "seconds": 3_601},
        {"count": "a=1", "seconds": None},
    )

    @staticmethod
    def fits(asked: Any) -> bool:
        return bool(validator(json.dumps(openapi.ref("Question"))).is_valid(asked))

    @pytest.mark.parametrize("asked", GOOD, ids=json.dumps)
    def test_both_take_the_same(self, asked: dict[str, Any]) -> None:
        assert self.fits(asked)
        read = read_question(asked)
        assert (read.given, read.kind in asked) == (asked, True)

    @pytest.mark.parametrize("asked", BAD, ids=lambda asked: json.dumps(asked)[:60])
    def test_both_refuse_the_same(self, asked: Any) -> None:
        assert not self.fits(asked)
        with pytest.raises(QuestionError) as error:
            read_question(asked)
        assert len(str(error.value)) > 20

    def test_every_kind_is_among_them(self) -> None:
        assert {read_question(asked).kind for asked in self.GOOD} == set(KINDS)


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"status_code": 418}, "no such status"),
        ({"body": {"answer": {}, "tally": 1, "reports": 1, "entry": 1}}, "not valid"),
        ({"body": {"answer": 1}}, "required"),
        ({"kind": "text/html"}, "not in"),
        ({"status_code": 429, "body": {"code": "rate", "message": "wait"}}, "without Retry-After"),
        ({"status_code": 400, "body": {"code": "strange", "message": "?"}}, "not one of"),
    ],
)
def test_answers_that_do_not_conform_are_noticed(
    running: Running, change: dict[str, Any], wrong: str
) -> None:
    running.upload(sent([1, 2, 3]))
    found = running.ask(count="age=1")
    check(found)
    found.status_code = change.get("status_code", found.status_code)
    if "body" in change:
        found._content = json.dumps(change["body"]).encode()
    if "kind" in change:
        found.headers["content-type"] = change["kind"]
    with pytest.raises(NotDocumentedError, match=wrong):
        check(found)
