"""The OpenAPI 3.1 document of a collector, made from the table of its routes.

`routes` says who may use a route; `OPERATIONS` says what it takes, gives and refuses. Pages for
people have no entry there, and are not in the document.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from sfumato import __version__
from sfumato.collect.accumulator import KEEPS
from sfumato.device.wire import MEDIA_TYPE
from sfumato.service.asking import (
    COMMON,
    KINDS,
    METHODS,
    MOST_SECONDS,
    MOST_SHARES,
    OPTIONS,
    SCALARS,
    SECONDS,
)
from sfumato.service.designing import MOST_AXES, MOST_LETTERS, MOST_PEOPLE
from sfumato.service.refusals import CODES
from sfumato.service.rendering import FORMS
from sfumato.service.routes import Endpoint
from sfumato.service.tokens import ROLES

Schema: TypeAlias = dict[str, Any]
#: The schema of a body by its media type; empty for no body.
Content: TypeAlias = Mapping[str, Schema]

_JSON = "application/json"
_TEXT: Schema = {"type": "string"}
_WHOLE: Schema = {"type": "integer", "minimum": 0}
_NUMBER: Schema = {"type": "number"}
_MAYBE: Schema = {"type": ["number", "null"]}
_FLAG: Schema = {"type": "boolean"}
_BYTES: Schema = {"type": "string", "format": "binary"}


def ref(name: str) -> Schema:
    """A schema by its name."""
    return {"$ref": f"#/components/schemas/{name}"}


def several(items: Schema, **rules: int) -> Schema:
    """A list.

    Args:
        items: What is in it.
        **rules: How many there may be.
    """
    return {"type": "array", "items": items, **rules}


def record(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    """An object with these entries and no others.

    Args:
        required: The entries that are always there.
        optional: Those that may be.
    """
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


@dataclass(frozen=True, slots=True)
class Operation:
    """What a route takes, gives and refuses.

    Attributes:
        gives: The contents of answers by status.
        takes: The content of the body; empty if it takes none.
        query: The names of its parameters, in `_PARAMETERS`.
        refuses: Codes by status, beside those that follow from the route.
    """

    gives: Mapping[int, Content]
    takes: Content = field(default_factory=dict)
    query: tuple[str, ...] = ()
    refuses: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


# Questions and answers

_AXIS: Schema = {"type": "string", "description": "The name of an axis."}
_CONDITION: Schema = {
    "type": "string",
    "description": "Conditions on axes, such as `age=18..30, region=north|south`.",
}
_SHARE: Schema = {"type": "number", "minimum": 0, "maximum": 1}
_BINS: Schema = {"type": ["integer", "null"], "minimum": 1}
_COMMON: dict[str, Schema] = {
    "where": _CONDITION,
    "level": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "default": 0.95},
    "population": {"type": "boolean", "default": False},
    "method": {"enum": list(METHODS), "default": "auto"},
    "seconds": {
        "type": "number",
        "exclusiveMinimum": 0,
        "maximum": MOST_SECONDS,
        "default": SECONDS,
        "description": "With method auto, what decoding may take.",
    },
}
_SCALAR_KINDS = {
    name: _CONDITION if what == "question" else _AXIS for name, what in SCALARS.items()
}
_KINDS: dict[str, Schema] = {
    **_SCALAR_KINDS,
    **dict.fromkeys(("histogram", "cdf", "quantile", "groups"), _AXIS),
    "heatmap": several(_AXIS, minItems=2, maxItems=2),
    "difference": several(ref("Inner"), minItems=2, maxItems=2),
}
_OPTIONS: dict[str, Schema] = {
    "bins": _BINS,
    "fraction": _FLAG,
    "band": {"type": "boolean", "description": "Intervals that all hold at once."},
    "at": {"oneOf": [_SHARE, several(_SHARE, minItems=1, maxItems=MOST_SHARES)]},
    "of": {"oneOf": [record({name: about}) for name, about in _SCALAR_KINDS.items()]},
}
_TWO_BINS: Schema = {"oneOf": [_BINS, several(_BINS, minItems=2, maxItems=2)]}


def _question(kind: str) -> Schema:
    """The schema of one kind of question."""
    names = [name for name in COMMON if (kind, name) != ("difference", "where")]
    options = {name: _OPTIONS[name] for name in OPTIONS.get(kind, ())}
    if kind == "heatmap":
        options["bins"] = _TWO_BINS
    needed = {kind: _KINDS[kind]}
    if kind == "groups":
        needed["of"] = options.pop("of")
    return record(needed, options | {name: _COMMON[name] for name in names})


_INTERVAL = {"level": _NUMBER, "method": _TEXT, "n": _WHOLE, "notes": several(_TEXT)}
_NESTED: Schema = {"oneOf": [several(_MAYBE), several(several(_MAYBE))]}
_ANSWER = record(
    {"question": _TEXT, **dict.fromkeys(("value", "stderr", "low", "high"), _MAYBE), **_INTERVAL},
    {"written": several(_TEXT, minItems=3, maxItems=3)},
)
_ANSWERS = record(
    {
        "kind": {"enum": ["histogram", "cdf", "heatmap", "quantile", "groups"]},
        "axes": several(_AXIS),
        "unit": _TEXT,
        "units": several(_TEXT),
        "question": _TEXT,
        "labels": several(several(_TEXT)),
        "edges": several(
            {"oneOf": [{"type": "null"}, several({"type": ["number", "string"]}, minItems=2)]}
        ),
        **dict.fromkeys(("values", "stderr", "low", "high"), _NESTED),
        **_INTERVAL,
    }
)
_CHECK = record(
    {
        "study": _TEXT,
        "fingerprint": _TEXT,
        "reports": _WHOLE,
        "significance": _SHARE,
        "alarm": {"type": "boolean", "description": "Whether no population explains the reports."},
        "p_value": _SHARE,
        "tests": several(
            record(
                {
                    "axes": several(_AXIS),
                    "kind": {"enum": ["frequency", "bits", "identical", "mixture"]},
                    "p_value": _SHARE,
                    "words": _TEXT,
                }
            )
        ),
        "blind": several(
            record({"axes": several(_AXIS), "channel": _TEXT, "alike": _MAYBE, "weight": _MAYBE})
        ),
        "left_out": several(_TEXT),
        "unseen": _TEXT,
    }
)
_SOURCE = {
    "tally": {"type": "integer", "description": "The version of the tally."},
    "reports": _WHOLE,
    "entry": {"type": "integer", "minimum": 1, "description": "The number in the log."},
}
_MAP = record(
    {
        "type": {"const": "FeatureCollection"},
        "features": several({"type": "object"}),
        "about": {"type": "object"},
    }
)
_ANSWERED_CONTENT: Content = {
    _JSON: ref("Answered"),
    "text/csv": _TEXT,
    "application/vnd.apache.arrow.stream": _BYTES,
    "application/geo+json": _MAP,
}
_WAITING: Content = {_JSON: ref("Waiting")}

# Studies and reports

_STUDY_AXIS = record(
    {
        "name": _AXIS,
        "kind": _TEXT,
        "unit": _TEXT,
        "cells": _WHOLE,
        "optional": _FLAG,
        "ordered": _FLAG,
        "numeric": _FLAG,
    },
    {"labels": several(_TEXT), "domain": {"type": "object"}},
)
_STUDY = record(
    {
        "name": _TEXT,
        "fingerprint": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        "digest": {"type": "string", "description": "Of the device program, for clients to pin."},
        "report_bytes": _WHOLE,
        "minimum": {"type": "integer", "minimum": 1},
        "keep": {"enum": list(KEEPS)},
        "retention": _TEXT,
        "published": {"type": "integer", "description": "The day, counted from 1970-01-01."},
        "axes": several(ref("Axis")),
    }
)
_OUTCOME = record(
    {
        "accepted": _WHOLE,
        "repeated": _WHOLE,
        "refused": several(record({"place": _WHOLE, "code": _TEXT})),
    }
)
_LINES = several(_TEXT)
_NUMBERS = several(_NUMBER)
_DESIGN = record(
    {
        "name": {"type": "string", "minLength": 1, "maxLength": MOST_LETTERS},
        "people": {"type": "integer", "minimum": 1, "maximum": MOST_PEOPLE},
        "axes": several(
            {"type": "object", "description": "As a study file has them, without a channel."},
            minItems=1,
            maxItems=MOST_AXES,
        ),
    }
)
_DESIGNED_AXIS = record(
    {
        **dict.fromkeys(("name", "unit", "guarantee", "channel", "reason", "sends"), _TEXT),
        "cells": _WHOLE,
        "words": _LINES,
        "example": record(
            {
                "labels": _LINES,
                **dict.fromkeys(("people", "low", "high"), _NUMBERS),
                **dict.fromkeys(("level", "reach"), _NUMBER),
                "method": _TEXT,
            }
        ),
    }
)
_DESIGNED = record(
    {
        **dict.fromkeys(
            ("name", "fingerprint", "explanation", "study", "python", "command"), _TEXT
        ),
        "people": _WHOLE,
        "axes": several(_DESIGNED_AXIS),
    }
)
_BY_REASON: Schema = {"type": "object", "additionalProperties": {"type": "integer"}}
_COUNTS_ENTRIES = {"tally": _WHOLE, "reports": _WHOLE, "counters": _BY_REASON}
_COUNTS = record(_COUNTS_ENTRIES)
_DAY: Schema = {"type": "integer", "description": "A day, counted from 1970-01-01."}
_STATUS = record(
    {
        "version": _TEXT,
        "seconds": {"type": "integer", "description": "How long it has run."},
        "ready": _FLAG,
        "studies": several(
            record(
                {
                    **_STUDY["properties"],
                    **_COUNTS_ENTRIES,
                    "waiting": {"type": "integer", "description": "Reports yet to be tallied."},
                    "rates": {
                        **record({"minute": _MAYBE, "hour": _MAYBE}),
                        "description": "Reports per second over the last minute and hour.",
                    },
                }
            )
        ),
        "queue": record({"bytes": _WHOLE, "most_bytes": _WHOLE}),
        "disk": record(
            {
                "store_bytes": _WHOLE,
                "free_bytes": {"type": ["integer", "null"]},
                "reserve_bytes": _WHOLE,
            }
        ),
        "quarantine": record(
            {"batches": _WHOLE, "bytes": _WHOLE, "reasons": _BY_REASON, "days": _WHOLE}
        ),
        "tokens": several(
            record(
                {
                    "name": _TEXT,
                    "role": {"enum": list(ROLES)},
                    "created": _DAY,
                    "revoked": {"oneOf": [_DAY, {"type": "null"}]},
                }
            )
        ),
        "questions": _WHOLE,
        "last_backup": {
            "type": ["integer", "null"],
            "description": "In seconds since 1970-01-01.",
        },
        "requests": {"type": "object", "additionalProperties": _BY_REASON},
    }
)

SCHEMAS: dict[str, Schema] = {
    **{f"{kind.capitalize()}Question": _question(kind) for kind in KINDS},
    "Inner": {
        "oneOf": [
            record({name: about}, {"where": _CONDITION}) for name, about in _SCALAR_KINDS.items()
        ]
    },
    "Question": {"oneOf": [ref(f"{kind.capitalize()}Question") for kind in KINDS]},
    "Answer": _ANSWER,
    "Answers": _ANSWERS,
    "Answered": record({"answer": {"oneOf": [ref("Answer"), ref("Answers")]}, **_SOURCE}),
    "Check": _CHECK,
    "Checked": record({"answer": ref("Check"), **_SOURCE}),
    "Waiting": record({"job": _TEXT, "progress": _SHARE}),
    "Axis": _STUDY_AXIS,
    "Study": _STUDY,
    "Studies": record({"studies": several(ref("Study"))}),
    "Counts": _COUNTS,
    "Status": _STATUS,
    "Design": _DESIGN,
    "Designed": _DESIGNED,
    "Outcome": _OUTCOME,
}

_WIRE = ("magic", "version", "study", "length", "count", "symbol", "padding", "id")
_STUDY_JSON: Content = {_JSON: ref("Study")}
_ASK_REFUSES = {
    400: ("wait", "question", "large", "file"),
    409: ("few",),
    429: ("busy",),
    503: ("stopping", "worker", "long"),
    507: ("full",),
}

#: What each route takes, gives and refuses, by its name.
OPERATIONS: dict[str, Operation] = {
    "openapi": Operation({200: {_JSON: {"type": "object"}}}),
    "health": Operation({200: {_JSON: record({"version": _TEXT})}}),
    "ready": Operation(
        {200: {_JSON: record({"ready": {"const": True}})}}, refuses={503: ("stopping",)}
    ),
    "metrics": Operation({200: {"text/plain": _TEXT}}),
    "client": Operation({200: {"text/javascript": _TEXT}}),
    "studies": Operation({200: {_JSON: ref("Studies")}}),
    "publish": Operation(
        {200: _STUDY_JSON, 201: _STUDY_JSON},
        {"application/toml": _TEXT},
        ("minimum", "keep"),
        {400: ("file", "study", "question", "large", "audit"), 409: ("published",), 507: ("full",)},
    ),
    "study": Operation({200: _STUDY_JSON}),
    "delete": Operation({204: {}}, refuses={507: ("full",)}),
    "file": Operation({200: {"application/toml": _TEXT}}),
    "program": Operation({200: {_JSON: {"type": "object"}}}),
    "explanation": Operation({200: {"text/plain": _TEXT}}),
    "audit": Operation({200: {_JSON: {"type": "object"}}}),
    "upload": Operation(
        {202: {_JSON: ref("Outcome")}, 207: {_JSON: ref("Outcome")}},
        {MEDIA_TYPE: _BYTES},
        refuses={
            400: (*_WIRE, "clock"),
            410: ("expired",),
            415: ("media",),
            429: ("busy",),
            503: ("stopping",),
            504: ("unknown",),
            507: ("full",),
        },
    ),
    "design": Operation(
        {200: {_JSON: ref("Designed")}},
        {_JSON: ref("Design")},
        refuses={400: ("json", "design", "study", "file", "question", "large"), 429: ("busy",)},
    ),
    "status": Operation({200: {_JSON: ref("Status")}}),
    "counts": Operation({200: {_JSON: ref("Counts")}}),
    "ask": Operation(
        {200: _ANSWERED_CONTENT, 202: _WAITING},
        {_JSON: ref("Question")},
        ("wait", "format"),
        {**_ASK_REFUSES, 400: ("json", "format", *_ASK_REFUSES[400])},
    ),
    "check": Operation({200: {_JSON: ref("Checked")}, 202: _WAITING}, {}, ("wait",), _ASK_REFUSES),
    "job": Operation(
        {
            200: {**_ANSWERED_CONTENT, _JSON: {"oneOf": [ref("Answered"), ref("Checked")]}},
            202: _WAITING,
        },
        query=("wait",),
        refuses={**_ASK_REFUSES, 404: ("job",), 500: ("internal",)},
    ),
    "cancel": Operation({204: {}}, refuses={404: ("job",)}),
    "questions": Operation(
        {200: {"application/jsonl": _TEXT}}, query=("after",), refuses={400: ("after", "file")}
    ),
}

_PARAMETERS: dict[str, Schema] = {
    "fingerprint": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
    "job": {"type": "string", "pattern": "^[A-Za-z0-9_-]{22}$"},
    "wait": {"type": "number", "minimum": 0, "maximum": 60},
    "format": {"enum": list(FORMS)},
    "minimum": {"type": "integer", "minimum": 1, "maximum": 1 << 53},
    "keep": {"enum": list(KEEPS)},
    "after": {"type": "integer", "minimum": 0, "maximum": (1 << 53) - 1},
}
_HEADERS: dict[str, Schema] = {
    "Retry-After": {"type": "integer", "description": "Seconds."},
    "Location": {"type": "string", "description": "Where the answer will be."},
}


def codes(endpoint: Endpoint) -> dict[int, list[str]]:
    """The codes with which a route refuses, by status.

    Args:
        endpoint: The route.
    """
    operation = OPERATIONS[endpoint.name]
    found: dict[int, list[str]] = {500: ["internal", "store"]}
    if endpoint.limited:
        found[429] = ["rate"]
    if endpoint.roles is not None:
        found |= {401: ["token"], 403: ["role"]}
    if "{fingerprint}" in endpoint.path:
        found[404] = ["unknown"]
    if operation.takes:
        found |= {413: ["size"], 503: ["slow"]}
    for status, more in operation.refuses.items():
        found[status] = [*found.get(status, []), *more]
    return {status: list(dict.fromkeys(found[status])) for status in sorted(found)}


def document(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """The OpenAPI document of some routes.

    Args:
        endpoints: The routes; those without an operation are left out.

    Example:
        >>> from sfumato.service.routes import ENDPOINTS
        >>> sorted(document(ENDPOINTS)["paths"]["/v1/jobs/{job}"])
        ['delete', 'get']
    """
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        if endpoint.name in OPERATIONS:
            paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _described(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "sfumato collector",
            "version": __version__,
            "description": "Takes reports, and answers questions about all of them together. Every "
            "refusal is JSON with a stable code and a sentence.",
        },
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _described(endpoint: Endpoint) -> dict[str, Any]:
    """One route as the document has it."""
    operation = OPERATIONS[endpoint.name]
    found: dict[str, Any] = {"operationId": endpoint.name, "summary": endpoint.summary}
    if endpoint.roles is not None:
        roles = [role for role in ROLES if role in endpoint.roles]
        found["security"] = [*([{}] if endpoint.open else []), {"token": []}]
        found["description"] = f"Takes tokens of {' and '.join(roles)}."
    places = [("path", name) for name in re.findall(r"{(\w+)}", endpoint.path)]
    parameters = [
        {"name": name, "in": place, "required": place == "path", "schema": _PARAMETERS[name]}
        for place, name in (*places, *(("query", name) for name in operation.query))
    ]
    if parameters:
        found["parameters"] = parameters
    if operation.takes:
        found["requestBody"] = {"required": True, "content": _content(operation.takes)}
    responses: dict[str, Any] = {}
    for status, content in operation.gives.items():
        about: dict[str, Any] = {"description": "As asked for."}
        if content:
            about["content"] = _content(content)
        if status == 202 and content == _WAITING:
            about = {
                "description": "It takes longer: ask again at the address in Location.",
                "content": _content(content),
                "headers": _headers("Location", "Retry-After"),
            }
        responses[str(status)] = about
    for status, named in codes(endpoint).items():
        responses[str(status)] = _refusal(status, named)
    return found | {"responses": responses}


def _refusal(status: int, named: list[str]) -> dict[str, Any]:
    """A refusal as the document has it."""
    schema = {
        "type": "object",
        "properties": {"code": {"enum": named}, "message": _TEXT},
        "required": ["code", "message"],
    }
    found: dict[str, Any] = {
        "description": " ".join(f"`{code}`: {CODES[status, code]}" for code in named),
        "content": {_JSON: {"schema": schema}},
    }
    if status in (429, 507):
        found["headers"] = _headers("Retry-After")
    return found


def _content(content: Content) -> dict[str, Any]:
    """Bodies by their media types."""
    return {kind: {"schema": schema} for kind, schema in content.items()}


def _headers(*names: str) -> dict[str, Any]:
    """Headers of an answer that are always there."""
    return {name: {"required": True, "schema": _HEADERS[name]} for name in names}
