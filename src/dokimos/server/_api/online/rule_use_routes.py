"""Routes of what rules do with stored traces: trials, back-fills, and what the scores say."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from functools import partial
from types import SimpleNamespace
from typing import Annotated, Any, Final, cast

from fastapi import APIRouter, Depends, Query
from sqlalchemy import Connection, Row, select
from starlette.requests import Request

from dokimos.server._api.http.access import Access, Caller, access
from dokimos.server._api.http.json_body import describe_body, json_body
from dokimos.server._api.http.parameters import Store
from dokimos.server._api.online.rule_routes import ProjectId, RuleId, check_rule
from dokimos.server._api.online.rule_schemas import (
    BackFillAnswer,
    BackFillBody,
    DryRunAnswer,
    DryRunBody,
    RuleStatsAnswer,
)
from dokimos.server._db.clock import DAY, format_time, now, parse_time
from dokimos.server._db.connection_tables import LLM_CONNECTIONS
from dokimos.server._db.database import Database, Lane
from dokimos.server._db.ids import new_id, time_of_id
from dokimos.server._services.errors import InvalidRequestError
from dokimos.server._services.judging.judge_evaluators import EvaluatorSpec
from dokimos.server._services.models.model_access import prices_of
from dokimos.server._services.online.back_fills import (
    OTHERS_AT_ONCE,
    TrialStep,
    create_back_fill,
    list_back_fills,
    measure_texts,
    try_rule,
)
from dokimos.server._services.online.cost_forecast import forecast_cost
from dokimos.server._services.online.enabled_rules import make_rule
from dokimos.server._services.online.estimates import RuleEstimate, summarize_jobs
from dokimos.server._services.online.eval_rules import (
    RuleDraft,
    check_draft,
    check_may_add_rules,
    find_rule,
    values_of,
)
from dokimos.server._services.online.matched_spans import read_traces
from dokimos.server._services.online.rule_reviews import ReviewStats, summarize_reviews
from dokimos.server._services.online.trace_jobs import NewEvalJob, read_scores

ROUTER = APIRouter(prefix="/api/v1/projects/{projectId}/trace-eval-rules", tags=["Online evaluation"])
_MAX_TRIED: Final = 2000
"""Traces that a trial looks at."""
_MAX_OTHERS: Final = 20_000
"""Traces of other projects that a trial looks at for spans of the rule's project."""
_MEASURED: Final = 50
_EXAMPLES: Final = 10
_MAX_SCORES: Final = 100_000
_WEEK: Final = 7 * DAY
From = Annotated[str | None, Query(alias="from", description="By default a week ago.")]
To = Annotated[str | None, Query(description="By default now.")]


@ROUTER.post("/dry-run", response_model=DryRunAnswer, openapi_extra=describe_body(DryRunBody))
@access(Access.PROJECT_WRITE)
async def try_new_rule(
    request: Request,
    caller: Caller,
    store: Store,
    project_id: ProjectId,
    body: Annotated[DryRunBody, Depends(json_body(DryRunBody))],
) -> dict[str, Any]:
    """Say what a rule would match of the stored traces, and what it would cost; nothing is scored."""
    project = await store.read(lambda connection: check_may_add_rules(connection, caller, project_id))
    draft, settings = await check_rule(body), request.app.state.settings.judging
    await store.read(lambda connection: check_draft(connection, caller, draft, settings))
    times = _read_times(body.from_, body.to)
    tenant = caller.tenant if caller.is_restricted else project.tenant_id
    return await _Trial(request.app.state.traces, store, draft, project_id, tenant, times).run()


@ROUTER.post(
    "/{ruleId}/back-fill",
    status_code=202,
    response_model=BackFillAnswer,
    openapi_extra=describe_body(BackFillBody),
)
@access(Access.PROJECT_WRITE)
async def add_back_fill(
    caller: Caller,
    store: Store,
    project_id: ProjectId,
    rule_id: RuleId,
    body: Annotated[BackFillBody, Depends(json_body(BackFillBody))],
) -> dict[str, Any]:
    """Have a rule score stored traces too, with the sampling and the budget that it has."""
    times = _read_times(body.from_, body.to)
    return _answer_back_fill(
        await store.write(lambda connection: create_back_fill(connection, caller, project_id, rule_id, times))
    )


@ROUTER.get("/{ruleId}/back-fills", response_model=list[BackFillAnswer])
@access(Access.READ)
async def get_back_fills(
    caller: Caller, store: Store, project_id: ProjectId, rule_id: RuleId
) -> list[dict[str, Any]]:
    """List the latest back-fills of a rule, the newest first."""
    rows = await store.read(lambda connection: list_back_fills(connection, caller, project_id, rule_id))
    return [_answer_back_fill(row) for row in rows]


