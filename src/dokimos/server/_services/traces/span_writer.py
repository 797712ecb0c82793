"""Stores the spans of exports that come at the same time together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, NamedTuple

from dokimos.server._db.database import Database, DatabaseUnavailable
from dokimos.server._services.traces.placements import PlacedSpan
from dokimos.server._services.traces.span_store import SpanStore

SPANS_AT_ONCE: Final = 1000
"""Spans of one transaction, which others wait for."""
_MAX_SECONDS: Final = 0.05
"""How long spans wait for those of exports that are being parsed."""


class _Waiting(NamedTuple):
    spans: Sequence[PlacedSpan]
    done: asyncio.Future[None]


class SpanWriter:
    """Stores spans; on SQLite those of several exports in one transaction.

    Of what 100 spans cost there, a fifth is that of their transaction: its pages, and the statements for
    traces and hours. PostgreSQL stores exports in several connections at once.
    """

    def __init__(self, traces: Database, store: SpanStore) -> None:
        self._traces = traces
        self._store = store
        self._waiting: deque[_Waiting] = deque()
        self._expected = 0
        self._work: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def expect(self) -> Iterator[None]:
        """Let others that have spans to store wait a moment for those that are parsed in this context."""
        self._expected += 1
        try:
            yield
        finally:
            self._expected -= 1
            if not self._expected:
                # After the caller has added its spans.
                asyncio.get_running_loop().call_soon(self._begin)

    async def store(self, spans: Sequence[PlacedSpan]) -> None:
        """Store spans; when this returns, they are on disk. Raises what the database raises for them."""
        if self._traces.dialect != "sqlite":
            await self._write(spans)
            return
        loop = asyncio.get_running_loop()
        waiting = _Waiting(spans, loop.create_future())
        self._waiting.append(waiting)
        if not self._expected or sum(len(each.spans) for each in self._waiting) >= SPANS_AT_ONCE:
            self._begin()
        elif self._timer is None:
            self._timer = loop.call_later(_MAX_SECONDS, self._begin)
        try:
            await waiting.done
        finally:
            del waiting  # an error that it raises has this frame in its traceback

    def _begin(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting and (self._work is None or self._work.done()):
            self._work = asyncio.create_task(self._write_waiting(), name="dokimos spans")

    async def _write_waiting(self) -> None:
        while self._waiting:
            group = [self._waiting.popleft()]
            count = len(group[0].spans)
            while self._waiting and count + len(self._waiting[0].spans) <= SPANS_AT_ONCE:
                group.append(self._waiting.popleft())
                count += len(group[-1].spans)
            await self._write_group(group)

    async def _write_group(self, group: list[_Waiting]) -> None:
        """Store the spans of a group; each of it has its outcome then."""
        error: Exception | None = None
        try:
            await self._write([span for each in group for span in each.spans])
        except DatabaseUnavailable as failure:
            error = failure
        except Exception as failure:
            if len(group) > 1:  # the spans of one do not cost those of others
                await self._write_apart(group)
                return
            error = failure
        except asyncio.CancelledError:
            _cancel(group)
            raise
        try:
            _resolve(group, error)
        finally:
            del group, error  # likewise

    async def _write_apart(self, group: list[_Waiting]) -> None:
        for each in group:
            await self._write_group([each])

    async def _write(self, spans: Sequence[PlacedSpan]) -> None:
        stored = await self._traces.write(partial(self._store.store, spans=spans))
        self._store.remember(stored)


def _resolve(group: list[_Waiting], error: Exception | None) -> None:
    for each in group:
        if each.done.done():  # its client has hung up
            continue
        if error is None:
            each.done.set_result(None)
        else:
            each.done.set_exception(error)


def _cancel(group: list[_Waiting]) -> None:
    for each in group:
        each.done.cancel()
