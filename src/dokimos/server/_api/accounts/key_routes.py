"""Routes of API keys."""

from __future__ import annotations

import logging
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Depends, Path
from fastapi.responses import Response
from pydantic import Field
from sqlalchemy import Connection, Row
from starlette.requests import Request

from dokimos.server._api.accounts.key_ring import KeyRing
from dokimos.server._api.accounts.member_schemas import ProjectRoleBody, RoleName
from dokimos.server._api.accounts.session_list_routes import EndedSessions
from dokimos.server._api.http.access import Access, Caller, access
from dokimos.server._api.http.json_body import StrictBody, WireModel, describe_body, json_body
from dokimos.server._api.http.list_parameters import list_request
from dokimos.server._api.http.parameters import Search, Store, lane_of
from dokimos.server._api.http.text_types import Moment, Name
from dokimos.server._db.clock import format_time, now
from dokimos.server._services.accounts.api_keys import (
    KEY_ORDERS,
    CreatedKey,
    NewKey,
    change_key,
    create_key,
    delete_key,
    expires_soon,
    find_key,
    list_keys,
    rotate_key,
    set_key_enabled,
)
from dokimos.server._services.accounts.members import MemberKind, ProjectRole, add_to_projects
from dokimos.server._services.accounts.principal import Role
from dokimos.server._services.accounts.sessions import end_sessions_of_key
from dokimos.server._services.errors import InvalidRequestError

_LOGGER: Final = logging.getLogger("dokimos.server")
ROUTER = APIRouter(prefix="/api/v1/api-keys", tags=["API keys"])
_KEYS_PAGE = list_request(KEY_ORDERS)
_MAX_OVERLAP_HOURS: Final = 24 * 90
_MAX_PER_MINUTE: Final = 10_000_000
_Limit = Annotated[int, Field(ge=0, le=_MAX_PER_MINUTE)]


class CreateKeyBody(WireModel):
    """A key to create."""

    name: Name
    role: RoleName
    """In all projects; with `NONE`, the key sees only the projects that it is a member of."""
    tenant_id: str | None = None
    projects: list[ProjectRoleBody] | None = None
    """Its roles in single projects; those that do not exist yet are created."""
    expires_at: Moment | None = None
    """From when on the key is refused; by default it is not."""
    requests_per_minute: _Limit | None = None
    """Requests in a minute; by default as the server is set up, 0 for any number."""


class ChangeKeyBody(StrictBody):
    """What is to be changed of a key; what is left out stays."""

    name: Name | None = None
    role: RoleName | None = None
    expires_at: Moment | None = None
    requests_per_minute: _Limit | None = None


class RotateKeyBody(StrictBody):
    """How a key gets a new text."""

    overlap_hours: Annotated[float, Field(ge=0, le=_MAX_OVERLAP_HOURS)] = 24
    """How long the text before is still accepted; 0 refuses it at once."""
    expires_at: Moment | None = None
    """From when on the key is refused; by default as before."""


class KeyAnswer(WireModel):
    """A key without its text."""

    id: str
    name: str
    role: str
    tenant_id: str | None
    enabled: bool
    created_at: str
    last_used_at: str | None
    created_by: str | None
    expires_at: str | None
    expires_soon: bool
    """Whether it works, and expires within two weeks."""
    requests_per_minute: int | None
    rotated_at: str | None
    previous_expires_at: str | None
    """Until when the text before the last rotation is accepted."""


class CreatedKeyAnswer(WireModel):
    """A key with its new text, which is never shown again."""

    key: str
    api_key: KeyAnswer
    warning: str | None
    """What to do where nobody may manage all keys, because this is the first one and not an ADMIN."""


async def _read_key_id(key_id: Annotated[UUID, Path(alias="keyId")]) -> str:
    return str(key_id)


KeyId = Annotated[str, Depends(_read_key_id)]


@ROUTER.post("", status_code=201, response_model=CreatedKeyAnswer, openapi_extra=describe_body(CreateKeyBody))
@access(Access.ADMIN)
async def add_key(
    request: Request,
    caller: Caller,
    store: Store,
    body: Annotated[CreateKeyBody, Depends(json_body(CreateKeyBody))],
) -> dict[str, Any]:
    """Create a key. The answer holds its text, which cannot be read again."""
    new = NewKey(
        name=body.name,
        role=Role[body.role],
        tenant=body.tenant_id or None,
        expires_at=body.expires_at,
        requests_per_minute=body.requests_per_minute,
    )
    roles = [ProjectRole(each.project, Role[each.role]) for each in body.projects or ()]

    default_limit = request.app.state.settings.requests_per_minute

    def create(connection: Connection) -> CreatedKey:
        created = create_key(connection, caller, new, default_limit=default_limit)
        add_to_projects(connection, caller, MemberKind.KEY, created.row, roles)
        return created

    created = await store.write(create)
    advice = await _reload_keys(request)
    return {"key": created.text, "apiKey": _answer(created.row), "warning": advice}


