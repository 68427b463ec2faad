"""The routes about studies: what is published, publishing, reports that come, and deleting."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from sfumato.device.wire import MEDIA_TYPE
from sfumato.service import published
from sfumato.service.collector import Collector
from sfumato.service.http import find_study, read_body
from sfumato.service.receiving import Outcome, too_long
from sfumato.service.refusals import RefusedError
from sfumato.service.tokens import Token
from sfumato.service.writer import Done

_MOST_STUDY = 1 << 22  # bytes of a study file


class Studies:
    """Routes about studies.

    Args:
        collector: The collector.
    """

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._settled = _Settled()

    async def studies(self, request: Request, who: Token | None) -> Response:
        """List all studies."""

        def listed() -> list[dict[str, Any]]:
            return [study.to_dict() for study in published.every(self._collector.store)]

        return JSONResponse({"studies": await run_in_threadpool(listed)})

    async def publish(self, request: Request, who: Token | None) -> Response:
        """Publish a study file."""
        longer = RefusedError(413, "size", f"a study file may have at most {_MOST_STUDY:,} bytes")
        body = await read_body(self._collector, request, _MOST_STUDY, longer)
        try:
            text = body.decode()
            minimum = int(request.query_params.get("minimum", published.MINIMUM))
        except ValueError:
            raise RefusedError(
                400, "file", "a study file must be UTF-8, and minimum a whole number"
            ) from None
        publish = partial(
            self._collector.publish,
            text,
            minimum=minimum,
            keep=request.query_params.get("keep", "reports"),  # type: ignore[arg-type]
        )
        study, new = await run_in_threadpool(publish)
        return JSONResponse(study.to_dict(), 201 if new else 200)

    async def study(self, request: Request, who: Token | None) -> Response:
        """Give what anybody may know about a study."""
        return JSONResponse((await find_study(self._collector, request)).to_dict())

    async def delete(self, request: Request, who: Token | None) -> Response:
        """Delete a study with all of its reports."""
        study = await find_study(self._collector, request)
        await run_in_threadpool(self._collector.delete, study)
        return Response(status_code=204)

    async def file(self, request: Request, who: Token | None) -> Response:
        """Give the study file."""
        study = await find_study(self._collector, request)
        return Response(study.file, media_type="application/toml")

    async def program(self, request: Request, who: Token | None) -> Response:
        """Give the device program."""
        study = await find_study(self._collector, request)
        return Response(study.program, media_type="application/json")

    async def explanation(self, request: Request, who: Token | None) -> Response:
        """Give the guarantee in words."""
        return PlainTextResponse((await find_study(self._collector, request)).explanation)

    async def audit(self, request: Request, who: Token | None) -> Response:
        """Give what the exact audit found."""
        study = await find_study(self._collector, request)
        return Response(study.audit, media_type="application/json")

    async def counts(self, request: Request, who: Token | None) -> Response:
        """Say how many reports came."""
        study = await find_study(self._collector, request)
        return JSONResponse(await run_in_threadpool(self._collector.counts, study))

    async def upload(self, request: Request, who: Token | None) -> Response:
        """Take one batch."""
        collector = self._collector
        study = await find_study(collector, request)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != MEDIA_TYPE:
            raise RefusedError(415, "media", f"a batch must have Content-Type: {MEDIA_TYPE}")
        longer = too_long(collector.settings.most_reports)
        data = await read_body(collector, request, collector.longest(study), longer)
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
