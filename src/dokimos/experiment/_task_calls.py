"""Calling the task: with timeout, retries with exponential backoff, cost and budget."""

from __future__ import annotations

import asyncio
import math
import random
import threading
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

from dokimos._core.container_copy import copy_containers
from dokimos._core.error_detail import ErrorDetail
from dokimos._core.metrics import CallMetrics, PriceTable
from dokimos._core.task_progress import track_progress
from dokimos._core.task_result import TaskResult
from dokimos._core.text import pluralize
from dokimos._core.tracebacks import describe_exception, format_located_error
from dokimos._runtime.stuck_calls import locate_waiting_coroutine
from dokimos._runtime.time_limits import count_extra_time, retrieve_exception, wait_with_limit
from dokimos.datasets._dataset import Dataset, DatasetStream
from dokimos.errors import BudgetExceededError, DatasetError, EndpointDownError, ReplayMissError
from dokimos.experiment._argument_advice import argument_advice
from dokimos.experiment._item_errors import CommonErrors, describe_error
from dokimos.experiment._task import NO_OUTPUT, Task, prepare, where_task_works
from dokimos.experiment._task_arguments import TaskArguments, example_arguments, input_arguments
from dokimos.judges._budget import TASK

if TYPE_CHECKING:
    from dokimos._core.example import Example
    from dokimos.experiment._run_options import RunOptions
    from dokimos.judges._budget import MemoryLedger

T = TypeVar("T")

FIRST_RETRY_SECONDS: Final = 0.5
LONGEST_RETRY_SECONDS: Final = 30.0


class TaskOutcome(NamedTuple):
    """The outcome of a task for an item: outputs, or an error with the outputs until then."""

    outputs: Mapping[str, Any] = MappingProxyType({})
    metrics: CallMetrics | None = None
    error: str | None = None
    down: EndpointDownError | None = None
    """The endpoint that was down, for which a resumed run calls the task again."""
    detail: ErrorDetail | None = None
    """The location and traceback of the error."""
    is_final: bool = False
    """Whether a retry would fail too, because of what the task was called with."""
    is_unpriced: bool = False
    """Whether the metrics are of a call that returned, and no price table has been asked for its cost."""


class NotBegunError(Exception):
    """The run stopped before another process had begun with an item that was waiting there."""


ItemSink: TypeAlias = Callable[[TaskOutcome], None]
"""Receives the outcome of a task: outputs as soon as it returns, in its thread; an error at the end."""


