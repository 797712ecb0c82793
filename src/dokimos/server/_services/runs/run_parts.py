"""What belongs to a run: its evaluators and its tags."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, insert, select

from dokimos.server._db.batches import in_batches
from dokimos.server._db.tables import RUN_EVALUATORS, RUN_TAGS, RUNS
from dokimos.server._services.errors import InvalidRequestError
from dokimos.server._services.projects.names import check_name


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorOfRun:
    """What a client says about an evaluator of a run when it starts."""

    name: str
    range_low: float | None = None
    range_high: float | None = None
    direction: str | None = None
    threshold: float | None = None
    fingerprint: str | None = None
    deterministic: bool | None = None


def tags_of_runs(connection: Connection, run_ids: Sequence[str]) -> dict[str, list[str]]:
    """Return the tags of runs, in alphabetical order."""
    tags: dict[str, list[str]] = {run_id: [] for run_id in run_ids}
    for batch in in_batches(run_ids):
        query = select(RUN_TAGS).where(RUN_TAGS.c.run_id.in_(batch)).order_by(RUN_TAGS.c.tag)
        for row in connection.execute(query):
            tags[row.run_id].append(row.tag)
    return tags


def tags_of_experiment(connection: Connection, experiment_id: str) -> dict[str, list[str]]:
    """Return the tags of all runs of an experiment that have some, in alphabetical order."""
    tags: dict[str, list[str]] = defaultdict(list)
    query = select(RUN_TAGS).join(RUNS, RUNS.c.id == RUN_TAGS.c.run_id)
    of_experiment = query.where(RUNS.c.experiment_id == experiment_id, RUNS.c.deleted_at.is_(None))
    for run_id, tag in connection.execute(of_experiment.order_by(RUN_TAGS.c.tag)):
        tags[run_id].append(tag)
    return tags


def evaluators_of_run(connection: Connection, run_id: str) -> Sequence[Row[Any]]:
    """Return what is known about the evaluators of a run, with the counts of their scores."""
    query = select(RUN_EVALUATORS).where(RUN_EVALUATORS.c.run_id == run_id)
    return connection.execute(query.order_by(RUN_EVALUATORS.c.position, RUN_EVALUATORS.c.name)).all()


def insert_evaluators(connection: Connection, run_id: str, evaluators: Sequence[EvaluatorOfRun]) -> None:
    """Keep what a client says about the evaluators of a new run.

    Raises:
        InvalidRequestError: Two have one name, or a name cannot be used.
    """
    seen: set[str] = set()
    for position, evaluator in enumerate(evaluators):
        if evaluator.name in seen:
            raise InvalidRequestError(
                f"{evaluator.name!r} is the name of another evaluator too",
                field=f"evaluators[{position}].name",
            )
        seen.add(evaluator.name)
    rows = [
        {
            "run_id": run_id,
            "name": check_name(evaluator.name, f"evaluators[{position}].name"),
            "position": position,
            "range_low": evaluator.range_low,
            "range_high": evaluator.range_high,
            "direction": evaluator.direction,
            "threshold": evaluator.threshold,
            "fingerprint": evaluator.fingerprint,
            "deterministic": evaluator.deterministic,
        }
        for position, evaluator in enumerate(evaluators)
    ]
    if rows:
        connection.execute(insert(RUN_EVALUATORS), rows)


def insert_tags(connection: Connection, run_id: str, tags: Sequence[str]) -> None:
    """Give a run tags, each once."""
    names = dict.fromkeys(check_name(tag, f"tags[{position}]") for position, tag in enumerate(tags))
    if names:
        connection.execute(insert(RUN_TAGS), [{"run_id": run_id, "tag": name} for name in names])
