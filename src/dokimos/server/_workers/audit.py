"""The worker that writes what the audit log counts, and removes what is too old."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from dokimos._version import __version__
from dokimos.server._db.database import Database, DatabaseUnavailable
from dokimos.server._services.accounts.principal import worker
from dokimos.server._services.audit.audit_log import purge_entries, record_action
from dokimos.server._services.audit.audit_targets import Details
from dokimos.server._services.audit.audit_trail import AuditTrail
from dokimos.server._settings import ServerSettings
from dokimos.server._workers.periodic import repeat_until_done, run_periodically
from dokimos.server._workers.row_ages import AgeClock

_LOGGER: Final = logging.getLogger("dokimos.server")
_FLUSH_SECONDS: Final = 2.0
"""What a server that is killed may lose of what it counted."""
_PURGE_SECONDS: Final = 600.0
_SERVER: Final = worker("server")


@asynccontextmanager
async def keep_audit_log(
    database: Database, settings: ServerSettings, trail: AuditTrail, *, is_keyed: bool
) -> AsyncIterator[None]:
    """Write what the trail counts, and remove old rows, until the context ends.

    Args:
        database: Without the audit of requests: what is written here is the audit.
        is_keyed: Whether writing needs a key as the server starts.
    """
    await _record(database, "server.start", describe_start(settings, database.dialect, is_keyed=is_keyed))

    async def flush() -> None:
        await trail.flush(database)

    clock = AgeClock()

    async def purge() -> None:
        async with database.claim("removing old rows of the audit log") as is_ours:
            if is_ours:  # of several servers on one database, one does it
                await purge_audit_log(database, settings.audit_retention_days, clock)

    try:
        async with (
            run_periodically("Writing the audit log", flush, _FLUSH_SECONDS),
            run_periodically("Removing old rows of the audit log", purge, _PURGE_SECONDS),
        ):
            yield
    finally:
        with suppress(DatabaseUnavailable):  # which the next line tells
            await trail.flush(database)
        await _record(database, "server.stop")


async def _record(database: Database, action: str, details: Details | None = None) -> None:
    try:
        await database.write(lambda connection: record_action(connection, action, _SERVER, details=details))
    except DatabaseUnavailable as error:  # a full disk, for one: reading goes on
        _LOGGER.warning("The audit log could not be written: %s", error)


def describe_start(settings: ServerSettings, dialect: str, *, is_keyed: bool) -> Details:
    """Return the settings that matter to who may do what; no secrets, no addresses of databases."""
    return {
        "version": __version__,
        "database": dialect,
        "host": settings.host,
        "port": settings.port,
        "needsKey": is_keyed,
        "ownKey": settings.api_key is not None,
        "requireAuthForReads": settings.require_auth_for_reads,
        "publicMetrics": settings.public_metrics,
        "sharedRows": "readonly" if settings.read_only_shared_rows else "writable",
        "auditRetentionDays": settings.audit_retention_days,
    }


async def purge_audit_log(database: Database, days: float, clock: AgeClock) -> None:
    """Remove the rows that are older than so many days, in small transactions; none with -1."""
    if days < 0:
        return
    moment = clock.now()
    removed = await repeat_until_done(
        lambda: database.write(lambda connection: purge_entries(connection, days, moment))
    )
    if removed:
        principal = worker("Removing old rows of the audit log")
        details = {"rows": removed, "olderThanDays": days}
        await database.write(
            lambda connection: record_action(connection, "audit-log.purge", principal, details=details)
        )
