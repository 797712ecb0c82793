"""Bring the schema up to date."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, inspect

HEAD: Final = "0004"
"""The newest migration; a test compares it with the scripts."""
_LOGGER: Final = logging.getLogger("dokimos.server")
_LOCK: Final = 0x646F6B69  # any number that is ours: one server migrates at a time


def migrate(connection: Connection) -> None:
    """Apply the migrations that the database lacks, within the transaction of the connection.

    A database that is up to date costs one query: Alembic, whose import takes a quarter of a second, is
    loaded only where there is something to do. One that a newer server has migrated is used as it is:
    migrations only add, so that servers of two versions can share a database while they are replaced.
    """
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
    version = read_version(connection)
    if version == HEAD:
        return
    if version is not None and version.isdecimal() and version > HEAD:
        _LOGGER.warning("A newer server has migrated the database, to %s; this one knows %s.", version, HEAD)
        return
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def read_version(connection: Connection) -> str | None:
    """Return the newest migration that was applied to the database, None where there are no tables."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    version: str | None = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    return version
