"""Scripted words in place of random ones, and what `encode` makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import BitColumns
from sfumato.channels.base import Channel
from sfumato.randomness.bits import Words


class OtherWordsError(Exception):
    """A sampler asked for other random words than those foreseen."""


class Script:
    """A source of given words.

    Args:
        requests: The words of each request.
    """

    secure = False

    def __init__(self, requests: Sequence[Words]) -> None:
        self._requests = iter(requests)

    def words(self, count: int) -> Words:
        """The words of the next request, if it asks for this many."""
        found = next(self._requests, None)
        if found is None or len(found) != count:
            raise OtherWordsError
        return found.copy()

    def end(self) -> None:
        """Refuse to leave words over."""
        if next(self._requests, None) is not None:
            raise OtherWordsError


def outputs_of(channel: Channel, cells: NDArray[np.int64], script: Script) -> NDArray[Any]:
    """What `encode` makes of scripted words: a symbol per person, or a row of bits.

    Args:
        channel: What is driven.
        cells: One per person.
        script: The words, all of which must be used.
    """
    outputs = channel.encode(cells, script)
    script.end()
    return outputs.to_matrix() if isinstance(outputs, BitColumns) else np.asarray(outputs)
