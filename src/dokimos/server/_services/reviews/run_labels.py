"""What people said about the items of a run, beside what its evaluators said: for measures of agreement."""

from __future__ import annotations

import json
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Select, func, select, true

from dokimos.server._db.batches import in_batches
from dokimos.server._db.review_tables import REVIEWS
from dokimos.server._db.tables import EVALUATIONS, ITEMS, RUN_EVALUATORS
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.reviews.annotations import visible_annotations
from dokimos.server._services.reviews.label_schemas import LabelKind, LabelVersion, read_kinds
from dokimos.server._services.reviews.reviews import Verdict, sees_tenants
from dokimos.server._services.runs.item_scores import join_scores
from dokimos.server._services.runs.runs import find_run


@dataclass(slots=True, kw_only=True)
class LabelledItem:
    """An item of a run that somebody has annotated."""

    id: str
    verdict: Verdict
    labelled_at: int
    passed: bool
    """Whether all evaluators are content with it."""
    judged: bool
    is_random: bool
    """Whether chance picked it for review."""
    reviews: dict[str, Verdict]
    """What each reviewer says that the caller may see."""
    labels: dict[LabelVersion, dict[str, Any]]
    """By each label but texts, what each of these reviewers says with it."""
    verdicts: dict[str, bool | None] | None = None
    """What each evaluator says, in their order; None for a score without a verdict."""
    repeated: frozenset[str] = frozenset()
    """Evaluators with several scores of it, of which the first one counts."""


@dataclass(frozen=True, slots=True)
class JudgedCounts:
    """How many items an evaluator gave a verdict on, and how many of them pass; as the run keeps them."""

    judged: int
    passed: int


@dataclass(frozen=True, slots=True)
class LabelledRun:
    """The annotated items of a run, in the order of the run, and what it keeps of all items."""

    items: Sequence[LabelledItem]
    evaluators: dict[str, JudgedCounts]
    run: JudgedCounts
    """Of the verdict on whole items."""
    label_kinds: dict[LabelVersion, LabelKind]
    """The labels of the project but texts."""


def read_labels(connection: Connection, principal: Principal, run_id: str) -> LabelledRun:
    """Read what the caller sees of people's verdicts on a run; other items than these are not read.

    Raises:
        NotFoundError: There is no such run that the caller sees.
    """
    run = find_run(connection, principal, run_id)
    kinds = read_kinds(connection, run.project_id)
    kinds = {label: kind for label, kind in kinds.items() if kind is not LabelKind.TEXT}
    items = _read_items(connection, principal, run, kinds)
    _add_verdicts(connection, items)
    kept = connection.execute(select(RUN_EVALUATORS).where(RUN_EVALUATORS.c.run_id == run_id)).all()
    counts = {row.name: JudgedCounts(row.score_count, row.success_count) for row in kept}
    # Where all scores pass, each of them is a verdict.
    unclear = {row.name for row in kept if row.success_count < row.score_count}
    unclear &= {name for item in items for name in item.verdicts or {}}
    counts.update(_count_verdicts(connection, run_id, unclear))
    return LabelledRun(items, counts, JudgedCounts(run.judged_count, run.passed_count), kinds)


def _read_items(
    connection: Connection, principal: Principal, run: Row[Any], labels: Container[LabelVersion]
) -> list[LabelledItem]:
    """Return the annotated items, without those whose verdicts a blind review hides from the caller."""
    query = select(REVIEWS.c.item_id).where(REVIEWS.c.run_id == run.id).distinct()
    found: list[tuple[int, int, LabelledItem]] = []
    for batch in in_batches(connection.execute(query).scalars().all()):
        annotations = visible_annotations(connection, principal, run.project_id, batch)
        reviews = _read_reviews(connection, principal, list(annotations))
        columns = (ITEMS.c.id, ITEMS.c.ordinal, ITEMS.c.repetition, ITEMS.c.passed, ITEMS.c.judged)
        for row in connection.execute(select(*columns).where(ITEMS.c.id.in_(list(annotations)))):
            annotation = annotations[row.id]
            of_tenant = [each for each in reviews[row.id] if each.tenant_id == annotation.tenant_id]
            # Whoever claimed it first knows how it came to be reviewed.
            claimed = next((each for each in of_tenant if each.sampled is not None), None)
            item = LabelledItem(
                id=row.id,
                verdict=Verdict(annotation.verdict),
                labelled_at=min((each.created_at for each in of_tenant), default=annotation.created_at),
                passed=bool(row.passed),
                judged=bool(row.judged),
                is_random=claimed is not None and bool(claimed.sampled),
                reviews={each.reviewer: Verdict(each.verdict) for each in reviews[row.id]},
                labels=_read_label_values(reviews[row.id], labels),
            )
            found.append((row.ordinal, row.repetition, item))
    return [item for _, _, item in sorted(found, key=lambda each: each[:2])]


def _read_reviews(
    connection: Connection, principal: Principal, item_ids: Sequence[str]
) -> dict[str, list[Row[Any]]]:
    columns = ("item_id", "tenant_id", "reviewer", "verdict", "labels", "sampled", "created_at")
    query: Select[Any] = select(*(REVIEWS.c[name] for name in columns))
    query = query.where(REVIEWS.c.item_id.in_(item_ids), sees_tenants(principal, REVIEWS))
    reviews: dict[str, list[Row[Any]]] = {item_id: [] for item_id in item_ids}
    for row in connection.execute(query.order_by(REVIEWS.c.created_at, REVIEWS.c.id)):
        reviews[row.item_id].append(row)
    return reviews


def _read_label_values(
    reviews: Sequence[Row[Any]], labels: Container[LabelVersion]
) -> dict[LabelVersion, dict[str, Any]]:
    values: dict[LabelVersion, dict[str, Any]] = {}
    for review in reviews:
        for name, given in json.loads(review.labels or "{}").items():
            label = LabelVersion(name, given["version"])
            if label in labels:
                values.setdefault(label, {})[review.reviewer] = given["value"]
    return values


def _add_verdicts(connection: Connection, items: Sequence[LabelledItem]) -> None:
    of_id = {item.id: item for item in items}
    columns = (
        EVALUATIONS.c.item_id,
        EVALUATIONS.c.evaluator,
        EVALUATIONS.c.success,
        EVALUATIONS.c.judged,
    )
    for batch in in_batches([item.id for item in items]):
        query = select(*columns).where(EVALUATIONS.c.item_id.in_(batch))
        for row in connection.execute(query.order_by(EVALUATIONS.c.item_id, EVALUATIONS.c.position)):
            item = of_id[row.item_id]
            if item.verdicts is None:
                item.verdicts = {}
            if row.evaluator in item.verdicts:
                item.repeated |= {row.evaluator}
            else:
                item.verdicts[row.evaluator] = None if row.judged is False else bool(row.success)


def _count_verdicts(connection: Connection, run_id: str, names: set[str]) -> dict[str, JudgedCounts]:
    """Count the verdicts of evaluators some of whose scores may have none: no count of them is kept."""
    if not names:
        return {}
    items, scores = join_scores(connection)
    is_judged = scores.judged.is_distinct_from(False)
    query = (
        select(
            scores.evaluator,
            func.count().filter(is_judged).label("judged"),
            func.count().filter(is_judged, scores.success.is_(true())).label("passed"),
        )
        .select_from(items)
        .where(ITEMS.c.run_id == run_id, scores.evaluator.in_(names))
        .group_by(scores.evaluator)
    )
    return {row.evaluator: JudgedCounts(row.judged, row.passed) for row in connection.execute(query)}
