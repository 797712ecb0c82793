"""Agents of the OpenAI Agents SDK (`agents`)."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias, Unpack

from dokimos.core.agent import AgentTrace, ToolDefinition
from dokimos.core.conversation import ConversationTrajectory
from dokimos.core.extras import require
from dokimos.core.json_object import parse_object
from dokimos.core.jsonable import text_form
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
from dokimos.integrations.reading import TraceBuilder, get, merge_tools, priced, text_of, usage_of
from dokimos.runtime.concurrency import run_sync

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
    """Return the tools of an agent, its handoffs, and those of the agents that it can hand over to.

    Tools that OpenAI hosts have no schema. Those of MCP servers are only known by asking them, as `as_task`
    does.
    """
    return tools_of([made(agent, _AGENT)])


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
        ready = made(agent, _AGENT)
        steps = _Steps()
        hooks = steps.hooks(run_options.get("hooks"))
        keep_so_far(steps.so_far)
        try:
            came = _read(await runner.run(ready, given, **{**run_options, "hooks": hooks}))
        except Exception as error:
            came = AgentRun.of_failure(error, *steps.so_far())
        return replace(came, tools=await _known_tools(ready, run_options.get("context")))

    async def converse(conversation: ConversationTrajectory) -> AgentRun:
        return await run(conversation.to_messages("openai-responses"))

    return Bridge(identity=_identity(agent), run=run, converse=converse)


class _Steps:
    """What a run has done so far, in the form of a result: the SDK gives none of a run that broke off."""

    def __init__(self) -> None:
        self.new_items: list[Mapping[str, Any]] = []
        self.context_wrapper: Any = None

    def so_far(self) -> tuple[AgentTrace, CallMetrics | None]:
        return to_agent_trace(self), _usage(self)

    def hooks(self, theirs: Any) -> Any:
        """Return hooks that write down what happens, and tell it those of the user."""
        base = require("agents.lifecycle", EXTRA).RunHooksBase
        own: dict[str, Callable[..., None]] = {
            "on_llm_end": self._responded,
            "on_tool_end": self._returned,
        }
        names = [name for name in dir(base) if name.startswith("on_")]
        told = {name: _told_to(own.get(name), getattr(theirs, name, None)) for name in names}
        return type("DokimosHooks", (base,), told)()

    def _responded(self, context: Any, agent: Any, response: Any) -> None:
        self.context_wrapper = context
        for raw in get(response, "output", default=()):
            kind = get(raw, "type", default="")
            name = "tool_call_item" if kind.endswith("_call") else _ITEMS.get(kind, kind)
            self.new_items.append({"type": name, "raw_item": raw})

    def _returned(self, context: Any, agent: Any, tool: Any, output: Any) -> None:
        raw = {"call_id": get(context, "tool_call_id")}
        self.new_items.append({"type": "tool_call_output_item", "raw_item": raw, "output": output})


_ITEMS: Final = {"message": "message_output_item", "reasoning": "reasoning_item"}
"""What the SDK calls the items that it makes of a model's, by the model's word."""


def _told_to(ours: Callable[..., None] | None, theirs: Callable[..., Any] | None) -> Callable[..., Any]:
    async def told(self: Any, *args: Any, **kwargs: Any) -> None:
        if ours is not None:
            ours(*args, **kwargs)
        if theirs is not None:
            await theirs(*args, **kwargs)

    return told


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
    arguments = get(raw, "arguments", "action", "code", "queries", "input")
    # The SDK runs no function on arguments that it cannot read, whatever it tells the model then.
    broken = kind == "function_call" and isinstance(arguments, str) and parse_object(arguments) is None
    builder.call(name, arguments, _id(raw), metadata={CALL_ERROR: True} if broken else None)


def _answered(builder: TraceBuilder, item: Any, raw: Any) -> None:
    output = get(item, "output", default=get(raw, "output"))
    builder.result(_id(raw), output, error=isinstance(output, str) and output.startswith(_FAILURE))


def _said(builder: TraceBuilder, item: Any, raw: Any) -> None:
    builder.say(text_of(get(raw, "content")))


def _thought(builder: TraceBuilder, item: Any, raw: Any) -> None:
    builder.think(text_of(_plain(get(raw, "summary"))) or text_of(_plain(get(raw, "content"))))


def _plain(parts: Any) -> list[str]:
    return [get(part, "text", default="") for part in parts or ()]


def _id(raw: Any) -> str | None:
    found = get(raw, "call_id", "id")
    return found if isinstance(found, str) else None


_FAILURE: Final = "An error occurred while running the tool. Please try again."
"""What the SDK tells a model about a tool that raised, or whose arguments could not be read."""
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
    return re.sub("[^a-zA-Z0-9_]", "_", name).lower()


def tools_of(agents: Iterable[AgentLike]) -> tuple[ToolDefinition, ...]:
    """Return the tools of agents, and of those that they can hand over to, each once."""
    return merge_tools(_definitions(_agents_behind(agents)))


def _definitions(agents: Iterable[AgentLike]) -> Iterator[ToolDefinition]:
    for agent in agents:
        yield from (_definition(tool) for tool in get(agent, "tools", default=()))
        yield from (_handoff(target) for target in get(agent, "handoffs", default=()))


def _agents_behind(agents: Iterable[AgentLike]) -> list[AgentLike]:
    """Return agents with all that the conversation can come to by handoffs, each once."""
    found: list[AgentLike] = []
    waiting = deque(agents)
    while waiting:
        agent = waiting.popleft()
        if all(agent is not known for known in found):
            found.append(agent)
            waiting += [each for each in map(_target, get(agent, "handoffs", default=())) if each is not None]
    return found


def _target(handoff: Any) -> AgentLike:
    """Return the agent that a handoff goes to; the SDK has no public name for it."""
    if hasattr(handoff, _AGENT):
        return handoff
    reference = get(handoff, "_agent_ref")
    return reference() if callable(reference) else None


async def _known_tools(agent: AgentLike, context: Any) -> tuple[ToolDefinition, ...] | None:
    """Return the tools of a run, those of connected MCP servers included."""
    tools = describe_tools(to_tool_definitions, agent)
    connected = [each for each in _agents_behind([agent]) if get(each, "mcp_servers")]
    if tools is None or not connected:
        return tools
    wrapper = require("agents", EXTRA).RunContextWrapper(context)
    try:
        of_servers = [tool for each in connected for tool in await each.get_mcp_tools(wrapper)]
    except Exception:  # the servers of an agent may be gone when it has answered
        return tools
    return merge_tools([*tools, *map(_definition, of_servers)])
