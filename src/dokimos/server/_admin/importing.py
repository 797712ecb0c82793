"""Import an archive into a database that is in use: what is missing is added, under the same ids."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Table, func, or_, select, update

from dokimos.errors import ArchiveError
from dokimos.server._admin.archive import Archive, Progress
from dokimos.server._admin.databases import (
    check_is_not_newer,
    hold_database,
    record_command,
    write_database,
)
from dokimos.server._admin.loading import LoadReport, check_schema, load_rows
from dokimos.server._admin.row_text import RowText
from dokimos.server._admin.table_contents import Content
from dokimos.server._db.batches import in_batches
from dokimos.server._db.migrate import migrate
from dokimos.server._db.tables import ANNOTATIONS, DATASETS, EXPERIMENTS, ITEMS, PROJECTS
from dokimos.server._services.event_hub import new_event_id
from dokimos.server._services.events import Event, EventKind
from dokimos.server._services.kept_counts import recount
from dokimos.server._services.reviews.review_counts import recount_reviews
from dokimos.server._settings import ServerSettings

_LOCK: Final = 0x646F6B6A
"""Any number that is ours: one import at a time goes into a PostgreSQL."""
_LATEST: Final = {PROJECTS: ("last_activity_at", "shared_activity_at"), DATASETS: ("updated_at",)}
"""Columns that say when something last happened to a row or below it."""


def import_archive(
    settings: ServerSettings,
    path: Path,
    *,
    with_keys: bool = False,
    skips_different: bool = False,
    progress: Progress = lambda table, rows: None,
) -> LoadReport:
    """Add the rows of an archive to a database, in one transaction: all of them are seen at once, or none is.

    Rows that the database has already, with the same values, are left as they are. On PostgreSQL servers may
    run meanwhile.

    Args:
        settings: Name the database; it gets its tables where it has none.
        path: The archive.
        with_keys: Whether keys and people are imported, too.
        skips_different: Whether rows that the database has with other values are left as they are, runs and
            dataset versions with all that belongs to them, instead of being refused.
        progress: Hears how far it is.

    Raises:
        ArchiveError: The archive is damaged, is of a newer version, or has a row that the database has with
            other values; nothing was changed.
        ConfigurationError: The database cannot be used, or a server is running on the SQLite file.
    """
    contents = {Content.DATA, Content.COMPARISON, *([Content.ACCESS] if with_keys else [])}
    with Archive(path) as archive:
        check_schema(archive)
        if with_keys and not archive.manifest.with_keys:
            raise ArchiveError(f"{path} holds no keys; it was exported without --with-keys.")

        def load(connection: Connection) -> LoadReport:
            check_is_not_newer(connection)
            migrate(connection)
            if connection.dialect.name == "postgresql":
                connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))
            report = load_rows(
                connection, archive, contents=contents, skips_different=skips_different, progress=progress
            )
            _recount(connection, archive)
            _move_times(connection, archive)
            record_command(connection, "db.import", {"file": path.name})
            _announce(connection)
            return report

        with hold_database(settings, "An import"):
            return write_database(settings, load)


def _recount(connection: Connection, archive: Archive) -> None:
    """Count again what was added to; at the end, as whoever starts a run there waits for the rest of it."""
    for table in (PROJECTS, EXPERIMENTS, DATASETS):
        recount(connection, table, sorted(_read_ids(archive, table)))
    recount_reviews(connection, _read_annotated_runs(connection, archive))


def _read_annotated_runs(connection: Connection, archive: Archive) -> list[str]:
    """The runs of all items that are annotated in the archive, which may be new to items that were there."""
    ids = sorted({row["item_id"] for row in _read_rows(archive, ANNOTATIONS)})
    runs: set[str] = set()
    for batch in in_batches(ids):
        runs |= set(connection.execute(select(ITEMS.c.run_id).where(ITEMS.c.id.in_(batch))).scalars())
    return sorted(runs)


def _read_ids(archive: Archive, table: Table) -> Iterator[str]:
    """The ids of a table's rows in the archive."""
    return (row["id"] for row in _read_rows(archive, table))


def _move_times(connection: Connection, archive: Archive) -> None:
    """Have what was there already be as recently active as the archive has it, if that is later.

    Not as of now: a project that the import creates is not either, and what is imported twice moves nothing.
    """
    for table, names in _LATEST.items():
        for row in _read_rows(archive, table):
            for name in names:
                column, moment = table.c[name], row.get(name)
                if moment is not None:
                    is_earlier = or_(column.is_(None), column < moment)
                    change = update(table).where(table.c.id == row["id"], is_earlier)
                    connection.execute(change.values({name: moment}))


def _read_rows(archive: Archive, table: Table) -> Iterator[dict[str, Any]]:
    """The rows of a table in the archive, by column."""
    for entry in archive.manifest.tables:
        if entry.name == table.name:
            columns: list[Any] = [table.c[name] for name in entry.columns]
            text = RowText(columns, "postgresql")
            for lines in archive.read_lines(entry, 1000):
                yield from (dict(zip(entry.columns, row, strict=True)) for row in text.parse(lines))


def _announce(connection: Connection) -> None:
    """Have all who watch a server of this PostgreSQL read again, after the commit."""
    if connection.dialect.name == "postgresql":
        from dokimos.server._db.postgres_channel import CHANNEL

        message = f'[["{new_event_id()}",{Event(kind=EventKind.RELOAD).dump()}]]'
        connection.execute(select(func.pg_notify(CHANNEL, message)))
