"""Which evaluator gave the scores under a name: jobs do not mix scores of two evaluators on one run."""

from __future__ import annotations

import json
from typing import Any, Final

from sqlalchemy import Connection, Row, bindparam, select, update

from dokimos.server._db.judge_tables import JUDGE_JOBS
from dokimos.server._db.tables import RUN_EVALUATORS
from dokimos.server._services.errors import ConflictError
from dokimos.server._services.judging.judge_evaluators import EvaluatorSpec
from dokimos.server._services.judging.judged_runs import ACTIVE

_SUCCEEDED: Final = "SUCCEEDED"
_JOB: Final = JUDGE_JOBS.c
_SCORES: Final = RUN_EVALUATORS.c


def check_new_job(
    connection: Connection, run_id: str, name: str, spec: EvaluatorSpec, *, replaces: bool
) -> None:
    """Make sure that a new job may score a run under a name.

    Raises:
        ConflictError: Another job is at it or has done it, the scores there are of another evaluator, or
            there is nothing to replace.
    """
    query = select(_JOB.status).where(_JOB.run_id == run_id, _JOB.evaluator_name == name)
    statuses = set(connection.execute(query).scalars())
    active = statuses.intersection(ACTIVE)
    if active:
        raise ConflictError(f"A job of '{name}' on this run is {min(active)} already")
    earlier = _find_evaluator(connection, run_id, name)
    if replaces:
        if not statuses and earlier is None:
            raise ConflictError(f"No job has scored this run as '{name}', so there is nothing to replace")
        return
    if _SUCCEEDED in statuses:
        raise ConflictError(f"A job of '{name}' has scored this run; {_CHOICE}")
    if earlier is not None and earlier != json.loads(spec.dump()):
        raise ConflictError(
            f"An earlier job of '{name}' has given this run scores with other criteria or another "
            f"evaluator, and scores of two evaluators are not mixed under one name; {_CHOICE}"
        )


def check_retry(connection: Connection, job: Row[Any]) -> None:
    """Make sure that a job which has ended may go on.

    Raises:
        ConflictError: Another job is at it, or the scores under its name are of another evaluator by now.
    """
    others = select(_JOB.status).where(
        _JOB.run_id == job.run_id, _JOB.evaluator_name == job.evaluator_name, _JOB.id != job.id
    )
    is_later = (_JOB.created_at > job.created_at) | ((_JOB.created_at == job.created_at) & (_JOB.id > job.id))
    taken = others.where(_JOB.status.in_(ACTIVE) | ((_JOB.status == _SUCCEEDED) & is_later))
    if connection.execute(taken.limit(1)).first() is not None:
        raise ConflictError(f"Another job of '{job.evaluator_name}' has taken its place on this run")
    if has_yet_to_replace(job):
        return
    earlier = _find_evaluator(connection, job.run_id, job.evaluator_name)
    if earlier is not None and earlier != json.loads(job.evaluator):
        raise ConflictError(
            f"The scores of '{job.evaluator_name}' on this run are of other criteria or another evaluator by "
            'now, and are not mixed; to score the run with these, create a new job with "replace": true'
        )


def has_yet_to_replace(job: Row[Any]) -> bool:
    """Say whether the scores of a job still are to take the place of earlier ones."""
    return bool(job.replaces) and job.status != _SUCCEEDED


def keep_evaluator(connection: Connection, job: Row[Any]) -> None:
    """Remember whose the scores are that a job has stored, also when it is deleted."""
    values = {"of_run": job.run_id, "of_name": job.evaluator_name, "evaluator": job.evaluator}
    connection.execute(_KEEP_EVALUATOR, values)


_KEEP_EVALUATOR: Final = (
    update(RUN_EVALUATORS)
    .where(_SCORES.run_id == bindparam("of_run"), _SCORES.name == bindparam("of_name"))
    .values(job_evaluator=bindparam("evaluator"))
)
_CHOICE: Final = 'choose another name, or replace its scores with "replace": true'


def _find_evaluator(connection: Connection, run_id: str, name: str) -> Any:
    """Return the evaluator with which jobs scored a run under a name, None where none did."""
    query = select(_SCORES.job_evaluator).where(
        _SCORES.run_id == run_id, _SCORES.name == name, _SCORES.score_count > 0
    )
    stored = connection.execute(query).scalar()
    return None if stored is None else json.loads(stored)
