"""Projects and experiments: created by the first run that names them, listed, deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Table,
    and_,
    delete,
    func,
    literal,
    not_,
    select,
    true,
    update,
)

from dokimos.server._db.clock import now
from dokimos.server._db.database import Overtaken
from dokimos.server._db.ids import new_id
from dokimos.server._db.inserts import insert_if_absent
from dokimos.server._db.people_tables import PROJECT_DATASETS, PROJECT_MEMBERS
from dokimos.server._db.tables import EXPERIMENTS, PROJECTS, RUNS
from dokimos.server._db.trace_alert_tables import TRACE_ALERTS
from dokimos.server._db.trace_rule_tables import TRACE_EVAL_RULES
from dokimos.server._services.accounts.principal import Principal, Role
from dokimos.server._services.errors import ConflictError, NotFoundError, RoleError
from dokimos.server._services.events import Event, EventData, EventKind, announce
from dokimos.server._services.list_pages import ListPage, SortKeys, read_page
from dokimos.server._services.online.rule_removal import remove_rules_of_project
from dokimos.server._services.projects.names import check_name
from dokimos.server._services.visible_counts import activity_at, select_counted, visible_activity


def find_named(
    connection: Connection, table: Table, principal: Principal, *conditions: ColumnElement[bool]
) -> Row[Any] | None:
    """Return the row that a name means: the tenant's own before the shared one, None where there is none.

    A caller that sees all tenants means the shared row, and where there is none the oldest.
    """
    is_shared = table.c.tenant_id.is_(None)
    first = is_shared if principal.is_restricted else ~is_shared
    query = (
        select(table).where(principal.sees(table), *conditions).order_by(first, table.c.created_at).limit(1)
    )
    return connection.execute(query).first()


def find_project(connection: Connection, principal: Principal, name: str) -> Row[Any]:
    """Return a project by its name.

    Raises:
        NotFoundError: There is none that the caller sees.
    """
    row = find_named(connection, PROJECTS, principal, PROJECTS.c.name == name)
    if row is None:
        raise NotFoundError(f"Project not found: {name}")
    return row


def find_project_by_id(connection: Connection, principal: Principal, project_id: str) -> Row[Any]:
    """Return a project by its id.

    Raises:
        NotFoundError: There is none that the caller sees.
    """
    query = select(PROJECTS).where(PROJECTS.c.id == project_id, principal.sees(PROJECTS))
    row = connection.execute(query).first()
    if row is None:
        raise NotFoundError(f"Project not found: {project_id}")
    return row


def find_experiment(connection: Connection, principal: Principal, experiment_id: str) -> Row[Any]:
    """Return an experiment by its id.

    Raises:
        NotFoundError: There is none that the caller sees.
    """
    query = select(EXPERIMENTS).where(EXPERIMENTS.c.id == experiment_id, principal.sees(EXPERIMENTS))
    row = connection.execute(query).first()
    if row is None:
        raise NotFoundError(f"Experiment not found: {experiment_id}")
    return row


def find_experiment_with_project(
    connection: Connection, principal: Principal, experiment_id: str
) -> Row[Any]:
    """Return an experiment by its id, with the name of its project as `project_name`.

    Raises:
        NotFoundError: There is none that the caller sees.
    """
    query = (
        select(EXPERIMENTS, PROJECTS.c.name.label("project_name"))
        .join(PROJECTS, PROJECTS.c.id == EXPERIMENTS.c.project_id)
        .where(EXPERIMENTS.c.id == experiment_id, principal.sees(EXPERIMENTS))
    )
    row = connection.execute(query).first()
    if row is None:
        raise NotFoundError(f"Experiment not found: {experiment_id}")
    return row


def find_or_create_project(connection: Connection, principal: Principal, name: str) -> Row[Any]:
    """Return a project by its name, created with the caller's tenant where there is none.

    Raises:
        RoleError: There is none that the caller sees, and its role allows it to create none. It is told the
            same where there is one that it does not see.
    """
    check_name(name, "projectName")
    row = find_named(connection, PROJECTS, principal, PROJECTS.c.name == name)
    if row is not None:
        return row
    if principal.role < Role.EDITOR:
        raise RoleError(
            f"Insufficient role: EDITOR required to create the project '{name}'. A role in some projects is "
            "not enough for that; if the project exists, it has to be given to this key or user."
        )
    moment = now()
    is_new = insert_if_absent(  # or wait for who inserts the same name
        connection,
        PROJECTS,
        id=new_id(),
        tenant_id=principal.tenant,
        name=name,
        created_at=moment,
        **activity_at(moment, principal.tenant),
    )
    row = find_named(connection, PROJECTS, principal, PROJECTS.c.name == name)
    if row is None:  # the other one's, which is deleted by now
        raise Overtaken
    if is_new:
        announce_project(connection, EventKind.PROJECT_CREATED, row)
    return row


def find_or_create_experiment(
    connection: Connection, principal: Principal, project: Row[Any], name: str
) -> Row[Any]:
    """Return an experiment of a project by its name, created with the caller's tenant where there is none."""
    check_name(name, "experimentName")
    conditions = (EXPERIMENTS.c.project_id == project.id, EXPERIMENTS.c.name == name)
    row = find_named(connection, EXPERIMENTS, principal, *conditions)
    if row is not None:
        return row
    is_new = insert_if_absent(
        connection,
        EXPERIMENTS,
        id=new_id(),
        project_id=project.id,
        # An unrestricted caller below a tenant's project works for that tenant.
        tenant_id=principal.tenant if principal.is_restricted else project.tenant_id,
        name=name,
        created_at=now(),
    )
    row = find_named(connection, EXPERIMENTS, principal, *conditions)
    if row is None:
        raise Overtaken
    if is_new:
        _count_experiments(connection, row, 1)
        announce_experiment(connection, EventKind.EXPERIMENT_CREATED, row)
    return row


