"""Routes of what is replaced in the spans of a project before they are stored."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import Field
from starlette.datastructures import State
from starlette.requests import Request

from dokimos.server._api.http.access import Access, Caller, access
from dokimos.server._api.http.json_body import StrictBody, WireModel, describe_body, json_body
from dokimos.server._api.http.parameters import PathName, Store
from dokimos.server._redaction_rules import MAX_RULES, RedactionRule, parse_rules
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.errors import InvalidRequestError
from dokimos.server._services.projects.projects import find_project
from dokimos.server._services.traces.project_redaction import read_redactions, rules_of, set_rules
from dokimos.server._services.traces.redaction import RedactionError, Redactor, check_patterns

ROUTER = APIRouter(prefix="/api/v1/projects/{name}/redaction-rules", tags=["Traces"])
_MAX_SAMPLE = 100_000


class RedactionRuleBody(StrictBody):
    """A rule: either a pattern or keys."""

    name: str
    pattern: str | None = None
    """A regular expression; each of its matches in any text of a span is replaced."""
    keys: list[str] | None = None
    """Keys of attributes, in which `*` stands for anything; their whole values are replaced."""
    replacement: str | None = None


class RedactionRulesBody(StrictBody):
    """All rules of a project."""

    rules: Annotated[list[RedactionRuleBody], Field(max_length=MAX_RULES)]


class RedactionTestBody(StrictBody):
    """A text to try rules on: those of the project and the server, or those that are given here."""

    text: Annotated[str, Field(max_length=_MAX_SAMPLE)]
    rules: Annotated[list[RedactionRuleBody], Field(max_length=MAX_RULES)] | None = None


class RedactionRuleAnswer(WireModel):
    """A rule, and how often it has replaced something in the spans of the project."""

    name: str
    pattern: str | None = None
    keys: list[str] | None = None
    replacement: str
    replaced_count: int


class RedactionRulesAnswer(WireModel):
    """The rules that hold for a project."""

    rules: list[RedactionRuleAnswer]
    server_rules: list[RedactionRuleAnswer]
    """Those of the server, which are applied first."""


class RedactionTestAnswer(WireModel):
    """What becomes of a text."""

    text: str
    counts: dict[str, int]
    """How often each rule replaced something, by its name."""


@ROUTER.get("", response_model=RedactionRulesAnswer)
@access(Access.PRIVATE_READ)
async def get_redaction_rules(
    request: Request, caller: Caller, store: Store, name: PathName
) -> RedactionRulesAnswer:
    """Return what is replaced in the spans of a project before they are stored, and how often it was."""
    return await _describe(request.app.state, caller, name)


@ROUTER.put("", response_model=RedactionRulesAnswer, openapi_extra=describe_body(RedactionRulesBody))
@access(Access.PROJECT_ADMIN)
async def put_redaction_rules(
    request: Request,
    caller: Caller,
    store: Store,
    name: PathName,
    body: Annotated[RedactionRulesBody, Depends(json_body(RedactionRulesBody))],
) -> RedactionRulesAnswer:
    """Set the rules of a project, for the spans that come from then on.

    A pattern that takes long on a text that is made for it is refused.
    """
    rules = await _parse(body.rules)
    await store.write(lambda connection: set_rules(connection, caller, name, rules))
    request.app.state.trace_ingestion.projects.forget()
    return await _describe(request.app.state, caller, name)


@ROUTER.post("/test", response_model=RedactionTestAnswer, openapi_extra=describe_body(RedactionTestBody))
@access(Access.PROJECT_WRITE)
async def test_redaction_rules(
    request: Request,
    caller: Caller,
    store: Store,
    name: PathName,
    body: Annotated[RedactionTestBody, Depends(json_body(RedactionTestBody))],
) -> RedactionTestAnswer:
    """Return what the rules make of a text, and change nothing."""
    project = await store.read(lambda connection: find_project(connection, caller, name))
    server = request.app.state.settings.traces.redaction_rules
    rules = (*server, *(rules_of(project) if body.rules is None else await _parse(body.rules)))
    try:
        text, counts = await asyncio.to_thread(Redactor(rules).redact_text, body.text)
    except RedactionError as error:
        raise InvalidRequestError(str(error), field="text") from None
    return RedactionTestAnswer(text=text, counts=dict(counts))


async def _parse(bodies: Sequence[RedactionRuleBody]) -> tuple[RedactionRule, ...]:
    try:
        rules = parse_rules([body.model_dump(exclude_none=True) for body in bodies])
        await asyncio.to_thread(check_patterns, rules)
    except ValueError as error:
        raise InvalidRequestError(str(error), field="rules") from None
    return rules


async def _describe(state: State, caller: Principal, name: str) -> RedactionRulesAnswer:
    project = await state.database.read(lambda connection: find_project(connection, caller, name))
    counts: dict[str, int] = await state.traces.read(
        lambda connection: read_redactions(connection, project.id)
    )

    def answer(rules: Sequence[RedactionRule]) -> list[RedactionRuleAnswer]:
        return [_answer_rule(rule.describe(), counts.get(rule.name, 0)) for rule in rules]

    return RedactionRulesAnswer(
        rules=answer(rules_of(project)), server_rules=answer(state.settings.traces.redaction_rules)
    )


def _answer_rule(rule: dict[str, Any], count: int) -> RedactionRuleAnswer:
    return RedactionRuleAnswer(**rule, replaced_count=count)
