"""With which probability a score was chosen for review, apart from that of its being scored."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from dokimos.server._db.columns import NUMBER

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add the column, which is empty for what is there."""
    op.add_column("trace_eval_reviews", sa.Column("chosen_probability", NUMBER, nullable=True))
