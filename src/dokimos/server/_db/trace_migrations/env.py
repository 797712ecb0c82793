"""What Alembic runs: the migrations of traces, on the connection that the server gives."""

from __future__ import annotations

from alembic import context

from dokimos.server._db.migrate import TRACE_MIGRATIONS
from dokimos.server._db.trace_tables import TRACE_METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=TRACE_METADATA,
    version_table=TRACE_MIGRATIONS.version_table,  # its own: both may be in one database
    transaction_per_migration=False,
    transactional_ddl=True,
)
context.run_migrations()
