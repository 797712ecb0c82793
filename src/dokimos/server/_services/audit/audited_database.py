"""The database as requests and workers reach it: what they change is in the audit log.

`AuditedDatabase` adds a row to the first transaction of each request that asks for a change, so that no route
can change something and forget to say so: either both are on disk, or neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import Final, TypeVar

from sqlalchemy import Connection, select

from dokimos.server._db.database import Database
from dokimos.server._db.database_layer import DatabaseLayer
from dokimos.server._db.outbox import messages_of
from dokimos.server._db.tables import RUNS
from dokimos.server._services.accounts.principal import Principal, worker
from dokimos.server._services.audit.audit_actions import ITEMS_ACTION, NO_TARGET, Target, action_of, target_of
from dokimos.server._services.audit.audit_log import AuditEntry, add_entry, dump_details
from dokimos.server._services.audit.audit_targets import AuditNote
from dokimos.server._services.audit.audit_trail import AuditTrail
from dokimos.server._services.events import Event, EventKind
from dokimos.server._services.request_context import RequestContext, current_request

T = TypeVar("T")
_DERIVED: Final = frozenset(
    (EventKind.COMPARISON_READY, EventKind.VERDICT_READY, EventKind.RUN_ITEMS, EventKind.ALERT_UPDATED)
)
"""Events of what the server computes, which changes nothing that anybody sent."""
CURRENT_WORK: Final[ContextVar[str]] = ContextVar("dokimos_work", default="server")
"""The name of the work that the server is doing by itself."""


class AuditedDatabase(DatabaseLayer):
    """A database whose changes are in the audit log: those of requests, and the server's own."""

    def __init__(self, database: Database, trail: AuditTrail) -> None:
        super().__init__(database)
        self._trail = trail

    async def write(self, change: Callable[[Connection], T], *, background: bool = False) -> T:
        if background:  # a part of something long, whose last part has the row
            return await self._database.write(change, background=True)
        context = current_request()
        if context is None:
            return await self._database.write(lambda connection: _change_as_worker(connection, change))
        if context.is_recorded or not context.is_change:
            return await self._database.write(change)
        if self._trail.has_row(context):
            counted = await self._database.write(change)
            self._trail.count_batch(context)
            return counted

        def change_and_record(connection: Connection) -> tuple[T, str, AuditEntry]:
            result = change(connection)
            entry = describe_change(connection, context)
            return result, add_entry(connection, entry, request_id=context.request_id), entry

        result, row_id, entry = await self._database.write(change_and_record)
        context.is_recorded = True
        self._trail.note_row(context, row_id, entry)
        return result


def describe_change(connection: Connection, context: RequestContext) -> AuditEntry:
    """Return what the audit log says about a change, by its route, its events and its notes."""
    principal = context.principal
    action = action_of(context.method, context.route)
    target = target_of(context.route, context.parameters)
    messages = messages_of(connection)
    events = [message for message in messages if isinstance(message, Event)]
    note = next((message for message in messages if isinstance(message, AuditNote)), None)
    project_id, tenants = _find_owners(connection, events, action, target)
    if note is not None:
        target = Target(note.kind, note.id or target.id, note.name or target.name)
        tenants = tenants if note.tenant is None else {note.tenant}
    else:
        target = _target_of_events(events, action) or target
    return AuditEntry(
        principal_kind=principal.kind,
        principal_id=principal.id,
        principal_name=principal.name,
        # What somebody who sees everything does to the rows of one tenant, that tenant may know.
        tenant=principal.tenant if principal.is_restricted or len(tenants) != 1 else tenants.pop(),
        address=context.address,
        action=action,
        target=target,
        project_id=project_id,
        status=context.status or None,
        details=None if note is None else dump_details(note.details),
    )


def _find_owners(
    connection: Connection, events: Sequence[Event], action: str, target: Target
) -> tuple[str | None, set[str | None]]:
    """The project in which something was changed, and the tenants whose rows were."""
    if action == ITEMS_ACTION:  # whose event says neither
        columns = (RUNS.c.project_id, RUNS.c.tenant_id)
        run = connection.execute(select(*columns).where(RUNS.c.id == target.id)).one()
        return run.project_id, {run.tenant_id}
    project_id = next((event.project_id for event in events if event.project_id is not None), None)
    return project_id, {tenant for event in events for tenant in event.tenants}


def _target_of_events(events: Iterable[Event], action: str) -> Target | None:
    """What an action has created, by the event that says so."""
    noun, _, verb = action.rpartition(".")
    kind = noun.rpartition(".")[2]
    if verb != "create":
        return None
    for event in events:
        if event.kind == f"{kind}.created":
            created = event.describe().get(f"{kind}Id")
            return None if created is None else Target(kind, str(created))
    return None


def _change_as_worker(connection: Connection, change: Callable[[Connection], T]) -> T:
    """Run a change of the server's own; each event that it announces becomes a row."""
    result = change(connection)
    principal = worker(CURRENT_WORK.get())
    for event in messages_of(connection):
        if isinstance(event, Event) and event.kind not in _DERIVED and not event.is_progress:
            add_entry(connection, _describe_event(event, principal))
    return result


def _describe_event(event: Event, principal: Principal) -> AuditEntry:
    ids = {"run": event.run_id, "experiment": event.experiment_id, "project": event.project_id}
    kind = next((kind for kind, value in ids.items() if value is not None), None)
    return AuditEntry(
        principal_kind=principal.kind,
        principal_id=principal.id,
        tenant=event.tenants[0] if len(set(event.tenants)) == 1 else None,
        action=event.kind,
        target=Target(kind, ids[kind]) if kind is not None else NO_TARGET,
        project_id=event.project_id,
    )
