"""The routes of exporters without the framework around them, as `runs/items_endpoint.py` does it for items.

They come all the time. The framework describes the same routes, and answers those of their requests that are
unusual, with the same functions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from dokimos.server._api.http.access import Access, authorize_rule
from dokimos.server._api.http.error_responses import answer_error
from dokimos.server._api.traces.otlp_routes import export_logs, export_traces, ingest_traces
from dokimos.server._db.database import DatabaseUnavailable, ReadTooSlow
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.errors import ServiceError
from dokimos.server._services.request_context import enter_route

_ENDPOINTS: Final[Mapping[str, Callable[[Request, Principal], Awaitable[Response]]]] = {
    "/api/v1/traces": ingest_traces,
    "/v1/traces": export_traces,
    "/v1/logs": export_logs,
}


class ExportsMiddleware:
    """Answers exports of traces and logs, and passes on everything else."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The framework says which parameters of a query are unknown.
        is_candidate = scope["type"] == "http" and scope["method"] == "POST" and not scope["query_string"]
        endpoint = _ENDPOINTS.get(scope["path"]) if is_candidate else None
        if endpoint is None:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        enter_route(scope["path"], {}, 200)
        try:
            caller = await authorize_rule(request, Access.PROJECT_WRITE)
            response = await endpoint(request, caller)
        except (ServiceError, DatabaseUnavailable, ReadTooSlow) as error:
            response = answer_error(error)
        await response(scope, receive, send)
