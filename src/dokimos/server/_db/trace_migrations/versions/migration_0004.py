"""The first chance of a session to be scored: a new table, and a column that is empty for what is there."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from dokimos.server._db.columns import LONG, NUMBER, Id

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the table and the column."""
    op.create_table(
        "trace_eval_chances",
        sa.Column("rule_id", Id(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("trace", Id(), nullable=False),
        sa.Column("observed_at", LONG, nullable=False),
        sa.PrimaryKeyConstraint("rule_id", "target", name=op.f("pk_trace_eval_chances")),
        sa.ForeignKeyConstraint(
            ["trace"], ["traces.id"], name=op.f("fk_trace_eval_chances_trace"), ondelete="CASCADE"
        ),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_index("ix_trace_eval_chances_trace", "trace_eval_chances", ["trace"])
    op.add_column("trace_eval_jobs", sa.Column("first_probability", NUMBER, nullable=True))
