"""Judge jobs: which evaluator is to score which run; created, listed, paused, ended, deleted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, bindparam, delete, func, insert, select, update

from dokimos.judges import Budget
from dokimos.server._db.batches import in_batches
from dokimos.server._db.clock import now
from dokimos.server._db.connection_tables import LLM_CONNECTIONS
from dokimos.server._db.ids import new_id
from dokimos.server._db.judge_tables import JUDGE_ERRORS, JUDGE_JOBS, JUDGE_SCORES
from dokimos.server._db.outbox import post
from dokimos.server._db.tables import EVALUATIONS, ITEMS, RUNS
from dokimos.server._judge_settings import JudgeSettings
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.audit.audit_targets import describe_target
from dokimos.server._services.errors import ConflictError, NotFoundError
from dokimos.server._services.events import EventKind, announce_run
from dokimos.server._services.judging.judge_budgets import limits_of
from dokimos.server._services.judging.judge_call_bounds import check_prices
from dokimos.server._services.judging.judge_call_queries import forget_unusable
from dokimos.server._services.judging.judge_evaluators import EvaluatorSpec
from dokimos.server._services.judging.judge_leases import lock_jobs, release_lost
from dokimos.server._services.judging.judge_names import check_new_job, check_retry, has_yet_to_replace
from dokimos.server._services.judging.judged_runs import ACTIVE, hold_run, release_run
from dokimos.server._services.list_pages import ListPage, SortKeys, read_page
from dokimos.server._services.projects.names import check_name
from dokimos.server._services.runs.item_scores import any_of_item
from dokimos.server._services.runs.runs import find_run


class JobStatus(StrEnum):
    """How far a job is."""

    PENDING = "PENDING"
    CLAIMED = "CLAIMED"
    """A server works on it."""
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    PAUSED = "PAUSED"
    CANCELLED = "CANCELLED"


@dataclass(frozen=True, slots=True)
class JobsChanged:
    """That a worker should look at the jobs; posted with the transaction that changes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job to create."""

    evaluator_name: str
    """Of the scores."""
    spec: EvaluatorSpec
    connection_id: str | None
    concurrency: int
    budget: Mapping[str, float] | None = None
    replaces: bool = False
    """Whether its scores take the place of those that an earlier job gave under the same name."""


JOB_ORDERS: Final = SortKeys(
    {"createdAt": JUDGE_JOBS.c.created_at, "evaluatorName": JUDGE_JOBS.c.evaluator_name},
    ties=(JUDGE_JOBS.c.created_at, JUDGE_JOBS.c.id),
    default="createdAt",
)
ERROR_ORDERS: Final = SortKeys(
    {"ordinal": ITEMS.c.ordinal}, ties=(ITEMS.c.ordinal, ITEMS.c.repetition), default="ordinal"
)
_JOB: Final = JUDGE_JOBS.c


def create_job(
    connection: Connection, principal: Principal, run_id: str, new: NewJob, settings: JudgeSettings
) -> Row[Any]:
    """Store a job that scores a run, which is EVALUATING from then on.

    Raises:
        ConflictError: The name is taken on this run, its scores are of another evaluator, there is nothing to
            replace, or a budget in dollars cannot hold, since nobody knows what the model costs.
        NotFoundError: There is no such run, or no such connection, that the caller sees.
    """
    run = _find_writable_run(connection, principal, run_id)
    check_name(new.evaluator_name, "evaluatorName")
    _check_connection(connection, principal, new, settings)
    check_new_job(connection, run_id, new.evaluator_name, new.spec, replaces=new.replaces)
    moment, job_id = now(), new_id()
    tenant = principal.tenant if principal.is_restricted else run.tenant_id
    connection.execute(
        insert(JUDGE_JOBS).values(
            id=job_id,
            run_id=run_id,
            project_id=run.project_id,
            tenant_id=tenant,
            connection_id=new.connection_id,
            evaluator_name=new.evaluator_name,
            evaluator=new.spec.dump(),
            replaces=new.replaces,
            concurrency=new.concurrency,
            budget=None if new.budget is None else json.dumps(dict(new.budget)),
            status=JobStatus.PENDING,
            created_by=principal.id,
            created_at=moment,
            scheduled_at=moment,
            next_attempt_at=moment,
            item_count=run.item_count,
            scored_count=0 if new.replaces else _count_scored(connection, run_id, new.evaluator_name),
        )
    )
    hold_run(connection, run)
    describe_target(connection, kind="judge-job", id=job_id, name=new.evaluator_name, tenant=tenant)
    return _announce(connection, principal, run_id, job_id)


def list_jobs(
    connection: Connection, principal: Principal, run_id: str, page: ListPage
) -> Sequence[Row[Any]]:
    """Return the jobs of a run, the oldest first.

    Raises:
        NotFoundError: There is no such run that the caller sees.
    """
    find_run(connection, principal, run_id)
    rows = select(JUDGE_JOBS).where(_JOB.run_id == run_id, principal.sees(JUDGE_JOBS))
    return read_page(connection, rows, page, _JOB.id)


def find_job(connection: Connection, principal: Principal, run_id: str, job_id: str) -> Row[Any]:
    """Return a job of a run.

    Raises:
        NotFoundError: There is none that the caller sees.
    """
    find_run(connection, principal, run_id)
    query = select(JUDGE_JOBS).where(_JOB.id == job_id, _JOB.run_id == run_id, principal.sees(JUDGE_JOBS))
    job = connection.execute(query).first()
    if job is None:
        raise NotFoundError(f"Judge job not found: {job_id}")
    return job


def list_errors(
    connection: Connection, principal: Principal, run_id: str, job_id: str, page: ListPage
) -> Sequence[Row[Any]]:
    """Return the items that a job could not score, and why, in the order of the items.

    Raises:
        NotFoundError: There is no such job that the caller sees.
        InvalidRequestError: The page would go on behind an item that the list does not have.
    """
    find_job(connection, principal, run_id, job_id)
    rows = (
        select(JUDGE_ERRORS, ITEMS.c.ordinal, ITEMS.c.repetition)
        .join(ITEMS, ITEMS.c.id == JUDGE_ERRORS.c.item_id)
        .where(JUDGE_ERRORS.c.job_id == job_id)
    )
    return read_page(connection, rows, page, ITEMS.c.id)


def errors_of_items(
    connection: Connection, principal: Principal, run_id: str, item_ids: Sequence[str]
) -> dict[str, list[Row[Any]]]:
    """Return why jobs of a run could not score some of its items, by the ids of these."""
    is_own = (_JOB.run_id == run_id, principal.sees(JUDGE_JOBS))
    # Few runs have jobs, and fewer have some with errors.
    with_errors = select(_JOB.id).where(*is_own, _JOB.error_count + _JOB.skipped_count > 0)
    job_ids = connection.execute(with_errors).scalars().all()
    errors: dict[str, list[Row[Any]]] = {}
    for batch in in_batches(item_ids) if job_ids else ():
        query = (
            select(JUDGE_ERRORS, _JOB.evaluator_name)
            .join(JUDGE_JOBS, _JOB.id == JUDGE_ERRORS.c.job_id)
            .where(JUDGE_ERRORS.c.item_id.in_(batch), _JOB.id.in_(job_ids))
            .order_by(_JOB.created_at, _JOB.id)
        )
        for row in connection.execute(query):
            errors.setdefault(row.item_id, []).append(row)
    return errors


def pause_job(connection: Connection, principal: Principal, run_id: str, job_id: str) -> Row[Any]:
    """Let a job rest: no item is begun any more, and what is under way is still stored.

    Raises:
        ConflictError: It is at its end.
    """
    job = _find_writable_job(connection, principal, run_id, job_id)
    if job.status == JobStatus.PAUSED:
        return job
    _check_is_active(job, "paused")
    # The lease stays: whoever works on the job stores what is under way, and gives it up then.
    connection.execute(update(JUDGE_JOBS).where(_JOB.id == job_id).values(status=JobStatus.PAUSED))
    return _announce(connection, principal, run_id, job_id)


def resume_job(connection: Connection, principal: Principal, run_id: str, job_id: str) -> Row[Any]:
    """Let a job that was paused go on.

    Raises:
        ConflictError: It is not paused.
    """
    job = _find_writable_job(connection, principal, run_id, job_id)
    if job.status in (JobStatus.PENDING, JobStatus.CLAIMED):
        return job
    if job.status != JobStatus.PAUSED:
        raise ConflictError(f"The job is {job.status}; only a paused job is resumed")
    if job.lease is None:
        _queue(connection, job_id)
    else:  # whoever works on it may not even have noticed the pause
        connection.execute(update(JUDGE_JOBS).where(_JOB.id == job_id).values(status=JobStatus.CLAIMED))
    return _announce(connection, principal, run_id, job_id)


def cancel_job(connection: Connection, principal: Principal, run_id: str, job_id: str) -> Row[Any]:
    """End a job; the scores that it gave stay, unless they were to replace others.

    Raises:
        ConflictError: It is at its end.
    """
    job = _find_writable_job(connection, principal, run_id, job_id)
    if job.status == JobStatus.CANCELLED:
        return job
    _check_is_active(job, "cancelled")
    values = {"status": JobStatus.CANCELLED, "lease": None, "completed_at": now()}
    connection.execute(update(JUDGE_JOBS).where(_JOB.id == job_id).values(values))
    connection.execute(delete(JUDGE_SCORES).where(JUDGE_SCORES.c.job_id == job_id))
    release_lost(connection, job_id, None)
    release_run(connection, run_id)
    return _announce(connection, principal, run_id, job_id)


def retry_job(connection: Connection, principal: Principal, run_id: str, job_id: str) -> Row[Any]:
    """Let a job that is at its end score what it has not scored, and nothing else.

    Raises:
        ConflictError: It is not at its end, nothing is left for it, another job has taken its place, or the
            scores under its name are of another evaluator by now.
    """
    job = _find_writable_job(connection, principal, run_id, job_id)
    if job.status in ACTIVE:
        raise ConflictError(f"The job is {job.status}; only a job that has ended is retried")
    check_retry(connection, job)
    replaces = has_yet_to_replace(job)
    scored = 0 if replaces else _count_scored(connection, run_id, job.evaluator_name)
    run = find_run(connection, principal, run_id)
    if scored + job.skipped_count >= run.item_count and job.status == JobStatus.SUCCEEDED:
        raise ConflictError("Nothing is left to score")
    for table in (JUDGE_ERRORS, JUDGE_SCORES):
        connection.execute(delete(table).where(table.c.job_id == job_id))
    forget_unusable(connection, job_id)
    counts = {"scored_count": scored, "error_count": 0, "skipped_count": 0, "item_count": run.item_count}
    counts["replaces"] = replaces  # one that has replaced them adds to its own scores
    fresh = {"attempt_count": 0, "lost_count": 0, "last_error": None, "completed_at": None, "lease": None}
    connection.execute(update(JUDGE_JOBS).where(_JOB.id == job_id).values(**counts, **fresh))
    _queue(connection, job_id)
    hold_run(connection, run)
    return _announce(connection, principal, run_id, job_id)


def delete_job(connection: Connection, principal: Principal, run_id: str, job_id: str) -> None:
    """Delete a job, which ends it; the scores that it gave stay.

    Raises:
        NotFoundError: There is none that the caller sees.
    """
    job = _find_writable_job(connection, principal, run_id, job_id)
    lock_jobs(connection, _JOB.id == job_id)
    release_lost(connection, job_id, None)
    connection.execute(delete(JUDGE_JOBS).where(_JOB.id == job_id))
    release_run(connection, run_id)
    run = find_run(connection, principal, run_id)
    announce_run(connection, EventKind.JUDGE_JOB_DELETED, run, {"jobId": job_id}, tenants=(job.tenant_id,))


def release_connection(connection: Connection, connection_id: str) -> None:
    """Delete the jobs of a connection that is being deleted; the scores that they gave stay."""
    runs = select(_JOB.run_id).where(_JOB.connection_id == connection_id).distinct().order_by(_JOB.run_id)
    run_ids = connection.execute(runs).scalars().all()
    for run_id in run_ids:  # locked first, as everywhere, so that no two transactions wait for each other
        connection.execute(select(RUNS.c.id).where(RUNS.c.id == run_id).with_for_update())
    for job_id in lock_jobs(connection, _JOB.connection_id == connection_id):
        release_lost(connection, job_id, None)
    connection.execute(delete(JUDGE_JOBS).where(_JOB.connection_id == connection_id))
    for run_id in run_ids:
        release_run(connection, run_id)


def announce_job(connection: Connection, job: Row[Any], *, is_progress: bool = False) -> None:
    """Tell, after the commit, how a job stands; `is_progress` where it only got on."""
    run = connection.execute(_FIND_RUN, {"of_run": job.run_id}).first()
    if run is None:
        return
    data = {
        "jobId": job.id,
        "status": job.status,
        "itemCount": job.item_count,
        "scoredCount": job.scored_count,
        "errorCount": job.error_count,
    }
    announce_run(
        connection,
        EventKind.JUDGE_JOB_UPDATED,
        run,
        data,
        tenants=(job.tenant_id,),
        is_progress=is_progress,
    )


_FIND_RUN: Final[Select[Any]] = select(
    RUNS.c.id, RUNS.c.tenant_id, RUNS.c.project_id, RUNS.c.experiment_id
).where(RUNS.c.id == bindparam("of_run"))
"""What an event says of a run."""


def _find_writable_run(connection: Connection, principal: Principal, run_id: str) -> Row[Any]:
    run = find_run(connection, principal, run_id, for_update=True)
    principal.check_may_write(run.tenant_id, "The run", project=run.project_id)
    return run


def _find_writable_job(connection: Connection, principal: Principal, run_id: str, job_id: str) -> Row[Any]:
    _find_writable_run(connection, principal, run_id)  # locks it; who stores results does so as well
    return find_job(connection, principal, run_id, job_id)


def _check_connection(
    connection: Connection, principal: Principal, new: NewJob, settings: JudgeSettings
) -> None:
    if new.connection_id is None:
        return
    is_own = (LLM_CONNECTIONS.c.id == new.connection_id, principal.sees(LLM_CONNECTIONS))
    model = connection.execute(select(LLM_CONNECTIONS).where(*is_own)).first()
    if model is None:
        raise NotFoundError(f"LLM connection not found: {new.connection_id}")
    from dokimos.server._services.models.model_access import (
        prices_of,  # it knows who deletes jobs, as connections do
    )

    limits = limits_of(settings, read_budget(new.budget))
    check_prices(limits, model.name, model.model, prices_of(model))


def read_budget(stored: Mapping[str, Any] | None) -> Budget | None:
    """Return the budget of a job, None for one without.

    Raises:
        ConfigurationError: It says nothing.
    """
    if stored is None:
        return None
    return Budget(
        max_cost_usd=stored.get("maxCostUsd"),
        max_tokens=stored.get("maxTokens"),
        max_calls=stored.get("maxCalls"),
    )


def _check_is_active(job: Row[Any], what: str) -> None:
    if job.status not in ACTIVE:
        raise ConflictError(f"The job is {job.status}, so it cannot be {what}")


def _count_scored(connection: Connection, run_id: str, name: str) -> int:
    """How many items of a run have a score of an evaluator."""
    has_score = any_of_item(EVALUATIONS.c.item_id, EVALUATIONS.c.evaluator == name)
    query = select(func.count()).select_from(ITEMS).where(ITEMS.c.run_id == run_id, has_score)
    count: int = connection.execute(query).scalar_one()
    return count


def _queue(connection: Connection, job_id: str) -> None:
    moment = now()
    values = {"status": JobStatus.PENDING, "scheduled_at": moment, "next_attempt_at": moment}
    connection.execute(update(JUDGE_JOBS).where(_JOB.id == job_id).values(values))


def _announce(connection: Connection, principal: Principal, run_id: str, job_id: str) -> Row[Any]:
    job = find_job(connection, principal, run_id, job_id)
    announce_job(connection, job)
    post(connection, JobsChanged())
    return job
