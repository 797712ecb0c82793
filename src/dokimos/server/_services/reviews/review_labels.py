"""What people say about outputs, as labelled examples: with them, a judge is calibrated."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, Select, select

from dokimos.server._db.database import Database, Lane
from dokimos.server._db.review_tables import REVIEWS
from dokimos.server._db.tables import ANNOTATIONS, ITEMS, RUNS
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.projects.projects import find_project
from dokimos.server._services.reviews.annotations import annotations_of
from dokimos.server._services.reviews.recorded_answers import read_correct_answers
from dokimos.server._services.reviews.review_counts import is_decided
from dokimos.server._services.reviews.reviews import find_hidden, sees_tenants
from dokimos.server._services.runs.runs import find_run

_BATCH: Final = 500


@dataclass(frozen=True, slots=True)
class LabelledItem:
    """An item that people have decided."""

    item: Row[Any]
    annotation: Row[Any]
    sampled: bool | None
    """Whether chance chose it, as far as one of its reviews knows."""
    probability: float | None
    reviewer_count: int
    answer: str | None = None
    """What a trace answered, as outputs in JSON, where that was found to be correct."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelScope:
    """Whose labels are asked for: of a run, or of all runs of a project."""

    run_id: str | None = None
    project: str | None = None


async def read_labels(
    database: Database, principal: Principal, scope: LabelScope
) -> AsyncIterator[Sequence[LabelledItem]]:
    """Yield the items that have a verdict, some at a time, in the order of their ids; UNSURE is not a label.

    Raises:
        NotFoundError: There is no such run or project that the caller sees.
    """
    last: str | None = None
    while True:

        def read(
            connection: Connection, behind: str | None = last
        ) -> tuple[Sequence[LabelledItem], str | None]:
            return _read_batch(connection, principal, scope, behind)

        labelled, last = await database.read(read, Lane.WORK)
        yield labelled
        if last is None:
            return


def _read_batch(
    connection: Connection, principal: Principal, scope: LabelScope, behind: str | None
) -> tuple[Sequence[LabelledItem], str | None]:
    of_scope, project_id = _find_scope(connection, principal, scope)
    query: Select[Any] = (
        select(ITEMS, RUNS.c.project_id)
        .join(RUNS, RUNS.c.id == ITEMS.c.run_id)
        .where(
            of_scope,
            principal.sees(RUNS),
            ITEMS.c.id.in_(select(ANNOTATIONS.c.item_id).where(sees_tenants(principal, ANNOTATIONS))),
        )
        .order_by(ITEMS.c.id)
        .limit(_BATCH)
    )
    if behind is not None:
        query = query.where(ITEMS.c.id > behind)
    rows = connection.execute(query).all()
    ids = [row.id for row in rows]
    annotations = annotations_of(connection, principal, ids)
    hidden = find_hidden(connection, principal, project_id, ids)
    chances = _read_chances(connection, annotations)
    answers = read_correct_answers(connection, annotations)
    labelled = [
        LabelledItem(
            row, annotations[row.id], *chances.get(row.id, (None, None, 0)), answer=answers.get(row.id)
        )
        for row in rows
        if row.id not in hidden and row.id in annotations and is_decided(annotations[row.id].verdict)
    ]
    return labelled, ids[-1] if len(ids) == _BATCH else None


def _find_scope(
    connection: Connection, principal: Principal, scope: LabelScope
) -> tuple[ColumnElement[bool], str]:
    if scope.run_id is not None:
        run = find_run(connection, principal, scope.run_id)
        return RUNS.c.id == run.id, run.project_id
    project = find_project(connection, principal, scope.project or "")
    return RUNS.c.project_id == project.id, project.id


def _read_chances(
    connection: Connection, annotations: Mapping[str, Row[Any]]
) -> dict[str, tuple[bool | None, float | None, int]]:
    """What the reviews of the same tenant as each annotation know of chance, and how many there are."""
    query = select(REVIEWS).where(REVIEWS.c.item_id.in_(list(annotations)))
    chances: dict[str, tuple[bool | None, float | None, int]] = {}
    for row in connection.execute(query.order_by(REVIEWS.c.created_at, REVIEWS.c.id)):
        if row.tenant_id != annotations[row.item_id].tenant_id:
            continue
        sampled, probability, count = chances.get(row.item_id, (None, None, 0))
        # Who claimed it first knows how it came to be chosen.
        if sampled is None and row.sampled is not None:
            sampled, probability = bool(row.sampled), row.selection_probability
        chances[row.item_id] = sampled, probability, count + 1
    return chances
