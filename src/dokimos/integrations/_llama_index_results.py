"""Parses what LlamaIndex gives: events and outputs of agents, responses of engines and models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dokimos._core.agent import AgentTrace
from dokimos._core.metrics import CallMetrics
from dokimos.integrations._framework_objects import get, join_text
from dokimos.integrations._token_usage import make_usage, sum_usage
from dokimos.integrations._trace_builder import TraceBuilder


def parse_trace(result: object) -> AgentTrace:
    """Return what a run did: from a list of events, an output, or a response."""
    builder = TraceBuilder()
    if isinstance(result, list | tuple):
        for event in result:
            _parse_event(builder, event)
        output = _last_output(result)
        return builder.build(find_text(output), agent=get(output, "current_agent_name"))
    _parse_calls(builder, result)
    return builder.build(find_text(result), agent=get(result, "current_agent_name"))


def find_text(result: object) -> str | None:
    """Return the text of an output, a response, or a message in one of these."""
    for name in ("response", "message", "text", "blocks", "content"):
        content = get(result, name)
        if content is not None:
            return join_text(content) if isinstance(content, str | list | tuple) else find_text(content)
    return None


def find_documents(result: object) -> tuple[Any, ...] | None:
    """Return the source nodes of a response, or those of engines and retrievers that were tools."""
    nodes = get(result, "source_nodes")
    if nodes:
        return tuple(nodes)
    outputs = [get(get(call, "tool_output"), "raw_output") for call in get(result, "tool_calls", default=())]
    retrieved = [each for raw in outputs if (each := _nodes(raw)) is not None]
    if not retrieved:
        return None if nodes is None else ()
    return tuple(node for each in retrieved for node in each)


def parse_usage(result: object) -> CallMetrics | None:
    """Return the tokens of an output or a response, or of all outputs among events."""
    if isinstance(result, list | tuple):
        return sum_usage(parse_usage(event) for event in result if _is_output(event))
    raw = get(result, "raw")
    usage = get(raw, "usage", "usage_metadata", default=get(result, "additional_kwargs"))
    tokens_in = get(usage, "prompt_tokens", "input_tokens", "prompt_token_count")
    if tokens_in is None:
        return None
    return make_usage(
        tokens_in,
        get(usage, "completion_tokens", "output_tokens", "candidates_token_count"),
        cached=get(get(usage, "prompt_tokens_details", "input_tokens_details"), "cached_tokens"),
        reasoning=get(get(usage, "completion_tokens_details", "output_tokens_details"), "reasoning_tokens"),
        model=get(raw, "model"),
    )


def _is_output(event: object) -> bool:
    """Say whether an event is the output of an agent, and not a piece of a stream that looks like one."""
    names = ("response", "current_agent_name")
    return all(get(event, name) is not None for name in names) and get(event, "delta") is None


def _last_output(events: Sequence[Any]) -> Any:
    """Return the output in the event that stops a handler, or else the last event that is one."""
    outputs = [get(event, "result", default=event) for event in events]
    return next((output for output in reversed(outputs) if _is_output(output)), None)


def _parse_event(builder: TraceBuilder, event: object) -> None:
    answer = get(event, "tool_output")
    if answer is not None:
        failed = get(answer, "is_error", default=False)
        builder.add_result(get(event, "tool_id"), _content(answer), error=failed)
    elif _is_output(event):
        builder.add_text(find_text(event))
        # The last output is given all calls with their results in the end; it made none of them.
        calls = [call for call in get(event, "tool_calls", default=()) if get(call, "tool_output") is None]
        if calls:
            builder.begin_turn()
        for call in calls:
            builder.add_call(get(call, "tool_name"), get(call, "tool_kwargs"), get(call, "tool_id"))


def _parse_calls(builder: TraceBuilder, result: object) -> None:
    """Parse calls that have their results beside them: those of an agent's output or a chat engine."""
    for call in get(result, "tool_calls", default=()):
        builder.begin_turn()
        call_id = get(call, "tool_id")
        builder.add_call(get(call, "tool_name"), get(call, "tool_kwargs"), call_id)
        answer = get(call, "tool_output")
        if answer is not None:
            builder.add_result(call_id, _content(answer), error=get(answer, "is_error", default=False))
    for answer in get(result, "sources", default=()):
        if isinstance(get(answer, "raw_output"), list) and _nodes(get(answer, "raw_output")) is not None:
            continue  # what a chat engine itself retrieved, which no model called
        raw_input = get(answer, "raw_input", default={})
        arguments = get(raw_input, "kwargs") or raw_input
        failed = get(answer, "is_error", default=False)
        builder.add_call_with_result(get(answer, "tool_name"), arguments, _content(answer), error=failed)


def _content(tool_output: object) -> str:
    blocks = get(tool_output, "blocks")
    return join_text(blocks) if blocks is not None else get(tool_output, "content", default="")


def _nodes(raw: object) -> Sequence[Any] | None:
    nodes = raw if isinstance(raw, list) else get(raw, "source_nodes")
    if not isinstance(nodes, list) or not all(get(node, "node") for node in nodes):
        return None
    return nodes
