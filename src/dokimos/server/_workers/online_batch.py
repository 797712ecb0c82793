"""One batch of jobs of a rule, from its claim to its end, in this server."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, Row

from dokimos.errors import BudgetExceededError, ConfigurationError
from dokimos.server._db.clock import SECOND, now
from dokimos.server._db.database import Database, DatabaseUnavailable, Lane, ReadTooSlow
from dokimos.server._services.judging.judge_budgets import JudgeBudgetExceeded, limits_of_rule
from dokimos.server._services.judging.judge_evaluators import EvaluatorSpec, build_evaluator
from dokimos.server._services.judging.judge_jobs import read_budget
from dokimos.server._services.judging.judge_leases import LeaseLost
from dokimos.server._services.judging.judge_outcomes import UNAVAILABLE, outcome_of
from dokimos.server._services.judging.judge_results import SKIPPED, ItemError, ItemOutcome
from dokimos.server._services.online.enabled_rules import read_rule
from dokimos.server._services.online.score_events import make_event
from dokimos.server._services.online.scored_cases import TraceTooLarge, build_case
from dokimos.server._services.online.trace_batches import (
    MAX_LOST,
    describe_lease,
    end_batch,
    forget_losses,
    put_off_batch,
)
from dokimos.server._services.online.trace_jobs import (
    fail_jobs,
    put_off_jobs,
    store_job_outcomes,
    take_over_jobs,
)
from dokimos.server._settings import ServerSettings
from dokimos.server._workers.job_model import JobModel, ModelProblem
from dokimos.server._workers.judge_faults import FaultWatch, WatchedJudge
from dokimos.server._workers.judge_models import JobModels
from dokimos.server._workers.loaded_jobs import LoadedJobs
from dokimos.server._workers.online_reviews import queue_scores
from dokimos.server._workers.score_export import ScoreExport

if TYPE_CHECKING:
    from dokimos.evaluators._base import Evaluator
    from dokimos.traces._span import Span

_LOGGER: Final = logging.getLogger("dokimos.server")
_RETRY_SECONDS: Final = 5.0
_LONGEST_RETRY_SECONDS: Final = 300.0
_DATABASE_SECONDS: Final = 1.0


class OnlineBatch:
    """Scores the jobs of one batch, several at once, and stores what came of each as soon as it is known."""

    def __init__(
        self,
        database: Database,
        traces: Database,
        settings: ServerSettings,
        models: JobModels,
        batch: Row[Any],
        places: asyncio.Semaphore,
        export: ScoreExport,
    ) -> None:
        self.batch = batch
        self.lease: str = batch.lease
        self._database = database
        self._traces = traces
        self._settings = settings
        self._models = models
        self._places = places
        """Those of the whole server."""
        self._export = export
        self._watch = FaultWatch()
        self._is_stopping = False
        self._is_told = False
        """Whether it stops because the server does, or the rule, and not for anything about its jobs."""
        self._is_lost = False
        self._has_scored = False
        self._left: set[str] = set()
        """The ids of the jobs that have not ended."""
        self._deferred: dict[str, str] = {}
        """By their ids, why jobs wait for another attempt."""
        self._problem = ""
        """Why no job of the batch is scored now, "" as long as they are."""
        self._day_budget = ""
        """Why no call is allowed any more today."""
        self._renewed_at = 0
        """When there is a new budget of the day."""
        self._rule: Row[Any] | None = None
        """That of the jobs, with the budget that they had."""
        self._workers: list[asyncio.Task[None]] = []

    def stop(self, *, is_lost: bool = False) -> None:
        """Begin no further job; what is under way is finished, except where the batch is lost."""
        self._is_stopping = self._is_told = True
        self._is_lost |= is_lost
        if is_lost:
            self.abandon()

    def abandon(self) -> None:
        """Cancel what is under way."""
        for worker in self._workers:
            worker.cancel()

    async def run(self) -> None:
        """Work on the batch.

        Raises:
            LeaseLost: It is not this server's any more.
        """
        take_over = partial(take_over_jobs, batch=self.batch.id, lease=self.lease)
        jobs: Sequence[Row[Any]] = await self._insist(lambda: self._traces.write(take_over))
        if not jobs:
            await self._end()
            return
        self._left = {job.id for job in jobs}
        rule = await self._insist(
            lambda: self._database.read(partial(read_rule, rule_id=self.batch.rule_id), Lane.WORK)
        )
        if rule is None or not rule.enabled:
            self.stop()
        elif self.batch.lost_count >= MAX_LOST:
            self._problem = (
                f"{self.batch.lost_count} servers ended while they scored this and others with it."
            )
            await self._fail(self._problem)
            return
        else:
            self._rule = rule
            await self._score_jobs(rule, jobs)
        await self._conclude()

    async def _score_jobs(self, rule: Row[Any], jobs: Sequence[Row[Any]]) -> None:
        config = json.loads(jobs[0].config_text)
        spec = EvaluatorSpec.load(config["evaluator"])
        model: JobModel | None = None
        try:
            if config["connectionId"] is not None:
                stored = None if rule.budget is None else json.loads(rule.budget)
                limits = limits_of_rule(self._settings.judging, read_budget(stored))
                model = await self._models.open_leased(
                    describe_lease(self.batch), config["connectionId"], limits
                )
            watched = None if model is None else WatchedJudge(model.judge, self._watch)
            name = jobs[0].evaluator_name
            evaluator = await asyncio.to_thread(partial(build_evaluator, spec, name, watched))
        except (ModelProblem, ConfigurationError) as problem:
            self._problem = str(problem)
            return
        if model is not None:
            from dokimos.judges._run_scope import enter_scope

            enter_scope(model.scope)  # the tasks below copy it
        try:
            await self._score_all(evaluator, spec, config["scope"], jobs)
        finally:
            if model is not None:
                await model.close()

    async def _score_all(
        self, evaluator: Evaluator, spec: EvaluatorSpec, scope: str, jobs: Sequence[Row[Any]]
    ) -> None:
        count = min(len(jobs), self._settings.online.max_concurrency)
        waiting = LoadedJobs(jobs, scope, count, self._read_traces)

        async def work() -> None:
            while True:
                async with self._places:
                    loaded = None if self._is_stopping else await waiting.take()
                    if loaded is None:
                        return
                    await self._score(evaluator, spec, scope, *loaded)

        self._workers = [
            asyncio.create_task(work(), name=f"dokimos trace evals {self.batch.id}") for _ in range(count)
        ]
        if self._is_lost:
            self.abandon()
        try:
            results = await asyncio.gather(*self._workers, return_exceptions=True)
        finally:
            self.abandon()
        if self._is_lost:
            raise LeaseLost(f"Batch {self.batch.id} of trace eval jobs is not this server's any more.")
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _read_traces(self, query: Callable[[Connection], Any]) -> Any:
        return await self._insist(lambda: self._traces.read(query, Lane.WORK))

    async def _score(
        self,
        evaluator: Evaluator,
        spec: EvaluatorSpec,
        scope: str,
        job: Row[Any],
        traces: Sequence[Sequence[Span]],
    ) -> None:
        if self._is_stopping:  # since the job was taken
            return
        try:
            outcome = await self._outcome_of(evaluator, spec, scope, job, traces)
        except BudgetExceededError as refusal:
            self._note_refusal(refusal)
            return
        if self._watch.fault is not None and isinstance(outcome, ItemError):
            self._problem = self._watch.fault.replace("then retry the job", "then look at the next spans")
            self._is_stopping = True
            return
        if isinstance(outcome, ItemError) and outcome.kind == UNAVAILABLE:
            self._deferred[job.id] = outcome.message
            if self._watch.outage is not None:  # further ones would not be answered either
                self._problem = self._watch.outage
                self._is_stopping = True
            return
        store = partial(
            store_job_outcomes, lease=self.lease, outcomes=(outcome,), attempt=self.batch.attempt_count
        )
        await self._insist(lambda: self._traces.write(store))
        self._left.discard(job.id)
        if self._export.is_enabled:
            event = make_event(job.evaluator_name, outcome, job.span_id, traces, now())
            if event is not None:
                self._export.add(event)
        if self.batch.lost_count and not self._has_scored:
            self._has_scored = True
            got_on = partial(forget_losses, batch_id=self.batch.id, lease=self.lease)
            await self._insist(lambda: self._database.write(got_on))

    async def _outcome_of(
        self,
        evaluator: Evaluator,
        spec: EvaluatorSpec,
        scope: str,
        job: Row[Any],
        traces: Sequence[Sequence[Span]],
    ) -> ItemOutcome:
        from dokimos._runtime.scoring_threads import call_within
        from dokimos.judges._run_scope import sharing_within_item

        try:
            case = await asyncio.to_thread(build_case, traces, scope)
        except TraceTooLarge as problem:
            return ItemError(item_id=job.id, kind="error", message=str(problem))
        if case is None or not (case.actual_output or "").strip():
            message = "There is no output to score (any more)."
            return ItemError(item_id=job.id, kind=SKIPPED, message=message)
        limit = self._settings.judging.item_seconds
        try:
            with sharing_within_item():
                if evaluator.is_async:
                    result = await evaluator.evaluate_async(case)
                else:  # in a thread: a long text must not hold up all requests
                    result = await call_within(limit, evaluator.evaluate, case)
        except TimeoutError:
            message = f"The evaluator took longer than {limit:g} seconds."
            return ItemError(item_id=job.id, kind="timeout", message=message)
        return outcome_of(job.id, result, spec)

    def _note_refusal(self, refusal: BudgetExceededError) -> None:
        self._is_stopping = True
        if isinstance(refusal, JudgeBudgetExceeded) and refusal.renewed_at is not None:
            self._day_budget = str(refusal)
            self._renewed_at = max(self._renewed_at, refusal.renewed_at)
        else:
            self._problem = str(refusal)

    async def _conclude(self) -> None:
        """Leave what is left to a later attempt, or end it with an error."""
        attempt = self.batch.attempt_count
        if self._day_budget:
            await self._put_off(self._renewed_at, attempt - 1, is_attempt=False)
        elif self._problem or (self._deferred and not self._is_told):
            if attempt < self._settings.online.max_attempts:
                seconds = min(_RETRY_SECONDS * 2.0 ** (attempt - 1), _LONGEST_RETRY_SECONDS)
                await self._put_off(now() + int(seconds * SECOND), attempt)
            else:
                await self._fail(self._problem)
        elif self._left:
            # It was told to stop, perhaps before most of them were tried. They stay in their batch, which
            # has the replies that were paid for, such as the first of two that a job needs.
            await self._put_off(now(), attempt - 1, is_attempt=False)
        else:
            await self._end()

    async def _put_off(self, due_at: int, attempt: int, *, is_attempt: bool = True) -> None:
        await self._queue_scores()
        errors = dict(self._deferred)
        problem = self._problem or self._day_budget

        def put_off(connection: Connection) -> None:
            put_off_jobs(connection, self.lease, errors, attempt, problem)

        await self._insist(lambda: self._traces.write(put_off))

        def leave(connection: Connection) -> None:
            put_off_batch(
                connection,
                self.batch.id,
                self.lease,
                max(0.0, (due_at - now()) / SECOND),  # which may have come while the databases were away
                is_attempt=is_attempt,
                rule=self._rule if self._day_budget else None,
            )

        await self._insist(lambda: self._database.write(leave))

    async def _fail(self, error: str) -> None:
        errors = dict(self._deferred)
        fail = partial(
            fail_jobs, lease=self.lease, errors=errors, error=error, attempt=self.batch.attempt_count
        )
        await self._insist(lambda: self._traces.write(fail))
        await self._end()

    async def _end(self) -> None:
        # Before the batch ends: after a crash nobody would come back to it.
        await self._queue_scores()
        end = partial(end_batch, batch_id=self.batch.id, lease=self.lease)
        await self._insist(lambda: self._database.write(end))

    async def _queue_scores(self) -> None:
        await queue_scores(self._database, self._traces, self.batch, self._insist)

    async def _insist(self, action: Callable[[], Any]) -> Any:
        """Do something with a database as soon as that is there."""
        while True:
            try:
                return await action()
            except (DatabaseUnavailable, ReadTooSlow) as error:
                _LOGGER.warning("Trace eval jobs wait: the database is not available: %s", error)
                await asyncio.sleep(_DATABASE_SECONDS)
