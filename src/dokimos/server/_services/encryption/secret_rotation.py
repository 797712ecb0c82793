"""Encrypt what the tables hold of secrets with the present key, in small steps.

Each step is a transaction, and what a step has done is done: whoever is killed in between starts again, and
finds less to do. A secret that cannot be read is named and left as it is, since the right passphrase may come
back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from sqlalchemy import Column, Connection, Table, select, update

from dokimos.server._db.alert_tables import ALERT_WEBHOOKS
from dokimos.server._db.connection_tables import LLM_CONNECTIONS
from dokimos.server._db.database import Database
from dokimos.server._services.encryption.secret_vault import SecretLost, SecretVault

BATCH_ROWS: Final = 100


@dataclass(frozen=True, slots=True)
class SealedColumn:
    """A column of secrets, each of which belongs to the row of its id."""

    kind: str
    """What its rows are called."""
    secret: Column[Any]
    name: Column[Any] | None
    """What tells people which row it is, beside its id."""

    @property
    def table(self) -> Table:
        table = self.secret.table
        assert isinstance(table, Table)
        return table


SEALED_COLUMNS: Final = (
    SealedColumn("webhook", ALERT_WEBHOOKS.c.secret, None),
    SealedColumn("LLM connection", LLM_CONNECTIONS.c.api_key, LLM_CONNECTIONS.c.name),
)


@dataclass(frozen=True, slots=True)
class LostSecret:
    """A secret that cannot be read."""

    owner: str
    """Whose it is, such as `LLM connection 'judge' (0199...)`."""
    reason: str


@dataclass(slots=True)
class Rotation:
    """What was done."""

    changed: Counter[str] = field(default_factory=Counter)
    """How many secrets are encrypted anew, by what their rows are called."""
    current: Counter[str] = field(default_factory=Counter)
    """How many were encrypted with the present key already."""
    lost: list[LostSecret] = field(default_factory=list)


async def rotate_secrets(
    database: Database,
    vault: SecretVault,
    *,
    progress: Callable[[str, int], None] = lambda kind, count: None,
) -> Rotation:
    """Encrypt all secrets with the present key; without a passphrase, nothing is done.

    Servers may run meanwhile, and more than one rotation: a secret that somebody sets at the same time is the
    one that stays.

    Args:
        database: Where they are.
        vault: An open vault, which knows the former keys too.
        progress: Hears how many secrets of each kind were looked at.
    """
    rotation = Rotation()
    if not vault.encrypts:
        return rotation
    for column in SEALED_COLUMNS:
        last, count = None, 0
        while True:
            step = await database.write(partial(_rotate_some, vault, column, last))
            rotation.changed[column.kind] += step.changed
            rotation.current[column.kind] += step.current
            rotation.lost += step.lost
            count += step.seen
            progress(column.kind, count)
            if step.last is None:
                break
            last = step.last
    return rotation


@dataclass(slots=True)
class _Step:
    seen: int
    last: str | None
    """The id behind which the next step begins, None at the end."""
    changed: int = 0
    current: int = 0
    lost: list[LostSecret] = field(default_factory=list)


def _rotate_some(
    vault: SecretVault, column: SealedColumn, after: str | None, connection: Connection
) -> _Step:
    """Encrypt the secrets of the next rows."""
    row_id, secret = column.table.c.id, column.secret
    name = secret.label("name") if column.name is None else column.name.label("name")
    query = select(row_id, secret.label("sealed"), name).where(secret.is_not(None)).order_by(row_id)
    if after is not None:
        query = query.where(row_id > after)
    rows = connection.execute(query.limit(BATCH_ROWS)).all()
    step = _Step(len(rows), rows[-1].id if len(rows) == BATCH_ROWS else None)
    for row in rows:
        try:
            plain = vault.unseal(row.sealed, row.id)
        except SecretLost as problem:
            shown = row.id if column.name is None else f"'{row.name}' ({row.id})"
            step.lost.append(LostSecret(f"{column.kind} {shown}", str(problem)))
            continue
        if vault.is_current(row.sealed):
            step.current += 1
            continue
        # Only what was read: somebody may be setting another secret.
        is_same = (row_id == row.id, secret == row.sealed)
        change = update(column.table).where(*is_same).values({secret.name: vault.seal(plain, row.id)})
        step.changed += connection.execute(change).rowcount
    return step
