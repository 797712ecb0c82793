"""Sessions of a browser: begun with an API key or by somebody who signs in, found by their cookie, ended."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    and_,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    true,
    update,
)

from dokimos.server._db.clock import HOUR, MINUTE, now
from dokimos.server._db.ids import new_id
from dokimos.server._db.key_tables import API_KEYS, SESSIONS
from dokimos.server._db.user_tables import USERS
from dokimos.server._services.accounts.secret_hash import hash_secret

SEEN_INTERVAL: Final = MINUTE
"""How often it is written at most when a session was last used."""
_SKEW: Final = 5 * MINUTE
"""By how much the clocks of servers may differ."""
_MAX_AGENT: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """Whose session begins, and where: it is that of a key, of the key of the environment, or of a user."""

    key_id: str | None = None
    key_hash: str | None = None
    """Of the text of the key that was sent: the session ends when that text does."""
    own_key: str | None = None
    """The key of the environment."""
    user_id: str | None = None
    id_token: str | None = None
    """What the identity provider has said, for signing out there."""
    address: str = ""
    user_agent: str = ""


@dataclass(frozen=True, slots=True)
class FoundSession:
    """A session that has not ended, and its user, where it is that of one."""

    row: Row[Any]
    user: Row[Any] | None


def begin_session(connection: Connection, new: NewSession, hours: float) -> str:
    """Begin a session that lasts for some hours; return its token, of which only a hash is kept."""
    moment = now()
    connection.execute(delete(SESSIONS).where(SESSIONS.c.expires_at <= moment))
    token = secrets.token_urlsafe(32)
    connection.execute(
        insert(SESSIONS).values(
            token_hash=hash_secret(token),
            id=new_id(),
            api_key_id=new.key_id,
            key_hash=new.key_hash,
            own_key_proof=None if new.own_key is None else prove(token, new.own_key),
            user_id=new.user_id,
            id_token=new.id_token,
            address=new.address,
            user_agent=new.user_agent[:_MAX_AGENT],
            created_at=moment,
            last_seen_at=moment,
            expires_at=moment + int(hours * HOUR),
        )
    )
    return token


def find_session(connection: Connection, token: str, idle_hours: float) -> FoundSession | None:
    """Return a session that has not ended, None where there is none."""
    query = select(SESSIONS).where(SESSIONS.c.token_hash == hash_secret(token), is_alive(now(), idle_hours))
    row = connection.execute(query).first()
    if row is None:
        return None
    if row.user_id is None:
        return FoundSession(row, None)
    return FoundSession(row, connection.execute(select(USERS).where(USERS.c.id == row.user_id)).first())


def is_alive(moment: int, idle_hours: float) -> ColumnElement[bool]:
    """The condition that a session has not ended: not by time, and not with its key or its user."""
    is_of_text = or_(
        and_(
            API_KEYS.c.key_hash == SESSIONS.c.key_hash,
            or_(API_KEYS.c.expires_at.is_(None), API_KEYS.c.expires_at > moment),
        ),
        and_(API_KEYS.c.previous_hash == SESSIONS.c.key_hash, API_KEYS.c.previous_expires_at > moment),
    )
    # A list of sessions is joined with the same tables; these conditions look on their own.
    is_of_key = (
        exists()
        .where(API_KEYS.c.id == SESSIONS.c.api_key_id, API_KEYS.c.enabled.is_(true()), is_of_text)
        .correlate(SESSIONS)
    )
    is_of_user = (
        exists().where(USERS.c.id == SESSIONS.c.user_id, USERS.c.enabled.is_(true())).correlate(SESSIONS)
    )
    conditions = [
        # One without an id is from a server that did not keep what this one asks for.
        SESSIONS.c.id.is_not(None),
        SESSIONS.c.expires_at > moment,
        # A clock that was set back must not make a session last longer than its hours.
        SESSIONS.c.created_at <= moment + _SKEW,
        or_(SESSIONS.c.own_key_proof.is_not(None), is_of_key, is_of_user),
    ]
    if idle_hours > 0:
        last_seen = func.coalesce(SESSIONS.c.last_seen_at, SESSIONS.c.created_at)
        conditions.append(last_seen > moment - int(idle_hours * HOUR))
    return and_(*conditions)


def note_seen(connection: Connection, session: Row[Any], moment: int) -> None:
    """Keep when a session was last used, and when its user was seen."""
    chosen = SESSIONS.c.token_hash == session.token_hash
    connection.execute(update(SESSIONS).where(chosen).values(last_seen_at=moment))
    if session.user_id is not None:
        connection.execute(update(USERS).where(USERS.c.id == session.user_id).values(last_seen_at=moment))


def end_session(connection: Connection, token: str) -> str | None:
    """End a session; one that does not exist is ended already. Return its ID token, where it has one."""
    chosen = SESSIONS.c.token_hash == hash_secret(token)
    id_token: str | None = connection.execute(select(SESSIONS.c.id_token).where(chosen)).scalar()
    connection.execute(delete(SESSIONS).where(chosen))
    return id_token


def end_sessions_of_key(connection: Connection, key_id: str, *, but_of: str | None = None) -> int:
    """End the sessions that were begun with a key, except those of one of its texts, given by its hash."""
    chosen = SESSIONS.c.api_key_id == key_id
    if but_of is not None:
        chosen = and_(chosen, or_(SESSIONS.c.key_hash.is_(None), SESSIONS.c.key_hash != but_of))
    return connection.execute(delete(SESSIONS).where(chosen)).rowcount


def end_sessions_of_user(connection: Connection, user_id: str) -> int:
    """End the sessions of a user; return how many there were."""
    return connection.execute(delete(SESSIONS).where(SESSIONS.c.user_id == user_id)).rowcount


def prove(token: str, own_key: str) -> str:
    """Return what shows that a session was begun with this key of the environment, without telling the key.

    A person may have chosen that key, so a plain hash of it could be guessed; the token cannot.
    """
    return hash_secret(f"{token}:{own_key}")
