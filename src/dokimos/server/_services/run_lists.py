"""Lists of the runs of an experiment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, or_, select

from dokimos.server._db.tables import RUN_TAGS, RUNS
from dokimos.server._services.errors import InvalidRequestError
from dokimos.server._services.principal import Principal
from dokimos.server._services.projects import contains, find_experiment
from dokimos.server._services.runs import RunStatus, select_described_runs


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Which runs of an experiment a list shows."""

    search: str | None = None
    status: Sequence[RunStatus] = ()
    branch: str | None = None
    tag: str | None = None
    dataset_version_id: str | None = None
    before: tuple[int, str] | None = None
    """Runs that started before this time, or then with a smaller id: where the page before ended."""
    limit: int | None = None


def list_runs(
    connection: Connection, principal: Principal, experiment_id: str, chosen: RunFilter
) -> Sequence[Row[Any]]:
    """Return the runs of an experiment, the newest first.

    Raises:
        NotFoundError: There is no such experiment that the caller sees.
    """
    find_experiment(connection, principal, experiment_id)
    query = select_described_runs().where(RUNS.c.experiment_id == experiment_id, principal.sees(RUNS))
    query = _narrow(query, chosen).order_by(RUNS.c.started_at.desc(), RUNS.c.id.desc())
    return connection.execute(query.limit(chosen.limit)).all()


def place_of_run(
    connection: Connection, principal: Principal, experiment_id: str, run_id: str
) -> tuple[int, str]:
    """Return when a run started, and its id: where a list of runs can go on.

    Raises:
        InvalidRequestError: The experiment has no such run that the caller sees.
    """
    query = select(RUNS.c.started_at).where(
        RUNS.c.id == run_id, RUNS.c.experiment_id == experiment_id, principal.sees(RUNS)
    )
    started_at = connection.execute(query).scalar()
    if started_at is None:
        raise InvalidRequestError("is not a run of this experiment", field="after")
    return started_at, run_id


def _narrow(query: Select[Any], chosen: RunFilter) -> Select[Any]:
    if chosen.search:
        columns = (RUNS.c.name, RUNS.c.git_branch, RUNS.c.git_sha, RUNS.c.notes, RUNS.c.config)
        query = query.where(or_(*(contains(column, chosen.search) for column in columns)))
    if chosen.status:
        query = query.where(RUNS.c.status.in_(chosen.status))
    if chosen.branch is not None:
        query = query.where(RUNS.c.git_branch == chosen.branch)
    if chosen.tag is not None:
        query = query.where(RUNS.c.id.in_(select(RUN_TAGS.c.run_id).where(RUN_TAGS.c.tag == chosen.tag)))
    if chosen.dataset_version_id is not None:
        query = query.where(RUNS.c.dataset_version_id == chosen.dataset_version_id)
    if chosen.before is not None:
        moment, run_id = chosen.before
        is_later = and_(RUNS.c.started_at == moment, RUNS.c.id < run_id)
        query = query.where(or_(RUNS.c.started_at < moment, is_later))
    return query
