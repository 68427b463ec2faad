"""What the page on deployment says is true: settings, service, proxies, container, drill."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli import app
from sfumato.cli.settings import KEYS
from sfumato.device.wire import HEADER_BYTES, ID_BYTES, Batch
from sfumato.service import answering, server
from sfumato.service.collector import Collector, Settings, open_store
from sfumato.service.stores.postgres import PostgresStore
from supply import part
from supply.lock import PROJECT, read

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
CONTAINER = (ROOT / "Containerfile").read_text(encoding="utf-8")
STUDY = sf.Study("commute", [sf.integers("age", 0, 9, protect=sf.Distance(0.5))])


def block(begin: str) -> str:
    """The block of the page that has this."""
    (found,) = [
        text for text in re.findall(r"^```\w+\n(.*?)^```$", PAGE, re.M | re.S) if begin in text
    ]
    return str(found)


def run(words: list[str], code: int = 0) -> str:
    found = CliRunner().invoke(app, words)
    assert found.exit_code == code, found.output
    return found.output


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for key in (*KEYS, "config"):
        monkeypatch.delenv(f"SFUMATO_{key.upper()}", raising=False)
    STUDY.save(tmp_path / "commute.toml")
    return tmp_path


def test_the_settings_of_the_page_are_all_there_are_and_pass_the_check(here: Path) -> None:
    text = block("most_reports =")
    assert tomllib.loads(text).keys() == KEYS.keys()
    text = text.replace("/var/lib/sfumato", str(here / "store")).replace("8000", "0")
    (here / "collector.toml").write_text(text, encoding="utf-8")
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(block("[Service]"))
    service = unit["Service"]
    assert service["ExecStartPre"] == f"{service['ExecStart']} --check"
    assert int(service["TimeoutStopSec"]) > server._STOP_SECONDS
    command, *words = shlex.split(service["ExecStartPre"])
    assert command == "/opt/sfumato/bin/sfumato"
    said = run([word.replace("/etc/sfumato/", f"{here}/") for word in words])
    assert "Published study 'commute'" in said
    assert "All is in order" in said
    defaults = {
        key: tomllib.loads(block("most_reports ="))[key] for key in ("most_reports", "rate")
    }
    assert defaults == {"most_reports": Settings().most_reports, "rate": Settings().rate}


def test_the_proxies_log_nobody_pass_addresses_on_and_take_the_largest_bodies() -> None:
    nginx, caddy = block("proxy_pass"), block("reverse_proxy")
    assert "access_log off;" in nginx
    assert "proxy_set_header X-Forwarded-For $remote_addr;" in nginx
    assert "log" not in caddy
    longest = HEADER_BYTES + Settings().most_reports * (ID_BYTES + 256)
    for text in (nginx, caddy):
        ((size,),) = [re.findall(r"(?:client_max_body_size|max_size)\s+(\d+)", text)]
        assert int(size) * 1_000_000 > max(longest, 1 << 22)
    (waits,) = re.findall(r"proxy_read_timeout (\d+)s", nginx)
    assert int(waits) > 60


@pytest.mark.slow
def test_the_drill_finds_a_backup_that_restores_and_one_that_does_not(here: Path) -> None:
    drill = re.search(r"<!-- drill -->(.*?)<!-- end of drill -->", PAGE, re.S)
    assert drill is not None
    lines = [line[2:] for line in drill[1].splitlines() if line.startswith("$ ")]
    assert len(lines) == 9
    with Collector(open_store("collector"), Settings(reserve=0, tally_seconds=3_600)) as made:
        study, _ = made.publish(STUDY.to_toml(), minimum=1)
        size, day = study.layout.size, made.today() + 30
        for start in (0, 20):
            ids = tuple((start + k + 1).to_bytes(16, "big") for k in range(20))
            reports = tuple((k % 10).to_bytes(size, "little") for k in range(20))
            made.upload(study.fingerprint, Batch(STUDY.fingerprint, day, ids, reports).to_bytes())
            if start == 0:
                made.tally()  # the others wait when the backup is made
        answering.enter(made.store, {"asked": {"count": "age=1"}})
        differ = []
        for line in lines:
            command, *words = shlex.split(line.replace("STUDY", STUDY.fingerprint[:8]))
            if command == "cmp":
                first, second = (Path(word).read_bytes() for word in words)
                differ.append(first != second)
                assert len(first) > 100
            else:
                assert command == "sfumato"
                run(words)
        assert differ == [False, False]
        tally = sf.Tally.load("after.parquet", STUDY)
        assert tally.n == 40
        # A backup that lacks one report is found.
        more = Batch(STUDY.fingerprint, day, (bytes(16),), (bytes(size),)).to_bytes()
        made.upload(study.fingerprint, more)
        run(["export", "tally", STUDY.fingerprint[:8], "--out", "before.parquet", "--force"])
        assert Path("before.parquet").read_bytes() != Path("after.parquet").read_bytes()


@pytest.mark.slow
def test_a_database_needs_no_rights_but_those_of_its_owner(database: str) -> None:
    import psycopg

    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS sfumato")
        connection.execute("DROP ROLE IF EXISTS sfumato")
        connection.execute("CREATE ROLE sfumato LOGIN NOSUPERUSER PASSWORD 'secret'")
        connection.execute("CREATE DATABASE sfumato OWNER sfumato")
        host = connection.info.host
        url = f"postgresql://sfumato:secret@/sfumato?host={host}&port={connection.info.port}"
        with Collector(open_store(url), Settings(tally_seconds=3_600)) as made:
            assert isinstance(made.store, PostgresStore)
            study, _ = made.publish(STUDY.to_toml(), minimum=1)
            data = Batch(STUDY.fingerprint, made.today() + 1, (bytes(16),), (bytes(1),)).to_bytes()
            assert made.upload(study.fingerprint, data).accepted == 1
            assert made.tally() == 1
        connection.execute("DROP DATABASE sfumato")
        connection.execute("DROP ROLE sfumato")


# The container


def lines(word: str) -> list[str]:
    """What follows an instruction, each time it stands there."""
    text = CONTAINER.replace("\\\n", " ")
    return [line[len(word) + 1 :] for line in text.splitlines() if line.startswith(f"{word} ")]


def test_the_container_serves_with_settings_that_there_are(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (given,) = [dict(pair.split("=", 1) for pair in line.split()) for line in lines("ENV")]
    ours = {name: value for name, value in given.items() if name.startswith("SFUMATO_")}
    assert {name.removeprefix("SFUMATO_").lower() for name in ours} <= KEYS.keys()
    (folder,), (port,) = lines("VOLUME"), lines("EXPOSE")
    assert (ours["SFUMATO_STORE"], ours["SFUMATO_PORT"]) == (folder, port)
    assert lines("USER") == ["sfumato"]
    (entry,), (command,) = map(json.loads, lines("ENTRYPOINT")), map(json.loads, lines("CMD"))
    assert entry == ["sfumato"]
    for name, value in ours.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SFUMATO_STORE", str(here / "held"))
    monkeypatch.setenv("SFUMATO_PORT", "0")
    told = json.loads(run([*command, "--check", "--json"]))
    assert told["url"].startswith("http://0.0.0.0:")
    (check,) = lines("HEALTHCHECK")
    assert f"http://127.0.0.1:{port}/health" in json.loads(check.removeprefix("CMD "))[2]
    for image in lines("FROM"):
        assert image.startswith("python:3.13-slim")


def test_the_container_installs_the_locked_versions_of_what_a_collector_needs() -> None:
    (install, _) = lines("RUN")
    ((extras,),) = [re.findall(r"python -m supply\.part ([a-z ]+?) > part\.lock", install)]
    stated = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    assert set(extras.split()) <= stated["optional-dependencies"].keys()
    names = {package.name for package in part.part(read(), extras.split())}
    assert {"starlette", "uvicorn", "psycopg-binary", "numpy", "hatchling"} <= names
    assert not {"pytest", "pyspark"} & names
    assert install.count("--require-hashes --requirement part.lock") == 1


@pytest.mark.slow
def test_the_files_that_the_container_copies_are_enough_to_build_the_package(
    tmp_path: Path,
) -> None:
    for line in lines("COPY"):
        if line.startswith("--from="):
            continue
        *sources, target = line.split()
        for name in sources:
            source = ROOT / name
            assert source.exists(), name
            if source.is_dir():
                shutil.copytree(source, tmp_path / target)
            else:
                shutil.copy(source, tmp_path / target)
    made = subprocess.run(
        [sys.executable, "-m", "supply.part", "server"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        env={},
    )
    assert "starlette==" in made.stdout
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel"],
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    listed: Any = subprocess.run(
        [sys.executable, "-m", "zipfile", "-l", str(wheel)], capture_output=True, text=True
    ).stdout
    assert "sfumato/service/app.py" in listed
    assert "sfumato/js/sfumato.js" in listed
