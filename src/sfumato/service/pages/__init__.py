"""The pages of the collector: plain files, served under a policy that lets them load nothing else.

They are HTML, CSS and modules of JavaScript as they lie here, and the client for browsers; no build
step, no other host. What they show comes from the collector's own routes.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

from starlette.responses import Response

from sfumato.service.refusals import RefusedError

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


def page(name: str) -> Response:
    """A page.

    Args:
        name: Its name, without ".html".
    """
    return Response(_held()[f"{name}.html"], media_type="text/html", headers=_HEADERS)


def answer_page(digest: str, status: int = 200) -> Response:
    """The page on which people answer, with the digest of the study's program pinned in it.

    Args:
        digest: The digest, or nothing if there is no such study, which the page then says.
        status: The status of HTTP.
    """
    text = _held()["answer.html"].replace("{{digest}}", digest)
    return Response(text, status, media_type="text/html", headers=_HEADERS)


def asset(name: str) -> Response:
    """What pages are made of: a style, a module, or words of a language.

    Args:
        name: The name of the file.

    Raises:
        RefusedError: If there is none of this name.
    """
    kind = _TYPES.get(name.rpartition(".")[2])
    if kind is None or name not in _held():
        raise RefusedError(404, "route", "there is nothing at this address")
    return Response(_held()[name], media_type=kind, headers=_HEADERS)
