"""Hands events to those who watch, each to whoever may see it; everything here runs in the event loop."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections import OrderedDict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.errors import UnavailableError
from dokimos.server._services.events import Event, EventKind, EventScope

_KEPT: Final = 5000
"""Events that a client which connects again can still get."""
_WAITING: Final = 500
"""Events that may wait for one client; one that falls further behind is dropped, and connects again."""


class Subscriber:
    """A client that watches."""

    def __init__(self, principal: Principal, scope: EventScope, owner: str) -> None:
        self.owner: Final = owner
        """Who watches, for the number of streams that one caller may have."""
        self.ended: Final = asyncio.Event()
        """Set when it gets nothing more: it does not read, or the server is about to stop."""
        self._principal = principal
        self._scope = scope
        self._frames: deque[bytes] = deque()
        self._has_frames = asyncio.Event()

    @property
    def waiting_count(self) -> int:
        """How many events wait to be sent to it."""
        return len(self._frames)

    def wants(self, event: Event) -> bool:
        """Whether it may know of an event, and asked for it."""
        return event.is_visible_to(self._principal) and self._scope.includes(event)

    def offer(self, frame: bytes) -> bool:
        """Put a frame behind those that wait; return False where too many wait already."""
        if len(self._frames) >= _WAITING:
            return False
        self._frames.append(frame)
        self._has_frames.set()
        return True

    async def take(self) -> bytes:
        """Return the frames that wait, once there are any."""
        await self._has_frames.wait()
        self._has_frames.clear()
        frames = b"".join(self._frames)
        self._frames.clear()
        return frames

    def stop(self) -> None:
        """Let it get nothing more."""
        self._frames.clear()
        self.ended.set()


class EventHub:
    """Keeps the latest events, and hands each new one to the subscribers that may see it.

    The id of an event is random: an increasing number would tell a tenant how much others do. Events have
    one order, so everything behind a known id is what a client has missed.

    Args:
        max_subscribers: How many there may be.
        max_per_owner: How many of them one caller may have, so that there is room for the others; 0 for all.
    """

    def __init__(self, max_subscribers: int, max_per_owner: int = 0) -> None:
        self._max_subscribers = max_subscribers
        self._max_per_owner = max_per_owner or max_subscribers
        self._kept: OrderedDict[str, tuple[Event, bytes]] = OrderedDict()
        self._origin = new_event_id()  # the place before the first event that is kept
        self._subscribers: set[Subscriber] = set()
        self._is_closed = False

    @property
    def subscriber_count(self) -> int:
        """How many receive events."""
        return len(self._subscribers)

    @property
    def longest_wait(self) -> int:
        """How many events wait for the client that is furthest behind."""
        return max((subscriber.waiting_count for subscriber in self._subscribers), default=0)

    @property
    def last_id(self) -> str:
        """The place where a client that begins now goes on later."""
        return next(reversed(self._kept), self._origin)

    def publish(self, event_id: str, event: Event) -> None:
        """Tell all who may see it; an event that has been published before is passed over."""
        if event_id in self._kept:
            return
        frame = format_frame(event_id, event.kind, event.describe())
        self._kept[event_id] = event, frame
        if len(self._kept) > _KEPT:
            self._origin, _ = self._kept.popitem(last=False)
        for subscriber in list(self._subscribers):
            if subscriber.wants(event) and not subscriber.offer(frame):
                self._subscribers.discard(subscriber)
                subscriber.stop()

    def reset(self) -> None:
        """Tell everyone that events were lost: nobody goes on from what was before."""
        self._kept.clear()
        self._origin = new_event_id()
        self.publish(new_event_id(), Event(kind=EventKind.RELOAD))

    def close(self) -> None:
        """End all streams, and begin none any more: the server is about to stop."""
        self._is_closed = True
        for subscriber in list(self._subscribers):
            subscriber.stop()

    @contextmanager
    def subscribe(
        self, principal: Principal, scope: EventScope, last_id: str | None, *, owner: str = ""
    ) -> Iterator[Subscriber]:
        """Add a subscriber, which gets what it missed since an event, and everything from now on.

        Its first frame is `ready`; or `reload`, where what it missed is not known any more.

        Args:
            principal: Whose rows it may hear of.
            scope: Which events it wants.
            last_id: The last event that it got, None for none.
            owner: Who it counts for.

        Raises:
            UnavailableError: There are as many subscribers as are allowed, or the server is about to stop.
        """
        self.check_capacity(owner)
        subscriber = Subscriber(principal, scope, owner)
        for frame in self._first_frames(subscriber, last_id):
            if not subscriber.offer(frame):  # it missed more than may wait for it
                subscriber = Subscriber(principal, scope, owner)
                subscriber.offer(format_frame(self.last_id, EventKind.RELOAD, {}))
                break
        self._subscribers.add(subscriber)
        try:
            yield subscriber
        finally:
            self._subscribers.discard(subscriber)

    def check_capacity(self, owner: str = "") -> None:
        """Raise `UnavailableError` where there can be no further subscriber of this owner."""
        if self._is_closed:
            raise UnavailableError("The server is stopping.")
        if len(self._subscribers) >= self._max_subscribers:
            raise UnavailableError(
                f"{self._max_subscribers} clients receive events already, as many as "
                "DOKIMOS_MAX_EVENT_STREAMS allows; try again later."
            )
        if sum(each.owner == owner for each in self._subscribers) >= self._max_per_owner:
            raise UnavailableError(
                f"{self._max_per_owner} clients with this key, or from this address, receive events already, "
                "as many as DOKIMOS_MAX_EVENT_STREAMS_PER_CALLER allows; try again later."
            )

    def _first_frames(self, subscriber: Subscriber, last_id: str | None) -> Iterator[bytes]:
        if last_id is not None and last_id != self._origin and last_id not in self._kept:
            yield format_frame(self.last_id, EventKind.RELOAD, {})
            return
        missed: list[bytes] = []
        if last_id is not None and last_id != self.last_id:
            for event_id in reversed(self._kept):
                if event_id == last_id:
                    break
                event, frame = self._kept[event_id]
                if subscriber.wants(event):
                    missed.append(frame)
        yield from reversed(missed)
        yield format_frame(self.last_id, "ready", {})


def new_event_id() -> str:
    """Return an id that tells nothing."""
    return secrets.token_hex(8)


def format_frame(event_id: str, kind: str, data: dict[str, str | int | None]) -> bytes:
    """Return an event as the wire has it; JSON holds no line break."""
    text = json.dumps(data, separators=(",", ":"))
    return f"id: {event_id}\nevent: {kind}\ndata: {text}\n\n".encode()
