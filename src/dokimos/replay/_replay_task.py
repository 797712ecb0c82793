"""A task that runs an application offline, with a replay of each item."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Any, Final, TypeVar

from dokimos._core.example import Example
from dokimos._core.task_marker import takes_example
from dokimos._core.task_result import TaskResult
from dokimos._runtime.user_calls import is_awaitable
from dokimos.experiment._task import to_task_result
from dokimos.replay._replay import Replay

T = TypeVar("T")

UNUSED: Final = "unusedRecordings"
"""In the outputs: the recorded calls that the candidate did not make."""


def replay_task(
    application: Callable[[Any, Replay], Any], *, allow_repeats: bool = False
) -> Callable[[Example], Any]:
    """Return a task that calls an application with the input of an example and a replay of its recordings.

    A call that was not recorded makes the item errored, also where the application catches the error and
    answers something else. Recorded calls that it does not make are under "unusedRecordings" in the outputs.
    Each repeat of an item begins its replay anew.

    Args:
        application: Sync or async; returns what a task returns.
        allow_repeats: As in `Replay`.

    Example:
        >>> recorded = {"modelCalls": [], "toolCalls": [{"name": "find", "result": "Rome"}]}
        >>> task = replay_task(lambda question, replay: replay.call_tool("find"))
        >>> example = Example.of("Where?", "Rome", recorded=recorded)
        >>> evaluate([example], task, [ExactMatch()], quiet=True, journal=False).pass_rate
        1.0
    """
    call = application if inspect.isroutine(application) else getattr(application, "__call__", application)  # noqa: B004 - it may be async
    if inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call):

        async def task_async(example: Example) -> TaskResult:
            with Replay(example, allow_repeats=allow_repeats) as replay:
                return await _finish(application(example.input_value, replay), replay)

        return _name_after(application, task_async)

    def task(example: Example) -> Any:
        replay = Replay(example, allow_repeats=allow_repeats)
        with replay:
            value = application(example.input_value, replay)
            if isinstance(value, Iterator):
                value = "".join(value)
            if not (is_awaitable(value) or isinstance(value, AsyncIterator)):
                return _add_unused(value, replay)
        return _finish_within(value, replay)

    return _name_after(application, task)


def _name_after(application: Callable[..., Any], task: Callable[[Example], Any]) -> Callable[[Example], Any]:
    # Resuming and reuse identify a task by its name and code, so these are the application's. Its
    # signature is not: the task takes the example.
    functools.update_wrapper(
        task, application, assigned=("__module__", "__name__", "__qualname__"), updated=()
    )
    return takes_example(task)


async def _finish_within(value: Any, replay: Replay) -> TaskResult:
    with replay:
        return await _finish(value, replay)


async def _finish(value: Any, replay: Replay) -> TaskResult:
    if is_awaitable(value):
        value = await value
    if isinstance(value, AsyncIterator):
        value = "".join([chunk async for chunk in value])
    elif isinstance(value, Iterator):
        value = "".join(value)
    return _add_unused(value, replay)


def _add_unused(value: Any, replay: Replay) -> TaskResult:
    result = to_task_result(value)
    unused = replay.unused
    if not unused:
        return result
    return replace(result, outputs={**result.outputs, UNUSED: list(unused)})
