"""Agents of Strands (`strands`)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeAlias, Unpack

from dokimos.core.agent import AgentTrace, ToolDefinition
from dokimos.core.conversation import ConversationTrajectory
from dokimos.core.jsonable import text_form
from dokimos.core.metrics import CallMetrics, PriceTable
from dokimos.integrations.base import (
    AgentApplication,
    AgentJudge,
    AgentRun,
    AgentTask,
    Bridge,
    ResultOptions,
    TaskOptions,
    describe_tools,
    identity,
    keep_so_far,
)
from dokimos.integrations.kinds import made_one_of, method_of
from dokimos.integrations.reading import get, priced, usage_of, without_answer_calls
from dokimos.integrations.turn_taking import one_at_a_time
from dokimos.messages.conversations import trace_of_messages
from dokimos.runtime.concurrency import run_sync

EXTRA: Final = "strands"

AgentLike: TypeAlias = Any
"""An `Agent`, or a function without parameters that makes one for each input.

An agent remembers, and serves one call at a time. One that is given as it is starts each input with the
messages that it had when it was given, and inputs wait for one another; a function makes them independent.
"""


def to_agent_trace(result: Any) -> AgentTrace:
    """Return what an `AgentResult` tells, from its traces, or what an agent or a list of messages does.

    A result tells what was done for its last input, an agent all that is in its messages. The call by which a
    model gives a structured answer is the answer, and no tool call.
    """
    trace = trace_of_messages(_messages(result), keep_ids=True)
    answer = None if isinstance(result, list | tuple) else get(result, "structured_output")
    trace = without_answer_calls(trace, answer)
    stopped = None if isinstance(result, list | tuple) else get(result, "stop_reason")
    if trace.final_response is None and stopped in _STOPPED:
        trace = replace(trace, error=f"{stopped}: Strands ended the run before the agent had answered.")
    name = get(result, "name")
    return replace(trace, metadata={"agent": name}) if name else trace


def to_tool_definitions(agent: AgentLike | Iterable[Any]) -> tuple[ToolDefinition, ...]:
    """Return the tools of an agent, or of a list of decorated functions, with their schemas."""
    if isinstance(agent, list | tuple):
        return tuple(ToolDefinition.from_map(tool.tool_spec) for tool in agent)
    registry = made_one_of(agent, _METHODS).tool_registry
    return tuple(ToolDefinition.from_map(spec) for spec in registry.get_all_tools_config().values())


def to_call_metrics(
    result: Any, model: str | None = None, price_table: PriceTable | None = None
) -> CallMetrics | None:
    """Return the tokens of the calls for the last input, and their cost; None where nothing was measured."""
    return priced(_usage(result), model, price_table)


def run_and_trace(agent: AgentLike, inputs: Any, **run_options: Any) -> AgentTrace:
    """Run an agent on text or a list of messages; `run_options` are those of its `invoke_async`."""
    return run_sync(run_and_trace_async(agent, inputs, **run_options))


async def run_and_trace_async(agent: AgentLike, inputs: Any, **run_options: Any) -> AgentTrace:
    """Do what `run_and_trace` does, on the event loop that is running."""
    return (await _bridge(agent, run_options).run(inputs)).trace


def as_task(
    agent: AgentLike, *, run_options: Mapping[str, Any] | None = None, **options: Unpack[TaskOptions]
) -> AgentTask:
    """Return a task that runs an agent on an input."""
    return AgentTask(_bridge(agent, run_options or {}), **options)


def as_application(
    agent: AgentLike, *, run_options: Mapping[str, Any] | None = None, **options: Unpack[ResultOptions]
) -> AgentApplication:
    """Return an agent as the application of a simulated conversation."""
    return AgentApplication(AgentTask(_bridge(agent, run_options or {}), **options))


def as_judge(
    agent: AgentLike, *, model: str | None = None, price_table: PriceTable | None = None
) -> AgentJudge:
    """Return an agent as a judge."""
    return AgentJudge(_bridge(agent, {}), model, price_table)


_STOPPED: Final = ("limit_turns", "limit_total_tokens", "limit_output_tokens", "cancelled")
"""Reasons for the end of a run that has no answer."""
_METHODS: Final = ("invoke_async",)
"""What only an agent has."""


def _is_agent(agent: AgentLike) -> bool:
    return method_of(agent, _METHODS) is not None


def _bridge(agent: AgentLike, run_options: Mapping[str, Any]) -> Bridge:
    ready = _starting(agent)

    async def answer(prompt: Any, history: Iterable[Mapping[str, Any]] = ()) -> AgentRun:
        answering = ready()
        answering.messages.extend(history)
        before = len(answering.messages)

        def so_far() -> tuple[AgentTrace, CallMetrics | None]:
            return to_agent_trace(answering.messages[before:]), _usage(answering)

        keep_so_far(so_far)
        try:
            came = _read(await answering.invoke_async(prompt, **run_options))
        except Exception as error:
            came = AgentRun.of_failure(error, *so_far())
        return replace(came, tools=describe_tools(to_tool_definitions, answering))

    in_turn = one_at_a_time(answer) if _is_agent(agent) else answer

    async def run(inputs: Any) -> AgentRun:
        return await in_turn(inputs if isinstance(inputs, list) else text_form(inputs) or "")

    async def converse(conversation: ConversationTrajectory) -> AgentRun:
        *history, last = conversation.to_messages("bedrock")
        return await in_turn(last["content"], history)

    return Bridge(identity=_identity(agent), run=run, converse=converse)


def _starting(agent: AgentLike) -> Callable[[], Any]:
    """Return what gives the agent for the next input: a fresh one, or the one given as it was at first."""
    if not _is_agent(agent):
        return partial(made_one_of, agent, _METHODS)
    first = copy.deepcopy(agent.messages)

    def as_at_first() -> Any:
        agent.messages[:] = copy.deepcopy(first)
        return agent

    return as_at_first


def _read(result: Any) -> AgentRun:
    return AgentRun(
        trace=to_agent_trace(result),
        output=get(result, "structured_output"),
        usage=_usage(result),
        hint="as the result of a tool",
    )


def _usage(result: Any) -> CallMetrics | None:
    metrics = get(result, "metrics", "event_loop_metrics")
    usage = get(_last_invocation(metrics), "usage", default=get(metrics, "accumulated_usage"))
    if usage is None:
        return None
    total, written = get(usage, "totalTokens"), get(usage, "outputTokens")
    # Some providers count cached tokens apart from those read; the total has them all.
    read = get(usage, "inputTokens") if total is None or written is None else total - written
    return usage_of(read, written, cached=get(usage, "cacheReadInputTokens"))


def _last_invocation(metrics: Any) -> Any:
    invocations = get(metrics, "agent_invocations", default=())
    return invocations[-1] if invocations else None


def _identity(agent: AgentLike) -> str:
    if not _is_agent(agent):
        return identity("strands", agent)
    model = get(get(agent, "model"), "config", default={})
    return identity("strands", get(agent, "name"), get(model, "model_id"), get(agent, "system_prompt"))


def _messages(result: Any) -> list[Any]:
    if isinstance(result, list | tuple):
        return list(result)
    metrics = get(result, "metrics")
    if metrics is None:
        return list(get(result, "messages", default=()))
    cycles = get(metrics, "traces", default=())
    of_last = len(get(_last_invocation(metrics), "cycles", default=()))
    return list(_messages_of(cycles[-of_last:] if of_last else cycles))


def _messages_of(traces: Iterable[Any]) -> Iterator[Any]:
    """Go through the messages in the traces of cycles: the model's first, then those of its tools."""
    for trace in traces:
        message = get(trace, "message")
        if message is not None:
            yield message
        yield from _messages_of(get(trace, "children", default=()))