@ROUTER.get("/{ruleId}/stats", response_model=RuleStatsAnswer)
@access(Access.TRACE_READ)
async def get_stats(
    request: Request,
    caller: Caller,
    store: Store,
    project_id: ProjectId,
    rule_id: RuleId,
    start: From = None,
    to: To = None,
) -> dict[str, Any]:
    """Say what the scores of a rule say of all that it matches: weighted by how they were sampled."""
    rule = await store.read(lambda connection: find_rule(connection, caller, project_id, rule_id))
    times = _read_times(start, to)
    read = partial(read_scores, principal=caller, rule_id=rule_id, times=times, most=_MAX_SCORES + 1)
    jobs = await request.app.state.traces.read(read)
    judge = EvaluatorSpec.load(rule.evaluator).criteria
    within = (0.0, 1.0) if judge is None else (judge.min_score, judge.max_score)
    is_cut = len(jobs) > _MAX_SCORES
    stats = await asyncio.to_thread(summarize_jobs, jobs[:_MAX_SCORES], within=within, is_cut=is_cut)
    reviews = await store.read(lambda connection: summarize_reviews(connection, caller, rule, times, jobs))
    return {
        "from": format_time(times[0]),
        "to": format_time(times[1]),
        "scoredCount": stats.scored,
        "errorCount": stats.errors,
        "openCount": stats.open,
        "passRate": _answer_estimate(stats.pass_rate),
        "meanScore": _answer_estimate(stats.mean_score),
        "isComplete": not stats.is_cut,
        "reviews": {
            "failed": _answer_reviews(reviews.failed),
            "other": _answer_reviews(reviews.other),
            "correctRate": _answer_estimate(reviews.correct_rate),
            "limitedDayCount": reviews.limited_days,
        },
    }


class _Trial:
    """A rule held against stored traces."""

    def __init__(
        self,
        traces: Database,
        store: Database,
        draft: RuleDraft,
        project_id: str,
        tenant: str | None,
        times: tuple[int, int],
    ) -> None:
        self._traces = traces
        self._store = store
        self._draft = draft
        self._times = times
        row = SimpleNamespace(id=new_id(), project_id=project_id, tenant_id=tenant, **values_of(draft))
        self._rule = make_rule(cast("Row[Any]", row))

    async def run(self) -> dict[str, Any]:
        """Return the answer to a request for a trial."""
        jobs: dict[str, NewEvalJob] = {}
        traces = matched = others = 0
        after: str | None = None
        while True:
            most = OTHERS_AT_ONCE if others < _MAX_OTHERS else 0
            look = partial(try_rule, rule=self._rule, times=self._times, after=after, most_others=most)
            step: TrialStep = await self._traces.read(look, Lane.SEARCH)
            others += step.others
            traces += step.traces
            matched += step.matched
            jobs |= {job.target: job for job in step.jobs}
            after = step.last
            if after is None or traces >= _MAX_TRIED:
                break
        until = self._times[1] if after is None else time_of_id(after)
        sample = list(jobs.values())
        lengths = await self._traces.read(
            partial(measure_texts, jobs=sample[:_MEASURED], scope=self._draft.scope), Lane.SEARCH
        )
        rows = await self._traces.read(partial(read_traces, ids=[job.trace for job in sample[:_EXAMPLES]]))
        names = {row.id: row.trace_id for row in rows}
        days = max(until - self._times[0], 1) / DAY
        forecast = await self._store.read(
            lambda connection: self._forecast(connection, len(sample) / days, lengths)
        )
        return {
            "from": format_time(self._times[0]),
            "to": format_time(until),
            "traceCount": traces,
            "isComplete": after is None and most > 0,
            "matchCount": matched,
            "sampledCount": len(sample),
            "examples": [
                {"traceId": names[job.trace], "spanId": job.span_id}
                for job in sample[:_EXAMPLES]
                if job.trace in names
            ],
            "forecast": forecast,
        }

    def _forecast(self, connection: Connection, per_day: float, lengths: list[int]) -> dict[str, Any]:
        model = None
        if self._draft.connection_id is not None:
            query = select(LLM_CONNECTIONS).where(LLM_CONNECTIONS.c.id == self._draft.connection_id)
            model = connection.execute(query).first()
        prices, name = (None, None) if model is None else (prices_of(model), model.model)
        forecast = forecast_cost(per_day, lengths, self._draft.spec, prices, name)
        return {
            "jobsPerDay": forecast.jobs_per_day,
            "tokensPerJob": forecast.tokens_per_job,
            "costUsdPerDay": forecast.cost_usd_per_day,
        }


def _read_times(start: str | None, end: str | None) -> tuple[int, int]:
    until = now() if end is None else _read_time(end, "to")
    since = until - _WEEK if start is None else _read_time(start, "from")
    if since >= until:
        raise InvalidRequestError("must be before 'to'", field="from")
    return since, until


def _read_time(text: str, field: str) -> int:
    try:
        return parse_time(text)
    except (ValueError, OverflowError):
        raise InvalidRequestError("must be a time such as 2026-11-23T12:00:00Z", field=field) from None


def _answer_back_fill(row: Row[Any]) -> dict[str, Any]:
    return {
        "id": row.id,
        "ruleId": row.rule_id,
        "status": row.status,
        "from": format_time(row.from_at),
        "to": format_time(row.to_at),
        "traceCount": row.trace_count,
        "jobCount": row.job_count,
        "createdAt": format_time(row.created_at),
        "completedAt": format_time(row.completed_at),
    }


def _answer_reviews(stats: ReviewStats) -> dict[str, Any]:
    return {
        "queuedCount": stats.queued,
        "reviewedCount": stats.reviewed,
        "correctRate": _answer_estimate(stats.correct_rate),
    }


def _answer_estimate(estimate: RuleEstimate | None) -> dict[str, Any] | None:
    if estimate is None:
        return None
    values = asdict(estimate)
    values["sampledShare"] = values.pop("sampled_share")
    return values
