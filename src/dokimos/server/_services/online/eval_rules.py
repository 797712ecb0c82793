"""Rules of online evaluation: created, listed, changed, removed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, case, exists, func, select, update

from dokimos.server._db.clock import now
from dokimos.server._db.connection_tables import LLM_CONNECTIONS
from dokimos.server._db.ids import new_id
from dokimos.server._db.inserts import insert_if_absent
from dokimos.server._db.outbox import post
from dokimos.server._db.trace_rule_tables import TRACE_EVAL_RULES
from dokimos.server._judge_settings import JudgeSettings
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.audit.audit_targets import describe_target
from dokimos.server._services.errors import ConflictError, NotFoundError
from dokimos.server._services.events import Event, EventKind, announce
from dokimos.server._services.judging.judge_budgets import limits_of_rule
from dokimos.server._services.judging.judge_call_bounds import check_prices
from dokimos.server._services.judging.judge_evaluators import EvaluatorSpec
from dokimos.server._services.judging.judge_jobs import read_budget
from dokimos.server._services.list_pages import ListPage, SortKeys, read_page
from dokimos.server._services.models.model_access import prices_of
from dokimos.server._services.online.rule_conditions import Condition
from dokimos.server._services.online.rule_removal import remove_rules
from dokimos.server._services.online.rules_changed import RulesChanged
from dokimos.server._services.online.trace_batches import make_due
from dokimos.server._services.projects.names import check_name
from dokimos.server._services.projects.projects import find_project_by_id
from dokimos.server._services.row_versions import Expected, check_version, version_of

MAX_RULES: Final = 100
"""Of one project, for each tenant."""


class RuleScope(StrEnum):
    """Whose input and output are scored where a span matches."""

    SPAN = "span"
    PARENT = "parent"
    """The span above it."""
    TRACE = "trace"
    SESSION = "session"
    """All traces of its session until then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleDraft:
    """A rule, as it should be."""

    name: str
    enabled: bool
    condition: Condition
    """The documented one."""
    conditions: Any
    """JSON of further ones, checked; None for none."""
    scope: RuleScope
    connection_id: str | None
    evaluator_name: str
    spec: EvaluatorSpec
    sampling: Mapping[str, Any] | None
    """JSON, checked; None scores everything."""
    budget: Mapping[str, float] | None
    """Of each day."""
    review: Mapping[str, Any] | None
    """JSON, checked: which of its scores people look at; None for none."""


RULE_ORDERS: Final = SortKeys(
    {"createdAt": TRACE_EVAL_RULES.c.created_at, "name": TRACE_EVAL_RULES.c.name},
    ties=(TRACE_EVAL_RULES.c.created_at, TRACE_EVAL_RULES.c.id),
    default="createdAt",
)
_RULE: Final = TRACE_EVAL_RULES.c


def check_may_add_rules(connection: Connection, principal: Principal, project_id: str) -> Row[Any]:
    """Return a project that the caller may add rules to.

    Raises:
        NotFoundError: There is none that the caller sees.
        ForbiddenError: It is shared, and closed to this caller.
    """
    project = find_project_by_id(connection, principal, project_id)
    principal.check_may_write(project.tenant_id, f"The project '{project.name}'", project=project_id)
    return project


