"""A real Spark master: given up while it has no worker, and used once it has one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import sfumato as sf
from supply.java import java_home

pytestmark = pytest.mark.soak

# A process has one session of Spark, and tests have theirs already.
CLIENT = """
import sys
import sfumato as sf
master, seconds, study, files = sys.argv[1:]
try:
    with sf.engines.spark(master, seconds=float(seconds)) as engine:
        print(engine.tally(sf.Study.load(study), files).n)
except sf.EngineError as error:
    print(error)
"""


@contextmanager
def started(name: str, *words: str, until: str) -> Iterator[str]:
    """A daemon of Spark, and the line of its log that says that it is ready."""
    import pyspark

    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-class"), name, *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        try:
            yield next(line for line in run.stderr if until in line)
        finally:
            run.terminate()


def test_a_master_without_workers_is_given_up_and_one_with_a_worker_tallies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_home(tmp_path / "java")))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance("0.5"))])
    study.save(tmp_path / "study.toml")
    study.encode({"age": [31, 42, 77]}).save(tmp_path / "reports.parquet")
    deploy, web = "org.apache.spark.deploy", ("--host", "127.0.0.1", "--webui-port", "0")

    def client(master: str, seconds: str) -> str:
        words = [master, seconds, str(tmp_path / "study.toml"), str(tmp_path / "reports.parquet")]
        done = subprocess.run(
            [sys.executable, "-c", CLIENT, *words],
            capture_output=True,
            check=True,
            text=True,
            env=os.environ,
        )
        return done.stdout.strip()

    with started(f"{deploy}.master.Master", *web, "--port", "0", until="Starting Spark") as line:
        master = line.split()[-1]
        assert f"{master!r} had no worker for us within 2 seconds" in client(master, "2")
        words = ["-c", "1", "-m", "1g", "-d", str(tmp_path / "work"), master]
        with started(f"{deploy}.worker.Worker", *web, *words, until="Successfully registered"):
            assert client(master, "60") == "3"
