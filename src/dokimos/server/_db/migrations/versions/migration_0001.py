"""The first schema."""

from __future__ import annotations

from alembic import op

from dokimos.server._db.tables import METADATA

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create all tables."""
    METADATA.create_all(op.get_bind())
