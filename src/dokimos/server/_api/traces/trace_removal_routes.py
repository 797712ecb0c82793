"""The route that deletes a trace, and what the deletion of a project does to its traces."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response
from sqlalchemy import Connection, Row
from starlette.datastructures import State
from starlette.requests import Request

from dokimos.server._api.http.access import Access, Caller, access
from dokimos.server._api.http.parameters import Store
from dokimos.server._api.traces.trace_parameters import TraceKey
from dokimos.server._db.database import Database
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.audit.audit_targets import describe_target
from dokimos.server._services.projects.projects import find_project
from dokimos.server._services.traces.trace_removals import (
    check_holds_no_foreign_traces,
    find_deletable_trace,
    mark_traces_of,
    note_removed_project,
)
from dokimos.server._services.traces.trace_retention import mark_traces

ROUTER = APIRouter(prefix="/api/v1/traces", tags=["Traces"])
_STEPS: int = 20
"""How many steps a request does of marking traces; the worker does the rest."""


@ROUTER.delete("/{traceId}", status_code=204)
@access(Access.PROJECT_WRITE)
async def remove_trace(request: Request, caller: Caller, store: Store, trace: TraceKey) -> Response:
    """Delete a trace with its spans: nobody reads it any more, and the server removes it soon."""
    traces: Database = request.app.state.traces
    row = await traces.read(lambda connection: find_deletable_trace(connection, caller, trace))
    # The audit log is in the other database, and first: nothing is gone that it does not name.
    await store.write(lambda connection: _describe(connection, row))
    await traces.write(lambda connection: mark_traces(connection, [row.id]))
    return Response(status_code=204)


def _describe(connection: Connection, trace: Row[Any]) -> None:
    describe_target(
        connection,
        kind="trace",
        id=trace.id,
        name=trace.trace_id,
        tenant=trace.tenant_id,
        details={"spans": trace.span_count},
    )


async def prepare_removal(state: State, caller: Principal, name: str) -> str:
    """Note that a project is about to be deleted, so that its traces go with it; return its id.

    Raises:
        NotFoundError: There is none of that name that the caller sees.
        ForbiddenError: The caller may not change it.
        ConflictError: It holds traces of other tenants.
    """
    project = await state.database.read(lambda connection: find_project(connection, caller, name))
    caller.check_may_write(project.tenant_id, f"The project '{name}'", project=project.id)
    project_id: str = project.id

    def check_and_note(connection: Connection) -> None:
        check_holds_no_foreign_traces(connection, caller, project)
        note_removed_project(connection, project_id)

    await state.traces.write(check_and_note)
    return project_id


async def remove_traces_of(state: State, project_id: str) -> None:
    """Let nobody read the traces of a project any more that has been deleted: the newest ones at once."""
    state.trace_ingestion.projects.forget()
    for _ in range(_STEPS):
        if not await state.traces.write(lambda connection: mark_traces_of(connection, project_id)):
            return
