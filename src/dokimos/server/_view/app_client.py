"""Requests to the application in its own process: no connection, no proxy, the same checks as over HTTP."""

from __future__ import annotations

import asyncio
import json as json_module
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode

from starlette.types import ASGIApp, Message, Scope

from dokimos._http.api_client import ApiReply
from dokimos.errors import ServerRefusedError, ServerUnavailableError

_ROOT: Final = "/api/v1"
_CLIENT: Final = ("127.0.0.1", 0)


@dataclass(frozen=True, slots=True)
class AppClient:
    """Sends requests to an application on the event loop that runs it."""

    app: ASGIApp
    client: tuple[str, int] = _CLIENT
    """Where requests come from."""
    scope: Mapping[str, object] = field(default_factory=dict)
    """What else the application finds in the scope of each."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        json: object = None,
        content: bytes | None = None,
        query: Mapping[str, str | int | None] | None = None,
        headers: Mapping[str, Any] | None = None,
        repeatable: bool | None = None,
    ) -> ApiReply:
        """Return the answer to a request; its path, and maybe query, is one below `/api/v1`, percent-encoded.

        Raises:
            ServerRefusedError: The application refuses it.
            ServerUnavailableError: The application fails, or cannot do it at the moment.
        """
        body = content if json is None else json_module.dumps(json, allow_nan=False).encode()
        return _check(method, path, await self.ask(method, path, body or b"", query=query, headers=headers))

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        query: Mapping[str, str | int | None] | None = None,
        headers: Mapping[str, Any] | None = None,
    ) -> ApiReply:
        """Return the answer to a request, a refusal, too."""
        fields = {"host": "localhost", "content-type": "application/json", **(headers or {})}
        known = {name: value for name, value in (query or {}).items() if value is not None}
        path, _, given = path.partition("?")
        exchange = _Exchange(body)
        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": f"{_ROOT}{path}",
            "raw_path": f"{_ROOT}{path}".encode(),
            "query_string": "&".join(filter(None, (given, urlencode(known)))).encode(),
            "root_path": "",
            "headers": [(name.lower().encode(), str(value).encode()) for name, value in fields.items()],
            "client": self.client,
            "server": None,
            **self.scope,
        }
        await self.app(scope, exchange.receive, exchange.send)
        return ApiReply(exchange.status, exchange.headers, bytes(exchange.answer), path)


@dataclass(slots=True)
class _Exchange:
    """A body on its way to the application, and what comes back."""

    body: bytes
    status: int = HTTPStatus.INTERNAL_SERVER_ERROR
    headers: dict[str, str] = field(default_factory=dict)
    answer: bytearray = field(default_factory=bytearray)
    _is_sent: bool = False

    async def receive(self) -> Message:
        if self._is_sent:
            await asyncio.Event().wait()  # a client that goes away has the request cancelled
        self._is_sent = True
        return {"type": "http.request", "body": self.body, "more_body": False}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            fields: Any = message.get("headers", ())
            self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in fields}
        elif message["type"] == "http.response.body":
            self.answer += message.get("body", b"")


def _check(method: str, path: str, reply: ApiReply) -> ApiReply:
    path = path.partition("?")[0]
    if reply.status < HTTPStatus.BAD_REQUEST:
        return reply
    try:
        details = json_module.loads(reply.content)
    except ValueError:
        details = None
    words = details.get("message") or details.get("error") if isinstance(details, dict) else None
    problem = f"{method} {path}: {reply.status}" + (f": {words}" if words else "")
    if reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise ServerUnavailableError(problem)
    raise ServerRefusedError(problem, status=reply.status, details=details)
