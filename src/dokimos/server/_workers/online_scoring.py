"""The worker that scores production traces: it takes jobs of rules in batches, several at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from sqlalchemy import Row

from dokimos.server._db.database import Database, Lane
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
from dokimos.server._workers.leased_work import STOP_SECONDS, LeasedWork
from dokimos.server._workers.online_batch import OnlineBatch
from dokimos.server._workers.online_matching import OnlineMatching
from dokimos.server._workers.periodic import end_task
from dokimos.server._workers.score_export import ScoreExport

_LOGGER: Final = logging.getLogger("dokimos.server")
BATCHES_AT_ONCE: Final = 4
JOBS_OF_BATCH: Final = 100
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
        self._next_rule = ""
        """Behind which rule to look next, so that each has its turn."""
        self._work: LeasedWork[OnlineBatch] = LeasedWork(
            "Trace eval jobs",
            begin=self._begin,
            renew=self._renew,
            review=self._review,
            drain=OnlineBatch.stop,
            poll_seconds=settings.online.poll_seconds,
            lease_seconds=settings.online.claim_seconds,
        )
        metrics.watch(
            "dokimos_trace_eval_batches_running",
            "Batches of trace eval jobs that this server works on.",
            lambda: len(self._work),
        )

    def wake(self) -> None:
        """Look at once: there are new jobs, or rules have changed."""
        self._work.wake()

    async def run(self) -> None:
        """Work on what is queued, again and again, until cancelled."""
        CURRENT_WORK.set("Scoring traces")
        await self._work.run()

    async def _begin(self) -> bool:
        """Begin with a batch, if there is one; say whether there was."""
        if len(self._work) >= BATCHES_AT_ONCE:
            return False
        batch = await self._find_batch()
        if batch is None:
            await self._database.write(
                partial(remove_old_batches, days=self._settings.judging.reply_days, most=_REMOVED_AT_ONCE)
            )
            return False
        run = OnlineBatch(
            self._database, self._traces, self._settings, self._models, batch, self._places, self._export
        )
        self._work.start(run, self._score(run), f"dokimos trace eval batch {batch.id}")
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

    async def _score(self, run: OnlineBatch) -> None:
        try:
            await run.run()
        except LeaseLost as problem:
            _LOGGER.info("%s", problem)
        except Exception:
            # Its lease ends by itself: another attempt, here or elsewhere, goes on.
            _LOGGER.exception("Batch %s of trace eval jobs failed; it goes on later", run.batch.id)

    async def _renew(self, leases: Sequence[str]) -> None:
        seconds = self._settings.online.claim_seconds
        await self._database.write(partial(renew_batches, leases=leases, seconds=seconds))

    async def _review(self, runs: Mapping[str, OnlineBatch]) -> None:
        """Stop batches that were lost, or whose rules are not enabled."""
        orders = await self._database.read(partial(read_orders, leases=list(runs)), Lane.WORK)
        for lease, run in runs.items():
            if lease not in orders:
                run.stop(is_lost=True)
            elif not orders[lease]:
                run.stop()


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
        await asyncio.gather(end_task(tasks[0]), end_task(tasks[1], patience=STOP_SECONDS))
