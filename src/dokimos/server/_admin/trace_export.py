"""Write a file of production traces, from any store, while servers run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, select, tuple_

from dokimos.errors import ConfigurationError
from dokimos.server._admin.archive import Progress, create_file
from dokimos.server._admin.databases import read_database
from dokimos.server._admin.export import find_projects, name_file
from dokimos.server._admin.trace_database import describe_traces, has_traces, read_traces
from dokimos.server._admin.trace_file import ExportedProject, FileCounts, TraceFileWriter
from dokimos.server._db.batches import in_batches
from dokimos.server._db.ids import first_id
from dokimos.server._db.migrate import TRACE_HEAD, TRACE_MIGRATIONS, read_version
from dokimos.server._db.tables import PROJECTS
from dokimos.server._db.trace_tables import SPAN_LOGS, SPANS, TRACE_SOURCES, TRACES
from dokimos.server._services.traces.span_pages import batch_traces, read_pages
from dokimos.server._services.traces.trace_sources import load_origin
from dokimos.server._services.traces.trace_statements import SOURCE_COLUMNS
from dokimos.server._settings import ServerSettings
from dokimos.traces._otlp_records import RecordOrigin

_TRACES_AT_ONCE: Final = 500
_LOGS_AT_ONCE: Final = 100
_COLUMNS: Final = (SPANS.c.trace, SPANS.c.span_id, SPANS.c.project_id, SPANS.c.body)
_SOURCES: Final = tuple(TRACE_SOURCES.c[name].label(f"source_{name}") for name in SOURCE_COLUMNS)


@dataclass(frozen=True, slots=True)
class TraceSelection:
    """Which traces are exported."""

    projects: tuple[str, ...] = ()
    """The names of projects; none for all traces."""
    start: int | None = None
    """When a trace was received first, at the earliest; None for any time."""
    end: int | None = None
    """Before when it was."""


def export_traces(
    settings: ServerSettings,
    path: Path,
    selection: TraceSelection,
    *,
    replaces: bool = False,
    progress: Progress = lambda table, rows: None,
) -> FileCounts:
    """Write the traces that there are at one moment; return how many.

    The file appears under its name when it is whole and on disk.

    Raises:
        ArchiveError: The file exists already, or cannot be written.
        ConfigurationError: The database cannot be used, or has no such project, or there are no traces.
    """
    if not has_traces(settings):
        raise ConfigurationError(f"There are no traces at {settings.sqlite_trace_path}.")
    with create_file(path, replaces=replaces) as file:
        projects = _read_projects(settings, selection.projects)

        def write(connection: Connection) -> FileCounts:
            _check_version(connection, settings)
            with name_file(path):
                writer = TraceFileWriter(file, projects)
                counts = _Export(connection, writer, progress).run(selection, projects)
                writer.finish(counts)
            return counts

        return read_traces(settings, write)


def _read_projects(settings: ServerSettings, names: Sequence[str]) -> list[ExportedProject]:
    """Return the named projects, or all: traces name them by their ids."""
    if not names and settings.database_url is None and not settings.sqlite_path.is_file():
        return []

    def read(connection: Connection) -> list[ExportedProject]:
        query = select(PROJECTS.c.id, PROJECTS.c.name, PROJECTS.c.tenant_id)
        if names:
            query = query.where(PROJECTS.c.id.in_(find_projects(connection, names)))
        rows = connection.execute(query.where(PROJECTS.c.deleted_at.is_(None)).order_by(PROJECTS.c.id))
        return [ExportedProject(row.id, row.name, row.tenant_id) for row in rows]

    return read_database(settings, read)


def _check_version(connection: Connection, settings: ServerSettings) -> None:
    version = read_version(connection, TRACE_MIGRATIONS)
    if version != TRACE_HEAD:
        raise ConfigurationError(
            f"{describe_traces(settings)} has the schema {version or 'of nothing'}, and this dokimos needs "
            f"{TRACE_HEAD}: run 'dokimos db upgrade', or use the newer version that has migrated it."
        )


class _Export:
    """An export that is under way, on one snapshot."""

    def __init__(self, connection: Connection, writer: TraceFileWriter, progress: Progress) -> None:
        self._connection = connection
        self._writer = writer
        self._progress = progress
        self._traces = self._spans = self._logs = 0

    def run(self, selection: TraceSelection, projects: Sequence[ExportedProject]) -> FileCounts:
        """Write all that is selected; return how much that is."""
        self._progress("spans", 0)
        ids = [each.id for each in projects] if selection.projects else None
        for rows in _list_traces(self._connection, selection, ids):
            for batch in batch_traces(rows):
                self._write_batch(batch)
                self._progress("spans", self._spans)
        return FileCounts(self._traces, self._spans, self._logs)

    def _write_batch(self, batch: Sequence[Row[Any]]) -> None:
        traces = {trace.id: trace for trace in batch}
        has_logs = self._find_logs(batch)
        last: str | None = None
        for page in read_pages(self._connection, _COLUMNS, batch):
            for trace, rows in groupby(page, key=lambda row: row.trace):
                if last is not None and trace != last:
                    self._end_trace(traces[last], has_logs)
                last = trace
                spans = [(row.project_id, _origin_of(row), bytes(row.body)) for row in rows]
                self._writer.write_trace(_head_of(traces[trace]), spans)
                self._spans += len(spans)
        if last is not None:
            self._end_trace(traces[last], has_logs)

    def _end_trace(self, trace: Row[Any], has_logs: set[tuple[str, str]]) -> None:
        """Write what comes behind the spans of a trace."""
        self._traces += 1
        if (trace.tenant_key, trace.trace_id) not in has_logs:
            return
        for part in self._read_logs(trace):
            self._writer.write_trace(_head_of(trace), logs=part)
            self._logs += len(part)

    def _find_logs(self, batch: Sequence[Row[Any]]) -> set[tuple[str, str]]:
        """Return those of some traces that have log records."""
        columns = SPAN_LOGS.c
        key = tuple_(columns.tenant_key, columns.trace_id)
        query = select(columns.tenant_key, columns.trace_id).distinct()
        return {
            (row.tenant_key, row.trace_id)
            for part in in_batches([(trace.tenant_key, trace.trace_id) for trace in batch])
            for row in self._connection.execute(query.where(key.in_(part)))
        }

    def _read_logs(self, trace: Row[Any]) -> Iterator[list[tuple[RecordOrigin, bytes]]]:
        """Yield the log records of a trace in one order, some at a time: each may be large."""
        columns = SPAN_LOGS.c
        place = tuple_(columns.span_id, columns.record)
        query = (
            select(columns.span_id, columns.record, columns.body, *_SOURCES)
            .join(TRACE_SOURCES, TRACE_SOURCES.c.id == columns.source)
            .where(columns.tenant_key == trace.tenant_key, columns.trace_id == trace.trace_id)
            .order_by(columns.span_id, columns.record)
            .limit(_LOGS_AT_ONCE)
        )
        rows = self._connection.execute(query).all()
        while rows:
            yield [(_origin_of(row), bytes(row.body)) for row in rows]
            last = tuple_(rows[-1].span_id, rows[-1].record)
            rows = self._connection.execute(query.where(place > last)).all()


def _list_traces(
    connection: Connection, selection: TraceSelection, project_ids: Sequence[str] | None
) -> Iterator[Sequence[Row[Any]]]:
    """Yield the rows of the traces that are selected, in the order of their ids, some at a time."""
    names = ("id", "tenant_key", "trace_id", "day", "created_at", "updated_at", "span_count", "byte_count")
    query: Select[Any] = select(*(TRACES.c[name] for name in names)).where(TRACES.c.deleted_at.is_(None))
    if project_ids is not None:
        query = query.where(TRACES.c.project_id.in_(project_ids))
    if selection.start is not None:
        query = query.where(TRACES.c.id >= first_id(selection.start))
    if selection.end is not None:
        query = query.where(TRACES.c.id < first_id(selection.end))
    query = query.order_by(TRACES.c.id).limit(_TRACES_AT_ONCE)
    rows = connection.execute(query).all()
    while rows:
        yield rows
        rows = connection.execute(query.where(TRACES.c.id > rows[-1].id)).all()


def _head_of(trace: Row[Any]) -> dict[str, Any]:
    return {
        "trace": trace.id,
        "traceId": trace.trace_id,
        "tenant": trace.tenant_key,
        "createdAt": trace.created_at,
        "updatedAt": trace.updated_at,
    }


def _origin_of(row: Row[Any]) -> RecordOrigin:
    return load_origin(*(getattr(row, f"source_{name}") for name in SOURCE_COLUMNS))
