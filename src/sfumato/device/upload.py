"""One exchange with a collector, as in docs/upload-protocol.md.

Nothing is sent but the batch and, where the collector asks for one, a token. Redirections are not
followed.
"""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from sfumato.errors import UploadError, shown
from sfumato.files import read_json

SECONDS = 30.0  # to wait for an answer
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
    """The address of a collector.

    Args:
        url: Where its routes begin, such as "https://collector.example".
        token: What it asks for, if anything.

    Raises:
        UploadError: If it is no such address.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        rule = 'url must be an address such as "https://collector.example"'
        try:
            parts = urlsplit(url)
            port = parts.port
        except (ValueError, TypeError, AttributeError):
            raise UploadError(f"{rule}, got url={shown(url)}") from None
        plain = isinstance(url, str) and url.isascii() and url.isprintable() and " " not in url
        if not plain or parts.scheme not in ("http", "https") or not parts.hostname:
            raise UploadError(f"{rule}, got url={shown(url)}")
        if parts.username is not None or parts.query or parts.fragment:
            raise UploadError(
                f"{rule}, without a user name, query or fragment; give token= instead"
            )
        if token is not None and not (
            isinstance(token, str) and token and token.isascii() and token.isprintable()
        ):
            raise UploadError("token must be a text of printable ASCII characters; leave it out")
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname, port
        self._base = parts.path.rstrip("/")
        self._token = token

    def post(self, fingerprint: str, batch: bytes, media_type: str) -> Answer:
        """Send one batch.

        Args:
            fingerprint: The study.
            batch: The bytes of the batch.
            media_type: Their media type.
        """
        headers = {"Content-Type": media_type}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=SECONDS)
        try:
            route = f"{self._base}/v1/studies/{fingerprint}/reports"
            connection.request("POST", route, body=batch, headers=headers)
            response = connection.getresponse()
            data = response.read(_MOST_BYTES)
            wait = _seconds(response.getheader("Retry-After"))
            return Answer(response.status, _object(data), wait)
        except ssl.SSLCertVerificationError:
            raise UploadError(
                f"the collector {self._host!r} has no certificate that this device trusts, and "
                "nothing was sent; check the url and the device's certificates and clock"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            return Answer(0, reason=f"no answer ({type(error).__name__})")
        finally:
            connection.close()


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
