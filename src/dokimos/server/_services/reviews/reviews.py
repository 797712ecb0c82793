"""What each reviewer says about an item: kept with its history; the latest of a tenant is its annotation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    Table,
    and_,
    delete,
    false,
    func,
    insert,
    select,
    true,
    update,
)

from dokimos.server._db.clock import now
from dokimos.server._db.ids import new_id
from dokimos.server._db.inserts import INSERTS
from dokimos.server._db.review_tables import REVIEW_CHANGES, REVIEW_CLAIMS, REVIEWS
from dokimos.server._db.tables import ANNOTATIONS, ITEMS, PROJECTS
from dokimos.server._services.accounts.principal import Principal, Role
from dokimos.server._services.errors import ConflictError, NotFoundError
from dokimos.server._services.events import EventKind, announce_run
from dokimos.server._services.projects.project_settings import read_settings
from dokimos.server._services.reviews.review_counts import count_verdict
from dokimos.server._services.runs.runs import find_run

SHARED: Final = ""
"""The tenant of what is shared, in the tables of annotations and reviews."""


class Verdict(StrEnum):
    """What a person thinks of an item's output."""

    CORRECT = "CORRECT"
    INCORRECT = "INCORRECT"
    UNSURE = "UNSURE"


class ReviewChange(StrEnum):
    """What was done to a review."""

    GIVEN = "GIVEN"
    WITHDRAWN = "WITHDRAWN"
    UNDONE = "UNDONE"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAnnotation:
    """What a person says about an item. Texts that are JSON are JSON already."""

    verdict: Verdict
    overridden_expected_output: str | None = None
    note: str | None = None
    """A JSON string."""
    labels: str | None = None
    """A JSON object."""


_SAID: Final = ("verdict", "overridden_expected_output", "note", "labels")
_ANNOTATED: Final = _SAID[:3]
_CHANCE: Final = ("sampled", "selection_probability")
_DUMPED: Final = (*_SAID, "updated_at", *_CHANCE)
"""What the history keeps of a review. Rows of earlier versions end before the chance of the item."""


@dataclass(frozen=True, slots=True)
class Reviewed:
    """An item whose run is locked, and for which tenant its reviews are changed."""

    run: Row[Any]
    item: Row[Any]
    tenant: str


def open_item(connection: Connection, principal: Principal, run_id: str, item_id: str) -> Reviewed:
    """Lock the run of an item whose reviews the caller changes.

    Raises:
        NotFoundError: The run has no such item, or the caller does not see the run, or it is deleted.
        RoleError: The caller's role in the project is too low.
        ForbiddenError: The run is shared, and closed to this caller.
    """
    # Whoever sends to the run, ends or deletes it takes turns with this.
    run = find_run(connection, principal, run_id, for_update=True)
    item = find_item(connection, run, item_id)
    principal.check_role(run.project_id)
    tenant = tenant_of(principal, run)
    if tenant == SHARED:
        principal.check_may_write(None, "The run", project=run.project_id)
    return Reviewed(run, item, tenant)


def tenant_of(principal: Principal, run: Row[Any]) -> str:
    """Return for which tenant a caller reviews the items of a run."""
    return (principal.tenant if principal.is_restricted else run.tenant_id) or SHARED


def find_item(connection: Connection, run: Row[Any], item_id: str) -> Row[Any]:
    """Return the item of a run.

    Raises:
        NotFoundError: The run has no such item.
    """
    query: Select[Any] = select(ITEMS.c.id, ITEMS.c.run_id, ITEMS.c.passed, ITEMS.c.reviewed)
    row = connection.execute(query.where(ITEMS.c.id == item_id, ITEMS.c.run_id == run.id)).first()
    if row is None:
        raise NotFoundError(f"Item not found in this run: {item_id}")
    return row


def give_review(
    connection: Connection, principal: Principal, place: Reviewed, new: NewAnnotation
) -> Row[Any]:
    """Create the caller's review of an item, or replace all of it, and return it."""
    before = find_review(connection, place, principal.id)
    said = {name: getattr(new, name) for name in _SAID}
    claim = _close_claims(connection, place, principal.id)
    if claim is not None:
        chosen = {name: getattr(claim, name) for name in _CHANCE}
    else:
        chosen = {} if before is not None else _find_last_chance(connection, place, principal.id)
    latest = connection.execute(select(func.max(REVIEWS.c.updated_at)).where(_is_of(REVIEWS, place))).scalar()
    moment = now() if latest is None else max(now(), latest + 1)  # also where the clock was set back
    _store(connection, place, principal.id, {**said, **chosen, "updated_at": moment})
    is_own = (_is_of(REVIEWS, place), REVIEWS.c.reviewer == principal.id)
    after = connection.execute(select(REVIEWS).where(*is_own)).one()
    _record(connection, place, ReviewChange.GIVEN, principal, principal.id, before, after)
    annotate_latest(connection, place)
    announce_run(
        connection,
        EventKind.ANNOTATION_CHANGED,
        place.run,
        {"itemId": place.item.id},
        tenants=(place.tenant or None,),
    )
    return after


