"""Routes of human review: the queue, who is at which item, and what each reviewer says."""

from __future__ import annotations

from dataclasses import replace
from random import Random, SystemRandom
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from sqlalchemy import Connection

from dokimos.server._api.datasets.dataset_answers import optional_json
from dokimos.server._api.http.access import Access, Caller, access
from dokimos.server._api.http.json_body import describe_body, json_body
from dokimos.server._api.http.json_text import dump_json
from dokimos.server._api.http.paging import PageRequest, continue_page, page_request
from dokimos.server._api.http.parameters import ItemId, RunId, Store
from dokimos.server._api.http.spliced_json import JsonText, json_response, splice_json
from dokimos.server._api.reviews.review_answers import change_json, queue_json, review_json
from dokimos.server._api.reviews.review_schemas import (
    AssignBody,
    ClaimBody,
    ClaimedAnswer,
    ClaimsBody,
    HeldAnswer,
    Order,
    OutcomeFilter,
    QueuePage,
    ReleaseBody,
    ReleasedAnswer,
    ReviewAnswer,
    ReviewBody,
    ReviewChangeAnswer,
    ReviewProgressAnswer,
    UndoneAnswer,
)
from dokimos.server._db.clock import format_time, now
from dokimos.server._db.database import Lane
from dokimos.server._services.errors import InvalidRequestError
from dokimos.server._services.projects.project_settings import DEFAULTS
from dokimos.server._services.reviews.authors import names_of_authors
from dokimos.server._services.reviews.label_schemas import check_labels
from dokimos.server._services.reviews.review_claims import (
    ClaimRequest,
    assign_items,
    claim_items,
    extend_claims,
    release_claims,
)
from dokimos.server._services.reviews.review_filter import QueueFilter
from dokimos.server._services.reviews.review_order import choose_informative
from dokimos.server._services.reviews.review_progress import read_progress
from dokimos.server._services.reviews.review_queue import Queue, QueuePart
from dokimos.server._services.reviews.reviews import (
    NewAnnotation,
    give_review,
    list_changes,
    list_reviews,
    open_item,
    undo_change,
    withdraw_reviews,
)

ROUTER = APIRouter(prefix="/api/v1", tags=["Review"])
_PAGE = page_request(50)
_MAX_OFFSET: Final = 100_000
"""Behind it, a page of a filtered queue would cost too much: all items before it are read."""
_MAX_DAYS: Final = 366
_ITEM: Final = "/runs/{runId}/items/{itemId}"


async def _read_filter(
    project_name: Annotated[str | None, Query(alias="projectName")] = None,
    experiment_id: Annotated[UUID | None, Query(alias="experimentId")] = None,
    run_id: Annotated[UUID | None, Query(alias="runId")] = None,
    outcome: Annotated[OutcomeFilter | None, Query()] = None,
    disagree: Annotated[bool, Query(description="Only where some evaluators are content.")] = False,
    near: Annotated[float | None, Query(gt=0, le=1, description="Share of a score's range.")] = None,
    sample: Annotated[float | None, Query(gt=0, le=1, description="Share of all items.")] = None,
    assigned: Annotated[Literal["me", "nobody"] | None, Query()] = None,
) -> QueueFilter:
    return QueueFilter(
        project=project_name,
        experiment_id=None if experiment_id is None else str(experiment_id),
        run_id=None if run_id is None else str(run_id),
        outcome=outcome,
        disagree=disagree,
        near=near,
        sample=sample,
        assigned=assigned,
    )


async def _read_scope(
    project_name: Annotated[str | None, Query(alias="projectName")] = None,
    experiment_id: Annotated[UUID | None, Query(alias="experimentId")] = None,
    run_id: Annotated[UUID | None, Query(alias="runId")] = None,
) -> QueueFilter:
    return QueueFilter(
        project=project_name,
        experiment_id=None if experiment_id is None else str(experiment_id),
        run_id=None if run_id is None else str(run_id),
    )


@ROUTER.get("/review-queue", response_model=QueuePage)
@access(Access.READ)
async def get_queue(
    caller: Caller,
    store: Store,
    page: _PAGE,  # type: ignore[valid-type] # made by a function, for its default size
    chosen: Annotated[QueueFilter, Depends(_read_filter)],
    sort: Annotated[Order, Query(description="The oldest first, or the most informative.")] = "createdAt",
    after: Annotated[UUID | None, Query(description="The last item of the page before this one.")] = None,
) -> Response:
    """List the items that nobody has reviewed, or whose verdict is UNSURE, the oldest first.

    `totalElements` is exact where only projects, experiments and runs are named; with other filters it is how
    many there are at least, and `totalIsExact` says so. `after` continues behind an item, however far down
    the queue it is, at the price of a first page.
    """
    request: PageRequest = page
    behind = None if after is None else str(after)

    def read(connection: Connection) -> bytes:
        return _queue_page(Queue(connection, caller, chosen), request, sort, behind)

    return json_response(await store.read(read, Lane.SEARCH if chosen.is_narrowed else Lane.PAGE))


