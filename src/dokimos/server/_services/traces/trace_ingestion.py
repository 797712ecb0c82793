"""Exports of traces on their way from a request to the disk."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from dokimos.errors import TraceError
from dokimos.server._db.database import Database
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.errors import InvalidRequestError, RoleError, UnavailableError
from dokimos.server._services.metrics import Metrics
from dokimos.server._services.traces.ingestion_counts import IngestionCounts
from dokimos.server._services.traces.new_spans import (
    NewSpan,
    digest_record,
    find_problem,
    project_name_in,
    project_name_of,
    sort_by_trace,
)
from dokimos.server._services.traces.project_redaction import Redactions, count_redactions
from dokimos.server._services.traces.span_logs import PlacedLog
from dokimos.server._services.traces.span_store import PlacedSpan, Placement, SpanStore
from dokimos.server._services.traces.trace_projects import TraceProjects
from dokimos.server._trace_settings import TraceSettings
from dokimos.traces._log_records import LogBatch, read_log_records
from dokimos.traces._otlp import Encoding
from dokimos.traces._otlp_records import RecordBatch, read_records
from dokimos.traces._span_messages import MessageCache

T = TypeVar("T")
_SPANS_AT_ONCE: Final = 1000
"""Spans of one transaction, which others wait for."""
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


class IngestionQueue:
    """Counts the bytes of exports that are not on disk yet, and refuses more than there may be."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = 0
        self.refused_count = 0
        """Exports that were refused because too much was waiting."""

    @property
    def waiting_bytes(self) -> int:
        """Bytes of exports that are received, parsed or stored at the moment."""
        return self._bytes

    @contextmanager
    def hold(self) -> Iterator[Callable[[int], None]]:
        """Yield a function that counts more bytes of an export, which are given back in the end.

        It raises `UnavailableError` where there are too many.
        """
        held = 0

        def add(size: int) -> None:
            nonlocal held
            if self._bytes and self._bytes + size > self._limit:
                self.refused_count += 1
                raise UnavailableError(
                    "The server stores as many traces as it can at the moment; send this export again.",
                    retry_seconds=2,
                )
            held += size
            self._bytes += size

        try:
            yield add
        finally:
            self._bytes -= held