def withdraw_reviews(
    connection: Connection, principal: Principal, place: Reviewed, *, reviewer: str | None = None
) -> bool:
    """Withdraw the review of one person, or all of the tenant's; return whether there was any."""
    query = select(REVIEWS).where(_is_of(REVIEWS, place))
    rows = connection.execute(
        query if reviewer is None else query.where(REVIEWS.c.reviewer == reviewer)
    ).all()
    for row in rows:
        connection.execute(delete(REVIEWS).where(REVIEWS.c.id == row.id))
        _record(connection, place, ReviewChange.WITHDRAWN, principal, row.reviewer, row, None)
    if not rows and reviewer is not None:
        return False
    if annotate_latest(connection, place, is_fallback=True) or rows:
        announce_run(
            connection,
            EventKind.ANNOTATION_DELETED,
            place.run,
            {"itemId": place.item.id},
            tenants=(place.tenant or None,),
        )
        return True
    return False


def undo_change(connection: Connection, principal: Principal, place: Reviewed) -> Row[Any] | None:
    """Undo the last change that the caller has made to its own review; return the review as it is now.

    Undone once more, the change before that is undone.

    Raises:
        ConflictError: There is nothing that could be undone.
    """
    changes = REVIEW_CHANGES.c
    query = (
        select(REVIEW_CHANGES)
        .where(
            _is_of(REVIEW_CHANGES, place),
            changes.reviewer == principal.id,
            changes.undone.is_(false()),
            changes.kind != ReviewChange.UNDONE,
        )
        .order_by(changes.created_at.desc(), changes.id.desc())
        .limit(1)
    )
    last = connection.execute(query).first()
    if last is None or last.created_by != principal.id:
        raise ConflictError("You have changed nothing on this item that could be undone")
    before = find_review(connection, place, principal.id)
    if last.before is None:
        connection.execute(delete(REVIEWS).where(_is_of(REVIEWS, place), REVIEWS.c.reviewer == principal.id))
    else:
        _store(connection, place, principal.id, _load(last.before))
    after = find_review(connection, place, principal.id)
    connection.execute(update(REVIEW_CHANGES).where(changes.id == last.id).values(undone=True))
    _record(connection, place, ReviewChange.UNDONE, principal, principal.id, before, after)
    annotate_latest(connection, place, is_fallback=True)
    kind = EventKind.ANNOTATION_DELETED if after is None else EventKind.ANNOTATION_CHANGED
    announce_run(connection, kind, place.run, {"itemId": place.item.id}, tenants=(place.tenant or None,))
    return after


def find_review(connection: Connection, place: Reviewed, reviewer: str) -> Row[Any] | None:
    """Return what a person says about an item, None for nothing."""
    query = select(REVIEWS).where(_is_of(REVIEWS, place), REVIEWS.c.reviewer == reviewer)
    row: Row[Any] | None = connection.execute(query).first()
    return row


def list_reviews(
    connection: Connection, principal: Principal, run_id: str, item_id: str
) -> Sequence[Row[Any]]:
    """Return what people say about an item, the oldest first; where reviews are blind, perhaps the own alone.

    Raises:
        NotFoundError: The run has no such item, or the caller does not see the run.
    """
    return _list(connection, principal, run_id, item_id, REVIEWS)


def list_changes(
    connection: Connection, principal: Principal, run_id: str, item_id: str
) -> Sequence[Row[Any]]:
    """Return all changes of the reviews of an item that the caller may see, the oldest first.

    Raises:
        NotFoundError: The run has no such item, or the caller does not see the run.
    """
    return _list(connection, principal, run_id, item_id, REVIEW_CHANGES)


def _list(
    connection: Connection, principal: Principal, run_id: str, item_id: str, table: Table
) -> Sequence[Row[Any]]:
    run = find_run(connection, principal, run_id)
    find_item(connection, run, item_id)
    query = select(table).where(table.c.item_id == item_id, sees_tenants(principal, table))
    if item_id in find_hidden(connection, principal, run.project_id, [item_id]):
        query = query.where(table.c.reviewer == principal.id)
    return connection.execute(query.order_by(table.c.created_at, table.c.id)).all()


def sees_tenants(principal: Principal, table: Table) -> ColumnElement[bool]:
    """The condition that a row of annotations or reviews, of a run that the caller sees, may be read."""
    if not principal.is_restricted:
        return true()
    return table.c.tenant_id.in_((principal.tenant or SHARED, SHARED))


