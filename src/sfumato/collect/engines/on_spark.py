"""Spark: items are tasks of an RDD, and their results merge on the executors.

Paths travel to the executors and merged results come back. Reports never pass through rows, data
frames or the JVM: the Python workers read the files themselves.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from sfumato.collect.engines.engine import Engine
from sfumato.collect.engines.workers import FAN, Found, Item, Work
from sfumato.errors import EngineError, shown
from sfumato.extras import need

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

_OLDEST_JAVA = 17
_PAUSE = 0.1  # seconds between looks for a worker
_TRIES = 4  # of a task on this machine, as Spark has on clusters
# Last lines of tracebacks that Spark quotes.
_OURS = re.compile(r"^sfumato\.errors\.EngineError: (.*)$", re.MULTILINE)
_OTHERS = re.compile(r"^([A-Za-z][\w.]*(?:Error|Exception|Interrupt))\b", re.MULTILINE)


class Spark(Engine):
    """An engine that works on Spark.

    Args:
        session: A session, or the address of a master, such as ``spark://master:7077``; left out,
            the session that is active, or else Spark is started on this machine.
        seconds: How long to wait for the master, and then for its first worker.

    Raises:
        EngineError: If Java is missing or too old, or the cluster cannot be reached in time.
        MissingExtraError: If Spark is not installed.
    """

    are_here = False

    def __init__(self, session: SparkSession | str | None = None, *, seconds: float = 10.0) -> None:
        sql = need("pyspark.sql")
        self._own = False
        if session is None:
            session = sql.SparkSession.getActiveSession()
        if session is None or isinstance(session, str):
            if session is None:
                session = _started(f"local[*,{_TRIES}]")
            else:
                _refuse_unreachable(session, seconds)
                session = _with_workers(_started(session), session, seconds)
            self._own = True
        elif not isinstance(session, sql.SparkSession) or not hasattr(session, "_jsc"):
            raise EngineError(
                "the engine 'spark' takes a SparkSession with a SparkContext or the address of a "
                f"master, got {shown(session)}"
            )
        self.session = session

    def close(self) -> None:
        """Stop Spark if this engine started it."""
        if self._own:
            self.session.stop()

    def __repr__(self) -> str:
        return f"<engine: {self.slots} slots of Spark>"

    @property
    def slots(self) -> int:
        """How many tasks run at a time."""
        return int(self.session.sparkContext.defaultParallelism)

    def gather(self, work: Work[Item, Found], items: Sequence[Item], wave: int) -> Generator[Found]:
        """Results of items, one for each wave; see `Workers.gather`.

        Args:
            work: What to do.
            items: The items.
            wave: How many items are merged into one result.
        """
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        for start in range(0, len(items), wave):
            try:
                (found,) = self._tree(work, items[start : start + wave]).collect()
            except (PySparkException, Py4JJavaError) as error:
                raise EngineError(f"Spark could not finish: {_reason(str(error))}") from None
            yield found

    def _tree(self, work: Work[Item, Found], items: Sequence[Item]) -> RDD[Found]:
        """One result of all items, as an RDD."""
        count, merge = len(items), work.merge
        level: RDD[Any] = self.session.sparkContext.parallelize(list(enumerate(items)), count)
        level = level.mapValues(work.function)
        while count > 1:
            count = -(-count // FAN)
            level = (
                level.map(lambda pair: (pair[0] // FAN, pair))
                .groupByKey(count, int)
                .mapValues(lambda held: merge([it for _, it in sorted(held, key=itemgetter(0))]))
            )
        return level.values()


def _reason(told: str) -> str:
    """Why a task failed; messages that are not ours are left out, since they may quote a value."""
    if ours := _OURS.findall(told):
        return str(ours[-1])
    others = _OTHERS.findall(told)
    return f"{others[-1] if others else 'a task'} failed; the log of Spark says more"


def _started(master: str) -> SparkSession:
    """A session of a master."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        raise EngineError(
            f"a Spark session of {active.sparkContext.master!r} is active, and a process has one; "
            f"give that session to the engine, or stop it before {master!r} is used"
        )
    _refuse_java()
    builder = SparkSession.builder.master(master).appName("sfumato")
    builder = builder.config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    if master.startswith("local"):
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
        builder = builder.config("spark.driver.host", "127.0.0.1")
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return builder.getOrCreate()


def _with_workers(session: SparkSession, master: str, seconds: float) -> SparkSession:
    """A session of a cluster, once a worker does something for it; Spark itself would wait on."""
    context = session.sparkContext
    if context.getConf().get("spark.dynamicAllocation.enabled", "false") == "true":
        return session  # which asks for workers when there is work
    tracker: Any = context._jsc.sc().statusTracker()
    end = time.monotonic() + seconds
    while len(tracker.getExecutorInfos()) < 2:  # the first is this process
        if time.monotonic() > end:
            session.stop()
            raise EngineError(
                f"the Spark master at {master!r} had no worker for us within {seconds:g} seconds; "
                "start one, see that it has a processor and memory to spare, and that it can reach "
                "this machine"
            )
        time.sleep(_PAUSE)
    return session


def _refuse_unreachable(master: str, seconds: float) -> None:
    """Refuse a master that does not answer in time; Spark itself would try for minutes."""
    parts = urlsplit(master)
    if parts.scheme != "spark" or not parts.hostname:
        raise EngineError(
            f"the address of a Spark master is written spark://host:port, got {shown(master)}"
        )
    try:
        socket.create_connection((parts.hostname, parts.port or 7077), seconds).close()
    except OSError as error:
        raise EngineError(
            f"cannot reach a Spark master at {master!r} within {seconds:g} seconds "
            f"({error.strerror or error}); start it, or check the address"
        ) from None


def _refuse_java() -> None:
    """Refuse to start Spark without the Java that it needs."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    needed = f"Spark needs Java {_OLDEST_JAVA} or newer"
    remedy = f"install one, such as OpenJDK {_OLDEST_JAVA}, and let JAVA_HOME name its folder"
    if java is None or not Path(java).is_file():
        where = f"JAVA_HOME names {home!r}, which has none" if home else "none is on the PATH"
        raise EngineError(f"{needed}, and {where}; {remedy}")
    told = subprocess.run(  # noqa: S603 - the Java that Spark itself would start
        [java, "-version"], capture_output=True, text=True, check=False
    ).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', told)
    if found is None or int(found[1]) < _OLDEST_JAVA:
        version = f"Java {found[1]}" if found else "something else"
        raise EngineError(f"{needed}, and {java!r} is {version}; {remedy}")
