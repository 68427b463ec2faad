"""The pages of the collector: plain files, served under a policy that lets them load nothing else.

They are HTML, CSS and modules of JavaScript as they lie here, and the client for browsers; no build
step, no other host. What they show comes from the collector's own routes.
"""

from __future__ import annotations

import asyncio
from functools import cache
from importlib import resources

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sfumato.files import read_json
from sfumato.service.collector import Collector
from sfumato.service.designing import design
from sfumato.service.http import find_study, read_body
from sfumato.service.refusals import RefusedError
from sfumato.service.tokens import Token

_MOST_DESIGN = 1 << 16  # bytes of a design
_MOST_WAITING = 8

#: A picture that is downloaded is drawn from an address of the kind blob.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_TYPES = {
    "css": "text/css",
    "js": "text/javascript",
    "json": "application/json",
    "svg": "image/svg+xml",
}


@cache
def _held() -> dict[str, str]:
    """The text of every file, by name."""
    files = resources.files(__name__).iterdir()
    return {
        file.name: file.read_text(encoding="utf-8")
        for file in files
        if file.name.rpartition(".")[2] in ("html", *_TYPES)
    }


class Pages:
    """The routes of pages, and the one that answers the page that designs.

    Args:
        collector: What they are pages of.
    """

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._designing = asyncio.Semaphore()
        self._waiting = 0

    async def page(self, request: Request, who: Token | None) -> Response:
        """A page, by its path."""
        name = request.url.path.strip("/") or "index"
        return _html(_held()[f"{name}.html"])

    async def answer(self, request: Request, who: Token | None) -> Response:
        """The page on which people answer, with the digest of the program pinned in it."""
        digest, status = "", 200
        try:
            digest = (await find_study(self._collector, request)).digest
        except RefusedError as error:  # which the page says in the language of whoever is asked
            status = error.status
        return _html(_held()["answer.html"].replace("{{digest}}", digest), status)

    async def asset(self, request: Request, who: Token | None) -> Response:
        """What pages are made of: a style, a module, a picture, or the words of a language."""
        name = request.path_params["name"]
        kind = _TYPES.get(name.rpartition(".")[2])
        if kind is None or name not in _held():
            raise RefusedError(404, "route", "there is nothing at this address")
        return Response(_held()[name], media_type=kind, headers=_HEADERS)

    async def design(self, request: Request, who: Token | None) -> Response:
        """What a study would promise; one is computed at a time, and few may wait."""
        longer = RefusedError(413, "size", f"a design may have at most {_MOST_DESIGN:,} bytes")
        try:
            given = read_json(await read_body(self._collector, request, _MOST_DESIGN, longer))
        except ValueError:
            raise RefusedError(400, "json", "a design must be JSON") from None
        if self._waiting >= _MOST_WAITING:
            raise RefusedError(429, "busy", "too many designs wait; try again", retry_after=5)
        self._waiting += 1
        try:
            async with self._designing:
                return JSONResponse(await run_in_threadpool(design, given))
        finally:
            self._waiting -= 1


def _html(text: str, status: int = 200) -> Response:
    """A page with its policy."""
    return Response(text, status, media_type="text/html", headers=_HEADERS)
