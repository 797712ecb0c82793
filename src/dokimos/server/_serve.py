"""Run the server in this process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Final, Literal

import uvicorn
from fastapi import FastAPI

from dokimos._runtime.file_lock import LockTaken, ProcessLock
from dokimos.errors import ConfigurationError
from dokimos.server._app import create_app
from dokimos.server._db.database import DatabaseUnavailable
from dokimos.server._settings import ServerSettings

_DRAIN_SECONDS: Final = 20
_BACKLOG: Final = 2048


def serve(settings: ServerSettings, *, on_start: Callable[[str], None] = lambda address: None) -> None:
    """Serve until a signal asks to stop; requests that have begun are answered first.

    Args:
        settings: How the server runs.
        on_start: Called with the address once the server answers.

    Raises:
        ConfigurationError: The address cannot be bound to, the database cannot be used, or another server
            keeps its data in the same folder.
    """
    _configure_logging(settings)
    with _hold_data_folder(settings):
        _serve(settings, on_start)


def _serve(settings: ServerSettings, on_start: Callable[[str], None]) -> None:
    listener = listen(settings)
    app = create_app(settings)
    server = Server(configure_uvicorn(app, settings), app, lambda: on_start(_address_of(listener)))
    try:
        # Once it has stopped, uvicorn raises the signal again, which the command line turns into this.
        with contextlib.suppress(KeyboardInterrupt):
            server.run([listener])
    except DatabaseUnavailable as error:
        raise ConfigurationError(f"The database cannot be used: {error}") from error
    finally:
        listener.close()


@contextlib.contextmanager
def _hold_data_folder(settings: ServerSettings) -> Iterator[None]:
    """Keep other servers out of the folder of the SQLite files: their writers would wait for each other.

    What only reads, as the process that compares runs does, needs no lock.
    """
    if settings.database_url is not None:
        yield
        return
    folder = settings.data_dir
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = ProcessLock(folder / "server.lock")
    except LockTaken as taken:
        raise ConfigurationError(
            f"Another server{taken.holder} keeps its data in {folder}. Stop that one, choose another folder "
            "with --data-dir, or use PostgreSQL, which several servers can share."
        ) from None
    except OSError as error:
        raise ConfigurationError(f"The database cannot be used: {folder}: {error.strerror}") from error
    try:
        yield
    finally:
        lock.release()


def configure_uvicorn(app: FastAPI, settings: ServerSettings) -> uvicorn.Config:
    """Return how uvicorn runs the application."""
    return uvicorn.Config(
        app,
        http=_http_protocol(),
        lifespan="off",  # it is `Server` that enters it, so that what it raises comes out of `serve`
        log_config=None,
        access_log=False,
        server_header=False,
        forwarded_allow_ips=list(settings.trusted_proxies),
        timeout_keep_alive=max(1, round(settings.keep_alive)),
        timeout_graceful_shutdown=_DRAIN_SECONDS,
        ws="none",
    )


def _http_protocol() -> type[asyncio.Protocol] | Literal["h11"]:
    if find_spec("httptools") is None:  # Windows; the parser in plain Python ignores upgrades by itself
        return "h11"
    from dokimos.server._http_protocol import IgnoreUpgradeProtocol

    return IgnoreUpgradeProtocol


class Server(uvicorn.Server):
    """Keeps the lifespan of the application, and says when it answers."""

    def __init__(self, config: uvicorn.Config, app: FastAPI, on_start: Callable[[], None]) -> None:
        super().__init__(config)
        self._application = app
        self._on_start = on_start

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        async with self._application.router.lifespan_context(self._application):
            await super().serve(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Streams of events have no end: uvicorn would wait for them.
        self._application.state.events.close()
        await super().shutdown(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_start()


def listen(settings: ServerSettings) -> socket.socket:
    """Return a socket that listens at the address of the settings."""
    try:
        (family, _, _, _, address), *_ = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        # Python's own words name the address a second time; gaierror has numbers of its own.
        if error.errno is None or isinstance(error, socket.gaierror):
            reason = error.strerror or str(error)
        else:
            reason = os.strerror(error.errno)
        remedy = "choose another port with --port" if settings.port else "choose another address with --host"
        raise ConfigurationError(
            f"The server cannot listen at {settings.host}:{settings.port}: {reason}; {remedy}."
        ) from error


def _address_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        return f"http://localhost:{port}"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _configure_logging(settings: ServerSettings) -> None:
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=settings.log_level)
    logging.getLogger("sqlalchemy.engine").setLevel(settings.sql_log_level)
    for name in ("alembic", "uvicorn.error"):
        logging.getLogger(name).setLevel(logging.WARNING)
