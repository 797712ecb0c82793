"""Any callable as a task: sync or async, returning text, a mapping, a `TaskResult`, a stream ..."""

from __future__ import annotations

import contextlib
import functools
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import CoroutineType, TracebackType
from typing import Any, Concatenate, Final, TypeAlias, TypeVar, cast

from dokimos._core.agent import AgentTrace
from dokimos._core.container_copy import copy_containers
from dokimos._core.conversation import ConversationTrajectory
from dokimos._core.example import Example
from dokimos._core.fast_constructor import positional_factory
from dokimos._core.keys import OUTPUT
from dokimos._core.metrics import CallMetrics
from dokimos._core.task_result import TaskResult
from dokimos._core.type_parameters import In, Out
from dokimos._runtime.concurrency import call_in_thread
from dokimos._runtime.stuck_calls import locate_running_thread
from dokimos._runtime.user_calls import await_value, is_awaitable
from dokimos.datasets._answer_replay import read_recorded_answer

TaskOutput: TypeAlias = (
    Out
    | TaskResult
    | AgentTrace
    | ConversationTrajectory
    | Mapping[str, Any]
    | Iterator[str]
    | AsyncIterator[str]
)
Task: TypeAlias = (
    Callable[[In], Awaitable[TaskOutput[Out]]]
    | Callable[[In], TaskOutput[Out]]
    | Callable[[Example[In, Any]], Awaitable[TaskOutput[Out]]]
    | Callable[[Example[In, Any]], TaskOutput[Out]]
    | Callable[Concatenate[Any, Any, ...], Any]
)
"""Sync or async; called with the input, or with the `Example` where it names that (`task_arguments`).

`Task[Question, Answer]` takes a `Question` and gives an `Answer`, for type checkers. A function of several
inputs by name is a task of any types.

Returns a `TaskResult`, an `AgentTrace`, a `ConversationTrajectory`, a mapping of outputs, an iterator of text
chunks (sync or async), or any other value, which becomes the output called "output"; None is an error.
"""


T = TypeVar("T")

_new_metrics: Final = positional_factory(  # unchecked, of times that were measured here
    CallMetrics, "latency_ms", "first_chunk_ms", is_checked=False
)
_new_result: Final = positional_factory(TaskResult, "outputs", "metrics", "error", "error_detail")


@dataclass(frozen=True, slots=True)
class PreparedTask:
    """A task with what has to be known about it to call it."""

    call: Callable[[Example], Any]
    """Calls the task for an example; the task itself unless it takes something else."""
    name: str
    is_async: bool
    """Whether it is called on the event loop: it is async, or is known to wait for nothing."""

    async def run(self, example: Example, returned: Callable[[TaskResult], T]) -> T:
        """Call the task once and pass its result to `returned` in the thread and as soon as it returns.

        Its latency is measured where the task did not measure it itself.
        """
        if not self.is_async:
            return await self._run_in_thread(example, returned)
        start = time.perf_counter()
        value = self.call(example)
        if type(value) is CoroutineType:
            value = await value
        if type(value) is str:
            return returned(_normalize_output(value, None, start=start))
        return returned(await _finish(value, start))

    async def _run_in_thread(self, example: Example, returned: Callable[[TaskResult], T]) -> T:
        outcome = await call_in_thread(_call_measured, self.call, example, returned)
        if not isinstance(outcome, _Awaiting):
            return cast("T", outcome)
        return returned(await _finish(outcome.value, outcome.start))


@dataclass(frozen=True, slots=True)
class _Awaiting:
    """What a sync task returned that has to be awaited on the event loop."""

    value: Any
    start: float


def prepare(task: Task) -> PreparedTask:
    """Look at a callable once: its name, and whether to call it on the event loop or in a thread."""
    call = cast("Callable[[Example], Any]", task)
    # Recorded answers are only looked up, which a call in a thread makes four times as expensive.
    return PreparedTask(call, task_name(task), _is_async(task) or task is read_recorded_answer)


def task_name(task: Task) -> str:
    """Return `module:qualified.name`, which identifies the task across runs."""
    inner = unwrap(task)
    name = getattr(inner, "__qualname__", None) or type(inner).__qualname__
    return f"{getattr(inner, '__module__', None) or type(inner).__module__}:{name}"


def task_attribute(task: Task, name: str) -> Any:
    """Return what a task has beside being callable, such as `aclose`; None for what only a mock makes up."""
    return None if inspect.getattr_static(task, name, None) is None else getattr(task, name)


NO_OUTPUT: Final = "the task returned None; return the output, a mapping of outputs or a TaskResult"


def unwrap(task: Any) -> Any:
    """Return the function inside partials and decorators."""
    while isinstance(task, functools.partial):
        task = task.func
    try:
        return inspect.unwrap(task)
    except ValueError:  # a ring of wrappers, or an object that has every attribute
        return task


