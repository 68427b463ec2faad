"""Dask: items are tasks of a `distributed` scheduler, and their results merge on its workers."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

from sfumato.collect.engines.engine import Engine
from sfumato.collect.engines.workers import FAN, Found, Item, Work
from sfumato.errors import EngineError, shown
from sfumato.extras import need

if TYPE_CHECKING:
    from distributed import Client

_PAUSE = 2.0  # seconds between looks at the workers


class Dask(Engine):
    """An engine that works on a Dask cluster.

    Args:
        client: A client of the cluster, or its address, such as ``tcp://scheduler:8786``; left
            out, a cluster of processes of this machine is started.
        seconds: How long to wait for the scheduler and its first worker.
        patience: How many seconds to wait for a worker once all are lost.

    Raises:
        EngineError: If the cluster cannot be reached in time.
        MissingExtraError: If Dask is not installed.
    """

    are_here = False

    def __init__(
        self,
        client: Client | str | None = None,
        *,
        seconds: float = 10.0,
        patience: float = 120.0,
    ) -> None:
        distributed = need("distributed")
        self.patience = patience
        self._started: list[Any] = []
        if client is None:
            try:
                cluster = distributed.LocalCluster(
                    threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
                )
            except RuntimeError as error:
                raise EngineError(
                    f"Dask could not start processes on this machine ({error}); in a script, begin "
                    "the work below: if __name__ == '__main__'"
                ) from None
            self._started.append(cluster)
            client = self._connected(cluster, "the cluster of this machine", 60.0)
        elif isinstance(client, str):
            client = self._connected(client.replace("dask://", "tcp://", 1), repr(client), seconds)
        elif not isinstance(client, distributed.Client):
            raise EngineError(
                f"the engine 'dask' takes a distributed.Client or an address, got {shown(client)}"
            )
        self.client: Client = client

    def _connected(self, where: Any, what: str, seconds: float) -> Client:
        """A client of a scheduler that has a worker."""
        import distributed

        try:
            client = distributed.Client(where, timeout=seconds, set_as_default=False)
            self._started.insert(0, client)
            client.wait_for_workers(1, timeout=seconds)
        except (OSError, ValueError) as error:
            self.close()
            raise EngineError(
                f"cannot reach a Dask scheduler with a worker at {what} within {seconds:g} "
                f"seconds ({type(error).__name__}); start it, or check the address"
            ) from None
        return client

    def close(self) -> None:
        """Leave the cluster; one that this engine started ends."""
        while self._started:
            self._started.pop(0).close()

    def __repr__(self) -> str:
        return f"<engine: {self.slots} slots of a Dask cluster>"

    @property
    def slots(self) -> int:
        """How many tasks run at a time."""
        return sum(self.client.nthreads().values()) or 1

    def gather(self, work: Work[Item, Found], items: Sequence[Item], wave: int) -> Generator[Found]:
        """Results of items, one for each wave; see `Workers.gather`.

        Args:
            work: What to do.
            items: The items.
            wave: How many items are merged into one result.
        """
        from distributed.client import FutureCancelledError
        from distributed.scheduler import KilledWorker

        ahead: deque[Any] = deque()
        try:
            for start in range(0, len(items), wave):
                ahead.append(self._tree(work, items[start : start + wave]))
                if len(ahead) > 1:  # the workers have the next wave while this one is merged here
                    yield self._first(ahead)
            while ahead:
                yield self._first(ahead)
        except (KilledWorker, FutureCancelledError, OSError) as error:
            raise EngineError(f"the Dask cluster could not finish: {error}") from None
        finally:
            self.client.cancel(list(ahead))

    def _first(self, ahead: deque[Any]) -> Any:
        """Take the first of some results; without workers, Dask itself would wait for ever."""
        seen = time.monotonic()
        while not ahead[0].done():
            with contextlib.suppress(TimeoutError):
                ahead[0].exception(timeout=_PAUSE)
                break
            self._ask_for_lost_workers()
            if any(map(_works, self.client.scheduler_info()["workers"].values())):
                seen = time.monotonic()
            elif time.monotonic() - seen > self.patience:
                raise EngineError(
                    f"the Dask cluster has had no worker that works for {self.patience:g} seconds; "
                    "start workers, or see why they end or are paused (their logs say it; often "
                    "they lack memory), and run this again"
                )
        return ahead.popleft().result()

    def _ask_for_lost_workers(self) -> None:
        """Have a cluster start again the workers that it gave up.

        It looks once, some seconds after it lost a worker, whether that is back; one that still
        starts just then is ended, and no other takes its place.
        """
        from distributed import SpecCluster

        cluster = self.client.cluster
        if isinstance(cluster, SpecCluster) and len(cluster.workers) < len(cluster.worker_spec):
            cluster.scale(len(cluster.worker_spec))

    def _tree(self, work: Work[Item, Found], items: Sequence[Item]) -> Any:
        """The future of one result of all items."""
        level = [self.client.submit(work.function, item, pure=False) for item in items]
        while len(level) > 1:
            level = [
                self.client.submit(work.merge, level[start : start + FAN], pure=False)
                for start in range(0, len(level), FAN)
            ]
        return level[0]


def _works(worker: dict[str, Any]) -> bool:
    """Whether a worker takes tasks, or does one while it is paused."""
    doing: int = worker["metrics"].get("task_counts", {}).get("executing", 0)
    return worker["status"] == "running" or doing > 0