class TaskCaller:
    """Calls one task for many items, and collects warnings about it for the end of the run."""

    def __init__(
        self,
        task: Task,
        options: RunOptions,
        ledger: MemoryLedger | None,
        *,
        prices: PriceTable | None = None,
        dataset: Dataset | DatasetStream | None = None,
    ) -> None:
        self.errors = CommonErrors()
        self.advice: str | None = None
        """Advice on the first error of a task that expects other arguments."""
        self.input_keys: frozenset[str] | None = None
        """The names of inputs that decided how the task is called, None where its signature did."""
        self._function = task
        self._task = prepare(task)
        self._arguments: TaskArguments | None = None
        self._set_arguments(example_arguments(task))
        if self.needs_input_keys and isinstance(dataset, Dataset):
            self.set_input_keys(dataset.input_keys)
        self._ledger = ledger
        self._timeout = options.timeout
        self._attempts = options.retries + 1
        self._prices = prices
        # A generator of its own: drawing from the module's would change what the application draws.
        self._random = random.Random(options.seed)
        self._abandoned = 0
        self._retried = 0
        self._price_problem: str | None = None

    @property
    def keeps_account(self) -> bool:
        """Whether a budget waits to hear what each call has cost."""
        return self._ledger is not None

    @property
    def needs_input_keys(self) -> bool:
        """Whether it needs the names of the examples' inputs before it can call the task."""
        return self._arguments is None

    def set_input_keys(self, keys: Collection[str]) -> None:
        """Decide how the task is called for examples with these inputs.

        Raises:
            ConfigurationError: if it cannot be called with them.
        """
        self.input_keys = frozenset(keys)
        self._set_arguments(input_arguments(self._function, keys))

    def _set_arguments(self, arguments: TaskArguments | None) -> None:
        if arguments is not None:
            self._arguments = arguments
            self._task = replace(self._task, call=arguments.bind(self._function))

    def call(
        self, example: Example, sink: ItemSink | None, worker: asyncio.Task[Any] | None = None
    ) -> Coroutine[Any, Any, TaskOutcome]:
        """Call the task for an example, with retries, until it succeeds or no attempts are left.

        Raises `BudgetExceededError` if the budget does not allow the call, or a judge call inside it.
        """
        if self._ledger is None:
            return self.call_here(example, sink, worker)
        return self._call_within_budget(self._ledger, partial(self.call_here, example, sink, worker))

    def call_remotely(
        self, call: Callable[[], Coroutine[Any, Any, TaskOutcome]]
    ) -> Coroutine[Any, Any, TaskOutcome]:
        """Let `call` have the task called in another process; raises as `call` of this class does."""
        return call() if self._ledger is None else self._call_within_budget(self._ledger, call)

    async def _call_within_budget(
        self, ledger: MemoryLedger, call: Callable[[], Coroutine[Any, Any, TaskOutcome]]
    ) -> TaskOutcome:
        reservation = await ledger.reserve(TASK)
        try:
            outcome = await call()
        except NotBegunError:
            reservation.cancel()
            raise
        except BaseException:
            reservation.fail()
            raise
        if outcome.down is not None and outcome.metrics is None:
            reservation.cancel()  # nothing was sent, so nothing was spent
        elif outcome.error is not None and outcome.metrics is None:
            reservation.fail()
        else:
            reservation.settle(outcome.metrics)
        return outcome

    def warnings(self) -> list[str]:
        """Return what a reader of the result should know about the calls, in sentences."""
        sentences = []
        if self._abandoned:
            calls = pluralize(self._abandoned, "call")
            sentences.append(f"Abandoned {calls} of the task that took longer than {self._timeout:g} s.")
        if self._retried:
            sentences.append(f"Retried {pluralize(self._retried, 'call')} of the task that had failed.")
        if self._price_problem:
            sentences.append(self._price_problem)
        return sentences

    def take_counts(self) -> tuple[int, int, str | None]:
        """Return how many calls were abandoned and retried since the last time, and the advice."""
        counts = self._abandoned, self._retried, self.advice
        self._abandoned = self._retried = 0
        return counts

    def add_counts(self, abandoned: int, retried: int, advice: str | None) -> None:
        """Add what a caller in another process has counted."""
        self._abandoned += abandoned
        self._retried += retried
        self.advice = self.advice or advice

    def add_price(self, outcome: TaskOutcome) -> TaskOutcome:
        """Return an outcome with the cost that the price table gives, where nothing else does."""
        if self._prices is None or not outcome.is_unpriced:
            return outcome
        return outcome._replace(metrics=self._add_cost(self._prices, outcome.metrics))

    async def call_here(
        self, example: Example, sink: ItemSink | None, worker: asyncio.Task[Any] | None = None
    ) -> TaskOutcome:
        """Call the task in this process, with retries, without asking the budget.

        `worker` is the asyncio task that this runs in, for a caller that knows it: to ask takes 0.3 us.
        """
        worker = worker or asyncio.current_task()
        attempts = 0
        while True:
            given = copy_containers(example)  # a task may change its arguments
            abandoned: list[TaskResult] = []
            cancellations = 0 if worker is None else worker.cancelling()
            try:
                outcome = await self._begin(given, sink, abandoned)
            except asyncio.CancelledError as error:
                if is_cancelled_from_outside(cancellations):
                    raise
                outcome = TaskOutcome(error=describe_error(error), detail=describe_exception(error))
            except (KeyboardInterrupt, GeneratorExit, BudgetExceededError):
                raise
            except BaseException as error:  # test frameworks derive their failures from it
                outcome = self._describe_failure(error, given, abandoned)
            if outcome.error is None:
                return outcome
            attempts += 1
            if attempts == self._attempts or not self.may_retry(outcome, example):
                break
            self._retried += 1
            await asyncio.sleep(self._backoff_seconds(attempts))
        if sink is not None:
            sink(outcome)
        return outcome

    def may_retry(self, outcome: TaskOutcome, example: Example) -> bool:
        """Return whether another call might not end with the same error."""
        if outcome.is_final or (outcome.down is not None and outcome.down.history):
            return False
        return outcome.error != example.actual_error  # a recorded error: a retry would return the same

    def _begin(
        self, given: Example, sink: ItemSink | None, abandoned: list[TaskResult]
    ) -> Coroutine[Any, Any, TaskOutcome]:
        if self._timeout is None:
            return self._task.run(given, self._recorder_for(sink))
        return self._call_with_timeout(self._timeout, given, _Return(self._outcome, sink), abandoned)

    def _describe_failure(
        self, error: BaseException, example: Example, abandoned: list[TaskResult]
    ) -> TaskOutcome:
        """Return the outcome of a call that raised, with the progress of one that was abandoned."""
        paid = getattr(error, "metrics", None)  # an unusable reply of a model costs like any other
        metrics = paid if isinstance(paid, CallMetrics) else None
        down = EndpointDownError.find_in_chain(error)
        text, advice = describe_error(error), self._advice_on(error, example)
        is_without_output = error.args == (NO_OUTPUT,)  # may be there the next time
        is_wrong_guess = advice is not None and not is_without_output
        if advice is not None and (self.advice is None or is_without_output):
            text = f"{text.rstrip('.')}. {advice}"
            self.advice = advice if is_wrong_guess else self.advice
        is_final = is_wrong_guess or isinstance(error, DatasetError | ReplayMissError)
        outcome = TaskOutcome(
            metrics=metrics, error=text, down=down, detail=describe_exception(error), is_final=is_final
        )
        for done in abandoned:
            paid_for = metrics or self._outcome(done).metrics
            outcome = outcome._replace(outputs=copy_containers(done.outputs), metrics=paid_for)
        return outcome

    def _advice_on(self, error: BaseException, example: Example) -> str | None:
        if self._arguments is None:
            return None
        return argument_advice(error, self._function, self._arguments, example)

    async def _call_with_timeout(
        self, seconds: float, example: Example, returned: _Return, abandoned: list[TaskResult]
    ) -> TaskOutcome:
        """Wait for a call for at most `seconds`; the progress of an abandoned call goes into `abandoned`."""
        with count_extra_time() as extra, track_progress() as progress:
            call = asyncio.create_task(_convert_system_exit(self._task.run(example, returned)))
        try:
            await wait_with_limit(call, seconds, extra)
        except asyncio.CancelledError:
            cancel_without_waiting(call)
            raise
        if call.done() or not returned.claim():
            return await call
        where = where_task_works(example) or locate_waiting_coroutine(call.get_coro())
        abandoned += [done for done in [progress.so_far()] if done is not None]
        # Not awaited: a call that swallows its cancellation must not keep the worker.
        cancel_without_waiting(call)
        self._abandoned += 1
        message = f"no answer within {seconds:g} s; the call was abandoned"
        # Not bound to a name, which would keep the frames alive.
        raise TimeoutError(message).with_traceback(where)

    def _recorder_for(self, sink: ItemSink | None) -> Callable[[TaskResult], TaskOutcome]:
        """Return a function that records the result of a call that has no timeout."""
        if sink is None:
            return self._outcome

        def record(result: TaskResult) -> TaskOutcome:
            outcome = self._outcome(result)
            if outcome.error is None:  # an error is written down when there are no attempts left
                sink(outcome)
            return outcome

        return record

    def _outcome(self, result: TaskResult) -> TaskOutcome:
        metrics, is_unpriced = result.metrics, self._prices is None
        if self._prices is not None:
            metrics = self._add_cost(self._prices, metrics)
        # As `TaskOutcome(...)` does, in two thirds of the time.
        return tuple.__new__(
            TaskOutcome,
            (result.outputs, metrics, result.error, None, result.error_detail, False, is_unpriced),
        )

    def _backoff_seconds(self, attempt: int) -> float:
        longest = min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2 ** (attempt - 1))
        return float(longest * self._random.uniform(0.5, 1.0))

    def _add_cost(self, prices: PriceTable, metrics: CallMetrics | None) -> CallMetrics | None:
        """Add the cost from the price table if the tokens are known and the task reported no cost."""
        if metrics is None or metrics.cost_usd is not None or metrics.tokens is None:
            return metrics
        try:
            cost = prices(metrics.model, metrics.tokens_in, metrics.tokens_out)
        except Exception as error:
            if self._price_problem is None:
                what = format_located_error(error)
                self._price_problem = f"The price table raised {what}; those items are unpriced."
            return metrics
        if cost is None:
            return metrics
        if not _is_price(cost):
            self._price_problem = (
                f"The price table gave {cost!r}, which is not a price; those items are unpriced."
            )
            return metrics
        return replace(metrics, cost_usd=cost)


