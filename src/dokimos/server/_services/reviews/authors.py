"""The names of those who wrote something, whose ids the rows hold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sqlalchemy import Connection, select

from dokimos.server._db.batches import in_batches
from dokimos.server._db.ids import parse_id
from dokimos.server._db.key_tables import API_KEYS
from dokimos.server._db.user_tables import USERS
from dokimos.server._services.accounts.principal import ANONYMOUS, Principal

_NAMED: Final = (API_KEYS, USERS)
"""The tables of those who call."""


def names_of_authors(connection: Connection, principal: Principal, ids: Iterable[str]) -> dict[str, str]:
    """Return the names of keys and people by their ids, as far as they exist still.

    A caller without a key is told no names: those of people are nobody else's business.
    """
    if principal.id == ANONYMOUS.id:
        return {}
    known = sorted({author for author in ids if parse_id(author) is not None})
    names: dict[str, str] = {}
    for batch in in_batches(known):
        for table in _NAMED:
            query = select(table.c.id, table.c.name).where(table.c.id.in_(batch))
            names |= {row.id: row.name for row in connection.execute(query)}
    return names