@ROUTER.get("/review-queue/progress", response_model=ReviewProgressAnswer)
@access(Access.READ)
async def get_progress(
    caller: Caller,
    store: Store,
    chosen: Annotated[QueueFilter, Depends(_read_scope)],
    days: Annotated[int, Query(ge=1, le=_MAX_DAYS, description="The last so many days.")] = 7,
) -> dict[str, Any]:
    """Return how many items each reviewer has reviewed lately and is at, and how many wait."""
    progress = await store.read(
        lambda connection: read_progress(connection, caller, chosen, days), Lane.SEARCH
    )
    return {
        "since": format_time(progress.since),
        "left": progress.left,
        "reviewers": [
            {
                "reviewer": each.reviewer,
                "name": each.name,
                "reviewed": each.reviewed,
                "lastAt": format_time(each.last_at),
                "claimed": each.claimed,
                "assigned": each.assigned,
            }
            for each in progress.reviewers
        ],
    }


@ROUTER.post("/review-queue/claim", response_model=ClaimedAnswer, openapi_extra=describe_body(ClaimBody))
@access(Access.PROJECT_WRITE)
async def claim(
    caller: Caller, store: Store, body: Annotated[ClaimBody, Depends(json_body(ClaimBody))]
) -> Response:
    """Claim the next items of the queue: nobody else gets them before the claims expire.

    What the caller has claimed already comes first, and its claims hold longer.
    """
    request = ClaimRequest(
        chosen=QueueFilter(
            project=body.project_name,
            experiment_id=body.experiment_id,
            run_id=body.run_id,
            outcome=body.outcome,
            disagree=body.disagree,
            near=body.near,
            sample=body.sample,
            assigned=body.assigned,
        ),
        count=body.count,
        seconds=body.seconds,
        is_informative=body.order == "informative",
    )

    claimed = await claim_items(store, caller, request, SystemRandom())
    items = await store.read(lambda connection: queue_json(connection, caller, claimed))
    return json_response(splice_json({"items": JsonText(items.encode()), "expiresAt": _in(body.seconds)}))


@ROUTER.post("/review-queue/heartbeat", response_model=HeldAnswer, openapi_extra=describe_body(ClaimsBody))
@access(Access.PROJECT_WRITE)
async def heartbeat(
    caller: Caller, store: Store, body: Annotated[ClaimsBody, Depends(json_body(ClaimsBody))]
) -> dict[str, Any]:
    """Have claims of the caller hold longer; what is missing in the answer has expired."""
    held = await store.write(
        lambda connection: extend_claims(connection, caller, body.seconds, body.item_ids)
    )
    return {"itemIds": held, "expiresAt": _in(body.seconds)}


@ROUTER.post("/review-queue/release", response_model=ReleasedAnswer, openapi_extra=describe_body(ReleaseBody))
@access(Access.PROJECT_WRITE)
async def release(
    caller: Caller, store: Store, body: Annotated[ReleaseBody, Depends(json_body(ReleaseBody))]
) -> dict[str, int]:
    """Give items back to the queue that the caller has claimed."""
    count = await store.write(lambda connection: release_claims(connection, caller, body.item_ids))
    return {"released": count}


@ROUTER.post("/review-queue/assign", status_code=204, openapi_extra=describe_body(AssignBody))
@access(Access.PROJECT_WRITE)
async def assign(
    caller: Caller, store: Store, body: Annotated[AssignBody, Depends(json_body(AssignBody))]
) -> Response:
    """Assign items to a person, or to nobody."""
    await store.write(lambda connection: assign_items(connection, caller, body.item_ids, body.reviewer))
    return Response(status_code=204)


@ROUTER.get(f"{_ITEM}/reviews", response_model=list[ReviewAnswer])
@access(Access.READ)
async def get_reviews(caller: Caller, store: Store, run_id: RunId, item_id: ItemId) -> Response:
    """List what people say about an item; where reviews are blind, the own alone until there is one."""

    def read(connection: Connection) -> str:
        rows = list_reviews(connection, caller, run_id, item_id)
        names = names_of_authors(connection, caller, (row.reviewer for row in rows))
        return f"[{','.join(review_json(row, names) for row in rows)}]"

    return json_response(await store.read(read))


