"""The route that makes items of a dataset of traces."""

from __future__ import annotations

from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Depends
from fastapi.responses import JSONResponse, Response
from pydantic import Field

from dokimos.server._api.datasets.dataset_answers import dataset_path, describe_version
from dokimos.server._api.datasets.dataset_schemas import Description, VersionAnswer
from dokimos.server._api.http.access import Access, Caller, access
from dokimos.server._api.http.json_body import StrictBody, describe_body, json_body
from dokimos.server._api.http.parameters import PathName, Store
from dokimos.server._api.traces.trace_parameters import TraceStore
from dokimos.server._services.traces.new_spans import canonical_id
from dokimos.server._services.traces.trace_promotion import PromotedTrace, promote_traces

ROUTER: Final = APIRouter(prefix="/api/v1/datasets", tags=["Datasets"])
_MAX_TRACES: Final = 100


class PromotedTraceBody(StrictBody):
    """A trace that goes into a dataset."""

    trace_id: Annotated[UUID, Field(strict=False)]
    """The id of the trace, or its trace id of 32 hexadecimal digits."""
    span_id: Annotated[str, Field(max_length=64)] | None = None
    """The span below which the item is made; without it, the whole trace."""
    expected_outputs: dict[str, Any] | None = None
    """Without it, the recorded answer is expected."""


class PromoteTracesBody(StrictBody):
    """Traces that go into a new version of a dataset."""

    items: Annotated[list[PromotedTraceBody], Field(min_length=1, max_length=_MAX_TRACES, fail_fast=True)]
    description: Description | None = None


@ROUTER.post(
    "/{name}/versions/from-traces",
    status_code=201,
    response_model=VersionAnswer,
    openapi_extra=describe_body(PromoteTracesBody),
)
@access(Access.PROJECT_WRITE)
async def add_version_from_traces(
    caller: Caller,
    store: Store,
    traces: TraceStore,
    name: PathName,
    body: Annotated[PromoteTracesBody, Depends(json_body(PromoteTracesBody))],
) -> Response:
    """Write a version with items made of traces behind those of the latest one.

    Each has in its metadata where it comes from, and what models and tools answered when it happened.
    """
    promoted = [
        PromotedTrace(
            trace=each.trace_id,
            span_id=None if each.span_id is None else canonical_id(each.span_id),
            expected=each.expected_outputs,
        )
        for each in body.items
    ]
    written = await promote_traces(store, traces, caller, name, promoted, body.description)
    location = f"{dataset_path(name)}/versions/{written.row.version}"
    return JSONResponse(describe_version(name, written.row), 201, {"Location": location})
