"""What LlamaIndex gives, read: the events and outputs of agents, the responses of engines and models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dokimos.core.agent import AgentTrace
from dokimos.core.metrics import CallMetrics
from dokimos.integrations.reading import TraceBuilder, get, summed, text_of, usage_of


def read_trace(result: Any) -> AgentTrace:
    """Return what a run did: from a list of events, an output, or a response."""
    builder = TraceBuilder()
    if isinstance(result, list | tuple):
        for event in result:
            _read_event(builder, event)
        output = _last_output(result)
        return builder.trace(text_in(output), agent=get(output, "current_agent_name"))
    _read_calls(builder, result)
    return builder.trace(text_in(result), agent=get(result, "current_agent_name"))


def text_in(result: Any) -> str | None:
    """Return the text of an output, a response, or a message in one of these."""
    for name in ("response", "message", "text", "blocks", "content"):
        found = get(result, name)
        if found is not None:
            return text_of(found) if isinstance(found, str | list | tuple) else text_in(found)
    return None


def documents_of(result: Any) -> tuple[Any, ...] | None:
    """Return the source nodes of a response, or those of engines and retrievers that were tools."""
    nodes = get(result, "source_nodes")
    if nodes:
        return tuple(nodes)
    given = [get(get(call, "tool_output"), "raw_output") for call in get(result, "tool_calls", default=())]
    found = [each for raw in given if (each := _nodes(raw)) is not None]
    if not found:
        return None if nodes is None else ()
    return tuple(node for each in found for node in each)


def usage_in(result: Any) -> CallMetrics | None:
    """Return the tokens of an output or a response, or of all outputs among events."""
    if isinstance(result, list | tuple):
        return summed(usage_in(event) for event in result if _is_output(event))
    raw = get(result, "raw")
    usage = get(raw, "usage", "usage_metadata", default=get(result, "additional_kwargs"))
    tokens_in = get(usage, "prompt_tokens", "input_tokens", "prompt_token_count")
    if tokens_in is None:
        return None
    return usage_of(
        tokens_in,
        get(usage, "completion_tokens", "output_tokens", "candidates_token_count"),
        cached=get(get(usage, "prompt_tokens_details", "input_tokens_details"), "cached_tokens"),
        reasoning=get(get(usage, "completion_tokens_details", "output_tokens_details"), "reasoning_tokens"),
        model=get(raw, "model"),
    )


def _is_output(event: Any) -> bool:
    """Tell the outputs of agents from other events, and from the pieces of a stream that look like them."""
    names = ("response", "current_agent_name")
    return all(get(event, name) is not None for name in names) and get(event, "delta") is None


def _last_output(events: Sequence[Any]) -> Any:
    """Return the output in the event that stops a handler, or else the last event that is one."""
    outputs = [get(event, "result", default=event) for event in events]
    return next((output for output in reversed(outputs) if _is_output(output)), None)


def _read_event(builder: TraceBuilder, event: Any) -> None:
    answer = get(event, "tool_output")
    if answer is not None:
        failed = get(answer, "is_error", default=False)
        builder.result(get(event, "tool_id"), _content(answer), error=failed)
    elif _is_output(event):
        builder.say(text_in(event))
        # The last output is given all calls with their results in the end; it made none of them.
        calls = [call for call in get(event, "tool_calls", default=()) if get(call, "tool_output") is None]
        if calls:
            builder.turn()
        for call in calls:
            builder.call(get(call, "tool_name"), get(call, "tool_kwargs"), get(call, "tool_id"))


def _read_calls(builder: TraceBuilder, result: Any) -> None:
    """Read calls that have their results beside them: those of an agent's output or a chat engine."""
    for call in get(result, "tool_calls", default=()):
        builder.turn()
        call_id = get(call, "tool_id")
        builder.call(get(call, "tool_name"), get(call, "tool_kwargs"), call_id)
        answer = get(call, "tool_output")
        if answer is not None:
            builder.result(call_id, _content(answer), error=get(answer, "is_error", default=False))
    for answer in get(result, "sources", default=()):
        if isinstance(get(answer, "raw_output"), list) and _nodes(get(answer, "raw_output")) is not None:
            continue  # what a chat engine itself retrieved, which no model called
        given = get(answer, "raw_input", default={})
        arguments = get(given, "kwargs") or given
        failed = get(answer, "is_error", default=False)
        builder.answered_call(get(answer, "tool_name"), arguments, _content(answer), error=failed)


def _content(tool_output: Any) -> str:
    blocks = get(tool_output, "blocks")
    return text_of(blocks) if blocks is not None else get(tool_output, "content", default="")


def _nodes(raw: Any) -> Sequence[Any] | None:
    nodes = raw if isinstance(raw, list) else get(raw, "source_nodes")
    if not isinstance(nodes, list) or not all(get(node, "node") for node in nodes):
        return None
    return nodes
