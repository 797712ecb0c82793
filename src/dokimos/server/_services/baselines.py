"""Which run a candidate is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row, and_, or_, select

from dokimos.server._db.clock import format_time
from dokimos.server._db.tables import RUNS
from dokimos.server._services.errors import ConflictError, InvalidRequestError, NotFoundError
from dokimos.server._services.principal import Principal
from dokimos.server._services.projects import find_experiment
from dokimos.server._services.runs import COMPARABLE, RunStatus, find_run


class BaselineSource(StrEnum):
    """Who chose a baseline."""

    REQUESTED = "REQUESTED"
    PINNED = "PINNED"
    AUTOMATIC = "AUTOMATIC"
    NONE = "NONE"


@dataclass(frozen=True, slots=True)
class Baseline:
    """The run to compare with, None where there is none."""

    run: Row[Any] | None
    source: BaselineSource
    reason: str
    """Why this one, or why none, as a sentence."""


def find_candidate(
    connection: Connection, principal: Principal, experiment_id: str, run_id: str, *, must_have_ended: bool
) -> tuple[Row[Any], Row[Any]]:
    """Return an experiment and one of its runs.

    Raises:
        NotFoundError: There is no such experiment, or no such run in it, that the caller sees.
        ConflictError: The run has not ended, or was cancelled.
    """
    experiment = find_experiment(connection, principal, experiment_id)
    run = _find_run_of(connection, principal, experiment_id, run_id)
    if must_have_ended:
        _check_has_ended(run, "candidate")
    return experiment, run


def find_baseline(
    connection: Connection,
    principal: Principal,
    experiment: Row[Any],
    candidate: Row[Any],
    *,
    run_id: str | None = None,
    branch: str | None = None,
) -> Baseline:
    """Return the run that a candidate is compared with.

    That is the one that is asked for; else the one that is pinned; else the latest run before the candidate
    that succeeded, has items and ran on the same version of the dataset.

    Args:
        connection, principal, experiment, candidate: The candidate, and who asks.
        run_id: The run that is asked for.
        branch: The branch that another than the requested run has to be of.

    Raises:
        InvalidRequestError: The candidate itself is asked for.
        NotFoundError: The run that is asked for is not one of the experiment.
        ConflictError: The run that is asked for has not ended, or was cancelled.
    """
    if run_id is not None:
        if run_id == candidate.id:
            raise InvalidRequestError("must not be the candidate itself", field="baselineRunId")
        run = _find_run_of(connection, principal, experiment.id, run_id)
        _check_has_ended(run, "baseline")
        return Baseline(run, BaselineSource.REQUESTED, "The request names this run.")
    pinned = _find_pinned(connection, principal, experiment, candidate, branch)
    if pinned is not None:
        return Baseline(pinned, BaselineSource.PINNED, "The run is pinned as the baseline of the experiment.")
    latest = _find_latest(connection, principal, candidate, branch)
    where = f" of the branch '{branch}'" if branch is not None else ""
    version = "" if candidate.dataset_version_id is None else " on the same version of the dataset"
    if latest is None:
        reason = (
            f"No run of this experiment{version}{where} succeeded before the candidate started "
            f"({format_time(candidate.started_at)})."
        )
        return Baseline(None, BaselineSource.NONE, reason)
    reason = f"It is the latest run{version}{where} that succeeded before the candidate started."
    return Baseline(latest, BaselineSource.AUTOMATIC, reason)


def _find_run_of(connection: Connection, principal: Principal, experiment_id: str, run_id: str) -> Row[Any]:
    run = find_run(connection, principal, run_id)
    if run.experiment_id != experiment_id:
        raise NotFoundError(f"Run not found in this experiment: {run_id}")
    return run


def _check_has_ended(run: Row[Any], role: str) -> None:
    if run.status not in COMPARABLE:
        raise ConflictError(
            f"The {role} {run.id} is {run.status}; only runs that are SUCCESS or FAILED are compared"
        )


def _find_pinned(
    connection: Connection,
    principal: Principal,
    experiment: Row[Any],
    candidate: Row[Any],
    branch: str | None,
) -> Row[Any] | None:
    if experiment.baseline_run_id in (None, candidate.id):
        return None
    query = select(RUNS).where(
        RUNS.c.id == experiment.baseline_run_id,
        RUNS.c.experiment_id == experiment.id,
        RUNS.c.status.in_(COMPARABLE),
        principal.sees(RUNS),
    )
    if branch is not None:
        query = query.where(RUNS.c.git_branch == branch)
    return connection.execute(query).first()


def _find_latest(
    connection: Connection, principal: Principal, candidate: Row[Any], branch: str | None
) -> Row[Any] | None:
    version = candidate.dataset_version_id
    same_moment = and_(RUNS.c.started_at == candidate.started_at, RUNS.c.id < candidate.id)
    query = select(RUNS).where(
        RUNS.c.experiment_id == candidate.experiment_id,
        RUNS.c.status == RunStatus.SUCCESS,
        RUNS.c.item_count > 0,  # an empty run measured nothing: compared with it, anything passes
        or_(RUNS.c.started_at < candidate.started_at, same_moment),
        RUNS.c.dataset_version_id.is_(None) if version is None else RUNS.c.dataset_version_id == version,
        principal.sees(RUNS),
    )
    if branch is not None:
        query = query.where(RUNS.c.git_branch == branch)
    return connection.execute(query.order_by(RUNS.c.started_at.desc(), RUNS.c.id.desc()).limit(1)).first()
