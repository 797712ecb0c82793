"""The ledger of judge calls and the progress of reviewers, which people read; versions of webhooks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from dokimos.server._db.columns import LONG

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the indexes and the column."""
    columns = ["project_id", "created_at", "id", "job_id", "status", "calls", "tokens", "nano_usd"]
    op.create_index("ix_judge_calls_ledger", "judge_calls", columns)
    op.create_index("ix_reviews_updated_at", "reviews", ["updated_at"])
    op.create_index("ix_review_claims_run_id", "review_claims", ["run_id"])
    op.add_column("alert_webhooks", sa.Column("updated_at", LONG, nullable=True))
