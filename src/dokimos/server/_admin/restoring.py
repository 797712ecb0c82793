"""Restore a backup: a database becomes what another one was at one moment."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from sqlalchemy import Connection, inspect, select

from dokimos.errors import ArchiveError, ConfigurationError
from dokimos.server._admin.archive import Archive, Progress
from dokimos.server._admin.databases import (
    check_is_not_newer,
    check_no_server_runs,
    describe_database,
    hold_database,
    read_database,
    record_command,
    write_database,
)
from dokimos.server._admin.loading import LoadReport, check_schema, load_rows
from dokimos.server._admin.table_contents import CONTENTS, Content
from dokimos.server._admin.trace_archive import check_traces, empty_traces, has_trace_rows, load_traces
from dokimos.server._admin.trace_database import (
    are_in_file,
    describe_traces,
    has_traces,
    read_traces,
    write_traces,
    write_traces_within,
)
from dokimos.server._db.data_folder import RESTORING_SUFFIX
from dokimos.server._db.database import DatabaseUnavailable, open_spans
from dokimos.server._db.migrate import TRACE_MIGRATIONS, migrate
from dokimos.server._db.schema import METADATA
from dokimos.server._db.span_storage import SpanStorage, attach_storage
from dokimos.server._settings import ServerSettings

T = TypeVar("T")
_EVERYTHING: Final = frozenset(Content) - {Content.TRANSIENT}
_LOCK_WAIT: Final = "60s"
"""For the tables of traces, which a server may be using."""


def restore_archive(
    settings: ServerSettings,
    path: Path,
    *,
    replaces: bool = False,
    progress: Progress = lambda table, rows: None,
) -> LoadReport:
    """Make a database what a backup holds: all of it, or the database stays as it is.

    Traces that are in it take the place of those that are there; without, those stay as they are.

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
        check_traces(archive)
        with hold_database(settings, "A restore"), _open_spans(settings, archive) as spans:
            _check_traces_may_go(settings, archive, replaces)
            restore = _Restore(settings, archive, progress, spans)
            try:
                if settings.database_url is not None:
                    return _restore_postgres(restore, replaces)
                return _restore_sqlite(restore, replaces)
            except (ConfigurationError, OSError) as error:
                if not restore.has_replaced_traces:
                    raise
                raise ConfigurationError(_describe_half(settings, path, error)) from error


@dataclass
class _Restore:
    """A restore that is under way."""

    settings: ServerSettings
    archive: Archive
    progress: Progress
    spans: SpanStorage | None = None
    """Where spans go, None for beside their traces."""
    has_replaced_traces: bool = False
    """Whether the traces are those of the backup already, while the rest is not."""

    @property
    def has_traces_apart(self) -> bool:
        """Whether the backup has traces, and they go into another database than the rest."""
        return self.archive.manifest.with_traces and not _go_together(self.settings)


@contextlib.contextmanager
def _open_spans(settings: ServerSettings, archive: Archive) -> Iterator[SpanStorage | None]:
    """The place that the spans of an archive go to, ready to take them."""
    with contextlib.ExitStack() as stack:
        try:
            spans = (
                stack.enter_context(open_spans(settings, prepares=True))
                if archive.manifest.with_traces
                else None
            )
        except DatabaseUnavailable as error:
            raise ConfigurationError(f"The database of traces cannot be used: {error}") from error
        yield spans


def _describe_half(settings: ServerSettings, path: Path, error: Exception) -> str:
    """Return what to do where a restore ended between its two databases, which nothing commits at once."""
    return (
        f"The restore was not finished: {error}\nThe traces in {describe_traces(settings)} are those of the "
        f"backup now, and {describe_database(settings)} is as it was. To restore the rest, repeat it: "
        f"dokimos db restore --replace {path}"
    )


def _go_together(settings: ServerSettings) -> bool:
    """Whether traces are restored with everything else: in its transaction, or as a file beside its file."""
    if settings.database_url is None:
        return are_in_file(settings)
    return settings.traces.database_url in (None, settings.database_url)


def _check_traces_may_go(settings: ServerSettings, archive: Archive, replaces: bool) -> None:
    """Refuse to lose traces that nobody has given up, and to begin where they cannot be restored."""
    if not archive.manifest.with_traces or not has_traces(settings):
        return
    if replaces and _go_together(settings):
        return  # the file that is there may be damaged
    if read_traces(settings, has_trace_rows) and not replaces:
        raise ConfigurationError(
            f"{describe_traces(settings)} has traces, and the backup has some too. Restore into an empty "
            "database; or give --replace, with which everything that is in this one is lost."
        )


def _replace_traces(connection: Connection, restore: _Restore) -> dict[str, int]:
    """Make the traces of a PostgreSQL what a backup has."""
    attach_storage(connection, restore.spans)
    migrate(connection, TRACE_MIGRATIONS)
    empty_traces(connection)
    return load_traces(connection, restore.archive, restore.progress)


