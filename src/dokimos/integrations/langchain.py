"""Agents, graphs, chains and models of LangChain and LangGraph.

An agent is a runnable (an agent, graph, chain or model), or a function without parameters that makes one for
each input. Text is the user's message where the runnable works on messages; anything else is given to it as
it is. `run_options` are those of `ainvoke`, such as `config`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, Unpack

from dokimos._core.agent import AgentTrace, ToolCall
from dokimos._core.conversation import ConversationTrajectory
from dokimos._core.extras import require
from dokimos._core.jsonable import jsonable, text_form
from dokimos._core.metrics import CallMetrics
from dokimos._core.tool_definition import ToolDefinition
from dokimos.integrations._agent_runs import AgentRun, AgentRunner, finish_run
from dokimos.integrations._agent_task import AgentTask, TaskOptions
from dokimos.integrations._framework import Framework, RunOptions, resolve_agent
from dokimos.integrations._framework_objects import FrameworkObject, get, join_text
from dokimos.integrations._langchain_callbacks import MessageRecorder
from dokimos.integrations._langchain_streams import check_stream_mode, parse_stream
from dokimos.integrations._token_usage import make_usage, sum_usage
from dokimos.integrations._tool_lists import describe_tools, merge_tools
from dokimos.integrations._trace_builder import TraceBuilder, is_answer_call
from dokimos.judges._judge_identity import identity_of

__all__ = [
    "as_application",
    "as_judge",
    "as_task",
    "run_and_trace",
    "run_and_trace_async",
    "to_agent_trace",
    "to_call_metrics",
    "to_messages",
    "to_tool_calls",
    "to_tool_definitions",
    "to_trajectory",
]

EXTRA: Final = "langchain"

_ANSWER_KEYS: Final = ("output", "answer", "result", "text", "response")
"""Under which keys chains have their answer."""
_SOURCE_KEYS: Final = ("context", "source_documents", "documents", "sources")


class LangChain(Framework):
    """LangChain and LangGraph."""

    name = "langchain"
    agent_methods: ClassVar[tuple[str, ...]] = ("ainvoke",)

    def to_agent_trace(self, result: object) -> AgentTrace:
        """Return what a run did: from the state of a graph, a list of messages, or the output of a chain or
        model.

        Messages are parsed turn by turn: the results of an assistant message's calls are those that follow it
        up to the next assistant message, so that an id that a later turn uses again is another call. The call
        by which a model gives a structured answer is the answer, and not a tool call.

        Takes what a graph streams too, as a list: states (`stream_mode="values"`) or updates (`"updates"`).

        Raises:
            IntegrationError: for a stream of anything else.
        """
        result = parse_stream(result)
        messages = to_messages(result)
        answer_tools = _find_answer_tools(result, messages)
        builder = TraceBuilder()
        for message in messages:
            _parse_message(builder, message, answer_tools)
        if isinstance(result, Mapping):
            for action, observation in result.get("intermediate_steps") or ():
                _parse_step(builder, action, observation)
        trace = builder.build()
        return trace if trace.final_response is not None else builder.build(text_form(_find_answer(result)))

    def to_tool_definitions(self, agent: object) -> tuple[ToolDefinition, ...]:
        """Return tools as definitions: a list of them, or those of an agent.

        An agent is a graph with a node of tools, also in a graph within it, or a model to which tools are
        bound.
        """
        if isinstance(agent, Sequence):
            return tuple(_define_tool(tool) for tool in agent)
        runnable = resolve_agent(agent, self.agent_methods)
        return merge_tools(_define_tool(tool) for tool in _iterate_tools(runnable, set()))

    def parse_usage(self, result: object) -> CallMetrics | None:
        return _sum_message_usage(to_messages(result))

    def parse_run(self, result: object, request_id: str | None = None) -> AgentRun:
        """Return a result as a run; of a state, without the messages up to the one of this id."""
        result = _skip_request(parse_stream(result), request_id)
        messages = to_messages(result)
        structured = result.get("structured_response") if isinstance(result, Mapping) else None
        return AgentRun(
            trace=self.to_agent_trace(result),
            output=structured if structured is not None or messages else _find_answer(result),
            usage=_sum_message_usage(messages),
            documents=_find_documents(result, messages),
            hint='under "context" or "source_documents", or as the artifact of a tool',
        )

    async def run_agent(self, agent: object, inputs: object, options: RunOptions) -> AgentRun:
        if not _takes_messages(agent) or isinstance(inputs, Mapping):
            return await self._invoke(agent, inputs, options)
        user = [{"role": "user", "content": text_form(inputs) or ""}]
        return await self._invoke_on_messages(agent, inputs if isinstance(inputs, list) else user, options)

    async def converse(
        self, agent: object, conversation: ConversationTrajectory, options: RunOptions
    ) -> AgentRun:
        messages = conversation.to_messages("langchain")
        if _takes_messages(agent):
            return await self._invoke_on_messages(agent, messages, options)
        return await self._invoke(agent, messages, options)

    async def _invoke_on_messages(
        self, agent: object, messages: Sequence[Any], options: RunOptions
    ) -> AgentRun:
        """Run a graph on messages; the id of the last one marks where new messages of its state begin."""
        converted = require("langchain_core.messages", EXTRA).convert_to_messages(messages)
        # The state of a graph repeats its input; ids survive that, positions and object identity do not.
        request_id = converted[-1].id = converted[-1].id or str(uuid.uuid4())
        return await self._invoke(agent, {"messages": converted}, options, request_id)

    async def _invoke(
        self, agent: FrameworkObject, inputs: object, run_options: RunOptions, request_id: str | None = None
    ) -> AgentRun:
        recorder = MessageRecorder(request_id, of_models=not _takes_messages(agent))
        options = recorder.add_to_options(agent, _with_thread(agent, run_options))

        def read_progress() -> tuple[AgentTrace, CallMetrics | None]:
            messages = recorder.messages()
            return self.to_agent_trace(messages), self.parse_usage(messages)

        async def attempt() -> AgentRun:
            result = await agent.ainvoke(inputs, **options)
            if _are_records(agent, options, result):
                return AgentRun(trace=TraceBuilder().build(text_form(result)), output=result)
            return self.parse_run(result, request_id)

        run = await finish_run(attempt(), read_progress)
        tools = describe_tools(self.to_tool_definitions, agent)
        return replace(run, tools=tools if tools or _takes_messages(agent) else None)

    def describe_agent(self, agent: object) -> Iterable[object]:
        name = getattr(agent, "name", None) or type(agent).__name__
        return name, get(agent, "model_name", "model"), _describe_content(agent)

    def runner(
        self, agent: object, run_options: RunOptions | None = None, *, model: str | None = None
    ) -> AgentRunner:
        check_stream_mode((run_options or {}).get("stream_mode"))
        return super().runner(agent, run_options, model=model)


_FRAMEWORK: Final = LangChain()
to_agent_trace: Final = _FRAMEWORK.to_agent_trace
to_tool_definitions: Final = _FRAMEWORK.to_tool_definitions
to_call_metrics: Final = _FRAMEWORK.to_call_metrics
run_and_trace: Final = _FRAMEWORK.run_and_trace
run_and_trace_async: Final = _FRAMEWORK.run_and_trace_async
as_application: Final = _FRAMEWORK.as_application
as_judge: Final = _FRAMEWORK.as_judge


def as_task(
    agent: object, *, run_options: RunOptions | None = None, **options: Unpack[TaskOptions]
) -> AgentTask:
    """Return a task that runs an agent, graph, chain or model on an input.

    A graph that works on messages is given the input as the user's message; anything else is given the input
    itself. A graph that remembers begins anew with each input, unless `run_options` name a thread.
    """
    return _FRAMEWORK.as_task(agent, run_options=run_options, **options)


def to_tool_calls(result: object) -> tuple[ToolCall, ...]:
    """Return the calls of a run, turn by turn, without the rest of the trace."""
    return to_agent_trace(result).tool_calls


def to_trajectory(result: object) -> ConversationTrajectory:
    """Return the messages of a state as a conversation, each reply with its tool calls."""
    return ConversationTrajectory.from_messages(_to_map(message) for message in to_messages(result))


def to_messages(result: object) -> list[Any]:
    """Return the messages in a result: those of a state, a list itself, or the one of a model."""
    result = parse_stream(result)
    if isinstance(result, Mapping):
        result = result.get("messages", result if "type" in result else ())
    if isinstance(result, list | tuple):
        return [message for message in result if not isinstance(message, str)]
    return [] if result is None or get(result, "type") is None else [result]


def _with_thread(target: object, run_options: RunOptions) -> dict[str, Any]:
    # A graph with a checkpointer remembers by thread: each input gets a new one, to begin without a memory.
    if getattr(target, "checkpointer", None) in (None, False):
        return dict(run_options)
    config = dict(run_options.get("config") or {})
    config["configurable"] = {"thread_id": str(uuid.uuid4()), **(config.get("configurable") or {})}
    return {**run_options, "config": config}


def _takes_messages(target: object) -> bool:
    # The channels of a graph are the keys of its state.
    return "messages" in (getattr(target, "channels", None) or ())


def _are_records(target: object, options: RunOptions, result: object) -> bool:
    """Say whether a list of maps is the output of a chain, and not what a graph streamed or messages."""
    if hasattr(target, "channels") or "stream_mode" in options or not isinstance(result, list):
        return False
    return all(isinstance(each, Mapping) and not each.keys() & {"type", "role"} for each in result)


def _skip_request(result: FrameworkObject, request_id: str | None) -> Any:
    """Return a state with only the messages after the one of this id, where it is among them."""
    messages = to_messages(result)
    index = next(
        (index for index, each in enumerate(messages) if request_id and get(each, "id") == request_id), None
    )
    return result if index is None else {**result, "messages": messages[index + 1 :]}


def _find_answer(result: object) -> Any:
    if isinstance(result, Mapping):
        answer = next((result[key] for key in _ANSWER_KEYS if result.get(key) is not None), None)
        if answer is None:
            answer = result.get("structured_response")
        if answer is None and "messages" not in result:
            return dict(result)
        return join_text(get(answer, "content")) if get(answer, "type") == "ai" else answer
    return None if to_messages(result) or isinstance(result, list) else result


def _find_documents(result: object, messages: Iterable[object]) -> tuple[Any, ...] | None:
    if isinstance(result, Mapping):
        for key in _SOURCE_KEYS:
            if isinstance(result.get(key), list | tuple):
                return tuple(result[key])
    artifacts = [get(message, "artifact") for message in messages if get(message, "type") == "tool"]
    retrieved = [each for each in artifacts if isinstance(each, list | tuple)]
    return tuple(document for documents in retrieved for document in documents) if retrieved else None


def _find_answer_tools(result: object, messages: Sequence[object]) -> frozenset[str]:
    """Return the names of the tools by which a model gave the structured answer of a state."""
    answer = result.get("structured_response") if isinstance(result, Mapping) else None
    requests = [message for message in messages if get(message, "tool_calls")]
    if answer is None or not requests:
        return frozenset()
    replies = {get(each, "tool_call_id"): get(each, "content") for each in messages}
    return frozenset(
        get(call, "name")
        for call in get(requests[-1], "tool_calls")
        if is_answer_call(get(call, "name"), get(call, "args"), answer)
        or str(replies.get(get(call, "id"))).startswith(_STRUCTURED_REPLY)
    )


_STRUCTURED_REPLY: Final = "Returning structured response: "
"""LangChain's result of the call by which a model gives its structured answer, by default."""


