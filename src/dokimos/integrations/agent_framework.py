"""Agents and chat clients of the Microsoft Agent Framework (`agent_framework`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeAlias, Unpack

from dokimos.core.agent import AgentTrace, ToolDefinition
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
    describe_tools,
    identity,
    keep_so_far,
)
from dokimos.integrations.kinds import made_one_of, method_of
from dokimos.integrations.reading import TraceBuilder, get, priced, summed, usage_of, with_offered
from dokimos.runtime.concurrency import run_sync

EXTRA: Final = "agent-framework"

AgentLike: TypeAlias = Any
"""An `Agent`, a chat client, or a function without parameters that makes one for each input."""


def to_agent_trace(result: Any) -> AgentTrace:
    """Return what an `AgentResponse` or `ChatResponse` tells: its calls, their results and its last text.

    Calls of tools that a provider hosts are calls too. One that waits for an approval has no result.
    """
    builder = TraceBuilder()
    author = None
    for message in get(result, "messages", default=()):
        author = get(message, "author_name", default=author)
        contents = get(message, "contents", default=())
        if any(_is_call(get(content, "type")) for content in contents):
            builder.turn()
        for content in contents:
            _read_content(builder, content)
    trace = builder.trace(agent=author)
    if trace.final_response == _TURN_LIMIT:
        return replace(trace, final_response=None, error=f"limit of iterations: {_TURN_LIMIT}")
    return trace


def to_tool_definitions(agent: AgentLike | Iterable[Any]) -> tuple[ToolDefinition, ...]:
    """Return the function tools of an agent, or of a list of tools; those that a provider hosts have none."""
    if not isinstance(agent, list | tuple):
        agent = made_one_of(agent, _METHODS)
        connected = [tool for server in get(agent, "mcp_tools", default=()) for tool in server.functions]
        agent = [*(get(get(agent, "default_options"), "tools", default=())), *connected]
    return tuple(_definition(tool) for tool in agent if callable(tool) or get(tool, "name"))


def to_call_metrics(
    result: Any, model: str | None = None, price_table: PriceTable | None = None
) -> CallMetrics | None:
    """Return the tokens of all model calls of a run, and their cost; None where nothing was measured."""
    return priced(_usage(result), model, price_table)


def run_and_trace(agent: AgentLike, inputs: Any, **run_options: Any) -> AgentTrace:
    """Run an agent on text or a list of messages; `run_options` are those of its `run`."""
    return run_sync(run_and_trace_async(agent, inputs, **run_options))


async def run_and_trace_async(agent: AgentLike, inputs: Any, **run_options: Any) -> AgentTrace:
    """Do what `run_and_trace` does, on the event loop that is running."""
    return (await _bridge(agent, run_options).run(inputs)).trace


def as_task(
    agent: AgentLike, *, run_options: Mapping[str, Any] | None = None, **options: Unpack[TaskOptions]
) -> AgentTask:
    """Return a task that runs an agent on an input, without a session: each input stands alone."""
    return AgentTask(_bridge(agent, run_options or {}), **options)


def as_application(
    agent: AgentLike, *, run_options: Mapping[str, Any] | None = None, **options: Unpack[ResultOptions]
) -> AgentApplication:
    """Return an agent as the application of a simulated conversation."""
    return AgentApplication(AgentTask(_bridge(agent, run_options or {}), **options))


def as_judge(
    agent: AgentLike, *, model: str | None = None, price_table: PriceTable | None = None
) -> AgentJudge:
    """Return an agent or a chat client as a judge."""
    return AgentJudge(_bridge(agent, {}), model, price_table)


_TURN_LIMIT: Final = "Function invocation limit reached before a final answer could be produced."
"""What the framework says in the place of an answer."""
_METHODS: Final = ("get_response", "run")
"""What only a chat client and an agent have."""


def _bridge(agent: AgentLike, run_options: Mapping[str, Any]) -> Bridge:
    async def run(inputs: Any) -> AgentRun:
        given = inputs if isinstance(inputs, list) else [_message("user", text_form(inputs) or "")]
        ready = made_one_of(agent, _METHODS)
        if method_of(ready, _METHODS) == "get_response":
            return _read(await ready.get_response(given, **run_options))
        return await _run(ready, given, run_options)

    async def converse(conversation: ConversationTrajectory) -> AgentRun:
        return await run([_told(message) for message in conversation.to_messages("openai")])

    return Bridge(identity=_identity(agent), run=run, converse=converse)


async def _run(agent: Any, given: list[Any], run_options: Mapping[str, Any]) -> AgentRun:
    watch = _Watch()
    theirs = run_options.get("middleware") or ()
    watching = [*(theirs if isinstance(theirs, list | tuple) else [theirs]), watch.middleware()]
    keep_so_far(watch.so_far)
    try:
        came = _read(await agent.run(given, **{**run_options, "middleware": watching}))
    except Exception as error:
        came = AgentRun.of_failure(error, *watch.so_far())
    described = describe_tools(to_tool_definitions, agent)
    offered = describe_tools(to_tool_definitions, watch.tools)
    return replace(came, tools=with_offered(described, offered))


class _Watch:
    """What the model calls of a run were given and gave, also where the run breaks off."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        """What the model said and the results that it was given; some clients send these alone."""
        self.tools: list[Any] = []
        """All that the model was offered: those of context providers are known in no other place."""
        self.usage: CallMetrics | None = None

    def so_far(self) -> tuple[AgentTrace, CallMetrics | None]:
        return to_agent_trace(self), self.usage

    def middleware(self) -> Any:
        async def watch(context: Any, call_next: Any) -> None:
            offered = get(get(context, "options"), "tools", default=())
            self.tools += [tool for tool in offered if not any(tool is known for known in self.tools)]
            self.messages += self._new_results(context.messages)
            await call_next()
            self.messages += get(context.result, "messages", default=())
            self.usage = summed([self.usage, _usage(context.result)])

        return require("agent_framework", EXTRA).chat_middleware(watch)

    def _new_results(self, messages: Iterable[Any]) -> list[Any]:
        waiting = self._ids("_call") - self._ids("_result")
        return [message for message in messages if _ids_in(message, "_result") & waiting]

    def _ids(self, kind: str) -> set[str]:
        return {each for message in self.messages for each in _ids_in(message, kind)}


def _ids_in(message: Any, kind: str) -> set[str]:
    contents = get(message, "contents", default=())
    return {
        get(each, "call_id", default="") for each in contents if get(each, "type", default="").endswith(kind)
    }


def _message(role: str, *contents: Any) -> Any:
    return require("agent_framework", EXTRA).Message(role, list(contents))


def _told(message: Mapping[str, Any]) -> Any:
    """Return a message of Chat Completions as one of the framework's."""
    if message["role"] == "tool":
        result = {"call_id": message["tool_call_id"], "result": message["content"]}
        return _message("tool", {"type": "function_result", **result})
    calls = [
        {"type": "function_call", "call_id": call["id"], **call["function"]}
        for call in message.get("tool_calls", ())
    ]
    return _message(message["role"], *([message["content"]] if message["content"] else []), *calls)


