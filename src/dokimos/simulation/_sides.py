"""The two sides of a simulated conversation: calling them, and turning what they return into messages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

from dokimos._core.container_copy import copy_containers
from dokimos._core.conversation import ConversationTrajectory, Message, Role
from dokimos._core.jsonable import text_form
from dokimos._core.keys import OUTPUT, REASONING_STEPS, TOOL_CALLS
from dokimos._core.metrics import CallMetrics
from dokimos._core.task_result import TaskResult
from dokimos._core.text import quote
from dokimos._core.tool_lists import tool_calls_from
from dokimos._runtime.concurrency import call_in_thread
from dokimos._runtime.user_calls import await_value
from dokimos.errors import AgentError
from dokimos.experiment._task import Task, prepare
from dokimos.experiment._task_calls import cancel_without_waiting

T = TypeVar("T")

SimulatedUser: TypeAlias = Callable[[ConversationTrajectory], Any]
"""A function, sync or async, of the conversation so far that returns what the user says next.

It returns text or a `Message`. None ends the conversation, and so does a message whose metadata says that
its goal is "reached" or "given_up".
"""

INITIAL: Final = "initial"
"""In the metadata of a message: it was given to the simulator and does not come from the simulated user."""
GOAL: Final = "goal"
"""In the metadata of a user message: the state of the user's goal."""
GOAL_REASON: Final = "goalReason"
OPEN: Final = "open"
REACHED: Final = "reached"
GIVEN_UP: Final = "given_up"


class Answer(NamedTuple):
    """A reply of the application, and what it cost."""

    message: Message
    metrics: CallMetrics | None


class Side:
    """A user, an application or a stopping condition. A sync function is called in a thread."""

    def __init__(self, function: Callable[[ConversationTrajectory], Any]) -> None:
        # Like a task, a side may be sync or async, and an application may return whatever a task may.
        self._prepared = prepare(cast("Task", function))

    async def message(self, trajectory: ConversationTrajectory) -> Message | None:
        """Ask a simulated user for its next message. Raises what it raises, `TypeError` for a wrong type."""
        # The function may go on changing what it returned.
        message = copy_containers(await self._call(trajectory))
        if message is None or (isinstance(message, Message) and message.role is Role.USER):
            return message
        if isinstance(message, str):
            return Message.user(message)
        raise TypeError(f"it must return text, a user message or None, not {quote(message)}")

    async def holds(self, trajectory: ConversationTrajectory) -> bool:
        """Ask a stopping condition whether to stop. Raises what it raises."""
        return bool(await self._call(trajectory))

    async def answer(self, trajectory: ConversationTrajectory) -> Answer:
        """Ask an application for its reply. Raises what it raises, `TypeError` for a wrong type."""
        result = await self._prepared.run(cast("Any", trajectory), _return_result)
        if result.error is not None:
            raise AgentError(result.error, metrics=result.metrics)
        return Answer(_reply(result.outputs), result.metrics)

    async def _call(self, trajectory: ConversationTrajectory) -> Any:
        function = cast("SimulatedUser", self._prepared.call)
        message = (
            function(trajectory) if self._prepared.is_async else await call_in_thread(function, trajectory)
        )
        return await await_value(message)


async def wait_at_most(seconds: float | None, call: Coroutine[Any, Any, T]) -> T:
    """Await a call for at most `seconds`. Raises `TimeoutError` and abandons the call if it takes longer."""
    if seconds is None:
        return await call
    # Not `asyncio.wait_for`, which waits until the cancelled call ends: one that ignores it would hold the
    # run.
    task = asyncio.ensure_future(call)
    try:
        await asyncio.wait((task,), timeout=seconds)
    except asyncio.CancelledError:
        cancel_without_waiting(task)
        raise
    if task.done():
        return task.result()
    cancel_without_waiting(task)
    raise TimeoutError


def _return_result(result: TaskResult) -> TaskResult:
    return result


def _reply(outputs: Mapping[str, Any]) -> Message:
    """Return outputs as a message, with anything else in them, such as retrieved context, as its metadata."""
    output = outputs.get(OUTPUT)
    if isinstance(output, Message):
        if output.role is not Role.ASSISTANT:
            raise TypeError(f"it must return a message of the assistant, not of the {output.role}")
        return output
    calls = tool_calls_from(outputs.get(TOOL_CALLS) or (), key=TOOL_CALLS)
    if output is None and not calls:
        raise TypeError(f"it must return text or a message, not {quote(dict(outputs))}")
    own_keys = (OUTPUT, TOOL_CALLS, REASONING_STEPS)
    more = {key: value for key, value in outputs.items() if key not in own_keys}
    return Message(Role.ASSISTANT, text_form(output) or "", tool_calls=calls, metadata=more)
