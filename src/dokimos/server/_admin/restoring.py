"""Restore a backup: a database becomes what another one was at one moment."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, inspect, select

from dokimos.errors import ArchiveError, ConfigurationError
from dokimos.server._admin.archive import Archive
from dokimos.server._admin.databases import (
    check_is_not_newer,
    check_no_server_runs,
    describe_database,
    hold_database,
    read_database,
    record_command,
    write_database,
)
from dokimos.server._admin.export import Progress
from dokimos.server._admin.loading import LoadReport, check_schema, load_rows
from dokimos.server._admin.table_contents import CONTENTS, Content
from dokimos.server._db.database import DatabaseUnavailable
from dokimos.server._db.migrate import migrate
from dokimos.server._db.schema import METADATA
from dokimos.server._settings import ServerSettings

_EVERYTHING: Final = frozenset(Content) - {Content.TRANSIENT}


def restore_archive(
    settings: ServerSettings,
    path: Path,
    *,
    replaces: bool = False,
    progress: Progress = lambda table, rows: None,
) -> LoadReport:
    """Make a database what a backup holds: all of it, or the database stays as it is.

    Args:
        settings: Name the database, which is to be empty.
        path: The backup. One of an older version is brought up to date.
        replaces: Whether a database with rows is emptied first, in the same transaction.
        progress: Hears how far it is.

    Raises:
        ArchiveError: The file is not a backup, is damaged, or of a newer version.
        ConfigurationError: The database is not empty, cannot be used, or a server runs on it.
    """
    with Archive(path) as archive:
        if archive.manifest.kind != "backup":
            raise ArchiveError(
                f"{path} is an export, which holds no keys and perhaps not everything; load it with "
                f"'dokimos db import'."
            )
        check_schema(archive)
        with hold_database(settings, "A restore"):
            if settings.database_url is not None:
                return _restore_postgres(settings, archive, replaces, progress)
            return _restore_sqlite(settings, archive, replaces, progress)


def _restore_postgres(
    settings: ServerSettings, archive: Archive, replaces: bool, progress: Progress
) -> LoadReport:
    def load(connection: Connection) -> LoadReport:
        check_no_server_runs(connection, settings)
        check_is_not_newer(connection)
        migrate(connection)
        names = ", ".join(table.name for table in METADATA.sorted_tables)
        # A server that starts now waits from here on, and cannot write between check and load.
        connection.exec_driver_sql(f"LOCK TABLE {names} IN ACCESS EXCLUSIVE MODE")
        if _has_rows(connection):
            _check_may_replace(settings, replaces)
        connection.exec_driver_sql(f"TRUNCATE {names}")
        report = load_rows(connection, archive, contents=_EVERYTHING, progress=progress)
        _record(connection, archive)
        connection.exec_driver_sql("ANALYZE")  # so that the first pages are not planned for empty tables
        return report

    return write_database(settings, load)


def _restore_sqlite(
    settings: ServerSettings, archive: Archive, replaces: bool, progress: Progress
) -> LoadReport:
    """Build a file beside the old one, and put it into its place once it is whole."""
    from dokimos.server._db.sqlite_database import build_file, leave_wal

    target = settings.sqlite_path
    # With --replace it is not looked into: it may be damaged.
    if not replaces and target.exists() and read_database(settings, _has_rows):
        _check_may_replace(settings, replaces)

    def load(connection: Connection) -> LoadReport:
        migrate(connection)
        report = load_rows(connection, archive, contents=_EVERYTHING, progress=progress)
        _record(connection, archive)
        return report

    try:
        with _new_file(target.with_name(f"{target.name}.restoring"), _mode_of(target)) as new:
            report = build_file(new, load)
            leave_wal(target)
            os.replace(new, target)
    except (OSError, DatabaseUnavailable) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"The database cannot be written: {target}: {reason}") from error
    return report


def _record(connection: Connection, archive: Archive) -> None:
    """Say in the audit log, which is that of the backup now, what has become of the database."""
    details = {"file": archive.path.name, "backupOf": archive.manifest.created_at}
    record_command(connection, "db.restore", details)


@contextlib.contextmanager
def _new_file(path: Path, mode: int) -> Iterator[Path]:
    """An empty file, which is not there any more when the block ends by an error."""
    path.unlink(missing_ok=True)  # what a process left that was killed
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
        os.chmod(path, mode)  # whatever new files may be by default
        yield path
    finally:
        path.unlink(missing_ok=True)


def _mode_of(target: Path) -> int:
    """Who may read the new file: as the one in its place, else its owner alone, as with the backup."""
    return stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o600


def _has_rows(connection: Connection) -> bool:
    """Whether anything would be lost; a server that was only started has left a line in its logs at most."""
    there = set(inspect(connection).get_table_names())
    kept = (Content.DATA, Content.COMPARISON, Content.ACCESS)
    return any(
        connection.execute(select(*table.primary_key).limit(1)).first()
        for table in METADATA.sorted_tables
        if table.name in there and CONTENTS[table.name] in kept
    )


def _check_may_replace(settings: ServerSettings, replaces: bool) -> None:
    if not replaces:
        raise ConfigurationError(
            f"{describe_database(settings)} is not empty. Restore into an empty database; or give --replace, "
            "with which everything that is in this one is lost."
        )
