"""Agents and models of smolagents.

An agent is an agent, a model, or a function without parameters that makes one for each input. An agent
remembers, and serves one call at a time: each input begins with an empty memory, and inputs of an agent that
is passed as an object wait for one another. An input is text; `run_options` are those of `run`, or of a
model's `generate`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

from dokimos._core.agent import AgentTrace
from dokimos._core.conversation import ConversationTrajectory, Message, Role
from dokimos._core.extras import require
from dokimos._core.json_object import parse_object
from dokimos._core.jsonable import text_form
from dokimos._core.metrics import CallMetrics
from dokimos._core.tool_definition import ToolDefinition
from dokimos._runtime.user_calls import call_user_function
from dokimos.integrations._agent_runs import AgentRun, finish_run
from dokimos.integrations._framework import Framework, RunOptions, find_method, resolve_agent
from dokimos.integrations._framework_objects import FrameworkObject, get, join_text
from dokimos.integrations._token_usage import make_usage, sum_usage
from dokimos.integrations._tool_lists import describe_tools
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

EXTRA: Final = "smolagents"

FINAL_ANSWER: Final = "final_answer"
"""The tool by which an agent answers; its call is the answer, and not a tool call of the trace."""
CODE: Final = "python_interpreter"
"""The tool by which an agent that writes code runs it."""
_TURN_LIMIT: Final = "AgentMaxStepsError"
_INTERPRETER: Final = ToolDefinition(
    CODE,
    "Runs Python code.",
    input_schema={"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]},
)


class Smolagents(Framework):
    """Hugging Face smolagents."""

    name = "smolagents"
    agent_methods: ClassVar[tuple[str, ...]] = ("generate", "run")  # a model, an agent

    def to_agent_trace(self, result: object) -> AgentTrace:
        """Return what a run did.

        Takes a `RunResult`, a list of steps, or all that `run(stream=True)` gives. A step with several calls
        has their results as one text: if it has as many lines as there are calls, each call gets its own,
        else all of them get all; the stream tells them apart. Tools that code calls are inside the call that
        runs the code; `TraceCollector.observe` sees each of them.
        """
        builder = TraceBuilder()
        streamed: dict[str, str] = {}
        for step in _iterate_steps(result):
            if get(step, "tool_call") is not None:  # the output of a tool, in a stream
                streamed[get(step, "id")] = get(step, "observation", default="")
            elif get(step, "step_number") is not None:
                _parse_step(builder, step, streamed)
                streamed = {}
            else:
                builder.add_reasoning(get(step, "plan"))
        return builder.build(text_form(_find_answer(result)))

    def to_tool_definitions(self, agent: object) -> tuple[ToolDefinition, ...]:
        """Return the tools of an agent, without the one by which it answers, or of a list of tools.

        The agents that it manages are tools too, and so is the interpreter of one that writes code.
        """
        if isinstance(agent, list | tuple):
            return tuple(_define_tool(tool) for tool in agent if tool.name != FINAL_ANSWER)
        agent = resolve_agent(agent, self.agent_methods)
        by_name = {**get(agent, "tools", default={}), **get(agent, "managed_agents", default={})}
        tools = self.to_tool_definitions(list(by_name.values()))
        return (*tools, _INTERPRETER) if get(agent, "python_executor") is not None else tools

    def parse_usage(self, result: object) -> CallMetrics | None:
        total = get(result, "token_usage") if not isinstance(result, list | tuple) else None
        if total is not None:
            return _parse_tokens(total)
        return sum_usage(_parse_tokens(get(step, "token_usage")) for step in _iterate_steps(result))

    def parse_output(self, result: object) -> Any:
        answer = _find_answer(result)
        return None if isinstance(answer, str) else answer

    async def run_agent(self, agent: object, inputs: object, options: RunOptions) -> AgentRun:
        return await self._answer(agent, text_form(inputs) or "", (), options)

    async def converse(
        self, agent: object, conversation: ConversationTrajectory, options: RunOptions
    ) -> AgentRun:
        *history, last = conversation.messages
        return await self._answer(agent, last.content, history, options)

    async def _answer(
        self, agent: FrameworkObject, text: str, history: Sequence[Message], options: RunOptions
    ) -> AgentRun:
        if find_method(agent, self.agent_methods) == "generate":
            messages = [_to_theirs(message) for message in (*history, Message.user(text))]
            return _parse_reply(await call_user_function(agent.generate, messages, **options))
        steps: list[Any] = []

        def read_progress() -> tuple[AgentTrace, CallMetrics | None]:
            return self.to_agent_trace(steps), self.parse_usage(steps)

        async def attempt() -> AgentRun:
            await call_user_function(_collect_steps, agent, text, history, options, steps)
            return self.parse_run(steps)

        run = await finish_run(attempt(), read_progress)
        return replace(run, tools=describe_tools(self.to_tool_definitions, agent))

    def describe_agent(self, agent: object) -> Iterable[object]:
        is_model = find_method(agent, self.agent_methods) == "generate"
        model = agent if is_model else get(agent, "model")
        name = get(agent, "name", default=type(agent).__qualname__)
        return name, get(model, "model_id"), get(agent, "instructions")

    def is_stateful(self, agent: object) -> bool:
        return find_method(agent, self.agent_methods) == "run"


_FRAMEWORK: Final = Smolagents()
to_agent_trace: Final = _FRAMEWORK.to_agent_trace
to_tool_definitions: Final = _FRAMEWORK.to_tool_definitions
to_call_metrics: Final = _FRAMEWORK.to_call_metrics
run_and_trace: Final = _FRAMEWORK.run_and_trace
run_and_trace_async: Final = _FRAMEWORK.run_and_trace_async
as_task: Final = _FRAMEWORK.as_task
as_application: Final = _FRAMEWORK.as_application
as_judge: Final = _FRAMEWORK.as_judge


def _collect_steps(
    agent: FrameworkObject, text: str, history: Sequence[Message], options: RunOptions, steps: list[Any]
) -> None:
    """Run an agent to its end and add all that it streams to `steps`."""
    if history:
        agent.memory.reset()
        agent.monitor.reset()
        agent.memory.steps.extend(_to_memory_steps(history))
        options = {"reset": False, **options}
    steps.extend(agent.run(text, stream=True, **options))
    last = agent.memory.steps[-1] if agent.memory.steps else None
    if type(get(last, "error")).__name__ == _TURN_LIMIT and not any(step is last for step in steps):
        steps.insert(-1, last)  # which made the answer, and is in the memory alone


def _to_memory_steps(history: Iterable[Message]) -> Iterator[Any]:
    """Yield a conversation as the steps that an agent would have in its memory."""
    memory = require("smolagents.memory", EXTRA)
    at = require("smolagents.monitoring", EXTRA).Timing(start_time=0.0, end_time=0.0)
    for number, message in enumerate(history, 1):
        if message.role is not Role.ASSISTANT:
            yield memory.TaskStep(task=message.content)
            continue
        if message.tool_calls:
            calls = [
                memory.ToolCall(call.name, dict(call.arguments), f"call_{number}_{index}")
                for index, call in enumerate(message.tool_calls, 1)
            ]
            observations = "\n".join(call.result or "" for call in message.tool_calls)
            yield memory.ActionStep(number, timing=at, tool_calls=calls, observations=observations)
        yield memory.ActionStep(number, timing=at, model_output=message.content)


def _to_theirs(message: Message) -> dict[str, Any]:
    return {"role": str(message.role), "content": [{"type": "text", "text": message.content}]}


def _parse_reply(message: object) -> AgentRun:
    trace = AgentTrace((), join_text(get(message, "content")))
    return AgentRun(
        trace=trace, usage=_parse_tokens(get(message, "token_usage")), hint="as the result of a tool"
    )


def _iterate_steps(result: object) -> Iterator[Any]:
    if not isinstance(result, list | tuple):
        yield from get(result, "steps", default=())
        return
    previous = None
    for step in result:
        # A stream repeats the last step before the answer that an agent gives at its limit of steps.
        if (
            previous is None
            or get(step, "step_number") is None
            or (step is not previous and step != previous)
        ):
            yield step
        previous = step


def _find_answer(result: object) -> Any:
    """Return the final answer: of a result, or of the last step that has one."""
    if not isinstance(result, list | tuple):
        return get(result, "output")
    answers = [get(step, "output", "action_output") for step in result if _is_final(step)]
    return answers[-1] if answers else None


def _is_final(step: object) -> bool:
    if get(step, "is_final_answer", default=False):
        return get(step, "step_number") is not None
    return type(step).__name__ == "FinalAnswerStep"


def _parse_tokens(usage: object) -> CallMetrics | None:
    return None if usage is None else make_usage(get(usage, "input_tokens"), get(usage, "output_tokens"))


def _parse_step(builder: TraceBuilder, step: object, streamed: Mapping[str, str]) -> None:
    builder.add_reasoning(join_text(get(step, "model_output")))
    calls = [call for call in _parse_calls(step) if call[1] != FINAL_ANSWER]
    if calls:
        builder.begin_turn()
    for call_id, name, arguments in calls:
        builder.add_call(name, {"code": arguments} if _is_code(name, arguments) else arguments, call_id)
    results = dict(streamed) or _split_observations(step, [call_id for call_id, _, _ in calls])
    for call_id, text in results.items():
        builder.add_result(call_id, text)
    error = get(step, "error")
    if error is not None:
        text = get(error, "message", default=str(error))
        for call_id in _find_failed(calls, results, text):
            builder.add_result(call_id, text, error=True)


def _is_code(name: str, arguments: object) -> bool:
    """Tell the code of an agent that writes code from the arguments of one that calls the interpreter."""
    return name == CODE and isinstance(arguments, str) and "code" not in (parse_object(arguments) or ())


def _parse_calls(step: object) -> list[tuple[str, str, Any]]:
    """Return id, name and arguments of each call; a step that fails forgets them, its message does not."""
    requested = get(get(step, "model_output_message"), "tool_calls") or get(step, "tool_calls", default=())
    calls = [(get(call, "id"), get(call, "function", default=call)) for call in requested]
    return [(call_id, get(about, "name"), get(about, "arguments")) for call_id, about in calls]


def _split_observations(step: object, ids: list[str]) -> dict[str, str]:
    """Return the result of each call; a step has them as one text, in the order of the calls' ids."""
    text = get(step, "observations")
    if text is None:
        return {}
    lines = text.split("\n")
    if len(ids) == len(lines):
        return dict(zip(sorted(ids), lines, strict=True))
    return dict.fromkeys(ids, text)


def _find_failed(calls: list[tuple[str, str, Any]], results: Mapping[str, str], error: str) -> list[str]:
    """Return the ids of the calls that an error is about: those that it names, or all without a result."""
    unanswered = [(call_id, name) for call_id, name, _ in calls if call_id not in results]
    named_in_error = [call_id for call_id, name in unanswered if f"'{name}'" in error]
    return named_in_error or [call_id for call_id, _ in unanswered]


def _define_tool(tool: FrameworkObject) -> ToolDefinition:
    inputs: Mapping[str, Mapping[str, Any]] = tool.inputs
    keys = ("type", "description", "enum", "items")
    properties: dict[str, dict[str, Any]] = {
        name: {key: about[key] for key in keys if key in about and about[key] != "any"}
        for name, about in inputs.items()
    }
    for name, schema in properties.items():
        if inputs[name].get("nullable") and isinstance(kind := schema.get("type"), str):
            schema["type"] = [kind, "null"]
    required = [name for name, about in inputs.items() if not about.get("nullable")]
    schema_of_all = {"type": "object", "properties": properties, "required": required}
    return ToolDefinition(tool.name, tool.description, input_schema=schema_of_all)
