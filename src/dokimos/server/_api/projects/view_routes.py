"""Routes of saved views."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query
from fastapi.responses import Response
from pydantic import Field
from sqlalchemy import Row

from dokimos.server._api.http.access import Access, Caller, access
from dokimos.server._api.http.json_body import StrictBody, WireModel, describe_body, json_body
from dokimos.server._api.http.json_text import dump_json
from dokimos.server._api.http.list_parameters import list_request
from dokimos.server._api.http.parameters import Search, Store, lane_of
from dokimos.server._api.http.spliced_json import JsonText, json_response, splice_json
from dokimos.server._api.http.text_types import Name
from dokimos.server._db.clock import format_time
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.errors import InvalidRequestError
from dokimos.server._services.projects.names import MAX_LENGTH
from dokimos.server._services.projects.saved_views import (
    VIEW_ORDERS,
    NewView,
    ViewChange,
    ViewKind,
    change_view,
    delete_view,
    find_view,
    list_views,
    save_view,
)

ROUTER = APIRouter(prefix="/api/v1/views", tags=["Views"])
_VIEWS_PAGE = list_request(VIEW_ORDERS)
_MAX_QUERY = 8192


class SaveViewBody(StrictBody):
    """A view to save."""

    kind: Annotated[ViewKind, Field(strict=False)]
    name: Name
    query: dict[str, Any]
    """The parameters of the list."""
    project_name: Name | None = None
    shared: bool = False


class ChangeViewBody(StrictBody):
    """What changes of a view; what is missing or null stays."""

    name: Name | None = None
    query: dict[str, Any] | None = None
    shared: bool | None = None


class ViewAnswer(WireModel):
    """A saved view."""

    id: str
    kind: ViewKind
    name: str
    query: dict[str, Any]
    project_id: str | None
    project_name: str | None
    shared: bool
    owner: str
    is_own: bool
    created_at: str
    updated_at: str


async def _read_view_id(view_id: Annotated[UUID, Path(alias="viewId")]) -> str:
    return str(view_id)


_ViewId = Annotated[str, Depends(_read_view_id)]


@ROUTER.post("", status_code=201, response_model=ViewAnswer, openapi_extra=describe_body(SaveViewBody))
@access(Access.PRIVATE_READ)
async def post_view(
    caller: Caller, store: Store, body: Annotated[SaveViewBody, Depends(json_body(SaveViewBody))]
) -> Response:
    """Save the parameters of a list under a name; to share it, an EDITOR is needed."""
    new = NewView(
        kind=body.kind,
        name=body.name,
        query=_dump_query(body.query),
        project=body.project_name,
        is_shared=body.shared,
    )
    view = await store.write(lambda connection: save_view(connection, caller, new))
    return json_response(_describe(caller, view), 201)


@ROUTER.get("", response_model=list[ViewAnswer])
@access(Access.READ)
async def get_views(
    caller: Caller,
    store: Store,
    page: _VIEWS_PAGE,  # type: ignore[valid-type] # made by a function, for its orders
    kind: Annotated[ViewKind | None, Query(description="The list that they are views of.")] = None,
    project: Annotated[str | None, Query(max_length=MAX_LENGTH, description="The name of a project.")] = None,
    search: Search = None,
) -> Response:
    """List the caller's views and those that are shared, by name; with `limit`, a page of them.

    With `project`, these are the views for its lists, and those for the lists of all projects.
    """
    views = await store.read(
        lambda connection: list_views(connection, caller, page, kind=kind, project=project, search=search),
        lane_of(search),
    )
    return json_response(b"[%b]" % b",".join(_describe(caller, view) for view in views))


@ROUTER.get("/{viewId}", response_model=ViewAnswer)
@access(Access.READ)
async def get_view(caller: Caller, store: Store, view_id: _ViewId) -> Response:
    """Return a view of the caller's own or one that is shared."""
    view = await store.read(lambda connection: find_view(connection, caller, view_id))
    return json_response(_describe(caller, view))


@ROUTER.patch("/{viewId}", response_model=ViewAnswer, openapi_extra=describe_body(ChangeViewBody))
@access(Access.PRIVATE_READ)
async def patch_view(
    caller: Caller,
    store: Store,
    view_id: _ViewId,
    body: Annotated[ChangeViewBody, Depends(json_body(ChangeViewBody))],
) -> Response:
    """Change a view of the caller's own: its name, its parameters, whether it is shared."""
    query = None if body.query is None else _dump_query(body.query)
    change = ViewChange(name=body.name, query=query, is_shared=body.shared)
    view = await store.write(lambda connection: change_view(connection, caller, view_id, change))
    return json_response(_describe(caller, view))


@ROUTER.delete("/{viewId}", status_code=204)
@access(Access.PRIVATE_READ)
async def remove_view(caller: Caller, store: Store, view_id: _ViewId) -> Response:
    """Delete a view of the caller's own; an ADMIN deletes any that is shared."""
    await store.write(lambda connection: delete_view(connection, caller, view_id))
    return Response(status_code=204)


def _dump_query(query: dict[str, Any]) -> str:
    text = dump_json(query, "query")
    if len(text.encode()) > _MAX_QUERY:
        raise InvalidRequestError(f"must be at most {_MAX_QUERY} bytes of JSON", field="query")
    return text


def _describe(caller: Principal, view: Row[Any]) -> bytes:
    return splice_json(
        {
            "id": view.id,
            "kind": view.kind,
            "name": view.name,
            "query": JsonText(view.query.encode()),
            "projectId": view.project_id,
            "projectName": view.project_name,
            "shared": view.is_shared,
            "owner": view.owner,
            "isOwn": view.owner == caller.id,
            "createdAt": format_time(view.created_at),
            "updatedAt": format_time(view.updated_at),
        }
    )
