"""Exports of traces on their way from a request to the disk."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar

from sqlalchemy.exc import DBAPIError

from dokimos.errors import TraceError
from dokimos.server._db.database import Database
from dokimos.server._db.refused_values import refuses_values
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.errors import InvalidRequestError, RoleError
from dokimos.server._services.metrics import Metrics
from dokimos.server._services.traces.ingestion_counts import IngestionCounts
from dokimos.server._services.traces.ingestion_queue import IngestionQueue
from dokimos.server._services.traces.new_spans import (
    DigestCache,
    digest_record,
    find_problem,
    project_name_in,
)
from dokimos.server._services.traces.placements import PlacedSpan, Placement, make_placed
from dokimos.server._services.traces.project_redaction import Redactions, count_redactions
from dokimos.server._services.traces.redaction import Redactor, make_redactor
from dokimos.server._services.traces.request_pace import NO_PAUSES, RequestPace
from dokimos.server._services.traces.span_logs import PlacedLog
from dokimos.server._services.traces.span_store import SpanStore
from dokimos.server._services.traces.span_writer import SPANS_AT_ONCE, SpanWriter
from dokimos.server._services.traces.trace_projects import TraceProjects
from dokimos.server._trace_settings import TraceSettings
from dokimos.traces._log_records import LogBatch, read_log_records
from dokimos.traces._otlp import Encoding
from dokimos.traces._otlp_records import SpanRecord, iterate_records

T = TypeVar("T")
_ReadSpan: TypeAlias = tuple[SpanRecord, str | None]
"""A span, and the name of the project that it names."""
_Placements: TypeAlias = Mapping[str | None, Placement | str]
"""By the names of projects: where their spans belong, or why they are refused."""
_LOGGER: Final = logging.getLogger("dokimos.server")
_SMALL: Final = 16_384
"""Bytes of an export that is parsed where it arrives: another thread would take longer to begin."""


@dataclass(frozen=True, slots=True)
class Ingested:
    """What became of an export."""

    accepted: int
    """Spans of this export that are on disk, repeated ones too."""
    rejected: int
    traces: int
    """The traces that they belong to."""
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Why spans were rejected, each with the number of spans."""


@dataclass(slots=True)
class _Outcome:
    """What has become of the spans of an export so far."""

    accepted: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    traces: set[tuple[str | None, str]] = field(default_factory=set)
    redactions: Redactions = field(default_factory=Redactions)
    refusal: str | None = None
    """Why the caller may not store some of them."""

    def note_refusals(self, placements: _Placements) -> None:
        """Note why the caller may not store into some of the projects."""
        self.refusal = next((each for each in placements.values() if isinstance(each, str)), self.refusal)


class _Thread:
    """A thread that works on exports, one after the other, and gives way to requests."""

    def __init__(self, name: str, pace: RequestPace) -> None:
        self.executor = ThreadPoolExecutor(1, thread_name_prefix=name)
        self.pace = pace


