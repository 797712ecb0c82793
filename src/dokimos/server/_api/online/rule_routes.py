"""Routes of the rules of online evaluation."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Depends, Path
from fastapi.responses import Response
from sqlalchemy import Row
from starlette.requests import Request

from dokimos.server._api.http.access import Access, Caller, access
from dokimos.server._api.http.json_body import describe_body, json_body
from dokimos.server._api.http.list_parameters import list_request
from dokimos.server._api.http.parameters import Store
from dokimos.server._api.http.preconditions import IfMatch
from dokimos.server._api.online.rule_bodies import read_draft
from dokimos.server._api.online.rule_schemas import RuleAnswer, RuleBody
from dokimos.server._db.clock import format_time
from dokimos.server._services.judging.judge_evaluators import EvaluatorSpec, check_evaluator
from dokimos.server._services.online.eval_rules import (
    RULE_ORDERS,
    RuleDraft,
    change_rule,
    check_may_add_rules,
    create_rule,
    delete_rule,
    find_rule,
    find_writable_rule,
    list_rules,
)
from dokimos.server._services.row_versions import version_of

ROUTER = APIRouter(prefix="/api/v1/projects/{projectId}/trace-eval-rules", tags=["Online evaluation"])
_PAGE: Final = list_request(RULE_ORDERS)


async def _read_project_id(project_id: Annotated[UUID, Path(alias="projectId")]) -> str:
    return str(project_id)


async def _read_rule_id(rule_id: Annotated[UUID, Path(alias="ruleId")]) -> str:
    return str(rule_id)


ProjectId = Annotated[str, Depends(_read_project_id)]
RuleId = Annotated[str, Depends(_read_rule_id)]


@ROUTER.post("", status_code=201, response_model=RuleAnswer, openapi_extra=describe_body(RuleBody))
@access(Access.PROJECT_WRITE)
async def add_rule(
    request: Request,
    response: Response,
    caller: Caller,
    store: Store,
    project_id: ProjectId,
    body: Annotated[RuleBody, Depends(json_body(RuleBody))],
) -> dict[str, Any]:
    """Create a rule: it scores the spans that match it from now on."""
    # Before anything is told of evaluators.
    await store.read(lambda connection: check_may_add_rules(connection, caller, project_id))
    draft, settings = await check_rule(body), request.app.state.settings.judging
    row = await store.write(lambda connection: create_rule(connection, caller, project_id, draft, settings))
    response.headers["Location"] = f"/api/v1/projects/{project_id}/trace-eval-rules/{row.id}"
    return answer_rule(row)


@ROUTER.get("", response_model=list[RuleAnswer])
@access(Access.READ)
async def get_rules(
    caller: Caller,
    store: Store,
    project_id: ProjectId,
    page: _PAGE,  # type: ignore[valid-type] # made by a function, for its orders
) -> list[dict[str, Any]]:
    """List the rules of a project, the oldest first; with `limit`, a page of them."""
    rows = await store.read(lambda connection: list_rules(connection, caller, project_id, page))
    return [answer_rule(row) for row in rows]


@ROUTER.get("/{ruleId}", response_model=RuleAnswer)
@access(Access.READ)
async def get_rule(caller: Caller, store: Store, project_id: ProjectId, rule_id: RuleId) -> dict[str, Any]:
    """Return a rule."""
    return answer_rule(
        await store.read(lambda connection: find_rule(connection, caller, project_id, rule_id))
    )


@ROUTER.put("/{ruleId}", response_model=RuleAnswer, openapi_extra=describe_body(RuleBody))
@access(Access.PROJECT_WRITE)
async def replace_rule(
    request: Request,
    caller: Caller,
    store: Store,
    project_id: ProjectId,
    rule_id: RuleId,
    body: Annotated[RuleBody, Depends(json_body(RuleBody))],
    expected: IfMatch,
) -> dict[str, Any]:
    """Change a rule. With `enabled` false it stops at once, and what it has queued waits."""
    await store.read(lambda connection: find_writable_rule(connection, caller, project_id, rule_id))
    draft, settings = await check_rule(body), request.app.state.settings.judging
    return answer_rule(
        await store.write(
            lambda connection: change_rule(connection, caller, project_id, rule_id, draft, settings, expected)
        )
    )


@ROUTER.delete("/{ruleId}", status_code=204)
@access(Access.PROJECT_WRITE)
async def remove_rule(caller: Caller, store: Store, project_id: ProjectId, rule_id: RuleId) -> Response:
    """Delete a rule with its results."""
    await store.write(lambda connection: delete_rule(connection, caller, project_id, rule_id))
    return Response(status_code=204)


async def check_rule(body: RuleBody) -> RuleDraft:
    """Return the rule that a body describes, checked as far as that needs no database.

    Raises:
        InvalidRequestError: It cannot be a rule.
    """
    draft = read_draft(body)
    # In a thread: the first time, the library imports what the evaluator needs.
    check = partial(check_evaluator, has_connection=draft.connection_id is not None)
    await asyncio.to_thread(check, draft.spec, draft.evaluator_name)
    return draft


def answer_rule(row: Row[Any]) -> dict[str, Any]:
    """Return a rule as it is answered."""
    spec = EvaluatorSpec.load(row.evaluator)
    judge = spec.criteria
    return {
        "id": row.id,
        "projectId": row.project_id,
        "name": row.name,
        "enabled": row.enabled,
        "matchType": row.match_type,
        "matchKey": row.match_key,
        "matchValue": row.match_value,
        "connectionId": row.shown_connection_id,
        "evaluatorName": row.evaluator_name,
        "criteria": None if judge is None else judge.criteria,
        "minScore": None if judge is None else judge.min_score,
        "maxScore": None if judge is None else judge.max_score,
        "threshold": None if judge is None else judge.threshold,
        "createdAt": format_time(row.created_at),
        "updatedAt": format_time(row.updated_at),
        "version": version_of(row),
        "conditions": _load(row.conditions),
        "scope": row.scope,
        "evaluator": {"type": spec.type, "params": dict(spec.params)} if judge is None else None,
        "sampling": _load(row.sampling),
        "budget": _load(row.budget),
        "review": _load(row.review),
    }


def _load(text: str | None) -> Any:
    return None if text is None else json.loads(text)
