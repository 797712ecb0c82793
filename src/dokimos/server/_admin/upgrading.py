"""Bring the schema of a database up to date without starting a server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection

from dokimos.server._admin.databases import (
    check_is_not_newer,
    hold_database,
    read_database,
    write_database,
)
from dokimos.server._db import migrate as migrations
from dokimos.server._db.migrate import HEAD, migrate
from dokimos.server._settings import ServerSettings


@dataclass(frozen=True, slots=True)
class Migration:
    """A step from one version of the schema to the next."""

    version: str
    purpose: str


@dataclass(frozen=True, slots=True)
class Upgrade:
    """Where a database is, and what it lacks."""

    version: str | None
    """The newest migration that it has, None where it has no tables."""
    pending: tuple[Migration, ...]
    """What it lacks, in the order in which it is applied."""


def find_upgrade(settings: ServerSettings) -> Upgrade:
    """Say what a database lacks, and change nothing.

    Raises:
        ConfigurationError: The database cannot be used, or was migrated by a newer server.
    """
    if settings.database_url is None and not settings.sqlite_path.exists():
        return Upgrade(None, _migrations_behind(None))
    return read_database(settings, _find)


def upgrade_database(settings: ServerSettings) -> Upgrade:
    """Apply what a database lacks, all of it or nothing; return what that was.

    A server does the same when it starts. Migrations only add, so servers of the version before may go on
    running on the same PostgreSQL.

    Raises:
        ConfigurationError: The database cannot be used, was migrated by a newer server, or a server is
            running on the SQLite file.
    """

    def apply(connection: Connection) -> Upgrade:
        before = _find(connection)
        migrate(connection)
        return before

    with hold_database(settings, "An upgrade"):
        return write_database(settings, apply)


def _find(connection: Connection) -> Upgrade:
    version = check_is_not_newer(connection)
    return Upgrade(version, _migrations_behind(version))


def _migrations_behind(version: str | None) -> tuple[Migration, ...]:
    if version == HEAD:
        return ()
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory(str(Path(migrations.__file__).parent / "migrations"))
    behind = [
        Migration(script.revision, (script.doc or "").strip())
        for script in scripts.walk_revisions()
        if version is None or script.revision > version
    ]
    return tuple(reversed(behind))
