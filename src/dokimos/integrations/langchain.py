"""Agents, graphs, chains and models of LangChain and LangGraph."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias, Unpack

from dokimos.core.agent import AgentTrace, ToolCall, ToolDefinition
from dokimos.core.conversation import ConversationTrajectory
from dokimos.core.extras import require
from dokimos.core.jsonable import jsonable, text_form
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
from dokimos.integrations.langchain_streams import check_stream_mode, read_stream
from dokimos.integrations.langchain_watch import RunWatch
from dokimos.integrations.reading import (
    TraceBuilder,
    get,
    is_answer_call,
    merge_tools,
    priced,
    summed,
    text_of,
    usage_of,
)
from dokimos.judges.judge_identity import identity_of
from dokimos.runtime.concurrency import run_sync

EXTRA: Final = "langchain"

RunnableLike: TypeAlias = Any
"""An agent, graph, chain or model, or a function without parameters that makes one for each input."""

_ANSWERS: Final = ("output", "answer", "result", "text", "response")
"""Under which keys chains have their answer."""
_SOURCES: Final = ("context", "source_documents", "documents", "sources")


def to_agent_trace(result: Any) -> AgentTrace:
    """Return what a run did: from the state of a graph, a list of messages, or what a chain or model gave.

    Messages are read turn by turn: the results of an assistant message's calls are those that follow it up to
    the next assistant message, so that an id that a later turn uses again is another call. The call by which
    a model gives a structured answer is the answer, and no tool call.

    Takes what a graph streams too, as a list: states (`stream_mode="values"`) or updates (`"updates"`).

    Raises:
        IntegrationError: for a stream of anything else.
    """
    result = read_stream(result)
    messages = to_messages(result)
    answering = _answering_tools(result, messages)
    builder = TraceBuilder()
    for message in messages:
        _read_message(builder, message, answering)
    if isinstance(result, Mapping):
        for action, observation in result.get("intermediate_steps") or ():
            _read_step(builder, action, observation)
    trace = builder.trace()
    return trace if trace.final_response is not None else builder.trace(text_form(_answer(result)))


def to_tool_calls(result: Any) -> tuple[ToolCall, ...]:
    """Return the calls of a run, turn by turn, without the rest of the trace."""
    return to_agent_trace(result).tool_calls


def to_trajectory(result: Any) -> ConversationTrajectory:
    """Return the messages of a state as a conversation, each reply with its tool calls."""
    return ConversationTrajectory.from_messages(_plain(message) for message in to_messages(result))


def to_messages(result: Any) -> list[Any]:
    """Return the messages in a result: those of a state, a list itself, or the one that a model gave."""
    result = read_stream(result)
    if isinstance(result, Mapping):
        result = result.get("messages", result if "type" in result else ())
    if isinstance(result, list | tuple):
        return [message for message in result if not isinstance(message, str)]
    return [] if result is None or get(result, "type") is None else [result]


def to_tool_definitions(tools: Any) -> tuple[ToolDefinition, ...]:
    """Return tools as definitions: a list of them, or those of an agent.

    An agent is a graph with a node of tools, also in a graph within it, or a model to which tools are bound.
    """
    if isinstance(tools, Sequence):
        return tuple(_definition(tool) for tool in tools)
    return merge_tools(_definition(tool) for tool in _tools_in(made(tools, "ainvoke"), set()))


def to_call_metrics(
    result: Any, model: str | None = None, price_table: PriceTable | None = None
) -> CallMetrics | None:
    """Return the tokens of all model calls in a result, and their cost; None where nothing was measured."""
    return priced(_usage(to_messages(result)), model, price_table)


def run_and_trace(runnable: RunnableLike, inputs: Any, **run_options: Any) -> AgentTrace:
    """Run an agent, graph, chain or model; text is the user's message where it works on messages.

    `run_options` are those of `ainvoke`, such as `config`.
    """
    return run_sync(run_and_trace_async(runnable, inputs, **run_options))


async def run_and_trace_async(runnable: RunnableLike, inputs: Any, **run_options: Any) -> AgentTrace:
    """Do what `run_and_trace` does, on the event loop that is running."""
    return (await _bridge(runnable, run_options).run(inputs)).trace


def as_task(
    runnable: RunnableLike, *, run_options: Mapping[str, Any] | None = None, **options: Unpack[TaskOptions]
) -> AgentTask:
    """Return a task that runs an agent, graph, chain or model on an input.

    A graph that works on messages is given the input as the user's message; anything else is given the input
    itself. A graph that remembers begins anew with each input, unless `run_options` name a thread.
    """
    return AgentTask(_bridge(runnable, run_options or {}), **options)


def as_application(
    runnable: RunnableLike, *, run_options: Mapping[str, Any] | None = None, **options: Unpack[ResultOptions]
) -> AgentApplication:
    """Return an agent, graph, chain or model as the application of a simulated conversation.

    It is given all messages so far.
    """
    return AgentApplication(AgentTask(_bridge(runnable, run_options or {}), **options))


def as_judge(
    runnable: RunnableLike, *, model: str | None = None, price_table: PriceTable | None = None
) -> AgentJudge:
    """Return a model, chain or agent as a judge."""
    return AgentJudge(_bridge(runnable, {}), model, price_table)


def _bridge(runnable: RunnableLike, run_options: Mapping[str, Any]) -> Bridge:
    check_stream_mode(run_options.get("stream_mode"))

    async def run(inputs: Any) -> AgentRun:
        target = made(runnable, "ainvoke")
        if not _takes_messages(target) or isinstance(inputs, Mapping):
            return await _run(target, inputs, run_options, None)
        given = inputs if isinstance(inputs, list) else [{"role": "user", "content": text_form(inputs) or ""}]
        return await _run_on(target, given, run_options)

    async def converse(conversation: ConversationTrajectory) -> AgentRun:
        target = made(runnable, "ainvoke")
        messages = conversation.to_messages("langchain")
        if _takes_messages(target):
            return await _run_on(target, messages, run_options)
        return await _run(target, messages, run_options, None)

    return Bridge(identity=_identity(runnable), run=run, converse=converse)


async def _run_on(target: Any, messages: Sequence[Any], run_options: Mapping[str, Any]) -> AgentRun:
    """Run a graph on messages; the last one has an id, by which what is new in its state is found."""
    theirs = require("langchain_core.messages", EXTRA).convert_to_messages(messages)
    mark = theirs[-1].id = theirs[-1].id or str(uuid.uuid4())
    return await _run(target, {"messages": theirs}, run_options, mark)


async def _run(target: Any, given: Any, run_options: Mapping[str, Any], mark: str | None) -> AgentRun:
    watch = RunWatch(mark, of_models=not _takes_messages(target))
    options = watch.options(target, _options(target, run_options))

    def so_far() -> tuple[AgentTrace, CallMetrics | None]:
        done = watch.messages()
        return to_agent_trace(done), _usage(done)

    keep_so_far(so_far)
    try:
        result = await target.ainvoke(given, **options)
        came = _read_records(result) if _are_records(target, options, result) else _read(result, mark)
    except Exception as error:
        came = AgentRun.of_failure(error, *so_far())
    tools = describe_tools(to_tool_definitions, target)
    return replace(came, tools=tools if tools or _takes_messages(target) else None)


def _options(target: Any, run_options: Mapping[str, Any]) -> dict[str, Any]:
    if getattr(target, "checkpointer", None) in (None, False):
        return dict(run_options)
    config = dict(run_options.get("config") or {})
    config["configurable"] = {"thread_id": str(uuid.uuid4()), **(config.get("configurable") or {})}
    return {**run_options, "config": config}


def _takes_messages(target: Any) -> bool:
    return "messages" in (getattr(target, "channels", None) or ())


def _are_records(target: Any, options: Mapping[str, Any], result: Any) -> bool:
    """Say whether a list of maps is the output of a chain, and not what a graph streamed or messages."""
    if hasattr(target, "channels") or "stream_mode" in options or not isinstance(result, list):
        return False
    return all(isinstance(each, Mapping) and not each.keys() & {"type", "role"} for each in result)


def _read_records(records: list[Any]) -> AgentRun:
    return AgentRun(trace=TraceBuilder().trace(text_form(records)), output=records)


def _read(result: Any, mark: str | None) -> AgentRun:
    result = _since(read_stream(result), mark)
    messages = to_messages(result)
    structured = result.get("structured_response") if isinstance(result, Mapping) else None
    return AgentRun(
        trace=to_agent_trace(result),
        output=structured if structured is not None or messages else _answer(result),
        usage=_usage(messages),
        documents=_documents(result, messages),
        hint='under "context" or "source_documents", or as the artifact of a tool',
    )


def _since(result: Any, mark: str | None) -> Any:
    """Return a state with only the messages after the one of this id, where it is among them."""
    messages = to_messages(result)
    place = next((place for place, each in enumerate(messages) if mark and get(each, "id") == mark), None)
    return result if place is None else {**result, "messages": messages[place + 1 :]}


def _answer(result: Any) -> Any:
    if isinstance(result, Mapping):
        found = next((result[key] for key in _ANSWERS if result.get(key) is not None), None)
        if found is None:
            found = result.get("structured_response")
        if found is None and "messages" not in result:
            return dict(result)
        return text_of(get(found, "content")) if get(found, "type") == "ai" else found
    return None if to_messages(result) or isinstance(result, list) else result


def _documents(result: Any, messages: Iterable[Any]) -> tuple[Any, ...] | None:
    if isinstance(result, Mapping):
        for key in _SOURCES:
            if isinstance(result.get(key), list | tuple):
                return tuple(result[key])
    artifacts = [get(message, "artifact") for message in messages if get(message, "type") == "tool"]
    found = [each for each in artifacts if isinstance(each, list | tuple)]
    return tuple(document for documents in found for document in documents) if found else None


def _answering_tools(result: Any, messages: Sequence[Any]) -> frozenset[str]:
    """Return the names of the tools by which a model gave the structured answer of a state."""
    answer = result.get("structured_response") if isinstance(result, Mapping) else None
    asked = [message for message in messages if get(message, "tool_calls")]
    if answer is None or not asked:
        return frozenset()
    said = {get(each, "tool_call_id"): get(each, "content") for each in messages}
    return frozenset(
        get(call, "name")
        for call in get(asked[-1], "tool_calls")
        if is_answer_call(get(call, "name"), get(call, "args"), answer)
        or str(said.get(get(call, "id"))).startswith(_STRUCTURED)
    )


_STRUCTURED: Final = "Returning structured response: "
"""What LangChain answers the call by which a model gives its structured answer, if not told otherwise."""


def _read_message(builder: TraceBuilder, message: Any, answering: Container[str]) -> None:
    reader = _READERS.get(get(message, "type", "role", default=""))
    if reader is not None:
        reader(builder, message, answering)


def _read_ai(builder: TraceBuilder, message: Any, answering: Container[str]) -> None:
    builder.turn()
    content = get(message, "content")
    for part in content if isinstance(content, list) else ():
        if get(part, "type") in ("reasoning", "thinking"):
            builder.think(get(part, "reasoning", "thinking"))
    builder.say(text_of(content))
    for call in (*get(message, "tool_calls", default=()), *get(message, "invalid_tool_calls", default=())):
        if get(call, "name") not in answering:
            builder.call(get(call, "name"), get(call, "args"), get(call, "id"))


def _read_tool(builder: TraceBuilder, message: Any, answering: Container[str]) -> None:
    failed = get(message, "status") == "error"
    builder.result(get(message, "tool_call_id"), get(message, "content"), error=failed)


_READERS: Final[dict[str, Callable[[TraceBuilder, Any, Container[str]], None]]] = {
    "ai": _read_ai,
    "AIMessageChunk": _read_ai,
    "assistant": _read_ai,
    "tool": _read_tool,
}


def _read_step(builder: TraceBuilder, action: Any, observation: Any) -> None:
    """Read a step of an older agent: an action, and what came of it."""
    tool_input = get(action, "tool_input")
    arguments = {"input": tool_input} if isinstance(tool_input, str) else tool_input
    builder.answered_call(get(action, "tool"), arguments, observation, call_id=get(action, "tool_call_id"))


def _plain(message: Any) -> Mapping[str, Any]:
    """Return a message as a map that conversations are read from."""
    if isinstance(message, Mapping):
        return message
    keys = ("type", "content", "tool_calls", "tool_call_id", "status", "name")
    return {"role": message.type, **{key: get(message, key) for key in keys if get(message, key) is not None}}


def _usage(messages: Iterable[Any]) -> CallMetrics | None:
    return summed(_usage_of(message) for message in messages)


def _usage_of(message: Any) -> CallMetrics | None:
    usage = get(message, "usage_metadata")
    if usage is None:
        return None
    return usage_of(
        get(usage, "input_tokens"),
        get(usage, "output_tokens"),
        cached=get(get(usage, "input_token_details"), "cache_read"),
        reasoning=get(get(usage, "output_token_details"), "reasoning"),
        model=get(get(message, "response_metadata"), "model_name", "model"),
    )


def _identity(runnable: RunnableLike) -> str:
    if not hasattr(runnable, "ainvoke"):
        return identity("langchain", runnable)
    name = getattr(runnable, "name", None) or type(runnable).__name__
    return identity("langchain", name, get(runnable, "model_name", "model"), _held_by(runnable))


def _held_by(runnable: Any) -> str:
    """Return what tells chains and graphs of one name apart: prompts and models, or functions of nodes."""
    nodes = get(runnable, "nodes")
    try:
        if isinstance(nodes, Mapping):
            return str(
                {
                    name: identity_of(_function(get(node, "bound", default=node)))
                    for name, node in nodes.items()
                }
            )
        return str(require("langchain_core.load", EXTRA).dumps(runnable))
    except Exception:  # a runnable may hold anything
        return type(runnable).__qualname__


def _function(bound: Any) -> Any:
    return get(bound, "func", "afunc", default=bound)


def _tools_in(runnable: Any, seen: set[int]) -> Iterator[Any]:
    """Yield the tools in a runnable: those of nodes of tools, and those that a model is bound to."""
    if id(runnable) in seen:
        return
    seen.add(id(runnable))
    yield from get(runnable, "tools_by_name", default={}).values()
    yield from get(get(runnable, "kwargs"), "tools", default=())
    yield from get(runnable, "tools", default=()) if hasattr(runnable, "return_intermediate_steps") else ()
    nodes = get(runnable, "nodes")
    within = list(nodes.values()) if isinstance(nodes, Mapping) else []
    steps = get(runnable, "steps")
    within += [*get(runnable, "subgraphs", default=()), *(steps if isinstance(steps, list) else ())]
    for each in (get(runnable, "bound"), *within):
        if each is not None:
            yield from _tools_in(each, seen)


def _definition(tool: Any) -> ToolDefinition:
    schema = getattr(tool, "tool_call_schema", None)
    if schema is None:
        return ToolDefinition.from_object(tool)
    tree = schema if isinstance(schema, Mapping) else schema.model_json_schema()
    known = {key: value for key, value in jsonable(tree).items() if key not in ("description", "title")}
    return ToolDefinition(tool.name, tool.description, input_schema=known)
