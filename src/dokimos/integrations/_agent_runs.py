"""One run of a framework's agent, and `AgentRunner`, which makes runs alike for all frameworks."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from dokimos._core.agent import AgentTrace
from dokimos._core.conversation import ConversationTrajectory
from dokimos._core.metrics import CallMetrics
from dokimos._core.task_progress import report_progress
from dokimos._core.task_result import TaskResult
from dokimos._core.tool_definition import ToolDefinition
from dokimos.errors import DokimosError, EndpointDownError
from dokimos.experiment._item_errors import describe_error
from dokimos.integrations._background_loop import run_on_background_loop
from dokimos.judges._protocol import JsonSchemaDict

Progress: TypeAlias = Callable[[], tuple[AgentTrace, CallMetrics | None]]
"""Reads what a run that is still going on, or broke off, has done and used so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRun:
    """The normalized result of one run of a framework's agent, chain or model."""

    trace: AgentTrace
    output: Any = None
    """The answer, where it is more than the text of the final response: an object, or several results."""
    usage: CallMetrics | None = None
    """Token counts as the framework reports them; the cost only where it reports one."""
    documents: tuple[Any, ...] | None = None
    """The retrieved documents in the framework's own form; None where the result carries no sources."""
    tools: tuple[ToolDefinition, ...] | None = None
    """The tools that the agent had; None where they are unknown."""
    hint: str = "under one of its usual keys"
    """Where results of this framework could carry their sources, for the error message that asks for them."""
    cause: Exception | None = None
    """The exception that ended the run, where its trace has an error."""

    @classmethod
    def of_failure(
        cls, error: Exception, trace: AgentTrace | None = None, usage: CallMetrics | None = None
    ) -> AgentRun:
        """Return a run that an exception ended: what it did until then, without an answer.

        Raises:
            DokimosError: if the error is one of dokimos itself, or an endpoint of the run is down: such
                errors are not the agent's and must stop the item or the run.
        """
        if isinstance(error, DokimosError) or EndpointDownError.find_in_chain(error) is not None:
            raise error
        partial = replace(trace or AgentTrace(), final_response=None, error=describe_error(error))
        return cls(trace=partial, usage=usage, cause=error)

    @property
    def answer(self) -> Any:
        """The output if there is one, else the text of the final response."""
        return self.trace.final_response if self.output is None else self.output


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRunner:
    """Runs one agent on inputs, conversations and prompts of judges; `Framework.runner` makes it.

    What `run` and `converse` raise becomes the error of the trace. All three run on an event loop that lasts,
    so that an agent can keep its connections open between synchronous calls.
    """

    identity: str
    """Identifies the agent across processes: framework, name, model, a hash of the instructions."""
    run: Callable[[Any], Awaitable[AgentRun]]
    """Runs the agent on the value of an input."""
    converse: Callable[[ConversationTrajectory], Awaitable[AgentRun]]
    """Lets the agent reply to a conversation; the trace holds only what it did for this reply."""
    judge: Callable[[str, JsonSchemaDict | None], Awaitable[AgentRun]] | None = None
    """Answers a judge's prompt in JSON of a schema; None where the framework cannot enforce a schema."""

    def __post_init__(self) -> None:
        # A judge may raise: `AgentJudge` reports that as a judge that is unavailable.
        for name in ("run", "converse"):
            object.__setattr__(self, name, run_on_background_loop(_catch_errors(getattr(self, name))))
        if self.judge is not None:
            object.__setattr__(self, "judge", run_on_background_loop(self.judge))


def _catch_errors(run: Callable[[Any], Awaitable[AgentRun]]) -> Callable[[Any], Awaitable[AgentRun]]:
    """Return `run` with what it raises as the error of its trace."""

    @functools.wraps(run)
    async def run_safely(value: object) -> AgentRun:
        try:
            return await run(value)
        except Exception as error:
            return AgentRun.of_failure(error)

    return run_safely


async def finish_run(attempt: Awaitable[AgentRun], read_progress: Progress) -> AgentRun:
    """Return the run that `attempt` gives; if it raises, what `read_progress` returns as a run with an error.

    An experiment that gives up the run at its time limit calls `read_progress` too.
    """
    report_partial_run(read_progress)
    try:
        return await attempt
    except Exception as error:
        return AgentRun.of_failure(error, *read_progress())


_NOT_FINISHED: Final = "The run was given up before it had answered."
_to_result: ContextVar[Callable[[AgentRun], TaskResult] | None] = ContextVar("to_result", default=None)


@contextmanager
def report_runs_as(to_result: Callable[[AgentRun], TaskResult]) -> Iterator[None]:
    """Within this context, partial runs are reported to the experiment as `to_result` converts them."""
    token = _to_result.set(to_result)
    try:
        yield
    finally:
        _to_result.reset(token)


def report_partial_run(read_progress: Progress) -> None:
    """Have `read_progress` called for a partial result if the experiment gives up this run."""
    to_result = _to_result.get()
    if to_result is None:
        return

    def read_partial_result() -> TaskResult:
        trace, usage = read_progress()
        partial = replace(trace, final_response=None, error=trace.error or _NOT_FINISHED)
        return to_result(AgentRun(trace=partial, usage=usage))

    report_progress(read_partial_result)


def build_identity(framework: str, *parts: Any) -> str:
    """Return the text that identifies an agent: short parts as they are, long ones as a hash."""
    return ":".join([framework, *(_shorten_part(part) for part in parts if part)])


def _shorten_part(part: object) -> str:
    text = part if isinstance(part, str) else getattr(part, "__qualname__", None) or type(part).__qualname__
    if len(text) <= 60 and "\n" not in text:
        return text
    return f"#{hash_text(text)}"


def hash_text(text: str) -> str:
    """Return eight hexadecimal digits that differ for different texts."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
