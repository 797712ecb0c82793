"""Rows of the audit log on the wire: as JSON, and as files."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Literal

from fastapi.responses import StreamingResponse
from sqlalchemy import Row

from dokimos.datasets._writers import format_record
from dokimos.server._api.http.json_body import WireModel
from dokimos.server._api.http.json_text import encode_json
from dokimos.server._db.clock import format_time
from dokimos.server._db.database import Database, Lane
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.audit.audit_log import AUDIT_ORDERS, AuditFilter, list_entries
from dokimos.server._services.list_pages import ListPage

ExportFormat = Literal["jsonl", "csv"]
_TYPES: Final = {"jsonl": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}
AUDIT_EXPORT_CONTENT: Final[dict[str, dict[str, Any]]] = {
    kind.partition(";")[0]: {"schema": {"type": "string"}} for kind in _TYPES.values()
}
"""What the description of the API says about the files."""
_ROWS: Final = 1000
"""Rows of the log that are read at a time."""
_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")


class AuditPrincipal(WireModel):
    """Who did something."""

    kind: str
    """`key`, `user`, `system`, `anonymous`, `worker` or `command`."""
    id: str
    name: str | None


class AuditTarget(WireModel):
    """What it was done to, as far as the request or the server said."""

    kind: str | None
    id: str | None
    name: str | None


class AuditAnswer(WireModel):
    """A row of the audit log."""

    id: str
    time: str
    last_time: str
    """When it happened last, where `count` is more than 1."""
    count: int
    principal: AuditPrincipal
    tenant_id: str | None
    address: str | None
    request_id: str | None
    """That of the first request, where there were several."""
    action: str
    target: AuditTarget
    project_id: str | None
    outcome: Literal["ok", "refused", "failed"]
    status: int | None
    details: dict[str, Any]


def audit_answer(row: Row[Any]) -> dict[str, Any]:
    """Return a row as `AuditAnswer` describes it."""
    return {
        "id": row.id,
        "time": format_time(row.created_at),
        "lastTime": format_time(row.last_at),
        "count": row.times,
        "principal": {"kind": row.principal_kind, "id": row.principal_id, "name": row.principal_name},
        "tenantId": row.tenant_id,
        "address": row.address,
        "requestId": row.request_id,
        "action": row.action,
        "target": {"kind": row.target_kind, "id": row.target_id, "name": row.target_name},
        "projectId": row.project_id,
        "outcome": row.outcome,
        "status": row.status,
        "details": json.loads(row.details or "{}"),
    }


def export_entries(
    database: Database, caller: Principal, chosen: AuditFilter, format: ExportFormat
) -> StreamingResponse:
    """Return all rows that the caller may see as a file, the newest first, read as it is sent."""
    pages = _read_pages(database, caller, chosen)
    write = {"jsonl": _write_jsonl, "csv": _write_csv}[format]
    headers = {"Content-Disposition": f'attachment; filename="audit-log.{format}"'}
    return StreamingResponse(write(pages), media_type=_TYPES[format], headers=headers)


async def _read_pages(
    database: Database, caller: Principal, chosen: AuditFilter
) -> AsyncIterator[list[dict[str, Any]]]:
    after: str | None = None
    while True:
        page = ListPage(AUDIT_ORDERS.parse(None), _ROWS, after)
        rows = await database.read(_reader(caller, chosen, page), Lane.WORK)
        if rows:
            yield [audit_answer(row) for row in rows]
        if len(rows) < _ROWS:
            return
        after = rows[-1].id


def _reader(caller: Principal, chosen: AuditFilter, page: ListPage) -> Callable[[Any], Any]:
    return lambda connection: list_entries(connection, caller, chosen, page)


async def _write_jsonl(pages: AsyncIterator[list[dict[str, Any]]]) -> AsyncIterator[bytes]:
    async for answers in pages:
        yield b"".join(encode_json(answer) + b"\n" for answer in answers)


async def _write_csv(pages: AsyncIterator[list[dict[str, Any]]]) -> AsyncIterator[bytes]:
    yield format_record(_COLUMNS, ",").encode()
    async for answers in pages:
        records = (format_record(_cells(answer), ",") for answer in answers)
        yield "".join(records).encode()


_COLUMNS: Final = (
    "id", "time", "lastTime", "count", "principalKind", "principalId", "principalName", "tenantId",
    "address", "requestId", "action", "targetKind", "targetId", "targetName", "projectId", "outcome",
    "status", "details",
)  # fmt: skip


def _cells(answer: dict[str, Any]) -> list[str | None]:
    flat = dict(answer)
    for part in ("principal", "target"):
        flat |= {f"{part}{name.capitalize()}": value for name, value in flat.pop(part).items()}
    flat["details"] = json.dumps(answer["details"], ensure_ascii=False) if answer["details"] else None
    return [_escape_formula(flat[name]) for name in _COLUMNS]


def _escape_formula(value: object) -> str | None:
    """A cell; what a spreadsheet would run as a formula gets an apostrophe in front."""
    if value is None:
        return None
    text = str(value)
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text
