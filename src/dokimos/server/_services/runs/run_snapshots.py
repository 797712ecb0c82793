"""A stored run as one side of a comparison of the library.

Read by the process that compares: it imports the library's statistics, which the server itself does not need.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, case, func, null, select

from dokimos._core.score_range import USUAL_RANGE, is_score_range
from dokimos.comparison._snapshot import TASK, EvaluatorFacts, ItemSnapshot, Snapshot
from dokimos.server._db.tables import DATASET_ITEMS, DATASET_VERSIONS, ITEMS, RUN_EVALUATORS
from dokimos.server._services.runs.item_scores import join_scores
from dokimos.server._services.runs.runs import describe_part

_OWN_KEY = "dokimos"
"""The member of an item's metadata in which our client says what the wire has no field for."""
_INPUT_LENGTH = 200
"""Characters of an input that a comparison by position looks at to find rows that were moved."""


class ItemKey(StrEnum):
    """By what the items of two runs belong together."""

    DATASET_ITEM = "dataset_item_id"
    """The item of the dataset version that both runs used."""
    LINEAGE = "lineage"
    """The case that both versions of the dataset have."""
    ORDINAL = "ordinal"
    """The position."""


@dataclass(frozen=True, slots=True)
class StoredItem:
    """Which rows an item of a comparison stands for; of its repeats, the first."""

    item_id: str
    dataset_item_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSide:
    """A run as one side of a comparison."""

    snapshot: Snapshot
    items: dict[int, StoredItem]
    """By the index of the item in the snapshot."""
    fingerprints: dict[str, str]


def choose_key(connection: Connection, baseline: Row[Any], candidate: Row[Any], pairing: str) -> ItemKey:
    """Return by what to pair the items of two runs, given the option `pairing`."""
    versions = (baseline.dataset_version_id, candidate.dataset_version_id)
    if pairing == "positional" or None in versions:
        return ItemKey.ORDINAL
    if not all(_are_all_linked(connection, run) for run in (baseline, candidate)):
        return ItemKey.ORDINAL
    if versions[0] == versions[1]:
        return ItemKey.DATASET_ITEM
    datasets = select(DATASET_VERSIONS.c.dataset_id).where(DATASET_VERSIONS.c.id.in_(versions)).distinct()
    if len(connection.execute(datasets).all()) != 1:
        return ItemKey.ORDINAL
    # Two items of one version with one lineage would pass for repeats of each other.
    is_unique = all(_has_unique_lineages(connection, run) for run in (baseline, candidate))
    return ItemKey.LINEAGE if is_unique else ItemKey.ORDINAL


def read_side(connection: Connection, run: Row[Any], name: str, key: ItemKey) -> StoredSide:
    """Read a run with its items."""
    evaluators = _read_evaluators(connection, run.id)
    groups = _group_rows(_read_items(connection, run.id, key), key)
    _add_scores(connection, run.id, groups)
    merged = sorted((group.merge() for group in groups.values()), key=lambda pair: pair[0].index)
    facts = {"run": run.id, "commit": (run.git_sha or "")[:10], "branch": run.git_branch}
    knows_repeats = any(row.deterministic is not None for row in evaluators)
    return StoredSide(
        snapshot=Snapshot(
            name=name,
            items=tuple(item for item, _ in merged),
            evaluators={row.name: _facts(row) for row in evaluators},
            runs=max((len(group.rows) for group in groups.values()), default=1),
            label=run.id,
            facts={name: text for name, text in facts.items() if text},
            records_repeats=knows_repeats,
            partial=describe_part(run),
        ),
        items={item.index: stored for item, stored in merged},
        fingerprints={row.name: row.fingerprint for row in evaluators if row.fingerprint},
    )


