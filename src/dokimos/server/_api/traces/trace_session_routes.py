"""Routes of sessions, and of what is counted of traces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import Field

from dokimos.server._api.http.access import Access, Caller, access
from dokimos.server._api.http.json_body import WireModel
from dokimos.server._api.http.parameters import PathName, Store
from dokimos.server._api.traces.trace_parameters import Project, TraceStore
from dokimos.server._db.clock import DAY, HOUR, format_time, now, to_microseconds
from dokimos.server._services.projects.projects import find_project
from dokimos.server._services.traces.project_names import find_project_id, read_project_names
from dokimos.server._services.traces.trace_sessions import Session, list_sessions
from dokimos.server._services.traces.trace_stats import (
    Period,
    Step,
    TraceStats,
    choose_period,
    find_percentiles,
    read_stats,
)
from dokimos.server._services.traces.trace_summary import NANO

ROUTER: Final = APIRouter(prefix="/api/v1", tags=["Traces"])
_AFTER: Final = "The `nextAfter` of the page before this one."
_DEFAULT_PERIOD: Final = 7 * DAY


class SessionAnswer(WireModel):
    """The traces of a session, counted."""

    session_id: str
    project_id: str | None
    project_name: str | None
    trace_count: int
    error_count: int
    """Traces with an error."""
    span_count: int
    first_time: str | None
    """When the first of them began, as its clock says; `lastTime` is the end of the last."""
    last_time: str | None
    created_at: str
    updated_at: str
    tokens_in: int | None
    tokens_out: int | None
    cost_usd: float | None
    priced_call_count: int | None
    unpriced_call_count: int | None
    """Model calls that used tokens at an unknown price: where there are any, the cost is more than this."""
    latest_trace_id: str


class SessionPageAnswer(WireModel):
    """A page of sessions."""

    content: list[SessionAnswer]
    next_after: str | None


class Latency(WireModel):
    """Percentiles of the durations of traces in milliseconds, to within 2.5 %."""

    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None


class TraceCounts(WireModel):
    """What is counted of traces."""

    trace_count: int
    error_count: int
    error_rate: float | None
    span_count: int
    byte_count: int
    tokens_in: int
    tokens_out: int
    cost_usd: float | None
    priced_trace_count: int
    """Traces with a cost, if only of some of their calls."""
    priced_call_count: int
    unpriced_call_count: int
    """Model calls that used tokens at an unknown price: where there are any, the cost is more than this."""
    latency_ms: Latency


class TraceStep(TraceCounts):
    """The same of an hour or a day, in UTC."""

    start: str


class ModelCounts(WireModel):
    """What the calls of a model have used."""

    model: str | None
    call_count: int
    error_count: int
    tokens_in: int
    tokens_out: int
    cost_usd: float
    """Of the calls that have a price."""
    priced_call_count: int
    unpriced_call_count: int


class TraceStatsAnswer(WireModel):
    """What is counted of the traces of a project."""

    since: str = Field(alias="from")
    until: str = Field(alias="to")
    step_hours: int
    total: TraceCounts
    steps: list[TraceStep]
    models: list[ModelCounts]


@ROUTER.get("/trace-sessions", response_model=SessionPageAnswer)
@access(Access.TRACE_READ)
async def get_sessions(
    caller: Caller,
    store: Store,
    traces: TraceStore,
    project: Project = None,
    limit: Annotated[int, Query(ge=1, le=200, description="Sessions at most.")] = 50,
    after: Annotated[UUID | None, Query(description=_AFTER)] = None,
) -> dict[str, Any]:
    """List sessions, the one with the newest trace first; its traces are in the list of traces."""
    project_id = None if project is None else await find_project_id(store, caller, project)
    place = None if after is None else str(after)
    sessions, next_after = await traces.read(
        lambda connection: list_sessions(connection, caller, project_id, after=place, limit=limit)
    )
    names = await read_project_names(store, caller, (each.counts.project_id for each in sessions))
    return {"content": [_session(each, names) for each in sessions], "nextAfter": next_after}


@ROUTER.get("/projects/{name}/trace-stats", response_model=TraceStatsAnswer)
@access(Access.TRACE_READ)
async def get_trace_stats(
    caller: Caller,
    store: Store,
    traces: TraceStore,
    name: PathName,
    since: Annotated[
        datetime | None, Query(alias="from", description="By default a week before `to`.")
    ] = None,
    until: Annotated[datetime | None, Query(alias="to", description="By default now.")] = None,
    step: Annotated[Step | None, Query(description="By default hours, of more than a week days.")] = None,
) -> dict[str, Any]:
    """Return how many traces of a project there were and how they went, by the hour or the day, and by model.

    A trace is counted in the hour in which it began; one that retention has removed stays counted.
    """
    last = now() if until is None else to_microseconds(until)
    first = last - _DEFAULT_PERIOD if since is None else to_microseconds(since)
    period = choose_period(first, last, step)
    row = await store.read(lambda connection: find_project(connection, caller, name))
    stats = await traces.read(lambda connection: read_stats(connection, caller, row.id, period))
    return _stats(period, stats)


def _session(session: Session, names: Mapping[str, str]) -> dict[str, Any]:
    row = session.counts
    return {
        "sessionId": row.session_id,
        "projectId": row.project_id,
        "projectName": names.get(row.project_id),
        "traceCount": int(row.trace_count),
        "errorCount": int(row.error_count),
        "spanCount": int(row.span_count),
        "firstTime": _from_nanoseconds(row.start_ns),
        "lastTime": _from_nanoseconds(row.end_ns),
        "createdAt": format_time(row.created_at),
        "updatedAt": format_time(row.updated_at),
        "tokensIn": None if row.tokens_in is None else int(row.tokens_in),
        "tokensOut": None if row.tokens_out is None else int(row.tokens_out),
        "costUsd": row.cost_usd,
        "pricedCallCount": None if row.priced_calls is None else int(row.priced_calls),
        "unpricedCallCount": None if row.unpriced_calls is None else int(row.unpriced_calls),
        "latestTraceId": session.latest_id,
    }


def _from_nanoseconds(value: int | None) -> str | None:
    return None if value is None else format_time(value // 1000)


def _stats(period: Period, stats: TraceStats) -> dict[str, Any]:
    total: Counter[str] = Counter()
    bins: Counter[int] = Counter()
    steps = []
    for number in period.buckets():
        counts = stats.buckets.get(number, Counter())
        latencies = stats.latencies.get(number, Counter())
        total.update(counts)
        bins.update(latencies)
        start = format_time(number * period.hours * HOUR)
        steps.append({"start": start, **_counts(counts, latencies)})
    return {
        "from": format_time(period.first_hour * HOUR),
        "to": format_time(period.last_hour * HOUR),
        "stepHours": period.hours,
        "total": _counts(total, bins),
        "steps": steps,
        "models": [_model(name, counts) for name, counts in stats.models],
    }


def _counts(counts: Mapping[str, int], bins: Mapping[int, int]) -> dict[str, Any]:
    get = Counter(counts)
    return {
        "traceCount": get["trace_count"],
        "errorCount": get["error_count"],
        "errorRate": get["error_count"] / get["trace_count"] if get["trace_count"] else None,
        "spanCount": get["span_count"],
        "byteCount": get["byte_count"],
        "tokensIn": get["tokens_in"],
        "tokensOut": get["tokens_out"],
        "costUsd": get["cost_nano_usd"] / NANO if get["priced_count"] else None,
        "pricedTraceCount": get["priced_count"],
        "pricedCallCount": get["priced_calls"],
        "unpricedCallCount": get["unpriced_calls"],
        "latencyMs": find_percentiles(bins),
    }


def _model(name: str, counts: Mapping[str, int]) -> dict[str, Any]:
    return {
        "model": name or None,
        "callCount": counts["call_count"],
        "errorCount": counts["error_count"],
        "tokensIn": counts["tokens_in"],
        "tokensOut": counts["tokens_out"],
        "costUsd": counts["cost_nano_usd"] / NANO,
        "pricedCallCount": counts["priced_calls"],
        "unpricedCallCount": counts["unpriced_calls"],
    }
