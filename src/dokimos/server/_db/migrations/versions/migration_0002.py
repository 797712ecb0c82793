"""Comparisons that last longest, runs that wait for a verdict or have a tenant, scores that are judged."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from dokimos.server._db.columns import LONG, Flag

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the columns and indexes."""
    _extend_comparisons()
    _extend_runs()
    op.add_column("evaluations", sa.Column("judged", Flag(), nullable=True))


def _extend_comparisons() -> None:
    op.add_column("comparisons", sa.Column("automatic", Flag(), nullable=True))
    op.create_index("ix_comparisons_created_at_case_count", "comparisons", ["created_at", "case_count"])
    op.create_index(
        "ix_comparisons_discarded",
        "comparisons",
        ["created_at"],
        sqlite_where=sa.text("state = ''"),
        postgresql_where=sa.text("state = ''"),
    )


def _extend_runs() -> None:
    op.add_column("runs", sa.Column("informational_count", LONG, nullable=False, server_default="0"))
    op.create_index(
        "ix_runs_without_verdict",
        "runs",
        ["completed_at"],
        sqlite_where=sa.text("verdict IS NULL AND completed_at IS NOT NULL"),
        postgresql_where=sa.text("verdict IS NULL AND completed_at IS NOT NULL"),
    )
    op.create_index(
        "ix_runs_of_tenants",
        "runs",
        ["project_id", "experiment_id", "tenant_id"],
        sqlite_where=sa.text("tenant_id IS NOT NULL AND deleted_at IS NULL"),
        postgresql_where=sa.text("tenant_id IS NOT NULL AND deleted_at IS NULL"),
    )
