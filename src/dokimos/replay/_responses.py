"""Recorded answers in the form of OpenAI's Responses, whole or as a stream, and its requests as messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from dokimos._messages.parts import extract_text

_BESIDE: Final = ("conversation", "prompt")
"""What a request names that only the provider has: messages, or a prompt, that are stored there."""


def read_request(body: Mapping[str, Any]) -> list[Any]:
    """Return the messages of a request, those excepted that an earlier response stands for.

    Raises:
        ValueError: It names what only the provider has.
    """
    for key in _BESIDE:
        if body.get(key) is not None:
            raise ValueError(f"the request names a {key} that is stored with the provider")
    sent = body.get("input")
    items: list[Any] = [{"role": "user", "content": sent}] if isinstance(sent, str) else list(sent or ())
    if any(isinstance(item, Mapping) and item.get("type") == "item_reference" for item in items):
        raise ValueError("the request refers to an item that is stored with the provider")
    return items


def read_instructions(body: Mapping[str, Any]) -> list[Any]:
    """Return the system message of a request, which an earlier response does not hand on."""
    instructions = body.get("instructions")
    text = instructions if isinstance(instructions, str) else extract_text(instructions)
    return [{"role": "system", "content": text}] if text else []


def to_response(chat: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the reply to a request, made of one of Chat Completions."""
    message = chat["choices"][0]["message"]
    key, usage = chat["id"], chat["usage"]
    return {
        "id": f"resp_{key}",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "metadata": {},
        "model": chat["model"],
        "output": _list_output(message, key),
        "parallel_tool_calls": True,
        "previous_response_id": body.get("previous_response_id"),
        "temperature": body.get("temperature"),
        "tool_choice": body.get("tool_choice") or "auto",
        "tools": body.get("tools") or [],
        "top_p": body.get("top_p"),
        "usage": {
            "input_tokens": usage["prompt_tokens"],
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": usage["completion_tokens"],
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage["total_tokens"],
        },
    }


def _list_output(message: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    output: list[dict[str, Any]] = []
    calls: Sequence[Mapping[str, Any]] = message.get("tool_calls") or ()
    if message["content"] or not calls:
        part: dict[str, Any] = {"type": "output_text", "text": message["content"] or "", "annotations": []}
        said = {"type": "message", "id": f"msg_{key}", "status": "completed", "role": "assistant"}
        output.append({**said, "content": [part]})
    for place, call in enumerate(calls, 1):
        function = call["function"]
        output.append(
            {
                "type": "function_call",
                "id": f"fc_{key}_{place}",
                "call_id": call["id"],
                "status": "completed",
                "name": function["name"],
                "arguments": function["arguments"],
            }
        )
    return output


def to_events(response: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Return a reply as the events of a stream, each with its type and its number."""
    for number, event in enumerate(_list_events(response)):
        yield {**event, "sequence_number": number}


def _list_events(response: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for place, item in enumerate(response["output"]):
        shared = {"output_index": place, "item_id": item["id"]}
        if item["type"] == "message":
            empty = {**item, "status": "in_progress", "content": []}
            yield {"type": "response.output_item.added", "output_index": place, "item": empty}
            yield from _stream_text(item["content"][0], {**shared, "content_index": 0})
        else:
            empty = {**item, "status": "in_progress", "arguments": ""}
            yield {"type": "response.output_item.added", "output_index": place, "item": empty}
            arguments = item["arguments"]
            yield {"type": "response.function_call_arguments.delta", **shared, "delta": arguments}
            done = {"name": item["name"], "arguments": arguments}
            yield {"type": "response.function_call_arguments.done", **shared, **done}
        yield {"type": "response.output_item.done", "output_index": place, "item": item}
    yield {"type": "response.completed", "response": response}


def _stream_text(part: Mapping[str, Any], shared: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"type": "response.content_part.added", **shared, "part": {**part, "text": ""}}
    yield {"type": "response.output_text.delta", **shared, "delta": part["text"], "logprobs": []}
    yield {"type": "response.output_text.done", **shared, "text": part["text"], "logprobs": []}
    yield {"type": "response.content_part.done", **shared, "part": part}
