"""The traces of a file as they are stored: placed in the projects of the target, under its rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import TypeVar

from sqlalchemy import Connection, select

from dokimos.errors import ConfigurationError, TraceError
from dokimos.server._admin.databases import describe_database, read_database
from dokimos.server._admin.trace_file import ExportedProject, TraceFileReader, TraceLine
from dokimos.server._db.ids import parse_id
from dokimos.server._db.migrate import read_version
from dokimos.server._db.tables import PROJECTS
from dokimos.server._services.projects.project_settings import FOREVER, default_settings, read_settings
from dokimos.server._services.traces.new_spans import DigestCache, digest_record, find_problem
from dokimos.server._services.traces.placements import PlacedSpan, Placement
from dokimos.server._services.traces.project_redaction import Redactions, rules_of
from dokimos.server._services.traces.span_logs import PlacedLog
from dokimos.server._services.traces.stored_spans import read_record
from dokimos.server._services.traces.trace_rows import end_of_retention
from dokimos.server._settings import ServerSettings
from dokimos.traces._log_records import SentLog, parse_sent_log
from dokimos.traces._span import LogRecord, Span

T = TypeVar("T")
Placements = Mapping[str | None, Placement]
"""Where spans belong, by the ids of their projects in the file; at None those of no project."""


@dataclass(frozen=True, slots=True)
class ReadTrace:
    """A line, with what it holds as it is stored."""

    line: TraceLine
    spans: list[PlacedSpan]
    logs: list[PlacedLog]
    placement: Placement
    """How long the trace stays, as far as it was read."""
    redactions: Redactions
    rejected: int
    """Spans and log records that redaction rules take too long for."""

    def is_expired(self, moment: int) -> bool:
        """Whether a server would have removed the trace, had it been here all the time."""
        days = self.placement.retention_days
        end = None if days == FOREVER else end_of_retention(self.line.updated_at, days)
        return end is not None and end <= moment


def place_projects(
    settings: ServerSettings, projects: Sequence[ExportedProject], used: set[str]
) -> dict[str | None, Placement]:
    """Return by their ids in the file where the spans of projects belong.

    They belong to the project of the same id, which `db import` gives it, or of the same name.

    Args:
        settings: Name the database.
        projects: Those that the file names.
        used: The ids of those that spans of it are in.

    Raises:
        ConfigurationError: The database does not have one of them.
    """
    rules = settings.traces.redaction_rules
    outside = Placement(None, None, settings.traces.retention_days, redaction=rules)
    placements: dict[str | None, Placement] = {None: outside}
    needed = [project for project in projects if project.id in used]
    if not needed:
        return placements
    defaults = default_settings(settings)

    def read(connection: Connection) -> None:
        if read_version(connection) is None:
            raise _lacks(settings, needed[0])
        rows = connection.execute(select(PROJECTS).where(PROJECTS.c.deleted_at.is_(None))).all()
        by_id = {(row.tenant_id, row.id): row for row in rows}
        by_name = {(row.tenant_id, row.name): row for row in rows}
        for project in needed:
            row = by_id.get((project.tenant, project.id)) or by_name.get((project.tenant, project.name))
            if row is None:
                raise _lacks(settings, project)
            days = read_settings(row, defaults).trace_retention_days
            # As when spans come in: the rules of the server first.
            own = (*rules, *rules_of(row))
            placements[project.id] = Placement(row.tenant_id, row.id, days, redaction=own)

    read_database(settings, read)
    return placements


def _lacks(settings: ServerSettings, project: ExportedProject) -> ConfigurationError:
    return ConfigurationError(
        f"{describe_database(settings)} has no project '{project.name}'{_of(project.tenant)}, which traces "
        "of the file are in. Nothing was imported. Create it, or move it first: 'dokimos db export --project "
        "NAME FILE' there, 'dokimos db import FILE' here."
    )


def _of(tenant: str | None) -> str:
    return "" if tenant is None else f" of the tenant '{tenant}'"


def parse_traces(reader: TraceFileReader, placements: Placements) -> Iterator[ReadTrace]:
    """Yield the traces of a file as they are stored.

    Raises:
        ArchiveError: A line cannot be read; the message names it.
    """
    cache = DigestCache()
    last: ReadTrace | None = None
    for line in reader:
        is_continued = last is not None and last.line.key == line.key
        cache.begin_trace()  # for each line: what it remembers of a large trace would grow
        try:
            last = _parse_trace(line, placements, cache, last.placement if last and is_continued else None)
        except (TraceError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise reader.fault(
                f"a span or log record of trace {line.trace_id} cannot be read ({error})"
            ) from None
        yield last


def _parse_trace(
    line: TraceLine, placements: Placements, cache: DigestCache, before: Placement | None
) -> ReadTrace:
    if parse_id(line.id) != line.id or not 0 <= line.created_at <= line.updated_at:
        raise ValueError("its id or its times are none")
    redactions = Redactions()
    of_projects = {project: _find_placement(line, project, placements) for project, _, _ in line.spans}
    spans: list[PlacedSpan] = []
    for project, group in groupby(line.spans, key=itemgetter(0)):
        placement = of_projects[project]
        records = [read_record(body, origin) for _, origin, body in group]
        for record in records:
            _check(record.span, line)
        spans += (
            PlacedSpan(digest_record(redacted, cache), placement)
            for redacted in redactions.redact_spans(records, placement)
            if not isinstance(redacted, str)
        )
    # Of log records the file does not say the project: what holds for the spans of their trace does.
    known = [*([] if before is None else [before]), *of_projects.values()]
    whole = _join(known or [_find_placement(line, None, placements)])
    logs: list[PlacedLog] = []
    for origin, body in line.logs:
        log = parse_sent_log(body, origin.encoding)
        _check(log, line)
        sent = redactions.redact_log(SentLog(log, body, origin, {}), whole)
        if not isinstance(sent, str):
            logs.append(PlacedLog(sent, whole.tenant, whole.retention_days))
    rejected = len(line.spans) + len(line.logs) - len(spans) - len(logs)
    return ReadTrace(line, spans, logs, whole, redactions, rejected)


def _find_placement(line: TraceLine, project: str | None, placements: Placements) -> Placement:
    # A project that was deleted since is none, and one that was not exported.
    found = placements.get(project, placements[None])
    tenant = line.tenant or None
    if found.tenant not in (None, tenant):
        raise ValueError("it is in a project of another tenant")
    return replace(found, tenant=tenant)


def _join(placements: Sequence[Placement]) -> Placement:
    """Return what holds for a trace whose spans are in several projects: the longest time, and all rules."""
    days = [each.retention_days for each in placements]
    rules = _without_repeats(rule for each in placements for rule in each.redaction)
    longest = FOREVER if FOREVER in days else max(days)
    return replace(placements[0], retention_days=longest, redaction=tuple(rules))


def _without_repeats(values: Iterable[T]) -> list[T]:
    return list(dict.fromkeys(values))


def _check(span: Span | LogRecord, line: TraceLine) -> None:
    problem = find_problem(span)
    if problem is not None:
        raise ValueError(f"it has {problem}")
    if span.trace_id != line.trace_id:
        raise ValueError(f"it is one of the trace {span.trace_id!r:.80}")


def count_all(traces: Iterable[ReadTrace]) -> Counter[tuple[str, str]]:
    """Return how often the rules of the target have replaced something in traces."""
    counts: Counter[tuple[str, str]] = Counter()
    for trace in traces:
        counts += trace.redactions.counts
    return counts
