"""The calls under way over HTTP, so that another message of their client can cancel them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from dokimos._mcp.protocol import INVALID_REQUEST, Message, ProtocolError

SESSION: Final = b"mcp-session-id"
CANCELLED: Final = "notifications/cancelled"
Client: TypeAlias = tuple[bytes, bytes]
"""The session that a client names, and its key: with another's session nobody can cancel anything."""


def client_of(headers: Mapping[bytes, bytes]) -> Client | None:
    """Return who sent a message, None for a client that keeps no session."""
    session = headers.get(SESSION)
    return None if not session else (session, headers.get(b"authorization", b""))


class OpenCalls:
    """Each call by its client and its id. Of sessions nothing else is kept: their number needs no bound."""

    def __init__(self) -> None:
        self._tasks: dict[tuple[Client, str | int], asyncio.Task[Any]] = {}

    def check(self, client: Client | None, message: Message) -> None:
        """Raise `ProtocolError` where the id of a request is that of a call under way."""
        key = _key_of(client, message.get("id"))
        if key is not None and key in self._tasks:
            raise ProtocolError(INVALID_REQUEST, f"A call with the id {key[1]!r:.80} is under way.")

    def add(self, client: Client | None, message: Message, task: asyncio.Task[Any]) -> None:
        """Note a call until it ends."""
        key = _key_of(client, message.get("id"))
        if key is not None:
            self._tasks[key] = task
            task.add_done_callback(lambda _: self._tasks.pop(key, None))

    def cancel(self, client: Client | None, message: Message) -> None:
        """Cancel the call that a notification names, if it is under way."""
        params = message.get("params")
        if message.get("method") == CANCELLED and isinstance(params, Mapping):
            key = _key_of(client, params.get("requestId"))
            if key is not None and key in self._tasks:
                self._tasks[key].cancel()

    def cancel_all(self, client: Client) -> None:
        """Cancel all calls of a client whose session ends."""
        for (owner, _), task in list(self._tasks.items()):
            if owner == client:
                task.cancel()


def _key_of(client: Client | None, id_: object) -> tuple[Client, str | int] | None:
    if client is None or isinstance(id_, bool) or not isinstance(id_, str | int):
        return None
    return client, id_
