"""Spans stored in one transaction: each once, whatever comes late, repeated or out of order."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Row, delete, select, tuple_

from dokimos.server._db.batches import in_batches
from dokimos.server._db.clock import DAY, now
from dokimos.server._db.driver_statements import driver_id, execute_many
from dokimos.server._db.trace_tables import SPANS
from dokimos.server._redaction_rules import RedactionRule
from dokimos.server._services.traces.new_spans import (
    DigestCache,
    NewSpan,
    digest_record,
    measure_completeness,
)
from dokimos.server._services.traces.open_traces import OpenTrace, find_traces, read_traces
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
from dokimos.server._services.traces.stored_spans import read_record
from dokimos.server._services.traces.trace_hours import HourChanges
from dokimos.server._services.traces.trace_partitions import prepare_day
from dokimos.server._services.traces.trace_sources import load_origin, store_origins
from dokimos.server._services.traces.trace_statements import (
    ENCODING_NUMBERS,
    INSERT_POSTGRESQL,
    INSERT_SQLITE,
    INSERT_WHOLE_TRACES,
    SOURCE_COLUMNS,
    UPDATE_TRACES,
    WHOLE_SPANS,
)
from dokimos.server._services.traces.trace_summary import NANO, TraceSummary
from dokimos.server._services.traces.trace_texts import index_texts, project_word, searchable_words
from dokimos.traces._otlp_records import RecordOrigin

_SHARDS: Final = 16
_FOREVER: Final = -1


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a span belongs: the tenant that it is stored for, and the project that its resource names."""

    tenant: str | None = None
    project: str | None = None
    """The id of a project, None for none."""
    retention_days: float = 30.0
    has_rules: bool = False
    """Whether rules of the project are to be held against its spans."""
    redaction: tuple[RedactionRule, ...] = ()
    """What is replaced in its spans before they are stored."""


class PlacedSpan(NamedTuple):
    """A span that is to be stored, and where."""

    span: NewSpan
    placement: Placement


@dataclass(slots=True)
class StoredSpans:
    """What a batch has changed."""

    traces: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)
    """The traces concerned, by the ids of their rows, each with its tenant and its project."""
    new_count: int = 0
    """Spans that were not there before, or not in this form."""
    origins: set[int] = field(default_factory=set)
    day: int = 0


class SpanStore:
    """Stores spans; one instance for each server, which remembers what it need not ask the database for."""

    def __init__(self) -> None:
        self._shard = secrets.randbelow(_SHARDS)  # in containers, all servers have the same process id
        self._days: set[int] = set()
        self._origins: dict[int, int] = {}

    def store(self, connection: Connection, spans: Sequence[PlacedSpan]) -> StoredSpans:
        """Store spans in the transaction of the connection.

        Of two copies of a span that differ, the more complete one stays.
        """
        return self._begin(connection).store(spans)

    def store_logs(self, connection: Connection, logs: Sequence[PlacedLog]) -> StoredSpans:
        """Store log records in the transaction of the connection, each once.

        What the spans that they name say with them is stored anew; those that come later find them.
        """
        return self._begin(connection).store_logs(logs)

    def _begin(self, connection: Connection) -> _Transaction:
        return _Transaction(connection, self._shard, self._days, self._origins)

    def remember(self, stored: StoredSpans) -> None:
        """Note what is on disk, once the transaction has ended."""
        if len(self._origins) > 10_000:
            self._origins.clear()
        self._origins.update(dict.fromkeys(stored.origins, stored.day))
        self._days.add(stored.day)

    def forget(self) -> None:
        """Know nothing any more, as after days were removed."""
        self._days.clear()
        self._origins.clear()


