"""Engines by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.collect.engines.engine import Engine
from sfumato.collect.engines.on_dask import Dask
from sfumato.collect.engines.on_spark import Spark
from sfumato.collect.engines.threads import Threads
from sfumato.errors import EngineError, shown

if TYPE_CHECKING:
    from distributed import Client
    from pyspark.sql import SparkSession

#: How an engine is named on the command line.
FORMS = "local, dask, dask://host:port, spark or spark://host:port"


def local(threads: int | None = None) -> Engine:
    """The engine of this process: threads that read files.

    Args:
        threads: How many; left out, one per processor.
    """
    return Threads(threads)


def dask(
    client: Client | str | None = None, *, seconds: float = 10.0, patience: float = 120.0
) -> Engine:
    """The engine of a Dask cluster; needs the extra `dask`.

    Args:
        client: A `distributed.Client`, or an address such as ``tcp://scheduler:8786``; left out, a
            cluster of processes of this machine is started.
        seconds: How long to wait for the scheduler and its first worker.
        patience: How many seconds to wait for a worker once all are lost.

    Raises:
        EngineError: If the cluster cannot be reached in time.
        MissingExtraError: If Dask is not installed.
    """
    return Dask(client, seconds=seconds, patience=patience)


def spark(session: SparkSession | str | None = None, *, seconds: float = 10.0) -> Engine:
    """The engine of Spark; needs the extra `spark`, and Java.

    Args:
        session: A `SparkSession`, or an address such as ``spark://master:7077``; left out, the
            session that is active, or else Spark is started on this machine.
        seconds: How long to wait for the master, and then for its first worker.

    Raises:
        EngineError: If Java is missing or too old, or the cluster cannot be reached in time.
        MissingExtraError: If Spark is not installed.
    """
    return Spark(session, seconds=seconds)


def named(text: str) -> Engine:
    """The engine that a word or an address means, such as ``dask`` or ``spark://master:7077``."""
    if text == "local":
        return local()
    name, _, place = text.partition("://")
    if name in ("dask", "spark") and bool(place) == ("://" in text):
        address = text if place else None
        return dask(address) if name == "dask" else spark(address)
    raise EngineError(f"an engine is {FORMS}, got {shown(text)}")
