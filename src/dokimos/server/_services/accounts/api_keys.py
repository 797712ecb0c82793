"""API keys: created, changed, rotated, disabled, listed."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Row, and_, delete, func, insert, or_, select, true, update

from dokimos.server._db.clock import DAY, HOUR, MINUTE, now
from dokimos.server._db.ids import new_id
from dokimos.server._db.key_tables import API_KEYS
from dokimos.server._services.accounts.members import MemberKind, load_project_roles, remove_memberships
from dokimos.server._services.accounts.principal import Principal, Role
from dokimos.server._services.accounts.secret_hash import hash_secret
from dokimos.server._services.accounts.sessions import end_sessions_of_key
from dokimos.server._services.audit.audit_targets import Details, describe_target
from dokimos.server._services.errors import (
    ConflictError,
    ForbiddenError,
    InvalidRequestError,
    NotFoundError,
)
from dokimos.server._services.list_pages import ListPage, SortKeys, read_page
from dokimos.server._services.projects.names import check_name
from dokimos.server._services.projects.projects import contains

_PREFIX: Final = "dok_"
_NEVER: Final = 2**62
_SOON: Final = 14 * DAY
USE_INTERVAL: Final = MINUTE
"""How often the last use of a key is written at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A key to create."""

    name: str
    role: Role
    tenant: str | None = None
    expires_at: int | None = None
    requests_per_minute: int | None = None


@dataclass(frozen=True, slots=True)
class CreatedKey:
    """A key with its new text; the only time that this is known."""

    text: str
    row: Row[Any]


@dataclass(frozen=True, slots=True)
class LoadedKey:
    """What a text stands for: that of a key, or the one that it had before its last rotation."""

    principal: Principal
    name: str
    expires_at: int | None
    """When this text stops being accepted, None for never."""
    requests_per_minute: int | None

    def has_expired(self, moment: int) -> bool:
        """Whether the text is not accepted any more."""
        return self.expires_at is not None and self.expires_at <= moment


def create_key(
    connection: Connection, principal: Principal, new: NewKey, *, default_limit: int = 0
) -> CreatedKey:
    """Create a key; an administrator of a tenant creates keys of that tenant, with its own limit at most.

    Args:
        default_limit: Requests per minute of keys without a limit of their own, 0 for any number.

    Raises:
        ForbiddenError: The caller belongs to a tenant, and the key would belong to another one, or could make
            more requests than its own.
        InvalidRequestError: A name cannot be used, or the key would have expired already.
    """
    check_name(new.name, "name")
    tenant = new.tenant
    if tenant is not None:
        check_name(tenant, "tenantId")
    if principal.is_restricted:
        if tenant not in (None, principal.tenant):
            raise ForbiddenError(
                f"A key of the tenant '{principal.tenant}' creates keys of that tenant only."
            )
        tenant = principal.tenant
    moment = now()
    _check_expiry(new.expires_at, moment)
    own_limit = _limit_of_caller(connection, principal)
    limit = own_limit if new.requests_per_minute is None else new.requests_per_minute
    _check_limit(limit, own_limit, default_limit)
    text = _PREFIX + secrets.token_urlsafe(32)
    key_id = new_id()
    connection.execute(
        insert(API_KEYS).values(
            id=key_id,
            key_hash=hash_secret(text),
            name=new.name,
            role=new.role.name,
            tenant_id=tenant,
            enabled=True,
            created_at=moment,
            created_by=principal.id,
            expires_at=new.expires_at,
            requests_per_minute=limit,
        )
    )
    row = _read_changed(connection, principal, key_id, {"role": new.role.name})
    return CreatedKey(text, row)


KEY_ORDERS: Final = SortKeys(
    {
        "createdAt": API_KEYS.c.created_at,
        "name": func.lower(API_KEYS.c.name),
        "lastUsedAt": func.coalesce(API_KEYS.c.last_used_at, 0),
        "expiresAt": func.coalesce(API_KEYS.c.expires_at, _NEVER),
    },
    ties=(API_KEYS.c.id,),
    default="createdAt",
)


def list_keys(
    connection: Connection, principal: Principal, page: ListPage, *, search: str | None
) -> Sequence[Row[Any]]:
    """Return a page of the keys that the caller administers, by default all, the oldest first."""
    visible = select(API_KEYS).where(principal.administers(API_KEYS))
    conditions = [contains(API_KEYS.c.name, search)] if search else []
    return read_page(connection, visible, page, API_KEYS.c.id, *conditions)


def expires_soon(row: Row[Any], moment: int) -> bool:
    """Whether a key that works expires within two weeks."""
    if not row.enabled or row.expires_at is None:
        return False
    return bool(moment < row.expires_at <= moment + _SOON)


def change_key(
    connection: Connection,
    principal: Principal,
    key_id: str,
    changes: Mapping[str, Any],
    *,
    default_limit: int = 0,
) -> Row[Any]:
    """Change the name, the role, the expiry or the limit of a key; its text stays.

    Args:
        changes: New values by their columns: `name`, `role`, `expires_at`, `requests_per_minute`.
        default_limit: Requests per minute of keys without a limit of their own, 0 for any number.

    Raises:
        NotFoundError: There is no such key that the caller administers.
        ForbiddenError: The caller belongs to a tenant, and the limit would be above its own.
        InvalidRequestError: The name cannot be used, or the time has passed.
    """
    find_key(connection, principal, key_id)
    if "name" in changes:
        check_name(changes["name"], "name")
    _check_expiry(changes.get("expires_at"), now())
    if "requests_per_minute" in changes:
        _check_limit(changes["requests_per_minute"], _limit_of_caller(connection, principal), default_limit)
    if changes:
        connection.execute(update(API_KEYS).where(API_KEYS.c.id == key_id).values(**changes))
    return _read_changed(connection, principal, key_id, changes)


def rotate_key(
    connection: Connection,
    principal: Principal,
    key_id: str,
    *,
    overlap_hours: float,
    expires_at: int | None,
) -> CreatedKey:
    """Give a key a new text; the text before it is accepted for some time more, one before that no more.

    Args:
        overlap_hours: How long the text before is accepted; 0 refuses it at once.
        expires_at: When the key expires from now on, None to leave that as it is.

    Raises:
        NotFoundError: There is no such key that the caller administers.
        ConflictError: The key is disabled, or has expired and would stay so.
        InvalidRequestError: The time has passed.
    """
    row = find_key(connection, principal, key_id)
    moment = now()
    _check_expiry(expires_at, moment)
    if not row.enabled:
        raise ConflictError("The key is disabled; enable it before it is rotated.")
    has_expired = row.expires_at is not None and row.expires_at <= moment
    if has_expired and expires_at is None:
        raise ConflictError("The key has expired; say with 'expiresAt' until when it is valid.")
    # What was refused already stays refused, whatever the key is extended to.
    keeps_previous = overlap_hours > 0 and not has_expired
    until = moment + int(overlap_hours * HOUR)
    if row.expires_at is not None:
        until = min(until, row.expires_at)
    text = _PREFIX + secrets.token_urlsafe(32)
    connection.execute(
        update(API_KEYS)
        .where(API_KEYS.c.id == key_id)
        .values(
            key_hash=hash_secret(text),
            previous_hash=row.key_hash if keeps_previous else None,
            previous_expires_at=until if keeps_previous else None,
            rotated_at=moment,
            expires_at=row.expires_at if expires_at is None else expires_at,
        )
    )
    end_sessions_of_key(connection, key_id, but_of=row.key_hash if keeps_previous else None)
    details = {"overlapHours": overlap_hours if keeps_previous else 0}
    return CreatedKey(text, _read_changed(connection, principal, key_id, details))


def set_key_enabled(
    connection: Connection, principal: Principal, key_id: str, *, enabled: bool, last_one_opens: bool = False
) -> Row[Any]:
    """Refuse a key from now on, and keep its record; or accept it again.

    Args:
        last_one_opens: Whether the server is open to everyone once it has no key.

    Raises:
        NotFoundError: There is no such key that the caller administers.
        ConflictError: It is the last one, and the caller may not open the server.
    """
    find_key(connection, principal, key_id)
    if last_one_opens and not enabled:
        _check_may_open(connection, principal, key_id)
    connection.execute(update(API_KEYS).where(API_KEYS.c.id == key_id).values(enabled=enabled))
    if not enabled:
        end_sessions_of_key(connection, key_id)
    return _read_changed(connection, principal, key_id)


def delete_key(
    connection: Connection, principal: Principal, key_id: str, *, last_one_opens: bool = False
) -> None:
    """Delete a key, and with it the sessions that were begun with it.

    Raises what `set_key_enabled` raises, whose arguments it has.
    """
    if last_one_opens:
        _check_may_open(connection, principal, key_id)
    is_chosen = and_(API_KEYS.c.id == key_id, principal.administers(API_KEYS))
    removed = delete(API_KEYS).where(is_chosen).returning(API_KEYS.c.name, API_KEYS.c.tenant_id)
    row = connection.execute(removed).first()
    if row is None:
        raise NotFoundError(f"API key not found: {key_id}")
    remove_memberships(connection, key_id)
    describe_target(connection, kind="api-key", id=key_id, name=row.name, tenant=row.tenant_id)


def load_keys(connection: Connection, *, may_write_shared: bool) -> dict[str, LoadedKey]:
    """Return what each text of an enabled key stands for, by its hash; those that have expired too."""
    project_roles = load_project_roles(connection, MemberKind.KEY)
    loaded: dict[str, LoadedKey] = {}
    for row in connection.execute(select(API_KEYS).where(API_KEYS.c.enabled.is_(true()))):
        principal = Principal(
            row.id,
            Role[row.role],
            row.tenant_id,
            # A key without a tenant sees everything, as documented.
            is_restricted=row.tenant_id is not None,
            may_write_shared=may_write_shared,
            project_roles=project_roles.get(row.id, {}),
            name=row.name,
        )
        loaded[row.key_hash] = LoadedKey(principal, row.name, row.expires_at, row.requests_per_minute)
        if row.previous_hash is not None:
            until = min(row.previous_expires_at, row.expires_at or _NEVER)
            loaded[row.previous_hash] = LoadedKey(principal, row.name, until, row.requests_per_minute)
    return loaded


def note_use(connection: Connection, key_id: str, moment: int) -> None:
    """Keep when a key was last used, unless another server has done so within the last minute."""
    last = API_KEYS.c.last_used_at
    # In both directions: a clock that was set back must not end this for as long.
    is_due = or_(last.is_(None), last <= moment - USE_INTERVAL, last > moment + USE_INTERVAL)
    connection.execute(update(API_KEYS).where(API_KEYS.c.id == key_id, is_due).values(last_used_at=moment))


def find_key(connection: Connection, principal: Principal, key_id: str) -> Row[Any]:
    """Return a key that the caller administers; on PostgreSQL nobody else changes it meanwhile.

    Raises:
        NotFoundError: There is no such key.
    """
    query = select(API_KEYS).where(API_KEYS.c.id == key_id, principal.administers(API_KEYS)).with_for_update()
    row = connection.execute(query).first()
    if row is None:
        raise NotFoundError(f"API key not found: {key_id}")
    return row


def _read_changed(
    connection: Connection, principal: Principal, key_id: str, details: Details | None = None
) -> Row[Any]:
    """Return a key as it is now, and say for the audit log that it has changed."""
    row = find_key(connection, principal, key_id)
    describe_target(
        connection, kind="api-key", id=key_id, name=row.name, tenant=row.tenant_id, details=details
    )
    return row


def _check_may_open(connection: Connection, principal: Principal, key_id: str) -> None:
    """Raise where no other key is left, and the caller would see all tenants on a server without keys."""
    if not principal.is_restricted:
        return
    # Locked: of two who remove the key of the other at the same time, one finds that it is the last.
    others = select(API_KEYS.c.id).where(API_KEYS.c.enabled.is_(true()), API_KEYS.c.id != key_id)
    if connection.execute(others.limit(1).with_for_update()).first() is None:
        raise ConflictError(
            "This is the last key, and without one the server is open to everyone with all its tenants. "
            "Create another key first, or have it removed with DOKIMOS_API_KEY."
        )


def _limit_of_caller(connection: Connection, principal: Principal) -> int | None:
    """The limit of an administrator's own key, None where nothing limits what it gives."""
    if not principal.is_restricted:
        return None
    query = select(API_KEYS.c.requests_per_minute).where(API_KEYS.c.id == principal.id)
    limit: int | None = connection.execute(query).scalar()
    return limit


def _check_limit(limit: int | None, own_limit: int | None, default_limit: int) -> None:
    """Whoever has a limit gives nobody more: neither itself nor a key that it makes."""
    effective = default_limit if limit is None else limit
    if own_limit and not 0 < effective <= own_limit:
        raise ForbiddenError(
            f"Your own key may make {own_limit} requests per minute, and may give others no more; an ADMIN "
            "without a tenant may."
        )


def _check_expiry(expires_at: int | None, moment: int) -> None:
    if expires_at is not None and expires_at <= moment:
        raise InvalidRequestError("must be in the future", field="expiresAt")