def create_rule(
    connection: Connection,
    principal: Principal,
    project_id: str,
    draft: RuleDraft,
    settings: JudgeSettings,
) -> Row[Any]:
    """Store a rule, which holds for the spans that come from then on.

    Raises:
        NotFoundError: There is no such project, or no such connection, that the caller sees.
        ForbiddenError: The project is shared, and closed to this caller.
        ConflictError: The name is taken, the project has as many rules as it may have, or a budget in
            dollars cannot hold, since nobody knows what the model costs.
    """
    project = check_may_add_rules(connection, principal, project_id)
    check_draft(connection, principal, draft, settings)
    # What is made below a tenant's project is the tenant's, whoever makes it.
    tenant = principal.tenant if principal.is_restricted else project.tenant_id
    own = (_RULE.project_id == project_id, _RULE.tenant_id.is_not_distinct_from(tenant))
    query = select(func.count()).select_from(TRACE_EVAL_RULES).where(*own)
    if connection.execute(query).scalar_one() >= MAX_RULES:
        raise ConflictError(f"The project has {MAX_RULES} rules, which is the limit; delete one first")
    moment, rule_id = now(), new_id()
    is_new = insert_if_absent(
        connection,
        TRACE_EVAL_RULES,
        id=rule_id,
        project_id=project_id,
        tenant_id=tenant,
        created_by=principal.id,
        created_at=moment,
        updated_at=moment,
        **values_of(draft),
    )
    if not is_new:
        raise _is_taken(draft.name)
    return _announce(connection, principal, project_id, rule_id)


def list_rules(
    connection: Connection, principal: Principal, project_id: str, page: ListPage
) -> Sequence[Row[Any]]:
    """Return the rules of a project, the oldest first.

    Raises:
        NotFoundError: There is no such project that the caller sees.
    """
    find_project_by_id(connection, principal, project_id)
    is_own = (_RULE.project_id == project_id, principal.sees(TRACE_EVAL_RULES))
    rows = select(TRACE_EVAL_RULES, _select_connection(principal)).where(*is_own)
    return read_page(connection, rows, page, _RULE.id)


def find_rule(
    connection: Connection,
    principal: Principal,
    project_id: str,
    rule_id: str,
    *,
    for_update: bool = False,
) -> Row[Any]:
    """Return a rule of a project; with `for_update`, locked until the transaction ends.

    Raises:
        NotFoundError: There is no such project, or no such rule of it, that the caller sees.
    """
    find_project_by_id(connection, principal, project_id)
    is_asked = (_RULE.id == rule_id, _RULE.project_id == project_id, principal.sees(TRACE_EVAL_RULES))
    query = select(TRACE_EVAL_RULES, _select_connection(principal)).where(*is_asked)
    row = connection.execute(query.with_for_update(of=TRACE_EVAL_RULES) if for_update else query).first()
    if row is None:
        raise NotFoundError(f"Trace eval rule not found: {rule_id}")
    return row


def find_writable_rule(
    connection: Connection, principal: Principal, project_id: str, rule_id: str
) -> Row[Any]:
    """Return a rule that the caller may change, locked until the transaction ends.

    Raises:
        NotFoundError: There is no such rule that the caller sees.
        ForbiddenError: It is shared, and closed to this caller.
    """
    row = find_rule(connection, principal, project_id, rule_id, for_update=True)
    principal.check_may_write(row.tenant_id, f"The rule '{row.name}'", project=project_id)
    return row


def change_rule(
    connection: Connection,
    principal: Principal,
    project_id: str,
    rule_id: str,
    draft: RuleDraft,
    settings: JudgeSettings,
    expected: Expected = None,
) -> Row[Any]:
    """Change a rule; what it has queued already is scored as it was, unless the rule is disabled.

    What waits for the budget of another day is tried again with that of the rule now.

    Raises:
        NotFoundError: There is no such rule, or no such connection, that the caller sees.
        ForbiddenError: It is shared, and closed to this caller.
        ConflictError: The name is taken, or a budget in dollars cannot hold.
        OutdatedError: It was changed since the version that the change is for.
    """
    row = find_writable_rule(connection, principal, project_id, rule_id)
    check_version(expected, version_of(row), f"The rule '{row.name}'")
    check_draft(connection, principal, draft, settings)
    if draft.name != row.name:
        own = (_RULE.project_id == project_id, _RULE.tenant_id.is_not_distinct_from(row.tenant_id))
        if connection.execute(select(_RULE.id).where(*own, _RULE.name == draft.name)).first() is not None:
            raise _is_taken(draft.name)
    values = {**values_of(draft), "updated_at": now()}
    connection.execute(update(TRACE_EVAL_RULES).where(_RULE.id == rule_id).values(values))
    make_due(connection, rule_id)
    return _announce(connection, principal, project_id, rule_id)