def _parse_message(builder: TraceBuilder, message: object, answer_tools: Container[str]) -> None:
    parse = _PARSERS.get(get(message, "type", "role", default=""))
    if parse is not None:
        parse(builder, message, answer_tools)


def _parse_ai(builder: TraceBuilder, message: object, answer_tools: Container[str]) -> None:
    builder.begin_turn()
    content = get(message, "content")
    for part in content if isinstance(content, list) else ():
        if get(part, "type") in ("reasoning", "thinking"):
            builder.add_reasoning(get(part, "reasoning", "thinking"))
    builder.add_text(join_text(content))
    for call in (*get(message, "tool_calls", default=()), *get(message, "invalid_tool_calls", default=())):
        if get(call, "name") not in answer_tools:
            builder.add_call(get(call, "name"), get(call, "args"), get(call, "id"))


def _parse_tool(builder: TraceBuilder, message: object, answer_tools: Container[str]) -> None:
    failed = get(message, "status") == "error"
    builder.add_result(get(message, "tool_call_id"), get(message, "content"), error=failed)


_PARSERS: Final[dict[str, Callable[[TraceBuilder, Any, Container[str]], None]]] = {
    "ai": _parse_ai,
    "AIMessageChunk": _parse_ai,
    "assistant": _parse_ai,
    "tool": _parse_tool,
}


