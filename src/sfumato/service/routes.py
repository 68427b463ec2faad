"""The routes of the collector as data: who may use each, and who may call it from a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sfumato.service.tokens import Role

#: What is done before an answer may be sent to another origin's page: nothing, reading, uploading.
Origin = Literal["same", "read", "upload"]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One route.

    Attributes:
        method: The method of HTTP.
        path: The path; names in braces stand for parts of it.
        name: The name of the method that answers, in one of the groups that `app` names.
        summary: What it does, in a line.
        roles: Whose tokens it takes; None takes everybody, also without a token.
        origin: What pages of other origins may do.
        limited: Whether an address may call it only so often.
        open: Whether it answers without a token too, though an address far less often.
    """

    method: str
    path: str
    name: str
    summary: str
    roles: frozenset[Role] | None = None
    origin: Origin = "same"
    limited: bool = True
    open: bool = False


_STUDY = "/v1/studies/{fingerprint}"
_JOB = "/v1/jobs/{job}"
ADMIN: frozenset[Role] = frozenset({"admin"})
ANALYST: frozenset[Role] = frozenset({"admin", "analyst"})
UPLOADER: frozenset[Role] = frozenset({"admin", "uploader"})

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", "/health", "health", "Whether the process runs.", limited=False),
    Endpoint("GET", "/ready", "ready", "Whether uploads can be stored.", limited=False),
    Endpoint("GET", "/v1/openapi.json", "openapi", "This document."),
    Endpoint("GET", "/metrics", "metrics", "Figures for Prometheus.", ANALYST),
    Endpoint("GET", "/client/sfumato.js", "client", "The client for browsers.", origin="read"),
    Endpoint("GET", "/", "page", "A page that links to the others."),
    Endpoint("GET", "/design", "page", "A page that designs a study."),
    Endpoint("GET", "/explore", "page", "A page that asks questions."),
    Endpoint("GET", "/operate", "page", "A page for administrators."),
    Endpoint("GET", "/answer/{fingerprint}", "answer", "The page on which people answer."),
    Endpoint("GET", "/pages/{name}", "asset", "What pages are made of."),
    Endpoint("POST", "/v1/design", "design", "What a study would promise.", ANALYST, open=True),
    Endpoint("GET", "/v1/studies", "studies", "All published studies.", ANALYST),
    Endpoint("POST", "/v1/studies", "publish", "Publish a study file (TOML).", ADMIN),
    Endpoint("GET", _STUDY, "study", "What anybody may know about a study.", origin="read"),
    Endpoint("DELETE", _STUDY, "delete", "Delete a study with all of its reports.", ADMIN),
    Endpoint("GET", f"{_STUDY}/study", "file", "The study file (TOML).", origin="read"),
    Endpoint("GET", f"{_STUDY}/program", "program", "The device program.", origin="read"),
    Endpoint(
        "GET", f"{_STUDY}/explanation", "explanation", "The guarantee in words.", origin="read"
    ),
    Endpoint("GET", f"{_STUDY}/audit", "audit", "What the exact audit found.", origin="read"),
    Endpoint("POST", f"{_STUDY}/reports", "upload", "Take one batch.", origin="upload"),
    Endpoint("GET", f"{_STUDY}/counts", "counts", "How many reports came.", ANALYST),
    Endpoint("POST", f"{_STUDY}/ask", "ask", "Answer a question.", ANALYST),
    Endpoint("GET", f"{_STUDY}/check", "check", "Whether any population explains it.", ANALYST),
    Endpoint("GET", _JOB, "job", "An answer that takes long, or how far it is.", ANALYST),
    Endpoint("DELETE", _JOB, "cancel", "End a question that takes long.", ANALYST),
    Endpoint("GET", "/v1/status", "status", "How the collector is.", ADMIN),
    Endpoint("GET", "/v1/questions", "questions", "The log of answered questions.", ADMIN),
)


def endpoints(upload_token: bool) -> tuple[Endpoint, ...]:
    """All routes.

    Args:
        upload_token: Whether uploads need a token.
    """
    if not upload_token:
        return ENDPOINTS
    return tuple(
        Endpoint(one.method, one.path, one.name, one.summary, UPLOADER, one.origin)
        if one.name == "upload"
        else one
        for one in ENDPOINTS
    )
