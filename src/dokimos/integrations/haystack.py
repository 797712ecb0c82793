"""Agents, pipelines and chat generators of Haystack (`haystack`)."""

from __future__ import annotations

import copy
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias, Unpack

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
    describe_tools,
    identity,
    keep_so_far,
    made,
)
from dokimos.integrations.reading import (
    TraceBuilder,
    get,
    merge_tools,
    priced,
    summed,
    tool_definitions,
    usage_of,
    with_offered,
)
from dokimos.runtime.calling import called
from dokimos.runtime.concurrency import run_sync

EXTRA: Final = "haystack"
_INCLUDED: Final = "include_outputs_from"
"""The option of a pipeline that names the components whose outputs are in its result."""
TURN_LIMIT: Final = "max_agent_steps"
"""What an agent says of a run that reached its limit of steps."""

AgentLike: TypeAlias = Any
"""An `Agent`, a `Pipeline`, a chat generator, or a function without parameters that makes one."""


def to_agent_trace(result: Any) -> AgentTrace:
    """Return what a result tells: its messages, or else its replies, or else its answer.

    Takes what `run` of an agent, a chat generator or a pipeline gives, or a list of messages. The messages of
    an agent begin with those that it was given, so that calls of earlier turns among them count.
    """
    builder = TraceBuilder()
    for message in _messages(result):
        _read_message(builder, message)
    answer = _answer(result)
    trace = builder.trace(None if answer is None else text_form(get(answer, "data")))
    reason = get(_part(result, "exit_reason"), "exit_reason")
    if reason == TURN_LIMIT and trace.final_response is None:
        trace = replace(
            trace, error=f"{reason}: The agent reached its limit of steps before it had answered."
        )
    return trace


def to_tool_definitions(agent: AgentLike | Iterable[Any]) -> tuple[ToolDefinition, ...]:
    """Return the tools of an agent, of all components of a pipeline, or of a list of tools."""
    if isinstance(agent, list | tuple):
        return tool_definitions(_tools_in(agent))
    agent = made(agent, "run")
    components = [component for _, component in agent.walk()] if _is_pipeline(agent) else [agent]
    return merge_tools(tool_definitions(_tools_in([get(each, "tools", default=()) for each in components])))


def _tools_in(tools: Any) -> Iterator[Any]:
    """Yield tools one by one: a toolset, which may stand among them, is several."""
    for tool in tools:
        if isinstance(tool, Iterable):
            yield from _tools_in(tool)
        else:
            yield tool


def to_call_metrics(
    result: Any, model: str | None = None, price_table: PriceTable | None = None
) -> CallMetrics | None:
    """Return the tokens that a result tells of, and their cost; None where nothing was measured.

    Of a pipeline only those of components whose messages or replies are in the result are known.
    """
    return priced(_usage(result), model, price_table)


def run_and_trace(agent: AgentLike, inputs: Any, **run_options: Any) -> AgentTrace:
    """Run an agent, generator or pipeline on text, or whatever it takes; `run_options` are those of `run`."""
    return run_sync(run_and_trace_async(agent, inputs, **run_options))


async def run_and_trace_async(agent: AgentLike, inputs: Any, **run_options: Any) -> AgentTrace:
    """Do what `run_and_trace` does, on the event loop that is running."""
    return (await _bridge(agent, run_options).run(inputs)).trace


def as_task(
    agent: AgentLike,
    *,
    pipeline_input: str = "query",
    run_options: Mapping[str, Any] | None = None,
    **options: Unpack[TaskOptions],
) -> AgentTask:
    """Return a task that runs an agent, generator or pipeline on an input.

    A pipeline takes text as every input socket called `pipeline_input` that is not connected; an input that
    is a map is given to it as it is. The documents of its retrievers are the retrieved context: those of the
    answer where there is one, else those of the component that was added last.
    """
    return AgentTask(_bridge(agent, run_options or {}, pipeline_input), **options)


def as_application(
    agent: AgentLike,
    *,
    pipeline_input: str = "query",
    run_options: Mapping[str, Any] | None = None,
    **options: Unpack[ResultOptions],
) -> AgentApplication:
    """Return an agent, generator or pipeline as the application of a simulated conversation.

    A pipeline is given only what the user said last.
    """
    return AgentApplication(AgentTask(_bridge(agent, run_options or {}, pipeline_input), **options))


def as_judge(
    agent: AgentLike, *, model: str | None = None, price_table: PriceTable | None = None
) -> AgentJudge:
    """Return a chat generator or an agent as a judge."""
    return AgentJudge(_bridge(agent, {}), model, price_table)


