"""Answers about traces, for the description of the API."""

from __future__ import annotations

from typing import Any, Literal

from dokimos.server._api.answer_schemas import PageAnswer
from dokimos.server._api.http.json_body import WireModel


class _Measured(WireModel):
    start_time_unix_nano: int | None
    """A number beyond what browsers keep exactly; the text beside it has all digits."""
    end_time_unix_nano: int | None
    start_time_unix_nano_text: str | None
    end_time_unix_nano_text: str | None
    duration_ms: float | None
    tokens_in: int | None
    tokens_out: int | None
    cost_usd: float | None
    first_chunk_ms: float | None
    """The time until the first part of an answer came."""
    model: str | None
    input_text: str | None
    output_text: str | None


class TraceAnswer(_Measured):
    """A trace as lists show it."""

    id: str
    trace_id: str
    project_id: str | None
    project_name: str | None
    root_span_name: str | None
    span_count: int
    created_at: str
    updated_at: str
    expires_at: str | None
    status: Literal["ok", "error"]
    error_count: int
    priced_call_count: int | None
    unpriced_call_count: int | None
    """Model calls that used tokens at an unknown price: where there are any, `costUsd` lacks them. Where only
    agents say what was used, they count as one call. Null where a server of an earlier version, which did not
    count them, has stored spans of the trace."""
    session_id: str | None
    user_id: str | None


class TracePageAnswer(PageAnswer):
    """A page of traces."""

    content: list[TraceAnswer]
    total_is_exact: bool
    """Whether `totalElements` is all of the list, or only what is known of it: more than this page."""
    next_after: str | None
    """The cursor of the next page, null at the end of the list."""


class SpanAnswer(_Measured):
    """A span as the list of a trace shows it."""

    id: str
    span_id: str
    parent_span_id: str | None
    name: str
    kind: str | None
    status_code: str | None
    role: str
    error: str | None


class DocumentedSpan(SpanAnswer):
    """A span with its attributes, beside those of its resource."""

    attributes: dict[str, Any]
    attributes_cut: bool


class TraceDetails(TraceAnswer):
    """A trace with its spans."""

    tenant_id: str | None
    byte_count: int
    spans: list[DocumentedSpan]
    spans_truncated: bool
    """Whether there are more spans than these: `GET /traces/{id}/spans` has all."""
    eval_jobs: list[dict[str, Any]]


class SpanListAnswer(WireModel):
    """A part of the spans of a trace, by their starts."""

    content: list[SpanAnswer]
    next_after: str | None


class SpanMatchAnswer(WireModel):
    """A span that a search has found, and where in it the first word is."""

    span_id: str
    place: Literal["name", "key", "value", "status"]
    """`status` is the message of a failure."""
    key: str | None
    """Of the attribute, where it is one."""
    excerpt: str
    """What is around the word; of a key, the beginning of its value."""


class SpanMatchesAnswer(WireModel):
    """What a part of a search has found, by the starts of the spans."""

    content: list[SpanMatchAnswer]
    searched_count: int
    """How many spans this part has looked at."""
    next_after: str | None
    """Where the next part begins; null where all spans were looked at."""


class SpanDetails(SpanAnswer):
    """All that is known of a span."""

    status_message: str
    attributes: dict[str, Any]
    events: list[dict[str, Any]]
    links: list[dict[str, Any]]
    resource: dict[str, Any]
    scope: dict[str, Any]
    trace_state: str
    flags: int
    dropped_attributes_count: int
    dropped_events_count: int
    dropped_links_count: int
    received_at: str
    encoding: Literal["protobuf", "json"]
    eval_jobs: list[dict[str, Any]]
    """What rules of online evaluation said of it."""


class AgentTraceAnswer(WireModel):
    """What an agent did."""

    agent_trace: dict[str, Any]
    metrics: dict[str, Any]
    priced_call_count: int
    unpriced_call_count: int
    """Calls that used tokens at an unknown price: where there are any, the cost is the sum of the others."""


class ConversationAnswer(WireModel):
    """What was said."""

    conversation: Any
    messages: list[dict[str, Any]]
    """As OpenAI's chat API has them."""
    turn_count: int
    error: str | None
