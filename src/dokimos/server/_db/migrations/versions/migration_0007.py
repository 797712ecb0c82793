"""The ledger of the calls of judge jobs, which people read by project and time."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the index."""
    columns = ["project_id", "created_at", "id", "job_id", "status", "calls", "tokens", "nano_usd"]
    op.create_index("ix_judge_calls_ledger", "judge_calls", columns)
