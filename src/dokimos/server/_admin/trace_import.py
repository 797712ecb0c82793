"""Add the traces of a file to a database, as if they had been received there: into any store.

The file is read twice, so that one that is damaged, or of projects that are not there, is refused before
anything is imported. Each part is a transaction of its own. What is there already, by the ids of its trace
and span, is skipped, so an import that was interrupted is simply repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, select, tuple_
from sqlalchemy.exc import DatabaseError

from dokimos.errors import ConfigurationError
from dokimos.server._admin.archive import Progress
from dokimos.server._admin.databases import hold_database, record_command, write_database
from dokimos.server._admin.imported_traces import (
    Placements,
    ReadTrace,
    count_all,
    parse_traces,
    place_projects,
)
from dokimos.server._admin.trace_database import describe_traces
from dokimos.server._admin.trace_file import TraceFileReader, TraceLine, open_trace_file
from dokimos.server._db.batches import in_batches
from dokimos.server._db.clock import DAY, now
from dokimos.server._db.database import Database, DatabaseUnavailable, open_trace_database
from dokimos.server._db.migrate import read_version
from dokimos.server._db.trace_tables import TRACES
from dokimos.server._services.traces.open_traces import TraceIdentity
from dokimos.server._services.traces.project_redaction import count_redactions
from dokimos.server._services.traces.span_pages import MAX_BYTES, MAX_SPANS
from dokimos.server._services.traces.span_store import SpanStore, StoredSpans
from dokimos.server._settings import ServerSettings

_KEYS_AT_ONCE: Final = 500


@dataclass(slots=True)
class TraceImport:
    """What an import has done so far."""

    spans: int = 0
    """Those that were read."""
    added: int = 0
    """Those that were not there, or not in this form."""
    logs: int = 0
    expired: int = 0
    """Spans of traces that the target would have removed already."""
    rejected: int = 0
    """Spans and log records that the redaction rules of the target take too long for."""
    traces: int = 0
    """Those that were added to."""
    last_trace: str = ""
    """The one that was added to last, by the id of its row: the next part may continue with it."""


def import_traces(
    settings: ServerSettings, path: Path, *, progress: Progress = lambda table, rows: None
) -> TraceImport:
    """Add the traces of a file; return what was done.

    Rules are not held against them: a back-fill does that. On PostgreSQL servers may run meanwhile.

    Raises:
        ArchiveError: The file cannot be read; the message names the line.
        ConfigurationError: The database cannot be used, has not the projects, or a server runs on SQLite.
    """
    with hold_database(settings, "An import"):
        with open_trace_file(path) as reader:
            used = _find_used(reader, progress)
        with open_trace_file(path) as reader:
            return _import_read(settings, path, reader, used, progress)


def _import_read(
    settings: ServerSettings, path: Path, reader: TraceFileReader, used: set[str], progress: Progress
) -> TraceImport:
    placements = place_projects(settings, reader.projects, used)
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


def _find_used(reader: TraceFileReader, progress: Progress) -> set[str]:
    """Return the ids of the projects that spans of a file are in; raises ArchiveError where it is damaged."""
    used: set[str] = set()
    for line in reader:
        used |= {project for project, _, _ in line.spans if project is not None}
        progress("lines to read", reader.line)
    return used


async def _import(
    settings: ServerSettings,
    reader: TraceFileReader,
    placements: Placements,
    done: TraceImport,
    progress: Progress,
) -> None:
    database = open_trace_database(settings)
    await database.open()
    try:
        store = SpanStore()
        progress("spans", 0)
        for part in _group(parse_traces(reader, placements)):
            await _store(database, store, part, done)
            progress("spans", done.spans)
    finally:
        await database.close()


def _group(traces: Iterable[ReadTrace]) -> Iterator[list[ReadTrace]]:
    """Yield the traces that are stored at once: of one day, and not many spans."""
    part: list[ReadTrace] = []
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


async def _store(database: Database, store: SpanStore, part: Sequence[ReadTrace], done: TraceImport) -> None:
    outcome = await database.write(partial(_store_part, store=store, part=part))
    for stored in outcome.stored:
        done.added += stored.new_count
        done.traces += len(stored.traces.keys() - {done.last_trace})
        done.last_trace = next(reversed(stored.traces), done.last_trace)
    done.expired += outcome.expired
    done.spans += sum(len(trace.spans) for trace in part)
    done.logs += sum(len(trace.logs) for trace in part)
    done.rejected += sum(trace.rejected for trace in part)


@dataclass(slots=True)
class _PartOutcome:
    """What one transaction did."""

    stored: list[StoredSpans] = field(default_factory=list)
    expired: int = 0
    """Spans of traces that are not stored because their time is over."""


def _store_part(connection: Connection, store: SpanStore, part: Sequence[ReadTrace]) -> _PartOutcome:
    """Store traces: those that are there as after their last change, new ones as when they were received.

    So new ones keep their place in lists and their day, and what a store of its own has of a transaction
    that was undone is told by its time from what its trace counts, as with exports.
    """
    moment = now()
    known = _read_known(connection, sorted({trace.line.key for trace in part}))
    outcome = _PartOutcome()
    own: dict[tuple[int, bool], tuple[int, list[ReadTrace]]] = {}
    for trace in part:
        changed_at = known.get(trace.line.key)
        if changed_at is None and trace.is_expired(moment):
            outcome.expired += len(trace.spans)
            continue
        came_at = min(moment, trace.line.updated_at)
        if changed_at is not None:
            came_at = max(came_at, changed_at + 1)
        # Those of a day are stored as at its last moment: their retention is counted from then.
        key = (came_at // DAY, changed_at is not None)
        latest, traces = own.get(key, (came_at, []))
        own[key] = (max(latest, came_at), [*traces, trace])
    for _, (came_at, traces) in sorted(own.items()):
        outcome.stored += _store_at(connection, store, traces, came_at)
    counts = count_all(part)
    if counts:
        count_redactions(connection, counts)
    return outcome


def _store_at(
    connection: Connection, store: SpanStore, traces: Sequence[ReadTrace], moment: int
) -> list[StoredSpans]:
    logs = [log for trace in traces for log in trace.logs]
    if logs:
        store.store_logs(connection, logs, moment=moment)
    spans = [span for trace in traces for span in trace.spans]
    if not spans:
        return []
    identities = _keep_identities(connection, [trace.line for trace in traces])
    # Logs of traces that are there may have been stored at the same moment.
    return [store.store(connection, spans, moment=moment + bool(logs), identities=identities)]


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
    identities: dict[tuple[str, str], TraceIdentity] = {}
    for line in lines:
        if line.id not in taken and line.key not in identities:
            identities[line.key] = TraceIdentity(line.id, min(line.created_at, moment))
            taken.add(line.id)
    return identities


def _record(settings: ServerSettings, path: Path, done: TraceImport) -> None:
    """Say in the audit log that there was an import, where there is one."""
    if settings.database_url is None and not settings.sqlite_path.is_file():
        return

    def record(connection: Connection) -> None:
        if read_version(connection) is not None:
            record_command(connection, "db.import", {"file": path.name, "traces": done.traces})

    write_database(settings, record)
