"""Gathering the outcomes of several coroutines without a task for those that do not wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Generic, TypeVar

from dokimos._runtime.time_limits import retrieve_exception

T = TypeVar("T")


class Begun(Generic[T]):
    """A coroutine that has begun to wait; awaiting this runs it to its end, each step in its context."""

    __slots__ = ("_call", "_waits_for", "context", "is_closed")

    def __init__(self, call: Coroutine[Any, Any, T], context: Context, waits_for: object) -> None:
        self._call, self.context, self._waits_for = call, context, waits_for
        self.is_closed = False
        """Whether what awaited this was closed, as when its loop ends."""

    def wait_again(self) -> None:
        """Mark the future that is waited for as such, where others have begun to wait for it meanwhile."""
        future: Any = self._waits_for
        if getattr(future, "_asyncio_future_blocking", None) is False:
            future._asyncio_future_blocking = True

    def __await__(self) -> Generator[object, Any, T]:
        step: Callable[[], object]
        waits_for = self._waits_for
        while True:
            try:
                step = partial(self._call.send, (yield waits_for))
            except GeneratorExit:
                self.is_closed = True
                self.context.run(self._call.close)
                raise
            except BaseException as error:
                step = partial(self._call.throw, error)
            try:
                waits_for = self.context.run(step)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return] # what the coroutine returns


def begin(call: Coroutine[Any, Any, T]) -> T | Begun[T]:
    """Begin a coroutine in the current task and a context of its own; return its result if it does not wait.

    Raises:
        BaseException: whatever the coroutine raises before it waits.
    """
    context = copy_context()
    try:
        waits_for = context.run(call.send, None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return] # what the coroutine returns
    return Begun(call, context, waits_for)


async def gather_outcomes(
    calls: Iterable[Coroutine[Any, Any, T]], *, before_waiting: Callable[[], None] | None = None
) -> list[T | BaseException]:
    """Return what each coroutine returned or raised, as `asyncio.gather` does with `return_exceptions=True`.

    They are begun one after another in the current task, each in a context of its own. The first one that
    waits stays in this task, since it may have remembered it (as `asyncio.timeout` does), and those after it
    get tasks: so nothing that could be begun waits for another. `calls` had best make them when asked.
    `before_waiting` is called before any of them is waited for, if one has to be.
    """
    outcomes: list[T | BaseException] = []
    remaining = iter(calls)
    for call in remaining:
        begun: T | Begun[T]
        try:
            begun = begin(call)
        except (KeyboardInterrupt, SystemExit, asyncio.CancelledError):
            raise
        except BaseException as error:
            outcomes.append(error)
            continue
        if not isinstance(begun, Begun):
            outcomes.append(begun)
            continue
        if before_waiting is not None:
            before_waiting()
        rest = asyncio.gather(*remaining, return_exceptions=True)
        begun.wait_again()  # one of the rest, begun at once by an eager task factory, may wait for the same
        rest.add_done_callback(retrieve_exception)  # nobody awaits it where this one is closed
        outcomes.append(await _finish(begun, rest))
        outcomes += await rest
    return outcomes


async def _finish(begun: Begun[Any], rest: asyncio.Future[Any]) -> Any:
    """Return the outcome of a coroutine that has begun to wait; cancelling this cancels the rest, too.

    The rest is cancelled only when this coroutine has ended with its cancellation. One that it suppressed is
    taken for that of a time limit of its own, which ends nothing but itself.
    """
    task = asyncio.current_task()
    cancellations = task.cancelling() if task else 0
    outcome: Any
    try:
        outcome = await begun
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        if begun.is_closed:
            rest.cancel()
            raise
        outcome = error
    is_cancelled = task is not None and task.cancelling() > cancellations
    if is_cancelled and isinstance(outcome, asyncio.CancelledError):
        rest.cancel()
        await asyncio.wait((rest,))
        raise asyncio.CancelledError
    while task is not None and task.cancelling() > cancellations:
        task.uncancel()  # it was a time limit of the coroutine's own, which it has handled
    return outcome
