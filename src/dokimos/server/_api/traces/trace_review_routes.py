"""Routes that put traces into the review queue, and say what people said of them."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Depends
from fastapi.responses import JSONResponse, Response
from pydantic import Field
from sqlalchemy import Connection, Row

from dokimos.server._api.http.access import Access, Caller, access
from dokimos.server._api.http.json_body import StrictBody, WireModel, describe_body, json_body
from dokimos.server._api.http.parameters import Store
from dokimos.server._api.http.spliced_json import JsonText, json_response, splice_json
from dokimos.server._api.traces.trace_parameters import TraceKey, TraceStore
from dokimos.server._db.clock import format_time
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.errors import NotFoundError
from dokimos.server._services.reviews.annotations import visible_annotations
from dokimos.server._services.reviews.reviews import Verdict
from dokimos.server._services.traces.new_spans import canonical_id
from dokimos.server._services.traces.trace_details import find_trace
from dokimos.server._services.traces.trace_reviews import ReviewedTrace, list_reviewed, queue_traces

ROUTER: Final = APIRouter(prefix="/api/v1", tags=["Review"])
_MAX_TRACES: Final = 100


class ReviewedTraceBody(StrictBody):
    """A trace that people are to review."""

    trace_id: Annotated[UUID, Field(strict=False)]
    """The id of the trace, or its trace id of 32 hexadecimal digits."""
    span_id: Annotated[str, Field(max_length=64)] | None = None
    """The span that is reviewed, with what is below it; without it, the whole trace."""


class QueueTracesBody(StrictBody):
    """Traces that go into the review queue."""

    items: Annotated[list[ReviewedTraceBody], Field(min_length=1, max_length=_MAX_TRACES, fail_fast=True)]


class QueuedTraceAnswer(WireModel):
    """A trace in the review queue."""

    trace_id: str
    span_id: str | None
    run_id: str
    item_id: str
    is_new: bool
    """Whether it was put there just now."""


class QueuedTracesAnswer(WireModel):
    """Traces in the review queue, in the order of the request."""

    items: list[QueuedTraceAnswer]


class TraceReviewAnswer(WireModel):
    """What people said of a trace, or of one of its spans."""

    span_id: str | None
    run_id: str
    item_id: str
    verdict: Verdict | None
    """None where nobody has reviewed it, or the caller may not know yet."""
    overridden_expected_output: dict[str, Any] | None
    note: str | None
    queued_at: str
    reviewed_at: str | None


class TraceReviewsAnswer(WireModel):
    """What people said of a trace and its spans."""

    trace_id: str
    is_removed: bool
    """Whether the trace was deleted, by retention or by somebody; what was judged is in the items."""
    content: list[TraceReviewAnswer]


@ROUTER.post(
    "/review-queue/traces",
    status_code=201,
    response_model=QueuedTracesAnswer,
    openapi_extra=describe_body(QueueTracesBody),
)
@access(Access.PROJECT_WRITE)
async def add_traces(
    caller: Caller,
    store: Store,
    traces: TraceStore,
    body: Annotated[QueueTracesBody, Depends(json_body(QueueTracesBody))],
) -> Response:
    """Put traces or spans into the review queue, each as an item of a run; those that are there stay.

    Such an item keeps what was judged when retention removes the trace.
    """
    chosen = [
        ReviewedTrace(
            trace=each.trace_id, span_id=None if each.span_id is None else canonical_id(each.span_id)
        )
        for each in body.items
    ]
    queued = await queue_traces(store, traces, caller, chosen)
    items = [
        {
            "traceId": each.trace_id,
            "spanId": each.span_id,
            "runId": each.run_id,
            "itemId": each.item_id,
            "isNew": each.is_new,
        }
        for each in queued
    ]
    return JSONResponse({"items": items}, 201)


@ROUTER.get("/traces/{traceId}/reviews", response_model=TraceReviewsAnswer)
@access(Access.TRACE_READ)
async def get_trace_reviews(caller: Caller, store: Store, traces: TraceStore, trace: TraceKey) -> Response:
    """Return what people said of a trace and its spans, also where the trace has been removed."""

    def find(connection: Connection) -> str | NotFoundError:
        try:
            trace_id: str = find_trace(connection, caller, trace).trace_id
        except NotFoundError as error:
            return error
        return trace_id

    found = await traces.read(find)
    is_removed = isinstance(found, NotFoundError)
    trace_id = trace.hex if isinstance(found, NotFoundError) else found
    rows = await store.read(lambda connection: _describe(connection, caller, trace_id))
    if isinstance(found, NotFoundError) and not rows:
        raise found
    content = JsonText(f"[{','.join(rows)}]".encode())
    return json_response(splice_json({"traceId": trace_id, "isRemoved": is_removed, "content": content}))


def _describe(connection: Connection, caller: Principal, trace_id: str) -> list[str]:
    rows = list_reviewed(connection, caller, trace_id)
    said: dict[str, Row[Any]] = {}
    for project in sorted({row.project_id for row in rows}):
        ids = [row.item_id for row in rows if row.project_id == project]
        said |= visible_annotations(connection, caller, project, ids)
    return [_describe_review(row, said.get(row.item_id)) for row in rows]


def _describe_review(row: Row[Any], annotation: Row[Any] | None) -> str:
    """Return what people said of a trace or a span: texts that are JSON are so already."""
    verdict = correction = note = reviewed_at = None
    if annotation is not None:
        verdict, reviewed_at = annotation.verdict, format_time(annotation.updated_at)
        correction, note = annotation.overridden_expected_output, annotation.note
    return (
        f'{{"spanId":{json.dumps(row.span_id or None)},"runId":"{row.run_id}","itemId":"{row.item_id}",'
        f'"verdict":{json.dumps(verdict)},"overriddenExpectedOutput":{correction or "null"},'
        f'"note":{note or "null"},"queuedAt":"{format_time(row.created_at)}",'
        f'"reviewedAt":{json.dumps(reviewed_at)}}}'
    )
