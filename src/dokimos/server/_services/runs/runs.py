"""Runs: created, listed, described, moved from one status to the next, deleted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, delete, select, update

from dokimos.server._db.clock import now
from dokimos.server._db.database import Overtaken
from dokimos.server._db.ids import new_id
from dokimos.server._db.inserts import insert_if_absent
from dokimos.server._db.tables import (
    DATASET_VERSIONS,
    DATASETS,
    EXPERIMENTS,
    PROJECTS,
    RUN_TAGS,
    RUNS,
)
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.datasets.dataset_access import note_use
from dokimos.server._services.errors import ConflictError, NotFoundError
from dokimos.server._services.events import Event, EventKind, announce, announce_run, counts_of
from dokimos.server._services.projects.projects import (
    announce_experiment,
    find_experiment,
    find_named,
    find_or_create_experiment,
    find_or_create_project,
)
from dokimos.server._services.runs.run_counts import count_run, update_latest_run
from dokimos.server._services.runs.run_parts import EvaluatorOfRun, insert_evaluators, insert_tags
from dokimos.server._services.visible_counts import activity_at


class RunStatus(StrEnum):
    """How far a run is."""

    RUNNING = "RUNNING"
    EVALUATING = "EVALUATING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


COMPARABLE: Final = (RunStatus.SUCCESS, RunStatus.FAILED)
"""The statuses of runs that comparisons and the gate read: they ended, and nobody stopped them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """What a client says about a run that it starts. Texts that are JSON are JSON already."""

    experiment: str
    config: str | None = None
    name: str | None = None
    git_sha: str | None = None
    git_branch: str | None = None
    triggered_by: str | None = None
    pull_request: str | None = None
    provenance: str | None = None
    notes: str | None = None
    dataset_name: str | None = None
    dataset_version: int | None = None
    planned_item_count: int | None = None
    tags: Sequence[str] = ()
    evaluators: Sequence[EvaluatorOfRun] = field(default=())
    started_at: int | None = None
    """When it began, where that is known and not now."""
    idempotency_key: str | None = None
    idempotency_hash: str | None = None
    renews_deleted: bool = False
    """Whether the key stands for a run again that has been deleted, instead of being used up."""


def create_run(connection: Connection, principal: Principal, project_name: str, new: NewRun) -> str:
    """Start a run, in a project and an experiment that are created where they are missing; return its id.

    Raises:
        ConflictError: The idempotency key has been used for another run.
        NotFoundError: The version of the dataset does not exist.
        RoleError: The caller's role in the project is too low, or creates none.
        ForbiddenError: The project is shared, and closed to this caller.
    """
    project = find_or_create_project(connection, principal, project_name)
    return create_run_in(connection, principal, project, new)


def create_run_in(connection: Connection, principal: Principal, project: Row[Any], new: NewRun) -> str:
    """Start a run in a project that the caller sees; return its id. Raises what `create_run` does."""
    principal.check_may_write(project.tenant_id, f"The project '{project.name}'", project=project.id)
    earlier = _earlier_run(connection, principal, project.id, new)
    if earlier is not None:
        return earlier
    experiment = find_or_create_experiment(connection, principal, project, new.experiment)
    tenant = principal.tenant if principal.is_restricted else experiment.tenant_id
    # A run names its dataset to all who see the run: a dataset that they may not see is none for it.
    reader = replace(principal, tenant=tenant, is_restricted=True)
    version = _find_dataset_version(connection, reader, new)
    run_id, moment = new_id(), now()
    # A client whose clock is fast would otherwise have the latest run, and the next baseline, for hours.
    started_at = moment if new.started_at is None else min(new.started_at, moment)
    is_new = insert_if_absent(
        connection,
        RUNS,
        id=run_id,
        experiment_id=experiment.id,
        project_id=project.id,
        tenant_id=tenant,
        status=RunStatus.RUNNING,
        config=new.config,
        name=new.name,
        git_sha=new.git_sha,
        git_branch=new.git_branch,
        triggered_by=new.triggered_by,
        pull_request=new.pull_request,
        provenance=new.provenance,
        notes=new.notes,
        dataset_version_id=None if version is None else version.id,
        planned_item_count=new.planned_item_count,
        created_by=principal.id,
        started_at=started_at,
        last_activity_at=moment,
        idempotency_scope=principal.tenant or "",
        idempotency_key=new.idempotency_key,
        idempotency_hash=new.idempotency_hash,
    )
    if not is_new:  # another transaction with the same Idempotency-Key was quicker
        earlier = _earlier_run(connection, principal, project.id, new)
        if earlier is None:
            raise Overtaken
        return earlier
    if version is not None:
        note_use(connection, project.id, version.dataset_id)
    insert_tags(connection, run_id, new.tags)
    insert_evaluators(connection, run_id, new.evaluators)
    _add_to_experiment(connection, experiment, run_id, tenant)
    return run_id