def _parse_step(builder: TraceBuilder, action: object, observation: object) -> None:
    """Parse a step of an older agent: an action and its observation."""
    tool_input = get(action, "tool_input")
    arguments = {"input": tool_input} if isinstance(tool_input, str) else tool_input
    builder.add_call_with_result(
        get(action, "tool"), arguments, observation, call_id=get(action, "tool_call_id")
    )


def _to_map(message: FrameworkObject) -> Mapping[str, Any]:
    """Return a message as a map, of which conversations are built."""
    if isinstance(message, Mapping):
        return message
    keys = ("type", "content", "tool_calls", "tool_call_id", "status", "name")
    return {"role": message.type, **{key: get(message, key) for key in keys if get(message, key) is not None}}


def _sum_message_usage(messages: Iterable[object]) -> CallMetrics | None:
    return sum_usage(_parse_usage(message) for message in messages)


def _parse_usage(message: object) -> CallMetrics | None:
    usage = get(message, "usage_metadata")
    if usage is None:
        return None
    return make_usage(
        get(usage, "input_tokens"),
        get(usage, "output_tokens"),
        cached=get(get(usage, "input_token_details"), "cache_read"),
        reasoning=get(get(usage, "output_token_details"), "reasoning"),
        model=get(get(message, "response_metadata"), "model_name", "model"),
    )


