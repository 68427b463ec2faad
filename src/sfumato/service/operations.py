"""The routes about the collector itself: whether it runs, its figures, and what it brings along."""

from __future__ import annotations

import importlib.resources
import json
from collections.abc import Mapping
from functools import cached_property

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sfumato import __version__
from sfumato.service.collector import Collector
from sfumato.service.figures import figures
from sfumato.service.openapi import document
from sfumato.service.refusals import RefusedError
from sfumato.service.routes import endpoints
from sfumato.service.status import status
from sfumato.service.tokens import Token


class Operations:
    """Routes about the collector itself.

    Args:
        collector: The collector.
        answered: How many requests of each route were answered with each status.
    """

    def __init__(self, collector: Collector, answered: Mapping[tuple[str, int], int]) -> None:
        self._collector, self._answered = collector, answered

    async def health(self, request: Request, who: Token | None) -> Response:
        """Say that the process runs."""
        return JSONResponse({"version": __version__})

    async def ready(self, request: Request, who: Token | None) -> Response:
        """Say whether uploads can be stored."""
        if not self._collector.writer.alive:
            raise RefusedError(503, "stopping", "the collector stops", retry_after=5)
        await run_in_threadpool(self._collector.holders)  # the store answers
        return JSONResponse({"ready": True})

    async def metrics(self, request: Request, who: Token | None) -> Response:
        """Give the figures for Prometheus."""
        text, kind = await run_in_threadpool(figures, self._collector, dict(self._answered))
        return Response(text, media_type=kind)

    async def status(self, request: Request, who: Token | None) -> Response:
        """Say how the collector is, to administrators."""
        found = await run_in_threadpool(status, self._collector, dict(self._answered))
        return JSONResponse(found)

    @cached_property
    def _document(self) -> bytes:
        """The OpenAPI document."""
        return json.dumps(document(endpoints(self._collector.settings.upload_token))).encode()

    async def openapi(self, request: Request, who: Token | None) -> Response:
        """Give the OpenAPI document."""
        return Response(self._document, media_type="application/json")

    @cached_property
    def _script(self) -> bytes:
        """The client for browsers, as the package brings it."""
        return (importlib.resources.files("sfumato") / "js" / "sfumato.js").read_bytes()

    async def client(self, request: Request, who: Token | None) -> Response:
        """Give the client for browsers."""
        return Response(self._script, media_type="text/javascript")
