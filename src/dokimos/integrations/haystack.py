"""Agents, pipelines and chat generators of Haystack (`haystack`).

An agent is an `Agent`, a `Pipeline`, a chat generator, or a function without parameters that makes one for
each input. An input is text, or whatever the object takes; `run_options` are those of its `run`.
"""

from __future__ import annotations

import copy
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Unpack

from dokimos._core.agent import AgentTrace
from dokimos._core.conversation import ConversationTrajectory
from dokimos._core.extras import require
from dokimos._core.jsonable import text_form
from dokimos._core.metrics import CallMetrics
from dokimos._core.tool_definition import ToolDefinition
from dokimos._runtime.user_calls import call_user_function
from dokimos.integrations._agent_runs import AgentRun, finish_run
from dokimos.integrations._agent_task import AgentApplication, AgentTask, ResultOptions, TaskOptions
from dokimos.integrations._framework import Framework, RunOptions, resolve_agent
from dokimos.integrations._framework_objects import FrameworkObject, get
from dokimos.integrations._token_usage import make_usage, sum_usage
from dokimos.integrations._tool_lists import add_offered_tools, define_tools, describe_tools, merge_tools
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

EXTRA: Final = "haystack"
_INCLUDED: Final = "include_outputs_from"
"""The option of a pipeline that names the components whose outputs are in its result."""
TURN_LIMIT: Final = "max_agent_steps"
"""The exit reason of an agent that reached its limit of steps."""


@dataclass(frozen=True)
class Haystack(Framework):
    """Haystack."""

    name: ClassVar[str] = "haystack"

    pipeline_input: str = "query"
    """The name of the input sockets of a pipeline that get the text of an input."""

    def to_agent_trace(self, result: object) -> AgentTrace:
        """Return what a run did, from the messages of its result, or else its replies, or else its answer.

        Takes what `run` of an agent, a chat generator or a pipeline returns, or a list of messages. The
        messages of an agent begin with those that it was given, so that calls of earlier turns among them
        count.
        """
        builder = TraceBuilder()
        for message in _find_messages(result):
            _parse_message(builder, message)
        answer = _find_answer(result)
        trace = builder.build(None if answer is None else text_form(get(answer, "data")))
        reason = get(_find_part(result, "exit_reason"), "exit_reason")
        if reason == TURN_LIMIT and trace.final_response is None:
            error = f"{reason}: The agent reached its limit of steps before it had answered."
            trace = replace(trace, error=error)
        return trace

    def to_tool_definitions(self, agent: object) -> tuple[ToolDefinition, ...]:
        """Return the tools of an agent, of all components of a pipeline, or of a list of tools."""
        if isinstance(agent, list | tuple):
            return define_tools(_flatten_toolsets(agent))
        runner = resolve_agent(agent, self.agent_methods)
        components = [component for _, component in runner.walk()] if _is_pipeline(runner) else [runner]
        tools = [get(each, "tools", default=()) for each in components]
        return merge_tools(define_tools(_flatten_toolsets(tools)))

    def parse_usage(self, result: object) -> CallMetrics | None:
        """Return the tokens of a result; of a pipeline those whose messages or replies are in the result."""
        total = get(_find_part(result, "token_usage"), "token_usage")
        if total is None and isinstance(result, Mapping):
            total = result.get("token_usage")
        if total:
            return _parse_tokens(total, None)
        metas = _iterate_metas(result)
        return sum_usage(_parse_tokens(get(meta, "usage"), get(meta, "model")) for meta in metas)

    def parse_run(self, result: object, components: Iterable[str] = ()) -> AgentRun:
        """Return a result as a run, with the documents of the components that retrieve."""
        return AgentRun(
            trace=self.to_agent_trace(_skip_input(result)),
            usage=self.parse_usage(result),
            documents=_find_documents(result, components),
            hint='as the "documents" of a retriever in the pipeline',
        )

    async def run_agent(self, agent: object, inputs: object, options: RunOptions) -> AgentRun:
        if _is_pipeline(agent):
            run = await self._run_pipeline(agent, inputs, options)
            return replace(run, tools=describe_tools(self.to_tool_definitions, agent))
        if not isinstance(inputs, list):
            inputs = [_to_theirs({"role": "user", "content": text_form(inputs) or ""})]
        recorder = _StateRecorder()

        def read_progress() -> tuple[AgentTrace, CallMetrics | None]:
            partial = self.parse_run({"messages": recorder.messages()})
            return partial.trace, partial.usage

        async def attempt() -> AgentRun:
            return self.parse_run(await _call_run(recorder.attach(agent), messages=inputs, **options))

        run = await finish_run(attempt(), read_progress)
        described = describe_tools(self.to_tool_definitions, agent)
        offered = describe_tools(self.to_tool_definitions, recorder.tools())
        return replace(run, tools=add_offered_tools(described, offered))

    async def converse(
        self, agent: object, conversation: ConversationTrajectory, options: RunOptions
    ) -> AgentRun:
        if _is_pipeline(agent):
            last = conversation.last_user_message
            return await self.run_agent(agent, "" if last is None else last.content, options)
        messages = [_to_theirs(each) for each in conversation.to_messages("openai")]
        return await self.run_agent(agent, messages, options)

    async def _run_pipeline(self, pipeline: object, inputs: object, run_options: RunOptions) -> AgentRun:
        data = dict(inputs) if isinstance(inputs, Mapping) else {self.pipeline_input: text_form(inputs) or ""}
        retrievers = _find_retrievers(pipeline)
        options = {_INCLUDED: set(retrievers), **run_options}
        steps: list[Mapping[str, Any]] = []

        def read_progress() -> tuple[AgentTrace, CallMetrics | None]:
            partial = self.parse_run({"messages": _collect_messages(steps)})
            return partial.trace, partial.usage

        async def attempt() -> AgentRun:
            return self.parse_run(await _run_in_steps(pipeline, data, options, steps), retrievers)

        return await finish_run(attempt(), read_progress)

    def describe_agent(self, agent: FrameworkObject) -> Iterable[object]:
        if _is_pipeline(agent):
            return [f"{name}={type(each).__qualname__}" for name, each in agent.walk()]
        model = get(get(agent, "chat_generator", default=agent), "model")
        return type(agent).__qualname__, model, get(agent, "system_prompt")


