"""What experiments and projects keep of their runs: how many there are, and which began last."""

from __future__ import annotations

from sqlalchemy import Connection, select, update

from dokimos.server._db.clock import now
from dokimos.server._db.database import Overtaken
from dokimos.server._db.tables import EXPERIMENTS, PROJECTS, RUNS
from dokimos.server._services.visible_counts import activity_at


def count_run(
    connection: Connection, experiment_id: str, project_id: str, change: int, tenant: str | None
) -> None:
    """Count a run of a tenant that was started or deleted.

    Raises:
        Overtaken: What it belongs to has been deleted meanwhile.
    """
    for table, row_id, values in (
        (EXPERIMENTS, experiment_id, {}),
        (PROJECTS, project_id, activity_at(now(), tenant)),
    ):
        count = table.c.run_count + change
        is_there = (table.c.id == row_id, table.c.deleted_at.is_(None))
        counted = connection.execute(update(table).where(*is_there).values(run_count=count, **values))
        if not counted.rowcount:
            raise Overtaken


def update_latest_run(connection: Connection, experiment_id: str) -> None:
    """Keep which run of an experiment began last, after some were created or deleted.

    The transaction has changed the experiment before, and so locked it: of two runs that are created at once,
    the second transaction sees the first one's.
    """
    latest = (
        select(RUNS.c.id)
        .where(RUNS.c.experiment_id == experiment_id, RUNS.c.deleted_at.is_(None))
        .order_by(RUNS.c.started_at.desc(), RUNS.c.id.desc())
        .limit(1)
    )
    change = update(EXPERIMENTS).where(EXPERIMENTS.c.id == experiment_id)
    connection.execute(change.values(latest_run_id=latest.scalar_subquery()))
