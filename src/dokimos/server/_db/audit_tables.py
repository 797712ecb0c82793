"""The table of the audit log."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Column, Index, Table, Text

from dokimos.server._db.columns import LONG, TIME, Id
from dokimos.server._db.metadata import METADATA

AUDIT_LOG: Final = Table(
    "audit_log",
    METADATA,
    Column("id", Id, primary_key=True),
    Column("created_at", TIME, nullable=False),
    # Of what is counted (batches of items, refusals): how often, and when it happened last.
    Column("last_at", TIME, nullable=False),
    Column("times", LONG, nullable=False, server_default="1"),
    # Without references to other tables: the log outlives what it speaks of.
    Column("principal_kind", Text, nullable=False),
    Column("principal_id", Text, nullable=False),
    Column("principal_name", Text),
    Column("tenant_id", Text),
    Column("address", Text),
    Column("request_id", Text),
    Column("action", Text, nullable=False),
    Column("target_kind", Text),
    Column("target_id", Text),
    Column("target_name", Text),
    Column("project_id", Id),
    Column("outcome", Text, nullable=False),
    Column("status", LONG),
    Column("details", Text),  # JSON
    sqlite_strict=True,
)

Index(None, AUDIT_LOG.c.created_at, AUDIT_LOG.c.id)
for _column in (AUDIT_LOG.c.tenant_id, AUDIT_LOG.c.principal_id, AUDIT_LOG.c.target_id):
    Index(None, _column, AUDIT_LOG.c.created_at, AUDIT_LOG.c.id)
