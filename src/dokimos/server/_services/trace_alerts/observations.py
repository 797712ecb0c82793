"""What alerts observe: one value for each trace, in the order in which the server heard of the traces.

A trace is observed once nothing more has come for it for a while and its scores are there, or it has waited
long enough. What comes after that is not observed any more: evidence that was counted is not taken back, and
the order of observations must not depend on when somebody looked. A session is observed with the first of its
traces that its rule matched, and has the weight of that chance: had it been passed over then, it would not be
observed at all, whatever its later traces add.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Connection, Row, func, or_, select

from dokimos.server._db.clock import now
from dokimos.server._db.ids import first_id, time_of_id
from dokimos.server._db.trace_tables import TRACE_EVAL_JOBS, TRACES
from dokimos.server._services.trace_alerts.alert_config import AlertConfig, AlertFilter, Metric

TRACES_AT_ONCE: Final = 500
_TRACE: Final = TRACES.c
_JOB: Final = TRACE_EVAL_JOBS.c
_NANOSECONDS: Final = 1e6
"""Of a millisecond."""
_COLUMNS: Final = tuple(
    _TRACE[name]
    for name in (
        "id", "tenant_id", "created_at", "updated_at", "error_count", "duration_ns", "cost_usd",
        "unpriced_calls", "model", "root_name", "user_id", "match_due_at", "quiet_due_at", "deleted_at",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Observation:
    """What one trace says."""

    at: int
    """When the server heard of the trace, in microseconds since 1970."""
    value: float
    weight: float = 1.0
    """One over the probability with which it was sampled."""
    is_lower_bound: bool = False
    """Whether it is a cost without some model calls, whose price is not known."""


@dataclass(frozen=True, slots=True)
class Fired:
    """An alert begins to fire."""

    evidence: dict[str, Any]
    """Values of JSON, with `firedAt`."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A threshold is kept again."""

    at: int


