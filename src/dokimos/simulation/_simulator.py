"""The conversation loop: the user and the application speak in turn until there is a reason to end."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from dokimos._core.conversation import Application, ConversationTrajectory, Message
from dokimos._core.jsonable import jsonable
from dokimos._core.keys import END_REASON
from dokimos._core.metrics import CallMetrics
from dokimos._core.text import error_text
from dokimos._runtime.concurrency import run_sync
from dokimos.errors import BudgetExceededError, ConfigurationError
from dokimos.evaluators._setting_checks import check_whole
from dokimos.experiment._task_calls import count_cancellations, is_cancelled_from_outside
from dokimos.judges._run_scope import Usage, counting_usage
from dokimos.simulation._sides import (
    GIVEN_UP,
    GOAL,
    INITIAL,
    REACHED,
    Side,
    SimulatedUser,
    wait_at_most,
)

T = TypeVar("T")

StoppingCondition: TypeAlias = Callable[[ConversationTrajectory], Any]
"""A function, sync or async, of the conversation after each message that returns whether to stop.

A sync function is called in a thread, so that it may block.
"""

ERROR: Final = "error"
USER_METRICS: Final = "userMetrics"
"""In the metadata of a trajectory: what the simulated user's model calls took."""


class EndReason(StrEnum):
    """Why a simulated conversation ended; under "endReason" in the metadata of its trajectory."""

    MAX_TURNS = "max_turns"
    STOPPING_CONDITION = "stopping_condition"
    USER_DONE = "user_done"
    GOAL_REACHED = "goal_reached"
    GAVE_UP = "gave_up"
    TIMEOUT = "timeout"
    ERROR = "error"


_ENDS: Final = {REACHED: EndReason.GOAL_REACHED, GIVEN_UP: EndReason.GAVE_UP}


class Outcome(NamedTuple):
    """A conversation that has ended, the cost of the application's replies, and the error that ended it."""

    trajectory: ConversationTrajectory
    metrics: CallMetrics | None
    cause: BaseException | None


@dataclass(frozen=True, kw_only=True)
class ConversationSimulator:
    """A conversation between a simulated user and an application.

    In each turn the user speaks and the application replies. The stopping condition is called after each
    message. The metadata of the trajectory holds under "endReason" why the conversation ended. If a side
    fails or takes too long, the conversation ends there: the trajectory keeps the messages so far, and
    "error" in its metadata says what happened.
    """

    user: SimulatedUser
    application: Application
    max_turns: int = 10
    scenario: str = ""
    """What the conversation is about, for the simulated user and the transcript."""
    initial_message: str = ""
    """The first message of the user, instead of one from the simulated user."""
    stopping_condition: StoppingCondition | None = None
    reply_timeout: float | None = None
    """Seconds that either side may take for one message."""
    timeout: float | None = None
    """Seconds that the whole conversation may take."""

    def __post_init__(self) -> None:
        for name in ("user", "application", "stopping_condition"):
            value = getattr(self, name)
            if not callable(value) and not (value is None and name == "stopping_condition"):
                raise ConfigurationError(f"The simulator's {name} must be callable, not {value!r:.80}.")
        check_whole(self, "max_turns", self.max_turns, least=1)
        _check_seconds("reply_timeout", self.reply_timeout)
        _check_seconds("timeout", self.timeout)

    def simulate(self) -> ConversationTrajectory:
        """Simulate the conversation and return it."""
        return run_sync(self.simulate_async())

    async def simulate_async(self) -> ConversationTrajectory:
        """Simulate the conversation on the running event loop.

        Raises:
            BudgetExceededError: if the run's budget does not allow a call of the simulated user.
        """
        return (await self.play()).trajectory

    async def play(self) -> Outcome:
        """Simulate the conversation and return it with its cost and the error that ended it, if any."""
        return await _Conversation(self).play()


class _ConversationBroken(Exception):
    """Ends a conversation in which a side failed."""

    def __init__(self, reason: EndReason, text: str, cause: BaseException) -> None:
        self.reason = reason
        self.text = text
        self.cause = cause


