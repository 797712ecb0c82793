"""Agents of Google's Agent Development Kit (`google.adk`).

An agent is an agent, a `Runner` (whose services are used), or a function without parameters that makes
either. An input is text, and runs in a session of its own; a conversation is the session's history.
`run_options` are those of `Runner.run_async`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, ClassVar, Final
from uuid import uuid4

from dokimos._core.agent import AgentTrace
from dokimos._core.conversation import ConversationTrajectory
from dokimos._core.extras import require
from dokimos._core.jsonable import text_form
from dokimos._core.metrics import CallMetrics
from dokimos._core.tool_definition import ToolDefinition
from dokimos._runtime.concurrency import run_sync
from dokimos.integrations._agent_runs import AgentRun, finish_run
from dokimos.integrations._background_loop import run_on_background_loop
from dokimos.integrations._framework import Framework, RunOptions, find_method, resolve_agent
from dokimos.integrations._framework_objects import FrameworkObject, get
from dokimos.integrations._token_usage import make_usage, sum_usage
from dokimos.integrations._tool_lists import merge_tools
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

EXTRA: Final = "google-adk"

APP: Final = "dokimos"
USER: Final = "dokimos"
ANSWER_TOOL: Final = "set_model_response"
"""The tool by which a model gives a structured answer; its call is the answer, and not a tool call."""
BLANK: Final = "MODEL_RETURNED_NO_CONTENT"
"""What ADK calls a blank reply, which is for the caller to accept or not."""
_AGENT_METHODS: Final = ("session_service", "find_agent")
"""What only a runner and an agent have."""


class GoogleADK(Framework):
    """Google's Agent Development Kit."""

    name = "google-adk"
    agent_methods: ClassVar[tuple[str, ...]] = _AGENT_METHODS

    def to_agent_trace(self, result: object) -> AgentTrace:
        """Return what the events of a run say, or those of a session: calls, their responses, the final text.

        Pieces of a streamed answer are ignored, since the whole follows them, and so are the events of a
        user. A response with a key "error" is a failure.
        """
        builder = TraceBuilder()
        author = None
        for event in get(result, "events", default=result):
            if get(event, "author") == "user" or get(event, "partial", default=False):
                continue
            author = get(event, "author", default=author)
            parts = get(get(event, "content"), "parts", default=())
            if any(get(part, "function_call") is not None for part in parts):
                builder.begin_turn()
            builder.add_text(_join_texts(parts, thought=False))
            builder.add_reasoning(_join_texts(parts, thought=True))
            for part in parts:
                _parse_part(builder, part)
        return builder.build(agent=author)

    def to_tool_definitions(self, agent: object) -> tuple[ToolDefinition, ...]:
        """Return the tools of an agent and of all agents below it, or of a list of tools or functions.

        Those of toolsets are among them, and the one by which agents transfer to one another.
        """
        if isinstance(agent, list | tuple):
            return tuple(_define_tool(tool) for tool in agent)
        agent = resolve_agent(agent, self.agent_methods)
        return run_sync(run_on_background_loop(_list_tools)(get(agent, "agent", default=agent)))

    def parse_usage(self, result: object) -> CallMetrics | None:
        events = (event for event in get(result, "events", default=result) if not get(event, "partial"))
        return sum_usage(_parse_tokens(event, get(event, "usage_metadata")) for event in events)

    def parse_run(self, result: FrameworkObject) -> AgentRun:
        run = super().parse_run(result)
        code = get(result[-1], "error_code") if result else None
        if code in (None, BLANK):
            return run
        error = f"{code}: {result[-1].error_message}"
        return replace(run, trace=replace(run.trace, final_response=None, error=error))

    async def run_agent(self, agent: object, inputs: object, options: RunOptions) -> AgentRun:
        return await self._answer(agent, text_form(inputs) or "", (), options)

    async def converse(
        self, agent: object, conversation: ConversationTrajectory, options: RunOptions
    ) -> AgentRun:
        *history, last = conversation.to_messages("gemini")
        return await self._answer(agent, last["parts"][0]["text"], history, options)

    async def _answer(
        self, agent: object, text: str, history: Sequence[Mapping[str, Any]], options: RunOptions
    ) -> AgentRun:
        async with _open_session(agent, history) as (runner, session):
            message = _to_content({"role": "user", "parts": [{"text": text}]})
            request = {"user_id": session.user_id, "session_id": session.id, "new_message": message}
            events: list[Any] = []

            def read_progress() -> tuple[AgentTrace, CallMetrics | None]:
                return self.to_agent_trace(events), self.parse_usage(events)

            async def attempt() -> AgentRun:
                async for event in runner.run_async(**{**request, **options}):
                    events.append(event)
                return self.parse_run(events)

            run = await finish_run(attempt(), read_progress)
            return replace(run, tools=await _find_tools(runner.agent))

    def describe_agent(self, agent: object) -> Iterable[object]:
        agent = get(agent, "agent", default=agent)
        model = get(agent, "model")
        model_name = model if isinstance(model, str) else get(model, "model")
        return get(agent, "name"), model_name, get(agent, "instruction")


