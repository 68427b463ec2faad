"""What all groups of routes share: bodies, studies in paths, and how a refusal looks."""

from __future__ import annotations

import asyncio

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sfumato.errors import SfumatoError
from sfumato.service.collector import Collector
from sfumato.service.published import Published
from sfumato.service.refusals import RefusedError, refusal

_MOST_UNREAD = 1 << 26  # bytes of a body that is too long, read so that the refusal arrives


async def read_body(
    collector: Collector, request: Request, most: int, refused: RefusedError
) -> bytes:
    """The body of a request; a longer one is read to its end and refused.

    Args:
        collector: Says how long the body may take to come.
        request: The request.
        most: How many bytes it may have.
        refused: The refusal of a longer one.
    """
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(collector.settings.body_seconds):
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
        raise refused
    return b"".join(parts)


async def find_study(collector: Collector, request: Request) -> Published:
    """The study that a path names.

    Args:
        collector: Where it is published.
        request: The request.
    """
    fingerprint = request.path_params["fingerprint"]
    known = collector.known(fingerprint)
    if known is not None:
        return known
    return await run_in_threadpool(collector.find, fingerprint)


def number_of(request: Request, name: str, default: float, most: float) -> float:
    """A number in the query of a request.

    Args:
        request: The request.
        name: What it is called there.
        default: What it is if it is not there.
        most: The most it may be.

    Raises:
        RefusedError: If it is no number from 0 to the most; its code is the name.
    """
    text = request.query_params.get(name)
    if text is None:
        return default
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= most:
        raise RefusedError(400, name, f"{name} must be a number from 0 to {most:.16g}")
    return found


def refused(error: SfumatoError) -> Response:
    """The answer to a request that is refused."""
    found = refusal(error)
    headers = {} if found.retry_after is None else {"Retry-After": str(found.retry_after)}
    if found.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(found.to_dict(), found.status, headers)
