"""Routes that read traces: lists, one trace, its spans."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response, StreamingResponse
from sqlalchemy import Connection, Row
from starlette.requests import Request

from dokimos.server._api.http.access import Access, Caller, access
from dokimos.server._api.http.admission import LongKind, slot_of
from dokimos.server._api.http.json_text import encode_json
from dokimos.server._api.http.paging import PageRequest, page_request
from dokimos.server._api.http.parameters import Store
from dokimos.server._api.http.spliced_json import json_response
from dokimos.server._api.traces.trace_answers import (
    document_span,
    span_details,
    span_summary,
    trace_details,
    trace_summary,
)
from dokimos.server._api.traces.trace_exports import OTLP_CONTENT, OtlpFormat, choose_format, export_trace
from dokimos.server._api.traces.trace_parameters import Chosen, Project, TraceKey, TracesCursor, TraceStore
from dokimos.server._api.traces.trace_schemas import (
    AgentTraceAnswer,
    ConversationAnswer,
    SpanDetails,
    SpanListAnswer,
    SpanMatchesAnswer,
    TraceDetails,
    TracePageAnswer,
)
from dokimos.server._db.database import Database, Lane
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.list_pages import ListPage
from dokimos.server._services.online.trace_jobs import read_eval_jobs
from dokimos.server._services.traces.new_spans import canonical_id
from dokimos.server._services.traces.project_names import find_project_id, read_project_names
from dokimos.server._services.traces.span_search import SearchPlace, search_spans
from dokimos.server._services.traces.trace_details import find_span, find_trace, list_spans, read_spans
from dokimos.server._services.traces.trace_filter import TraceFilter
from dokimos.server._services.traces.trace_lists import TracePage, count_traces, list_traces
from dokimos.server._services.traces.trace_views import (
    read_whole_trace,
    view_agent_trace,
    view_conversation,
)
from dokimos.traces import Span

ROUTER: Final = APIRouter(prefix="/api/v1/traces", tags=["Traces"])
_TRACES_PAGE = page_request(50, 200)
_MAX_SPANS: Final = 1000
"""Spans of the detail of a trace; all are in the list of its spans."""
_MAX_BYTES: Final = 8 * 1024 * 1024
_MAX_ROWS: Final = 5000
_WORDS: Final = "Words that all occur in one span, in any case."
_PLACE: Final = "Where: `name` of the span, `key` or `value` of an attribute of it or of its events."
_SPANS_AFTER: Final = "The `spanId` of the last span of the part before this one."


@ROUTER.get("", response_model=TracePageAnswer)
@access(Access.TRACE_READ)
async def get_traces(
    caller: Caller,
    store: Store,
    traces: TraceStore,
    page: _TRACES_PAGE,  # type: ignore[valid-type] # made by a function, for its default size
    cursor: TracesCursor,
    chosen: Chosen,
    project_id: Annotated[UUID | None, Query(alias="projectId")] = None,
    project: Project = None,
) -> Response:
    """List traces, the newest first; with a period, those that began in it, the latest start first.

    `after` continues behind a trace; `page` is not looked at then. A page with a filter that few traces
    pass may have fewer rows than asked for, or none, and still continue with `nextAfter`.
    """
    if project is not None:
        chosen = chosen.merge(TraceFilter(project_id=await find_project_id(store, caller, project)))
    if project_id is not None:
        chosen = chosen.merge(TraceFilter(project_id=str(project_id)))
    body = await traces.read(
        lambda connection: _read_page(connection, caller, chosen, page, cursor),
        Lane.SEARCH if chosen.is_narrow else Lane.PAGE,
    )
    names = await read_project_names(store, caller, (row.project_id for row in body["content"]))
    body["content"] = [trace_summary(row, names.get(row.project_id)) for row in body["content"]]
    return json_response(encode_json(body))


@ROUTER.get("/{traceId}", response_model=TraceDetails)
@access(Access.TRACE_READ)
async def get_trace(caller: Caller, store: Store, traces: TraceStore, trace: TraceKey) -> Response:
    """Return a trace with its spans by their starts: 1,000 at most, and 8 MiB of them."""

    def read(connection: Connection) -> tuple[Row[Any], dict[str, Any]]:
        row = find_trace(connection, caller, trace)
        spans, is_whole = read_spans(connection, row, most=_MAX_SPANS, most_bytes=_MAX_BYTES)
        return row, {
            "spans": [document_span(row, each) for each in spans],
            "spansTruncated": not is_whole,
            "evalJobs": read_eval_jobs(connection, row.id),
        }

    row, parts = await traces.read(read)
    names = await read_project_names(store, caller, [row.project_id])
    return json_response(encode_json({**trace_details(row, names.get(row.project_id)), **parts}))


@ROUTER.get("/{traceId}/spans", response_model=SpanListAnswer)
@access(Access.TRACE_READ)
async def get_spans(
    caller: Caller,
    traces: TraceStore,
    trace: TraceKey,
    limit: Annotated[int, Query(ge=1, le=_MAX_ROWS, description="Spans at most.")] = 1000,
    after: Annotated[str | None, Query(max_length=64, description=_SPANS_AFTER)] = None,
) -> Response:
    """List the spans of a trace by their starts, without their attributes, and with their texts cut."""
    place = None if after is None else canonical_id(after)

    def read(connection: Connection) -> dict[str, Any]:
        row = find_trace(connection, caller, trace)
        spans, goes_on = list_spans(connection, row, after=place, limit=limit)
        return {
            "content": [span_summary(row, each) for each in spans],
            "nextAfter": spans[-1].span_id if goes_on else None,
        }

    return json_response(encode_json(await traces.read(read)))


@ROUTER.get("/{traceId}/span-matches", response_model=SpanMatchesAnswer)
@access(Access.TRACE_READ)
async def get_span_matches(
    caller: Caller,
    traces: TraceStore,
    trace: TraceKey,
    search: Annotated[str, Query(min_length=1, max_length=500, description=_WORDS)],
    place: Annotated[SearchPlace, Query(alias="in", description=_PLACE)] = SearchPlace.ANYWHERE,
    after: Annotated[str | None, Query(max_length=64, description="`nextAfter` of the part before.")] = None,
) -> Response:
    """Search the spans of a trace, in parts: 5,000 spans at most, and 8 MiB of them.

    A part may have found nothing and still name the next one. The resource of spans is not searched: they
    share it.
    """
    begin = None if after is None else canonical_id(after)

    def read(connection: Connection) -> dict[str, Any]:
        row = find_trace(connection, caller, trace)
        found = search_spans(connection, row, search, place, after=begin)
        return {
            "content": [
                {"spanId": each.span_id, "place": each.place, "key": each.key, "excerpt": each.excerpt}
                for each in found.matches
            ],
            "searchedCount": found.searched_count,
            "nextAfter": found.next_after,
        }

    return json_response(encode_json(await traces.read(read, Lane.SEARCH)))


@ROUTER.get("/{traceId}/spans/{spanId}", response_model=SpanDetails)
@access(Access.TRACE_READ)
async def get_span(
    caller: Caller,
    traces: TraceStore,
    trace: TraceKey,
    span_id: Annotated[str, Path(alias="spanId", max_length=64)],
) -> Response:
    """Return all of a span: attributes, events, links, resource, scope, dropped counts, results of rules."""

    def read(connection: Connection) -> dict[str, Any]:
        row = find_trace(connection, caller, trace)
        span = find_span(connection, row, canonical_id(span_id))
        return {
            **span_details(row, span),
            "evalJobs": read_eval_jobs(connection, row.id, span.row.span_id),
        }

    return json_response(encode_json(await traces.read(read)))


@ROUTER.get("/{traceId}/otlp", response_class=StreamingResponse, responses={200: {"content": OTLP_CONTENT}})
@access(Access.TRACE_READ)
async def download_trace(
    request: Request,
    caller: Caller,
    traces: TraceStore,
    trace: TraceKey,
    format: Annotated[OtlpFormat | None, Query(description="Instead of the header `Accept`.")] = None,
) -> Response:
    """Return a trace as an export of OTLP: its spans as they were sent, or in the other encoding."""
    row = await traces.read(lambda connection: find_trace(connection, caller, trace))
    await slot_of(request).turn_into(LongKind.EXPORT)
    return export_trace(traces, row, choose_format(format, request.headers.get("accept", "")))


@ROUTER.get("/{traceId}/agent-trace", response_model=AgentTraceAnswer)
@access(Access.TRACE_READ)
async def get_agent_trace(caller: Caller, traces: TraceStore, trace: TraceKey) -> Response:
    """Return what an agent did in a trace, as evaluators of agents read it."""
    spans = await _read_whole(traces, caller, trace)
    return json_response(encode_json(await asyncio.to_thread(view_agent_trace, spans)))


@ROUTER.get("/{traceId}/conversation", response_model=ConversationAnswer)
@access(Access.TRACE_READ)
async def get_conversation(caller: Caller, traces: TraceStore, trace: TraceKey) -> Response:
    """Return what user and agent said in a trace, with the history that the model was sent."""
    spans = await _read_whole(traces, caller, trace)
    return json_response(encode_json(await asyncio.to_thread(view_conversation, spans)))


async def _read_whole(traces: Database, caller: Principal, trace: UUID) -> list[Span]:
    return await traces.read(
        lambda connection: read_whole_trace(connection, find_trace(connection, caller, trace)), Lane.WORK
    )


def _read_page(
    connection: Connection, caller: Principal, chosen: TraceFilter, page: PageRequest, cursor: ListPage
) -> dict[str, Any]:
    has_cursor = cursor.after is not None
    offset = 0 if has_cursor else page.offset
    found = list_traces(connection, caller, chosen, cursor, limit=page.size, offset=offset)
    is_counted = not chosen.is_narrow
    total = count_traces(connection, caller, chosen.project_id) if is_counted else _count_known(found, offset)
    envelope = page.envelope(total, len(found.rows))
    if has_cursor or not is_counted:
        envelope |= {"first": page.number == 0 and not has_cursor, "last": found.next_after is None}
    rows: Sequence[Row[Any]] = found.rows
    return {"content": rows, **envelope, "totalIsExact": is_counted, "nextAfter": found.next_after}


def _count_known(found: TracePage, offset: int) -> int:
    """How many traces a list has at least: counting what a filter chooses would read all traces."""
    return offset + len(found.rows) + (found.next_after is not None)