class TraceIngestion:
    """Takes exports in; when it returns, their spans are on disk."""

    def __init__(
        self,
        traces: Database,
        projects: TraceProjects,
        settings: TraceSettings,
        metrics: Metrics | None = None,
        *,
        serves_requests: Callable[[], bool] = lambda: False,
    ) -> None:
        self.queue = IngestionQueue(settings.max_waiting_bytes)
        self.projects = projects
        # PostgreSQL's transactions run in the thread of the event loop.
        self.store = SpanStore(RequestPace(serves_requests) if traces.dialect == "sqlite" else NO_PAUSES)
        self.match_soon: Callable[[], None] = _do_nothing
        """Tells this server's worker that rules are to be held against new spans."""
        self._counts = IngestionCounts(Metrics() if metrics is None else metrics)
        self._traces = traces
        self._writer = SpanWriter(traces, self.store)
        self._parsing = _Thread("dokimos-traces", RequestPace(serves_requests))
        # Patterns may take seconds: those who have none do not wait for them.
        self._redaction = _Thread("dokimos-redaction", RequestPace(serves_requests))
        # And those whose patterns do not, for those whose patterns did lately.
        self._slow_redaction = _Thread("dokimos-slow-redaction", RequestPace(serves_requests))

    async def ingest(self, principal: Principal, data: bytes, encoding: Encoding) -> Ingested:
        """Store the spans of an export.

        Raises:
            InvalidRequestError: It is not an export.
            RoleError: The caller may store none of its spans.
        """
        outcome = _Outcome()
        async with self.queue.take_turn(len(data)):
            pace = self._parsing.pace if len(data) > _SMALL else NO_PAUSES
            records = pace.keep(iterate_records(data, encoding))
            find_known = partial(self.projects.find_known, principal)
            is_last = False
            # Some at a time: parsed, the spans of a large export take many times its bytes.
            while not is_last:
                with self._writer.expect():
                    part = await self._parse(data, partial(_read_part, records, outcome, find_known, pace))
                    spans, is_last = part.spans, part.is_last
                    if spans is None:
                        placements = await self.projects.place(principal, _names_in(part.read))
                        thread = self._find_thread(placements)
                        own_pace = pace if thread is None else thread.pace
                        digest = partial(_digest, part.read, placements, outcome, own_pace)
                        spans = await self._parse(data, digest, thread)
                await self._store(spans, outcome)
        await self._count("span", outcome)
        if outcome.refusal is not None and not outcome.accepted:
            raise RoleError(outcome.refusal)
        return Ingested(outcome.accepted, outcome.reasons.total(), len(outcome.traces), dict(outcome.reasons))

    def close(self) -> None:
        """End the threads that parse and redact."""
        for thread in (self._parsing, self._redaction, self._slow_redaction):
            thread.executor.shutdown()

    async def ingest_logs(self, principal: Principal, data: bytes, encoding: Encoding) -> Ingested:
        """Store the log records of an export that name a span.

        Raises:
            InvalidRequestError: It is not an export.
            RoleError: The caller may store none of its records.
        """
        outcome = _Outcome()
        async with self.queue.take_turn(len(data)):
            batch = await self._parse(data, lambda: read_log_records(data, encoding))
            outcome.reasons.update(batch.reasons)
            names = {project_name_in(log.resource) for log in batch.logs}
            placements = await self.projects.place(principal, names) if names else {}
            outcome.note_refusals(placements)
            place = partial(_place_logs, batch, placements, outcome)
            logs = await self._parse(data, place, self._find_thread(placements))
            for start in range(0, len(logs), SPANS_AT_ONCE):
                part = tuple(logs[start : start + SPANS_AT_ONCE])
                await self._traces.write(partial(self.store.store_logs, logs=part))
        outcome.accepted = len(logs)
        await self._count("log", outcome)
        if outcome.refusal is not None and not logs:
            raise RoleError(outcome.refusal)
        traces = len({each.key[:2] for each in logs})
        return Ingested(len(logs), outcome.reasons.total(), traces, dict(outcome.reasons))

    async def _count(self, kind: Literal["span", "log"], outcome: _Outcome) -> None:
        redactions = outcome.redactions.counts
        self._counts.add(kind, outcome.accepted, outcome.reasons, redactions)
        if redactions:
            await self._traces.write(partial(count_redactions, counts=redactions), background=True)

    async def _store(self, spans: list[PlacedSpan], outcome: _Outcome) -> None:
        """Store spans in one transaction; those that the database does not take are found and rejected."""
        if not spans:
            return
        try:
            await self._writer.store(spans)
        except (DBAPIError, ValueError, OverflowError, TypeError) as error:
            if not refuses_values(error):
                raise
            if len(spans) > 1:
                middle = len(spans) // 2
                await self._store(spans[:middle], outcome)
                await self._store(spans[middle:], outcome)
                return
            _LOGGER.error("A span of trace %s cannot be stored.", spans[0].span.trace_id, exc_info=error)
            outcome.reasons["a value that the database does not take"] += 1
            return
        outcome.accepted += len(spans)
        has_rules = False
        trace_id, last = "", None
        for span, placement in spans:
            if span.trace_id != trace_id or placement is not last:  # those of a trace follow each other
                trace_id, last = span.trace_id, placement
                outcome.traces.add((placement.tenant, trace_id))
                has_rules = has_rules or placement.has_rules
        if has_rules:
            self.match_soon()

    async def _parse(self, data: bytes, parse: Callable[[], T], thread: _Thread | None = None) -> T:
        try:
            if len(data) <= _SMALL and thread is None:
                return parse()
            executor = (thread or self._parsing).executor
            return await asyncio.get_running_loop().run_in_executor(executor, parse)
        except TraceError as error:
            raise InvalidRequestError(f"Malformed request body: {error}") from None

    def _find_thread(self, placements: _Placements) -> _Thread | None:
        """Return the thread that applies the patterns of projects; None where they have none."""
        redactors = _find_redactors(placements)
        if not redactors:
            return None
        return self._slow_redaction if any(each.is_slow for each in redactors) else self._redaction


