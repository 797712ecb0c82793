"""Tools of MCP servers (`mcp`): records the calls of a session, and evaluates the tools of a server.

A target is an open `Client` or `ClientSession`, or what `mcp.Client` takes: a server, a transport, a URL. A
target that is not open is opened for each input. An open one belongs to its event loop: use it with
`run_async`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, TypeAlias, Unpack

from dokimos._core.agent import AgentTrace, ToolCall
from dokimos._core.conversation import ConversationTrajectory
from dokimos._core.extras import require
from dokimos._core.jsonable import jsonable, text_form
from dokimos._core.metrics import PriceTable
from dokimos._core.text import error_text
from dokimos._core.tool_definition import ToolDefinition
from dokimos._runtime.concurrency import run_sync
from dokimos.errors import IntegrationError
from dokimos.integrations._agent_runs import AgentRun, finish_run
from dokimos.integrations._agent_task import (
    AgentApplication,
    AgentJudge,
    AgentTask,
    ResultOptions,
    TaskOptions,
)
from dokimos.integrations._background_loop import run_on_background_loop
from dokimos.integrations._framework import Framework, RunOptions
from dokimos.integrations._framework_objects import FrameworkObject, get
from dokimos.integrations._tool_lists import define_tools, describe_tools
from dokimos.integrations._trace_builder import TraceBuilder, render_result
from dokimos.traces._collector import TraceCollector

__all__ = [
    "TracedSession",
    "as_application",
    "as_judge",
    "as_task",
    "run_and_trace",
    "run_and_trace_async",
    "to_agent_trace",
    "to_call_metrics",
    "to_tool_definitions",
]

EXTRA: Final = "mcp"

Calls: TypeAlias = ToolCall | Mapping[str, Any] | list[ToolCall | Mapping[str, Any]]
"""A `ToolCall`, a map with name and arguments, or a list of these."""


class TracedSession:
    """A session that records each call of a tool, whoever makes it; everything else goes through."""

    def __init__(self, session: FrameworkObject, collector: TraceCollector | None = None) -> None:
        """Record into `collector`, or into a new one."""
        self.session = session
        self.collector: TraceCollector = TraceCollector() if collector is None else collector

    async def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """Call a tool; an error of the protocol is recorded and raised."""
        try:
            result = await self.session.call_tool(name, arguments, **options)
        except Exception as error:
            self.collector.add_tool_call(name, arguments, result=error_text(error), error=True)
            raise
        text, failed = _result_text(result), _is_failed(result)
        self.collector.add_tool_call(name, arguments, result=text, error=failed)
        return result

    async def list_tools(self, **options: Any) -> Any:
        """List the tools, which become those of the collector."""
        result = await self.session.list_tools(**options)
        self.collector.add_tools(*define_tools(_list_of(result)))
        return result

    def trace(self) -> AgentTrace:
        """Return the calls so far."""
        return self.collector.trace()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.session, name)


@dataclass(frozen=True)
class MCP(Framework):
    """Servers of the Model Context Protocol: the agent is a target, which does what it is called for."""

    name: ClassVar[str] = "mcp"

    tool: str = ""
    """The tool that an input calls; without one an input names its calls."""
    argument: str = ""
    """The parameter of the tool that an input goes to; without one an input is the map of all arguments."""

    def to_agent_trace(self, result: object) -> AgentTrace:
        """Return what was called: from a `TracedSession`, or a list of maps with name, arguments and result.

        A result is a `CallToolResult`. Where only one call was made, its text is the final response.
        """
        if isinstance(result, TracedSession):
            return result.trace()
        builder = TraceBuilder()
        for call in result if isinstance(result, Iterable) else ():
            answer = get(call, "result")
            if answer is None:
                builder.add_call(get(call, "name"), get(call, "arguments"))
            else:
                name, arguments = get(call, "name"), get(call, "arguments")
                error = _is_failed(answer)
                builder.add_call_with_result(name, arguments, _result_text(answer), error=error)
        trace = builder.build()
        single = trace.tool_calls[0].result if len(trace.tool_calls) == 1 else None
        return trace if single is None else builder.build(single)

    def to_tool_definitions(self, agent: object) -> tuple[ToolDefinition, ...]:
        """Return the tools in the result of `list_tools` or in a list, or those of a server."""
        if isinstance(agent, list | tuple) or get(agent, "tools") is not None:
            return define_tools(_list_of(agent))
        return define_tools(run_sync(run_on_background_loop(_request_tools)(agent)))

    async def run_agent(self, agent: object, inputs: object, options: RunOptions) -> AgentRun:
        calls = self._parse_calls(inputs)
        records: list[dict[str, Any]] = []
        tools: list[Any] = []

        async def attempt() -> AgentRun:
            await _make_calls(agent, calls, records, tools)
            return _parse_results(records, single=len(calls) == 1)

        run = await finish_run(attempt(), lambda: (self.to_agent_trace(records), None))
        return replace(run, tools=describe_tools(self.to_tool_definitions, tools) if tools else None)

    async def converse(
        self, agent: object, conversation: ConversationTrajectory, options: RunOptions
    ) -> AgentRun:
        last = conversation.last_user_message
        return await self.run_agent(agent, "" if last is None else last.content, options)

    def describe_agent(self, agent: object) -> Iterable[object]:
        name = agent if isinstance(agent, str) else get(agent, "name", default=type(agent).__name__)
        return name, self.tool, self.argument

    def is_agent(self, agent: object) -> bool:
        return True  # a URL is text and a server any object: nothing tells a target from what makes one

    def start_agent(self, agent: object, state: object) -> object:
        return agent

    def _parse_calls(self, inputs: object) -> list[ToolCall]:
        if not self.tool:
            return [_parse_call(each) for each in (inputs if isinstance(inputs, list | tuple) else [inputs])]
        if self.argument:
            return [ToolCall(self.tool, {self.argument: inputs})]
        if not isinstance(inputs, Mapping):
            raise IntegrationError(
                f"The input of tool {self.tool!r} must be a map of its arguments, not "
                f"{type(inputs).__name__}; argument=... names the one that takes the input."
            )
        return [ToolCall(self.tool, inputs)]


_FRAMEWORK: Final = MCP()
to_agent_trace: Final = _FRAMEWORK.to_agent_trace
to_tool_definitions: Final = _FRAMEWORK.to_tool_definitions


def to_call_metrics(result: object, model: str | None = None, price_table: PriceTable | None = None) -> None:
    """Return None: the results of MCP tools do not say what they cost."""


def run_and_trace(target: object, calls: Calls) -> AgentTrace:
    """Make calls one after another and return them with their results."""
    return _FRAMEWORK.run_and_trace(target, calls)


async def run_and_trace_async(target: object, calls: Calls) -> AgentTrace:
    """Do what `run_and_trace` does, on the event loop that is running."""
    return await _FRAMEWORK.run_and_trace_async(target, calls)


def as_task(
    target: object, tool: str = "", *, argument: str = "", **options: Unpack[TaskOptions]
) -> AgentTask:
    """Return a task that calls a tool with an input; its result is the output.

    Args:
        target: The session or server.
        tool: Which tool; without one an input names the calls itself.
        argument: The tool's parameter that takes an input; without one an input is the map of all arguments.
        options: As for all integrations.
    """
    return MCP(tool, argument).as_task(target, **options)


def as_application(
    target: object, tool: str, *, argument: str, **options: Unpack[ResultOptions]
) -> AgentApplication:
    """Return a tool as an application: it gets the last message of the user as `argument`."""
    return MCP(tool, argument).as_application(target, **options)


def as_judge(
    target: object,
    tool: str,
    *,
    argument: str,
    model: str | None = None,
    price_table: PriceTable | None = None,
) -> AgentJudge:
    """Return a tool that takes a prompt as `argument` as a judge."""
    return MCP(tool, argument).as_judge(target, model=model, price_table=price_table)


def _parse_call(call: object) -> ToolCall:
    if isinstance(call, ToolCall):
        return call
    if isinstance(call, Mapping):
        return ToolCall.from_map(call)
    raise IntegrationError(f"A call must be a ToolCall or a map with a name, not {call!r:.80}.")


async def _make_calls(
    target: object, calls: Iterable[ToolCall], records: list[dict[str, Any]], tools: list[Any]
) -> None:
    """Make calls and add each of them to `records`, and the tools of the session to `tools`."""
    if not _is_open(target):
        async with require("mcp", EXTRA).Client(target) as session:
            return await _make_calls(session, calls, records, tools)
    for call in calls:
        arguments = dict(jsonable(call.arguments))
        records.append({"name": call.name, "arguments": arguments})
        records[-1]["result"] = await _call_tool(target, call.name, arguments)
    with suppress(Exception):  # tools that cannot be listed do not keep the tool from working
        tools += await _list_all_tools(target)


async def _call_tool(session: FrameworkObject, name: str, arguments: dict[str, Any]) -> Any:
    """Call a tool; an error of the protocol is a failed result, as it is for a model."""
    try:
        return await session.call_tool(name, arguments)
    except require("mcp", EXTRA).MCPError as error:
        return {"content": [{"type": "text", "text": error_text(error)}], "is_error": True}


async def _request_tools(target: object) -> list[Any]:
    if _is_open(target):
        return await _list_all_tools(target)
    async with require("mcp", EXTRA).Client(target) as session:
        return await _list_all_tools(session)


async def _list_all_tools(session: FrameworkObject) -> list[Any]:
    """Return the tools of all pages."""
    tools: list[Any] = []
    cursor = None
    while True:
        page = await (session.list_tools() if cursor is None else session.list_tools(cursor=cursor))
        tools += page.tools
        cursor = get(page, "next_cursor", "nextCursor")
        if not cursor:
            return tools


def _is_open(target: object) -> bool:
    # What can be pinged is a session or a client; a server, a transport or a URL has to be opened first.
    return hasattr(target, "send_ping")


def _list_of(tools: object) -> list[Any]:
    return list(tools if isinstance(tools, list | tuple) else get(tools, "tools", default=()))


def _parse_results(records: list[dict[str, Any]], *, single: bool) -> AgentRun:
    trace = to_agent_trace(records)
    structured = get(records[0]["result"], "structured_content", "structuredContent") if single else None
    if isinstance(structured, Mapping) and set(structured) == {"result"}:
        structured = structured["result"]  # how a server wraps a result that is not an object
    if structured is None and not single:
        structured = [call.result for call in trace.tool_calls]
    failed = bool(records) and _is_failed(records[0]["result"])
    return AgentRun(trace=trace, output=None if failed else structured, hint="as the result of a tool")


def _result_text(result: object) -> str:
    content = get(result, "content", default=[])
    structured = get(result, "structured_content", "structuredContent")
    if not content and structured is not None:
        return text_form(structured) or ""
    return render_result(content) if content else ""


def _is_failed(result: object) -> bool:
    return get(result, "is_error", "isError") is True
