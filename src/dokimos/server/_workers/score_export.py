"""The worker that sends scores of online evaluation to an endpoint of OTLP, where one is configured.

What waits is in memory, and bounded: a server that ends, or an endpoint that is away for long, loses events.
The scores themselves are stored, and nothing that scores ever waits for this.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from dokimos._http.webhook import WebhookFailure, WebhookReply, post_webhook
from dokimos.server._db.database import Database, DatabaseUnavailable, Lane, ReadTooSlow
from dokimos.server._services.alerts.alert_webhooks import outgoing_policy
from dokimos.server._services.metrics import Metrics
from dokimos.server._services.online.score_events import ScoreEvent, encode_events
from dokimos.server._settings import ServerSettings
from dokimos.server._workers.periodic import end_task, is_asked_to_end

_LOGGER: Final = logging.getLogger("dokimos.server")
MAX_WAITING: Final = 10_000
EVENTS_AT_ONCE: Final = 500
_GATHER_SECONDS: Final = 1.0
"""How long the first event of an export waits for others."""
_MAX_ATTEMPTS: Final = 8
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0
_STOP_SECONDS: Final = 5.0
_FIRST_GOOD, _FIRST_ELSEWHERE = 200, 300
_RETRYABLE: Final = (429, 502, 503, 504)
"""As OTLP says."""
Poster = Callable[..., Awaitable[WebhookReply]]


class ScoreExport:
    """Sends events in batches, one after the other; without an endpoint it takes none."""

    def __init__(
        self,
        database: Database,
        settings: ServerSettings,
        metrics: Metrics,
        *,
        post: Poster = post_webhook,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._database = database
        self._settings = settings
        self._url = settings.online.export_url
        self._headers = {**settings.online.export_headers, "Content-Type": "application/x-protobuf"}
        self._post = post
        self._sleep = sleep
        self._waiting: deque[ScoreEvent] = deque()
        self._wake = asyncio.Event()
        self._counts = metrics.counter(
            "dokimos_score_events_total",
            "Scores of online evaluation to be sent to an endpoint of OTLP, by what came of it.",
            ("outcome",),
        )
        metrics.watch(
            "dokimos_score_events_waiting", "Scores that wait to be sent.", lambda: len(self._waiting)
        )

    @property
    def is_enabled(self) -> bool:
        """Whether there is an endpoint."""
        return self._url is not None

    def add(self, event: ScoreEvent) -> None:
        """Have an event sent; one for which there is no place is counted and dropped. It never waits."""
        if self._url is None:
            return
        if len(self._waiting) >= MAX_WAITING:
            self._counts.add(("dropped",))
            return
        self._waiting.append(event)
        self._wake.set()

    async def run(self) -> None:
        """Send what comes, until cancelled."""
        while not is_asked_to_end():
            await self._wake.wait()
            if len(self._waiting) < EVENTS_AT_ONCE:
                await self._sleep(_GATHER_SECONDS)
            self._wake.clear()
            while self._waiting:
                await self._send_batch()

    async def finish(self) -> None:
        """Try once more to send what waits, for a short time; what is left is lost, and counted."""
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                while self._waiting:
                    await self._send_batch(attempts=1)
        except TimeoutError:
            pass
        self._count("dropped", len(self._waiting))
        self._waiting.clear()

    async def _send_batch(self, *, attempts: int = _MAX_ATTEMPTS) -> None:
        batch = [self._waiting[place] for place in range(min(EVENTS_AT_ONCE, len(self._waiting)))]
        try:
            # In a thread: explanations may be long.
            body = await asyncio.to_thread(encode_events, batch)
            outcome = await self._send(body, len(batch), attempts)
        except Exception:
            _LOGGER.exception("%d scores could not be sent as events", len(batch))
            outcome = "failed"
        # Only now: a batch that is cancelled on its way is sent by `finish`.
        for _ in batch:
            self._waiting.popleft()
        self._count(outcome, len(batch))

    async def _send(self, body: bytes, count: int, attempts: int) -> str:
        """Send a batch, again and again where that may help; return what came of it."""
        problem = ""
        for attempt in range(attempts):
            retry_after: float | None = None
            try:
                policy = await self._database.read(
                    partial(outgoing_policy, settings=self._settings), Lane.WORK
                )
                reply = await self._post(self._url, body, self._headers, policy=policy)
                if _FIRST_GOOD <= reply.status < _FIRST_ELSEWHERE:
                    return "sent"
                problem, retry_after = f"The endpoint answered {reply.status}.", reply.retry_after
                if reply.status not in _RETRYABLE:
                    break
            except (WebhookFailure, DatabaseUnavailable, ReadTooSlow) as failure:
                problem = str(failure)
            if attempt + 1 < attempts:
                wait = min(_FIRST_WAIT * 2.0**attempt, _LONGEST_WAIT)
                await self._sleep(min(max(wait, retry_after or 0.0), _LONGEST_WAIT))
        _LOGGER.warning("%d scores were not sent as events: %s", count, problem)
        return "failed"

    def _count(self, outcome: str, number: int) -> None:
        if number:
            self._counts.add((outcome,), number)


@asynccontextmanager
async def export_scores(export: ScoreExport) -> AsyncIterator[None]:
    """Send scores until the context ends, where there is an endpoint."""
    if not export.is_enabled:
        yield
        return
    task = asyncio.create_task(export.run(), name="dokimos score export")
    try:
        yield
    finally:
        await end_task(task)
        await export.finish()
