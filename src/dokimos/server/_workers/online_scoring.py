"""The worker that scores production traces: it takes jobs of rules in batches, several at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final

from sqlalchemy import Row

from dokimos.server._db.database import Database, DatabaseUnavailable, Lane, ReadTooSlow
from dokimos.server._services.audit.audited_database import CURRENT_WORK
from dokimos.server._services.judging.judge_leases import LeaseLost
from dokimos.server._services.metrics import Metrics
from dokimos.server._services.online.trace_batches import (
    claim_batch,
    open_batch,
    read_orders,
    remove_old_batches,
    renew_batches,
)
from dokimos.server._services.online.trace_jobs import assign_jobs, list_queued_rules
from dokimos.server._settings import ServerSettings
from dokimos.server._workers.judge_models import JobModels
from dokimos.server._workers.online_batch import OnlineBatch
from dokimos.server._workers.online_matching import OnlineMatching
from dokimos.server._workers.periodic import end_task
from dokimos.server._workers.score_export import ScoreExport

_LOGGER: Final = logging.getLogger("dokimos.server")
BATCHES_AT_ONCE: Final = 4
JOBS_OF_BATCH: Final = 100
_LOOK_SECONDS: Final = 0.5
"""How often a server looks whether rules were disabled, or batches taken by another one."""
_DRAIN_SECONDS: Final = 10.0
"""How long what is under way may take when the server stops."""
_STOP_SECONDS: Final = 25.0
"""After which it is asked once more to stop: a little more than all that it may wait for."""
_REMOVED_AT_ONCE: Final = 10


class OnlineScoring:
    """Scores what rules have queued, beside the other servers on the same databases."""

    def __init__(
        self,
        database: Database,
        traces: Database,
        settings: ServerSettings,
        models: JobModels,
        metrics: Metrics,
        export: ScoreExport,
    ) -> None:
        self._database = database
        self._traces = traces
        self._settings = settings
        self._models = models
        self._export = export
        self._places = asyncio.Semaphore(settings.online.max_concurrency)
        self._running: dict[asyncio.Task[None], OnlineBatch] = {}
        self._wake = asyncio.Event()
        self._next_rule = ""
        """Behind which rule to look next, so that each has its turn."""
        metrics.watch(
            "dokimos_trace_eval_batches_running",
            "Batches of trace eval jobs that this server works on.",
            lambda: len(self._running),
        )

    def wake(self) -> None:
        """Look at once: there are new jobs, or rules have changed."""
        self._wake.set()

    async def run(self) -> None:
        """Work on what is queued, again and again, until cancelled."""
        CURRENT_WORK.set("Scoring traces")
        watching = asyncio.create_task(self._watch(), name="dokimos trace eval leases")
        try:
            while True:
                self._wake.clear()
                if not await self._begin():
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._wake.wait(), self._settings.online.poll_seconds)
        finally:
            await self._drain()
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching

    async def _begin(self) -> bool:
        """Begin with a batch, if there is one; say whether there was."""
        if len(self._running) >= BATCHES_AT_ONCE:
            return False
        try:
            batch = await self._find_batch()
            if batch is None:
                await self._database.write(
                    partial(remove_old_batches, days=self._settings.judging.reply_days, most=_REMOVED_AT_ONCE)
                )
        except (DatabaseUnavailable, ReadTooSlow) as error:
            _LOGGER.warning("Scoring traces waits: the database is not available: %s", error)
            return False
        except Exception:
            _LOGGER.exception("Looking for trace eval jobs failed; it is tried again")
            return False
        if batch is None:
            return False
        run = OnlineBatch(
            self._database, self._traces, self._settings, self._models, batch, self._places, self._export
        )
        task = asyncio.create_task(self._work(run), name=f"dokimos trace eval batch {batch.id}")
        self._running[task] = run
        task.add_done_callback(self._note_end)
        return True

    async def _find_batch(self) -> Row[Any] | None:
        """Take over a batch that is due, or make one of what is queued."""
        seconds = self._settings.online.claim_seconds
        batch = await self._database.write(partial(claim_batch, seconds=seconds))
        if batch is not None:
            return batch
        rules = await self._traces.read(list_queued_rules, Lane.WORK)
        later = [rule for rule in rules if rule > self._next_rule]
        for rule_id in (*later, *(rule for rule in rules if rule <= self._next_rule)):
            opened = await self._database.write(partial(open_batch, rule_id=rule_id, seconds=seconds))
            if opened is None:
                continue
            self._next_rule = rule_id
            assign = partial(
                assign_jobs, rule_id=rule_id, batch=opened.id, lease=opened.lease, most=JOBS_OF_BATCH
            )
            await self._traces.write(assign)
            return opened
        return None

    def _note_end(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        self.wake()

    async def _work(self, run: OnlineBatch) -> None:
        try:
            await run.run()
        except LeaseLost as problem:
            _LOGGER.info("%s", problem)
        except Exception:
            # Its lease ends by itself: another attempt, here or elsewhere, goes on.
            _LOGGER.exception("Batch %s of trace eval jobs failed; it goes on later", run.batch.id)

    async def _watch(self) -> None:
        """Renew the leases of batches, and stop those that were lost or whose rules are not enabled."""
        clock = asyncio.get_running_loop().time
        seconds = self._settings.online.claim_seconds
        renewed_at = clock()
        while True:
            await asyncio.sleep(min(_LOOK_SECONDS, seconds / 4))
            runs = {run.lease: run for run in self._running.values()}
            if not runs:
                continue
            try:
                if clock() - renewed_at >= seconds / 3:
                    await self._database.write(partial(renew_batches, leases=list(runs), seconds=seconds))
                    renewed_at = clock()
                orders = await self._database.read(partial(read_orders, leases=list(runs)), Lane.WORK)
            except (DatabaseUnavailable, ReadTooSlow):
                continue  # what stores results finds out, too
            except Exception:
                _LOGGER.exception("Looking after trace eval jobs failed; it is tried again")
                continue
            for lease, run in runs.items():
                if lease not in orders:
                    run.stop(is_lost=True)
                elif not orders[lease]:
                    run.stop()

    async def _drain(self) -> None:
        """Give the batches back, with what was found until now."""
        for run in self._running.values():
            run.stop()
        if not self._running:
            return
        _, late = await asyncio.wait(list(self._running), timeout=_DRAIN_SECONDS)
        for task in late:
            self._running[task].abandon()
        if late:
            _, stuck = await asyncio.wait(late, timeout=_DRAIN_SECONDS)
            for task in stuck:
                task.cancel()
            await asyncio.gather(*stuck, return_exceptions=True)


@asynccontextmanager
async def score_traces(matching: OnlineMatching, scoring: OnlineScoring) -> AsyncIterator[None]:
    """Match and score production traces until the context ends."""
    tasks = (
        asyncio.create_task(matching.run(), name="dokimos trace matching"),
        asyncio.create_task(scoring.run(), name="dokimos trace scoring"),
    )
    try:
        yield
    finally:
        await asyncio.gather(end_task(tasks[0]), end_task(tasks[1], patience=_STOP_SECONDS))
