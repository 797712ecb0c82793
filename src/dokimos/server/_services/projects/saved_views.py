"""Saved views: parameters of lists under a name, of one caller or shared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, and_, delete, func, or_, select, update

from dokimos.server._db.clock import now
from dokimos.server._db.ids import new_id
from dokimos.server._db.inserts import insert_if_absent
from dokimos.server._db.tables import PROJECTS
from dokimos.server._db.view_tables import SAVED_VIEWS
from dokimos.server._services.accounts.principal import Principal, Role
from dokimos.server._services.audit.audit_targets import describe_target
from dokimos.server._services.errors import ConflictError, ForbiddenError, NotFoundError, RoleError
from dokimos.server._services.events import Event, EventKind, announce
from dokimos.server._services.list_pages import ListPage, SortKeys, read_page
from dokimos.server._services.projects.names import check_name
from dokimos.server._services.projects.projects import contains, find_project

MAX_VIEWS: Final = 500
"""Views that one caller may have."""


class ViewKind(StrEnum):
    """The list that a view is of."""

    RUNS = "runs"
    ITEMS = "items"
    EXPERIMENTS = "experiments"
    DATASETS = "datasets"
    TRACES = "traces"
    REVIEW = "review"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewView:
    """A view to save."""

    kind: ViewKind
    name: str
    query: str
    """JSON."""
    project: str | None = None
    """The name of the project whose lists it is for; None for those of all projects."""
    is_shared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewChange:
    """What changes of a view; None leaves it as it is."""

    name: str | None = None
    query: str | None = None
    is_shared: bool | None = None


def save_view(connection: Connection, principal: Principal, new: NewView) -> Row[Any]:
    """Save a view of the caller's own.

    Raises:
        ConflictError: The caller has one of that name for this list, or has too many.
        NotFoundError: There is no such project that the caller sees.
        RoleError: It would be shared, and the caller may only read.
    """
    check_name(new.name, "name")
    project_id = None if new.project is None else find_project(connection, principal, new.project).id
    _check_may_share(principal, project_id, is_shared=new.is_shared)
    count = select(func.count()).select_from(SAVED_VIEWS).where(SAVED_VIEWS.c.owner == principal.id)
    if connection.execute(count).scalar_one() >= MAX_VIEWS:
        raise ConflictError(f"You have {MAX_VIEWS} saved views, as many as there may be; delete one first")
    view_id, moment = new_id(), now()
    is_new = insert_if_absent(
        connection,
        SAVED_VIEWS,
        id=view_id,
        tenant_id=principal.tenant,
        project_id=project_id,
        owner=principal.id,
        kind=new.kind,
        name=new.name,
        query=new.query,
        is_shared=new.is_shared,
        created_at=moment,
        updated_at=moment,
    )
    if not is_new:
        raise _name_taken(new.name)
    view = find_view(connection, principal, view_id)
    _announce(connection, EventKind.VIEW_CHANGED, view)
    describe_target(connection, kind="view", id=view_id, name=new.name, tenant=principal.tenant)
    return view


VIEW_ORDERS: Final = SortKeys(
    {"name": func.lower(SAVED_VIEWS.c.name), "updatedAt": SAVED_VIEWS.c.updated_at},
    ties=(SAVED_VIEWS.c.id,),
    default="name",
)


def list_views(
    connection: Connection,
    principal: Principal,
    page: ListPage,
    *,
    kind: ViewKind | None = None,
    project: str | None = None,
    search: str | None = None,
) -> Sequence[Row[Any]]:
    """Return a page of the caller's views and of those that are shared with it.

    Args:
        project: The name of a project: views for its lists, and those for all projects.

    Raises:
        NotFoundError: There is no such project that the caller sees.
    """
    conditions = [contains(SAVED_VIEWS.c.name, search)] if search else []
    if kind is not None:
        conditions.append(SAVED_VIEWS.c.kind == kind)
    if project is not None:
        project_id = find_project(connection, principal, project).id
        conditions.append(or_(SAVED_VIEWS.c.project_id == project_id, SAVED_VIEWS.c.project_id.is_(None)))
    return read_page(connection, _select_visible(principal), page, SAVED_VIEWS.c.id, *conditions)


def find_view(connection: Connection, principal: Principal, view_id: str) -> Row[Any]:
    """Return a view by its id, with the name of its project.

    Raises:
        NotFoundError: There is none that is the caller's own or shared with it.
    """
    row = connection.execute(_select_visible(principal).where(SAVED_VIEWS.c.id == view_id)).first()
    if row is None:
        raise NotFoundError(f"View not found: {view_id}")
    return row


def change_view(connection: Connection, principal: Principal, view_id: str, change: ViewChange) -> Row[Any]:
    """Change a view of the caller's own; return it as it is then.

    Raises:
        NotFoundError: There is none that the caller sees.
        ForbiddenError: It is somebody else's.
        ConflictError: The caller has another one of that name.
        RoleError: It would be shared, and the caller may only read.
    """
    view = find_view(connection, principal, view_id)
    if view.owner != principal.id:
        raise ForbiddenError(f"The view '{view.name}' is somebody else's; save one of your own.")
    _check_may_share(principal, view.project_id, is_shared=bool(change.is_shared))
    if change.name is not None and change.name != view.name:
        check_name(change.name, "name")
        if _has_view_of_name(connection, view, change.name):
            raise _name_taken(change.name)
    values = {"name": change.name, "query": change.query, "is_shared": change.is_shared}
    chosen = {key: value for key, value in values.items() if value is not None}
    connection.execute(
        update(SAVED_VIEWS).where(SAVED_VIEWS.c.id == view_id).values(**chosen, updated_at=now())
    )
    after = find_view(connection, principal, view_id)
    # Once it is not shared any more, it is gone for the others.
    gone = view.is_shared and not after.is_shared
    _announce(connection, EventKind.VIEW_DELETED if gone else EventKind.VIEW_CHANGED, view if gone else after)
    return after


def delete_view(connection: Connection, principal: Principal, view_id: str) -> None:
    """Delete a view of the caller's own; an ADMIN deletes any that is shared.

    Raises:
        NotFoundError: There is none that the caller sees.
        ForbiddenError: It is somebody else's.
    """
    view = find_view(connection, principal, view_id)
    if view.owner != principal.id:
        if principal.role_in(view.project_id) < Role.ADMIN:
            raise ForbiddenError(f"The view '{view.name}' is somebody else's; only an ADMIN deletes it.")
        principal.check_may_write(view.tenant_id, f"The view '{view.name}'", project=view.project_id)
    connection.execute(delete(SAVED_VIEWS).where(SAVED_VIEWS.c.id == view_id))
    _announce(connection, EventKind.VIEW_DELETED, view)


def _select_visible(principal: Principal) -> Select[Any]:
    is_shared = and_(SAVED_VIEWS.c.is_shared, principal.sees(SAVED_VIEWS))
    has_project = or_(SAVED_VIEWS.c.project_id.is_(None), principal.sees(PROJECTS))
    return (
        select(SAVED_VIEWS, PROJECTS.c.name.label("project_name"))
        .outerjoin(PROJECTS, PROJECTS.c.id == SAVED_VIEWS.c.project_id)
        .where(or_(SAVED_VIEWS.c.owner == principal.id, is_shared), has_project)
    )


def _has_view_of_name(connection: Connection, view: Row[Any], name: str) -> bool:
    same = [SAVED_VIEWS.c[key] == getattr(view, key) for key in ("owner", "kind")]
    of_project = SAVED_VIEWS.c.project_id.is_not_distinct_from(view.project_id)
    query = select(SAVED_VIEWS.c.id).where(*same, of_project, SAVED_VIEWS.c.name == name)
    return connection.execute(query).first() is not None


def _name_taken(name: str) -> ConflictError:
    return ConflictError(f"You have a view named '{name}' for this list already")


def _check_may_share(principal: Principal, project_id: str | None, *, is_shared: bool) -> None:
    if is_shared and principal.role_in(project_id) < Role.EDITOR:
        raise RoleError("Insufficient role: EDITOR required to share a view")


def _announce(connection: Connection, kind: EventKind, view: Row[Any]) -> None:
    """Tell those with whom a view is shared."""
    if view.is_shared:
        event = Event(
            kind=kind, tenants=(view.tenant_id,), project_id=view.project_id, data={"viewId": view.id}
        )
        announce(connection, event)
