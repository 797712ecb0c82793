"""What the stream of events reads from the tables."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, select

from dokimos.server._db.batches import in_batches
from dokimos.server._db.tables import RUNS
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.errors import NotFoundError
from dokimos.server._services.events import RUN_COLUMNS, Event, EventKind, EventScope, counts_of, run_event
from dokimos.server._services.projects.projects import find_experiment, find_project
from dokimos.server._services.runs.runs import RunStatus, find_run


def read_item_events(connection: Connection, run_ids: Sequence[str]) -> list[Event]:
    """Return the events of runs that got items, without the runs that have ended since then."""
    events = []
    for batch in in_batches(run_ids):
        query = select(*RUN_COLUMNS).where(
            RUNS.c.id.in_(batch), RUNS.c.status == RunStatus.RUNNING, RUNS.c.deleted_at.is_(None)
        )
        rows = connection.execute(query)
        events += [run_event(EventKind.RUN_ITEMS, run, counts_of(run)) for run in rows]
    return events


def find_scope(
    connection: Connection,
    principal: Principal,
    *,
    project: str | None,
    experiment_id: str | None,
    run_id: str | None,
) -> EventScope:
    """Return the scope that a name of a project and ids of an experiment and a run mean.

    Raises:
        NotFoundError: One of them does not exist, is not visible to the caller, or is not in the other.
    """
    project_id = None if project is None else find_project(connection, principal, project).id
    if run_id is not None:
        run = find_run(connection, principal, run_id)
        if experiment_id not in (None, run.experiment_id) or project_id not in (None, run.project_id):
            raise NotFoundError(f"The run {run_id} is not in the experiment or project that is named")
        return EventScope(project_id=run.project_id, experiment_id=run.experiment_id, run_id=run_id)
    if experiment_id is not None:
        experiment = find_experiment(connection, principal, experiment_id)
        if project_id not in (None, experiment.project_id):
            raise NotFoundError(f"The experiment {experiment_id} is not in the project that is named")
        return EventScope(project_id=experiment.project_id, experiment_id=experiment_id)
    return EventScope(project_id=project_id)
