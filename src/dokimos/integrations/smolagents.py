"""Agents and models of smolagents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias, Unpack

from dokimos.core.agent import AgentTrace, ToolDefinition
from dokimos.core.conversation import ConversationTrajectory, Message, Role
from dokimos.core.extras import require
from dokimos.core.json_object import parse_object
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
from dokimos.integrations.reading import TraceBuilder, get, priced, summed, text_of, usage_of
from dokimos.integrations.turn_taking import one_at_a_time
from dokimos.runtime.calling import called
from dokimos.runtime.concurrency import run_sync

EXTRA: Final = "smolagents"

AgentLike: TypeAlias = Any
"""An agent, a model, or a function without parameters that makes one for each input.

An agent remembers, and serves one call at a time: inputs of one that is given as it is wait for one another.
"""

FINAL_ANSWER: Final = "final_answer"
"""The tool by which an agent answers; its call is the answer, and no tool call of the trace."""
CODE: Final = "python_interpreter"
"""The tool by which an agent that writes code runs it."""


def to_agent_trace(result: Any) -> AgentTrace:
    """Return what a run did.

    Takes a `RunResult`, a list of steps, or all that `run(stream=True)` gives. A step with several calls
    keeps what they gave as one text: where it has as many lines as there are calls each call has its own,
    else all of them have all; the stream tells them apart. Tools that code calls are inside the call that
    runs the code; `TraceCollector.observe` sees each of them.
    """
    builder = TraceBuilder()
    told: dict[str, str] = {}
    for step in _steps(result):
        if get(step, "tool_call") is not None:  # the output of a tool, in a stream
            told[get(step, "id")] = get(step, "observation", default="")
        elif get(step, "step_number") is not None:
            _read_step(builder, step, told)
            told = {}
        else:
            builder.think(get(step, "plan"))
    return builder.trace(text_form(_answer(result)))


def to_tool_definitions(agent: AgentLike | Iterable[Any]) -> tuple[ToolDefinition, ...]:
    """Return the tools of an agent, without the one by which it answers, or of a list of tools.

    The agents that it manages are tools too, and so is the interpreter of one that writes code.
    """
    if isinstance(agent, list | tuple):
        return tuple(_definition(tool) for tool in agent if tool.name != FINAL_ANSWER)
    agent = made_one_of(agent, _METHODS)
    named = {**get(agent, "tools", default={}), **get(agent, "managed_agents", default={})}
    tools = to_tool_definitions(list(named.values()))
    return (*tools, _INTERPRETER) if get(agent, "python_executor") is not None else tools


def to_call_metrics(
    result: Any, model: str | None = None, price_table: PriceTable | None = None
) -> CallMetrics | None:
    """Return the tokens of all model calls of a run, and their cost; None where nothing was measured."""
    return priced(_usage(result), model, price_table)


def run_and_trace(agent: AgentLike, inputs: Any, **run_options: Any) -> AgentTrace:
    """Run an agent on text; `run_options` are those of its `run`."""
    return run_sync(run_and_trace_async(agent, inputs, **run_options))


async def run_and_trace_async(agent: AgentLike, inputs: Any, **run_options: Any) -> AgentTrace:
    """Do what `run_and_trace` does, in a thread, without blocking the event loop that is running."""
    return (await _bridge(agent, run_options).run(inputs)).trace


def as_task(
    agent: AgentLike, *, run_options: Mapping[str, Any] | None = None, **options: Unpack[TaskOptions]
) -> AgentTask:
    """Return a task that runs an agent, or asks a model, on an input; each begins with an empty memory."""
    return AgentTask(_bridge(agent, run_options or {}), **options)


def as_application(
    agent: AgentLike, *, run_options: Mapping[str, Any] | None = None, **options: Unpack[ResultOptions]
) -> AgentApplication:
    """Return an agent as the application of a simulated conversation, which is put into its memory."""
    return AgentApplication(AgentTask(_bridge(agent, run_options or {}), **options))


def as_judge(
    agent: AgentLike, *, model: str | None = None, price_table: PriceTable | None = None
) -> AgentJudge:
    """Return a model or an agent as a judge."""
    return AgentJudge(_bridge(agent, {}), model, price_table)


_METHODS: Final = ("generate", "run")
"""What only a model and an agent have."""
_TURN_LIMIT: Final = "AgentMaxStepsError"
_INTERPRETER: Final = ToolDefinition(
    CODE,
    "Runs Python code.",
    input_schema={"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]},
)


def _bridge(agent: AgentLike, run_options: Mapping[str, Any]) -> Bridge:
    async def answer(text: str, history: tuple[Message, ...] = ()) -> AgentRun:
        ready = made_one_of(agent, _METHODS)
        if method_of(ready, _METHODS) == "generate":
            messages = [_content(message) for message in (*history, Message.user(text))]
            return _read_reply(await called(ready.generate, messages, **run_options))
        steps: list[Any] = []

        def so_far() -> tuple[AgentTrace, CallMetrics | None]:
            return to_agent_trace(steps), _usage(steps)

        keep_so_far(so_far)
        try:
            await called(_run, ready, text, history, run_options, steps)
            came = _read(steps)
        except Exception as error:
            came = AgentRun.of_failure(error, *so_far())
        return replace(came, tools=describe_tools(to_tool_definitions, ready))

    in_turn = one_at_a_time(answer) if method_of(agent, _METHODS) == "run" else answer

    async def run(inputs: Any) -> AgentRun:
        return await in_turn(text_form(inputs) or "")

    async def converse(conversation: ConversationTrajectory) -> AgentRun:
        *history, last = conversation.messages
        return await in_turn(last.content, tuple(history))

    return Bridge(identity=_identity(agent), run=run, converse=converse)


def _run(
    agent: Any, text: str, history: tuple[Message, ...], options: Mapping[str, Any], steps: list[Any]
) -> None:
    """Run an agent to its end and add all that it tells on the way to `steps`."""
    if history:
        agent.memory.reset()
        agent.monitor.reset()
        agent.memory.steps.extend(_remembered(history))
        options = {"reset": False, **options}
    steps.extend(agent.run(text, stream=True, **options))
    last = agent.memory.steps[-1] if agent.memory.steps else None
    if type(get(last, "error")).__name__ == _TURN_LIMIT and not any(step is last for step in steps):
        steps.insert(-1, last)  # which made the answer, and is in the memory alone


def _remembered(history: Iterable[Message]) -> Iterator[Any]:
    """Return a conversation as the steps that an agent would remember of it."""
    memory = require("smolagents.memory", EXTRA)
    at = require("smolagents.monitoring", EXTRA).Timing(start_time=0.0, end_time=0.0)
    for number, message in enumerate(history, 1):
        if message.role is not Role.ASSISTANT:
            yield memory.TaskStep(task=message.content)
            continue
        if message.tool_calls:
            calls = [
                memory.ToolCall(call.name, dict(call.arguments), f"call_{number}_{place}")
                for place, call in enumerate(message.tool_calls, 1)
            ]
            observed = "\n".join(call.result or "" for call in message.tool_calls)
            yield memory.ActionStep(number, timing=at, tool_calls=calls, observations=observed)
        yield memory.ActionStep(number, timing=at, model_output=message.content)


def _content(message: Message) -> dict[str, Any]:
    return {"role": str(message.role), "content": [{"type": "text", "text": message.content}]}


def _read(steps: list[Any]) -> AgentRun:
    answer = _answer(steps)
    return AgentRun(
        trace=to_agent_trace(steps),
        output=None if isinstance(answer, str) else answer,
        usage=_usage(steps),
        hint="as the result of a tool",
    )


def _read_reply(message: Any) -> AgentRun:
    trace = AgentTrace((), text_of(get(message, "content")))
    return AgentRun(trace=trace, usage=_tokens(get(message, "token_usage")), hint="as the result of a tool")


def _steps(result: Any) -> Iterable[Any]:
    if not isinstance(result, list | tuple):
        yield from get(result, "steps", default=())
        return
    before = None
    for step in result:
        # A stream tells the last step again before the answer that an agent gives at its limit of steps.
        if before is None or get(step, "step_number") is None or (step is not before and step != before):
            yield step
        before = step


def _answer(result: Any) -> Any:
    """Return the final answer: of a result, or of the last step that has one."""
    if not isinstance(result, list | tuple):
        return get(result, "output")
    answers = [get(step, "output", "action_output") for step in result if _is_final(step)]
    return answers[-1] if answers else None


def _is_final(step: Any) -> bool:
    if get(step, "is_final_answer", default=False):
        return get(step, "step_number") is not None
    return type(step).__name__ == "FinalAnswerStep"


def _usage(result: Any) -> CallMetrics | None:
    total = get(result, "token_usage") if not isinstance(result, list | tuple) else None
    if total is not None:
        return _tokens(total)
    return summed(_tokens(get(step, "token_usage")) for step in _steps(result))


def _tokens(usage: Any) -> CallMetrics | None:
    return None if usage is None else usage_of(get(usage, "input_tokens"), get(usage, "output_tokens"))


def _identity(agent: AgentLike) -> str:
    kind = method_of(agent, _METHODS)
    if kind is None:
        return identity("smolagents", agent)
    model = agent if kind == "generate" else get(agent, "model")
    name = get(agent, "name", default=type(agent).__qualname__)
    return identity("smolagents", name, get(model, "model_id"), get(agent, "instructions"))


def _read_step(builder: TraceBuilder, step: Any, told: Mapping[str, str]) -> None:
    builder.think(text_of(get(step, "model_output")))
    calls = [call for call in _calls(step) if call[1] != FINAL_ANSWER]
    if calls:
        builder.turn()
    for call_id, name, arguments in calls:
        builder.call(name, {"code": arguments} if _is_code(name, arguments) else arguments, call_id)
    results = dict(told) or _observed(step, [call_id for call_id, _, _ in calls])
    for call_id, text in results.items():
        builder.result(call_id, text)
    error = get(step, "error")
    if error is not None:
        text = get(error, "message", default=str(error))
        for call_id in _failed(calls, results, text):
            builder.result(call_id, text, error=True)


def _is_code(name: str, arguments: Any) -> bool:
    """Tell the code of an agent that writes code from the arguments of one that calls the interpreter."""
    return name == CODE and isinstance(arguments, str) and "code" not in (parse_object(arguments) or ())


def _calls(step: Any) -> list[tuple[str, str, Any]]:
    """Return id, name and arguments of each call; a step that fails forgets them, its message does not."""
    asked = get(get(step, "model_output_message"), "tool_calls") or get(step, "tool_calls", default=())
    told = [(get(call, "id"), get(call, "function", default=call)) for call in asked]
    return [(call_id, get(about, "name"), get(about, "arguments")) for call_id, about in told]


def _observed(step: Any, ids: list[str]) -> dict[str, str]:
    """Return what each call gave, of what a step keeps together in the order of the calls' ids."""
    together = get(step, "observations")
    if together is None:
        return {}
    lines = together.split("\n")
    if len(ids) == len(lines):
        return dict(zip(sorted(ids), lines, strict=True))
    return dict.fromkeys(ids, together)


def _failed(calls: list[tuple[str, str, Any]], results: Mapping[str, str], error: str) -> list[str]:
    """Return the ids of the calls that an error is about: those that it names, or all without a result."""
    without = [(call_id, name) for call_id, name, _ in calls if call_id not in results]
    named = [call_id for call_id, name in without if f"'{name}'" in error]
    return named or [call_id for call_id, _ in without]


def _definition(tool: Any) -> ToolDefinition:
    inputs: Mapping[str, Mapping[str, Any]] = tool.inputs
    kept = ("type", "description", "enum", "items")
    properties: dict[str, dict[str, Any]] = {
        name: {key: about[key] for key in kept if key in about and about[key] != "any"}
        for name, about in inputs.items()
    }
    for name, schema in properties.items():
        if inputs[name].get("nullable") and isinstance(kind := schema.get("type"), str):
            schema["type"] = [kind, "null"]
    required = [name for name, about in inputs.items() if not about.get("nullable")]
    of_all = {"type": "object", "properties": properties, "required": required}
    return ToolDefinition(tool.name, tool.description, input_schema=of_all)
