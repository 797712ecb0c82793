"""The parameters of lists of traces."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

from fastapi import Depends, Path, Query
from starlette.requests import Request

from dokimos.server._api.http.list_parameters import sort_query
from dokimos.server._db.clock import to_microseconds
from dokimos.server._db.database import Database
from dokimos.server._services.errors import InvalidRequestError
from dokimos.server._services.list_pages import ListPage
from dokimos.server._services.traces.attribute_hashes import MAX_HASHED_LENGTH
from dokimos.server._services.traces.new_spans import MAX_ID, canonical_id, clean
from dokimos.server._services.traces.search_words import split_words
from dokimos.server._services.traces.trace_cursors import read_cursor
from dokimos.server._services.traces.trace_filter import BY_START, TRACE_ORDERS, TraceFilter, TraceStatus
from dokimos.server._services.traces.trace_scores import ScoreFilter, ScoreResult

_MAX_LENGTH: Final = 1000
_MAX_WORDS: Final = 20
_MAX_ATTRIBUTES: Final = 10
_LARGEST: Final = 2**63 - 1
_NANOSECONDS: Final = 1000
"""In a microsecond."""
_PROJECT: Final = "The name or the id of a project."
_SEARCH: Final = "Words that occur in the name, the input, the output or the error of one span, in any case."
_ATTRIBUTE: Final = (
    "An attribute of a span or of its resource, such as `deployment.environment=production`; of several, one "
    "span must have all."
)
_EVALUATOR: Final = "The evaluator of a rule, whose scores `minScore`, `maxScore` and `result` are about."
_RESULT: Final = "`error` for what could not be scored; `failed` and `error` may go without `evaluator`."
_AFTER: Final = "Where the page before this one says, under `nextAfter`, that the list goes on."

Text = Annotated[str | None, Query(max_length=_MAX_LENGTH)]
Cost = Annotated[float | None, Query(ge=0, allow_inf_nan=False)]
Tokens = Annotated[int | None, Query(ge=0, le=_LARGEST)]
Milliseconds = Annotated[float | None, Query(ge=0, le=_LARGEST / 1e6 / 2, allow_inf_nan=False)]
Project = Annotated[str | None, Query(max_length=255, description=_PROJECT)]
Since = Annotated[datetime | None, Query(alias="from", description="The earliest time of a start.")]
Until = Annotated[datetime | None, Query(alias="to", description="The first time too late.")]


async def _read_traces(request: Request) -> Database:
    database: Database = request.app.state.traces
    return database


TraceStore = Annotated[Database, Depends(_read_traces)]
"""The database of the traces."""


async def _read_trace_id(trace: Annotated[UUID, Path(alias="traceId")]) -> UUID:
    return trace


TraceKey = Annotated[UUID, Depends(_read_trace_id)]
"""The part `{traceId}` of a path: the id of a trace, or the trace id of OpenTelemetry."""


async def _read_named(
    trace_id: Annotated[str | None, Query(alias="traceId", max_length=MAX_ID)] = None,
    session_id: Annotated[str | None, Query(alias="sessionId", max_length=_MAX_LENGTH)] = None,
    user_id: Annotated[str | None, Query(alias="userId", max_length=_MAX_LENGTH)] = None,
    model: Text = None,
    root_name: Annotated[str | None, Query(alias="rootName", max_length=_MAX_LENGTH)] = None,
    search: Annotated[str | None, Query(max_length=500, description=_SEARCH)] = None,
    attribute: Annotated[list[str] | None, Query(description=_ATTRIBUTE)] = None,
) -> TraceFilter:
    return TraceFilter(
        trace_id=None if trace_id is None else canonical_id(trace_id),
        session_id=_clean(session_id),
        user_id=_clean(user_id),
        model=_clean(model),
        root_name=_clean(root_name),
        words=_read_words(search),
        attributes=_read_attributes(attribute or ()),
    )


async def _read_period(
    status: TraceStatus | None = None, since: Since = None, until: Until = None
) -> TraceFilter:
    return TraceFilter(
        status=status,
        start_from=_to_nanoseconds(since),
        start_to=_to_nanoseconds(until),
    )


def _to_nanoseconds(moment: datetime | None) -> int | None:
    """Return a time as traces have it; no trace has one outside the years 1677 to 2262."""
    if moment is None:
        return None
    return max(-_LARGEST, min(_LARGEST, to_microseconds(moment) * _NANOSECONDS))


async def _read_measured(
    min_duration: Annotated[Milliseconds, Query(alias="minDurationMs")] = None,
    max_duration: Annotated[Milliseconds, Query(alias="maxDurationMs")] = None,
    min_cost: Annotated[Cost, Query(alias="minCostUsd")] = None,
    max_cost: Annotated[Cost, Query(alias="maxCostUsd")] = None,
    min_tokens: Annotated[Tokens, Query(alias="minTokens")] = None,
    max_tokens: Annotated[Tokens, Query(alias="maxTokens")] = None,
) -> TraceFilter:
    return TraceFilter(
        min_duration_ns=None if min_duration is None else round(min_duration * 1e6),
        max_duration_ns=None if max_duration is None else round(max_duration * 1e6),
        min_cost=min_cost,
        max_cost=max_cost,
        min_tokens=min_tokens,
        max_tokens=max_tokens,
    )


async def _read_scored(
    evaluator: Annotated[str | None, Query(max_length=_MAX_LENGTH, description=_EVALUATOR)] = None,
    min_score: Annotated[float | None, Query(alias="minScore", allow_inf_nan=False)] = None,
    max_score: Annotated[float | None, Query(alias="maxScore", allow_inf_nan=False)] = None,
    result: Annotated[ScoreResult | None, Query(description=_RESULT)] = None,
) -> TraceFilter:
    scores = ScoreFilter(evaluator=_clean(evaluator), min_score=min_score, max_score=max_score, result=result)
    return TraceFilter(scores=None if scores == ScoreFilter() else scores)


async def _read_filter(
    named: Annotated[TraceFilter, Depends(_read_named)],
    period: Annotated[TraceFilter, Depends(_read_period)],
    measured: Annotated[TraceFilter, Depends(_read_measured)],
    scored: Annotated[TraceFilter, Depends(_read_scored)],
) -> TraceFilter:
    return named.merge(period).merge(measured).merge(scored)


Chosen = Annotated[TraceFilter, Depends(_read_filter)]
"""Which traces are asked for, except for their project."""


async def _read_page(
    chosen: Chosen,
    sort: str | None = sort_query(TRACE_ORDERS),  # as in `list_request`
    after: Annotated[str | None, Query(max_length=100, description=_AFTER)] = None,
) -> ListPage:
    if sort is None and not chosen.is_search and (chosen.start_from, chosen.start_to) != (None, None):
        sort = BY_START
    return read_cursor(after, TRACE_ORDERS.parse(sort))


TracesCursor = Annotated[ListPage, Depends(_read_page)]
"""In which order, and behind which trace."""


def _clean(text: str | None) -> str | None:
    return None if text is None else clean(text)


def _read_words(search: str | None) -> tuple[str, ...]:
    words = tuple(split_words(clean(search or "")))
    if search and search.strip() and not words:
        raise InvalidRequestError("holds no letter and no digit, of which the index is made", field="search")
    if len(words) > _MAX_WORDS:
        raise InvalidRequestError(f"must be at most {_MAX_WORDS} words, not {len(words)}", field="search")
    return words


def _read_attributes(texts: list[str] | tuple[()]) -> tuple[tuple[str, str], ...]:
    if len(texts) > _MAX_ATTRIBUTES:
        raise InvalidRequestError(f"must be at most {_MAX_ATTRIBUTES}, not {len(texts)}", field="attribute")
    pairs = []
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise InvalidRequestError("must be a key and a value, as in 'user.tier=gold'", field="attribute")
        if len(key) + len(value) > MAX_HASHED_LENGTH:
            raise InvalidRequestError(
                f"must have at most {MAX_HASHED_LENGTH} characters; longer ones are not indexed",
                field="attribute",
            )
        pairs.append((key, value))
    return tuple(pairs)
