"""Add the traces of a file to a database, as if they had been received there: into any store.

Each part is a transaction of its own. What is there already, by the ids of its trace and span, is skipped, so
an import that was interrupted is simply repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, select, tuple_
from sqlalchemy.exc import DatabaseError

from dokimos.errors import ConfigurationError, TraceError
from dokimos.server._admin.archive import Progress
from dokimos.server._admin.databases import (
    describe_database,
    hold_database,
    read_database,
    record_command,
    write_database,
)
from dokimos.server._admin.trace_database import describe_traces
from dokimos.server._admin.trace_file import ExportedProject, TraceFileReader, TraceLine, open_trace_file
from dokimos.server._db.batches import in_batches
from dokimos.server._db.clock import DAY, now
from dokimos.server._db.database import Database, DatabaseUnavailable, open_trace_database
from dokimos.server._db.ids import parse_id
from dokimos.server._db.migrate import read_version
from dokimos.server._db.tables import PROJECTS
from dokimos.server._db.trace_tables import TRACES
from dokimos.server._services.projects.project_settings import default_settings, read_settings
from dokimos.server._services.traces.new_spans import DigestCache, digest_record, find_problem
from dokimos.server._services.traces.open_traces import TraceIdentity
from dokimos.server._services.traces.placements import PlacedSpan, Placement
from dokimos.server._services.traces.span_logs import PlacedLog
from dokimos.server._services.traces.span_pages import MAX_BYTES, MAX_SPANS
from dokimos.server._services.traces.span_store import SpanStore, StoredSpans
from dokimos.server._services.traces.stored_spans import read_record
from dokimos.server._settings import ServerSettings
from dokimos.traces._log_records import SentLog, parse_sent_log
from dokimos.traces._span import LogRecord, Span

_KEYS_AT_ONCE: Final = 500


@dataclass(slots=True)
class TraceImport:
    """What an import has done so far."""

    spans: int = 0
    """Those that were read."""
    added: int = 0
    """Those that were not there, or not in this form."""
    logs: int = 0
    traces: int = 0
    """Those that were added to."""
    last_trace: str = ""
    """The one that was added to last, by the id of its row: the next part may continue with it."""


@dataclass(frozen=True, slots=True)
class _ReadTrace:
    """A line, with what it holds as it is stored."""

    line: TraceLine
    spans: list[PlacedSpan]
    logs: list[PlacedLog]


def import_traces(
    settings: ServerSettings, path: Path, *, progress: Progress = lambda table, rows: None
) -> TraceImport:
    """Add the traces of a file; return what was done.

    Rules are not held against them: a back-fill does that. On PostgreSQL servers may run meanwhile.

    Raises:
        ArchiveError: The file cannot be read; the message names the line, and what stands before it is there.
        ConfigurationError: The database cannot be used, has not the projects, or a server runs on SQLite.
    """
    with open_trace_file(path) as reader, hold_database(settings, "An import"):
        placements = _place(settings, reader.projects)
        done = TraceImport()
        try:
            asyncio.run(_import(settings, reader, placements, done, progress))
        except (DatabaseUnavailable, DatabaseError) as error:
            reason = getattr(error, "orig", None) or error
            raise ConfigurationError(
                f"{describe_traces(settings)} cannot be used: {reason}\n{done.added:,} spans of {path} were "
                f"added before line {reader.line}. Repeat the import: what is there already is skipped."
            ) from error
        _record(settings, path, done)
        return done


def _place(settings: ServerSettings, projects: Sequence[ExportedProject]) -> dict[str | None, Placement]:
    """Return by their ids in the file where the spans of projects belong.

    They belong to the project of the same id, which `db import` gives it, or of the same name.

    Raises:
        ConfigurationError: The database does not have one of them.
    """
    placements: dict[str | None, Placement] = {None: Placement(None, None, settings.traces.retention_days)}
    if not projects:
        return placements
    defaults = default_settings(settings)

    def read(connection: Connection) -> None:
        if read_version(connection) is None:
            raise _lacks(settings, projects[0])
        rows = connection.execute(select(PROJECTS).where(PROJECTS.c.deleted_at.is_(None))).all()
        by_id = {row.id: row for row in rows}
        by_name = {(row.tenant_id, row.name): row for row in rows}
        for project in projects:
            row = by_id.get(project.id) or by_name.get((project.tenant, project.name))
            if row is None:
                raise _lacks(settings, project)
            days = read_settings(row, defaults).trace_retention_days
            placements[project.id] = Placement(None, row.id, days)

    read_database(settings, read)
    return placements


def _lacks(settings: ServerSettings, project: ExportedProject) -> ConfigurationError:
    return ConfigurationError(
        f"{describe_database(settings)} has no project '{project.name}', which traces of the file are in. "
        "Nothing was imported. Create it, or move it first: 'dokimos db export --project NAME FILE' there, "
        "'dokimos db import FILE' here."
    )


async def _import(
    settings: ServerSettings,
    reader: TraceFileReader,
    placements: Mapping[str | None, Placement],
    done: TraceImport,
    progress: Progress,
) -> None:
    database = open_trace_database(settings)
    await database.open()
    try:
        store = SpanStore()
        progress("spans", 0)
        for part in _group(_parse(reader, placements)):
            await _store(database, store, part, done)
            progress("spans", done.spans)
    finally:
        await database.close()


def _parse(reader: TraceFileReader, placements: Mapping[str | None, Placement]) -> Iterator[_ReadTrace]:
    """Yield the traces of a file as they are stored."""
    cache = DigestCache()
    for line in reader:
        cache.begin_trace()
        try:
            yield _parse_trace(line, placements, cache)
        except (TraceError, ValueError, KeyError) as error:
            raise reader.fault(
                f"a span or log record of trace {line.trace_id} cannot be read ({error})"
            ) from None


def _parse_trace(
    line: TraceLine, placements: Mapping[str | None, Placement], cache: DigestCache
) -> _ReadTrace:
    if parse_id(line.id) is None or not 0 <= line.created_at <= line.updated_at:
        raise ValueError("its id or its times are none")
    tenant = line.tenant or None
    of_tenant: dict[str | None, Placement] = {}
    spans: list[PlacedSpan] = []
    for project, origin, body in line.spans:
        if project not in of_tenant:
            # A project that was deleted since is none.
            of_tenant[project] = replace(placements.get(project, placements[None]), tenant=tenant)
        record = read_record(body, origin)
        _check(record.span, line)
        spans.append(PlacedSpan(digest_record(record, cache), of_tenant[project]))
    logs: list[PlacedLog] = []
    for origin, body in line.logs:
        log = parse_sent_log(body, origin.encoding)
        _check(log, line)
        logs.append(PlacedLog(SentLog(log, body, origin, {}), tenant, placements[None].retention_days))
    return _ReadTrace(line, spans, logs)


def _check(span: Span | LogRecord, line: TraceLine) -> None:
    problem = find_problem(span)
    if problem is not None:
        raise ValueError(f"it has {problem}")
    if span.trace_id != line.trace_id:
        raise ValueError(f"it is one of the trace {span.trace_id!r:.80}")


def _group(traces: Iterable[_ReadTrace]) -> Iterator[list[_ReadTrace]]:
    """Yield the traces that are stored at once: of one day, and not many spans."""
    part: list[_ReadTrace] = []
    count = size = 0
    for trace in traces:
        line = trace.line
        added = len(trace.spans) + len(trace.logs)
        is_other_day = part and part[-1].line.created_at // DAY != line.created_at // DAY
        if part and (is_other_day or count + added > MAX_SPANS or size + line.size > MAX_BYTES):
            yield part
            part, count, size = [], 0, 0
        part.append(trace)
        count, size = count + added, size + line.size
    if part:
        yield part


async def _store(database: Database, store: SpanStore, part: Sequence[_ReadTrace], done: TraceImport) -> None:
    spans = [span for trace in part for span in trace.spans]
    logs = [log for trace in part for log in trace.logs]
    for stored in await database.write(partial(_store_part, store=store, part=part)):
        done.added += stored.new_count
        done.traces += len(stored.traces.keys() - {done.last_trace})
        done.last_trace = next(reversed(stored.traces), done.last_trace)
    done.spans += len(spans)
    done.logs += len(logs)


def _store_part(connection: Connection, store: SpanStore, part: Sequence[_ReadTrace]) -> list[StoredSpans]:
    """Store traces: those that are there as after their last change, new ones as when they were received.

    So new ones keep their place in lists and their day, and what a store of its own has of a transaction
    that was undone is told by its time from what its trace counts, as with exports.
    """
    lines = {trace.line.key: trace.line for trace in part}
    known = _read_known(connection, list(lines))
    stored = []
    for is_there in (True, False):
        own = [trace for trace in part if (trace.line.key in known) is is_there]
        if not own:
            continue
        moment = min(now(), max(trace.line.updated_at for trace in own))
        if is_there:
            moment = max(moment, 1 + max(known[trace.line.key] for trace in own))
        logs = [log for trace in own for log in trace.logs]
        if logs:
            store.store_logs(connection, logs, moment=moment)
        spans = [span for trace in own for span in trace.spans]
        if spans:
            identities = _keep_identities(connection, [trace.line for trace in own])
            # Logs of traces that are there may have been stored at the same moment.
            stored.append(store.store(connection, spans, moment=moment + bool(logs), identities=identities))
    return stored


def _read_known(connection: Connection, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """Return the traces that are there, each with its last change."""
    key = tuple_(TRACES.c.tenant_key, TRACES.c.trace_id)
    query = select(TRACES.c.tenant_key, TRACES.c.trace_id, TRACES.c.updated_at)
    return {
        (row.tenant_key, row.trace_id): row.updated_at
        for batch in in_batches(keys, _KEYS_AT_ONCE)
        for row in connection.execute(query.where(key.in_(batch), TRACES.c.deleted_at.is_(None)))
    }


def _keep_identities(
    connection: Connection, lines: Sequence[TraceLine]
) -> dict[tuple[str, str], TraceIdentity]:
    """Return what traces had in the source, those excepted whose id is taken, as by one that is deleted."""
    ids = sorted({line.id for line in lines})
    taken: set[str] = set()
    for batch in in_batches(ids, _KEYS_AT_ONCE):
        taken |= set(connection.execute(select(TRACES.c.id).where(TRACES.c.id.in_(batch))).scalars())
    moment = now()
    identities = {line.key: TraceIdentity(line.id, min(line.created_at, moment)) for line in lines}
    return {key: each for key, each in identities.items() if each.id not in taken}


def _record(settings: ServerSettings, path: Path, done: TraceImport) -> None:
    """Say in the audit log that there was an import, where there is one."""
    if settings.database_url is None and not settings.sqlite_path.is_file():
        return

    def record(connection: Connection) -> None:
        if read_version(connection) is not None:
            record_command(connection, "db.import", {"file": path.name, "traces": done.traces})

    write_database(settings, record)
