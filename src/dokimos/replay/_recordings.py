"""Recordings of the calls of one trace: from its spans to JSON in the metadata of an item, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dokimos._core.agent import ToolCall
from dokimos._core.example import Example
from dokimos._core.jsonable import jsonable, text_form
from dokimos._core.keys import CALL_ERROR, OUTPUT, TOOL_CALLS
from dokimos._core.test_case import EvalTestCase
from dokimos._core.tool_definition import ToolDefinition
from dokimos._messages.neutral import NeutralCall, NeutralMessage, format_result
from dokimos.errors import DatasetError
from dokimos.traces import Span, SpanContent, SpanRole, SpanTree, derive_text, parse_span, to_examples

RECORDED: Final = "recorded"
"""In the metadata of an item: what `record_calls` returns."""
MODEL_CALLS: Final = "modelCalls"
TOOL_SETS: Final = "toolSets"
CONTINUES: Final = "continues"
"""In a request: the earlier call whose messages it begins with. Each call of an agent repeats its history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedModelCall:
    """A call of a model: what it was sent and what it answered."""

    index: int
    messages: Sequence[Mapping[str, Any]]
    """As OpenAI's Chat Completions have them."""
    tools: Sequence[ToolDefinition] | None
    """None where nobody recorded which tools were offered."""
    answer: Mapping[str, Any] | None
    """The message of the assistant, None where the call failed or its answer was not recorded."""
    error: str | None
    model: str | None
    usage: tuple[int | None, int | None]
    """Tokens in and out."""

    @property
    def name(self) -> str:
        return f"model call {self.index + 1}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recordings:
    """What one trace recorded."""

    model_calls: tuple[RecordedModelCall, ...]
    tool_calls: tuple[ToolCall, ...]


def record_calls(spans: Iterable[Span]) -> dict[str, Any]:
    """Return the answers and the calls in the spans of one trace, for the metadata of an example.

    `Example.of(question, recorded=record_calls(spans))` is an example that `Replay` takes. The result is
    JSON: "output", "toolCalls", "modelCalls" with request and response, and "toolSets" with the tools that
    models were offered.

    Example:
        >>> from dokimos.traces import Span
        >>> chat = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": '[{"role": "assistant", '
        ...         '"parts": [{"type": "text", "content": "Rome"}]}]'}
        >>> record_calls([Span("t", "1", name="chat", attributes=chat)])["modelCalls"][0]["response"]
        {'role': 'assistant', 'content': 'Rome'}
    """
    ordered = sorted(spans, key=lambda span: (span.start_ns or 0, span.end_ns or 0))
    example = next(iter(to_examples(ordered)), None)
    outputs = {} if example is None else dict(example.actual_outputs or {})
    tool_sets: list[Any] = []
    histories: list[list[dict[str, Any]]] = []
    calls = [_dump_call(span, content, tool_sets, histories) for span, content in _find_model_calls(ordered)]
    return {
        OUTPUT: jsonable(outputs.get(OUTPUT)),
        TOOL_CALLS: jsonable(outputs.get(TOOL_CALLS, [])),
        MODEL_CALLS: calls,
        TOOL_SETS: tool_sets,
    }


def read_recordings(source: Example | EvalTestCase | Mapping[str, Any]) -> Recordings:
    """Read what an example, a case, an item's JSON or its metadata has under "recorded".

    Raises:
        DatasetError: There is nothing, or it cannot be read.
    """
    metadata: Any = source if isinstance(source, Mapping) else source.metadata
    metadata = metadata.get("metadata", metadata)
    recorded = metadata.get(RECORDED) if isinstance(metadata, Mapping) else None
    if not isinstance(recorded, Mapping) or MODEL_CALLS not in recorded:
        which = getattr(source, "id", None)
        raise DatasetError(
            f"{'The example' if which is None else f'The example {which!r}'} has no recordings to replay. "
            'They are under "recorded" in the metadata of items that were made of traces, and '
            "record_calls(spans) makes them."
        )
    try:
        return Recordings(
            model_calls=tuple(_load_calls(recorded[MODEL_CALLS], recorded.get(TOOL_SETS) or [])),
            tool_calls=tuple(map(ToolCall.from_map, recorded.get(TOOL_CALLS) or ())),
        )
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise DatasetError(
            f'The recordings under "recorded" in the metadata cannot be read: {error}'
        ) from error


