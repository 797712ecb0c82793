"""Members of projects: keys and users with a role there, beside the role that they have everywhere."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, Table, delete, select

from dokimos.server._db.batches import in_batches
from dokimos.server._db.clock import now
from dokimos.server._db.inserts import INSERTS
from dokimos.server._db.key_tables import API_KEYS
from dokimos.server._db.people_tables import PROJECT_MEMBERS
from dokimos.server._db.tables import PROJECTS
from dokimos.server._db.user_tables import USERS
from dokimos.server._services.accounts.principal import Principal, Role
from dokimos.server._services.audit.audit_targets import Details, describe_target
from dokimos.server._services.errors import ConflictError, NotFoundError
from dokimos.server._services.events import Event, EventKind, announce
from dokimos.server._services.projects.projects import find_or_create_project, find_project


class MemberKind(StrEnum):
    """What a member of a project is."""

    KEY = "key"
    USER = "user"


_PEOPLE: Final[Mapping[MemberKind, Table]] = {MemberKind.KEY: API_KEYS, MemberKind.USER: USERS}
"""Where the members of each kind are: tables with `id`, `name` and `tenant_id`."""


@dataclass(frozen=True, slots=True)
class Member:
    """A key or a user with its role in a project."""

    id: str
    kind: MemberKind
    name: str
    role: Role
    created_at: int


@dataclass(frozen=True, slots=True)
class ProjectRole:
    """A role in a project, by the name of the project."""

    project: str
    role: Role


def list_members(connection: Connection, principal: Principal, project_name: str) -> list[Member]:
    """Return the members of a project that the caller administers, by their names.

    Raises:
        NotFoundError: There is no such project that the caller sees.
        RoleError: The caller is not an ADMIN of it.
    """
    project = _find_project(connection, principal, project_name)
    members = []
    for kind, people in _PEOPLE.items():
        query = (
            select(people.c.id, people.c.name, PROJECT_MEMBERS.c.role, PROJECT_MEMBERS.c.created_at)
            .join(PROJECT_MEMBERS, PROJECT_MEMBERS.c.member_id == people.c.id)
            .where(PROJECT_MEMBERS.c.project_id == project.id, principal.administers(people))
        )
        members += [
            Member(row.id, kind, row.name, Role[row.role], row.created_at)
            for row in connection.execute(query)
        ]
    return sorted(members, key=lambda member: (member.name.lower(), member.id))


def set_member(
    connection: Connection, principal: Principal, project_name: str, member_id: str, role: Role
) -> Member:
    """Give a key or a user a role in a project, in place of the one that it had there.

    Raises:
        NotFoundError: There is no such project that the caller sees, or nobody with this id whom it may
            administer.
        RoleError: The caller is not an ADMIN of the project.
        ConflictError: The member belongs to a tenant that does not see the project.
    """
    project = _find_project(connection, principal, project_name)
    kind, person = _find_person(connection, principal, member_id)
    _check_tenant(person, project)
    _insert(connection, principal, project.id, kind, member_id, role)
    _announce(connection, project)
    _describe(connection, member_id, person.name, {"role": role.name})
    is_chosen = (PROJECT_MEMBERS.c.project_id == project.id, PROJECT_MEMBERS.c.member_id == member_id)
    created_at: int = connection.execute(select(PROJECT_MEMBERS.c.created_at).where(*is_chosen)).scalar_one()
    return Member(member_id, kind, person.name, role, created_at)


def remove_member(connection: Connection, principal: Principal, project_name: str, member_id: str) -> None:
    """Take its role in a project from a key or a user.

    Raises what `set_member` raises.
    """
    project = _find_project(connection, principal, project_name)
    _, person = _find_person(connection, principal, member_id)
    is_chosen = (PROJECT_MEMBERS.c.project_id == project.id, PROJECT_MEMBERS.c.member_id == member_id)
    if not connection.execute(delete(PROJECT_MEMBERS).where(*is_chosen)).rowcount:
        raise NotFoundError(f"Member not found: {member_id}")
    _announce(connection, project)
    _describe(connection, member_id, person.name)


def add_to_projects(
    connection: Connection,
    principal: Principal,
    kind: MemberKind,
    person: Row[Any],
    roles: Iterable[ProjectRole],
) -> None:
    """Give a new key or user its roles in projects; a project that does not exist yet is created.

    The names mean what they mean to the new member: its tenant's own project before the shared one.
    """
    for each in roles:
        acting = principal
        if person.tenant_id is not None and not principal.is_restricted:
            acting = Principal(principal.id, principal.role, person.tenant_id, is_restricted=True)
        project = find_or_create_project(connection, acting, each.project)
        principal.check_role(project.id, Role.ADMIN)
        _insert(connection, principal, project.id, kind, person.id, each.role)
        _announce(connection, project)


def remove_memberships(connection: Connection, member_id: str) -> None:
    """Take all roles in projects from a key or a user that is removed."""
    connection.execute(delete(PROJECT_MEMBERS).where(PROJECT_MEMBERS.c.member_id == member_id))


def load_project_roles(
    connection: Connection, kind: MemberKind, member_id: str | None = None
) -> dict[str, dict[str, Role]]:
    """Return the roles of members in projects, by the ids of the members and of the projects.

    Args:
        member_id: The only member that is asked for; by default all of this kind.
    """
    query = select(PROJECT_MEMBERS).where(PROJECT_MEMBERS.c.member_kind == kind)
    if member_id is not None:
        query = query.where(PROJECT_MEMBERS.c.member_id == member_id)
    roles: dict[str, dict[str, Role]] = defaultdict(dict)
    for row in connection.execute(query):
        roles[row.member_id][row.project_id] = Role[row.role]
    return roles


def name_project_roles(connection: Connection, principal: Principal) -> list[dict[str, str]]:
    """Return the caller's roles in the projects that it sees, with their names, as the wire has them."""
    named = []
    for batch in in_batches(sorted(principal.project_roles)):
        query = select(PROJECTS.c.id, PROJECTS.c.name).where(
            PROJECTS.c.id.in_(batch), principal.sees(PROJECTS)
        )
        named += [
            {"projectId": row.id, "project": row.name, "role": principal.project_roles[row.id].name}
            for row in connection.execute(query)
        ]
    return sorted(named, key=lambda each: (each["project"], each["projectId"]))


