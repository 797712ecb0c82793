"""A response that goes on until the client leaves, may see no more, does not read, or the server stops."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, suppress
from typing import Any, Final

from fastapi.responses import Response
from starlette.types import Receive, Scope, Send

from dokimos.server._api.http.error_responses import answer_error
from dokimos.server._services.errors import ServiceError
from dokimos.server._services.event_hub import Subscriber

ABORT: Final = "dokimos.abort"
"""The extension of the protocol that cuts a connection off, whatever is still to be written to it."""
IS_HEAD: Final = "dokimos.is_head"
"""Set in the scope of a request that is answered without its body."""
_HEARTBEAT_SECONDS: Final = 15.0
"""How often something is sent at least, so that no proxy takes the connection for dead."""
_CHECK_SECONDS: Final = 5.0
"""How often it is checked whether the caller may still see events, where no key was changed here."""
_END_SECONDS: Final = 1.0
"""How long a client has to take the end of the stream."""
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # as nginx is told to pass on what comes, when it comes
    "Connection": "close",  # so that what a client has not read at the end can be cut off
}
_RECONNECT_MILLISECONDS: Final = (1000, 5000)
_BEGINNING: Final = b"retry: 2000\n\n"
_HEARTBEAT: Final = b": nothing has happened\n\n"


class EventStream(Response):
    """Sends the frames of a subscriber as they come.

    Args:
        subscribe: Returns the context of a subscriber.
        is_still_admitted: Whether the caller may go on.
        count_key_changes: Returns a number that changes with the keys of the server.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        subscribe: Callable[[], AbstractContextManager[Subscriber]],
        is_still_admitted: Callable[[], Awaitable[bool]],
        count_key_changes: Callable[[], int],
    ) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]  # it has no end
        self._subscribe = subscribe
        self._is_still_admitted = is_still_admitted
        self._count_key_changes = count_key_changes
        self._checked = (time.monotonic(), count_key_changes())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with self._subscribe() as subscriber:
                await send(
                    {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
                )
                if not scope.get(IS_HEAD):
                    await self._stream(subscriber, receive, send)
        except ServiceError as error:  # another client was quicker
            await answer_error(error)(scope, receive, send)
            return
        await _end(scope, receive, send)

    async def _stream(self, subscriber: Subscriber, receive: Receive, send: Send) -> None:
        tasks: list[asyncio.Task[Any]] = [
            asyncio.create_task(self._send_frames(subscriber, send)),
            asyncio.create_task(_wait_for_disconnect(receive)),
            asyncio.create_task(subscriber.ended.wait()),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _send_frames(self, subscriber: Subscriber, send: Send) -> None:
        await send({"type": "http.response.body", "body": _BEGINNING, "more_body": True})
        sent_at = time.monotonic()
        while True:
            frames = b""
            with suppress(TimeoutError):
                async with asyncio.timeout(_CHECK_SECONDS):
                    frames = await subscriber.take()
            if not await self._may_go_on():
                return
            if not frames and time.monotonic() - sent_at >= _HEARTBEAT_SECONDS:
                frames = _HEARTBEAT
            if frames:
                await send({"type": "http.response.body", "body": frames, "more_body": True})
                sent_at = time.monotonic()

    async def _may_go_on(self) -> bool:
        moment, changes = time.monotonic(), self._count_key_changes()
        if changes == self._checked[1] and moment - self._checked[0] < _CHECK_SECONDS:
            return True
        self._checked = (moment, changes)
        return await self._is_still_admitted()


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _make_ending() -> bytes:
    """Return when to connect again: not all at once, where the server stops and another one takes over."""
    return b"retry: %d\n\n" % random.randrange(*_RECONNECT_MILLISECONDS)


async def _end(scope: Scope, receive: Receive, send: Send) -> None:
    """End the response; a client that does not read is cut off, or it would hold up the end of the server."""
    abort: Callable[[], None] | None = scope.get("extensions", {}).get(ABORT)
    try:
        async with asyncio.timeout(_END_SECONDS):
            await send({"type": "http.response.body", "body": _make_ending(), "more_body": False})
    except TimeoutError:
        if abort is not None:
            abort()
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                await _wait_for_disconnect(receive)
    else:
        if abort is not None:  # what the connection still holds may never be read
            asyncio.get_running_loop().call_later(_END_SECONDS, abort)
