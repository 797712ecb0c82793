"""Routes of connections to models."""

from __future__ import annotations

from typing import Annotated, Any, Final
from urllib.parse import urlsplit
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query
from fastapi.responses import Response
from sqlalchemy import Connection, Row
from starlette.requests import Request

from dokimos._http.address_policy import AddressPolicy
from dokimos.server._api.http.access import Access, Caller, access
from dokimos.server._api.http.json_body import describe_body, json_body
from dokimos.server._api.http.list_parameters import list_request
from dokimos.server._api.http.parameters import Search, Store, lane_of
from dokimos.server._api.http.preconditions import IfMatch
from dokimos.server._api.models.connection_schemas import (
    ConnectionAnswer,
    ConnectionBody,
    ConnectionTestAnswer,
    ConnectionTestBody,
)
from dokimos.server._db.clock import format_time
from dokimos.server._services.accounts.principal import ANONYMOUS, Principal, Role
from dokimos.server._services.alerts.alert_webhooks import outgoing_policy
from dokimos.server._services.audit.audit_targets import describe_target
from dokimos.server._services.encryption.secret_vault import SecretVault
from dokimos.server._services.models.llm_connections import (
    CONNECTION_ORDERS,
    ConnectionChange,
    ConnectionDraft,
    ConnectionRules,
    ModelProtocol,
    change_connection,
    create_connection,
    delete_connection,
    draft_connection,
    find_connection,
    find_writable,
    list_connections,
)
from dokimos.server._services.models.model_access import (
    ConnectionProblem,
    find_credential_problem,
    open_model,
)
from dokimos.server._services.models.model_check import ModelCheck, ModelChecks, describe_problem
from dokimos.server._services.row_versions import version_of

ROUTER = APIRouter(prefix="/api/v1/llm-connections", tags=["LLM connections"])
_PAGE: Final = list_request(CONNECTION_ORDERS)
_MASK: Final = "..."
_COLUMNS: Final = {
    "input_price_per_million": "input_price",
    "output_price_per_million": "output_price",
    "max_output_tokens": "max_output_tokens",
    "requests_per_minute": "requests_per_minute",
    "max_concurrency": "max_concurrency",
    "temperature": "temperature",
}
"""By the fields of bodies, the columns of what a connection may have beside what is documented."""


async def _read_connection_id(connection_id: Annotated[UUID, Path(alias="connectionId")]) -> str:
    return str(connection_id)


ConnectionId = Annotated[str, Depends(_read_connection_id)]


@ROUTER.post(
    "", status_code=201, response_model=ConnectionAnswer, openapi_extra=describe_body(ConnectionBody)
)
@access(Access.WRITE)
async def add_connection(
    request: Request,
    response: Response,
    caller: Caller,
    store: Store,
    body: Annotated[ConnectionBody, Depends(json_body(ConnectionBody))],
) -> dict[str, Any]:
    """Create a connection to a model, with exactly one credential."""
    _check_role(request, caller)
    change = _change_of(body)
    row = await store.write(
        lambda connection: create_connection(connection, caller, change, _rules(connection, request))
    )
    response.headers["Location"] = f"/api/v1/llm-connections/{row.id}"
    return _answer(row, caller, request.app.state.vault)


@ROUTER.get("", response_model=list[ConnectionAnswer])
@access(Access.READ)
async def get_connections(
    request: Request,
    caller: Caller,
    store: Store,
    page: _PAGE,  # type: ignore[valid-type] # made by a function, for its orders
    search: Search = None,
) -> list[dict[str, Any]]:
    """List the connections, the oldest first; with `limit`, a page of them."""
    rows = await store.read(
        lambda connection: list_connections(connection, caller, page, search=search), lane_of(search)
    )
    vault: SecretVault = request.app.state.vault
    await vault.learn_keys_of(store, [row.api_key for row in rows])
    return [_answer(row, caller, vault) for row in rows]


@ROUTER.get("/{connectionId}", response_model=ConnectionAnswer)
@access(Access.READ)
async def get_connection(
    request: Request, caller: Caller, store: Store, connection_id: ConnectionId
) -> dict[str, Any]:
    """Return a connection."""
    row = await store.read(lambda connection: find_connection(connection, caller, connection_id))
    vault: SecretVault = request.app.state.vault
    await vault.learn_keys_of(store, [row.api_key])
    return _answer(row, caller, vault)


@ROUTER.put("/{connectionId}", response_model=ConnectionAnswer, openapi_extra=describe_body(ConnectionBody))
@access(Access.WRITE)
async def replace_connection(
    request: Request,
    caller: Caller,
    store: Store,
    connection_id: ConnectionId,
    body: Annotated[ConnectionBody, Depends(json_body(ConnectionBody))],
    expected: IfMatch,
) -> dict[str, Any]:
    """Change a connection; without a credential it keeps the one it has, if it stays at its host."""
    _check_role(request, caller)
    change = _change_of(body)
    row = await store.write(
        lambda connection: change_connection(
            connection, caller, connection_id, change, _rules(connection, request), expected
        )
    )
    vault: SecretVault = request.app.state.vault
    await vault.learn_keys_of(store, [row.api_key])
    return _answer(row, caller, vault)


@ROUTER.delete("/{connectionId}", status_code=204)
@access(Access.WRITE)
async def remove_connection(
    request: Request,
    caller: Caller,
    store: Store,
    connection_id: ConnectionId,
    force: Annotated[bool, Query(description="Whether jobs of other tenants are ended, too.")] = False,
) -> Response:
    """Delete a connection with its judge jobs; what they scored stays.

    Where jobs of other tenants have not ended, that is a conflict, unless `force` is true and the caller
    has no tenant.
    """
    _check_role(request, caller)
    await store.write(lambda connection: delete_connection(connection, caller, connection_id, force=force))
    return Response(status_code=204)