AlertEvent = Fired | Ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """When a trace is observed, in microseconds."""

    quiet: int
    """How long nothing has come for it by then."""
    longest: int
    """How long it has been known at most, even if more comes or its scores are not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where an alert has its observations from."""

    project_id: str
    tenant: str | None
    """Whose traces: what belongs to no tenant, with None."""
    config: AlertConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Some observations, and how far they go."""

    observations: list[Observation] = field(default_factory=list)
    after: str
    """The last trace that was looked at, whether it says anything or not."""
    until: int
    """The time until which there are no other observations."""
    has_more: bool = False


def read_step(
    connection: Connection, source: Source, after: str, patience: Patience, to: str | None = None
) -> Step:
    """Return the observations of the next traces.

    Args:
        connection: Of the traces.
        source: What is observed.
        after: The id of the row of the trace to go on behind.
        patience: When a trace is observed.
        to: The id before which to stop, None for none.
    """
    moment = now()
    if source.config.metric.is_of_rule:
        return _read_scores(connection, source, after, patience, moment, to)
    query = select(*_COLUMNS).where(_TRACE.project_id == source.project_id, _TRACE.id > after)
    if to is not None:
        query = query.where(_TRACE.id < to)
    rows = connection.execute(query.order_by(_TRACE.id).limit(TRACES_AT_ONCE)).all()
    ready = _take_ready(rows, patience, moment, ())
    observations = [
        Observation(row.created_at, value, is_lower_bound=_is_lower_bound(row, source.config))
        for row in ready
        if _is_watched(row, source) and (value := _measure(row, source.config)) is not None
    ]
    return _make_step(observations, after, rows, ready, moment - patience.quiet)


def _read_scores(
    connection: Connection, source: Source, after: str, patience: Patience, moment: int, to: str | None
) -> Step:
    own = (
        _JOB.rule_id == source.config.rule_id,
        _JOB.tenant_id.is_not_distinct_from(source.tenant),
        _JOB.trace > after,
        func.coalesce(_JOB.first_probability, 1.0) > 0,  # else the session was passed over at its first trace
    )
    chosen = select(_JOB.trace).where(*own).distinct().order_by(_JOB.trace).limit(TRACES_AT_ONCE)
    barrier = _find_barrier(connection, after, moment - patience.longest)
    ends = [each for each in (barrier, to) if each is not None]
    if ends:
        chosen = chosen.where(_JOB.trace < min(ends))
    ids = connection.execute(chosen).scalars().all()
    rows = connection.execute(select(*_COLUMNS).where(_TRACE.id.in_(ids)).order_by(_TRACE.id)).all()
    probability = func.coalesce(_JOB.first_probability, _JOB.probability).label("probability")
    query = select(_JOB.trace, _JOB.status, _JOB.score, _JOB.success, probability)
    jobs: dict[str, list[Any]] = {}
    for job in connection.execute(query.where(*own, _JOB.trace.in_(ids)).order_by(_JOB.id)):
        jobs.setdefault(job.trace, []).append(job)
    is_open = {trace for trace, its in jobs.items() if any(job.status in _OPEN for job in its)}
    ready = _take_ready(rows, patience, moment, is_open)
    observations = [
        observation
        for row in ready
        if row.deleted_at is None
        and (observation := merge_scores(row.created_at, jobs.get(row.id, ()), source.config)) is not None
    ]
    until = moment - patience.quiet if barrier is None else min(moment - patience.quiet, time_of_id(barrier))
    return _make_step(observations, after, rows, ready, until)


_OPEN: Final = ("PENDING", "CLAIMED")


def merge_scores(at: int, jobs: Iterable[Row[Any]], config: AlertConfig) -> Observation | None:
    """Return what the scores of one trace say together; None without any.

    They depend on each other, so they are one observation. Each counts by one over the probability with which
    it was sampled.
    """
    is_pass = config.metric is Metric.PASS_RATE
    found = [
        (float(value), 1 / job.probability)
        for job in jobs
        if job.status == "SUCCEEDED" and (value := job.success if is_pass else job.score) is not None
    ]
    if not found:
        return None
    total = math.fsum(weight for _, weight in found)
    value = math.fsum(value * weight for value, weight in found) / total
    return Observation(at, value, total / len(found))


def _find_barrier(connection: Connection, after: str, since: int) -> str | None:
    """Return the first trace since a time that rules are still to be held against: it may get jobs."""
    is_waiting = or_(_TRACE.match_due_at.is_not(None), _TRACE.quiet_due_at.is_not(None))
    is_there = _TRACE.deleted_at.is_(None)  # no rule is held against one that was deleted
    query = select(_TRACE.id).where(is_waiting, is_there, _TRACE.id > max(after, first_id(since)))
    return connection.execute(query.order_by(_TRACE.id).limit(1)).scalar()


def _take_ready(
    rows: Sequence[Row[Any]], patience: Patience, moment: int, is_open: Iterable[str]
) -> Sequence[Row[Any]]:
    """Return the rows before the first that is waited for."""
    waiting = frozenset(is_open)
    for place, row in enumerate(rows):
        is_late = row.created_at <= moment - patience.longest
        is_quiet = row.updated_at <= moment - patience.quiet and row.id not in waiting
        if not is_late and not is_quiet:
            return rows[:place]
    return rows


def _make_step(
    observations: list[Observation],
    after: str,
    rows: Sequence[Row[Any]],
    ready: Sequence[Row[Any]],
    until: int,
) -> Step:
    last = ready[-1].id if ready else after
    has_more = len(rows) == len(ready) == TRACES_AT_ONCE
    if has_more:
        until = ready[-1].created_at
    elif len(ready) < len(rows):
        until = min(until, rows[len(ready)].created_at)
    return Step(observations=observations, after=last, until=until, has_more=has_more)


def _is_watched(row: Row[Any], source: Source) -> bool:
    chosen: AlertFilter = source.config.filter
    pairs = ((chosen.model, row.model), (chosen.root_name, row.root_name), (chosen.user_id, row.user_id))
    return (
        row.deleted_at is None
        and row.tenant_id == source.tenant
        and all(selected in (None, value) for selected, value in pairs)
    )


def _measure(row: Row[Any], config: AlertConfig) -> float | None:
    """Return what a trace says; None where it says nothing, such as a cost that nobody knows."""
    if config.metric is Metric.ERROR_RATE:
        return float(row.error_count > 0)
    if config.metric is Metric.LATENCY:
        value = None if row.duration_ns is None else row.duration_ns / _NANOSECONDS
    else:
        value = row.cost_usd
    if value is None or value < 0:
        return None
    return value if config.over is None else float(value > config.over)


def _is_lower_bound(row: Row[Any], config: AlertConfig) -> bool:
    """Whether the value of a trace would be larger if all of its calls had a price."""
    if config.metric is not Metric.COST or not row.unpriced_calls:
        return False
    return config.over is None or row.cost_usd <= config.over
