"""The commands that run a collector."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

import sfumato as sf
from sfumato import extras
from sfumato.cli import app
from sfumato.service import tokens
from sfumato.service.collector import open_store

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in a folder with a study and a collector."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SFUMATO_STORE", raising=False)
    study = sf.Study("ages", [sf.integers("age", 0, 9, protect=sf.Distance(0.5))])
    study.save(tmp_path / "ages.toml")

    def invoke(*words: str, code: int = 0) -> Any:
        found = CliRunner().invoke(app, list(words))
        assert found.exit_code == code, found.output
        return found

    return invoke


def test_a_check_publishes_and_stops(run: Run) -> None:
    said = run("serve", "collector", "--publish", "ages.toml", "--check", "--port", "0").output
    assert "Published study 'ages'" in said
    assert "All is in order" in said
    again = run("serve", "collector", "--publish", "ages.toml", "--check", "--port", "0").output
    assert "Serving study 'ages'" in again
    as_json = ("serve", "collector", "--publish", "ages.toml", "--check", "--port", "0", "--json")
    told = json.loads(run(*as_json).output)
    assert (told["serves"], [one["name"] for one in told["studies"]]) == (False, ["ages"])
    other = ("--publish", "ages.toml", "--minimum", "7")
    assert "never changes" in run("serve", "collector", *other, "--port", "0", code=2).output


def test_a_port_in_use_is_refused(run: Run) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert "in use" in run("serve", "collector", "--check", "--port", port, code=2).output


def test_a_store_of_a_newer_version_is_refused_and_left_as_it_is(run: Run) -> None:
    store = open_store("collector")
    with store.change() as change:
        change.set_fact("version", 99)
    store.close()
    for words in (("serve", "collector", "--port", "0"), ("token", "list")):
        said = " ".join(run(*words, code=2).output.split())
        assert "has version 99, newer than this package's" in said
        assert "update sfumato" in said


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("serve",), "name a folder"),
        (("serve", "a", "--store", "postgresql://x"), "not both"),
        (("serve", "a", "--port", "70000"), "65535"),
        (("serve", "a", "--port", "0", "--publish", "none.toml"), "none.toml"),
        (("serve", "a", "--port", "0", "--most-reports", "0"), "most_reports"),
        (("serve", "a", "--port", "0", "--host", "203.0.113.1"), "cannot listen"),
        (("token", "make", "Ann"), "cannot 'make'"),
        (("token", "create"), "one name"),
        (("token", "list", "Ann"), "no name"),
        (("token", "list"), "there is no store"),
        (("token", "create", "Ann", "--role", "boss", "--store", "here"), "role must be"),
        (("token", "revoke", "Ann", "--store", "here"), "no token"),
        (("token", "create", "", "--store", "here"), "1 to 64"),
        (("backup", "make", "x.sqlite"), "cannot 'make'"),
        (("backup", "create", "x.txt"), "must end in .sqlite"),
        (("backup", "restore", "none.sqlite"), "there is no backup"),
        (("export", "all", "--out", "x.parquet"), "cannot 'all'"),
        (("export", "tally", "--out", "x.parquet"), "one study"),
        (("export", "questions", "ages.toml", "--out", "x.jsonl"), "no study"),
        (("export", "tally", "ages.toml", "--out", "x.csv"), "must end in .parquet"),
        (("export", "tally", "ages.toml", "--out", "x.parquet", "--store", "here"), "begins with"),
    ],
)
def test_what_cannot_be_done_is_refused(run: Run, words: tuple[str, ...], reason: str) -> None:
    open_store("here").close()
    assert reason in " ".join(run(*words, code=2).output.split())


def test_tokens_are_created_listed_and_revoked(run: Run) -> None:
    open_store("collector").close()
    made = run("token", "create", "Ann", "--role", "admin").output
    (text,) = re.findall(r"sfumato_[\w-]{43}", made)
    other = json.loads(run("token", "create", "Bob", "--json").output)
    assert (other["name"], other["role"]) == ("Bob", "analyst")
    assert "revoked" in run("token", "revoke", "Bob").output.lower()
    listed = json.loads(run("token", "list", "--json").output)["tokens"]
    assert [(one["name"], one["role"], one["revoked"] is None) for one in listed] == [
        ("Ann", "admin", True),
        ("Bob", "analyst", False),
    ]
    shown = run("token", "list").output
    assert "Ann" in shown
    assert text not in shown
    store = open_store("collector")
    holders = tokens.Holders.read(store)
    assert getattr(holders.of(text), "name", None) == "Ann"
    assert holders.of(other["token"]) is None
    store.close()
    assert "given once" in run("token", "create", "Bob", code=2).output
    assert "revoked before" in run("token", "revoke", "Bob", code=2).output


def test_a_collector_is_backed_up_restored_and_exported(run: Run) -> None:
    run("serve", "collector", "--publish", "ages.toml", "--check", "--port", "0")
    run("token", "create", "Ann")
    assert "rows" in run("backup", "create", "monday.sqlite").output
    assert "exists" in run("backup", "create", "monday.sqlite", code=2).output
    run("backup", "create", "monday.sqlite", "--force")
    assert "rows" in run("backup", "restore", "monday.sqlite", "--store", "new").output
    assert "empty" in run("backup", "restore", "monday.sqlite", "--store", "new", code=2).output
    listed = json.loads(run("token", "list", "--store", "new", "--json").output)
    assert [one["name"] for one in listed["tokens"]] == ["Ann"]
    done = run("export", "tally", "ages.toml", "--out", "t.parquet", "--store", "new", "--json")
    assert json.loads(done.output) == {"file": "t.parquet", "reports": 0}
    assert "1 questions" in run("export", "questions", "--out", "q.jsonl", "--store", "new").output


def test_a_missing_library_is_named_with_the_command_that_installs_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(module: str) -> None:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr(extras.importlib, "import_module", missing)
    for words in (("serve", "x"), ("token", "list", "--store", "postgresql://x/y")):
        said = " ".join(run(*words, code=2).output.split())
        assert "pip install 'sfumato[server]'" in said


@pytest.mark.slow
def test_it_serves_until_it_is_told_to_stop(run: Run, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-c",
        "from sfumato.cli import main; main()",
        *("serve", "c", "--port", "0", "--publish", "ages.toml"),
    ]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as served:
        assert served.stdout is not None
        assert served.stderr is not None
        url = None
        for line in served.stdout:
            if found := re.search(r"http://\S+", line):
                url = found[0]
                break
        assert url is not None
        with urllib.request.urlopen(f"{url}/ready") as answer:
            assert json.load(answer) == {"ready": True}
        served.send_signal(signal.SIGTERM)
        served.wait(timeout=30)
        assert served.stderr.read() == ""
    assert served.returncode == -signal.SIGTERM
