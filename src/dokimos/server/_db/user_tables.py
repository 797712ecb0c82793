"""The tables of people who sign in with an identity provider or through a proxy."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Column, Index, Table, Text, UniqueConstraint

from dokimos.server._db.columns import TIME, Flag, Id
from dokimos.server._db.metadata import METADATA

USERS: Final = Table(
    "users",
    METADATA,
    Column("id", Id, primary_key=True),
    # Who somebody is, is said by these two alone: an email address can be given to another person.
    Column("issuer", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("email", Text),
    Column("role", Text, nullable=False),  # as the groups of the last sign-in say
    Column("role_override", Text),  # as an administrator has said, which counts
    Column("tenant_id", Text),
    Column("enabled", Flag, nullable=False),
    Column("created_at", TIME, nullable=False),
    Column("last_seen_at", TIME, nullable=False),
    UniqueConstraint("issuer", "subject"),
    sqlite_strict=True,
)

USED_SIGN_INS: Final = Table(
    "used_sign_ins",
    METADATA,
    Column("state_hash", Text, primary_key=True),
    Column("expires_at", TIME, nullable=False),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""Answers of an identity provider that were accepted: each is accepted once."""

Index(None, USERS.c.tenant_id)
Index(None, USED_SIGN_INS.c.expires_at)
