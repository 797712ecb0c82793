"""Write archives: backups of everything, and exports of projects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Column, Connection, Select, Table, select

from dokimos._version import __version__
from dokimos.errors import ConfigurationError
from dokimos.server._admin.archive import (
    TRACES_VERSION,
    ArchiveWriter,
    Manifest,
    Progress,
    cannot_be_written,
    create_file,
)
from dokimos.server._admin.databases import check_is_not_newer, describe_database, read_database
from dokimos.server._admin.row_text import RowText
from dokimos.server._admin.selection import Selection, has_gone_rows, select_rows, select_tables
from dokimos.server._admin.trace_archive import write_traces
from dokimos.server._admin.trace_database import has_traces, read_traces
from dokimos.server._db.bulk_rows import stream_rows
from dokimos.server._db.tables import PROJECTS
from dokimos.server._settings import ServerSettings

_ROWS: Final = 2000
"""Rows in memory at a time, fewer where they are large."""


def write_archive(
    settings: ServerSettings,
    path: Path,
    selection: Selection,
    *,
    project_names: Sequence[str] = (),
    with_traces: bool = False,
    replaces: bool = False,
    progress: Progress = lambda table, rows: None,
) -> Manifest:
    """Write an archive of the database as it is at one moment, also while servers write to it.

    The file appears under its name when it is whole and on disk.

    Args:
        settings: Name the database.
        path: The file.
        selection: What to put into it.
        project_names: The projects to export; none for everything.
        with_traces: Whether a backup has the production traces as well. They are in a database of their own,
            and are as they are some time after the rest.
        replaces: Whether a file of that name is replaced.
        progress: Hears how far it is.

    Raises:
        ArchiveError: The file exists already, or cannot be written.
        ConfigurationError: The database cannot be used, or has no such project.
    """

    def write(connection: Connection) -> Manifest:
        with name_file(path):  # here already: around the database, it would count as an error of that
            return _write(connection, settings, writer, selection, project_names, progress)

    with create_file(path, replaces=replaces) as file, ArchiveWriter(file) as writer, name_file(path):
        manifest = read_database(settings, write)
        if with_traces:
            manifest = _add_traces(settings, writer, manifest, progress)
        writer.finish(manifest)
        return manifest


@contextmanager
def name_file(path: Path) -> Iterator[None]:
    """Say of an error of the file that it is one, and of which."""
    try:
        yield
    except ConnectionError:
        raise  # of the database
    except OSError as error:
        raise cannot_be_written(path, error) from error


def _add_traces(
    settings: ServerSettings, writer: ArchiveWriter, manifest: Manifest, progress: Progress
) -> Manifest:
    manifest = replace(manifest, with_traces=True, format_version=TRACES_VERSION)
    if not has_traces(settings):
        return manifest
    return read_traces(
        settings, lambda connection: write_traces(connection, settings, writer, manifest, progress)
    )


def _write(
    connection: Connection,
    settings: ServerSettings,
    writer: ArchiveWriter,
    selection: Selection,
    project_names: Sequence[str],
    progress: Progress,
) -> Manifest:
    schema = check_is_not_newer(connection)
    if schema is None:
        raise ConfigurationError(f"{describe_database(settings)} has no tables: no server has used it yet.")
    if project_names:
        selection = replace(selection, projects=find_projects(connection, project_names))
    if connection.dialect.name == "postgresql":
        # Plans for reading all rows, not for the first of them.
        connection.exec_driver_sql("SET LOCAL cursor_tuple_fraction = 1")
    manifest = Manifest(
        kind="backup" if selection.is_backup else "export",
        dokimos_version=__version__,
        schema=schema,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        projects=tuple(project_names) or None,
        with_keys=selection.is_backup or selection.with_keys,
        with_comparisons=selection.is_backup or selection.with_comparisons,
    )
    has_gone = not selection.is_backup and has_gone_rows(connection)
    entries = []
    for table, columns in select_tables(connection, selection):
        query = select_rows(table, columns, selection, has_gone=has_gone)
        names = [each.name for each in columns]
        rows = _read(connection, query, table, columns, progress)
        entries.append(writer.write_member(table.name, names, rows))
    return replace(manifest, tables=tuple(entries))


def _read(
    connection: Connection,
    query: Select[Any],
    table: Table,
    columns: Sequence[Column[Any]],
    progress: Progress,
) -> Iterator[tuple[bytes, int]]:
    """Yield the lines of the rows of a query, some rows at a time."""
    text = RowText(columns, connection.dialect.name)
    done = 0
    progress(table.name, done)
    for rows in stream_rows(connection, query, _ROWS):
        yield text.format(rows), len(rows)
        done += len(rows)
        progress(table.name, done)


def find_projects(connection: Connection, names: Sequence[str]) -> tuple[str, ...]:
    """Return the ids of projects by name: those of all tenants, each of which may have one of a name."""
    query = select(PROJECTS.c.id, PROJECTS.c.name).where(
        PROJECTS.c.name.in_(names), PROJECTS.c.deleted_at.is_(None)
    )
    found = connection.execute(query).all()
    missing = [name for name in names if name not in {row.name for row in found}]
    if missing:
        known = connection.execute(
            select(PROJECTS.c.name).where(PROJECTS.c.deleted_at.is_(None)).order_by(PROJECTS.c.name).limit(20)
        ).scalars()
        some = ", ".join(f"'{name}'" for name in known) or "none"
        raise ConfigurationError(f"There is no project '{missing[0]}'. The database has: {some}.")
    return tuple(row.id for row in found)