def find_run(
    connection: Connection, principal: Principal, run_id: str, *, for_update: bool = False
) -> Row[Any]:
    """Return a run by its id.

    Args:
        for_update: Whether to lock the row until the transaction ends. What is sent to one run, what ends it
            and what judges it take turns by this lock (on SQLite, by the one writer).

    Raises:
        NotFoundError: There is none that the caller sees.
    """
    query = select(RUNS).where(RUNS.c.id == run_id, principal.sees(RUNS))
    row = connection.execute(query.with_for_update() if for_update else query).first()
    if row is None:
        raise NotFoundError(f"Run not found: {run_id}")
    return row


def find_described_run(connection: Connection, principal: Principal, run_id: str) -> Row[Any]:
    """Return a run with the names of its experiment, its project and its dataset version."""
    row = connection.execute(select_described_runs().where(RUNS.c.id == run_id, principal.sees(RUNS))).first()
    if row is None:
        raise NotFoundError(f"Run not found: {run_id}")
    return row


def change_status(
    connection: Connection,
    principal: Principal,
    run_id: str,
    status: RunStatus,
    completed_at: int | None = None,
) -> bool:
    """Move a run to another status; return False where it has that status already.

    Any status may follow any other, as documented clients expect, except that only judge jobs begin and end
    EVALUATING. Back to RUNNING, the run is open again.

    Args:
        connection, principal, run_id, status: The run, and who ends it how.
        completed_at: When it ended, where that is known and not now.

    Raises:
        ConflictError: The run is being evaluated, or should be.
    """
    run = find_run(connection, principal, run_id, for_update=True)
    principal.check_may_write(run.tenant_id, "The run", project=run.project_id)
    if run.status == RunStatus.EVALUATING:
        raise ConflictError("A judge is scoring the run; its status changes when the judge is done")
    if status is RunStatus.EVALUATING:
        raise ConflictError("Only judge jobs set the status EVALUATING")
    if run.status == status:
        return False
    moment = now()
    ended_at = moment if completed_at is None else min(completed_at, moment)
    connection.execute(
        update(RUNS)
        .where(RUNS.c.id == run_id)
        .values(
            status=status,
            status_reason=None,
            own_status=None,  # who says so now knows better than what judge jobs found
            own_status_reason=None,
            verdict=None,  # of what the run was before
            # A clock that was set back meanwhile makes no run end before it started.
            completed_at=None if status is RunStatus.RUNNING else max(ended_at, run.started_at),
            last_activity_at=moment,
        )
    )
    connection.execute(
        update(PROJECTS).where(PROJECTS.c.id == run.project_id).values(**activity_at(moment, run.tenant_id))
    )
    kind = EventKind.RUN_UPDATED if status is RunStatus.RUNNING else EventKind.RUN_COMPLETED
    announce_run(connection, kind, run, {"status": status, **counts_of(run)})
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChange:
    """What a person changes in the description of a run; None leaves it as it is."""

    name: str | None = None
    notes: str | None = None
    tags: Sequence[str] | None = None


def describe_run(connection: Connection, principal: Principal, run_id: str, change: RunChange) -> None:
    """Change the name, the notes and the tags of a run; an empty text removes it."""
    run = find_run(connection, principal, run_id, for_update=True)
    principal.check_may_write(run.tenant_id, "The run", project=run.project_id)
    values = {"name": change.name, "notes": change.notes}
    chosen = {key: value or None for key, value in values.items() if value is not None}
    if chosen:
        connection.execute(update(RUNS).where(RUNS.c.id == run_id).values(**chosen))
    if change.tags is not None:
        connection.execute(delete(RUN_TAGS).where(RUN_TAGS.c.run_id == run_id))
        insert_tags(connection, run_id, change.tags)
    announce_run(connection, EventKind.RUN_UPDATED, run, {"status": run.status})


def pin_baseline(
    connection: Connection, principal: Principal, experiment_id: str, run_id: str | None
) -> None:
    """Pin a run as the baseline of its experiment; None removes the pin.

    Raises:
        NotFoundError: The run does not belong to the experiment.
        ConflictError: The run has not ended or was cancelled, or covers only part of its data set; or it
            belongs to a tenant, and the experiment is shared.
    """
    experiment = find_experiment(connection, principal, experiment_id)
    what = f"The experiment '{experiment.name}'"
    principal.check_may_write(experiment.tenant_id, what, project=experiment.project_id)
    if run_id is not None:
        # Locked, so that it is not removed for its age at the same moment.
        run = find_run(connection, principal, run_id, for_update=True)
        if run.experiment_id != experiment_id:
            raise NotFoundError(f"Run not found in this experiment: {run_id}")
        if run.status not in COMPARABLE:
            raise ConflictError(f"A run that is {run.status} cannot be a baseline")
        if run.tenant_id not in (None, experiment.tenant_id):
            # Everyone who sees the experiment compares with its baseline.
            raise ConflictError("A run of one tenant cannot be the baseline of a shared experiment")
        part = describe_part(run)
        if part is not None:
            raise ConflictError(f"A run of part of its data set ({part}) cannot be a baseline")
    change = update(EXPERIMENTS).where(EXPERIMENTS.c.id == experiment_id).values(baseline_run_id=run_id)
    connection.execute(change)
    announce_experiment(connection, EventKind.EXPERIMENT_UPDATED, experiment, {"baselineRunId": run_id})