@dataclass(slots=True)
class _Group:
    """The rows of one item over its repeats, with their scores."""

    rows: list[Row[Any]] = field(default_factory=list)
    scores: dict[str, tuple[float, ...]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def merge(self) -> tuple[ItemSnapshot, StoredItem]:
        first = self.rows[0]
        failures = [row for row in self.rows if row.error is not None]
        for row in failures:
            for name, text in (_errors_by_evaluator(row) or {TASK: _error_text(row.error)}).items():
                self.errors.setdefault(name, text)
        return (
            ItemSnapshot(
                index=first.ordinal,
                id=first.key,
                input=first.input,
                # An item that errored did not pass, also without a score; one without either is not judged.
                verdicts=tuple(bool(row.passed) for row in self.rows if row.judged or row.error is not None),
                scores=self.scores,
                errors=self.errors,
                errored=len(failures) == len(self.rows),
            ),
            StoredItem(first.id, first.dataset_item_id),
        )


def _group_rows(rows: Sequence[Row[Any]], key: ItemKey) -> dict[str | None, _Group]:
    groups: dict[Any, _Group] = {}
    for row in rows:
        its = row.ordinal if key is ItemKey.ORDINAL else row.key
        group = groups.get(its)
        if group is None:
            group = groups[its] = _Group()
        group.rows.append(row)
    return groups


def _read_items(connection: Connection, run_id: str, key: ItemKey) -> Sequence[Row[Any]]:
    by_position = key is ItemKey.ORDINAL
    keys: dict[ItemKey, ColumnElement[Any]] = {
        ItemKey.DATASET_ITEM: ITEMS.c.dataset_item_id,
        ItemKey.LINEAGE: DATASET_ITEMS.c.lineage_id,
        ItemKey.ORDINAL: null(),
    }
    query: Select[Any] = select(
        ITEMS.c.id,
        ITEMS.c.ordinal,
        ITEMS.c.repetition,
        ITEMS.c.dataset_item_id,
        ITEMS.c.passed,
        ITEMS.c.judged,
        ITEMS.c.error,
        # Few items errored, and only their metadata is looked at.
        case((ITEMS.c.error.is_not(None), ITEMS.c.metadata)).label("metadata"),
        keys[key].label("key"),
        (func.substr(ITEMS.c.input, 1, _INPUT_LENGTH) if by_position else null()).label("input"),
    ).where(ITEMS.c.run_id == run_id)
    if key is ItemKey.LINEAGE:
        query = query.join(DATASET_ITEMS, DATASET_ITEMS.c.id == ITEMS.c.dataset_item_id)
    return connection.execute(query.order_by(ITEMS.c.ordinal, ITEMS.c.repetition)).all()


def _add_scores(connection: Connection, run_id: str, groups: dict[Any, _Group]) -> None:
    """Read the scores of a run into its items, in the order of the repeats."""
    places = {(row.ordinal, row.repetition): group for group in groups.values() for row in group.rows}
    items, scores = join_scores(connection)
    query = (
        select(ITEMS.c.ordinal, ITEMS.c.repetition, scores.evaluator, scores.score, scores.error_detail)
        .select_from(items)
        .where(ITEMS.c.run_id == run_id)
        .order_by(ITEMS.c.ordinal, ITEMS.c.repetition, scores.position)
    )
    place: tuple[int, int] | None = None
    group = _Group()
    seen: dict[str, int] = {}  # how many scores each evaluator has in this repeat
    # As the driver returns them: a run of 10,000 items has 50,000 scores, and an object for each would cost
    # more than reading it does.
    cursor = connection.execute(query).cursor
    assert cursor is not None
    for ordinal, repetition, name, score, error in cursor.fetchall():
        if (ordinal, repetition) != place:
            place = (ordinal, repetition)
            group, seen = places[place], {}
        if error is not None:
            group.errors.setdefault(name, _error_text(error))
            continue
        count = seen[name] = seen.get(name, 0) + 1
        if count > 1:  # twice in one item: as documented, their mean
            *earlier, last = group.scores[name]
            group.scores[name] = (*earlier, last + (score - last) / count)
        else:
            group.scores[name] = (*group.scores.get(name, ()), score)


def _read_evaluators(connection: Connection, run_id: str) -> Sequence[Row[Any]]:
    """The evaluators that gave a score or were described; not those whose items were all replaced."""
    query = select(RUN_EVALUATORS).where(RUN_EVALUATORS.c.run_id == run_id)
    rows = connection.execute(query.order_by(RUN_EVALUATORS.c.position, RUN_EVALUATORS.c.name)).all()
    described = ("fingerprint", "direction", "range_low", "threshold", "deterministic")
    return [
        row for row in rows if row.score_count or any(getattr(row, name) is not None for name in described)
    ]


def _facts(row: Row[Any]) -> EvaluatorFacts:
    score_range = (row.range_low, row.range_high)
    is_own = is_score_range(score_range) and score_range != USUAL_RANGE
    return EvaluatorFacts(
        name=row.name,
        lower_is_better=row.direction == "LOWER_IS_BETTER",
        deterministic=row.deterministic is not False,
        threshold=row.threshold,
        fingerprint=row.fingerprint or "",
        score_range=score_range if is_own else None,
    )


def _errors_by_evaluator(row: Row[Any]) -> dict[str, str]:
    """Return the errors of evaluators that our client names in the metadata; the others worked."""
    about = json.loads(row.metadata or "{}").get(_OWN_KEY)
    errors = about.get("errors") if isinstance(about, dict) else None
    return {str(name): str(text) for name, text in errors.items()} if isinstance(errors, dict) else {}


def _error_text(stored: str) -> str:
    """The text of an error, which is stored as a JSON string or object."""
    error = json.loads(stored)
    if isinstance(error, dict):
        error = error.get("message", error)
    return error if isinstance(error, str) else json.dumps(error)


def _are_all_linked(connection: Connection, run: Row[Any]) -> bool:
    unlinked = select(ITEMS.c.id).where(ITEMS.c.run_id == run.id, ITEMS.c.dataset_item_id.is_(None)).limit(1)
    return bool(run.item_count) and connection.execute(unlinked).first() is None


def _has_unique_lineages(connection: Connection, run: Row[Any]) -> bool:
    query = (
        select(DATASET_ITEMS.c.lineage_id, DATASET_ITEMS.c.id)
        .join(ITEMS, ITEMS.c.dataset_item_id == DATASET_ITEMS.c.id)
        .where(ITEMS.c.run_id == run.id)
        .distinct()
    )
    items_of: dict[str, int] = defaultdict(int)
    for lineage, _ in connection.execute(query):
        items_of[lineage] += 1
    return max(items_of.values(), default=1) == 1