def find_hidden(
    connection: Connection, principal: Principal, project_id: str, item_ids: Sequence[str]
) -> set[str]:
    """Return the items whose verdicts a caller may not see yet, where the reviews of a project are blind.

    That is everyone but the project's administrators, until they have said themselves what they think:
    otherwise a reviewer could read the others' verdicts where nobody knows who reads.
    """
    if principal.role_in(project_id) >= Role.ADMIN:
        return set()
    project = connection.execute(select(PROJECTS).where(PROJECTS.c.id == project_id)).first()
    if project is None or not read_settings(project).blind_review:
        return set()
    own = select(REVIEWS.c.item_id).where(
        REVIEWS.c.item_id.in_(item_ids), REVIEWS.c.reviewer == principal.id, sees_tenants(principal, REVIEWS)
    )
    return set(item_ids) - set(connection.execute(own).scalars())


def annotate_latest(connection: Connection, place: Reviewed, *, is_fallback: bool = False) -> bool:
    """Have the annotation of a tenant say what its latest review says; return whether anything changed.

    Args:
        connection: Of the transaction that has changed the reviews.
        place: The item.
        is_fallback: Whether a later review is gone, so that the annotation becomes an earlier reviewer's.
    """
    is_own = (ANNOTATIONS.c.item_id == place.item.id, ANNOTATIONS.c.tenant_id == place.tenant)
    before = connection.execute(select(ANNOTATIONS).where(*is_own)).first()
    latest = connection.execute(
        select(REVIEWS)
        .where(_is_of(REVIEWS, place))
        .order_by(REVIEWS.c.updated_at.desc(), REVIEWS.c.id.desc())
        .limit(1)
    ).first()
    if latest is None:
        if before is None:
            return False
        connection.execute(delete(ANNOTATIONS).where(*is_own))
    else:
        said = {name: getattr(latest, name) for name in _ANNOTATED} | {"updated_at": latest.updated_at}
        author = {"created_by": latest.reviewer, "created_at": latest.created_at}
        statement = INSERTS[connection.dialect.name](ANNOTATIONS).values(
            item_id=place.item.id, tenant_id=place.tenant, id=new_id(), **author, **said
        )
        changed = said | author if is_fallback else said
        keys = ["item_id", "tenant_id"]
        connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=changed))
    count_verdict(
        connection,
        place.run,
        place.item,
        place.tenant,
        before=None if before is None else before.verdict,
        after=None if latest is None else latest.verdict,
    )
    return True


def _is_of(table: Table, place: Reviewed) -> ColumnElement[bool]:
    return and_(table.c.item_id == place.item.id, table.c.tenant_id == place.tenant)


def _store(connection: Connection, place: Reviewed, reviewer: str, values: dict[str, Any]) -> None:
    statement = INSERTS[connection.dialect.name](REVIEWS).values(
        id=new_id(),
        item_id=place.item.id,
        run_id=place.run.id,
        project_id=place.run.project_id,
        tenant_id=place.tenant,
        reviewer=reviewer,
        created_at=values["updated_at"],
        **values,
    )
    keys = ["item_id", "tenant_id", "reviewer"]
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=values))


def _close_claims(connection: Connection, place: Reviewed, reviewer: str) -> Row[Any] | None:
    """Remove the claim of a reviewer, who is done with the item; return it, None where there was none."""
    is_own = (_is_of(REVIEW_CLAIMS, place), REVIEW_CLAIMS.c.reviewer == reviewer)
    row = connection.execute(select(REVIEW_CLAIMS).where(*is_own)).first()
    if row is not None:
        connection.execute(delete(REVIEW_CLAIMS).where(*is_own))
    return row


def _record(
    connection: Connection,
    place: Reviewed,
    kind: ReviewChange,
    principal: Principal,
    reviewer: str,
    before: Row[Any] | None,
    after: Row[Any] | None,
) -> None:
    connection.execute(
        insert(REVIEW_CHANGES).values(
            id=new_id(),
            item_id=place.item.id,
            run_id=place.run.id,
            project_id=place.run.project_id,
            tenant_id=place.tenant,
            reviewer=reviewer,
            kind=kind,
            before=_dump(before),
            after=_dump(after),
            created_by=principal.id,
            created_at=now(),
            undone=False,
        )
    )


def _dump(row: Row[Any] | None) -> str | None:
    """What a review says and since when, as a list: texts that are JSON stay as they are inside."""
    return None if row is None else json.dumps([getattr(row, name) for name in _DUMPED])


def _load(text: str) -> dict[str, Any]:
    return dict(zip(_DUMPED, json.loads(text), strict=False))


def _find_last_chance(connection: Connection, place: Reviewed, reviewer: str) -> dict[str, Any]:
    """How the item was chosen for a person who has taken its review back, as that review said."""
    changes = REVIEW_CHANGES.c
    query = (
        select(changes.before)
        .where(_is_of(REVIEW_CHANGES, place), changes.reviewer == reviewer, changes.before.is_not(None))
        .order_by(changes.created_at.desc(), changes.id.desc())
        .limit(1)
    )
    text = connection.execute(query).scalar()
    last = {} if text is None else _load(text)
    return {name: last[name] for name in _CHANCE if name in last}
