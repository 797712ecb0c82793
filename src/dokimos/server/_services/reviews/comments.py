"""Comments on runs and on their items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, delete, insert, select, update

from dokimos.server._db.clock import now
from dokimos.server._db.ids import new_id
from dokimos.server._db.tables import ITEMS, RUN_COMMENTS
from dokimos.server._services.accounts.principal import Principal, Role
from dokimos.server._services.errors import ForbiddenError, NotFoundError
from dokimos.server._services.events import EventKind, announce_run
from dokimos.server._services.list_pages import ListPage, SortKeys, read_page
from dokimos.server._services.projects.projects import contains
from dokimos.server._services.runs.runs import find_run


def add_comment(
    connection: Connection, principal: Principal, run_id: str, body: str, item_id: str | None
) -> Row[Any]:
    """Comment on a run, or on one of its items.

    A tenant's comment on a shared run is the tenant's own; it changes nothing that is shared.

    Raises:
        NotFoundError: There is no such run that the caller sees, or it has no such item.
        RoleError: The caller's role in the project of the run is too low.
    """
    run = find_run(connection, principal, run_id)
    principal.check_role(run.project_id)
    if item_id is not None:
        query = select(ITEMS.c.id).where(ITEMS.c.id == item_id, ITEMS.c.run_id == run_id)
        if connection.execute(query).first() is None:
            raise NotFoundError(f"Item not found in this run: {item_id}")
    comment_id = new_id()
    connection.execute(
        insert(RUN_COMMENTS).values(
            id=comment_id,
            run_id=run_id,
            tenant_id=principal.tenant,
            item_id=item_id,
            body=body,
            created_by=principal.id,
            created_at=now(),
        )
    )
    comment = _find(connection, principal, run_id, comment_id)
    _announce(connection, EventKind.COMMENT_CREATED, run, comment)
    return comment


COMMENT_ORDERS: Final = SortKeys(
    {"createdAt": RUN_COMMENTS.c.created_at}, ties=(RUN_COMMENTS.c.id,), default="createdAt"
)


def list_comments(
    connection: Connection,
    principal: Principal,
    run_id: str,
    page: ListPage,
    *,
    item_id: str | None,
    search: str | None,
) -> Sequence[Row[Any]]:
    """Return a page of the comments on a run and its items, or on one item.

    Raises:
        NotFoundError: There is no such run that the caller sees.
    """
    find_run(connection, principal, run_id)
    visible = select(RUN_COMMENTS).where(RUN_COMMENTS.c.run_id == run_id, principal.sees(RUN_COMMENTS))
    conditions = [contains(RUN_COMMENTS.c.body, search)] if search else []
    if item_id is not None:
        conditions.append(RUN_COMMENTS.c.item_id == item_id)
    return read_page(connection, visible, page, RUN_COMMENTS.c.id, *conditions)


def edit_comment(
    connection: Connection, principal: Principal, run_id: str, comment_id: str, body: str
) -> Row[Any]:
    """Change the text of a comment of the caller's own; return it as it is then.

    Raises:
        NotFoundError: There is none that the caller sees.
        RoleError: The caller's role in the project of the run is too low by now.
        ForbiddenError: It is somebody else's.
    """
    run = find_run(connection, principal, run_id)
    comment = _find(connection, principal, run_id, comment_id)
    principal.check_role(run.project_id)
    if comment.created_by != principal.id:
        raise ForbiddenError("The comment is somebody else's; only who wrote it can change it.")
    if comment.body == body:
        return comment
    change = update(RUN_COMMENTS).where(RUN_COMMENTS.c.id == comment_id)
    connection.execute(change.values(body=body, edited_at=now()))
    _announce(connection, EventKind.COMMENT_UPDATED, run, comment)
    return _find(connection, principal, run_id, comment_id)


def delete_comment(connection: Connection, principal: Principal, run_id: str, comment_id: str) -> None:
    """Delete a comment of the caller's own; an ADMIN of the project deletes any.

    Raises:
        NotFoundError: There is none that the caller sees.
        ForbiddenError: It is somebody else's, or it is shared, and closed to this caller.
    """
    run = find_run(connection, principal, run_id)
    comment = _find(connection, principal, run_id, comment_id)
    if comment.created_by != principal.id and principal.role_in(run.project_id) < Role.ADMIN:
        raise ForbiddenError("The comment is somebody else's; only who wrote it, or an ADMIN, deletes it.")
    principal.check_may_write(comment.tenant_id, "The comment", project=run.project_id)
    connection.execute(delete(RUN_COMMENTS).where(RUN_COMMENTS.c.id == comment_id))
    _announce(connection, EventKind.COMMENT_DELETED, run, comment)


def _announce(connection: Connection, kind: EventKind, run: Row[Any], comment: Row[Any]) -> None:
    data = {"commentId": comment.id, "itemId": comment.item_id}
    announce_run(connection, kind, run, data, tenants=(comment.tenant_id,))


def _find(connection: Connection, principal: Principal, run_id: str, comment_id: str) -> Row[Any]:
    query = select(RUN_COMMENTS).where(
        RUN_COMMENTS.c.id == comment_id, RUN_COMMENTS.c.run_id == run_id, principal.sees(RUN_COMMENTS)
    )
    row = connection.execute(query).first()
    if row is None:
        raise NotFoundError(f"Comment not found: {comment_id}")
    return row
