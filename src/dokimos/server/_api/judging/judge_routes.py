"""Routes of judge jobs: an evaluator scores a stored run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Depends, Path
from fastapi.responses import Response
from sqlalchemy import Connection, Row
from starlette.requests import Request

from dokimos.server._api.http.access import Access, Caller, access
from dokimos.server._api.http.json_body import describe_body, json_body
from dokimos.server._api.http.list_parameters import list_request
from dokimos.server._api.http.parameters import RunId, Store
from dokimos.server._api.judging.judge_schemas import ErrorAnswer, JobAnswer, JobBody
from dokimos.server._db.clock import SECOND, format_time, now
from dokimos.server._db.ids import parse_id
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.errors import InvalidRequestError
from dokimos.server._services.judging.judge_call_queries import JobSpending, spendings_of
from dokimos.server._services.judging.judge_evaluators import (
    CriteriaJudge,
    EvaluatorSpec,
    check_evaluator,
    rename_params,
)
from dokimos.server._services.judging.judge_jobs import (
    ERROR_ORDERS,
    JOB_ORDERS,
    JobStatus,
    NewJob,
    cancel_job,
    create_job,
    delete_job,
    find_job,
    list_errors,
    list_jobs,
    pause_job,
    resume_job,
    retry_job,
)
from dokimos.server._services.runs.runs import find_run

ROUTER = APIRouter(prefix="/api/v1/runs/{runId}/judge-jobs", tags=["Judge"])
DEFAULT_CONCURRENCY: Final = 8
_JOBS_PAGE: Final = list_request(JOB_ORDERS)
_ERRORS_PAGE: Final = list_request(ERROR_ORDERS, 50)


async def _read_job_id(job_id: Annotated[UUID, Path(alias="jobId")]) -> str:
    return str(job_id)


JobId = Annotated[str, Depends(_read_job_id)]
_Change = Callable[[Connection, Principal, str, str], Row[Any]]


@ROUTER.post("", status_code=201, response_model=JobAnswer, openapi_extra=describe_body(JobBody))
@access(Access.PROJECT_WRITE)
async def add_job(
    request: Request,
    response: Response,
    caller: Caller,
    store: Store,
    run_id: RunId,
    body: Annotated[JobBody, Depends(json_body(JobBody))],
) -> dict[str, Any]:
    """Have a run scored; it is EVALUATING until that is done."""

    def check_access(connection: Connection) -> None:
        run = find_run(connection, caller, run_id)
        caller.check_may_write(run.tenant_id, "The run", project=run.project_id)

    await store.read(check_access)  # before anything is told of evaluators
    new, settings = _read_job(body), request.app.state.settings.judging
    # In a thread: the first time, the library imports what the evaluator needs.
    check = partial(check_evaluator, has_connection=new.connection_id is not None)
    await asyncio.to_thread(check, new.spec, new.evaluator_name)
    answer = await store.write(
        lambda connection: _describe(connection, create_job(connection, caller, run_id, new, settings))
    )
    response.headers["Location"] = f"/api/v1/runs/{run_id}/judge-jobs/{answer['id']}"
    return answer


@ROUTER.get("", response_model=list[JobAnswer])
@access(Access.READ)
async def get_jobs(
    caller: Caller,
    store: Store,
    run_id: RunId,
    page: _JOBS_PAGE,  # type: ignore[valid-type] # made by a function, for its orders
) -> list[dict[str, Any]]:
    """List the judge jobs of a run, the oldest first; with `limit`, a page of them."""
    return await store.read(
        lambda connection: _describe_all(connection, list_jobs(connection, caller, run_id, page))
    )


@ROUTER.get("/{jobId}", response_model=JobAnswer)
@access(Access.READ)
async def get_job(caller: Caller, store: Store, run_id: RunId, job_id: JobId) -> dict[str, Any]:
    """Return a judge job and how far it is."""
    return await store.read(
        lambda connection: _describe(connection, find_job(connection, caller, run_id, job_id))
    )


@ROUTER.get("/{jobId}/errors", response_model=list[ErrorAnswer])
@access(Access.READ)
async def get_errors(
    caller: Caller,
    store: Store,
    run_id: RunId,
    job_id: JobId,
    page: _ERRORS_PAGE,  # type: ignore[valid-type] # made by a function, for its orders
) -> list[dict[str, Any]]:
    """List the items that a job could not score; `after` takes the id of an item."""
    rows = await store.read(lambda connection: list_errors(connection, caller, run_id, job_id, page))
    return [
        {
            "itemId": row.item_id,
            "ordinal": row.ordinal,
            "repetition": row.repetition,
            "kind": row.kind,
            "message": json.loads(row.message),
            "createdAt": format_time(row.created_at),
        }
        for row in rows
    ]


@ROUTER.post("/{jobId}/pause", response_model=JobAnswer)
@access(Access.PROJECT_WRITE)
async def pause(caller: Caller, store: Store, run_id: RunId, job_id: JobId) -> dict[str, Any]:
    """Let a job rest; what is under way is still stored."""
    return await _change(pause_job, caller, store, run_id, job_id)


@ROUTER.post("/{jobId}/resume", response_model=JobAnswer)
@access(Access.PROJECT_WRITE)
async def resume(caller: Caller, store: Store, run_id: RunId, job_id: JobId) -> dict[str, Any]:
    """Let a paused job go on."""
    return await _change(resume_job, caller, store, run_id, job_id)


@ROUTER.post("/{jobId}/cancel", response_model=JobAnswer)
@access(Access.PROJECT_WRITE)
async def cancel(caller: Caller, store: Store, run_id: RunId, job_id: JobId) -> dict[str, Any]:
    """End a job; the scores that it gave stay, unless they were to replace others."""
    return await _change(cancel_job, caller, store, run_id, job_id)


@ROUTER.post("/{jobId}/retry", response_model=JobAnswer)
@access(Access.PROJECT_WRITE)
async def retry(caller: Caller, store: Store, run_id: RunId, job_id: JobId) -> dict[str, Any]:
    """Let a job that has ended score the items that it has not scored."""
    return await _change(retry_job, caller, store, run_id, job_id)


@ROUTER.delete("/{jobId}", status_code=204)
@access(Access.PROJECT_WRITE)
async def remove_job(caller: Caller, store: Store, run_id: RunId, job_id: JobId) -> Response:
    """Delete a job, which ends it; the scores that it gave stay."""
    await store.write(lambda connection: delete_job(connection, caller, run_id, job_id))
    return Response(status_code=204)


async def _change(
    change: _Change, caller: Principal, store: Store, run_id: str, job_id: str
) -> dict[str, Any]:
    return await store.write(
        lambda connection: _describe(connection, change(connection, caller, run_id, job_id))
    )


def _read_job(body: JobBody) -> NewJob:
    connection_id = None
    if body.connection_id is not None:
        connection_id = parse_id(body.connection_id)
        if connection_id is None:
            raise InvalidRequestError("must be the id of an LLM connection", field="connectionId")
    budget = None if body.budget is None else body.budget.model_dump(by_alias=True, exclude_none=True)
    return NewJob(
        evaluator_name=body.evaluator_name,
        spec=_read_spec(body),
        connection_id=connection_id,
        concurrency=body.concurrency or DEFAULT_CONCURRENCY,
        budget=budget or None,
        replaces=body.replace,
    )


def _read_spec(body: JobBody) -> EvaluatorSpec:
    if body.evaluator is not None:
        given = (body.criteria, body.evaluation_params, body.threshold)
        if any(value is not None for value in given):
            raise InvalidRequestError(
                "must be left out beside criteria, evaluationParams and threshold; its own are in its params",
                field="evaluator",
            )
        return EvaluatorSpec(type=body.evaluator.type, params=rename_params(body.evaluator.params))
    if body.connection_id is None:
        raise InvalidRequestError("must not be null", field="connectionId")
    if not (body.criteria or "").strip():
        raise InvalidRequestError("must not be blank", field="criteria")
    if not body.evaluation_params:
        raise InvalidRequestError("must not be empty", field="evaluationParams")
    if not body.min_score < body.max_score:
        raise InvalidRequestError("must be less than maxScore", field="minScore")
    return EvaluatorSpec.of_criteria(
        CriteriaJudge(
            criteria=body.criteria or "",
            evaluation_params=body.evaluation_params,
            min_score=body.min_score,
            max_score=body.max_score,
            threshold=body.threshold,
        )
    )


def _describe(connection: Connection, job: Row[Any]) -> dict[str, Any]:
    (description,) = _describe_all(connection, [job])
    return description


def _describe_all(connection: Connection, jobs: Sequence[Row[Any]]) -> list[dict[str, Any]]:
    spendings = spendings_of(connection, [job.id for job in jobs])
    return [_answer(job, spendings[job.id]) for job in jobs]


def _answer(row: Row[Any], spending: JobSpending) -> dict[str, Any]:
    spec = EvaluatorSpec.load(row.evaluator)
    judge = spec.criteria
    return {
        "id": row.id,
        "runId": row.run_id,
        "connectionId": row.connection_id,
        "evaluatorName": row.evaluator_name,
        "status": row.status,
        "attemptCount": row.attempt_count,
        "lastError": row.last_error,
        "createdAt": format_time(row.created_at),
        "claimedAt": format_time(row.claimed_at),
        "completedAt": format_time(row.completed_at),
        "criteria": None if judge is None else judge.criteria,
        "evaluationParams": None if judge is None else list(judge.evaluation_params),
        "minScore": None if judge is None else judge.min_score,
        "maxScore": None if judge is None else judge.max_score,
        "threshold": None if judge is None else judge.threshold,
        "evaluator": {"type": spec.type, "params": dict(spec.params)} if judge is None else None,
        "concurrency": row.concurrency,
        "budget": None if row.budget is None else json.loads(row.budget),
        "replace": row.replaces,
        "itemCount": row.item_count,
        "scoredCount": row.scored_count,
        "errorCount": row.error_count,
        "skippedCount": row.skipped_count,
        "calls": spending.calls,
        "tokens": spending.tokens,
        "costUsd": spending.cost_usd,
        "unpricedCalls": spending.unpriced_calls,
        "lostCalls": spending.lost_calls,
        "nextAttemptAt": format_time(row.next_attempt_at) if row.status == JobStatus.PENDING else None,
        "remainingSeconds": _estimate_rest(row),
    }


def _estimate_rest(row: Row[Any]) -> float | None:
    """How long a job will still take, as fast as it has got on since it was claimed."""
    done = row.scored_count + row.error_count + row.skipped_count
    if row.status != JobStatus.CLAIMED or row.claimed_at is None or done <= row.done_before:
        return None
    rate = (done - row.done_before) / max(1, now() - row.claimed_at)
    return round(float(max(0, row.item_count - done) / rate / SECOND), 1)
