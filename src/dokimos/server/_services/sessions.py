"""Sessions of a browser, begun with an API key."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any, Final

from sqlalchemy import Connection, Row, delete, insert, select

from dokimos.server._db.clock import now
from dokimos.server._db.tables import SESSIONS

SECONDS: Final = 7 * 24 * 3600
"""How long a session lasts."""


def begin_session(connection: Connection, key_id: str | None, own_key: str | None) -> str:
    """Begin a session and return its token, of which only a hash is kept.

    Args:
        key_id: The API key that it was begun with, None for the key of the environment.
        own_key: The key of the environment, where it was begun with that.
    """
    moment = now()
    connection.execute(delete(SESSIONS).where(SESSIONS.c.expires_at <= moment))
    token = secrets.token_urlsafe(32)
    connection.execute(
        insert(SESSIONS).values(
            token_hash=_hash(token),
            api_key_id=key_id,
            own_key_proof=None if own_key is None else prove(token, own_key),
            created_at=moment,
            expires_at=moment + SECONDS * 1_000_000,
        )
    )
    return token


def find_session(connection: Connection, token: str) -> Row[Any] | None:
    """Return a session that has not expired, None where there is none."""
    query = select(SESSIONS).where(SESSIONS.c.token_hash == _hash(token), SESSIONS.c.expires_at > now())
    return connection.execute(query).first()


def end_session(connection: Connection, token: str) -> None:
    """End a session; one that does not exist is ended already."""
    connection.execute(delete(SESSIONS).where(SESSIONS.c.token_hash == _hash(token)))


def prove(token: str, own_key: str) -> str:
    """Return what shows that a session was begun with this key of the environment, without telling the key.

    A person may have chosen that key, so a plain hash of it could be guessed; the token cannot.
    """
    return _hash(f"{token}:{own_key}")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
