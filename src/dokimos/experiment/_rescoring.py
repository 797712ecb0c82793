"""Rescoring: new scores for existing outputs, without calling the task."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

from dokimos._core.endings import EVERYTHING_ERRORED
from dokimos._core.provenance import EvaluatorInfo
from dokimos._core.results import EvalResult, ExperimentResult, ItemResult, RunResult, RunStatus
from dokimos._runtime.loop_watch import LoopWatch
from dokimos.datasets._answer_replay import recorded_task
from dokimos.errors import BudgetExceededError, ConfigurationError, EvaluationError
from dokimos.evaluators import _base as base
from dokimos.experiment._executor import Executor
from dokimos.experiment._experiment import EvaluatorSource
from dokimos.experiment._item_errors import status_of
from dokimos.experiment._item_scoring import (
    PreparedEvaluators,
    build_choice_error,
    choose_evaluators,
    evaluate_all,
)
from dokimos.experiment._model_calls import ModelCalls
from dokimos.experiment._remote_item import RemoteItem
from dokimos.experiment._run_options import RunOptions, executor_for
from dokimos.experiment._task_calls import TaskCaller
from dokimos.experiment._worker_pool import WorkerPool
from dokimos.experiment._worker_setup import plan_scoring
from dokimos.judges._run_scope import enter_scope

ITEMS_MISSING = "rescore() needs the items, and this experiment ran with keep_results=False."


async def rescore_async(
    result: ExperimentResult,
    evaluators: EvaluatorSource,
    *,
    parallelism: int = 8,
    options: RunOptions | None = None,
    calls: ModelCalls | None = None,
) -> ExperimentResult:
    """Score the outputs of a result again; see `Experiment.rescore`.

    With `calls`, the stores and the budget are those of the caller, who closes them.
    """
    if any(run.total_count and not run.item_results for run in result.runs):
        raise ConfigurationError(ITEMS_MISSING)
    options = options or RunOptions()
    own_calls = None
    if calls is None:
        calls = own_calls = ModelCalls(options)
    limit = options.evaluator_timeout
    completed = False
    watch = LoopWatch({} if limit is None else {base.__file__: limit})
    executor = executor_for(max((len(run.item_results) for run in result.runs), default=0), options)
    rescoring = _Rescoring(evaluators, calls, parallelism, options, executor)
    try:
        with watch:
            rescored = await rescoring.of(result)
        completed = rescored.status is not RunStatus.BUDGET_SPENT
    finally:
        rescoring.close()
        if own_calls is not None:
            own_calls.close(completed=completed)
    of_calls = [] if own_calls is None else own_calls.warnings()
    return replace(rescored, warnings=(*rescored.warnings, *of_calls, *watch.warnings()))


class _Rescoring:
    """Scores the items of a result with one set of evaluators."""

    def __init__(
        self,
        evaluators: EvaluatorSource,
        calls: ModelCalls,
        parallelism: int,
        options: RunOptions,
        executor: Executor,
    ) -> None:
        self._evaluators = evaluators
        self._calls = calls
        self._caller = TaskCaller(recorded_task(), options, None)
        setup = plan_scoring(evaluators, options, executor, parallelism=parallelism)
        self._pool: WorkerPool | None = None
        if setup is not None:
            self._pool = WorkerPool(setup, executor, self._caller, parallelism=parallelism)
        self._parallelism = parallelism if self._pool is None else self._pool.items_at_once
        self._prepared = PreparedEvaluators(options.evaluator_timeout)
        fixed = () if callable(evaluators) else evaluators
        self._infos: dict[str, EvaluatorInfo] = {evaluator.name: evaluator.info() for evaluator in fixed}

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()

    async def of(self, result: ExperimentResult) -> ExperimentResult:
        if self._pool is not None:
            await self._pool.open()
        runs = []
        for run in result.runs:
            scope = self._calls.scope(run.index, result.provenance.seed, parallelism=self._parallelism)
            enter_scope(scope)
            self._prepared = PreparedEvaluators(scope.evaluator_timeout)
            runs.append(await self._run(run))
            if self._calls.refusal is not None:
                break
        went_through = result.status in (RunStatus.COMPLETED, RunStatus.BROKEN)
        rescored = replace(
            result,
            runs=tuple(runs),
            evaluators=tuple(self._infos.values()),
            status=status_of(runs) if went_through else result.status,
            provenance=replace(result.provenance, derivation="rescored"),
            # That every item errored was said of the old scores.
            warnings=tuple(w for w in result.warnings if not w.startswith(EVERYTHING_ERRORED)),
        )
        if self._calls.refusal is None:
            return rescored
        warnings = (*rescored.warnings, f"{self._calls.refusal} What was not scored by then is left out.")
        return replace(rescored, status=RunStatus.BUDGET_SPENT, warnings=warnings)

    async def _run(self, run: RunResult) -> RunResult:
        scored: dict[int, ItemResult] = {}
        items = iter(run.item_results)
        workers = (self._worker(items, scored, run.index) for _ in range(self._parallelism))
        await asyncio.gather(*workers)
        return RunResult(index=run.index, item_results=tuple(scored[index] for index in sorted(scored)))

    async def _worker(
        self, items: Iterator[ItemResult], scored: dict[int, ItemResult], run_index: int
    ) -> None:
        for item in items:
            # Evaluators that wait for nothing would block the loop for as long as the whole result takes.
            await asyncio.sleep(0)
            try:
                scored[item.index] = replace(item, eval_results=await self._score_item(item, run_index))
            except BudgetExceededError:
                return
            if self._calls.refusal is not None:
                return

    async def _score_item(self, item: ItemResult, run_index: int) -> tuple[EvalResult, ...]:
        if item.error is not None:
            return ()
        try:
            chosen = choose_evaluators(self._evaluators, item.example)
        except EvaluationError as error:
            return build_choice_error(error)
        for evaluator in chosen:
            if evaluator.name not in self._infos:
                self._infos[evaluator.name] = evaluator.info()
        case = item.to_test_case(run_index)
        if self._pool is None:
            return await evaluate_all(chosen, case, prepared=self._prepared.find(chosen))
        remote = RemoteItem(self._pool, self._caller, run_index, item.example, None)
        return await remote.evaluate(chosen, case, None)
