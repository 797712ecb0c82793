"""Agents of Google's Agent Development Kit (`google.adk`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final, TypeAlias, Unpack
from uuid import uuid4

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
    identity,
    keep_so_far,
)
from dokimos.integrations.kinds import made_one_of, method_of
from dokimos.integrations.lasting_loop import on_lasting_loop
from dokimos.integrations.reading import TraceBuilder, get, merge_tools, priced, summed, usage_of
from dokimos.runtime.concurrency import run_sync

EXTRA: Final = "google-adk"

AgentLike: TypeAlias = Any
"""An agent, a `Runner` (whose services are used), or a function without parameters that makes either."""

APP: Final = "dokimos"
USER: Final = "dokimos"
ANSWERING: Final = "set_model_response"
"""The tool by which a model gives a structured answer; its call is the answer, and no tool call."""
BLANK: Final = "MODEL_RETURNED_NO_CONTENT"
"""What ADK calls a blank reply, which is for the caller to accept or not."""


def to_agent_trace(result: Iterable[Any]) -> AgentTrace:
    """Return what the events of a run tell, or those of a session: calls, their responses, the final text.

    Pieces of a streamed answer are left out, since the whole follows them. The events of a user are no part
    of it. A response with a key "error" is a failure.
    """
    builder = TraceBuilder()
    author = None
    for event in get(result, "events", default=result):
        if get(event, "author") == "user" or get(event, "partial", default=False):
            continue
        author = get(event, "author", default=author)
        parts = get(get(event, "content"), "parts", default=())
        if any(get(part, "function_call") is not None for part in parts):
            builder.turn()
        builder.say(_said(parts, thought=False))
        builder.think(_said(parts, thought=True))
        for part in parts:
            _read_part(builder, part)
    return builder.trace(agent=author)


def to_tool_definitions(agent: AgentLike | Iterable[Any]) -> tuple[ToolDefinition, ...]:
    """Return the tools of an agent and of all agents below it, or of a list of tools or functions.

    Those of toolsets are among them, and that by which agents transfer to one another.
    """
    if isinstance(agent, list | tuple):
        return tuple(_definition(tool) for tool in agent)
    agent = made_one_of(agent, _METHODS)
    return run_sync(on_lasting_loop(_tools_of)(get(agent, "agent", default=agent)))


def to_call_metrics(
    result: Iterable[Any], model: str | None = None, price_table: PriceTable | None = None
) -> CallMetrics | None:
    """Return the tokens of all model calls in events, and their cost; None where nothing was measured."""
    return priced(_usage(result), model, price_table)


def run_and_trace(agent: AgentLike, inputs: Any, **run_options: Any) -> AgentTrace:
    """Run an agent on text in a session of its own; `run_options` are those of `Runner.run_async`."""
    return run_sync(run_and_trace_async(agent, inputs, **run_options))


async def run_and_trace_async(agent: AgentLike, inputs: Any, **run_options: Any) -> AgentTrace:
    """Do what `run_and_trace` does, on the event loop that is running."""
    return (await _bridge(agent, run_options).run(inputs)).trace


def as_task(
    agent: AgentLike, *, run_options: Mapping[str, Any] | None = None, **options: Unpack[TaskOptions]
) -> AgentTask:
    """Return a task that runs an agent on an input, each in a session of its own."""
    return AgentTask(_bridge(agent, run_options or {}), **options)


def as_application(
    agent: AgentLike, *, run_options: Mapping[str, Any] | None = None, **options: Unpack[ResultOptions]
) -> AgentApplication:
    """Return an agent as the application of a simulated conversation, which is the session's history."""
    return AgentApplication(AgentTask(_bridge(agent, run_options or {}), **options))


def as_judge(
    agent: AgentLike, *, model: str | None = None, price_table: PriceTable | None = None
) -> AgentJudge:
    """Return an agent as a judge."""
    return AgentJudge(_bridge(agent, {}), model, price_table)


_METHODS: Final = ("session_service", "find_agent")
"""What only a runner and an agent have."""


def _bridge(agent: AgentLike, run_options: Mapping[str, Any]) -> Bridge:
    async def answer(text: str, history: Sequence[Mapping[str, Any]]) -> AgentRun:
        ready = made_one_of(agent, _METHODS)
        async with _session(ready, history) as (runner, session):
            message = _content({"role": "user", "parts": [{"text": text}]})
            where = {"user_id": session.user_id, "session_id": session.id}
            given = {**where, "new_message": message, **run_options}
            events: list[Any] = []

            def so_far() -> tuple[AgentTrace, CallMetrics | None]:
                return to_agent_trace(events), _usage(events)

            keep_so_far(so_far)
            try:
                async for event in runner.run_async(**given):
                    events.append(event)
                came = _read(events)
            except Exception as error:
                came = AgentRun.of_failure(error, *so_far())
            return replace(came, tools=await _known_tools(runner.agent))

    async def run(inputs: Any) -> AgentRun:
        return await answer(text_form(inputs) or "", [])

    async def converse(conversation: ConversationTrajectory) -> AgentRun:
        *history, last = conversation.to_messages("gemini")
        return await answer(last["parts"][0]["text"], history)

    return Bridge(identity=_identity(agent), run=run, converse=converse)