def delete_rule(connection: Connection, principal: Principal, project_id: str, rule_id: str) -> None:
    """Delete a rule; its results go with it.

    Raises:
        NotFoundError: There is no such rule that the caller sees.
        ForbiddenError: It is shared, and closed to this caller.
    """
    row = find_writable_rule(connection, principal, project_id, rule_id)
    remove_rules(connection, _RULE.id == rule_id)
    _post(connection, EventKind.TRACE_EVAL_RULE_DELETED, row)


def check_draft(
    connection: Connection, principal: Principal, draft: RuleDraft, settings: JudgeSettings
) -> None:
    """Check what a rule names.

    Raises:
        InvalidRequestError: A name cannot be used.
        NotFoundError: There is no such connection that the caller sees.
        ConflictError: A budget in dollars cannot hold, since nobody knows what the model costs.
    """
    check_name(draft.name, "name")
    check_name(draft.evaluator_name, "evaluatorName")
    if draft.connection_id is None:
        return
    is_own: tuple[ColumnElement[bool], ...] = (
        LLM_CONNECTIONS.c.id == draft.connection_id,
        principal.sees(LLM_CONNECTIONS),
    )
    model = connection.execute(select(LLM_CONNECTIONS).where(*is_own)).first()
    if model is None:
        raise NotFoundError(f"LLM connection not found: {draft.connection_id}")
    limits = limits_of_rule(settings, read_budget(draft.budget))
    check_prices(limits, model.name, model.model, prices_of(model))


def _select_connection(principal: Principal) -> ColumnElement[str | None]:
    """The connection of a rule, for those who see it: members of single projects see none."""
    is_seen = exists().where(LLM_CONNECTIONS.c.id == _RULE.connection_id, principal.sees(LLM_CONNECTIONS))
    shown: ColumnElement[str | None] = case((is_seen.correlate(TRACE_EVAL_RULES), _RULE.connection_id))
    return shown.label("shown_connection_id")


def values_of(draft: RuleDraft) -> dict[str, Any]:
    """Return the columns of a rule."""
    return {
        "name": draft.name,
        "enabled": draft.enabled,
        "match_type": draft.condition.type,
        "match_key": draft.condition.key,
        "match_value": draft.condition.value,
        "conditions": None if draft.conditions is None else json.dumps(draft.conditions),
        "scope": draft.scope,
        "connection_id": draft.connection_id,
        "evaluator_name": draft.evaluator_name,
        "evaluator": draft.spec.dump(),
        "sampling": None if draft.sampling is None else json.dumps(dict(draft.sampling)),
        "budget": None if draft.budget is None else json.dumps(dict(draft.budget)),
        "review": None if draft.review is None else json.dumps(dict(draft.review)),
    }


def _is_taken(name: str) -> ConflictError:
    return ConflictError(f"A trace eval rule named '{name}' exists already in this project")


def _announce(connection: Connection, principal: Principal, project_id: str, rule_id: str) -> Row[Any]:
    rule = find_rule(connection, principal, project_id, rule_id)
    post(connection, RulesChanged())
    _post(connection, EventKind.TRACE_EVAL_RULE_CHANGED, rule)
    return rule


def _post(connection: Connection, kind: EventKind, rule: Row[Any]) -> None:
    announce(
        connection,
        Event(
            kind=kind,
            tenants=(rule.tenant_id,),
            project_id=rule.project_id,
            data={"ruleId": rule.id},
        ),
    )
    describe_target(
        connection,
        kind="trace-eval-rule",
        id=rule.id,
        name=rule.name,
        tenant=rule.tenant_id,
        details={"enabled": str(rule.enabled).lower(), "evaluator": rule.evaluator_name},
    )
