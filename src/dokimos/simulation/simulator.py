"""Driving a conversation: the user and the application speak in turn until there is a reason to end."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from dokimos.core.conversation import Application, ConversationTrajectory, Message
from dokimos.core.jsonable import jsonable
from dokimos.core.keys import END_REASON
from dokimos.core.metrics import CallMetrics
from dokimos.core.text import error_text
from dokimos.errors import BudgetExceededError, ConfigurationError
from dokimos.evaluators.setting_checks import check_whole
from dokimos.experiment.task_calls import is_cancelled_from_outside
from dokimos.judges.run_scope import Usage, counting_usage
from dokimos.runtime.concurrency import run_sync
from dokimos.simulation.parties import (
    GIVEN_UP,
    GOAL,
    INITIAL,
    REACHED,
    Side,
    SimulatedUser,
    within,
)

T = TypeVar("T")

StoppingCondition: TypeAlias = Callable[[ConversationTrajectory], Any]
"""Looks at the conversation after each message and says whether to stop, sync or async.

Like the sides, a sync one is called in a thread, so that it may take its time.
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
    """A conversation that has ended, what the application's replies cost, and what broke it off."""

    trajectory: ConversationTrajectory
    metrics: CallMetrics | None
    cause: BaseException | None


@dataclass(frozen=True, kw_only=True)
class ConversationSimulator:
    """Lets a simulated user and an application talk.

    In each turn the user speaks and the application replies; after each message the stopping condition is
    asked. Why the conversation ended is under "endReason" in the metadata of the trajectory. Where a side
    fails, or takes too long, the conversation ends there: what was said is kept, and "error" says what
    happened.
    """

    user: SimulatedUser
    application: Application
    max_turns: int = 10
    scenario: str = ""
    """What the conversation is about, for the simulated user and the transcript."""
    initial_message: str = ""
    """What the user says first, instead of asking the simulated user."""
    stopping_condition: StoppingCondition | None = None
    reply_timeout: float | None = None
    """Seconds that either side may take for one message."""
    timeout: float | None = None
    """Seconds that the whole conversation may take."""

    def __post_init__(self) -> None:
        for name in ("user", "application", "stopping_condition"):
            given = getattr(self, name)
            if not callable(given) and not (given is None and name == "stopping_condition"):
                raise ConfigurationError(f"The simulator's {name} must be callable, not {given!r:.80}.")
        check_whole(self, "max_turns", self.max_turns, least=1)
        _check_seconds("reply_timeout", self.reply_timeout)
        _check_seconds("timeout", self.timeout)

    def simulate(self) -> ConversationTrajectory:
        """Hold the conversation."""
        return run_sync(self.simulate_async())

    async def simulate_async(self) -> ConversationTrajectory:
        """Hold the conversation on the event loop that is running.

        Raises:
            BudgetExceededError: when the run's budget does not allow a call of the simulated user.
        """
        return (await self.play()).trajectory

    async def play(self) -> Outcome:
        """Hold the conversation and return all there is to know about it."""
        return await _Conversation(self).play()


class _BrokenOff(Exception):
    """Unwinds a conversation in which a side failed."""

    def __init__(self, reason: EndReason, text: str, cause: BaseException) -> None:
        self.reason = reason
        self.text = text
        self.cause = cause


class _Conversation:
    """One conversation while it goes on."""

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
        except _BrokenOff as broken:
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
                message = await self._asked("simulated user", lambda: self._user.message(self._trajectory))
            finally:
                if usage.calls:
                    self._usage.include(usage)
        if message is None:
            return EndReason.USER_DONE
        goal = message.metadata.get(GOAL)
        reason = _ENDS.get(goal) if isinstance(goal, str) else None
        if message.content or reason is None:
            self._add(message)
        return reason

    async def _application_speaks(self) -> EndReason | None:
        answer = await self._asked("application", lambda: self._application.answer(self._trajectory))
        self._add(answer.message)
        if answer.metrics is not None:
            self._metrics = answer.metrics if self._metrics is None else self._metrics + answer.metrics
        return None

    async def _is_stopped(self, condition: Side) -> EndReason | None:
        stops = await self._asked("stopping condition", lambda: condition.holds(self._trajectory))
        return EndReason.STOPPING_CONDITION if stops else None

    def _add(self, message: Message) -> None:
        self._trajectory = self._trajectory.with_message(message)

    async def _asked(self, who: str, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Await a side. Raises `_BrokenOff` where it fails or takes too long."""
        seconds = self._seconds()
        try:
            return await within(seconds, _contained(ask))
        except _Contained as contained:
            error = contained.error
        except TimeoutError as late:
            raise _BrokenOff(EndReason.TIMEOUT, self._late(who), late) from late
        where = f"The {who} failed in turn {self._turn}"
        raise _BrokenOff(EndReason.ERROR, f"{where}: {error_text(error)}", error) from error

    def _seconds(self) -> float | None:
        """How long the next message may take, None where that does not matter."""
        limit = self._plan.reply_timeout
        if self._end == math.inf:
            return limit
        left = max(self._end - time.monotonic(), 0.0)
        return left if limit is None else min(limit, left)

    def _late(self, who: str) -> str:
        if self._plan.reply_timeout is None or time.monotonic() >= self._end:
            seconds, what = self._plan.timeout, "The conversation took longer than"
        else:
            seconds, what = self._plan.reply_timeout, f"The {who} gave no answer within"
        return f"{what} {seconds:g} s; it ended in turn {self._turn}, waiting for the {who}."


class _Contained(Exception):
    """Carries what a side raised, so that a `TimeoutError` of its own is told from ours."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


async def _contained(ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
    try:
        return await ask()
    except asyncio.CancelledError as error:
        if is_cancelled_from_outside():
            raise
        raise _Contained(error) from error
    except (KeyboardInterrupt, GeneratorExit, BudgetExceededError):
        raise
    except BaseException as error:  # also SystemExit, which would end the event loop
        raise _Contained(error) from error


def _check_seconds(name: str, seconds: Any) -> None:
    if seconds is None:
        return
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 < seconds < math.inf:
        raise ConfigurationError(f"The simulator's {name} must be more than 0 seconds, not {seconds!r}.")
