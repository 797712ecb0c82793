"""What people read of judge calls, reviewers and scores near their thresholds; versions of webhooks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from dokimos.server._db.columns import LONG, NUMBER

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the indexes and the columns."""
    columns = ["project_id", "created_at", "id", "job_id", "status", "calls", "tokens", "nano_usd"]
    op.create_index("ix_judge_calls_ledger", "judge_calls", columns)
    op.create_index("ix_reviews_updated_at", "reviews", ["updated_at"])
    op.create_index("ix_review_claims_run_id", "review_claims", ["run_id"])
    op.add_column("alert_webhooks", sa.Column("updated_at", LONG, nullable=True))
    op.add_column("run_evaluators", sa.Column("nearest", NUMBER, nullable=True))
    op.add_column("run_evaluators", sa.Column("nearest_count", LONG, nullable=False, server_default="0"))
    op.add_column("run_evaluators", sa.Column("nearest_sum", NUMBER, nullable=False, server_default="0"))