class TraceIngestion:
    """Takes exports in; when it returns, their spans are on disk."""

    def __init__(
        self,
        traces: Database,
        projects: TraceProjects,
        settings: TraceSettings,
        metrics: Metrics | None = None,
    ) -> None:
        self.queue = IngestionQueue(settings.max_waiting_bytes)
        self.projects = projects
        self.store = SpanStore()
        self._counts = IngestionCounts(Metrics() if metrics is None else metrics)
        self._traces = traces
        self._parser = ThreadPoolExecutor(1, thread_name_prefix="dokimos-traces")

    async def ingest(self, principal: Principal, data: bytes, encoding: Encoding) -> Ingested:
        """Store the spans of an export.

        Raises:
            InvalidRequestError: It is not an export.
            RoleError: The caller may store none of its spans.
        """
        batch = await self._parse(data, lambda: read_records(data, encoding))
        reasons = Counter(batch.reasons)
        names = {project_name_of(record.span) for record in batch.records}
        placements = await self.projects.place(principal, names) if names else {}
        spans: list[PlacedSpan] = []
        redactions = Redactions()
        for span, name in await self._parse(data, lambda: _digest(batch, reasons, placements, redactions)):
            placement = placements[name]
            if isinstance(placement, str):
                reasons[placement] += 1
            else:
                spans.append(PlacedSpan(span, placement))
        refusals = [each for each in placements.values() if isinstance(each, str)]
        if refusals and not spans:
            raise RoleError(refusals[0])
        await self._store(spans, redactions)
        self._counts.add("span", len(spans), reasons, redactions.counts)
        traces = len({(each.placement.tenant, each.span.trace_id) for each in spans})
        return Ingested(len(spans), reasons.total(), traces, dict(reasons))

    async def ingest_logs(self, principal: Principal, data: bytes, encoding: Encoding) -> Ingested:
        """Store the log records of an export that name a span.

        Raises:
            InvalidRequestError: It is not an export.
            RoleError: The caller may store none of its records.
        """
        batch = await self._parse(data, lambda: read_log_records(data, encoding))
        reasons = Counter(batch.reasons)
        names = {project_name_in(log.resource) for log in batch.logs}
        placements = await self.projects.place(principal, names) if names else {}
        redactions = Redactions()
        logs = await self._parse(data, lambda: _place_logs(batch, reasons, placements, redactions))
        refusals = [each for each in placements.values() if isinstance(each, str)]
        if refusals and not logs:
            raise RoleError(refusals[0])
        await self._count(redactions)
        for start in range(0, len(logs), _SPANS_AT_ONCE):
            part = tuple(logs[start : start + _SPANS_AT_ONCE])
            await self._traces.write(partial(self.store.store_logs, logs=part))
        self._counts.add("log", len(logs), reasons, redactions.counts)
        traces = len({each.key[:2] for each in logs})
        return Ingested(len(logs), reasons.total(), traces, dict(reasons))

    def close(self) -> None:
        """End the thread that parses."""
        self._parser.shutdown()

    async def _store(self, spans: list[PlacedSpan], redactions: Redactions) -> None:
        await self._count(redactions)
        for start in range(0, len(spans), _SPANS_AT_ONCE):
            part = tuple(spans[start : start + _SPANS_AT_ONCE])
            stored = await self._traces.write(partial(self.store.store, spans=part))
            self.store.remember(stored)

    async def _count(self, redactions: Redactions) -> None:
        if redactions.counts:
            await self._traces.write(partial(count_redactions, counts=redactions.counts), background=True)

    async def _parse(self, data: bytes, parse: Callable[[], T]) -> T:
        try:
            if len(data) <= _SMALL:
                return parse()
            return await asyncio.get_running_loop().run_in_executor(self._parser, parse)
        except TraceError as error:
            raise InvalidRequestError(f"Malformed request body: {error}") from None


_Placements = Mapping[str | None, Placement | str]


def _digest(
    batch: RecordBatch, reasons: Counter[str], placements: _Placements, redactions: Redactions
) -> list[tuple[NewSpan, str | None]]:
    """Return the spans that can be stored, each with the name of its project; count the reasons of others."""
    spans: list[tuple[NewSpan, str | None]] = []
    for records in sort_by_trace(batch.records).values():
        cache = MessageCache()
        for record in records:
            name = project_name_of(record.span)
            problem = find_problem(record.span)
            redacted = redactions.redact_span(record, placements[name]) if problem is None else problem
            if isinstance(redacted, str):
                reasons[redacted] += 1
            else:
                spans.append((digest_record(redacted, cache), name))
    return spans


def _place_logs(
    batch: LogBatch, reasons: Counter[str], placements: _Placements, redactions: Redactions
) -> list[PlacedLog]:
    """Return the log records that can be stored; count the reasons of others."""
    logs: list[PlacedLog] = []
    for log in batch.logs:
        placement = placements[project_name_in(log.resource)]
        problem = placement if isinstance(placement, str) else find_problem(log.record)
        redacted = redactions.redact_log(log, placement) if problem is None else problem
        if isinstance(placement, str) or isinstance(redacted, str):
            reasons[str(redacted)] += 1
        else:
            logs.append(PlacedLog(redacted, placement.tenant, placement.retention_days, placement.has_rules))
    return logs


def first_reason(reasons: Mapping[str, int], what: str = "Spans") -> str:
    """Return why spans or log records were rejected, in a sentence; empty where none were."""
    parts: Iterable[str] = (f"{count} with {reason}" for reason, count in reasons.items())
    return f"{what} were rejected: {', '.join(parts)}." if reasons else ""