def _bridge(agent: AgentLike, run_options: Mapping[str, Any], pipeline_input: str = "query") -> Bridge:
    async def answer(ready: Any, inputs: Any) -> AgentRun:
        if _is_pipeline(ready):
            came = await _run_pipeline(ready, inputs, pipeline_input, run_options)
            return replace(came, tools=describe_tools(to_tool_definitions, ready))
        if not isinstance(inputs, list):
            inputs = [_chat_message({"role": "user", "content": text_form(inputs) or ""})]
        watch = _Watch()

        def so_far() -> tuple[AgentTrace, CallMetrics | None]:
            done = _read({"messages": watch.messages()})
            return done.trace, done.usage

        keep_so_far(so_far)
        try:
            came = _read(await _run(watch.watched(ready), messages=inputs, **run_options))
        except Exception as error:
            came = AgentRun.of_failure(error, *so_far())
        described = describe_tools(to_tool_definitions, ready)
        offered = describe_tools(to_tool_definitions, watch.tools())
        return replace(came, tools=with_offered(described, offered))

    async def run(inputs: Any) -> AgentRun:
        return await answer(made(agent, "run"), inputs)

    async def converse(conversation: ConversationTrajectory) -> AgentRun:
        ready = made(agent, "run")
        if _is_pipeline(ready):
            last = conversation.last_user_message
            return await answer(ready, "" if last is None else last.content)
        return await answer(ready, [_chat_message(each) for each in conversation.to_messages("openai")])

    return Bridge(identity=_identity(agent), run=run, converse=converse)


async def _run_pipeline(
    pipeline: Any, inputs: Any, pipeline_input: str, run_options: Mapping[str, Any]
) -> AgentRun:
    data = dict(inputs) if isinstance(inputs, Mapping) else {pipeline_input: text_form(inputs) or ""}
    retrieving = _retrieving(pipeline)
    options = {_INCLUDED: set(retrieving), **run_options}
    steps: list[Mapping[str, Any]] = []

    def so_far() -> tuple[AgentTrace, CallMetrics | None]:
        done = _read({"messages": _said_in(steps)})
        return done.trace, done.usage

    keep_so_far(so_far)
    try:
        return _read(await _run_in_steps(pipeline, data, options, steps), retrieving)
    except Exception as error:
        return AgentRun.of_failure(error, *so_far())


async def _run_in_steps(
    pipeline: Any, data: Mapping[str, Any], options: Mapping[str, Any], steps: list[Mapping[str, Any]]
) -> Any:
    """Run a pipeline and add to `steps` what each component gave, for when a later one fails."""
    if not hasattr(pipeline, "run_async_generator"):
        return await _run(pipeline, data, **options)
    result: Mapping[str, Any] = {}
    everything = {name for name, _ in pipeline.walk()}
    async for result in pipeline.run_async_generator(data, **{**options, _INCLUDED: everything}):
        steps.append(result)
    return dict(_as_without(result, pipeline.outputs(), options.get(_INCLUDED) or ()))


def _as_without(
    result: Mapping[str, Any], open_sockets: Mapping[str, Any], included: Container[str]
) -> Iterator[tuple[str, Any]]:
    """Yield a result as it is with all outputs of some components, and of others what nobody took."""
    for name, given in result.items():
        sockets = open_sockets.get(name, ())
        own = given if name in included else {key: value for key, value in given.items() if key in sockets}
        if own or name in included:
            yield name, own