@ROUTER.post("/test", response_model=ConnectionTestAnswer, openapi_extra=describe_body(ConnectionBody))
@access(Access.WRITE)
async def try_connection(
    request: Request,
    caller: Caller,
    store: Store,
    body: Annotated[ConnectionBody, Depends(json_body(ConnectionBody))],
) -> dict[str, Any]:
    """Try a connection before it is created: one tiny request to the model, and what is wrong with it."""
    _check_role(request, caller)
    change = _change_of(body)

    def draft(connection: Connection) -> tuple[ConnectionDraft, AddressPolicy]:
        rules = _rules(connection, request)
        describe_target(connection, kind="llm-connection", name=change.name, tenant=caller.tenant)
        return draft_connection(caller, change, rules), rules.policy

    return _describe_check(await _check(request, *await store.write(draft)))


@ROUTER.post(
    "/{connectionId}/test",
    response_model=ConnectionTestAnswer,
    openapi_extra=describe_body(ConnectionTestBody, may_be_empty=True),
)
@access(Access.WRITE)
async def try_stored_connection(
    request: Request,
    caller: Caller,
    store: Store,
    connection_id: ConnectionId,
    body: Annotated[ConnectionTestBody, Depends(json_body(ConnectionTestBody, may_be_empty=True))],
) -> dict[str, Any]:
    """Try a connection: one tiny request to the model, and what is wrong where it is not answered.

    With a body, it is tried as it would be after that change, which is not stored.
    """
    if body.model_fields_set:
        _check_role(request, caller)

    def read(connection: Connection) -> tuple[Row[Any] | ConnectionDraft, AddressPolicy]:
        rules = _rules(connection, request)
        row = find_connection(connection, caller, connection_id)
        describe_target(connection, kind="llm-connection", id=row.id, name=row.name, tenant=row.tenant_id)
        if not body.model_fields_set:
            return row, rules.policy
        row = find_writable(connection, caller, connection_id)
        return draft_connection(caller, _change_of(body, row), rules, row), rules.policy

    # A write, though nothing changes: the audit log names who sent the key there.
    return _describe_check(await _check(request, *await store.write(read)))


async def _check(request: Request, row: Row[Any] | ConnectionDraft, policy: AddressPolicy) -> ModelCheck:
    state = request.app.state
    vault: SecretVault = state.vault
    checks: ModelChecks = state.model_checks
    await vault.learn_keys_of(state.database, [row.api_key])
    try:
        return await checks.run(open_model(row, vault, policy))
    except ConnectionProblem as problem:
        return checks.note(describe_problem(problem))


def _check_role(request: Request, caller: Principal) -> None:
    """Raise `RoleError` where only an ADMIN may say which keys go where."""
    if request.app.state.settings.judging.connections_need_admin:
        caller.check_role(None, Role.ADMIN)


def _rules(connection: Connection, request: Request) -> ConnectionRules:
    state = request.app.state
    return ConnectionRules(outgoing_policy(connection, state.settings), state.vault)


def _change_of(body: ConnectionBody | ConnectionTestBody, row: Row[Any] | None = None) -> ConnectionChange:
    """What a body asks for; what one for a test leaves out is as it is stored."""
    return ConnectionChange(
        name=body.name if isinstance(body, ConnectionBody) else str(row and row.name),
        base_url=body.base_url or str(row and row.base_url),
        model=body.model or str(row and row.model),
        protocol=None if body.protocol is None else ModelProtocol(body.protocol),
        api_key=body.api_key,
        credential_ref=body.credential_ref,
        settings={
            column: getattr(body, name) for name, column in _COLUMNS.items() if name in body.model_fields_set
        },
    )


def _answer(row: Row[Any], caller: Principal, vault: SecretVault) -> dict[str, Any]:
    is_masked = caller.id == ANONYMOUS.id
    reference = row.credential_ref
    return {
        "id": row.id,
        "name": row.name,
        "baseUrl": _mask_login(row.base_url) if is_masked else row.base_url,
        "model": row.model,
        "protocol": row.protocol,
        "credentialRef": _MASK if is_masked and reference is not None else reference,
        "hasInlineKey": row.api_key is not None,
        "createdAt": format_time(row.created_at),
        "inputPricePerMillion": row.input_price,
        "outputPricePerMillion": row.output_price,
        "maxOutputTokens": row.max_output_tokens,
        "requestsPerMinute": row.requests_per_minute,
        "maxConcurrency": row.max_concurrency,
        "temperature": row.temperature,
        "updatedAt": format_time(row.updated_at),
        "version": version_of(row),
        "problem": None if is_masked else find_credential_problem(row, vault),
    }


def _mask_login(url: str) -> str:
    """The address without a user and password: it may have been stored before those were refused."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _describe_check(check: ModelCheck) -> dict[str, Any]:
    metrics = check.metrics
    return {
        "ok": check.problem is None,
        "problem": check.problem,
        "message": check.message,
        "statusCode": check.status,
        "protocol": check.protocol,
        "latencyMs": None if metrics is None else metrics.latency_ms,
        "tokensIn": None if metrics is None else metrics.tokens_in,
        "tokensOut": None if metrics is None else metrics.tokens_out,
        "costUsd": None if metrics is None else metrics.cost_usd,
    }
