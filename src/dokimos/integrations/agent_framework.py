"""Agents and chat clients of the Microsoft Agent Framework (`agent_framework`).

An agent is an `Agent`, a chat client, or a function without parameters that makes one for each input. Inputs,
which are text or a list of messages, are run without a session: each stands alone. `run_options` are those of
`run`, or of a client's `get_response`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar, Final

from dokimos._core.agent import AgentTrace
from dokimos._core.conversation import ConversationTrajectory
from dokimos._core.extras import require
from dokimos._core.jsonable import text_form
from dokimos._core.metrics import CallMetrics
from dokimos._core.tool_definition import ToolDefinition
from dokimos.integrations._agent_runs import AgentRun, finish_run
from dokimos.integrations._framework import Framework, RunOptions, find_method, resolve_agent
from dokimos.integrations._framework_objects import FrameworkObject, get
from dokimos.integrations._token_usage import make_usage, sum_usage
from dokimos.integrations._tool_lists import add_offered_tools, describe_tools
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

EXTRA: Final = "agent-framework"
_TURN_LIMIT: Final = "Function invocation limit reached before a final answer could be produced."
"""What the framework says in the place of an answer."""


class AgentFramework(Framework):
    """The Microsoft Agent Framework."""

    name = "agent-framework"
    agent_methods: ClassVar[tuple[str, ...]] = ("get_response", "run")  # a chat client, an agent

    def to_agent_trace(self, result: object) -> AgentTrace:
        """Return what an `AgentResponse` or `ChatResponse` has: its calls, their results and its last text.

        Calls of tools that a provider hosts are calls too. One that waits for an approval has no result.
        """
        builder = TraceBuilder()
        author = None
        for message in get(result, "messages", default=()):
            author = get(message, "author_name", default=author)
            contents = get(message, "contents", default=())
            if any(_is_call(get(content, "type")) for content in contents):
                builder.begin_turn()
            for content in contents:
                _parse_content(builder, content)
        trace = builder.build(agent=author)
        if trace.final_response == _TURN_LIMIT:
            return replace(trace, final_response=None, error=f"limit of iterations: {_TURN_LIMIT}")
        return trace

    def to_tool_definitions(self, agent: object) -> tuple[ToolDefinition, ...]:
        """Return the function tools of an agent or a list of tools, without those that a provider hosts."""
        tools = agent if isinstance(agent, list | tuple) else self._find_tools(agent)
        return tuple(_define_tool(tool) for tool in tools if callable(tool) or get(tool, "name"))

    def _find_tools(self, agent: object) -> list[Any]:
        agent = resolve_agent(agent, self.agent_methods)
        connected = [tool for server in get(agent, "mcp_tools", default=()) for tool in server.functions]
        return [*(get(get(agent, "default_options"), "tools", default=())), *connected]

    def parse_usage(self, result: object) -> CallMetrics | None:
        usage = get(result, "usage_details")
        if usage is None:
            return None
        return make_usage(
            get(usage, "input_token_count"),
            get(usage, "output_token_count"),
            cached=get(usage, "cache_read_input_token_count"),
            reasoning=get(usage, "reasoning_output_token_count"),
            model=get(result, "model"),
        )

    def parse_output(self, result: object) -> Any:
        with suppress(ValueError):  # an answer that does not match the requested type is still an answer
            return get(result, "value")
        return None

    async def run_agent(self, agent: FrameworkObject, inputs: object, options: RunOptions) -> AgentRun:
        messages = inputs if isinstance(inputs, list) else [_message("user", text_form(inputs) or "")]
        if find_method(agent, self.agent_methods) == "get_response":
            return self.parse_run(await agent.get_response(messages, **options))
        recorder = _CallRecorder()
        middleware = options.get("middleware") or ()
        middleware = middleware if isinstance(middleware, list | tuple) else [middleware]
        recording = {**options, "middleware": [*middleware, recorder.middleware()]}

        async def attempt() -> AgentRun:
            return self.parse_run(await agent.run(messages, **recording))

        run = await finish_run(attempt(), recorder.read_progress)
        described = describe_tools(self.to_tool_definitions, agent)
        offered = describe_tools(self.to_tool_definitions, recorder.tools)
        return replace(run, tools=add_offered_tools(described, offered))

    async def converse(
        self, agent: object, conversation: ConversationTrajectory, options: RunOptions
    ) -> AgentRun:
        messages = [_to_theirs(message) for message in conversation.to_messages("openai")]
        return await self.run_agent(agent, messages, options)

    def describe_agent(self, agent: object) -> Iterable[object]:
        options = get(agent, "default_options", default={})
        model = get(agent, "model") or get(options, "model") or get(get(agent, "client"), "model")
        return get(agent, "name"), model, get(options, "instructions")


_FRAMEWORK: Final = AgentFramework()
to_agent_trace: Final = _FRAMEWORK.to_agent_trace
to_tool_definitions: Final = _FRAMEWORK.to_tool_definitions
to_call_metrics: Final = _FRAMEWORK.to_call_metrics
run_and_trace: Final = _FRAMEWORK.run_and_trace
run_and_trace_async: Final = _FRAMEWORK.run_and_trace_async
as_task: Final = _FRAMEWORK.as_task
as_application: Final = _FRAMEWORK.as_application
as_judge: Final = _FRAMEWORK.as_judge


class _CallRecorder:
    """Records the inputs and outputs of the model calls of a run, also where the run fails."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        """Messages of the model and the results that it was given; some clients send these alone."""
        self.tools: list[Any] = []
        """All tools that the model was offered: those of context providers are known nowhere else."""
        self.usage: CallMetrics | None = None

    def read_progress(self) -> tuple[AgentTrace, CallMetrics | None]:
        return to_agent_trace(self), self.usage

    def middleware(self) -> Any:
        async def record(context: FrameworkObject, call_next: FrameworkObject) -> None:
            offered = get(get(context, "options"), "tools", default=())
            self.tools += [tool for tool in offered if not any(tool is other for other in self.tools)]
            self.messages += self._new_results(context.messages)
            await call_next()
            self.messages += get(context.result, "messages", default=())
            self.usage = sum_usage([self.usage, _FRAMEWORK.parse_usage(context.result)])

        return require("agent_framework", EXTRA).chat_middleware(record)

    def _new_results(self, messages: Iterable[Any]) -> list[Any]:
        unanswered = self._ids("_call") - self._ids("_result")
        return [message for message in messages if _ids_in(message, "_result") & unanswered]

    def _ids(self, kind: str) -> set[str]:
        return {each for message in self.messages for each in _ids_in(message, kind)}


def _ids_in(message: object, kind: str) -> set[str]:
    contents = get(message, "contents", default=())
    return {
        get(each, "call_id", default="") for each in contents if get(each, "type", default="").endswith(kind)
    }


def _message(role: str, *contents: object) -> Any:
    return require("agent_framework", EXTRA).Message(role, list(contents))


def _to_theirs(message: Mapping[str, Any]) -> Any:
    """Convert a message of Chat Completions to one of the framework."""
    if message["role"] == "tool":
        result = {"call_id": message["tool_call_id"], "result": message["content"]}
        return _message("tool", {"type": "function_result", **result})
    calls = [
        {"type": "function_call", "call_id": call["id"], **call["function"]}
        for call in message.get("tool_calls", ())
    ]
    return _message(message["role"], *([message["content"]] if message["content"] else []), *calls)


def _is_call(kind: str | None) -> bool:
    return kind is not None and kind.endswith("_call")


def _parse_content(builder: TraceBuilder, content: object) -> None:
    kind = get(content, "type", default="")
    if kind == "text":
        builder.add_text(get(content, "text"))
    elif kind == "text_reasoning":
        builder.add_reasoning(get(content, "text"))
    elif _is_call(kind):
        _parse_call(builder, content)
    elif kind.endswith("_result"):
        failure = get(content, "exception")
        result = get(content, "result", "output", "outputs")
        builder.add_result(get(content, "call_id"), result, error=str(failure) if failure else False)


def _parse_call(builder: TraceBuilder, call: object) -> None:
    name = get(call, "name", "tool_name") or get(call, "type", default="").removesuffix("_tool_call")
    builder.add_call(name, get(call, "arguments", "inputs"), get(call, "call_id"))


def _define_tool(tool: FrameworkObject) -> ToolDefinition:
    parameters = getattr(tool, "parameters", None)
    if not callable(parameters):
        return ToolDefinition.from_object(tool)
    return ToolDefinition(tool.name, get(tool, "description", default="").strip(), input_schema=parameters())
