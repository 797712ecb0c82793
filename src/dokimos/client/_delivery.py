"""Sends encoded items to a server from a thread of its own: in batches, and each batch once."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from dokimos._core.text import pluralize
from dokimos._http.api_client import ApiClient
from dokimos._http.server_api import open_server_api
from dokimos._runtime.terminal_text import escape_control_characters
from dokimos.client._item_refusals import find_culprit, is_divisible
from dokimos.client._run_api import post_items, set_status
from dokimos.client._run_start import now_utc
from dokimos.client._server_run import ItemDeliveryFailure, ServerRun, WaitingItem
from dokimos.client._spool import (
    SpoolFullError,
    append_lines,
    describe_full_spool,
    discard_run,
    end_line,
    items_line,
    start_line,
)
from dokimos.errors import DokimosError, ReporterError

BATCH: Final = 10
BATCH_SECONDS: Final = 0.5
PACE_SECONDS: Final = 0.05
"""Full batches are sent this far apart, so that of a fast run more items go into each: a request costs as
much CPU as thirty of its items (`benchmarks/server_reporter.py`)."""
MOST_IN_BATCH: Final = 200
MOST_BATCH_BYTES: Final = 4 * 2**20
"""Far below the 16 MiB that a server takes in one request."""
MOST_QUEUE_BYTES: Final = 64 * 2**20
STALLED_SECONDS: Final = 10.0
"""A full queue holds up the run for as long as this, unless batches arrive meanwhile."""
FLUSH_SECONDS: Final = 30.0
_WAKING: Final = (1, BATCH, MOST_IN_BATCH)
"""How many items are in a queue when there is something for the thread to decide."""
_log: Final = logging.getLogger("dokimos")


@dataclass(eq=False)
class _Batch:
    """What the thread is sending."""

    run: ServerRun
    items: list[bytes]
    end: str | None
    is_given_up: bool = False
    """Whether the reporter was closed meanwhile, so that this has been counted as failed."""


@dataclass(eq=False, kw_only=True)
class Delivery:
    """The queue of a reporter and the thread that empties it."""

    server_url: str
    api_key: Any
    api_version: str
    attempts: int
    spool: Path | None
    on_failure: Callable[[ItemDeliveryFailure], None] | None
    most_spool_bytes: int | None = None
    process: str = field(default_factory=lambda: uuid.uuid4().hex)
    """What this reporter is called in the lines of the spool."""
    failed_count: int = 0
    """Items that the server has not got."""
    delivered_count: int = 0
    _runs: list[ServerRun] = field(default_factory=list)
    _bytes: int = 0
    _current: _Batch | None = None
    _flushing: int = 0
    _lost: int = 0
    """Items since the last flush that the spool had no room for."""
    _last_sent: float = -math.inf
    _stalled: bool = False
    """Whether the last wait for the queue was in vain: nobody waits again until something arrives."""
    _problems: dict[str, int] = field(default_factory=dict)
    """Why items failed since the last flush, and how many; 0 for what is not about items."""
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _thread: threading.Thread | None = None

    def add(self, run: ServerRun, content: bytes) -> None:
        """Queue an item; waits for room in a full queue while batches arrive."""
        with self._changed:
            is_full = not self._wait_for_room(len(content))
            if not is_full:
                self._queue(run)
                run.items.append(WaitingItem(time.monotonic(), content))
                self._bytes += len(content)
                if len(run.items) in _WAKING:
                    self._changed.notify_all()
        if is_full:
            self._fail(run, [content], "the server takes items too slowly, and the queue is full")

    def end(self, run: ServerRun, status: str, evaluators: Sequence[dict[str, Any]] = ()) -> None:
        """Queue the end of a run, which is sent after its items."""
        with self._changed:
            self._queue(run)
            run.end, run.evaluators = status, list(evaluators)
            run.ended_at = run.completed_at or now_utc()
            self._changed.notify_all()

    def _queue(self, run: ServerRun) -> None:
        if run not in self._runs:
            self._runs.append(run)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="dokimos-server-reporter", daemon=True)
            self._thread.start()

    def _wait_for_room(self, size: int) -> bool:
        """Wait until an item fits into the queue; False where nothing arrives at the server any more."""

        def has_room() -> bool:
            return not self._bytes or self._bytes + size <= MOST_QUEUE_BYTES

        while not has_room() and not self._stalled:
            handled = self.delivered_count + self.failed_count
            self._flushing += 1  # a full queue waits for no more items
            self._changed.notify_all()
            try:
                self._stalled = not self._changed.wait_for(
                    partial(self._has_handled_more_than, handled), STALLED_SECONDS
                )
            finally:
                self._flushing -= 1
        return has_room()

    def _has_handled_more_than(self, count: int) -> bool:
        return self.delivered_count + self.failed_count > count

    def flush(self, seconds: float = FLUSH_SECONDS) -> None:
        """Wait until everything queued is sent, or has failed.

        Raises:
            ReporterError: where items failed since the last flush, or are still waiting.
        """
        waiting = self._wait_until_empty(0.0 if self._stalled else seconds)
        problems = self._take_problems()
        if waiting:
            problems[f"{waiting:,} items are still waiting to be sent"] = 0
        if problems:
            raise ReporterError(self._describe(problems))

    def _take_problems(self) -> dict[str, int]:
        with self._changed:
            problems, self._problems = self._problems, {}
        return problems

    def _wait_until_empty(self, seconds: float) -> int:
        """Wait, and return how many items are still in the queue."""
        deadline = time.monotonic() + seconds
        with self._changed:
            self._flushing += 1
            try:
                self._changed.notify_all()
                while self._runs or self._current:
                    left = deadline - time.monotonic()
                    if left <= 0:
                        self._stalled = True
                        current = 0 if self._current is None else len(self._current.items)
                        return current + sum(len(run.items) for run in self._runs)
                    self._changed.wait(left)
                return 0
            finally:
                self._flushing -= 1

    def close(self, seconds: float = FLUSH_SECONDS) -> None:
        """Send what is queued, give up what cannot be sent in this time, and stop the thread."""
        self._wait_until_empty(seconds)
        with self._changed:
            left, self._runs = self._runs, []
            self._bytes = 0
            if self._current is not None:
                self._current.is_given_up = True
                left.insert(0, _unsent(self._current))
                self._current = None  # its thread may still be sending it when the reporter is closed again
            thread, self._thread = self._thread, None
            self._changed.notify_all()
        for run in left:
            self._give_up(run, "the reporter was closed before the server took them")
        if thread is not None:
            thread.join(1.0)
        problems = self._take_problems()
        if problems:  # since the last flush, so that no run has named them
            _log.warning(escape_control_characters(self._describe(problems)))

    def _give_up(self, run: ServerRun, reason: str) -> None:
        items, run.items = [one.content for one in run.items], deque()
        for start in range(0, len(items), MOST_IN_BATCH):
            self._fail(run, items[start : start + MOST_IN_BATCH], reason)
        if run.end is not None:
            self._fail_end(run, run.end, reason)

    def _work(self) -> None:
        loop = asyncio.new_event_loop()
        api = open_server_api(
            self.server_url, api_key=self.api_key, api_version=self.api_version, attempts=self.attempts
        )
        try:
            while (batch := self._take()) is not None:
                try:
                    loop.run_until_complete(self._send(api, batch))
                finally:
                    with self._changed:
                        if self._current is batch:
                            self._current = None
                        self._changed.notify_all()
        finally:
            loop.run_until_complete(api.aclose())
            loop.close()

    def _take(self) -> _Batch | None:
        """Wait for a batch that is full or has waited long enough; None where the reporter was closed."""
        with self._changed:
            # Not a flag: a thread that is still sending may find the reporter in use again, with another one.
            while self._thread is threading.current_thread():
                run = min(self._runs, key=_age_of, default=None)
                if run is None:
                    self._changed.wait()
                    continue
                patience = self._patience_with(run)
                if patience > 0:
                    self._changed.wait(patience)
                    continue
                return self._cut_batch(run)
            return None

    def _patience_with(self, run: ServerRun) -> float:
        """Return how many seconds the items of a run may wait for more."""
        if self._flushing or run.end is not None or len(run.items) >= MOST_IN_BATCH:
            return 0.0
        if len(run.items) >= BATCH:
            return self._last_sent + PACE_SECONDS - time.monotonic()
        return _age_of(run) + BATCH_SECONDS - time.monotonic()

    def _cut_batch(self, run: ServerRun) -> _Batch:
        items: list[bytes] = []
        size = 0
        while run.items and len(items) < MOST_IN_BATCH:
            if items and size + len(run.items[0].content) > MOST_BATCH_BYTES:
                break
            items.append(run.items.popleft().content)
            size += len(items[-1])
        self._bytes -= size
        self._last_sent = time.monotonic()
        end = None
        if not run.items:
            end, run.end = run.end, None
            self._runs.remove(run)
        self._current = _Batch(run, items, end)
        self._changed.notify_all()  # whoever waits for room
        return self._current

    async def _send(self, api: ApiClient, batch: _Batch) -> None:
        try:
            if batch.items:
                await self._send_items(api, batch)
            if batch.end is not None and not batch.is_given_up:
                await self._send_end(api, batch.run, batch.end)
        except Exception as error:  # a thread that dies would hang the run at its flush
            self._fail(batch.run, batch.items, f"the reporter failed with {type(error).__name__}: {error}")

    async def _send_items(self, api: ApiClient, batch: _Batch) -> None:
        """Send a batch; where the server refuses one item of it, the others are sent without it."""
        run, parts = batch.run, [batch.items]
        while parts:
            items, key = parts.pop(), uuid.uuid4().hex
            try:
                if run.problem is not None:
                    raise ReporterError(run.problem)
                await post_items(api, run.id, items, key)
            except DokimosError as error:
                if batch.is_given_up:
                    return
                culprit = find_culprit(error, len(items))
                if culprit is not None:
                    self._fail(run, [items[culprit]], str(error))
                    parts += [rest] if (rest := items[:culprit] + items[culprit + 1 :]) else []
                elif is_divisible(error) and len(items) > 1:
                    half = len(items) // 2
                    parts += [items[half:], items[:half]]
                else:
                    self._fail(run, items, str(error), key)
            else:
                with self._changed:
                    self.delivered_count += len(items)
                    self._stalled = False

    async def _send_end(self, api: ApiClient, run: ServerRun, status: str) -> None:
        try:
            if run.problem is not None:
                raise ReporterError(run.problem)
            await set_status(api, run.id, status, run.evaluators, run.completed_at)
        except DokimosError as error:
            self._fail_end(run, status, str(error))

    def _fail(self, run: ServerRun, items: Sequence[bytes], reason: str, key: str | None = None) -> None:
        """Count items as failed, keep them in the spool, and say so."""
        self._note(reason, len(items))
        with self._changed:
            self.failed_count += len(items)
            self._changed.notify_all()
        line = items_line(run.id, items, key or uuid.uuid4().hex, self.process)
        self._spool(run, line, item_count=len(items))
        if self.on_failure is None:
            return
        try:
            self.on_failure(ItemDeliveryFailure(run.id, tuple(items), reason))
        except Exception as error:
            self._note(f"on_item_delivery_failure failed with {type(error).__name__}: {error}", 0)

    def _fail_end(self, run: ServerRun, status: str, reason: str) -> None:
        if run.problem is None:
            self._note(f"the end of the run was not recorded: {reason}", 0)
        self._spool(run, end_line(run.id, status, run.ended_at, run.evaluators, self.process))

    def spool_start(self, run: ServerRun) -> None:
        """Keep a run that could not be started, so that a replay starts it."""
        self._note(str(run.problem), 0)
        self._spool(run)

    def _spool(self, run: ServerRun, *lines: bytes, item_count: int = 0) -> None:
        if self.spool is None:
            return
        start = None if run.is_start_spooled else run.start
        if start is not None:
            first = start_line(run.id, start, self.process)
            lines = (first, *lines)
        try:
            # Starts and ends of runs are small, and without them items that were kept could not be sent.
            append_lines(self.spool, lines, self.most_spool_bytes if item_count else None)
        except SpoolFullError:
            self._lose(item_count)
        except OSError as error:
            self._note(f"the spool {self.spool} cannot be written: {error}", 0)
        else:
            run.is_start_spooled = True

    def discard_earlier(self, run: ServerRun, key: str) -> None:
        """Remove what earlier processes kept in the spool of a run that has been reported whole since."""
        if self.spool is None or run.problem is not None:
            return
        try:
            discard_run(self.spool, run.id, key, process=self.process)
        except OSError as error:
            self._note(f"the spool {self.spool} cannot be written: {error}", 0)

    def _lose(self, count: int) -> None:
        """Count items that the spool has no room for; the first time, say so at once."""
        with self._changed:
            is_first, self._lost = not self._lost, self._lost + count
        if is_first:
            full = describe_full_spool(self.spool, self.most_spool_bytes)
            _log.warning(escape_control_characters(f"{full} Items are being lost."))

    def _note(self, reason: str, count: int) -> None:
        with self._changed:
            self._problems[reason] = self._problems.get(reason, 0) + count

    def _describe(self, problems: dict[str, int]) -> str:
        failed = sum(problems.values())
        reason = next(iter(problems))
        more = f" (and {pluralize(len(problems) - 1, 'more reason')})" if len(problems) > 1 else ""
        if not failed:
            return f"{self.server_url}: {reason}{more}."
        remedy = f"to send them later: dokimos spool replay {self.spool}"
        if self.spool is None:
            remedy = "give spool_directory=... to keep such items"
        noun = "item was" if failed == 1 else "items were"
        with self._changed:
            lost, self._lost = self._lost, 0
        if lost:
            are, full = "is" if lost == 1 else "are", describe_full_spool(self.spool, self.most_spool_bytes)
            remedy = f"{lost:,} of them {are} lost. {full[:-1]}"
        return f"{failed:,} {noun} not recorded by {self.server_url}: {reason}{more}; {remedy}."


def _age_of(run: ServerRun) -> float:
    return run.items[0].since if run.items else 0.0


def _unsent(batch: _Batch) -> ServerRun:
    """Return the run of a batch with only the items and the end of the batch."""
    waiting = deque(WaitingItem(0.0, item) for item in batch.items)
    return replace(batch.run, items=waiting, end=batch.end)