def delete_run(connection: Connection, principal: Principal, run_id: str) -> None:
    """Delete a run with its items.

    Raises:
        NotFoundError: There is none that the caller sees.
        ForbiddenError: It is shared, and closed to this caller.
    """
    run = find_run(connection, principal, run_id, for_update=True)
    principal.check_may_write(run.tenant_id, "The run", project=run.project_id)
    connection.execute(update(RUNS).where(RUNS.c.id == run_id).values(deleted_at=now()))
    count_run(connection, run.experiment_id, run.project_id, -1, run.tenant_id)
    update_latest_run(connection, run.experiment_id)
    announce_run(connection, EventKind.RUN_DELETED, run)


def describe_part(run: Row[Any]) -> str | None:
    """Return which part of its data set a run covers, as its client says; None for all of it."""
    if run.provenance is None:
        return None
    partial = json.loads(run.provenance).get("partial")
    return partial if isinstance(partial, str) else None


def describe_failure(run: Row[Any]) -> str:
    """Return why a failed run cannot pass a gate, as a sentence."""
    return (
        f"The candidate's run failed: {run.status_reason}"
        if run.status_reason
        else ("The candidate's run failed, so what it measured is not whole.")
    )


def select_described_runs() -> Select[Any]:
    """Return the query of runs with the names of what they belong to."""
    return (
        select(
            RUNS,
            EXPERIMENTS.c.name.label("experiment_name"),
            EXPERIMENTS.c.baseline_run_id,
            PROJECTS.c.name.label("project_name"),
            DATASET_VERSIONS.c.version.label("dataset_version"),
            DATASETS.c.name.label("dataset_name"),
        )
        .join(EXPERIMENTS, EXPERIMENTS.c.id == RUNS.c.experiment_id)
        .join(PROJECTS, PROJECTS.c.id == RUNS.c.project_id)
        .outerjoin(DATASET_VERSIONS, DATASET_VERSIONS.c.id == RUNS.c.dataset_version_id)
        .outerjoin(DATASETS, DATASETS.c.id == DATASET_VERSIONS.c.dataset_id)
    )


def _add_to_experiment(connection: Connection, experiment: Row[Any], run_id: str, tenant: str | None) -> None:
    """Count a new run, and tell of it."""
    count_run(connection, experiment.id, experiment.project_id, 1, tenant)
    update_latest_run(connection, experiment.id)
    event = Event(
        kind=EventKind.RUN_CREATED,
        tenants=(tenant,),
        project_id=experiment.project_id,
        experiment_id=experiment.id,
        run_id=run_id,
        data={"status": RunStatus.RUNNING},
    )
    announce(connection, event)


def _earlier_run(connection: Connection, principal: Principal, project_id: str, new: NewRun) -> str | None:
    """The run that this request has created before; None also where it has no key."""
    if new.idempotency_key is None:
        return None
    query = select(RUNS.c.id, RUNS.c.idempotency_hash, RUNS.c.deleted_at).where(
        RUNS.c.project_id == project_id,
        RUNS.c.idempotency_scope == (principal.tenant or ""),
        RUNS.c.idempotency_key == new.idempotency_key,
    )
    row = connection.execute(query).first()
    if row is None:
        return None
    if row.idempotency_hash != new.idempotency_hash:
        raise ConflictError("The Idempotency-Key has been used for another run")
    if row.deleted_at is not None:
        if not new.renews_deleted:
            raise ConflictError("The run of this Idempotency-Key has been deleted")
        connection.execute(update(RUNS).where(RUNS.c.id == row.id).values(idempotency_key=None))
        return None
    earlier: str = row.id
    return earlier


def _find_dataset_version(connection: Connection, principal: Principal, new: NewRun) -> Row[Any] | None:
    if new.dataset_name is None and new.dataset_version is None:
        return None
    if new.dataset_name is None or new.dataset_version is None:
        raise NotFoundError("datasetName and datasetVersion must be given together")
    dataset = find_named(connection, DATASETS, principal, DATASETS.c.name == new.dataset_name)
    query: Select[Any] = select(DATASET_VERSIONS.c.id, DATASET_VERSIONS.c.dataset_id).where(
        DATASET_VERSIONS.c.dataset_id == (None if dataset is None else dataset.id),
        DATASET_VERSIONS.c.version == new.dataset_version,
        principal.sees(DATASET_VERSIONS),
    )
    version = None if dataset is None else connection.execute(query).first()
    if version is None:
        raise NotFoundError(f"Dataset version not found: {new.dataset_name}@{new.dataset_version}")
    return version
