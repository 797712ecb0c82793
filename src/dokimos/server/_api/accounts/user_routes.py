"""Routes of people who sign in."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Path
from sqlalchemy import Connection, Row
from starlette.requests import Request

from dokimos.server._api.accounts.member_schemas import RoleName
from dokimos.server._api.accounts.session_list_routes import EndedSessions
from dokimos.server._api.http.access import Access, Caller, access
from dokimos.server._api.http.json_body import StrictBody, WireModel, describe_body, json_body
from dokimos.server._api.http.list_parameters import list_request
from dokimos.server._api.http.parameters import Search, Store, lane_of
from dokimos.server._db.clock import format_time
from dokimos.server._services.accounts.principal import Principal, Role
from dokimos.server._services.accounts.sessions import end_sessions_of_user
from dokimos.server._services.accounts.users import (
    USER_ORDERS,
    effective_role,
    find_user,
    list_users,
    set_role_override,
    set_user_enabled,
)

ROUTER = APIRouter(prefix="/api/v1/users", tags=["Users"])
_USERS_PAGE = list_request(USER_ORDERS)


class ChangeUserBody(StrictBody):
    """The role of a user that counts instead of that of its groups; null removes it."""

    role_override: RoleName | None


class UserAnswer(WireModel):
    """Somebody who has signed in."""

    id: str
    issuer: str
    """The identity provider, or `trusted proxy`."""
    subject: str
    """What that one calls them."""
    name: str
    email: str | None
    role: str
    """What counts: `roleOverride`, or else `groupRole`."""
    group_role: str
    """The role that their groups have given them when they signed in last."""
    role_override: str | None
    tenant_id: str | None
    enabled: bool
    created_at: str
    last_seen_at: str


async def _read_user_id(user_id: Annotated[UUID, Path(alias="userId")]) -> str:
    return str(user_id)


UserId = Annotated[str, Depends(_read_user_id)]


@ROUTER.get("", response_model=list[UserAnswer])
@access(Access.ADMIN)
async def get_users(
    caller: Caller,
    store: Store,
    page: _USERS_PAGE,  # type: ignore[valid-type] # made by a function, for its orders
    search: Search = None,
) -> list[dict[str, Any]]:
    """List the people who have signed in, by name; with `limit`, a page of them."""
    rows = await store.read(
        lambda connection: list_users(connection, caller, page, search=search), lane_of(search)
    )
    return [_answer(row) for row in rows]


@ROUTER.patch("/{userId}", response_model=UserAnswer, openapi_extra=describe_body(ChangeUserBody))
@access(Access.ADMIN)
async def update_user(
    request: Request,
    caller: Caller,
    store: Store,
    user_id: UserId,
    body: Annotated[ChangeUserBody, Depends(json_body(ChangeUserBody))],
) -> dict[str, Any]:
    """Give a user a role that counts instead of that of its groups, from now on."""
    role = None if body.role_override is None else Role[body.role_override]
    row = await store.write(lambda connection: set_role_override(connection, caller, user_id, role))
    request.app.state.keys.note_change()
    return _answer(row)


@ROUTER.post("/{userId}/disable", response_model=UserAnswer)
@access(Access.ADMIN)
async def turn_off_user(request: Request, caller: Caller, store: Store, user_id: UserId) -> dict[str, Any]:
    """Keep a user out from now on; its sessions end, and its record stays."""
    return await _set_enabled(request, caller, user_id, enabled=False)


@ROUTER.post("/{userId}/enable", response_model=UserAnswer)
@access(Access.ADMIN)
async def turn_on_user(request: Request, caller: Caller, store: Store, user_id: UserId) -> dict[str, Any]:
    """Let a user in again that was disabled."""
    return await _set_enabled(request, caller, user_id, enabled=True)


@ROUTER.delete("/{userId}/sessions", response_model=EndedSessions)
@access(Access.ADMIN)
async def end_user_sessions(
    request: Request, caller: Caller, store: Store, user_id: UserId
) -> dict[str, int]:
    """End all sessions of a user."""

    def end(connection: Connection) -> int:
        find_user(connection, caller, user_id)
        return end_sessions_of_user(connection, user_id)

    count = await store.write(end)
    request.app.state.keys.note_change()
    return {"count": count}


async def _set_enabled(request: Request, caller: Principal, user_id: str, *, enabled: bool) -> dict[str, Any]:
    row = await request.app.state.database.write(
        lambda connection: set_user_enabled(connection, caller, user_id, enabled=enabled)
    )
    request.app.state.keys.note_change()
    return _answer(row)


def _answer(row: Row[Any]) -> dict[str, Any]:
    return {
        "id": row.id,
        "issuer": row.issuer,
        "subject": row.subject,
        "name": row.name,
        "email": row.email,
        "role": effective_role(row).name,
        "groupRole": row.role,
        "roleOverride": row.role_override,
        "tenantId": row.tenant_id,
        "enabled": row.enabled,
        "createdAt": format_time(row.created_at),
        "lastSeenAt": format_time(row.last_seen_at),
    }
