"""The sessions of a caller, and for an administrator all of them: listed and ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, delete, func, or_, select

from dokimos.server._db.clock import now
from dokimos.server._db.ids import parse_id
from dokimos.server._db.key_tables import API_KEYS, SESSIONS
from dokimos.server._db.user_tables import USERS
from dokimos.server._services.accounts.principal import Principal, Role
from dokimos.server._services.accounts.sessions import is_alive
from dokimos.server._services.errors import NotFoundError
from dokimos.server._services.list_pages import ListPage, SortKeys, read_page
from dokimos.server._services.projects.projects import contains

SESSION_ORDERS: Final = SortKeys(
    {
        "createdAt": SESSIONS.c.created_at,
        "lastSeenAt": func.coalesce(SESSIONS.c.last_seen_at, SESSIONS.c.created_at),
        "expiresAt": SESSIONS.c.expires_at,
    },
    ties=(SESSIONS.c.id,),
    default="createdAt,desc",
)
_SEARCHED: Final = (API_KEYS.c.name, USERS.c.name, USERS.c.email, SESSIONS.c.address, SESSIONS.c.user_agent)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFilter:
    """Which sessions a list shows."""

    own: bool = False
    """Only the caller's own, also for an administrator."""
    user_id: str | None = None
    key_id: str | None = None
    search: str | None = None


def list_sessions(
    connection: Connection, principal: Principal, chosen: SessionFilter, page: ListPage, idle_hours: float
) -> Sequence[Row[Any]]:
    """Return a page of the sessions that have not ended: the caller's, or all that it administers."""
    visible = _select(principal, own=chosen.own).where(is_alive(now(), idle_hours))
    conditions: list[ColumnElement[bool]] = []
    if chosen.user_id is not None:
        conditions.append(SESSIONS.c.user_id == chosen.user_id)
    if chosen.key_id is not None:
        conditions.append(SESSIONS.c.api_key_id == chosen.key_id)
    if chosen.search:
        conditions.append(or_(*(contains(column, chosen.search) for column in _SEARCHED)))
    return read_page(connection, visible, page, SESSIONS.c.id, *conditions)


def end_session_with_id(connection: Connection, principal: Principal, session_id: str) -> None:
    """End one session of the caller, or one that it administers.

    Raises:
        NotFoundError: There is none.
    """
    query = _select(principal, own=False).where(SESSIONS.c.id == session_id)
    if connection.execute(query).first() is None:
        raise NotFoundError(f"Session not found: {session_id}")
    connection.execute(delete(SESSIONS).where(SESSIONS.c.id == session_id))


def end_own_sessions(connection: Connection, principal: Principal) -> int:
    """End all sessions of the caller; return how many there were."""
    return connection.execute(delete(SESSIONS).where(_is_own(principal))).rowcount


def _select(principal: Principal, *, own: bool) -> Select[Any]:
    joined = SESSIONS.outerjoin(API_KEYS, API_KEYS.c.id == SESSIONS.c.api_key_id).outerjoin(
        USERS, USERS.c.id == SESSIONS.c.user_id
    )
    is_visible = _is_own(principal)
    if principal.role is Role.ADMIN and not own:
        is_visible = or_(is_visible, _administers(principal))
    columns = (API_KEYS.c.name.label("key_name"), USERS.c.name.label("user_name"), USERS.c.email)
    return select(SESSIONS, *columns).select_from(joined).where(is_visible)


def _is_own(principal: Principal) -> ColumnElement[bool]:
    own_id = parse_id(principal.id)
    if own_id is None:  # the caller with the key of the environment
        return and_(SESSIONS.c.api_key_id.is_(None), SESSIONS.c.user_id.is_(None))
    return or_(SESSIONS.c.api_key_id == own_id, SESSIONS.c.user_id == own_id)


def _administers(principal: Principal) -> ColumnElement[bool]:
    """A session is administered with its key or its user."""
    return or_(principal.administers(API_KEYS), principal.administers(USERS))