@dataclass(frozen=True, slots=True)
class ProjectSummary:
    """A project as lists show it."""

    id: str
    name: str
    experiment_count: int
    run_count: int
    created_at: int
    last_activity_at: int


PROJECT_ORDERS: Final = SortKeys(
    {
        "createdAt": PROJECTS.c.created_at,
        "name": func.lower(PROJECTS.c.name),
        "lastActivityAt": PROJECTS.c.last_activity_at,
    },
    ties=(PROJECTS.c.id,),
    default="createdAt,desc",
)


def list_projects(
    connection: Connection, principal: Principal, page: ListPage, *, search: str | None = None
) -> list[ProjectSummary]:
    """Return a page of the projects that the caller sees."""
    visible = select_counted(PROJECTS, principal).where(principal.sees(PROJECTS))
    conditions = [contains(PROJECTS.c.name, search)] if search else []
    page = replace(page, order=page.order.replace({PROJECTS.c.last_activity_at: visible_activity(principal)}))
    return [
        ProjectSummary(
            row.id, row.name, row.experiment_count, row.run_count, row.created_at, row.last_activity_at
        )
        for row in read_page(connection, visible, page, PROJECTS.c.id, *conditions)
    ]


def delete_project(connection: Connection, principal: Principal, name: str) -> None:
    """Delete a project with all that is below it.

    Raises:
        NotFoundError: There is none of that name.
        ForbiddenError: It is shared, and closed to this caller.
        ConflictError: It is shared, and holds what belongs to other tenants.
    """
    project = find_project(connection, principal, name)
    principal.check_may_write(project.tenant_id, f"The project '{name}'", project=project.id)
    is_below = (
        (RUNS, RUNS.c.project_id == project.id),
        (EXPERIMENTS, EXPERIMENTS.c.project_id == project.id),
    )
    rules = (TRACE_EVAL_RULES, TRACE_EVAL_RULES.c.project_id == project.id)
    alerts = (TRACE_ALERTS, TRACE_ALERTS.c.project_id == project.id)
    _check_holds_no_foreign_rows(connection, principal, f"The project '{name}'", (*is_below, rules, alerts))
    moment = now()
    # Twice what is below: a run that was being started kept us waiting for the row of its project.
    for table, condition in (*is_below, (PROJECTS, PROJECTS.c.id == project.id), *is_below):
        connection.execute(
            update(table).where(condition, table.c.deleted_at.is_(None)).values(deleted_at=moment)
        )
    for table in (PROJECT_MEMBERS, PROJECT_DATASETS):  # nobody sees anything through it any more
        connection.execute(delete(table).where(table.c.project_id == project.id))
    connection.execute(delete(TRACE_ALERTS).where(TRACE_ALERTS.c.project_id == project.id))
    remove_rules_of_project(connection, project.id)  # nothing is scored any more, and connections are free
    announce_project(connection, EventKind.PROJECT_DELETED, project)


