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
from dokimos.server._services.traces.new_spans import (
    NewSpan,
    digest_record,
    find_problem,
    project_name_of,
    sort_by_trace,
)
from dokimos.server._services.traces.span_store import PlacedSpan, SpanStore
from dokimos.server._services.traces.trace_projects import TraceProjects
from dokimos.server._trace_settings import TraceSettings
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

    def __init__(self, traces: Database, projects: TraceProjects, settings: TraceSettings) -> None:
        self.queue = IngestionQueue(settings.max_waiting_bytes)
        self.projects = projects
        self.store = SpanStore()
        self.match_soon: Callable[[], None] = _do_nothing
        """Tells this server's worker that rules are to be held against new spans."""
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
        for span, name in await self._parse(data, lambda: _digest(batch, reasons)):
            placement = placements[name]
            if isinstance(placement, str):
                reasons[placement] += 1
            else:
                spans.append(PlacedSpan(span, placement))
        refusals = [each for each in placements.values() if isinstance(each, str)]
        if refusals and not spans:
            raise RoleError(refusals[0])
        await self._store(spans)
        traces = len({(each.placement.tenant, each.span.trace_id) for each in spans})
        return Ingested(len(spans), reasons.total(), traces, dict(reasons))

    def close(self) -> None:
        """End the thread that parses."""
        self._parser.shutdown()

    async def _store(self, spans: list[PlacedSpan]) -> None:
        for start in range(0, len(spans), _SPANS_AT_ONCE):
            part = tuple(spans[start : start + _SPANS_AT_ONCE])
            stored = await self._traces.write(partial(self.store.store, spans=part))
            self.store.remember(stored)
        if any(placement.has_rules for _, placement in spans):
            self.match_soon()

    async def _parse(self, data: bytes, parse: Callable[[], T]) -> T:
        try:
            if len(data) <= _SMALL:
                return parse()
            return await asyncio.get_running_loop().run_in_executor(self._parser, parse)
        except TraceError as error:
            raise InvalidRequestError(f"Malformed request body: {error}") from None


def _do_nothing() -> None:
    pass


def _digest(batch: RecordBatch, reasons: Counter[str]) -> list[tuple[NewSpan, str | None]]:
    """Return the spans that can be stored, each with the name of its project; count the reasons of others."""
    spans: list[tuple[NewSpan, str | None]] = []
    for records in sort_by_trace(batch.records).values():
        cache = MessageCache()
        for record in records:
            problem = find_problem(record.span)
            if problem is None:
                spans.append((digest_record(record, cache), project_name_of(record.span)))
            else:
                reasons[problem] += 1
    return spans


def first_reason(reasons: Mapping[str, int]) -> str:
    """Return why spans were rejected, in a sentence; empty where none were."""
    parts: Iterable[str] = (f"{count} with {reason}" for reason, count in reasons.items())
    return f"Spans were rejected: {', '.join(parts)}." if reasons else ""
