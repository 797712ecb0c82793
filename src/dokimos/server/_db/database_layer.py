"""A database that passes everything on to another one: the base of those that add something to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

from sqlalchemy import Connection

from dokimos.server._db.database import Database, Lane
from dokimos.server._db.outbox import Deliver

T = TypeVar("T")


class DatabaseLayer:
    """Does what the `Database` below does; a subclass overrides what it adds to."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def dialect(self) -> str:
        return self._database.dialect

    @property
    def connections(self) -> Mapping[str, float]:
        return self._database.connections

    async def open(self) -> None:
        await self._database.open()

    async def close(self) -> None:
        await self._database.close()

    async def follow_clock(self) -> None:
        await self._database.follow_clock()

    async def end_abandoned(self) -> None:
        await self._database.end_abandoned()

    def deliver_to(self, deliver: Deliver) -> None:
        self._database.deliver_to(deliver)

    def claim(self, name: str) -> AbstractAsyncContextManager[bool]:
        return self._database.claim(name)

    async def read(self, query: Callable[[Connection], T], lane: Lane = Lane.PAGE) -> T:
        return await self._database.read(query, lane)

    async def write(self, change: Callable[[Connection], T], *, background: bool = False) -> T:
        return await self._database.write(change, background=background)
