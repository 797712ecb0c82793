"""How many model calls have a price, of a trace and of what is counted by the hour."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from dokimos.server._db.columns import LONG

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the columns: of a trace that an earlier version stored, it is not known."""
    for name in ("priced_calls", "unpriced_calls"):
        op.add_column("traces", sa.Column(name, LONG, nullable=True))
        for table in ("trace_hours", "trace_models"):
            op.add_column(table, sa.Column(name, LONG, nullable=False, server_default="0"))
