"""Health checks, at the documented paths."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from sqlalchemy import Connection, text
from starlette.datastructures import State
from starlette.requests import Request

from dokimos._version import __version__
from dokimos.server._api.http.access import Access, access
from dokimos.server._db.database import Database, DatabaseUnavailable
from dokimos.server._db.span_storage import find_storage

ROUTER = APIRouter(prefix="/actuator", tags=["Health"])
_PATIENCE_SECONDS: Final = 30.0
"""How long the database may be away before the server counts as down: it may be restarting."""

_PING_SECONDS: Final = 5.0
"""How long the database may take to answer: whoever asks for our health does not wait for long."""


class DatabaseHealth:
    """Whether the database answers, and since when not."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._last_seen = time.monotonic()

    async def check(self) -> float:
        """Return for how many seconds the database has been away; 0 where it answers."""
        try:
            async with asyncio.timeout(_PING_SECONDS):
                await self._database.read(_ping)
        except (DatabaseUnavailable, TimeoutError):
            return max(time.monotonic() - self._last_seen, 1e-9)
        self._last_seen = time.monotonic()
        return 0.0


@ROUTER.get("/health")
@access(Access.PUBLIC)
async def get_health(request: Request) -> JSONResponse:
    """Say whether the server works: 503 once the database has been away for 30 seconds.

    The database of traces is a component of its own: runs and items are taken in without it.
    """
    state = request.app.state
    away, traces_away = await asyncio.gather(state.health.check(), state.trace_health.check())
    return _answer(state, is_up=away < _PATIENCE_SECONDS, away=away, traces_away=traces_away)


@ROUTER.get("/health/liveness")
@access(Access.PUBLIC)
async def get_liveness() -> JSONResponse:
    """Say that the process answers; the database is not looked at."""
    return JSONResponse({"status": "UP"})


@ROUTER.get("/health/readiness")
@access(Access.PUBLIC)
async def get_readiness(request: Request) -> JSONResponse:
    """Say whether requests can be served now: the database answers, and the server is not about to stop."""
    state = request.app.state
    away, traces_away = await asyncio.gather(state.health.check(), state.trace_health.check())
    if state.is_draining and away == 0:
        return JSONResponse({"status": "OUT_OF_SERVICE"}, 503)
    return _answer(state, is_up=away == 0, away=away, traces_away=traces_away)


@ROUTER.get("/info")
@access(Access.PUBLIC)
async def get_info() -> dict[str, Any]:
    """Return the version of the server."""
    return {"app": {"name": "dokimos", "version": __version__}, "build": {"version": __version__}}


def _answer(state: State, *, is_up: bool, away: float, traces_away: float) -> JSONResponse:
    components = {
        "db": _describe(state.database, away),
        "traces": _describe(state.traces, traces_away),
    }
    body = {"status": "UP" if is_up else "DOWN", "components": components}
    return JSONResponse(body, 200 if is_up else 503)


def _describe(database: Database, away: float) -> dict[str, object]:
    status = "UP" if away == 0 else "DOWN"
    return {"status": status, "details": {"database": database.dialect}}


def _ping(connection: Connection) -> None:
    connection.execute(text("SELECT 1"))
    storage = find_storage(connection)
    if storage is not None:
        storage.ping(connection)
