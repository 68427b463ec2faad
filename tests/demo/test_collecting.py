"""The demo's collector: started, reported to, asked and stopped, or left out with a sentence."""

from __future__ import annotations

import html
import json
import re
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sfumato import extras
from sfumato.cli import app, trying
from sfumato.demo import collecting
from sfumato.demo import run as demo
from sfumato.demo.collecting import Running
from sfumato.demo.results import Collected
from sfumato.demo.town import make_town
from sfumato.errors import StoreError

PEOPLE = 300


@pytest.mark.slow
def test_people_report_over_http_and_the_collector_is_asked_and_stopped(tmp_path: Path) -> None:
    visited: list[tuple[Running, Any]] = []

    def visit(running: Running) -> None:
        wanted = urllib.request.Request(
            f"{running.url}/v1/status", headers={"Authorization": f"Bearer {running.token}"}
        )
        with urllib.request.urlopen(wanted) as answer:
            visited.append((running, json.load(answer)))

    result = demo.run(tmp_path, people=500, seed=1, report=PEOPLE, visit=visit)
    found = result.collected
    assert isinstance(found, Collected)
    ((running, status),) = visited
    assert status["studies"][0]["counters"] == {"accepted": PEOPLE}
    assert status["questions"] == len(found.rows) == 5
    assert (found.url, found.people) == (running.url, PEOPLE)
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{running.url}/health")
    town = {name: values[:PEOPLE] for name, values in make_town(500).items()}
    page = result.page.read_text(encoding="utf-8")
    assert found.rows[0].truth == sum(25 <= age < 40 for age in town["age"].tolist())
    for row in found.rows:
        assert row.answer.n == PEOPLE
        # 5 answers: one beyond 5 standard errors by chance has probability below 1e-5.
        assert abs(row.answer.value - row.truth) < 5 * row.answer.stderr
        assert html.escape(row.ask) in page
    assert f"{PEOPLE} of these people also had a device each" in page
    assert "[[" not in re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)


@pytest.mark.slow
def test_where_the_server_is_not_installed_the_demo_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = extras.importlib.import_module

    def missing(module: str, package: str | None = None) -> Any:
        if module == "starlette":
            raise ModuleNotFoundError(f"No module named {module!r}", name=module)
        return load(module, package)

    monkeypatch.setattr(extras.importlib, "import_module", missing)
    result = demo.run(tmp_path, people=100, seed=1, report=100)
    assert isinstance(result.collected, str)
    assert "Left out: this needs starlette" in result.page.read_text(encoding="utf-8")
    words = ["demo", "--out", str(tmp_path / "again"), "--people", "100"]
    said = " ".join(CliRunner().invoke(app, words).output.split())
    assert "No collector was run: this needs starlette" in said
    assert "pip install 'sfumato[server]'." in said
    told = json.loads(CliRunner().invoke(app, [*words, "--force", "--json"]).stdout)
    assert told["collector"]["reports"] == 0
    assert "starlette" in told["collector"]["reason"]


def test_a_collector_that_does_not_start_is_said_with_its_own_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(collecting, "_SERVE", "raise SystemExit('there is no room')")
    with pytest.raises(StoreError, match="does not start: there is no room"):
        collecting.collect(demo.make_study(), make_town(10))


def test_the_command_leaves_the_collector_on_until_it_is_told_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted:
        def wait(self) -> None:
            raise KeyboardInterrupt

    def collect(study: object, town: dict[str, Any], *, seen: Any, visit: Any) -> Collected:
        seen(len(town["age"]), len(town["age"]))
        visit(Running(url="http://127.0.0.1:8765", token="sfumato_secret"))
        row = demo.run(tmp_path / "rows", people=50, seed=1).rows[0]
        return Collected(url="", people=len(town["age"]), seconds=1.0, rows=(row,))

    monkeypatch.setattr(demo, "collect", collect)
    monkeypatch.setattr(trying.threading, "Event", Interrupted)
    words = ["demo", "--out", str(tmp_path / "tour"), "--people", "70", "--stay"]
    said = " ".join(CliRunner().invoke(app, words).output.split())
    assert "The collector runs at http://127.0.0.1:8765, until Ctrl-C" in said
    assert "sfumato_secret" in said
    assert "70 people also reported to a collector over HTTP, in 1.0 seconds" in said
