"""Normalizes attributes of Vercel's AI SDK up to version 6; later versions write the GenAI conventions.

Source: the section "Collected data" of the SDK's page on telemetry.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from dokimos._core.json_object import parse_if_container
from dokimos.traces._attributes import Attributes, first_value

OPERATION: Final = "ai.operationId"
"""What spans of every version have since telemetry was added."""

_SAME: Final = {
    "ai.toolCall.name": "gen_ai.tool.name",
    "ai.toolCall.id": "gen_ai.tool.call.id",
    "ai.toolCall.args": "gen_ai.tool.call.arguments",
    "ai.toolCall.result": "gen_ai.tool.call.result",
    "ai.prompt.messages": "gen_ai.input.messages",
    "ai.prompt.tools": "gen_ai.tool.definitions",
}
_TEXT: Final = ("ai.response.text", "ai.result.text", "ai.response.object", "ai.result.object")
_CALLS: Final = ("ai.response.toolCalls", "ai.result.toolCalls")


def normalize_attributes(attributes: Attributes) -> Attributes:
    """Return the attributes of a span of the AI SDK, with its content under the names of the conventions."""
    renamed = {new: attributes[old] for old, new in _SAME.items() if old in attributes}
    return {**dict(_prompt(attributes)), **renamed, **dict(_response(attributes)), **attributes}


def _prompt(attributes: Attributes) -> Iterator[tuple[str, Any]]:
    """Yield the input of the outer span: `{"system": ..., "prompt" or "messages": ...}` as JSON text."""
    prompt = parse_if_container(attributes.get("ai.prompt"))
    if not isinstance(prompt, dict):
        return
    if prompt.get("system"):
        yield "gen_ai.system_instructions", prompt["system"]
    yield "gen_ai.input.messages", prompt.get("messages") or prompt.get("prompt")


def _response(attributes: Attributes) -> Iterator[tuple[str, Any]]:
    """Yield the answer as one message; nothing where outputs were not recorded."""
    texts = [attributes[key] for key in _TEXT if isinstance(attributes.get(key), str)]
    calls = parse_if_container(first_value(attributes, _CALLS))
    calls = [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    if not texts and not calls:
        return
    text = next((text for text in texts if text), "")
    parts: list[dict[str, Any]] = [{**call, "type": "tool-call"} for call in calls]
    reasoning = attributes.get("ai.response.reasoning")
    if reasoning:
        parts.insert(0, {"type": "reasoning", "text": reasoning})
    if text and parts:
        parts.insert(0, {"type": "text", "text": text})
    yield "gen_ai.output.messages", [{"role": "assistant", "content": parts or text}]