def _is_async(task: object) -> bool:
    inner = task
    while isinstance(inner, functools.partial):
        inner = inner.func
    call = inner if inspect.isroutine(inner) else getattr(type(inner), "__call__", inner)  # noqa: B004 - it may be async
    try:
        return inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call)
    except TypeError:  # a mock in the shape of a function, whose code is a mock
        return False


def where_task_works(example: object) -> TracebackType | None:
    """Return where the thread is that is calling a sync task with this very object, None if none is."""
    return locate_running_thread(_call_measured, example=example)


def _call_measured(
    call: Callable[[Example], Any], example: Example, returned: Callable[[TaskResult], T]
) -> T | _Awaiting:
    """Call a sync task in the thread it runs in; a returned awaitable goes back to the event loop."""
    start = time.perf_counter()
    value = call(example)
    if type(value) is str:
        return returned(_normalize_output(value, None, start=start))
    if is_awaitable(value) or isinstance(value, AsyncIterator):
        return _Awaiting(value, start)
    if isinstance(value, Iterator):
        return returned(_normalize_output(*_join_chunks(value, start), start=start))
    return returned(_normalize_output(value, None, start=start))


async def _finish(value: object, start: float) -> TaskResult:
    first_chunk_ms = None
    if type(value) not in (str, dict) and is_awaitable(value):
        value = await await_value(value)
    if type(value) is not str and isinstance(value, AsyncIterator):
        value, first_chunk_ms = await _join_async_chunks(value, start)
    return _normalize_output(value, first_chunk_ms, start=start)


def _normalize_output(value: object, first_chunk_ms: float | None, *, start: float) -> TaskResult:
    elapsed_ms = (time.perf_counter() - start) * 1000
    if type(value) is str:
        outputs: Mapping[str, Any] = {OUTPUT: value}
        metrics = error = detail = None
    else:
        result = to_task_result(value)
        outputs = copy_containers(result.outputs)  # the task may keep what it returned, and change it
        metrics, error, detail = result.metrics, result.error, result.error_detail
    if metrics is None:
        return _new_result(outputs, _new_metrics(elapsed_ms, first_chunk_ms), error, detail)
    if metrics.latency_ms is None:
        metrics = replace(metrics, latency_ms=elapsed_ms)
    return TaskResult(outputs, metrics, error=error, error_detail=detail)


def to_task_result(value: object) -> TaskResult:
    """Return what a task returned, which is not a stream, as a `TaskResult`. Raises `TypeError` for None."""
    if isinstance(value, TaskResult):
        if not isinstance(value.outputs, Mapping):
            raise TypeError(f"TaskResult.outputs must be a mapping, not {type(value.outputs).__name__}")
        if not isinstance(value.metrics, CallMetrics | None):
            raise TypeError(f"TaskResult.metrics must be CallMetrics, not {type(value.metrics).__name__}")
        if not isinstance(value.error, str | None):
            raise TypeError(f"TaskResult.error must be text, not {type(value.error).__name__}")
        return value
    if isinstance(value, Mapping):
        return TaskResult(value)
    if isinstance(value, AgentTrace):
        return TaskResult(value.outputs_so_far(), error=value.error)
    if isinstance(value, ConversationTrajectory):
        return TaskResult(value.to_outputs(), error=value.error)
    if value is None:
        raise TypeError(NO_OUTPUT)
    return TaskResult({OUTPUT: value})


def _join_chunks(chunks: Iterator[Any], start: float) -> tuple[str, float | None]:
    parts: list[str] = []
    first_chunk_ms = None
    for chunk in chunks:
        if first_chunk_ms is None:
            first_chunk_ms = (time.perf_counter() - start) * 1000
        parts.append(_text_chunk(chunk))
    return "".join(parts), first_chunk_ms


async def _join_async_chunks(chunks: AsyncIterator[Any], start: float) -> tuple[str, float | None]:
    parts: list[str] = []
    first_chunk_ms = None
    async with _closing(chunks):
        async for chunk in chunks:
            if first_chunk_ms is None:
                first_chunk_ms = (time.perf_counter() - start) * 1000
            parts.append(_text_chunk(chunk))
    return "".join(parts), first_chunk_ms


@contextlib.asynccontextmanager
async def _closing(chunks: AsyncIterator[Any]) -> AsyncIterator[None]:
    """Close an asynchronous generator also where its chunks are not read to the end."""
    try:
        yield
    finally:
        close = getattr(chunks, "aclose", None)
        if close is not None:
            await close()


def _text_chunk(chunk: object) -> str:
    if not isinstance(chunk, str):
        raise TypeError(f"a streamed output must consist of text, not of {type(chunk).__name__}")
    return chunk
