"""Stop reading for a client that has hung up."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class DisconnectMiddleware:
    """Cancels a GET whose client hangs up before the answer is complete, and with it its read.

    Requests that change something go on: what they began, they end.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        await _Exchange(receive, send).run(self._app, scope)


class _Exchange:
    """A GET and its answer."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive_message = receive
        self._send_message = send
        self._has_ended = asyncio.Event()
        self._is_answered = False
        self._is_read = False

    async def run(self, app: ASGIApp, scope: Scope) -> None:
        task = asyncio.current_task()
        assert task is not None
        watcher = asyncio.create_task(self._watch(task))
        try:
            await app(scope, self._receive, self._send)
        except asyncio.CancelledError:
            # Not ours where the server stops at the same time.
            if not self._has_ended.is_set() or task.uncancel() > 0:
                raise
        finally:
            watcher.cancel()

    async def _watch(self, task: asyncio.Task[object]) -> None:
        while (await self._receive_message())["type"] != "http.disconnect":
            continue  # the body of a GET means nothing
        self._has_ended.set()
        if not self._is_answered:
            task.cancel()

    async def _receive(self) -> Message:
        if not self._is_read:
            self._is_read = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._has_ended.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.body" and not message.get("more_body"):
            self._is_answered = True
        await self._send_message(message)
