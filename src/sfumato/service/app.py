"""The collector over HTTP: what every route does, and the groups of routes that do the rest.

It needs the extra `server`. Every answer but a document is JSON; a refusal has a stable `code` and
a sentence. Nothing of an uploader is written anywhere: no address, no header, no time.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from sfumato.errors import SfumatoError
from sfumato.service.collector import Collector
from sfumato.service.http import refused
from sfumato.service.limits import Limits
from sfumato.service.operations import Operations
from sfumato.service.pages import Pages
from sfumato.service.questions import Questions
from sfumato.service.refusals import RefusedError, place_of
from sfumato.service.routes import Endpoint, endpoints
from sfumato.service.studies import Studies
from sfumato.service.tokens import Holders, Token
from sfumato.service.writer import LOG

_STRANGERS_RATE, _STRANGERS_BURST = 0.5, 30.0  # of requests that need a token or patience
_TOKEN_SECONDS = 1.0  # until a token that was revoked elsewhere is refused
_DOCUMENT = {"Content-Security-Policy": "default-src 'none'", "X-Content-Type-Options": "nosniff"}
_READ = {"Access-Control-Allow-Origin": "*"}
_UPLOAD = {**_READ, "Access-Control-Expose-Headers": "Retry-After"}
_HEADERS = {"same": {}, "read": _READ, "upload": _UPLOAD}
_PREFLIGHT = {
    **_READ,
    "Access-Control-Allow-Methods": "POST",
    "Access-Control-Allow-Headers": "Content-Type, Authorization",
}

Handler = Callable[[Request, "Token | None"], Awaitable[Response]]


class Service:
    """The routes of one collector.

    Args:
        collector: The collector.
    """

    def __init__(self, collector: Collector) -> None:
        self.collector = collector
        settings = collector.settings
        self.endpoints = endpoints(settings.upload_token)
        self._limits = Limits(settings.rate, settings.burst)
        self._strangers = Limits(min(settings.rate, _STRANGERS_RATE), _STRANGERS_BURST)
        self._holders = Holders(())
        self._holders_until = 0.0
        self.answered: Counter[tuple[str, int]] = Counter()
        self._groups = (
            Operations(collector, self.answered),
            Studies(collector),
            Questions(collector),
            Pages(collector),
        )

    def app(self) -> Starlette:
        """The application, which stops the collector when it ends."""
        return Starlette(
            routes=[
                # Routes are tried in this order, and uploads come most often.
                Route(endpoint.path, self._route(endpoint), methods=[endpoint.method])
                for endpoint in sorted(self.endpoints, key=lambda one: one.name != "upload")
            ]
            + [
                Route(endpoint.path, _preflight, methods=["OPTIONS"])
                for endpoint in self.endpoints
                if endpoint.origin == "upload"
            ],
            lifespan=self._lifespan,
            exception_handlers={HTTPException: _no_route},
        )

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Load the studies before requests are taken; store what waits when it ends."""
        try:
            await run_in_threadpool(self.collector.warm)
            yield
        finally:
            await run_in_threadpool(self.collector.stop)

    def _handler(self, name: str) -> Handler:
        """The method that answers a route, of the one group that has it."""
        (found,) = (getattr(group, name) for group in self._groups if hasattr(group, name))
        handler: Handler = found
        return handler

    def _route(self, endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
        """A route: limits, tokens, the answer or the refusal, headers."""
        handler = self._handler(endpoint.name)
        headers = {**_DOCUMENT, **_HEADERS[endpoint.origin]}

        async def answer(request: Request) -> Response:
            try:
                if endpoint.limited:
                    _limit(request, self._limits)
                response = await handler(request, await self._holder(request, endpoint))
            except SfumatoError as error:
                response = refused(error)
            except ClientDisconnect:
                response = Response(status_code=400)  # which nobody receives
            except Exception as error:  # noqa: BLE001 - the service stays up, and its log says where
                LOG.error("%s failed: %s", endpoint.name, place_of(error))
                response = refused(
                    RefusedError(500, "internal", "this request failed; try again later")
                )
            for name, value in headers.items():
                response.headers.setdefault(name, value)
            self.answered[endpoint.name, response.status_code] += 1
            return response

        return answer

    async def _holder(self, request: Request, endpoint: Endpoint) -> Token | None:
        """Whose token came with a request; refused if the route takes others."""
        if endpoint.roles is None:
            return None
        if endpoint.open and "authorization" not in request.headers:
            _limit(request, self._strangers)
            return None
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not token:
            raise RefusedError(
                401, "token", "a token is needed: send it as 'Authorization: Bearer ...'"
            )
        if time.monotonic() >= self._holders_until:
            self._holders = await run_in_threadpool(self.collector.holders)
            self._holders_until = time.monotonic() + _TOKEN_SECONDS
        found = self._holders.of(token.strip())
        if found is None:
            raise RefusedError(401, "token", "this token is not valid, or was revoked")
        if found.role not in endpoint.roles:
            raise RefusedError(
                403, "role", f"a token of {found.role} does not allow this; use another one"
            )
        return found


def _limit(request: Request, limits: Limits) -> None:
    """Refuse an address that asks too often."""
    wait = limits.wait("" if request.client is None else request.client.host)
    if wait:
        raise RefusedError(
            429,
            "rate",
            f"too many requests from this address; wait {wait} seconds",
            retry_after=wait,
        )


async def _no_route(request: Request, error: Exception) -> Response:
    """The answer where there is no route, or none of this method."""
    assert isinstance(error, HTTPException)  # noqa: S101 - it handles these only
    if error.status_code == 405:
        refusal = RefusedError(405, "method", "this address does not take this method")
    else:
        refusal = RefusedError(error.status_code, "route", "there is nothing at this address")
    response = refused(refusal)
    response.headers.update(_DOCUMENT | dict(error.headers or {}))
    return response


async def _preflight(request: Request) -> Response:
    """What a browser asks before a page of another origin may upload."""
    return Response(status_code=204, headers=_PREFLIGHT | _DOCUMENT)
