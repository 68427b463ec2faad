"""One Spark for all tests that need it: it takes seconds to start, and a process has one."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

import sfumato as sf
from sfumato.collect.engines.engine import Engine
from supply.java import java_home


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Spark on this machine, as `--engine spark` starts it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", str(java_home(tmp_path_factory.mktemp("java"))))
        patch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        with sf.engines.spark() as engine:
            yield engine
