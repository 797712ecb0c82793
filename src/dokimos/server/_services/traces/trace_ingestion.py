"""Exports of traces on their way from a request to the disk."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from sqlalchemy.exc import DBAPIError

from dokimos.errors import TraceError
from dokimos.server._db.database import Database
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.errors import InvalidRequestError, RoleError, UnavailableError
from dokimos.server._services.traces.new_spans import (
    NewSpan,
    digest_record,
    find_problem,
    project_name_of,
    sort_by_trace,
)
from dokimos.server._services.traces.span_store import PlacedSpan, SpanStore
from dokimos.server._services.traces.trace_projects import TraceProjects
from dokimos.server._trace_settings import TraceSettings
from dokimos.traces._otlp import Encoding
from dokimos.traces._otlp_records import SpanRecord, iterate_records
from dokimos.traces._span_messages import MessageCache

T = TypeVar("T")
_LOGGER: Final = logging.getLogger("dokimos.server")
_SPANS_AT_ONCE: Final = 1000
"""Spans of one transaction, which others wait for."""
_PARSED_BYTES: Final = 8 * 1024 * 1024
"""Bytes of exports that are parsed and stored at once, beyond the first one."""
_SMALL: Final = 16_384
"""Bytes of an export that is parsed where it arrives: another thread would take longer to begin."""


@dataclass(frozen=True, slots=True)
class Ingested:
    """What became of an export."""

    accepted: int
    """Spans of this export that are on disk, repeated ones too."""
    rejected: int
    traces: int
    """The traces that they belong to."""
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Why spans were rejected, each with the number of spans."""


class IngestionQueue:
    """Bounds the exports that are not on disk yet.

    It counts the bytes of those that are received, and refuses more than there may be. Parsed, an export
    takes many times its size, so only some bytes are parsed at a time; the others wait as they were sent.
    """

    def __init__(self, limit: int, parsed_limit: int = _PARSED_BYTES) -> None:
        self._limit = limit
        self._parsed_limit = parsed_limit
        self._bytes = 0
        self._parsed = 0
        self._turns: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def waiting_bytes(self) -> int:
        """Bytes of exports that are received, parsed or stored at the moment."""
        return self._bytes

    @contextmanager
    def hold(self) -> Iterator[Callable[[int], None]]:
        """Yield a function that counts more bytes of an export, which are given back in the end.

        It raises `UnavailableError` where there are too many.
        """
        held = 0

        def add(size: int) -> None:
            nonlocal held
            # One alone is taken however large it is: the limit of a body says how large.
            if self._bytes > held and self._bytes + size > self._limit:
                raise UnavailableError(
                    "The server stores as many traces as it can at the moment; send this export again.",
                    retry_seconds=2,
                )
            held += size
            self._bytes += size

        try:
            yield add
        finally:
            self._bytes -= held

    @asynccontextmanager
    async def take_turn(self, size: int) -> AsyncIterator[None]:
        """Wait until an export of a size may be parsed, in the order of arrival; it may until the end."""
        if self._turns or not self._has_room(size):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._turns.append((size, turn))
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():  # its turn came at this moment
                    self._end_turn(size)
                raise
        else:
            self._parsed += size
        try:
            yield
        finally:
            self._end_turn(size)

    def _has_room(self, size: int) -> bool:
        return self._parsed == 0 or self._parsed + size <= self._parsed_limit

    def _end_turn(self, size: int) -> None:
        self._parsed -= size
        while self._turns and (self._turns[0][1].done() or self._has_room(self._turns[0][0])):
            following, turn = self._turns.popleft()
            if not turn.done():  # else its client has hung up
                self._parsed += following
                turn.set_result(None)


@dataclass(slots=True)
class _Outcome:
    """What has become of the spans of an export so far."""

    accepted: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    traces: set[tuple[str | None, str]] = field(default_factory=set)
    refusal: str | None = None
    """Why the caller may not store some of them."""


