"""Agents of the OpenAI Agents SDK (`agents`).

An agent is an `agents.Agent`, or a function without parameters that makes one for each input. An input is
text or a list of input items; `run_options` are those of `Runner.run`.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final

from dokimos._core.agent import AgentTrace
from dokimos._core.conversation import ConversationTrajectory
from dokimos._core.extras import require
from dokimos._core.json_object import parse_object
from dokimos._core.jsonable import text_form
from dokimos._core.keys import CALL_ERROR
from dokimos._core.metrics import CallMetrics
from dokimos._core.tool_definition import ToolDefinition
from dokimos.integrations._agent_runs import AgentRun, finish_run
from dokimos.integrations._framework import Framework, RunOptions, resolve_agent
from dokimos.integrations._framework_objects import FrameworkObject, get, join_text
from dokimos.integrations._token_usage import make_usage
from dokimos.integrations._tool_lists import describe_tools, merge_tools
from dokimos.integrations._trace_builder import TraceBuilder

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

EXTRA: Final = "openai-agents"


class OpenAIAgents(Framework):
    """The OpenAI Agents SDK."""

    name = "openai-agents"
    # Agents have no method that runs them: the SDK's Runner does.
    agent_methods: ClassVar[tuple[str, ...]] = ("instructions",)

    def to_agent_trace(self, result: object) -> AgentTrace:
        """Return what a run did: the calls among its new items with their outputs, and its final output.

        Takes a `RunResult`, or a `RunResultStreaming` that has come to its end. A handoff is a call too, as
        it is to the model.
        """
        builder = TraceBuilder()
        in_calls = False
        for item in get(result, "new_items", default=()):
            kind = get(item, "type", default="")
            if kind in _CALLS and not in_calls:
                builder.begin_turn()
            in_calls = kind in _CALLS
            parse = _PARSERS.get(kind)
            if parse is not None:
                parse(builder, item, get(item, "raw_item", default={}))
        agent = get(get(result, "last_agent"), "name")
        return builder.build(text_form(get(result, "final_output")), agent=agent)

    def to_tool_definitions(self, agent: object) -> tuple[ToolDefinition, ...]:
        """Return the tools of an agent, its handoffs, and those of the agents that it can hand over to.

        Tools that OpenAI hosts have no schema. Those of MCP servers are only known by asking them, as
        `as_task` does.
        """
        return list_tools([resolve_agent(agent, self.agent_methods)])

    def parse_usage(self, result: object) -> CallMetrics | None:
        usage = get(get(result, "context_wrapper"), "usage")
        if usage is None:
            return None
        return make_usage(
            get(usage, "input_tokens"),
            get(usage, "output_tokens"),
            cached=get(get(usage, "input_tokens_details"), "cached_tokens"),
            reasoning=get(get(usage, "output_tokens_details"), "reasoning_tokens"),
        )

    def parse_output(self, result: object) -> Any:
        output = get(result, "final_output")
        return None if isinstance(output, str) else output

    async def run_agent(self, agent: object, inputs: object, options: RunOptions) -> AgentRun:
        runner = require("agents", EXTRA).Runner
        prompt = inputs if isinstance(inputs, str | list) else text_form(inputs) or ""
        recorder = _StepRecorder()
        hooks = recorder.hooks(options.get("hooks"))

        async def attempt() -> AgentRun:
            return self.parse_run(await runner.run(agent, prompt, **{**options, "hooks": hooks}))

        run = await finish_run(attempt(), recorder.read_progress)
        return replace(run, tools=await _find_tools(agent, options.get("context")))

    async def converse(
        self, agent: object, conversation: ConversationTrajectory, options: RunOptions
    ) -> AgentRun:
        return await self.run_agent(agent, conversation.to_messages("openai-responses"), options)

    def describe_agent(self, agent: object) -> Iterable[object]:
        model = get(agent, "model")
        model_name = model if isinstance(model, str) else get(model, "model", default=model)
        return get(agent, "name"), model_name, get(agent, "instructions")


_FRAMEWORK: Final = OpenAIAgents()
to_agent_trace: Final = _FRAMEWORK.to_agent_trace
to_tool_definitions: Final = _FRAMEWORK.to_tool_definitions
to_call_metrics: Final = _FRAMEWORK.to_call_metrics
run_and_trace: Final = _FRAMEWORK.run_and_trace
run_and_trace_async: Final = _FRAMEWORK.run_and_trace_async
as_task: Final = _FRAMEWORK.as_task
as_application: Final = _FRAMEWORK.as_application
as_judge: Final = _FRAMEWORK.as_judge


class _StepRecorder:
    """Records the steps of a run in the form of a result: the SDK returns nothing of a run that fails."""

    def __init__(self) -> None:
        self.new_items: list[Mapping[str, Any]] = []
        self.context_wrapper: Any = None

    def read_progress(self) -> tuple[AgentTrace, CallMetrics | None]:
        return to_agent_trace(self), _FRAMEWORK.parse_usage(self)

    def hooks(self, user_hooks: object) -> Any:
        """Return hooks that record what happens, and call those of the user."""
        base = require("agents.lifecycle", EXTRA).RunHooksBase
        recording: dict[str, Callable[..., None]] = {
            "on_llm_end": self._record_response,
            "on_tool_end": self._record_tool_output,
        }
        # All hooks that this version of the SDK has, so that none of the user's is lost.
        names = [name for name in dir(base) if name.startswith("on_")]
        hooks = {name: _chain_hooks(recording.get(name), getattr(user_hooks, name, None)) for name in names}
        return type("DokimosHooks", (base,), hooks)()

    def _record_response(self, context: object, agent: object, response: object) -> None:
        self.context_wrapper = context
        for raw in get(response, "output", default=()):
            kind = get(raw, "type", default="")
            name = "tool_call_item" if kind.endswith("_call") else _ITEM_TYPES.get(kind, kind)
            self.new_items.append({"type": name, "raw_item": raw})

    def _record_tool_output(self, context: object, agent: object, tool: object, output: object) -> None:
        raw = {"call_id": get(context, "tool_call_id")}
        self.new_items.append({"type": "tool_call_output_item", "raw_item": raw, "output": output})


_ITEM_TYPES: Final = {"message": "message_output_item", "reasoning": "reasoning_item"}
"""What the SDK calls the items that it makes of a model's, by the model's word."""


def _chain_hooks(first: Callable[..., None] | None, second: Callable[..., Any] | None) -> Callable[..., Any]:
    async def call_hooks(self: object, *args: Any, **kwargs: Any) -> None:
        if first is not None:
            first(*args, **kwargs)
        if second is not None:
            await second(*args, **kwargs)

    return call_hooks


def _parse_call(builder: TraceBuilder, item: object, raw: object) -> None:
    kind = get(raw, "type", default="function_call")
    name = get(raw, "name") or kind.removesuffix("_call")
    arguments = get(raw, "arguments", "action", "code", "queries", "input")
    # The SDK calls no function on arguments that are not JSON, whatever it then sends to the model.
    unreadable = kind == "function_call" and isinstance(arguments, str) and parse_object(arguments) is None
    builder.add_call(name, arguments, _call_id(raw), metadata={CALL_ERROR: True} if unreadable else None)


def _parse_call_output(builder: TraceBuilder, item: object, raw: object) -> None:
    output = get(item, "output", default=get(raw, "output"))
    builder.add_result(_call_id(raw), output, error=isinstance(output, str) and output.startswith(_FAILURE))


def _parse_message(builder: TraceBuilder, item: object, raw: object) -> None:
    builder.add_text(join_text(get(raw, "content")))


def _parse_reasoning(builder: TraceBuilder, item: object, raw: object) -> None:
    summary = join_text(_texts_of(get(raw, "summary")))
    builder.add_reasoning(summary or join_text(_texts_of(get(raw, "content"))))


def _texts_of(parts: Iterable[object] | None) -> list[str]:
    return [get(part, "text", default="") for part in parts or ()]


def _call_id(raw: object) -> str | None:
    call_id = get(raw, "call_id", "id")
    return call_id if isinstance(call_id, str) else None


_FAILURE: Final = "An error occurred while running the tool. Please try again."
"""The result that the SDK sends to a model for a tool that raised, or whose arguments are not JSON."""
_CALLS: Final = frozenset({"tool_call_item", "handoff_call_item"})
_PARSERS: Final[dict[str, Callable[[TraceBuilder, Any, Any], None]]] = {
    "tool_call_item": _parse_call,
    "handoff_call_item": _parse_call,
    "tool_call_output_item": _parse_call_output,
    "handoff_output_item": _parse_call_output,
    "message_output_item": _parse_message,
    "reasoning_item": _parse_reasoning,
}


def _define_tool(tool: FrameworkObject) -> ToolDefinition:
    schema = get(tool, "params_json_schema", default={})
    return ToolDefinition(tool.name, get(tool, "description", default=""), input_schema=schema)


def _define_handoff(target: object) -> ToolDefinition:
    name = get(target, "tool_name") or f"transfer_to_{_to_snake_case(get(target, 'name', default='agent'))}"
    description = get(target, "tool_description", "handoff_description", default="")
    return ToolDefinition(name, description, input_schema=get(target, "input_json_schema", default={}))


def _to_snake_case(name: str) -> str:
    return re.sub("[^a-zA-Z0-9_]", "_", name).lower()


def list_tools(agents: Iterable[object]) -> tuple[ToolDefinition, ...]:
    """Return the tools of agents, and of those that they can hand over to, each once."""
    return merge_tools(_define_tools(_reachable_agents(agents)))


def _define_tools(agents: Iterable[object]) -> Iterator[ToolDefinition]:
    for agent in agents:
        yield from (_define_tool(tool) for tool in get(agent, "tools", default=()))
        yield from (_define_handoff(target) for target in get(agent, "handoffs", default=()))


def _reachable_agents(agents: Iterable[object]) -> list[Any]:
    """Return agents with all that the conversation can come to by handoffs, each once."""
    agents_found: list[Any] = []
    queue = deque(agents)
    while queue:
        agent = queue.popleft()
        if all(agent is not other for other in agents_found):
            agents_found.append(agent)
            queue += [
                each for each in map(_find_target, get(agent, "handoffs", default=())) if each is not None
            ]
    return agents_found


def _find_target(handoff: object) -> Any:
    """Return the agent that a handoff goes to; the SDK has no public name for it."""
    if hasattr(handoff, "instructions"):
        return handoff
    reference = get(handoff, "_agent_ref")
    return reference() if callable(reference) else None


async def _find_tools(agent: object, context: object) -> tuple[ToolDefinition, ...] | None:
    """Return the tools of a run, those of connected MCP servers included."""
    tools = describe_tools(to_tool_definitions, agent)
    connected = [each for each in _reachable_agents([agent]) if get(each, "mcp_servers")]
    if tools is None or not connected:
        return tools
    wrapper = require("agents", EXTRA).RunContextWrapper(context)
    try:
        server_tools = [tool for each in connected for tool in await each.get_mcp_tools(wrapper)]
    except Exception:  # the servers of an agent may be gone when it has answered
        return tools
    return merge_tools([*tools, *map(_define_tool, server_tools)])