def _find_project(connection: Connection, principal: Principal, name: str) -> Row[Any]:
    project = find_project(connection, principal, name)
    principal.check_role(project.id, Role.ADMIN)
    return project


def _find_person(connection: Connection, principal: Principal, member_id: str) -> tuple[MemberKind, Row[Any]]:
    for kind, people in _PEOPLE.items():
        query: Select[Any] = select(people.c.id, people.c.name, people.c.tenant_id)
        row = connection.execute(query.where(people.c.id == member_id, principal.administers(people))).first()
        if row is not None:
            return kind, row
    raise NotFoundError(f"There is no key or user with the id {member_id}")


def _check_tenant(person: Row[Any], project: Row[Any]) -> None:
    if person.tenant_id is not None and project.tenant_id not in (None, person.tenant_id):
        raise ConflictError(
            f"'{person.name}' belongs to the tenant '{person.tenant_id}', which does not see this project"
        )


def _insert(
    connection: Connection,
    principal: Principal,
    project_id: str,
    kind: MemberKind,
    member_id: str,
    role: Role,
) -> None:
    statement = INSERTS[connection.dialect.name](PROJECT_MEMBERS).values(
        project_id=project_id,
        member_id=member_id,
        member_kind=kind,
        role=role.name,
        created_by=principal.id,
        created_at=now(),
    )
    connection.execute(
        statement.on_conflict_do_update(index_elements=["project_id", "member_id"], set_={"role": role.name})
    )


def _announce(connection: Connection, project: Row[Any]) -> None:
    event = Event(kind=EventKind.MEMBERS_CHANGED, tenants=(project.tenant_id,), project_id=project.id)
    announce(connection, event)


def _describe(connection: Connection, member_id: str, name: str, details: Details | None = None) -> None:
    describe_target(connection, kind="member", id=member_id, name=name, details=details)
