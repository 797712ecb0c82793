"""The jobs that rules make of spans: inserted once each, taken in batches, ended with a score or an error."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, Select, Table, bindparam, delete, func, select, update

from dokimos.server._db.batches import in_batches
from dokimos.server._db.clock import format_time, now
from dokimos.server._db.ids import new_ids
from dokimos.server._db.inserts import INSERTS
from dokimos.server._db.trace_tables import (
    TRACE_EVAL_CHANCES,
    TRACE_EVAL_CONFIGS,
    TRACE_EVAL_JOBS,
    TRACES,
)
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.judging.judge_leases import LeaseLost
from dokimos.server._services.judging.judge_results import ItemError, ItemOutcome, ItemScore
from dokimos.server._services.online.enabled_rules import config_id
from dokimos.server._services.online.session_chances import take_first_chance

SESSION: Final = "session/"
"""What the target of a session begins with."""
MAX_MESSAGE: Final = 2000
_JOB: Final = TRACE_EVAL_JOBS.c


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvalJob:
    """A job to insert."""

    rule_id: str
    target: str
    """What is scored: one job of a rule has it."""
    trace: str
    """The id of the row of the trace."""
    span_id: str
    tenant: str | None
    project_id: str
    evaluator_name: str
    config: str
    probability: float
    stratum: str | None
    observed_at: int


@dataclass(frozen=True, slots=True)
class StoredJobs:
    """What became of jobs that were to be inserted."""

    new: int = 0
    """Those that were not there yet."""
    raised: tuple[NewEvalJob, ...] = ()
    """Those that were, and have their higher probability from now on."""

    def __add__(self, other: StoredJobs) -> StoredJobs:
        return StoredJobs(self.new + other.new, self.raised + other.raised)


def insert_jobs(connection: Connection, jobs: Sequence[NewEvalJob]) -> StoredJobs:
    """Insert jobs that are not there yet.

    One that is there, and that the rule would sample with a higher probability now, has that from now on:
    whatever is sampled with a lower one is sampled with it too, and all that it adds counts with it.
    """
    if not jobs:
        return StoredJobs()
    insert = INSERTS[connection.dialect.name]
    configs = {config_id(job.config): job.config for job in jobs}
    for key in sorted(configs):  # in one order in all servers
        row = insert(TRACE_EVAL_CONFIGS).values(id=key, config=configs[key])
        connection.execute(row.on_conflict_do_nothing())
    moment, count, raised = now(), 0, list[NewEvalJob]()
    ordered = sorted(jobs, key=lambda job: (job.rule_id, job.target))
    for job, job_id in zip(ordered, new_ids(len(ordered)), strict=True):
        row = insert(TRACE_EVAL_JOBS).values(
            id=job_id,
            rule_id=job.rule_id,
            target=job.target,
            trace=job.trace,
            span_id=job.span_id,
            tenant_id=job.tenant,
            project_id=job.project_id,
            evaluator_name=job.evaluator_name,
            config=config_id(job.config),
            probability=job.probability,
            stratum=job.stratum,
            status="PENDING",
            attempt_count=0,
            observed_at=job.observed_at,
            created_at=moment,
        )
        if connection.execute(row.on_conflict_do_nothing()).rowcount:
            count += 1
            _place_session(connection, job)
        elif _raise_probability(connection, job):
            raised.append(job)
    return StoredJobs(count, tuple(raised))


def _place_session(connection: Connection, job: NewEvalJob) -> None:
    """Have a session that was passed over before count at the time of its first chance."""
    if not job.target.startswith(SESSION):
        return
    first = take_first_chance(connection, job.rule_id, job.target)
    if first is not None:
        own = (_JOB.rule_id == job.rule_id, _JOB.target == job.target)
        change = update(TRACE_EVAL_JOBS).where(*own)
        connection.execute(change.values(observed_at=first, first_probability=0.0))


def _raise_probability(connection: Connection, job: NewEvalJob) -> bool:
    is_lower = (
        _JOB.rule_id == job.rule_id,
        _JOB.target == job.target,
        _JOB.probability < job.probability,
    )
    values: dict[str, Any] = {"probability": job.probability, "stratum": job.stratum}
    if job.target.startswith(SESSION):
        values["first_probability"] = func.coalesce(_JOB.first_probability, _JOB.probability)
    change = update(TRACE_EVAL_JOBS).where(*is_lower).values(values)
    return connection.execute(change).rowcount > 0


def read_eval_jobs(
    connection: Connection, trace_row_id: str, span_id: str | None = None
) -> list[dict[str, Any]]:
    """Return the results of online evaluation of a trace, or of one span, as its page shows them.

    The oldest come first.
    """
    query = select(TRACE_EVAL_JOBS).where(_JOB.trace == trace_row_id).order_by(_JOB.id)
    if span_id is not None:
        query = query.where(_JOB.span_id == span_id)
    return [
        {
            "id": row.id,
            "spanId": row.span_id,
            "ruleId": row.rule_id,
            "evaluatorName": row.evaluator_name,
            "status": row.status,
            "score": row.score,
            "success": row.success,
            "reason": row.reason if row.reason is None else json.loads(row.reason),
            "attemptCount": row.attempt_count,
            "lastError": row.last_error if row.last_error is None else json.loads(row.last_error),
            "createdAt": format_time(row.created_at),
            "completedAt": format_time(row.completed_at),
        }
        for row in connection.execute(query)
    ]


def list_queued_rules(connection: Connection, after: str | None = None) -> list[str]:
    """Return the rules that have jobs which nobody works on."""
    query = select(_JOB.rule_id).where(*_IS_QUEUED).distinct().order_by(_JOB.rule_id)
    if after is not None:
        query = query.where(_JOB.rule_id > after)
    return list(connection.execute(query).scalars())


def list_rules_with_jobs(connection: Connection) -> list[str]:
    """Return all rules that have jobs or have passed sessions over, each found by one look into an index."""
    return sorted({*_list_rules(connection, TRACE_EVAL_JOBS), *_list_rules(connection, TRACE_EVAL_CHANCES)})


def _list_rules(connection: Connection, table: Table) -> list[str]:
    column, rules = table.c.rule_id, list[str]()
    while True:
        query = select(column).order_by(column).limit(1)
        if rules:
            query = query.where(column > rules[-1])
        rule = connection.execute(query).scalar()
        if rule is None:
            return rules
        rules.append(rule)


def remove_jobs_of_rule(connection: Connection, rule_id: str, most: int) -> int:
    """Remove some jobs of a rule that is gone, and what it has passed over; return how many, 0 at the end."""
    chosen = select(_JOB.id).where(_JOB.rule_id == rule_id).limit(most)
    count = connection.execute(delete(TRACE_EVAL_JOBS).where(_JOB.id.in_(chosen))).rowcount
    chance = TRACE_EVAL_CHANCES.c
    passed = select(chance.target).where(chance.rule_id == rule_id).limit(most)
    removed = delete(TRACE_EVAL_CHANCES).where(chance.rule_id == rule_id, chance.target.in_(passed))
    return count + connection.execute(removed).rowcount


def assign_jobs(connection: Connection, rule_id: str, batch: str, lease: str, most: int) -> int:
    """Put queued jobs of a rule into a batch, the oldest first, all of one config; return how many."""
    queued = select(_JOB.id, _JOB.config).where(_JOB.rule_id == rule_id, *_IS_QUEUED).order_by(_JOB.id)
    rows = connection.execute(queued.limit(most).with_for_update(skip_locked=True)).all()
    ids = [row.id for row in rows if row.config == rows[0].config]
    for part in in_batches(ids):
        change = update(TRACE_EVAL_JOBS).where(_JOB.id.in_(part))
        connection.execute(change.values(status="CLAIMED", batch=batch, lease=lease))
    return len(ids)


def take_over_jobs(connection: Connection, batch: str, lease: str) -> Sequence[Row[Any]]:
    """Return the jobs of a batch that have not ended, which are under this lease from now on."""
    is_open = (_JOB.batch == batch, _JOB.status.in_(("PENDING", "CLAIMED")))
    change = update(TRACE_EVAL_JOBS).where(*is_open).values(status="CLAIMED", lease=lease)
    connection.execute(change)
    query = (
        select(TRACE_EVAL_JOBS, TRACE_EVAL_CONFIGS.c.config.label("config_text"))
        .join(TRACE_EVAL_CONFIGS, TRACE_EVAL_CONFIGS.c.id == _JOB.config)
        .where(*is_open)
        .order_by(_JOB.id)
    )
    return connection.execute(query).all()


def store_job_outcomes(
    connection: Connection, lease: str, outcomes: Iterable[ItemOutcome], attempt: int
) -> None:
    """Store scores and errors of jobs that are still under a lease; `item_id` is the id of the job.

    Raises:
        LeaseLost: None of them is.
    """
    count = total = 0
    for each in outcomes:
        total += 1
        is_own = (_JOB.id == each.item_id, _JOB.lease == lease)
        change = update(TRACE_EVAL_JOBS).where(*is_own).values(_values_of(each, attempt))
        count += connection.execute(change).rowcount
    if total and not count and not _has_any(connection, lease):
        raise LeaseLost("The batch of trace eval jobs is not this server's any more.")


def put_off_jobs(
    connection: Connection, lease: str, errors: Mapping[str, str], attempt: int, problem: str
) -> None:
    """Leave the jobs of a batch that have not ended to its next attempt.

    Args:
        errors: By their ids, why jobs were not scored; `problem` is why the others were not.
        attempt: How often they have been tried.
    """
    _write_errors(connection, lease, errors, attempt)
    values: dict[str, Any] = {"status": "PENDING", "lease": None, "attempt_count": attempt}
    if problem:
        values["last_error"] = func.coalesce(_JOB.last_error, _write_message(problem))
    connection.execute(update(TRACE_EVAL_JOBS).where(*_is_left(lease)).values(values))


def fail_jobs(
    connection: Connection, lease: str, errors: Mapping[str, str], error: str, attempt: int
) -> None:
    """End the jobs of a batch that have not ended, each with its own error or else with one for all."""
    _write_errors(connection, lease, errors, attempt)
    values: dict[str, Any] = {
        "status": "FAILED",
        "error_kind": "unavailable" if errors else "error",
        "attempt_count": attempt,
        "completed_at": now(),
        "lease": None,
    }
    if error:
        message = _write_message(error)
        values["last_error"] = func.coalesce(_JOB.last_error, message) if errors else message
    connection.execute(update(TRACE_EVAL_JOBS).where(*_is_left(lease)).values(values))


def read_scores(
    connection: Connection, principal: Principal, rule_id: str, times: tuple[int, int], most: int
) -> Sequence[Row[Any]]:
    """Return what became of the jobs of a rule whose spans came within some time, the latest first."""
    columns = (_JOB.target, _JOB.trace, _JOB.status, _JOB.score, _JOB.success, _JOB.probability)
    query: Select[Any] = (
        select(*columns)
        .where(
            _JOB.rule_id == rule_id,
            _JOB.observed_at >= times[0],
            _JOB.observed_at < times[1],
            principal.sees(TRACE_EVAL_JOBS),
        )
        .order_by(_JOB.observed_at.desc())
        .limit(most)
    )
    return connection.execute(query).all()


def clear_match_due(connection: Connection, trace: Row[Any], quiet_due_at: int | None) -> None:
    """Note that rules were held against the spans of a trace, unless more have come since it was read."""
    is_same = (
        TRACES.c.id == trace.id,
        TRACES.c.updated_at == trace.updated_at,
        TRACES.c.span_count == trace.span_count,
    )
    values: dict[str, Any] = {"match_due_at": None}
    if quiet_due_at is not None:
        values["quiet_due_at"] = quiet_due_at
    connection.execute(update(TRACES).where(*is_same).values(values))


def set_quiet_due(connection: Connection, trace: Row[Any], quiet_due_at: int | None) -> None:
    """Say when waiting rules are held against a trace, None for not again before more comes."""
    change = update(TRACES).where(TRACES.c.id == trace.id, TRACES.c.quiet_due_at == trace.quiet_due_at)
    connection.execute(change.values(quiet_due_at=quiet_due_at))


_IS_QUEUED: Final = (
    # As literals, so that the index of queued jobs is used.
    _JOB.status == bindparam("queued", "PENDING", literal_execute=True),
    _JOB.batch.is_(None),
)


def _is_left(lease: str) -> tuple[ColumnElement[bool], ...]:
    return (_JOB.lease == lease, _JOB.status == "CLAIMED")


def _write_message(message: str) -> str:
    return json.dumps(message[:MAX_MESSAGE])


def _write_errors(connection: Connection, lease: str, errors: Mapping[str, str], attempt: int) -> None:
    for job_id, message in errors.items():
        change = update(TRACE_EVAL_JOBS).where(_JOB.id == job_id, _JOB.lease == lease)
        connection.execute(change.values(attempt_count=attempt, last_error=_write_message(message)))


def _has_any(connection: Connection, lease: str) -> bool:
    return connection.execute(select(_JOB.id).where(_JOB.lease == lease).limit(1)).first() is not None


def _values_of(outcome: ItemOutcome, attempt: int) -> dict[str, Any]:
    common = {"attempt_count": attempt, "completed_at": now(), "lease": None}
    if isinstance(outcome, ItemScore):
        return {
            "status": "SUCCEEDED",
            "score": outcome.score,
            "success": outcome.success,
            "reason": outcome.reason,
            "label": outcome.label,
            "last_error": None,
            **common,
        }
    assert isinstance(outcome, ItemError)
    return {
        "status": "FAILED",
        "error_kind": outcome.kind,
        "last_error": json.dumps(outcome.message[:MAX_MESSAGE]),
        **common,
    }