class _Conversation:
    """The state of one conversation while it runs."""

    def __init__(self, plan: ConversationSimulator) -> None:
        self._plan = plan
        self._user = Side(plan.user)
        self._application = Side(plan.application)
        self._condition = None if plan.stopping_condition is None else Side(plan.stopping_condition)
        self._trajectory = ConversationTrajectory(scenario=plan.scenario)
        self._turn = 0
        self._metrics: CallMetrics | None = None
        self._usage = Usage()
        self._end = math.inf if plan.timeout is None else time.monotonic() + plan.timeout

    async def play(self) -> Outcome:
        metadata: dict[str, Any] = {}
        cause = None
        try:
            metadata[END_REASON] = str(await self._turns())
        except _ConversationBroken as broken:
            metadata |= {END_REASON: str(broken.reason), ERROR: broken.text}
            cause = broken.cause
        if self._usage.metrics not in (None, CallMetrics()):
            metadata[USER_METRICS] = jsonable(self._usage.metrics)
        return Outcome(replace(self._trajectory, metadata=metadata), self._metrics, cause)

    async def _turns(self) -> EndReason:
        for turn in range(1, self._plan.max_turns + 1):
            self._turn = turn
            for step in (self._user_speaks, self._application_speaks):
                reason = await step()
                if reason is None and self._condition is not None:
                    reason = await self._is_stopped(self._condition)
                if reason is not None:
                    return reason
        return EndReason.MAX_TURNS

    async def _user_speaks(self) -> EndReason | None:
        if self._turn == 1 and self._plan.initial_message:
            self._add(Message.user(self._plan.initial_message, **{INITIAL: True}))
            return None
        with counting_usage() as usage:
            try:
                message = await self._call_side(
                    "simulated user", lambda: self._user.message(self._trajectory)
                )
            finally:
                # In `finally`: calls before a failure or a time limit cost money, too.
                if usage.calls:
                    self._usage.include(usage)
        if message is None:
            return EndReason.USER_DONE
        goal = message.metadata.get(GOAL)
        reason = _ENDS.get(goal) if isinstance(goal, str) else None
        # A user who is done may have no last word; an empty message is only added to an open conversation.
        if message.content or reason is None:
            self._add(message)
        return reason

    async def _application_speaks(self) -> EndReason | None:
        answer = await self._call_side("application", lambda: self._application.answer(self._trajectory))
        self._add(answer.message)
        if answer.metrics is not None:
            self._metrics = answer.metrics if self._metrics is None else self._metrics + answer.metrics
        return None

    async def _is_stopped(self, condition: Side) -> EndReason | None:
        stops = await self._call_side("stopping condition", lambda: condition.holds(self._trajectory))
        return EndReason.STOPPING_CONDITION if stops else None

    def _add(self, message: Message) -> None:
        self._trajectory = self._trajectory.with_message(message)

    async def _call_side(self, who: str, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Await a side. Raises `_ConversationBroken` if it fails or takes too long."""
        seconds = self._seconds()
        try:
            return await wait_at_most(seconds, _contain_error(ask))
        except _SideFailed as failure:
            error = failure.error
        except TimeoutError as late:
            raise _ConversationBroken(EndReason.TIMEOUT, self._timeout_message(who), late) from late
        where = f"The {who} failed in turn {self._turn}"
        raise _ConversationBroken(EndReason.ERROR, f"{where}: {error_text(error)}", error) from error

    def _seconds(self) -> float | None:
        """Return how many seconds the next message may take, None for no limit."""
        limit = self._plan.reply_timeout
        if self._end == math.inf:
            return limit
        left = max(self._end - time.monotonic(), 0.0)
        return left if limit is None else min(limit, left)

    def _timeout_message(self, who: str) -> str:
        if self._plan.reply_timeout is None or time.monotonic() >= self._end:
            seconds, what = self._plan.timeout, "The conversation took longer than"
        else:
            seconds, what = self._plan.reply_timeout, f"The {who} gave no answer within"
        return f"{what} {seconds:g} s; it ended in turn {self._turn}, waiting for the {who}."


class _SideFailed(Exception):
    """Wraps what a side raised, so that its own `TimeoutError` is not taken for ours."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


async def _contain_error(ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
    cancellations = count_cancellations()
    try:
        return await ask()
    except asyncio.CancelledError as error:
        # Cancelled by the run, it ends; raised by the side itself, it is an error like any other.
        if is_cancelled_from_outside(cancellations):
            raise
        raise _SideFailed(error) from error
    # These end the run, not only this conversation.
    except (KeyboardInterrupt, GeneratorExit, BudgetExceededError):
        raise
    except BaseException as error:  # also SystemExit, which would end the event loop
        raise _SideFailed(error) from error


def _check_seconds(name: str, seconds: object) -> None:
    if seconds is None:
        return
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 < seconds < math.inf:
        raise ConfigurationError(f"The simulator's {name} must be more than 0 seconds, not {seconds!r}.")