def _describe_content(runnable: object) -> str:
    """Return what distinguishes chains and graphs of one name: prompts and models, or functions of nodes."""
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


def _function(bound: object) -> Any:
    return get(bound, "func", "afunc", default=bound)


def _iterate_tools(runnable: object, seen: set[int]) -> Iterator[Any]:
    """Yield the tools in a runnable: those of nodes of tools, and those that a model is bound to."""
    if id(runnable) in seen:
        return
    seen.add(id(runnable))
    yield from get(runnable, "tools_by_name", default={}).values()
    yield from get(get(runnable, "kwargs"), "tools", default=())
    # An AgentExecutor of older versions, told apart by an option that only it has.
    yield from get(runnable, "tools", default=()) if hasattr(runnable, "return_intermediate_steps") else ()
    nodes = get(runnable, "nodes")
    within = list(nodes.values()) if isinstance(nodes, Mapping) else []
    steps = get(runnable, "steps")
    within += [*get(runnable, "subgraphs", default=()), *(steps if isinstance(steps, list) else ())]
    for each in (get(runnable, "bound"), *within):
        if each is not None:
            yield from _iterate_tools(each, seen)


def _define_tool(tool: FrameworkObject) -> ToolDefinition:
    schema = getattr(tool, "tool_call_schema", None)
    if schema is None:
        return ToolDefinition.from_object(tool)
    tree = schema if isinstance(schema, Mapping) else schema.model_json_schema()
    plain_schema = {
        key: value for key, value in jsonable(tree).items() if key not in ("description", "title")
    }
    return ToolDefinition(tool.name, tool.description, input_schema=plain_schema)
