"""Tools of MCP servers (`mcp`): what a session called, and a server's tools as what is evaluated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeAlias, Unpack

from dokimos.core.agent import AgentTrace, ToolCall, ToolDefinition
from dokimos.core.conversation import ConversationTrajectory
from dokimos.core.extras import require
from dokimos.core.jsonable import jsonable, text_form
from dokimos.core.metrics import CallMetrics, PriceTable
from dokimos.core.text import error_text
from dokimos.errors import IntegrationError
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
)
from dokimos.integrations.lasting_loop import on_lasting_loop
from dokimos.integrations.reading import TraceBuilder, get, result_text, tool_definitions
from dokimos.runtime.concurrency import run_sync
from dokimos.traces.collector import TraceCollector

EXTRA: Final = "mcp"

Target: TypeAlias = Any
"""An open `Client` or `ClientSession`, or what `mcp.Client` takes: a server, a transport, a URL.

What is not open is opened for each input. An open one belongs to its event loop: use it with `run_async`.
"""

Calls: TypeAlias = Any
"""A `ToolCall`, a map with name and arguments, or a list of these."""


class TracedSession:
    """A session that writes down each call of a tool, for whoever uses it; all else goes through."""

    def __init__(self, session: Any, collector: TraceCollector | None = None) -> None:
        """`collector` takes the calls; one of its own where none is given."""
        self.session = session
        self.collector = TraceCollector() if collector is None else collector

    async def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """Call a tool; an error of the protocol is written down and raised."""
        try:
            result = await self.session.call_tool(name, arguments, **options)
        except Exception as error:
            self.collector.add_tool_call(name, arguments, result=error_text(error), error=True)
            raise
        text, failed = _text(result), _failed(result)
        self.collector.add_tool_call(name, arguments, result=text, error=failed)
        return result

    async def list_tools(self, **options: Any) -> Any:
        """List the tools, which become those of the collector."""
        result = await self.session.list_tools(**options)
        self.collector.add_tools(*tool_definitions(_listed(result)))
        return result

    def trace(self) -> AgentTrace:
        return self.collector.trace()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.session, name)


def to_agent_trace(result: Any) -> AgentTrace:
    """Return what was called: from a `TracedSession`, or a list of maps with name, arguments and result.

    A result is a `CallToolResult`. Where only one call was made, its text is the final response.
    """
    if isinstance(result, TracedSession):
        return result.trace()
    builder = TraceBuilder()
    made = list(result)
    for each in made:
        answer = get(each, "result")
        if answer is None:
            builder.call(get(each, "name"), get(each, "arguments"))
        else:
            failed = _failed(answer)
            builder.answered_call(get(each, "name"), get(each, "arguments"), _text(answer), error=failed)
    trace = builder.trace()
    single = trace.tool_calls[0].result if len(trace.tool_calls) == 1 else None
    return trace if single is None else builder.trace(single)


def to_tool_definitions(tools: Any) -> tuple[ToolDefinition, ...]:
    """Return the tools in the result of `list_tools`, in a list, or of a server that is asked for them."""
    if isinstance(tools, list | tuple) or get(tools, "tools") is not None:
        return tool_definitions(_listed(tools))
    return tool_definitions(_listed(run_sync(on_lasting_loop(_ask_for_tools)(tools))))


def to_call_metrics(
    result: Any, model: str | None = None, price_table: PriceTable | None = None
) -> CallMetrics | None:
    """Return None: the results of MCP tools do not say what they cost."""
    return None


def run_and_trace(target: Target, calls: Calls) -> AgentTrace:
    """Make calls one after another and return them with their results."""
    return run_sync(run_and_trace_async(target, calls))


async def run_and_trace_async(target: Target, calls: Calls) -> AgentTrace:
    """Do what `run_and_trace` does, on the event loop that is running."""
    return (await _bridge(target, "", "").run(calls)).trace


def as_task(
    target: Target, tool: str = "", *, argument: str = "", **options: Unpack[TaskOptions]
) -> AgentTask:
    """Return a task that calls a tool with an input; its result is the output.

    Args:
        target: The session or server.
        tool: Which tool; without one an input names the calls itself.
        argument: The tool's parameter that takes an input; without one an input is the map of all arguments.
        options: As for all integrations.
    """
    return AgentTask(_bridge(target, tool, argument), **options)


def as_application(
    target: Target, tool: str, *, argument: str, **options: Unpack[ResultOptions]
) -> AgentApplication:
    """Return a tool that takes what the user says last under `argument` as an application."""
    return AgentApplication(AgentTask(_bridge(target, tool, argument), **options))


def as_judge(
    target: Target,
    tool: str,
    *,
    argument: str,
    model: str | None = None,
    price_table: PriceTable | None = None,
) -> AgentJudge:
    """Return a tool that takes a prompt under `argument` as a judge."""
    return AgentJudge(_bridge(target, tool, argument), model, price_table)


def _bridge(target: Target, tool: str, argument: str) -> Bridge:
    async def run(inputs: Any) -> AgentRun:
        calls = _calls(inputs, tool, argument)
        made: list[dict[str, Any]] = []
        tools: list[Any] = []
        try:
            await _on_session(target, calls, made, tools)
            came = _read(made, single=len(calls) == 1)
        except Exception as error:
            came = AgentRun.of_failure(error, to_agent_trace(made))
        return replace(came, tools=describe_tools(to_tool_definitions, tools) if tools else None)

    async def converse(conversation: ConversationTrajectory) -> AgentRun:
        last = conversation.last_user_message
        return await run("" if last is None else last.content)

    return Bridge(identity=identity("mcp", _name(target), tool, argument), run=run, converse=converse)


def _calls(inputs: Any, tool: str, argument: str) -> list[ToolCall]:
    if not tool:
        return [_call(each) for each in (inputs if isinstance(inputs, list | tuple) else [inputs])]
    if argument:
        return [ToolCall(tool, {argument: inputs})]
    if not isinstance(inputs, Mapping):
        raise IntegrationError(
            f"The input of tool {tool!r} must be a map of its arguments, not {type(inputs).__name__}; "
            f"argument=... names the one that takes it."
        )
    return [ToolCall(tool, inputs)]


def _call(given: Any) -> ToolCall:
    if isinstance(given, ToolCall):
        return given
    if isinstance(given, Mapping):
        return ToolCall.from_map(given)
    raise IntegrationError(f"A call must be a ToolCall or a map with a name, not {given!r:.80}.")


async def _on_session(
    target: Target, calls: Iterable[ToolCall], made: list[dict[str, Any]], tools: list[Any]
) -> None:
    """Make calls, each of which is added to `made`, and add the tools that there are to `tools`."""
    if not _is_open(target):
        async with require("mcp", EXTRA).Client(target) as session:
            return await _on_session(session, calls, made, tools)
    for call in calls:
        arguments = dict(jsonable(call.arguments))
        made.append({"name": call.name, "arguments": arguments})
        made[-1]["result"] = await _result_of(target, call.name, arguments)
    with suppress(Exception):  # what cannot be described does not keep the tool from working
        tools += await _all_tools(target)


async def _result_of(session: Any, name: str, arguments: dict[str, Any]) -> Any:
    """Call a tool; what the protocol refuses is a failed result, as it is to a model."""
    try:
        return await session.call_tool(name, arguments)
    except require("mcp", EXTRA).MCPError as error:
        return {"content": [{"type": "text", "text": error_text(error)}], "is_error": True}


async def _ask_for_tools(target: Target) -> list[Any]:
    if _is_open(target):
        return await _all_tools(target)
    async with require("mcp", EXTRA).Client(target) as session:
        return await _all_tools(session)


async def _all_tools(session: Any) -> list[Any]:
    """Return the tools of all pages."""
    tools: list[Any] = []
    cursor = None
    while True:
        page = await (session.list_tools() if cursor is None else session.list_tools(cursor=cursor))
        tools += page.tools
        cursor = get(page, "next_cursor", "nextCursor")
        if not cursor:
            return tools


def _is_open(target: Target) -> bool:
    return hasattr(target, "send_ping")


def _name(target: Target) -> str:
    return target if isinstance(target, str) else get(target, "name", default=type(target).__name__)


def _listed(tools: Any) -> list[Any]:
    return list(get(tools, "tools", default=()) if not isinstance(tools, list | tuple) else tools)


def _read(made: list[dict[str, Any]], *, single: bool) -> AgentRun:
    trace = to_agent_trace(made)
    structured = get(made[0]["result"], "structured_content", "structuredContent") if single else None
    if isinstance(structured, Mapping) and set(structured) == {"result"}:
        structured = structured["result"]  # how a server wraps what is no object
    if structured is None and not single:
        structured = [call.result for call in trace.tool_calls]
    failed = bool(made) and _failed(made[0]["result"])
    return AgentRun(trace=trace, output=None if failed else structured, hint="as the result of a tool")


def _text(result: Any) -> str:
    content = get(result, "content", default=[])
    structured = get(result, "structured_content", "structuredContent")
    if not content and structured is not None:
        return text_form(structured) or ""
    return result_text(content) if content else ""


def _failed(result: Any) -> bool:
    return get(result, "is_error", "isError") is True