@asynccontextmanager
async def _session(agent: Any, history: Iterable[Mapping[str, Any]]) -> AsyncIterator[tuple[Any, Any]]:
    """Give a runner and a session that holds the history, and delete the session in the end."""
    runners = require("google.adk.runners", EXTRA)
    given = method_of(agent, _METHODS) == "session_service"
    runner = agent if given else runners.InMemoryRunner(agent=agent, app_name=APP)
    sessions = runner.session_service
    session = await sessions.create_session(app_name=runner.app_name, user_id=USER, session_id=uuid4().hex)
    try:
        for content in history:
            await sessions.append_event(session, _event(content, runner.agent.name))
        yield runner, session
    finally:
        where = {"app_name": runner.app_name, "user_id": USER, "session_id": session.id}
        await sessions.delete_session(**where)


def _event(content: Mapping[str, Any], agent: str) -> Any:
    answers = any("functionResponse" in part for part in content["parts"])
    author = agent if content["role"] == "model" or answers else "user"
    event = require("google.adk.events", EXTRA).Event
    return event(author=author, invocation_id=uuid4().hex, content=_content(content))


def _content(content: Mapping[str, Any]) -> Any:
    return require("google.genai.types", EXTRA).Content.model_validate(content)


def _read(events: list[Any]) -> AgentRun:
    trace = to_agent_trace(events)
    code = get(events[-1], "error_code") if events else None
    if code not in (None, BLANK):
        trace = replace(trace, final_response=None, error=f"{code}: {events[-1].error_message}")
    return AgentRun(trace=trace, usage=_usage(events), hint="as the result of a tool")


def _usage(events: Iterable[Any]) -> CallMetrics | None:
    whole = (event for event in get(events, "events", default=events) if not get(event, "partial"))
    return summed(_tokens(event, get(event, "usage_metadata")) for event in whole)


def _tokens(event: Any, usage: Any) -> CallMetrics | None:
    if usage is None:
        return None
    thoughts = get(usage, "thoughts_token_count")
    total, read = get(usage, "total_token_count"), get(usage, "prompt_token_count")
    written = get(usage, "candidates_token_count")
    if total is not None and read is not None:
        written = total - read  # thoughts are in the total, and with some models in the answer's count too
    return usage_of(
        read,
        written,
        cached=get(usage, "cached_content_token_count"),
        reasoning=thoughts,
        model=get(event, "model_version"),
    )


def _identity(agent: AgentLike) -> str:
    if method_of(agent, _METHODS) is None:
        return identity("google-adk", agent)
    agent = get(agent, "agent", default=agent)
    model = get(agent, "model")
    named = model if isinstance(model, str) else get(model, "model")
    return identity("google-adk", get(agent, "name"), named, get(agent, "instruction"))


def _said(parts: Iterable[Any], *, thought: bool) -> str:
    texts = (get(part, "text") for part in parts if bool(get(part, "thought")) is thought)
    return "".join(text for text in texts if text)


def _read_part(builder: TraceBuilder, part: Any) -> None:
    call, answer = get(part, "function_call"), get(part, "function_response")
    if call is not None and get(call, "name") != ANSWERING:
        builder.call(get(call, "name"), get(call, "args"), get(call, "id"))
    if answer is not None:
        response = get(answer, "response")
        error = response.get("error") if isinstance(response, Mapping) else None
        only = isinstance(response, Mapping) and response.keys() == {"result"}
        builder.result(
            get(answer, "id"), response["result"] if only else response, error=error if error else False
        )


async def _known_tools(agent: Any) -> tuple[ToolDefinition, ...] | None:
    try:
        return await _tools_of(agent)
    except Exception:  # what cannot be described does not keep the agent from running
        return None


async def _tools_of(agent: Any) -> tuple[ToolDefinition, ...]:
    agents = _tree(get(agent, "root_agent", default=agent))
    asking = [each for each in agents if hasattr(each, "canonical_tools")]
    tools = [tool for each in asking for tool in await each.canonical_tools()]
    if any(get(each, "sub_agents") for each in asking):
        transfer = require("google.adk.tools.transfer_to_agent_tool", EXTRA).TransferToAgentTool
        tools.append(transfer([each.name for each in agents]))
    return merge_tools(map(_definition, tools))


def _tree(agent: Any) -> list[Any]:
    """Return an agent and all agents below it, those of a workflow included."""
    below = (each for sub in get(agent, "sub_agents", default=()) for each in _tree(sub))
    return [agent, *below]


def _definition(tool: Any) -> ToolDefinition:
    declare = getattr(tool, "_get_declaration", None)  # what a tool tells a model has no public name
    if declare is None:
        return ToolDefinition.from_object(tool)
    told = declare()
    if told is None:  # a tool that Google runs
        return ToolDefinition(tool.name, tool.description or "")
    return ToolDefinition.from_map(told.model_dump(mode="json", exclude_none=True, by_alias=True))