def _find_model_calls(spans: Sequence[Span]) -> Iterator[tuple[Span, SpanContent]]:
    """Yield each call once: a framework and the client that it uses may both have recorded it."""
    tree = SpanTree(spans)
    models = {span.span_id: content for span in spans if (content := parse_span(span)).role is SpanRole.MODEL}
    for span in spans:
        if span.span_id in models and not any(above.span_id in models for above in tree.ancestors(span)):
            yield span, models[span.span_id]


def _dump_call(
    span: Span, content: SpanContent, tool_sets: list[Any], histories: list[list[dict[str, Any]]]
) -> dict[str, Any]:
    question, text = derive_text(span)
    inputs = content.inputs or (() if question is None else (NeutralMessage("user", question),))
    outputs = content.outputs or (() if text is None else (NeutralMessage("assistant", text),))
    messages = [to_chat_message(message) for message in inputs]
    answer = next((to_chat_message(each) for each in outputs if each.role == "assistant"), None)
    request: dict[str, Any] = {"messages": messages}
    earlier = _find_history(messages, histories)
    if earlier is not None:
        request = {CONTINUES: earlier, "messages": messages[len(histories[earlier]) :]}
    histories.append(messages)
    tools = jsonable(content.tools)
    if tools:
        if tools not in tool_sets:
            tool_sets.append(tools)
        request["tools"] = tool_sets.index(tools)
    usage = content.usage
    return {
        "spanId": span.span_id,
        "model": usage.model,
        "request": request,
        "response": answer,
        "error": content.error,
        "tokensIn": usage.tokens_in,
        "tokensOut": usage.tokens_out,
    }


def _find_history(messages: list[dict[str, Any]], histories: list[list[dict[str, Any]]]) -> int | None:
    """Return the latest call that was sent the beginning of these messages."""
    return next(
        (
            index
            for index in range(len(histories) - 1, -1, -1)
            if histories[index] and messages[: len(histories[index])] == histories[index]
        ),
        None,
    )


def to_chat_message(message: NeutralMessage) -> dict[str, Any]:
    """Return a message as OpenAI's Chat Completions have it."""
    if message.result is not None:
        result = message.result
        return {"role": "tool", "tool_call_id": result.id, "content": format_result(jsonable(result.value))}
    chat: dict[str, Any] = {"role": message.role, "content": message.text or None}
    if message.calls:
        chat["tool_calls"] = [_to_chat_call(call) for call in message.calls]
    return chat


def _to_chat_call(call: NeutralCall) -> dict[str, Any]:
    arguments = call.arguments
    text = arguments if isinstance(arguments, str) else text_form(jsonable(arguments or {}))
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": text}}


def _load_calls(calls: Sequence[Mapping[str, Any]], tool_sets: Sequence[Any]) -> Iterable[RecordedModelCall]:
    histories: list[list[Mapping[str, Any]]] = []
    sets = [[ToolDefinition.from_map(tool) for tool in tools] for tools in tool_sets]
    for index, call in enumerate(calls):
        request = call["request"]
        earlier = request.get(CONTINUES)
        histories.append([*([] if earlier is None else histories[earlier]), *request["messages"]])
        place = request.get("tools")
        yield RecordedModelCall(
            index=index,
            messages=histories[index],
            tools=None if place is None else sets[place],
            answer=call.get("response"),
            error=call.get("error"),
            model=call.get("model"),
            usage=(call.get("tokensIn"), call.get("tokensOut")),
        )


def failure_of(call: ToolCall) -> str | None:
    """Return why a recorded call of a tool failed, None where it did not."""
    error = call.metadata.get(CALL_ERROR)
    if not error:
        return None
    return error if isinstance(error, str) else call.result or "the tool failed"
