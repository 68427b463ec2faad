"""Serving over HTTP with uvicorn, until the process is told to stop."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from types import FrameType

import uvicorn

from sfumato.errors import StoreError
from sfumato.service.app import Service
from sfumato.service.collector import Collector

_STOP_SECONDS = 30  # for requests that are being answered
_IDLE_SECONDS = 65  # longer than proxies keep a connection
_BACKLOG = 2_048


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Args:
        host: The address of this computer to listen on.
        port: The port; 0 takes a free one.

    Raises:
        StoreError: If the port is in use, or may not be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Of a socket that says it is TCP, asyncio sends each answer at once (TCP_NODELAY); otherwise
    # the last part of it waits 40 ms for the client to acknowledge the first.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(_BACKLOG)
    except OSError as error:
        made.close()
        what = f"cannot listen on {host} port {port}"
        if error.errno == errno.EADDRINUSE:
            raise StoreError(f"{what}: the port is in use; choose another with --port") from None
        raise StoreError(f"{what} ({error.strerror}); choose another address or port") from None
    return made


def address(listening: socket.socket) -> str:
    """The address at which a socket listens."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(
    collector: Collector,
    listening: socket.socket,
    *,
    access_log: bool = False,
    proxies: Sequence[str] = ("127.0.0.1",),
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve until the process is told to stop; then answer what came, and stop the collector.

    Args:
        collector: The collector.
        listening: The socket.
        access_log: Whether to log each request, with the address it came from.
        proxies: The addresses and networks that are believed to say for whom they ask.
        ready: Told the address, once connections are taken.
    """
    config = uvicorn.Config(
        Service(collector).app(),
        access_log=access_log,
        log_level="info" if access_log else "warning",
        forwarded_allow_ips=list(proxies),
        server_header=False,
        date_header=False,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_STOP_SECONDS,
        backlog=_BACKLOG,
    )
    if ready is not None:
        ready(address(listening))
    _Server(config, collector).run(sockets=[listening])


@contextmanager
def running(collector: Collector) -> Iterator[str]:
    """A collector that serves from a thread of this process, on a free port: to try things out.

    Args:
        collector: The collector, which is stopped in the end.

    Yields:
        Its address.
    """
    with closing(listen("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(Service(collector).app(), access_log=False, log_level="warning")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        try:
            yield address(listening)
        finally:
            server.should_exit = True
            thread.join()


class _Server(uvicorn.Server):
    """A server that gives up long answers when it is told to stop, so that it need not wait."""

    def __init__(self, config: uvicorn.Config, collector: Collector) -> None:
        super().__init__(config)
        self._collector = collector

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal to stop."""
        self._collector.answering.close()
        super().handle_exit(sig, frame)
