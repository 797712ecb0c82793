"""Routes of the ledger of judging: the calls that judge jobs have made, what they cost, and the budgets."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Depends, Query
from sqlalchemy import Row
from starlette.requests import Request

from dokimos.judges import Budget
from dokimos.server._api.http.access import Access, Caller, access
from dokimos.server._api.http.list_parameters import list_request
from dokimos.server._api.http.parameters import PathName, Store
from dokimos.server._api.judging.judge_call_schemas import (
    JudgeBudgetsAnswer,
    JudgeCallAnswer,
    JudgeCallTotals,
)
from dokimos.server._db.clock import format_time, to_microseconds
from dokimos.server._db.database import Lane
from dokimos.server._services.judging.judge_budgets import NANO
from dokimos.server._services.judging.judge_call_lists import (
    CALL_ORDERS,
    CallFilter,
    CallState,
    list_calls,
    state_of,
    sum_calls,
)
from dokimos.server._services.judging.judge_spending import MAX_DAYS, Spent, read_spending

ROUTER = APIRouter(prefix="/api/v1/projects/{name}", tags=["Judge"])
_PAGE: Final = list_request(CALL_ORDERS, 100)


async def _read_filter(
    job_id: Annotated[UUID | None, Query(alias="jobId")] = None,
    run_id: Annotated[UUID | None, Query(alias="runId")] = None,
    connection_id: Annotated[UUID | None, Query(alias="connectionId")] = None,
    state: Annotated[CallState | None, Query(description="What became of the call.")] = None,
    since: Annotated[datetime | None, Query(alias="from", description="The earliest time.")] = None,
    until: Annotated[datetime | None, Query(alias="to", description="The first time too late.")] = None,
) -> CallFilter:
    return CallFilter(
        job_id=None if job_id is None else str(job_id),
        run_id=None if run_id is None else str(run_id),
        connection_id=None if connection_id is None else str(connection_id),
        state=state,
        since=None if since is None else to_microseconds(since),
        until=None if until is None else to_microseconds(until),
    )


_Filter = Annotated[CallFilter, Depends(_read_filter)]


@ROUTER.get("/judge-calls", response_model=list[JudgeCallAnswer])
@access(Access.READ)
async def get_judge_calls(
    caller: Caller,
    store: Store,
    name: PathName,
    chosen: _Filter,
    page: _PAGE,  # type: ignore[valid-type] # made by a function, for its orders
) -> list[dict[str, Any]]:
    """List the calls to models that the judge jobs of a project have made, the newest first."""
    rows = await store.read(lambda connection: list_calls(connection, caller, name, chosen, page))
    return [_answer(row) for row in rows]


@ROUTER.get("/judge-calls/totals", response_model=JudgeCallTotals)
@access(Access.READ)
async def get_judge_call_totals(
    caller: Caller, store: Store, name: PathName, chosen: _Filter
) -> dict[str, Any]:
    """Return what the calls that the filters choose come to."""
    totals = await store.read(lambda connection: sum_calls(connection, caller, name, chosen), Lane.SEARCH)
    return {
        "calls": totals.calls,
        "tokens": totals.tokens,
        "costUsd": totals.cost_usd,
        "unpricedCalls": totals.unpriced_calls,
        "inFlight": totals.rows[CallState.IN_FLIGHT],
        **{state.lower(): count for state, count in totals.rows.items() if state is not CallState.IN_FLIGHT},
    }


@ROUTER.get("/judge-budgets", response_model=JudgeBudgetsAnswer)
@access(Access.READ)
async def get_judge_budgets(
    request: Request,
    caller: Caller,
    store: Store,
    name: PathName,
    days: Annotated[int, Query(ge=1, le=MAX_DAYS, description="So many days, today included.")] = 30,
) -> dict[str, Any]:
    """Return what judging a project has cost by day and by job, beside the budgets that hold it."""
    spending = await store.read(lambda connection: read_spending(connection, caller, name, days))
    return {
        "today": spending.today,
        "isComplete": spending.is_complete,
        "limitPerDay": _describe_budget(request.app.state.settings.judging.project_budget_per_day),
        "days": [{"day": day, **_describe_spent(spent)} for day, spent in spending.days],
        "jobs": [
            {
                "jobId": job.id,
                "runId": job.run_id,
                "evaluatorName": job.evaluator_name,
                "status": job.status,
                "createdAt": format_time(job.created_at),
                "budget": None if job.budget is None else json.loads(job.budget),
                **_describe_spent(spent),
            }
            for job, spent in spending.jobs
        ],
    }


def _answer(row: Row[Any]) -> dict[str, Any]:
    answered = row.answered_at
    return {
        "id": row.id,
        "createdAt": format_time(row.created_at),
        "answeredAt": format_time(answered),
        "durationMs": None if answered is None else max(0, answered - row.created_at) / 1000,
        "state": state_of(row.status),
        "problem": row.problem,
        "calls": row.calls,
        "tokens": row.tokens,
        "costUsd": None if row.nano_usd is None else row.nano_usd / NANO,
        "hasReply": row.has_reply,
        "judge": row.identity,
        "jobId": row.job_id,
        "evaluatorName": row.evaluator_name,
        "runId": row.run_id,
        "runName": row.run_name,
        "connectionId": row.connection_id,
        "connectionName": row.connection_name,
        "model": row.model,
    }


def _describe_spent(each: Spent) -> dict[str, Any]:
    spent, reserved = each.spent, each.reserved
    return {
        "calls": spent.calls,
        "tokens": spent.tokens,
        "costUsd": None if each.unpriced_calls >= spent.calls else spent.nano_usd / NANO,
        "unpricedCalls": each.unpriced_calls,
        "lostCalls": each.lost_calls,
        "reservedCalls": reserved.calls,
        "reservedTokens": reserved.tokens,
        "reservedCostUsd": reserved.nano_usd / NANO,
    }


def _describe_budget(budget: Budget | None) -> dict[str, Any] | None:
    if budget is None:
        return None
    limits = {
        "maxCostUsd": budget.max_cost_usd,
        "maxTokens": budget.max_tokens,
        "maxCalls": budget.max_calls,
    }
    return {name: limit for name, limit in limits.items() if limit is not None}
