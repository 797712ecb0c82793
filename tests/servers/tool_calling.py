"""A model server that follows a script of tool calls and answers, whoever asks.

`with ToolCallingServer([Turn(calls=(("get_weather", {"city": "Paris"}),)), Turn("It is warm.")]) as server:`
answers the first request with a call and the second with text; `script` misbehaves before that. Protocols:
OpenAI Chat Completions and Responses, both streamed or not, and Anthropic Messages. Each answer costs 20
tokens in and 8 out.
"""

import asyncio
import importlib.util
import itertools
import json
import sys
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web


def _scripted():
    """Load the neighbour, whose machinery this server shares."""
    if "scripted" not in sys.modules:
        path = Path(__file__).with_name("scripted.py")
        spec = importlib.util.spec_from_file_location("scripted", path)
        module = sys.modules["scripted"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules["scripted"]


scripted = _scripted()


@dataclass
class Turn:
    """What the model says, or the tools that it calls."""

    text: str = ""
    calls: tuple[tuple[str, dict[str, Any] | str], ...] = ()
    ids: tuple[str, ...] = ()
    """Ids of the calls; made up where they are not given."""
    status: int = 200
    """Another one is an error in the place of an answer."""
    made: list[tuple[str, str, str]] = field(default_factory=list)
    """The calls as they are reported: id, name and arguments as JSON text."""


class ToolCallingServer(scripted.ScriptedServer):
    """Gives one turn of its script for each request; `DEFAULT_ANSWER` when the script is over."""

    def __init__(self, turns=(), **options):
        super().__init__(**options)
        self.turns = deque(turns)
        self.turn_for = None
        """Makes the turn for the body of a request, where the script depends on what is asked."""
        self._numbers = itertools.count(1)

    @property
    def base_url(self):
        return f"{self.url}/v1"

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        body = json.loads(await request.read())
        headers, query = dict(request.headers), dict(request.query)
        received = scripted.Received(request.path, body, headers, query, 0.0)
        self.received.append(received)
        mishap = self.script.popleft() if self.script else None
        if mishap is not None:
            await asyncio.sleep(mishap.delay)
            if mishap.cut or mishap.raw is not None or mishap.status != 200:
                return await scripted._misbehave(request, mishap)
        complaint = self._complaint(received)
        if complaint is not None:
            return scripted._error(request.path, complaint)
        turn = self._turn(body)
        if turn.status != 200:
            return web.json_response({"error": {"message": "the model is out of order"}}, status=turn.status)
        turn.made = [self._told(turn, place) for place in range(len(turn.calls))]
        for ending, (reply, stream) in PROTOCOLS.items():
            if request.path.endswith(ending):
                tree = reply(turn, f"answer-{len(self.received)}", body.get("model", "scripted"))
                if body.get("stream"):
                    return await _streamed(request, stream(tree))
                return web.json_response(tree)
        raise web.HTTPNotFound

    def _turn(self, body):
        if self.turn_for is not None:
            return self.turn_for(body)
        return self.turns.popleft() if self.turns else Turn(self.answer)

    def _told(self, turn, place):
        name, arguments = turn.calls[place]
        identity = turn.ids[place] if turn.ids else f"call_{next(self._numbers)}"
        return identity, name, arguments if isinstance(arguments, str) else json.dumps(arguments)


def chat(turn, identity, model):
    message = {"role": "assistant", "content": turn.text or None}
    if turn.made:
        message["tool_calls"] = [
            {"id": i, "type": "function", "function": {"name": name, "arguments": arguments}}
            for i, name, arguments in turn.made
        ]
    return {
        "id": identity,
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if turn.made else "stop"}],
        "usage": {
            "prompt_tokens": 20,
            "completion_tokens": 8,
            "total_tokens": 28,
            "prompt_tokens_details": {"cached_tokens": 4},
            "completion_tokens_details": {"reasoning_tokens": 3},
        },
    }


def chat_stream(tree):
    """Tell an answer in pieces: the role, text or calls in two pieces each, the end, the usage."""
    message = tree["choices"][0]["message"]
    deltas = [{"role": "assistant", "content": ""}]
    text = message["content"] or ""
    deltas += [{"content": piece} for piece in (text[: len(text) // 2], text[len(text) // 2 :]) if piece]
    for place, call in enumerate(message.get("tool_calls", ())):
        arguments = call["function"]["arguments"]
        middle = len(arguments) // 2
        head = {**call, "index": place, "function": {**call["function"], "arguments": arguments[:middle]}}
        deltas += [{"tool_calls": [head]}]
        deltas += [{"tool_calls": [{"index": place, "function": {"arguments": arguments[middle:]}}]}]
    shared = {"id": tree["id"], "object": "chat.completion.chunk", "created": 1, "model": tree["model"]}
    for delta in deltas:
        yield {**shared, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    finish = tree["choices"][0]["finish_reason"]
    yield {**shared, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}
    yield {**shared, "choices": [], "usage": tree["usage"]}
    yield "[DONE]"


def responses(turn, identity, model):
    output = [
        {"type": "function_call", "id": f"fc_{i}", "call_id": i, "name": name, "arguments": arguments,
         "status": "completed"}
        for i, name, arguments in turn.made
    ]  # fmt: skip
    if turn.text:
        content = [{"type": "output_text", "text": turn.text, "annotations": [], "logprobs": []}]
        output.append(
            {
                "type": "message",
                "id": f"msg_{identity}",
                "role": "assistant",
                "status": "completed",
                "content": content,
            }
        )
    return {
        "id": identity,
        "object": "response",
        "created_at": 1_700_000_000,
        "model": model,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "output": output,
        "usage": {
            "input_tokens": 20,
            "output_tokens": 8,
            "total_tokens": 28,
            "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 3},
        },
    }


def responses_stream(tree):
    begun = {**tree, "status": "in_progress", "output": [], "usage": None}
    events = [{"type": "response.created", "response": begun}]
    for place, item in enumerate(tree["output"]):
        events += [{"type": "response.output_item.added", "output_index": place, "item": item}]
        events += [{"type": "response.output_item.done", "output_index": place, "item": item}]
    events += [{"type": "response.completed", "response": tree}]
    for number, event in enumerate(events):
        yield {**event, "sequence_number": number}


def anthropic(turn, identity, model):
    content = [{"type": "text", "text": turn.text}] if turn.text else []
    content += [
        {"type": "tool_use", "id": i, "name": name, "input": json.loads(arguments)}
        for i, name, arguments in turn.made
    ]
    return {
        "id": identity,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": "tool_use" if turn.made else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 16,
            "cache_read_input_tokens": 4,
            "cache_creation_input_tokens": 0,
            "output_tokens": 8,
        },
    }


def _no_stream(tree):
    raise AssertionError(f"{tree['type']} is not streamed by this server")


PROTOCOLS = {
    "/chat/completions": (chat, chat_stream),
    "/responses": (responses, responses_stream),
    "/messages": (anthropic, _no_stream),
}


async def _streamed(request, events):
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for event in events:
        data = event if isinstance(event, str) else json.dumps(event)
        named = "" if isinstance(event, str) or "type" not in event else f"event: {event['type']}\n"
        await response.write(f"{named}data: {data}\n\n".encode())
    return response
