"""Every answer of a collector held against its OpenAPI document."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any
from urllib.parse import unquote, urlsplit

import jsonschema_rs
from helpers_service import TestClient

from sfumato.service.app import Service
from sfumato.service.openapi import document
from sfumato.service.routes import ENDPOINTS

DOCUMENT = document(ENDPOINTS)


class NotDocumentedError(AssertionError):
    """An answer that the document does not have."""


class ConformingClient(TestClient):
    """A client that holds every answer against the document of its service."""

    def __init__(self, service: Service, **more: Any) -> None:
        super().__init__(service.app(), **more)
        self._document = document(service.endpoints)

    def send(self, request: Any, **more: Any) -> Any:
        found = super().send(request, **more)
        check(found, self._document)
        return found


def check(found: Any, held: dict[str, Any] = DOCUMENT) -> None:
    """Refuse an answer that the document does not have."""
    request = found.request
    method, path = request.method.lower(), unquote(urlsplit(str(request.url)).path)
    operation = _operation(held, method, path)
    kind = found.headers.get("content-type", "").partition(";")[0]
    where = f"{request.method} {path}: {found.status_code} {kind}"
    if operation is None:
        return
    described = operation["responses"].get(str(found.status_code))
    if described is None:
        raise NotDocumentedError(f"{where}: no such status")
    for name, header in described.get("headers", {}).items():
        if header["required"] and name not in found.headers:
            raise NotDocumentedError(f"{where}: without {name}")
    content = described.get("content", {})
    if not content and not found.content:
        return
    if kind not in content:
        raise NotDocumentedError(f"{where}: not in {list(content)}")
    if kind == "application/json":
        errors = list(validator(json.dumps(content[kind]["schema"])).iter_errors(found.json()))
        if errors:
            raise NotDocumentedError(f"{where}: {errors[0].message} in {found.text[:300]}")


def _operation(held: dict[str, Any], method: str, path: str) -> dict[str, Any] | None:
    """What the document has for a request; None for pages, and where there is no route."""
    fitting = [one for one in held["paths"] if re.fullmatch(re.sub("{[^}]*}", "[^/]+", one), path)]
    if not fitting:
        return None
    found: dict[str, Any] | None = held["paths"][fitting[0]].get(method)
    return found


@cache
def validator(schema: str) -> Any:
    """A validator of a schema that may point into the document."""
    whole = {"components": DOCUMENT["components"], **json.loads(schema)}
    return jsonschema_rs.Draft202012Validator(whole)
