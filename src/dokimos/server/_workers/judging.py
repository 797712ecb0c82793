"""The worker that scores stored runs: it claims jobs, works on several at once, and gives them back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from dokimos.server._db.database import Database, Lane
from dokimos.server._judge_settings import JudgeSettings
from dokimos.server._services.audit.audited_database import CURRENT_WORK
from dokimos.server._services.judging.judge_claims import (
    claim_jobs,
    has_due_jobs,
    read_orders,
    renew_leases,
)
from dokimos.server._services.judging.judge_jobs import JobStatus
from dokimos.server._services.judging.judge_leases import LeaseLost
from dokimos.server._services.metrics import Metrics
from dokimos.server._workers.job_model import Models
from dokimos.server._workers.judge_run import JudgeRun, Stop
from dokimos.server._workers.leased_work import STOP_SECONDS, LeasedWork
from dokimos.server._workers.periodic import end_task

_LOGGER: Final = logging.getLogger("dokimos.server")
JOBS_AT_ONCE: Final = 8


class JudgeWorker:
    """Works on the judge jobs of a database, beside the other servers on it."""

    def __init__(
        self,
        database: Database,
        settings: JudgeSettings,
        models: Models,
        metrics: Metrics,
        judge_soon: Callable[[str], object],
    ) -> None:
        self._database = database
        self._settings = settings
        self._models = models
        self._judge_soon = judge_soon
        """Compares a run with its baseline, once it has its scores."""
        self._places = asyncio.Semaphore(settings.max_concurrency)
        self._work: LeasedWork[JudgeRun] = LeasedWork(
            "Judge jobs",
            begin=self._claim,
            renew=self._renew,
            review=self._review,
            drain=lambda run: run.stop(Stop.DRAINING),
            poll_seconds=settings.poll_seconds,
            lease_seconds=settings.lease_seconds,
        )
        metrics.watch(
            "dokimos_judge_jobs_running", "Judge jobs that this server works on.", lambda: len(self._work)
        )

    def wake(self) -> None:
        """Look at the jobs at once: something about them was stored."""
        self._work.wake()

    async def run(self) -> None:
        """Work on what is due, again and again, until cancelled."""
        CURRENT_WORK.set("Scoring runs")
        await self._work.run()

    async def _claim(self) -> bool:
        """Begin with jobs that are due; say whether there were any."""
        free = JOBS_AT_ONCE - len(self._work)
        if free <= 0 or not await self._database.read(has_due_jobs, Lane.WORK):
            return False
        seconds = self._settings.lease_seconds
        jobs = await self._database.write(partial(claim_jobs, most=free, seconds=seconds))
        for job in jobs:
            run = JudgeRun(self._database, self._settings, self._models, job, self._places)
            self._work.start(run, self._score(run), f"dokimos judge job {job.id}")
        return bool(jobs)

    async def _score(self, run: JudgeRun) -> None:
        job_id = run.job.id
        try:
            run_id = await run.run()
        except LeaseLost:
            _LOGGER.info("Judge job %s is not this server's any more.", job_id)
        except Exception:
            # Its lease ends by itself: another attempt, here or elsewhere, goes on.
            _LOGGER.exception("Judge job %s failed; it goes on when its lease has ended", job_id)
        else:
            if run_id is not None:
                self._judge_soon(run_id)

    async def _renew(self, leases: Sequence[str]) -> None:
        renew = partial(renew_leases, leases=leases, seconds=self._settings.lease_seconds)
        await self._database.write(renew)

    async def _review(self, runs: Mapping[str, JudgeRun]) -> None:
        """Stop jobs that were paused, cancelled or lost."""
        orders = await self._database.read(partial(read_orders, leases=list(runs)), Lane.WORK)
        for lease, run in runs.items():
            status = orders.get(lease)
            if status is None:
                run.stop(Stop.LOST)
            elif status == JobStatus.PAUSED:
                run.stop(Stop.PAUSED)


@asynccontextmanager
async def judge_runs(worker: JudgeWorker) -> AsyncIterator[None]:
    """Work on judge jobs until the context ends."""
    task = asyncio.create_task(worker.run(), name="dokimos judging")
    try:
        yield
    finally:
        await end_task(task, patience=STOP_SECONDS)
