"""What the collector refuses: a status of HTTP, a stable code, and a sentence."""

from __future__ import annotations

import traceback
from typing import Any

from sfumato.device.wire import WireError
from sfumato.errors import SfumatoError, StoreError
from sfumato.extras import need
from sfumato.service.stores.base import FullError


class RefusedError(SfumatoError):
    """A request that is refused.

    Args:
        status: The status of HTTP.
        code: A word that programs can rely on.
        message: The same as a sentence.
        more: More entries of the answer's JSON.
        retry_after: After how many seconds to try again, if that may help.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        more: dict[str, Any] | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.more = more or {}
        self.retry_after = retry_after

    def to_dict(self) -> dict[str, Any]:
        """The answer's JSON."""
        return {"code": self.code, **self.more, "message": str(self)}


#: Every status and code with which the collector refuses, and what it means.
CODES: dict[tuple[int, str], str] = {
    (400, "magic"): "These bytes are no batch.",
    (400, "version"): "The batch has a version that is not known.",
    (400, "study"): "The batch or study file belongs to, or describes, no study that this can be.",
    (400, "length"): "The batch is cut, or has more bytes than it says.",
    (400, "count"): "The batch has no reports, or more than a batch can have.",
    (400, "symbol"): "A report holds a symbol that its study does not have.",
    (400, "padding"): "A report has bits where there must be zeros.",
    (400, "id"): "An id occurs twice in the batch.",
    (400, "clock"): "The batch expires too far ahead.",
    (400, "json"): "The body is not JSON.",
    (400, "question"): "The study cannot be asked this.",
    (400, "large"): "This is more than can be done at once.",
    (400, "design"): "This is no design, or one of too much work.",
    (400, "file"): "What was read is damaged, or no file of this kind.",
    (400, "audit"): "The guarantee of the study does not hold.",
    (400, "wait"): "The time to wait is no number of seconds that can be waited.",
    (400, "format"): "Answers are not written in this form.",
    (400, "after"): "This is not the number of an entry.",
    (401, "token"): "No token came, or one that is not valid.",
    (403, "role"): "The token does not allow this.",
    (404, "unknown"): "No study of this fingerprint is published here.",
    (404, "job"): "There is no such question of yours.",
    (404, "route"): "There is nothing at this address.",
    (405, "method"): "This address does not take this method.",
    (409, "published"): "The study is published with other contents.",
    (409, "few"): "The study has too few reports for an answer.",
    (410, "expired"): "The batch has expired and can no longer count.",
    (413, "size"): "The body is too long.",
    (415, "media"): "The body has another media type.",
    (429, "rate"): "This address asks too often.",
    (429, "busy"): "Too much waits.",
    (500, "internal"): "Something failed here.",
    (500, "store"): "The store cannot be used.",
    (503, "slow"): "The body took too long to come.",
    (503, "stopping"): "The collector stops.",
    (503, "worker"): "The process that answers ended over this question.",
    (503, "long"): "The answer takes longer than the collector allows.",
    (504, "unknown"): "It is not known whether this was stored.",
    (507, "full"): "The disk is full.",
}

#: What refusals by other parts of the package are called.
_CODES = {"Format": "file", "Study": "study", "Question": "question", "TooLarge": "large"}


def refusal(error: SfumatoError) -> RefusedError:
    """What the collector says about an error of any part of the package."""
    if isinstance(error, RefusedError):
        return error
    if isinstance(error, WireError):
        return RefusedError(400, error.code, str(error))
    if isinstance(error, FullError):
        return RefusedError(507, "full", str(error), retry_after=60)
    if isinstance(error, StoreError):
        return RefusedError(500, "store", str(error))
    name = type(error).__name__.removesuffix("Error")
    return RefusedError(400, _CODES.get(name, "question"), str(error))


def place_of(error: BaseException) -> str:
    """Where something failed; what it says could show a report."""
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1] if frames else None
    at = f" at {last.name}, line {last.lineno}" if last else ""
    return f"{type(error).__name__}{at}"


#: What serving over HTTP needs of the extra `server`.
_SERVING = ("starlette", "uvicorn", "prometheus_client")


def need_server() -> None:
    """Say how to get what serving over HTTP needs, unless it is installed."""
    for library in _SERVING:
        need(library)
