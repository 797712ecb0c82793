"""The hours of traces, added up by the day: a worker fills the table, so that the upgrade reads nothing."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from dokimos.server._db.columns import LONG

revision = "0003"
down_revision = "0002"

_KEY = ("project_key", "tenant_key", "day")


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "trace_rollups",
        sa.Column("project_key", sa.Text(), nullable=False),
        sa.Column("tenant_key", sa.Text(), nullable=False),
        sa.Column("day", LONG, nullable=False),
        sa.Column("changes", LONG, nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint(*_KEY, name=op.f("pk_trace_rollups")),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    is_stale = sa.text("content IS NULL")
    op.create_index(
        "ix_trace_rollups_stale",
        "trace_rollups",
        list(_KEY),
        sqlite_where=is_stale,
        postgresql_where=is_stale,
    )
