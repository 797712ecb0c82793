"""Run the server in this process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from importlib.util import find_spec
from typing import Literal

import uvicorn

from dokimos.server._app import create_app
from dokimos.server._settings import ServerSettings

_DRAIN_SECONDS = 20


def serve(settings: ServerSettings, *, on_start: Callable[[str], None] = lambda address: None) -> None:
    """Serve until a signal asks to stop; requests that have begun are answered first.

    Args:
        settings: How the server runs.
        on_start: Called with the address once the server answers.
    """
    _configure_logging(settings)
    _AnnouncingServer(configure_uvicorn(settings), on_start).run()


def configure_uvicorn(settings: ServerSettings) -> uvicorn.Config:
    """Return how uvicorn runs the server."""
    return uvicorn.Config(
        create_app(settings),
        host=settings.host,
        port=settings.port,
        http=_http_protocol(),
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=max(1, round(settings.keep_alive)),
        timeout_graceful_shutdown=_DRAIN_SECONDS,
        ws="none",
    )


def _http_protocol() -> type[asyncio.Protocol] | Literal["h11"]:
    if find_spec("httptools") is None:  # Windows; the parser in plain Python ignores upgrades by itself
        return "h11"
    from dokimos.server._http_protocol import IgnoreUpgradeProtocol

    return IgnoreUpgradeProtocol


class _AnnouncingServer(uvicorn.Server):
    """Says where it answers, once it does."""

    def __init__(self, config: uvicorn.Config, on_start: Callable[[str], None]) -> None:
        super().__init__(config)
        self._on_start = on_start

    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override] # sockets are the base's
        await super().startup(sockets)  # type: ignore[arg-type]
        for server in self.servers:
            for each in server.sockets:
                host, port = each.getsockname()[:2]
                shown = "localhost" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
                self._on_start(f"http://{shown}:{port}")
                return


def _configure_logging(settings: ServerSettings) -> None:
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=settings.log_level)
    logging.getLogger("sqlalchemy.engine").setLevel(settings.sql_log_level)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
