"""Crews, agents and models of CrewAI (`crewai`).

An agent is a `Crew`, an `Agent`, an `LLM`, or a function without parameters that makes one for each input.
One that is passed as an object is copied for each input, as CrewAI itself does for a list of inputs. An input
is text or a map of inputs; `run_options` are those of `kickoff`.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Unpack

from dokimos._core.agent import AgentTrace
from dokimos._core.conversation import ConversationTrajectory, Message, call_text
from dokimos._core.extras import require
from dokimos._core.json_object import parse_object
from dokimos._core.jsonable import text_form
from dokimos._core.metrics import CallMetrics
from dokimos._core.tool_definition import ToolDefinition
from dokimos._runtime.user_calls import call_user_function
from dokimos.errors import IntegrationError
from dokimos.integrations._agent_runs import AgentRun, report_partial_run
from dokimos.integrations._agent_task import AgentApplication, AgentTask, ResultOptions, TaskOptions
from dokimos.integrations._crewai_meter import MeteredRun, meter_run, read_meter
from dokimos.integrations._framework import Framework, RunOptions, find_method, resolve_agent
from dokimos.integrations._framework_objects import FrameworkObject, get
from dokimos.integrations._token_usage import make_usage
from dokimos.integrations._tool_lists import add_offered_tools, describe_tools, merge_tools
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

EXTRA: Final = "crewai"

CONVERSATION: Final = "conversation"
"""The placeholder in the tasks of a crew for the conversation so far, when it takes part in one."""


@dataclass(frozen=True)
class CrewAI(Framework):
    """CrewAI."""

    name: ClassVar[str] = "crewai"
    agent_methods: ClassVar[tuple[str, ...]] = ("kickoff", "call")  # a crew or an agent, a model

    crew_input: str = "input"
    """The placeholder in the tasks of a crew that text takes."""

    def to_agent_trace(self, result: object) -> AgentTrace:
        """Return what a run did: from a `CrewOutput`, a `TaskOutput` or the output of a single agent.

        Calls are parsed from the messages of each task in turn: those of models that call functions and, of
        other models, those written as text. CrewAI says which of them failed.
        """
        builder = TraceBuilder()
        for part in get(result, "tasks_output", default=[result]):
            _OutputParser(builder, part).parse()
        return builder.build(get(result, "raw"), agent=_last_agent(result))

    def to_tool_definitions(self, agent: object) -> tuple[ToolDefinition, ...]:
        """Return the tools of an agent, of all agents and tasks of a crew, or of a list of tools.

        Those by which agents of a crew delegate work are among them. Names are those that models are given.
        """
        if isinstance(agent, list | tuple):
            return merge_tools(_define_tool(tool) for tool in agent)
        agent = resolve_agent(agent, self.agent_methods)
        owners = [agent, *get(agent, "agents", default=()), *get(agent, "tasks", default=())]
        tools = [tool for owner in owners for tool in get(owner, "tools", default=())]
        return merge_tools(_define_tool(tool) for tool in [*tools, *_delegation_tools(agent)])

    def parse_usage(self, result: object) -> CallMetrics | None:
        """Return the tokens of a result.

        CrewAI counts by model object: kickoffs that share one add up, and so do agents. `as_task` and the
        others count the calls of a run themselves.
        """
        usage = get(result, "token_usage", "usage_metrics")
        if usage is None:
            return None
        return make_usage(
            get(usage, "prompt_tokens"),
            get(usage, "completion_tokens"),
            cached=get(usage, "cached_prompt_tokens"),
            reasoning=get(usage, "reasoning_tokens"),
        )

    async def run_agent(self, agent: object, inputs: object, options: RunOptions) -> AgentRun:
        if hasattr(agent, "tasks"):
            return await self._kick_off_crew(agent, inputs, "", options)
        return await self._answer(agent, _to_messages(inputs), options)

    async def converse(
        self, agent: object, conversation: ConversationTrajectory, options: RunOptions
    ) -> AgentRun:
        *history, last = conversation.to_messages("openai")
        if hasattr(agent, "tasks"):
            transcript = _render_transcript(conversation.messages[:-1])
            return await self._kick_off_crew(agent, last["content"], transcript, options)
        messages = [*history, *_to_messages(last["content"])]
        return await self._answer(agent, messages, options, earlier=_count_calls(history))

    async def _kick_off_crew(
        self, crew: object, inputs: object, transcript: str, options: RunOptions
    ) -> AgentRun:
        values = inputs if isinstance(inputs, Mapping) else {self.crew_input: text_form(inputs) or ""}
        return await self._kick_off(crew, {CONVERSATION: transcript, **values}, options)

    async def _answer(
        self, agent: object, messages: list[Mapping[str, Any]], options: RunOptions, *, earlier: int = 0
    ) -> AgentRun:
        if find_method(agent, self.agent_methods) == "call":
            return await _call_model(agent, messages, options)
        return await self._kick_off(agent, messages, options, earlier=earlier)

    async def _kick_off(
        self, runner: FrameworkObject, inputs: object, options: RunOptions, *, earlier: int = 0
    ) -> AgentRun:
        """Run a crew or an agent; `earlier` calls in its messages were made before this run."""

        def parse(result: object) -> AgentTrace:
            trace = self.to_agent_trace(result)
            return replace(trace, tool_calls=trace.tool_calls[earlier:])

        def read_progress() -> tuple[AgentTrace, CallMetrics | None]:
            metered = read_meter(runner)
            return parse(_partial_output(metered)), metered.usage

        report_partial_run(read_progress)
        metered = await call_user_function(meter_run, runner, lambda: runner.kickoff(inputs, **options))
        described = describe_tools(self.to_tool_definitions, runner)
        # Schemas of offered tools are deep in events, where CrewAI has values as Python prints them.
        tools = add_offered_tools(described, [ToolDefinition(name) for name in metered.tools])
        if metered.error is not None:
            trace = parse(_partial_output(metered))
            return replace(AgentRun.of_failure(metered.error, trace, metered.usage), tools=tools)
        return AgentRun(
            trace=parse(metered.result),
            output=get(metered.result, "pydantic", "json_dict"),
            usage=metered.usage,
            tools=tools,
            hint="as the result of a tool",
        )

    def describe_agent(self, agent: object) -> Iterable[object]:
        if find_method(agent, self.agent_methods) == "call":
            return (get(agent, "model"),)
        agents = get(agent, "agents", default=[agent])
        tasks = [get(task, "description") for task in get(agent, "tasks", default=())]
        models = {get(get(each, "llm"), "model") for each in agents}
        model_names = sorted(model for model in models if isinstance(model, str))
        return [*(get(each, "role") for each in agents), *model_names, "\n".join(tasks)]

    def save_state(self, agent: object) -> Any:
        """Return a copy of the agent before any placeholder is filled in.

        Raises:
            IntegrationError: for a crew whose placeholders are filled in already.
        """
        for task in get(agent, "tasks", default=()):
            # There is no public name for the text as it was before its placeholders were filled in.
            if getattr(task, "_original_description", None) not in (None, task.description):
                raise IntegrationError(
                    "This crew has been kicked off, so that the placeholders in its tasks are filled in. "
                    "Pass a fresh crew, or a function without parameters that makes one."
                )
        return self._copy(agent)

    def start_agent(self, agent: object, state: object) -> Any:
        return resolve_agent(agent, self.agent_methods) if state is None else self._copy(state)

    def _copy(self, agent: FrameworkObject) -> Any:
        return agent.copy() if find_method(agent, self.agent_methods) == "kickoff" else copy.copy(agent)


_FRAMEWORK: Final = CrewAI()
to_agent_trace: Final = _FRAMEWORK.to_agent_trace
to_tool_definitions: Final = _FRAMEWORK.to_tool_definitions
to_call_metrics: Final = _FRAMEWORK.to_call_metrics
run_and_trace: Final = _FRAMEWORK.run_and_trace
run_and_trace_async: Final = _FRAMEWORK.run_and_trace_async
as_judge: Final = _FRAMEWORK.as_judge


def as_task(
    agent: object,
    *,
    crew_input: str = "input",
    run_options: RunOptions | None = None,
    **options: Unpack[TaskOptions],
) -> AgentTask:
    """Return a task that kicks a crew or an agent off with an input.

    The tasks of a crew have text in the place of `{crew_input}`; an input that is a map fills several
    placeholders.
    """
    return CrewAI(crew_input).as_task(agent, run_options=run_options, **options)


def as_application(
    agent: object,
    *,
    crew_input: str = "input",
    run_options: RunOptions | None = None,
    **options: Unpack[ResultOptions],
) -> AgentApplication:
    """Return a crew or an agent as the application of a simulated conversation.

    The tasks of a crew have the last message of the user in the place of `{crew_input}`, and the conversation
    before it in that of `{conversation}`.
    """
    return CrewAI(crew_input).as_application(agent, run_options=run_options, **options)


async def _call_model(
    llm: FrameworkObject, messages: list[Mapping[str, Any]], options: RunOptions
) -> AgentRun:
    metered = await call_user_function(meter_run, llm, lambda: llm.call(messages, **options))
    if metered.error is not None:
        raise metered.error
    trace = AgentTrace((), text_form(metered.result))
    return AgentRun(trace=trace, usage=metered.usage, hint="as the result of a tool")


def _partial_output(metered: MeteredRun[Any]) -> dict[str, Any]:
    """Return what a run that failed did until then, in the form of an output."""
    parts = [{"messages": messages, "tool_failures": metered.failures} for messages in metered.messages]
    return {"tasks_output": parts}


def _delegation_tools(crew: object) -> list[Any]:
    """Return the tools by which agents of a crew delegate work: to one another, or a manager to all."""
    agents = list(get(crew, "agents", default=()))
    has_manager = str(getattr(get(crew, "process"), "value", "")) == "hierarchical"
    if not has_manager and not (len(agents) > 1 and any(get(each, "allow_delegation") for each in agents)):
        return []
    tools: list[Any] = (
        require("crewai.tools.agent_tools.agent_tools", EXTRA).AgentTools(agents=agents).tools()
    )
    return tools


def _to_messages(inputs: object) -> list[Mapping[str, Any]]:
    """Return the input of an agent or a model as messages."""
    return inputs if isinstance(inputs, list) else [{"role": "user", "content": text_form(inputs) or ""}]


def _render_transcript(messages: Iterable[Message]) -> str:
    """Return the messages of a conversation and the results of its tools as text for a crew."""
    lines: list[str] = []
    for message in messages:
        lines += [f"[tool: {call_text(call)} gave {call.result}]" for call in message.tool_calls]
        lines.append(f"{message.role.upper()}: {message.content}")
    return "\n".join(lines)


def _count_calls(history: Iterable[Mapping[str, Any]]) -> int:
    return sum(len(message.get("tool_calls", ())) for message in history)


def _last_agent(result: object) -> str | None:
    tasks = get(result, "tasks_output")
    agent = get(tasks[-1] if tasks else result, "agent", "agent_role")
    return agent if isinstance(agent, str) else None


class _OutputParser:
    """Parses the output of one task, or of one agent, into a trace."""

    def __init__(self, builder: TraceBuilder, output: object) -> None:
        self._builder = builder
        self._messages = get(output, "messages", default=())
        self._failures = [
            (get(each, "tool_name"), text_form(get(each, "tool_args", default={})))
            for each in get(output, "tool_failures", default=())
        ]
        self._failed: set[str] = set()
        """The ids of calls that failed and have no result yet."""

    def parse(self) -> None:
        for message in self._messages:
            if get(message, "role") == "tool":
                call_id = get(message, "tool_call_id", default="")
                self._builder.add_result(call_id, get(message, "content"), error=call_id in self._failed)
            elif get(message, "role") == "assistant":
                self._parse_assistant(message, get(message, "content", default=""))

    def _parse_assistant(self, message: object, content: FrameworkObject) -> None:
        calls = get(message, "tool_calls", default=())
        text_call = _TEXT_CALL.search(content) if isinstance(content, str) else None
        if calls or text_call:
            self._builder.begin_turn()
        else:
            self._builder.add_text(content)
        for call in calls:
            about = get(call, "function", default={})
            self._call(get(about, "name"), get(about, "arguments"), get(call, "id", default=""))
        if text_call:
            name, arguments = text_call["name"], text_call["arguments"]
            failed = self._is_failure(name, arguments)
            self._builder.add_call_with_result(name, arguments, text_call["result"].strip(), error=failed)

    def _call(self, name: str | None, arguments: object, call_id: str) -> None:
        self._builder.add_call(name, arguments, call_id)
        if self._is_failure(name, arguments):
            self._failed.add(call_id)
        else:
            self._failed.discard(call_id)

    def _is_failure(self, name: str | None, arguments: object) -> bool:
        parsed = parse_object(arguments) if isinstance(arguments, str) else arguments
        failure = (name, text_form(parsed or {}))
        if failure not in self._failures:
            return False
        self._failures.remove(failure)
        return True


_TEXT_CALL: Final = re.compile(
    r"^Action:[ \t]*(?P<name>.+?)[ \t]*\n+Action Input:\s*(?P<arguments>.*?)\s*"
    r"\nObservation:[ \t]*(?P<result>.*)",
    re.DOTALL | re.MULTILINE,
)
"""How a model that cannot call functions writes a call; its result follows in the same message."""


def _define_tool(tool: FrameworkObject) -> ToolDefinition:
    arguments = get(tool, "args_schema")
    if arguments is None:
        return ToolDefinition.from_object(tool)
    description = get(tool, "description", default="").strip()
    return ToolDefinition(_model_name(tool.name), description, input_schema=arguments.model_json_schema())


def _model_name(name: str) -> str:
    """Return the name of a tool as CrewAI gives it to models, which may be another one."""
    if re.fullmatch("[a-z0-9_]+", name):
        return name
    sanitized: str = require("crewai.utilities.string_utils", EXTRA).sanitize_tool_name(name)
    return sanitized
