"""Recorded answers in the form of OpenAI's Chat Completions, whole or as a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dokimos.replay._recordings import RecordedModelCall


def to_chat_completion(call: RecordedModelCall, number: int, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the reply to a request.

    Args:
        number: How many replies there were before, which makes its ids unique.
    """
    answer = dict(call.answer or {})
    # Clients match results to calls by ids, which may not have been recorded.
    calls = [
        {**each, "id": each.get("id") or f"call_{number}_{place}"}
        for place, each in enumerate(answer.get("tool_calls") or (), 1)
    ]
    message: dict[str, Any] = {"role": "assistant", "content": answer.get("content")}
    if calls:
        message["tool_calls"] = calls
    tokens_in, tokens_out = (count or 0 for count in call.usage)
    return {
        "id": f"replay-{number}",
        "object": "chat.completion",
        "created": 0,
        "model": call.model or body.get("model") or "recorded",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
        "usage": {
            "prompt_tokens": tokens_in,
            "completion_tokens": tokens_out,
            "total_tokens": tokens_in + tokens_out,
        },
    }


def to_chunks(completion: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Return a reply as the chunks of a stream: the message as a whole, the end, the usage."""
    shared = {key: completion[key] for key in ("id", "created", "model")}
    shared["object"] = "chat.completion.chunk"
    (choice,) = completion["choices"]
    delta = dict(choice["message"])
    if "tool_calls" in delta:
        delta["tool_calls"] = [{**call, "index": place} for place, call in enumerate(delta["tool_calls"])]
    yield {**shared, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**shared, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}
    yield {**shared, "choices": [], "usage": completion["usage"]}
