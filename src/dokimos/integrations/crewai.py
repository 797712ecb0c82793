"""Crews, agents and models of CrewAI (`crewai`)."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias, Unpack

from dokimos.core.agent import AgentTrace, ToolDefinition
from dokimos.core.conversation import ConversationTrajectory, Message, call_text
from dokimos.core.extras import require
from dokimos.core.json_object import parse_object
from dokimos.core.jsonable import text_form
from dokimos.core.metrics import CallMetrics, PriceTable
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
    keep_so_far,
)
from dokimos.integrations.crewai_meter import Metered, metered, seen_so_far
from dokimos.integrations.kinds import made_one_of, method_of
from dokimos.integrations.reading import (
    TraceBuilder,
    get,
    merge_tools,
    priced,
    usage_of,
    with_offered,
)
from dokimos.runtime.calling import called
from dokimos.runtime.concurrency import run_sync

EXTRA: Final = "crewai"

AgentLike: TypeAlias = Any
"""A `Crew`, an `Agent`, an `LLM`, or a function without parameters that makes one for each input.

One that is given as it is is copied for each input, as CrewAI itself does for a list of inputs.
"""

CONVERSATION: Final = "conversation"
"""The placeholder in the tasks of a crew for what was said before, when it takes part in a conversation."""


def to_agent_trace(result: Any) -> AgentTrace:
    """Return what a `CrewOutput`, a `TaskOutput` or the output of a single agent tells.

    Calls are read from the messages of each task in turn: those of models that call functions and, of other
    models, those written as text. CrewAI says which of them failed.
    """
    builder = TraceBuilder()
    for part in get(result, "tasks_output", default=[result]):
        _Reading(builder, part).read()
    return builder.trace(get(result, "raw"), agent=_last_agent(result))


def to_tool_definitions(agent: AgentLike | Iterable[Any]) -> tuple[ToolDefinition, ...]:
    """Return the tools of an agent, of all agents and tasks of a crew, or of a list of tools, each once.

    Those by which agents of a crew delegate work are among them. Names are those that models are told.
    """
    if isinstance(agent, list | tuple):
        owners: list[Any] = [{"tools": agent}]
    else:
        agent = made_one_of(agent, _METHODS)
        owners = [agent, *get(agent, "agents", default=()), *get(agent, "tasks", default=())]
    found = [tool for owner in owners for tool in get(owner, "tools", default=())]
    return merge_tools(_definition(tool) for tool in [*found, *_delegation(agent)])


def _delegation(crew: Any) -> list[Any]:
    """Return the tools by which agents of a crew delegate work: to one another, or a manager to all."""
    agents = [] if isinstance(crew, list | tuple) else list(get(crew, "agents", default=()))
    managed = str(getattr(get(crew, "process"), "value", "")) == "hierarchical"
    if not managed and not (len(agents) > 1 and any(get(each, "allow_delegation") for each in agents)):
        return []
    tools: list[Any] = (
        require("crewai.tools.agent_tools.agent_tools", EXTRA).AgentTools(agents=agents).tools()
    )
    return tools


def to_call_metrics(
    result: Any, model: str | None = None, price_table: PriceTable | None = None
) -> CallMetrics | None:
    """Return the tokens that a result tells of, and their cost; None where nothing was measured.

    CrewAI counts by model object: kickoffs that share one add up, and so do agents. `as_task` and the others
    count the calls of a run themselves.
    """
    return priced(_tokens(get(result, "token_usage", "usage_metrics")), model, price_table)


def run_and_trace(agent: AgentLike, inputs: Any, **run_options: Any) -> AgentTrace:
    """Kick a crew or an agent off with text or a map of inputs; `run_options` are those of `kickoff`."""
    return run_sync(run_and_trace_async(agent, inputs, **run_options))


async def run_and_trace_async(agent: AgentLike, inputs: Any, **run_options: Any) -> AgentTrace:
    """Do what `run_and_trace` does, in a thread, without blocking the event loop that is running."""
    return (await _bridge(agent, run_options).run(inputs)).trace


def as_task(
    agent: AgentLike,
    *,
    crew_input: str = "input",
    run_options: Mapping[str, Any] | None = None,
    **options: Unpack[TaskOptions],
) -> AgentTask:
    """Return a task that kicks a crew or an agent off with an input.

    The tasks of a crew have text in the place of `{crew_input}`; an input that is a map fills several
    placeholders.
    """
    return AgentTask(_bridge(agent, run_options or {}, crew_input), **options)


def as_application(
    agent: AgentLike,
    *,
    crew_input: str = "input",
    run_options: Mapping[str, Any] | None = None,
    **options: Unpack[ResultOptions],
) -> AgentApplication:
    """Return a crew or an agent as the application of a simulated conversation.

    The tasks of a crew have what the user said last in the place of `{crew_input}`, and what was said before
    in that of `{conversation}`.
    """
    return AgentApplication(AgentTask(_bridge(agent, run_options or {}, crew_input), **options))


def as_judge(
    agent: AgentLike, *, model: str | None = None, price_table: PriceTable | None = None
) -> AgentJudge:
    """Return an LLM, an agent or a crew as a judge."""
    return AgentJudge(_bridge(agent, {}), model, price_table)


_METHODS: Final = ("kickoff", "call")
"""What only crews and agents, and models have."""


def _bridge(agent: AgentLike, run_options: Mapping[str, Any], crew_input: str = "input") -> Bridge:
    first = _as_it_is(agent)

    async def answer(inputs: Any, history: Sequence[Mapping[str, Any]] = (), said: str = "") -> AgentRun:
        ready = made_one_of(agent, _METHODS) if first is None else _copy(first)
        if hasattr(ready, "tasks"):
            given = dict(inputs) if isinstance(inputs, Mapping) else {crew_input: text_form(inputs) or ""}
            return await _kick_off(ready, {CONVERSATION: said, **given}, run_options)
        messages = [*history, *_spoken(inputs)]
        if method_of(ready, _METHODS) == "call":
            return await _ask(ready, messages, run_options)
        return await _kick_off(ready, messages, run_options, earlier=_calls_in(history))

    async def converse(conversation: ConversationTrajectory) -> AgentRun:
        *history, last = conversation.to_messages("openai")
        return await answer(last["content"], history, _transcript(conversation.messages[:-1]))

    return Bridge(identity=_identity(agent), run=answer, converse=converse)


def _as_it_is(agent: AgentLike) -> Any:
    """Return a copy of what is no function, before anything is filled in.

    Raises:
        IntegrationError: for a crew in which it already is.
    """
    if method_of(agent, _METHODS) is None:
        return None
    for task in get(agent, "tasks", default=()):
        if getattr(task, "_original_description", None) not in (None, task.description):
            raise IntegrationError(
                "This crew has been kicked off, so that the placeholders in its tasks are filled in. "
                "Give a fresh crew, or a function without parameters that makes one."
            )
    return _copy(agent)


def _copy(agent: Any) -> Any:
    return agent.copy() if method_of(agent, _METHODS) == "kickoff" else copy.copy(agent)


def _spoken(inputs: Any) -> list[Mapping[str, Any]]:
    """Return what an agent or a model is told, as messages."""
    return inputs if isinstance(inputs, list) else [{"role": "user", "content": text_form(inputs) or ""}]


def _transcript(messages: Iterable[Message]) -> str:
    """Return what was said before, and what tools gave, as the text that a crew is told."""
    lines: list[str] = []
    for message in messages:
        lines += [f"[tool: {call_text(call)} gave {call.result}]" for call in message.tool_calls]
        lines.append(f"{message.role.upper()}: {message.content}")
    return "\n".join(lines)


async def _kick_off(ready: Any, given: Any, options: Mapping[str, Any], *, earlier: int = 0) -> AgentRun:
    """Run a crew or an agent; `earlier` calls in its messages were made before."""

    def so_far() -> tuple[AgentTrace, CallMetrics | None]:
        done = seen_so_far(ready)
        trace = to_agent_trace(_so_far(done))
        return replace(trace, tool_calls=trace.tool_calls[earlier:]), done.usage

    keep_so_far(so_far)
    came = await called(metered, ready, lambda: ready.kickoff(given, **options))
    told = came.result if came.error is None else _so_far(came)
    trace = to_agent_trace(told)
    trace = replace(trace, tool_calls=trace.tool_calls[earlier:])
    described = describe_tools(to_tool_definitions, ready)
    # Their schemas are deep in events, where CrewAI tells values as Python prints them.
    tools = with_offered(described, [ToolDefinition(name) for name in came.tools])
    if came.error is not None:
        return replace(AgentRun.of_failure(came.error, trace, came.usage), tools=tools)
    return AgentRun(
        trace=trace,
        output=get(told, "pydantic", "json_dict"),
        usage=came.usage,
        tools=tools,
        hint="as the result of a tool",
    )


def _so_far(came: Metered[Any]) -> dict[str, Any]:
    """Return what a run that broke off had done, in the form of an output."""
    parts = [{"messages": messages, "tool_failures": came.failures} for messages in came.messages]
    return {"tasks_output": parts}


async def _ask(llm: Any, messages: list[Mapping[str, Any]], options: Mapping[str, Any]) -> AgentRun:
    came = await called(metered, llm, lambda: llm.call(messages, **options))
    if came.error is not None:
        raise came.error
    trace = AgentTrace((), text_form(came.result))
    return AgentRun(trace=trace, usage=came.usage, hint="as the result of a tool")


def _calls_in(history: Iterable[Mapping[str, Any]]) -> int:
    return sum(len(message.get("tool_calls", ())) for message in history)


def _tokens(usage: Any) -> CallMetrics | None:
    if usage is None:
        return None
    return usage_of(
        get(usage, "prompt_tokens"),
        get(usage, "completion_tokens"),
        cached=get(usage, "cached_prompt_tokens"),
        reasoning=get(usage, "reasoning_tokens"),
    )


def _identity(agent: AgentLike) -> str:
    kind = method_of(agent, _METHODS)
    if kind is None:
        return identity("crewai", agent)
    if kind == "call":
        return identity("crewai", get(agent, "model"))
    tasks = [get(task, "description") for task in get(agent, "tasks", default=())]
    roles = [get(each, "role") for each in get(agent, "agents", default=[agent])]
    models = {get(get(each, "llm"), "model") for each in get(agent, "agents", default=[agent])}
    named = sorted(model for model in models if isinstance(model, str))
    return identity("crewai", *roles, *named, "\n".join(tasks))


def _last_agent(result: Any) -> str | None:
    tasks = get(result, "tasks_output")
    agent = get(tasks[-1] if tasks else result, "agent", "agent_role")
    return agent if isinstance(agent, str) else None


class _Reading:
    """Reads the output of one task, or of one agent, into a trace."""

    def __init__(self, builder: TraceBuilder, output: Any) -> None:
        self._builder = builder
        self._messages = get(output, "messages", default=())
        self._failures = [
            (get(each, "tool_name"), text_form(get(each, "tool_args", default={})))
            for each in get(output, "tool_failures", default=())
        ]
        self._failed: set[str] = set()
        """The ids of calls that failed, and are not answered yet."""

    def read(self) -> None:
        for message in self._messages:
            if get(message, "role") == "tool":
                call_id = get(message, "tool_call_id", default="")
                self._builder.result(call_id, get(message, "content"), error=call_id in self._failed)
            elif get(message, "role") == "assistant":
                self._read_assistant(message, get(message, "content", default=""))

    def _read_assistant(self, message: Any, content: str) -> None:
        calls = get(message, "tool_calls", default=())
        written = _call_as_text(content)
        if calls or written:
            self._builder.turn()
        else:
            self._builder.say(content)
        for call in calls:
            about = get(call, "function", default={})
            self._call(get(about, "name"), get(about, "arguments"), get(call, "id", default=""))
        if written:
            name, arguments = written["name"], written["arguments"]
            failed = self._is_failure(name, arguments)
            self._builder.answered_call(name, arguments, written["result"].strip(), error=failed)

    def _call(self, name: str | None, arguments: Any, call_id: str) -> None:
        self._builder.call(name, arguments, call_id)
        if self._is_failure(name, arguments):
            self._failed.add(call_id)
        else:
            self._failed.discard(call_id)

    def _is_failure(self, name: str | None, arguments: Any) -> bool:
        parsed = parse_object(arguments) if isinstance(arguments, str) else arguments
        failure = (name, text_form(parsed or {}))
        if failure not in self._failures:
            return False
        self._failures.remove(failure)
        return True


_AS_TEXT: Final = re.compile(
    r"^Action:[ \t]*(?P<name>.+?)[ \t]*\n+Action Input:\s*(?P<arguments>.*?)\s*"
    r"\nObservation:[ \t]*(?P<result>.*)",
    re.DOTALL | re.MULTILINE,
)
"""How a model that calls no functions writes a call; what it gave follows in the same message."""


def _call_as_text(content: Any) -> re.Match[str] | None:
    return _AS_TEXT.search(content) if isinstance(content, str) else None


def _definition(tool: Any) -> ToolDefinition:
    arguments = get(tool, "args_schema")
    if arguments is None:
        return ToolDefinition.from_object(tool)
    description = get(tool, "description", default="").strip()
    return ToolDefinition(_told_name(tool.name), description, input_schema=arguments.model_json_schema())


def _told_name(name: str) -> str:
    """Return the name of a tool as CrewAI tells it to models, where it is another."""
    if re.fullmatch("[a-z0-9_]+", name):
        return name
    told: str = require("crewai.utilities.string_utils", EXTRA).sanitize_tool_name(name)
    return told
