"""Recorded answers in the form of Anthropic's Messages, whole or streamed, and its requests as messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from dokimos._core.json_object import parse_if_container
from dokimos._messages.neutral import INVALID_JSON
from dokimos._messages.parts import extract_text


def read_request(body: Mapping[str, Any]) -> list[Any]:
    """Return the messages of a request, with the system message that stands beside them."""
    system = extract_text(body.get("system"))
    return [*([{"role": "system", "content": system}] if system else ()), *(body.get("messages") or ())]


def to_message(chat: Mapping[str, Any]) -> dict[str, Any]:
    """Return the reply to a request, made of one of Chat Completions."""
    message, usage = chat["choices"][0]["message"], chat["usage"]
    calls = message.get("tool_calls") or ()
    content: list[dict[str, Any]] = []
    if message["content"]:
        content.append({"type": "text", "text": message["content"]})
    for call in calls:
        function = call["function"]
        content.append(
            {
                "type": "tool_use",
                "id": call["id"],
                "name": function["name"],
                "input": _read_input(function["arguments"]),
            }
        )
    return {
        "id": f"msg_{chat['id']}",
        "type": "message",
        "role": "assistant",
        "model": chat["model"],
        "content": content,
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": usage["prompt_tokens"], "output_tokens": usage["completion_tokens"]},
    }


def _read_input(arguments: str) -> dict[str, Any]:
    """Return arguments as this form has them, which takes nothing but a map."""
    parsed = parse_if_container(arguments) if arguments.strip() else {}
    return parsed if isinstance(parsed, dict) else {INVALID_JSON: arguments}


def to_events(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Return a reply as the events of a stream."""
    usage = message["usage"]
    begun = {**message, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 0}}
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            empty: dict[str, Any] = {**block, "text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": usage["output_tokens"]}}
    yield {"type": "message_stop"}
