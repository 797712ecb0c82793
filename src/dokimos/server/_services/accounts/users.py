"""People who sign in with an identity provider or through a proxy: known by what that one calls them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Row, func, or_, select, update

from dokimos.server._db.clock import now
from dokimos.server._db.ids import new_id
from dokimos.server._db.inserts import insert_if_absent
from dokimos.server._db.user_tables import USED_SIGN_INS, USERS
from dokimos.server._services.accounts.members import MemberKind, load_project_roles, remove_memberships
from dokimos.server._services.accounts.principal import Principal, Role, worker
from dokimos.server._services.accounts.sessions import SEEN_INTERVAL, end_sessions_of_user
from dokimos.server._services.audit.audit_actions import Target
from dokimos.server._services.audit.audit_log import record_action
from dokimos.server._services.audit.audit_targets import Details, describe_target
from dokimos.server._services.errors import ForbiddenError, NotFoundError
from dokimos.server._services.list_pages import ListPage, SortKeys, read_page
from dokimos.server._services.projects.projects import contains

TRUSTED_PROXY: Final = "trusted proxy"
"""The issuer of those whom a proxy names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who signs in, as an identity provider or a proxy says, and what that means here."""

    issuer: str
    subject: str
    """What the issuer calls somebody: the same for ever, and nobody else's."""
    name: str
    email: str | None
    role: str
    tenant: str | None


def has_administrator(connection: Connection) -> bool:
    """Whether somebody was made an `ADMIN` of the whole server here, whatever their groups say."""
    is_admin = (USERS.c.role_override == Role.ADMIN.name) & USERS.c.enabled & USERS.c.tenant_id.is_(None)
    return connection.execute(select(USERS.c.id).where(is_admin).limit(1)).first() is not None


def record_sign_in(connection: Connection, identity: Identity) -> Row[Any]:
    """Keep who signs in, with the role and the tenant of today; return the row.

    Whoever has moved to another tenant leaves behind what administrators have given there.

    Raises:
        ForbiddenError: An administrator has disabled this user.
    """
    moment = now()
    values = {
        "name": identity.name,
        "email": identity.email,
        "role": identity.role,
        "tenant_id": identity.tenant,
        "last_seen_at": moment,
    }
    is_new = insert_if_absent(
        connection,
        USERS,
        id=new_id(),
        issuer=identity.issuer,
        subject=identity.subject,
        enabled=True,
        created_at=moment,
        **values,
    )
    is_chosen = (USERS.c.issuer == identity.issuer) & (USERS.c.subject == identity.subject)
    user = connection.execute(select(USERS).where(is_chosen).with_for_update()).one()
    check_enabled(user)
    if not is_new:
        if user.tenant_id != identity.tenant:
            _end_given_roles(connection, user, identity)
        connection.execute(update(USERS).where(is_chosen).values(**values))
    return connection.execute(select(USERS).where(is_chosen)).one()


def find_identity(connection: Connection, identity: Identity) -> Row[Any] | None:
    """Return the user that an identity is, None where that is not known, or not as it is now.

    Raises:
        ForbiddenError: An administrator has disabled this user.
    """
    is_chosen = (USERS.c.issuer == identity.issuer) & (USERS.c.subject == identity.subject)
    user = connection.execute(select(USERS).where(is_chosen)).first()
    if user is None:
        return None
    check_enabled(user)
    is_same = (user.name, user.email, user.role, user.tenant_id) == (
        identity.name,
        identity.email,
        identity.role,
        identity.tenant,
    )
    return user if is_same and abs(now() - user.last_seen_at) < SEEN_INTERVAL else None


def check_enabled(user: Row[Any]) -> None:
    """Raise `ForbiddenError` where an administrator has disabled a user."""
    if not user.enabled:
        raise ForbiddenError("An administrator of this server has disabled your account.")


def effective_role(user: Row[Any]) -> Role:
    """Return the role of a user: that which an administrator has set, or else that of its groups."""
    return Role[user.role_override or user.role]


