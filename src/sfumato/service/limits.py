"""How many requests an address may make; addresses are kept in memory for a short time only."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable

_MOST_ADDRESSES = 50_000


class Limits:
    """A bucket for each address: a request takes one drop, and drops come back at a fixed rate.

    Args:
        rate: Drops per second; 0 sets no limit.
        burst: How many drops a bucket holds.
        clock: Gives seconds.

    Example:
        >>> limits = Limits(1.0, 2.0, clock=lambda: 0.0)
        >>> [limits.wait("a"), limits.wait("a"), limits.wait("a"), limits.wait("b")]
        [0, 0, 1, 0]
    """

    def __init__(
        self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, address: str) -> int:
        """Take a drop; 0 if there was one, else after how many seconds there will be."""
        if not self._rate:
            return 0
        now = self._clock()
        left, last = self._buckets.pop(address, (self._burst, now))
        left = min(self._burst, left + (now - last) * self._rate)
        self._buckets[address] = (left - 1 if left >= 1 else left, now)
        self._forget(now)
        return 0 if left >= 1 else max(1, math.ceil((1 - left) / self._rate))

    def _forget(self, now: float) -> None:
        """Forget the addresses whose buckets are full again, and the oldest if there are many."""
        while self._buckets:
            address, (left, last) = next(iter(self._buckets.items()))
            full = left + (now - last) * self._rate >= self._burst
            if not full and len(self._buckets) <= _MOST_ADDRESSES:
                return
            del self._buckets[address]
