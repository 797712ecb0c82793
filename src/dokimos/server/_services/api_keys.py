"""API keys: created, looked up, disabled."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, and_, delete, insert, select, true, update

from dokimos.server._db.clock import now
from dokimos.server._db.ids import new_id
from dokimos.server._db.tables import API_KEYS
from dokimos.server._services.errors import ForbiddenError, NotFoundError
from dokimos.server._services.names import check_name
from dokimos.server._services.principal import Principal, Role

_PREFIX: Final = "dok_"


@dataclass(frozen=True, slots=True)
class CreatedKey:
    """A new key; the only time its text is known."""

    text: str
    row: Row[Any]


def hash_key(text: str) -> str:
    """Return what is stored of a key.

    A plain SHA-256 is enough for 256 random bits: there is nothing to guess, so a slow hash would only cost
    time.
    """
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def create_key(
    connection: Connection, principal: Principal, name: str, role: Role, tenant: str | None
) -> CreatedKey:
    """Create a key; an administrator of a tenant creates keys of that tenant.

    Raises:
        ForbiddenError: The caller belongs to a tenant, and the key would belong to another one.
    """
    check_name(name, "name")
    if tenant is not None:
        check_name(tenant, "tenantId")
    if principal.is_restricted:
        if tenant not in (None, principal.tenant):
            raise ForbiddenError(
                f"A key of the tenant '{principal.tenant}' creates keys of that tenant only."
            )
        tenant = principal.tenant
    text = _PREFIX + secrets.token_urlsafe(32)
    key_id = new_id()
    connection.execute(
        insert(API_KEYS).values(
            id=key_id,
            key_hash=hash_key(text),
            name=name,
            role=role.name,
            tenant_id=tenant,
            enabled=True,
            created_at=now(),
        )
    )
    return CreatedKey(text, _find(connection, key_id))


def list_keys(connection: Connection, principal: Principal) -> Sequence[Row[Any]]:
    """Return the keys that the caller administers, the oldest first."""
    query = select(API_KEYS).where(_administers(principal))
    return connection.execute(query.order_by(API_KEYS.c.created_at, API_KEYS.c.id)).all()


def disable_key(connection: Connection, principal: Principal, key_id: str) -> Row[Any]:
    """Refuse a key from now on, and keep its record.

    Raises:
        NotFoundError: There is no such key that the caller administers.
    """
    is_chosen = and_(API_KEYS.c.id == key_id, _administers(principal))
    if connection.execute(update(API_KEYS).where(is_chosen).values(enabled=False)).rowcount == 0:
        raise NotFoundError(f"API key not found: {key_id}")
    # Sessions that were begun with it end with it: they are looked up together with their key.
    return _find(connection, key_id)


def delete_key(connection: Connection, principal: Principal, key_id: str) -> None:
    """Delete a key.

    Raises:
        NotFoundError: There is no such key that the caller administers.
    """
    is_chosen = and_(API_KEYS.c.id == key_id, _administers(principal))
    if connection.execute(delete(API_KEYS).where(is_chosen)).rowcount == 0:
        raise NotFoundError(f"API key not found: {key_id}")


def load_principals(connection: Connection, *, may_write_shared: bool) -> dict[str, Principal]:
    """Return whom each enabled key stands for, by the hash of the key."""
    rows = connection.execute(select(API_KEYS).where(API_KEYS.c.enabled.is_(true())))
    return {
        row.key_hash: Principal(
            row.id,
            Role[row.role],
            row.tenant_id,
            # A key without a tenant sees everything, as documented.
            is_restricted=row.tenant_id is not None,
            may_write_shared=may_write_shared,
        )
        for row in rows
    }


def note_use(connection: Connection, key_id: str, moment: int) -> None:
    """Keep when a key was last used."""
    connection.execute(update(API_KEYS).where(API_KEYS.c.id == key_id).values(last_used_at=moment))


def _administers(principal: Principal) -> ColumnElement[bool]:
    """An administrator of a tenant sees and changes the keys of that tenant alone."""
    return API_KEYS.c.tenant_id == principal.tenant if principal.is_restricted else true()


def _find(connection: Connection, key_id: str) -> Row[Any]:
    row = connection.execute(select(API_KEYS).where(API_KEYS.c.id == key_id)).first()
    if row is None:
        raise NotFoundError(f"API key not found: {key_id}")
    return row
