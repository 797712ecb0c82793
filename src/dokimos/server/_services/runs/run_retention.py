"""Runs that are older than their project keeps them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, exists, func, or_, select, update

from dokimos.server._db.clock import DAY, now
from dokimos.server._db.tables import EXPERIMENTS, PROJECTS, RUNS
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.comparisons.baselines import can_be_baseline, did_not_fail
from dokimos.server._services.events import RUN_COLUMNS, EventKind, announce_run
from dokimos.server._services.projects.project_settings import FOREVER, ProjectSettings, read_settings
from dokimos.server._services.runs.run_counts import update_latest_run
from dokimos.server._services.runs.runs import RunStatus

_ENDED: Final = (RunStatus.SUCCESS, RunStatus.FAILED, RunStatus.CANCELLED)
_BASELINES: Final = 2
"""How many old runs stay of those that could be a baseline.

The latest is what the next run is compared with. If that is also the newest run of all, it is compared with
the one before.
"""
REMOVED_AT_ONCE: Final = 50
"""Runs that one transaction removes at most."""


def projects_with_retention(connection: Connection, defaults: ProjectSettings) -> list[Row[Any]]:
    """Return the projects that do not keep their runs for ever."""
    is_there = PROJECTS.c.deleted_at.is_(None)
    query = select(PROJECTS).where(is_there)
    if defaults.run_retention_days == FOREVER:
        query = query.where(PROJECTS.c.settings.is_not(None))
    return [
        project
        for project in connection.execute(query)
        if read_settings(project, defaults).run_retention_days != FOREVER
    ]


def find_expired_runs(
    connection: Connection, project_id: str, settings: ProjectSettings, moment: int
) -> list[str]:
    """Return the runs of a project that are to be removed, the oldest first.

    A run is, once it ended longer ago than the settings keep it, except for

    - the baseline that is pinned,
    - the latest runs of each experiment, as many as the settings say,
    - of each dataset version, the runs that the newest and the next run are compared with: the latest ones
      that could be a baseline, of any branch, of the branches that the settings name, and of those that did
      not fail the gate.

    Args:
        moment: The time at which it is decided, in microseconds.
    """
    query = select(RUNS.c.id).where(_is_expired(project_id, settings, moment))
    return list(connection.execute(query.order_by(RUNS.c.started_at, RUNS.c.id)).scalars())


def count_expired_runs(
    connection: Connection, principal: Principal, project_id: str, settings: ProjectSettings
) -> int:
    """Return how many of the runs that a caller sees are to be removed."""
    if settings.run_retention_days == FOREVER:
        return 0
    is_expired = _is_expired(project_id, settings, now())
    query = select(func.count()).select_from(RUNS).where(is_expired, principal.sees(RUNS))
    return connection.execute(query).scalar_one()


def remove_expired_runs(
    connection: Connection,
    project_id: str,
    run_ids: Sequence[str],
    settings: ProjectSettings,
    defaults: ProjectSettings,
    moment: int,
) -> int | None:
    """Mark some of the runs that `find_expired_runs` returned as deleted; return how many.

    None says that the settings of the project have changed meanwhile. A run that was opened again, pinned or
    removed by somebody else meanwhile is passed over.
    """
    project = connection.execute(select(PROJECTS).where(PROJECTS.c.id == project_id)).first()
    if project is None or read_settings(project, defaults) != settings:
        return None
    is_chosen = (RUNS.c.id.in_(run_ids), RUNS.c.deleted_at.is_(None), _is_old(settings, moment))
    # Locked first: whoever pins a run locks it too, so what is pinned then is known in the next statement.
    locked = select(RUNS.c.id).where(*is_chosen).order_by(RUNS.c.id).with_for_update(skip_locked=True)
    removed = connection.execute(
        update(RUNS)
        .where(RUNS.c.id.in_(list(connection.execute(locked).scalars())), ~_is_pinned())
        .values(deleted_at=now())
        .returning(*RUN_COLUMNS)
    ).all()
    for experiment_id, count in sorted(Counter(run.experiment_id for run in removed).items()):
        change = update(EXPERIMENTS).where(EXPERIMENTS.c.id == experiment_id)
        connection.execute(change.values(run_count=EXPERIMENTS.c.run_count - count))
        update_latest_run(connection, experiment_id)
    change = update(PROJECTS).where(PROJECTS.c.id == project_id)
    connection.execute(change.values(run_count=PROJECTS.c.run_count - len(removed)))
    for run in removed:
        announce_run(connection, EventKind.RUN_DELETED, run)
    return len(removed)


def _is_expired(project_id: str, settings: ProjectSettings, moment: int) -> ColumnElement[bool]:
    ranked = _rank_runs(project_id, settings, moment).subquery()
    stays = or_(
        ranked.c.place <= settings.keep_latest_runs,
        and_(ranked.c.can_be_baseline, ranked.c.place_of_baseline <= _BASELINES),
        and_(ranked.c.did_not_fail, ranked.c.place_of_passed <= _BASELINES),
        and_(
            ranked.c.can_be_baseline,
            ranked.c.git_branch.in_(settings.baseline_branches),
            ranked.c.place_of_branch <= _BASELINES,
        ),
    )
    return and_(RUNS.c.id.in_(select(ranked.c.id).where(ranked.c.is_old, ~stays)), ~_is_pinned())


def _rank_runs(project_id: str, settings: ProjectSettings, moment: int) -> Select[Any]:
    """Return the runs of a project with their places among those of their kind, the latest first."""
    is_old = _is_old(settings, moment)
    could_be = can_be_baseline()
    passed = and_(could_be, did_not_fail())
    latest_first = (RUNS.c.started_at.desc(), RUNS.c.id.desc())
    # What a tenant runs below a shared experiment is not the baseline of others.
    together = (RUNS.c.experiment_id, RUNS.c.tenant_id)
    of_version = (*together, RUNS.c.dataset_version_id, is_old)

    def place(*kind: ColumnElement[Any]) -> ColumnElement[int]:
        return func.row_number().over(partition_by=kind, order_by=latest_first)

    return select(
        RUNS.c.id,
        RUNS.c.git_branch,
        is_old.label("is_old"),
        could_be.label("can_be_baseline"),
        passed.label("did_not_fail"),
        place(*together).label("place"),
        place(*of_version, could_be).label("place_of_baseline"),
        place(*of_version, passed).label("place_of_passed"),
        place(*of_version, could_be, RUNS.c.git_branch).label("place_of_branch"),
    ).where(RUNS.c.project_id == project_id, RUNS.c.deleted_at.is_(None))


def _is_old(settings: ProjectSettings, moment: int) -> ColumnElement[bool]:
    oldest = max(0, moment - int(settings.run_retention_days * DAY))
    return and_(RUNS.c.status.in_(_ENDED), func.coalesce(RUNS.c.completed_at, RUNS.c.started_at) < oldest)


def _is_pinned() -> ColumnElement[bool]:
    pins = (EXPERIMENTS.c.id == RUNS.c.experiment_id, EXPERIMENTS.c.baseline_run_id == RUNS.c.id)
    return exists(select(EXPERIMENTS.c.id).where(*pins))
