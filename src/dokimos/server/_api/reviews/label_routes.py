"""Routes of labels: what people can say beside a verdict, and what they said, as a file of examples."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Path, Query
from fastapi.responses import Response, StreamingResponse
from sqlalchemy import Row

from dokimos.datasets._writers import format_record
from dokimos.server._api.http.access import Access, Caller, access
from dokimos.server._api.http.json_body import describe_body, json_body
from dokimos.server._api.http.parameters import ENCODED_SLASH, PathName, RunId, Store
from dokimos.server._api.http.text_types import NAME_SCHEMA
from dokimos.server._api.reviews.review_answers import label_json, label_sections
from dokimos.server._api.reviews.review_schemas import LabelAnswer, LabelBody
from dokimos.server._db.clock import format_time
from dokimos.server._db.database import Database, Lane
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.projects.projects import find_project
from dokimos.server._services.reviews.label_schemas import (
    LabelDefinition,
    define_label,
    list_labels,
    read_definition,
    retire_label,
)
from dokimos.server._services.reviews.review_labels import LabelledItem, LabelScope, read_labels
from dokimos.server._services.runs.runs import find_run

ROUTER = APIRouter(prefix="/api/v1", tags=["Review"])


async def _read_label(label: Annotated[str, Path(json_schema_extra=NAME_SCHEMA)]) -> str:
    return label.replace(ENCODED_SLASH, "/")


_Label = Annotated[str, Depends(_read_label)]
"""The part `{label}` of a path, percent-decoded."""
_Format = Annotated[Literal["jsonl", "json", "csv"], Query(description="The kind of file.")]
_TYPES: Final = {
    "jsonl": "application/x-ndjson",
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
}
_CONTENT: Final[dict[str, Any]] = {
    kind.partition(";")[0]: {"schema": {"type": "object"} if name == "json" else {"type": "string"}}
    for name, kind in _TYPES.items()
}
_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "Labelled examples", "content": _CONTENT}
}


@ROUTER.get("/runs/{runId}/labels", response_class=StreamingResponse, responses=_ANSWERS)
@access(Access.READ)
async def get_labels_of_run(
    caller: Caller, store: Store, run_id: RunId, format: _Format = "jsonl"
) -> StreamingResponse:
    """Return the items of a run that people have decided, with their recorded outputs and labels."""
    await store.read(lambda connection: find_run(connection, caller, run_id))
    return _send(store, caller, LabelScope(run_id=run_id), format)


@ROUTER.get("/projects/{name}/labels", response_class=StreamingResponse, responses=_ANSWERS)
@access(Access.READ)
async def get_labels_of_project(
    caller: Caller, store: Store, name: PathName, format: _Format = "jsonl"
) -> StreamingResponse:
    """Return the items of all runs of a project that people have decided, likewise."""
    await store.read(lambda connection: find_project(connection, caller, name), Lane.PAGE)
    return _send(store, caller, LabelScope(project=name), format)


def _send(store: Database, caller: Principal, scope: LabelScope, format: str) -> StreamingResponse:
    write = _WRITERS[format]
    headers = {"Content-Disposition": f'attachment; filename="labels.{format}"'}
    return StreamingResponse(write(_each(store, caller, scope)), media_type=_TYPES[format], headers=headers)


async def _each(store: Database, caller: Principal, scope: LabelScope) -> AsyncIterator[LabelledItem]:
    async for batch in read_labels(store, caller, scope):
        for each in batch:
            yield each


async def _write_jsonl(labels: AsyncIterator[LabelledItem]) -> AsyncIterator[bytes]:
    async for each in labels:
        yield f"{label_json(each)}\n".encode()


async def _write_json(labels: AsyncIterator[LabelledItem]) -> AsyncIterator[bytes]:
    yield b'{"name": "labels", "examples": ['
    separator = "\n"
    async for each in labels:
        yield f"{separator}{label_json(each)}".encode()
        separator = ",\n"
    yield b"\n]}\n"


async def _write_csv(labels: AsyncIterator[LabelledItem]) -> AsyncIterator[bytes]:
    """Write a column for each map: what a cell for a single key would be read back as depends on its text."""
    yield format_record(["id", "inputs", "expected_outputs", "actual_outputs", "metadata"], ",").encode()
    async for each in labels:
        inputs, expected, actual, metadata = label_sections(each)
        cells = [each.item.id, inputs, expected, actual, metadata]
        yield format_record(cells, ",").encode()


_WRITERS: Final[dict[str, Callable[[AsyncIterator[LabelledItem]], AsyncIterator[bytes]]]] = {
    "jsonl": _write_jsonl,
    "json": _write_json,
    "csv": _write_csv,
}


@ROUTER.get("/projects/{name}/label-schemas", response_model=list[LabelAnswer])
@access(Access.READ)
async def get_label_schemas(caller: Caller, store: Store, name: PathName) -> list[dict[str, Any]]:
    """List what reviewers of a project can say beside the verdict."""
    rows = await store.read(lambda connection: list_labels(connection, caller, name))
    return [_describe_label(row) for row in rows]


@ROUTER.put(
    "/projects/{name}/label-schemas/{label}",
    response_model=LabelAnswer,
    openapi_extra=describe_body(LabelBody),
)
@access(Access.PROJECT_WRITE)
async def put_label_schema(
    caller: Caller,
    store: Store,
    name: PathName,
    label: _Label,
    body: Annotated[LabelBody, Depends(json_body(LabelBody))],
) -> dict[str, Any]:
    """Define a label; where it is defined already, that is a new version, and earlier reviews keep theirs."""
    definition = LabelDefinition(
        kind=body.kind,
        description=body.description,
        choices=tuple(body.choices or ()),
        low=body.low,
        high=body.high,
    )
    row = await store.write(lambda connection: define_label(connection, caller, name, label, definition))
    return _describe_label(row)


@ROUTER.delete("/projects/{name}/label-schemas/{label}", status_code=204)
@access(Access.PROJECT_WRITE)
async def delete_label_schema(caller: Caller, store: Store, name: PathName, label: _Label) -> Response:
    """Have nobody use a label any more; what was said with it stays."""
    await store.write(lambda connection: retire_label(connection, caller, name, label))
    return Response(status_code=204)


def _describe_label(row: Row[Any]) -> dict[str, Any]:
    definition = read_definition(row)
    return {
        "name": row.name,
        "version": row.version,
        "kind": definition.kind,
        "description": definition.description,
        "choices": list(definition.choices),
        "low": definition.low,
        "high": definition.high,
        "createdAt": format_time(row.created_at),
    }
