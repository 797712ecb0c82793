"""Stores what is known of traces once spans were added to them: their rows, and the counts of their hours."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import Connection

from dokimos.server._db.clock import DAY
from dokimos.server._db.driver_statements import driver_id
from dokimos.server._services.traces.open_traces import OpenTrace
from dokimos.server._services.traces.trace_hours import HourChanges
from dokimos.server._services.traces.trace_statements import INSERT_WHOLE_TRACES, UPDATE_TRACES
from dokimos.server._services.traces.trace_summary import NANO, TraceSummary


def store_traces(
    connection: Connection,
    traces: Sequence[OpenTrace],
    moment: int,
    shard: int,
    today: int,
    summarize: Callable[[OpenTrace], TraceSummary],
) -> None:
    """Merge the spans that were added to traces into their summaries, and store these.

    Args:
        connection: In a transaction.
        traces: With the spans.
        moment: At which they came.
        shard: Of this server.
        today: The day since 1970, also where the spans came earlier.
        summarize: Makes the summary of a trace anew, where a span was replaced.
    """
    is_postgresql = connection.dialect.name == "postgresql"
    hours = HourChanges()
    for trace in traces:
        _merge_spans(trace, hours, summarize)
    rows = _Rows(connection, moment)
    new = [trace for trace in traces if trace.is_new and not is_postgresql]
    if new:
        INSERT_WHOLE_TRACES.execute_many(connection, [rows.make_new(trace) for trace in new])
    changed = [trace for trace in traces if is_postgresql or not trace.is_new]
    if changed:
        UPDATE_TRACES.execute_many(connection, [rows.make_changed(trace) for trace in changed])
    hours.store(connection, shard, today)


def _merge_spans(
    trace: OpenTrace, hours: HourChanges, summarize: Callable[[OpenTrace], TraceSummary]
) -> None:
    if trace.summary.span_count:  # it was counted before
        hours.add(trace.count(), -1)
    if trace.has_replaced:
        trace.summary = summarize(trace)
    else:
        for span, placement in trace.added:
            trace.summary.add_span(span, placement.project)
    hours.add(trace.count())


def end_of_retention(moment: int, days: float) -> int | None:
    """Return when something that came at a moment is removed, None for never."""
    return None if days == float("inf") else moment + round(days * DAY)


class _Rows:
    """Makes the rows of traces in one transaction."""

    def __init__(self, connection: Connection, moment: int) -> None:
        self._connection = connection
        self._moment = moment

    def make_new(self, trace: OpenTrace) -> dict[str, object]:
        return {
            **self.make_changed(trace),
            "id": trace.driver_id,
            "tenant_key": trace.tenant_key,
            "trace_id": trace.trace_id,
            "tenant_id": trace.tenant_key or None,
            "day": trace.day,
            "created_at": trace.created_at,
        }

    def make_changed(self, trace: OpenTrace) -> dict[str, object]:
        summary, usage = trace.summary, trace.summary.usage
        root = summary.find_choice("root") or [None] * 4
        models = sorted(name for name in summary.models if name)
        priced_calls, unpriced_calls = summary.call_prices
        return {
            "row": trace.driver_id,
            "project_id": driver_id(trace.project, self._connection),
            "updated_at": self._moment,
            "expires_at": self._find_expiry(trace),
            "span_count": summary.span_count,
            "error_count": summary.error_count,
            "byte_count": summary.byte_count,
            "start_ns": summary.start_ns,
            "end_ns": summary.end_ns,
            "duration_ns": summary.duration_ns,
            "tokens_in": usage.tokens_in,
            "tokens_out": usage.tokens_out,
            "cost_usd": None if usage.cost_nano_usd is None else usage.cost_nano_usd / NANO,
            "priced_calls": priced_calls,
            "unpriced_calls": unpriced_calls,
            "first_chunk_ms": summary.first_chunk_ms,
            "root_name": root[0],
            "root_status": root[1],
            "input_text": root[2],
            "output_text": root[3],
            "session_id": summary.find_choice("session"),
            "user_id": summary.find_choice("user"),
            "model": models[0] if models else None,
            "summary": summary.dump(),
            "match_due_at": self._find_match_time(trace),
        }

    def _find_expiry(self, trace: OpenTrace) -> int | None:
        """Return when a trace is removed: as late as any of its batches has said.

        They may be of several projects, or of none, in any order.
        """
        if not trace.added:
            return trace.expires_at
        end = end_of_retention(self._moment, trace.retention_days)
        if trace.is_new:
            return end
        return None if end is None or trace.expires_at is None else max(end, trace.expires_at)

    def _find_match_time(self, trace: OpenTrace) -> int | None:
        """Return the earliest time at which spans came that no rule was held against."""
        if not any(placement.has_rules for _, placement in trace.added):
            return trace.match_due_at
        return self._moment if trace.match_due_at is None else min(trace.match_due_at, self._moment)
