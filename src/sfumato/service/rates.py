"""How many reports come per second: kept in memory only, from samples of the counters."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping

_SECONDS = 60.0  # between two samples
_MOST_SAMPLES = 61  # an hour


class Rates:
    """The rates of all studies over the last minute and the last hour.

    Args:
        clock: Gives seconds.

    Example:
        >>> times = iter([0.0, 60.0, 120.0])
        >>> rates = Rates(clock=lambda: next(times))
        >>> for accepted in (0, 600, 900):
        ...     rates.note({7: accepted})
        >>> rates.of(7)
        {'minute': 5.0, 'hour': 7.5}
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._samples: deque[tuple[float, dict[int, int]]] = deque(maxlen=_MOST_SAMPLES)

    @property
    def due(self) -> bool:
        """Whether it is time for another sample."""
        return not self._samples or self._clock() >= self._samples[-1][0] + _SECONDS

    def note(self, accepted: Mapping[int, int]) -> None:
        """Keep a sample: how many reports of each study have been accepted, by its number."""
        self._samples.append((self._clock(), dict(accepted)))

    def of(self, study: int) -> dict[str, float | None]:
        """Reports per second of a study; None until there are two samples."""
        samples = list(self._samples)
        if len(samples) < 2:
            return {"minute": None, "hour": None}
        until, last = samples[-1]
        found: dict[str, float | None] = {}
        for name, (start, first) in (("minute", samples[-2]), ("hour", samples[0])):
            # A report that turns out to be repeated is taken back, so the difference may fall.
            new = max(0, last.get(study, 0) - first.get(study, 0))
            found[name] = new / (until - start)
        return found