_FRAMEWORK: Final = Haystack()
to_agent_trace: Final = _FRAMEWORK.to_agent_trace
to_tool_definitions: Final = _FRAMEWORK.to_tool_definitions
to_call_metrics: Final = _FRAMEWORK.to_call_metrics
run_and_trace: Final = _FRAMEWORK.run_and_trace
run_and_trace_async: Final = _FRAMEWORK.run_and_trace_async
as_judge: Final = _FRAMEWORK.as_judge


def as_task(
    agent: object,
    *,
    pipeline_input: str = "query",
    run_options: RunOptions | None = None,
    **options: Unpack[TaskOptions],
) -> AgentTask:
    """Return a task that runs an agent, generator or pipeline on an input.

    A pipeline takes text as every input socket called `pipeline_input` that is not connected; an input that
    is a map is given to it as it is. The documents of its retrievers are the retrieved context: those of the
    answer where there is one, else those of the component that was added last.
    """
    return Haystack(pipeline_input).as_task(agent, run_options=run_options, **options)


def as_application(
    agent: object,
    *,
    pipeline_input: str = "query",
    run_options: RunOptions | None = None,
    **options: Unpack[ResultOptions],
) -> AgentApplication:
    """Return an agent, generator or pipeline as the application of a simulated conversation.

    A pipeline is given only the last message of the user.
    """
    return Haystack(pipeline_input).as_application(agent, run_options=run_options, **options)


def _flatten_toolsets(tools: Iterable[Any]) -> Iterator[Any]:
    """Yield tools one by one: a toolset, which may stand among them, is several."""
    for tool in tools:
        if isinstance(tool, Iterable):
            yield from _flatten_toolsets(tool)
        else:
            yield tool


async def _run_in_steps(
    pipeline: FrameworkObject, data: Mapping[str, Any], options: RunOptions, steps: list[Mapping[str, Any]]
) -> Any:
    """Run a pipeline and add the output of each component to `steps`, for when a later one fails."""
    if not hasattr(pipeline, "run_async_generator"):
        return await _call_run(pipeline, data, **options)
    result: Mapping[str, Any] = {}
    everything = {name for name, _ in pipeline.walk()}
    async for result in pipeline.run_async_generator(data, **{**options, _INCLUDED: everything}):
        steps.append(result)
    return dict(_remove_extra_outputs(result, pipeline.outputs(), options.get(_INCLUDED) or ()))


def _remove_extra_outputs(
    result: Mapping[str, Any], open_sockets: Mapping[str, Any], included: Container[str]
) -> Iterator[tuple[str, Any]]:
    """Yield all outputs of the included components, and of others those that are not connected."""
    for name, outputs in result.items():
        sockets = open_sockets.get(name, ())
        selected = outputs if name in included else {k: value for k, value in outputs.items() if k in sockets}
        if selected or name in included:
            yield name, selected


