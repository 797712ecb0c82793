"""Routes of comments on runs and items."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query
from fastapi.responses import Response
from sqlalchemy import Row

from dokimos.server._api.access import Access, Caller, access
from dokimos.server._api.json_body import WireModel, describe_body, json_body
from dokimos.server._api.list_parameters import list_request
from dokimos.server._api.parameters import RunId, Search, Store, lane_of
from dokimos.server._api.run_schemas import CommentBody
from dokimos.server._db.clock import format_time
from dokimos.server._db.ids import parse_id
from dokimos.server._services.comments import COMMENT_ORDERS, add_comment, delete_comment, list_comments
from dokimos.server._services.errors import InvalidRequestError

ROUTER = APIRouter(prefix="/api/v1/runs/{runId}/comments", tags=["Comments"])
_COMMENTS_PAGE = list_request(COMMENT_ORDERS)


class CommentAnswer(WireModel):
    """A comment."""

    id: str
    run_id: str
    item_id: str | None
    body: str
    created_by: str
    created_at: str


@ROUTER.post("", status_code=201, response_model=CommentAnswer, openapi_extra=describe_body(CommentBody))
@access(Access.WRITE)
async def post_comment(
    caller: Caller,
    store: Store,
    run_id: RunId,
    body: Annotated[CommentBody, Depends(json_body(CommentBody))],
) -> dict[str, Any]:
    """Comment on a run, or on the item that `itemId` names."""
    item_id = body.item_id
    if item_id is not None:
        item_id = parse_id(item_id)
        if item_id is None:
            raise InvalidRequestError("must be a UUID", field="itemId")
    row = await store.write(lambda connection: add_comment(connection, caller, run_id, body.body, item_id))
    return _answer(row)


@ROUTER.get("", response_model=list[CommentAnswer])
@access(Access.READ)
async def get_comments(
    caller: Caller,
    store: Store,
    run_id: RunId,
    page: _COMMENTS_PAGE,  # type: ignore[valid-type] # made by a function, for its orders
    item_id: Annotated[UUID | None, Query(alias="itemId")] = None,
    search: Search = None,
) -> list[dict[str, Any]]:
    """List the comments on a run and its items, or on one item, the oldest first; with `limit`, a page."""
    item = None if item_id is None else str(item_id)
    rows = await store.read(
        lambda connection: list_comments(connection, caller, run_id, page, item_id=item, search=search),
        lane_of(search),
    )
    return [_answer(row) for row in rows]


@ROUTER.delete("/{commentId}", status_code=204)
@access(Access.WRITE)
async def remove_comment(
    caller: Caller, store: Store, run_id: RunId, comment_id: Annotated[UUID, Path(alias="commentId")]
) -> Response:
    """Delete a comment."""
    await store.write(lambda connection: delete_comment(connection, caller, run_id, str(comment_id)))
    return Response(status_code=204)


def _answer(row: Row[Any]) -> dict[str, Any]:
    return {
        "id": row.id,
        "runId": row.run_id,
        "itemId": row.item_id,
        "body": row.body,
        "createdBy": row.created_by,
        "createdAt": format_time(row.created_at),
    }