class _Transaction:
    """One batch of spans on its way into the tables."""

    def __init__(
        self, connection: Connection, shard: int, known_days: set[int], known_origins: Mapping[int, int]
    ) -> None:
        self._connection = connection
        self._is_postgresql = connection.dialect.name == "postgresql"
        self._shard = shard
        self._known_days = known_days
        self._known_origins = known_origins
        self._moment = now()
        self._today = self._moment // DAY
        self._project_ids: dict[str | None, object] = {}

    def store(self, spans: Sequence[PlacedSpan]) -> StoredSpans:
        by_trace: dict[tuple[str, str], dict[str, PlacedSpan]] = {}
        for each in spans:
            group = by_trace.setdefault((each.placement.tenant or "", each.span.trace_id), {})
            present = group.get(each.span.span_id)
            if present is None or each.span.completeness > present.span.completeness:
                group[each.span.span_id] = each
        lock_logs(self._connection, by_trace, is_writer=False)
        traces = find_traces(self._connection, by_trace, self._moment)
        self._take_new(traces, by_trace)
        self._add_logs(traces)
        return self._store_changes([trace for trace in traces.values() if trace.added or trace.is_new])

    def store_logs(self, logs: Sequence[PlacedLog]) -> StoredSpans:
        keys = sorted({each.key[:2] for each in logs})
        lock_logs(self._connection, keys, is_writer=True)
        before = load_logs(self._connection, keys)
        origins = {origin_id(each.log.origin): each.log.origin for each in logs}
        store_origins(self._connection, origins, self._today)
        ends = {days: self._end_of(_days(days)) for days in {each.retention_days for each in logs}}
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
            prepare_day(self._connection, self._today, self._known_days)
            stored.origins = self._store_origins(changed)
            self._insert_spans(changed)
        self._update_traces(changed)
        return stored

    def _take_new(
        self,
        traces: Mapping[tuple[str, str], OpenTrace],
        by_trace: Mapping[tuple[str, str], Mapping[str, PlacedSpan]],
    ) -> None:
        """Decide which spans of the batch are stored: those that are not there, or not so complete."""
        present = self._read_present(
            [(trace.id, list(by_trace[key])) for key, trace in traces.items() if not trace.is_new]
        )
        replaced: list[tuple[OpenTrace, str]] = []
        for key, trace in traces.items():
            for span_id, (span, placement) in by_trace[key].items():
                stored = present.get((trace.id, span_id))
                if stored is not None:
                    earlier = measure_completeness(stored.end_ns, bytes(stored.body), stored.source)
                    if span.completeness <= earlier:
                        continue
                    replaced.append((trace, span_id))
                    trace.has_replaced = True
                trace.added.append((span, placement))
                trace.retention_days = max(trace.retention_days, _days(placement.retention_days))
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
                    trace.added[place] = (digest_with_logs(span, of_span), placement)
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
        for row in self._read_whole(pairs):
            trace_key, trace = by_id[row.trace]
            key: SpanKey = (*trace_key, row.span_id)
            met.append(key)
            record = read_record(bytes(row.body), self._origin_of(row))
            span = digest_record(add_logs(record, after[key]))
            if span == digest_record(add_logs(record, before.get(key, ()))):
                continue
            placement = replace(placements[key], project=row.project_id)
            trace.added.append((span, placement))
            trace.retention_days = max(trace.retention_days, _days(placement.retention_days))
            trace.has_replaced = True
            replaced.append((trace, row.span_id))
        keep_with_trace(self._connection, met)
        self._remove_spans(replaced)

    def _read_whole(self, pairs: Sequence[tuple[str, str]]) -> Iterator[Row[Any]]:
        """Yield spans by the ids of the rows of their traces and their own, with their sources."""
        for batch in in_batches(pairs):
            yield from self._connection.execute(
                WHOLE_SPANS.where(tuple_(SPANS.c.trace, SPANS.c.span_id).in_(batch))
            ).all()

    @staticmethod
    def _origin_of(row: Row[Any]) -> RecordOrigin:
        return load_origin(*(getattr(row, f"source_{name}") for name in SOURCE_COLUMNS))

    def _read_present(self, traces: Sequence[tuple[str, list[str]]]) -> dict[tuple[str, str], Row[Any]]:
        pairs = [(trace, span_id) for trace, span_ids in traces for span_id in span_ids]
        rows: dict[tuple[str, str], Row[Any]] = {}
        for batch in in_batches(pairs):
            is_asked = tuple_(SPANS.c.trace, SPANS.c.span_id).in_(batch)
            query = select(
                SPANS.c.trace, SPANS.c.span_id, SPANS.c.end_ns, SPANS.c.body, SPANS.c.source
            ).where(is_asked)
            rows |= {(row.trace, row.span_id): row for row in self._connection.execute(query)}
        return rows

    def _remove_spans(self, replaced: Sequence[tuple[OpenTrace, str]]) -> None:
        pairs = [(trace.id, span_id) for trace, span_id in replaced]
        for batch in in_batches(pairs):
            self._connection.execute(delete(SPANS).where(tuple_(SPANS.c.trace, SPANS.c.span_id).in_(batch)))

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

    def _insert_spans(self, traces: Sequence[OpenTrace]) -> None:
        added = [(trace, span, placement) for trace in traces for span, placement in trace.added]
        rows = [self._span_row(trace, span, placement) for trace, span, placement in added]
        if self._is_postgresql:
            texts = [(searchable_words(span), list(span.attribute_hashes)) for _, span, _ in added]
            execute_many(
                self._connection,
                INSERT_POSTGRESQL,
                [(*row, *text) for row, text in zip(rows, texts, strict=True)],
            )
            return
        first = self._next_row()
        execute_many(
            self._connection, INSERT_SQLITE, [(*row, first + place) for place, row in enumerate(rows)]
        )
        by_day: dict[int, list[tuple[int, NewSpan, str]]] = {}
        for place, (trace, span, placement) in enumerate(added):
            word = project_word(placement.project, trace.tenant_key)
            by_day.setdefault(trace.day, []).append((first + place, span, word))
        for day, texts_of_day in by_day.items():
            index_texts(self._connection, day, texts_of_day, self._known_days)

    def _next_row(self) -> int:
        """Return the first row that no span has had: the index may still name one that was removed."""
        last = self._connection.exec_driver_sql(
            "SELECT seq FROM sqlite_sequence WHERE name = 'spans'"
        ).scalar()
        return 1 + (last or 0)

    def _span_row(self, trace: OpenTrace, span: NewSpan, placement: Placement) -> tuple[object, ...]:
        return (
            trace.day,
            trace.driver_id,
            span.span_id,
            span.parent_id,
            span.name,
            span.kind,
            span.status,
            span.role,
            span.start_ns,
            span.end_ns,
            span.tokens_in,
            span.tokens_out,
            span.cost_usd,
            span.first_chunk_ms,
            span.model,
            span.input_text,
            span.output_text,
            span.error,
            self._project_id(placement.project),
            span.source,
            ENCODING_NUMBERS[span.encoding],
            span.body,
            self._moment,
        )

    def _update_traces(self, traces: Sequence[OpenTrace]) -> None:
        hours = HourChanges()
        for trace in traces:
            if trace.summary.span_count:  # it was counted before
                hours.add(trace.count(), -1)
            if trace.has_replaced:
                trace.summary = self._summarize(trace)
            else:
                for span, placement in trace.added:
                    trace.summary.add_span(span, placement.project)
            hours.add(trace.count())
        new = [trace for trace in traces if trace.is_new and not self._is_postgresql]
        if new:
            INSERT_WHOLE_TRACES.execute_many(
                self._connection, [self._trace_row(trace) | self._new_row(trace) for trace in new]
            )
        changed = [trace for trace in traces if self._is_postgresql or not trace.is_new]
        if changed:
            UPDATE_TRACES.execute_many(self._connection, [self._trace_row(trace) for trace in changed])
        hours.store(self._connection, self._shard)

    def _project_id(self, project: str | None) -> object:
        if project not in self._project_ids:
            self._project_ids[project] = driver_id(project, self._connection)
        return self._project_ids[project]

    def _new_row(self, trace: OpenTrace) -> dict[str, object]:
        return {
            "id": trace.driver_id,
            "tenant_key": trace.tenant_key,
            "trace_id": trace.trace_id,
            "tenant_id": trace.tenant_key or None,
            "day": trace.day,
            "created_at": trace.created_at,
        }

    def _summarize(self, trace: OpenTrace) -> TraceSummary:
        """Return the summary of a trace from all of its spans: a sum cannot say what a replaced one added."""
        query = WHOLE_SPANS.where(SPANS.c.trace == trace.id, SPANS.c.day == trace.day)
        key = (trace.tenant_key, trace.trace_id)
        logs = load_logs(self._connection, [key])
        summary, cache = TraceSummary(), DigestCache()
        for row in self._connection.execute(query):
            record = read_record(bytes(row.body), self._origin_of(row))
            of_span = logs.get((*key, row.span_id))
            whole = record if of_span is None else add_logs(record, of_span)
            summary.add_span(digest_record(whole, cache), row.project_id)
        return summary

    def _trace_row(self, trace: OpenTrace) -> dict[str, object]:
        summary, usage = trace.summary, trace.summary.usage
        root = summary.find_choice("root") or [None] * 4
        models = sorted(name for name in summary.models if name)
        return {
            "row": trace.driver_id,
            "project_id": self._project_id(trace.project),
            "updated_at": self._moment,
            "expires_at": self._expiry(trace),
            "span_count": summary.span_count,
            "error_count": summary.error_count,
            "byte_count": summary.byte_count,
            "start_ns": summary.start_ns,
            "end_ns": summary.end_ns,
            "duration_ns": summary.duration_ns,
            "tokens_in": usage.tokens_in,
            "tokens_out": usage.tokens_out,
            "cost_usd": None if usage.cost_nano_usd is None else usage.cost_nano_usd / NANO,
            "first_chunk_ms": summary.first_chunk_ms,
            "root_name": root[0],
            "root_status": root[1],
            "input_text": root[2],
            "output_text": root[3],
            "session_id": summary.find_choice("session"),
            "user_id": summary.find_choice("user"),
            "model": models[0] if models else None,
            "summary": summary.dump(),
            "match_due_at": self._match_due_at(trace),
        }

    def _expiry(self, trace: OpenTrace) -> int | None:
        if not trace.added:
            return trace.expires_at
        return self._end_of(trace.retention_days)

    def _end_of(self, days: float) -> int | None:
        return None if days == float("inf") else self._moment + round(days * DAY)

    def _match_due_at(self, trace: OpenTrace) -> int | None:
        """Return the earliest time at which spans came that no rule was held against."""
        if not any(placement.has_rules for _, placement in trace.added):
            return trace.match_due_at
        return self._moment if trace.match_due_at is None else min(trace.match_due_at, self._moment)


def _days(days: float) -> float:
    return float("inf") if days == _FOREVER else days
