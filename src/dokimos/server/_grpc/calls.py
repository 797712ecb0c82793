"""A call of gRPC as a request to the application, and the answer as gRPC has it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import unquote

from starlette.types import ASGIApp, Message, Scope

from dokimos.server._api.traces.otlp_errors import PROTOBUF, decode_status
from dokimos.server._grpc.messages import unpack_message
from dokimos.server._services.errors import InvalidRequestError

_OWN_HEADERS: Final = frozenset(("host", "content-type", "content-length", "content-encoding"))
"""What the call itself says, whatever its metadata do."""
_TOO_LARGE: Final = 413
_RESOURCE_EXHAUSTED: Final = 8
NO_MESSAGE: Final = "The call ended before its message did, or the message is larger than the server takes."


@dataclass(frozen=True, slots=True)
class Answer:
    """What the application has answered."""

    status: int
    """Of HTTP."""
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> tuple[int, str]:
        """The code of gRPC and the message of an answer that is an error."""
        code, message = decode_status(self.body)
        # Exporters of gRPC know that name for a message over a limit; those of HTTP read the status.
        return (_RESOURCE_EXHAUSTED if self.status == _TOO_LARGE else code), message

    @property
    def retry_seconds(self) -> int | None:
        """After how many seconds to call again; None where that would not help."""
        text = self.headers.get("retry-after", "")
        return int(text) if text.isdecimal() else None


@dataclass(slots=True)
class Call:
    """A call on its way through the application.

    Its message is read when the route asks for the body: that of a caller who may not call never is.
    """

    method: str
    path: str
    metadata: Iterable[tuple[str, str | bytes]]
    peer: str
    """As gRPC writes it, such as `ipv4:127.0.0.1:50000`."""
    messages: AsyncIterator[bytes]
    places: asyncio.Semaphore
    """Of the messages that are received at a time, each of which gRPC keeps whole."""
    has_message: bool = False
    """Whether it has arrived: what is stored from then on is stored to its end."""
    _parts: Iterator[bytes] | None = None
    _is_read: bool = False
    _status: int = 500
    _headers: dict[str, str] = field(default_factory=dict)
    _body: bytearray = field(default_factory=bytearray)

    async def run(self, app: ASGIApp, host: str) -> Answer:
        """Return the application's answer; `host` is one that it allows."""
        await app(self._describe(host), self._receive, self._send)
        return Answer(self._status, self._headers, bytes(self._body))

    def _describe(self, host: str) -> Scope:
        headers = [(b"host", host.encode()), (b"content-type", PROTOBUF[0].encode())]
        for name, value in self.metadata:
            if name not in _OWN_HEADERS and isinstance(value, str):  # binary metadata are not headers
                headers.append((name.encode("latin-1", "replace"), value.encode("latin-1", "replace")))
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "2",
            "method": self.method,
            "scheme": "http",
            "path": self.path,
            "raw_path": self.path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": headers,
            "client": parse_peer(self.peer),
            "server": None,
        }

    async def _receive(self) -> Message:
        if self._is_read:
            await asyncio.Event().wait()  # a client that goes away has the call cancelled
        if self._parts is None:
            self._parts = iter(()) if self.method == "GET" else unpack_message(await self._read_message())
        part = next(self._parts, None)
        self._is_read = part is None
        return {"type": "http.request", "body": part or b"", "more_body": part is not None}

    async def _read_message(self) -> bytes:
        async with self.places:
            message = await anext(self.messages, None)
        if not isinstance(message, bytes):
            raise InvalidRequestError(NO_MESSAGE)
        self.has_message = True
        return message

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            fields: Any = message.get("headers", ())
            self._headers = {
                name.decode("latin-1").lower(): value.decode("latin-1") for name, value in fields
            }
        elif message["type"] == "http.response.body":
            self._body += message.get("body", b"")


def parse_peer(peer: str) -> tuple[str, int] | None:
    """Return address and port of a peer; None of one without them, such as a Unix socket."""
    kind, _, place = peer.partition(":")
    host, _, port = unquote(place).rpartition(":")
    if kind not in ("ipv4", "ipv6") or not port.isdecimal():
        return None
    host = host.strip("[]")
    try:
        mapped = getattr(ip_address(host.partition("%")[0]), "ipv4_mapped", None)
    except ValueError:
        return None
    # A socket for both families says ::ffff:10.0.0.1; rules about proxies name 10.0.0.1.
    return (host if mapped is None else str(mapped)), int(port)