def _restore_postgres(restore: _Restore, replaces: bool) -> LoadReport:
    settings, archive = restore.settings, restore.archive

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
        report = load_rows(connection, archive, contents=_EVERYTHING, progress=restore.progress)
        if archive.manifest.with_traces and not restore.has_traces_apart:
            report.added.update(_replace_traces(connection, restore))
        _record(connection, archive)
        # So that the first pages are not planned for empty tables. It locks those that it names.
        connection.exec_driver_sql(f"ANALYZE {names}" if restore.has_traces_apart else "ANALYZE")
        if restore.has_traces_apart:
            report.added.update(_load_apart_within(connection, restore))
        return report

    if restore.has_traces_apart:
        # First, and by itself: it waits for a lock that the restore holds, should both be one database.
        write_traces(settings, lambda connection: migrate(connection, TRACE_MIGRATIONS))
    return write_database(settings, load)


def _load_apart_within(connection: Connection, restore: _Restore) -> dict[str, int]:
    """Restore traces of another PostgreSQL at the end of the transaction that restores the rest.

    Of two databases one commits first. Here all rows of both are there by then, so that a damaged backup, a
    full disk or a kill changes neither.
    """
    connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")

    def load(traces: Connection) -> dict[str, int]:
        attach_storage(traces, restore.spans)
        traces.exec_driver_sql(f"SET LOCAL lock_timeout = '{_LOCK_WAIT}'")
        empty_traces(traces)
        counts = load_traces(traces, restore.archive, restore.progress)
        connection.exec_driver_sql("SELECT 1")  # it may have been lost meanwhile
        return counts

    counts = write_traces_within(restore.settings, load)
    restore.has_replaced_traces = True
    return counts


def _restore_sqlite(restore: _Restore, replaces: bool) -> LoadReport:
    """Build a file beside the old one, and put it into its place once it is whole."""
    from dokimos.server._db.sqlite_database import leave_wal

    settings, archive = restore.settings, restore.archive
    target = settings.sqlite_path
    # With --replace it is not looked into: it may be damaged.
    if not replaces and target.exists() and read_database(settings, _has_rows):
        _check_may_replace(settings, replaces)

    def load(connection: Connection) -> LoadReport:
        migrate(connection)
        report = load_rows(connection, archive, contents=_EVERYTHING, progress=restore.progress)
        _record(connection, archive)
        return report

    def load_their_traces(connection: Connection) -> dict[str, int]:
        attach_storage(connection, restore.spans)
        migrate(connection, TRACE_MIGRATIONS)
        return load_traces(connection, archive, restore.progress)

    with contextlib.ExitStack() as files:
        new = files.enter_context(_new_file(target))
        report = _build(new, load)
        places = [(new, target)]
        if archive.manifest.with_traces and not restore.has_traces_apart:
            traces = files.enter_context(_new_file(settings.sqlite_trace_path))
            report.added.update(_build(traces, load_their_traces, reclaims_space=True))
            places.insert(0, (traces, settings.sqlite_trace_path))
        for _, place in places:
            with _name_file(place):
                leave_wal(place)
        if restore.has_traces_apart:
            report.added.update(write_traces(settings, partial(_replace_traces, restore=restore)))
            restore.has_replaced_traces = True
        _take_places(restore, places)
    return report


def _build(path: Path, load: Callable[[Connection], T], *, reclaims_space: bool = False) -> T:
    from dokimos.server._db.sqlite_database import build_file

    with _name_file(path):
        return build_file(path, load, reclaims_space=reclaims_space)


def _take_places(restore: _Restore, places: Sequence[tuple[Path, Path]]) -> None:
    """Put new files, all of which are whole, into the places of the old ones; that of the rest comes last.

    Who is killed in between restores once more: the file of the rest that is left says so (`db check`).
    """
    for file, place in places:
        with _name_file(place):
            os.replace(file, place)
        if place == restore.settings.sqlite_trace_path:
            restore.has_replaced_traces = True


@contextlib.contextmanager
def _name_file(path: Path) -> Iterator[None]:
    """Say of an error of the disk which file it is about."""
    try:
        yield
    except (OSError, DatabaseUnavailable) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"The database cannot be written: {path}: {reason}.") from error


def _record(connection: Connection, archive: Archive) -> None:
    """Say in the audit log, which is that of the backup now, what has become of the database."""
    details = {"file": archive.path.name, "backupOf": archive.manifest.created_at}
    record_command(connection, "db.restore", details)


@contextlib.contextmanager
def _new_file(target: Path) -> Iterator[Path]:
    """An empty file beside another one, which is not there any more when the block ends by an error."""
    path = target.with_name(f"{target.name}{RESTORING_SUFFIX}")
    with _name_file(path):
        mode = _mode_of(target)
        path.unlink(missing_ok=True)  # what a process left that was killed
    try:
        with _name_file(path):
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
