"""Agents of Pydantic AI (`pydantic_ai`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final, TypeAlias, Unpack

from dokimos.core.agent import AgentTrace, ToolDefinition
from dokimos.core.conversation import ConversationTrajectory, Message, Role
from dokimos.core.extras import require
from dokimos.core.jsonable import jsonable, text_form
from dokimos.core.keys import CALL_ERROR
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
    made,
)
from dokimos.integrations.reading import TraceBuilder, get, priced, summed, text_of, usage_of, with_offered
from dokimos.runtime.concurrency import run_sync

EXTRA: Final = "pydantic-ai"
_MACHINERY: Final = ("output", "tool-search")
"""Kinds of calls with which a model gives its output, or looks for tools that it was not told of."""

AgentLike: TypeAlias = Any
"""A `pydantic_ai.Agent`, or a function without parameters that makes one for each input."""


def to_agent_trace(result: Any) -> AgentTrace:
    """Return what a run did: its new messages, or those of a list.

    What the model calls to give a structured output, or to find its tools, is no tool call of the agent. A
    retry that a tool asks for is the failed result of its call.
    """
    builder = TraceBuilder()
    hidden = get(result, "output_tool_name", "_output_tool_name")
    for message in _messages(result):
        if get(message, "kind") == "response":
            builder.turn()
        for part in get(message, "parts", default=()):
            _read_part(builder, part, hidden)
    output = None if isinstance(result, list | tuple) else get(result, "output")
    return builder.trace(text_form(output))


def to_tool_definitions(agent: AgentLike) -> tuple[ToolDefinition, ...]:
    """Return the tools of an agent that are functions; those of MCP servers are only known by asking them."""
    agent = made(agent, "run")
    found = (tool for tools in get(agent, "toolsets", default=()) for tool in _tools_in(tools))
    return tuple({tool.name: tool for tool in found}.values())


def to_call_metrics(
    result: Any, model: str | None = None, price_table: PriceTable | None = None
) -> CallMetrics | None:
    """Return the tokens of all model calls of a run, and their cost; None where nothing was measured."""
    return priced(_usage(result), model, price_table)


def run_and_trace(agent: AgentLike, inputs: Any, **run_options: Any) -> AgentTrace:
    """Run an agent on a prompt; `run_options` are those of `Agent.run`."""
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
    """Return an agent as a judge; a model, or its name such as "openai:gpt-5-mini", becomes an agent."""
    if isinstance(agent, str) or hasattr(agent, "request"):
        agent = require("pydantic_ai", EXTRA).Agent(agent)
    return AgentJudge(_bridge(agent, {}), model, price_table)


def to_model_messages(messages: Iterable[Message]) -> list[Any]:
    """Return messages of ours as a message history of Pydantic AI."""
    theirs = require("pydantic_ai.messages", EXTRA)
    history: list[Any] = []
    for place, message in enumerate(messages):
        history += _told(message, place, theirs)
    return history


def _bridge(agent: AgentLike, run_options: Mapping[str, Any]) -> Bridge:
    async def run(inputs: Any) -> AgentRun:
        given = inputs if isinstance(inputs, str | list) else text_form(inputs)
        return await _run(made(agent, "run"), given, run_options)

    async def converse(conversation: ConversationTrajectory) -> AgentRun:
        *earlier, last = conversation.messages
        history = to_model_messages(earlier)
        return await _run(made(agent, "run"), last.content, {"message_history": history, **run_options})

    return Bridge(identity=_identity(agent), run=run, converse=converse)


async def _run(agent: Any, given: Any, run_options: Mapping[str, Any]) -> AgentRun:
    offered: list[ToolDefinition] = []
    model = _watched(run_options.get("model") or get(agent, "model"), offered)
    options = run_options if model is None else {**run_options, "model": model}
    before = len(run_options.get("message_history") or ())
    with require("pydantic_ai", EXTRA).capture_run_messages() as messages:

        def so_far() -> tuple[AgentTrace, CallMetrics | None]:
            done = messages[before:]
            used = (_tokens(get(message, "usage"), get(message, "model_name")) for message in done)
            return to_agent_trace(done), summed(used)

        keep_so_far(so_far)
        try:
            came = _read(await agent.run(given, **options))
        except Exception as error:
            came = AgentRun.of_failure(error, *so_far())
    described = describe_tools(to_tool_definitions, agent)
    return replace(came, tools=with_offered(described, offered))


def _watched(model: Any, offered: list[ToolDefinition]) -> Any:
    """Return a model that writes down the tools that it is offered, those of MCP servers included."""
    models = require("pydantic_ai.models", EXTRA)
    wrapper = require("pydantic_ai.models.wrapper", EXTRA).WrapperModel

    class WatchedModel(wrapper):  # type: ignore[misc,valid-type] # known only where it is installed
        async def request(self, messages: Any, model_settings: Any, parameters: Any) -> Any:
            offered.extend(map(describe_tool, parameters.function_tools))
            return await super().request(messages, model_settings, parameters)

        @asynccontextmanager
        async def request_stream(
            self, messages: Any, model_settings: Any, parameters: Any, run_context: Any = None
        ) -> AsyncIterator[Any]:
            offered.extend(map(describe_tool, parameters.function_tools))
            async with super().request_stream(messages, model_settings, parameters, run_context) as response:
                yield response

    return WatchedModel(model) if isinstance(model, str | models.Model) else None


def _read(result: Any) -> AgentRun:
    output = get(result, "output")
    return AgentRun(
        trace=to_agent_trace(result),
        output=None if isinstance(output, str) else output,
        usage=_usage(result),
        hint="as the result of a tool",
    )


def _messages(result: Any) -> list[Any]:
    if isinstance(result, list | tuple):
        return list(result)
    messages = get(result, "new_messages", default=())
    return list(messages() if callable(messages) else messages)


def _read_part(builder: TraceBuilder, part: Any, hidden: str | None) -> None:
    kind = get(part, "part_kind", default="")
    name, call_id = get(part, "tool_name"), get(part, "tool_call_id")
    if name is not None and (name == hidden or get(part, "tool_kind") in _MACHINERY):
        return
    if kind.endswith("tool-call"):
        builder.call(name, get(part, "args"), call_id)
    elif kind.endswith("tool-return"):
        failed = get(part, "outcome", default="success") != "success" or bool(get(part, "retry"))
        builder.result(call_id, get(part, "content"), error=failed)
    elif kind == "retry-prompt" and name is not None:
        builder.result(call_id, get(part, "content"), error=True)
    elif kind == "text":
        builder.say(text_of(get(part, "content")))
    elif kind == "thinking":
        builder.think(get(part, "content"))


def _usage(result: Any) -> CallMetrics | None:
    if isinstance(result, list | tuple):
        return None
    usage = get(result, "usage")
    usage = usage() if callable(usage) else usage
    if usage is None:
        return None
    return _tokens(usage, get(get(result, "response"), "model_name") or _last_model(result))


def _tokens(usage: Any, model: str | None) -> CallMetrics | None:
    if usage is None:
        return None
    cost = get(usage, "cost")
    return usage_of(
        get(usage, "input_tokens"),
        get(usage, "output_tokens"),
        cached=get(usage, "cache_read_tokens"),
        reasoning=get(usage, "output_reasoning_tokens"),
        cost_usd=None if cost is None else float(cost),
        model=model,
    )


def _last_model(result: Any) -> str | None:
    names = [get(message, "model_name") for message in _messages(result)]
    return next((name for name in reversed(names) if name), None)


def _identity(agent: AgentLike) -> str:
    if not hasattr(agent, "run"):
        return identity("pydantic-ai", agent)
    model = get(agent, "model")
    named = model if isinstance(model, str) else get(model, "model_name")
    given = [get(each, "instruction", default=each) for each in get(agent, "_instructions", default=())]
    said = [text for text in (*given, *get(agent, "_system_prompts", default=())) if isinstance(text, str)]
    return identity("pydantic-ai", get(agent, "name"), named, "\n".join(said))


def _tools_in(toolset: Any) -> Iterator[ToolDefinition]:
    tools = get(toolset, "tools")
    if not isinstance(tools, Mapping):
        return
    for name, tool in tools.items():
        yield replace(describe_tool(get(tool, "tool_def", default=tool)), name=name)


def describe_tool(tool: Any) -> ToolDefinition:
    """Return a tool as Pydantic AI offers it to a model, as a definition of ours."""
    schema = get(tool, "parameters_json_schema", default={})
    return ToolDefinition(tool.name, get(tool, "description", default=""), input_schema=schema)


def _told(message: Message, place: int, theirs: Any) -> Iterator[Any]:
    if message.role is not Role.ASSISTANT:
        part = theirs.UserPromptPart if message.role is Role.USER else theirs.SystemPromptPart
        yield theirs.ModelRequest(parts=[part(content=message.content)])
        return
    calls = {f"call_{place}_{number}": call for number, call in enumerate(message.tool_calls)}
    if calls:
        yield theirs.ModelResponse(
            parts=[
                theirs.ToolCallPart(call.name, dict(jsonable(call.arguments)), tool_call_id=call_id)
                for call_id, call in calls.items()
            ]
        )
        yield theirs.ModelRequest(
            parts=[
                theirs.ToolReturnPart(
                    call.name,
                    call.result or "",
                    tool_call_id=call_id,
                    outcome="failed" if call.metadata.get(CALL_ERROR) else "success",
                )
                for call_id, call in calls.items()
            ]
        )
    if message.content or not calls:
        yield theirs.ModelResponse(parts=[theirs.TextPart(content=message.content)])
