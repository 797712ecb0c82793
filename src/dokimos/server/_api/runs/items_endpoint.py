"""The hot route, `POST /api/v1/runs/{runId}/items`, without the framework around it.

Matching a route and resolving its dependencies costs about as much CPU as storing ten items does
(`benchmarks/server_ingestion.py` measures both). This middleware answers the one request that comes by the
thousand; all others go on to the framework, where the same route is described, and answered by the same
function.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Final

from fastapi.responses import Response
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from dokimos.server._api.http.access import Access, authorize_rule
from dokimos.server._api.http.error_responses import answer_error
from dokimos.server._api.http.idempotency import check_key, hash_body
from dokimos.server._api.http.json_body import read_json
from dokimos.server._api.runs.item_bodies import read_items
from dokimos.server._db.database import Database, DatabaseUnavailable, ReadTooSlow
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.errors import ServiceError
from dokimos.server._services.metrics import Metrics
from dokimos.server._services.request_context import enter_route
from dokimos.server._services.runs.items import RepeatedBatchError, add_items

_ROUTE: Final = "/api/v1/runs/{runId}/items"
_PATH: Final = re.compile(
    r"/api/v1/runs/([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})/items", re.ASCII
)


class ItemsMiddleware:
    """Answers the hot route, and passes on everything else."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_candidate = scope["type"] == "http" and scope["method"] == "POST"
        match = _PATH.fullmatch(scope["path"]) if is_candidate else None
        if match is None:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        enter_route(_ROUTE, {"runId": match[1]}, 201)
        try:
            caller = await authorize_rule(request, Access.PROJECT_WRITE)
            key = check_key(request.headers.get("idempotency-key"))
            response = await store_items(request, caller, match[1], key)
        except (ServiceError, DatabaseUnavailable, ReadTooSlow) as error:
            response = answer_error(error)
        await response(scope, receive, send)


async def store_items(request: Request, caller: Principal, run_id: str, key: str | None) -> Response:
    """Store the items of a request; when this returns, they are on disk."""
    value = await read_json(request)
    items = read_items(value)
    body_hash = "" if key is None else hash_body(value)
    database: Database = request.app.state.database
    with suppress(RepeatedBatchError):
        await database.write(
            lambda connection: add_items(
                connection, caller, run_id, items, idempotency_key=key, body_hash=body_hash
            )
        )
        metrics: Metrics = request.app.state.metrics
        metrics.items.add(number=len(items))
        metrics.batches.add()
    return Response(b'{"status":"ok"}', 201, media_type="application/json")
