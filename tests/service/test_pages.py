"""Pages over HTTP: what they may load, that the program is pinned, words, limits of designs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from helpers_service import TestClient
from test_app import Running
from test_designing import AGE

from sfumato.service import pages
from sfumato.service.collector import Settings
from sfumato.service.routes import ENDPOINTS

FILES = {file.name: file for file in resources.files(pages).iterdir() if "." in file.name}
TEXTS = {
    name: file.read_text(encoding="utf-8")
    for name, file in FILES.items()
    if not name.endswith(".py")
}
PATHS = [one.path for one in ENDPOINTS if one.name == "page"]
WORDS = {name: json.loads(text) for name, text in TEXTS.items() if name.endswith(".json")}
DESIGN = {"name": "ages", "people": 1_000, "axes": [AGE]}


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    made = Running(tmp_path)
    with made.http:
        yield made


def test_every_page_is_served_under_a_policy_that_lets_it_load_nothing_else(
    running: Running,
) -> None:
    for path in [*PATHS, f"/answer/{running.study.fingerprint}", "/pages/page.js"]:
        found = running.http.get(path)
        assert found.status_code == 200
        policy = dict(
            part.split(" ", 1) for part in found.headers["Content-Security-Policy"].split("; ")
        )
        assert policy == {
            "default-src": "'none'",
            "script-src": "'self'",
            "style-src": "'self'",
            "connect-src": "'self'",
            "img-src": "'self' blob:",
            "base-uri": "'none'",
            "form-action": "'none'",
            "frame-ancestors": "'none'",
        }
        assert found.headers["Referrer-Policy"] == "no-referrer"
        assert found.headers["X-Content-Type-Options"] == "nosniff"
        assert "Access-Control-Allow-Origin" not in found.headers


def test_answers_that_are_no_page_keep_the_policy_that_allows_nothing(running: Running) -> None:
    for path in ("/health", "/v1/studies", "/pages/nothing.js"):
        assert running.http.get(path).headers["Content-Security-Policy"] == "default-src 'none'"


@pytest.mark.parametrize("name", [name for name in TEXTS if name.endswith(".html")])
def test_a_page_has_no_script_or_style_of_its_own_and_all_that_it_names_is_there(
    running: Running, name: str
) -> None:
    text = TEXTS[name]
    assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=|javascript:", text)
    for address in re.findall(r'(?:src|href)="([^"#]+)"', text):
        assert running.http.get(address).status_code == 200, address


def test_nothing_comes_from_another_host() -> None:
    for name, text in TEXTS.items():
        others = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+", text))
        assert others <= {"http://www.w3.org"}, name  # the name of SVG, which nobody looks up


def test_what_modules_import_is_there(running: Running) -> None:
    for name in (name for name in TEXTS if name.endswith(".js")):
        for address in re.findall(r'(?m)^import .* from "([^"]+)";$', TEXTS[name]):
            path = address if address.startswith("/") else f"/pages/{address.removeprefix('./')}"
            found = running.http.get(path)
            assert found.status_code == 200
            assert found.headers["Content-Type"].startswith("text/javascript")


def test_the_page_that_asks_pins_the_program_of_its_study(running: Running) -> None:
    found = running.http.get(f"/answer/{running.study.fingerprint}")
    assert f'<meta name="sfumato-digest" content="{running.study.digest}">' in found.text
    missing = running.http.get(f"/answer/{'0' * 64}")
    assert missing.status_code == 404
    assert '<meta name="sfumato-digest" content="">' in missing.text


@pytest.mark.parametrize(
    "name", ["answer.html", "__init__.py", "nothing.js", "..%2fapp.py", "%00", "page.css%00"]
)
def test_only_what_pages_are_made_of_is_served(running: Running, name: str) -> None:
    assert running.http.get(f"/pages/{name}").status_code == 404


def test_both_languages_say_the_same_things() -> None:
    english, german = (WORDS[f"answer.{language}.json"] for language in ("en", "de"))
    assert list(english) == list(german)
    assert not {word for word in english if english[word] == german[word]}
    for word in english:
        assert re.findall(r"{\w+}", english[word]) == re.findall(r"{\w+}", german[word]), word


def test_every_word_of_the_page_that_asks_is_said_and_none_is_left_over() -> None:
    script = TEXTS["answer.js"]
    named = set(re.findall(r'data-(?:word|label)="(\w+)"', TEXTS["answer.html"]))
    named |= set(re.findall(r'"(\w+)"', script)) & set(WORDS["answer.en.json"])
    assert named == set(WORDS["answer.en.json"])
    for said in re.findall(r'say\("(\w+)"', script):
        assert said in WORDS["answer.en.json"]


class TestDesigns:
    def ask(self, http: TestClient, body: Any = DESIGN, **headers: str) -> Any:
        return http.post("/v1/design", content=json.dumps(body), headers=headers)

    @pytest.mark.slow
    def test_are_answered_without_a_token(self, running: Running) -> None:
        found = self.ask(running.http)
        assert found.status_code == 200
        assert found.json()["command"].startswith("sfumato new ages.toml")
        assert running.http.post("/v1/studies", content=found.json()["study"]).status_code == 401

    @pytest.mark.parametrize(
        ("body", "status", "code"),
        [
            (b"{", 400, "json"),
            (b"[]", 400, "design"),
            (b'{"name": "x", "people": 1, "axes": [{}]}', 400, "design"),
            (json.dumps(DESIGN | {"people": 0}).encode(), 400, "study"),
            (b" " * ((1 << 16) + 1), 413, "size"),
        ],
    )
    def test_that_are_none_get_a_code(
        self, running: Running, body: bytes, status: int, code: str
    ) -> None:
        found = running.http.post("/v1/design", content=body)
        assert (found.status_code, found.json()["code"]) == (status, code)

    def test_may_come_far_more_often_with_a_token(self, tmp_path: Path) -> None:
        often = Running(tmp_path, Settings(tally_seconds=3_600, reserve=0))
        with often.http:
            statuses = [self.ask(often.http, []).status_code for _ in range(40)]
            assert statuses.count(400) in (30, 31)  # one more may be earned meanwhile
            assert statuses[-1] == 429
            trusted = [self.ask(often.http, [], **often.headers("analyst")) for _ in range(40)]
            assert {one.status_code for one in trusted} == {400}
            assert self.ask(often.http, [], **often.headers("wrong")).status_code == 401
            assert self.ask(often.http, [], **often.headers("uploader")).status_code == 403

    def test_wait_for_one_another_and_not_many_do(
        self, running: Running, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(pages, "_MOST_WAITING", 0)
        found = self.ask(running.http)
        assert (found.status_code, found.json()["code"]) == (429, "busy")
        monkeypatch.undo()
        assert self.ask(running.http).status_code == 200
