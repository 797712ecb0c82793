"""One item of a run in the hands of its worker processes, as the repeat sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from dokimos._core.eval_result import group_by_evaluator
from dokimos._core.example import Example
from dokimos._core.results import EvalResult
from dokimos._core.test_case import EvalTestCase
from dokimos.errors import RunError
from dokimos.evaluators._base import Evaluator
from dokimos.experiment._item_scoring import evaluate_all, with_parts
from dokimos.experiment._remote_job import RemoteJob, TaskStaysError
from dokimos.experiment._run_writer import ResultSink
from dokimos.experiment._task_calls import ItemSink, TaskCaller, TaskOutcome
from dokimos.experiment._worker_pool import WorkerPool


class RemoteItem:
    """An item whose task is called, or whose outputs are scored, by a worker; the rest is done here."""

    def __init__(
        self, pool: WorkerPool, caller: TaskCaller, run_index: int, example: Example, sink: ItemSink | None
    ) -> None:
        self._pool = pool
        self._caller = caller
        self._run_index = run_index
        self._example = example
        self._sink = sink
        self._job: RemoteJob | None = None
        self._away: list[Evaluator] = []
        """What the worker scores with."""

    async def call_task(self, evaluators: Sequence[Evaluator]) -> TaskOutcome:
        """Return what the task returned; the worker goes on to score it with these evaluators."""
        if self._pool.calls_task and self._submit(evaluators):
            assert self._job is not None
            try:
                outcome = await self._job.outcome
                if outcome.error is not None:
                    await self._job.done  # which has the counts of calls that were retried or abandoned
                return outcome
            except TaskStaysError as stays:
                self._pool.calls_task = not stays.for_all and self._pool.calls_task
                self._job = None
        async with self._pool.here:
            return await self._caller.call_here(self._example, self._sink)

    async def evaluate(
        self, evaluators: Sequence[Evaluator], case: EvalTestCase, sink: ResultSink | None
    ) -> tuple[EvalResult, ...]:
        """Score the item with all evaluators, in the worker and here at the same time."""
        if self._job is None and any(map(self._pool.takes, evaluators)):
            self._submit(evaluators, TaskOutcome(case.actual_outputs, case.metrics))
        if self._job is None or not self._away:
            return await self._evaluate_here(evaluators, case, sink)
        away = set(map(id, self._away))
        here = [evaluator for evaluator in evaluators if id(evaluator) not in away]
        if not here:
            return await self._await_worker(self._job, evaluators, case, sink)
        outcomes = await asyncio.gather(
            self._await_worker(self._job, evaluators, case, sink),
            self._evaluate_here(here, case, sink),
            return_exceptions=True,  # both are waited for: what the other one found belongs in the journal
        )
        groups: dict[str, tuple[EvalResult, ...]] = {}
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
            groups |= group_by_evaluator(outcome)
        return tuple(result for evaluator in evaluators for result in groups[evaluator.name])

    def _submit(self, evaluators: Sequence[Evaluator], outcome: TaskOutcome | None = None) -> bool:
        """Give the item to a worker; False for one that cannot be pickled, which is worked on here."""
        away = [evaluator for evaluator in evaluators if self._pool.takes(evaluator)]
        try:
            self._job = self._pool.submit(
                self._run_index, self._example, away, sink=self._sink, outcome=outcome
            )
        except RunError:
            raise
        except Exception:
            return False
        self._away = away
        # With nothing else to do in between, this process is woken once for each item, and not twice.
        self._job.is_outcome_awaited = len(away) < len(evaluators) or self._caller.keeps_account
        return True

    async def _await_worker(
        self, job: RemoteJob, evaluators: Sequence[Evaluator], case: EvalTestCase, sink: ResultSink | None
    ) -> tuple[EvalResult, ...]:
        scored = await job.done
        results = with_parts(scored.results, evaluators)
        if sink is not None and results:
            sink(results)
        here = self._pool.evaluators_at(scored.here)
        if scored.for_all:
            self._pool.keep(here)
        return (*results, *await self._evaluate_here(here, case, sink)) if here else results

    async def _evaluate_here(
        self, evaluators: Sequence[Evaluator], case: EvalTestCase, sink: ResultSink | None
    ) -> tuple[EvalResult, ...]:
        async with self._pool.here:
            return await evaluate_all(evaluators, case, sink)
