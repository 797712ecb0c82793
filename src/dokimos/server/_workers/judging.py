"""The worker that scores stored runs: it claims jobs, works on several at once, and gives them back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final

from dokimos.server._db.database import Database, DatabaseUnavailable, Lane, ReadTooSlow
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
from dokimos.server._workers.periodic import end_task

_LOGGER: Final = logging.getLogger("dokimos.server")
JOBS_AT_ONCE: Final = 8
_LOOK_SECONDS: Final = 0.5
"""How often a server looks whether its jobs were paused, cancelled or taken by another one."""
_DRAIN_SECONDS: Final = 10.0
"""How long what is under way may take when the server stops."""
_STOP_SECONDS: Final = 25.0
"""After which it is asked once more to stop: a little more than all that it may wait for."""


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
        self._running: dict[asyncio.Task[None], JudgeRun] = {}
        self._wake = asyncio.Event()
        metrics.watch(
            "dokimos_judge_jobs_running", "Judge jobs that this server works on.", lambda: len(self._running)
        )

    def wake(self) -> None:
        """Look at the jobs at once: something about them was stored."""
        self._wake.set()

    async def run(self) -> None:
        """Work on what is due, again and again, until cancelled."""
        CURRENT_WORK.set("Scoring runs")
        watching = asyncio.create_task(self._watch(), name="dokimos judge leases")
        try:
            while True:
                self._wake.clear()
                if not await self._claim():
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._wake.wait(), self._settings.poll_seconds)
        finally:
            await self._drain()
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching

    async def _claim(self) -> bool:
        """Begin with jobs that are due; say whether there were any."""
        free = JOBS_AT_ONCE - len(self._running)
        try:
            if free <= 0 or not await self._database.read(has_due_jobs, Lane.WORK):
                return False
            seconds = self._settings.lease_seconds
            jobs = await self._database.write(partial(claim_jobs, most=free, seconds=seconds))
        except (DatabaseUnavailable, ReadTooSlow) as error:
            _LOGGER.warning("Judge jobs wait: the database is not available: %s", error)
            return False
        except Exception:
            _LOGGER.exception("Looking for judge jobs failed; it is tried again")
            return False
        for job in jobs:
            run = JudgeRun(self._database, self._settings, self._models, job, self._places)
            task = asyncio.create_task(self._work(run), name=f"dokimos judge job {job.id}")
            self._running[task] = run
            task.add_done_callback(self._note_end)
        return bool(jobs)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        self.wake()

    async def _work(self, run: JudgeRun) -> None:
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

    async def _watch(self) -> None:
        """Renew the leases of jobs, and stop those that were paused, cancelled or lost."""
        clock = asyncio.get_running_loop().time
        renewed_at = clock()
        while True:
            await asyncio.sleep(min(_LOOK_SECONDS, self._settings.lease_seconds / 4))
            runs = {run.lease: run for run in self._running.values()}
            if not runs:
                continue
            try:
                if clock() - renewed_at >= self._settings.lease_seconds / 3:
                    renew = partial(renew_leases, leases=list(runs), seconds=self._settings.lease_seconds)
                    await self._database.write(renew)
                    renewed_at = clock()
                orders = await self._database.read(partial(read_orders, leases=list(runs)), Lane.WORK)
            except (DatabaseUnavailable, ReadTooSlow):
                continue  # what stores results finds out, too
            except Exception:
                _LOGGER.exception("Looking after judge jobs failed; it is tried again")
                continue
            for lease, run in runs.items():
                status = orders.get(lease)
                if status is None:
                    run.stop(Stop.LOST)
                elif status == JobStatus.PAUSED:
                    run.stop(Stop.PAUSED)

    async def _drain(self) -> None:
        """Give the jobs back, with what was found until now."""
        for run in self._running.values():
            run.stop(Stop.DRAINING)
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
async def judge_runs(worker: JudgeWorker) -> AsyncIterator[None]:
    """Work on judge jobs until the context ends."""
    task = asyncio.create_task(worker.run(), name="dokimos judging")
    try:
        yield
    finally:
        await end_task(task, patience=_STOP_SECONDS)
