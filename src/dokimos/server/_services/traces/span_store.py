"""Spans stored in one transaction: each once, whatever comes late, repeated or out of order."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from sqlalchemy import Connection, Row, delete, select, tuple_

from dokimos.server._db.batches import in_batches
from dokimos.server._db.clock import DAY, now
from dokimos.server._db.span_storage import find_storage
from dokimos.server._db.trace_tables import SPANS
from dokimos.server._services.traces.new_spans import (
    Completeness,
    DigestCache,
    digest_record,
    measure_completeness,
)
from dokimos.server._services.traces.open_traces import (
    OpenTrace,
    TraceIdentity,
    find_traces,
    read_traces,
)
from dokimos.server._services.traces.placements import PlacedSpan, Placement
from dokimos.server._services.traces.request_pace import NO_PAUSES, RequestPace
from dokimos.server._services.traces.row_ranges import forget_ranges
from dokimos.server._services.traces.span_logs import (
    PlacedLog,
    SpanKey,
    StoredLog,
    add_logs,
    digest_with_logs,
    insert_logs,
    keep_with_trace,
    load_logs,
    lock_logs,
)
from dokimos.server._services.traces.span_origins import origin_id
from dokimos.server._services.traces.span_queries import choose_spans, run_on_spans, run_with_sources
from dokimos.server._services.traces.span_rows import insert_spans
from dokimos.server._services.traces.stored_apart import find_uncounted
from dokimos.server._services.traces.stored_spans import read_record
from dokimos.server._services.traces.trace_partitions import hold_day, prepare_day
from dokimos.server._services.traces.trace_rows import end_of_retention, store_traces
from dokimos.server._services.traces.trace_sources import load_origin, store_origins
from dokimos.server._services.traces.trace_statements import SOURCE_COLUMNS, WHOLE_SPANS
from dokimos.server._services.traces.trace_summary import TraceSummary
from dokimos.traces._otlp_records import RecordOrigin

_PRESENT: Final = select(
    SPANS.c.trace, SPANS.c.span_id, SPANS.c.end_ns, SPANS.c.body, SPANS.c.source, SPANS.c.received_at
)
_SHARDS: Final = 16
_FOREVER: Final = -1


@dataclass(slots=True)
class StoredSpans:
    """What a batch has changed."""

    traces: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)
    """The traces concerned, by the ids of their rows, each with its tenant and its project."""
    new_count: int = 0
    """Spans that were not there before, or not in this form."""
    origins: set[int] = field(default_factory=set)
    day: int = 0
    """On which they came."""
    has_tables_of_day: bool = False
    """Whether its tables are there: not where all spans are of traces of earlier days, or repeated."""


class SpanStore:
    """Stores spans; one instance for each server, which remembers what it need not ask the database for."""

    def __init__(self, pace: RequestPace = NO_PAUSES) -> None:
        self._pace = pace
        self._shard = secrets.randbelow(_SHARDS)  # in containers, all servers have the same process id
        self._days: set[int] = set()
        self._origins: dict[int, int] = {}

    def store(
        self,
        connection: Connection,
        spans: Sequence[PlacedSpan],
        *,
        moment: int | None = None,
        identities: Mapping[tuple[str, str], TraceIdentity] | None = None,
    ) -> StoredSpans:
        """Store spans in the transaction of the connection.

        Of two copies of a span that differ, the more complete one stays.

        Args:
            connection: Of the traces.
            spans: The spans.
            moment: At which they came, None for now.
            identities: Of traces that were stored elsewhere before, by their tenants and ids.
        """
        return self._begin(connection, moment).store(spans, identities or {})

    def store_logs(
        self, connection: Connection, logs: Sequence[PlacedLog], *, moment: int | None = None
    ) -> StoredSpans:
        """Store log records in the transaction of the connection, each once.

        What the spans that they name say with them is stored anew; those that come later find them.
        """
        return self._begin(connection, moment).store_logs(logs)

    def _begin(self, connection: Connection, moment: int | None) -> _Transaction:
        at = now() if moment is None else moment
        return _Transaction(connection, self._pace, self._shard, self._days, self._origins, at)

    def remember(self, stored: StoredSpans) -> None:
        """Note what is on disk, once the transaction has ended."""
        if len(self._origins) > 10_000:
            self._origins.clear()
        self._origins.update(dict.fromkeys(stored.origins, stored.day))
        if stored.has_tables_of_day:
            self._days.add(stored.day)

    def forget(self) -> None:
        """Know nothing any more, as after days were removed."""
        self._days.clear()
        self._origins.clear()


class _Transaction:
    """One batch of spans on its way into the tables."""

    def __init__(
        self,
        connection: Connection,
        pace: RequestPace,
        shard: int,
        known_days: set[int],
        known_origins: Mapping[int, int],
        moment: int,
    ) -> None:
        self._connection = connection
        self._pace = pace
        self._shard = shard
        self._known_days = known_days
        self._known_origins = known_origins
        self._moment = moment
        # Also where they came before: what is of a day that is over may be about to be removed.
        self._today = max(moment, now()) // DAY

    def store(
        self, spans: Sequence[PlacedSpan], identities: Mapping[tuple[str, str], TraceIdentity]
    ) -> StoredSpans:
        by_trace = _group_by_trace(spans)
        lock_logs(self._connection, by_trace, is_writer=False)
        traces = find_traces(self._connection, by_trace, self._moment, identities)
        self._pace.give_way()
        self._take_new(traces, by_trace)
        self._add_logs(traces)
        return self._store_changes(
            [trace for trace in traces.values() if trace.added or trace.is_new or trace.has_replaced]
        )

    def store_logs(self, logs: Sequence[PlacedLog]) -> StoredSpans:
        keys = sorted({each.key[:2] for each in logs})
        lock_logs(self._connection, keys, is_writer=True)
        before = load_logs(self._connection, keys)
        origins = {origin_id(each.log.origin): each.log.origin for each in logs}
        store_origins(self._connection, origins, self._today)
        retentions = {each.retention_days for each in logs}
        ends = {days: end_of_retention(self._moment, _days(days)) for days in retentions}
        named = insert_logs(self._connection, logs, self._today, ends)
        traces = read_traces(self._connection, sorted({key[:2] for key in named}))
        if not traces:
            return StoredSpans(day=self._today)
        after = load_logs(self._connection, list(traces))
        placements = {
            each.key: Placement(each.tenant, None, each.retention_days, each.has_rules) for each in logs
        }
        self._take_changed(traces, named, before, after, placements)
        return self._store_changes([trace for trace in traces.values() if trace.added])

    def _store_changes(self, changed: Sequence[OpenTrace]) -> StoredSpans:
        stored = StoredSpans(
            {trace.id: (trace.tenant_key or None, trace.project) for trace in changed},
            sum(len(trace.added) for trace in changed),
            day=self._today,
        )
        if stored.new_count:
            self._prepare_days(changed)
            stored.origins = self._store_origins(changed)
            insert_spans(self._connection, changed, self._moment, self._known_days, self._pace)
            stored.has_tables_of_day = any(trace.added and trace.day == self._today for trace in changed)
            self._pace.give_way()
        store_traces(self._connection, changed, self._moment, self._shard, self._today, self._summarize)
        return stored

    def _prepare_days(self, changed: Iterable[OpenTrace]) -> None:
        earlier = {trace.day for trace in changed if trace.is_new} - {self._today}
        for day in sorted(earlier):
            hold_day(self._connection, day, removes=False)
        for day in sorted({self._today, *earlier}):
            prepare_day(self._connection, day, self._known_days)

    def _take_new(
        self,
        traces: Mapping[tuple[str, str], OpenTrace],
        by_trace: Mapping[tuple[str, str], Mapping[str, PlacedSpan]],
    ) -> None:
        """Decide which spans of the batch are stored: those that are not there, or not so complete."""
        present = self._read_present(
            [(trace.id, list(by_trace[key])) for key, trace in traces.items() if not trace.is_new],
            {trace.day for trace in traces.values()},
        )
        self._forget_uncounted(traces.values(), present)
        replaced: list[tuple[OpenTrace, str]] = []
        for key, trace in traces.items():
            of_trace = by_trace[key]
            if present:
                replaced += _add_more_complete(trace, of_trace, present)
            else:
                trace.added.extend(of_trace.values())
            for days in {placement.retention_days for _, placement in trace.added}:
                trace.retention_days = max(trace.retention_days, _days(days))
        if replaced:
            self._remove_spans(replaced)

    def _add_logs(self, traces: Mapping[tuple[str, str], OpenTrace]) -> None:
        """Add to new spans what their logs say, which came before them."""
        logs = load_logs(self._connection, [key for key, trace in traces.items() if trace.added])
        if not logs:
            return
        met: list[SpanKey] = []
        for key, trace in traces.items():
            for place, (span, placement) in enumerate(trace.added):
                of_span = logs.get((*key, span.span_id))
                if of_span:
                    trace.added[place] = PlacedSpan(digest_with_logs(span, of_span), placement)
                    met.append((*key, span.span_id))
        keep_with_trace(self._connection, met)

    def _take_changed(
        self,
        traces: Mapping[tuple[str, str], OpenTrace],
        named: Iterable[SpanKey],
        before: Mapping[SpanKey, Sequence[StoredLog]],
        after: Mapping[SpanKey, Sequence[StoredLog]],
        placements: Mapping[SpanKey, Placement],
    ) -> None:
        """Store anew which of the spans that logs name say something else with them."""
        by_id = {trace.id: (key, trace) for key, trace in traces.items()}
        pairs = [(traces[key[:2]].id, key[2]) for key in sorted(named) if key[:2] in traces]
        replaced: list[tuple[OpenTrace, str]] = []
        met: list[SpanKey] = []
        for row in self._read_whole(pairs, {trace.day for trace in traces.values()}):
            trace_key, trace = by_id[row.trace]
            key: SpanKey = (*trace_key, row.span_id)
            met.append(key)
            record = read_record(bytes(row.body), self._origin_of(row))
            span = digest_record(add_logs(record, after[key]))
            if span == digest_record(add_logs(record, before.get(key, ()))):
                continue
            placement = replace(placements[key], project=row.project_id)
            trace.added.append(PlacedSpan(span, placement))
            trace.retention_days = max(trace.retention_days, _days(placement.retention_days))
            trace.has_replaced = True
            replaced.append((trace, row.span_id))
        keep_with_trace(self._connection, met)
        self._remove_spans(replaced)

    def _read_whole(self, pairs: Sequence[tuple[str, str]], days: Iterable[int]) -> Iterator[Row[Any]]:
        """Yield spans by the ids of the rows of their traces and their own, with their sources."""
        for is_asked in choose_spans(self._connection, pairs, days):
            yield from run_with_sources(self._connection, WHOLE_SPANS.where(is_asked)).all()

    @staticmethod
    def _origin_of(row: Row[Any]) -> RecordOrigin:
        return load_origin(*(getattr(row, f"source_{name}") for name in SOURCE_COLUMNS))

    def _read_present(
        self, traces: Sequence[tuple[str, list[str]]], days: Iterable[int]
    ) -> dict[tuple[str, str], Row[Any]]:
        pairs = [(trace, span_id) for trace, span_ids in traces for span_id in span_ids]
        rows: dict[tuple[str, str], Row[Any]] = {}
        for is_asked in choose_spans(self._connection, pairs, days):
            query = _PRESENT.where(is_asked)
            rows |= {(row.trace, row.span_id): row for row in run_on_spans(self._connection, query)}
        return rows

    def _forget_uncounted(
        self, traces: Iterable[OpenTrace], present: dict[tuple[str, str], Row[Any]]
    ) -> None:
        """Take spans for new that were stored apart by a transaction that was undone."""
        storage = find_storage(self._connection)
        if storage is None:
            return
        changed_at = find_uncounted(self._connection, storage, traces)
        for trace in traces:
            trace.has_replaced |= trace.id in changed_at
        for key, row in list(present.items()):
            if row.received_at > changed_at.get(row.trace, row.received_at):
                del present[key]

    def _remove_spans(self, replaced: Sequence[tuple[OpenTrace, str]]) -> None:
        if find_storage(self._connection) is not None:
            return  # there, a later version takes the place of the earlier one
        pairs = [(trace.id, span_id) for trace, span_id in replaced]
        for batch in in_batches(pairs):
            is_replaced = tuple_(SPANS.c.trace, SPANS.c.span_id).in_(batch)
            if self._connection.dialect.name == "sqlite":
                rows = self._connection.execute(select(SPANS.c.day, SPANS.c.row).where(is_replaced)).all()
                forget_ranges(self._connection, rows)
            self._connection.execute(delete(SPANS).where(is_replaced))

    def _store_origins(self, traces: Iterable[OpenTrace]) -> set[int]:
        origins = {}
        for trace in traces:
            for span, _ in trace.added:
                origins[span.source] = span.origin
        unknown = {
            key: origin
            for key, origin in origins.items()
            if self._known_origins.get(key, _FOREVER) < self._today
        }
        store_origins(self._connection, unknown, self._today)
        return set(origins)

    def _summarize(self, trace: OpenTrace) -> TraceSummary:
        """Return the summary of a trace from all of its spans: a sum cannot say what a replaced one added."""
        query = WHOLE_SPANS.where(SPANS.c.trace == trace.id, SPANS.c.day == trace.day)
        key = (trace.tenant_key, trace.trace_id)
        logs = load_logs(self._connection, [key])
        summary, cache = TraceSummary(), DigestCache()
        for row in run_with_sources(self._connection, query):
            record = read_record(bytes(row.body), self._origin_of(row))
            of_span = logs.get((*key, row.span_id))
            whole = record if of_span is None else add_logs(record, of_span)
            summary.add_span(digest_record(whole, cache), row.project_id)
        return summary


def _group_by_trace(spans: Sequence[PlacedSpan]) -> dict[tuple[str, str], dict[str, PlacedSpan]]:
    """Return spans by the tenants and ids of their traces and by their own: of copies, the most complete."""
    by_trace: dict[tuple[str, str], dict[str, PlacedSpan]] = {}
    trace_id, tenant = None, None
    group: dict[str, PlacedSpan] = {}
    for each in spans:
        span, placement = each
        if span.trace_id != trace_id or placement.tenant != tenant:  # those of a trace follow each other
            trace_id, tenant = span.trace_id, placement.tenant
            group = by_trace.setdefault((tenant or "", trace_id), {})
        present = group.setdefault(span.span_id, each)
        if present is not each and span.completeness > present.span.completeness:
            group[span.span_id] = each
    return by_trace


def _add_more_complete(
    trace: OpenTrace, spans: Mapping[str, PlacedSpan], present: Mapping[tuple[str, str], Row[Any]]
) -> list[tuple[OpenTrace, str]]:
    """Add to a trace the spans that are not there or not so complete; return those that are replaced."""
    replaced: list[tuple[OpenTrace, str]] = []
    for span_id, placed in spans.items():
        stored = present.get((trace.id, span_id))
        if stored is None:
            trace.added.append(placed)
        elif placed.span.completeness > _measure_stored(stored):
            trace.added.append(placed)
            replaced.append((trace, span_id))
            trace.has_replaced = True
    return replaced


def _measure_stored(row: Row[Any]) -> Completeness:
    return measure_completeness(row.end_ns, bytes(row.body), row.source)


def _days(days: float) -> float:
    return float("inf") if days == _FOREVER else days
