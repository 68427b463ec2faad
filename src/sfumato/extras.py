"""Extras: the optional parts of an installation, and the error that names the one that is missing.

The core, `pip install sfumato`, is what a device needs: encoding by a device program, the wire
format and the client. All else needs a library of an extra.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import lazy_loader

from sfumato.errors import MissingExtraError

#: The extra that brings each optional library, by the name under which it is imported.
EXTRAS = {
    "numpy": "analyst",
    "scipy": "analyst",
    "pyarrow": "analyst",
    "cryptography": "analyst",
    "threadpoolctl": "analyst",
    "tomli_w": "analyst",
    "matplotlib": "analyst",
    "plotly": "analyst",
    "starlette": "server",
    "uvicorn": "server",
    "psycopg": "server",
    "prometheus_client": "server",
    "distributed": "dask",
    "pyspark": "spark",
    "sqlglot": "sql",
}


def missing(error: ModuleNotFoundError) -> MissingExtraError | None:
    """The error that says how to get a library, or None if no extra brings it.

    Args:
        error: What Python says of a module that it does not find.
    """
    library = (error.name or "").partition(".")[0]
    if library not in EXTRAS:
        return None
    return MissingExtraError(
        f"this needs {library}, which is not installed: pip install 'sfumato[{EXTRAS[library]}]'"
    )


def need(module: str) -> Any:
    """Import a library of an extra.

    Raises:
        MissingExtraError: If it is not installed; the message has the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        told = missing(error)
        if told is None:
            raise
        raise told from None


def public_names(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package whose names are loaded when first used.

    Args:
        package: The package's `__name__`.
        file: Its `__file__`; the stub beside it lists the names.
    """
    load, listed, names = lazy_loader.attach_stub(package, file)

    def loaded(name: str) -> Any:
        try:
            return load(name)
        except ModuleNotFoundError as error:
            told = missing(error)
            if told is None:
                raise
            raise told from None

    return loaded, listed, names
