"""Agents of Strands (`strands`).

An agent is an `Agent`, or a function without parameters that makes one for each input. An agent remembers,
and serves one call at a time: one that is passed as an object starts each input with the messages that it had
at first, and inputs wait for one another; a function makes them independent. An input is text or a list of
content blocks; `run_options` are those of `Agent.invoke_async`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, ClassVar, Final

from dokimos._core.agent import AgentTrace
from dokimos._core.conversation import ConversationTrajectory
from dokimos._core.jsonable import text_form
from dokimos._core.metrics import CallMetrics
from dokimos._core.tool_definition import ToolDefinition
from dokimos._messages.conversations import parse_trace
from dokimos.integrations._agent_runs import AgentRun, finish_run
from dokimos.integrations._framework import Framework, RunOptions, resolve_agent
from dokimos.integrations._framework_objects import FrameworkObject, get
from dokimos.integrations._token_usage import make_usage
from dokimos.integrations._tool_lists import describe_tools
from dokimos.integrations._trace_builder import remove_answer_calls

__all__ = [
    "as_application",
    "as_judge",
    "as_task",
    "run_and_trace",
    "run_and_trace_async",
    "to_agent_trace",
    "to_call_metrics",
    "to_tool_definitions",
]

EXTRA: Final = "strands"

_STOP_REASONS: Final = ("limit_turns", "limit_total_tokens", "limit_output_tokens", "cancelled")
"""Reasons for the end of a run that has no answer."""


class Strands(Framework):
    """The Strands Agents SDK."""

    name = "strands"
    agent_methods: ClassVar[tuple[str, ...]] = ("invoke_async",)

    def to_agent_trace(self, result: object) -> AgentTrace:
        """Return what an `AgentResult` did, from its traces, or what an agent or a list of messages says.

        A result has what was done for its last input, an agent all that is in its messages. The call by which
        a model gives a structured answer is the answer, and not a tool call.
        """
        trace = parse_trace(_find_messages(result), keep_ids=True)
        is_list = isinstance(result, list | tuple)
        trace = remove_answer_calls(trace, None if is_list else get(result, "structured_output"))
        reason = None if is_list else get(result, "stop_reason")
        if trace.final_response is None and reason in _STOP_REASONS:
            trace = replace(trace, error=f"{reason}: Strands ended the run before the agent had answered.")
        name = get(result, "name")
        return replace(trace, metadata={"agent": name}) if name else trace

    def to_tool_definitions(self, agent: object) -> tuple[ToolDefinition, ...]:
        """Return the tools of an agent, or of a list of decorated functions, with their schemas."""
        if isinstance(agent, list | tuple):
            return tuple(ToolDefinition.from_map(tool.tool_spec) for tool in agent)
        registry = resolve_agent(agent, self.agent_methods).tool_registry
        return tuple(ToolDefinition.from_map(spec) for spec in registry.get_all_tools_config().values())

    def parse_usage(self, result: object) -> CallMetrics | None:
        """Return the tokens of the model calls for the last input."""
        metrics = get(result, "metrics", "event_loop_metrics")
        usage = get(_last_invocation(metrics), "usage", default=get(metrics, "accumulated_usage"))
        if usage is None:
            return None
        total, written = get(usage, "totalTokens"), get(usage, "outputTokens")
        # Some providers count cached tokens apart from those read; the total has them all.
        read = get(usage, "inputTokens") if total is None or written is None else total - written
        return make_usage(read, written, cached=get(usage, "cacheReadInputTokens"))

    def parse_output(self, result: object) -> Any:
        return get(result, "structured_output")

    async def run_agent(self, agent: FrameworkObject, inputs: object, options: RunOptions) -> AgentRun:
        prompt = inputs if isinstance(inputs, list) else text_form(inputs) or ""
        earlier = len(agent.messages)

        def read_progress() -> tuple[AgentTrace, CallMetrics | None]:
            return self.to_agent_trace(agent.messages[earlier:]), self.parse_usage(agent)

        async def attempt() -> AgentRun:
            return self.parse_run(await agent.invoke_async(prompt, **options))

        run = await finish_run(attempt(), read_progress)
        return replace(run, tools=describe_tools(self.to_tool_definitions, agent))

    async def converse(
        self, agent: FrameworkObject, conversation: ConversationTrajectory, options: RunOptions
    ) -> AgentRun:
        *history, last = conversation.to_messages("bedrock")
        agent.messages.extend(history)
        return await self.run_agent(agent, last["content"], options)

    def describe_agent(self, agent: object) -> Iterable[object]:
        model = get(get(agent, "model"), "config", default={})
        return get(agent, "name"), get(model, "model_id"), get(agent, "system_prompt")

    def is_stateful(self, agent: object) -> bool:
        return True

    def save_state(self, agent: FrameworkObject) -> Any:
        return copy.deepcopy(agent.messages)

    def start_agent(self, agent: FrameworkObject, state: Any) -> Any:
        if state is None:
            return resolve_agent(agent, self.agent_methods)
        # In place, since others may hold the agent's list.
        agent.messages[:] = copy.deepcopy(state)
        return agent


_FRAMEWORK: Final = Strands()
to_agent_trace: Final = _FRAMEWORK.to_agent_trace
to_tool_definitions: Final = _FRAMEWORK.to_tool_definitions
to_call_metrics: Final = _FRAMEWORK.to_call_metrics
run_and_trace: Final = _FRAMEWORK.run_and_trace
run_and_trace_async: Final = _FRAMEWORK.run_and_trace_async
as_task: Final = _FRAMEWORK.as_task
as_application: Final = _FRAMEWORK.as_application
as_judge: Final = _FRAMEWORK.as_judge


def _last_invocation(metrics: object) -> Any:
    invocations = get(metrics, "agent_invocations", default=())
    return invocations[-1] if invocations else None


def _find_messages(result: object) -> list[Any]:
    if isinstance(result, list | tuple):
        return list(result)
    metrics = get(result, "metrics")
    if metrics is None:
        return list(get(result, "messages", default=()))
    cycles = get(metrics, "traces", default=())
    last_count = len(get(_last_invocation(metrics), "cycles", default=()))
    return list(_walk_messages(cycles[-last_count:] if last_count else cycles))


def _walk_messages(traces: Iterable[object]) -> Iterator[Any]:
    """Yield the messages in the traces of cycles: the model's first, then those of its tools."""
    for trace in traces:
        message = get(trace, "message")
        if message is not None:
            yield message
        yield from _walk_messages(get(trace, "children", default=()))
