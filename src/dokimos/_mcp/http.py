"""The protocol over HTTP ("streamable HTTP"): each message is a POST of its own.

A client is told a session, by which it can cancel its calls; nothing of it is kept between them.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from dokimos._mcp.open_calls import SESSION, Client, OpenCalls, client_of
from dokimos._mcp.protocol import (
    INVALID_REQUEST,
    REQUEST_CANCELLED,
    VERSIONS,
    Endpoint,
    Message,
    ProtocolError,
    encode_message,
    error_reply,
    is_request,
    parse_message,
)

MOST_BYTES: Final = 4 * 2**20
PATH: Final = "/mcp"
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_PING_SECONDS: Final = 15.0
"""How long a call may be silent until a comment shows proxies that it goes on."""
_JSON: Final = b"application/json"
_STREAM: Final = b"text/event-stream"

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = Mapping[bytes, bytes]


class HttpRefusal(Exception):
    """A request that is refused before its message is read."""

    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.headers = headers or {}


@dataclass(frozen=True, slots=True)
class Guard:
    """Who may send messages to an endpoint of its own; mounted at a server, that server decides."""

    key: str | None = None
    """The bearer token that is asked for, None for none."""
    hosts: tuple[str, ...] = LOOPBACK
    """Names by which the endpoint may be reached, empty for any: against DNS rebinding."""

    def check(self, headers: Headers) -> None:
        """Raise `HttpRefusal` for a host, a page or a key that is not let in."""
        host = _host_of(f"//{headers.get(b'host', b'').decode('latin-1')}")
        if self.hosts and host not in self.hosts:
            raise HttpRefusal(421, f"This endpoint is not reached by the name {host!r:.80}.")
        if not is_same_site(headers):
            raise HttpRefusal(403, "Pages of other sites may not call this endpoint.")
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        if self.key is None:
            return
        if scheme.lower() != b"bearer" or not hmac.compare_digest(token.strip(), self.key.encode()):
            raise HttpRefusal(401, "Invalid or missing key", {"WWW-Authenticate": "Bearer"})


def is_same_site(headers: Headers) -> bool:
    """Whether a request comes from no web page, or from one of the same host and port."""
    origin = headers.get(b"origin")
    if origin is None:
        return True
    try:
        page = urlsplit(origin.decode("latin-1")).netloc
    except ValueError:
        return False
    return page != "" and page.lower() == headers.get(b"host", b"").decode("latin-1").lower()


def _host_of(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


EndpointOf = Callable[[Scope], Awaitable[Endpoint]]
"""Returns the endpoint for a request. Raises `HttpRefusal` where its caller is not let in."""


@dataclass(frozen=True, slots=True)
class McpApp:
    """An ASGI application that answers messages, whatever its path."""

    endpoint_of: EndpointOf
    calls: OpenCalls = field(default_factory=OpenCalls)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        client = client_of(dict(scope["headers"]))
        try:
            if scope["method"] == "DELETE" and client is not None:
                await self._end_session(scope, client, send)
                return
            message, endpoint = await self._read(scope, receive)
            if is_request(message):
                self.calls.check(client, message)
        except HttpRefusal as refusal:
            body = json.dumps({"error": str(refusal)}).encode()
            await _respond(send, refusal.status, body, refusal.headers)
        except ProtocolError as error:
            await _respond(send, 400, encode_message(error_reply(None, error)))
        else:
            if is_request(message):
                exchange = _Exchange(endpoint, message, receive, send, _accepts_stream(scope))
                self.calls.add(client, message, exchange.answering)
                await exchange.carry_out()
            else:
                self.calls.cancel(client, message)
                await _respond(send, 202, b"")

    async def _end_session(self, scope: Scope, client: Client, send: Send) -> None:
        await self.endpoint_of(scope)
        self.calls.cancel_all(client)
        await _respond(send, 204, b"")

    async def _read(self, scope: Scope, receive: Receive) -> tuple[Message, Endpoint]:
        headers = dict(scope["headers"])
        if scope["method"] != "POST":
            raise HttpRefusal(405, "Send messages with POST.", {"Allow": "POST"})
        endpoint = await self.endpoint_of(scope)
        if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != _JSON:
            raise HttpRefusal(415, "A message is sent as application/json.")
        message = parse_message(await _read_body(receive))
        version = headers.get(b"mcp-protocol-version", VERSIONS[0].encode()).decode("latin-1")
        if version not in VERSIONS:
            known = ", ".join(VERSIONS)
            raise ProtocolError(INVALID_REQUEST, f"Version {version[:40]!r} is not spoken here; {known} are.")
        return message, endpoint


async def _read_body(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        part = await receive()
        if part["type"] == "http.disconnect":
            raise HttpRefusal(400, "The message was cut short.")
        body += part.get("body", b"")
        if len(body) > MOST_BYTES:
            raise HttpRefusal(413, f"A message may have at most {MOST_BYTES:,} bytes.")
        if not part.get("more_body"):
            return bytes(body)


def _accepts_stream(scope: Scope) -> bool:
    return any(name == b"accept" and _STREAM in value for name, value in scope["headers"])


async def _respond(send: Send, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
    fields = [(b"content-type", _JSON)] if body else []
    fields += [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body})


class _Exchange:
    """A request, its answer, and the notifications before it.

    The answer is JSON where it comes at once, else a stream of events: its progress and comments keep clients
    and proxies from giving up. A call is cancelled when its client goes away: no other connection could fetch
    its answer. It begins when the exchange is made.
    """

    def __init__(
        self, endpoint: Endpoint, message: Message, receive: Receive, send: Send, accepts_stream: bool
    ) -> None:
        self._message = message
        self._receive = receive
        self._send = send
        self._accepts_stream = accepts_stream
        self._is_streaming = False
        self._notes: asyncio.Queue[Message] = asyncio.Queue()
        self.answering = asyncio.create_task(endpoint.answer(message, self._notes.put_nowait))

    async def carry_out(self) -> None:
        notes, answering = self._notes, self.answering
        leaving = asyncio.create_task(self._wait_for_disconnect())
        try:
            while not answering.done() and not leaving.done():
                await self._tell(notes, answering, leaving)
            if answering.done():
                while not notes.empty():
                    await self._stream(_event(notes.get_nowait()))
                await self._finish(
                    self._make_cancellation_reply() if answering.cancelled() else answering.result()
                )
        finally:
            for task in (answering, leaving):
                task.cancel()
            await asyncio.gather(answering, leaving, return_exceptions=True)

    def _make_cancellation_reply(self) -> Message:
        """Return what ends a request that its client does not wait for any more."""
        return error_reply(self._message["id"], ProtocolError(REQUEST_CANCELLED, "The call was cancelled."))

    async def _wait_for_disconnect(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            continue

    async def _tell(self, notes: asyncio.Queue[Message], *ends: asyncio.Task[Any]) -> None:
        """Wait for a note or an end, and send the note, or a comment where neither came for long."""
        noting = asyncio.create_task(notes.get())
        await asyncio.wait([noting, *ends], timeout=_PING_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if noting.done():
            await self._stream(_event(noting.result()))
            return
        noting.cancel()
        if not any(end.done() for end in ends):
            await self._stream(b": still working\n\n")

    async def _stream(self, event: bytes) -> None:
        if not self._accepts_stream:
            return
        if not self._is_streaming:
            self._is_streaming = True
            fields = [(b"content-type", _STREAM), (b"cache-control", b"no-store")]
            await self._send({"type": "http.response.start", "status": 200, "headers": fields})
        await self._send({"type": "http.response.body", "body": event, "more_body": True})

    async def _finish(self, answer: Message) -> None:
        if not self._is_streaming:
            begins = self._message["method"] == "initialize" and "result" in answer
            headers = {SESSION.decode(): secrets.token_hex(16)} if begins else None
            await _respond(self._send, 200, encode_message(answer), headers)
            return
        await self._stream(_event(answer))
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})


def _event(message: Message) -> bytes:
    return b"event: message\ndata: " + encode_message(message) + b"\n\n"


@dataclass(frozen=True, slots=True)
class StandaloneApp:
    """The endpoint at `/mcp`, alone in its process."""

    endpoint: Endpoint
    guard: Guard
    calls: OpenCalls = field(default_factory=OpenCalls)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].rstrip("/") != PATH:
            await _respond(send, 404, json.dumps({"error": f"Send messages to {PATH}."}).encode())
            return
        await McpApp(self._admit, self.calls)(scope, receive, send)

    async def _admit(self, scope: Scope) -> Endpoint:
        self.guard.check(dict(scope["headers"]))
        return self.endpoint


async def serve_http(app: StandaloneApp, host: str, port: int, on_start: Callable[[str], None]) -> None:
    """Serve until Ctrl-C or SIGTERM.

    Raises:
        MissingExtraError: where uvicorn is not installed.
        OSError: where the address cannot be bound to.
    """
    import socket

    from dokimos._core.extras import require

    uvicorn = require("uvicorn", extra="server")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family) as listener:
        shown = f"[{host}]" if ":" in host else host
        on_start(f"http://{shown}:{listener.getsockname()[1]}{PATH}")
        config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", ws="none")
        await uvicorn.Server(config).serve([listener])
