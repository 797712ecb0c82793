"""Connections to PostgreSQL beside the pool, for what belongs to one session."""

from __future__ import annotations

from typing import Any, Final

import asyncpg  # type: ignore[import-untyped] # it has no stubs
from sqlalchemy import make_url

from dokimos.server._settings import ServerSettings

DRIVER_ERRORS: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""The driver's own errors; the last one where a session ends at the moment in which it is used."""
_TIMEOUT_SECONDS: Final = 10.0
_KEEP_ALIVE: Final = {
    "tcp_keepalives_idle": "15",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}
"""So that PostgreSQL notices within half a minute that a machine is gone, and releases what it held."""


async def connect(settings: ServerSettings, name: str) -> Any:
    """Open a connection, whose commands take ten seconds at most.

    Args:
        settings: Where PostgreSQL is.
        name: What `pg_stat_activity` shows.
    """
    assert settings.database_url is not None
    url = make_url(settings.database_url)
    return await asyncpg.connect(
        host=url.host,
        port=url.port,
        user=url.username,
        password=url.password,
        database=url.database,
        ssl=url.query.get("sslmode"),
        timeout=_TIMEOUT_SECONDS,
        command_timeout=_TIMEOUT_SECONDS,
        server_settings={"application_name": name, **_KEEP_ALIVE},
    )
