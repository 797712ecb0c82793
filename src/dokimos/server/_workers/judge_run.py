"""One judge job, from its claim to its end, in this server."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, Row

from dokimos.errors import BudgetExceededError, ConfigurationError
from dokimos.server._db.clock import SECOND, now
from dokimos.server._db.database import Database, DatabaseUnavailable, Lane, ReadTooSlow
from dokimos.server._judge_settings import JudgeSettings
from dokimos.server._services.judging.judge_budgets import BudgetScope, JudgeBudgetExceeded
from dokimos.server._services.judging.judge_claims import describe_lost, end_job, give_back, put_off
from dokimos.server._services.judging.judge_evaluators import (
    EvaluatorFacts,
    EvaluatorSpec,
    build_evaluator,
    describe_facts,
)
from dokimos.server._services.judging.judge_items import (
    ItemPlace,
    build_case,
    find_items,
    find_task_error,
    read_items,
)
from dokimos.server._services.judging.judge_jobs import JobStatus
from dokimos.server._services.judging.judge_leases import LeaseLost
from dokimos.server._services.judging.judge_outcomes import REFUSED, UNAVAILABLE, outcome_of
from dokimos.server._services.judging.judge_replacement import replace_scores
from dokimos.server._services.judging.judge_results import (
    SKIPPED,
    ItemError,
    ItemOutcome,
    ItemScore,
    describe_evaluator,
    store_outcomes,
)
from dokimos.server._workers.job_model import ModelProblem, Models
from dokimos.server._workers.judge_faults import MANY, FaultWatch, WatchedJudge

if TYPE_CHECKING:
    from dokimos.evaluators._base import Evaluator

_LOGGER: Final = logging.getLogger("dokimos.server")
_FLUSH_SECONDS: Final = 0.2
_FAULTS_OF_MODEL: Final = ("unreadable", "contested", REFUSED)
"""Kinds of errors that cost a call, and that a model may give for each item."""
_READ_CHARACTERS: Final = 4_000_000
"""About so many characters of items are in memory for each job, besides those that are being scored."""
_PLACES_AT_ONCE: Final = 500
_DATABASE_SECONDS: Final = 1.0
_RETRY_SECONDS: Final = 5.0
_LONGEST_RETRY_SECONDS: Final = 300.0


class Stop(Enum):
    """Why a job is left before all its items are done."""

    PAUSED = auto()
    DRAINING = auto()
    LOST = auto()
    FAULT = auto()


class JudgeRun:
    """Scores the items of one job, several at once, and stores what came of them in small transactions."""

    def __init__(
        self,
        database: Database,
        settings: JudgeSettings,
        models: Models,
        job: Row[Any],
        places: asyncio.Semaphore,
    ) -> None:
        self.job = job
        self.lease: str = job.lease
        self._database = database
        self._settings = settings
        self._models = models
        self._places = places
        """Those of the whole server."""
        self._spec = EvaluatorSpec.load(job.evaluator)
        self._watch = FaultWatch()
        self._stop: Stop | None = None
        self._fault = ""
        self._day_budget = ""
        """Why no call is allowed any more today, "" as long as one is."""
        self._renewed_at = 0
        """When there is a new budget of the day."""
        self._outcomes: deque[ItemOutcome] = deque()
        self._deferred: list[ItemError] = []
        """Items whose model did not answer; a later attempt asks again."""
        self._unusable = 0
        self._has_scored = job.scored_count > 0
        self._has_outcomes = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._reading = asyncio.Lock()
        self._found: deque[ItemPlace] = deque()
        self._items: deque[Row[Any]] = deque()
        self._after: tuple[int, int] | None = None
        self._is_read = False
        self._workers: list[asyncio.Task[None]] = []

    def is_stopping(self) -> bool:
        """Whether no further item is begun."""
        return self._stop is not None

    def stop(self, why: Stop) -> None:
        """Begin no further item. What is under way is finished, except where the job is lost."""
        if self._stop is None or why is Stop.LOST:
            self._stop = why
        if why is Stop.LOST:
            self.abandon()

    def abandon(self) -> None:
        """Cancel what is under way."""
        for worker in self._workers:
            worker.cancel()

    async def run(self) -> str | None:
        """Work on the job; return the id of its run, None where the job has not ended.

        Raises:
            LeaseLost: It is not this server's any more.
            DatabaseUnavailable: What was found may not be stored; it is found again.
        """
        try:
            lost = describe_lost(self.job)
            if lost is not None:
                return await self._fail(lost)
            model = await self._models.open(self.job)
            watched = None if model is None else WatchedJudge(model.judge, self._watch)
            build = partial(build_evaluator, self._spec, self.job.evaluator_name, watched)
            evaluator = await asyncio.to_thread(build)
            facts = describe_facts(self._spec, evaluator)
        except (ModelProblem, ConfigurationError) as problem:
            return await self._fail(str(problem))
        if not self.job.replaces:
            await self._write(
                partial(describe_evaluator, run_id=self.job.run_id, name=self.job.evaluator_name, facts=facts)
            )
        if model is not None:
            from dokimos.judges._run_scope import enter_scope

            enter_scope(model.scope)  # the tasks below copy it
        try:
            await self._score_all(evaluator)
        finally:
            if model is not None:
                await model.close()
        return await self._conclude(facts)

    async def _score_all(self, evaluator: Evaluator) -> None:
        flushing = asyncio.create_task(self._flush_again_and_again(), name="dokimos judge results")
        count = max(1, min(self.job.concurrency, self._settings.max_concurrency))
        self._workers = [
            asyncio.create_task(self._work(evaluator), name=f"dokimos judge {self.job.id}")
            for _ in range(count)
        ]
        if self._stop is Stop.LOST:
            self.abandon()
        try:
            working = asyncio.gather(*self._workers, return_exceptions=True)
            both: list[asyncio.Future[Any]] = [working, flushing]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if flushing.done():  # nothing can be stored, so nothing more is asked
                self.abandon()
            results = await working
        finally:
            self.abandon()
            flushing.cancel()
            with suppress(asyncio.CancelledError):
                await flushing
        if self._stop is Stop.LOST:
            raise LeaseLost(f"Job {self.job.id} is not this server's any more.")
        for result in results:
            if isinstance(result, Exception):
                raise result
        while self._outcomes:
            await self._flush()

    async def _work(self, evaluator: Evaluator) -> None:
        while not self.is_stopping():
            await self._has_room.wait()
            async with self._places:
                item = None if self.is_stopping() else await self._next_item()
                if item is None:
                    return
                await self._score(evaluator, item)

    async def _score(self, evaluator: Evaluator, item: Row[Any]) -> None:
        try:
            outcome = await self._outcome_of(evaluator, item)
        except BudgetExceededError as refusal:
            self._note_refusal(refusal)
            return
        if self._watch.fault is not None:
            self._end_early(self._watch.fault)
        if isinstance(outcome, ItemScore):
            self._has_scored = True
        elif self._watch.fault is not None:
            return  # it is not a fault of the item
        elif outcome.kind == UNAVAILABLE:
            self._deferred.append(outcome)
            if self._watch.outage is not None:
                self.stop(Stop.FAULT)
            return
        else:
            self._note_error(outcome)
        self._outcomes.append(outcome)
        if len(self._outcomes) >= self._settings.page_size:
            self._has_outcomes.set()
        if len(self._outcomes) >= 4 * self._settings.page_size:
            self._has_room.clear()

    def _note_refusal(self, refusal: BudgetExceededError) -> None:
        if not isinstance(refusal, JudgeBudgetExceeded) or refusal.scope is BudgetScope.JOB:
            self._end_early(f"{refusal} Give a new job a larger budget; it scores what is missing.")
        elif refusal.never_fits:
            self._end_early(str(refusal))
        else:
            self._day_budget = str(refusal)
            self._renewed_at = max(self._renewed_at, refusal.renewed_at or 0)
            self.stop(Stop.FAULT)

    def _note_error(self, error: ItemError) -> None:
        """End a job of whose replies none can be used, before all of them are paid for."""
        if self._has_scored or error.kind not in _FAULTS_OF_MODEL:
            return
        self._unusable += 1
        if self._unusable >= max(MANY, 2 * self.job.concurrency):
            self._end_early(f"None of the first {self._unusable} items could be scored: {error.message}")

    def _end_early(self, fault: str) -> None:
        self._fault = fault
        self.stop(Stop.FAULT)

    async def _outcome_of(self, evaluator: Evaluator, item: Row[Any]) -> ItemOutcome:
        from dokimos._runtime.scoring_threads import call_within
        from dokimos.judges._run_scope import sharing_within_item

        error = find_task_error(item)
        if error is not None:
            message = f"The application gave no output for this item: {error}"
            return ItemError(item_id=item.id, kind=SKIPPED, message=message)
        limit = self._settings.item_seconds
        try:
            case = await asyncio.to_thread(build_case, item) if _is_long(item) else build_case(item)
            with sharing_within_item():
                if evaluator.is_async:
                    result = await evaluator.evaluate_async(case)
                else:  # in a thread: a long text must not hold up all requests
                    result = await call_within(limit, evaluator.evaluate, case)
        except TimeoutError:
            message = f"The evaluator took longer than {limit:g} seconds."
            return ItemError(item_id=item.id, kind="timeout", message=message)
        return outcome_of(item.id, result, self._spec)

    async def _next_item(self) -> Row[Any] | None:
        async with self._reading:
            while not self._items:
                if not self._found and not await self._find():
                    return None
                chosen: list[ItemPlace] = []
                size = 0
                while self._found and (not chosen or size + self._found[0].size <= _READ_CHARACTERS):
                    size += self._found[0].size
                    chosen.append(self._found.popleft())
                rows = await self._read(partial(read_items, item_ids=[each.id for each in chosen]))
                places = {each.id: number for number, each in enumerate(chosen)}
                self._items.extend(sorted(rows, key=lambda row: places[row.id]))
            return self._items.popleft()

    async def _find(self) -> bool:
        """Look for further items; say whether there are any."""
        if self._is_read:
            return False
        find = partial(find_items, job=self.job, after=self._after, most=_PLACES_AT_ONCE)
        self._found.extend(await self._read(find))
        if self._found:
            self._after = self._found[-1].place
        else:
            self._is_read = True
        return bool(self._found)

    async def _flush_again_and_again(self) -> None:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._has_outcomes.wait(), _FLUSH_SECONDS)
            self._has_outcomes.clear()
            if self._outcomes:
                await self._flush()
            # What came meanwhile waits for more: a transaction for a few costs as much as one for a page.
            while len(self._outcomes) >= self._settings.page_size:
                await self._flush()

    async def _flush(self) -> None:
        """Store some outcomes; they stay in memory until they are on disk."""
        page = [self._outcomes[index] for index in range(min(len(self._outcomes), self._settings.page_size))]
        store = partial(store_outcomes, job_id=self.job.id, lease=self.lease, outcomes=page)
        self.job = await self._write(store)
        for _ in page:
            self._outcomes.popleft()
        if len(self._outcomes) < 4 * self._settings.page_size:
            self._has_room.set()

    async def _conclude(self, facts: EvaluatorFacts) -> str | None:
        if self._stop in (Stop.PAUSED, Stop.DRAINING):
            await self._write(partial(give_back, job_id=self.job.id, lease=self.lease))
            return None
        if self._stop is Stop.FAULT and self._fault:
            return await self._fail(self._fault)
        if self._day_budget:
            leave = partial(put_off, job_id=self.job.id, lease=self.lease, is_attempt=False)
            seconds = max(0.0, (self._renewed_at - now()) / SECOND)
            await self._write(partial(leave, error=self._day_budget, seconds=seconds))
            return None
        if self._deferred:
            return await self._put_off(facts)
        return await self._finish(facts)

    async def _put_off(self, facts: EvaluatorFacts) -> str | None:
        """Leave the items whose model did not answer to a later attempt, or give them up."""
        last = self._deferred[-1].message
        attempt = self.job.attempt_count
        if attempt < self._settings.max_attempts:
            seconds = min(_RETRY_SECONDS * 2.0 ** (attempt - 1), _LONGEST_RETRY_SECONDS)
            leave = partial(put_off, job_id=self.job.id, lease=self.lease, error=last, seconds=seconds)
            await self._write(leave)
            return None
        if self._stop is Stop.FAULT:  # the endpoint is down: that is not a fault of the items
            return await self._fail(f"After {attempt} attempts: {last}")
        self._outcomes.extend(self._deferred)
        self._deferred = []
        while self._outcomes:
            await self._flush()
        return await self._finish(facts)

    async def _finish(self, facts: EvaluatorFacts) -> str:
        job = self.job
        if job.skipped_count and not job.scored_count and not job.error_count:
            count = f"{job.skipped_count:,}"
            return await self._fail(f"None of {count} items could be scored: the application gave no output.")
        done = job.scored_count + job.error_count
        if job.error_count * 2 > done:
            what = "None" if not job.scored_count else f"Only {job.scored_count:,}"
            return await self._fail(f"{what} of {done:,} items could be scored; see the errors of the job.")
        return await self._succeed(facts)

    async def _succeed(self, facts: EvaluatorFacts) -> str:
        def end(connection: Connection) -> str:
            if self.job.replaces:
                replace_scores(connection, self.job.id, self.lease, facts)
            return end_job(connection, self.job.id, self.lease, JobStatus.SUCCEEDED, None)

        run_id: str = await self._write(end)
        return run_id

    async def _fail(self, error: str) -> str:
        fail = partial(end_job, job_id=self.job.id, lease=self.lease, status=JobStatus.FAILED, error=error)
        run_id: str = await self._write(fail)
        return run_id

    async def _write(self, function: Callable[[Connection], Any]) -> Any:
        """Write as soon as the database is there; a lease that ends meanwhile ends this as well."""
        while True:
            try:
                return await self._database.write(function)
            except DatabaseUnavailable as error:
                _LOGGER.warning("Judge job %s waits: the database is not available: %s", self.job.id, error)
                await asyncio.sleep(_DATABASE_SECONDS)

    async def _read(self, function: Callable[[Connection], Any]) -> Any:
        while True:
            try:
                return await self._database.read(function, Lane.WORK)
            except (DatabaseUnavailable, ReadTooSlow) as error:
                _LOGGER.warning("Judge job %s waits: the database is not available: %s", self.job.id, error)
                await asyncio.sleep(_DATABASE_SECONDS)


def _is_long(item: Row[Any]) -> bool:
    texts: Sequence[str | None] = (item.input, item.actual_output, item.expected_output, item.metadata)
    return sum(len(text or "") for text in texts) > _LONG


_LONG: Final = 200_000
"""Characters of JSON that take a thread some milliseconds to parse."""
