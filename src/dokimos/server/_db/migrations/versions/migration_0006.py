"""Rules of online evaluation put what they scored into the review queue."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from dokimos.server._db.columns import LONG, NUMBER, Flag, Id

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the column, the table and its indexes."""
    op.add_column("trace_eval_rules", sa.Column("review", sa.Text(), nullable=True))
    op.create_table(
        "trace_eval_reviews",
        sa.Column("rule_id", Id(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("item_id", Id(), nullable=False),
        sa.Column("project_id", Id(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=True),
        sa.Column("day", LONG, nullable=False),
        sa.Column("failed", Flag(), nullable=False),
        sa.Column("probability", NUMBER, nullable=False),
        sa.Column("observed_at", LONG, nullable=False),
        sa.Column("created_at", LONG, nullable=False),
        sa.PrimaryKeyConstraint("rule_id", "target", name="pk_trace_eval_reviews"),
        sa.ForeignKeyConstraint(
            ["rule_id"], ["trace_eval_rules.id"], name="fk_trace_eval_reviews_rule_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["item_id"], ["items.id"], name="fk_trace_eval_reviews_item_id", ondelete="CASCADE"
        ),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_index("ix_trace_eval_reviews_rule_id_day", "trace_eval_reviews", ["rule_id", "day"])
    op.create_index(
        "ix_trace_eval_reviews_rule_id_observed_at", "trace_eval_reviews", ["rule_id", "observed_at"]
    )
    op.create_index("ix_trace_eval_reviews_item_id", "trace_eval_reviews", ["item_id"])
