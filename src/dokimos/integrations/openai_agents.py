"""Agents of the OpenAI Agents SDK (`agents`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias, Unpack

from dokimos.core.agent import AgentTrace, ToolDefinition
from dokimos.core.concurrency import run_sync
from dokimos.core.conversation import ConversationTrajectory
from dokimos.core.extras import require
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
    identity,
    made,
)
from dokimos.integrations.reading import TraceBuilder, get, priced, text_of, usage_of

EXTRA: Final = "openai-agents"

AgentLike: TypeAlias = Any
"""An `agents.Agent`, or a function without parameters that makes one for each input."""


def to_agent_trace(result: Any) -> AgentTrace:
    """Return what a run did: the calls among its new items with their outputs, and its final output.

    Takes a `RunResult`, or a `RunResultStreaming` that has come to its end. A handoff is a call too, as it is
    to the model.
    """
    builder = TraceBuilder()
    in_calls = False
    for item in get(result, "new_items", default=()):
        kind = get(item, "type", default="")
        if kind in _CALLS and not in_calls:
            builder.turn()
        in_calls = kind in _CALLS
        reader = _READERS.get(kind)
        if reader is not None:
            reader(builder, item, get(item, "raw_item", default={}))
    return builder.trace(text_form(get(result, "final_output")), agent=get(get(result, "last_agent"), "name"))


def to_tool_definitions(agent: AgentLike) -> tuple[ToolDefinition, ...]:
    """Return the function tools of an agent, and its handoffs; tools that OpenAI hosts have no schema."""
    agent = made(agent, _AGENT)
    handoffs = [_handoff(each) for each in get(agent, "handoffs", default=())]
    return (*(_definition(tool) for tool in get(agent, "tools", default=())), *handoffs)


def to_call_metrics(
    result: Any, model: str | None = None, price_table: PriceTable | None = None
) -> CallMetrics | None:
    """Return the tokens of all model calls of a run, and their cost; None where nothing was measured."""
    return priced(_usage(result), model, price_table)


def run_and_trace(agent: AgentLike, inputs: Any, **run_options: Any) -> AgentTrace:
    """Run an agent on text or a list of input items; `run_options` are those of `Runner.run`."""
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


_AGENT: Final = "instructions"
"""What only an agent has."""


def _bridge(agent: AgentLike, run_options: Mapping[str, Any]) -> Bridge:
    async def run(inputs: Any) -> AgentRun:
        runner = require("agents", EXTRA).Runner
        given = inputs if isinstance(inputs, str | list) else text_form(inputs) or ""
        return _read(await runner.run(made(agent, _AGENT), given, **run_options))

    async def converse(conversation: ConversationTrajectory) -> AgentRun:
        return await run(conversation.to_messages("openai-responses"))

    return Bridge(identity=_identity(agent), run=run, converse=converse)


def _read(result: Any) -> AgentRun:
    output = get(result, "final_output")
    structured = None if isinstance(output, str) else output
    return AgentRun(
        trace=to_agent_trace(result),
        output=structured,
        usage=_usage(result),
        hint="as the result of a tool",
    )


def _usage(result: Any) -> CallMetrics | None:
    usage = get(get(result, "context_wrapper"), "usage")
    if usage is None:
        return None
    return usage_of(
        get(usage, "input_tokens"),
        get(usage, "output_tokens"),
        cached=get(get(usage, "input_tokens_details"), "cached_tokens"),
        reasoning=get(get(usage, "output_tokens_details"), "reasoning_tokens"),
    )


def _identity(agent: AgentLike) -> str:
    if not hasattr(agent, _AGENT):
        return identity("openai-agents", agent)
    model = get(agent, "model")
    named = model if isinstance(model, str) else get(model, "model", default=model)
    return identity("openai-agents", get(agent, "name"), named, get(agent, "instructions"))


def _called(builder: TraceBuilder, item: Any, raw: Any) -> None:
    kind = get(raw, "type", default="function_call")
    name = get(raw, "name") or kind.removesuffix("_call")
    builder.call(name, get(raw, "arguments", "action", "code", "queries", "input"), _id(raw))


def _answered(builder: TraceBuilder, item: Any, raw: Any) -> None:
    builder.result(_id(raw), get(item, "output", default=get(raw, "output")))


def _said(builder: TraceBuilder, item: Any, raw: Any) -> None:
    builder.say(text_of(get(raw, "content")))


def _thought(builder: TraceBuilder, item: Any, raw: Any) -> None:
    builder.think(text_of(_plain(get(raw, "summary"))) or text_of(_plain(get(raw, "content"))))


def _plain(parts: Any) -> list[str]:
    return [get(part, "text", default="") for part in parts or ()]


def _id(raw: Any) -> str | None:
    found = get(raw, "call_id", "id")
    return found if isinstance(found, str) else None


_CALLS: Final = frozenset({"tool_call_item", "handoff_call_item"})
_READERS: Final[dict[str, Callable[[TraceBuilder, Any, Any], None]]] = {
    "tool_call_item": _called,
    "handoff_call_item": _called,
    "tool_call_output_item": _answered,
    "handoff_output_item": _answered,
    "message_output_item": _said,
    "reasoning_item": _thought,
}


def _definition(tool: Any) -> ToolDefinition:
    schema = get(tool, "params_json_schema", default={})
    return ToolDefinition(tool.name, get(tool, "description", default=""), input_schema=schema)


def _handoff(target: Any) -> ToolDefinition:
    name = get(target, "tool_name") or f"transfer_to_{_snake(get(target, 'name', default='agent'))}"
    said = get(target, "tool_description", "handoff_description", default="")
    return ToolDefinition(name, said, input_schema=get(target, "input_json_schema", default={}))


def _snake(name: str) -> str:
    return "".join(sign if sign.isalnum() else "_" for sign in name).lower()


def tools_of(agents: Iterable[AgentLike]) -> tuple[ToolDefinition, ...]:
    """Return the tools of several agents that hand over to one another, each once."""
    found = (tool for agent in agents for tool in to_tool_definitions(agent))
    return tuple({tool.name: tool for tool in found}.values())
