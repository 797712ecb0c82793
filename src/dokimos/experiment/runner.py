"""Carrying an experiment out: a pool of workers, one async core, failures as values."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Container, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from dokimos.core.eval_result import group_by_evaluator
from dokimos.core.fast_constructor import fast_factory
from dokimos.core.provenance import EvaluatorInfo, Provenance
from dokimos.core.results import EvalResult, ExperimentResult, ItemResult, RunResult, RunStatus
from dokimos.core.summary import Tally
from dokimos.core.test_case import EvalTestCase
from dokimos.datasets.dataset import Dataset
from dokimos.errors import (
    BudgetExceededError,
    DokimosError,
    EvaluationError,
    RunInterrupted,
    TooManyErrors,
)
from dokimos.evaluators.base import Evaluator
from dokimos.experiment.blocked_loop import LoopBlockedError, block_limits, end_process
from dokimos.experiment.end_messages import EndMessages
from dokimos.experiment.example_source import ExampleSource, SourcedExample
from dokimos.experiment.fail_fast import MOST_NAMED, NOT_RUN, find_items_not_run
from dokimos.experiment.item_errors import ErrorLimit, status_of
from dokimos.experiment.item_scoring import (
    all_inline,
    build_choice_error,
    choose_evaluators,
    evaluate_all,
    evaluate_inline,
)
from dokimos.experiment.model_calls import ModelCalls
from dokimos.experiment.outage import Outage
from dokimos.experiment.progress import Progress, make_progress
from dokimos.experiment.record import RunRecord
from dokimos.experiment.redaction import redact_item
from dokimos.experiment.reporters import Reporters
from dokimos.experiment.run_description import Launch
from dokimos.experiment.task import task_attribute
from dokimos.experiment.task_calls import TaskCaller
from dokimos.experiment.workers import abandon, wait_for_workers
from dokimos.judges.run_scope import enter_scope
from dokimos.reporting.protocol import ReportedStatus
from dokimos.runtime.concurrency import run_sync
from dokimos.runtime.garbage_collection import collecting_seldom
from dokimos.runtime.interrupts import defer_interrupts
from dokimos.runtime.loop_watch import LoopWatch

if TYPE_CHECKING:
    from dokimos.experiment.experiment import Experiment
    from dokimos.experiment.run_options import RunOptions

YIELD_SECONDS: Final = 0.01
"""A worker whose task never waits lets the event loop breathe this often."""


_new_case: Final[Callable[..., EvalTestCase]] = fast_factory(EvalTestCase)
_new_item: Final = fast_factory(ItemResult)


class Runner:
    """Runs one experiment once; everything that changes while it runs is here."""

    def __init__(self, plan: Experiment, options: RunOptions, *, launch: Launch | None = None) -> None:
        self.plan = plan
        self.options = options
        self.result: ExperimentResult | None = None
        """The outcome, also where the run was cut short."""
        self._record = RunRecord(plan, options, launch)
        self._reporters = Reporters(plan.reporters)
        self._calls = ModelCalls(options, self._record.redact)
        self._outage = Outage(plan, self._calls.breakers)
        self._caller = TaskCaller(plan, options, None if self.counts_own_calls else self._calls.ledger)
        self._ends = EndMessages(self._record, self._caller, self._calls, self._outage, plan.runs)
        self._infos: dict[str, EvaluatorInfo] = {}
        self._fixed = None if callable(plan.evaluators) else tuple(plan.evaluators)
        self._inline = self._fixed is not None and all_inline(self._fixed)
        self._note_infos(self._fixed or ())
        self._runs: list[RunResult] = []
        self._first_failure: str | None = None
        """The item at which `fail_fast` stopped the run."""
        self._begun = False
        self._finishing = threading.Lock()
        self._watch = LoopWatch(block_limits(plan, options), None if launch is None else self._end_command)
        self._progress: Progress = make_progress(plan, options)

    @property
    def counts_own_calls(self) -> bool:
        """Whether the task itself accounts to the budget for each call that it makes."""
        return bool(task_attribute(self.plan.task, "counts_own_calls"))

    def run_sync(self) -> ExperimentResult:
        """Run from sync code; Ctrl-C raises `RunInterrupted` with the partial result."""
        return run_sync(self.run(), interrupted=self._interrupted)

    def _end_command(self, problem: str) -> None:
        result = self._finish(RunStatus.BROKEN, broken_by=LoopBlockedError(problem))
        end_process(result, self._record.how_to_resume())

    def _interrupted(self) -> KeyboardInterrupt:
        if not self._begun:
            return KeyboardInterrupt()
        result = self._finish(RunStatus.INTERRUPTED)
        return RunInterrupted(self._ends.of_interrupted_run(result), result)

    async def run(self) -> ExperimentResult:
        """Run all repeats. Raises `TooManyErrors`; a cancellation leaves the partial result in `result`.

        A task that has `aclose` may let go of its connections at the end.
        """
        try:
            return await self._carry_out()
        finally:
            close = task_attribute(self.plan.task, "aclose")
            if close is not None:
                await close()

    async def _carry_out(self) -> ExperimentResult:
        self._record.open()
        self._begun = True
        try:
            self._calls.open(self._record.folder, self._record.earlier)
            if not self.counts_own_calls:
                self._calls.count_earlier_tasks(self._record.stored_metrics())
            with collecting_seldom, self._watch, self._progress:
                status = await self._run_all()
        except Exception as error:
            result = self._finish(RunStatus.BROKEN, broken_by=error)
            if isinstance(error, DokimosError) and result.summary.total:
                error.result = result
            raise
        except BaseException as error:
            error.add_note(self._ends.of_interrupted_run(self._finish(RunStatus.INTERRUPTED)))
            raise
        result = self._finish(status)
        if status is RunStatus.STOPPED and self._first_failure is None:
            raise TooManyErrors(self._ends.of_too_many_errors(self.options.max_errors), result)
        return result

    async def _run_all(self) -> RunStatus:
        for run_index in range(self.plan.runs):
            one = _Pass(self, run_index)
            status = await one.run()
            if status is not RunStatus.COMPLETED:
                return status
        return status_of(self._runs)

    def _note_infos(self, evaluators: Sequence[Evaluator]) -> None:
        for evaluator in evaluators:
            if evaluator.name not in self._infos:
                self._infos[evaluator.name] = evaluator.info()

    def _finish(self, status: RunStatus, broken_by: Exception | None = None) -> ExperimentResult:
        """Let go of everything and return the result; another call returns the same one."""
        self._reporters.close(self.options.auto_close_reporters)
        provenance = self._record.provenance()
        with defer_interrupts(), self._finishing:
            if self.result is None:
                self.result = self._finished(status, broken_by, provenance)
            return self.result

    def _finished(
        self, status: RunStatus, broken_by: Exception | None, provenance: Provenance
    ) -> ExperimentResult:
        self._calls.close(completed=status is RunStatus.COMPLETED)
        not_run = self._not_run()
        warnings = self._warnings(status, broken_by, not_run)
        result = ExperimentResult(
            name=self._record.about.name,
            description=self._record.about.description,
            metadata={**self._record.about.metadata, **({NOT_RUN: not_run[:MOST_NAMED]} if not_run else {})},
            runs=tuple(self._runs),
            provenance=provenance,
            evaluators=self._record.about.clean(self._infos.values()) or (),
            status=status,
            warnings=warnings,
        )
        self._record.close(result)
        problem = self._record.problem
        return result if problem is None else replace(result, warnings=(*result.warnings, problem))

    def _not_run(self) -> list[str]:
        """Name the items that were left out because of the first failure, as far as they are known."""
        dataset, redact = self.plan.dataset, self._record.redact
        if self._first_failure is None or not isinstance(dataset, Dataset) or not self.options.keep_results:
            return []
        names = find_items_not_run(dataset, self._record.shard, self._runs, self.plan.runs)
        return names if redact is None else list(map(redact, names))

    def _warnings(
        self, status: RunStatus, broken_by: Exception | None, not_run: list[str]
    ) -> tuple[str, ...]:
        redact = self._record.redact
        found = [*self._ends.reasons(status, broken_by, self._first_failure, not_run)]
        found += [*self._record.warnings, *self._caller.warnings(), *self._reporters.warnings()]
        found += [*self._calls.warnings(), *self._watch.warnings()]
        found += self._record.reuse_notes(sum(run.total_count for run in self._runs))
        advice = self._caller.advice
        if advice is not None and not any(advice in one for one in found):
            found.append(advice)
        return tuple(found) if redact is None else (*map(redact, found), *redact.warnings())


class _Pass:
    """One repeat over the data set."""

    def __init__(self, runner: Runner, run_index: int) -> None:
        self.runner = runner
        self.run_index = run_index
        self.record = runner._record
        self.source = ExampleSource(
            runner.plan.dataset, runner._record.shard, with_json=runner._record.needs_hashes
        )
        self.tally = Tally()
        self.items: dict[int, ItemResult] = {}
        self._known: set[int] = set()
        """Items that an earlier process has run: their failures are no news."""
        self._recorded: set[int] = set()
        """Items that were recorded as a whole, or whose output is reused: they show no pace."""
        self.limit = ErrorLimit(runner.options.max_errors)
        self.stopped = False
        self._cut = False
        self._breath = 0.0
        self._stop = asyncio.Event()

    async def run(self) -> RunStatus:
        runner = self.runner
        seed, parallelism = runner._record.seed, runner.plan.parallelism
        enter_scope(runner._calls.scope(self.run_index, seed, parallelism=parallelism))
        runner._progress.start_pass(self.run_index, self.source.planned, self.tally)
        handle = runner._reporters.start(runner._record.about.name, runner._record.about.metadata)
        reported = ReportedStatus.FAILED
        try:
            status = await self._work()
            reported = ReportedStatus.SUCCESS if status is RunStatus.COMPLETED else ReportedStatus.FAILED
        except asyncio.CancelledError:
            reported = ReportedStatus.CANCELLED
            raise
        finally:
            self._cut = True
            runner._runs.append(self._result())
            runner._reporters.complete(handle, reported)
        return status

    async def _work(self) -> RunStatus:
        runner = self.runner
        if runner._caller.needs_input_keys:
            runner._caller.set_input_keys(await self.source.input_keys())
        self._breath = time.perf_counter()
        workers = [asyncio.create_task(self._worker()) for _ in range(runner.plan.parallelism)]
        try:
            await wait_for_workers(workers, self._stop)
        except BaseException:
            await abandon(workers)
            raise
        if runner._outage.reason is not None:
            await abandon(workers)
            return RunStatus.ENDPOINT_DOWN
        if self.stopped and not self._failed_at_the_end():
            await abandon(workers)
            return RunStatus.STOPPED
        if runner._calls.refusal is not None:
            return RunStatus.BUDGET_SPENT
        self.record.end_pass(self.run_index, self.source)
        return RunStatus.COMPLETED

    async def _worker(self) -> None:
        runner = self.runner
        while (sourced := await self.source.take()) is not None:
            runner._progress.start_item(sourced.index)
            try:
                item = await self._item(sourced)
            except BudgetExceededError:
                return  # not an error of the item: a resumed run takes it up again
            if self._cut:
                return
            self._done(item)
            if runner.options.fail_fast and item.success is False and item.index not in self._known:
                self._fail_fast(item)
            if self.stopped:
                return
            if time.perf_counter() - self._breath > YIELD_SECONDS:
                await asyncio.sleep(0)
                self._breath = time.perf_counter()

    async def _item(self, sourced: SourcedExample) -> ItemResult:
        example, position = sourced.example, (self.run_index, sourced.index)
        stored = self.record.stored(position, sourced) if self.record.resumed else None
        earlier: dict[str, EvalResult] = {}
        if stored is not None:
            outcome, earlier = stored
            self._known.add(sourced.index)
            self._recorded.add(sourced.index)
        elif (reused := self.record.reused(position, sourced)) is not None:
            outcome = reused
            self._recorded.add(sourced.index)
        else:
            outcome = await self.runner._caller.call(example, self.record.item_sink(position, sourced))
        if outcome.down is not None:
            self.runner._outage.record_task_outage(outcome.down)
        if outcome.error is not None:
            item = ItemResult(
                sourced.index,
                example,
                actual_outputs=dict(outcome.outputs),
                metrics=outcome.metrics,
                error=outcome.error,
                error_detail=outcome.detail,
            )
            return self._redacted(item, stored is not None, ())
        case = _new_case(
            example.inputs,
            outcome.outputs,
            expected_outputs=example.expected_outputs,
            metadata=example.metadata,
            id=example.id,
            metrics=outcome.metrics,
            run_index=self.run_index,
        )
        results = await self._evaluate(case, sourced, earlier)
        if stored is not None and len(results) > len(earlier):
            self._recorded.discard(sourced.index)
        self.runner._outage.record_results(sourced.index, results)
        item = _new_item(
            sourced.index,
            example,
            actual_outputs=outcome.outputs,
            eval_results=results,
            metrics=outcome.metrics,
        )
        return self._redacted(item, stored is not None, earlier)

    def _redacted(self, item: ItemResult, known_outputs: bool, known_results: Container[str]) -> ItemResult:
        redact = self.record.redact
        if redact is None:
            return item
        return redact_item(item, redact, known_outputs=known_outputs, known_results=known_results)

    async def _evaluate(
        self, case: EvalTestCase, sourced: SourcedExample, earlier: dict[str, EvalResult]
    ) -> tuple[EvalResult, ...]:
        sink = self.record.result_sink((self.run_index, sourced.index))
        evaluators = self.runner._fixed
        if evaluators is None:
            try:
                evaluators = choose_evaluators(self.runner.plan.evaluators, sourced.example)
            except EvaluationError as error:
                return build_choice_error(error, sink)
            self.runner._note_infos(evaluators)
        known = group_by_evaluator(earlier.values()) if earlier else {}
        wanted = evaluators if not earlier else [e for e in evaluators if e.name not in known]
        if self.runner._inline:
            fresh = evaluate_inline(wanted, case, sink)
        else:
            fresh = await evaluate_all(wanted, case, sink)
        if not earlier:
            return fresh
        known |= group_by_evaluator(fresh)
        return tuple(result for e in evaluators for result in known[e.name])

    def _done(self, item: ItemResult) -> None:
        runner = self.runner
        errored_before = self.tally.errored
        self.tally.add(item)
        if self.tally.errored > errored_before:
            runner._caller.errors.add(item)
        if runner.options.keep_results:
            self.items[item.index] = item
        runner._reporters.item(item)
        runner._progress.end_item(item.index, ran=item.index not in self._recorded)
        if self.limit.is_exceeded(self.tally) or runner._outage.reason is not None:
            self.stopped = True
            self._stop.set()

    def _failed_at_the_end(self) -> bool:
        """Say whether what `fail_fast` stopped had nothing left to do."""
        runner = self.runner
        done = self.tally.total == self.source.planned and self.run_index + 1 == runner.plan.runs
        if runner._first_failure is None or not done:
            return False
        runner._first_failure = None
        return True

    def _fail_fast(self, item: ItemResult) -> None:
        if self.runner._first_failure is None and self.runner._outage.reason is None:
            self.runner._first_failure = item.key
        self.stopped = True
        self._stop.set()

    def _result(self) -> RunResult:
        items = tuple(self.items[index] for index in sorted(self.items))
        return RunResult(index=self.run_index, item_results=items, summary=self.tally.summary())
