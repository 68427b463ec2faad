"""The address of a collector, and one exchange with it; redirections are not followed."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from sfumato.errors import UploadError, shown

SECONDS = 30.0  # to wait for an answer


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back.

    Attributes:
        status: The HTTP status.
        headers: The headers, by their names in small letters.
        data: The body.
    """

    status: int
    headers: Mapping[str, str]
    data: bytes


class Address:
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
        self.host, self._port = parts.hostname, port
        self._base = parts.path.rstrip("/")
        self._token = token

    def exchange(
        self,
        method: str,
        route: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float = SECONDS,
        most: int,
    ) -> Reply:
        """Send one request.

        Args:
            method: The method of HTTP.
            route: The path, and a query if there is one.
            body: The body, if any.
            headers: Headers beside the token.
            seconds: How long to wait for each part of the answer.
            most: How many bytes of the answer's body are read.

        Raises:
            OSError: If no answer comes.
            http.client.HTTPException: If what comes is none.
            UploadError: If the collector's certificate is not to be trusted.
        """
        sent = dict(headers or {})
        if self._token is not None:
            sent["Authorization"] = f"Bearer {self._token}"
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(self.host, self._port, timeout=seconds)
        try:
            connection.request(method, f"{self._base}{route}", body=body, headers=sent)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Reply(response.status, found, response.read(most))
        except ssl.SSLCertVerificationError:
            raise UploadError(
                f"the collector {self.host!r} has no certificate that this device trusts, and "
                "nothing was sent; check the url and the device's certificates and clock"
            ) from None
        finally:
            connection.close()
