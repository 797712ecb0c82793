"""Items of a run, taken in: an upsert by ordinal; the replay of a batch is a `RepeatedBatchError`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn, TypeAlias

from sqlalchemy import Connection, Row, bindparam, delete, select, tuple_, update

from dokimos.server._db.batches import in_batches
from dokimos.server._db.clock import now
from dokimos.server._db.database import Overtaken
from dokimos.server._db.driver_statements import DriverStatement, driver_id, insert_rows
from dokimos.server._db.ids import new_ids
from dokimos.server._db.inserts import INSERTS
from dokimos.server._db.tables import DATASET_ITEMS, EVALUATIONS, INGESTED_BATCHES, ITEMS, RUNS
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.errors import ConflictError, NotFoundError
from dokimos.server._services.events import announce_items
from dokimos.server._services.reviews.review_counts import forget_items
from dokimos.server._services.runs.item_counts import Counts, count_items, count_scores
from dokimos.server._services.runs.new_items import NewItem
from dokimos.server._services.runs.runs import RunStatus, find_run
from dokimos.server._services.runs.stored_items import holds_items

_Places: TypeAlias = Mapping[tuple[int, int], int]
"""The ordinals and repetitions that clients gave, with the index of the last item that has them."""


class RepeatedBatchError(Exception):
    """The run has this batch already; the transaction changes nothing."""


# The statements of the hot path are built once: building one costs more than SQLite takes to run it.
_LOCK_ORDINALS: Final = DriverStatement(
    lambda _: select(RUNS.c.next_ordinal).where(RUNS.c.id == bindparam("run")).with_for_update()
)
_RECORD_KEY: Final = DriverStatement(
    lambda dialect: (
        INSERTS[dialect](INGESTED_BATCHES)
        .values({column.name: bindparam(column.name) for column in INGESTED_BATCHES.c})
        .on_conflict_do_nothing()
    )
)

# Few scores have no verdict, and only our own clients say so: the rows of the others cost nothing for it.
_MARK_UNJUDGED: Final = (
    update(EVALUATIONS)
    .where(
        EVALUATIONS.c.item_id == bindparam("item", type_=EVALUATIONS.c.item_id.type),
        EVALUATIONS.c.position == bindparam("place"),
    )
    .values(judged=False)
)


def add_items(
    connection: Connection,
    principal: Principal,
    run_id: str,
    items: Sequence[NewItem],
    *,
    idempotency_key: str | None = None,
    body_hash: str = "",
) -> None:
    """Store items of a run that is going on.

    An item with an ordinal replaces what the run has at that ordinal and repetition; one without gets the
    next ordinal and replaces nothing.

    Raises:
        ConflictError: The run has ended, and has not these very items already; or the key belongs to another
            batch; or an ordinal belongs to an item that was sent without one.
        NotFoundError: There is no such run that the caller sees.
        RepeatedBatchError: The run has this batch already, or has ended with these items.
    """
    run = driver_id(run_id, connection)
    places = {
        (item.ordinal, item.repetition): index for index, item in enumerate(items) if item.ordinal is not None
    }
    items = _drop_overwritten(items, places)
    before = _LOCK_ORDINALS.first(connection, {"run": run}) if places else None
    counts = Counts()
    for item in items:
        counts.add_new(item)
    end = max((ordinal + 1 for ordinal, _ in places), default=0)
    assigned = len(items) - len(places)
    # The first change of the run's row, which locks it: other batches of the run wait here.
    counted = count_items(connection, run, counts, end=end, assigned=assigned)
    if counted is None:
        _refuse(connection, principal, run_id, items, idempotency_key, body_hash)
    tenant, project, next_ordinal = counted
    if not (principal.sees_tenant(tenant) and principal.sees_project(project)):
        raise NotFoundError(f"Run not found: {run_id}")
    principal.check_may_write(tenant, "The run", project=project)
    if idempotency_key is not None:
        _record_key(connection, run_id, idempotency_key, body_hash)
    if before is not None:
        _remove_replaced(connection, run_id, places, before[0])
    _insert(connection, run_id, items, next_ordinal - assigned)
    count_scores(connection, run, counts)
    announce_items(connection, run_id)


def _drop_overwritten(items: Sequence[NewItem], places: _Places) -> Sequence[NewItem]:
    """Return the items without those that a later one of the same batch replaces."""
    if not places:
        return items
    return [
        item
        for index, item in enumerate(items)
        if item.ordinal is None or places[item.ordinal, item.repetition] == index
    ]


def _refuse(
    connection: Connection,
    principal: Principal,
    run_id: str,
    items: Sequence[NewItem],
    key: str | None,
    body_hash: str,
) -> NoReturn:
    """Raise why a batch cannot be stored."""
    run = find_run(connection, principal, run_id, for_update=True)
    principal.check_may_write(run.tenant_id, "The run", project=run.project_id)
    if key is not None:
        _check_is_new(connection, run_id, key, body_hash)
    if run.status != RunStatus.RUNNING:
        if holds_items(connection, run_id, items):
            raise RepeatedBatchError  # sent live, and once more by a replay or a push
        raise ConflictError(f"The run is {run.status}; items are accepted only while it is RUNNING")
    raise Overtaken  # it was opened again a moment ago


def _record_key(connection: Connection, run_id: str, key: str, body_hash: str) -> None:
    run = driver_id(run_id, connection)
    row = {"run_id": run, "idempotency_key": key, "body_hash": body_hash, "created_at": now()}
    if not _RECORD_KEY.execute(connection, row):
        _check_is_new(connection, run_id, key, body_hash)


def _check_is_new(connection: Connection, run_id: str, key: str, body_hash: str) -> None:
    query = select(INGESTED_BATCHES.c.body_hash).where(
        INGESTED_BATCHES.c.run_id == run_id, INGESTED_BATCHES.c.idempotency_key == key
    )
    recorded_hash = connection.execute(query).scalar()
    if recorded_hash == body_hash:
        raise RepeatedBatchError
    if recorded_hash is not None:
        raise ConflictError("The Idempotency-Key has been used for another batch of this run")


def _remove_replaced(connection: Connection, run_id: str, places: _Places, next_ordinal: int) -> None:
    """Remove what the run has at these places, and take it out of the counts."""
    earlier = [place for place in places if place[0] < next_ordinal]
    if not earlier:
        return  # the usual case: all of them are new
    counts = Counts()
    for batch in in_batches(earlier):
        _remove_places(connection, run_id, batch, places, counts)
    run = driver_id(run_id, connection)
    count_items(connection, run, counts)
    count_scores(connection, run, counts)


def _remove_places(
    connection: Connection, run_id: str, batch: Sequence[tuple[int, int]], places: _Places, counts: Counts
) -> None:
    query = select(ITEMS).where(
        ITEMS.c.run_id == run_id, tuple_(ITEMS.c.ordinal, ITEMS.c.repetition).in_(batch)
    )
    replaced: Sequence[Row[Any]] = connection.execute(query).all()
    for row in replaced:
        if row.ordinal_assigned:
            field = f"items[{places[row.ordinal, row.repetition]}].ordinal"
            raise ConflictError(f"{field}: {row.ordinal} belongs to an item that was sent without an ordinal")
        counts.add(row, sign=-1)
    ids = [row.id for row in replaced]
    if not ids:
        return
    unjudged = {row.id for row in replaced if not row.judged and row.error is None}
    for score in connection.execute(select(EVALUATIONS).where(EVALUATIONS.c.item_id.in_(ids))):
        counts.add_score(score, sign=-1)
        if score.judged is False:
            counts.scores[score.evaluator].success_count += 1
        if score.item_id in unjudged:
            unjudged.remove(score.item_id)
            counts.informational_count -= 1
    connection.execute(delete(EVALUATIONS).where(EVALUATIONS.c.item_id.in_(ids)))
    connection.execute(delete(ITEMS).where(ITEMS.c.id.in_(ids)))
    forget_items(connection, run_id, replaced)


def _insert(connection: Connection, run_id: str, items: Sequence[NewItem], next_ordinal: int) -> None:
    """Insert items and their scores; those without an ordinal get the next ones."""
    linked = _find_linked(connection, run_id, items)
    moment = now()
    run = driver_id(run_id, connection)
    rows: list[tuple[object, ...]] = []
    scores: list[tuple[object, ...]] = []
    unjudged: list[dict[str, object]] = []
    for new, item in zip(new_ids(len(items)), items, strict=True):
        item_id = driver_id(new, connection)
        ordinal = item.ordinal
        if ordinal is None:
            ordinal = next_ordinal
            next_ordinal += 1
        link = item.dataset_item_id if item.dataset_item_id in linked else None
        rows.append(
            (
                item_id,
                run,
                ordinal,
                item.repetition,
                item.ordinal is None,
                item.input,
                item.expected_output,
                item.actual_output,
                item.metadata,
                item.error,
                driver_id(link, connection),
                item.tokens_in,
                item.tokens_out,
                item.cost_usd,
                item.latency_ms,
                item.passed,
                item.judged,
                moment,
            )
        )
        scores += [(item_id, position, *each) for position, each in enumerate(item.evaluations)]
        unjudged += [{"item": new, "place": position} for position in item.unjudged]
    insert_rows(connection, ITEMS, rows)
    insert_rows(connection, EVALUATIONS, scores)
    if unjudged:
        connection.execute(_MARK_UNJUDGED, unjudged)


def _find_linked(connection: Connection, run_id: str, items: Sequence[NewItem]) -> set[str]:
    """The dataset items that belong to the run's version; items of others are stored without a link."""
    ids = {item.dataset_item_id for item in items if item.dataset_item_id is not None}
    if not ids:
        return set()
    version = select(RUNS.c.dataset_version_id).where(RUNS.c.id == run_id).scalar_subquery()
    linked: set[str] = set()
    for batch in in_batches(sorted(ids)):
        query = select(DATASET_ITEMS.c.id).where(
            DATASET_ITEMS.c.id.in_(batch), DATASET_ITEMS.c.version_id == version
        )
        linked.update(connection.execute(query).scalars())
    return linked
