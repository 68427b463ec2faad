"""How a collector is configured: options before the environment before the settings file."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli import app, serving
from sfumato.cli.settings import KEYS, read_proxies


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for key in (*KEYS, "config"):
        monkeypatch.delenv(f"SFUMATO_{key.upper()}", raising=False)
    (tmp_path / "etc").mkdir()
    study = sf.Study("ages", [sf.integers("age", 0, 9, protect=sf.Distance(0.5))])
    study.save(tmp_path / "etc" / "ages.toml")
    return tmp_path


def write(folder: Path, text: str) -> str:
    (folder / "etc" / "collector.toml").write_text(text, encoding="utf-8")
    return "etc/collector.toml"


def checked(*words: str, code: int = 0) -> Any:
    found = CliRunner().invoke(app, ["serve", "--check", "--json", *words])
    assert found.exit_code == code, found.output
    return json.loads(found.stdout)


FULL = """
store = "held"
publish = ["ages.toml"]
minimum = 7
host = "127.0.0.1"
port = 0
proxy = "10.0.0.0/8, ::1"
upload_token = true
most_reports = 77
rate = 1.5
access_log = true
"""


def test_every_option_may_stand_in_the_file_and_in_the_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = checked("--config", write(folder, FULL))
    assert told["settings"] == {
        "store": "etc/held/collector.sqlite",  # relative to the file
        "publish": ["etc/ages.toml"],
        "minimum": 7,
        "host": "127.0.0.1",
        "port": 0,
        "proxy": "10.0.0.0/8, ::1",
        "upload_token": True,
        "most_reports": 77,
        "rate": 1.5,
        "access_log": True,
    }
    assert told["settings"].keys() == KEYS.keys()
    assert [study["name"] for study in told["studies"]] == ["ages"]
    given = {
        "config": "etc/collector.toml",
        "store": "other",
        "publish": "etc/ages.toml",
        "minimum": "8",
        "host": "127.0.0.1",
        "port": "0",
        "proxy": "10.0.0.1",
        "upload_token": "0",
        "most_reports": "5",
        "rate": "2",
        "access_log": "false",
    }
    for key, value in given.items():
        monkeypatch.setenv(f"SFUMATO_{key.upper()}", value)
    used = checked()["settings"]
    assert (used["store"], used["publish"]) == ("other/collector.sqlite", ["etc/ages.toml"])
    assert (used["minimum"], used["most_reports"], used["rate"]) == (8, 5, 2.0)
    assert (used["upload_token"], used["access_log"], used["proxy"]) == (False, False, "10.0.0.1")
    used = checked("--most-reports", "6", "--rate", "3", "third", "--minimum", "7")["settings"]
    assert (used["store"], used["most_reports"]) == ("third/collector.sqlite", 6)
    assert (used["minimum"], used["rate"]) == (7, 3.0)


def test_the_command_has_a_key_for_each_option() -> None:
    options = set(inspect.signature(serving.serve).parameters)
    assert options - {"context", "folder", "config", "check", "as_json"} == KEYS.keys()


def test_a_check_says_where_each_setting_comes_from(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFUMATO_RATE", "2")
    config = write(folder, 'port = 0\nminimum = 7\nstore = "held"\n')
    words = ["serve", "--check", "--config", config, "--minimum", "8"]
    said = CliRunner().invoke(app, words).output
    lines = {line.split()[0]: line.split()[1:] for line in said.splitlines() if line.split()}
    assert lines["minimum"] == ["8", "option"]
    assert lines["rate"] == ["2.0", "environment"]
    assert lines["port"] == ["0", "file"]
    assert lines["host"] == ["127.0.0.1", "default"]
    assert lines["store"] == ["etc/held/collector.sqlite", "file"]
    assert "All is in order" in said


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("prot = 0", "unknown key 'prot'; did you mean 'port'"),
        ("[server]\nport = 0", "unknown key 'server'"),
        ("port = 0\nport = 1", "not valid TOML"),
        ("port", "not valid TOML"),
        ("[[" * 5_000, "not valid TOML"),
        ('port = "0"', "port in the settings file"),
        ("port = true", "must be a whole number, got a bool"),
        ("rate = true", "must be a number"),
        ("upload_token = 1", "must be true or false"),
        ("publish = 'ages.toml'", "must be a list of texts"),
        ("publish = [1]", "must be a list of texts"),
        ("publish = ['none.toml']", "none.toml"),
        ("port = 70000", "65535"),
        ("most_reports = 0", "most_reports"),
        ("rate = -1", "rate"),
        ("proxy = 'the proxy'", "--proxy takes addresses"),
        ("host = '203.0.113.1'", "cannot listen"),
    ],
)
def test_what_a_check_would_find_is_refused(folder: Path, text: str, reason: str) -> None:
    start = "" if "port" in text or text.startswith("[") else "port = 0\n"
    config = write(folder, start + text)
    assert reason in checked("held", "--config", config, code=2)["error"]
    assert not (folder / "held").exists() or "none" in reason


def test_a_settings_file_that_is_no_text_is_refused(folder: Path) -> None:
    (folder / "etc" / "collector.toml").write_bytes(b"\xff\xfe")
    assert "not valid TOML" in checked("--config", "etc/collector.toml", code=2)["error"]
    assert "No such file" in checked("--config", "none.toml", code=2)["error"]


def test_the_password_of_a_database_is_not_shown(folder: Path) -> None:
    config = write(folder, 'port = 0\nstore = "postgresql://ann:secret@127.0.0.1:1/none"\n')
    said = checked("--config", config, code=2)["error"]
    assert "127.0.0.1/none" in said
    assert "secret" not in said


def test_proxies_are_addresses_and_networks() -> None:
    assert read_proxies("10.0.0.2, ::1,10.1.0.0/16") == ["10.0.0.2", "::1", "10.1.0.0/16"]
    assert read_proxies("") == []
