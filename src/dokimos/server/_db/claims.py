"""Locks by name: work that one server at a time does, of all those that share a database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Protocol

_POLL_SECONDS: Final = 0.1


class Claims(Protocol):
    """Hands out claims."""

    def claim(self, name: str) -> AbstractAsyncContextManager[bool]:
        """Claim a piece of work until the context ends; its value is False where it is claimed already.

        A claim is held beside transactions, never in one. It is lost when the server dies or stands still for
        a minute, and may be lost when the database goes away for a moment: work that is done twice then must
        end as if done once.

        Args:
            name: Of the work, the same in all servers.

        Raises:
            DatabaseUnavailable: The database does not answer.

        Example:
            >>> async with database.claim("removing deleted rows") as is_ours:  # doctest: +SKIP
            ...     if is_ours:
            ...         await remove_rows()
        """
        ...


class LocalClaims:
    """Claims of the one server that a database has."""

    def __init__(self) -> None:
        self._held: set[str] = set()

    @asynccontextmanager
    async def claim(self, name: str) -> AsyncIterator[bool]:
        """Claim a piece of work, as `Claims` says."""
        if name in self._held:
            yield False
            return
        self._held.add(name)
        try:
            yield True
        finally:
            self._held.discard(name)


@asynccontextmanager
async def wait_for_claim(claims: Claims, name: str) -> AsyncIterator[None]:
    """Claim a piece of work until the context ends, as soon as nobody else claims it.

    Example:
        >>> async with wait_for_claim(database, "removing deleted rows"):  # doctest: +SKIP
        ...     await remove_rows()
    """
    while True:
        async with claims.claim(name) as is_ours:
            if is_ours:
                yield
                return
        await asyncio.sleep(_POLL_SECONDS)


async def wait_until_free(claims: Claims, name: str) -> None:
    """Wait until nobody claims a piece of work, because it is done, or because that server is gone."""
    async with wait_for_claim(claims, name):
        pass
