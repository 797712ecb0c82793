"""How many requests are under way at once, and of which kind."""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from dokimos.server._api.http.error_responses import error_response
from dokimos.server._services.errors import UnavailableError

_LONG_REQUESTS: Final = 16
_PATIENCE_SECONDS: Final = 20.0
"""How long a request waits for one of the places of its kind; clients give up after 30 seconds."""
_ALWAYS: Final = ("/actuator/", "/metrics")
"""What is answered however busy the server is: whoever looks after it asks these."""
SLOT: Final = "dokimos.slot"
"""Where a request has its slot; one that is a part of another, in this process, brings that one's."""


class LongKind(Enum):
    """Requests that may go on for minutes; each kind has places of its own."""

    BODY = "large request bodies"
    """Those that are read whole, such as a batch of items: uploads that take minutes do not keep them out."""
    UPLOAD = "uploads"
    EXPORT = "exports"


class AdmissionMiddleware:
    """Refuses requests with 503 while too many are under way; health and metrics are always answered.

    A request holds a slot, at `slot_of(request)`, until it has been answered. One that turns out to be long
    gives its slot back and takes one of a few places of its kind instead, so that long requests never keep
    short ones out.
    """

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit
        self._count = 0
        self._long = {kind: asyncio.Semaphore(_LONG_REQUESTS) for kind in LongKind}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or SLOT in scope or scope["path"].startswith(_ALWAYS):
            await self._app(scope, receive, send)
            return
        if self._count >= self._limit:
            message = "The server is busy with as many requests as it admits at once; try again."
            await error_response(503, message, {"Retry-After": "1"})(scope, receive, send)
            return
        slot = scope[SLOT] = Slot(self)
        try:
            await self._app(scope, receive, send)
        finally:
            slot.leave()

    def add(self, change: int) -> None:
        """Count requests that begin, or with -1 end."""
        self._count += change

    def places_of(self, kind: LongKind) -> asyncio.Semaphore:
        """Return the places of a kind of long requests."""
        return self._long[kind]


class Slot:
    """What one request holds of what the server admits."""

    def __init__(self, admission: AdmissionMiddleware) -> None:
        self._admission = admission
        self._places: asyncio.Semaphore | None = None
        self._is_counted = True
        admission.add(1)

    async def turn_into(self, kind: LongKind) -> None:
        """Take a place of a kind of long requests until the end; waits for one, which slows down who sends.

        Raises:
            UnavailableError: None became free in time.
        """
        if self._places is not None:
            return
        places = self._admission.places_of(kind)
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await places.acquire()
        except TimeoutError:
            raise UnavailableError(
                f"The server is busy with as many {kind.value} as it admits at once; try again."
            ) from None
        self.leave()
        self._places = places

    def leave(self) -> None:
        """Give back what the request holds; also for one that goes on, where another limit counts it."""
        if self._is_counted:
            self._is_counted = False
            self._admission.add(-1)
        if self._places is not None:
            self._places.release()
            self._places = None


def slot_of(request: Request) -> Slot:
    """Return the slot of a request."""
    slot: Slot = request.scope[SLOT]
    return slot
