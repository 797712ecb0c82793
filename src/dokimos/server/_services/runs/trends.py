"""How an experiment did over its latest runs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, Select, func, select

from dokimos.server._db.batches import in_batches
from dokimos.server._db.tables import EXPERIMENTS, RUN_EVALUATORS, RUNS
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.list_pages import ListPage, SortKeys, read_page
from dokimos.server._services.projects.projects import contains, find_project
from dokimos.server._services.runs.runs import COMPARABLE
from dokimos.server._services.visible_counts import select_counted

EXPERIMENT_ORDERS: Final = SortKeys(
    {"createdAt": EXPERIMENTS.c.created_at, "name": func.lower(EXPERIMENTS.c.name)},
    ties=(EXPERIMENTS.c.id,),
    default="createdAt,desc",
)


def list_experiments(
    connection: Connection,
    principal: Principal,
    project_name: str,
    page: ListPage,
    *,
    search: str | None = None,
) -> list[tuple[Row[Any], Row[Any] | None]]:
    """Return a page of the experiments of a project, with the latest run of each."""
    project = find_project(connection, principal, project_name)
    visible = select_counted(EXPERIMENTS, principal).where(
        EXPERIMENTS.c.project_id == project.id, principal.sees(EXPERIMENTS)
    )
    conditions = [contains(EXPERIMENTS.c.name, search)] if search else []
    experiments = read_page(connection, visible, page, EXPERIMENTS.c.id, *conditions)
    latest = _latest_runs(connection, principal, experiments)
    return [(experiment, latest.get(experiment.id)) for experiment in experiments]


def latest_runs_of_projects(
    connection: Connection, principal: Principal, project_ids: Sequence[str]
) -> dict[str, list[Row[Any]]]:
    """Return the latest run of each experiment of projects, the newest first.

    The rows are runs with `experiment_name`. Experiments without a run that the caller sees are missing.
    """
    latest: dict[str, list[Row[Any]]] = {project_id: [] for project_id in project_ids}
    shown = RUNS.alias("shown")
    query: Select[Any] = (
        select(shown, EXPERIMENTS.c.name.label("experiment_name"))
        .join_from(EXPERIMENTS, shown, shown.c.id == _latest_run(principal))
        .where(principal.sees(EXPERIMENTS), EXPERIMENTS.c.latest_run_id.is_not(None))
        .order_by(shown.c.started_at.desc(), shown.c.id.desc())
    )
    for batch in in_batches(project_ids):
        for row in connection.execute(query.where(EXPERIMENTS.c.project_id.in_(batch))):
            latest[row.project_id].append(row)
    return latest


def _latest_run(principal: Principal) -> ColumnElement[str]:
    """The latest run of an experiment that the caller sees: the kept one, or one looked for."""
    runs = select(RUNS.c.id).where(principal.sees(RUNS)).correlate(EXPERIMENTS)
    kept = runs.where(RUNS.c.id == EXPERIMENTS.c.latest_run_id)
    newest = runs.where(RUNS.c.experiment_id == EXPERIMENTS.c.id)
    newest = newest.order_by(RUNS.c.started_at.desc(), RUNS.c.id.desc()).limit(1)
    return func.coalesce(kept.scalar_subquery(), newest.scalar_subquery())


def latest_completed_runs(
    connection: Connection, principal: Principal, experiment_id: str, limit: int
) -> Sequence[Row[Any]]:
    """Return the newest runs of an experiment that succeeded or failed, the oldest of them first."""
    query = (
        select(RUNS)
        .where(RUNS.c.experiment_id == experiment_id, RUNS.c.status.in_(COMPARABLE), principal.sees(RUNS))
        .order_by(RUNS.c.started_at.desc(), RUNS.c.id.desc())
        .limit(limit)
    )
    return connection.execute(query).all()[::-1]


def evaluators_over_runs(
    connection: Connection, principal: Principal, experiment_id: str, limit: int
) -> dict[str, list[Row[Any]]]:
    """Return what each evaluator said of the newest runs that succeeded or failed, oldest first, by its name.

    Evaluators of the latest run come first, in its order.
    """
    runs = latest_completed_runs(connection, principal, experiment_id, limit)
    by_run: dict[str, list[Row[Any]]] = {run.id: [] for run in runs}
    for batch in in_batches([run.id for run in runs]):
        query = select(RUN_EVALUATORS).where(RUN_EVALUATORS.c.run_id.in_(batch))
        for row in connection.execute(query.order_by(RUN_EVALUATORS.c.position, RUN_EVALUATORS.c.name)):
            by_run[row.run_id].append(row)
    evaluators: dict[str, list[Row[Any]]] = {}
    for rows in reversed(by_run.values()):
        for row in rows:
            evaluators.setdefault(row.name, []).append(row)
    return {name: rows[::-1] for name, rows in evaluators.items()}


def find_changed_evaluators(connection: Connection, runs: Sequence[Row[Any]]) -> dict[str, list[str]]:
    """Return the evaluators that are not as in the run before: new, gone, or with another fingerprint.

    They are in alphabetical order, by the id of the run; a run that changes none is missing, as is what
    follows a run, or is one, whose client named no fingerprints.
    """
    known: dict[str, dict[str, str]] = {}
    evaluators = RUN_EVALUATORS.c
    for batch in in_batches([run.id for run in runs]):
        query = select(evaluators.run_id, evaluators.name, evaluators.fingerprint)
        query = query.where(evaluators.run_id.in_(batch), evaluators.fingerprint.is_not(None))
        for run_id, name, fingerprint in connection.execute(query):
            known.setdefault(run_id, {})[name] = fingerprint
    changed: dict[str, list[str]] = {}
    for before, run in pairwise(runs):
        old, now = known.get(before.id), known.get(run.id)
        if old and now and old != now:
            changed[run.id] = sorted(name for name in old | now if old.get(name) != now.get(name))
    return changed


def _latest_runs(
    connection: Connection, principal: Principal, experiments: Sequence[Row[Any]]
) -> dict[str, Row[Any]]:
    """The latest run of each experiment that the caller sees, by the id of the experiment.

    The experiment keeps its latest run. Only where that one belongs to another tenant is the caller's own
    looked for, one experiment at a time.
    """
    ids = [experiment.latest_run_id for experiment in experiments if experiment.latest_run_id is not None]
    latest: dict[str, Row[Any]] = {}
    for batch in in_batches(ids):
        query = select(RUNS).where(RUNS.c.id.in_(batch), principal.sees(RUNS))
        latest.update((run.experiment_id, run) for run in connection.execute(query))
    for experiment in experiments:
        if experiment.latest_run_id is not None and experiment.id not in latest:
            own = select(RUNS).where(RUNS.c.experiment_id == experiment.id, principal.sees(RUNS))
            row = connection.execute(
                own.order_by(RUNS.c.started_at.desc(), RUNS.c.id.desc()).limit(1)
            ).first()
            if row is not None:
                latest[experiment.id] = row
    return latest
