"""Messages that a transaction posts, which are delivered once it is on disk, and never if it is undone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sqlalchemy import Connection

Deliver = Callable[[Sequence[object]], None]
"""Takes the messages of one transaction; called in the event loop, and must not raise or wait."""
_KEY: Final = "dokimos.outbox"


def post(connection: Connection, message: object) -> None:
    """Have a message delivered after the commit of this transaction, where anyone listens."""
    outbox = connection.info.get(_KEY)
    if outbox is not None:
        outbox.append(message)


def messages_of(connection: Connection) -> Sequence[object]:
    """Return the messages that this transaction has posted until now."""
    messages: list[object] = connection.info.get(_KEY, [])
    return messages


def open_outbox(connection: Connection) -> list[object]:
    """Return a list for the messages of a transaction that begins on the connection."""
    outbox: list[object] = []
    connection.info[_KEY] = outbox
    return outbox


def drop_messages(messages: Sequence[object]) -> None:
    """Deliver nothing, as long as nobody listens."""
