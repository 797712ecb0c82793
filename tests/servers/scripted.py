"""A server that speaks every protocol of a model and misbehaves on demand.

In a test, `with ScriptedServer() as server:` serves from a thread; `python tests/servers/scripted.py` prints
its URL and serves until it is stopped. Protocols: OpenAI Responses and Chat Completions, Azure OpenAI,
Anthropic Messages, Gemini, Mistral, Ollama's own.
"""

import argparse
import asyncio
import contextlib
import json
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any

from aiohttp import web

from dokimos._http import session
from dokimos._http.deadlines import Deadlines

DEFAULT_ANSWER = '{"verdict": "yes", "reason": "It says so."}'


@dataclass
class Received:
    """A request as the server saw it."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str]
    query: dict[str, str]
    at: float

    @property
    def prompt(self) -> str:
        if "contents" in self.body:
            return self.body["contents"][-1]["parts"][0]["text"]
        given = self.body.get("input", "")
        if isinstance(given, list):  # Responses with messages
            return given[-1]["content"][-1]["text"]
        messages = self.body.get("messages") or [{"content": given}]
        return messages[-1]["content"]


@dataclass
class Misbehaviour:
    """What happens instead of an answer."""

    status: int = 200
    message: str = "something is wrong"
    headers: dict[str, str] = field(default_factory=dict)
    raw: str | None = None
    """A body that replaces the usual one."""
    body: bytes | None = None
    """The same in bytes, such as compressed ones."""
    cut: bool = False
    """Close the connection in the middle of the answer."""
    delay: float = 0.0
    code: str | None = None


def status(code, message="something is wrong", *, error_code=None, **headers):
    named = {name.replace("_", "-"): str(value) for name, value in headers.items()}
    return Misbehaviour(status=code, message=message, headers=named, code=error_code)


def too_many(retry_after=None, *, as_date=False):
    if retry_after is None:
        return status(429, "Rate limit reached")
    value = formatdate(time.time() + retry_after, usegmt=True) if as_date else retry_after
    return status(429, "Rate limit reached", retry_after=value)


def cut():
    return Misbehaviour(cut=True)


def slow(seconds):
    return Misbehaviour(delay=seconds)


def raw(text):
    return Misbehaviour(raw=text)


def expire_once_received(monkeypatch, server, attempts=math.inf):
    """Let the time limits of requests pass as soon as the server has them, whatever seconds were asked for.

    With the real clock, a short limit passes before anything was sent where the machine is slow. Only the
    first so many attempts are limited. Returns the seconds that were asked for, one for each attempt.
    """
    before = len(server.received)
    looking, asked = [], []

    class Expiring(Deadlines):
        def add(self, block):
            asked.append(self._seconds)
            if len(looking) < attempts:
                place = before + len(looking) + 1
                looking.append(asyncio.create_task(self._expire_block(block, place)))
            return super().add(block)

        async def _expire_block(self, block, place):
            while len(server.received) < place:
                await asyncio.sleep(0.001)
            if block in self._blocks:
                self.remove(block)
                block.expire()

    monkeypatch.setattr(session, "Deadlines", Expiring)
    return asked


class RateLimit:
    """Allows so many requests in each second of the clock, or as a bucket that fills up steadily."""

    def __init__(self, per_second: float, *, bucket: bool = False) -> None:
        self.per_second = per_second
        self.bucket = bucket
        self.level = per_second
        self.stamp = time.monotonic()

    def refuse_for(self) -> float | None:
        """Return None where a request is allowed, else the seconds to wait."""
        now = time.monotonic()
        if self.bucket:
            self.level = min(self.per_second, self.level + (now - self.stamp) * self.per_second)
            self.stamp = now
        elif int(now) != int(self.stamp):
            self.level, self.stamp = self.per_second, now
        if self.level < 1:
            return (1 - self.level) / self.per_second if self.bucket else 1 - now % 1
        self.level -= 1
        return None


class ScriptedServer:
    """Answers every prompt with what `answer(prompt)` returns, except where the script says otherwise."""

    def __init__(
        self,
        answer: Callable[[str], str] | str = DEFAULT_ANSWER,
        *,
        refuses: tuple[str, ...] = (),
        latency: float = 0.0,
        rate_limit: RateLimit | None = None,
        key: str | None = None,
    ) -> None:
        self.answer = answer
        self.refuses = set(refuses)
        """Of `json_schema`, `tools`, `json_object`, `system`, and names of parameters."""
        self.latency = latency
        self.rate_limit = rate_limit
        self.key = key
        """The only key that is accepted, where one is asked for."""
        self.finish = "stop"
        """`length`, `filter` or `refusal` end answers otherwise."""
        self.answer_headers: dict[str, str] = {}
        self.script: deque[Misbehaviour] = deque()
        """What happens to the next requests, one each."""
        self.received: list[Received] = []
        self.refused = 0
        """Requests above the rate limit."""
        self.busiest = 0
        """The most requests at once."""
        self.connections = 0
        self.url = ""
        self._busy = 0
        self._loop = asyncio.new_event_loop()
        self._runner: web.ServerRunner | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self):
        started = threading.Event()
        self._thread = threading.Thread(
            target=self._serve, args=(started,), name="scripted-server", daemon=True
        )
        self._thread.start()
        assert started.wait(60)
        return self

    def __exit__(self, *exc):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    @property
    def prompts(self) -> list[str]:
        return [each.prompt for each in self.received]

    def then(self, *misbehaviours: Misbehaviour, times: int = 1) -> None:
        for _ in range(times):
            self.script.extend(misbehaviours)

    async def start(self, port: int = 0) -> None:
        self._runner = web.ServerRunner(web.Server(self._handle, access_log=None), shutdown_timeout=0.01)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        await site.start()
        host, bound = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{bound}"

    def _serve(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self.start())
        started.set()
        self._loop.run_forever()
        for transport in list(self._runner.server.connections):
            transport.force_close()
        self._loop.run_until_complete(self._runner.cleanup())
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                self._loop.run_until_complete(task)
        self._loop.close()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self._busy += 1
        self.busiest = max(self.busiest, self._busy)
        try:
            return await self._respond(request)
        finally:
            self._busy -= 1

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        body = json.loads(await request.read())
        received = Received(request.path, body, dict(request.headers), dict(request.query), time.monotonic())
        self.received.append(received)
        self.connections = max(self.connections, len(self._runner.server.connections))
        if self.rate_limit is not None and (wait := self.rate_limit.refuse_for()) is not None:
            self.refused += 1
            return _error(request.path, too_many(round(wait, 3)))
        mishap = self.script.popleft() if self.script else None
        await asyncio.sleep(self.latency + (mishap.delay if mishap else 0))
        if mishap is not None and (
            mishap.cut or mishap.raw is not None or mishap.body is not None or mishap.status != 200
        ):
            return await _misbehave(request, mishap)
        complaint = self._complaint(received)
        if complaint is not None:
            return _error(request.path, complaint)
        return web.json_response(self._reply(received), headers=self.answer_headers)

    def _complaint(self, received: Received) -> Misbehaviour | None:
        body = received.body
        given = received.headers.get("Authorization", "").removeprefix("Bearer ")
        named = (received.headers.get(name) for name in ("api-key", "x-api-key", "x-goog-api-key"))
        given = given or next(filter(None, named), "")
        if self.key is not None and given != self.key:
            return status(401, f"Incorrect API key provided: {given}.", error_code="invalid_api_key")
        for shape in used_shapes(body):
            if shape in self.refuses:
                return status(400, f"Invalid parameter: '{shape}' is not supported with this model.")
        config = body.get("generationConfig", {})
        for name in self.refuses & (body.keys() | body.get("options", {}).keys() | config.keys()):
            if body.get(name, config.get(name)) is not None:
                return status(400, f"Unsupported parameter: '{name}' is not supported with this model.")
        if "system" in self.refuses and any(m["role"] == "system" for m in body.get("messages", [])):
            return status(
                400, "Unsupported value: 'messages[0].role' does not support 'system' with this model."
            )
        return None

    def _reply(self, received: Received) -> dict[str, Any]:
        text = self.answer(received.prompt) if callable(self.answer) else self.answer
        for ending, build in REPLIES.items():
            if received.path.endswith(ending):
                return build(received.body, text, self.finish)
        raise web.HTTPNotFound


def used_shapes(body):
    """Name the means by which a request asks for JSON."""
    response_format = body.get("response_format") or body.get("text", {}).get("format") or {}
    output_config = body.get("output_config", {}).get("format", {})
    ollama = body.get("format")
    gemini = body.get("generationConfig", {})
    if "responseJsonSchema" in gemini:
        yield "json_schema"
    elif "responseMimeType" in gemini:
        yield "json_object"
    if "tools" in body:
        yield "tools"
    yield from (each["type"] for each in (response_format, output_config) if "type" in each)
    if isinstance(ollama, dict):
        yield "json_schema"
    elif ollama == "json":
        yield "json_object"


def chat_reply(body, text, finish):
    message = {"role": "assistant", "content": text}
    if "tools" in body:
        name = body["tools"][0]["function"]["name"]
        message = {"role": "assistant", "content": None}
        message["tool_calls"] = [
            {"id": "1", "type": "function", "function": {"name": name, "arguments": text}}
        ]
    if finish == "refusal":
        message = {"role": "assistant", "content": None, "refusal": "I cannot help with that."}
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": {"filter": "content_filter"}.get(finish, finish),
    }
    if body.get("logprobs"):
        choice["logprobs"] = {"content": logprobs_of(text)}
    return {
        "id": "chat-1",
        "created": 0,
        "object": "chat.completion",
        "model": "scripted",
        "choices": [choice],
        "usage": {
            "prompt_tokens": 20,
            "completion_tokens": 8,
            "total_tokens": 28,
            "prompt_tokens_details": {"cached_tokens": 4},
            "completion_tokens_details": {"reasoning_tokens": 3},
        },
    }


def responses_reply(body, text, finish):
    content = {"type": "output_text", "text": text, "annotations": []}
    if "message.output_text.logprobs" in body.get("include", ()):
        content["logprobs"] = logprobs_of(text)
    if finish == "refusal":
        content = {"type": "refusal", "refusal": "I cannot help with that."}
    item = {"type": "message", "role": "assistant", "content": [content]}
    if "tools" in body:
        item = {"type": "function_call", "name": body["tools"][0]["name"], "arguments": text}
    reason = {"length": "max_output_tokens", "filter": "content_filter"}.get(finish)
    return {
        "object": "response",
        "status": "completed" if reason is None else "incomplete",
        "incomplete_details": None if reason is None else {"reason": reason},
        "error": None,
        "output": [{"type": "reasoning", "summary": []}, item],
        "usage": {
            "input_tokens": 20,
            "output_tokens": 8,
            "input_tokens_details": {"cached_tokens": 4},
            "output_tokens_details": {"reasoning_tokens": 3},
        },
    }


def anthropic_reply(body, text, finish):
    content = {"type": "text", "text": text}
    if "tools" in body:
        content = {"type": "tool_use", "name": body["tools"][0]["name"], "input": json.loads(text)}
    return {
        "type": "message",
        "content": [content],
        "stop_reason": {"stop": "end_turn", "length": "max_tokens", "refusal": "refusal"}[finish],
        "usage": {"input_tokens": 16, "cache_read_input_tokens": 4, "output_tokens": 8},
    }


def gemini_reply(body, text, finish):
    config = body["generationConfig"]
    parts = [{"text": "The user wants a verdict.", "thought": True}, {"text": text}]
    if "tools" in body:
        name = body["tools"][0]["functionDeclarations"][0]["name"]
        parts = [{"functionCall": {"name": name, "args": json.loads(text)}}]
    candidate = {
        "content": {"role": "model", "parts": parts},
        "finishReason": {"stop": "STOP", "length": "MAX_TOKENS", "filter": "SAFETY"}[finish],
        "index": 0,
    }
    if config.get("responseLogprobs"):
        pairs = [{"token": each["token"], "logProbability": each["logprob"]} for each in logprobs_of(text)]
        top = [{"candidates": [pair]} for pair in pairs]
        candidate["logprobsResult"] = {"chosenCandidates": pairs, "topCandidates": top}
    usage = {
        "promptTokenCount": 20,
        "candidatesTokenCount": 5,
        "thoughtsTokenCount": 3,
        "cachedContentTokenCount": 4,
        "totalTokenCount": 28,
    }
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted"}


def ollama_reply(body, text, finish):
    reply = {
        "message": {"role": "assistant", "content": text},
        "done": True,
        "done_reason": finish,
        "prompt_eval_count": 20,
        "eval_count": 8,
    }
    return {**reply, "logprobs": logprobs_of(text)} if body.get("logprobs") else reply


def vector_of(text, dimensions):
    """A vector in which each word counts in one place."""
    vector = [0.01] * dimensions
    for word in text.lower().split():
        vector[sum(word.encode()) % dimensions] += 1.0
    return vector


def embeddings_reply(body, text, finish):
    vectors = [vector_of(each, body.get("dimensions", 16)) for each in body["input"]]
    data = [{"object": "embedding", "index": at, "embedding": each} for at, each in enumerate(vectors)]
    usage = {"prompt_tokens": 3 * len(vectors), "total_tokens": 3 * len(vectors)}
    return {"object": "list", "data": data[::-1], "model": "scripted", "usage": usage}


def ollama_embeddings_reply(body, text, finish):
    vectors = [vector_of(each, body.get("dimensions", 16)) for each in body["input"]]
    return {"model": "scripted", "embeddings": vectors, "prompt_eval_count": 3 * len(vectors)}


REPLIES = {
    "/embeddings": embeddings_reply,
    "/api/embed": ollama_embeddings_reply,
    "/chat/completions": chat_reply,
    "/responses": responses_reply,
    "/v1/messages": anthropic_reply,
    "/api/chat": ollama_reply,
    ":generateContent": gemini_reply,
}


def logprobs_of(text):
    return [
        {"token": token, "logprob": -0.1, "top_logprobs": [{"token": token, "logprob": -0.1}]}
        for token in text.split()
    ]


async def _misbehave(request, mishap):
    if mishap.cut:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"choices": [')
        request.transport.abort()
        return response
    if mishap.body is not None:
        headers = {"Content-Type": "application/json", **mishap.headers}
        return web.Response(status=mishap.status, body=mishap.body, headers=headers)
    if mishap.raw is not None:
        headers = {"Content-Type": "application/json", **mishap.headers}
        return web.Response(status=mishap.status, text=mishap.raw, headers=headers)
    return _error(request.path, mishap)


def _error(path, mishap):
    error: Any = {"message": mishap.message, "type": "invalid_request_error", "code": mishap.code}
    if path.endswith("/api/chat"):
        error = mishap.message
    tree = {"error": error}
    if path.endswith("/v1/messages"):
        tree = {"type": "error", "error": {"type": "invalid_request_error", "message": mishap.message}}
    if path.endswith(":generateContent"):
        tree = {"error": {"code": mishap.status, "message": mishap.message, "status": "INVALID_ARGUMENT"}}
    return web.json_response(tree, status=mishap.status, headers=mishap.headers)


async def main(options):
    limit = None if options.rate is None else RateLimit(options.rate, bucket=options.bucket)
    server = ScriptedServer(options.answer, latency=options.latency, rate_limit=limit)
    await server.start(options.port)
    print(server.url, flush=True)
    await asyncio.Event().wait()


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--answer", default=DEFAULT_ANSWER)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each answer")
    parser.add_argument("--rate", type=float, help="requests a second; above them comes 429")
    parser.add_argument("--bucket", action="store_true", help="let the rate fill up steadily")
    return parser.parse_args()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(parsed()))
