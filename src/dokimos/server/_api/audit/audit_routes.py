"""Routes of the audit log, which only read: rows are added by what happens, and by nothing else."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from starlette.requests import Request

from dokimos.server._api.audit.audit_answers import (
    AUDIT_EXPORT_CONTENT,
    AuditAnswer,
    ExportFormat,
    audit_answer,
    export_entries,
)
from dokimos.server._api.http.access import Access, Caller, access
from dokimos.server._api.http.admission import LongKind, slot_of
from dokimos.server._api.http.list_parameters import MAX_ROWS, sort_query
from dokimos.server._api.http.parameters import Search, Store
from dokimos.server._db.clock import to_microseconds
from dokimos.server._db.database import Lane
from dokimos.server._services.audit.audit_log import AUDIT_ORDERS, AuditFilter, Outcome, list_entries
from dokimos.server._services.audit.audit_trail import AuditTrail
from dokimos.server._services.list_pages import ListPage

ROUTER = APIRouter(prefix="/api/v1/audit-log", tags=["Audit log"])
_DEFAULT_ROWS: Final = 100
_MAX_LENGTH: Final = 255
_SORT: Final[Any] = sort_query(AUDIT_ORDERS)
_EXPORT: Final[dict[int | str, dict[str, Any]]] = {200: {"content": AUDIT_EXPORT_CONTENT}}
_PRINCIPAL: Final = "The id, the name or the kind of who did it."
_ACTION: Final = "The action, such as `run.delete`, or its beginning, such as `run`."
_TARGET: Final = "The id or the name of what it was done to."
_PROJECT: Final = "The id or the name of a project: what was done to it, and inside it."


async def _read_filter(
    principal: Annotated[str | None, Query(max_length=_MAX_LENGTH, description=_PRINCIPAL)] = None,
    action: Annotated[str | None, Query(max_length=_MAX_LENGTH, description=_ACTION)] = None,
    target: Annotated[str | None, Query(max_length=_MAX_LENGTH, description=_TARGET)] = None,
    project: Annotated[str | None, Query(max_length=_MAX_LENGTH, description=_PROJECT)] = None,
    outcome: Outcome | None = None,
    since: Annotated[datetime | None, Query(alias="from", description="The earliest time.")] = None,
    until: Annotated[datetime | None, Query(alias="to", description="The first time too late.")] = None,
    search: Search = None,
) -> AuditFilter:
    return AuditFilter(
        principal=principal,
        action=action,
        target=target,
        project=project,
        outcome=outcome,
        since=None if since is None else to_microseconds(since),
        until=None if until is None else to_microseconds(until),
        search=search,
    )


_Filter = Annotated[AuditFilter, Depends(_read_filter)]


async def _read_page(
    sort: str | None = _SORT,
    limit: Annotated[int, Query(ge=1, le=MAX_ROWS, description="Rows at most.")] = _DEFAULT_ROWS,
    after: Annotated[UUID | None, Query(description="The id of the last row of the page before.")] = None,
) -> ListPage:
    return ListPage(AUDIT_ORDERS.parse(sort), limit, None if after is None else str(after))


@ROUTER.get("", response_model=list[AuditAnswer])
@access(Access.ADMIN)
async def get_audit_log(
    request: Request,
    caller: Caller,
    store: Store,
    chosen: _Filter,
    page: Annotated[ListPage, Depends(_read_page)],
) -> list[dict[str, Any]]:
    """List who did what, the newest first: each change, and what was refused.

    An administrator of a tenant sees what its tenant did and what was done to its rows.
    """
    await _write_what_is_counted(request)
    rows = await store.read(
        lambda connection: list_entries(connection, caller, chosen, page),
        Lane.SEARCH if chosen.reads_all else Lane.PAGE,
    )
    return [audit_answer(row) for row in rows]


@ROUTER.get("/export", response_class=Response, responses=_EXPORT)
@access(Access.ADMIN)
async def export_audit_log(
    request: Request, caller: Caller, store: Store, chosen: _Filter, format: ExportFormat = "jsonl"
) -> Response:
    """Return all of it that the filters choose as a file, the newest first."""
    await _write_what_is_counted(request)
    await slot_of(request).turn_into(LongKind.EXPORT)
    return export_entries(store, caller, chosen, format)


async def _write_what_is_counted(request: Request) -> None:
    """Write what this server has counted, so that the answer holds everything until now."""
    trail: AuditTrail = request.app.state.audit_trail
    await trail.flush(request.app.state.unaudited_database)
