"""Bring a schema up to date: that of the server, or that of its traces."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, inspect

HEAD: Final = "0008"
"""The newest migration of the server's tables; a test compares it with the scripts."""
TRACE_HEAD: Final = "0004"
"""The newest migration of the tables of traces."""
_LOGGER: Final = logging.getLogger("dokimos.server")
_LOCK: Final = 0x646F6B69  # any number that is ours: one server migrates at a time


@dataclass(frozen=True, slots=True)
class Migrations:
    """The migrations of some tables."""

    head: str
    """The newest one."""
    folder: str
    """Where they are, beside this module."""
    version_table: str
    """The table that says which have been applied."""
    reclaims_space: bool = False
    """Whether a file of SQLite gives back what removed rows took, in small steps (`incremental_vacuum`)."""


MIGRATIONS: Final = Migrations(HEAD, "migrations", "alembic_version")
TRACE_MIGRATIONS: Final = Migrations(
    TRACE_HEAD, "trace_migrations", "trace_alembic_version", reclaims_space=True
)


def migrate(connection: Connection, migrations: Migrations = MIGRATIONS) -> None:
    """Apply the migrations that the database lacks, within the transaction of the connection.

    A database that is up to date costs one query: Alembic, whose import takes a quarter of a second, is
    loaded only where there is something to do. One that a newer server has migrated is used as it is:
    migrations only add, so that servers of two versions can share a database while they are replaced.
    """
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
    version, head = read_version(connection, migrations), migrations.head
    if version == head:
        return
    if version is not None and version.isdecimal() and version > head:
        _LOGGER.warning("A newer server has migrated the database, to %s; this one knows %s.", version, head)
        return
    from alembic import command
    from alembic.config import Config

    config = Config()
    folder = str(Path(__file__).parent / migrations.folder)
    config.set_main_option("script_location", folder.replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def read_version(connection: Connection, migrations: Migrations = MIGRATIONS) -> str | None:
    """Return the newest migration that was applied to the database, None where there are no tables."""
    if not inspect(connection).has_table(migrations.version_table):
        return None
    version: str | None = connection.exec_driver_sql(
        f"SELECT version_num FROM {migrations.version_table}"
    ).scalar()
    return version