def _collect_messages(steps: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Return the messages of components after the last one of the user, without those passed on."""
    collected: list[Any] = []
    for value in (value for step in steps for output in step.values() for value in output.values()):
        # Lists of anything else, such as documents, have no roles.
        messages = [each for each in value if _role(each) != "None"] if isinstance(value, list) else []
        new = _find_messages(_skip_input({"messages": messages}))
        collected += [message for message in new if message not in collected]
    return collected


async def _call_run(runner: FrameworkObject, *args: Any, **kwargs: Any) -> Any:
    """Run it on the event loop where it can, else in a thread."""
    return await call_user_function(getattr(runner, "run_async", runner.run), *args, **kwargs)


class _StateRecorder:
    """A hook of an agent that has the state of one run, also when the run fails."""

    def __init__(self) -> None:
        self._state: object = None

    def run(self, state: object) -> None:
        self._state = state

    def attach(self, runner: FrameworkObject) -> Any:
        """Return a copy of an agent with this hook; an object without hooks is returned as it is."""
        hooks = get(runner, "hooks")
        if not isinstance(hooks, Mapping):
            return runner
        # A copy, since several inputs run with one agent and each needs a recorder of its own.
        copied = copy.copy(runner)
        copied.hooks = {**hooks, _FIRST: [*hooks.get(_FIRST, ()), self]}
        return copied

    def messages(self) -> list[Any]:
        return list(self._data("messages"))

    def tools(self) -> list[Any]:
        """Return the tools of the last step."""
        return list(_flatten_toolsets(self._data("tools")))

    def _data(self, key: str) -> Any:
        return get(get(self._state, "data"), key, default=())


_FIRST: Final = "before_run"
"""The point at which Haystack runs hooks before anything else."""


def _to_theirs(message: Mapping[str, Any]) -> Any:
    chat_message = require("haystack.dataclasses", EXTRA).ChatMessage
    if message["role"] == "assistant" and message.get("content") is None:
        message = {key: value for key, value in message.items() if key != "content"}
    return chat_message.from_openai_dict_format(dict(message))


def _is_pipeline(agent: object) -> bool:
    return hasattr(agent, "walk") and hasattr(agent, "connect")


def _find_retrievers(pipeline: FrameworkObject) -> list[str]:
    """Return the names of the components that give documents, in the order in which they were added."""
    outputs = pipeline.outputs(include_components_with_connected_outputs=True)
    return [name for name, _ in pipeline.walk() if "documents" in outputs.get(name, ())]


def _skip_input(result: object) -> Any:
    """Return the messages after the last one of the user; a result without messages is returned as it is."""
    if get(_find_part(result, "messages"), "messages") is None:
        return result
    messages = list(_find_messages(result))
    users = [index for index, message in enumerate(messages) if _role(message) == "user"]
    new = messages[users[-1] + 1 if users else 0 :]
    return {"messages": new, "exit_reason": get(_find_part(result, "exit_reason"), "exit_reason")}


def _find_part(result: object, name: str) -> Any:
    """Return the part of a pipeline's result that has `name`, or the result itself if it has."""
    if not isinstance(result, Mapping):
        return None
    if name in result and not isinstance(result[name], Mapping):
        return result
    parts = (part for part in result.values() if isinstance(part, Mapping))
    return next((part for part in parts if name in part), None)


def _find_messages(result: object) -> Iterable[Any]:
    if isinstance(result, list | tuple):
        return result
    for name in ("messages", "replies"):
        messages = get(_find_part(result, name), name)
        if messages is not None:
            return [reply for reply in messages if not isinstance(reply, str)]
    return ()


def _find_answer(result: object) -> Any:
    """Return the first answer of an answer builder or reader, or the text of a plain generator."""
    answers = get(_find_part(result, "answers"), "answers")
    if answers:
        return answers[0]
    replies = get(_find_part(result, "replies"), "replies", default=())
    return next(({"data": reply} for reply in replies if isinstance(reply, str)), None)


def _find_documents(result: object, retrievers: Iterable[str]) -> tuple[Any, ...] | None:
    """Return the documents of the last retriever, else those of the answer or of the agent."""
    parts = [result.get(name) for name in retrievers] if isinstance(result, Mapping) else []
    documents = [
        get(part, "documents") for part in (result, _find_answer(result), *parts) if part is not None
    ]
    present = [each for each in documents if each is not None]
    return tuple(present[-1]) if present else None


def _iterate_metas(result: object) -> Iterator[Any]:
    messages = list(_find_messages(result))
    if messages:
        yield from (get(message, "meta", default={}) for message in messages)
    elif isinstance(result, Mapping):
        answer = _find_answer(result)
        yield from get(_find_part(result, "meta"), "meta", default=[get(answer, "meta", default={})])


def _parse_tokens(usage: object, model: str | None) -> CallMetrics | None:
    if not usage:
        return None
    return make_usage(
        get(usage, "prompt_tokens", "input_tokens"),
        get(usage, "completion_tokens", "output_tokens"),
        cached=get(get(usage, "prompt_tokens_details"), "cached_tokens"),
        reasoning=get(get(usage, "completion_tokens_details"), "reasoning_tokens"),
        model=model,
    )


def _role(message: object) -> str:
    role = get(message, "role")
    return str(getattr(role, "value", role))


def _parse_message(builder: TraceBuilder, message: object) -> None:
    calls = get(message, "tool_calls", default=())
    if calls:
        builder.begin_turn()
    if _role(message) == "assistant":
        builder.add_reasoning(get(get(message, "reasoning"), "reasoning_text"))
        builder.add_text("\n".join(get(message, "texts", default=())))
    for call in calls:
        builder.add_call(get(call, "tool_name"), get(call, "arguments"), get(call, "id"))
    for answer in get(message, "tool_call_results", default=()):
        failed = get(answer, "error", default=False)
        builder.add_result(get(get(answer, "origin"), "id"), get(answer, "result"), error=failed)
