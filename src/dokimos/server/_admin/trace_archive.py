"""Production traces in a backup: their tables as they are, written and loaded some rows at a time.

What searches use is not in it. It is made anew from the spans: each database has it in a form of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import Column, Connection, Table, and_, func, inspect, or_, select, update

from dokimos.errors import ArchiveError, ConfigurationError
from dokimos.server._admin.archive import Archive, ArchiveWriter, Manifest, Progress, TableEntry
from dokimos.server._admin.row_text import InvalidRow, Row, RowText
from dokimos.server._admin.trace_database import describe_traces
from dokimos.server._db.bulk_rows import RowsRefused, insert_in_bulk, stream_rows
from dokimos.server._db.migrate import TRACE_HEAD, TRACE_MIGRATIONS, read_version
from dokimos.server._db.span_storage import SpanStorage, find_storage
from dokimos.server._db.trace_tables import SPANS, TRACE_EVAL_JOBS, TRACE_METADATA, TRACE_SOURCES, TRACES
from dokimos.server._services.traces.restored_spans import RestoredSpans
from dokimos.server._settings import ServerSettings

_ROWS: Final = 50
"""Rows in memory at a time, fewer where they are large."""
_TRACES: Final = 1000
"""Traces whose spans are asked for, in memory at a time."""
_ROW: Final = "row"
"""The column of spans that SQLite alone has, by which its index of texts names them."""
# Spans come last: what is said of them beside their rows is there by then.
_TABLES: Final = (*(table for table in TRACE_METADATA.sorted_tables if table is not SPANS), SPANS)


def write_traces(
    connection: Connection,
    settings: ServerSettings,
    writer: ArchiveWriter,
    manifest: Manifest,
    progress: Progress,
) -> Manifest:
    """Write all tables of traces; return the manifest with them.

    Raises:
        ConfigurationError: A newer server has migrated them.
    """
    version = read_version(connection, TRACE_MIGRATIONS)
    if version is None:
        return replace(manifest, trace_schema=None)
    if version.isdecimal() and version > TRACE_HEAD:
        raise ConfigurationError(
            f"A newer dokimos has migrated {describe_traces(settings)} to {version}, and this one knows "
            f"{TRACE_HEAD}: use the newer version for this."
        )
    inspector = inspect(connection)
    there = set(inspector.get_table_names())
    entries = []
    for table in _TABLES:
        if table.name in there:
            names = {each["name"] for each in inspector.get_columns(table.name)} - {_ROW}
            columns = [each for each in table.columns if each.name in names]
            rows = _read(connection, table, columns, progress)
            entries.append(writer.write_member(table.name, [each.name for each in columns], rows))
    return replace(manifest, trace_schema=version, trace_tables=tuple(entries))


def _read(
    connection: Connection, table: Table, columns: Sequence[Column[Any]], progress: Progress
) -> Iterator[tuple[bytes, int]]:
    storage = find_storage(connection) if table is SPANS else None
    text = RowText(columns, connection.dialect.name if storage is None else "postgresql")
    parts: Iterable[Sequence[Sequence[Any]]]
    if storage is None:
        parts = stream_rows(connection, select(*columns), _ROWS)
    else:
        parts = _read_apart(connection, storage, columns)
    done = 0
    progress(table.name, done)
    for rows in parts:
        yield text.format(rows), len(rows)
        done += len(rows)
        progress(table.name, done)


def _read_apart(
    connection: Connection, storage: SpanStorage, columns: Sequence[Column[Any]]
) -> Iterator[Sequence[Sequence[Any]]]:
    """Yield the spans of the traces that are in this snapshot.

    Of those that were stored since, some have a source that the snapshot lacks: these could not be restored.
    """
    place = next(place for place, column in enumerate(columns) if column.name == SPANS.c.source.name)
    sources = set(connection.execute(select(TRACE_SOURCES.c.id)).scalars())
    for rows in storage.iterate(connection, columns, _list_traces(connection)):
        yield [row for row in rows if row[place] in sources]


def _list_traces(connection: Connection) -> Iterator[tuple[int, str]]:
    """Yield the days and ids of all traces, in their order."""
    day, identifier = TRACES.c.day, TRACES.c.id
    query = select(day, identifier).order_by(day, identifier).limit(_TRACES)
    rows = connection.execute(query).all()
    while rows:
        yield from ((row.day, row.id) for row in rows)
        last = rows[-1]
        is_behind = or_(day > last.day, and_(day == last.day, identifier > last.id))
        rows = connection.execute(query.where(is_behind)).all()


def check_traces(archive: Archive) -> None:
    """Raise `ArchiveError` for traces of a newer server, or with tables that no server has."""
    manifest = archive.manifest
    version = manifest.trace_schema
    if version is not None and (version > TRACE_HEAD or not version.isdecimal()):
        raise ArchiveError(
            f"{archive.path} was written by dokimos {manifest.dokimos_version}, whose tables of traces "
            f"({version}) are newer than those of this one ({TRACE_HEAD}). Use that version or a newer one."
        )
    known = {table.name: place for place, table in enumerate(_TABLES)}
    places = [known.get(entry.name, -1) for entry in manifest.trace_tables]
    if -1 in places or places != sorted(set(places)):
        raise archive.damage("its manifest names tables of traces that no archive has, or in another order")
    for entry in manifest.trace_tables:
        columns = set(TRACE_METADATA.tables[entry.name].columns.keys()) - {_ROW}
        if len(set(entry.columns)) < len(entry.columns) or not set(entry.columns) <= columns:
            raise archive.damage(f"its manifest names columns that the table {entry.name} does not have")
        if entry.name == SPANS.name and set(entry.columns) != columns:
            raise archive.damage(f"its manifest does not name all columns of {entry.name}")


def has_trace_rows(connection: Connection) -> bool:
    """Whether there are traces that would be lost."""
    if read_version(connection, TRACE_MIGRATIONS) is None:
        return False
    return any(
        connection.execute(
            select(func.count()).select_from(select(*table.primary_key).limit(1).subquery())
        ).scalar_one()
        for table in (TRACE_METADATA.tables["traces"], TRACE_METADATA.tables["trace_days"])
    )


def empty_traces(connection: Connection) -> None:
    """Remove all traces of a PostgreSQL, whose tables nobody else reads until the transaction ends."""
    names = ", ".join(table.name for table in _TABLES)
    connection.exec_driver_sql(f"LOCK TABLE {names} IN ACCESS EXCLUSIVE MODE")
    connection.exec_driver_sql(f"TRUNCATE {names}")


def load_traces(connection: Connection, archive: Archive, progress: Progress) -> dict[str, int]:
    """Insert the traces of an archive into empty tables; return how many rows each table got.

    Raises:
        ArchiveError: The archive is damaged.
        ConfigurationError: Spans go into a store of their own, and there are some.
    """
    storage = find_storage(connection)
    if storage is not None and storage.list_days(connection):
        raise ConfigurationError(
            "The ClickHouse that DOKIMOS_TRACE_DATABASE_URL names has spans, perhaps of a restore that was "
            "not finished; a restore needs a database without any. To remove them: TRUNCATE TABLE spans."
        )
    spans = RestoredSpans(connection)
    counts = {}
    for entry in archive.manifest.trace_tables:
        done = 0
        progress(entry.name, done)
        table = TRACE_METADATA.tables[entry.name]
        text = RowText([table.c[name] for name in entry.columns], connection.dialect.name)
        for lines in archive.read_lines(entry, _ROWS):
            try:
                rows = text.to_driver(text.parse(lines))
                _insert(connection, table, entry, rows, spans)
            except (InvalidRow, RowsRefused) as error:
                raise ArchiveError(
                    f"{archive.path}: {entry.member}, lines {done + 1} to {done + len(lines)}, cannot be "
                    f"loaded: {error}. Nothing was changed."
                ) from error
            done += len(lines)
            progress(entry.name, done)
        counts[entry.name] = done
    spans.flush()
    _free_jobs(connection)
    return counts


def _free_jobs(connection: Connection) -> None:
    """Let jobs of online evaluation wait anew: their batches may have been opened after the rest was read."""
    jobs = TRACE_EVAL_JOBS
    is_open = jobs.c.status.in_(("PENDING", "CLAIMED"))
    connection.execute(update(jobs).where(is_open).values(status="PENDING", batch=None, lease=None))


def _insert(
    connection: Connection, table: Table, entry: TableEntry, rows: Sequence[Row], spans: RestoredSpans
) -> None:
    if table is not SPANS:
        insert_in_bulk(connection, table, entry.columns, rows)
        return
    try:
        spans.insert([dict(zip(entry.columns, row, strict=True)) for row in rows])
    except (KeyError, ValueError, TypeError) as error:
        raise InvalidRow(f"it is not a span ({error})") from error
