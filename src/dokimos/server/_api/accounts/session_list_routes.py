"""Routes of sessions: who is signed in, where, and ending that."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response
from sqlalchemy import Row
from starlette.requests import Request

from dokimos.server._api.http.access import SESSION_COOKIE, Access, Caller, access
from dokimos.server._api.http.json_body import WireModel
from dokimos.server._api.http.list_parameters import list_request
from dokimos.server._api.http.parameters import Search, Store, lane_of
from dokimos.server._db.clock import format_time
from dokimos.server._services.accounts.secret_hash import hash_secret
from dokimos.server._services.accounts.session_lists import (
    SESSION_ORDERS,
    SessionFilter,
    end_own_sessions,
    end_session_with_id,
    list_sessions,
)

ROUTER = APIRouter(prefix="/api/v1/sessions", tags=["Session"])
_SESSIONS_PAGE = list_request(SESSION_ORDERS)
_Kind = Literal["system", "key", "user"]


class ListedSession(WireModel):
    """A session of a browser."""

    id: str
    kind: _Kind
    """Whose it is: that of the key of the environment, of another key, or of somebody who has signed in."""
    key_id: str | None
    user_id: str | None
    name: str | None
    """Of the key or the user."""
    address: str | None
    user_agent: str | None
    created_at: str
    last_seen_at: str | None
    expires_at: str
    is_current: bool
    """Whether it is the one that asks."""


class EndedSessions(WireModel):
    """How many sessions were ended."""

    count: int


@ROUTER.get("", response_model=list[ListedSession])
@access(Access.KNOWN)
async def get_sessions(
    request: Request,
    caller: Caller,
    store: Store,
    page: _SESSIONS_PAGE,  # type: ignore[valid-type] # made by a function, for its orders
    own: Annotated[bool, Query(description="Only the caller's own, also for an administrator.")] = False,
    user_id: Annotated[UUID | None, Query(alias="userId")] = None,
    key_id: Annotated[UUID | None, Query(alias="keyId")] = None,
    search: Search = None,
) -> list[dict[str, Any]]:
    """List the caller's sessions, the newest first; for an administrator all that it administers."""
    chosen = SessionFilter(
        own=own,
        user_id=None if user_id is None else str(user_id),
        key_id=None if key_id is None else str(key_id),
        search=search,
    )
    idle_hours = request.app.state.settings.session_idle_hours
    rows = await store.read(
        lambda connection: list_sessions(connection, caller, chosen, page, idle_hours), lane_of(search)
    )
    token = request.cookies.get(SESSION_COOKIE)
    current = None if token is None else hash_secret(token)
    return [_answer(row, current) for row in rows]


@ROUTER.delete("", response_model=EndedSessions)
@access(Access.KNOWN)
async def end_sessions(request: Request, caller: Caller, store: Store) -> dict[str, int]:
    """End all sessions of the caller, also the one that asks."""
    count = await store.write(lambda connection: end_own_sessions(connection, caller))
    request.app.state.keys.note_change()
    return {"count": count}


@ROUTER.delete("/{sessionId}", status_code=204)
@access(Access.KNOWN)
async def end_one_session(
    request: Request, caller: Caller, store: Store, session_id: Annotated[UUID, Path(alias="sessionId")]
) -> Response:
    """End a session of the caller, or for an administrator one that it administers."""
    await store.write(lambda connection: end_session_with_id(connection, caller, str(session_id)))
    request.app.state.keys.note_change()
    return Response(status_code=204)


def _answer(row: Row[Any], current: str | None) -> dict[str, Any]:
    kind: _Kind = "user" if row.user_id is not None else "key" if row.api_key_id is not None else "system"
    return {
        "id": row.id,
        "kind": kind,
        "keyId": row.api_key_id,
        "userId": row.user_id,
        "name": row.key_name if kind == "key" else row.user_name,
        "address": row.address,
        "userAgent": row.user_agent,
        "createdAt": format_time(row.created_at),
        "lastSeenAt": format_time(row.last_seen_at),
        "expiresAt": format_time(row.expires_at),
        "isCurrent": row.token_hash == current,
    }
