"""The task of a suite: asks the application once, or turn by turn in one session."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from dokimos._core.container_copy import copy_containers
from dokimos._core.conversation import ConversationTrajectory, Message
from dokimos._core.error_detail import ErrorDetail
from dokimos._core.example import Example
from dokimos._core.jsonable import text_form
from dokimos._core.keys import INPUT, OUTPUT, TOOL_CALLS, TOOLS, TRAJECTORY
from dokimos._core.metrics import CallMetrics
from dokimos._core.task_marker import takes_example
from dokimos._core.task_result import TaskResult
from dokimos._core.text import error_text
from dokimos._core.tool_lists import tool_calls_from
from dokimos._runtime.time_limits import limit_time
from dokimos._runtime.user_calls import await_value
from dokimos.errors import AgentError, BudgetExceededError, EndpointDownError
from dokimos.experiment._task import Task, prepare, where_task_works
from dokimos.judges._optional_protocols import AsyncClosable, CountsOwnCalls
from dokimos.judges._run_scope import current_scope
from dokimos.suites._case_plan import (
    TURN_ERROR,
    TURNS,
    CasePlan,
    TurnPlan,
    build_failed_turn,
    turn_error_detail,
)
from dokimos.suites._fatal_graders import fatal_graders
from dokimos.suites._targets import Application, Reply, Request, normalize_outputs

MOST_FAILURES: Final = 2
"""So many turns in a row without a reply end a conversation."""
NOT_SENT: Final = "not sent: the turns before it had no reply"


@dataclass(frozen=True)
class SuiteTask:
    """Runs the cases of a suite against its application."""

    cases: Mapping[str | None, CasePlan]
    application: Application
    timeout: float = 60.0
    identity: str = ""
    answers_elsewhere: bool = False
    """Whether what answers is outside of this process, so that nobody here can see that it changed."""

    _attempts: Counter[tuple[int, str | None]] = field(default_factory=Counter, init=False, repr=False)
    """How often each example was begun in each run."""
    _active: Counter[str | None] = field(default_factory=Counter, init=False, repr=False)
    """Which examples are being run."""

    def __post_init__(self) -> None:
        # The task's name in reports. Two agents are two tasks: a run of one is not resumed with the other.
        object.__setattr__(self, "__module__", "suite")
        object.__setattr__(self, "__qualname__", self.identity or "application")

    @property
    def time_limit(self) -> float:
        """Seconds after which a reply that holds up the event loop is broken off."""
        return self.timeout

    @property
    def counts_own_calls(self) -> bool:
        """Whether the application accounts to the budget for each of its model calls."""
        return isinstance(self.application, CountsOwnCalls) and self.application.counts_own_calls

    @takes_example
    async def __call__(self, example: Example) -> TaskResult:
        self._active[example.id] += 1
        try:
            return await self._run(self.cases[example.id], example)
        finally:
            self._active[example.id] -= 1

    async def aclose(self) -> None:
        """Let the application close what it has open, unless another run is using it."""
        if isinstance(self.application, AsyncClosable) and not any(self._active.values()):
            await self.application.aclose()

    async def _run(self, case: CasePlan, example: Example) -> TaskResult:
        reply = await await_value(self.application())
        session = _Session(reply, self.timeout, sample=self._sample(case, example))
        if case.is_conversation:
            return await session.conversation(case, example)
        return await session.ask(case.turns[0], example)

    def _sample(self, case: CasePlan, example: Example) -> int:
        """Return a number that each repeat of a case and each attempt at it has for itself."""
        # Without a number of their own, repeats and retries would get the first reply from the call stores.
        attempt_key = (current_scope().run_index, example.id)
        attempt = self._attempts[attempt_key]
        self._attempts[attempt_key] += 1
        return attempt * case.repeats + case.ids.index(str(example.id))


@dataclass
class _Session:
    """One case: what was said, and what the application remembers."""

    reply: Reply
    timeout: float
    sample: int = 0
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    trajectory: ConversationTrajectory = field(default_factory=ConversationTrajectory)
    memory: dict[str, Any] = field(default_factory=dict)
    tools: dict[str, Any] = field(default_factory=dict)
    """Those of the agent, as it tells them with its replies; empty where it does not."""

    async def ask(self, turn: TurnPlan, example: Example) -> TaskResult:
        """Ask for one reply. Raises what the application raises, or `TimeoutError`."""
        request = Request(
            input=turn.input,
            conversation=self.trajectory,
            session_id=self.id,
            session=self.memory,
            turn_index=turn.index,
            files=copy_containers(turn.files),
            sample=self.sample,
            example=_example_of(turn, example),
        )
        prepared = prepare(cast("Task", self.reply))
        try:
            async with limit_time(self.timeout) as limit:
                result = await prepared.run(cast("Example", request), _complete)
        except TimeoutError as late:
            if not limit.expired():
                raise
            # Say in which line of the application the time ran out, not in which of ours.
            cut = late.__cause__  # the cancellation, which broke off an async reply where it waited
            where = where_task_works(request) or (None if cut is None else cut.__traceback__)
            raise TimeoutError(f"no reply within {self.timeout:g} s").with_traceback(where) from None
        if result.error is None:
            self._remember(turn, result)
        return result

    async def conversation(self, case: CasePlan, example: Example) -> TaskResult:
        """Go through the turns; one without a reply has an error in its outputs.

        Two in a row without a reply, or a grader with `fail_on_error` that raises, end it.
        """
        turns: list[dict[str, Any]] = []
        metrics = CallMetrics()
        failures = 0
        stop: str | None = None
        raised: dict[int, Exception] = {}
        for turn in case.turns:
            if stop is not None:
                turns.append(build_failed_turn(turn.input, stop))
                continue
            try:
                result = await self.ask(turn, example)
            except (BudgetExceededError, EndpointDownError):
                raise
            except Exception as error:  # the application is somebody else's code
                failures += 1
                raised[turn.index] = error
                stop = NOT_SENT if failures >= MOST_FAILURES else None
                metrics += getattr(error, "metrics", None) or CallMetrics()
                turns.append(build_failed_turn(turn.input, error_text(error), ErrorDetail.of(error)))
            else:
                metrics += result.metrics or CallMetrics()
                if result.error is not None:
                    failures += 1
                    stop = NOT_SENT if failures >= MOST_FAILURES else None
                    failed = build_failed_turn(turn.input, result.error, result.error_detail)
                    turns.append({**failed, **self._take_tools(result.outputs), **failed})
                    continue
                failures = 0
                turns.append({"input": turn.input, **self._take_tools(result.outputs)})
                # Now, while it can still end the conversation; the result is kept for the end of the case.
                stop = await _fatal_grade(case, example, turn, {TURNS: turns, **self.tools})
        if all(TURN_ERROR in turn for turn in turns):
            return _fail_without_reply(turns, raised, metrics)
        return TaskResult(self._outputs(turns), metrics)

    def _outputs(self, turns: list[dict[str, Any]]) -> dict[str, Any]:
        calls = [call for turn in turns for call in turn.get(TOOL_CALLS) or ()]
        last = turns[-1].get(OUTPUT, "")
        return {OUTPUT: last, TOOL_CALLS: calls, TURNS: turns, TRAJECTORY: self.trajectory, **self.tools}

    def _take_tools(self, outputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs of a turn without the agent's tools, which are kept once for the whole case."""
        if outputs.get(TOOLS) is not None:
            self.tools = {TOOLS: outputs[TOOLS]}
        return {key: value for key, value in outputs.items() if key != TOOLS}

    def _remember(self, turn: TurnPlan, result: TaskResult) -> None:
        recorded_calls = result.outputs.get(TOOL_CALLS)
        calls = () if recorded_calls is None else tool_calls_from(recorded_calls, key=TOOL_CALLS)
        answer = Message.assistant(text_form(result.outputs.get(OUTPUT)) or "", calls)
        self.trajectory = self.trajectory.with_message(Message.user(turn.input)).with_message(answer)