@ROUTER.get(f"{_ITEM}/review-changes", response_model=list[ReviewChangeAnswer])
@access(Access.READ)
async def get_changes(caller: Caller, store: Store, run_id: RunId, item_id: ItemId) -> Response:
    """List all changes of the reviews of an item, the oldest first."""

    def read(connection: Connection) -> str:
        rows = list_changes(connection, caller, run_id, item_id)
        names = names_of_authors(connection, caller, (row.reviewer for row in rows))
        return f"[{','.join(change_json(row, names) for row in rows)}]"

    return json_response(await store.read(read))


@ROUTER.put(f"{_ITEM}/review", response_model=ReviewAnswer, openapi_extra=describe_body(ReviewBody))
@access(Access.PROJECT_WRITE)
async def set_review(
    caller: Caller,
    store: Store,
    run_id: RunId,
    item_id: ItemId,
    body: Annotated[ReviewBody, Depends(json_body(ReviewBody))],
) -> Response:
    """Create the caller's review of an item, or replace all of it; it is the annotation from then on."""
    new = NewAnnotation(
        verdict=body.verdict,
        overridden_expected_output=optional_json(body.overridden_expected_output, "overriddenExpectedOutput"),
        note=optional_json(body.note, "note"),
    )

    def change(connection: Connection) -> str:
        place = open_item(connection, caller, run_id, item_id)
        labels = check_labels(connection, place.run.project_id, body.labels or {})
        said = replace(new, labels=dump_json(labels, "labels") if labels else None)
        row = give_review(connection, caller, place, said)
        return review_json(row, names_of_authors(connection, caller, [row.reviewer]))

    return json_response(await store.write(change))


@ROUTER.delete(f"{_ITEM}/review", status_code=204)
@access(Access.PROJECT_WRITE)
async def withdraw_review(caller: Caller, store: Store, run_id: RunId, item_id: ItemId) -> Response:
    """Withdraw the caller's review of an item; where there is none, that is well too."""

    def change(connection: Connection) -> None:
        place = open_item(connection, caller, run_id, item_id)
        withdraw_reviews(connection, caller, place, reviewer=caller.id)

    await store.write(change)
    return Response(status_code=204)


@ROUTER.post(f"{_ITEM}/review/undo", response_model=UndoneAnswer)
@access(Access.PROJECT_WRITE)
async def undo_review(caller: Caller, store: Store, run_id: RunId, item_id: ItemId) -> Response:
    """Undo the last change that the caller has made to its review of an item."""

    def change(connection: Connection) -> str:
        row = undo_change(connection, caller, open_item(connection, caller, run_id, item_id))
        if row is None:
            return '{"review":null}'
        names = names_of_authors(connection, caller, [row.reviewer])
        return f'{{"review":{review_json(row, names)}}}'

    return json_response(await store.write(change))


def _queue_page(queue: Queue, page: PageRequest, sort: str, after: str | None) -> bytes:
    offset = 0 if after is not None else page.offset
    is_narrowed, is_informative = queue.chosen.is_narrowed, sort == "informative"
    if is_informative and after is not None:
        raise InvalidRequestError("continues only where the oldest come first", field="after")
    if is_narrowed and offset > _MAX_OFFSET:
        message = f"must not begin behind item {_MAX_OFFSET} where filters are given: continue with 'after'"
        raise InvalidRequestError(message, field="page")
    if is_informative:
        part = _informative_page(queue, page)
    else:
        part = queue.read(page.size + 1, offset=offset, after=after)
    has_more = len(part.items) > page.size
    rows = part.items[: page.size]
    is_exact = not is_narrowed or not (is_informative or after is not None or has_more)
    total = part.skipped + len(part.items) if is_narrowed else queue.count()
    content = JsonText(queue_json(queue.connection, queue.principal, rows).encode())
    envelope = (PageRequest(0, page.size) if after is not None else page).envelope(total, len(rows))
    if after is not None:
        envelope |= continue_page(page, len(rows))
    return splice_json({"content": content, "totalIsExact": is_exact, **envelope})


def _informative_page(queue: Queue, page: PageRequest) -> QueuePart:
    # The same page shows the same items as long as the queue is the same.
    random = Random(page.number)
    share = DEFAULTS.review_random_share
    if queue.chosen.is_narrowed:  # nothing is drawn, and one more tells whether there are more
        return choose_informative(queue, page.size + 1, random_share=share, random=random, offset=page.offset)
    offset = page.offset - round(share * page.size) * page.number
    return choose_informative(queue, page.size, random_share=share, random=random, offset=offset)


def _in(seconds: int) -> str | None:
    return format_time(now() + seconds * 1_000_000)
