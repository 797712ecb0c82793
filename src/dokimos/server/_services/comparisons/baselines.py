"""Which run a candidate is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, func, or_, select

from dokimos._core.text import pluralize
from dokimos.server._db.clock import format_time
from dokimos.server._db.tables import RUNS
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.comparisons.matrix_places import describe_place, select_place
from dokimos.server._services.errors import ConflictError, InvalidRequestError, NotFoundError
from dokimos.server._services.projects.projects import find_experiment
from dokimos.server._services.runs.runs import COMPARABLE, RunStatus, describe_part, find_run

FAILING: Final = "FAIL"
"""The verdict of a run that the automatic baseline skips if asked to."""
_PARTIAL_MARK: Final = '"partial":"'
"""What the provenance of a run of part of its data set has, as JSON: a text has no such quotation marks."""


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
    skips_failed: bool = False,
) -> Baseline:
    """Return the run that a candidate is compared with.

    That is the one that is asked for; else the one that is pinned; else the latest run before the candidate
    that succeeded, covers its whole data set, has items that did not all error, ran on the same version
    of the dataset, and has the same place in the matrix where the candidate is part of one.

    Args:
        connection, principal, experiment, candidate: The candidate, and who asks.
        run_id: The run that is asked for.
        branch: The branch that another than the requested run has to be of.
        skips_failed: Whether the latest run must not have failed the gate itself. Where all earlier runs
            failed it, the latest of them is returned.

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
    latest = _find_latest(connection, principal, candidate, branch, skips_failed=skips_failed)
    where = f" of the branch '{branch}'" if branch is not None else ""
    version = "" if candidate.dataset_version_id is None else " on the same version of the dataset"
    version += describe_place(candidate)
    if latest is None:
        reason = (
            f"No run of this experiment{version}{where} succeeded before the candidate started "
            f"({format_time(candidate.started_at)})."
        )
        return Baseline(None, BaselineSource.NONE, reason)
    reason = f"It is the latest run{version}{where} that succeeded before the candidate started"
    return Baseline(latest.run, BaselineSource.AUTOMATIC, f"{reason}{latest.describe_skipped()}")


def warn_of_verdict(baseline: Baseline) -> list[str]:
    """Return a warning where the baseline failed the gate itself, and nobody chose it."""
    run = baseline.run
    if run is None or run.verdict != FAILING or baseline.source is not BaselineSource.AUTOMATIC:
        return []
    return [
        "The baseline failed the gate itself, so what was lost before it goes unseen: pin a run that is "
        "known to be good, or set skipFailedBaselines."
    ]


def check_is_whole(run: Row[Any], role: str) -> None:
    """Raise `ConflictError` for a run of selected items, which says nothing about the whole data set."""
    part = describe_part(run)
    if part is not None:
        raise ConflictError(
            f"A gate compares whole runs, and the {role} {run.id} covers only part of its data set ({part}). "
            "Run the whole data set first, without --failed or --estimate"
        )


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


@dataclass(frozen=True, slots=True)
class _Latest:
    """The latest run that may be the baseline, and how many later ones failed the gate."""

    run: Row[Any]
    skipped: int
    skips_failed: bool

    def describe_skipped(self) -> str:
        """Return the end of a sentence about the run."""
        if self.run.verdict == FAILING:
            return (
                "; it failed the gate itself, so what was lost before it goes unseen "
                "(pin a run that is known to be good, or set skipFailedBaselines)."
                if not self.skips_failed
                else "; it failed the gate itself, as all runs before it that could be the baseline did."
            )
        if not self.skipped:
            return "."
        failed = (
            f"{pluralize(self.skipped, 'later run')} failed the gate and {_IS_ARE[self.skipped > 1]} skipped"
        )
        return f"; {failed} (pin one as the baseline to compare with that)."


_IS_ARE: Final = ("is", "are")


def _find_latest(
    connection: Connection,
    principal: Principal,
    candidate: Row[Any],
    branch: str | None,
    *,
    skips_failed: bool,
) -> _Latest | None:
    """Return the latest run before a candidate, if asked to the latest that did not fail the gate."""
    eligible = select_place(connection, _select_eligible(principal, candidate, branch), candidate)
    latest_first = eligible.order_by(RUNS.c.started_at.desc(), RUNS.c.id.desc()).limit(1)
    run = None
    if skips_failed:
        run = connection.execute(latest_first.where(did_not_fail())).first()
    run = run or connection.execute(latest_first).first()
    if run is None:
        return None
    if not skips_failed:
        return _Latest(run, 0, skips_failed)
    # Those between the two would have been chosen, had they not failed.
    later = eligible.where(~_is_before(run), RUNS.c.id != run.id).subquery()
    skipped = connection.execute(select(func.count()).select_from(later)).scalar_one()
    return _Latest(run, skipped, skips_failed)


def can_be_baseline() -> ColumnElement[bool]:
    """The condition that a run may be an automatic baseline."""
    return and_(
        RUNS.c.status == RunStatus.SUCCESS,
        # A run without items, or of which all errored, measured nothing: compared with it, anything passes.
        RUNS.c.item_count > RUNS.c.errored_count,
        or_(RUNS.c.provenance.is_(None), RUNS.c.provenance.not_like(f"%{_PARTIAL_MARK}%")),
    )


def did_not_fail() -> ColumnElement[bool]:
    """The condition that a run did not fail the gate itself, as far as that is known."""
    return or_(RUNS.c.verdict.is_(None), RUNS.c.verdict != FAILING)


def _select_eligible(principal: Principal, candidate: Row[Any], branch: str | None) -> Select[Any]:
    version = candidate.dataset_version_id
    query = select(RUNS).where(
        RUNS.c.experiment_id == candidate.experiment_id,
        can_be_baseline(),
        _is_before(candidate),
        RUNS.c.dataset_version_id.is_(None) if version is None else RUNS.c.dataset_version_id == version,
        principal.sees(RUNS),
    )
    return query if branch is None else query.where(RUNS.c.git_branch == branch)


def _is_before(run: Row[Any]) -> ColumnElement[bool]:
    same_moment = and_(RUNS.c.started_at == run.started_at, RUNS.c.id < run.id)
    return or_(RUNS.c.started_at < run.started_at, same_moment)