def _fail_without_reply(
    turns: list[dict[str, Any]], raised: Mapping[int, Exception], metrics: CallMetrics
) -> TaskResult:
    """Raise or return the error of a conversation without a reply, as the application did in turn 1."""
    none = AgentError(f"no turn had a reply; the first: {turns[0][TURN_ERROR]}", metrics=metrics)
    detail = turn_error_detail(turns[0])
    if detail is not None and 0 not in raised:  # it was returned, with where it came from
        return TaskResult({}, metrics, error=error_text(none), error_detail=detail)
    raise none from next(iter(raised.values()), None)


async def _fatal_grade(
    case: CasePlan, example: Example, turn: TurnPlan, outputs: Mapping[str, Any]
) -> str | None:
    """Return why the conversation does not go on: a grader of this turn with `fail_on_error` raised."""
    # After the last turn there is nothing to end.
    if turn.index + 1 == len(case.turns):
        return None
    so_far = example.to_test_case(outputs, run_index=current_scope().run_index)
    for part in fatal_graders(case.evaluators, turn):
        if (await part.evaluate_early(so_far)).error is not None:
            return f"not sent: the grader {part.name!r} raised in turn {turn.index + 1}"
    return None


def _example_of(turn: TurnPlan, example: Example) -> Example:
    """Return what an application is given that takes an example: the case, in a conversation its turn."""
    if TURNS not in example.inputs:
        return example
    expected = {} if turn.ground_truth is None else {OUTPUT: turn.ground_truth}
    return replace(example, inputs={INPUT: turn.input}, expected_outputs=expected)


def _complete(result: TaskResult) -> TaskResult:
    """Return a reply with its outputs under their usual names."""
    value = result.outputs
    outputs = normalize_outputs(dict(value))
    if not isinstance(outputs, TaskResult):
        return TaskResult(outputs, result.metrics, error=result.error, error_detail=result.error_detail)
    measured = result.metrics or CallMetrics()
    reported = outputs.metrics or CallMetrics()
    latency = reported.latency_ms if reported.latency_ms is not None else measured.latency_ms
    metrics = replace(reported, latency_ms=latency)
    return TaskResult(outputs.outputs, metrics, error=result.error, error_detail=result.error_detail)