class TraceIngestion:
    """Takes exports in; when it returns, their spans are on disk."""

    def __init__(self, traces: Database, projects: TraceProjects, settings: TraceSettings) -> None:
        self.queue = IngestionQueue(settings.max_waiting_bytes)
        self.projects = projects
        self.store = SpanStore()
        self.match_soon: Callable[[], None] = _do_nothing
        """Tells this server's worker that rules are to be held against new spans."""
        self._traces = traces
        self._parser = ThreadPoolExecutor(1, thread_name_prefix="dokimos-traces")

    async def ingest(self, principal: Principal, data: bytes, encoding: Encoding) -> Ingested:
        """Store the spans of an export.

        Raises:
            InvalidRequestError: It is not an export.
            RoleError: The caller may store none of its spans.
        """
        outcome = _Outcome()
        async with self.queue.take_turn(len(data)):
            records = iterate_records(data, encoding)
            # Some at a time: parsed, the spans of a large export take many times its bytes.
            while part := await self._parse(data, lambda: _digest(records, outcome.reasons)):
                await self._store(await self._place(principal, part, outcome), outcome)
        if outcome.refusal is not None and not outcome.accepted:
            raise RoleError(outcome.refusal)
        return Ingested(outcome.accepted, outcome.reasons.total(), len(outcome.traces), dict(outcome.reasons))

    def close(self) -> None:
        """End the thread that parses."""
        self._parser.shutdown()

    async def _place(
        self, principal: Principal, part: list[_DigestedSpan], outcome: _Outcome
    ) -> list[PlacedSpan]:
        placements = await self.projects.place(principal, {each.project for each in part})
        spans: list[PlacedSpan] = []
        for span, name in part:
            placement = placements[name]
            if isinstance(placement, str):
                outcome.reasons[placement] += 1
                outcome.refusal = placement
            else:
                spans.append(PlacedSpan(span, placement))
        return spans

    async def _store(self, spans: list[PlacedSpan], outcome: _Outcome) -> None:
        """Store spans in one transaction; those that the database does not take are found and rejected."""
        if not spans:
            return
        try:
            stored = await self._traces.write(partial(self.store.store, spans=tuple(spans)))
        except (DBAPIError, ValueError, OverflowError, TypeError) as error:
            if len(spans) > 1:
                middle = len(spans) // 2
                await self._store(spans[:middle], outcome)
                await self._store(spans[middle:], outcome)
                return
            _LOGGER.error("A span of trace %s cannot be stored.", spans[0].span.trace_id, exc_info=error)
            outcome.reasons["a value that the database does not take"] += 1
            return
        self.store.remember(stored)
        if any(placement.has_rules for _, placement in spans):
            self.match_soon()
        outcome.accepted += len(spans)
        outcome.traces.update((each.placement.tenant, each.span.trace_id) for each in spans)

    async def _parse(self, data: bytes, parse: Callable[[], T]) -> T:
        try:
            if len(data) <= _SMALL:
                return parse()
            return await asyncio.get_running_loop().run_in_executor(self._parser, parse)
        except TraceError as error:
            raise InvalidRequestError(f"Malformed request body: {error}") from None


def _do_nothing() -> None:
    pass


class _DigestedSpan(NamedTuple):
    """A span, and the name of the project that it names."""

    span: NewSpan
    project: str | None


def _digest(records: Iterator[SpanRecord | str], reasons: Counter[str]) -> list[_DigestedSpan]:
    """Return the next spans that can be stored, none at the end; count the reasons of others."""
    spans: list[_DigestedSpan] = []
    while not spans:
        part = list(islice(records, _SPANS_AT_ONCE))
        if not part:
            break
        reasons.update(each for each in part if isinstance(each, str))
        for group in sort_by_trace(each for each in part if not isinstance(each, str)).values():
            cache = MessageCache()
            for record in group:
                problem = find_problem(record.span)
                if problem is None:
                    spans.append(_DigestedSpan(digest_record(record, cache), project_name_of(record.span)))
                else:
                    reasons[problem] += 1
    return spans


def first_reason(reasons: Mapping[str, int]) -> str:
    """Return why spans were rejected, in a sentence; empty where none were."""
    parts: Iterable[str] = (f"{count} with {reason}" for reason, count in reasons.items())
    return f"Spans were rejected: {', '.join(parts)}." if reasons else ""