_FRAMEWORK: Final = GoogleADK()
to_agent_trace: Final = _FRAMEWORK.to_agent_trace
to_tool_definitions: Final = _FRAMEWORK.to_tool_definitions
to_call_metrics: Final = _FRAMEWORK.to_call_metrics
run_and_trace: Final = _FRAMEWORK.run_and_trace
run_and_trace_async: Final = _FRAMEWORK.run_and_trace_async
as_task: Final = _FRAMEWORK.as_task
as_application: Final = _FRAMEWORK.as_application
as_judge: Final = _FRAMEWORK.as_judge


@asynccontextmanager
async def _open_session(
    agent: FrameworkObject, history: Iterable[Mapping[str, Any]]
) -> AsyncIterator[tuple[Any, Any]]:
    """Yield a runner and a session that has the history, and delete the session in the end."""
    runners = require("google.adk.runners", EXTRA)
    is_runner = find_method(agent, _AGENT_METHODS) == "session_service"
    runner = agent if is_runner else runners.InMemoryRunner(agent=agent, app_name=APP)
    sessions = runner.session_service
    session = await sessions.create_session(app_name=runner.app_name, user_id=USER, session_id=uuid4().hex)
    try:
        for content in history:
            await sessions.append_event(session, _to_event(content, runner.agent.name))
        yield runner, session
    finally:
        keys = {"app_name": runner.app_name, "user_id": USER, "session_id": session.id}
        await sessions.delete_session(**keys)


def _to_event(content: Mapping[str, Any], agent: str) -> Any:
    answers = any("functionResponse" in part for part in content["parts"])
    author = agent if content["role"] == "model" or answers else "user"
    event = require("google.adk.events", EXTRA).Event
    return event(author=author, invocation_id=uuid4().hex, content=_to_content(content))


def _to_content(content: Mapping[str, Any]) -> Any:
    return require("google.genai.types", EXTRA).Content.model_validate(content)


def _parse_tokens(event: object, usage: object) -> CallMetrics | None:
    if usage is None:
        return None
    thoughts = get(usage, "thoughts_token_count")
    total, read = get(usage, "total_token_count"), get(usage, "prompt_token_count")
    written = get(usage, "candidates_token_count")
    if total is not None and read is not None:
        written = total - read  # thoughts are in the total, and with some models in the answer's count too
    return make_usage(
        read,
        written,
        cached=get(usage, "cached_content_token_count"),
        reasoning=thoughts,
        model=get(event, "model_version"),
    )


def _join_texts(parts: Iterable[object], *, thought: bool) -> str:
    texts = (get(part, "text") for part in parts if bool(get(part, "thought")) is thought)
    return "".join(text for text in texts if text)


def _parse_part(builder: TraceBuilder, part: object) -> None:
    call, answer = get(part, "function_call"), get(part, "function_response")
    if call is not None and get(call, "name") != ANSWER_TOOL:
        builder.add_call(get(call, "name"), get(call, "args"), get(call, "id"))
    if answer is not None:
        response = get(answer, "response")
        error = response.get("error") if isinstance(response, Mapping) else None
        only = isinstance(response, Mapping) and response.keys() == {"result"}
        builder.add_result(
            get(answer, "id"), response["result"] if only else response, error=error if error else False
        )


async def _find_tools(agent: object) -> tuple[ToolDefinition, ...] | None:
    try:
        return await _list_tools(agent)
    except Exception:  # tools that cannot be described do not keep the agent from running
        return None


async def _list_tools(agent: object) -> tuple[ToolDefinition, ...]:
    agents = _tree(get(agent, "root_agent", default=agent))
    agents_with_tools = [each for each in agents if hasattr(each, "canonical_tools")]
    tools = [tool for each in agents_with_tools for tool in await each.canonical_tools()]
    if any(get(each, "sub_agents") for each in agents_with_tools):
        transfer = require("google.adk.tools.transfer_to_agent_tool", EXTRA).TransferToAgentTool
        tools.append(transfer([each.name for each in agents]))
    return merge_tools(map(_define_tool, tools))


def _tree(agent: object) -> list[Any]:
    """Return an agent and all agents below it, those of a workflow included."""
    below = (each for sub in get(agent, "sub_agents", default=()) for each in _tree(sub))
    return [agent, *below]


def _define_tool(tool: FrameworkObject) -> ToolDefinition:
    declare = getattr(tool, "_get_declaration", None)  # the declaration for models has no public name
    if declare is None:
        return ToolDefinition.from_object(tool)
    declaration = declare()
    if declaration is None:  # a tool that Google runs
        return ToolDefinition(tool.name, tool.description or "")
    return ToolDefinition.from_map(declaration.model_dump(mode="json", exclude_none=True, by_alias=True))
