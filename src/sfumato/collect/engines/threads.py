"""The local engine: threads of this process.

Threads and no processes: Arrow decodes without Python's lock, and what is counted under the lock
takes less time than decoding.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from sfumato.collect.engines.engine import Engine
from sfumato.collect.engines.workers import Found, Item, Work


class Threads(Engine):
    """An engine that works in threads of this process.

    Args:
        threads: How many; left out, one per processor.
    """

    are_here = True

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads or os.cpu_count() or 1

    def __repr__(self) -> str:
        return f"<engine: {self.slots} threads of this process>"

    @property
    def slots(self) -> int:
        """How many threads there are."""
        return self._threads

    def gather(self, work: Work[Item, Found], items: Sequence[Item], wave: int) -> Generator[Found]:
        """What work gives for each item, in their order; see `Workers.gather`.

        Args:
            work: What to do with an item.
            items: The items.
            wave: Not needed: what a thread gives is here already.
        """
        with ThreadPoolExecutor(self.slots) as pool:
            ahead: deque[Future[Found]] = deque()
            try:
                for item in items:
                    ahead.append(pool.submit(work.function, item))
                    while len(ahead) > 2 * self.slots:  # so that few results are in memory
                        yield ahead.popleft().result()
                while ahead:
                    yield ahead.popleft().result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
