"""Routes of comments on runs and items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query
from fastapi.responses import Response
from sqlalchemy import Connection, Row

from dokimos.server._api.http.access import Access, Caller, access
from dokimos.server._api.http.json_body import WireModel, describe_body, json_body
from dokimos.server._api.http.list_parameters import list_request
from dokimos.server._api.http.parameters import RunId, Search, Store, lane_of
from dokimos.server._api.runs.run_schemas import CommentBody, EditCommentBody
from dokimos.server._db.clock import format_time
from dokimos.server._db.ids import parse_id
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.errors import InvalidRequestError
from dokimos.server._services.reviews.authors import names_of_authors
from dokimos.server._services.reviews.comments import (
    COMMENT_ORDERS,
    add_comment,
    delete_comment,
    edit_comment,
    list_comments,
)

ROUTER = APIRouter(prefix="/api/v1/runs/{runId}/comments", tags=["Comments"])
_COMMENTS_PAGE = list_request(COMMENT_ORDERS)


async def _read_comment_id(comment_id: Annotated[UUID, Path(alias="commentId")]) -> str:
    return str(comment_id)


_CommentId = Annotated[str, Depends(_read_comment_id)]


class CommentAnswer(WireModel):
    """A comment."""

    id: str
    run_id: str
    item_id: str | None
    body: str
    created_by: str
    author_name: str | None
    """The name of the key or of the person; null where it is not known."""
    created_at: str
    edited_at: str | None


@ROUTER.post("", status_code=201, response_model=CommentAnswer, openapi_extra=describe_body(CommentBody))
@access(Access.PROJECT_WRITE)
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

    def add(connection: Connection) -> dict[str, Any]:
        row = add_comment(connection, caller, run_id, body.body, item_id)
        return _describe(connection, caller, [row])[0]

    return await store.write(add)


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

    def read(connection: Connection) -> list[dict[str, Any]]:
        rows = list_comments(connection, caller, run_id, page, item_id=item, search=search)
        return _describe(connection, caller, rows)

    return await store.read(read, lane_of(search))


@ROUTER.patch("/{commentId}", response_model=CommentAnswer, openapi_extra=describe_body(EditCommentBody))
@access(Access.PROJECT_WRITE)
async def patch_comment(
    caller: Caller,
    store: Store,
    run_id: RunId,
    comment_id: _CommentId,
    body: Annotated[EditCommentBody, Depends(json_body(EditCommentBody))],
) -> dict[str, Any]:
    """Change the text of a comment of the caller's own."""

    def edit(connection: Connection) -> dict[str, Any]:
        row = edit_comment(connection, caller, run_id, comment_id, body.body)
        return _describe(connection, caller, [row])[0]

    return await store.write(edit)


@ROUTER.delete("/{commentId}", status_code=204)
@access(Access.PROJECT_WRITE)
async def remove_comment(caller: Caller, store: Store, run_id: RunId, comment_id: _CommentId) -> Response:
    """Delete a comment of the caller's own; an ADMIN deletes any."""
    await store.write(lambda connection: delete_comment(connection, caller, run_id, comment_id))
    return Response(status_code=204)


def _describe(connection: Connection, caller: Principal, rows: Sequence[Row[Any]]) -> list[dict[str, Any]]:
    names = names_of_authors(connection, caller, (row.created_by for row in rows))
    return [
        {
            "id": row.id,
            "runId": row.run_id,
            "itemId": row.item_id,
            "body": row.body,
            "createdBy": row.created_by,
            "authorName": names.get(row.created_by),
            "createdAt": format_time(row.created_at),
            "editedAt": format_time(row.edited_at),
        }
        for row in rows
    ]
