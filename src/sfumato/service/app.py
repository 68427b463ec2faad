"""The collector over HTTP: the routes of the upload protocol, of studies and of questions.

It needs the extra `server`. Every answer but a document is JSON; a refusal has a stable `code` and
a sentence. Nothing of an uploader is written anywhere: no address, no header, no time.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.resources
import json
import threading
import time
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import cached_property, partial
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from sfumato import __version__
from sfumato.checks import one_of
from sfumato.device.wire import MEDIA_TYPE, WireError
from sfumato.errors import SfumatoError, StoreError
from sfumato.estimation.estimate import Estimate
from sfumato.files import read_json
from sfumato.service import published
from sfumato.service.answering import log
from sfumato.service.collector import Collector
from sfumato.service.figures import figures
from sfumato.service.limits import Limits
from sfumato.service.published import Published
from sfumato.service.receiving import Outcome, too_long
from sfumato.service.refusals import RefusedError
from sfumato.service.routes import Endpoint, endpoints
from sfumato.service.status import status
from sfumato.service.stores.base import FullError
from sfumato.service.tokens import Holders, Token
from sfumato.service.writer import LOG, Done

_MOST_QUESTION = 1 << 16  # bytes of a question
_MOST_STUDY = 1 << 22  # bytes of a study file
_MOST_UNREAD = 1 << 26  # bytes of a body that is too long, read so that the refusal arrives
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
_METHODS = ("count", "fraction", "mean", "total")

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
        self._holders = Holders(())
        self._holders_until = 0.0
        self.answered: Counter[tuple[str, int]] = Counter()
        self._settled = _Settled()

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

    # What every route does

    def _route(self, endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
        """A route: limits, tokens, the answer or the refusal, headers."""
        handler: Handler = getattr(self, f"_{endpoint.name}")
        headers = {**_DOCUMENT, **_HEADERS[endpoint.origin]}

        async def answer(request: Request) -> Response:
            try:
                if endpoint.limited:
                    self._limit(request)
                response = await handler(request, await self._holder(request, endpoint))
            except SfumatoError as error:
                response = _refused(error)
            except ClientDisconnect:
                response = Response(status_code=400)  # which nobody receives
            except Exception as error:  # noqa: BLE001 - the service stays up, and its log says where
                LOG.error("%s failed: %s", endpoint.name, _place(error))
                response = _refused(
                    RefusedError(500, "internal", "this request failed; try again later")
                )
            response.headers.update(headers)
            self.answered[endpoint.name, response.status_code] += 1
            return response

        return answer

    def _limit(self, request: Request) -> None:
        """Refuse an address that asks too often."""
        wait = self._limits.wait("" if request.client is None else request.client.host)
        if wait:
            raise RefusedError(
                429,
                "rate",
                f"too many requests from this address; wait {wait} seconds",
                retry_after=wait,
            )

    async def _holder(self, request: Request, endpoint: Endpoint) -> Token | None:
        """Whose token came with a request; refused if the route takes others."""
        if endpoint.roles is None:
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

    async def _find(self, request: Request) -> Published:
        """The study that a path names."""
        fingerprint = request.path_params["fingerprint"]
        known = self.collector.known(fingerprint)
        if known is not None:
            return known
        return await run_in_threadpool(self.collector.find, fingerprint)

    async def _body(self, request: Request, most: int, refusal: RefusedError) -> bytes:
        """The body of a request; a longer one is read to its end and refused."""
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self.collector.settings.body_seconds):
                async for part in request.stream():
                    size += len(part)
                    if size > most:
                        parts.clear()
                    else:
                        parts.append(part)
                    if size > max(most, _MOST_UNREAD):
                        break
        except TimeoutError:
            raise RefusedError(
                503, "slow", "the request took too long to come; try again", retry_after=5
            ) from None
        if size > most:
            raise refusal
        return b"".join(parts)

    # The collector itself

    async def _health(self, request: Request, who: Token | None) -> Response:
        return JSONResponse({"version": __version__})

    async def _ready(self, request: Request, who: Token | None) -> Response:
        if not self.collector.writer.alive:
            raise RefusedError(503, "stopping", "the collector stops", retry_after=5)
        await run_in_threadpool(self.collector.holders)  # the store answers
        return JSONResponse({"ready": True})

    async def _metrics(self, request: Request, who: Token | None) -> Response:
        text, kind = await run_in_threadpool(figures, self.collector, dict(self.answered))
        return Response(text, media_type=kind)

    async def _status(self, request: Request, who: Token | None) -> Response:
        return JSONResponse(await run_in_threadpool(status, self.collector, dict(self.answered)))

    @cached_property
    def _script(self) -> bytes:
        """The client for browsers, as the package brings it."""
        return (importlib.resources.files("sfumato") / "js" / "sfumato.js").read_bytes()

    async def _client(self, request: Request, who: Token | None) -> Response:
        return Response(self._script, media_type="text/javascript")

    # Studies

    async def _studies(self, request: Request, who: Token | None) -> Response:
        def listed() -> list[dict[str, Any]]:
            return [study.to_dict() for study in published.every(self.collector.store)]

        return JSONResponse({"studies": await run_in_threadpool(listed)})

    async def _publish(self, request: Request, who: Token | None) -> Response:
        longer = RefusedError(413, "size", f"a study file may have at most {_MOST_STUDY:,} bytes")
        body = await self._body(request, _MOST_STUDY, longer)
        try:
            text = body.decode()
            minimum = int(request.query_params.get("minimum", published.MINIMUM))
        except ValueError:
            raise RefusedError(
                400, "file", "a study file must be UTF-8, and minimum a whole number"
            ) from None
        publish = partial(
            self.collector.publish,
            text,
            minimum=minimum,
            keep=request.query_params.get("keep", "reports"),  # type: ignore[arg-type]
        )
        study, new = await run_in_threadpool(publish)
        return JSONResponse(study.to_dict(), 201 if new else 200)

    async def _study(self, request: Request, who: Token | None) -> Response:
        return JSONResponse((await self._find(request)).to_dict())

    async def _delete(self, request: Request, who: Token | None) -> Response:
        await run_in_threadpool(self.collector.delete, await self._find(request))
        return Response(status_code=204)

    async def _file(self, request: Request, who: Token | None) -> Response:
        return Response((await self._find(request)).file, media_type="application/toml")

    async def _program(self, request: Request, who: Token | None) -> Response:
        return Response((await self._find(request)).program, media_type="application/json")

    async def _explanation(self, request: Request, who: Token | None) -> Response:
        return PlainTextResponse((await self._find(request)).explanation)

    async def _audit(self, request: Request, who: Token | None) -> Response:
        return Response((await self._find(request)).audit, media_type="application/json")

    # Reports

    async def _upload(self, request: Request, who: Token | None) -> Response:
        study = await self._find(request)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != MEDIA_TYPE:
            raise RefusedError(415, "media", f"a batch must have Content-Type: {MEDIA_TYPE}")
        collector = self.collector
        longer = too_long(collector.settings.most_reports)
        data = await self._body(request, collector.longest(study), longer)
        future: asyncio.Future[Done] = asyncio.get_running_loop().create_future()
        collector.put(collector.read(study, data), partial(self._settled.put, future))
        try:
            async with asyncio.timeout(collector.settings.store_seconds):
                found = await future
        except TimeoutError:
            raise RefusedError(
                504, "unknown", "it is not known whether this was stored; send the same ids again"
            ) from None
        if isinstance(found, Outcome):
            return JSONResponse(found.to_dict(), found.status)
        if found.status == 404:
            collector.forget(study)
        raise found

    async def _counts(self, request: Request, who: Token | None) -> Response:
        study = await self._find(request)
        return JSONResponse(await run_in_threadpool(self.collector.counts, study))

    # Questions

    async def _ask(self, request: Request, who: Token | None) -> Response:
        study = await self._find(request)
        longer = RefusedError(413, "size", f"a question may have at most {_MOST_QUESTION:,} bytes")
        try:
            given = read_json(await self._body(request, _MOST_QUESTION, longer))
        except ValueError:
            raise RefusedError(400, "json", "a question must be JSON") from None
        method, ask = question(given)
        assert who is not None  # noqa: S101 - the route takes tokens only
        answer = partial(self.collector.answering.answer, study, who, given, method, ask)
        return JSONResponse((await run_in_threadpool(answer)).to_dict())

    async def _questions(self, request: Request, who: Token | None) -> Response:
        try:
            after = int(request.query_params.get("after", "0"))
        except ValueError:
            after = -1
        if not 0 <= after < 1 << 53:
            raise RefusedError(400, "after", "after must be the number of an entry")
        entries = await run_in_threadpool(lambda: list(log(self.collector.store, after)))
        lines = "".join(json.dumps(entry) + "\n" for entry in entries)
        return Response(lines, media_type="application/jsonl")


def question(given: object) -> tuple[str, Callable[[Estimate], dict[str, Any]]]:
    """A question as JSON: how to estimate, and what to ask of the estimate.

    Args:
        given: An object with one of "count", "fraction" (a question), "mean" or "total" (an axis),
            and, if wanted, "where", "level", "population" and "method".

    Raises:
        RefusedError: If it is no such object.
    """
    if not isinstance(given, Mapping):
        raise RefusedError(400, "question", "a question must be a JSON object")
    kinds = [name for name in _METHODS if name in given]
    unknown = set(given) - {*_METHODS, "where", "level", "population", "method"}
    if len(kinds) != 1 or unknown:
        raise RefusedError(
            400,
            "question",
            f"a question must have one of {', '.join(_METHODS)}; and where, level, population and "
            "method if wanted, nothing else",
        )
    kind = kinds[0]
    text, where = given[kind], given.get("where")
    level, population = given.get("level", 0.95), given.get("population", False)
    method = one_of(given.get("method", "auto"), "method", ("auto", "likelihood", "unbiased"))
    texts = isinstance(text, str) and (where is None or isinstance(where, str))
    number = isinstance(level, int | float) and not isinstance(level, bool)
    if not (texts and number and isinstance(population, bool)):
        raise RefusedError(
            400,
            "question",
            f"{kind} and where must be texts, level a number, population true or false",
        )

    def ask(estimate: Estimate) -> dict[str, Any]:
        put = getattr(estimate, kind)
        found: dict[str, Any] = put(text, where=where, level=level, population=population).to_dict()
        return found

    return method, ask


class _Settled:
    """Tells uploads what became of them: one call of the event loop for all of a commit."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: list[tuple[asyncio.Future[Done], Done]] = []

    def put(self, future: asyncio.Future[Done], done: Done) -> None:
        """Take what became of one upload; called from the writer's thread."""
        with self._lock:
            self._held.append((future, done))
            if len(self._held) > 1:  # the loop has been called
                return
        future.get_loop().call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        """Tell all that have not given up."""
        with self._lock:
            held, self._held = self._held, []
        for future, done in held:
            if not future.done():
                future.set_result(done)


