"""Agents of Pydantic AI (`pydantic_ai`).

An agent is a `pydantic_ai.Agent`, or a function without parameters that makes one for each input. An input is
text or a list of content parts; `run_options` are those of `Agent.run`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

from dokimos._core.agent import AgentTrace
from dokimos._core.conversation import ConversationTrajectory, Message, Role
from dokimos._core.extras import require
from dokimos._core.jsonable import jsonable, text_form
from dokimos._core.keys import CALL_ERROR
from dokimos._core.metrics import CallMetrics, PriceTable
from dokimos._core.tool_definition import ToolDefinition
from dokimos.integrations._agent_runs import AgentRun, finish_run
from dokimos.integrations._agent_task import AgentJudge
from dokimos.integrations._framework import Framework, RunOptions, resolve_agent
from dokimos.integrations._framework_objects import FrameworkObject, get, join_text
from dokimos.integrations._token_usage import make_usage, sum_usage
from dokimos.integrations._tool_lists import add_offered_tools, describe_tools
from dokimos.integrations._trace_builder import TraceBuilder

__all__ = [
    "as_application",
    "as_judge",
    "as_task",
    "describe_tool",
    "run_and_trace",
    "run_and_trace_async",
    "to_agent_trace",
    "to_call_metrics",
    "to_model_messages",
    "to_tool_definitions",
]

EXTRA: Final = "pydantic-ai"
_INTERNAL_TOOL_KINDS: Final = ("output", "tool-search")
"""Kinds of calls with which a model gives its output, or searches for tools that it was not offered."""


class PydanticAI(Framework):
    """Pydantic AI."""

    name = "pydantic-ai"

    def to_agent_trace(self, result: object) -> AgentTrace:
        """Return what a run did: its new messages, or those of a list.

        What the model calls to give a structured output, or to find its tools, is not a tool call of the
        agent. A retry that a tool asks for is the failed result of its call.
        """
        builder = TraceBuilder()
        output_tool = get(result, "output_tool_name", "_output_tool_name")
        for message in _find_messages(result):
            if get(message, "kind") == "response":
                builder.begin_turn()
            for part in get(message, "parts", default=()):
                _parse_part(builder, part, output_tool)
        output = None if isinstance(result, list | tuple) else get(result, "output")
        return builder.build(text_form(output))

    def to_tool_definitions(self, agent: object) -> tuple[ToolDefinition, ...]:
        """Return the tools of an agent that are functions.

        Those of MCP servers are only known by asking them, as `as_task` does.
        """
        toolsets = get(resolve_agent(agent, self.agent_methods), "toolsets", default=())
        tools = (tool for toolset in toolsets for tool in _tools_of_toolset(toolset))
        return tuple({tool.name: tool for tool in tools}.values())

    def parse_usage(self, result: object) -> CallMetrics | None:
        if isinstance(result, list | tuple):
            return None
        usage = get(result, "usage")
        usage = usage() if callable(usage) else usage
        if usage is None:
            return None
        return _parse_tokens(usage, get(get(result, "response"), "model_name") or _last_model(result))

    def parse_output(self, result: object) -> Any:
        output = get(result, "output")
        return None if isinstance(output, str) else output

    async def run_agent(self, agent: FrameworkObject, inputs: object, options: RunOptions) -> AgentRun:
        prompt = inputs if isinstance(inputs, str | list) else text_form(inputs)
        offered: list[ToolDefinition] = []
        model = _record_tools(options.get("model") or get(agent, "model"), offered)
        more = {} if model is None else {"model": model}
        earlier = len(options.get("message_history") or ())
        with require("pydantic_ai", EXTRA).capture_run_messages() as messages:

            def read_progress() -> tuple[AgentTrace, CallMetrics | None]:
                # What is captured begins with the history that was passed.
                new = messages[earlier:]
                usage = (_parse_tokens(get(each, "usage"), get(each, "model_name")) for each in new)
                return self.to_agent_trace(new), sum_usage(usage)

            async def attempt() -> AgentRun:
                return self.parse_run(await agent.run(prompt, **{**options, **more}))

            run = await finish_run(attempt(), read_progress)
        described = describe_tools(self.to_tool_definitions, agent)
        return replace(run, tools=add_offered_tools(described, offered))

    async def converse(
        self, agent: object, conversation: ConversationTrajectory, options: RunOptions
    ) -> AgentRun:
        *earlier, last = conversation.messages
        history = to_model_messages(earlier)
        return await self.run_agent(agent, last.content, {"message_history": history, **options})

    def describe_agent(self, agent: object) -> Iterable[object]:
        model = get(agent, "model")
        model_name = model if isinstance(model, str) else get(model, "model_name")
        instructions = [
            get(each, "instruction", default=each) for each in get(agent, "_instructions", default=())
        ]
        prompts = (*instructions, *get(agent, "_system_prompts", default=()))
        texts = [text for text in prompts if isinstance(text, str)]
        return get(agent, "name"), model_name, "\n".join(texts)


_FRAMEWORK: Final = PydanticAI()
to_agent_trace: Final = _FRAMEWORK.to_agent_trace
to_tool_definitions: Final = _FRAMEWORK.to_tool_definitions
to_call_metrics: Final = _FRAMEWORK.to_call_metrics
run_and_trace: Final = _FRAMEWORK.run_and_trace
run_and_trace_async: Final = _FRAMEWORK.run_and_trace_async
as_task: Final = _FRAMEWORK.as_task
as_application: Final = _FRAMEWORK.as_application


def as_judge(
    agent: object,
    *,
    run_options: RunOptions | None = None,
    model: str | None = None,
    price_table: PriceTable | None = None,
) -> AgentJudge:
    """Return an agent as a judge; a model, or its name such as "openai:gpt-5-mini", becomes an agent."""
    if isinstance(agent, str) or hasattr(agent, "request"):
        agent = require("pydantic_ai", EXTRA).Agent(agent)
    return _FRAMEWORK.as_judge(agent, run_options=run_options, model=model, price_table=price_table)


def to_model_messages(messages: Iterable[Message]) -> list[Any]:
    """Return messages of dokimos as a message history of Pydantic AI."""
    types = require("pydantic_ai.messages", EXTRA)
    return [each for index, message in enumerate(messages) for each in _to_theirs(message, index, types)]


def _record_tools(model: object, offered: list[ToolDefinition]) -> Any:
    """Return a model that adds the tools that it is offered, those of MCP servers included, to a list."""
    models = require("pydantic_ai.models", EXTRA)
    wrapper = require("pydantic_ai.models.wrapper", EXTRA).WrapperModel

    class RecordingModel(wrapper):  # type: ignore[misc,valid-type] # known only where it is installed
        async def request(self, messages: object, model_settings: object, parameters: FrameworkObject) -> Any:
            offered.extend(map(describe_tool, parameters.function_tools))
            return await super().request(messages, model_settings, parameters)

        @asynccontextmanager
        async def request_stream(
            self, messages: object, model_settings: object, parameters: Any, run_context: object = None
        ) -> AsyncIterator[Any]:
            offered.extend(map(describe_tool, parameters.function_tools))
            async with super().request_stream(messages, model_settings, parameters, run_context) as response:
                yield response

    return RecordingModel(model) if isinstance(model, str | models.Model) else None


def _find_messages(result: object) -> list[Any]:
    if isinstance(result, list | tuple):
        return list(result)
    messages = get(result, "new_messages", default=())
    return list(messages() if callable(messages) else messages)


def _parse_part(builder: TraceBuilder, part: object, output_tool: str | None) -> None:
    kind = get(part, "part_kind", default="")
    name, call_id = get(part, "tool_name"), get(part, "tool_call_id")
    if name is not None and (name == output_tool or get(part, "tool_kind") in _INTERNAL_TOOL_KINDS):
        return
    if kind.endswith("tool-call"):
        builder.add_call(name, get(part, "args"), call_id)
    elif kind.endswith("tool-return"):
        failed = get(part, "outcome", default="success") != "success" or bool(get(part, "retry"))
        builder.add_result(call_id, get(part, "content"), error=failed)
    elif kind == "retry-prompt" and name is not None:
        builder.add_result(call_id, get(part, "content"), error=True)
    elif kind == "text":
        builder.add_text(join_text(get(part, "content")))
    elif kind == "thinking":
        builder.add_reasoning(get(part, "content"))


def _parse_tokens(usage: object, model: str | None) -> CallMetrics | None:
    if usage is None:
        return None
    cost = get(usage, "cost")
    return make_usage(
        get(usage, "input_tokens"),
        get(usage, "output_tokens"),
        cached=get(usage, "cache_read_tokens"),
        reasoning=get(usage, "output_reasoning_tokens"),
        cost_usd=None if cost is None else float(cost),
        model=model,
    )


def _last_model(result: object) -> str | None:
    names = [get(message, "model_name") for message in _find_messages(result)]
    return next((name for name in reversed(names) if name), None)


def _tools_of_toolset(toolset: object) -> Iterator[ToolDefinition]:
    tools = get(toolset, "tools")
    if not isinstance(tools, Mapping):
        return
    for name, tool in tools.items():
        yield replace(describe_tool(get(tool, "tool_def", default=tool)), name=name)


def describe_tool(tool: FrameworkObject) -> ToolDefinition:
    """Return the definition of a tool that Pydantic AI offers to a model."""
    schema = get(tool, "parameters_json_schema", default={})
    return ToolDefinition(tool.name, get(tool, "description", default=""), input_schema=schema)


def _to_theirs(message: Message, index: int, types: FrameworkObject) -> Iterator[Any]:
    if message.role is not Role.ASSISTANT:
        part = types.UserPromptPart if message.role is Role.USER else types.SystemPromptPart
        yield types.ModelRequest(parts=[part(content=message.content)])
        return
    calls = {f"call_{index}_{number}": call for number, call in enumerate(message.tool_calls)}
    if calls:
        yield types.ModelResponse(
            parts=[
                types.ToolCallPart(call.name, dict(jsonable(call.arguments)), tool_call_id=call_id)
                for call_id, call in calls.items()
            ]
        )
        yield types.ModelRequest(
            parts=[
                types.ToolReturnPart(
                    call.name,
                    call.result or "",
                    tool_call_id=call_id,
                    outcome="failed" if call.metadata.get(CALL_ERROR) else "success",
                )
                for call_id, call in calls.items()
            ]
        )
    if message.content or not calls:
        yield types.ModelResponse(parts=[types.TextPart(content=message.content)])