def _do_nothing() -> None:
    pass


class _Part(NamedTuple):
    """Some spans of an export that can be stored."""

    read: list[_ReadSpan]
    spans: list[PlacedSpan] | None
    """They as they are stored; None where their projects have to be looked up first, or patterns applied."""
    is_last: bool


def _read_part(
    records: Iterator[SpanRecord | str],
    outcome: _Outcome,
    find_known: Callable[[Iterable[str | None]], _Placements | None],
    pace: RequestPace,
) -> _Part:
    """Return the next spans of an export, as they are stored if that is known; count why others are not."""
    batch = list(islice(records, SPANS_AT_ONCE))
    read = _check_records(batch, outcome.reasons)
    placements = find_known(_names_in(read))
    spans = None
    if placements is not None and not _find_redactors(placements):
        spans = _digest(read, placements, outcome, pace)
    return _Part(read if spans is None else [], spans, len(batch) < SPANS_AT_ONCE)


def _find_redactors(placements: _Placements) -> list[Redactor]:
    """Return what applies the patterns of projects."""
    redactors = (make_redactor(each.redaction) for each in placements.values() if not isinstance(each, str))
    return [each for each in redactors if each is not None and each.has_patterns]


def _names_in(spans: Iterable[_ReadSpan]) -> set[str | None]:
    return {project for _, project in spans}


def _check_records(records: Iterable[SpanRecord | str], reasons: Counter[str]) -> list[_ReadSpan]:
    """Return the spans that can be stored; count why others cannot."""
    spans: list[_ReadSpan] = []
    project, resource = None, None
    for each in records:
        if isinstance(each, str):
            reasons[each] += 1
            continue
        span = each.span
        problem = find_problem(span)
        if problem is not None:
            reasons[problem] += 1
            continue
        if span.resource is not resource:
            resource = span.resource
            project = project_name_in(resource)
        spans.append((each, project))
    return spans


def _digest(
    part: list[_ReadSpan], placements: _Placements, outcome: _Outcome, pace: RequestPace
) -> list[PlacedSpan]:
    """Return spans as they are stored, without what redaction rules name; count why others are not."""
    outcome.note_refusals(placements)
    spans: list[PlacedSpan] = []
    cache = DigestCache()
    for group in _group_by_trace(part):
        cache.begin_trace()
        for project, of_project in groupby(group, key=itemgetter(1)):
            placement = placements[project]
            records = [record for record, _ in of_project]
            if isinstance(placement, str):
                outcome.reasons[placement] += len(records)
                continue
            redacted = outcome.redactions.redact_spans(records, placement) if placement.redaction else records
            for each in pace.keep(redacted):
                if isinstance(each, str):
                    outcome.reasons[each] += 1
                else:
                    spans.append(make_placed((digest_record(each, cache), placement)))
    return spans


def _group_by_trace(part: list[_ReadSpan]) -> Iterable[list[_ReadSpan]]:
    traces: dict[str, list[_ReadSpan]] = {}
    for each in part:
        traces.setdefault(each[0].span.trace_id, []).append(each)
    return traces.values()


def _place_logs(batch: LogBatch, placements: _Placements, outcome: _Outcome) -> list[PlacedLog]:
    """Return the log records that can be stored; count why others are not."""
    logs: list[PlacedLog] = []
    for log in batch.logs:
        placement = placements[project_name_in(log.resource)]
        problem = placement if isinstance(placement, str) else find_problem(log.record)
        redacted = outcome.redactions.redact_log(log, placement) if problem is None else problem
        if isinstance(placement, str) or isinstance(redacted, str):
            outcome.reasons[str(redacted)] += 1
        else:
            logs.append(PlacedLog(redacted, placement.tenant, placement.retention_days, placement.has_rules))
    return logs


def first_reason(reasons: Mapping[str, int], what: str = "Spans") -> str:
    """Return why spans or log records were rejected, in a sentence; empty where none were."""
    parts: Iterable[str] = (f"{count} with {reason}" for reason, count in reasons.items())
    return f"{what} were rejected: {', '.join(parts)}." if reasons else ""
