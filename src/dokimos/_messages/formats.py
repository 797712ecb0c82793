"""Format conversations as the plain messages that each provider or framework exchanges."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from dokimos._core.agent import ToolCall
from dokimos._core.conversation import Message, Role
from dokimos._core.jsonable import jsonable
from dokimos._core.keys import CALL_ERROR
from dokimos._messages.neutral import INVALID_JSON


class FormattedCall(NamedTuple):
    """A tool call ready to be written: with an id of its own and a result that is text."""

    id: str
    name: str
    arguments: dict[str, Any]
    result: str
    failed: bool
    invalid: str | None
    """What the model wrote in the place of arguments where that is not a JSON object."""

    @property
    def arguments_text(self) -> str:
        """The arguments where a form has them as text."""
        return json.dumps(self.arguments, ensure_ascii=False) if self.invalid is None else self.invalid

    @property
    def arguments_map(self) -> dict[str, Any]:
        """The arguments where a form takes nothing but a map."""
        return self.arguments if self.invalid is None else {INVALID_JSON: self.invalid}


Wire: TypeAlias = dict[str, Any]


class Dialect(NamedTuple):
    """How one provider writes texts, and tool calls with their results."""

    format_text: Callable[[Role, str], Iterable[Wire]]
    format_calls: Callable[[Sequence[FormattedCall]], Iterable[Wire]]


def format_messages(form: str, messages: Iterable[Message]) -> list[Wire]:
    """Format messages as a provider takes them. Raises `ValueError` for an unknown format."""
    dialect = _DIALECTS.get(form)
    if dialect is None:
        raise ValueError(f"Unknown message format {form!r}; the formats are {', '.join(_DIALECTS)}.")
    formatted: list[Wire] = []
    number = 0
    for message in messages:
        if message.tool_calls:
            calls = [_prepare_call(call, number + index) for index, call in enumerate(message.tool_calls, 1)]
            number += len(calls)
            formatted += dialect.format_calls(calls)
        if message.content or not message.tool_calls:
            formatted += dialect.format_text(message.role, message.content)
    return formatted


def _prepare_call(call: ToolCall, number: int) -> FormattedCall:
    # Ids are given anew: recorded ones may be missing or repeat from turn to turn, which providers refuse.
    arguments = jsonable(call.arguments)
    failed = bool(call.metadata.get(CALL_ERROR))
    return FormattedCall(
        f"call_{number}", call.name, arguments, call.result or "", failed, call.invalid_arguments
    )


def _format_openai_text(role: Role, text: str) -> Iterator[Wire]:
    yield {"role": str(role), "content": text}


def _format_openai_calls(calls: Sequence[FormattedCall]) -> Iterator[Wire]:
    entries = [
        {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments_text}}
        for c in calls
    ]
    yield {"role": "assistant", "content": None, "tool_calls": entries}
    for call in calls:
        yield {"role": "tool", "tool_call_id": call.id, "content": call.result}


def _format_responses_calls(calls: Sequence[FormattedCall]) -> Iterator[Wire]:
    for c in calls:
        yield {"type": "function_call", "call_id": c.id, "name": c.name, "arguments": c.arguments_text}
    for call in calls:
        yield {"type": "function_call_output", "call_id": call.id, "output": call.result}


def _format_anthropic_text(role: Role, text: str) -> Iterator[Wire]:
    # Anthropic, Gemini and Bedrock take the system prompt beside the messages (`system_prompt`).
    if role is not Role.SYSTEM:
        yield {"role": str(role), "content": text}


def _format_anthropic_calls(calls: Sequence[FormattedCall]) -> Iterator[Wire]:
    entries = [{"type": "tool_use", "id": c.id, "name": c.name, "input": c.arguments_map} for c in calls]
    yield {"role": "assistant", "content": entries}
    # All results of a turn in the one message that follows it, or the API refuses the calls.
    yield {"role": "user", "content": [_format_anthropic_result(call) for call in calls]}


def _format_anthropic_result(call: FormattedCall) -> Wire:
    result = {"type": "tool_result", "tool_use_id": call.id, "content": call.result}
    return {**result, "is_error": True} if call.failed else result


def _format_gemini_text(role: Role, text: str) -> Iterator[Wire]:
    if role is not Role.SYSTEM:
        yield {"role": "user" if role is Role.USER else "model", "parts": [{"text": text}]}


def _format_gemini_calls(calls: Sequence[FormattedCall]) -> Iterator[Wire]:
    entries = [{"functionCall": {"id": c.id, "name": c.name, "args": c.arguments_map}} for c in calls]
    yield {"role": "model", "parts": entries}
    # A response has to be an object; "output" and "error" are the keys that the API's reference gives it.
    answered = [
        {
            "functionResponse": {
                "id": c.id,
                "name": c.name,
                "response": {"error" if c.failed else "output": c.result},
            }
        }
        for c in calls
    ]
    yield {"role": "user", "parts": answered}


def _format_bedrock_text(role: Role, text: str) -> Iterator[Wire]:
    if role is not Role.SYSTEM:
        yield {"role": str(role), "content": [{"text": text}]}


def _format_bedrock_calls(calls: Sequence[FormattedCall]) -> Iterator[Wire]:
    entries = [{"toolUse": {"toolUseId": c.id, "name": c.name, "input": c.arguments_map}} for c in calls]
    yield {"role": "assistant", "content": entries}
    answered = [
        {
            "toolResult": {
                "toolUseId": c.id,
                "content": [{"text": c.result}],
                "status": "error" if c.failed else "success",
            }
        }
        for c in calls
    ]
    yield {"role": "user", "content": answered}


def _format_langchain_text(role: Role, text: str) -> Iterator[Wire]:
    yield {"role": {Role.USER: "human", Role.ASSISTANT: "ai"}.get(role, "system"), "content": text}


def _format_langchain_calls(calls: Sequence[FormattedCall]) -> Iterator[Wire]:
    entries = [{"type": "tool_call", "id": c.id, "name": c.name, "args": c.arguments_map} for c in calls]
    yield {"role": "ai", "content": "", "tool_calls": entries}
    for c in calls:
        answer = {"role": "tool", "tool_call_id": c.id, "name": c.name, "content": c.result}
        yield {**answer, "status": "error"} if c.failed else answer


def _format_otel_text(role: Role, text: str) -> Iterator[Wire]:
    yield {"role": str(role), "parts": [{"type": "text", "content": text}]}


def _format_otel_calls(calls: Sequence[FormattedCall]) -> Iterator[Wire]:
    entries = [
        {
            "type": "tool_call",
            "id": c.id,
            "name": c.name,
            "arguments": c.arguments if c.invalid is None else c.invalid,
        }
        for c in calls
    ]
    yield {"role": "assistant", "parts": entries}
    for call in calls:
        part = {"type": "tool_call_response", "id": call.id, "result": call.result}
        yield {"role": "tool", "parts": [part]}


_DIALECTS: Final[dict[str, Dialect]] = {
    "openai": Dialect(_format_openai_text, _format_openai_calls),
    "openai-responses": Dialect(_format_openai_text, _format_responses_calls),
    "anthropic": Dialect(_format_anthropic_text, _format_anthropic_calls),
    "gemini": Dialect(_format_gemini_text, _format_gemini_calls),
    "bedrock": Dialect(_format_bedrock_text, _format_bedrock_calls),
    "langchain": Dialect(_format_langchain_text, _format_langchain_calls),
    "otel": Dialect(_format_otel_text, _format_otel_calls),
}
