"""Graceful shutdown: what changes for requests while the server is about to stop."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dokimos.server._api.http.error_responses import error_response

_CLOSE: Final = (b"connection", b"close")
_MESSAGE: Final = (
    "The server is stopping, and has not finished this request. Send it again, with the same Idempotency-Key "
    "if it has one."
)


class DrainMiddleware:
    """Closes each connection behind its answer once the server is about to stop.

    A client that keeps its connection would otherwise send its next request to a server that is gone. What is
    still under way when the time is over is answered with 503, unless its answer has begun.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope["app"].state
        has_begun = False

        async def send_and_close(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                if state.is_draining:
                    headers = [field for field in message.get("headers", ()) if field[0] != _CLOSE[0]]
                    message = {**message, "headers": [*headers, _CLOSE]}
            await send(message)

        try:
            await self._app(scope, receive, send_and_close)
        except asyncio.CancelledError:
            if has_begun or not state.is_draining:
                raise
            await error_response(503, _MESSAGE, {"Retry-After": "5"})(scope, receive, send_and_close)
