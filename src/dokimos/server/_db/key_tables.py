"""The tables of API keys and of the sessions that browsers begin with them."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Column, ForeignKey, Index, Table, Text

from dokimos.server._db.columns import LONG, TIME, Flag, Id
from dokimos.server._db.metadata import METADATA

API_KEYS: Final = Table(
    "api_keys",
    METADATA,
    Column("id", Id, primary_key=True),
    Column("key_hash", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("tenant_id", Text),
    Column("enabled", Flag, nullable=False),
    Column("created_at", TIME, nullable=False),
    Column("last_used_at", TIME),
    Column("expires_at", TIME),  # None for a key that does not expire
    Column("created_by", Text),
    Column("requests_per_minute", LONG),  # None for the limit of the settings, 0 for no limit
    Column("rotated_at", TIME),
    # The text before the last rotation is accepted for some time more.
    Column("previous_hash", Text),
    Column("previous_expires_at", TIME),
    sqlite_strict=True,
)

SESSIONS: Final = Table(
    "sessions",
    METADATA,
    Column("token_hash", Text, primary_key=True),
    # None for the key of the environment, whose own proof says which key that was.
    Column("api_key_id", Id, ForeignKey("api_keys.id", ondelete="CASCADE")),
    Column("own_key_proof", Text),
    Column("created_at", TIME, nullable=False),
    Column("expires_at", TIME, nullable=False),
    Column("id", Id),  # by which it is listed and ended; its token is known to the browser alone
    Column("key_hash", Text),  # of the key's text that it was begun with: a rotation ends it
    Column("user_id", Id),
    Column("address", Text),
    Column("user_agent", Text),
    Column("last_seen_at", TIME),
    Column("id_token", Text),  # with which the identity provider recognizes who signs out there
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

Index(None, SESSIONS.c.api_key_id)
Index(None, SESSIONS.c.id, unique=True)
Index(None, SESSIONS.c.user_id)
