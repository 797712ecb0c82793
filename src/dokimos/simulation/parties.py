"""The two sides of a simulated conversation: calling them, and making messages of what they give."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

from dokimos.core.container_copy import copy_containers
from dokimos.core.conversation import ConversationTrajectory, Message, Role
from dokimos.core.jsonable import text_form
from dokimos.core.keys import OUTPUT, REASONING_STEPS, TOOL_CALLS
from dokimos.core.metrics import CallMetrics
from dokimos.core.task_result import TaskResult
from dokimos.core.text import quote
from dokimos.core.tool_lists import tool_calls_from
from dokimos.errors import AgentError
from dokimos.experiment.task import Task, prepare
from dokimos.experiment.task_calls import retrieve_exception
from dokimos.runtime.calling import resolve
from dokimos.runtime.concurrency import call_in_thread

T = TypeVar("T")

SimulatedUser: TypeAlias = Callable[[ConversationTrajectory], Any]
"""Takes the conversation so far and returns what the user says next, sync or async.

That is text or a `Message`; None ends the conversation, and so does a message whose metadata say that its
goal is "reached" or "given_up".
"""

INITIAL: Final = "initial"
"""In the metadata of a message: it was given to the simulator, and is no reply of the simulated user."""
GOAL: Final = "goal"
"""In the metadata of a user message: how the user's goal stands."""
GOAL_REASON: Final = "goalReason"
OPEN: Final = "open"
REACHED: Final = "reached"
GIVEN_UP: Final = "given_up"


class Answer(NamedTuple):
    """A reply of the application, and what it cost."""

    message: Message
    metrics: CallMetrics | None


class Side:
    """A user, an application or a stopping condition; a sync one is called in a thread."""

    def __init__(self, party: Callable[[ConversationTrajectory], Any]) -> None:
        # Like a task, a party may be sync or async; an application may return all that a task may.
        self._prepared = prepare(cast("Task", party))

    async def message(self, trajectory: ConversationTrajectory) -> Message | None:
        """Ask a simulated user what it says next. Raises what it raises, `TypeError` for anything else."""
        said = copy_containers(await self._asked(trajectory))
        if said is None or (isinstance(said, Message) and said.role is Role.USER):
            return said
        if isinstance(said, str):
            return Message.user(said)
        raise TypeError(f"it must give text, a user message or None, not {quote(said)}")

    async def holds(self, trajectory: ConversationTrajectory) -> bool:
        """Ask a stopping condition whether to stop. Raises what it raises."""
        return bool(await self._asked(trajectory))

    async def answer(self, trajectory: ConversationTrajectory) -> Answer:
        """Ask an application for its reply. Raises what it raises, `TypeError` for what is no reply."""
        result = await self._prepared.run(cast("Any", trajectory), _itself)
        if result.error is not None:
            raise AgentError(result.error, metrics=result.metrics)
        return Answer(_reply(result.outputs), result.metrics)

    async def _asked(self, trajectory: ConversationTrajectory) -> Any:
        party = cast("SimulatedUser", self._prepared.call)
        said = party(trajectory) if self._prepared.is_async else await call_in_thread(party, trajectory)
        return await resolve(said)


async def within(seconds: float | None, call: Coroutine[Any, Any, T]) -> T:
    """Await a call for so long. Raises `TimeoutError`; a call that does not end then is left behind."""
    if seconds is None:
        return await call
    task = asyncio.ensure_future(call)
    try:
        await asyncio.wait((task,), timeout=seconds)
    except asyncio.CancelledError:
        _leave(task)
        raise
    if task.done():
        return task.result()
    _leave(task)
    raise TimeoutError


def _itself(result: TaskResult) -> TaskResult:
    return result


def _reply(outputs: Mapping[str, Any]) -> Message:
    """Return outputs as a message; what else they hold, such as retrieved context, is in its metadata."""
    output = outputs.get(OUTPUT)
    if isinstance(output, Message):
        if output.role is not Role.ASSISTANT:
            raise TypeError(f"it must give a message of the assistant, not of the {output.role}")
        return output
    calls = tool_calls_from(outputs.get(TOOL_CALLS) or (), key=TOOL_CALLS)
    if output is None and not calls:
        raise TypeError(f"it must give text or a message, not {quote(dict(outputs))}")
    known = (OUTPUT, TOOL_CALLS, REASONING_STEPS)
    more = {key: value for key, value in outputs.items() if key not in known}
    return Message(Role.ASSISTANT, text_form(output) or "", tool_calls=calls, metadata=more)


def _leave(task: asyncio.Future[Any]) -> None:
    """Cancel a call without waiting for its end: one that swallows its cancellation must not keep us."""
    task.cancel()
    task.add_done_callback(retrieve_exception)
