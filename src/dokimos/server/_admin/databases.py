"""The database that the settings name, for commands that run beside the servers or in their place."""

from __future__ import annotations

import getpass
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final, TypeVar

from sqlalchemy import Connection, func, select, text
from sqlalchemy.exc import DatabaseError

from dokimos._core.text import pluralize
from dokimos.errors import ConfigurationError
from dokimos.server._db.data_folder import hold_data_folder
from dokimos.server._db.database import DatabaseUnavailable, read_once, write_once
from dokimos.server._db.migrate import HEAD, read_version
from dokimos.server._services.accounts.principal import command_line
from dokimos.server._services.audit.audit_log import record_action
from dokimos.server._services.audit.audit_targets import Details
from dokimos.server._settings import ServerSettings

T = TypeVar("T")
_STOPPING_SECONDS: Final = 3.0
_POLL_SECONDS: Final = 0.1


def read_database(settings: ServerSettings, query: Callable[[Connection], T]) -> T:
    """Run a query on one snapshot, also while servers run.

    Raises:
        ConfigurationError: There is no database, or it cannot be used.
    """
    if settings.database_url is None and not settings.sqlite_path.is_file():
        raise ConfigurationError(
            f"There is no database at {settings.sqlite_path}. Name its folder with --data-dir or "
            "DOKIMOS_DATA_DIR, or a PostgreSQL with DOKIMOS_DATABASE_URL."
        )
    try:
        return read_once(settings, query)
    except (DatabaseUnavailable, DatabaseError) as error:
        raise _cannot_be_used(settings, error) from error


def write_database(settings: ServerSettings, change: Callable[[Connection], T]) -> T:
    """Run a change as one transaction; on SQLite, whoever calls this holds the folder.

    Raises:
        ConfigurationError: The database cannot be used; nothing was changed.
    """
    try:
        return write_once(settings, change)
    except (DatabaseUnavailable, DatabaseError) as error:
        raise _cannot_be_used(settings, error) from error


def hold_database(settings: ServerSettings, what: str) -> AbstractContextManager[None]:
    """Keep servers from writing to the SQLite files inside the block; with PostgreSQL, do nothing.

    Args:
        settings: Name the folder.
        what: What is about to be done, as in `An import`.

    Raises:
        ConfigurationError: A server or another command is writing there.
    """

    def refuse(holder: str) -> str:
        return (
            f"A server or another command{holder} is using {settings.data_dir}. {what} writes to the file of "
            "SQLite, which one process may do at a time: stop the server, and start it again afterwards."
        )

    return hold_data_folder(settings, refuse)


def check_no_server_runs(connection: Connection, settings: ServerSettings) -> None:
    """Refuse what would take from servers on a PostgreSQL what they are storing.

    Raises:
        ConfigurationError: A server is connected, and stays so for some seconds: one that has just been
            stopped may still be listed.
    """
    from dokimos.server._db.postgres_channel import APPLICATION

    servers = select(func.count()).select_from(text("pg_stat_activity")).where(
        text("datname = current_database() AND application_name = :name").bindparams(name=APPLICATION)
    )  # fmt: skip
    deadline = time.monotonic() + _STOPPING_SECONDS
    while count := connection.execute(servers).scalar_one():
        if time.monotonic() >= deadline:
            raise ConfigurationError(
                f"{pluralize(count, 'server')} {'is' if count == 1 else 'are'} using "
                f"{describe_database(settings)}. What is stored there meanwhile would be lost: stop all its "
                "servers, and start them again afterwards."
            )
        time.sleep(_POLL_SECONDS)
        connection.exec_driver_sql("SELECT pg_stat_clear_snapshot()")


def describe_database(settings: ServerSettings) -> str:
    """Return which database it is, without its password."""
    if settings.database_url is None:
        return str(settings.sqlite_path)
    from sqlalchemy import make_url

    return make_url(settings.database_url).render_as_string(hide_password=True)


def record_command(connection: Connection, action: str, details: Details) -> None:
    """Name a command in the audit log, with the account that runs it."""
    try:
        account = getpass.getuser()
    except (OSError, KeyError):  # an account without a name, as in some containers
        account = "unknown"
    record_action(connection, action, command_line(account), details=details)


def check_is_not_newer(connection: Connection) -> str | None:
    """Return the version of the schema, None where there is none.

    Raises:
        ConfigurationError: A newer server has migrated the database: what it added would be overlooked.
    """
    version = read_version(connection)
    if version is not None and version.isdecimal() and version > HEAD:
        raise ConfigurationError(
            f"A newer dokimos has migrated the database to {version}, and this one knows {HEAD}: use the "
            "newer version for this."
        )
    return version


def _cannot_be_used(settings: ServerSettings, error: Exception) -> ConfigurationError:
    reason = getattr(error, "orig", None) or error
    where = describe_database(settings)
    said = str(reason)
    return ConfigurationError(f"The database cannot be used: {said if where in said else f'{where}: {said}'}")
