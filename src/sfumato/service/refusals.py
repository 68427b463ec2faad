"""What the collector refuses: a status of HTTP, a stable code, and a sentence."""

from __future__ import annotations

import importlib
import traceback
from typing import Any

from sfumato.device.wire import WireError
from sfumato.errors import SfumatoError, StoreError
from sfumato.service.stores.base import FullError


class MissingExtraError(SfumatoError, ImportError):
    """A library of the extra `server` that is not installed."""


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


def need(module: str) -> Any:
    """Import a library of the extra `server`, or say how to get it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        library = module.partition(".")[0]
        if (error.name or "").partition(".")[0] != library:
            raise
        raise MissingExtraError(
            f"the collector needs {library} for this, which is not installed: "
            "pip install 'sfumato[server]'"
        ) from None
