"""Run the server in this process."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import math
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from types import FrameType
from typing import Final, Literal

import uvicorn
from fastapi import FastAPI

from dokimos._runtime.interrupts import SEVERAL_SECONDS
from dokimos._version import __version__
from dokimos.errors import ConfigurationError
from dokimos.server._app import create_app
from dokimos.server._db.data_folder import describe_unfinished_restore, hold_data_folder
from dokimos.server._db.database import DatabaseUnavailable
from dokimos.server._grpc.endpoint import GrpcEndpoint
from dokimos.server._logs import configure_logging
from dokimos.server._services.server_info import describe_server
from dokimos.server._settings import ServerSettings

_LOGGER: Final = logging.getLogger("dokimos.server")
_BACKLOG: Final = 2048
_SWITCH_SECONDS: Final = 0.001
_NEW_OBJECTS: Final = 5000
"""New objects after which the garbage collector looks through them.

An export of 100 spans makes 500, most of which are gone once it is stored. With Python's 700 they are looked
through again and again before: 2.2 ms of CPU per 1,000 spans, in which no other thread runs, and 0.1 ms so.
"""
_TICK_SECONDS: Final = 0.1
_CANCEL_SECONDS: Final = 2.0
_SIGNALS: Final = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")


def serve(
    settings: ServerSettings,
    *,
    on_start: Callable[[str], None] = lambda address: None,
    make_app: Callable[[ServerSettings], FastAPI] = create_app,
) -> None:
    """Serve until a signal asks to stop; requests that have begun are answered first.

    Args:
        settings: How the server runs.
        on_start: Called with the address once the server answers.
        make_app: Makes the application.

    Raises:
        ConfigurationError: The address cannot be bound to, the database cannot be used, or another server
            keeps its data in the same folder.
    """
    configure_logging(settings)
    with hold_data_folder(settings, partial(_refuse_second_server, settings)):
        if unfinished := describe_unfinished_restore(settings):
            _LOGGER.warning("In the data folder, %s.", unfinished)
        _serve(settings, on_start, make_app)


def _refuse_second_server(settings: ServerSettings, holder: str) -> str:
    return (
        f"Another server{holder} keeps its data in {settings.data_dir}. Stop that one, choose another folder "
        "with --data-dir, or use PostgreSQL, which several servers can share."
    )


def _serve(
    settings: ServerSettings,
    on_start: Callable[[str], None],
    make_app: Callable[[ServerSettings], FastAPI],
) -> None:
    listener = listen(settings)
    app = make_app(settings)

    def start() -> None:
        _freeze_modules()
        gc.set_threshold(_NEW_OBJECTS)
        # A thread that reads traces lets others go on no more often than this; a request of items comes to
        # them several times. With Python's 5 ms, the p95 of items beside 2,000 spans a second is three times
        # that of items alone (`benchmarks/server_traces.py`). The CPU for spans is the same.
        sys.setswitchinterval(_SWITCH_SECONDS)
        on_start(address_of(listener))

    server = Server(configure_uvicorn(app, settings), app, start)
    try:
        # Interrupted before it has started; later, `Server` handles the signals itself.
        with contextlib.suppress(KeyboardInterrupt):
            server.run([listener])
    except DatabaseUnavailable as error:
        raise ConfigurationError(f"The database cannot be used: {error}") from error
    finally:
        listener.close()


def _freeze_modules() -> None:
    """Keep what has been imported out of all garbage collections.

    A full collection looks through 130,000 objects that live as long as the server: it takes 40 to 150 ms, in
    which no request is answered, and comes several times while a judge job scores a thousand items
    (`benchmarks/server_judging.py`). Nothing is collected before either: what imports leave behind is too
    little to be seen in the memory (`benchmarks/server_start.py`).
    """
    gc.freeze()
    gc.enable()  # the command paused it


def configure_uvicorn(app: FastAPI, settings: ServerSettings) -> uvicorn.Config:
    """Return how uvicorn runs the application."""
    return uvicorn.Config(
        app,
        http=_http_protocol(),
        lifespan="off",  # it is `Server` that enters it, so that what it raises comes out of `serve`
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # the application reads them itself, and notes who has sent them
        timeout_keep_alive=max(1, round(settings.keep_alive)),
        timeout_graceful_shutdown=max(1, math.ceil(settings.stop_timeout)),
        ws="none",
    )


def _http_protocol() -> type[asyncio.Protocol] | Literal["h11"]:
    if find_spec("httptools") is None:  # Windows; the parser in plain Python ignores upgrades by itself
        return "h11"
    from dokimos.server._http_protocol import IgnoreUpgradeProtocol

    return IgnoreUpgradeProtocol


class Server(uvicorn.Server):
    """Keeps the lifespan of the application, says when it answers, and drains before it stops.

    Asked to stop, it says at once that it is not ready, and goes on answering for as long as the settings
    say: load balancers need some time to notice. Then it accepts no more connections, ends the streams of
    events, and waits for the requests that are under way. A second signal ends all that.
    """

    def __init__(self, config: uvicorn.Config, app: FastAPI, on_start: Callable[[], None]) -> None:
        super().__init__(config)
        self._application = app
        self._on_start = on_start
        self._drain_seconds: float = app.state.settings.drain_seconds
        self._drained_at: float | None = None
        self._signalled_at = float("-inf")
        self._grpc: GrpcEndpoint | None = None

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        settings = self._application.state.settings
        if settings.grpc_port is not None:
            self._grpc = GrpcEndpoint(self._application, settings)
        with contextlib.ExitStack() as signals:
            async with self._application.router.lifespan_context(self._application):
                # Until here, nothing is under way that an interrupt could harm.
                signals.enter_context(_handle_signals(self.handle_exit))
                await super().serve(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do nothing: `serve` handles signals, also while the database is being closed."""
        yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop; at the second signal, stop at once."""
        if not self.should_exit:
            self._signalled_at = time.monotonic()
        # A terminal and whatever started the server may both pass on the same Ctrl-C.
        elif time.monotonic() - self._signalled_at > SEVERAL_SECONDS:
            self.force_exit = True
        self.should_exit = True
        self._application.state.is_draining = True

    async def on_tick(self, counter: int) -> bool:
        """Say, ten times in a second, whether to stop answering."""
        if not await super().on_tick(counter):
            return False
        moment = time.monotonic()
        if self._drained_at is None:
            self._application.state.is_draining = True
            self._drained_at = moment + self._drain_seconds
            if self._drain_seconds:
                _LOGGER.info("The server stops; it goes on answering for %g seconds.", self._drain_seconds)
        return self.force_exit or moment >= self._drained_at

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._drained_at is None:  # asked to stop as it had just started: uvicorn skips its loop then
            await self.main_loop()
        # Streams of events have no end: uvicorn would wait for them.
        self._application.state.events.close()
        cutting = asyncio.create_task(self._cut_connections())
        stop_timeout: float = self._application.state.settings.stop_timeout
        try:
            await asyncio.gather(super().shutdown(sockets), self._stop_grpc(stop_timeout))
            await self._wait_for_cancelled_requests()
        finally:
            cutting.cancel()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        state = self._application.state
        description = await state.database.read(
            lambda connection: describe_server(connection, state.settings, is_keyed=state.keys.is_keyed)
        )
        for listener in sockets or ():
            _LOGGER.info("dokimos %s answers at %s: %s.", __version__, address_of(listener), description)
        if self._grpc is not None:
            await self._grpc.start()
            _LOGGER.info("Traces and logs are taken in over gRPC at port %d.", self._grpc.port)
        self._on_start()

    async def _cut_connections(self) -> None:
        """Cut all connections at the second signal; their requests would keep uvicorn waiting."""
        while not self.force_exit:
            await asyncio.sleep(_TICK_SECONDS)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await self._stop_grpc(0.0)

    async def _stop_grpc(self, seconds: float) -> None:
        if self._grpc is not None:
            await self._grpc.stop(seconds)

    async def _wait_for_cancelled_requests(self) -> None:
        """Let the requests whose time was over tell their clients."""
        if self.server_state.tasks and not self.force_exit:
            await asyncio.wait(list(self.server_state.tasks), timeout=_CANCEL_SECONDS)


@contextlib.contextmanager
def _handle_signals(handle: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle what asks a process to end; a signal that is ignored, as under nohup, stays so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    handled = [number for number in numbers if before[number] not in (signal.SIG_IGN, None)]
    for number in handled:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, before[number])


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


def address_of(listener: socket.socket) -> str:
    """Return the address at which a socket is reached from this machine."""
    host, port = listener.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        return f"http://localhost:{port}"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