def _read(result: Any) -> AgentRun:
    value = None
    with suppress(ValueError):  # an answer that is not what was asked for is still an answer
        value = get(result, "value")
    return AgentRun(
        trace=to_agent_trace(result), output=value, usage=_usage(result), hint="as the result of a tool"
    )


def _usage(result: Any) -> CallMetrics | None:
    usage = get(result, "usage_details")
    if usage is None:
        return None
    return usage_of(
        get(usage, "input_token_count"),
        get(usage, "output_token_count"),
        cached=get(usage, "cache_read_input_token_count"),
        reasoning=get(usage, "reasoning_output_token_count"),
        model=get(result, "model"),
    )


def _identity(agent: AgentLike) -> str:
    if method_of(agent, _METHODS) is None:
        return identity("agent-framework", agent)
    options = get(agent, "default_options", default={})
    model = get(agent, "model") or get(options, "model") or get(get(agent, "client"), "model")
    return identity("agent-framework", get(agent, "name"), model, get(options, "instructions"))


def _is_call(kind: str | None) -> bool:
    return kind is not None and kind.endswith("_call")


def _read_content(builder: TraceBuilder, content: Any) -> None:
    kind = get(content, "type", default="")
    if kind == "text":
        builder.say(get(content, "text"))
    elif kind == "text_reasoning":
        builder.think(get(content, "text"))
    elif _is_call(kind):
        _read_call(builder, content)
    elif kind.endswith("_result"):
        failure = get(content, "exception")
        result = get(content, "result", "output", "outputs")
        builder.result(get(content, "call_id"), result, error=str(failure) if failure else False)


def _read_call(builder: TraceBuilder, call: Any) -> None:
    name = get(call, "name", "tool_name") or get(call, "type", default="").removesuffix("_tool_call")
    builder.call(name, get(call, "arguments", "inputs"), get(call, "call_id"))


def _definition(tool: Any) -> ToolDefinition:
    parameters = getattr(tool, "parameters", None)
    if not callable(parameters):
        return ToolDefinition.from_object(tool)
    return ToolDefinition(tool.name, get(tool, "description", default="").strip(), input_schema=parameters())
