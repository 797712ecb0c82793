"""What Alembic runs: the migrations, on the connection that the server gives."""

from __future__ import annotations

from alembic import context

from dokimos.server._db.schema import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    transaction_per_migration=False,
    transactional_ddl=True,
)
# No transaction of Alembic's own: the caller's holds the lock, and either all migrations are applied or none.
context.run_migrations()
