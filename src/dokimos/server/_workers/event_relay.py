"""Carries what was committed to those who watch: with PostgreSQL, to those of all servers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from types import MappingProxyType
from typing import Any, Final

from dokimos.server._db.database import Database, DatabaseUnavailable, ReadTooSlow
from dokimos.server._db.outbox import drop_messages
from dokimos.server._services.event_hub import EventHub, new_event_id
from dokimos.server._services.event_queries import read_item_events
from dokimos.server._services.events import Event, EventKind, ItemsStored
from dokimos.server._settings import ServerSettings
from dokimos.server._workers.periodic import end_task, is_asked_to_end

_LOGGER: Final = logging.getLogger("dokimos.server")
_ACCESS_CHANGED: Final = "access"
"""The message that keys, sessions or people have changed: whoever keeps them in memory reads them again."""
_ITEMS_SECONDS: Final = 0.5
"""How often a run that gets items is told about at most; its counts are read that often, not per batch."""


@asynccontextmanager
async def relay_events(
    database: Database,
    settings: ServerSettings,
    hub: EventHub,
    expire_keys: Callable[[], None],
    wake: Mapping[type, Callable[[], None]],
    on_event: Mapping[EventKind, Callable[[], None]] = MappingProxyType({}),
) -> AsyncIterator[EventRelay]:
    """Publish what is committed in the database until the context ends.

    Args:
        expire_keys: Called when another server has, or may have, changed keys or sessions.
        wake: By the type of a message, which worker is to look at what this server has stored.
        on_event: What this server does at an event, whichever server tells of it; also after events were
            lost.
    """
    relay = EventRelay(database, settings, hub, expire_keys, wake, on_event)
    database.deliver_to(relay.deliver)
    tasks = [asyncio.create_task(work(), name="dokimos events") for work in relay.works]
    try:
        yield relay
    finally:
        database.deliver_to(drop_messages)
        await relay.flush()
        await asyncio.gather(*map(end_task, tasks), return_exceptions=True)


class EventRelay:
    """Takes the messages of committed transactions, and publishes them as events."""

    def __init__(
        self,
        database: Database,
        settings: ServerSettings,
        hub: EventHub,
        expire_keys: Callable[[], None],
        wake: Mapping[type, Callable[[], None]],
        on_event: Mapping[EventKind, Callable[[], None]] = MappingProxyType({}),
    ) -> None:
        self._database = database
        self._wake = wake
        self._on_event = on_event
        self._hub = hub
        self._expire_keys = expire_keys
        self._runs: set[str] = set()  # those with new items that nobody has been told about
        self._has_runs = asyncio.Event()
        self._channel = None
        self.works: Final = [self._tell_of_items]
        if settings.database_url is not None:
            from dokimos.server._db.postgres_channel import PostgresChannel

            self._channel = PostgresChannel(settings, self._receive, self._lose)
            self.works.append(self._channel.run)
            # A server that was killed may have taken events with it: whoever watches another one is told now.
            self._publish(Event(kind=EventKind.RELOAD))

    def deliver(self, messages: Sequence[object]) -> None:
        """Publish the messages of a transaction that was committed."""
        for message in messages:
            if isinstance(message, ItemsStored):
                self._runs.add(message.run_id)
                self._has_runs.set()
            elif isinstance(message, Event):
                self._publish(message)
            elif type(message) in self._wake:
                self._wake[type(message)]()

    def announce_access(self) -> None:
        """Tell the other servers that keys, sessions or people have changed."""
        if self._channel is not None:
            self._channel.send(f'"{_ACCESS_CHANGED}"')

    async def flush(self) -> None:
        """Publish what waits."""
        with suppress(DatabaseUnavailable, ReadTooSlow):
            await self._tell_of_waiting_runs()
        if self._channel is not None:
            await self._channel.flush()

    def _publish(self, event: Event) -> None:
        if self._channel is None:
            self._react(event.kind)
            self._hub.publish(new_event_id(), event)
        else:
            self._channel.send(f'["{new_event_id()}",{event.dump()}]')

    def _lose(self) -> None:
        self._hub.reset()
        self._expire_keys()
        for react in self._on_event.values():
            react()

    def _receive(self, message: Any) -> None:
        if message == _ACCESS_CHANGED:
            self._expire_keys()
            return
        try:
            event_id, parts = message
            event = Event.load(parts)
        except (TypeError, ValueError):  # of a newer version, while servers are replaced one by one
            _LOGGER.warning("A server on this database tells what this version does not understand.")
            return
        self._react(event.kind)
        self._hub.publish(event_id, event)

    def _react(self, kind: EventKind) -> None:
        react = self._on_event.get(kind)
        if react is not None:
            react()

    async def _tell_of_items(self) -> None:
        while not is_asked_to_end():
            await self._has_runs.wait()
            try:
                await self._tell_of_waiting_runs()
            except DatabaseUnavailable as error:
                _LOGGER.warning("Events of items: the database is not available: %s", error)
            except Exception:
                _LOGGER.exception("Telling of items failed; it is tried again")
            await asyncio.sleep(_ITEMS_SECONDS)

    async def _tell_of_waiting_runs(self) -> None:
        self._has_runs.clear()
        runs, self._runs = self._runs, set()
        if not runs:
            return
        try:
            events = await self._database.read(lambda connection: read_item_events(connection, list(runs)))
        except Exception:
            self._runs |= runs
            self._has_runs.set()
            raise
        for event in events:
            self._publish(event)
