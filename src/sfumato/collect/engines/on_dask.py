"""Dask: items are tasks of a `distributed` scheduler, and their results merge on its workers."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

from sfumato.collect.engines.engine import Engine
from sfumato.collect.engines.workers import FAN, Found, Item, Work
from sfumato.errors import EngineError, shown

if TYPE_CHECKING:
    from distributed import Client

_INSTALL = "the engine 'dask' needs the extra 'dask': pip install 'sfumato[dask]'"


class Dask(Engine):
    """An engine that works on a Dask cluster.

    Args:
        client: A client of the cluster, or its address, such as ``tcp://scheduler:8786``; left
            out, a cluster of processes of this machine is started.
        seconds: How long to wait for the scheduler and its first worker.

    Raises:
        EngineError: If Dask is not installed, or the cluster cannot be reached in time.
    """

    are_here = False

    def __init__(self, client: Client | str | None = None, *, seconds: float = 10.0) -> None:
        try:
            import distributed
        except ImportError:
            raise EngineError(_INSTALL) from None
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
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        except (KilledWorker, FutureCancelledError, OSError) as error:
            raise EngineError(f"the Dask cluster could not finish: {error}") from None
        finally:
            self.client.cancel(list(ahead))

    def _tree(self, work: Work[Item, Found], items: Sequence[Item]) -> Any:
        """The future of one result of all items."""
        level = [self.client.submit(work.function, item, pure=False) for item in items]
        while len(level) > 1:
            level = [
                self.client.submit(work.merge, level[start : start + FAN], pure=False)
                for start in range(0, len(level), FAN)
            ]
        return level[0]
