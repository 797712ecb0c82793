"""One repeat over the data set: workers take examples, call the task, score its outputs and report items.

One item goes through `_worker`, `_run_item`, `_evaluate` and `_add_result`, in this order. In a resumed run,
those that were finished without an error only go through `_pass_over_finished_items`.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Callable, Container, Coroutine, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Final

from dokimos._core.eval_result import group_by_evaluator
from dokimos._core.example import Example
from dokimos._core.fast_constructor import positional_factory
from dokimos._core.results import EvalResult, ItemResult, RunResult, RunStatus
from dokimos._core.summary import Tally
from dokimos._core.test_case import EvalTestCase
from dokimos.errors import BudgetExceededError, EvaluationError
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._eager_evaluation import PreparedEvaluator
from dokimos.experiment._example_source import ExampleSource, SourcedExample
from dokimos.experiment._finished_counter import FinishedItemCounter
from dokimos.experiment._item_errors import ErrorLimit
from dokimos.experiment._item_scoring import (
    PreparedEvaluators,
    build_choice_error,
    choose_evaluators,
    evaluate_all,
    score_inline,
)
from dokimos.experiment._kept_items import KeptItems, is_problem
from dokimos.experiment._redaction import redact_item
from dokimos.experiment._remote_item import RemoteItem
from dokimos.experiment._reporters import Handles, collect_server_run_ids
from dokimos.experiment._run_reports import describe_end, describe_start
from dokimos.experiment._run_state import RunState
from dokimos.experiment._task_calls import ItemSink, NotBegunError, TaskOutcome
from dokimos.experiment._worker_pool import WorkerPool
from dokimos.experiment._workers import abandon, wait_for_workers
from dokimos.judges._run_scope import current_scope, enter_scope

YIELD_SECONDS: Final = 0.01
"""A worker whose task never waits lets the event loop run this often."""
_ALL, _PROBLEMS = KeptItems.ALL, KeptItems.PROBLEMS  # looked up here once, as for each item they would be

_new_case: Final[Callable[..., EvalTestCase]] = positional_factory(
    EvalTestCase, "inputs", "actual_outputs", "expected_outputs", "metadata", "id", "metrics", "run_index"
)
_new_item: Final = positional_factory(
    ItemResult, "index", "example", "actual_outputs", "eval_results", "metrics"
)


class Repeat:
    """One repeat over the data set."""

    def __init__(self, state: RunState, repeat_index: int) -> None:
        self._state = state
        self._repeat_index = repeat_index
        self._record = state.record
        self._source = ExampleSource(
            state.plan.dataset,
            state.record.shard,
            with_json=state.record.needs_hashes,
            known_hashes=state.record.example_hashes,
        )
        self._tally = Tally()
        self._has_reporters = len(state.reporters) > 0
        self._kept = KeptItems.of(state.options, state.record.launch)
        launch = state.record.launch
        self._on_item_left_out = None if launch is None else launch.on_item_left_out
        self._items: list[ItemResult] = []
        """In the order in which they ended; by their indexes in a dictionary, a million took 80 MB more."""
        self._server_run_ids: tuple[str, ...] = ()
        self._resumed_items: set[int] = set()
        """Indexes of items that an earlier process has finished: `fail_fast` does not stop at them."""
        self._untimed_items: set[int] = set()
        """Indexes of items that did not call the task: they say nothing about the pace of the run."""
        self._error_limit = ErrorLimit(state.options.max_errors)
        self._is_stopped = False
        self._is_cut_short = False
        self._last_yield = 0.0
        self._stop = asyncio.Event()
        self._counter = self._make_counter()
        self._prepared = PreparedEvaluators(None)
        self._fixed_evaluators: list[PreparedEvaluator] | None = None
        """The evaluators of every item, where all of them are async."""

    def _make_counter(self) -> FinishedItemCounter | None:
        """Return what counts finished items, None where each has to be looked at as a whole."""
        state = self._state
        if self._record.redact is not None or state.evaluators is None:
            return None
        names = [evaluator.name for evaluator in state.evaluators]
        is_each_wanted = self._has_reporters or self._on_item_left_out is not None
        loaded = KeptItems.ALL if is_each_wanted else self._kept
        return self._record.finished.counter(names, self._tally, loaded=loaded, hand_on=self._hand_on)

    async def run(self) -> RunStatus:
        """Run all items, and add the result to the state even if the repeat is cut short."""
        state, record = self._state, self._record
        enter_scope(state.calls.scope(self._repeat_index, record.seed, parallelism=state.plan.parallelism))
        self._prepared = PreparedEvaluators(current_scope().evaluator_timeout)
        self._fixed_evaluators = self._prepared.find(state.evaluators or ())
        state.progress.start_repeat(self._repeat_index, self._source.example_count, self._tally)
        handles = self._begin_reports()
        try:
            status = await self._run_workers()
        except BaseException as error:
            self._end(handles, error)
            raise
        self._end(handles, status)
        return status

    def _begin_reports(self) -> Handles:
        state, planned_items = self._state, self._source.example_count
        handles: Handles = []
        if self._has_reporters:
            handles = state.reporters.begin(describe_start(state, self._repeat_index, planned_items))
        self._server_run_ids = self._record.writer.add_server_runs(
            self._repeat_index, collect_server_run_ids(handles)
        )
        return handles

    def _end(self, handles: Handles, ending: RunStatus | BaseException) -> None:
        """Add the result to the state and tell the reporters."""
        self._is_cut_short = True
        result = self._result()
        self._state.runs.append(result)
        if handles:
            self._state.reporters.end(handles, describe_end(self._state, ending, result.summary))

    async def _run_workers(self) -> RunStatus:
        state = self._state
        if state.caller.needs_input_keys:
            state.caller.set_input_keys(await self._source.input_keys())
        if state.pool is not None:
            state.pool.set_input_keys(state.caller.input_keys)
        self._last_yield = time.perf_counter()
        workers = [asyncio.create_task(self._worker()) for _ in range(state.parallelism)]
        try:
            await wait_for_workers(workers, self._stop)
        except BaseException:
            await abandon(workers)
            raise
        # Before the other reasons: an endpoint that is down also makes items fail, and is what has to be
        # mended.
        if state.outage.reason is not None:
            await abandon(workers)
            return RunStatus.ENDPOINT_DOWN
        if self._is_stopped and not self._is_complete_despite_failure():
            await abandon(workers)
            return RunStatus.STOPPED
        if state.calls.refusal is not None:
            return RunStatus.BUDGET_SPENT
        self._record.writer.end_repeat(self._repeat_index, self._source)
        return RunStatus.COMPLETED

    async def _worker(self) -> None:
        state = self._state
        source = self._source
        worker = asyncio.current_task()
        while True:
            if self._counter is not None:
                await self._pass_over_finished_items(self._counter)
            # Also another worker may have stopped the run, before this one began or while it waited.
            if self._is_stopped or self._is_cut_short:
                return
            sourced = await source.take() if source.waits else next(source, None)
            if sourced is None:
                return
            state.progress.start_item(sourced.index)
            try:
                item = await self._run_item(sourced, worker)
            except (BudgetExceededError, NotBegunError):
                return  # not an error of the item: a resumed run starts it again
            # This worker was abandoned, and the result of the repeat has been built without it.
            if self._is_cut_short:
                return
            self._add_result(item)
            if state.options.fail_fast and item.success is False and item.index not in self._resumed_items:
                self._stop_at_failure(item)
            if time.perf_counter() - self._last_yield > YIELD_SECONDS:
                await asyncio.sleep(0)
                self._last_yield = time.perf_counter()

    async def _pass_over_finished_items(self, counter: FinishedItemCounter) -> None:
        """Count the finished items that come next, and load those that are wanted."""
        state, repeat_index, clock = self._state, self._repeat_index, time.perf_counter
        deadline, is_late = 0.0, False

        def take(indexes: range, hashes: array[int], examples: Sequence[Example]) -> int:
            nonlocal is_late
            is_late = clock() > deadline
            if self._is_stopped or is_late or not indexes:
                return 0
            if self._may_take_several():
                taken = counter.count_next(repeat_index, indexes, hashes, examples)
                if taken:
                    state.progress.pass_over_items()
                    return taken
            index = indexes.start
            results = counter.count((repeat_index, index), hashes[index], examples[index])
            if results is None:
                return 0
            state.outage.record_results(index, results)
            state.progress.pass_over_items()
            if self._error_limit.is_exceeded(self._tally) or state.outage.reason is not None:
                self._stop_soon()
            return 1

        while not self._is_stopped and not self._is_cut_short:
            deadline, is_late = self._last_yield + YIELD_SECONDS, False
            self._source.pass_over(take)
            # Not by the clock: to look at an item that must run may take longer, and would begin again.
            if not is_late:
                return
            await asyncio.sleep(0)
            self._last_yield = clock()

    def _may_take_several(self) -> bool:
        """Say whether no finished item can stop the run, so that none has to be looked at by itself."""
        return not self._state.outage.has_begun and self._error_limit.is_kept_by_success(self._tally)

    async def _run_item(self, sourced: SourcedExample, worker: asyncio.Task[Any] | None) -> ItemResult:
        state, record = self._state, self._record
        example, position = sourced.example, (self._repeat_index, sourced.index)
        is_resumed = record.is_resumed
        finished = record.finished.load(position, sourced) if is_resumed else None
        if is_resumed and finished is None:
            sourced = sourced.with_json()  # before the task can change its inputs
        earlier_results: dict[str, EvalResult] = {}
        sink = record.writer.item_sink(position, sourced)
        remote = None if state.pool is None else self._remote_item(state.pool, example, sink)
        if finished is not None:
            outcome, earlier_results = finished
            self._resumed_items.add(sourced.index)
            self._untimed_items.add(sourced.index)
        else:
            has_earlier = record.earlier is not None
            reused = record.finished.reuse_output(position, sourced, sink) if has_earlier else None
            if reused is not None:
                self._untimed_items.add(sourced.index)
            outcome = reused or await self._call_task(example, sink, remote, worker)
        if outcome.down is not None:
            state.outage.record_task_outage(outcome.down)
        if outcome.error is not None:
            return self._redact(_make_failed_item(sourced, outcome), finished is not None, ())
        case = _new_case(
            example.inputs,
            outcome.outputs,
            example.expected_outputs,
            example.metadata,
            example.id,
            outcome.metrics,
            self._repeat_index,
        )
        if state.scorers is not None and not earlier_results:
            results = score_inline(state.scorers, state.evaluators or (), case)
            record.writer.write_results(position, results, is_held=state.are_repeatable)
        else:
            results = await self._evaluate(case, sourced, earlier_results, remote)
        if finished is not None and len(results) > len(earlier_results):
            # Evaluators that the earlier process had not come to have run now, so the item took time.
            self._untimed_items.discard(sourced.index)
        state.outage.record_results(sourced.index, results)
        item = _new_item(sourced.index, example, outcome.outputs, results, outcome.metrics)
        if record.redact is not None:
            item = self._redact(item, finished is not None, earlier_results)
        return item

    def _remote_item(self, pool: WorkerPool, example: Example, sink: ItemSink | None) -> RemoteItem:
        return RemoteItem(pool, self._state.caller, self._repeat_index, example, sink)

    def _call_task(
        self,
        example: Example,
        sink: ItemSink | None,
        remote: RemoteItem | None,
        worker: asyncio.Task[Any] | None,
    ) -> Coroutine[Any, Any, TaskOutcome]:
        state = self._state
        if remote is None:
            return state.caller.call(example, sink, worker)
        return state.caller.call_remotely(partial(remote.call_task, state.evaluators or ()))

    def _redact(self, item: ItemResult, known_outputs: bool, known_results: Container[str]) -> ItemResult:
        redact = self._record.redact
        if redact is None:
            return item
        return redact_item(item, redact, known_outputs=known_outputs, known_results=known_results)

    async def _evaluate(
        self,
        case: EvalTestCase,
        sourced: SourcedExample,
        earlier: dict[str, EvalResult],
        remote: RemoteItem | None,
    ) -> tuple[EvalResult, ...]:
        """Score an item by the evaluators that have not scored it in an earlier process."""
        state = self._state
        position = (self._repeat_index, sourced.index)
        sink = self._record.writer.result_sink(position)
        evaluators, prepared = state.evaluators, self._fixed_evaluators
        if evaluators is None:
            try:
                evaluators = choose_evaluators(state.plan.evaluators, sourced.example)
            except EvaluationError as error:
                return build_choice_error(error, sink)
            state.add_infos(evaluators)
            prepared = self._prepared.find(evaluators)
        missing: Sequence[Evaluator] = evaluators
        results: dict[str, tuple[EvalResult, ...]] = {}
        if earlier:
            results = group_by_evaluator(earlier.values())
            missing, prepared = [e for e in evaluators if e.name not in results], None
        if remote is not None and missing:
            new_results = await remote.evaluate(missing, case, sink)
        else:
            new_results = await evaluate_all(missing, case, sink, prepared)
        if not earlier:
            return new_results
        results |= group_by_evaluator(new_results)
        return tuple(result for e in evaluators for result in results[e.name])

    def _add_result(self, item: ItemResult) -> None:
        state, tally = self._state, self._tally
        errored_before = tally.errored
        tally.add(item)
        if tally.errored > errored_before:
            state.caller.errors.add(item)
        self._hand_on(item)
        state.progress.end_item(item.index, ran=item.index not in self._untimed_items)
        is_over_limit = tally.errored > 0 and self._error_limit.is_exceeded(tally)
        if is_over_limit or state.outage.reason is not None:
            self._stop_soon()

    def _hand_on(self, item: ItemResult) -> None:
        """Keep an item for the result if it is wanted there, and tell the reporters of it."""
        kept = self._kept
        if kept is _ALL or (kept is _PROBLEMS and is_problem(item.outcome, item.eval_results)):
            self._items.append(item)
        elif self._on_item_left_out is not None:
            self._on_item_left_out(self._repeat_index, item)
        if self._has_reporters:
            place = (self._repeat_index, item.index)
            was_reported = self._record.finished.has_output(place)
            self._state.reporters.item(item, self._repeat_index, was_reported=was_reported)

    def _stop_at_failure(self, item: ItemResult) -> None:
        if self._state.first_failure is None and self._state.outage.reason is None:
            self._state.first_failure = item.key
        self._stop_soon()

    def _stop_soon(self) -> None:
        self._is_stopped = True
        self._stop.set()
        if self._state.pool is not None:
            self._state.pool.stop()

    def _is_complete_despite_failure(self) -> bool:
        """Say whether `fail_fast` stopped at the very last item, so that the run is complete."""
        state = self._state
        is_last = (
            self._tally.total == self._source.example_count and self._repeat_index + 1 == state.plan.runs
        )
        if state.first_failure is None or not is_last:
            return False
        state.first_failure = None
        return True

    def _result(self) -> RunResult:
        return RunResult(
            index=self._repeat_index,
            item_results=tuple(sorted(self._items, key=attrgetter("index"))),
            summary=self._tally.summary(),
            server_run_ids=self._server_run_ids,
        )


def _make_failed_item(sourced: SourcedExample, outcome: TaskOutcome) -> ItemResult:
    return ItemResult(
        sourced.index,
        sourced.example,
        actual_outputs=dict(outcome.outputs),
        metrics=outcome.metrics,
        error=outcome.error,
        error_detail=outcome.detail,
    )