def _said_in(steps: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Return what components gave since the last message of the user, each once: some pass it on."""
    found: list[Any] = []
    for value in (value for step in steps for output in step.values() for value in output.values()):
        messages = [each for each in value if _role(each) != "None"] if isinstance(value, list) else []
        since = _messages(_since_last_input({"messages": messages}))
        found += [message for message in since if message not in found]
    return found


async def _run(runner: Any, *args: Any, **kwargs: Any) -> Any:
    """Run it on the event loop where it can, else in a thread."""
    return await called(getattr(runner, "run_async", runner.run), *args, **kwargs)


class _Watch:
    """A hook of an agent by which the state of one run is at hand, also when the run breaks off."""

    def __init__(self) -> None:
        self._state: Any = None

    def run(self, state: Any) -> None:
        self._state = state

    def watched(self, runner: Any) -> Any:
        """Return an agent with this hook; what has no hooks is returned as it is."""
        hooks = get(runner, "hooks")
        if not isinstance(hooks, Mapping):
            return runner
        watched = copy.copy(runner)
        watched.hooks = {**hooks, _FIRST: [*hooks.get(_FIRST, ()), self]}
        return watched

    def messages(self) -> list[Any]:
        return list(self._data("messages"))

    def tools(self) -> list[Any]:
        """Return the tools of the last step."""
        return list(_tools_in(self._data("tools")))

    def _data(self, key: str) -> Any:
        return get(get(self._state, "data"), key, default=())


_FIRST: Final = "before_run"
"""The point at which Haystack runs hooks before anything else."""


def _chat_message(message: Mapping[str, Any]) -> Any:
    chat_message = require("haystack.dataclasses", EXTRA).ChatMessage
    if message["role"] == "assistant" and message.get("content") is None:
        message = {key: value for key, value in message.items() if key != "content"}
    return chat_message.from_openai_dict_format(dict(message))


def _is_pipeline(agent: Any) -> bool:
    return hasattr(agent, "walk") and hasattr(agent, "connect")


def _retrieving(pipeline: Any) -> list[str]:
    """Return the names of the components that give documents, in the order in which they were added."""
    outputs = pipeline.outputs(include_components_with_connected_outputs=True)
    return [name for name, _ in pipeline.walk() if "documents" in outputs.get(name, ())]


def _read(result: Any, components: Iterable[str] = ()) -> AgentRun:
    return AgentRun(
        trace=to_agent_trace(_since_last_input(result)),
        usage=_usage(result),
        documents=_documents(result, components),
        hint='as the "documents" of a retriever in the pipeline',
    )


def _since_last_input(result: Any) -> Any:
    """Return the messages after the last one of the user, and a result that is no agent's as it is."""
    if get(_part(result, "messages"), "messages") is None:
        return result
    messages = list(_messages(result))
    users = [place for place, message in enumerate(messages) if _role(message) == "user"]
    since = messages[users[-1] + 1 if users else 0 :]
    return {"messages": since, "exit_reason": get(_part(result, "exit_reason"), "exit_reason")}


def _part(result: Any, name: str) -> Any:
    """Return the part of a pipeline's result that has `name`, or the result itself if it has."""
    if not isinstance(result, Mapping):
        return None
    if name in result and not isinstance(result[name], Mapping):
        return result
    parts = (part for part in result.values() if isinstance(part, Mapping))
    return next((part for part in parts if name in part), None)


def _messages(result: Any) -> Iterable[Any]:
    if isinstance(result, list | tuple):
        return result
    for name in ("messages", "replies"):
        found = get(_part(result, name), name)
        if found is not None:
            return [reply for reply in found if not isinstance(reply, str)]
    return ()


def _answer(result: Any) -> Any:
    """Return the first answer of an answer builder or reader, or the text of a plain generator."""
    answers = get(_part(result, "answers"), "answers")
    if answers:
        return answers[0]
    replies = get(_part(result, "replies"), "replies", default=())
    return next(({"data": reply} for reply in replies if isinstance(reply, str)), None)


def _documents(result: Any, retrieving: Iterable[str]) -> tuple[Any, ...] | None:
    """Return what the last of the components that retrieve gave, else what the answer names or the agent."""
    parts = [result.get(name) for name in retrieving] if isinstance(result, Mapping) else []
    given = [get(part, "documents") for part in (result, _answer(result), *parts) if part is not None]
    found = [documents for documents in given if documents is not None]
    return tuple(found[-1]) if found else None


def _usage(result: Any) -> CallMetrics | None:
    total = get(_part(result, "token_usage"), "token_usage")
    if total is None and isinstance(result, Mapping):
        total = result.get("token_usage")
    if total:
        return _tokens(total, None)
    metas = list(_metas(result))
    return summed(_tokens(get(meta, "usage"), get(meta, "model")) for meta in metas)


def _metas(result: Any) -> Iterator[Any]:
    messages = list(_messages(result))
    if messages:
        yield from (get(message, "meta", default={}) for message in messages)
    elif isinstance(result, Mapping):
        answer = _answer(result)
        yield from get(_part(result, "meta"), "meta", default=[get(answer, "meta", default={})])


def _tokens(usage: Any, model: str | None) -> CallMetrics | None:
    if not usage:
        return None
    return usage_of(
        get(usage, "prompt_tokens", "input_tokens"),
        get(usage, "completion_tokens", "output_tokens"),
        cached=get(get(usage, "prompt_tokens_details"), "cached_tokens"),
        reasoning=get(get(usage, "completion_tokens_details"), "reasoning_tokens"),
        model=model,
    )


def _identity(agent: AgentLike) -> str:
    if not hasattr(agent, "run") or isinstance(agent, type):
        return identity("haystack", agent)
    if _is_pipeline(agent):
        return identity("haystack", *(f"{name}={type(each).__qualname__}" for name, each in agent.walk()))
    model = get(get(agent, "chat_generator", default=agent), "model")
    return identity("haystack", type(agent).__qualname__, model, get(agent, "system_prompt"))


def _role(message: Any) -> str:
    role = get(message, "role")
    return str(getattr(role, "value", role))


def _read_message(builder: TraceBuilder, message: Any) -> None:
    calls = get(message, "tool_calls", default=())
    if calls:
        builder.turn()
    if _role(message) == "assistant":
        builder.think(get(get(message, "reasoning"), "reasoning_text"))
        builder.say("\n".join(get(message, "texts", default=())))
    for call in calls:
        builder.call(get(call, "tool_name"), get(call, "arguments"), get(call, "id"))
    for answer in get(message, "tool_call_results", default=()):
        failed = get(answer, "error", default=False)
        builder.result(get(get(answer, "origin"), "id"), get(answer, "result"), error=failed)
