"""Routes of the versions of a dataset and their items."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query
from fastapi.responses import JSONResponse, Response, StreamingResponse
from sqlalchemy import Connection, Row
from starlette.requests import Request

from dokimos.server._api.answer_schemas import DatasetItemPage
from dokimos.server._api.datasets.dataset_answers import (
    dataset_path,
    describe_version,
    items_json,
    optional_json,
)
from dokimos.server._api.datasets.dataset_exports import EXPORT_CONTENT, ExportFormat, export_version
from dokimos.server._api.datasets.dataset_schemas import (
    CreateVersionBody,
    Description,
    EditVersionBody,
    ItemChangeBody,
    VersionAnswer,
)
from dokimos.server._api.datasets.dataset_uploads import (
    FILE_TYPES,
    as_batches,
    file_type,
    make_item,
    read_file,
    read_json_version,
    receive_file,
)
from dokimos.server._api.http.access import Access, Caller, access
from dokimos.server._api.http.admission import LongKind, slot_of
from dokimos.server._api.http.json_body import describe_body, json_body
from dokimos.server._api.http.json_text import dump_json
from dokimos.server._api.http.list_parameters import cursor_request
from dokimos.server._api.http.paging import PageRequest, continue_page, page_request
from dokimos.server._api.http.parameters import PathName, Search, Store, lane_of
from dokimos.server._api.http.spliced_json import JsonText, json_response, splice_json
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.datasets.dataset_access import check_may_add_version, find_hidden_sources
from dokimos.server._services.datasets.dataset_edits import Edits, ItemChange, edit_version
from dokimos.server._services.datasets.dataset_items import DATASET_ITEM_ORDERS, count_items, list_items
from dokimos.server._services.datasets.dataset_versions import NewVersion, WrittenVersion, write_version
from dokimos.server._services.datasets.datasets import LATEST, find_dataset, find_version
from dokimos.server._services.errors import InvalidRequestError
from dokimos.server._services.list_pages import ListPage

ROUTER = APIRouter(prefix="/api/v1/datasets/{name}/versions", tags=["Datasets"])
_ITEMS_PAGE = page_request(50)
_ITEMS_CURSOR = cursor_request(DATASET_ITEM_ORDERS)
_Version = Annotated[str, Path(max_length=40, description="A number from 1 on, or `latest`.")]
_FILE = {"schema": {"type": "string", "format": "binary"}}
_UPLOAD = {
    "requestBody": {
        "required": True,
        "content": {
            **describe_body(CreateVersionBody)["requestBody"]["content"],
            **dict.fromkeys(FILE_TYPES, _FILE),
        },
    }
}

_UNCHANGED: dict[int | str, dict[str, Any]] = {
    200: {"model": VersionAnswer, "description": "The latest version, which has these items already."}
}


@ROUTER.put("", status_code=201, response_model=VersionAnswer, responses=_UNCHANGED, openapi_extra=_UPLOAD)
@ROUTER.post("", status_code=201, response_model=VersionAnswer, responses=_UNCHANGED, openapi_extra=_UPLOAD)
@access(Access.PROJECT_WRITE)
async def add_version(
    request: Request,
    caller: Caller,
    store: Store,
    name: PathName,
    description: Annotated[Description | None, Query()] = None,
    if_changed: Annotated[bool, Query(alias="ifChanged")] = False,
) -> Response:
    """Add a version with all its items: JSON, or a file of JSONL, CSV, TSV or Parquet.

    With `ifChanged=true`, the items of the latest version make no new one: that one is answered, with 200.
    """
    kind = file_type(request)
    if kind is None:
        own, items = await read_json_version(request)
        new = NewVersion(dataset=name, description=own or description, only_if_changed=if_changed)
        return _answer_version(name, await write_version(store, caller, new, as_batches(iter(items))))
    # Before the file is received: whoever may not write hears of it at once.
    await store.read(lambda connection: _check_may_add(connection, caller, name))
    with await receive_file(request) as file:
        rows = read_file(file, kind, largest=request.app.state.settings.max_body_bytes)
        new = NewVersion(dataset=name, description=description, only_if_changed=if_changed)
        return _answer_version(name, await write_version(store, caller, new, as_batches(rows)))


@ROUTER.get("/{version}", response_model=VersionAnswer)
@access(Access.READ)
async def get_version(caller: Caller, store: Store, name: PathName, version: _Version) -> dict[str, Any]:
    """Return a version of a dataset."""
    row = await store.read(lambda connection: _find(connection, caller, name, version))
    return describe_version(name, row)


@ROUTER.get("/{version}/items", response_model=DatasetItemPage)
@access(Access.READ)
async def get_items(
    caller: Caller,
    store: Store,
    name: PathName,
    version: _Version,
    page: _ITEMS_PAGE,  # type: ignore[valid-type] # made by a function, for its default size
    cursor: _ITEMS_CURSOR,  # type: ignore[valid-type] # and for its orders
    search: Search = None,
) -> Response:
    """Return a page of the items of a version, in their order.

    `after` continues behind an item; `page` is not looked at then.
    """

    def read(connection: Connection) -> bytes:
        row = _find(connection, caller, name, version)
        return _items_page(connection, caller, row, search, page, cursor)

    return json_response(await store.read(read, lane_of(search)))


@ROUTER.get(
    "/{version}/export", response_class=StreamingResponse, responses={200: {"content": EXPORT_CONTENT}}
)
@access(Access.READ)
async def export(
    request: Request,
    caller: Caller,
    store: Store,
    name: PathName,
    version: _Version,
    format: ExportFormat = "jsonl",
) -> Response:
    """Return a version as a file, whose ids are the same in all versions: it can be edited and sent back."""
    row = await store.read(lambda connection: _find(connection, caller, name, version))
    await slot_of(request).turn_into(LongKind.EXPORT)
    return await export_version(store, request.app.state.settings, name, row, format)


@ROUTER.post(
    "/{version}/edits",
    status_code=201,
    response_model=VersionAnswer,
    openapi_extra=describe_body(EditVersionBody),
)
@access(Access.PROJECT_WRITE)
async def edit(
    caller: Caller,
    store: Store,
    name: PathName,
    version: _Version,
    body: Annotated[EditVersionBody, Depends(json_body(EditVersionBody))],
) -> Response:
    """Make a new version of one, with items set, added and removed."""
    expected = body.expected_latest_version
    if expected is None and version == LATEST:
        row = await store.read(lambda connection: _find(connection, caller, name, LATEST))
        version, expected = str(row.version), row.version
    new = NewVersion(dataset=name, description=body.description, base=version, expected_latest=expected)
    return _answer_version(name, await edit_version(store, caller, new, _read_edits(body)))


def _answer_version(name: str, written: WrittenVersion) -> Response:
    location = f"{dataset_path(name)}/versions/{written.row.version}"
    answer = describe_version(name, written.row)
    return JSONResponse(answer, 201 if written.is_new else 200, {"Location": location})


def _items_page(
    connection: Connection,
    caller: Principal,
    version: Row[Any],
    search: str | None,
    page: PageRequest,
    cursor: ListPage,
) -> bytes:
    if cursor.after is not None:
        page = PageRequest(0, page.size)
    items = list_items(connection, version.id, cursor, search=search, offset=page.offset, limit=page.size)
    total = count_items(connection, version.id, search) if search else version.item_count
    envelope = page.envelope(total, len(items))
    if cursor.after is not None:
        envelope |= continue_page(page, len(items))
    hidden = find_hidden_sources(connection, caller, items)
    return splice_json({"content": JsonText(items_json(items, hidden).encode()), **envelope})


def _find(connection: Connection, principal: Principal, name: str, version: str) -> Row[Any]:
    return find_version(connection, principal, find_dataset(connection, principal, name), version)


def _check_may_add(connection: Connection, principal: Principal, name: str) -> None:
    check_may_add_version(connection, principal, find_dataset(connection, principal, name))


def _read_edits(body: EditVersionBody) -> Edits:
    edits = Edits()
    for index, change in enumerate(body.changes):
        path = f"changes[{index}]"
        if change["op"] == "add":
            if "inputs" not in change:
                raise InvalidRequestError("is required", field=f"{path}.inputs")
            edits.added.append(make_item(change, path))
            continue
        item_id = change.get("id")
        if item_id is None:
            raise InvalidRequestError("is required", field=f"{path}.id")
        if item_id in edits.places:
            raise InvalidRequestError("is named twice", field=f"{path}.id")
        edits.places[item_id] = f"{path}.id"
        if change["op"] == "remove":
            edits.removed.add(item_id)
        else:
            edits.changed[item_id] = _read_change(change, path)
    return edits


def _read_change(change: ItemChangeBody, path: str) -> ItemChange:
    """The parts that the change names; the others stay, and null empties one."""
    parts: dict[str, str | None] = {}
    if "inputs" in change:
        parts["inputs"] = dump_json(change["inputs"], f"{path}.inputs")
    if "expectedOutputs" in change:
        parts["expected_outputs"] = optional_json(change["expectedOutputs"], f"{path}.expectedOutputs")
    if "metadata" in change:
        parts["metadata"] = optional_json(change["metadata"], f"{path}.metadata")
    if not parts:
        raise InvalidRequestError("must name what is set: inputs, expectedOutputs or metadata", field=path)
    return ItemChange(parts)