class _Return:
    """Records the result of a call in the thread in which the task returns, at once.

    The call may have been abandoned before, at its timeout. Whichever claims it first, the return or the
    timeout, decides how it ended.
    """

    __slots__ = ("_claim", "_outcome", "_sink")

    def __init__(self, outcome: Callable[[TaskResult], TaskOutcome], sink: ItemSink | None) -> None:
        self._outcome = outcome
        self._sink = sink
        self._claim = threading.Lock()

    def __call__(self, result: TaskResult) -> TaskOutcome:
        outcome = self._outcome(result)
        if self._sink is not None and self.claim() and outcome.error is None:
            self._sink(outcome)
        return outcome

    def claim(self) -> bool:
        return self._claim.acquire(blocking=False)


async def _convert_system_exit(call: Coroutine[Any, Any, T]) -> T:
    """Await a call and turn a `SystemExit` into an error: in an asyncio task it would end the event loop."""
    try:
        return await call
    except SystemExit as exit_:
        message = f"the task called sys.exit({exit_.code!r})"
        raise RuntimeError(message).with_traceback(exit_.__traceback__) from None


def count_cancellations() -> int:
    """Return how often the current task was cancelled: what called code cancelled may have left a count."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def is_cancelled_from_outside(before: int) -> bool:
    """Say whether the current task was cancelled, rather than called code having raised CancelledError.

    Args:
        before: What `count_cancellations` returned before the code was called.
    """
    return count_cancellations() > before


def cancel_without_waiting(call: asyncio.Task[Any]) -> None:
    """Cancel a call without waiting for its end: it may swallow its cancellation."""
    call.cancel()
    call.add_done_callback(retrieve_exception)


def _is_price(cost: object) -> bool:
    return isinstance(cost, int | float) and math.isfinite(cost) and cost >= 0