def principal_of_user(connection: Connection, user: Row[Any], *, may_write_shared: bool) -> Principal:
    """Return what a user may do."""
    project_roles = load_project_roles(connection, MemberKind.USER, user.id)
    return Principal(
        user.id,
        effective_role(user),
        user.tenant_id,
        is_restricted=user.tenant_id is not None,
        may_write_shared=may_write_shared,
        project_roles=project_roles.get(user.id, {}),
        kind="user",
        name=user.name,
    )


def use_once(connection: Connection, state_hash: str, expires_at: int) -> None:
    """Keep that an answer of the identity provider was accepted.

    Raises:
        ForbiddenError: It was accepted before.
    """
    connection.execute(USED_SIGN_INS.delete().where(USED_SIGN_INS.c.expires_at <= now()))
    if not insert_if_absent(connection, USED_SIGN_INS, state_hash=state_hash, expires_at=expires_at):
        raise ForbiddenError("This sign-in has been used already; sign in again.")


USER_ORDERS: Final = SortKeys(
    {
        "name": func.lower(USERS.c.name),
        "email": func.lower(func.coalesce(USERS.c.email, "")),
        "createdAt": USERS.c.created_at,
        "lastSeenAt": USERS.c.last_seen_at,
    },
    ties=(USERS.c.id,),
    default="name",
)


def list_users(
    connection: Connection, principal: Principal, page: ListPage, *, search: str | None
) -> Sequence[Row[Any]]:
    """Return a page of the users that the caller administers."""
    visible = select(USERS).where(principal.administers(USERS))
    columns = (USERS.c.name, USERS.c.email, USERS.c.subject)
    conditions = [or_(*(contains(column, search) for column in columns))] if search else []
    return read_page(connection, visible, page, USERS.c.id, *conditions)


def set_role_override(
    connection: Connection, principal: Principal, user_id: str, role: Role | None
) -> Row[Any]:
    """Give a user a role that counts instead of that of its groups; None removes it.

    Raises:
        NotFoundError: There is no such user that the caller administers.
    """
    find_user(connection, principal, user_id)
    override = None if role is None else role.name
    connection.execute(update(USERS).where(USERS.c.id == user_id).values(role_override=override))
    return _read_changed(connection, principal, user_id, {"roleOverride": override})


def set_user_enabled(
    connection: Connection, principal: Principal, user_id: str, *, enabled: bool
) -> Row[Any]:
    """Let a user in again, or keep it out, which ends all its sessions.

    Raises:
        NotFoundError: There is no such user that the caller administers.
    """
    find_user(connection, principal, user_id)
    connection.execute(update(USERS).where(USERS.c.id == user_id).values(enabled=enabled))
    if not enabled:
        end_sessions_of_user(connection, user_id)
    return _read_changed(connection, principal, user_id)


def find_user(connection: Connection, principal: Principal, user_id: str) -> Row[Any]:
    """Return a user that the caller administers; on PostgreSQL nobody else changes it meanwhile.

    Raises:
        NotFoundError: There is no such user.
    """
    query = select(USERS).where(USERS.c.id == user_id, principal.administers(USERS)).with_for_update()
    user = connection.execute(query).first()
    if user is None:
        raise NotFoundError(f"User not found: {user_id}")
    return user


def _read_changed(
    connection: Connection, principal: Principal, user_id: str, details: Details | None = None
) -> Row[Any]:
    """Return a user as it is now, and say for the audit log that it has changed."""
    user = find_user(connection, principal, user_id)
    describe_target(
        connection, kind="user", id=user_id, name=user.name, tenant=user.tenant_id, details=details
    )
    return user


def _end_given_roles(connection: Connection, user: Row[Any], identity: Identity) -> None:
    """Take what administrators have given a user who belongs to another tenant from now on.

    An administrator of a tenant decides for that tenant alone: what is given there must not hold in another
    one, let alone in all of them. A role that keeps somebody below that of the groups stays.
    """
    override = user.role_override
    if override is not None and Role[override] > Role[identity.role]:
        connection.execute(update(USERS).where(USERS.c.id == user.id).values(role_override=None))
    remove_memberships(connection, user.id)
    # Whoever comes through a proxy may only read: no request would say that this has changed.
    record_action(
        connection,
        "user.move",
        worker("Signing in"),
        target=Target("user", user.id, identity.name),
        details={"from": user.tenant_id, "to": identity.tenant, "formerRoleOverride": override},
    )
