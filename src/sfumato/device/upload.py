"""One exchange with a collector, as in docs/upload-protocol.md.

Nothing is sent but the batch and, where the collector asks for one, a token. Redirections are not
followed.
"""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sfumato.device.address import Address
from sfumato.files import read_json

_MOST_BYTES = 1 << 24  # of an answer
_LONGEST_WAIT = 31 * 86_400  # by then every report that waits has expired


@dataclass(frozen=True, slots=True)
class Answer:
    """What a collector answered.

    Attributes:
        status: The HTTP status; 0 if no answer came.
        body: The JSON object in its body, empty if there was none.
        retry_after: Seconds to wait at least.
        reason: Why no answer came, in words.
    """

    status: int
    body: Mapping[str, Any] = field(default_factory=dict)
    retry_after: float = 0.0
    reason: str = ""

    def number(self, name: str) -> int | None:
        """A whole number of at least 0 in the body; None if it holds none by that name."""
        found = self.body.get(name)
        return found if type(found) is int and found >= 0 else None

    def refused(self, count: int) -> dict[int, str] | None:
        """By place, why reports of a batch were refused; None unless all of them are accounted for.

        Args:
            count: How many reports the batch had.
        """
        accepted, repeated = self.number("accepted"), self.number("repeated")
        listed = self.body.get("refused")
        if accepted is None or repeated is None or not isinstance(listed, list):
            return None
        found: dict[int, str] = {}
        for item in listed:
            if not isinstance(item, dict):
                return None
            place, code = item.get("place"), item.get("code")
            if type(place) is not int or not 0 <= place < count or not isinstance(code, str):
                return None
            found[place] = code[:100]
        whole = len(found) == len(listed) and accepted + repeated + len(found) == count
        return found if whole else None


class Collector:
    """A collector to which batches are sent.

    Args:
        url: Where its routes begin, such as "https://collector.example".
        token: What it asks for, if anything.

    Raises:
        UploadError: If it is no such address.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        self._address = Address(url, token)

    def post(self, fingerprint: str, batch: bytes, media_type: str) -> Answer:
        """Send one batch.

        Args:
            fingerprint: The study.
            batch: The bytes of the batch.
            media_type: Their media type.
        """
        route, headers = f"/v1/studies/{fingerprint}/reports", {"Content-Type": media_type}
        try:
            found = self._address.exchange(
                "POST", route, body=batch, headers=headers, most=_MOST_BYTES
            )
        except (OSError, http.client.HTTPException) as error:
            return Answer(0, reason=f"no answer ({type(error).__name__})")
        return Answer(found.status, _object(found.data), _seconds(found.headers.get("retry-after")))


def _object(data: bytes) -> dict[str, Any]:
    """The JSON object in an answer's body; an empty one if it is something else."""
    try:
        found = read_json(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _seconds(text: str | None) -> float:
    """The seconds that `Retry-After` asks for; none if it is no whole number."""
    if text is None or not (text.isascii() and text.isdecimal()):
        return 0.0
    return float(min(int(text.lstrip("0")[:10] or 0), _LONGEST_WAIT))