@ROUTER.get("", response_model=list[KeyAnswer])
@access(Access.ADMIN)
async def get_keys(
    caller: Caller,
    store: Store,
    page: _KEYS_PAGE,  # type: ignore[valid-type] # made by a function, for its orders
    search: Search = None,
) -> list[dict[str, Any]]:
    """List the keys, the oldest first; with `limit`, a page of them."""
    rows = await store.read(
        lambda connection: list_keys(connection, caller, page, search=search), lane_of(search)
    )
    return [_answer(row) for row in rows]


@ROUTER.patch("/{keyId}", response_model=KeyAnswer, openapi_extra=describe_body(ChangeKeyBody))
@access(Access.ADMIN)
async def update_key(
    request: Request,
    caller: Caller,
    store: Store,
    key_id: KeyId,
    body: Annotated[ChangeKeyBody, Depends(json_body(ChangeKeyBody))],
) -> dict[str, Any]:
    """Change the name, the role, the expiry or the limit of a key.

    What the body leaves out stays; null removes an expiry or a limit.
    """
    changes: dict[str, Any] = {name: getattr(body, name) for name in body.model_fields_set}
    for name in ("name", "role"):
        if name in changes and changes[name] is None:
            raise InvalidRequestError("must not be null", field=name)
    default_limit = request.app.state.settings.requests_per_minute
    row = await store.write(
        lambda connection: change_key(connection, caller, key_id, changes, default_limit=default_limit)
    )
    await _reload_keys(request)
    return _answer(row)


@ROUTER.post(
    "/{keyId}/rotate",
    response_model=CreatedKeyAnswer,
    openapi_extra=describe_body(RotateKeyBody, may_be_empty=True),
)
@access(Access.ADMIN)
async def renew_key(
    request: Request,
    caller: Caller,
    store: Store,
    key_id: KeyId,
    body: Annotated[RotateKeyBody, Depends(json_body(RotateKeyBody, may_be_empty=True))],
) -> dict[str, Any]:
    """Give a key a new text; the one before is accepted for `overlapHours` more, by default 24.

    The answer holds the new text, which cannot be read again. Sessions that were begun with the text before
    end when that does.
    """
    rotated = await store.write(
        lambda connection: rotate_key(
            connection, caller, key_id, overlap_hours=body.overlap_hours, expires_at=body.expires_at
        )
    )
    advice = await _reload_keys(request)
    return {"key": rotated.text, "apiKey": _answer(rotated.row), "warning": advice}


@ROUTER.post("/{keyId}/disable", response_model=KeyAnswer)
@access(Access.ADMIN)
async def turn_off_key(request: Request, caller: Caller, store: Store, key_id: KeyId) -> dict[str, Any]:
    """Refuse a key from now on; its record stays, and its sessions end."""
    return await _set_enabled(request, caller, store, key_id, enabled=False)


@ROUTER.post("/{keyId}/enable", response_model=KeyAnswer)
@access(Access.ADMIN)
async def turn_on_key(request: Request, caller: Caller, store: Store, key_id: KeyId) -> dict[str, Any]:
    """Accept a key again that was disabled."""
    return await _set_enabled(request, caller, store, key_id, enabled=True)


@ROUTER.delete("/{keyId}", status_code=204)
@access(Access.ADMIN)
async def remove_key(request: Request, caller: Caller, store: Store, key_id: KeyId) -> Response:
    """Delete a key; its sessions end."""
    opens = request.app.state.keys.opens_without_keys
    await store.write(lambda connection: delete_key(connection, caller, key_id, last_one_opens=opens))
    await _reload_keys(request)
    return Response(status_code=204)


@ROUTER.delete("/{keyId}/sessions", response_model=EndedSessions)
@access(Access.ADMIN)
async def end_key_sessions(request: Request, caller: Caller, store: Store, key_id: KeyId) -> dict[str, int]:
    """End all sessions that were begun with a key."""

    def end(connection: Connection) -> int:
        find_key(connection, caller, key_id)
        return end_sessions_of_key(connection, key_id)

    count = await store.write(end)
    request.app.state.keys.note_change()
    return {"count": count}


async def _set_enabled(
    request: Request, caller: Caller, store: Store, key_id: str, *, enabled: bool
) -> dict[str, Any]:
    opens = request.app.state.keys.opens_without_keys
    row = await store.write(
        lambda connection: set_key_enabled(connection, caller, key_id, enabled=enabled, last_one_opens=opens)
    )
    await _reload_keys(request)
    return _answer(row)


async def _reload_keys(request: Request) -> str | None:
    """Use the keys as they are now; return what to do where nobody may manage all keys."""
    keys: KeyRing = request.app.state.keys
    await keys.reload()
    if keys.advice is not None:
        _LOGGER.warning(keys.advice)
    return keys.advice


def _answer(row: Row[Any]) -> dict[str, Any]:
    moment = now()
    return {
        "id": row.id,
        "name": row.name,
        "role": row.role,
        "tenantId": row.tenant_id,
        "enabled": row.enabled,
        "createdAt": format_time(row.created_at),
        "lastUsedAt": format_time(row.last_used_at),
        "createdBy": row.created_by,
        "expiresAt": format_time(row.expires_at),
        "expiresSoon": expires_soon(row, moment),
        "requestsPerMinute": row.requests_per_minute,
        "rotatedAt": format_time(row.rotated_at),
        "previousExpiresAt": format_time(row.previous_expires_at),
    }