def delete_experiment(connection: Connection, principal: Principal, experiment_id: str) -> None:
    """Delete an experiment with its runs.

    Raises:
        NotFoundError: There is none that the caller sees.
        ForbiddenError: It is shared, and closed to this caller.
        ConflictError: It is shared, and holds runs of other tenants.
    """
    experiment = find_experiment(connection, principal, experiment_id)
    what = f"The experiment '{experiment.name}'"
    principal.check_may_write(experiment.tenant_id, what, project=experiment.project_id)
    _check_holds_no_foreign_rows(
        connection, principal, what, ((RUNS, RUNS.c.experiment_id == experiment_id),)
    )
    moment = now()
    is_there = (EXPERIMENTS.c.id == experiment_id, EXPERIMENTS.c.deleted_at.is_(None))
    if not connection.execute(update(EXPERIMENTS).where(*is_there).values(deleted_at=moment)).rowcount:
        raise NotFoundError(f"Experiment not found: {experiment_id}")  # another request was quicker
    is_below = (RUNS.c.experiment_id == experiment_id, RUNS.c.deleted_at.is_(None))
    runs = connection.execute(update(RUNS).where(*is_below).values(deleted_at=moment)).rowcount
    _count_experiments(connection, experiment, -1, runs=-runs)
    announce_experiment(connection, EventKind.EXPERIMENT_DELETED, experiment)


def announce_project(connection: Connection, kind: EventKind, project: Row[Any]) -> None:
    """Publish an event about a project after the commit."""
    announce(connection, Event(kind=kind, tenants=(project.tenant_id,), project_id=project.id))


def announce_experiment(
    connection: Connection, kind: EventKind, experiment: Row[Any], data: EventData | None = None
) -> None:
    """Publish an event about an experiment after the commit."""
    announce(
        connection,
        Event(
            kind=kind,
            tenants=(experiment.tenant_id,),
            project_id=experiment.project_id,
            experiment_id=experiment.id,
            data=data or {},
        ),
    )


def contains(column: ColumnElement[str], text: str) -> ColumnElement[bool]:
    """The condition that a text occurs in a column, whatever the case of its letters."""
    escaped = text.lower().replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return func.lower(column).like(literal(f"%{escaped}%"), escape="\\")


def _check_holds_no_foreign_rows(
    connection: Connection,
    principal: Principal,
    what: str,
    parts: Sequence[tuple[Table, ColumnElement[bool]]],
) -> None:
    if not principal.is_restricted:
        return
    for table, is_below in parts:
        is_there = table.c.deleted_at.is_(None) if "deleted_at" in table.c else true()
        is_foreign = and_(is_below, is_there, not_(principal.sees(table)))
        if connection.execute(select(table.c.id).where(is_foreign).limit(1)).first() is not None:
            raise ConflictError(
                f"{what} holds runs or rules of other tenants; only a key without a tenant can delete it"
            )


def _count_experiments(connection: Connection, experiment: Row[Any], change: int, *, runs: int = 0) -> None:
    connection.execute(
        update(PROJECTS)
        .where(PROJECTS.c.id == experiment.project_id)
        .values(
            experiment_count=PROJECTS.c.experiment_count + change,
            run_count=PROJECTS.c.run_count + runs,
            **activity_at(now(), experiment.tenant_id),
        )
    )