def _refused(error: SfumatoError) -> Response:
    """The answer to a request that is refused."""
    if isinstance(error, RefusedError):
        refusal = error
    elif isinstance(error, WireError):
        refusal = RefusedError(400, error.code, str(error))
    elif isinstance(error, FullError):
        refusal = RefusedError(507, "full", str(error), retry_after=60)
    elif isinstance(error, StoreError):
        refusal = RefusedError(500, "store", str(error))
    else:
        name = type(error).__name__.removesuffix("Error")
        refusal = RefusedError(400, _CODES.get(name, "question"), str(error))
    headers = {} if refusal.retry_after is None else {"Retry-After": str(refusal.retry_after)}
    if refusal.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(refusal.to_dict(), refusal.status, headers)


_CODES = {"Format": "file", "Study": "study", "Question": "question", "TooLarge": "large"}


async def _no_route(request: Request, error: Exception) -> Response:
    """The answer where there is no route, or none of this method."""
    assert isinstance(error, HTTPException)  # noqa: S101 - it handles these only
    if error.status_code == 405:
        refusal = RefusedError(405, "method", "this address does not take this method")
    else:
        refusal = RefusedError(error.status_code, "route", "there is nothing at this address")
    response = _refused(refusal)
    response.headers.update(_DOCUMENT | dict(error.headers or {}))
    return response


async def _preflight(request: Request) -> Response:
    """What a browser asks before a page of another origin may upload."""
    return Response(status_code=204, headers=_PREFLIGHT | _DOCUMENT)


def _place(error: BaseException) -> str:
    """Where something failed; what it says could show a report."""
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1] if frames else None
    at = f" at {last.name}, line {last.lineno}" if last else ""
    return f"{type(error).__name__}{at}"
